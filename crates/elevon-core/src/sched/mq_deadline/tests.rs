//! Worked examples of `block/mq-deadline.c`: `__dd_dispatch_request`,
//! `dd_dispatch_prio_aged_requests`, `dd_merged_requests`; also comparisons with a second model,
//! and measured records.

use super::oracle::Oracle;
use super::*;
use crate::kernel::Kernel;
use crate::request::State;
use crate::sched::testing::{Bed, Rng, bio};
use crate::sched::{AnyScheduler, SchedulerConfig};
use crate::tags::word_shift;
use crate::units::Nanos;
use alloc::string::String;
use alloc::vec;

const ERAS: [Kernel; 3] = [Kernel::V6_1, Kernel::V6_6, Kernel::V6_18];

fn bed(kernel: Kernel, tunables: &[(&str, i64)]) -> Bed<MqDeadline> {
    let mut scheduler = MqDeadline::new(kernel.rules(), Hz(250), 1, 128);
    for (name, value) in tunables {
        scheduler.set_tunable(name, *value);
    }
    Bed::new(kernel, scheduler, 128)
}

fn reads(bed: &mut Bed<MqDeadline>, sectors: impl IntoIterator<Item = u64>) {
    for sector in sectors {
        bed.read(sector);
    }
}
fn writes(bed: &mut Bed<MqDeadline>, sectors: impl IntoIterator<Item = u64>) {
    for sector in sectors {
        bed.write(sector);
    }
}

/// Returns the expected text for 6.1 or for the later kernels.
fn by_era(kernel: Kernel, pointer: &'static str, position: &'static str) -> &'static str {
    if kernel == Kernel::V6_1 { pointer } else { position }
}

/// Returns the served requests as runs of one direction, such as `R32 W16`.
fn runs(served: &str) -> String {
    let mut runs: Vec<(&str, u32)> = vec![];
    for name in served.split(' ') {
        let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
        match runs.last_mut() {
            Some((last, count)) if *last == kind => *count += 1,
            _ => runs.push((kind, 1)),
        }
    }
    let texts: Vec<String> =
        runs.iter().map(|(kind, count)| alloc::format!("{kind}{count}")).collect();
    texts.join(" ")
}

#[test]
fn where_the_first_batch_starts() {
    for kernel in ERAS {
        let mut bed = bed(kernel, &[]);
        reads(&mut bed, [100, 50, 200]);
        assert_eq!(bed.drain(), by_era(kernel, "R100 R200 R50", "R50 R100 R200"));
    }
}

#[test]
fn batches_of_two() {
    for kernel in ERAS {
        let mut bed = bed(kernel, &[("fifo_batch", 2)]);
        reads(&mut bed, (0..8).map(|i| 8 * i));
        writes(&mut bed, (0..4).map(|i| 1000 + 8 * i));
        assert_eq!(
            bed.drain(),
            by_era(
                kernel,
                "R0 R8 R16 R24 W1000 W1008 R32 R40 R48 R56 W1016 W1024",
                "W1000 W1008 R0 R8 R16 R24 W1016 W1024 R32 R40 R48 R56"
            )
        );
    }
}

#[test]
fn forty_eight_reads_and_thirty_two_writes() {
    for kernel in ERAS {
        let mut bed = bed(kernel, &[]);
        reads(&mut bed, (0..48).map(|i| 8 * i));
        writes(&mut bed, (0..32).map(|i| 8 * i));
        assert_eq!(runs(&bed.drain()), by_era(kernel, "R32 W16 R16 W16", "W16 R32 W16 R16"));
    }
}

#[test]
fn an_arrival_just_ahead_of_the_position() {
    for kernel in ERAS {
        let mut bed = bed(kernel, &[("fifo_batch", 4)]);
        reads(&mut bed, (1..=6).map(|i| 10 * i));
        assert_eq!(bed.serve(2), ["R10", "R20"]);
        bed.read(25);
        assert_eq!(bed.drain(), by_era(kernel, "R30 R40 R50 R60 R25", "R25 R30 R40 R50 R60"));
    }
}

#[test]
fn arrivals_after_everything_was_served() {
    for kernel in ERAS {
        let mut bed = bed(kernel, &[]);
        reads(&mut bed, [10, 20, 30]);
        assert_eq!(bed.drain(), "R10 R20 R30");
        reads(&mut bed, [5, 40, 35]);
        assert_eq!(bed.drain(), by_era(kernel, "R5 R35 R40", "R35 R40 R5"));
    }
}

