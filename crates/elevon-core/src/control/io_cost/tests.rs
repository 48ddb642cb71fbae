mod qos;

extern crate alloc;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::hweight::stretch;
use super::*;
use crate::jiffies::Hz;
use crate::kernel::Kernel;
use crate::sched::testing::Rng;

const MS: u64 = 1_000_000;
/// The device of the worked examples: 4 KiB take 200 us sequential, 1 ms random.
const PLAIN: Coefficients = Coefficients {
    rbps: 40_960_000,
    rseqiops: 5_000,
    rrandiops: 1_000,
    wbps: 40_960_000,
    wseqiops: 5_000,
    wrandiops: 1_000,
};

struct Bed {
    cost: IoCost,
    tenants: Tenants,
    breakdown: WaitBreakdown,
    now: Instant,
    bios: u32,
    random_at: u64,
}

fn at(ns: u64) -> Instant {
    Instant::new(ns)
}

impl Bed {
    /// Creates the worked examples' device with periods of 50 ms; its speed is fixed unless the
    /// bounds differ.
    fn new(min: u32, max: u32) -> Self {
        let mut cost = IoCost::new(Preset::SsdDefault, &Kernel::V6_18.rules(), Hz(1000));
        cost.set_model(Instant::ZERO, PLAIN);
        cost.set_qos(Instant::ZERO, Qos { enable: true, min, max, ..Preset::SsdDefault.qos() })
            .unwrap();
        let bed = Self {
            cost,
            tenants: Tenants::new(),
            breakdown: WaitBreakdown::default(),
            now: Instant::ZERO,
            bios: 0,
            random_at: 0,
        };
        assert_eq!(bed.cost.qos.period(), Nanos::from_millis(50));
        bed
    }

    fn fixed() -> Self {
        Self::new(10_000, 10_000)
    }

    fn tenant(&mut self, parent: TenantId, weight: u16) -> TenantId {
        let tenant = self.tenants.add(parent).unwrap();
        self.cost.set_weight(self.now, &self.tenants, tenant, weight).unwrap();
        tenant
    }

    fn charge(&mut self, tenant: TenantId) -> BioCost {
        // A position far from the last one makes the I/O random.
        self.random_at += 1 << 20;
        BioCost { sector: Sector::new(self.random_at), ..BioCost::plain(tenant, Op::Read, 4096) }
    }

    /// Activates tenants with a full budget, of which nothing is used, and a cursor.
    fn activate(&mut self, tenants: &[TenantId]) {
        for &tenant in tenants {
            let slot = self.cost.slot(&self.tenants, tenant);
            self.cost.groups[slot as usize].cursor = Some(Sector::ZERO);
            assert!(self.cost.activate(self.now, slot));
        }
    }

    fn submit(&mut self, charge: &BioCost) -> (BioId, StageVerdict) {
        self.bios += 1;
        let bio = BioId(self.bios);
        let verdict = self.cost.admit(self.now, &self.tenants, bio, charge);
        self.cost.self_check(&self.tenants);
        (bio, verdict)
    }

    fn read(&mut self, tenant: TenantId) -> (BioId, StageVerdict) {
        let charge = self.charge(tenant);
        self.submit(&charge)
    }

    fn finish(&mut self, tenant: TenantId, allocated: Instant) {
        let io = Finished {
            tenant,
            op: Op::Read,
            bytes: 4096,
            must_issue: false,
            issued: allocated,
            allocated,
            end: self.now,
        };
        self.cost.on_finish(self.now, &self.tenants, &io);
    }

    fn release(&mut self) -> Vec<BioId> {
        let mut out = Vec::new();
        self.cost.release(self.now, &self.tenants, &mut self.breakdown, &mut out);
        self.cost.self_check(&self.tenants);
        out
    }

    /// Advances to the next event, or to `end`.
    fn step(&mut self, end: Instant) -> Vec<BioId> {
        self.now = self.cost.next_wakeup().unwrap_or(end).clamp(self.now, end);
        self.release()
    }

