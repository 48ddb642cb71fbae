//! Shadow entries: an evicted page leaves one in its place, so that a refault can be told from a
//! first fault.
//!
//! A shadow holds a stamp of [`STAMP_BITS`] bits, whose meaning is the policy's, and one bit that
//! says whether the page was in the working set. The kernel has 36 to 46 bits of stamp; 30 still
//! count 4 TiB of evictions before they wrap, and let an index entry be four bytes. Truncated and
//! invalidated pages leave none.
//!
//! Cost: O(1).

/// Bits of a stamp.
pub const STAMP_BITS: u32 = 30;
const STAMP_MASK: u32 = (1 << STAMP_BITS) - 1;

/// A stamp and the working-set bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadow(u32);

impl Shadow {
    /// A shadow with the low [`STAMP_BITS`] bits of `stamp`.
    #[inline]
    pub const fn new(stamp: u64, workingset: bool) -> Self {
        Self((stamp as u32 & STAMP_MASK) << 1 | workingset as u32)
    }

    /// The stamp, modulo 2^[`STAMP_BITS`].
    #[inline]
    pub const fn stamp(self) -> u64 {
        (self.0 >> 1) as u64
    }

    /// Whether the page was in the working set when it was evicted.
    #[inline]
    pub const fn is_workingset(self) -> bool {
        self.0 & 1 != 0
    }

    /// The 31 bits an index entry keeps.
    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    /// From [`Self::bits`].
    pub(super) const fn from_bits(bits: u32) -> Self {
        Self(bits & ((1 << 31) - 1))
    }

    /// How far the counter `now` has come since the stamp.
    #[inline]
    pub const fn age(self, now: u64) -> u64 {
        distance(now, self.stamp(), STAMP_BITS)
    }
}

/// How far a counter of which only `bits` bits are kept has come from `stamp` to `now`.
#[inline]
pub const fn distance(now: u64, stamp: u64, bits: u32) -> u64 {
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
