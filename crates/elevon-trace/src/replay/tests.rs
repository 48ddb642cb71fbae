use super::*;
use crate::select::{SelectError, Selection};
use crate::testing::data;

const US: u64 = 1_000;

pub(super) fn io(at: u64, completed: Option<u64>) -> WorkloadIo {
    WorkloadIo {
        slept: 0,
        entered: 0,
        at: at * US,
        completed: completed.map(|end| end * US),
        sector: 0,
        bytes: 4096,
        op: Op::Read,
        flags: Flags::NONE,
        prio: None,
        cgroup: None,
        joins: false,
        bio_ends: 0,
    }
}

pub(super) fn process(ios: Vec<WorkloadIo>) -> WorkloadProcess {
    WorkloadProcess { id: Some(1), name: None, cgroup: None, is_one_thread: true, ios }
}

pub(super) fn workload(processes: Vec<WorkloadProcess>, gaps: Vec<(u64, u64)>) -> Workload {
    Workload {
        device: DeviceNumber::new(8, 0),
        taken: Taken::Queued,
        processes,
        bio_ends: vec![Vec::new()],
        start: 0,
        duration: 0,
        left_out: 0,
        gaps,
        crowds: Crowds::default(),
        lost: Lost::default(),
        recorded: None,
        report: ReadReport::new(crate::TraceFormat::Ftrace),
    }
}

/// Returns what each I/O followed: number of completions, and microseconds.
fn inferred(ios: Vec<WorkloadIo>, gaps: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let after = workload(vec![process(ios)], gaps).infer();
    after[0].iter().map(|after| (after.completions, after.think / US)).collect()
}

#[test]
fn one_at_a_time_with_thought() {
    let ios = (0..4).map(|n| io(1000 * n, Some(1000 * n + 400))).collect();
    assert_eq!(inferred(ios, vec![]), [(0, 0), (1, 600), (2, 600), (3, 600)]);
}

/// A checkpoint of which the kernel lets in two writes at a time, a read, and the same by a direct
/// writer.
#[test]
fn writes_of_the_page_cache_follow_no_completion_of_each_other() {
    let write = |at, slept: u64, end, flags| WorkloadIo {
        op: Op::Write,
        flags,
        slept: (slept * US) as u32,
        entered: (slept * US) as u32,
        ..io(at, Some(end))
    };
    let ios = |flags| {
        let mut ios = vec![io(0, Some(90)), write(100, 0, 300, flags), write(103, 0, 310, flags)];
        ios.extend([
            write(107, 195, 500, flags),
            write(304, 0, 510, flags),
            write(308, 196, 700, flags),
        ]);
        ios.push(io(800, Some(900)));
        ios
    };
    // The third sleeps until 302, and the fourth comes 2 us later.
    let after = workload(vec![process(ios(Flags::NONE))], vec![]).infer();
    let found: Vec<_> = after[0]
        .iter()
        .map(|after| (after.completions, after.think / US, after.continues))
        .collect();
    let [none, continued] = [false, true];
    assert_eq!(
        found,
        [
            (0, 0, none),
            (1, 10, none),
            (1, 13, continued),
            (1, 17, continued),
            (1, 19, continued),
            (1, 23, continued),
            (6, 100, none)
        ]
    );
    let direct = [(0, 0), (1, 10), (1, 13), (1, 17), (2, 4), (2, 8), (6, 100)];
    assert_eq!(inferred(ios(Flags::SYNC.with(Flags::IDLE)), vec![]), direct);
}

/// Writes of up to 32 MiB, of which the kernel makes requests of 512 KiB, and lets in 96 of them.
#[test]
fn a_write_that_was_split_has_entered_with_its_last_request() {
    let path = data("kernel-truth/whatif/buffered-mq-deadline.ftrace.zst");
    let workload = read(&mut || crate::open(&path), None, &mut |_| {}).expect("a workload");
    let ios = workload.processes.iter().flat_map(|process| &process.ios);
    let large: Vec<_> = ios.filter(|io| io.bytes > 16 << 20).collect();
    assert!(
        large.len() > 10 && large.iter().all(|io| u64::from(io.entered - io.slept) > 100 * US),
        "{large:?}"
    );
    assert!(
        workload.crowds.show_dirty_sleeps(24) && workload.crowds.at_start > 24,
        "{:?}",
        workload.crowds
    );
}