    /// Runs tenants that issue random reads back to back, each taking no time, until `end`. Returns
    /// the times at which each tenant's reads were released. `rest`: how long a tenant waits after
    /// each read.
    fn back_to_back(&mut self, tenants: &[TenantId], rest: &[u64], end: Instant) -> Vec<Vec<u64>> {
        let mut went = alloc::vec![Vec::new(); tenants.len()];
        let mut next: Vec<Option<Instant>> = alloc::vec![Some(self.now); tenants.len()];
        let mut owner = BTreeMap::new();
        loop {
            for index in 0..tenants.len() {
                while next[index].is_some_and(|at| at <= self.now) {
                    let (bio, verdict) = self.read(tenants[index]);
                    next[index] = None;
                    if verdict == StageVerdict::Pass {
                        went[index].push(self.now.get());
                        self.finish(tenants[index], self.now);
                        next[index] = Some(self.now + Nanos::new(rest[index]));
                    } else {
                        owner.insert(bio, index);
                    }
                }
            }
            if self.now >= end {
                return went;
            }
            let submits = next.iter().flatten().min().copied().unwrap_or(end);
            for bio in self.step(submits.min(end)) {
                // An I/O that an earlier run left waiting has no owner.
                let Some(index) = owner.remove(&bio) else { continue };
                went[index].push(self.now.get());
                self.finish(tenants[index], self.now);
                next[index] = Some(self.now + Nanos::new(rest[index]));
            }
        }
    }
}

fn share(bed: &mut Bed, tenant: TenantId) -> u64 {
    bed.cost.share_ppm(tenant).unwrap().1
}

#[test]
fn shares_are_products_over_the_active_levels() {
    let mut bed = Bed::fixed();
    let (a, b) = (bed.tenant(ROOT, 100), bed.tenant(ROOT, 300));
    let (a0, a1) = (bed.tenant(a, 100), bed.tenant(a, 100));
    bed.activate(&[a0, a1]);
    assert_eq!(
        (share(&mut bed, a0), share(&mut bed, a1), bed.cost.share_ppm(b)),
        (500_000, 500_000, None)
    );
    bed.activate(&[b]);
    assert_eq!(
        (share(&mut bed, a0), share(&mut bed, a1), share(&mut bed, b)),
        (125_000, 125_000, 750_000)
    );
    assert_eq!(stretch(10 * MS, 1 << 29), 80 * MS, "a 10 ms I/O costs A0 80 ms of its time");
    // An inner tenant is not controlled while a tenant below it is active.
    assert!((0..1000).all(|_| bed.read(a).1 == StageVerdict::Pass));
    // Removal and weights take effect at once.
    bed.cost.set_weight(bed.now, &bed.tenants, b, 100).unwrap();
    assert_eq!((share(&mut bed, a0), share(&mut bed, b)), (250_000, 500_000));
    bed.tenants.remove(a1).unwrap();
    bed.cost.on_tenant_removed(bed.now, &bed.tenants, a1);
    bed.cost.self_check(&bed.tenants);
    assert_eq!((share(&mut bed, a0), share(&mut bed, b)), (500_000, 500_000));
    assert_eq!(bed.cost.set_weight(bed.now, &bed.tenants, b, 0), Err(WeightError));
    assert_eq!(bed.cost.set_weight(bed.now, &bed.tenants, b, 10_001), Err(WeightError));
    assert_eq!(bed.cost.weight(b), 100);
}

#[test]
fn the_linear_model() {
    let model = Model::new(&PLAIN);
    let us = |n| Nanos::from_micros(n);
    for (bytes, sequential, random, merged) in [
        (4096, 200, 1000, 100),
        (65536, 1700, 2500, 1600),
        (512, 200, 1000, 100),
        (8191, 200, 1000, 100),
    ] {
        for is_write in [false, true] {
            assert_eq!(model.request(is_write, bytes, false), us(sequential));
            assert_eq!(model.request(is_write, bytes, true), us(random));
            assert_eq!(model.size(is_write, bytes), us(merged));
        }
    }
    let (here, mib) = (Some(Sector::new(1 << 20)), 2048);
    assert!(!model::is_random(None, Sector::new(1 << 30)), "the first of a tenant is not random");
    assert!(!model::is_random(here, Sector::new((1 << 20) + 16 * mib)));
    assert!(model::is_random(here, Sector::new((1 << 20) + 16 * mib + 1)));
    assert!(model::is_random(here, Sector::new((1 << 20) - 16 * mib - 1)));
}

