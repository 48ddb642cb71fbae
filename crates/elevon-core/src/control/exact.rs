//! Limits to the nanosecond: enforces `io.max` without slices (not in Linux).
//!
//! Each limit is one rate with a burst (a GCRA). A bio may go when every limit of its tenant and of
//! all ancestors allows it, and is then charged to all of them at once. So in any window a tenant
//! gets at most rate · window + burst + one I/O, at every level, and the long-run rate is the limit
//! itself. A bio that is larger than a burst goes when its turn comes, and the next one waits
//! longer: no bio is too large.
//!
//! With a real clock, calls come late, and a bucket without a burst would lose every microsecond of
//! this. So a held bio is charged as of the time at which it was due, and the next bios of the same
//! tenant count as if they had come earlier by the time that its bios were late. A tenant gets back
//! at most `CATCH_UP`, and only for I/O that it submitted; the bound above then grows by rate ·
//! `CATCH_UP`. The time that a tenant waited after it was due is added to [`Cause::LateTimer`].
//! In virtual time nothing is ever late.
//!
//! Waiting bios are in a queue for each tenant, direction and priority class: a tenant's RT does
//! not wait behind its BE, its reads not behind its writes. Lower classes are served every
//! `LOWER_CLASS_WAIT`. A tenant with waiting bios is in the list of the one level that will hold it
//! longest. Levels are in a tree, sorted by the time when they let the next bio go. Tenants in one
//! list share what the level lets go by their weights (`turns`), reads and writes together if a
//! limit counts both. A tenant behind its reserve goes first, by `floors`. Journal and metadata I/O
//! goes at once and becomes debt.
//!
//! The bytes of a split bio are charged with its first fragment, so what remains of it waits for
//! the limits in I/Os alone. Such remainders have queues and lists of their own, and a level lets
//! them go before bios that have not begun.
//!
//! Cost: for a tenant without a rule on its path O(1), once its path was walked after the last
//! change of any rule; else O(depth) to pass, O(depth · log of those that wait) to wait.
//! Memory: [`NODE_BYTES`] per tenant below a rule, plus [`QUEUES_BYTES`] and the entries once
//! something has waited there.

extern crate alloc;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::levels::{DIRECTIONS, Due, DueOrder, Level, Levels, PathRules};
use super::limits::{Limits, UNLIMITED, bytes_rule, ios_rule};
use super::{BioCost, Cause, ReadOrWrite, Rule, Stage, StageVerdict, WaitBreakdown};
use crate::monotonic::Monotonic;
use crate::sched::Reserve;
use crate::tenant::Tenants;
use crate::units::{BioId, Instant, Nanos, TenantId};

mod bucket;
mod floors;
#[cfg(test)]
mod tests;
mod turns;

use bucket::Bucket;
use floors::Floor;
use turns::{Tags, Turns};

/// The maximum lateness that is made up for: one slice of `io.max` on a rotational disk. The part
/// of a longer stall beyond this is lost.
pub(crate) const CATCH_UP: Nanos = Nanos::from_millis(100);

/// How long a lower class of a tenant waits at most while higher classes of it have I/O: the
/// `class_expire` of `aileron`. It then gets one I/O.
pub(crate) const LOWER_CLASS_WAIT: Nanos = Nanos::from_millis(250);

/// Memory per tenant before any of its bios has waited.
pub const NODE_BYTES: usize = size_of::<ExactNode>();
/// Memory of a tenant's queues in addition, without their entries.
pub const QUEUES_BYTES: usize = size_of::<Queues>();

const CLASSES: usize = 3;

/// Number of limits that apply to one direction: its own two, and the two for both directions.
const KEYS: usize = 4;

/// What waits in one queue of a tenant, and in one list of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    direction: ReadOrWrite,
    /// What remains of split bios: their bytes are charged already.
    is_remainder: bool,
}

impl Kind {
    const COUNT: usize = 4;

    const fn from_charge(charge: &BioCost) -> Self {
        Self { direction: charge.direction(), is_remainder: !charge.first }
    }

