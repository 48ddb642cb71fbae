//! `kyber`: two tunables, the target latencies of reads and writes. Queue depth is adjusted to meet
//! them.
//!
//! There are four *domains* of requests: reads, writes, discards, and the rest. A request needs a
//! token of its domain from dispatch to completion. The number of tokens of a domain is decided ten
//! times a second from the measured latencies (the rule is in `kyber/feedback.rs`). Requests
//! without a token wait here and not in the device, so that the device is less loaded for the other
//! domains. Tokens belong to the device. Everything else belongs to a hardware queue: software
//! queues by CPU and domain, a staged list per domain, and the current domain. Domains take turns,
//! with 16 reads, 8 writes, 1 discard and 1 other request at a time. Nothing is sorted and
//! priorities are ignored. Requests that are not sync may use three quarters of the scheduler tags.
//!
//! Reproduces Linux, including the quirks of its percentile rule and of flushes, and is within 6 %
//! of every job measured on 6.18. Two choices are fixed here that Linux leaves to chance: the
//! lowest free token is taken, and hardware queues that wait for tokens get them in turn
//! (`kyber/pool.rs`). The async depth is at least 1.
//!
//! Cost: insert O(1), merge lookup at most 8 requests, dispatch O(1) and O(CPUs / 64) to move
//! lists, completion O(1); the timer, at most ten times a second, O(1).

extern crate alloc;
use alloc::vec::Vec;

use super::contexts::{Contexts, Mask};
use super::fifo::{Fifo, FifoLinks};
use super::tunable::requests_of_linux;
use super::{Reads, Scheduler, SchedulerInfo, TunableInfo, View, earlier};
use crate::bio::Bio;
use crate::jiffies::Hz;
use crate::kernel::Rules;
use crate::merge::MergeKind;
use crate::monotonic::Monotonic;
use crate::op::{Flags, Op, is_sync};
use crate::tags::SchedTags;
use crate::units::{HwQueue, Instant, Nanos, RequestId};

mod feedback;
mod pool;
mod tokens;

use feedback::Feedback;
use pool::Pool;

const fn latency(name: &'static str, default: &'static str, help: &'static str) -> TunableInfo {
    TunableInfo {
        name,
        unit: "ns",
        default,
        range: "0..9223372036854775807",
        min: 0,
        max: i64::MAX,
        help,
        choices: &[],
    }
}

/// The entry of `elevon schedulers`.
pub const INFO: SchedulerInfo = SchedulerInfo {
    name: "kyber",
    summary: "reads and writes held to target latencies by the depth each may use; arrival order, priorities ignored",
    reads: &[Reads::Sync],
    in_linux: true,
    divides_as: None,
    keeps_reserves: false,
    turns_wbt_off: false,
    first_requests: requests_of_linux,
    async_quarters: 3,
    taken: TunableInfo::values,
    tunables: &[
        latency(
            "read_lat_nsec",
            "2000000",
            "latency that 99 % of reads are to keep, from allocation to completion",
        ),
        latency(
            "write_lat_nsec",
            "10000000",
            "latency that 99 % of writes are to keep, from allocation to completion",
        ),
    ],
};

/// Kinds of requests with separate depths, in the order of their turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Discards.
    Discard,
    /// Everything else; its depth never changes.
    Other,
}

impl Domain {
    /// All domains.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Discard, Self::Other];

    /// Returns the domain of an operation.
    #[inline]
    pub const fn from_op(op: Op) -> Self {
        match op {
            Op::Read => Self::Read,
            Op::Write => Self::Write,
            Op::Discard => Self::Discard,
            Op::Flush | Op::SecureErase | Op::ZoneAppend | Op::WriteZeroes => Self::Other,
        }
    }

    /// Returns the maximum number of requests between dispatch and completion, over the whole
    /// device.
    pub const fn depth_max(self) -> u32 {
        match self {
            Self::Read => 256,
            Self::Write => 128,
            Self::Discard => 64,
            Self::Other => 16,
        }
    }

    /// Returns how many requests are dispatched in a row while other domains wait.
    pub const fn batch(self) -> u32 {
        match self {
            Self::Read => 16,
            Self::Write => 8,
            Self::Discard | Self::Other => 1,
        }
    }

