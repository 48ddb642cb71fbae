//! `io.max` as in Linux: limits checked in slices of time, level by level.
//!
//! Every tenant with a limit on itself or an ancestor counts the I/O that it dispatched in the
//! current slice, by direction. A bio climbs from its tenant to the child of the root; each level
//! tests and charges it. If a level denies it, or already holds others of its direction, the bio
//! waits there, in the queue of the source it came from (the tenant's own I/O, or one child).
//! Sources take turns, one bio each. Tenants with waiting bios are in a tree, sorted by the tick at
//! which they may dispatch. A turn is at most 6 reads and 2 writes. The bios that a run lets
//! through leave with reads first, round robin by source.
//!
//! Consequences: up to a slice's worth goes at once at the start of a slice; an I/O larger than
//! that waits until enough has accumulated; limits of a few I/Os a second are met only roughly (see
//! [`super::exact`] for the alternative).
//!
//! Behaviour of Linux 6.1 and 6.18 as documented and as measured on 6.18.44; versions differ by
//! [`Rules`]. Journal and metadata writes are held like any other, as in Linux.
//!
//! Cost: for a tenant without a rule on its path O(1), once its path was walked after the last
//! change of any rule; else O(depth) to pass, O(depth + log tenants that wait) to wait, whatever
//! the number of tenants. Memory: [`NODE_BYTES`] per tenant below a rule, plus [`QUEUES_BYTES`] and
//! the entries once something has waited there.

extern crate alloc;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::levels::{DIRECTIONS, Due, DueOrder, Level, Levels, PathRules};
use super::limits::{Limits, UNLIMITED, bytes_rule, ios_rule};
use super::{BioCost, Cause, ReadOrWrite, Stage, StageVerdict, WaitBreakdown};
use crate::jiffies::{Hz, Ticks};
use crate::kernel::Rules;
use crate::tenant::{ROOT, Tenants};
use crate::units::{BioId, Instant, Nanos, TenantId};

mod slice;
#[cfg(test)]
mod tests;

use slice::{Clock, Slice, Wait};

/// Memory per tenant before any of its bios has waited.
pub const NODE_BYTES: usize = size_of::<IoMaxNode>();
/// Memory of a tenant's queues in addition, without their entries.
pub const QUEUES_BYTES: usize = size_of::<Queues>();

/// Reads and writes of a turn.
const TURN: [u32; 2] = [6, 2];
/// Number of bios in a run, after which the clock is read again.
const RUN: u32 = 32;

/// Parameters of the stage.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Ticks a second, 100 to 1000.
    pub hz: Hz,
    /// Slice in ms, at least a tick.
    pub slice_ms: u64,
    /// Bytes and I/Os are tested one after the other and a finished slice is kept
    /// ([`Rules::throttle_in_series`]).
    pub in_series: bool,
    /// Only the tenant's own limits count, not its ancestors' (`blkio.throttle.*` of cgroup v1).
    pub flat: bool,
}

impl Config {
    /// Returns the parameters of a kernel version.
    pub const fn from_rules(rules: &Rules, hz: Hz, rotational: bool) -> Self {
        let slice_ms = if rotational { 100 } else { rules.throttle_slice_ms };
        Self { hz, slice_ms, in_series: rules.throttle_in_series, flat: false }
    }
}

/// A bio that waits.
#[derive(Clone, Copy, Debug)]
struct HeldBio {
    bio: BioId,
    /// The tenant that is charged, for the breakdown.
    tenant: TenantId,
    bytes: u64,
    /// Its bytes are charged at this level.
    paid: bool,
    /// When it began to wait at this level.
    since: Instant,
    /// How long the byte limit had held the fronts of this queue when it arrived.
    by_bytes: Nanos,
}

impl HeldBio {
    /// Adds the time that it has waited at a level, whose byte limit has held fronts for `by_bytes`
    /// until now.
    fn add_wait(
        &self,
        now: Instant,
        by_bytes: Nanos,
        level: TenantId,
        direction: ReadOrWrite,
        breakdown: &mut WaitBreakdown,
    ) {
        let bytes = by_bytes - self.by_bytes;
        breakdown.add(self.tenant, Cause::Limit { level, rule: bytes_rule(direction) }, bytes);
        breakdown.add(
            self.tenant,
            Cause::Limit { level, rule: ios_rule(direction) },
            now.since(self.since) - bytes,
        );
    }
}

