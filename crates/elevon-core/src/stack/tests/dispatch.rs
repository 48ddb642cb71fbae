//! Tests dispatch to a busy driver.

use super::*;
use crate::jiffies::Hz;

#[test]
fn a_run_that_meets_a_busy_driver_tries_once_more_at_once() {
    for config in [config(Kernel::V6_18), with_scheduler(Kernel::V6_18)] {
        let mut rig = Rig::new(config);
        rig.driver.room = Some(0);
        rig.submit(Op::Read, Flags::NONE, 0, 8);
        assert_eq!(rig.driver.offers, 2, "the first try marks the queue, the second waits");
        assert_eq!(rig.stack.queues[0].busy, 3, "both count as busy");
        assert_eq!(rig.stack.next_timer(), Some(Instant::ZERO + Nanos::from_millis(8)));
        assert_eq!(rig.stack.counters().issued, 0);
    }
}

/// Traced on Linux 6.18 at 250 Hz: the timer of a queue that BFQ held back took 8.0 ms from one end
/// to the next, and 4.3 ms when it was set within a tick.
#[test]
fn a_delay_of_3_ms_is_a_timer_in_ticks() {
    for (hz, set_us, ends_ms) in
        [(250, 0, 8), (250, 3_900, 8), (250, 4_000, 12), (1000, 0, 4), (1000, 900, 4), (100, 0, 20)]
    {
        let mut config = config(Kernel::V6_18);
        config.hz = Hz(hz);
        let mut rig = Rig::new(config);
        (rig.driver.room, rig.now) = (Some(0), Instant::ZERO + Nanos::from_micros(set_us));
        rig.submit(Op::Read, Flags::NONE, 0, 8);
        let ends = Instant::ZERO + Nanos::from_millis(ends_ms);
        assert_eq!(rig.stack.next_timer(), Some(ends), "set at {set_us} us, {hz} Hz");
    }
}

#[test]
fn a_driver_that_promised_a_completion_is_not_asked_before_it() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    (rig.driver.room, rig.driver.promise) = (Some(2), true);
    rig.batch(&[(0, 8), (1000, 8), (2000, 8)]);
    // Only the timer of the timeout scan is left.
    assert_eq!(rig.stack.next_timer(), Some(Instant::ZERO + Nanos::from_secs(6)));
}

#[test]
fn what_a_busy_driver_left_of_a_lifo_plug_goes_on_in_order_of_arrival() {
    for (kernel, expected) in [
        (Kernel::V6_1, ["3000+8", "2000+8", "0+8", "1000+8"]),
        (Kernel::V6_18, ["0+8", "1000+8", "2000+8", "3000+8"]),
    ] {
        let mut rig = Rig::new(config(kernel));
        rig.driver.room = Some(1);
        rig.batch(&[(0, 8), (1000, 8), (2000, 8), (3000, 8)]);
        rig.driver.room = None;
        rig.now = rig.stack.next_timer().expect("a rerun");
        rig.stack.handle_timers(rig.now, &mut rig.driver);
        assert_eq!(rig.issued(), expected);
    }
}

#[test]
fn a_busy_device_gets_one_request_a_round() {
    let mut rig = Rig::new(with_scheduler(Kernel::V6_18));
    rig.driver.room = Some(0);
    rig.submit(Op::Read, Flags::NONE, 9000, 8);
    rig.batch(&[(0, 8), (1000, 8), (2000, 8)]);
    // One request left the scheduler and waits on the dispatch list; the others can still be
    // overtaken.
    assert_eq!(rig.stack.queues[0].dispatch.len(), 1);
    rig.submit(Op::Read, Flags::NONE, 500, 8);
    (rig.driver.room, rig.now) = (None, Instant::ZERO + Nanos::from_millis(8));
    rig.stack.handle_timers(rig.now, &mut rig.driver);
    assert_eq!(rig.issued(), ["9000+8", "0+8", "500+8", "1000+8", "2000+8"]);
}

