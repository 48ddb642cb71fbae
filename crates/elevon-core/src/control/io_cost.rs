//! io.cost: tenants share a device in proportion to their weights, measured in device time from a
//! cost model.
//!
//! As in Linux. Each I/O has a cost in nanoseconds of the device ([`Model`]). The device's virtual
//! time advances with real time, at a speed that a control loop corrects (`vrate`). A tenant's
//! virtual time advances by `cost / share` with each I/O and must not pass the device's. So in the
//! long run a tenant gets its share of device time, and no more while others want theirs. Shares
//! are in `hweight`. They count active leaves only, and leaves that need less than their share lend
//! the rest (`period`). I/O that must be issued is issued, and becomes debt (`debt`).
//!
//! Only leaves are controlled: an I/O of a tenant that has active tenants below it passes free. So
//! does an I/O below a tenant that is itself active as a leaf, until that tenant has been idle for
//! a period.
//!
//! A tenant that waits for budget is served late, as in Linux: its timer has a slack of 1 % of a
//! period. It fires from one slack after the budget suffices, if another tenant's timer fires then,
//! and two slacks after it at the latest. So tenants are served together. None loses budget by it.
//!
//! Cost: an I/O O(1), O(depth) after weights have changed; a wake-up O(log waiting tenants); a
//! period's end O(active tenants). Nothing is allocated per I/O once queues have grown.

extern crate alloc;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::{BioCost, Cause, Finished, Stage, StageVerdict, WaitBreakdown};
use crate::jiffies::Hz;
use crate::kernel::Rules;
use crate::monotonic::Monotonic;
use crate::op::Op;
use crate::tenant::{ROOT, Tenants};
use crate::units::{BioId, Instant, Nanos, Sector, Sectors, TenantId};

mod debt;
mod hweight;
mod model;
mod period;
#[cfg(test)]
mod tests;
mod vrate;

pub use model::{Coefficients, Model, Preset, Qos, QosError, RANDOM_DISTANCE};

use debt::{Delay, Forgiveness};
use hweight::{ROOT_SLOT, Shares, virtual_cost};
use period::AutoPreset;
use vrate::{Clock, SPEED_ONE, Seen, VrateControl};

/// `io.weight` of a tenant for which none was set.
pub const DEFAULT_WEIGHT: u16 = 100;
/// The valid range of `io.weight`.
pub const WEIGHTS: core::ops::RangeInclusive<u16> = 1..=10_000;

/// A weight outside [`WEIGHTS`]; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightError;

impl core::fmt::Display for WeightError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("a weight is 1 to 10000")
    }
}
impl core::error::Error for WeightError {}

const NO_SLOT: u32 = u32::MAX;

/// An I/O that is held.
#[derive(Clone, Copy, Debug)]
struct CostWaiter {
    bio: BioId,
    tenant: TenantId,
    cost: u64,
    since: Instant,
    /// The tenant's time in debt when it began to wait.
    indebt: Nanos,
}

/// An I/O that was released.
#[derive(Clone, Copy, Debug)]
struct Due {
    bio: BioId,
    tenant: TenantId,
    since: Instant,
    /// The part of its wait that debt caused.
    indebt: Nanos,
}

#[derive(Clone, Debug)]
struct Group {
    vtime: i64,
    /// Where its last I/O ended.
    cursor: Option<Sector>,
    waiting: VecDeque<CostWaiter>,
    /// When it is to be checked again at the latest; an entry of the heap with another time is
    /// stale.
    wake_at: Option<Instant>,
    /// Its index in the list of active leaves.
    active_at: Option<u32>,
    activated: Instant,
    /// Period of its last I/O.
    period: u64,
    /// Margin when its weight in use was last set.
    saved_margin: i64,
    /// Device time owed.
    debt: u64,
    /// When its debt began, if it has debt.
    indebt_since: Instant,
    delay: Delay,
    /// I/Os that passed, I/Os that completed, and I/Os that had passed when this period began.
    passed: u64,
    over: u64,
    passed_before: u64,
    /// Device time that it used in this period, according to the model.
    used: Nanos,
    /// The same in all, with that of tenants below it that were removed.
    usage: Nanos,
    /// Time in debt, without that of the debt it has now.
    indebt: Nanos,
}

