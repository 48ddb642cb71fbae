//! Compares with the documented dispatch times of Linux (HZ 1000, no service time), and checks the
//! invariants of the queues.

extern crate std;
use std::vec;
use std::vec::Vec;

mod model;

use self::model::Model;
use super::super::Rule;
use super::*;
use crate::control::limits::UNLIMITED;
use crate::kernel::Kernel;
use crate::op::Op;
use crate::units::Nanos;

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;

/// A stage with tenants and a virtual clock in ms, together with a naive model that must agree in
/// everything.
struct Rig {
    stage: IoMax,
    model: Model,
    tenants: Tenants,
    now: Instant,
    breakdown: WaitBreakdown,
    next: u32,
    /// When each bio arrived, and when it was released.
    came: Vec<Instant>,
    went: Vec<Option<Instant>>,
    order: Vec<u32>,
}

impl Rig {
    fn new(kernel: Kernel, slice_ms: u64) -> Self {
        let config = Config { slice_ms, ..Config::from_rules(&kernel.rules(), Hz(1000), true) };
        Self {
            stage: IoMax::new(config),
            model: Model::new(&config),
            tenants: Tenants::new(),
            now: Instant::ZERO,
            breakdown: WaitBreakdown::default(),
            next: 0,
            came: vec![],
            went: vec![],
            order: vec![],
        }
    }

    fn one(kernel: Kernel, slice_ms: u64, limits: Limits) -> (Self, TenantId) {
        let mut rig = Self::new(kernel, slice_ms);
        // The clock starts late, so that slices of time zero have expired.
        rig.now = Instant::new(10_000_000_000);
        let tenant = rig.tenants.add(ROOT).unwrap();
        rig.set(tenant, limits);
        (rig, tenant)
    }

    fn ticks(&self) -> u64 {
        self.now.get() / 1_000_000
    }

    fn check(&self) {
        self.stage.self_check(&self.tenants);
        assert_eq!(self.stage.held(), self.model.held());
        let wakeup = self.stage.next_wakeup().map(|at| at.get() / 1_000_000);
        assert_eq!(wakeup, self.model.next_wakeup(), "what is due next");
    }

    fn set(&mut self, tenant: TenantId, limits: Limits) {
        self.stage.set(self.now, tenant, limits);
        self.model.set(self.ticks(), tenant, limits);
        self.check();
    }

    fn remove(&mut self, tenant: TenantId) -> bool {
        let removed = self.tenants.remove(tenant).is_ok();
        if removed {
            self.stage.on_tenant_removed(self.now, &self.tenants, tenant);
            self.model.set(self.ticks(), tenant, Limits::default());
            self.check();
        }
        removed
    }

    fn submit(&mut self, charge: &BioCost) -> u32 {
        let id = self.next;
        self.next += 1;
        self.came.push(self.now);
        let passed =
            self.stage.admit(self.now, &self.tenants, BioId(id), charge) == StageVerdict::Pass;
        assert_eq!(
            passed,
            self.model.admit(self.ticks(), &self.tenants, id, charge),
            "bio {id} passes"
        );
        self.went.push(passed.then_some(self.now));
        if passed {
            self.order.push(id);
        }
        self.check();
        id
    }

    fn release(&mut self) -> Vec<u32> {
        let mut out = vec![];
        self.stage.release(self.now, &self.tenants, &mut self.breakdown, &mut out);
        assert!(
            out.iter().map(|bio| bio.0).eq(self.model.release(self.ticks(), &self.tenants)),
            "what goes, in order"
        );
        self.check();
        for bio in &out {
            assert!(self.went[bio.index()].replace(self.now).is_none(), "a bio goes once");
            self.order.push(bio.0);
        }
        out.iter().map(|bio| bio.0).collect()
    }

    /// Takes back every fifth of the bios that wait.
    fn withdraw(&mut self, fifth: u32) {
        let (mut out, is_chosen) = (vec![], |bio: u32| bio % 5 == fifth);
        let is_bio = |bio: BioId| is_chosen(bio.0);
        self.stage.withdraw(self.now, &self.tenants, &is_bio, &mut self.breakdown, &mut out);
        self.model.withdraw(self.ticks(), is_chosen);
        self.check();
        for bio in out {
            assert!(
                is_bio(bio) && self.went[bio.index()].replace(self.now).is_none(),
                "a bio that waited"
            );
        }
    }

