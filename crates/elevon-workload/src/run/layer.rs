//! The layer between processes and stack: none, or file I/O through a page cache.
//!
//! The default of every function of [`Layer`] changes nothing, so a run without a page cache has no
//! code for it. Functions that move I/O take the whole loop, because they submit to the stack and
//! return I/O to processes.

use elevon_core::stack::Done;
use elevon_core::units::{Instant, TaskId};
use elevon_engine::Backend;

use super::Runner;
use crate::buffered::BufferedIo;

/// The layer between processes and stack.
pub(super) trait Layer<S>: Sized {
    /// True if there is no layer.
    const IS_NONE: bool = false;

    /// Handles the start of the run.
    fn on_start(&mut self, _now: Instant) {}

    /// Advances the layer's time series to `now`, before anything else happens at `now`.
    fn on_time(&mut self, _now: Instant) {}

    /// Handles the end of all jobs.
    fn on_end(&mut self, _now: Instant) {}

    /// Returns when [`Self::run_timers`] has work next.
    fn next_timer(&self) -> Option<Instant> {
        None
    }

    /// Runs the timers that are due. Returns true if there was one.
    fn run_timers(&mut self, _now: Instant) -> bool {
        false
    }

    /// Handles the end of a process.
    fn on_process_over(&mut self, _now: Instant, _task: usize) {}

    /// Returns the page cache's layer, for observers and probes.
    fn buffered(&mut self) -> Option<&mut BufferedIo> {
        None
    }

    /// Does what comes before the first I/O of a process. Returns false if the process must wait
    /// for it.
    fn prepare<B: Backend>(
        _runner: &mut Runner<'_, B, Self, S>,
        _now: Instant,
        _task: usize,
    ) -> bool {
        true
    }

    /// Takes the batch that a process is ready to submit. Returns false, and does nothing, if the
    /// batch goes to the stack unchanged.
    fn submit<B: Backend>(_runner: &mut Runner<'_, B, Self, S>, _task: usize) -> bool {
        false
    }

    /// Moves I/O and bytes between the cache, the stack and the processes until nothing is left to
    /// move. Returns true if anything moved.
    fn pump<B: Backend>(_runner: &mut Runner<'_, B, Self, S>, _now: Instant) -> bool {
        false
    }

    /// Takes an I/O that the stack completed. Returns false if it goes to its process unchanged.
    fn take_done<B: Backend>(
        _runner: &mut Runner<'_, B, Self, S>,
        _now: Instant,
        _done: &Done,
    ) -> bool {
        false
    }

    /// Handles a tag that a task slept for. Returns false if its process must be told.
    fn unblock<B: Backend>(
        _runner: &mut Runner<'_, B, Self, S>,
        _now: Instant,
        _task: TaskId,
    ) -> bool {
        false
    }

    /// Writes back dirty pages to the device after the last job.
    fn write_back<B: Backend>(_runner: &mut Runner<'_, B, Self, S>) {}
}

/// No layer: processes do direct I/O to the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoLayer;

impl<S> Layer<S> for NoLayer {
    const IS_NONE: bool = true;
}
