//! Checkers of tenants. They see `io.stat`, which counts what limits have let go, the rules in
//! force, and the events.

use std::collections::BTreeMap;

use elevon_core::control::io_throttle::Policy;
use elevon_core::control::limits::UNLIMITED;
use elevon_core::driver::{Command, Completion};
use elevon_core::event::{Event, EventKind};
use elevon_core::units::{Instant, Nanos, SECTOR_SIZE, Sector, TaskId, TenantId};

use super::{CheckResult, Checker, Issued, World, ensure};
use crate::tenants::{EXACT, FLAT, MAX, Seen, SeenTenant};

const READ: usize = 0;
const WRITE: usize = 1;
const DISCARD: usize = 2;
/// Nanoseconds in a second: units of a window are fractions of a byte or I/O.
const SECOND: u128 = 1_000_000_000;

/// What limits let go of a tenant between two looks. A discard's bytes, which are charged as one
/// sector, are left out.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    bytes: [u64; 2],
    ios: [u64; 2],
}

impl Flow {
    fn add(&mut self, other: Self) {
        for d in [READ, WRITE] {
            self.bytes[d] += other.bytes[d];
            self.ios[d] += other.ios[d];
        }
    }
}

/// Turns `io.stat` into what went since the last look, by tenant.
#[derive(Default)]
struct Flows {
    last: Vec<Flow>,
}

impl Flows {
    fn take(&mut self, seen: &Seen) -> Vec<Flow> {
        self.last.resize(seen.tenants.len(), Flow::default());
        let since = |(tenant, last): (&SeenTenant, &mut Flow)| {
            let SeenTenant { bytes, ios, .. } = tenant;
            let all = Flow { bytes: [bytes[READ], bytes[WRITE]], ios: [ios[READ], ios[WRITE] + ios[DISCARD]] };
            let before = std::mem::replace(last, all);
            let less = |now: [u64; 2], before: [u64; 2]| [now[0] - before[0], now[1] - before[1]];
            Flow { bytes: less(all.bytes, before.bytes), ios: less(all.ios, before.ios) }
        };
        seen.tenants.iter().zip(&mut self.last).map(since).collect()
    }
}

/// The most that went in any window, less what a rate earned in it: grows by what goes, drains with
/// the rate.
#[derive(Clone, Copy, Debug, Default)]
struct RateWindow {
    rate: u64,
    most: u64,
    level: u128,
    last: Instant,
}

impl RateWindow {
    /// So much went now, under a limit of this rate and allowance. A limit that has just changed
    /// begins with the next.
    fn add(&mut self, now: Instant, rate: u64, most: u64, units: u64) -> bool {
        if (rate, most) != (self.rate, self.most) {
            *self = Self { rate, most, level: 0, last: now };
            return true;
        }
        if rate == UNLIMITED {
            return true;
        }
        let drained = u128::from(rate) * u128::from(now.since(self.last).get());
        self.last = now;
        self.level = self.level.saturating_sub(drained) + u128::from(units) * SECOND;
        // Time comes in whole nanoseconds, and so do a burst and what is owed.
        self.level <= u128::from(most) * SECOND + 2 * u128::from(rate)
    }
}

fn name(id: usize) -> TenantId {
    TenantId(id as u32)
}

/// Windows of each tenant; `N` limits each.
struct Windows<const N: usize> {
    list: Vec<[RateWindow; N]>,
}

impl<const N: usize> Default for Windows<N> {
    fn default() -> Self {
        Self { list: Vec::new() }
    }
}

