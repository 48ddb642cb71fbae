//! Job blocks, group status and disk statistics in the layout of fio's normal output.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use elevon_cache::stats::CallStats;
use elevon_core::ioprio::IoPrio;
use elevon_core::stats::{Direction, DirectionStats, LatencyStat};
use elevon_result::number::{bound, bytes_binary, bytes_decimal, count, date, rate_both};
use elevon_result::result::{JobResult, LatencyTarget, RunResult, SteadyState, UnifiedReporting};
use elevon_result::summary::{
    self, DiskDelta, GroupBandwidths, bandwidth, iops, latency_deviation, latency_mean, mixed,
    ratio, runtime_ms, sample_deviation, sample_mean,
};

use crate::steady::SteadyFigures;

/// Names of directions in job blocks, and the name of unified figures.
const NAMES: [&str; 3] = ["read", "write", "trim"];
const MIXED: &str = "mixed";
/// Maximum width of a line of percentiles.
const PERCENTILE_WIDTH: usize = 73;

/// Writes the headings of all jobs, then a block for each.
pub(super) fn jobs(out: &mut String, run: &RunResult) {
    for job in &run.jobs {
        let size = |at: usize| {
            let (min, max) = job.workload.block_sizes[at];
            format!("{}-{}", bytes_binary(min.get() as f64), bytes_binary(max.get() as f64))
        };
        let _ = writeln!(
            out,
            "{}: (g={}): rw={}, bs=(R) {}, (W) {}, (T) {}, ioengine={}, iodepth={}",
            job.name,
            job.group,
            job.workload.rw,
            size(0),
            size(1),
            size(2),
            job.workload.ioengine,
            job.workload.iodepth
        );
        if job.members > 1 {
            out.push_str("...\n");
        }
    }
    out.push('\n');
    let bandwidths = GroupBandwidths::from_run(run);
    for job in &run.jobs {
        job_block(out, run, job, &bandwidths);
    }
}

fn job_block(out: &mut String, run: &RunResult, job: &JobResult, bandwidths: &GroupBandwidths) {
    let stats = &job.stats;
    let _ = write!(
        out,
        "{}: (groupid={}, jobs={}): err={:2}",
        job.name, job.group, job.members, stats.error
    );
    if stats.error != 0 {
        let _ = write!(out, " ({})", job.error);
    }
    let _ = write!(out, ": pid={}", job.pid);
    // Virtual time has no date.
    if run.unix_ms > 0 {
        let _ = write!(out, ": {}", date(run.unix_ms));
    }
    out.push('\n');
    if !job.description.is_empty() {
        let _ = writeln!(out, "  Description  : [{}]", job.description);
    }
    for (at, name, figures) in shown_directions(job) {
        direction(out, job, name, &figures, bandwidths.get(job.group, at));
    }
    latency_distribution(out, &mixed(stats).clat);
    if stats.sync.count > 0 {
        out.push_str("  fsync/fdatasync/sync_file_range:\n");
        latency_line(out, "sync", &stats.sync);
        percentiles(out, "sync percentiles", &stats.sync, &job.percentiles);
    }
    levels(out, job);
}

/// Returns the directions in a job's block, as (index, or `None` for all together; name; figures).
fn shown_directions(job: &JobResult) -> Vec<(Option<usize>, &'static str, DirectionStats)> {
    let mut shown = Vec::new();
    if job.unified != UnifiedReporting::Mixed {
        for direction in Direction::ALL {
            let figures = &job.stats.directions[direction as usize];
            if figures.ios > 0 || figures.errors > 0 {
                shown.push((Some(direction as usize), NAMES[direction as usize], figures.clone()));
            }
        }
    }
    if job.unified != UnifiedReporting::Separate {
        shown.push((None, MIXED, mixed(&job.stats)));
    }
    shown
}

