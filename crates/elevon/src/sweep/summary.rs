//! What a sweep shows: means with 95 % intervals over seeds, paired differences, and plots.

use std::collections::BTreeMap;

use elevon_report::document::{Document, Table};
use elevon_report::figures::ALL_JOBS;
use elevon_report::interval::Interval;
use elevon_report::number::counted;
use elevon_report::plot::Unit;
use serde_json::{Map, Value, json};

use super::amount::{change_in_words, with_interval};
use super::axis::Axis;
use super::points::Point;
use crate::args::DEFAULT_KERNEL;

/// Maximum number of rows of a table of the summary; the files have all.
const ROWS: usize = 60;
/// Maximum number of jobs that have plots of their own.
pub(super) const JOBS: usize = 8;

/// A figure of the summary: name in the table of results, heading, unit.
pub(super) struct Shown {
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    pub(super) unit: Unit,
}

pub(super) const SHOWN: [Shown; 4] = [
    Shown { key: "iops", title: "I/Os a second", unit: Unit::Count },
    Shown { key: "bw_bytes_per_second", title: "throughput", unit: Unit::BytesPerSecond },
    Shown { key: "lat_p50_ns", title: "median latency", unit: Unit::Nanos },
    Shown { key: "lat_p99_ns", title: "99% latency", unit: Unit::Nanos },
];

/// Figures of all runs: by name of the figure and point, one value for each seed in order; `None`
/// where the run failed or the job has no such figure.
pub(crate) type Samples = BTreeMap<(String, String), Vec<Vec<Option<f64>>>>;

/// The results of a sweep.
pub(crate) struct Results<'a> {
    pub(crate) title: String,
    /// What a point is called: `point`, or `variant`.
    pub(crate) noun: &'static str,
    pub(crate) axes: &'a [Axis],
    pub(crate) points: &'a [Point],
    pub(crate) seeds: &'a [u64],
    /// The command line of what all runs share.
    pub(crate) command: &'a str,
    /// What the user should know of the runs.
    pub(crate) warnings: &'a [String],
    /// Names of the jobs in order; [`ALL_JOBS`] last.
    pub(crate) jobs: &'a [String],
    /// By job and figure: for each point the values of its seeds.
    pub(crate) samples: &'a Samples,
    /// An axis and the index of the value with which its other values are compared.
    pub(crate) compare: Option<(usize, usize)>,
    /// Runs that failed.
    pub(crate) failed: usize,
}

