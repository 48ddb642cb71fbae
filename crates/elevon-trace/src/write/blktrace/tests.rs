use std::fs;

use super::*;
use crate::read::blktrace as reader;
use crate::run::testing::{converted, event, run};
use crate::testing::{counts, data, read_file};
use elevon_core::event::EventKind;

#[test]
fn the_worked_example_byte_for_byte() {
    let mut names = Names::default();
    let mut made = TraceEvent::new(TraceKind::Queue);
    (made.time, made.device, made.sector, made.bytes) =
        (Some(1000), Some(DeviceNumber::new(8, 0)), Some(2048), Some(4096));
    (made.op, made.flags, made.tid, made.cpu) =
        (Some(TraceOp::Read), Some(Flags::NONE), Some(1234), Some(0));
    made.comm = names.intern(b"dd");
    let mut writer = BlktraceWriter::new(|_| Ok(Vec::new()), BlktraceForm::default()).unwrap();
    writer.event(&made, &names).unwrap();
    let files = writer.finish().unwrap();
    let (name, queue) = files[0].split_at(48 + 16);
    assert_eq!(&name[48..], b"dd\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(name[28..32], [0, 0, 0, 4]);
    #[rustfmt::skip]
    assert_eq!(queue, [
        0x07, 0x74, 0x61, 0x65, 1, 0, 0, 0, 0xe8, 3, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0,
        0, 0x10, 0, 0, 1, 0, 0x11, 0, 0xd2, 4, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
    assert!(reader::is_blktrace(&files[0]));
}

/// Real records that are written back differ from the original only in the records of names and in
/// unused fields that the kernel did not clear.
#[test]
fn real_records_are_written_as_they_were() {
    for name in ["dd-none", "dd-mq-deadline"] {
        let (events, reader) = read_file(&data("kernel-truth/blktrace-6.1").join(name));
        let folder = tempfile::tempdir().unwrap();
        let mut writer =
            BlktraceWriter::create(&folder.path().join("copy.blktrace"), BlktraceForm::default())
                .unwrap();
        events.iter().for_each(|event| writer.event(event, reader.names()).unwrap());
        writer.finish().unwrap();
        let (copy, copy_reader) = read_file(&folder.path().join("copy"));
        assert_eq!(copy_reader.report().skipped, []);
        assert_eq!(copy.len(), events.len());
        for (mut copied, mut event) in copy.into_iter().zip(events) {
            let name_of =
                |event: &TraceEvent, names: &Names| event.comm.map(|id| names.name(id).to_owned());
            if event.tid != Some(0) && event.comm.is_some() {
                assert_eq!(name_of(&copied, copy_reader.names()), name_of(&event, reader.names()));
            }
            (copied.comm, event.comm) = (None, None);
            assert_eq!(copied, event);
        }
    }
}

#[test]
fn written_records_satisfy_blkparse_and_btt() {
    let folder = tempfile::tempdir().unwrap();
    let (events, converter) = converted(&run(4, 400, 6));
    let base = folder.path().join("run");
    // Files of an older trace with more CPUs must not be read.
    for cpu in 0..6 {
        fs::copy(
            data("kernel-truth/blktrace-6.1/dd-none.blktrace.0"),
            folder.path().join(format!("run.blktrace.{cpu}")),
        )
        .unwrap();
    }
    let mut writer =
        BlktraceWriter::create(&folder.path().join("run.blktrace"), BlktraceForm::default())
            .unwrap();
    events.iter().for_each(|event| writer.event(event, converter.names()).unwrap());
    writer.finish().unwrap();
    let (read, reader) = read_file(&base);
    assert_eq!(reader.report().skipped, []);
    let kept = |event: &&TraceEvent| event.kind.letter().is_some();
    assert_eq!(read.len(), events.iter().filter(kept).count());
    for (read, event) in read.iter().zip(events.iter().filter(kept)) {
        assert_eq!(
            (read.kind, read.time, read.cpu, read.tid),
            (event.kind, event.time, event.cpu, event.tid)
        );
        assert_eq!((read.sector, read.bytes, read.op), (event.sector, event.bytes, event.op));
        assert_eq!((read.flags, read.error), (event.flags, event.error));
        if event.tid != Some(0) {
            let names = (
                read.comm.map(|id| reader.names().name(id)),
                event.comm.map(|id| converter.names().name(id)),
            );
            assert_eq!(names.0, names.1);
        }
    }
    let Some(mut blkparse) = elevon_testkit::tool("blkparse") else { return };
    let output = blkparse
        .args(["-q", "-i", "run", "-d", "run.bin"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "blkparse complains");
    let lines = String::from_utf8_lossy(&output.stdout);
    assert!(lines.contains("[highpool[1] a-b]"));
    let (text, _) = crate::testing::read_bytes(lines.as_bytes());
    assert_eq!(counts(&text), counts(&read));
    let Some(mut btt) = elevon_testkit::tool("btt") else { return };
    let btt = btt.args(["-i", "run.bin"]).current_dir(folder.path()).output().expect("btt starts");
    assert!(btt.status.success());
    assert_eq!(String::from_utf8_lossy(&btt.stderr), "", "btt complains");
    let report = String::from_utf8_lossy(&btt.stdout);
    let d2c = report.lines().find(|line| line.starts_with("D2C")).unwrap();
    // Requests that failed also count as completed.
    assert_eq!(d2c.split_whitespace().last(), Some("400"), "{report}");
    // The merged file is the same trace, and its figures equal those of btt.
    let (merged, _) = read_file(&folder.path().join("run.bin"));
    assert_eq!(counts(&merged), counts(&read));
    assert_eq!(
        d2c.split_whitespace().nth(2).unwrap().parse::<f64>().unwrap(),
        mean_service_time(&merged)
    );
}

/// Returns the mean seconds from issue to completion, rounded as btt prints them.
fn mean_service_time(events: &[TraceEvent]) -> f64 {
    let mut issued = std::collections::BTreeMap::new();
    let (mut sum, mut count) = (0u64, 0u64);
    for event in events {
        match event.kind {
            TraceKind::Issue => drop(issued.insert(event.sector, event.time.unwrap())),
            TraceKind::Complete => {
                sum += event.time.unwrap() - issued[&event.sector];
                count += 1;
            }
            _ => {}
        }
    }
    (sum as f64 / count as f64).round() / 1e9
}

#[test]
fn a_gap_is_a_jump_of_sequence_numbers() {
    let (mut events, converter) = converted(&[
        event(1000, EventKind::BioQueue, 0, 8),
        event(2000, EventKind::BioQueue, 8, 8),
        event(9000, EventKind::BioQueue, 16, 8),
    ]);
    let mut gap = TraceEvent::new(TraceKind::Lost { events: Some(5), until: Some(9000) });
    (gap.time, gap.cpu) = (Some(2000), Some(0));
    events.insert(2, gap);
    let mut writer = BlktraceWriter::new(|_| Ok(Vec::new()), BlktraceForm::default()).unwrap();
    events.iter().for_each(|event| writer.event(event, converter.names()).unwrap());
    let (read, reader) = crate::testing::read_bytes(writer.finish().unwrap().remove(0));
    assert_eq!((read[2].kind, read[2].time), (gap.kind, gap.time));
    assert_eq!(reader.report().lost, 5);
}

/// blkparse and btt take the device of a remap from its payload.
#[test]
fn a_remap_says_from_which_device_to_which() {
    let (from, to) = (DeviceNumber::new(259, 1), DeviceNumber::new(7, 0));
    let remap = TraceEvent {
        device: Some(to),
        ..TraceEvent::new(TraceKind::Remap { from, from_sector: 8 })
    };
    let mut writer = BlktraceWriter::new(|_| Ok(Vec::new()), BlktraceForm::default()).unwrap();
    writer.event(&remap, &Names::default()).unwrap();
    let file = writer.finish().unwrap().remove(0);
    assert_eq!(file[48..], [0x10, 0x30, 0, 1, 0, 0x70, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8]);
}

/// A record has 20 bits for a minor number; volumes of other formats may have more.
#[test]
fn a_device_that_a_record_cannot_hold_is_an_error() {
    let mut writer = BlktraceWriter::new(|_| Ok(Vec::new()), BlktraceForm::default()).unwrap();
    let mut write = |minor| {
        let device = Some(DeviceNumber::new(0, minor));
        writer.event(&TraceEvent { device, ..TraceEvent::new(TraceKind::Queue) }, &Names::default())
    };
    assert!(write((1 << 20) - 1).is_ok());
    assert!(write(1 << 20).unwrap_err().to_string().contains("0:1048576"));
}

/// Version 8 keeps what version 7 has no category for, and the reader finds the same events in it.
#[test]
fn version_8_says_the_same_and_which_writes_are_zeroes() {
    let (mut events, converter) = converted(&run(4, 100, 6));
    let zeroes = events.iter().position(|event| event.kind == TraceKind::Issue).unwrap();
    events[zeroes].op = Some(TraceOp::WriteZeroes);
    let written = |form| {
        let mut writer = BlktraceWriter::new(|_| Ok(Vec::new()), form).unwrap();
        events.iter().filter(|event| event.cpu == Some(0)).for_each(|event| {
            writer.event(event, converter.names()).unwrap();
        });
        writer.finish().unwrap().remove(0)
    };
    let [old, new] = [BlktraceForm::Version7, BlktraceForm::Version8].map(written);
    assert_eq!((old[0], new[0], new.len() > old.len()), (7, 8, true));
    let [(old, _), (mut new, reader)] = [old, new].map(crate::testing::read_bytes);
    assert_eq!(reader.report().skipped, []);
    let differ = old.iter().zip(&new).filter(|(old, new)| old != new).count();
    assert_eq!(differ, usize::from(events[zeroes].cpu == Some(0)));
    for (old, new) in old.iter().zip(&mut new) {
        if new.op == Some(TraceOp::WriteZeroes) {
            assert_eq!(old.op, Some(TraceOp::Write));
            new.op = old.op;
        }
        assert_eq!(old, new);
    }
}

/// In the form for btt the front of a split bio has its Q behind the X, the remainder before its G,
/// also where it is split again.
#[test]
fn every_part_of_a_split_bio_is_queued_for_btt() {
    let split = |time, sector, sectors: u32| {
        event(
            time,
            EventKind::Split { new_sector: elevon_core::units::Sector::new(sector + 8) },
            sector,
            sectors,
        )
    };
    let (events, converter) = converted(&[
        event(1, EventKind::BioQueue, 0, 24),
        split(2, 0, 24),
        event(3, EventKind::GetRequest, 0, 8),
        split(4, 8, 16),
        event(5, EventKind::GetRequest, 8, 8),
        event(6, EventKind::BackMerge, 16, 8),
        event(7, EventKind::BioQueue, 100, 8),
        event(8, EventKind::GetRequest, 100, 8),
    ]);
    let mut writer = BlktraceWriter::new(|_| Ok(Vec::new()), BlktraceForm::Btt).unwrap();
    events.iter().for_each(|event| writer.event(event, converter.names()).unwrap());
    let (read, _) = crate::testing::read_bytes(writer.finish().unwrap().remove(0));
    let shown: Vec<_> = read
        .iter()
        .map(|e| (e.kind.letter().unwrap(), e.sector.unwrap(), e.sectors().unwrap()))
        .collect();
    let expected = [
        ('Q', 0, 24),
        ('X', 0, 8),
        ('Q', 0, 8),
        ('G', 0, 8),
        ('X', 8, 8),
        ('Q', 8, 8),
        ('G', 8, 8),
        ('Q', 16, 8),
        ('M', 16, 8),
        ('Q', 100, 8),
        ('G', 100, 8),
    ];
    assert_eq!(shown, expected);
}
