//! Tests tracepoints in the kernel's order, by version and scheduler.

use super::*;

#[test]
fn the_fragments_of_a_plugged_call_in_6_6() {
    let mut rig = Rig::new(iomap(Kernel::V6_6));
    rig.submit(Op::Read, Flags::NONE, 0, 1032);
    rig.complete_all();
    assert_eq!(
        rig.events(),
        [
            "Q R 0+1032",
            "X 0/1024",
            "G R 0+1024",
            "S",
            "P",
            "G R 1024+8",
            "S",
            "D R 0+1024",
            "P",
            "D R 1024+8",
            "C R 0+1024",
            "E",
            "C R 1024+8",
            "E"
        ]
    );
}

#[test]
fn a_lone_read_by_version() {
    let (q, g, i, d, c) = ("Q R 0+8", "G R 0+8", "I R 0+8", "D R 0+8", "C R 0+8");
    for (kernel, scheduled, expected) in [
        (Kernel::V6_1, false, vec![q, g, d, c]),
        (Kernel::V6_6, false, vec![q, g, "S", d, c, "E"]),
        (Kernel::V6_12, false, vec![q, g, "S", "P", "U 1", d, c, "E"]),
        (Kernel::V6_18, false, vec![q, g, "S", "P", "U 1", d, c, "E"]),
        (Kernel::V7_1, false, vec![q, g, "S", "P", "U 1", d, c, "E"]),
        (Kernel::V7_3, false, vec![q, g, "S", d, c, "E"]),
        (Kernel::V6_1, true, vec![q, g, i, d, c]),
        (Kernel::V6_6, true, vec![q, g, "S", i, d, c, "E"]),
        (Kernel::V6_12, true, vec![q, g, "S", "P", "U 1", i, d, c, "E"]),
        (Kernel::V6_18, true, vec![q, g, "S", "P", "U 1", i, d, c, "E"]),
        (Kernel::V7_3, true, vec![q, g, "S", i, d, c, "E"]),
    ] {
        let mut rig = Rig::new(if scheduled { with_scheduler(kernel) } else { config(kernel) });
        rig.submit(Op::Read, Flags::NONE, 0, 8);
        rig.run_worker();
        rig.complete_all();
        assert_eq!(rig.events(), expected, "{} {scheduled}", kernel.name());
    }
}

#[test]
fn what_follows_a_lone_request_at_once_is_merged_into_it_before_the_worker_runs() {
    for (kernel, issued) in [(Kernel::V6_18, vec!["0+8", "8+8"]), (Kernel::V7_2, vec!["0+16"])] {
        let mut rig = Rig::new(with_scheduler(kernel));
        rig.submit(Op::Read, Flags::NONE, 0, 8);
        rig.submit(Op::Read, Flags::NONE, 8, 8);
        rig.run_worker();
        assert_eq!(rig.issued(), issued, "{}", kernel.name());
    }
}

#[test]
fn a_sleep_for_a_tag_is_an_event_from_7_2_on() {
    for (kernel, events) in [(Kernel::V7_1, 0), (Kernel::V7_2, 1)] {
        let mut rig = Rig::new(StackConfig { nr_requests: Some(4), ..config(kernel) });
        for sector in 0..5 {
            rig.submit(Op::Read, Flags::NONE, sector * 1000, 8);
        }
        assert_eq!(rig.stack.counters().tag_waits, 1);
        // The event has the number of tags that there would be without the smaller `nr_requests`.
        assert_eq!(
            rig.events().iter().filter(|event| *event == "T 128").count(),
            events,
            "{}",
            kernel.name()
        );
    }
}

#[test]
fn a_small_read_of_a_file_is_plain_from_7_3_on() {
    for (kernel, events) in [
        (Kernel::V7_2, vec!["Q RS 0+8", "G RS 0+8", "S", "P", "U 1", "D RS 0+8"]),
        (Kernel::V7_3, vec!["Q R 0+8", "G R 0+8", "S", "D R 0+8"]),
    ] {
        let mut rig = Rig::new(iomap(kernel));
        rig.submit(Op::Read, Flags::NONE, 0, 8);
        assert_eq!(rig.events(), events, "{}", kernel.name());
        // A larger read goes the usual way.
        rig.submit(Op::Read, Flags::NONE, 8, 16);
        assert_eq!(rig.events()[0], "Q RS 8+16");
    }
}

/// Measured on Linux 6.1, 6.16, 6.18, 7.2 and 7.3: reads of 512 bytes to 1 MiB by pread, libaio and
/// io_uring in `jobs-V.txt.zst`, and of 2 MiB in `events-V.txt.zst`.
#[test]
fn a_read_of_the_device_is_sync_if_its_caller_waits_for_one_bio() {
    for kernel in [Kernel::V6_1, Kernel::V7_3] {
        for (flags, sectors, queued) in [
            (Flags::WAITED, 8, "Q RS 0+"),
            (Flags::WAITED, 2048, "Q RS 0+"),
            (Flags::WAITED, 4096, "Q R 0+"),
            (Flags::NONE, 8, "Q R 0+"),
        ] {
            let mut rig = Rig::new(config(kernel));
            rig.submit(Op::Read, flags, 0, sectors);
            let event = &rig.events()[0];
            assert!(event.starts_with(queued), "{}: {event}, and not {queued}", kernel.name());
        }
    }
}

