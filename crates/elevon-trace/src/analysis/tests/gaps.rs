//! Tests that the time in which events were lost counts as neither busy nor idle.

use super::*;

const READ: usize = Group::Read as usize;

/// Appends reads of 0.5 ms, one a millisecond, from `from` to `to` milliseconds, on a CPU.
fn reads(script: &mut String, cpu: u32, from: u64, to: u64) {
    use std::fmt::Write as _;
    for ms in from..to {
        let place = format!("{} + 64", ms * 1000);
        let mut line = |us: u64, event: &str| {
            let us = ms * 1000 + us;
            let _ = writeln!(
                script,
                "a-1 [{cpu:03}] ..... {}.{:06}: block_{event}",
                us / 1_000_000,
                us % 1_000_000
            );
        };
        line(0, &format!("bio_queue: 8,0 R {place} [a]"));
        line(0, &format!("rq_issue: 8,0 R 32768 () {place} be,0,4 [a]"));
        line(500, &format!("rq_complete: 8,0 R () {place} be,0,4 [0]"));
    }
}

/// Half of two seconds is lost: rates and busy time are those of the other half.
#[test]
fn lost_time_is_neither_busy_nor_idle() {
    let mut text = String::new();
    reads(&mut text, 0, 0, 500);
    text.push_str("CPU:0 [LOST 4000 EVENTS]\n");
    reads(&mut text, 0, 1500, 2000);
    let found = inspect_text(&text, "8:0");
    assert_eq!((found.duration(), found.observed), (1_999_500_000, 999_000_000));
    assert_eq!((found.depths.time(), found.depths.busy()), (found.observed, 500_000_000));
    assert_eq!(found.utilisation.exact.get(), 500_000_000);
    let line = &found.timeline;
    assert_eq!(line.slots.iter().map(|slot| slot.lost).sum::<u64>(), 1_000_500_000);
    let ms = |at: usize| at as u64 * line.width / 1_000_000;
    let inside = line.slots.iter().enumerate().filter(|&(at, _)| (510..1490).contains(&ms(at)));
    assert!(
        inside.clone().count() > 100 && inside.clone().all(|(_, slot)| slot.lost == line.width)
    );
    assert_eq!(found.counts.completed[READ], 1000);
}

/// One CPU of two loses events for a second: what the other shows of that time is counted as I/O,
/// but not over time.
#[test]
fn events_of_other_cpus_in_a_gap_have_no_rate() {
    let (mut first, mut other, mut last) = (String::new(), String::new(), String::new());
    reads(&mut first, 0, 0, 500);
    reads(&mut other, 1, 500, 1500);
    last.push_str("CPU:0 [LOST 4000 EVENTS]\n");
    reads(&mut last, 0, 1500, 2000);
    let found = inspect_text(&(first + &other + &last), "8:0");
    assert_eq!((found.observed, found.depths.busy()), (999_000_000, 500_000_000));
    let completed: u64 = found.timeline.slots.iter().map(|slot| slot.completed[READ]).sum();
    assert_eq!((found.counts.completed[READ], completed), (2000, 1000));
    assert_eq!(found.utilisation.exact.get(), 500_000_000);
    assert_eq!(
        found.counts.across_gaps,
        3 * 1000,
        "of each: in the device, of the request, of the bio"
    );
}

/// Flushes one after another, with a gap: the storm is one of the time that was seen.
#[test]
fn a_finding_weighs_in_the_time_that_was_seen() {
    let mut text = String::new();
    let flushes = |text: &mut String, from: u64| {
        for n in 0..100 {
            let at = from + n * 1000;
            let mut script = Script::default();
            script.line(at, "a-1", "rq_issue: 8,0 FF 0 () 0 + 0 none,0,0 [a]");
            script.line(
                at + 300,
                "a-1",
                "rq_complete: 8,0 FF () 18446744073709551615 + 0 none,0,0 [0]",
            );
            text.push_str(&script.0);
        }
    };
    flushes(&mut text, 0);
    text.push_str("CPU:0 [LOST 4000 EVENTS]\n");
    flushes(&mut text, 20_000_000);
    let found = inspect_text(&text, "8:0");
    let finding = found
        .findings
        .iter()
        .find(|finding| finding.kind == FindingKind::FlushStorm)
        .expect("a storm");
    assert_eq!(finding.weight, 302);
}

/// Many short spells between gaps, busy all the time: whole jiffies do not pass the time.
#[test]
fn whole_jiffies_do_not_pass_the_time() {
    let mut text = String::new();
    for n in 0..200u64 {
        let at = n * 10_000;
        let mut script = Script::default();
        for start in [at, at + 300] {
            script.line(start, "a-1", "rq_issue: 8,0 R 4096 () 64 + 8 be,0,4 [a]");
            script.line(start + 300, "a-1", "rq_complete: 8,0 R () 64 + 8 be,0,4 [0]");
        }
        text.push_str(&script.0);
        text.push_str("CPU:0 [LOST 40 EVENTS]\n");
    }
    let found = inspect_text(&text, "8:0");
    assert_eq!((found.observed, found.utilisation.exact.get()), (120_000_000, 120_000_000));
    let busy = &found.utilisation;
    assert!(
        [busy.sampled_ms, busy.inflight_ms, busy.precise_ms].into_iter().all(|ms| ms <= 120),
        "{busy:?}"
    );
}
