//! Bios of cached pages: built page by page as the kernel's mpage and iomap code build them, queued
//! per task until polled.
//!
//! A bio ends if the next page is not contiguous on the device, belongs to another tenant, or needs
//! a 257th vector, and a written one after 4096 pages; pages in adjacent frames share a vector. A
//! task's queued bios wait while the stack makes the task sleep for a tag, so no task submits more
//! than its tags allow.
//!
//! Cost: O(1) per page and per bio. Each bio keeps its list of frames, and tables are reused, so a
//! steady run allocates nothing. If activity is off, it costs one comparison per page and per bio.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::FrameId;
use super::pages::{Bits, Flags as PageFlags};
use crate::activity::{Content, Origin, Promoter, Submitter};
use elevon_core::bio::BIO_MAX_VECS;
use elevon_core::ioprio::{CpuPolicy, IoPrio};
use elevon_core::op::{Flags, Op};
use elevon_core::units::{Bytes, PAGE_SECTORS, PAGE_SIZE, Sector, Sectors, TaskId, TenantId};

/// Pages of the longest bio; its length is stored in 32 bits.
const PAGES_MAX: u32 = (u32::MAX as u64 / PAGE_SIZE) as u32;
/// Pages of the longest bio of writeback: iomap ends it at 4096 folios, here of one page each.
const WRITTEN_MAX: u32 = 4096;

/// A bio that the caller must submit, as one [`elevon_core::stack::Io`]; its frames are
/// [`super::page_cache::PageCache::frames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheIo {
    /// Identifies the bio in `complete`; reused after that.
    pub token: u64,
    /// The task that submits it.
    pub task: TaskId,
    /// Read, Write, or Flush (an empty flush: no frames).
    pub op: Op,
    /// RAHEAD, SYNC, BACKGROUND.
    pub flags: Flags,
    /// First sector.
    pub sector: Sector,
    /// Length, in whole pages.
    pub bytes: Bytes,
    /// Priority: that decided by activity, else the task's.
    pub ioprio: IoPrio,
    /// Its purpose, which activity uses.
    pub origin: Origin,
    /// The tenant that is charged.
    pub tenant: TenantId,
    /// Vectors, 1 to 256; 0 for a flush.
    pub vectors: u16,
    /// It is the last bio of a readahead window, or the task has no more bios queued: the task
    /// flushes its plug.
    pub ends_plug: bool,
}

/// What a bio has beside its pages: task, tenant and priority that it is charged to, and its
/// purpose.
#[derive(Clone, Copy, Debug)]
pub(super) struct BioAttributes {
    pub task: TaskId,
    pub tenant: TenantId,
    pub submitter: Submitter,
    pub op: Op,
    pub flags: Flags,
    /// The purpose of a bio with a page that a task waits for; other reads are readahead.
    pub origin: Origin,
}

/// A page to add.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub frame: FrameId,
    pub sector: Sector,
    /// The page's current state, from which its activity is judged.
    pub bits: Bits,
    /// A task waits for the page.
    pub wanted: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Bio {
    pub io: CacheIo,
    pub frames: Vec<FrameId>,
    /// The call that waits for a flush.
    pub call: Option<u32>,
    /// The bio was returned to the caller.
    pub submitted: bool,
    next: Option<u32>,
}

/// The bio that is being built.
#[derive(Clone, Debug)]
struct Building {
    attributes: BioAttributes,
    /// Its first sector, and the sector after its last.
    first: Sector,
    end: Sector,
    frames: Vec<FrameId>,
    /// Number of pages that still fit; 0 if no bio is being built.
    room: u32,
    vectors: u16,
    wanted: bool,
    content: Content,
}

impl Building {
    /// Returns true if a page is contiguous in memory with the last page, and shares its vector.
    #[inline]
    fn follows(&self, frame: FrameId) -> bool {
        self.frames.last().is_some_and(|last| last.0 + 1 == frame.0)
    }

