use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::ioprio::{IoPrio, PrioClass};
use crate::op::Op;
use crate::sched::testing::Rng;

mod model;

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Nanos::from_millis(ms)
}

const fn leaky(rate: u64) -> Option<Limit> {
    Some(Limit { rate, policy: Policy::Leaky })
}

const fn token(rate: u64, bucket: u64) -> Option<Limit> {
    Some(Limit { rate, policy: Policy::Token { bucket } })
}

/// The stage with a tree, a breakdown, and bios numbered in order of arrival.
struct Bed {
    throttle: IoThrottle,
    tenants: Tenants,
    breakdown: WaitBreakdown,
    bios: u32,
}

impl Bed {
    fn new(config: Config) -> Self {
        Self {
            throttle: IoThrottle::new(config),
            tenants: Tenants::new(),
            breakdown: WaitBreakdown::default(),
            bios: 0,
        }
    }

    fn charge(tenant: TenantId, bytes: u64) -> BioCost {
        BioCost::plain(tenant, Op::Read, bytes)
    }

    fn add(&mut self) -> TenantId {
        self.tenants.add(ROOT).unwrap()
    }

    fn set(
        &mut self,
        now: Instant,
        tenant: TenantId,
        kind: LimitKind,
        limit: Option<Limit>,
    ) -> Result<Change, RuleError> {
        let change = self.throttle.set(now, &self.tenants, tenant, kind, limit);
        self.throttle.self_check(&self.tenants);
        change
    }

    fn admit(&mut self, now: Instant, charge: &BioCost) -> (BioId, StageVerdict) {
        let bio = BioId(self.bios);
        self.bios += 1;
        let verdict = self.throttle.admit(now, &self.tenants, bio, charge);
        self.throttle.self_check(&self.tenants);
        (bio, verdict)
    }

    fn release(&mut self, now: Instant) -> Vec<BioId> {
        let mut out = Vec::new();
        self.throttle.release(now, &self.tenants, &mut self.breakdown, &mut out);
        self.throttle.self_check(&self.tenants);
        out
    }

    /// Returns when a sync reader's bio that arrives at `now` is released.
    fn read(&mut self, now: Instant, tenant: TenantId, bytes: u64) -> Instant {
        let (bio, verdict) = self.admit(now, &Self::charge(tenant, bytes));
        if verdict == StageVerdict::Pass {
            return now;
        }
        let at = self.throttle.next_wakeup().unwrap();
        assert_eq!(self.release(at), [bio]);
        at
    }

    /// Returns when the reads of a sync reader, submitted one after the other, are released.
    fn read_all(
        &mut self,
        mut now: Instant,
        tenant: TenantId,
        bytes: u64,
        count: usize,
    ) -> Vec<u64> {
        let mut go = || {
            now = self.read(now, tenant, bytes);
            now.since(Instant::ZERO).as_millis()
        };
        (0..count).map(|_| go()).collect()
    }

    fn wait(&self, tenant: TenantId, cause: Cause) -> Nanos {
        self.breakdown
            .iter()
            .find(|&(t, c, _)| (t, c) == (tenant, cause))
            .map_or(Nanos::ZERO, |(_, _, time)| time)
    }
}

fn limited(config: Config, kind: LimitKind, limit: Option<Limit>) -> (Bed, TenantId) {
    let mut bed = Bed::new(config);
    let tenant = bed.add();
    assert_eq!(bed.set(Instant::ZERO, tenant, kind, limit), Ok(Change::Inserted));
    (bed, tenant)
}

const QUIRKS: Config = Config { counter: true, quirks: true, class_aware: false };

#[test]
fn leaky_bucket() {
    for (quirks, last) in [(true, 5000), (false, 5250)] {
        let config = Config { quirks, ..Config::default() };
        let (mut bed, t) = limited(config, LimitKind::Bandwidth, leaky(MIB));
        assert_eq!(bed.read_all(ms(100), t, 256 * KIB, 3), [250, 500, 750]);
        assert_eq!(bed.read_all(ms(5000), t, 256 * KIB, 2), [5000, last], "quirks {quirks}");
        assert_eq!(
            bed.wait(t, Cause::Limit { level: t, rule: Rule::Bandwidth }).as_millis(),
            650 + last - 5000
        );
    }
}

