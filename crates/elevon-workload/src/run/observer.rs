//! Interfaces to watch a run: an observer, for reports and the console, or a probe, for tests.

use elevon_cache::FrameId;
use elevon_core::account::DiskStats;
use elevon_core::event::Event;
use elevon_core::stack::{Io, Stack};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, Nanos, TaskId};

use super::{Progress, RunOutcome};
use crate::buffered::BufferedIo;

/// Observes a run for a report or a console.
pub trait Observer {
    /// Returns how often [`Self::on_interval`] is called; asked once. `None`: never.
    fn interval(&self) -> Option<Nanos> {
        None
    }
    /// Returns true if intervals that end while the run waits may be skipped; asked once. In
    /// virtual time a wait may last for centuries and is over at once.
    fn skips_waits(&self) -> bool {
        false
    }
    /// Handles the end of an interval. `disk` reads the device's statistics, which advances
    /// io_ticks as in the kernel, so only an observer that shows them should call it. `jobs` is
    /// ordered by task.
    fn on_interval(
        &mut self,
        _now: Instant,
        _disk: &mut dyn FnMut() -> DiskStats,
        _jobs: &[Progress],
    ) {
    }
    /// Returns true if [`Self::on_status`] is wanted now; asked after each [`Self::on_interval`].
    fn wants_status(&mut self) -> bool {
        false
    }
    /// Receives the run so far, as [`super::run`] would return it if all jobs ended now.
    fn on_status(
        &mut self,
        _so_far: RunOutcome,
        _stack: &mut Stack,
        _buffered: Option<&BufferedIo>,
    ) {
    }
    /// Receives the events since the last call; only if the stack records them.
    fn on_events(&mut self, _events: &[Event]) {}
    /// Announces that all jobs have finished and this much dirty data is written back before the
    /// run ends. Only with a page cache that has bytes.
    fn on_write_back(&mut self, _dirty: Bytes, _is_interrupted: bool) {}
}

/// A test's view of a run: it sees every step and every I/O, and may interfere. Reports use no
/// probe; a run without one pays one comparison per step and one per I/O.
pub trait Probe: Observer {
    /// Called when everything that could happen at an instant has happened. The probe may read the
    /// stack and change its tunables.
    fn on_step(&mut self, _stack: &mut Stack) {}
    /// Called right after [`Self::on_step`] if there is a page cache. The probe may read the cache,
    /// and use it as other programs ([`BufferedIo::call_of_other_program`]). Returns true if it
    /// did.
    fn on_cache(&mut self, _now: Instant, _buffered: &mut BufferedIo) -> bool {
        false
    }
    /// Returns true if [`Self::on_io`] and [`Self::on_io_over`] are wanted; asked once.
    fn sees_ios(&self) -> bool {
        false
    }
    /// Called when a process submits an I/O, or when the page cache submits a bio, which has
    /// frames; [`elevon_engine::Token`] tells which.
    fn on_io(&mut self, _now: Instant, _io: &Io, _frames: &[FrameId]) {}
    /// Called when an I/O has finished and its process has it back, or when the page cache has its
    /// bio back; [`elevon_engine::Token`] tells which.
    fn on_io_over(&mut self, _now: Instant, _task: TaskId, _token: u64, _status: Status) {}
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;
impl Observer for NoObserver {}

/// The observer or the probe of a run.
pub(super) enum Watcher<'a> {
    Observer(&'a mut dyn Observer),
    Probe { probe: &'a mut dyn Probe, sees_ios: bool },
}

impl Watcher<'_> {
    #[inline]
    pub(super) fn observer(&mut self) -> &mut dyn Observer {
        match self {
            Self::Observer(observer) => *observer,
            Self::Probe { probe, .. } => *probe,
        }
    }

    #[inline]
    pub(super) fn probe(&mut self) -> Option<&mut dyn Probe> {
        match self {
            Self::Observer(_) => None,
            Self::Probe { probe, .. } => Some(*probe),
        }
    }

    /// Returns the probe, if it sees I/Os.
    #[inline]
    pub(super) fn probe_of_ios(&mut self) -> Option<&mut dyn Probe> {
        match self {
            Self::Probe { probe, sees_ios: true } => Some(*probe),
            Self::Observer(_) | Self::Probe { .. } => None,
        }
    }
}