#[test]
fn a_batch_by_version() {
    let before = ["Q R 0+8", "G R 0+8", "P", "Q R 8+8", "M R 8+8", "Q R 1000+8", "G R 1000+8"];
    for (config, after) in [
        (config(Kernel::V6_1), vec!["D R 1000+8", "D R 0+16"]),
        (config(Kernel::V6_18), vec!["U 2", "D R 0+16", "D R 1000+8"]),
        (
            with_scheduler(Kernel::V6_1),
            vec!["U 2", "I R 0+16", "I R 1000+8", "D R 0+16", "D R 1000+8"],
        ),
        (
            with_scheduler(Kernel::V6_18),
            vec!["U 2", "I R 0+16", "I R 1000+8", "D R 0+16", "D R 1000+8"],
        ),
    ] {
        let mut rig = Rig::new(config);
        rig.batch(&[(0, 8), (8, 8), (1000, 8)]);
        let events: Vec<String> = rig.events().into_iter().filter(|e| e != "S").collect();
        let expected: Vec<&str> = before.iter().copied().chain(after).collect();
        assert_eq!(events, expected);
    }
}

#[test]
fn a_task_that_sleeps_for_a_tag_inserts_what_it_plugged() {
    let mut config = config(Kernel::V6_18);
    config.queue_depth = 2;
    let mut rig = Rig::new(config);
    rig.stack.begin_batch(rig.now, TaskId(0));
    for sector in [0, 1000, 2000] {
        rig.submit(Op::Read, Flags::NONE, sector, 8);
    }
    let events = rig.events();
    assert_eq!(
        events[events.len() - 6..],
        ["Q R 2000+8", "UT 2", "I R 0+8", "I R 1000+8", "D R 0+8", "D R 1000+8"]
    );
}

#[test]
fn a_discard_by_system_call_is_inserted_even_without_a_scheduler() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    rig.submit(Op::Discard, Flags::SYNC, 0, 4096);
    assert_eq!(
        rig.events(),
        ["Q DS 0+4096", "G DS 0+4096", "S", "P", "UT 1", "I DS 0+4096", "D DS 0+4096"]
    );
    // No task sleeps for an I/O that was submitted through a ring.
    let mut rig = Rig::new(config(Kernel::V6_18));
    let io = Io { may_block: false, ..rig.io(Op::Discard, Flags::SYNC, 0, 4096) };
    rig.stack.submit(rig.now, io, &mut rig.driver);
    assert_eq!(rig.events(), ["Q DS 0+4096", "G DS 0+4096", "S", "P", "U 1", "D DS 0+4096"]);
}

#[test]
fn only_the_last_bio_of_a_discard_is_sync() {
    // As Linux 6.1, 6.12 and 6.18 record it.
    let mut config = config(Kernel::V6_18);
    config.limits.discard_granularity = 4096;
    let mut rig = Rig::new(config);
    rig.submit(Op::Discard, Flags::SYNC, 2, 20);
    let expected =
        ["Q D 2+6", "G D 2+6", "S", "P", "Q DS 8+14", "M DS 8+14", "UT 1", "I D 2+20", "D D 2+20"];
    assert_eq!(rig.events(), expected);
}

#[test]
fn the_start_and_the_end_of_a_request_are_recorded_without_iostats() {
    let mut rig = Rig::new(StackConfig { iostats: false, ..config(Kernel::V6_18) });
    rig.submit(Op::Read, Flags::NONE, 0, 8);
    rig.complete_all();
    let events = rig.events();
    assert_eq!([events[2].as_str(), events[events.len() - 1].as_str()], ["S", "E"]);
}

#[test]
fn requeue_and_refusal() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    rig.submit(Op::Read, Flags::NONE, 0, 8);
    rig.events();
    let command = rig.driver.issued[0];
    rig.complete_with(command, Status::Transport, Bytes::ZERO);
    assert_eq!(rig.events(), ["R R 0+8", "I R 0+8", "D R 0+8"]);
    // A busy driver returns a request that was never issued.
    rig.driver.room = Some(0);
    rig.submit(Op::Read, Flags::NONE, 1000, 8);
    let events = rig.events();
    assert_eq!(events[4..], ["U 1", "R R 1000+8", "R R 1000+8"]);
}

#[test]
fn what_a_request_says_when_its_bios_are_gone() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    rig.submit(Op::Read, Flags::NONE, 800, 8);
    rig.complete_all();
    let mut events = Vec::new();
    rig.stack.drain_events(&mut events);
    let done = events.last().expect("events");
    assert_eq!(
        (done.kind, done.ioprio, done.sectors),
        (EventKind::IoDone { is_request: true }, IoPrio::NONE, 0)
    );
    assert_eq!(events[events.len() - 2].ioprio, IoPrio::DEFAULT);
}

#[test]
fn requests_that_join_in_the_scheduler_say_so() {
    let mut config = with_scheduler(Kernel::V6_18);
    (config.queue_depth, config.nr_requests) = (1, Some(8));
    let mut rig = Rig::new(config);
    // The first has the only tag, the second waits for it on the dispatch list.
    for sector in [5000, 7000, 0, 16, 8] {
        rig.submit(Op::Read, Flags::NONE, sector, 8);
    }
    let events = rig.events();
    assert_eq!(events[events.len() - 3..], ["Q R 8+8", "M R 8+8", "MR R 16+8"]);
}