#[test]
fn a_deep_queue_issues_one_for_each_completion() {
    // 32 I/Os at once. They complete in pairs, 30 us apart, which a woken process finds together.
    let mut ios: Vec<_> = (0..32).map(|n| io(n, Some(1000 + n / 2 * 300 + n % 2 * 30))).collect();
    ios.extend((0..32).map(|n| io(1050 + n / 2 * 300 + n % 2 * 5, Some(9000 + n))));
    let found = inferred(ios, vec![]);
    assert!(found[..32].iter().enumerate().all(|(n, &after)| after == (0, n as u64)));
    for (n, &after) in found[32..].iter().enumerate() {
        // The k-th I/O after the window follows the k-th completion.
        let think = if n % 2 == 0 { 50 } else { 25 };
        assert_eq!(after, (n as u64 + 1, think), "{n}");
    }
}

#[test]
fn a_barrier_waits_for_all() {
    // Eight writes, then one I/O when the last of them has completed, then eight again.
    let mut ios: Vec<_> = (0..8).map(|n| io(n, Some(500 + 100 * n))).collect();
    ios.push(io(1250, Some(1300)));
    ios.extend((0..8).map(|n| io(1310 + n, None)));
    let found = inferred(ios, vec![]);
    assert_eq!(found[8], (8, 50));
    assert!(found[9..].iter().all(|&(completions, _)| completions == 9));
}

#[test]
fn processes_are_apart() {
    let quick = process((0..3).map(|n| io(100 * n, Some(100 * n + 50))).collect());
    let slow = process((0..3).map(|n| io(1000 * n, Some(1000 * n + 900))).collect());
    let after = workload(vec![quick, slow], vec![]).infer();
    let thinks = |at: usize| after[at].iter().map(|after| after.think / US).collect::<Vec<_>>();
    assert_eq!((thinks(0), thinks(1)), (vec![0, 50, 50], vec![0, 100, 100]));
}

#[test]
fn a_gap_is_waited_for() {
    let ios = vec![io(0, Some(400)), io(1000, None), io(9000, Some(9400)), io(9500, None)];
    // Events from 1100 us to 8900 us are lost, among them the completion of the second.
    assert_eq!(
        inferred(ios, vec![(1_100 * US, 8_900 * US)]),
        [(0, 0), (1, 600), (2, 7900), (3, 100)]
    );
}

#[test]
fn no_io_follows_itself() {
    // A device that completes within the resolution of the clock, and a completion that was lost in
    // a gap.
    assert_eq!(
        inferred(vec![io(0, Some(0)), io(0, Some(0)), io(3, Some(3))], vec![]),
        [(0, 0), (1, 0), (2, 3)]
    );
    assert_eq!(
        inferred(vec![io(0, None), io(2000, None)], vec![(0, 2_000 * US)]),
        [(0, 0), (1, 2000)]
    );
}

#[test]
fn depth_counts_what_is_under_way_at_once() {
    let ios = vec![io(0, Some(10)), io(1, Some(5)), io(2, None), io(6, Some(20)), io(10, Some(12))];
    assert_eq!(process(ios).depth(), 2);
    assert_eq!(process(vec![io(0, None)]).depth(), 1);
}

#[test]
fn a_stretch_of_a_workload_is_timed_from_its_start() {
    // Ten I/Os 1 ms apart, and ten of another process 10 us apart; a gap in the second part.
    let calm = process((0..10).map(|n| io(1000 * n, Some(1000 * n + 400))).collect());
    let busy = process((0..10).map(|n| io(20_000 + 10 * n, Some(20_500 + 10 * n))).collect());
    let all = workload(vec![calm, busy], vec![(20_035 * US, 20_036 * US)]);
    assert_eq!(all.len(), 20);
    let (from, until) = (20_000 * US, 20_040 * US);
    let part = all.between(from + 10 * US, until);
    assert_eq!(
        (part.len(), part.processes.len(), &part.gaps[..]),
        (4, 1, &[(25 * US, 26 * US)][..])
    );
    let first = part.processes[0].ios[0];
    assert_eq!((first.at, first.completed), (0, Some(500 * US)));
    let part = all.between(0, 9_000 * US);
    assert_eq!((part.len(), part.gaps.len(), part.is_empty()), (10, 0, false));
}

fn read_text(text: &str) -> Workload {
    let bytes = text.as_bytes().to_vec();
    read(&mut || crate::from_bytes(bytes.clone()), None, &mut |_| {}).expect("a workload")
}