#[test]
fn presets_cost_what_is_published() {
    // 4 KiB read sequential and random, 4 KiB write sequential and random, 1 MiB read sequential.
    let table = [
        (Preset::Hdd, [23_977, 2_702_703, 23_417, 2_645_503, 6_025_515], 500),
        (Preset::SsdQd1, [16_661, 143_968, 29_660, 37_319, 4_265_130], 50),
        (Preset::SsdDefault, [111_958, 117_399, 34_777, 45_579, 2_249_300], 50),
        (Preset::SsdFast, [1_380, 1_321, 2_351, 2_351, 338_200], 10),
    ];
    for (preset, costs, period) in table {
        let model = Model::new(&preset.coefficients());
        let ours = [
            model.request(false, 4096, false),
            model.request(false, 4096, true),
            model.request(true, 4096, false),
            model.request(true, 4096, true),
            model.request(false, 1 << 20, false),
        ];
        for (ours, published) in ours.into_iter().zip(costs) {
            assert!(
                ours.get().abs_diff(published) * 1000 <= published + 1000,
                "{preset:?}: {ours} against {published}"
            );
        }
        assert_eq!(preset.qos().period(), Nanos::from_millis(period));
    }
    let qos = Qos {
        rpct: 5_000,
        rlat: Nanos::from_millis(5),
        wlat: Nanos::from_millis(1),
        ..Preset::SsdFast.qos()
    };
    assert_eq!(qos.period(), Nanos::from_millis(50));
    assert_eq!(
        (
            Preset::from_rotational(true, 1),
            Preset::from_rotational(false, 1),
            Preset::from_rotational(false, 2)
        ),
        (Preset::Hdd, Preset::SsdQd1, Preset::SsdDefault)
    );
}

#[test]
fn bad_qualities_of_service_are_refused() {
    let mut cost = IoCost::new(Preset::Hdd, &Kernel::V6_18.rules(), Hz(1000));
    let good = Preset::Hdd.qos();
    assert_eq!(
        cost.set_qos(Instant::ZERO, Qos { rpct: 10_001, ..good }),
        Err(QosError::Percentile)
    );
    assert_eq!(
        cost.set_qos(Instant::ZERO, Qos { min: 20_000, max: 10_000, ..good }),
        Err(QosError::MinAboveMax)
    );
    assert_eq!(cost.set_qos(Instant::ZERO, Qos { min: 0, max: u32::MAX, ..good }), Ok(()));
    assert_eq!((cost.qos().min, cost.qos().max), (100, 1_000_000));
}

#[test]
fn one_to_three() {
    let mut bed = Bed::fixed();
    let (a, b) = (bed.tenant(ROOT, 100), bed.tenant(ROOT, 300));
    bed.activate(&[a, b]);
    let went = bed.back_to_back(&[a, b], &[0, 0], at(10_000 * MS));
    let begins = |of: &[u64], us: &[u64]| {
        let rounded: Vec<u64> = of[..us.len()].iter().map(|ns| (ns + 500) / 1000).collect();
        assert_eq!(rounded, us);
    };
    begins(&went[0], &[0, 0, 0, 0, 0, 0, 4_000, 8_000, 12_000, 16_000]);
    assert!(went[1][..18].iter().all(|&ns| ns == 0));
    begins(&went[1][18..], &[1_333, 2_667, 4_000, 5_333, 6_667]);
    // In the long run 250 and 750 a second.
    let after = |of: &[u64]| of.iter().filter(|&&ns| ns > 0).count();
    assert!(
        after(&went[0]).abs_diff(2500) <= 1 && after(&went[1]).abs_diff(7500) <= 1,
        "{}",
        after(&went[1])
    );
}

