//! The page cache of a run: its state over time, the tasks that waited for it and the causes, and
//! the I/O that it submitted.

use elevon_cache::page_cache::{Cause, Reading};
use elevon_cache::stats::{CallStats, ClassWaits, Window};
use elevon_core::units::{Nanos, PAGE_SIZE};
use elevon_result::number::{bytes_binary, grouped, length, significant, span};
use elevon_result::result::{CacheResult, CacheSeries, RunResult};
use elevon_result::summary::{latency_mean, percentile, ratio};
use maud::{Markup, html};

use super::plots::{LINE_POINTS, axis, series};
use super::{plain_row, text, typeset};
use crate::cache::{
    active_percent, cache_total, ended_sleeps, hit_ratio, intervals, iowait_us_per_window,
    ms_per_second, shared_kinds, window_percentile, windows,
};
use crate::plot::{Mark, Plot, Scale, Series, Unit};
use crate::variant::Variant;

/// Maximum number of windows on the page for each kind of call; JSON has all.
const MAX_WINDOWS: usize = 60;

/// Returns the section of one run; empty if the run has no page cache.
pub(super) fn section(letter: char, run: &RunResult) -> Markup {
    let Some(cache) = &run.cache else { return Markup::default() };
    let plots = over_time(&cache.series);
    html! {
        section {
            h2 { "Run " (letter) ": page cache" }
            p class="soft" { (text(&describe(cache))) }
            @if !plots.is_empty() {
                div class="plots" {
                    "\n"
                    @for (at, plot) in plots.iter().enumerate() {
                        (plot.figure(&format!("cache-{}-{at}", letter.to_ascii_lowercase()))) "\n"
                    }
                }
                "\n"
            }
            (waits(run))
            (served(run))
            (by_window(run, cache))
            (sources(cache))
            (counters(cache))
        }
        "\n"
    }
}

fn describe(cache: &CacheResult) -> String {
    let CacheResult { memory, others, policy, activity, .. } = cache;
    let taken = match others.get() {
        0 => String::new(),
        bytes => format!(", of which others have {}", bytes_binary(bytes as f64)),
    };
    format!(
        "{} of memory{taken}; policy {policy}, activity {activity}.",
        bytes_binary(memory.get() as f64)
    )
}

/// Returns the plots that compare runs, one line per variant.
pub(super) fn compared(variants: &[Variant<'_>]) -> [Plot; 3] {
    let of = |variant: &Variant<'_>, value: &dyn Fn(&Reading, f64) -> Option<f64>| {
        variant.result.cache.as_ref().map_or_else(Vec::new, |cache| thinned(&cache.series, value))
    };
    let plot =
        |title: &str, description: &str, y, value: &dyn Fn(&Reading, f64) -> Option<f64>| Plot {
            title: title.into(),
            description: description.into(),
            mark: Mark::Line,
            x: axis("time", Scale::Linear, Unit::Nanos),
            y,
            series: series(variants, |v| of(v, value)),
        };
    [
        plot(
            "Page cache: found",
            "Share of the pages that reads and touches wanted that were in memory and readable.",
            axis("found", Scale::Linear, Unit::Percent),
            &|now, _| found(now),
        ),
        plot(
            "Page cache: iowait of faults",
            "Time that faults slept for I/O, all tasks together.",
            axis("ms a second", Scale::Linear, Unit::Count),
            &|now, seconds| {
                Some(now.waits[Cause::Fault as usize].iowait.get() as f64 / 1e6 / seconds)
            },
        ),
        plot(
            "Page cache: dirty memory",
            "Dirty, and being written.",
            axis("memory", Scale::Linear, Unit::Bytes),
            &|now, _| Some(((now.dirty + now.writeback) * PAGE_SIZE) as f64),
        ),
    ]
}

/// Returns the share of reads and accesses to mapped memory that found their page in memory, in
/// percent.
fn found(now: &Reading) -> Option<f64> {
    let fault = &now.waits[Cause::Fault as usize];
    let there = now.hits + now.touches + (fault.count - fault.major);
    hit_ratio(there, now.misses + fault.major).map(|share| 100.0 * share)
}

