mod requests;

use super::*;

const READ: usize = Group::Read as usize;
const WRITE: usize = Group::Write as usize;

/// A bio of 2056 sectors is split twice; each stage of each request is timed, and the bio ends with
/// its last request.
#[test]
fn a_split_bio_ends_with_its_last_request() {
    let mut script = Script::default();
    let dd = "dd-7";
    script.line(100, dd, "bio_queue: 8,0 R 0 + 2056 [dd]");
    script.line(101, dd, "split: 8,0 R 0 / 1024 [dd]");
    script.line(102, dd, "getrq: 8,0 R 0 + 1024 [dd]");
    script.line(103, dd, "split: 8,0 R 1024 / 2048 [dd]");
    script.line(104, dd, "getrq: 8,0 R 1024 + 1024 [dd]");
    script.line(105, dd, "getrq: 8,0 R 2048 + 8 [dd]");
    for (sector, sectors, at) in [(0, 1024, 110), (1024, 1024, 120), (2048, 8, 130)] {
        script.line(at, dd, &format!("rq_insert: 8,0 R 4096 () {sector} + {sectors} be,0,4 [dd]"));
        script.line(
            at + 1,
            dd,
            &format!("rq_issue: 8,0 R 4096 () {sector} + {sectors} be,0,4 [dd]"),
        );
    }
    script.line(300, "<idle>-0", "rq_complete: 8,0 R () 2048 + 8 be,0,4 [0]");
    script.line(400, "<idle>-0", "rq_complete: 8,0 R () 0 + 1024 be,0,4 [0]");
    script.line(500, "<idle>-0", "rq_complete: 8,0 R () 1024 + 1024 be,0,4 [0]");
    let found = script.inspect("8:0");
    let stages = &found.stages[READ];
    assert_eq!(
        (found.counts.splits, found.counts.bios[READ], found.counts.completed[READ]),
        (2, 1, 3)
    );
    assert_eq!((stages.queue_to_allocated.min, stages.queue_to_allocated.max), (2_000, 5_000));
    assert_eq!(
        (stages.allocated_to_inserted.min, stages.allocated_to_inserted.max),
        (8_000, 25_000)
    );
    assert_eq!((stages.inserted_to_issued.count, stages.inserted_to_issued.max), (3, 1_000));
    assert_eq!(
        (stages.issued_to_completed.min, stages.issued_to_completed.max),
        (169_000, 379_000)
    );
    assert_eq!((stages.bio_total.count, stages.bio_total.max), (1, 400_000));
    assert_eq!((found.bios_under_way, found.requests_under_way), (0, 0));
    let dd = &found.processes[0];
    assert_eq!(
        (dd.label().as_str(), dd.splits, dd.requests[READ], dd.bytes[READ]),
        ("dd (7)", 2, 3, 2056 * 512)
    );
    assert_eq!((found.depths.max, found.depths.busy()), (3, 389_000));
}

/// Bios are appended and put in front. All end with the request, whose latency starts with the bio
/// that was queued first.
#[test]
fn merged_bios_end_together() {
    let mut script = Script::default();
    for (at, event) in [
        (10, "bio_queue: 8,0 WS 100 + 8 [a]"),
        (11, "getrq: 8,0 WS 100 + 8 [a]"),
        (20, "bio_queue: 8,0 WS 108 + 8 [a]"),
        (21, "bio_backmerge: 8,0 WS 108 + 8 [a]"),
        (30, "bio_queue: 8,0 WS 92 + 8 [a]"),
        (31, "bio_frontmerge: 8,0 WS 92 + 8 [a]"),
        (40, "rq_issue: 8,0 WS 12288 () 92 + 24 [a]"),
        (90, "rq_complete: 8,0 WS () 92 + 24 [0]"),
    ] {
        script.line(at, "a-1", event);
    }
    let found = script.inspect("8:0");
    let (counts, stages) = (&found.counts, &found.stages[WRITE]);
    assert_eq!((counts.back_merges, counts.front_merges, counts.completed[WRITE]), (1, 1, 1));
    assert_eq!(
        (stages.bio_total.count, stages.bio_total.min, stages.bio_total.max),
        (3, 60_000, 80_000)
    );
    assert_eq!((stages.request_total.max, stages.allocated_to_issued.max), (80_000, 29_000));
    assert_eq!(found.processes[0].merges, 2);
    assert_eq!((found.bios_under_way, found.requests_under_way), (0, 0));
}

