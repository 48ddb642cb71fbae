//! Tags: small numbers that identify requests in flight, and limit how many there are.
//!
//! The kernel's map is made of words. A CPU takes from the word where its hint lies, and a freed
//! tag comes back only when its word has no other. Which tag a request gets matters to a scheduler
//! that limits tags, because the limit names positions. So the scheduler's tags follow these rules
//! (`TagMap::spread`). The kernel draws the first hint at random; here it is a setting. Driver
//! tags are the lowest free ones. Taking and freeing cost O(depth / 64).

extern crate alloc;
use alloc::vec::Vec;
use core::num::NonZeroU64;

use crate::units::Tag;

/// Largest depth of a tag set (`BLK_MQ_MAX_DEPTH`).
pub const MAX_DEPTH: u32 = 10240;

/// How a kernel version interprets a shallow depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shallow {
    /// The limit applies to each word of the bitmap: only its first positions may be used (up to
    /// 6.16). Words have 2^shift bits; the shift is chosen so that there are at least four words.
    PerWord,
    /// The limit applies to the whole map; its positions are spread over the words in equal parts
    /// (6.17 and later).
    WholeMap,
}

/// The tags of one hardware queue.
#[derive(Clone, Debug)]
pub(crate) struct TagMap {
    /// The bits of free tags.
    free: Vec<u64>,
    depth: u32,
    /// log2 of the number of bits in a word of the kernel's bitmap.
    shift: u32,
    used: u32,
    /// Words before this one are full.
    first_free_word: usize,
    /// How tags are spread over the words; `None` if the lowest free one is taken.
    spread: Option<Spread>,
}

/// Where the tags of a scheduler are taken, as measured on Linux 7.3.
#[derive(Clone, Debug)]
struct Spread {
    /// The tag that each CPU took or freed last.
    hints: Vec<u32>,
    /// The bits of tags that were freed. They can be taken when their word has no other.
    cleared: Vec<u64>,
}

impl TagMap {
    /// Returns a map of `depth` free tags, `0..depth`, in words of a set that was made for this
    /// depth.
    pub(crate) fn new(depth: u32) -> Self {
        Self::in_words(depth, word_shift(depth))
    }

    /// Returns a map of `depth` free tags, `0..depth`, in words of 2^`shift` bits, at most 64.
    pub(crate) fn in_words(depth: u32, shift: u32) -> Self {
        assert!((1..=MAX_DEPTH).contains(&depth), "a tag set holds 1 to {MAX_DEPTH} tags");
        let mut free = alloc::vec![u64::MAX; depth.div_ceil(u64::BITS) as usize];
        if let Some(last) = free.last_mut() {
            *last >>= (u64::BITS - depth % u64::BITS) % u64::BITS;
        }
        Self { free, depth, shift, used: 0, first_free_word: 0, spread: None }
    }

    /// Spreads the tags as the kernel does, for so many CPUs, from tag `first` on.
    pub(crate) fn spread(mut self, cpus: u16, first: u32) -> Self {
        let hints = alloc::vec![first.min(self.depth - 1); usize::from(cpus.max(1))];
        self.spread = Some(Spread { hints, cleared: alloc::vec![0; self.free.len()] });
        self
    }

    /// Number of tags.
    pub(crate) const fn depth(&self) -> u32 {
        self.depth
    }

    /// Number of tags taken.
    #[inline]
    pub(crate) const fn used(&self) -> u32 {
        self.used
    }

