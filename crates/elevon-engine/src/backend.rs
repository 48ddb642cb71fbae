//! The parts of a run besides the stack: a clock and a device. Simulation and real I/O each provide
//! one; the loop that drives them is the same.

use elevon_cache::FrameId;
use elevon_cache::page_cache::ByteCopy;
use elevon_core::driver::{Completion, Driver};
use elevon_core::units::{Instant, TaskId};

/// A device with its clock.
pub trait Backend: Driver {
    /// True if [`Self::wait`] costs nothing when a completion is there or the time has come: the
    /// loop then waits after every step, instead of looking if there is more to do.
    const WAITS_FREELY: bool = false;

    /// False if [`Self::buffer`] never returns a buffer: the loop then need not look for one.
    const HAS_BYTES: bool = true;

    /// Returns true if a process that was woken runs later ([`Driver::wake_delay`]).
    fn delays_wakes(&self) -> bool {
        false
    }

    /// Returns the time. It never goes backwards; in virtual time it changes only in
    /// [`Self::wait`].
    fn now(&mut self) -> Instant;

    /// Returns the next command that has finished by now.
    fn poll_completion(&mut self) -> Option<Completion>;

    /// Waits until a completion is there or the time `until` has come, whichever is first; with
    /// `None`, for a completion only. Returns false if nothing can happen any more, which is so if
    /// nothing is in flight and no time is given. Returns false too if the wait was interrupted;
    /// see [`Self::interrupted`].
    fn wait(&mut self, until: Option<Instant>) -> bool;

    /// Returns when the device next has something to do, `Instant::MAX` if never. Asked only where
    /// [`Self::WAITS_FREELY`].
    fn next_event(&mut self) -> Instant {
        Instant::ZERO
    }

    /// As [`Self::wait`], until an instant that is later than now but not after
    /// [`Self::next_event`]. Called only
    /// where [`Self::WAITS_FREELY`].
    #[inline]
    fn wait_until(&mut self, at: Instant) {
        self.wait(Some(at));
    }

    /// Returns true if the user asked to stop (SIGINT). The run then waits for its I/O and reports.
    fn interrupted(&self) -> bool {
        false
    }

    /// Prepares a task's buffers before its first I/O: `slots` buffers of `bytes` each, with tokens
    /// `0..slots`.
    fn prepare_buffers(&mut self, _task: TaskId, _slots: u32, _bytes: u64) {}

    /// Returns the buffer of a task's I/O, if there are real bytes; `None` in simulation. The I/O
    /// must not be in flight.
    fn buffer(&mut self, _task: TaskId, _token: u64) -> Option<&mut [u8]> {
        None
    }

    /// Binds a bio of the page cache ([`crate::Token::Cache`]) to the frames that hold its
    /// data, one page each, until its number is bound again. Called only with a page cache that has
    /// bytes.
    fn bind_frames(&mut self, _bio: u32, _frames: &[FrameId]) {}

    /// Moves bytes between a frame of the page cache and the buffer of an I/O. Neither is in
    /// flight, except that a frame may be read while it is being written to the device.
    fn move_bytes(&mut self, _copy: &ByteCopy) {}
}

/// A device that is lent: its owner has it again after the run.
impl<B: Backend> Backend for &mut B {
    const WAITS_FREELY: bool = B::WAITS_FREELY;
    const HAS_BYTES: bool = B::HAS_BYTES;

    #[inline]
    fn delays_wakes(&self) -> bool {
        (**self).delays_wakes()
    }
    #[inline(always)]
    fn now(&mut self) -> Instant {
        (**self).now()
    }
    #[inline(always)]
    fn poll_completion(&mut self) -> Option<Completion> {
        (**self).poll_completion()
    }
    #[inline(always)]
    fn wait(&mut self, until: Option<Instant>) -> bool {
        (**self).wait(until)
    }
    #[inline(always)]
    fn next_event(&mut self) -> Instant {
        (**self).next_event()
    }
    #[inline(always)]
    fn wait_until(&mut self, at: Instant) {
        (**self).wait_until(at);
    }
    #[inline]
    fn interrupted(&self) -> bool {
        (**self).interrupted()
    }
    fn prepare_buffers(&mut self, task: TaskId, slots: u32, bytes: u64) {
        (**self).prepare_buffers(task, slots, bytes);
    }
    #[inline]
    fn buffer(&mut self, task: TaskId, token: u64) -> Option<&mut [u8]> {
        (**self).buffer(task, token)
    }
    fn bind_frames(&mut self, bio: u32, frames: &[FrameId]) {
        (**self).bind_frames(bio, frames);
    }
    fn move_bytes(&mut self, copy: &ByteCopy) {
        (**self).move_bytes(copy);
    }
}
