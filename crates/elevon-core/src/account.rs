//! Accounting: the content of `/sys/block/X/stat`, utilisation in four forms, latency by stage.
//!
//! The data path reports events ([`Accounting::on_start`] ... [`Accounting::on_end`]); everything
//! else is derived here. All forms of io_ticks ([`io_ticks`]) are computed for every request, so
//! that one run can compare them; the chosen one feeds field 10. Cost: O(1) per call, no
//! allocation, and no division unless a jiffy has passed since the last call.

extern crate alloc;
use alloc::vec::Vec;

pub mod io_ticks;
#[cfg(test)]
mod tests;

use crate::jiffies::{Hz, JiffyClock, TickPhase};
use io_ticks::{IoTicks, Moment, Rule};

use crate::kernel::IoTicksForm;
use crate::op::StatGroup;
use crate::stats::{LatencyStat, Repeats};
use crate::units::{Instant, Nanos, Sectors, TaskId};

/// Counters of one group (reads, writes, discards) in `/sys/block/X/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounters {
    /// Requests completed, including failed ones (fields 1, 5, 12).
    pub ios: u64,
    /// Bios merged into requests, and requests merged into others (2, 6, 13).
    pub merges: u64,
    /// Sectors transferred (3, 7, 14).
    pub sectors: u64,
    /// Sum of the requests' times from allocation to completion; printed in ms (4, 8, 15).
    pub ticks: Nanos,
}

/// A snapshot of the statistics of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// When the snapshot was taken.
    pub at: Instant,
    /// Reads, writes, discards, by [`StatGroup`].
    pub groups: [GroupCounters; 3],
    /// Requests in flight, as the kernel version defines it (field 9).
    pub in_flight: u64,
    /// Busy time in ms by the chosen io_ticks form (field 10).
    pub io_ticks_ms: u64,
    /// Device flushes (16).
    pub flushes: u64,
    /// Sum of their times; printed in ms (17).
    pub flush_ticks: Nanos,
    /// Busy time by every form of io_ticks.
    pub utilisation: Utilisation,
    /// Integral of requests in flight over time, in request-nanoseconds. The exact mean queue
    /// depth of a span is its change divided by the span.
    pub in_flight_integral: u128,
}

/// Busy time of a device by each form of io_ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Utilisation {
    /// 5.7 to 6.9, ms.
    pub sampled_ms: u64,
    /// Proposal 003, ms.
    pub inflight_ms: u64,
    /// 6.10 and later, ms.
    pub precise_ms: u64,
    /// Exact (not in Linux), nanoseconds.
    pub exact: Nanos,
}

/// All data of a completed request, from which statistics, histograms and reports are made.
#[derive(Clone, Copy, Debug)]
pub struct CompletionFact {
    /// The group that counts it.
    pub group: StatGroup,
    /// The task that allocated it, or, where a worker did so for bios that a limit held, the task
    /// that submitted them.
    pub task: TaskId,
    /// When it was allocated.
    pub start: Instant,
    /// When it was (last) given to the driver.
    pub issued: Instant,
    /// When it ended.
    pub end: Instant,
}

/// The accounting of one device.
#[derive(Clone, Debug)]
pub struct Accounting {
    form: IoTicksForm,
    in_flight_from_allocation: bool,
    clock: JiffyClock,
    sampled: IoTicks,
    inflight: IoTicks,
    precise: IoTicks,
    /// Time up to which `busy` and `integral` are computed.
    counted: Instant,
    busy: u64,
    integral: u128,
    /// Requests between start and end.
    in_flight: u64,
    groups: [GroupCounters; 3],
    /// Those of them that are in the driver.
    started: u64,
    flushes: u64,
    flush_ticks: Nanos,
    queued: [LatencyStat; 3],
    serviced: [LatencyStat; 3],
    /// What is still to be counted in `queued` and in `serviced`.
    repeats: [[Repeats; 2]; 3],
    /// By task.
    device_time: Vec<Nanos>,
}