#[test]
fn bios_of_a_plug_go_together_and_keep_what_they_carry() {
    let text = "\
  a-11 [000] ..... 1.000000: block_bio_queue: 8,0 WSM 100 + 8 [a]
  a-11 [000] ..... 1.000001: block_getrq: 8,0 WSM 100 + 8 [a]
  a-11 [000] ..... 1.000002: block_plug: [a]
  b-12 [001] ..... 1.000003: block_bio_queue: 8,0 R 5000 + 16 [b]
  b-12 [001] ..... 1.000004: block_getrq: 8,0 R 5000 + 16 [b]
  b-12 [001] ..... 1.000004: block_io_start: 8,0 R 8192 () 5000 + 16 rt,0,2 [b]
  b-12 [001] ..... 1.000005: block_rq_issue: 8,0 R 8192 () 5000 + 16 rt,0,2 [b]
  a-11 [000] ..... 1.000006: block_bio_queue: 8,0 WSM 108 + 8 [a]
  a-11 [000] ..... 1.000007: block_bio_backmerge: 8,0 WSM 108 + 8 [a]
  a-11 [000] ..... 1.000008: block_unplug: [a] 1
  a-11 [000] ..... 1.000009: block_rq_issue: 8,0 WSM 8192 () 100 + 16 be,0,4 [a]
  a-11 [000] ..... 1.000010: block_bio_queue: 8,0 FWS 0 + 0 [a]
  b-12 [001] ..... 1.000500: block_rq_complete: 8,0 R () 5000 + 16 rt,0,2 [0]
  a-11 [000] ..... 1.000600: block_rq_complete: 8,0 WSM () 100 + 16 be,0,4 [0]
";
    let found = read_text(text);
    assert_eq!((found.taken, found.device), (Taken::Queued, DeviceNumber::new(8, 0)));
    let labels: Vec<String> = found.processes.iter().map(WorkloadProcess::label).collect();
    assert_eq!(labels, ["a-11", "b-12"]);
    let [first, second, flush] = found.processes[0].ios[..] else {
        panic!("{:?}", found.processes[0])
    };
    assert_eq!((first.joins, second.joins, flush.joins), (false, true, false));
    assert_eq!(
        (first.completed, second.completed, flush.completed),
        (Some(600 * US), Some(600 * US), None)
    );
    assert_eq!((first.op, first.flags), (Op::Write, Flags::SYNC | Flags::META | Flags::IDLE));
    assert_eq!((flush.op, flush.bytes), (Op::Flush, 0));
    let read = found.processes[1].ios[0];
    assert_eq!(
        (read.at, read.completed, read.sector, read.bytes),
        (3 * US, Some(500 * US), 5000, 8192)
    );
    assert_eq!(
        read.prio.map(|prio| (prio.class(), prio.level())),
        Some((elevon_core::ioprio::PrioClass::Rt, 2))
    );
}

#[test]
fn without_queue_events_requests_are_taken() {
    let text = "\
  a-11 [000] ..... 1.000005: block_rq_issue: 8,0 R 8192 () 5000 + 16 [a]
  a-11 [000] ..... 1.000500: block_rq_complete: 8,0 R () 5000 + 16 [0]
";
    let found = read_text(text);
    assert_eq!(found.taken, Taken::Issued);
    assert_eq!(found.processes[0].ios.len(), 1);
    assert_eq!(found.processes[0].ios[0].completed, Some(495 * US));
}

#[test]
fn a_real_trace_has_every_bio_before_it_was_split() {
    let path = data("kernel-truth/whatif/mq-deadline.ftrace.zst");
    let found = read(&mut || crate::open(&path), None, &mut |_| {}).expect("a workload");
    let of = |op: Op, bytes: u64| {
        let ios = found.processes.iter().flat_map(|process| &process.ios);
        ios.filter(|io| io.op == op && io.bytes == bytes && io.completed.is_some()).count()
    };
    // fio's counts: db, scan, log with an fsync after each fourth write, bulk.
    assert_eq!(
        [of(Op::Read, 8192), of(Op::Read, 1 << 20), of(Op::Write, 65536)],
        [3233, 755, 1162]
    );
    assert_eq!([of(Op::Flush, 0), of(Op::Write, 32768)], [290, 10_819]);
    let depths: Vec<u64> = found.processes.iter().map(WorkloadProcess::depth).collect();
    assert_eq!(depths, [4, 1, 1, 16]);
}

/// Bytes of each I/O of the first process, and where its bios ended.
fn ios_of(text: &str) -> Vec<(u64, Vec<u64>)> {
    let found = read_text(text);
    let ends = |io: &WorkloadIo| found.bio_ends[io.bio_ends as usize].clone();
    found.processes[0].ios.iter().map(|io| (io.bytes, ends(io))).collect()
}

