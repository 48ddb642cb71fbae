use elevon_core::op::Op;

use super::super::tests::{io, process, workload};
use super::super::{WorkloadIo, WorkloadProcess};
use super::*;

const US: u64 = 1000;

fn named(name: &str, ios: Vec<WorkloadIo>) -> WorkloadProcess {
    WorkloadProcess { name: Some(name.to_owned()), ..process(ios) }
}

fn write(at: u64, end: u64, flags: Flags) -> WorkloadIo {
    WorkloadIo { op: Op::Write, flags, ..io(at, Some(end)) }
}

/// Thirty times: a task writes a file, and asks the journal for a commit, whose two writes follow
/// each other; the task begins the next file when the commit is on the disk. A reader does not
/// care.
fn files(record: Flags) -> Vec<WorkloadProcess> {
    let waited = Flags::SYNC | Flags::IDLE;
    let rounds = || (0..30).map(|round| 10_000 * round);
    let task = rounds().map(|at| write(at, at + 1000, waited)).collect();
    let journal = rounds().flat_map(|at| {
        [
            write(at + 1100, at + 2000, Flags::SYNC),
            write(at + 2050, at + 9900, Flags::SYNC | record),
        ]
    });
    let reads = (0..250).map(|n| io(1170 * n, Some(1170 * n + 1000))).collect();
    vec![named("task", task), named("jbd2/sda1-8", journal.collect()), named("reader", reads)]
}

fn follows(processes: Vec<WorkloadProcess>) -> Vec<Vec<After>> {
    let mut all = workload(processes, Vec::new());
    all.duration = 300_000 * US;
    all.infer()
}

#[test]
fn a_task_follows_the_journal_and_its_commits_follow_the_task() {
    let after = follows(files(Flags::PREFLUSH | Flags::FUA));
    let of = |process, count| Some(Follows { process, milestone: Milestone::Completed, count });
    for round in 1..30 {
        let begins = After {
            completions: round,
            think: 100 * US,
            own: 0,
            continues: false,
            follows: of(1, 2 * round),
        };
        assert_eq!(after[0][round as usize], begins);
        let at = 2 * round as usize;
        let commit = After {
            completions: 2 * round,
            think: 100 * US,
            own: 0,
            continues: false,
            follows: of(0, round + 1),
        };
        assert_eq!(after[1][at], commit);
        assert_eq!(
            (after[1][at + 1].follows, after[1][at + 1].think),
            (None, 50 * US),
            "the record"
        );
    }
    assert!(after[2].iter().all(|after| after.follows.is_none()), "nor does a reader");
}

/// A task that asked while a commit ran waits for the next, which begins when the one before ends,
/// and in a replay no earlier than it asks.
#[test]
fn a_commit_that_begins_at_the_end_of_another_follows_who_asked_since_that_began() {
    let mut processes = files(Flags::PREFLUSH | Flags::FUA);
    let late = (0..29)
        .map(|round| write(10_000 * round + 5000, 10_000 * round + 6000, Flags::SYNC))
        .collect();
    processes.push(named("late", late));
    // It begins another file 50 us after the first write of each commit is done.
    for (round, io) in processes[3].ios.iter_mut().enumerate() {
        *io = write(10_000 * round as u64 + 2050, 10_000 * round as u64 + 2600, Flags::SYNC);
    }
    for io in processes[1].ios.iter_mut().skip(2).step_by(2) {
        io.at -= 1150 * US;
    }
    let after = follows(processes);
    // The first write of a commit begins 50 us after the record before; `late` had asked.
    let asked = Follows { process: 3, milestone: Milestone::Completed, count: 1 };
    assert_eq!(
        after[1][2],
        After { completions: 2, think: 50 * US, own: 0, continues: false, follows: Some(asked) }
    );
}

#[test]
fn a_flusher_takes_turns_on_its_workers() {
    let workers = |second: u64| {
        let first = vec![
            write(0, 900, Flags::NONE),
            write(200, 950, Flags::NONE),
            write(1000, 1900, Flags::NONE),
        ];
        let slept = |mut io: WorkloadIo| {
            (io.slept, io.entered) = (150 * US as u32, 150 * US as u32);
            io
        };
        let first: Vec<WorkloadIo> = first.into_iter().map(slept).collect();
        vec![
            named("kworker/u8:1", first),
            named("kworker/u8:2", vec![write(second, 990, Flags::NONE)]),
        ]
    };
    let entered = |process, count| Some(Follows { process, milestone: Milestone::Entered, count });
    let after = follows(workers(400));
    let found: Vec<_> =
        after.iter().flatten().map(|after| (after.follows, after.think / US)).collect();
    // The third of the first worker comes 600 us after that of the second was submitted, and 10 us
    // after its completion.
    let room = Some(Follows { process: 1, milestone: Milestone::Completed, count: 1 });
    assert_eq!(found, [(None, 0), (entered(0, 1), 50), (room, 10), (entered(0, 2), 50)]);
    let all = workload(workers(400), Vec::new());
    assert_eq!(all.flushers(), [Some((0, 3 * 4096)); 2]);
    // Two that submit at the same time are not of one flusher.
    let after = follows(workers(300));
    assert!(after.iter().flatten().all(|after| after.follows.is_none()));
    assert_eq!(workload(workers(300), Vec::new()).flushers(), [None; 2]);
}
