//! What a sweep shows: means with 95 % intervals over seeds, paired differences, curves and heat
//! maps.

use std::collections::BTreeMap;

use elevon_report::document::{Document, Table};
use elevon_report::figures::ALL_JOBS;
use elevon_report::interval::Interval;
use elevon_report::number::{count, counted, span};
use elevon_report::plot::{Axis as PlotAxis, HeatMap, Mark, Plot, Scale, Series, Unit};

use serde_json::{Map, Value, json};

use super::axis::{Axis, numeric};
use super::points::Point;
use crate::args::DEFAULT_KERNEL;

/// Maximum number of rows of a table of the summary; the files have all.
const ROWS: usize = 60;
/// Maximum number of lines in a plot, and of plots of a figure.
const LINES: usize = 8;
const PLOTS: usize = 12;
/// From this ratio of the largest to the smallest value on, an axis is logarithmic.
const WIDE: f64 = 20.0;

/// A figure of the summary: name in the table of results, heading, unit.
struct Shown {
    key: &'static str,
    title: &'static str,
    unit: Unit,
    format: fn(f64) -> String,
}

const SHOWN: [Shown; 4] = [
    Shown { key: "iops", title: "I/Os a second", unit: Unit::Count, format: count },
    Shown { key: "bw_bytes_per_second", title: "throughput", unit: Unit::BytesPerSecond, format: rate },
    Shown { key: "lat_p50_ns", title: "median latency", unit: Unit::Nanos, format: span },
    Shown { key: "lat_p99_ns", title: "99% latency", unit: Unit::Nanos, format: span },
];

fn rate(bytes_per_second: f64) -> String {
    elevon_report::number::bytes_decimal(bytes_per_second) + "/s"
}

/// Figures of all runs: by name of the figure and point, one value for each seed in order; `None`
/// where the run failed or the job has no such figure.
pub(crate) type Samples = BTreeMap<(String, String), Vec<Vec<Option<f64>>>>;

