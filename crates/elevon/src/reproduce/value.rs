//! Values of expressions, and how they print.

use std::collections::BTreeMap;
use std::sync::Arc;

use elevon_core::event::{Event, EventKind};
use elevon_core::kernel::IoTicksForm;
use elevon_report::json::{self, JsonOptions};
use elevon_result::result::RunResult;
use elevon_result::summary::{DiskDelta, bandwidth, total};

use super::expression::Format;

/// Named values.
pub(super) type Record = BTreeMap<String, Value>;

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// What there is not, such as a counter that a scheduler does not have.
    None,
    Flag(bool),
    Number(f64),
    Text(Arc<str>),
    List(Arc<[Self]>),
    Record(Arc<Record>),
    Run(Arc<Run>),
}

/// A run that was made: its values on the axes, and its figures.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Values of axes, of the fit, of the hook, and of `measure`.
    own: Record,
    /// Figures.
    figures: Arc<Record>,
    pub(super) result: Arc<RunResult>,
}

impl Run {
    /// Takes the figures of a run.
    pub(super) fn new(own: Record, result: RunResult, events: Option<&[Event]>) -> Self {
        let mut figures = Record::new();
        let mut document = of_json(&json::value(&result, JsonOptions::default()));
        if let Value::Record(all) = &mut document {
            let all = Arc::make_mut(all);
            // Objects of Elevon's own stand beside those of fio's schema.
            if let Some(Value::Record(elevon)) = all.remove("elevon") {
                figures.extend(elevon.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            figures.append(all);
        }
        with_times(&mut figures, &result);
        let all = total(&result);
        let sizes = result.disk.all_request_sizes();
        let disk = DiskDelta::between(&result.disk.start, &result.disk.end);
        let busy = IoTicksForm::ALL
            .iter()
            .zip(disk.busy)
            .map(|(form, busy)| (form.name(), busy.get() as f64));
        for (name, value) in [
            ("bw", bandwidth(&all)),
            ("iops", elevon_result::summary::iops(&all)),
            ("ios", all.ios as f64),
            ("in_device", result.disk.mean_in_device()),
            ("requests", sizes.total() as f64),
            ("request_bytes", sizes.bytes() as f64),
            ("disk_seconds", disk.seconds),
        ] {
            figures.insert(name.to_owned(), Value::Number(value));
        }
        figures.insert("stat".to_owned(), numbers(disk.fields.iter().map(|&field| field as f64)));
        figures
            .insert("busy_ns".to_owned(), record(busy.map(|(form, ns)| (form, Value::Number(ns)))));
        figures.insert(
            "events".to_owned(),
            events.map_or(Value::None, |events| list(events.iter().map(of_event))),
        );
        Self { own, figures: figures.into(), result: result.into() }
    }

    /// Returns the run with more figures.
    pub(super) fn with(mut self, measured: Record) -> Self {
        self.own.extend(measured);
        self
    }

    pub(super) fn field(&self, name: &str) -> Option<&Value> {
        self.own.get(name).or_else(|| self.figures.get(name))
    }

    /// Returns the names of all figures.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.own.keys().chain(self.figures.keys()).map(String::as_str)
    }
}

/// Adds the exact times of jobs and their bytes per second, of which the JSON report has rounded
/// ones.
fn with_times(figures: &mut Record, result: &RunResult) {
    let Some(Value::List(jobs)) = figures.get_mut("jobs") else { return };
    let jobs: Vec<Value> = jobs
        .iter()
        .zip(&result.jobs)
        .map(|(value, job)| {
            let Value::Record(all) = value else { return value.clone() };
            let mut all = Record::clone(all);
            let directions = ["read", "write", "trim"].into_iter().zip(&job.stats.directions);
            let rates =
                record(directions.map(|(name, stats)| (name, Value::Number(bandwidth(stats)))));
            for (name, value) in [
                ("start_ns", Value::Number(job.start.get() as f64)),
                ("end_ns", Value::Number(job.end.get() as f64)),
                ("bw", rates),
            ] {
                all.insert(name.to_owned(), value);
            }
            Value::Record(Arc::new(all))
        })
        .collect();
    figures.insert("jobs".to_owned(), list(jobs));
}

/// Returns an event as a record. Its `kind` is the letter of blktrace.
fn of_event(event: &Event) -> Value {
    let (letter, new_sector) = match event.kind {
        EventKind::BioQueue => ("Q", None),
        EventKind::Split { new_sector } => ("X", Some(new_sector.get())),
        EventKind::Issue => ("D", None),
        EventKind::Complete { .. } => ("C", None),
        EventKind::Insert => ("I", None),
        EventKind::Requeue => ("R", None),
        EventKind::BackMerge | EventKind::RequestMerge => ("M", None),
        EventKind::FrontMerge => ("F", None),
        EventKind::GetRequest
        | EventKind::IoStart
        | EventKind::Plug
        | EventKind::Unplug { .. }
        | EventKind::BioAgain
        | EventKind::IoDone { .. }
        | EventKind::TagWait { .. } => ("other", None),
    };
    record([
        ("kind", text(letter)),
        ("us", Value::Number(event.time.get() as f64 / 1e3)),
        ("sector", Value::Number(event.sector.get() as f64)),
        ("sectors", Value::Number(f64::from(event.sectors))),
        ("new_sector", new_sector.map_or(Value::None, |sector| Value::Number(sector as f64))),
    ])
}

pub(super) fn text(words: impl Into<Arc<str>>) -> Value {
    Value::Text(words.into())
}

pub(super) fn list(values: impl IntoIterator<Item = Value>) -> Value {
    Value::List(values.into_iter().collect())
}

pub(super) fn numbers(values: impl IntoIterator<Item = f64>) -> Value {
    list(values.into_iter().map(Value::Number))
}

pub(super) fn record<'a>(values: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    Value::Record(Arc::new(
        values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    ))
}

