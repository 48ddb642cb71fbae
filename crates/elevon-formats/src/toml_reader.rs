//! A TOML file that is being read: its text, the places in it, its entries, and the complaints.

use std::ops::Range;

use elevon_core::nearest::did_you_mean;
use toml::Spanned;
use toml::de::DeTable;

use crate::cgroup::FILES;
use crate::diagnostic::{Diagnostic, IntoComplaint, Problem, Span};

pub(crate) use toml::de::DeValue as Value;

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

/// The text, and the complaints so far.
pub(crate) struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    /// The byte at which each line starts.
    lines: Vec<usize>,
    /// The devices that lines name, with the first place of each.
    pub(crate) devices: Vec<(String, usize)>,
    pub(crate) complaints: Vec<Diagnostic>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        let lines =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { file, text, lines, devices: Vec::new(), complaints: Vec::new() }
    }

    /// Parses the text as TOML, or complains of its syntax.
    pub(crate) fn table(&mut self) -> Option<Spanned<DeTable<'a>>> {
        DeTable::parse(self.text)
            .map_err(|error| {
                let at = error.span().map_or(0, |span| span.start);
                let message = error.message().replace(['\n', '\r'], " ");
                self.complain(at, "", Problem::Syntax.because(message));
            })
            .ok()
    }

    /// Returns the place of a byte of the text.
    pub(crate) fn place(&self, at: usize) -> Span {
        let at = at.min(self.text.len());
        let line = self.lines.partition_point(|start| *start <= at);
        let column =
            self.text.get(self.lines[line - 1]..at).map_or(1, |before| before.chars().count() + 1);
        Span { file: self.file.to_owned(), line: line as u32, column: column as u32 }
    }

    pub(crate) fn complain(&mut self, at: usize, key: &str, what: impl IntoComplaint) {
        let complaint = self.place(at).diagnostic(key, what.into_complaint());
        self.complaints.push(complaint);
    }

    /// Complains of the key of an entry, which is none of `known`; with its tables it is `key`.
    pub(crate) fn unknown(&mut self, key: &str, entry: &TomlEntry<'_>, known: &[&str]) {
        let meant = did_you_mean(entry.full_name(), known.iter().copied());
        let message = format!("no such key{meant}; there are {}", known.join(", "));
        self.complain(entry.key.start, key, Problem::Unknown.because(message));
    }

    /// Returns a text that is not empty and has no control characters, or complains.
    pub(crate) fn text(&mut self, key: &str, entry: &TomlEntry<'_>) -> Option<Given> {
        self.text_at(key, entry.value, entry.at.start)
    }

    fn text_at(&mut self, key: &str, value: &Value<'_>, at: usize) -> Option<Given> {
        match value {
            Value::String(text) if !text.trim().is_empty() && !text.contains(char::is_control) => {
                Some(Given { key: key.to_owned(), value: text.to_string(), place: self.place(at) })
            }
            Value::String(_) => {
                self.complain(at, key, "expected a text in one line that is not empty");
                None
            }
            _ => {
                self.complain(at, key, "expected a text in quotes");
                None
            }
        }
    }

    /// Returns a text, or each of an array of texts.
    pub(crate) fn texts(&mut self, key: &str, entry: &TomlEntry<'_>) -> Vec<Given> {
        match entry.value {
            Value::Array(all) => all
                .iter()
                .filter_map(|value| self.text_at(key, value.get_ref(), value.span().start))
                .collect(),
            value => self.text_at(key, value, entry.at.start).into_iter().collect(),
        }
    }

    /// Returns true or false; of any other value it complains, and returns false.
    pub(crate) fn flag(&mut self, key: &str, entry: &TomlEntry<'_>) -> bool {
        if let Value::Boolean(flag) = entry.value {
            return *flag;
        }
        self.complain(entry.at.start, key, "expected true or false");
        false
    }

    /// Returns a whole number, or complains.
    pub(crate) fn number(&mut self, key: &str, entry: &TomlEntry<'_>) -> Option<u64> {
        let number = whole_number(entry.value).and_then(|number| number.parse().ok());
        if number.is_none() {
            self.complain(entry.at.start, key, "expected a whole number, 0 or more");
        }
        number
    }

    /// Returns the entries of a table of settings, as texts of the command line: texts, whole
    /// numbers, true and false.
    pub(crate) fn settings(&mut self, title: &str, entry: &TomlEntry<'_>) -> Vec<Given> {
        let Value::Table(table) = entry.value else {
            self.complain(entry.at.start, title, format!("expected a table: [{title}]"));
            return Vec::new();
        };
        let mut all = Vec::new();
        for TomlEntry { name, value, at, .. } in entries(table) {
            let text = match value {
                Value::String(text) if text.contains([',', '=']) => None,
                Value::Float(_) => None,
                value => scalar(value),
            };
            match text {
                Some(value) => {
                    all.push(Given { key: name.to_owned(), value, place: self.place(at.start) });
                }
                None => {
                    let right = "expected a whole number, true, false, or a quantity with its unit in quotes, such as \"39us\"";
                    self.complain(at.start, &format!("{title}.{name}"), right);
                }
            }
        }
        all
    }

    /// Returns the byte of the text that is byte `within` of a string's value, or the start of the
    /// string if it has escapes.
    pub(crate) fn inside(&self, string: &Range<usize>, value: &str, within: usize) -> usize {
        let body = string.start + 1;
        let is_plain =
            self.text.get(body..body + value.len()).is_some_and(|source| source == value);
        if is_plain { body + within } else { string.start }
    }

    /// Records that a line names a device.
    pub(crate) fn names_device(&mut self, device: Option<&str>, at: usize) {
        if let Some(device) =
            device.filter(|device| self.devices.iter().all(|(known, _)| known != device))
        {
            self.devices.push((device.to_owned(), at));
        }
    }

    /// Complains of every line that names a device, where `why` there is none to name.
    pub(crate) fn no_device(&mut self, why: &str) {
        for (device, at) in std::mem::take(&mut self.devices) {
            self.complain(at, "", Problem::Conflict.because(format!("{device}: {why}")));
        }
    }

    /// Complains if lines name different devices where there is only one: settings for another
    /// would have no effect. Returns the name of the device.
    pub(crate) fn one_device(&mut self) -> Option<String> {
        let mut devices = std::mem::take(&mut self.devices).into_iter();
        let (first, first_at) = devices.next()?;
        let line = self.place(first_at).line;
        for (other, at) in devices {
            let message = format!(
                "{other}: there is one device, and line {line} calls it {first}; leave devices out, or name one"
            );
            self.complain(at, "", Problem::Conflict.because(message));
        }
        Some(first)
    }
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct TomlEntry<'t> {
    pub(crate) name: &'t str,
    /// The joined name, if a dotted key was not quoted.
    pub(crate) dotted: Option<String>,
    pub(crate) key: Range<usize>,
    pub(crate) value: &'t Value<'t>,
    pub(crate) at: Range<usize>,
}

