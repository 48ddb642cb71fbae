//! Fits the parameters of [`slots`](elevon_sim::device::slots) to requests of which only the times
//! of issue and completion are known.
//!
//! The fit uses the times at which requests were issued, so layers above the device do not count.
//! It has three parts. The first two are done twice if the place matters (`place.rs`).
//!
//! 1. `order`: which numbers of servers behind one FIFO explain the order and the times of the
//!    completions, and time that occupies no server. `samples` has the time for which a read, a
//!    write, a discard and a flush occupy a server, and its spread.
//! 2. `refine`: hand-over of servers and disorder, if the requests are not served in order. These
//!    are random or nearly so, so which request they delay is not known. Therefore this part
//!    compares distributions of latency, of requests of one kind and size that met about as many
//!    others in the device. A parameter that does not clearly reduce that error is not used.
//! 3. `interval`: the devices that explain the requests as well and would serve another load
//!    otherwise.
//!
//! Cost: O(requests × log servers) for each of some hundred trials, over at most
//! `MAX_REQUESTS_OF_A_TRIAL` requests.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use elevon_sim::device::SlotsParameters;
use order::Evidence;

mod interval;
mod like;
mod model;
mod order;
mod place;
mod refine;
mod samples;

pub(crate) use like::{LikeFit, fit_like, is_fitted, nearest};
pub(crate) use model::ByKind;
pub use model::{Cost, Kind, Model, Served};

/// Maximum number of requests that a fit uses; if there are more, it uses the first ones.
pub(crate) const MAX_REQUESTS_FITTED: usize = 100_000;
/// Maximum number of requests that a trial uses.
pub(crate) const MAX_REQUESTS_OF_A_TRIAL: usize = 20_000;
/// Number of requests after which the model is set to the observed state.
const WINDOW: usize = 256;
/// Maximum number of sizes that are listed for each direction.
const SIZES: usize = 12;

/// A figure of the observed requests and of the model, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figure {
    /// Observed.
    pub measured: f64,
    /// Figure of the model.
    pub model: f64,
}

impl Figure {
    /// Returns the deviation of the model in percent of the measured figure.
    pub fn error_percent(&self) -> f64 {
        if self.measured > 0.0 { (self.model / self.measured - 1.0) * 100.0 } else { 0.0 }
    }
}

/// Latencies of a group of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LatencyRow {
    /// Number of requests.
    pub requests: u64,
    /// Mean latency, from issue to completion.
    pub mean: Figure,
    /// Median.
    pub p50: Figure,
    /// 99th percentile.
    pub p99: Figure,
}

/// A fitted device and its errors.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The device.
    pub model: Model,
    /// Number of requests to which it was fitted, and number of requests that were given.
    pub requests: (u64, u64),
    /// Mean absolute difference of a request's latency, in percent of the mean latency.
    pub each_percent: f64,
    /// Mean absolute difference of latencies of equal rank, among requests of one kind and size
    /// that met about as many others in the device, in percent of the mean latency.
    pub distribution_percent: f64,
    /// The same for a FIFO without spread.
    pub fifo_percent: f64,
    /// By how much the logarithm of the likelihood of a request is less than that of the fitted
    /// device, by number of servers behind a FIFO (ascending).
    pub by_servers: Vec<(u64, f64)>,
    /// Other devices that explain the requests as well, and would serve another load otherwise:
    /// the ends of the interval in which the device is. None if the requests leave no choice.
    pub ends: Vec<Model>,
    /// The fewest and the most servers of the devices that explain the requests; `None` if there
    /// is no bound.
    pub servers: (u64, Option<u64>),
    /// Smallest and largest number of requests in the device for which the requests show how it
    /// serves them; 0 for no bound. Below and above, the ends part.
    pub known: [u64; 2],
    /// Smallest and largest number of requests in the device that there was, but for a few that
    /// met less.
    pub met: [u64; 2],
    /// Maximum number of requests that were in the device at once.
    pub depth: u64,
    /// True if the number of servers is a lower bound: the requests do not show that any waited
    /// for a server.
    pub may_have_more: bool,
    /// True if the device is servers behind a queue beyond doubt.
    pub is_queue: bool,
    /// Number of requests of each kind.
    pub by_kind: ByKind<u64>,
    /// Latencies by kind and bytes; only the most frequent sizes.
    pub by_size: Vec<(Kind, u64, LatencyRow)>,
    /// Latencies by number of requests in the device at issue, including the request itself: 1, 2,
    /// up to 4, 8, 16, ...
    pub by_depth: Vec<(u64, LatencyRow)>,
}

