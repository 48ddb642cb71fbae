use super::*;
use crate::analysis::inspect;
use crate::replay::WorkloadReadError;
use crate::testing::{assert_ordered, data, read_bytes, read_file};
use crate::{Position, TraceFormat};

#[test]
fn a_csv_with_places_can_be_replayed() {
    let path = data("formats/cache.csv");
    let (events, reader) = read_file(&path);
    assert_eq!(
        (reader.format(), reader.report().skipped_count(), events.len()),
        (TraceFormat::CacheSim, 0, 12)
    );
    assert_ordered(&events);
    let first = events[0];
    assert_eq!(
        (first.time, first.sector, first.bytes),
        (Some(33_898 * SECOND), Some(42_932_745), Some(4096))
    );
    assert_eq!((first.op, events[1].op), (Some(TraceOp::Read), Some(TraceOp::Write)));
    assert_eq!(reader.report().notes, [SECONDS_NOTE]);
    let workload =
        crate::replay::read(&mut || crate::open(&path), None, &mut |_| {}).expect("a workload");
    assert_eq!(workload.processes.iter().map(|process| process.ios.len()).sum::<usize>(), 12);
}

#[test]
fn columns_are_found_by_their_titles() {
    for text in [
        "time,obj_id,obj_size,next_access_vtime\n1,hash77,4096,-1\n",
        "# time;key;size;op\n1;77;4096;get\n",
        "clock_time\tobject-id\tobject_size\n1.5\t77\t4096\n",
    ] {
        let (events, reader) = read_bytes(text);
        assert_eq!((reader.format(), events.len()), (TraceFormat::CacheSim, 1), "{text}");
        assert_eq!((events[0].sector, events[0].bytes), (None, Some(4096)));
        assert!(reader.report().notes.contains(&OBJECTS_NOTE));
    }
    let (events, reader) = read_bytes("time,lbn,size\n1,8,x\n2,8,512\n3,8\n");
    assert_eq!((events.len(), reader.report().skipped_count()), (1, 2));
    assert_eq!(reader.report().problems[1].0.at, Position::Line(4));
    for text in
        ["asu,lba,size,op,time\n0,1,2,R,3\n", "time,size\n1,2\n", "a time and a key, and a size\n"]
    {
        let other = crate::from_bytes(text.into()).map(|reader| reader.format());
        assert!(
            other.is_err() || other.is_ok_and(|format| format != TraceFormat::CacheSim),
            "{text}"
        );
    }
}

#[test]
fn oracle_general_has_seconds_and_sizes_and_no_more() {
    let path = data("formats/cache.oracleGeneral");
    let (events, reader) = read_file(&path);
    assert_eq!(
        (reader.format(), reader.report().skipped_count(), events.len()),
        (TraceFormat::OracleGeneral, 0, 8)
    );
    assert_eq!((events[2].time, events[2].bytes), (Some(8 * SECOND), Some(12288)));
    assert!(events.iter().all(|event| event.sector.is_none() && event.op.is_none()));
    assert_eq!(reader.report().notes, [OBJECTS_NOTE, NO_OP_NOTE, SECONDS_NOTE]);
    let found =
        inspect(&mut || crate::open(&path), None, None, &mut |_| {}).expect("an inspection");
    assert_eq!(found.counts.bios.iter().sum::<u64>(), 8);
    let refused = crate::replay::read(&mut || crate::open(&path), None, &mut |_| {});
    assert!(matches!(refused, Err(WorkloadReadError::Empty(_))));
}

#[test]
fn damage_of_oracle_general_is_skipped() {
    let mut bytes = std::fs::read(data("formats/cache.oracleGeneral")).unwrap();
    bytes.truncate(bytes.len() - 5);
    let (events, reader) = read_bytes(bytes.clone());
    assert_eq!((events.len(), reader.report().skipped_count()), (7, 1));
    assert_eq!(reader.report().skipped[0].first.at, Position::Byte(7 * 24));
    // A size of 0.
    bytes[24 * 5 + 12..24 * 5 + 16].fill(0);
    let (events, reader) = read_bytes(bytes.clone());
    assert_eq!((events.len(), reader.report().problems[0].0.at), (6, Position::Byte(5 * 24)));
    // At the start it is not taken for the format.
    bytes[12..16].fill(0);
    assert!(crate::from_bytes(bytes).is_err());
}

#[test]
fn other_bytes_are_no_oracle_general() {
    let text =
        b"time and again the same words go on and on until the end of this text comes. ".repeat(3);
    assert!(!is_oracle(&text));
    assert!(!is_oracle(&[0; 240]));
    assert!(!is_oracle(&[0xff; 240]));
    let mut records = std::fs::read(data("formats/cache.oracleGeneral")).unwrap();
    assert!(is_oracle(&records));
    assert!(!is_oracle(&records[..3 * 24]));
    // Time goes back.
    records[24 * 3..24 * 3 + 4].fill(0);
    assert!(!is_oracle(&records));
}
