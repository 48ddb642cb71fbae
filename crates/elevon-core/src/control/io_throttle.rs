//! io-throttle: bandwidth and iops limits of single tenants, after Andrea Righi's cgroup controller
//! of 2008-2009 (v16, never merged), with the live-rule counter that he proposed in May 2009.
//!
//! A tenant has at most one rule node, with a bandwidth and an iops limiter, each a leaky or a
//! token bucket, both of which a bio pays. Rules are flat: only the tenant's own count, never an
//! ancestor's. A bio that has to wait is in its tenant's queue; tenants with waiting bios are in a
//! tree, sorted by the deadline of the head. A task sleeps until its bio is released, which is the
//! proposal's sleep. Writeback and asynchronous I/O go on, as by the proposal's `kiothrottled`.
//! There is no other difference between them.
//!
//! Deviations from the proposal, which it names itself or which a virtual clock shows:
//! - a bio pays when it goes, not when it arrives; with one limiter the times are the same. Waiting
//!   bios follow a change of their rule, and go at once when it is deleted; in the proposal,
//!   sleeping tasks were not woken;
//! - a leaky bucket limits from the first instant and a token bucket never gives more than it holds
//!   ([`Config::quirks`] brings the proposal's arithmetic back);
//! - journal and metadata I/O ([`BioCost::must_issue`]) goes at once and leaves a debt, but not
//!   under `quirks`;
//! - [`Config::class_aware`] keeps a queue for each priority class, so that a limit does not put RT
//!   behind BE.
//!
//! Cost: without any rule and with the counter, one comparison. Else O(1) for a bio that passes,
//! O(log tenants that hold something) for one that waits, whatever the number of tenants and rules.
//! 4 bytes a tenant, and [`NODE_BYTES`] a rule node.

extern crate alloc;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::{BioCost, Cause, Rule, Stage, StageVerdict, WaitBreakdown};
use crate::monotonic::Monotonic;
use crate::pool::Pool;
use crate::tenant::{ROOT, Tenants};
use crate::units::{BioId, Instant, Nanos, TenantId};

mod bucket;
#[cfg(test)]
mod tests;

use bucket::Bucket;

/// Memory of a rule node, without the held bios of the tenant.
pub const NODE_BYTES: usize = size_of::<ThrottleNode>();

/// The variant of the stage, for all tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The live-rule counter: while no tenant has a rule, nothing is looked up or accounted. If
    /// off, as before the proposal's patch, both are done for every bio, with or without rules.
    pub counter: bool,
    /// The proposal's arithmetic: a leaky bucket lets everything pass at the instant at which its
    /// window began, and a token bucket is capped after a bio has paid, so that after idle time it
    /// allows its capacity plus one bio.
    pub quirks: bool,
    /// A queue for each priority class (RT, then BE, then IDLE) in a tenant; if off, one FIFO as
    /// in the proposal. The order is strict: BE waits while the tenant's RT uses all that the
    /// limit allows.
    pub class_aware: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { counter: true, quirks: false, class_aware: false }
    }
}

/// The two limiters of a node, which are the two files of the proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitKind {
    /// `blockio.bandwidth-max`: bytes a second.
    Bandwidth = 0,
    /// `blockio.iops-max`: bios a second.
    Iops = 1,
}

impl LimitKind {
    const ALL: [Self; 2] = [Self::Bandwidth, Self::Iops];

    const fn rule(self) -> Rule {
        match self {
            Self::Bandwidth => Rule::Bandwidth,
            Self::Iops => Rule::IopsMax,
        }
    }
}

/// The proposal's throttling strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// 0: exact, without credit for idle time beyond the bio that ends it.
    Leaky,
    /// 1: unused budget is kept, up to so many units (bytes or bios).
    Token {
        /// Capacity; full at first. More than 0.
        bucket: u64,
    },
}

/// A limit as it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Bytes or bios a second; more than 0.
    pub rate: u64,
    /// How idle time is credited.
    pub policy: Policy,
}

