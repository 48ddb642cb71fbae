//! io.latency: protects tenants with a latency target from their siblings.
//!
//! As in Linux. If a tenant misses its target, its siblings with a higher target, or none, may have
//! fewer I/Os in flight: half as many each time, down to one, and then their tasks are delayed.
//! Each set of siblings shares a *cookie* (`scaling`): a violation lowers it, recovery raises it. A
//! sibling that sees a different value than at its last check takes one step. An I/O takes a place
//! at each level on its way up and waits at the first level that is full, in FIFO order.
//!
//! Cost: an I/O O(depth) when it arrives and when it completes; a check of the sets once a second
//! while one is throttled. Nothing is allocated per I/O once queues have grown.

extern crate alloc;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{BioCost, Cause, Finished, Stage, StageVerdict, WaitBreakdown};
use crate::monotonic::Monotonic;
use crate::tenant::{ROOT, Tenants};
use crate::units::{BioId, Instant, Nanos, TenantId};

mod delay;
mod scaling;
#[cfg(test)]
mod tests;
mod window;

use delay::DelayPool;
use scaling::{DepthStep, Scaling};
use window::LatencyWindow;

pub use scaling::UNTHROTTLED;

/// How often throttled sets of siblings are checked without an I/O.
const TICK: Nanos = Nanos::from_secs(1);

/// An I/O that waits for a place.
#[derive(Clone, Copy, Debug)]
struct LatencyWaiter {
    bio: BioId,
    tenant: TenantId,
    /// When it began to wait at this level.
    since: Instant,
}

/// A level of the tree: a tenant, and the set of its children.
#[derive(Clone, Debug)]
struct Level {
    target: Option<Nanos>,
    window: LatencyWindow,
    /// The siblings' cookie at its last check; a new tenant assumes that nothing is throttled.
    cookie: u32,
    depth: Option<u32>,
    in_flight: u32,
    waiting: VecDeque<LatencyWaiter>,
    delay: DelayPool,
    /// The throttling between its children.
    children: Scaling,
}

/// io.latency for one device.
#[derive(Clone, Debug)]
pub struct IoLatency {
    /// `nr_requests`.
    queue_size: u32,
    is_rotational: bool,
    /// Index into `levels` by tenant id; the root's is 0.
    slots: Vec<u32>,
    levels: Vec<Level>,
    free: Vec<u32>,
    /// Tenants with a target.
    targets: u32,
    waiting: usize,
    /// I/Os that have a place at every level, and the last level at which they waited.
    due: VecDeque<(LatencyWaiter, TenantId)>,
    /// Waiting times at lower levels, until the breakdown is available.
    owed: Vec<(TenantId, TenantId, Nanos)>,
    tick_at: Option<Instant>,
    enabled_at: Instant,
    now: Monotonic,
}

const NO_SLOT: u32 = u32::MAX;

impl IoLatency {
    /// Returns io.latency for a device with `queue_size` requests (`nr_requests`). On rotational
    /// devices the mean of a window is compared with the target; on others the target is met if
    /// fewer than a tenth of the I/Os miss it.
    pub fn new(queue_size: u32, is_rotational: bool) -> Self {
        Self {
            queue_size: queue_size.max(1),
            is_rotational,
            slots: alloc::vec![0],
            levels: alloc::vec![Level::new()],
            free: Vec::new(),
            targets: 0,
            waiting: 0,
            due: VecDeque::new(),
            owed: Vec::new(),
            tick_at: None,
            enabled_at: Instant::ZERO,
            now: Monotonic::START,
        }
    }

    /// Sets a tenant's `io.latency` target; `None` or zero removes it. Its siblings start again
    /// without throttling. The root has none.
    pub fn set(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        tenant: TenantId,
        target: Option<Nanos>,
    ) {
        let target = target.filter(|target| !target.is_zero());
        let Some(parent) = tenants.parent(tenant) else { return };
        let slot = self.slot(tenants, tenant);
        let level = &mut self.levels[slot];
        let before = core::mem::replace(&mut level.target, target);
        if before == target {
            return;
        }
        let samples =
            core::mem::replace(&mut level.window, LatencyWindow::new(now, target)).counted();
        if before.is_none() && self.targets == 0 {
            self.enable(now);
        }
        self.targets = self.targets + u32::from(target.is_some()) - u32::from(before.is_some());
        let parent = self.slot(tenants, parent);
        self.levels[parent].children.reset(samples);
        self.step_children(now, tenants, parent);
        if self.targets == 0 {
            self.let_everything_go(now);
        }
    }

