//! Locks of critical sections. At most one process of a group is in its section. In a group that
//! commits together, processes that waited during the same section are in theirs at the same time.
//!
//! `elevon_trace::replay` infers the groups. A process requests the lock before it begins a
//! section, and gets it in order of arrival; in a group that commits together, all waiting
//! processes get it at once. Cost: O(processes that have the lock or wait for it) for each section;
//! nothing is allocated once each process has waited.

use std::collections::VecDeque;

use elevon_core::units::Nanos;

/// The critical sections of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionRule {
    /// The group whose processes have at most one section at a time; numbers are dense, from 0.
    pub group: u32,
    /// Time from the end of a section to the beginning of one that waited for it.
    pub hand_over: Nanos,
    /// All that wait when a section ends begin theirs together, and not one after another.
    pub is_together: bool,
}

/// The locks of a run, one for each group of processes.
#[derive(Debug, Default)]
pub struct SectionLocks {
    /// By task: its group. Tasks behind the end have none.
    groups: Vec<Option<u32>>,
    locks: Vec<Lock>,
    /// Tasks that got a lock for which they waited, until they are told.
    woken: VecDeque<usize>,
}

#[derive(Clone, Debug, Default)]
struct Lock {
    is_together: bool,
    holders: Vec<usize>,
    waiting: VecDeque<usize>,
}

impl SectionLocks {
    /// Creates the locks for tasks with these rules. Group numbers are dense, from 0.
    pub(crate) fn new(rules: &[Option<SectionRule>]) -> Self {
        let count = rules.iter().flatten().map(|rule| rule.group as usize + 1).max().unwrap_or(0);
        let mut locks = vec![Lock::default(); count];
        for rule in rules.iter().flatten() {
            locks[rule.group as usize].is_together = rule.is_together;
        }
        let groups = rules.iter().map(|rule| rule.map(|rule| rule.group)).collect();
        Self { groups, locks, woken: VecDeque::new() }
    }

    /// Returns true if a task has critical sections.
    #[inline]
    pub(crate) fn has(&self, task: usize) -> bool {
        self.groups.get(task).is_some_and(Option::is_some)
    }

    fn lock(&mut self, task: usize) -> Option<&mut Lock> {
        let group = self.groups.get(task).copied().flatten()?;
        self.locks.get_mut(group as usize)
    }

    /// Takes the lock for a task, or puts the task behind those that wait. Returns true if the task
    /// has the lock.
    pub(crate) fn take(&mut self, task: usize) -> bool {
        let Some(lock) = self.lock(task) else { return true };
        if lock.holders.is_empty() {
            lock.holders.push(task);
        } else if !lock.holders.contains(&task) {
            if !lock.waiting.contains(&task) {
                lock.waiting.push_back(task);
            }
            return false;
        }
        true
    }

    /// Returns true if a task has the lock.
    pub(crate) fn holds(&self, task: usize) -> bool {
        let group = self.groups.get(task).copied().flatten();
        group.is_some_and(|group| self.locks[group as usize].holders.contains(&task))
    }

    /// Releases the lock of a task, or lets it wait no more. If it was the last that had the lock,
    /// those that get it are told by [`Self::next_woken`].
    pub(crate) fn release(&mut self, task: usize) {
        let Self { groups, locks, woken } = self;
        let Some(group) = groups.get(task).copied().flatten() else { return };
        let lock = &mut locks[group as usize];
        let Some(at) = lock.holders.iter().position(|&holder| holder == task) else {
            lock.waiting.retain(|&waiting| waiting != task);
            return;
        };
        lock.holders.swap_remove(at);
        if lock.holders.is_empty() {
            let count =
                if lock.is_together { lock.waiting.len() } else { lock.waiting.len().min(1) };
            lock.holders.extend(lock.waiting.drain(..count));
            woken.extend(&lock.holders);
        }
    }

    /// Returns a task that got the lock for which it waited, each once.
    pub(crate) fn next_woken(&mut self) -> Option<usize> {
        self.woken.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use elevon_core::units::Nanos;

    use super::*;

    /// Locks of tasks of these groups.
    fn locks(groups: &[Option<u32>], is_together: bool) -> SectionLocks {
        let rule = |group| SectionRule { group, hand_over: Nanos::ZERO, is_together };
        SectionLocks::new(&groups.iter().map(|group| group.map(rule)).collect::<Vec<_>>())
    }

    fn released(locks: &mut SectionLocks, task: usize) -> Vec<usize> {
        locks.release(task);
        std::iter::from_fn(|| locks.next_woken()).collect()
    }

    #[test]
    fn a_lock_goes_to_those_that_wait_in_order() {
        let mut locks = locks(&[Some(0), Some(0), None, Some(0), Some(1)], false);
        assert!(locks.has(0) && !locks.has(2) && !locks.has(9));
        assert!(locks.take(0) && locks.take(0));
        assert_eq!([3, 1, 3].map(|task| locks.take(task)), [false; 3]);
        assert!(locks.take(4), "another group");
        assert!(locks.take(2), "no group");
        assert_eq!(released(&mut locks, 0), [3]);
        assert!(locks.holds(3) && !locks.holds(0) && !locks.holds(1));
        assert!(!locks.take(0));
        assert_eq!(released(&mut locks, 1), [], "it waits no more");
        assert_eq!(released(&mut locks, 3), [0]);
        assert_eq!(released(&mut locks, 0), []);
        assert!(locks.take(1));
    }

    #[test]
    fn those_that_commit_together_get_the_lock_at_once() {
        let mut locks = locks(&[Some(0); 4], true);
        assert!(locks.take(0));
        assert_eq!([2, 1].map(|task| locks.take(task)), [false; 2]);
        assert_eq!(released(&mut locks, 0), [2, 1]);
        assert!(locks.holds(1) && locks.holds(2));
        assert!(!locks.take(3), "who comes later waits for both");
        assert_eq!(released(&mut locks, 2), []);
        assert_eq!(released(&mut locks, 1), [3]);
        assert_eq!(released(&mut locks, 3), []);
    }
}
