//! What a run did: of each job, of the device, and over time.

use elevon_cache::stats::CacheUse;
use elevon_core::account::DiskStats;
use elevon_core::stats::JobStats;
use elevon_core::units::{Instant, Nanos};

use super::Runner;
use super::layer::Layer;
use crate::backend::Backend;
use crate::by_owner::OwnerSeries;
use crate::logs::Logger;
use crate::series::Series;
use crate::source::Source;

/// What a job has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// I/Os completed, by direction.
    pub ios: [u64; 3],
    /// Bytes completed, by direction.
    pub bytes: [u64; 3],
    /// I/Os prepared or in flight.
    pub in_flight: usize,
    /// Share of its work that is done, in thousandths.
    pub per_mille: u64,
    /// Whether it has started and is not over.
    pub running: bool,
}

/// Why a run ended before its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedEarly {
    /// The user interrupted it; everything in flight was waited for.
    Interrupted,
    /// Nothing can happen any more though I/Os are in flight: the device forgot them.
    Stuck,
    /// Time does not move: I/O costs nothing and a job ends by time only.
    NoProgress,
}

/// What one process did.
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
    /// When it started; `None` where it never did.
    pub start: Option<Instant>,
    /// When it was over.
    pub end: Option<Instant>,
    /// Its figures.
    pub stats: JobStats,
    /// Its page cache statistics, if it went through a page cache.
    pub cache_use: Option<Box<CacheUse>>,
    /// Its logs, where it kept any.
    pub logs: Option<Logger>,
}

/// A run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// Every process, by task.
    pub jobs: Vec<JobOutcome>,
    /// When the run began.
    pub started: Instant,
    /// When the last process was over.
    pub ended: Instant,
    /// The run over time.
    pub series: Series,
    /// Each job and tenant over time, of a run with tenants.
    pub owners: OwnerSeries,
    /// The device's statistics at the start.
    pub disk_start: DiskStats,
    /// The device's statistics at the end.
    pub disk_end: DiskStats,
    /// How long the scheduler's lock for the whole device was held; zero where that is not
    /// modelled.
    pub scheduler_lock: Nanos,
    /// Set if the run ended before its jobs.
    pub ended_early: Option<EndedEarly>,
}

impl<B: Backend, L: Layer<S>, S: Source> Runner<'_, B, L, S> {
    /// The run as it stands.
    pub(super) fn snapshot(&mut self, now: Instant) -> RunOutcome {
        let jobs = self.jobs.members.iter().zip(&self.jobs.processes).map(|(member, process)| JobOutcome {
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
        });
        RunOutcome {
            jobs: jobs.collect(),
            started: self.started,
            ended: now,
            series: self.series.clone(),
            owners: self.owners.clone(),
            disk_start: self.disk_start,
            disk_end: self.stack.disk_stats(now),
            scheduler_lock: self.scheduler_lock.held(),
            ended_early: self.ended_early,
        }
    }

    /// The run at its end.
    pub(super) fn outcome(mut self) -> RunOutcome {
        self.pass_events();
        let now = self.backend.now();
        self.series.advance(now, self.stack.requests_in_flight());
        let mut outcome = self.snapshot(now);
        for (job, process) in outcome.jobs.iter_mut().zip(&self.jobs.processes) {
            job.logs = process.logger().cloned();
        }
        outcome.ended = outcome.jobs.iter().filter_map(|job| job.end).max().unwrap_or(now);
        outcome
    }
}
