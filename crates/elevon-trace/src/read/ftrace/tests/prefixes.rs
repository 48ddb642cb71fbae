//! What stands before the name of an event.

use super::*;

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
        (
            format!(
                "              dd-1234    (     77) [002] d..1.  100.000123: block_rq_issue: {tail}"
            ),
            Some(77),
        ),
        (
            format!(
                "              dd-1234    (-------) [002] .....  100.000123000: block_rq_issue: {tail}  "
            ),
            None,
        ),
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
        (
            format!("dd 77 [001] 2026-11-26 10:16:09.686313853  100.000123: {tail}"),
            "dd",
            Some(77),
            None,
        ),
        (
            format!("dd 7/77 [001] 2026-11-26 10:16:09.686313853  100.000123: {tail}"),
            "dd",
            Some(77),
            Some(7),
        ),
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
    for (prefix, comm) in
        [("one:     kworker/u8:2-11071", "kworker/u8:2"), ("one:             x: y-7", "x: y")]
    {
        let line =
            format!("{prefix} [001]   100.000123: block_rq_issue: 8,0 W 4096 () 2048 + 8 [tail]");
        assert_eq!(record(&line).comm, Some(comm.as_bytes()), "{line}");
    }
    let line =
        "           x: a b-7 [001]   100.000123: block_rq_issue: 8,0 W 4096 () 2048 + 8 [x: a b]";
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
        assert_eq!(
            (found, event.tid, event.cpu),
            (Some(comm.as_bytes()), Some(1234), Some(cpu)),
            "{line}"
        );
    }
}

/// The kernel's own text has microseconds since the first event then, and a mark of the delay; both
/// have eight bytes of a task's name.
#[test]
fn the_latency_format_cuts_names_and_the_kernels_has_microseconds() {
    for time in ["121616us :", "121616us#:", "   121616us+:", "   0.121616:"] {
        let line = format!(
            "kworker/-10        0..... {time} block_rq_issue: 8,0 W 4096 () 2048 + 8 [kworker/0:0H]"
        );
        let Record { event, comm, resolution_ns, .. } = record(&line);
        assert_eq!((event.time, resolution_ns), (Some(121_616_000), Some(1000)), "{line}");
        assert_eq!(
            (comm, event.tid, event.cpu),
            (Some(&b"kworker/0:0H"[..]), Some(10), Some(0)),
            "{line}"
        );
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
        (
            "      kworker/u8    6727   0 1 00000101 0000001a [0000000000a4b3c2] 9 (+1):",
            "kworker/u8",
            None,
        ),
        (
            "           a b 3    6727   0 0 00000000 00000001 [d9b2a570b] 1720.415ms (+0.000ms):",
            "a b 3",
            Some(58437818123000),
        ),
    ] {
        let line = format!("{line} block_bio_queue: 254,0 RA 20915856 + 8 [perf]");
        let Record { event, comm: found, resolution_ns, .. } = record(&line);
        assert_eq!((event.time, resolution_ns), (time, time.map(|_| 1000)), "{line}");
        assert_eq!(
            (found, event.tid, event.cpu),
            (Some(comm.as_bytes()), Some(6727), Some(0)),
            "{line}"
        );
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
        assert_eq!(
            (comm, event.process, event.tid),
            (Some(&b"dd"[..]), Some(77), Some(1234)),
            "{line}"
        );
        let (events, reader) = read_bytes(line.repeat(2));
        assert_eq!((events.len(), reader.report().notes.len()), (2, 1), "{line}");
    }
}