/// Returns values at the ends of intervals. Intervals are joined if there are more than a line
/// shows: counters are summed, levels are those of the last interval.
fn thinned(series: &CacheSeries, value: &dyn Fn(&Reading, f64) -> Option<f64>) -> Vec<(f64, f64)> {
    let step = series.readings.len().div_ceil(LINE_POINTS).max(1);
    let readings = series.readings.chunks(step).filter_map(<[_]>::last).copied().collect();
    let series = CacheSeries { interval: series.interval, readings };
    let points = intervals(&series).filter_map(|(start, end, now)| {
        let seconds = end.since(start).get() as f64 / 1e9;
        value(&now, seconds).map(|value| (end.get() as f64, value))
    });
    points.collect()
}

type Value = fn(&Reading, f64) -> Option<f64>;

/// Returns the lines of a plot, without those whose values are all zero.
fn lines(of: &CacheSeries, named: &[(&str, Value)]) -> Vec<Series> {
    let all = named.iter().enumerate().map(|(colour, &(name, value))| Series {
        name: name.to_owned(),
        colour,
        points: thinned(of, &value),
        ..Series::default()
    });
    all.filter(|line| line.points.iter().any(|&(_, y)| y > 0.0)).collect()
}

fn over_time(of: &CacheSeries) -> Vec<Plot> {
    let plot = |title: &str, description: &str, y: (&str, Unit), named: &[(&str, Value)]| Plot {
        title: title.into(),
        description: description.into(),
        mark: Mark::Line,
        x: axis("time", Scale::Linear, Unit::Nanos),
        y: axis(y.0, Scale::Linear, y.1),
        series: lines(of, named),
    };
    let plots = [
        plot(
            "Found and missed",
            "Pages a second that reads and touches of mapped memory wanted.",
            ("pages a second", Unit::Count),
            &[
                ("read, found", |now, s| Some(now.hits as f64 / s)),
                ("read, missed", |now, s| Some(now.misses as f64 / s)),
                ("touched, no fault", |now, s| Some(now.touches as f64 / s)),
                ("minor faults", |now, s| {
                    let fault = &now.waits[Cause::Fault as usize];
                    Some((fault.count - fault.major) as f64 / s)
                }),
                ("major faults", |now, s| Some(now.waits[Cause::Fault as usize].major as f64 / s)),
            ],
        ),
        plot(
            "Hit ratio",
            "Share of these that was in memory and readable.",
            ("found", Unit::Percent),
            &[("found", |now, _| found(now))],
        ),
        plot(
            "Time slept",
            "By cause, all tasks together: 1000 ms a second is one task that does nothing but wait.",
            ("ms a second", Unit::Count),
            &[
                ("fault", |now, s| slept(now, Cause::Fault, s)),
                ("read", |now, s| slept(now, Cause::Read, s)),
                ("write", |now, s| slept(now, Cause::Write, s)),
                ("fsync", |now, s| slept(now, Cause::Fsync, s)),
                ("dirty pause", |now, s| slept(now, Cause::DirtyPause, s)),
                ("no memory", |now, s| slept(now, Cause::Memory, s)),
            ],
        ),
        plot(
            "Dirty memory",
            "With the limits: at the first the flusher begins, at the second writers stop.",
            ("memory", Unit::Bytes),
            &[
                ("dirty", |now, _| bytes_of(now.dirty)),
                ("being written", |now, _| bytes_of(now.writeback)),
                ("background limit", |now, _| bytes_of(now.dirty_background)),
                ("limit", |now, _| bytes_of(now.dirty_limit)),
            ],
        ),
        plot(
            "Memory",
            "What the page cache has, what of it is mapped, and what is free.",
            ("memory", Unit::Bytes),
            &[
                ("cached", |now, _| bytes_of(now.cached)),
                ("mapped", |now, _| bytes_of(now.mapped)),
                ("free", |now, _| bytes_of(now.free)),
            ],
        ),
        plot(
            "Reclaim",
            "Pages a second that were freed, and that came back soon after.",
            ("pages a second", Unit::Count),
            &[
                ("by kswapd", |now, s| Some(now.kswapd_reclaimed as f64 / s)),
                ("directly", |now, s| Some(now.direct_reclaimed as f64 / s)),
                ("refaulted", |now, s| Some(now.refaulted as f64 / s)),
                ("restored to the working set", |now, s| Some(now.restored as f64 / s)),
            ],
        ),
        plot(
            "Bios",
            "Bios a second of the page cache, and those of them that became RT.",
            ("bios a second", Unit::Count),
            &[
                ("all", |now, s| Some(now.bios as f64 / s)),
                ("promoted", |now, s| Some(now.promoted as f64 / s)),
            ],
        ),
    ];
    plots.into_iter().filter(|plot| !plot.series.is_empty()).collect()
}

