//! Properties that must hold for any bytes given as a trace. The fuzz targets and tests over the
//! corpora share these checks.
//!
//! A target tests one reader: bytes of no format, or of another one, are put after a first record
//! of its format, so that every input reaches the reader.

use elevon_trace::{Reader, TraceFormat, TraceKind};

/// Reads to the end and checks that events are in order of time, that there are no more than fit
/// into the length, and that every problem has a place.
fn check(data: &[u8], expected: TraceFormat, first: &[u8], least_bytes: usize) {
    let as_it_is =
        elevon_trace::from_bytes(data.to_vec()).ok().filter(|reader| reader.format() == expected);
    if let Some(reader) = as_it_is {
        read(reader, data.len(), least_bytes);
    } else {
        let bytes = [first, data].concat();
        let length = bytes.len();
        let reader = elevon_trace::from_bytes(bytes).expect("a known first record");
        assert_eq!(reader.format(), expected);
        read(reader, length, least_bytes);
    }
}

fn read(mut reader: Reader, length: usize, least_bytes: usize) {
    let (mut last, mut is_timed) = (0, true);
    let (mut events, mut gaps) = (0, 0);
    while let Some(batch) = reader.next_batch().expect("bytes in memory") {
        assert!(!batch.is_empty());
        for event in batch {
            is_timed &= event.time.is_some();
            if is_timed {
                assert!(last <= event.time.unwrap_or(0), "{event:?} after {last}");
                last = event.time.unwrap_or(0);
            }
            match event.kind {
                TraceKind::Lost { .. } => gaps += 1,
                _ => events += 1,
            }
        }
    }
    // Compressed content may be a thousand times as long.
    let room = (length / least_bytes + 1).saturating_mul(if length < 1 << 20 { 1100 } else { 1 });
    assert!(events <= room, "{events} events of {length} bytes");
    let report = reader.report();
    assert!(report.gap_count >= gaps);
    assert!(report.skipped.iter().all(|skipped| skipped.count > 0 && !skipped.reason.is_empty()));
    assert!(report.problems.len() as u64 <= report.skipped_count());
    assert!(reader.next_batch().expect("bytes in memory").is_none(), "events after the end");
}

/// Checks the ftrace text reader.
#[allow(dead_code)]
pub(crate) fn ftrace(data: &[u8]) {
    check(data, TraceFormat::Ftrace, b"a-1 [000] ..... 1.000001: block_plug: [a]\n", 16);
}

/// Checks the blktrace reader.
#[allow(dead_code)]
pub(crate) fn blktrace(data: &[u8]) {
    let mut first = [0; 48];
    first[..4].copy_from_slice(&0x6561_7407u32.to_le_bytes());
    first[28] = 9;
    check(data, TraceFormat::Blktrace, &first, 24);
}

/// Checks the Perfetto reader.
#[allow(dead_code)]
pub(crate) fn perfetto(data: &[u8]) {
    check(data, TraceFormat::Perfetto, &[0x0a, 0x03, 0x50, 0x80, 0x01], 4);
}

/// Checks the reader of blkparse's output.
#[allow(dead_code)]
pub(crate) fn blkparse(data: &[u8]) {
    check(data, TraceFormat::Blkparse, b"  8,0 0 1 0.000000001 1 P N [a]\n", 16);
}

/// Checks the reader of fio's iolog.
#[allow(dead_code)]
pub(crate) fn iolog(data: &[u8]) {
    check(data, TraceFormat::FioLog, b"fio version 3 iolog\n", 8);
    check(data, TraceFormat::FioLog, b"fio version 2 iolog\n", 8);
}

/// Checks the readers of rows that tell of I/Os when they have ended, and of babeltrace's text.
#[allow(dead_code)]
pub(crate) fn rows(data: &[u8]) {
    for (format, first) in [
        (
            TraceFormat::Snoop,
            &b"TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  P QUE(ms) LAT(ms)\n"[..],
        ),
        (TraceFormat::Snoop, b"STIME(us) TIME(us) DELTA DTIME UID PID D BLOCK SIZE COMM PATHNAME\n"),
        (TraceFormat::Lttng, b"[0:0:0.5] h sched: { cpu_id = 0 }, { }\n"),
        (TraceFormat::Fiu, b"1 2 a 8 8 W 6 0 531e779dd8ba8a62a1a9f0cbd2a6d8b4\n"),
        (TraceFormat::DiskMon, b"0\t0.0001\t0.0002\t0\tRead\t8\t8\n"),
        (TraceFormat::Xperf, b"DiskRead, 8612, x.exe (3984), 1, 1, 0xf, 0x18f0b8000, 0x1000, 283, 0, 0x0, 283, 3\n"),
        (TraceFormat::CacheSim, b"time,op,size,lbn\n"),
    ] {
        check(data, format, first, 2);
    }
}

/// Checks the reader of oracleGeneral.
#[allow(dead_code)]
pub(crate) fn oracle(data: &[u8]) {
    let mut first = vec![0; 24 * 256];
    for record in first.chunks_exact_mut(24) {
        record[12] = 1;
        record[16..].fill(0xff);
    }
    check(data, TraceFormat::OracleGeneral, &first, 24);
}

/// Checks that a web page gives a trace or an error.
#[allow(dead_code)]
pub(crate) fn page(data: &[u8]) {
    let first = b"<!DOCTYPE html><script class=\"trace-data\">\na-1 [000] ..... 1.000001: block_plug: [a]\n";
    let whole = elevon_trace::from_bytes([first, data].concat()).expect("a trace in the page");
    read(whole, first.len() + data.len(), 16);
    if let Ok(reader) = elevon_trace::from_bytes([b"<!DOCTYPE html>", data].concat()) {
        read(reader, data.len(), 2);
    }
}

/// Checks that a mail gives a trace or an error.
#[allow(dead_code)]
pub(crate) fn mail(data: &[u8]) {
    let first = b"> 8,0 0 1 0.000000001 1\n> P N [a]\n";
    let bytes = [first, data].concat();
    let length = bytes.len();
    if let Ok(reader) = elevon_trace::from_bytes(bytes) {
        read(reader, length, 2);
    }
    let quoted: Vec<u8> = data
        .split_inclusive(|&byte| byte == b'\n')
        .flat_map(|line| [b"> ", line].concat())
        .collect();
    if let Ok(reader) = elevon_trace::from_bytes(quoted) {
        read(reader, length * 2, 2);
    }
}

/// Checks the readers of all kinds of CSV.
#[allow(dead_code)]
pub(crate) fn csv(data: &[u8]) {
    for (format, first) in [
        (TraceFormat::Msr, &b"128166375000000000,srv0,1,Read,1048576,8192,52000\n"[..]),
        (TraceFormat::Alibaba, b"7,W,65536,4096,1577808001000000\n"),
        (TraceFormat::Tencent, b"1538323205,4096000,64,1,17\n"),
        (TraceFormat::Systor, b"Timestamp,Response,IOType,LUN,Offset,Size\n"),
        (TraceFormat::Spc, b"0,2048,8192,R,0.000500\n"),
        (TraceFormat::Csv, b"time_ns,kind,device,sector,bytes,comm,error,until_ns\n"),
    ] {
        check(data, format, first, 4);
    }
}
