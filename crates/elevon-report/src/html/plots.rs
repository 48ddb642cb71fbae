//! Builds the plots of a page from results.

use elevon_core::histogram::Histogram;
use elevon_result::number::span;
use elevon_result::result::{Point, SizeCounts};
use elevon_result::summary::{ratio, shown_latency, total};

use super::{cache, over_time, set_apart};
use crate::fairness::{Share, fairness};
use crate::plot::{Axis, Mark, Plot, Scale, Series, Unit};
use crate::variant::{Variant, letters};

/// Maximum number of points in a line; more cannot be distinguished on a width of 400 units.
pub(super) const LINE_POINTS: usize = 200;
/// Mean number of I/Os in a window of a line over time, so that one I/O more or less changes the
/// value by one percent.
const WINDOW_IOS: u64 = 100;
/// Minimum number of windows, for a short run.
const FEWEST_WINDOWS: u64 = 8;
/// Maximum number of request sizes with a bar of their own. If there are more, sizes are grouped by
/// powers of two.
const SIZE_BARS: usize = 12;

/// Returns every plot for which the variants have values.
pub(super) fn all(variants: &[Variant<'_>]) -> Vec<Plot> {
    let (mut throughput, mut iops) = (throughput(variants), iops(variants));
    let mut of_jobs = Vec::new();
    if let [one] = variants {
        over_time::add_jobs(&mut throughput, one.result, over_time::THROUGHPUT);
        over_time::add_jobs(&mut iops, one.result, over_time::IOPS);
    } else {
        of_jobs = over_time::compared_jobs(variants, over_time::THROUGHPUT);
        of_jobs.extend(over_time::compared_jobs(variants, over_time::IOPS));
    }
    let candidates = [
        latency(variants),
        tail(variants),
        queue_depth(variants),
        request_sizes(variants),
        shares(variants),
    ];
    // For a single run these plots are in the run's own section.
    let of_caches =
        if variants.len() > 1 { cache::compared(variants).to_vec() } else { Vec::new() };
    [throughput, iops]
        .into_iter()
        .chain(of_jobs)
        .chain(candidates)
        .chain(of_caches)
        .filter(|plot| plot.series.iter().any(|series| !series.points.is_empty()))
        .collect()
}

pub(super) fn axis(title: &str, scale: Scale, unit: Unit) -> Axis {
    Axis { title: title.into(), scale, unit }
}

/// Returns one series per variant, with the same name and colour in every plot.
pub(super) fn series<'a>(
    variants: &[Variant<'a>],
    points: impl Fn(&Variant<'a>) -> Vec<(f64, f64)>,
) -> Vec<Series> {
    let named = letters().zip(variants).enumerate();
    named
        .map(|(colour, (letter, variant))| Series {
            name: format!("{letter}: {}", variant.label),
            colour,
            points: points(variant),
            ..Series::default()
        })
        .collect()
}

/// Returns the number of windows of a line over time, so that there are at most [`LINE_POINTS`]
/// windows and each holds [`WINDOW_IOS`] I/Os on average. With only a few I/Os per window, the line
/// would show how completions fall into windows, not the rate. A short run has at least
/// [`FEWEST_WINDOWS`] windows.
pub(super) fn windows(ios: u64) -> usize {
    (ios / WINDOW_IOS).clamp(FEWEST_WINDOWS, LINE_POINTS as u64) as usize
}

/// Returns the number of intervals in one window.
fn window(points: &[Point]) -> usize {
    let ios: u64 = points.iter().flat_map(|point| point.ios).sum();
    points.len().div_ceil(windows(ios)).max(1)
}

/// Formats the length of a window: `5.00 ms`, or `5.00 ms to 8.00 ms` if variants differ.
fn windows_in_words(variants: &[Variant<'_>]) -> String {
    let series = variants.iter().filter_map(|variant| variant.result.series.as_ref());
    let lengths = series.map(|series| series.interval.get() * window(&series.points) as u64);
    let (least, most) =
        lengths.fold((u64::MAX, 0), |(least, most), length| (least.min(length), most.max(length)));
    let words = |ns: u64| set_apart(&span(ns as f64));
    if least >= most { words(most) } else { format!("{} to {}", words(least), words(most)) }
}

/// Returns values over time, one per window. A remainder shorter than half a window is added to the
/// last window.
fn over_time(variant: &Variant<'_>, value: impl Fn(&[Point], f64) -> f64) -> Vec<(f64, f64)> {
    let points = variant.result.series.as_ref().map_or(&[][..], |series| &series.points);
    let window = window(points);
    let whole = points.len() / window;
    let is_rest_short = whole > 0 && (points.len() % window) * 2 < window;
    let (body, last) =
        points.split_at(if is_rest_short { (whole - 1) * window } else { whole * window });
    let mut start = 0.0;
    let mut out = Vec::new();
    for run in body.chunks(window).chain([last]).filter(|run| !run.is_empty()) {
        let end = run.last().map_or(start, |point| point.at.get() as f64);
        out.push((end, value(run, (end - start) / 1e9)));
        start = end;
    }
    out
}

fn throughput(variants: &[Variant<'_>]) -> Plot {
    let bytes = |run: &[Point]| run.iter().flat_map(|point| point.bytes).sum::<u64>() as f64;
    Plot {
        title: "Throughput over time".into(),
        description: format!(
            "Bytes that the jobs completed a second: reads, writes and trims together. Means of {}.",
            windows_in_words(variants)
        ),
        mark: Mark::Line,
        x: axis("time", Scale::Linear, Unit::Nanos),
        y: axis("throughput", Scale::Linear, Unit::BytesPerSecond),
        series: series(variants, |v| over_time(v, |run, seconds| ratio(bytes(run), seconds))),
    }
}

fn iops(variants: &[Variant<'_>]) -> Plot {
    let ios = |run: &[Point]| run.iter().flat_map(|point| point.ios).sum::<u64>() as f64;
    Plot {
        title: "I/Os over time".into(),
        description: format!(
            "I/Os that the jobs completed a second, before splits and merges. Means of {}.",
            windows_in_words(variants)
        ),
        mark: Mark::Line,
        x: axis("time", Scale::Linear, Unit::Nanos),
        y: axis("I/Os a second", Scale::Linear, Unit::Count),
        series: series(variants, |v| over_time(v, |run, seconds| ratio(ios(run), seconds))),
    }
}

fn queue_depth(variants: &[Variant<'_>]) -> Plot {
    let mean =
        |run: &[Point], _| ratio(run.iter().map(|point| point.in_flight).sum(), run.len() as f64);
    Plot {
        title: "Queue depth over time".into(),
        description: format!(
            "Mean requests in flight, in windows of {}.",
            windows_in_words(variants)
        ),
        mark: Mark::Step,
        x: axis("time", Scale::Linear, Unit::Nanos),
        y: axis("requests in flight", Scale::Linear, Unit::Count),
        // A level holds from the start of its interval, so the first one is drawn from time zero.
        series: series(variants, |v| {
            let ends = over_time(v, mean);
            let starts = std::iter::once(0.0).chain(ends.iter().map(|point| point.0));
            let last = ends.last().copied();
            starts.zip(&ends).map(|(start, &(_, level))| (start, level)).chain(last).collect()
        }),
    }
}

/// Returns (value, share of all values at or below it) for each bin.
fn cumulative(histogram: &Histogram) -> Vec<(f64, f64)> {
    let mut seen = 0;
    histogram
        .iter()
        .map(|(value, count)| {
            seen += count;
            (value.max(1) as f64, seen as f64 / histogram.total() as f64)
        })
        .collect()
}

pub(super) fn latency(variants: &[Variant<'_>]) -> Plot {
    let curve = |v: &Variant<'_>| {
        let all = cumulative(&shown_latency(&total(v.result)).histogram);
        let first = all.first().map(|&(value, _)| (value, 0.0));
        let mut kept: Vec<(f64, f64)> = first.into_iter().collect();
        for (value, share) in all {
            // A quarter of a percent is less than a unit of height. The next plot shows the tail
            // past the 99.9th percentile.
            let end = share >= 0.999;
            if end || kept.last().is_none_or(|&(_, y)| share * 100.0 - y >= 0.25) {
                kept.push((value, share * 100.0));
            }
            if end {
                break;
            }
        }
        kept
    };
    Plot {
        title: "Latency distribution".into(),
        description:
            "Share of I/Os that took at most this long, all jobs and directions, up to the 99.9th \
                      percentile. Further left is quicker."
                .into(),
        mark: Mark::Step,
        x: axis("latency", Scale::Log, Unit::Nanos),
        y: axis("I/Os at or below", Scale::Linear, Unit::Percent),
        series: series(variants, curve),
    }
}

fn tail(variants: &[Variant<'_>]) -> Plot {
    let curve = |v: &Variant<'_>| {
        let stats = total(v.result);
        let histogram = &shown_latency(&stats).histogram;
        let most = histogram.total().max(1) as f64;
        let all = cumulative(histogram);
        // The lowest latency holds from the percentile below all values on.
        let mut kept: Vec<(f64, f64)> =
            all.first().map(|&(value, _)| (1.0, value)).into_iter().collect();
        for (value, share) in all {
            let odds = (1.0 / (1.0 - share)).min(most);
            match kept.last_mut() {
                // If several percentiles fall on the same spot, the highest latency is shown.
                Some(last) if odds < last.0 * 1.02 => last.1 = value,
                _ => kept.push((odds, value)),
            }
        }
        kept
    };
    Plot {
        title: "Latency by percentile".into(),
        description:
            "How long the slowest I/Os took: each step right is ten times rarer. Lower is quicker."
                .into(),
        mark: Mark::StepBefore,
        x: axis("percentile", Scale::Log, Unit::Odds),
        y: axis("latency", Scale::Log, Unit::Nanos),
        series: series(variants, curve),
    }
}

pub(super) fn request_sizes(variants: &[Variant<'_>]) -> Plot {
    let all: Vec<SizeCounts> = variants.iter().map(|v| v.result.disk.all_request_sizes()).collect();
    let distinct = all.iter().fold(SizeCounts::default(), |sum, sizes| sum.merged(sizes)).0.len();
    let by_powers = distinct > SIZE_BARS;
    let shares = |sizes: &SizeCounts| {
        let total = sizes.total() as f64;
        let grouped = sizes
            .0
            .iter()
            .map(|&(bytes, count)| (if by_powers { floor_power(bytes) } else { bytes }, count));
        let mut bars: Vec<(f64, f64)> = Vec::new();
        for (bytes, count) in grouped {
            let share = 100.0 * count as f64 / total;
            match bars.last_mut() {
                Some(last) if last.0 == bytes as f64 => last.1 += share,
                _ => bars.push((bytes as f64, share)),
            }
        }
        bars
    };
    let mut plot = Plot {
        title: "Request sizes".into(),
        description: "Share of the requests given to the driver that had each size.".into(),
        mark: Mark::Bars,
        x: axis("request size", Scale::Linear, Unit::KiB),
        y: axis("requests", Scale::Linear, Unit::Percent),
        series: series(variants, |_| Vec::new()),
    };
    if by_powers {
        plot.description += " A bar counts sizes from its label up to the next power of two.";
    }
    for (series, sizes) in plot.series.iter_mut().zip(&all) {
        series.points = shares(sizes);
    }
    plot
}

fn shares(variants: &[Variant<'_>]) -> Plot {
    let of = |v: &Variant<'_>| fairness(v.result).map_or_else(Vec::new, |found| found.shares);
    let point = |share: &Share| {
        (100.0 * share.bandwidth.due, ratio(share.bandwidth.got, share.bandwidth.due))
    };
    let mut plot = Plot {
        title: "Share got over share due".into(),
        description: "Bandwidth of each job against what it is due, by its weight and no more than it asked for: 1 \
                      is fair, above is more, below is less."
            .into(),
        mark: Mark::Points,
        x: axis("share due", Scale::Linear, Unit::Percent),
        y: axis("got over due", Scale::Linear, Unit::Count),
        series: series(variants, |v| of(v).iter().map(point).collect()),
    };
    for (series, variant) in plot.series.iter_mut().zip(variants) {
        series.labels =
            of(variant).iter().map(|share| variant.result.jobs[share.job].name.clone()).collect();
    }
    plot
}

/// Returns the largest power of two not above `bytes`; 0 for 0.
fn floor_power(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { 1 << bytes.ilog2() }
}

#[cfg(test)]
mod tests {
    use elevon_core::units::{Instant, Nanos};
    use elevon_result::result::Series as RunSeries;

    use super::*;
    use crate::sample;

    /// A run of `ms` milliseconds in which an I/O of 1 MiB completes every `every` microseconds.
    fn steady(ms: u64, every: u64) -> elevon_result::result::RunResult {
        let mut points: Vec<Point> = (1..=ms)
            .map(|at| Point {
                at: Instant::new(at * 1_000_000),
                bytes: [0; 3],
                ios: [0; 3],
                in_flight: 1.0,
            })
            .collect();
        for io in 1..=ms * 1000 / every {
            let point = &mut points[((io * every - 1) / 1000) as usize];
            point.ios[0] += 1;
            point.bytes[0] += 1 << 20;
        }
        let mut run = sample::mixed_run();
        run.series = Some(RunSeries { interval: Nanos::from_millis(1), points });
        run
    }

    #[test]
    fn a_steady_rate_is_a_flat_line() {
        // With about three I/Os per millisecond, windows of one millisecond would show 2, 3, 2, 3
        // ...
        for (ms, every, within) in
            [(1000, 361, 0.03), (997, 361, 0.03), (3001, 373, 0.02), (100, 361, 0.10)]
        {
            let run = steady(ms, every);
            let plot = throughput(&[Variant { label: "steady", result: &run }]);
            let expected = f64::from(1 << 20) * 1e6 / every as f64;
            let points = &plot.series[0].points;
            assert!(points.len() >= 6, "{} windows of {ms} ms", points.len());
            for &(at, rate) in points {
                assert!(
                    (rate / expected - 1.0).abs() < within,
                    "{ms} ms, every {every} us: {rate} at {at}"
                );
            }
        }
    }

    #[test]
    fn the_latency_of_a_percentile_is_a_level_that_rises() {
        let mut run = sample::mixed_run();
        run.jobs.truncate(1);
        let variants = [Variant { label: "v", result: &run }];
        let plot = tail(&variants);
        let points = &plot.series[0].points;
        assert!(
            plot.mark == Mark::StepBefore && points[0].0 == 1.0,
            "a level holds up to its percentile: {points:?}"
        );
        assert!(
            points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1),
            "{points:?}"
        );
    }

    #[test]
    fn captions_say_how_long_a_window_is() {
        let (short, long) = (steady(1000, 361), steady(4000, 361));
        let of = |result| Variant { label: "x", result };
        assert!(throughput(&[of(&short)]).description.ends_with("Means of 38.0\u{202f}ms."));
        let both = iops(&[of(&short), of(&long)]).description;
        assert!(both.ends_with("Means of 37.0\u{202f}ms to 38.0\u{202f}ms."), "{both}");
    }
}