#[test]
fn token_bucket() {
    let (mut bed, t) = limited(Config::default(), LimitKind::Bandwidth, token(MIB, 4 * MIB));
    assert_eq!(bed.read_all(ms(0), t, MIB, 7), [0, 0, 0, 0, 1000, 2000, 3000]);
    // After a minute the bucket is full again, and not more than full.
    assert_eq!(bed.read_all(ms(63_000), t, MIB, 5), [63_000, 63_000, 63_000, 63_000, 64_000]);
    let (mut bed, t) = limited(QUIRKS, LimitKind::Bandwidth, token(MIB, 4 * MIB));
    assert_eq!(
        bed.read_all(ms(60_000), t, MIB, 6),
        [60_000, 60_000, 60_000, 60_000, 60_000, 61_000]
    );
}

#[test]
fn of_two_limiters_the_longer_sleep_counts() {
    let mut bed = Bed::new(Config::default());
    let t = bed.add();
    bed.set(ms(0), t, LimitKind::Bandwidth, leaky(4_096_000)).unwrap();
    bed.set(ms(0), t, LimitKind::Iops, leaky(20)).unwrap();
    assert_eq!(bed.read(ms(0), t, 122_880), ms(50));
    assert_eq!(bed.wait(t, Cause::Limit { level: t, rule: Rule::IopsMax }), Nanos::from_millis(50));
    assert_eq!(bed.wait(t, Cause::Limit { level: t, rule: Rule::Bandwidth }), Nanos::ZERO);
}

/// Two devices are two stages; the proposal's counter is their sum.
#[test]
fn the_counter_follows_the_rules() {
    let mut tenants = Tenants::new();
    let (g0, g1, g2) =
        (tenants.add(ROOT).unwrap(), tenants.add(ROOT).unwrap(), tenants.add(ROOT).unwrap());
    let (mut sda, mut sdb) =
        (IoThrottle::new(Config::default()), IoThrottle::new(Config::default()));
    let now = ms(0);
    let (bw, iops) = (LimitKind::Bandwidth, LimitKind::Iops);
    assert_eq!(sda.set(now, &tenants, g1, bw, leaky(MIB)), Ok(Change::Inserted));
    assert_eq!(sda.set(now, &tenants, g1, bw, leaky(2 * MIB)), Ok(Change::Replaced));
    assert_eq!(sda.set(now, &tenants, g1, iops, leaky(10)), Ok(Change::Replaced));
    assert_eq!((sda.live_rules(), sdb.live_rules()), (1, 0));
    assert_eq!(sdb.set(now, &tenants, g1, bw, token(MIB, 1)), Ok(Change::Inserted));
    assert_eq!(sda.set(now, &tenants, g2, iops, leaky(1)), Ok(Change::Inserted));
    assert_eq!((sda.live_rules(), sdb.live_rules()), (2, 1));
    assert_eq!(sda.set(now, &tenants, g1, bw, None), Ok(Change::Replaced));
    assert_eq!((sda.live_rules(), sdb.live_rules()), (2, 1));
    assert_eq!(sda.set(now, &tenants, g1, iops, None), Ok(Change::Deleted));
    assert_eq!(sda.set(now, &tenants, g1, iops, None), Ok(Change::Nothing));
    assert_eq!((sda.live_rules(), sdb.live_rules()), (1, 1));
    for (tenant, limit, error) in [
        (ROOT, leaky(1), RuleError::Root),
        (TenantId(9), leaky(1), RuleError::Unknown),
        (g0, leaky(0), RuleError::ZeroRate),
        (g0, token(1, 0), RuleError::ZeroBucket),
    ] {
        assert_eq!(sda.set(now, &tenants, tenant, bw, limit), Err(error));
    }
    assert_eq!((sda.live_rules(), sdb.live_rules()), (1, 1));
    for (group, left) in [(g1, (1, 0)), (g2, (0, 0))] {
        tenants.remove(group).unwrap();
        sda.on_tenant_removed(now, &tenants, group);
        sdb.on_tenant_removed(now, &tenants, group);
        assert_eq!((sda.live_rules(), sdb.live_rules()), left);
        assert_eq!(sda.set(now, &tenants, group, bw, leaky(1)), Err(RuleError::Unknown));
    }
    assert_eq!(sda.admit(now, &tenants, BioId(0), &Bed::charge(g0, 4096)), StageVerdict::Pass);
    assert_eq!(sda.work(), Work::default());
}

