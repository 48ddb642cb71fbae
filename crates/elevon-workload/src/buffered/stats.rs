//! Statistics of the bios of the page cache, and the controls of experiments.

use elevon_cache::activity::Origin;
use elevon_cache::page_cache::{CacheIo, PageCache, Reading};
use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::op::{Flags, Op};
use elevon_core::units::PAGE_SIZE;

use crate::chance::split_mix;

/// Pages and bios that the page cache read from and wrote to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheIoStats {
    /// Bios.
    pub bios: u64,
    /// Pages read in readahead windows, including the pages requested.
    pub readahead_pages: u64,
    /// Pages read one at a time.
    pub read_pages: u64,
    /// Pages written by tasks that sync.
    pub sync_pages: u64,
    /// Pages written by the flusher, and because of advice.
    pub writeback_pages: u64,
    /// Bios by their [`Origin`]. Flushes count for fsync.
    pub sources: [IoStatsBySource; Origin::ALL.len()],
}

/// Bios of one origin as they were submitted, for any reason of their class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStatsBySource {
    /// Bios.
    pub bios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of bios of class RT.
    pub rt: u64,
    /// Number of bios that the control of an experiment made RT.
    pub controlled: u64,
}

impl CacheIoStats {
    /// Returns the number of bios that the control of an experiment made RT.
    pub(super) fn controlled(&self) -> u64 {
        self.sources.iter().map(|source| source.controlled).sum()
    }

    /// Counts a bio submitted with this priority. `controlled`: a control made it RT.
    pub(super) fn count(&mut self, io: &CacheIo, ioprio: IoPrio, controlled: bool) {
        self.bios += 1;
        let source = &mut self.sources[io.origin as usize];
        source.bios += 1;
        source.bytes += io.bytes.get();
        source.rt += u64::from(ioprio.class() == PrioClass::Rt);
        source.controlled += u64::from(controlled);
        *match io.op {
            Op::Read if io.flags.contains(Flags::RAHEAD) => &mut self.readahead_pages,
            Op::Read => &mut self.read_pages,
            _ if io.flags.contains(Flags::SYNC) => &mut self.sync_pages,
            _ => &mut self.writeback_pages,
        } += io.bytes.get() / PAGE_SIZE;
    }

    /// Returns the cache's reading, with the counts that are kept only here.
    pub(super) fn reading(&self, cache: &PageCache) -> Reading {
        let of_cache = cache.reading();
        Reading { bios: self.bios, promoted: of_cache.promoted + self.controlled(), ..of_cache }
    }
}

/// A control of an experiment, which decides which bios are RT regardless of content:
/// `activity=oracle`, `faults` and `random:PERMILLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityControl {
    /// Bios that a task waits for when they are submitted: of a read, a fault, or a sync.
    Oracle,
    /// All bios that faults of mappings read, including readahead.
    Faults,
    /// A share of the bios, chosen at random.
    Random {
        /// The share in thousandths, 0 to 1000.
        permille: u16,
        /// The random seed of the choice.
        seed: u64,
    },
}

impl ActivityControl {
    /// Parses the words; `None` for any other.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "oracle" => Some(Self::Oracle),
            "faults" => Some(Self::Faults),
            _ => {
                let permille = text
                    .strip_prefix("random:")?
                    .parse()
                    .ok()
                    .filter(|permille| *permille <= 1000)?;
                Some(Self::Random { permille, seed: 0 })
            }
        }
    }

    /// Returns true if bio number `n` of a run is RT. `is_mapped`: its task has mapped its files.
    pub(super) fn picks(self, n: u64, io: &CacheIo, is_mapped: bool) -> bool {
        match self {
            Self::Oracle => matches!(io.origin, Origin::Fault | Origin::Read | Origin::Fsync),
            Self::Faults => is_mapped && io.op == Op::Read,
            Self::Random { permille, seed } => {
                split_mix(&mut (seed ^ (n << 20))) % 1000 < u64::from(permille)
            }
        }
    }
}
