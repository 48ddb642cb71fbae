//! Comparisons of what a device delivers at two depths.

use super::sums::Sums;
use super::{LOSES, Verdict};

/// Returns true if requests do not wait for each other in the device: with more in flight their
/// times are as with fewer, and not much longer than what they take alone. Times are compared with
/// what is expected of them, because a probe may see more of the long ones.
pub(super) fn do_not_wait(fewer: &Sums, more: &Sums) -> bool {
    let [t, e, t_of_fewer, e_of_fewer] =
        [more.time, more.alone, fewer.time, fewer.alone].map(u128::from);
    t * e_of_fewer * 15 <= t_of_fewer * e * 16 && t * 4 <= e * 5
}

/// Returns true if a smaller depth clearly costs more than a quarter of the throughput.
pub(super) fn is_costly(fewer: &Sums, more: &Sums, rest: u64) -> bool {
    fewer.delivered(rest) * 4 < more.delivered(rest) * 3
        && compare(fewer, more, rest, LOSES, false) == Verdict::High
}

/// Compares the elasticity from the smaller to the larger depth with a threshold in percent.
pub(super) fn compare(
    small: &Sums,
    large: &Sums,
    rest: u64,
    threshold: i64,
    must_decide: bool,
) -> Verdict {
    let gain = |few: u64, many: u64| log2(many) - log2(few);
    let (deeper, faster) =
        (gain(small.depth(), large.depth()), gain(small.delivered(rest), large.delivered(rest)));
    let excess = faster - deeper * threshold / 100;
    // Two standard errors of a quotient; the logarithm changes by 1/ln 2 of a relative change.
    let relative = 2 * ((small.error() + large.error()) * 1_000_000).isqrt() as i64;
    let error = relative * OCTAVE / 693_147;
    match () {
        () if excess > error => Verdict::High,
        () if excess < -error => Verdict::Low,
        () if must_decide => Verdict::Even { is_low: excess < 0 },
        () => Verdict::Unclear,
    }
}

/// Unit of logarithms.
pub(super) const OCTAVE: i64 = 1 << 16;

/// Returns the logarithm to the base 2, in 1/65536; that of 0 is as of 1.
pub(super) fn log2(value: u64) -> i64 {
    let value = value.max(1);
    let whole = value.ilog2();
    // From 1 to below 2, in 1/2^31; squared, what exceeds 2 is the next digit.
    let mut rest = if whole > 31 { value >> (whole - 31) } else { value << (31 - whole) };
    let mut digits = 0;
    for _ in 0..16 {
        rest = (rest * rest) >> 31;
        let digit = rest >> 32;
        digits = 2 * digits + digit as i64;
        rest >>= digit;
    }
    i64::from(whole) * OCTAVE + digits
}
