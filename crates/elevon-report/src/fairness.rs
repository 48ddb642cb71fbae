//! Fairness: compares the share that each job got with the share that its weight is due, and gives
//! one index for all jobs.
//!
//! A share is computed among jobs that compete: they ran at the same time and in the same priority
//! class. No job is due more than it asked for ([`Claim::asked`]), and no cgroup more than its
//! limits let it have; the others divide what is left by weight. Classes are strict (RT first, IDLE
//! last), so no job is due a share of another class's service. Among best-effort jobs a cgroup
//! counts as one competitor with the cgroup's weight, and the jobs in it divide the cgroup's share
//! by their own weights, whatever their class. Shares are computed from rates while a job runs, so
//! that a job that ends earlier than others does not count as disadvantaged.

mod division;
pub(crate) mod table;

use std::collections::BTreeMap;

use elevon_core::control::Rule;
use elevon_core::ioprio::PrioClass;
use elevon_core::stats::Direction;
use elevon_core::units::Instant;

use division::{Rival, divide};
use elevon_result::result::{Claim, JobResult, RunResult};
use elevon_result::summary::{bandwidth, iops, ratio};

/// A share of one resource, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Share that the job is due: by its weight, but no more than it asked for.
    pub due: f64,
    /// Share that the job got.
    pub got: f64,
}

/// One job of a `Fairness`.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Index in [`RunResult::jobs`].
    pub job: usize,
    /// Share that its weight is due if all jobs ask for all that they can get, 0 to 1.
    pub by_weight: f64,
    /// Its share of the bandwidth.
    pub bandwidth: Part,
    /// Its share of the device's time, if that is known.
    pub device_time: Option<Part>,
    /// Jobs that compete with this one, itself included.
    rivals: usize,
}

/// The fairness of a run: shares of all jobs that have a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fairness {
    /// Jobs that have a claim, in the order of the run.
    pub shares: Vec<Share>,
}

/// A job that competes: its index, and its claim.
type Contender<'a> = (usize, &'a JobResult, &'a Claim);

/// Computes the fairness of a run; `None` if no job sets a priority or weight, or if no two jobs
/// compete.
pub(crate) fn fairness(run: &RunResult) -> Option<Fairness> {
    let claims = || run.jobs.iter().filter_map(|job| job.claim.as_ref());
    if !claims().any(|claim| claim.given) {
        return None;
    }
    let mut groups: BTreeMap<(usize, u8), Vec<Contender<'_>>> = BTreeMap::new();
    let contests = contests(&run.jobs);
    for (at, job) in run.jobs.iter().enumerate() {
        let Some(claim) = &job.claim else { continue };
        groups.entry((contests[at], level_of(claim) as u8)).or_default().push((at, job, claim));
    }
    let mut shares: Vec<Share> =
        groups.into_values().flat_map(|rivals| shares_of(run, &rivals)).collect();
    shares.sort_unstable_by_key(|share| share.job);
    shares.iter().any(|share| share.rivals > 1).then_some(Fairness { shares })
}

