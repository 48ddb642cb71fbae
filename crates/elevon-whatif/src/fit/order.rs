//! Which servers explain a trace: what the times of issue and completion say of a number of
//! servers behind one FIFO.
//!
//! With a number of servers every request begins when the one before it in the queue has begun and
//! a server is free, so the times of the trace themselves say for how long it held a server. If the
//! number is right, these times depend on the kind and the size alone. If it is too small, requests
//! complete before they began: they overtook more others than servers allow. If it is too large,
//! the times contain waiting, so they vary with the depth of the queue. The likelihood of the times
//! joins all that: the order of completions, times that are equal for all sizes, the rare moments
//! of low depth, and the starts and ends of bursts. A time of the trace is a sum of a known time
//! and a service time, so the likelihoods of all numbers of servers can be compared.
//!
//! A queue that was always full hides time that occupies no server (`base`), as only requests that
//! did not wait show it. So each number of servers is tried with several such times.
//!
//! Cost: O(requests × log servers) for each trial, over at most [`TAKEN`] requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::depths;
use super::model::{ByKind, Cost, Kind, Model, Served};
use super::samples::{Samples, costs_of};

/// Maximum number of requests that a trial uses, and number of stretches that they are taken from.
const TAKEN: usize = 20_000;
const STRETCHES: usize = 4;
/// Maximum number of servers that is tried.
const MAX_SERVERS: u64 = 1024;
/// The density of service times is a mixture of so many histograms at most. The bins of the first
/// are as wide as the median latency, those of each other one a quarter as wide, down to a part of
/// the time between two completions. The widths are the same for all numbers of servers, so that
/// their likelihoods can be compared.
const LEVELS: usize = 8;
const FINEST: f64 = 1.0 / 16.0;
/// How often the shares of the histograms in the mixture are improved.
const ROUNDS: usize = 6;
/// Maximum number of bins of a histogram.
const BINS: usize = 4096;
/// Share of the requests whose times say nothing.
const STRAY: f64 = 0.001;
/// Smallest time that is told from others, in nanoseconds: traces of text have microseconds.
const TICK: f64 = 1000.0;
/// By how much less the logarithm of a likelihood may be than the largest for an explanation to be
/// kept.
const KEPT: f64 = 9.0;
/// A number of servers beside the best one, by this part of it, explains a trace nearly if a
/// request's time is less likely by no more than this, as a logarithm.
const BESIDE: u64 = 12;
const BLURRED: f64 = 0.05;
/// By how much more likely a request's time must be than if none waited, as a logarithm, for a
/// device to be servers beyond doubt.
const QUEUE: f64 = 0.3;
/// Of explanations that are less likely by no more than this, as a logarithm, the one with the
/// fewest servers is the best.
const AS_GOOD: f64 = 2.0;
/// Times that occupy no server, as shares of the shortest latency of the trace.
const BASES: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97];
/// The request whose latency is taken for the shortest: so many in a thousand are shorter.
const SHORTEST_PERMILLE: usize = 10;

/// Servers behind a FIFO that may have served a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    /// Servers.
    pub(super) servers: u64,
    /// Nanoseconds that occupy none.
    pub(super) base: f64,
    /// Whether a flush waits for a server.
    pub(super) flush_waits: bool,
}

/// A shape and how well it explains a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Explained {
    pub(super) shape: Shape,
    /// Logarithm of the likelihood of the times.
    pub(super) score: f64,
    /// Mean latency of the requests of the trace if each were alone in the device.
    pub(super) alone: f64,
    /// Mean time for which they hold a server.
    pub(super) held: f64,
    pub(super) costs: ByKind<Cost>,
}

impl Explained {
    /// Returns about how many requests a nanosecond are done if so many are in the device.
    pub(super) fn rate(&self, depth: u64) -> f64 {
        let Shape { servers, .. } = self.shape;
        f64::min(depth as f64 / self.alone.max(1.0), servers as f64 / self.held.max(1.0))
    }
}