    /// Advances the clock to the next release and executes it.
    fn step(&mut self) -> Vec<u32> {
        self.now = self.stage.next_wakeup().expect("something waits").max(self.now);
        self.release()
    }

    /// Runs one reader, whose next I/O is submitted on dispatch of the last. Returns times in ms
    /// since the start.
    fn back_to_back(&mut self, charge: &BioCost, count: usize) -> Vec<u64> {
        self.closed_loop(charge, count, Nanos::ZERO)
    }

    /// Runs one reader, whose next I/O is submitted `service` after dispatch of the last. Returns
    /// when each was released, in ms since the start.
    fn closed_loop(&mut self, charge: &BioCost, count: usize, service: Nanos) -> Vec<u64> {
        let start = self.now;
        let mut times = vec![];
        while times.len() < count {
            let id = self.submit(charge);
            while self.went[id as usize].is_none() {
                self.step();
            }
            times.push(self.now.since(start).get() / 1_000_000);
            self.now = self.now + service;
        }
        times
    }
}

fn bps(rbps: u64) -> Limits {
    Limits { bps: [rbps, UNLIMITED], ..Limits::default() }
}

fn iops(riops: u64) -> Limits {
    Limits { iops: [riops, UNLIMITED], ..Limits::default() }
}

#[test]
fn bytes_go_as_slices_earn_them() {
    let first =
        [0, 125, 125, 250, 312, 312, 437, 501, 501, 625, 625, 750, 812, 812, 937, 1001, 1001];
    let short =
        [62, 125, 187, 250, 312, 375, 437, 501, 562, 625, 687, 750, 812, 875, 937, 1001, 1062];
    for (kernel, slice, expected) in
        [(Kernel::V6_1, 100, first), (Kernel::V6_18, 100, first), (Kernel::V6_18, 20, short)]
    {
        let (mut rig, tenant) = Rig::one(kernel, slice, bps(MIB));
        let times = rig.back_to_back(&BioCost::plain(tenant, Op::Read, 64 * KIB), expected.len());
        assert_eq!(times, expected, "{kernel:?}, slice {slice}");
    }
    let (mut rig, tenant) = Rig::one(Kernel::V6_1, 100, bps(MIB));
    assert_eq!(rig.back_to_back(&BioCost::plain(tenant, Op::Read, MIB), 3), [1000, 2000, 3000]);
    let (mut rig, tenant) = Rig::one(Kernel::V6_18, 100, bps(MIB));
    assert_eq!(rig.back_to_back(&BioCost::plain(tenant, Op::Read, MIB), 3), [1000, 2001, 3001]);
    let (mut rig, tenant) = Rig::one(Kernel::V6_1, 100, bps(MIB));
    let times = rig.back_to_back(&BioCost::plain(tenant, Op::Read, 4 * KIB), 52);
    assert_eq!((times[24], times[25], times[50], times[51]), (0, 101, 101, 203));
    for kernel in [Kernel::V6_1, Kernel::V6_18] {
        let (mut rig, tenant) = Rig::one(kernel, 100, bps(10 * MIB));
        let times = rig.back_to_back(&BioCost::plain(tenant, Op::Read, 64 * KIB), 33);
        assert_eq!((times[15], times[16], times[31], times[32]), (0, 106, 106, 206), "{kernel:?}");
    }
}

#[test]
fn a_device_that_takes_its_time_moves_only_what_was_earned() {
    for kernel in [Kernel::V6_1, Kernel::V6_18] {
        let (mut rig, tenant) = Rig::one(kernel, 100, bps(MIB));
        let times =
            rig.closed_loop(&BioCost::plain(tenant, Op::Read, 64 * KIB), 9, Nanos::from_millis(10));
        assert_eq!(times, [0, 125, 135, 250, 312, 322, 437, 501, 511], "{kernel:?}");
    }
}

