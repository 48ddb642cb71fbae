//! Compares the stage with its rule (rate, burst, one I/O) level by level and in every window, also
//! if the clock calls late and lost time is made up for.

extern crate std;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::ioprio::{IoPrio, PrioClass};
use crate::op::Op;
use crate::tenant::ROOT;
use crate::units::Nanos;

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;

struct Rig {
    stage: Exact,
    tenants: Tenants,
    now: Instant,
    breakdown: WaitBreakdown,
    charges: Vec<(Instant, BioCost)>,
    went: Vec<Option<Instant>>,
    order: Vec<u32>,
}

impl Rig {
    fn new() -> Self {
        Self {
            stage: Exact::new(),
            tenants: Tenants::new(),
            now: Instant::new(5_000_000_000),
            breakdown: WaitBreakdown::default(),
            charges: vec![],
            went: vec![],
            order: vec![],
        }
    }

    fn tenant(&mut self, parent: TenantId, limits: Limits) -> TenantId {
        let tenant = self.tenants.add(parent).unwrap();
        self.stage.set(self.now, &self.tenants, tenant, limits);
        tenant
    }

    fn change_turns(&mut self, tenant: TenantId, weight: u16, iops: u64) {
        self.stage.set_weight(tenant, weight);
        self.stage.set_reserve(self.now, &self.tenants, tenant, Reserve { iops, bps: iops / 2 * KIB });
    }

    fn submit(&mut self, charge: BioCost) -> u32 {
        let id = self.submit_unchecked(charge);
        self.stage.self_check(&self.tenants);
        id
    }

    fn submit_unchecked(&mut self, charge: BioCost) -> u32 {
        let id = self.went.len() as u32;
        let passed = self.stage.admit(self.now, &self.tenants, BioId(id), &charge) == StageVerdict::Pass;
        self.charges.push((self.now, charge));
        self.went.push(passed.then_some(self.now));
        if passed {
            self.order.push(id);
        }
        id
    }

    fn release(&mut self) {
        let mut out = vec![];
        self.stage.release(self.now, &self.tenants, &mut self.breakdown, &mut out);
        self.stage.self_check(&self.tenants);
        for bio in out {
            assert!(self.went[bio.index()].replace(self.now).is_none(), "a bio goes once");
            self.order.push(bio.0);
        }
    }

    /// Takes back every fifth of the bios that wait.
    fn withdraw(&mut self, fifth: u64) {
        let (mut out, is_chosen) = (vec![], |bio: BioId| u64::from(bio.0) % 5 == fifth);
        self.stage.withdraw(self.now, &self.tenants, &is_chosen, &mut self.breakdown, &mut out);
        self.stage.self_check(&self.tenants);
        for bio in out {
            assert!(is_chosen(bio) && self.went[bio.index()].replace(self.now).is_none(), "a bio that waited");
        }
    }

    fn drain(&mut self) {
        while self.stage.held() > 0 {
            self.now = self.stage.next_wakeup().expect("something waits").max(self.now);
            self.release();
        }
    }

    /// Submits bios that are split into `parts` fragments each. As the stack does, the remainder is
    /// submitted as soon as the fragment before it was released. Returns when each fragment of each
    /// bio was released, in µs since now.
    fn split(&mut self, bios: &[BioCost], parts: usize) -> Vec<Vec<u64>> {
        let start = self.now;
        let mut of: Vec<Vec<u32>> = bios.iter().map(|&bio| vec![self.submit(bio)]).collect();
        loop {
            for (bio, fragments) in bios.iter().zip(&mut of) {
                while fragments.len() < parts && self.went[fragments[fragments.len() - 1] as usize].is_some() {
                    fragments.push(self.submit(BioCost { first: false, ..*bio }));
                }
            }
            if self.stage.held() == 0 {
                break;
            }
            self.now = self.stage.next_wakeup().expect("something waits").max(self.now);
            self.release();
        }
        let micros = |&id: &u32| self.went[id as usize].expect("all went").since(start).get() / 1000;
        of.iter().map(|fragments| fragments.iter().map(micros).collect()).collect()
    }

    /// Advances time to `until`. Every bio that is due before is released when it is due.
    fn advance_timely(&mut self, until: Instant) {
        while let Some(at) = self.stage.next_wakeup().filter(|&at| at <= until) {
            self.now = at.max(self.now);
            self.release();
        }
        self.now = until;
    }

    /// Returns when each bio was released, in µs since `start`.
    fn micros(&self, start: Instant) -> Vec<u64> {
        self.went.iter().map(|at| at.expect("all went").since(start).get() / 1000).collect()
    }
}

fn bps(rbps: u64) -> Limits {
    Limits { bps: [rbps, UNLIMITED], ..Limits::default() }
}

