//! Options with a grammar of their own.

use super::draft::{Draft, Skip};
use super::engine::{Behaviour, find_engine};
use super::number::{Scan, Unit, by_direction, decimal};
use super::spec::{FileService, Rw, SteadyMetric, SyncFileRange, VerifyMethod};
use crate::diagnostic::{Complaint, Problem};
use elevon_core::nearest::nearest;
use elevon_core::units::Nanos;

mod errors;
mod pattern;
mod shares;

pub(super) use errors::{continue_on_error, ignore_error};
pub(super) use pattern::{buffer_pattern, verify_pattern};
pub(super) use shares::{bssplit, command_prio_split, distribution};

const DIRECTIONS: &[(&str, Rw)] = {
    const fn mode(read: bool, write: bool, trim: bool, random: bool) -> Rw {
        Rw {
            read,
            write,
            trim,
            random,
            trim_then_write: write && trim,
            mix_read: 50,
            ios_per_offset: 1,
            sequential_skip: 0,
            sequencer_identical: false,
        }
    }
    &[
        ("read", mode(true, false, false, false)),
        ("write", mode(false, true, false, false)),
        ("trim", mode(false, false, true, false)),
        ("randread", mode(true, false, false, true)),
        ("randwrite", mode(false, true, false, true)),
        ("randtrim", mode(false, false, true, true)),
        ("rw", mode(true, true, false, false)),
        ("readwrite", mode(true, true, false, false)),
        ("randrw", mode(true, true, false, true)),
        ("trimwrite", mode(false, true, true, false)),
        ("randtrimwrite", mode(false, true, true, true)),
    ]
};

pub(super) fn rw(draft: &mut Draft, scan: &mut Scan, text: &str) -> Result<(), Complaint> {
    let (word, modifier) =
        text.split_once(':').map_or((text, None), |(word, rest)| (word, Some(rest)));
    let Some((_, mode)) = DIRECTIONS.iter().find(|(name, _)| *name == word.trim()) else {
        let names: Vec<&str> = DIRECTIONS.iter().map(|(name, _)| *name).collect();
        return Err(Problem::NoChoice
            .because(format!("`{word}` is no direction; must be one of {}", names.join(" "))));
    };
    let mut mode = Rw {
        mix_read: draft.spec.rw.mix_read,
        sequencer_identical: draft.spec.rw.sequencer_identical,
        ..*mode
    };
    if let Some(modifier) = modifier.filter(|modifier| !modifier.trim().is_empty()) {
        let number = scan.signed(modifier, Unit::Plain)?;
        if mode.random {
            mode.ios_per_offset =
                u32::try_from(number.max(1)).ok().filter(|_| number >= 0).ok_or_else(|| {
                    Problem::OutOfRange.because(format!(
                        "`{modifier}` I/Os per offset is out of range; must be 1 or more"
                    ))
                })?;
        } else {
            mode.sequential_skip = i64::try_from(number)
                .map_err(|_| Problem::OutOfRange.because(format!("`{modifier}` is too large")))?;
        }
    }
    draft.spec.rw = mode;
    Ok(())
}

pub(super) fn bsrange(draft: &mut Draft, scan: &mut Scan, text: &str) -> Result<(), Complaint> {
    // As documented; fio 3.33 drops what follows the `/`.
    let has_ranges_only =
        text.split(['/', ',']).all(|part| part.trim().is_empty() || part.contains(['-', ':']));
    let text = if has_ranges_only { text.replace('/', ",") } else { text.to_owned() };
    let list =
        by_direction(&text, |part| {
            let part = drop_shares(scan, part);
            match scan.range(&part, Unit::Plain)? {
                (0, _) => Err(Problem::OutOfRange
                    .because(format!("`{part}` starts at 0; must be 1 byte or more"))),
                (_, high) if high > u64::from(u32::MAX) => Err(Problem::OutOfRange
                    .because(format!("`{part}` is too large; must be below 4 GiB"))),
                range => Ok(range),
            }
        })?;
    for (slot, range) in draft.ranges.iter_mut().zip(list) {
        *slot = range.or(*slot);
    }
    Ok(())
}

