//! The page cache section: which calls waited, how long and for what, and the cache's counters.

use std::fmt::Write as _;

use elevon_cache::stats::{CacheUse, CallStats, Sleeps};
use elevon_core::stats::LatencyStat;
use elevon_result::number::{bytes_binary, grouped, length, percent, significant, span};
use elevon_result::result::{CacheResult, RunResult};
use elevon_result::summary::{latency_mean, percentile, ratio};

use super::{align_right, plain_table, push_table};
use crate::cache::{
    active_percent, cache_total, ended_sleeps, hit_ratio, iowait_us_per_window, mapped_ratio,
    ms_per_second, shared_kinds,
};
use crate::document::WIDTH;

/// Writes a line for each kind of call of each job, which bios ended the sleeps, the I/O that the
/// cache submitted, then its counters.
pub(super) fn section(out: &mut String, run: &RunResult) {
    let Some(cache) = &run.cache else { return };
    let CacheResult { memory, others, policy, activity, .. } = cache;
    let taken = match others.get() {
        0 => String::new(),
        bytes => format!(" ({} taken by others)", bytes_binary(bytes as f64)),
    };
    let _ = writeln!(
        out,
        "\nPage cache: {} of memory{taken}, {policy}, activity={activity}",
        bytes_binary(memory.get() as f64)
    );
    let all = cache_total(run);
    hits(out, cache, &all);
    waits(out, run, &all);
    served(out, &all);
    windows(out, run, cache, &all);
    sources(out, cache);
    let vmstat = ("vmstat".to_owned(), cache.vmstat.clone());
    for (name, counts) in cache.groups.iter().chain([&vmstat]) {
        let counted = counts.iter().filter(|&&(_, count)| count > 0);
        let shown: Vec<String> =
            counted.map(|(name, count)| format!("{name}={}", grouped(*count))).collect();
        if !shown.is_empty() {
            line(out, name, &shown);
        }
    }
}

/// Writes the hit ratios.
fn hits(out: &mut String, cache: &CacheResult, all: &CacheUse) {
    let (found, missed) = (cache.pages("hits"), cache.pages("misses"));
    let mut parts = Vec::new();
    if let Some(share) = hit_ratio(found, missed) {
        parts.push(format!("{} % of {} pages read", percent(share, 2), grouped(found + missed)));
    }
    if let Some(share) = mapped_ratio(all) {
        let touched = all.touches + all.fault.calls;
        parts.push(format!("{} % of {} pages touched", percent(share, 2), grouped(touched)));
    }
    if !parts.is_empty() {
        let _ = writeln!(out, "  found in memory: {}", parts.join(", "));
    }
}

fn waits(out: &mut String, run: &RunResult, all: &CacheUse) {
    let mut table = plain_table();
    table.set_header([
        "Waits", "calls", "major", "slept", "sum", "a call", "a sleep", "50%", "95%", "99%", "max",
        "ms/s",
    ]);
    let mut rows = 0;
    let users = run.jobs.iter().filter_map(|job| Some((job, job.cache_use.as_ref()?)));
    let mut add = |name: &str, kinds: &mut dyn Iterator<Item = (&str, &CallStats)>, ns: u64| {
        for (kind, stats) in kinds.filter(|(_, stats)| stats.calls > 0) {
            let name = format!("{name}: {kind}");
            table.add_row(row(&name, stats, &stats.iowait, ns));
            if stats.paused.count > 0 {
                table.add_row(row(&(name.clone() + ", dirty pause"), stats, &stats.paused, ns));
            }
            if stats.starved.count > 0 {
                table.add_row(without_memory(&(name + ", no memory"), stats, ns));
            }
            rows += 1;
        }
    };
    for (job, used) in users.clone() {
        add(&job.name, &mut used.kinds().into_iter(), job.end.since(job.start).get());
    }
    if users.count() > 1 {
        add("all", &mut shared_kinds(run, all), run.elapsed.get());
    }
    if rows > 0 {
        align_right(&mut table);
        push_table(out, &table);
    }
}