fn slept(now: &Reading, cause: Cause, seconds: f64) -> Option<f64> {
    Some(now.waits[cause as usize].iowait.get() as f64 / 1e6 / seconds)
}

fn bytes_of(pages: u64) -> Option<f64> {
    Some((pages * PAGE_SIZE) as f64)
}

/// Returns a table with a caption; empty without rows. The first cell of each row is its name.
fn table(caption: &str, header: &[&str], rows: &[Vec<String>]) -> Markup {
    if rows.is_empty() {
        return Markup::default();
    }
    html! {
        div class="block scroll" {
            table { caption { (text(caption)) } (body(header, rows)) }
        }
        "\n"
    }
}

fn body(header: &[&str], rows: &[Vec<String>]) -> Markup {
    html! {
        thead { tr { @for head in header { th scope="col" { (text(head)) } } } }
        tbody {
            @for row in rows {
                tr {
                    th scope="row" { (text(&row[0])) }
                    @for cell in &row[1..] { td { (typeset(cell)) } }
                }
            }
        }
    }
}

fn waits(run: &RunResult) -> Markup {
    let header = [
        "calls of",
        "calls",
        "major",
        "slept",
        "for I/O",
        "iowait",
        "a call",
        "a sleep",
        "50%",
        "95%",
        "99%",
        "max",
        "ms/s",
        "paused",
        "no memory",
    ];
    let mut rows = Vec::new();
    let users = run.jobs.iter().filter_map(|job| Some((job, job.cache_use.as_ref()?)));
    let mut add = |name: &str, kinds: &mut dyn Iterator<Item = (&str, &CallStats)>, ns: u64| {
        let used = kinds.filter(|(_, stats)| stats.calls > 0);
        rows.extend(used.map(|(kind, stats)| wait_row(&format!("{name}: {kind}"), stats, ns)));
    };
    for (job, used) in users.clone() {
        add(&job.name, &mut used.kinds().into_iter(), job.end.since(job.start).get());
    }
    if users.count() > 1 {
        add("all", &mut shared_kinds(run, &cache_total(run)), run.elapsed.get());
    }
    table("Calls, and what they slept", &header, &rows)
}

fn wait_row(name: &str, stats: &CallStats, elapsed: u64) -> Vec<String> {
    let CallStats { calls, major, slept, iowait, paused, starved, .. } = stats;
    let time = |ns: f64| if iowait.count > 0 { span(ns) } else { "–".to_owned() };
    let at = |millionths| time(percentile(iowait, millionths) as f64);
    let sum = |count: u64, ns: f64| if count > 0 { span(ns) } else { "–".to_owned() };
    vec![
        name.to_owned(),
        grouped(*calls),
        grouped(*major),
        grouped(*slept),
        grouped(iowait.count),
        time(iowait.sum as f64),
        time(ratio(iowait.sum as f64, *calls as f64)),
        time(latency_mean(iowait)),
        at(500_000),
        at(950_000),
        at(990_000),
        time(iowait.max as f64),
        significant(ms_per_second(iowait.sum, elapsed), 3),
        sum(paused.count, paused.sum as f64),
        sum(starved.count, starved.ns as f64),
    ]
}

