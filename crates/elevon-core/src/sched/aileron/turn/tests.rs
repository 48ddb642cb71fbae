//! Streams and others on a device that is a disk with one request at a time: a request that follows
//! the one before takes 0.2 ms, another 10 ms.

use crate::ioprio::{IoPrio, PrioClass};
use crate::kernel::Kernel;
use crate::merge::MergeKind;
use crate::op::Op;
use crate::sched::Scheduler;
use crate::sched::aileron::Aileron;
use crate::sched::testing::{Bed, bio};
use crate::units::{Instant, Nanos, RequestId, TaskId};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

const NEXT: Nanos = Nanos::from_micros(200);
const SEEK: Nanos = Nanos::from_millis(10);

/// A process that keeps `depth` requests waiting or in the disk.
#[derive(Clone, Copy)]
struct Process {
    is_stream: bool,
    depth: u32,
    think: Nanos,
    level: u8,
}

/// What a run was like.
struct Ran {
    /// The disk's time that each process got.
    got: Vec<u64>,
    /// How often the disk went from one process to another.
    changes: u32,
    /// Requests that ended.
    ended: u64,
}

/// Runs processes for some seconds. Only one at a time has requests in the disk.
fn run(processes: &[Process], seconds: u64, tunables: &[(&str, i64)]) -> Ran {
    let mut aileron = Aileron::new(64);
    aileron.on_queue_info(true);
    tunables.iter().for_each(|&(name, value)| aileron.set_tunable(name, value));
    let mut bed = Bed::new(Kernel::V7_3, aileron, 64);
    let mut sectors: Vec<u64> = (0..processes.len() as u64).map(|at| at << 32).collect();
    let mut due: Vec<(crate::units::Instant, usize)> = Vec::new();
    for (at, process) in processes.iter().enumerate() {
        due.extend((0..process.depth).map(|_| (bed.now, at)));
    }
    let (mut inside, mut head, mut got) =
        (VecDeque::<RequestId>::new(), 0, alloc::vec![0; processes.len()]);
    let (mut busy_until, mut changes, mut last) = (None, 0, TaskId(0));
    let (end, mut ended) = (bed.now + Nanos::from_secs(seconds), 0);
    while bed.now < end {
        due.sort_by_key(|(at, process)| (*at, *process));
        while due.first().is_some_and(|(at, _)| *at <= bed.now) {
            let (_, process) = due.remove(0);
            let id = bed.prepare(Op::Read, sectors[process], PrioClass::Be);
            bed.requests[id].task = TaskId(process as u32);
            bed.requests[id].ioprio = IoPrio::new(PrioClass::Be, processes[process].level);
            bed.insert_prepared(id, false);
            sectors[process] += if processes[process].is_stream { 8 } else { 1_000_000 };
        }
        while let Some(id) = bed.dispatch() {
            bed.requests[id].issued = bed.now;
            inside.push_back(id);
            let task = bed.requests[id].task;
            assert_eq!(inside.len(), 1, "several requests are in the disk");
            (changes, last) = (changes + u32::from(task != last), task);
        }
        if let (None, Some(&id)) = (busy_until, inside.front()) {
            let request = &bed.requests[id];
            let time = if request.sector.get() == head { NEXT } else { SEEK };
            head = request.sector.get() + request.sectors.get();
            got[request.task.index()] += time.get();
            busy_until = Some(bed.now + time);
        }
        let wakeup = Some(bed.scheduler.next_wakeup()).filter(|at| *at < Instant::MAX);
        let next = [busy_until, due.first().map(|(at, _)| *at), wakeup];
        bed.now = next.into_iter().flatten().min().expect("something happens").max(bed.now);
        if busy_until.is_some_and(|until| until <= bed.now) {
            busy_until = None;
            let id = inside.pop_front().expect("the disk is busy");
            let process = bed.requests[id].task.index();
            bed.finish(id);
            ended += 1;
            due.push((bed.now + processes[process].think, process));
        }
        let now = bed.now;
        bed.scheduler.on_wakeup(now);
    }
    Ran { got, changes, ended }
}

const STREAM: Process =
    Process { is_stream: true, depth: 1, think: Nanos::from_micros(5), level: 4 };
const DEEP_STREAM: Process = Process { depth: 16, ..STREAM };
const RANDOM: Process = Process { is_stream: false, ..STREAM };
const DEEP_RANDOM: Process = Process { depth: 16, ..RANDOM };