/// A bio that the current run let through.
#[derive(Clone, Copy, Debug)]
struct Through {
    /// How many bios of the same source went before it in this run, and the index of the source.
    turn: u32,
    place: u32,
    /// The last level that it passed.
    source: TenantId,
    bio: BioId,
}

/// An instant, and its tick.
#[derive(Clone, Copy, Debug)]
struct Time {
    now: Instant,
    tick: u64,
}

/// Which of a level's two limits holds its front bio, and so everything behind it.
#[derive(Clone, Copy, Debug, Default)]
struct Hold {
    /// Bytes, not I/Os, in the last test that denied a front bio.
    is_bytes: bool,
    /// The time up to which `by_bytes` is complete.
    mark: Instant,
    /// How long the byte limit has held fronts here.
    by_bytes: Nanos,
}

impl Hold {
    fn settle(&mut self, now: Instant) {
        if self.is_bytes {
            self.by_bytes += now.since(self.mark);
        }
        self.mark = now;
    }
}

/// The bios that wait at a level, by direction.
#[derive(Clone, Debug, Default)]
struct Queues {
    /// Own I/O, waiting here.
    own: [VecDeque<HeldBio>; 2],
    /// I/O that came through this tenant and waits at its parent.
    above: [VecDeque<HeldBio>; 2],
    /// The sources that take turns: this tenant for its own I/O, or one of its children.
    turns: [VecDeque<TenantId>; 2],
    /// Number of bios behind `turns`.
    count: [usize; 2],
    holds: [Hold; 2],
    /// The key of this tenant in the tree of waiting tenants.
    due: Option<Due>,
}

/// A direction of a tenant.
#[derive(Clone, Copy, Debug)]
struct Lane {
    bps: u64,
    iops: u64,
    slice: Slice,
}

impl Default for Lane {
    fn default() -> Self {
        Self { bps: UNLIMITED, iops: UNLIMITED, slice: Slice::default() }
    }
}

impl Lane {
    const fn is_limited(&self) -> bool {
        self.bps != UNLIMITED || self.iops != UNLIMITED
    }
}

/// Laid out so that a read that passes touches one cache line per level: with 100,000 tenants this
/// is the dominant cost.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
struct IoMaxNode {
    path_rules: PathRules,
    queues: Option<Box<Queues>>,
    lanes: [Lane; 2],
}

impl IoMaxNode {
    fn waiting(&self, direction: ReadOrWrite) -> usize {
        self.queues.as_ref().map_or(0, |queues| queues.count[direction as usize])
    }

    /// Returns its key in the tree of waiting tenants.
    fn due(&self) -> Option<Due> {
        self.queues.as_ref().and_then(|queues| queues.due)
    }

    fn is_limited(&self) -> bool {
        self.lanes.iter().any(Lane::is_limited)
    }
}

impl Level for IoMaxNode {
    fn limits_direction(&self, direction: ReadOrWrite) -> bool {
        self.lanes[direction as usize].is_limited()
    }
    fn path_rules(&mut self) -> &mut PathRules {
        &mut self.path_rules
    }
}

/// The stage. See the module documentation.
#[derive(Clone, Debug)]
pub struct IoMax {
    clock: Clock,
    ticks: Ticks,
    flat: bool,
    nodes: Levels<IoMaxNode>,
    /// Tenants with a limit.
    rules: u32,
    held: usize,
    /// Tenants that hold bios, by (tick, order of arrival).
    waiting: DueOrder<TenantId>,
    /// The bios that the current run let through, by direction.
    through: [Vec<Through>; 2],
}

impl IoMax {
    /// A stage without rules.
    pub fn new(config: Config) -> Self {
        let hz = config.hz;
        Self {
            clock: Clock {
                hz,
                slice: (config.slice_ms * hz.0 / 1000).max(1),
                in_series: config.in_series,
            },
            ticks: Ticks::new(config.hz),
            flat: config.flat,
            nodes: Levels::default(),
            rules: 0,
            held: 0,
            waiting: DueOrder::default(),
            through: [Vec::new(), Vec::new()],
        }
    }

