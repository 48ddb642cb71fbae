//! Plots of tenants and jobs over time, with a line at each change of a setting.

use elevon_result::number::{counted, span};
use elevon_result::result::{OwnerPoint, OwnerResult, RunResult};
use elevon_result::summary::ratio;
use maud::{Markup, html};

use super::plots::{axis, windows};
use crate::markup::text;
use crate::plot::{Mark, NEUTRAL, Plot, Scale, Series, Unit};
use crate::variant::{Variant, letters};

/// Maximum number of lines of owners in a plot. With the line of their sum a plot has as many
/// lines as there are colours.
const MAX_LINES: usize = 7;
/// Maximum number of jobs that have plots of their own where runs are compared.
const MAX_COMPARED: usize = 4;
/// Maximum number of changes drawn; the list below the plots has more.
const MAX_MARKS: usize = 6;
/// Maximum number of changes listed.
const MAX_CHANGES: usize = 40;

/// A rate of an owner: what is counted in each interval, and how the axis shows it.
#[derive(Clone, Copy)]
pub(super) struct Rate {
    value: fn(&OwnerPoint) -> u64,
    y: &'static str,
    unit: Unit,
}

/// Bytes a second.
pub(super) const THROUGHPUT: Rate =
    Rate { value: |point| point.bytes.iter().sum(), y: "throughput", unit: Unit::BytesPerSecond };
/// I/Os a second.
pub(super) const IOPS: Rate =
    Rate { value: |point| point.ios.iter().sum(), y: "I/Os a second", unit: Unit::Count };

/// Returns the section of one run; empty if the run has no tenants.
pub(super) fn section(letter: char, run: &RunResult) -> Markup {
    if run.owners.tenants.is_empty() {
        return Markup::default();
    }
    html! {
        section {
            h2 { "Run " (letter) ": tenants over time" }
            div class="plots" {
                @for (n, plot) in plots(run).iter().enumerate() {
                    (plot.figure(&format!("owners-{letter}-{n}")))
                }
            }
            @if !run.changes.is_empty() {
                div class="block" {
                    p class="soft" { "Settings changed during the run:" }
                    ul {
                        @for change in run.changes.iter().take(MAX_CHANGES) {
                            li {
                                "from " (span(change.at.get() as f64)) " on: "
                                (text(&format!("{} {}: {}", change.tenant, change.file, change.text)))
                            }
                        }
                    }
                }
            }
        }
        "\n"
    }
}

fn plots(run: &RunResult) -> Vec<Plot> {
    let of = |title: &str, rate: Rate| {
        let mut series = lines(&run.owners.tenants, rate, 0);
        series.extend(marks(run, &series));
        let description = "What limits let go of each tenant, those below it included.";
        plot(title.to_owned(), with_marks(description, run), rate, series)
    };
    vec![of("Throughput by tenant", THROUGHPUT), of("I/Os by tenant", IOPS)]
}

fn plot(title: String, description: String, rate: Rate, series: Vec<Series>) -> Plot {
    Plot {
        title,
        description,
        mark: Mark::Line,
        x: axis("time", Scale::Linear, Unit::Nanos),
        y: axis(rate.y, Scale::Linear, rate.unit),
        series,
    }
}

fn with_marks(description: &str, run: &RunResult) -> String {
    let marks = if run.changes.is_empty() { "" } else { " Upright lines: a setting changed." };
    format!("{description}{marks}")
}

/// Adds the jobs of a run to a plot of its sum; nothing if the run has one job.
pub(super) fn add_jobs(plot: &mut Plot, run: &RunResult, rate: Rate) {
    if run.owners.jobs.len() < 2 {
        return;
    }
    for sum in &mut plot.series {
        sum.name = "all jobs".to_owned();
    }
    plot.series.extend(lines(&run.owners.jobs, rate, 1));
    plot.series.extend(marks(run, &plot.series));
    plot.description = with_marks(&plot.description, run);
}

