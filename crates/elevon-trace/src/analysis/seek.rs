//! Distances between consecutive I/Os.

use elevon_core::stats::LatencyStat;

/// Distances in sectors from the end of one I/O to the start of the next, in either direction.
#[derive(Clone, Debug, Default)]
pub struct Seeks {
    /// I/Os that started where the previous one ended.
    pub sequential: u64,
    /// Distances of all I/Os but the first; percentiles have bins of 1/64.
    pub distances: LatencyStat,
    last_end: Option<u64>,
}

impl Seeks {
    #[inline]
    pub(super) fn add(&mut self, sector: u64, sectors: u64) {
        if let Some(last) = self.last_end.replace(sector.wrapping_add(sectors)) {
            let distance = sector.abs_diff(last);
            self.sequential += u64::from(distance == 0);
            self.distances.add(distance);
        }
    }

    /// Returns the mean distance in sectors.
    pub fn mean(&self) -> Option<f64> {
        (self.distances.count > 0).then(|| self.distances.sum as f64 / self.distances.count as f64)
    }
}