impl Fit {
    /// Returns true if there were requests of this kind; reads and writes may be sequential ones.
    pub fn has(&self, kind: Kind) -> bool {
        let count = |kind: Kind| self.by_kind[kind as usize];
        match kind {
            Kind::Read => count(Kind::Read) + count(Kind::SequentialRead) > 0,
            Kind::Write => count(Kind::Write) + count(Kind::SequentialWrite) > 0,
            _ => count(kind) > 0,
        }
    }

    /// Returns the model as parameters of a device, which has a volatile cache if there were
    /// flushes.
    pub fn parameters(&self) -> SlotsParameters {
        let traced_depth = if self.may_have_more { self.depth.min(4096) as u32 } else { 0 };
        SlotsParameters { traced_depth, ..self.parameters_of(&self.model) }
    }

    /// Returns one of the models as parameters of a device.
    pub(crate) fn parameters_of(&self, model: &Model) -> SlotsParameters {
        model.parameters(|kind| self.has(kind))
    }
}

/// Fits a device to requests in order of issue. Returns `None` if there is no read or write.
///
/// The kinds of `served` are reads, writes, discards and flushes. Sequential ones are found here.
pub fn fit(served: &[Served]) -> Option<Fit> {
    let all = served.len() as u64;
    let served = &served[..served.len().min(MAX_REQUESTS_FITTED)];
    if !served.iter().any(|one| one.kind.has_data()) {
        return None;
    }
    let plain = Trial::from_served(served);
    let by_place = place::by_place(served).map(|served| (Trial::from_served(&served), served));
    // Both are held against the same groups: those of one place. That the place matters is shown
    // by then, so that it need not make the error much smaller.
    let better = by_place.filter(|(placed, by_place)| {
        let whole = [(0, served.len())];
        let groups = refine::Groups::new(by_place, &placed.depths, &whole);
        refine::error(&groups, &placed.latencies) < refine::error(&groups, &plain.latencies)
    });
    let (trial, served) = match &better {
        Some((placed, by_place)) => (placed, &by_place[..]),
        None => (&plain, served),
    };
    let Trial { model, depths, latencies, .. } = trial;
    let whole = [(0, served.len())];
    let groups = refine::Groups::new(served, depths, &whole);
    Some(Fit {
        requests: (served.len() as u64, all),
        each_percent: error(served, &whole, latencies) * 100.0,
        distribution_percent: groups.error(latencies)[0] * 100.0,
        fifo_percent: groups.error(&trial.fifo_latencies)[0] * 100.0,
        by_servers: trial.evidence.by_servers.clone(),
        ends: trial.ends.clone(),
        known: trial.known,
        met: interval::met(depths),
        servers: trial.servers,
        depth: depths.iter().copied().max().unwrap_or(1),
        may_have_more: trial.may_have_more,
        is_queue: trial.evidence.is_queue,
        by_kind: Kind::ALL.map(|kind| served.iter().filter(|one| one.kind == kind).count() as u64),
        by_size: by_size(served, latencies),
        by_depth: by_depth(served, latencies, depths),
        model: *model,
    })
}

/// A model that was fitted to requests, and what it makes of them.
struct Trial {
    model: Model,
    depths: Vec<u64>,
    evidence: Evidence,
    may_have_more: bool,
    ends: Vec<Model>,
    known: [u64; 2],
    servers: (u64, Option<u64>),
    /// Latency of each request.
    latencies: Vec<u64>,
    /// Latency of each request behind a FIFO.
    fifo_latencies: Vec<u64>,
}

impl Trial {
    fn from_served(served: &[Served]) -> Self {
        let evidence = order::evidence(served);
        let depths = depths(served, evidence.best.shape.flush_waits);
        let windows = windows(served, MAX_REQUESTS_OF_A_TRIAL);
        let groups = refine::Groups::new(served, &depths, &windows);
        let is_ordered = evidence.is_ordered;
        let refined =
            |first: Model| refine::fit(first, is_ordered, served, &depths, &windows, &groups);
        let model = refined(evidence.best.model());
        let may_have_more = match is_ordered {
            true => interval::has_no_bound(&evidence),
            false => refine::may_have_more(&model, served, &depths, &windows, &groups),
        };
        // What is not served in order has a likelihood of its own, which is not known.
        let ends = if is_ordered { interval::ends(&evidence) } else { Vec::new() };
        let known = interval::known(&evidence.best, &ends, &depths);
        let ends = ends.iter().map(|end| refined(end.model())).collect();
        let whole = [(0, served.len())];
        let fifo = Model {
            flush_waits: model.flush_waits,
            ..Model::from_servers(model.servers, model.costs)
        };
        let [latencies, fifo_latencies] =
            [model, fifo].map(|model| model.latencies(served, &whole));
        let [least, most] = if is_ordered { evidence.servers } else { [model.servers; 2] };
        let servers =
            (least.min(model.servers), (!may_have_more).then_some(most.max(model.servers)));
        Self {
            model,
            depths,
            evidence,
            may_have_more,
            ends,
            known,
            servers,
            latencies,
            fifo_latencies,
        }
    }
}