#[test]
fn a_deadline_counts_from_its_very_tick() {
    for (at, order) in [(450, "R20 R3"), (500, "R3 R20")] {
        let mut bed = bed(Kernel::V6_1, &[("fifo_batch", 1)]);
        reads(&mut bed, [10, 3]);
        bed.at(400);
        bed.read(20);
        assert_eq!(bed.serve(1), ["R10"]);
        bed.at(at);
        assert_eq!(bed.drain(), order);
    }
}

#[test]
fn an_expired_head_starts_the_next_batch() {
    for kernel in ERAS {
        let mut bed = bed(kernel, &[("fifo_batch", 2)]);
        bed.read(900);
        bed.at(400);
        reads(&mut bed, [10, 20, 30, 40]);
        assert_eq!(bed.serve(2).join(" "), by_era(kernel, "R900 R10", "R10 R20"));
        bed.at(600);
        assert_eq!(bed.drain(), by_era(kernel, "R20 R30 R40", "R900 R30 R40"));
    }
}

#[test]
fn a_class_in_flight_blocks_the_lower_ones() {
    for kernel in ERAS {
        let mut bed = bed(kernel, &[]);
        let mut ids =
            [PrioClass::Idle, PrioClass::None, PrioClass::Rt].map(|c| bed.insert(Op::Read, 8, c));
        ids.reverse();
        for id in ids {
            assert_eq!(bed.dispatch(), Some(id));
            assert_eq!(bed.dispatch(), None, "it is still in flight");
            bed.finish(id);
        }
        assert!(!bed.scheduler.has_work(HwQueue(0)));
    }
}

#[test]
fn age_lifts_a_lower_class() {
    for kernel in ERAS {
        let mut bed = bed(kernel, &[]);
        bed.read(0);
        for ms in [0, 5000, 9999] {
            bed.at(ms);
            bed.insert(Op::Read, 8, PrioClass::Rt);
            assert_eq!(bed.serve(1), ["rt:R8"]);
        }
        bed.at(10_000);
        bed.insert(Op::Read, 8, PrioClass::Rt);
        assert_eq!(bed.drain(), "R0 rt:R8");
    }
}

#[test]
fn a_failing_probe_resets_the_batch_of_others() {
    for kernel in ERAS {
        for (with_best_effort, order) in [
            (false, by_era(kernel, "rt:R32 rt:W8 rt:R8", "rt:W8 rt:R40")),
            (true, "rt:R40 rt:W8 R1"),
        ] {
            let mut bed = bed(kernel, &[]);
            for i in 0..40 {
                bed.insert(Op::Read, 8 * i, PrioClass::Rt);
            }
            for i in 0..8 {
                bed.insert(Op::Write, 8 * i, PrioClass::Rt);
            }
            if with_best_effort {
                bed.read(0);
            }
            assert_eq!(runs(&bed.drain()), order, "{kernel:?}");
        }
    }
}

#[test]
fn a_request_at_the_head_leaves_the_batch_alone() {
    for kernel in ERAS {
        for requeue in [false, true] {
            let mut bed = bed(kernel, &[("fifo_batch", 4)]);
            reads(&mut bed, (0..8).map(|i| 8 * i));
            writes(&mut bed, (0..8).map(|i| 1000 + 8 * i));
            let first = bed.dispatch().unwrap();
            let x = bed.dispatch().unwrap();
            bed.finish(first);
            if requeue {
                bed.requeue(x);
                assert_eq!(bed.dispatch(), Some(x));
            }
            bed.finish(x);
            assert_eq!(
                runs(&bed.drain()),
                by_era(kernel, "R6 W4 W4", "W2 R8 W4").replace("W4 W4", "W8")
            );
        }
    }
}

#[test]
fn starved_writes_wait_for_the_second_batch() {
    for kernel in ERAS {
        let mut bed = bed(kernel, &[]);
        // Later kernels would continue with writes from the start, so the position is moved past
        // the write that must wait.
        bed.write(5000);
        assert_eq!(bed.drain(), "W5000");
        bed.write(1000);
        reads(&mut bed, (0..48).map(|i| 8 * i));
        assert_eq!(runs(&bed.drain()), "R32 W1 R16");
    }
}

