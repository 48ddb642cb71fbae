//! Compares BFQ with Linux 6.18 on an exactly known device: 8 slots of 2 ms, or one of 5 ms. The
//! 0.15 ms that the measured path added to each I/O are part of the latency here.

mod closed_loop;

use closed_loop::{Outcome, Process, RANDOM_4K, Slots, run};
use elevon_core::ioprio::PrioClass;
use elevon_core::op::Op;
use elevon_core::units::Nanos;

const FLASH: Slots = Slots {
    slots: 8,
    latency: Nanos::from_micros(2150),
    bandwidth: 500_000_000,
    rotational: false,
    crowding: 0,
};
const DISK: Slots = Slots {
    slots: 1,
    latency: Nanos::from_micros(5150),
    bandwidth: 80_000_000,
    rotational: true,
    crowding: 0,
};
const SECONDS_6: Nanos = Nanos::from_secs(6);

/// Checks that every process is within `percent` of the kernel's I/Os per second. A starved one
/// (under 2 % of the total) may have less, and at most half a percent of the total more.
fn check(name: &str, outcome: &Outcome, kernel: &[f64], percent: f64) {
    let total = kernel.iter().sum::<f64>();
    for (process, (&ours, &theirs)) in outcome.iops.iter().zip(kernel).enumerate() {
        let right = if theirs < total / 50.0 {
            ours <= theirs + total / 200.0
        } else {
            (ours / theirs - 1.0).abs() * 100.0 <= percent
        };
        assert!(
            right,
            "{name}: process {process} has {ours:.1}, in the kernel {theirs:.1} ({:?})",
            outcome.iops
        );
    }
}

fn five(weighted: bool) -> Vec<Process> {
    (0..5).map(|n| Process { level: if weighted { n } else { 4 }, ..RANDOM_4K }).collect()
}

fn stream(class: PrioClass, level: u8, n: u64) -> Process {
    let offset = n << 20;
    Process {
        sequential: true,
        bytes: 256 << 10,
        class,
        level,
        offset,
        sectors: 819_200,
        ..RANDOM_4K
    }
}

fn deep(class: PrioClass, level: u8, depth: u32) -> Process {
    Process { bytes: 64 << 10, class, level, depth, ..RANDOM_4K }
}

#[test]
fn readers_of_flash() {
    let off = "bfq:low_latency=0";
    check("depth 1", &run(FLASH, off, &[], &[RANDOM_4K], SECONDS_6, 1), &[458.5], 10.0);
    let deep = Process { depth: 32, ..RANDOM_4K };
    check("depth 32", &run(FLASH, off, &[], &[deep], SECONDS_6, 1), &[3798.4], 10.0);
    let equal = [463.5, 462.6, 463.1, 463.2, 463.0];
    check("five equal", &run(FLASH, off, &[], &five(false), SECONDS_6, 1), &equal, 10.0);
    let all = [464.6, 464.8, 464.9, 464.4, 464.5];
    check(
        "never wait",
        &run(FLASH, "bfq:low_latency=0,slice_idle=0", &[], &five(true), SECONDS_6, 1),
        &all,
        10.0,
    );
    // With slots of 125 ms in six seconds, the lightest has six or seven of them.
    let strict = [124.5, 106.8, 89.1, 75.9, 67.4];
    let outcome =
        run(FLASH, "bfq:low_latency=0,strict_guarantees=1", &[], &five(true), SECONDS_6, 1);
    check("strict", &outcome, &strict, 15.0);
}

#[test]
fn a_reader_beside_a_deep_writer() {
    let reader = Process { sectors: 1 << 20, ..RANDOM_4K };
    let half = 1 << 20;
    let writer = Process {
        op: Op::Write,
        sequential: true,
        bytes: 256 << 10,
        depth: 32,
        offset: half,
        sectors: half,
        ..RANDOM_4K
    };
    let outcome = run(FLASH, "bfq:low_latency=0", &[], &[reader, writer], SECONDS_6, 1);
    check("reader and writer", &outcome, &[95.3, 2979.2], 10.0);
}

#[test]
fn classes_and_levels_on_a_disk() {
    let off = "bfq:low_latency=0";
    for (name, a, b, kernel) in [
        ("RT 0 and BE 7", stream(PrioClass::Rt, 0, 0), stream(PrioClass::Be, 7, 1), [117.9, 0.2]),
        ("BE 0 and BE 7", stream(PrioClass::Be, 0, 0), stream(PrioClass::Be, 7, 1), [102.9, 13.8]),
        ("BE 4 and IDLE", stream(PrioClass::Be, 4, 0), stream(PrioClass::Idle, 7, 1), [112.6, 4.0]),
        ("deep RT and BE", deep(PrioClass::Rt, 0, 4), deep(PrioClass::Be, 4, 16), [167.5, 2.6]),
    ] {
        check(name, &run(DISK, off, &[], &[a, b], SECONDS_6, 1), &kernel, 10.0);
    }
    check(
        "deep",
        &run(DISK, off, &[], &[deep(PrioClass::Be, 4, 64)], SECONDS_6, 1),
        &[167.3],
        10.0,
    );
}

