//! What lies between processes and stack: nothing, or file I/O through a page cache.
//!
//! A layer passes through what it does not change: every function of [`Layer`] has a body that does
//! so, and a run without a page cache has no code for one. Functions that move I/O take the whole
//! loop, as they submit to the stack and hand I/O back to processes.

use elevon_core::stack::Done;
use elevon_core::units::{Instant, TaskId};

use super::Runner;
use crate::backend::Backend;
use crate::buffered::BufferedIo;

/// What lies between processes and stack.
pub(super) trait Layer<S>: Sized {
    /// The run begins.
    fn on_start(&mut self, _now: Instant) {}

    /// Time has come to `now`, where nothing has happened yet.
    fn on_time(&mut self, _now: Instant) {}

    /// All jobs are over.
    fn on_end(&mut self, _now: Instant) {}

    /// When [`Self::handle_timers`] has work next.
    fn next_timer(&self) -> Option<Instant> {
        None
    }

    /// Does what is due by time.
    fn handle_timers(&mut self, _now: Instant) {}

    /// A process is over.
    fn on_process_over(&mut self, _task: usize) {}

    /// The page cache's layer, for those who look at the run.
    fn buffered(&mut self) -> Option<&mut BufferedIo> {
        None
    }

    /// Does what comes before the first I/O of a process; false if the process has to wait for
    /// that.
    fn prepare<B: Backend>(_runner: &mut Runner<'_, B, Self, S>, _now: Instant, _task: usize) -> bool {
        true
    }

    /// Takes the batch that a process has sealed; false, and nothing done, if it goes to the stack
    /// as it is.
    fn submit<B: Backend>(_runner: &mut Runner<'_, B, Self, S>, _task: usize) -> bool {
        false
    }

    /// Carries what the layer holds up and down until nothing moves. True if anything did.
    fn pump<B: Backend>(_runner: &mut Runner<'_, B, Self, S>, _now: Instant) -> bool {
        false
    }

    /// Takes what the stack has ended; false if it goes to its process as it is.
    fn take_done<B: Backend>(_runner: &mut Runner<'_, B, Self, S>, _now: Instant, _done: &Done) -> bool {
        false
    }

    /// Takes notice of a tag that a task slept for; false if its process is to be told.
    fn unblock<B: Backend>(_runner: &mut Runner<'_, B, Self, S>, _now: Instant, _task: TaskId) -> bool {
        false
    }

    /// After the last job: what is still to be written goes to the device.
    fn write_back<B: Backend>(_runner: &mut Runner<'_, B, Self, S>) {}
}

/// Nothing: processes do direct I/O of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoLayer;

impl<S> Layer<S> for NoLayer {}
