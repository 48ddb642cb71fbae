//! The configuration of a page cache: its memory, policies and limits.

use super::*;

/// When a write has finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// A write has finished when its pages are dirty; a flusher writes them later.
    #[default]
    Back,
    /// A write has finished when the device has completed the write of its pages.
    Through,
}

impl WriteMode {
    /// All modes.
    pub const ALL: [Self; 2] = [Self::Back, Self::Through];

    /// Returns the mode's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Back => "write-back",
            Self::Through => "write-through",
        }
    }

    /// Returns the mode of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// The configuration of a cache.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// The machine's memory.
    pub memory: Bytes,
    /// The memory that is used outside the page cache: by the kernel and programs.
    pub reserved: Bytes,
    /// The part of `reserved` that programs own and do not touch. Reclaim may move it to zram, and
    /// an OOM kill frees an eighth of it.
    pub idle: Bytes,
    /// The idle memory that fits into zram (its size before compression). Zero: there is no zram,
    /// and reclaim scans file pages only.
    pub zram: Bytes,
    /// The preference of reclaim for programs' memory, 0 to 200; see `Anonymous::swappiness`.
    pub swappiness: u8,
    /// The replacement policy, which selects the page to evict.
    pub policy: ReplacementConfig,
    /// Readahead window in pages (`read_ahead_kb` / 4).
    pub ra_pages: u32,
    /// The device's largest request in pages.
    pub io_pages: u32,
    /// The rules of the kernel version.
    pub rules: Rules,
    /// The rule that derives a bio's priority from its content.
    pub activity: Activity,
    /// Settings of `page-exact`.
    pub activity_options: Options,
    /// Dirty limits.
    pub dirty: DirtyRatios,
    /// The times at which the flusher looks for old dirty pages.
    pub flusher_times: FlusherTimes,
    /// Jiffies per second.
    pub hz: Hz,
    /// Pages added to the low and high marks (Android).
    pub extra_free: u64,
    /// When a write has finished.
    pub write_mode: WriteMode,
    /// The flusher's task; no other task may have this number.
    pub flusher: TaskId,
    /// Each of the tenants 1 to this number has its own flusher task, numbered after `flusher`, so
    /// that a flusher task that sleeps for its tenant's limit does not delay other tenants.
    /// Tenants of higher numbers share the root's flusher task.
    pub tenant_flushers: u32,
    /// True if the frames hold bytes that must be copied: [`PageCache::poll_copy`].
    pub copies: bool,
    /// True if tenants have parts of the memory, so that the I/O of one that is held back does not
    /// hold the memory that others need. As in the kernel, a simulation has none.
    pub divides: bool,
    /// All folios have one page, as where the kernel has no huge pages, or the file system has no
    /// larger folios. Otherwise those of readahead grow, from 6.18 on.
    pub single_pages: bool,
    /// The length of the time windows in which observers count waits: [`crate::stats::Windows`].
    pub wait_window: Nanos,
}

impl CacheConfig {
    /// Returns the configuration of a machine with this memory and Linux's defaults; the flusher is
    /// task `flusher`.
    pub fn new(memory: Bytes, flusher: TaskId) -> Self {
        Self {
            memory,
            reserved: Bytes::ZERO,
            idle: Bytes::ZERO,
            zram: Bytes::ZERO,
            swappiness: SWAPPINESS,
            policy: ReplacementConfig::default(),
            ra_pages: RA_PAGES,
            io_pages: 320,
            rules: Kernel::default().rules(),
            activity: Activity::Off,
            activity_options: Options::default(),
            dirty: DirtyRatios::default(),
            flusher_times: FlusherTimes::default(),
            hz: Hz::default(),
            extra_free: 0,
            write_mode: WriteMode::Back,
            flusher,
            tenant_flushers: 0,
            copies: false,
            divides: false,
            single_pages: false,
            wait_window: Nanos::from_secs(1),
        }
    }
}
