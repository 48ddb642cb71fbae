//! Sizes of I/Os.

use super::super::grammar;
use super::{LARGEST_BLOCK, OptionKind, OptionRow, row};

pub(super) const ROWS: &[OptionRow] = &[
    row(
        "bs",
        OptionKind::Directions(1, LARGEST_BLOCK, |d, list| d.bs(list)),
        "bytes",
        "4096",
        "size of an I/O, by direction",
    )
    .alias(&["blocksize"]),
    row(
        "bsrange",
        OptionKind::Text(grammar::bsrange),
        "bytes",
        "",
        "smallest and largest size, by direction",
    )
    .alias(&["blocksize_range"]),
    row(
        "bssplit",
        OptionKind::Text(grammar::bssplit),
        "bytes",
        "",
        "sizes with their shares in percent, by direction",
    ),
    row(
        "ba",
        OptionKind::Directions(1, LARGEST_BLOCK, |d, list| d.block_align(list)),
        "bytes",
        "bs",
        "alignment of random offsets, by direction",
    )
    .alias(&["blockalign"]),
];
