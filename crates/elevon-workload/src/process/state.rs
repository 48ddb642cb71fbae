//! The state of a process, by subject.

use super::*;

/// I/Os by slot, from their preparation until they are reaped.
#[derive(Clone, Debug)]
pub(super) struct Ios {
    pub(super) slots: Vec<IoSlot>,
    /// The slots that are free, the next one last.
    pub(super) free: Vec<u32>,
    /// The I/O that [`Process::take`] returned last.
    pub(super) last_taken: u32,
    /// The I/O whose submission sleeps.
    pub(super) blocked: Option<u32>,
    /// The flush or trim that the process sleeps for.
    pub(super) awaited: Option<u32>,
    /// Completions that are not reaped yet.
    pub(super) ready: VecDeque<(u32, Status)>,
}

impl Ios {
    /// Returns free slots, one for each layout.
    pub(super) fn new(layouts: &[LayoutId]) -> Self {
        let depth = layouts.len();
        Self {
            slots: layouts.iter().map(|&layout| IoSlot { layout, ..EMPTY_SLOT }).collect(),
            free: (0..depth as u32).rev().collect(),
            last_taken: 0,
            blocked: None,
            awaited: None,
            ready: VecDeque::with_capacity(depth),
        }
    }
}

/// I/Os that are prepared and submitted together.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) staged: Vec<u32>,
    /// How many of the staged I/Os are no data.
    pub(super) syncs: usize,
    /// How many of them were taken.
    pub(super) handed: usize,
    /// The batch is whole: its I/Os may be taken.
    pub(super) sealed: bool,
}

impl Batch {
    /// Returns an empty batch with room for `depth` I/Os.
    pub(super) fn new(depth: usize) -> Self {
        Self { staged: Vec::with_capacity(depth), syncs: 0, handed: 0, sealed: false }
    }
}

/// Accesses that the pattern has given and that are not prepared yet.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    /// The writes of `trimwrite` whose trims have completed.
    pub(super) follow_ups: VecDeque<Access>,
    pub(super) next: Option<Access>,
    /// An access drawn before `next`, in the other direction, that waits for its rate.
    pub(super) held: Option<Access>,
}

impl Drawn {
    /// Returns no accesses, with room for `depth` writes of `trimwrite`.
    pub(super) fn new(depth: usize) -> Self {
        Self { follow_ups: VecDeque::with_capacity(depth), next: None, held: None }
    }
}

/// The flushes of a process, and its syncs of a range.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Syncs {
    /// Writes so far.
    pub(super) writes: u64,
    /// A flush, or a sync of what was written, is due before the next I/O.
    pub(super) due: bool,
    /// What is due is a sync of what was written.
    pub(super) is_of_range: bool,
    /// There are writes that no end sync has flushed.
    pub(super) wrote: bool,
    /// The next I/O is a flush of the end sync.
    pub(super) is_at_end: bool,
    /// Files that the end sync has flushed.
    pub(super) ended_files: u32,
}

/// The CPU time of a process, and the instants of its life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) started: Option<Instant>,
    pub(super) ended: Option<Instant>,
    /// End of its `runtime`.
    pub(super) deadline: Instant,
    /// The latest instant at which it must be polled.
    pub(super) wakeup: Option<Instant>,
    /// It has no CPU time to spare before.
    pub(super) busy_until: Instant,
    /// End of a delay by its tenant.
    pub(super) delayed_until: Instant,
    /// Time under the scheduler's lock that the last batch needs and has not been given yet.
    pub(super) wants_lock: Nanos,
}

impl Times {
    /// Returns the times of a process that has not started.
    pub(super) const fn new() -> Self {
        Self {
            started: None,
            ended: None,
            deadline: Instant::MAX,
            wakeup: None,
            busy_until: Instant::ZERO,
            delayed_until: Instant::ZERO,
            wants_lock: Nanos::ZERO,
        }
    }
}

/// What a process has done for its flow, and may do.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowShare {
    /// I/Os of the pattern that it has issued.
    pub(super) issued: u64,
    /// I/Os of the pattern that it may issue before its flow allows more.
    pub(super) allowed: u64,
    /// End of its `flow_sleep`.
    pub(super) sleeps_until: Instant,
}

impl FlowShare {
    /// Returns the share of a process that nothing holds back yet.
    pub(super) const fn new() -> Self {
        Self { issued: 0, allowed: u64::MAX, sleeps_until: Instant::ZERO }
    }
}
