//! Rates and think times.

use super::*;

#[test]
fn thinking() {
    let think = |edit: fn(&mut JobSpec)| {
        Bench::new(&job(|s| {
            s.think.time = Nanos::new(300 * US);
            s.timing.number_ios = Some(8);
            edit(s);
        }))
        .run()
    };
    let at = |bench: &Bench| -> Vec<u64> { bench.seen.iter().map(|s| s.at / US).collect() };
    assert_eq!(at(&think(|_| {})), [0, 400, 800, 1200, 1600, 2000, 2400, 2800]);
    assert_eq!(at(&think(|s| s.think.blocks = 4)), [0, 100, 200, 300, 700, 800, 900, 1000]);
    // Limited by time of I/O.
    let bench = think(|s| {
        s.think.blocks = 0;
        s.think.io_time = Nanos::new(250 * US);
    });
    assert_eq!(at(&bench), [0, 100, 200, 600, 700, 800, 1200, 1300]);
    // Spinning is CPU time.
    let bench = think(|s| s.think.spin = Nanos::new(50 * US));
    assert_eq!(at(&bench)[1], 400);
    assert_eq!(bench.stats().cpu_ns, 8 * 50 * US);
}

/// As fio 3.33 calls pwrite and fsync.
#[test]
fn a_job_thinks_before_it_syncs_and_not_after() {
    let bench = Bench::new(&job(|s| {
        writes(s);
        s.think.time = Nanos::new(300 * US);
        (s.durability.fsync, s.timing.number_ios) = (1, Some(3));
    }))
    .run();
    assert_eq!(bench.ops(), "wfwfw");
    let at: Vec<u64> = bench.seen.iter().map(|io| io.at / US).collect();
    assert_eq!(at, [0, 400, 500, 900, 1000]);
}

/// The groups of I/Os of fio 3.33 (`iodepth=4`, `thinktime=20ms`, random reads that take 50 ms
/// each): their instants in milliseconds, without the 1 ms that fio and its disk took for each, and
/// their sizes.
#[test]
fn thinking_with_several_in_flight() {
    let groups = |blocks: u32, counts_issued: bool| {
        let spec = job(|s| {
            deep(s, 4);
            s.think.time = Nanos::new(20 * MS);
            s.think.blocks = blocks;
            s.think.counts_issued = counts_issued;
            timed(s, SECOND);
        });
        let mut bench = Bench::new(&spec);
        bench.latency = 50 * MS;
        let mut groups: Vec<(u64, u32)> = Vec::new();
        for at in bench.run().seen.iter().map(|io| io.at / MS) {
            match groups.last_mut() {
                Some((last, count)) if *last == at => *count += 1,
                _ => groups.push((at, 1)),
            }
        }
        groups[..6].to_vec()
    };
    assert_eq!(groups(1, false), [(0, 4), (70, 1), (140, 1), (210, 1), (280, 1), (350, 1)]);
    assert_eq!(groups(2, false), [(0, 4), (50, 1), (120, 1), (190, 4), (260, 1), (330, 4)]);
    assert_eq!(groups(3, false), [(0, 4), (50, 2), (120, 1), (190, 4), (240, 1), (310, 1)]);
    assert_eq!(groups(6, false), [(0, 4), (50, 4), (100, 1), (170, 4), (220, 2), (290, 4)]);
    assert_eq!(groups(3, true), [(0, 3), (70, 3), (140, 3), (210, 3), (280, 3), (350, 3)]);
}

#[test]
fn thinking_and_rates() {
    let run = |ignore| {
        Bench::new(&job(|s| {
            s.think.time = Nanos::new(10 * MS);
            s.think.blocks = 5;
            s.rates.iops[0] = Some(1000);
            s.rates.ignore_think_time = ignore;
            timed(s, SECOND);
        }))
        .run()
    };
    // When it catches up, it issues five I/Os in a burst after each think time. With
    // rate_ignore_thinktime, the schedule is delayed: four periods and a think time for five I/Os.
    let catching_up = run(false).stats().directions[0].ios;
    let ignoring = run(true).stats().directions[0].ios;
    assert!(
        catching_up > ignoring && ignoring.abs_diff(5 * 1000 / 14) <= 10,
        "{catching_up} {ignoring}"
    );
}

#[test]
fn workers_keep_the_rate_that_sleeping_for_each_io_would_not() {
    let seen = |offload: bool, rate: u64| {
        let spec = job(|s| {
            (s.queue.offload, s.queue.depth, s.queue.low) = (offload, 4, 4);
            s.rates.iops = [Some(rate), None, None];
            timed(s, SECOND);
        });
        let mut bench = Bench::new(&spec);
        bench.latency = 2 * MS;
        let bench = bench.run();
        let stats = &bench.process.stats().directions[0];
        assert_eq!(stats.slat.count, 0, "one of a synchronous engine");
        (bench.seen.len() as u64, bench.deepest, stats.lat.max)
    };
    assert_eq!(seen(false, 1000), (500, 1, 2 * MS));
    let (ios, deepest, latency) = seen(true, 1000);
    assert!((999..=1001).contains(&ios) && (2..=3).contains(&deepest), "{ios} {deepest}");
    assert_eq!(latency, 2 * MS);
    let (ios, deepest, _) = seen(true, 10_000);
    assert!((1996..=2004).contains(&ios) && deepest == 4, "four workers: {ios} {deepest}");
}

/// The instants of fio 3.33 (`rate_iops`, `iodepth=4`, random reads that take 50 ms each), in
/// milliseconds: it waits for what is in flight, and sleeps then as long as it was ahead before.
#[test]
fn a_process_ahead_of_its_rate_waits_for_its_ios_before_it_sleeps() {
    let seen = |rate: u64| {
        let spec = job(|s| {
            deep(s, 4);
            s.rates.iops = [Some(rate), None, None];
            timed(s, SECOND);
        });
        let mut bench = Bench::new(&spec);
        bench.latency = 50 * MS;
        let starts: Vec<u64> = bench.run().seen.iter().map(|io| io.at / MS).collect();
        starts[..10].to_vec()
    };
    assert_eq!(seen(50), [0, 70, 70, 70, 130, 130, 130, 190, 190, 190]);
    assert_eq!(seen(30), [0, 83, 83, 150, 150, 216, 216, 283, 283, 350]);
}
