//! Requests and their ends.

use super::*;

/// Passthrough requests, as kernels print them: the issue has the bytes and no place, the
/// completion has the sectors (none for less than 512 bytes) and mostly no command.
#[test]
fn passthrough_requests_complete() {
    for (issue, completion) in [
        // VIRTIO_BLK_T_GET_ID on Linux 6.18.
        ("N 20 () 0 + 0 none,0,0", "N () 0 + 0 none,0,0"),
        ("N 36 (12 00 00 00 24 00) 0 + 0", "N (12 00 00 00 24 00) 18446744073709551615 + 0"),
        ("N 512 () 0 + 0 none,0,0", "N () 18446744073709551615 + 1 none,0,0"),
        ("N 0 () 0 + 0 none,0,0", "N () 18446744073709551615 + 0 none,0,0"),
        ("N 4096 () 0 + 0 none,0,0", "N () 18446744073709551615 + 8 none,0,0"),
    ] {
        let mut script = Script::default();
        for n in 0..3 {
            script.line(n * 1000, "smartd-1", &format!("rq_insert: 8,0 {issue} [smartd]"));
            script.line(n * 1000 + 2, "smartd-1", &format!("rq_issue: 8,0 {issue} [smartd]"));
            script.line(n * 1000 + 10, "a-2", "bio_queue: 8,0 R 64 + 8 [a]");
            script.line(n * 1000 + 10, "a-2", "rq_issue: 8,0 R 4096 () 64 + 8 be,0,4 [a]");
            script.line(n * 1000 + 60, "<idle>-0", "rq_complete: 8,0 R () 64 + 8 be,0,4 [0]");
            script.line(n * 1000 + 102, "<idle>-0", &format!("rq_complete: 8,0 {completion} [0]"));
        }
        let found = script.inspect("8:0");
        let served = &found.stages[Group::Other as usize].issued_to_completed;
        assert_eq!((served.count, served.min, served.max), (3, 100_000, 100_000), "{issue}");
        assert_eq!((found.depths.busy(), found.depths.max), (300_000, 2), "{issue}");
        assert_eq!(
            (found.requests_under_way, found.counts.unmatched, found.counts.partial),
            (0, 0, 0),
            "{issue}"
        );
        let mut reader = crate::from_bytes(script.0.clone().into_bytes()).expect("a format");
        let events = reader.next_batch().expect("a trace").expect("events");
        let commands = events.iter().filter(|event| event.op == Some(TraceOp::Passthrough));
        assert_eq!(commands.count(), 9, "what converts them knows all of them: {issue}");
        // The kernel does not account for it, and it has no place.
        assert_eq!(
            (found.utilisation.exact.get(), found.issue_seeks.distances.count),
            (150_000, 2),
            "{issue}"
        );
    }
}

/// Writes of zeroes have the letter of passthrough before Linux 6.19, and may complete in parts.
#[test]
fn an_old_write_of_zeroes_completes_in_parts() {
    let mut script = Script::default();
    for (at, event) in [
        (10, "bio_queue: 8,0 N 64 + 16 [a]"),
        (11, "getrq: 8,0 N 64 + 16 [a]"),
        (12, "rq_issue: 8,0 N 8192 () 64 + 16 [a]"),
        (30, "rq_complete: 8,0 N () 64 + 8 [0]"),
        (50, "rq_complete: 8,0 N () 72 + 8 [0]"),
    ] {
        script.line(at, "a-1", event);
    }
    let found = script.inspect("8:0");
    let stages = &found.stages[Group::Write as usize];
    assert_eq!(
        (found.counts.partial, stages.issued_to_completed.max, stages.bio_total.max),
        (1, 38_000, 40_000)
    );
}

/// Accounting alone gives requests and their latency. The sector of its end is that of its start,
/// and the length is always 0 (Linux 6.18).
#[test]
fn accounting_alone_gives_latencies() {
    let mut script = Script::default();
    for (at, event) in [
        (1, "io_done: 7,0 FF 0 () 0 + 0 none,0,0 [ksoftirqd/0]"),
        (10, "io_start: 7,0 W 4096 () 64 + 8 be,0,4 [kworker/u8:0]"),
        (20, "io_start: 7,0 R 8192 () 64 + 16 be,0,4 [fio]"),
        (35, "io_done: 7,0 W 0 () 64 + 0 none,0,0 [ksoftirqd/1]"),
        (60, "io_done: 7,0 R 0 () 64 + 0 none,0,0 [ksoftirqd/1]"),
    ] {
        script.line(at, "fio-9", event);
    }
    let found = script.inspect("7:0");
    assert_eq!((found.counts.completed[READ], found.counts.completed[WRITE]), (1, 1));
    assert_eq!(
        (found.counts.completed_bytes[READ], found.counts.completed_bytes[WRITE]),
        (8192, 4096)
    );
    assert_eq!(
        (found.stages[READ].request_total.max, found.stages[WRITE].request_total.max),
        (40_000, 25_000)
    );
    assert_eq!(found.utilisation.exact.get(), 50_000);
    assert_eq!((found.requests_under_way, found.counts.unmatched), (0, 0));
}

