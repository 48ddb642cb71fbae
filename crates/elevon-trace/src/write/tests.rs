//! Checks that what is written reads back unchanged, as far as the format allows.

use std::io::Cursor;

use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::op::Flags;
use proptest::prelude::*;

use super::*;
use crate::columns::{self, COLUMNS, Cell, EventRow};
use crate::event::{DeviceNumber, TraceKind};
use crate::op::TraceOp;
use crate::reader::Reader;
use crate::testing::{data, read_bytes, read_file};

/// Real traces of several kinds.
fn real_traces() -> Vec<(&'static str, Vec<TraceEvent>, Reader)> {
    [
        "kernel-truth/traces/dd-1028k-direct.ftrace",
        "kernel-truth/traces/pgbench-ext4-mq-deadline-excerpt.ftrace",
        "kernel-truth/traces/mixed.perf-script.txt.zst",
        "kernel-truth/traces/mixed-mq-deadline-excerpt.perfetto-trace",
        "kernel-truth/blktrace-6.1/dd-mq-deadline",
    ]
    .into_iter()
    .map(|name| {
        let (events, reader) = read_file(&data(name));
        assert!(events.len() > 100, "{name}");
        (name, events, reader)
    })
    .collect()
}

/// Returns events with their names, to compare those of two readers.
fn named(events: &[TraceEvent], names: &Names) -> Vec<(TraceEvent, Option<String>)> {
    let name = |event: &TraceEvent| event.comm.map(|id| names.name(id).to_owned());
    events.iter().map(|event| (TraceEvent { comm: None, ..*event }, name(event))).collect()
}

fn all<W>(mut writer: W, events: &[TraceEvent], names: &Names) -> W
where
    W: EventWriter,
{
    events.iter().for_each(|event| writer.event(event, names).unwrap());
    writer
}

#[test]
fn extensions_name_formats_and_others_are_refused() {
    for format in WriteFormat::ALL {
        let path = PathBuf::from(format!("a.b/run.{}", format.extension()));
        assert_eq!(WriteFormat::from_path(&path).unwrap(), format);
    }
    for path in ["run", "run.txt", "run.FTRACE", ".json/run", ""] {
        let error = WriteFormat::from_path(Path::new(path)).unwrap_err().to_string();
        let expected = "a trace that is written ends in .ftrace, .blktrace, .perfetto-trace, .perfetto, .json, \
                        .iolog, .csv or .parquet";
        assert_eq!(error, format!("{path}: {expected}"));
    }
}

#[test]
fn csv_keeps_every_field() {
    for (name, events, reader) in real_traces() {
        let bytes = all(csv::CsvWriter::new(Vec::new()).unwrap(), &events, reader.names())
            .finish()
            .unwrap();
        let (read, csv_reader) = read_bytes(bytes);
        assert_eq!(csv_reader.report().skipped, [], "{name}");
        assert_eq!(named(&read, csv_reader.names()), named(&events, reader.names()), "{name}");
    }
}

#[test]
fn parquet_keeps_every_field() {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::Field;
    for (name, events, reader) in real_traces() {
        let bytes = all(parquet::ParquetWriter::new(Vec::new()).unwrap(), &events, reader.names())
            .finish()
            .unwrap();
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let metadata = file.metadata().file_metadata().key_value_metadata().unwrap();
        assert!(
            metadata
                .iter()
                .any(|pair| pair.key == "elevon.schema" && pair.value.as_deref() == Some("1"))
        );
        let mut names = Names::default();
        let mut read = Vec::new();
        for group in file.get_row_iter(None).unwrap() {
            let mut row: EventRow = [const { None }; COLUMNS.len()];
            for (at, (title, field)) in group.unwrap().get_column_iter().enumerate() {
                assert_eq!(title, COLUMNS[at].0);
                row[at] = match field {
                    Field::Null => None,
                    Field::Long(number) => Some(Cell::Number(*number)),
                    Field::Str(text) => Some(Cell::Text(text.clone())),
                    other => panic!("{other:?}"),
                };
            }
            let mut event = columns::event(&row).unwrap();
            if let Some(Cell::Text(comm)) = &row[columns::COMM] {
                event.comm = names.intern(comm.as_bytes());
            }
            read.push(event);
        }
        assert_eq!(named(&read, &names), named(&events, reader.names()), "{name}");
    }
}

/// Returns a line of ftrace without the flags of the CPU's state.
fn without_flags(line: &str) -> String {
    match line.find("] ") {
        Some(at) if !line.starts_with('#') => {
            format!("{}     {}", &line[..at + 2], &line[at + 7..])
        }
        _ => line.trim_end().to_owned(),
    }
}