    fn all() -> impl Iterator<Item = Self> {
        DIRECTIONS.into_iter().flat_map(|direction| {
            [false, true].map(|is_remainder| Self { direction, is_remainder })
        })
    }

    const fn index(self) -> usize {
        self.direction as usize + 2 * self.is_remainder as usize
    }
}

/// A bio that waits.
#[derive(Clone, Copy, Debug)]
struct ExactWaiter {
    bio: BioId,
    bytes: u64,
    /// When it arrived, minus the lateness of its tenant's bios at that time.
    since: Instant,
}

/// The waiting bios of a tenant of one kind.
#[derive(Clone, Debug, Default)]
struct Backlog {
    classes: [VecDeque<ExactWaiter>; CLASSES],
    /// When each class was last served, or began to wait.
    served: [Instant; CLASSES],
    /// The level in whose list the tenant is, and the rule that holds it there.
    at: Option<(TenantId, Rule)>,
    /// Total time that these bios have waited in this list, up to `mark`.
    waited: Nanos,
    mark: Instant,
    /// The part of `waited` after the limit would have let the next bio go.
    overdue: Nanos,
}

impl Backlog {
    fn is_empty(&self) -> bool {
        self.classes.iter().all(VecDeque::is_empty)
    }

    fn len(&self) -> usize {
        self.classes.iter().map(VecDeque::len).sum()
    }

    /// Counts the waiting time until now; called before the set of waiting bios changes. `due`:
    /// when the next bio may go.
    fn settle(&mut self, now: Instant, due: Instant) {
        let count = self.len();
        self.waited += Nanos::new(now.since(self.mark).get() * count as u64);
        self.overdue += Nanos::new(now.since(self.mark.max(due)).get() * count as u64);
        self.mark = now;
    }

    fn push(&mut self, now: Instant, class: usize, waiter: ExactWaiter) {
        if self.classes[class].is_empty() {
            self.served[class] = now;
        }
        self.classes[class].push_back(waiter);
    }

    /// Returns the class whose turn it is, and its urgency: the smaller one goes first. A class
    /// that has waited for [`LOWER_CLASS_WAIT`] goes before any that has not.
    fn turn(&self, now: Instant) -> Option<(Urgency, usize)> {
        let waiting = (0..CLASSES).filter(|&class| !self.classes[class].is_empty());
        let urgency = |class: usize| match self.served[class] {
            since if now.since(since) >= LOWER_CLASS_WAIT => (false, since.get()),
            _ => (true, class as u64),
        };
        waiting.map(|class| (urgency(class), class)).min()
    }

    fn next(&self, now: Instant) -> Option<&ExactWaiter> {
        self.turn(now).and_then(|(_, class)| self.classes[class].front())
    }

    fn pop(&mut self, now: Instant) -> Option<ExactWaiter> {
        let (_, class) = self.turn(now)?;
        self.served[class] = now;
        self.classes[class].pop_front()
    }
}

/// See [`Backlog::turn`].
type Urgency = (bool, u64);

/// Tenants whose bios of one kind wait for a level.
#[derive(Clone, Debug, Default)]
struct Line {
    turns: Turns,
    /// Its key in the tree.
    due: Option<Due>,
}

#[derive(Clone, Debug, Default)]
struct Queues {
    backlog: [Backlog; Kind::COUNT],
    lines: [Line; Kind::COUNT],
    tags: [Tags; turns::DOMAINS],
    /// The direction of the bio that was released last.
    last: Option<ReadOrWrite>,
    /// When this level last let go a bio that no reserve was owed.
    by_weight: Instant,
    /// How late the last bio of a direction went, as far as this is made up for.
    late: [Nanos; 2],
}

impl Queues {
    /// Returns the number of the tenant's own bios that wait.
    fn waiting(&self) -> usize {
        self.backlog.iter().map(Backlog::len).sum()
    }

    /// Returns when a bio counts as having come if it comes at `now`: earlier by the lateness of
    /// the tenant's last bio.
    fn came(&self, now: Instant, direction: ReadOrWrite) -> Instant {
        Instant::new(now.get().saturating_sub(self.late[direction as usize].get()))
    }