impl<const N: usize> Windows<N> {
    /// `limits`: rate, allowance beside one I/O, units that went; `None` begins anew.
    fn check(&mut self, seen: &Seen, id: usize, limits: Option<[(u64, u64, u64); N]>) -> CheckResult {
        self.list.resize(seen.tenants.len(), [RateWindow::default(); N]);
        let Some(limits) = limits else {
            self.list[id] = [RateWindow::default(); N];
            return Ok(());
        };
        for (at, (rate, most, units)) in limits.into_iter().enumerate() {
            let window = &mut self.list[id][at];
            let holds = window.add(seen.now, rate, most, units);
            ensure(holds, || {
                let over = window.level as f64 / SECOND as f64;
                format!("{:?}: {over:.6} within a window beyond {rate} a second, {most} may be; limit {at}", name(id))
            })?;
        }
        Ok(())
    }
}

/// Our limits: over any window nobody gets more than rate · window + burst + one I/O, at any level.
#[derive(Default)]
pub(super) struct Exact {
    flows: Flows,
    windows: Windows<6>,
}

impl Checker for Exact {
    fn on_step(&mut self, world: &World, seen: &Seen) -> CheckResult {
        let mut flows = self.flows.take(seen);
        // A parent is older than its children, so its id is smaller.
        for id in (1..flows.len()).rev() {
            let flow = flows[id];
            if let Some(parent) = seen.tenants[id].parent {
                flows[parent.index()].add(flow);
            }
        }
        for (id, tenant) in seen.tenants.iter().enumerate().skip(1) {
            let (limits, Flow { bytes, ios }) = (&tenant.limits[EXACT], flows[id]);
            let of_bytes = |rate, units| (rate, limits.burst_bytes + world.largest_bio, units);
            let of_ios = |rate, units| (rate, limits.burst_ios + 1, units);
            let limits = [
                of_bytes(limits.bps[READ], bytes[READ]),
                of_bytes(limits.bps[WRITE], bytes[WRITE]),
                of_ios(limits.iops[READ], ios[READ]),
                of_ios(limits.iops[WRITE], ios[WRITE]),
                of_bytes(limits.total_bps, bytes[READ] + bytes[WRITE]),
                of_ios(limits.total_iops, ios[READ] + ios[WRITE]),
            ];
            self.windows.check(seen, id, Some(limits))?;
        }
        Ok(())
    }
}

/// Whether anybody has a limit of a stage that comes later, which would let go in another order and
/// at other times.
fn is_followed(seen: &Seen, stages: &[usize]) -> bool {
    seen.tenants.iter().any(|tenant| stages.iter().any(|&at| !tenant.limits[at].is_none()))
}

/// `io.max` and v1's limits: bytes of a window are at most what its rate earns in it and in four
/// slices (five from 6.18 on), and one bio. Not for tenants with children, nor below another limit:
/// what climbs comes later than it was let go.
#[derive(Default)]
pub(super) struct Slices {
    flows: Flows,
    windows: [Windows<2>; 2],
    is_followed: [bool; 2],
}

impl Checker for Slices {
    fn on_step(&mut self, world: &World, seen: &Seen) -> CheckResult {
        let flows = self.flows.take(seen);
        self.is_followed[FLAT] |= is_followed(seen, &[MAX, EXACT]);
        self.is_followed[MAX] |= is_followed(seen, &[EXACT]);
        for (id, tenant) in seen.tenants.iter().enumerate().skip(1) {
            let is_parent = seen.tenants.iter().any(|other| other.parent == Some(name(id)));
            let mut above = std::iter::successors(tenant.parent, |up| seen.tenants[up.index()].parent);
            let is_below = above.any(|up| !seen.tenants[up.index()].limits[MAX].is_none());
            for stage in [FLAT, MAX] {
                let limits = &tenant.limits[stage];
                let of = |d: usize| {
                    let earned = u128::from(limits.bps[d]) * u128::from(world.slices.get()) / SECOND;
                    let most = if limits.bps[d] == UNLIMITED { 0 } else { earned as u64 + world.largest_bio };
                    (limits.bps[d], most, flows[id].bytes[d])
                };
                let counts = stage == FLAT || !is_parent && !is_below;
                let limits = (counts && !self.is_followed[stage]).then(|| [of(READ), of(WRITE)]);
                self.windows[stage].check(seen, id, limits)?;
            }
        }
        Ok(())
    }
}

