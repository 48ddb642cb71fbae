//! Tests complete sequences of events of bios and requests, in small traces written as text, and in
//! real ones.

mod again;
mod errors;
mod findings;
mod gaps;
mod lives;
mod partitions;
mod real;
mod selections;
mod steady;

use super::*;
use crate::testing::data;

/// Analyses a device of a trace in text form.
pub(super) fn inspect_text(text: &str, device: &str) -> Inspection {
    inspect_reader(crate::from_bytes(text.as_bytes().to_vec()).expect("a known format"), device)
}

/// Analyses a device of a trace.
pub(super) fn inspect_reader(mut reader: Reader, device: &str) -> Inspection {
    let mut analysis = Analysis::new(device.parse().expect("a device"));
    while let Some(events) = reader.next_batch().expect("a readable trace") {
        analysis.add(events);
    }
    analysis.finish(&reader)
}

/// Writes ftrace text line by line; `at` is in microseconds.
#[derive(Default)]
pub(super) struct Script(pub(super) String);

impl Script {
    pub(super) fn line(&mut self, at: u64, task: &str, event: &str) {
        use std::fmt::Write as _;
        let _ = writeln!(
            self.0,
            "{task} [000] ..... {}.{:06}: block_{event}",
            at / 1_000_000,
            at % 1_000_000
        );
    }

    pub(super) fn inspect(&self, device: &str) -> Inspection {
        inspect_text(&self.0, device)
    }
}
