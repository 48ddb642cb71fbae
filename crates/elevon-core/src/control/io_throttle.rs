//! io-throttle: bandwidth and iops limits of single tenants, after Andrea Righi's cgroup controller
//! of 2008-2009 (v16, never merged), with the live-rule counter that he proposed in May 2009.
//!
//! A tenant has at most one rule node, with a bandwidth and an iops limiter, each a leaky or a
//! token bucket, both of which a bio pays. Rules are flat: only the tenant's own count, never an
//! ancestor's. A bio that has to wait stands in its tenant's queue; tenants that have a queue stand
//! in a tree by the deadline of its head. Whether the submitter sleeps or goes on is
//! all that differs between a task (the proposal's sleep) and writeback or asynchronous I/O (the
//! proposal's `kiothrottled`).
//!
//! Where we leave the proposal, because it said so itself or a virtual clock shows it:
//! - a bio pays when it goes, not when it comes; with one limiter that gives the same times.
//!   Waiting bios follow a change of their rule, and go at once when it is deleted; the proposal's
//!   sleepers slept on;
//! - a leaky bucket limits from the first instant and a token bucket never gives more than it holds
//!   ([`Config::quirks`] brings the proposal's arithmetic back);
//! - journal and metadata I/O ([`BioCost::must_issue`]) goes at once and leaves a debt (not under
//!   `quirks`);
//! - [`Config::class_aware`] keeps a queue for each priority class, so that a limit does not put RT
//!   behind BE.
//!
//! Cost: without any rule and with the counter, one comparison. Else O(1) for a bio that passes,
//! O(log tenants that hold something) for one that waits, whatever the number of tenants and rules.
//! 4 bytes a tenant, and [`NODE_BYTES`] a rule node.

extern crate alloc;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::{BioCost, Cause, Limiter, Rule, StageVerdict, WaitBreakdown};
use crate::monotonic::Monotonic;
use crate::pool::Pool;
use crate::tenant::{ROOT, Tenants};
use crate::units::{BioId, Instant, Nanos, TenantId};

mod bucket;
#[cfg(test)]
mod tests;

use bucket::Bucket;

/// What a rule node takes in memory; the held bios of a tenant are not in it.
pub const NODE_BYTES: usize = size_of::<ThrottleNode>();

/// How the stage works, for all tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The live-rule counter: while no tenant has a rule, nothing is looked up or accounted. Off is
    /// what the proposal's patch found: both for every bio, rules or not.
    pub counter: bool,
    /// The proposal's arithmetic: a leaky bucket lets everything pass at the instant at which its
    /// window began, and a token bucket is capped after a bio has paid, so that after idling it
    /// gives its capacity and one bio more.
    pub quirks: bool,
    /// A queue for each priority class (RT, then BE, then IDLE) in a tenant; off is the proposal's
    /// single FIFO. Strict: BE waits while the tenant's RT wants all that the limit gives.
    pub class_aware: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { counter: true, quirks: false, class_aware: false }
    }
}

/// Which of a node's two limiters: the two files of the proposal.
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
    /// 0: exact, no credit for idle time beyond the bio that ends it.
    Leaky,
    /// 1: what was not used is kept, up to so many units (bytes or bios).
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
    /// What becomes of idle time.
    pub policy: Policy,
}

/// Why a rule was refused; nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// No such tenant, or it was removed.
    Unknown,
    /// Limits do not apply to the root.
    Root,
    /// A rate of 0.
    ZeroRate,
    /// A token bucket that holds nothing.
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

/// What became of a tenant's rule node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// There was none: one live rule more.
    Inserted,
    /// It has another limiter, or one of two less.
    Replaced,
    /// Its last limiter is gone: one live rule less, what it held is due.
    Deleted,
    /// There was none, and there is none.
    Nothing,
}

/// What a rule node has counted since it was inserted: `blockio.throttlecnt` and `blockio.stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bios that had to wait for the limiter, by [`LimitKind`].
    pub count: [u64; 2],
    /// How long it wanted them to wait, of which they waited the longer one only.
    pub sleep: [Nanos; 2],
    /// Bytes that went.
    pub bytes_total: u64,
    /// Bios that went.
    pub ios_total: u64,
}

/// A limiter as its file shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitState {
    /// As it was set.
    pub limit: Limit,
    /// In thousandths of a unit. Leaky: what went since the window began. Token: what the bucket
    /// held when it was used last, less than 0 for a debt.
    pub usage_milli: i64,
    /// Leaky: how long ago the window began. Token: how long ago it was used.
    pub elapsed: Nanos,
}

/// What the stage did for all bios, to see that the counter spares it.
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

/// What limiters held something for, by [`LimitKind`].
type Waits = [Nanos; 2];

/// What a bio pays, by [`LimitKind`].
type Cost = [u64; 2];