    /// Passes a bio that nothing holds at `now`; its limits allow it from `eligible` on. Returns
    /// the time as of which it is charged. The credit for lateness ends once the tenant had nothing
    /// to submit for as long; a remainder says nothing about this, as it comes with its bio.
    fn pass(&mut self, now: Instant, eligible: Instant, kind: Kind) -> Instant {
        let came = self.came(now, kind.direction);
        let late = &mut self.late[kind.direction as usize];
        if kind.is_remainder {
            return came.max(eligible).min(now);
        }
        if eligible > came {
            *late = now.since(eligible);
            return eligible.min(now);
        }
        if came.since(eligible) >= *late {
            *late = Nanos::ZERO;
            return now;
        }
        came
    }
}

#[derive(Clone, Debug)]
struct ExactNode {
    limits: Limits,
    /// Its weight among those that wait for one limit.
    weight: u16,
    /// Bytes by direction, I/Os by direction, both bytes, both I/Os.
    buckets: [Bucket; 6],
    path_rules: PathRules,
    queues: Option<Box<Queues>>,
}

impl Default for ExactNode {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            weight: turns::WEIGHT,
            buckets: Default::default(),
            path_rules: PathRules::default(),
            queues: None,
        }
    }
}

impl ExactNode {
    /// Returns the limits that apply to a direction: rate, burst, bucket, rule, and whether it
    /// counts bytes.
    fn keys(&self, direction: ReadOrWrite) -> [(u64, u64, usize, Rule, bool); KEYS] {
        let (d, limits) = (direction as usize, &self.limits);
        [
            (limits.bps[d], limits.burst_bytes, d, bytes_rule(direction), true),
            (limits.iops[d], limits.burst_ios, 2 + d, ios_rule(direction), false),
            (limits.total_bps, limits.burst_bytes, 4, Rule::Bps, true),
            (limits.total_iops, limits.burst_ios, 5, Rule::Iops, false),
        ]
    }

    /// Returns when this level lets the next bio of a kind go, and which limit decides it.
    fn eligible(&self, kind: Kind) -> (u64, Rule) {
        let keys = self.keys(kind.direction);
        let counts =
            |&&(.., is_bytes): &&(u64, u64, usize, Rule, bool)| !(is_bytes && kind.is_remainder);
        let when = |&(rate, burst, bucket, rule, _): &(u64, u64, usize, Rule, bool)| {
            (self.buckets[bucket].eligible(rate, burst), rule)
        };
        // Of equal times the first: bytes before I/Os, one direction before both.
        keys.iter()
            .filter(counts)
            .map(when)
            .reduce(|best, next| if next.0 > best.0 { next } else { best })
            .expect("four keys")
    }

    /// Returns true if bios of a kind wait in its list.
    fn has_line(&self, kind: Kind) -> bool {
        self.queues.as_deref().is_some_and(|queues| !queues.lines[kind.index()].turns.is_empty())
    }

    fn pay(&mut self, now: u64, direction: ReadOrWrite, bytes: u64) {
        for (rate, _, bucket, _, is_bytes) in self.keys(direction) {
            self.buckets[bucket].pay(now, rate, if is_bytes { bytes } else { 1 });
        }
    }
}

impl Level for ExactNode {
    fn limits_direction(&self, direction: ReadOrWrite) -> bool {
        self.keys(direction).iter().any(|key| key.0 != UNLIMITED)
    }
    fn path_rules(&mut self) -> &mut PathRules {
        &mut self.path_rules
    }
}

/// The stage. See the module documentation.
#[derive(Clone, Debug, Default)]
pub struct Exact {
    nodes: Levels<ExactNode>,
    rules: u32,
    held: usize,
    /// Counts those that began to wait.
    arrivals: u64,
    /// Levels that hold a tenant, by (time, order of arrival).
    waiting: DueOrder<(TenantId, Kind)>,
    floors: Vec<Floor>,
    /// When limits last changed: before that nothing was due under them.
    changed: Instant,
    clock: Monotonic,
}

impl Exact {
    /// A stage without rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a tenant's limits.
    pub fn limits(&self, tenant: TenantId) -> Limits {
        self.nodes.get(tenant.index()).map_or_else(Limits::default, |node| node.limits)
    }

