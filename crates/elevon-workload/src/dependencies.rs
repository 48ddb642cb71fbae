//! What processes of a trace wait for in each other.

use crate::followers::Followers;
use crate::section_lock::SectionLocks;

/// Critical sections, and how far other processes must have come.
#[derive(Debug, Default)]
pub struct Dependencies {
    pub(crate) locks: SectionLocks,
    pub(crate) followers: Followers,
}

impl Dependencies {
    /// Returns true if a process depends on others, or another on it.
    #[inline]
    pub(crate) fn has(&self, task: usize) -> bool {
        self.locks.has(task) || self.followers.has(task)
    }

    /// Returns a process that may have what it waited for.
    pub(crate) fn next_woken(&mut self) -> Option<usize> {
        self.locks.next_woken().or_else(|| self.followers.next_woken())
    }
}
