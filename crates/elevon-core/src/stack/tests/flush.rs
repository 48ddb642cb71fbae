//! Tests flush sequences: the commands for the device, their order, and the counters.

use super::*;

fn cached(fua: bool) -> StackConfig {
    let mut config = config(Kernel::V6_18);
    config.limits.write_cache = true;
    config.limits.fua = fua;
    config
}

#[test]
fn an_empty_flush_as_measured() {
    let mut rig = Rig::new(cached(false));
    rig.submit(Op::Flush, Flags::NONE, 0, 0);
    rig.complete_all();
    assert_eq!(
        rig.events(),
        [
            "Q FWS 0+0",
            "G FWS 0+0",
            "S",
            "D FF 0+0",
            "C FF 18446744073709551615+0",
            "E",
            "C WS 0+0",
            "E"
        ]
    );
    let stats = rig.stack.disk_stats(rig.now);
    assert_eq!((stats.groups[1].ios, stats.groups[1].sectors, stats.flushes), (1, 0, 1));
    assert_eq!(rig.done(), [(1, Status::Ok)]);
}

#[test]
fn without_a_cache_a_flush_is_over_at_once() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    rig.submit(Op::Flush, Flags::NONE, 0, 0);
    assert_eq!(rig.done(), [(1, Status::Ok)]);
    assert!(rig.events().is_empty());
}

#[test]
fn a_fua_write_on_a_cache_without_fua_is_followed_by_a_flush() {
    let mut rig = Rig::new(cached(false));
    rig.submit(Op::Write, Flags::SYNC | Flags::FUA, 0, 8);
    assert_eq!(rig.issued(), ["0+8"]);
    rig.complete_first();
    assert!(rig.done().is_empty(), "not durable before the flush");
    rig.complete_first();
    assert_eq!(rig.done(), [(1, Status::Ok)]);
    assert_eq!(
        rig.events(),
        [
            "Q WFS 0+8",
            "G WFS 0+8",
            "S",
            "P",
            "U 1",
            "D WS 0+8",
            "C WS 0+8",
            "E",
            "D FF 0+0",
            "C FF 18446744073709551615+0",
            "E",
            "C WS 0+0",
            "E"
        ]
    );
}

#[test]
fn sequences_by_device() {
    for (write_cache, fua, expected) in [
        (false, false, vec!["W"]),
        (true, false, vec!["FF", "WS", "FF"]),
        (true, true, vec!["FF", "WFS"]),
    ] {
        let mut config = config(Kernel::V6_18);
        (config.limits.write_cache, config.limits.fua) = (write_cache, fua);
        let mut rig = Rig::new(config);
        rig.submit(Op::Write, Flags::PREFLUSH | Flags::FUA, 0, 8);
        let mut seen = Vec::new();
        while !rig.driver.issued.is_empty() {
            let command = rig.complete_first();
            seen.push(Rwbs(command.op, command.flags).to_string());
        }
        assert_eq!(seen, expected);
        assert_eq!(rig.done(), [(1, Status::Ok)]);
    }
}

#[test]
fn four_fsyncs_share_two_flushes_and_are_four_writes() {
    let mut rig = Rig::new(cached(false));
    for _ in 0..4 {
        rig.submit(Op::Flush, Flags::NONE, 0, 0);
    }
    rig.complete_all();
    let stats = rig.stack.disk_stats(rig.now);
    assert_eq!((stats.groups[1].ios, stats.groups[1].sectors, stats.flushes), (4, 0, 2));
    assert_eq!(rig.done().len(), 4);
}

#[test]
fn a_failed_preflush_writes_nothing() {
    let mut rig = Rig::new(StackConfig { max_retries: 0, ..cached(true) });
    rig.submit(Op::Write, Flags::PREFLUSH, 0, 8);
    let flush = rig.driver.issued[0];
    assert_eq!(flush.op, Op::Flush);
    rig.complete_with(flush, Status::IoError, Bytes::ZERO);
    assert!(rig.driver.issued.is_empty());
    assert_eq!(rig.done(), [(1, Status::IoError)]);
}

#[test]
fn a_flush_waits_for_data_of_its_machine_but_not_for_ever() {
    let mut rig = Rig::new(cached(false));
    rig.submit(Op::Write, Flags::FUA, 0, 8);
    rig.submit(Op::Flush, Flags::NONE, 0, 0);
    assert_eq!(rig.driver.issued.len(), 1, "the write's data is in flight");
    rig.now = Instant::ZERO + Nanos::from_secs(5);
    // The machine checks again only on an event.
    rig.submit(Op::Flush, Flags::NONE, 0, 0);
    assert_eq!(rig.driver.issued.iter().map(|c| c.op).collect::<Vec<_>>(), [Op::Write, Op::Flush]);
    rig.complete_all();
    assert_eq!(rig.done().len(), 3);
}

