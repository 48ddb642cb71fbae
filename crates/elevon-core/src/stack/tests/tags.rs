//! Tasks that wait for a tag.

use super::*;

#[test]
fn a_task_without_a_tag_sleeps_and_goes_on_in_order() {
    let mut config = config(Kernel::V6_18);
    config.queue_depth = 2;
    let mut rig = Rig::new(config);
    assert_eq!(rig.submit(Op::Read, Flags::NONE, 0, 8), Submitted::Accepted);
    // The submission has three fragments, and there is one tag.
    assert_eq!(rig.submit(Op::Read, Flags::NONE, 8000, 3072), Submitted::Blocked);
    assert_eq!(rig.issued(), ["0+8", "8000+1024"]);
    rig.complete_first();
    assert_eq!(rig.stack.poll_unblocked(), None, "one fragment still waits");
    rig.complete_first();
    assert_eq!(rig.stack.poll_unblocked(), Some(TaskId(0)));
    rig.complete_all();
    assert_eq!(rig.done(), [(1, Status::Ok), (2, Status::Ok)]);
    assert_eq!(rig.stack.counters().tag_waits, 2);
}

/// With 16 tags, a task that waits for one is woken when two were freed, and with another.
/// Meanwhile a free tag is whose I/O comes next. The last request in flight wakes whoever is left.
#[test]
fn waiters_are_woken_in_batches_and_others_pass_them() {
    let mut config = config(Kernel::V6_18);
    config.queue_depth = 16;
    let mut rig = Rig::new(config);
    let submit = |rig: &mut Rig, sector| {
        let io = Io { may_block: false, ..rig.io(Op::Read, Flags::NONE, sector, 8) };
        assert_eq!(rig.stack.submit(rig.now, io, &mut rig.driver), Submitted::Accepted);
    };
    // Sixteen are in flight, three wait in workers.
    (0..19).for_each(|n| submit(&mut rig, n * 100));
    assert_eq!((rig.issued().len(), rig.stack.counters().tag_waits), (16, 3));
    rig.complete_first();
    assert_eq!(rig.issued().len(), 15, "a tag is free, and nobody is woken");
    submit(&mut rig, 5000);
    assert_eq!(rig.issued().last().map(String::as_str), Some("5000+8"));
    rig.complete_first();
    assert_eq!(
        rig.issued().last().map(String::as_str),
        Some("1600+8"),
        "two are woken, and one finds a tag"
    );
    rig.complete_all();
    assert_eq!((rig.done().len(), rig.stack.counters().tag_waits), (20, 3));
}

/// Returns a stack of four tags, all in use: one by a write in the plug of task 0 and three by
/// writes of task 1.
fn with_every_tag_in_use() -> Rig {
    let mut config = with_scheduler(Kernel::V6_18);
    config.set("nr_requests", "4").expect("a setting");
    config.wbt_lat = Some(Nanos::ZERO);
    let mut rig = Rig::new(config);
    rig.driver.room = Some(0);
    rig.stack.begin_batch(rig.now, TaskId(0));
    rig.submit(Op::Write, Flags::NONE, 8, 8);
    // The driver refuses the first write, which can then no longer be merged.
    for sector in [5000, 0, 1000] {
        let io = Io { task: TaskId(1), ..rig.io(Op::Write, Flags::NONE, sector, 8) };
        assert_eq!(rig.stack.submit(rig.now, io, &mut rig.driver), Submitted::Accepted);
    }
    rig
}

/// The task's plug is flushed when the task falls asleep. If a request of the plug is merged into
/// another, its tag becomes free, and the task need not sleep. The caller was not told of the
/// sleep, so it must not be told of the wake-up.
#[test]
fn a_task_that_wakes_as_it_falls_asleep_has_not_slept() {
    let mut rig = with_every_tag_in_use();
    assert_eq!(rig.submit(Op::Write, Flags::NONE, 3000, 8), Submitted::Accepted);
    assert_eq!((rig.stack.counters().tag_waits, rig.stack.poll_unblocked()), (1, None));
    assert_eq!(rig.submit(Op::Write, Flags::NONE, 4000, 8), Submitted::Blocked);
    assert_eq!(rig.stack.poll_unblocked(), None);
}

/// If a request is merged when its plug is flushed, its tag is free at once. The merge wakes a task
/// that waits for a tag, because there may be no completion to wake it.
#[test]
fn a_merge_wakes_a_task_that_waits_for_a_tag() {
    let mut rig = with_every_tag_in_use();
    let io = Io { task: TaskId(2), ..rig.io(Op::Write, Flags::NONE, 3000, 8) };
    assert_eq!(rig.stack.submit(rig.now, io, &mut rig.driver), Submitted::Blocked);
    rig.stack.end_batch(rig.now, TaskId(0), &mut rig.driver);
    assert_eq!(rig.stack.counters().request_merges, 1);
    assert_eq!(rig.stack.poll_unblocked(), Some(TaskId(2)));
}

#[test]
fn io_uring_waits_in_a_worker() {
    let mut config = config(Kernel::V6_18);
    config.queue_depth = 1;
    let mut rig = Rig::new(config);
    for sector in [0, 1000, 2000] {
        let io = Io { may_block: false, ..rig.io(Op::Read, Flags::NONE, sector, 8) };
        assert_eq!(rig.stack.submit(rig.now, io, &mut rig.driver), Submitted::Accepted);
    }
    assert_eq!(rig.issued(), ["0+8"]);
    rig.complete_all();
    assert_eq!(rig.done().len(), 3);
}