/// All explanations of a trace that are about as likely as the best.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// The best.
    pub(super) best: Explained,
    /// All that are kept, the best among them.
    pub(super) kept: Vec<Explained>,
    /// The fewest and the most servers that explain it, or nearly so: the times that a machine
    /// notes are not quite those of its device.
    pub(super) servers: [u64; 2],
    /// For each number of servers that was tried, by how much the logarithm of its likelihood is
    /// less than the best, per request.
    pub(super) by_servers: Vec<(u64, f64)>,
    /// True if the requests are served in the order in which they were issued, as far as the trace
    /// shows.
    pub(super) is_ordered: bool,
    /// True if that is beyond doubt: requests wait for servers, and each number of them that the
    /// trace allows makes its times far more likely than if none waited.
    pub(super) is_queue: bool,
    /// The largest number of servers that was tried: as many as requests were in the device.
    pub(super) most: u64,
}

/// Returns what explains requests, in order of issue.
pub(super) fn evidence(served: &[Served]) -> Evidence {
    let has_flushes = served.iter().any(|one| one.kind == Kind::Flush);
    let flush_waits = if has_flushes { &[true, false][..] } else { &[true] };
    let most = depths(served, true).into_iter().max().unwrap_or(1).min(MAX_SERVERS);
    let stretches = stretches(served);
    let units = units(served);
    let mut all: Vec<Explained> = Vec::new();
    let mut by_servers: Vec<(u64, f64)> = Vec::new();
    let longest = shortest(served);
    let try_all = |servers: u64, all: &mut Vec<Explained>| {
        let from = all.len();
        for &flush_waits in flush_waits {
            for base in BASES {
                all.push(explain(
                    &stretches,
                    &units,
                    Shape { servers, base: base * longest, flush_waits },
                ));
            }
        }
        all[from..].iter().map(|one| one.score).fold(f64::NEG_INFINITY, f64::max)
    };
    for servers in numbers(most) {
        let best = try_all(servers, &mut all);
        by_servers.push((servers, best));
    }
    // Between the numbers that were tried: those beside what is likely.
    let best = by_servers.iter().map(|one| one.1).fold(f64::NEG_INFINITY, f64::max);
    for at in 1..by_servers.len() {
        let [below, above] = [by_servers[at - 1], by_servers[at]];
        if f64::max(below.1, above.1) >= best - MAX_LIKELIHOOD_GAP {
            for servers in below.0 + 1..above.0 {
                let score = try_all(servers, &mut all);
                by_servers.push((servers, score));
            }
        }
    }
    by_servers.sort_by_key(|one| one.0);
    let best = all.iter().map(|one| one.score).fold(f64::NEG_INFINITY, f64::max);
    let nearest =
        all.iter().max_by(|a, b| a.score.total_cmp(&b.score)).map_or(1, |one| one.shape.servers);
    let is_near = |one: &&Explained| {
        let is_beside = one.shape.servers.abs_diff(nearest) <= 1.max(nearest / BESIDE);
        let worse = best - one.score;
        worse <= KEPT || is_beside && worse <= BLURRED * served.len() as f64
    };
    let near = || all.iter().filter(is_near).map(|one| one.shape.servers);
    let servers = [near().min().unwrap_or(1), near().max().unwrap_or(1)];
    all.retain(|one| one.score >= best - KEPT);
    let simple = |one: &&Explained| (one.shape.servers, one.shape.base as u64);
    let best = *all
        .iter()
        .filter(|one| one.score >= best - AS_GOOD)
        .min_by_key(simple)
        .expect("one is tried");
    let is_ordered = is_ordered(&stretches, best.shape);
    let none_waits = by_servers.last().map_or(best.score, |last| last.1);
    let is_queue = is_ordered && best.score - none_waits >= QUEUE * served.len() as f64;
    let per_request = |score: f64| (best.score - score) / served.len() as f64;
    let by_servers =
        by_servers.into_iter().map(|(servers, score)| (servers, per_request(score))).collect();
    Evidence { best, is_ordered, is_queue, kept: all, servers, by_servers, most }
}