/// A slice allows whole I/Os, and the remainder is lost.
#[test]
fn limits_of_ios_are_met_in_steps() {
    use Kernel::{V6_1, V6_18};
    let cases = [
        (
            V6_1,
            100,
            &[(15, 10.0), (75, 70.0), (99, 90.0), (1, 0.53), (3, 1.67), (5, 3.33), (9, 5.0)][..],
        ),
        (
            V6_18,
            100,
            &[
                (15, 10.0),
                (75, 70.0),
                (99, 90.0),
                (1, 1.0),
                (3, 3.0),
                (5, 4.98),
                (6, 4.0),
                (7, 11.0),
                (9, 16.8),
            ],
        ),
        (
            V6_18,
            20,
            &[(99, 50.0), (75, 50.0), (100, 100.0), (10, 10.0), (25, 25.0), (33, 17.7), (45, 80.0)],
        ),
    ];
    for (kernel, slice, rates) in cases {
        for &(limit, expected) in rates {
            let (mut rig, tenant) = Rig::one(kernel, slice, iops(limit));
            let count = 60 * expected as usize + 40;
            let times = rig.back_to_back(&BioCost::plain(tenant, Op::Read, KIB), count);
            let rate = (count - 1) as f64 / (times[count - 1] as f64 / 1000.0);
            assert!(
                (rate / expected - 1.0).abs() < 0.04,
                "{kernel:?}, slice {slice}, riops {limit}: {rate:.2}"
            );
        }
    }
}

#[test]
fn ios_go_as_slices_earn_them() {
    for (kernel, slice, each, step) in
        [(Kernel::V6_1, 100, 10, 100), (Kernel::V6_18, 100, 10, 100), (Kernel::V6_18, 20, 2, 20)]
    {
        let (mut rig, tenant) = Rig::one(kernel, slice, iops(100));
        let times = rig.back_to_back(&BioCost::plain(tenant, Op::Read, 4 * KIB), 30);
        let expected: Vec<u64> = (0..30).map(|k| k / each * step).collect();
        assert_eq!(times, expected, "{kernel:?}, slice {slice}");
    }
    let (mut rig, tenant) = Rig::one(Kernel::V6_1, 100, iops(5));
    assert_eq!(
        rig.back_to_back(&BioCost::plain(tenant, Op::Read, KIB), 5),
        [100, 300, 600, 900, 1200]
    );
    let (mut rig, tenant) = Rig::one(Kernel::V6_18, 100, iops(5));
    assert_eq!(
        rig.back_to_back(&BioCost::plain(tenant, Op::Read, KIB), 6),
        [201, 201, 402, 603, 804, 1005]
    );
}

#[test]
fn both_limits_at_once_and_in_series() {
    let limits = Limits { iops: [10, UNLIMITED], ..bps(MIB) };
    let (mut rig, tenant) = Rig::one(Kernel::V6_1, 100, limits);
    assert_eq!(
        rig.back_to_back(&BioCost::plain(tenant, Op::Read, 64 * KIB), 6),
        [0, 125, 200, 300, 400, 500]
    );
    let (mut rig, tenant) = Rig::one(Kernel::V6_18, 100, limits);
    assert_eq!(
        rig.back_to_back(&BioCost::plain(tenant, Op::Read, 64 * KIB), 6),
        [0, 125, 226, 327, 428, 529]
    );
}

#[test]
fn many_queued_go_as_one_after_the_other() {
    let (mut rig, tenant) = Rig::one(Kernel::V6_1, 100, bps(MIB));
    let start = rig.now;
    for _ in 0..32 {
        rig.submit(&BioCost::plain(tenant, Op::Read, 64 * KIB));
    }
    while rig.stage.held() > 0 {
        rig.step();
    }
    let times: Vec<u64> =
        rig.went.iter().map(|at| at.unwrap().since(start).get() / 1_000_000).collect();
    assert_eq!(times[..10], [0, 125, 125, 250, 312, 312, 437, 501, 501, 625]);
    assert_eq!(times[31], 2001);
}

