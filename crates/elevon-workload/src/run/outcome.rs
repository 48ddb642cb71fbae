//! The result of a run: per job, of the device, and over time.

use elevon_cache::stats::CacheUse;
use elevon_core::account::DiskStats;
use elevon_core::stats::JobStats;
use elevon_core::units::{Instant, Nanos};
use elevon_engine::Backend;

use super::Runner;
use super::layer::Layer;
use crate::logs::Logger;
use crate::readings::{Progressed, Readings};
use crate::series::Series;
use crate::source::Source;
use crate::steady::SteadyOutcome;

/// The progress of a job so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// I/Os completed, by direction.
    pub ios: [u64; 3],
    /// Bytes completed, by direction.
    pub bytes: [u64; 3],
    /// I/Os prepared or in flight.
    pub in_flight: usize,
    /// The share of its work that is done, in thousandths.
    pub per_mille: u64,
    /// True if it has started and not finished.
    pub running: bool,
}

/// The reason why a run ended before its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedEarly {
    /// The user interrupted it; the run waited for everything in flight.
    Interrupted,
    /// Nothing can happen any more: the device does not complete the I/Os in flight, or a process
    /// waits for a completion and no I/O is in flight.
    Stuck,
    /// Time does not advance: I/O takes no time and a job ends only by time.
    NoProgress,
}

/// The result of one process.
#[derive(Clone, Debug)]
pub struct JobOutcome {
    /// Index of its section in [`crate::jobs::Jobs::specs`].
    pub spec: usize,
    /// Index among the section's clones.
    pub clone: u32,
    /// Reporting group, from 0.
    pub group: u32,
    /// Name of the section.
    pub name: String,
    /// A number like a process id.
    pub number: u32,
    /// The instant at which it started; `None` if it never did.
    pub start: Option<Instant>,
    /// The instant at which it finished.
    pub end: Option<Instant>,
    /// Its statistics.
    pub stats: JobStats,
    /// Its page cache statistics, if it went through a page cache.
    pub cache_use: Option<Box<CacheUse>>,
    /// Its logs, if it kept any.
    pub logs: Option<Logger>,
    /// The queue depth that `latency_target` has arrived at.
    pub latency_depth: Option<u32>,
    /// What came of `steadystate`; for the jobs of a group with `group_reporting`, of all of them.
    pub steady: Option<SteadyOutcome>,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// All processes, by task.
    pub jobs: Vec<JobOutcome>,
    /// The instant at which the run began.
    pub started: Instant,
    /// The instant at which the last process finished.
    pub ended: Instant,
    /// The run over time.
    pub series: Series,
    /// Each job and tenant over time, in a run with tenants: a row for every process by task, then
    /// for every tenant of a job by number, the root first.
    pub owners: Readings<Progressed>,
    /// The device's statistics at the start.
    pub disk_start: DiskStats,
    /// The device's statistics at the end.
    pub disk_end: DiskStats,
    /// The time for which the scheduler's lock for the device was held; zero if the lock is not
    /// modelled.
    pub scheduler_lock: Nanos,
    /// The reason, if the run ended before its jobs.
    pub ended_early: Option<EndedEarly>,
}

impl<B: Backend, L: Layer<S>, S: Source> Runner<'_, B, L, S> {
    /// Returns the result of the run so far.
    pub(super) fn snapshot(&mut self, now: Instant) -> RunOutcome {
        self.timeline.update(now, self.engine.stack());
        let all = self.jobs.members.iter().zip(&self.jobs.processes).enumerate();
        let jobs = all.map(|(task, (member, process))| JobOutcome {
            spec: member.spec,
            clone: member.clone,
            group: member.group,
            name: self.jobs.specs[member.spec].name.clone(),
            number: member.number,
            start: process.started(),
            end: process.ended(),
            stats: process.stats_at(now),
            cache_use: process.cache_used().cloned().map(Box::new),
            logs: None,
            latency_depth: process.latency_depth(),
            steady: self.jobs.steady.outcome(task),
        });
        RunOutcome {
            jobs: jobs.collect(),
            started: self.timeline.started,
            ended: now,
            series: self.timeline.series.clone(),
            owners: self.timeline.owners.clone(),
            disk_start: self.timeline.disk_start,
            disk_end: self.engine.stack_mut().disk_stats(now),
            scheduler_lock: self.scheduler_lock.held(),
            ended_early: self.ended_early,
        }
    }

    /// Returns the result of the finished run.
    pub(super) fn outcome(mut self) -> RunOutcome {
        self.pass_events();
        let now = self.engine.now();
        let mut outcome = self.snapshot(now);
        for (job, process) in outcome.jobs.iter_mut().zip(&self.jobs.processes) {
            job.logs = process.logger().cloned();
        }
        outcome.ended = outcome.jobs.iter().filter_map(|job| job.end).max().unwrap_or(now);
        outcome
    }
}
