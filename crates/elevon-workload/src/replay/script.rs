//! What a process of a trace does: its I/Os, and the rules by which they are issued.

use super::*;

/// The maximum length of an I/O: that of a bio in the kernel, whose length has 32 bits. A call asks
/// for no more than half of it; a damaged trace may show any length.
const MAX_IO_BYTES: u64 = u32::MAX as u64;

/// The part of an I/O in a critical section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionEdge {
    /// A section begins with the I/O, which needs the lock of the group.
    Begins,
    /// A section ends with the completion of the I/O, which releases the lock.
    Ends,
}

/// An I/O of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayIo {
    /// Number of completions of its process that it follows; 0 for the start of the process.
    pub after: u64,
    /// Time from that completion, or from the start of the process.
    pub think: Nanos,
    /// Least time from when the I/O before it was submitted; 0 for none.
    pub own: Nanos,
    /// Read, write, flush, discard, ...
    pub op: Op,
    /// SYNC, META, FUA, PREFLUSH ... as traced.
    pub flags: Flags,
    /// First sector.
    pub sector: Sector,
    /// Length; 0 for a flush.
    pub bytes: Bytes,
    /// Index in [`Script::bio_ends`]; 0 for an I/O that was one bio.
    pub bio_ends: u32,
    /// Priority.
    pub ioprio: IoPrio,
    /// It is submitted under one plug with the previous I/O.
    pub joins: bool,
    /// It is skipped.
    pub is_refused: bool,
    /// If the process sleeps for the I/O before it, it goes later by as much.
    pub continues: bool,
    /// A critical section begins or ends with it, if its script has an exclusion.
    pub section: Option<SectionEdge>,
    /// What it follows in another process.
    pub follows: Option<Follow>,
    /// It is a write of the kernel's flusher.
    pub is_flushed: bool,
}

/// The I/Os of a process of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The process id.
    pub number: u32,
    /// The start of the process, from the start of the run.
    pub begins: Nanos,
    /// Its I/Os in order.
    pub ios: Vec<ReplayIo>,
    /// Lists of the offsets in an I/O at which the bios but the last ended that the traced kernel
    /// built of it. The first list is empty.
    pub bio_ends: Arc<Vec<Vec<u64>>>,
    /// Set if the process begins again when all its I/Os are done, until this much of its time has
    /// passed; I/Os left then are not done.
    pub repeat_until: Option<Nanos>,
    /// The first pass may take so much longer, and no pass begins so near the end: otherwise a
    /// burst that comes once in a while would count for nothing, or twice.
    pub slack: Nanos,
    /// Period of the pace that the process keeps: I/O n goes no earlier than n periods after the
    /// start, counted over all passes. Zero for none.
    pub period: Nanos,
    /// With a pace: a process that is ahead of it waits for its I/Os in flight before it sleeps,
    /// as fio does with a limited rate.
    pub drains: bool,
    /// Set if the process has critical sections.
    pub exclusion: Option<SectionRule>,
    /// Set if it writes back the page cache while tasks sleep for the limit of dirty pages.
    pub flusher: Option<FlusherRule>,
}

/// The changes that [`Script::fit`] made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FitChanges {
    /// I/Os beyond the end of the device that were moved.
    pub moved: u64,
    /// I/Os that were widened to whole logical blocks.
    pub widened: u64,
    /// I/Os that were shortened to the size of the device, or to what one call can ask for.
    pub shortened: u64,
}

impl Script {
    /// Maps its I/Os onto a device of this size with these logical blocks (both in bytes). A place
    /// beyond the end is taken modulo the size, as files of jobs wrap. An I/O of 4 GiB or more is
    /// shortened to less.
    pub fn fit(&mut self, device_bytes: Bytes, block: u64) -> FitChanges {
        let mut fitted = FitChanges::default();
        let size = device_bytes.get() / block * block;
        let most = size.min(MAX_IO_BYTES / block * block);
        for io in self.ios.iter_mut().filter(|io| io.op != Op::Flush) {
            let (start, len) = (io.sector.get().saturating_mul(512), io.bytes.get());
            let mut first = start / block * block;
            let mut bytes =
                (start - first).saturating_add(len).div_ceil(block).max(1).saturating_mul(block);
            fitted.widened += u64::from((first, bytes) != (start, len));
            if bytes > most {
                fitted.shortened += 1;
                bytes = most;
            }
            if first > size - bytes {
                fitted.moved += 1;
                first = (first % size).min(size - bytes);
            }
            if bytes != len {
                // They are of another I/O now.
                io.bio_ends = 0;
            }
            io.sector = Sector::new(first / 512);
            io.bytes = Bytes::new(bytes);
        }
        fitted
    }

    /// Refuses all I/Os that would change the content of the device. Returns their number.
    pub fn refuse_writes(&mut self) -> u64 {
        let mut count = 0;
        for io in self.ios.iter_mut().filter(|io| io.op != Op::Read && io.op != Op::Flush) {
            io.is_refused = true;
            count += 1;
        }
        count
    }

    /// Returns the bytes of the largest I/O.
    pub fn largest(&self) -> u64 {
        self.ios.iter().map(|io| io.bytes.get()).max().unwrap_or(0)
    }

    /// Lets the memory behind the buffers decide where bios end.
    pub fn forget_bio_ends(&mut self) {
        for io in &mut self.ios {
            io.bio_ends = 0;
        }
    }

    /// Returns the lists of [`Self::bio_ends`] that I/Os refer to, each with the bytes of the
    /// largest of them.
    pub(super) fn cut_ios(&self) -> BTreeMap<u32, u64> {
        let mut largest = BTreeMap::new();
        for io in self.ios.iter().filter(|io| io.bio_ends != 0) {
            let bytes = largest.entry(io.bio_ends).or_insert(0);
            *bytes = io.bytes.get().max(*bytes);
        }
        largest
    }

    pub(super) fn used(&self) -> [bool; 3] {
        let mut used = [false; 3];
        for io in self.ios.iter().filter(|io| !io.is_refused) {
            if let Some(direction) = direction(io.op) {
                used[direction as usize] = true;
            }
        }
        used
    }
}