#[derive(Clone, Copy, Debug)]
struct ThrottledBio {
    bio: BioId,
    tenant: TenantId,
    cost: Cost,
    arrived: Instant,
    /// While it stands in a queue, what its node had waited when it came; then what it waited
    /// itself, but for what followed the end of its rule.
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
    statistics: Statistics,
    /// By class; the first alone where classes are not told apart.
    queues: [BioList; 3],
    /// First bio of the most urgent queue, which is the next to go, and when.
    head: u32,
    deadline: Instant,
    /// How long heads have been held, up to `mark`; since then it is by the limiter `waits_for`.
    waits: Waits,
    mark: Instant,
    waits_for: usize,
}

impl ThrottleNode {
    const fn new(tenant: TenantId) -> Self {
        let queue = BioList { head: NIL, tail: NIL };
        let statistics = Statistics { count: [0; 2], sleep: [Nanos::ZERO; 2], bytes_total: 0, ios_total: 0 };
        Self {
            tenant,
            limiters: [None; 2],
            statistics,
            queues: [queue; 3],
            head: NIL,
            deadline: Instant::MAX,
            waits: [Nanos::ZERO; 2],
            mark: Instant::ZERO,
            waits_for: 0,
        }
    }

    /// The head, and so everything behind it, has waited until now for what holds it.
    fn settle(&mut self, now: Instant) {
        if self.head != NIL {
            self.waits[self.waits_for] += now - self.mark;
        }
        self.mark = now;
    }

    /// When each limiter would let so much go, asked now.
    fn eligible(&self, now: Instant, cost: &Cost, quirks: bool) -> [Instant; 2] {
        let at =
            |kind: usize| self.limiters[kind].as_ref().map_or(Instant::ZERO, |b| b.eligible(now, cost[kind], quirks));
        [at(0), at(1)]
    }

    fn pay(&mut self, at: Instant, cost: &Cost, was_held: bool, quirks: bool) {
        for (limiter, &units) in self.limiters.iter_mut().zip(cost) {
            if let Some(bucket) = limiter {
                bucket.pay(at, units, was_held, quirks);
            }
        }
        self.statistics.bytes_total += cost[0];
        self.statistics.ios_total += cost[1];
    }

    fn most_urgent(&self) -> Option<usize> {
        self.queues.iter().position(|queue| queue.head != NIL)
    }
}

/// The stage.
#[derive(Clone, Debug)]
pub struct IoThrottle {
    config: Config,
    live_rules: u32,
    /// By tenant: its node and 1, or 0.
    slots: Vec<u32>,
    nodes: Pool<ThrottleNode>,
    held: Pool<ThrottledBio>,
    /// Nodes that hold something, by the deadline of their head.
    deadlines: BTreeSet<(Instant, u32)>,
    /// Held by rules that are gone.
    due: VecDeque<u32>,
    work: Work,
    clock: Monotonic,
}

impl IoThrottle {
    /// Without rules.
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

    /// How it works.
    pub const fn config(&self) -> Config {
        self.config
    }

    /// What was done for all bios so far.
    pub const fn work(&self) -> Work {
        self.work
    }

    /// Sets a limit of a tenant or, with `None`, takes it away. Bios that wait keep what they have
    /// waited for: their times are reckoned anew from now on. A limiter that owes nothing
    /// starts afresh (a token bucket full).
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
            Some(Limit { policy: Policy::Token { bucket: 0 }, .. }) => return Err(RuleError::ZeroBucket),
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

    /// A tenant's limit, as its file shows it.
    pub fn limit(&self, now: Instant, tenant: TenantId, kind: LimitKind) -> Option<LimitState> {
        let node = &self.nodes[self.slot(tenant)?];
        node.limiters[kind as usize].as_ref().map(|bucket| bucket.state(now))
    }

    /// What a tenant's rule node has counted.
    pub fn statistics(&self, tenant: TenantId) -> Option<&Statistics> {
        Some(&self.nodes[self.slot(tenant)?].statistics)
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

    /// Frees a node that is settled. What it holds is due, most urgent first.
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

    /// Files a node by its head's deadline, after its state or its queues have changed and it was
    /// settled. The head could go from `from` on, which is before now only where the one in
    /// front of it is let go late.
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
        node.waits_for = if iops > bandwidth { LimitKind::Iops } else { LimitKind::Bandwidth } as usize;
        node.deadline = bandwidth.max(iops).max(from).max(held.arrived);
        self.deadlines.insert((node.deadline, slot));
    }

