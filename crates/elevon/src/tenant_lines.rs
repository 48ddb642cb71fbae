//! Lines of `--iostat` for tenants: the I/O that the jobs of each completed since the previous
//! line.

use std::fmt::Write as _;

use elevon_core::units::Instant;
use elevon_workload::jobs::Roster;
use elevon_workload::run::Progress;

/// Maximum number of tenants with a line; a report has all.
const MAX_TENANTS_SHOWN: usize = 32;

/// The tenants, and the counts at the previous line.
#[derive(Debug, Default)]
pub(crate) struct TenantLines {
    /// Paths of the tenants of the jobs.
    paths: Vec<String>,
    /// Index in `paths` of each task's tenant.
    of_task: Vec<Option<usize>>,
    /// Reads and writes, then their bytes, by tenant.
    last: Vec<[u64; 4]>,
    last_at: Instant,
}

impl TenantLines {
    /// Creates the lines for jobs that start now.
    pub(crate) fn new(jobs: &Roster<'_>) -> Self {
        let mut lines = Self::default();
        for member in jobs.members {
            let path = member.tenant.index().checked_sub(1).map(|at| jobs.tenants[at].path.clone());
            let at = path.and_then(|path| {
                let known = lines.paths.iter().position(|known| *known == path);
                known.or_else(|| {
                    (lines.paths.len() < MAX_TENANTS_SHOWN)
                        .then(|| lines.paths.push(path))
                        .map(|()| lines.paths.len() - 1)
                })
            });
            lines.of_task.push(at);
        }
        lines.last = vec![[0; 4]; lines.paths.len()];
        lines
    }

    /// Returns a line for each tenant; empty if there are none. If `has_header` is true, it starts
    /// with the column heads.
    pub(crate) fn text(&mut self, now: Instant, jobs: &[Progress], has_header: bool) -> String {
        let mut sums = vec![[0; 4]; self.paths.len()];
        for (progress, of) in jobs.iter().zip(&self.of_task) {
            if let Some(at) = *of {
                let Progress { ios, bytes, .. } = progress;
                let sum: &mut [u64; 4] = &mut sums[at];
                for (sum, value) in sum.iter_mut().zip([ios[0], ios[1], bytes[0], bytes[1]]) {
                    *sum += value;
                }
            }
        }
        let mut out = String::new();
        let width = self.paths.iter().map(|path| path.chars().count()).max().unwrap_or(0).max(6);
        if has_header && !self.paths.is_empty() {
            let _ = writeln!(
                out,
                "{:<width$} {:>10} {:>12} {:>10} {:>12}",
                "Tenant", "r/s", "rkB/s", "w/s", "wkB/s"
            );
        }
        let seconds = now.since(self.last_at).get() as f64 / 1e9;
        for ((path, sum), last) in self.paths.iter().zip(&sums).zip(&self.last) {
            let rate =
                |n: usize| if seconds > 0.0 { (sum[n] - last[n]) as f64 / seconds } else { 0.0 };
            let [r, w, rkb, wkb] = [rate(0), rate(1), rate(2) / 1024.0, rate(3) / 1024.0];
            let _ = writeln!(out, "{path:<width$} {r:>10.2} {rkb:>12.2} {w:>10.2} {wkb:>12.2}");
        }
        (self.last, self.last_at) = (sums, now);
        out
    }
}