/// Two processes write one sector at a time: an insert or issue is of the request that was not
/// issued, and a completion of the one with its length.
#[test]
fn requests_at_one_sector_are_told_apart() {
    for has_getrq in [true, false] {
        let mut script = Script::default();
        for (at, task, event) in [
            (10, "a-1", "bio_queue: 8,0 WS 100 + 8 [a]"),
            (11, "a-1", "getrq: 8,0 WS 100 + 8 [a]"),
            (12, "a-1", "rq_insert: 8,0 WS 4096 () 100 + 8 [a]"),
            (13, "a-1", "rq_issue: 8,0 WS 4096 () 100 + 8 [a]"),
            (20, "b-2", "bio_queue: 8,0 WS 100 + 16 [b]"),
            (21, "b-2", "getrq: 8,0 WS 100 + 16 [b]"),
            (22, "b-2", "rq_insert: 8,0 WS 8192 () 100 + 16 [b]"),
            (23, "b-2", "rq_issue: 8,0 WS 8192 () 100 + 16 [b]"),
            (30, "a-1", "bio_queue: 8,0 WS 100 + 8 [a]"),
            (31, "a-1", "getrq: 8,0 WS 100 + 8 [a]"),
            (43, "<idle>-0", "rq_complete: 8,0 WS () 100 + 16 [0]"),
            (53, "<idle>-0", "rq_complete: 8,0 WS () 100 + 8 [0]"),
            (60, "a-1", "rq_insert: 8,0 WS 4096 () 100 + 8 [a]"),
            (63, "a-1", "rq_issue: 8,0 WS 4096 () 100 + 8 [a]"),
            (93, "<idle>-0", "rq_complete: 8,0 WS () 100 + 8 [0]"),
        ] {
            if has_getrq || !event.starts_with("getrq") {
                script.line(at, task, event);
            }
        }
        let found = script.inspect("8:0");
        let served = &found.stages[WRITE].issued_to_completed;
        assert_eq!(
            (served.count, served.min, served.max),
            (3, 20_000, 40_000),
            "getrq: {has_getrq}"
        );
        let waited = &found.stages[WRITE].inserted_to_issued;
        assert_eq!((waited.min, waited.max), (1_000, 3_000), "getrq: {has_getrq}");
        assert_eq!((found.counts.partial, found.requests_under_way), (0, 0), "getrq: {has_getrq}");
    }
}

/// A request that is merged into another gives its bios to it, and ends without a completion.
#[test]
fn a_merged_request_gives_its_bios_away() {
    let mut script = Script::default();
    for (at, event) in [
        (10, "bio_queue: 8,0 W 100 + 8 [a]"),
        (11, "getrq: 8,0 W 100 + 8 [a]"),
        (12, "bio_queue: 8,0 W 108 + 8 [a]"),
        (13, "getrq: 8,0 W 108 + 8 [a]"),
        (14, "rq_merge: 8,0 W 4096 () 108 + 8 [a]"),
        (20, "rq_issue: 8,0 W 8192 () 100 + 16 [a]"),
        (50, "rq_complete: 8,0 W () 100 + 16 [0]"),
    ] {
        script.line(at, "a-1", event);
    }
    let found = script.inspect("8:0");
    assert_eq!((found.counts.request_merges, found.counts.completed[WRITE]), (1, 1));
    assert_eq!(found.stages[WRITE].bio_total.count, 2);
    assert_eq!((found.bios_under_way, found.requests_under_way, found.depths.max), (0, 0, 1));
    assert_eq!(found.utilisation.exact.get(), 39_000);
}

