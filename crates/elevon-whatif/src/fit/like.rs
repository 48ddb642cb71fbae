//! Fits the parameters of a flash profile to requests of which only the times of issue and
//! completion are known.
//!
//! The device is driven by the observed requests, each as long after the completion that preceded
//! it as it was observed: a closed loop, so that a model that is too slow does not collect a queue
//! that the trace did not have. Two errors are minimised: that of `fit.rs` (distributions of
//! latency of requests of one kind and size that met about as many others) and that of the time
//! that all of them take. Differential evolution begins at the profile. Then one parameter at a
//! time is changed. One that does not clearly reduce the error keeps the value of the profile.
//!
//! Cost: some 1,200 trials of at most [`SEARCHED`] and [`TUNED`] requests, each as the device runs
//! them; some 500 shorter ones for a first look at all profiles. A second of CPU is about 400,000
//! requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use elevon_core::op::Op;
use elevon_core::units::{Instant, Sectors};

use super::refine::Groups;
use super::{
    Kind, LatencyRow, MAX_REQUESTS_FITTED, MAX_REQUESTS_OF_A_TRIAL, Served, by_depth, by_size,
    depths,
};
use elevon_sim::chance::{below, draw};
use elevon_sim::device::closed_loop::command;
use elevon_sim::device::flash::{Flash, FlashConfig, PARAMETERS};
use elevon_sim::device::parameter::{HOUR, Parameter, Unit};
use elevon_sim::device::{Description, Device};

/// Bytes of the requests that a trial uses.
const MAX_BYTES: u64 = 32 << 30;
/// Bytes of a request, and sectors of a device, beyond which a trace is not followed.
const MAX_REQUEST_BYTES: u64 = 64 << 20;
const SECTORS: u64 = 1 << 40;
/// Longest time between a completion and the issue that follows it: an hour.
const LONGEST_GAP: u64 = HOUR;

/// Random seed of the trials. It is the same for each, so that they can be compared.
const SEED: u64 = 1;

/// Parameters that a trace may show. The others need more than it contains (garbage collection,
/// caches that fill), or are the same at another place.
const FITTED: [&str; 18] = [
    "read_time",
    "dies",
    "fixed_latency",
    "read_command_cost",
    "read_link",
    "write_latency",
    "write_command_cost",
    "write_link",
    "write_rate",
    "scatter_cost",
    "buffer",
    "program_time",
    "flush_time",
    "jitter",
    "map_miss",
    "stall_share",
    "stall_time",
    "erase_time",
];

/// Fitted as well if there are discards.
const OF_DISCARDS: &str = "discard_time";

/// Returns true if [`fit_like`] fits the parameter with this key to requests with or without
/// discards.
pub(crate) fn is_fitted(key: &str, has_discards: bool) -> bool {
    FITTED.contains(&key) || has_discards && key == OF_DISCARDS
}

/// Factors by which parameters are changed, with the number of rounds.
const STEPS: [(f64, usize); 5] = [(1.4, 2), (1.2, 2), (1.1, 2), (1.05, 2), (1.02, 2)];

/// How a search goes: requests of a trial, sets of parameters of a generation, and generations.
#[derive(Clone, Copy)]
struct Effort {
    requests: usize,
    members: usize,
    generations: u64,
}

/// Requests of a trial of a search, and while one parameter is changed at a time.
const SEARCHED: usize = 1_500;
const TUNED: usize = 4_000;
const SEARCH: Effort = Effort { requests: SEARCHED, members: 40, generations: 60 };
/// A first look at all profiles, and a second one at the nearest of them.
const FIRST_LOOK: Effort = Effort { requests: 400, members: 24, generations: 4 };
const SECOND_LOOK: Effort = Effort { requests: 1_200, members: 36, generations: 6 };
const LOOKED_AT_TWICE: usize = 2;
/// The largest |ln(value / the profile's value)| of a parameter in the first generation.
const WIDEST: f64 = 1.2;
/// The same bound for all later generations.
const FARTHEST: f64 = 5.0;
/// Share that is added to the error for each unit of |ln(value / the profile's value)| of a
/// parameter, so that what a trace does not show is left as the profile has it.
const FARTHER: f64 = 0.03;
/// How many of a hundred parameters of a new set are not those of the set before.
const CROSSED: u64 = 80;
/// Purpose of the draws.
const CHANCE: u64 = 0xf17_0003;

/// A change is kept if it reduces the error to this factor. In the end, one is taken back that does
/// not reduce it to the second factor.
const KEPT: f64 = 0.999;
const MAX_ERROR_FACTOR: f64 = 0.97;

