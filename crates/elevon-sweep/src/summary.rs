//! What a sweep shows: means with 95 % intervals over seeds, paired differences, and plots.

use std::collections::BTreeMap;

use elevon_plan::options::DEFAULT_KERNEL;
use elevon_report::document::{Document, Table};
use elevon_report::figures::ALL_JOBS;
use elevon_report::plot::Unit;
use elevon_result::interval::{Interval, RatioInterval, clear_by_chance};
use elevon_result::number::{counted, significant};
use serde_json::{Map, Value, json};

use crate::amount::{change_in_words, resolution, with_interval};
use crate::axis::Axis;
use crate::points::Point;

/// Maximum number of rows of a table of the summary; the files have all.
const ROWS: usize = 60;
/// Maximum number of jobs that have plots of their own.
pub(crate) const JOBS: usize = 8;

/// A figure of the summary: name in the table of results, heading, unit.
pub(crate) struct Shown {
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: Unit,
}

pub(crate) const SHOWN: [Shown; 4] = [
    Shown { key: "iops", title: "I/Os a second", unit: Unit::Count },
    Shown { key: "bw_bytes_per_second", title: "throughput", unit: Unit::BytesPerSecond },
    Shown { key: "lat_p50_ns", title: "median latency", unit: Unit::Nanos },
    Shown { key: "lat_p99_ns", title: "99% latency", unit: Unit::Nanos },
];

/// Relative width of a bin of a latency histogram: percentiles are known to that.
const BIN: f64 = 1.0 / 64.0;

/// The difference of a figure between two points.
struct Change {
    ratio: RatioInterval,
    /// True if the interval does not contain 0 and the figures differ by more than their rounding.
    is_clear: bool,
}

/// Figures of all runs: by name of the figure and point, one value for each seed in order; `None`
/// where the run failed or the job has no such figure.
pub type Samples = BTreeMap<(String, String), Vec<Vec<Option<f64>>>>;

/// The results of a sweep.
pub struct Results<'a> {
    /// The title of the summary.
    pub title: String,
    /// What a point is called: `point`, or `variant`.
    pub noun: &'static str,
    /// What varies.
    pub axes: &'a [Axis],
    /// The points.
    pub points: &'a [Point],
    /// The seeds of each point.
    pub seeds: &'a [u64],
    /// The command line of what all runs share.
    pub command: &'a str,
    /// What the user should know of the runs.
    pub warnings: &'a [String],
    /// Names of the jobs in order; [`ALL_JOBS`] last.
    pub jobs: &'a [String],
    /// By job and figure: for each point the values of its seeds.
    pub samples: &'a Samples,
    /// An axis and the index of the value with which its other values are compared.
    pub compare: Option<(usize, usize)>,
    /// Runs that failed.
    pub failed: usize,
}

