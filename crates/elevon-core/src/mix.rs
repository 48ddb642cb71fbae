//! A mix of the bits of a number. A hash of counters takes the place of a generator: a draw depends
//! on its number alone, and not on what else was drawn.

/// The increment of SplitMix64's state: 2^64 divided by the golden ratio, made odd.
pub const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns a full-avalanche mix of 64 bits: the output of SplitMix64 for this state. The increment
/// is added first, so 0 does not map to 0.
#[inline]
pub const fn mix64(state: u64) -> u64 {
    finish(state.wrapping_add(GOLDEN_GAMMA))
}

/// The finaliser of SplitMix64.
#[inline]
pub(crate) const fn finish(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_reference_values() {
        // The first outputs of splitmix64 seeded with 0 and with 1234567.
        assert_eq!(mix64(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix64(GOLDEN_GAMMA), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(mix64(1_234_567), 6_457_827_717_110_365_317);
    }
}
