mod drivers;
mod odd;
mod prefixes;

use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::op::Flags;
use proptest::prelude::*;

use super::*;
use crate::event::{DeviceNumber, Gaps, TraceEvent, TraceKind};
use crate::op::TraceOp;
use crate::testing::{assert_ordered, counts, data, read_bytes, read_file};

fn record(line: &str) -> Record<'_> {
    match parse_line(line.as_bytes()) {
        Line::Event(record) => record,
        other => panic!("{line}: {other:?}"),
    }
}

/// `perf script -F ip,sym` without a call graph prints the address behind the event.
#[test]
fn an_address_may_follow_the_event() {
    let chain = "ffffffff81af4659 __traceiter_block_bio_queue+0x29 ([kernel.kallsyms])";
    for event in [
        "block_bio_queue: 8,0 R 0 + 8 [a]",
        "block_rq_complete: 8,0 R () 0 + 8 be,0,4 [-5]",
        "block_unplug: [a ffff] 4",
        "block_bio_remap: 8,0 R 2056 + 8 <- (8,1) 8",
    ] {
        let at = |event: &str| format!("a-1 [000] 1.5:  block:{event}");
        let long = at(&format!("{event} {chain}"));
        assert_eq!(record(&long), record(&at(event)), "{long}");
    }
}

/// An event as `trace-cmd report -R` prints it, field by field, is the same event.
#[test]
fn events_may_be_printed_field_by_field() {
    for (fields, usual) in [
        (
            "block_bio_queue:      dev=8388608 sector=2048 nr_sector=8 rwbs=WS comm=a b",
            "block_bio_queue: 8,0 WS 2048 + 8 [a b]",
        ),
        (
            "block_rq_issue: dev=0x10300001, sector=0x800, nr_sector=8, bytes=4096, ioprio=16388, rwbs=R, comm=dd, cmd=",
            "block_rq_issue: 259,1 R 4096 () 2048 + 8 be,0,4 [dd]",
        ),
        (
            "block_rq_complete: [FAILED TO PARSE] dev=8388608 sector=2048 nr_sector=8 error=-5 ioprio=0 rwbs=R cmd=",
            "block_rq_complete: 8,0 R () 2048 + 8 none,0,0 [-5]",
        ),
        // The kernel's option `fields`.
        (
            "block_rq_complete: dev=0x800000 (8388608) sector=0x800 (2048) nr_sector=0x8 (8) error=0xfffffffb (-5) \
                ioprio=0x4004 (16388) rwbs=R cmd=",
            "block_rq_complete: 8,0 R () 2048 + 8 be,0,4 [-5]",
        ),
        (
            "block_rq_issue: dev=0x800000 (8388608) sector=0xffffffffffffffff (-1) nr_sector=0x0 (0) bytes=0x0 (0) \
                ioprio=0x0 (0) rwbs=FF comm=dd cmd=",
            "block_rq_issue: 8,0 FF 0 () 18446744073709551615 + 0 none,0,0 [dd]",
        ),
        ("block_unplug: nr_rq=0x4 (4) comm=a (b)", "block_unplug: [a (b)] 4"),
        (
            "block_rq_complete: dev=8388608 sector=18446744073709551615 nr_sector=0 error=0 rwbs=FF cmd=",
            "block_rq_complete: 8,0 FF () 18446744073709551615 + 0 [0]",
        ),
        (
            "block_split: dev=8388608 sector=0 new_sector=1024 rwbs=R comm=dd",
            "block_split: 8,0 R 0 / 1024 [dd]",
        ),
        (
            "block_bio_remap: dev=8388608 sector=2056 nr_sector=8 old_dev=8388609 old_sector=8 rwbs=R",
            "block_bio_remap: 8,0 R 2056 + 8 <- (8,1) 8",
        ),
        ("block_unplug: nr_rq=4 comm=dd", "block_unplug: [dd] 4"),
        ("block_plug: comm=dd", "block_plug: [dd]"),
    ] {
        let at = |event: &str| format!("x-7 [001] 1.5: {event}");
        let (fields, usual) = (at(fields), at(usual));
        assert_eq!(record(&fields), record(&usual), "{fields}");
        let mut task = fields.clone();
        task.replace_range(..3, "<...>-7");
        let has_name = ["[a b]", "[a (b)]", "[dd]"].iter().any(|name| usual.contains(name));
        assert_eq!(record(&task).comm.is_some(), has_name, "{task}");
    }
    for line in [
        "block_rq_issue: dev=8388608 sector=x rwbs=R",
        "block_split: dev=1 sector=0 rwbs=R comm=dd",
    ] {
        let line = format!("x-7 [001] 1.5: {line}");
        assert!(matches!(parse_line(line.as_bytes()), Line::Malformed { .. }), "{line}");
    }
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
        let line = format!(
            "{comm:>16}-77      [000] .....     5.000001: block_bio_queue: 8,0 R 0 + 8 [{comm}]"
        );
        let found = record(&line);
        assert_eq!(
            (found.comm, found.event.tid),
            (Some(comm.trim().as_bytes()), Some(77)),
            "{line}"
        );
        assert_eq!((found.event.kind, found.event.sector), (TraceKind::Queue, Some(0)), "{line}");
    }
}

