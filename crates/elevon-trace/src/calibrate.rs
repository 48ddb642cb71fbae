//! What a trace says of its device: a model of servers behind one FIFO, fitted to the requests that
//! were issued and completed.
//!
//! A request waits until a server is free, and holds it for a time that is linear in its size, of
//! reads and of writes apart. The fit takes the requests at the times at which the kernel issued
//! them, so that nothing above the driver counts. It begins, in several ways, with the requests
//! that met the fewest others, tries every number of servers, and then moves one figure at a time,
//! as long as the mean absolute difference between the model's latencies and the trace's gets
//! smaller.
//!
//! Cost: O(requests × log servers) for each of some hundred trials, over at most [`MOST`] requests.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::analysis::{Group, InspectError, ProcessStats, RequestRecord, RequestSink, analyse};
use crate::event::Device;
use crate::open::OpenError;
use crate::reader::Reader;

/// Requests that a fit looks at; of more, the first.
pub const MOST: usize = 100_000;
/// Fewest requests that are worth a fit.
pub const FEWEST: usize = 20;
/// Most servers that are tried.
const MOST_SERVERS: u64 = 1024;
/// A smaller number of servers is taken if it is no worse than the best by this part.
const NO_WORSE: f64 = 1.01;
/// Requests that the model serves before it is set to what the trace shows.
const WINDOW: usize = 256;
/// Sizes that the report lists for each direction.
const SIZES: usize = 12;

/// A request, in nanoseconds of the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// When it was issued to the driver.
    pub issued: u64,
    /// When it completed.
    pub completed: u64,
    /// Length.
    pub bytes: u64,
    /// It is a write rather than a read.
    pub is_write: bool,
}

impl Served {
    fn latency(&self) -> u64 {
        self.completed - self.issued
    }
}

/// What a request of a direction costs: a time, and nanoseconds for each byte.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Nanoseconds for every request.
    pub latency: f64,
    /// Nanoseconds for each byte of it.
    pub per_byte: f64,
}

impl Cost {
    fn of(&self, bytes: u64) -> f64 {
        self.latency + self.per_byte * bytes as f64
    }

    /// Bytes a second of a server; 0 if size costs nothing.
    pub fn bandwidth(&self) -> u64 {
        if self.per_byte > 0.0 { (1e9 / self.per_byte) as u64 } else { 0 }
    }
}

/// The fitted device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Servers.
    pub servers: u64,
    /// Reads and writes; a direction without requests has the other's.
    pub costs: [Cost; 2],
}

/// A figure of the trace and of the model: nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figure {
    /// In the trace.
    pub measured: f64,
    /// Of the model.
    pub model: f64,
}

impl Figure {
    /// How far the model is off, in percent of what was measured.
    pub fn error_percent(&self) -> f64 {
        if self.measured > 0.0 { (self.model / self.measured - 1.0) * 100.0 } else { 0.0 }
    }
}

/// Requests that have something in common.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Row {
    /// How many.
    pub requests: u64,
    /// Mean latency, from issue to completion.
    pub mean: Figure,
    /// Median.
    pub p50: Figure,
    /// 99th percentile.
    pub p99: Figure,
}

/// What a trace says of its device.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The device.
    pub device: Device,
    /// The model.
    pub model: Model,
    /// Requests that it was fitted to, and how many the trace has.
    pub requests: (u64, u64),
    /// Mean absolute difference of latency, in percent of the mean latency.
    pub error_percent: f64,
    /// The same for other numbers of servers with these costs, in their order, as a share.
    pub by_servers: Vec<(u64, f64)>,
    /// The most requests that were in the device at once.
    pub depth: u64,
    /// By direction (read, write) and bytes; the most frequent sizes.
    pub by_size: Vec<(bool, u64, Row)>,
    /// By requests in the device when one was issued, itself included: 1, 2, up to 4, 8, 16, ...
    pub by_depth: Vec<(u64, Row)>,
    /// Median time of a flush, if there is any.
    pub flush: Option<u64>,
    /// Sector after the last that was used.
    pub end_sector: u64,
    /// The largest request in bytes if bios were split, which tells of a limit.
    pub split_at: Option<u64>,
}

