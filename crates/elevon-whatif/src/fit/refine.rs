//! The second part of a fit: parameters beyond a FIFO with constant service times.

use std::collections::BTreeMap;

use super::model::{ByKind, Kind, Model, Served};
use super::order;
use super::samples::{Samples, costs_of, samples};
use elevon_sim::device::slots::spread::{PLACES, Quantiles};

/// Minimum number of requests of one kind and size for a group of their own. Requests of rarer
/// sizes are grouped by the power of two of their size.
const OWN_GROUP: usize = 200;
/// Minimum number of samples for a spread.
const MIN_SAMPLES_OF_A_SPREAD: usize = 30;
/// A further parameter is used only if it reduces the error to this factor.
pub(super) const MAX_ERROR_FACTOR: f64 = 0.97;
/// Minimum size of a group whose 99th percentile is part of the error, and the weight of that part.
const TAIL: usize = 200;
const TAIL_COUNTS: f64 = 0.25;
/// Largest factor of a spread.
const MAX_SPREAD_FACTOR: f64 = 1000.0;
/// Steps by which figures are changed, as fractions of the mean service time.
const STEPS: [f64; 6] = [0.16, 0.08, 0.04, 0.02, 0.01, 0.005];

/// Returns the smallest power of two that is not below a size; of a size above the largest power,
/// the largest.
fn power_above(bytes: u64) -> u64 {
    bytes.checked_next_power_of_two().unwrap_or(1 << 63)
}

/// Returns the sum of latencies, which 64 bits do not hold if the trace is hostile.
fn sum(latencies: &[u64]) -> f64 {
    latencies.iter().map(|&ns| u128::from(ns)).sum::<u128>() as f64
}

/// Requests of one kind and size that met about as many others in the device, with their latencies
/// in ascending order.
struct Group {
    members: Vec<u32>,
    latencies: Vec<u64>,
}

impl Group {
    /// Returns the sum of the absolute differences of latencies of equal rank, and of a large group
    /// the error of its 99th percentile, as a logarithm. `own` is memory for those of the model.
    fn error(&self, model: &[u64], own: &mut Vec<u64>) -> [f64; 2] {
        own.clear();
        own.extend(self.members.iter().map(|&n| model[n as usize]));
        own.sort_unstable();
        let at = own.len() * 99 / 100;
        let off = |own: u64, of: u64| libm::log(own.max(1) as f64 / of.max(1) as f64).abs();
        let tail = if own.len() >= TAIL { off(own[at], self.latencies[at]) } else { 0.0 };
        [own.iter().zip(&self.latencies).map(|(own, of)| own.abs_diff(*of) as f64).sum(), tail]
    }
}

/// The groups of the requests of some windows.
pub(super) struct Groups {
    all: Vec<Group>,
    sum: f64,
}

impl Groups {
    pub(super) fn new(served: &[Served], depths: &[u64], windows: &[(usize, usize)]) -> Self {
        let chosen = || windows.iter().flat_map(|&(from, until)| from..until);
        let mut sizes: BTreeMap<(Kind, u64), usize> = BTreeMap::new();
        for at in chosen() {
            *sizes.entry((served[at].kind, served[at].bytes)).or_default() += 1;
        }
        let mut groups: BTreeMap<(Kind, u64, u64), Vec<u32>> = BTreeMap::new();
        for (n, at) in chosen().enumerate() {
            let Served { kind, bytes, .. } = served[at];
            let class =
                if sizes[&(kind, bytes)] < OWN_GROUP { power_above(bytes) + 1 } else { bytes };
            groups.entry((kind, class, depths[at].next_power_of_two())).or_default().push(n as u32);
        }
        let latency: Vec<u64> = chosen().map(|at| served[at].latency()).collect();
        let all = groups.into_values().map(|members| {
            let mut latencies: Vec<u64> = members.iter().map(|&n| latency[n as usize]).collect();
            latencies.sort_unstable();
            Group { members, latencies }
        });
        Self { all: all.collect(), sum: sum(&latency) }
    }

    /// Returns the mean absolute difference of latencies of equal rank in a group, divided by the
    /// mean latency; and the mean error of the 99th percentiles of large groups, as a logarithm.
    pub(super) fn error(&self, model: &[u64]) -> [f64; 2] {
        let mut own = Vec::new();
        let (mut differences, mut tails) = (0.0, 0.0);
        for group in &self.all {
            let [difference, tail] = group.error(model, &mut own);
            differences += difference;
            tails += tail * sum(&group.latencies);
        }
        [differences / self.sum.max(1.0), tails / self.sum.max(1.0)]
    }
}

