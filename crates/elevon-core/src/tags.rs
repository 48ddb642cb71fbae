//! Tags: small numbers that identify requests in flight, and limit how many there are.
//!
//! The kernel picks a tag by a per-CPU hint that starts at random; here the lowest free tag is
//! taken, so that runs are reproducible. Taking and freeing cost O(depth / 64).

extern crate alloc;
use alloc::vec::Vec;

use crate::units::Tag;

/// Largest depth of a tag set (`BLK_MQ_MAX_DEPTH`).
pub const MAX_DEPTH: u32 = 10240;

/// How a kernel version interprets a shallow depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shallow {
    /// The limit applies to each word of the bitmap: only its first positions may be used (up to
    /// 6.16). Words have 2^shift bits; the shift is chosen so that there are at least four words.
    PerWord,
    /// The limit applies to the whole map (6.17 and later).
    WholeMap,
}

/// The tags of one hardware queue.
#[derive(Clone, Debug)]
pub struct TagMap {
    words: Vec<u64>,
    depth: u32,
    used: u32,
    /// Words before this one are full.
    first_free_word: usize,
}

impl TagMap {
    /// Returns a map of `depth` free tags, `0..depth`.
    pub fn new(depth: u32) -> Self {
        assert!((1..=MAX_DEPTH).contains(&depth), "a tag set holds 1 to {MAX_DEPTH} tags");
        Self { words: alloc::vec![0; depth.div_ceil(64) as usize], depth, used: 0, first_free_word: 0 }
    }

    /// Number of tags.
    pub const fn depth(&self) -> u32 {
        self.depth
    }

    /// Number of tags taken.
    #[inline]
    pub const fn used(&self) -> u32 {
        self.used
    }

    /// Takes the lowest free tag.
    #[inline]
    pub fn take(&mut self) -> Option<Tag> {
        if self.used == self.depth {
            return None;
        }
        while self.words[self.first_free_word] == u64::MAX {
            self.first_free_word += 1;
        }
        let bit = (!self.words[self.first_free_word]).trailing_zeros();
        let tag = self.first_free_word as u32 * 64 + bit;
        // The last word may have fewer tags than bits, but if all its tags were taken, `used ==
        // depth` returned above.
        self.words[self.first_free_word] |= 1 << bit;
        self.used += 1;
        Some(Tag(tag))
    }

    /// Takes the lowest tag that a shallow depth allows.
    pub fn take_shallow(&mut self, limit: u32, shallow: Shallow) -> Option<Tag> {
        match shallow {
            Shallow::WholeMap => (self.used < limit).then(|| self.take()).flatten(),
            Shallow::PerWord => {
                let tag = self.first_free_shallow(limit)?;
                self.words[(tag / 64) as usize] |= 1 << (tag % 64);
                self.used += 1;
                Some(Tag(tag))
            }
        }
    }

    /// Returns true if [`Self::take_shallow`] would find a tag.
    pub fn has_shallow(&self, limit: u32, shallow: Shallow) -> bool {
        match shallow {
            Shallow::WholeMap => self.used < limit.min(self.depth),
            Shallow::PerWord => self.first_free_shallow(limit).is_some(),
        }
    }

    /// Returns the lowest free tag among the first `limit` positions of each word of the kernel's
    /// bitmap.
    fn first_free_shallow(&self, limit: u32) -> Option<u32> {
        let word_bits = 1u32 << word_shift(self.depth);
        (0..self.depth).filter(|tag| tag % word_bits < limit).find(|&tag| !self.is_taken(Tag(tag)))
    }

    /// Returns true if a tag is taken.
    #[inline]
    pub fn is_taken(&self, tag: Tag) -> bool {
        self.words[(tag.0 / 64) as usize] >> (tag.0 % 64) & 1 == 1
    }

    /// Frees a tag, which must be taken.
    #[inline]
    pub fn free(&mut self, tag: Tag) {
        assert!(self.is_taken(tag), "tag {} is freed twice", tag.0);
        let word = (tag.0 / 64) as usize;
        self.words[word] &= !(1 << (tag.0 % 64));
        self.first_free_word = self.first_free_word.min(word);
        self.used -= 1;
    }
}

/// Returns log2 of the number of bits in a bitmap word of a set with this depth: 6, or less if that
/// would not fill four words.
pub const fn word_shift(depth: u32) -> u32 {
    let mut shift = 6;
    while shift > 0 && (4u32 << shift) > depth {
        shift -= 1;
    }
    shift
}

/// Converts the async depth of a scheduler into a limit per word: `async_depth` of `nr_requests`,
/// scaled to one word and rounded up.
pub const fn per_word_limit(async_depth: u32, nr_requests: u32) -> u32 {
    let bits = 1u64 << word_shift(nr_requests);
    (async_depth as u64 * bits).div_ceil(nr_requests as u64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn lowest_free_tag_against_a_naive_set() {
        for depth in [1, 31, 64, 65, 128, 1000] {
            let (mut map, mut naive) = (TagMap::new(depth), (0..depth).collect::<BTreeSet<_>>());
            let mut taken = Vec::new();
            let mut rng = elevon_testkit::Rng(1);
            for _ in 0..5000 {
                if rng.one_in(2) {
                    let tag = map.take().map(|t| t.0);
                    assert_eq!(tag, naive.pop_first());
                    taken.extend(tag);
                } else if !taken.is_empty() {
                    let tag = taken.swap_remove(rng.below(taken.len() as u64) as usize);
                    map.free(Tag(tag));
                    naive.insert(tag);
                }
                assert_eq!(map.used() as usize, taken.len());
            }
        }
    }

    #[test]
    fn word_sizes_of_the_kernel() {
        assert_eq!((word_shift(64), word_shift(256), word_shift(31)), (4, 6, 2));
        assert_eq!(per_word_limit(48, 64), 12);
    }

    #[test]
    fn shallow_depth_by_version() {
        let mut map = TagMap::new(64);
        // 16-bit words, two positions of each.
        let tags: Vec<u32> = core::iter::from_fn(|| map.take_shallow(2, Shallow::PerWord)).map(|t| t.0).collect();
        assert_eq!(tags, [0, 1, 16, 17, 32, 33, 48, 49]);
        let mut map = TagMap::new(64);
        assert_eq!(core::iter::from_fn(|| map.take_shallow(2, Shallow::WholeMap)).count(), 2);
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn freeing_twice_is_loud() {
        let mut map = TagMap::new(4);
        let tag = map.take().expect("empty map");
        map.free(tag);
        map.free(tag);
    }
}
