//! Tests each finding with a trace in which it must be found, and with a similar one in which it
//! must not.

use super::*;

/// One I/O; times are in microseconds.
#[derive(Clone, Copy)]
struct Io {
    queued: u64,
    issued: u64,
    completed: u64,
    rwbs: &'static str,
    sector: u64,
    sectors: u64,
    task: &'static str,
    prio: &'static str,
}

const READ: Io = Io {
    queued: 0,
    issued: 0,
    completed: 0,
    rwbs: "R",
    sector: 0,
    sectors: 8,
    task: "reader-1",
    prio: "be,0,4",
};
const WRITE: Io = Io { rwbs: "W", task: "writer-2", ..READ };

impl Io {
    /// Sets the times of queue, issue and completion, and a sector that no other I/O uses.
    fn at(self, queued: u64, issued: u64, completed: u64) -> Self {
        Self { queued, issued, completed, sector: (queued * 7919 % 100_000) * 1000, ..self }
    }
}

/// Analyses a trace of the given I/Os.
fn inspect_ios(ios: &[Io]) -> Inspection {
    let mut lines: Vec<(u64, u8, String)> = Vec::new();
    for (at, io) in ios.iter().enumerate() {
        let Io { rwbs, sector, sectors, task, prio, .. } = *io;
        let sector = sector + at as u64 * 64;
        let place = format!("{sector} + {sectors}");
        let bytes = sectors * 512;
        let comm = task.split('-').next().expect("a name");
        let mut put =
            |time, order, text: String| lines.push((time, order, format!("{task} {text}")));
        put(io.queued, 1, format!("bio_queue: 8,0 {rwbs} {place} [{comm}]"));
        put(io.queued, 2, format!("getrq: 8,0 {rwbs} {place} [{comm}]"));
        put(io.queued, 3, format!("rq_insert: 8,0 {rwbs} {bytes} () {place} {prio} [{comm}]"));
        put(io.issued, 4, format!("rq_issue: 8,0 {rwbs} {bytes} () {place} {prio} [{comm}]"));
        put(io.completed, 0, format!("rq_complete: 8,0 {rwbs} () {place} {prio} [0]"));
    }
    lines.sort_by_key(|(time, order, _)| (*time, *order));
    let mut script = Script::default();
    for (time, _, line) in lines {
        let (task, event) = line.split_once(' ').expect("two words");
        script.line(time, task, event);
    }
    let found = script.inspect("8:0");
    assert_eq!((found.requests_under_way, found.counts.unmatched), (0, 0), "the trace is whole");
    found
}

fn kinds(found: &Inspection) -> Vec<FindingKind> {
    found.findings.iter().map(|finding| finding.kind).collect()
}

/// Returns the finding of a kind.
fn get(found: &Inspection, kind: FindingKind) -> &Finding {
    let it = found.findings.iter().find(|finding| finding.kind == kind);
    let it = it.unwrap_or_else(|| panic!("{kind:?} is not found, but {:?}", found.findings));
    assert!(!it.title.is_empty() && !it.evidence.is_empty() && !it.advice.is_empty(), "{it:?}");
    assert!((1..=1000).contains(&it.weight), "{it:?}");
    it
}

fn figure(finding: &Finding, name: &str) -> u64 {
    finding
        .figures
        .iter()
        .find(|(other, _)| *other == name)
        .unwrap_or_else(|| panic!("{name}: {finding:?}"))
        .1
}

fn assert_none(found: &Inspection, kind: FindingKind) {
    assert!(!kinds(found).contains(&kind), "{:?}", found.findings);
}

/// A device at half its load, with one I/O at a time, has no finding.
#[test]
fn a_trace_without_a_problem_has_no_finding() {
    let ios: Vec<Io> = (0..500u64)
        .map(|n| {
            if n % 3 == 0 {
                WRITE.at(n * 200, n * 200 + 5, n * 200 + 90)
            } else {
                READ.at(n * 200, n * 200 + 5, n * 200 + 95)
            }
        })
        .collect();
    assert_eq!(inspect_ios(&ios).findings, []);
}

/// Analyses `bios` contiguous bios of `sectors`, split at 1024 sectors, each queued while the
/// previous one is in progress.
fn split_bios(bios: u64, sectors: u64, distance: u64) -> Inspection {
    split_script(bios, sectors, distance).inspect("8:0")
}

