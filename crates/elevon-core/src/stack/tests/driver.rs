//! Errors, timeouts and a busy driver.

use super::*;

#[test]
fn in_flight_counts_from_the_driver_or_from_allocation_by_version() {
    for (kernel, expected) in [
        (Kernel::V6_1, 1),
        (Kernel::V6_6, 1),
        (Kernel::V6_12, 3),
        (Kernel::V6_18, 3),
        (Kernel::V7_3, 3),
    ] {
        let mut rig = Rig::new(StackConfig {
            queue_depth: 1,
            nr_requests: Some(8),
            ..with_scheduler(kernel)
        });
        for sector in [0, 1000, 2000] {
            rig.submit(Op::Read, Flags::NONE, sector, 8);
        }
        rig.run_worker();
        assert_eq!(rig.stack.disk_stats(rig.now).in_flight, expected, "{}", kernel.name());
    }
}

#[test]
fn a_retryable_error_is_tried_again_and_a_final_one_is_not() {
    for (status, flags, tries) in [
        (Status::Transport, Flags::NONE, 6),
        (Status::Transport, Flags::FAILFAST_DEV, 1),
        (Status::Transport, Flags::RAHEAD, 1),
        (Status::Medium, Flags::NONE, 1),
    ] {
        for config in [config(Kernel::V6_18), with_scheduler(Kernel::V6_18)] {
            let mut rig = Rig::new(config);
            rig.submit(Op::Read, flags, 0, 8);
            let mut seen = 0;
            while let Some(&command) = rig.driver.issued.first() {
                seen += 1;
                rig.complete_with(command, status, Bytes::ZERO);
            }
            assert_eq!(seen, tries);
            assert_eq!(rig.done(), [(1, status)]);
        }
    }
}

#[test]
fn a_lost_command_times_out_after_30_seconds() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    rig.driver.aborts = true;
    rig.stack.config.max_retries = 0;
    rig.submit(Op::Read, Flags::NONE, 0, 8);
    let mut looks = Vec::new();
    while let Some(at) = rig.stack.next_timer() {
        looks.push(at.get() / 1_000_000_000);
        rig.now = at;
        rig.stack.handle_timers(at, &mut rig.driver);
    }
    assert_eq!(looks, [6, 30]);
    assert_eq!(rig.done(), [(1, Status::Timeout)]);
    // The device's late completion has no effect.
    let late = rig.driver.issued[0];
    rig.complete(late);
    assert!(rig.done().is_empty());
    assert_eq!(rig.stack.counters().late_answers, 1);
}

#[test]
fn a_driver_may_ask_for_another_30_seconds() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    rig.submit(Op::Read, Flags::NONE, 0, 8);
    for _ in 0..3 {
        rig.now = rig.stack.next_timer().expect("a command is in flight");
        rig.stack.handle_timers(rig.now, &mut rig.driver);
    }
    assert_eq!(rig.driver.timeouts, [30, 60]);
    rig.complete_all();
    assert_eq!(rig.done(), [(1, Status::Ok)]);
}

#[test]
fn a_busy_driver_is_asked_again_after_a_delay() {
    for config in [config(Kernel::V6_18), with_scheduler(Kernel::V6_18)] {
        let mut rig = Rig::new(config);
        rig.driver.room = Some(1);
        rig.batch(&[(0, 8), (1000, 8), (2000, 8)]);
        assert_eq!(rig.issued(), ["0+8"]);
        assert!(rig.events().iter().any(|e| e == "R R 1000+8"));
        rig.driver.room = None;
        let at = rig.stack.next_timer().expect("a rerun");
        assert_eq!(at, Instant::ZERO + Nanos::from_millis(8));
        rig.now = at;
        rig.stack.handle_timers(at, &mut rig.driver);
        assert_eq!(rig.issued(), ["0+8", "1000+8", "2000+8"]);
        rig.complete_all();
        assert_eq!(rig.done().len(), 3);
    }
}

#[test]
fn a_completion_restarts_a_busy_driver() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    (rig.driver.room, rig.driver.promise) = (Some(2), true);
    rig.batch(&[(0, 8), (1000, 8), (2000, 8)]);
    rig.driver.room = None;
    rig.complete_first();
    assert_eq!(rig.issued(), ["1000+8", "2000+8"]);
}
