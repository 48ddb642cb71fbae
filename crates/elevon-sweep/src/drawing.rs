//! The plots of a sweep: curves or heat maps of a grid, dots of a sample.

use std::collections::BTreeMap;

use elevon_report::document::Document;
use elevon_report::figures::ALL_JOBS;
use elevon_report::plot::{Axis as PlotAxis, HeatMap, Mark, Plot, Scale, Series, Unit};
use elevon_result::interval::Interval;

use crate::axis::numeric;
use crate::summary::{JOBS, Results, SHOWN, Shown};

/// Maximum number of lines in a plot, and of plots of a figure.
const LINES: usize = 8;
const PLOTS: usize = 12;
/// From this ratio of the largest to the smallest value on, an axis is logarithmic.
const WIDE: f64 = 20.0;

/// The means of each line of a plot: by the index of the line's value, by that of the value along
/// the bottom.
type Lines = BTreeMap<usize, BTreeMap<usize, Interval>>;

impl Results<'_> {
    /// Adds the plots of a job.
    pub(crate) fn plots(&self, document: &mut Document, job: &str) {
        let x = self.x_axis();
        let own = self.jobs.len().saturating_sub(1);
        if job == ALL_JOBS && own > JOBS && (x.is_some() || self.is_sample()) {
            document.paragraph(format!(
                "Plots are of all jobs together and of the first {JOBS} of {own}."
            ));
        }
        for shown in &SHOWN {
            match x {
                _ if self.is_sample() => self.dots(document, shown, job),
                Some(x) => self.curves(document, shown, job, x),
                None => {}
            }
        }
    }

    /// Returns true if some combinations of values are no points.
    fn is_sample(&self) -> bool {
        let all = self.axes.iter().try_fold(1usize, |count, axis| count.checked_mul(axis.len()));
        all != Some(self.points.len())
    }

    /// Adds a plot for each axis of numbers, with every point as a dot. Dots of one value of an
    /// axis of words have one colour; of several such axes, each has its own plots.
    fn dots(&self, document: &mut Document, shown: &Shown, job: &str) {
        let (numbers, words): (Vec<usize>, Vec<usize>) = (0..self.axes.len())
            .filter(|&axis| self.axes[axis].len() > 1)
            .partition(|&at| self.axes[at].is_numeric());
        let colours: Vec<Option<usize>> =
            if words.is_empty() { vec![None] } else { words.into_iter().map(Some).collect() };
        let all: Vec<(usize, Option<usize>)> =
            numbers.iter().flat_map(|&x| colours.iter().map(move |&of| (x, of))).collect();
        note_of_plots(document, shown, all.len());
        for &(x, colour) in all.iter().take(PLOTS) {
            let mut lines: BTreeMap<usize, Vec<(f64, Interval)>> = BTreeMap::new();
            for (at, point) in self.points.iter().enumerate() {
                let Some(mean) = Interval::from_samples(&self.values(job, shown.key, at)) else {
                    continue;
                };
                lines
                    .entry(colour.map_or(0, |axis| point[axis]))
                    .or_default()
                    .push((self.place(x, point[x]), mean));
            }
            if lines.is_empty() {
                continue;
            }
            let how = format!(
                "{}, by {}: a dot for each point of the sample.",
                self.of_what(job),
                self.axes[x].key
            );
            self.plot(document, shown, (job, ""), how, Mark::Points, (x, colour), lines);
        }
    }

    fn curves(&self, document: &mut Document, shown: &Shown, job: &str, x: usize) {
        let others: Vec<usize> = (0..self.axes.len()).filter(|&axis| axis != x).collect();
        // The lines of a plot are the values of one axis, the other axes have a plot for each
        // combination.
        let lines = others
            .iter()
            .copied()
            .find(|&axis| !self.axes[axis].is_numeric())
            .or(others.first().copied());
        let rest: Vec<usize> = others.into_iter().filter(|&axis| Some(axis) != lines).collect();
        let mut groups: BTreeMap<Vec<usize>, Lines> = BTreeMap::new();
        for (at, point) in self.points.iter().enumerate() {
            let Some(mean) = Interval::from_samples(&self.values(job, shown.key, at)) else {
                continue;
            };
            let group = groups.entry(rest.iter().map(|&axis| point[axis]).collect()).or_default();
            group.entry(lines.map_or(0, |axis| point[axis])).or_default().insert(point[x], mean);
        }
        note_of_plots(document, shown, groups.len());
        for (fixed, group) in groups.into_iter().take(PLOTS) {
            let fixed = self.fixed(&rest, &fixed);
            if let Some(y) =
                lines.filter(|&axis| self.axes[axis].is_numeric() && self.axes[axis].len() > 3)
            {
                // Too many numbers for a line each.
                document.heat_map(self.heat_map(shown, (job, &fixed), x, y, &group));
                continue;
            }
            let mut of_lines: BTreeMap<usize, Vec<(f64, Interval)>> = BTreeMap::new();
            for (line, means) in group {
                let mut points: Vec<(f64, Interval)> =
                    means.into_iter().map(|(at, mean)| (self.place(x, at), mean)).collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                of_lines.insert(line, points);
            }
            let how = format!("{}, by {}.", self.of_what(job), self.axes[x].key);
            self.plot(document, shown, (job, &fixed), how, Mark::Curve, (x, lines), of_lines);
        }
    }

    /// Adds a plot over the values of axis `x`, with a series for each value of the axis `lines`.
    #[expect(clippy::too_many_arguments, reason = "each is another part of the plot")]
    fn plot(
        &self,
        document: &mut Document,
        shown: &Shown,
        (job, fixed): (&str, &str),
        description: String,
        mark: Mark,
        (x, lines): (usize, Option<usize>),
        of_lines: BTreeMap<usize, Vec<(f64, Interval)>>,
    ) {
        if let Some(axis) = lines.filter(|_| of_lines.len() > LINES) {
            let left: Vec<String> =
                of_lines.keys().skip(LINES).map(|&at| self.axes[axis].value(at)).collect();
            let key = &self.axes[axis].key;
            document
                .paragraph(format!("Not drawn, of {LINES} at most: {key}={}.", left.join(", ")));
        }
        let drawn: Vec<_> = of_lines.into_iter().take(LINES).collect();
        let all = || drawn.iter().flat_map(|(_, points)| points);
        let scales =
            (scale_of(all().map(|point| point.0)), scale_of(all().map(|point| point.1.mean)));
        let series = drawn.iter().enumerate().map(|(colour, (value, points))| Series {
            name: lines.map_or_else(String::new, |axis| self.fixed(&[axis], &[*value])),
            colour,
            points: points.iter().map(|(x, of)| (*x, of.mean)).collect(),
            half_widths: match self.seeds.len() {
                1 => Vec::new(),
                _ => points.iter().map(|(_, of)| of.half_width.unwrap_or(0.0)).collect(),
            },
            ..Series::default()
        });
        let axis = &self.axes[x];
        document.plot(Plot {
            title: title(shown, job, fixed),
            description,
            mark,
            x: PlotAxis {
                title: axis.key.clone(),
                scale: scales.0,
                unit: if axis.is_of_sizes() { Unit::Bytes } else { Unit::Count },
            },
            y: PlotAxis { title: shown.title.to_owned(), scale: scales.1, unit: shown.unit },
            series: series.collect(),
        });
    }

    fn heat_map(
        &self,
        shown: &Shown,
        (job, fixed): (&str, &str),
        x: usize,
        y: usize,
        group: &Lines,
    ) -> HeatMap {
        let mut columns: Vec<usize> =
            group.values().flat_map(|means| means.keys().copied()).collect();
        columns.sort_by(|&a, &b| self.place(x, a).total_cmp(&self.place(x, b)));
        columns.dedup();
        let row = |means: &BTreeMap<usize, Interval>| -> Vec<Option<f64>> {
            columns.iter().map(|column| means.get(column).map(|of| of.mean)).collect()
        };
        let all = group.values().flat_map(|means| means.values().map(|of| of.mean));
        HeatMap {
            title: title(shown, job, fixed),
            description: format!(
                "{}, by {} and {}.",
                self.of_what(job),
                self.axes[x].key,
                self.axes[y].key
            ),
            x: (
                self.axes[x].key.clone(),
                columns.iter().map(|&at| self.axes[x].value(at)).collect(),
            ),
            y: (self.axes[y].key.clone(), group.keys().map(|&at| self.axes[y].value(at)).collect()),
            cells: group.values().map(row).collect(),
            value: PlotAxis {
                title: shown.title.to_owned(),
                scale: scale_of(all),
                unit: shown.unit,
            },
        }
    }

    /// Returns the axis along the bottom of curves: the one with the most numbers, at least three.
    fn x_axis(&self) -> Option<usize> {
        let numbers = self.axes.iter().map(|axis| if axis.is_numeric() { axis.len() } else { 0 });
        let (at, most) =
            numbers.enumerate().max_by_key(|&(at, count)| (count, std::cmp::Reverse(at)))?;
        (most >= 3).then_some(at)
    }

    /// Returns a value of an axis of numbers.
    fn place(&self, axis: usize, at: usize) -> f64 {
        numeric(&self.axes[axis].value(at)).unwrap_or(0.0)
    }

    /// Says what the values of a plot are.
    fn of_what(&self, job: &str) -> String {
        let of =
            if job == ALL_JOBS { "all jobs together".to_owned() } else { format!("job {job}") };
        let mean = if self.seeds.len() > 1 {
            "Mean over seeds with its 95 % interval"
        } else {
            "One run for each point"
        };
        format!("{mean}, {of}")
    }

    /// Returns the values of axes that a plot or a line holds fixed.
    fn fixed(&self, axes: &[usize], values: &[usize]) -> String {
        let parts = axes
            .iter()
            .zip(values)
            .map(|(&axis, &at)| format!("{}={}", self.axes[axis].key, self.axes[axis].value(at)));
        parts.collect::<Vec<_>>().join(", ")
    }
}

/// Returns the title of a plot: `reader: 99% latency, bs=4k`.
fn title(shown: &Shown, job: &str, fixed: &str) -> String {
    let title =
        if job == ALL_JOBS { capital(shown.title) } else { format!("{job}: {}", shown.title) };
    if fixed.is_empty() { title } else { format!("{title}, {fixed}") }
}

/// Says how many plots are not drawn.
fn note_of_plots(document: &mut Document, shown: &Shown, plots: usize) {
    if plots > PLOTS {
        document.paragraph(format!(
            "{}: {} more plots, of other values of the other axes, are not drawn; results.csv has all.",
            capital(shown.title),
            plots - PLOTS
        ));
    }
}

/// Returns a logarithmic scale for positive values that are far apart.
pub(crate) fn scale_of(values: impl Iterator<Item = f64>) -> Scale {
    let (least, most) = values
        .fold((f64::INFINITY, 0.0f64), |(least, most), value| (least.min(value), most.max(value)));
    if least > 0.0 && most / least >= WIDE { Scale::Log } else { Scale::Linear }
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