/// Asserts that the disk is in use for this part of the time, and that the least of equal processes
/// gets this part of an equal share, in percent.
fn all_get(processes: &[Process], busy: u64, percent: u64) {
    let Ran { got, .. } = run(processes, 10, &[]);
    let all: u64 = got.iter().sum();
    assert!(all * 100 >= 10_000_000_000 * busy, "the disk was busy for {all} ns of 10 s: {got:?}");
    let least = got.iter().min().expect("processes");
    assert!(least * 100 * processes.len() as u64 >= all * percent, "{got:?}");
}

#[test]
fn streams_of_any_depth_share_the_disk_equally() {
    all_get(&[STREAM, DEEP_STREAM], 95, 90);
    all_get(&[STREAM, DEEP_STREAM, STREAM], 95, 90);
}

#[test]
fn random_requests_share_the_disk_with_streams() {
    all_get(&[DEEP_STREAM, DEEP_RANDOM], 95, 80);
    all_get(&[DEEP_STREAM, RANDOM], 95, 80);
    // Beside several that keep the disk, one that seeks request by request gets 0.7 of its share.
    all_get(&[STREAM, RANDOM, DEEP_RANDOM, DEEP_STREAM], 95, 60);
}

/// Shares are those of the weights, and seeks take no more than a tenth of the throughput of one
/// stream.
#[test]
fn turns_are_shared_by_weight() {
    for process in [STREAM, DEEP_STREAM, DEEP_RANDOM] {
        let weighted = [0, 4, 6].map(|level| Process { level, ..process });
        let Ran { got, ended, .. } = run(&weighted, 40, &[]);
        let all: u64 = got.iter().sum();
        for (got, weight) in got.iter().zip([4, 2, 1]) {
            assert!(
                got.abs_diff(all * weight / 7) * 20 <= all * weight / 7,
                "{got} of {all}, weight {weight}"
            );
        }
        let alone = run(&[process], 40, &[]).ended;
        assert!(ended * 10 >= alone * 9, "{ended} requests of {alone}");
    }
}

/// Each has the disk for seven requests: for as many as a third of a turn has room for.
#[test]
fn processes_that_seek_have_turns_of_a_third() {
    let changes = run(&[RANDOM, RANDOM], 10, &[]).changes;
    assert!((130..=150).contains(&changes), "{changes}");
    let changes = run(&[RANDOM, RANDOM], 10, &[("turn_ms", 0)]).changes;
    assert!(changes > 900, "{changes} without turns");
}

/// One that thinks would else have one request for each turn of the stream, a twentieth.
#[test]
fn a_process_that_thinks_for_less_than_a_seek_is_waited_for() {
    let thinks = Process { think: Nanos::from_millis(5), ..RANDOM };
    let got = run(&[thinks, STREAM], 10, &[]).got;
    assert!(got[0] * 2 >= got[1], "{got:?}");
    let too_long = Process { think: Nanos::from_millis(12), ..RANDOM };
    let got = run(&[too_long, STREAM], 10, &[]).got;
    assert!(got[0] + got[1] > 9_500_000_000, "the disk waits in vain: {got:?}");
}

/// The turn of one that seeks is short, and after it the process has nothing waiting: the stream,
/// which is ahead of its share, would have its turn.
#[test]
fn who_is_owed_service_after_its_turn_keeps_the_disk() {
    let got = run(&[Process { level: 0, ..RANDOM }, Process { level: 6, ..STREAM }], 10, &[]).got;
    assert!((3 * got[1]..=5 * got[1]).contains(&got[0]), "{got:?} with weights 80 and 20");
}

/// A queue whose requests grow while they wait is the stream that it would be if they came so: the
/// disk waits for the next.
#[test]
fn a_stream_whose_requests_grow_is_waited_for() {
    let mut aileron = Aileron::new(64);
    aileron.on_queue_info(true);
    let mut bed = Bed::new(Kernel::V7_3, aileron, 64);
    let mut sector = 1 << 20;
    for _ in 0..8 {
        let id = bed.read(sector);
        bed.join(&bio(Op::Read, sector + 8, 8, PrioClass::Be), id, MergeKind::Back);
        let behind = bed.prepare(Op::Read, sector + 16, PrioClass::Be);
        bed.swallow(id, behind);
        sector += 24;
        assert_eq!(bed.dispatch(), Some(id));
        bed.now = bed.now + NEXT;
        bed.finish(id);
    }
    let queue = bed.scheduler.queues[0];
    assert!(queue.is_stream(), "{queue:?}");
    let other = bed.prepare(Op::Read, 0, PrioClass::Be);
    bed.requests[other].task = TaskId(1);
    bed.insert_prepared(other, false);
    assert_eq!(bed.dispatch(), None, "the stream has its turn");
}
