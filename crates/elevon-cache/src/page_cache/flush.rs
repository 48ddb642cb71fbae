//! Turns the flusher's choice of a file into write-back bios, one at a time, as fast as the caller
//! takes them. Each tenant's bios are submitted by its flusher task: pages of a tenant whose
//! flusher task sleeps for a tag or a limit stay dirty, and the turn continues with other tenants'
//! pages.

use super::{
    BioAttributes, Flags, Instant, Op, Origin, PageCache, PageFlags, Submitter, TaskId, TenantId,
};
use crate::FileId;
use crate::flusher::{Turn, chunk_pages};
use crate::pages::Tag;
use elevon_core::ioprio::{CpuPolicy, IoPrio};
use elevon_core::units::{PageCount, PageIndex};

/// The state of the current turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlushTurn {
    file: FileId,
    pos: PageIndex,
    left: PageCount,
    written: PageCount,
}

impl PageCache {
    /// Builds the flusher's next bio. Returns false if it has nothing to write, or if it sleeps for
    /// a tag.
    pub(super) fn fill_from_flusher(&mut self, now: Instant) -> bool {
        let task = self.config.flusher;
        if (self.turn.is_none() && !self.flusher.is_awake()) || self.all_flushers_sleep() {
            return false;
        }
        let submitter = Submitter::of_task(IoPrio::NONE, CpuPolicy::Normal, 0);
        let (op, flags, origin) = (Op::Write, Flags::BACKGROUND, Origin::Writeback);
        let attributes = BioAttributes { task, tenant: TenantId(0), submitter, op, flags, origin };
        loop {
            let Some(turn) = self.turn.or_else(|| self.next_turn(now)) else { return false };
            let (turn, is_finished) = self.build_one(&attributes, turn);
            self.bios.close();
            self.turn = (!is_finished).then_some(turn);
            if is_finished {
                self.end_turn(now, turn);
            }
            if !turn.written.is_zero() && self.bios.has_ready() {
                return true;
            }
        }
    }

    /// Returns the flusher task that writes a tenant's pages in the background.
    pub(super) const fn flusher_of(&self, tenant: TenantId) -> TaskId {
        let own = if tenant.0 <= self.config.tenant_flushers { tenant.0 } else { 0 };
        TaskId(self.config.flusher.0 + own)
    }

    /// Returns true if a task is a flusher, of the root or of a tenant.
    pub fn is_flusher(&self, task: TaskId) -> bool {
        let first = self.config.flusher;
        (first.0..=first.0 + self.config.tenant_flushers).contains(&task.0)
    }

    fn all_flushers_sleep(&self) -> bool {
        if self.config.tenant_flushers == 0 {
            return self.bios.is_blocked(self.config.flusher);
        }
        let mut dirty = self.resident.pages().dirty_tenants().peekable();
        dirty.peek().is_some() && dirty.all(|tenant| self.bios.is_blocked(self.flusher_of(tenant)))
    }

    fn next_turn(&mut self, now: Instant) -> Option<FlushTurn> {
        let is_awaited = self.reclaim_wants_clean || self.parts.has_writers();
        let over = is_awaited || self.domains.wants_flusher(&self.counts(), self.resident.pages());
        let Some(chunk) = self.flusher.next_turn(now, over) else {
            self.reclaim_wants_clean = false;
            return None;
        };
        let domain = self.dirty_domain();
        let limit = domain.limits(self.counts().dirtyable).thresh.max(domain.limit());
        let left = chunk_pages(self.domains.bandwidth(), limit, u64::MAX);
        Some(FlushTurn { file: chunk.file, pos: chunk.from, left, written: PageCount::ZERO })
    }

    /// Adds pages until the bio is full or the turn has finished. Returns the turn, and true if it
    /// has finished.
    fn build_one(&mut self, attributes: &BioAttributes, mut turn: FlushTurn) -> (FlushTurn, bool) {
        let mut is_begun = false;
        while !turn.left.is_zero() {
            let next = self.resident.pages().next_tagged(turn.file, turn.pos, Tag::Dirty);
            let Some((index, frame)) = next else {
                turn.pos = PageIndex::ZERO;
                return (turn, true);
            };
            // Pages under writeback are left to a later turn.
            if !self.resident.pages().has(frame, PageFlags::WRITEBACK) {
                let owner = self.resident.pages().owner(frame);
                if self.bios.is_blocked(self.flusher_of(owner)) {
                    self.skipped = true;
                    turn.pos = index.next();
                    if self.flusher.sole_owner(turn.file) == Some(owner) {
                        turn.pos = PageIndex::ZERO;
                        return (turn, true);
                    }
                    continue;
                }
                let piece =
                    self.piece(turn.file, index, frame, self.resident.pages().bits(frame), false);
                if is_begun && !self.bios.takes(&piece, owner) {
                    return (turn, false);
                }
                self.write_out(attributes, turn.file, index, frame);
                is_begun = true;
                turn.left -= PageCount::new(1);
                turn.written += PageCount::new(1);
            }
            turn.pos = index.next();
        }
        (turn, true)
    }

    fn end_turn(&mut self, now: Instant, turn: FlushTurn) {
        let is_dirty =
            self.resident.pages().next_tagged(turn.file, PageIndex::ZERO, Tag::Dirty).is_some();
        let FlushTurn { file, pos, left, written } = turn;
        debug_assert!(self.turn.is_none(), "a turn ends while it goes on");
        self.domains.on_turn_ended(now, &self.counts(), self.resident.pages());
        self.flusher.turn_ended(
            file,
            Turn { next: pos, written, is_dirty, is_used_up: left.is_zero() },
            now,
        );
    }
}
