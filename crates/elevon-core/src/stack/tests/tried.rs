//! Tests direct I/O of io_uring, which is tried without waiting.

use super::*;

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
    let tried = ["Q R 0+1032", "B R 0+1032", "Q R 5000+8", "G R 5000+8", "S", "P", "U 1", "D R 5000+8"];
    assert_eq!(rig.events(), tried);
    rig.run_worker();
    let done = ["Q R 0+1032", "X 0/1024", "G R 0+1024", "S", "D R 0+1024", "G R 1024+8", "S", "D R 1024+8"];
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
            let expected = ["Q R 0+8", "G R 0+8", "S", "D R 0+8", "Q R 1000+8", "B R 1000+8", "Q R 1000+8", "T 1"];
            assert_eq!(rig.events(), expected);
        }
        rig.complete_all();
        assert_eq!(rig.done().len(), 2);
    }
}
