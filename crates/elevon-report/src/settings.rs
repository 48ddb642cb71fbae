//! Settings in force: scheduler tunables, configuration and queue limits of a run, and those that
//! differ between runs.

use std::fmt::Write as _;

use elevon_core::limits::SYSFS;
use elevon_result::result::RunResult;
use serde_json::{Map, Value, json};

use crate::text::{align_right, plain_table, push_table};
use crate::variant::{Variant, letters};

/// A setting and its value as text.
type TextPair = (String, String);

/// The limits in the text report; JSON and HTML have all.
const IN_TEXT: &[&str] = &[
    "logical_block_size",
    "physical_block_size",
    "max_sectors_kb",
    "max_hw_sectors_kb",
    "max_segments",
    "max_segment_size",
    "discard_max_bytes",
    "write_cache",
    "fua",
    "rotational",
];

/// Value of a setting that a variant does not have.
pub(crate) const ABSENT: &str = "-";

/// Maximum characters of a value in the text table of a comparison.
const WIDTH: usize = 20;

/// Returns the device's queues and the most important limits.
pub(crate) fn limits_in_text(run: &RunResult) -> Vec<TextPair> {
    limits(run)
        .into_iter()
        .filter(|(key, _)| !SYSFS.iter().any(|l| l.name == key) || IN_TEXT.contains(&&**key))
        .collect()
}

/// Returns the device's queues and every queue limit, by their names in sysfs.
fn limits(run: &RunResult) -> Vec<TextPair> {
    let device = &run.device;
    let queues = [
        ("hw_queues", device.hw_queues.to_string()),
        ("queue_depth", device.queue_depth.to_string()),
    ];
    let queues = queues.map(|(key, value)| (key.to_owned(), value));
    let value = |name| {
        device.limits.read(name).unwrap_or_else(|| unreachable!("the name is a row of the table"))
    };
    let all = SYSFS.iter().map(|limit| (limit.name.to_owned(), value(limit.name).to_string()));
    queues.into_iter().chain(all).collect()
}

/// Returns every setting in force.
pub(crate) fn all(run: &RunResult) -> Vec<TextPair> {
    let stack = run.scheduler.tunables.iter().chain(&run.config).cloned();
    stack.chain(limits(run)).collect()
}

/// Returns the queue limits as JSON, by their names in sysfs. Those in `flags` are booleans, the
/// others numbers.
pub(crate) fn limits_value(run: &RunResult) -> Value {
    let limits = &run.device.limits;
    let of = |name: &str, unit: &str| match limits.read(name) {
        Some(value) if unit == "0 or 1" => json!(value == 1),
        value => json!(value),
    };
    Value::Object(
        SYSFS.iter().map(|l| (l.name.to_owned(), of(l.name, l.unit))).collect::<Map<_, _>>(),
    )
}