#[test]
fn idle_time_earns_nothing() {
    let (mut rig, tenant) = Rig::one(Kernel::V6_1, 100, bps(MIB));
    let start = rig.now;
    rig.submit(&BioCost::plain(tenant, Op::Read, 64 * KIB));
    rig.now = start + Nanos::from_millis(5000);
    for _ in 0..4 {
        rig.submit(&BioCost::plain(tenant, Op::Read, 64 * KIB));
    }
    while rig.stage.held() > 0 {
        rig.step();
    }
    let times: Vec<u64> =
        rig.went[1..].iter().map(|at| at.unwrap().since(start).get() / 1_000_000).collect();
    assert_eq!(times, [5000, 5125, 5125, 5250]);
}

#[test]
fn a_change_of_limit_carries_what_was_earned() {
    let (mut rig, tenant) = Rig::one(Kernel::V6_18, 100, bps(MIB));
    let start = rig.now;
    let id = rig.submit(&BioCost::plain(tenant, Op::Read, MIB));
    rig.now = start + Nanos::from_millis(500);
    rig.release();
    rig.set(tenant, bps(2 * MIB));
    while rig.went[id as usize].is_none() {
        rig.step();
    }
    assert_eq!(rig.now.since(start), Nanos::from_millis(750));
    // Removing a limit releases its bios at once.
    let id = rig.submit(&BioCost::plain(tenant, Op::Read, MIB));
    rig.set(tenant, Limits::default());
    assert_eq!(
        (rig.stage.is_enabled(), rig.stage.next_wakeup().unwrap() <= rig.now),
        (false, true)
    );
    assert_eq!(rig.release(), [id]);
}

#[test]
fn a_turn_is_six_reads_and_two_writes_and_reads_go_first() {
    let (mut rig, tenant) = Rig::one(Kernel::V6_1, 100, bps(MIB));
    let both = Limits { bps: [MIB, MIB], ..Limits::default() };
    rig.set(tenant, both);
    let mut all = vec![];
    for op in [Op::Read, Op::Write] {
        for _ in 0..10 {
            all.push(rig.submit(&BioCost::plain(tenant, op, MIB)));
        }
    }
    rig.set(tenant, Limits::default());
    assert_eq!(rig.release(), all, "in one run: ten reads, then ten writes");
}

#[test]
fn a_parents_limit_is_shared_by_turns() {
    for limited in [true, false] {
        let mut rig = Rig::new(Kernel::V6_1, 100);
        rig.now = Instant::new(10_000_000_000);
        let parent = rig.tenants.add(ROOT).unwrap();
        let children = [0; 2].map(|_| rig.tenants.add(parent).unwrap());
        rig.set(parent, bps(2 * MIB));
        if limited {
            rig.set(children[0], bps(MIB));
        }
        let end = rig.now + Nanos::from_millis(10_000);
        let mut done = [0u64; 2];
        let mut owner = vec![];
        let mut ready = VecDeque::from([0, 1]);
        loop {
            // Each child submits again when its last bio was released, in the order of the
            // releases.
            while let Some(child) = ready.pop_front() {
                let id = rig.submit(&BioCost::plain(children[child], Op::Read, 64 * KIB));
                owner.push(child);
                if rig.went[id as usize].is_some() {
                    done[child] += 1;
                    ready.push_back(child);
                }
            }
            if rig.stage.next_wakeup().unwrap() >= end {
                break;
            }
            for id in rig.step() {
                done[owner[id as usize]] += 1;
                ready.push_back(owner[id as usize]);
            }
        }
        for (child, mib) in done.map(|bios| bios as f64 / 16.0).into_iter().enumerate() {
            assert!((9.85..=10.1).contains(&mib), "child {child}: {mib} MiB, limited: {limited}");
        }
    }
}

#[test]
fn the_rest_of_a_split_bio_is_one_more_io_and_no_more_bytes() {
    let limits = Limits { iops: [10, UNLIMITED], ..bps(MIB) };
    let (mut rig, tenant) = Rig::one(Kernel::V6_18, 100, limits);
    assert_eq!(rig.submit(&BioCost::plain(tenant, Op::Read, 64 * KIB)), 0);
    let rest = BioCost { first: false, ..BioCost::plain(tenant, Op::Read, 900 * KIB) };
    let start = rig.now;
    let id = rig.submit(&rest);
    while rig.went[id as usize].is_none() {
        rig.step();
    }
    assert_eq!(
        rig.now.since(start),
        Nanos::from_millis(101),
        "one interval of the I/Os and a tick, whatever its bytes"
    );
}