#[test]
fn exact_times() {
    for (burst, expected) in
        [(0, vec![0, 62_500, 125_000, 187_500, 250_000]), (256 * KIB, vec![0, 0, 0, 0, 0, 62_500, 125_000, 187_500])]
    {
        let mut rig = Rig::new();
        let tenant = rig.tenant(ROOT, Limits { burst_bytes: burst, ..bps(MIB) });
        let start = rig.now;
        for _ in &expected {
            rig.submit(BioCost::plain(tenant, Op::Read, 64 * KIB));
        }
        rig.drain();
        assert_eq!(rig.micros(start), expected, "burst {burst}");
    }
    let mut rig = Rig::new();
    let tenant = rig.tenant(ROOT, bps(MIB));
    let start = rig.now;
    for bytes in [4 * KIB, MIB, 4 * KIB] {
        rig.submit(BioCost::plain(tenant, Op::Read, bytes));
    }
    rig.drain();
    assert_eq!(rig.micros(start), [0, 3906, 1_003_906], "an I/O pays when it has gone, the next waits");
}

#[test]
fn what_remains_of_a_split_bio_does_not_wait_for_bytes() {
    let run = |limits: Limits, sizes: &[u64], parts: usize| {
        let mut rig = Rig::new();
        let tenant = rig.tenant(ROOT, limits);
        let bios: Vec<BioCost> = sizes.iter().map(|&bytes| BioCost::plain(tenant, Op::Read, bytes)).collect();
        rig.split(&bios, parts)
    };
    // The examples of `exact_times`, with each bio in fragments.
    assert_eq!(run(bps(MIB), &[4 * KIB, MIB, 4 * KIB], 2), [vec![0; 2], vec![3906; 2], vec![1_003_906; 2]]);
    let burst = Limits { burst_bytes: MIB, ..bps(MIB) };
    let expected = [0, 0, 1_000_000, 2_000_000].map(|at| vec![at; 4]);
    assert_eq!(run(burst, &[MIB; 4], 4), expected, "a burst is as many bios as if they were whole");
    // Each fragment is an I/O, and a bio that has begun goes before the next one.
    let both = Limits { iops: [4, UNLIMITED], ..bps(MIB) };
    let (first, second) = (vec![0, 250_000, 500_000, 750_000], vec![1_000_000, 1_250_000, 1_500_000, 1_750_000]);
    assert_eq!(run(both, &[MIB; 2], 4), [first, second]);
}

#[test]
fn the_remainders_of_a_tenant_go_before_the_bios_of_its_siblings() {
    let mut rig = Rig::new();
    let parent = rig.tenant(ROOT, Limits { iops: [4, UNLIMITED], ..bps(MIB) });
    let [a, b] = [0; 2].map(|_| rig.tenant(parent, Limits::default()));
    let read = |tenant| BioCost::plain(tenant, Op::Read, 64 * KIB);
    let times = rig.split(&[read(a), read(b), read(a)], 2);
    assert_eq!(times, [vec![0, 250_000], vec![500_000, 750_000], vec![1_000_000, 1_250_000]]);
}

#[test]
fn rt_does_not_wait_behind_be_nor_reads_behind_writes() {
    let mut rig = Rig::new();
    let both = Limits { bps: [MIB, MIB], ..Limits::default() };
    let tenant = rig.tenant(ROOT, both);
    let be = BioCost::plain(tenant, Op::Read, 64 * KIB);
    let rt = BioCost { ioprio: IoPrio::new(PrioClass::Rt, 0), ..be };
    let all = [be, be, be, rt, rt, BioCost { op: Op::Write, ..be }].map(|charge| rig.submit(charge));
    rig.drain();
    assert_eq!(rig.order, [all[0], all[5], all[3], all[4], all[1], all[2]]);
}

/// A tenant's class is strict, but what of lower classes waits gets one I/O every 250 ms.
#[test]
fn a_lower_class_waits_for_its_patience_at_most() {
    for limits in
        [Limits { iops: [100, UNLIMITED], ..Limits::default() }, Limits { total_iops: 100, ..Limits::default() }]
    {
        for op in [Op::Read, Op::Write] {
            let mut rig = Rig::new();
            let tenant = rig.tenant(ROOT, limits);
            let rt = BioCost { ioprio: IoPrio::new(PrioClass::Rt, 0), ..BioCost::plain(tenant, Op::Read, KIB) };
            let be = BioCost::plain(tenant, op, KIB);
            let start = rig.now;
            let of_rt: Vec<u32> = (0..1000).map(|_| rig.submit_unchecked(rt)).collect();
            let of_be = (0..2).map(|_| rig.submit_unchecked(be)).collect::<Vec<u32>>();
            rig.advance_timely(start + Nanos::from_secs(1));
            let millis = |id: u32| rig.went[id as usize].map(|at| at.since(start).get() / 1_000_000);
            let expected = match (limits.counts_both(), op) {
                (false, Op::Write) => [Some(0); 2],
                _ => [Some(250), Some(500)],
            };
            assert_eq!([millis(of_be[0]), millis(of_be[1])], expected, "{op:?}");
            assert_eq!(millis(of_rt[20]), Some(200));
        }
    }
}

