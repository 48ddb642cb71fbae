//! The settings in force: scheduler tunables, configuration and queue limits of a run, and which of
//! them differ between runs.

use std::fmt::Write as _;

use elevon_core::limits::SYSFS;
use serde_json::{Map, Value, json};

use crate::compare::{Variant, letters};
use crate::result::RunResult;
use crate::text::{align_right, plain_table, push_table};

/// A setting and its value as text.
type Row = (String, String);

/// The limits that the text report shows. JSON and HTML have all.
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

/// Characters of a value in a comparison's table of text.
const WIDTH: usize = 20;

/// The queues of the device and the limits that a reader of a report asks for first.
pub(crate) fn limits_in_text(run: &RunResult) -> Vec<Row> {
    limits(run)
        .into_iter()
        .filter(|(key, _)| !SYSFS.iter().any(|l| l.name == key) || IN_TEXT.contains(&&**key))
        .collect()
}

/// The queues of the device and every queue limit, under the names of sysfs.
fn limits(run: &RunResult) -> Vec<Row> {
    let device = &run.device;
    let queues = [("hw_queues", device.hw_queues.to_string()), ("queue_depth", device.queue_depth.to_string())];
    let queues = queues.map(|(key, value)| (key.to_owned(), value));
    let value = |name| device.limits.read(name).unwrap_or_else(|| unreachable!("the name is a row of the table"));
    let all = SYSFS.iter().map(|limit| (limit.name.to_owned(), value(limit.name).to_string()));
    queues.into_iter().chain(all).collect()
}

/// Every setting in force.
pub(crate) fn all(run: &RunResult) -> Vec<Row> {
    let stack = run.scheduler.tunables.iter().chain(&run.config).cloned();
    stack.chain(limits(run)).collect()
}

/// The queue limits as JSON, under the names of sysfs. Those in `flags` are true or false, the
/// others numbers.
pub(crate) fn limits_value(run: &RunResult) -> Value {
    let limits = &run.device.limits;
    let of = |name: &str, unit: &str| match limits.read(name) {
        Some(value) if unit == "0 or 1" => json!(value == 1),
        value => json!(value),
    };
    Value::Object(SYSFS.iter().map(|l| (l.name.to_owned(), of(l.name, l.unit))).collect::<Map<_, _>>())
}

/// Settings whose values differ between the variants, and `max_sectors_kb` in any case: what
/// decides how I/O is split. A variant without the setting has `-`; that another scheduler has
/// other tunables is no difference.
pub(crate) fn differing(variants: &[Variant<'_>]) -> Vec<(String, Vec<String>)> {
    let every: Vec<Vec<Row>> = variants.iter().map(|variant| all(variant.result)).collect();
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for (key, _) in every.iter().flatten() {
        if rows.iter().any(|(known, _)| known == key) {
            continue;
        }
        let value =
            |all: &Vec<Row>| all.iter().find(|(k, _)| k == key).map_or_else(|| "-".to_owned(), |(_, v)| v.clone());
        rows.push((key.clone(), every.iter().map(value).collect()));
    }
    let is_tunable = |key: &str| variants.iter().any(|v| v.result.scheduler.tunables.iter().any(|(k, _)| k == key));
    rows.retain(|(key, values)| {
        let mut compared = values.iter().filter(|value| !is_tunable(key) || *value != "-");
        let first = compared.next();
        key == "max_sectors_kb" || compared.any(|value| Some(value) != first)
    });
    rows
}

/// Whether two runs had the same device and every setting in force the same.
pub fn are_the_same(a: &RunResult, b: &RunResult) -> bool {
    let stack = |run: &RunResult| (run.device.name.clone(), run.kernel, run.scheduler.name.clone(), run.seed, all(run));
    stack(a) == stack(b)
}

/// The table of [`differing`] as text.
pub(crate) fn table(out: &mut String, variants: &[Variant<'_>]) {
    let rows = differing(variants);
    if rows.is_empty() {
        return;
    }
    let mut table = plain_table();
    let heads = letters().take(variants.len()).map(String::from);
    table.set_header(std::iter::once("settings in force".to_owned()).chain(heads));
    for (key, values) in rows {
        table.add_row(std::iter::once(key).chain(values.iter().map(|value| cut(value))));
    }
    align_right(&mut table);
    out.push('\n');
    push_table(out, &table);
}

/// A line for each variant that differs from the first in no setting that is in force.
pub(crate) fn unchanged(out: &mut String, variants: &[Variant<'_>]) {
    for (letter, variant) in letters().zip(variants).skip(1) {
        if are_the_same(variants[0].result, variant.result) {
            let _ = writeln!(out, "{letter}: {UNCHANGED}");
        }
    }
}

/// What is said of a variant whose options changed nothing.
pub(crate) const UNCHANGED: &str = "its options change no setting that is in force; it is the same stack as A";

/// The first characters of a value too long for a column.
fn cut(value: &str) -> String {
    if value.chars().count() <= WIDTH {
        return value.to_owned();
    }
    let start: String = value.chars().take(WIDTH - 3).collect();
    format!("{start}...")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use elevon_core::units::Sectors;

    fn variants<'a>(runs: &'a [RunResult]) -> Vec<Variant<'a>> {
        runs.iter().map(|result| Variant { label: "v", result }).collect()
    }

    #[test]
    fn only_what_differs_is_compared_and_max_sectors() {
        let (a, mut b) = (sample::mixed_run(), sample::mixed_run());
        let same = [a.clone(), b.clone()];
        let keys = |runs: &[RunResult]| differing(&variants(runs)).into_iter().map(|(key, _)| key).collect::<Vec<_>>();
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
    fn a_variant_that_changes_nothing_says_so() {
        let runs = [sample::mixed_run(), sample::mixed_run(), sample::quicker_run()];
        let mut text = String::new();
        unchanged(&mut text, &variants(&runs));
        assert_eq!(text, format!("B: {UNCHANGED}\n"));
    }
}