fn direction(
    out: &mut String,
    job: &JobResult,
    name: &str,
    figures: &DirectionStats,
    group_bandwidth: f64,
) {
    let _ = writeln!(
        out,
        "  {name}: IOPS={}, BW={}({}/{}msec){}",
        count(iops(figures).floor()),
        rate_both(bandwidth(figures)),
        bytes_binary(figures.bytes as f64),
        runtime_ms(figures.runtime_ns),
        if name == NAMES[1] { "; 0 zone resets" } else { "" }
    );
    for (label, stat) in [("slat", &figures.slat), ("clat", &figures.clat), (" lat", &figures.lat)]
    {
        latency_line(out, label, stat);
    }
    let priorities =
        if figures.by_priority.len() > 1 { figures.by_priority.as_slice() } else { &[] };
    // As in fio, with lat_percentiles=1 these are total latencies.
    let by_priority = if job.latency_percentiles.lat { "lat" } else { "clat" };
    for (prio, stat) in priorities {
        latency_line(out, &format!("{by_priority} prio {}", priority(*prio)), stat);
    }
    let wanted = job.latency_percentiles;
    for (on, label, stat) in [
        (wanted.slat, "slat", &figures.slat),
        (wanted.clat, "clat", &figures.clat),
        (wanted.lat, "lat", &figures.lat),
    ] {
        if on {
            percentiles(out, &format!("{label} percentiles"), stat, &job.percentiles);
        }
    }
    for (prio, stat) in priorities {
        let share = 100.0 * ratio(stat.count as f64, figures.clat.count as f64);
        let label =
            format!("{by_priority} prio {} ({share:.2}% of IOs) percentiles", priority(*prio));
        percentiles(out, &label, stat, &job.percentiles);
    }
    samples(out, figures, group_bandwidth);
    if figures.errors > 0 {
        let _ = writeln!(out, "   errors      : total={}", figures.errors);
    }
}

fn priority(prio: IoPrio) -> String {
    format!("{}/{}", prio.class() as u8, prio.level())
}

/// Returns the most readable unit for a range of nanoseconds: its name and its length in
/// nanoseconds.
fn unit(min: u64, max: u64, deviation: f64) -> (&'static str, u64) {
    let large_in = |unit: u64| min > 2 * unit && max >= 100 * unit && deviation > unit as f64;
    if large_in(1_000_000) {
        ("msec", 1_000_000)
    } else if large_in(1_000) {
        ("usec", 1_000)
    } else {
        ("nsec", 1)
    }
}

fn latency_line(out: &mut String, label: &str, stat: &LatencyStat) {
    if stat.count == 0 {
        return;
    }
    let deviation = latency_deviation(stat);
    let (name, divisor) = unit(stat.min, stat.max, deviation);
    let _ = writeln!(
        out,
        "    {label} ({name}): min={}, max={}, avg={:5.2}, stdev={:5.2}",
        bound(stat.min / divisor),
        bound(stat.max / divisor),
        latency_mean(stat) / divisor as f64,
        deviation / divisor as f64
    );
}

/// Returns the number of decimals that the percentiles need: two for 99.99, none for 50.
fn decimals(wanted: &[u32]) -> usize {
    let needed = |millionths: u32| {
        (0..4).find(|&d| millionths.is_multiple_of(10u32.pow(4 - d))).unwrap_or(4) as usize
    };
    wanted.iter().map(|&p| needed(p)).max().unwrap_or(0)
}

fn percentiles(out: &mut String, label: &str, stat: &LatencyStat, wanted: &[u32]) {
    if stat.count == 0 || wanted.is_empty() {
        return;
    }
    let values: Vec<u64> = wanted.iter().map(|&p| summary::percentile(stat, p)).collect();
    let largest = values.iter().copied().max().unwrap_or(0);
    let (name, divisor) = unit(values.iter().copied().min().unwrap_or(0), largest, f64::INFINITY);
    let width = largest.div_ceil(divisor).to_string().len().max(5);
    let decimals = decimals(wanted);
    // Two digits before the point, and a point if there are decimals. Without decimals there are
    // three digits, for the 100th percentile.
    let label_width = 3 + decimals;
    let per_line = (PERCENTILE_WIDTH / (decimals + 10 + width)).max(1);
    let _ = writeln!(out, "    {label} ({name}):");
    for (at, (&millionths, value)) in wanted.iter().zip(&values).enumerate() {
        out.push_str(if at % per_line == 0 { "     |" } else { "" });
        let _ = write!(
            out,
            " {:label_width$.decimals$}th=[{:width$}]",
            f64::from(millionths) / 1e4,
            value.div_ceil(divisor)
        );
        let last = at + 1 == wanted.len();
        out.push_str(if last || (at + 1) % per_line == 0 {
            if last { "\n" } else { ",\n" }
        } else {
            ","
        });
    }
}

/// Writes the lines of bandwidth and IOPS samples.
fn samples(out: &mut String, figures: &DirectionStats, group_bytes_per_second: f64) {
    let bw = &figures.bandwidth;
    if bw.count > 0 {
        let mean = sample_mean(bw);
        let share = (100.0 * ratio(mean * 1024.0, group_bytes_per_second)).min(100.0);
        let (name, divisor) = if mean > 1_048_576.0 { ("MiB/s", 1024) } else { ("KiB/s", 1) };
        let _ = writeln!(
            out,
            "   bw (  {name}): min={:5}, max={:5}, per={share:.2}%, avg={:5.2}, stdev={:5.2}, samples={}",
            bw.min / divisor,
            bw.max / divisor,
            mean / divisor as f64,
            sample_deviation(bw) / divisor as f64,
            bw.count
        );
    }
    let io = &figures.iops;
    if io.count > 0 {
        let _ = writeln!(
            out,
            "   iops        : min={:5}, max={:5}, avg={:5.2}, stdev={:5.2}, samples={}",
            io.min,
            io.max,
            sample_mean(io),
            sample_deviation(io),
            io.count
        );
    }
}

