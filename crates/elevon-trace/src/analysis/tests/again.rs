//! Tests second issues at the same sectors: of the same request, or of another one.

use super::*;

const READ: usize = Group::Read as usize;
const WRITE: usize = Group::Write as usize;

/// A phone whose driver gives requests back, recorded without events of requeues.
#[test]
fn requests_of_a_phone_are_issued_again() {
    let mut reader = crate::open(&data("inspect/android-reissue.txt")).expect("a trace");
    let mut analysis = Analysis::new(DeviceNumber::new(8, 0));
    analysis.keep_requests();
    while let Some(events) = reader.next_batch().expect("a trace") {
        analysis.add(events);
    }
    let kept = analysis.collect.records.clone().expect("requests");
    let read = kept.iter().find(|request| request.sector == 95_258_008).expect("the read");
    assert_eq!(
        read.completed.zip(read.issued).map(|(end, start)| (end - start) / 1000),
        Some(2655)
    );
    let found = analysis.finish(&reader);
    let counts = &found.counts;
    assert_eq!((counts.issued.iter().sum::<u64>(), counts.given_back, counts.requeues), (33, 4, 9));
    assert_eq!((counts.unmatched, counts.overdue, found.requests_under_way), (0, 0, 0));
    let read = &found.stages[READ];
    assert_eq!(
        (read.issued_to_completed.max, read.first_issued_to_completed.max),
        (2_655_000, 2_655_000)
    );
    let finding =
        found.findings.iter().find(|finding| finding.kind == FindingKind::RequestsGivenBack);
    assert!(
        finding.is_some_and(|finding| finding.evidence[0].contains("4 of 33 requests")),
        "{:?}",
        found.findings
    );
}

/// With events of requeues the device has a request from its last issue on; the time from its first
/// issue is known as well.
#[test]
fn a_requeued_request_has_two_times() {
    for (has_requeue, served) in [(true, 40_000), (false, 90_000)] {
        let mut script = Script::default();
        script.line(10, "a-1", "rq_issue: 8,0 W 4096 () 8 + 8 [a]");
        if has_requeue {
            script.line(20, "a-1", "rq_requeue: 8,0 W () 8 + 8 [0]");
        }
        script.line(60, "k-2", "rq_issue: 8,0 W 4096 () 8 + 8 [k]");
        script.line(100, "i-0", "rq_complete: 8,0 W () 8 + 8 [0]");
        let found = script.inspect("8:0");
        let stages = &found.stages[WRITE];
        assert_eq!(
            (stages.issued_to_completed.max, stages.first_issued_to_completed.max),
            (served, 90_000)
        );
        assert_eq!(
            (found.counts.requeues, found.counts.given_back, found.counts.issued[WRITE]),
            (1, 1, 1)
        );
        assert_eq!(found.counts.completed[WRITE], 1);
    }
}

/// Which events a trace has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Has {
    Issues,
    Inserts,
    All,
}

/// A process that writes `ios` times, 100 us each and 300 us apart, of which the write at sector 8
/// is the `lost`-th and the last one; the completion of the former is missing.
fn lost_at(has: Has, ios: u64, lost: u64) -> Script {
    let mut script = Script::default();
    for n in 0..ios {
        let at = n * 300;
        let place = format!("{} + 8", if n == lost || n + 1 == ios { 8 } else { 1000 + n * 8 });
        if has == Has::All {
            script.line(at, "fio-1", &format!("bio_queue: 8,0 WS {place} [fio]"));
            script.line(at, "fio-1", &format!("getrq: 8,0 WS {place} [fio]"));
        }
        if has != Has::Issues {
            script.line(at, "fio-1", &format!("rq_insert: 8,0 WS 4096 () {place} [fio]"));
        }
        script.line(at, "fio-1", &format!("rq_issue: 8,0 WS 4096 () {place} [fio]"));
        if n != lost {
            script.line(at + 100, "i-0", &format!("rq_complete: 8,0 WS () {place} [0]"));
        }
    }
    script
}

/// A request whose completion was lost ends with the next issue at its sectors, whether that comes
/// soon or late, and whatever else the trace has.
#[test]
fn a_lost_completion_ends_with_the_next_issue_of_its_sectors() {
    for has in [Has::Issues, Has::Inserts, Has::All] {
        for (ios, lost) in [(1002, 0), (12, 0), (12, 5), (12, 10), (400, 100)] {
            let found = lost_at(has, ios, lost).inspect("8:0");
            let (counts, served) = (&found.counts, &found.stages[WRITE].issued_to_completed);
            let what = format!("{has:?} {ios} {lost}");
            assert_eq!(
                (served.count, served.min, served.max),
                (ios - 1, 100_000, 100_000),
                "{what}"
            );
            assert_eq!((counts.overdue, counts.requeues, counts.unmatched), (1, 0, 0), "{what}");
            assert_eq!((found.requests_under_way, counts.issued[WRITE]), (0, ios), "{what}");
            if has == Has::All {
                let bios = &found.stages[WRITE].bio_total;
                assert_eq!((bios.count, bios.max), (ios - 1, 100_000), "{what}");
            }
        }
    }
}