#[test]
fn the_survivor_takes_the_older_place_and_deadline() {
    for (kernel, at) in ERAS.into_iter().flat_map(|kernel| [(kernel, 399), (kernel, 400)]) {
        let mut bed = bed(kernel, &[("fifo_batch", 1), ("read_expire", 400)]);
        bed.read(200);
        let b = bed.read(108);
        bed.at(20);
        bed.read(5000);
        bed.at(50);
        let a = bed.read(100);
        bed.at(60);
        if kernel != Kernel::V6_1 {
            // The position is moved to 200 as well.
            bed.scheduler.classes[BE].position[READ] = Sector::new(150);
        }
        assert_eq!(bed.serve(1), ["R200"]);
        assert_eq!(
            bed.scheduler.neighbour(
                View { requests: &bed.requests, rules: &bed.rules },
                a,
                MergeKind::Back
            ),
            Some(b)
        );
        bed.swallow(a, b);
        assert_eq!(bed.scheduler.slots[a.index()].deadline, 100, "400 ms in ticks");
        bed.at(at);
        assert_eq!(bed.drain(), if at == 400 { "R100 R5000" } else { "R5000 R100" });
        let c = bed.scheduler.counters()[BE];
        assert_eq!((c.inserted, c.merged, c.dispatched, c.completed), (4, 1, 3, 4));
    }
}

#[test]
fn requeued_requests_go_first_newest_first_and_count_once() {
    for kernel in ERAS {
        let mut bed = bed(kernel, &[]);
        reads(&mut bed, [8, 16, 24]);
        let gone = [bed.dispatch().unwrap(), bed.dispatch().unwrap()];
        for it in gone {
            bed.requeue(it);
        }
        assert_eq!(bed.drain(), "R16 R8 R24");
        let c = bed.scheduler.counters()[BE];
        assert_eq!((c.inserted, c.requeued, c.dispatched, c.completed), (3, 2, 5, 3));
    }
}

/// A lower class's requeued request is dispatched before the higher class only if the list is
/// device-wide.
#[test]
fn whose_the_list_at_the_head_is() {
    for (kernel, order) in [(Kernel::V6_6, "rt:R0 R8"), (Kernel::V6_12, "R8 rt:R0")] {
        let mut bed = bed(kernel, &[]);
        let low = bed.read(8);
        assert_eq!(bed.dispatch(), Some(low));
        bed.insert(Op::Read, 0, PrioClass::Rt);
        bed.requeue(low);
        assert_eq!(bed.drain(), order);
    }
}

#[test]
fn merges_are_found_in_the_order_of_the_elevator() {
    let mut bed = bed(Kernel::V6_18, &[]);
    let read = |sector| bio(Op::Read, sector, 8, PrioClass::Be);
    let cached = bed.read(100);
    let other = bed.read(116);
    // The first insertion filled the cache; it is checked at both ends and before everything else.
    assert_eq!(bed.find_merge(&read(108), true), Some((cached, MergeKind::Back)));
    assert_eq!(bed.find_merge(&read(92), true), Some((cached, MergeKind::Front)));
    assert_eq!(bed.find_merge(&read(124), true), None);
    assert_eq!(bed.find_merge(&read(124), false), Some((other, MergeKind::Back)));
    bed.join(&read(124), other, MergeKind::Back);
    // Now the other one is cached, and 108 is found to precede it.
    assert_eq!(bed.find_merge(&read(108), false), Some((other, MergeKind::Front)));
    bed.join(&read(108), other, MergeKind::Front);
    assert_eq!(bed.requests[other].sector, Sector::new(108));
    let view = View { requests: &bed.requests, rules: &bed.rules };
    assert_eq!(bed.scheduler.neighbour(view, other, MergeKind::Front), Some(cached));
    bed.swallow(cached, other);
    assert_eq!(bed.find_merge(&read(132), true), Some((cached, MergeKind::Back)));
    assert_eq!(
        bed.find_merge(&bio(Op::Read, 132, 8, PrioClass::Idle), false),
        None,
        "another class"
    );
    bed.requests[cached].flags |= Flags::NOMERGE;
    assert_eq!(bed.find_merge(&read(132), false), None);
    assert_eq!(bed.drain(), "R100");
}

#[test]
fn front_merges_can_be_switched_off() {
    for (front_merges, found) in [(1, true), (0, false)] {
        let mut bed = bed(Kernel::V6_18, &[("front_merges", front_merges)]);
        bed.read(1000);
        let id = bed.read(100);
        let expected = found.then_some((id, MergeKind::Front));
        assert_eq!(bed.find_merge(&bio(Op::Read, 92, 8, PrioClass::Be), false), expected);
    }
}