/// The block events of nine jobs on four kernels are written back line by line: accounting events
/// and priorities as the newer ones have them.
#[test]
fn events_of_every_kernel_are_written_as_it_does() {
    for (kernel, ioprio_in_events) in
        [("6.1", false), ("6.12", true), ("6.18", true), ("7.3", true)]
    {
        let packed =
            std::fs::read(data(&format!("kernel-truth/matrix/events-{kernel}.txt.zst"))).unwrap();
        let text = String::from_utf8(zstd::decode_all(&packed[..]).unwrap()).unwrap();
        let options = WriteOptions { cpus: 2, ioprio_in_events, ..WriteOptions::default() };
        let mut lines = 0;
        for section in text.split("== ").skip(1) {
            let (name, real) = section.split_once('\n').unwrap();
            let (events, reader) = read_bytes(real);
            let writer = ftrace::FtraceWriter::new(Cursor::new(Vec::new()), options).unwrap();
            let written = all(writer, &events, reader.names()).finish().unwrap().into_inner();
            let written = String::from_utf8(written).unwrap();
            let written: Vec<_> =
                written.lines().filter(|line| !line.starts_with('#')).map(without_flags).collect();
            let real: Vec<_> = real.lines().map(without_flags).collect();
            assert_eq!(written.len(), real.len(), "{kernel} {name}");
            written
                .iter()
                .zip(&real)
                .for_each(|(ours, real)| assert_eq!(ours, real, "{kernel} {name}"));
            lines += real.len();
        }
        assert!(lines > 10_000, "{kernel}: {lines} events");
    }
}

/// A real text is written back line by line, except for the flags of the CPU's state.
#[test]
fn ftrace_is_written_as_the_kernel_writes_it() {
    let mut files = 0;
    for entry in std::fs::read_dir(data("kernel-truth/traces")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "ftrace") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let (events, reader) = read_file(&path);
        let options = WriteOptions { cpus: 2, ..WriteOptions::default() };
        let writer = all(
            ftrace::FtraceWriter::new(Cursor::new(Vec::new()), options).unwrap(),
            &events,
            reader.names(),
        );
        let written = String::from_utf8(writer.finish().unwrap().into_inner()).unwrap();
        assert_eq!(written.lines().count(), text.lines().count(), "{}", path.display());
        for (ours, real) in written.lines().zip(text.lines()) {
            if !real.starts_with("# entries") {
                assert_eq!(without_flags(ours), without_flags(real), "{}", path.display());
            }
        }
        let (read, again) = read_bytes(written);
        assert_eq!(named(&read, again.names()), named(&events, reader.names()));
        files += 1;
    }
    assert!(files >= 5);
}

/// Perfetto has a priority for the accounting events only, and no tag.
#[test]
fn perfetto_keeps_what_it_has() {
    for (name, events, reader) in real_traces() {
        let bytes = all(perfetto::PerfettoWriter::new(Vec::new()), &events, reader.names())
            .finish()
            .unwrap();
        let (read, again) = read_bytes(bytes);
        assert_eq!(again.report().skipped, [], "{name}");
        assert_eq!(again.format(), crate::TraceFormat::Perfetto);
        let expected: Vec<TraceEvent> = events
            .iter()
            .map(|event| {
                let mut event = *event;
                if !matches!(event.kind, TraceKind::IoStart | TraceKind::IoDone) {
                    event.ioprio = None;
                }
                if matches!(event.kind, TraceKind::Complete | TraceKind::Requeue) {
                    event.error = event.error.or(Some(0));
                }
                if let TraceKind::Unplug { requests, .. } = event.kind {
                    event.kind = TraceKind::Unplug { requests, timer: None };
                }
                if matches!(event.kind, TraceKind::Plug | TraceKind::Unplug { .. }) {
                    event.device = None;
                }
                event
            })
            .collect();
        let order = |events: &[(TraceEvent, Option<String>)]| {
            // Events of two CPUs at the same time have no defined order.
            let mut events: Vec<_> = events
                .iter()
                .map(|(event, comm)| {
                    let error =
                        matches!(event.kind, TraceKind::Requeue).then_some(0).or(event.error);
                    (
                        event.time,
                        event.cpu,
                        format!("{:?}", TraceEvent { error, ..*event }),
                        comm.clone(),
                    )
                })
                .collect();
            events.sort();
            events
        };
        let (read, expected) =
            (order(&named(&read, again.names())), order(&named(&expected, reader.names())));
        for (read, expected) in read.iter().zip(&expected) {
            assert_eq!(
                (&read.0, &read.1, &read.2),
                (&expected.0, &expected.1, &expected.2),
                "{name}"
            );
            // Threads are described before their events, so more of them have a name; the idle task
            // has a name on each CPU.
            let is_idle = read.2.contains("tid: Some(0)");
            assert!(expected.3.is_none() || is_idle || read.3 == expected.3, "{name}: {read:?}");
        }
        assert_eq!(read.len(), expected.len(), "{name}");
    }
}