/// io-throttle: a token bucket never gives more in a window than its rate earns, what it holds and
/// one I/O; a leaky one holds nothing. What it counts as live rules are the tenants that have one.
#[derive(Default)]
pub(super) struct Throttle {
    flows: Flows,
    windows: Windows<2>,
    is_followed: bool,
    /// Empty flushes are I/Os that it does not look at.
    has_flushes: bool,
}

impl Checker for Throttle {
    fn on_event(&mut self, _: &World, event: &Event, _: Option<&Issued>) -> CheckResult {
        self.has_flushes |= event.kind == EventKind::BioQueue && event.sectors == 0;
        Ok(())
    }

    fn on_step(&mut self, world: &World, seen: &Seen) -> CheckResult {
        let ruled = seen.tenants.iter().filter(|tenant| tenant.throttle.iter().any(Option::is_some)).count();
        ensure(ruled == seen.live_rules as usize, || format!("{} live rules, {ruled} have one", seen.live_rules))?;
        self.is_followed |= is_followed(seen, &[FLAT, MAX, EXACT]);
        let flows = self.flows.take(seen);
        for (id, tenant) in seen.tenants.iter().enumerate().skip(1) {
            let Flow { bytes, ios } = flows[id];
            let of = |kind: usize, one: u64, units: u64| match tenant.throttle[kind] {
                None => (UNLIMITED, 0, units),
                Some(limit) => match limit.policy {
                    Policy::Leaky => (limit.rate, one, units),
                    Policy::Token { bucket } => (limit.rate, bucket + one, units),
                },
            };
            let mut limits = [of(0, world.largest_bio, bytes[READ] + bytes[WRITE]), of(1, 1, ios[READ] + ios[WRITE])];
            if self.has_flushes {
                limits[1].0 = UNLIMITED;
            }
            self.windows.check(seen, id, (!self.is_followed).then_some(limits))?;
        }
        Ok(())
    }
}

/// Bytes that were queued and that limits let go, by tenant.
#[derive(Default)]
struct Queued {
    bytes: Vec<u64>,
}

impl Queued {
    fn on_event(&mut self, world: &World, event: &Event) {
        if event.kind == EventKind::BioQueue {
            let id = world.payer_of(event).index();
            if id >= self.bytes.len() {
                self.bytes.resize(id + 1, 0);
            }
            self.bytes[id] += u64::from(event.sectors) * SECTOR_SIZE;
        }
    }

    /// Bytes that limits hold of a tenant; `None` where more went than came.
    fn held(&self, id: usize, tenant: &SeenTenant) -> Option<u64> {
        let queued = self.bytes.get(id).copied().unwrap_or(0);
        queued.checked_sub(tenant.bytes.iter().sum())
    }
}

/// Bios are held only while some rule says so, and what a deleted rule or a removed tenant held
/// goes at that very instant.
#[derive(Default)]
pub(super) struct Held {
    queued: Queued,
    last: Option<Seen>,
}

impl Checker for Held {
    fn on_event(&mut self, world: &World, event: &Event, _: Option<&Issued>) -> CheckResult {
        self.queued.on_event(world, event);
        Ok(())
    }

    fn on_step(&mut self, _: &World, seen: &Seen) -> CheckResult {
        let Some(last) = self.last.replace(seen.clone()) else { return Ok(()) };
        if seen.tenants.is_empty() || seen.now == last.now {
            return Ok(());
        }
        // Time moved on, so this is what the last instant left; what came since is queued and gone
        // by now, or held.
        let mut any = seen.is_gated || last.is_gated;
        for id in 0..last.tenants.len() {
            let mut path = std::iter::successors(Some(name(id)), |up| last.tenants[up.index()].parent);
            let ruled = path.any(|up| last.tenants[up.index()].has_limit() || seen.tenants[up.index()].has_limit());
            any |= ruled;
            let held = self.queued.held(id, &seen.tenants[id]);
            ensure(held.is_some(), || format!("{:?}: more went than came: {:?}", name(id), seen.tenants[id]))?;
            ensure(ruled || held == Some(0), || format!("{:?}: {held:?} bytes held though no rule says so", name(id)))?;
        }
        ensure(any || last.held == 0, || format!("{} bios are held, and nothing holds", last.held))
    }
}

