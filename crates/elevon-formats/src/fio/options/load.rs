//! Queue depth, rates, think times and the amount of I/O.

use super::super::grammar;
use super::{ANY, ANY_64_BIT, COUNT, MICROS, OptionKind, OptionRow, SECONDS, row};

/// Of one section; those of all sections are limited together, too.
const JOBS: u64 = crate::fio::MAX_JOBS;
/// More than any queue of Linux takes (aio-max-nr is 65,536 by default).
const DEPTH: u64 = 1 << 20;

pub(super) const ROWS: &[OptionRow] = &[
    row(
        "iodepth",
        OptionKind::Int(1, DEPTH, |d, n| d.depth = n as u32),
        "I/Os",
        "1",
        "I/Os kept in flight",
    ),
    row(
        "iodepth_batch",
        OptionKind::Int(0, ANY, |d, n| d.batch = n as u32),
        "I/Os",
        "1",
        "most I/Os in one submission; 0: iodepth",
    )
    .alias(&["iodepth_batch_submit"]),
    row(
        "iodepth_batch_complete_min",
        OptionKind::Int(0, ANY, |d, n| d.complete_min = n as u32),
        "I/Os",
        "1",
        "completions to wait for at a time; 0: only look",
    )
    .alias(&["iodepth_batch_complete"]),
    row(
        "iodepth_batch_complete_max",
        OptionKind::Int(0, ANY, |d, n| d.complete_max = Some(n as u32)),
        "I/Os",
        "iodepth_batch_complete_min",
        "completions to take at a time",
    ),
    row(
        "iodepth_low",
        OptionKind::Int(0, ANY, |d, n| d.low = Some(n as u32)),
        "I/Os",
        "iodepth",
        "refill when down to this",
    ),
    row(
        "serialize_overlap",
        OptionKind::Bool(|d, on| d.spec.queue.serialize_overlap = on),
        "",
        "0",
        "I/Os that overlap wait",
    ),
    row(
        "io_submit_mode",
        OptionKind::Choice(&["inline", "offload"], |d, word| {
            d.spec.queue.offload = word == "offload";
        }),
        "",
        "inline",
        "who submits: the job, or iodepth workers of it",
    ),
    row(
        "numjobs",
        OptionKind::Int(1, JOBS, |d, n| d.spec.numjobs = n as u32),
        "jobs",
        "1",
        "clones of the job",
    ),
    row(
        "loops",
        OptionKind::Int(0, ANY, |d, n| d.spec.timing.loops = n.max(1)),
        "",
        "1",
        "times over the region",
    ),
    row(
        "runtime",
        OptionKind::Time(SECONDS, |d, t| d.spec.timing.runtime = t),
        "s",
        "0",
        "end after this long",
    )
    .alias(&["timeout"]),
    row(
        "time_based",
        OptionKind::Flag(|d, on| d.spec.timing.time_based = on),
        "",
        "",
        "go on until runtime has passed",
    ),
    row(
        "ramp_time",
        OptionKind::Time(SECONDS, |d, t| d.spec.timing.ramp_time = t),
        "s",
        "0",
        "run this long before measuring",
    ),
    row(
        "startdelay",
        OptionKind::Text(grammar::startdelay),
        "s",
        "0",
        "start this much later, or a range to draw from",
    ),
    row(
        "thinktime",
        OptionKind::Time(MICROS, |d, t| d.spec.think.time = t),
        "us",
        "0",
        "idle between I/Os",
    ),
    row(
        "thinktime_spin",
        OptionKind::Time(MICROS, |d, t| d.spec.think.spin = t),
        "us",
        "0",
        "of it, CPU time",
    ),
    row(
        "thinktime_blocks",
        OptionKind::Int(0, ANY, |d, n| d.think_blocks = Some((n as u32).max(1))),
        "I/Os",
        "1",
        "I/Os between thoughts",
    ),
    row(
        "thinktime_blocks_type",
        OptionKind::Choice(&["complete", "issue"], |d, word| {
            d.spec.think.counts_issued = word == "issue";
        }),
        "",
        "complete",
        "whether issued or completed I/Os count",
    ),
    row(
        "thinktime_iotime",
        OptionKind::Time(SECONDS, |d, t| d.spec.think.io_time = t),
        "s",
        "0",
        "I/O time between thoughts",
    ),
    row("thinkcycles", COUNT, "", "0", "work between I/Os, in loops")
        .no_effect("use thinktime_spin, in microseconds"),
    row(
        "rate",
        OptionKind::Directions(0, ANY_64_BIT, |d, list| d.rate(list)),
        "bytes/s",
        "",
        "most bytes a second, by direction",
    ),
    row(
        "rate_iops",
        OptionKind::Directions(0, ANY_64_BIT, |d, list| d.rate_iops(list)),
        "1/s",
        "",
        "most I/Os a second, by direction",
    ),
    row(
        "rate_min",
        OptionKind::Directions(0, ANY_64_BIT, |d, list| d.rate_min(list)),
        "bytes/s",
        "",
        "fail below this, by direction",
    )
    .alias(&["ratemin"]),
    row(
        "rate_iops_min",
        OptionKind::Directions(0, ANY_64_BIT, |d, list| d.rate_iops_min(list)),
        "1/s",
        "",
        "fail below this",
    ),
    row(
        "rate_cycle",
        OptionKind::Int(0, ANY, |d, n| d.rate_cycle(n)),
        "ms",
        "1000",
        "span over which minima are averaged",
    )
    .alias(&["ratecycle"]),
    row(
        "rate_process",
        OptionKind::Choice(&["linear", "poisson"], |d, word| {
            d.spec.rates.poisson = word == "poisson";
        }),
        "",
        "linear",
        "arrivals of a rated job",
    ),
    row(
        "rate_ignore_thinktime",
        OptionKind::Bool(|d, on| d.spec.rates.ignore_think_time = on),
        "",
        "0",
        "don't catch up",
    ),
    row(
        "max_latency",
        OptionKind::Text(grammar::max_latency),
        "us",
        "0",
        "fail on an I/O slower than this, by direction",
    ),
    row(
        "latency_target",
        OptionKind::Time(MICROS, |d, t| d.latency.target = t),
        "us",
        "0",
        "find the greatest depth, up to iodepth, at which I/Os take no longer",
    ),
    row(
        "latency_window",
        OptionKind::Time(MICROS, |d, t| d.latency.window = t),
        "us",
        "0",
        "how long latency_target tries a depth; 0: for one I/O",
    ),
    row(
        "latency_percentile",
        OptionKind::Text(grammar::latency_percentile),
        "%",
        "100",
        "share that must meet it",
    ),
    row(
        "latency_run",
        OptionKind::Bool(|d, on| d.latency.run = on),
        "",
        "0",
        "go on when the depth is found, and adjust it",
    ),
    row(
        "steadystate",
        OptionKind::Text(grammar::steadystate),
        "",
        "iops_slope:0.01%",
        "end when this criterion is below its limit: iops, iops_slope, bw or bw_slope",
    )
    .alias(&["ss"]),
    row(
        "steadystate_duration",
        OptionKind::Time(SECONDS, |d, t| d.steady.duration = t),
        "s",
        "0",
        "window of steadystate; 0: it has no effect",
    )
    .alias(&["ss_dur"]),
    row(
        "steadystate_ramp_time",
        OptionKind::Time(SECONDS, |d, t| d.steady.ramp = t),
        "s",
        "0",
        "time before the first sample",
    )
    .alias(&["ss_ramp"]),
    row(
        "steadystate_check_interval",
        OptionKind::Time(SECONDS, |d, t| d.steady.interval = t),
        "s",
        "1",
        "time between samples",
    )
    .alias(&["ss_interval"]),
];
