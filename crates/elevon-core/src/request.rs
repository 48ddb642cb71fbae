//! Requests and their table.
//!
//! The key of a request is fixed by hardware queue and tag (`blk-mq`'s static requests), so nothing
//! is allocated per I/O. A key is used again; the sequence number of the command tells which use a
//! completion belongs to.

extern crate alloc;
use alloc::vec::Vec;

use crate::bio::Bio;
use crate::flush::Sequence;
use crate::ioprio::IoPrio;
use crate::op::{Flags, Op};
use crate::units::{BioId, HwQueue, Instant, RequestId, Sector, Sectors, Tag, TaskId, TenantId};
use crate::wbt::Throttled;

/// The state of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Not in use.
    #[default]
    Free,
    /// In a plug, a software queue or a scheduler; merges may still happen.
    Queued,
    /// On the hardware queue's own dispatch list.
    Dispatch,
    /// Started in the driver.
    InFlight,
    /// Given back by the driver, waiting to be inserted again.
    Requeued,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Its state.
    pub state: State,
    /// Operation.
    pub op: Op,
    /// Flags of its first bio; also NOMERGE if a merge was refused for good.
    pub flags: Flags,
    /// Priority.
    pub ioprio: IoPrio,
    /// Write lifetime hint.
    pub write_hint: u8,
    /// The remaining steps of its flush sequence. Owned by [`crate::flush`].
    pub flush: Sequence,
    /// Times it was retried.
    pub retries: u8,
    /// Whether the statistics count it.
    pub accounted: bool,
    /// Whether the scheduler knows it (it was prepared and inserted at least once).
    pub in_scheduler: bool,
    /// Whether it came to the scheduler from a plug.
    pub plugged: bool,
    /// Physical segments; for a discard of several ranges, its ranges.
    pub segments: u16,
    /// First sector.
    pub sector: Sector,
    /// Length.
    pub sectors: Sectors,
    /// First bio.
    pub bio_head: Option<BioId>,
    /// Last bio.
    pub bio_tail: Option<BioId>,
    /// The task that allocated it.
    pub task: TaskId,
    /// The tenant that is charged.
    pub tenant: TenantId,
    /// CPU it was allocated on.
    pub cpu: u16,
    /// Its hardware queue.
    pub queue: HwQueue,
    /// Driver tag, if it has one.
    pub tag: Option<Tag>,
    /// The place of writeback throttling that it gives back when it is freed.
    pub(crate) place: Option<Throttled>,
    /// When it was allocated.
    pub start: Instant,
    /// When it was last given to the driver.
    pub issued: Instant,
    /// When the timer of its timeout was set; valid only in flight.
    pub(crate) timer: Instant,
    /// Sequence number of its command; valid only in flight.
    pub sequence: u64,
}

impl Request {
    const FREE: Self = Self {
        state: State::Free,
        op: Op::Read,
        flags: Flags::NONE,
        ioprio: IoPrio::NONE,
        write_hint: 0,
        flush: Sequence::NONE,
        retries: 0,
        accounted: false,
        in_scheduler: false,
        plugged: false,
        segments: 0,
        sector: Sector::ZERO,
        sectors: Sectors::ZERO,
        bio_head: None,
        bio_tail: None,
        task: TaskId::IDLE,
        tenant: TenantId(0),
        cpu: 0,
        queue: HwQueue(0),
        tag: None,
        place: None,
        start: Instant::ZERO,
        issued: Instant::ZERO,
        timer: Instant::ZERO,
        sequence: 0,
    };

    /// Returns a new request for a bio, which is in the table under `id`, in the place that was
    /// allocated.
    #[inline(always)]
    pub(crate) fn new(now: Instant, id: BioId, bio: &Bio, allocated: &Allocated) -> Self {
        Self {
            state: State::Queued,
            accounted: allocated.accounted,
            op: bio.op,
            flags: bio.flags,
            ioprio: bio.ioprio,
            write_hint: bio.write_hint,
            segments: bio.segments,
            sector: bio.sector,
            sectors: bio.sectors(),
            bio_head: Some(id),
            bio_tail: Some(id),
            task: bio.task,
            tenant: bio.tenant,
            cpu: allocated.cpu,
            queue: allocated.queue,
            tag: allocated.tag,
            place: if bio.has_place { Throttled::from_op(bio.op, bio.flags) } else { None },
            start: now,
            issued: now,
            ..Self::FREE
        }
    }

    /// Frees it. Returns its driver tag and its place of writeback throttling, which it gives back.
    #[inline(always)]
    pub(crate) fn end_use(&mut self) -> (Option<Tag>, Option<Throttled>) {
        self.state = State::Free;
        (self.tag.take(), self.place.take())
    }

    /// The sector after the last one.
    #[inline]
    pub fn end(&self) -> Sector {
        self.sector + self.sectors
    }

    /// Returns true if the kernel calls it sync.
    #[inline]
    pub const fn is_sync(&self) -> bool {
        crate::op::is_sync(self.op, self.flags)
    }
}

/// What a new request has besides its bio.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocated {
    /// Whether the statistics count it.
    pub(crate) accounted: bool,
    pub(crate) cpu: u16,
    pub(crate) queue: HwQueue,
    /// The driver tag, if it has one already.
    pub(crate) tag: Option<Tag>,
}

/// Every request of a queue, by key.
#[derive(Clone, Debug)]
pub struct Requests {
    table: Vec<Request>,
}

impl Requests {
    /// Returns a table of `count` free requests.
    pub fn new(count: usize) -> Self {
        Self { table: alloc::vec![Request::FREE; count] }
    }
    /// Returns the number of requests in the table, including free ones.
    pub fn len(&self) -> usize {
        self.table.len()
    }
    /// Returns true if the table has no entry.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
    /// Makes an entry free again.
    #[inline]
    pub fn free(&mut self, id: RequestId) {
        self.table[id.index()] = Request::FREE;
    }
    /// Changes the size of the table; entries that are removed must be free.
    pub fn resize(&mut self, count: usize) {
        debug_assert!(self.table.iter().skip(count).all(|r| r.state == State::Free));
        self.table.resize(count, Request::FREE);
    }
    /// Iterates over all entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        self.table.iter().enumerate().map(|(i, r)| (RequestId(i as u32), r))
    }
}

impl core::ops::Index<RequestId> for Requests {
    type Output = Request;
    #[inline]
    fn index(&self, id: RequestId) -> &Request {
        &self.table[id.index()]
    }
}
impl core::ops::IndexMut<RequestId> for Requests {
    #[inline]
    fn index_mut(&mut self, id: RequestId) -> &mut Request {
        &mut self.table[id.index()]
    }
}