fn served(run: &RunResult) -> Markup {
    let rows: Vec<_> = ended_sleeps(&cache_total(run)).into_iter().map(Vec::from).collect();
    let header =
        ["sleeps ended by", "calls", "iowait", "a sleep", "of it queued", "in device", "queued %"];
    table("Bios that ended a sleep", &header, &rows)
}

/// Returns the sum over all tasks per window of time, for each kind of call that slept for I/O.
fn by_window(run: &RunResult, cache: &CacheResult) -> Markup {
    let header = [
        "from",
        "calls",
        "major",
        "slept",
        "for I/O",
        "iowait, µs",
        "iowait, ms",
        "a call",
        "a sleep",
        "50%",
        "95%",
        "99%",
        "max",
        "queued %",
        "RT",
    ];
    let all = cache_total(run);
    html! {
        @for (kind, stats) in all.kinds().into_iter().filter(|(_, stats)| stats.iowait.count > 0) {
            @let us = iowait_us_per_window(stats.iowait.sum, run.elapsed.get(), cache.window);
            @let rows: Vec<Vec<String>> = windows(stats).take(MAX_WINDOWS).map(window_row).collect();
            @let hidden = windows(stats).count() - rows.len();
            div class="block" {
                p {
                    b { (kind) } ": " (grouped(us.round() as u64)) " µs = " (significant(us / 1e3, 4))
                    " ms of iowait in a window of " (length(cache.window))
                    ", all tasks together; one sleep is " (typeset(&span(latency_mean(&stats.iowait)))) "."
                }
                details {
                    summary { "Windows of " (length(stats.windows.length())) }
                    div class="scroll" { table { (body(&header, &rows)) } }
                    @if hidden > 0 {
                        p class="soft" { (hidden) " more windows are in the JSON report." }
                    }
                }
            }
            "\n"
        }
    }
}

fn window_row((start, window): (Nanos, &Window)) -> Vec<String> {
    let ClassWaits { calls, iowait_ns, device_ns } = window.iowait();
    let time = |ns: f64| if calls > 0 { span(ns) } else { "–".to_owned() };
    let at = |millionths| time(window_percentile(window, millionths) as f64);
    let queued = 100.0 * ratio(iowait_ns.saturating_sub(device_ns) as f64, iowait_ns as f64);
    vec![
        length(start),
        grouped(window.calls),
        grouped(window.major),
        grouped(window.slept),
        grouped(calls),
        grouped(iowait_ns / 1000),
        significant(iowait_ns as f64 / 1e6, 4),
        time(ratio(iowait_ns as f64, window.calls as f64)),
        time(ratio(iowait_ns as f64, calls as f64)),
        at(500_000),
        at(950_000),
        at(990_000),
        time(window.iowait_ns_max as f64),
        format!("{queued:.0} %"),
        grouped(window.served[0].calls),
    ]
}

fn sources(cache: &CacheResult) -> Markup {
    let header =
        ["bios for", "bios", "bytes", "active", "in RT", "promoted", "raised", "demoted", "denied"];
    let rows: Vec<Vec<String>> = cache
        .sources
        .iter()
        .map(|source| {
            let counts = [source.rt, source.promoted, source.raised, source.demoted, source.denied]
                .map(grouped);
            let head = [
                source.name.clone(),
                grouped(source.bios),
                bytes_binary(source.bytes as f64),
                active_percent(source),
            ];
            head.into_iter().chain(counts).collect()
        })
        .collect();
    table("Bios to the device, by what they were for", &header, &rows)
}

fn counters(cache: &CacheResult) -> Markup {
    let vmstat = ("/proc/vmstat".to_owned(), cache.vmstat.clone());
    html! {
        div class="block" {
            details {
                summary { "Counters" }
                @for (name, counts) in [&vmstat].into_iter().chain(&cache.groups) {
                    table {
                        caption { (text(name)) }
                        tbody {
                            @for (key, count) in counts.iter().filter(|&&(_, count)| count > 0) {
                                (plain_row(key, [&grouped(*count)]))
                            }
                        }
                    }
                }
            }
        }
        "\n"
    }
}