/// Why a rule was refused; nothing is changed in this case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// There is no such tenant, or it was removed.
    Unknown,
    /// Limits do not apply to the root.
    Root,
    /// The rate is 0.
    ZeroRate,
    /// The capacity of the token bucket is 0.
    ZeroBucket,
}

impl core::fmt::Display for RuleError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Unknown => "no such tenant",
            Self::Root => "limits do not apply to the root: set them on a tenant below it",
            Self::ZeroRate => "a limit of 0 would let nothing pass: to have none, delete the rule",
            Self::ZeroBucket => "a token bucket holds at least 1: for none, use the leaky bucket",
        })
    }
}
impl core::error::Error for RuleError {}

/// The change of a tenant's rule node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node was inserted: one more live rule.
    Inserted,
    /// The node was changed: it has another limiter, or one of two fewer.
    Replaced,
    /// The node was deleted with its last limiter: one live rule fewer, and the bios that it held
    /// are due.
    Deleted,
    /// There was no node, and there is none.
    Nothing,
}

/// Work of the stage for all bios, which shows what the counter saves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Searches for the rule of a tenant.
    pub lookups: u64,
    /// Bios accounted.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
}

const NIL: u32 = u32::MAX;

/// Time for which limiters held bios, by [`LimitKind`].
type Waits = [Nanos; 2];

/// What a bio pays, by [`LimitKind`].
type Cost = [u64; 2];

#[derive(Clone, Copy, Debug)]
struct ThrottledBio {
    bio: BioId,
    tenant: TenantId,
    cost: Cost,
    arrived: Instant,
    /// While the bio is in a queue: the waiting times of its node when the bio arrived. After
    /// that: its own waiting times, without the time after the end of its rule.
    waits: Waits,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct BioList {
    head: u32,
    tail: u32,
}

/// The rule of a tenant.
#[derive(Clone, Copy, Debug)]
struct ThrottleNode {
    tenant: TenantId,
    limiters: [Option<Bucket>; 2],
    /// By class; only the first is used if classes are not distinguished.
    queues: [BioList; 3],
    /// First bio of the most urgent queue, which is the next to go, and when it may go.
    head: u32,
    deadline: Instant,
    /// How long heads have been held, up to `mark`; since then the limiter `waits_for` holds the
    /// head.
    waits: Waits,
    mark: Instant,
    waits_for: usize,
}

impl ThrottleNode {
    const fn new(tenant: TenantId) -> Self {
        let queue = BioList { head: NIL, tail: NIL };
        Self {
            tenant,
            limiters: [None; 2],
            queues: [queue; 3],
            head: NIL,
            deadline: Instant::MAX,
            waits: [Nanos::ZERO; 2],
            mark: Instant::ZERO,
            waits_for: 0,
        }
    }

    /// Adds the waiting time of the head until now to the limiter that holds it; all bios behind it
    /// waited too.
    fn settle(&mut self, now: Instant) {
        if self.head != NIL {
            self.waits[self.waits_for] += now - self.mark;
        }
        self.mark = now;
    }

    /// Returns when each limiter would let a cost go, asked now.
    fn eligible(&self, now: Instant, cost: &Cost, quirks: bool) -> [Instant; 2] {
        let at = |kind: usize| {
            self.limiters[kind]
                .as_ref()
                .map_or(Instant::ZERO, |b| b.eligible(now, cost[kind], quirks))
        };
        [at(0), at(1)]
    }

    fn pay(&mut self, at: Instant, cost: &Cost, was_held: bool, quirks: bool) {
        for (limiter, &units) in self.limiters.iter_mut().zip(cost) {
            if let Some(bucket) = limiter {
                bucket.pay(at, units, was_held, quirks);
            }
        }
    }

