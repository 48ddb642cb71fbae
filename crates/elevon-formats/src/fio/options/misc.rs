//! Traces as jobs, data placement, and options of fio's built-in profiles.

use super::super::grammar;
use super::{BOOL, COUNT, FLAG, OptionKind, OptionRow, TEXT, TIME, row};

const REPLAY: &str = "it belongs to read_iolog, which is not supported in a job";
const PLACEMENT: &str = "placement of data is not modelled";
const PROFILE: &str = "it belongs to profile=, without which fio does nothing with it";

pub(super) const ROWS: &[OptionRow] = &[
    row("read_iolog", TEXT, "", "", "replay a log")
        .refused("a job makes its own I/O; `elevon replay FILE` does that of a log"),
    row("write_iolog", TEXT, "", "", "log the job's I/O")
        .no_effect("use --trace FILE, which has every event"),
    row("read_iolog_chunked", BOOL, "", "0", "read the log piece by piece").no_effect(REPLAY),
    row("replay_no_stall", BOOL, "", "0", "replay without waiting").no_effect(REPLAY),
    row("replay_redirect", TEXT, "", "", "replay onto one device").no_effect(REPLAY),
    row("replay_scale", COUNT, "", "1", "divide offsets").no_effect(REPLAY),
    row("replay_align", COUNT, "bytes", "0", "align offsets").no_effect(REPLAY),
    row("replay_time_scale", OptionKind::Int(1, super::ANY, |_, _| ()), "%", "100", "stretch time")
        .no_effect(REPLAY),
    row("replay_skip", TEXT, "", "", "directions to leave out").no_effect(REPLAY),
    row("merge_blktrace_file", TEXT, "", "", "merged traces").no_effect(REPLAY),
    row(
        "merge_blktrace_scalars",
        OptionKind::Text(grammar::floats),
        "%",
        "100",
        "time scale of each",
    )
    .no_effect(REPLAY),
    row("merge_blktrace_iters", OptionKind::Text(grammar::floats), "", "1", "repeats of each")
        .no_effect(REPLAY),
    row("fdp", BOOL, "", "0", "flexible data placement").no_effect(PLACEMENT),
    row("fdp_pli", TEXT, "", "", "placement identifiers").alias(&["plids"]).no_effect(PLACEMENT),
    row("fdp_pli_select", TEXT, "", "roundrobin", "choice among them")
        .alias(&["plid_select"])
        .no_effect(PLACEMENT),
    row(
        "dataplacement",
        OptionKind::Choice(&["none", "fdp", "streams"], |_, _| ()),
        "",
        "none",
        "kind of placement",
    )
    .no_effect(PLACEMENT),
    row("dp_scheme", TEXT, "", "", "file that maps ranges to identifiers").no_effect(PLACEMENT),
    row("device-names", TEXT, "", "", "devices of the act profile").no_effect(PROFILE),
    row("load", COUNT, "", "", "load of the act profile").no_effect(PROFILE),
    row("test-duration", TIME, "s", "", "duration of the act profile").no_effect(PROFILE),
    row("threads-per-queue", COUNT, "", "", "threads of the act profile").no_effect(PROFILE),
    row("read-req-num-512-blocks", COUNT, "", "", "size of reads of the act profile")
        .no_effect(PROFILE),
    row("large-block-op-kbytes", COUNT, "", "", "large operations of the act profile")
        .no_effect(PROFILE),
    row("prep", FLAG, "", "", "prepare for the act profile").no_effect(PROFILE),
    row("block", COUNT, "", "", "block size of the tiobench profile").no_effect(PROFILE),
    row("numruns", COUNT, "", "", "runs of the tiobench profile").no_effect(PROFILE),
    row("dir", TEXT, "", "", "directory of the tiobench profile").no_effect(PROFILE),
    row("threads", COUNT, "", "", "threads of the tiobench profile").no_effect(PROFILE),
];
