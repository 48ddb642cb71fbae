//! Goals of a scenario: conditions that a run must meet, and how each is computed.

use elevon_core::units::Nanos;

use crate::division::{Claims, least_of_share};
use crate::lab::Lab;
use crate::measured::{Measured, Window};
use crate::mix::Mix;
use crate::setup::Setup;

/// A stretch of a run, from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Where it begins.
    pub from: Nanos,
    /// Where it ends.
    pub to: Nanos,
}

impl Stretch {
    /// Returns the stretch between two times in seconds.
    pub const fn seconds(from: u64, to: u64) -> Self {
        Self { from: Nanos::from_secs(from), to: Nanos::from_secs(to) }
    }

    const fn has(self, window: &Window) -> bool {
        window.end.get() > self.from.get() && window.end.get() <= self.to.get()
    }

    fn length(self) -> f64 {
        (self.to - self.from).get() as f64 / 1e9
    }
}

/// Something that must hold of a run. Processes are named by their index in the mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// Every process gets at least this part of what it gets under `none`.
    EachOfNone(f64),
    /// The rates of processes of one kind are as their weights, within this part.
    ByWeight(f64),
    /// All processes together get at least this part of the device's time that they get under
    /// `none`.
    TotalOfNone(f64),
    /// They get at least this part of what they get under another scheduler.
    TotalOf(Setup, f64),
    /// A process gets at least this part of what it gets alone.
    OfAlone(usize, f64),
    /// A process gets at least this part of what it gets under `none`.
    OfNone(usize, f64),
    /// A process gets at least this part of what it gets under `none` while another one is paced to
    /// a part of its rate under `none`: an upper bound for every scheduler that holds the other one
    /// back.
    OfPaced {
        /// The process.
        process: usize,
        /// The other.
        paced: usize,
        /// To which part of its rate the other is paced.
        to: f64,
        /// The least part.
        part: f64,
    },
    /// The 99th percentile of a process's latency is at most so many times that of it alone.
    TailOfAlone(usize, f64),
    /// Every process gets at least this part of its weighted max-min share of what the device can
    /// deliver: of what it delivers in this run, or under `none` if that is more.
    OfShare(f64),
    /// A process that does a number of I/Os needs at most so many times the time that it needs
    /// alone.
    LastsOfAlone(usize, f64),
    /// While that process runs, every other one gets at least this part of its weighted max-min
    /// share.
    NobodyStarves(usize, f64),
    /// In each half second of a stretch the device delivers at least this part of what it delivers
    /// under `none` on average over the stretch.
    Steady(Stretch, f64),
    /// Over a stretch the rates of processes of one kind are as their weights, within this part.
    ByWeightIn(Stretch, f64),
    /// Over a stretch a process gets at least this part of what it gets alone on the device as it
    /// is at first.
    OfAloneIn(Stretch, usize, f64),
    /// In each half second of a stretch the device holds at most so many requests on average.
    DepthIn(Stretch, f64),
}

/// Whether a goal was met.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// What was asked.
    pub goal: Goal,
    /// The figure that the goal is about.
    pub value: f64,
    /// Whether the figure is good enough.
    pub is_met: bool,
}

/// A run of a mix, and what it is compared with.
#[derive(Debug)]
pub struct Run<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// What ran.
    pub mix: &'a Mix,
    /// What the processes are due.
    pub claims: &'a Claims,
    /// What it came to.
    pub own: &'a Measured,
    /// The same mix under `none`.
    pub none: &'a Measured,
}

impl Goal {
    /// Returns what is asked, in words.
    pub fn words(&self, mix: &Mix) -> String {
        let name = |at: usize| &mix.processes[at].name;
        let seconds = |stretch: &Stretch| {
            format!(
                "{} to {} s",
                stretch.from.get() / 1_000_000_000,
                stretch.to.get() / 1_000_000_000
            )
        };
        match self {
            Self::EachOfNone(part) => format!("each at least {part} of none's"),
            Self::ByWeight(within) => format!("rates by weight within {within}"),
            Self::TotalOfNone(part) => format!("total at least {part} of none's"),
            Self::TotalOf(setup, part) => format!("total at least {part} of {}'s", setup.name),
            Self::OfAlone(at, part) => format!("{} at least {part} of it alone", name(*at)),
            Self::OfNone(at, part) => format!("{} at least {part} of none's", name(*at)),
            Self::OfPaced { process, paced, to, part } => {
                format!(
                    "{} at least {part} of it beside {} paced to {to}",
                    name(*process),
                    name(*paced)
                )
            }
            Self::TailOfAlone(at, times) => {
                format!("p99 of {} at most {times} of it alone", name(*at))
            }
            Self::OfShare(part) => format!("each at least {part} of its share"),
            Self::LastsOfAlone(at, times) => {
                format!("{} in at most {times} of its time alone", name(*at))
            }
            Self::NobodyStarves(at, part) => {
                format!("the others at least {part} of their shares while {} runs", name(*at))
            }
            Self::Steady(stretch, part) => {
                format!("each half second of {} at least {part} of none's", seconds(stretch))
            }
            Self::ByWeightIn(stretch, within) => {
                format!("rates by weight within {within}, {}", seconds(stretch))
            }
            Self::OfAloneIn(stretch, at, part) => {
                format!("{} at least {part} of it alone, {}", name(*at), seconds(stretch))
            }
            Self::DepthIn(stretch, most) => {
                format!("at most {most} requests in the device, {}", seconds(stretch))
            }
        }
    }

