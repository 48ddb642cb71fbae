use elevon_core::op::Flags;

use super::*;
use crate::testing::{assert_ordered, counts, data, read_bytes, read_file};
use crate::{DeviceNumber, TraceFormat, TraceKind, TraceOp};

fn sample() -> String {
    std::fs::read_to_string(data("formats/lttng.txt")).unwrap()
}

#[test]
fn events_of_babeltrace() {
    let (events, reader) = read_file(&data("formats/lttng.txt"));
    let report = reader.report();
    assert_eq!((reader.format(), report.skipped_count(), report.other), (TraceFormat::Lttng, 0, 1));
    assert_eq!(counts(&events), [("queue", 6), ("insert", 6), ("issue", 6), ("complete", 6)]);
    assert_ordered(&events);
    // It goes on over midnight.
    assert_eq!(events.last().unwrap().time.unwrap() - events[0].time.unwrap(), 4_725_000);
    let issue =
        events.iter().find(|e| e.kind == TraceKind::Issue && e.sector == Some(999_424)).unwrap();
    assert_eq!(
        (issue.op, issue.flags, issue.bytes),
        (Some(TraceOp::Write), Some(Flags::SYNC), Some(4096))
    );
    assert_eq!(
        (issue.device, issue.tid, issue.cpu),
        (Some(DeviceNumber::new(8, 0)), Some(310), Some(0))
    );
    assert_eq!(issue.comm.map(|comm| reader.names().name(comm)), Some("jbd2/vda2-8"));
    assert!(events.iter().filter(|e| e.kind == TraceKind::Complete).all(|e| e.error == Some(0)));
}

#[test]
fn other_clocks_and_forms_of_the_prefix() {
    let line = |time: &str, delta: &str| {
        format!(
            "[{time}] {delta}block_bio_remap: {{ cpu_id = 3 }}, {{ procname = \"a, \\\"b }}\", pid = 4, tid = 5 }}, \
             {{ dev = 8388608, sector = 10, nr_sector = 8, old_dev = 8388609, old_sector = 2, rwbs = 1026 }}\n"
        )
    };
    for (time, delta, expected) in [
        ("1441852841.550867846", "(+0.000000001) host ", Some(1_441_852_841_550_867_846)),
        ("1970-01-02 00:00:01.5", "", Some(86_401_500_000_000)),
        ("2026-11-29 00:00:00.0", "host ", Some(1_795_910_400_000_000_000)),
        ("00000000000102423274041829", "(+000000000000000) host ", None),
    ] {
        let (events, reader) = read_bytes(line(time, delta));
        assert_eq!((events.len(), reader.report().skipped_count()), (1, 0), "{time}");
        let event = events[0];
        assert_eq!((event.time, event.op), (expected, Some(TraceOp::Discard)), "{time}");
        assert_eq!(
            (event.flags, event.tid, event.process),
            (Some(Flags::PREFLUSH), Some(5), Some(4))
        );
        assert_eq!(event.kind, TraceKind::Remap { from: DeviceNumber::new(8, 1), from_sector: 2 });
        assert_eq!(event.comm.map(|comm| reader.names().name(comm)), Some("a, \\\"b }"));
    }
}

#[test]
fn lost_events_are_a_gap() {
    let mark = "[warning] Tracer discarded 42 events between [23:59:59.999200000] and [23:59:59.999300000] in trace UUID 1 \
        at path: \"k\"\n";
    let text = sample();
    let at = text.find("block_rq_complete").and_then(|at| text[..at].rfind('\n')).unwrap() + 1;
    let (events, reader) = read_bytes([&text[..at], mark, &text[at..]].concat());
    assert_eq!((reader.report().lost, reader.report().gap_count), (42, 1));
    assert_eq!(counts(&events).last(), Some(&("lost", 1)));
}

#[test]
fn a_damaged_line_is_skipped_at_its_place() {
    let text = sample();
    for (from, to) in [
        ("rwbs = 4", "rwbs = ?"),
        (" }\n", "\n"),
        ("sector = 81920", "sector = x"),
        ("dev = 8388608", "d"),
    ] {
        let damaged = text.replacen(from, to, 1);
        let (events, reader) = read_bytes(damaged.replace('\n', "\r\n"));
        assert_eq!((events.len(), reader.report().skipped_count()), (23, 1), "{from}");
        assert_eq!(reader.report().skipped[0].first.at, Position::Line(1), "{from}");
    }
}

#[test]
fn other_lines_are_no_events_of_lttng() {
    for line in
        ["[note] block: { a = 1 }", "12:00: { cpu_id = 0 }", "[12] a b: c { }", "[1.5] : { a = 1 }"]
    {
        assert!(split(line.as_bytes()).is_none(), "{line}");
    }
    assert_eq!(days_since_1970(b"2000-03-01"), Some(11_017));
    assert_eq!(days_since_1970(b"2000-13-01"), None);
}
