//! What processes of a trace wait for in each other: that another process has come so far, and room
//! for the flusher's writes under the limit of dirty pages.
//!
//! `elevon_trace::replay` infers who follows whom. A process that has ended has come as far as any
//! other waits for, so that none waits for ever. Cost: O(1) for each I/O, and O(processes that
//! wait) where some are woken; nothing is allocated once each process has waited.

use std::collections::VecDeque;

/// How far another process must have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Milestone {
    /// So many of its I/Os were submitted, and it sleeps for none of them.
    Entered,
    /// So many of its I/Os have completed.
    Completed,
}

/// What an I/O follows in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follow {
    /// Index of that process.
    pub process: u32,
    /// What is counted.
    pub milestone: Milestone,
    /// How many of its I/Os, in the pass that the follower is in.
    pub count: u64,
}

/// The flusher that a process belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlusherRule {
    /// Number of the flusher; numbers are dense, from 0.
    pub flusher: u32,
    /// The bytes that it may have under way: a write that would be more waits until there are
    /// fewer, or none.
    pub most_bytes: u64,
}

/// How many I/Os a process has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Number of its I/Os that were submitted and for which it does not sleep.
    pub entered: u64,
    /// Number of its I/Os that have completed.
    pub completed: u64,
    /// It does nothing more.
    pub has_ended: bool,
}

/// What ties a process to others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tie {
    /// I/Os of a pass.
    pub(crate) ios: u64,
    /// What its I/Os follow.
    pub(crate) follows: Vec<Follow>,
    /// The flusher that it belongs to.
    pub(crate) flusher: Option<FlusherRule>,
}

/// Processes that wait for others, and for what.
#[derive(Debug, Default)]
pub struct Followers {
    /// By process. Processes behind the end neither follow nor are followed.
    processes: Vec<Followed>,
    /// By flusher: the bytes under way, and the processes that wait for room.
    flushers: Vec<Flusher>,
    woken: VecDeque<usize>,
}

#[derive(Clone, Debug, Default)]
struct Followed {
    is_involved: bool,
    /// I/Os of a pass.
    ios: u64,
    counts: IoCounts,
    /// The processes that wait, and for what.
    waiting: Vec<(usize, Milestone, u64)>,
}

#[derive(Clone, Debug, Default)]
struct Flusher {
    bytes: u64,
    waiting: Vec<usize>,
}

impl Followers {
    /// Creates them for processes with these ties.
    pub(crate) fn new(ties: &[Tie]) -> Self {
        let mut all = Self::default();
        for (at, tie) in ties.iter().enumerate() {
            for follow in &tie.follows {
                all.involve(at, ties);
                all.involve(follow.process as usize, ties);
            }
            if let Some(rule) = tie.flusher {
                all.involve(at, ties);
                let count = all.flushers.len().max(rule.flusher as usize + 1);
                all.flushers.resize(count, Flusher::default());
            }
        }
        all
    }

    fn involve(&mut self, at: usize, ties: &[Tie]) {
        if self.processes.is_empty() {
            self.processes = vec![Followed::default(); ties.len()];
        }
        if let Some(process) = self.processes.get_mut(at) {
            process.is_involved = true;
            process.ios = ties[at].ios;
        }
    }

    /// Returns true if a process follows another, or another follows it.
    #[inline]
    pub(crate) fn has(&self, task: usize) -> bool {
        self.processes.get(task).is_some_and(|process| process.is_involved)
    }

    /// Notes how far a process has come. Those that waited for it are told by [`Self::next_woken`].
    pub(crate) fn report(&mut self, task: usize, counts: IoCounts) {
        let Self { processes, woken, .. } = self;
        let Some(process) = processes.get_mut(task) else { return };
        process.counts = counts;
        process.waiting.retain(|&(waiting, milestone, count)| {
            let is_reached = counts.reaches(milestone, count);
            woken.extend(is_reached.then_some(waiting));
            !is_reached
        });
    }

