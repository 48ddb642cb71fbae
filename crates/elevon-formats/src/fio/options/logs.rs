//! Logs of a run.

use super::super::spec::WindowValue;
use super::{ANY, BOOL, COUNT, OptionKind, OptionRow, TEXT, row};
use crate::diagnostic::Complaint;

const PACKED: &str = "logs are plain text";
const EPOCH: &str = "times in logs count from the start of the run, so that a run can be repeated";

pub(super) const ROWS: &[OptionRow] = &[
    row(
        "write_bw_log",
        LogKind::BANDWIDTH,
        "",
        "",
        "bandwidth over time; the value is the file's prefix",
    ),
    row("write_iops_log", LogKind::IOPS, "", "", "IOPS over time"),
    row("write_lat_log", LogKind::LATENCY, "", "", "latencies over time"),
    row("write_hist_log", LogKind::HISTOGRAM, "", "", "latency histograms over time"),
    row(
        "log_avg_msec",
        OptionKind::Int(0, ANY, |d, n| d.spec.logs.average_ms = n),
        "ms",
        "0",
        "average over; 0: a line an I/O",
    ),
    row(
        "log_hist_msec",
        OptionKind::Int(0, ANY, |d, n| d.spec.logs.histogram_ms = n),
        "ms",
        "0",
        "time between histograms",
    ),
    row("log_hist_coarseness", COUNT, "", "0", "halve the bins this often")
        .no_effect("histograms keep all bins"),
    row(
        "log_max_value",
        OptionKind::Bool(|d, on| {
            d.spec.logs.window_value = if on { WindowValue::Maximum } else { WindowValue::Average };
        }),
        "",
        "0",
        "the largest rather than the mean",
    ),
    row(
        "log_window_value",
        OptionKind::Choice(&["avg", "max", "both"], |d, word| {
            d.spec.logs.window_value = match word {
                "max" => WindowValue::Maximum,
                "both" => WindowValue::Both,
                _ => WindowValue::Average,
            };
        }),
        "",
        "avg",
        "mean or largest latency of a window, or both in two columns",
    )
    .alias(&["log_window"]),
    row(
        "log_offset",
        OptionKind::Bool(|d, on| d.spec.logs.offset = on),
        "",
        "0",
        "the offset in each line",
    ),
    row(
        "log_prio",
        OptionKind::Bool(|d, on| d.spec.logs.prio = on),
        "",
        "0",
        "the priority in each line",
    ),
    row("log_issue_time", BOOL, "", "0", "the time of issue in each line")
        .no_effect("--trace has every issue"),
    row("log_entries", OptionKind::Int(1024, 1 << 20, |_, _| ()), "", "1024", "lines to reserve")
        .no_effect(PACKED),
    row(
        "log_compression",
        OptionKind::Int(1024, 512 << 20, |_, _| ()),
        "bytes",
        "",
        "pack logs in pieces",
    )
    .no_effect(PACKED),
    row("log_compression_cpus", TEXT, "", "", "CPUs that pack").no_effect(PACKED),
    row("log_store_compressed", BOOL, "", "0", "store packed logs").no_effect(PACKED),
    row("log_unix_epoch", BOOL, "", "0", "Unix time in logs").no_effect(EPOCH),
    row("log_alternate_epoch", BOOL, "", "0", "another clock's time in logs").no_effect(EPOCH),
    row("log_alternate_epoch_clock_id", COUNT, "", "0", "that clock").no_effect(EPOCH),
    row("per_job_logs", BOOL, "", "1", "a file for each job")
        .no_effect("each job has its own file"),
];

struct LogKind;

impl LogKind {
    const BANDWIDTH: OptionKind =
        OptionKind::OptionalText(|d, _, prefix| set(&mut d.spec.logs.bandwidth, prefix));
    const IOPS: OptionKind =
        OptionKind::OptionalText(|d, _, prefix| set(&mut d.spec.logs.iops, prefix));
    const LATENCY: OptionKind =
        OptionKind::OptionalText(|d, _, prefix| set(&mut d.spec.logs.latency, prefix));
    const HISTOGRAM: OptionKind =
        OptionKind::OptionalText(|d, _, prefix| set(&mut d.spec.logs.histogram, prefix));
}

/// Sets the prefix of a log's files. Without one, a prefix that was given before stays, as in fio.
fn set(prefix: &mut Option<String>, given: &str) -> Result<(), Complaint> {
    if prefix.is_none() || !given.is_empty() {
        *prefix = Some(given.to_owned());
    }
    Ok(())
}