    fn most_urgent(&self) -> Option<usize> {
        self.queues.iter().position(|queue| queue.head != NIL)
    }
}

/// The stage. See the module documentation.
#[derive(Clone, Debug)]
pub struct IoThrottle {
    config: Config,
    live_rules: u32,
    /// By tenant: the index of its node plus 1, or 0.
    slots: Vec<u32>,
    nodes: Pool<ThrottleNode>,
    held: Pool<ThrottledBio>,
    /// Nodes that hold bios, by the deadline of their head.
    deadlines: BTreeSet<(Instant, u32)>,
    /// Bios that were held by rules that are now deleted.
    due: VecDeque<u32>,
    work: Work,
    clock: Monotonic,
}

impl IoThrottle {
    /// Returns a stage without rules.
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            live_rules: 0,
            slots: Vec::new(),
            nodes: Pool::new(),
            held: Pool::new(),
            deadlines: BTreeSet::new(),
            due: VecDeque::new(),
            work: Work { lookups: 0, ios: 0, bytes: 0 },
            clock: Monotonic::START,
        }
    }

    /// Returns the variant in use.
    pub const fn config(&self) -> Config {
        self.config
    }

    /// Returns the number of rules in force, over all tenants.
    pub const fn live_rules(&self) -> u32 {
        self.live_rules
    }

    /// Returns the work for all bios so far.
    pub const fn work(&self) -> Work {
        self.work
    }

    /// Sets a limit of a tenant or, with `None`, removes it. Waiting bios keep the time that they
    /// have waited; the rest is computed again from now on. A limiter without debt starts again (a
    /// token bucket is full).
    ///
    /// # Errors
    /// The tenant is the root, unknown or removed, or the rate or the bucket is 0. Nothing is
    /// changed in this case.
    pub fn set(
        &mut self,
        now: Instant,
        tenants: &Tenants,
        tenant: TenantId,
        kind: LimitKind,
        limit: Option<Limit>,
    ) -> Result<Change, RuleError> {
        self.clock.advance(now);
        match limit {
            _ if tenant == ROOT => return Err(RuleError::Root),
            _ if !tenants.is_alive(tenant) => return Err(RuleError::Unknown),
            Some(Limit { rate: 0, .. }) => return Err(RuleError::ZeroRate),
            Some(Limit { policy: Policy::Token { bucket: 0 }, .. }) => {
                return Err(RuleError::ZeroBucket);
            }
            Some(_) | None => {}
        }
        let (slot, change) = match (self.slot(tenant), limit) {
            (Some(slot), _) => (slot, Change::Replaced),
            (None, Some(_)) => (self.insert_node(tenant), Change::Inserted),
            (None, None) => return Ok(Change::Nothing),
        };
        let node = &mut self.nodes[slot];
        node.settle(now);
        let wanted = (node.head != NIL).then(|| self.held[node.head].cost[kind as usize]);
        let limiter = &mut node.limiters[kind as usize];
        *limiter = limit.map(|limit| Bucket::replacing(limiter.as_ref(), limit, now, wanted));
        if node.limiters.iter().all(Option::is_none) {
            self.delete_node(slot);
            return Ok(Change::Deleted);
        }
        self.reschedule(slot, now, now);
        Ok(change)
    }

    /// Returns a tenant's limit.
    pub fn limit(&self, tenant: TenantId, kind: LimitKind) -> Option<Limit> {
        let node = &self.nodes[self.slot(tenant)?];
        node.limiters[kind as usize].as_ref().map(Bucket::limit)
    }

    #[inline]
    fn slot(&self, tenant: TenantId) -> Option<u32> {
        self.slots.get(tenant.index())?.checked_sub(1)
    }

    fn insert_node(&mut self, tenant: TenantId) -> u32 {
        let slot = self.nodes.insert(ThrottleNode::new(tenant));
        if self.slots.len() <= tenant.index() {
            self.slots.resize(tenant.index() + 1, 0);
        }
        self.slots[tenant.index()] = slot + 1;
        self.live_rules += 1;
        slot
    }

    /// Frees a node whose waiting times are settled. The bios that it holds become due, most urgent
    /// first.
    fn delete_node(&mut self, slot: u32) {
        let node = self.nodes.remove(slot);
        self.slots[node.tenant.index()] = 0;
        self.live_rules -= 1;
        if node.head != NIL {
            self.deadlines.remove(&(node.deadline, slot));
        }
        for queue in node.queues {
            let mut key = queue.head;
            while key != NIL {
                self.due.push_back(key);
                let held = &mut self.held[key];
                held.leave(&node.waits);
                key = held.next;
            }
        }
    }

    /// Files a node under its head's deadline, after its state or its queues have changed and its
    /// waiting times were settled. The head could go from `from` on; this is before now only if the
    /// bio in front of it was released late.
    fn reschedule(&mut self, slot: u32, now: Instant, from: Instant) {
        let node = &mut self.nodes[slot];
        if node.head != NIL {
            self.deadlines.remove(&(node.deadline, slot));
        }
        let head = node.most_urgent().map_or(NIL, |class| node.queues[class].head);
        node.head = head;
        if head == NIL {
            return;
        }
        let held = &self.held[head];
        let [bandwidth, iops] = node.eligible(now, &held.cost, self.config.quirks);
        node.waits_for =
            if iops > bandwidth { LimitKind::Iops } else { LimitKind::Bandwidth } as usize;
        node.deadline = bandwidth.max(iops).max(from).max(held.arrived);
        self.deadlines.insert((node.deadline, slot));
    }

    /// Handles a bio if there are rules, or no counter.
    #[inline(never)]
    fn look_up(&mut self, now: Instant, bio: BioId, charge: &BioCost) -> StageVerdict {
        self.clock.advance(now);
        self.work.lookups += 1;
        self.work.ios += 1;
        self.work.bytes += charge.bytes;
        let Some(slot) = self.slot(charge.tenant) else { return StageVerdict::Pass };
        // Only bios with data are hooked: an empty flush has no cost.
        if charge.bytes == 0 {
            return StageVerdict::Pass;
        }
        let cost = [if charge.first { charge.bytes } else { 0 }, 1];
        let class = if self.config.class_aware { charge.ioprio.class().rank() } else { 0 };
        let quirks = self.config.quirks;
        let node = &mut self.nodes[slot];
        let has_its_turn = node.queues[..=class].iter().all(|queue| queue.head == NIL);
        let may_pass =
            has_its_turn && node.eligible(now, &cost, quirks).iter().all(|&at| at <= now);
        if may_pass || charge.must_issue && !quirks {
            node.pay(now, &cost, false, quirks);
            if node.head != NIL {
                node.settle(now);
                self.reschedule(slot, now, now);
            }
            return StageVerdict::Pass;
        }
        self.hold(now, slot, class, ThrottledBio::new(bio, charge.tenant, cost, now));
        if charge.may_sleep { StageVerdict::Sleep } else { StageVerdict::Hold }
    }

    fn hold(&mut self, now: Instant, slot: u32, class: usize, held: ThrottledBio) {
        let node = &mut self.nodes[slot];
        node.settle(now);
        let key = self.held.insert(ThrottledBio { waits: node.waits, ..held });
        let queue = &mut node.queues[class];
        let tail = core::mem::replace(&mut queue.tail, key);
        if tail == NIL {
            queue.head = key;
            self.reschedule(slot, now, now);
        } else {
            self.held[tail].next = key;
        }
    }

    /// Releases the head of a node. It is charged as of its deadline, so that a late call costs no
    /// budget.
    fn release_head(&mut self, now: Instant, slot: u32) -> u32 {
        let node = &mut self.nodes[slot];
        node.settle(now);
        let (key, deadline) = (node.head, node.deadline);
        self.deadlines.remove(&(deadline, slot));
        node.head = NIL;
        let queue = node
            .queues
            .iter_mut()
            .find(|queue| queue.head == key)
            .expect("the head is the head of a queue");
        let held = &mut self.held[key];
        held.leave(&node.waits);
        queue.head = held.next;
        if queue.head == NIL {
            queue.tail = NIL;
        }
        node.pay(deadline, &held.cost, true, self.config.quirks);
        self.reschedule(slot, now, deadline);
        key
    }

    /// Releases a bio and adds its waiting time to the breakdown. The time between the end of a
    /// rule and now counts for the limiter that held it longer.
    fn let_go(
        &mut self,
        now: Instant,
        key: u32,
        breakdown: &mut WaitBreakdown,
        out: &mut Vec<BioId>,
    ) {
        let held = self.held.remove(key);
        let [bandwidth, iops] = held.waits;
        let late = now.since(held.arrived) - bandwidth - iops;
        let waits =
            if iops > bandwidth { [bandwidth, iops + late] } else { [bandwidth + late, iops] };
        for (kind, wait) in LimitKind::ALL.into_iter().zip(waits) {
            breakdown.add(
                held.tenant,
                Cause::Limit { level: held.tenant, rule: kind.rule() },
                wait,
            );
        }
        out.push(held.bio);
    }
}

