//! Bytes of a simulated disk: only what was written takes memory.

use std::collections::BTreeMap;

use crate::request::Extent;
/// Bytes that are allocated together.
const CHUNK: u64 = 64 << 10;
/// Chunks that are looked at for one answer of which parts of a range have memory.
const CHUNKS_TOLD: usize = 1024;

/// A range of bytes that reads as zeroes where nothing was written.
#[derive(Clone, Debug, Default)]
pub(crate) struct SparseBytes {
    chunks: BTreeMap<u64, Box<[u8]>>,
}

/// A part of a range that lies in one chunk: its number, where in it the part begins, its length.
fn parts(at: u64, length: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = at + length;
    let mut next = at;
    std::iter::from_fn(move || {
        let (chunk, start) = (next / CHUNK, next % CHUNK);
        let bytes = (CHUNK - start).min(end - next);
        next += bytes;
        (bytes > 0).then_some((chunk, start as usize, bytes as usize))
    })
}

impl SparseBytes {
    pub(crate) fn read(&self, at: u64, mut into: &mut [u8]) {
        for (chunk, start, bytes) in parts(at, into.len() as u64) {
            let (part, rest) = into.split_at_mut(bytes);
            match self.chunks.get(&chunk) {
                Some(chunk) => part.copy_from_slice(&chunk[start..start + bytes]),
                None => part.fill(0),
            }
            into = rest;
        }
    }

    pub(crate) fn write(&mut self, at: u64, mut from: &[u8]) {
        for (chunk, start, bytes) in parts(at, from.len() as u64) {
            let (part, rest) = from.split_at(bytes);
            let chunk = self
                .chunks
                .entry(chunk)
                .or_insert_with(|| vec![0; CHUNK as usize].into_boxed_slice());
            chunk[start..start + bytes].copy_from_slice(part);
            from = rest;
        }
    }

    /// Makes a range read as zeroes, and frees the memory of chunks that lie in it.
    pub(crate) fn clear(&mut self, at: u64, length: u64) {
        let (first, last) = (at.div_ceil(CHUNK), (at + length) / CHUNK);
        if first < last {
            let mut inside = self.chunks.split_off(&first);
            let mut after = inside.split_off(&last);
            self.chunks.append(&mut after);
        }
        let (head, tail) =
            if first <= last { (first * CHUNK - at, (at + length) % CHUNK) } else { (length, 0) };
        for (at, length) in [(at, head), (at + length - tail, tail)] {
            for (chunk, start, bytes) in parts(at, length) {
                if let Some(chunk) = self.chunks.get_mut(&chunk) {
                    chunk[start..start + bytes].fill(0);
                }
            }
        }
    }

    /// Returns the extents of a range up to its end, or up to the end of [`CHUNKS_TOLD`] chunks of
    /// it that have memory.
    pub(crate) fn extents(&self, at: u64, length: u64) -> Vec<Extent> {
        let mut end = at + length;
        let mut all: Vec<Extent> = Vec::new();
        let mut next = at;
        let mut push = |length: u64, hole: bool| match all.last_mut() {
            _ if length == 0 => {}
            Some(last) if last.hole == hole => last.length += length,
            _ => all.push(Extent { length, hole, zero: hole }),
        };
        for (number, (chunk, _)) in self.chunks.range(at / CHUNK..end.div_ceil(CHUNK)).enumerate() {
            if number == CHUNKS_TOLD {
                end = next;
                break;
            }
            let from = (chunk * CHUNK).max(next);
            let to = ((chunk + 1) * CHUNK).min(end);
            push(from - next, true);
            push(to - from, false);
            next = to;
        }
        push(end - next, true);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against plain memory.
    #[test]
    fn random_steps_are_those_of_plain_memory() {
        const SIZE: u64 = 5 * CHUNK + 512;
        let mut rng = elevon_testkit::Rng(7);
        let (mut bytes, mut plain) = (SparseBytes::default(), vec![0_u8; SIZE as usize]);
        for step in 0..2000_u32 {
            let at = rng.below(SIZE);
            let length = rng.below(SIZE - at + 1) >> rng.below(18);
            let range = at as usize..(at + length) as usize;
            match rng.below(3) {
                0 => {
                    let data = vec![step as u8; length as usize];
                    bytes.write(at, &data);
                    plain[range].copy_from_slice(&data);
                }
                1 => {
                    bytes.clear(at, length);
                    plain[range].fill(0);
                }
                _ => {
                    let mut read = vec![0xee; length as usize];
                    bytes.read(at, &mut read);
                    assert_eq!(read, plain[range], "step {step}: {length} bytes at {at}");
                }
            }
            let mut next = at;
            for extent in bytes.extents(at, length) {
                assert!(extent.length > 0);
                let range = next as usize..(next + extent.length) as usize;
                assert!(!extent.hole || plain[range].iter().all(|&byte| byte == 0), "step {step}");
                next += extent.length;
            }
            assert_eq!(next, at + length, "extents cover the range");
        }
        bytes.clear(0, SIZE);
        assert!(bytes.chunks.len() <= 1, "whole chunks are freed");
    }

    #[test]
    fn a_long_answer_ends_before_its_range() {
        let mut bytes = SparseBytes::default();
        let all = 4 * CHUNKS_TOLD as u64 * CHUNK;
        (0..all).step_by(2 * CHUNK as usize).for_each(|at| bytes.write(at, &[1]));
        let told = bytes.extents(0, all);
        assert_eq!(told.len(), 2 * CHUNKS_TOLD - 1, "every other chunk is a hole");
        let end: u64 = told.iter().map(|extent| extent.length).sum();
        assert_eq!(end, (2 * CHUNKS_TOLD as u64 - 1) * CHUNK);
        assert_eq!(bytes.extents(end, CHUNK), [Extent { length: CHUNK, hole: true, zero: true }]);
    }
}
