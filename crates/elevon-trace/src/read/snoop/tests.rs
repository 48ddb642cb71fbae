use super::*;
use crate::TraceFormat;
use crate::TraceOp;
use crate::analysis::inspect;
use crate::testing::{assert_ordered, counts, data, read_bytes, read_file};

const BCC: &str = "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES   LAT(ms)\n";

/// Time, kind, sector, bytes, and number of the process or thread.
type Step = (u64, &'static str, Option<u64>, Option<u64>, Option<u32>);

fn steps(events: &[TraceEvent]) -> Vec<Step> {
    let step = |event: &TraceEvent| {
        (
            event.time.unwrap(),
            event.kind.name(),
            event.sector,
            event.bytes,
            event.process.or(event.tid),
        )
    };
    events.iter().map(step).collect()
}

#[test]
fn a_row_of_bcc_is_an_issue_and_a_completion() {
    let text =
        format!("{BCC}0.000310    postgres       4242    vdb       W 81920      8192       0.41\n");
    let (events, reader) = read_bytes(text);
    assert_eq!((reader.format(), reader.report().skipped_count()), (TraceFormat::Snoop, 0));
    // It began 0.1 ms before time 0.
    assert_eq!(
        steps(&events),
        [
            (0, "issue", Some(81920), Some(8192), Some(4242)),
            (410_000, "complete", Some(81920), Some(8192), None)
        ]
    );
    let device = events[0].device.unwrap();
    assert_eq!((reader.names().device(device), events[0].op), (Some("vdb"), Some(TraceOp::Write)));
    assert_eq!(events[0].comm.map(|comm| reader.names().name(comm)), Some("postgres"));
    // bcc has no flags, so a write may be one that is waited for.
    assert_eq!((events[0].flags, events[0].error), (None, None));
    assert_eq!((reader.report().resolution_ns, reader.report().notes.len()), (Some(10_000), 1));
}

#[test]
fn the_samples_show_the_same_requests() {
    let rows = |name: &str, origin: u64| {
        let (events, reader) = read_file(&data(name));
        assert_eq!(
            (reader.format(), reader.report().skipped_count()),
            (TraceFormat::Snoop, 0),
            "{name}"
        );
        assert_ordered(&events);
        let place = |event: &TraceEvent| {
            (event.time.unwrap() - origin, event.kind.name(), event.sector, event.bytes)
        };
        let ends = events.iter().filter(|event| event.kind != TraceKind::Insert);
        ends.map(place).collect::<Vec<_>>()
    };
    let bcc = rows("formats/biosnoop.txt", 0);
    assert_eq!(bcc.len(), 12);
    assert_eq!(bcc[0], (0, "issue", Some(81920), Some(8192)));
    // The resolution of bcc is 10 us, which all of these have.
    assert_eq!(rows("formats/iosnoop-perf-tools.txt", 5_982_800_000_100_000), bcc);
    assert_eq!(rows("formats/iosnoop-dtrace.txt", 722_594_048_535_000), bcc);
    assert_eq!(rows("formats/biosnoop-queued.txt", 20_000), bcc);
    let (events, reader) = read_file(&data("formats/biosnoop-queued.txt"));
    assert_eq!(counts(&events), [("insert", 6), ("issue", 6), ("complete", 6)]);
    let named = |name: &str| {
        events.iter().filter(|e| reader.names().device(e.device.unwrap()) == Some(name)).count()
    };
    assert_eq!((named("vda"), named("loop2")), (15, 3));
    let comms: Vec<_> =
        events.iter().filter_map(|e| e.comm).map(|comm| reader.names().name(comm)).collect();
    assert!(comms.contains(&"Web Content") && comms.contains(&"kworker/u8:2"), "{comms:?}");
    // libbpf-tools has flags, so a W alone is a write without any.
    assert!(events.iter().all(|event| event.flags.is_some()));
}

#[test]
fn rows_of_bpftrace_have_latencies_but_no_place() {
    let (events, reader) = read_file(&data("formats/biosnoop-bpftrace.txt"));
    assert_eq!(
        (reader.format(), reader.report().skipped_count(), events.len()),
        (TraceFormat::Snoop, 0, 6)
    );
    assert!(events.iter().all(|event| (event.sector, event.bytes, event.op) == (None, None, None)));
    assert_eq!(
        events.iter().filter(|e| e.kind == TraceKind::Io { response_ns: Some(25_000_000) }).count(),
        1
    );
    assert_eq!(reader.report().resolution_ns, Some(1_000_000));
    let text = "TIME(ms)     DISK ID        COMM             PID    LAT(ms)\n             MAJOR MINOR\n\
        12           253   16       postgres         4242         3\n";
    let (events, reader) = read_bytes(text);
    assert_eq!(
        (events[0].device, reader.report().skipped_count()),
        (Some(DeviceNumber::new(253, 16)), 0)
    );
}

#[test]
fn rows_without_titles_and_without_times() {
    let rows = "0.000310  postgres  4242 vdb W 81920 8192 0.41\n0.000900  Web Content  7 vdb R 8 4096 S 0.02 0.30\n";
    let (events, reader) = read_bytes(rows.lines().next().unwrap().to_owned() + "\n");
    assert_eq!((reader.format(), events.len()), (TraceFormat::Snoop, 2));
    // The first row chooses the columns.
    let (events, reader) = read_bytes(rows);
    assert_eq!((events.len(), reader.report().skipped_count()), (2, 1));
    let (events, _) = read_bytes(rows.lines().last().unwrap().to_owned() + "\n");
    assert_eq!(counts(&events), [("insert", 1), ("issue", 1), ("complete", 1)]);
    // Rows before their titles say nothing of what their words are.
    let (events, reader) = read_bytes(
        "5.1 5.2 a 1 W 202,1 8 4096 1.3\nSTARTs ENDs COMM PID TYPE DEV BLOCK BYTES LATms\n",
    );
    assert_eq!((events.len(), reader.report().skipped_count()), (0, 1));
    // perf-tools without -s and -t has no times.
    let text = "COMM         PID    TYPE DEV      BLOCK        BYTES     LATms\n\
        supervise    1809   W    202,1    17039968     4096       1.32\n";
    let (events, reader) = read_bytes(text);
    assert_eq!((events.len(), reader.report().skipped_count()), (1, 0));
    assert_eq!(
        (events[0].time, events[0].kind),
        (None, TraceKind::Io { response_ns: Some(1_320_000) })
    );
    assert_eq!((events[0].tid, events[0].device), (Some(1809), Some(DeviceNumber::new(202, 1))));
}

#[test]
fn odd_rows_are_read_or_skipped_at_their_place() {
    let text = format!(
        "Tracing... Hit Ctrl-C to end.\r\n{}\
         1.000000    a b c          1       nvme0n1   R 8          4096       0.10\r\n\
         1.000100                   2       nvme0n1   R 16         4096       0.10\r\n\
         1.000200    flush          3       nvme0n1   F 18446744073709551615 0 0.50\r\n\
         1.000300    x              4       nvme0n1   R 24         4096      -0.10\r\n\
         1.000400    x              4       nvme0n1   R 24\r\n\
         lost 7 events on CPU #3\r\n\
         1.000500    x              5       nvme0n1   R 32         4096       0.10\r\n\
         {BCC}\
         1.000600    <idle>         0       <unknown> R 40         4096       0.10\r\n",
        BCC.replace('\n', "\r\n")
    );
    let (events, reader) = read_bytes(text);
    let report = reader.report();
    assert_eq!(counts(&events), [("issue", 5), ("complete", 5), ("lost", 1)]);
    assert_eq!((report.skipped_count(), report.lost), (2, 7));
    let places: Vec<_> = report.problems.iter().map(|(place, _)| place.at).collect();
    assert_eq!(places, [Position::Line(6), Position::Line(7)]);
    let flush = events.iter().find(|event| event.op == Some(TraceOp::Flush)).unwrap();
    assert_eq!((flush.sector, flush.bytes), (None, Some(0)));
}

/// A request that takes far longer than the others ends long after they did.
#[test]
fn a_late_row_is_put_in_order() {
    let mut text = BCC.to_owned();
    for n in 0..20_000u32 {
        text += &format!("{}.{:06} a 1 sda R {} 4096 0.05\n", n / 10_000, n % 10_000 * 100, 8 * n);
    }
    text += "2.000000 a 1 sda R 999999 4096 1999.00\n";
    let (events, reader) = read_bytes(text);
    assert_eq!((events.len(), reader.report().skipped_count()), (40_002, 0));
    assert_ordered(&events);
}

#[test]
fn other_tables_are_no_such_output() {
    for text in [
        "PID COMM\n1 init\n",
        "COMM PID SIZE\na 1 2\n",
        "TIME(s) LAT(ms) COLOUR\n1.0 2.0 red\n",
        "1.0 2.0 3.0\n",
        "0.1 a b c d e f 0.2\n",
        "1.000 a 1 2 R 8 4096 0.41\n",
    ] {
        assert!(crate::from_bytes(text.into()).is_err(), "{text}");
    }
}

#[test]
fn the_analysis_has_latency_by_stage() {
    let path = data("formats/biosnoop-queued.txt");
    let found =
        inspect(&mut || crate::open(&path), Some(DeviceNumber::new(0, 0)), None, &mut |_| {})
            .expect("a trace");
    let read = &found.stages[crate::analysis::Group::Read as usize];
    assert_eq!((read.inserted_to_issued.max, read.issued_to_completed.max), (40_000, 2_500_000));
}
