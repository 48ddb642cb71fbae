//! The end of a period: idle leaves are deactivated, leaves that need less lend, and the clock's
//! speed is corrected.

use super::hweight::{WHOLE, mul_div};
use super::vrate::Seen;
use super::{IoCost, Preset, Qos, SPEED_ONE};
use crate::units::{Instant, Nanos};

/// The preset in force, and how long the device has been out of its range.
#[derive(Clone, Copy, Debug)]
pub(super) struct AutoPreset {
    pub(super) preset: Preset,
    /// The user set them: presets are not changed any more.
    pub(super) user_qos: bool,
    pub(super) user_model: bool,
    out_since: Option<Instant>,
}

/// How long the speed has to stay out of a preset's range before the next preset is selected.
const STEP_AFTER: Nanos = Nanos::from_secs(10);

impl AutoPreset {
    pub(super) const fn new(preset: Preset) -> Self {
        Self { preset, user_qos: false, user_model: false, out_since: None }
    }

    /// Returns the preset to change to, if it is time.
    pub(super) fn step(&mut self, now: Instant, speed: u64) -> Option<Preset> {
        let other = match self.preset {
            Preset::SsdDefault if speed >= 5 * SPEED_ONE => Preset::SsdFast,
            Preset::SsdFast if speed <= SPEED_ONE / 10 => Preset::SsdDefault,
            Preset::Hdd | Preset::SsdQd1 | Preset::SsdDefault | Preset::SsdFast => {
                self.out_since = None;
                return None;
            }
        };
        let since = *self.out_since.get_or_insert(now);
        let is_time = now.since(since) >= STEP_AFTER && !self.user_qos && !self.user_model;
        is_time.then(|| {
            (self.preset, self.out_since) = (other, None);
            other
        })
    }
}

impl IoCost {
    /// Starts the periods: the first tenant is active again.
    pub(super) fn start(&mut self, now: Instant) {
        self.control.unused = 0;
        self.clock.set_speed(now, self.control.speed);
        self.forgiveness = super::Forgiveness::default();
        self.begin_period(now);
    }

    /// Stops the periods: no tenant is active any more.
    pub(super) fn stop(&mut self) {
        self.period_end = None;
        self.control.level = 0;
        self.wakeups.clear();
    }

    fn begin_period(&mut self, now: Instant) {
        self.period += 1;
        self.period_start = now;
        self.period_end = Some(self.end_of_period(now));
        self.seen = Seen::default();
    }

    /// Returns when a period ends that begins now: a timer in jiffies ends it, so a period of 1 ms
    /// lasts 8 ms at 250 Hz.
    pub(super) fn end_of_period(&self, now: Instant) -> Instant {
        let period = self.qos.period().get();
        self.hz.timer(now, (period * self.hz.0).div_ceil(1_000_000_000))
    }

    pub(super) fn end_period(&mut self, now: Instant) {
        self.retire_idle(now);
        let usage = self.share_anew(now);
        let elapsed = now.since(self.period_start);
        self.control.adjust(&self.qos, elapsed, &self.seen);
        if let Some(preset) = self.auto.step(now, self.control.speed) {
            // With a new model the speed has to be found again.
            self.control.speed = SPEED_ONE;
            self.apply_model(now, preset.coefficients());
            self.apply_qos(now, Qos { enable: true, ..preset.qos() });
        }
        self.forgive_debts(now, elapsed, usage);
        if self.active.is_empty() {
            self.stop();
            return;
        }
        let speed = self.control.corrected(self.qos.period());
        self.clock.set_speed(now, speed);
        self.begin_period(now);
        self.serve_all(now);
    }

    /// Serves all waiting tenants.
    pub(super) fn serve_all(&mut self, now: Instant) {
        for at in 0..self.active.len() {
            let slot = self.active[at];
            if !self.groups[slot as usize].waiting.is_empty() {
                self.serve(now, slot);
            }
        }
    }

