//! The blocks that a random pass has not visited, for jobs with several block sizes. The map finds
//! the next free block from any block on, and the length of the free run there. It is a tree of
//! bitmaps: O(log₆₄ blocks) per search, one bit and a 63rd per block.

/// A set of blocks, all of them free at first.
#[derive(Clone, Debug)]
pub(crate) struct FreeMap {
    /// Bit i of a level says that word i of the level below has a bit set; the first level has one
    /// bit per block.
    levels: Vec<Vec<u64>>,
    len: u64,
    left: u64,
}

impl FreeMap {
    pub(crate) fn new(len: u64) -> Self {
        let (mut levels, mut bits) = (Vec::new(), len.max(1));
        loop {
            let words = bits.div_ceil(64);
            let mut level = vec![u64::MAX; words as usize];
            if !bits.is_multiple_of(64) {
                level[words as usize - 1] = (1 << (bits % 64)) - 1;
            }
            levels.push(level);
            if words == 1 {
                return Self { levels, len: len.max(1), left: len.max(1) };
            }
            bits = words;
        }
    }

    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    pub(crate) const fn is_used_up(&self) -> bool {
        self.left == 0
    }

    pub(crate) fn is_free(&self, block: u64) -> bool {
        block < self.len && self.levels[0][(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    /// Returns the first free block at or after `from`, continuing from the start at the end.
    pub(crate) fn next_free(&self, from: u64) -> Option<u64> {
        self.first_at_or_after(from).or_else(|| self.first_at_or_after(0))
    }

    fn first_at_or_after(&self, from: u64) -> Option<u64> {
        let mut at = from;
        // Goes up until a word has a bit at or after the place, then down by the lowest bits.
        for (height, level) in self.levels.iter().enumerate() {
            let word =
                level.get((at / 64) as usize).copied().unwrap_or(0) & (u64::MAX << (at % 64));
            if word != 0 {
                let mut found = at / 64 * 64 + u64::from(word.trailing_zeros());
                for below in self.levels[..height].iter().rev() {
                    found = found * 64 + u64::from(below[found as usize].trailing_zeros());
                }
                return Some(found);
            }
            at = at / 64 + 1;
        }
        None
    }

    /// Takes up to `most` consecutive free blocks from `from` on. Returns their number.
    pub(crate) fn take(&mut self, from: u64, most: u64) -> u64 {
        let mut taken = 0;
        while taken < most && self.is_free(from + taken) {
            let mut bit = from + taken;
            for level in &mut self.levels {
                let word = &mut level[(bit / 64) as usize];
                *word &= !(1 << (bit % 64));
                if *word != 0 {
                    break;
                }
                bit /= 64;
            }
            taken += 1;
        }
        self.left -= taken;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::{Purpose, Rng};

    #[test]
    fn like_a_naive_one() {
        for len in [1, 63, 64, 65, 4096, 5000, 300_000] {
            let mut rng = Rng::stream(len, 0, 0, Purpose::Offset);
            let (mut map, mut naive) = (FreeMap::new(len), vec![true; len as usize]);
            let mut left = len;
            while left > 0 && (len < 10_000 || left > len - 5000) {
                let from = rng.below(len);
                let expected = (from..len).chain(0..from).find(|&i| naive[i as usize]);
                assert_eq!(map.next_free(from), expected);
                let (start, most) = (expected.expect("some are left"), 1 + rng.below(20));
                let run =
                    (start..len).take(most as usize).take_while(|&i| naive[i as usize]).count()
                        as u64;
                assert_eq!(map.take(start, most), run);
                naive[start as usize..(start + run) as usize].fill(false);
                left -= run;
                assert_eq!(map.is_used_up(), left == 0);
            }
        }
    }
}