#[test]
fn the_bios_of_a_call_are_one_io() {
    // 1 MiB and 4 KiB, of which the last request of the first is in the plug when the second comes.
    let one = "\
  a-11 [000] ..... 1.000000: block_bio_queue: 8,0 R 0 + 2048 [a]
  a-11 [000] ..... 1.000001: block_split: 8,0 R 0 / 1024 [a]
  a-11 [000] ..... 1.000002: block_getrq: 8,0 R 0 + 1024 [a]
  a-11 [000] ..... 1.000003: block_getrq: 8,0 R 1024 + 1024 [a]
  a-11 [000] ..... 1.000004: block_rq_issue: 8,0 R 524288 () 0 + 1024 [a]
  a-11 [000] ..... 1.000005: block_bio_queue: 8,0 R 2048 + 8 [a]
  a-11 [000] ..... 1.000006: block_getrq: 8,0 R 2048 + 8 [a]
  a-11 [000] ..... 1.000007: block_rq_issue: 8,0 R 524288 () 1024 + 1024 [a]
  a-11 [000] ..... 1.000008: block_rq_issue: 8,0 R 4096 () 2048 + 8 [a]
  a-11 [000] ..... 1.000500: block_rq_complete: 8,0 R () 1024 + 1024 [0]
  a-11 [000] ..... 1.000501: block_rq_complete: 8,0 R () 0 + 1024 [0]
  a-11 [000] ..... 1.000400: block_rq_complete: 8,0 R () 2048 + 8 [0]
";
    assert_eq!(ios_of(one), [(1028 << 10, vec![1 << 20])]);
    let found = read_text(one);
    assert_eq!(found.processes[0].ios[0].completed, Some(501 * US), "when its last bio does");
    // What comes after the plug was flushed is another I/O, whatever it is.
    let flushed = one.replace("1.000007", "1.0000045");
    assert_eq!(ios_of(&flushed), [(1 << 20, vec![]), (4096, vec![])]);
    // As is what another thread does, what does not carry on, and what does something else.
    for (from, to) in [
        ("  a-11 [000] ..... 1.000005", "  b-12 [000] ..... 1.000005"),
        ("R 2048 + 8", "R 2056 + 8"),
        ("R 2048 + 8", "RS 2048 + 8"),
        // The rest of a bio that is not full is none.
        ("R 0 + 2048", "R 0 + 2040"),
        // Readahead is the page cache's.
        ("R ", "RA "),
    ] {
        let other = one.replace(from, to);
        assert_ne!(other, one);
        assert!(ios_of(&other).iter().all(|(_, ends)| ends.is_empty()), "{from}: {to}");
    }
    // Bios of one size may be I/Os under one plug.
    let alike = one
        .replace("R 2048 + 8", "R 2048 + 2048")
        .replace("R 4096 () 2048 + 8", "R 1048576 () 2048 + 2048");
    assert_eq!(ios_of(&alike), [(1 << 20, vec![]), (1 << 20, vec![])]);
}

#[test]
fn a_real_trace_has_the_ios_that_were_asked_for() {
    for (name, bytes, sizes) in [
        ("traces/dd-1028k-direct.ftrace", vec![1028 << 10; 8], 2),
        ("traces/dd-64m-direct-ext4-none-512.ftrace", vec![64 << 20, 64 << 20], 2),
        ("traces/dd-64m-direct-ext4-mq-deadline-512.ftrace", vec![64 << 20, 64 << 20], 2),
    ] {
        let path = data(&format!("kernel-truth/{name}"));
        let found = read(&mut || crate::open(&path), None, &mut |_| {}).expect("a workload");
        assert_eq!(found.processes.len(), 1);
        assert_eq!(
            found.processes[0].ios.iter().map(|io| io.bytes).collect::<Vec<_>>(),
            bytes,
            "{name}"
        );
        assert_eq!(found.bio_ends.len(), sizes, "{name}");
    }
    // The page cache's own reads stay what they were.
    let path = data("kernel-truth/traces/buffered-seqread-ext4.ftrace");
    let found = read(&mut || crate::open(&path), None, &mut |_| {}).expect("a workload");
    assert_eq!(found.bio_ends, [Vec::<u64>::new()]);
}

/// An I/O without bytes of a format without flags is no flush.
#[test]
fn a_write_of_no_bytes_is_no_flush() {
    let text = "3,W,4096,0,1577808000001000\n3,W,4096,4096,1577808000002000\n3,R,4096,0,1577808000003000\n";
    let workload = read(&mut || crate::from_bytes(text.into()), None, &mut |_| {}).unwrap();
    let ops: Vec<_> = workload.processes[0].ios.iter().map(|io| (io.op, io.bytes)).collect();
    assert_eq!((ops, workload.left_out), (vec![(Op::Write, 4096)], 2));
}

