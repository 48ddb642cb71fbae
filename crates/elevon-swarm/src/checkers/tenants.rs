//! Checkers of tenants. Their inputs are `io.stat`, which counts what limits released, the rules in
//! force, and the events.

use std::collections::BTreeMap;

use elevon_core::control::io_throttle::Policy;
use elevon_core::control::limits::UNLIMITED;
use elevon_core::driver::{Command, Completion};
use elevon_core::event::{Event, EventKind};
use elevon_core::stack::WORKER_DELAY;
use elevon_core::units::{Instant, Nanos, SECTOR_SIZE, Sector, TaskId, TenantId};

use super::{CheckResult, Checker, Issued, World, ensure};
use crate::tenants::{EXACT, FLAT, MAX, Seen, SeenTenant};

const READ: usize = 0;
const WRITE: usize = 1;
const DISCARD: usize = 2;
/// Nanoseconds per second: windows count in units of 1/`SECOND` of a byte or an I/O.
const SECOND: u128 = 1_000_000_000;

/// I/O of a tenant that limits released between two steps. Bytes of discards are omitted, because a
/// discard is charged as one sector.
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

/// Computes each tenant's I/O since the last step from `io.stat`.
#[derive(Default)]
struct Flows {
    last: Vec<Flow>,
}

impl Flows {
    fn take(&mut self, seen: &Seen) -> Vec<Flow> {
        self.last.resize(seen.tenants.len(), Flow::default());
        let since = |(tenant, last): (&SeenTenant, &mut Flow)| {
            let SeenTenant { bytes, ios, .. } = tenant;
            let all = Flow {
                bytes: [bytes[READ], bytes[WRITE]],
                ios: [ios[READ], ios[WRITE] + ios[DISCARD]],
            };
            let before = std::mem::replace(last, all);
            let less = |now: [u64; 2], before: [u64; 2]| [now[0] - before[0], now[1] - before[1]];
            Flow { bytes: less(all.bytes, before.bytes), ios: less(all.ios, before.ios) }
        };
        seen.tenants.iter().zip(&mut self.last).map(since).collect()
    }
}

/// The maximum over all windows of the units released minus the units that the rate allows in the
/// window. Units increase the level; the rate decreases it.
#[derive(Clone, Copy, Debug, Default)]
struct RateWindow {
    rate: u64,
    most: u64,
    level: u128,
    last: Instant,
}

impl RateWindow {
    /// Adds units released now under a limit with this rate and allowance. Returns false if the
    /// limit was exceeded. A limit that has just changed takes effect with the next call.
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
        // Times are whole nanoseconds, so a burst and a debt are rounded.
        self.level <= u128::from(most) * SECOND + 2 * u128::from(rate)
    }
}

fn name(id: usize) -> TenantId {
    TenantId(id as u32)
}

/// Windows of each tenant, one for each of `N` limits.
struct Windows<const N: usize> {
    list: Vec<[RateWindow; N]>,
}

impl<const N: usize> Default for Windows<N> {
    fn default() -> Self {
        Self { list: Vec::new() }
    }
}

impl<const N: usize> Windows<N> {
    /// Checks a tenant's `limits`: rate, allowance in addition to one I/O, units released. `None`
    /// restarts its windows.
    fn check(
        &mut self,
        seen: &Seen,
        id: usize,
        limits: Option<[(u64, u64, u64); N]>,
    ) -> CheckResult {
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
                format!(
                    "{:?}: {over:.6} within a window beyond {rate} a second, {most} may be; limit {at}",
                    name(id)
                )
            })?;
        }
        Ok(())
    }
}

/// Elevon's limits: in any window and at every level of the tree, a tenant gets at most rate ·
/// window + burst + one I/O.
#[derive(Default)]
pub(super) struct Exact {
    flows: Flows,
    windows: Windows<6>,
}

