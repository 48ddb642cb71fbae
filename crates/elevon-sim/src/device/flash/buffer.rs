//! The path of written data to the dies: write buffer, SLC cache, programs, and the time for
//! garbage collection.
//!
//! Data enters the buffer after its transfer on the link, waits if the buffer is full, and leaves
//! it in steps of one program at the drain rate. Programs go to the dies in turn. A program
//! occupies the die, so reads wait behind it; a die that is behind by more than one program delays
//! the drain. There is no translation layer: a die owes collection time for every byte programmed,
//! and pays it in slices of milliseconds.
//!
//! Cost: O(1) per program and per write; nothing runs while the buffer is empty.

use std::collections::VecDeque;

use super::super::parameter::{ns_per_byte_q32, scale_q32};
use super::config::FlashConfig;
use super::streams::Streams;
use crate::chance::{below, mix64};

#[derive(Clone, Debug)]
pub(super) struct Buffer {
    capacity: u64,
    /// Drain bytes in the buffer, and the totals since the start; a scattered write counts more
    /// than its size.
    level: u64,
    accepted: u64,
    drained: u64,
    /// The current step: its bytes, and when it ends. Zero bytes if there is none.
    step: u64,
    step_end: u64,
    slow_q32: u64,
    fast_q32: u64,
    slc_size: u64,
    slc_used: u64,
    program_unit: u64,
    program_time: u64,
    /// Bytes that have left the buffer and do not fill a program yet.
    partial: u64,
    next_die: usize,
    scatter_bytes: u64,
    streams: Streams,
    /// Debt of buffered bytes, and that of each die, in nanoseconds.
    carried_debt: u64,
    scattered_debt_q32: u64,
    streamed_debt_q32: u64,
    /// What each die owes, and the debt at which it next pays.
    dies: Vec<(u64, u64)>,
    slice: u64,
    seed: u64,
    slices: u64,
    /// Writes whose data waits for room (slot, drain bytes, debt), in order.
    pub(super) waiting: VecDeque<Arrived>,
    /// Flushes and FUA writes: the drained total that each waits for, its slot, and the time that
    /// it takes after that.
    pub(super) durable: VecDeque<(u64, u32, u64)>,
}

/// A write whose data has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) slot: u32,
    weight: u64,
    debt: u64,
}

impl Buffer {
    pub(super) fn new(config: &FlashConfig, seed: u64) -> Self {
        let slow_q32 = ns_per_byte_q32(config.write_rate);
        let fast_q32 =
            if config.slc_size > 0 { ns_per_byte_q32(config.slc_rate) } else { slow_q32 };
        let (scattered_debt_q32, streamed_debt_q32) = config.collection_debt_q32();
        Self {
            capacity: config.buffer,
            level: 0,
            accepted: 0,
            drained: 0,
            step: 0,
            step_end: 0,
            slow_q32,
            fast_q32,
            slc_size: config.slc_size,
            slc_used: 0,
            program_unit: config.program_unit,
            program_time: config.program_time,
            partial: 0,
            next_die: 0,
            scatter_bytes: (u128::from(config.scatter_cost) << 32)
                .div_ceil(u128::from(fast_q32.max(1))) as u64,
            streams: Streams::new(),
            carried_debt: 0,
            scattered_debt_q32,
            streamed_debt_q32,
            // The first payments are spread, so that the dies do not all pay at once.
            dies: (0..config.dies)
                .map(|die| (0, below(mix64(!(seed ^ die)), config.gc_slice)))
                .collect(),
            slice: config.gc_slice,
            seed,
            slices: 0,
            waiting: VecDeque::with_capacity(config.queue_depth as usize),
            durable: VecDeque::with_capacity(config.queue_depth as usize),
        }
    }

    /// Computes the cost of a write when it is fetched: it depends on whether the write continues a
    /// stream.
    pub(super) fn weigh(&mut self, slot: u32, start: u64, bytes: u64) -> Arrived {
        if self.streams.go_on(start, bytes) {
            return Arrived { slot, weight: bytes, debt: scale_q32(bytes, self.streamed_debt_q32) };
        }
        Arrived {
            slot,
            weight: bytes + self.scatter_bytes,
            debt: scale_q32(bytes, self.scattered_debt_q32),
        }
    }

