//! Records block events of a device through the kernel's tracefs.
//!
//! [`Session`] makes a trace instance of its own, so that no other tracing is touched, enables
//! the block events of one device there, and moves the pages of the kernel's ring buffers as they
//! are to unnamed files ([`Session::drain`]). Only when recording has ended are they decoded
//! ([`Recording::write`]): by the layout that the kernel itself describes, merged by time, and
//! written as ftrace text whose times are whole nanoseconds. The text's head says how the device
//! was set up ([`crate::Recorded`]).
//!
//! Cost while recording: one read of a page for about 60 events, and nothing for each event.

mod decode;
mod error;
mod instance;
mod layout;
mod page;
mod recording;
mod session;
mod sysfs;
#[cfg(test)]
mod tests;

pub use error::CaptureError;
pub use instance::{Tracefs, tracefs_of};
pub use layout::LayoutError;
pub use recording::{Lost, Recording, Written};
pub use session::{CaptureOptions, Session};
pub use sysfs::{Disk, DiskError};
