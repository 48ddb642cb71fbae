//! Plots of tenants and jobs over time, with a line at each change of a setting.

use elevon_result::number::span;
use elevon_result::result::{OwnerPoint, OwnerResult, RunResult};
use elevon_result::summary::ratio;
use maud::{Markup, html};

use super::plots::{LINE_POINTS, axis};
use crate::markup::text;
use crate::plot::{Mark, Plot, Scale, Series, Unit};

/// Maximum number of lines in a plot: the number of colours.
const MAX_LINES: usize = 8;
/// Maximum number of changes drawn; the list below the plots has more.
const MAX_MARKS: usize = 6;
/// Maximum number of changes listed.
const MAX_CHANGES: usize = 40;

/// Returns the section of one run; empty if the run has no tenants.
pub(super) fn section(letter: char, run: &RunResult) -> Markup {
    if run.owners.tenants.is_empty() {
        return Markup::default();
    }
    html! {
        section {
            h2 { "Run " (letter) ": tenants and jobs over time" }
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
    let bytes = |point: &OwnerPoint| point.bytes.iter().sum::<u64>() as f64;
    let ios = |point: &OwnerPoint| point.ios.iter().sum::<u64>() as f64;
    let of = |title: &str, description: &str, y: &str, unit, owners, value| Plot {
        title: title.into(),
        description: description.into(),
        mark: Mark::Line,
        x: axis("time", Scale::Linear, Unit::Nanos),
        y: axis(y, Scale::Linear, unit),
        series: lines(run, owners, value),
    };
    let (tenants, jobs) = (&run.owners.tenants, &run.owners.jobs);
    let to_device = "What limits let go of each tenant, those below it included. Upright lines: a setting changed.";
    let by_jobs = "What each job completed. Upright lines: a setting changed.";
    let rate = Unit::BytesPerSecond;
    let all = [
        of(
            "Throughput by tenant",
            to_device,
            "throughput",
            rate,
            tenants,
            &bytes as &dyn Fn(&OwnerPoint) -> f64,
        ),
        of("I/Os by tenant", to_device, "I/Os a second", Unit::Count, tenants, &ios),
        of("Throughput by job", by_jobs, "throughput", rate, jobs, &bytes),
        of("I/Os by job", by_jobs, "I/Os a second", Unit::Count, jobs, &ios),
    ];
    all.into_iter().filter(|plot| !plot.series.is_empty()).collect()
}

/// Returns one line for each owner with the highest totals, and one for each change.
fn lines(
    run: &RunResult,
    owners: &[OwnerResult],
    value: &dyn Fn(&OwnerPoint) -> f64,
) -> Vec<Series> {
    let total = |owner: &OwnerResult| owner.points.iter().map(value).sum::<f64>();
    let mut most: Vec<&OwnerResult> = owners.iter().filter(|owner| total(owner) > 0.0).collect();
    most.sort_by(|one, other| total(other).total_cmp(&total(one)));
    most.truncate(MAX_LINES);
    let mut all: Vec<Series> =
        most.iter().enumerate().map(|(n, owner)| line(n, owner, value)).collect();
    let top =
        all.iter().flat_map(|series| &series.points).fold(0.0, |top: f64, point| top.max(point.1));
    if top > 0.0 {
        let marks = run.changes.iter().take(MAX_MARKS).map(|change| Series {
            name: format!("{}: {} {}", span(change.at.get() as f64), change.tenant, change.text),
            colour: 7,
            points: vec![(change.at.get() as f64, 0.0), (change.at.get() as f64, top)],
            ..Series::default()
        });
        all.extend(marks);
    }
    all
}

/// Returns rates over time, averaged over groups of equally many intervals if there are too many
/// points.
fn line(n: usize, owner: &OwnerResult, value: &dyn Fn(&OwnerPoint) -> f64) -> Series {
    let mut start = 0.0;
    let mut points = Vec::new();
    for run in owner.points.chunks(owner.points.len().div_ceil(LINE_POINTS).max(1)) {
        let end = run.last().map_or(start, |point| point.at.get() as f64);
        points.push((end, ratio(run.iter().map(value).sum(), (end - start) / 1e9)));
        start = end;
    }
    Series { name: owner.name.clone(), colour: n % 7, points, ..Series::default() }
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
        let points = [(1, 100), (2, 100), (3, 10)];
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
        assert_eq!(plots.len(), 2, "no job was recorded");
        assert_eq!(plots[1].series[0].points, [(1e9, 100.0), (2e9, 100.0), (3e9, 10.0)]);
        assert_eq!(plots[1].series[1].points, [(2e9, 0.0), (2e9, 100.0)]);
    }
}