/// A requeued request is timed from its last issue; one that completes in parts ends once.
#[test]
fn requeues_and_parts() {
    let mut script = Script::default();
    for (at, event) in [
        (10, "bio_queue: 8,0 R 0 + 16 [a]"),
        (11, "getrq: 8,0 R 0 + 16 [a]"),
        (12, "rq_issue: 8,0 R 8192 () 0 + 16 [a]"),
        (13, "rq_requeue: 8,0 R () 0 + 16 [0]"),
        (40, "rq_issue: 8,0 R 8192 () 0 + 16 [a]"),
        (60, "rq_complete: 8,0 R () 0 + 8 [0]"),
        (80, "rq_complete: 8,0 R () 8 + 8 [-5]"),
    ] {
        script.line(at, "a-1", event);
    }
    let found = script.inspect("8:0");
    let counts = &found.counts;
    assert_eq!((counts.requeues, counts.partial, counts.errors, counts.issued[READ]), (1, 1, 1, 1));
    assert_eq!((counts.completed[READ], counts.completed_bytes[READ]), (1, 8192));
    let stages = &found.stages[READ];
    assert_eq!((stages.issued_to_completed.max, stages.bio_total.max), (40_000, 70_000));
    assert_eq!(found.depths.busy(), 41_000);
}

/// The steps of flush sequences in Linux 6.18: a flush without data, and a FUA write on a device
/// without FUA, whose bio ends with the flush after it.
#[test]
fn flush_sequences_end_with_an_empty_completion() {
    let mut script = Script::default();
    for (at, event) in [
        (10, "bio_queue: 8,0 FWS 0 + 0 [a]"),
        (11, "getrq: 8,0 FWS 0 + 0 [a]"),
        (12, "rq_issue: 8,0 FF 0 () 0 + 0 none,0,0 [kworker/0:1H]"),
        (42, "rq_complete: 8,0 FF () 18446744073709551615 + 0 none,0,0 [0]"),
        (43, "rq_complete: 8,0 WS () 0 + 0 be,0,4 [0]"),
        (50, "bio_queue: 8,0 WFS 0 + 8 [a]"),
        (51, "getrq: 8,0 WFS 0 + 8 [a]"),
        (52, "rq_issue: 8,0 WS 4096 () 0 + 8 be,0,4 [a]"),
        (62, "rq_complete: 8,0 WS () 0 + 8 be,0,4 [0]"),
        (63, "rq_issue: 8,0 FF 0 () 0 + 0 none,0,0 [kworker/0:1H]"),
        (93, "rq_complete: 8,0 FF () 18446744073709551615 + 0 none,0,0 [0]"),
        (94, "rq_complete: 8,0 WS () 0 + 0 be,0,4 [0]"),
        (100, "bio_queue: 8,0 WFS 64 + 8 [a]"),
        (101, "getrq: 8,0 WFS 64 + 8 [a]"),
        (102, "rq_issue: 8,0 WFS 4096 () 64 + 8 be,0,4 [a]"),
        (105, "rq_complete: 8,0 WFS () 64 + 8 be,0,4 [0]"),
    ] {
        script.line(at, "a-1", event);
    }
    let found = script.inspect("8:0");
    let (flush, write) = (&found.stages[Group::Flush as usize], &found.stages[WRITE]);
    assert_eq!(found.counts.completed, [0, 2, 0, 2, 0]);
    assert_eq!((flush.issued_to_completed.count, flush.issued_to_completed.max), (2, 30_000));
    assert_eq!((flush.bio_total.count, flush.bio_total.max), (1, 33_000));
    assert_eq!((flush.queue_to_allocated.count, write.queue_to_allocated.count), (1, 2));
    assert_eq!(
        (write.issued_to_completed.max, write.bio_total.min, write.bio_total.max),
        (10_000, 5_000, 44_000)
    );
    assert_eq!((found.bios_under_way, found.requests_under_way, found.counts.unmatched), (0, 0, 0));
    assert_eq!((found.mix.fua[WRITE], found.mix.preflush[Group::Flush as usize]), (2, 1));
    // Busy until each sequence ends: from 11 to 43, 51 to 94 and 101 to 105.
    assert_eq!(found.utilisation.exact.get(), 32_000 + 43_000 + 4_000);
}