/// The value from which a parameter grows that is 0 in the profile.
const fn seed_of(unit: Unit) -> u64 {
    match unit {
        Unit::Share => 10_000,
        Unit::Time => 10_000,
        _ => 0,
    }
}

/// A profile that was fitted, and its errors.
#[derive(Clone, Debug)]
pub(crate) struct LikeFit {
    /// Keys of the parameters that changed, with the value of the profile and the new one.
    pub changed: Vec<(&'static str, String, String)>,
    /// Number of requests to which it was fitted, and number of requests that were given.
    pub requests: (u64, u64),
    /// Mean absolute difference of latencies of equal rank, among requests of one kind and size
    /// that met about as many others in the device, in percent of the mean latency.
    pub distribution_percent: f64,
    /// The same for the profile as it was.
    pub profile_percent: f64,
    /// By how much the time of all requests is longer than it was, in percent.
    pub time_percent: f64,
    /// Maximum number of requests that were in the device at once.
    pub depth: u64,
    /// True if there were discards.
    pub has_discards: bool,
    /// Latencies by kind and bytes; only the most frequent sizes.
    pub by_size: Vec<(Kind, u64, LatencyRow)>,
    /// Latencies by number of requests in the device at issue, including the request itself: 1, 2,
    /// up to 4, 8, 16, ...
    pub by_depth: Vec<(u64, LatencyRow)>,
}

/// Fits a profile to requests in order of issue. `described` is the device of the profile;
/// `on_trial` is called now and then with the share of the trials that is done, in percent. Returns
/// `None` if there is no read or write.
pub(crate) fn fit_like(
    config: &FlashConfig,
    described: &Description,
    served: &[Served],
    on_trial: &mut dyn FnMut(u64),
) -> Option<LikeFit> {
    let all = served.len() as u64;
    let served = &served[..served.len().min(MAX_REQUESTS_FITTED)];
    if !served.iter().any(|one| one.kind.has_data()) {
        return None;
    }
    let of = |most: usize| Observed::from_served(&served[..looked_at(served).min(most)], described);
    let fitted = search(&of(SEARCH.requests), &of(TUNED), config, on_trial);
    let whole = Observed::from_served(served, described);
    let percent = |latencies: &[u64]| whole.groups.error(latencies)[0] * 100.0;
    let of = |config: &FlashConfig| percent(&whole.run(config).0);
    // What was found for the first requests may be wrong for all. The profile stays if it is better
    // by the error that is searched for or by the one that is told.
    let is_better = whole.error(&fitted) < whole.error(config) && of(&fitted) <= of(config);
    let fitted = if is_better { fitted } else { config.clone() };
    let [(latencies, time), (plain, _)] = [&fitted, config].map(|config| whole.run(config));
    Some(LikeFit {
        changed: changed(config, &fitted)
            .map(|row| (row.key, text(row, config), text(row, &fitted)))
            .collect(),
        requests: (served.len() as u64, all),
        distribution_percent: percent(&latencies),
        profile_percent: percent(&plain),
        time_percent: (time as f64 / whole.time.max(1) as f64 - 1.0) * 100.0,
        depth: whole.depths.iter().copied().max().unwrap_or(1),
        has_discards: has_discards(served),
        by_size: by_size(served, &latencies),
        by_depth: by_depth(served, &latencies, &whole.depths),
    })
}

/// Returns the profile that requests are nearest to after a look, by its index, and how far they
/// are from it: the error, as a part of 1, of the best parameters of a few generations for the
/// first requests. As it is, a profile may be farther from a drive of its own kind than one of
/// another.
/// Returns `None` if there is no profile.
pub(crate) fn nearest(
    profiles: &[(&FlashConfig, &Description)],
    served: &[Served],
) -> Option<(usize, f64)> {
    let far = |at: usize, effort: Effort| {
        let (config, described) = profiles[at];
        let observed =
            Observed::from_served(&served[..looked_at(served).min(effort.requests)], described);
        let rows = fitted_rows(served);
        (at, evolve(&|config| observed.error(config), config, &rows, effort, &mut |_| {}).1)
    };
    let mut all: Vec<(usize, f64)> = (0..profiles.len()).map(|at| far(at, FIRST_LOOK)).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all.truncate(LOOKED_AT_TWICE);
    all.into_iter().map(|(at, _)| far(at, SECOND_LOOK)).min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Returns the number of requests that a trial uses: so many, or so many bytes.
fn looked_at(served: &[Served]) -> usize {
    let mut bytes = 0_u64;
    let enough = served.iter().position(|one| {
        bytes = bytes.saturating_add(one.bytes);
        bytes > MAX_BYTES
    });
    served.len().min(MAX_REQUESTS_OF_A_TRIAL).min(enough.unwrap_or(usize::MAX).max(1))
}

fn text(row: &Parameter<FlashConfig>, config: &FlashConfig) -> String {
    row.unit.text((row.get)(config))
}

/// Yields the rows of parameters in which two configurations differ.
fn changed<'a>(
    one: &'a FlashConfig,
    other: &'a FlashConfig,
) -> impl Iterator<Item = &'static Parameter<FlashConfig>> + 'a {
    PARAMETERS.iter().filter(|row| (row.get)(one) != (row.get)(other))
}

/// When a request is issued: so long after another has completed, or after the first issue.
#[derive(Clone, Copy)]
struct Trigger {
    after: Option<u32>,
    gap: u64,
}

/// Requests that drive a model.
struct Observed<'a> {
    served: &'a [Served],
    described: Description,
    depths: Vec<u64>,
    groups: Groups,
    triggers: Vec<Trigger>,
    /// The requests that each completion is followed by: those of request `n` are at `follow[n]..`
    /// of `followers`.
    follow: Vec<u32>,
    followers: Vec<u32>,
    /// From the first issue to the last completion.
    time: u64,
}