/// Names and upper bounds of fio's latency buckets: (unit, nanoseconds per unit, bounds).
pub(crate) const BUCKETS: [(&str, u64, &[u64]); 3] = [
    ("nsec", 1, &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000]),
    ("usec", 1_000, &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000]),
    ("msec", 1_000_000, &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000]),
];

/// Returns the counts of a latency in fio's buckets; the last msec bucket holds everything from 2 s
/// on. A histogram bin is counted at its middle, so the edge of a bucket is exact to 1/64.
pub(crate) fn bucket_counts(stat: &LatencyStat) -> [Vec<u64>; 3] {
    let mut counts = BUCKETS.map(|(_, _, bounds)| vec![0; bounds.len()]);
    counts[2].push(0);
    for (value, n) in stat.histogram.iter() {
        let of = usize::from(value >= 1_000) + usize::from(value >= 1_000_000);
        let (_, scale, bounds) = BUCKETS[of];
        let bucket = bounds.iter().position(|&b| value < b * scale).unwrap_or(bounds.len());
        counts[of][bucket] += n;
    }
    counts
}

fn latency_distribution(out: &mut String, stat: &LatencyStat) {
    for ((name, _, bounds), counts) in BUCKETS.iter().zip(bucket_counts(stat)) {
        let shown: Vec<String> = counts
            .iter()
            .enumerate()
            .filter(|&(_, &n)| n > 0)
            .map(|(at, &n)| {
                let share = (100.0 * ratio(n as f64, stat.count as f64)).max(0.01);
                match bounds.get(at) {
                    Some(bound) => format!("{bound}={share:.2}%"),
                    None => format!(">=2000={share:.2}%"),
                }
            })
            .collect();
        for line in shown.chunks(5) {
            let _ = writeln!(out, "  lat ({name})   : {}", line.join(", "));
        }
    }
}

/// Writes CPU usage, depths, and the number of I/Os.
fn levels(out: &mut String, job: &JobResult) {
    let stats = &job.stats;
    let faults = job.cache_use.as_ref().map(|used| &used.fault);
    let runtime = stats.run_ns as f64;
    let _ = writeln!(
        out,
        "  cpu          : usr={:.2}%, sys={:.2}%, ctx={}, majf={}, minf={}",
        100.0 * ratio(stats.cpu_user_ns as f64, runtime),
        100.0 * ratio((stats.cpu_ns - stats.cpu_user_ns) as f64, runtime),
        stats.context_switches,
        faults.map_or(0, |fault| fault.major),
        faults.map_or(0, CallStats::minor),
    );
    let depth_names = ["1", "2", "4", "8", "16", "32", ">=64"];
    let batch_names = ["0", "4", "8", "16", "32", "64", ">=64"];
    for (label, names, counts) in [
        ("  IO depths    ", depth_names, &stats.depth_levels),
        ("     submit    ", batch_names, &stats.submit_levels),
        ("     complete  ", batch_names, &stats.complete_levels),
    ] {
        let parts: Vec<String> = names
            .iter()
            .zip(shares(counts))
            .map(|(name, share)| format!("{name}={share:.1}%"))
            .collect();
        let _ = writeln!(out, "{label}: {}", parts.join(", "));
    }
    let directions = &stats.directions;
    let [r, w, t] = [0, 1, 2].map(|at| directions[at].ios);
    let [rs, ws, ts] = [0, 1, 2].map(|at| directions[at].short_ios);
    let _ = writeln!(
        out,
        "     issued rwts: total={r},{w},{t},{} short={rs},{ws},{ts},0 dropped=0,0,0,0",
        stats.sync.count
    );
    if stats.verified_bytes > 0 || stats.verify_errors > 0 {
        let _ = writeln!(
            out,
            "     verified   : {}, {} bad",
            bytes_binary(stats.verified_bytes as f64),
            count(stats.verify_errors as f64)
        );
    }
    if let Some(errors) = job.counted_errors.as_ref().filter(|errors| errors.total > 0) {
        let _ = writeln!(
            out,
            "     errors    : total={:5}, first_error={}/<{}>",
            errors.total, errors.first, errors.words
        );
    }
    let (target, window, percentile, depth) = match job.latency_target {
        Some(LatencyTarget { target, window, percentile, depth }) => {
            (target.get(), window.as_micros(), f64::from(percentile) / 1e6, depth)
        }
        None => (0, 0, 100.0, job.workload.depth),
    };
    let _ = writeln!(
        out,
        "     latency   : target={target}, window={window}, percentile={percentile:.2}%, depth={depth}"
    );
    if let Some(steady) = &job.steady {
        steady_line(out, steady);
    }
}