/// The first of four flushes lacks the end of its sequence: it does not end with the next one, and
/// neither do those after it.
#[test]
fn a_lost_end_of_a_flush_does_not_shift_the_next_ones() {
    let mut script = Script::default();
    for at in [0, 1000, 2000, 3000] {
        script.line(at + 10, "a-1", "bio_queue: 8,0 FWS 0 + 0 [a]");
        script.line(at + 11, "a-1", "getrq: 8,0 FWS 0 + 0 [a]");
        script.line(at + 15, "k-2", "rq_issue: 8,0 FF 0 () 0 + 0 none,0,0 [k]");
        script.line(at + 45, "k-2", "rq_complete: 8,0 FF () 18446744073709551615 + 0 none,0,0 [0]");
        if at > 0 {
            script.line(at + 46, "k-2", "rq_complete: 8,0 WS () 0 + 0 be,0,4 [0]");
        }
    }
    let found = script.inspect("8:0");
    let flush = &found.stages[Group::Flush as usize];
    assert_eq!(
        (flush.bio_total.count, flush.bio_total.min, flush.bio_total.max),
        (3, 36_000, 36_000)
    );
    assert_eq!((found.counts.overdue, found.bios_under_way, found.requests_under_way), (1, 0, 0));
    // Busy as before from each allocation to the end of the sequence; the first until its loss is
    // certain.
    assert_eq!(found.utilisation.exact.get(), (1_045 - 11 + 1 + 2 * 35) * 1_000);
}

/// A bio of a device without requests is split; its completion names the last part.
#[test]
fn a_split_bio_of_a_stacked_device_completes_at_its_end() {
    let mut script = Script::default();
    for (at, event) in [
        (10, "bio_queue: 253,0 R 0 + 384 [a]"),
        (11, "split: 253,0 R 128 / 128 [a]"),
        (12, "split: 253,0 R 256 / 256 [a]"),
        (20, "bio_queue: 253,0 R 256 + 8 [a]"),
        (30, "bio_complete: 253,0 R 256 + 128 [0]"),
        (40, "bio_complete: 253,0 R 256 + 8 [0]"),
        (50, "bio_queue: 253,0 R 200 + 184 [a]"),
        (51, "split: 253,0 R 256 / 256 [a]"),
        (60, "bio_complete: 253,0 R 256 + 128 [0]"),
    ] {
        script.line(at, "a-1", event);
    }
    let found = script.inspect("253:0");
    let total = &found.stages[READ].bio_total;
    assert_eq!((total.count, total.min, total.max, total.sum), (3, 10_000, 20_000, 50_000));
    assert_eq!((found.counts.splits, found.processes[0].splits, found.bios_under_way), (3, 3, 0));
    assert_eq!(found.timeline.slots.iter().map(|slot| slot.bytes[READ]).sum::<u64>(), 576 * 512);
}

/// Without getrq and insert events, a request takes the bios of its range when it is issued.
#[test]
fn bios_are_found_without_events_of_allocation() {
    let mut script = Script::default();
    for (at, event) in [
        (10, "bio_queue: 8,0 R 0 + 8 [a]"),
        (11, "bio_queue: 8,0 R 8 + 8 [a]"),
        (20, "rq_issue: 8,0 R 8192 () 0 + 16 [a]"),
        (50, "rq_complete: 8,0 R () 0 + 16 [0]"),
    ] {
        script.line(at, "a-1", event);
    }
    let stages = &script.inspect("8:0").stages[READ];
    assert_eq!(
        (stages.bio_total.count, stages.bio_total.max, stages.request_total.max),
        (2, 40_000, 40_000)
    );
    assert_eq!((stages.queue_to_allocated.count, stages.allocated_to_issued.count), (0, 0));
}