impl<'a> Observed<'a> {
    fn from_served(served: &'a [Served], described: &Description) -> Self {
        let depths = depths(served, true);
        let whole = [(0, served.len())];
        let groups = Groups::new(served, &depths, &whole);
        let triggers = triggers(served);
        let mut follow = vec![0_u32; served.len() + 1];
        triggers
            .iter()
            .filter_map(|trigger| trigger.after)
            .for_each(|after| follow[after as usize + 1] += 1);
        for n in 0..served.len() {
            follow[n + 1] += follow[n];
        }
        let mut followers: Vec<u32> =
            (0..served.len() as u32).filter(|&n| triggers[n as usize].after.is_some()).collect();
        followers.sort_by_key(|&n| (triggers[n as usize].after, n));
        let last = served.iter().map(|one| one.completed).max().unwrap_or(0);
        let described = Description {
            // The trace may have more in flight, and further away, than the profile takes.
            queue_depth: served.len() as u32,
            hw_queues: 1,
            size: Sectors::new(2 * SECTORS),
            ..described.clone()
        };
        Self {
            depths,
            groups,
            triggers,
            follow,
            followers,
            time: last - served[0].issued,
            described,
            served,
        }
    }

    /// Returns the latency of each request on a device, and the time from the first issue to the
    /// last completion.
    fn run(&self, config: &FlashConfig) -> (Vec<u64>, u64) {
        let queue_depth = self.described.queue_depth.into();
        let config = FlashConfig { hw_queues: 1, queue_depth, at_once: 0, ..config.clone() };
        let mut device = Flash::new(config, self.described.clone(), SEED);
        let mut issues = BinaryHeap::new();
        let first = |(n, trigger): (usize, &Trigger)| {
            trigger.after.is_none().then_some(Reverse((trigger.gap, n as u32)))
        };
        issues.extend(self.triggers.iter().enumerate().filter_map(first));
        let (mut issued, mut latencies) =
            (vec![0_u64; self.served.len()], vec![0_u64; self.served.len()]);
        let mut last = 0;
        loop {
            let next_issue = issues.peek().map(|&Reverse((at, _))| at);
            let next_event = device.next_event().map(|at| at.get());
            let Some(now) = next_issue.into_iter().chain(next_event).min() else {
                return (latencies, last);
            };
            while let Some(completion) = device.poll(Instant::new(now)) {
                let n = completion.request.0 as usize;
                (latencies[n], last) = (now - issued[n], now);
                let followers =
                    &self.followers[self.follow[n] as usize..self.follow[n + 1] as usize];
                issues.extend(
                    followers.iter().map(|&of| Reverse((now + self.triggers[of as usize].gap, of))),
                );
            }
            while let Some(&Reverse((at, n))) = issues.peek()
                && at <= now
            {
                issues.pop();
                issued[n as usize] = now;
                let one = &self.served[n as usize];
                let op = match one.kind {
                    Kind::Flush => Op::Flush,
                    Kind::Discard => Op::Discard,
                    Kind::Read | Kind::SequentialRead => Op::Read,
                    Kind::Write | Kind::SequentialWrite => Op::Write,
                };
                device.submit(
                    Instant::new(now),
                    &command(n, op, one.sector % SECTORS, one.bytes.min(MAX_REQUEST_BYTES)),
                );
            }
        }
    }

