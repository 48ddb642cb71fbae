//! Helpers for the tests of several readers.

use std::path::PathBuf;

use crate::event::TraceEvent;
use crate::reader::Reader;

/// Returns the path of a file in `tests/data`.
pub(crate) fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name)
}

/// Reads all events of some bytes.
pub(crate) fn read_bytes(bytes: impl Into<Vec<u8>>) -> (Vec<TraceEvent>, Reader) {
    let mut reader = crate::from_bytes(bytes.into()).expect("a known format");
    let events = reader.read_all().expect("bytes in memory");
    (events, reader)
}

/// Reads all events of a file.
pub(crate) fn read_file(path: &std::path::Path) -> (Vec<TraceEvent>, Reader) {
    let mut reader = crate::open(path).unwrap_or_else(|error| panic!("{error}"));
    let events = reader.read_all().expect("a readable file");
    (events, reader)
}

/// Returns the number of events of each kind that occurs, by name.
pub(crate) fn counts(events: &[TraceEvent]) -> Vec<(&'static str, usize)> {
    let kinds = crate::TraceKind::NAMES.iter();
    kinds
        .map(|&name| (name, events.iter().filter(|event| event.kind.name() == name).count()))
        .filter(|&(_, count)| count > 0)
        .collect()
}

/// Checks that events are in order of time.
pub(crate) fn assert_ordered(events: &[TraceEvent]) {
    for pair in events.windows(2) {
        assert!(pair[0].time <= pair[1].time, "{pair:?}");
    }
}