    /// Returns a tenant's target.
    pub fn target(&self, tenant: TenantId) -> Option<Nanos> {
        self.known(tenant).and_then(|slot| self.levels[slot].target)
    }

    /// Returns how long a task of the tenant is delayed now, on its way back to user space: the
    /// maximum over its levels, at most 250 ms. Delays decay as time passes.
    pub fn delay_of(&mut self, now: Instant, tenants: &Tenants, tenant: TenantId) -> Nanos {
        let mut most = Nanos::ZERO;
        for at in tenants.path(tenant) {
            if let Some(slot) = self.known(at) {
                most = most.max(self.levels[slot].delay.at(now));
            }
        }
        most
    }

    /// Resets the counts when the first target is set: I/Os that passed before are not known.
    fn enable(&mut self, now: Instant) {
        self.enabled_at = now;
        for level in &mut self.levels {
            level.in_flight = 0;
        }
    }

    fn known(&self, tenant: TenantId) -> Option<usize> {
        self.slots.get(tenant.index()).filter(|&&slot| slot != NO_SLOT).map(|&slot| slot as usize)
    }

    fn slot(&mut self, tenants: &Tenants, tenant: TenantId) -> usize {
        if let Some(slot) = self.known(tenant) {
            return slot;
        }
        self.slot(tenants, tenants.parent(tenant).unwrap_or(ROOT));
        let level = Level::new();
        let slot = match self.free.pop() {
            Some(slot) => {
                self.levels[slot as usize] = level;
                slot as usize
            }
            None => {
                self.levels.push(level);
                self.levels.len() - 1
            }
        };
        if self.slots.len() <= tenant.index() {
            self.slots.resize(tenant.index() + 1, NO_SLOT);
        }
        self.slots[tenant.index()] = slot as u32;
        slot
    }

    /// Takes a place at a level and at all levels above it, or waits at the first that is full.
    /// Returns false if it waits.
    fn climb(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        waiter: LatencyWaiter,
        from: TenantId,
        must_issue: bool,
    ) -> bool {
        for at in tenants.path(from) {
            let slot = self.slot(tenants, at);
            self.look(now, tenants, at, slot);
            let level = &mut self.levels[slot];
            if !must_issue && !level.has_place() {
                level.waiting.push_back(LatencyWaiter { since: now, ..waiter });
                self.waiting += 1;
                return false;
            }
            level.in_flight += 1;
        }
        true
    }

    /// Lets a tenant check its siblings' cookie, take a step if it changed, and release I/Os that
    /// then have a place.
    fn look(&mut self, now: Instant, tenants: &Tenants, tenant: TenantId, slot: usize) {
        let parent = self.slot(tenants, tenants.parent(tenant).unwrap_or(ROOT));
        let siblings = self.levels[parent].children;
        let level = &mut self.levels[slot];
        let before = core::mem::replace(&mut level.cookie, siblings.cookie());
        match siblings.step(before, level.target, level.window.counted()) {
            DepthStep::Stay => {}
            DepthStep::Clear => {
                level.depth = None;
                level.delay.clear();
            }
            DepthStep::Down => match level.depth {
                Some(1) => level.delay.add_use(now),
                depth => {
                    level.depth =
                        Some((depth.unwrap_or(self.queue_size).min(self.queue_size) / 2).max(1));
                }
            },
            DepthStep::Up => {
                let Some(depth) = level.depth else { return };
                if depth > 1 || !level.delay.remove_use(now) {
                    let more = depth + (self.queue_size / 16).max(1);
                    level.depth = (more < self.queue_size).then_some(more);
                }
            }
        }
        self.wake(now, tenants, tenant, slot);
    }

