mod odd;

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

#[test]
fn every_kind_of_prefix() {
    let tail = "8,0 W 4096 () 2048 + 8 [dd]";
    for (line, process) in [
        (format!("              dd-1234    [002] d..1.  100.000123: block_rq_issue: {tail}"), None),
        (format!("              dd-1234    [002] d..1   100.000123: block_rq_issue: {tail}"), None),
        (format!("  dd-1234  [002]   100.000123: block_rq_issue:       {tail}"), None),
        (format!("dd-1234[002] .....   100.000123: block_rq_issue: {tail}"), None),
        (format!("> dd-1234[002] .....   100.000123: block_rq_issue: {tail}"), None),
        (format!("dd 1234 [002]   100.000123: block:block_rq_issue: {tail}"), None),
        (format!("dd 1234 [002]   100.000123:          1 block:block_rq_issue: {tail}"), None),
        (format!("dd 77/1234 [002]   100.000123: block:block_rq_issue: {tail}"), Some(77)),
        (format!("              dd-1234    (     77) [002] d..1.  100.000123: block_rq_issue: {tail}"), Some(77)),
        (format!("              dd-1234    (-------) [002] .....  100.000123000: block_rq_issue: {tail}  "), None),
        (format!("  dd-1234  [002]   100.000123: (+4601)  block_rq_issue:       {tail}"), None),
        (format!("  dd-1234  [002]100.000123: block_rq_issue:       {tail}"), None),
    ] {
        let Record { event, comm, resolution_ns, .. } = record(&line);
        assert_eq!(comm, Some(&b"dd"[..]), "{line}");
        assert_eq!(resolution_ns, Some(if line.contains("123000") { 1 } else { 1000 }), "{line}");
        let expected = TraceEvent {
            time: Some(100_000_123_000),
            device: Some(DeviceNumber::new(8, 0)),
            sector: Some(2048),
            bytes: Some(4096),
            op: Some(TraceOp::Write),
            flags: Some(Flags::NONE),
            tid: Some(1234),
            process,
            cpu: Some(2),
            ..TraceEvent::new(TraceKind::Issue)
        };
        assert_eq!(event, expected, "{line}");
    }
    let bare = record("block_rq_issue: 8,32 R 524288 () 86925864 + 1024 [Thread-51]");
    assert_eq!((bare.event.time, bare.event.tid, bare.event.cpu), (None, None, None));
    assert_eq!(bare.comm, Some(&b"Thread-51"[..]));
}

/// `perf script -F` prints the fields that it is asked for: here without the CPU.
#[test]
fn a_line_may_lack_the_cpu() {
    let tail = "block:block_rq_issue: 8,0 W 4096 () 2048 + 8 [tail]";
    for (line, comm, tid, process) in [
        (format!("  100.000123: {tail}"), "tail", None, None),
        (format!("dd  100.000123: {tail}"), "dd", None, None),
        (format!("mkfs.ext4  100.000123: {tail}"), "mkfs.ext4", None, None),
        (format!("a b 1234  100.000123: {tail}"), "a b", Some(1234), None),
        (format!("dd-1234  100.000123: {tail}"), "dd", Some(1234), None),
        (format!("dd 77/1234  100.000123:     1 {tail}"), "dd", Some(1234), Some(77)),
    ] {
        let Record { event, comm: found, .. } = record(&line);
        assert_eq!(found, Some(comm.as_bytes()), "{line}");
        assert_eq!((event.time, event.cpu), (Some(100_000_123_000), None), "{line}");
        assert_eq!((event.tid, event.process), (tid, process), "{line}");
    }
}

/// With a CPU the task, or its number, may be missing, and `perf script -F +tod` prints the time of
/// day before the time.
#[test]
fn a_line_may_lack_the_task() {
    let tail = "block:block_rq_issue: 8,0 W 4096 () 2048 + 8 [tail]";
    for (line, comm, tid, process) in [
        (format!("[001]   100.000123: {tail}"), "tail", None, None),
        (format!("       perf-exec [001]   100.000123: {tail}"), "perf-exec", None, None),
        (format!("   kworker/u8:2 [001]   100.000123: {tail}"), "kworker/u8:2", None, None),
        (format!("      swapper/1 [001]   100.000123: {tail}"), "swapper/1", None, None),
        (format!("dd 77 [001] 2026-11-26 10:16:09.686313853  100.000123: {tail}"), "dd", Some(77), None),
        (format!("dd 7/77 [001] 2026-11-26 10:16:09.686313853  100.000123: {tail}"), "dd", Some(77), Some(7)),
    ] {
        let Record { event, comm: found, .. } = record(&line);
        assert_eq!(found, Some(comm.as_bytes()), "{line}");
        assert_eq!((event.time, event.cpu), (Some(100_000_123_000), Some(1)), "{line}");
        assert_eq!((event.tid, event.process), (tid, process), "{line}");
    }
}

