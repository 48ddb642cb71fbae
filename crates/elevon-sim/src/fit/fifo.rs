//! The first part of a fit: servers behind one FIFO.
//!
//! It starts, with several variants, from the requests that met the fewest others or from
//! [`samples`], tries every number of servers, and then changes one figure at a time, as long as
//! the error decreases.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::model::{ByKind, Cost, Kind, Model, Served};
use super::{LOOKED_AT, WINDOW, error, windows};

/// Minimum number of requests of a kind that found a free server; with fewer, the samples of all
/// requests are used.
const FEWEST: usize = 30;
/// Maximum number of servers that is tried.
const MOST_SERVERS: u64 = 1024;
/// A smaller number of servers is chosen if its error is at most this factor above the smallest.
const NO_WORSE: f64 = 1.01;

/// Servers and costs, with the requests that they are compared with.
#[derive(Clone, Copy)]
struct Fifo<'a> {
    served: &'a [Served],
    windows: &'a [(usize, usize)],
    servers: u64,
    costs: ByKind<Cost>,
}

/// A figure of a [`Fifo`] that can be changed.
#[derive(Clone, Copy)]
enum Figure {
    Latency(Kind),
    PerByte(Kind),
    MoreServers,
    FewerServers,
}

impl Fifo<'_> {
    fn latencies(&self) -> Vec<u64> {
        let mut all = Vec::with_capacity(self.windows.len() * WINDOW);
        let (mut under_way, mut seen): (Vec<Served>, usize) = (Vec::new(), 0);
        for &(from, until) in self.windows {
            let now = self.served[from].issued;
            under_way.extend(&self.served[seen..from]);
            under_way.retain(|one| one.completed > now);
            under_way.sort_unstable_by_key(|one| one.completed);
            seen = from;
            let busy = under_way.iter().rev().take(self.servers as usize);
            let mut free: BinaryHeap<Reverse<u64>> = busy.map(|one| Reverse(one.completed)).collect();
            free.extend((free.len()..self.servers as usize).map(|_| Reverse(0)));
            for one in &self.served[from..until] {
                let Reverse(at) = free.pop().unwrap_or(Reverse(0));
                let cost = self.costs[one.kind as usize].of(one.bytes) as u64;
                let end = at.max(one.issued).saturating_add(cost);
                free.push(Reverse(end));
                all.push(end - one.issued);
            }
        }
        all
    }

    fn error(&self) -> f64 {
        error(self.served, self.windows, &self.latencies())
    }

    /// Returns the error of each number of servers that is tried: in steps of one at first, then of
    /// a sixteenth.
    fn by_servers(&self, most: u64, costs: impl Fn(u64) -> ByKind<Cost>) -> Vec<(u64, f64)> {
        let mut tried = Vec::new();
        let mut servers = 1;
        while servers <= most {
            tried.push((servers, Fifo { servers, costs: costs(servers), ..*self }.error()));
            servers += 1.max(servers / 16);
        }
        tried
    }

    /// Tries other numbers of servers with costs in proportion. They serve nearly as much, and no
    /// change of a single figure leads from one to the other.
    fn along_the_ridge(self, most: u64) -> Self {
        let scaled = |servers: u64| {
            let by = servers as f64 / self.servers as f64;
            self.costs.map(|cost| Cost { latency: cost.latency * by, per_byte: cost.per_byte * by })
        };
        let servers = best_servers(&self.by_servers(most.min(2 * self.servers), scaled));
        if servers == self.servers {
            return self;
        }
        let other = Self { servers, costs: scaled(servers), ..self }.refine(most);
        if other.error() < self.error() { other } else { self }
    }

    /// Returns the figures that can be changed: those of kinds that occur.
    fn figures(&self) -> Vec<Figure> {
        let occurs = |kind: &Kind| self.served.iter().any(|one| one.kind == *kind);
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(occurs).collect();
        let with_data = kinds.iter().copied().filter(|kind| kind.has_data());
        let costs = kinds.iter().copied().map(Figure::Latency).chain(with_data.map(Figure::PerByte));
        costs.chain([Figure::MoreServers, Figure::FewerServers]).collect()
    }

    /// Changes one figure at a time by smaller and smaller steps, as long as the error decreases.
    fn refine(mut self, most: u64) -> Self {
        let mut best = self.error();
        let figures = self.figures();
        for step in [0.16, 0.08, 0.04, 0.02, 0.01, 0.005] {
            for _ in 0..4 {
                let before = best;
                for &figure in &figures {
                    for factor in [1.0 + step, 1.0 / (1.0 + step)] {
                        let mut other = self;
                        match figure {
                            Figure::Latency(kind) => other.costs[kind as usize].latency *= factor,
                            Figure::PerByte(kind) => other.costs[kind as usize].per_byte *= factor,
                            Figure::MoreServers => other.servers = (self.servers + 1).min(most),
                            Figure::FewerServers => other.servers = (self.servers - 1).max(1),
                        }
                        let error = other.error();
                        if error < best * 0.9999 {
                            (self, best) = (other, error);
                        }
                    }
                }
                if best >= before {
                    break;
                }
            }
        }
        self
    }
}

