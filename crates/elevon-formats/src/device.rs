//! The file of a user's device (`--device @FILE`): TOML that names a profile or model, and the
//! values that differ from it.
//!
//! ```toml
//! name = "my-phone"
//! base = "ufs-4.0"
//! summary = "the phone on my desk, fitted to fio"
//!
//! [parameters]
//! read_command_cost = "39us"
//! dies = 6
//!
//! [limits]
//! max_hw_sectors_kb = 1024
//!
//! [[source]]
//! parameters = ["read_command_cost", "dies"]
//! basis = "fitted"
//! value = "2950 MB/s and 110,000 reads a second"
//! origin = "fio 3.33 on the phone"
//! date = "2026-11-20"
//! ```
//!
//! This module checks only the TOML; the caller, which knows the bases, checks what a base takes.
//! All errors are reported at once, one line each, with their places. Cost: O(size of the file).

use crate::diagnostic::{Diagnostic, Problem, Span};
use crate::toml_reader::{Reader, TomlEntry, Value, entries};
use crate::toml_text::quoted;

pub use crate::toml_reader::Given;

/// How values were derived from their source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceBasis {
    /// `stated`: the source gives the value.
    Stated,
    /// `fitted`: the value was chosen so that the model gives what the source says.
    Fitted,
    /// `estimated`: the source makes the value plausible.
    Estimated,
}

const BASES: [(&str, DeviceBasis); 3] = [
    ("stated", DeviceBasis::Stated),
    ("fitted", DeviceBasis::Fitted),
    ("estimated", DeviceBasis::Estimated),
];

impl DeviceBasis {
    /// Returns its name in the file.
    pub fn name(self) -> &'static str {
        BASES.iter().find(|(_, basis)| *basis == self).map_or("", |(name, _)| name)
    }
}

/// One `[[source]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSource {
    /// The parameters and limits whose values come from the source.
    pub parameters: Vec<String>,
    /// The value that the source states.
    pub value: String,
    /// How the values were derived from it.
    pub basis: DeviceBasis,
    /// Title and author of the source.
    pub origin: String,
    /// The date of the source; empty if not given.
    pub date: String,
    /// The address at which it can be read; empty if not given.
    pub address: String,
    /// The place of the table.
    pub place: Span,
}

/// One `[[end]]`: another device that explains what the file was fitted to as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceEnd {
    /// The profile or model that it starts from.
    pub base: Given,
    /// All parameters of the base that differ, in the file's order.
    pub parameters: Vec<Given>,
}

/// A device file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFile {
    /// The device's name.
    pub name: String,
    /// A line that describes the device; may be empty.
    pub summary: String,
    /// The profile or model that it starts from.
    pub base: Given,
    /// Parameters of the base that differ, in the file's order.
    pub parameters: Vec<Given>,
    /// Queue limits that differ, by their sysfs names, in the file's order.
    pub limits: Vec<Given>,
    /// The sources of the values, in the file's order.
    pub sources: Vec<DeviceSource>,
    /// The ends of the interval of devices that explain the same, in the file's order.
    pub ends: Vec<DeviceEnd>,
    /// The numbers of requests in the device between which it is known how it serves them: the
    /// smallest and the largest, zero for no bound.
    pub known: [u64; 2],
}

/// Parses the text of a file. `file` is its name in complaints.
///
/// # Errors
/// All errors, each with its place and what would be right.
pub fn parse(file: &str, text: &str) -> Result<DeviceFile, Vec<Diagnostic>> {
    let mut reader = Reader::new(file, text);
    let Some(table) = reader.table() else { return Err(reader.complaints) };
    let mut found = Parts::default();
    for entry in entries(table.get_ref()) {
        found.take(&mut reader, &entry);
    }
    for (name, is_given) in [("name", found.name.is_some()), ("base", found.base.is_some())] {
        if !is_given {
            let message = format!(
                "is not given; a device has a name and a base, such as {name} = \"ufs-4.0\""
            );
            reader.complain(0, name, Problem::Missing.because(message));
        }
    }
    match (found.name, found.base) {
        (Some(name), Some(base)) if reader.complaints.is_empty() => Ok(DeviceFile {
            name: name.value,
            summary: found.summary.map(|given| given.value).unwrap_or_default(),
            base,
            parameters: found.parameters,
            limits: found.limits,
            sources: found.sources,
            ends: found.ends,
            known: found.known,
        }),
        _ => {
            reader.complaints.sort_by_key(|complaint| (complaint.line, complaint.column));
            Err(reader.complaints)
        }
    }
}

#[derive(Default)]
struct Parts {
    name: Option<Given>,
    base: Option<Given>,
    summary: Option<Given>,
    parameters: Vec<Given>,
    limits: Vec<Given>,
    sources: Vec<DeviceSource>,
    ends: Vec<DeviceEnd>,
    known: [u64; 2],
}