impl ThrottledBio {
    const fn new(bio: BioId, tenant: TenantId, cost: Cost, now: Instant) -> Self {
        Self { bio, tenant, cost, arrived: now, waits: [Nanos::ZERO; 2], next: NIL }
    }

    /// Ends the bio's wait in its node's queues.
    fn leave(&mut self, of_node: &Waits) {
        for (wait, &until) in self.waits.iter_mut().zip(of_node) {
            *wait = until - *wait;
        }
    }
}

impl Stage for IoThrottle {
    #[inline]
    fn admit(
        &mut self,
        now: Instant,
        _tenants: &Tenants,
        bio: BioId,
        charge: &BioCost,
    ) -> StageVerdict {
        if self.is_enabled() { self.look_up(now, bio, charge) } else { StageVerdict::Pass }
    }

    #[inline]
    fn next_wakeup(&self) -> Option<Instant> {
        if self.due.is_empty() { Some(self.deadlines.first()?.0) } else { Some(Instant::ZERO) }
    }

    fn release(
        &mut self,
        now: Instant,
        _tenants: &Tenants,
        breakdown: &mut WaitBreakdown,
        out: &mut Vec<BioId>,
    ) {
        self.clock.advance(now);
        while let Some(key) = self.due.pop_front() {
            self.let_go(now, key, breakdown, out);
        }
        while let Some(&(deadline, slot)) = self.deadlines.first()
            && deadline <= now
        {
            let key = self.release_head(now, slot);
            self.let_go(now, key, breakdown, out);
        }
    }