    /// Takes the lowest free tag.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Tag> {
        while let Some(word) = self.free.get_mut(self.first_free_word) {
            if let Some(free) = NonZeroU64::new(*word) {
                *word = free.get() & (free.get() - 1);
                self.used += 1;
                return Some(Tag(self.first_free_word as u32 * u64::BITS + free.trailing_zeros()));
            }
            self.first_free_word += 1;
        }
        None
    }

    /// Takes a tag for a request of a CPU, one that a shallow depth allows if there is one.
    #[inline]
    pub(crate) fn take_for(&mut self, cpu: u16, shallow: Option<(u32, Shallow)>) -> Option<Tag> {
        match (&self.spread, shallow) {
            (None, None) => self.take(),
            (None, Some((limit, shallow))) => self.take_shallow(limit, shallow),
            (Some(_), _) => self.take_spread(cpu, shallow),
        }
    }

    /// Takes the lowest free tag of the first word that has one, from that of the CPU's hint on.
    fn take_spread(&mut self, cpu: u16, shallow: Option<(u32, Shallow)>) -> Option<Tag> {
        let allowed = self.allowed(shallow.unwrap_or((self.depth, Shallow::WholeMap)));
        let spread = self.spread.as_mut().expect("spread tags");
        let cpu = usize::from(cpu) % spread.hints.len();
        let hint = spread.hints[cpu];
        let start = hint >> self.shift;
        let found = (start..allowed.words).chain(0..start).find_map(|word| {
            let (at, first) = allowed.place(word);
            let mask = allowed.mask(word);
            let free = &mut self.free[at];
            if *free & mask == 0 {
                let of_word = allowed.whole(word);
                *free |= spread.cleared[at] & of_word;
                spread.cleared[at] &= !of_word;
            }
            let bits = *free & mask;
            *free &= !(bits & bits.wrapping_neg());
            (bits != 0).then(|| first + bits.trailing_zeros())
        });
        match found {
            // The kernel begins with the first word again if the map had no tag.
            None => spread.hints[cpu] = 0,
            Some(tag) if tag == hint => {
                spread.hints[cpu] = if tag + 1 < self.depth { tag + 1 } else { 0 };
            }
            Some(_) => {}
        }
        self.used += u32::from(found.is_some());
        found.map(Tag)
    }

    /// Takes the lowest tag that a shallow depth allows.
    fn take_shallow(&mut self, limit: u32, shallow: Shallow) -> Option<Tag> {
        let tag = self.first_free_shallow(limit, shallow)?;
        self.free[(tag / 64) as usize] &= !(1 << (tag % 64));
        self.used += 1;
        Some(Tag(tag))
    }

    /// Returns true if [`Self::take_for`] would find a tag that a shallow depth allows.
    pub(crate) fn has_shallow(&self, limit: u32, shallow: Shallow) -> bool {
        self.first_free_shallow(limit, shallow).is_some()
    }

    /// Returns the lowest free tag among those that a shallow depth allows.
    fn first_free_shallow(&self, limit: u32, shallow: Shallow) -> Option<u32> {
        let allowed = self.allowed((limit, shallow));
        (0..allowed.words).find_map(|word| {
            let (at, first) = allowed.place(word);
            let cleared = self.spread.as_ref().map_or(0, |spread| spread.cleared[at]);
            let free = (self.free[at] | cleared) & allowed.mask(word);
            (free != 0).then(|| first + free.trailing_zeros())
        })
    }

    /// Returns the tags that a shallow depth allows: the first positions of each word of the
    /// kernel's bitmap.
    fn allowed(&self, (limit, shallow): (u32, Shallow)) -> Allowed {
        let word_bits = 1u32 << self.shift;
        let words = self.depth.div_ceil(word_bits);
        // The last word may be shorter.
        let last = self.depth - (words - 1) * word_bits;
        let limit = limit.min(self.depth);
        let (each, more) = match shallow {
            Shallow::PerWord => (limit, 0),
            Shallow::WholeMap if limit <= last * words => (limit / words, limit % words),
            Shallow::WholeMap => {
                let rest = limit - last * words;
                (last + rest / (words - 1), rest % (words - 1))
            }
        };
        Allowed { words, shift: self.shift, depth: self.depth, each, more }
    }

    /// Frees a tag, which must be taken.
    #[inline]
    pub(crate) fn free(&mut self, tag: Tag) {
        let (word, bit) = ((tag.0 / 64) as usize, 1 << (tag.0 % 64));
        let free = &mut self.free[word];
        assert!(*free & bit == 0, "tag {} is freed twice", tag.0);
        *free |= bit;
        self.first_free_word = self.first_free_word.min(word);
        self.used -= 1;
    }

    /// Frees the tag of a request of a CPU.
    #[inline]
    pub(crate) fn free_of(&mut self, cpu: u16, tag: Tag) {
        let Some(spread) = &mut self.spread else { return self.free(tag) };
        let (word, bit) = ((tag.0 / 64) as usize, 1 << (tag.0 % 64));
        assert!(
            (self.free[word] | spread.cleared[word]) & bit == 0,
            "tag {} is freed twice",
            tag.0
        );
        spread.cleared[word] |= bit;
        let cpu = usize::from(cpu) % spread.hints.len();
        spread.hints[cpu] = tag.0;
        self.used -= 1;
    }
}