#[test]
fn each_level_and_rule_is_charged_what_it_held() {
    let mut rig = Rig::new();
    let riops = |rate| Limits { iops: [rate, UNLIMITED], ..Limits::default() };
    let parent = rig.tenant(ROOT, riops(2));
    let (slow, other) = (rig.tenant(parent, riops(1)), rig.tenant(parent, Limits::default()));
    let start = rig.now;
    rig.submit(BioCost::plain(slow, Op::Read, KIB));
    rig.submit(BioCost::plain(slow, Op::Read, KIB));
    rig.now = start + Nanos::from_millis(900);
    rig.submit(BioCost::plain(other, Op::Read, KIB));
    rig.drain();
    assert_eq!(rig.micros(start), [0, 1_400_000, 900_000]);
    let rows: Vec<(Cause, Nanos)> = rig.breakdown.of(slow).iter().map(|&(cause, wait)| (cause, wait.time)).collect();
    let limit = |level| Cause::Limit { level, rule: Rule::ReadIops };
    assert_eq!(rows, [(limit(parent), Nanos::from_millis(400)), (limit(slow), Nanos::from_millis(1000))]);
}

#[test]
fn a_rule_that_goes_lets_what_it_held_go_first() {
    let mut rig = Rig::new();
    let tenant = rig.tenant(ROOT, bps(MIB));
    let all: Vec<u32> = (0..3).map(|_| rig.submit(BioCost::plain(tenant, Op::Read, MIB))).collect();
    rig.stage.set(rig.now, &rig.tenants, tenant, Limits::default());
    let late = rig.submit(BioCost::plain(tenant, Op::Read, MIB));
    let start = rig.now;
    rig.drain();
    assert_eq!((rig.now, &rig.order[..3], rig.order[3]), (start, &all[..], late));
}

#[test]
fn journal_goes_at_once_and_is_owed() {
    let mut rig = Rig::new();
    let tenant = rig.tenant(ROOT, bps(MIB));
    let start = rig.now;
    let journal = BioCost { must_issue: true, ..BioCost::plain(tenant, Op::Read, 512 * KIB) };
    rig.submit(journal);
    rig.submit(journal);
    rig.submit(BioCost::plain(tenant, Op::Read, 4 * KIB));
    rig.drain();
    assert_eq!(rig.micros(start), [0, 0, 1_000_000]);
}

#[test]
fn a_limit_for_both_directions_and_a_parents() {
    let mut rig = Rig::new();
    let parent = rig.tenant(ROOT, Limits { total_iops: 100, ..Limits::default() });
    let children = [0; 3].map(|_| rig.tenant(parent, Limits::default()));
    let start = rig.now;
    for _ in 0..10 {
        for child in children {
            for op in [Op::Read, Op::Write] {
                rig.submit(BioCost::plain(child, op, KIB));
            }
        }
    }
    rig.drain();
    assert_eq!(rig.now.since(start), Nanos::from_millis(590), "60 I/Os at 100 a second, the first at once");
    // Children take turns: among the first 30 every child has ten, plus or minus one.
    for child in children {
        let early = rig.order[..30].iter().filter(|&&bio| rig.charges[bio as usize].1.tenant == child).count();
        assert!((9..=11).contains(&early), "{child:?}: {early} of the first 30");
    }
}

/// Lets tenants with so much waiting, each its I/O size, share a parent's limit; returns the bytes
/// that each got of the first `seconds`.
fn shared(rig: &mut Rig, tenants: &[(TenantId, u64)], seconds: u64) -> Vec<u64> {
    let start = rig.now;
    for _ in 0..2000 {
        for &(tenant, bytes) in tenants {
            rig.submit_unchecked(BioCost::plain(tenant, Op::Read, bytes));
        }
    }
    rig.advance_timely(start + Nanos::from_secs(seconds));
    let of =
        |tenant| rig.charges.iter().zip(&rig.went).filter(move |((_, c), went)| c.tenant == tenant && went.is_some());
    tenants.iter().map(|&(tenant, _)| of(tenant).map(|((_, charge), _)| charge.bytes).sum()).collect()
}

/// Ten seconds of 100 I/Os or of 1 MiB a second, by weights 200 (900 and 100 below it), 300 and
/// 500. Nobody is behind by more than an I/O of its own and two of the largest.
#[test]
fn who_waits_for_a_parents_limit_shares_it_by_weight() {
    let ios = Limits { iops: [100, UNLIMITED], ..Limits::default() };
    let mixed = [4 * KIB, 64 * KIB, 32 * KIB, 16 * KIB];
    for (limits, total, sizes) in [(ios, 1001 * KIB, [KIB; 4]), (bps(MIB), 10 * MIB, mixed)] {
        let mut rig = Rig::new();
        let parent = rig.tenant(ROOT, limits);
        let [group, c, d] = [0; 3].map(|_| rig.tenant(parent, Limits::default()));
        let [a, b] = [0; 2].map(|_| rig.tenant(group, Limits::default()));
        for (tenant, weight) in [(group, 200), (c, 300), (d, 500), (a, 900), (b, 100)] {
            rig.stage.set_weight(tenant, weight);
        }
        let all = [(a, sizes[0]), (b, sizes[1]), (c, sizes[2]), (d, sizes[3])];
        let got = shared(&mut rig, &all, 10);
        for ((&got, share), size) in got.iter().zip([180, 20, 300, 500]).zip(sizes) {
            let (due, slack) = (total * share / 1000, size + 2 * sizes[1]);
            assert!(got.abs_diff(due) <= slack, "{got} of {due} bytes, I/Os of {size}");
        }
    }
}