/// Returns the first two sizes of a list with shares, which is a value of `bssplit`. fio takes it
/// for `bsrange`, too, and drops the rest; its own regression jobs have such lines.
fn drop_shares(scan: &mut Scan, text: &str) -> String {
    let first = |part: &str| part.split(['/', ':', '-']).next().unwrap_or_default().to_owned();
    match text.split_once([':', '-']) {
        Some((low, rest)) if text.contains('/') => {
            let range = format!("{}-{}", first(low), first(rest));
            scan.note(format!(
                "`{text}` is read as {range}, as fio does; shares of sizes belong to bssplit="
            ));
            range
        }
        Some(_) | None => text.to_owned(),
    }
}

pub(super) fn filename(draft: &mut Draft, _: &mut Scan, text: &str) -> Result<(), Complaint> {
    let mut names = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.peek() == Some(&':') => {
                letters.next();
                names.last_mut().expect("one name at least").push(':');
            }
            ':' => names.push(String::new()),
            _ => names.last_mut().expect("one name at least").push(letter),
        }
    }
    let names: Vec<String> =
        names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return Err(Problem::Missing.because(
            "names no file; must be one such as /dev/sda, or several with colons between",
        ));
    }
    // As in fio, the names of a section are added to those of `[global]`.
    for name in names {
        if !draft.spec.files.names.contains(&name) {
            draft.spec.files.names.push(name);
        }
    }
    Ok(())
}

/// A setter that stores a text as it is; the text must not be empty.
macro_rules! kept {
    ($($name:ident => |$draft:ident, $text:ident| $set:expr;)*) => {$(
        pub(super) fn $name($draft: &mut Draft, _: &mut Scan, $text: &str) -> Result<(), Complaint> {
            if $text.is_empty() {
                return Err(Problem::Missing.because("is empty; must have a value"));
            }
            $set;
            Ok(())
        }
    )*};
}
kept! {
    directory => |draft, text| draft.spec.files.directory = Some(text.to_owned());
    description => |draft, text| draft.spec.description = Some(text.to_owned());
    name => |draft, text| draft.spec.name = text.to_owned();
    wait_for => |draft, text| draft.spec.order.wait_for = Some(text.to_owned());
    cgroup => |draft, text| draft.spec.tenant.cgroup = Some(text.to_owned());
}

pub(super) fn file_service(
    draft: &mut Draft,
    scan: &mut Scan,
    text: &str,
) -> Result<(), Complaint> {
    let (word, count) =
        text.split_once(':').map_or((text, None), |(word, count)| (word, Some(count)));
    let every = |scan: &mut Scan| match count {
        None => Ok(1),
        Some(count) => u32::try_from(scan.unsigned(count, Unit::Plain)?.max(1)).map_err(|_| {
            Problem::OutOfRange.because(format!("`{count}` is out of range; must be below 2^32"))
        }),
    };
    draft.spec.files.service = match word {
        "roundrobin" => FileService::RoundRobin(every(scan)?),
        "sequential" => FileService::Sequential,
        "random" => {
            if every(scan)? > 1 {
                scan.note("files are drawn anew for every I/O; the count has no effect");
            }
            FileService::Random
        }
        "zipf" | "pareto" | "normal" | "gauss" => {
            scan.note("files are drawn evenly, as with `random`");
            FileService::Random
        }
        _ => {
            let choices = "random roundrobin sequential zipf pareto normal gauss";
            return Err(Problem::NoChoice
                .because(format!("`{word}` is no choice; must be one of {choices}")));
        }
    };
    Ok(())
}

pub(super) fn filesize(draft: &mut Draft, scan: &mut Scan, text: &str) -> Result<(), Complaint> {
    let (low, high) = scan.range_or_one(text, Unit::Plain)?;
    if low == 0 {
        return Err(Problem::OutOfRange
            .because(format!("`{text}` is out of range; must be 1 byte or more")));
    }
    draft.spec.files.size = Some((low, high));
    Ok(())
}