impl Checker for Exact {
    fn on_step(&mut self, world: &World, seen: &Seen) -> CheckResult {
        let mut flows = self.flows.take(seen);
        // A parent is created before its children, so its id is smaller.
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

/// Returns true if a tenant has a limit of one of the later `stages`, which may release bios in
/// another order and at other times.
fn is_followed(seen: &Seen, stages: &[usize]) -> bool {
    seen.tenants.iter().any(|tenant| stages.iter().any(|&at| !tenant.limits[at].is_none()))
}

/// `io.max` and the v1 limits: the bytes in a window are at most what the rate allows in the window
/// and four slices (five from 6.18 on), plus one bio. Tenants with children or below another limit
/// are not checked, because the bios of a child are released later.
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
            let mut above =
                std::iter::successors(tenant.parent, |up| seen.tenants[up.index()].parent);
            let is_below = above.any(|up| !seen.tenants[up.index()].limits[MAX].is_none());
            for stage in [FLAT, MAX] {
                let limits = &tenant.limits[stage];
                let of = |d: usize| {
                    let earned =
                        u128::from(limits.bps[d]) * u128::from(world.slices.get()) / SECOND;
                    let most = if limits.bps[d] == UNLIMITED {
                        0
                    } else {
                        earned as u64 + world.largest_bio
                    };
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

/// io-throttle: in a window a token bucket never gives more than what the rate allows, its capacity
/// and one I/O; a leaky bucket has no capacity. The live rules that it counts are those of the
/// tenants.
#[derive(Default)]
pub(super) struct Throttle {
    flows: Flows,
    windows: Windows<2>,
    is_followed: bool,
    /// True if there are empty flushes, which io-throttle does not see although they are I/Os.
    has_flushes: bool,
}

impl Checker for Throttle {
    fn on_event(&mut self, _: &World, event: &Event, _: Option<&Issued>) -> CheckResult {
        self.has_flushes |= event.kind == EventKind::BioQueue && event.sectors == 0;
        Ok(())
    }

    fn on_step(&mut self, world: &World, seen: &Seen) -> CheckResult {
        let ruled = seen
            .tenants
            .iter()
            .filter(|tenant| tenant.throttle.iter().any(Option::is_some))
            .count();
        ensure(ruled == seen.live_rules as usize, || {
            format!("{} live rules, {ruled} have one", seen.live_rules)
        })?;
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
            let mut limits = [
                of(0, world.largest_bio, bytes[READ] + bytes[WRITE]),
                of(1, 1, ios[READ] + ios[WRITE]),
            ];
            if self.has_flushes {
                limits[1].0 = UNLIMITED;
            }
            self.windows.check(seen, id, (!self.is_followed).then_some(limits))?;
        }
        Ok(())
    }
}

/// Bytes that were queued, and bytes that limits released, by tenant. A bio that was tried in vain
/// counts in both.
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

    /// Returns the bytes that limits hold of a tenant; `None` if more bytes were released than
    /// queued.
    fn held(&self, id: usize, tenant: &SeenTenant) -> Option<u64> {
        let queued = self.bytes.get(id).copied().unwrap_or(0);
        queued.checked_sub(tenant.bytes.iter().sum())
    }
}

/// Bios are held only while a rule exists. Bios held by a deleted rule or a removed tenant are
/// released at the same instant.
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
        // Time has advanced, so `last` is the final state of the previous instant; what was queued
        // since was released or is held.
        let mut any = seen.is_gated || last.is_gated;
        for id in 0..last.tenants.len() {
            let mut path =
                std::iter::successors(Some(name(id)), |up| last.tenants[up.index()].parent);
            let ruled = path.any(|up| {
                last.tenants[up.index()].has_limit() || seen.tenants[up.index()].has_limit()
            });
            any |= ruled;
            let held = self.queued.held(id, &seen.tenants[id]);
            ensure(held.is_some(), || {
                format!("{:?}: more went than came: {:?}", name(id), seen.tenants[id])
            })?;
            ensure(ruled || held == Some(0), || {
                format!("{:?}: {held:?} bytes held though no rule says so", name(id))
            })?;
        }
        ensure(any || last.held == 0, || format!("{} bios are held, and nothing holds", last.held))
    }
}

/// `io.stat` counts every queued byte, by tenant; at the end nothing is held or in flight.
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
            ensure(held == Some(0), || {
                format!("{:?}: queued and counted differ by {held:?}: {tenant:?}", name(id))
            })?;
            ensure(tenant.in_flight == 0, || {
                format!("{:?}: under way for ever: {tenant:?}", name(id))
            })?;
        }
        Ok(())
    }
}

/// The wait breakdown of a tenant's I/O equals the time that the I/O took, to the nanosecond: the
/// integral over time of its unfinished bios. Checked for runs without splits; if tenants were
/// removed, for all tenants together.
#[derive(Default)]
pub(super) struct WaitBreakdown {
    bios: Vec<u64>,
    /// Unfinished bios at the last step.
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
            // `ios` counts the bios that limits released, of which `in_flight` are unfinished. A
            // bio of a removed tenant may be in flight for another tenant; one count is then too
            // low and the other too high by one.
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
            return ensure(took == waited, || {
                format!("I/O took {took} ns, the breakdown has {waited}")
            });
        }
        for (id, (waited, took)) in waited().zip(&self.took).enumerate() {
            ensure(waited == *took, || {
                format!("{:?}: I/O took {took} ns, the breakdown has {waited}", name(id))
            })?;
        }
        Ok(())
    }
}

/// The device does not idle while a request waits that no tenant's rule holds: without a scheduler,
/// and with mq-deadline, if the device has no fault and no tunable changes. A hardware queue that
/// waits for its delayed run does not count, because completions on another queue do not run it in
/// the kernel either. It waits so if the device refused a request, or if mq-deadline held a class
/// back for a more urgent one: the class is then asked for again by the delayed run, not when the
/// last request of the more urgent class completes.
#[derive(Default)]
pub(super) struct Conservation {
    in_device: usize,
    /// Tasks that gather requests in a plug while their CPU is busy, with the sector of the first
    /// request. Not every kernel version has an event at the end of a plug; there, the dispatch of
    /// the first request ends it.
    plugs: BTreeMap<TaskId, Sector>,
    /// When the device last refused a request.
    refused: Option<Instant>,
    /// The rank of the least urgent class that was ever queued.
    least_urgent: usize,
    /// When a request of a more urgent class than [`Self::least_urgent`] last completed.
    more_urgent: Option<Instant>,
    last: Option<(Instant, usize, u64, usize)>,
}

/// How long a hardware queue waits for its next run after the device refused a request, or the
/// scheduler had none: the milliseconds of a timer in ticks.
const RERUN_DELAY_MS: u64 = 3;

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
        if let Some((at, calls, requests, held)) = self.last.take().filter(|last| last.0 < seen.now)
        {
            let ticks = (RERUN_DELAY_MS * world.hz.0).div_ceil(1000);
            let is_delayed = |since: Option<Instant>| {
                since.is_some_and(|at| seen.now <= world.hz.timer(at, ticks))
            };
            let is_delayed = is_delayed(self.refused) || is_delayed(self.more_urgent);
            // A lone request waits for a worker in versions without a plug around each bio.
            let waits_for_worker = !world.rules.implicit_plug && seen.now <= at + WORKER_DELAY;
            let idles =
                calls > 0 && (held == 0 || requests > 0) && !is_delayed && !waits_for_worker;
            ensure(!idles, || {
                format!(
                    "the device idles from {at:?} on; {calls} I/Os, {requests} requests, {held} held"
                )
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