    const fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }
}

/// Default targets: reads, writes, discards (the last cannot be set).
const TARGETS: [Nanos; feedback::DOMAINS] =
    [Nanos::from_millis(2), Nanos::from_millis(10), Nanos::from_secs(5)];

/// State of a hardware queue.
#[derive(Clone, Debug)]
struct KyberQueue {
    /// Requests of each CPU, by domain. Bios may merge into these.
    contexts: [Contexts; 4],
    /// Requests of lists that were taken as a whole and are not dispatched yet, by domain.
    staged: [Fifo; 4],
    /// The domain that is being served.
    domain: Domain,
    /// Requests of this domain dispatched in its current turn.
    batching: u32,
    /// Requests in the lists, by domain.
    queued: [u32; 4],
}

/// The kyber scheduler of one device.
#[derive(Clone, Debug)]
pub struct Kyber {
    links: FifoLinks,
    queues: Vec<KyberQueue>,
    /// Tokens, by domain.
    pools: [Pool; 4],
    /// The token of each request; `None` if it has none.
    held: Vec<Option<u8>>,
    /// Hardware queues that got a token while they waited and have not been run since.
    woken: Mask,
    /// When these queues are to be run.
    wake_at: Option<Instant>,
    feedback: Feedback,
    /// When the latencies are evaluated.
    timer: Option<Instant>,
    /// Hardware queue and CPU of the next bio.
    context: (usize, usize),
    discard_ranges: u16,
    /// The scheduler's tags of a hardware queue.
    tags: SchedTags,
    rules: Rules,
    /// `queue/async_depth` if it was set.
    async_depth: Option<u32>,
    hz: Hz,
    clock: Monotonic,
}

impl Kyber {
    /// Returns a scheduler with every tunable at its default, for a device with `queues` hardware
    /// queues used from `cpus` CPUs. `hz` (100 to 1000) is the tick rate of its timers.
    pub fn new(rules: Rules, hz: Hz, queues: u16, cpus: u16, requests: usize) -> Self {
        let contexts = Contexts::new(usize::from(cpus.max(1)));
        let count = usize::from(queues.max(1));
        let queue = KyberQueue {
            contexts: Domain::ALL.map(|_| contexts.clone()),
            staged: [Fifo::EMPTY; 4],
            domain: Domain::Read,
            batching: 0,
            queued: [0; 4],
        };
        Self {
            links: FifoLinks::new(requests),
            queues: alloc::vec![queue; count],
            pools: Domain::ALL.map(|domain| Pool::new(domain.depth_max(), count)),
            held: alloc::vec![None; requests],
            woken: Mask::new(count),
            wake_at: None,
            feedback: Feedback::new(TARGETS),
            timer: None,
            context: (0, 0),
            discard_ranges: 1,
            tags: SchedTags::of_each(requests, count),
            rules,
            async_depth: None,
            hz: Hz(hz.0.max(10)),
            clock: Monotonic::START,
        }
    }

    /// Returns how many requests each domain may have between dispatch and completion, in the order
    /// of [`Domain::ALL`].
    pub fn depths(&self) -> [u32; 4] {
        self.pools.each_ref().map(|pool| pool.tokens.depth())
    }

    pub(super) fn tunable(&self, name: &str) -> i64 {
        self.feedback.target(target_of(name)).get() as i64
    }

    /// Sets a tunable. The value must be in the range that [`INFO`] gives.
    pub(super) fn set_tunable(&mut self, name: &str, value: i64) {
        self.feedback.set_target(target_of(name), Nanos::new(value as u64));
    }

    const fn tick_nanos(&self) -> u64 {
        1_000_000_000 / self.hz.0
    }

    /// Dispatches the oldest request of a domain, if it has one and a token is free.
    #[inline]
    fn dispatch_domain(&mut self, now: Instant, index: usize, domain: Domain) -> Option<RequestId> {
        let (queue, d) = (&mut self.queues[index], domain as usize);
        if queue.queued[d] == 0 {
            return None;
        }
        let token = self.pools[d].take(now, index)?;
        if queue.staged[d].is_empty() {
            queue.contexts[d].take_all(&mut self.links, &mut queue.staged[d]);
        }
        let id = self.links.pop_front(&mut queue.staged[d])?;
        self.held[id.index()] = Some(token);
        queue.batching += 1;
        queue.queued[d] -= 1;
        Some(id)
    }