impl Results<'_> {
    /// Returns the summary.
    pub fn document(&self) -> Document {
        let mut document = Document::new(&self.title);
        let over = if self.seeds.len() > 1 {
            ", ± half of the 95 % interval of the mean over seeds"
        } else {
            ""
        };
        let (points, seeds) = (
            counted(self.points.len() as u64, self.noun),
            counted(self.seeds.len() as u64, "seed"),
        );
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
            document.paragraph(format!(
                "{} runs failed; results.csv says why, and they count nowhere here.",
                self.failed
            ));
        }
        self.plots(&mut document, ALL_JOBS);
        self.chance(&mut document);
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
    pub fn json(&self) -> String {
        let figures = |job: &String, at: usize| -> Map<String, Value> {
            let own = self.samples.iter().filter(|((of, _), _)| of == job);
            let means = own.filter_map(|((_, name), samples)| {
                let values: Vec<f64> = samples[at].iter().flatten().copied().collect();
                let Interval { mean, half_width, samples } = Interval::from_samples(&values)?;
                Some((
                    name.clone(),
                    json!({"mean": mean, "half_width_95": half_width, "samples": samples}),
                ))
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
                let Change { ratio, is_clear } = self.change(job, name, at, with)?;
                let percent = |ratio: f64| 100.0 * (ratio - 1.0);
                let (low, high) = ratio.bounds.unzip();
                let change = json!({
                    "mean_percent": percent(ratio.ratio),
                    "low_95_percent": low.map(percent),
                    "high_95_percent": high.map(percent),
                    "pairs": ratio.samples,
                    "is_clear": is_clear,
                });
                Some((name.clone(), change))
            });
            let figures: Map<String, Value> = changes.collect();
            json!({"point": self.point(at), "job": job, "figures": figures})
        };
        let pairs = self.pairs();
        let rows: Vec<Value> =
            pairs.iter().flat_map(|pair| self.jobs.iter().map(|job| row(job, *pair))).collect();
        let of_rows =
            rows.iter().filter_map(|row| row["figures"].as_object()).flat_map(Map::values);
        let compared = of_rows.filter(|change| !change["low_95_percent"].is_null()).count();
        json!({
            "against": {axis.key.as_str(): axis.value(base)},
            "comparisons": compared,
            "clear_by_chance": clear_by_chance(compared),
            "points": rows,
        })
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
    fn change(&self, job: &str, key: &str, at: usize, with: usize) -> Option<Change> {
        let samples = self.samples.get(&(job.to_owned(), key.to_owned()))?;
        let both = samples[with].iter().zip(&samples[at]);
        let pairs: Vec<(f64, f64)> =
            both.filter_map(|(first, second)| Some(((*first)?, (*second)?))).collect();
        let ratio = RatioInterval::from_pairs(&pairs)?;
        let unit =
            SHOWN.iter().find(|shown| shown.key == key).map_or(Unit::Count, |shown| shown.unit);
        Some(Change { is_clear: is_clear(key, unit, &pairs, &ratio), ratio })
    }

    /// Says how many of the differences chance alone would mark.
    fn chance(&self, document: &mut Document) {
        let mut compared = Vec::new();
        for (at, with) in self.pairs() {
            for job in self.jobs {
                let changes =
                    SHOWN.iter().filter_map(|shown| self.change(job, shown.key, at, with));
                compared.extend(
                    changes.filter(|one| one.ratio.bounds.is_some()).map(|one| one.is_clear),
                );
            }
        }
        if compared.is_empty() {
            return;
        }
        let stars = compared.iter().filter(|is_clear| **is_clear).count();
        document.paragraph(format!(
            "{} with an interval, {} with a star. If nothing made a difference, chance alone would give about {}.",
            counted(compared.len() as u64, "difference"),
            stars,
            counted_about(clear_by_chance(compared.len())),
        ));
    }

    /// Returns the values of a figure of a job at a point.
    pub(crate) fn values(&self, job: &str, key: &str, point: usize) -> Vec<f64> {
        let samples = self.samples.get(&(job.to_owned(), key.to_owned()));
        samples
            .map(|samples| samples[point].iter().flatten().copied().collect())
            .unwrap_or_default()
    }

    fn means(&self, document: &mut Document, job: &str) {
        let heads = self
            .axes
            .iter()
            .map(|axis| axis.key.clone())
            .chain(SHOWN.iter().map(|shown| shown.title.to_owned()));
        let mut table = Table {
            header: heads.collect(),
            words: (0..self.axes.len()).collect(),
            rows: Vec::new(),
        };
        for (at, point) in self.points.iter().enumerate().take(ROWS) {
            let mut row = self.labels(point);
            for shown in &SHOWN {
                row.push(
                    Interval::from_samples(&self.values(job, shown.key, at))
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
        let heads = self
            .axes
            .iter()
            .map(|axis| axis.key.clone())
            .chain(SHOWN.iter().map(|shown| shown.title.to_owned()));
        let mut table = Table {
            header: heads.collect(),
            words: (0..self.axes.len()).collect(),
            rows: Vec::new(),
        };
        let pairs = self.pairs();
        for &(at, with) in pairs.iter().take(ROWS) {
            let mut row = self.labels(&self.points[at]);
            for shown in &SHOWN {
                let change = self.change(job, shown.key, at, with);
                row.push(change.map_or("-".to_owned(), |change| {
                    change_in_words(&change.ratio, change.is_clear)
                }));
            }
            table.rows.push(row);
        }
        let axis = &self.axes[axis];
        document.paragraph(format!(
            "Against {}={}, with the same seed and all else equal: mean ratio and its 95 % interval. * if the interval does \
             not contain 0 and the figures differ by more than their rounding (percentiles: by more than a bin, 1.6 %):",
            axis.key,
            axis.value(base)
        ));
        document.table(table);
        self.note_of_rest(document, pairs.len());
    }
}

/// Returns true if the interval of a ratio does not contain 1, and the means of the pairs differ by
/// more than the rounding of the figure `key`.
pub(crate) fn is_clear(key: &str, unit: Unit, pairs: &[(f64, f64)], ratio: &RatioInterval) -> bool {
    let count = pairs.len().max(1) as f64;
    let (first, second) =
        pairs.iter().fold((0.0, 0.0), |sums, pair| (sums.0 + pair.0, sums.1 + pair.1));
    let (first, second) = (first / count, second / count);
    let larger = first.max(second);
    let bin = if is_percentile(key) { BIN * larger } else { 0.0 };
    ratio.is_clear() && (first - second).abs() > resolution(unit, larger).max(bin)
}

/// Returns true if a figure is a percentile of a histogram, such as `lat_p99_ns`.
fn is_percentile(key: &str) -> bool {
    key.rsplit_once("_p").is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Formats an expected number of stars.
fn counted_about(stars: f64) -> String {
    let number = if stars < 10.0 { significant(stars, 1) } else { format!("{stars:.0}") };
    format!("{number} star{}", if number == "1" { "" } else { "s" })
}

/// Names seeds: `seeds 1 to 10`, `seeds 3, 5, 9`.
pub(crate) fn seeds_in_words(seeds: &[u64]) -> String {
    const MAX_SEEDS_SHOWN: usize = 20;
    let (Some(first), Some(last)) = (seeds.first(), seeds.last()) else { return String::new() };
    if seeds.len() == 1 {
        return format!("seed {first}");
    }
    if seeds.len() > 2 && seeds.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1])) {
        return format!("seeds {first} to {last}");
    }
    let some: Vec<String> = seeds.iter().take(MAX_SEEDS_SHOWN).map(u64::to_string).collect();
    let rest = seeds.len().saturating_sub(MAX_SEEDS_SHOWN);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("seeds {}{more}", some.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rounding_hides_has_no_star() {
        let clear = |key: &str, unit, pairs: &[(f64, f64)]| {
            is_clear(key, unit, pairs, &RatioInterval::from_pairs(pairs).expect("pairs"))
        };
        let pairs =
            |first: f64, second: f64| [1.0, 1.0001, 0.9999].map(|x| (first * x, second * x));
        // 97.80 and 97.82 us are both shown as 97.8us; 97.8 and 98.4 are not the same.
        assert!(!clear("lat_mean_ns", Unit::Nanos, &pairs(97_800.0, 97_820.0)));
        assert!(clear("lat_mean_ns", Unit::Nanos, &pairs(97_800.0, 98_400.0)));
        // Neighbouring bins of a histogram differ by 1.6 %.
        for key in ["lat_p99_ns", "reader:lat_p99.9_ns", "clat_p50_ns"] {
            assert!(!clear(key, Unit::Nanos, &pairs(1_000_000.0, 1_015_000.0)), "{key}");
            assert!(clear(key, Unit::Nanos, &pairs(1_000_000.0, 1_033_000.0)), "{key}");
        }
        assert!(!clear("iops", Unit::Count, &pairs(1_234.0, 1_234.3)));
        assert!(clear("iops", Unit::Count, &pairs(1_234.0, 1_236.0)));
        // No interval, no star.
        assert!(!clear("iops", Unit::Count, &[(1.0, 2.0)]));
        assert!(!is_percentile("bw_per_job_percent") && !is_percentile("iops"));
    }

    #[test]
    fn stars_by_chance_are_counted() {
        assert_eq!(
            [0.4, 1.0, 3.2, 12.4].map(counted_about),
            ["0.4 stars", "1 star", "3 stars", "12 stars"]
        );
    }
}