/// Returns the trace of [`split_bios`].
fn split_script(bios: u64, sectors: u64, distance: u64) -> Script {
    let mut script = Script::default();
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    let mut at = 10;
    for n in 0..bios {
        let start = n * distance;
        script.line(at, "dd-1", &format!("bio_queue: 8,0 R {start} + {sectors} [dd]"));
        let mut from = 0;
        while from < sectors {
            let piece = (sectors - from).min(1024);
            if from + piece < sectors {
                let (cut, next) = (start + from, start + from + piece);
                script.line(at, "dd-1", &format!("split: 8,0 R {cut} / {next} [dd]"));
            }
            let place = format!("{} + {piece}", start + from);
            script.line(at, "dd-1", &format!("getrq: 8,0 R {place} [dd]"));
            script.line(at, "dd-1", &format!("rq_issue: 8,0 R {} () {place} [dd]", piece * 512));
            pieces.push((start + from, piece));
            from += piece;
        }
        at += 10;
    }
    for (at, (start, piece)) in (1000..).zip(pieces) {
        script.line(at, "dd-1", &format!("rq_complete: 8,0 R () {start} + {piece} [0]"));
    }
    script
}

#[test]
fn small_tails_and_what_filling_would_save() {
    // 20 bios of 2136 sectors give 60 requests; their 42,720 sectors fit into 42 full ones.
    let found = split_bios(20, 2136, 2136);
    let finding = get(&found, FindingKind::SmallTails);
    assert_eq!((figure(finding, "tails"), figure(finding, "tail_mean_bytes")), (20, 88 * 512));
    assert_eq!(
        (figure(finding, "limit_bytes"), figure(finding, "requests_saved")),
        (512 << 10, 18)
    );
    assert_eq!(finding.who, ["dd (1)"]);
    assert!(finding.advice[0].contains("18 requests less"), "{finding:?}");
    // Bios that are not contiguous end with a tail each, which no fill can avoid.
    let apart = split_bios(20, 2136, 1 << 20);
    let finding = get(&apart, FindingKind::SmallTails);
    assert_eq!(figure(finding, "requests_saved"), 0);
    assert!(finding.advice[0].contains("would save nothing"), "{finding:?}");
    // These are split, but without small tails.
    let even = split_bios(20, 2048, 2048);
    assert_eq!(even.counts.splits, 20);
    assert_none(&even, FindingKind::SmallTails);
}

#[test]
fn advice_on_tails_names_the_limit_that_cuts() {
    let advice = |settings: &[&str]| {
        let settings = settings.iter().map(|line| format!("# queue/{line}\n")).collect::<String>();
        let head = format!("# tracer: nop\n#\n# elevon capture 1\n# device: 8:0\n{settings}");
        let script = split_script(20, 2136, 2136).0;
        let found = inspect_text(&format!("{head}{script}"), "8:0");
        get(&found, FindingKind::SmallTails).advice.join("; ")
    };
    let segments = ["max_sectors_kb: 1280", "max_hw_sectors_kb: 1280", "max_segments: 128"];
    // A fill goes by max_sectors_kb, which has to be lowered to what cuts.
    assert!(advice(&segments).contains("--set max_sectors_kb=512 and --set fill=max-sectors"));
    assert!(!advice(&["max_sectors_kb: 512"]).contains("--set max_sectors_kb"));
    for (settings, words) in [
        (
            &["max_sectors_kb: 512", "max_hw_sectors_kb: 512"][..],
            "the hardware takes no larger requests",
        ),
        (
            &["max_sectors_kb: 512", "max_hw_sectors_kb: 1280"],
            "a larger max_sectors_kb: it was 512",
        ),
        (
            &["max_sectors_kb: 514", "max_hw_sectors_kb: 514"],
            "the hardware takes no larger requests",
        ),
        (&segments, "max_segments=128 pages of 4 KiB"),
        (
            &["max_sectors_kb: 1280", "max_hw_sectors_kb: 1280", "max_segments: 64"],
            "another limit of the queue",
        ),
        (&[], "if max_hw_sectors_kb allows one"),
    ] {
        let advice = advice(settings);
        assert!(advice.contains(words), "{settings:?}: {advice}");
    }
}