#[test]
fn a_lone_request_of_an_old_kernel_passes_a_busy_device_by_only_if_it_is_sync_and_has_several_queues()
 {
    for (hw_queues, op, inserted) in
        [(1, Op::Read, true), (2, Op::Read, false), (2, Op::Write, true)]
    {
        // 6.1 would plug the write.
        let mut rig = Rig::new(StackConfig { hw_queues, ..config(Kernel::V6_6) });
        rig.driver.room = Some(0);
        rig.submit(Op::Read, Flags::NONE, 0, 8);
        rig.driver.room = None;
        rig.events();
        rig.submit(op, Flags::NONE, 1000, 8);
        assert_eq!(
            rig.events().iter().any(|e| e.starts_with("I ")),
            inserted,
            "{hw_queues} {op:?}"
        );
    }
}

#[test]
fn a_flush_goes_before_what_else_waits_for_the_driver() {
    let mut config = config(Kernel::V6_18);
    config.limits.write_cache = true;
    let mut rig = Rig::new(config);
    rig.driver.room = Some(0);
    rig.submit(Op::Write, Flags::NONE, 0, 8);
    rig.submit(Op::Flush, Flags::NONE, 0, 0);
    (rig.driver.room, rig.now) = (None, Instant::ZERO + Nanos::from_millis(8));
    rig.stack.handle_timers(rig.now, &mut rig.driver);
    assert_eq!(rig.driver.issued.iter().map(|c| c.op).collect::<Vec<_>>(), [Op::Flush, Op::Write]);
}

/// A run takes requests until driver tags are used up. If a request before that point is refused,
/// the queue still runs again.
#[test]
fn a_refusal_in_a_list_that_ran_out_of_tags_is_tried_again() {
    let mut rig = Rig::new(StackConfig { queue_depth: 2, ..with_scheduler(Kernel::V6_18) });
    rig.driver.room = Some(1);
    rig.batch(&[(0, 8), (1000, 8), (2000, 8), (3000, 8)]);
    assert_eq!(rig.issued(), ["0+8"]);
    assert_eq!(rig.stack.next_timer(), Some(Instant::ZERO + Nanos::from_millis(8)));
    rig.driver.room = None;
    rig.complete_all();
    assert_eq!(rig.done().len(), 4);
}

/// A scheduler for the whole device gives a hardware queue requests of other queues too. If such a
/// request is refused, the queue's own requests behind it are still dispatched.
#[test]
fn what_waits_behind_a_refused_request_of_another_queue_goes_on() {
    let mut rig = Rig::new(StackConfig { hw_queues: 2, cpus: 2, ..with_scheduler(Kernel::V6_18) });
    rig.driver.room = Some(0);
    rig.submit(Op::Read, Flags::NONE, 0, 8);
    rig.submit(Op::Read, Flags::NONE, 1000, 8);
    let other = Io { task: TaskId(1), ..rig.io(Op::Read, Flags::NONE, 2000, 8) };
    rig.stack.submit(rig.now, other, &mut rig.driver);
    assert_eq!(
        rig.stack.queues[1].dispatch.len(),
        1,
        "pulled with the other queue's, and put back"
    );
    rig.driver.room = None;
    rig.now = rig.stack.next_timer().expect("a queue to run");
    rig.stack.handle_timers(rig.now, &mut rig.driver);
    assert_eq!(rig.issued(), ["2000+8"], "at once: only the other queue waits for the driver");
    rig.now = rig.stack.next_timer().expect("the other queue");
    rig.stack.handle_timers(rig.now, &mut rig.driver);
    rig.complete_all();
    assert_eq!(rig.done().len(), 3);
}