impl Groups {
    /// As [`error`], but a group counts by the square root of the time of its requests, so that
    /// many that wait long do not hide the others.
    pub(super) fn relative(&self, model: &[u64]) -> f64 {
        let mut own = Vec::new();
        let (mut errors, mut weights) = (0.0, 0.0);
        for group in &self.all {
            let [difference, tail] = group.error(model, &mut own);
            let of = sum(&group.latencies).max(1.0);
            errors += (difference / of + TAIL_COUNTS * tail) * libm::sqrt(of);
            weights += libm::sqrt(of);
        }
        errors / f64::max(weights, 1.0)
    }
}

/// Returns the error that the fit minimises; `model` has the latencies of the windows.
pub(super) fn error(groups: &Groups, model: &[u64]) -> f64 {
    let [all, tail] = groups.error(model);
    all + TAIL_COUNTS * tail
}

struct Refine<'a> {
    served: &'a [Served],
    windows: &'a [(usize, usize)],
    groups: &'a Groups,
    most: u64,
    /// True if the requests are served in the order in which they were issued.
    is_ordered: bool,
}

/// A figure of the model that can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Servers,
    Base,
    HandOver,
    /// Both at once, which hardly changes the throughput.
    BaseAndHandOver,
    Disorder,
}

/// Returns the model with the costs and the spread that the requests show. If they are not served
/// in order, looks for what makes it so.
pub(super) fn fit(
    first: Model,
    is_ordered: bool,
    served: &[Served],
    depths: &[u64],
    windows: &[(usize, usize)],
    groups: &Groups,
) -> Model {
    let most = depths.iter().copied().max().unwrap_or(1).max(first.servers);
    let refine = Refine { served, windows, groups, most, is_ordered };
    if is_ordered { refine.anchored(&first) } else { refine.from(refine.start(first)) }
}

/// Returns true if the requests do not show that the model has no more servers: with so many that
/// none waits, the error is not clearly larger.
pub(super) fn may_have_more(
    model: &Model,
    served: &[Served],
    depths: &[u64],
    windows: &[(usize, usize)],
    groups: &Groups,
) -> bool {
    let most = depths.iter().copied().max().unwrap_or(1);
    let refine = Refine { served, windows, groups, most, is_ordered: false };
    let none_waits = refine.anchored(&Model { servers: most, ..*model });
    model.servers >= most || refine.error(&none_waits) * MAX_ERROR_FACTOR <= refine.error(model)
}

