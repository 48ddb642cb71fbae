//! Parts of the memory: how much of it each tenant may hold while its I/O is under way.
//!
//! A frame is *held* while its page is being read, dirty, or under writeback: reclaim cannot take
//! it. If a limit or a weight holds back the bios of a tenant, its frames are held for as long. So
//! every tenant has a part of the frames that are not held. A call that would take more than its
//! tenant's part sleeps *at its tenant's door*, before it takes a frame. The call goes on when a
//! bio of its tenant has completed, in the order in which calls came. A call never fails.
//!
//! The parts are a dynamic threshold. All tenants may hold [`SHARED`] tenths of the frames. Of
//! these `free` are held by none. A tenant may be reading into `free / 8` frames, and may have
//! `free` frames dirty. So a tenant alone reads into at most a ninth of the shared frames. Busy
//! tenants have equal parts, and leave some to those that come. Every tenant may hold
//! [`Parts::least`] frames for each of reads and writes, whatever others hold. Readahead takes
//! half of a part, and none while a call of its tenant is at the door: it is the first to be
//! dropped.
//!
//! Cost: O(1) per page.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{CallStep, Instant, PageCache, Progress};
use elevon_core::units::{Nanos, TenantId};

/// Tenants may hold this many tenths of the frames.
const SHARED: u64 = 8;
/// A tenant may read into one part in so many of the free frames.
const READ_PART: u64 = 8;
/// The most pages of [`Parts::least`]: 256 KiB.
const LEAST_MOST: u64 = 64;

/// What a call takes a frame for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// A page to read.
    Read,
    /// A page to make dirty.
    Write,
}

/// The frames that tenants are reading into, and the calls at their doors.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    /// Frames of which tenants may hold [`SHARED`] tenths; 0 if memory is not divided.
    frames: u64,
    reading: u64,
    by_tenant: Vec<Of>,
    /// Doors that may let calls in, since something of their tenant has completed.
    due: Vec<(TenantId, Door)>,
    /// Number of calls that wait at a door of writes.
    writers: usize,
    /// Dirty pages that were dropped so far.
    dropped: u64,
}

#[derive(Clone, Debug, Default)]
struct Of {
    /// Frames that it is reading into.
    reading: u64,
    /// Calls at its doors.
    readers: VecDeque<u32>,
    writers: VecDeque<u32>,
}

impl Of {
    const fn queue(&self, door: Door) -> &VecDeque<u32> {
        match door {
            Door::Read => &self.readers,
            Door::Write => &self.writers,
        }
    }
}

impl Parts {
    /// Returns the parts of so many frames. With 0 frames no call ever waits at a door.
    pub(super) const fn new(frames: u64) -> Self {
        Self { frames, reading: 0, by_tenant: Vec::new(), due: Vec::new(), writers: 0, dropped: 0 }
    }

    /// Returns the frames that a tenant may hold whatever others hold: 1 of 256, from 1 to 64.
    fn least(&self) -> u64 {
        (self.frames / 256).clamp(1, LEAST_MOST)
    }

    fn of(&mut self, tenant: TenantId) -> &mut Of {
        if self.by_tenant.len() <= tenant.index() {
            self.by_tenant.resize_with(tenant.index() + 1, Of::default);
        }
        &mut self.by_tenant[tenant.index()]
    }

    /// Returns the frames that a tenant is reading into.
    fn reading(&self, tenant: TenantId) -> u64 {
        self.by_tenant.get(tenant.index()).map_or(0, |of| of.reading)
    }

    /// Counts a frame that a tenant begins to read into.
    pub(super) fn begin_read(&mut self, tenant: TenantId) {
        self.reading += 1;
        self.of(tenant).reading += 1;
    }

    /// Counts frames of a tenant into which was read.
    pub(super) fn end_read(&mut self, tenant: TenantId, pages: u64) {
        self.reading -= pages;
        self.of(tenant).reading -= pages;
        self.on_released(tenant, Door::Read);
    }

    /// Notes that a tenant holds less than before.
    pub(super) fn on_released(&mut self, tenant: TenantId, door: Door) {
        if self.by_tenant.get(tenant.index()).is_some_and(|of| !of.queue(door).is_empty()) {
            self.due.push((tenant, door));
        }
    }

    /// Takes note of the number of dirty pages that were dropped so far, of any tenant.
    fn see_dropped(&mut self, dropped: u64) {
        if core::mem::replace(&mut self.dropped, dropped) != dropped && self.writers > 0 {
            (0..self.by_tenant.len() as u32)
                .for_each(|tenant| self.on_released(TenantId(tenant), Door::Write));
        }
    }

    /// Returns true if calls wait until pages of their tenant are written.
    pub(super) const fn has_writers(&self) -> bool {
        self.writers > 0
    }

    /// Returns the number of calls at doors. For tests.
    pub(super) fn waiting(&self) -> usize {
        self.by_tenant.iter().map(|of| of.readers.len() + of.writers.len()).sum()
    }