    /// Sets a tenant's limits. What it may submit at once remains, up to the new burst, and so does
    /// what it owes beyond the old one, at the new rate. Waiting bios are checked again.
    /// Panics if a limit is 0: it would never let a bio go.
    pub fn set(&mut self, now: Instant, tenants: &Tenants, tenant: TenantId, limits: Limits) {
        assert!(limits.is_valid(), "a limit of 0 for tenant {}", tenant.index());
        self.clock.advance(now);
        let node = self.nodes.of(tenant);
        let old = node.limits;
        // Those that wait stand by other tags if directions are counted together from now on, or
        // no longer.
        let is_same = old.counts_both() == limits.counts_both();
        let waiting = if is_same { Vec::new() } else { self.leave_all(tenants, tenant) };
        let node = self.nodes.of(tenant);
        let all = |l: &Limits| {
            let (bytes, ios) = (|rate| (rate, l.burst_bytes), |rate| (rate, l.burst_ios));
            let [[read, write], [reads, writes]] = [l.bps.map(bytes), l.iops.map(ios)];
            [read, write, reads, writes, bytes(l.total_bps), ios(l.total_iops)]
        };
        for (bucket, (old, new)) in
            node.buckets.iter_mut().zip(all(&old).into_iter().zip(all(&limits)))
        {
            if old != new {
                bucket.change(now.get(), old, new);
            }
        }
        node.limits = limits;
        for (waiter, kind) in waiting {
            self.enter(tenants, waiter, kind, tenant);
        }
        self.changed = now;
        self.rules = self.rules + u32::from(!limits.is_none()) - u32::from(!old.is_none());
        self.nodes.rules_changed();
        for kind in Kind::all() {
            self.rekey(tenant, kind);
        }
    }

    fn queues(&mut self, tenant: TenantId) -> &mut Queues {
        self.nodes.of(tenant).queues.get_or_insert_default()
    }

    fn backlog(&mut self, tenant: TenantId, kind: Kind) -> Option<&mut Backlog> {
        self.nodes
            .get_mut(tenant.index())?
            .queues
            .as_mut()
            .map(|queues| &mut queues.backlog[kind.index()])
    }

    /// Returns the level of a path that holds a kind of bio longest. `None` if no level holds it
    /// now.
    fn blocked_by(
        &self,
        now: u64,
        tenants: &Tenants,
        tenant: TenantId,
        kind: Kind,
    ) -> Option<(TenantId, Rule)> {
        let mut worst: Option<(u64, TenantId, Rule)> = None;
        for level in tenants.path(tenant) {
            let Some(node) = self.nodes.get(level.index()) else { continue };
            let (at, rule) = node.eligible(kind);
            if at > now && worst.is_none_or(|(latest, ..)| at > latest) {
                worst = Some((at, level, rule));
            }
        }
        worst.map(|(_, level, rule)| (level, rule))
    }

    /// Returns a level among `path` that would let the next bio go, but has others waiting in its
    /// list that are before it: of the same direction, or of the other one if their time has come
    /// and a limit counts both.
    fn line_before(
        &self,
        now: Instant,
        path: impl Iterator<Item = TenantId>,
        kind: Kind,
    ) -> Option<(TenantId, Rule)> {
        let is_before = |node: &ExactNode, other: Kind| {
            let competes = other.direction == kind.direction
                || node.limits.counts_both() && node.eligible(other).0 <= now.get();
            node.has_line(other) && (other.is_remainder || !kind.is_remainder) && competes
        };
        let mut levels = path.filter_map(|level| Some((level, self.nodes.get(level.index())?)));
        let found = levels.find(|(_, node)| Kind::all().any(|other| is_before(node, other)));
        found.map(|(level, node)| (level, node.eligible(kind).1))
    }