/// If every tenant is backlogged from the start, the k-th I/O is released at the time that exact
/// arithmetic gives, or up to two slacks later: its tenant's device time so far, divided by its
/// share, minus half a period.
#[test]
fn times_are_those_of_exact_fractions() {
    for seed in 0..40 {
        let mut rng = Rng(seed);
        let mut bed = Bed::fixed();
        let mut leaves: Vec<(TenantId, u128, u128)> = Vec::new();
        let tops: Vec<u16> = (0..1 + rng.below(4)).map(|_| 1 + rng.below(1000) as u16).collect();
        let sum = tops.iter().map(|&w| u128::from(w)).sum::<u128>();
        for &top in &tops {
            let tenant = bed.tenant(ROOT, top);
            let below: Vec<u16> = (0..rng.below(4)).map(|_| 1 + rng.below(1000) as u16).collect();
            let sum_below = below.iter().map(|&w| u128::from(w)).sum::<u128>();
            for &weight in &below {
                leaves.push((
                    bed.tenant(tenant, weight),
                    u128::from(top) * u128::from(weight),
                    sum * sum_below,
                ));
            }
            if below.is_empty() {
                leaves.push((tenant, u128::from(top), sum));
            }
        }
        let ids: Vec<TenantId> = leaves.iter().map(|leaf| leaf.0).collect();
        bed.activate(&ids);
        let went = bed.back_to_back(&ids, &alloc::vec![0; ids.len()], at(2_000 * MS));
        for (times, &(_, part, whole)) in went.iter().zip(&leaves) {
            for (k, &time) in times.iter().enumerate() {
                let due = (u128::from(k as u64 + 1) * u128::from(MS) * whole / part)
                    .saturating_sub(25 * u128::from(MS));
                // Shares are stored in units of 2^-32.
                let slack = 2 + k as u128 * 2 + (whole / part) * 64;
                let late = if due > 0 { u128::from(MS) } else { 0 };
                assert!(
                    (due.saturating_sub(slack)..=due + late + slack).contains(&u128::from(time)),
                    "seed {seed}, {k}: {time} against {due}"
                );
            }
        }
    }
}

#[test]
fn idle_tenants_do_not_count() {
    let mut bed = Bed::fixed();
    let (a, b) = (bed.tenant(ROOT, 100), bed.tenant(ROOT, 100));
    bed.activate(&[a, b]);
    let went = bed.back_to_back(&[a], &[0], at(1_000 * MS));
    // B is deactivated after one full period without I/O: from then on A has the whole device.
    let late = went[0].iter().filter(|&&ns| ns > 500 * MS).count();
    assert!(late.abs_diff(500) <= 2, "{late}");
    assert_eq!(bed.cost.share_ppm(b), None);
}

#[test]
fn a_tenant_that_needs_less_lends_and_takes_back() {
    let mut bed = Bed::fixed();
    let (a, b) = (bed.tenant(ROOT, 100), bed.tenant(ROOT, 100));
    bed.activate(&[a, b]);
    // A uses 1 ms of device time every 10 ms, which never waits.
    let went = bed.back_to_back(&[a, b], &[10 * MS, 0], at(2_000 * MS));
    let (a_share, b_share) = (share(&mut bed, a), share(&mut bed, b));
    assert!(
        a_share.abs_diff(100_000) < 20_000 && a_share + b_share <= 1_000_000 && b_share > 879_000,
        "{a_share}"
    );
    assert_eq!(went[0].len(), 201);
    let of_b = went[1].iter().filter(|&&ns| ns > 1_000 * MS).count();
    assert!(of_b.abs_diff(900) <= 9, "B has what A leaves: {of_b}");
    assert!(!bed.breakdown.iter().any(|(tenant, ..)| tenant == a), "A never waited");
    // A uses half of the device again, and gets it before the period ends.
    let from = bed.now.get();
    let went = bed.back_to_back(&[a, b], &[0, 0], at(from + 1_000 * MS));
    assert_eq!((share(&mut bed, a), share(&mut bed, b)), (500_000, 500_000));
    let of_a = went[0].iter().filter(|&&ns| ns > from + 200 * MS).count();
    assert!(of_a.abs_diff(400) <= 2, "{of_a}");
}

