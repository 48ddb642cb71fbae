extern crate alloc;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::*;
use crate::op::Op;
use crate::sched::testing::Rng;

const MS: u64 = 1_000_000;

struct Bed {
    latency: IoLatency,
    tenants: Tenants,
    breakdown: WaitBreakdown,
    now: Instant,
    bios: u32,
}

impl Bed {
    fn new(queue_size: u32, is_rotational: bool) -> Self {
        Self {
            latency: IoLatency::new(queue_size, is_rotational),
            tenants: Tenants::new(),
            breakdown: WaitBreakdown::default(),
            now: Instant::ZERO,
            bios: 0,
        }
    }

    fn target(&mut self, tenant: TenantId, ms: u64) {
        self.latency.set(self.now, &self.tenants, tenant, Some(Nanos::from_millis(ms)));
        self.check();
    }

    fn check(&self) {
        self.latency.self_check(&self.tenants);
    }

    fn submit(&mut self, tenant: TenantId, must_issue: bool) -> (BioId, StageVerdict) {
        self.bios += 1;
        let charge = BioCost { must_issue, ..BioCost::plain(tenant, Op::Read, 4096) };
        let verdict = self.latency.admit(self.now, &self.tenants, BioId(self.bios), &charge);
        self.check();
        (BioId(self.bios), verdict)
    }

    fn finish(&mut self, tenant: TenantId, issued: Instant, must_issue: bool) {
        let (allocated, end) = (issued, self.now);
        let io = Finished { tenant, op: Op::Read, bytes: 4096, must_issue, issued, allocated, end };
        self.latency.on_finish(self.now, &self.tenants, &io);
        self.check();
    }

    fn release(&mut self) -> Vec<BioId> {
        let mut out = Vec::new();
        self.latency.release(self.now, &self.tenants, &mut self.breakdown, &mut out);
        self.check();
        out
    }

    /// Ends a window of I/Os: `slow` of them took `ms` milliseconds, the others no time.
    fn window(&mut self, tenant: TenantId, end: u64, total: u64, slow: u64, ms: u64) {
        self.now = Instant::new(end * MS);
        let target = self.latency.target(tenant).unwrap();
        assert_eq!(self.submit(tenant, false).1, StageVerdict::Pass);
        let slot = self.latency.known(tenant).unwrap();
        for n in 1..total {
            let took = if n < slow { Nanos::from_millis(ms) } else { Nanos::ZERO };
            self.latency.levels[slot].window.record(took, took >= target);
        }
        let took = if slow > 0 { ms } else { 0 };
        let io = Finished {
            tenant,
            op: Op::Read,
            bytes: 4096,
            must_issue: false,
            issued: Instant::new((end - took) * MS),
            allocated: self.now,
            end: self.now,
        };
        self.latency.on_finish(self.now, &self.tenants, &io);
        self.check();
    }

    fn cookie(&self) -> u32 {
        self.latency.levels[0].children.cookie()
    }

    /// Submits an I/O of a tenant, which checks the cookie, and completes it at once.
    fn touch(&mut self, tenant: TenantId) -> (Option<u32>, u32) {
        if self.submit(tenant, false).1 == StageVerdict::Pass {
            self.finish(tenant, self.now, false);
        }
        self.throttling(tenant)
    }

    /// Returns a tenant's depth, and how often it had to be throttled further at a depth of 1.
    fn throttling(&self, tenant: TenantId) -> (Option<u32>, u32) {
        let level = &self.latency.levels[self.latency.known(tenant).unwrap()];
        (level.depth, level.delay.uses())
    }
}

fn pair(queue_size: u32) -> (Bed, TenantId, TenantId) {
    let mut bed = Bed::new(queue_size, false);
    let (guarded, other) = (bed.tenants.add(ROOT).unwrap(), bed.tenants.add(ROOT).unwrap());
    bed.target(guarded, 10);
    (bed, guarded, other)
}

