//! What the times of a trace say of the time that a request holds a server, given the number of
//! servers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::model::{ByKind, Cost, Kind, Model, Served};

/// Minimum number of requests of a kind that found a free server; with fewer, the samples of all
/// requests are used.
const MIN_REQUESTS_OF_A_KIND: usize = 30;
/// The same if the requests are served in order, so that those that waited tell as much. Two that
/// were issued at the same time may be out of order in the trace.
const FEWEST_OF_ORDERED: usize = 300;

/// Bytes of requests of one kind, with the nanoseconds that each took.
pub(super) type Samples = Vec<(u64, f64)>;

/// Returns bytes and service time (with the base) of requests, by kind. Each request gets the
/// server that was left first, at the time when the request before it on that server completed.
/// If the requests are not served in order, that is right on average only. Then only those are used
/// that found a free server, unless a kind has too few of them.
pub(super) fn samples(served: &[Served], model: &Model, is_ordered: bool) -> ByKind<Samples> {
    let mut all: ByKind<Vec<(u64, f64, bool)>> = Default::default();
    let mut left: BinaryHeap<Reverse<u64>> = (0..model.servers).map(|_| Reverse(0)).collect();
    let before = model.hand_over - model.base;
    for one in served {
        let samples = &mut all[one.kind as usize];
        if !model.waits(one) {
            samples.push((one.bytes, one.latency() as f64, true));
            continue;
        }
        let Reverse(at) = left.pop().unwrap_or(Reverse(0));
        left.push(Reverse(one.completed));
        let waited = at as f64 - one.issued as f64;
        let waited = if waited > 0.0 { (waited + before).max(0.0) } else { 0.0 };
        samples.push((one.bytes, (one.latency() as f64 - waited).max(0.0), at <= one.issued));
    }
    all.map(|samples| {
        let fewest = if is_ordered { FEWEST_OF_ORDERED } else { MIN_REQUESTS_OF_A_KIND };
        let is_enough = samples.iter().filter(|sample| sample.2).count() >= fewest;
        let taken = samples.into_iter().filter(|sample| sample.2 || !is_enough);
        taken.map(|(bytes, time, _)| (bytes, time)).collect()
    })
}

/// Returns the cost of each kind: the line through the medians of the samples of each size.
pub(super) fn costs_of(samples: &ByKind<Samples>, costs: ByKind<Cost>) -> ByKind<Cost> {
    let mut new = costs;
    for (kind, samples) in samples.iter().enumerate() {
        let mut sizes: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for &(bytes, time) in samples {
            sizes.entry(bytes).or_default().push(time);
        }
        let median = |(bytes, mut all): (u64, Vec<f64>)| {
            let middle = all.len() / 2;
            (bytes as f64, *all.select_nth_unstable_by(middle, f64::total_cmp).1, all.len() as f64)
        };
        let points: Vec<Point> = sizes.into_iter().map(median).collect();
        let Some(&(bytes, median, _)) = points.first() else { continue };
        new[kind] = line(&points).unwrap_or_else(|| {
            let per_byte = costs[kind].per_byte.min(median / bytes.max(1.0));
            let per_byte = if bytes > 0.0 { per_byte } else { 0.0 };
            Cost { latency: median - per_byte * bytes, per_byte }
        });
    }
    // A kind without samples has the costs of another.
    for kind in Kind::ALL.into_iter().filter(|&kind| samples[kind as usize].is_empty()) {
        let other = new[kind.other() as usize];
        new[kind as usize] = if kind.has_data() { other } else { Cost { per_byte: 0.0, ..other } };
    }
    new
}

/// A size: bytes, latency and weight.
pub(super) type Point = (f64, f64, f64);

/// Returns the line through points; `None` if they are of one size.
pub(super) fn line(points: &[Point]) -> Option<Cost> {
    if points.len() < 2 {
        return None;
    }
    let weight: f64 = points.iter().map(|point| point.2).sum();
    let mean = |of: fn(&Point) -> f64| points.iter().map(|p| of(p) * p.2).sum::<f64>() / weight;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let covariance: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y) * p.2).sum();
    let variance: f64 = points.iter().map(|p| (p.0 - x) * (p.0 - x) * p.2).sum();
    let per_byte = (covariance / variance).max(0.0).min(y / x);
    Some(Cost { latency: y - per_byte * x, per_byte })
}