fn steady_line(out: &mut String, steady: &SteadyState) {
    let figures = SteadyFigures::from_steady(steady);
    let (metric, what) = match steady.criterion.split_once('_') {
        Some((metric, _)) => (metric, "slope"),
        None => (steady.criterion, "mean dev"),
    };
    let _ = writeln!(
        out,
        "  steadystate  : attained={}, bw={}/s ({}/s), iops={:.0}, {metric} {what}={:.3}{}",
        if steady.attained { "yes" } else { "no" },
        bytes_binary(figures.bandwidth_mean),
        bytes_decimal(figures.bandwidth_mean),
        figures.iops_mean,
        figures.criterion,
        if steady.percent { "%" } else { "" },
    );
}

/// Returns the percentage of each level; a share above 0 is shown as at least 0.1.
pub(crate) fn shares(counts: &[u64; 7]) -> [f64; 7] {
    let sum: u64 = counts.iter().sum();
    counts.map(|n| {
        let share = 100.0 * ratio(n as f64, sum as f64);
        if n > 0 { share.max(0.1) } else { share }
    })
}

/// Writes the status of each reporting group.
pub(super) fn groups(out: &mut String, run: &RunResult) {
    let mut groups: BTreeMap<u32, Vec<&JobResult>> = BTreeMap::new();
    run.jobs.iter().for_each(|job| groups.entry(job.group).or_default().push(job));
    for (group, jobs) in groups {
        let _ = writeln!(out, "\nRun status group {group} (all jobs):");
        let separate = jobs.iter().any(|job| job.unified != UnifiedReporting::Mixed);
        for (at, name) in ["   READ", "  WRITE", "   TRIM"].iter().enumerate().filter(|_| separate)
        {
            group_line(
                out,
                name,
                &jobs.iter().map(|job| job.stats.directions[at].clone()).collect::<Vec<_>>(),
            );
        }
        if jobs.iter().any(|job| job.unified != UnifiedReporting::Separate) {
            group_line(
                out,
                "  MIXED",
                &jobs.iter().map(|job| mixed(&job.stats)).collect::<Vec<_>>(),
            );
        }
    }
}

fn group_line(out: &mut String, name: &str, figures: &[DirectionStats]) {
    let active: Vec<&DirectionStats> = figures.iter().filter(|f| f.bytes > 0).collect();
    let bytes: u64 = active.iter().map(|f| f.bytes).sum();
    let (Some(longest), Some(shortest)) =
        (active.iter().map(|f| f.runtime_ns).max(), active.iter().map(|f| f.runtime_ns).min())
    else {
        return;
    };
    let rates = active.iter().map(|f| bandwidth(f));
    let (slow, fast) =
        rates.fold((f64::INFINITY, 0.0f64), |(slow, fast), rate| (slow.min(rate), fast.max(rate)));
    let _ = writeln!(
        out,
        "{name}: bw={}, {}/s-{}/s ({}/s-{}/s), io={} ({}), run={}-{}msec",
        rate_both(ratio(bytes as f64 * 1e9, longest as f64)),
        bytes_binary(slow),
        bytes_binary(fast),
        bytes_decimal(slow),
        bytes_decimal(fast),
        bytes_binary(bytes as f64),
        bytes_decimal(bytes as f64),
        runtime_ms(shortest),
        runtime_ms(longest)
    );
}

/// Writes the line of disk statistics; nothing for a file without a disk, as in fio.
pub(super) fn disk(out: &mut String, run: &RunResult) {
    let Some(name) = &run.disk.disk else { return };
    let delta = DiskDelta::between(&run.disk.start, &run.disk.end);
    let f = |number: usize| delta.fields[number - 1];
    let _ = writeln!(
        out,
        "\nDisk stats (read/write):\n  {}: ios={}/{}, merge={}/{}, ticks={}/{}, in_queue={}, util={:.2}%",
        name,
        f(1),
        f(5),
        f(2),
        f(6),
        f(4),
        f(8),
        f(11),
        delta.io_ticks_percent().min(100.0)
    );
}