/// Why a trace says nothing of its device.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// It cannot be read, or no device can be chosen.
    #[error(transparent)]
    Trace(#[from] InspectError),
    /// Too few requests to say anything.
    #[error(
        "device {device}: {found} reads and writes with issue and completion are too few to fit a \
         device to; it takes {FEWEST}"
    )]
    TooFew {
        /// The device.
        device: Device,
        /// Requests that are there.
        found: usize,
    },
}

/// Requests as they complete.
#[derive(Default)]
struct Requests {
    served: Vec<Served>,
    flushes: Vec<u64>,
    end_sector: u64,
    largest: u64,
}

impl RequestSink for Requests {
    fn requests(&mut self, requests: &[RequestRecord], _processes: &[ProcessStats]) {
        for request in requests {
            let (Some(issued), Some(completed)) = (request.issued, request.completed) else { continue };
            if completed < issued || request.error.is_some_and(|error| error != 0) {
                continue;
            }
            match request.group {
                Group::Read | Group::Write if request.bytes > 0 => {
                    self.end_sector = self.end_sector.max(request.sector.saturating_add(request.bytes.div_ceil(512)));
                    self.largest = self.largest.max(request.bytes);
                    let is_write = request.group == Group::Write;
                    self.served.push(Served { issued, completed, bytes: request.bytes, is_write });
                }
                Group::Flush => self.flushes.push(completed - issued),
                _ => {}
            }
        }
    }

    fn restart(&mut self) {
        *self = Self::default();
    }
}

/// Fits a device to a trace; without a device, to the one that has nearly all events.
///
/// `open` and `progress` are as of [`crate::analysis::inspect`].
///
/// # Errors
/// A trace that cannot be read, several devices and none chosen, too few requests.
pub fn calibrate(
    open: &mut dyn FnMut() -> Result<Reader, OpenError>,
    device: Option<Device>,
    progress: &mut dyn FnMut(u64),
) -> Result<Calibration, CalibrateError> {
    let mut requests = Requests::default();
    let (analysis, reader) = analyse(open, device, false, Some(&mut requests), progress)?;
    let found = analysis.finish(&reader);
    let Requests { mut served, mut flushes, end_sector, largest } = requests;
    if served.len() < FEWEST {
        return Err(CalibrateError::TooFew { device: found.device, found: served.len() });
    }
    served.sort_by_key(|one| (one.issued, one.completed));
    let all = served.len() as u64;
    served.truncate(MOST);
    let depths = depths(&served);
    let depth = depths.iter().copied().max().unwrap_or(1);
    let (model, by_servers) = fit(&served, &depths);
    let ends = model.latencies(&served);
    flushes.sort_unstable();
    Ok(Calibration {
        device: found.device,
        model,
        requests: (served.len() as u64, all),
        error_percent: error(&served, &ends) * 100.0,
        by_servers,
        depth,
        by_size: by_size(&served, &ends),
        by_depth: by_depth(&served, &ends, &depths),
        flush: flushes.get(flushes.len() / 2).copied(),
        end_sector,
        split_at: (found.counts.splits > 0).then_some(largest),
    })
}

/// Requests in the device as each is issued, itself included.
fn depths(served: &[Served]) -> Vec<u64> {
    let mut ends = BinaryHeap::new();
    let depth = |one: &Served| {
        while ends.peek().is_some_and(|&Reverse(end)| end <= one.issued) {
            ends.pop();
        }
        ends.push(Reverse(one.completed));
        ends.len() as u64
    };
    served.iter().map(depth).collect()
}

impl Model {
    /// What each request takes from issue to completion, in nanoseconds. Each [`WINDOW`] begins
    /// with the requests that the trace had in the device then, so that a small error of the costs
    /// does not add up.
    fn latencies(&self, served: &[Served]) -> Vec<u64> {
        let mut all = Vec::with_capacity(served.len());
        let mut under_way: Vec<u64> = Vec::new();
        for window in served.chunks(WINDOW) {
            let now = window[0].issued;
            under_way.retain(|&end| end > now);
            under_way.sort_unstable();
            let busy = under_way.iter().rev().take(self.servers as usize);
            let mut free: BinaryHeap<Reverse<u64>> = busy.map(|&end| Reverse(end)).collect();
            free.extend((free.len()..self.servers as usize).map(|_| Reverse(0)));
            for one in window {
                let Reverse(at) = free.pop().unwrap_or(Reverse(0));
                let cost = self.costs[usize::from(one.is_write)].of(one.bytes) as u64;
                let end = at.max(one.issued).saturating_add(cost);
                free.push(Reverse(end));
                all.push(end - one.issued);
            }
            under_way.extend(window.iter().map(|one| one.completed));
        }
        all
    }

