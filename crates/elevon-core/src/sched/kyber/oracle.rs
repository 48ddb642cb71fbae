//! A second, simple implementation of Kyber for comparison: deques, sets, and latencies kept one by
//! one.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::request::Requests;
use crate::sched::testing::{Bed, Rng};
use crate::{ioprio::PrioClass, kernel::Kernel, request::State};

const DEPTHS: [u32; 4] = [256, 128, 64, 16];
const BATCHES: [u32; 4] = [16, 8, 1, 1];
const OPS: [Op; 6] =
    [Op::Read, Op::Write, Op::Discard, Op::SecureErase, Op::WriteZeroes, Op::ZoneAppend];

fn domain(op: Op) -> usize {
    [Op::Read, Op::Write, Op::Discard].iter().position(|o| *o == op).unwrap_or(3)
}

#[derive(Default)]
struct Seen {
    /// Buckets of the I/O and total times, one by one.
    buckets: [Vec<u32>; 2],
    timeout: Option<u64>,
    remembered: Option<u32>,
}

struct Oracle {
    hz: u64,
    /// By queue, domain, CPU.
    lists: BTreeMap<(usize, usize, usize), VecDeque<RequestId>>,
    /// By queue, domain.
    staged: BTreeMap<(usize, usize), VecDeque<RequestId>>,
    /// By queue: the current domain, and how many requests it got in its turn.
    turn: Vec<(usize, u32)>,
    depths: [u32; 4],
    held: BTreeMap<RequestId, (usize, u32)>,
    targets: [u64; 3],
    seen: [Seen; 3],
    timer: Option<u64>,
    promises: [Promises; 4],
}

/// Tokens of a domain that are promised to hardware queues.
#[derive(Default)]
struct Promises {
    waiting: BTreeSet<usize>,
    from: usize,
    made: BTreeMap<usize, u32>,
    last: Option<u64>,
}

impl Oracle {
    fn new(hz: u64, queues: usize) -> Self {
        Self {
            hz,
            lists: BTreeMap::new(),
            staged: BTreeMap::new(),
            turn: vec![(0, 0); queues],
            depths: DEPTHS,
            held: BTreeMap::new(),
            targets: [2_000_000, 10_000_000, 5_000_000_000],
            seen: Default::default(),
            timer: None,
            promises: Default::default(),
        }
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, at_head: bool) {
        let r = &requests[id];
        let list = self.lists.entry((r.queue.index(), domain(r.op), r.cpu.into())).or_default();
        if at_head { list.push_front(id) } else { list.push_back(id) }
    }

    fn queued(&self, queue: usize, domain: usize) -> usize {
        let listed = self
            .lists
            .iter()
            .filter(|((q, d, _), _)| (*q, *d) == (queue, domain))
            .map(|(_, l)| l.len());
        listed.sum::<usize>() + self.staged.get(&(queue, domain)).map_or(0, VecDeque::len)
    }

    /// Returns the lowest free number, and how many are free.
    fn free_tokens(&self, domain: usize) -> (Option<u32>, u32) {
        let held: BTreeSet<u32> =
            self.held.values().filter(|(d, _)| *d == domain).map(|(_, n)| *n).collect();
        let mut free = (0..self.depths[domain]).filter(|n| !held.contains(n));
        let lowest = free.next();
        (lowest, lowest.map_or(0, |_| 1 + free.count() as u32))
    }

    /// Returns true if the queue has a request of the domain, and a token is free that is not
    /// promised to another.
    fn is_ready(&self, queue: usize, domain: usize) -> bool {
        let promises = &self.promises[domain].made;
        let of_others: u32 = promises.values().sum();
        let (_, free) = self.free_tokens(domain);
        let promised = promises.contains_key(&queue);
        self.queued(queue, domain) > 0 && free > if promised { 0 } else { of_others }
    }