/// Kind, operation, sector, bytes, error and priority of a line without prefix.
type Facts = (TraceKind, Option<TraceOp>, Option<u64>, Option<u64>, Option<i32>, Option<IoPrio>);

#[test]
fn every_shape_of_tail() {
    let (read, other) = (Some(TraceOp::Read), Some(TraceOp::Other));
    let from = DeviceNumber::new(8, 1);
    let be = Some(IoPrio::DEFAULT);
    let expected: [(&str, Facts); 17] = [
        (
            "block_bio_remap: 8,1 R 2056 + 8 <- (8,1) 8",
            (TraceKind::Remap { from, from_sector: 8 }, read, Some(2056), Some(4096), None, None),
        ),
        (
            "block_rq_remap: 8,1 R 2056 + 8 <- (8,1) 8 3",
            (
                TraceKind::RequestRemap { from, from_sector: 8 },
                read,
                Some(2056),
                Some(4096),
                None,
                None,
            ),
        ),
        (
            "block_split: 8,0 R 0 / 1024 [dd]",
            (TraceKind::Split { new_sector: 1024 }, read, Some(0), Some(524288), None, None),
        ),
        // The remainder's sector has only 32 bits.
        (
            "block_split: 8,0 R 8589934592 / 1024 [dd]",
            (
                TraceKind::Split { new_sector: 8589935616 },
                read,
                Some(8589934592),
                Some(524288),
                None,
                None,
            ),
        ),
        ("block_plug: [dd]", (TraceKind::Plug, None, None, None, None, None)),
        (
            "block_unplug: [highpool[1]] 4",
            (TraceKind::Unplug { requests: 4, timer: None }, None, None, None, None, None),
        ),
        (
            "block_rq_issue: 7,0 R 524288 () 0 + 1024 be,0,4 [dd]",
            (TraceKind::Issue, read, Some(0), Some(524288), None, be),
        ),
        // Old kernels print no bytes.
        (
            "block_rq_issue: 7,0 R 0 () 0 + 1024 [dd]",
            (TraceKind::Issue, read, Some(0), Some(524288), None, None),
        ),
        // A patch adds the write hint.
        (
            "block_rq_issue: 7,0 R 524288 () 0 + 1024 be,0,4 |32768| [dd]",
            (TraceKind::Issue, read, Some(0), Some(524288), None, be),
        ),
        (
            "block_rq_complete: 7,0 R () 0 + 1024 be,0,4 |32768| [-5]",
            (TraceKind::Complete, read, Some(0), Some(524288), Some(-5), be),
        ),
        // perf prints the class as a number.
        (
            "block:block_rq_insert: 7,7 R 8192 () 63232 + 16 0x2,0,4 [fio]",
            (TraceKind::Insert, read, Some(63232), Some(8192), None, be),
        ),
        (
            "block_rq_issue: 8,48 N 36 (12 00 00 00) 0 + 0 rt,4 [sg]",
            (
                TraceKind::Issue,
                Some(TraceOp::Passthrough),
                Some(0),
                Some(36),
                None,
                Some(IoPrio::new(PrioClass::Rt, 4)),
            ),
        ),
        (
            "block_rq_complete: 8,0 R () 0 + 1024 [-5]",
            (TraceKind::Complete, read, Some(0), Some(524288), Some(-5), None),
        ),
        (
            "block_rq_complete: 7,3 FF () 18446744073709551615 + 0 none,0,0 [0]",
            (TraceKind::Complete, Some(TraceOp::Flush), None, Some(0), Some(0), Some(IoPrio::NONE)),
        ),
        (
            "block_rq_complete: 7,3 N () 8 + 8 invalid,0,0 [0]",
            (TraceKind::Complete, other, Some(8), Some(4096), Some(0), None),
        ),
        (
            "block_bio_complete: 253,0 R 0 + 8 [0]",
            (TraceKind::BioComplete, read, Some(0), Some(4096), Some(0), None),
        ),
        (
            "block_rq_tag_wait: 8,0 hctx=1 starved on hardware tags (depth=32)",
            (
                TraceKind::TagWait { depth: Some(32), is_driver_tag: true },
                None,
                None,
                None,
                None,
                None,
            ),
        ),
    ];
    for (line, facts) in expected {
        let event = record(line).event;
        let found = (event.kind, event.op, event.sector, event.bytes, event.error, event.ioprio);
        assert_eq!(found, facts, "{line}");
    }
}

