//! The page cache: who waited for it, how long and for what, and what it did.

use std::fmt::Write as _;

use elevon_core::stats::{CallStats, LatencyStat};

use super::{align_right, plain_table, push_table};
use crate::document::WIDTH;
use crate::number::{bytes_binary, grouped, significant, span};
use crate::result::{CacheResult, RunResult};
use crate::summary::{cache_total, latency_mean, percentile, ratio};

/// A line for each kind of call of each job, then what the cache counted.
pub(super) fn section(out: &mut String, run: &RunResult) {
    let Some(cache) = &run.cache else { return };
    let CacheResult { memory, others, policy, activity, groups } = cache;
    let taken = match others.get() {
        0 => String::new(),
        bytes => format!(" ({} taken by others)", bytes_binary(bytes as f64)),
    };
    let _ = writeln!(
        out,
        "\nPage cache: {} of memory{taken}, {policy}, activity={activity}",
        bytes_binary(memory.get() as f64)
    );
    waits(out, run);
    for (name, counts) in groups.iter().filter(|(_, counts)| counts.iter().any(|&(_, count)| count > 0)) {
        let counts = counts.iter().filter(|&&(_, count)| count > 0);
        let shown: Vec<String> = counts.map(|(name, count)| format!("{name}={}", grouped(*count))).collect();
        line(out, name, &shown);
    }
}

fn waits(out: &mut String, run: &RunResult) {
    let mut table = plain_table();
    table.set_header([
        "Calls",
        "calls",
        "major",
        "slept",
        "iowait",
        "a call",
        "a sleep",
        "50%",
        "99%",
        "max",
        "in device",
        "ms/s",
    ]);
    let mut is_empty = true;
    let users = run.jobs.iter().filter_map(|job| Some((job, job.stats.cache.as_ref()?)));
    let mut add = |name: &str, kinds: [(&str, &CallStats); 4], ns: u64| {
        for (kind, stats) in kinds.into_iter().filter(|(_, stats)| stats.calls > 0) {
            table.add_row(row(&format!("{name}: {kind}"), stats, &stats.iowait, ns));
            if stats.paused.count > 0 {
                table.add_row(row(&format!("{name}: {kind}, dirty pause"), stats, &stats.paused, ns));
            }
            is_empty = false;
        }
    };
    for (job, used) in users.clone() {
        add(&job.name, used.kinds(), job.end.since(job.start).get());
    }
    if users.count() > 1 {
        add("all", cache_total(run).kinds(), run.elapsed.get());
    }
    if !is_empty {
        align_right(&mut table);
        push_table(out, &table);
    }
}

/// `sleeps`: the call's sleeps for I/O, or those for dirtying too much.
fn row(name: &str, stats: &CallStats, sleeps: &LatencyStat, ns: u64) -> [String; 12] {
    let time = |ns: f64| if sleeps.count > 0 { span(ns) } else { "-".to_owned() };
    let at = |millionths| time(percentile(sleeps, millionths) as f64);
    let sum = sleeps.sum as f64;
    let is_iowait = std::ptr::eq(sleeps, &raw const stats.iowait);
    let in_device = if is_iowait && sleeps.count > 0 {
        format!("{:.0} %", 100.0 * ratio(stats.device_ns as f64, sum))
    } else {
        "-".to_owned()
    };
    [
        name.to_owned(),
        grouped(stats.calls),
        grouped(stats.major),
        grouped(sleeps.count),
        time(sum),
        time(ratio(sum, stats.calls as f64)),
        time(latency_mean(sleeps)),
        at(500_000),
        at(990_000),
        time(sleeps.max as f64),
        in_device,
        significant(1e3 * ratio(sum, ns as f64), 3),
    ]
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