    /// Returns the kinds of bios in the list of a level of which the next one is to go at `now`,
    /// when those of `kind` may go: remainders first, and of both directions if a limit counts
    /// both.
    fn competing(&self, now: Instant, level: TenantId, kind: Kind) -> [Option<Kind>; 2] {
        let node = &self.nodes[level.index()];
        let of = |is_remainder| {
            DIRECTIONS.map(|direction| {
                let other = Kind { direction, is_remainder };
                let competes = direction == kind.direction || node.limits.counts_both();
                (competes && node.has_line(other) && node.eligible(other).0 <= now.get())
                    .then_some(other)
            })
        };
        // What a level lets a whole bio pay, it lets remainders pay too.
        let remainders = of(true);
        if remainders.iter().any(Option::is_some) { remainders } else { of(false) }
    }

    /// Returns the time from which every level of a path lets the next bio of a kind go, but
    /// not before the last change of a limit.
    fn due(&self, tenants: &Tenants, tenant: TenantId, kind: Kind) -> Instant {
        let at =
            |level: TenantId| self.nodes.get(level.index()).map_or(0, |node| node.eligible(kind).0);
        let eligible = tenants.path(tenant).map(at).max().unwrap_or(0);
        Instant::new(eligible).max(self.changed)
    }

    /// Returns when the level in whose list a tenant waits lets the next bio go.
    fn line_due(&self, tenant: TenantId, kind: Kind) -> Instant {
        let queues = self.nodes.get(tenant.index()).and_then(|node| node.queues.as_ref());
        let level =
            queues.and_then(|queues| queues.backlog[kind.index()].at).map(|(level, _)| level);
        let due = level.map_or(0, |level| self.nodes[level.index()].eligible(kind).0);
        Instant::new(due).max(self.changed)
    }

    /// Charges a bio to every level of the path, as of `now`.
    fn pay(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        tenant: TenantId,
        direction: ReadOrWrite,
        bytes: u64,
    ) {
        for level in tenants.path(tenant) {
            if let Some(node) = self.nodes.get_mut(level.index()) {
                node.pay(now.get(), direction, bytes);
            }
        }
        self.count_for_floors(now, tenants, tenant, bytes);
    }

    /// Puts a tenant with waiting bios into a level's list.
    fn stand(
        &mut self,
        tenants: &Tenants,
        tenant: TenantId,
        kind: Kind,
        (level, rule): (TenantId, Rule),
    ) {
        self.queues(tenant).backlog[kind.index()].at = Some((level, rule));
        self.enter(tenants, tenant, kind, level);
        if self.queues(level).lines[kind.index()].due.is_none() {
            self.rekey(level, kind);
        }
    }

    /// Updates the place of a level in the tree: behind levels with the same time; removed if its
    /// list is empty.
    fn rekey(&mut self, level: TenantId, kind: Kind) {
        let node = &mut self.nodes[level.index()];
        let at = node.eligible(kind).0;
        let Some(queues) = &mut node.queues else { return };
        let line = &mut queues.lines[kind.index()];
        self.waiting.set((level, kind), &mut line.due, (!line.turns.is_empty()).then_some(at));
    }

    /// Removes a tenant from the list that it is in, and adds the waiting time of its bios until
    /// now to the breakdown. After that they wait for another level, or the next one, which was
    /// `due`, goes.
    fn settle(
        &mut self,
        now: Instant,
        due: Instant,
        tenant: TenantId,
        kind: Kind,
        breakdown: &mut WaitBreakdown,
    ) -> (TenantId, Rule) {
        let backlog = self.backlog(tenant, kind).expect("it stands in a line");
        let (level, rule) = backlog.at.take().expect("it stands in a line");
        backlog.settle(now, due);
        let (waited, overdue) =
            (core::mem::take(&mut backlog.waited), core::mem::take(&mut backlog.overdue));
        breakdown.add(tenant, Cause::Limit { level, rule }, waited.saturating_sub(overdue));
        breakdown.add(tenant, Cause::LateTimer, overdue);
        (level, rule)
    }

