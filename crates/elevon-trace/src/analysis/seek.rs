//! Distances between consecutive I/Os.

use elevon_core::histogram::Histogram;

/// Distances in sectors from the end of one I/O to the start of the next, in either direction.
#[derive(Clone, Debug, Default)]
pub struct Seeks {
    /// Number of I/Os, without the first.
    pub count: u64,
    /// I/Os that started where the previous one ended.
    pub sequential: u64,
    /// Sum of the distances.
    pub sum: u128,
    /// Distribution of the distances, with bins of 1/64.
    pub distances: Histogram,
    last_end: Option<u64>,
}

impl Seeks {
    #[inline]
    pub(super) fn add(&mut self, sector: u64, sectors: u64) {
        if let Some(last) = self.last_end.replace(sector.wrapping_add(sectors)) {
            let distance = sector.abs_diff(last);
            self.count += 1;
            self.sequential += u64::from(distance == 0);
            self.sum += u128::from(distance);
            self.distances.add(distance);
        }
    }

    /// Returns the mean distance in sectors.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}