/// The device is full of one queue's commands and promises the other queue a completion, which will
/// not belong to that queue.
#[test]
fn a_promise_to_a_queue_with_nothing_in_the_driver_is_not_waited_for() {
    let mut rig = Rig::new(StackConfig { hw_queues: 2, cpus: 2, ..config(Kernel::V6_18) });
    (rig.driver.room, rig.driver.promise) = (Some(1), true);
    rig.submit(Op::Read, Flags::NONE, 0, 8);
    for sector in [1000, 2000] {
        let other = Io { task: TaskId(1), ..rig.io(Op::Read, Flags::NONE, sector, 8) };
        rig.stack.submit(rig.now, other, &mut rig.driver);
    }
    assert_eq!(rig.stack.queues[1].tags.used(), 2, "both wait with their tags");
    assert_eq!(rig.stack.next_timer(), Some(Instant::ZERO + Nanos::from_millis(8)));
    rig.driver.room = None;
    rig.complete_all();
    rig.now = rig.stack.next_timer().expect("the other queue");
    rig.stack.handle_timers(rig.now, &mut rig.driver);
    rig.complete_all();
    assert_eq!(rig.done().len(), 3);
}

/// With `strict_guarantees` BFQ has one request in the device, and its completion wakes the worker
/// that dispatches the next. What the process submits before the worker runs can be merged.
#[test]
fn bfq_goes_on_when_the_worker_runs() {
    let scheduler =
        SchedulerConfig::parse("bfq:strict_guarantees=1").expect("a scheduler that exists");
    for (delay, expected) in [(Nanos::ZERO, "1000+8"), (Nanos::from_micros(4), "1000+16")] {
        let mut rig =
            Rig::new(StackConfig { scheduler: scheduler.clone(), ..config(Kernel::V6_18) });
        rig.driver.worker_delay = delay;
        rig.submit(Op::Read, Flags::NONE, 0, 8);
        rig.submit(Op::Read, Flags::NONE, 1000, 8);
        rig.now = Instant::ZERO + Nanos::from_millis(1);
        rig.complete_first();
        rig.stack.handle_timers(rig.now, &mut rig.driver);
        rig.submit(Op::Read, Flags::NONE, 1008, 8);
        rig.run_worker();
        assert_eq!(rig.issued(), [expected]);
    }
}

/// A read of class BE waits for those of class RT, and for the delayed run of the queue. A worker
/// of the driver that preempts the dispatch of an RT read leaves the rest of the run to a worker,
/// which puts the delayed run off. Traced on Linux 6.18 with BFQ behind loop, whose worker had a
/// higher priority: the timer was cancelled, the worker queued, and the timer set by it.
#[test]
fn a_dispatch_that_is_preempted_puts_off_the_delayed_run() {
    let at = |us| Some(Instant::ZERO + Nanos::from_micros(us));
    for (preempts, next, ends) in [(false, at(8_000), at(8_000)), (true, at(5_004), at(12_000))] {
        let mut rig = Rig::new(with_scheduler(Kernel::V6_18));
        (rig.driver.preempts, rig.driver.worker_delay) = (preempts, Nanos::from_micros(4));
        rig.submit_in_class(PrioClass::Rt, 0);
        rig.run_worker();
        rig.submit_in_class(PrioClass::Be, 1000);
        assert_eq!(rig.stack.next_timer(), at(8_000));
        rig.now = Instant::ZERO + Nanos::from_millis(5);
        rig.submit_in_class(PrioClass::Rt, 2000);
        assert_eq!(rig.issued(), ["0+8", "2000+8"]);
        assert_eq!(rig.stack.next_timer(), next, "preempts: {preempts}");
        rig.run_worker();
        assert_eq!(rig.stack.next_timer(), ends, "preempts: {preempts}");
    }
}

/// A driver that refuses one command, and passes later ones on.
struct BusyOnce<'a> {
    driver: &'a mut Notebook,
    was_busy: bool,
}

impl Driver for BusyOnce<'_> {
    fn queue_command(&mut self, now: Instant, command: &Command, pieces: &dyn Pieces) -> Accept {
        let is_second = core::mem::replace(&mut self.was_busy, true);
        if is_second { self.driver.queue_command(now, command, pieces) } else { Accept::Busy }
    }
}