    fn lapse(&mut self, now: u64) {
        for promises in &mut self.promises {
            if promises.last.is_some_and(|last| now > last) {
                promises.last = None;
                promises.made.clear();
            }
        }
    }

    /// Dispatches the oldest request of a domain, or makes the queue wait for a token.
    fn try_domain(&mut self, queue: usize, domain: usize) -> Option<RequestId> {
        if self.queued(queue, domain) == 0 {
            return None;
        }
        let ready = self.is_ready(queue, domain);
        let Promises { waiting, made, .. } = &mut self.promises[domain];
        if let Some(n) = made.get_mut(&queue) {
            *n -= 1;
            made.retain(|_, n| *n > 0);
        }
        if !ready {
            waiting.insert(queue);
            return None;
        }
        waiting.remove(&queue);
        let staged = self.staged.entry((queue, domain)).or_default();
        if staged.is_empty() {
            for (_, list) in
                self.lists.iter_mut().filter(|((q, d, _), _)| (*q, *d) == (queue, domain))
            {
                staged.append(list);
            }
        }
        let id = staged.pop_front()?;
        let (token, _) = self.free_tokens(domain);
        self.held.insert(id, (domain, token?));
        self.turn[queue].1 += 1;
        Some(id)
    }

    fn dispatch(&mut self, now: u64, queue: usize) -> Option<RequestId> {
        self.lapse(now);
        let (first, given) = self.turn[queue];
        if given < BATCHES[first] {
            let id = self.try_domain(queue, first);
            if id.is_some() {
                return id;
            }
        }
        [1, 2, 3, 4].into_iter().find_map(|step| {
            self.turn[queue] = ((first + step) % 4, 0);
            self.try_domain(queue, (first + step) % 4)
        })
    }

    /// Frees the token of a request, and promises it to the next queue that waits.
    fn free(&mut self, now: u64, id: RequestId) -> usize {
        self.lapse(now);
        let (domain, token) = self.held.remove(&id).expect("it was dispatched");
        let promises = &mut self.promises[domain];
        if token < self.depths[domain] {
            let next = promises.waiting.range(promises.from..).next().or(promises.waiting.first());
            if let Some(queue) = next.copied() {
                let made = promises.made.entry(queue).or_default();
                *made += 1;
                let made = *made as usize;
                (promises.from, promises.last) = (queue + 1, None);
                if made >= self.queued(queue, domain) {
                    self.promises[domain].waiting.remove(&queue);
                }
            }
        }
        domain
    }

    fn finish(&mut self, now: u64, id: RequestId, requests: &Requests) {
        let domain = self.free(now, id);
        if domain < 3 {
            let r = &requests[id];
            self.sample(now, domain, [now - r.issued.get(), now - r.start.get()]);
        }
    }

    fn sample(&mut self, now: u64, domain: usize, times: [u64; 2]) {
        for (list, ns) in self.seen[domain].buckets.iter_mut().zip(times) {
            let quarter = u128::from((self.targets[domain] / 4).max(1));
            list.push((1..8).filter(|n| u128::from(ns) > n * quarter).count() as u32);
        }
        let tick = 1_000_000_000 / self.hz;
        let spacing = if self.hz < 640 { 1 } else { 8 };
        let ticks = self
            .timer
            .is_none()
            .then(|| (now / tick + self.hz / 10 + 1..).find(|at| at % spacing == 0));
        self.timer = self.timer.or(ticks.flatten().map(|at| at * tick));
    }

    fn percentile(
        &mut self,
        domain: usize,
        which: usize,
        percent: usize,
        tick: u64,
    ) -> Option<u32> {
        let Seen { buckets, timeout, .. } = &mut self.seen[domain];
        let list = &mut buckets[which];
        if list.is_empty() {
            return None;
        }
        let due = timeout.unwrap_or(tick + self.hz);
        if list.len() < 500 && tick < due {
            *timeout = Some(due);
            return None;
        }
        *timeout = None;
        list.sort_unstable();
        let nth = list[(list.len() * percent).div_ceil(100) - 1];
        list.clear();
        Some(nth)
    }

