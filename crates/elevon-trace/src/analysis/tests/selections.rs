//! Windows of time, processes and cgroups that are selected.

use super::*;
use crate::select::Selection;

const MS: u64 = 1_000_000;

/// A writer with four requests of 10 ms in a device that serves one after another, up to 100 ms,
/// and a reader with one of 1 ms every 20 ms. Times are from the first event, at 1 s.
fn trace() -> String {
    let mut events: Vec<(u64, String)> = Vec::new();
    let mut io = |task: &str, op: &str, sector: u64, from: u64, until: u64| {
        let head = |at: u64, kind: &str| {
            format!(
                "{task} [000] ..... {}.{:06}: {kind}: 8,0 {op}",
                1 + at / 1000,
                at % 1000 * 1000
            )
        };
        events.push((from, format!("{} {sector} + 8 [x]", head(from, "block_bio_queue"))));
        events.push((from, format!("{} {sector} + 8 [x]", head(from, "block_getrq"))));
        events.push((from, format!("{} 4096 () {sector} + 8 [x]", head(from, "block_rq_issue"))));
        events.push((until, format!("{} () {sector} + 8 [0]", head(until, "block_rq_complete"))));
    };
    for n in 0..10 {
        io("writer-7", "W", 1000 + 8 * n, 10 * n, 10 * n + 40);
    }
    for n in 0..5 {
        io("reader-8", "R", 9000 + 80 * n, 20 * n + 1, 20 * n + 2);
    }
    events.sort_by_key(|(at, _)| *at);
    events.into_iter().map(|(_, line)| line + "\n").collect()
}

fn part(selection: &Selection) -> Result<Inspection, InspectError> {
    let bytes = trace().into_bytes();
    inspect_part(&mut || crate::from_bytes(bytes.clone()), None, selection, None, &mut |_| {})
}

fn window(from: u64, until: u64) -> Selection {
    Selection { from: Some(from * MS), until: Some(until * MS), ..Selection::default() }
}

fn of(process: &str) -> Selection {
    Selection { processes: vec![process.into()], ..Selection::default() }
}

#[test]
fn a_window_counts_what_happens_in_it() {
    let all = part(&Selection::default()).expect("a trace");
    assert_eq!(
        (all.counts.bios[0], all.counts.bios[1], all.depths.max, all.start),
        (5, 10, 5, Some(1_000 * MS))
    );
    let found = part(&window(40, 60)).expect("a part");
    assert_eq!(found.span, Some((1_040 * MS, 1_060 * MS)));
    // Queued at 40 and 50, and completed at 40 and 50, of which the former began before the window.
    assert_eq!((found.counts.bios, found.counts.completed), ([1, 2, 0, 0, 0], [1, 2, 0, 0, 0]));
    assert_eq!(found.stages[1].issued_to_completed.max, 40 * MS);
    // Four writes are in the device all the time, and a read for 1 ms.
    assert_eq!(
        (found.depths.time(), found.depths.busy(), found.depths.integral),
        (20 * MS, 20 * MS, 81 * u128::from(MS))
    );
    assert_eq!(found.utilisation.exact.get(), 20 * MS);
    assert_eq!((found.counts.unmatched, found.requests_under_way), (0, 4));
    assert_eq!(found.timeline.start, Some(1_040 * MS));
    let in_device: u64 = found.timeline.slots.iter().map(|slot| slot.in_device).sum();
    assert_eq!(in_device, 81 * MS);
}

#[test]
fn windows_add_up() {
    let all = part(&Selection::default()).expect("a trace");
    let parts =
        [window(0, 35), window(35, 61), Selection { from: Some(61 * MS), ..Selection::default() }];
    let parts = parts.map(|selection| part(&selection).expect("a part"));
    let sum = |of: fn(&Inspection) -> u64| parts.iter().map(of).sum::<u64>();
    assert_eq!(sum(|found| found.counts.bios.iter().sum()), 15);
    assert_eq!(sum(|found| found.counts.completed.iter().sum()), 15);
    assert_eq!(sum(|found| found.events.iter().sum()), all.events.iter().sum::<u64>());
    assert_eq!(sum(|found| found.depths.busy()), all.depths.busy());
    assert_eq!(sum(|found| found.utilisation.exact.get()), all.utilisation.exact.get());
    let integral: u128 = parts.iter().map(|found| found.depths.integral).sum();
    assert_eq!(integral, all.depths.integral);
}