const KEYS: [&str; 9] =
    ["name", "base", "summary", "parameters", "limits", "source", "end", "known_from", "known_to"];

impl Parts {
    fn take(&mut self, reader: &mut Reader<'_>, entry: &TomlEntry<'_>) {
        match (entry.name, entry.value) {
            ("name", _) => {
                self.name =
                    reader.text("name", entry).filter(|given| is_name(reader, given, entry));
            }
            ("base", _) => self.base = reader.text("base", entry),
            ("summary", _) => self.summary = reader.text("summary", entry),
            ("parameters", _) => self.parameters = reader.settings("parameters", entry),
            ("limits", _) => self.limits = reader.settings("limits", entry),
            ("source", Value::Array(all)) => {
                self.sources = all
                    .iter()
                    .filter_map(|one| source(reader, one.get_ref(), one.span().start))
                    .collect();
            }
            ("source", _) => {
                reader.complain(entry.at.start, "source", "expected [[source]], with two brackets");
            }
            ("end", Value::Array(all)) => {
                self.ends = all
                    .iter()
                    .filter_map(|one| end(reader, one.get_ref(), one.span().start))
                    .collect();
            }
            ("end", _) => {
                reader.complain(entry.at.start, "end", "expected [[end]], with two brackets");
            }
            ("known_from", _) => self.known[0] = reader.number("known_from", entry).unwrap_or(0),
            ("known_to", _) => self.known[1] = reader.number("known_to", entry).unwrap_or(0),
            _ => reader.unknown(&quoted(entry.name), entry, &KEYS),
        }
    }
}

/// Checks a device's name, which appears in reports, tables and file names.
fn is_name(reader: &mut Reader<'_>, given: &Given, entry: &TomlEntry<'_>) -> bool {
    let is_good = given.value.chars().all(|c| c.is_alphanumeric() || "-_.+ ".contains(c));
    if !is_good {
        reader.complain(
            entry.at.start,
            "name",
            "expected letters, digits, blanks and the characters - _ . +",
        );
    }
    is_good
}

fn end(reader: &mut Reader<'_>, element: &Value<'_>, at: usize) -> Option<DeviceEnd> {
    let Value::Table(table) = element else {
        reader.complain(at, "end", "expected a table: [[end]]");
        return None;
    };
    let (mut base, mut parameters) = (None, Vec::new());
    for entry in entries(table) {
        match entry.name {
            "base" => base = reader.text("end.base", &entry),
            "parameters" => parameters = reader.settings("end.parameters", &entry),
            _ => reader.unknown(&quoted(entry.name), &entry, &["base", "parameters"]),
        }
    }
    if base.is_none() {
        let message =
            "`base` is not given; an end of an interval is a device with a base of its own";
        reader.complain(at, "end", Problem::Missing.because(message));
    }
    Some(DeviceEnd { base: base?, parameters })
}

