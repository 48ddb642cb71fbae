//! Who looks at a run: an observer, for what reports and the console show, or a probe, for tests.

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
    /// How often [`Self::on_interval`] is called; asked once. `None` for never.
    fn interval(&self) -> Option<Nanos> {
        None
    }
    /// An interval is over. `disk` reads the device's statistics, which moves io_ticks as it does
    /// in a kernel: only an observer that shows them should call it. `jobs` is ordered by task.
    fn on_interval(&mut self, _now: Instant, _disk: &mut dyn FnMut() -> DiskStats, _jobs: &[Progress]) {}
    /// Whether [`Self::on_status`] is wanted now; asked after each [`Self::on_interval`].
    fn wants_status(&mut self) -> bool {
        false
    }
    /// The run so far, as [`super::run`] would return it if all jobs ended now.
    fn on_status(&mut self, _so_far: RunOutcome, _stack: &mut Stack, _buffered: Option<&BufferedIo>) {}
    /// Events since the last call; only if the stack records them.
    fn on_events(&mut self, _events: &[Event]) {}
    /// All jobs are over, and so much that they wrote is to be written back before the run is. Only
    /// with a page cache that has bytes.
    fn on_write_back(&mut self, _dirty: Bytes, _is_interrupted: bool) {}
}

/// Tests a run from inside: sees every step and every I/O, and may interfere. Reports need none of
/// it, so a run without a probe pays one comparison a step and one an I/O for it.
pub trait Probe: Observer {
    /// Everything that could happen at an instant has happened. The stack may be looked at and its
    /// tunables changed.
    fn on_step(&mut self, _stack: &mut Stack) {}
    /// Right after [`Self::on_step`] if there is a page cache: it may be looked at, and other
    /// programs use it ([`BufferedIo::call_of_other_program`]). Returns whether they did.
    fn on_cache(&mut self, _now: Instant, _buffered: &mut BufferedIo) -> bool {
        false
    }
    /// Whether [`Self::on_io`] and [`Self::on_io_over`] are called; asked once.
    fn sees_ios(&self) -> bool {
        false
    }
    /// A process gives an I/O, or the page cache a bio of its own, which has frames:
    /// [`crate::token::Token`] tells which.
    fn on_io(&mut self, _now: Instant, _io: &Io, _frames: &[FrameId]) {}
    /// An I/O is over: the process has it back, or the page cache its bio, as
    /// [`crate::token::Token`] tells.
    fn on_io_over(&mut self, _now: Instant, _task: TaskId, _token: u64, _status: Status) {}
}

/// Observes nothing.
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

    /// The probe, if it sees I/Os.
    #[inline]
    pub(super) fn probe_of_ios(&mut self) -> Option<&mut dyn Probe> {
        match self {
            Self::Probe { probe, sees_ios: true } => Some(*probe),
            Self::Observer(_) | Self::Probe { .. } => None,
        }
    }
}