    #[inline]
    fn takes(&self, piece: &Piece, merged: bool) -> bool {
        self.room > 0
            && self.end == piece.sector
            && (merged || usize::from(self.vectors) < BIO_MAX_VECS)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct TaskBios {
    head: Option<u32>,
    tail: Option<u32>,
    blocked: bool,
}

/// All bios that are being built, queued or in flight.
#[derive(Clone, Debug)]
pub(super) struct Bios {
    table: Vec<Bio>,
    free: Vec<u32>,
    building: Building,
    queues: Vec<TaskBios>,
    /// Tasks that have bios queued and are not blocked, each once.
    ready: VecDeque<TaskId>,
    pub promoter: Promoter,
}

impl Bios {
    pub(super) const fn new(promoter: Promoter) -> Self {
        let nobody = BioAttributes {
            task: TaskId(0),
            tenant: TenantId(0),
            submitter: Submitter::of_task(IoPrio::NONE, CpuPolicy::Normal, 0),
            op: Op::Read,
            flags: Flags::NONE,
            origin: Origin::Read,
        };
        let building = Building {
            attributes: nobody,
            first: Sector::ZERO,
            end: Sector::ZERO,
            frames: Vec::new(),
            room: 0,
            vectors: 0,
            wanted: false,
            content: Content::Off,
        };
        Self {
            table: Vec::new(),
            free: Vec::new(),
            building,
            queues: Vec::new(),
            ready: VecDeque::new(),
            promoter,
        }
    }

    /// Returns true if the bio that is being built takes the page, which belongs to this tenant.
    #[inline]
    pub(super) fn takes(&self, piece: &Piece, tenant: TenantId) -> bool {
        self.building.attributes.tenant == tenant
            && self.building.takes(piece, self.building.follows(piece.frame))
    }

    /// Adds a page to the bio that is being built if it fits; otherwise closes that bio and begins
    /// another. Always inlined, because a call costs as much as the rest.
    #[inline(always)]
    pub(super) fn add(&mut self, attributes: &BioAttributes, piece: Piece) {
        let mut merged = self.building.follows(piece.frame);
        if self.building.attributes.tenant != attributes.tenant
            || !self.building.takes(&piece, merged)
        {
            self.close_and_begin(attributes, piece.sector);
            merged = false;
        }
        let Building { end, frames, room, vectors, wanted, content, .. } = &mut self.building;
        if self.promoter.counts_content() {
            content.add(piece.bits.has(PageFlags::WORKINGSET), Bytes::new(PAGE_SIZE), merged);
        }
        *wanted |= piece.wanted;
        *vectors += u16::from(!merged);
        *end = *end + page_sectors(1);
        *room -= 1;
        frames.push(piece.frame);
    }

    /// Closes the bio that is being built, and begins another. Not inlined, because most pages
    /// extend the current bio.
    #[inline(never)]
    fn close_and_begin(&mut self, attributes: &BioAttributes, sector: Sector) {
        self.close();
        let building = &mut self.building;
        (building.attributes, building.first, building.end) = (*attributes, sector, sector);
        let room = if attributes.op == Op::Write { WRITTEN_MAX } else { PAGES_MAX };
        (building.room, building.vectors, building.wanted) = (room, 0, false);
        if self.promoter.counts_content() {
            building.content = self.promoter.begin();
        }
    }

    /// Allocates a bio without its pages, and returns its token.
    fn take(&mut self, attributes: &BioAttributes, sector: Sector) -> u32 {
        let id = self.free.pop().unwrap_or(self.table.len() as u32);
        let &BioAttributes { task, tenant, op, flags, submitter, origin } = attributes;
        let (token, bytes, ioprio) = (u64::from(id), Bytes::ZERO, submitter.task);
        let (vectors, ends_plug) = (0, false);
        let io = CacheIo {
            token,
            task,
            op,
            flags,
            sector,
            bytes,
            ioprio,
            origin,
            tenant,
            vectors,
            ends_plug,
        };
        match self.table.get_mut(id as usize) {
            Some(bio) => {
                bio.frames.clear();
                (bio.io, bio.call, bio.submitted, bio.next) = (io, None, false, None);
            }
            None => self.table.push(Bio {
                io,
                frames: Vec::new(),
                call: None,
                submitted: false,
                next: None,
            }),
        }
        id
    }

    /// Queues the bio that is being built, if there is one, and decides its priority.
    #[inline]
    pub(super) fn close(&mut self) {
        if !self.building.frames.is_empty() {
            self.queue_built();
        }
    }

    #[inline(never)]
    fn queue_built(&mut self) {
        self.building.room = 0;
        let Building { attributes, first, wanted, .. } = self.building;
        let id = self.take(&attributes, first);
        let Bio { io, frames, .. } = &mut self.table[id as usize];
        core::mem::swap(frames, &mut self.building.frames);
        io.bytes = Bytes::new(frames.len() as u64 * PAGE_SIZE);
        io.vectors = self.building.vectors;
        if !wanted && attributes.op != Op::Write {
            io.origin = Origin::Readahead;
        }
        if self.promoter.counts_content() {
            let decided = self.promoter.finish(
                &self.building.content,
                IoPrio::NONE,
                attributes.submitter,
                io.origin,
            );
            io.ioprio = decided.or(attributes.submitter.task);
        }
        self.enqueue(attributes.task, id);
    }

    /// Queues an empty flush that a call waits for.
    pub(super) fn flush(&mut self, attributes: &BioAttributes, call: u32) {
        let bio = self.take(attributes, Sector::ZERO);
        self.table[bio as usize].call = Some(call);
        self.enqueue(attributes.task, bio);
    }

    /// Ends the plug of a task with the last bio that it has queued.
    pub(super) fn end_plug(&mut self, task: TaskId) {
        if let Some(tail) = self.queues.get(task.index()).and_then(|queue| queue.tail) {
            self.table[tail as usize].io.ends_plug = true;
        }
    }

    fn enqueue(&mut self, task: TaskId, bio: u32) {
        if self.queues.len() <= task.index() {
            self.queues.resize(task.index() + 1, TaskBios::default());
        }
        let queue = &mut self.queues[task.index()];
        match queue.tail.replace(bio) {
            Some(tail) => self.table[tail as usize].next = Some(bio),
            None => {
                queue.head = Some(bio);
                if !queue.blocked {
                    self.ready.push_back(task);
                }
            }
        }
    }

    /// Returns the next bio of a task that may submit; the bios of one task come in sequence.
    pub(super) fn poll(&mut self) -> Option<CacheIo> {
        let task = *self.ready.front()?;
        let queue = &mut self.queues[task.index()];
        let id = queue.head?;
        let bio = &mut self.table[id as usize];
        queue.head = bio.next.take();
        bio.submitted = true;
        if queue.head.is_none() {
            queue.tail = None;
            bio.io.ends_plug = true;
            self.ready.pop_front();
        }
        Some(bio.io)
    }

    /// Sets whether the stack makes the task sleep.
    pub(super) fn set_blocked(&mut self, task: TaskId, blocked: bool) {
        if self.queues.len() <= task.index() {
            self.queues.resize(task.index() + 1, TaskBios::default());
        }
        let queue = &mut self.queues[task.index()];
        if core::mem::replace(&mut queue.blocked, blocked) == blocked || queue.head.is_none() {
            return;
        }
        if blocked {
            self.ready.retain(|&ready| ready != task);
        } else {
            self.ready.push_back(task);
        }
    }

    /// Returns true if a task that is not blocked has bios queued.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn is_blocked(&self, task: TaskId) -> bool {
        self.queues.get(task.index()).is_some_and(|queue| queue.blocked)
    }

    /// Returns a bio that is in flight.
    ///
    /// # Panics
    /// If no bio with this token is in flight.
    pub(super) fn bio(&self, token: u64) -> &Bio {
        let bio = &self.table[token as usize];
        assert!(bio.submitted, "no bio {token} is in flight");
        bio
    }

    /// Takes the frames of a completed bio, for [`Self::end`].
    pub(super) fn take_frames(&mut self, token: u64) -> Vec<FrameId> {
        core::mem::take(&mut self.table[token as usize].frames)
    }

    /// Frees a completed bio: its token and its list of frames may be reused.
    pub(super) fn end(&mut self, token: u64, frames: Vec<FrameId>) {
        let bio = &mut self.table[token as usize];
        (bio.submitted, bio.frames) = (false, frames);
        self.free.push(token as u32);
    }

    /// Returns the number of bios that are not complete.
    pub(super) fn live(&self) -> usize {
        self.table.len() - self.free.len()
    }

    /// Returns the frames of all bios that are not complete, each with its operation. For tests.
    pub(super) fn frames(&self) -> impl Iterator<Item = (FrameId, Op)> + '_ {
        let is_live = |id: &usize| !self.free.contains(&(*id as u32));
        let live = (0..self.table.len()).filter(is_live).map(|id| &self.table[id]);
        live.flat_map(|bio| bio.frames.iter().map(|&frame| (frame, bio.io.op)))
    }
}

/// Returns the sectors of a number of pages.
pub(super) const fn page_sectors(pages: u64) -> Sectors {
    Sectors::new(pages * PAGE_SECTORS)
}