#[test]
fn violations_lower_the_cookie_and_halve_the_siblings_depth() {
    let (mut bed, guarded, other) = pair(64);
    assert_eq!((bed.cookie(), bed.touch(other).0), (1_000_000, None));
    let (mut cookies, mut depths) = (Vec::new(), Vec::new());
    for n in 1..=9 {
        bed.window(guarded, 1_000 + n * 500, 1, 1, 20);
        cookies.push(bed.cookie());
        let now = bed.touch(other);
        depths.push((now.0.unwrap(), now.1));
        // Within 500 ms nothing changes; a check without a change does nothing either.
        bed.window(guarded, 1_000 + n * 500 + 300, 1, 1, 20);
        assert_eq!((bed.cookie(), bed.touch(other)), (cookies[n as usize - 1], now));
    }
    assert_eq!(
        cookies,
        [999_984, 999_968, 999_952, 999_936, 999_920, 999_919, 999_918, 999_917, 999_916]
    );
    assert_eq!(depths, [(32, 0), (16, 0), (8, 0), (4, 0), (2, 0), (1, 0), (1, 1), (1, 2), (1, 3)]);
    assert_eq!(bed.throttling(guarded).0, None, "who is protected is not throttled");
}

#[test]
fn the_cookie_has_a_bottom() {
    let (mut bed, guarded, _) = pair(4);
    for n in 1..=20 {
        bed.window(guarded, n * 500, 1, 1, 20);
    }
    assert_eq!(bed.cookie(), UNTHROTTLED - 8);
}

#[test]
fn a_tenth_of_the_ios_may_be_slow_or_the_mean_decides() {
    for (is_rotational, total, slow, ms, is_violated) in [
        (false, 100, 9, 10, false),
        (false, 100, 10, 10, true),
        (false, 100, 10, 9, false),
        (false, 5, 1, 10, true),
        (false, 5, 0, 10, false),
        (true, 100, 10, 99, false),
        (true, 100, 10, 100, false),
        (true, 100, 10, 101, true),
        (true, 5, 1, 49, false),
    ] {
        let mut bed = Bed::new(64, is_rotational);
        let guarded = bed.tenants.add(ROOT).unwrap();
        bed.target(guarded, 10);
        bed.window(guarded, 1_060, total, slow, ms);
        assert_eq!(bed.cookie() < UNTHROTTLED, is_violated, "{is_rotational} {total} {slow} {ms}");
    }
}

#[test]
fn windows_are_sixteen_targets() {
    for (ms, window) in [(1, 100), (6, 100), (10, 160), (50, 800), (75, 1_000)] {
        assert_eq!(
            LatencyWindow::new(Instant::ZERO, Some(Nanos::from_millis(ms))).length(),
            Nanos::from_millis(window)
        );
    }
}

#[test]
fn recovery_goes_by_sixteenths_and_ends_without_bound() {
    let (mut bed, guarded, other) = pair(64);
    for n in 1..=7 {
        bed.window(guarded, n * 500, 1, 1, 20);
        bed.touch(other);
    }
    assert_eq!(bed.throttling(other), (Some(1), 1));
    // Too few good samples have no effect.
    bed.window(guarded, 4_000, 4, 0, 0);
    assert_eq!(bed.cookie(), 999_918);
    let mut seen = Vec::new();
    for n in 0..40 {
        bed.window(guarded, 4_500 + n * 500, 5, 0, 0);
        let (depth, uses) = bed.touch(other);
        seen.push((bed.cookie(), depth, uses));
        if depth.is_none() {
            break;
        }
    }
    // The first step removes one delay, then each adds four I/Os; steps are single while the cookie
    // is more than 64 below.
    assert_eq!(seen[..3], [(999_919, Some(1), 0), (999_920, Some(5), 0), (999_921, Some(9), 0)]);
    assert_eq!(seen.last(), Some(&(999_935, None, 0)), "64 are no bound for a queue of 64");
    for n in 0..30 {
        bed.window(guarded, 30_000 + n * 500, 5, 0, 0);
    }
    assert_eq!(bed.cookie(), UNTHROTTLED);
    assert!(bed.release().is_empty());
}