/// `trace-cmd report` names the buffer of each event of a trace that has several (`-B one`).
#[test]
fn a_buffer_is_no_part_of_a_name() {
    for (prefix, comm) in [("one:     kworker/u8:2-11071", "kworker/u8:2"), ("one:             x: y-7", "x: y")] {
        let line = format!("{prefix} [001]   100.000123: block_rq_issue: 8,0 W 4096 () 2048 + 8 [tail]");
        assert_eq!(record(&line).comm, Some(comm.as_bytes()), "{line}");
    }
    let line = "           x: a b-7 [001]   100.000123: block_rq_issue: 8,0 W 4096 () 2048 + 8 [x: a b]";
    assert_eq!(record(line).comm, Some(&b"x: a b"[..]));
}

/// The kernel's option `latency-format` and `trace-cmd report -l` print the CPU before the flags,
/// which `-R` makes a number.
#[test]
fn the_latency_format_has_the_cpu_before_the_flags() {
    for (prefix, comm, cpu) in [
        ("      dd-1234    1d..2.   100.000123:", "dd", 1),
        ("  a b-c-1234  12...1   100.000123:", "a b-c", 12),
        ("   <...>-1234    0.....   100.000123:", "tail", 0),
        ("      dd-1234    1-0x0    100.000123: (+361860)", "dd", 1),
        ("  a b-c-1234   12-0x1f    100.000123:", "a b-c", 12),
    ] {
        let line = format!("{prefix} block_rq_issue: 8,0 W 4096 () 2048 + 8 [tail]");
        let Record { event, comm: found, .. } = record(&line);
        assert_eq!((found, event.tid, event.cpu), (Some(comm.as_bytes()), Some(1234), Some(cpu)), "{line}");
    }
}

/// The kernel's own text has microseconds since the first event then, and a mark of the delay; both
/// have eight bytes of a task's name.
#[test]
fn the_latency_format_cuts_names_and_the_kernels_has_microseconds() {
    for time in ["121616us :", "121616us#:", "   121616us+:", "   0.121616:"] {
        let line = format!("kworker/-10        0..... {time} block_rq_issue: 8,0 W 4096 () 2048 + 8 [kworker/0:0H]");
        let Record { event, comm, resolution_ns, .. } = record(&line);
        assert_eq!((event.time, resolution_ns), (Some(121_616_000), Some(1000)), "{line}");
        assert_eq!((comm, event.tid, event.cpu), (Some(&b"kworker/0:0H"[..]), Some(10), Some(0)), "{line}");
    }
}

/// Lines of Linux 6.18 with the kernel's options `latency-format` and `verbose`. The clock `uptime`
/// has no unit.
#[test]
fn the_verbose_latency_format_has_the_time_in_microseconds() {
    for (line, comm, time) in [
        (
            "            perf    6727   0 0 00000000 00000013 [d9b2a570b] 70.004ms (+0.008ms):",
            "perf",
            Some(58437818123000),
        ),
        ("      kworker/u8    6727   0 1 00000101 0000001a [0000000000a4b3c2] 9 (+1):", "kworker/u8", None),
        (
            "           a b 3    6727   0 0 00000000 00000001 [d9b2a570b] 1720.415ms (+0.000ms):",
            "a b 3",
            Some(58437818123000),
        ),
    ] {
        let line = format!("{line} block_bio_queue: 254,0 RA 20915856 + 8 [perf]");
        let Record { event, comm: found, resolution_ns, .. } = record(&line);
        assert_eq!((event.time, resolution_ns), (time, time.map(|_| 1000)), "{line}");
        assert_eq!((found, event.tid, event.cpu), (Some(comm.as_bytes()), Some(6727), Some(0)), "{line}");
    }
}