/// io.cost for one device.
#[derive(Clone, Debug)]
pub struct IoCost {
    qos: Qos,
    coefficients: Coefficients,
    model: Model,
    auto: AutoPreset,
    clock: Clock,
    control: VrateControl,
    seen: Seen,

    shares: Shares,
    groups: Vec<Group>,
    free: Vec<u32>,
    slots: Vec<u32>,
    /// Active leaves.
    active: Vec<u32>,
    wakeups: BinaryHeap<Reverse<(Instant, u32)>>,
    due: VecDeque<Due>,
    waiting: usize,

    hz: Hz,
    period: u64,
    period_start: Instant,
    /// `None` while no tenant is active.
    period_end: Option<Instant>,
    forgiveness: Forgiveness,
    /// A change affects waiting I/Os: check all waiting tenants again.
    look_again: bool,
    enabled_at: Instant,
    donors: Vec<(u32, u64)>,
    now: Monotonic,
}

impl IoCost {
    /// Returns io.cost for a device to which Linux would give this preset; disabled until
    /// [`Self::set_qos`] enables it.
    /// `hz` is the rate of the ticks at which periods end.
    pub fn new(preset: Preset, rules: &Rules, hz: Hz) -> Self {
        let mut cost = Self {
            hz,
            qos: preset.qos(),
            coefficients: preset.coefficients(),
            model: Model::new(&preset.coefficients()),
            auto: AutoPreset::new(preset),
            clock: Clock::new(),
            control: VrateControl::new(rules.io_cost_keeps_busy_level),
            seen: Seen::default(),
            now: Monotonic::START,
            shares: Shares::new(),
            groups: Vec::new(),
            free: Vec::new(),
            slots: Vec::new(),
            active: Vec::new(),
            wakeups: BinaryHeap::new(),
            due: VecDeque::new(),
            waiting: 0,
            period: 0,
            period_start: Instant::ZERO,
            period_end: None,
            forgiveness: Forgiveness::default(),
            look_again: false,
            enabled_at: Instant::ZERO,
            donors: Vec::new(),
        };
        cost.groups.push(Group::new());
        cost.slots.push(ROOT_SLOT);
        cost
    }

    /// Enables or disables the control and changes nothing else (`enable=` alone).
    pub fn set_enabled(&mut self, now: Instant, enable: bool) {
        self.apply_qos(now, Qos { enable, ..self.qos });
    }

    /// Sets `io.cost.qos` as a user does. The automatic values are not used again until
    /// [`Self::set_auto`].
    ///
    /// # Errors
    /// A percentile is above 100 %, or `min` above `max`. Nothing is changed in this case.
    pub fn set_qos(&mut self, now: Instant, qos: Qos) -> Result<(), QosError> {
        let qos = qos.checked()?;
        self.auto.user_qos = true;
        self.apply_qos(now, qos);
        Ok(())
    }

    /// Sets `io.cost.model` as a user does (`ctrl=user`).
    pub fn set_model(&mut self, now: Instant, coefficients: Coefficients) {
        self.auto.user_model = true;
        self.apply_model(now, coefficients);
    }

    /// Returns to the presets (`ctrl=auto` of both files), and enables or disables the control.
    pub fn set_auto(&mut self, now: Instant, enable: bool) {
        (self.auto.user_qos, self.auto.user_model) = (false, false);
        self.apply_model(now, self.auto.preset.coefficients());
        self.apply_qos(now, Qos { enable, ..self.auto.preset.qos() });
    }

    /// Sets a tenant's `io.weight` for this device. It takes effect at once if the tenant is
    /// active.
    ///
    /// # Errors
    /// The weight is not one of [`WEIGHTS`]. Nothing is changed in this case.
    pub fn set_weight(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        tenant: TenantId,
        weight: u16,
    ) -> Result<(), WeightError> {
        if !WEIGHTS.contains(&weight) {
            return Err(WeightError);
        }
        let slot = self.slot(tenants, tenant);
        if slot != ROOT_SLOT {
            self.shares.set_weight(slot, weight);
            self.debtors_use_nothing(slot);
            self.look_again = self.waiting > 0;
            self.keep_period(now);
        }
        Ok(())
    }