#[test]
fn the_lowest_violated_target_decides() {
    let mut bed = Bed::new(64, false);
    let [low, middle, high, none] = [(); 4].map(|()| bed.tenants.add(ROOT).unwrap());
    for (tenant, ms) in [(low, 5), (middle, 10), (high, 20)] {
        bed.target(tenant, ms);
    }
    // All tenants do I/O; the middle target is violated.
    bed.window(high, 400, 50, 0, 0);
    bed.window(low, 450, 50, 0, 0);
    bed.window(middle, 500, 50, 50, 15);
    assert_eq!(bed.cookie(), 999_984);
    assert_eq!(
        [low, middle, high, none].map(|tenant| bed.touch(tenant).0),
        [None, None, None, Some(32)],
        "who was content while nothing was throttled is not counted yet"
    );
    // A higher target than the violated one does not scale; a lower one takes over.
    bed.window(high, 1_200, 20, 20, 50);
    assert_eq!(bed.cookie(), 999_984);
    bed.window(low, 1_300, 50, 50, 15);
    assert_eq!(bed.cookie(), 999_968);
    assert_eq!(
        [low, middle, high, none].map(|tenant| bed.touch(tenant).0),
        [None, Some(32), Some(32), Some(16)]
    );
    // The middle tenant recovers and is no longer the owner.
    bed.window(middle, 1_900, 50, 0, 0);
    assert_eq!(bed.cookie(), 999_968);
}

#[test]
fn who_does_little_is_not_the_cause() {
    let mut bed = Bed::new(64, false);
    let [guarded, small] = [(); 2].map(|()| bed.tenants.add(ROOT).unwrap());
    bed.target(guarded, 5);
    bed.target(small, 20);
    bed.window(small, 400, 5, 0, 0);
    bed.window(guarded, 500, 95, 95, 10);
    assert_eq!((bed.cookie(), bed.touch(small).0), (999_984, None), "5 of 100");
}

#[test]
fn a_quiet_claim_is_dropped_and_a_timer_recovers() {
    let (mut bed, guarded, other) = pair(64);
    bed.window(guarded, 500, 1, 1, 20);
    assert_eq!(bed.touch(other).0, Some(32));
    let mut changes = Vec::new();
    while let Some(at) = bed.latency.next_wakeup() {
        let before = bed.cookie();
        bed.now = at;
        bed.release();
        if bed.cookie() != before {
            changes.push((at.get() / MS, bed.cookie()));
        }
    }
    // The delay was caused at 500 ms and dropped at 5.5 s; then 4 per second.
    assert_eq!(changes, [(6_500, 999_988), (7_500, 999_992), (8_500, 999_996), (9_500, 1_000_000)]);
    assert_eq!(bed.touch(other).0, None);
}