/// Returns the windows that a trial uses: the first request and the one after the last.
fn windows(served: &[Served], most: usize) -> Vec<(usize, usize)> {
    let count = served.len().div_ceil(WINDOW);
    let taken = count.min(most / WINDOW);
    let at = |n: usize| n * count / taken * WINDOW;
    (0..taken).map(|n| (at(n), (at(n) + WINDOW).min(served.len()))).collect()
}

/// Returns the number of requests (without flushes, unless they count) in the device when each
/// request is issued, including itself.
fn depths(served: &[Served], flushes_count: bool) -> Vec<u64> {
    let mut ends = BinaryHeap::new();
    let depth = |one: &Served| {
        while ends.peek().is_some_and(|&Reverse(end)| end <= one.issued) {
            ends.pop();
        }
        if one.kind == Kind::Flush && !flushes_count {
            return ends.len() as u64 + 1;
        }
        ends.push(Reverse(one.completed));
        ends.len() as u64
    };
    served.iter().map(depth).collect()
}

/// Returns the mean absolute difference of latencies, divided by their mean; `model` has the
/// latencies of the windows.
fn error(served: &[Served], windows: &[(usize, usize)], model: &[u64]) -> f64 {
    let own = windows.iter().flat_map(|&(from, until)| &served[from..until]).map(Served::latency);
    let (mut difference, mut sum) = (0.0, 0.0);
    for (own, model) in own.zip(model) {
        difference += own.abs_diff(*model) as f64;
        sum += own as f64;
    }
    difference / f64::max(sum, 1.0)
}

fn row(mut pairs: Vec<(u64, u64)>) -> LatencyRow {
    let count = pairs.len();
    let mean = |sum: f64| sum / count as f64;
    let figure = |measured: f64, model: f64| Figure { measured, model };
    let means = figure(
        mean(pairs.iter().map(|pair| pair.0 as f64).sum()),
        mean(pairs.iter().map(|pair| pair.1 as f64).sum()),
    );
    let at = |share: usize| (count * share / 100).min(count - 1);
    pairs.sort_unstable_by_key(|pair| pair.0);
    let measured = [50, 99].map(|share| pairs[at(share)].0 as f64);
    pairs.sort_unstable_by_key(|pair| pair.1);
    let model = [50, 99].map(|share| pairs[at(share)].1 as f64);
    let [p50, p99] = [0, 1].map(|n| figure(measured[n], model[n]));
    LatencyRow { requests: count as u64, mean: means, p50, p99 }
}

fn by_size(served: &[Served], model: &[u64]) -> Vec<(Kind, u64, LatencyRow)> {
    let mut all: BTreeMap<(Kind, u64), Vec<(u64, u64)>> = BTreeMap::new();
    for (one, &model) in served.iter().zip(model) {
        all.entry((one.kind, one.bytes)).or_default().push((one.latency(), model));
    }
    let mut rows: Vec<_> =
        all.into_iter().map(|((kind, bytes), pairs)| (kind, bytes, row(pairs))).collect();
    rows.sort_by_key(|&(kind, bytes, row)| (Reverse(row.requests), kind, bytes));
    rows.truncate(2 * SIZES);
    rows.sort_by_key(|&(kind, bytes, _)| (kind, bytes));
    rows
}

fn by_depth(served: &[Served], model: &[u64], depths: &[u64]) -> Vec<(u64, LatencyRow)> {
    let mut all: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for ((one, &model), depth) in served.iter().zip(model).zip(depths) {
        all.entry(depth.next_power_of_two()).or_default().push((one.latency(), model));
    }
    all.into_iter().map(|(depth, pairs)| (depth, row(pairs))).collect()
}

#[cfg(test)]
mod tests;
