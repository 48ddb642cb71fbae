//! Durability of writes.

use super::super::grammar;
use super::super::spec::SyncMode;
use super::{ANY, COUNT, OptionKind, OptionRow, row};

pub(super) const ROWS: &[OptionRow] = &[
    row(
        "fsync",
        OptionKind::Int(0, ANY, |d, n| d.spec.durability.fsync = n as u32),
        "writes",
        "0",
        "sync after this many writes",
    ),
    row(
        "fdatasync",
        OptionKind::Int(0, ANY, |d, n| d.spec.durability.fdatasync = n as u32),
        "writes",
        "0",
        "likewise, data only",
    ),
    row(
        "sync_file_range",
        OptionKind::Text(grammar::sync_file_range),
        "writes",
        "",
        "sync what was written, in part: wait_before,write,wait_after:N",
    ),
    row(
        "end_fsync",
        OptionKind::Bool(|d, on| d.spec.durability.end_fsync = on),
        "",
        "0",
        "sync at the end of each loop, before what it wrote is read back",
    ),
    row(
        "fsync_on_close",
        OptionKind::Bool(|d, on| d.spec.durability.fsync_on_close = on),
        "",
        "0",
        "sync when a file is closed",
    ),
    row(
        "sync",
        OptionKind::Choice(&["none", "0", "sync", "1", "dsync"], |d, word| {
            d.spec.durability.sync = match word {
                "sync" | "1" => SyncMode::Sync,
                "dsync" => SyncMode::Dsync,
                _ => SyncMode::None,
            };
        }),
        "",
        "none",
        "every write is durable when it completes",
    ),
    row("write_barrier", COUNT, "writes", "0", "make every Nth write a barrier")
        .no_effect("Linux has no barrier writes since 2.6.37; use fsync= or sync=dsync"),
];
