//! A part of a workload that a user selects.

use super::{Workload, WorkloadIo};
use crate::select::{SelectError, Selection};

impl Workload {
    /// Returns what is selected of the workload: the I/Os that the selected processes and cgroups
    /// queued in the window, timed from the first of them. Other processes are left out.
    ///
    /// # Errors
    /// Returns an error for a process or a cgroup that is not there, and if nothing is selected.
    pub fn select(&self, selection: &Selection) -> Result<Self, SelectError> {
        let processes = self.processes.iter().map(|process| (process.name.as_deref(), process.id));
        selection.check(processes, &self.cgroups())?;
        let mut part = self.clone();
        let since = |io: &WorkloadIo| io.at + self.start;
        let (mut before, mut after) = (None, None);
        for process in &mut part.processes {
            let is_wanted = selection.has_process(process.name.as_deref(), process.id);
            // Whether an I/O of the plug so far is kept.
            let mut is_plug_begun = false;
            process.ios.retain_mut(|io| {
                is_plug_begun &= io.joins;
                if !selection.has_owner(is_wanted, io.cgroup) {
                    return false;
                }
                let at = since(io);
                if !selection.contains(at) {
                    match selection.from {
                        Some(from) if at < from => before = before.max(Some(at)),
                        _ => after = Some(after.map_or(at, |known: u64| known.min(at))),
                    }
                    return false;
                }
                io.joins = is_plug_begun;
                is_plug_begun = true;
                true
            });
            process.cgroup = process.ios.iter().find_map(|io| io.cgroup);
        }
        part.processes.retain(|process| !process.ios.is_empty());
        let first = part.processes.iter().flat_map(|process| &process.ios).map(|io| io.at).min();
        let first = first.ok_or_else(|| selection.nothing(before, after))?;
        let until = selection.until.map_or(u64::MAX, |until| until.saturating_sub(self.start));
        part.begin_at(first, until);
        Ok(part)
    }

    /// Returns the cgroups of the I/Os, ascending.
    pub fn cgroups(&self) -> Vec<u64> {
        let ios = self.processes.iter().flat_map(|process| &process.ios);
        let mut all: Vec<u64> = ios.filter_map(|io| io.cgroup).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