/// The tags that a request may have: the first positions of each word.
#[derive(Clone, Copy, Debug)]
struct Allowed {
    words: u32,
    shift: u32,
    depth: u32,
    /// So many positions of each word,
    each: u32,
    /// and one more of so many words.
    more: u32,
}

impl Allowed {
    /// Returns where a word begins: the index of the machine word, and its first tag.
    const fn place(&self, word: u32) -> (usize, u32) {
        let first = word << self.shift;
        ((first / 64) as usize, first / 64 * 64)
    }

    /// Returns the bits of the machine word that are allowed of a word.
    fn mask(&self, word: u32) -> u64 {
        self.bits(word, self.each + u32::from(word < self.more))
    }

    /// Returns the bits of the machine word that are a word's.
    fn whole(&self, word: u32) -> u64 {
        self.bits(word, u32::MAX)
    }

    fn bits(&self, word: u32, count: u32) -> u64 {
        let first = word << self.shift;
        // The last word may be shorter.
        let count = count.min(1 << self.shift).min(self.depth - first);
        // A shift by 64 would be one by 0.
        let bits = if count == 0 { 0 } else { u64::MAX >> (64 - count) };
        bits << (first % 64)
    }
}

/// Returns log2 of the number of bits in a bitmap word of a set with this depth: 6, or less if that
/// would not fill four words.
pub(crate) const fn word_shift(depth: u32) -> u32 {
    let mut shift = 6;
    while shift > 0 && (4u32 << shift) > depth {
        shift -= 1;
    }
    shift
}

/// How many tags a scheduler may use, and the size of the words of the kernel's bitmap of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SchedTags {
    depth: u32,
    shift: u32,
}

impl SchedTags {
    /// Returns `depth` tags, at least one, in words of 2^`shift` bits.
    pub(crate) const fn new(depth: u32, shift: u32) -> Self {
        Self { depth: if depth == 0 { 1 } else { depth }, shift }
    }

    /// Returns the tags of each of some hardware queues that have so many requests together.
    pub(crate) const fn of_each(requests: usize, queues: usize) -> Self {
        let depth = (requests / if queues == 0 { 1 } else { queues }) as u32;
        Self::new(depth, word_shift(depth))
    }

    /// Number of tags: `nr_requests`.
    #[inline]
    pub(crate) const fn depth(self) -> u32 {
        self.depth
    }

    /// Returns how many tags a shallow depth is a part of: those of the whole map, or of a word.
    #[inline]
    pub(crate) const fn shared(self, whole_map: bool) -> u32 {
        if whole_map { self.depth } else { 1 << self.shift }
    }

