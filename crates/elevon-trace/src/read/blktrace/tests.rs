use std::path::Path;

use elevon_core::op::Flags;

use super::*;
use crate::event::DeviceNumber;
use crate::event::{TraceEvent, TraceKind};
use crate::op::TraceOp;
use crate::testing::{assert_ordered, counts, data, read_bytes, read_file};

/// A 4 KiB read at sector 2048 by task 1234 on 8:0 at 1000 ns.
const QUEUE: [u8; 48] = [
    0x07, 0x74, 0x61, 0x65, 1, 0, 0, 0, 0xe8, 3, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0x10,
    0, 0, 1, 0, 0x11, 0, 0xd2, 4, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// A version 7 record that can be written in either byte order.
#[derive(Clone)]
struct Made {
    sequence: u32,
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    cpu: u32,
    error: i16,
    payload: Vec<u8>,
}

impl Made {
    fn new(sequence: u32, time: u64, action: u32) -> Self {
        let (sector, bytes, pid, device) = (2048, 4096, 1234, 8 << 20);
        Self {
            sequence,
            time,
            sector,
            bytes,
            action,
            pid,
            device,
            cpu: 0,
            error: 0,
            payload: Vec::new(),
        }
    }

    fn bytes(&self, is_big_endian: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |bytes: &[u8]| {
            if is_big_endian {
                out.extend(bytes.iter().rev());
            } else {
                out.extend(bytes);
            }
        };
        put(&0x6561_7407u32.to_le_bytes());
        put(&self.sequence.to_le_bytes());
        put(&self.time.to_le_bytes());
        put(&self.sector.to_le_bytes());
        for word in [self.bytes, self.action, self.pid, self.device, self.cpu] {
            put(&word.to_le_bytes());
        }
        put(&self.error.to_le_bytes());
        put(&(self.payload.len() as u16).to_le_bytes());
        out.extend(&self.payload);
        out
    }
}

const Q: u32 = 0x0011_0001;
const D: u32 = 0x0141_0007;
const C: u32 = 0x0181_0008;

#[test]
fn a_record_byte_by_byte() {
    let (events, reader) = read_bytes(QUEUE);
    let expected = TraceEvent {
        time: Some(1000),
        device: Some(DeviceNumber::new(8, 0)),
        sector: Some(2048),
        bytes: Some(4096),
        op: Some(TraceOp::Read),
        flags: Some(Flags::NONE),
        tid: Some(1234),
        cpu: Some(0),
        ..TraceEvent::new(TraceKind::Queue)
    };
    assert_eq!(events, [expected]);
    assert_eq!(Made::new(1, 1000, Q).bytes(false), QUEUE);
    assert_eq!(reader.report().skipped_count(), 0);
}

#[test]
fn either_byte_order_means_the_same() {
    let mut records = vec![
        Made::new(1, 1000, Q),
        Made { payload: 3072u64.to_be_bytes().into(), ..Made::new(2, 1100, 0x0001_000d) },
        Made { payload: 9u64.to_be_bytes().into(), ..Made::new(3, 1200, 0x0011_000b) },
        Made::new(4, 1300, D),
        Made { error: -5, ..Made::new(5, 1400, C) },
        Made { error: 0, ..Made::new(6, 1500, 0x0081_0008) },
    ];
    let mut remap = 0x80_0001u32.to_be_bytes().to_vec();
    remap.extend(0x80_0000u32.to_be_bytes());
    remap.extend(8u64.to_be_bytes());
    records.push(Made { payload: remap, ..Made::new(7, 1600, 0x0011_000f) });
    let little =
        read_bytes(records.iter().flat_map(|record| record.bytes(false)).collect::<Vec<u8>>()).0;
    let big =
        read_bytes(records.iter().flat_map(|record| record.bytes(true)).collect::<Vec<u8>>()).0;
    assert_eq!(little, big);
    let kinds: Vec<TraceKind> = little.iter().map(|event| event.kind).collect();
    assert_eq!(
        kinds,
        [
            TraceKind::Queue,
            TraceKind::Split { new_sector: 3072 },
            TraceKind::Unplug { requests: 9, timer: Some(true) },
            TraceKind::Issue,
            TraceKind::Complete,
            TraceKind::BioComplete,
            TraceKind::Remap { from: DeviceNumber::new(8, 1), from_sector: 8 },
        ]
    );
    assert_eq!(
        (little[1].bytes, little[4].error, little[5].error),
        (Some(524288), Some(-5), Some(0))
    );
}

#[test]
fn names_and_cgroups_are_kept() {
    let mut name = Made::new(0, 900, 0x0400_0000);
    name.payload = b"fio\0garbage".to_vec();
    let mut clock = Made::new(0, 950, 0x0400_0001);
    clock.payload = [7u32.to_le_bytes(), 5u32.to_le_bytes()].concat();
    let mut event = Made::new(1, 1000, Q | 0x100);
    event.payload = 42u64.to_le_bytes().to_vec();
    let bytes = [name.bytes(false), clock.bytes(false), event.bytes(false)].concat();
    let (events, reader) = read_bytes(bytes);
    assert_eq!((events.len(), events[0].kind, events[0].cgroup), (1, TraceKind::Queue, Some(42)));
    assert_eq!(events[0].comm.map(|id| reader.names().name(id)), Some("fio"));
    assert_eq!(reader.report().wall_clock, Some((950, 7_000_000_005)));
}

#[test]
fn version_8_with_and_without_padding() {
    for padding in [0, 12] {
        let mut bytes = Vec::new();
        for n in 0..3u64 {
            bytes.extend(0x6561_7408u32.to_le_bytes());
            bytes.extend((n as u32 + 1).to_le_bytes());
            bytes.extend((1000 + n).to_le_bytes());
            bytes.extend(2048u64.to_le_bytes());
            bytes.extend(4096u32.to_le_bytes());
            bytes.extend(1234u32.to_le_bytes());
            bytes.extend((1u64 | 0x2 << 16 | 0x10 << 16 | 1 << 38).to_le_bytes());
            bytes.extend((8u32 << 20).to_le_bytes());
            bytes.extend(0u32.to_le_bytes());
            bytes.extend([0; 4]);
            bytes.extend(vec![0; padding]);
        }
        let (events, reader) = read_bytes(bytes);
        assert_eq!(reader.report().skipped, [], "padding {padding}");
        assert_eq!(events.len(), 3, "padding {padding}");
        assert_eq!((events[2].kind, events[2].op), (TraceKind::Queue, Some(TraceOp::WriteZeroes)));
        assert_eq!((events[2].tid, events[2].time), (Some(1234), Some(1002)));
    }
}

#[test]
fn damage_is_located_and_skipped() {
    let good = |n: u32| Made::new(n, 1000 + u64::from(n), Q).bytes(false);
    let mut bytes = good(1);
    bytes.extend(b"no record at all");
    bytes.extend(good(2));
    bytes.extend(Made::new(3, 1003, 0x0011_0063).bytes(false));
    bytes.extend(good(4));
    bytes.extend(&good(5)[..40]);
    let (events, reader) = read_bytes(bytes);
    assert_eq!(events.len(), 3);
    let problems = &reader.report().problems;
    let found: Vec<_> = problems.iter().map(|&(place, reason)| (place.at, reason)).collect();
    assert_eq!(
        found,
        [
            (Position::Byte(48), "a record's magic number"),
            (Position::Byte(48 + 16 + 48), "a known action"),
            (Position::Byte(48 + 16 + 48 * 3), "a whole record: the file ends within it"),
        ]
    );
}

/// A damaged length spans up to 64 KiB, which may be many records: none of them is lost.
#[test]
fn a_damaged_length_costs_one_record() {
    let record = |n: u32, length: u16| {
        let mut bytes = Made::new(n, 1000 * u64::from(n), Q).bytes(false);
        bytes[46..48].copy_from_slice(&length.to_le_bytes());
        bytes
    };
    for length in [1, 47, 48 * 3 + 5, u16::MAX] {
        let bytes: Vec<u8> =
            (1..100).flat_map(|n| record(n, if n == 50 { length } else { 0 })).collect();
        let (events, reader) = read_bytes(bytes);
        // The gap of one event is an event, too.
        assert_eq!((events.len(), reader.report().lost), (99, 1), "{length}");
        assert_eq!(reader.report().skipped_count(), 1, "{length}");
        assert_eq!(reader.report().problems[0].0.at, Position::Byte(48 * 49), "{length}");
    }
    // The payload of a whole record may hold anything, and the record behind it may be damaged.
    let mut whole = Made { payload: record(9, 0), ..Made::new(1, 1000, Q) }.bytes(false);
    whole.extend(record(2, 0));
    assert_eq!(read_bytes(whole.clone()).0.len(), 2);
    whole.truncate(48 + 48);
    assert_eq!(read_bytes(whole).0.len(), 1);
}

#[test]
fn a_jump_of_sequence_numbers_is_a_gap() {
    let records = [
        Made::new(1, 1000, Q),
        Made::new(2, 1100, D),
        Made::new(10, 2000, C),
        Made::new(11, 2100, Q),
    ];
    let (events, reader) =
        read_bytes(records.iter().flat_map(|record| record.bytes(false)).collect::<Vec<u8>>());
    assert_eq!(events[2].kind, TraceKind::Lost { events: Some(7), until: Some(2000) });
    assert_eq!((events[2].time, events[2].cpu, events.len()), (Some(1100), Some(0), 5));
    assert_eq!((reader.report().gap_count, reader.report().lost), (1, 7));
}

#[test]
fn two_traces_in_one_file_are_no_gap() {
    let mut bytes = Vec::new();
    for n in 0..50 {
        bytes.extend(Made::new(n + 1, u64::from(n) * 2 + 1000, Q).bytes(false));
        bytes.extend(
            Made { device: 8 << 20 | 16, ..Made::new(n + 900, u64::from(n) * 2 + 1001, Q) }
                .bytes(false),
        );
    }
    let (events, reader) = read_bytes(bytes);
    assert_eq!((events.len(), reader.report().gap_count), (100, 0));
    assert_eq!(
        reader.report().devices,
        [(DeviceNumber::new(8, 0), 50), (DeviceNumber::new(8, 16), 50)]
    );
}

/// Any of the files stands for all of them, as does their base name.
#[test]
fn per_cpu_files_are_merged_and_agree_with_blkparse() {
    let folder = data("kernel-truth/blktrace-6.1");
    let mut traces = 0;
    for name in ["dd-none", "dd-mq-deadline"] {
        let base = folder.join(name);
        let (events, reader) = read_file(&base);
        assert_ordered(&events);
        assert_eq!(reader.report().files.len(), 2, "{name}");
        assert_eq!((reader.report().skipped_count(), reader.report().gap_count), (0, 0), "{name}");
        for ending in ["", ".0", ".1"] {
            assert_eq!(
                read_file(&folder.join(format!("{name}.blktrace{ending}"))).0,
                events,
                "{name} {ending}"
            );
        }
        traces += 1;
        check_against_blkparse(&base, &events, reader.names());
    }
    assert_eq!(traces, 2);
}

/// Checks that every line of blkparse equals an event, in the same order, with the same figures and
/// task name.
fn check_against_blkparse(base: &Path, events: &[TraceEvent], names: &crate::names::Names) {
    let Some(mut blkparse) = elevon_testkit::tool("blkparse") else { return };
    let output = blkparse
        .current_dir(base.parent().unwrap())
        .args([
            "-i",
            base.file_name().unwrap().to_str().unwrap(),
            "-q",
            "-f",
            "%c %T.%t %p %a %d %S %N %e|%C\\n",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut theirs: Vec<&str> = text.lines().filter(|line| line.contains('|')).collect();
    // Events of two CPUs at the same nanosecond have no defined order.
    theirs.sort_by_key(|line| {
        let mut words = line.split_whitespace();
        let (cpu, time) = (words.next().unwrap().to_owned(), words.next().unwrap());
        let (seconds, fraction) = time.split_once('.').unwrap();
        (seconds.parse::<u64>().unwrap(), fraction.to_owned(), cpu)
    });
    assert_eq!(theirs.len(), events.len());
    let start = events[0].time.unwrap();
    for (line, event) in theirs.iter().zip(events) {
        let time = event.time.unwrap() - start;
        let comm = event.comm.map_or("", |id| names.name(id));
        let rwbs = crate::op::TraceRwbs(event.op, event.flags);
        let timer = if matches!(event.kind, TraceKind::Unplug { timer: Some(true), .. }) {
            "T"
        } else {
            ""
        };
        let ours = format!(
            "{} {}.{:09} {} {}{timer} {} {} {} {}|",
            event.cpu.unwrap(),
            time / 1_000_000_000,
            time % 1_000_000_000,
            event.tid.unwrap(),
            event.kind.letter().unwrap(),
            rwbs,
            event.sector.unwrap_or(0),
            event.bytes.unwrap_or(0),
            event.error.unwrap_or(0),
        );
        let (line, their_comm) = line.rsplit_once('|').unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let words = words.join(" ");
        if matches!(event.kind, TraceKind::Split { .. }) {
            // blkparse prints the record's length, which on some kernels is not that of the front
            // part.
            assert_eq!(
                words.split(' ').take(6).collect::<Vec<_>>(),
                ours.split(' ').take(6).collect::<Vec<_>>()
            );
        } else {
            assert_eq!(format!("{words}|"), ours);
        }
        // The idle task has a name on each CPU, of which blktrace records one.
        if !comm.is_empty() && event.tid != Some(0) {
            assert_eq!(their_comm, comm);
        }
    }
}

#[test]
fn counts_of_a_real_trace() {
    let (events, _) = read_file(&data("kernel-truth/blktrace-6.1/dd-mq-deadline"));
    assert_eq!(
        counts(&events),
        [
            ("queue", 205),
            ("split", 160),
            ("getrq", 365),
            ("plug", 110),
            ("unplug", 110),
            ("insert", 365),
            ("issue", 365),
            ("complete", 365)
        ]
    );
}

/// Files that are cut anywhere, or have changed bytes anywhere, are read without a panic, and give
/// no more events than fit into them.
#[test]
fn damaged_files_never_panic() {
    let real = std::fs::read(data("kernel-truth/blktrace-6.1/dd-none.blktrace.0")).unwrap();
    let real = &real[..4096];
    for at in (0..real.len()).step_by(7) {
        let mut bytes = real.to_vec();
        bytes[at] ^= 0xff;
        if let Ok(mut reader) = crate::from_bytes(bytes) {
            assert!(reader.read_all().unwrap().len() <= real.len() / 24);
        }
        if let Ok(mut reader) = crate::from_bytes(real[..at].to_vec()) {
            reader.read_all().unwrap();
        }
    }
}

#[test]
fn compressed_files_are_the_same_trace() {
    let folder = data("kernel-truth/blktrace-6.1");
    let plain = read_file(&folder.join("dd-none")).0;
    let copy = tempfile::tempdir().unwrap();
    for (cpu, ending) in [(0, "gz"), (1, "zst")] {
        let bytes = std::fs::read(folder.join(format!("dd-none.blktrace.{cpu}"))).unwrap();
        let packed = if ending == "gz" {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut encoder, &bytes).unwrap();
            encoder.finish().unwrap()
        } else {
            zstd::encode_all(&bytes[..], 1).unwrap()
        };
        std::fs::write(copy.path().join(format!("dd-none.blktrace.{cpu}.{ending}")), packed)
            .unwrap();
    }
    assert_eq!(read_file(&copy.path().join("dd-none")).0, plain);
    assert_eq!(read_file(&copy.path().join("dd-none.blktrace.1.zst")).0, plain);
    // A file that is cut within its compressed data is read as far as possible.
    let path = copy.path().join("dd-none.blktrace.0.gz");
    let packed = std::fs::read(&path).unwrap();
    std::fs::write(&path, &packed[..packed.len() / 2]).unwrap();
    let (cut, reader) = read_file(&path);
    assert!(cut.len() < plain.len() && cut.len() > plain.len() / 2);
    assert!(
        reader
            .report()
            .skipped
            .iter()
            .any(|skipped| skipped.reason == "compressed data that is whole")
    );
}

/// One CPU's file whose start is damaged does not spoil the others, and one that is missing is
/// told.
#[test]
fn a_damaged_and_a_missing_file_of_a_cpu_are_told() {
    let folder = data("kernel-truth/blktrace-6.1");
    let copy = tempfile::tempdir().unwrap();
    let files =
        [0, 1].map(|cpu| std::fs::read(folder.join(format!("dd-none.blktrace.{cpu}"))).unwrap());
    let put = |cpu: usize, bytes: &[u8]| {
        std::fs::write(copy.path().join(format!("dd-none.blktrace.{cpu}")), bytes).unwrap();
    };
    for damaged in [0, 1] {
        let mut bytes = files[damaged].clone();
        bytes[..20].fill(0);
        put(damaged, &bytes);
        put(1 - damaged, &files[1 - damaged]);
        let (events, reader) = read_file(&copy.path().join("dd-none"));
        let whole = read_file(&folder.join("dd-none")).0;
        // The first records are of names; one or two more are skipped until the records are found.
        assert!((whole.len() - 2..=whole.len()).contains(&events.len()), "{} events", events.len());
        assert_eq!((reader.report().skipped_count(), reader.report().notes.len()), (1, 0));
    }
    put(1, &files[1]);
    std::fs::remove_file(copy.path().join("dd-none.blktrace.0")).unwrap();
    let (_, reader) = read_file(&copy.path().join("dd-none"));
    assert!(reader.report().notes[0].starts_with("there is no file of some CPU"));
    put(0, &[]);
    let (_, reader) = read_file(&copy.path().join("dd-none"));
    assert!(reader.report().notes[0].starts_with("the file of some CPU is empty"));
}

/// Where a CPU's file is cut, its events are missing to the end: nothing is computed of what the
/// other CPUs say after that.
#[test]
fn a_file_of_a_cpu_that_is_cut_is_a_gap_to_the_end() {
    let copy = tempfile::tempdir().unwrap();
    let bytes = |sequence, time, cpu| {
        let mut record = Made::new(sequence, time, Q);
        record.cpu = cpu;
        record.bytes(false)
    };
    let cut = [bytes(1, 100, 0), bytes(2, 200, 0)].concat();
    std::fs::write(copy.path().join("a.blktrace.0"), &cut[..cut.len() - 8]).unwrap();
    std::fs::write(copy.path().join("a.blktrace.1"), [bytes(1, 50, 1), bytes(2, 300, 1)].concat())
        .unwrap();
    let (events, reader) = read_file(&copy.path().join("a"));
    let kinds: Vec<_> = events.iter().map(|event| (event.time, event.kind.name())).collect();
    assert_eq!(
        kinds,
        [(Some(50), "queue"), (Some(100), "queue"), (Some(100), "lost"), (Some(300), "queue")]
    );
    assert_eq!(events[2].kind, TraceKind::Lost { events: None, until: Some(u64::MAX) });
    let gap = reader.report().gaps[0];
    assert_eq!(
        (gap.cpu, gap.from, gap.until, reader.report().skipped_count()),
        (Some(0), Some(100), None, 1)
    );
}
