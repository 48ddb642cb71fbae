//! CPU time of I/O: the time that a process spends, and the lock that a scheduler holds per device.
//!
//! Each task has its own CPU. A scheduler's work for a request (insert, dispatch, completion) is
//! charged to the task that submits it. BFQ does a part of it under one lock per device; a task
//! that wants the lock while another task holds it spins, which is CPU time too. So all tasks
//! together submit at most one request per `locked`.

use elevon_core::units::{Instant, Nanos};

/// CPU time of one I/O, spent by its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCost {
    /// From the decision to do the I/O to its submission, without a scheduler.
    pub submit: Nanos,
    /// From the interrupt until the process has the result.
    pub complete: Nanos,
    /// The CPU time that a scheduler adds to the submission.
    pub scheduler: SchedulerCost,
    /// From when to when a process runs after it was woken, by a completion or for a tag; drawn
    /// evenly in between. It uses no CPU time meanwhile.
    pub wakes: (Nanos, Nanos),
    /// The same of a process that waited for a tag; `None` for `wakes`.
    pub tag_wakes: Option<(Nanos, Nanos)>,
    /// Whether each process draws its `wakes` apart from those of others.
    pub wakes_by_process: bool,
    /// A process that was woken runs at a multiple of this time after its start: both times, when
    /// it is woken and the time until it runs, count in whole steps. Zero: at any time.
    pub wake_step: Nanos,
    /// After how many of a million dispatches by a process a worker of the driver runs before it.
    pub preempted: u64,
    /// From when to when after its wake-up a worker of the block layer runs; `None` if most run
    /// soon and some late.
    pub workers: Option<(Nanos, Nanos)>,
}

/// CPU time that a scheduler adds to each I/O, compared with submission without a scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerCost {
    /// All of that time.
    pub request: Nanos,
    /// The part of `request` spent under the scheduler's lock for the device.
    pub locked: Nanos,
}

impl CpuCost {
    /// That of `elevon run`, without a scheduler. Measured with fio 3.33 on Linux 6.18 (2 virtual
    /// CPUs of an AMD EPYC), for 4 KiB direct random reads of a file on ext4 at depth 32. A read
    /// takes 5.4 us of CPU with io_uring and libaio alike, about 4 us of them in the submission.
    pub const DEFAULT: Self = Self::new(Nanos::new(4_000), Nanos::new(1_400));

    /// Returns the cost without a scheduler.
    pub const fn new(submit: Nanos, complete: Nanos) -> Self {
        let scheduler = SchedulerCost { request: Nanos::ZERO, locked: Nanos::ZERO };
        let wakes = (Nanos::ZERO, Nanos::ZERO);
        Self {
            submit,
            complete,
            scheduler,
            wakes,
            tag_wakes: None,
            wakes_by_process: false,
            wake_step: Nanos::ZERO,
            preempted: 0,
            workers: None,
        }
    }

    /// Returns the CPU time from the decision to do an I/O to its submission.
    #[inline]
    pub(crate) fn of_submission(&self) -> Nanos {
        self.submit + self.scheduler.request
    }
}

impl SchedulerCost {
    /// Returns the cost of the scheduler with this sysfs name; zero for `none` and for an unknown
    /// name. BFQ costs less if its tunable `low_latency` is off.
    ///
    /// Source: `tests/data/scheduler-cpu` (fio 3.33, io_uring, Linux 6.18, one CPU of an AMD EPYC):
    /// the time of an I/O minus the time under `none`, the mean of the two cases of depth 8,
    /// rounded to 50 ns. The time that BFQ takes beyond Kyber, which has no lock for the device,
    /// counts as time under BFQ's lock; by that rule mq-deadline's is below what was measured.
    ///
    /// `aileron` is not in Linux. Its cost is an estimate: BFQ's measured time, by the ratio of the
    /// instructions that both take in Elevon beyond `none` in the same two cases. Like BFQ it
    /// has all of its state under one lock for the device.
    pub fn measured(scheduler: &str, low_latency: bool) -> Self {
        let (request, locked) = match (scheduler, low_latency) {
            ("mq-deadline" | "kyber", _) => (2_250, 0),
            ("bfq", true) => (7_550, 5_300),
            ("bfq", false) => (5_250, 3_000),
            ("aileron", _) => (7_150, 4_900),
            _ => (0, 0),
        };
        Self { request: Nanos::new(request), locked: Nanos::new(locked) }
    }
}

