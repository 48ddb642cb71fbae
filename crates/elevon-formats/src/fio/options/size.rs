//! Sizes of I/Os.

use super::super::grammar;
use super::{Kind, LARGEST_BLOCK, Row, row};

pub(super) const ROWS: &[Row] = &[
    row(
        "bs",
        Kind::Directions(1, LARGEST_BLOCK, |d, list| d.bs(list)),
        "bytes",
        "4096",
        "size of an I/O, by direction",
    )
    .alias(&["blocksize"]),
    row("bsrange", Kind::Text(grammar::bsrange), "bytes", "", "smallest and largest size, by direction")
        .alias(&["blocksize_range"]),
    row("bssplit", Kind::Text(grammar::bssplit), "bytes", "", "sizes with their shares in percent, by direction"),
    row(
        "ba",
        Kind::Directions(1, LARGEST_BLOCK, |d, list| d.block_align(list)),
        "bytes",
        "bs",
        "alignment of random offsets, by direction",
    )
    .alias(&["blockalign"]),
];