/// Fits the model. Returns it, and the error by number of servers.
pub(super) fn fit(served: &[Served], depths: &[u64], flush_waits: bool) -> (Model, Vec<(u64, f64)>) {
    let most = depths.iter().copied().max().unwrap_or(1).min(MOST_SERVERS);
    let taken = |one: &Served| flush_waits || one.kind != Kind::Flush;
    let flush = median(served.iter().filter(|one| !taken(one)).map(Served::latency));
    let (served, depths): (Vec<Served>, Vec<u64>) = served.iter().zip(depths).filter(|(one, _)| taken(one)).unzip();
    let (served, depths, windows) = (&served[..], &depths[..], &windows(&served, LOOKED_AT / 2)[..]);
    let mut best: Option<(f64, Fifo<'_>)> = None;
    for start in STARTS {
        let first = Fifo { served, windows, servers: 1, costs: first_costs(served, depths, start) };
        // With these costs, and with those that each number of servers shows.
        let plain = Fifo { servers: best_servers(&first.by_servers(most, |_| first.costs)), ..first };
        let free = |servers| {
            let model = Model { flush_waits, ..Model::of(servers, first.costs) };
            costs_of(&samples(served, &model), first.costs)
        };
        let servers = best_servers(&first.by_servers(most, free));
        let anchored = Fifo { servers, costs: free(servers), ..first };
        let fifo = if anchored.error() < plain.error() { anchored } else { plain };
        let fifo = fifo.refine(most).along_the_ridge(most);
        let error = fifo.error();
        if best.is_none_or(|(least, _)| error < least) {
            best = Some((error, fifo));
        }
    }
    let fifo = best.map(|(_, fifo)| fifo).expect("there is a start");
    let tried = fifo.by_servers(most, |_| fifo.costs);
    let mut costs = fifo.costs;
    if let Some(flush) = flush {
        costs[Kind::Flush as usize] = Cost { latency: flush as f64, per_byte: 0.0 };
    }
    (Model { flush_waits, ..Model::of(best_servers(&tried).min(fifo.servers), costs) }, tried)
}

/// Returns the median, the upper one of two; `None` if there is none.
fn median(all: impl Iterator<Item = u64>) -> Option<u64> {
    let mut all: Vec<u64> = all.collect();
    let middle = all.len() / 2;
    (!all.is_empty()).then(|| *all.select_nth_unstable(middle).1)
}

/// Returns true if flushes take longer where reads and writes do, because they wait behind them.
pub(super) fn flush_waits(served: &[Served], depths: &[u64]) -> bool {
    let latency = |is_flush: bool, deep: bool| {
        let own = served.iter().zip(depths).filter(|(one, _)| (one.kind == Kind::Flush) == is_flush);
        let mut own: Vec<(u64, u64)> = own.map(|(one, &depth)| (depth, one.latency())).collect();
        own.sort_unstable();
        // The third that met the most others, and the third that met the fewest.
        let part = own.len() / 3;
        let own = if deep { &mut own[2 * part..] } else { &mut own[..part] };
        own.sort_unstable_by_key(|&(_, latency)| latency);
        own.get(own.len() / 2).map_or(0.0, |&(_, latency)| latency as f64)
    };
    let growth = |is_flush: bool| latency(is_flush, true) - latency(is_flush, false);
    growth(true) >= growth(false) / 2.0
}

/// Returns the smallest number of servers whose error is about as small as the best.
fn best_servers(tried: &[(u64, f64)]) -> u64 {
    let best = tried.iter().map(|&(_, error)| error).fold(f64::INFINITY, f64::min);
    tried.iter().find(|&&(_, error)| error <= best * NO_WORSE).map_or(1, |&(servers, _)| servers)
}

/// Returns bytes and service time (with the base) of requests, by kind. Each request gets the
/// server that was left first, at the time when the request before it on that server completed.
/// Only requests that found a free server are used, unless a kind has too few of them.
pub(super) fn samples(served: &[Served], model: &Model) -> ByKind<Vec<(u64, f64)>> {
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
        let is_enough = samples.iter().filter(|sample| sample.2).count() >= FEWEST;
        let taken = samples.into_iter().filter(|sample| sample.2 || !is_enough);
        taken.map(|(bytes, time, _)| (bytes, time)).collect()
    })
}

