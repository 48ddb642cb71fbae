//! What a run keeps over time: the series of the device, readings of each job and each tenant, and
//! the end of the ramp.

use elevon_core::account::DiskStats;
use elevon_core::stack::Stack;
use elevon_core::units::{Instant, TenantId};

use super::layer::Layer;
use crate::jobs::Jobs;
use crate::readings::{Progressed, Readings};
use crate::series::{Load, Series};
use crate::source::Source;

/// The maximum number of intervals, if there are few rows; even.
const MAX_INTERVALS: usize = 256;
/// The minimum number of intervals, however many rows there are; even.
const MIN_INTERVALS: usize = 16;
/// The maximum number of readings of all rows together.
const ALL: usize = 1 << 16;

/// The run until the present instant.
pub(super) struct Timeline {
    pub(super) series: Series,
    /// Each process over time, then each tenant if the run has any; without rows if the run is one
    /// process without tenants.
    pub(super) owners: Readings<Progressed>,
    pub(super) started: Instant,
    pub(super) disk_start: DiskStats,
    /// The end of the ramp of the jobs that start with the run, where the device's statistics
    /// begin anew; `Instant::MAX` if there is none, or it is over.
    ramp_end: Instant,
    /// The present instant: what is kept over time has been advanced to it.
    pub(super) now: Instant,
    /// Steps at this instant.
    pub(super) steps: u64,
}

impl Timeline {
    /// Begins a run.
    pub(super) fn new<S: Source>(now: Instant, stack: &mut Stack, jobs: &Jobs<S>) -> Self {
        let processes = jobs.processes().len();
        let rows = if stack.control().is_watched() {
            processes + jobs.tenants().len() + 1
        } else if processes > 1 {
            processes
        } else {
            0
        };
        let intervals = (ALL / rows.max(1)).clamp(MIN_INTERVALS, MAX_INTERVALS) & !1;
        Self {
            series: Series::new(now, load_of(stack, now)),
            owners: Readings::new(now, rows, intervals),
            started: now,
            disk_start: stack.disk_stats(now),
            ramp_end: jobs.first_ramp().map_or(Instant::MAX, |ramp| now.saturating_add(ramp)),
            now,
            steps: 0,
        }
    }

    /// Advances to an instant that has just come, before anything happens at it.
    #[inline]
    pub(super) fn advance<S: Source, L: Layer<S>>(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        jobs: &Jobs<S>,
        layer: &mut L,
    ) {
        if now >= self.ramp_end {
            self.disk_start = stack.disk_stats(self.ramp_end);
            self.ramp_end = Instant::MAX;
        }
        self.series.advance(now, || load_of(stack, now));
        if self.owners.is_due(now) {
            self.read_owners(now, stack, jobs);
        }
        layer.on_time(now);
        (self.now, self.steps) = (now, 0);
    }

    /// Records a reading of jobs and tenants at the end of an interval.
    #[cold]
    fn read_owners<S: Source>(&mut self, now: Instant, stack: &Stack, jobs: &Jobs<S>) {
        self.owners.read(now, &self.progressed(stack, jobs));
    }

    /// Records the last reading when the jobs have finished.
    pub(super) fn finish<S: Source>(&mut self, now: Instant, stack: &Stack, jobs: &Jobs<S>) {
        if self.owners.rows() > 0 {
            self.owners.finish(now, &self.progressed(stack, jobs));
        }
    }

    /// Brings the series up to date for a report at `now`.
    pub(super) fn update(&mut self, now: Instant, stack: &Stack) {
        self.series.update(now, load_of(stack, now));
    }

    /// Returns what each process and each tenant has done by now, in the order of the rows.
    fn progressed<S: Source>(&self, stack: &Stack, jobs: &Jobs<S>) -> Vec<Progressed> {
        let of_processes = jobs.processes().iter().map(Source::progressed);
        let of_tenants = (0..=jobs.tenants().len() as u32).map(|tenant| {
            let done = stack.control().statistics().done(TenantId(tenant));
            Progressed { ios: done.ios, bytes: done.bytes }
        });
        of_processes.chain(of_tenants).take(self.owners.rows()).collect()
    }
}

/// Returns the requests in flight until `now`.
fn load_of(stack: &Stack, now: Instant) -> Load {
    let accounting = stack.accounting();
    Load { in_flight: accounting.outstanding(), integral: accounting.outstanding_integral(now) }
}
