//! Memory for pages: kswapd, direct reclaim, and calls that find none.
//!
//! Reclaim itself takes no time: what it costs a caller is what it sleeps. Whoever finds no memory
//! sleeps for writeback, 100 ms at the longest, or a jiffy where nothing is being written, and
//! looks again. After sixteen jiffies in vain, or when kswapd may evict nothing because even the
//! oldest generation is younger than `min_ttl`, an idle program is ended for its memory, if there
//! is one left.

use super::{CallStep, CpuPolicy, Flags, Instant, IoPrio, Op, Origin, PAGE_SIZE, PageCache, Progress, Source, Status};
use super::{Submitter, TenantId};
use crate::replace::{Reclaimer, Request};
use crate::watermark::{Pressure, RECLAIM_BATCH, WRITEBACK_THROTTLE};
use elevon_core::units::Nanos;

/// How long a call looks for memory before it is given up. (The kernel would end a program that
/// runs.)
const STARVED_MAX: Nanos = Nanos::from_secs(20);
/// Looks in vain, a jiffy apart, before an idle program is ended.
const LOOKS_IN_VAIN: u64 = 16;
/// Idle memory is that of so many programs, alike.
const IDLE_PROGRAMS: u64 = 8;

impl PageCache {
    /// Sees to it that a frame may be filled; false where none can be had now.
    #[inline]
    pub(super) fn make_room(&mut self, now: Instant) -> bool {
        match self.marks.pressure(self.resident.free()) {
            Pressure::None => true,
            Pressure::WakeKswapd => {
                self.wake_kswapd();
                true
            }
            Pressure::Direct | Pressure::Throttled => self.reclaim_directly(now),
        }
    }

    /// The allocating task frees a little itself.
    fn reclaim_directly(&mut self, now: Instant) -> bool {
        self.wake_kswapd();
        if self.reclaim_in_vain {
            // Nothing has changed: looking at every page again would find the same.
            return self.resident.free() > self.marks.min / 2;
        }
        self.evicted.clear();
        let outcome = self.resident.reclaim(now, RECLAIM_BATCH, Reclaimer::Direct, &mut self.evicted);
        self.stats.direct_reclaims += 1;
        self.stats.direct_reclaimed += outcome.reclaimed();
        self.stats.direct_scanned += outcome.scanned;
        self.note_dirty(outcome.dirty);
        self.reclaim_in_vain = outcome.reclaimed() == 0;
        // The last of the reserve is not for the page cache.
        self.resident.free() > self.marks.min / 2 || (outcome.reclaimed() > 0 && self.resident.free() > 0)
    }

    /// A call found no memory for a page that it must have.
    pub(super) fn starve(&mut self, now: Instant, at: &mut Progress) -> CallStep {
        let looked_for = now.since(*at.starved.get_or_insert(now));
        if looked_for > STARVED_MAX {
            self.stats.out_of_memory += 1;
            return CallStep::Done(Status::NoSpace);
        }
        if looked_for >= self.config.hz.span(LOOKS_IN_VAIN) && self.resident.pages().writeback() == 0 && self.kill() {
            at.starved = Some(now);
        }
        CallStep::Memory
    }

    /// Ends an idle program; false where none is left.
    fn kill(&mut self) -> bool {
        let program = (self.config.idle.get() / PAGE_SIZE).div_ceil(IDLE_PROGRAMS);
        let is_killed = self.resident.kill(program) > 0;
        self.stats.oom_kills += u64::from(is_killed);
        self.reclaim_in_vain &= !is_killed;
        is_killed
    }

    pub(super) fn wake_kswapd(&mut self) {
        if self.kswapd_rests.is_none() {
            self.kswapd.wake();
        }
    }

    /// Reclaim met dirty pages: they are to be written, however few are dirty.
    fn note_dirty(&mut self, dirty: u64) {
        if dirty > 0 {
            self.reclaim_wants_clean = true;
            self.flusher.wake();
        }
    }

    /// At the end of each entry: kswapd runs, if it is awake, until enough is free or nothing more
    /// can be had.
    #[inline]
    pub(super) fn settle(&mut self, now: Instant) {
        if self.kswapd.priority().is_some() {
            self.run_kswapd(now);
        }
    }

    fn run_kswapd(&mut self, now: Instant) {
        self.evicted.clear();
        let (mut freed, mut is_too_young) = (0, false);
        while let Some(priority) = self.kswapd.priority() {
            self.resident.age(now);
            let request = Request { want: self.marks.kswapd_target(), priority, by: Reclaimer::Kswapd };
            let outcome = self.resident.evict(now, request, &mut self.evicted);
            self.stats.kswapd_scanned += outcome.scanned;
            self.note_dirty(outcome.dirty);
            self.write_from_kswapd();
            self.kswapd.round_ended(self.resident.free(), &self.marks, outcome.reclaimed());
            freed += outcome.reclaimed();
            is_too_young = outcome.is_too_young;
        }
        self.stats.kswapd_reclaimed += freed;
        let is_killed = is_too_young && self.kill();
        if self.resident.free() < self.marks.low {
            self.kswapd_rests = Some(now + WRITEBACK_THROTTLE);
        } else if self.resident.free() >= self.marks.high {
            self.resident.on_balanced();
        }
        if freed > 0 || is_killed {
            self.wake_starved(now);
            self.run(now);
        }
    }

    /// What kswapd writes itself rather than leaves to the flusher: dirty pages that it has met
    /// before, after a batch of nothing else.
    fn write_from_kswapd(&mut self) {
        let Some(mut slot) = self.resident.take_write() else { return };
        let submitter = Submitter::of_task(IoPrio::NONE, CpuPolicy::Normal, 0);
        let (task, op, origin) = (self.config.flusher, Op::Write, Origin::Writeback);
        let source = Source { task, tenant: TenantId(0), submitter, op, flags: Flags::NONE, origin };
        loop {
            let (file, index) = self.resident.pages().key(slot);
            self.write_out(&source, file, index, slot);
            self.note_clean(file);
            self.stats.kswapd_written += 1;
            match self.resident.take_write() {
                Some(next) => slot = next,
                None => return self.bios.close(),
            }
        }
    }
}
