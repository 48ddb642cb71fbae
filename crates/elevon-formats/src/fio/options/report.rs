//! Measurements and reports, and the errors that do not end a job.

use super::super::grammar;
use super::super::spec::Unified;
use super::{BOOL, COUNT, OptionKind, OptionRow, TEXT, row};

const MEASURED: &str = "all latencies are measured in any case; it costs virtual time nothing";

pub(super) const ROWS: &[OptionRow] = &[
    row("description", OptionKind::Text(grammar::description), "", "", "text for the report"),
    row(
        "name",
        OptionKind::Text(grammar::name),
        "",
        "",
        "name of the job in place of the section's",
    ),
    row(
        "group_reporting",
        OptionKind::Flag(|d, on| d.spec.report.group_reporting = on),
        "",
        "",
        "one report for a group of jobs",
    ),
    row(
        "new_group",
        OptionKind::Flag(|d, on| d.spec.report.new_group = on),
        "",
        "",
        "a group starts here",
    ),
    row(
        "unified_rw_reporting",
        OptionKind::Choice(&["none", "mixed", "both", "0", "1", "2"], |d, word| {
            d.spec.report.unified = match word {
                "mixed" | "1" => Unified::Mixed,
                "both" | "2" => Unified::Both,
                _ => Unified::Separate,
            };
        }),
        "",
        "none",
        "report the directions as one",
    ),
    row(
        "percentile_list",
        OptionKind::Text(grammar::percentiles),
        "%",
        PERCENTILES,
        "percentiles to report, at most 20",
    ),
    row(
        "clat_percentiles",
        OptionKind::Bool(|d, on| d.spec.report.clat_percentiles = on),
        "",
        "1",
        "of completion latency",
    ),
    row(
        "lat_percentiles",
        OptionKind::Bool(|d, on| d.spec.report.lat_percentiles = on),
        "",
        "0",
        "of the whole latency",
    ),
    row(
        "slat_percentiles",
        OptionKind::Bool(|d, on| d.spec.report.slat_percentiles = on),
        "",
        "0",
        "of submission latency",
    ),
    row(
        "continue_on_error",
        OptionKind::Text(grammar::continue_on_error),
        "",
        "none",
        "errors that do not end the job",
    ),
    row(
        "ignore_error",
        OptionKind::Text(grammar::ignore_error),
        "",
        "",
        "errnos that do not end the job: READ,WRITE,VERIFY",
    ),
    row("error_dump", BOOL, "", "0", "print each error")
        .no_effect("errors are counted in the report"),
    row(
        "significant_figures",
        OptionKind::Int(1, 10, |_, _| ()),
        "",
        "4",
        "digits in the text report",
    )
    .no_effect("the text report prints as fio does by default; JSON has every digit"),
    row("disk_util", BOOL, "", "1", "report the disk's utilisation")
        .no_effect("the device's statistics are always there"),
    row("stats", BOOL, "", "1", "gather statistics").no_effect("every job is measured"),
    row("gtod_reduce", BOOL, "", "0", "read the clock less").no_effect(MEASURED),
    row("disable_lat", BOOL, "", "0", "no total latency").no_effect(MEASURED),
    row("disable_clat", BOOL, "", "0", "no completion latency").no_effect(MEASURED),
    row("disable_slat", BOOL, "", "0", "no submission latency").no_effect(MEASURED),
    row("disable_bw_measurement", BOOL, "", "0", "no bandwidth samples")
        .alias(&["disable_bw"])
        .no_effect(MEASURED),
    row("gtod_cpu", COUNT, "", "", "a CPU that only reads the clock").no_effect(MEASURED),
    row(
        "clocksource",
        OptionKind::Choice(&["gettimeofday", "clock_gettime", "cpu"], |_, _| ()),
        "",
        "",
        "which clock",
    )
    .no_effect("the run's clock is virtual, or the host's monotonic one"),
    row("job_start_clock_id", COUNT, "", "0", "clock of job_start in JSON")
        .no_effect("there is no clock in a report"),
    row("block_error_percentiles", BOOL, "", "0", "histogram of trim errors")
        .no_effect("errors are counted only"),
    row("bwavgtime", COUNT, "ms", "500", "window of bandwidth samples").no_effect(SAMPLES),
    row("iopsavgtime", COUNT, "ms", "500", "window of IOPS samples").no_effect(SAMPLES),
    row(
        "kb_base",
        OptionKind::Choice(&["1024", "1000"], |_, _| ()),
        "",
        "1024",
        "what k means in the options",
    ),
    row(
        "unit_base",
        OptionKind::Choice(&["0", "1", "8"], |_, _| ()),
        "",
        "0",
        "bits or bytes in the report",
    )
    .no_effect("reports are in bytes"),
    row("profile", TEXT, "", "", "a built-in workload").refused("write the workload as a job"),
];

const PERCENTILES: &str = "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99";
const SAMPLES: &str = "samples are taken every 500 ms of the run";