    /// Returns true if the data fits now. A write larger than the buffer fits if the buffer is
    /// empty.
    #[inline]
    pub(super) fn has_room(&self, write: Arrived) -> bool {
        self.level == 0 || self.level + write.weight <= self.capacity
    }

    /// Accepts the data at `now`. Returns the drained total at which it is on the dies.
    pub(super) fn accept(&mut self, now: u64, write: Arrived, die_free: &[u64]) -> u64 {
        self.level += write.weight;
        self.accepted += write.weight;
        self.carried_debt += write.debt;
        if self.step == 0 {
            // Nothing was written since the last step ended: SLC blocks were freed meanwhile.
            let idle = now.saturating_sub(self.step_end);
            if self.slc_used > 0 {
                let freed = (u128::from(idle) << 32) / u128::from(self.slow_q32.max(1));
                self.slc_used = self.slc_used.saturating_sub(freed as u64);
            }
            self.step_end = now.max(self.step_end);
            self.begin_step(die_free);
        }
        self.accepted
    }

    /// Returns the drained total of everything accepted so far.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    pub(super) fn drained(&self) -> u64 {
        self.drained
    }

    /// Returns when the current step ends.
    #[inline]
    pub(super) fn next(&self) -> Option<u64> {
        (self.step > 0).then_some(self.step_end)
    }

    /// Returns true if a command waits for the drain, so that its steps affect the host.
    #[inline]
    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty() || !self.durable.is_empty()
    }

    /// Begins a step at the end of the last one. A step that fills a program needs a die that is at
    /// most one program behind: the next such die in turn, or else the first that will be.
    fn begin_step(&mut self, die_free: &[u64]) {
        self.step = self.level.min(self.program_unit);
        let rate = if self.slc_used < self.slc_size { self.fast_q32 } else { self.slow_q32 };
        self.step_end += scale_q32(self.step, rate);
        if self.partial + self.step < self.program_unit {
            return;
        }
        let takes = |die: usize| die_free[die].saturating_sub(self.program_time);
        if takes(self.next_die) <= self.step_end {
            return;
        }
        let in_turn = (self.next_die..die_free.len()).chain(0..self.next_die);
        let first = in_turn.clone().find(|&die| takes(die) <= self.step_end);
        self.next_die =
            first.unwrap_or_else(|| in_turn.min_by_key(|&die| takes(die)).expect("there is a die"));
        self.step_end = self.step_end.max(takes(self.next_die));
    }

    /// Ends the current step: its bytes leave the buffer and, if they fill a program, occupy a die.
    pub(super) fn end_step(&mut self, die_free: &mut [u64]) {
        let now = self.step_end;
        let debt =
            (u128::from(self.carried_debt) * u128::from(self.step) / u128::from(self.level)) as u64;
        self.carried_debt -= debt;
        self.dies[self.next_die].0 += debt;
        self.level -= self.step;
        self.drained += self.step;
        self.slc_used = (self.slc_used + self.step).min(self.slc_size);
        self.partial += self.step;
        while self.partial >= self.program_unit {
            self.partial -= self.program_unit;
            self.program(now, die_free);
        }
        if self.level == 0 {
            self.step = 0;
            return;
        }
        self.begin_step(die_free);
    }

    fn program(&mut self, now: u64, die_free: &mut [u64]) {
        let die = self.next_die;
        let mut busy = self.program_time;
        let (debt, payment) = &mut self.dies[die];
        if *debt >= *payment {
            busy += core::mem::take(debt);
            *payment = self.slice / 2 + below(mix64(self.seed ^ self.slices), self.slice);
            self.slices += 1;
        }
        die_free[die] = die_free[die].max(now) + busy;
        self.next_die = if die + 1 == die_free.len() { 0 } else { die + 1 };
    }
}