    /// Releases the next bio of a tenant, by the reserve of `owed` if there is one.
    fn go(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        (tenant, kind, owed): (TenantId, Kind, Option<TenantId>),
        breakdown: &mut WaitBreakdown,
    ) -> BioId {
        let due = self.due(tenants, tenant, kind);
        let due = due.max(Instant::new(now.get().saturating_sub(CATCH_UP.get())));
        let next = self.backlog(tenant, kind).and_then(|backlog| backlog.next(now));
        let due = due.max(next.expect("it stands in a line").since).min(now);
        let (level, rule) = self.settle(now, due, tenant, kind, breakdown);
        let backlog = self.backlog(tenant, kind).expect("it stands in a line");
        let held = backlog.pop(now).expect("it stands in a line");
        let has_more = !backlog.is_empty();
        let queues = self.queues(tenant);
        queues.last = Some(kind.direction);
        let late = &mut queues.late[kind.direction as usize];
        // The bytes of a remainder's bio went as late as that did.
        *late = if kind.is_remainder { now.since(due).max(*late) } else { now.since(due) };
        self.held -= 1;
        self.end_for_floors(tenants, tenant);
        self.take_turn(tenants, (tenant, kind, owed), level, held.bytes);
        self.pay(due, tenants, tenant, kind.direction, held.bytes);
        if has_more {
            let next = self.blocked_by(now.get(), tenants, tenant, kind).unwrap_or((level, rule));
            self.stand(tenants, tenant, kind, next);
        }
        held.bio
    }
}

impl Stage for Exact {
    fn admit(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        bio: BioId,
        charge: &BioCost,
    ) -> StageVerdict {
        self.clock.advance(now);
        let (tenant, kind) = (charge.tenant, Kind::from_charge(charge));
        // If the last rule was just removed, the bios that it held go first.
        let waits = self.backlog(tenant, kind).is_some_and(|backlog| !backlog.is_empty());
        if !waits && !self.nodes.is_ruled(tenants, tenant, kind.direction, true) {
            return StageVerdict::Pass;
        }
        let bytes = if charge.first { charge.bytes } else { 0 };
        let blocked = match charge.must_issue || waits {
            true => None,
            false => self
                .blocked_by(now.get(), tenants, tenant, kind)
                .or_else(|| self.line_before(now, tenants.path(tenant), kind)),
        };
        if !waits && blocked.is_none() || charge.must_issue {
            let queues = self.nodes.get(tenant.index()).and_then(|node| node.queues.as_ref());
            let is_late =
                queues.is_some_and(|queues| !queues.late[kind.direction as usize].is_zero());
            let as_of = if is_late && !charge.must_issue {
                let eligible = self.due(tenants, tenant, kind);
                self.queues(tenant).pass(now, eligible, kind)
            } else {
                now
            };
            self.pay(as_of, tenants, tenant, kind.direction, bytes);
            return StageVerdict::Pass;
        }
        self.held += 1;
        self.begin_for_floors(now, tenants, tenant);
        let due = self.line_due(tenant, kind);
        let queues = self.queues(tenant);
        let since = queues.came(now, kind.direction);
        let backlog = &mut queues.backlog[kind.index()];
        backlog.settle(now, due);
        backlog.push(now, charge.ioprio.class().rank(), ExactWaiter { bio, bytes, since });
        if let Some(place) = blocked {
            self.stand(tenants, tenant, kind, place);
        }
        StageVerdict::Hold
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.waiting.first().map(|(at, _)| Instant::new(at))
    }

    fn release(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        breakdown: &mut WaitBreakdown,
        out: &mut Vec<BioId>,
    ) {
        self.clock.advance(now);
        while let Some((at, (level, kind))) = self.waiting.first() {
            if at > now.get() {
                break;
            }
            // The last release may have moved the time.
            if self.nodes[level.index()].eligible(kind).0 <= now.get() {
                let kinds = self.competing(now, level, kind);
                let owed = self.owed(now, level, kinds);
                let (tenant, next) = self.whose_turn(now, level, owed.unwrap_or(level), kinds);
                self.leave(tenants, tenant, next, level);
                // A tenant that waits for a level further up may be before it there.
                let above = || self.line_before(now, tenants.path(level).skip(1), next);
                match self.blocked_by(now.get(), tenants, tenant, next).or_else(above) {
                    None => out.push(self.go(now, tenants, (tenant, next, owed), breakdown)),
                    Some(other) => {
                        self.settle(now, now, tenant, next, breakdown);
                        self.stand(tenants, tenant, next, other);
                    }
                }
                if next != kind {
                    self.rekey(level, next);
                }
            }
            self.rekey(level, kind);
        }
    }

