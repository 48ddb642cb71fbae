//! Order in which jobs start and end.

use super::super::grammar;
use super::super::spec::ExitWhat;
use super::{ANY, COUNT, OptionKind, OptionRow, row};
use elevon_core::units::Nanos;

pub(super) const ROWS: &[OptionRow] = &[
    row(
        "stonewall",
        OptionKind::Flag(|d, on| d.spec.order.stonewall = on),
        "",
        "",
        "start when all jobs before have ended",
    )
    .alias(&["wait_for_previous"]),
    row(
        "wait_for",
        OptionKind::Text(grammar::wait_for),
        "",
        "",
        "start when the named job has ended",
    ),
    row(
        "exitall",
        OptionKind::Flag(|d, on| d.spec.order.exitall = on),
        "",
        "",
        "of any job: the end of one ends others",
    ),
    row(
        "exit_what",
        OptionKind::Choice(&["group", "stonewall", "all"], |d, word| {
            d.spec.order.exit_what = match word {
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
        OptionKind::Flag(|d, on| d.spec.order.exitall_on_error = on),
        "",
        "",
        "a job that fails ends all",
    ),
    row(
        "flow",
        OptionKind::Int(0, 1000, |d, n| d.flow.weight = n as u32),
        "",
        "0",
        "weight: jobs of a flow do I/Os in this proportion",
    ),
    row(
        "flow_id",
        OptionKind::Int(0, ANY, |d, n| d.flow.id = n as u32),
        "",
        "0",
        "the flow it belongs to",
    ),
    row(
        "flow_sleep",
        OptionKind::Int(0, ANY, |d, n| d.flow.sleep = Nanos::from_micros(n)),
        "us",
        "0",
        "pause of a job ahead of its flow",
    ),
    row("flow_watermark", COUNT, "", "1024", "lead a job may have")
        .no_effect("fio itself removed it; a job of a flow is at most one I/O ahead of its share"),
];