pub(super) fn zonemode(draft: &mut Draft, _: &mut Scan, text: &str) -> Result<(), Complaint> {
    draft.zones.strided = match text {
        "none" => false,
        "strided" => true,
        "zbd" => {
            return Err(Problem::Unsupported
                .because("`zbd` needs a zoned device, which is not supported; use strided"));
        }
        _ => {
            return Err(Problem::NoChoice
                .because(format!("`{text}` is no choice; must be one of none strided")));
        }
    };
    Ok(())
}

/// Parses bytes, or `Nz`: N times `zonesize`.
pub(super) fn zoneskip(draft: &mut Draft, scan: &mut Scan, text: &str) -> Result<(), Complaint> {
    draft.zones.skip = match text.strip_suffix('z') {
        Some(zones) => Skip::Zones(scan.unsigned(zones, Unit::Plain)?),
        None => Skip::Bytes(scan.unsigned(text, Unit::Plain)?),
    };
    Ok(())
}

pub(super) fn startdelay(draft: &mut Draft, scan: &mut Scan, text: &str) -> Result<(), Complaint> {
    let (low, high) = scan.range_or_one(text, Unit::Time(1_000_000))?;
    draft.spec.timing.start_delay = (nanos(low)?, nanos(high)?);
    Ok(())
}

/// Parses `wait_before,write,wait_after:N` with some of the words; without a number it applies to
/// every write.
pub(super) fn sync_file_range(
    draft: &mut Draft,
    scan: &mut Scan,
    text: &str,
) -> Result<(), Complaint> {
    let (words, every) =
        text.rsplit_once(':').map_or((text, None), |(words, every)| (words, Some(every)));
    let every = every.map_or(Ok(1), |every| scan.unsigned(every, Unit::Plain))?;
    let every = u32::try_from(every)
        .ok()
        .filter(|&every| every > 0)
        .ok_or(Problem::OutOfRange.because("must be after 1 to 4294967295 writes"))?;
    let mut sync = SyncFileRange { wait_before: false, write: false, wait_after: false, every };
    for word in words.split(',').map(str::trim) {
        match word {
            "wait_before" => sync.wait_before = true,
            "write" => sync.write = true,
            "wait_after" => sync.wait_after = true,
            _ => {
                return Err(Problem::NoChoice
                    .because(format!("`{word}` is none of wait_before, write and wait_after")));
            }
        }
    }
    draft.spec.durability.file_range = Some(sync);
    Ok(())
}

pub(super) fn max_latency(draft: &mut Draft, scan: &mut Scan, text: &str) -> Result<(), Complaint> {
    let list = by_direction(text, |part| nanos(scan.unsigned(part, Unit::Time(1))?))?;
    for (slot, span) in draft.spec.latency.max.iter_mut().zip(list) {
        *slot = span.unwrap_or(*slot);
    }
    Ok(())
}

/// Converts microseconds.
pub(super) fn nanos(us: u64) -> Result<Nanos, Complaint> {
    us.checked_mul(1000)
        .map(Nanos::new)
        .ok_or_else(|| Problem::OutOfRange.because("is too long; must be below 584 years"))
}

pub(super) fn ioengine(draft: &mut Draft, scan: &mut Scan, text: &str) -> Result<(), Complaint> {
    let Some(row) = find_engine(text) else {
        let names = super::engine::ENGINES.iter().map(|row| row.name);
        let hint = nearest(text, names)
            .map(|name| format!("; did you mean `{name}`?"))
            .unwrap_or_default();
        return Err(Problem::NoChoice.because(format!(
            "`{text}` is no engine of fio's{hint}; must be one such as psync, libaio or io_uring"
        )));
    };
    if let Behaviour::Refused(why) = row.behaviour {
        return Err(Problem::Unsupported.because(format!("`{text}` is not supported: {why}")));
    }
    if !row.note.is_empty() {
        let holds = if row.engine().is_mapped() { Problem::WithoutCache } else { Problem::Differs };
        scan.notes.push(holds.because(format!("`{text}` {}", row.note)));
    }
    draft.spec.engine = row.engine();
    Ok(())
}