#[test]
fn lookups_by_mode() {
    let run = |counter, unrelated: bool| {
        let mut bed = Bed::new(Config { counter, ..Config::default() });
        let (t, other) = (bed.add(), bed.add());
        if unrelated {
            bed.set(ms(0), other, LimitKind::Bandwidth, leaky(1)).unwrap();
        }
        for i in 0..100 {
            assert_eq!(bed.admit(ms(i), &Bed::charge(t, 4096)).1, StageVerdict::Pass);
        }
        let Work { lookups, ios, bytes } = bed.throttle.work();
        assert_eq!((lookups, bytes), (ios, ios * 4096));
        lookups
    };
    assert_eq!((run(false, false), run(true, false), run(true, true)), (100, 0, 100));
}

/// Runs two readers of one tenant, each with one read at a time, on a device that takes no time.
/// Returns when each finishes, in ms.
fn two_readers(class_aware: bool) -> [u64; 2] {
    let (mut bed, t) =
        limited(Config { class_aware, ..Config::default() }, LimitKind::Bandwidth, leaky(8 * MIB));
    let mut left = [234_179_072u64; 2];
    let mut ends = [ms(0); 2];
    let mut waiting = BTreeMap::new();
    let mut ready = vec![0, 1];
    let mut now = ms(0);
    while left != [0, 0] || !waiting.is_empty() {
        while let Some(who) = ready.pop() {
            while left[who] > 0 {
                let bytes = left[who].min(128 * KIB);
                left[who] -= bytes;
                let ioprio = [IoPrio::new(PrioClass::Rt, 0), IoPrio::new(PrioClass::Be, 7)][who];
                let (bio, verdict) = bed.admit(now, &BioCost { ioprio, ..Bed::charge(t, bytes) });
                if verdict == StageVerdict::Sleep {
                    waiting.insert(bio, who);
                    break;
                }
            }
        }
        let Some(at) = bed.throttle.next_wakeup() else { break };
        now = at;
        for bio in bed.release(now) {
            let who = waiting.remove(&bio).unwrap();
            ends[who] = now;
            ready.push(who);
        }
    }
    let total: u64 = bed.breakdown.iter().map(|(_, _, time)| time.get()).sum();
    assert_eq!(total, ends.iter().map(|end| end.get()).sum::<u64>(), "they did nothing but wait");
    ends.map(|end| end.since(Instant::ZERO).as_millis())
}

#[test]
fn a_fifo_puts_rt_behind_be_and_queues_by_class_do_not() {
    let alone = 234_179_072 * 1000 / (8 * MIB);
    let [rt, be] = two_readers(false);
    assert!(2 * alone - rt < 20 && 2 * alone - be < 20, "FIFO: RT {rt} BE {be}");
    let [rt, be] = two_readers(true);
    assert!(rt.abs_diff(alone) < 20 && 2 * alone - be < 20, "by class: RT {rt} BE {be}");
    assert_eq!((alone, 2 * alone), (27_916, 55_832));
}

#[test]
fn waiting_bios_follow_a_change_and_go_at_once_when_the_rule_is_deleted() {
    // Half of the units that the bio needs are available when the rate doubles.
    let (mut bed, t) = limited(Config::default(), LimitKind::Bandwidth, leaky(MIB));
    let charge = BioCost { may_sleep: false, ..Bed::charge(t, MIB) };
    for _ in 0..2 {
        assert_eq!(bed.admit(ms(0), &charge).1, StageVerdict::Hold);
    }
    bed.set(ms(500), t, LimitKind::Bandwidth, leaky(2 * MIB)).unwrap();
    assert_eq!(bed.throttle.next_wakeup(), Some(ms(750)));
    assert_eq!(bed.release(ms(750)), [BioId(0)]);
    assert_eq!(bed.throttle.next_wakeup(), Some(ms(1250)));
    // Setting the same limit again has no effect.
    bed.set(ms(1000), t, LimitKind::Bandwidth, leaky(2 * MIB)).unwrap();
    assert_eq!(bed.throttle.next_wakeup(), Some(ms(1250)));
    // A stricter iops limit takes effect, and is removed.
    bed.set(ms(1000), t, LimitKind::Iops, leaky(1)).unwrap();
    assert_eq!(bed.throttle.next_wakeup(), Some(ms(2000)));
    bed.set(ms(1100), t, LimitKind::Iops, None).unwrap();
    assert_eq!(bed.throttle.next_wakeup(), Some(ms(1250)));
    assert_eq!(bed.set(ms(1100), t, LimitKind::Bandwidth, None), Ok(Change::Deleted));
    assert_eq!((bed.throttle.held(), bed.throttle.live_rules()), (1, 0));
    assert!(bed.throttle.next_wakeup().unwrap() <= ms(1100));
    // The counter is 0: new bios pass, and held bios are still released.
    assert_eq!(bed.admit(ms(1100), &charge).1, StageVerdict::Pass);
    assert_eq!(bed.release(ms(1100)), [BioId(1)]);
    assert_eq!((bed.throttle.held(), bed.throttle.next_wakeup()), (0, None));
    let wait = |cause| bed.wait(t, cause).as_millis();
    let limit = |rule| Cause::Limit { level: t, rule };
    assert_eq!(
        wait(limit(Rule::Bandwidth)),
        750 + 750 + 250,
        "the second waits behind the first for the same rule"
    );
    assert_eq!(wait(limit(Rule::IopsMax)), 100);
}

