//! What a run needs besides the stack: a clock and a device. Simulation and real I/O each provide
//! one; the loop that drives them is the same.

use elevon_cache::FrameId;
use elevon_cache::page_cache::ByteCopy;
use elevon_core::driver::{Completion, Driver};
use elevon_core::units::{Instant, TaskId};

/// A device with its clock.
pub trait Backend: Driver {
    /// The time. Never goes backwards; in virtual time it stands still except in [`Self::wait`].
    fn now(&mut self) -> Instant;

    /// The next command that has finished by now.
    fn poll_completion(&mut self) -> Option<Completion>;

    /// Waits until a completion is there or the time has come, whichever is first. With `None` it
    /// waits for a completion only. Returns false where nothing can ever happen any more
    /// (nothing in flight, no time given), or where the wait was interrupted (see
    /// [`Self::interrupted`]).
    fn wait(&mut self, until: Option<Instant>) -> bool;

    /// Whether the user asked to stop (SIGINT); the run then drains and reports.
    fn interrupted(&self) -> bool {
        false
    }

    /// Makes room for a task's buffers before its first I/O: `slots` buffers of `bytes` each,
    /// tokens `0..slots`.
    fn prepare_buffers(&mut self, _task: TaskId, _slots: u32, _bytes: u64) {}

    /// The buffer of a task's I/O, where there are real bytes; `None` in simulation. The I/O must
    /// not be in flight.
    fn buffer(&mut self, _task: TaskId, _token: u64) -> Option<&mut [u8]> {
        None
    }

    /// The data of a bio of the page cache ([`crate::token::Token::Cache`]) lies in these frames, a
    /// page in each, until its number is bound again. Only with a page cache that has bytes.
    fn bind_frames(&mut self, _bio: u32, _frames: &[FrameId]) {}

    /// Moves bytes between a frame of the page cache and the buffer of an I/O. Neither is in
    /// flight, but that a frame may be read while it is being written to the device.
    fn move_bytes(&mut self, _copy: &ByteCopy) {}
}