/// Ten seconds of 100 I/Os or of 1 MiB a second, of reads and writes together: a tenant's share is
/// by its weight, whichever direction it uses, and its own directions take turns.
#[test]
fn reads_and_writes_under_one_limit_share_it_by_weight() {
    let ios = Limits { total_iops: 100, ..Limits::default() };
    let bytes = Limits { total_bps: MIB, ..Limits::default() };
    for (limits, total, sizes) in [(ios, 1001 * KIB, [KIB; 3]), (bytes, 10 * MIB, [4 * KIB, 64 * KIB, 16 * KIB])] {
        let mut rig = Rig::new();
        let parent = rig.tenant(ROOT, limits);
        let [a, b, c] = [300, 100, 200].map(|weight| {
            let tenant = rig.tenant(parent, Limits::default());
            rig.stage.set_weight(tenant, weight);
            tenant
        });
        let all =
            [(a, Op::Read, sizes[0]), (b, Op::Write, sizes[1]), (c, Op::Read, sizes[2]), (c, Op::Write, sizes[2])];
        let start = rig.now;
        for _ in 0..2000 {
            for (tenant, op, bytes) in all {
                rig.submit_unchecked(BioCost::plain(tenant, op, bytes));
            }
        }
        rig.advance_timely(start + Nanos::from_secs(10));
        let got = all.map(|(tenant, op, _)| {
            let went = rig.charges.iter().zip(&rig.went).filter(|(_, went)| went.is_some());
            let of = went.filter(|((_, charge), _)| (charge.tenant, charge.op) == (tenant, op));
            of.map(|((_, charge), _)| charge.bytes).sum::<u64>()
        });
        for ((got, sixths), (.., size)) in got.into_iter().zip([3, 1, 1, 1]).zip(all) {
            let (due, slack) = (total * sixths / 6, size + 2 * sizes[1]);
            assert!(got.abs_diff(due) <= slack, "{got} of {due} bytes, I/Os of {size}");
        }
    }
}

/// Ten seconds of 1000 I/Os or of 4 MiB a second under a parent's limit, with reserves: each gets
/// its share by weight, but at least its reserve. Reserves that are too high shrink in proportion,
/// and who has none is served every 250 ms.
#[test]
fn reserves_hold_among_those_that_wait_for_a_parents_limit() {
    let ios = |iops| Reserve { iops, bps: 0 };
    let reads = Limits { iops: [1000, UNLIMITED], ..Limits::default() };
    let both = Limits { total_iops: 1000, ..Limits::default() };
    let bytes = Limits { total_bps: 1000 * KIB, ..Limits::default() };
    let of_bytes = |kib| Reserve { iops: 0, bps: kib * KIB };
    let none = Reserve::NONE;
    for (limits, of, expected, is_missed) in [
        (reads, [(1, ios(600)), (600, none), (300, none)], [600, 267, 133], false),
        (both, [(1, ios(600)), (600, none), (300, none)], [600, 267, 133], false),
        (bytes, [(1, of_bytes(600)), (600, none), (300, none)], [600, 267, 133], false),
        (both, [(300, ios(500)), (100, none), (100, none)], [600, 200, 200], false),
        (both, [(100, ios(400)), (100, none), (100, none)], [400, 300, 300], false),
        (both, [(1, ios(3000)), (1, ios(1000)), (100, none)], [747, 249, 4], true),
    ] {
        let mut rig = Rig::new();
        let parent = rig.tenant(ROOT, limits);
        let tenants = of.map(|(weight, reserve)| {
            let tenant = rig.tenant(parent, Limits::default());
            rig.stage.set_weight(tenant, weight);
            rig.stage.set_reserve(rig.now, &rig.tenants, tenant, reserve);
            tenant
        });
        let mut got = [0; 3];
        // Enough that each still waits at the end.
        for _ in 0..6 {
            shared(&mut rig, &tenants.map(|tenant| (tenant, KIB)), 0);
        }
        let start = rig.now;
        rig.advance_timely(start + Nanos::from_secs(10));
        for (charge, went) in rig.charges.iter().map(|(_, charge)| charge).zip(&rig.went) {
            let at = tenants.iter().position(|&tenant| tenant == charge.tenant).expect("one of them");
            got[at] += u64::from(went.is_some());
        }
        for (got, expected) in got.into_iter().zip(expected) {
            let due = 10 * expected;
            assert!(got.abs_diff(due) <= 20 + due / 100, "{got} I/Os, {due} expected: {limits:?} {of:?}");
        }
        let missed = rig.stage.reserve_missed(rig.now, tenants[0]);
        assert_eq!(missed > Nanos::from_millis(7000), is_missed, "{missed:?}");
        assert!(is_missed || missed.is_zero(), "{missed:?}");
    }
}

