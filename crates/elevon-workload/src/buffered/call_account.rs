//! Counts the calls of an I/O, and charges their cost to its process.

use elevon_cache::file_io::{CallClass, CallEnd, FileIoObserver};
use elevon_cache::stats::CacheUse;
use elevon_core::units::{Instant, Nanos, TaskId};

use super::User;
use crate::process::Process;

/// CPU time of I/O that goes through the page cache, spent by its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCost {
    /// A system call: read, write, fsync.
    pub call: Nanos,
    /// Finding and copying a page.
    pub hit: Nanos,
    /// A page fault, in addition to its page.
    pub fault: Nanos,
    /// A bio that the process builds; `None` for what a direct I/O takes until it leaves.
    pub bio: Option<Nanos>,
}

/// How calls are counted and charged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charges {
    pub(super) cost: CacheCost,
    /// CPU time of a wake-up.
    pub(super) wakeup: Nanos,
    /// The instant at which the run began.
    pub(super) started: Instant,
    /// The length of the windows of waits.
    pub(super) wait_window: Nanos,
}

/// Counts and charges the I/O of the processes at `now`.
pub(super) struct CallAccount<'a> {
    pub(super) now: Instant,
    pub(super) charges: &'a Charges,
    pub(super) users: &'a mut [User],
    pub(super) processes: &'a mut [Process],
}

impl FileIoObserver for CallAccount<'_> {
    #[inline]
    fn call_over(&mut self, end: &CallEnd<'_>) {
        let CallEnd { task, token, class, pages, done } = *end;
        let CacheUse { touches, fault, read, write, fsync, .. } =
            self.processes[task.index()].cache_use();
        let &Charges { cost: CacheCost { hit, fault: of_fault, .. }, wakeup, started, wait_window } =
            self.charges;
        let cost = &mut self.users[task.index()].costs[token as usize];
        let of_all = Nanos::new(hit.get() * pages.get());
        let (counts, of_call) = match class {
            CallClass::Touch => {
                *touches += 1;
                *cost += hit;
                return;
            }
            CallClass::Read => (read, of_all),
            CallClass::Write => (write, of_all),
            CallClass::Fault => (fault, of_fault + hit),
            CallClass::Sync => (fsync, Nanos::ZERO),
        };
        counts.add(done, self.now.since(started), wait_window);
        let has_slept = !(done.waited.is_zero() && done.paused.is_zero() && done.starved.is_zero());
        *cost += of_call + if has_slept { wakeup } else { Nanos::ZERO };
    }

    /// Charges to an I/O the bios that its process has built until now.
    #[inline]
    fn io_over(&mut self, task: TaskId, token: u32) {
        let user = &mut self.users[task.index()];
        user.costs[token as usize] += std::mem::take(&mut user.unpaid);
    }
}