/// Returns the cost of each kind: the line through the medians of the samples of each size.
pub(super) fn costs_of(samples: &ByKind<Vec<(u64, f64)>>, costs: ByKind<Cost>) -> ByKind<Cost> {
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

/// A starting point of a fit: which latency of a size is used, and how much more weight a size has
/// that met fewer other requests in the device.
#[derive(Clone, Copy)]
struct Start {
    /// Percentage of the latencies that are smaller.
    quantile: usize,
    /// Power of the depth by which the weight of a size decreases.
    power: u32,
}

/// If a size only occurs with a deep queue, only its fastest requests show its cost, so some
/// variants use these.
const STARTS: [Start; 4] = [
    Start { quantile: 50, power: 0 },
    Start { quantile: 50, power: 4 },
    Start { quantile: 10, power: 0 },
    Start { quantile: 10, power: 4 },
];

/// A size: bytes, latency and weight.
pub(super) type Point = (f64, f64, f64);

/// Returns the costs of requests that met an idle device, or for each size of those that met the
/// fewest others.
fn first_costs(served: &[Served], depths: &[u64], start: Start) -> ByKind<Cost> {
    let mut sizes: ByKind<BTreeMap<u64, Vec<(u64, u64)>>> = Default::default();
    for (one, &depth) in served.iter().zip(depths) {
        sizes[one.kind as usize].entry(one.bytes).or_default().push((depth, one.latency()));
    }
    let points = sizes.map(|sizes| sizes.into_iter().map(|(bytes, all)| point(bytes, all, start)).collect::<Vec<_>>());
    let lines = points.each_ref().map(|points| line(points));
    let cost = |kind: Kind| {
        let slope = || lines[kind.other() as usize].map_or(0.0, |line| line.per_byte);
        lines[kind as usize].or_else(|| {
            let &(bytes, latency, _) = points[kind as usize].first()?;
            let per_byte = if bytes > 0.0 { slope().min(latency / bytes) } else { 0.0 };
            Some(Cost { latency: latency - per_byte * bytes, per_byte })
        })
    };
    let costs = Kind::ALL.map(cost);
    let either = |kind: Kind| costs[kind as usize].or(costs[kind.other() as usize]);
    let any = either(Kind::Read).unwrap_or_default();
    Kind::ALL.map(|kind| either(kind).unwrap_or(any))
}

/// Returns the latency and weight of a size from its depths and latencies.
fn point(bytes: u64, mut all: Vec<(u64, u64)>, start: Start) -> Point {
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
}

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
