//! Direction, order and mix of a job's I/O.

use super::super::grammar;
use super::{BOOL, OptionKind, OptionRow, row};

pub(super) const ROWS: &[OptionRow] = &[
    row(
        "rw",
        OptionKind::Text(grammar::rw),
        "",
        "read",
        "direction and order; `:N` gives I/Os per offset, or a gap",
    )
    .alias(&["readwrite"]),
    row(
        "rwmixread",
        OptionKind::Int(0, 100, |d, n| d.mix_read(n)),
        "%",
        "50",
        "share of reads in a mix",
    ),
    row(
        "rwmixwrite",
        OptionKind::Int(0, 100, |d, n| d.mix_read(100 - n)),
        "%",
        "50",
        "share of writes in a mix",
    ),
    row(
        "rw_sequencer",
        OptionKind::Choice(&["sequential", "identical"], |d, word| {
            d.spec.rw.sequencer_identical = word == "identical";
        }),
        "",
        "sequential",
        "whether the N I/Os of `rw=...:N` go on from the offset or repeat it",
    ),
    row(
        "percentage_random",
        OptionKind::Directions(0, 100, |d, list| d.percentage_random(list)),
        "%",
        "100",
        "share of random offsets in a random job, by direction",
    ),
    row(
        "norandommap",
        OptionKind::Flag(|d, on| d.spec.random.norandommap = on),
        "",
        "",
        "blocks may repeat before all were visited",
    ),
    row("softrandommap", BOOL, "", "0", "go on without a map where it takes too much memory")
        .no_effect("the map of visited blocks always fits"),
    row(
        "random_generator",
        OptionKind::Choice(&["tausworthe", "lfsr", "tausworthe64"], |_, _| ()),
        "",
        "tausworthe",
        "generator of random offsets",
    )
    .no_effect("offsets come from Elevon's own generator, with the same distribution and coverage"),
    row("sprandom", BOOL, "", "0", "random writes that leave a drive preconditioned in one pass")
        .refused("use rw=randwrite with loops=2, which takes two passes"),
    row("spr_num_regions", super::COUNT, "", "100", "regions of sprandom")
        .no_effect("it belongs to sprandom"),
    row("spr_op", super::TEXT, "%", "0.15", "over-provisioning that sprandom assumes")
        .no_effect("it belongs to sprandom"),
    row("spr_cs", super::COUNT, "bytes", "0", "cache size that sprandom assumes")
        .no_effect("it belongs to sprandom"),
    row(
        "bs_unaligned",
        OptionKind::Flag(|d, on| d.spec.blocks.unaligned = on),
        "",
        "",
        "sizes need not be multiples of the least",
    )
    .alias(&["blocksize_unaligned"]),
    row(
        "bs_is_seq_rand",
        OptionKind::Bool(|d, on| d.bs_is_seq_rand = on),
        "",
        "0",
        "bs gives sequential,random sizes",
    ),
    row(
        "num_range",
        OptionKind::Int(1, MAX_RANGES, |d, n| d.spec.blocks.trim_ranges = n as u32),
        "",
        "1",
        "ranges in one trim",
    ),
    row(
        "fill_device",
        OptionKind::Bool(|d, on| d.spec.space.fill_device = on),
        "",
        "0",
        "without size=, go on to the end of the device, once",
    )
    .alias(&["fill_fs"]),
    row(
        "overwrite",
        OptionKind::Bool(|d, on| d.spec.caching.overwrite = on),
        "",
        "0",
        "lay files out before writing them",
    ),
    row(
        "zero_buffers",
        OptionKind::Flag(|d, on| d.spec.content.zeroes = on),
        "",
        "",
        "buffers of zeroes",
    ),
    row(
        "refill_buffers",
        OptionKind::Flag(|d, on| d.spec.content.refill = on),
        "",
        "",
        "new content for every write",
    ),
    row("scramble_buffers", BOOL, "", "1", "change buffers a little between writes").no_effect(
        "content has no bearing on a simulated device; use refill_buffers on a real one",
    ),
    row(
        "buffer_pattern",
        OptionKind::Text(grammar::buffer_pattern),
        "",
        "",
        "bytes that fill the buffers",
    ),
    row(
        "buffer_compress_percentage",
        OptionKind::Int(0, 100, |_, _| ()),
        "%",
        "",
        "how compressible content is",
    )
    .no_effect(CONTENT),
    row("buffer_compress_chunk", super::COUNT, "bytes", "512", "size of a compressible piece")
        .no_effect(CONTENT),
    row(
        "dedupe_percentage",
        OptionKind::Int(0, 100, |_, _| ()),
        "%",
        "",
        "share of repeated buffers",
    )
    .no_effect(CONTENT),
    row(
        "dedupe_mode",
        OptionKind::Choice(&["repeat", "working_set"], |_, _| ()),
        "",
        "repeat",
        "which buffers repeat",
    )
    .no_effect(CONTENT),
    row(
        "dedupe_working_set_percentage",
        OptionKind::Int(0, 100, |_, _| ()),
        "%",
        "5",
        "size of the set that repeats",
    )
    .no_effect(CONTENT),
    row("dedupe_global", BOOL, "", "0", "repeats are shared between jobs").no_effect(CONTENT),
];

/// What one command of NVMe takes.
const MAX_RANGES: u64 = 256;
const CONTENT: &str = "how well content compresses or repeats has no bearing on the block layer";