#[test]
fn a_removed_tenant_leaves_nothing_behind() {
    let (mut bed, t) = limited(Config::default(), LimitKind::Iops, leaky(1));
    for _ in 0..3 {
        bed.admit(ms(0), &Bed::charge(t, 4096));
    }
    bed.tenants.remove(t).unwrap();
    bed.throttle.on_tenant_removed(ms(10), &bed.tenants, t);
    bed.throttle.self_check(&bed.tenants);
    assert_eq!(bed.release(ms(10)), [BioId(0), BioId(1), BioId(2)]);
    assert_eq!(bed.wait(t, Cause::Limit { level: t, rule: Rule::IopsMax }), Nanos::from_millis(30));
    assert_eq!(bed.throttle.live_rules(), 0);
}

#[test]
fn must_issue_overtakes_its_own_tenants_queue_and_leaves_a_debt() {
    let (mut bed, t) = limited(Config::default(), LimitKind::Bandwidth, leaky(MIB));
    let charge = Bed::charge(t, MIB);
    assert_eq!(bed.admit(ms(0), &charge).1, StageVerdict::Sleep);
    let journal = BioCost { must_issue: true, ..charge };
    assert_eq!(bed.admit(ms(250), &journal).1, StageVerdict::Pass);
    assert_eq!(bed.throttle.next_wakeup(), Some(ms(2000)));
    // The proposal makes the journal wait.
    let (mut bed, t) = limited(QUIRKS, LimitKind::Bandwidth, leaky(MIB));
    assert_eq!(
        bed.admit(ms(1), &BioCost { must_issue: true, ..Bed::charge(t, MIB) }).1,
        StageVerdict::Sleep
    );
}

#[test]
fn what_a_split_left_over_is_an_io_without_bytes_and_a_flush_is_nothing() {
    let (mut bed, t) = limited(Config::default(), LimitKind::Bandwidth, leaky(MIB));
    bed.set(ms(0), t, LimitKind::Iops, leaky(10)).unwrap();
    let rest = BioCost { first: false, ..Bed::charge(t, 64 * MIB) };
    assert_eq!(bed.admit(ms(1000), &rest).1, StageVerdict::Pass);
    assert_eq!(bed.admit(ms(1000), &Bed::charge(t, 0)).1, StageVerdict::Pass);
    assert_eq!(bed.admit(ms(1000), &rest).1, StageVerdict::Sleep);
    assert_eq!(bed.throttle.next_wakeup(), Some(ms(1100)));
}

/// At rates at which the cost of a bio is not a whole number of nanoseconds, rounding loses
/// nothing, and a late call costs nothing.
#[test]
fn the_rate_is_exact() {
    for (limit, late) in
        [(leaky(3_000_000_000), 0), (token(3_000_000_000, 4096), 0), (leaky(3_000_000_000), 700)]
    {
        let (mut bed, t) = limited(Config::default(), LimitKind::Bandwidth, limit);
        for _ in 0..10_000 {
            bed.admit(ms(0), &Bed::charge(t, 4096));
        }
        let mut now = ms(0);
        while let Some(at) = bed.throttle.next_wakeup() {
            now = at + Nanos::new(late);
            bed.release(now);
        }
        let burst = if limit == leaky(3_000_000_000) { 0 } else { 1 };
        let ideal = (10_000 - burst) * 4096 / 3;
        assert!(
            now.get() >= ideal && now.get() <= ideal + late + 1,
            "{limit:?} {late}: {now:?}, not {ideal}"
        );
    }
}