#[test]
fn each_level_and_rule_is_charged_what_it_held() {
    let (mut rig, parent) = Rig::one(Kernel::V6_1, 100, iops(1));
    let child = rig.tenants.add(parent).unwrap();
    rig.set(child, bps(MIB));
    let start = rig.now;
    let both = [0; 2].map(|_| rig.submit(&BioCost::plain(child, Op::Read, MIB)));
    while rig.stage.held() > 0 {
        rig.step();
    }
    let [first, second] = both.map(|bio| rig.went[bio as usize].unwrap().since(start));
    let charged = |cause: Cause| {
        rig.breakdown
            .of(child)
            .iter()
            .find(|row| row.0 == cause)
            .map_or(Nanos::ZERO, |row| row.1.time)
    };
    let at_child = charged(Cause::Limit { level: child, rule: Rule::ReadBps });
    let at_parent = charged(Cause::Limit { level: parent, rule: Rule::ReadIops });
    assert_eq!(
        at_child,
        Nanos::from_millis(3000),
        "a second each, and the second waits for the first"
    );
    assert!(at_parent > Nanos::from_millis(500), "{at_parent:?}");
    assert_eq!(at_child + at_parent, first + second);
}

#[test]
fn a_tenant_without_a_rule_on_its_path_is_let_alone() {
    let (mut rig, ruled) = Rig::one(Kernel::V6_18, 100, bps(MIB));
    let other = rig.tenants.add(ROOT).unwrap();
    let below = rig.tenants.add(ruled).unwrap();
    for _ in 0..100 {
        let id = rig.submit(&BioCost::plain(other, Op::Read, MIB));
        assert!(rig.went[id as usize].is_some());
        let id = rig.submit(&BioCost::plain(ruled, Op::Write, MIB));
        assert!(rig.went[id as usize].is_some(), "the other direction");
    }
    let id = rig.submit(&BioCost::plain(below, Op::Read, MIB));
    assert!(rig.went[id as usize].is_none(), "an ancestor's limit counts");
    let mut flat = IoMax::new(Config {
        flat: true,
        ..Config::from_rules(&Kernel::V6_18.rules(), Hz(250), true)
    });
    flat.set(Instant::ZERO, ruled, bps(MIB));
    assert_eq!(
        flat.admit(Instant::ZERO, &rig.tenants, BioId(0), &BioCost::plain(below, Op::Read, MIB)),
        StageVerdict::Pass
    );
}

fn random_limits(below: &mut dyn FnMut(u64) -> u64, may_be_unlimited: bool) -> Limits {
    let mut any = |unit: u64| {
        if may_be_unlimited && below(2) == 0 { UNLIMITED } else { (1 + below(50)) * unit }
    };
    Limits { bps: [any(100 * KIB), any(100 * KIB)], iops: [any(5), any(5)], ..Limits::default() }
}