/// Returns the part of the weights that each job had: the mean over the time that it ran, in which
/// others came and went. While a job of a higher class runs, a job has none.
pub fn parts_of_weights(jobs: &[JobResult]) -> Vec<f64> {
    let mut times: Vec<Instant> = jobs.iter().flat_map(|job| [job.start, job.end]).collect();
    times.sort_unstable();
    times.dedup();
    let mut parts = vec![0.0; jobs.len()];
    for span in times.windows(2) {
        let lives = |job: &JobResult| job.start <= span[0] && job.end >= span[1];
        let living: Vec<(usize, &Claim)> = jobs
            .iter()
            .enumerate()
            .filter(|(_, job)| lives(job))
            .filter_map(|(at, job)| Some((at, job.claim.as_ref()?)))
            .collect();
        let first = living.iter().map(|(_, claim)| level_of(claim) as u8).min();
        let (places, rivals): (Vec<usize>, Vec<Rival<'_>>) = living
            .iter()
            .filter(|(_, claim)| Some(level_of(claim) as u8) == first)
            .map(|&(at, claim)| (at, Rival { claim, asked: f64::INFINITY }))
            .unzip();
        let length = span[1].since(span[0]).get() as f64;
        for (at, due) in places.into_iter().zip(divide(length, &rivals, &|_| f64::INFINITY)) {
            let time = jobs[at].end.since(jobs[at].start).get() as f64;
            parts[at] += ratio(due, time);
        }
    }
    parts
}

/// Returns the shares of jobs that compete with each other.
fn shares_of(run: &RunResult, rivals: &[Contender<'_>]) -> Vec<Share> {
    let limits = limits(run, rivals);
    let limit = |path: &str| limits.get(path).copied().unwrap_or(f64::INFINITY);
    let endless: Vec<Rival<'_>> =
        rivals.iter().map(|at| Rival { claim: at.2, asked: f64::INFINITY }).collect();
    let by_weight = divide(1.0, &endless, &|_| f64::INFINITY);
    let rates: Vec<f64> = rivals.iter().map(|at| job_bandwidth(at.1)).collect();
    let asked: Vec<Rival<'_>> = rivals
        .iter()
        .zip(&rates)
        .map(|(at, &got)| Rival { claim: at.2, asked: asked(at.2, got) })
        .collect();
    let all: f64 = rates.iter().sum();
    let due_rates = divide(all, &asked, &limit);
    // A job that asked for a part more bandwidth asked for the same part more of the device's time.
    let times: Option<Vec<f64>> =
        rivals.iter().map(|at| at.1.device_time.is_some().then(|| occupancy(at.1))).collect();
    let due_times = times.as_ref().map(|times| {
        let in_time = |asked: f64, time: f64, rate: f64| {
            if asked.is_finite() { asked * ratio(time, rate) } else { asked }
        };
        let asked: Vec<Rival<'_>> = asked
            .iter()
            .zip(times.iter().zip(&rates))
            .map(|(rival, (&time, &rate))| Rival {
                asked: in_time(rival.asked, time, rate),
                ..*rival
            })
            .collect();
        let is_in = |path: &str, at: usize| rivals[at].2.cgroups.iter().any(|(own, _)| own == path);
        let below = |path: &str, figures: &[f64]| {
            (0..rivals.len()).filter(|&at| is_in(path, at)).map(|at| figures[at]).sum::<f64>()
        };
        divide(times.iter().sum(), &asked, &|path| match limit(path) {
            limit if limit.is_finite() => in_time(limit, below(path, times), below(path, &rates)),
            none => none,
        })
    });
    let all_time: f64 = times.iter().flatten().sum();
    let part = |due: &[f64], got: &[f64], all: f64, at: usize| Part {
        due: ratio(due[at], all),
        got: ratio(got[at], all),
    };
    let share = |at: usize| Share {
        job: rivals[at].0,
        by_weight: by_weight[at],
        bandwidth: part(&due_rates, &rates, all, at),
        device_time: times
            .as_ref()
            .zip(due_times.as_ref())
            .map(|(got, due)| part(due, got, all_time, at)),
        rivals: rivals.len(),
    };
    (0..rivals.len()).map(share).collect()
}

/// Returns the bytes per second that a job asked for at most, which are at least those that it got.
fn asked(claim: &Claim, got: f64) -> f64 {
    claim.asked.map_or(f64::INFINITY, |asked| (asked as f64).max(got))
}

/// Returns the bytes per second that the limits of each cgroup of the rivals let it have, at least
/// those that it got. A limit on I/Os counts them with the mean size of those that were done.
fn limits<'a>(run: &RunResult, rivals: &[Contender<'a>]) -> BTreeMap<&'a str, f64> {
    let mut got: BTreeMap<&str, [(f64, f64); 2]> = BTreeMap::new();
    for (_, job, claim) in rivals {
        for (path, _) in &claim.cgroups {
            let own = got.entry(path).or_default();
            for (sum, direction) in own.iter_mut().zip(&job.stats.directions) {
                *sum = (sum.0 + bandwidth(direction), sum.1 + iops(direction));
            }
        }
    }
    let limited = run.tenants.iter().filter(|tenant| !tenant.limits.is_empty());
    let limit = |(path, limits): (&str, &[(Rule, u64)])| {
        let (path, got) = got.get_key_value(path)?;
        let [reads, writes] = *got;
        let of = |rule: Rule| {
            limits.iter().find(|at| at.0 == rule).map_or(f64::INFINITY, |at| at.1 as f64)
        };
        let in_bytes = |ios: f64, (bytes, count): (f64, f64)| {
            if ios.is_finite() { ios * ratio(bytes, count) } else { ios }
        };
        let direction = |got: (f64, f64), bytes: Rule, ios: Rule| {
            if got.0 > 0.0 { of(bytes).min(in_bytes(of(ios), got)) } else { 0.0 }
        };
        let both = (reads.0 + writes.0, reads.1 + writes.1);
        let apart = direction(reads, Rule::ReadBps, Rule::ReadIops)
            + direction(writes, Rule::WriteBps, Rule::WriteIops);
        let bytes = of(Rule::Bps).min(of(Rule::Bandwidth));
        let ios = in_bytes(of(Rule::Iops).min(of(Rule::IopsMax)), both);
        Some((*path, apart.min(bytes).min(ios).max(both.0)))
    };
    limited.filter_map(|tenant| limit((&tenant.path, &tenant.limits))).collect()
}

