//! The plan of a sweep: TOML that names a job file, options of the stack, and what varies.
//!
//! ```toml
//! job = "reader.fio"
//! device = "sata-ssd-860evo"
//! seeds = 10
//! compare = "scheduler=none"
//!
//! [set]
//! nr_requests = 128
//!
//! [over]
//! iodepth = "1..256:*2"
//! scheduler = ["none", "bfq", "mq-deadline:fifo_batch=1"]
//! "reader:bs" = ["4k", "64k"]
//! ```
//!
//! This module checks only the TOML; the caller knows options, settings and ranges. All errors are
//! reported at once, one line each, with their places. Cost: O(size of the file).

use crate::diagnostic::{Diagnostic, Problem, Span};
use crate::toml_reader::{Given, Reader, TomlEntry, Value, entries, scalar};
use crate::toml_text::quoted;

/// A key with several values, and the place of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenList {
    /// The key.
    pub key: String,
    /// The values; a number is written as on the command line.
    pub values: Vec<String>,
    /// True if they were written as an array, and not as one text that may be a list or range.
    pub is_list: bool,
    /// The place of the key.
    pub place: Span,
}

/// A plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepFile {
    /// Path of the job file, from the folder of the plan.
    pub job: Option<Given>,
    /// A number of random seeds, or a list of them as `3,5,9`.
    pub seeds: Option<Given>,
    /// How points are sampled: `latin:200`.
    pub sample: Option<Given>,
    /// The value with which others are compared: `scheduler=none`.
    pub compare: Option<Given>,
    /// Options of the stack by their long names, in the file's order.
    pub options: Vec<Given>,
    /// Queue settings, in the file's order.
    pub set: Vec<Given>,
    /// What varies, in the file's order.
    pub over: Vec<GivenList>,
}

/// Options of which each value is added.
const REPEATED: [&str; 2] = ["fault", "job-option"];

/// The keys of a plan besides options of the stack.
const KEYS: [&str; 6] = ["job", "seeds", "sample", "compare", "set", "over"];

/// Parses the text of a plan. `file` is its name in complaints; `options` are the options of the
/// stack that it may have.
///
/// # Errors
/// All errors, each with its place and what would be right.
pub fn parse(
    file: &str,
    text: &str,
    options: &[&'static str],
) -> Result<SweepFile, Vec<Diagnostic>> {
    let mut reader = Reader::new(file, text);
    let Some(table) = reader.table() else { return Err(reader.complaints) };
    let mut found = SweepFile::default();
    for entry in entries(table.get_ref()) {
        found.take(&mut reader, &entry, options);
    }
    if found.job.is_none() && reader.complaints.is_empty() {
        let message = "is not given; a sweep runs a job file, such as job = \"reader.fio\"";
        reader.complain(0, "job", Problem::Missing.because(message));
    }
    if reader.complaints.is_empty() { Ok(found) } else { Err(reader.complaints) }
}

impl SweepFile {
    fn take(&mut self, reader: &mut Reader<'_>, entry: &TomlEntry<'_>, options: &[&'static str]) {
        let &TomlEntry { name, ref key, ref at, .. } = entry;
        match (name, entry.value) {
            ("job", _) => self.job = reader.text(name, entry),
            ("sample", _) => self.sample = reader.text(name, entry),
            ("compare", _) => self.compare = reader.text(name, entry),
            ("seeds", _) => {
                let (key, place) = (name.to_owned(), reader.place(at.start));
                self.seeds = list(reader, name, entry).map(|list| Given {
                    key,
                    value: list.join(","),
                    place,
                });
            }
            ("set", _) => self.set = reader.settings(name, entry),
            ("over", Value::Table(table)) => {
                for entry in entries(table) {
                    let place = reader.place(entry.key.start);
                    if let Some(values) = list(reader, &format!("over.{}", entry.name), &entry) {
                        let is_list = matches!(entry.value, Value::Array(_));
                        self.over.push(GivenList {
                            key: entry.name.to_owned(),
                            values,
                            is_list,
                            place,
                        });
                    }
                }
            }
            ("over", _) => reader.complain(at.start, name, "expected a table: [over]"),
            _ if options.contains(&name) => {
                let values = list(reader, name, entry).unwrap_or_default();
                if values.len() > 1 && !REPEATED.contains(&name) {
                    let message = format!(
                        "is one value here; what varies stands under [over]: {name} = [...]"
                    );
                    return reader.complain(at.start, name, Problem::TooMany.because(message));
                }
                for value in values {
                    self.options.push(Given {
                        key: name.to_owned(),
                        value,
                        place: reader.place(key.start),
                    });
                }
            }
            _ => {
                let known: Vec<&str> = KEYS.iter().chain(options).copied().collect();
                reader.unknown(&quoted(name), entry, &known);
            }
        }
    }
}

/// Returns a text or number, or each of an array, or complains.
fn list(reader: &mut Reader<'_>, key: &str, entry: &TomlEntry<'_>) -> Option<Vec<String>> {
    let all: Option<Vec<String>> = match entry.value {
        Value::Array(array) => array.iter().map(|value| scalar(value.get_ref())).collect(),
        value => scalar(value).map(|text| vec![text]),
    };
    if all.is_none() {
        reader.complain(
            entry.at.start,
            key,
            "expected a string, a number, true, false, or a list of these",
        );
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: [&str; 2] = ["device", "fault"];

    #[test]
    fn a_whole_plan() {
        let text = "job = 'a.fio'\nseeds = [3, 5]\ndevice = 'hdd-7200'\nfault = ['stall:rate=1', 'x']\n\
                    [set]\nnr_requests = 128\n[over]\niodepth = '1..8'\n\"a:bs\" = ['4k', 8192]\nsync = true\n";
        let plan = parse("p.toml", text, &OPTIONS).expect("a good plan");
        assert_eq!(plan.job.map(|given| given.value).as_deref(), Some("a.fio"));
        assert_eq!(plan.seeds.map(|given| given.value).as_deref(), Some("3,5"));
        let options: Vec<_> =
            plan.options.iter().map(|given| (given.key.as_str(), given.value.as_str())).collect();
        assert_eq!(options, [("device", "hdd-7200"), ("fault", "stall:rate=1"), ("fault", "x")]);
        let over: Vec<_> =
            plan.over.iter().map(|list| (list.key.as_str(), list.values.join(" "))).collect();
        assert_eq!(
            over,
            [("iodepth", "1..8".to_owned()), ("a:bs", "4k 8192".into()), ("sync", "1".into())]
        );
        assert_eq!((plan.set[0].key.as_str(), plan.set[0].value.as_str()), ("nr_requests", "128"));
    }

    #[test]
    fn errors_have_a_place() {
        for (text, line) in [
            (
                "job = 'a.fio'\ndevise = 'x'\n",
                "p.toml:2:1: devise: no such key (did you mean `device`?)",
            ),
            (
                "job = 'a.fio'\n[over]\nbs = {}\n",
                "p.toml:3:6: over.bs: expected a string, a number",
            ),
            (
                "job = 'a.fio'\ndevice = ['a', 'b']\n",
                "p.toml:2:10: device: is one value here; what varies stands under",
            ),
            ("over = 3\n", "p.toml:1:8: over: expected a table: [over]"),
            ("seeds = 3\n", "p.toml:1:1: job: is not given"),
            ("job = \n", "p.toml:1:"),
        ] {
            let errors = parse("p.toml", text, &OPTIONS).expect_err(text);
            let shown = errors[0].to_string();
            assert!(shown.starts_with(line), "{shown}");
        }
    }
}
