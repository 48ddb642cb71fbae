//! Order in which jobs start and end.

use super::super::grammar;
use super::super::spec::ExitWhat;
use super::{COUNT, OptionKind, OptionRow, row};

const FLOW: &str = "jobs are not coupled by flow; give each its share with rate_iops=";

pub(super) const ROWS: &[OptionRow] = &[
    row("stonewall", OptionKind::Flag(|d, on| d.spec.stonewall = on), "", "", "start when all jobs before have ended")
        .alias(&["wait_for_previous"]),
    row("wait_for", OptionKind::Text(grammar::wait_for), "", "", "start when the named job has ended"),
    row("exitall", OptionKind::Flag(|d, on| d.spec.exitall = on), "", "", "the end of this job ends others"),
    row(
        "exit_what",
        OptionKind::Choice(&["group", "stonewall", "all"], |d, word| {
            d.spec.exit_what = match word {
                "stonewall" => ExitWhat::Stonewall,
                "all" => ExitWhat::All,
                _ => ExitWhat::Group,
            };
        }),
        "",
        "group",
        "what exitall ends",
    ),
    row(
        "exitall_on_error",
        OptionKind::Flag(|d, on| d.spec.exitall_on_error = on),
        "",
        "",
        "a job that fails ends all",
    ),
    row("flow", OptionKind::Int(-1, 1000, |_, _| ()), "", "0", "weight against jobs of the same flow").refused(FLOW),
    row("flow_id", COUNT, "", "0", "the flow it belongs to").no_effect(FLOW),
    row("flow_sleep", COUNT, "us", "0", "pause of a job ahead of its flow").no_effect(FLOW),
    row("flow_watermark", COUNT, "", "1024", "lead a job may have")
        .no_effect("fio itself removed it; use rate_iops= instead"),
];