    /// Returns a tenant's limits that Linux has: no totals, no bursts.
    pub fn limits(&self, tenant: TenantId) -> Limits {
        let lanes = self.nodes.get(tenant.index()).map_or([Lane::default(); 2], |node| node.lanes);
        Limits {
            bps: lanes.map(|lane| lane.bps),
            iops: lanes.map(|lane| lane.iops),
            ..Limits::default()
        }
    }

    /// Sets a tenant's limits that Linux has. If bios wait, the budget earned under the old limits
    /// is carried over, and the bios are checked again; removing a limit releases them at once.
    /// Panics if a limit is 0: it would never let a bio go.
    pub fn set(&mut self, now: Instant, tenant: TenantId, limits: Limits) {
        assert!(limits.is_valid(), "a limit of 0 for tenant {}", tenant.index());
        let time = self.time(now);
        let tick = time.tick;
        let clock = self.clock;
        let node = self.nodes.of(tenant);
        let was = node.is_limited();
        for direction in DIRECTIONS {
            let d = direction as usize;
            let waited_on = node.waiting(direction) > 0;
            let Lane { bps, iops, slice } = &mut node.lanes[d];
            slice.carry(&clock, tick, *bps, *iops, waited_on);
            (*bps, *iops) = (limits.bps[d], limits.iops[d]);
        }
        let (is, is_due) = (node.is_limited(), node.due().is_some());
        self.rules = self.rules + u32::from(is) - u32::from(was);
        self.nodes.rules_changed();
        if is_due {
            self.rekey(time, tenant);
        }
    }

    fn time(&mut self, now: Instant) -> Time {
        Time { now, tick: self.ticks.at(now) as u64 }
    }

    /// Returns the next level above that also counts; `None` below the root.
    fn above(&self, tenants: &Tenants, tenant: TenantId) -> Option<TenantId> {
        if self.flat { None } else { tenants.parent(tenant).filter(|&parent| parent != ROOT) }
    }

    /// Tests if a level lets a bio go now. If the version tests in series, its bytes are charged as
    /// soon as they are due.
    fn test(
        &mut self,
        tick: u64,
        level: TenantId,
        direction: ReadOrWrite,
        held: &mut HeldBio,
    ) -> Option<Wait> {
        let clock = self.clock;
        let node = &mut self.nodes[level.index()];
        let d = direction as usize;
        let waited_on = node.waiting(direction) > 0;
        let Lane { bps, iops, slice } = &mut node.lanes[d];
        slice.prepare(&clock, tick, waited_on);
        let bytes =
            if held.paid { None } else { slice.wait_for_bytes(&clock, tick, *bps, held.bytes) };
        let wait = match bytes {
            Some(wait) => Some(wait),
            None => {
                if clock.in_series && !held.paid {
                    slice.charge_bytes(held.bytes);
                    held.paid = true;
                }
                slice.wait_for_io(&clock, tick, *iops)
            }
        };
        if let Some(wait) = wait {
            slice.extend(&clock, tick + wait.ticks());
        }
        wait
    }

    /// Tests the front bio of a level, if there is one. Returns how many ticks it has to wait. The
    /// limit that denies it holds all behind it too.
    fn test_front(&mut self, time: Time, level: TenantId, direction: ReadOrWrite) -> Option<u64> {
        let (_, &mut held) = self.front(level, direction)?;
        let mut tested = held;
        let wait = self.test(time.tick, level, direction, &mut tested);
        let (_, front) = self.front(level, direction)?;
        *front = tested;
        if let Some(wait) = wait {
            let hold = &mut self.nodes[level.index()].queues.as_mut()?.holds[direction as usize];
            hold.settle(time.now);
            hold.is_bytes = matches!(wait, Wait::Bytes(_));
        }
        Some(wait.map_or(0, Wait::ticks))
    }

    /// Charges a bio that passes a level.
    fn pay(&mut self, tick: u64, level: TenantId, direction: ReadOrWrite, held: &HeldBio) {
        let clock = self.clock;
        let Lane { bps, iops, slice } = &mut self.nodes[level.index()].lanes[direction as usize];
        if !held.paid {
            slice.charge_bytes(held.bytes);
        }
        slice.charge_io();
        slice.trim(&clock, tick, *bps, *iops);
    }

