//! Memory for pages: kswapd, direct reclaim, and calls that find none.
//!
//! Reclaim itself takes no time: its cost to a call is the time that the call sleeps. A call that
//! finds no memory sleeps for writeback, at most 100 ms, or for a jiffy if no page is under
//! writeback, and looks again. An idle program, if one is left, is killed for its memory after
//! sixteen jiffies without success, or if kswapd may evict nothing because even the oldest
//! generation is younger than `min_ttl`. A call of a simulation fails after 20 s without memory;
//! with bytes no call ever fails for want of memory.

use super::{
    BioAttributes, CallStep, CpuPolicy, Flags, Instant, IoPrio, Op, Origin, PAGE_SIZE, PageCache,
    Progress, Status,
};
use super::{Submitter, TenantId};
use crate::replace::{Reclaimer, Request};
use crate::watermark::{Pressure, RECLAIM_BATCH, WRITEBACK_THROTTLE};
use elevon_core::units::Nanos;

/// The time after which a call that finds no memory fails, in a simulation. (The kernel would kill
/// a running program.)
const STARVED_MAX: Nanos = Nanos::from_secs(20);
/// Attempts without success, a jiffy apart, before an idle program is killed.
const LOOKS_IN_VAIN: u64 = 16;
/// Number of idle programs; each has the same share of the idle memory.
const IDLE_PROGRAMS: u64 = 8;

impl PageCache {
    /// Makes sure that a frame is available. Returns false if none can be freed now.
    #[inline]
    pub(super) fn make_room(&mut self, now: Instant) -> bool {
        let is_free = match self.marks.pressure(self.resident.free()) {
            Pressure::None => true,
            Pressure::WakeKswapd => {
                self.wake_kswapd();
                true
            }
            Pressure::Direct | Pressure::Throttled => self.reclaim_directly(now),
        };
        debug_assert!(!is_free || self.resident.free() > 0, "a frame is promised and none is free");
        is_free
    }

    /// Frees a batch of pages in the allocating task (direct reclaim). Returns true if a frame is
    /// available.
    fn reclaim_directly(&mut self, now: Instant) -> bool {
        self.wake_kswapd();
        if self.reclaim_in_vain {
            // Nothing has changed since: another scan would find nothing either.
            return self.resident.free() > self.marks.min / 2;
        }
        self.evicted.clear();
        let (used, free) = (self.resident.pages().used(), self.resident.free());
        let outcome =
            self.resident.reclaim(now, RECLAIM_BATCH, Reclaimer::Direct, &mut self.evicted);
        assert_eq!(
            self.resident.pages().used() + outcome.evicted,
            used,
            "reclaim miscounts what it evicts"
        );
        assert_eq!(self.evicted.len() as u64, outcome.evicted, "an evicted page is not reported");
        debug_assert!(self.resident.free() >= free, "reclaim takes memory");
        self.stats.direct_reclaims += 1;
        self.stats.direct_reclaimed += outcome.reclaimed();
        self.stats.direct_scanned += outcome.scanned;
        self.note_dirty(outcome.dirty);
        self.reclaim_in_vain = outcome.reclaimed() == 0;
        // The page cache may not use the last part of the reserve.
        self.resident.free() > self.marks.min / 2
            || (outcome.reclaimed() > 0 && self.resident.free() > 0)
    }

    /// Handles a call that found no memory for a page that it needs. Returns the step to take:
    /// sleep, or fail.
    pub(super) fn starve(&mut self, now: Instant, at: &mut Progress) -> CallStep {
        debug_assert!(
            at.starved.is_none_or(|since| since <= now),
            "a call starves before it began to"
        );
        let looked_for = now.since(*at.starved.get_or_insert(now));
        // With bytes the data has an owner, and memory comes back once the device goes on.
        if looked_for > STARVED_MAX && !self.config.copies {
            self.stats.out_of_memory += 1;
            return CallStep::Done(Status::NoSpace);
        }
        if looked_for >= self.config.hz.span(LOOKS_IN_VAIN)
            && self.resident.pages().writeback() == 0
            && self.kill()
        {
            at.starved = Some(now);
        }
        CallStep::Memory
    }

