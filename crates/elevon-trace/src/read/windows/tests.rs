use super::*;
use crate::testing::{assert_ordered, counts, data, read_bytes, read_file};
use crate::{Position, TraceFormat};

/// Time, kind, disk, sector, bytes, operation.
type Step = (u64, &'static str, u32, Option<u64>, Option<u64>, Option<TraceOp>);

fn steps(events: &[TraceEvent]) -> Vec<Step> {
    let step = |e: &TraceEvent| {
        (e.time.unwrap(), e.kind.name(), e.device.unwrap().minor, e.sector, e.bytes, e.op)
    };
    events.iter().map(step).collect()
}

const READ: Option<TraceOp> = Some(TraceOp::Read);
const WRITE: Option<TraceOp> = Some(TraceOp::Write);

#[test]
fn rows_of_the_dumper_end_with_their_time() {
    let (events, reader) = read_file(&data("formats/xperf.csv"));
    assert_eq!((reader.format(), reader.report().skipped_count()), (TraceFormat::Xperf, 0));
    assert_eq!(counts(&events), [("issue", 7), ("complete", 7)]);
    assert_ordered(&events);
    assert_eq!(
        steps(&events)[..4],
        [
            (100_000, "issue", 0, Some(81920), Some(8192), READ),
            (130_000, "issue", 0, Some(204_800), Some(16384), WRITE),
            (400_000, "issue", 0, Some(6144), Some(4096), WRITE),
            (490_000, "complete", 0, Some(6144), Some(4096), WRITE),
        ]
    );
    let last = events.last().unwrap();
    assert_eq!(
        (last.op, last.sector, last.bytes, last.time),
        (Some(TraceOp::Flush), None, Some(0), Some(6_000_000))
    );
    let name = |e: &TraceEvent| {
        (e.comm.map(|c| reader.names().name(c).to_owned()), e.process, e.tid, e.cpu)
    };
    let web = events.iter().find(|e| e.bytes == Some(131_072)).unwrap();
    assert_eq!(name(web), (Some("web content.exe".to_owned()), Some(901), Some(902), Some(0)));
    assert_eq!(reader.names().device(DeviceNumber::new(0, 1)), Some("disk1"));
}

/// `findstr DiskRead` leaves the titles out; older versions have no CPU.
#[test]
fn rows_without_titles() {
    let text = "DiskRead, 8612, xperf.exe (3984), 11844, 1, 0xffffe288b23f1b20, 0x018f0b8000, 0x00001000, 283, 0, 0x060043, 283, 3, Original, 0xffffe288272d0d20, \"C:\\$Mft\"\n\
        DiskWrite, 9000, System (4), 88, 0xffffe288b23f1b20, 0x0000001000, 0x00000200, 100, 2, 0x060043, 99, 3, Original, 0xffff, \"C:\\a\"\n";
    let (events, reader) = read_bytes(text.lines().next().unwrap());
    assert_eq!((reader.format(), reader.report().skipped_count()), (TraceFormat::Xperf, 0));
    assert_eq!(
        steps(&events)[0],
        (8_329_000, "issue", 0, Some(0x1_8f0b_8000 / 512), Some(4096), READ)
    );
    let (events, _) = read_bytes(text.lines().last().unwrap());
    assert_eq!(steps(&events)[1], (9_000_000, "complete", 2, Some(8), Some(512), WRITE));
}

#[test]
fn tables_are_read_by_their_titles_and_units() {
    let (events, reader) = read_file(&data("formats/wpa.csv"));
    assert_eq!((reader.format(), reader.report().skipped_count()), (TraceFormat::Xperf, 0));
    let (dumped, _) = read_file(&data("formats/xperf.csv"));
    let places = |events: &[TraceEvent]| {
        steps(events)
            .into_iter()
            .filter(|step| step.3.is_some())
            .map(|s| (s.0, s.1, s.3, s.4, s.5))
            .collect::<Vec<_>>()
    };
    assert_eq!(places(&events), places(&dumped));
}

#[test]
fn diskmon_has_the_start_and_the_duration() {
    let (events, reader) = read_file(&data("formats/diskmon.txt"));
    assert_eq!(
        (reader.format(), reader.report().skipped_count(), events.len()),
        (TraceFormat::DiskMon, 0, 12)
    );
    assert_eq!(steps(&events)[0], (100_000, "issue", 0, Some(81920), Some(8192), READ));
    assert_eq!(steps(&events)[3], (490_000, "complete", 0, Some(6144), Some(4096), WRITE));
    let text = "#,Time,Duration (s),Disk,Request,Sector,Length\r\n0,11:59:59 AM,0.00057220,0,Read,106623,8\r\n\
        1,12:00:00 PM,0.00100000,1,Write,8,16\r\n2,12:00:01 PM,0.1,1,Erase,8,16\r\n";
    let (events, reader) = read_bytes(text);
    assert_eq!(
        (reader.format(), reader.report().skipped_count(), events.len()),
        (TraceFormat::DiskMon, 1, 4)
    );
    assert_eq!(reader.report().skipped[0].first.at, Position::Line(4));
    assert_eq!(events[2].time.unwrap() - events[0].time.unwrap(), 1_000_000_000);
}

#[test]
fn a_damaged_row_is_skipped_at_its_place() {
    let whole = std::fs::read_to_string(data("formats/xperf.csv")).unwrap();
    for (from, to) in
        [("0x00002000", "0xzz"), (",         410,", ",        -410,"), ("0x0002800000", "")]
    {
        let text = whole.replacen(from, to, 1);
        assert_ne!(text, whole, "{from}");
        let (events, reader) = read_bytes(text);
        assert_eq!((events.len(), reader.report().skipped_count()), (12, 1), "{from}");
    }
}

#[test]
fn other_tables_are_no_disk_io() {
    for text in [
        "Type,Time,Size\nRead,1,2\n",
        "DiskRead is a word\n",
        "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n",
        "1 2 3 4 Read 6\n",
        "1\t0.5\t0.1\t0\tErase\t8\t8\n",
    ] {
        assert!(crate::from_bytes(text.into()).is_err(), "{text}");
    }
}