/// The points of each line of a plot, by the index of the line's value.
type Lines = BTreeMap<usize, Vec<(f64, Interval)>>;

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
        if let Some(x) = self.x_axis() {
            SHOWN.iter().for_each(|shown| self.curves(&mut document, shown, x));
        }
        for job in self.jobs {
            let of = if job == ALL_JOBS { "All jobs".to_owned() } else { format!("Job {job}") };
            if self.jobs.len() > 1 {
                document.heading(of);
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
    fn values(&self, job: &str, key: &str, point: usize) -> Vec<f64> {
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
                row.push(Interval::of(&self.values(job, shown.key, at)).map_or("-".to_owned(), |of| words(&of, shown)));
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

    /// Returns the axis along the bottom of the plots: the one with the most numbers, at least
    /// three.
    fn x_axis(&self) -> Option<usize> {
        let numbers = self.axes.iter().map(|axis| if axis.is_numeric() { axis.len() } else { 0 });
        let (at, most) = numbers.enumerate().max_by_key(|&(at, count)| (count, std::cmp::Reverse(at)))?;
        (most >= 3).then_some(at)
    }

    fn curves(&self, document: &mut Document, shown: &Shown, x: usize) {
        let others: Vec<usize> = (0..self.axes.len()).filter(|&axis| axis != x).collect();
        // The lines of a plot are the values of one axis, the other axes have a plot for each
        // combination.
        let lines = others.iter().copied().find(|&axis| !self.axes[axis].is_numeric()).or(others.first().copied());
        let rest: Vec<usize> = others.into_iter().filter(|&axis| Some(axis) != lines).collect();
        let mut groups: BTreeMap<Vec<usize>, Lines> = BTreeMap::new();
        for (at, point) in self.points.iter().enumerate() {
            let place = numeric(&self.axes[x].value(point[x]));
            let Some((place, mean)) = place.zip(Interval::of(&self.values(ALL_JOBS, shown.key, at))) else { continue };
            let group = groups.entry(rest.iter().map(|&axis| point[axis]).collect()).or_default();
            group.entry(lines.map_or(0, |axis| point[axis])).or_default().push((place, mean));
        }
        if groups.len() > PLOTS {
            document.paragraph(format!(
                "{}: {} more plots, of other values of the other axes, are not drawn; results.csv has all.",
                capital(shown.title),
                groups.len() - PLOTS
            ));
        }
        if self.is_map(lines) {
            groups.iter().take(PLOTS).for_each(|(fixed, group)| {
                document.heat_map(self.heat_map(shown, x, lines.unwrap_or(0), &self.fixed(&rest, fixed), group));
            });
            return;
        }
        for (fixed, group) in groups.iter().take(PLOTS) {
            if let Some(axis) = lines.filter(|_| group.len() > LINES) {
                let left: Vec<String> = group.keys().skip(LINES).map(|&at| self.axes[axis].value(at)).collect();
                let key = &self.axes[axis].key;
                document.paragraph(format!("Not drawn, of {LINES} lines at most: {key}={}.", left.join(", ")));
            }
            let series = group.iter().take(LINES).enumerate().map(|(colour, (&value, points))| {
                let mut points = points.clone();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                let name = lines.map_or_else(String::new, |axis| {
                    format!("{}={}", self.axes[axis].key, self.axes[axis].value(value))
                });
                Series {
                    name,
                    colour,
                    points: points.iter().map(|(x, of)| (*x, of.mean)).collect(),
                    half_widths: points.iter().map(|(_, of)| of.half_width.unwrap_or(0.0)).collect(),
                    ..Series::default()
                }
            });
            document.plot(Plot {
                title: format!("{}{}", capital(shown.title), self.fixed(&rest, fixed)),
                description: format!("{}, all jobs together, by {}.", self.mean_words(), self.axes[x].key),
                mark: Mark::Curve,
                x: PlotAxis {
                    title: self.axes[x].key.clone(),
                    scale: scale_of(group.values().flatten().map(|point| point.0)),
                    unit: Unit::Count,
                },
                y: PlotAxis {
                    title: shown.title.to_owned(),
                    scale: scale_of(group.values().flatten().map(|point| point.1.mean)),
                    unit: shown.unit,
                },
                series: series.collect(),
            });
        }
    }

    /// Says what the values of curves are.
    const fn mean_words(&self) -> &'static str {
        if self.seeds.len() > 1 { "Mean over seeds with its 95 % interval" } else { "One run for each point" }
    }

    /// Returns true if the axis has too many numbers for a line each, so that a map shows them.
    fn is_map(&self, lines: Option<usize>) -> bool {
        lines.is_some_and(|axis| self.axes[axis].is_numeric() && self.axes[axis].len() > 3)
    }

    fn heat_map(&self, shown: &Shown, x: usize, y: usize, fixed: &str, group: &Lines) -> HeatMap {
        let mut columns: Vec<f64> = group.values().flatten().map(|point| point.0).collect();
        columns.sort_by(f64::total_cmp);
        columns.dedup();
        let row = |points: &Vec<(f64, Interval)>| {
            columns
                .iter()
                .map(|column| points.iter().find(|point| point.0 == *column).map(|point| point.1.mean))
                .collect()
        };
        HeatMap {
            title: format!("{}{fixed}", capital(shown.title)),
            description: format!(
                "{}, all jobs together, by {} and {}.",
                if self.seeds.len() > 1 { "Mean over seeds" } else { "One run for each point" },
                self.axes[x].key,
                self.axes[y].key
            ),
            x: (self.axes[x].key.clone(), columns.iter().map(|value| count(*value)).collect()),
            y: (self.axes[y].key.clone(), group.keys().map(|&at| self.axes[y].value(at)).collect()),
            cells: group.values().map(row).collect(),
            unit: shown.unit,
        }
    }

    /// Returns the values of the axes that a plot holds fixed, for its title.
    fn fixed(&self, axes: &[usize], values: &[usize]) -> String {
        let parts = axes
            .iter()
            .zip(values)
            .map(|(&axis, &at)| format!("{}={}", self.axes[axis].key, self.axes[axis].value(at)));
        let parts: Vec<String> = parts.collect();
        if parts.is_empty() { String::new() } else { format!(", {}", parts.join(", ")) }
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

/// Returns a logarithmic scale for positive values that are far apart.
fn scale_of(values: impl Iterator<Item = f64>) -> Scale {
    let (least, most) =
        values.fold((f64::INFINITY, 0.0f64), |(least, most), value| (least.min(value), most.max(value)));
    if least > 0.0 && most / least >= WIDE { Scale::Log } else { Scale::Linear }
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

fn words(interval: &Interval, shown: &Shown) -> String {
    let format = shown.format;
    match interval.half_width {
        // A whole number would hide what the interval has to say.
        Some(half) if shown.unit == Unit::Count && half < 10.0 && interval.mean < 10_000.0 => {
            format!("{:.1} ± {half:.1}", interval.mean)
        }
        Some(half) => format!("{} ± {}", format(interval.mean), format(half)),
        None => format(interval.mean),
    }
}

fn change_in_words(change: &Interval) -> String {
    let mark = if change.is_clear() { " *" } else { "" };
    match change.half_width {
        Some(half) => format!("{:+.1} % ± {half:.1}{mark}", change.mean),
        None => format!("{:+.1} %", change.mean),
    }
}
