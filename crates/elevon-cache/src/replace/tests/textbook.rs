//! Compares `s3-fifo` and `sieve` with a second implementation of their papers: both must have the
//! same hits on random traces.
//!
//! The number of pages is fixed, accesses come one at a time, and each miss evicts one page; no
//! page is locked or dirty.

use alloc::collections::VecDeque;

use super::*;

/// The front of each queue is the next key to be evicted.
#[derive(Default)]
struct S3 {
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    uses: BTreeMap<u64, u32>,
    /// Every key that left the small queue, the last one at the end; `None` replaces a key that
    /// returned. The last entries, as many as the main queue has keys, are the ghosts.
    left: Vec<Option<u64>>,
}

impl S3 {
    fn access(&mut self, key: u64, capacity: usize) -> bool {
        if let Some(uses) = self.uses.get_mut(&key) {
            *uses = 3.min(*uses + 1);
            return true;
        }
        if self.uses.len() == capacity {
            self.evict();
        }
        match self.left.iter_mut().rev().take(self.main.len()).find(|ghost| **ghost == Some(key)) {
            Some(ghost) => {
                *ghost = None;
                self.main.push_back(key);
            }
            None => self.small.push_back(key),
        }
        // The access that inserted the page is not counted, as in the paper.
        self.uses.insert(key, 0);
        false
    }

    fn evict(&mut self) {
        loop {
            if self.small.len() * 10 >= self.uses.len() {
                let key = self.small.pop_front().expect("a tenth");
                if self.uses[&key] > 1 {
                    self.uses.insert(key, 0);
                    self.main.push_back(key);
                    continue;
                }
                self.uses.remove(&key);
                self.left.push(Some(key));
                return;
            }
            let key = self.main.pop_front().expect("nine tenths");
            match self.uses[&key] {
                0 => {
                    self.uses.remove(&key);
                    return;
                }
                uses => {
                    self.uses.insert(key, uses - 1);
                    self.main.push_back(key);
                }
            }
        }
    }
}

/// The queue is ordered from the oldest key on; the hand is an index.
#[derive(Default)]
struct Sieves {
    queue: Vec<(u64, bool)>,
    hand: usize,
}

impl Sieves {
    fn access(&mut self, key: u64, capacity: usize) -> bool {
        if let Some(page) = self.queue.iter_mut().find(|page| page.0 == key) {
            page.1 = true;
            return true;
        }
        if self.queue.len() == capacity {
            while self.queue[self.hand].1 {
                self.queue[self.hand].1 = false;
                self.hand = (self.hand + 1) % capacity;
            }
            self.queue.remove(self.hand);
            self.hand %= capacity - 1;
        }
        self.queue.push((key, false));
        false
    }
}

/// Returns for each access of the trace whether it hits.
fn hits(policy: &str, trace: &[u64], capacity: u64) -> Vec<bool> {
    let mut memory = Resident::new(capacity, &ReplacementConfig::parse(policy).expect("a policy"));
    let mut out = Vec::new();
    trace
        .iter()
        .map(|&key| {
            if let Some(frame) = memory.find(FileId(0), PageIndex::new(key)) {
                memory.access(frame, Context::Read);
                return true;
            }
            if memory.free() == 0 {
                memory.evict(
                    Instant::ZERO,
                    Request { want: 1, priority: 0, by: Reclaimer::Direct },
                    &mut out,
                );
            }
            memory.insert(FileId(0), PageIndex::new(key), Context::Read).expect("one was evicted");
            memory.self_check();
            false
        })
        .collect()
}

/// Returns a trace in which keys near 0 are the most frequent, with occasional scans of many keys.
fn trace(seed: u64, keys: u64, length: usize) -> Vec<u64> {
    let mut rng = elevon_testkit::Rng(seed);
    let mut below = |n: u64| rng.below(n);
    let mut trace = Vec::new();
    while trace.len() < length {
        if below(300) == 0 {
            let first = below(keys);
            trace.extend((first..first + 60).map(|key| key % keys));
        }
        let reach = below(keys) + 1;
        trace.push(below(reach));
    }
    trace
}

#[test]
fn hits_are_those_of_the_papers() {
    for seed in 1..=6 {
        let (capacity, keys) = (20 + 30 * seed, 64 * seed + 100);
        let trace = trace(seed, keys, 4_000);
        let (mut s3, mut sieves) = (S3::default(), Sieves::default());
        let expected: Vec<_> = trace.iter().map(|&key| s3.access(key, capacity as usize)).collect();
        let share = expected.iter().filter(|&&hit| hit).count() * 100 / trace.len();
        assert!((20..95).contains(&share), "{share} % hits");
        let first =
            hits("s3-fifo", &trace, capacity).iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(first, None, "seed {seed}");
        let expected: Vec<_> =
            trace.iter().map(|&key| sieves.access(key, capacity as usize)).collect();
        let first = hits("sieve", &trace, capacity).iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(first, None, "seed {seed}");
    }
}