    /// Continues waiting I/Os of a level while it has free places.
    fn wake(&mut self, now: Instant, tenants: &Tenants, tenant: TenantId, slot: usize) {
        while self.levels[slot].has_place() {
            let Some(waiter) = self.levels[slot].waiting.pop_front() else { return };
            self.waiting -= 1;
            self.levels[slot].in_flight += 1;
            let above = tenants.parent(tenant).unwrap_or(ROOT);
            if self.climb(now, tenants, waiter, above, false) {
                self.due.push_back((waiter, tenant));
            } else {
                self.owed.push((waiter.tenant, tenant, now.since(waiter.since)));
            }
        }
    }

    /// Lets the children of a level that hold I/Os check their cookie now, and not only with their
    /// next I/O.
    fn step_children(&mut self, now: Instant, tenants: &Tenants, parent: usize) {
        for id in 1..self.slots.len() as u32 {
            let tenant = TenantId(id);
            let Some(slot) =
                self.known(tenant).filter(|&slot| !self.levels[slot].waiting.is_empty())
            else {
                continue;
            };
            if self.known(tenants.parent(tenant).unwrap_or(ROOT)) == Some(parent) {
                self.look(now, tenants, tenant, slot);
            }
        }
    }

    /// Evaluates a finished window of a level: its siblings are throttled more, or less.
    fn judge(&mut self, now: Instant, tenants: &Tenants, tenant: TenantId, slot: usize) {
        let level = &mut self.levels[slot];
        let Some(target) = level.target else { return };
        let Some(sample) = level.window.end(now) else { return };
        let is_met = if self.is_rotational {
            sample.mean() <= target
        } else {
            sample.slow < (sample.total / 10).max(1)
        };
        let parent = self.slot(tenants, tenants.parent(tenant).unwrap_or(ROOT));
        // A tenant that is content while nothing is throttled is not counted. So it seems idle when
        // a sibling's target is missed for the first time, and is not throttled then.
        if is_met && !self.levels[parent].children.is_throttled() {
            return;
        }
        let before = self.levels[slot].window.count(sample.total);
        let children = &mut self.levels[parent].children;
        children.count(before, sample.total);
        children.on_window(now, self.queue_size, (tenant, target), sample.total, is_met);
        if children.is_throttled() && self.tick_at.is_none() {
            self.tick_at = Some(now + TICK);
        }
    }

    fn tick(&mut self, now: Instant) {
        let mut is_throttled = false;
        for children in
            self.levels.iter_mut().map(|level| &mut level.children).filter(|c| c.is_throttled())
        {
            children.on_tick(now, self.queue_size);
            is_throttled |= children.is_throttled();
        }
        self.tick_at = is_throttled.then(|| now + TICK);
    }

    /// Releases everything after the last target was removed; nothing is counted from now on.
    fn let_everything_go(&mut self, now: Instant) {
        for id in 1..self.slots.len() as u32 {
            if let Some(slot) = self.known(TenantId(id)) {
                self.let_go(TenantId(id), slot);
                let level = &mut self.levels[slot];
                (level.depth, level.in_flight) = (None, 0);
                level.delay.clear();
            }
        }
        for level in &mut self.levels {
            level.children = Scaling::new();
            level.cookie = UNTHROTTLED;
        }
        self.tick_at = None;
        self.enabled_at = now;
    }

    /// Releases everything that waits at a level.
    fn let_go(&mut self, tenant: TenantId, slot: usize) {
        while let Some(waiter) = self.levels[slot].waiting.pop_front() {
            self.waiting -= 1;
            self.due.push_back((waiter, tenant));
        }
    }
}

impl Level {
    fn new() -> Self {
        Self {
            target: None,
            window: LatencyWindow::new(Instant::ZERO, None),
            cookie: UNTHROTTLED,
            depth: None,
            in_flight: 0,
            waiting: VecDeque::new(),
            delay: DelayPool::default(),
            children: Scaling::new(),
        }
    }