/// Returns the settings whose values differ between the variants, and always `max_sectors_kb`,
/// which decides how I/O is split. A variant without the setting has `-`. Tunables that exist only
/// because the schedulers differ do not count as differences.
pub(crate) fn differing(variants: &[Variant<'_>]) -> Vec<(String, Vec<String>)> {
    let every: Vec<Vec<TextPair>> = variants.iter().map(|variant| all(variant.result)).collect();
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for (key, _) in every.iter().flatten() {
        if rows.iter().any(|(known, _)| known == key) {
            continue;
        }
        let value = |all: &Vec<TextPair>| {
            all.iter().find(|(k, _)| k == key).map_or_else(|| ABSENT.to_owned(), |(_, v)| v.clone())
        };
        rows.push((key.clone(), every.iter().map(value).collect()));
    }
    let is_tunable = |key: &str| {
        variants.iter().any(|v| v.result.scheduler.tunables.iter().any(|(k, _)| k == key))
    };
    rows.retain(|(key, values)| {
        let mut compared = values.iter().filter(|value| !is_tunable(key) || *value != ABSENT);
        let first = compared.next();
        key == "max_sectors_kb" || compared.any(|value| Some(value) != first)
    });
    rows
}

/// Returns true if two runs had the same device and the same value of every setting in force.
pub(crate) fn are_the_same(a: &RunResult, b: &RunResult) -> bool {
    let stack = |run: &RunResult| {
        (run.device.name.clone(), run.kernel, run.scheduler.name.clone(), run.seed, all(run))
    };
    stack(a) == stack(b)
}

/// Writes the table of [`differing`] as text.
pub(crate) fn table(out: &mut String, variants: &[Variant<'_>]) {
    let rows = differing(variants);
    if rows.is_empty() {
        return;
    }
    let mut table = plain_table();
    let heads = letters().take(variants.len()).map(String::from);
    table.set_header(std::iter::once("settings in force".to_owned()).chain(heads));
    let (alike, rows): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|(_, values)| look_alike(values));
    for (key, values) in rows {
        table.add_row(std::iter::once(key).chain(values.iter().map(|value| cut(value))));
    }
    align_right(&mut table);
    out.push('\n');
    push_table(out, &table);
    for (key, values) in alike {
        for (letter, value) in letters().zip(values) {
            let _ = writeln!(out, "{key} of {letter}: {value}");
        }
    }
}

/// Returns true if two values differ only in what is cut off.
fn look_alike(values: &[String]) -> bool {
    let differ = |a: &String, b: &String| a != b && cut(a) == cut(b);
    values.iter().enumerate().any(|(at, a)| values[..at].iter().any(|b| differ(a, b)))
}

/// Writes a line for each variant that differs from the first in no setting in force.
pub(crate) fn unchanged(out: &mut String, variants: &[Variant<'_>]) {
    for (letter, variant) in letters().zip(variants).skip(1) {
        if are_the_same(variants[0].result, variant.result) {
            let _ = writeln!(out, "{letter}: {UNCHANGED}");
        }
    }
}

/// Remark about a variant whose options changed nothing.
pub(crate) const UNCHANGED: &str =
    "its options change no setting that is in force; it is the same stack as A";

/// Cuts a value that is too long for a column.
fn cut(value: &str) -> String {
    if value.chars().count() <= WIDTH {
        return value.to_owned();
    }
    let start: String = value.chars().take(WIDTH - 3).collect();
    format!("{start}...")
}

#[cfg(test)]
mod tests {
    use elevon_core::units::Sectors;

    use super::*;
    use crate::sample;

    fn variants<'a>(runs: &'a [RunResult]) -> Vec<Variant<'a>> {
        runs.iter().map(|result| Variant { label: "v", result }).collect()
    }

    #[test]
    fn only_what_differs_is_compared_and_max_sectors() {
        let (a, mut b) = (sample::mixed_run(), sample::mixed_run());
        let same = [a.clone(), b.clone()];
        let keys = |runs: &[RunResult]| {
            differing(&variants(runs)).into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        };
        assert_eq!(keys(&same), ["max_sectors_kb"]);
        assert!(are_the_same(&same[0], &same[1]));
        b.device.limits.max_hw_sectors = Sectors::new(64);
        b.config.push(("fault".into(), "error:sectors=1000-2000,status=medium".into()));
        let runs = [a, b];
        assert_eq!(keys(&runs), ["max_hw_sectors_kb", "max_sectors_kb", "fault"]);
        assert!(!are_the_same(&runs[0], &runs[1]));
        let mut text = String::new();
        table(&mut text, &variants(&runs));
        let fault = text.lines().find(|line| line.starts_with("fault")).expect("a row");
        assert!(fault.contains(" -  ") && fault.ends_with("error:sectors=100..."), "{text}");
    }

    #[test]
    fn values_that_differ_do_not_look_the_same() {
        let with = |fault: &str| {
            let mut run = sample::mixed_run();
            run.config.push(("fault".into(), fault.into()));
            run
        };
        let (first, second) =
            ("error:sectors=1000-2000,status=medium", "error:sectors=1000-2000,status=timeout");
        let mut text = String::new();
        table(&mut text, &variants(&[with(first), with(second)]));
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("fault")).collect();
        assert_eq!(
            lines,
            [format!("fault of A: {first}"), format!("fault of B: {second}")],
            "{text}"
        );
    }

    #[test]
    fn a_variant_that_changes_nothing_says_so() {
        let runs = [sample::mixed_run(), sample::mixed_run(), sample::quicker_run()];
        let mut text = String::new();
        unchanged(&mut text, &variants(&runs));
        assert_eq!(text, format!("B: {UNCHANGED}\n"));
    }
}
