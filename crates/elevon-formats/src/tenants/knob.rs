//! The keys of a table of the file: control files, and Elevon's own knobs.

use elevon_core::kernel::Rules;
use elevon_core::nearest::did_you_mean;
use elevon_core::sched::Reserve;
use elevon_core::units::{Bytes, Nanos};
use toml::de::DeInteger;

use crate::cgroup::{self, Cap, ControlFile, FILES, FileOwner, Floor, Limit, Setting, parse_class};
use crate::diagnostic::{Complaint, Problem};
use crate::quantity::{self, Short};
use crate::toml_reader::{Reader, TomlEntry, Value, entries};
use crate::toml_text::quoted;

/// One of Elevon's own knobs.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// Its key.
    pub name: &'static str,
    /// Example of the values that it takes.
    pub takes: &'static str,
    /// Unit and range.
    pub range: &'static str,
    /// The value in force without it.
    pub default: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The control file that does the same; empty if there is none.
    pub same_as: &'static str,
    read: Read,
}

/// How the value of a knob is read.
#[derive(Clone, Copy, Debug)]
enum Read {
    /// A setting of a tenant.
    Setting(fn(&Value<'_>, &Rules) -> Result<Setting, Complaint>),
    /// The table of limits, or a word that lifts all.
    Limits,
    /// The table of floors, or 0.
    Floors,
    /// A key of the table of limits.
    Limit(fn(&mut Limit, &Value<'_>) -> Result<(), Complaint>),
    /// A key of the table of floors.
    Floor(fn(&mut Floor, &Value<'_>) -> Result<(), Complaint>),
}

const RATE: &str = "\"10M\", \"4MiB\", 1048576 or \"max\"";
const IOS: &str = "500, \"10K\" or \"max\"";
const BPS: &str = "bytes/s, 1..=18446744073709551615";
const IOPS: &str = "I/Os a second, 1..=18446744073709551615";

/// A limit of a rate, in bytes or in I/Os.
macro_rules! rate {
    ($field:ident, $parse:ident, $takes:ident, $range:ident, $help:expr $(,)?) => {
        Knob {
            name: concat!("limit.", stringify!($field)),
            takes: $takes,
            range: $range,
            default: "max",
            help: $help,
            same_as: "",
            read: Read::Limit(|limit, value| set(&mut limit.$field, cap(value, $parse, $takes))),
        }
    };
}

/// The other name of a knob: a control file of the kernel calls it so.
const OTHER_NAME: (&str, &str) = ("target", "latency");

/// The knobs of a tenant; those inside `limit` have its name as a prefix.
pub const KNOBS: &[Knob] = &[
    Knob {
        name: "weight",
        takes: "200",
        range: "1..=10000",
        default: "100",
        help: "share of the device among its siblings: by io.cost as it is, by BFQ and aileron at most 1000",
        same_as: "io.weight, io.bfq.weight",
        read: Read::Setting(|value, _| weight(value)),
    },
    Knob {
        name: "class",
        takes: "\"no-change\", \"promote-to-rt\", \"restrict-to-be\", \"idle\", \"none-to-rt\"",
        range: "promote-to-rt from 6.5 on",
        default: "no-change",
        help: "priority class of the tenant's own I/O",
        same_as: "io.prio.class",
        read: Read::Setting(class),
    },
    Knob {
        name: "latency",
        takes: "\"5ms\" or \"max\"; also as target",
        range: "a time in ns, us, ms or s, whole microseconds; 0 and max for none",
        default: "max",
        help: "latency that is defended against siblings with a larger target or none",
        same_as: "io.latency",
        read: Read::Setting(|value, _| latency(value).map(Setting::Latency)),
    },
    Knob {
        name: "limit",
        takes: "a table of the keys below, or \"max\" to lift all",
        range: "",
        default: "none",
        help: "limits that are exact: no slices; a parent's holds for all below it together, who share it by weight",
        same_as: "",
        read: Read::Limits,
    },
    rate!(rbps, rate_of, RATE, BPS, "bytes of reads"),
    rate!(wbps, rate_of, RATE, BPS, "bytes of writes"),
    rate!(bps, rate_of, RATE, BPS, "bytes of both together"),
    rate!(riops, count_of, IOS, IOPS, "reads"),
    rate!(wiops, count_of, IOS, IOPS, "writes"),
    rate!(
        iops,
        count_of,
        IOS,
        IOPS,
        "I/Os of both together; a request to a served disk counts one for each 256 KiB begun",
    ),
    Knob {
        name: "limit.burst",
        takes: "\"1MiB\" or 1048576",
        range: "bytes",
        default: "0",
        help: "what the limits in bytes let pass at once after idling, beside one I/O",
        same_as: "",
        read: Read::Limit(|limit, value| {
            set(&mut limit.burst, plain(value, bytes_of, "bytes, such as \"1MiB\""))
        }),
    },
    Knob {
        name: "limit.burst_ios",
        takes: "50 or \"1K\"",
        range: "I/Os",
        default: "0",
        help: "what the limits in I/Os let pass at once after idling, beside one I/O",
        same_as: "",
        read: Read::Limit(|limit, value| {
            set(
                &mut limit.burst_ios,
                plain(value, count_of, "a number of I/Os, such as 50 or \"1K\""),
            )
        }),
    },
    Knob {
        name: "reserve",
        takes: "a table of the keys below, or 0 for none",
        range: "",
        default: "none",
        help: "floors: rates that it gets before others, whatever the weights are; under aileron",
        same_as: "",
        read: Read::Floors,
    },
    Knob {
        name: "reserve.iops",
        takes: "500 or \"10K\"",
        range: "I/Os a second; 0 for none",
        default: "0",
        help: "of reads and writes together; a parent's is of all below it together",
        same_as: "",
        read: Read::Floor(|floor, value| {
            set(&mut floor.iops, plain(value, count_of, "I/Os a second, such as 500 or \"10K\""))
        }),
    },
    Knob {
        name: "reserve.bps",
        takes: "\"10M\", \"4MiB\" or 1048576",
        range: "bytes/s; 0 for none",
        default: "0",
        help: "the same in bytes; where both are given, both hold",
        same_as: "",
        read: Read::Floor(|floor, value| {
            set(
                &mut floor.bps,
                plain(value, rate_of, "bytes a second, such as \"10M\" or \"4MiB\""),
            )
        }),
    },
];

/// Recommended knobs that are not implemented yet.
const LATER: [(&str, &str); 1] =
    [("iops_size", "large I/Os count as one; counting them by size is not built yet")];

/// Reads one entry of a table, and adds its settings to `found`.
pub(super) fn take(
    reader: &mut Reader<'_>,
    rules: &Rules,
    scope: &str,
    whose: Option<FileOwner>,
    entry: &TomlEntry<'_>,
    found: &mut Vec<Setting>,
) {
    let name = entry.full_name();
    let key = format!("{scope}.{}", quoted(name));
    if let Some(file) = cgroup::find(name) {
        match whose {
            Some(place) if place != file.place => {
                let message = match file.place {
                    FileOwner::Device => {
                        "holds for the device, not for a tenant; write it under [device], or in a change without a tenant"
                    }
                    FileOwner::Tenant => {
                        "the root has no such file; write it under [tenant.\"NAME\"], or in a change with a tenant"
                    }
                };
                reader.complain(entry.key.start, &key, message);
            }
            _ => lines(reader, rules, &key, file, entry, found),
        }
        return;
    }
    let known = KNOBS.iter().find(|knob| knob.name == name || (name, knob.name) == OTHER_NAME);
    let setting = match (known.map(|knob| knob.read), entry.value) {
        (Some(Read::Setting(read)), value) => read(value, rules),
        (Some(read @ (Read::Limits | Read::Floors)), Value::Table(table)) => {
            let rates = entries(table);
            let setting = match read {
                Read::Limits => limits(reader, &key, &rates).map(Setting::Limit),
                _ => floors(reader, &key, &rates).map(Setting::Reserve),
            };
            if setting.is_some() && whose == Some(FileOwner::Device) {
                reader.complain(entry.key.start, &key, ROOT);
            }
            return found.extend(setting);
        }
        (Some(Read::Limits), Value::String(word)) if word == "max" => Ok(Setting::Limit(NO_LIMIT)),
        (Some(Read::Limits), _) => {
            let expected = "expected a table, such as { rbps = \"10M\", riops = 500 }, or \"max\"";
            Err(Problem::Malformed.because(expected))
        }
        (Some(Read::Floors), value) if integer(value) == Some(0) => {
            Ok(Setting::Reserve(Reserve::default().into()))
        }
        (Some(Read::Floors), _) => {
            let expected = "expected a table, such as { iops = 500, bps = \"10M\" }, or 0 for none";
            Err(Problem::Malformed.because(expected))
        }
        (Some(Read::Limit(_) | Read::Floor(_)) | None, _) => {
            return reader.complain(
                entry.key.start,
                &key,
                Problem::Unknown.because(unknown(entry, whose)),
            );
        }
    };
    match setting {
        Ok(_) if whose == Some(FileOwner::Device) => reader.complain(entry.key.start, &key, ROOT),
        Ok(setting) => found.push(setting),
        Err(complaint) => reader.complain(entry.at.start, &key, complaint),
    }
}

const ROOT: &str = "the root has no limits or weight; write it under [tenant.\"NAME\"], or in a change with a tenant";

const NO_LIMIT: Limit = {
    const MAX: Option<Cap> = Some(Cap::Unlimited);
    Limit {
        rbps: MAX,
        wbps: MAX,
        bps: MAX,
        riops: MAX,
        wiops: MAX,
        iops: MAX,
        burst: Some(0),
        burst_ios: Some(0),
    }
};

fn unknown(entry: &TomlEntry<'_>, whose: Option<FileOwner>) -> String {
    let name = entry.full_name();
    if let Some((_, why)) = LATER.iter().find(|(later, _)| *later == name) {
        return (*why).to_owned();
    }
    let files = FILES
        .iter()
        .filter(|file| whose.is_none_or(|place| place == file.place))
        .map(|file| file.name);
    let knobs = KNOBS
        .iter()
        .map(|knob| knob.name)
        .filter(|knob| !knob.contains('.') && whose != Some(FileOwner::Device));
    let meant = did_you_mean(name, files.chain(knobs));
    match entry.value {
        Value::Table(_) if meant.is_empty() => {
            format!(
                "no such setting; a tenant below another has a table with its whole path, as in [tenant.\"a/{name}\"]"
            )
        }
        _ => format!("no such setting{meant}; docs/reference/tenants.md lists them"),
    }
}

/// Reads the lines of a control file: a string, an array of strings, or a bare number if the file
/// takes one.
fn lines(
    reader: &mut Reader<'_>,
    rules: &Rules,
    key: &str,
    file: &ControlFile,
    entry: &TomlEntry<'_>,
    found: &mut Vec<Setting>,
) {
    let mut line = |value: &Value<'_>, at: std::ops::Range<usize>| {
        let number;
        let text: &str = match value {
            Value::String(text) => text,
            Value::Integer(n) => {
                number = decimal(n).map_or_else(|| n.to_string(), |n| n.to_string());
                &number
            }
            _ => {
                let message = format!(
                    "expected a line as the kernel takes it: \"{}\"",
                    file.syntax.replace('"', "'")
                );
                return reader.complain(at.start, key, message);
            }
        };
        match file.parse(text, rules) {
            Ok(line) => {
                reader.names_device(line.device, at.start);
                found.push(line.setting);
            }
            Err(error) => {
                let at = reader.inside(&at, text, error.span.start);
                reader.complain(at, key, error.to_string());
            }
        }
    };
    match entry.value {
        Value::Array(all) => all.iter().for_each(|value| line(value.get_ref(), value.span())),
        value => line(value, entry.at.clone()),
    }
}

fn decimal(number: &DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

fn integer(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Integer(number) => decimal(number).and_then(|n| u64::try_from(n).ok()),
        _ => None,
    }
}

/// Returns the text of a value, for a message.
fn shown(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => text.escape_debug().to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(word) => word.to_string(),
        Value::Datetime(time) => time.to_string(),
        Value::Array(_) => "an array".to_owned(),
        Value::Table(_) => "a table".to_owned(),
    }
}

fn out_of_range(value: &Value<'_>, range: &str) -> Complaint {
    match value {
        Value::Integer(number) => {
            Problem::OutOfRange.because(format!("{number} is out of range {range}"))
        }
        _ => {
            let message =
                format!("{}: expected a whole number from {range}, without quotes", shown(value));
            Problem::Malformed.because(message)
        }
    }
}

/// Returns the complaint about a value that does not have the form its key takes.
fn malformed(value: &Value<'_>, expected: &str) -> Complaint {
    Problem::Malformed.because(format!("{}: expected {expected}", shown(value)))
}

fn latency(value: &Value<'_>) -> Result<Option<Nanos>, Complaint> {
    let bad = || {
        let expected =
            "a time in whole microseconds with its unit, such as \"5ms\", or 0 or \"max\" for none";
        malformed(value, expected)
    };
    match value {
        Value::String(word) if word == "max" || word == "0" => Ok(None),
        Value::Integer(number) if decimal(number) == Some(0) => Ok(None),
        Value::String(text) => {
            let target = quantity::time(text)
                .ok()
                .filter(|target| target.get().is_multiple_of(1_000))
                .ok_or_else(bad)?;
            Ok(Some(target).filter(|target| !target.is_zero()))
        }
        _ => Err(bad()),
    }
}

fn weight(value: &Value<'_>) -> Result<Setting, Complaint> {
    integer(value)
        .filter(|weight| (1..=10_000).contains(weight))
        .map(|weight| Setting::Weight(weight as u16))
        .ok_or_else(|| out_of_range(value, "1 to 10000"))
}

fn class(value: &Value<'_>, rules: &Rules) -> Result<Setting, Complaint> {
    let Value::String(word) = value else {
        return Err(Problem::Malformed.because("expected a policy, such as \"restrict-to-be\""));
    };
    let of_word = |wrong: Complaint| wrong.reworded(|message| format!("{word}: {message}"));
    parse_class(word, rules).map(Setting::Class).map_err(of_word)
}

/// Reads a table whose keys are knobs with its name as a prefix: `read` reads the value of one of
/// them. Complaints name the place of the wrong key or value.
fn table<T: Default>(
    reader: &mut Reader<'_>,
    scope: &str,
    (name, noun): (&str, &str),
    entries: &[TomlEntry<'_>],
    read: impl Fn(&mut T, Read, &Value<'_>) -> Option<Result<(), Complaint>>,
) -> Option<T> {
    let key_of = |knob: &Knob| knob.name.strip_prefix(name)?.strip_prefix('.');
    let mut all = T::default();
    let before = reader.complaints.len();
    for entry in entries {
        let knob = KNOBS.iter().find(|knob| key_of(knob) == Some(entry.name));
        match knob.and_then(|knob| read(&mut all, knob.read, entry.value)) {
            Some(Ok(())) => {}
            Some(Err(complaint)) => {
                reader.complain(entry.at.start, &format!("{scope}.{}", entry.name), complaint);
            }
            None => {
                let known = KNOBS.iter().filter_map(key_of);
                let meant = did_you_mean(entry.name, known.clone());
                let known = known.collect::<Vec<_>>().join(", ");
                let unknown =
                    Problem::Unknown.because(format!("no such {noun}{meant}; there are {known}"));
                reader.complain(
                    entry.key.start,
                    &format!("{scope}.{}", quoted(entry.name)),
                    unknown,
                );
            }
        }
    }
    (before == reader.complaints.len()).then_some(all)
}

/// Reads the table of `limit`.
fn limits(reader: &mut Reader<'_>, scope: &str, entries: &[TomlEntry<'_>]) -> Option<Limit> {
    table(reader, scope, ("limit", "limit"), entries, |limit: &mut Limit, read, value| match read {
        Read::Limit(read) => Some(read(limit, value)),
        _ => None,
    })
}

/// Reads the table of `reserve`.
fn floors(reader: &mut Reader<'_>, scope: &str, entries: &[TomlEntry<'_>]) -> Option<Floor> {
    table(reader, scope, ("reserve", "floor"), entries, |floor: &mut Floor, read, value| match read
    {
        Read::Floor(read) => Some(read(floor, value)),
        _ => None,
    })
}

fn set<T>(field: &mut Option<T>, value: Result<T, Complaint>) -> Result<(), Complaint> {
    value.map(|value| *field = Some(value))
}

fn bytes_of(text: &str) -> Option<u64> {
    quantity::size(text, Short::Decimal).ok().map(Bytes::get)
}

fn rate_of(text: &str) -> Option<u64> {
    quantity::rate(text, Short::Decimal).ok().map(Bytes::get)
}

fn count_of(text: &str) -> Option<u64> {
    quantity::count(text).ok()
}

fn number(value: &Value<'_>, parse: fn(&str) -> Option<u64>) -> Option<u64> {
    match value {
        Value::String(text) => parse(text),
        value => integer(value),
    }
}

/// Reads a number that has no word for "no limit".
fn plain(
    value: &Value<'_>,
    parse: fn(&str) -> Option<u64>,
    expected: &str,
) -> Result<u64, Complaint> {
    number(value, parse).ok_or_else(|| malformed(value, expected))
}

fn cap(value: &Value<'_>, parse: fn(&str) -> Option<u64>, takes: &str) -> Result<Cap, Complaint> {
    match (value, number(value, parse)) {
        (Value::String(word), _) if word == "max" => Ok(Cap::Unlimited),
        (_, Some(0)) => {
            Err(Problem::OutOfRange.because("0 lets nothing pass; write \"max\" to lift the limit"))
        }
        (_, Some(rate)) => Ok(Cap::At(rate)),
        (_, None) => Err(malformed(value, &format!("a rate: {takes}"))),
    }
}
