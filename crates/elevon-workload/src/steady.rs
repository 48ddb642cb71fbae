//! `steadystate`: ends jobs once their rate no longer changes.
//!
//! A job is sampled at intervals of `ss_interval` from the end of its ramps on, the jobs of a group
//! with `group_reporting` together. It is judged over a window of the latest samples, `ss_dur`. The
//! rate is steady if the slope of the least squares line through the window, or the largest
//! deviation from its mean, is below the limit, which may be a share of the mean. All in integers.
//!
//! Cost: O(jobs + samples of a window) per sample, nothing per I/O.

use std::collections::VecDeque;

use elevon_core::units::{Instant, Nanos};
use elevon_formats::fio::spec::{JobSpec, SteadyMetric, SteadyState};

/// What the limit counts in: 1 is this.
const MILLION: u128 = 1_000_000;
const SECOND: u128 = 1_000_000_000;

/// The rates in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SteadySample {
    /// I/Os per second.
    pub iops: u64,
    /// Bytes per second.
    pub bandwidth: u64,
}

/// What came of `steadystate` in a job or group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteadyOutcome {
    /// The options.
    pub settings: SteadyState,
    /// The rate was steady, which ended the jobs.
    pub attained: bool,
    /// The latest samples, at most those of the window.
    pub samples: Vec<SteadySample>,
}

/// What has been moved so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) ios: u64,
    pub(crate) bytes: u64,
}

/// A job, or the jobs of a group.
#[derive(Clone, Debug)]
struct Watch {
    settings: SteadyState,
    members: Vec<usize>,
    /// `ramp_time`, after which the statistics begin anew.
    ramp: Nanos,
    /// The next sample; `Instant::MAX` before the start and after the end.
    next: Instant,
    /// The last sample: its time and what had been moved; `None` before the first interval.
    last: Option<(Instant, Moved)>,
    samples: VecDeque<SteadySample>,
    attained: bool,
}

/// The watches of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct SteadyWatches {
    all: Vec<Watch>,
    next: Option<Instant>,
}

impl SteadyWatches {
    /// Returns the watches of processes with these sections and reporting groups, by task.
    pub(crate) fn new<'a>(processes: impl Iterator<Item = (&'a JobSpec, u32)>) -> Self {
        let mut all: Vec<(Option<u32>, Watch)> = Vec::new();
        for (task, (spec, group)) in processes.enumerate() {
            let Some(settings) = spec.timing.steady else { continue };
            let group = spec.report.group_reporting.then_some(group);
            match all.iter_mut().find(|(known, _)| group.is_some() && *known == group) {
                Some((_, watch)) => watch.members.push(task),
                None => {
                    let (members, ramp) = (vec![task], spec.timing.ramp_time);
                    let samples = VecDeque::new();
                    let (next, last) = (Instant::MAX, None);
                    all.push((
                        group,
                        Watch { settings, members, ramp, next, last, samples, attained: false },
                    ));
                }
            }
        }
        Self { all: all.into_iter().map(|(_, watch)| watch).collect(), next: None }
    }

    /// Returns the instant of the next sample.
    #[inline]
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Handles the start of a task. The first of a group counts.
    pub(crate) fn on_start(&mut self, task: usize, now: Instant) {
        let watch = self.all.iter_mut().find(|watch| watch.members.contains(&task));
        if let Some(watch) =
            watch.filter(|watch| watch.next == Instant::MAX && watch.last.is_none())
        {
            watch.next = now.saturating_add(watch.ramp).saturating_add(watch.settings.ramp);
            self.find_next();
        }
    }

    fn find_next(&mut self) {
        self.next = self.all.iter().map(|watch| watch.next).min().filter(|&at| at < Instant::MAX);
    }

    /// Takes the samples that are due. `moved` returns what a task has moved so far, and whether it
    /// has ended. `end` is called for every task that ends because its rate is steady.
    pub(crate) fn run(
        &mut self,
        now: Instant,
        moved: impl Fn(usize) -> (Moved, bool),
        mut end: impl FnMut(usize),
    ) {
        for watch in self.all.iter_mut().filter(|watch| watch.next <= now) {
            let (mut total, mut is_open) = (Moved::default(), false);
            for &task in &watch.members {
                let (Moved { ios, bytes }, ended) = moved(task);
                total.ios += ios;
                total.bytes += bytes;
                is_open |= !ended;
            }
            watch.sample(now, total);
            if watch.attained {
                watch.members.iter().for_each(|&task| end(task));
            }
            if watch.attained || !is_open {
                watch.next = Instant::MAX;
            }
        }
        self.find_next();
    }

    /// Returns the outcome of a task's job or group.
    pub(crate) fn outcome(&self, task: usize) -> Option<SteadyOutcome> {
        let watch = self.all.iter().find(|watch| watch.members.contains(&task))?;
        let samples = watch.samples.iter().copied().collect();
        Some(SteadyOutcome { settings: watch.settings, attained: watch.attained, samples })
    }
}