/// A request that was taken for another queue and put back to it holds no driver tag, because a
/// request that is put before it needs the tag.
#[test]
fn what_is_put_back_for_another_queue_holds_no_tags() {
    let deep =
        StackConfig { hw_queues: 2, cpus: 2, queue_depth: 2, ..with_scheduler(Kernel::V6_18) };
    let mut rig = Rig::new(StackConfig { nr_requests: Some(4), ..deep });
    // A request of the most urgent class keeps all others in the scheduler.
    let urgent =
        Io { ioprio: IoPrio::new(PrioClass::Rt, 0), ..rig.io(Op::Read, Flags::NONE, 9000, 8) };
    rig.stack.submit(rig.now, urgent, &mut rig.driver);
    for (cpu, sector) in [(0, 0), (0, 1000), (1, 2000), (1, 3000), (1, 4000)] {
        let io = Io { task: TaskId(cpu), ..rig.io(Op::Read, Flags::NONE, sector, 8) };
        rig.stack.submit(rig.now, io, &mut rig.driver);
    }
    rig.complete_all();
    // Queue 0 takes four requests, the driver refuses the first, and the two of queue 1 are put
    // back. Then queue 0 issues its own and takes the fifth, which also belongs to queue 1.
    rig.now = Instant::ZERO + Nanos::from_millis(8);
    rig.stack.handle_timers(rig.now, &mut BusyOnce { driver: &mut rig.driver, was_busy: false });
    rig.complete_all();
    rig.now = rig.now + Nanos::from_millis(8);
    rig.stack.handle_timers(rig.now, &mut rig.driver);
    rig.complete_all();
    assert_eq!(rig.done().len(), 6);
}

/// A write that ends frees a tag, and a place of writeback throttling. The tag is for the reader
/// that waits for one, not for the next writer that has the place: on a device of one tag the
/// reader would wait for as long as there are writers.
#[test]
fn a_reader_that_waits_for_a_tag_comes_before_throttled_writers() {
    let mut config = config(Kernel::V6_18);
    (config.queue_depth, config.wbt_lat) = (1, Some(Nanos::from_millis(2)));
    let mut rig = Rig::new(config);
    for (task, op, sector) in
        [(1, Op::Write, 0), (2, Op::Read, 5000), (3, Op::Write, 1000), (4, Op::Write, 2000)]
    {
        let io = Io { task: TaskId(task), ..rig.io(op, Flags::NONE, sector, 8) };
        rig.stack.submit(rig.now, io, &mut rig.driver);
    }
    let counters = rig.stack.counters();
    assert_eq!((counters.tag_waits, counters.wbt_waits), (1, 2));
    let order: Vec<u64> = core::iter::from_fn(|| {
        rig.run_worker();
        (!rig.driver.issued.is_empty()).then(|| rig.complete_first().sector.get())
    })
    .collect();
    assert_eq!(order, [0, 5000, 1000, 2000]);
}

/// A read of class RT in flight holds a write back, and another write waits for the only tag that
/// writes may take.
fn with_a_write_held_back(wake_delay: Nanos) -> Rig {
    let mut config = with_scheduler(Kernel::V6_18);
    config.scheduler =
        SchedulerConfig::parse("mq-deadline:async_depth=1").expect("a tunable that exists");
    let mut rig = Rig::new(config);
    rig.driver.wake_delay = wake_delay;
    // Another read has the lowest tag until the one of class RT has its own.
    assert_eq!(rig.submit(Op::Read, Flags::NONE, 3000, 8), Submitted::Accepted);
    let read = Io { ioprio: IoPrio::new(PrioClass::Rt, 0), ..rig.io(Op::Read, Flags::NONE, 0, 8) };
    assert_eq!(rig.stack.submit(rig.now, read, &mut rig.driver), Submitted::Accepted);
    rig.complete_first();
    for (task, sector, then) in [(1, 1000, Submitted::Accepted), (2, 2000, Submitted::Blocked)] {
        let write = Io { task: TaskId(task), ..rig.io(Op::Write, Flags::SYNC, sector, 8) };
        assert_eq!(rig.stack.submit(rig.now, write, &mut rig.driver), then);
    }
    assert_eq!(rig.issued(), ["0+8"]);
    rig
}

