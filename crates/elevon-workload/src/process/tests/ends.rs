//! What ends a loop or a job: amounts, run times, gaps, errors and minimum rates.

use super::*;

#[test]
fn runtime_ends_the_issuing_and_the_rest_counts() {
    let spec = job(|s| {
        deep(s, 4);
        timed(s, 1050 * US);
    });
    let bench = Bench::new(&spec).run();
    let read = &bench.stats().directions[0];
    assert_eq!((bench.ended(), read.ios, read.runtime_ns), (1100 * US, 44, 1100 * US));
    // Without time_based, the size may end it earlier.
    let spec = job(|s| s.timing.runtime = Nanos::new(SECOND));
    assert_eq!(Bench::new(&spec).run().ended(), 256 * 100 * US);
}

#[test]
fn ramp_time_is_not_measured_and_adds_to_the_runtime() {
    let spec = job(|s| {
        timed(s, 10 * MS);
        s.timing.ramp_time = Nanos::new(5 * MS);
    });
    let bench = Bench::new(&spec).run();
    let read = &bench.stats().directions[0];
    assert_eq!((bench.ended(), read.runtime_ns), (15 * MS, 10 * MS));
    // The I/O that completes at the very end of the ramp counts: measuring begins at 5 ms.
    assert_eq!((read.ios, bench.seen.len()), (101, 150));
}

#[test]
fn amounts() {
    let count = |edit: fn(&mut JobSpec)| Bench::new(&job(edit)).run().seen.len();
    assert_eq!(count(|s| s.timing.loops = 3), 768);
    assert_eq!(count(|s| s.timing.number_ios = Some(10)), 10);
    assert_eq!(count(|s| s.space.io_size = Some(Amount::Bytes(64 * 1024))), 16);
    assert_eq!(count(|s| s.space.io_size = Some(Amount::Bytes(3 << 20))), 768);
    // The last I/O goes beyond io_size.
    assert_eq!(count(|s| s.space.io_size = Some(Amount::Bytes(64 * 1024 + 1))), 17);
    assert_eq!(count(|s| s.space.io_size = Some(Amount::Bytes(1))), 1);
    // What it moves beyond it counts in the next loop.
    assert_eq!(
        count(|s| (s.space.io_size, s.timing.loops) = (Some(Amount::Bytes(6 * 1024)), 4)),
        6
    );
    assert_eq!(count(|s| s.blocks.sizes[0] = BlockSizes::Range(300 * 1024, 300 * 1024)), 3);
    // number_ios does not extend the size.
    assert_eq!(count(|s| s.timing.number_ios = Some(1000)), 256);
}

#[test]
fn every_block_once_a_loop_at_any_depth() {
    for depth in [1, 7, 64] {
        let spec = job(|s| {
            deep(s, depth);
            s.rw.random = true;
            s.timing.loops = 2;
        });
        let bench = Bench::new(&spec).run();
        for pass in bench.seen.chunks(256) {
            let mut blocks: Vec<u64> = pass.iter().map(|s| (s.offset - START) / BLOCK).collect();
            blocks.sort_unstable();
            assert!(blocks.into_iter().eq(0..256));
        }
    }
}

#[test]
fn number_ios_bounds_each_loop_and_counts_after_the_ramp() {
    let count = |edit: fn(&mut JobSpec)| {
        let bench = Bench::new(&job(|s| {
            s.timing.number_ios = Some(10);
            edit(s);
        }));
        bench.run().stats().directions[0].ios
    };
    assert_eq!(count(|s| s.timing.loops = 3), 30);
    assert_eq!(count(|s| timed(s, 10 * MS)), 100);
    assert_eq!(count(|s| s.timing.ramp_time = Nanos::new(MS / 2)), 10);
}

#[test]
fn gaps_end_a_loop_at_the_end_of_the_region() {
    let offsets = |edit: fn(&mut JobSpec)| {
        let bench = Bench::new(&job(|s| {
            s.space.size = Some(Amount::Bytes(8 * BLOCK));
            s.rw.sequential_skip = BLOCK as i64;
            edit(s);
        }));
        bench.run().seen.iter().map(|seen| (seen.offset - START) / BLOCK).collect::<Vec<_>>()
    };
    assert_eq!(offsets(|_| ()), [0, 2, 4, 6]);
    assert_eq!(offsets(|s| s.timing.loops = 2), [0, 2, 4, 6, 0, 2, 4, 6]);
    assert_eq!(offsets(|s| s.space.io_size = Some(Amount::Bytes(6 * BLOCK))), [0, 2, 4, 6, 0, 2]);
    assert_eq!(offsets(|s| timed(s, 500 * US)), [0, 2, 4, 6, 0]);
}

#[test]
fn a_full_device_ends_a_job_that_fills_it_without_an_error() {
    for verify in [None, Some(VerifyMethod::Meta)] {
        let full = |edit: fn(&mut JobSpec)| {
            let mut bench = Bench::new(&job(|s| {
                writes(s);
                s.verify.method = verify;
                edit(s);
            }));
            bench.memory = Some(vec![0; (START + (1 << 20)) as usize]);
            bench.fail = Some((9, Status::NoSpace));
            bench.run()
        };
        let filled = full(|s| {
            (s.space.fill_device, s.timing.loops, s.durability.end_fsync) = (true, 3, true);
        });
        let read_back = if verify.is_some() { "r".repeat(9) } else { String::new() };
        assert_eq!((filled.ops(), filled.stats().error), ("w".repeat(10) + "f" + &read_back, 0));
        assert_eq!((filled.stats().directions[1].ios, filled.stats().directions[1].errors), (9, 0));
        assert_eq!(full(|_| {}).stats().error, Status::NoSpace.errno());
    }
}

#[test]
fn failing_a_minimum_ends_the_job() {
    let spec = job(|s| {
        s.rates.min_iops[0] = Some(20_000);
        timed(s, 10 * SECOND);
    });
    let bench = Bench::new(&spec).run();
    assert_eq!(bench.stats().error, 5);
    assert_eq!(bench.ended(), SECOND);
}

#[test]
fn a_slower_io_than_max_latency_ends_the_job() {
    let run = |edit: fn(&mut JobSpec)| {
        let bench = Bench::new(&job(edit)).run();
        (bench.stats().error, bench.seen.len())
    };
    assert_eq!(run(|s| s.latency.max = [Nanos::new(100 * US); 3]), (0, 256));
    assert_eq!(run(|s| s.latency.max = [Nanos::new(99 * US); 3]), (110, 1));
    assert_eq!(run(|s| s.latency.max[1] = Nanos::new(99 * US)), (0, 256));
}

#[test]
fn minimum_rates_are_of_directions_that_occur() {
    let error = |minimum| {
        let spec = job(|s| {
            timed(s, 3 * SECOND);
            s.rates.iops[0] = Some(500);
            s.rates.min_iops = [Some(minimum); 3];
        });
        Bench::new(&spec).run().stats().error
    };
    assert_eq!((error(400), error(600)), (0, 5));
}
