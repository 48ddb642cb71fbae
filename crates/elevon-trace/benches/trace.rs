//! Speed of reading and writing each trace format in memory, beside that of blkparse and btt on the
//! same trace.
//!
//! `cargo bench -p elevon-trace` measures; run by `cargo test` it only checks that the bench runs.
//! Goals, on one core: 200 MB/s of ftrace text, and 5 million events of blktrace per second.

use std::io::Cursor;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use elevon_core::ioprio::IoPrio;
use elevon_core::op::Flags;
use elevon_trace::names::Names;
use elevon_trace::write::{
    EventWriter, WriteOptions, blktrace, csv, fio_log, ftrace, json, parquet, perfetto,
};
use elevon_trace::{DeviceNumber, Reader, TraceEvent, TraceKind, TraceOp};

/// Returns all events of 4 KiB reads of four threads on two CPUs, 32 in service at a time.
fn events(count: usize, names: &mut Names) -> Vec<TraceEvent> {
    let comms = ["fio", "postgres", "kworker/u8:1", "dd"].map(|comm| names.intern(comm.as_bytes()));
    let at = |n: usize, step: u64, kind| TraceEvent {
        time: Some(1_000_000_000 + n as u64 * 10_000 + step),
        device: Some(DeviceNumber::new(8, 0)),
        sector: Some(n as u64 * 7919 % (1 << 24) * 8),
        bytes: Some(4096),
        op: Some(TraceOp::Read),
        flags: Some(Flags::NONE),
        tid: Some(1000 + n as u32 % 4),
        comm: comms[n % 4],
        cpu: Some(n as u32 / 64 % 2),
        ioprio: Some(IoPrio::DEFAULT),
        ..TraceEvent::new(kind)
    };
    let mut all = Vec::new();
    for n in 0..count {
        all.push(at(n, 0, TraceKind::Queue));
        all.push(at(n, 1000, TraceKind::GetRequest));
        all.push(at(n, 2000, TraceKind::Insert));
        if let Some(old) = n.checked_sub(32) {
            let end = at(n, 3000, TraceKind::Complete);
            all.push(TraceEvent {
                sector: at(old, 0, TraceKind::Queue).sector,
                error: Some(0),
                ..end
            });
        }
        all.push(at(n, 5000, TraceKind::Issue));
    }
    for event in &mut all {
        if matches!(event.kind, TraceKind::Queue | TraceKind::GetRequest) {
            event.ioprio = None;
        }
    }
    all
}

/// Runs a function repeatedly for a time. Returns seconds of CPU time per turn, so that other
/// programs on the machine do not count.
fn measure(span: Duration, mut turn: impl FnMut()) -> f64 {
    let (start, cpu, mut turns) = (Clock::now(), cpu_seconds(), 0u32);
    while turns == 0 || start.elapsed() < span {
        turn();
        turns += 1;
    }
    (cpu_seconds() - cpu) / f64::from(turns)
}

/// Returns the CPU time of this thread in seconds, as the scheduler counts it.
fn cpu_seconds() -> f64 {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("the scheduler's statistics");
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

/// Returns the CPU time of the child processes so far in seconds, at the kernel's resolution of
/// hundredths.
fn children_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("the process's statistics");
    let (_, rest) = text.rsplit_once(')').expect("a name in parentheses");
    let field = |at: usize| {
        rest.split_whitespace().nth(at).and_then(|ticks| ticks.parse::<f64>().ok()).expect("ticks")
    };
    (field(13) + field(14)) / 100.0
}

fn show(what: &str, seconds: f64, events: usize, bytes: usize) {
    println!(
        "{what:<28} {:>10.1} {:>12.2} {:>10.0} {:>10.1}",
        seconds * 1e9 / events as f64,
        events as f64 / seconds / 1e6,
        bytes as f64 / seconds / 1e6,
        bytes as f64 / events as f64
    );
}

fn read(bytes: &Arc<[u8]>) -> usize {
    let source = Box::new(Cursor::new(Arc::clone(bytes)));
    let mut reader: Reader = elevon_trace::from_read("memory", source).expect("a known format");
    let mut count = 0;
    while let Some(batch) = reader.next_batch().expect("memory") {
        count += batch.len();
    }
    assert_eq!(reader.report().skipped_count(), 0);
    count
}