/// No latency is computed across a gap, and requests in progress at the gap do not count as in the
/// device forever.
#[test]
fn nothing_is_computed_across_a_gap() {
    let mut script = Script::default();
    script.line(10, "a-1", "bio_queue: 8,0 R 0 + 8 [a]");
    script.line(11, "a-1", "getrq: 8,0 R 0 + 8 [a]");
    script.line(12, "a-1", "rq_issue: 8,0 R 4096 () 0 + 8 [a]");
    script.line(13, "a-1", "rq_issue: 8,0 R 4096 () 64 + 8 [a]");
    script.0.push_str("CPU:0 [LOST 12 EVENTS]\n");
    script.line(1_000, "a-1", "rq_complete: 8,0 R () 0 + 8 [0]");
    script.line(1_001, "a-1", "rq_issue: 8,0 R 4096 () 128 + 8 [a]");
    script.line(1_005, "a-1", "rq_complete: 8,0 R () 128 + 8 [0]");
    let found = script.inspect("8:0");
    assert_eq!((found.report.gap_count, found.report.lost), (1, 12));
    let stage = &found.stages[READ].issued_to_completed;
    assert_eq!((stage.count, stage.max), (1, 4_000));
    assert_eq!((found.counts.unmatched, found.counts.forgotten), (1, 2));
    // The time in the gap is not counted.
    assert_eq!((found.depths.max, found.utilisation.exact.get() < 1_000_000), (2, true));
    assert_eq!(found.requests_under_way, 0);
}

/// Only I/O that follows a remap from the partition is of the partition.
#[test]
fn a_partition_is_told_from_the_rest_of_its_disk() {
    let mut script = Script::default();
    for (at, start, partition) in [(10, 2048, "8,1"), (100, 1_000_000, "8,2")] {
        for n in 0..3u64 {
            let (at, sector) = (at + 10 * n, start + 8 * n);
            let own = 8 * n;
            script.line(
                at,
                "a-1",
                &format!("bio_remap: 8,0 R {sector} + 8 <- ({partition}) {own}"),
            );
            script.line(at + 1, "a-1", &format!("bio_queue: 8,0 R {sector} + 8 [a]"));
            script.line(at + 2, "a-1", &format!("rq_issue: 8,0 R 4096 () {sector} + 8 [a]"));
            script.line(at + 4, "a-1", &format!("rq_complete: 8,0 R () {sector} + 8 [0]"));
        }
    }
    // A flush is the disk's, with a completion that has no place (as in ftrace of Linux 6.18).
    script.line(200, "a-1", "bio_queue: 8,0 FWS 0 + 0 [a]");
    script.line(201, "a-1", "rq_issue: 8,0 FF 0 () 0 + 0 [a]");
    script.line(202, "a-1", "rq_complete: 8,0 FF () 18446744073709551615 + 0 [0]");
    // In blktrace's records no event of a flush has a place.
    script.line(203, "a-1", "bio_queue: 8,0 FWS 18446744073709551615 + 0 [a]");
    let whole = script.inspect("8:0");
    assert_eq!((whole.counts.bios[READ], whole.disk), (6, None));
    assert_eq!(whole.events[TraceKind::Complete.index()], 7);
    for partition in ["8:1", "8:2"] {
        let found = script.inspect(partition);
        assert_eq!(
            (found.counts.bios[READ], found.disk),
            (3, Some(DeviceNumber::new(8, 0))),
            "{partition}"
        );
        assert_eq!(found.events[TraceKind::Complete.index()], 3, "{partition}");
        assert_eq!(found.stages[READ].bio_total.max, 3_000, "{partition}");
        assert_eq!(found.counts.bios[Group::Flush as usize], 0, "{partition}");
    }
}

/// I/O of a partition that is in flight at the first I/O of the chosen one stays its own.
#[test]
fn a_partition_is_told_from_one_that_began_before_it() {
    let mut script = Script::default();
    for (at, event) in [
        (10, "bio_remap: 8,0 W 1000000 + 8 <- (8,2) 0"),
        (11, "bio_queue: 8,0 W 1000000 + 8 [a]"),
        (20, "bio_remap: 8,0 R 2048 + 8 <- (8,1) 0"),
        (21, "bio_queue: 8,0 R 2048 + 8 [a]"),
        (22, "rq_issue: 8,0 W 4096 () 1000000 + 8 [a]"),
        (23, "rq_issue: 8,0 R 4096 () 2048 + 8 [a]"),
    ] {
        script.line(at, "a-1", event);
    }
    let found = script.inspect("8:1");
    assert_eq!((found.counts.issued[READ], found.counts.issued[WRITE]), (1, 0));
}