    fn error(&self, served: &[Served]) -> f64 {
        error(served, &self.latencies(served))
    }
}

/// Mean absolute difference of latencies over their mean.
fn error(served: &[Served], model: &[u64]) -> f64 {
    let pairs = || served.iter().map(Served::latency).zip(model.iter().copied());
    let difference: f64 = pairs().map(|(own, model)| own.abs_diff(model) as f64).sum();
    let sum: f64 = pairs().map(|(own, _)| own as f64).sum();
    difference / sum.max(1.0)
}

/// The model, and the error by number of servers.
fn fit(served: &[Served], depths: &[u64]) -> (Model, Vec<(u64, f64)>) {
    let most = depths.iter().copied().max().unwrap_or(1).min(MOST_SERVERS);
    let mut best: Option<(f64, Model)> = None;
    for start in STARTS {
        let costs = first_costs(served, depths, start);
        let servers = best_servers(&by_servers(costs, served, most));
        let model = refine(Model { servers, costs }, served, most);
        let error = model.error(served);
        if best.is_none_or(|(least, _)| error < least) {
            best = Some((error, model));
        }
    }
    let model = best.map_or(Model { servers: 1, costs: [Cost::default(); 2] }, |(_, model)| model);
    let tried = by_servers(model.costs, served, most);
    (Model { servers: best_servers(&tried).min(model.servers), ..model }, tried)
}

/// The error of each number of servers that is tried: one by one at first, then by a sixteenth.
fn by_servers(costs: [Cost; 2], served: &[Served], most: u64) -> Vec<(u64, f64)> {
    let mut tried = Vec::new();
    let mut servers = 1;
    while servers <= most {
        tried.push((servers, Model { servers, costs }.error(served)));
        servers += 1.max(servers / 16);
    }
    tried
}

/// The smallest number of servers that is no worse than the best.
fn best_servers(tried: &[(u64, f64)]) -> u64 {
    let best = tried.iter().map(|&(_, error)| error).fold(f64::INFINITY, f64::min);
    tried.iter().find(|&&(_, error)| error <= best * NO_WORSE).map_or(1, |&(servers, _)| servers)
}

/// Where a fit begins: which latency of a size is taken, and how much more a size counts that met
/// fewer others in the device.
#[derive(Clone, Copy)]
struct Start {
    /// Percent of the latencies that are smaller.
    quantile: usize,
    /// Power of the depth by which a size counts less.
    power: u32,
}

/// A size that was only seen in a deep queue is known by its quickest requests, or not at all.
const STARTS: [Start; 4] = [
    Start { quantile: 50, power: 0 },
    Start { quantile: 50, power: 4 },
    Start { quantile: 10, power: 0 },
    Start { quantile: 10, power: 4 },
];

/// Costs as requests show them that met an idle device, or the emptiest that each size met.
fn first_costs(served: &[Served], depths: &[u64], start: Start) -> [Cost; 2] {
    let mut sizes: [BTreeMap<u64, Vec<(u64, u64)>>; 2] = Default::default();
    for (one, &depth) in served.iter().zip(depths) {
        sizes[usize::from(one.is_write)].entry(one.bytes).or_default().push((depth, one.latency()));
    }
    let points = sizes.map(|sizes| {
        let points = sizes.into_iter().map(|(bytes, mut all)| {
            all.sort_unstable();
            let count = all.len() as f64;
            // A quarter of them, those that met the fewest others.
            let alone = all.partition_point(|&(depth, _)| depth <= 1);
            all.truncate(alone.max(all.len().div_ceil(4)));
            let depth = all[all.len() / 2].0 as f64;
            let mut latencies: Vec<u64> = all.into_iter().map(|(_, latency)| latency).collect();
            latencies.sort_unstable();
            let latency = latencies[latencies.len() * start.quantile / 100];
            (bytes as f64, latency as f64, count / (0..start.power).fold(1.0, |power, _| power * depth))
        });
        points.collect::<Vec<_>>()
    });
    let lines = points.each_ref().map(|points| line(points));
    let costs = [0, 1].map(|own| {
        let slope = || lines[1 - own].map_or(0.0, |line| line.per_byte);
        lines[own].or_else(|| {
            let &(bytes, latency, _) = points[own].first()?;
            let per_byte = slope().min(latency / bytes);
            Some(Cost { latency: latency - per_byte * bytes, per_byte })
        })
    });
    let either = costs[0].or(costs[1]).unwrap_or_default();
    costs.map(|cost| cost.unwrap_or(either))
}