    /// Climbs from a level upwards until the bio is through (`None`) or has to wait. Returns the
    /// level where it waits, and its source.
    fn climb(
        &mut self,
        tick: u64,
        tenants: &Tenants,
        from: (TenantId, TenantId),
        direction: ReadOrWrite,
        held: &mut HeldBio,
    ) -> Option<(TenantId, TenantId)> {
        let (mut level, mut source) = from;
        loop {
            self.nodes.of(level);
            let queued = self.nodes[level.index()].waiting(direction) > 0;
            if queued || self.test(tick, level, direction, held).is_some() {
                return Some((level, source));
            }
            self.pay(tick, level, direction, held);
            held.paid = held.bytes == 0;
            (source, level) = (level, self.above(tenants, level)?);
        }
    }

    fn push(
        &mut self,
        time: Time,
        (level, source): (TenantId, TenantId),
        direction: ReadOrWrite,
        mut held: HeldBio,
    ) {
        let d = direction as usize;
        let hold = &mut self.nodes[level.index()].queues.get_or_insert_default().holds[d];
        hold.settle(time.now);
        (held.since, held.by_bytes) = (time.now, hold.by_bytes);
        let queues = self.nodes[source.index()].queues.get_or_insert_default();
        let list = if level == source { &mut queues.own[d] } else { &mut queues.above[d] };
        let first_of_source = list.is_empty();
        list.push_back(held);
        let queues = self.nodes[level.index()].queues.as_mut().expect("made above");
        if first_of_source {
            queues.turns[d].push_back(source);
        }
        queues.count[d] += 1;
        if queues.count[d] == 1 || queues.due.is_none() {
            self.rekey(time, level);
        }
    }

    fn front(
        &mut self,
        level: TenantId,
        direction: ReadOrWrite,
    ) -> Option<(TenantId, &mut HeldBio)> {
        let d = direction as usize;
        let source = *self.nodes[level.index()].queues.as_ref()?.turns[d].front()?;
        let queues = self.nodes[source.index()].queues.as_mut()?;
        let list = if source == level { &mut queues.own[d] } else { &mut queues.above[d] };
        list.front_mut().map(|held| (source, held))
    }

    /// Takes the front bio of a level and passes the turn on; records what it waited for here.
    fn pop(
        &mut self,
        now: Instant,
        level: TenantId,
        direction: ReadOrWrite,
        breakdown: &mut WaitBreakdown,
    ) -> HeldBio {
        let d = direction as usize;
        let queues = self.nodes[level.index()].queues.as_mut().expect("something waits");
        queues.holds[d].settle(now);
        let by_bytes = queues.holds[d].by_bytes;
        let source = queues.turns[d].pop_front().expect("something waits");
        queues.count[d] -= 1;
        let of_source = self.nodes[source.index()].queues.as_mut().expect("something waits");
        let list = if level == source { &mut of_source.own[d] } else { &mut of_source.above[d] };
        let held = list.pop_front().expect("something waits");
        let has_more = !list.is_empty();
        if has_more {
            self.nodes[level.index()].queues.as_mut().expect("as above").turns[d].push_back(source);
        }
        held.add_wait(now, by_bytes, level, direction, breakdown);
        held
    }

    /// Updates the place of a tenant in the tree: behind tenants with the same tick; removed if it
    /// holds nothing.
    fn rekey(&mut self, time: Time, tenant: TenantId) {
        if self.nodes[tenant.index()].queues.is_none() {
            return;
        }
        let mut earliest: Option<u64> = None;
        for direction in DIRECTIONS {
            let Some(wait) = self.test_front(time, tenant, direction) else { continue };
            earliest = Some(earliest.map_or(wait, |old| old.min(wait)));
        }
        let queues = self.nodes[tenant.index()].queues.as_mut().expect("looked at above");
        self.waiting.set(tenant, &mut queues.due, earliest.map(|wait| time.tick + wait));
    }

