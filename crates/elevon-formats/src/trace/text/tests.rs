use std::io::Cursor as Memory;

use elevon_core::event::{Event, EventKind};
use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::status::Status;
use elevon_core::units::{Instant, Sector, TaskId};
use proptest::prelude::*;

use super::super::testing::{Random, context, event, kernel_texts, run};
use super::super::{Context, TaskName, ftrace, steps};
use super::*;

fn record(line: &str) -> TraceRecord<'_> {
    match parse_line(line) {
        Line::Event(record) => record,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn real_traces_hold_no_line_that_is_not_understood() {
    for (name, text) in kernel_texts() {
        let mut events = 0;
        for (number, line) in lines(&text) {
            match line {
                Line::Event(record) => {
                    assert!(record.time_ns.is_some() && record.cpu.is_some_and(|cpu| cpu < 2), "{name}:{number}");
                    events += 1;
                }
                Line::Comment => {}
                other => panic!("{name}:{number}: {other:?}"),
            }
        }
        // The header counts them.
        let written = text.split_once("entries-written: ").unwrap().1.split_once('/').unwrap().0;
        assert_eq!(events, written.parse::<usize>().unwrap(), "{name}");
    }
}

/// Every line of a real 6.18, taken apart, made an event, and written again, is the same line; but for the column of
/// interrupt and preemption flags, which a simulation does not have.
#[test]
fn real_lines_come_out_as_they_went_in() {
    for (name, text) in kernel_texts() {
        let mut context = Context { device: (7, 3), tasks: Vec::new(), cpus: 2, ioprio_in_events: true };
        let mut events = Vec::new();
        for record in records(&text) {
            let task = TaskName::new(record.comm.unwrap(), record.pid.unwrap());
            let known = context.tasks.iter().position(|t| *t == task);
            let id = known.unwrap_or_else(|| {
                context.tasks.push(task);
                context.tasks.len() - 1
            });
            events.push(Event { task: TaskId(id as u32), ..event_of(&record) });
        }
        let mut writer = ftrace::Writer::new(Memory::new(Vec::new()), context).unwrap();
        events.iter().for_each(|event| writer.event(event).unwrap());
        let written = String::from_utf8(writer.finish().unwrap().into_inner()).unwrap();
        assert_eq!(written.lines().count(), text.lines().count(), "{name}");
        for (ours, real) in written.lines().zip(text.lines()) {
            assert_eq!(without_flags(ours.trim_end()), without_flags(real), "{name}");
        }
        assert_eq!(steps::of_events(&events), steps::of_text(&text), "{name}");
    }
}

/// The five flags after the CPU, blanked.
fn without_flags(line: &str) -> String {
    match line.find("] ") {
        Some(at) if !line.starts_with('#') => format!("{}     {}", &line[..at + 2], &line[at + 7..]),
        _ => line.to_string(),
    }
}

/// The event that a record tells of, as far as it goes.
fn event_of(record: &TraceRecord<'_>) -> Event {
    let mut made = event(record.time_ns.unwrap(), EventKind::Plug, 0, 0);
    (made.cpu, made.ioprio) = (record.cpu.unwrap(), IoPrio::NONE);
    let mut put = |place: &Place<'_>, priority: Option<Priority<'_>>| {
        (made.op, made.flags) = parse_rwbs(place.rwbs).unwrap();
        (made.sector, made.sectors) = (Sector::new(place.sector), place.sectors);
        if let Some(priority) = priority {
            let class =
                [("none", PrioClass::None), ("rt", PrioClass::Rt), ("be", PrioClass::Be), ("idle", PrioClass::Idle)]
                    .into_iter()
                    .find(|(name, _)| *name == priority.class);
            made.ioprio = IoPrio::new(class.unwrap().1, priority.level as u8);
        }
    };
    made.kind = match &record.event {
        TraceEvent::Request { place, priority, .. } => {
            put(place, *priority);
            match record.name {
                "block_rq_issue" => EventKind::Issue,
                "block_rq_insert" => EventKind::Insert,
                "block_rq_merge" => EventKind::RequestMerge,
                "block_io_start" => EventKind::IoStart,
                "block_io_done" => EventKind::IoDone,
                other => panic!("{other}"),
            }
        }
        TraceEvent::RequestEnd { place, priority, error, .. } => {
            put(place, *priority);
            match record.name {
                "block_rq_complete" => EventKind::Complete { status: Status::from_errno(-error) },
                "block_rq_requeue" => EventKind::Requeue,
                other => panic!("{other}"),
            }
        }
        TraceEvent::Bio { place, .. } => {
            put(place, None);
            match record.name {
                "block_bio_queue" => EventKind::BioQueue,
                "block_getrq" => EventKind::GetRequest,
                "block_bio_backmerge" => EventKind::BackMerge,
                "block_bio_frontmerge" => EventKind::FrontMerge,
                other => panic!("{other}"),
            }
        }
        TraceEvent::Split { rwbs, sector, new_sector, .. } => {
            put(&Place { device: (0, 0), rwbs, sector: *sector, sectors: 0 }, None);
            EventKind::Split { new_sector: Sector::new(*new_sector) }
        }
        TraceEvent::Plug { .. } => EventKind::Plug,
        TraceEvent::Unplug { requests, .. } => EventKind::Unplug { requests: *requests, from_schedule: false },
        other @ (TraceEvent::BioEnd { .. } | TraceEvent::Remap { .. }) => panic!("{other:?}"),
    };
    made
}

#[test]
fn every_kind_of_prefix() {
    let tail = "8,0 W 4096 () 2048 + 8 [dd]";
    for line in [
        format!("              dd-1234    [002] d..1.  100.000123: block_rq_issue: {tail}"),
        format!("              dd-1234    [002] d..1   100.000123: block_rq_issue: {tail}"),
        format!("  dd-1234  [002]   100.000123: block_rq_issue:       {tail}"),
        format!("dd 1234 [002]   100.000123: block:block_rq_issue: {tail}"),
        format!("              dd-1234    (   1234) [002] d..1.  100.000123: block_rq_issue: {tail}"),
        format!("              dd-1234    (-------) [002] .....  100.000123000: block_rq_issue: {tail}  "),
    ] {
        let r = record(&line);
        assert_eq!(
            (r.comm, r.pid, r.cpu, r.time_ns),
            (Some("dd"), Some(1234), Some(2), Some(100_000_123_000)),
            "{line}"
        );
        let TraceEvent::Request { place, bytes, command, priority, comm } = r.event else { panic!("{line}") };
        assert_eq!(place, Place { device: (8, 0), rwbs: "W", sector: 2048, sectors: 8 });
        assert_eq!((bytes, command, priority, comm), (4096, "", None, "dd"));
        assert_eq!(r.name, "block_rq_issue");
    }
    let bare = record("block_rq_issue: 8,32 R 524288 () 86925864 + 1024 [Thread-51]");
    assert_eq!((bare.comm, bare.pid, bare.cpu, bare.time_ns), (None, None, None, None));
    assert_eq!(bare.letter(), Some('D'));
}

#[test]
fn names_may_hold_anything() {
    for comm in [
        "highpool[1]",
        "a b",
        "Web Content",
        "kworker/u8:1+flush",
        "x: y] z",
        "block_plug: [a]",
        "-1",
        "memfd:sealed-91",
    ] {
        let line = format!("{comm:>16}-77      [000] .....     5.000001: block_bio_queue: 8,0 R 0 + 8 [{comm}]");
        let r = record(&line);
        assert_eq!((r.comm, r.pid), (Some(comm.trim()), Some(77)));
        assert_eq!(
            r.event,
            TraceEvent::Bio { place: Place { device: (8, 0), rwbs: "R", sector: 0, sectors: 8 }, comm }
        );
    }
}

#[test]
fn every_shape_of_tail() {
    let place = |device, rwbs, sector, sectors| Place { device, rwbs, sector, sectors };
    let prio = |class, hint, level| Some(Priority { class, hint, level });
    for (line, expected) in [
        (
            "block_bio_remap: 8,1 R 2056 + 8 <- (8,1) 8",
            TraceEvent::Remap { place: place((8, 1), "R", 2056, 8), from_device: (8, 1), from_sector: 8, bios: None },
        ),
        (
            "block_rq_remap: 8,1 R 2056 + 8 <- (8,1) 8 3",
            TraceEvent::Remap {
                place: place((8, 1), "R", 2056, 8),
                from_device: (8, 1),
                from_sector: 8,
                bios: Some(3),
            },
        ),
        (
            "block_split: 8,0 R 0 / 1024 [dd]",
            TraceEvent::Split { device: (8, 0), rwbs: "R", sector: 0, new_sector: 1024, comm: "dd" },
        ),
        ("block_plug: [dd]", TraceEvent::Plug { comm: "dd" }),
        ("block_unplug: [highpool[1]] 4", TraceEvent::Unplug { comm: "highpool[1]", requests: 4 }),
        (
            "block_rq_issue: 7,0 R 524288 () 0 + 1024 be,0,4 [dd]",
            TraceEvent::Request {
                place: place((7, 0), "R", 0, 1024),
                bytes: 524288,
                command: "",
                priority: prio("be", Some(0), 4),
                comm: "dd",
            },
        ),
        (
            "block_rq_issue: 8,48 N 36 (12 00 00 00) 0 + 0 rt,4 [sg]",
            TraceEvent::Request {
                place: place((8, 48), "N", 0, 0),
                bytes: 36,
                command: "12 00 00 00",
                priority: prio("rt", None, 4),
                comm: "sg",
            },
        ),
        (
            "block_rq_complete: 8,0 R () 0 + 1024 [-5]",
            TraceEvent::RequestEnd { place: place((8, 0), "R", 0, 1024), command: "", priority: None, error: -5 },
        ),
        (
            "block_rq_complete: 7,3 FF () 18446744073709551615 + 0 none,0,0 [0]",
            TraceEvent::RequestEnd {
                place: place((7, 3), "FF", u64::MAX, 0),
                command: "",
                priority: prio("none", Some(0), 0),
                error: 0,
            },
        ),
        ("block_bio_complete: 253,0 R 0 + 8 [0]", TraceEvent::BioEnd { place: place((253, 0), "R", 0, 8), error: 0 }),
        (
            "block_io_done: 7,0 R 0 () 0 + 0 none,0,0 [ksoftirqd/0]",
            TraceEvent::Request {
                place: place((7, 0), "R", 0, 0),
                bytes: 0,
                command: "",
                priority: prio("none", Some(0), 0),
                comm: "ksoftirqd/0",
            },
        ),
    ] {
        assert_eq!(record(line).event, expected, "{line}");
    }
}

#[test]
fn what_is_no_event_says_what_it_is() {
    assert_eq!(parse_line("# tracer: nop"), Line::Comment);
    assert_eq!(parse_line("CPU:1 [LOST 42 EVENTS]"), Line::Lost { events: 42 });
    assert_eq!(parse_line("  a-1 [000] .....  1.000001: sched_switch: prev_comm=block_x"), Line::Other);
    assert_eq!(
        parse_line("block_teleport: 8,0 R 0 + 8 [dd]"),
        Line::Malformed { expected: "the name of a known block event" }
    );
    assert_eq!(
        parse_line("block_bio_queue: 8,0 R 0 + eight [dd]"),
        Line::Malformed { expected: "a number of sectors" }
    );
    assert_eq!(parse_line("dd-1 1.5: block_plug: [dd]"), Line::Malformed { expected: "a CPU in brackets" });
}

#[test]
fn letters_of_operations() {
    for (text, op, flags) in [
        ("R", Op::Read, Flags::NONE),
        ("RA", Op::Read, Flags::RAHEAD),
        ("FF", Op::Flush, Flags::PREFLUSH),
        ("F", Op::Flush, Flags::NONE),
        ("FWFS", Op::Write, Flags::PREFLUSH | Flags::FUA | Flags::SYNC),
        ("FWS", Op::Write, Flags::PREFLUSH | Flags::SYNC),
        ("WSM", Op::Write, Flags::SYNC | Flags::META),
        ("DS", Op::Discard, Flags::SYNC),
        ("DE", Op::SecureErase, Flags::NONE),
        ("N", Op::WriteZeroes, Flags::NONE),
    ] {
        assert_eq!(parse_rwbs(text), Some((op, flags)), "{text}");
    }
    for text in ["", "ZA", "RR", "WX", "SW"] {
        assert_eq!(parse_rwbs(text), None, "{text}");
    }
}

#[test]
fn steps_of_a_real_trace() {
    let (_, text) = kernel_texts().into_iter().find(|(name, _)| name.contains("dd-1028k")).unwrap();
    let steps = steps::of_text(&text);
    let shown: Vec<String> = steps[..12].iter().map(|s| format!("{} {}+{}", s.letter, s.sector, s.sectors)).collect();
    assert_eq!(
        shown,
        [
            "Q 0+2048",
            "X 0+1024",
            "G 0+1024",
            "G 1024+1024",
            "I 0+1024",
            "D 0+1024",
            "Q 2048+8",
            "G 2048+8",
            "I 1024+1024",
            "D 1024+1024",
            "I 2048+8",
            "D 2048+8"
        ]
    );
    assert_eq!(steps.len(), 120);
}

/// What is written reads back as it was, for either form of request events.
#[test]
fn written_events_read_back() {
    for (seed, ioprio_in_events) in [(1, true), (2, false)] {
        let context = Context { ioprio_in_events, ..context() };
        let events = run(seed, 300, 5);
        let mut writer = ftrace::Writer::new(Memory::new(Vec::new()), context.clone()).unwrap();
        events.iter().for_each(|event| writer.event(event).unwrap());
        let text = String::from_utf8(writer.finish().unwrap().into_inner()).unwrap();
        assert!(text.contains(&format!("entries-written: {0}/{0}   #P:4", events.len())));
        let read: Vec<TraceRecord<'_>> = records(&text).collect();
        assert_eq!(read.len(), events.len());
        for (record, event) in read.iter().zip(&events) {
            let (comm, pid) = context.task(event.task);
            assert_eq!((record.comm, record.pid, record.cpu), (Some(comm), Some(pid), Some(event.cpu)));
            assert!(record.time_ns.unwrap().abs_diff(event.time.get()) <= 500);
            assert_eq!(record.name, ftrace::name(event.kind));
            let back = event_of(record);
            assert_eq!(without_what_text_lacks(back, record), without_what_text_lacks(*event, record));
        }
        assert_eq!(steps::of_events(&events), steps::of_text(&text));
    }
}

/// Leaves of an event what its line can tell.
fn without_what_text_lacks(mut event: Event, record: &TraceRecord<'_>) -> Event {
    (event.time, event.task, event.tag) = (Instant::ZERO, TaskId::IDLE, None);
    if let EventKind::Unplug { requests, .. } = event.kind {
        event.kind = EventKind::Unplug { requests, from_schedule: false };
    }
    match record.event {
        TraceEvent::Plug { .. } | TraceEvent::Unplug { .. } => {
            (event.op, event.flags) = (Op::Read, Flags::NONE);
            (event.sector, event.sectors, event.ioprio) = (Sector::ZERO, 0, IoPrio::NONE);
        }
        TraceEvent::Split { .. } => (event.sectors, event.ioprio) = (0, IoPrio::NONE),
        TraceEvent::Request { priority: Some(_), .. } | TraceEvent::RequestEnd { priority: Some(_), .. } => {}
        _ => event.ioprio = IoPrio::NONE,
    }
    event
}

/// Real lines with bytes changed, doubled, cut and moved.
#[test]
fn mangled_real_lines_never_panic() {
    let mut random = Random(5);
    let (_, text) = kernel_texts().pop().unwrap();
    let real: Vec<&str> = text.lines().collect();
    let mut understood = 0;
    for _ in 0..30_000 {
        let mut bytes = real[random.below(real.len() as u64) as usize].as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(4) {
                0 => bytes[at] = random.below(256) as u8,
                1 => bytes.truncate(at + 1),
                2 => bytes.insert(at, b"[]() :+-,/"[random.below(10) as usize]),
                _ => bytes.extend_from_within(at..),
            }
        }
        let line = String::from_utf8_lossy(&bytes);
        understood += usize::from(matches!(parse_line(&line), Line::Event(_)));
    }
    assert!(understood > 1000 && understood < 29_000, "{understood}");
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}") {
        lines(&text).for_each(drop);
    }

    #[test]
    fn no_tail_makes_the_reader_panic(
        name in prop::sample::select(EVENTS.map(|(name, ..)| name).to_vec()),
        tail in r"[0-9,RWFS ()+\[\]<\-/a-z]{0,60}",
    ) {
        parse_line(&format!("{name}: {tail}"));
        parse_line(&format!("x-1 [000] 1.0: {name}:{tail}"));
        parse_line(&format!("{tail}: {name}: 8,0 R 0 + 8 [a]"));
    }

    #[test]
    fn letters_read_back(op in 0usize..6, bits in 0u32..64) {
        let op = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::SecureErase, Op::WriteZeroes][op];
        let all = [Flags::PREFLUSH, Flags::FUA, Flags::RAHEAD, Flags::SYNC, Flags::META, Flags::ATOMIC];
        let flags = all.iter().enumerate().filter(|(n, _)| bits >> n & 1 == 1).fold(Flags::NONE, |f, (_, &g)| f | g);
        // A flush operation with FUA prints as one with a preflush; no kernel makes that.
        prop_assume!(op != Op::Flush || !flags.contains(Flags::FUA));
        prop_assert_eq!(parse_rwbs(&elevon_core::op::Rwbs(op, flags).to_string()), Some((op, flags)));
    }
}