/// `io.stat` counts every byte that was queued, by tenant, and in the end nothing is held or under
/// way.
#[derive(Default)]
pub(super) struct IoStat {
    queued: Queued,
    last: Option<Seen>,
}

impl Checker for IoStat {
    fn on_event(&mut self, world: &World, event: &Event, _: Option<&Issued>) -> CheckResult {
        self.queued.on_event(world, event);
        Ok(())
    }

    fn on_step(&mut self, _: &World, seen: &Seen) -> CheckResult {
        self.last = Some(seen.clone());
        Ok(())
    }

    fn on_idle(&mut self, _: &World) -> CheckResult {
        let Some(seen) = &self.last else { return Ok(()) };
        ensure(seen.held == 0, || format!("{} bios are held for ever", seen.held))?;
        for (id, tenant) in seen.tenants.iter().enumerate() {
            let held = self.queued.held(id, tenant);
            ensure(held == Some(0), || format!("{:?}: queued and counted differ by {held:?}: {tenant:?}", name(id)))?;
            ensure(tenant.in_flight == 0, || format!("{:?}: under way for ever: {tenant:?}", name(id)))?;
        }
        Ok(())
    }
}

/// What the breakdown says that a tenant's I/O waited is what it took, to the nanosecond: the
/// integral over time of its bios that were not over. Holds for bios that are not cut; where
/// tenants were removed, for all of them together.
#[derive(Default)]
pub(super) struct WaitBreakdown {
    bios: Vec<u64>,
    /// Bios not over at the last look.
    open: Vec<i128>,
    took: Vec<i128>,
    last: Option<Seen>,
}

impl Checker for WaitBreakdown {
    fn on_event(&mut self, world: &World, event: &Event, _: Option<&Issued>) -> CheckResult {
        if event.kind == EventKind::BioQueue {
            let id = world.payer_of(event).index();
            if id >= self.bios.len() {
                self.bios.resize(id + 1, 0);
            }
            self.bios[id] += 1;
        }
        Ok(())
    }

    fn on_step(&mut self, _: &World, seen: &Seen) -> CheckResult {
        let span = self.last.as_ref().map_or(Nanos::ZERO, |last| seen.now.since(last.now));
        let count = seen.tenants.len().max(self.bios.len());
        self.took.resize(count, 0);
        self.open.resize(count, 0);
        self.bios.resize(count, 0);
        for (took, open) in self.took.iter_mut().zip(&self.open) {
            *took += i128::from(span.get()) * *open;
        }
        for (id, tenant) in seen.tenants.iter().enumerate() {
            // Counted are those that limits have let go; of them, those under way are not over. A
            // bio of a removed tenant may be under way for another, which leaves one too few here
            // and one too many there.
            let counted: u64 = tenant.ios.iter().sum();
            self.open[id] = i128::from(self.bios[id] + tenant.in_flight) - i128::from(counted);
        }
        self.last = Some(seen.clone());
        Ok(())
    }

    fn on_idle(&mut self, _: &World) -> CheckResult {
        let Some(seen) = self.last.as_ref().filter(|seen| seen.splits == 0) else { return Ok(()) };
        let waited = || seen.tenants.iter().map(|tenant| i128::from(tenant.waited.get()));
        if seen.tenants.iter().any(|tenant| !tenant.is_alive) {
            let (took, waited): (i128, i128) = (self.took.iter().sum(), waited().sum());
            return ensure(took == waited, || format!("I/O took {took} ns, the breakdown has {waited}"));
        }
        for (id, (waited, took)) in waited().zip(&self.took).enumerate() {
            ensure(waited == *took, || format!("{:?}: I/O took {took} ns, the breakdown has {waited}", name(id)))?;
        }
        Ok(())
    }
}

