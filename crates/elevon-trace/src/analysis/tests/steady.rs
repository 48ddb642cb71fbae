//! Tests findings on problems that last for the whole trace.

use super::*;

/// A process that keeps a number of requests in progress.
#[derive(Clone, Copy)]
struct Load {
    task: &'static str,
    rwbs: &'static str,
    depth: u64,
    sectors: u64,
}

const WRITER: Load = Load { task: "writer-1", rwbs: "W", depth: 128, sectors: 8 };
const READER: Load = Load { task: "reader-2", rwbs: "R", depth: 1, sectors: 8 };

/// A device that serves so many requests at a time, in order, of the given microseconds, which vary
/// by the given percentage in either direction.
#[derive(Clone, Copy)]
struct Served {
    slots: usize,
    us: u64,
    spread: u64,
    /// True if the others wait in the scheduler and not in the device.
    is_held: bool,
}

/// A device in which requests wait.
const fn served(slots: usize, us: u64, spread: u64) -> Served {
    Served { slots, us, spread, is_held: false }
}

/// Runs loads on a device for some time, from `from` on; all in microseconds.
fn run(loads: &[Load], device: Served, from: u64, until: u64) -> Script {
    let mut random = elevon_testkit::Rng(7);
    let mut free = vec![0u64; device.slots];
    // Issues by time, with the load.
    let mut next: Vec<(u64, usize)> = Vec::new();
    for (at, load) in loads.iter().enumerate() {
        next.extend((0..load.depth).map(|n| (n, at)));
    }
    let mut lines: Vec<(u64, u64, String, &str)> = Vec::new();
    let mut number = 0;
    while let Some(first) =
        next.iter().enumerate().min_by_key(|(_, issue)| **issue).map(|(at, _)| at)
    {
        let (at, of) = next.swap_remove(first);
        if at >= until {
            continue;
        }
        number += 1;
        let Load { task, rwbs, sectors, .. } = loads[of];
        let spread = device.us * device.spread / 100;
        let us = device.us - spread + random.below(2 * spread + 1);
        let slot = free.iter_mut().min().expect("a slot");
        let start = (*slot).max(at);
        let end = start + us;
        *slot = end;
        let place = format!("{} + {sectors}", number * 1000);
        let issued = if device.is_held { start } else { at };
        for (at, event) in
            [(at, "bio_queue: 8,0 RW"), (at, "getrq: 8,0 RW"), (issued, "rq_issue: 8,0 RW 4096 ()")]
        {
            lines.push((at, number, format!("{} {place} [x]", event.replace("RW", rwbs)), task));
        }
        lines.push((end, 0, format!("rq_complete: 8,0 {rwbs} () {place} [0]"), "idle-0"));
        next.push((end + 1, of));
    }
    lines.sort_by_key(|(at, order, ..)| (*at, *order));
    let mut script = Script::default();
    for (at, _, event, task) in lines.into_iter().filter(|(at, ..)| *at >= from) {
        script.line(at, task, &event);
    }
    script
}

fn bloat(script: &Script) -> Option<Finding> {
    let found = script.inspect("8:0");
    found.findings.into_iter().find(|finding| finding.kind == FindingKind::DeviceBufferbloat)
}

fn figure(finding: &Finding, name: &str) -> u64 {
    finding
        .figures
        .iter()
        .find(|(other, _)| *other == name)
        .unwrap_or_else(|| panic!("{name}: {finding:?}"))
        .1
}

/// A writer keeps the device's queue full all the time, and a reader with one request waits. The
/// finding names both, with figures, from the start of the load and from its middle.
#[test]
fn a_reader_behind_a_deep_writer() {
    let disk = served(8, 6667, 0);
    let flash = served(4, 3000, 50);
    let one = served(1, 1000, 20);
    let deep_reader = Load { task: "scan-1", rwbs: "R", depth: 64, ..WRITER };
    for (filler, device, wait_ms, enough) in [
        (WRITER, disk, 107, 8),
        (deep_reader, flash, 48, 4),
        (Load { depth: 32, ..WRITER }, one, 33, 1),
        (Load { depth: 12, ..WRITER }, served(1, 3000, 20), 39, 1),
    ] {
        for from in [0, 1_000_000] {
            let found = bloat(&run(&[filler, READER], device, from, 4_000_000));
            let finding = found.unwrap_or_else(|| panic!("{wait_ms} ms from {from}"));
            let name = filler.task.split('-').next().expect("a name");
            assert_eq!(
                finding.who,
                [format!("{name} (1)"), "reader (2)".to_owned()],
                "{finding:?}"
            );
            let depth = figure(&finding, "filler_depth_permille");
            assert!(depth.abs_diff(filler.depth * 1000) < filler.depth * 50, "{finding:?}");
            let wait = figure(&finding, "waiter_mean_ns");
            assert!(wait.abs_diff(wait_ms * 1_000_000) < wait_ms * 100_000, "{finding:?}");
            assert!(finding.title.contains("behind which reader (2) waits"), "{finding:?}");
            assert!(
                finding.advice[0].contains(&format!("a smaller iodepth of {name} (1)")),
                "{finding:?}"
            );
            if from == 0 {
                assert!(figure(&finding, "enough_depth").abs_diff(enough) <= 1, "{finding:?}");
            } else {
                assert!(
                    finding.evidence.iter().any(|line| line.contains("the trace does not show")),
                    "{finding:?}"
                );
            }
        }
    }
}