/// Lines of Linux 6.18 with the options `raw`, `hex` and `bin`, and with `raw` but without
/// `context-info`: what is left of an event is the number of its kind.
#[test]
fn the_options_raw_hex_and_bin_leave_the_event_out() {
    let event = &b"6727 0 58437818122922 type: 2097\n"[..];
    for line in [
        event,
        b"00001a47 00000000 0000352d1d640802 type: 2097\n",
        b"type: 2097\n",
        b"G\x1a\0\xaa\x02d\x1dtype: 2097\n",
    ] {
        assert!(matches!(parse_line(line), Line::Malformed { .. }), "{line:?}");
    }
    assert_eq!(parse_line(b"  a-1 [000] .....  1.000001: some_event: type: 2097"), Line::Other);
    assert_eq!(parse_line(b"  a-1 [000] .....  1.000001: some_event: fd type: a"), Line::Other);
    let (events, reader) = read_bytes([&b"# tracer: nop\n#\n"[..], event].concat());
    assert_eq!((events.len(), reader.report().skipped_count()), (0, 1));
}

/// Clocks that count something else than time, and perf without its field `time`.
#[test]
fn a_time_without_a_unit_is_no_time() {
    let tail = "block_rq_issue: 8,0 W 4096 () 2048 + 8 [dd]\n";
    for line in [
        format!("              dd-1234    (     77) [002] d..1.       3549908: {tail}"),
        format!("              dd-1234    (     77) [002]  18446744073709551615: {tail}"),
        format!("              dd    77/1234  [002]                block:{tail}"),
        format!("              dd-1234    (     77) [002]136875207103: {tail}"),
    ] {
        let Record { event, comm, .. } = record(line.trim_end());
        assert_eq!((event.time, event.cpu), (None, Some(2)), "{line}");
        assert_eq!((comm, event.process, event.tid), (Some(&b"dd"[..]), Some(77), Some(1234)), "{line}");
        let (events, reader) = read_bytes(line.repeat(2));
        assert_eq!((events.len(), reader.report().notes.len()), (2, 1), "{line}");
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
        ("block_split: dev=8388608 sector=0 new_sector=1024 rwbs=R comm=dd", "block_split: 8,0 R 0 / 1024 [dd]"),
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
    for line in ["block_rq_issue: dev=8388608 sector=x rwbs=R", "block_split: dev=1 sector=0 rwbs=R comm=dd"] {
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
        let line = format!("{comm:>16}-77      [000] .....     5.000001: block_bio_queue: 8,0 R 0 + 8 [{comm}]");
        let found = record(&line);
        assert_eq!((found.comm, found.event.tid), (Some(comm.trim().as_bytes()), Some(77)), "{line}");
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
            (TraceKind::RequestRemap { from, from_sector: 8 }, read, Some(2056), Some(4096), None, None),
        ),
        (
            "block_split: 8,0 R 0 / 1024 [dd]",
            (TraceKind::Split { new_sector: 1024 }, read, Some(0), Some(524288), None, None),
        ),
        // The remainder's sector has only 32 bits.
        (
            "block_split: 8,0 R 8589934592 / 1024 [dd]",
            (TraceKind::Split { new_sector: 8589935616 }, read, Some(8589934592), Some(524288), None, None),
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
        ("block_rq_issue: 7,0 R 0 () 0 + 1024 [dd]", (TraceKind::Issue, read, Some(0), Some(524288), None, None)),
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
        ("block_bio_complete: 253,0 R 0 + 8 [0]", (TraceKind::BioComplete, read, Some(0), Some(4096), Some(0), None)),
        (
            "block_rq_tag_wait: 8,0 hctx=1 starved on hardware tags (depth=32)",
            (TraceKind::TagWait { depth: Some(32), is_driver_tag: true }, None, None, None, None, None),
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
    assert_eq!(parse_line(b"CPU:1 [LOST 42 EVENTS]"), Line::Lost { cpu: Some(1), events: Some(42) });
    assert_eq!(parse_line(b"CPU:3 [EVENTS DROPPED]"), Line::Lost { cpu: Some(3), events: None });
    assert_eq!(
        parse_line(b"  dd 1234 [002]   100.000123: PERF_RECORD_LOST lost 12"),
        Line::Lost { cpu: Some(2), events: Some(12) }
    );
    assert_eq!(parse_line(b"  a-1 [000] .....  1.000001: sched_switch: prev_comm=block_x"), Line::Other);
    assert_eq!(parse_line(b"  a-1 [000] .....  1.000001: block_dirty_buffer: 8,0 sector=1 size=2"), Line::Other);
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
    assert_eq!((last.time, last.sector, last.bytes), (Some(758_485_446_000), Some(2933336), Some(2136 * 512)));
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
        assert_eq!(events.len(), text.lines().filter(|line| line.contains(": block_")).count(), "{}", path.display());
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
            is_complete.then(|| gaps.crossed_since(if event.sector == Some(8) { 1_000_002_000 } else { 1_000_001_000 }))
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
    assert_eq!(reader.report().devices, [(DeviceNumber::new(8, 0), 1), (DeviceNumber::new(8, 16), 1)]);
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
    let lines = " block_".repeat(MAX_PIECE / 7) + "\n" + &" block_plug:".repeat(MAX_PIECE / 12) + "\n";
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
    let real: Vec<&[u8]> = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect();
    let mut random = proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
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
    let writes = on_loop().filter(|event| event.kind == TraceKind::Issue && event.op == Some(TraceOp::Write));
    for event in writes {
        assert_eq!(event.ioprio, Some(IoPrio::new(PrioClass::Be, 0)));
    }
}

/// Returns what a line with a UFS command says: event, operation, sector, bytes, tag, hardware
/// queue, device.
fn ufs_facts(line: &str) -> String {
    let Record { event, comm, named, .. } = record(line);
    assert_eq!((comm, event.tid), (Some(&b"kworker/1:1H"[..]), Some(175)), "{line}");
    assert_eq!(event.time, Some(22_218_735_851_000), "{line}");
    let Some(NamedDevice::Ufs(device)) = named else { panic!("{line}: {named:?}") };
    let number = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    let [sector, bytes, tag] = [event.sector, event.bytes, event.tag.map(u64::from)].map(number);
    let (queue, op) = (number(event.queue.map(u64::from)), event.op.map_or("-", TraceOp::name));
    format!("{} {op} {sector} {bytes} {tag} {queue} {}", event.kind.name(), String::from_utf8_lossy(device))
}

/// Lines as kernels print them, from before the names of steps changed to those with a hardware
/// queue, and as perf prints them.
#[test]
fn commands_of_ufs() {
    for (step_and_device, members, facts) in [
        (
            "send_req: 1d84000.ufshc",
            "tag: 7, DB: 0x0, size: 4096, IS: 0, LBA: 6221511, opcode: 0x28 (READ_10), group_id: 0x0, hwq_id: 1",
            "issue read 49772088 4096 7 1 1d84000.ufshc",
        ),
        (
            "complete_rsp: 0:0:0:4",
            "tag: 11, DB: 0x7ffff7ff, size: 524288, IS: 0, LBA: 1081728, opcode: 0x8a (WRITE_16), group_id: 0x0",
            "complete write 8653824 524288 11 - 0:0:0:4",
        ),
        (
            "send: 1d84000.ufshc",
            "tag: 2, DB: 0x4, size: 8192, IS: 0, LBA: 16, opcode: 0x2a",
            "issue write 128 8192 2 - 1d84000.ufshc",
        ),
        (
            "send_req: ufs",
            "tag: 31, DB: 0x0, size: -1, IS: 0, LBA: 18446744073709551615, opcode: 0x35 (SYNC)",
            "issue flush - 0 31 - ufs",
        ),
        (
            "send_req: ufs",
            "tag: 3, DB: 0x0, size: -1, IS: 0, LBA: 0, opcode: 0x42 (UNMAP)",
            "issue discard - - 3 - ufs",
        ),
        ("complete: ufs", "tag: 3, DB: 0x0, size: 36, IS: 0, LBA: 0, opcode: 0x12", "complete passthrough - - 3 - ufs"),
    ] {
        for prefix in ["  kworker/1:1H-175     [001] ..... 22218.735851: ", "kworker/1:1H 175 [001] 22218.735851: ufs:"]
        {
            let line = format!("{prefix}ufshcd_command: {step_and_device}: {members}");
            assert_eq!(ufs_facts(&line), facts, "{line}");
        }
    }
}

/// A trace that does not name the device has one.
#[test]
fn commands_of_ufs_without_a_name() {
    let (events, reader) = read_file(&data("formats/ufs-nameless.txt"));
    assert_eq!((reader.report().skipped_count(), counts(&events)), (0, vec![("issue", 4), ("complete", 4)]));
    assert!(events.iter().all(|event| event.device == Some(DeviceNumber::new(0, 0)) && event.queue == Some(1)));
    assert_eq!(reader.names().device(DeviceNumber::new(0, 0)), Some("ufs"));
    let prefix = "  kworker/1:1H-175     [001] ..... 22218.735851: ufshcd_command:";
    let members = "doorbell=1 intr=0 lba=6221511 opcode=40 str=send_req tag=7 transfer_len=4096 group_id=0";
    for (device, name) in [("", ""), (" dev_name=1d84000.ufshc", "1d84000.ufshc")] {
        assert_eq!(ufs_facts(&format!("{prefix}{device} {members}")), format!("issue read 49772088 4096 7 - {name}"));
    }
    for step in ["send_req: ", "send_req: : ", "send_req "] {
        let text = "tag: 7, DB: 0x0, size: 4096, IS: 0, LBA: 6221511, opcode: 0x28 (READ_10)";
        assert_eq!(ufs_facts(&format!("{prefix} {step}{text}")), "issue read 49772088 4096 7 - ", "{step}");
    }
    let newer = members.replace("str=send_req", "str_t=0").replace("opcode=40", "opcode=0x28");
    assert_eq!(ufs_facts(&format!("{prefix} {newer}")), "issue read 49772088 4096 7 - ");
    assert!(matches!(parse_line(format!("{prefix} tag=3 opcode=40").as_bytes()), Line::Malformed { .. }));
}

/// Steps other than the ends of a command are no events, and damage says what was expected.
#[test]
fn other_lines_of_ufs() {
    let line = |tail: &str| format!("a-1 [001] ..... 1.500000: ufshcd_command: {tail}");
    let other = line("dev_complete: ufs: tag: 3, DB: 0x0, size: -1, IS: 0, LBA: 0, opcode: 0x0");
    assert_eq!(parse_line(other.as_bytes()), Line::Other);
    for (tail, expected) in [
        ("send_req", "the step of a UFS command and its tag"),
        ("send_req: ufs: tag: 3, size: 4096, LBA: 3", "the operation code of a UFS command"),
        ("send_req: ufs: tag: 3, opcode: READ", "the operation code of a UFS command"),
    ] {
        assert_eq!(parse_line(line(tail).as_bytes()), Line::Malformed { expected }, "{tail}");
    }
}

#[test]
fn commands_of_scsi() {
    let head = "host_no=0 channel=0 id=1 lun=3 data_sgl=20 prot_sgl=0 prot_op=SCSI_PROT_NORMAL";
    let good = "result=(driver=DRIVER_OK host=DID_OK message=COMMAND_COMPLETE status=SAM_STAT_GOOD)";
    for (tail, op, sector, bytes, tag, error) in [
        (
            format!("driver_tag=19 scheduler_tag=40 cmnd=(READ_10 lba=505083904 txlen=2560 protect=0 raw=28 00 1e) {good}"),
            TraceOp::Read, Some(505_083_904), Some(2560 * 512), 19, 0,
        ),
        // Numbers where perf and trace-cmd know no names, and one tag in older kernels.
        (
            "tag=14 cmnd=(WRITE_10 lba=4922384 txlen=16 protect=0 raw=2a 00) result=(driver=DRIVER_OK host=0x0 \
             message=COMMAND_COMPLETE status=0x0)".to_owned(),
            TraceOp::Write, Some(4_922_384), Some(8192), 14, 0,
        ),
        (
            "driver_tag=0 scheduler_tag=0 cmnd=(SYNCHRONIZE_CACHE - raw=35 00 00) result=(driver=DRIVER_OK host=DID_TIME_OUT \
             message=COMMAND_COMPLETE status=SAM_STAT_GOOD)".to_owned(),
            TraceOp::Flush, None, Some(0), 0, -5,
        ),
    ] {
        let line = format!("   <idle>-0       [004] d.h2.   119.323166: scsi_dispatch_cmd_done: {head} {tail}");
        let Record { event, named, .. } = record(&line);
        assert_eq!((event.kind, event.op, event.sector, event.bytes), (TraceKind::Complete, Some(op), sector, bytes));
        assert_eq!((event.tag, event.error, event.cpu), (Some(tag), Some(error), Some(4)), "{line}");
        assert_eq!(named, Some(NamedDevice::Scsi(ScsiAddress([0, 0, 1, 3]))), "{line}");
    }
    for (tail, expected) in [
        ("host_no=0", "the command of a SCSI command, cmnd=(...)"),
        ("host_no=0 cmnd=(READ_10 raw=28)", "the address of a SCSI command, host_no= channel= id= lun="),
        ("host_no=0 channel=0 id=0 lun=0 cmnd=(READ_10 raw=2)", "the bytes of a SCSI command"),
    ] {
        let text = format!("a-1 [001] ..... 1.500000: scsi_dispatch_cmd_start: {tail}");
        assert_eq!(parse_line(text.as_bytes()), Line::Malformed { expected }, "{tail}");
    }
}

/// The disk is inspected as the block layer sees it; without the block layer's events, as the
/// driver does.
#[test]
fn commands_of_a_driver_are_of_a_device_of_their_own() {
    let command = |kind: &str, at: u32| {
        format!(
            "a-1 [000] ..... 1.00000{at}: ufshcd_command: {kind}: 0:0:0:4: tag: 1, DB: 0x1, size: 4096, IS: 0, LBA: 5, \
             opcode: 0x28 (READ_10), group_id: 0x0, hwq_id: 2\n"
        )
    };
    let own = command("send_req", 2) + &command("complete_rsp", 5);
    let block = "a-1 [000] ..... 1.000001: block_rq_issue: 8,0 R 4096 () 40 + 8 [a]\n".to_owned()
        + &own
        + "a-1 [000] ..... 1.000008: block_rq_complete: 8,0 R () 40 + 8 [0]\n";
    for (text, device, ns) in [(own, DeviceNumber::new(0, 0), 3_000), (block, DeviceNumber::new(8, 0), 7_000)] {
        let mut open = || crate::from_bytes(text.clone().into());
        let found = crate::analysis::inspect(&mut open, None, None, &mut |_| {}).expect("a trace");
        assert_eq!((found.device, found.stages[0].issued_to_completed.max), (device, ns));
        let (events, reader) = read_bytes(text.clone());
        assert_eq!(reader.names().device(DeviceNumber::new(0, 0)), Some("0:0:0:4"));
        assert_eq!(reader.report().notes, [hardware::UFS_NOTE]);
        assert!(events.iter().any(|event| (event.tag, event.queue) == (Some(1), Some(2))));
    }
}

/// The kernel's tracer `blk` (`current_tracer=blk`) prints events as blkparse does, after ftrace's
/// prefix; its messages are no events.
#[test]
fn lines_of_the_tracer_blk() {
    let text = "# tracer: blk\n\
        dd-7 [001] ..... 1.000001:   8,0    A  WS 6144 + 8 <- (8,1) 4096\n\
        dd-7 [001] ..... 1.000002:   8,0    Q  WS 6144 + 8 [dd]\n\
        dd-7 [001] ..... 1.000003:   8,0    G  WS 6144 + 8 [dd]\n\
        dd-7 [001] ..... 1.000004:   8,0    P   N [dd]\n\
        dd-7 [001] ..... 1.000005:   8,0    I  WS 6144 + 8 [dd]\n\
        dd-7 [001] ..... 1.000006:   8,0    U   N [dd] 1\n\
        dd-7 [001] ..... 1.000007:   8,0    D  WS 6144 + 8 [dd]\n\
        dd-7 [001] ..... 1.000008:   8,0    m   N mq-deadline note\n\
        <idle>-0 [001] ..s1. 1.000050:   8,0    C  WS 6144 + 8 [0]\n";
    let (events, reader) = read_bytes(text);
    assert_eq!(reader.format(), crate::TraceFormat::Ftrace);
    assert_eq!((events.len(), reader.report().skipped_count(), reader.report().other), (8, 0, 2));
    let letters: String = events.iter().filter_map(|event| event.kind.letter()).collect();
    assert_eq!(letters, "AQGPIUDC");
    let issue = events[6];
    assert_eq!((issue.time, issue.tid, issue.cpu), (Some(1_000_007_000), Some(7), Some(1)));
    assert_eq!((issue.sector, issue.bytes, issue.op), (Some(6144), Some(4096), Some(TraceOp::Write)));
    assert_eq!((events[7].error, events[0].device), (Some(0), Some(DeviceNumber::new(8, 0))));
}

/// The tracer `blk` prints the completion of a bio as that of a request.
#[test]
fn bios_of_the_tracer_blk() {
    let text = "# tracer: blk\n\
        dd-7 [001] ..... 1.000001: 253,0    Q  WS 8 + 8 [dd]\n\
        <idle>-0 [001] ..s1. 1.000050: 253,0    C  WS 8 + 8 [0]\n";
    let (events, _) = read_bytes(text);
    assert_eq!(counts(&events), [("queue", 1), ("bio_complete", 1)]);
}