    /// Returns true if a process has come as far as `follow` says, in the pass of this number; if
    /// it has not, `task` waits for it.
    pub(crate) fn is_reached(&mut self, task: usize, follow: Follow, pass: u64) -> bool {
        let Some(process) = self.processes.get_mut(follow.process as usize) else { return true };
        let count = pass.saturating_mul(process.ios).saturating_add(follow.count);
        let is_reached = process.counts.reaches(follow.milestone, count);
        if !is_reached && !process.waiting.contains(&(task, follow.milestone, count)) {
            process.waiting.push((task, follow.milestone, count));
        }
        is_reached
    }

    /// Returns true if a flusher may have this write under way, too; if not, `task` waits for room.
    pub(crate) fn has_room(&mut self, task: usize, rule: FlusherRule, bytes: u64) -> bool {
        let Some(flusher) = self.flushers.get_mut(rule.flusher as usize) else { return true };
        let has_room = flusher.bytes == 0 || flusher.bytes.saturating_add(bytes) <= rule.most_bytes;
        if !has_room && !flusher.waiting.contains(&task) {
            flusher.waiting.push(task);
        }
        has_room
    }

    /// Notes that writes of a flusher were submitted, and that others have completed. Those that
    /// wait for room are told by [`Self::next_woken`].
    pub(crate) fn move_bytes(&mut self, rule: FlusherRule, submitted: u64, completed: u64) {
        let Self { flushers, woken, .. } = self;
        let Some(flusher) = flushers.get_mut(rule.flusher as usize) else { return };
        flusher.bytes = flusher.bytes.saturating_add(submitted).saturating_sub(completed);
        if completed > 0 {
            woken.extend(flusher.waiting.drain(..));
        }
    }

    /// Returns a process that may have what it waited for, each once.
    pub(crate) fn next_woken(&mut self) -> Option<usize> {
        self.woken.pop_front()
    }
}

impl IoCounts {
    fn reaches(self, milestone: Milestone, count: u64) -> bool {
        let have = match milestone {
            Milestone::Entered => self.entered,
            Milestone::Completed => self.completed,
        };
        self.has_ended || have >= count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Followers of two processes of three I/Os, of which the second follows the first.
    fn followers() -> Followers {
        let follow = Follow { process: 0, milestone: Milestone::Completed, count: 2 };
        let tie = |follows| Tie {
            ios: 3,
            follows,
            flusher: Some(FlusherRule { flusher: 0, most_bytes: 100 }),
        };
        Followers::new(&[tie(Vec::new()), tie(vec![follow; 3])])
    }

    fn counts(entered: u64, completed: u64) -> IoCounts {
        IoCounts { entered, completed, has_ended: false }
    }

    #[test]
    fn one_waits_until_the_other_has_come_so_far_in_its_pass() {
        let mut all = followers();
        assert!(all.has(0) && all.has(1) && !all.has(2));
        let follow = Follow { process: 0, milestone: Milestone::Completed, count: 2 };
        assert!(!all.is_reached(1, follow, 1), "five of its I/Os, of two passes of three");
        for (completed, woken) in [(4, None), (5, Some(1)), (6, None)] {
            all.report(0, counts(6, completed));
            assert_eq!(all.next_woken(), woken, "{completed}");
        }
        assert!(all.is_reached(1, follow, 1));
        assert!(!all.is_reached(1, follow, 2));
        all.report(0, IoCounts { has_ended: true, ..counts(6, 6) });
        assert_eq!(all.next_woken(), Some(1), "it comes no further");
    }

    #[test]
    fn the_flusher_waits_for_room_unless_nothing_is_under_way() {
        let mut all = followers();
        let rule = FlusherRule { flusher: 0, most_bytes: 100 };
        assert!(all.has_room(1, rule, 1000));
        all.move_bytes(rule, 60, 0);
        assert!(all.has_room(1, rule, 40));
        assert!(!all.has_room(1, rule, 41));
        all.move_bytes(rule, 0, 30);
        assert_eq!(all.next_woken(), Some(1));
        assert!(all.has_room(1, rule, 70));
    }
}