#[test]
fn what_is_no_event_says_what_it_is() {
    assert_eq!(parse_line(b"# tracer: nop"), Line::Comment);
    assert_eq!(
        parse_line(b"CPU:1 [LOST 42 EVENTS]"),
        Line::Lost { cpu: Some(1), events: Some(42) }
    );
    assert_eq!(parse_line(b"CPU:3 [EVENTS DROPPED]"), Line::Lost { cpu: Some(3), events: None });
    assert_eq!(
        parse_line(b"  dd 1234 [002]   100.000123: PERF_RECORD_LOST lost 12"),
        Line::Lost { cpu: Some(2), events: Some(12) }
    );
    assert_eq!(
        parse_line(b"  a-1 [000] .....  1.000001: sched_switch: prev_comm=block_x"),
        Line::Other
    );
    assert_eq!(
        parse_line(b"  a-1 [000] .....  1.000001: block_dirty_buffer: 8,0 sector=1 size=2"),
        Line::Other
    );
    for (line, expected) in [
        ("block_teleport: 8,0 R 0 + 8 [dd]", "the name of a known block event"),
        ("block_bio_queue: 8,0 R 0 + eight [dd]", "a number of sectors"),
        ("block_bio_queue: 8,0 R 0 + 8", "brackets up to the end of the line"),
        ("block_bio_queue: 8,0 XX 0 + 8 [a]", "letters of an operation such as WS"),
        ("dd-1 [x] 1.5: block_plug: [dd]", "the number of a CPU"),
    ] {
        assert_eq!(parse_line(line.as_bytes()), Line::Malformed { expected }, "{line}");
    }
}

#[test]
fn the_bios_of_proposal_001_are_read_out_of_a_mail() {
    let mail = "\
Not a single bio with 64MB, but rather multiple various size of bios.\n\
> > > > > block_bio_queue: 8,32 R 86925864 + 2144 [Thread-51]\n\
> > > > > block_split: 8,32 R 86925864 / 86926888 [Thread-51]\n\
> > > > > block_rq_issue: 8,32 R 524288 () 86925864 + 1024 [Thread-51]\n\
> \n\
> dd-5970[001] ..... 758.485446: block_bio_queue: 254,52 R 2933336 +\n\
> 2136\n\
> dd-5970[001] ..... 758.487145: block_bio_queue: 254,52 R 2935472 +\n\
Best,\n";
    let (events, reader) = read_bytes(mail);
    assert_eq!(counts(&events), [("queue", 2), ("split", 1), ("issue", 1)]);
    assert_eq!((events[0].time, events[0].bytes), (None, Some(2144 * 512)));
    let last = events[3];
    assert_eq!(
        (last.time, last.sector, last.bytes),
        (Some(758_485_446_000), Some(2933336), Some(2136 * 512))
    );
    assert_eq!((last.tid, last.cpu), (Some(5970), Some(1)));
    assert_eq!(reader.report().skipped_count(), 1);
    assert_eq!(reader.report().problems[0].0.at, Position::Line(8));
}

#[test]
fn real_traces_are_read_whole() {
    let folder = data("kernel-truth/traces");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "ftrace") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let (events, reader) = read_file(&path);
        assert_ordered(&events);
        assert_eq!(
            events.len(),
            text.lines().filter(|line| line.contains(": block_")).count(),
            "{}",
            path.display()
        );
        let report = reader.report();
        assert_eq!((report.skipped_count(), report.gap_count), (0, 0), "{}", path.display());
        assert_eq!(report.devices.len(), 1);
        for (name, count) in counts(&events) {
            let name = match name {
                "queue" | "backmerge" | "frontmerge" => format!(" block_bio_{name}:"),
                "insert" | "issue" | "complete" => format!(" block_rq_{name}:"),
                _ => format!(" block_{name}:"),
            };
            assert_eq!(count, text.lines().filter(|line| line.contains(&name)).count(), "{name}");
        }
        files += 1;
    }
    assert!(files >= 5);
}

