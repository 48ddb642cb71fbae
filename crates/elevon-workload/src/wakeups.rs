//! The instants at which processes must be woken: a tournament tree with the earliest at the root.
//! Setting one costs O(log processes), and nothing for a single process. Equal instants come out by
//! process number.

use elevon_core::units::Instant;

#[derive(Clone, Debug)]
pub(crate) struct Wakeups {
    /// A full binary tree in an array: the leaves are the processes, and each node is the earlier
    /// of its two children.
    tree: Vec<Instant>,
    leaves: usize,
}

impl Wakeups {
    pub(crate) fn new(processes: usize) -> Self {
        let leaves = processes.max(1).next_power_of_two();
        Self { tree: vec![Instant::MAX; 2 * leaves], leaves }
    }

    /// Sets the wake-up of a process; `Instant::MAX` for never.
    #[inline]
    pub(crate) fn set(&mut self, process: usize, at: Instant) {
        let mut node = self.leaves + process;
        if self.tree[node] == at {
            return;
        }
        self.tree[node] = at;
        while node > 1 {
            node /= 2;
            let earliest = self.tree[2 * node].min(self.tree[2 * node + 1]);
            if self.tree[node] == earliest {
                break;
            }
            self.tree[node] = earliest;
        }
    }

    #[inline]
    pub(crate) fn earliest(&self) -> Instant {
        self.tree[1]
    }

    /// Returns a process that is due, and removes its wake-up.
    #[inline]
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<usize> {
        if self.tree[1] > now || self.tree[1] == Instant::MAX {
            return None;
        }
        let mut node = 1;
        while node < self.leaves {
            node *= 2;
            node += usize::from(self.tree[node] > now);
        }
        self.set(node - self.leaves, Instant::MAX);
        Some(node - self.leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Rng;

    #[test]
    fn against_a_scan() {
        for count in [1, 2, 5, 8, 33] {
            let mut rng = Rng::new(count as u64);
            let (mut wakeups, mut naive) = (Wakeups::new(count), vec![Instant::MAX; count]);
            for step in 0..2000u64 {
                let process = rng.below(count as u64) as usize;
                let at = if rng.below(4) == 0 {
                    Instant::MAX
                } else {
                    Instant::new(step + rng.below(50))
                };
                wakeups.set(process, at);
                naive[process] = at;
                assert_eq!(wakeups.earliest(), *naive.iter().min().expect("some"));
                let now = Instant::new(step);
                if rng.below(3) == 0 {
                    while let Some(due) = wakeups.pop_due(now) {
                        // The lowest number of the processes that are due.
                        assert_eq!(Some(due), naive.iter().position(|&at| at <= now));
                        naive[due] = Instant::MAX;
                    }
                    assert!(naive.iter().all(|&at| at > now));
                }
            }
        }
    }
}
