//! Tokens: how many requests of a domain may be between dispatch and completion, over the whole
//! device.
//!
//! A depth limits the token numbers, not their count: after the depth was reduced, holders of
//! numbers above it are not counted. The kernel picks a number by a per-CPU hint; here the lowest
//! free one is taken, so that runs are reproducible.
//!
//! Cost: O(depth / 64), which is at most 4.

/// The largest depth of any domain.
const MAX_DOMAIN_DEPTH: usize = 256;

/// The tokens of a domain.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    taken: [u64; MAX_DOMAIN_DEPTH / 64],
    depth: u32,
    maximum: u32,
}

impl Tokens {
    /// Returns `maximum` (1 to 256) free tokens.
    pub(super) const fn new(maximum: u32) -> Self {
        assert!(maximum >= 1 && maximum as usize <= MAX_DOMAIN_DEPTH);
        Self { taken: [0; MAX_DOMAIN_DEPTH / 64], depth: maximum, maximum }
    }

    pub(super) const fn depth(&self) -> u32 {
        self.depth
    }

    /// Takes the lowest free number, if it is below the depth.
    #[inline]
    pub(super) fn take(&mut self) -> Option<u8> {
        let word = self.taken.iter().position(|word| *word != u64::MAX)?;
        let bit = (!self.taken[word]).trailing_zeros();
        let number = word as u32 * 64 + bit;
        if number >= self.depth {
            return None;
        }
        self.taken[word] |= 1 << bit;
        Some(number as u8)
    }

    /// Frees a number. Returns true if it may be taken again.
    #[inline]
    pub(super) fn free(&mut self, number: u8) -> bool {
        assert!(self.is_taken(number), "token {number} is freed twice");
        self.taken[usize::from(number / 64)] &= !(1 << (number % 64));
        u32::from(number) < self.depth
    }

    /// Sets the depth to that many quarters of itself, from 1 to the maximum.
    pub(super) fn scale(&mut self, quarters: u32) {
        self.depth = (self.depth * quarters / 4).clamp(1, self.maximum);
    }

    /// Returns the count of free numbers below the depth.
    pub(super) fn free_below_depth(&self) -> u32 {
        let below = |word: usize| match self.depth.saturating_sub(word as u32 * 64) {
            bits @ 0..64 => (1u64 << bits) - 1,
            _ => u64::MAX,
        };
        self.taken.iter().enumerate().map(|(word, taken)| (!taken & below(word)).count_ones()).sum()
    }

    /// Returns how many numbers are taken below the depth, and above it.
    pub(super) fn held(&self) -> (u32, u32) {
        let taken = (0..MAX_DOMAIN_DEPTH).filter(|n| self.is_taken(*n as u8));
        let (below, above): (u32, u32) =
            taken.fold(
                (0, 0),
                |(b, a), n| if (n as u32) < self.depth { (b + 1, a) } else { (b, a + 1) },
            );
        (below, above)
    }

    fn is_taken(&self, number: u8) -> bool {
        self.taken[usize::from(number / 64)] >> (number % 64) & 1 == 1
    }

    #[cfg(test)]
    pub(super) fn set_depth(&mut self, depth: u32) {
        self.depth = depth;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_above_a_cut_finish_undisturbed() {
        let mut tokens = Tokens::new(128);
        let numbers: alloc::vec::Vec<u8> = core::iter::from_fn(|| tokens.take()).collect();
        assert_eq!(numbers, (0..128).collect::<alloc::vec::Vec<u8>>());
        tokens.scale(1);
        assert_eq!((tokens.depth(), tokens.held(), tokens.free_below_depth()), (32, (32, 96), 0));
        assert!(!tokens.free(100), "a number above the depth helps nobody");
        assert_eq!(tokens.take(), None);
        assert!(tokens.free(31));
        assert_eq!(tokens.free_below_depth(), 1);
        assert_eq!((tokens.take(), tokens.take()), (Some(31), None));
    }

    #[test]
    fn depths_stay_between_one_and_the_maximum() {
        let mut tokens = Tokens::new(16);
        for (quarters, depth) in
            [(1, 4), (1, 1), (1, 1), (4, 1), (8, 2), (5, 2), (8, 4), (8, 8), (8, 16), (8, 16)]
        {
            tokens.scale(quarters);
            assert_eq!(tokens.depth(), depth);
        }
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn freeing_twice_is_loud() {
        let mut tokens = Tokens::new(2);
        let number = tokens.take().expect("all free");
        tokens.free(number);
        tokens.free(number);
    }
}