#[test]
fn lost_events_are_a_gap_that_no_latency_crosses() {
    let text = "\
a-1 [000] .....  1.000001: block_rq_issue: 8,0 R 4096 () 0 + 8 [a]\n\
a-1 [001] .....  1.000002: block_rq_issue: 8,0 R 4096 () 8 + 8 [a]\n\
CPU:0 [LOST 42 EVENTS]\n\
a-1 [001] .....  1.000003: block_rq_complete: 8,0 R () 8 + 8 [0]\n\
a-1 [000] .....  1.000009: block_rq_complete: 8,0 R () 0 + 8 [0]\n\
a-1 [000] .....  1.000010: block_rq_issue: 8,0 R 4096 () 0 + 8 [a]\n\
a-1 [000] .....  1.000011: block_rq_complete: 8,0 R () 0 + 8 [0]\n\
CPU:1 [LOST 7 EVENTS]\n";
    let (events, reader) = read_bytes(text);
    assert_ordered(&events);
    assert_eq!(events[1].kind, TraceKind::Lost { events: Some(42), until: Some(1_000_009_000) });
    assert_eq!((events[1].time, events[1].cpu), (Some(1_000_001_000), Some(0)));
    let report = reader.report();
    assert_eq!((report.gap_count, report.lost, report.events), (2, 49, 8));
    let mut gaps = Gaps::default();
    let crossed: Vec<bool> = events
        .iter()
        .filter_map(|event| {
            gaps.observe(event);
            let is_complete = event.kind == TraceKind::Complete;
            // The requests were issued at 1.000002, 1.000001 and 1.000010.
            is_complete.then(|| {
                gaps.crossed_since(if event.sector == Some(8) {
                    1_000_002_000
                } else {
                    1_000_001_000
                })
            })
        })
        .collect();
    assert_eq!(crossed[..2], [true, true]);
    assert!(!gaps.crossed_since(1_000_010_000));
}

/// Where buffers were overwritten, that of one CPU begins earlier than that of another: until the
/// second begins, its events are missing.
#[test]
fn a_buffer_that_begins_late_is_a_gap() {
    let text = "\
a-1 [000] .....  1.000001: block_rq_issue: 8,0 R 4096 () 0 + 8 [a]\n\
##### CPU 1 buffer started ####\n\
a-1 [001] .....  1.000009: block_rq_complete: 8,0 R () 0 + 8 [0]\n";
    let (events, reader) = read_bytes(text);
    assert_ordered(&events);
    assert_eq!(events[1].kind, TraceKind::Lost { events: None, until: Some(1_000_009_000) });
    assert_eq!((events[1].cpu, reader.report().gap_count), (Some(1), 1));
}

#[test]
fn an_overwritten_buffer_is_told() {
    let text = "# entries-in-buffer/entries-written: 1/20   #P:2\n\
        a-1 [000] ..... 1.000001: block_plug: [a]\n";
    assert_eq!(read_bytes(text).1.report().overwritten, Some(19));
}

#[test]
fn events_that_come_too_late_are_counted() {
    let mut text = String::new();
    for n in 0..20_000 {
        text.push_str(&format!("a-1 [000] ..... {}.000001: block_plug: [a]\n", n + 10));
    }
    text.push_str("a-1 [000] ..... 19000.000002: block_plug: [a]\n");
    text.push_str("a-1 [000] ..... 5.000001: block_plug: [a]\n");
    let (events, reader) = read_bytes(text);
    assert_ordered(&events);
    assert_eq!(events.len(), 20_001);
    assert_eq!(reader.report().skipped[0].first.at, Position::Line(20_002));
}

#[test]
fn only_one_device_is_delivered() {
    let text = "a-1 [000] ..... 1.000001: block_plug: [a]\n\
        a-1 [000] ..... 1.000002: block_bio_queue: 8,0 R 0 + 8 [a]\n\
        a-1 [000] ..... 1.000003: block_bio_queue: 8,16 R 0 + 8 [a]\n";
    let mut reader = crate::from_bytes(text.into()).unwrap();
    reader.set_device(Some("8:16".parse().unwrap()));
    let events = reader.read_all().unwrap();
    assert_eq!(counts(&events), [("queue", 1), ("plug", 1)]);
    assert_eq!(
        reader.report().devices,
        [(DeviceNumber::new(8, 0), 1), (DeviceNumber::new(8, 16), 1)]
    );
}