impl Fairness {
    /// Returns Jain's index over bandwidth got divided by share due: 1 if every job gets its share,
    /// 1/n if one of n jobs gets everything. `None` if no job has a competitor.
    pub(crate) fn jain_bandwidth(&self) -> Option<f64> {
        self.jain_of(|share| Some(share.bandwidth))
    }

    /// Returns Jain's index over device time got divided by share due; otherwise as
    /// [`Self::jain_bandwidth`].
    pub(crate) fn jain_device_time(&self) -> Option<f64> {
        self.jain_of(|share| share.device_time)
    }

    fn jain_of(&self, part: impl Fn(&Share) -> Option<Part>) -> Option<f64> {
        let contested = self.shares.iter().filter(|share| share.rivals > 1);
        contested
            .map(|share| part(share).map(|part| ratio(part.got, part.due)))
            .collect::<Option<Vec<_>>>()
            .and_then(|all| jain(&all))
    }
}

/// Returns Jain's index of fairness, the square of Σx over n · Σx²: from 1/n to 1, independent of
/// the unit of the values. If all values are 0 the index is 1; without values it is `None`. (R.
/// Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness and Discrimination, 1984.)
pub(crate) fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|x| x * x).sum();
    match values.len() {
        0 => None,
        _ if squares == 0.0 => Some(1.0),
        n => Some(sum * sum / (n as f64 * squares)),
    }
}

/// Formats the class and weight of a job, and its cgroup's weight if it has a cgroup: `BE 80`, `RT
/// 40`, `tenants/a 300: BE 40`.
pub(crate) fn claim_words(claim: &Claim) -> String {
    let class = match claim.class {
        PrioClass::Rt => "RT",
        PrioClass::None | PrioClass::Be => "BE",
        PrioClass::Idle => "IDLE",
    };
    match claim.cgroups.last() {
        Some((path, weight)) => format!("{path} {weight}: {class} {}", claim.weight),
        None => format!("{class} {}", claim.weight),
    }
}

/// Returns the class in which a claim competes. A job in a cgroup competes as best effort, whatever
/// its own class.
fn level_of(claim: &Claim) -> PrioClass {
    match claim.class {
        PrioClass::Rt | PrioClass::Idle if claim.cgroups.is_empty() => claim.class,
        PrioClass::None | PrioClass::Rt | PrioClass::Be | PrioClass::Idle => PrioClass::Be,
    }
}

