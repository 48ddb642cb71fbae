use std::io::Write;

use super::*;
use crate::event::{DeviceNumber, TraceKind};
use crate::op::TraceOp;
use crate::testing::{assert_ordered, counts, data, read_bytes, read_file};

fn number(field: u32, value: u64) -> Vec<u8> {
    let mut out = varint_bytes(u64::from(field) << 3);
    out.extend(varint_bytes(value));
    out
}

fn bytes(field: u32, value: &[u8]) -> Vec<u8> {
    let mut out = varint_bytes(u64::from(field) << 3 | 2);
    out.extend(varint_bytes(value.len() as u64));
    out.extend(value);
    out
}

fn varint_bytes(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// Returns the event of a bio of 8:0 that task 7 queues.
fn queue(time: u64, sector: u64) -> Vec<u8> {
    let body =
        [number(1, 8 << 8), number(2, sector), number(3, 8), bytes(4, b"WS"), bytes(5, b"fio")]
            .concat();
    bytes(2, &[number(1, time), number(2, 7), bytes(119, &body)].concat())
}

/// Returns a packet with a bundle.
fn bundle(cpu: u64, lost: bool, events: &[Vec<u8>]) -> Vec<u8> {
    let content = [number(1, cpu), events.concat(), number(3, u64::from(lost))].concat();
    bytes(1, &bytes(1, &content))
}

#[test]
fn bundles_of_two_cpus_are_put_in_order() {
    let trace =
        [bundle(0, false, &[queue(100, 0), queue(300, 8)]), bundle(1, false, &[queue(200, 16)])]
            .concat();
    let (events, reader) = read_bytes(trace);
    let found: Vec<_> = events.iter().map(|event| (event.time, event.cpu, event.sector)).collect();
    assert_eq!(
        found,
        [
            (Some(100), Some(0), Some(0)),
            (Some(200), Some(1), Some(16)),
            (Some(300), Some(0), Some(8))
        ]
    );
    assert_eq!(events[0].device, Some(DeviceNumber::new(8, 0)));
    assert_eq!(events[0].comm.map(|id| reader.names().name(id)), Some("fio"));
    assert_eq!(reader.report().clock.as_deref(), Some("boot"));
}

/// A thread of which a list of processes says only after its first events to which it belongs.
#[test]
fn a_process_that_is_told_late_has_all_events() {
    let thread = bytes(2, &[number(1, 7), number(3, 5)].concat());
    let tree = bytes(
        1,
        &bytes(2, &[bytes(1, &[number(1, 5), bytes(3, b"app")].concat()), thread].concat()),
    );
    let trace =
        [bundle(0, false, &[queue(100, 0)]), tree, bundle(0, false, &[queue(300, 8)])].concat();
    let (events, reader) = read_bytes(trace);
    let of = |event: &TraceEvent| {
        (event.tid, event.process, event.comm.map(|id| reader.names().name(id)))
    };
    assert_eq!(events.iter().map(of).collect::<Vec<_>>(), [(Some(7), Some(5), Some("fio")); 2]);
}

#[test]
fn lost_events_are_a_gap() {
    let trace = [
        bundle(0, false, &[queue(100, 0)]),
        bundle(1, false, &[queue(150, 0)]),
        bundle(0, true, &[queue(200, 16)]),
    ]
    .concat();
    let (events, reader) = read_bytes(trace);
    assert_eq!(events[1].kind, TraceKind::Lost { events: None, until: Some(200) });
    assert_eq!((events[1].time, events[1].cpu), (Some(100), Some(0)));
    assert_eq!(reader.report().gap_count, 1);
}

/// A bundle says when the one before it on its CPU ended; if that one is not in the trace, events
/// were lost, unless that was before the trace began. Events of the scheduler in columns may have
/// been the last.
#[test]
fn a_missing_bundle_is_a_gap() {
    let after = |cpu, previous_end, events: &[Vec<u8>]| {
        bytes(1, &bytes(1, &[number(1, cpu), events.concat(), number(10, previous_end)].concat()))
    };
    let columns = bytes(4, &bytes(1, &[varint_bytes(250), varint_bytes(70)].concat()));
    let whole = [
        after(0, 90, &[queue(100, 0)]),
        after(1, 80, &[queue(95, 0), queue(150, 0)]),
        after(0, 100, &[queue(200, 16), columns]),
        after(0, 320, &[queue(400, 32)]),
        after(1, 150, &[queue(500, 0)]),
    ];
    assert_eq!(read_bytes(whole.concat()).1.report().gap_count, 0);
    for (missing, from, until) in [(0, 0, 200), (1, 0, 500), (2, 100, 400)] {
        let mut trace = whole.to_vec();
        trace.remove(missing);
        let (_, reader) = read_bytes(trace.concat());
        let gaps: Vec<_> =
            reader.report().gaps.iter().map(|gap| (gap.from.unwrap_or(0), gap.until)).collect();
        assert_eq!(gaps, [(from, Some(until))], "without bundle {missing}");
    }
}

#[test]
fn packed_packets_are_the_same_trace() {
    let plain =
        [bundle(0, false, &[queue(100, 0), queue(300, 8)]), bundle(1, false, &[queue(200, 16)])]
            .concat();
    let expected = read_bytes(plain.clone()).0;
    let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    deflate.write_all(&plain).unwrap();
    let deflated = bytes(1, &bytes(50, &deflate.finish().unwrap()));
    let zstd = bytes(1, &bytes(133, &zstd::encode_all(&plain[..], 3).unwrap()));
    assert_eq!(read_bytes(deflated.clone()).0, expected);
    assert_eq!(read_bytes(zstd).0, expected);
    let damaged = bytes(1, &bytes(50, &deflate_cut(&plain)));
    let (events, reader) = read_bytes([damaged, plain].concat());
    assert!(events.len() >= expected.len());
    assert!(reader.report().skipped_count() > 0);
}

/// A few kilobytes may be millions of events; they are read as they are asked for.
#[test]
fn many_packets_in_few_bytes_are_read_in_parts() {
    const PACKETS: usize = 100_000;
    let plain = bundle(0, false, &[queue(100, 0)]).repeat(PACKETS);
    let trace = bytes(1, &bytes(133, &zstd::encode_all(&plain[..], 3).unwrap()));
    assert!(trace.len() < 10_000, "{} bytes", trace.len());
    let mut source = PerfettoSource::new(Input::new(Box::new(io::Cursor::new(trace))).unwrap());
    let mut sink = Sink::new(crate::report::ReadReport::new(crate::TraceFormat::Perfetto));
    let mut events = 0;
    while source.fill(&mut sink).unwrap() {
        assert!(sink.len() <= 2 * BATCH, "{} events at once", sink.len());
        events += sink.deliver(0).len();
        sink.drop_delivered();
    }
    assert_eq!((events + sink.len(), sink.report.skipped_count()), (PACKETS, 0));
}

fn deflate_cut(plain: &[u8]) -> Vec<u8> {
    let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    deflate.write_all(plain).unwrap();
    let mut whole = deflate.finish().unwrap();
    whole.truncate(whole.len() / 2);
    whole
}

#[test]
fn damage_is_located_and_reading_goes_on() {
    let good = bundle(0, false, &[queue(100, 0)]);
    let later = bundle(0, false, &[queue(300, 8)]);
    let trace = [&good[..], b"\x0b\xff no packet \xff\xff", &later].concat();
    let (events, reader) = read_bytes(trace);
    assert_eq!(events.len(), 2);
    assert_eq!(reader.report().problems[0].0.at, Position::Byte(good.len() as u64));
    let (events, reader) = read_bytes([&good[..], &later[..later.len() - 3]].concat());
    assert_eq!((events.len(), reader.report().skipped_count()), (1, 1));
}

#[test]
fn another_clock_is_converted() {
    let content =
        [number(1, 0), number(5, 3), number(6, 1000), number(7, 51000), queue(1100, 8)].concat();
    let (events, reader) = read_bytes(bytes(1, &bytes(1, &content)));
    assert_eq!(events[0].time, Some(51100));
    assert_eq!(reader.report().clock.as_deref(), Some("boot"));
}

/// The expected counts are those of the field numbers in the file, counted without this reader.
#[test]
fn a_real_deflated_trace() {
    let (events, reader) = read_file(&data("kernel-truth/traces/mixed-deflate.perfetto-trace"));
    assert_ordered(&events);
    assert_eq!(
        counts(&events),
        [
            ("queue", 2118),
            ("split", 81),
            ("getrq", 2199),
            ("io_start", 2199),
            ("io_done", 2249),
            ("plug", 2149),
            ("unplug", 2149),
            ("insert", 2149),
            ("issue", 2249),
            ("requeue", 50),
            ("complete", 2249)
        ]
    );
    let report = reader.report();
    assert_eq!((report.skipped_count(), report.gap_count), (0, 0));
    assert_eq!(report.wall_clock, Some((3945504232587, 1795317020527106162)));
    // fio did 800 reads of 8 KiB, 100 writes of 64 KiB with 25 flushes, and 81 reads of 1 MiB.
    let loop_device = DeviceNumber::new(7, 7);
    let bios = |op: TraceOp, bytes: u64| {
        events
            .iter()
            .filter(|event| event.kind == TraceKind::Queue && event.device == Some(loop_device))
            .filter(|event| event.op == Some(op) && event.bytes == Some(bytes))
            .count()
    };
    assert_eq!(bios(TraceOp::Read, 8192), 800);
    assert_eq!((bios(TraceOp::Write, 65536), bios(TraceOp::Write, 0)), (100, 25));
    assert_eq!(bios(TraceOp::Read, 1 << 20), 81);
    let start = events.iter().find(|event| event.kind == TraceKind::IoStart).unwrap();
    assert!(start.ioprio.is_some() && start.comm.is_some());
}

#[test]
fn a_real_plain_trace() {
    let (events, reader) =
        read_file(&data("kernel-truth/traces/mixed-mq-deadline-excerpt.perfetto-trace"));
    assert_ordered(&events);
    assert_eq!(counts(&events)[0], ("queue", 368));
    assert_eq!(events.len(), 3147);
    assert_eq!(reader.report().other, 978);
    assert_eq!(reader.report().skipped_count(), 0);
}

/// A trace that is cut anywhere, or has changed bytes anywhere, is read without a panic.
#[test]
fn damaged_traces_never_panic() {
    let real = std::fs::read(data("kernel-truth/traces/mixed-mq-deadline-excerpt.perfetto-trace"))
        .unwrap();
    let real = &real[..6000];
    for at in (0..real.len()).step_by(13) {
        let mut bytes = real.to_vec();
        bytes[at] ^= 0x5a;
        if let Ok(mut reader) = crate::from_bytes(bytes) {
            assert!(reader.read_all().unwrap().len() <= real.len() / 8);
        }
        if let Ok(mut reader) = crate::from_bytes(real[..at].to_vec()) {
            reader.read_all().unwrap();
        }
    }
}

/// Perfetto has no message for `block_rq_merge`, so it names the event and its fields.
#[test]
fn an_event_without_a_message_of_its_own() {
    let member = |name: &[u8], value: Vec<u8>| bytes(2, &[bytes(1, name), value].concat());
    let merge = |name: &[u8]| {
        let members = [
            member(b"dev", number(5, 8 << 8)),
            member(b"sector", number(5, 64)),
            member(b"nr_sector", number(5, 8)),
            member(b"bytes", number(5, 4096)),
            member(b"ioprio", number(5, 2 << 13 | 4)),
            member(b"rwbs", bytes(3, b"WS")),
            member(b"comm", bytes(3, b"fio")),
        ];
        let event = [bytes(1, name), members.concat()].concat();
        bytes(2, &[number(1, 100), number(2, 7), bytes(327, &event)].concat())
    };
    let (events, reader) =
        read_bytes(bundle(0, false, &[merge(b"block_rq_merge"), merge(b"another_event")]));
    assert_eq!(counts(&events), [("rq_merge", 1)]);
    assert_eq!((events[0].device, events[0].sector), (Some(DeviceNumber::new(8, 0)), Some(64)));
    assert_eq!((events[0].op, events[0].bytes), (Some(TraceOp::Write), Some(4096)));
    assert_eq!(events[0].ioprio.map(|prio| prio.level()), Some(4));
    assert_eq!(events[0].comm.map(|id| reader.names().name(id)), Some("fio"));
}

/// The driver's view of a UFS disk: by the names of steps, and by their numbers in newer kernels.
#[test]
fn commands_of_ufs() {
    let event = |time: u64, members: &[Vec<u8>]| {
        bytes(2, &[number(1, time), number(2, 7), bytes(406, &members.concat())].concat())
    };
    let common = || {
        [
            bytes(1, b"1d84000.ufshc"),
            number(2, 4),
            number(4, 6_221_511),
            number(5, 0x28),
            number(7, 3),
            number(8, 4096),
        ]
    };
    let step = |last: Vec<u8>| [&common()[..], &[last]].concat();
    let trace = bundle(
        0,
        false,
        &[
            event(100, &step(bytes(6, b"send_req"))),
            event(200, &step(bytes(6, b"dev_complete"))),
            event(300, &step(bytes(6, b"complete_rsp"))),
            event(400, &step(number(10, 0))),
            event(500, &step(number(10, 1))),
        ],
    );
    let (events, reader) = read_bytes(trace);
    assert_eq!(counts(&events), [("issue", 2), ("complete", 2)]);
    for event in &events {
        let device = event.device.expect("a device");
        assert_eq!(reader.names().device(device), Some("1d84000.ufshc"));
        assert_eq!(
            (event.op, event.sector, event.bytes),
            (Some(TraceOp::Read), Some(6_221_511 * 8), Some(4096))
        );
        assert_eq!((event.tag, event.tid), (Some(3), Some(7)));
    }
    assert_eq!(
        events.iter().filter_map(|event| event.time).collect::<Vec<_>>(),
        [100, 300, 400, 500]
    );
    // Without the name of the device there is one.
    let nameless = |last: Vec<u8>| [&common()[1..], &[last]].concat();
    let steps = [
        event(100, &nameless(bytes(6, b"send_req"))),
        event(200, &nameless(bytes(6, b"complete_rsp"))),
    ];
    let (events, reader) = read_bytes(bundle(0, false, &steps));
    assert_eq!(counts(&events), [("issue", 1), ("complete", 1)]);
    assert!(
        events
            .iter()
            .all(|event| reader.names().device(event.device.expect("a device")) == Some("ufs"))
    );
}

/// Returns the description of an event in a bundle: its field in `FtraceEvent`, its name, and the
/// names of its fields, numbered from 1.
fn descriptor(field: u64, name: &str, fields: &[&str]) -> Vec<u8> {
    let fields: Vec<u8> = fields
        .iter()
        .zip(1..)
        .flat_map(|(name, at)| {
            bytes(2, &[bytes(1, name.as_bytes()), number(3, at), number(5, 4)].concat())
        })
        .collect();
    bytes(11, &[number(1, field), bytes(2, &[bytes(1, name.as_bytes()), fields].concat())].concat())
}

/// Since version 50 Perfetto describes an event for which it has no message once, and then writes
/// its fields by number.
#[test]
fn events_that_a_bundle_describes_are_read() {
    let fields = ["dev", "sector", "nr_sector", "error", "rwbs", "cmd"];
    let described = [
        descriptor(70_000, "block_rq_error", &fields),
        descriptor(70_001, "ext4_sync_file_enter", &["dev"]),
        descriptor(9, "block_rq_error", &fields),
    ];
    let body =
        [number(1, 8 << 8), number(2, 64), number(3, 16), number(4, 5), bytes(5, b"WS")].concat();
    let event = |field| {
        bytes(2, &[number(1, 100 + u64::from(field)), number(2, 7), bytes(field, &body)].concat())
    };
    // The events may come before the descriptions, in the same bundle.
    let first = [event(70_000), event(70_001), event(70_002), described.concat()].concat();
    let trace = [bundle(0, false, &[first]), bundle(1, false, &[event(70_000), event(9)])].concat();
    let (events, reader) = read_bytes(trace);
    let found: Vec<_> =
        events.iter().map(|event| (event.kind, event.sector, event.bytes, event.error)).collect();
    assert_eq!(found, [(TraceKind::RequestError, Some(64), Some(8192), Some(5)); 2]);
    assert_eq!(events[0].op, Some(TraceOp::Write));
    assert_eq!(reader.report().skipped_count(), 0);
}

#[test]
fn a_descriptor_that_is_no_message_is_skipped_and_counted() {
    let damaged =
        [bytes(11, &[number(1, 70_000), bytes(2, b"\x0a\xff")].concat()), queue(100, 0)].concat();
    let (events, reader) = read_bytes(bundle(0, false, &[damaged]));
    assert_eq!((events.len(), reader.report().skipped_count()), (1, 1));
}
