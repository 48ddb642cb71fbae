//! Tells writes that go on where another ended from scattered ones.
//!
//! A controller appends whatever it is given, so the number of streams that it serves has no limit
//! of its own; what it remembers of where writes ended has. The ends of [`ENDS`] writes are
//! remembered, in sets of eight by a hash of the place. A new end takes the oldest place of its
//! set, so that more streams than that lose a part of their speed and not all of it at once.
//!
//! Cost: O(1), eight comparisons a write.

use crate::chance::mix64;

/// Number of ends that are remembered. The parameter `scatter_cost` states it.
pub(super) const ENDS: usize = 256;
/// Ends in a set.
const WAYS: usize = 8;
const SETS: usize = ENDS / WAYS;

/// Ends of write streams.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    ends: [[u64; WAYS]; SETS],
    /// The place of the oldest end of each set.
    oldest: [u8; SETS],
}

impl Streams {
    pub(super) const fn new() -> Self {
        Self { ends: [[u64::MAX; WAYS]; SETS], oldest: [0; SETS] }
    }

    const fn set(position: u64) -> usize {
        mix64(position) as usize % SETS
    }

    /// Remembers where a write of `bytes` at `start` ends. Returns true if it goes on where another
    /// one ended.
    pub(super) fn go_on(&mut self, start: u64, bytes: u64) -> bool {
        let known = self.ends[Self::set(start)].iter_mut().find(|end| **end == start);
        let goes_on = known.is_some();
        // The stream ends elsewhere now.
        if let Some(end) = known {
            *end = u64::MAX;
        }
        let end = start + bytes;
        let set = Self::set(end);
        let ends = &mut self.ends[set];
        let place = ends.iter().position(|&end| end == u64::MAX).unwrap_or_else(|| {
            let oldest = self.oldest[set];
            self.oldest[set] = (oldest + 1) % WAYS as u8;
            oldest.into()
        });
        ends[place] = end;
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the share of writes that go on, of `streams` that take turns.
    fn share(streams: u64) -> f64 {
        let mut known = Streams::new();
        let writes = 200;
        let goes_on = (0..writes * streams)
            .filter(|n| known.go_on((n % streams) << 40 | (n / streams) << 17, 1 << 17))
            .count();
        goes_on as f64 / ((writes - 1) * streams) as f64
    }

    #[test]
    fn streams_go_on_however_many_there_are() {
        for streams in [1, 8, 9, 16, 64] {
            assert!(share(streams) > 0.998, "{streams} streams: {}", share(streams));
        }
        assert!(share(128) > 0.9, "{}", share(128));
    }

    #[test]
    fn more_streams_than_are_remembered_lose_a_part_and_not_all() {
        let (some, many) = (share(256), share(300));
        assert!(some > 0.4 && many > 0.2 && some > many, "{some} {many}");
    }

    #[test]
    fn scattered_writes_do_not_go_on() {
        let mut known = Streams::new();
        assert!((0..10_000).all(|n: u64| !known.go_on(mix64(n) >> 20 << 12, 4096)));
        assert!(known.go_on((mix64(9_999) >> 20 << 12) + 4096, 4096), "the last one does");
    }
}