/// The lock that a scheduler holds for a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerLock {
    free_at: Instant,
    held: Nanos,
}

impl SchedulerLock {
    /// Holds the lock for `span` once it is free, from `now` on. Returns the instant at which it is
    /// released.
    pub fn hold(&mut self, now: Instant, span: Nanos) -> Instant {
        self.held += span;
        self.free_at = self.free_at.max(now).saturating_add(span);
        self.free_at
    }

    /// Returns the total time for which it was held.
    pub const fn held(&self) -> Nanos {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_by_one_after_the_other() {
        let mut lock = SchedulerLock::default();
        let (at, span) = (Instant::new, Nanos::new(5));
        assert_eq!([0, 0, 3, 100].map(|now| lock.hold(at(now), span)), [5, 10, 15, 105].map(at));
        assert_eq!(lock.held(), Nanos::new(20));
    }

    /// Returns the rows of a file of `tests/data/scheduler-cpu` with these words from column
    /// `first` on.
    fn rows(file: &str, first: usize, words: [&str; 3]) -> Vec<Vec<String>> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/scheduler-cpu/");
        let text = std::fs::read_to_string(format!("{folder}{file}")).expect("the measurement");
        let rows =
            text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        rows.filter(|row| row[first..first + 3] == words).collect()
    }

    /// Returns the microseconds of an I/O: the median of a case's rounds, and the mean of the cases
    /// of depth 8.
    fn measured_at_depth_8(scheduler: &str) -> f64 {
        let median = |processes: &str| {
            let rows = rows("results.txt", 1, [processes, "8", scheduler]);
            let mut times: Vec<f64> =
                rows.iter().map(|row| 1e6 / row[4].parse::<f64>().expect("IOPS")).collect();
            times.sort_by(f64::total_cmp);
            assert_eq!(times.len(), 6, "rounds of {scheduler}");
            f64::midpoint(times[2], times[3])
        };
        f64::midpoint(median("1"), median("4"))
    }

    /// Returns the instructions of an I/O beyond those under `none` in the same cases, on the
    /// device whose requests wait.
    fn instructions(scheduler: &str) -> f64 {
        let count = |processes: &str, scheduler: &str| {
            let rows = rows("instructions.txt", 1, [processes, "8", scheduler]);
            let row =
                rows.iter().find(|row| row[0].starts_with("slots:")).expect("a row of the case");
            row[4].parse::<f64>().expect("a number")
        };
        let beyond = |processes| count(processes, scheduler) - count(processes, "none");
        f64::midpoint(beyond("1"), beyond("4"))
    }

    /// Rounds microseconds to 50 ns.
    fn rounded(time: f64) -> u64 {
        (time / 0.05).round() as u64 * 50
    }

    #[test]
    fn the_defaults_follow_from_the_measurement() {
        let none = measured_at_depth_8("none");
        let kyber = rounded(measured_at_depth_8("kyber") - none);
        let check = |name: &str, low_latency, time: f64| {
            let request = rounded(time);
            let locked = Nanos::new(request.saturating_sub(kyber));
            let expected = SchedulerCost { request: Nanos::new(request), locked };
            assert_eq!(SchedulerCost::measured(name, low_latency), expected, "{name}");
        };
        for scheduler in ["none", "mq-deadline", "kyber", "bfq", "bfq-ll0"] {
            let (name, low_latency) = match scheduler.strip_suffix("-ll0") {
                Some(name) => (name, false),
                None => (scheduler, true),
            };
            check(name, low_latency, measured_at_depth_8(scheduler) - none);
        }
        let bfq = measured_at_depth_8("bfq") - none;
        check("aileron", true, bfq * instructions("aileron") / instructions("bfq"));
        assert_eq!(SchedulerCost::measured("unknown", true), SchedulerCost::default());
    }
}