/// A stacked device has events of its own and bios that are remapped to another device; each is
/// followed separately.
#[test]
fn a_stacked_device_is_no_partition() {
    let mut script = Script::default();
    for (at, event) in [
        (10, "bio_queue: 253,0 R 64 + 8 [a]"),
        (11, "bio_remap: 8,0 R 2112 + 8 <- (253,0) 64"),
        (12, "bio_queue: 8,0 R 2112 + 8 [a]"),
        (13, "rq_issue: 8,0 R 4096 () 2112 + 8 [a]"),
        (40, "rq_complete: 8,0 R () 2112 + 8 [0]"),
        (42, "bio_complete: 253,0 R 64 + 8 [0]"),
    ] {
        script.line(at, "a-1", event);
    }
    let (upper, lower) = (script.inspect("253:0"), script.inspect("8:0"));
    assert_eq!((upper.stages[READ].bio_total.max, upper.disk), (32_000, None));
    assert_eq!(lower.stages[READ].bio_total.max, 28_000);
    assert_eq!((upper.events.iter().sum::<u64>(), lower.events.iter().sum::<u64>()), (2, 4));
}

/// Lines without times, as quoted in mails, give counts, splits and tails, and no latency.
#[test]
fn an_order_without_times_gives_counts_only() {
    let text = "block_bio_queue: 8,32 R 86925864 + 2144 [Thread-51]\n\
                block_split: 8,32 R 86925864 / 86926888 [Thread-51]\n\
                block_split: 8,32 R 86926888 / 86927912 [Thread-51]\n\
                block_rq_issue: 8,32 R 524288 () 86925864 + 1024 [Thread-51]\n\
                block_rq_issue: 8,32 R 524288 () 86926888 + 1024 [Thread-51]\n\
                block_rq_issue: 8,32 R 49152 () 86927912 + 96 [Thread-51]\n";
    let found = inspect_text(text, "8:32");
    assert_eq!((found.counts.splits, found.counts.issued[READ], found.untimed), (2, 3, 6));
    assert_eq!((found.span, found.duration(), found.depths.time()), (None, 0, 0));
    assert!(
        found
            .stages
            .iter()
            .all(|stage| stage.issued_to_completed.count + stage.bio_total.count == 0)
    );
}

/// A trace of arrivals only, ten times longer than the number of I/Os that are followed: memory
/// does not grow.
#[test]
fn what_never_completes_does_not_pile_up() {
    let mut analysis = Analysis::new(DeviceNumber::new(8, 0));
    let mut event = TraceEvent::new(TraceKind::Queue);
    event.device = Some(DeviceNumber::new(8, 0));
    event.op = Some(TraceOp::Read);
    event.bytes = Some(4096);
    for n in 0..10 * life::MAX_IN_PROGRESS as u64 {
        event.time = Some(n * 1000);
        event.sector = Some(n * 64);
        analysis.add(&[event]);
        if n % 1000 == 0 {
            let (bios, requests) = analysis.life.under_way();
            assert!(bios <= life::MAX_IN_PROGRESS && requests == 0);
        }
    }
    assert!(analysis.collect.timeline.slots.len() <= TIMELINE_SLOTS);
}