/// A device that serves all requests at once makes the reader wait no longer than alone, however
/// far it is; so does one that serves more than the writer has.
#[test]
fn a_deep_queue_of_which_none_waits() {
    for device in [served(256, 5000, 10), served(129, 30_000, 0), served(160, 300, 50)] {
        assert_eq!(bloat(&run(&[WRITER, READER], device, 0, device.us * 100)), None);
    }
    // A process alone delays itself only, and two that share the device evenly wait for each other.
    let disk = served(8, 3000, 20);
    assert_eq!(bloat(&run(&[WRITER], disk, 0, 3_000_000)), None);
    let peer = Load { depth: 4, ..READER };
    assert_eq!(bloat(&run(&[Load { depth: 4, ..WRITER }, peer], disk, 0, 3_000_000)), None);
}

/// A trace whose limit cuts `bios` of a mebibyte into pieces of `kib`.
fn cut(bios: u64, kib: u64, has_splits: bool) -> Script {
    let (sectors, piece) = (2048, kib * 2);
    let mut script = Script::default();
    let mut at = 0;
    for n in 0..bios {
        let start = n * 10_000;
        script.line(at, "fio-1", &format!("bio_queue: 8,0 R {start} + {sectors} [fio]"));
        for from in (0..sectors).step_by(piece as usize) {
            let place = format!("{} + {piece}", start + from);
            if has_splits && from + piece < sectors {
                script.line(
                    at,
                    "fio-1",
                    &format!("split: 8,0 R {} / {} [fio]", start + from, start + from + piece),
                );
            }
            script.line(at, "fio-1", &format!("getrq: 8,0 R {place} [fio]"));
            script.line(at, "fio-1", &format!("rq_issue: 8,0 R {} () {place} [fio]", piece * 512));
        }
        for from in (0..sectors).step_by(piece as usize) {
            at += 10 + kib;
            script.line(
                at,
                "i-0",
                &format!("rq_complete: 8,0 R () {} + {piece} [0]", start + from),
            );
        }
        at += 1000;
    }
    script
}

#[test]
fn a_limit_that_cuts_into_many_requests() {
    let get = |script: &Script| {
        let found = script.inspect("8:0");
        found.findings.into_iter().find(|finding| finding.kind == FindingKind::SmallRequests)
    };
    for (kib, has_splits) in [(4, true), (64, true), (128, true), (64, false)] {
        let finding =
            get(&cut(24, kib, has_splits)).unwrap_or_else(|| panic!("{kib} {has_splits}"));
        assert_eq!(
            (figure(&finding, "cut_bios"), figure(&finding, "requests_of_cut_bios")),
            (24, 24 * 1024 / kib)
        );
        assert_eq!(
            (figure(&finding, "limit_bytes"), &finding.who[..]),
            (kib << 10, &["fio (1)".to_owned()][..])
        );
        assert!(finding.advice[0].contains("max_sectors_kb"), "{finding:?}");
    }
    // Two pieces of 512 KiB are what the kernel makes by itself, and four of 256 KiB cost little.
    assert_eq!((get(&cut(200, 512, true)), get(&cut(200, 256, true))), (None, None));
    // If the hardware takes no more, there is nothing to set.
    let settings = |hard: u64| {
        let head = "# elevon capture 1\n# device: 8:0\n# queue/max_sectors_kb: 64\n";
        format!("{head}# queue/max_hw_sectors_kb: {hard}\n")
    };
    for (hard, is_found) in [(64, false), (1280, true)] {
        let script = Script(settings(hard) + &cut(24, 64, true).0);
        let found = get(&script);
        assert_eq!(found.is_some(), is_found, "{hard}");
        if let Some(finding) = found {
            assert_eq!(
                (
                    figure(&finding, "hardware_bytes"),
                    figure(&finding, "requests_at_hardware_limit")
                ),
                (1280 << 10, 24)
            );
            assert!(
                finding.advice[0].contains("it was 64, and the hardware takes 1280"),
                "{finding:?}"
            );
        }
    }
}