    /// Returns a tenant's `io.weight`.
    pub fn weight(&self, tenant: TenantId) -> u16 {
        self.known(tenant).map_or(DEFAULT_WEIGHT, |slot| self.shares.weight(slot))
    }

    /// Records how long a request waited to be allocated (no tag was free): this shows an
    /// overloaded device without a percentile.
    pub(crate) fn on_alloc_wait(&mut self, wait: Nanos) {
        self.seen.alloc_wait += wait;
    }

    /// Returns the quality of service in force.
    pub const fn qos(&self) -> &Qos {
        &self.qos
    }

    /// Returns the coefficients in force.
    pub const fn coefficients(&self) -> &Coefficients {
        &self.coefficients
    }

    /// Returns the speed of the device's virtual clock in millionths, as the control loop set it
    /// (`cost.vrate`).
    pub const fn vrate_ppm(&self) -> u64 {
        self.control.speed * 1_000_000 / SPEED_ONE
    }

    /// Returns an active leaf's share of the device, and the part of it in use, in millionths;
    /// `None` if it is not an active leaf.
    #[cfg(test)]
    fn share_ppm(&mut self, tenant: TenantId) -> Option<(u64, u64)> {
        let slot = self.known(tenant)?;
        self.groups[slot as usize].active_at?;
        let (share, in_use) = self.shares.of(slot);
        let ppm = |share: u64| (share * 1_000_000 + hweight::WHOLE / 2) / hweight::WHOLE;
        Some((ppm(share), ppm(in_use)))
    }

    /// Returns a tenant's debt, in device time.
    #[cfg(test)]
    fn debt_of(&self, tenant: TenantId) -> Nanos {
        Nanos::new(self.known(tenant).map_or(0, |slot| self.groups[slot as usize].debt))
    }

    /// Returns how long a task of the tenant is delayed on its way back to user space, for debt
    /// beyond 5 periods: 250 us to 250 ms.
    pub fn delay_of(&self, now: Instant, tenants: &Tenants, tenant: TenantId) -> Nanos {
        let delay = |at| {
            self.known(at).map_or(Nanos::ZERO, |slot| self.groups[slot as usize].delay.at(now))
        };
        tenants.path(tenant).map(delay).max().unwrap_or(Nanos::ZERO)
    }

    /// Returns the device time that each tenant has used, by id, according to the model, with all
    /// below it (`cost.usage` of io.stat). O(tenants).
    pub fn usage(&self, tenants: &Tenants) -> Vec<Nanos> {
        let mut all = alloc::vec![Nanos::ZERO; tenants.ids()];
        for tenant in (0..tenants.ids()).rev().map(|id| TenantId(id as u32)) {
            if let Some(slot) = self.known(tenant) {
                all[tenant.index()] += self.groups[slot as usize].usage;
            }
            let below = all[tenant.index()];
            if let Some(parent) = tenants.parent(tenant) {
                all[parent.index()] += below;
            }
        }
        all
    }

    fn apply_model(&mut self, now: Instant, coefficients: Coefficients) {
        (self.coefficients, self.model) = (coefficients, Model::new(&coefficients));
        self.look_again = self.waiting > 0;
        self.keep_period(now);
    }

    fn apply_qos(&mut self, now: Instant, qos: Qos) {
        let was_enabled = core::mem::replace(&mut self.qos, qos).enable;
        if was_enabled && !qos.enable {
            for slot in core::mem::take(&mut self.active) {
                self.groups[slot as usize].active_at = None;
                self.let_go(now, slot);
                self.shares.deactivate(slot);
            }
            self.stop();
        } else if !was_enabled && qos.enable {
            self.enabled_at = now;
            for group in &mut self.groups {
                (group.passed, group.over, group.passed_before) = (0, 0, 0);
            }
        }
        self.keep_period(now);
    }