    /// Serves one turn of a tenant: reads, then writes, as many as may go. Returns how many went.
    fn turn(
        &mut self,
        time: Time,
        tenants: &Tenants,
        level: TenantId,
        breakdown: &mut WaitBreakdown,
    ) -> u32 {
        let mut went = 0;
        for direction in DIRECTIONS {
            for _ in 0..TURN[direction as usize] {
                if self.test_front(time, level, direction) != Some(0) {
                    break;
                }
                let held = self.pop(time.now, level, direction, breakdown);
                self.pass_up(time, tenants, level, direction, held);
                went += 1;
            }
        }
        went
    }

    /// Moves a bio on from a level: it waits at the next one, or is through.
    fn pass_up(
        &mut self,
        time: Time,
        tenants: &Tenants,
        level: TenantId,
        direction: ReadOrWrite,
        held: HeldBio,
    ) {
        let tick = time.tick;
        let d = direction as usize;
        self.pay(tick, level, direction, &held);
        let Some(parent) = self.above(tenants, level) else {
            self.held -= 1;
            let list = &mut self.through[d];
            let (turn, place) = match list.iter().rev().find(|other| other.source == level) {
                Some(last) => (last.turn + 1, last.place),
                None => (0, list.len() as u32),
            };
            list.push(Through { turn, place, source: level, bio: held.bio });
            return;
        };
        let child_start = self.nodes[level.index()].lanes[d].slice.start();
        let clock = self.clock;
        let above = self.nodes.of(parent);
        if above.lanes[d].slice.has_ended(tick) && above.waiting(direction) == 0 {
            above.lanes[d].slice.begin_with_credit(&clock, tick, child_start);
        }
        let held = HeldBio { paid: held.bytes == 0, ..held };
        self.push(time, (parent, level), direction, held);
    }

    /// Appends the bios that a run let through to `out`: reads before writes, sources in turn.
    fn hand_out(&mut self, out: &mut Vec<BioId>) {
        for list in &mut self.through {
            list.sort_unstable_by_key(|bio| (bio.turn, bio.place));
            out.extend(list.drain(..).map(|bio| bio.bio));
        }
    }
}