/// What a selection keeps, as times in microseconds by process.
fn selected(all: &Workload, selection: &Selection) -> Result<Vec<(String, Vec<u64>)>, SelectError> {
    let part = all.select(selection)?;
    let times = |process: &WorkloadProcess| process.ios.iter().map(|io| io.at / US).collect();
    Ok(part.processes.iter().map(|process| (process.label(), times(process))).collect())
}

#[test]
fn a_window_and_processes_are_selected() {
    let of = |id, name: &str, ios| WorkloadProcess {
        id: Some(id),
        name: Some(name.into()),
        ..process(ios)
    };
    let calm = of(1, "calm", (0..10).map(|n| io(1000 * n, Some(1000 * n + 500))).collect());
    let busy = of(2, "busy", (0..10).map(|n| io(4000 + 10 * n, None)).collect());
    // The first event of the device came 100 us before its first I/O.
    let all =
        Workload { start: 100 * US, duration: 9500 * US, ..workload(vec![calm, busy], vec![]) };
    let window = |from: u64, until: u64| Selection {
        from: Some(from * US),
        until: Some(until * US),
        ..Selection::default()
    };
    let found = selected(&all, &window(2100, 4120)).expect("some");
    assert_eq!(
        found,
        [("calm-1".to_owned(), vec![0, 1000, 2000]), ("busy-2".to_owned(), vec![2000, 2010])]
    );
    let part = all.select(&window(2100, 4120)).expect("some");
    assert_eq!((part.start, part.duration), (2100 * US, 2020 * US));
    assert_eq!(part.processes[0].ios[0].completed, Some(500 * US));
    for name in ["busy", "2", "busy-2"] {
        let one = Selection { processes: vec![name.into()], ..Selection::default() };
        let found = selected(&all, &one).expect("some");
        assert_eq!((found.len(), found[0].1.len(), found[0].1[1]), (1, 10, 10), "{name}");
    }
    let error = |selection: &Selection| selected(&all, selection).expect_err("nothing").to_string();
    let bussy = Selection { processes: vec!["bussy".into()], ..Selection::default() };
    assert_eq!(error(&bussy), "no process bussy (did you mean `busy`?); there are calm-1, busy-2");
    let early = Selection { processes: vec!["busy".into()], ..window(0, 4000) };
    assert_eq!(error(&early), "no I/O from 0ns until 4ms, process busy; the first is at 4.1ms");
    let between = Selection { processes: vec!["calm".into()], ..window(2200, 2300) };
    assert_eq!(
        error(&between),
        "no I/O from 2.2ms until 2.3ms, process calm; the nearest is at 2.1ms and at 3.1ms"
    );
    let late = Selection { from: Some(20_000 * US), ..Selection::default() };
    assert_eq!(error(&late), "no I/O from 20ms; the last is at 9.1ms");
    let cgroup = Selection { cgroups: vec![7], ..Selection::default() };
    assert!(
        error(&cgroup).starts_with("no I/O of cgroup 7: its events name no cgroups"),
        "{}",
        error(&cgroup)
    );
}

#[test]
fn a_cgroup_is_selected_by_each_io() {
    let charged = |at, cgroup, joins| WorkloadIo { cgroup: Some(cgroup), joins, ..io(at, None) };
    // One plug of three, and one of two.
    let ios = [
        charged(0, 5, false),
        charged(1, 6, true),
        charged(2, 5, true),
        charged(10, 6, false),
        charged(11, 5, true),
    ];
    let all = workload(vec![process(ios.to_vec())], vec![]);
    let of = |cgroups: &[u64]| Selection { cgroups: cgroups.to_vec(), ..Selection::default() };
    let part = all.select(&of(&[5])).expect("some");
    let kept: Vec<_> = part.processes[0].ios.iter().map(|io| (io.at / US, io.joins)).collect();
    assert_eq!(
        (kept, part.processes[0].cgroup),
        (vec![(0, false), (2, true), (11, false)], Some(5))
    );
    assert_eq!(all.select(&of(&[5, 6])).map(|part| part.len()), Ok(5));
    let error = all.select(&of(&[5, 9])).expect_err("no such cgroup").to_string();
    assert_eq!(error, "no I/O of cgroup 9; there are 5, 6");
}
