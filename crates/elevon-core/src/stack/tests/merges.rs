//! Tests merges in special cases: discards, gaps, mixed flags, requests with requests.

use super::*;

fn write(rig: &mut Rig, task: u32, flags: Flags, sector: u64) {
    let io = Io { task: TaskId(task), ..rig.io(Op::Write, flags, sector, 8) };
    rig.stack.submit(rig.now, io, &mut rig.driver);
}

/// Submits discards under one plug, as a file system does, so that no task waits.
fn discards(rig: &mut Rig, sectors: impl IntoIterator<Item = u64>, len: u64) {
    rig.stack.begin_batch(rig.now, TaskId(0));
    for sector in sectors {
        let io = Io { may_block: false, ..rig.io(Op::Discard, Flags::NONE, sector, len) };
        rig.stack.submit(rig.now, io, &mut rig.driver);
    }
    rig.stack.end_batch(rig.now, TaskId(0), &mut rig.driver);
    rig.stack.self_check();
}

#[test]
fn discards_merge_by_range_where_the_device_takes_several() {
    let mut config = config(Kernel::V6_18);
    config.limits.max_discard_segments = 4;
    let mut rig = Rig::new(config);
    discards(&mut rig, [0, 5000, 100, 300, 400], 8);
    assert_eq!(rig.issued(), ["0+32", "400+8"]);
    // The kernel has no tracepoint for this kind of merge.
    assert!(!rig.events().iter().any(|e| e.starts_with('M') || e.starts_with('F')));
    rig.complete_all();
    let discard = rig.stack.disk_stats(rig.now).groups[2];
    assert_eq!((discard.ios, discard.merges, discard.sectors), (2, 3, 40));
    assert_eq!(rig.done().len(), 5);
}

#[test]
fn a_discard_that_continues_another_is_one_range_however_often() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    discards(&mut rig, 0..70_000, 1);
    assert_eq!(rig.issued(), ["0+70000"]);
    assert_eq!(rig.events().iter().filter(|e| e.starts_with("M ")).count(), 69_999);
    rig.complete_all();
    assert_eq!(rig.done().len(), 70_000);
}

#[test]
fn a_gap_refuses_a_bio_but_does_not_close_the_request() {
    let mut config = config(Kernel::V6_18);
    config.limits.virt_boundary_mask = 4095;
    let mut rig = Rig::new(config);
    let odd = rig.stack.register_layout(Layout::contiguous(4096, (1 << 40) + 512));
    rig.stack.begin_batch(rig.now, TaskId(0));
    rig.submit(Op::Read, Flags::NONE, 0, 8);
    // The memory behind it is not contiguous; the request itself still accepts merges.
    let io = Io { layout: odd, ..rig.io(Op::Read, Flags::NONE, 8, 7) };
    rig.stack.submit(rig.now, io, &mut rig.driver);
    rig.stack.end_batch(rig.now, TaskId(0), &mut rig.driver);
    assert_eq!(rig.issued(), ["0+8", "8+7"]);
    assert!(rig.driver.issued.iter().all(|c| !c.flags.contains(Flags::NOMERGE)));
}

#[test]
fn mixed_failfast_merges_and_the_first_bio_decides_on_a_retry() {
    for (first, second, tries) in
        [(Flags::NONE, Flags::RAHEAD, 6), (Flags::FAILFAST_DEV, Flags::NONE, 1)]
    {
        let mut rig = Rig::new(config(Kernel::V6_18));
        rig.stack.begin_batch(rig.now, TaskId(0));
        rig.submit(Op::Read, second, 8, 8);
        rig.submit(Op::Read, first, 0, 8);
        rig.stack.end_batch(rig.now, TaskId(0), &mut rig.driver);
        assert_eq!(rig.issued(), ["0+16"]);
        let mut seen = 0;
        while let Some(&command) = rig.driver.issued.first() {
            seen += 1;
            rig.complete_with(command, Status::Transport, Bytes::ZERO);
        }
        assert_eq!(seen, tries);
    }
}