/// Reads alone for a while, then among 16 writes, where they take `slow` microseconds.
fn reads_among_writes(slow: u64) -> Inspection {
    let mut ios = Vec::new();
    for n in 0..100u64 {
        ios.push(READ.at(n * 2000, n * 2000 + 5, n * 2000 + 1005));
    }
    for n in 0..100u64 {
        let at = 300_000 + n * 20_000;
        ios.extend((0..16u64).map(|w| WRITE.at(at + w, at + w + 20, at + 15_000 + w)));
        ios.push(READ.at(at + 100, at + 110, at + 110 + slow));
    }
    inspect_ios(&ios)
}

#[test]
fn a_reader_starves_behind_writes() {
    let found = reads_among_writes(9_000);
    let finding = get(&found, FindingKind::ReaderStarved);
    assert_eq!(
        (figure(finding, "reads_among_few_writes"), figure(finding, "reads_among_many_writes")),
        (100, 100)
    );
    assert_eq!(figure(finding, "reads_among_many_writes_mean_ns"), 9_010_000);
    assert_eq!(finding.who, ["reader (1)"]);
    assert!(finding.evidence.iter().any(|line| line.contains("writer (2)")), "{finding:?}");
    let (first, last) = finding.when.expect("times");
    assert!(first >= 300_000_000 && last > 2_000_000_000, "{finding:?}");
    assert_none(&reads_among_writes(1_900), FindingKind::ReaderStarved);
}

/// Requests of class RT among later ones of class BE; of each pair `rt_first` decides which is
/// issued first.
fn priorities(rt_first: bool, wait: u64) -> Inspection {
    let mut ios = Vec::new();
    for n in 0..200u64 {
        let at = n * 20_000;
        let (rt, be) = if rt_first { (at + 10, at + wait) } else { (at + wait, at + 200) };
        ios.push(Io { prio: "rt,0,0", task: "urgent-1", ..READ }.at(at, rt, rt + 500));
        ios.push(Io { task: "bulk-2", ..READ }.at(at + 100, be, be + 500));
    }
    inspect_ios(&ios)
}

#[test]
fn a_better_class_waits_for_a_worse_one() {
    let found = priorities(false, 8_000);
    let finding = get(&found, FindingKind::PriorityInversion);
    assert_eq!(
        (figure(finding, "overtaken"), figure(finding, "overtaken_wait_mean_ns")),
        (200, 8_000_000)
    );
    assert_eq!(
        (figure(finding, "better_class_requests"), finding.who.clone()),
        (200, vec!["urgent (1)".to_owned()])
    );
    assert!(finding.evidence[0].contains("bulk (2)"), "{finding:?}");
    assert_none(&priorities(true, 8_000), FindingKind::PriorityInversion);
    // The order is changed, but by less than a scheduler's wait.
    assert_none(&priorities(false, 300), FindingKind::PriorityInversion);
}

/// Requests of class RT, every other one in a device that holds ten of class BE; these take `slow`
/// microseconds.
fn urgent_among_bulk(slow: u64) -> Inspection {
    let mut ios = Vec::new();
    for n in 0..100u64 {
        let at = n * 20_000;
        if n % 2 == 1 {
            ios.extend(
                (0..10u64).map(|w| {
                    Io { task: "bulk-2", ..READ }.at(at + w, at + w + 10, at + 15_000 + w)
                }),
            );
        }
        let long = if n % 2 == 1 { slow } else { 1_000 };
        ios.push(Io { prio: "rt,0,0", task: "urgent-1", ..READ }.at(
            at + 50,
            at + 60,
            at + 60 + long,
        ));
    }
    inspect_ios(&ios)
}

#[test]
fn a_better_class_is_served_late_in_a_full_device() {
    let found = urgent_among_bulk(6_000);
    let finding = get(&found, FindingKind::PriorityInversion);
    assert_eq!(
        (figure(finding, "served_among_few_mean_ns"), figure(finding, "served_among_many_mean_ns")),
        (1_000_000, 6_000_000)
    );
    assert!(finding.title.contains("in the device"), "{finding:?}");
    assert_none(&urgent_among_bulk(2_000), FindingKind::PriorityInversion);
}