    /// Panics if the frames that are being read into are not `reading`. For tests.
    pub(super) fn self_check(&self, reading: u64) {
        assert_eq!(
            self.by_tenant.iter().map(|of| of.reading).sum::<u64>(),
            reading,
            "frames by tenant"
        );
        assert_eq!(self.reading, reading, "frames that are being read into");
        assert_eq!(
            self.by_tenant.iter().map(|of| of.writers.len()).sum::<usize>(),
            self.writers,
            "writers that wait"
        );
    }
}

impl PageCache {
    /// Returns the frames that a tenant holds for reads or for writes, and the most that it may.
    fn part_of(&self, tenant: TenantId, door: Door) -> (u64, u64) {
        let pages = self.resident.pages();
        let unwritten = pages.dirty() + pages.writeback();
        let free = (self.parts.frames * SHARED / 10).saturating_sub(self.parts.reading + unwritten);
        let least = self.parts.least();
        match door {
            Door::Read => (self.parts.reading(tenant), (free / READ_PART).max(least)),
            Door::Write => {
                (pages.dirty_of(tenant) + self.domains.writeback(tenant), free.max(least))
            }
        }
    }

    /// Returns true if a call must wait at its tenant's door before it takes a frame. A read does
    /// until there is room for its pages or for half of a part, so that it is not cut into bios of
    /// single pages.
    pub(super) fn must_wait(&self, at: &Progress, door: Door) -> bool {
        if self.parts.frames == 0 {
            return false;
        }
        let tenant = at.call.tenant;
        let others_wait =
            self.parts.by_tenant.get(tenant.index()).is_some_and(|of| !of.queue(door).is_empty());
        (others_wait && !at.is_let_in) || !self.has_room(at, door)
    }

    fn has_room(&self, at: &Progress, door: Door) -> bool {
        let (held, most) = self.part_of(at.call.tenant, door);
        let wanted = match door {
            Door::Read => (at.end.get().saturating_sub(at.pos.get())).clamp(1, most.div_ceil(2)),
            Door::Write => 1,
        };
        held + wanted <= most
    }

    /// Returns true if a tenant may take one more frame for a page to read that a call of it
    /// needs, or that is read ahead.
    pub(super) fn may_read(&self, tenant: TenantId, is_wanted: bool) -> bool {
        if self.parts.frames == 0 {
            return true;
        }
        let (held, most) = self.part_of(tenant, Door::Read);
        if is_wanted { held < most } else { held < most.div_ceil(2) && self.has_no_reader(tenant) }
    }

    fn has_no_reader(&self, tenant: TenantId) -> bool {
        self.parts.by_tenant.get(tenant.index()).is_none_or(|of| of.readers.is_empty())
    }

    /// Returns true if [`super::CallKind::Fadvise`] would read ahead for a tenant now. If it would
    /// not, it would after a bio of the tenant has completed.
    pub fn may_read_ahead(&self, tenant: TenantId) -> bool {
        self.may_read(tenant, false)
    }

    /// Returns the number of frames that a tenant is reading into.
    pub fn reading_of(&self, tenant: TenantId) -> u64 {
        self.parts.reading(tenant)
    }

    /// Puts a call at its tenant's door.
    pub(super) fn wait_at_door(&mut self, now: Instant, id: u32, door: Door) {
        let tenant = self.calls[id].call.tenant;
        let of = self.parts.of(tenant);
        match door {
            Door::Read => of.readers.push_back(id),
            Door::Write => {
                of.writers.push_back(id);
                self.parts.writers += 1;
                // The pages of this tenant are to be written, even below the background threshold.
                self.flusher.wake();
            }
        }
        self.waiting.sleep(now, id, super::wait::For::Door(door), None);
    }

    /// Lets calls in for which there is room now.
    #[inline]
    pub(super) fn open_doors(&mut self, now: Instant) {
        self.parts.see_dropped(self.resident.pages().cancelled());
        while let Some((tenant, door)) = self.parts.due.pop() {
            while let Some(&id) = self.parts.of(tenant).queue(door).front()
                && self.has_room(&self.calls[id], door)
            {
                let of = self.parts.of(tenant);
                match door {
                    Door::Read => drop(of.readers.pop_front()),
                    Door::Write => {
                        of.writers.pop_front();
                        self.parts.writers -= 1;
                    }
                }
                self.calls[id].is_let_in = true;
                self.wake(now, id, Nanos::ZERO, None);
                self.run(now);
            }
        }
    }

    /// Returns what a call does that did not get the frame that it needs for a read.
    pub(super) fn wait_for_frame(&mut self, now: Instant, at: &mut Progress) -> CallStep {
        if self.must_wait(at, Door::Read) {
            CallStep::Door(Door::Read)
        } else {
            self.starve(now, at)
        }
    }
}
