//! Busy time of the device, in the four forms of kernels and Elevon.

use elevon_core::account::{Accounting, CompletionFact, Utilisation};
use elevon_core::jiffies::Hz;
use elevon_core::kernel::IoTicksForm;
use elevon_core::op::StatGroup;
use elevon_core::units::{Instant, Nanos, TaskId};

use super::Group;

/// Busy time by the accounting of the stack, from the allocation of each request to its completion.
pub(super) struct BusyTime {
    hz: Hz,
    account: Accounting,
    /// Busy time before the last gap.
    before: Utilisation,
    first: Option<u64>,
    last: u64,
}

/// Returns the group for the accounting; here the accounting's groups are otherwise unused.
const fn stat_group(group: Group) -> StatGroup {
    match group {
        Group::Write => StatGroup::Write,
        Group::Discard => StatGroup::Discard,
        Group::Read | Group::Flush | Group::Other => StatGroup::Read,
    }
}

impl BusyTime {
    pub(super) fn new(hz: Hz) -> Self {
        Self { hz, account: fresh(hz), before: Utilisation::default(), first: None, last: 0 }
    }

    #[inline]
    fn now(&mut self, now: u64) -> Instant {
        self.first.get_or_insert(now);
        self.last = self.last.max(now);
        Instant::new(self.last)
    }

    #[inline]
    pub(super) fn start(&mut self, now: u64) {
        let now = self.now(now);
        let tags = self.account.outstanding().saturating_add(1).min(u64::from(u32::MAX)) as u32;
        self.account.on_start(now, || tags);
    }

    #[inline]
    pub(super) fn end(&mut self, now: u64, group: Group) {
        if self.account.outstanding() == 0 {
            return;
        }
        let end = self.now(now);
        let fact = CompletionFact {
            group: stat_group(group),
            task: TaskId::IDLE,
            start: end,
            issued: end,
            end,
        };
        self.account.on_end(&fact, false);
    }

    /// Counts the time up to `now`, too, if no request begins or ends until then.
    pub(super) fn pass(&mut self, now: u64) {
        self.now(now);
    }

    /// Returns the same with what is in flight now, and no busy time so far.
    pub(super) fn resumed(&self, now: u64) -> Self {
        let mut new = Self::new(self.hz);
        (0..self.account.outstanding()).for_each(|_| new.start(now));
        new
    }

    /// Removes a request that was merged into another one.
    pub(super) fn swallowed(&mut self, now: u64) {
        if self.account.outstanding() > 0 {
            let now = self.now(now);
            self.account.on_request_merged(now, StatGroup::Read);
        }
    }

    /// Forgets everything in flight, and what was counted in a gap.
    pub(super) fn forget(&mut self, now: u64, is_in_gap: bool) {
        let now = self.now(now);
        if !is_in_gap {
            self.before = sum(self.before, self.account.read(now).utilisation);
        }
        self.account = fresh(self.hz);
    }

    /// Returns the busy time up to the last request that was seen. Whole jiffies can be up to two
    /// more than the time that they are of, and are cut to it.
    pub(super) fn read(&mut self, is_in_gap: bool, observed: u64) -> Utilisation {
        self.forget(self.last, is_in_gap);
        let most = observed.div_ceil(1_000_000);
        let Utilisation { sampled_ms, inflight_ms, precise_ms, exact } = self.before;
        Utilisation {
            sampled_ms: sampled_ms.min(most),
            inflight_ms: inflight_ms.min(most),
            precise_ms: precise_ms.min(most),
            exact,
        }
    }
}

fn fresh(hz: Hz) -> Accounting {
    Accounting::new(IoTicksForm::Exact, hz, 1, true)
}

fn sum(a: Utilisation, b: Utilisation) -> Utilisation {
    Utilisation {
        sampled_ms: a.sampled_ms + b.sampled_ms,
        inflight_ms: a.inflight_ms + b.inflight_ms,
        precise_ms: a.precise_ms + b.precise_ms,
        exact: Nanos::new(a.exact.get() + b.exact.get()),
    }
}