    /// Kills an idle program. Returns false if none is left.
    fn kill(&mut self) -> bool {
        let program = (self.config.idle.get() / PAGE_SIZE).div_ceil(IDLE_PROGRAMS);
        let (idle, reserved) = (self.resident.programs().idle, self.resident.reserved());
        let freed = self.resident.kill(program);
        assert!(freed <= program, "{freed} pages of a program of {program} are freed");
        debug_assert_eq!(
            self.resident.programs().idle + freed,
            idle,
            "a killed program keeps its memory"
        );
        debug_assert_eq!(
            self.resident.reserved() + freed,
            reserved,
            "a killed program's memory is not free"
        );
        let is_killed = freed > 0;
        self.stats.oom_kills += u64::from(is_killed);
        self.reclaim_in_vain &= !is_killed;
        is_killed
    }

    pub(super) fn wake_kswapd(&mut self) {
        if self.kswapd_rests.is_none() {
            self.kswapd.wake();
        }
    }

    /// Wakes the flusher if reclaim found dirty pages: they must be written, even below the
    /// background threshold.
    fn note_dirty(&mut self, dirty: u64) {
        if dirty > 0 {
            self.reclaim_wants_clean = true;
            self.flusher.wake();
            debug_assert!(
                self.flusher.is_awake(),
                "dirty pages are in the way and nobody writes them"
            );
        }
    }

    /// Runs kswapd, if it is awake, until enough memory is free or nothing more can be reclaimed.
    /// Called at the end of each entry function.
    #[inline]
    pub(super) fn settle(&mut self, now: Instant) {
        if self.kswapd.priority().is_some() {
            self.run_kswapd(now);
        }
        self.open_doors(now);
    }

    fn run_kswapd(&mut self, now: Instant) {
        debug_assert!(self.kswapd_rests.is_none(), "kswapd is awake and rests");
        self.evicted.clear();
        let (mut freed, mut is_too_young) = (0, false);
        while let Some(priority) = self.kswapd.priority() {
            self.resident.age(now);
            let request =
                Request { want: self.marks.kswapd_target(), priority, by: Reclaimer::Kswapd };
            let used = self.resident.pages().used();
            let outcome = self.resident.evict(now, request, &mut self.evicted);
            assert_eq!(
                self.resident.pages().used() + outcome.evicted,
                used,
                "kswapd miscounts what it evicts"
            );
            debug_assert!(
                outcome.evicted <= outcome.scanned,
                "a page is evicted that was not scanned"
            );
            self.stats.kswapd_scanned += outcome.scanned;
            self.note_dirty(outcome.dirty);
            self.write_from_kswapd();
            self.kswapd.round_ended(self.resident.free(), &self.marks, outcome.reclaimed());
            freed += outcome.reclaimed();
            is_too_young = outcome.is_too_young;
        }
        debug_assert!(
            self.evicted.len() as u64 <= freed,
            "an evicted page does not count as freed"
        );
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

    /// Writes the dirty pages that kswapd does not leave to the flusher: those that it has scanned
    /// before, after a batch of only such pages.
    fn write_from_kswapd(&mut self) {
        if !self.config.rules.reclaim_writes_file_pages {
            return;
        }
        let Some(mut frame) = self.resident.take_write() else { return };
        let submitter = Submitter::of_task(IoPrio::NONE, CpuPolicy::Normal, 0);
        let (task, op, origin) = (self.config.flusher, Op::Write, Origin::Writeback);
        let attributes =
            BioAttributes { task, tenant: TenantId(0), submitter, op, flags: Flags::NONE, origin };
        loop {
            let (file, index) = self.resident.pages().key(frame);
            let written = self.resident.pages().writeback();
            self.write_out(&attributes, file, index, frame);
            debug_assert_eq!(
                self.resident.pages().writeback(),
                written + 1,
                "a page that is written is under writeback"
            );
            self.note_clean(file);
            self.stats.kswapd_written += 1;
            match self.resident.take_write() {
                Some(next) => frame = next,
                None => return self.bios.close(),
            }
        }
    }
}