/// A reserve of an inner tenant is one of all below it; one below it holds beside that. Nobody is
/// owed anything for a time in which it had nothing waiting.
#[test]
fn a_reserve_of_an_inner_tenant_is_shared_below_it() {
    let mut rig = Rig::new();
    let parent = rig.tenant(ROOT, Limits { total_iops: 1000, ..Limits::default() });
    let [group, other] = [0; 2].map(|_| rig.tenant(parent, Limits::default()));
    let [a, b] = [0; 2].map(|_| rig.tenant(group, Limits::default()));
    for (tenant, weight, iops) in [(group, 1, 600), (other, 1000, 0), (a, 1, 200), (b, 1000, 0)] {
        rig.stage.set_weight(tenant, weight);
        rig.stage.set_reserve(rig.now, &rig.tenants, tenant, Reserve { iops, bps: 0 });
    }
    shared(&mut rig, &[(other, KIB)], 1);
    let got = shared(&mut rig, &[(a, KIB), (b, KIB), (other, KIB)], 2);
    for (got, due) in got.into_iter().zip([400, 800, 1001 + 800]) {
        assert!((got / KIB).abs_diff(due) <= 10, "{} of {due}", got / KIB);
    }
}

/// A limit of its own that is due at the same times as the parent's puts no tenant before others.
#[test]
fn who_has_a_limit_of_its_own_goes_before_nobody() {
    let ios = |rate| Limits { total_iops: rate, ..Limits::default() };
    for own in [100, 200, 50] {
        let mut rig = Rig::new();
        let parent = rig.tenant(ROOT, ios(100));
        let (a, b) = (rig.tenant(parent, ios(own)), rig.tenant(parent, Limits::default()));
        let got = shared(&mut rig, &[(a, KIB), (b, KIB)], 10);
        assert!(got[0].abs_diff(500 * KIB) <= 2 * KIB && got[1].abs_diff(500 * KIB) <= 2 * KIB, "{own}: {got:?}");
    }
}

/// Limits that change while others wait: a limit of one direction becomes one of both, and back.
#[test]
fn those_that_wait_share_by_the_limits_of_the_time() {
    let mut rig = Rig::new();
    let reads = Limits { iops: [100, UNLIMITED], ..Limits::default() };
    let both = Limits { total_iops: 100, ..Limits::default() };
    let parent = rig.tenant(ROOT, reads);
    let [a, b] = [0; 2].map(|_| rig.tenant(parent, Limits::default()));
    for _ in 0..1000 {
        rig.submit_unchecked(BioCost::plain(a, Op::Read, KIB));
    }
    rig.advance_timely(rig.now + Nanos::from_secs(5));
    rig.stage.set(rig.now, &rig.tenants, parent, both);
    for _ in 0..1000 {
        rig.submit_unchecked(BioCost::plain(b, Op::Write, KIB));
    }
    rig.stage.self_check(&rig.tenants);
    let writes = |rig: &Rig| rig.order.iter().filter(|&&bio| rig.charges[bio as usize].1.op == Op::Write).count();
    rig.advance_timely(rig.now + Nanos::from_secs(4));
    assert!(writes(&rig).abs_diff(200) <= 1, "half of 400: {}", writes(&rig));
    rig.stage.set(rig.now, &rig.tenants, parent, reads);
    rig.release();
    assert_eq!(writes(&rig), 1000, "nothing limits writes any longer");
    rig.drain();
}

/// Who has not waited is owed nothing for that, and an inner tenant's own bios are as a child of
/// weight 100.
#[test]
fn turns_begin_where_others_are() {
    let mut rig = Rig::new();
    let parent = rig.tenant(ROOT, Limits { iops: [100, UNLIMITED], ..Limits::default() });
    let [a, b] = [0; 2].map(|_| rig.tenant(parent, Limits::default()));
    rig.stage.set_weight(b, 200);
    assert_eq!(shared(&mut rig, &[(a, KIB)], 5), [501 * KIB]);
    let before = |rig: &Rig, of: TenantId| {
        rig.charges.iter().zip(&rig.went).filter(|((_, c), went)| c.tenant == of && went.is_some()).count() as u64
    };
    let mark = before(&rig, a);
    let later = shared(&mut rig, &[(parent, KIB), (b, KIB)], 4);
    let of_a = before(&rig, a) - mark;
    // 400 I/Os by 100 : 100 : 200.
    for (got, due) in [(of_a, 100), (later[0] / KIB, 100), (later[1] / KIB, 200)] {
        assert!(got.abs_diff(due) <= 2, "{got} of {due}");
    }
}