#[test]
fn the_lenders_share_is_usage_over_half_a_period_and_its_budget() {
    let mut bed = Bed::fixed();
    let (a, b) = (bed.tenant(ROOT, 100), bed.tenant(ROOT, 100));
    bed.activate(&[a, b]);
    let slot = bed.cost.slot(&bed.tenants, a) as usize;
    for _ in 0..5 {
        assert_eq!(bed.read(a).1, StageVerdict::Pass);
        bed.finish(a, bed.now);
    }
    assert_eq!((0..100).filter(|_| bed.read(b).1 == StageVerdict::Pass).count(), 12);
    bed.now = bed.cost.period_end.unwrap();
    assert_eq!(bed.now, at(51 * MS), "a timer of 50 jiffies of 1 ms");
    bed.release();
    // A used 5 ms of 51. Its budget, 25 - 10 + 51, was cut to half a period, so it may use 5/51.
    assert_eq!((share(&mut bed, a), share(&mut bed, b)), (98_039, 901_961));
    assert_eq!(bed.cost.clock.now(bed.now) - bed.cost.groups[slot].vtime, 25 * MS as i64);
    let (active, in_use) = bed.cost.shares.weights(slot as u32);
    assert_eq!(in_use * 1000 / active, 108, "10.8 of its weight of 100");
    // A's 41 ms of budget above the bound are, at half of the device, 20.5 ms of device time that
    // no tenant used; they are returned in the next 50 ms.
    let end = bed.cost.clock.when(bed.cost.clock.now(bed.now) + 70_500_000);
    assert!(end.get().abs_diff(101 * MS) < 100, "{end:?}");
}

#[test]
fn what_a_removed_tenant_used_is_not_its_parents() {
    let shares = [false, true].map(|is_removed| {
        let mut bed = Bed::fixed();
        let (a, b) = (bed.tenant(ROOT, 100), bed.tenant(ROOT, 100));
        let below = bed.tenant(a, 100);
        bed.activate(&[below]);
        for _ in 0..5 {
            assert_eq!(bed.read(below).1, StageVerdict::Pass);
            bed.finish(below, bed.now);
        }
        // It goes idle, and with it the stage.
        while let Some(end) = bed.cost.period_end {
            bed.now = end;
            bed.release();
        }
        bed.activate(&[a, b]);
        for _ in 0..5 {
            assert_eq!(bed.read(a).1, StageVerdict::Pass);
            bed.finish(a, bed.now);
        }
        (0..100).for_each(|_| _ = bed.read(b));
        if is_removed {
            bed.tenants.remove(below).unwrap();
            bed.cost.on_tenant_removed(bed.now, &bed.tenants, below);
        }
        bed.now = bed.cost.period_end.unwrap();
        bed.release();
        share(&mut bed, a)
    });
    assert!(shares[0] < 110_000, "{shares:?}: it lends what it does not use");
    assert_eq!(shares[0], shares[1]);
}

#[test]
fn removal_and_disabling_let_go_at_once() {
    for is_removal in [true, false] {
        let mut bed = Bed::fixed();
        let (a, b) = (bed.tenant(ROOT, 1), bed.tenant(ROOT, 10_000));
        bed.activate(&[a, b]);
        let held: Vec<BioId> = (0..5)
            .map(|_| bed.read(a))
            .filter(|io| io.1 == StageVerdict::Sleep)
            .map(|io| io.0)
            .collect();
        assert!(!held.is_empty());
        bed.now = at(7);
        if is_removal {
            bed.tenants.remove(a).unwrap();
            bed.cost.on_tenant_removed(bed.now, &bed.tenants, a);
        } else {
            bed.cost.set_qos(bed.now, Qos { enable: false, ..*bed.cost.qos() }).unwrap();
            assert!(bed.cost.is_enabled(), "what is due has to be fetched");
        }
        assert!(bed.cost.next_wakeup().is_some_and(|at| at <= bed.now));
        assert_eq!((bed.release(), bed.cost.held()), (held.clone(), 0));
        assert_eq!(
            bed.breakdown.iter().collect::<Vec<_>>(),
            [(a, Cause::Cost, Nanos::new(7 * held.len() as u64))]
        );
        assert_eq!(bed.cost.is_enabled(), is_removal);
    }
}