impl Results<'_> {
    /// Returns the summary.
    pub(crate) fn document(&self) -> Document {
        let mut document = Document::new(&self.title);
        let over = if self.seeds.len() > 1 { ", ± half of the 95 % interval of the mean over seeds" } else { "" };
        let (points, seeds) = (counted(self.points.len() as u64, self.noun), counted(self.seeds.len() as u64, "seed"));
        document.paragraph(format!("{points}, {seeds} each{over}. Latency is total latency."));
        document.paragraph(format!(
            "elevon {} with the rules of kernel {DEFAULT_KERNEL} unless another is given, {}. What each {} adds its own options to:",
            env!("CARGO_PKG_VERSION"),
            seeds_in_words(self.seeds),
            self.noun
        ));
        document.command(self.command);
        for warning in self.warnings {
            document.paragraph(format!("Warning: {warning}"));
        }
        if self.failed > 0 {
            document
                .paragraph(format!("{} runs failed; results.csv says why, and they count nowhere here.", self.failed));
        }
        self.plots(&mut document, ALL_JOBS);
        for (at, job) in self.jobs.iter().enumerate() {
            let of = if job == ALL_JOBS { "All jobs".to_owned() } else { format!("Job {job}") };
            if self.jobs.len() > 1 {
                document.heading(of);
            }
            if job != ALL_JOBS && at < JOBS {
                self.plots(&mut document, job);
            }
            self.means(&mut document, job);
            self.differences(&mut document, job);
        }
        document
    }

    /// Returns the means of every figure with their intervals, and the differences, for programs.
    pub(crate) fn json(&self) -> String {
        let figures = |job: &String, at: usize| -> Map<String, Value> {
            let own = self.samples.iter().filter(|((of, _), _)| of == job);
            let means = own.filter_map(|((_, name), samples)| {
                let values: Vec<f64> = samples[at].iter().flatten().copied().collect();
                let Interval { mean, half_width, samples } = Interval::of(&values)?;
                Some((name.clone(), json!({"mean": mean, "half_width_95": half_width, "samples": samples})))
            });
            means.collect()
        };
        let rows = (0..self.points.len()).flat_map(|at| {
            self.jobs.iter().map(move |job| json!({"point": self.point(at), "job": job, "figures": figures(job, at)}))
        });
        let all = json!({
            "elevon": env!("CARGO_PKG_VERSION"),
            "command": self.command,
            "seeds": self.seeds,
            "warnings": self.warnings,
            "points": rows.collect::<Vec<_>>(),
            "differences": self.differences_json(),
        });
        format!("{all:#}\n")
    }

    /// Returns the differences of every figure to the value that is compared with; null if none is.
    fn differences_json(&self) -> Value {
        let Some((axis, base)) = self.compare else { return Value::Null };
        let axis = &self.axes[axis];
        let row = |job: &String, (at, with): (usize, usize)| {
            let own = self.samples.keys().filter(|(of, _)| of == job);
            let changes = own.filter_map(|(_, name)| {
                let Interval { mean, half_width, samples } = self.change(job, name, at, with)?;
                Some((name.clone(), json!({"mean_percent": mean, "half_width_95": half_width, "pairs": samples})))
            });
            let figures: Map<String, Value> = changes.collect();
            json!({"point": self.point(at), "job": job, "figures": figures})
        };
        let pairs = self.pairs();
        let rows: Vec<Value> = pairs.iter().flat_map(|pair| self.jobs.iter().map(|job| row(job, *pair))).collect();
        json!({"against": {axis.key.as_str(): axis.value(base)}, "points": rows})
    }

    fn point(&self, at: usize) -> Map<String, Value> {
        let labels = self.labels(&self.points[at]);
        self.axes.iter().zip(labels).map(|(axis, value)| (axis.key.clone(), json!(value))).collect()
    }

    /// Returns each point with the one that it is compared with: that of the same values of all
    /// other axes.
    fn pairs(&self) -> Vec<(usize, usize)> {
        let Some((axis, base)) = self.compare else { return Vec::new() };
        let places: BTreeMap<&Point, usize> = self.points.iter().zip(0..).collect();
        let with = |at: usize| {
            let mut other = self.points[at].clone();
            other[axis] = base;
            places.get(&other).copied().filter(|&with| with != at)
        };
        (0..self.points.len()).filter_map(|at| Some((at, with(at)?))).collect()
    }

    /// Returns the difference of a figure between two points, in pairs of runs of the same seed.
    fn change(&self, job: &str, key: &str, at: usize, with: usize) -> Option<Interval> {
        let samples = self.samples.get(&(job.to_owned(), key.to_owned()))?;
        let both = samples[with].iter().zip(&samples[at]);
        let pairs: Vec<(f64, f64)> = both.filter_map(|(first, second)| Some(((*first)?, (*second)?))).collect();
        Interval::of_change(&pairs)
    }

    /// Returns the values of a figure of a job at a point.
    pub(super) fn values(&self, job: &str, key: &str, point: usize) -> Vec<f64> {
        let samples = self.samples.get(&(job.to_owned(), key.to_owned()));
        samples.map(|samples| samples[point].iter().flatten().copied().collect()).unwrap_or_default()
    }

    fn means(&self, document: &mut Document, job: &str) {
        let heads =
            self.axes.iter().map(|axis| axis.key.clone()).chain(SHOWN.iter().map(|shown| shown.title.to_owned()));
        let mut table = Table { header: heads.collect(), words: (0..self.axes.len()).collect(), rows: Vec::new() };
        for (at, point) in self.points.iter().enumerate().take(ROWS) {
            let mut row = self.labels(point);
            for shown in &SHOWN {
                row.push(
                    Interval::of(&self.values(job, shown.key, at))
                        .map_or("-".to_owned(), |of| with_interval(shown.unit, &of)),
                );
            }
            table.rows.push(row);
        }
        document.table(table);
        self.note_of_rest(document, self.points.len());
    }

    fn note_of_rest(&self, document: &mut Document, rows: usize) {
        if rows > ROWS {
            document.paragraph(format!("{} more are in results.csv.", rows - ROWS));
        }
    }

    fn labels(&self, point: &Point) -> Vec<String> {
        self.axes.iter().zip(point).map(|(axis, &at)| axis.value(at)).collect()
    }

    /// Adds the differences to the value that is compared with, between runs of the same seed and
    /// of the same values of all other axes.
    fn differences(&self, document: &mut Document, job: &str) {
        let Some((axis, base)) = self.compare else { return };
        let heads =
            self.axes.iter().map(|axis| axis.key.clone()).chain(SHOWN.iter().map(|shown| shown.title.to_owned()));
        let mut table = Table { header: heads.collect(), words: (0..self.axes.len()).collect(), rows: Vec::new() };
        let pairs = self.pairs();
        for &(at, with) in pairs.iter().take(ROWS) {
            let mut row = self.labels(&self.points[at]);
            for shown in &SHOWN {
                let change = self.change(job, shown.key, at, with);
                row.push(change.map_or("-".to_owned(), |change| change_in_words(&change)));
            }
            table.rows.push(row);
        }
        let axis = &self.axes[axis];
        document.paragraph(format!(
            "Against {}={}, with the same seed and all else equal; * where the 95 % interval does not contain 0:",
            axis.key,
            axis.value(base)
        ));
        document.table(table);
        self.note_of_rest(document, pairs.len());
    }
}

/// Names seeds: `seeds 1 to 10`, `seeds 3, 5, 9`.
fn seeds_in_words(seeds: &[u64]) -> String {
    const MOST: usize = 20;
    let (Some(first), Some(last)) = (seeds.first(), seeds.last()) else { return String::new() };
    if seeds.len() == 1 {
        return format!("seed {first}");
    }
    if seeds.len() > 2 && seeds.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1])) {
        return format!("seeds {first} to {last}");
    }
    let some: Vec<String> = seeds.iter().take(MOST).map(u64::to_string).collect();
    let rest = seeds.len().saturating_sub(MOST);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("seeds {}{more}", some.join(", "))
}
