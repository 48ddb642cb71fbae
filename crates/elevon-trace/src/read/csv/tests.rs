use super::*;
use crate::format::TraceFormat;
use crate::testing::{assert_ordered, read_bytes};

/// Time, device, sector, bytes, op and response of each event.
type Row = (u64, (u32, u32), u64, u64, Option<TraceOp>, Option<u64>);

fn rows(text: &str, format: TraceFormat) -> Vec<Row> {
    let (events, reader) = read_bytes(text);
    assert_eq!(reader.format(), format);
    assert_eq!(reader.report().skipped, []);
    assert_ordered(&events);
    events
        .iter()
        .map(|event| {
            let TraceKind::Io { response_ns } = event.kind else { panic!("{event:?}") };
            assert_eq!(
                (event.tid, event.comm, event.cpu, event.flags, event.error),
                (None, None, None, None, None)
            );
            let device = event.device.unwrap();
            let (time, sector, bytes) =
                (event.time.unwrap(), event.sector.unwrap(), event.bytes.unwrap());
            (time, (device.major, device.minor), sector, bytes, event.op, response_ns)
        })
        .collect()
}

const READ: Option<TraceOp> = Some(TraceOp::Read);
const WRITE: Option<TraceOp> = Some(TraceOp::Write);

#[test]
fn msr_cambridge() {
    let text = "128166375000000000,srv0,1,Read,1048576,8192,52000\n\
        128166375000000001,srv0,0,Write,512,4096,1\n\
        128166375000000002,srv0,1,read,0,512,0\r\n";
    let start = 1_172_163_900_000_000_000;
    assert_eq!(
        rows(text, TraceFormat::Msr),
        [
            (start, (0, 0), 2048, 8192, READ, Some(5_200_000)),
            (start + 100, (0, 1), 1, 4096, WRITE, Some(100)),
            (start + 200, (0, 0), 0, 512, READ, Some(0)),
        ]
    );
    let (events, reader) = read_bytes(text);
    assert_eq!(reader.names().device(events[1].device.unwrap()), Some("srv0.0"));
}

/// Times since the trace began, and fields in quotes as a spreadsheet writes them.
#[test]
fn msr_cambridge_as_others_write_it() {
    let text = "\"Timestamp\",\"Hostname\",\"DiskNumber\",\"Type\",\"Offset\",\"Size\",\"ResponseTime\"\n\
        \"0\",\"srv0\",\"1\",\"Read\",\"512\",\"8192\",\"52\"\n10000,srv0,1,Write,0,512,1\n";
    assert_eq!(
        rows(text, TraceFormat::Msr),
        [(0, (0, 0), 1, 8192, READ, Some(5200)), (1_000_000, (0, 0), 0, 512, WRITE, Some(100))]
    );
}

#[test]
fn an_offset_within_a_sector_is_noted() {
    for (offset, notes) in [(512, 0), (700, 1)] {
        let (events, reader) = read_bytes(format!("7,W,{offset},4096,1577808001000000\n"));
        assert_eq!((events[0].sector, reader.report().notes.len()), (Some(1), notes));
    }
}

#[test]
fn alibaba() {
    let text = "7,W,65536,4096,1577808001000000\n419,R,65536,16384,1577808001000007\n";
    let start = 1_577_808_001_000_000_000;
    assert_eq!(
        rows(text, TraceFormat::Alibaba),
        [(start, (0, 7), 128, 4096, WRITE, None), (start + 7000, (0, 419), 128, 16384, READ, None)]
    );
}

#[test]
fn tencent_spreads_a_second_over_its_ios() {
    let text = "1538323205,4096000,64,1,17\n1538323205,0,8,0,18\n1538323207,8,8,0,17\n";
    let start = 1_538_323_205_000_000_000;
    assert_eq!(
        rows(text, TraceFormat::Tencent),
        [
            (start, (0, 17), 4096000, 32768, WRITE, None),
            (start + 500_000_000, (0, 18), 0, 4096, READ, None),
            (start + 2_000_000_000, (0, 17), 8, 4096, READ, None),
        ]
    );
    let report = read_bytes(text).1;
    assert_eq!(report.report().resolution_ns, Some(1_000_000_000));
    assert_eq!(report.report().notes.len(), 1);
}

#[test]
fn systor() {
    let text = "Timestamp,Response,IOType,LUN,Offset,Size\n\
        1455592808.163450,0.000123,R,3,4096,8192\n\
        1455592808.163460,,W,3,0,512\n\
        1455592809,0.5,,4,0,512\n";
    let start = 1_455_592_808_163_450_000;
    assert_eq!(
        rows(text, TraceFormat::Systor),
        [
            (start, (0, 3), 8, 8192, READ, Some(123_000)),
            (start + 10_000, (0, 3), 0, 512, WRITE, None),
            (1_455_592_809_000_000_000, (0, 4), 0, 512, None, Some(500_000_000)),
        ]
    );
}