    fn error(&self, config: &FlashConfig) -> f64 {
        let (latencies, time) = self.run(config);
        let longer = time.max(1) as f64 / self.time.max(1) as f64;
        self.groups.relative(&latencies) + libm::log(longer).abs()
    }
}

/// Returns when each request is issued: after the last completion before it.
fn triggers(served: &[Served]) -> Vec<Trigger> {
    let mut ends: Vec<(u64, u32)> =
        served.iter().enumerate().map(|(n, one)| (one.completed, n as u32)).collect();
    ends.sort_unstable();
    let trigger = |(n, one): (usize, &Served)| {
        let before = ends.partition_point(|&(end, _)| end <= one.issued);
        // One that took no time may have completed when it was issued.
        match ends[..before].iter().rev().find(|&&(_, of)| (of as usize) < n) {
            Some(&(end, of)) => {
                Trigger { after: Some(of), gap: (one.issued - end).min(LONGEST_GAP) }
            }
            None => Trigger { after: None, gap: (one.issued - served[0].issued).min(LONGEST_GAP) },
        }
    };
    served.iter().enumerate().map(trigger).collect()
}

/// Returns true if there are discards.
fn has_discards(served: &[Served]) -> bool {
    served.iter().any(|one| one.kind == Kind::Discard)
}

/// Returns the rows of the parameters that are fitted.
fn fitted_rows(served: &[Served]) -> Vec<&'static Parameter<FlashConfig>> {
    let has_discards = has_discards(served);
    PARAMETERS.iter().filter(|row| is_fitted(row.key, has_discards)).collect()
}

/// Finds parameters for a few requests, and goes on from them for more.
fn search(
    few: &Observed<'_>,
    observed: &Observed<'_>,
    profile: &FlashConfig,
    on_trial: &mut dyn FnMut(u64),
) -> FlashConfig {
    let rows = fitted_rows(observed.served);
    let penalty = |config: &FlashConfig| 1.0 + FARTHER * farness(config, profile, &rows);
    let cost_of_few = |config: &FlashConfig| few.error(config) * penalty(config);
    let cost = |config: &FlashConfig| observed.error(config) * penalty(config);
    let (found, _) = evolve(&cost_of_few, profile, &rows, SEARCH, on_trial);
    let start = cost(&found);
    let (mut best, _) = descend(&cost, (found, start), &rows);
    // What hardly matters is as in the profile, what matters least first.
    let mut error = observed.error(&best);
    loop {
        let without = changed(profile, &best).map(|row| {
            let mut other = best.clone();
            (row.set)(&mut other, (row.get)(profile));
            (observed.error(&other), other)
        });
        match without.min_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((of_other, other)) if of_other * MAX_ERROR_FACTOR < error => {
                (best, error) = (other, of_other);
            }
            _ => return best,
        }
    }
}

/// Returns the sum of the logarithms of the factors between parameters and those of the profile.
fn farness(
    config: &FlashConfig,
    profile: &FlashConfig,
    rows: &[&'static Parameter<FlashConfig>],
) -> f64 {
    let far = |row: &&'static Parameter<FlashConfig>| {
        let [own, of] = [config, profile].map(|config| (row.get)(config) as f64);
        if of > 0.0 {
            libm::log(own.max(1.0) / of).abs()
        } else {
            libm::log1p(own / seed_of(row.unit).max(1) as f64)
        }
    };
    rows.iter().map(far).sum()
}

/// A set of parameters: for each the logarithm of its factor to that of the profile.
struct Member {
    factors: Vec<f64>,
    error: f64,
}