/// If some request once took as long, the older of two cannot be said to be lost. The completion is
/// of the newer one all the same, which took what requests usually take.
#[test]
fn a_lost_completion_beside_a_slow_request() {
    let mut script = Script::default();
    script.line(0, "b-2", "rq_issue: 8,0 WS 4096 () 90000 + 8 [b]");
    script.line(900_000, "i-0", "rq_complete: 8,0 WS () 90000 + 8 [0]");
    for line in lost_at(Has::All, 400, 100).0.lines() {
        let (task, rest) = line.split_once(" [000] ..... 0.").expect("a line");
        let _ = std::fmt::Write::write_fmt(
            &mut script.0,
            format_args!("{task} [000] ..... 1.{rest}\n"),
        );
    }
    let found = script.inspect("8:0");
    let served = &found.stages[WRITE].issued_to_completed;
    assert_eq!(
        (served.count, served.max, served.percentile(990_000)),
        (400, 900_000_000, Some(100_000))
    );
    assert_eq!((found.requests_under_way, found.counts.unmatched), (1, 0));
}

/// Two processes read the same sectors at the same time, and both reads complete.
#[test]
fn two_requests_at_the_same_sectors_at_a_time() {
    let mut script = Script::default();
    for n in 0..200u64 {
        let at = n * 1000;
        for (task, after) in [("a", 0), ("b", 40)] {
            script.line(
                at + after,
                &format!("{task}-1"),
                &format!("bio_queue: 8,0 R 8 + 8 [{task}]"),
            );
            script.line(at + after, &format!("{task}-1"), &format!("getrq: 8,0 R 8 + 8 [{task}]"));
            script.line(
                at + after,
                &format!("{task}-1"),
                &format!("rq_issue: 8,0 R 4096 () 8 + 8 [{task}]"),
            );
        }
        for after in [100, 150] {
            script.line(at + after, "i-0", "rq_complete: 8,0 R () 8 + 8 [0]");
        }
    }
    let found = script.inspect("8:0");
    let (counts, served) = (&found.counts, &found.stages[READ].issued_to_completed);
    assert_eq!((served.count, served.min, served.max), (400, 100_000, 110_000));
    assert_eq!(
        (counts.overdue, counts.requeues, counts.unmatched, found.requests_under_way),
        (0, 0, 0, 0)
    );
}

/// A request of another length at the same sector is another one.
#[test]
fn another_length_is_another_request() {
    let mut script = Script::default();
    for (at, event) in [
        (0, "rq_issue: 8,0 R 4096 () 8 + 8 [a]"),
        (10, "rq_issue: 8,0 R 8192 () 8 + 16 [a]"),
        (90, "rq_complete: 8,0 R () 8 + 16 [0]"),
        (100, "rq_complete: 8,0 R () 8 + 8 [0]"),
    ] {
        script.line(at, "a-1", event);
    }
    let found = script.inspect("8:0");
    let served = &found.stages[READ].issued_to_completed;
    assert_eq!(
        (served.count, served.min, served.max, found.counts.requeues),
        (2, 80_000, 100_000, 0)
    );
}

/// In a trace of bios alone, a completion is of the newer of two bios if the older would have taken
/// much longer than others.
#[test]
fn a_lost_completion_of_a_bio() {
    let mut script = Script::default();
    for n in 0..50u64 {
        let sector = if n == 3 || n == 40 { 8 } else { 1000 + n * 8 };
        script.line(n * 300, "a-1", &format!("bio_queue: 253,0 W {sector} + 8 [a]"));
        if n != 3 {
            script.line(n * 300 + 100, "a-1", &format!("bio_complete: 253,0 W {sector} + 8 [0]"));
        }
    }
    let found = script.inspect("253:0");
    let total = &found.stages[WRITE].bio_total;
    assert_eq!((total.count, total.max, found.bios_under_way), (49, 100_000, 1));
}

/// Percentiles of a single value are that value, wherever they are shown.
#[test]
fn the_median_of_one_value_is_that_value() {
    for (us, sectors) in [(1, 9), (777, 1_234_567), (123_457, 3), (29_999_999, 77_777_777)] {
        let mut script = Script::default();
        for (at, event) in [
            (0, "bio_queue: 8,0 R 0 + 8 [a]".to_owned()),
            (0, "getrq: 8,0 R 0 + 8 [a]".to_owned()),
            (0, "rq_issue: 8,0 R 4096 () 0 + 8 [a]".to_owned()),
            (us, "rq_complete: 8,0 R () 0 + 8 [0]".to_owned()),
            (us + 1, format!("bio_queue: 8,0 R {} + 8 [a]", 8 + sectors)),
        ] {
            script.line(at, "a-1", &event);
        }
        let found = script.inspect("8:0");
        let stages = &found.stages[READ];
        let row = &found.depths.rows[1];
        for stat in
            [&stages.issued_to_completed, &stages.bio_total, &stages.request_total, &row.latency]
        {
            for millionths in [1, 500_000, 990_000, 1_000_000] {
                assert_eq!(stat.percentile(millionths), Some(us * 1000), "{us}");
            }
        }
        assert_eq!(found.queue_seeks.distances.percentile(500_000), Some(sectors));
        assert_eq!(found.processes[0].latency[READ].percentile(500_000), Some(us * 1000));
    }
}
