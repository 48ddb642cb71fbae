//! Debt: I/O that had to be issued before it could be paid for.
//!
//! While a tenant is in debt, it lends its whole share and its I/Os wait; its budget pays the debt
//! at its full share. If the debt is large, its tasks are delayed on their way back to user space,
//! so that they cannot increase it. On a device that is not fully used, debts are forgiven step by
//! step.

use super::hweight::{mul_div, stretch, virtual_cost};
use super::{IoCost, SPEED_ONE};
use crate::units::{Instant, Nanos};

/// Delays: from 250 us at 5 periods of debt to 250 ms at 250 periods.
const DELAY: (u64, u64) = (250_000, 250_000_000);
const DELAY_PERIODS: (u64, u64) = (5, 250);

/// The delay of tasks; it halves each second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delay {
    ns: u64,
    set: Instant,
}

impl Delay {
    /// Returns the delay now; zero once it is below the shortest.
    pub(super) fn at(&self, now: Instant) -> Nanos {
        let seconds = now.since(self.set).get() / 1_000_000_000;
        let ns = self.ns >> seconds.min(63);
        Nanos::new(if ns >= DELAY.0 { ns } else { 0 })
    }

    /// Returns true until the delay is cleared, also once it is below the shortest.
    pub(super) const fn is_set(&self) -> bool {
        self.ns > 0
    }
}

/// The window in which the device's usage is measured for forgiving debts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forgiveness {
    since: Instant,
    usage: u64,
}

/// Minimum length of this window, and the time for one halving.
const FORGIVE_EVERY: u64 = 100_000_000;

impl IoCost {
    /// Adds a cost for which there is no budget to the debt.
    pub(super) fn incur_debt(&mut self, now: Instant, slot: u32, cost: u64) {
        let group = &mut self.groups[slot as usize];
        if group.debt == 0 {
            group.indebt_since = now;
        }
        group.debt = group.debt.saturating_add(cost);
        group.pay(cost);
        self.debtors_use_nothing(slot);
        self.set_delay(now, slot);
        self.arm(slot);
    }

    pub(super) fn debtors_use_nothing(&mut self, slot: u32) {
        if self.groups[slot as usize].debt > 0 {
            self.shares.set_in_use(slot, 1);
        }
    }

    /// Pays as much debt as the budget allows, at the full share.
    pub(super) fn pay_debt(&mut self, now: Instant, vnow: i64, slot: u32) {
        let share = self.shares.of(slot).0;
        let group = &mut self.groups[slot as usize];
        let budget = u64::try_from(vnow.saturating_sub(group.vtime)).unwrap_or(0);
        let pays = mul_div(budget, share, super::hweight::WHOLE).min(group.debt);
        if pays == group.debt {
            group.vtime = group.vtime.saturating_add(virtual_cost(pays, share));
            self.forget_debt(now, slot);
        } else {
            group.vtime = group.vtime.saturating_add(virtual_cost(pays, share));
            group.debt -= pays;
        }
    }

    /// Clears the debt; the whole share is in use again.
    pub(super) fn forget_debt(&mut self, now: Instant, slot: u32) {
        let group = &mut self.groups[slot as usize];
        if group.debt > 0 {
            group.indebt = group.indebt(now);
            group.debt = 0;
            self.shares.set_in_use(slot, u64::MAX);
        }
    }

    /// Sets the delay of the tenant's tasks according to its debt, or keeps a delay that has not
    /// decayed yet.
    pub(super) fn set_delay(&mut self, now: Instant, slot: u32) {
        let vnow = self.clock.now(now);
        let period = self.margin(100).max(1) as u64;
        let share = self.shares.of(slot).0;
        let group = &mut self.groups[slot as usize];
        let owed = if group.debt > 0 { stretch(group.debt, share) } else { 0 };
        let behind = u64::try_from(group.vtime - vnow).unwrap_or(0).saturating_add(owed);
        let (low, high) = (DELAY_PERIODS.0 * period, DELAY_PERIODS.1 * period);
        let wanted = if behind >= low {
            DELAY.0 + mul_div(behind.min(high) - low, DELAY.1 - DELAY.0, high - low)
        } else {
            0
        };
        let before = group.delay.at(now).get();
        if wanted > before {
            group.delay = Delay { ns: wanted, set: now };
        } else if before == 0 && group.delay.ns > 0 {
            group.delay = Delay::default();
        }
    }

    /// Handles the end of a period in which the device was used for `usage` of its time
    /// (`elapsed`). If it was at most half used over 100 ms or more, debts and delays halve, once
    /// per 100 ms.
    pub(super) fn forgive_debts(&mut self, now: Instant, elapsed: Nanos, usage: u64) {
        if !self.active.iter().any(|&slot| self.groups[slot as usize].debt > 0) {
            self.forgiveness = Forgiveness { since: now, usage: 0 };
            return;
        }
        let usage = mul_div(usage, SPEED_ONE, self.control.speed);
        let is_busy = self.control.level > 0;
        self.forgiveness.usage += if is_busy { usage.max(elapsed.get()) } else { usage };
        let window = now.since(self.forgiveness.since).get();
        if window < FORGIVE_EVERY {
            return;
        }
        let used =
            core::mem::replace(&mut self.forgiveness, Forgiveness { since: now, usage: 0 }).usage;
        if used > window / 2 {
            return;
        }
        let halvings = (window / FORGIVE_EVERY).min(63) as u32;
        for at in 0..self.active.len() {
            let slot = self.active[at];
            let group = &mut self.groups[slot as usize];
            group.delay.ns = (group.delay.ns >> halvings).max(u64::from(group.delay.ns > 0));
            match group.debt >> halvings {
                0 => self.forget_debt(now, slot),
                debt => group.debt = debt,
            }
        }
    }
}