#[test]
fn an_inserted_request_is_swallowed_and_may_close_a_gap() {
    let mut bed = bed(Kernel::V6_18, &[]);
    let (left, right) = (bed.read(100), bed.read(116));
    let middle = bed.prepare(Op::Read, 108, PrioClass::Be);
    let find = |bed: &mut Bed<MqDeadline>, id, one_hit| {
        let view = View { requests: &bed.requests, rules: &bed.rules };
        bed.scheduler.find_insert_merge(view, id, one_hit)
    };
    assert_eq!(find(&mut bed, middle, true), Some(left), "it is in the one-hit cache");
    bed.swallow(left, middle);
    assert_eq!(find(&mut bed, left, false), None, "nothing ends where the survivor starts");
    assert_eq!(find(&mut bed, right, false), Some(left));
    let c = bed.scheduler.counters()[BE];
    assert_eq!((c.inserted, c.merged, c.completed), (3, 1, 1));
    let apart = bed.prepare(Op::Write, 116, PrioClass::Be);
    assert_eq!(find(&mut bed, apart, false), None, "another direction");
}

#[test]
fn async_depth_spares_reads() {
    let limit = |kernel: Kernel, depth: u32, async_depth| {
        let mut s = MqDeadline::new(kernel.rules(), Hz(250), 1, 300);
        s.on_depth_updated(depth, word_shift(depth));
        assert_eq!(s.depth_limit(Op::Write, Flags::NONE), None, "the default is no limit");
        s.set_tunable("async_depth", async_depth);
        assert_eq!(s.depth_limit(Op::Read, Flags::NONE), None);
        assert_eq!(s.depth_limit(Op::Write, Flags::SYNC), s.depth_limit(Op::Discard, Flags::NONE));
        s.depth_limit(Op::Write, Flags::NONE)
    };
    assert_eq!(limit(Kernel::V6_18, 256, 192), Some(192));
    // Positions in a word: of 64 tags for 256, of 16 for 64 (10 * 16 / 64 rounded up).
    assert_eq!(limit(Kernel::V6_1, 256, 192), Some(48));
    assert_eq!(limit(Kernel::V6_1, 64, 10), Some(3));
    assert_eq!(limit(Kernel::V6_1, 64, 1), Some(1));
    assert_eq!(limit(Kernel::V6_18, 64, 64), None);
}

#[test]
fn tunables_read_back_in_sysfs_units() {
    let config = SchedulerConfig::parse("mq-deadline:read_expire=501,writes_starved=-1").unwrap();
    let mut any = AnyScheduler::new(&config, Kernel::V6_18.rules(), Hz(250), 2, 4, 512).unwrap();
    let expected = |fifo_batch| {
        vec![
            ("async_depth", 256),
            ("fifo_batch", fifo_batch),
            ("front_merges", 1),
            ("prio_aging_expire", 10000),
            // 126 ticks of 4 ms: times are rounded up to ticks.
            ("read_expire", 504),
            ("write_expire", 5000),
            ("writes_starved", -1),
        ]
    };
    assert_eq!(any.tunables(), expected(16));
    any.set_tunable("fifo_batch", 1).unwrap();
    // As Linux 6.18 does, it takes a negative number for 0.
    any.set_tunable("fifo_batch", -1).unwrap();
    assert_eq!(any.tunables(), expected(0));
    any.set_tunable("fifo_batch", 1).unwrap();
    assert!(any.set_tunable("slice_idle", 1).is_err());
    assert_eq!(any.tunables(), expected(1));
    for row in INFO.tunables.iter().filter(|row| row.name != "async_depth") {
        let fresh = MqDeadline::new(Kernel::V6_18.rules(), Hz(1000), 1, 64);
        assert_eq!(alloc::format!("{}", fresh.tunable(row.name)), row.default, "{}", row.name);
    }
}

#[test]
fn negative_writes_starved_waits_for_the_last_read_and_zero_never() {
    for (writes_starved, order) in [(-1, "R48 W16"), (0, "W16 R48")] {
        let mut bed = bed(Kernel::V6_1, &[("writes_starved", writes_starved)]);
        reads(&mut bed, (0..48).map(|i| 8 * i));
        writes(&mut bed, (0..16).map(|i| 8 * i));
        assert_eq!(runs(&bed.drain()), order);
    }
}

