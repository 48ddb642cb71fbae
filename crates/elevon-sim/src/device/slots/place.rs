//! Tells commands that go on where others ended from those elsewhere.
//!
//! Drives, and what is in front of them, serve a sequential stream faster: they have read ahead, or
//! they gather what is written. A few streams at a time are followed, and what begins near the end
//! of a command counts, too: a log is often written up to the middle of a block, and from its
//! beginning again the next time; and in a replay, processes that write a log together do so in
//! another order than when they were traced.

use elevon_core::units::{Bytes, Sector};

/// Number of streams that are followed.
const STREAMS: usize = 8;
/// A command is sequential if it begins at most this many sectors before or after the end of a
/// stream: 256 KiB.
const NEAR: u64 = 512;

/// The ends of the last commands of one direction, one for each stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Streams {
    ends: [u64; STREAMS],
    /// The first `known` entries of `ends` are in use, the newest first.
    known: usize,
}

impl Streams {
    /// Returns true if a command is sequential: if it begins near the end of one of the streams,
    /// which it continues. Otherwise it begins a stream in place of the one that rested longest.
    /// Cost: O(1), at most eight comparisons.
    #[inline]
    pub fn go_on(&mut self, sector: Sector, bytes: Bytes) -> bool {
        let start = sector.get();
        let found = self.ends[..self.known].iter().position(|end| end.abs_diff(start) <= NEAR);
        let moved = found.unwrap_or_else(|| {
            self.known = (self.known + 1).min(STREAMS);
            self.known - 1
        });
        self.ends.copy_within(..moved, 1);
        self.ends[0] = start.saturating_add(bytes.get().div_ceil(512));
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_go_on_near_where_they_ended() {
        let mut streams = Streams::default();
        let mut go_on = |sector: u64, sectors: u64| streams.go_on(Sector::new(sector), Bytes::new(sectors * 512));
        assert!(!go_on(1000, 8));
        assert!(go_on(1008, 8), "where the last one ended");
        assert!(go_on(1016 - 512, 8) && go_on(512 + 512, 8), "256 KiB before and after");
        assert!(!go_on(1032 + 513, 8) && !go_on(1032 - 513, 8), "and no farther");
    }

    #[test]
    fn the_stream_that_rested_longest_is_forgotten() {
        let mut streams = Streams::default();
        let mut go_on = |stream: u64, sector: u64| streams.go_on(Sector::new(stream << 20 | sector), Bytes::new(4096));
        for stream in 1..=8 {
            assert!(!go_on(stream, 0));
        }
        assert!((1..=8).all(|stream| go_on(stream, 8)), "eight at a time");
        assert!(go_on(1, 16) && !go_on(9, 0), "the second is forgotten");
        assert!(!go_on(2, 16) && go_on(1, 24) && !go_on(3, 16));
    }
}