#[test]
fn spc() {
    let text = "0,2048,8192,R,0.000500\n1,20941264,4096,w,.551706\n0,8,512,W,1,extra,columns\n";
    assert_eq!(
        rows(text, TraceFormat::Spc),
        [
            (500_000, (0, 0), 2048, 8192, READ, None),
            (551_706_000, (0, 1), 20941264, 4096, WRITE, None),
            (1_000_000_000, (0, 0), 8, 512, WRITE, None),
        ]
    );
}

#[test]
fn damaged_lines_are_located() {
    let text = "0,2048,8192,R,0.000500\n0,2048,8192,X,0.000500\n0,2048\n\n0,2048,99999999999999999999,R,1\n";
    let (events, reader) = read_bytes(text);
    assert_eq!(events.len(), 1);
    let problems: Vec<_> =
        reader.report().problems.iter().map(|&(place, reason)| (place.at, reason)).collect();
    assert_eq!(
        problems,
        [
            (Position::Line(2), "R or W"),
            (Position::Line(3), "five fields: ASU, sector, bytes, R or W, time"),
            (Position::Line(5), "a length in bytes"),
        ]
    );
}

/// A log that fio 3.33 wrote, and the same as version 2.
#[test]
fn fio_logs() {
    let third = "fio version 3 iolog\n25 /tmp/f add\n134 /tmp/f open\n137 /tmp/f read 61440 4096\n\
        22610 /tmp/f write 774144 8192\n46629 /tmp/g sync 0 0\n46630 /tmp/f trim 513 4096\n127324 /tmp/f close\n";
    let second = "fio version 2 iolog\n/tmp/f add\n/tmp/f open\n/tmp/f wait 137 0\n/tmp/f read 61440 4096\n\
        /tmp/f wait 22473 0\n/tmp/f write 774144 8192\n/tmp/f wait 24019 0\n/tmp/g sync 0 0\n\
        /tmp/f wait 1 0\n/tmp/f trim 513 4096\n/tmp/f close\n";
    for text in [third, second] {
        let (events, reader) = read_bytes(text);
        assert_eq!((reader.format(), reader.report().skipped_count()), (TraceFormat::FioLog, 0));
        let found: Vec<_> =
            events.iter().map(|e| (e.time.unwrap(), e.op.unwrap(), e.sector, e.bytes)).collect();
        assert_eq!(
            found,
            [
                (137_000, TraceOp::Read, Some(120), Some(4096)),
                (22_610_000, TraceOp::Write, Some(1512), Some(8192)),
                (46_629_000, TraceOp::Flush, None, Some(0)),
                (46_630_000, TraceOp::Discard, Some(1), Some(4096)),
            ]
        );
        assert_eq!(reader.names().device(events[2].device.unwrap()), Some("/tmp/g"));
        assert_eq!(reader.report().notes.len(), 1);
    }
    let (events, reader) = read_bytes(
        "fio version 3 iolog\n1 f read 0\n2 f read 0 4096 1\n3 f hop 0 1\n4 f read 0 1\n",
    );
    assert_eq!((events.len(), reader.report().skipped_count()), (1, 3));
}

/// An editor on Windows puts a mark before the first line, and a carriage return behind each.
#[test]
fn a_text_of_windows_is_read_whole() {
    let lines =
        ["419,W,8192,4096,1577808144360767", "420,R,8192,4096,1577808144360768"].join("\r\n");
    for text in [
        format!("\u{feff}{lines}\r\n"),
        format!("\u{feff}device,op,offset,length,time\r\n{lines}\r\n"),
    ] {
        let (events, reader) = read_bytes(text.as_bytes());
        assert_eq!((events.len(), reader.report().skipped_count()), (2, 0), "{text}");
    }
}

#[test]
fn no_io_of_a_full_second_is_lost() {
    let second = |at: u64, ios: usize| format!("{at},0,8,0,1283\n").repeat(ios);
    let text = second(1_538_323_200, 3 * MAX_SPREAD / 2) + &second(1_538_323_201, 1);
    let (events, reader) = read_bytes(text);
    assert_eq!((events.len(), reader.report().skipped.len()), (3 * MAX_SPREAD / 2 + 1, 0));
    assert_ordered(&events);
    // Those that are not spread are at the second's end.
    assert_eq!(events[MAX_SPREAD].time.unwrap() + 1, events.last().unwrap().time.unwrap());
}
