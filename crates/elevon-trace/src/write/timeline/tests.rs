use elevon_core::event::{Event, EventKind};
use elevon_core::units::Tag;

use super::*;
use crate::run::testing::{converted, event, run};
use crate::testing::read_bytes;

/// Records spans as (track, first sector, sectors, start, end, reason), and the last value of each
/// counter.
#[derive(Default)]
struct Notes {
    spans: Vec<(Track, u64, u64, u64, u64, End)>,
    counters: BTreeMap<Counter, u64>,
}

impl Sink for Notes {
    fn device(&mut self, _number: u32, _device: DeviceNumber) -> io::Result<()> {
        Ok(())
    }
    fn span(
        &mut self,
        _device: u32,
        track: Track,
        span: &Span,
        until: u64,
        end: End,
    ) -> io::Result<()> {
        self.spans.push((track, span.sector, span.sectors, span.start, until, end));
        Ok(())
    }
    fn counter(&mut self, _device: u32, counter: Counter, _at: u64, value: u64) -> io::Result<()> {
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
    let requests = &timeline.devices[0];
    assert!(
        requests.tagged.is_empty()
            && requests.untagged.spans.is_empty()
            && requests.waiting.spans.is_empty()
    );
    assert!(
        requests.waiting.lanes <= 8
            && requests.waiting.free.len() == requests.waiting.lanes as usize
    );
    assert!(notes.counters.values().all(|&value| value == 0));
    assert_eq!(notes.spans.len(), 2 * 2000);
}

/// Returns the spans of a trace as (track, first sector, sectors, start, end), with the number of
/// the device before each.
fn spans_of(text: &str) -> Vec<(u32, Track, u64, u64, u64, u64)> {
    #[derive(Default)]
    struct All(Vec<(u32, Track, u64, u64, u64, u64)>);
    impl Sink for All {
        fn device(&mut self, _number: u32, _device: DeviceNumber) -> io::Result<()> {
            Ok(())
        }
        fn span(
            &mut self,
            device: u32,
            track: Track,
            span: &Span,
            until: u64,
            _end: End,
        ) -> io::Result<()> {
            self.0.push((device, track, span.sector, span.sectors, span.start, until));
            Ok(())
        }
        fn counter(
            &mut self,
            _device: u32,
            _counter: Counter,
            _at: u64,
            _value: u64,
        ) -> io::Result<()> {
            Ok(())
        }
    }
    let (mut timeline, mut all) = (Timeline::default(), All::default());
    read_bytes(text).0.iter().for_each(|event| timeline.event(event, &mut all).unwrap());
    timeline.finish(&mut all).unwrap();
    all.0
}

#[test]
fn requests_of_a_kernel_have_no_tags_and_lanes_of_their_own() {
    let text = "\
        a-1 [000] ..... 1.000000: block_rq_issue: 8,0 R 8192 () 0 + 16 none,0,0 [a]
        a-1 [000] ..... 1.000100: block_rq_issue: 8,0 R 4096 () 64 + 8 none,0,0 [a]
        a-1 [000] ..... 1.000200: block_rq_complete: 8,0 R () 0 + 8 none,0,0 [0]
        a-1 [000] ..... 1.000300: block_rq_complete: 8,0 R () 64 + 8 none,0,0 [0]
        a-1 [000] ..... 1.000400: block_rq_complete: 8,0 R () 8 + 8 none,0,0 [0]
";
    let at = |us: u64| 1_000_000_000 + us * 1000;
    assert_eq!(
        spans_of(text),
        [
            (0, Track::Untagged(1), 64, 8, at(100), at(300)),
            (0, Track::Untagged(0), 8, 8, at(0), at(400))
        ]
    );
}

#[test]
fn requests_of_two_devices_are_told_apart() {
    let text = "\
        a-1 [000] ..... 1.000000: block_getrq: 8,0 R 0 + 8 [a]
        a-1 [000] ..... 1.000100: block_getrq: 8,16 R 0 + 8 [a]
        a-1 [000] ..... 1.000200: block_rq_issue: 8,16 R 4096 () 0 + 8 none,0,0 [a]
        a-1 [000] ..... 1.000900: block_rq_issue: 8,0 R 4096 () 0 + 8 none,0,0 [a]
";
    let at = |us: u64| 1_000_000_000 + us * 1000;
    let waits: Vec<_> =
        spans_of(text).into_iter().filter(|span| matches!(span.1, Track::Wait(_))).collect();
    assert_eq!(
        waits,
        [(1, Track::Wait(0), 0, 8, at(100), at(200)), (0, Track::Wait(0), 0, 8, at(0), at(900))]
    );
}

#[test]
fn whole_ios_last_for_their_response_times() {
    // MSR Cambridge: time, host, disk, type, offset and size in bytes, response; times in units of
    // 100 ns.
    let text = "\
128166372003061629,usr,0,Read,7014609920,24576,41286
128166372003061729,usr,0,Write,0,4096,100
128166372003161629,usr,0,Write,4096,4096,100
";
    let spans: Vec<(Track, u64, u64)> =
        spans_of(text).iter().map(|span| (span.1, span.3, span.5 - span.4)).collect();
    assert_eq!(
        spans,
        [(Track::Io(0), 48, 4_128_600), (Track::Io(1), 8, 10_000), (Track::Io(0), 8, 10_000)]
    );
}

#[test]
fn requests_that_never_end_take_no_more_memory() {
    let mut lanes = Lanes::default();
    let events = converted(&[event(1, EventKind::GetRequest, 8, 8)]).0;
    (0..MAX_SPANS_IN_PROGRESS + 10).for_each(|_| lanes.add(span_of(&events[0])));
    assert_eq!(lanes.spans.len(), MAX_SPANS_IN_PROGRESS);
}