/// A task that is woken for a tag and finds none runs the queue before it sleeps again. Under
/// mq-deadline nothing else would before the delayed run: of 366 writes that Linux 6.18.44 issued
/// beside an RT reader of depth 8 (`async_depth=8`), 365 were issued by the writer while it waited
/// for a tag.
#[test]
fn who_is_woken_without_a_tag_runs_the_queue() {
    let mut rig = with_a_write_held_back(Nanos::ZERO);
    rig.complete_first();
    assert_eq!(rig.issued(), ["1000+8"]);
    rig.complete_all();
    assert_eq!((rig.done().len(), rig.stack.poll_unblocked()), (4, Some(TaskId(2))));
}

#[test]
fn who_is_woken_looks_for_a_tag_when_it_runs() {
    let mut rig = with_a_write_held_back(Nanos::from_micros(20));
    rig.complete_first();
    assert_eq!(rig.issued(), [""; 0]);
    for (sector, us) in [(1000, 20), (2000, 40)] {
        assert_eq!(rig.stack.next_timer(), Some(Instant::ZERO + Nanos::from_micros(us)));
        rig.now = Instant::ZERO + Nanos::from_micros(us);
        rig.stack.handle_timers(rig.now, &mut rig.driver);
        assert_eq!(rig.issued(), [format!("{sector}+8")]);
        rig.complete_first();
    }
    assert_eq!((rig.done().len(), rig.stack.poll_unblocked()), (4, Some(TaskId(2))));
}

/// A round that issued something is followed by another, also if the scheduler had given no more.
/// Of mq-deadline, which `starved` of its debugfs shows: on Linux 6.18 it grew by three for each
/// read of class RT while reads and writes of class BE were held back.
#[test]
fn the_scheduler_is_asked_once_more_after_a_round_that_issued() {
    let first_of_be = |writes_starved: u32| {
        let scheduler = format!("mq-deadline:writes_starved={writes_starved}");
        let mut config = with_scheduler(Kernel::V6_18);
        config.scheduler = SchedulerConfig::parse(&scheduler).expect("a tunable that exists");
        let mut rig = Rig::new(config);
        let urgent = |rig: &mut Rig, sector| {
            let read = Io {
                ioprio: IoPrio::new(PrioClass::Rt, 0),
                ..rig.io(Op::Read, Flags::NONE, sector, 8)
            };
            rig.stack.submit(rig.now, read, &mut rig.driver);
        };
        // What BE has left lies behind, so that each time it is asked it begins a batch.
        rig.submit(Op::Read, Flags::NONE, 9000, 8);
        rig.complete_first();
        urgent(&mut rig, 0);
        rig.submit(Op::Read, Flags::NONE, 1000, 8);
        // A write that waits is one time, and a read of class RT three: before it, after it, and
        // once more.
        rig.submit(Op::Write, Flags::SYNC, 2000, 8);
        urgent(&mut rig, 8000);
        assert_eq!(rig.issued(), ["0+8", "8000+8"]);
        rig.complete_first();
        rig.complete_first();
        rig.now = rig.stack.next_timer().expect("the delayed run");
        rig.stack.handle_timers(rig.now, &mut rig.driver);
        rig.issued()
    };
    assert_eq!(first_of_be(4)[0], "2000+8");
    assert_eq!(first_of_be(5)[0], "1000+8");
}

/// Traced on Linux 6.18 (discards of 8 MiB, `discard_max_bytes` of 1 MiB, four places): of four
/// that complete in one burst the first wakes the task that waits for a place. It finds all of
/// them.
#[test]
fn who_waits_for_a_place_runs_after_all_that_completed_together() {
    let mut config = StackConfig { wbt_lat: Some(Nanos::from_millis(2)), ..config(Kernel::V6_18) };
    config.limits.max_user_discard_sectors = Sectors::new(2048);
    let mut rig = Rig::new(config);
    rig.submit(Op::Discard, Flags::SYNC, 0, 16384);
    assert_eq!((rig.issued().len(), rig.stack.counters().wbt_waits), (4, 1));
    for command in rig.driver.issued.clone() {
        rig.complete(command);
    }
    rig.run_worker();
    assert_eq!((rig.issued().len(), rig.stack.counters().wbt_waits), (4, 1));
}