impl Accounting {
    /// Returns accounting that starts from zero. `hz` is the tick rate (100 to 1000) of the
    /// whole-jiffy forms; `in_flight_from_allocation` as in [`crate::kernel::Rules`].
    ///
    /// # Panics
    /// If `hz` is 0.
    pub fn new(form: IoTicksForm, hz: Hz, hw_queues: u16, in_flight_from_allocation: bool) -> Self {
        Self {
            form,
            in_flight_from_allocation,
            clock: JiffyClock::new(hz, TickPhase::Fixed),
            sampled: IoTicks::new(Rule::Sampled),
            inflight: IoTicks::new(Rule::Inflight { one_hw_queue: hw_queues == 1 }),
            precise: IoTicks::new(Rule::Precise),
            counted: Instant::ZERO,
            busy: 0,
            integral: 0,
            in_flight: 0,
            started: 0,
            groups: Default::default(),
            flushes: 0,
            flush_ticks: Nanos::ZERO,
            queued: Default::default(),
            serviced: Default::default(),
            repeats: Default::default(),
            device_time: Vec::new(),
        }
    }

    /// Sets the phase of the ticks of the whole-jiffy forms: [`TickPhase::Fixed`] unless set. To be
    /// called before anything is counted.
    #[must_use]
    pub(crate) fn with_tick_phase(mut self, hz: Hz, phase: TickPhase) -> Self {
        self.clock = JiffyClock::new(hz, phase);
        self
    }

    /// Updates the exact integrals up to `now`. Must be called before `in_flight` changes.
    #[inline]
    fn count_to(&mut self, now: Instant) {
        debug_assert!(now >= self.counted, "time went backwards");
        if now > self.counted {
            if self.in_flight > 0 {
                let span = (now - self.counted).get();
                self.busy += span;
                self.integral += u128::from(span) * u128::from(self.in_flight);
            }
            self.counted = now;
        }
    }

    /// Updates the whole-jiffy forms up to `now`; costs one comparison unless a jiffy has passed.
    /// Only then is `moment` asked.
    #[inline(always)]
    fn tick(&mut self, now: Instant, moment: impl FnOnce() -> Moment) {
        if let Some(jiffy) = self.clock.tick(now) {
            self.enter_jiffy(jiffy, moment());
        }
    }

    #[cold]
    fn enter_jiffy(&mut self, jiffy: u64, moment: Moment) {
        for ticks in [&mut self.sampled, &mut self.inflight, &mut self.precise] {
            ticks.update(jiffy, moment);
        }
    }

    /// Counts a request that was allocated. `tags_in_use` includes this one (proposal 003's test);
    /// it is asked once in a jiffy.
    #[inline(always)]
    pub fn on_start(&mut self, now: Instant, tags_in_use: impl FnOnce() -> u32) {
        self.count_to(now);
        let in_flight = self.in_flight;
        self.tick(now, || Moment::Start { in_flight, tags: tags_in_use() });
        self.in_flight += 1;
    }
    /// Counts a request that was issued to the driver.
    #[inline]
    pub fn on_issue(&mut self, _now: Instant) {
        self.started += 1;
    }
    /// Counts a started request that the driver gave back.
    #[inline]
    pub(crate) fn on_requeue(&mut self, _now: Instant) {
        debug_assert!(self.started > 0, "a requeue without an issue");
        self.started -= 1;
    }
    /// Counts a bio that was merged into a request.
    #[inline]
    pub(crate) fn on_merge(&mut self, group: StatGroup) {
        self.groups[group as usize].merges += 1;
    }
    /// Counts an allocated request that was merged into another. It has no completion of its own,
    /// and the kernel does not update io_ticks for it.
    pub fn on_request_merged(&mut self, now: Instant, group: StatGroup) {
        debug_assert!(self.in_flight > 0, "a request was swallowed that never started");
        self.count_to(now);
        self.groups[group as usize].merges += 1;
        self.in_flight -= 1;
    }
    /// Counts sectors of a completed part of a request.
    #[inline]
    pub fn on_sectors(&mut self, group: StatGroup, sectors: Sectors) {
        self.groups[group as usize].sectors += sectors.get();
    }
    /// Counts the end of a request. `started`: it was in the driver; otherwise it has no latency by
    /// stage.
    #[inline(always)]
    pub fn on_end(&mut self, fact: &CompletionFact, started: bool) {
        debug_assert!(self.in_flight > 0, "a request ended that never started");
        self.count_to(fact.end);
        self.tick(fact.end, || Moment::End);
        self.in_flight -= 1;
        let at = fact.group as usize;
        self.groups[at].ios += 1;
        self.groups[at].ticks += fact.end.since(fact.start);
        if started {
            debug_assert!(self.started > 0, "a request left the driver that never went in");
            self.started -= 1;
            // Without a scheduler most requests do not wait, and with one many wait as long.
            let [queued, serviced] = &mut self.repeats[at];
            queued.add((fact.issued - fact.start).get(), &mut self.queued[at]);
            let time = fact.end - fact.issued;
            serviced.add(time.get(), &mut self.serviced[at]);
            match self.device_time.get_mut(fact.task.index()) {
                Some(total) => *total += time,
                None => self.add_device_time(fact.task, time),
            }
        }
    }
    /// Counts the first time that requests of a task were in the driver; the idle task has none.
    #[cold]
    fn add_device_time(&mut self, task: TaskId, time: Nanos) {
        if task != TaskId::IDLE {
            self.device_time.resize(task.index() + 1, Nanos::ZERO);
            self.device_time[task.index()] += time;
        }
    }
    /// Counts a completed device flush.
    pub(crate) fn on_flush_end(&mut self, start: Instant, end: Instant) {
        self.flushes += 1;
        self.flush_ticks += end.since(start);
    }

