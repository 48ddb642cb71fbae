//! Tests which command a completion of the device ends.

use super::*;

/// A stack whose first command, a read of 8 sectors at sector 0, was aborted at its timeout.
fn after_an_abort(config: StackConfig) -> (Rig, Command) {
    let mut rig = Rig::new(config);
    rig.driver.aborts = true;
    rig.submit(Op::Read, Flags::NONE, 0, 8);
    let aborted = rig.driver.issued.remove(0);
    while rig.stack.counters().timeouts == 0 {
        rig.now = rig.stack.next_timer().expect("a command is in flight");
        rig.stack.handle_timers(rig.now, &mut rig.driver);
    }
    (rig, aborted)
}

#[test]
fn a_late_answer_does_not_end_the_next_command_of_its_tag() {
    for mut config in [config(Kernel::V6_18), with_scheduler(Kernel::V6_18)] {
        config.max_retries = 0;
        let (mut rig, aborted) = after_an_abort(config);
        assert_eq!(rig.done(), [(1, Status::Timeout)]);
        rig.submit(Op::Write, Flags::NONE, 5000, 8);
        let next = rig.driver.issued[0];
        assert_eq!(next.tag, aborted.tag, "the tag is used again");
        rig.complete(aborted);
        assert_eq!((rig.done(), rig.stack.counters().late_answers), (vec![], 1));
        rig.complete_with(next, Status::Medium, Bytes::ZERO);
        assert_eq!((rig.done(), rig.stack.counters().late_answers), (vec![(2, Status::Medium)], 1));
    }
}

#[test]
fn a_late_answer_does_not_end_the_retry_of_its_command() {
    let (mut rig, aborted) = after_an_abort(config(Kernel::V6_18));
    let retry = rig.driver.issued[0];
    assert_eq!((retry.request, retry.sequence), (aborted.request, aborted.sequence + 1));
    rig.complete(aborted);
    assert_eq!((rig.done(), rig.stack.counters().late_answers), (vec![], 1));
    rig.complete(retry);
    assert_eq!(rig.done(), [(1, Status::Ok)]);
}

#[test]
#[should_panic(expected = "not in flight and was not aborted")]
fn a_second_answer_is_not_taken_for_that_of_the_next_command() {
    let mut rig = Rig::new(config(Kernel::V6_18));
    rig.submit(Op::Read, Flags::NONE, 0, 8);
    let first = rig.complete_first();
    rig.submit(Op::Read, Flags::NONE, 5000, 8);
    assert_eq!(rig.driver.issued[0].request, first.request);
    rig.complete(first);
}

#[test]
#[should_panic(expected = "not in flight and was not aborted")]
fn a_late_answer_comes_once() {
    let (mut rig, aborted) = after_an_abort(config(Kernel::V6_18));
    rig.complete(aborted);
    rig.complete(aborted);
}

#[test]
fn a_driver_whose_answers_are_final_is_asked_once() {
    for scheduled in [false, true] {
        for op in [Op::Read, Op::Write, Op::Flush, Op::Discard] {
            for status in [
                Status::Transport,
                Status::Timeout,
                Status::IoError,
                Status::Again,
                Status::Offline,
            ] {
                let mut config =
                    if scheduled { with_scheduler(Kernel::V6_18) } else { config(Kernel::V6_18) };
                config.limits.write_cache = true;
                let mut rig = Rig::new(config);
                rig.driver.is_final = true;
                rig.submit(op, Flags::NONE, 0, if op == Op::Flush { 0 } else { 8 });
                let command = rig.driver.issued[0];
                rig.complete_with(command, status, Bytes::ZERO);
                assert_eq!(rig.done(), [(1, status)], "{op:?}");
                assert_eq!(
                    (rig.driver.issued.len(), rig.stack.counters().retries),
                    (0, 0),
                    "{op:?} {status:?}"
                );
            }
        }
    }
}
