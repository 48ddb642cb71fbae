//! Locks of critical sections: of the processes of a group, at most one is in its section.
//!
//! `elevon_trace::replay` infers the groups. A process asks for the lock when it is to begin a
//! section, and waits for it in order of arrival. Cost: O(1) for each section; nothing is allocated
//! once each process has waited.

use std::collections::VecDeque;

/// The locks of a run, one for each group of processes.
#[derive(Debug, Default)]
pub struct SectionLocks {
    /// By task: its group. Tasks behind the end have none.
    groups: Vec<Option<u32>>,
    locks: Vec<Lock>,
}

#[derive(Clone, Debug, Default)]
struct Lock {
    holder: Option<usize>,
    waiting: VecDeque<usize>,
}

impl SectionLocks {
    /// Creates the locks for tasks of these groups. Group numbers are dense, from 0.
    pub(crate) fn new(groups: Vec<Option<u32>>) -> Self {
        let count = groups.iter().flatten().max().map_or(0, |&last| last as usize + 1);
        Self { groups, locks: vec![Lock::default(); count] }
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
        match lock.holder {
            None => lock.holder = Some(task),
            Some(holder) if holder == task => {}
            Some(_) => {
                if !lock.waiting.contains(&task) {
                    lock.waiting.push_back(task);
                }
                return false;
            }
        }
        true
    }

    /// Returns true if a task has the lock.
    pub(crate) fn holds(&self, task: usize) -> bool {
        let group = self.groups.get(task).copied().flatten();
        group.is_some_and(|group| self.locks[group as usize].holder == Some(task))
    }

    /// Releases the lock of a task, or lets it wait no more. Returns the task that gets the lock.
    pub(crate) fn release(&mut self, task: usize) -> Option<usize> {
        let lock = self.lock(task)?;
        if lock.holder != Some(task) {
            lock.waiting.retain(|&waiting| waiting != task);
            return None;
        }
        lock.holder = lock.waiting.pop_front();
        lock.holder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_goes_to_those_that_wait_in_order() {
        let mut locks = SectionLocks::new(vec![Some(0), Some(0), None, Some(0), Some(1)]);
        assert!(locks.has(0) && !locks.has(2) && !locks.has(9));
        assert!(locks.take(0) && locks.take(0));
        assert_eq!([3, 1, 3].map(|task| locks.take(task)), [false; 3]);
        assert!(locks.take(4), "another group");
        assert!(locks.take(2), "no group");
        assert_eq!(locks.release(0), Some(3));
        assert!(locks.holds(3) && !locks.holds(0) && !locks.holds(1));
        assert!(!locks.take(0));
        assert_eq!(locks.release(1), None, "it waits no more");
        assert_eq!(locks.release(3), Some(0));
        assert_eq!(locks.release(0), None);
        assert!(locks.take(1));
    }
}