#[test]
fn the_data_step_by_version() {
    for (kernel, flags, expected) in [
        // Up to 6.4 the write uses the dispatch list: it is neither plugged nor inserted.
        (Kernel::V6_1, Flags::FUA, vec!["Q WFS 0+8", "G WFS 0+8", "D WFS 0+8"]),
        (
            Kernel::V6_18,
            Flags::FUA,
            vec!["Q WFS 0+8", "G WFS 0+8", "P", "U 1", "I WFS 0+8", "D WFS 0+8"],
        ),
        (
            Kernel::V6_1,
            Flags::PREFLUSH,
            vec!["Q FWS 0+8", "G FWS 0+8", "D FF 0+0", "C FF 18446744073709551615+0", "D WS 0+8"],
        ),
        (
            Kernel::V6_18,
            Flags::PREFLUSH,
            vec![
                "Q FWS 0+8",
                "G FWS 0+8",
                "D FF 0+0",
                "C FF 18446744073709551615+0",
                "E",
                "I WS 0+8",
                "D WS 0+8",
            ],
        ),
    ] {
        let mut config = with_scheduler(kernel);
        (config.limits.write_cache, config.limits.fua) = (true, true);
        let mut rig = Rig::new(config);
        rig.submit(Op::Write, flags | Flags::SYNC, 0, 8);
        if flags == Flags::PREFLUSH {
            rig.complete_first();
        }
        let events: Vec<String> = rig.events().into_iter().filter(|e| e != "S").collect();
        assert_eq!(events, expected, "{} {flags:?}", kernel.name());
        rig.complete_all();
        assert_eq!(rig.done(), [(1, Status::Ok)]);
    }
}

#[test]
fn the_scheduler_does_not_hold_flushes_back() {
    let mut config = with_scheduler(Kernel::V6_18);
    config.scheduler =
        SchedulerConfig::parse("mq-deadline:async_depth=1").expect("a tunable that exists");
    (config.limits.write_cache, config.limits.fua) = (true, true);
    let mut rig = Rig::new(config);
    for flags in [Flags::NONE, Flags::FUA, Flags::PREFLUSH] {
        let io = Io { may_block: false, ..rig.io(Op::Write, flags, 0, 8) };
        rig.stack.submit(rig.now, io, &mut rig.driver);
    }
    assert_eq!(rig.stack.counters().tag_waits, 0);
    let io = Io { may_block: false, ..rig.io(Op::Write, Flags::NONE, 0, 8) };
    rig.stack.submit(rig.now, io, &mut rig.driver);
    assert_eq!(rig.stack.counters().tag_waits, 1);
    rig.complete_all();
    assert_eq!(rig.done().len(), 4);
}

/// Measured on Linux 6.18.44: writes with O_DSYNC of several classes or levels, at depth 1.
#[test]
fn data_is_over_for_the_scheduler_before_the_flush_that_follows_it() {
    let mut config = with_scheduler(Kernel::V6_18);
    config.limits.write_cache = true;
    let mut rig = Rig::new(config);
    for (sector, class) in [(0, PrioClass::Rt), (1000, PrioClass::Be)] {
        let io = rig.io(Op::Write, Flags::SYNC | Flags::FUA, sector, 8);
        rig.stack.submit(rig.now, Io { ioprio: IoPrio::new(class, 0), ..io }, &mut rig.driver);
        rig.run_worker();
    }
    assert_eq!(rig.issued(), ["0+8"], "a lower class waits until a higher one has no request");
    rig.complete_first();
    assert!(rig.issued().is_empty(), "the flush waits for the data of the second write");
    rig.now = rig.stack.next_timer().expect("the queue runs again");
    rig.stack.handle_timers(rig.now, &mut rig.driver);
    assert_eq!(rig.issued(), ["1000+8"]);
    assert!(rig.now < Instant::ZERO + Nanos::from_millis(10), "{:?}", rig.now);
    rig.complete_all();
    assert_eq!((rig.done().len(), rig.stack.counters().flushes), (2, 1));
}

#[test]
fn every_part_of_a_split_write_is_durable_by_itself() {
    let mut rig = Rig::new(StackConfig { direct_path: DirectPath::Iomap, ..cached(true) });
    rig.submit(Op::Write, Flags::FUA, 0, 2056);
    assert_eq!(rig.driver.issued.len(), 3);
    assert!(rig.driver.issued.iter().all(|c| c.flags.contains(Flags::FUA)));
    // Without FUA the parts share a flush after the last one.
    let mut rig = Rig::new(StackConfig { direct_path: DirectPath::Iomap, ..cached(false) });
    rig.submit(Op::Write, Flags::FUA, 0, 2056);
    let parts = rig.driver.issued.len();
    for _ in 0..parts {
        assert!(rig.complete_first().op == Op::Write && rig.done().is_empty());
    }
    assert_eq!(rig.driver.issued.iter().map(|c| c.op).collect::<Vec<_>>(), [Op::Flush]);
    rig.complete_all();
    assert_eq!((rig.done(), rig.stack.counters().flushes), (vec![(1, Status::Ok)], 1));
}