#[test]
fn what_does_not_fit_waits_in_order_at_its_level() {
    let mut bed = Bed::new(4, false);
    let (guarded, parent) = (bed.tenants.add(ROOT).unwrap(), bed.tenants.add(ROOT).unwrap());
    let (left, right) = (bed.tenants.add(parent).unwrap(), bed.tenants.add(parent).unwrap());
    bed.target(guarded, 10);
    bed.window(guarded, 500, 1, 1, 20);
    // The parent's depth is 2, which its children share.
    assert_eq!(
        (bed.submit(left, false).1, bed.submit(right, false).1),
        (StageVerdict::Pass, StageVerdict::Pass)
    );
    assert_eq!(bed.throttling(parent).0, Some(2));
    let held: Vec<BioId> =
        [left, left, right].map(|tenant| bed.submit(tenant, false)).map(|io| io.0).to_vec();
    assert_eq!(bed.latency.held(), 3);
    assert_eq!(bed.submit(right, true).1, StageVerdict::Pass, "journal and metadata go at once");
    bed.now = Instant::new(510 * MS);
    bed.finish(left, Instant::new(500 * MS), false);
    assert!(bed.release().is_empty(), "three are in flight, the one that had to go among them");
    bed.now = Instant::new(520 * MS);
    bed.finish(right, Instant::new(500 * MS), false);
    assert_eq!(bed.release(), held[..1]);
    bed.now = Instant::new(530 * MS);
    bed.finish(left, Instant::new(520 * MS), false);
    bed.finish(right, Instant::new(500 * MS), true);
    assert_eq!(bed.release(), held[1..]);
    let cause = Cause::Latency { level: parent };
    let waits: Vec<_> = bed.breakdown.iter().collect();
    assert_eq!(
        waits,
        [(left, cause, Nanos::from_millis(50)), (right, cause, Nanos::from_millis(30))]
    );
}

#[test]
fn without_a_target_nothing_is_held() {
    let (mut bed, guarded, other) = pair(4);
    bed.window(guarded, 500, 1, 1, 20);
    bed.window(guarded, 1_000, 1, 1, 20);
    assert_eq!(bed.submit(other, false).1, StageVerdict::Pass);
    bed.submit(other, false);
    let (bio, verdict) = bed.submit(other, false);
    assert_eq!(verdict, StageVerdict::Sleep);
    bed.now = Instant::new(1_005 * MS);
    bed.latency.set(bed.now, &bed.tenants, guarded, None);
    assert!(bed.latency.is_enabled() && bed.latency.next_wakeup().is_some());
    assert_eq!(bed.release().last(), Some(&bio));
    assert!(!bed.latency.is_enabled());
    assert_eq!(bed.latency.next_wakeup(), None);
    // I/Os that were in flight before do not count when a target is set again.
    bed.now = Instant::new(1_006 * MS);
    bed.target(guarded, 10);
    bed.finish(other, Instant::new(1_000 * MS), false);
    assert_eq!(bed.submit(other, false).1, StageVerdict::Pass);
}

#[test]
fn delays_are_paid_from_a_pool_that_decays() {
    let mut pool = DelayPool::default();
    let at = |ms: u64| Instant::new(ms * MS);
    let ms = Nanos::from_millis;
    pool.add(at(1_000), ms(100));
    assert_eq!(pool.at(at(1_000)), Nanos::ZERO, "nobody is throttled that far");
    pool.add_use(at(1_000));
    pool.add_use(at(1_000));
    assert_eq!(pool.at(at(1_500)), ms(100));
    pool.add(at(1_500), ms(2_000));
    assert_eq!(pool.at(at(1_500)), ms(250), "at most so much at a time");
    // The pool was empty at the last decay, so it loses nothing; then it loses the second that has
    // passed.
    assert_eq!((pool.at(at(2_000)), pool.owed()), (ms(250), ms(2_100)));
    assert_eq!((pool.at(at(3_000)), pool.owed()), (ms(250), ms(1_100)));
    // While throttling is reduced, it loses at least half.
    assert!(pool.remove_use(at(3_000)));
    assert_eq!((pool.at(at(4_000)), pool.owed()), (ms(100), ms(100)));
    assert_eq!((pool.at(at(5_000)), pool.owed()), (Nanos::ZERO, Nanos::ZERO));
    assert!(pool.remove_use(at(5_000)) && !pool.remove_use(at(5_000)));
}

