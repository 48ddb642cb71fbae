//! Tells commands that go on where others ended from those elsewhere.
//!
//! Drives, and what is in front of them, serve a sequential stream faster: they have read ahead, or
//! they gather what is written. Up to [`STREAMS`] streams at a time are followed. A command that
//! begins near the end of another one counts, too: a log is often written up to the middle of a
//! block, and from its beginning again the next time; and in a replay, processes that write a log
//! together do so in another order than when they were traced.

use elevon_core::units::{Bytes, Sector};

/// Number of streams that are followed.
const STREAMS: usize = 128;
/// Number of commands elsewhere that may begin a stream.
const BEGUN: usize = 8;
/// A stream is forgotten if it does not go on within so many commands of its direction. Otherwise
/// random commands, of which some are near others by chance, would fill the places of streams.
const REST: u64 = 256;
/// A command is sequential if it begins at most this many sectors before or after the end of a
/// stream: 256 KiB.
const NEAR: u64 = 512;

/// The streams of one direction.
///
/// Those that went on at least once are kept apart from commands that may begin one, so that a
/// burst of commands elsewhere, as of a checkpoint, ends no stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Streams {
    went_on: Ends<STREAMS>,
    begun: Ends<BEGUN>,
    /// Commands so far.
    commands: u64,
}

impl Streams {
    /// Returns true if a command is sequential: if it begins near the end of a stream, or of one of
    /// the last commands elsewhere, and goes on with it. If there is no room, a stream takes the
    /// place of the one that rested longest. Cost: O(streams) comparisons.
    #[inline]
    pub fn go_on(&mut self, sector: Sector, bytes: Bytes) -> bool {
        let start = sector.get();
        let end = start.saturating_add(bytes.get().div_ceil(512));
        self.commands += 1;
        let oldest = self.commands.saturating_sub(REST);
        let goes_on = self.went_on.take(start, oldest) || self.begun.take(start, 0);
        if goes_on {
            self.went_on.put(end, self.commands);
        } else {
            self.begun.put(end, self.commands);
        }
        goes_on
    }
}

/// Where commands ended and their numbers, the newest first.
#[derive(Clone, Copy, Debug)]
struct Ends<const N: usize> {
    ends: [(u64, u64); N],
    /// The first `known` entries of `ends` are in use.
    known: usize,
}

impl<const N: usize> Default for Ends<N> {
    fn default() -> Self {
        Self { ends: [(0, 0); N], known: 0 }
    }
}

impl<const N: usize> Ends<N> {
    /// Removes the newest end near `start`, and those of commands before the number `oldest`.
    /// Returns false if there is none near.
    #[inline]
    fn take(&mut self, start: u64, oldest: u64) -> bool {
        for at in 0..self.known {
            let (end, number) = self.ends[at];
            if number < oldest {
                self.known = at;
                return false;
            }
            if end.abs_diff(start) <= NEAR {
                self.ends.copy_within(at + 1..self.known, at);
                self.known -= 1;
                return true;
            }
        }
        false
    }

    /// Adds an end, in place of the oldest if there is no room.
    #[inline]
    fn put(&mut self, end: u64, number: u64) {
        self.known = (self.known + 1).min(N);
        self.ends.copy_within(..self.known - 1, 1);
        self.ends[0] = (end, number);
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
    fn as_many_streams_go_on_as_there_are() {
        for count in [8, 9, 64, 128] {
            let mut streams = Streams::default();
            let mut go_on =
                |stream: u64, sector: u64| streams.go_on(Sector::new(stream << 20 | sector), Bytes::new(4096));
            assert!((1..=count).all(|stream| !go_on(stream, 0) && go_on(stream, 8)));
            assert!((2..9).all(|turn| (1..=count).all(|stream| go_on(stream, 8 * turn))), "{count} streams");
        }
    }

    #[test]
    fn a_stream_that_rests_is_forgotten() {
        let mut streams = Streams::default();
        let mut go_on = |sector: u64| streams.go_on(Sector::new(sector), Bytes::new(4096));
        assert!(!go_on(0) && go_on(8));
        assert!((1..REST).all(|n| !go_on(n << 20)) && go_on(16), "not yet");
        assert!((1..=REST).all(|n| !go_on(n << 30)) && !go_on(24), "now");
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