    /// Returns the shallow depth for `async_depth` of all tags: of the whole map, or scaled to a
    /// word and rounded up.
    #[inline]
    pub(crate) const fn shallow_depth(self, async_depth: u32, whole_map: bool) -> u32 {
        let part = async_depth as u64 * self.shared(whole_map) as u64;
        part.div_ceil(self.depth as u64) as u32
    }
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
        assert_eq!(SchedTags::new(64, 4).shallow_depth(48, false), 12);
    }

    #[test]
    fn shallow_depth_by_version() {
        let mut map = TagMap::new(64);
        // 16-bit words, two positions of each.
        let tags: Vec<u32> =
            core::iter::from_fn(|| map.take_shallow(2, Shallow::PerWord)).map(|t| t.0).collect();
        assert_eq!(tags, [0, 1, 16, 17, 32, 33, 48, 49]);
        let of_whole = |limit| {
            let mut map = TagMap::new(64);
            core::iter::from_fn(|| map.take_shallow(limit, Shallow::WholeMap))
                .map(|t| t.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(of_whole(1), [0]);
        assert_eq!(of_whole(6), [0, 1, 16, 17, 32, 48]);
        assert_eq!(of_whole(63), (0..63).collect::<Vec<_>>());
        assert_eq!(of_whole(100).len(), 64);
    }

    /// What debugfs showed on Linux 7.3: 12 of 64 requests move through the word of the hint, and
    /// the hint is the tag that was freed last.
    #[test]
    fn tags_of_a_scheduler_move_through_the_word_of_the_hint() {
        let mut map = TagMap::new(64).spread(1, 37);
        let take = |map: &mut TagMap| map.take_for(0, None).map(|tag| tag.0);
        assert_eq!((take(&mut map), take(&mut map)), (Some(32), Some(33)));
        map.free_of(0, Tag(32));
        let next: Vec<u32> = (0..14).filter_map(|_| take(&mut map)).collect();
        assert_eq!(next, (34..48).collect::<Vec<_>>());
        assert_eq!(take(&mut map), Some(32), "the word has no other");
        assert_eq!(take(&mut map), Some(48), "the next word");
    }

    #[test]
    fn a_limit_of_one_tag_is_that_of_the_first_word() {
        let mut map = TagMap::new(64).spread(1, 37);
        let one = Some((1, Shallow::WholeMap));
        assert_eq!(map.take_for(0, one), Some(Tag(0)));
        assert!(!map.has_shallow(1, Shallow::WholeMap));
        assert_eq!(map.take_for(0, one), None);
        assert_eq!(map.take_for(0, None), Some(Tag(1)), "the hint is the first word then");
        map.free_of(0, Tag(0));
        assert!(map.has_shallow(1, Shallow::WholeMap));
        assert_eq!(map.take_for(0, one), Some(Tag(0)));
    }

    /// Of 256 tags 64 were left, all in one word, so a limit takes the lowest of them.
    #[test]
    fn a_set_that_became_smaller_keeps_its_words() {
        let mut map = TagMap::in_words(64, word_shift(256));
        let tags: Vec<u32> =
            core::iter::from_fn(|| map.take_shallow(48, Shallow::WholeMap)).map(|t| t.0).collect();
        assert_eq!(tags, (0..48).collect::<Vec<_>>());
        assert!(!map.has_shallow(48, Shallow::PerWord) && map.has_shallow(49, Shallow::PerWord));
    }

    #[test]
    fn allowed_positions_against_all_of_them() {
        let mut rng = elevon_testkit::Rng(2);
        let is_taken =
            |map: &TagMap, tag: Tag| map.free[(tag.0 / 64) as usize] >> (tag.0 % 64) & 1 == 0;
        for depth in [1, 7, 62, 64, 100, 256, 1000] {
            let mut map = TagMap::new(depth);
            for _ in 0..500 {
                let (limit, tag) =
                    (rng.below(u64::from(depth) + 3) as u32, Tag(rng.below(depth.into()) as u32));
                if is_taken(&map, tag) {
                    map.free(tag);
                }
                let word_bits = 1 << word_shift(depth);
                let expected =
                    (0..depth).find(|&at| at % word_bits < limit && !is_taken(&map, Tag(at)));
                assert_eq!(
                    map.first_free_shallow(limit, Shallow::PerWord),
                    expected,
                    "{limit} a word of {depth}"
                );
                map.take_shallow(limit, Shallow::WholeMap);
            }
            for limit in 0..=depth {
                let mut map = TagMap::new(depth);
                let count =
                    core::iter::from_fn(|| map.take_shallow(limit, Shallow::WholeMap)).count();
                assert_eq!(count, limit as usize, "of {depth}");
            }
        }
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