/// Writes with a flush after each `every` of them; a flush takes `long` microseconds.
fn commits(every: u64, long: u64) -> Inspection {
    commits_script(every, long).inspect("8:0")
}

fn commits_script(every: u64, long: u64) -> Script {
    let mut script = Script::default();
    let mut at = 0;
    for n in 0..400u64 {
        let place = format!("{} + 8", n * 8);
        script.line(at, "db-1", &format!("bio_queue: 8,0 WS {place} [db]"));
        script.line(at, "db-1", &format!("getrq: 8,0 WS {place} [db]"));
        script.line(at + 2, "db-1", &format!("rq_issue: 8,0 WS 4096 () {place} [db]"));
        script.line(at + 102, "db-1", &format!("rq_complete: 8,0 WS () {place} [0]"));
        at += 150;
        if n % every == 0 {
            script.line(at, "db-1", "bio_queue: 8,0 FWS 0 + 0 [db]");
            script.line(at, "db-1", "getrq: 8,0 FWS 0 + 0 [db]");
            script.line(at + 3, "kworker/0:1H-9", "rq_issue: 8,0 FF 0 () 0 + 0 [kworker/0:1H]");
            script.line(
                at + 3 + long,
                "db-1",
                "rq_complete: 8,0 FF () 18446744073709551615 + 0 [0]",
            );
            script.line(at + 4 + long, "db-1", "rq_complete: 8,0 WS () 0 + 0 [0]");
            at += 10 + long;
        }
    }
    script
}

#[test]
fn a_flush_for_every_write_is_a_storm() {
    let found = commits(1, 500);
    let finding = get(&found, FindingKind::FlushStorm);
    assert_eq!((figure(finding, "flushes"), figure(finding, "writes")), (400, 400));
    assert_eq!(
        (figure(finding, "flush_wait_mean_ns"), figure(finding, "flush_in_device_ns")),
        (504_000, 200_000_000)
    );
    assert_eq!(finding.who, ["db (1)"]);
    assert!(finding.weight > 700, "{finding:?}");
    // One flush for eight writes, and flushes that take almost no time.
    assert_none(&commits(8, 500), FindingKind::FlushStorm);
    assert_none(&commits(1, 5), FindingKind::FlushStorm);
}

/// Of Linux's schedulers only kyber counts flushes against writes.
#[test]
fn flushes_under_kyber_ask_for_another_scheduler() {
    for (scheduler, is_said) in [("[kyber]", true), ("[bfq]", false), ("[none]", false)] {
        let head =
            format!("# elevon capture 1\n# device: 8:0\n# queue/scheduler: none {scheduler}\n");
        let found = inspect_text(&format!("{head}{}", commits_script(1, 500).0), "8:0");
        let advice = get(&found, FindingKind::FlushStorm).advice.join("; ");
        assert_eq!(advice.contains("kyber takes a flush"), is_said, "{scheduler}: {advice}");
    }
}

/// One request at a time mostly, and bursts of 16, each of which takes `burst` microseconds.
fn bursts(burst: u64) -> Inspection {
    let mut ios = Vec::new();
    let mut at = 0;
    for n in 0..400u64 {
        ios.push(READ.at(at, at + 2, at + 1000));
        at += 1001;
        if n % 20 == 0 {
            ios.extend((0..16).map(|_| READ.at(at, at + 2, at + burst)));
            at += burst + 1;
        }
    }
    inspect_ios(&ios)
}

#[test]
fn a_queue_shallower_than_the_device_can_use() {
    let found = bursts(1_100);
    let finding = get(&found, FindingKind::ShallowQueue);
    assert_eq!(figure(finding, "usable_depth"), 8);
    assert!(figure(finding, "latency_shallow_mean_ns") < 1_010_000, "{finding:?}");
    // A device that serves one request at a time does not benefit from depth.
    assert_none(&bursts(16_000), FindingKind::ShallowQueue);
}

/// A request every 10 ms, issued `held` microseconds after it was queued.
fn held_back(held: u64) -> Inspection {
    let ios: Vec<Io> = (0..100u64)
        .map(|n| READ.at(n * 10_000, n * 10_000 + held, n * 10_000 + held + 1_000))
        .collect();
    inspect_ios(&ios)
}