/// The line through points of bytes, latency and weight; `None` if they are of one size.
fn line(points: &[(f64, f64, f64)]) -> Option<Cost> {
    if points.len() < 2 {
        return None;
    }
    let weight: f64 = points.iter().map(|point| point.2).sum();
    let mean = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(|p| of(p) * p.2).sum::<f64>() / weight;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let covariance: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y) * p.2).sum();
    let variance: f64 = points.iter().map(|p| (p.0 - x) * (p.0 - x) * p.2).sum();
    let per_byte = (covariance / variance).max(0.0).min(y / x);
    Some(Cost { latency: y - per_byte * x, per_byte })
}

/// Moves one figure at a time by ever smaller steps, as long as the error gets smaller.
fn refine(mut model: Model, served: &[Served], most: u64) -> Model {
    let mut best = model.error(served);
    for step in [0.16, 0.08, 0.04, 0.02, 0.01, 0.005] {
        for _ in 0..4 {
            let before = best;
            for figure in 0..6 {
                for factor in [1.0 + step, 1.0 / (1.0 + step)] {
                    let mut other = model;
                    match figure {
                        0 | 1 => other.costs[figure].latency *= factor,
                        2 | 3 => other.costs[figure - 2].per_byte *= factor,
                        4 => other.servers = (model.servers + 1).min(most),
                        _ => other.servers = (model.servers - 1).max(1),
                    }
                    let error = other.error(served);
                    if error < best * 0.9999 {
                        (model, best) = (other, error);
                    }
                }
            }
            if best >= before {
                break;
            }
        }
    }
    model
}

fn row(mut pairs: Vec<(u64, u64)>) -> Row {
    let count = pairs.len();
    let mean = |sum: f64| sum / count as f64;
    let figure = |measured: f64, model: f64| Figure { measured, model };
    let means =
        figure(mean(pairs.iter().map(|pair| pair.0 as f64).sum()), mean(pairs.iter().map(|pair| pair.1 as f64).sum()));
    let at = |share: usize| (count * share / 100).min(count - 1);
    pairs.sort_unstable_by_key(|pair| pair.0);
    let measured = [50, 99].map(|share| pairs[at(share)].0 as f64);
    pairs.sort_unstable_by_key(|pair| pair.1);
    let model = [50, 99].map(|share| pairs[at(share)].1 as f64);
    let [p50, p99] = [0, 1].map(|n| figure(measured[n], model[n]));
    Row { requests: count as u64, mean: means, p50, p99 }
}

fn by_size(served: &[Served], model: &[u64]) -> Vec<(bool, u64, Row)> {
    let mut all: BTreeMap<(bool, u64), Vec<(u64, u64)>> = BTreeMap::new();
    for (one, &model) in served.iter().zip(model) {
        all.entry((one.is_write, one.bytes)).or_default().push((one.latency(), model));
    }
    let mut rows: Vec<_> = all.into_iter().map(|((is_write, bytes), pairs)| (is_write, bytes, row(pairs))).collect();
    rows.sort_by_key(|&(is_write, bytes, row)| (Reverse(row.requests), is_write, bytes));
    rows.truncate(2 * SIZES);
    rows.sort_by_key(|&(is_write, bytes, _)| (is_write, bytes));
    rows
}

fn by_depth(served: &[Served], model: &[u64], depths: &[u64]) -> Vec<(u64, Row)> {
    let mut all: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for ((one, &model), depth) in served.iter().zip(model).zip(depths) {
        all.entry(depth.next_power_of_two()).or_default().push((one.latency(), model));
    }
    all.into_iter().map(|(depth, pairs)| (depth, row(pairs))).collect()
}

#[cfg(test)]
mod tests;
