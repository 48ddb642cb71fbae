//! The hard disk's parameters as a table of plain numbers, so that a profile's text can change
//! them.

use elevon_core::units::{Bytes, Nanos};

use crate::device::HddParameters;
use crate::device::parameter::{Parameter, parameters};

/// The settings of a hard disk, in base units (bytes, nanoseconds).
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PARAMETERS holds the meaning, unit and range of every field")]
pub struct DiskSettings {
    pub size: u64,
    pub rpm: u64,
    pub outer_rate: u64,
    pub inner_rate: u64,
    pub margin: u64,
    pub miss_overhead: u64,
    pub hit_overhead: u64,
    pub link: u64,
    pub cache: u64,
    pub write_cache: u64,
    pub segments: u64,
    pub read_ahead: u64,
    pub shortest_first: u64,
    pub starvation: u64,
    pub queue_depth: u64,
}

/// The parameters of [`DiskSettings`].
pub(super) const PARAMETERS: &[Parameter<DiskSettings>] = parameters! {
    size Size in (1 << 30, 1 << 50), "capacity";
    rpm Count in (1000, 20000), "turns per minute";
    outer_rate Rate in (1_000_000, 10_000_000_000), "media rate at the outer edge, where the device starts";
    inner_rate Share in (1_000, 1_000_000), "media rate at the inner edge, as a share of it";
    margin Time in (0, 10_000_000), "time left after a seek so as not to miss the sector";
    miss_overhead Time in (0, 100_000_000), "cost of a command that needs the medium";
    hit_overhead Time in (0, 100_000_000), "cost of a command that the cache serves";
    link Rate in (1_000_000, 10_000_000_000), "rate of the interface, both directions together";
    cache Size in (1 << 16, 1 << 36), "dirty data that the cache holds";
    write_cache Switch in (0, 1), "1: the volatile write cache is on (hdparm -W)";
    segments Count in (1, 256), "runs that it reads ahead";
    read_ahead Size in (4096, 1 << 30), "how far it reads ahead of each";
    shortest_first Switch in (0, 1), "1: the command with the shortest positioning time first (NCQ); 0: the oldest";
    starvation Time in (1_000_000, 60_000_000_000), "age from which the oldest goes first all the same";
    queue_depth Count in (1, 32), "commands that it holds";
};

impl DiskSettings {
    /// Returns the settings of these parameters.
    pub(super) fn from_parameters(p: &HddParameters) -> Self {
        Self {
            size: p.size.get(),
            rpm: p.rpm.into(),
            outer_rate: p.outer_rate.get(),
            inner_rate: p.inner_permille * 1000,
            margin: p.margin.get(),
            miss_overhead: p.overhead_miss.get(),
            hit_overhead: p.overhead_hit.get(),
            link: p.link.get(),
            cache: p.cache.get(),
            write_cache: p.write_cache.into(),
            segments: p.segments.into(),
            read_ahead: p.read_ahead.get(),
            shortest_first: p.sptf.into(),
            starvation: p.starvation.get(),
            queue_depth: p.queue_depth.into(),
        }
    }

    /// Returns `base` with these settings. Ranges were checked when the text was parsed.
    pub(super) fn applied_to(&self, base: &HddParameters) -> HddParameters {
        HddParameters {
            size: Bytes::new(self.size),
            rpm: self.rpm as u32,
            outer_rate: Bytes::new(self.outer_rate),
            inner_permille: (self.inner_rate / 1000).max(1),
            margin: Nanos::new(self.margin),
            overhead_miss: Nanos::new(self.miss_overhead),
            overhead_hit: Nanos::new(self.hit_overhead),
            link: Bytes::new(self.link),
            cache: Bytes::new(self.cache),
            write_cache: self.write_cache == 1,
            segments: self.segments as u32,
            read_ahead: Bytes::new(self.read_ahead),
            sptf: self.shortest_first == 1,
            starvation: Nanos::new(self.starvation),
            queue_depth: self.queue_depth as u32,
            ..base.clone()
        }
    }
}
