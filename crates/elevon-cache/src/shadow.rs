//! Shadow entries: an evicted page leaves one at its index, so that a refault can be told from a
//! first fault.
//!
//! A shadow holds a stamp of [`STAMP_BITS`] bits, whose meaning depends on the policy, and one bit
//! that says whether the page was in the working set. The kernel has 36 to 46 bits of stamp. With
//! 30 bits a stamp still counts 4 TiB of evictions before it wraps, and an index entry fits in four
//! bytes. Truncated and invalidated pages leave no shadow.
//!
//! Cost: O(1).

/// The number of bits of a stamp.
pub(crate) const STAMP_BITS: u32 = 30;
const STAMP_MASK: u32 = (1 << STAMP_BITS) - 1;

/// A stamp and the working-set bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadow(u32);

impl Shadow {
    /// Returns a shadow with the low [`STAMP_BITS`] bits of `stamp`.
    #[inline]
    pub const fn new(stamp: u64, workingset: bool) -> Self {
        Self((stamp as u32 & STAMP_MASK) << 1 | workingset as u32)
    }

    /// Returns the stamp, modulo 2^[`STAMP_BITS`].
    #[inline]
    pub const fn stamp(self) -> u64 {
        (self.0 >> 1) as u64
    }

    /// Returns true if the page was in the working set when it was evicted.
    #[inline]
    pub(crate) const fn is_workingset(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns the 31 bits that an index entry keeps.
    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the shadow with these [`Self::bits`].
    pub(super) const fn from_bits(bits: u32) -> Self {
        Self(bits & ((1 << 31) - 1))
    }

    /// Returns the distance from the stamp to the counter's value `now`.
    #[inline]
    pub const fn age(self, now: u64) -> u64 {
        distance(now, self.stamp(), STAMP_BITS)
    }
}

/// Returns the distance from `stamp` to `now` on a counter of which only `bits` bits are kept.
#[inline]
pub(crate) const fn distance(now: u64, stamp: u64, bits: u32) -> u64 {
    now.wrapping_sub(stamp) & ((1 << bits) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bit_stamps_wrap() {
        assert_eq!(distance(5, 250, 8), 11);
    }

    #[test]
    fn a_shadow_keeps_stamp_and_bit() {
        for (stamp, bit) in [(0, false), (28, true), ((1 << STAMP_BITS) - 1, true)] {
            let shadow = Shadow::from_bits(Shadow::new(stamp, bit).bits());
            assert_eq!((shadow.stamp(), shadow.is_workingset()), (stamp, bit));
            assert_eq!(shadow.age(stamp + 3), 3);
        }
    }
}