/// If both directions are backlogged, there are exactly `writes_starved` read batches between two
/// write batches if batches are full, as with ascending arrivals. There are at most as many if they
/// may end early, as with random ones.
#[test]
fn p14_share_of_reads_and_writes() {
    for kernel in ERAS {
        for (batch, starved, ascending) in
            [(1, 1, true), (4, 2, true), (16, 3, true), (3, 2, false), (5, 1, false)]
        {
            let mut bed = bed(
                kernel,
                &[("fifo_batch", batch), ("writes_starved", starved), ("read_expire", 1 << 30)],
            );
            let (mut rng, mut top) = (Rng(9), 0);
            let mut served = vec![];
            let mut queued = [0, 0];
            for _ in 0..1000 {
                for (direction, count) in queued.iter_mut().enumerate() {
                    while *count < 40 {
                        top += 8;
                        let sector = if ascending { top } else { rng.below(1 << 20) };
                        if direction == READ {
                            bed.read(sector)
                        } else {
                            bed.write(sector)
                        };
                        *count += 1;
                    }
                }
                let name = bed.serve(1).remove(0);
                queued[usize::from(name.starts_with('W'))] -= 1;
                served.push(name);
            }
            let text = runs(&served.join(" "));
            // The first and the last run may be incomplete.
            let inner: Vec<&str> = text.split(' ').skip(2).collect();
            for run in &inner[..inner.len() - 1] {
                let (kind, count) = (run.as_bytes()[0], run[1..].parse::<i64>().unwrap());
                let full = if kind == b'R' { batch * starved } else { batch };
                assert!(
                    if ascending { count == full } else { count <= full },
                    "{kernel:?} {batch} {starved}: {run}"
                );
            }
        }
    }
}

/// Counts the requests that are dispatched before an expired head of a FIFO.
#[test]
fn p15_an_expired_request_waits_a_bounded_number_of_dispatches() {
    let mut waited = [0; 2];
    for seed in 0..60 {
        let mut rng = Rng(seed);
        let kernel = rng.pick(&ERAS);
        let (batch, starved) = (1 + rng.below(8) as i64, 1 + rng.below(3) as i64);
        let expiries = [("read_expire", 40), ("write_expire", 100)];
        let mut bed = bed(
            kernel,
            &[("fifo_batch", batch), ("writes_starved", starved), expiries[0], expiries[1]],
        );
        let mut fifos: [Vec<(RequestId, i64)>; 2] = [vec![], vec![]];
        let mut passed = [0i64; 2];
        let mut ms = 0;
        for _ in 0..1500 {
            ms += rng.below(4);
            bed.at(ms);
            if rng.one_in(2) && fifos[0].len() + fifos[1].len() < 100 {
                let op = rng.pick(&[Op::Read, Op::Write]);
                let direction = direction_of(op);
                let id = bed.insert(op, rng.below(1 << 16), PrioClass::Be);
                fifos[direction].push((id, bed.scheduler.slots[id.index()].deadline));
                continue;
            }
            let tick = (bed.now.get() / 4_000_000) as i64;
            let expired =
                fifos.each_ref().map(|f| f.first().filter(|head| head.1 <= tick).copied());
            let Some(id) = bed.dispatch() else { continue };
            for direction in [READ, WRITE] {
                let bound = batch - 1 + if direction == READ { batch } else { starved * batch };
                match expired[direction] {
                    Some((head, _)) if head != id => passed[direction] += 1,
                    _ => passed[direction] = 0,
                }
                assert!(
                    passed[direction] <= bound,
                    "seed {seed} {kernel:?}: {} > {bound}",
                    passed[direction]
                );
                waited[direction] = waited[direction].max(passed[direction]);
                fifos[direction].retain(|r| r.0 != id);
            }
            bed.finish(id);
        }
    }
    assert!(waited.iter().all(|&w| w > 3), "the runs hardly tried it: {waited:?}");
}

/// A random run compared with the oracle after every step; the log has the names of the dispatched
/// requests.
struct Duel {
    bed: Bed<MqDeadline>,
    oracle: Oracle,
    rng: Rng,
    in_flight: Vec<RequestId>,
    /// Tick of insertion as the scheduler computes it; `None` after expiries changed.
    arrivals: Vec<Option<i64>>,
    log: Vec<String>,
    merges: u32,
    /// At present more requests arrive than leave.
    filling: bool,
}

