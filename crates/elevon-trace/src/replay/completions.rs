//! The completions of a process in order, and its I/Os between them.

use super::WorkloadIo;

/// When I/Os of a process completed, in order.
pub(super) struct Completions {
    pub(super) ends: Vec<u64>,
}

/// I/Os of a process with none of its completions in between.
pub(super) struct Burst {
    /// Index of the first of them, and of the first I/O after them.
    pub(super) first: usize,
    pub(super) end: usize,
    /// Number of completions until the first of them.
    pub(super) seen: usize,
}

impl Completions {
    /// Sorts these times of completions.
    pub(super) fn new(ends: impl IntoIterator<Item = u64>) -> Self {
        let mut ends: Vec<u64> = ends.into_iter().collect();
        ends.sort_unstable();
        Self { ends }
    }

    /// Returns the number of completions until `at`; `seen` is that of an earlier time, or 0.
    pub(super) fn seen_until(&self, seen: usize, at: u64) -> usize {
        seen + self.ends[seen..].iter().take_while(|&&end| end <= at).count()
    }

    /// Returns the bursts of these I/Os, which are in order of time.
    pub(super) fn bursts(&self, ios: &[WorkloadIo]) -> impl Iterator<Item = Burst> {
        let (mut first, mut seen) = (0, 0);
        std::iter::from_fn(move || {
            seen = self.seen_until(seen, ios.get(first)?.at);
            let next_end = self.ends.get(seen).copied().unwrap_or(u64::MAX);
            let end = first + 1 + ios[first + 1..].iter().take_while(|io| io.at < next_end).count();
            let burst = Burst { first, end, seen };
            first = end;
            Some(burst)
        })
    }
}
