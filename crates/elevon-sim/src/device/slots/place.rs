//! Tells commands that go on where others ended from those elsewhere.
//!
//! Drives, and what is in front of them, serve a sequential stream faster: they have read ahead, or
//! they gather what is written. A few streams at a time are followed. What begins near the end of a
//! command counts, too. A log is often written up to the middle of a block, and from its beginning
//! again the next time. In a replay, processes that write a log together do so in another order
//! than when they were traced.

use elevon_core::units::{Bytes, Sector};

/// Number of streams that are followed, and of commands elsewhere that may begin one.
const STREAMS: usize = 8;
/// A command is sequential if it begins at most this many sectors before or after the end of a
/// stream: 256 KiB.
const MAX_SEQUENTIAL_GAP: u64 = 512;

/// The streams of one direction.
///
/// Those that went on at least once are kept apart from commands that may begin one, so that a
/// burst of commands elsewhere, as of a checkpoint, ends no stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Streams {
    went_on: Ends,
    begun: Ends,
}

impl Streams {
    /// Returns true if a command is sequential: if it begins near the end of a stream, or of one of
    /// the last commands elsewhere, and goes on with it. A ninth stream takes the place of the one
    /// that rested longest. Cost: O(1), at most sixteen comparisons.
    #[inline]
    pub fn go_on(&mut self, sector: Sector, bytes: Bytes) -> bool {
        let start = sector.get();
        let end = start.saturating_add(bytes.get().div_ceil(512));
        let goes_on = self.went_on.take(start) || self.begun.take(start);
        if goes_on { &mut self.went_on } else { &mut self.begun }.put(end);
        goes_on
    }
}

/// Where commands ended, the newest first.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    ends: [u64; STREAMS],
    /// The first `known` entries of `ends` are in use.
    known: usize,
}

impl Ends {
    /// Removes the newest end near `start`. Returns false if there is none.
    #[inline]
    fn take(&mut self, start: u64) -> bool {
        let Some(at) = self.ends[..self.known]
            .iter()
            .position(|end| end.abs_diff(start) <= MAX_SEQUENTIAL_GAP)
        else {
            return false;
        };
        self.ends.copy_within(at + 1..self.known, at);
        self.known -= 1;
        true
    }

    /// Adds an end, in place of the oldest if there is no room.
    #[inline]
    fn put(&mut self, end: u64) {
        self.known = (self.known + 1).min(STREAMS);
        self.ends.copy_within(..self.known - 1, 1);
        self.ends[0] = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_go_on_near_where_they_ended() {
        let mut streams = Streams::default();
        let mut go_on = |sector: u64, sectors: u64| {
            streams.go_on(Sector::new(sector), Bytes::new(sectors * 512))
        };
        assert!(!go_on(1000, 8));
        assert!(go_on(1008, 8), "where the last one ended");
        assert!(go_on(1016 - 512, 8) && go_on(512 + 512, 8), "256 KiB before and after");
        assert!(!go_on(1032 + 513, 8) && !go_on(1032 - 513, 8), "and no farther");
    }

    #[test]
    fn the_stream_that_rested_longest_is_forgotten() {
        let mut streams = Streams::default();
        let mut go_on = |stream: u64, sector: u64| {
            streams.go_on(Sector::new(stream << 20 | sector), Bytes::new(4096))
        };
        for stream in 1..=9 {
            assert!(!go_on(stream, 0) && go_on(stream, 8));
        }
        assert!((2..=9).all(|stream| go_on(stream, 16)), "eight at a time");
        assert!(!go_on(1, 16), "the first is forgotten");
        assert!(go_on(1, 24) && !go_on(2, 24) && go_on(3, 24), "and then the second");
    }

    #[test]
    fn commands_elsewhere_end_no_stream() {
        let mut streams = Streams::default();
        let mut go_on = |sector: u64| streams.go_on(Sector::new(sector), Bytes::new(4096));
        assert!(!go_on(0) && go_on(8));
        assert!((1..=20).all(|n| !go_on(n << 20)), "all in different places");
        assert!(go_on(16), "the stream is known");
        assert!(!go_on((1 << 20) + 8) && go_on((20 << 20) + 8), "and the last eight others");
    }
}