impl Refine<'_> {
    fn error(&self, model: &Model) -> f64 {
        error(self.groups, &model.latencies(self.served, self.windows))
    }

    /// Returns the number of servers to start from: the one that comes nearest, served in order or
    /// not.
    fn start(&self, first: Model) -> Model {
        let unit = self.mean_held(&first);
        let all = order::numbers(self.most).flat_map(|servers| {
            [(0.0, 0.0), (0.3, 0.0), (0.0, 0.03)].map(|(disorder, hand_over)| {
                let model =
                    Model { servers, base: 0.0, disorder, hand_over: hand_over * unit, ..first };
                (self.error(&self.anchored(&model)), servers)
            })
        });
        let best = all.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(first.servers, |best| best.1);
        self.anchored(&Model { servers: best, base: 0.0, ..first })
    }

    /// Returns the best model that is found from a FIFO on.
    fn from(&self, fifo: Model) -> Model {
        let plain = self.run(fifo, &[Figure::Servers]);
        let plain = if self.error(&fifo) < self.error(&plain) { fifo } else { plain };
        let based = self.run(plain, &[Figure::Base, Figure::Servers]);
        let mut best = self.better(plain, based);
        let unit = self.mean_held(&best);
        let starts = [(0.0, 0.02), (0.03, 0.02), (0.03, 0.05)];
        let handed = starts.map(|(base, hand_over)| {
            let start =
                Model { base: plain.base + base * unit, hand_over: hand_over * unit, ..plain };
            self.run(
                start,
                &[Figure::HandOver, Figure::Base, Figure::BaseAndHandOver, Figure::Servers],
            )
        });
        let disordered = self.run(best, &[Figure::Disorder, Figure::Base, Figure::Servers]);
        for other in handed.into_iter().chain([disordered]) {
            best = self.better(best, other);
        }
        best
    }

    /// Returns the first model, unless the second is clearly better.
    fn better(&self, first: Model, second: Model) -> Model {
        if self.error(&second) < self.error(&first) * MAX_ERROR_FACTOR { second } else { first }
    }

    /// Sets costs and spread from samples and changes figures. Does both twice, because the samples
    /// depend on the figures.
    fn run(&self, model: Model, figures: &[Figure]) -> Model {
        let mut best = model;
        let mut least = f64::INFINITY;
        for _ in 0..2 {
            let moved = self.moved(self.anchored(&best), figures);
            let error = self.error(&moved);
            if error >= least {
                break;
            }
            (best, least) = (moved, error);
        }
        best
    }

    /// Changes one figure at a time, as long as the error decreases.
    fn moved(&self, mut model: Model, figures: &[Figure]) -> Model {
        let mut best = self.error(&model);
        let unit = self.mean_held(&model);
        for step in STEPS {
            for _ in 0..3 {
                let before = best;
                for &figure in figures {
                    for step in [step, -step] {
                        let other = self.neighbour(&model, figure, step, unit);
                        if other == model {
                            continue;
                        }
                        let error = self.error(&other);
                        if error < best * 0.9999 {
                            (model, best) = (other, error);
                            break;
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

    /// Returns the model with one figure changed; `unit` is the mean service time.
    fn neighbour(&self, model: &Model, figure: Figure, step: f64, unit: f64) -> Model {
        let mut other = *model;
        match figure {
            Figure::Servers => {
                let servers =
                    if step > 0.0 { model.servers + 1 } else { model.servers.saturating_sub(1) };
                other.servers = servers.clamp(1, self.most);
            }
            Figure::BaseAndHandOver => {
                let by = (step * unit)
                    .clamp(-model.base.min(model.hand_over), model.base_limit() - model.base);
                (other.base, other.hand_over) = (model.base + by, model.hand_over + by);
            }
            Figure::Base => {
                other.base = (model.base + step * unit).clamp(0.0, model.base_limit());
            }
            Figure::HandOver => other.hand_over = (model.hand_over + step * unit).clamp(0.0, unit),
            Figure::Disorder => other.disorder = (model.disorder + 2.0 * step).clamp(0.0, 1.0),
        }
        other
    }

    fn mean_held(&self, model: &Model) -> f64 {
        let all = self.served.iter().map(|one| model.held(one.kind).of(one.bytes));
        all.sum::<f64>() / self.served.len() as f64
    }

    /// Returns the model with costs and spread as samples show them.
    fn anchored(&self, model: &Model) -> Model {
        let samples = samples(self.served, model, self.is_ordered);
        let costs = costs_of(&samples, model.costs);
        let mut new = Model { costs, ..*model };
        new.base = new.base.min(new.base_limit());
        new.spreads = spreads(&new, samples);
        new
    }
}

/// Returns the spread of [`samples`] relative to the costs of the model, by kind.
fn spreads(model: &Model, samples: ByKind<Samples>) -> ByKind<Quantiles> {
    let mut kinds = Kind::ALL.into_iter();
    let found = samples.map(|samples| {
        let kind = kinds.next()?;
        if samples.len() < MIN_SAMPLES_OF_A_SPREAD {
            return None;
        }
        let held = model.held(kind);
        let base = if kind == Kind::Flush && !model.flush_waits { 0.0 } else { model.base };
        let share = |(bytes, time): (u64, f64)| {
            ((time - base).max(0.0) / held.of(bytes).max(1.0)).min(MAX_SPREAD_FACTOR)
        };
        let mut shares: Vec<f64> = samples.into_iter().map(share).collect();
        shares.sort_unstable_by(f64::total_cmp);
        let last = (shares.len() - 1) as f64;
        // To a tenth of a percent.
        let at = |place: u32| {
            (shares[(f64::from(place) / 1e6 * last).round() as usize] * 1e3).round() as u32 * 1000
        };
        Some(Quantiles::of(PLACES.map(at)))
    });
    let any = found[0].or(found[1]).unwrap_or(Quantiles::EVEN);
    Kind::ALL.map(|kind| {
        match kind {
            Kind::SequentialRead | Kind::SequentialWrite => {
                found[kind as usize].or(found[kind.other() as usize])
            }
            _ => found[kind as usize],
        }
        .unwrap_or(any)
    })
}
