//! A program of the user in a real Linux kernel, in virtual time, on a simulated disk.
//!
//! The kernel is user-mode Linux, an ordinary process. Its clock is kept here, and so is
//! its disk: a virtio-blk device whose requests go to a device model of Elevon. So the block
//! layer, the scheduler and the file system are the kernel's own; the disk is one that the machine
//! does not have; and each run is the same.
//!
//! [`lab`] runs a program, and [`power`] makes power cuts between any two of its writes.
#![forbid(unsafe_code)]

mod clock;
mod disk;
mod error;
pub mod figures;
pub mod files;
mod front_end;
mod history;
mod image;
mod kernels;
pub mod lab;
mod launch;
mod machine;
pub mod one_cpu;
pub mod power;
mod ring;
mod script;
mod settings;
mod shared;
mod terminal;

pub use disk::DiskSpec;
pub use error::TwinError;
pub use history::{Event, History};
pub use image::Image;
pub use kernels::{built_kernels, find_kernel, kernels_folder};
pub use machine::Stream;
pub use script::FileSystem;
pub use settings::Settings;
