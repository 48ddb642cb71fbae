//! Joins the bios that one call built to the I/O that the process asked for.
//!
//! A process asks for an I/O; the kernel builds a bio of as much of it as fits, and the next one of
//! the rest. Where a bio ends depends on the memory behind the buffer and on the rule by which bios
//! are filled, so what is to be replayed under another rule, or another limit, is the whole I/O.
//! Where its bios ended is kept: without a change they end there again.
//!
//! Bios that are all of one size stay I/Os of their own: a process that reads ahead at some depth
//! under one plug looks the same, and joined or not they fill the queue limits alike, but for
//! limits that do not divide them.
//!
//! Cost: O(bios). Memory: 8 bytes a bio while it runs.

use std::collections::BTreeMap;

use super::ABSENT;
use crate::analysis::BioRecord;

/// No bio.
const NONE: u32 = u32::MAX;

/// I/Os and the bios that they were built into.
#[derive(Debug, Default)]
pub(super) struct Joined {
    /// By bio, the next one of its I/O.
    next: Vec<u32>,
    /// By bio, whether it is the first of its I/O.
    is_first: Vec<bool>,
    /// Where the bios of I/Os end, each list once; the first is empty.
    pub(super) bio_ends: Vec<Vec<u64>>,
    index_of: BTreeMap<Vec<u64>, u32>,
}

impl Joined {
    pub(super) fn new(bios: &[BioRecord]) -> Self {
        let mut joined = Self {
            next: vec![NONE; bios.len()],
            is_first: vec![true; bios.len()],
            bio_ends: vec![Vec::new()],
            index_of: BTreeMap::from([(Vec::new(), 0)]),
        };
        for (at, before) in
            bios.iter().enumerate().filter_map(|(at, bio)| Some((at, bio.continues?)))
        {
            joined.next[before as usize] = at as u32;
            joined.is_first[at] = false;
        }
        for first in 0..bios.len() {
            if joined.is_first[first]
                && joined.all(first).all(|bio| bios[bio].bytes == bios[first].bytes)
            {
                joined.part(first);
            }
        }
        joined
    }

    /// The bios of the I/O that begins with a bio.
    fn all(&self, first: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(first), |&at| {
            Some(self.next[at] as usize).filter(|_| self.next[at] != NONE)
        })
    }

    /// Makes each bio of an I/O one of its own.
    fn part(&mut self, first: usize) {
        let mut at = first as u32;
        while at != NONE {
            self.is_first[at as usize] = true;
            at = std::mem::replace(&mut self.next[at as usize], NONE);
        }
    }

    /// The I/O that begins with a bio, as one bio, and the index of where its bios end; `None` if
    /// the bio is a later one of its I/O. It completes with the last of its bios.
    pub(super) fn io(&mut self, bios: &[BioRecord], first: usize) -> Option<(BioRecord, u32)> {
        let mut io = bios[first];
        if !self.is_first[first] {
            return None;
        }
        let mut ends = Vec::new();
        for bio in self.all(first).skip(1).map(|at| bios[at]) {
            ends.push(io.bytes);
            io.bytes = io.bytes.saturating_add(bio.bytes);
            // Not known for one is not known for all: `ABSENT` is the greatest.
            io.completed = io.completed.max(bio.completed);
        }
        debug_assert!(
            [io.queued, io.completed].contains(&ABSENT) || io.completed >= io.queued,
            "an I/O ends before it begins"
        );
        if let Some(&index) = self.index_of.get(&ends) {
            return Some((io, index));
        }
        let index = self.bio_ends.len() as u32;
        self.bio_ends.push(ends.clone());
        self.index_of.insert(ends, index);
        Some((io, index))
    }
}