fn of_json(value: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match value {
        Json::Null => Value::None,
        Json::Bool(flag) => Value::Flag(*flag),
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(words) => text(words.as_str()),
        Json::Array(all) => list(all.iter().map(of_json)),
        Json::Object(all) => record(all.iter().map(|(key, value)| (key.as_str(), of_json(value)))),
    }
}

impl Value {
    /// Returns what a message calls a value of this kind.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Flag(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Record(_) => "a table",
            Self::Run(_) => "a run",
        }
    }

    /// Returns true unless the value is false, nothing or 0.
    pub(super) fn holds(&self) -> bool {
        !matches!(self, Self::None | Self::Flag(false))
            && !matches!(self, Self::Number(number) if *number == 0.0)
    }

    pub(super) fn number(&self) -> Result<f64, String> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Flag(flag) => Ok(f64::from(u8::from(*flag))),
            other => Err(format!("expected a number, found {}", other.kind())),
        }
    }

    pub(super) fn list(&self) -> Result<&[Self], String> {
        match self {
            Self::List(all) => Ok(all),
            other => Err(format!("expected a list, found {}", other.kind())),
        }
    }

    /// Returns the numbers of a list.
    pub(super) fn numbers(&self) -> Result<Vec<f64>, String> {
        self.list()?.iter().map(Self::number).collect()
    }

    /// Returns true if both are the same; a table with a `name` is the same as its name.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Flag(a), Self::Flag(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::List(a), Self::List(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.is(b))
            }
            (Self::Record(a), Self::Record(b)) => {
                a.len() == b.len()
                    && a.iter().zip(b.iter()).all(|((x, a), (y, b))| x == y && a.is(b))
            }
            (Self::Record(all), Self::Text(_)) => {
                all.get("name").is_some_and(|name| name.is(other))
            }
            (Self::Text(_), Self::Record(_)) => other.is(self),
            _ => false,
        }
    }

    /// Formats the value: a list as in prose (`a, b and c`), a table with a `name` as its name.
    pub(super) fn shown(&self, format: Format) -> Result<String, String> {
        Ok(match self {
            Self::None => "-".to_owned(),
            Self::Flag(flag) => (if *flag { "yes" } else { "no" }).to_owned(),
            Self::Number(number) => match (format.sign, format.decimals) {
                (false, None) => format!("{number}"),
                (true, None) => format!("{number:+}"),
                (false, Some(decimals)) => format!("{number:.decimals$}"),
                (true, Some(decimals)) => format!("{number:+.decimals$}"),
            },
            Self::Text(words) => words.to_string(),
            Self::List(all) => {
                listed(&all.iter().map(|one| one.shown(format)).collect::<Result<Vec<_>, _>>()?)
            }
            Self::Record(all) => match all.get("name") {
                Some(name) => name.shown(format)?,
                None => {
                    return Err("a table without a name cannot be printed; name one of its fields"
                        .to_owned());
                }
            },
            Self::Run(_) => {
                return Err("a run cannot be printed; name one of its figures".to_owned());
            }
        })
    }
}

/// Joins a list as in prose: `a`, `a and b`, `a, b and c`.
fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_as_in_prose() {
        let shown = |value: Value, decimals| {
            value.shown(Format { sign: false, decimals }).expect("it prints")
        };
        assert_eq!(shown(numbers([1.0, 2.25, 3.0]), Some(1)), "1.0, 2.2 and 3.0");
        assert_eq!(
            (shown(Value::Number(4001.0), None), shown(Value::Number(63.3), None)),
            ("4001".into(), "63.3".into())
        );
        assert_eq!(
            (shown(Value::None, Some(2)), shown(record([("name", text("x"))]), None)),
            ("-".into(), "x".into())
        );
        assert!(record([("x", text("x"))]).is(&text("x")) == record([]).is(&Value::None));
        assert!(
            record([("name", text("x"))]).is(&text("x"))
                && !numbers([1.0]).is(&numbers([1.0, 2.0]))
        );
    }
}
