use super::super::WorkloadIo;
use super::super::tests::{process, workload};
use super::*;
use crate::replay::read;
use crate::testing::data;
use elevon_testkit::Rng;

/// A write and a flush, from and until these microseconds.
fn section(from: u64, until: u64) -> [WorkloadIo; 2] {
    let io = |at: u64, completed: u64| super::super::tests::io(at, Some(completed));
    let middle = (from + until) / 2;
    let write = WorkloadIo { op: Op::Write, flags: Flags::SYNC, ..io(from, middle) };
    [write, WorkloadIo { op: Op::Flush, bytes: 0, ..io(middle, until) }]
}

/// Processes that think for a random time and then do a section of a random length; with a lock of
/// which each of these groups has one, which takes 20 us to hand over. They do so many sections in
/// all. Returns the workload, and how many sections waited.
fn with_locks(groups: &[usize], sections: usize, seed: u64) -> (Workload, usize) {
    let mut random = Rng(seed);
    let mut ready: Vec<u64> = groups.iter().map(|_| random.below(600)).collect();
    let mut free: Vec<u64> = vec![0; groups.len()];
    let mut ios: Vec<Vec<WorkloadIo>> = vec![Vec::new(); groups.len()];
    let mut waited = 0;
    for _ in 0..sections {
        let at = (0..ready.len()).min_by_key(|&at| ready[at]).expect("a process");
        let lock = &mut free[groups[at]];
        let must_wait = ready[at] < *lock;
        let begin = if must_wait { *lock + 20 } else { ready[at] };
        waited += usize::from(must_wait);
        let end = begin + 100 + random.below(100);
        *lock = end;
        ios[at].extend(section(begin, end));
        ready[at] = end + random.below(600);
    }
    (workload(ios.into_iter().map(process).collect(), Vec::new()), waited)
}

fn groups(found: &[Option<Exclusion>]) -> Vec<Option<u32>> {
    found.iter().map(|one| one.as_ref().map(|one| one.group)).collect()
}

#[test]
fn processes_that_share_a_lock_are_found() {
    for seed in 1..20 {
        let (workload, waited) = with_locks(&[0; 4], 2000, seed);
        let found = workload.exclusions();
        assert_eq!(groups(&found), [Some(0); 4], "{seed}");
        let all = || found.iter().flatten().flat_map(|one| &one.sections);
        assert_eq!(all().count(), 2000);
        let inferred = all().filter(|section| section.waited > 0).count();
        // Some come within 50 us of the end of another although they did not wait.
        assert!(
            (waited..waited + 400).contains(&inferred),
            "{seed}: {waited} waited, {inferred} were found"
        );
        assert_eq!(found[0].as_ref().map(|one| one.hand_over), Some(20_000), "{seed}");
        assert!(found.iter().flatten().all(|one| !one.is_together), "{seed}");
    }
}

/// A process that waits when a section begins is served by it, and has none of its own.
#[test]
fn processes_that_commit_together_are_found() {
    for seed in 1..10 {
        let mut random = Rng(seed);
        let mut ready: Vec<u64> = (0..4).map(|_| random.below(3000)).collect();
        let mut ios: Vec<Vec<WorkloadIo>> = vec![Vec::new(); 4];
        let mut free = 0;
        for _ in 0..2000 {
            let at = (0..4).min_by_key(|&at| ready[at]).expect("a process");
            let begin = if ready[at] < free { free + 90 } else { ready[at] };
            free = begin + 2000 + random.below(400);
            ios[at].extend(section(begin, free));
            for other in 0..4 {
                if other == at || ready[other] <= begin {
                    ready[other] = free + 800 + random.below(3000);
                    // The last that it reads before it commits.
                    ios[other].push(super::super::tests::io(
                        ready[other] - 700,
                        Some(ready[other] - 200),
                    ));
                }
            }
        }
        let found = workload(ios.into_iter().map(process).collect(), Vec::new()).exclusions();
        assert_eq!(groups(&found), [Some(0); 4], "{seed}");
        assert!(found.iter().flatten().all(|one| one.is_together), "{seed}");
    }
}

#[test]
fn two_locks_are_two_groups() {
    let (workload, _) = with_locks(&[0, 1, 0, 1], 2000, 7);
    let found = groups(&workload.exclusions());
    assert_eq!(found[0], found[2]);
    assert_eq!(found[1], found[3]);
    assert!(found.iter().all(Option::is_some) && found[0] != found[1], "{found:?}");
}