/// Random events, including some that no kernel writes: nothing is followed forever, and nothing
/// panics.
#[test]
fn events_that_no_kernel_makes_do_no_harm() {
    let mut random = elevon_testkit::Rng(12);
    let mut analysis = Analysis::new(DeviceNumber::new(8, 0));
    let ops = [
        Some(TraceOp::Read),
        Some(TraceOp::Write),
        Some(TraceOp::Flush),
        Some(TraceOp::Discard),
        None,
    ];
    let mut now = 0;
    for _ in 0..200_000 {
        let place = random.below(24) * 8;
        let kind = match random.below(16) {
            0..4 => TraceKind::Queue,
            4 => TraceKind::Split { new_sector: place + 8 * random.below(4) },
            5 | 6 => TraceKind::GetRequest,
            7 => TraceKind::BackMerge,
            8 => TraceKind::FrontMerge,
            9 => TraceKind::RequestMerge,
            10 => TraceKind::Insert,
            11 => TraceKind::Issue,
            12 => TraceKind::Requeue,
            13 | 14 => TraceKind::Complete,
            _ if random.one_in(50) => TraceKind::Lost { events: None, until: Some(now + 5) },
            _ => TraceKind::BioComplete,
        };
        let mut event = TraceEvent::new(kind);
        now += random.below(3);
        event.time = (!random.one_in(1000)).then_some(now);
        event.device = (!matches!(kind, TraceKind::Lost { .. })).then_some(DeviceNumber::new(8, 0));
        event.sector = if random.one_in(500) { Some(u64::MAX - 3) } else { Some(place) };
        event.bytes = Some(4096 * random.below(5));
        event.op = random.pick(&ops);
        event.flags = Some(random.pick(&[
            Flags::NONE,
            Flags::PREFLUSH,
            Flags::FUA,
            Flags::FUA | Flags::PREFLUSH,
        ]));
        event.tid = Some(random.below(3) as u32);
        event.ioprio = IoPrio::from_bits((random.below(4) as u16) << 13);
        analysis.add(&[event]);
    }
    let reader = crate::from_bytes(b"# tracer: nop\n".to_vec()).expect("a format");
    let found = analysis.finish(&reader);
    let counts = &found.counts;
    assert!(counts.completed[READ] > 100 && counts.bios_completed[READ] > 100, "{counts:?}");
    assert!(
        found.depths.busy() <= found.duration()
            && found.utilisation.exact.get() <= found.duration()
    );
}

/// With one record per I/O, as in CSV traces, depth and utilisation follow from the response times.
#[test]
fn whole_ios_are_timed_by_their_response() {
    let mut analysis = Analysis::new(DeviceNumber::new(0, 1));
    for (at, response, sector) in
        [(0, Some(100), 0u64), (50, Some(150), 8), (300, None, 16), (400, Some(10), 24)]
    {
        let mut event = TraceEvent::new(TraceKind::Io { response_ns: response });
        event.time = Some(at);
        event.device = Some(DeviceNumber::new(0, 1));
        event.op = Some(TraceOp::Read);
        event.sector = Some(sector);
        event.bytes = Some(4096);
        analysis.add(&[event]);
    }
    let reader = crate::from_bytes(b"# tracer: nop\n".to_vec()).expect("a format");
    let found = analysis.finish(&reader);
    let stage = &found.stages[READ].bio_total;
    assert_eq!((found.counts.bios[READ], stage.count, stage.max), (4, 3, 150));
    assert_eq!(
        (found.depths.max, found.depths.busy(), found.utilisation.exact.get()),
        (2, 210, 210)
    );
    assert_eq!((found.queue_seeks.distances.count, found.queue_seeks.sequential), (3, 3));
}

#[test]
fn the_device_with_nearly_all_events_is_chosen() {
    let line = |at: u64, device: &str| {
        format!("a-1 [000] 0.{at:06}: block_bio_queue: {device} R {} + 8 [a]\n", at * 8)
    };
    let text = |other: u64| {
        (0..100).map(|at| line(at, if at < other { "8,16" } else { "7,7" })).collect::<String>()
    };
    let run = |text: String, device: Option<&str>| {
        let device = device.map(|device| device.parse().expect("a device"));
        let mut open = || crate::from_bytes(text.clone().into_bytes());
        inspect(&mut open, device, None, &mut |_| {})
    };
    let found = run(text(5), None).expect("one device");
    assert_eq!((found.device, found.events[0]), (DeviceNumber::new(7, 7), 95));
    let error = run(text(6), None).expect_err("two devices").to_string();
    assert!(
        error.contains("--dev") && error.contains("7:7 (94 events), 8:16 (6 events)"),
        "{error}"
    );
    assert_eq!(run(text(6), Some("8:16")).expect("a device").events[0], 6);
    let error = run(text(6), Some("9:0")).expect_err("no such device").to_string();
    assert!(
        error.contains("no event of device 9:0") && error.contains("7:7 (94 events)"),
        "{error}"
    );
}