impl Stage for IoMax {
    fn admit(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        bio: BioId,
        charge: &BioCost,
    ) -> StageVerdict {
        let direction = charge.direction();
        if !self.nodes.is_ruled(tenants, charge.tenant, direction, !self.flat) {
            return StageVerdict::Pass;
        }
        let time = self.time(now);
        let bytes = if charge.first { charge.bytes } else { 0 };
        let mut held = HeldBio {
            bio,
            tenant: charge.tenant,
            bytes,
            paid: bytes == 0,
            since: now,
            by_bytes: Nanos::ZERO,
        };
        match self.climb(time.tick, tenants, (charge.tenant, charge.tenant), direction, &mut held) {
            None => StageVerdict::Pass,
            Some(place) => {
                self.held += 1;
                self.push(time, place, direction, held);
                StageVerdict::Hold
            }
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.waiting.first().map(|(tick, _)| self.ticks.start_of(tick))
    }

    fn release(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        breakdown: &mut WaitBreakdown,
        out: &mut Vec<BioId>,
    ) {
        let time = self.time(now);
        let mut went = 0;
        while let Some((at, tenant)) = self.waiting.first() {
            if at > time.tick {
                break;
            }
            went += self.turn(time, tenants, tenant, breakdown);
            self.rekey(time, tenant);
            if went >= RUN {
                self.hand_out(out);
                went = 0;
            }
        }
        self.hand_out(out);
    }

    fn holds(&self, tenants: &Tenants, tenant: TenantId) -> Option<Cause> {
        let mut level = tenant;
        let mut source = tenant;
        loop {
            for direction in DIRECTIONS {
                let d = direction as usize;
                let of_source = self.nodes.get(source.index())?.queues.as_ref();
                let list = of_source
                    .map(|queues| if source == level { &queues.own[d] } else { &queues.above[d] });
                if list.is_some_and(|list| list.iter().any(|held| held.tenant == tenant)) {
                    let is_bytes = self.nodes[level.index()].queues.as_ref()?.holds[d].is_bytes;
                    let rule = if is_bytes { bytes_rule(direction) } else { ios_rule(direction) };
                    return Some(Cause::Limit { level, rule });
                }
            }
            (source, level) = (level, self.above(tenants, level)?);
        }
    }

    fn withdraw(
        &mut self,
        now: Instant,
        _tenants: &Tenants,
        is_chosen: &dyn Fn(BioId) -> bool,
        breakdown: &mut WaitBreakdown,
        out: &mut Vec<BioId>,
    ) {
        let time = self.time(now);
        for level in (0..self.nodes.len()).map(|index| TenantId(index as u32)) {
            let before = out.len();
            for direction in DIRECTIONS {
                let (d, of_level) = (direction as usize, out.len());
                let Some(queues) = &mut self.nodes[level.index()].queues else { break };
                queues.holds[d].settle(now);
                let by_bytes = queues.holds[d].by_bytes;
                let mut turns = core::mem::take(&mut queues.turns[d]);
                turns.retain(|&source| {
                    let queues =
                        self.nodes[source.index()].queues.as_mut().expect("a source has queues");
                    let list =
                        if source == level { &mut queues.own[d] } else { &mut queues.above[d] };
                    for held in list.iter().filter(|held| is_chosen(held.bio)) {
                        held.add_wait(now, by_bytes, level, direction, breakdown);
                        out.push(held.bio);
                    }
                    list.retain(|held| !is_chosen(held.bio));
                    !list.is_empty()
                });
                let queues = self.nodes[level.index()].queues.as_mut().expect("looked at above");
                queues.turns[d] = turns;
                queues.count[d] -= out.len() - of_level;
            }
            if out.len() > before {
                self.held -= out.len() - before;
                self.rekey(time, level);
            }
        }
    }

    fn settle_waits(&mut self, now: Instant, breakdown: &mut WaitBreakdown) {
        for level in (0..self.nodes.len()).map(|index| TenantId(index as u32)) {
            for direction in DIRECTIONS {
                let d = direction as usize;
                let Some(queues) = &mut self.nodes[level.index()].queues else { break };
                queues.holds[d].settle(now);
                let by_bytes = queues.holds[d].by_bytes;
                for at in 0..queues.turns[d].len() {
                    let source =
                        self.nodes[level.index()].queues.as_ref().expect("looked at above").turns
                            [d][at];
                    let queues =
                        self.nodes[source.index()].queues.as_mut().expect("a source has queues");
                    let list =
                        if source == level { &mut queues.own[d] } else { &mut queues.above[d] };
                    for held in list {
                        held.add_wait(now, by_bytes, level, direction, breakdown);
                        (held.since, held.by_bytes) = (now, by_bytes);
                    }
                }
            }
        }
    }

    fn is_enabled(&self) -> bool {
        self.rules > 0
    }

    fn held(&self) -> usize {
        self.held
    }

    fn on_tenant_removed(&mut self, now: Instant, _tenants: &Tenants, tenant: TenantId) {
        if tenant.index() < self.nodes.len() {
            self.set(now, tenant, Limits::default());
        }
    }

    fn self_check(&self, tenants: &Tenants) {
        let mut held = 0;
        for (index, node) in self.nodes.iter().enumerate() {
            let tenant = TenantId(index as u32);
            let count = |d: usize| node.queues.as_ref().map_or(0, |queues| queues.count[d]);
            assert_eq!(
                node.due().is_some(),
                count(0) + count(1) > 0,
                "tenant {index}: in the tree while it holds something"
            );
            if let Some(due) = node.due() {
                assert!(self.waiting.has(tenant, due));
            }
            let Some(queues) = &node.queues else { continue };
            for d in 0..2 {
                held += queues.own[d].len() + queues.above[d].len();
                let behind = |&source: &TenantId| {
                    let of =
                        self.nodes[source.index()].queues.as_ref().expect("a source has queues");
                    let list = if source == tenant { &of.own[d] } else { &of.above[d] };
                    assert!(
                        !list.is_empty()
                            && (source == tenant || tenants.parent(source) == Some(tenant))
                    );
                    list.len()
                };
                assert_eq!(queues.turns[d].iter().map(behind).sum::<usize>(), queues.count[d]);
            }
        }
        assert_eq!(held, self.held, "bios in the queues");
        assert_eq!(self.nodes.iter().filter(|node| node.is_limited()).count(), self.rules as usize);
        assert_eq!(
            self.waiting.len(),
            self.nodes.iter().filter(|node| node.due().is_some()).count()
        );
    }
}
