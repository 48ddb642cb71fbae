//! Ranges of bytes, and the blocks that they touch. Bytes of a block are a power of two.

use crate::request::DiskRequest;

/// A range of bytes, which may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    /// The first byte.
    pub(crate) start: u64,
    /// The byte behind the last.
    pub(crate) end: u64,
}

impl ByteRange {
    /// Returns the range of a request.
    pub(crate) const fn of(request: &DiskRequest) -> Self {
        Self { start: request.offset, end: request.offset + request.length }
    }

    /// Returns its bytes.
    pub(crate) const fn length(self) -> u64 {
        self.end - self.start
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Returns true if the ranges have a byte in common.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        !self.within(other).is_empty()
    }

    /// Returns what both ranges have, if they overlap.
    pub(crate) fn within(self, other: Self) -> Self {
        Self { start: self.start.max(other.start), end: self.end.min(other.end) }
    }

    /// Returns the range so many bytes further on.
    pub(crate) const fn moved(self, by: u64) -> Self {
        Self { start: self.start + by, end: self.end + by }
    }

    /// Returns the blocks of which it has a byte.
    pub(crate) const fn outer(self, block: u64) -> Self {
        Self { start: self.start & !(block - 1), end: (self.end + block - 1) & !(block - 1) }
    }

    /// Returns the blocks of which it has all bytes; an empty range if there is none.
    pub(crate) const fn inner(self, block: u64) -> Self {
        let (start, end) = ((self.start + block - 1) & !(block - 1), self.end & !(block - 1));
        Self { start, end: if end < start { start } else { end } }
    }

    /// Yields the blocks of which it has some bytes and not all: up to two.
    pub(crate) fn edges(self, block: u64) -> impl Iterator<Item = Self> + Clone {
        let outer = self.outer(block);
        let head = Self { start: outer.start, end: outer.start + block };
        let tail = Self { start: outer.end.max(block) - block, end: outer.end };
        let has_head = !self.is_empty() && head.start < self.start;
        let has_tail = !self.is_empty() && self.end < tail.end && !(has_head && head == tail);
        [(head, has_head), (tail, has_tail)]
            .into_iter()
            .filter(|(_, is_edge)| *is_edge)
            .map(|(edge, _)| edge)
    }

    /// Yields the ranges of `edge` that are not in it: up to two.
    pub(crate) fn gaps(self, edge: Self) -> impl Iterator<Item = Self> {
        let before = Self { end: self.start.min(edge.end), ..edge };
        let after = Self { start: self.end.max(edge.start), ..edge };
        [before, after].into_iter().filter(|gap| !gap.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte, of every short range and two sizes of blocks.
    #[test]
    fn blocks_are_those_that_have_bytes_of_the_range() {
        const BYTES: u64 = 24;
        for (start, end, block) in (0..BYTES)
            .flat_map(|start| (start + 1..=BYTES).map(move |end| (start, end)))
            .flat_map(|(start, end)| [1, 4, 8].map(|block| (start, end, block)))
        {
            let span = ByteRange { start, end };
            let has = |of: ByteRange, byte: u64| of.start <= byte && byte < of.end;
            let edges: Vec<ByteRange> = span.edges(block).collect();
            for byte in 0..BYTES {
                let of_block = || (byte / block * block..).take(block as usize);
                let (any, all) =
                    (of_block().any(|at| has(span, at)), of_block().all(|at| has(span, at)));
                assert_eq!(has(span.outer(block), byte), any, "{span:?}, {block}, byte {byte}");
                assert_eq!(has(span.inner(block), byte), all, "{span:?}, {block}, byte {byte}");
                let edges_with = edges.iter().filter(|edge| has(**edge, byte)).count();
                assert_eq!(edges_with, usize::from(any && !all), "{span:?}, {block}, byte {byte}");
                let gaps_with = edges
                    .iter()
                    .flat_map(|edge| span.gaps(*edge))
                    .filter(|gap| has(*gap, byte))
                    .count();
                assert_eq!(
                    gaps_with,
                    usize::from(any && !all && !has(span, byte)),
                    "{span:?}, {block}, byte {byte}"
                );
            }
            assert!(edges.iter().all(|edge| edge.length() == block));
            assert!(!span.inner(block).overlaps(ByteRange { start: BYTES, end: 2 * BYTES }));
        }
    }
}