    /// Returns whether a run meets it.
    pub fn score(&self, run: &Run<'_>) -> Score {
        let rate = |of: &Measured, at: usize| of.processes[at].rate;
        let total = |of: &Measured| run.claims.division(of).throughput();
        let alone = |at: usize| run.lab.alone(run.mix).swap_remove(at);
        let least = |part: f64, value: f64| Score { goal: *self, value, is_met: value >= part };
        let most = |times: f64, value: f64| Score { goal: *self, value, is_met: value <= times };
        match *self {
            Self::EachOfNone(part) => {
                let parts =
                    (0..run.mix.processes.len()).map(|at| rate(run.own, at) / rate(run.none, at));
                least(part, parts.fold(f64::INFINITY, f64::min))
            }
            Self::ByWeight(within) => {
                let rates: Vec<f64> =
                    run.own.processes.iter().map(|process| process.rate).collect();
                most(within, off_weight(run.mix, &rates))
            }
            Self::TotalOfNone(part) => least(part, total(run.own) / total(run.none)),
            Self::TotalOf(setup, part) => {
                least(part, total(run.own) / total(&run.lab.run(run.mix, &setup)))
            }
            Self::OfAlone(at, part) => least(part, rate(run.own, at) / alone(at).rate),
            Self::OfNone(at, part) => least(part, rate(run.own, at) / rate(run.none, at)),
            Self::OfPaced { process, paced, to, part } => {
                let mut mix = run.mix.clone();
                mix.processes[paced].pace = Some((rate(run.none, paced) * to).round() as u64);
                least(
                    part,
                    rate(run.own, process) / rate(&run.lab.run(&mix, &Setup::NONE), process),
                )
            }
            Self::TailOfAlone(at, times) => {
                most(times, run.own.processes[at].p99.get() as f64 / alone(at).p99.get() as f64)
            }
            Self::OfShare(part) => {
                let capacity = total(run.own).max(total(run.none));
                least(
                    part,
                    least_of_share(&run.claims.division(run.own).got, &run.claims.shares(capacity)),
                )
            }
            Self::LastsOfAlone(at, times) => most(
                times,
                run.own.processes[at].lasted.get() as f64 / alone(at).lasted.get() as f64,
            ),
            Self::NobodyStarves(at, part) => least(part, least_beside(run, at)),
            Self::Steady(stretch, part) => {
                let mean = in_stretch(run.claims, run.none, stretch).iter().sum::<f64>();
                let halves = halves(run.own, stretch);
                let lowest =
                    halves.iter().map(|half| delivered(run.claims, half, 0.5).iter().sum::<f64>());
                least(part, lowest.fold(f64::INFINITY, f64::min) / mean)
            }
            Self::ByWeightIn(stretch, within) => {
                most(within, off_weight(run.mix, &in_stretch(run.claims, run.own, stretch)))
            }
            Self::OfAloneIn(stretch, at, part) => {
                least(part, in_stretch(run.claims, run.own, stretch)[at] / run.claims.demands[at])
            }
            Self::DepthIn(stretch, limit) => {
                let mean = |half: &&[Window]| {
                    half.iter().map(|w| w.depth).sum::<f64>() / half.len() as f64
                };
                most(limit, halves(run.own, stretch).iter().map(mean).fold(0.0, f64::max))
            }
        }
    }
}

/// The windows of each half second of a stretch.
fn halves(measured: &Measured, stretch: Stretch) -> Vec<&[Window]> {
    let first = measured.windows.iter().position(|window| stretch.has(window)).unwrap_or(0);
    let count = measured.windows[first..].iter().take_while(|window| stretch.has(window)).count();
    measured.windows[first..first + count].chunks_exact(5).collect()
}

/// What each process got in windows that last so many seconds together, as parts of the device's
/// time.
fn delivered(claims: &Claims, windows: &[Window], seconds: f64) -> Vec<f64> {
    let ios = |at: usize| windows.iter().map(|window| window.ios[at]).sum::<u64>();
    claims
        .costs
        .iter()
        .enumerate()
        .map(|(at, cost)| ios(at) as f64 * cost / 1e9 / seconds)
        .collect()
}

fn in_stretch(claims: &Claims, measured: &Measured, stretch: Stretch) -> Vec<f64> {
    let windows: Vec<Window> =
        measured.windows.iter().filter(|window| stretch.has(window)).cloned().collect();
    delivered(claims, &windows, stretch.length())
}

/// The least of what the others got of their shares while a process ran.
fn least_beside(run: &Run<'_>, at: usize) -> f64 {
    let from = run.mix.processes[at].start;
    let stretch = Stretch { from, to: from + run.own.processes[at].lasted };
    // At least one window, however short the process is.
    let to = Nanos::new(stretch.to.get().next_multiple_of(100_000_000))
        .max(from + Nanos::from_millis(100));
    let mut got = in_stretch(run.claims, run.own, Stretch { from, to });
    let mut shares = run.claims.shares(got.iter().sum());
    got.remove(at);
    shares.remove(at);
    least_of_share(&got, &shares)
}

/// The greatest deviation of a rate from its part of all by weight, as a part of it.
fn off_weight(mix: &Mix, rates: &[f64]) -> f64 {
    let weights: Vec<f64> = mix.processes.iter().map(|process| process.weight().into()).collect();
    let (all, weight): (f64, f64) = (rates.iter().sum(), weights.iter().sum());
    let off = |(rate, own): (&f64, &f64)| (rate / (all * own / weight) - 1.0).abs();
    rates.iter().zip(&weights).map(off).fold(0.0, f64::max)
}
