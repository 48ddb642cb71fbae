use elevon_core::event::{Event, EventKind};
use elevon_core::units::Tag;

use super::*;
use crate::run::testing::{converted, event, run};

/// Records spans as (track, first sector, sectors, start, end, reason), and the last value of each
/// counter.
#[derive(Default)]
struct Notes {
    spans: Vec<(Track, u64, u64, u64, u64, End)>,
    counters: BTreeMap<Counter, u64>,
}

impl Sink for Notes {
    fn span(&mut self, track: Track, span: &Span, until: u64, end: End) -> io::Result<()> {
        self.spans.push((track, span.sector, span.sectors, span.start, until, end));
        Ok(())
    }
    fn counter(&mut self, counter: Counter, _at: u64, value: u64) -> io::Result<()> {
        self.counters.insert(counter, value);
        Ok(())
    }
}

fn tagged(time: u64, kind: EventKind, sector: u64, sectors: u32, tag: u32) -> Event {
    Event { tag: Some(Tag(tag)), ..event(time, kind, sector, sectors) }
}

fn check(events: &[Event], expected: &[(Track, u64, u64, u64, u64, End)]) {
    let (mut timeline, mut notes) = (Timeline::default(), Notes::default());
    converted(events).0.iter().for_each(|event| timeline.event(event, &mut notes).unwrap());
    timeline.finish(&mut notes).unwrap();
    assert_eq!(notes.spans, expected);
}

const OK: EventKind = EventKind::Complete { status: Status::Ok };

#[test]
fn a_part_that_completes_does_not_end_the_request() {
    check(
        &[
            event(1, EventKind::GetRequest, 0, 24),
            tagged(2, EventKind::Issue, 0, 24, 3),
            tagged(5, OK, 0, 12, 3),
            tagged(9, EventKind::Complete { status: Status::Medium }, 12, 12, 3),
        ],
        &[
            (Track::Wait(0), 0, 24, 1, 2, End::Issued),
            (Track::Service(0, 3), 12, 12, 2, 9, End::Completed(Status::Medium)),
        ],
    );
}

#[test]
fn a_requeued_request_waits_again() {
    check(
        &[
            event(1, EventKind::GetRequest, 8, 8),
            // The request was refused before it was ever issued, so it keeps waiting.
            event(2, EventKind::Requeue, 8, 8),
            tagged(3, EventKind::Issue, 8, 8, 0),
            tagged(4, EventKind::Requeue, 8, 8, 0),
            tagged(6, EventKind::Issue, 8, 8, 1),
            tagged(9, OK, 8, 8, 1),
        ],
        &[
            (Track::Wait(0), 8, 8, 1, 3, End::Issued),
            (Track::Service(0, 0), 8, 8, 3, 4, End::Requeued),
            (Track::Wait(0), 8, 8, 4, 6, End::Issued),
            (Track::Service(0, 1), 8, 8, 6, 9, End::Completed(Status::Ok)),
        ],
    );
}

#[test]
fn merges_keep_the_place_of_a_waiting_request() {
    check(
        &[
            event(1, EventKind::GetRequest, 16, 8),
            event(2, EventKind::BackMerge, 24, 8),
            event(3, EventKind::FrontMerge, 8, 8),
            event(4, EventKind::GetRequest, 32, 8),
            event(5, EventKind::RequestMerge, 32, 8),
            tagged(6, EventKind::Issue, 8, 32, 0),
        ],
        &[
            (Track::Wait(1), 32, 8, 4, 5, End::Merged),
            (Track::Wait(0), 8, 24, 1, 6, End::Issued),
            (Track::Service(0, 0), 8, 32, 6, 6, End::Cut),
        ],
    );
}

#[test]
fn a_request_that_never_saw_the_driver_waits_to_its_end() {
    check(
        &[event(1, EventKind::GetRequest, 0, 0), event(7, OK, 0, 0), event(8, OK, 0, 0)],
        &[(Track::Wait(0), 0, 0, 1, 7, End::Completed(Status::Ok))],
    );
}

#[test]
fn nothing_is_kept_of_requests_that_are_over() {
    let (mut timeline, mut notes) = (Timeline::default(), Notes::default());
    let events = run(6, 2000, 7);
    converted(&events).0.iter().for_each(|event| timeline.event(event, &mut notes).unwrap());
    assert!(timeline.service.is_empty() && timeline.waiting.is_empty());
    assert!(timeline.lanes <= 8 && timeline.free_lanes.len() == timeline.lanes as usize);
    assert!(notes.counters.values().all(|&value| value == 0));
    assert_eq!(notes.spans.len(), 2 * 2000);
}