/// Finds parameters by differential evolution (Storn and Price 1997, "current to best"), which
/// follows parameters that make up for each other, and leaves local minima.
fn evolve(
    cost: &dyn Fn(&FlashConfig) -> f64,
    profile: &FlashConfig,
    rows: &[&'static Parameter<FlashConfig>],
    effort: Effort,
    on_trial: &mut dyn FnMut(u64),
) -> (FlashConfig, f64) {
    let Effort { members, generations, .. } = effort;
    let mut counter = 0;
    let mut random = |bound: u64| {
        counter += 1;
        below(draw(SEED, CHANCE, counter), bound)
    };
    let member = |factors: Vec<f64>| {
        let error = cost(&with(profile, rows, &factors));
        Member { factors, error }
    };
    let mut all: Vec<Member> = Vec::with_capacity(members);
    for n in 0..members {
        // The first is the profile itself.
        let wide = if n == 0 { 0.0 } else { WIDEST };
        all.push(member(
            rows.iter().map(|_| (random(2001) as f64 / 1000.0 - 1.0) * wide).collect(),
        ));
    }
    let best_of = |all: &[Member]| {
        (0..all.len()).min_by(|&a, &b| all[a].error.total_cmp(&all[b].error)).unwrap_or(0)
    };
    for generation in 0..generations {
        on_trial(generation * 100 / generations);
        for n in 0..members {
            let [a, b] = [0, 1].map(|_| random(members as u64) as usize);
            let (best, far) = (best_of(&all), 0.4 + random(500) as f64 / 1000.0);
            let at = |row: usize| {
                let [own, best, a, b] = [n, best, a, b].map(|member| all[member].factors[row]);
                (own + far * (best - own) + far * (a - b)).clamp(-FARTHEST, FARTHEST)
            };
            let taken = |row: usize, chance: u64| {
                if chance < CROSSED { at(row) } else { all[n].factors[row] }
            };
            let other = member((0..rows.len()).map(|row| taken(row, random(100))).collect());
            if other.error < all[n].error {
                all[n] = other;
            }
        }
    }
    let best = &all[best_of(&all)];
    (with(profile, rows, &best.factors), best.error)
}

/// Returns the profile with parameters changed by factors.
fn with(
    profile: &FlashConfig,
    rows: &[&'static Parameter<FlashConfig>],
    factors: &[f64],
) -> FlashConfig {
    let mut config = profile.clone();
    for (row, &factor) in rows.iter().zip(factors) {
        let value = match (row.get)(profile) {
            0 if factor <= 0.0 => 0,
            0 => (seed_of(row.unit) as f64 * (libm::exp(factor) - 1.0)) as u64,
            value => (value as f64 * libm::exp(factor)).round() as u64,
        };
        (row.set)(&mut config, rounded(value, row.unit).clamp(row.range.0, row.range.1));
    }
    config
}

/// Changes one parameter at a time, as long as the error decreases.
fn descend(
    cost: &dyn Fn(&FlashConfig) -> f64,
    start: (FlashConfig, f64),
    rows: &[&'static Parameter<FlashConfig>],
) -> (FlashConfig, f64) {
    let (mut best, mut error) = start;
    for (factor, rounds) in STEPS {
        for _ in 0..rounds {
            let before = error;
            for moved in rows.iter().map(|row| vec![*row]).chain([both(rows)]) {
                for factor in [factor, 1.0 / factor] {
                    let other = scaled(&best, &moved, factor);
                    if other == best {
                        continue;
                    }
                    let of_other = cost(&other);
                    if of_other < error * KEPT {
                        (best, error) = (other, of_other);
                        break;
                    }
                }
            }
            if error >= before {
                break;
            }
        }
    }
    (best, error)
}

/// More dies that are slower have the same throughput.
fn both(rows: &[&'static Parameter<FlashConfig>]) -> Vec<&'static Parameter<FlashConfig>> {
    rows.iter().copied().filter(|row| matches!(row.key, "dies" | "read_time")).collect()
}

/// Returns a configuration with parameters multiplied by a factor, within their ranges.
fn scaled(
    config: &FlashConfig,
    rows: &[&'static Parameter<FlashConfig>],
    factor: f64,
) -> FlashConfig {
    let mut other = config.clone();
    for row in rows {
        let (low, high) = row.range;
        let value = match (row.get)(config) {
            0 if factor > 1.0 => seed_of(row.unit),
            value => {
                let by = (value as f64 * factor).round() as u64;
                // A small number moves by one at least.
                if by == value {
                    if factor > 1.0 { value + 1 } else { value.saturating_sub(1) }
                } else {
                    by
                }
            }
        };
        (row.set)(&mut other, rounded(value, row.unit).clamp(low, high));
    }
    other
}

/// Returns a value to three digits, or a size in whole blocks.
const fn rounded(value: u64, unit: Unit) -> u64 {
    match (unit, value.checked_ilog10()) {
        (Unit::Size, _) => {
            if value < 4096 {
                4096
            } else {
                value - value % 4096
            }
        }
        (_, None | Some(0..=2)) => value,
        (_, Some(digits)) => {
            let one = 10_u64.pow(digits - 2);
            value.saturating_add(one / 2) / one * one
        }
    }
}

#[cfg(test)]
mod tests;