    /// Shortens the current period if it is longer than the length in force.
    fn keep_period(&mut self, now: Instant) {
        let latest = self.end_of_period(now);
        self.period_end = self.period_end.map(|end| end.min(latest));
    }

    /// Returns the slot of a tenant. Creates it, and those of its ancestors, if needed.
    fn slot(&mut self, tenants: &Tenants, tenant: TenantId) -> u32 {
        if let Some(slot) = self.known(tenant) {
            return slot;
        }
        let parent = self.slot(tenants, tenants.parent(tenant).unwrap_or(ROOT));
        let slot = self.free.pop().unwrap_or(self.groups.len() as u32);
        self.shares.set(slot, parent, DEFAULT_WEIGHT);
        if slot as usize == self.groups.len() {
            self.groups.push(Group::new());
        } else {
            self.groups[slot as usize] = Group::new();
        }
        if self.slots.len() <= tenant.index() {
            self.slots.resize(tenant.index() + 1, NO_SLOT);
        }
        self.slots[tenant.index()] = slot;
        slot
    }

    #[inline]
    fn known(&self, tenant: TenantId) -> Option<u32> {
        self.slots.get(tenant.index()).copied().filter(|&slot| slot != NO_SLOT)
    }

    /// Returns the cost of a fragment, as a request or as part of one, and moves the tenant's
    /// cursor. 0 for operations that the model does not know.
    #[inline]
    fn price(&mut self, slot: u32, charge: &BioCost, is_merge: bool) -> u64 {
        let is_write = match charge.op {
            Op::Read => false,
            Op::Write | Op::ZoneAppend => true,
            Op::Flush | Op::Discard | Op::SecureErase | Op::WriteZeroes => return 0,
        };
        if charge.bytes == 0 {
            return 0;
        }
        let cursor = &mut self.groups[slot as usize].cursor;
        let end = Some(charge.sector + Sectors::new(charge.bytes / 512));
        let cost = if is_merge {
            // The fragment follows the last I/O: the tenant's position is in the request that it
            // merges into.
            if *cursor == Some(charge.sector) {
                *cursor = end;
            }
            self.model.size(is_write, charge.bytes)
        } else {
            let is_random = model::is_random(*cursor, charge.sector);
            *cursor = end;
            self.model.request(is_write, charge.bytes, is_random)
        };
        cost.get()
    }

    /// Activates a leaf, with half a period's budget. Returns false if it is not a leaf.
    fn activate(&mut self, now: Instant, slot: u32) -> bool {
        let period = self.period;
        let group = &mut self.groups[slot as usize];
        group.period = period;
        if group.active_at.is_some() {
            return true;
        }
        if !self.shares.may_activate(slot) {
            return false;
        }
        if self.period_end.is_none() {
            self.start(now);
        }
        self.shares.activate(slot);
        let vtime = self.clock.now(now) - self.margin(50);
        let group = &mut self.groups[slot as usize];
        group.active_at = Some(self.active.len() as u32);
        group.activated = now;
        group.vtime = vtime;
        group.saved_margin = 0;
        group.used = Nanos::ZERO;
        self.active.push(slot);
        true
    }

    /// Returns that many percent of a period, in virtual time.
    fn margin(&self, percent: u64) -> i64 {
        (hweight::mul_div(self.qos.period().get(), self.control.speed, SPEED_ONE) * percent / 100)
            as i64
    }

    /// Returns the slack of a timer that waits for budget.
    fn slack(&self) -> Nanos {
        Nanos::new(self.qos.period().get() / 100)
    }

    /// Returns the virtual time that a cost takes from a leaf now. A leaf that lent part of its
    /// share and has too little left takes it back, a quarter at a time, as far as this I/O needs
    /// it.
    #[inline]
    fn need(&mut self, slot: u32, cost: u64, now: i64) -> i64 {
        let need = virtual_cost(cost, self.shares.of(slot).1);
        let (active, in_use) = self.shares.weights(slot);
        if in_use >= active || self.groups[slot as usize].debt > 0 {
            return need;
        }
        self.need_of_lender(slot, cost, now, need)
    }

