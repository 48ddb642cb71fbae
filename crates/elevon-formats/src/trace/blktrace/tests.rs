use std::fs::{self, File};
use std::path::PathBuf;

use super::super::testing::{context, event, kernel_truth, run};
use super::super::{Context, steps};
use super::*;

/// Records of a trace's files, merged by time as blkparse does.
fn merged(base: &Path) -> Vec<Record> {
    let mut records = Vec::new();
    for cpu in 0.. {
        let path = PathBuf::from(format!("{}.blktrace.{cpu}", base.display()));
        let Ok(file) = File::open(path) else { break };
        records.extend(Reader::new(file).map(|record| record.unwrap()));
    }
    records.sort_by_key(|r| (r.time, r.cpu, r.sequence));
    records
}

/// blkparse's lines of the trace, without its summary; `None` where it is not installed.
fn blkparse(base: &Path, more: &[&str]) -> Option<Vec<String>> {
    let folder = base.parent().unwrap();
    let output = elevon_testkit::tool("blkparse")?
        .args(["-q", "-i", base.file_name().unwrap().to_str().unwrap()])
        .args(more)
        .current_dir(folder)
        .output()
        .expect("blkparse starts");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "blkparse complains");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().map(str::to_string).collect())
}

/// CPU, number, letter, and sector with what stands for the length.
type Shown = (u32, u32, String, String);

/// As blkparse prints them.
fn shown(line: &str) -> Option<Shown> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let letter = *words.get(5)?;
    let tail = match letter {
        "P" => String::new(),
        "U" | "UT" => words.last()?.to_string(),
        _ => words.get(7..10)?.join(" "),
    };
    Some((words[1].parse().ok()?, words[2].parse().ok()?, letter.to_string(), tail))
}

/// The same of a record.
fn told(record: &Record) -> Option<Shown> {
    let letter = record.letter()?;
    let sectors = u64::from(record.bytes) / SECTOR_SIZE;
    let tail = match letter {
        'P' => String::new(),
        'U' | 'T' => record.number()?.to_string(),
        'X' => format!("{} / {}", record.sector, record.number()?),
        _ => format!("{} + {}", record.sector, sectors),
    };
    let letter = if letter == 'T' { "UT".into() } else { letter.to_string() };
    Some((record.cpu, record.sequence, letter, tail))
}

/// Both tell the same, CPU by CPU: between CPUs, records of one time have no order. Only the first difference is shown.
fn same(mut ours: Vec<Shown>, mut theirs: Vec<Shown>) {
    ours.sort();
    theirs.sort();
    for (our, their) in ours.iter().zip(&theirs) {
        assert_eq!(our, their);
    }
    assert_eq!(ours.len(), theirs.len());
}