/// Returns a plot for each job that the runs have, with a line for each run; none if the runs have
/// one job. Of many jobs it returns the largest, and one plot of all others.
pub(super) fn compared_jobs(variants: &[Variant<'_>], rate: Rate) -> Vec<Plot> {
    let mut totals: Vec<(&str, u64)> = Vec::new();
    for owner in variants.iter().flat_map(|variant| &variant.result.owners.jobs) {
        let sum = total(owner, rate);
        match totals.iter_mut().find(|(name, _)| *name == owner.name) {
            Some((_, most)) => *most = sum.max(*most),
            None => totals.push((&owner.name, sum)),
        }
    }
    if totals.len() < 2 {
        return Vec::new();
    }
    if totals.len() > MAX_COMPARED {
        totals.sort_by_key(|&(_, sum)| std::cmp::Reverse(sum));
    }
    let own = if totals.len() > MAX_COMPARED { MAX_COMPARED - 1 } else { totals.len() };
    let (own, others) = totals.split_at(own);
    let of = |title: String, is_in: &dyn Fn(&str) -> bool| {
        let named = letters().zip(variants).enumerate();
        let series = named.filter_map(|(colour, (letter, variant))| {
            let owners = variant.result.owners.jobs.iter().filter(|owner| is_in(&owner.name));
            let name = format!("{letter}: {}", variant.label);
            let owner = together(name, owners)?;
            Some(line(colour, &owner, rate))
        });
        plot(title, format!("Of this job alone: {}.", rate.y), rate, series.collect())
    };
    let mut plots: Vec<Plot> = own
        .iter()
        .map(|&(job, _)| of(format!("{}: {}", job, rate.y), &|name| name == job))
        .collect();
    if !others.is_empty() {
        let is_other = |name: &str| others.iter().any(|other| other.0 == name);
        let title = format!("{}: {}", counted(others.len() as u64, "other job"), rate.y);
        let mut plot = of(title, &is_other);
        plot.description = format!("Of all other jobs together: {}.", rate.y);
        plots.push(plot);
    }
    plots
}

fn total(owner: &OwnerResult, rate: Rate) -> u64 {
    owner.points.iter().map(rate.value).sum()
}

/// Returns the sum of owners of one run; `None` if there is none.
fn together<'a>(
    name: String,
    owners: impl Iterator<Item = &'a OwnerResult>,
) -> Option<OwnerResult> {
    let sum = owners.cloned().reduce(|mut sum, owner| {
        for (all, own) in sum.points.iter_mut().zip(&owner.points) {
            for at in 0..3 {
                all.ios[at] += own.ios[at];
                all.bytes[at] += own.bytes[at];
            }
        }
        sum
    })?;
    Some(OwnerResult { name, ..sum })
}

/// Returns one line for each owner that did anything, in colours from `first` on. Of many owners it
/// returns the largest, and one line of all others.
fn lines(owners: &[OwnerResult], rate: Rate, first: usize) -> Vec<Series> {
    let mut shown: Vec<&OwnerResult> =
        owners.iter().filter(|owner| total(owner, rate) > 0).collect();
    if shown.len() > MAX_LINES {
        shown.sort_by_key(|owner| std::cmp::Reverse(total(owner, rate)));
    }
    let own = if shown.len() > MAX_LINES { MAX_LINES - 1 } else { shown.len() };
    let (own, others) = shown.split_at(own);
    let name = counted(others.len() as u64, "other");
    let others = together(name, others.iter().copied());
    let all = own.iter().copied().chain(&others).enumerate();
    all.map(|(n, owner)| line(first + n, owner, rate)).collect()
}

/// Returns an upright line for each change of a setting, as high as the highest of `lines`.
fn marks(run: &RunResult, lines: &[Series]) -> Vec<Series> {
    let values = lines.iter().flat_map(|series| &series.points);
    let top = values.fold(0.0, |top: f64, point| top.max(point.1));
    let mark = |change: &elevon_result::result::Change| {
        let at = change.at.get() as f64;
        Series {
            name: format!("{}: {} {}", span(at), change.tenant, change.text),
            colour: NEUTRAL,
            points: vec![(at, 0.0), (at, top)],
            ..Series::default()
        }
    };
    run.changes.iter().take(if top > 0.0 { MAX_MARKS } else { 0 }).map(mark).collect()
}

/// Returns rates over time, averaged over groups of equally many intervals. A group holds enough
/// I/Os that one more or less is no step in the line.
fn line(colour: usize, owner: &OwnerResult, rate: Rate) -> Series {
    let ios = total(owner, IOPS);
    let intervals = owner.points.len().div_ceil(windows(ios)).max(1);
    let mut start = 0.0;
    let mut points = Vec::new();
    for run in owner.points.chunks(intervals) {
        let end = run.last().map_or(start, |point| point.at.get() as f64);
        let sum: u64 = run.iter().map(rate.value).sum();
        points.push((end, ratio(sum as f64, (end - start) / 1e9)));
        start = end;
    }
    Series { name: owner.name.clone(), colour, points, ..Series::default() }
}