/// A request of which a part failed has failed, once; so has a bio of a device without requests.
#[test]
fn an_error_of_a_part_is_an_error() {
    let mut script = Script::default();
    for (at, event) in [
        (10, "rq_issue: 8,0 R 32768 () 0 + 64 be,0,4 [a]"),
        (20, "rq_complete: 8,0 R () 0 + 32 be,0,4 [0]"),
        (21, "rq_error: 8,0 R () 32 + 8 be,0,4 [-5]"),
        (22, "rq_complete: 8,0 R () 32 + 8 be,0,4 [-5]"),
        (23, "rq_complete: 8,0 R () 40 + 24 be,0,4 [0]"),
        (30, "bio_queue: 253,0 R 0 + 8 [a]"),
        (31, "bio_queue: 253,0 R 8 + 8 [a]"),
        (40, "bio_complete: 253,0 R 0 + 8 [-5]"),
        (41, "bio_complete: 253,0 R 8 + 8 [0]"),
    ] {
        script.line(at, "a-1", event);
    }
    let mut analysis = Analysis::new(DeviceNumber::new(8, 0));
    analysis.keep_requests();
    let mut reader = crate::from_bytes(script.0.clone().into_bytes()).expect("a format");
    while let Some(events) = reader.next_batch().expect("a trace") {
        analysis.add(events);
    }
    let kept = analysis.collect.records.clone().expect("requests");
    assert_eq!((kept.len(), kept[0].error, kept[0].sector, kept[0].bytes), (1, Some(-5), 0, 32768));
    let counts = analysis.finish(&reader).counts;
    assert_eq!((counts.errors, counts.partial), (1, 2));
    let stacked = script.inspect("253:0");
    assert_eq!((stacked.counts.errors, stacked.counts.bios_completed[READ]), (1, 2));
    let moved = |of: fn(&Slot) -> u64| stacked.timeline.slots.iter().map(of).sum::<u64>();
    assert_eq!((moved(|slot| slot.completed[READ]), moved(|slot| slot.bytes[READ])), (2, 8192));
}

/// A merge of a bio counts for the process of the bio, even if the process of the request that it
/// joins is unknown. A merge of a request counts for the process of the request.
#[test]
fn a_merge_is_of_the_process_of_the_bio() {
    let mut script = Script::default();
    for (at, task, event) in [
        (10, "alpha-1", "bio_queue: 8,0 W 0 + 8 [alpha]"),
        (11, "alpha-1", "getrq: 8,0 W 0 + 8 [alpha]"),
        (12, "beta-2", "bio_queue: 8,0 W 8 + 8 [beta]"),
        (13, "beta-2", "bio_backmerge: 8,0 W 8 + 8 [beta]"),
        (14, "beta-2", "bio_queue: 8,0 W 1000 + 8 [beta]"),
        (15, "beta-2", "bio_frontmerge: 8,0 W 1000 + 8 [beta]"),
        (16, "gamma-3", "bio_queue: 8,0 W 16 + 8 [gamma]"),
        (17, "gamma-3", "getrq: 8,0 W 16 + 8 [gamma]"),
        (18, "beta-2", "rq_merge: 8,0 W 4096 () 16 + 8 be,0,4 [beta]"),
    ] {
        script.line(at, task, event);
    }
    let found = script.inspect("8:0");
    let merges = |name: &str| {
        found.processes.iter().find(|row| row.name.as_deref() == Some(name)).map(|row| row.merges)
    };
    assert_eq!((merges("alpha"), merges("beta"), merges("gamma")), (Some(0), Some(2), Some(1)));
}

/// A requeued request is issued twice and lies in one place of the order.
#[test]
fn a_requeued_request_is_sequential_once() {
    let mut script = Script::default();
    for n in 0..10 {
        let (at, place) = (n * 100, format!("{} + 8", n * 8));
        script.line(at, "a-1", &format!("rq_issue: 8,0 R 4096 () {place} [a]"));
        script.line(at + 1, "a-1", &format!("rq_requeue: 8,0 R () {place} [0]"));
        script.line(at + 50, "k-2", &format!("rq_issue: 8,0 R 4096 () {place} [k]"));
        script.line(at + 60, "k-2", &format!("rq_complete: 8,0 R () {place} [0]"));
    }
    let found = script.inspect("8:0");
    assert_eq!(
        (
            found.issue_seeks.distances.count,
            found.issue_seeks.sequential,
            found.counts.issued[READ]
        ),
        (9, 9, 10)
    );
}

/// The completion of a zone append names the sector that was written; its bio and request name the
/// start of the zone.
#[test]
fn a_zone_append_completes_elsewhere() {
    let mut script = Script::default();
    for (at, event) in [
        (10, "bio_queue: 259,0 ZA 0 + 8 [a]"),
        (11, "rq_issue: 259,0 ZA 4096 () 0 + 8 none,0,0 [a]"),
        (12, "bio_queue: 259,0 ZA 524288 + 8 [a]"),
        (13, "rq_issue: 259,0 ZA 4096 () 524288 + 8 none,0,0 [a]"),
        (20, "bio_queue: 259,0 ZA 524288 + 8 [a]"),
        (21, "rq_issue: 259,0 ZA 4096 () 524288 + 8 none,0,0 [a]"),
        (63, "rq_complete: 259,0 ZA () 524352 + 8 none,0,0 [0]"),
        (81, "rq_complete: 259,0 ZA () 524360 + 8 none,0,0 [0]"),
        (111, "rq_complete: 259,0 ZA () 64 + 8 none,0,0 [0]"),
    ] {
        script.line(at, "a-1", event);
    }
    let found = script.inspect("259:0");
    assert_eq!((found.counts.unmatched, found.requests_under_way, found.bios_under_way), (0, 0, 0));
    let served = &found.stages[WRITE].issued_to_completed;
    assert_eq!((served.count, served.sum, served.max), (3, 210_000, 100_000));
}