#[test]
fn the_root_and_what_has_no_cost_pass() {
    let mut bed = Bed::fixed();
    let (a, b) = (bed.tenant(ROOT, 1), bed.tenant(ROOT, 10_000));
    bed.activate(&[a, b]);
    assert!((0..100).all(|_| bed.read(ROOT).1 == StageVerdict::Pass));
    while bed.read(a).1 == StageVerdict::Pass {}
    for op in [Op::Discard, Op::Flush, Op::WriteZeroes] {
        let charge = BioCost { op, ..bed.charge(a) };
        assert_eq!(bed.submit(&charge).1, StageVerdict::Pass);
    }
    let flush = BioCost { op: Op::Write, bytes: 0, ..bed.charge(a) };
    assert_eq!(bed.submit(&flush).1, StageVerdict::Pass);
}

/// Random trees, I/O, merges, weights, removals and switches: no bio is lost or doubled, the order
/// within a tenant is kept, and the breakdown contains each wait to the nanosecond.
#[test]
fn nothing_is_lost_or_doubled() {
    for seed in 0..60 {
        let mut rng = Rng(seed);
        let mut bed = Bed::new(100, 1_000_000);
        let mut living = alloc::vec![bed.tenant(ROOT, 100)];
        let mut held: BTreeMap<BioId, (TenantId, Instant)> = BTreeMap::new();
        let mut flying: Vec<(TenantId, Instant)> = Vec::new();
        let mut waited: BTreeMap<TenantId, Nanos> = BTreeMap::new();
        for _ in 0..600 {
            match rng.below(24) {
                0 => {
                    let parent = if rng.one_in(2) { ROOT } else { rng.pick(&living) };
                    living.push(bed.tenant(parent, 1 + rng.below(10_000) as u16));
                }
                1 => {
                    let tenant = rng.pick(&living);
                    if living.len() > 1 && bed.tenants.remove(tenant).is_ok() {
                        living.retain(|&other| other != tenant);
                        bed.cost.on_tenant_removed(bed.now, &bed.tenants, tenant);
                    }
                }
                2 => {
                    let (tenant, weight) = (rng.pick(&living), 1 + rng.below(10_000) as u16);
                    bed.cost.set_weight(bed.now, &bed.tenants, tenant, weight).unwrap();
                }
                3 if rng.one_in(4) => {
                    let qos = Qos { enable: !bed.cost.qos.enable, ..*bed.cost.qos() };
                    bed.cost.set_qos(bed.now, qos).unwrap();
                }
                4 => bed.cost.on_alloc_wait(Nanos::new(rng.below(10 * MS))),
                5 => {
                    let charge =
                        BioCost { bytes: 4096 << rng.below(6), ..bed.charge(rng.pick(&living)) };
                    bed.cost.on_merge(bed.now, &bed.tenants, &charge);
                }
                6..14 => {
                    let must_issue = rng.one_in(10);
                    let charge = BioCost {
                        bytes: 4096 << rng.below(6),
                        must_issue,
                        ..bed.charge(rng.pick(&living))
                    };
                    match bed.submit(&charge) {
                        (_, StageVerdict::Pass) => flying.push((charge.tenant, bed.now)),
                        (bio, _) => {
                            assert!(
                                !must_issue && held.insert(bio, (charge.tenant, bed.now)).is_none()
                            );
                        }
                    }
                }
                14..18 if !flying.is_empty() => {
                    let (tenant, since) =
                        flying.swap_remove(rng.below(flying.len() as u64) as usize);
                    bed.finish(tenant, since);
                }
                _ => {
                    let most = bed.now + Nanos::new(rng.below(30 * MS));
                    for bio in bed.step(most) {
                        let (tenant, since) =
                            held.remove(&bio).expect("released what it did not hold");
                        let older = held.iter().find(|(other, of)| **other < bio && of.0 == tenant);
                        assert!(older.is_none(), "seed {seed}: out of order");
                        *waited.entry(tenant).or_default() += bed.now - since;
                        flying.push((tenant, bed.now));
                    }
                }
            }
            bed.cost.self_check(&bed.tenants);
            assert_eq!(bed.cost.held(), held.len());
        }
        // No bio waits forever.
        let end = bed.now + Nanos::from_secs(100_000);
        while !held.is_empty() {
            assert!(bed.now < end, "seed {seed}: something waits for ever");
            for bio in bed.step(end) {
                let (tenant, since) = held.remove(&bio).expect("released what it did not hold");
                *waited.entry(tenant).or_default() += bed.now - since;
            }
        }
        let mut charged: BTreeMap<TenantId, Nanos> = BTreeMap::new();
        for (tenant, _, time) in bed.breakdown.iter() {
            *charged.entry(tenant).or_default() += time;
        }
        waited.retain(|_, time| !time.is_zero());
        assert_eq!(charged, waited, "seed {seed}");
    }
}

