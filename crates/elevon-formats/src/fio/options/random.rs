//! Random sequences and distributions of offsets.

use super::super::grammar;
use super::{OptionKind, OptionRow, row};

pub(super) const ROWS: &[OptionRow] = &[
    row(
        "randrepeat",
        OptionKind::Bool(|d, on| d.spec.random.repeat = on),
        "",
        "1",
        "the same offsets on every run with the same `--seed`",
    ),
    row(
        "allrandrepeat",
        OptionKind::Bool(|d, on| d.spec.random.repeat_all = on),
        "",
        "0",
        "the same everything on every run with the same `--seed`",
    ),
    row(
        "randseed",
        OptionKind::Int(0, u64::MAX, |d, n| d.spec.random.seed = Some(n)),
        "",
        "",
        "seed of the job's sequences",
    )
    .alias(&["random_seed"]),
    row(
        "random_distribution",
        OptionKind::Text(grammar::distribution),
        "",
        "random",
        "where random offsets fall",
    ),
    row(
        "random_sequence_stride",
        OptionKind::Bool(|d, on| d.sequence_stride = on),
        "",
        "0",
        "each round of random_distribution=sequence: is as much further on as it has blocks",
    ),
];
