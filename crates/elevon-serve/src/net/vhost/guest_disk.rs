//! A disk as a guest sees it, and what its requests ask for.

use elevon_core::ioprio::IoPrio;
use elevon_vhost::blk::{self, Config, Kind, NAME_BYTES, Range, Request};
use elevon_vhost::{
    FEATURE_EVENT_INDEX, FEATURE_INDIRECT, Offer, PROTOCOL_BACKEND_CHANNEL, PROTOCOL_CONFIG,
    PROTOCOL_INFLIGHT, PROTOCOL_MEMORY_SLOTS, PROTOCOL_QUEUES, PROTOCOL_REPLY_ACK, PROTOCOL_RESET,
};

use crate::net::export::ServedExport;
use crate::request::{DiskRequest, MAX_PAYLOAD, Operation, RequestRefusal};

/// Queues that a guest may have.
pub(super) const MAX_QUEUES: u16 = 64;
/// Descriptors that a queue may have.
pub(super) const MAX_QUEUE_SIZE: u16 = 1024;
/// Segments that a guest puts into a request. More are taken as well.
const MAX_SEGMENTS: u32 = 254;
/// Bytes of a discard or of a write of zeroes.
const MAX_RANGE: u64 = 1 << 30;
const SECTOR: u64 = 512;

/// A disk of a guest.
#[derive(Clone, Debug)]
pub(super) struct GuestDisk {
    /// Bytes.
    pub(super) size: u64,
    block: u32,
    preferred: u32,
    read_only: bool,
    trim: bool,
    name: [u8; NAME_BYTES],
}

/// What a request asks for.
pub(super) enum Asked {
    /// I/O of the disk.
    Disk(DiskRequest),
    /// The name of the disk.
    Name,
    /// Something that is refused.
    Refused(Option<Operation>, RequestRefusal),
}

impl GuestDisk {
    pub(super) fn of(export: &ServedExport) -> Self {
        let mut name = [0; NAME_BYTES];
        let bytes = export.name.as_bytes();
        let length = bytes.len().min(NAME_BYTES);
        name[..length].copy_from_slice(&bytes[..length]);
        let disk = &export.disk;
        Self {
            size: disk.size,
            block: disk.block.max(SECTOR as u32),
            preferred: disk.preferred,
            read_only: disk.read_only,
            trim: disk.trim,
            name,
        }
    }

    /// Returns the name of the disk, the first bytes of that of its export.
    pub(super) const fn name(&self) -> &[u8; NAME_BYTES] {
        &self.name
    }

    /// Returns the configuration space.
    pub(super) fn config(&self) -> Vec<u8> {
        let range = (MAX_RANGE / SECTOR) as u32;
        let config = Config {
            capacity: self.size / SECTOR,
            size_max: 0,
            seg_max: MAX_SEGMENTS,
            block_size: self.block,
            physical_exponent: (self.preferred / self.block).max(1).ilog2() as u8,
            min_io: 1,
            opt_io: 0,
            queues: MAX_QUEUES,
            max_discard_sectors: if self.trim { range } else { 0 },
            max_discard_ranges: u32::from(self.trim),
            discard_alignment: self.block / SECTOR as u32,
            max_write_zeroes_sectors: range,
        };
        config.to_bytes()
    }

    /// Returns what a front end is offered.
    pub(super) fn offer(&self) -> Offer {
        let mut features = Offer::default().features
            | FEATURE_INDIRECT
            | FEATURE_EVENT_INDEX
            | blk::FEATURE_SEG_MAX
            | blk::FEATURE_BLK_SIZE
            | blk::FEATURE_TOPOLOGY
            | blk::FEATURE_FLUSH
            | blk::FEATURE_WRITE_CACHE_SWITCH
            | blk::FEATURE_QUEUES
            | blk::FEATURE_WRITE_ZEROES;
        for (has, feature) in
            [(self.trim, blk::FEATURE_DISCARD), (self.read_only, blk::FEATURE_READ_ONLY)]
        {
            features |= if has { feature } else { 0 };
        }
        let protocol_features = PROTOCOL_QUEUES
            | PROTOCOL_REPLY_ACK
            | PROTOCOL_BACKEND_CHANNEL
            | PROTOCOL_CONFIG
            | PROTOCOL_INFLIGHT
            | PROTOCOL_RESET
            | PROTOCOL_MEMORY_SLOTS;
        Offer { features, protocol_features, queues: MAX_QUEUES, config: self.config() }
    }

    /// Returns what a request asks for. `ranges` are the bytes of the ranges that follow the head
    /// of a discard or of a write of zeroes; `fua`: a write is durable when it is answered.
    pub(super) fn asked(&self, request: &Request, ranges: &[u8], fua: bool, tag: u64) -> Asked {
        let head = request.head;
        let (operation, sector, bytes) = match head.kind {
            Kind::Read => (Operation::Read, head.sector, request.bytes),
            Kind::Write => (Operation::Write, head.sector, request.bytes),
            Kind::Flush => (Operation::Flush, 0, 0),
            Kind::Name => return Asked::Name,
            Kind::Unknown => return Asked::Refused(None, RequestRefusal::Command),
            Kind::Discard | Kind::WriteZeroes => {
                let is_discard = head.kind == Kind::Discard;
                let ranges = Range::parse_all(ranges).unwrap_or_default();
                let flags = if is_discard { 0 } else { Range::UNMAP };
                let no_hole = ranges.first().is_none_or(|range| range.flags & Range::UNMAP == 0);
                let operation = if is_discard {
                    Operation::Trim
                } else {
                    Operation::WriteZeroes { no_hole, fast: false }
                };
                match ranges[..] {
                    [range] if range.flags & !flags != 0 => {
                        return Asked::Refused(None, RequestRefusal::Command);
                    }
                    [range] => (operation, range.sector, u64::from(range.sectors) * SECTOR),
                    _ => return Asked::Refused(Some(operation), RequestRefusal::Malformed),
                }
            }
        };
        let refused = |why| Asked::Refused(Some(operation), why);
        let is_change = !matches!(operation, Operation::Read | Operation::Flush);
        let has_data = matches!(operation, Operation::Read | Operation::Write);
        let offset = sector.checked_mul(SECTOR);
        let end = offset.and_then(|offset| offset.checked_add(bytes));
        match (offset, end) {
            _ if self.read_only && is_change => refused(RequestRefusal::ReadOnly),
            _ if has_data && bytes > MAX_PAYLOAD => refused(RequestRefusal::TooLong),
            _ if !bytes.is_multiple_of(SECTOR) => refused(RequestRefusal::Unaligned),
            _ if bytes == 0 && operation != Operation::Flush => refused(RequestRefusal::Malformed),
            (Some(offset), Some(end)) if end <= self.size => {
                let ioprio = IoPrio::from_bits(head.ioprio).unwrap_or(IoPrio::NONE);
                let fua = fua && is_change;
                Asked::Disk(DiskRequest { operation, offset, length: bytes, fua, tag, ioprio })
            }
            _ => refused(RequestRefusal::OutOfRange),
        }
    }
}