impl Watch {
    fn sample(&mut self, now: Instant, total: Moved) {
        let interval = self.settings.interval;
        match self.last {
            // What was moved during the ramp is no longer counted after it; it may still be counted
            // at the instant of its end.
            None if !self.ramp.is_zero() && self.settings.ramp.is_zero() => {
                self.last = Some((now, Moved::default()));
            }
            None => self.last = Some((now, total)),
            Some((at, before)) => {
                let span = u128::from(now.since(at).get().max(1));
                let rate = |now: u64, before: u64| {
                    (u128::from(now.saturating_sub(before)) * SECOND / span) as u64
                };
                if self.samples.len() == self.settings.window() {
                    self.samples.pop_front();
                }
                let (iops, bandwidth) =
                    (rate(total.ios, before.ios), rate(total.bytes, before.bytes));
                self.samples.push_back(SteadySample { iops, bandwidth });
                self.attained = self.samples.len() == self.settings.window() && self.is_steady();
                self.last = Some((now, total));
            }
        }
        // Real time may be late by more than an interval.
        let late = now.since(self.next).get() / interval.get().max(1);
        self.next =
            self.next.saturating_add(Nanos::new(interval.get().max(1).saturating_mul(late + 1)));
    }

    fn is_steady(&self) -> bool {
        let rates: Vec<i128> = self
            .samples
            .iter()
            .map(|sample| match self.settings.metric {
                SteadyMetric::Iops => i128::from(sample.iops),
                SteadyMetric::Bandwidth => i128::from(sample.bandwidth),
            })
            .collect();
        let (count, sum) = (rates.len() as i128, rates.iter().sum::<i128>());
        // The criterion is `above / below`.
        let (above, below) = if self.settings.slope {
            let by_place: i128 = rates.iter().zip(0..).map(|(rate, at)| rate * at).sum();
            let (places, squares) =
                (count * (count - 1) / 2, (count - 1) * count * (2 * count - 1) / 6);
            (count * by_place - places * sum, count * squares - places * places)
        } else {
            (rates.iter().map(|rate| (rate * count - sum).abs()).max().unwrap_or(0), count)
        };
        let (above, mut below) = (above.unsigned_abs(), below.unsigned_abs().max(1));
        let mut above = above.saturating_mul(MILLION);
        if self.settings.percent {
            above = above.saturating_mul(100 * count.unsigned_abs());
            below = below.saturating_mul(sum.unsigned_abs());
        }
        above < below.saturating_mul(u128::from(self.settings.limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(slope: bool, percent: bool, limit: u64) -> SteadyState {
        let interval = Nanos::from_secs(1);
        let (duration, metric) = (Nanos::from_secs(3), SteadyMetric::Iops);
        SteadyState { metric, slope, limit, percent, duration, ramp: Nanos::ZERO, interval }
    }

    /// Samples rates second by second; returns after how many the watch was steady.
    fn attained(settings: SteadyState, rates: &[u64]) -> Option<usize> {
        let mut spec = JobSpec::default_job("s");
        spec.timing.steady = Some(settings);
        let mut watches = SteadyWatches::new([(&spec, 0)].into_iter());
        watches.on_start(0, Instant::ZERO);
        let mut ios = 0;
        watches.run(Instant::ZERO, |_| (Moved::default(), false), |_| panic!("too early"));
        for (at, rate) in rates.iter().enumerate() {
            ios += rate;
            let mut ended = false;
            let now = watches.next()?;
            assert_eq!(now, Instant::new((at as u64 + 1) * 1_000_000_000));
            watches.run(now, |_| (Moved { ios, bytes: ios * 4096 }, false), |_| ended = true);
            let outcome = watches.outcome(0).expect("a watch");
            assert_eq!((outcome.attained, outcome.samples.len()), (ended, (at + 1).min(3)));
            if ended {
                assert_eq!(watches.next(), None);
                return Some(at + 1);
            }
        }
        None
    }

    #[test]
    fn deviations_from_the_mean() {
        // The means are 100; then 102, 101, ...
        assert_eq!(attained(settings(false, false, 6_000_001), &[94, 100, 106]), Some(3));
        assert_eq!(
            attained(settings(false, false, 6_000_000), &[94, 100, 106]),
            None,
            "below, not at the limit"
        );
        assert_eq!(attained(settings(false, true, 6_000_001), &[9_400, 10_000, 10_600]), Some(3));
        assert_eq!(attained(settings(false, true, 6_000_000), &[9_400, 10_000, 10_600]), None);
        assert_eq!(
            attained(settings(false, false, 2_000_000), &[10, 50, 100, 101, 102]),
            Some(5),
            "the window rolls"
        );
        assert_eq!(
            attained(settings(false, false, 0), &[100; 9]),
            None,
            "as fio, 0 is never reached"
        );
        assert_eq!(
            attained(settings(false, true, 5_000_000), &[0; 9]),
            None,
            "nothing is not steady"
        );
    }

    #[test]
    fn slopes() {
        // fio 3.33 reported 1239 for these.
        assert_eq!(attained(settings(true, false, 1_239_000_001), &[20891, 19568, 23369]), Some(3));
        assert_eq!(attained(settings(true, false, 1_239_000_000), &[20891, 19568, 23369]), None);
        assert_eq!(
            attained(settings(true, false, 1_239_000_000), &[23369, 19568, 20891]),
            None,
            "a fall counts, too"
        );
        assert_eq!(attained(settings(true, true, 10_000), &[100, 100, 100]), Some(3));
        // A slope of 1 at a mean of 100 is 1 %.
        assert_eq!(attained(settings(true, true, 1_000_001), &[99, 100, 101]), Some(3));
        assert_eq!(attained(settings(true, true, 1_000_000), &[99, 100, 101]), None);
    }

    #[test]
    fn a_group_is_one_and_ramps_are_left_out() {
        let mut spec = JobSpec::default_job("s");
        spec.timing.steady =
            Some(SteadyState { ramp: Nanos::from_secs(2), ..settings(false, false, 1_000_000) });
        (spec.report.group_reporting, spec.timing.ramp_time) = (true, Nanos::from_secs(1));
        let plain = JobSpec::default_job("p");
        let mut watches =
            SteadyWatches::new([(&spec, 0), (&spec, 0), (&plain, 0), (&spec, 1)].into_iter());
        assert_eq!((watches.all.len(), watches.outcome(2)), (2, None));
        watches.on_start(2, Instant::ZERO);
        assert_eq!(watches.next(), None);
        watches.on_start(0, Instant::ZERO);
        watches.on_start(1, Instant::new(5));
        assert_eq!(watches.next(), Some(Instant::new(3_000_000_000)));
        let mut ended = Vec::new();
        for second in 3..=6 {
            let now = Instant::new(second * 1_000_000_000);
            assert_eq!(watches.next(), Some(now));
            // One of them is the faster, the more the other slows down.
            let of = |task| Moved {
                ios: if task == 0 { second * second } else { 1000 - second * second },
                bytes: 0,
            };
            watches.run(now, |task| (of(task), false), |task| ended.push(task));
        }
        assert_eq!(ended, [0, 1]);
    }
}