/// Measured on Linux 6.1, 6.16, 6.18, 7.2 and 7.3 (`write-dsync` and `write-dsync-libaio`).
#[test]
fn a_flush_follows_an_o_dsync_write_of_the_device_if_its_caller_waits() {
    for (flags, flushes) in [(Flags::NONE, 0), (Flags::WAITED, 1)] {
        let mut rig = Rig::new(cached(true));
        rig.submit(Op::Write, flags | Flags::SYNC | Flags::DSYNC, 0, 8);
        assert!(rig.driver.issued[0].flags.contains(Flags::FUA));
        rig.complete_all();
        assert_eq!((rig.done(), rig.stack.counters().flushes), (vec![(1, Status::Ok)], flushes));
    }
}

/// The task was woken by the completion of its data, and needs a while until it runs.
#[test]
fn the_flush_of_an_o_dsync_write_comes_when_its_task_runs() {
    let mut rig = Rig::new(cached(true));
    rig.driver.wake_delay = Nanos::from_micros(20);
    rig.submit(Op::Write, Flags::WAITED | Flags::SYNC | Flags::DSYNC, 0, 8);
    rig.complete_first();
    assert!(rig.driver.issued.is_empty() && rig.done().is_empty(), "its task does not run yet");
    assert_eq!(rig.stack.next_timer(), Some(Instant::ZERO + Nanos::from_micros(20)));
    rig.run_worker();
    assert_eq!(rig.complete_first().op, Op::Flush);
    assert_eq!((rig.done(), rig.stack.counters().flushes), (vec![(1, Status::Ok)], 1));
}

/// Drivers of NVMe and SCSI retry a flush: docs/explanation/faithfulness.md, "retries".
#[test]
fn a_flush_is_tried_again_like_any_command_by_a_driver_that_retries() {
    let mut rig = Rig::new(cached(false));
    rig.submit(Op::Flush, Flags::NONE, 0, 0);
    let flush = rig.driver.issued[0];
    rig.complete_with(flush, Status::Transport, Bytes::ZERO);
    assert_eq!((rig.driver.issued.len(), rig.stack.counters().retries), (1, 1));
    rig.complete_all();
    assert_eq!(rig.done(), [(1, Status::Ok)]);
    assert_eq!(rig.stack.disk_stats(rig.now).flushes, 1);
}

#[test]
fn a_driver_may_refuse_any_step() {
    for kernel in Kernel::ALL {
        for scheduled in [false, true] {
            for refused in 0..3 {
                let mut config = if scheduled { with_scheduler(kernel) } else { config(kernel) };
                config.limits.write_cache = true;
                let mut rig = Rig::new(config);
                rig.driver.refuses = (refused == 0).then_some(Status::IoError);
                rig.submit(Op::Write, Flags::PREFLUSH | Flags::FUA, 0, 8);
                for step in 1..=2 {
                    rig.driver.refuses = (refused == step).then_some(Status::IoError);
                    if !rig.driver.issued.is_empty() {
                        rig.complete_first();
                    }
                }
                assert_eq!(rig.done(), [(1, Status::IoError)]);
                rig.stack.self_check();
                // The machine continues.
                rig.driver.refuses = None;
                rig.submit(Op::Write, Flags::PREFLUSH | Flags::FUA, 0, 8);
                rig.complete_all();
                assert_eq!(
                    rig.done(),
                    [(2, Status::Ok)],
                    "{} {scheduled} step {refused}",
                    kernel.name()
                );
                assert_eq!(rig.stack.disk_stats(rig.now).in_flight, 0);
            }
        }
    }
}

#[test]
fn sectors_of_a_write_whose_preflush_failed_count_all_the_same() {
    let mut rig = Rig::new(StackConfig { max_retries: 0, ..cached(true) });
    rig.submit(Op::Write, Flags::PREFLUSH, 0, 8);
    let flush = rig.driver.issued[0];
    rig.events();
    rig.complete_with(flush, Status::Medium, Bytes::ZERO);
    assert_eq!(rig.events(), ["C FF 18446744073709551615+0 [-61]", "E", "C WS 0+8 [-61]", "E"]);
    let write = rig.stack.disk_stats(rig.now).groups[1];
    assert_eq!((write.ios, write.sectors), (1, 8));
}
