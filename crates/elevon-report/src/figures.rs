//! The figures of a run as rows of a table: one for each job, and one for all jobs together.
//!
//! A sweep writes them as CSV, JSON and Parquet, so every name ends in its unit, unless the figure
//! is a count.

use std::collections::{BTreeMap, BTreeSet};

use elevon_core::stats::DirectionStats;
use elevon_result::result::RunResult;
use elevon_result::summary::{
    bandwidth, iops, latency_mean, mixed, percentile, shown_latency, total,
};

use crate::compare::{cache_rows, device_rows};
use crate::cpu::utilisation;
use crate::variant::Variant;

/// Name of the row of all jobs together.
pub const ALL_JOBS: &str = "*";

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureRow {
    /// Name of the job, as `job_names` has it; [`ALL_JOBS`] for all together.
    pub job: String,
    /// Names and values, in the order of the columns; a figure that the job does not have is
    /// missing.
    pub figures: Vec<(String, f64)>,
}

/// Returns the rows of a run: its jobs in order, if there are several, then all of them together
/// with the figures of the device.
pub fn rows(run: &RunResult) -> Vec<FigureRow> {
    let mut rows: Vec<FigureRow> = Vec::new();
    if run.jobs.len() > 1 {
        let names: Vec<&str> = run.jobs.iter().map(|job| job.name.as_str()).collect();
        for (job, name) in run.jobs.iter().zip(job_names(&names)) {
            let mut figures = of_directions(&job.stats.directions, &mixed(&job.stats));
            figures.push(("cpu_percent".to_owned(), 100.0 * utilisation(job)));
            rows.push(FigureRow { job: name, figures });
        }
    }
    let mut directions: [DirectionStats; 3] = Default::default();
    for job in &run.jobs {
        for (sum, own) in directions.iter_mut().zip(&job.stats.directions) {
            sum.merge(own);
        }
    }
    let mut figures = of_directions(&directions, &total(run));
    let variant = [Variant { label: "", result: run }];
    let rest = device_rows(&variant).into_iter().chain(cache_rows(&variant));
    figures.extend(rest.filter_map(|row| Some((row.key.to_owned(), *row.values.first()?))));
    figures.push(("elapsed_ns".to_owned(), run.elapsed.get() as f64));
    rows.push(FigureRow { job: ALL_JOBS.to_owned(), figures });
    rows
}

/// Returns true if a figure is a whole number, by its name: a count, or a time other than a mean.
pub fn is_whole(figure: &str) -> bool {
    let fractions = ["_percent", "_per_second", "iops", "_mean", "_mean_ns"];
    !fractions.iter().any(|end| figure.ends_with(end))
}

/// Returns a different name for each job: those of one name (clones without `group_reporting`,
/// sections of one name) are `NAME#1`, `NAME#2` and so on, and so is a job named [`ALL_JOBS`].
pub(crate) fn job_names(names: &[&str]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = [(ALL_JOBS, 1)].into();
    names.iter().for_each(|&name| *counts.entry(name).or_default() += 1);
    let mut taken: BTreeSet<String> = counts
        .iter()
        .filter(|(_, count)| **count == 1)
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unique = Vec::new();
    for &name in names {
        if counts[name] == 1 {
            unique.push(name.to_owned());
            continue;
        }
        let number = last.entry(name).or_default();
        let mut numbered = std::iter::from_fn(|| {
            *number += 1;
            Some(format!("{name}#{number}"))
        });
        unique.extend(numbered.find(|numbered| taken.insert(numbered.clone())));
    }
    unique
}

/// Returns the figures of all directions together, and of each direction with I/Os: also of an only
/// one, so that runs with one direction and with several can be compared.
fn of_directions(directions: &[DirectionStats; 3], all: &DirectionStats) -> Vec<(String, f64)> {
    let used =
        ["read_", "write_", "trim_"].into_iter().zip(directions).filter(|(_, own)| own.ios > 0);
    of_one("", all).into_iter().chain(used.flat_map(|(prefix, own)| of_one(prefix, own))).collect()
}

fn of_one(prefix: &str, of: &DirectionStats) -> Vec<(String, f64)> {
    let latency = shown_latency(of);
    let at = |millionths| percentile(latency, millionths) as f64;
    let figures = [
        ("ios", of.ios as f64),
        ("errors", of.errors as f64),
        ("iops", iops(of)),
        ("bw_bytes_per_second", bandwidth(of)),
        ("lat_mean_ns", latency_mean(latency)),
        ("lat_p50_ns", at(500_000)),
        ("lat_p95_ns", at(950_000)),
        ("lat_p99_ns", at(990_000)),
        ("lat_p99_9_ns", at(999_000)),
        ("lat_max_ns", at(1_000_000)),
    ];
    figures.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_one_direction_has_its_figures() {
        let read = DirectionStats { ios: 3, ..DirectionStats::default() };
        let figures = of_directions(
            &[read.clone(), DirectionStats::default(), DirectionStats::default()],
            &read,
        );
        let of = |name: &str| figures.iter().find(|(own, _)| own == name).map(|(_, value)| *value);
        assert_eq!((of("ios"), of("read_ios"), of("write_ios")), (Some(3.0), Some(3.0), None));
    }

    #[test]
    fn names_say_what_is_whole() {
        for (name, value) in of_directions(&Default::default(), &DirectionStats::default()) {
            assert!(!is_whole(&name) || value.fract() == 0.0, "{name}");
        }
        assert!(
            ["ios", "read_errors", "lat_p99_9_ns", "splits", "elapsed_ns"]
                .iter()
                .all(|name| is_whole(name))
        );
        let fractions = [
            "iops",
            "read_iops",
            "lat_mean_ns",
            "in_flight_mean",
            "bw_bytes_per_second",
            "hit_percent",
        ];
        assert!(!fractions.iter().any(|name| is_whole(name)));
    }

    #[test]
    fn jobs_of_one_name_have_numbers() {
        assert_eq!(job_names(&["a", "b"]), ["a", "b"]);
        assert_eq!(job_names(&["rd", "wr", "rd", "rd"]), ["rd#1", "wr", "rd#2", "rd#3"]);
        assert_eq!(job_names(&["rd", "rd#1", "rd"]), ["rd#2", "rd#1", "rd#3"]);
        assert_eq!(job_names(&[ALL_JOBS]), ["*#1"]);
    }
}
