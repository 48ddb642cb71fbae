//! Content checks, in real runs.

use super::super::grammar;
use super::super::grammar::VERIFY_METHODS;
use super::{ANY_64_BIT, BOOL, COUNT, OptionKind, OptionRow, TEXT, row};

const STATE: &str = "the state of a check is not kept between runs";
const TRIMS: &str = "it belongs to trim_percentage, which is not supported";
const SEQUENCE: &str = "headers hold the offset and a checksum only";

pub(super) const ROWS: &[OptionRow] = &[
    row(
        "verify",
        OptionKind::Choice(VERIFY_METHODS, grammar::verify),
        "",
        "0",
        "how written data is checked",
    ),
    row(
        "do_verify",
        OptionKind::Bool(|d, on| d.spec.verify.after_write = on),
        "",
        "1",
        "read back after the write phase",
    ),
    row(
        "verify_only",
        OptionKind::Flag(|d, on| d.spec.verify.only = on),
        "",
        "",
        "only check what an earlier run wrote",
    ),
    row(
        "verify_interval",
        OptionKind::Int(80, super::ANY, |d, n| d.spec.verify.interval = n),
        "bytes",
        "",
        "a header every so much",
    ),
    row(
        "verify_pattern",
        OptionKind::Text(grammar::verify_pattern),
        "",
        "",
        "bytes to write and to expect; `%o` is the block's offset",
    ),
    row(
        "verify_fatal",
        OptionKind::Bool(|d, on| d.spec.verify.fatal = on),
        "",
        "0",
        "the first mismatch ends the job",
    ),
    row(
        "verify_backlog",
        OptionKind::Int(0, ANY_64_BIT, |d, n| d.spec.verify.backlog = n),
        "writes",
        "0",
        "check after this many writes",
    ),
    row("verify_backlog_batch", COUNT, "writes", "verify_backlog", "blocks to check at a time")
        .no_effect("the whole backlog is checked"),
    row(
        "verify_offset",
        OptionKind::Int(40, super::ANY, |_, _| ()),
        "bytes",
        "0",
        "place of the header",
    )
    .no_effect("the header stands at the start of a block"),
    row("verify_pattern_interval", COUNT, "bytes", "0", "renew `%o` this often")
        .no_effect("`%o` is the offset of the whole block"),
    row("verify_dump", BOOL, "", "0", "write bad blocks to files")
        .no_effect("a mismatch is reported with its offset"),
    row("verify_async", COUNT, "threads", "0", "threads that check")
        .no_effect("a job checks its own blocks"),
    row("verify_async_cpus", TEXT, "", "", "CPUs of those")
        .no_effect("a job checks its own blocks"),
    row("verify_header_seed", BOOL, "", "1", "check the header's seed").no_effect(SEQUENCE),
    row("verify_write_sequence", BOOL, "", "1", "check the order of writes").no_effect(SEQUENCE),
    row("verify_state_save", BOOL, "", "1", "save the state at the end").no_effect(STATE),
    row("verify_state_load", BOOL, "", "0", "load the state at the start").no_effect(STATE),
    row("experimental_verify", BOOL, "", "0", "replay the job to check it")
        .no_effect("checks read each block once"),
    row(
        "trim_percentage",
        OptionKind::Int(0, 100, |_, _| ()),
        "%",
        "0",
        "share of checked blocks to trim",
    )
    .refused("use rw=randtrim in a job beside it"),
    row("trim_verify_zero", BOOL, "", "1", "trimmed blocks must read as zeroes").no_effect(TRIMS),
    row(
        "trim_backlog",
        OptionKind::Int(0, ANY_64_BIT, |_, _| ()),
        "writes",
        "0",
        "trim after this many writes",
    )
    .no_effect(TRIMS),
    row("trim_backlog_batch", COUNT, "writes", "0", "trims at a time").no_effect(TRIMS),
];