#[test]
fn an_idle_device_while_a_request_waits() {
    let found = held_back(5_000);
    let finding = get(&found, FindingKind::IdleWhileWaiting);
    // The first one has no request before it.
    assert_eq!((figure(finding, "spells"), figure(finding, "spell_mean_ns")), (99, 5_000_000));
    assert_eq!(
        (figure(finding, "idle_while_waiting_ns"), finding.who.clone()),
        (495_000_000, vec!["reader (1)".to_owned()])
    );
    assert_none(&held_back(150), FindingKind::IdleWhileWaiting);
}

/// A driver that gives each request back once, and gets it again 5 ms later, is named as the cause.
#[test]
fn an_idle_device_of_which_the_driver_gives_requests_back() {
    let mut script = Script::default();
    for n in 0..20 {
        for (after, event) in [
            (0, "bio_queue: 8,0 R 8 + 8 [a]"),
            (1, "getrq: 8,0 R 8 + 8 [a]"),
            (2, "rq_issue: 8,0 R 4096 () 8 + 8 [a]"),
            (3, "rq_requeue: 8,0 R () 8 + 8 [0]"),
            (5_003, "rq_issue: 8,0 R 4096 () 8 + 8 [a]"),
            (6_000, "rq_complete: 8,0 R () 8 + 8 [0]"),
        ] {
            script.line(n * 10_000 + after, "a-1", event);
        }
    }
    let found = script.inspect("8:0");
    let finding = get(&found, FindingKind::RequestsGivenBack);
    assert_eq!(
        (figure(finding, "requeues"), figure(finding, "requests_given_back")),
        (20, 20),
        "{finding:?}"
    );
    let finding = get(&found, FindingKind::IdleWhileWaiting);
    assert_eq!(
        finding.evidence[1],
        "20 times the driver gave a request back (requeue), for 20 requests"
    );
    assert!(finding.advice[0].starts_with("a driver gives requests back"), "{:?}", finding.advice);
    let found = held_back(5_000);
    let advice = &get(&found, FindingKind::IdleWhileWaiting).advice;
    assert!(!advice[0].starts_with("a driver") && !advice[0].starts_with("bfq"), "{advice:?}");
    assert!(advice.iter().any(|what| what.contains("kworker")), "{advice:?}");
    assert_none(&found, FindingKind::RequestsGivenBack);
}

/// SCSI gives a request back before it is issued if the device has no room.
#[test]
fn requests_given_back_before_they_are_issued() {
    let mut script = Script::default();
    for n in 0..30 {
        for (after, event) in [
            (0, "getrq: 8,0 R 8 + 8 [a]"),
            (2, "rq_requeue: 8,0 R () 8 + 8 [0]"),
            (4, "rq_requeue: 8,0 R () 8 + 8 [0]"),
            (6, "rq_issue: 8,0 R 4096 () 8 + 8 [a]"),
            (90, "rq_complete: 8,0 R () 8 + 8 [0]"),
        ] {
            script.line(n * 100 + after, "a-1", event);
        }
    }
    let found = script.inspect("8:0");
    let finding = get(&found, FindingKind::RequestsGivenBack);
    assert_eq!(
        (figure(finding, "requeues"), figure(finding, "requests_given_back")),
        (60, 30),
        "{finding:?}"
    );
}

/// A device that serves `slots` requests at a time, a millisecond each, first with two in it, then
/// with 32.
fn deep(slots: u64) -> Inspection {
    let mut ios = Vec::new();
    let mut free = vec![0u64; slots as usize];
    let mut run = |from: u64, depth: u64, count: u64| {
        let mut done: Vec<u64> = Vec::new();
        for n in 0..count {
            // The next request arrives when the one `depth` before it has completed.
            let at = if n < depth { from } else { done[(n - depth) as usize] + 1 };
            let slot = free.iter_mut().min().expect("a slot");
            let end = (*slot).max(at) + 1000;
            *slot = end;
            done.push(end);
            ios.push(READ.at(at, at, end));
        }
        *done.iter().max().expect("some")
    };
    let end = run(0, 2, 400);
    run(end + 10, 32, 2000);
    inspect_ios(&ios)
}