/// The device does not idle while something waits that no tenant's rule holds: without a scheduler,
/// and with mq-deadline, as long as nothing is wrong with the device and nobody turns its knobs. It
/// does not count as idling when a hardware queue waits for its delayed run: completions on another
/// queue do not run it, in a kernel either. It waits so where the device refused it, and where
/// mq-deadline kept a class back for a more urgent one, which is asked again then and not when the
/// last of that class completes.
#[derive(Default)]
pub(super) struct Conservation {
    in_device: usize,
    /// Who gathers requests in a plug while its CPU is at work, with the first of them. Not every
    /// kernel says when a plug ends; its first request then goes on.
    plugs: BTreeMap<TaskId, Sector>,
    /// When the device last refused a request.
    refused: Option<Instant>,
    /// The rank of the least urgent class that was ever queued.
    least_urgent: usize,
    /// When a request of a more urgent class than that last completed.
    more_urgent: Option<Instant>,
    last: Option<(Instant, usize, u64, usize)>,
}

/// How long a hardware queue waits before it is run again after the device has refused a request,
/// or the scheduler given none.
const RERUN_DELAY: Nanos = Nanos::from_millis(3);

impl Checker for Conservation {
    fn on_command(&mut self, _: &World, _: &Issued) -> CheckResult {
        self.in_device += 1;
        Ok(())
    }

    fn on_completion(&mut self, _: &World, _: &Completion) -> CheckResult {
        self.in_device = self.in_device.saturating_sub(1);
        Ok(())
    }

    fn on_abort(&mut self, _: &World, _: &Command) -> CheckResult {
        self.in_device = self.in_device.saturating_sub(1);
        Ok(())
    }

    fn on_event(&mut self, world: &World, event: &Event, _: Option<&Issued>) -> CheckResult {
        let rank = event.ioprio.class().rank();
        match event.kind {
            EventKind::Plug => {
                self.plugs.insert(event.task, event.sector);
            }
            EventKind::Unplug { .. } => {
                self.plugs.remove(&event.task);
            }
            EventKind::Insert | EventKind::Issue => {
                self.plugs.retain(|_, first| *first != event.sector);
                self.least_urgent = self.least_urgent.max(rank);
            }
            EventKind::Requeue => self.refused = Some(event.time),
            EventKind::Complete { .. } if world.keeps_classes_back && rank < self.least_urgent => {
                self.more_urgent = Some(event.time);
            }
            _ => {}
        }
        Ok(())
    }

    fn on_step(&mut self, world: &World, seen: &Seen) -> CheckResult {
        if !world.conserves {
            return Ok(());
        }
        if let Some((at, calls, requests, held)) = self.last.take().filter(|last| last.0 < seen.now) {
            let is_delayed = |since: Option<Instant>| since.is_some_and(|at| seen.now <= at + RERUN_DELAY);
            let is_delayed = is_delayed(self.refused) || is_delayed(self.more_urgent);
            let idles = calls > 0 && (held == 0 || requests > 0) && !is_delayed;
            ensure(!idles, || {
                format!("the device idles from {at:?} on; {calls} I/Os, {requests} requests, {held} held")
            })?;
        }
        let is_idle = self.in_device == 0 && self.plugs.is_empty();
        self.last = is_idle.then_some((seen.now, seen.calls, seen.requests, seen.held));
        Ok(())
    }

    fn on_idle(&mut self, _: &World) -> CheckResult {
        self.last = None;
        self.plugs.clear();
        Ok(())
    }
}