#[test]
fn processes_without_a_lock_exclude_nobody() {
    for seed in 1..50 {
        for processes in [2, 4, 12] {
            let locks: Vec<usize> = (0..processes).collect();
            let (workload, _) = with_locks(&locks, 150 * processes, seed);
            assert_eq!(groups(&workload.exclusions()), vec![None; processes], "{seed}");
        }
    }
}

/// If sections are so rare that they would hardly meet anyway, nothing is known.
#[test]
fn what_may_be_chance_is_none() {
    let rare = |offset: u64| {
        process(
            (0..200)
                .flat_map(|n| section(20_000 * n + offset, 20_000 * n + offset + 150))
                .collect(),
        )
    };
    let both = workload(vec![rare(0), rare(9_000)], Vec::new());
    assert_eq!(groups(&both.exclusions()), [None, None]);
    // Nor if one begins when the other has ended.
    let busy = |from: u64| {
        process((0..200).flat_map(|n| section(from + 200 * n, from + 200 * n + 150)).collect())
    };
    let after = workload(vec![busy(0), busy(1_000_000)], Vec::new());
    assert_eq!(groups(&after.exclusions()), [None, None]);
    // Too few sections tell nothing, however dense.
    let few = |offset: u64| {
        process((0..15).flat_map(|n| section(400 * n + offset, 400 * n + offset + 190)).collect())
    };
    assert_eq!(groups(&workload(vec![few(0), few(200)], Vec::new()).exclusions()), [None, None]);
}

#[test]
fn one_overlap_is_enough_to_deny_it() {
    let (mut all, _) = with_locks(&[0, 0], 400, 3);
    assert_eq!(groups(&all.exclusions()), [Some(0), Some(0)]);
    // A section of the second begins in one of the first.
    let inside = all.processes[0].ios[100].at / 1000 + 1;
    let at = all.processes[1].ios.partition_point(|io| io.at < inside * 1000);
    let at = at + at % 2;
    all.processes[1].ios.splice(at..at, section(inside, inside + 10));
    assert_eq!(groups(&all.exclusions()), [None, None]);
}

#[test]
fn a_section_is_synchronous_writes_and_the_flush_behind_them() {
    let [write, flush] = section(100, 200);
    let read = super::super::tests::io(120, Some(130));
    let background = WorkloadIo { flags: Flags::NONE, ..write };
    let spans = |ios: &[WorkloadIo]| -> Vec<(usize, usize)> {
        sections(&process(ios.to_vec()))
            .iter()
            .map(|section| (section.first, section.last))
            .collect()
    };
    assert_eq!(spans(&[read, write, write, flush, flush]), [(1, 3)]);
    assert_eq!(spans(&[write, read, flush]), [], "it did something else in between");
    assert_eq!(spans(&[background, flush]), [], "nobody waited for the write");
    assert_eq!(
        spans(&[write, WorkloadIo { completed: None, ..flush }]),
        [],
        "its end is not known"
    );
}

/// PostgreSQL: the four clients share the log; the checkpointer and the others do not.
#[test]
fn the_backends_of_postgresql_exclude_each_other() {
    let path = data("kernel-truth/traces/pgbench-ext4-mq-deadline.ftrace.zst");
    let workload = read(&mut || crate::open(&path), None, &mut |_| {}).expect("a workload");
    let found = workload.exclusions();
    let ids = workload.processes.iter().zip(&found).filter(|(_, one)| one.is_some());
    let mut ids: Vec<_> = ids.filter_map(|(process, _)| process.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, [28914, 28915, 28916, 28917]);
    let sections: usize = found.iter().flatten().map(|one| one.sections.len()).sum();
    assert_eq!(sections, 2947);
    let hand_over = found.iter().flatten().map(|one| one.hand_over).max();
    assert!(hand_over.is_some_and(|ns| (20_000..50_000).contains(&ns)), "{hand_over:?}");
}

/// Jobs of fio, of which one writes and flushes, exclude no other.
#[test]
fn jobs_of_fio_exclude_nobody() {
    let path = data("kernel-truth/whatif/mq-deadline.ftrace.zst");
    let workload = read(&mut || crate::open(&path), None, &mut |_| {}).expect("a workload");
    assert_eq!(groups(&workload.exclusions()), [None; 4]);
}
