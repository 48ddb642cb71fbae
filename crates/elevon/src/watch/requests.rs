//! Single requests of the last minutes.

use std::ops::Range;

use elevon_result::number;
use elevon_trace::analysis::{Analysis, ProcessStats, RequestRecord, RequestSink};
use elevon_trace::{DeviceNumber, TraceEvent, TraceRwbs, Traced};
use elevon_watch::text::span;

/// Requests that are shown.
const SHOWN: usize = 200;
/// Events that are given to the analysis at once.
const BATCH: usize = 4096;

/// Requests that are looked for, and those that were found.
struct Longest {
    process: Option<u32>,
    span: Range<u64>,
    found: Vec<(RequestRecord, String)>,
}

impl RequestSink for Longest {
    fn requests(&mut self, requests: &[RequestRecord], processes: &[ProcessStats]) {
        for record in requests {
            let row = processes.get(record.process as usize);
            let is_ours = match self.process {
                Some(process) => row.and_then(|row| row.id) == Some(process),
                None => true,
            };
            let is_now = record.completed.is_some_and(|time| self.span.contains(&time));
            if is_ours && is_now {
                let name = row.map_or_else(|| "unknown".to_owned(), ProcessStats::label);
                self.found.push((*record, name));
            }
        }
    }

    fn restart(&mut self) {
        self.found.clear();
    }
}

/// Returns the nanoseconds from the queueing of a request, or from its issue, to its completion.
fn took(record: &RequestRecord) -> u64 {
    let from = record.queued.or(record.allocated).or(record.issued);
    from.zip(record.completed).map_or(0, |(from, to)| to.saturating_sub(from))
}

/// Returns the longest requests of a process, or of all, that completed in a time: a line each.
pub(super) fn longest<'a>(
    events: impl Iterator<Item = &'a TraceEvent>,
    trace: &dyn Traced,
    device: DeviceNumber,
    process: Option<u32>,
    span: Range<u64>,
) -> Vec<String> {
    let mut analysis = Analysis::new(device);
    analysis.keep_requests();
    let mut sink = Longest { process, span, found: Vec::new() };
    let is_ours = |event: &&TraceEvent| event.device.is_none_or(|of| of == device);
    let mut batch: Vec<TraceEvent> = Vec::with_capacity(BATCH);
    let last = sink.span.end;
    let events = events.take_while(|event| event.time.is_none_or(|time| time < last));
    for event in events.filter(is_ours) {
        batch.push(*event);
        if batch.len() == BATCH {
            analysis.add(&batch);
            batch.clear();
            analysis.hand_out(trace, &mut sink);
        }
    }
    analysis.add(&batch);
    analysis.hand_out(trace, &mut sink);
    lines(sink)
}

fn lines(mut sink: Longest) -> Vec<String> {
    if sink.found.is_empty() {
        return vec!["no request completed in this time".to_owned()];
    }
    let all = number::counted(sink.found.len() as u64, "request");
    sink.found.sort_by_key(|(record, _)| std::cmp::Reverse(took(record)));
    sink.found.truncate(SHOWN);
    let mut lines = vec![
        format!("{all}, the longest first; at: seconds until its end"),
        format!(
            "{:>8} {:>4} {:>12} {:>9} {:>8} {:>8}  process",
            "at", "op", "sector", "bytes", "waits", "device"
        ),
    ];
    for (record, name) in &sink.found {
        let between = |from: Option<u64>, to: Option<u64>| Some(to?.saturating_sub(from?));
        let at = record.completed.unwrap_or(0).saturating_sub(sink.span.start) as f64 / 1e9;
        let op = TraceRwbs(record.op, Some(record.flags)).to_string();
        let queued = record.queued.or(record.allocated);
        lines.push(format!(
            "{at:>8.4} {op:>4} {:>12} {:>9} {:>8} {:>8}  {name}",
            record.sector,
            number::bytes_decimal(record.bytes as f64),
            span(between(queued, record.issued)),
            span(between(record.issued, record.completed)),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use elevon_trace::from_bytes;

    use super::*;

    #[test]
    fn the_longest_requests_of_a_process_are_listed() {
        let mut text = String::new();
        for (at, took, pid) in [(1.0, 0.5, 11), (2.0, 0.1, 12), (3.0, 0.2, 11)] {
            let sector = (at * 8.0) as u64;
            let line =
                |time: f64, event: &str| format!("db-{pid} [000] ..... {time:.6}: {event}\n");
            text += &line(at, &format!("block_bio_queue: 8,0 R {sector} + 8 [db]"));
            text += &line(at + 0.001, &format!("block_rq_issue: 8,0 R 4096 () {sector} + 8 [db]"));
            text += &line(at + took, &format!("block_rq_complete: 8,0 R () {sector} + 8 [0]"));
        }
        let mut reader = from_bytes(text.into_bytes()).expect("a trace");
        let events = reader.read_all().expect("memory");
        let all =
            |process, span| longest(events.iter(), &reader, DeviceNumber::new(8, 0), process, span);
        let lines = all(None, 0..10_000_000_000);
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert!(lines[2].contains("499ms"), "{lines:?}");
        assert_eq!(all(None, 2_000_000_000..2_500_000_000).len(), 3);
        assert_eq!(all(Some(99), 0..10_000_000_000), ["no request completed in this time"]);
    }
}
