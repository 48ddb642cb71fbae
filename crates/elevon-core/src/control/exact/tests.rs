//! Compares the stage with its rule (rate, burst, one I/O) level by level and in every window, also
//! if the clock calls late and lost time is made up for.

mod sharing;
mod windows;

extern crate std;
use std::vec;
use std::vec::Vec;

use windows::check_windows;

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
        self.stage.set_reserve(
            self.now,
            &self.tenants,
            tenant,
            Reserve { iops, bps: iops / 2 * KIB },
        );
    }

    fn submit(&mut self, charge: BioCost) -> u32 {
        let id = self.submit_unchecked(charge);
        self.stage.self_check(&self.tenants);
        id
    }

    fn submit_unchecked(&mut self, charge: BioCost) -> u32 {
        let id = self.went.len() as u32;
        let passed =
            self.stage.admit(self.now, &self.tenants, BioId(id), &charge) == StageVerdict::Pass;
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
            assert!(
                is_chosen(bio) && self.went[bio.index()].replace(self.now).is_none(),
                "a bio that waited"
            );
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
                while fragments.len() < parts
                    && self.went[fragments[fragments.len() - 1] as usize].is_some()
                {
                    fragments.push(self.submit(BioCost { first: false, ..*bio }));
                }
            }
            if self.stage.held() == 0 {
                break;
            }
            self.now = self.stage.next_wakeup().expect("something waits").max(self.now);
            self.release();
        }
        let micros =
            |&id: &u32| self.went[id as usize].expect("all went").since(start).get() / 1000;
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
    for (burst, expected) in [
        (0, vec![0, 62_500, 125_000, 187_500, 250_000]),
        (256 * KIB, vec![0, 0, 0, 0, 0, 62_500, 125_000, 187_500]),
    ] {
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
    assert_eq!(
        rig.micros(start),
        [0, 3906, 1_003_906],
        "an I/O pays when it has gone, the next waits"
    );
}

#[test]
fn what_remains_of_a_split_bio_does_not_wait_for_bytes() {
    let run = |limits: Limits, sizes: &[u64], parts: usize| {
        let mut rig = Rig::new();
        let tenant = rig.tenant(ROOT, limits);
        let bios: Vec<BioCost> =
            sizes.iter().map(|&bytes| BioCost::plain(tenant, Op::Read, bytes)).collect();
        rig.split(&bios, parts)
    };
    // The examples of `exact_times`, with each bio in fragments.
    assert_eq!(
        run(bps(MIB), &[4 * KIB, MIB, 4 * KIB], 2),
        [vec![0; 2], vec![3906; 2], vec![1_003_906; 2]]
    );
    let burst = Limits { burst_bytes: MIB, ..bps(MIB) };
    let expected = [0, 0, 1_000_000, 2_000_000].map(|at| vec![at; 4]);
    assert_eq!(run(burst, &[MIB; 4], 4), expected, "a burst is as many bios as if they were whole");
    // Each fragment is an I/O, and a bio that has begun goes before the next one.
    let both = Limits { iops: [4, UNLIMITED], ..bps(MIB) };
    let (first, second) =
        (vec![0, 250_000, 500_000, 750_000], vec![1_000_000, 1_250_000, 1_500_000, 1_750_000]);
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
    let all =
        [be, be, be, rt, rt, BioCost { op: Op::Write, ..be }].map(|charge| rig.submit(charge));
    rig.drain();
    assert_eq!(rig.order, [all[0], all[5], all[3], all[4], all[1], all[2]]);
}

/// A tenant's class is strict, but what of lower classes waits gets one I/O every 250 ms.
#[test]
fn a_lower_class_waits_for_its_patience_at_most() {
    for limits in [
        Limits { iops: [100, UNLIMITED], ..Limits::default() },
        Limits { total_iops: 100, ..Limits::default() },
    ] {
        for op in [Op::Read, Op::Write] {
            let mut rig = Rig::new();
            let tenant = rig.tenant(ROOT, limits);
            let rt = BioCost {
                ioprio: IoPrio::new(PrioClass::Rt, 0),
                ..BioCost::plain(tenant, Op::Read, KIB)
            };
            let be = BioCost::plain(tenant, op, KIB);
            let start = rig.now;
            let of_rt: Vec<u32> = (0..1000).map(|_| rig.submit_unchecked(rt)).collect();
            let of_be = (0..2).map(|_| rig.submit_unchecked(be)).collect::<Vec<u32>>();
            rig.advance_timely(start + Nanos::from_secs(1));
            let millis =
                |id: u32| rig.went[id as usize].map(|at| at.since(start).get() / 1_000_000);
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
    let rows: Vec<(Cause, Nanos)> =
        rig.breakdown.of(slow).iter().map(|&(cause, wait)| (cause, wait.time)).collect();
    let limit = |level| Cause::Limit { level, rule: Rule::ReadIops };
    assert_eq!(
        rows,
        [(limit(parent), Nanos::from_millis(400)), (limit(slow), Nanos::from_millis(1000))]
    );
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
    assert_eq!(
        rig.now.since(start),
        Nanos::from_millis(590),
        "60 I/Os at 100 a second, the first at once"
    );
    // Children take turns: among the first 30 every child has ten, plus or minus one.
    for child in children {
        let early = rig.order[..30]
            .iter()
            .filter(|&&bio| rig.charges[bio as usize].1.tenant == child)
            .count();
        assert!((9..=11).contains(&early), "{child:?}: {early} of the first 30");
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
    for (limit, bytes) in
        [(1_000_003, 4 * KIB), (777, KIB), (12_345_678, 1_234_944), (7 * MIB, 128 * KIB)]
    {
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
        assert!(
            took.abs_diff(ideal) <= 1 + ideal / 1_000_000,
            "{limit} B/s: {took} ns against {ideal}"
        );
    }
}

/// Runs a job of `depth` I/Os, each submitted again `service` after its release, `count` I/Os in
/// total, while the clock calls up to `late` late. Returns the time from the first I/O to the last.
fn closed_loop(
    rig: &mut Rig,
    charge: BioCost,
    depth: usize,
    service: u64,
    late: u64,
    count: u32,
) -> Nanos {
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
        rig.now = [over.front().copied(), rings]
            .into_iter()
            .flatten()
            .min()
            .expect("something happens")
            .max(rig.now);
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
            let took = closed_loop(
                &mut rig,
                BioCost::plain(tenant, Op::Read, bytes),
                depth,
                15_000,
                late,
                count,
            );
            let ideal = u64::from(count - 1) * 1_000_000_000 / rate;
            let off = took.get().abs_diff(ideal);
            assert!(
                off <= late + ideal / 1000,
                "{rate} a second, {late} ns late: {took:?} against {ideal} ns"
            );
            check_windows(&rig, &[ROOT, tenant], if late == 0 { Nanos::ZERO } else { CATCH_UP });
            let late_time =
                rig.breakdown.of(tenant).iter().any(|&(cause, _)| cause == Cause::LateTimer);
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
    let late: u64 = rig
        .breakdown
        .of(tenant)
        .iter()
        .filter(|of| of.0 == Cause::LateTimer)
        .map(|of| of.1.time.get())
        .sum();
    assert_eq!(
        late,
        999 * 100_000_000,
        "the 999 that stood in line waited so long for the clock that is made up for"
    );
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