/// Numbers the jobs by contest: two jobs have the same number if they ran at the same time, or if a
/// chain of other jobs connects them.
fn contests(jobs: &[JobResult]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&at| jobs[at].start);
    let mut contests = vec![0; jobs.len()];
    let (mut contest, mut reached) = (0, Instant::ZERO);
    for at in order {
        contest += usize::from(jobs[at].start >= reached);
        reached = reached.max(jobs[at].end);
        contests[at] = contest;
    }
    contests
}

/// Returns the bytes per second that a job read and wrote: trims transfer none.
fn job_bandwidth(job: &JobResult) -> f64 {
    let [read, write] =
        [Direction::Read, Direction::Write].map(|at| &job.stats.directions[at as usize]);
    ratio((read.bytes + write.bytes) as f64 * 1e9, read.runtime_ns.max(write.runtime_ns) as f64)
}

/// Returns the mean number of the job's requests in the device while the job ran.
fn occupancy(job: &JobResult) -> f64 {
    ratio(
        job.device_time.map_or(0.0, |time| time.get() as f64),
        job.end.since(job.start).get() as f64,
    )
}

#[cfg(test)]
mod tests {
    use elevon_core::units::Nanos;

    use super::*;
    use crate::sample::weighted_run;

    fn near(a: Option<f64>, b: f64) {
        assert!(a.is_some_and(|a| (a - b).abs() < 1e-9), "{a:?} is not {b}");
    }

    #[test]
    fn trims_are_no_bandwidth() {
        let mut run = weighted_run(&[("a", 40, 100), ("b", 40, 300)]);
        let before = fairness(&run).expect("rivals").shares[1].bandwidth.got;
        run.jobs[0].stats.directions[Direction::Trim as usize].bytes = 1 << 40;
        near(Some(fairness(&run).expect("rivals").shares[1].bandwidth.got), before);
    }

    #[test]
    fn jain_from_all_equal_to_one_takes_all() {
        for n in 1..10 {
            near(jain(&vec![0.3; n]), 1.0);
            let mut greedy = vec![0.0; n];
            greedy[n - 1] = 7.0;
            near(jain(&greedy), 1.0 / n as f64);
        }
        assert_eq!(jain(&[]), None);
        near(jain(&[0.0, 0.0]), 1.0);
        // If k of n values are equal and the others 0, the index is k/n.
        near(jain(&[1.0, 1.0, 1.0, 0.0]), 0.75);
    }

    #[test]
    fn shares_by_weight_are_fair_and_equal_shares_are_not() {
        let by_weight = fairness(&weighted_run(&[("a", 80, 800), ("b", 40, 400), ("c", 10, 100)]))
            .expect("weights");
        near(by_weight.jain_bandwidth(), 1.0);
        near(by_weight.jain_device_time(), 1.0);
        let dues: Vec<f64> = by_weight.shares.iter().map(|share| share.bandwidth.due).collect();
        for (due, expected) in dues.iter().zip([80.0 / 130.0, 40.0 / 130.0, 10.0 / 130.0]) {
            near(Some(*due), expected);
        }
        // Got divided by due is 13/24, 13/12 and 13/3; the index follows from their sum of squares.
        let equal = fairness(&weighted_run(&[("a", 80, 500), ("b", 40, 500), ("c", 10, 500)]))
            .expect("weights");
        let x: [f64; 3] = [13.0 / 24.0, 13.0 / 12.0, 13.0 / 3.0];
        let sum: f64 = x.iter().sum();
        near(equal.jain_bandwidth(), sum * sum / (3.0 * x.iter().map(|x| x * x).sum::<f64>()));
    }

    #[test]
    fn one_that_takes_all_of_n_has_an_index_of_its_due() {
        let run = weighted_run(&[("a", 40, 1000), ("b", 40, 0), ("c", 40, 0), ("d", 40, 0)]);
        near(fairness(&run).and_then(|f| f.jain_bandwidth()), 0.25);
    }

    #[test]
    fn nothing_is_said_without_weights_or_rivals() {
        let mut run = weighted_run(&[("a", 40, 100), ("b", 40, 100)]);
        for job in &mut run.jobs {
            job.claim.as_mut().expect("a claim").given = false;
        }
        assert_eq!(fairness(&run), None);
        assert_eq!(fairness(&weighted_run(&[("alone", 80, 100)])), None);
    }

