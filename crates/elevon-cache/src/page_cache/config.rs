//! How a page cache is set up: its memory, policies and limits.

use super::*;

/// When a write is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// When its pages are dirty; a flusher writes them later.
    #[default]
    Back,
    /// When the device has its pages.
    Through,
}

impl WriteMode {
    /// Every mode.
    pub const ALL: [Self; 2] = [Self::Back, Self::Through];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Back => "write-back",
            Self::Through => "write-through",
        }
    }

    /// The mode of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// How a cache is set up.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// The machine's memory.
    pub memory: Bytes,
    /// What others use of it: kernel and programs.
    pub reserved: Bytes,
    /// Of that, what programs have and do not touch: reclaim may put it in zram, and an OOM kill
    /// frees an eighth of it.
    pub idle: Bytes,
    /// Idle memory that zram takes (its size before compression). Zero: there is none, and reclaim
    /// looks at files' pages only.
    pub zram: Bytes,
    /// How ready reclaim is to take programs' memory, 0 to 200; see
    /// [`Anonymous::swappiness`].
    pub swappiness: u8,
    /// Which page goes next.
    pub policy: ReplacementConfig,
    /// Readahead window in pages (`read_ahead_kb` / 4).
    pub ra_pages: u32,
    /// The device's largest request in pages.
    pub io_pages: u32,
    /// The kernel's rules.
    pub rules: Rules,
    /// What content does to priority.
    pub activity: Activity,
    /// Settings of `page-exact`.
    pub activity_options: Options,
    /// Dirty limits.
    pub dirty: DirtyRatios,
    /// When the flusher looks for old dirty pages.
    pub flusher_times: FlusherTimes,
    /// Jiffies per second.
    pub hz: Hz,
    /// Pages added to the low and high marks (Android).
    pub extra_free: u64,
    /// When a write is over.
    pub write_mode: WriteMode,
    /// The flusher's task: a number of its own.
    pub flusher: TaskId,
    /// Tenants 1 to this have a flusher task each, numbered behind `flusher`, so that one that
    /// sleeps for a limit of its tenant does not hold up the others. Those of higher numbers
    /// share the root's.
    pub tenant_flushers: u32,
    /// Whether there are bytes to copy: [`PageCache::poll_copy`].
    pub copies: bool,
    /// Windows of time that waits are counted in, by those who count them:
    /// [`crate::stats::Windows`].
    pub wait_window: Nanos,
}

impl CacheConfig {
    /// A machine with so much memory, everything else as Linux has it; the flusher is task
    /// `flusher`.
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
            wait_window: Nanos::from_secs(1),
        }
    }
}