/// A number of servers whose neighbour is less likely by more than this, as a logarithm, is not
/// looked at closely.
const MAX_LIKELIHOOD_GAP: f64 = 200.0;

/// Yields the numbers of servers that are tried: all small ones, then in steps of an eighth.
pub(super) fn numbers(most: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(1), |&last| Some(last + 1.max(last / 8)))
        .take_while(move |&servers| servers < most)
        .chain([most])
}

/// Returns the latency that all but a few requests have at least, except flushes: these may take no
/// time.
fn shortest(served: &[Served]) -> f64 {
    let mut all: Vec<u64> =
        served.iter().filter(|one| one.kind.has_data()).map(Served::latency).collect();
    let at = all.len() * SHORTEST_PERMILLE / 1000;
    if all.is_empty() { 0.0 } else { *all.select_nth_unstable(at).1 as f64 }
}

/// What the bins of a kind are made of, in nanoseconds.
#[derive(Clone, Copy)]
struct Unit {
    /// Median latency.
    latency: f64,
    /// The width of the narrowest bins.
    finest: f64,
}

fn units(served: &[Served]) -> ByKind<Unit> {
    let (mut until, mut busy) = (0, 0.0);
    for one in served {
        busy += one.completed.saturating_sub(one.issued.max(until)) as f64;
        until = until.max(one.completed);
    }
    let finest = (busy / served.len().max(1) as f64 * FINEST).max(TICK);
    Kind::ALL.map(|kind| {
        let mut all: Vec<u64> =
            served.iter().filter(|one| one.kind == kind).map(Served::latency).collect();
        let middle = all.len() / 2;
        let latency = if all.is_empty() {
            TICK
        } else {
            (*all.select_nth_unstable(middle).1 as f64).max(TICK)
        };
        Unit { latency, finest }
    })
}

/// A part of the trace: the requests in the device at its start, and those that were issued then.
struct Stretch<'a> {
    before: Vec<Served>,
    served: &'a [Served],
}

fn stretches(served: &[Served]) -> Vec<Stretch<'_>> {
    if served.len() <= TAKEN {
        return vec![Stretch { before: Vec::new(), served }];
    }
    let length = TAKEN / STRETCHES;
    let from = |n: usize| n * (served.len() - length) / (STRETCHES - 1);
    let stretch = |n: usize| {
        let from = from(n);
        let now = served[from].issued;
        let mut before: Vec<Served> =
            served[..from].iter().filter(|one| one.completed > now).copied().collect();
        before.sort_unstable_by_key(|one| one.completed);
        Stretch { before, served: &served[from..from + length] }
    };
    (0..STRETCHES).map(stretch).collect()
}

/// For how long a request held a server, and whether it waited for it.
#[derive(Clone, Copy)]
struct Held {
    /// Negative if it completed before it began.
    time: f64,
    waited: bool,
}