    fn holds(&self, _tenants: &Tenants, tenant: TenantId) -> Option<Cause> {
        let queues = self.nodes.get(tenant.index())?.queues.as_ref()?;
        let (level, rule) = queues.backlog.iter().find_map(|backlog| backlog.at)?;
        Some(Cause::Limit { level, rule })
    }

    fn withdraw(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        is_chosen: &dyn Fn(BioId) -> bool,
        breakdown: &mut WaitBreakdown,
        out: &mut Vec<BioId>,
    ) {
        self.clock.advance(now);
        for tenant in (0..self.nodes.len()).map(|index| TenantId(index as u32)) {
            for kind in Kind::all() {
                let Some(backlog) = self.backlog(tenant, kind) else { break };
                let mut waiters = backlog.classes.iter().flatten();
                let Some((level, _)) =
                    backlog.at.filter(|_| waiters.any(|waiter| is_chosen(waiter.bio)))
                else {
                    continue;
                };
                let due = self.line_due(tenant, kind);
                self.leave(tenants, tenant, kind, level);
                let place = self.settle(now, due, tenant, kind, breakdown);
                let backlog = self.backlog(tenant, kind).expect("it stood in a line");
                let before = out.len();
                for class in &mut backlog.classes {
                    out.extend(class.iter().map(|waiter| waiter.bio).filter(|&bio| is_chosen(bio)));
                    class.retain(|waiter| !is_chosen(waiter.bio));
                }
                let has_more = !backlog.is_empty();
                let withdrawn = out.len() - before;
                self.held -= withdrawn;
                (0..withdrawn).for_each(|_| self.end_for_floors(tenants, tenant));
                if has_more {
                    let next = self.blocked_by(now.get(), tenants, tenant, kind).unwrap_or(place);
                    self.stand(tenants, tenant, kind, next);
                }
                self.rekey(level, kind);
            }
        }
    }

    fn settle_waits(&mut self, now: Instant, breakdown: &mut WaitBreakdown) {
        for tenant in (0..self.nodes.len()).map(|index| TenantId(index as u32)) {
            for kind in Kind::all() {
                if self.backlog(tenant, kind).is_some_and(|backlog| backlog.at.is_some()) {
                    let due = self.line_due(tenant, kind);
                    let place = self.settle(now, due, tenant, kind, breakdown);
                    self.queues(tenant).backlog[kind.index()].at = Some(place);
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

    fn on_tenant_removed(&mut self, now: Instant, tenants: &Tenants, tenant: TenantId) {
        if tenant.index() < self.nodes.len() {
            self.set(now, tenants, tenant, Limits::default());
        }
        self.set_reserve(now, tenants, tenant, Reserve::default());
    }

    fn self_check(&self, tenants: &Tenants) {
        let mut held = 0;
        let mut lines = 0;
        for (index, node) in self.nodes.iter().enumerate() {
            let tenant = TenantId(index as u32);
            let Some(queues) = &node.queues else { continue };
            for kind in Kind::all() {
                let (backlog, line) = (&queues.backlog[kind.index()], &queues.lines[kind.index()]);
                held += backlog.len();
                assert_eq!(
                    backlog.at.is_some(),
                    !backlog.is_empty(),
                    "tenant {index} stands in a line while it waits"
                );
                self.check_turns(tenants, tenant, kind);
                assert_eq!(
                    line.due.is_some(),
                    !line.turns.is_empty(),
                    "level {index} is in the tree while it has a line"
                );
                if let Some(due) = line.due {
                    assert!(self.waiting.has((tenant, kind), due));
                    lines += 1;
                }
            }
        }
        assert_eq!((held, lines), (self.held, self.waiting.len()));
        self.check_floors(tenants);
        assert_eq!(
            self.nodes.iter().filter(|node| !node.limits.is_none()).count(),
            self.rules as usize
        );
    }
}
