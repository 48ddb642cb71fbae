//! Sums of what a trace says, which may be any numbers.

/// Adds a length or a time of the trace to a sum, which stays at its maximum if it would overflow:
/// a hostile trace has any lengths and times.
#[inline]
pub(super) fn add(sum: &mut u64, value: u64) {
    *sum = sum.saturating_add(value);
}