fn source(reader: &mut Reader<'_>, element: &Value<'_>, at: usize) -> Option<DeviceSource> {
    const KEYS: [&str; 6] = ["parameters", "value", "basis", "origin", "date", "address"];
    let Value::Table(table) = element else {
        reader.complain(at, "source", "expected a table: [[source]]");
        return None;
    };
    let complaints = reader.complaints.len();
    let mut found = DeviceSource {
        parameters: Vec::new(),
        value: String::new(),
        basis: DeviceBasis::Stated,
        origin: String::new(),
        date: String::new(),
        address: String::new(),
        place: reader.place(at),
    };
    for entry in entries(table) {
        let key = format!("source.{}", entry.name);
        let mut text = || reader.text(&key, &entry).map(|given| given.value).unwrap_or_default();
        match (entry.name, entry.value) {
            ("parameters", Value::Array(_)) => {
                found.parameters =
                    reader.texts(&key, &entry).into_iter().map(|given| given.value).collect();
            }
            ("parameters", _) => {
                reader.complain(entry.at.start, &key, "expected a list of names: [\"dies\"]");
            }
            ("basis", _) => {
                let text = text();
                match BASES.iter().find(|(name, _)| *name == text) {
                    Some(&(_, basis)) => found.basis = basis,
                    None => {
                        let complaint =
                            Problem::NoChoice.because("expected stated, fitted or estimated");
                        reader.complain(entry.at.start, &key, complaint);
                    }
                }
            }
            ("value", _) => found.value = text(),
            ("origin", _) => found.origin = text(),
            ("date", _) => found.date = text(),
            ("address", _) => found.address = text(),
            _ => reader.unknown(&quoted(entry.name), &entry, &KEYS),
        }
    }
    for (key, text) in [("value", &found.value), ("origin", &found.origin)] {
        if text.is_empty() && reader.complaints.len() == complaints {
            let message =
                format!("`{key}` is not given; a source says what it states and who says so");
            reader.complain(at, "source", Problem::Missing.because(message));
        }
    }
    Some(found).filter(|_| reader.complaints.len() == complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
name = \"my-phone\"
base = \"ufs-4.0\"
summary = \"the phone on my desk\"

[parameters]
read_command_cost = \"39us\"
dies = 6

[limits]
max_hw_sectors_kb = 1024

[[source]]
parameters = [\"read_command_cost\", \"dies\"]
basis = \"fitted\"
value = \"2950 MB/s\"
origin = \"fio 3.33 on the phone\"
date = \"2026-11-20\"
";

    #[test]
    fn a_file_is_read() {
        let device = parse("d.toml", GOOD).expect("a good file");
        assert_eq!((device.name.as_str(), device.base.value.as_str()), ("my-phone", "ufs-4.0"));
        let rows: Vec<_> =
            device.parameters.iter().map(|g| (g.key.as_str(), g.value.as_str())).collect();
        assert_eq!(rows, [("read_command_cost", "39us"), ("dies", "6")]);
        assert_eq!((device.parameters[1].place.line, device.parameters[1].place.column), (7, 8));
        assert_eq!(device.limits[0].value, "1024");
        assert_eq!(device.sources[0].basis, DeviceBasis::Fitted);
        assert_eq!(device.sources[0].parameters, ["read_command_cost", "dies"]);
        assert_eq!((device.ends.len(), device.known), (0, [0, 0]));
        let more = "known_from = 21\n[[end]]\nbase = \"slots\"\n[end.parameters]\nslots = 4\nlatency = \"3ms\"\n";
        let interval =
            parse("d.toml", &GOOD.replace("[parameters]", &format!("{more}[parameters]")));
        let interval = interval.expect("a good file");
        let rows: Vec<_> = interval.ends[0]
            .parameters
            .iter()
            .map(|g| (g.key.as_str(), g.value.as_str()))
            .collect();
        assert_eq!((interval.ends[0].base.value.as_str(), interval.known), ("slots", [21, 0]));
        assert_eq!(rows, [("slots", "4"), ("latency", "3ms")]);
        let odd = GOOD.replace("on my desk", "\\\"on\\\" my\\u0020desk");
        let device = parse("d.toml", &odd).expect("a good file");
        assert_eq!(device.summary, "the phone \"on\" my desk");
    }

    #[test]
    fn everything_wrong_is_said_with_its_place() {
        for (text, expected) in [
            ("", &["d.toml:1:1: name: is not given", "d.toml:1:1: base: is not given"][..]),
            (
                "name = \"a\"\nbase = 5\n",
                &["d.toml:1:1: base: is not given", "d.toml:2:8: base: expected a text in quotes"],
            ),
            (
                "name = \"a/b\"\nbase = \"null\"",
                &["d.toml:1:1: name: is not given", "d.toml:1:8: name: expected letters"],
            ),
            (
                "name = \"a\"\nbase = \"null\"\nbas = 1",
                &["d.toml:3:1: bas: no such key (did you mean `base`?)"],
            ),
            (
                "name = \"a\"\nbase = \"null\"\n[parameters]\nx = 1.5",
                &["d.toml:4:5: parameters.x: expected a whole"],
            ),
            (
                "name = \"a\"\nbase = \"null\"\n[limits]\nx = \"1,y=2\"",
                &["d.toml:4:5: limits.x: expected a whole"],
            ),
            (
                "name = \"a\"\nbase = \"null\"\n[source]\nvalue = \"x\"",
                &["d.toml:3:1: source: expected [[source]]"],
            ),
            (
                "name = \"a\"\nbase = \"null\"\n[[source]]\nvalue = \"x\"",
                &["d.toml:3:1: source: `origin` is not given"],
            ),
            (
                "name = \"a\"\nbase = \"null\"\n[[source]]\nbasis = \"guess\"",
                &["d.toml:4:9: source.basis: expected stated, fitted or estimated"],
            ),
            ("name = \"a\"\nbase = \"null\"\n[[end]]\n", &["d.toml:3:1: end: `base` is not given"]),
            ("name = \"a\"\nbase = \"null\"\n[end]\nx = 1", &["d.toml:3:1: end: expected [[end]]"]),
            ("name = \"a\"\nbase = \n", &["d.toml:2:"]),
        ] {
            let errors: Vec<String> =
                parse("d.toml", text).unwrap_err().iter().map(ToString::to_string).collect();
            assert_eq!(errors.len(), expected.len(), "{text}: {errors:?}");
            assert!(
                errors.iter().zip(expected).all(|(error, start)| error.starts_with(start)),
                "{text}: {errors:?}"
            );
        }
    }
}