    #[inline]
    fn is_enabled(&self) -> bool {
        self.live_rules > 0 || !self.config.counter
    }

    fn held(&self) -> usize {
        self.held.live()
    }

    fn on_tenant_removed(&mut self, now: Instant, _tenants: &Tenants, tenant: TenantId) {
        self.clock.advance(now);
        if let Some(slot) = self.slot(tenant) {
            self.nodes[slot].settle(now);
            self.delete_node(slot);
        }
    }

    fn self_check(&self, tenants: &Tenants) {
        let mut held = self.due.len();
        let mut nodes = 0;
        for (tenant, &slot) in self.slots.iter().enumerate().filter(|&(_, &slot)| slot != 0) {
            let node = &self.nodes[slot - 1];
            nodes += 1;
            assert_eq!(node.tenant.index(), tenant);
            assert!(
                tenants.is_alive(node.tenant) && node.tenant != ROOT,
                "tenant {tenant} has a rule"
            );
            assert!(
                node.limiters.iter().any(Option::is_some),
                "tenant {tenant}: a rule without limits"
            );
            let head = node.most_urgent().map_or(NIL, |class| node.queues[class].head);
            assert_eq!(node.head, head, "tenant {tenant}");
            assert_eq!(
                head != NIL,
                self.deadlines.contains(&(node.deadline, slot - 1)),
                "tenant {tenant}"
            );
            for queue in node.queues {
                let (mut key, mut last) = (queue.head, NIL);
                while key != NIL {
                    let ThrottledBio { tenant: of, arrived, waits, next, .. } = self.held[key];
                    assert_eq!(of, node.tenant);
                    let waited =
                        Nanos::new((0..2).map(|kind| (node.waits[kind] - waits[kind]).get()).sum());
                    assert_eq!(arrived + waited, node.mark, "tenant {tenant}: its time");
                    (last, key) = (key, next);
                    held += 1;
                }
                assert_eq!(queue.tail, last);
            }
        }
        assert_eq!(self.live_rules as usize, nodes, "the counter is not the number of rules");
        assert_eq!((nodes, held), (self.nodes.live(), self.held.live()));
        assert!(self.deadlines.len() <= nodes);
    }
}