impl TomlEntry<'_> {
    /// Returns the key, joined if it was written as a dotted key.
    pub(crate) fn full_name(&self) -> &str {
        self.dotted.as_deref().unwrap_or(self.name)
    }
}

/// Returns a decimal number without its underscores.
pub(crate) fn whole_number(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Integer(number) if number.radix() == 10 => Some(number.as_str().replace('_', "")),
        _ => None,
    }
}

/// Returns a text, number, true or false as it is written on the command line.
pub(crate) fn scalar(value: &Value<'_>) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string()),
        Value::Float(number) => Some(number.as_str().replace('_', "")),
        Value::Boolean(flag) => Some(u8::from(*flag).to_string()),
        value => whole_number(value),
    }
}

/// Returns the entries of a table, in the file's order.
pub(crate) fn entries<'t>(table: &'t DeTable<'t>) -> Vec<TomlEntry<'t>> {
    let mut all: Vec<TomlEntry<'t>> = table
        .iter()
        .map(|(key, value): (&Spanned<_>, &Spanned<_>)| TomlEntry {
            name: key.get_ref(),
            dotted: None,
            key: key.span(),
            value: value.get_ref(),
            at: value.span(),
        })
        .collect();
    all.sort_by_key(|entry| entry.key.start);
    all
}

/// Returns the entries with the keys of unquoted control files joined: TOML reads `io.max = ...` as
/// a table `io`.
pub(crate) fn flattened(entries: Vec<TomlEntry<'_>>) -> Vec<TomlEntry<'_>> {
    let mut all = Vec::new();
    let mut open = entries;
    open.reverse();
    while let Some(entry) = open.pop() {
        let prefix = format!("{}.", entry.full_name());
        match entry.value {
            Value::Table(table) if FILES.iter().any(|file| file.name.starts_with(&prefix)) => {
                let below = self::entries(table).into_iter().rev();
                open.extend(below.map(|inner| TomlEntry {
                    dotted: Some(format!("{prefix}{}", inner.name)),
                    ..inner
                }));
            }
            _ => all.push(entry),
        }
    }
    all.sort_by_key(|entry| entry.key.start);
    all
}
