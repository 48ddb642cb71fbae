//! Records block events of a device through the kernel's tracefs.
//!
//! [`Session`] makes a trace instance of its own, so that no other tracing is touched, and enables
//! the block events of some disks there. Records are decoded by the layout that the kernel itself
//! describes.
//!
//! - [`Recorder`] moves the pages of the kernel's ring buffers as they are to unnamed files. When
//!   recording has ended, [`Recording::write`] decodes them, merges them by time, and writes
//!   ftrace text whose times are whole nanoseconds. The text's head says how the device was set up
//!   ([`crate::Recorded`]). Cost while recording: one read of a page for about 60 events.
//! - [`Live`] decodes pages as they come, and delivers events in order of time. [`History`] keeps
//!   the last ones for a trace.

mod decode;
mod error;
mod history;
mod instance;
mod layout;
mod live;
mod page;
mod recorder;
mod recording;
mod session;
mod sysfs;
#[cfg(test)]
mod tests;
mod threads;

pub use error::CaptureError;
pub use history::History;
pub use instance::{Tracefs, tracefs_of};
pub use layout::LayoutError;
pub use live::Live;
pub use recorder::Recorder;
pub use recording::{Lost, Recording, Written};
pub use session::{CaptureOptions, Session};
pub use sysfs::{Disk, DiskError};