    /// Adds the latencies of a request, and starts the timer if it does not run.
    #[inline]
    fn sample(&mut self, now: Instant, domain: Domain, io: Nanos, total: Nanos) {
        self.feedback.sample(domain as usize, io, total);
        if self.timer.is_none() {
            self.timer = Some(self.hz.timer(now, self.hz.0 / 10));
        }
    }

    /// Frees the token of a request, and wakes a hardware queue that waits for it. Returns false if
    /// the request had no token.
    #[inline]
    fn free_token(&mut self, now: Instant, domain: Domain, id: RequestId) -> bool {
        self.clock.advance(now);
        let Some(token) = self.held.get_mut(id.index()).and_then(Option::take) else {
            return false;
        };
        let queues = &self.queues;
        let queued = |queue: usize| queues[queue].queued[domain as usize];
        if let Some(queue) = self.pools[domain as usize].free(now, token, queued) {
            self.woken.insert(queue);
            self.wake_at.get_or_insert(now);
        }
        true
    }
}

/// Returns the domain whose target the tunable sets.
fn target_of(name: &str) -> usize {
    match name {
        "read_lat_nsec" => Domain::Read as usize,
        "write_lat_nsec" => Domain::Write as usize,
        other => unreachable!("{other} is not in the table"),
    }
}

impl Scheduler for Kyber {
    fn insert(&mut self, now: Instant, view: View<'_>, id: RequestId, at_head: bool) {
        self.clock.advance(now);
        if id.index() >= self.held.len() {
            self.links.grow(view.requests.len());
            self.held.resize(view.requests.len(), None);
        }
        debug_assert!(self.held[id.index()].is_none(), "request {} is inserted with a token", id.0);
        let request = &view.requests[id];
        let (queue, domain) =
            (&mut self.queues[request.queue.index()], Domain::from_op(request.op) as usize);
        queue.contexts[domain].insert(&mut self.links, view, id, at_head);
        queue.queued[domain] += 1;
    }

    fn dispatch(&mut self, now: Instant, _view: View<'_>, queue: HwQueue) -> Option<RequestId> {
        self.clock.advance(now);
        let index = queue.index();
        self.woken.remove(index);
        let KyberQueue { mut domain, batching, .. } = self.queues[index];
        if batching < domain.batch()
            && let Some(id) = self.dispatch_domain(now, index, domain)
        {
            return Some(id);
        }
        self.queues[index].batching = 0;
        for _ in Domain::ALL {
            domain = domain.next();
            self.queues[index].domain = domain;
            if let Some(id) = self.dispatch_domain(now, index, domain) {
                return Some(id);
            }
        }
        None
    }

    #[inline]
    fn has_work(&self, queue: HwQueue) -> bool {
        self.queues[queue.index()].queued != [0; 4]
    }

    /// Searches only the bio's own domain; `nomerges=1` does not prevent the lookup (as in Linux).
    fn find_merge(
        &mut self,
        view: View<'_>,
        bio: &Bio,
        _one_hit_only: bool,
    ) -> Option<(RequestId, MergeKind)> {
        let (queue, cpu) = self.context;
        let contexts = &self.queues[queue].contexts[Domain::from_op(bio.op) as usize];
        contexts.find_merge(&self.links, view, bio, cpu, self.discard_ranges)
    }

    fn on_finish(&mut self, now: Instant, view: View<'_>, id: RequestId) {
        let request = &view.requests[id];
        let domain = Domain::from_op(request.op);
        if !self.free_token(now, domain, id) || domain == Domain::Other {
            return;
        }
        self.sample(now, domain, now.since(request.issued), now.since(request.start));
    }

    fn on_empty_flush(&mut self, now: Instant, start: Instant) {
        self.clock.advance(now);
        self.sample(now, Domain::Write, Nanos::MAX, now.since(start));
    }