pub(super) fn percentiles(draft: &mut Draft, _: &mut Scan, text: &str) -> Result<(), Complaint> {
    let mut list = Vec::new();
    for part in text.split(':') {
        let value = decimal(part, 4)?;
        if value > 1_000_000 {
            return Err(
                Problem::OutOfRange.because(format!("`{part}` is out of range; must be 0 to 100"))
            );
        }
        list.push(value);
    }
    if list.len() > 20 {
        return Err(Problem::TooMany
            .because(format!("{} percentiles are too many; must be at most 20", list.len())));
    }
    list.sort_unstable();
    draft.spec.report.percentiles = list;
    Ok(())
}

pub(super) fn latency_percentile(
    draft: &mut Draft,
    _: &mut Scan,
    text: &str,
) -> Result<(), Complaint> {
    match decimal(text, 6)? {
        value @ 0..=100_000_000 => draft.latency.percentile = value as u32,
        _ => {
            return Err(
                Problem::OutOfRange.because(format!("`{text}` is out of range; must be 0 to 100"))
            );
        }
    }
    Ok(())
}

pub(super) fn floats(_: &mut Draft, _: &mut Scan, text: &str) -> Result<(), Complaint> {
    text.split(':').try_for_each(|part| decimal(part, 6).map(|_| ()))
}

/// Parses `CRITERION:LIMIT`, with `%` for a limit relative to the mean.
pub(super) fn steadystate(draft: &mut Draft, _: &mut Scan, text: &str) -> Result<(), Complaint> {
    let (criterion, limit) =
        text.split_once(':').map_or((text, None), |(word, limit)| (word, Some(limit)));
    let steady = &mut draft.steady;
    (steady.metric, steady.slope) = match criterion {
        "iops" => (SteadyMetric::Iops, false),
        "iops_slope" => (SteadyMetric::Iops, true),
        "bw" => (SteadyMetric::Bandwidth, false),
        "bw_slope" => (SteadyMetric::Bandwidth, true),
        _ => {
            return Err(Problem::NoChoice.because(format!(
                "`{text}` is no criterion; must be iops, iops_slope, bw or bw_slope with a limit, such as iops:2%"
            )));
        }
    };
    let Some(limit) = limit.filter(|limit| !limit.trim().is_empty()) else {
        return Err(Problem::Missing
            .because(format!("`{text}` lacks its limit; must be such as {criterion}:2%")));
    };
    steady.percent = limit.ends_with('%');
    steady.limit = decimal(limit.strip_suffix('%').unwrap_or(limit), 6)?;
    Ok(())
}

/// The methods that `verify=` takes.
pub(super) const VERIFY_METHODS: &[&str] = &[
    "0",
    "md5",
    "crc64",
    "crc32",
    "crc32c-intel",
    "crc32c",
    "crc16",
    "crc7",
    "sha1",
    "sha256",
    "sha512",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
    "xxhash",
    "meta",
    "pattern",
    "pattern_hdr",
    "null",
];

pub(super) fn verify(draft: &mut Draft, word: &str) {
    draft.spec.verify.method = match word {
        "0" => None,
        "crc32c" | "crc32c-intel" => Some(VerifyMethod::Crc32c),
        "pattern" => Some(VerifyMethod::Pattern),
        "meta" => Some(VerifyMethod::Meta),
        "null" => Some(VerifyMethod::Null),
        _ => Some(VerifyMethod::Other),
    };
}

/// The hints that `write_hint=` takes, in the order of the kernel's numbers from 1.
pub const WRITE_HINTS: &[&str] = &["none", "short", "medium", "long", "extreme"];

pub(super) fn write_hint(draft: &mut Draft, word: &str) {
    // RWH_WRITE_LIFE_*: 2 is short; 1 and 0, "none" and "not set", have the same effect.
    let index = WRITE_HINTS.iter().position(|known| *known == word).unwrap_or(0) as u8;
    draft.spec.content.write_hint = if index == 0 { 0 } else { index + 1 };
}
