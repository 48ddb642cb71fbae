//! Tests direct I/O of io_uring, which is tried without waiting.

use super::*;
use crate::control::Stage as _;
use crate::control::io_cost::Qos;
use crate::control::limits::Limits;
use crate::tenant::ROOT;

/// As traced on Linux 6.18 and 7.3: what would have to be split is queued twice, the second time by
/// a worker without the task's plug.
#[test]
fn io_uring_tries_first_and_a_worker_does_what_was_tried_in_vain() {
    let mut rig = Rig::new(config(Kernel::V7_3));
    rig.stack.begin_batch(rig.now, TaskId(0));
    for (sector, sectors) in [(0, 1032), (5000, 8)] {
        let io = Io { may_block: false, ..rig.io(Op::Read, Flags::TRIED, sector, sectors) };
        rig.stack.submit(rig.now, io, &mut rig.driver);
    }
    rig.stack.end_batch(rig.now, TaskId(0), &mut rig.driver);
    let tried =
        ["Q R 0+1032", "B R 0+1032", "Q R 5000+8", "G R 5000+8", "S", "P", "U 1", "D R 5000+8"];
    assert_eq!(rig.events(), tried);
    rig.run_worker();
    let done = [
        "Q R 0+1032",
        "X 0/1024",
        "G R 0+1024",
        "S",
        "D R 0+1024",
        "G R 1024+8",
        "S",
        "D R 1024+8",
    ];
    assert_eq!(rig.events(), done);
    rig.complete_all();
    assert_eq!(rig.done().len(), 2);
}

#[test]
fn io_uring_tries_first_and_a_worker_waits_for_a_tag() {
    for is_traced in [true, false] {
        let mut rig = Rig::new(StackConfig { queue_depth: 1, ..config(Kernel::V7_3) });
        rig.stack.set_tracing(is_traced);
        for sector in [0, 1000] {
            let io = Io { may_block: false, ..rig.io(Op::Read, Flags::TRIED, sector, 8) };
            rig.stack.submit(rig.now, io, &mut rig.driver);
        }
        rig.stack.self_check();
        assert_eq!(rig.stack.counters().tag_waits, 0);
        rig.run_worker();
        assert_eq!(rig.stack.counters().tag_waits, 1);
        if is_traced {
            let expected = [
                "Q R 0+8",
                "G R 0+8",
                "S",
                "D R 0+8",
                "Q R 1000+8",
                "B R 1000+8",
                "Q R 1000+8",
                "T 1",
            ];
            assert_eq!(rig.events(), expected);
        }
        rig.complete_all();
        assert_eq!(rig.done().len(), 2);
    }
}

/// As traced on Linux 7.3 with one CPU: four calls that find no tag are queued again by workers.
/// The others of the ring are when a worker has placed its call.
#[test]
fn a_ring_has_four_workers_for_each_cpu() {
    let mut rig = Rig::new(StackConfig { queue_depth: 1, cpus: 1, ..config(Kernel::V7_3) });
    for sector in 0..8 {
        let io = Io { may_block: false, ..rig.io(Op::Read, Flags::TRIED, sector * 1000, 8) };
        rig.stack.submit(rig.now, io, &mut rig.driver);
    }
    rig.run_worker();
    assert_eq!(rig.stack.counters().tag_waits, 4);
    rig.stack.self_check();
    for _ in 0..8 {
        rig.complete_all();
        rig.run_worker();
    }
    assert_eq!(rig.done().len(), 8);
}

/// As traced on Linux 6.1: the worker's write has a plug of its own, which ends with it.
#[test]
fn before_6_5_the_worker_has_a_plug_for_a_write() {
    let mut rig = Rig::new(config(Kernel::V6_1));
    let io = Io { may_block: false, ..rig.io(Op::Write, Flags::TRIED | Flags::SYNC, 0, 1032) };
    rig.stack.submit(rig.now, io, &mut rig.driver);
    assert_eq!(rig.events(), ["Q WS 0+1032", "B WS 0+1032"]);
    rig.run_worker();
    let done = [
        "Q WS 0+1032",
        "X 0/1024",
        "G WS 0+1024",
        "P",
        "G WS 1024+8",
        "D WS 0+1024",
        "P",
        "D WS 1024+8",
    ];
    assert_eq!(rig.events(), done);
    rig.complete_all();
    assert_eq!(rig.done().len(), 1);
}