    /// Returns the number of requests between the start and the end of their accounting, whatever
    /// field 9 means.
    #[inline]
    pub const fn outstanding(&self) -> u64 {
        self.in_flight
    }

    /// Returns the integral of [`Self::outstanding`] over time until `now`, in request-nanoseconds.
    pub fn outstanding_integral(&self, now: Instant) -> u128 {
        self.integral + u128::from(now.since(self.counted).get()) * u128::from(self.in_flight)
    }

    /// Returns the number of requests in flight, as the kernel version defines it (field 9).
    pub const fn in_flight(&self) -> u64 {
        if self.in_flight_from_allocation { self.in_flight } else { self.started }
    }

    /// Returns what the stat file shows if it is read now. A read updates io_ticks while a request
    /// is in flight (5.18 and later). If `now` is before what was counted last, it is read as of
    /// that: a real clock passes the end of a ramp in the middle of a step.
    pub fn read(&mut self, now: Instant) -> DiskStats {
        let now = now.max(self.counted);
        self.count_to(now);
        if self.in_flight() > 0 {
            self.tick(now, || Moment::Read);
        }
        let millis = |ticks: &IoTicks| self.clock.millis(ticks.jiffies());
        let utilisation = Utilisation {
            sampled_ms: millis(&self.sampled),
            inflight_ms: millis(&self.inflight),
            precise_ms: millis(&self.precise),
            exact: Nanos::new(self.busy),
        };
        DiskStats {
            at: now,
            groups: self.groups,
            in_flight: self.in_flight(),
            io_ticks_ms: utilisation.millis(self.form),
            flushes: self.flushes,
            flush_ticks: self.flush_ticks,
            utilisation,
            in_flight_integral: self.integral,
        }
    }
    /// Returns the latency from allocation to the driver, by group.
    pub fn queued_to_dispatched(&self, group: StatGroup) -> LatencyStat {
        let at = group as usize;
        self.repeats[at][0].counted_in(&self.queued[at])
    }
    /// Returns the latency from the driver to completion, by group.
    pub fn dispatched_to_completed(&self, group: StatGroup) -> LatencyStat {
        let at = group as usize;
        self.repeats[at][1].counted_in(&self.serviced[at])
    }
    /// Returns the total time that a task's requests were in the driver. A request counts for one
    /// task ([`CompletionFact::task`]), even if it carries bios of other tasks.
    pub fn device_time(&self, task: TaskId) -> Nanos {
        self.device_time.get(task.index()).copied().unwrap_or(Nanos::ZERO)
    }
}

impl Utilisation {
    /// Returns the busy time by one form, in whole ms.
    pub const fn millis(&self, form: IoTicksForm) -> u64 {
        match form {
            IoTicksForm::Sampled => self.sampled_ms,
            IoTicksForm::Inflight => self.inflight_ms,
            IoTicksForm::Precise => self.precise_ms,
            IoTicksForm::Exact => self.exact.as_millis(),
        }
    }
}

impl DiskStats {
    /// Returns the 17 numbers of `/sys/block/X/stat`.
    pub fn fields(&self) -> [u64; 17] {
        let [r, w, d] = self.groups;
        let total = r.ticks + w.ticks + d.ticks + self.flush_ticks;
        [
            r.ios,
            r.merges,
            r.sectors,
            r.ticks.as_millis(),
            w.ios,
            w.merges,
            w.sectors,
            w.ticks.as_millis(),
            self.in_flight,
            self.io_ticks_ms,
            total.as_millis(),
            d.ios,
            d.merges,
            d.sectors,
            d.ticks.as_millis(),
            self.flushes,
            self.flush_ticks.as_millis(),
        ]
    }
}
