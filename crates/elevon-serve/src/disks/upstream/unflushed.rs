//! What a server has answered and no flush covers: it may be lost when the server ends, and is sent
//! again to the one that follows.

use std::collections::VecDeque;
use std::sync::Arc;

use elevon_nbd::Command;

/// Memory of writes that are kept, in bytes.
const KEPT: u64 = 64 << 20;
/// What a kept change takes beside its data, about.
const OF_EACH: u64 = 128;

/// A change of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) request: Command,
    /// In bytes.
    pub(super) offset: u64,
    pub(super) length: u32,
    /// It was durable when it was answered.
    pub(super) fua: bool,
    /// The bytes of a WRITE.
    pub(super) payload: Arc<Vec<u8>>,
}

impl Change {
    /// Returns true if both change a byte.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        overlap((self.offset, self.length), (other.offset, other.length))
    }
}

/// Returns true if two ranges, of an offset and a length each, have a byte in common.
pub(super) fn overlap(one: (u64, u32), other: (u64, u32)) -> bool {
    one.0 < other.0 + u64::from(other.1) && other.0 < one.0 + u64::from(one.1)
}

/// The changes since the last flush, in the order of their answers. Of those that overlap, each was
/// answered before the next was sent.
#[derive(Debug, Default)]
pub(super) struct Unflushed {
    /// Each with its number.
    kept: VecDeque<(u64, Change)>,
    /// The memory that they take.
    bytes: u64,
    /// The number of the last change.
    last: u64,
    /// The number of the last one that no flush covered and that is not kept.
    gone: u64,
    /// The number of the last one that a flush covered.
    flushed: u64,
}

impl Unflushed {
    /// Takes a change that was answered.
    pub(super) fn push(&mut self, change: Change) {
        if change.fua && self.kept.is_empty() {
            return;
        }
        self.last += 1;
        self.bytes += memory(&change);
        self.kept.push_back((self.last, change));
        // The oldest goes first, so that no change can come after one that is newer.
        while self.bytes > KEPT {
            let (number, change) = self.kept.pop_front().expect("they take memory");
            self.bytes -= memory(&change);
            self.gone = if change.fua { self.gone } else { number };
        }
    }

    /// Returns the number of the last change: a flush that is sent now covers those up to it.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// A flush has succeeded that covers changes up to a number.
    pub(super) fn flush(&mut self, covered: u64) {
        self.flushed = self.flushed.max(covered);
        while self.kept.front().is_some_and(|(number, _)| *number <= covered) {
            let (_, change) = self.kept.pop_front().expect("looked at");
            self.bytes -= memory(&change);
        }
    }

    /// Returns false if changes may be lost that are not kept.
    pub(super) const fn is_whole(&self) -> bool {
        self.gone <= self.flushed
    }

    /// Takes note that what is not kept may be lost: it is told of once.
    pub(super) fn give_up(&mut self) {
        self.flushed = self.flushed.max(self.gone);
    }

    /// Returns the changes that are to be sent again.
    pub(super) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.kept.iter().map(|(_, change)| change)
    }
}

fn memory(change: &Change) -> u64 {
    change.payload.len() as u64 + OF_EACH
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: u64, length: usize, fua: bool) -> Change {
        let payload = Arc::new(vec![0; length]);
        Change { request: Command::Write, offset, length: length as u32, fua, payload }
    }

    fn offsets(unflushed: &Unflushed) -> Vec<u64> {
        unflushed.changes().map(|change| change.offset).collect()
    }

    #[test]
    fn what_a_flush_covers_is_not_sent_again() {
        let mut unflushed = Unflushed::default();
        unflushed.push(write(0, 512, false));
        let covered = unflushed.last();
        unflushed.push(write(512, 512, false));
        assert_eq!(offsets(&unflushed), [0, 512]);
        unflushed.flush(covered);
        assert_eq!((offsets(&unflushed), unflushed.is_whole()), (vec![512], true));
        unflushed.flush(unflushed.last());
        assert_eq!((offsets(&unflushed), unflushed.bytes), (vec![], 0));
    }

    /// One that is durable is sent again behind those that it overwrote.
    #[test]
    fn durable_changes_are_kept_behind_others_only() {
        let mut unflushed = Unflushed::default();
        unflushed.push(write(0, 512, true));
        assert!(offsets(&unflushed).is_empty());
        unflushed.push(write(0, 512, false));
        unflushed.push(write(0, 512, true));
        assert_eq!(offsets(&unflushed), [0, 0]);
    }

    #[test]
    fn the_oldest_goes_if_there_is_too_much() {
        let mut unflushed = Unflushed::default();
        let most = 64 - 1;
        for number in 0..=most {
            unflushed.push(write(number << 20, 1 << 20, false));
        }
        assert_eq!((offsets(&unflushed)[0], unflushed.is_whole()), (1 << 20, false));
        unflushed.flush(1);
        assert!(unflushed.is_whole(), "it was flushed");
        for number in 0..=most {
            unflushed.push(write(number << 20, 1 << 20, false));
        }
        assert!(!unflushed.is_whole());
        unflushed.give_up();
        assert!(unflushed.is_whole());
    }

    #[test]
    fn ranges_overlap_in_a_byte() {
        for (one, other, does) in
            [((0, 512), (512, 512), false), ((0, 513), (512, 1), true), ((5, 1), (0, 9), true)]
        {
            assert_eq!((overlap(one, other), overlap(other, one)), (does, does));
        }
    }
}
