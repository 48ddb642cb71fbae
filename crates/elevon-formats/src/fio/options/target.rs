//! The target of a job's I/O: files, region, engine.

use super::super::grammar;
use super::super::spec::{Amount, Fadvise};
use super::{ANY, ANY_64_BIT, BOOL, COUNT, OptionKind, OptionRow, TEXT, row};

const CREATION: &str =
    "files and devices are taken as they are; a simulated device has none to create";
const UNCACHED: &str = "what it reads and writes stays in the page cache";
const ZONES: &str = "it belongs to zonemode=zbd, and zoned devices are not supported";

pub(super) const ROWS: &[OptionRow] = &[
    row(
        "filename",
        OptionKind::Text(grammar::filename),
        "",
        "",
        "files or devices, with colons between (`\\:` for a colon)",
    ),
    row("directory", OptionKind::Text(grammar::directory), "", "", "directory of the files"),
    row("filename_format", TEXT, "", "$jobname.$jobnum.$filenum", "name of a made-up file")
        .no_effect("jobs without filename= run on the device"),
    row("unique_filename", BOOL, "", "1", "name files after the network client")
        .no_effect("there are no network clients"),
    row("opendir", TEXT, "", "", "all files below a directory")
        .refused("name the files in filename="),
    row(
        "lockfile",
        OptionKind::Choice(&["none", "exclusive", "readwrite"], |_, _| ()),
        "",
        "none",
        "lock files around I/O",
    )
    .no_effect("files are not locked"),
    row(
        "nrfiles",
        OptionKind::Int(0, ANY, |d, n| d.spec.files.count = (n as u32).max(1)),
        "files",
        "1",
        "files of the job",
    )
    .alias(&["nr_files"]),
    row("openfiles", COUNT, "files", "nrfiles", "files open at a time")
        .no_effect("all files of a job stay open"),
    row(
        "file_service_type",
        OptionKind::Text(grammar::file_service),
        "",
        "roundrobin",
        "which file is next; `:N` I/Os on each",
    ),
    row(
        "size",
        OptionKind::Amount(|d, n| d.spec.space.size = nonzero(n)),
        "bytes",
        "",
        "bytes of the region, or a share of the device",
    ),
    row(
        "io_size",
        OptionKind::Amount(|d, n| d.spec.space.io_size = nonzero(n)),
        "bytes",
        "size",
        "bytes to move",
    )
    .alias(&["io_limit"]),
    row(
        "filesize",
        OptionKind::Text(grammar::filesize),
        "bytes",
        "",
        "size of a file, or a range of sizes",
    ),
    row("file_append", BOOL, "", "0", "start at the end of the file")
        .refused("give the offset with offset="),
    row(
        "offset",
        OptionKind::Amount(|d, n| d.spec.space.offset = n),
        "bytes",
        "0",
        "where the region starts",
    )
    .alias(&["fileoffset"]),
    row(
        "offset_increment",
        OptionKind::Amount(|d, n| d.spec.space.offset_increment = n),
        "bytes",
        "0",
        "more offset for every clone",
    ),
    row(
        "offset_align",
        OptionKind::Int(0, ANY_64_BIT, |d, n| d.spec.space.offset_align = n),
        "bytes",
        "0",
        "alignment of a percent offset",
    ),
    row(
        "number_ios",
        OptionKind::Int(0, ANY_64_BIT, |d, n| d.spec.timing.number_ios = (n > 0).then_some(n)),
        "I/Os",
        "0",
        "stop after these",
    ),
    row("direct", OptionKind::Bool(|d, on| d.direct(on)), "", "0", "bypass the page cache"),
    row(
        "buffered",
        OptionKind::Bool(|d, on| d.direct(!on)),
        "",
        "1",
        "go through the page cache: the opposite of direct",
    ),
    row(
        "atomic",
        OptionKind::Bool(|d, on| d.spec.durability.atomic = on),
        "",
        "0",
        "writes that are never torn (RWF_ATOMIC)",
    ),
    row(
        "ioengine",
        OptionKind::Text(grammar::ioengine),
        "",
        "psync",
        "how a process waits for its I/O",
    ),
    row(
        "zonemode",
        OptionKind::Text(grammar::zonemode),
        "",
        "none",
        "`strided`: I/O stays in one zone until zonesize bytes were moved",
    ),
    row(
        "zonesize",
        OptionKind::Int(0, ANY_64_BIT, |d, n| d.zones.size = n),
        "bytes",
        "0",
        "bytes to move in a zone before the next one",
    ),
    row("zonecapacity", COUNT64, "bytes", "0", "capacity of a zone").no_effect(ZONES),
    row(
        "zonerange",
        OptionKind::Int(0, ANY_64_BIT, |d, n| d.zones.range = n),
        "bytes",
        "zonesize",
        "length of a zone",
    ),
    row(
        "zoneskip",
        OptionKind::Text(grammar::zoneskip),
        "bytes",
        "0",
        "gap between zones; `Nz`: N times zonesize",
    ),
    row("read_beyond_wp", BOOL, "", "0", "read past a write pointer").no_effect(ZONES),
    row("max_open_zones", OptionKind::Int(0, 4096, |_, _| ()), "zones", "0", "open zones at most")
        .no_effect(ZONES),
    row(
        "job_max_open_zones",
        OptionKind::Int(0, 4096, |_, _| ()),
        "zones",
        "0",
        "open zones of a job",
    )
    .no_effect(ZONES),
    row("ignore_zone_limits", BOOL, "", "0", "ignore the device's zone limits").no_effect(ZONES),
    row("zone_reset_threshold", TEXT, "", "", "share of written blocks that triggers resets")
        .no_effect(ZONES),
    row("zone_reset_frequency", TEXT, "", "", "how often zones are reset").no_effect(ZONES),
    row("recover_zbd_write_error", BOOL, "", "0", "repair write pointers after errors")
        .no_effect(ZONES),
    row(
        "fallocate",
        OptionKind::Choice(&["none", "native", "posix", "keep", "truncate", "0", "1"], |_, _| ()),
        "",
        "native",
        "how file space is reserved",
    )
    .no_effect(CREATION),
    row("create_serialize", BOOL, "", "1", "create files one after the other").no_effect(CREATION),
    row("create_fsync", BOOL, "", "1", "sync files after creation").no_effect(CREATION),
    row("create_on_open", BOOL, "", "0", "create files when first opened").no_effect(CREATION),
    row("create_only", BOOL, "", "0", "create files and end")
        .refused("a run does its I/O; leave it out"),
    row("allow_file_create", BOOL, "", "1", "may create files").no_effect(CREATION),
    row("allow_mounted_write", BOOL, "", "0", "may write to a mounted device")
        .no_effect("what may be written to is what the command line names"),
    row("unlink", BOOL, "", "0", "remove files afterwards").no_effect("nothing is removed"),
    row("unlink_each_loop", BOOL, "", "0", "remove files after each loop")
        .no_effect("nothing is removed"),
    row(
        "pre_read",
        OptionKind::Bool(|d, on| d.spec.caching.pre_read = on),
        "",
        "0",
        "read files into the page cache first",
    ),
    row(
        "invalidate",
        OptionKind::Bool(|d, on| d.spec.caching.invalidate = on),
        "",
        "1",
        "drop files from the page cache first",
    ),
    row(
        "fadvise_hint",
        OptionKind::Choice(&["0", "1", "random", "sequential"], |d, word| {
            d.spec.caching.fadvise = match word {
                "0" => Fadvise::None,
                "random" => Fadvise::Random,
                "sequential" => Fadvise::Sequential,
                _ => Fadvise::ByWorkload,
            };
        }),
        "",
        "1",
        "what to tell the page cache of the pattern",
    ),
    row("uncached", COUNT, "", "0", "buffered I/O that leaves no cache behind")
        .no_effect(UNCACHED)
        .of(&["pvsync2", "io_uring", "io_uring_cmd"]),
    row(
        "filetype",
        OptionKind::Choice(&["file", "dir"], |_, _| ()),
        "",
        "file",
        "what the file engines create",
    )
    .no_effect("the file engines are not supported")
    .of(&["filecreate", "filestat", "filedelete", "dircreate", "dirstat", "dirdelete"]),
    row("thp", COUNT, "", "", "huge pages for mmap")
        .no_effect("mapped pages are 4 KiB")
        .of(&["mmap"]),
];

const COUNT64: OptionKind = OptionKind::Int(0, ANY_64_BIT, |_, _| ());

/// Returns `None` for 0, which in fio means "not given".
fn nonzero(amount: Amount) -> Option<Amount> {
    (amount != Amount::Bytes(0)).then_some(amount)
}