#[test]
fn ios_that_must_go_fill_the_pool_by_what_they_beat_the_target() {
    let mut bed = Bed::new(2, false);
    let [guarded, other] = [(); 2].map(|()| bed.tenants.add(ROOT).unwrap());
    let below = bed.tenants.add(other).unwrap();
    bed.target(guarded, 10);
    bed.target(other, 50);
    for n in 1..=3 {
        bed.window(guarded, 500 * n, 1, 1, 20);
        bed.window(other, 500 * n + 400, 50, 0, 0);
    }
    assert_eq!(bed.throttling(other), (Some(1), 1));
    let issued = bed.now;
    assert_eq!(bed.submit(other, true).1, StageVerdict::Pass);
    bed.now = bed.now + Nanos::from_millis(20);
    bed.finish(other, issued, true);
    assert_eq!(
        bed.latency.delay_of(bed.now, &bed.tenants, below),
        Nanos::from_millis(30),
        "of its level above"
    );
    assert_eq!(bed.latency.delay_of(bed.now, &bed.tenants, guarded), Nanos::ZERO);
}

/// Random trees, I/O, targets and removals: no I/O is lost or doubled, no I/O waits while its
/// tenant may have more in flight, the order at a level without children is kept, and the breakdown
/// contains each wait to the nanosecond.
#[test]
fn nothing_is_lost_or_doubled() {
    for seed in 0..60 {
        let mut rng = Rng(seed);
        let mut bed = Bed::new(1 + rng.below(32) as u32, rng.one_in(2));
        let mut living = alloc::vec![bed.tenants.add(ROOT).unwrap()];
        let mut held: BTreeMap<BioId, (TenantId, Instant)> = BTreeMap::new();
        let mut flying: Vec<(TenantId, Instant, bool)> = Vec::new();
        let mut waited: BTreeMap<TenantId, Nanos> = BTreeMap::new();
        let mut steps = 0;
        while steps < 1_500 || !flying.is_empty() || !held.is_empty() {
            steps += 1;
            assert!(steps < 20_000, "seed {seed}: something waits for ever");
            bed.now = bed.now + Nanos::new(rng.below(20 * MS));
            match rng.below(32) {
                0 if steps < 1_500 => {
                    let parent = if rng.one_in(2) { ROOT } else { rng.pick(&living) };
                    living.push(bed.tenants.add(parent).unwrap());
                }
                1 if steps < 1_500 => {
                    let tenant = rng.pick(&living);
                    if living.len() > 1 && bed.tenants.remove(tenant).is_ok() {
                        living.retain(|&other| other != tenant);
                        bed.latency.on_tenant_removed(bed.now, &bed.tenants, tenant);
                    }
                }
                2 => {
                    let tenant = rng.pick(&living);
                    let target = Some(Nanos::new(rng.below(4) * 20 * MS));
                    bed.latency.set(bed.now, &bed.tenants, tenant, target);
                }
                3..20 if steps < 1_500 => {
                    let (tenant, must_issue) = (rng.pick(&living), rng.one_in(20));
                    match bed.submit(tenant, must_issue) {
                        (_, StageVerdict::Pass) => flying.push((tenant, bed.now, must_issue)),
                        (bio, _) => {
                            assert!(!must_issue && held.insert(bio, (tenant, bed.now)).is_none());
                        }
                    }
                }
                _ if !flying.is_empty() => {
                    let (tenant, since, must) =
                        flying.swap_remove(rng.below(flying.len() as u64) as usize);
                    bed.finish(tenant, since, must);
                }
                _ => {}
            }
            if bed.latency.next_wakeup().is_some_and(|at| at <= bed.now) {
                for bio in bed.release() {
                    let (tenant, since) = held.remove(&bio).expect("released what it did not hold");
                    *waited.entry(tenant).or_default() += bed.now - since;
                    flying.push((tenant, bed.now, false));
                }
            }
            bed.check();
            assert_eq!(bed.latency.held(), held.len());
        }
        // Adds the remaining waits at lower levels.
        bed.release();
        let mut charged: BTreeMap<TenantId, Nanos> = BTreeMap::new();
        for (tenant, _, time) in bed.breakdown.iter() {
            *charged.entry(tenant).or_default() += time;
        }
        waited.retain(|_, time| !time.is_zero());
        assert_eq!(charged, waited, "seed {seed}");
    }
}