#[test]
fn what_is_owed_survives_a_change_and_goes_with_the_rule() {
    let mut rig = Rig::new();
    let tenant = rig.tenant(ROOT, bps(MIB));
    let start = rig.now;
    rig.submit(BioCost::plain(tenant, Op::Read, MIB));
    rig.submit(BioCost::plain(tenant, Op::Read, MIB));
    rig.now = start + Nanos::from_millis(500);
    rig.stage.set(rig.now, &rig.tenants, tenant, bps(2 * MIB));
    rig.drain();
    assert_eq!(rig.now.since(start), Nanos::from_millis(750), "half a MiB owed, at 2 MiB/s");
    rig.submit(BioCost::plain(tenant, Op::Read, MIB));
    rig.stage.set(rig.now, &rig.tenants, tenant, Limits::default());
    assert!(rig.stage.next_wakeup().unwrap() <= rig.now, "a rule that goes lets go at once");
    rig.release();
    assert_eq!((rig.stage.held(), rig.stage.is_enabled()), (0, false));
}

/// The long-run rate of a saturated tenant, in parts of a thousand of the limit.
#[test]
fn the_long_run_rate_is_the_limit() {
    for (limit, bytes) in [(1_000_003, 4 * KIB), (777, KIB), (12_345_678, 1_234_944), (7 * MIB, 128 * KIB)] {
        let mut rig = Rig::new();
        let tenant = rig.tenant(ROOT, bps(limit));
        let start = rig.now;
        let count = 2000;
        for _ in 0..=count {
            let id = rig.submit(BioCost::plain(tenant, Op::Read, bytes));
            while rig.went[id as usize].is_none() {
                rig.now = rig.stage.next_wakeup().unwrap().max(rig.now);
                rig.release();
            }
        }
        let ideal = u128::from(count * bytes) * 1_000_000_000 / u128::from(limit);
        let took = u128::from(rig.now.since(start).get());
        assert!(took.abs_diff(ideal) <= 1 + ideal / 1_000_000, "{limit} B/s: {took} ns against {ideal}");
    }
}

/// Runs a job of `depth` I/Os, each submitted again `service` after its release, `count` I/Os in
/// total, while the clock calls up to `late` late. Returns the time from the first I/O to the last.
fn closed_loop(rig: &mut Rig, charge: BioCost, depth: usize, service: u64, late: u64, count: u32) -> Nanos {
    let mut rng = elevon_testkit::Rng(late << 7 ^ u64::from(count));
    let mut lateness = move || if late == 0 { 0 } else { rng.below(late) };
    let start = rig.now;
    let mut over: VecDeque<Instant> = vec![rig.now; depth].into();
    let mut gone = 0;
    let mut alarm: Option<(Instant, Instant)> = None;
    while rig.order.len() < count as usize {
        let wakeup = rig.stage.next_wakeup();
        if alarm.map(|(of, _)| of) != wakeup {
            alarm = wakeup.map(|at| (at, at.max(rig.now) + Nanos::new(lateness())));
        }
        let rings = alarm.map(|(_, rings)| rings);
        rig.now = [over.front().copied(), rings].into_iter().flatten().min().expect("something happens").max(rig.now);
        if rings.is_some_and(|at| at <= rig.now) {
            rig.release();
        }
        if over.front().is_some_and(|&at| at <= rig.now) {
            over.pop_front();
            rig.submit(charge);
        }
        over.extend(rig.order[gone..].iter().map(|_| rig.now + Nanos::new(service)));
        gone = rig.order.len();
    }
    rig.now.since(start)
}

#[test]
fn a_clock_that_calls_late_costs_no_rate() {
    let riops = |rate| Limits { iops: [rate, UNLIMITED], ..Limits::default() };
    for (limits, bytes, rate) in [
        (riops(1000), 4 * KIB, 1000),
        (riops(3000), 4 * KIB, 3000),
        (riops(10_000), 4 * KIB, 10_000),
        (riops(50_000), 4 * KIB, 50_000),
        (bps(100_000_000), 64 * KIB, 100_000_000 / (64 * KIB)),
    ] {
        for late in [0, 60_000, 150_000] {
            let mut rig = Rig::new();
            let tenant = rig.tenant(ROOT, limits);
            let count = 4000;
            // Eight I/Os in flight can make up for a late call if it is late by less than the time
            // of eight I/Os at the limit's rate.
            let depth = 8 + (2 * late * rate / 1_000_000_000) as usize;
            let took = closed_loop(&mut rig, BioCost::plain(tenant, Op::Read, bytes), depth, 15_000, late, count);
            let ideal = u64::from(count - 1) * 1_000_000_000 / rate;
            let off = took.get().abs_diff(ideal);
            assert!(off <= late + ideal / 1000, "{rate} a second, {late} ns late: {took:?} against {ideal} ns");
            check_windows(&rig, &[ROOT, tenant], if late == 0 { Nanos::ZERO } else { CATCH_UP });
            let late_time = rig.breakdown.of(tenant).iter().any(|&(cause, _)| cause == Cause::LateTimer);
            assert_eq!(late_time, late > 0, "{rate} a second, {late} ns late");
        }
    }
}

