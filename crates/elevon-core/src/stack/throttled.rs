//! Bios that wait for a place of writeback throttling (see [`crate::wbt`]).

extern crate alloc;
use alloc::collections::VecDeque;

use super::submit::Submission;
use super::{Io, Stack, Submitted, Waiter, Woken, WokenStep};
use crate::bio::Bio;
use crate::driver::Driver;
use crate::op::Op;
use crate::units::{BioId, Instant};
use crate::wbt::{Throttled, Wbt};

/// Writeback throttling, and what waits for it.
pub(super) struct Throttling {
    pub(super) wbt: Wbt,
    /// Nothing is throttled while io.cost is enabled.
    pub(super) yields_to_io_cost: bool,
    /// What waits for a place, by kind.
    pub(super) waiting: [WaitQueue; 2],
}

/// What waits for one kind of place, in FIFO order. Each holds one bio, so there are at most as
/// many as bios.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitQueue {
    pub(super) waiters: VecDeque<Waiter>,
    /// Places were given back, and those who wait are to be woken.
    is_woken: bool,
    /// Set while they are woken, so that they are not woken recursively.
    is_waking: bool,
}

impl Stack {
    /// Takes a place for a bio, of operation `op`, that needs one and does not have it yet.
    /// Returns false if it has to wait.
    #[inline]
    pub(super) fn takes_place(&mut self, now: Instant, op: Op, id: BioId) -> bool {
        if op == Op::Read {
            self.throttling.wbt.on_read(now);
            return true;
        }
        let bio = &self.bios[id.0];
        match Throttled::from_op(bio.op, bio.flags) {
            Some(throttled) if !bio.has_place => self.take_place(now, id, throttled, false),
            _ => true,
        }
    }

    /// Takes a place for a bio that is the first in its queue, or comes while the queue is empty.
    /// Returns true if it has one or needs none.
    fn take_place(
        &mut self,
        now: Instant,
        id: BioId,
        throttled: Throttled,
        is_first: bool,
    ) -> bool {
        if self.throttling.yields_to_io_cost && self.control.has_cost() {
            return true;
        }
        let is_next = is_first || self.throttling.waiting[throttled as usize].waiters.is_empty();
        let bio = &mut self.bios[id.0];
        bio.has_place = is_next && self.throttling.wbt.take(now, throttled, bio.flags);
        bio.has_place
    }

    /// Gives the place of a bio back that ends before it has a request.
    pub(super) fn give_place_back(&mut self, now: Instant, id: BioId) {
        let bio = &mut self.bios[id.0];
        if core::mem::take(&mut bio.has_place)
            && let Some(throttled) = Throttled::from_op(bio.op, bio.flags)
        {
            self.put_place(now, throttled);
        }
    }

    /// Gives a place back. Those who wait are woken by [`Self::wake_throttled`].
    #[inline]
    pub(super) fn put_place(&mut self, now: Instant, throttled: Throttled) {
        self.throttling.waiting[throttled as usize].is_woken |=
            self.throttling.wbt.put(now, throttled);
    }

    /// Puts the task, or a worker in its place, to sleep until there is a place.
    #[cold]
    pub(super) fn sleep_for_place<D: Driver>(
        &mut self,
        now: Instant,
        io: &Io,
        submission: Submission,
        bio: BioId,
        driver: &mut D,
    ) -> Submitted {
        let &Bio { op, flags, .. } = &self.bios[bio.0];
        let throttled = Throttled::from_op(op, flags).expect("only these wait");
        self.counters.wbt_waits += 1;
        let submission = self.fall_asleep(now, io, submission, driver);
        self.throttling.waiting[throttled as usize].waiters.push_back(Waiter {
            io: *io,
            submission,
            bio,
        });
        // The plug that was flushed may have given places back by merges.
        self.wake_throttled(now, driver);
        self.is_asleep(io)
    }

    /// Returns true if a task is to be woken.
    #[inline]
    pub(super) fn wakes_throttled(&self) -> bool {
        self.throttling
            .waiting
            .iter()
            .any(|queue| queue.is_woken && !queue.is_waking && !queue.waiters.is_empty())
    }

    /// Wakes those who wait, in order, while there are places.
    #[inline]
    pub(super) fn wake_throttled<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        if self.wakes_throttled() {
            Throttled::ALL
                .into_iter()
                .for_each(|throttled| self.wake_places(now, throttled, driver));
        }
    }

    #[cold]
    fn wake_places<D: Driver>(&mut self, now: Instant, throttled: Throttled, driver: &mut D) {
        // A request that ends at once causes a nested wake-up. The outer one continues the work.
        let queue = &mut self.throttling.waiting[throttled as usize];
        if !queue.is_woken || core::mem::replace(&mut queue.is_waking, true) {
            return;
        }
        while let Some(&Waiter { io, submission, bio }) =
            self.throttling.waiting[throttled as usize].waiters.front()
        {
            if !self.take_place(now, bio, throttled, true) {
                break;
            }
            self.throttling.waiting[throttled as usize].waiters.pop_front();
            if self.control.is_active() {
                self.charge_wait(now, bio, crate::control::Cause::Writeback);
            }
            // It has its place from now on, and runs later: not before all requests have completed
            // that do so at this instant.
            let waiter = Waiter { io, submission, bio };
            self.woken
                .push(Woken { at: now + driver.tag_wake_delay(), step: WokenStep::GoOn(waiter) });
        }
        let queue = &mut self.throttling.waiting[throttled as usize];
        (queue.is_woken, queue.is_waking) = (false, false);
    }

    /// Ends a window of writeback throttling, which may give more places.
    #[cold]
    pub(super) fn end_wbt_window<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        if self.throttling.wbt.end_window(now) {
            self.throttling.waiting.iter_mut().for_each(|queue| queue.is_woken = true);
            self.wake_throttled(now, driver);
        }
    }
}
