//! Random numbers: one independent stream for each purpose of each process, so that the draws of
//! one part of a run never change what another part draws.
//!
//! The generator is xoshiro256++ seeded by SplitMix64, both as published by Blackman and Vigna. A
//! draw takes about a nanosecond and uses no floats.

use elevon_core::mix::{GOLDEN_GAMMA, mix64};

/// Returns the next output of SplitMix64 and advances `state`.
pub fn split_mix(state: &mut u64) -> u64 {
    let mixed = mix64(*state);
    *state = state.wrapping_add(GOLDEN_GAMMA);
    mixed
}

/// The purpose of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// Random offsets; the only stream that `randrepeat` fixes.
    Offset = 1,
    /// The choice of a file.
    File = 4,
    /// `percentage_random`.
    Sequential = 5,
    /// `rate_process=poisson`.
    Rate = 6,
    /// `cmdprio_percentage`.
    Priority = 7,
    /// `startdelay` ranges.
    StartDelay = 8,
    /// Sizes of files from a `filesize` range.
    FileSize = 9,
    /// Contents of buffers.
    Buffer = 10,
}

/// xoshiro256++.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Returns a generator whose state is drawn from a seed by SplitMix64.
    pub fn new(mut seed: u64) -> Self {
        Self { state: std::array::from_fn(|_| split_mix(&mut seed)) }
    }

    /// Returns the stream of one purpose of one clone of one job.
    pub fn stream(base: u64, job: u32, clone: u32, purpose: Purpose) -> Self {
        let mut state = base;
        let mut mixed = split_mix(&mut state);
        for word in [u64::from(job), u64::from(clone), purpose as u64] {
            state = mixed ^ word.wrapping_mul(0xd134_2543_de82_ef95);
            mixed = split_mix(&mut state);
        }
        Self::new(mixed)
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a number in `0..bound`: the high half of a product, with a negligible bias (below
    /// 2^-64 times `bound`). `bound` must be greater than 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true in `percent` of a hundred draws.
    #[inline]
    pub fn percent(&mut self, percent: u8) -> bool {
        self.below(100) < u64::from(percent)
    }

    /// Returns a float in [0, 1), a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// A keyed permutation of `0..len`, which visits every block once in random order without a map of
/// the blocks visited.
///
/// It is a bijection on the next power of two (odd multiplications and xor-shifts), applied again
/// until the result is below `len`; fewer than two rounds on average. Memory: O(1).
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    /// Half of its bits, rounded up.
    half: u32,
    mask: u64,
    /// The key and the multiplier of each round.
    rounds: [(u64, u64); 3],
}

impl Permutation {
    /// Returns a permutation of `0..len` (at least 1) drawn from `rng`.
    pub fn new(len: u64, rng: &mut Rng) -> Self {
        assert!(len > 0, "a permutation of nothing");
        let bits = (64 - (len - 1).leading_zeros()).max(2);
        let mask = u64::MAX >> (64 - bits);
        let rounds = std::array::from_fn(|_| {
            let key = rng.next_u64();
            (key, 0x9e37_79b9_7f4a_7c15 ^ (key & !1))
        });
        Self { len, half: bits.div_ceil(2), mask, rounds }
    }

    /// Returns the number of elements.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns false, since a permutation has at least one element.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the element that `index` (below `len`) maps to.
    #[inline]
    pub fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.len);
        let mut x = index;
        loop {
            x = self.mix(x);
            if x < self.len {
                return x;
            }
        }
    }

    #[inline]
    fn mix(&self, mut x: u64) -> u64 {
        for (key, factor) in self.rounds {
            // The bits beyond the mask do not reach those within it.
            x = (x ^ key).wrapping_mul(factor) & self.mask;
            x ^= x >> self.half;
        }
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_outputs() {
        let mut state = 1234567;
        let split: [u64; 3] = std::array::from_fn(|_| split_mix(&mut state));
        assert_eq!(split, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let first: [u64; 5] = std::array::from_fn(|_| rng.next_u64());
        assert_eq!(
            first,
            [41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205]
        );
    }

    #[test]
    fn streams_are_their_own() {
        let draw = |base, job, clone, purpose| Rng::stream(base, job, clone, purpose).next_u64();
        let mut seen: Vec<u64> = Vec::new();
        for base in 0..3 {
            for job in 0..3 {
                for clone in 0..3 {
                    seen.extend(
                        [Purpose::Offset, Purpose::File].map(|p| draw(base, job, clone, p)),
                    );
                }
            }
        }
        assert_eq!(draw(2, 2, 2, Purpose::File), *seen.last().expect("not empty"));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 54);
    }

    #[test]
    fn permutations_hit_everything_once() {
        let mut rng = Rng::new(7);
        for len in (1..70).chain([255, 256, 257, 1000, 4097, 10_000]) {
            let permutation = Permutation::new(len, &mut rng);
            let mut hit = vec![false; len as usize];
            for i in 0..len {
                let at = permutation.at(i) as usize;
                assert!(!std::mem::replace(&mut hit[at], true), "{at} twice of {len}");
            }
        }
    }

    #[test]
    fn permutations_look_random() {
        // Neighbours must be separated, and a prefix must cover the range evenly.
        let permutation = Permutation::new(100_000, &mut Rng::new(1));
        let places: Vec<u64> = (0..10_000).map(|i| permutation.at(i)).collect();
        let near = places.windows(2).filter(|w| w[0].abs_diff(w[1]) < 1000).count();
        assert!((100..320).contains(&near), "{near} of about 200");
        for tenth in 0..10 {
            let inside = places.iter().filter(|&&p| p / 10_000 == tenth).count();
            assert!((850..1150).contains(&inside), "tenth {tenth}: {inside}");
        }
    }

    /// The rounds as their definition has them, with every intermediate result cut to the domain.
    #[test]
    fn rounds_of_a_permutation() {
        for len in [2u64, 5, 64, 1000, 26_214_400, 1 << 40] {
            let order = Permutation::new(len, &mut Rng::new(len));
            let mut keys = Rng::new(len);
            let keys: [u64; 3] = std::array::from_fn(|_| keys.next_u64());
            let bits = (64 - (len - 1).leading_zeros()).max(2);
            let mask = (1 << bits) - 1;
            for index in (0..len).step_by((len / 50).max(1) as usize) {
                let expected = keys.iter().fold(index, |x, key| {
                    let x =
                        ((x ^ key) & mask).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ (key & !1)) & mask;
                    x ^ x >> bits.div_ceil(2)
                });
                assert_eq!(order.mix(index), expected, "{index} of {len}");
            }
        }
    }
}