/// The device is all processes', and the rest is of the one that is selected.
#[test]
fn a_process_is_selected_and_the_device_stays_whole() {
    let all = part(&Selection::default()).expect("a trace");
    for name in ["reader", "8", "reader-8"] {
        let found = part(&of(name)).expect("a part");
        assert_eq!(
            (found.counts.bios, found.counts.completed),
            ([5, 0, 0, 0, 0], [5, 0, 0, 0, 0]),
            "{name}"
        );
        assert_eq!((found.stages[0].bio_total.max, found.stages[1].bio_total.count), (MS, 0));
        assert_eq!(
            (found.processes.len(), found.processes[0].label()),
            (1, "reader (8)".to_owned())
        );
        assert_eq!(
            (found.depths.max, found.depths.integral),
            (all.depths.max, all.depths.integral)
        );
        assert_eq!(
            (found.utilisation, found.events, found.span),
            (all.utilisation, all.events, all.span)
        );
        assert_eq!((found.device_time, all.device_time), (405 * MS, 405 * MS));
        let sum = |found: &Inspection, of: fn(&Slot) -> u64| {
            found.timeline.slots.iter().map(of).sum::<u64>()
        };
        assert_eq!(sum(&found, |slot| slot.in_device), sum(&all, |slot| slot.in_device));
        assert_eq!(
            (sum(&found, |slot| slot.completed[0]), sum(&found, |slot| slot.completed[1])),
            (5, 0)
        );
    }
    let both =
        part(&Selection { processes: vec!["reader".into()], ..window(40, 60) }).expect("a part");
    assert_eq!(
        (both.counts.bios[0], both.counts.bios[1], both.depths.integral),
        (1, 0, 81 * u128::from(MS))
    );
    assert_eq!(
        (both.bios_under_way, both.requests_under_way),
        (0, 0),
        "those of the writer are not asked for"
    );
}

#[test]
fn a_cgroup_is_selected_by_each_bio() {
    let mut pass = Analysis::of_part(
        DeviceNumber::new(8, 0),
        &Selection { cgroups: vec![5], ..Selection::default() },
    );
    for (at, cgroup) in [(0, 5), (1, 6), (2, 5)] {
        let event = |kind, time| TraceEvent {
            time: Some(time),
            device: Some(DeviceNumber::new(8, 0)),
            sector: Some(1000 * at),
            bytes: Some(4096),
            op: Some(TraceOp::Read),
            tid: Some(1),
            cgroup: Some(cgroup),
            ..TraceEvent::new(kind)
        };
        pass.add(&[event(TraceKind::Queue, 10 * at), event(TraceKind::Issue, 10 * at + 1)]);
        // Completions name no cgroup.
        pass.add(&[TraceEvent { cgroup: None, ..event(TraceKind::Complete, 10 * at + 5) }]);
    }
    let reader = crate::from_bytes(trace().into_bytes()).expect("a reader");
    assert_eq!(pass.check_selection(&reader), Ok(()));
    let found = pass.finish(&reader);
    assert_eq!(
        (found.counts.bios[0], found.counts.completed[0], found.stages[0].issued_to_completed.max),
        (2, 2, 4)
    );
    assert_eq!((found.depths.busy(), found.processes[0].requests[0]), (12, 2));
}

#[test]
fn a_selection_of_nothing_is_an_error() {
    let error = |selection: &Selection| {
        part(selection).map(|_| ()).expect_err("nothing is there").to_string()
    };
    assert_eq!(
        error(&of("raeder")),
        "no process raeder (did you mean `reader`?); there are writer-7, reader-8"
    );
    assert_eq!(
        error(&Selection { from: Some(500 * MS), ..Selection::default() }),
        "no I/O from 500ms; the last is at 90ms"
    );
    let calm = Selection { processes: vec!["reader".into()], ..window(3, 20) };
    assert_eq!(
        error(&calm),
        "no I/O from 3ms until 20ms, process reader; the nearest is at 1ms and at 21ms"
    );
    let cgroup = Selection { cgroups: vec![3], ..Selection::default() };
    assert!(
        error(&cgroup).starts_with("no I/O of cgroup 3: its events name no cgroups"),
        "{}",
        error(&cgroup)
    );
}

/// A window of a partition is one of its disk.
#[test]
fn the_device_of_a_partition_has_the_same_window() {
    let mut text = String::new();
    for (n, sector) in [(0, 2048), (1, 90_000), (2, 2056), (3, 90_008)] {
        let at = format!("1.{:06}", 10_000 * n);
        let (part, start) = if sector < 9_000 { ("8,1", 2048) } else { ("8,2", 90_000) };
        let line = |kind: &str| format!("a-1 [000] ..... {at}: {kind}: 8,0 R");
        text +=
            &format!("{} {sector} + 8 <- ({part}) {}\n", line("block_bio_remap"), sector - start);
        text += &format!("{} {sector} + 8 [a]\n", line("block_bio_queue"));
        text += &format!("{} 4096 () {sector} + 8 [a]\n", line("block_rq_issue"));
        text += &format!(
            "a-1 [000] ..... 1.{:06}: block_rq_complete: 8,0 R () {sector} + 8 [0]\n",
            10_000 * n + 5_000
        );
    }
    let bytes = text.into_bytes();
    let mut open = || crate::from_bytes(bytes.clone());
    let found =
        inspect_part(&mut open, Some(DeviceNumber::new(8, 1)), &window(5, 28), None, &mut |_| {});
    let found = found.expect("a part");
    assert_eq!(
        (found.counts.bios[0], found.counts.completed[0]),
        (1, 2),
        "it began at 20 ms, and one ended at 5 ms"
    );
    assert_eq!(found.depths.busy(), 10 * MS, "of the disk, from 10 to 15 and from 20 to 25 ms");
}
