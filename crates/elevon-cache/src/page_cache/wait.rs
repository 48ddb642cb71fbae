//! Sleeping calls. Pages have no room for a list of waiters, so waiters are in a table of queues,
//! hashed by frame number, as in the kernel; calls that sleep for a time are in a heap. Cost: O(1)
//! to sleep and wake for a page if few waiters share a queue; O(log sleepers) for a time.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::{CallStep, Door, FrameId, PageCache, PageFlags};
use crate::bios::BioAttributes;
use crate::page_cache::stats::Cause;
use crate::watermark::WRITEBACK_THROTTLE;
use elevon_core::ioprio::PrioClass;
use elevon_core::op::{Flags, Op};
use elevon_core::units::{Instant, Nanos};

/// Number of queues in the table.
const QUEUES: usize = 256;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    Nothing,
    Page(FrameId),
    Memory,
    Door(Door),
    Pause,
    Flush,
}

#[derive(Clone, Copy, Debug)]
struct Sleeper {
    what: For,
    since: Instant,
    /// Number of the sleep. A heap entry with another number is out of date.
    sleep: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// A call is in at most one queue, so the queues together hold at most the number of calls.
    queues: Vec<VecDeque<(FrameId, u32)>>,
    memory: VecDeque<u32>,
    /// The entry of a sleep that another event ended stays until it reaches the top of the heap.
    timers: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    /// By call.
    sleepers: Vec<Sleeper>,
    sleeps: u64,
    asleep: usize,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self {
            queues: alloc::vec![VecDeque::new(); QUEUES],
            memory: VecDeque::new(),
            timers: BinaryHeap::new(),
            sleepers: Vec::new(),
            sleeps: 0,
            asleep: 0,
        }
    }

    const fn queue(frame: FrameId) -> usize {
        frame.0 as usize % QUEUES
    }

    pub(super) fn sleep(&mut self, now: Instant, call: u32, what: For, until: Option<Instant>) {
        let nobody = Sleeper { what: For::Nothing, since: Instant::ZERO, sleep: 0 };
        if self.sleepers.len() <= call as usize {
            self.sleepers.resize(call as usize + 1, nobody);
        }
        self.sleeps += 1;
        self.asleep += 1;
        self.sleepers[call as usize] = Sleeper { what, since: now, sleep: self.sleeps };
        if let Some(until) = until {
            self.timers.push(Reverse((until, self.sleeps, call)));
        }
    }

    /// Removes and returns a call that sleeps for the page.
    #[inline]
    pub(super) fn take_page(&mut self, frame: FrameId) -> Option<u32> {
        let queue = &mut self.queues[Self::queue(frame)];
        let at = queue.iter().position(|&(waits, _)| waits == frame)?;
        queue.remove(at).map(|(_, call)| call)
    }

    /// Removes and returns a call whose sleep has expired.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<u32> {
        while let Some(&Reverse((at, sleep, call))) = self.timers.peek() {
            let sleeper = self.sleepers[call as usize];
            let is_current = sleeper.what != For::Nothing && sleeper.sleep == sleep;
            if is_current && at > now {
                return None;
            }
            self.timers.pop();
            if is_current {
                self.memory.retain(|&waits| waits != call);
                return Some(call);
            }
        }
        None
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.peek().map(|&Reverse((at, ..))| at)
    }

    pub(super) const fn len(&self) -> usize {
        self.asleep
    }

    /// `at_doors`: the number of calls at doors.
    pub(super) fn self_check(&self, at_doors: usize, is_held: impl Fn(FrameId) -> bool) {
        let mut listed = self.memory.len() + at_doors;
        for &(frame, call) in self.queues.iter().flatten() {
            assert_eq!(self.sleepers[call as usize].what, For::Page(frame));
            assert!(is_held(frame), "call {call} sleeps for {frame:?}, which nobody holds");
            listed += 1;
        }
        let timed = |what| matches!(what, For::Pause | For::Flush);
        listed += self.sleepers.iter().filter(|sleeper| timed(sleeper.what)).count();
        assert_eq!(listed, self.asleep);
    }
}

impl PageCache {
    pub(super) fn sleep(&mut self, now: Instant, call: u32, step: CallStep) {
        match step {
            CallStep::Done(_) => unreachable!("a call that has finished does not sleep"),
            CallStep::Page(frame) => {
                debug_assert!(
                    self.resident.pages().has(frame, PageFlags::LOCKED | PageFlags::WRITEBACK)
                );
                self.waiting.queues[Waiting::queue(frame)].push_back((frame, call));
                self.waiting.sleep(now, call, For::Page(frame), None);
            }
            CallStep::Memory => {
                self.waiting.memory.push_back(call);
                // If pages are under writeback, their completion will help; otherwise the call can
                // only wait for a time.
                let is_writing = self.resident.pages().writeback() > 0;
                let span = if is_writing { WRITEBACK_THROTTLE } else { self.config.hz.span(1) };
                self.waiting.sleep(now, call, For::Memory, Some(now + span));
            }
            CallStep::Door(door) => self.wait_at_door(now, call, door),
            CallStep::Pause(span) => {
                self.dirty_sleep = Some(now);
                self.waiting.sleep(now, call, For::Pause, Some(now + span));
            }
            CallStep::Flush => {
                let super::Call { task, tenant, submitter, .. } = self.calls[call].call;
                let origin = super::Origin::Fsync;
                let attributes = BioAttributes {
                    task,
                    tenant,
                    submitter,
                    op: Op::Flush,
                    flags: Flags::SYNC,
                    origin,
                };
                self.bios.flush(&attributes, call);
                self.waiting.sleep(now, call, For::Flush, None);
            }
        }
    }

    /// Makes a sleeping call runnable, and adds up its time asleep. `device` and `class` are those
    /// of the bio that ended the sleep.
    pub(super) fn wake(
        &mut self,
        now: Instant,
        call: u32,
        device: Nanos,
        class: Option<PrioClass>,
    ) {
        let sleeper = &mut self.waiting.sleepers[call as usize];
        let what = core::mem::replace(&mut sleeper.what, For::Nothing);
        let slept = now.since(sleeper.since);
        self.waiting.asleep -= 1;
        let progress = &mut self.calls[call];
        match what {
            For::Nothing => unreachable!("call {call} is awake"),
            For::Pause => {
                progress.paused += slept;
                self.stats.slept(Cause::DirtyPause, slept);
            }
            For::Page(_) | For::Flush => {
                progress.waited += slept;
                progress.device += device.min(slept);
                progress.class = class.unwrap_or_default();
            }
            For::Memory | For::Door(_) => {
                progress.without_memory += slept;
                self.stats.slept(Cause::Memory, slept);
            }
        }
        self.runnable.push_back(call);
    }

    /// Wakes all calls that sleep for memory, because some may be free.
    pub(super) fn wake_starved(&mut self, now: Instant) {
        for _ in 0..self.waiting.memory.len() {
            let Some(call) = self.waiting.memory.pop_front() else { return };
            self.wake(now, call, Nanos::ZERO, None);
        }
    }
}