/// Reads every millisecond; each twentieth is beside a discard and takes `slow` microseconds.
fn discards(slow: u64) -> Option<Finding> {
    let mut script = Script::default();
    for n in 0..2000u64 {
        let (at, took) = (n * 1000, if n % 20 == 0 { slow } else { 100 });
        if n % 20 == 0 {
            script.line(
                at,
                "trim-3",
                &format!("rq_issue: 8,0 D 1048576 () {} + 2048 [trim]", 1_000_000 + n * 4096),
            );
        }
        script.line(at + 1, "db-4", &format!("rq_issue: 8,0 R 4096 () {} + 8 [db]", n * 8));
        script.line(at + 1 + took, "i-0", &format!("rq_complete: 8,0 R () {} + 8 [0]", n * 8));
        if n % 20 == 0 {
            let at = at + took + 2;
            script.line(
                at,
                "i-0",
                &format!("rq_complete: 8,0 D () {} + 2048 [0]", 1_000_000 + n * 4096),
            );
        }
    }
    let found = script.inspect("8:0");
    found.findings.into_iter().find(|finding| finding.kind == FindingKind::DiscardStall)
}

#[test]
fn discards_that_stall_reads() {
    let finding = discards(800).expect("stalls");
    assert_eq!((figure(&finding, "discards"), figure(&finding, "beside_discards")), (100, 100));
    assert_eq!(
        (figure(&finding, "beside_discards_mean_ns"), figure(&finding, "others_mean_ns")),
        (800_000, 100_000)
    );
    assert_eq!(finding.who, ["trim (3)", "db (4)"]);
    assert_eq!(discards(150), None);
}

/// A process with 16 bios, of which a queue of `tags` requests takes as many, on a device that
/// serves `slots` at a time.
fn tags(tags: u64, slots: u64) -> Option<Finding> {
    let mut script = Script::default();
    let mut free = vec![0u64; slots as usize];
    let mut ends: Vec<u64> = Vec::new();
    let mut lines: Vec<(u64, u8, String)> = Vec::new();
    let mut got = 0;
    for n in 0..600usize {
        // It submits one after the other, and sleeps until the queue has a request.
        let at = if n < 16 { got } else { got.max(ends[n - 16] + 1) };
        got = if n < tags as usize { at } else { at.max(ends[n - tags as usize] + 1) };
        let slot = free.iter_mut().min().expect("a slot");
        let end = (*slot).max(got) + 1000;
        *slot = end;
        ends.push(end);
        let place = format!("{} + 8", n * 1000);
        lines.push((at, 1, format!("bio_queue: 8,0 R {place} [a]")));
        lines.push((got, 2, format!("getrq: 8,0 R {place} [a]")));
        lines.push((got, 3, format!("rq_issue: 8,0 R 4096 () {place} [a]")));
        lines.push((end, 0, format!("rq_complete: 8,0 R () {place} [0]")));
    }
    lines.sort_by_key(|(at, order, _)| (*at, u8::from(*order > 0)));
    for (at, _, event) in lines {
        script.line(at, "a-1", &event);
    }
    let found = script.inspect("8:0");
    found.findings.into_iter().find(|finding| finding.kind == FindingKind::FewTags)
}

#[test]
fn a_queue_with_too_few_requests() {
    let finding = tags(4, 16).expect("few requests");
    assert_eq!((figure(&finding, "limit"), &finding.who[..]), (4, &["a (1)".to_owned()][..]));
    assert_eq!(figure(&finding, "wait_mean_ns"), 1_001_000, "{finding:?}");
    assert!(finding.title.contains("a limit of 4 requests, such as nr_requests"), "{finding:?}");
    // Enough requests, or a device that serves one at a time anyway.
    assert_eq!((tags(16, 16), tags(4, 1)), (None, None));
}

/// The same wait, in the scheduler: the device has no more than it serves.
#[test]
fn a_reader_crowded_out_of_the_device() {
    let get = |loads: &[Load], device| {
        let script = run(loads, Served { is_held: true, ..device }, 0, 4_000_000);
        assert_eq!(bloat(&script), None);
        let found = script.inspect("8:0");
        found.findings.into_iter().find(|finding| finding.kind == FindingKind::CrowdedOut)
    };
    for (device, wait_ms) in
        [(served(8, 6667, 0), 100), (served(1, 1000, 20), 128), (served(4, 3000, 50), 93)]
    {
        let finding = get(&[WRITER, READER], device).unwrap_or_else(|| panic!("{wait_ms}"));
        assert_eq!(finding.who, ["writer (1)", "reader (2)"], "{finding:?}");
        let wait = figure(&finding, "waiter_wait_mean_ns");
        assert!(wait.abs_diff(wait_ms * 1_000_000) < wait_ms * 100_000, "{finding:?}");
    }
    // A quick device, a process alone, and two of a kind.
    assert_eq!(get(&[Load { depth: 16, ..WRITER }, READER], served(8, 1000, 0)), None);
    assert_eq!(get(&[WRITER], served(8, 6667, 0)), None);
    assert_eq!(
        get(&[Load { depth: 4, ..WRITER }, Load { depth: 4, ..READER }], served(1, 1000, 0)),
        None
    );
}