    #[cold]
    fn need_of_lender(&mut self, slot: u32, cost: u64, now: i64, mut need: i64) -> i64 {
        let low = self.margin(20);
        let group = &mut self.groups[slot as usize];
        let margin = now.saturating_sub(group.vtime).saturating_sub(need);
        if margin >= low || margin >= group.saved_margin {
            group.saved_margin = margin;
            return need;
        }
        let vtime = group.vtime;
        loop {
            let (active, in_use) = self.shares.weights(slot);
            if in_use >= active || vtime.saturating_add(need) <= now {
                return need;
            }
            self.shares.set_in_use(slot, in_use + active.div_ceil(4));
            need = virtual_cost(cost, self.shares.of(slot).1);
        }
    }

    /// Charges a cost if the tenant's budget allows it and no other I/O of it waits.
    #[inline]
    fn try_commit(&mut self, now: Instant, slot: u32, cost: u64) -> bool {
        let vnow = self.clock.now(now);
        if self.groups[slot as usize].debt > 0 {
            self.pay_debt(now, vnow, slot);
        }
        let group = &self.groups[slot as usize];
        if group.debt > 0 || !group.waiting.is_empty() {
            return false;
        }
        let need = self.need(slot, cost, vnow);
        let group = &mut self.groups[slot as usize];
        if group.vtime.saturating_add(need) > vnow {
            return false;
        }
        group.vtime = group.vtime.saturating_add(need);
        group.pay(cost);
        true
    }

    /// Pays debt, releases I/Os that may go, in order, and sets when to check again.
    fn serve(&mut self, now: Instant, slot: u32) {
        let vnow = self.clock.now(now);
        if self.groups[slot as usize].debt > 0 {
            self.pay_debt(now, vnow, slot);
        }
        while self.groups[slot as usize].debt == 0 {
            let Some(&waiter) = self.groups[slot as usize].waiting.front() else { break };
            let need = self.need(slot, waiter.cost, vnow);
            let group = &mut self.groups[slot as usize];
            if group.vtime.saturating_add(need) > vnow {
                break;
            }
            group.vtime = group.vtime.saturating_add(need);
            group.pay(waiter.cost);
            group.passed += 1;
            self.release_front(now, slot);
        }
        self.arm(slot);
    }

    /// Releases the first waiting I/O.
    fn release_front(&mut self, now: Instant, slot: u32) {
        let group = &mut self.groups[slot as usize];
        let indebt = group.indebt(now);
        if let Some(CostWaiter { bio, tenant, since, indebt: before, .. }) =
            group.waiting.pop_front()
        {
            self.due.push_back(Due { bio, tenant, since, indebt: indebt - before });
            self.waiting -= 1;
        }
    }

    /// Sets when to check a waiting tenant again at the latest. This is two slacks after its debt
    /// is paid, or after it can pay for its first I/O.
    fn arm(&mut self, slot: u32) {
        let (share, slack) = (self.shares.of(slot), self.slack());
        let group = &mut self.groups[slot as usize];
        let Some(head) = group.waiting.front() else {
            group.wake_at = None;
            return;
        };
        let (cost, share) =
            if group.debt > 0 { (group.debt, share.0) } else { (head.cost, share.1) };
        let exact = self.clock.when(group.vtime.saturating_add(virtual_cost(cost, share)));
        let at = exact.saturating_add(slack).saturating_add(slack);
        if group.wake_at != Some(at) {
            group.wake_at = Some(at);
            self.wakeups.push(Reverse((at, slot)));
        }
        // Otherwise entries that became stale long before their time would accumulate.
        if self.wakeups.len() > 64 + 2 * self.groups.len() {
            let groups = &self.groups;
            self.wakeups.retain(|&Reverse((at, slot))| groups[slot as usize].wake_at == Some(at));
        }
    }