    /// Serves tenants that wait or are in debt, and deactivates those that have issued nothing for
    /// a full period.
    fn retire_idle(&mut self, now: Instant) {
        let vnow = self.clock.now(now);
        let mut at = 0;
        while let Some(&slot) = self.active.get(at) {
            let group = &self.groups[slot as usize];
            if !group.waiting.is_empty() || group.debt > 0 || group.delay.is_set() {
                self.serve(now, slot);
                self.set_delay(now, slot);
            } else if group.period != self.period && group.passed == group.over {
                self.expire_budget(vnow, slot);
                self.deactivate(slot);
                continue;
            }
            at += 1;
        }
    }

    /// Removes the part of a budget above half a period and counts it as unused device time.
    /// Returns the budget.
    fn expire_budget(&mut self, vnow: i64, slot: u32) -> i64 {
        let most = self.margin(50);
        let share = self.shares.of(slot).1;
        let group = &mut self.groups[slot as usize];
        let budget = vnow - group.vtime;
        if budget <= most {
            return budget;
        }
        group.vtime = vnow - most;
        self.control.unused += mul_div((budget - most).unsigned_abs(), share, WHOLE);
        most
    }

    /// Decides how much of its share each tenant uses in the next period. Returns the device time
    /// that was used in this one.
    ///
    /// A lender's new share is `usage / (1/2 + budget)`, both as parts of a period: with what it
    /// uses now, its budget will be half a period at the next end. What lenders give up goes to all
    /// others in proportion.
    fn share_anew(&mut self, now: Instant) -> u64 {
        let vnow = self.clock.now(now);
        let (period, low, least) = (self.margin(100).max(1), self.margin(20), self.margin(10));
        let mut donors = core::mem::take(&mut self.donors);
        let (mut total, mut given_up, mut kept) = (0, 0, 0);
        for at in 0..self.active.len() {
            let slot = self.active[at];
            let (share, _) = self.shares.of(slot);
            let (active, in_use) = self.shares.weights(slot);
            let group = &mut self.groups[slot as usize];
            let usage = core::mem::replace(&mut group.used, Nanos::ZERO).get();
            total += usage;
            self.seen.lagging |=
                group.over < core::mem::replace(&mut group.passed_before, group.passed);
            let budget = vnow - group.vtime;
            if group.debt > 0 {
                self.seen.short += usize::from(budget < low);
                given_up += share;
                continue;
            }
            let enough = if in_use < active { least } else { low };
            if !group.waiting.is_empty() || budget < enough {
                self.seen.short += 1;
                continue;
            }
            let since = group.activated.max(self.period_start);
            let span = mul_div(now.since(since).get().max(1), self.control.speed, SPEED_ONE).max(1);
            let budget = self.expire_budget(vnow, slot);
            let wanted = u128::from(usage) * u128::from(WHOLE) / u128::from(span) * period as u128
                / (period / 2 + budget) as u128;
            let wanted = u64::try_from(wanted).unwrap_or(WHOLE).max(1);
            if wanted < share {
                (given_up, kept) = (given_up + share, kept + wanted);
                donors.push((slot, wanted));
            }
        }
        self.lend(vnow, &donors, given_up, kept);
        donors.clear();
        self.donors = donors;
        total
    }

    /// Lowers the lenders' weights in use. Others keep theirs: with `g = (1 - sum of lenders' new
    /// shares) / (1 - sum of their old ones)`, every other share grows by `g` if a lender uses
    /// `new / (g * old)` of its weight, at every level of the tree.
    fn lend(&mut self, vnow: i64, donors: &[(u32, u64)], given_up: u64, kept: u64) {
        let (others_before, others_after) =
            (WHOLE.saturating_sub(given_up), WHOLE.saturating_sub(kept));
        let donors = if self.seen.short > 0 && others_before > 0 { donors } else { &[] };
        // In the order of the list of active tenants, as it was made.
        let mut donors = donors.iter().peekable();
        for at in 0..self.active.len() {
            let slot = self.active[at];
            if let Some(&(_, wanted)) = donors.next_if(|donor| donor.0 == slot) {
                let share = self.shares.of(slot).0;
                let weight = mul_div(self.shares.weights(slot).0, wanted, share);
                self.shares.set_in_use(slot, mul_div(weight, others_before, others_after));
                let group = &mut self.groups[slot as usize];
                group.saved_margin = vnow - group.vtime;
            } else if self.groups[slot as usize].debt == 0 {
                self.shares.set_in_use(slot, u64::MAX);
            }
        }
    }
}
