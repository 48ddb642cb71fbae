//! Parts of a workload.

use super::Workload;

impl Workload {
    /// Returns the number of I/Os.
    pub fn len(&self) -> usize {
        self.processes.iter().map(|process| process.ios.len()).sum()
    }

    /// Returns true if there is no I/O.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the times of all I/Os, in nanoseconds from the first, ascending.
    pub fn times(&self) -> Vec<u64> {
        let mut times: Vec<u64> =
            self.processes.iter().flat_map(|process| process.ios.iter().map(|io| io.at)).collect();
        times.sort_unstable();
        times
    }

    /// Returns the workload of a stretch of time: the I/Os that were queued from `from` to `until`
    /// inclusive, timed from `from`. Processes without an I/O in it are left out.
    pub fn between(&self, from: u64, until: u64) -> Self {
        let mut part = self.clone();
        for process in &mut part.processes {
            process.ios.retain(|io| (from..=until).contains(&io.at));
            if let Some(first) = process.ios.first_mut() {
                // The I/O whose plug it shared is not there.
                first.joins = false;
            }
        }
        part.processes.retain(|process| !process.ios.is_empty());
        part.begin_at(from, until);
        part
    }

    /// Counts the times of a part from `from`, at which its first I/O may come, and drops the time
    /// after `until`.
    pub(super) fn begin_at(&mut self, from: u64, until: u64) {
        for io in self.processes.iter_mut().flat_map(|process| &mut process.ios) {
            io.at -= from;
            io.completed = io.completed.map(|completed| completed.saturating_sub(from));
        }
        self.start += from;
        self.duration = self.duration.min(until).saturating_sub(from);
        self.gaps.retain(|&(begin, end)| end > from && begin < until);
        for (begin, end) in &mut self.gaps {
            (*begin, *end) = (begin.saturating_sub(from), end.saturating_sub(from));
        }
        self.crowds.begin_at(from, until);
    }
}