    #[test]
    fn jobs_that_ran_one_after_another_do_not_compete() {
        let mut run =
            weighted_run(&[("a", 80, 100), ("b", 10, 100), ("later", 40, 100), ("last", 40, 300)]);
        for job in &mut run.jobs[2..] {
            (job.start, job.end) = (Instant::new(10_000_000_000), Instant::new(20_000_000_000));
        }
        let found = fairness(&run).expect("weights");
        let dues: Vec<f64> = found.shares.iter().map(|share| share.bandwidth.due).collect();
        assert_eq!((dues[2], dues[3]), (0.5, 0.5));
        near(Some(found.shares[3].bandwidth.got), 0.75);
        near(Some(dues[0]), 8.0 / 9.0);
    }

    #[test]
    fn a_part_counts_while_the_others_run_and_none_beside_a_higher_class() {
        let mut run = weighted_run(&[("a", 80, 100), ("b", 40, 100), ("late", 40, 100)]);
        let whole = run.jobs[0].end.since(run.jobs[0].start).get();
        run.jobs[2].start = run.jobs[0].start + Nanos::new(whole / 2);
        let parts = parts_of_weights(&run.jobs);
        for (part, expected) in parts.iter().zip([(2.0 / 3.0 + 0.5) / 2.0, 7.0 / 24.0, 0.25]) {
            near(Some(*part), expected);
        }
        run.jobs[2].claim.as_mut().expect("a claim").class = PrioClass::Rt;
        let parts = parts_of_weights(&run.jobs);
        for (part, expected) in parts.iter().zip([1.0 / 3.0, 1.0 / 6.0, 1.0]) {
            near(Some(*part), expected);
        }
    }

    #[test]
    fn classes_are_apart_and_a_cgroup_is_one_among_the_best_effort() {
        let mut run = weighted_run(&[
            ("rt", 40, 900),
            ("a", 40, 10),
            ("b", 40, 20),
            ("c", 80, 30),
            ("lone", 100, 20),
        ]);
        run.jobs[0].claim.as_mut().expect("a claim").class = PrioClass::Rt;
        let cgroup = |path: &str, weight| (path.to_owned(), weight);
        for (at, cgroups) in [
            (1, vec![cgroup("x", 100)]),
            (2, vec![cgroup("y", 200), cgroup("y/z", 300)]),
            (3, vec![cgroup("y", 200)]),
        ] {
            run.jobs[at].claim.as_mut().expect("a claim").cgroups = cgroups;
        }
        let found = fairness(&run).expect("weights");
        let dues: Vec<f64> = found.shares.iter().map(|share| share.bandwidth.due).collect();
        // The second is due 100 of 400, the third and fourth divide 200 of 400 by 300 : 80, and the
        // fifth is due 100 of 400.
        for (due, expected) in
            dues.iter().zip([1.0, 0.25, 0.5 * 300.0 / 380.0, 0.5 * 80.0 / 380.0, 0.25])
        {
            near(Some(*due), expected);
        }
        near(Some(found.shares[3].bandwidth.got), 30.0 / 80.0);
        assert_eq!(claim_words(run.jobs[3].claim.as_ref().expect("a claim")), "y 200: BE 80");
        assert_eq!(claim_words(run.jobs[0].claim.as_ref().expect("a claim")), "RT 40");
    }

    #[test]
    fn unknown_device_time_is_left_out() {
        let mut run = weighted_run(&[("a", 80, 100), ("b", 10, 100)]);
        run.jobs[1].device_time = None;
        let found = fairness(&run).expect("weights");
        assert_eq!((found.shares[0].device_time, found.jain_device_time()), (None, None));
        run.jobs[1].device_time = Some(Nanos::ZERO);
        near(fairness(&run).and_then(|f| f.shares[0].device_time.map(|part| part.got)), 1.0);
    }
}