    fn has_place(&self) -> bool {
        self.depth.is_none_or(|depth| self.in_flight < depth)
    }
}

impl Stage for IoLatency {
    fn admit(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        bio: BioId,
        charge: &BioCost,
    ) -> StageVerdict {
        self.now.advance(now);
        if self.targets == 0 || charge.tenant == ROOT {
            return StageVerdict::Pass;
        }
        let waiter = LatencyWaiter { bio, tenant: charge.tenant, since: now };
        if self.climb(now, tenants, waiter, charge.tenant, charge.must_issue) {
            StageVerdict::Pass
        } else {
            StageVerdict::Sleep
        }
    }

    fn on_merge(&mut self, _now: Instant, _tenants: &Tenants, _charge: &BioCost) {}

    fn on_finish(&mut self, now: Instant, tenants: &Tenants, io: &Finished) {
        self.now.advance(now);
        if self.targets == 0 || io.allocated < self.enabled_at {
            return;
        }
        let took = io.end.since(io.issued);
        for at in tenants.path(io.tenant) {
            let Some(slot) = self.known(at) else { continue };
            let level = &mut self.levels[slot];
            level.in_flight = level.in_flight.saturating_sub(1);
            if let Some(target) = level.target {
                if io.must_issue {
                    level.delay.add(now, target.saturating_sub(took));
                } else {
                    level.window.record(took, took >= target);
                }
                self.judge(now, tenants, at, slot);
            }
            self.wake(now, tenants, at, slot);
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        if self.due.is_empty() { self.tick_at } else { Some(Instant::ZERO) }
    }

    fn release(
        &mut self,
        now: Instant,
        _tenants: &Tenants,
        breakdown: &mut WaitBreakdown,
        out: &mut Vec<BioId>,
    ) {
        self.now.advance(now);
        if self.tick_at.is_some_and(|at| at <= now) {
            self.tick(now);
        }
        for (tenant, level, time) in self.owed.drain(..) {
            breakdown.add(tenant, Cause::Latency { level }, time);
        }
        for (waiter, level) in self.due.drain(..) {
            breakdown.add(waiter.tenant, Cause::Latency { level }, now.since(waiter.since));
            out.push(waiter.bio);
        }
    }

    #[inline]
    fn is_enabled(&self) -> bool {
        self.targets > 0 || !self.due.is_empty()
    }

    fn held(&self) -> usize {
        self.waiting + self.due.len()
    }

    fn on_tenant_removed(&mut self, now: Instant, tenants: &Tenants, tenant: TenantId) {
        self.now.advance(now);
        let Some(slot) = self.known(tenant).filter(|&slot| slot != 0) else { return };
        self.set(now, tenants, tenant, None);
        let parent = tenants.parent(tenant).unwrap_or(ROOT);
        while let Some(waiter) = self.levels[slot].waiting.pop_front() {
            // It continues with a place at the levels above, like I/O that must be issued.
            self.waiting -= 1;
            self.climb(now, tenants, waiter, parent, true);
            self.due.push_back((waiter, tenant));
        }
        self.slots[tenant.index()] = NO_SLOT;
        self.free.push(slot as u32);
    }

    fn self_check(&self, tenants: &Tenants) {
        let mut waiting = 0;
        let mut targets = 0;
        for (id, slot) in
            self.slots.iter().enumerate().skip(1).filter(|(_, slot)| **slot != NO_SLOT)
        {
            let level = &self.levels[*slot as usize];
            assert!(tenants.is_alive(TenantId(id as u32)), "a level of a tenant that was removed");
            assert!(
                level.waiting.is_empty() || !level.has_place(),
                "tenant {id}: a place is free, yet I/O waits"
            );
            assert!(level.depth.is_none_or(|depth| (1..=self.queue_size).contains(&depth)));
            waiting += level.waiting.len();
            targets += u32::from(level.target.is_some());
        }
        assert_eq!((self.waiting, self.targets), (waiting, targets), "counted against found");
        assert!(self.targets > 0 || waiting == 0, "waits without a target anywhere");
    }
}