    fn on_timer(&mut self, now: u64) {
        self.timer = None;
        let tick = now / (1_000_000_000 / self.hz);
        let io = [0, 1, 2].map(|d| self.percentile(d, 0, 90, tick));
        let bad = io.into_iter().flatten().any(|bucket| bucket >= 4);
        for (d, most) in DEPTHS.into_iter().enumerate().take(3) {
            let fresh = self.percentile(d, 1, 99, tick);
            let used = if bad { fresh.or(self.seen[d].remembered) } else { fresh };
            self.seen[d].remembered = if bad { None } else { fresh.or(self.seen[d].remembered) };
            match used {
                Some(bucket) if bad || bucket >= 4 => {
                    self.depths[d] = (self.depths[d] * (bucket + 1) / 4).clamp(1, most);
                }
                Some(_) | None => {}
            }
        }
    }
}

/// A random walk: the test environment, the oracle, and the requests in flight.
struct Walk {
    rng: Rng,
    bed: Bed<Kyber>,
    oracle: Oracle,
    in_flight: Vec<RequestId>,
    /// By queue: the domain served last, and how often in a row while another domain was ready.
    rows: Vec<(usize, u32)>,
    inserted: u64,
    dispatched: u64,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let (queues, cpus, hz) =
            (rng.pick(&[1u16, 1, 3]), rng.pick(&[1u16, 2, 65]), rng.pick(&[100, 250, 1000]));
        let requests = rng.pick(&[40, 300]);
        let kyber = Kyber::new(Kernel::V6_18.rules(), Hz(hz), queues, cpus, requests);
        Self {
            rng,
            bed: Bed::new(Kernel::V6_18, kyber, requests),
            oracle: Oracle::new(hz, queues.into()),
            in_flight: Vec::new(),
            rows: vec![(0, 0); queues.into()],
            inserted: 0,
            dispatched: 0,
        }
    }

    fn insert(&mut self) {
        let Some(id) =
            self.bed.requests.iter().find(|(_, r)| r.state == State::Free).map(|(id, _)| id)
        else {
            return;
        };
        let op = if self.rng.one_in(8) {
            self.rng.pick(&OPS)
        } else {
            self.rng.pick(&[Op::Read, Op::Read, Op::Write])
        };
        assert_eq!(self.bed.prepare(op, 8, PrioClass::Be), id);
        let r = &mut self.bed.requests[id];
        r.queue = HwQueue(self.rng.below(self.rows.len() as u64) as u16);
        r.cpu = self.rng.below(self.bed.scheduler.queues[0].contexts[0].cpus() as u64) as u16;
        r.start = self.bed.now;
        self.oracle.insert(&self.bed.requests, id, false);
        self.bed.insert_prepared(id, false);
        self.inserted += 1;
    }

    fn dispatch(&mut self) {
        let queue = self.rng.below(self.rows.len() as u64) as usize;
        self.oracle.lapse(self.bed.now.get());
        let ready = [0, 1, 2, 3].map(|d| self.oracle.is_ready(queue, d));
        let expected = self.oracle.dispatch(self.bed.now.get(), queue);
        assert_eq!(self.bed.dispatch_on(queue as u16), expected);
        let Some(id) = expected else {
            assert_eq!(ready, [false; 4], "a request and a token, yet nothing");
            return;
        };
        self.dispatched += 1;
        self.bed.requests[id].issued = self.bed.now;
        self.in_flight.push(id);
        let d = domain(self.bed.requests[id].op);
        let others_ready = (0..4).any(|other| other != d && ready[other]);
        let (last, row) = self.rows[queue];
        let row = if !others_ready { 0 } else { 1 + if last == d { row } else { 0 } };
        assert!(row <= BATCHES[d], "{row} of domain {d} in a row while others wait");
        self.rows[queue] = (d, row);
    }

    fn end_one(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let id = self.in_flight.swap_remove(self.rng.below(self.in_flight.len() as u64) as usize);
        if self.rng.one_in(12) {
            self.oracle.free(self.bed.now.get(), id);
            self.bed.requeue(id);
            self.oracle.insert(&self.bed.requests, id, true);
            self.inserted += 1;
        } else {
            self.oracle.finish(self.bed.now.get(), id, &self.bed.requests);
            self.bed.finish(id);
            self.bed.check();
        }
    }

    fn set_target(&mut self) {
        let target = self.rng.pick(&[0u64, 1_000_000, 100_000_000, 3_000_000_000]);
        let which = self.rng.below(2) as usize;
        self.oracle.targets[which] = target;
        self.bed.scheduler.set_tunable(INFO.tunables[which].name, target as i64);
        assert_eq!(self.bed.scheduler.tunable(INFO.tunables[which].name), target as i64);
    }

    fn step(&mut self) {
        let now = self.bed.now.get() + self.rng.below(2_000_000) * self.rng.below(2);
        self.bed.now = Instant::new(now);
        if self.bed.scheduler.next_wakeup().get() <= now {
            if self.bed.scheduler.wake_at.is_some() {
                self.oracle.promises.iter_mut().for_each(|promises| promises.last = Some(now));
            }
            self.bed.scheduler.on_wakeup(self.bed.now);
            if self.oracle.timer.is_some_and(|at| at <= now) {
                self.oracle.on_timer(now);
            }
        }
        assert_eq!(self.bed.scheduler.timer.map(Instant::get), self.oracle.timer);
        assert_eq!(self.bed.scheduler.depths(), self.oracle.depths);
        for (pool, promises) in self.bed.scheduler.pools.iter().zip(&self.oracle.promises) {
            assert!(
                (0..self.rows.len())
                    .all(|queue| pool.is_waiting(queue) == promises.waiting.contains(&queue))
            );
        }
        match self.rng.below(3) {
            0 => self.insert(),
            1 => self.dispatch(),
            _ => self.end_one(),
        }
        if self.rng.one_in(2000) {
            self.set_target();
        }
        if self.rng.one_in(20) {
            let start = now - now.min(self.rng.below(20_000_000));
            self.bed.scheduler.on_empty_flush(self.bed.now, Instant::new(start));
            self.oracle.sample(now, 1, [u64::MAX, now - start]);
        }
        let queues = 0..self.rows.len();
        let queued: usize =
            queues.clone().flat_map(|q| [0, 1, 2, 3].map(|d| self.oracle.queued(q, d))).sum();
        assert_eq!(self.inserted, self.dispatched + queued as u64);
        for queue in queues {
            let has_work = (0..4).any(|d| self.oracle.queued(queue, d) > 0);
            assert_eq!(self.bed.scheduler.has_work(HwQueue(queue as u16)), has_work);
        }
    }
}

/// P17, P18, P19: dispatched requests and changes of depth are those of the simple model; no
/// request is lost.
#[test]
fn agrees_with_the_oracle_at_every_step() {
    let (mut cuts, mut rises, mut starved) = (0, 0, 0);
    for seed in 0..16 {
        let mut walk = Walk::new(seed);
        walk.set_target();
        for _ in 0..16_000 {
            let before = walk.oracle.depths;
            walk.step();
            let changes = || before.iter().zip(walk.oracle.depths);
            cuts += changes().filter(|(old, new)| new < old).count();
            rises += changes().filter(|(old, new)| new > old).count();
            starved += usize::from(
                walk.oracle.promises.iter().any(|promises| !promises.waiting.is_empty()),
            );
        }
    }
    assert!(cuts >= 10 && rises >= 5, "depths hardly moved: {cuts} cuts, {rises} rises");
    assert!(starved > 300, "nobody waited for a token: {starved} steps");
}
