//! Virtio-blk: the configuration space and the requests of a disk.

mod request;
#[cfg(test)]
mod tests;

pub use request::Request;

/// Feature: the configuration has the largest length of a segment.
pub const FEATURE_SIZE_MAX: u64 = 1 << 1;
/// Feature: the configuration has the largest number of segments.
pub const FEATURE_SEG_MAX: u64 = 1 << 2;
/// Feature: the disk cannot be written.
pub const FEATURE_READ_ONLY: u64 = 1 << 5;
/// Feature: the configuration has the block size.
pub const FEATURE_BLK_SIZE: u64 = 1 << 6;
/// Feature: the disk has a volatile write cache and flushes it.
pub const FEATURE_FLUSH: u64 = 1 << 9;
/// Feature: the configuration has the topology.
pub const FEATURE_TOPOLOGY: u64 = 1 << 10;
/// Feature: the guest may turn the write cache on and off.
pub const FEATURE_WRITE_CACHE_SWITCH: u64 = 1 << 11;
/// Feature: the configuration has the number of queues.
pub const FEATURE_QUEUES: u64 = 1 << 12;
/// Feature: the disk discards.
pub const FEATURE_DISCARD: u64 = 1 << 13;
/// Feature: the disk writes zeroes.
pub const FEATURE_WRITE_ZEROES: u64 = 1 << 14;

/// Length of the head of a request in bytes.
pub const HEAD_BYTES: usize = 16;
/// Length of a range of a discard in bytes.
const RANGE_BYTES: usize = 16;
/// Length of the answer to a request for the name of the disk, in bytes.
pub const NAME_BYTES: usize = 20;
/// Length of the configuration space in bytes.
const CONFIG_BYTES: usize = 60;
/// The byte of the configuration space that says whether the write cache is on
/// ([`FEATURE_WRITE_CACHE_SWITCH`]).
pub const WRITE_CACHE_BYTE: usize = 32;

/// The status of a request, which is the last byte of its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// The request was carried out.
    Ok = 0,
    /// The request failed.
    IoError = 1,
    /// The disk does not know this request.
    Unsupported = 2,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads from the disk into the guest's memory.
    Read,
    /// Writes from the guest's memory to the disk.
    Write,
    /// Makes all completed writes durable.
    Flush,
    /// Returns the name of the disk.
    Name,
    /// Discards the ranges that follow the head.
    Discard,
    /// Writes zeroes to the ranges that follow the head.
    WriteZeroes,
    /// Anything else.
    Unknown,
}

/// The head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What is to be done.
    pub kind: Kind,
    /// The I/O priority of the request, as the kernel encodes it. The specification calls the word
    /// reserved; Linux fills it.
    pub ioprio: u16,
    /// First sector of 512 bytes.
    pub sector: u64,
}

impl Head {
    /// Reads the head of a request.
    pub fn parse(bytes: &[u8; HEAD_BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let kind = match word(0) {
            0 => Kind::Read,
            1 => Kind::Write,
            4 => Kind::Flush,
            8 => Kind::Name,
            11 => Kind::Discard,
            13 => Kind::WriteZeroes,
            _ => Kind::Unknown,
        };
        let sector = u64::from_le_bytes(bytes[8..].try_into().expect("8 bytes"));
        Self { kind, ioprio: word(4) as u16, sector }
    }
}

/// A range of sectors of a discard or of a write of zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// The flags, of which only [`Self::UNMAP`] has a meaning.
    pub flags: u32,
}

impl Range {
    /// Flag of a write of zeroes: the sectors may be given back.
    pub const UNMAP: u32 = 1;

    /// Reads the ranges of a discard. Returns `None` if the bytes are not whole ranges.
    pub fn parse_all(bytes: &[u8]) -> Option<Vec<Self>> {
        let ranges = bytes.chunks_exact(RANGE_BYTES);
        let is_whole = ranges.remainder().is_empty();
        let read = |range: &[u8]| Self {
            sector: u64::from_le_bytes(range[..8].try_into().expect("8 bytes")),
            sectors: u32::from_le_bytes(range[8..12].try_into().expect("4 bytes")),
            flags: u32::from_le_bytes(range[12..].try_into().expect("4 bytes")),
        };
        is_whole.then(|| ranges.map(read).collect())
    }
}

/// The configuration of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Size in sectors of 512 bytes.
    pub capacity: u64,
    /// Largest length of a segment in bytes ([`FEATURE_SIZE_MAX`]).
    pub size_max: u32,
    /// Largest number of segments of a request ([`FEATURE_SEG_MAX`]).
    pub seg_max: u32,
    /// Logical block size in bytes ([`FEATURE_BLK_SIZE`]).
    pub block_size: u32,
    /// Logical blocks of a physical block, as a power of two ([`FEATURE_TOPOLOGY`]).
    pub physical_exponent: u8,
    /// Smallest good I/O in logical blocks ([`FEATURE_TOPOLOGY`]).
    pub min_io: u16,
    /// Best I/O in logical blocks, 0 if not known ([`FEATURE_TOPOLOGY`]).
    pub opt_io: u32,
    /// Queues.
    pub queues: u16,
    /// Largest discard in sectors ([`FEATURE_DISCARD`]).
    pub max_discard_sectors: u32,
    /// Largest number of ranges of a discard ([`FEATURE_DISCARD`]).
    pub max_discard_ranges: u32,
    /// Sectors that a discard begins at a multiple of ([`FEATURE_DISCARD`]).
    pub discard_alignment: u32,
    /// Largest write of zeroes in sectors ([`FEATURE_WRITE_ZEROES`]).
    pub max_write_zeroes_sectors: u32,
}

impl Config {
    /// Returns the configuration space.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CONFIG_BYTES);
        bytes.extend_from_slice(&self.capacity.to_le_bytes());
        bytes.extend_from_slice(&self.size_max.to_le_bytes());
        bytes.extend_from_slice(&self.seg_max.to_le_bytes());
        // Cylinders, heads and sectors, which this disk does not have.
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.block_size.to_le_bytes());
        bytes.extend_from_slice(&[self.physical_exponent, 0]);
        bytes.extend_from_slice(&self.min_io.to_le_bytes());
        bytes.extend_from_slice(&self.opt_io.to_le_bytes());
        // A byte that turns the write cache on, and one that is not used.
        bytes.extend_from_slice(&[1, 0]);
        bytes.extend_from_slice(&self.queues.to_le_bytes());
        let write_zeroes_ranges = u32::from(self.max_write_zeroes_sectors > 0);
        for word in [
            self.max_discard_sectors,
            self.max_discard_ranges,
            self.discard_alignment,
            self.max_write_zeroes_sectors,
            write_zeroes_ranges,
        ] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.resize(CONFIG_BYTES, 0);
        bytes
    }
}