    /// Releases everything that a tenant holds at no cost, and clears its debt: the tenant is
    /// removed, or the control is disabled.
    fn let_go(&mut self, now: Instant, slot: u32) {
        while !self.groups[slot as usize].waiting.is_empty() {
            self.groups[slot as usize].passed += 1;
            self.release_front(now, slot);
        }
        self.forget_debt(now, slot);
        let group = &mut self.groups[slot as usize];
        group.wake_at = None;
    }

    /// Removes a leaf from the list of active leaves.
    fn deactivate(&mut self, slot: u32) {
        let Some(at) = self.groups[slot as usize].active_at.take() else { return };
        self.shares.deactivate(slot);
        self.active.swap_remove(at as usize);
        if let Some(&moved) = self.active.get(at as usize) {
            self.groups[moved as usize].active_at = Some(at);
        }
    }
}

impl Group {
    fn new() -> Self {
        Self {
            vtime: 0,
            cursor: None,
            waiting: VecDeque::new(),
            wake_at: None,
            active_at: None,
            activated: Instant::ZERO,
            period: 0,
            saved_margin: 0,
            debt: 0,
            indebt_since: Instant::ZERO,
            delay: Delay::default(),
            passed: 0,
            over: 0,
            passed_before: 0,
            used: Nanos::ZERO,
            usage: Nanos::ZERO,
            indebt: Nanos::ZERO,
        }
    }

    /// Counts the device time of an I/O.
    fn pay(&mut self, cost: u64) {
        self.used += Nanos::new(cost);
        self.usage += Nanos::new(cost);
    }

    /// Returns the time in debt so far.
    fn indebt(&self, now: Instant) -> Nanos {
        let current = if self.debt > 0 { now.since(self.indebt_since) } else { Nanos::ZERO };
        self.indebt + current
    }
}

impl Stage for IoCost {
    #[inline]
    fn admit(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        bio: BioId,
        charge: &BioCost,
    ) -> StageVerdict {
        self.now.advance(now);
        if charge.tenant == ROOT || !self.qos.enable {
            return StageVerdict::Pass;
        }
        let slot = self.slot(tenants, charge.tenant);
        let cost = self.price(slot, charge, false);
        if cost == 0 {
            return StageVerdict::Pass;
        }
        let is_leaf = self.activate(now, slot);
        if !is_leaf || self.try_commit(now, slot, cost) {
            self.groups[slot as usize].passed += 1;
            return StageVerdict::Pass;
        }
        if charge.must_issue {
            self.incur_debt(now, slot, cost);
            self.groups[slot as usize].passed += 1;
            return StageVerdict::Pass;
        }
        let group = &mut self.groups[slot as usize];
        let waiter =
            CostWaiter { bio, tenant: charge.tenant, cost, since: now, indebt: group.indebt(now) };
        group.waiting.push_back(waiter);
        self.waiting += 1;
        if self.groups[slot as usize].waiting.len() == 1 {
            if self.groups[slot as usize].debt == 0 {
                // A tenant with waiting I/O needs all of its share.
                self.shares.set_in_use(slot, u64::MAX);
            }
            self.serve(now, slot);
        }
        StageVerdict::Sleep
    }

    fn on_merge(&mut self, now: Instant, tenants: &Tenants, charge: &BioCost) {
        self.now.advance(now);
        if charge.tenant == ROOT || !self.qos.enable {
            return;
        }
        let slot = self.slot(tenants, charge.tenant);
        let cost = self.price(slot, charge, true);
        if cost > 0 && self.activate(now, slot) && !self.try_commit(now, slot, cost) {
            self.incur_debt(now, slot, cost);
        }
    }