fn write<W: EventWriter>(mut writer: W, events: &[TraceEvent], names: &Names) -> W {
    for event in events {
        writer.event(event, names).expect("memory");
    }
    writer
}

/// Converts events to the bytes of a trace in a format.
type Written = Box<dyn Fn(&[TraceEvent], &Names) -> Vec<u8>>;

fn formats() -> Vec<(&'static str, Written)> {
    let options = WriteOptions { cpus: 2, ..WriteOptions::default() };
    vec![
        (
            "ftrace",
            Box::new(move |events, names| {
                let writer =
                    ftrace::FtraceWriter::new(Cursor::new(Vec::new()), options).expect("memory");
                write(writer, events, names).finish().expect("memory").into_inner()
            }),
        ),
        (
            "blktrace",
            Box::new(|events, names| {
                let writer = blktrace::BlktraceWriter::new(|_| Ok(Vec::new()), Default::default())
                    .expect("memory");
                write(writer, events, names).finish().expect("memory").remove(0)
            }),
        ),
        (
            "perfetto",
            Box::new(|events, names| {
                write(perfetto::PerfettoWriter::new(Vec::new()), events, names)
                    .finish()
                    .expect("memory")
            }),
        ),
        (
            "fio iolog",
            Box::new(|events, names| {
                let writer = fio_log::FioLogWriter::new(Vec::new()).expect("memory");
                write(writer, events, names).finish().expect("memory")
            }),
        ),
        (
            "csv",
            Box::new(|events, names| {
                write(csv::CsvWriter::new(Vec::new()).expect("memory"), events, names)
                    .finish()
                    .expect("memory")
            }),
        ),
        (
            "parquet",
            Box::new(|events, names| {
                write(parquet::ParquetWriter::new(Vec::new()).expect("memory"), events, names)
                    .finish()
                    .expect("memory")
            }),
        ),
        (
            "json timeline",
            Box::new(|events, names| {
                let writer = json::JsonWriter::new(Cursor::new(Vec::new()), None).expect("memory");
                write(writer, events, names).finish().expect("memory").into_inner()
            }),
        ),
    ]
}

/// Prints the time that blkparse and btt need for a latency table of the trace.
fn tools(records: &[u8], events: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("t.blktrace.0"), records).expect("a file");
    let Some(mut blkparse) = elevon_testkit::tool("blkparse") else { return };
    let before = children_seconds();
    let output =
        blkparse.args(["-q", "-i", "t", "-d", "t.bin", "-O"]).current_dir(folder.path()).output();
    assert!(output.expect("blkparse runs").status.success());
    show("blkparse -d (for btt)", children_seconds() - before, events, records.len());
    let Some(mut btt) = elevon_testkit::tool("btt") else { return };
    let before = children_seconds();
    assert!(
        btt.args(["-i", "t.bin"])
            .current_dir(folder.path())
            .output()
            .expect("btt runs")
            .status
            .success()
    );
    show("btt", children_seconds() - before, events, records.len());
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let span = if full { Duration::from_millis(500) } else { Duration::ZERO };
    let mut names = Names::default();
    let events = events(if full { 100_000 } else { 100 }, &mut names);
    println!("{:<28} {:>10} {:>12} {:>10} {:>10}", "", "ns/event", "Mevents/s", "MB/s", "B/event");
    for (name, written) in formats() {
        let bytes = written(&events, &names);
        let seconds = measure(span, || drop(written(&events, &names)));
        show(&format!("write {name}"), seconds, events.len(), bytes.len());
        if matches!(name, "parquet" | "json timeline") {
            continue;
        }
        let bytes: Arc<[u8]> = bytes.into();
        let mut count = 0;
        let seconds = measure(span, || count = read(&bytes));
        show(&format!("read {name}"), seconds, count, bytes.len());
        if matches!(name, "ftrace" | "blktrace") {
            for (ending, packed) in
                [("gz", gzip(&bytes)), ("zst", zstd::encode_all(&bytes[..], 3).expect("memory"))]
            {
                let packed: Arc<[u8]> = packed.into();
                let seconds = measure(span, || count = read(&packed));
                show(&format!("read {name}.{ending}"), seconds, count, bytes.len());
            }
        }
        if name == "blktrace" && full {
            tools(&bytes, count);
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, bytes).expect("memory");
    encoder.finish().expect("memory")
}
