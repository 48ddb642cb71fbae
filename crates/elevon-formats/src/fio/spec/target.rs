//! Where a job does its I/O: files, region and page cache.

/// The files of a job, and their turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// `filename`, split at colons; empty if the job names none.
    pub names: Vec<String>,
    /// `directory` of the files.
    pub directory: Option<String>,
    /// `nrfiles`: the number of files, at least 1.
    pub count: u32,
    /// `file_service_type`: the file of the next I/O.
    pub service: FileService,
    /// `filesize` (smallest, largest), in bytes.
    pub size: Option<(u64, u64)>,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            directory: None,
            count: 1,
            service: FileService::RoundRobin(1),
            size: None,
        }
    }
}

/// `file_service_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileService {
    /// A random file for each switch.
    Random,
    /// One file after the other, switching after this many I/Os.
    RoundRobin(u32),
    /// One file until it is finished.
    Sequential,
}

/// The region of a job on its files, and the bytes it moves there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// `size` of the region that all files of the job form; `None`: the device.
    pub size: Option<Amount>,
    /// `io_size`: bytes to move, if different from `size`.
    pub io_size: Option<Amount>,
    /// `offset`: the start of the region.
    pub offset: Amount,
    /// `offset_increment`, times the clone's index.
    pub offset_increment: Amount,
    /// `offset_align` in bytes; 0: none.
    pub offset_align: u64,
    /// `fill_device`: without `size`, the job writes to the end of the device. A write for which
    /// there is no space ends the job, and is no error.
    pub fill_device: bool,
    /// `zonemode=strided`, with its zones.
    pub zones: Option<StridedZones>,
}

/// The zones of `zonemode=strided`, in bytes. Zone n starts at n times `range + skip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StridedZones {
    /// `zonesize`: bytes that are moved in a zone before the next zone; at least 1.
    pub size: u64,
    /// `zonerange`: length of a zone; at least one block.
    pub range: u64,
    /// `zoneskip`: the gap between two zones.
    pub skip: u64,
}

/// Bytes, or a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Percent (0 to 100) of the device, file or size that it refers to.
    Percent(u32),
}

impl Default for Amount {
    fn default() -> Self {
        Self::Bytes(0)
    }
}

/// How a job uses the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caching {
    /// `direct`: the job goes past the page cache.
    pub direct: bool,
    /// `invalidate`: the job's files are dropped from the page cache before its I/O, unless
    /// `pre_read` is set.
    pub invalidate: bool,
    /// `pre_read`: the job's files are read into the page cache before its I/O.
    pub pre_read: bool,
    /// `overwrite`: the job's files have been written before, so a page that is written in part is
    /// read first.
    pub overwrite: bool,
    /// `fadvise_hint`: what the job announces to the page cache.
    pub fadvise: Fadvise,
}

impl Default for Caching {
    fn default() -> Self {
        Self {
            direct: false,
            invalidate: true,
            pre_read: false,
            overwrite: false,
            fadvise: Fadvise::ByWorkload,
        }
    }
}

/// `fadvise_hint`: the access pattern that a job announces to the page cache (posix_fadvise, or
/// posix_madvise for a mapping).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fadvise {
    /// No announcement.
    None,
    /// Random or sequential, as the job's I/O is.
    #[default]
    ByWorkload,
    /// Random.
    Random,
    /// Sequential.
    Sequential,
}