    /// The path of a bio where there are rules, or no counter.
    #[inline(never)]
    fn look_up(&mut self, now: Instant, bio: BioId, charge: &BioCost) -> StageVerdict {
        self.clock.advance(now);
        self.work.lookups += 1;
        self.work.ios += 1;
        self.work.bytes += charge.bytes;
        let Some(slot) = self.slot(charge.tenant) else { return StageVerdict::Pass };
        // Only what has data is hooked: an empty flush has nothing to pay.
        if charge.bytes == 0 {
            return StageVerdict::Pass;
        }
        let cost = [if charge.first { charge.bytes } else { 0 }, 1];
        let class = if self.config.class_aware { charge.ioprio.class().rank() } else { 0 };
        let quirks = self.config.quirks;
        let node = &mut self.nodes[slot];
        let has_its_turn = node.queues[..=class].iter().all(|queue| queue.head == NIL);
        let may_pass = has_its_turn && node.eligible(now, &cost, quirks).iter().all(|&at| at <= now);
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

    /// The head of a node goes. It pays as of its deadline, so that a late call costs nobody
    /// anything.
    fn release_head(&mut self, now: Instant, slot: u32) -> u32 {
        let node = &mut self.nodes[slot];
        node.settle(now);
        let (key, deadline) = (node.head, node.deadline);
        self.deadlines.remove(&(deadline, slot));
        node.head = NIL;
        let queue = node.queues.iter_mut().find(|queue| queue.head == key).expect("the head is the head of a queue");
        let held = &mut self.held[key];
        held.leave(&node.waits);
        queue.head = held.next;
        if queue.head == NIL {
            queue.tail = NIL;
        }
        let eligible = node.eligible(now, &held.cost, self.config.quirks);
        for kind in LimitKind::ALL {
            let wanted = eligible[kind as usize].since(held.arrived);
            node.statistics.count[kind as usize] += u64::from(!wanted.is_zero());
            node.statistics.sleep[kind as usize] += wanted;
        }
        node.pay(deadline, &held.cost, true, self.config.quirks);
        self.reschedule(slot, now, deadline);
        key
    }

    /// A bio is on its way: its time goes to the breakdown. What passed between the end of a rule
    /// and now counts as the rule's that held it longer.
    fn let_go(&mut self, now: Instant, key: u32, breakdown: &mut WaitBreakdown, out: &mut Vec<BioId>) {
        let held = self.held.remove(key);
        let [bandwidth, iops] = held.waits;
        let late = now.since(held.arrived) - bandwidth - iops;
        let waits = if iops > bandwidth { [bandwidth, iops + late] } else { [bandwidth + late, iops] };
        for (kind, wait) in LimitKind::ALL.into_iter().zip(waits) {
            breakdown.add(held.tenant, Cause::Limit { level: held.tenant, rule: kind.rule() }, wait);
        }
        out.push(held.bio);
    }
}

impl ThrottledBio {
    const fn new(bio: BioId, tenant: TenantId, cost: Cost, now: Instant) -> Self {
        Self { bio, tenant, cost, arrived: now, waits: [Nanos::ZERO; 2], next: NIL }
    }

    /// It leaves its node's queues.
    fn leave(&mut self, of_node: &Waits) {
        for (wait, &until) in self.waits.iter_mut().zip(of_node) {
            *wait = until - *wait;
        }
    }
}

impl Limiter for IoThrottle {
    #[inline]
    fn admit(&mut self, now: Instant, _tenants: &Tenants, bio: BioId, charge: &BioCost) -> StageVerdict {
        if self.must_be_asked() { self.look_up(now, bio, charge) } else { StageVerdict::Pass }
    }

    #[inline]
    fn next_wakeup(&self) -> Option<Instant> {
        if self.due.is_empty() { Some(self.deadlines.first()?.0) } else { Some(Instant::ZERO) }
    }

    fn release(&mut self, now: Instant, _tenants: &Tenants, breakdown: &mut WaitBreakdown, out: &mut Vec<BioId>) {
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
    fn live_rules(&self) -> u32 {
        self.live_rules
    }

    #[inline]
    fn must_be_asked(&self) -> bool {
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
            assert!(tenants.is_alive(node.tenant) && node.tenant != ROOT, "tenant {tenant} has a rule");
            assert!(node.limiters.iter().any(Option::is_some), "tenant {tenant}: a rule without limits");
            let head = node.most_urgent().map_or(NIL, |class| node.queues[class].head);
            assert_eq!(node.head, head, "tenant {tenant}");
            assert_eq!(head != NIL, self.deadlines.contains(&(node.deadline, slot - 1)), "tenant {tenant}");
            for queue in node.queues {
                let (mut key, mut last) = (queue.head, NIL);
                while key != NIL {
                    let ThrottledBio { tenant: of, arrived, waits, next, .. } = self.held[key];
                    assert_eq!(of, node.tenant);
                    let waited = Nanos::new((0..2).map(|kind| (node.waits[kind] - waits[kind]).get()).sum());
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