#[test]
fn a_request_that_swallows_another_keeps_the_earlier_start_and_what_is_atomic_stays_apart() {
    for (flags, merges) in [(Flags::NONE, 1), (Flags::ATOMIC, 0)] {
        let mut config = with_scheduler(Kernel::V6_18);
        (config.queue_depth, config.nr_requests, config.wbt_lat) = (1, Some(8), Some(Nanos::ZERO));
        (config.limits.atomic_write_max, config.limits.atomic_write_unit_max) = (1 << 17, 1 << 17);
        config.limits.atomic_write_unit_min = 512;
        let mut rig = Rig::new(config);
        // The first has the only tag, the second waits for it on the dispatch list.
        write(&mut rig, 2, Flags::NONE, 5000);
        write(&mut rig, 2, Flags::NONE, 7000);
        // The later part is allocated first and stays in a plug.
        rig.stack.begin_batch(rig.now, TaskId(0));
        write(&mut rig, 0, flags, 8);
        rig.now = Instant::ZERO + Nanos::from_millis(10);
        write(&mut rig, 1, Flags::NONE, 0);
        rig.stack.end_batch(rig.now, TaskId(0), &mut rig.driver);
        assert_eq!(rig.stack.counters().request_merges, merges);
        rig.complete_first();
        rig.complete_first();
        rig.now = Instant::ZERO + Nanos::from_millis(30);
        if merges == 1 {
            let before = rig.stack.disk_stats(rig.now).groups[1].ticks;
            rig.complete_first();
            let ticks = rig.stack.disk_stats(rig.now).groups[1].ticks;
            assert_eq!(ticks.saturating_sub(before), Nanos::from_millis(30));
        }
        rig.complete_all();
        assert_eq!(rig.done().len(), 4);
    }
}

#[test]
fn a_merged_atomic_write_heeds_its_own_limit() {
    let mut config = config(Kernel::V6_18);
    (config.limits.atomic_write_max, config.limits.atomic_write_unit_max) = (8192, 4096);
    config.limits.atomic_write_unit_min = 512;
    let mut rig = Rig::new(config);
    rig.stack.begin_batch(rig.now, TaskId(0));
    for sector in [0, 8, 16] {
        write(&mut rig, 0, Flags::ATOMIC, sector);
    }
    rig.stack.end_batch(rig.now, TaskId(0), &mut rig.driver);
    assert_eq!(rig.issued(), ["0+16", "16+8"]);
}

#[test]
fn a_write_that_the_device_cannot_do_atomically_is_refused() {
    let mut config = config(Kernel::V6_18);
    (config.limits.atomic_write_max, config.limits.atomic_write_unit_max) = (1 << 21, 1 << 21);
    config.limits.atomic_write_unit_min = 1024;
    let refused = [(8, 1), (8, 3), (8, 16), (0, 8192), (0, 4096)];
    let taken = [(2, 2), (8, 8), (16, 16), (2048, 128)];
    for ((sector, sectors), status) in
        refused.map(|io| (io, Status::Invalid)).into_iter().chain(taken.map(|io| (io, Status::Ok)))
    {
        let mut rig = Rig::new(config.clone());
        rig.submit(Op::Write, Flags::ATOMIC, sector, sectors);
        rig.complete_all();
        assert_eq!(rig.done(), [(1, status)], "{sector}+{sectors}");
    }
    (config.limits.atomic_write_max, config.limits.atomic_write_unit_max) = (0, 0);
    let mut rig = Rig::new(config);
    rig.submit(Op::Write, Flags::ATOMIC, 8, 8);
    assert_eq!(rig.done(), [(1, Status::NotSupported)]);
}

#[test]
fn a_request_that_is_inserted_joins_two_that_wait() {
    let mut rig = Rig::new(StackConfig {
        queue_depth: 1,
        nr_requests: Some(8),
        ..with_scheduler(Kernel::V6_18)
    });
    // One is in the driver and one waits for its tag: what follows stays in the scheduler.
    rig.batch(&[(1000, 8)]);
    rig.batch(&[(2000, 8)]);
    // Until all are there, each is in the plug of its task, where the others do not see it.
    for (task, sector) in [(1, 8), (2, 0), (3, 16)] {
        rig.stack.begin_batch(rig.now, TaskId(task));
        let io = Io { task: TaskId(task), ..rig.io(Op::Read, Flags::NONE, sector, 8) };
        rig.stack.submit(rig.now, io, &mut rig.driver);
    }
    for task in 1..=3 {
        rig.stack.end_batch(rig.now, TaskId(task), &mut rig.driver);
        rig.stack.self_check();
    }
    assert_eq!(rig.stack.counters().request_merges, 2);
    let sectors = [(); 3].map(|()| rig.complete_first().sector.get());
    assert_eq!((sectors, rig.done().len()), ([1000, 2000, 0], 5));
}
