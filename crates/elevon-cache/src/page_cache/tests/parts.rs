//! Parts of the memory: a tenant whose I/O is held back does not hold the memory of others, and no
//! call fails for want of memory.

use super::*;
use elevon_testkit::Rng;

const HELD: TenantId = TenantId(1);
const FREE: TenantId = TenantId(2);
const FILE: u64 = 65_536;

/// A cache of 8 MiB beside its watermarks, whose bios of `HELD` never complete by themselves.
struct Bench {
    cache: PageCache,
    open: OpenId,
    held: Vec<CacheIo>,
    now: Instant,
}

impl Bench {
    fn new(write_mode: WriteMode) -> Self {
        let change = |config: &mut CacheConfig| {
            (config.copies, config.divides, config.tenant_flushers, config.write_mode) =
                (true, true, 4, write_mode);
        };
        let (cache, open) = cache(8, FILE, change);
        Self { cache, open, held: Vec::new(), now: T0 }
    }

    fn call(
        &mut self,
        tenant: TenantId,
        token: u64,
        kind: CallKind,
        page: u64,
        pages: u64,
    ) -> Called {
        let (offset, bytes) = (FileOffset::new(page * PAGE), Bytes::new(pages * PAGE));
        let task = TaskId(tenant.0);
        let called = self.cache.call(
            self.now,
            Call { task, token, tenant, ..call(self.open, kind, offset.get(), bytes.get()) },
        );
        self.go_on();
        called
    }

    /// Takes bios, completes those of other tenants than `HELD`, and checks the bound.
    fn go_on(&mut self) {
        loop {
            while self.cache.poll_copy().is_some() {}
            let Some(io) = self.cache.poll_io(self.now) else { break };
            if io.tenant == HELD { self.held.push(io) } else { self.complete(io) }
        }
        self.cache.self_check();
    }

    fn complete(&mut self, io: CacheIo) {
        self.cache.complete(self.now, io.token, Status::Ok, Nanos::ZERO);
        while self.cache.poll_copy().is_some() {}
    }

    /// Lets time pass, with its timers.
    fn wait(&mut self, span: Nanos) {
        let end = self.now + span;
        while let Some(at) = self.cache.next_timer().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.cache.handle_timers(self.now);
            self.go_on();
        }
        self.now = end;
    }

    fn done(&mut self, tenant: TenantId) -> usize {
        let done = core::iter::from_fn(|| self.cache.poll_done())
            .inspect(|done| assert_eq!(done.status, Status::Ok));
        done.filter(|done| done.task == TaskId(tenant.0)).count()
    }

    fn frames_of_held(&self) -> u64 {
        let (dirty, writeback) = self.cache.dirty_of(HELD);
        self.cache.reading_of(HELD) + dirty + writeback
    }
}

/// A flood of every kind by a tenant whose bios stand still: the other tenant's calls end at once.
#[test]
fn a_tenant_that_is_held_back_leaves_memory_to_others() {
    for kind in [CallKind::Read, CallKind::Fadvise(Advice::WillNeed), CallKind::Write] {
        for write_mode in WriteMode::ALL {
            let mut bench = Bench::new(write_mode);
            for token in 0..1000 {
                bench.call(HELD, token, kind, (token * 61) % (FILE / 2), 32);
            }
            let most = if kind == CallKind::Write { 800 } else { 200 };
            let held = bench.frames_of_held();
            assert!((16..most).contains(&held), "{kind:?}, {write_mode:?}: {held} frames are held");
            for round in 0..200 {
                let page = FILE / 2 + round * 67;
                for (token, kind) in [CallKind::Read, CallKind::Write].into_iter().enumerate() {
                    let called = bench.call(FREE, token as u64, kind, page, 16);
                    // A dirty page waits for the flusher, which no limit holds back here.
                    bench.wait(Nanos::from_millis(1));
                    let ended = usize::from(called != Called::Wait) + bench.done(FREE);
                    assert_eq!(ended, 1, "round {round} of {kind:?}, {write_mode:?}");
                }
            }
        }
    }
}

/// The device stands still for a minute under every kind of call. Nothing fails, and all calls end
/// in the order of the device once it goes on.
#[test]
fn calls_wait_for_a_device_that_stands_still() {
    let mut bench = Bench::new(WriteMode::Back);
    let mut rng = Rng(5);
    let (mut begun, mut ended) = (0, 0);
    for token in 0..600 {
        let kind = [CallKind::Read, CallKind::Write][rng.below(2) as usize];
        begun += 1;
        ended += usize::from(
            bench.call(HELD, token, kind, rng.below(FILE - 64), 1 + rng.below(64)) != Called::Wait,
        );
    }
    bench.wait(Nanos::from_secs(60));
    ended += bench.done(HELD);
    assert!(ended < begun, "some calls wait");
    for _ in 0..100_000 {
        let Some(io) = (!bench.held.is_empty()).then(|| bench.held.remove(0)) else {
            if bench.cache.is_idle() {
                break;
            }
            bench.wait(Nanos::from_millis(100));
            continue;
        };
        bench.complete(io);
        bench.go_on();
        ended += bench.done(HELD);
    }
    ended += bench.done(HELD);
    assert_eq!((ended, bench.cache.stats().out_of_memory), (begun, 0));
}

/// A tenant's calls are let in as they came, and one that waits for frames of its dirty pages goes
/// on if these are dropped.
#[test]
fn calls_are_let_in_in_order_and_after_a_discard() {
    let mut bench = Bench::new(WriteMode::Back);
    for token in 0..100 {
        bench.call(HELD, token, CallKind::Read, token * 64, 32);
    }
    let mut order = Vec::new();
    while let Some(io) = (!bench.held.is_empty()).then(|| bench.held.remove(0)) {
        bench.complete(io);
        bench.go_on();
        order.extend(core::iter::from_fn(|| bench.cache.poll_done()).map(|done| done.token));
    }
    assert!(order.is_sorted() && order.len() == 100, "{order:?}");
    let mut waiting = 0;
    for token in 0..1500 {
        waiting += usize::from(
            bench.call(HELD, token, CallKind::Write, 10_000 + token * 8, 8) == Called::Wait,
        );
    }
    bench.wait(Nanos::from_millis(1));
    assert!(waiting > 0 && bench.cache.parts.has_writers(), "{waiting} wait");
    // Those under writeback stay: the discard waits for them.
    bench.call(FREE, 0, CallKind::Discard, 10_000, 12_000);
    while let Some(io) = bench.held.pop() {
        bench.complete(io);
        bench.go_on();
    }
    bench.wait(Nanos::from_secs(5));
    while !bench.held.is_empty() {
        core::mem::take(&mut bench.held).into_iter().for_each(|io| bench.complete(io));
        bench.go_on();
        bench.wait(Nanos::from_secs(1));
    }
    assert_eq!(bench.done(HELD), waiting);
}
