//! Causes of differences, as far as a rule can tell them.

use std::collections::BTreeMap;

use super::both::{Compared, Judged, worst_error};
use super::case::{Area, Case};
use super::figures::{Figure, HOLDS, Kind};

/// Jobs that differ and are counted by their causes.
const MAX_COUNTED_JOBS: usize = 100;

/// Returns a table of the first jobs that differ, by cause, in the order of the seeds.
pub fn table(judged: &[Judged]) -> String {
    let mut by_cause: BTreeMap<(Area, String), Vec<u64>> = BTreeMap::new();
    let differing = judged
        .iter()
        .filter_map(|(case, compared)| Some((case, compared.as_ref().ok()?)))
        .filter(|(_, compared)| worst_error(&compared.figures) > HOLDS);
    for (case, compared) in differing.take(MAX_COUNTED_JOBS) {
        by_cause.entry((case.area, cause(case, compared))).or_default().push(case.seed);
    }
    let mut text =
        String::from("| area | what differs first | jobs | seeds |\n|---|---|---:|---|\n");
    for ((area, cause), seeds) in by_cause {
        let shown: Vec<String> = seeds.iter().take(4).map(u64::to_string).collect();
        let more = if seeds.len() > shown.len() { ", ..." } else { "" };
        text.push_str(&format!(
            "| {} | {cause} | {} | {}{more} |\n",
            area.name(),
            seeds.len(),
            shown.join(", ")
        ));
    }
    text
}

/// Returns what differs first in a job: the block events where they are compared, else the figures.
fn cause(case: &Case, compared: &Compared) -> String {
    let missed: Vec<&Figure> =
        compared.figures.iter().filter(|figure| figure.telling && !figure.holds()).collect();
    if missed.iter().all(|figure| figure.name == "io_ticks") {
        return String::from("io_ticks only");
    }
    if missed.iter().all(|figure| figure.kind == Kind::Group) {
        return String::from("counters of cgroups only");
    }
    if let Some(first) = &compared.first_difference {
        return first.what.clone();
    }
    if !case.is_traced() {
        let rates = missed.iter().any(|figure| figure.kind == Kind::Rate);
        let trims = case.processes.iter().any(|process| process.trim);
        return match (rates, trims) {
            (true, false) => "rates".into(),
            (true, true) => "rates, beside discards".into(),
            (false, _) => "latencies or counters, at the same rates".into(),
        };
    }
    String::from("times only: the events are in the same order")
}