#[test]
fn a_stall_is_made_up_for_up_to_the_bound() {
    let mut rig = Rig::new();
    let tenant = rig.tenant(ROOT, Limits { iops: [1000, UNLIMITED], ..Limits::default() });
    for _ in 0..1000 {
        rig.submit(BioCost::plain(tenant, Op::Read, KIB));
    }
    rig.now = rig.now + Nanos::from_millis(600);
    let stalled = rig.now;
    rig.release();
    let at_once = rig.went.iter().filter(|&&went| went == Some(stalled)).count();
    assert_eq!(at_once, 101, "100 ms of 1000 a second, and the one that is due");
    rig.drain();
    assert_eq!(rig.now.since(stalled), Nanos::from_millis(898), "then one a millisecond");
    let late: u64 =
        rig.breakdown.of(tenant).iter().filter(|of| of.0 == Cause::LateTimer).map(|of| of.1.time.get()).sum();
    assert_eq!(late, 999 * 100_000_000, "the 999 that stood in line waited so long for the clock that is made up for");
}

#[test]
fn who_was_late_and_then_idle_has_no_burst() {
    let mut rig = Rig::new();
    let tenant = rig.tenant(ROOT, Limits { iops: [1000, UNLIMITED], ..Limits::default() });
    let read = BioCost::plain(tenant, Op::Read, KIB);
    rig.submit(read);
    rig.submit(read);
    rig.now = rig.now + Nanos::from_millis(51);
    rig.release();
    rig.now = rig.now + Nanos::from_millis(60);
    let start = rig.now;
    let ids = [0; 3].map(|_| rig.submit(read));
    rig.drain();
    let after = ids.map(|id| rig.went[id as usize].unwrap().since(start).get() / 1_000_000);
    assert_eq!(after, [0, 1, 2], "50 ms late, but 60 ms without anything to submit");
}

fn random_limits(below: &mut dyn FnMut(u64) -> u64) -> Limits {
    let mut any = |unit: u64| if below(2) == 0 { UNLIMITED } else { (1 + below(50)) * unit };
    Limits {
        bps: [any(100 * KIB), any(100 * KIB)],
        iops: [any(5), any(5)],
        total_bps: any(150 * KIB),
        total_iops: any(8),
        burst_bytes: any(10 * KIB).min(MIB),
        burst_ios: any(1).min(30),
    }
}

/// Random trees, limits and I/O: in every window a tenant at any level gets at most rate · window +
/// burst + one I/O, the breakdown contains every nanosecond, no bio is lost, and while a bio is
/// held, a limit holds it. In every other run the clock calls up to some hundred milliseconds late;
/// a window may then in addition contain what is made up for.
#[test]
fn no_window_exceeds_a_limit_and_its_burst() {
    for seed in 0..80u64 {
        let is_timely = seed % 2 == 0;
        let mut rng = elevon_testkit::Rng(seed);
        let mut below = move |n: u64| rng.below(n);
        let changes = seed % 3 == 0;
        let mut rig = Rig::new();
        let mut alive = vec![ROOT];
        for _ in 0..6 {
            let parent = alive[below(alive.len() as u64) as usize];
            let of = random_limits(&mut below);
            alive.push(rig.tenant(parent, of));
        }
        for step in 0..300 {
            let until = rig.now + Nanos::new(below(30_000_000));
            if is_timely {
                rig.advance_timely(until);
            }
            rig.now = until;
            match below(10) {
                0 if changes => {
                    let one = alive[1 + below(alive.len() as u64 - 1) as usize];
                    rig.stage.set(rig.now, &rig.tenants, one, random_limits(&mut below));
                    rig.change_turns(one, 1 + below(1000) as u16, below(20));
                }
                1 if changes && alive.len() > 2 => {
                    let at = 1 + below(alive.len() as u64 - 1) as usize;
                    if rig.tenants.remove(alive[at]).is_ok() {
                        rig.stage.on_tenant_removed(rig.now, &rig.tenants, alive[at]);
                        alive.remove(at);
                    }
                }
                2 if changes && below(4) == 0 => rig.withdraw(below(5)),
                2 | 3 => rig.release(),
                _ => {
                    let op = if below(2) == 0 { Op::Read } else { Op::Write };
                    let tenant = alive[below(alive.len() as u64) as usize];
                    let first = below(5) > 0;
                    let class = [PrioClass::Rt, PrioClass::Be, PrioClass::Idle][below(3) as usize];
                    let (ioprio, must_issue) = (IoPrio::new(class, 0), below(20) == 0);
                    let bytes = (1 + below(64)) * 4 * KIB;
                    rig.submit(BioCost { first, ioprio, must_issue, ..BioCost::plain(tenant, op, bytes) });
                }
            }
            if step % 8 == 0 && !changes {
                rig.release();
                check_nothing_is_held_for_nothing(&rig, &alive);
            }
        }
        rig.drain();
        check_order(&rig, &alive);
        let waits = rig.charges.iter().zip(&rig.went).map(|((came, _), went)| went.unwrap().since(*came).get());
        assert_eq!(rig.breakdown.iter().map(|(.., time)| time.get()).sum::<u64>(), waits.sum::<u64>(), "seed {seed}");
        let late = rig.breakdown.iter().any(|(_, cause, _)| cause == Cause::LateTimer);
        assert!(!(is_timely && late), "seed {seed}: nothing was late");
        if !changes {
            check_windows(&rig, &alive, if is_timely { Nanos::ZERO } else { CATCH_UP });
        }
    }
}