#[test]
fn a_log_for_fio_has_every_arrival() {
    for (name, events, reader) in real_traces() {
        let log = all(fio_log::FioLogWriter::new(Vec::new()).unwrap(), &events, reader.names())
            .finish()
            .unwrap();
        let (read, again) = read_bytes(log);
        assert_eq!(again.report().skipped, [], "{name}");
        let start = events[0].time.unwrap();
        let mut expected = Vec::new();
        for event in events.iter().filter(|event| event.kind == TraceKind::Queue) {
            let time = (event.time.unwrap() - start) / 1000 * 1000;
            if event.flags.is_some_and(|flags| flags.contains(Flags::PREFLUSH)) {
                expected.push((time, TraceOp::Flush, None, Some(0)));
            }
            if event.bytes != Some(0) {
                expected.push((time, event.op.unwrap(), event.sector, event.bytes));
            }
        }
        let found: Vec<_> =
            read.iter().map(|e| (e.time.unwrap(), e.op.unwrap(), e.sector, e.bytes)).collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// fio replays as many I/Os of the log as it contains.
#[test]
fn fio_replays_a_log() {
    let Some(mut fio) = elevon_testkit::tool("fio") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("disk");
    std::fs::write(&file, vec![0; 1 << 20]).unwrap();
    let mut names = Names::default();
    let device = names.volume(file.to_str().unwrap().as_bytes());
    let mut events = Vec::new();
    for n in 0..20u64 {
        let mut event = TraceEvent::new(TraceKind::Queue);
        (event.time, event.device, event.cpu) = (Some(n * 1_000_000), device, Some(0));
        (event.sector, event.bytes, event.flags) = (Some(n * 16), Some(4096), Some(Flags::NONE));
        event.op = Some(if n % 4 == 0 { TraceOp::Write } else { TraceOp::Read });
        events.push(event);
    }
    let log = folder.path().join("log");
    let written =
        all(fio_log::FioLogWriter::new(Vec::new()).unwrap(), &events, &names).finish().unwrap();
    std::fs::write(&log, written).unwrap();
    let output = fio
        .args(["--name=replay", "--ioengine=psync", "--output-format=json", "--replay_no_stall=1"])
        .arg(format!("--read_iolog={}", log.display()))
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let json: serde_json::Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    let job = &json["jobs"][0];
    assert_eq!((&job["read"]["total_ios"], &job["write"]["total_ios"]), (&15.into(), &5.into()));
}

#[test]
fn files_are_made_by_their_extension() {
    let folder = tempfile::tempdir().unwrap();
    let (events, reader) = read_file(&data("kernel-truth/traces/dd-1028k-direct.ftrace"));
    for format in WriteFormat::ALL {
        let path = folder.path().join(format!("trace.{}", format.extension()));
        let mut writer = create(&path, WriteOptions::default()).unwrap();
        events.iter().for_each(|event| writer.event(event, reader.names()).unwrap());
        writer.end().unwrap();
        let readable = match format {
            WriteFormat::PerfettoTimeline | WriteFormat::Json | WriteFormat::Parquet => None,
            WriteFormat::FioLog => {
                Some(events.iter().filter(|event| event.kind == TraceKind::Queue).count())
            }
            _ => Some(events.len()),
        };
        if let Some(count) = readable {
            assert_eq!(read_file(&path).0.len(), count, "{}", path.display());
        }
    }
    let error = create(Path::new("trace.txt"), WriteOptions::default()).err().unwrap().to_string();
    assert!(
        error.starts_with("trace.txt: a trace that is written ends in .ftrace, .blktrace, "),
        "{error}"
    );
}

fn kinds() -> impl Strategy<Value = TraceKind> {
    let from = DeviceNumber::new(8, 1);
    prop_oneof![
        Just(TraceKind::Queue),
        any::<Option<u64>>().prop_map(|response_ns| TraceKind::Io { response_ns }),
        any::<u64>().prop_map(|new_sector| TraceKind::Split { new_sector }),
        Just(TraceKind::Plug),
        (any::<u32>(), any::<Option<bool>>())
            .prop_map(|(requests, timer)| TraceKind::Unplug { requests, timer }),
        Just(TraceKind::Issue),
        Just(TraceKind::Complete),
        any::<u64>().prop_map(move |from_sector| TraceKind::Remap { from, from_sector }),
        any::<u64>().prop_map(move |from_sector| TraceKind::RequestRemap { from, from_sector }),
        (any::<Option<u32>>(), any::<bool>())
            .prop_map(|(depth, is_driver_tag)| TraceKind::TagWait { depth, is_driver_tag }),
        (any::<Option<u64>>(), any::<Option<u64>>())
            .prop_map(|(events, until)| TraceKind::Lost { events, until }),
    ]
}

fn events() -> impl Strategy<Value = TraceEvent> {
    let numbers =
        (any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<u64>>());
    let small =
        (any::<Option<u32>>(), any::<Option<u32>>(), any::<Option<u32>>(), any::<Option<u32>>());
    let device = prop::option::of(
        (any::<u32>(), any::<u32>()).prop_map(|(major, minor)| DeviceNumber::new(major, minor)),
    );
    let op = prop::option::of(prop::sample::select(TraceOp::ALL.to_vec()));
    let all = [Flags::SYNC, Flags::META, Flags::FUA, Flags::PREFLUSH, Flags::RAHEAD, Flags::ATOMIC];
    let flags = prop::option::of((0usize..64).prop_map(move |bits| {
        all.iter()
            .enumerate()
            .filter(|(n, _)| bits >> n & 1 == 1)
            .fold(Flags::NONE, |flags, (_, &flag)| flags | flag)
    }));
    let prio = prop::option::of(
        (0u8..8, 0u16..1024)
            .prop_map(|(level, hint)| IoPrio::new(PrioClass::Rt, level).with_hint(hint)),
    );
    let rest = (any::<Option<u16>>(), any::<Option<i32>>());
    (kinds(), numbers, small, device, (op, flags), prio, rest).prop_map(
        |(
            kind,
            (time, sector, bytes, cgroup),
            (tid, process, cpu, tag),
            device,
            (op, flags),
            ioprio,
            rest,
        )| {
            let (queue, error) = rest;
            let comm = None;
            let mut event = TraceEvent {
                kind,
                time,
                device,
                sector,
                bytes,
                op,
                flags,
                tid,
                process,
                comm,
                cpu,
                ioprio,
                cgroup,
                queue,
                tag,
                error,
            };
            // As readers do.
            event.find_zeroes();
            event
        },
    )
}

proptest! {
    /// Any event converted to a row and back is unchanged: nothing absent becomes 0, and no 0
    /// becomes absent.
    #[test]
    fn an_event_is_its_row(event in events()) {
        let row = columns::row(&event, Some("a,\"b\""), None);
        prop_assert_eq!(columns::event(&row), Ok(event));
        // The same holds for a line of CSV.
        if !matches!(event.kind, TraceKind::Lost { .. }) {
            let mut names = Names::default();
            let named = TraceEvent { comm: names.intern(b"a,\"b\""), ..event };
            let mut writer = csv::CsvWriter::new(Vec::new()).unwrap();
            writer.event(&named, &names).unwrap();
            let (read, reader) = read_bytes(writer.finish().unwrap());
            prop_assert_eq!(reader.report().skipped.clone(), []);
            prop_assert_eq!(read, [named]);
        }
    }
}

/// An I/O with a response time is a bio that is queued and completes, in order of time, in formats
/// that have both.
#[test]
fn a_response_time_becomes_a_completion() {
    let text = "128166375000000000,srv0,1,Read,1048576,8192,300\n\
                128166375000000100,srv0,1,Write,4096,512,100\n\
                128166375000000250,srv0,1,Write,8192,512,100\n";
    let (events, reader) = read_bytes(text);
    let folder = tempfile::tempdir().unwrap();
    let expected = [
        (0, "queue", 2048),
        (10_000, "queue", 8),
        (20_000, "bio_complete", 8),
        (25_000, "queue", 16),
        (30_000, "bio_complete", 2048),
        (35_000, "bio_complete", 16),
    ];
    for extension in ["ftrace", "blktrace", "perfetto-trace"] {
        let path = folder.path().join(format!("t.{extension}"));
        let options = WriteOptions { is_in_nanoseconds: true, ..WriteOptions::default() };
        let mut writer = create(&path, options).unwrap();
        events.iter().for_each(|event| writer.event(event, reader.names()).unwrap());
        writer.end().unwrap();
        let (found, _) = read_file(&path);
        let start = found[0].time.unwrap();
        let found = found.iter().map(|event| {
            let kind = if event.kind == TraceKind::Queue { "queue" } else { "bio_complete" };
            assert!(
                matches!(event.kind, TraceKind::Queue | TraceKind::BioComplete),
                "{extension}: {event:?}"
            );
            (event.time.unwrap() - start, kind, event.sector.unwrap())
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{extension}");
    }
}
