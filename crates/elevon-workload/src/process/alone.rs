//! The fast path of an I/O that is prepared and submitted without a batch, as most I/Os are: it
//! goes from the pattern to the stack in one step.

use super::*;
use crate::source::Alone;

impl Process {
    /// Returns true if its I/Os can go alone.
    #[inline]
    pub(crate) const fn goes_alone(&self) -> bool {
        self.options.goes_alone
    }

    /// Returns true if [`Process::go_alone`] may be asked: no batch is open, and the process waits
    /// for nothing. It stays true until the process is polled, or its submission sleeps.
    #[inline(always)]
    pub(crate) fn is_alone(&self, now: Instant) -> bool {
        let waits = self.blocked.is_some() || self.syncing.is_some() || self.busy_until > now;
        self.phase == Phase::Run && self.staged.is_empty() && !waits
    }

    /// Does what [`Process::poll`] would do if that is to take a completion because no slot is
    /// free, or to prepare one I/O of the pattern that is submitted alone before `until`. With
    /// `is_only` it does both, one after the other.
    #[inline(always)]
    pub(crate) fn go_alone(&mut self, now: Instant, until: Instant, is_only: bool) -> Alone {
        debug_assert!(self.is_alone(now) && !self.sealed, "a process goes alone that does something else");
        if self.sync_due || self.refill_at_low || self.is_ending(now) {
            return Alone::Poll;
        }
        self.leave_ramp(now);
        let mut at = now;
        if self.free.is_empty() {
            let need = self.options.complete_min;
            debug_assert_eq!(need, self.needed_when_full(), "a job cannot have in use what it waits for");
            if self.ready.len() < need {
                return Alone::Poll;
            }
            self.reap(now, self.options.complete_max.max(need));
            self.refill_at_low = self.is_above_low();
            self.asleep = false;
            at = self.busy_until;
            if self.refill_at_low || self.is_ending(at) || (at > now && !is_only) {
                return self.end_alone(now);
            }
            self.leave_ramp(at);
        }
        if at.saturating_add(self.cpu.submit + self.cpu.scheduler.request) >= until {
            return self.end_alone(now);
        }
        let Some(access) = self.draw(None) else { return self.end_alone(now) };
        let Some(token) = self.free.pop() else { return self.end_alone(now) };
        (self.asleep, self.last_taken) = (false, token);
        let (kind, generation) = self.on_access(&access);
        self.fill_slot(at, token, kind, &access, generation);
        self.account_batch(at, 1, 1);
        self.wakeup = (self.busy_until > now).then_some(self.busy_until);
        Alone::Submit(at)
    }

    /// Ends a step that prepared nothing: the process spends the CPU time of what it took.
    #[inline]
    fn end_alone(&mut self, now: Instant) -> Alone {
        if self.busy_until <= now {
            return Alone::Poll;
        }
        self.wakeup = Some(self.busy_until);
        Alone::Busy
    }

    /// Returns the I/O that [`Process::go_alone`] prepared, for submission now.
    #[inline(always)]
    pub(crate) fn take_alone(&mut self, now: Instant) -> Io {
        self.slots[self.last_taken as usize].issued = now;
        self.io(self.last_taken)
    }

    /// Leaves the I/O that [`Process::go_alone`] prepared to [`Process::poll`].
    #[cold]
    pub(crate) fn keep_alone(&mut self) {
        self.staged.push(self.last_taken);
        self.sealed = true;
    }
}