#[test]
fn a_line_without_end_is_cut_and_memory_stays_bounded() {
    let mut text = b"a-1 [000] ..... 1.000001: block_plug: [a]\n".to_vec();
    text.resize(5 * MAX_PIECE, b'x');
    text.extend_from_slice(b"\na-1 [000] ..... 2.000001: block_plug: [a]\n");
    let (events, _) = read_bytes(text);
    assert_eq!(events.len(), 2);
}

/// Content that could make a reader slow: each takes far less than a second.
#[test]
fn hostile_content_does_not_hang() {
    let lines =
        " block_".repeat(MAX_PIECE / 7) + "\n" + &" block_plug:".repeat(MAX_PIECE / 12) + "\n";
    let text = format!("a-1 [000] ..... 1.000001: block_plug: [a]\n{}", lines.repeat(2));
    assert_eq!(read_bytes(text).0.len(), 1);
    let mut packets = vec![0x0a, 0x03, 0x50, 0x80, 0x01];
    packets.resize(3 * MAX_PIECE, 0x0a);
    read_bytes(packets.clone());
    packets.truncate(5);
    packets.extend([0x0a, 0xff, 0xff, 0x7f, 0x0b, 0xff].repeat(MAX_PIECE / 3));
    read_bytes(packets);
    let mut records = vec![0x07, b't', b'a', b'e'];
    records.extend([0x07, b't', b'a', b'e', 0, b'e', b'a', b't'].repeat(MAX_PIECE / 4));
    read_bytes(records);
}

/// Real lines with changed, doubled, missing and moved bytes.
#[test]
fn mangled_real_lines_never_panic() {
    let text = std::fs::read(data("kernel-truth/traces/dd-1028k-direct.ftrace")).unwrap();
    let real: Vec<&[u8]> =
        text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect();
    let mut random = proptest::test_runner::TestRng::deterministic_rng(
        proptest::test_runner::RngAlgorithm::ChaCha,
    );
    let mut below = |n: usize| random.next_u64() as usize % n;
    let mut understood = 0;
    for _ in 0..20_000 {
        let mut bytes = real[below(real.len())].to_vec();
        for _ in 0..=below(3) {
            let at = below(bytes.len());
            match below(4) {
                0 => bytes[at] = below(256) as u8,
                1 => bytes.truncate(at + 1),
                2 => bytes.insert(at, b"[]() :+-,/"[below(10)]),
                _ => bytes.extend_from_within(at..),
            }
        }
        understood += usize::from(matches!(parse_line(&bytes), Line::Event(_)));
    }
    assert!(understood > 1000 && understood < 19_000, "{understood}");
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}") {
        parse_line(text.as_bytes());
    }

    #[test]
    fn no_tail_makes_the_reader_panic(
        name in prop::sample::select(vec!["bio_queue", "rq_issue", "rq_complete", "split", "bio_remap", "unplug"]),
        tail in r"[0-9,RWFS ()+\[\]<\-/a-z]{0,60}",
    ) {
        parse_line(format!("block_{name}: {tail}").as_bytes());
        parse_line(format!("x-1 [000] 1.0: block_{name}:{tail}").as_bytes());
        parse_line(format!("{tail}: block_{name}: 8,0 R 0 + 8 [a]").as_bytes());
    }
}

/// Output of `perf script` for a run in which fio did 800 reads of 8 KiB, 100 writes of 64 KiB with
/// 25 flushes, and 82 reads of 1 MiB.
#[test]
fn a_real_text_of_perf() {
    let (events, reader) = read_file(&data("kernel-truth/traces/mixed.perf-script.txt.zst"));
    assert_ordered(&events);
    assert_eq!((events.len(), reader.report().skipped_count()), (15520, 0));
    let on_loop = || events.iter().filter(|event| event.device == Some(DeviceNumber::new(7, 7)));
    let queued = |op: TraceOp, bytes: u64| {
        let bios = on_loop().filter(|event| event.kind == TraceKind::Queue);
        bios.filter(|event| event.op == Some(op) && event.bytes == Some(bytes)).count()
    };
    assert_eq!((queued(TraceOp::Read, 8192), queued(TraceOp::Read, 1 << 20)), (800, 82));
    assert_eq!((queued(TraceOp::Write, 65536), queued(TraceOp::Write, 0)), (100, 25));
    let writes = on_loop()
        .filter(|event| event.kind == TraceKind::Issue && event.op == Some(TraceOp::Write));
    for event in writes {
        assert_eq!(event.ioprio, Some(IoPrio::new(PrioClass::Be, 0)));
    }
}