/// One completion is lost without notice: its request does not count as in the device for the rest
/// of the trace. If it completes in the end, it is timed.
#[test]
fn a_lost_completion_does_not_deepen_the_queue() {
    for completes in [false, true] {
        let mut script = Script::default();
        script.line(5, "a-1", "rq_issue: 8,0 W 4096 () 9000 + 8 [a]");
        for n in 0..2000u64 {
            script.line(10 + n * 100, "a-1", &format!("rq_issue: 8,0 R 4096 () {} + 8 [a]", n * 8));
            script.line(60 + n * 100, "a-1", &format!("rq_complete: 8,0 R () {} + 8 [0]", n * 8));
        }
        if completes {
            script.line(300_005, "a-1", "rq_complete: 8,0 W () 9000 + 8 [0]");
        }
        let found = script.inspect("8:0");
        assert_eq!(found.counts.overdue, u64::from(!completes));
        // A single request of 50 us every 100 us; until the lost one is overdue, after 256
        // completions, the device is always busy.
        let busy = found.depths.busy();
        assert!((100_000_000..120_000_000).contains(&busy), "{busy}");
        assert!(found.depths.mean_busy_depth() < 1.2);
        assert_eq!(
            found.stages[WRITE].issued_to_completed.max,
            if completes { 300_000_000 } else { 0 }
        );
    }
}

/// Two discards of other ranges join the first, as devices that take several ranges in one command
/// let them; the request ends with all three, and another process's discard after its issue is a
/// request of its own.
#[test]
fn a_discard_of_several_ranges_is_one_request() {
    let mut script = Script::default();
    for (at, event) in [
        (10, "bio_queue: 8,0 DS 1000 + 8 [a]"),
        (11, "getrq: 8,0 DS 1000 + 8 [a]"),
        (20, "bio_queue: 8,0 DS 5000 + 16 [a]"),
        (21, "bio_backmerge: 8,0 DS 5000 + 16 [a]"),
        (30, "bio_queue: 8,0 DS 200 + 8 [a]"),
        (31, "bio_backmerge: 8,0 DS 200 + 8 [a]"),
        (40, "rq_issue: 8,0 DS 16384 () 1000 + 32 [a]"),
        (50, "bio_queue: 8,0 DS 9000 + 8 [a]"),
        (51, "getrq: 8,0 DS 9000 + 8 [a]"),
        (52, "rq_issue: 8,0 DS 4096 () 9000 + 8 [a]"),
        (90, "rq_complete: 8,0 DS () 1000 + 32 [0]"),
        (95, "rq_complete: 8,0 DS () 9000 + 8 [0]"),
    ] {
        script.line(at, "a-1", event);
    }
    let found = script.inspect("8:0");
    let at = Group::Discard as usize;
    let (counts, stages) = (&found.counts, &found.stages[at]);
    assert_eq!((counts.bios_completed[at], counts.completed[at], counts.back_merges), (4, 2, 2));
    assert_eq!((counts.completed_bytes[at], counts.unmatched, counts.forgotten), (40 * 512, 0, 0));
    assert_eq!((stages.bio_total.max, stages.bio_total.min), (80_000, 45_000));
    assert_eq!((found.bios_under_way, found.requests_under_way), (0, 0));
    assert_eq!(found.request_sizes.groups[at].max, 32 * 512);
}

/// Files of several volumes, one after another, are each read by themselves.
#[test]
fn the_volumes_of_files_that_were_joined() {
    const LINES: u64 = 40_000;
    let line = |disk: u64, n: u64| {
        format!("{},srv,{disk},Read,0,4096,10\n", 128_166_372_000_000_000 + n * 10_000)
    };
    let text: String = (0..2 * LINES).map(|n| line(n / LINES, n % LINES)).collect();
    for device in ["0:0", "0:1"] {
        let mut open = || crate::from_bytes(text.clone().into_bytes());
        let found = inspect(&mut open, device.parse().ok(), None, &mut |_| {}).unwrap();
        assert_eq!((found.counts.bios[READ], found.report.skipped_count()), (LINES, 0), "{device}");
    }
}
