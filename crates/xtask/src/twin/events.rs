//! The order of block events of a case in both.

use std::fmt;

use elevon_core::event::{Event, EventKind};
use elevon_core::op::Op;
use elevon_plan::execute::Watch;
use elevon_workload::run::Observer;

/// The events that are compared: names of the kernel's tracepoints.
pub const TRACEPOINTS: [&str; 7] = [
    "block_bio_queue",
    "block_bio_backmerge",
    "block_bio_frontmerge",
    "block_rq_merge",
    "block_rq_insert",
    "block_rq_issue",
    "block_rq_complete",
];
/// Events before and after the first difference that are shown.
const SHOWN: usize = 12;

/// An event of a bio or a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockEvent {
    /// Nanoseconds since the first event.
    time: u64,
    /// Index in [`TRACEPOINTS`].
    kind: usize,
    /// First letter of the operation.
    op: char,
    sector: u64,
    sectors: u64,
}

impl BlockEvent {
    /// Returns whether it is the same event, at whatever time.
    fn is_same(&self, other: &Self) -> bool {
        let of = |event: &Self| (event.kind, event.op, event.sector, event.sectors);
        of(self) == of(other)
    }
}

impl fmt::Display for BlockEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = TRACEPOINTS[self.kind].trim_start_matches("block_");
        let Self { op, sector, sectors, time, .. } = self;
        write!(f, "{:>12.3} {name:<14} {op} {sector:>8} + {sectors}", *time as f64 / 1e3)
    }
}

/// Reads the text of tracefs.
pub fn of_tracefs(text: &str) -> Vec<BlockEvent> {
    let parse = |line: &str| -> Option<BlockEvent> {
        let (head, rest) = line.split_once(": block_")?;
        let (name, fields) = rest.split_once(": ")?;
        let kind =
            TRACEPOINTS.iter().position(|known| known.strip_prefix("block_") == Some(name))?;
        let (seconds, micros) = head.split_whitespace().last()?.split_once('.')?;
        let micros: u64 = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
        let words: Vec<&str> = fields.split_whitespace().collect();
        let plus = words.iter().position(|&word| word == "+")?;
        Some(BlockEvent {
            time: micros * 1000,
            kind,
            op: words.get(1)?.chars().next()?,
            sector: words[plus.checked_sub(1)?].parse().ok()?,
            sectors: words.get(plus + 1)?.parse().ok()?,
        })
    };
    from_first(text.lines().filter_map(parse).collect())
}

/// Sets the time of the first event to zero.
fn from_first(mut events: Vec<BlockEvent>) -> Vec<BlockEvent> {
    let first = events.first().map_or(0, |event| event.time);
    events.iter_mut().for_each(|event| event.time -= first);
    events
}

/// Keeps the events of a run of Elevon.
#[derive(Debug, Default)]
pub struct Keeper {
    events: Vec<BlockEvent>,
}

impl Keeper {
    /// Returns the events of the run.
    pub fn into_events(self) -> Vec<BlockEvent> {
        from_first(self.events)
    }
}

impl Observer for Keeper {
    fn on_events(&mut self, events: &[Event]) {
        let convert = |event: &Event| {
            let name = match event.kind {
                EventKind::BioQueue => "block_bio_queue",
                EventKind::BackMerge => "block_bio_backmerge",
                EventKind::FrontMerge => "block_bio_frontmerge",
                EventKind::RequestMerge => "block_rq_merge",
                EventKind::Insert => "block_rq_insert",
                EventKind::Issue => "block_rq_issue",
                EventKind::Complete { .. } => "block_rq_complete",
                _ => return None,
            };
            let kind = TRACEPOINTS.iter().position(|&known| known == name)?;
            let op = match event.op {
                Op::Read => 'R',
                Op::Discard => 'D',
                Op::Flush => 'F',
                _ => 'W',
            };
            let (sector, sectors) = (event.sector.get(), u64::from(event.sectors));
            Some(BlockEvent { time: event.time.get(), kind, op, sector, sectors })
        };
        self.events.extend(events.iter().filter_map(convert));
    }
}

impl Watch for Keeper {
    fn wants_events(&self) -> bool {
        true
    }
}

/// The first event that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct FirstDifference {
    /// Its index.
    pub at: usize,
    /// The kinds of both events, in words.
    pub what: String,
    /// The events around it, side by side.
    pub around: String,
}

/// Returns the first event that differs, if one does in the first `compared` nanoseconds of
/// Elevon's.
pub fn first_difference(
    kernel: &[BlockEvent],
    elevon: &[BlockEvent],
    compared: u64,
) -> Option<FirstDifference> {
    let end = elevon.partition_point(|event| event.time < compared);
    let at = (0..end).find(|&at| match (kernel.get(at), elevon.get(at)) {
        (Some(a), Some(b)) => !a.is_same(b),
        _ => true,
    })?;
    let what = |events: &[BlockEvent]| match events.get(at) {
        Some(event) => TRACEPOINTS[event.kind].trim_start_matches("block_"),
        None => "the end",
    };
    let what = match (what(kernel), what(elevon)) {
        (theirs, ours) if theirs == ours => format!("another `{theirs}`"),
        (theirs, ours) => format!("`{theirs}` in Linux, `{ours}` in Elevon"),
    };
    Some(FirstDifference { at, what, around: around(kernel, elevon, at) })
}

/// Returns both around the first event that differs, side by side.
fn around(kernel: &[BlockEvent], elevon: &[BlockEvent], at: usize) -> String {
    let of = |events: &[BlockEvent], at: usize| {
        events.get(at).map_or_else(String::new, BlockEvent::to_string)
    };
    let lines = (at.saturating_sub(SHOWN)..at + SHOWN).map(|index| {
        let mark = if index == at { '>' } else { ' ' };
        format!("{mark} {:<55} | {}\n", of(kernel, index), of(elevon, index))
    });
    lines.collect()
}
