//! I/O priorities.

use super::super::grammar;
use super::{OptionKind, OptionRow, row};

/// The engines that can set a priority for each I/O.
const COMMANDS: &[&str] = &["libaio", "io_uring", "io_uring_cmd"];

pub(super) const ROWS: &[OptionRow] = &[
    row("prio", OptionKind::Int(0, 7, |d, n| d.prio = Some(n as u8)), "", "", "level, 0 is best"),
    row(
        "prioclass",
        OptionKind::Int(0, 3, |d, n| d.prio_class = Some(n as u8)),
        "",
        "",
        "1 real time, 2 best effort, 3 idle",
    ),
    row(
        "priohint",
        OptionKind::Int(0, 1023, |d, n| d.prio_hint = n as u16),
        "",
        "0",
        "hint for the device",
    ),
    row(
        "cmdprio_percentage",
        OptionKind::Directions(0, 100, |d, list| d.command_prio.percentage(list)),
        "%",
        "0",
        "share of I/Os, of reads and of writes, that get cmdprio",
    )
    .of(COMMANDS),
    row(
        "cmdprio_class",
        OptionKind::Directions(1, 3, |d, list| d.command_prio.class(list)),
        "",
        "1",
        "class of those, for reads and writes",
    )
    .of(COMMANDS),
    row(
        "cmdprio",
        OptionKind::Directions(0, 7, |d, list| d.command_prio.level(list)),
        "",
        "0",
        "level of those",
    )
    .of(COMMANDS),
    row(
        "cmdprio_hint",
        OptionKind::Directions(0, 1023, |d, list| d.command_prio.hint(list)),
        "",
        "0",
        "hint of those",
    )
    .of(COMMANDS),
    row(
        "cmdprio_bssplit",
        OptionKind::Text(grammar::command_prio_split),
        "",
        "",
        "shares by block size, of reads and of writes: SIZE/PERCENT[/CLASS/LEVEL[/HINT]]",
    )
    .of(COMMANDS),
];