    fn on_requeue(&mut self, now: Instant, view: View<'_>, id: RequestId) {
        self.free_token(now, Domain::from_op(view.requests[id].op), id);
    }

    /// Limits requests that are not sync, in later versions all but sync reads, to `async_depth` or
    /// three quarters of the tags: of the whole map, or in versions before that rule of each bitmap
    /// word.
    fn depth_limit(&self, op: Op, flags: Flags) -> Option<u32> {
        let tags = self.tags.shared(self.rules.whole_map_shallow_depth);
        let is_limited =
            !is_sync(op, flags) || self.rules.kyber_limits_sync_writes && op != Op::Read;
        is_limited.then(|| self.async_depth.unwrap_or(tags * 3 / 4).max(1))
    }

    fn least_limit(&self, tags: u32) -> u32 {
        self.async_depth.unwrap_or(tags * 3 / 4)
    }

    fn set_async_depth(&mut self, depth: u32) {
        self.async_depth = Some(depth);
    }

    fn on_depth_updated(&mut self, nr_requests: u32, shift: u32) {
        self.tags = SchedTags::new(nr_requests, shift);
    }

    fn set_context(&mut self, queue: HwQueue, cpu: u16) {
        let queue = queue.index() % self.queues.len();
        self.context = (queue, usize::from(cpu) % self.queues[queue].contexts[0].cpus());
    }

    fn set_discard_ranges(&mut self, ranges: u16) {
        self.discard_ranges = ranges;
    }

    #[inline]
    fn next_wakeup(&self) -> Instant {
        earlier(self.wake_at, self.timer)
    }

    fn on_wakeup(&mut self, now: Instant) {
        self.clock.advance(now);
        if self.wake_at.is_some_and(|at| at <= now) {
            self.wake_at = None;
            self.pools.iter_mut().for_each(|pool| pool.on_wakeup(now));
        }
        if self.timer.is_some_and(|at| at <= now) {
            self.timer = None;
            let verdicts = self.feedback.evaluate(now.get() / self.tick_nanos(), self.hz);
            for (pool, quarters) in self.pools.iter_mut().zip(verdicts) {
                if let Some(quarters) = quarters {
                    pool.tokens.scale(quarters);
                }
            }
        }
    }

    fn is_woken(&self, queue: HwQueue) -> bool {
        self.woken.contains(queue.index())
    }

    fn wakes_worker(&self) -> bool {
        true
    }

    fn self_check(&self, view: View<'_>) {
        for (index, queue) in self.queues.iter().enumerate() {
            for (n, domain) in Domain::ALL.into_iter().enumerate() {
                let (staged, contexts) = (queue.staged[n], &queue.contexts[n]);
                let count = self.links.self_check(staged) + contexts.self_check(&self.links);
                for id in self.links.iter(staged).chain(contexts.iter(&self.links)) {
                    let request = &view.requests[id];
                    assert_eq!(
                        (Domain::from_op(request.op), request.queue.index()),
                        (domain, index),
                        "where {} is",
                        id.0
                    );
                    assert!(
                        self.held[id.index()].is_none(),
                        "request {} is queued with a token",
                        id.0
                    );
                }
                assert_eq!(count as u32, queue.queued[n], "requests in the lists");
                assert!(
                    count > 0 || !self.pools[n].is_waiting(index),
                    "waits for a token without need"
                );
            }
        }
        for (domain, pool) in Domain::ALL.into_iter().zip(&self.pools) {
            pool.self_check();
            let (depth, (below, above)) = (pool.tokens.depth(), pool.tokens.held());
            assert!(
                (1..=domain.depth_max()).contains(&depth) && below <= depth,
                "{domain:?}: {below} of {depth}"
            );
            let holds = |(id, token): (u32, &Option<u8>)| {
                token.filter(|_| Domain::from_op(view.requests[RequestId(id)].op) == domain)
            };
            let mut tokens: Vec<u8> = (0..).zip(&self.held).filter_map(holds).collect();
            tokens.sort_unstable();
            tokens.dedup();
            assert_eq!(
                tokens.len() as u32,
                below + above,
                "tokens of {domain:?} taken, against requests that hold one"
            );
        }
    }
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
