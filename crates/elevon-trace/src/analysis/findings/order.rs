//! In which order the device completes requests: how many earlier ones a completion overtakes.
//!
//! A device that serves a few requests at a time and queues the others completes them nearly in the
//! order of issue: a completion overtakes at most those that are served beside it.

/// Minimum depth at which the order is looked at.
pub(in crate::analysis) const MIN_DEPTH_OF_AN_ORDER: u64 = 8;
/// Number of earlier requests that are counted.
pub(in crate::analysis) const MAX_OVERTAKEN: usize = 64;
/// A completion is in order if it overtakes less than this part of the requests in the device.
const IN_ORDER_PART: u64 = 2;
/// Minimum number of completions, and minimum part of them in percent, that must be in order.
const MIN_COMPLETIONS: u64 = 64;
const IN_ORDER_PERCENT: u64 = 95;

/// Counters.
#[derive(Clone, Debug)]
pub(in crate::analysis) struct Order {
    looked_at: u64,
    in_order: u64,
    /// Completions by the number of earlier requests that they overtook.
    overtaken: [u64; MAX_OVERTAKEN],
}

impl Default for Order {
    fn default() -> Self {
        Self { looked_at: 0, in_order: 0, overtaken: [0; MAX_OVERTAKEN] }
    }
}

impl Order {
    /// Counts a completion that overtook so many earlier requests, of `in_device` with itself;
    /// `None` if they are [`MAX_OVERTAKEN`] or more.
    #[inline]
    pub(in crate::analysis) fn on_completed(&mut self, overtaken: Option<usize>, in_device: u64) {
        self.looked_at += 1;
        if let Some(count) = overtaken.filter(|&count| count < MAX_OVERTAKEN) {
            self.overtaken[count] += 1;
            self.in_order += u64::from(count as u64 * IN_ORDER_PART < in_device);
        }
    }

    /// Returns how many earlier requests nearly all completions overtake at most, if a deep queue
    /// is served nearly in order.
    pub(super) fn overtakes(&self) -> Option<u64> {
        if self.looked_at < MIN_COMPLETIONS
            || self.in_order * 100 < self.looked_at * IN_ORDER_PERCENT
        {
            return None;
        }
        let most = self.looked_at - self.looked_at / 100;
        let mut seen = 0;
        let at = self.overtaken.iter().position(|count| {
            seen += count;
            seen >= most
        });
        Some(at.unwrap_or(MAX_OVERTAKEN) as u64)
    }
}
