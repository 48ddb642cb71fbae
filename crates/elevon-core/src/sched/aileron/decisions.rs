//! What can be seen of the scheduler's decisions from outside, so that checkers hold them against
//! what docs/explanation/aileron.md promises.

extern crate alloc;
use alloc::vec::Vec;

use super::{Aileron, Queue};
use crate::units::{Instant, Nanos};

/// A queue that has requests waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingQueue {
    /// The group that it competes in.
    pub group: u32,
    /// Its class there, most urgent first.
    pub class: usize,
    /// Its weight in force.
    pub weight: u32,
    /// A number that changes whenever the queue has run empty, and that no other queue has.
    pub stretch: u64,
    /// What its requests were charged since then, in nanoseconds.
    pub charged: u64,
    /// The largest cost of a request of it so far, in nanoseconds: charged or expected.
    pub largest: u64,
}

/// A class of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupClass {
    /// The group.
    pub group: u32,
    /// The class, most urgent first.
    pub class: usize,
    /// When it was last served, or began to wait; `None` if it does not wait.
    pub waits_since: Option<Instant>,
    /// Requests of it that were served.
    pub served: u64,
}

/// The state of the scheduler as its decisions have made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decisions {
    /// Requests in flight.
    pub in_flight: u32,
    /// How many may be.
    pub most: u32,
    /// Requests that were dispatched before all others: given back by the driver, or of no
    /// process.
    pub from_head: u64,
    /// Requests that the driver refused: until then more may have been allowed than it takes.
    pub refused: u64,
    /// Requests that were not chosen among all that waited: because of a floor or a flush.
    pub constrained: u64,
    /// How long a class waits before it is served once.
    pub patience: Nanos,
    /// True if queues are served by turns.
    pub has_turns: bool,
    /// The queues that have requests waiting.
    pub queues: Vec<WaitingQueue>,
    /// Each class of each group.
    pub classes: Vec<GroupClass>,
}

/// What is counted for [`Decisions`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) from_head: u64,
    pub(super) refused: u64,
    pub(super) constrained: u64,
    /// Stretches that have begun.
    pub(super) stretches: u64,
}

impl Aileron {
    /// Returns what can be seen of the decisions. For checkers: it looks at every queue.
    pub fn decisions(&self) -> Decisions {
        let waiting = |queue: &Queue| WaitingQueue {
            group: self.shares.group_of(queue.member).0,
            class: queue.class,
            weight: self.shares.weight_of(queue.member),
            stretch: queue.stretch,
            charged: queue.charged,
            largest: queue.largest,
        };
        Decisions {
            in_flight: self.in_flight,
            most: self.limit(),
            from_head: self.counts.from_head,
            refused: self.counts.refused,
            constrained: self.counts.constrained,
            patience: self.shares.patience,
            has_turns: self.rotational,
            queues: self.queues.iter().filter(|queue| queue.queued > 0).map(waiting).collect(),
            classes: self.shares.classes().collect(),
        }
    }
}