fn held(stretches: &[Stretch<'_>], shape: Shape) -> Vec<Held> {
    let mut all = Vec::with_capacity(stretches.iter().map(|stretch| stretch.served.len()).sum());
    let servers = shape.servers as usize;
    let waits = |one: &Served| shape.flush_waits || one.kind != Kind::Flush;
    for stretch in stretches {
        // The last completions, one for each server, the first of them on top.
        let before = stretch.before.iter().filter(|one| waits(one)).rev().take(servers);
        let mut last: BinaryHeap<Reverse<u64>> = before.map(|one| Reverse(one.completed)).collect();
        for one in stretch.served {
            if !waits(one) {
                all.push(Held { time: one.latency() as f64, waited: false });
                continue;
            }
            let issued = one.issued as f64 + shape.base;
            let is_full = last.len() == servers;
            let left = last.peek().filter(|_| is_full).map_or(0.0, |at| at.0 as f64);
            all.push(Held { time: one.completed as f64 - left.max(issued), waited: left > issued });
            if !is_full {
                last.push(Reverse(one.completed));
            } else if let Some(mut first) = last.peek_mut()
                && first.0 < one.completed
            {
                *first = Reverse(one.completed);
            }
        }
    }
    all
}

/// How often the requests of a kind have each service time.
struct Histogram {
    /// Bins of each level, one after the other, and their widths.
    bins: Vec<u32>,
    widths: [f64; LEVELS],
    /// Median latency of the kind.
    unit: f64,
    impossible: f64,
    all: f64,
}

impl Histogram {
    fn new(Unit { latency: unit, finest }: Unit) -> Self {
        let widths = std::array::from_fn(|level| (unit / f64::from(1 << (2 * level))).max(finest));
        Self { bins: vec![0; BINS * LEVELS], widths, unit, impossible: 0.0, all: 0.0 }
    }

    fn add(&mut self, time: f64) {
        self.all += 1.0;
        if time < 0.0 {
            self.impossible += 1.0;
            return;
        }
        for (level, width) in self.widths.into_iter().enumerate() {
            self.bins[level * BINS + bin(time, width)] += 1;
        }
    }

    /// Returns how likely each histogram makes a time that was added, per nanosecond. It does not
    /// count itself, so that a time that occurs once is as unlikely as it seems.
    fn densities(&self, time: f64) -> [f64; LEVELS] {
        std::array::from_fn(|level| {
            let width = self.widths[level];
            let (of, at) = (&self.bins[level * BINS..(level + 1) * BINS], bin(time, width));
            let near = f64::from(of[at - 1] + of[at + 1]) / 4.0 + f64::from(of[at]) / 2.0 - 0.5;
            near.max(0.0) / (self.all * width)
        })
    }

    /// Returns the logarithm of the likelihood of all times that were added. The shares of the
    /// histograms are those that make it largest (expectation maximisation).
    fn likelihood(&self, times: &[f64]) -> f64 {
        let possible = || times.iter().filter(|time| **time >= 0.0);
        let all: Vec<([f64; LEVELS], f64)> = possible()
            .map(|&time| {
                let far = 1.0 + time / self.unit;
                (self.densities(time), STRAY / (self.unit * far * far))
            })
            .collect();
        let mut shares = [1.0 / LEVELS as f64; LEVELS];
        let density = |shares: &[f64; LEVELS], (levels, stray): &([f64; LEVELS], f64)| {
            stray + levels.iter().zip(shares).map(|(density, share)| density * share).sum::<f64>()
        };
        for _ in 0..ROUNDS {
            let mut sums = [0.0; LEVELS];
            for one in &all {
                let whole = density(&shares, one);
                for (sum, (level, share)) in sums.iter_mut().zip(one.0.iter().zip(&shares)) {
                    *sum += level * share / whole;
                }
            }
            let sum: f64 = sums.iter().sum();
            if sum > 0.0 {
                shares = sums.map(|own| own / sum);
            }
        }
        let impossible = (self.impossible + 0.5) / (self.all + 1.0) / self.unit;
        let sum: f64 = all.iter().map(|one| libm::log(density(&shares, one))).sum();
        sum + self.impossible * libm::log(impossible)
    }
}

/// Returns the bin of a time; the first and the last of a level are left empty.
fn bin(time: f64, width: f64) -> usize {
    ((time / width) as usize + 1).min(BINS - 2)
}

/// What the times of a shape are compared by: the costs of a kind, and what makes times of one size
/// comparable with those of another.
struct Scale {
    costs: ByKind<Cost>,
    /// Geometric mean of the costs of the requests of a kind.
    means: ByKind<f64>,
}

impl Scale {
    fn from_stretches(stretches: &[Stretch<'_>], held: &[Held]) -> Self {
        let mut samples: ByKind<Samples> = Default::default();
        let all = || stretches.iter().flat_map(|stretch| stretch.served);
        for (one, held) in all().zip(held) {
            samples[one.kind as usize].push((one.bytes, held.time.max(0.0)));
        }
        let costs = costs_of(&samples, ByKind::default());
        let mut sums: ByKind<(f64, f64)> = Default::default();
        for one in all() {
            let sum = &mut sums[one.kind as usize];
            *sum =
                (sum.0 + libm::log(costs[one.kind as usize].of(one.bytes).max(TICK)), sum.1 + 1.0);
        }
        Self { costs, means: sums.map(|(sum, count)| libm::exp(sum / f64::max(count, 1.0))) }
    }

    fn cost(&self, one: &Served) -> f64 {
        self.costs[one.kind as usize].of(one.bytes)
    }

    /// Returns by what a time of a request is multiplied.
    fn factor(&self, one: &Served) -> f64 {
        self.means[one.kind as usize] / self.cost(one).max(TICK)
    }
}

fn explain(stretches: &[Stretch<'_>], units: &ByKind<Unit>, shape: Shape) -> Explained {
    let held = held(stretches, shape);
    let scale = Scale::from_stretches(stretches, &held);
    let mut times: ByKind<Vec<f64>> = Default::default();
    let (mut sum, mut factors) = (0.0, 0.0);
    for (one, held) in stretches.iter().flat_map(|stretch| stretch.served).zip(&held) {
        let factor = scale.factor(one);
        (sum, factors) = (sum + scale.cost(one), factors + libm::log(factor));
        times[one.kind as usize].push(held.time * factor);
    }
    let of_kind = |(times, &unit): (&Vec<f64>, &Unit)| {
        let mut histogram = Histogram::new(unit);
        times.iter().for_each(|&time| histogram.add(time));
        histogram.likelihood(times)
    };
    let score =
        times.iter().zip(units).filter(|(times, _)| !times.is_empty()).map(of_kind).sum::<f64>()
            + factors;
    let held = sum / held.len().max(1) as f64;
    Explained { shape, score, held, alone: held + shape.base, costs: scale.costs }
}

/// Share of requests that complete before they can have begun, from which they are not served in
/// order.
const ORDERED: f64 = 0.005;
/// Minimum number of requests that waited, and that did not, for a comparison.
const MIN_REQUESTS_COMPARED: usize = 50;
/// Mean difference of the quantiles of their times, relative to the median, from which the times
/// of those that waited are not service times alone.
const STEADY: f64 = 0.15;

/// Returns true if requests are served in order: they begin before they complete, and those that
/// waited hold a server for as long as those that did not.
fn is_ordered(stretches: &[Stretch<'_>], shape: Shape) -> bool {
    let held = held(stretches, shape);
    let scale = Scale::from_stretches(stretches, &held);
    let impossible = held.iter().filter(|held| held.time < 0.0).count();
    if impossible as f64 > ORDERED * held.len() as f64 {
        return false;
    }
    let mut shares: [Vec<f64>; 2] = Default::default();
    for (one, held) in stretches.iter().flat_map(|stretch| stretch.served).zip(&held) {
        if shape.flush_waits || one.kind != Kind::Flush {
            shares[usize::from(held.waited)].push(held.time / scale.cost(one).max(TICK));
        }
    }
    if shares.iter().any(|all| all.len() < MIN_REQUESTS_COMPARED) {
        return true;
    }
    shares.iter_mut().for_each(|all| all.sort_unstable_by(f64::total_cmp));
    let difference = |twentieth: usize| {
        let [free, waited] = shares.each_ref().map(|all| all[all.len() * (2 * twentieth + 1) / 40]);
        (free - waited).abs()
    };
    (0..20).map(difference).sum::<f64>() / 20.0 <= STEADY
}

impl Explained {
    /// Returns the model of this shape. Its costs are those of a first look.
    pub(super) fn model(&self) -> Model {
        let Shape { servers, base, flush_waits } = self.shape;
        let costs = Kind::ALL.map(|kind| {
            let mut cost = self.costs[kind as usize];
            if flush_waits || kind != Kind::Flush {
                cost.latency += base;
            }
            // Where there is one size, bytes take the time that they take in the other direction.
            if cost.per_byte == 0.0 {
                cost.per_byte = self.costs[kind.other() as usize].per_byte;
            }
            cost
        });
        Model { flush_waits, base, ..Model::from_servers(servers, costs) }
    }
}
