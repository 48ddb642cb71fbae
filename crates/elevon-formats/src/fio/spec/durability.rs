//! Durability of writes.

/// How a job makes its writes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durability {
    /// `fsync`: after this many writes; 0: never.
    pub fsync: u32,
    /// `fdatasync`: after this many writes; 0: never.
    pub fdatasync: u32,
    /// `sync_file_range` of a buffered job: syncs what was written since the last sync, after a
    /// number of writes.
    pub file_range: Option<SyncFileRange>,
    /// `end_fsync`: at the end of each loop.
    pub end_fsync: bool,
    /// `fsync_on_close`: when a file is closed.
    pub fsync_on_close: bool,
    /// `sync`: how every write is made durable.
    pub sync: SyncMode,
    /// `atomic`: every write is issued with `RWF_ATOMIC`.
    pub atomic: bool,
}

/// `sync_file_range`: the steps of a sync, and how often it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncFileRange {
    /// `wait_before`: wait for pages that are already being written.
    pub wait_before: bool,
    /// `write`: submit dirty pages.
    pub write: bool,
    /// `wait_after`: wait until the pages are written.
    pub wait_after: bool,
    /// The number of writes between two syncs, at least 1.
    pub every: u32,
}

/// `sync`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// Not synchronous.
    #[default]
    None,
    /// O_SYNC.
    Sync,
    /// O_DSYNC.
    Dsync,
}
