//! BFQ against what Linux 6.18 did on a device known exactly (8 slots of 2 ms, or one of 5 ms; 0.15 ms of overhead for each I/O).

mod closed_loop;

use closed_loop::{Outcome, Process, RANDOM_4K, Slots, run};
use elevon_core::ioprio::PrioClass;
use elevon_core::op::Op;
use elevon_core::units::Nanos;

const FLASH: Slots =
    Slots { slots: 8, latency: Nanos::from_micros(2150), bandwidth: 500_000_000, rotational: false, crowding: 0 };
const DISK: Slots =
    Slots { slots: 1, latency: Nanos::from_micros(5150), bandwidth: 80_000_000, rotational: true, crowding: 0 };

fn show(name: &str, o: &Outcome) {
    let iops: Vec<String> = o.iops.iter().map(|i| format!("{i:.1}")).collect();
    let longest: Vec<u64> = o.longest.iter().map(|l| l.as_millis()).collect();
    println!("{name}: {} total {:.0} longest {longest:?} ms hw_tag {:?}", iops.join(" "), o.total(), o.device_queues);
}

fn five() -> Vec<Process> {
    (0..5).map(|level| Process { level, start: Nanos::from_micros(u64::from(level) * 300), ..RANDOM_4K }).collect()
}

#[test]
fn everything() {
    let secs = Nanos::from_secs(6);
    for seed in 1..5 {
        for text in [
            "bfq:low_latency=0",
            "bfq:low_latency=1",
            "bfq:low_latency=0,strict_guarantees=1",
            "bfq:low_latency=0,slice_idle=0",
            "bfq:low_latency=0,inject=off",
            "bfq:low_latency=0,inject=seed",
            "bfq:low_latency=0,inject=fair",
            "bfq:low_latency=1,inject=fair",
        ] {
            show(&format!("five weights {text}"), &run(FLASH, text, &[], &five(), secs, seed));
        }
        show(
            "five weights rot",
            &run(Slots { rotational: true, ..FLASH }, "bfq:low_latency=0", &[], &five(), secs, seed),
        );
    }
    let equal: Vec<Process> = (0..5).map(|_| RANDOM_4K).collect();
    show("five equal", &run(FLASH, "bfq:low_latency=0", &[], &equal, secs, 1));
    show("qd1", &run(FLASH, "bfq:low_latency=0", &[], &[RANDOM_4K], secs, 1));
    show("qd32", &run(FLASH, "bfq:low_latency=0", &[], &[Process { depth: 32, ..RANDOM_4K }], secs, 1));
    let reader = Process { sectors: 1 << 20, ..RANDOM_4K };
    let writer = Process {
        op: Op::Write,
        sequential: true,
        bytes: 256 << 10,
        depth: 32,
        offset: 1 << 20,
        sectors: 1 << 20,
        ..RANDOM_4K
    };
    show("reader vs writer", &run(FLASH, "bfq:low_latency=0", &[], &[reader, writer], secs, 1));
    let seq = |class, level, n: u64| Process {
        sequential: true,
        bytes: 256 << 10,
        class,
        level,
        offset: n << 20,
        sectors: 819200,
        ..RANDOM_4K
    };
    for (name, a, b) in [
        ("rt0 be7", seq(PrioClass::Rt, 0, 0), seq(PrioClass::Be, 7, 1)),
        ("be0 be7", seq(PrioClass::Be, 0, 0), seq(PrioClass::Be, 7, 1)),
        ("be4 idle", seq(PrioClass::Be, 4, 0), seq(PrioClass::Idle, 7, 1)),
    ] {
        show(name, &run(DISK, "bfq:low_latency=0", &[], &[a, b], secs, 1));
    }
    let deep = |class, level, depth| Process { bytes: 64 << 10, class, level, depth, ..RANDOM_4K };
    show(
        "rt be deep",
        &run(DISK, "bfq:low_latency=0", &[], &[deep(PrioClass::Rt, 0, 4), deep(PrioClass::Be, 4, 16)], secs, 1),
    );
    show("util deep", &run(DISK, "bfq:low_latency=0", &[], &[deep(PrioClass::Be, 4, 64)], secs, 1));
    let in_group = |p: Process, tenant| Process { tenant, ..p };
    for w in [300, 100] {
        let two = [in_group(seq(PrioClass::Be, 4, 0), 1), in_group(seq(PrioClass::Be, 4, 1), 2)];
        show("groups seq", &run(DISK, "bfq:low_latency=0", &[(0, 100), (0, w)], &two, Nanos::from_secs(8), 1));
    }
    let d = deep(PrioClass::Be, 4, 8);
    let four = [in_group(d, 1), in_group(d, 2), in_group(d, 2), in_group(d, 2)];
    show("one vs three", &run(DISK, "bfq:low_latency=0", &[(0, 100), (0, 100)], &four, Nanos::from_secs(8), 1));
    let d = Process { depth: 16, ..RANDOM_4K };
    show(
        "groups deep",
        &run(
            FLASH,
            "bfq:low_latency=0",
            &[(0, 100), (0, 400)],
            &[in_group(d, 1), in_group(d, 2)],
            Nanos::from_secs(8),
            1,
        ),
    );
}
