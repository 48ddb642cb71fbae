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

use elevon_core::nearest::did_you_mean;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Diagnostic, Problem, Span};
use crate::tenants::reader::Reader;

/// A key, its value as text, and the place of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The key.
    pub key: String,
    /// The value; a number is written as on the command line.
    pub value: String,
    /// The place of the value.
    pub place: Span,
}

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

const BASES: [(&str, DeviceBasis); 3] =
    [("stated", DeviceBasis::Stated), ("fitted", DeviceBasis::Fitted), ("estimated", DeviceBasis::Estimated)];

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
}

/// Parses the text of a file. `file` is its name in complaints.
///
/// # Errors
/// All errors, each with its place and what would be right.
pub fn parse(file: &str, text: &str) -> Result<DeviceFile, Vec<Diagnostic>> {
    let mut reader = Reader::new(file, text);
    let Some(table) = reader.table() else { return Err(reader.complaints) };
    let mut found = Parts::default();
    for (key, value) in entries(table.get_ref()) {
        found.take(&mut reader, key, value);
    }
    for (name, is_given) in [("name", found.name.is_some()), ("base", found.base.is_some())] {
        if !is_given {
            let message = format!("is not given; a device has a name and a base, such as {name} = \"ufs-4.0\"");
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
        }),
        _ => {
            reader.complaints.sort_by_key(|complaint| (complaint.line, complaint.column));
            Err(reader.complaints)
        }
    }
}

pub(crate) type Key<'t> = &'t Spanned<std::borrow::Cow<'t, str>>;
pub(crate) type Value<'t> = &'t Spanned<DeValue<'t>>;

/// Returns the entries of a table, in the file's order.
pub(crate) fn entries<'t>(table: &'t DeTable<'t>) -> Vec<(Key<'t>, Value<'t>)> {
    let mut all: Vec<_> = table.iter().collect();
    all.sort_by_key(|(key, _)| key.span().start);
    all
}

impl Reader<'_> {
    pub(crate) fn unknown(&mut self, key: Key<'_>, known: &[&'static str]) {
        let name: &str = key.get_ref();
        let meant = did_you_mean(name, known.iter().copied());
        let message = format!("no such key{meant}; there are {}", known.join(", "));
        self.complain(key.span().start, name, Problem::Unknown.because(message));
    }

    /// Returns a string, or complains of any other value.
    fn string(&mut self, key: &str, value: Value<'_>) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => {
                self.complain(value.span().start, key, "expected a string in quotes");
                None
            }
        }
    }

    /// Returns a string that is not empty, or complains.
    pub(crate) fn given(&mut self, key: &str, value: Value<'_>) -> Option<Given> {
        let text = self.string(key, value)?;
        if text.trim().is_empty() {
            self.complain(value.span().start, key, Problem::Missing.because("must not be empty"));
            return None;
        }
        Some(Given { key: key.to_owned(), value: text, place: self.place(value.span().start) })
    }

    /// Returns the entries of a table of settings: strings, whole numbers, true and false.
    pub(crate) fn settings(&mut self, title: &str, value: Value<'_>) -> Vec<Given> {
        let DeValue::Table(table) = value.get_ref() else {
            self.complain(value.span().start, title, format!("expected a table: [{title}]"));
            return Vec::new();
        };
        let mut all = Vec::new();
        for (key, value) in entries(table) {
            let text = match value.get_ref() {
                DeValue::String(text) if !text.contains([',', '=']) => Some(text.to_string()),
                DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().replace('_', "")),
                DeValue::Boolean(flag) => Some(u8::from(*flag).to_string()),
                _ => None,
            };
            let place = self.place(value.span().start);
            match text {
                Some(value) => all.push(Given { key: key.get_ref().to_string(), value, place }),
                None => {
                    let right =
                        "expected a whole number, true, false, or a quantity with its unit in quotes, such as \"39us\"";
                    self.complain(value.span().start, &format!("{title}.{}", key.get_ref()), right);
                }
            }
        }
        all
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
}

impl Parts {
    fn take(&mut self, reader: &mut Reader<'_>, key: Key<'_>, value: Value<'_>) {
        let name: &str = key.get_ref();
        match name {
            "name" => self.name = reader.given(name, value).filter(|given| is_name(reader, given, value)),
            "base" => self.base = reader.given(name, value),
            "summary" => self.summary = reader.given(name, value),
            "parameters" => self.parameters = reader.settings(name, value),
            "limits" => self.limits = reader.settings(name, value),
            "source" => match value.get_ref() {
                DeValue::Array(array) => {
                    for element in array.iter() {
                        self.sources.extend(source(reader, element));
                    }
                }
                _ => reader.complain(value.span().start, name, "expected [[source]], with two brackets"),
            },
            _ => reader.unknown(key, &["name", "base", "summary", "parameters", "limits", "source"]),
        }
    }
}