/// A tree of tenants, bios of all kinds, limits that change, and tenants that are removed. No bio
/// is lost or doubled, a tenant's bios of a direction keep their order, and every nanosecond of
/// waiting is in the breakdown.
#[test]
fn random_tenants_limits_and_removals() {
    for seed in 0..40u64 {
        let mut rng = elevon_testkit::Rng(seed);
        let mut below = move |n: u64| rng.below(n);
        let kernel = if seed % 8 < 4 { Kernel::V6_1 } else { Kernel::V6_18 };
        let mut rig = Rig::new(kernel, if seed % 3 == 0 { 20 } else { 100 });
        let mut alive = vec![ROOT];
        let (mut who, mut sizes) = (vec![], vec![]);
        let changes = seed % 4 != 0;
        for step in 0..400 {
            let next = rig.now + Nanos::new(below(30_000_000));
            // If windows are checked, calls must not be late: waiting bios would accumulate budget
            // and be released together.
            while !changes && rig.stage.next_wakeup().is_some_and(|at| at <= next) {
                rig.step();
            }
            rig.now = next;
            match below(12) {
                0 => {
                    alive.push(rig.tenants.add(alive[below(alive.len() as u64) as usize]).unwrap());
                }
                1 if alive.len() > 1 && changes => {
                    let at = 1 + below(alive.len() as u64 - 1) as usize;
                    if rig.remove(alive[at]) {
                        alive.remove(at);
                    }
                }
                2 if alive.len() > 1 && (changes || step < 100 && who.is_empty()) => {
                    let limits = random_limits(&mut below, changes);
                    rig.set(alive[1 + below(alive.len() as u64 - 1) as usize], limits);
                }
                3 | 4 => {
                    rig.release();
                }
                5 if changes && below(4) == 0 => rig.withdraw(below(5) as u32),
                _ if !changes && step < 100 => {}
                _ => {
                    let tenant = alive[below(alive.len() as u64) as usize];
                    let op = if below(2) == 0 { Op::Read } else { Op::Write };
                    let first = below(4) > 0;
                    let bytes = (1 + below(64)) * 4 * KIB;
                    rig.submit(&BioCost { first, ..BioCost::plain(tenant, op, bytes) });
                    sizes.push(if first { bytes } else { 0 });
                    who.push((tenant, op));
                }
            }
        }
        while rig.stage.held() > 0 {
            rig.step();
        }
        let waited: u64 =
            (0..who.len()).map(|bio| rig.went[bio].unwrap().since(rig.came[bio]).get()).sum();
        assert_eq!(
            rig.breakdown.iter().map(|(_, _, time)| time.get()).sum::<u64>(),
            waited,
            "seed {seed}"
        );
        if !changes {
            check_windows(&rig, &who, &sizes);
        }
        // After a rule is removed, later bios do not wait behind those that its worker is about to
        // release.
        for key in who.iter().filter(|_| !changes) {
            let mine: Vec<u32> =
                rig.order.iter().copied().filter(|&bio| who[bio as usize] == *key).collect();
            assert!(mine.is_sorted(), "seed {seed}: {key:?} out of order: {mine:?}");
        }
    }
}

/// In any window a tenant below the root gets at most what its rate allows in the window and in
/// four slices (five if a finished one is kept), plus one bio. A slice lives for less than two
/// slices after the last dispatch, at which it was less than one slice old; so it is less than
/// three slices old when a window starts, and another slice is released at the end. Not checked:
/// limits of I/Os, which have no such bound (`limits_of_ios_are_met_in_steps`), and tenants with
/// children, whose slices may start as early as a child's.
fn check_windows(rig: &Rig, who: &[(TenantId, Op)], sizes: &[u64]) {
    let slices = (4 + u64::from(rig.stage.clock.in_series)) * rig.stage.clock.slice;
    let slices = u128::from(slices) * 1_000_000;
    let all = || (1..rig.tenants.ids() as u32).map(TenantId);
    let parent = |id| rig.tenants.parent(id);
    let alone = all()
        .filter(|&id| parent(id) == Some(ROOT) && all().all(|child| parent(child) != Some(id)));
    for (top, op) in alone.flat_map(|top| [(top, Op::Read), (top, Op::Write)]) {
        let rate = rig.stage.limits(top).bps[usize::from(op == Op::Write)];
        let mine = |&&bio: &&u32| who[bio as usize].1 == op && who[bio as usize].0 == top;
        let gone: Vec<u32> = rig.order.iter().filter(mine).copied().collect();
        for from in 0..gone.len() {
            let at = |bio: u32| rig.went[bio as usize].unwrap();
            let mut bytes = 0;
            for &bio in &gone[from..] {
                let window = u128::from(at(bio).since(at(gone[from])).get());
                let earned = u128::from(rate) * (window + slices) / 1_000_000_000;
                assert!(
                    rate == UNLIMITED || bytes <= earned,
                    "{top:?}: {bytes} bytes in {window} ns at {rate}/s"
                );
                bytes += u128::from(sizes[bio as usize]);
            }
        }
    }
}
