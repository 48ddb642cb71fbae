//! Sources of I/O as state machines, and the one loop that drives them against a stack and a back
//! end.
//!
//! Nothing here reads a clock or touches a device: time comes in as an argument, I/O goes out as
//! values. Read in this order.
#![forbid(unsafe_code)]

// What a process does next.
pub mod chance;
mod distribution;
mod free_map;
mod math;
mod pace;
pub mod pattern;
pub mod region;

// One process, and what it keeps of its I/O.
pub mod cpu;
pub mod logs;
mod measure;
pub mod process;
pub mod replay;
pub mod source;
pub mod verify;

// All of them, and the loop.
pub mod backend;
pub mod buffered;
pub mod by_owner;
pub mod cache_series;
pub mod jobs;
pub mod run;
pub mod series;
pub mod settings;
pub mod tenants;
pub mod token;
mod wakeups;

mod error;
pub use error::WorkloadError;