#[cfg(test)]
mod tests {
    use elevon_core::units::Nanos;
    use elevon_result::result::Change;

    use super::*;
    use crate::sample;

    #[test]
    fn each_change_is_a_line_in_each_plot_and_in_words() {
        let mut run = sample::tenants_run();
        assert_eq!(section('A', &run).into_string(), "", "nothing was recorded");
        let points = [(1, 1_000), (2, 1_000), (3, 100)];
        let points = points.map(|(at, ios)| OwnerPoint {
            at: Nanos::from_secs(at),
            ios: [ios, 0, 0],
            bytes: [ios * 4096, 0, 0],
        });
        run.owners.tenants.push(OwnerResult { name: "<silver>".into(), points: points.to_vec() });
        run.changes.push(Change {
            at: Nanos::from_secs(2),
            tenant: "<silver>".into(),
            file: "limit".into(),
            text: "{ riops = 10 }".into(),
        });
        let out = section('A', &run).into_string();
        assert!(!out.contains("<silver>") && out.contains("&lt;silver&gt; limit: { riops = 10 }"));
        let plots = plots(&run);
        assert_eq!(plots[1].series[0].points, [(1e9, 1e3), (2e9, 1e3), (3e9, 100.0)]);
        assert_eq!(plots[1].series[1].points, [(2e9, 0.0), (2e9, 1e3)]);
    }

    /// A run whose job `n` of `jobs` did `n` times 1,000 I/Os of 4 KiB in each of ten seconds.
    fn run_of(jobs: u64) -> RunResult {
        let mut run = sample::mixed_run();
        let points = |n: u64| {
            (1..=10).map(move |at| OwnerPoint {
                at: Nanos::from_secs(at),
                ios: [n * 1_000, 0, 0],
                bytes: [n * 4_096_000, 0, 0],
            })
        };
        let job = |n| OwnerResult { name: format!("job{n}"), points: points(n).collect() };
        run.owners.jobs = (1..=jobs).map(job).collect();
        run
    }

    #[test]
    fn each_job_has_a_line_and_the_smallest_of_many_share_one() {
        let lines = |jobs| lines(&run_of(jobs).owners.jobs, IOPS, 1);
        let names =
            |lines: Vec<Series>| lines.into_iter().map(|line| line.name).collect::<Vec<_>>();
        assert_eq!(names(lines(3)), ["job1", "job2", "job3"]);
        let many = lines(20);
        assert_eq!(many.len(), MAX_LINES);
        assert_eq!(many[MAX_LINES - 1].points[4], (5e9, f64::from((1..=14).sum::<i32>()) * 1e3));
        let colours: Vec<usize> = many.iter().map(|line| line.colour).collect();
        assert_eq!(colours, [1, 2, 3, 4, 5, 6, 7], "none has the colour of the sum");
        let names = names(many);
        assert_eq!((names[0].as_str(), names[MAX_LINES - 1].as_str()), ("job20", "14 others"));
    }

    #[test]
    fn runs_that_are_compared_have_a_plot_for_each_job() {
        let (one, other) = (run_of(2), run_of(3));
        let of = |label, result| Variant { label, result };
        let plots = compared_jobs(&[of("none", &one), of("bfq", &other)], IOPS);
        let titles: Vec<&str> = plots.iter().map(|plot| plot.title.as_str()).collect();
        assert_eq!(titles, ["job1: I/Os a second", "job2: I/Os a second", "job3: I/Os a second"]);
        let names =
            |plot: &Plot| plot.series.iter().map(|line| line.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&plots[0]), ["A: none", "B: bfq"]);
        assert_eq!((names(&plots[2]), plots[2].series[0].colour), (vec!["B: bfq".to_owned()], 1));
        let (many, alone) = (run_of(9), run_of(1));
        let plots = compared_jobs(&[of("none", &many)], THROUGHPUT);
        assert_eq!(plots.len(), MAX_COMPARED);
        assert_eq!(plots[MAX_COMPARED - 1].title, "6 other jobs: throughput");
        assert!(compared_jobs(&[of("none", &alone)], IOPS).is_empty(), "the sum shows it");
    }
}