/// Checks a device's name, which appears in reports, tables and file names.
fn is_name(reader: &mut Reader<'_>, given: &Given, value: Value<'_>) -> bool {
    let is_good = given.value.chars().all(|c| c.is_alphanumeric() || "-_.+ ".contains(c));
    if !is_good {
        reader.complain(value.span().start, "name", "expected letters, digits, blanks and the characters - _ . +");
    }
    is_good
}

fn source(reader: &mut Reader<'_>, element: Value<'_>) -> Option<DeviceSource> {
    const KEYS: [&str; 6] = ["parameters", "value", "basis", "origin", "date", "address"];
    let at = element.span().start;
    let DeValue::Table(table) = element.get_ref() else {
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
    for (key, value) in entries(table) {
        let name: &str = key.get_ref();
        match (name, value.get_ref()) {
            ("parameters", DeValue::Array(array)) => {
                found.parameters = array.iter().filter_map(|name| reader.string("source.parameters", name)).collect();
            }
            ("parameters", _) => {
                reader.complain(value.span().start, "source.parameters", "expected a list of names: [\"dies\"]");
            }
            ("basis", _) => {
                let text = reader.string("source.basis", value).unwrap_or_default();
                match BASES.iter().find(|(name, _)| *name == text) {
                    Some(&(_, basis)) => found.basis = basis,
                    None => {
                        let complaint = Problem::NoChoice.because("expected stated, fitted or estimated");
                        reader.complain(value.span().start, "source.basis", complaint);
                    }
                }
            }
            ("value", _) => found.value = reader.string("source.value", value).unwrap_or_default(),
            ("origin", _) => found.origin = reader.string("source.origin", value).unwrap_or_default(),
            ("date", _) => found.date = reader.string("source.date", value).unwrap_or_default(),
            ("address", _) => found.address = reader.string("source.address", value).unwrap_or_default(),
            _ => reader.unknown(key, &KEYS),
        }
    }
    for (key, text) in [("value", &found.value), ("origin", &found.origin)] {
        if text.is_empty() && reader.complaints.len() == complaints {
            let message = format!("`{key}` is not given; a source says what it states and who says so");
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
        let rows: Vec<_> = device.parameters.iter().map(|g| (g.key.as_str(), g.value.as_str())).collect();
        assert_eq!(rows, [("read_command_cost", "39us"), ("dies", "6")]);
        assert_eq!((device.parameters[1].place.line, device.parameters[1].place.column), (7, 8));
        assert_eq!(device.limits[0].value, "1024");
        assert_eq!(device.sources[0].basis, DeviceBasis::Fitted);
        assert_eq!(device.sources[0].parameters, ["read_command_cost", "dies"]);
        let odd = GOOD.replace("on my desk", "\\\"on\\\" my\\tdesk");
        let device = parse("d.toml", &odd).expect("a good file");
        assert_eq!(device.summary, "the phone \"on\" my\tdesk");
    }

    #[test]
    fn everything_wrong_is_said_with_its_place() {
        for (text, expected) in [
            ("", &["d.toml:1:1: name: is not given", "d.toml:1:1: base: is not given"][..]),
            ("name = \"a\"\nbase = 5\n", &["d.toml:1:1: base: is not given", "d.toml:2:8: base: expected a string"]),
            (
                "name = \"a/b\"\nbase = \"null\"",
                &["d.toml:1:1: name: is not given", "d.toml:1:8: name: expected letters"],
            ),
            ("name = \"a\"\nbase = \"null\"\nbas = 1", &["d.toml:3:1: bas: no such key (did you mean `base`?)"]),
            ("name = \"a\"\nbase = \"null\"\n[parameters]\nx = 1.5", &["d.toml:4:5: parameters.x: expected a whole"]),
            ("name = \"a\"\nbase = \"null\"\n[limits]\nx = \"1,y=2\"", &["d.toml:4:5: limits.x: expected a whole"]),
            ("name = \"a\"\nbase = \"null\"\n[source]\nvalue = \"x\"", &["d.toml:3:1: source: expected [[source]]"]),
            (
                "name = \"a\"\nbase = \"null\"\n[[source]]\nvalue = \"x\"",
                &["d.toml:3:1: source: `origin` is not given"],
            ),
            (
                "name = \"a\"\nbase = \"null\"\n[[source]]\nbasis = \"guess\"",
                &["d.toml:4:9: source.basis: expected stated, fitted or estimated"],
            ),
            ("name = \"a\"\nbase = \n", &["d.toml:2:"]),
        ] {
            let errors: Vec<String> = parse("d.toml", text).unwrap_err().iter().map(ToString::to_string).collect();
            assert_eq!(errors.len(), expected.len(), "{text}: {errors:?}");
            assert!(errors.iter().zip(expected).all(|(error, start)| error.starts_with(start)), "{text}: {errors:?}");
        }
    }
}