/// As traced on Linux 6.1, of a page that a buffered write reads: the task sleeps in its plug, so
/// the request is inserted, and a worker issues it.
#[test]
fn a_task_that_sleeps_in_its_plug_leaves_its_requests_to_a_worker() {
    let mut rig =
        Rig::new(StackConfig { buffered_path: DirectPath::Blkdev, ..config(Kernel::V6_1) });
    assert!(rig.stack.plugs_buffered_writes());
    rig.stack.begin_batch(rig.now, TaskId(0));
    let io = rig.io(Op::Read, Flags::NONE, 0, 8);
    rig.stack.submit_buffered(rig.now, io, &mut rig.driver);
    rig.stack.sleep_in_batch(rig.now, TaskId(0), &mut rig.driver);
    assert_eq!(rig.events(), ["Q R 0+8", "G R 0+8", "P", "UT 1", "I R 0+8", "D R 0+8"]);
}

/// As counted on Linux 7.3 under io.max: limits come before the split. So the bio of the try pays
/// and is counted, whether it was held or not, and the worker's bio pays again.
#[test]
fn a_try_that_would_be_split_pays_its_limits_as_the_worker_does() {
    let mut rig = Rig::new(config(Kernel::V7_3));
    rig.stack.set_limit_worker(TaskId(7));
    let tenant = rig.stack.control_mut().add_tenant(ROOT).expect("room");
    rig.stack.control_mut().watch();
    rig.stack.control_mut().set_io_max(rig.now, tenant, |limits| limits.iops = [10; 2]);
    for sector in [0, 4096] {
        let io = rig.io(Op::Read, Flags::TRIED, sector, 1032);
        let io = Io { may_block: false, tenant, task: TaskId(3), ..io };
        rig.stack.submit(rig.now, io, &mut rig.driver);
    }
    assert_eq!(rig.events(), ["Q R 0+1032", "B R 0+1032"], "the second is held");
    rig.run_worker();
    assert_eq!(rig.events(), [""; 0], "the worker's bio is held behind it");
    rig.stack.control_mut().set_io_max(rig.now, tenant, |limits| *limits = Limits::default());
    rig.tick();
    rig.run_worker();
    let events = rig.events();
    let first = ["Q R 4096+1032", "B R 4096+1032", "Q R 0+1032", "X 0/1024"];
    assert_eq!(events[..first.len()], first);
    let second = ["Q R 4096+1032", "X 4096/5120"];
    assert!(events.windows(second.len()).any(|events| events == second), "{events:?}");
    rig.complete_all();
    rig.stack.self_check();
    assert_eq!(rig.done().len(), 2);
    let stat = rig.stack.control().statistics().of(tenant);
    assert_eq!(stat.counters.ios[0], 6, "two tries, and two parts of each call");
    assert_eq!((stat.done().ios[0], stat.done().bytes[0]), (4, 2 * 1032 * 512));
}

/// As traced on Linux 7.3 under io.cost: a call that is tried waits for budget all the same. Its
/// task sleeps, and no worker gets it.
#[test]
fn the_task_of_a_ring_sleeps_for_a_gate() {
    let mut rig = Rig::new(StackConfig { queue_depth: 1024, ..config(Kernel::V7_3) });
    let tenant = rig.stack.control_mut().add_tenant(ROOT).expect("room");
    let qos = Qos { enable: true, ..*rig.stack.control().io_cost().qos() };
    rig.stack.control_mut().change_cost(|cost| cost.set_qos(Instant::ZERO, qos)).unwrap();
    let submit = |rig: &mut Rig, sector| {
        let io = rig.io(Op::Read, Flags::TRIED, sector, 8);
        let io = Io { may_block: false, tenant, task: TaskId(3), ..io };
        rig.stack.submit(rig.now, io, &mut rig.driver)
    };
    let mut passed = 0;
    while submit(&mut rig, passed * 1000) == Submitted::Accepted {
        passed += 1;
        assert!(passed < 10_000, "the budget ends");
    }
    assert_eq!(rig.stack.control().io_cost().held(), 1);
    while rig.stack.control().io_cost().held() == 1 {
        rig.tick();
    }
    assert_eq!(rig.driver.issued.len() as u64, passed + 1);
    // The task goes on: a task that sleeps may not submit.
    submit(&mut rig, 0);
    rig.stack.self_check();
}