/// Processes of one priority that start together share a queue for good, because the disk was no
/// disk yet when BFQ started: they are served by position, one request each in turn.
#[test]
fn processes_that_start_together_share_a_queue() {
    let off = "bfq:low_latency=0";
    let at =
        |n: u64, process: Process| Process { offset: n * 696_320, sectors: 614_400, ..process };
    let reader = at(0, Process { bytes: 128 << 10, ..stream(PrioClass::Be, 4, 0) });
    let three = [reader, at(1, RANDOM_4K), at(2, RANDOM_4K)];
    check("a stream", &run(DISK, off, &[], &three, SECONDS_6, 1), &[57.5, 57.7, 57.5], 5.0);
    // Two groups of equal weight, one process of depth 8 in one and three in the other: a slot of
    // the one process passes while the device serves what the three have there.
    let four = [1, 2, 2, 2].map(|tenant| Process { tenant, ..deep(PrioClass::Be, 4, 8) });
    let outcome = run(DISK, off, &[(0, 100), (0, 100)], &four, Nanos::from_secs(8), 1);
    check("one and three", &outcome, &[36.8, 43.6, 45.3, 43.5], 12.0);
}

#[test]
fn groups_by_weight() {
    let (off, seconds) = ("bfq:low_latency=0", Nanos::from_secs(8));
    let in_group = |process: Process, tenant| Process { tenant, ..process };
    for (weight, kernel) in [(300, [29.5, 88.1]), (100, [59.6, 58.1])] {
        let two = [1, 2].map(|n| in_group(stream(PrioClass::Be, 4, n - 1), n as u32));
        check(
            "streams",
            &run(DISK, off, &[(0, 100), (0, weight)], &two, seconds, 1),
            &kernel,
            10.0,
        );
    }
    let two = [1, 2].map(|n| Process { depth: 16, tenant: n, ..RANDOM_4K });
    check(
        "deep",
        &run(FLASH, off, &[(0, 100), (0, 400)], &two, seconds, 1),
        &[770.6, 3058.9],
        10.0,
    );
}

/// Five readers with weights 80 to 40 and one request each. The kernel's runs of this case are
/// chaotic: between 27 and 51 % of the device's throughput, with shares that follow the weights in
/// none of them.
#[test]
fn injection_by_weight_keeps_shares_and_throughput() {
    let of = |inject: &str| {
        run(FLASH, &format!("bfq:low_latency=0,inject={inject}"), &[], &five(true), SECONDS_6, 1)
    };
    let unfairness = |outcome: &Outcome| {
        let shares = outcome.iops.iter().zip([80.0, 70.0, 60.0, 50.0, 40.0]);
        shares
            .map(|(iops, weight)| (iops / outcome.total() - weight / 300.0).abs())
            .fold(0.0, f64::max)
    };
    let (off, seed, fair) = (of("off"), of("seed"), of("fair"));
    let none = 5.0 * 463.3;
    assert!(off.total() < 0.25 * none, "{:?}", off.iops);
    // Full throughput, but shares do not follow weights.
    assert!(seed.total() > 0.98 * none && unfairness(&seed) > 0.06, "{:?}", seed.iops);
    // The heaviest has at most one request after the other, so weights allow at most 300/80 of 5.
    assert!(fair.total() > 0.65 * none && fair.total() <= 0.76 * none, "{:?}", fair.iops);
    assert!(unfairness(&fair) < 0.01, "{:?}", fair.iops);
    assert!(
        fair.longest.iter().all(|&longest| longest < Nanos::from_millis(130)),
        "{:?}",
        fair.longest
    );
}

/// Proposal 002's case. The device is fitted to two of its three published figures: 164 us for a
/// single request give the 25 MB/s of waiting, and 186 us with five requests the 110 MB/s of none,
/// so these two only check the fit. The effects of schedulers are not fitted: shares by weight, the
/// throughput of none under the proposal's rule, and no injection with four processes.
#[test]
fn the_published_case() {
    let plextor = Slots {
        slots: 32,
        latency: Nanos::from_micros(164),
        bandwidth: 0,
        rotational: false,
        crowding: 5576,
    };
    let processes = [0, 2, 4, 6, 7].map(|level| Process { level, sectors: 1 << 21, ..RANDOM_4K });
    let megabytes = |scheduler: &str, processes: &[Process]| {
        let outcome = run(plextor, scheduler, &[], processes, Nanos::from_secs(10), 1);
        (outcome.total() * 4096.0 / 1e6, outcome)
    };
    let near = |what: &str, ours: f64, expected: f64, percent: f64| {
        assert!(
            (ours / expected - 1.0).abs() * 100.0 <= percent,
            "{what}: {ours}, not {expected} within {percent} %"
        );
    };
    let (alone, _) = megabytes("none", &processes[..1]);
    let (none, _) = megabytes("none", &processes);
    near("fitted: one process", alone, 25.0, 1.0);
    near("fitted: five processes", none, 110.0, 1.0);

    let (waiting, outcome) = megabytes("bfq:low_latency=0,inject=off", &processes);
    near("waiting leaves one request at a time", waiting, alone, 2.0);
    for (iops, weight) in outcome.iops.iter().zip([80.0, 60.0, 40.0, 20.0, 10.0]) {
        assert!((iops / outcome.total() - weight / 210.0).abs() < 0.01, "{:?}", outcome.iops);
    }
    let (injected, outcome) = megabytes("bfq:low_latency=0,inject=seed", &processes);
    near("the rule keeps all five in the device", injected, none, 2.0);
    let share = |i: usize| outcome.iops[i] / outcome.total();
    assert!((0..5).all(|i| (share(i) - 0.2).abs() < 0.01), "{:?}", outcome.iops);
    assert_eq!(outcome.device_queues, Some(true));
    // With four processes the depth never exceeds four, and the first version decides that the
    // device does not queue commands.
    let (four, outcome) = megabytes("bfq:low_latency=0,inject=seed", &processes[..4]);
    assert_eq!(outcome.device_queues, Some(false));
    near("four processes are served one at a time", four, alone, 2.0);
}