#[test]
fn rates_and_sizes_at_the_ends_of_their_range_do_not_overflow() {
    for rate in [1, u64::MAX] {
        for limit in [leaky(rate), token(rate, 1), token(rate, u64::MAX)] {
            let (mut bed, t) = limited(Config::default(), LimitKind::Bandwidth, limit);
            for bytes in [1, 1 << 40, u64::MAX >> 1] {
                bed.admit(Instant::new(u64::MAX - (1 << 40)), &Bed::charge(t, bytes));
            }
            bed.release(Instant::MAX);
            assert_eq!(bed.throttle.limit(t, LimitKind::Bandwidth), limit);
        }
    }
}

/// Returns (arrived, bytes, released) for one tenant's bios of random sizes at random times.
fn random_traffic(config: Config, limit: Option<Limit>, seed: u64) -> Vec<(Instant, u64, Instant)> {
    let mut rng = Rng(seed);
    let (mut bed, t) = limited(config, LimitKind::Bandwidth, limit);
    let mut traffic: Vec<(Instant, u64, Instant)> = Vec::new();
    let mut now = ms(0);
    loop {
        let arrival = now + Nanos::new(rng.below(4) * rng.below(60_000_000));
        while let Some(at) = bed.throttle.next_wakeup()
            && (at <= arrival || traffic.len() >= 400)
        {
            for bio in bed.release(at) {
                traffic[bio.0 as usize].2 = at;
            }
        }
        if traffic.len() >= 400 {
            return traffic;
        }
        now = arrival;
        let bytes = 512 * (1 + rng.below(128));
        let (_, verdict) = bed.admit(now, &BioCost { may_sleep: false, ..Bed::charge(t, bytes) });
        traffic.push((now, bytes, if verdict == StageVerdict::Pass { now } else { Instant::MAX }));
    }
}

/// The proposal computes the sleep when a bio arrives, and has already charged the bio then.
#[test]
fn with_quirks_everything_goes_when_the_seed_would_have_it() {
    for seed in 0..20 {
        let rate = 700_001;
        let (mut used, mut start) = (0u128, ms(0));
        for (came, bytes, went) in random_traffic(QUIRKS, leaky(rate), seed) {
            used += u128::from(bytes);
            let (age, due) =
                (came.since(start).get(), (used * 1_000_000_000).div_ceil(u128::from(rate)) as u64);
            let sleep = if age == 0 { 0 } else { due.saturating_sub(age) };
            if age > 0 && due <= age {
                (used, start) = (0, came);
            }
            assert!(
                went.since(came).get().abs_diff(sleep) <= 1,
                "leaky: {came:?} {went:?}, not after {sleep}"
            );
        }
        let (capacity, mut tokens, mut stamp) =
            (100_000 * 1_000_000_000i128, 100_000 * 1_000_000_000i128, ms(0));
        for (came, bytes, went) in random_traffic(QUIRKS, token(rate, 100_000), seed) {
            tokens -= i128::from(bytes) * 1_000_000_000;
            tokens =
                (tokens + i128::from(came.since(stamp).get()) * i128::from(rate)).min(capacity);
            stamp = came;
            let sleep = ((-tokens).max(0) as u128).div_ceil(u128::from(rate)) as u64;
            assert!(
                went.since(came).get().abs_diff(sleep) <= 1,
                "token: {came:?} {went:?}, not after {sleep}"
            );
        }
    }
}

#[test]
fn in_no_window_does_more_go_than_the_rate_and_one_burst() {
    for seed in 0..10 {
        for (limit, capacity) in
            [(leaky(900_000), 0), (token(900_000, 30_000), 30_000), (token(900_000, MIB), MIB)]
        {
            let traffic = random_traffic(Config::default(), limit, seed);
            for (first, &(_, _, from)) in traffic.iter().enumerate() {
                let (mut bytes, mut largest) = (0u128, 0);
                for &(_, length, to) in &traffic[first..] {
                    bytes += u128::from(length);
                    largest = length.max(largest);
                    let burst = u128::from(largest.max(capacity)) * 1_000_000_000;
                    let most = u128::from(to.since(from).get() + 1) * 900_000 + burst;
                    assert!(
                        bytes * 1_000_000_000 <= most,
                        "{limit:?}: {bytes} bytes from {from:?} to {to:?}"
                    );
                }
            }
        }
    }
}