/// Checks that bios of the same tenant, kind and class are released in order.
fn check_order(rig: &Rig, tenants: &[TenantId]) {
    for &tenant in tenants {
        for (kind, class) in Kind::all().flat_map(|kind| (0..CLASSES).map(move |class| (kind, class))) {
            let mine = rig.order.iter().filter(|&&bio| {
                let charge = &rig.charges[bio as usize].1;
                (charge.tenant, Kind::of(charge), charge.ioprio.class().rank()) == (tenant, kind, class)
                    && !charge.must_issue
            });
            assert!(mine.is_sorted(), "{tenant:?} {kind:?} class {class}");
        }
    }
}

/// Checks that every tenant with waiting bios is held by a limit on its path. The limits are
/// computed again from everything that was released, in parts of a nanosecond.
fn check_nothing_is_held_for_nothing(rig: &Rig, tenants: &[TenantId]) {
    let mut gone: Vec<(u128, &BioCost)> = vec![];
    for &id in &rig.order {
        gone.push((u128::from(rig.went[id as usize].unwrap().get()), &rig.charges[id as usize].1));
    }
    let now = u128::from(rig.now.get());
    let holds = |level: TenantId, directions: &[ReadOrWrite], rate: u64, burst: u64, counts_bytes: bool| {
        let mut tat = 0;
        let of_level =
            |charge: &BioCost| rig.tenants.is_below(charge.tenant, level) && directions.contains(&charge.direction());
        for (at, charge) in gone.iter().filter(|(_, charge)| of_level(charge)) {
            let bytes = if charge.first { charge.bytes } else { 0 };
            let units = if counts_bytes { bytes } else { 1 };
            tat = tat.max(at * u128::from(rate)) + u128::from(units) * 1_000_000_000;
        }
        rate != UNLIMITED && tat > now * u128::from(rate) + u128::from(burst) * 1_000_000_000
    };
    for &tenant in &tenants[1..] {
        for kind in Kind::all() {
            let waits = (0..rig.went.len()).any(|bio| {
                let charge = &rig.charges[bio].1;
                rig.went[bio].is_none() && charge.tenant == tenant && Kind::of(charge) == kind
            });
            let (one, d) = (&[kind.direction][..], kind.direction as usize);
            let held = |level: TenantId| {
                let limits = rig.stage.limits(level);
                holds(level, one, limits.iops[d], limits.burst_ios, false)
                    || holds(level, &DIRECTIONS, limits.total_iops, limits.burst_ios, false)
                    || !kind.is_remainder
                        && (holds(level, one, limits.bps[d], limits.burst_bytes, true)
                            || holds(level, &DIRECTIONS, limits.total_bps, limits.burst_bytes, true))
            };
            assert!(!waits || rig.tenants.path(tenant).any(held), "{tenant:?} is held for nothing");
        }
    }
}

fn check_windows(rig: &Rig, tenants: &[TenantId], catch_up: Nanos) {
    for &level in &tenants[1..] {
        let limits = rig.stage.limits(level);
        for (directions, bps, iops) in [
            (&[ReadOrWrite::Read][..], limits.bps[0], limits.iops[0]),
            (&[ReadOrWrite::Write], limits.bps[1], limits.iops[1]),
            (&DIRECTIONS, limits.total_bps, limits.total_iops),
        ] {
            let counts = |id: &&u32| {
                let charge = &rig.charges[**id as usize].1;
                rig.tenants.is_below(charge.tenant, level) && directions.contains(&charge.direction())
            };
            let of = |&id: &u32| (rig.went[id as usize].unwrap().get(), &rig.charges[id as usize].1);
            let gone: Vec<(u64, &BioCost)> = rig.order.iter().filter(counts).map(of).collect();
            for from in 0..gone.len() {
                let (mut bytes, mut ios) = (0u64, 0u64);
                for &(at, charge) in &gone[from..] {
                    // What was released before the last bio of the window, which is the "one I/O".
                    // Journal I/O is never checked, and remainders not for bytes.
                    let window = u128::from(at - gone[from].0 + catch_up.get());
                    let within = |used: u64, rate: u64, burst: u64| {
                        rate == UNLIMITED
                            || charge.must_issue
                            || u128::from(used)
                                <= (u128::from(rate) * window).div_ceil(1_000_000_000) + u128::from(burst) + 1
                    };
                    assert!(within(ios, iops, limits.burst_ios), "{level:?}: {ios} I/Os in {window} ns");
                    ios += 1;
                    if charge.first {
                        assert!(within(bytes, bps, limits.burst_bytes), "{level:?}: {bytes} bytes in {window} ns");
                        bytes += charge.bytes;
                    }
                }
            }
        }
    }
}
