//! What the page cache asked of the device, and what else reports want to know of it.

use elevon_cache::activity::Origin;
use elevon_cache::page_cache::{CacheIo, PageCache, Reading};
use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::op::{Flags, Op};
use elevon_core::units::PAGE_SIZE;

use crate::chance::split_mix;

/// Pages and bios that the page cache had the device read and write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheIoStats {
    /// Bios.
    pub bios: u64,
    /// Pages read in windows of readahead, those asked for among them.
    pub readahead_pages: u64,
    /// Pages read singly.
    pub read_pages: u64,
    /// Pages written by tasks that sync.
    pub sync_pages: u64,
    /// Pages written by the flusher, and by advice.
    pub writeback_pages: u64,
    /// Bios by what they were for: the number of their [`Origin`]. Flushes are among those of
    /// fsync.
    pub sources: [IoStatsBySource; Origin::ALL.len()],
}

/// Bios of one origin as they were submitted, whatever decided their class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStatsBySource {
    /// Bios.
    pub bios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of class RT.
    pub rt: u64,
    /// Those that an experiment's control made RT.
    pub controlled: u64,
}

impl CacheIoStats {
    /// Bios that an experiment's control made RT.
    pub(super) fn controlled(&self) -> u64 {
        self.sources.iter().map(|source| source.controlled).sum()
    }

    /// Counts a bio that is submitted with this priority, which a control may have `controlled`.
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

    /// What the cache says, with what is counted here alone.
    pub(super) fn reading(&self, cache: &PageCache) -> Reading {
        let of_cache = cache.reading();
        Reading { bios: self.bios, promoted: of_cache.promoted + self.controlled(), ..of_cache }
    }
}

/// Who is RT in an experiment's controls, whatever the content: `activity=oracle`, `faults` and
/// `random:PERMILLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityControl {
    /// Bios that somebody waits for when they are submitted: of a read, a fault, or a sync.
    Oracle,
    /// All that faults of mappings read, readahead too.
    Faults,
    /// So many of a thousand bios, whatever they are for.
    Random {
        /// 0 to 1000.
        permille: u16,
        /// Which ones.
        seed: u64,
    },
}

impl ActivityControl {
    /// What the words mean; `None` for others.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "oracle" => Some(Self::Oracle),
            "faults" => Some(Self::Faults),
            _ => {
                let permille = text.strip_prefix("random:")?.parse().ok().filter(|permille| *permille <= 1000)?;
                Some(Self::Random { permille, seed: 0 })
            }
        }
    }

    /// Whether bio number `n` of a run is RT. `is_mapped`: its task has its files mapped.
    pub(super) fn picks(self, n: u64, io: &CacheIo, is_mapped: bool) -> bool {
        match self {
            Self::Oracle => matches!(io.origin, Origin::Fault | Origin::Read | Origin::Fsync),
            Self::Faults => is_mapped && io.op == Op::Read,
            Self::Random { permille, seed } => split_mix(&mut (seed ^ (n << 20))) % 1000 < u64::from(permille),
        }
    }
}
