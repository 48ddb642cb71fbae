//! The loop's readings of each job and each tenant over time.

use elevon_core::stack::Stack;
use elevon_core::units::{Instant, TenantId};

use super::Runner;
use super::layer::Layer;
use crate::backend::Backend;
use crate::jobs::Jobs;
use crate::readings::{Progressed, Readings};
use crate::source::Source;

/// The maximum number of intervals, if there are few rows; even.
const MAX_INTERVALS: usize = 256;
/// The minimum number of intervals, however many rows there are; even.
const MIN_INTERVALS: usize = 16;
/// The maximum number of readings of all rows together.
const ALL: usize = 1 << 16;

/// Returns the series of processes and tenants, if the run has tenants; otherwise a series without
/// rows.
pub(super) fn series<S: Source>(now: Instant, stack: &Stack, jobs: &Jobs<S>) -> Readings<Progressed> {
    let rows = if stack.control().is_watched() { jobs.processes().len() + jobs.tenants().len() + 1 } else { 0 };
    Readings::new(now, rows, (ALL / rows.max(1)).clamp(MIN_INTERVALS, MAX_INTERVALS) & !1)
}

impl<B: Backend, L: Layer<S>, S: Source> Runner<'_, B, L, S> {
    /// Returns the values of all rows now.
    fn progressed(&self) -> Vec<Progressed> {
        let of_jobs = self.jobs.processes().iter().map(Source::progressed);
        let of_tenants = (0..=self.jobs.tenants().len() as u32).map(|tenant| {
            let counters = self.stack.control().statistics().counters(TenantId(tenant));
            Progressed { ios: counters.ios, bytes: counters.bytes }
        });
        of_jobs.chain(of_tenants).collect()
    }

    /// Records a reading at the end of an interval.
    #[cold]
    pub(super) fn read_owners(&mut self, now: Instant) {
        let rows = self.progressed();
        self.owners.read(now, &rows);
    }

    /// Records the last reading when the jobs have finished.
    pub(super) fn finish_owners(&mut self, now: Instant) {
        if self.owners.rows() > 0 {
            let rows = self.progressed();
            self.owners.finish(now, &rows);
        }
    }
}
