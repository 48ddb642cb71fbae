//! A queue of events ordered by (time, sequence), for completions and internal steps.
//!
//! Cost: O(1) for entries that arrive in order, or out of order by a few places, as from a device
//! of constant latency, one request size or little jitter; for others O(log n) in the number of
//! entries that arrived further out of order. Nothing is allocated once it has grown to its
//! maximum.

use std::collections::{BinaryHeap, VecDeque};

use elevon_core::units::Instant;

#[derive(Clone, Copy, Debug)]
struct QueuedEvent<T> {
    at: Instant,
    sequence: u64,
    item: T,
}

impl<T> QueuedEvent<T> {
    /// Time and sequence number as one number: compared without a branch, which would be
    /// unpredictable in a heap.
    #[inline]
    const fn key(&self) -> u128 {
        (self.at.get() as u128) << 64 | self.sequence as u128
    }
}
impl<T> PartialEq for QueuedEvent<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<T> Eq for QueuedEvent<T> {}
impl<T> PartialOrd for QueuedEvent<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
    #[inline]
    fn lt(&self, other: &Self) -> bool {
        other.key() < self.key()
    }
    #[inline]
    fn le(&self, other: &Self) -> bool {
        other.key() <= self.key()
    }
    #[inline]
    fn gt(&self, other: &Self) -> bool {
        other.key() > self.key()
    }
    #[inline]
    fn ge(&self, other: &Self) -> bool {
        other.key() >= self.key()
    }
}
impl<T> Ord for QueuedEvent<T> {
    /// Reversed, so that the heap's top is the earliest.
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        other.key().cmp(&self.key())
    }
}

/// How far out of order an entry may arrive to be put in the ring: beyond this a heap is cheaper.
const NEARLY: usize = 24;

/// A queue ordered by (time, sequence). Two entries never share a sequence number.
#[derive(Clone, Debug)]
pub(crate) struct EventQueue<T> {
    /// Entries that arrived in order or nearly in order.
    ring: VecDeque<QueuedEvent<T>>,
    /// The other entries.
    heap: BinaryHeap<QueuedEvent<T>>,
}

impl<T: Copy> EventQueue<T> {
    /// Returns an empty queue with room for `capacity` entries.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { ring: VecDeque::with_capacity(capacity), heap: BinaryHeap::new() }
    }

    /// Adds `item` at `at`.
    #[inline]
    pub(crate) fn push(&mut self, at: Instant, sequence: u64, item: T) {
        let entry = QueuedEvent { at, sequence, item };
        let key = entry.key();
        let before =
            self.ring.iter().rev().take(NEARLY + 1).take_while(|other| other.key() > key).count();
        if before > NEARLY {
            self.heap.push(entry);
            return;
        }
        self.ring.push_back(entry);
        let last = self.ring.len() - 1;
        for place in (last - before..last).rev() {
            self.ring.swap(place, place + 1);
        }
    }

    /// Returns true if the earliest entry is in the heap.
    #[inline]
    fn heap_first(&self) -> bool {
        match (self.ring.front(), self.heap.peek()) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(ring), Some(heap)) => heap.key() < ring.key(),
        }
    }

    /// Returns when the earliest entry is due.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<Instant> {
        if self.heap_first() { self.heap.peek() } else { self.ring.front() }.map(|entry| entry.at)
    }

    /// Returns the earliest entry, with its time.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Instant, T)> {
        if self.heap_first() { self.heap.peek() } else { self.ring.front() }
            .map(|entry| (entry.at, entry.item))
    }

    /// Removes the earliest entry if it is due at `now`, and returns it with its time.
    #[inline]
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        if self.heap_first() {
            let top = self.heap.peek()?;
            if top.at > now {
                return None;
            }
            return self.heap.pop().map(|entry| (entry.at, entry.item));
        }
        if self.ring.front()?.at > now {
            return None;
        }
        self.ring.pop_front().map(|entry| (entry.at, entry.item))
    }

    /// Removes the entry with a sequence number: O(n), for aborts.
    pub(crate) fn remove(&mut self, sequence: u64) -> Option<T> {
        if let Some(position) = self.ring.iter().position(|entry| entry.sequence == sequence) {
            return self.ring.remove(position).map(|entry| entry.item);
        }
        let found =
            self.heap.iter().find(|entry| entry.sequence == sequence).map(|entry| entry.item)?;
        self.heap.retain(|entry| entry.sequence != sequence);
        Some(found)
    }

    /// Returns the number of entries.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ring.len() + self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::mix64;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_sorted_map_on_random_steps() {
        let mut queue = EventQueue::with_capacity(4);
        let mut naive: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        let mut now = 0;
        for step in 0..20_000u64 {
            let chance = mix64(step);
            match chance % 8 {
                0..=3 => {
                    let at = now + (chance >> 8) % 50;
                    queue.push(Instant::new(at), step, step);
                    naive.insert((at, step), step);
                }
                4..=6 => {
                    now += (chance >> 8) % 20;
                    let expected = naive
                        .first_key_value()
                        .filter(|((at, _), _)| *at <= now)
                        .map(|(&key, _)| key);
                    let got = queue.pop_due(Instant::new(now)).map(|(at, item)| (at.get(), item));
                    assert_eq!(got, expected);
                    expected.map(|key| naive.remove(&key));
                }
                _ => {
                    let victim = naive
                        .iter()
                        .nth((chance >> 8) as usize % naive.len().max(1))
                        .map(|(&key, _)| key);
                    if let Some(key) = victim {
                        assert_eq!(queue.remove(key.1), naive.remove(&key));
                    }
                    assert_eq!(queue.remove(u64::MAX), None);
                }
            }
            assert_eq!(queue.len(), naive.len());
            assert_eq!(queue.next_at().map(Instant::get), naive.keys().next().map(|key| key.0));
        }
    }
}
