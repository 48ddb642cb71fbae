use std::collections::BTreeMap;

use elevon_core::event::EventKind;

use super::*;
use crate::run::testing::{converted, run};

/// A field of a message, read by an independent parser of the wire format.
#[derive(Debug)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn decode(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (&byte, rest) = bytes.split_first().expect("a varint that ends");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut bytes)),
            2 => {
                let len = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(len);
                bytes = rest;
                Value::Bytes(value)
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

fn number(fields: &[(u64, Value<'_>)], field: u64) -> Option<u64> {
    fields.iter().find_map(|(n, v)| match v {
        Value::Number(value) if *n == field => Some(*value),
        _ => None,
    })
}
fn bytes<'a>(fields: &[(u64, Value<'a>)], field: u64) -> Option<&'a [u8]> {
    fields.iter().find_map(|(n, v)| match v {
        Value::Bytes(value) if *n == field => Some(*value),
        _ => None,
    })
}

#[test]
fn slices_nest_counters_count_and_tracks_are_described() {
    let events = run(8, 300, 5);
    let mut writer = TimelineWriter::new(Vec::new(), Some(DeviceNumber::new(259, 3))).unwrap();
    let (made, converter) = converted(&events);
    made.iter().for_each(|event| writer.event(event, converter.names()).unwrap());
    let file = writer.finish().unwrap();

    let mut tracks: BTreeMap<u64, String> = BTreeMap::new();
    let mut slices: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    let mut counts: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for (field, packet) in decode(&file) {
        let Value::Bytes(packet) = packet else { panic!("a packet is a message") };
        assert_eq!(field, 1);
        let packet = decode(packet);
        assert_eq!(number(&packet, 10), Some(1), "every packet names its sequence");
        if let Some(descriptor) = bytes(&packet, 60) {
            let descriptor = decode(descriptor);
            let name = String::from_utf8(bytes(&descriptor, 2).unwrap().to_vec()).unwrap();
            if let Some(parent) = number(&descriptor, 5) {
                assert!(tracks.contains_key(&parent), "{name} before its parent");
            }
            assert_eq!(tracks.insert(number(&descriptor, 1).unwrap(), name), None);
            continue;
        }
        let (time, event) = (number(&packet, 8).unwrap(), decode(bytes(&packet, 11).unwrap()));
        let track = number(&event, 11).unwrap();
        assert!(tracks.contains_key(&track));
        match number(&event, 9).unwrap() {
            4 => counts.entry(track).or_default().push((time, number(&event, 30).unwrap())),
            kind @ (1 | 2) => slices.entry(track).or_default().push((time, kind)),
            other => panic!("event type {other}"),
        }
    }
    // Starts and ends alternate on every track, in order of time, so nothing overlaps.
    for (track, marks) in &slices {
        for (at, pair) in marks.chunks(2).enumerate() {
            assert_eq!((pair[0].1, pair[1].1), (1, 2), "{}", tracks[track]);
            assert!(pair[0].0 <= pair[1].0);
            assert!(at == 0 || marks[at * 2 - 1].0 <= pair[0].0, "{} overlaps", tracks[track]);
        }
    }
    let of = |prefix: &str| -> usize {
        slices
            .iter()
            .filter(|(track, _)| tracks[*track].starts_with(prefix))
            .map(|(_, marks)| marks.len() / 2)
            .sum()
    };
    assert_eq!((of("hctx0 tag "), of("waiting ")), (300, 300));
    assert_eq!(tracks.values().filter(|name| name.starts_with("hctx0 tag ")).count(), 5);
    // Compares the counter of requests in flight with the events.
    let in_flight = counts.iter().find(|(track, _)| tracks[*track] == "in flight").unwrap().1;
    let mut depth = 0;
    let expected: Vec<(u64, u64)> = events
        .iter()
        .filter_map(|event| {
            match event.kind {
                EventKind::Issue => depth += 1,
                EventKind::Complete { .. } => depth -= 1,
                _ => return None,
            }
            Some((event.time.get(), depth))
        })
        .collect();
    assert_eq!(*in_flight, expected);
}

#[test]
fn annotations_say_what_the_request_was() {
    let events = run(1, 1, 1);
    let mut writer = TimelineWriter::new(Vec::new(), Some(DeviceNumber::new(259, 3))).unwrap();
    let (made, converter) = converted(&events);
    made.iter().for_each(|event| writer.event(event, converter.names()).unwrap());
    let file = writer.finish().unwrap();
    let mut seen = Vec::new();
    for (_, packet) in decode(&file) {
        let Value::Bytes(packet) = packet else { continue };
        let Some(event) = bytes(&decode(packet), 11) else { continue };
        for (field, annotation) in decode(event) {
            let (4, Value::Bytes(annotation)) = (field, annotation) else { continue };
            let annotation = decode(annotation);
            let name = String::from_utf8(bytes(&annotation, 10).unwrap().to_vec()).unwrap();
            let text = bytes(&annotation, 6).map(|b| String::from_utf8(b.to_vec()).unwrap());
            seen.push((name, text.unwrap_or_else(|| number(&annotation, 3).unwrap().to_string())));
        }
    }
    let issued = events.iter().find(|e| e.kind == EventKind::Issue).unwrap();
    let value = |name: &str| -> Vec<&str> {
        seen.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str()).collect()
    };
    assert_eq!(value("sector"), ["0", "0"]);
    assert_eq!(value("sectors"), [issued.sectors.to_string(), issued.sectors.to_string()]);
    assert_eq!(value("end"), ["issued", "ok"]);
    assert_eq!(value("ioprio"), ["be,4", "be,4"]);
}