const CLASSES: [PrioClass; 7] = {
    use PrioClass::{Be, Idle, None, Rt};
    [Rt, Rt, Be, Be, Be, None, Idle]
};

impl Duel {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let kernel = rng.pick(&ERAS);
        let oracle = Oracle::new(kernel.rules(), 128, 250);
        // Half of the runs start with tables that are too small for later requests.
        let requests = rng.pick(&[4, 128]);
        let bed = Bed::new(kernel, MqDeadline::new(kernel.rules(), Hz(250), 1, requests), 128);
        let mut duel = Self {
            bed,
            oracle,
            rng,
            in_flight: vec![],
            arrivals: vec![None; 128],
            log: vec![],
            merges: 0,
            filling: true,
        };
        for _ in 0..4 {
            duel.tune();
        }
        duel
    }

    fn tick(&self) -> i64 {
        (self.bed.now.get() / 4_000_000) as i64
    }

    fn tune(&mut self) {
        let rng = &mut self.rng;
        let (s, o) = (&mut self.bed.scheduler, &mut self.oracle);
        match rng.below(6) {
            0 => o.fifo_batch = rng.pick(&[0, 1, 2, 5, 16]),
            1 => o.writes_starved = rng.pick(&[-1, 0, 1, 2, 3]),
            2 => o.front_merges = rng.one_in(2),
            3 => o.aging = rng.pick(&[0, 5, 25, 2500]),
            direction => o.expire[direction as usize - 4] = rng.pick(&[0, 3, 30, 125]),
        }
        let ms = |ticks: i64| ticks * 4;
        for (name, value) in [
            ("fifo_batch", o.fifo_batch.into()),
            ("writes_starved", o.writes_starved.into()),
            ("front_merges", o.front_merges.into()),
            ("prio_aging_expire", ms(o.aging)),
            ("read_expire", ms(o.expire[READ])),
            ("write_expire", ms(o.expire[WRITE])),
        ] {
            s.set_tunable(name, value);
            assert_eq!(s.tunable(name), value);
        }
        self.arrivals.fill(None);
    }

    fn random_op(&mut self) -> Op {
        self.rng.pick(&[
            Op::Read,
            Op::Read,
            Op::Read,
            Op::Write,
            Op::Write,
            Op::Discard,
            Op::WriteZeroes,
        ])
    }

    fn insert(&mut self) {
        let (op, class) = (self.random_op(), self.rng.pick(&CLASSES));
        let sector = 8 * self.rng.below(40);
        let id = self.bed.prepare(op, sector, class);
        if self.rng.one_in(10) {
            self.bed.requests[id].flags |= Flags::FUA;
        }
        let one_hit = self.rng.one_in(4);
        let mut candidate = id;
        while let Some(survivor) = self.find_insert_merge(candidate, one_hit) {
            if self.rng.one_in(5) {
                // The limits refuse the merge.
                break;
            }
            self.swallow(survivor, candidate);
            candidate = survivor;
        }
        if candidate == id {
            self.oracle.insert(self.tick(), &self.bed.requests, id.0, false);
            self.bed.insert_prepared(id, false);
            self.arrivals[id.index()] = Some(self.tick());
        }
    }

    fn find_insert_merge(&mut self, id: RequestId, one_hit: bool) -> Option<RequestId> {
        let view = View { requests: &self.bed.requests, rules: &self.bed.rules };
        let found = self.bed.scheduler.find_insert_merge(view, id, one_hit);
        let expected = self.oracle.find_insert_merge(&self.bed.requests, id.0, one_hit);
        assert_eq!(found.map(|id| id.0), expected);
        found
    }

    fn swallow(&mut self, survivor: RequestId, swallowed: RequestId) {
        self.oracle.swallowed(&self.bed.requests, survivor.0, swallowed.0);
        self.oracle.finish(swallowed.0);
        self.bed.swallow(survivor, swallowed);
        self.arrivals[survivor.index()] = None;
        self.merges += 1;
    }

    fn merge_bio(&mut self) {
        let (op, class) = (self.random_op(), self.rng.pick(&CLASSES));
        let bio = bio(op, 8 * self.rng.below(40), 8, class);
        let one_hit = self.rng.one_in(4);
        let found = self.bed.find_merge(&bio, one_hit);
        let expected = self.oracle.find_merge(&self.bed.requests, &bio, one_hit);
        assert_eq!(found.map(|(id, kind)| (id.0, kind)), expected);
        let Some((id, kind)) = found else { return };
        if self.rng.one_in(6) {
            self.bed.requests[id].flags |= Flags::NOMERGE;
            return;
        }
        self.bed.join(&bio, id, kind);
        self.oracle.joined(&self.bed.requests, id.0, kind);
        self.merges += 1;
        let view = View { requests: &self.bed.requests, rules: &self.bed.rules };
        let neighbour = self.bed.scheduler.neighbour(view, id, kind);
        assert_eq!(neighbour.map(|n| n.0), self.oracle.neighbour(id.0, kind == MergeKind::Back));
        let Some(neighbour) = neighbour else { return };
        let (left, right) = if kind == MergeKind::Back { (id, neighbour) } else { (neighbour, id) };
        let (l, r) = (&self.bed.requests[left], &self.bed.requests[right]);
        if l.end() == r.sector && crate::merge::requests_are_compatible(&self.bed.rules, l, r) {
            self.swallow(left, right);
        }
    }

    fn dispatch(&mut self) {
        let tick = self.tick();
        let (before, at_head) = (self.bed.scheduler.counters(), self.bed.scheduler.at_head.first());
        let expected = self.oracle.dispatch(tick);
        let got = self.bed.dispatch();
        assert_eq!(got.map(|id| id.0), expected, "after {:?}", self.log);
        let Some(id) = got else { return };
        // No higher class has outstanding requests, or this request is aged.
        let class = self.bed.requests[id].ioprio.class().rank();
        let blocked = before[..class].iter().any(|c| c.outstanding() > 0);
        if let Some(arrival) = self.arrivals[id.index()].filter(|_| blocked && at_head != got) {
            assert!(arrival <= tick - self.oracle.aging, "request {} passed a higher class", id.0);
        }
        self.log.push(self.bed.name(id));
        self.in_flight.push(id);
    }

    fn step(&mut self) {
        self.filling ^= self.rng.one_in(80);
        let action = self.rng.below(24);
        match if self.filling && action >= 12 { action - 12 } else { action } {
            0..=6
                if self.bed.requests.iter().filter(|(_, r)| r.state != State::Free).count()
                    < 120 =>
            {
                self.insert();
            }
            0..=7 => self.merge_bio(),
            8..=15 => self.dispatch(),
            16..=19 if !self.in_flight.is_empty() => {
                let id = self
                    .in_flight
                    .swap_remove(self.rng.below(self.in_flight.len() as u64) as usize);
                self.oracle.finish(id.0);
                self.bed.finish(id);
            }
            20 if !self.in_flight.is_empty() => {
                let id = self.in_flight.pop().unwrap();
                self.arrivals[id.index()] = None;
                self.oracle.insert(self.tick(), &self.bed.requests, id.0, true);
                self.bed.requeue(id);
            }
            21 if self.rng.one_in(20) => self.tune(),
            _ => {
                let span = self.rng.pick(&[0, 1_000_000, 4_000_000, 90_000_000]);
                self.bed.now = self.bed.now + Nanos::new(span);
            }
        }
        assert_eq!(self.bed.scheduler.counters(), self.oracle.counters);
        assert_eq!(self.bed.scheduler.has_work(HwQueue(0)), !self.oracle.is_empty());
        // No request is lost: insertions and requeues equal dispatches, merges and queued requests.
        for (class, c) in self.bed.scheduler.counters().iter().enumerate() {
            let queued = self.oracle.queued_in(class) as u32;
            assert_eq!(c.inserted + c.requeued, c.dispatched + c.merged + queued);
        }
    }
}

#[test]
fn agrees_with_the_oracle_at_every_step() {
    let (mut merges, mut dispatched) = (0, 0);
    for seed in 0..400 {
        let run = |seed| {
            let mut duel = Duel::new(seed);
            (0..700).for_each(|_| duel.step());
            (duel.log, duel.merges)
        };
        let first = run(seed);
        // The same inputs and clock give the same outputs.
        if seed < 10 {
            assert_eq!(first, run(seed));
        }
        (merges, dispatched) = (merges + first.1, dispatched + first.0.len());
    }
    assert!(
        merges > 5_000 && dispatched > 10_000,
        "the runs hardly did anything: {merges} merges, {dispatched} dispatches"
    );
}