/// Returns the row of a kind of call. `sleeps` are the call's sleeps for I/O, or those of write
/// throttling.
fn row(name: &str, stats: &CallStats, sleeps: &LatencyStat, ns: u64) -> [String; 12] {
    let time = |ns: f64| if sleeps.count > 0 { span(ns) } else { "-".to_owned() };
    let at = |millionths| time(percentile(sleeps, millionths) as f64);
    let sum = sleeps.sum as f64;
    [
        name.to_owned(),
        grouped(stats.calls),
        grouped(stats.major),
        grouped(sleeps.count),
        time(sum),
        time(ratio(sum, stats.calls as f64)),
        time(latency_mean(sleeps)),
        at(500_000),
        at(950_000),
        at(990_000),
        time(sleeps.max as f64),
        significant(ms_per_second(sleeps.sum, ns), 3),
    ]
}

fn without_memory(name: &str, stats: &CallStats, elapsed: u64) -> [String; 12] {
    let Sleeps { count, ns, ns_max } = stats.starved;
    let none = || "-".to_owned();
    [
        name.to_owned(),
        grouped(stats.calls),
        grouped(stats.major),
        grouped(count),
        span(ns as f64),
        span(ratio(ns as f64, stats.calls as f64)),
        span(ratio(ns as f64, count as f64)),
        none(),
        none(),
        none(),
        span(ns_max as f64),
        significant(ms_per_second(ns.into(), elapsed), 3),
    ]
}

/// Writes the class of the bios that ended the sleeps, and whether these waited in a queue or in
/// the device.
fn served(out: &mut String, all: &CacheUse) {
    let mut table = plain_table();
    table.set_header([
        "Sleeps ended by",
        "calls",
        "sum",
        "a sleep",
        "queued",
        "in device",
        "queued %",
    ]);
    let rows = ended_sleeps(all);
    if !rows.is_empty() {
        table.add_rows(rows);
        align_right(&mut table);
        push_table(out, &table);
    }
}

/// Writes the sum over tasks per window, in both units in which it has been published, and the mean
/// of one sleep.
fn windows(out: &mut String, run: &RunResult, cache: &CacheResult, all: &CacheUse) {
    let slept = all.kinds().into_iter().filter(|(_, stats)| stats.iowait.count > 0);
    for (kind, stats) in slept {
        let us = iowait_us_per_window(stats.iowait.sum, run.elapsed.get(), cache.window);
        let _ = writeln!(
            out,
            "  iowait of all tasks in a window of {}, {kind}: {} us = {} ms (one sleep: {})",
            length(cache.window),
            grouped(us.round() as u64),
            significant(us / 1e3, 4),
            span(latency_mean(&stats.iowait)),
        );
    }
}

fn sources(out: &mut String, cache: &CacheResult) {
    if cache.sources.is_empty() {
        return;
    }
    let mut table = plain_table();
    table.set_header([
        "Bios for", "bios", "bytes", "active", "in RT", "promoted", "raised", "demoted", "denied",
    ]);
    for source in &cache.sources {
        table.add_row([
            source.name.clone(),
            grouped(source.bios),
            bytes_binary(source.bytes as f64),
            active_percent(source),
            grouped(source.rt),
            grouped(source.promoted),
            grouped(source.raised),
            grouped(source.demoted),
            grouped(source.denied),
        ]);
    }
    align_right(&mut table);
    push_table(out, &table);
}

fn line(out: &mut String, name: &str, parts: &[String]) {
    let head = format!("  {name}: ");
    let mut line = head.clone();
    for (at, part) in parts.iter().enumerate() {
        let end = if at + 1 < parts.len() { ", " } else { "" };
        if line.len() > head.len() && line.len() + part.len() + end.len() > WIDTH {
            let _ = writeln!(out, "{}", line.trim_end());
            line = " ".repeat(head.len());
        }
        line += part;
        line += end;
    }
    let _ = writeln!(out, "{}", line.trim_end());
}
