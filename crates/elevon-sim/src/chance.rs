//! Random numbers as a function: the same random seed and counter give the same number on every
//! machine, whatever else is drawn.
//!
//! There is no generator with a shared state: a draw is `mix64` of random seed, purpose and a
//! counter (a command's sequence number, a sector), so that one more draw in one place changes
//! nothing in another.

pub(crate) use elevon_core::mix::mix64;

/// Returns draw number `counter` for `purpose` with `seed`.
#[inline]
pub const fn draw(seed: u64, purpose: u64, counter: u64) -> u64 {
    mix64(mix64(seed ^ mix64(purpose)) ^ counter)
}

/// Scales `draw` to `0..bound`, without the bias and the cost of a remainder; 0 if `bound` is 0.
#[inline]
pub const fn below(draw: u64, bound: u64) -> u64 {
    ((draw as u128 * bound as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even() {
        let mut buckets = [0u32; 16];
        for counter in 0..16_000 {
            buckets[below(draw(7, 3, counter), 16) as usize] += 1;
        }
        assert!(buckets.iter().all(|n| (850..1150).contains(n)), "{buckets:?}");
        assert_eq!(below(u64::MAX, 10), 9);
        assert_eq!(below(u64::MAX, 0), 0);
    }
}