#[test]
fn the_worked_example_byte_for_byte() {
    let context = Context { device: (8, 0), tasks: vec![super::super::TaskName::new("dd", 1234)], ..context() };
    let mut writer = Writer::new(|_| Ok(Vec::new()), context).unwrap();
    writer.event(&event(1000, EventKind::BioQueue, 2048, 8)).unwrap();
    let files = writer.finish().unwrap();
    let (name, queue) = files[0].split_at(RECORD_SIZE + 16);
    assert_eq!(&name[RECORD_SIZE..], b"dd\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(name[28..32], [0, 0, 0, 4]);
    #[rustfmt::skip]
    assert_eq!(queue, [
        0x07, 0x74, 0x61, 0x65, 1, 0, 0, 0, 0xe8, 3, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0,
        0, 0x10, 0, 0, 1, 0, 0x11, 0, 0xd2, 4, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
}

#[test]
fn real_records_are_as_blkparse_shows_them() {
    for (name, letters) in [
        ("dd-none", [('Q', 205), ('X', 160), ('G', 365), ('D', 365), ('C', 365), ('I', 96)]),
        ("dd-mq-deadline", [('Q', 205), ('X', 160), ('G', 365), ('D', 365), ('C', 365), ('I', 365)]),
    ] {
        let base = kernel_truth("blktrace-6.1").join(name);
        let records: Vec<Record> = merged(&base).into_iter().filter(|r| r.letter().is_some()).collect();
        for (letter, expected) in letters {
            let found = records.iter().filter(|r| r.letter() == Some(letter)).count();
            assert_eq!(found, expected, "{name}: {letter}");
        }
        assert!(records.iter().all(|r| r.device == (253, 0) && r.error == 0 && r.cgroup.is_none()));
        let Some(lines) = blkparse(&base, &[]) else { continue };
        let theirs: Vec<_> = lines.iter().filter_map(|line| shown(line)).collect();
        let ours: Vec<_> = records.iter().filter_map(told).collect();
        same(ours, theirs);
    }
}

#[test]
fn either_byte_order_reads_the_same() {
    let bytes = fs::read(kernel_truth("blktrace-6.1/dd-none.blktrace.1")).unwrap();
    let (mut swapped, mut at) = (bytes.clone(), 0);
    while at < swapped.len() {
        let payload = usize::from(u16::from_le_bytes([bytes[at + 46], bytes[at + 47]]));
        for (from, to) in
            [(0, 4), (4, 8), (8, 16), (16, 24), (24, 28), (28, 32), (32, 36), (36, 40), (40, 44), (44, 46), (46, 48)]
        {
            swapped[at + from..at + to].reverse();
        }
        at += RECORD_SIZE + payload;
    }
    let read = |bytes: &[u8]| Reader::new(bytes).collect::<Result<Vec<_>, _>>().unwrap();
    let records = read(&swapped);
    assert_eq!(records, read(&bytes));
    assert!(records.iter().any(|r| r.letter() == Some('X') && r.number() == Some(255)));
}

#[test]
fn a_cgroup_id_is_taken_off() {
    let header = Header {
        sequence: 1,
        time: 5,
        sector: 8,
        bytes: 512,
        action: (category::READ | category::QUEUE) << 16 | 1 << 8 | action::UNPLUG,
        pid: 1,
        device: 8 << 20 | 1,
        cpu: 0,
        error: (-5i32) as u16,
    };
    let mut bytes = Vec::new();
    let payload: Vec<u8> = 77u64.to_le_bytes().into_iter().chain(9u64.to_be_bytes()).collect();
    header.write(&mut bytes, &payload).unwrap();
    let record = Reader::new(&bytes[..]).next().unwrap().unwrap();
    assert_eq!((record.cgroup, record.letter(), record.number()), (Some(77), Some('U'), Some(9)));
    assert_eq!((record.error, record.device), (-5, (8, 1)));
}

#[test]
fn what_is_no_record_is_refused_once() {
    let good = fs::read(kernel_truth("blktrace-6.1/dd-none.blktrace.0")).unwrap();
    let mut cut = Reader::new(&good[..good.len() - 7]);
    let last = cut.by_ref().last().unwrap();
    assert!(matches!(last, Err(ReadError::Cut { .. })));
    assert!(cut.next().is_none());
    let mut noise = Reader::new(&b"fio version 2 iolog, and some more so that it is longer than a record"[..]);
    let error = noise.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("at byte 0") && error.contains("version 7"), "{error}");
    assert!(noise.next().is_none());
    // Any bytes at all: no panic, and an end.
    let mut random = super::super::testing::Random(9);
    for _ in 0..2000 {
        let mut bytes = good[..400].to_vec();
        for _ in 0..4 {
            let at = random.below(400) as usize;
            bytes[at] = random.below(256) as u8;
        }
        assert!(Reader::new(&bytes[..]).count() <= 9);
    }
}

#[test]
fn written_records_read_back_and_satisfy_blkparse_and_btt() {
    let folder = tempfile::tempdir().unwrap();
    let events = run(4, 400, 6);
    let base = folder.path().join("run");
    // An older trace with more CPUs must not shine through.
    for cpu in 0..6 {
        fs::copy(kernel_truth("blktrace-6.1/dd-none.blktrace.0"), folder.path().join(format!("run.blktrace.{cpu}")))
            .unwrap();
    }
    let mut writer = Writer::create(&folder.path().join("run.blktrace"), context()).unwrap();
    events.iter().for_each(|event| writer.event(event).unwrap());
    writer.finish().unwrap();

    let all = merged(&base);
    let named: Vec<_> = all.iter().filter(|r| r.letter().is_none()).map(|r| (r.pid, r.payload.clone())).collect();
    assert_eq!(named.len(), 3, "each task is named once");
    assert!(named.contains(&(17, b"highpool[1] a-b\0".to_vec())));
    let records: Vec<&Record> = all.iter().filter(|r| r.letter().is_some()).collect();
    let expected: Vec<&Event> =
        events.iter().filter(|e| !matches!(e.kind, EventKind::IoStart | EventKind::IoDone)).collect();
    assert_eq!(records.len(), expected.len());
    let mut sequences = [0; 3];
    for (record, event) in records.iter().zip(&expected) {
        sequences[record.cpu as usize] += 1;
        assert_eq!(record.sequence, sequences[record.cpu as usize]);
        assert_eq!((record.time, record.cpu), (event.time.get(), u32::from(event.cpu)));
        assert_eq!(record.pid, context().task(event.task).1);
    }
    let letters: Vec<char> =
        records.iter().map(|r| r.letter().unwrap()).map(|l| if l == 'T' { 'U' } else { l }).collect();
    let steps = steps::of_events(&events);
    assert_eq!(letters, steps.iter().map(|s| s.letter).collect::<Vec<_>>());

    let Some(lines) = blkparse(&base, &["-d", "run.bin"]) else { return };
    let theirs: Vec<_> = lines.iter().filter_map(|line| shown(line)).collect();
    same(records.iter().filter_map(|r| told(r)).collect(), theirs);
    assert!(lines.iter().any(|line| line.contains("[highpool[1] a-b]")));
    let Some(mut btt) = elevon_testkit::tool("btt") else { return };
    let btt = btt.args(["-i", "run.bin"]).current_dir(folder.path()).output().expect("btt starts");
    assert!(btt.status.success());
    assert_eq!(String::from_utf8_lossy(&btt.stderr), "", "btt complains");
    let report = String::from_utf8_lossy(&btt.stdout);
    let d2c = report.lines().find(|line| line.starts_with("D2C")).unwrap();
    // Requests that failed are completed ones too.
    assert_eq!(d2c.split_whitespace().last(), Some("400"), "{report}");
}