#[test]
fn depth_that_only_adds_latency() {
    let found = deep(2);
    let finding = get(&found, FindingKind::DeviceBufferbloat);
    assert_eq!(figure(finding, "enough_depth"), 3);
    assert!(
        (1_000_000..1_010_000).contains(&figure(finding, "latency_at_enough_mean_ns")),
        "{finding:?}"
    );
    assert!(figure(finding, "latency_deeper_mean_ns") > 14_000_000, "{finding:?}");
    assert!((1_900..2_010).contains(&figure(finding, "iops_at_enough")), "{finding:?}");
    // A device that serves 32 at a time gains from every one.
    assert_none(&deep(32), FindingKind::DeviceBufferbloat);
}

/// Bursts that the device serves together: while the last of one complete the depth is small for a
/// moment, in which many more complete than at that depth can.
#[test]
fn the_end_of_a_burst_is_no_rate_of_a_small_depth() {
    let mut ios = Vec::new();
    for burst in 0..100 {
        let at = burst * 1000;
        ios.extend(
            (0..16).map(|n| READ.at(at + n, at + n, at + if n == 0 { 100 } else { 200 + n })),
        );
    }
    assert_none(&inspect_ios(&ios), FindingKind::DeviceBufferbloat);
}

/// Ten readers; in every tenth period a backup is active, and then reads take `slow` microseconds.
fn neighbours(slow: u64) -> Inspection {
    let tasks = ["a-1", "b-2", "c-3", "d-4"];
    let mut ios = Vec::new();
    for n in 0..1000u64 {
        let at = n * 100_000;
        let is_active = n % 4 == 0;
        if is_active {
            ios.push(Io { task: "backup-9", sectors: 64, ..READ }.at(at, at + 5, at + 90_000));
        }
        for (task, late) in tasks.iter().zip(0..) {
            let at = at + 10 + late;
            ios.push(Io { task, ..READ }.at(at, at + 5, at + if is_active { slow } else { 1_000 }));
        }
    }
    inspect_ios(&ios)
}

#[test]
fn one_process_sets_the_p99_of_all() {
    let found = neighbours(20_000);
    let finding = get(&found, FindingKind::NoisyNeighbour);
    assert_eq!(finding.who, ["backup (9)"]);
    assert_eq!(
        (figure(finding, "others_requests_with"), figure(finding, "others_requests_without")),
        (1000, 3000)
    );
    let (all, alone) = (figure(finding, "others_p99_ns"), figure(finding, "others_p99_without_ns"));
    assert!(
        all.abs_diff(20_000_000) * 64 < 20_000_000 && alone.abs_diff(1_000_000) * 64 < 1_000_000,
        "{finding:?}"
    );
    assert_none(&neighbours(1_500), FindingKind::NoisyNeighbour);
}

/// A checkpoint whose writes wait for each other makes all others slow, and is slow itself. A
/// reader with one small I/O is slow at the same time, and no cause.
#[test]
fn who_has_little_under_way_sets_nobodys_p99() {
    let mut ios = Vec::new();
    for n in 0..2000u64 {
        let at = n * 100_000;
        let is_slow = n % 8 == 0;
        for late in 0..if is_slow { 20 } else { 0 } {
            let (from, takes) = if late < 4 {
                (at + late, 10_000)
            } else {
                (at + 1_000 + late, 40_000 + late * 1_500)
            };
            ios.push(Io { task: "checkpoint-9", ..WRITE }.at(from, from + 5, from + takes));
        }
        for (task, late) in ["a-1", "b-2"].into_iter().zip(0..) {
            let at = at + 20 + late;
            ios.push(Io { task, ..READ }.at(at, at + 5, at + if is_slow { 3_000 } else { 1_000 }));
        }
    }
    let found = inspect_ios(&ios);
    assert_eq!(get(&found, FindingKind::NoisyNeighbour).who, ["checkpoint (9)"]);
}

/// The same trace gives the same findings, word for word.
#[test]
fn findings_repeat() {
    let text = |found: &Inspection| format!("{:?}", found.findings);
    assert_eq!(text(&reads_among_writes(9_000)), text(&reads_among_writes(9_000)));
}