    fn on_finish(&mut self, now: Instant, _tenants: &Tenants, io: &Finished) {
        self.now.advance(now);
        let direction = match io.op {
            Op::Read => 0,
            Op::Write | Op::ZoneAppend => 1,
            Op::Flush | Op::Discard | Op::SecureErase | Op::WriteZeroes => return,
        };
        // Requests allocated before control began were not counted when they passed.
        if io.tenant == ROOT || io.bytes == 0 || io.allocated < self.enabled_at {
            return;
        }
        if let Some(slot) = self.known(io.tenant) {
            let group = &mut self.groups[slot as usize];
            group.over = (group.over + 1).min(group.passed);
        }
        let allowed = if direction == 0 { self.qos.rlat } else { self.qos.wlat };
        let took =
            io.end.since(io.allocated).saturating_sub(self.model.size(direction == 1, io.bytes));
        self.seen.over[direction] += 1;
        self.seen.missed[direction] += u64::from(took > allowed);
    }

    fn next_wakeup(&self) -> Option<Instant> {
        if self.look_again || !self.due.is_empty() {
            return Some(Instant::ZERO);
        }
        let waiter = self.wakeups.peek().map(|&Reverse((at, _))| at);
        [waiter, self.period_end].into_iter().flatten().min()
    }

    fn release(
        &mut self,
        now: Instant,
        _tenants: &Tenants,
        breakdown: &mut WaitBreakdown,
        out: &mut Vec<BioId>,
    ) {
        self.now.advance(now);
        let within_slack = now + self.slack();
        while let Some(&Reverse((at, slot))) =
            self.wakeups.peek().filter(|&&Reverse((at, _))| at <= within_slack)
        {
            self.wakeups.pop();
            if self.groups[slot as usize].wake_at == Some(at) {
                self.groups[slot as usize].wake_at = None;
                self.serve(now, slot);
            }
        }
        if core::mem::take(&mut self.look_again) {
            self.serve_all(now);
        }
        if self.period_end.is_some_and(|end| end <= now) {
            self.end_period(now);
        }
        for Due { bio, tenant, since, indebt } in self.due.drain(..) {
            breakdown.add(tenant, Cause::Debt, indebt);
            breakdown.add(tenant, Cause::Cost, now.since(since) - indebt);
            out.push(bio);
        }
    }

    #[inline]
    fn is_enabled(&self) -> bool {
        self.qos.enable || !self.due.is_empty()
    }

    fn held(&self) -> usize {
        self.waiting + self.due.len()
    }

    fn on_tenant_removed(&mut self, now: Instant, tenants: &Tenants, tenant: TenantId) {
        self.now.advance(now);
        let Some(slot) = self.known(tenant).filter(|&slot| slot != ROOT_SLOT) else { return };
        self.let_go(now, slot);
        self.deactivate(slot);
        let (usage, parent) =
            (self.groups[slot as usize].usage, tenants.parent(tenant).unwrap_or(ROOT));
        let parent = self.slot(tenants, parent);
        self.groups[parent as usize].usage += usage;
        if self.active.is_empty() {
            self.stop();
        }
        self.slots[tenant.index()] = NO_SLOT;
        self.free.push(slot);
        self.look_again = self.waiting > 0;
    }

    fn self_check(&self, _tenants: &Tenants) {
        let live = || self.slots.iter().copied().filter(|&slot| slot != NO_SLOT);
        self.shares.self_check(live());
        let waiting: usize = live().map(|slot| self.groups[slot as usize].waiting.len()).sum();
        assert_eq!(self.waiting, waiting, "I/Os that wait, counted against queued");
        for slot in live() {
            let group = &self.groups[slot as usize];
            let (active, in_use) = self.shares.weights(slot);
            match group.active_at {
                Some(at) => {
                    assert_eq!(self.active[at as usize], slot, "the list of active tenants");
                }
                None => assert!(
                    group.waiting.is_empty() && group.debt == 0,
                    "not active, yet waiting or in debt"
                ),
            }
            assert!(group.debt == 0 || in_use == 1, "a debtor uses its weight");
            assert!(
                group.waiting.is_empty() || group.debt > 0 || in_use == active,
                "waits with less than its weight"
            );
            assert!(group.waiting.is_empty() || group.wake_at.is_some(), "waits for nothing");
            assert!(group.over <= group.passed);
        }
        assert_eq!(
            self.active.is_empty(),
            self.period_end.is_none(),
            "a period runs while somebody is active"
        );
    }
}