/// Random mixes of greedy and modest tenants: the device's time is used whenever a tenant wants it,
/// and greedy tenants share it by their weights.
#[test]
fn shares_follow_weights_and_no_time_is_wasted() {
    for seed in 0..12 {
        let mut rng = Rng(seed);
        let mut bed = Bed::fixed();
        let greedy: Vec<u16> = (0..1 + rng.below(4)).map(|_| 50 + rng.below(500) as u16).collect();
        let modest = rng.below(4) as usize;
        let mut tenants: Vec<TenantId> =
            greedy.iter().map(|&weight| bed.tenant(ROOT, weight)).collect();
        tenants.extend((0..modest).map(|_| bed.tenant(ROOT, 1_000)));
        bed.activate(&tenants);
        let rest: Vec<u64> = (0..tenants.len())
            .map(|at| if at < greedy.len() { 0 } else { 15 * MS + rng.below(20 * MS) })
            .collect();
        let went = bed.back_to_back(&tenants, &rest, at(6_000 * MS));
        let served: Vec<u64> = went
            .iter()
            .map(|times| times.iter().filter(|&&ns| ns > 1_000 * MS).count() as u64)
            .collect();
        let total: u64 = served.iter().sum();
        assert!((4_900..5_250).contains(&total), "seed {seed}: {total} ms of 5000 used");
        let of_greedy: u64 = served[..greedy.len()].iter().sum();
        let weights: u64 = greedy.iter().map(|&weight| u64::from(weight)).sum();
        for (index, &weight) in greedy.iter().enumerate() {
            let due = of_greedy * u64::from(weight) / weights;
            assert!(
                served[index].abs_diff(due) * 50 <= due + 100,
                "seed {seed}: {served:?} by {greedy:?}"
            );
        }
        for index in greedy.len()..tenants.len() {
            let due = 5_000 * MS / rest[index];
            assert!(
                served[index].abs_diff(due) <= 1,
                "seed {seed}: a modest tenant waited: {served:?} {rest:?}"
            );
        }
    }
}

/// What no tenant can ever pay for is not free.
#[test]
fn a_cost_beyond_any_budget_is_never_paid() {
    for share in [1, 1 << 20, 1 << 31] {
        assert_eq!(virtual_cost(u64::MAX, share), i64::MAX, "at a share of {share}");
    }
    assert_eq!(virtual_cost(1 << 40, 1 << 20), 1 << 52);
    for (rbps, bytes) in [(1, 1 << 20), (1, 1 << 30), (1, 1 << 40), (1 << 10, 1 << 40)] {
        let mut bed = Bed::fixed();
        bed.cost.set_model(bed.now, Coefficients { rbps, ..PLAIN });
        let (a, b) = (bed.tenant(ROOT, 1), bed.tenant(ROOT, 10_000));
        bed.activate(&[a, b]);
        for _ in 0..4 {
            let charge = BioCost { bytes, ..bed.charge(a) };
            assert_ne!(
                bed.submit(&charge).1,
                StageVerdict::Pass,
                "{bytes} bytes at {rbps} bytes a second"
            );
        }
        bed.now = at(100_000 * MS);
        assert_eq!(
            bed.release(),
            [],
            "100 s are too short for {bytes} bytes at {rbps} bytes a second"
        );
    }
}
