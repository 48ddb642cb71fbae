//! Accounting: what `/sys/block/X/stat` would say, utilisation in four forms, latency by stage.
//!
//! The data path reports facts ([`Accounting::on_start`] ... [`Accounting::on_end`]); everything
//! else is derived here. All forms of io_ticks ([`io_ticks`]) run side by side on every request, so
//! that one run can compare them; the chosen one feeds field 10. Cost: O(1) per call, nothing
//! allocated, and no division but where a jiffy has passed since the call before.

extern crate alloc;
use alloc::vec::Vec;

pub mod io_ticks;
#[cfg(test)]
mod tests;

use crate::jiffies::JiffyClock;
use io_ticks::{IoTicks, Moment, Rule};

use crate::kernel::IoTicksForm;
use crate::op::StatGroup;
use crate::stats::LatencyStat;
use crate::units::{Instant, Nanos, Sectors, TaskId};

/// Counters of one group (reads, writes, discards) in `/sys/block/X/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounters {
    /// Requests completed, failed ones included (fields 1, 5, 12).
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
    /// When it was taken.
    pub at: Instant,
    /// Reads, writes, discards, by [`StatGroup`].
    pub groups: [GroupCounters; 3],
    /// Requests in flight by the kernel version's meaning (field 9).
    pub in_flight: u64,
    /// Busy time in ms by the chosen io_ticks form (field 10).
    pub io_ticks_ms: u64,
    /// Device flushes (16).
    pub flushes: u64,
    /// Sum of their times; printed in ms (17).
    pub flush_ticks: Nanos,
    /// Busy time by every form, whatever the chosen one.
    pub utilisation: Utilisation,
    /// Integral of requests in flight over time, in request-nanoseconds; exact mean queue depth is
    /// its change over time.
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
    /// Ours, nanoseconds.
    pub exact: Nanos,
}

/// Everything that is known of a request when it ends: the one fact that statistics, histograms and
/// reports are made of.
#[derive(Clone, Copy, Debug)]
pub struct CompletionFact {
    /// Group it counts in.
    pub group: StatGroup,
    /// The task that allocated it.
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
    /// Time up to which `busy` and `integral` are counted.
    counted: Instant,
    busy: u64,
    integral: u128,
    /// Requests between start and end; of those, the ones in the driver.
    in_flight: u64,
    started: u64,
    groups: [GroupCounters; 3],
    flushes: u64,
    flush_ticks: Nanos,
    queued: [LatencyStat; 3],
    serviced: [LatencyStat; 3],
    /// By task.
    device_time: Vec<Nanos>,
}

impl Accounting {
    /// Starts from zero. `hz` is the tick rate (100 to 1000) that the whole-jiffy forms count in;
    /// `in_flight_from_allocation` as in [`crate::kernel::Rules`].
    ///
    /// # Panics
    /// Where `hz` is 0.
    pub fn new(form: IoTicksForm, hz: u32, hw_queues: u16, in_flight_from_allocation: bool) -> Self {
        Self {
            form,
            in_flight_from_allocation,
            clock: JiffyClock::new(hz),
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
            device_time: Vec::new(),
        }
    }

    /// Brings the exact integrals up to `now`. Must run before `in_flight` changes.
    #[inline]
    fn count_to(&mut self, now: Instant) {
        debug_assert!(now >= self.counted, "time went backwards");
        let span = now.since(self.counted).get();
        if span > 0 && self.in_flight > 0 {
            self.busy += span;
            self.integral += u128::from(span) * u128::from(self.in_flight);
        }
        self.counted = now;
    }

    /// Brings the whole-jiffy forms up to `now`; one comparison unless a jiffy has passed.
    #[inline]
    fn tick(&mut self, now: Instant, moment: Moment) {
        if let Some(jiffy) = self.clock.tick(now) {
            for ticks in [&mut self.sampled, &mut self.inflight, &mut self.precise] {
                ticks.update(jiffy, moment);
            }
        }
    }

    /// A request was allocated and counts from now on. `tags_in_use` counts this one too (proposal
    /// 003's test).
    #[inline]
    pub fn on_start(&mut self, now: Instant, tags_in_use: u32) {
        self.count_to(now);
        self.tick(now, Moment::Start { in_flight: self.in_flight, tags: tags_in_use });
        self.in_flight += 1;
    }
    /// A request was given to the driver.
    #[inline]
    pub fn on_issue(&mut self, _now: Instant) {
        self.started += 1;
    }
    /// The driver gave a started request back.
    #[inline]
    pub fn on_requeue(&mut self, _now: Instant) {
        debug_assert!(self.started > 0, "a requeue without an issue");
        self.started -= 1;
    }
    /// A bio was merged into a request.
    #[inline]
    pub fn on_merge(&mut self, group: StatGroup) {
        self.groups[group as usize].merges += 1;
    }
    /// A request that had been allocated was swallowed by another: it ends without a completion of
    /// its own, and the kernel does not look at io_ticks then.
    pub fn on_request_merged(&mut self, now: Instant, group: StatGroup) {
        debug_assert!(self.in_flight > 0, "a request was swallowed that never started");
        self.count_to(now);
        self.groups[group as usize].merges += 1;
        self.in_flight -= 1;
    }
    /// Part of a request completed.
    #[inline]
    pub fn on_sectors(&mut self, group: StatGroup, sectors: Sectors) {
        self.groups[group as usize].sectors += sectors.get();
    }
    /// A request ended. `started`: it was in the driver; one that was not has no latency by stage.
    #[inline]
    pub fn on_end(&mut self, fact: &CompletionFact, started: bool) {
        debug_assert!(self.in_flight > 0, "a request ended that never started");
        self.count_to(fact.end);
        self.tick(fact.end, Moment::End);
        self.in_flight -= 1;
        let at = fact.group as usize;
        self.groups[at].ios += 1;
        self.groups[at].ticks += fact.end.since(fact.start);
        if started {
            debug_assert!(self.started > 0, "a request left the driver that never went in");
            self.started -= 1;
            self.queued[at].add(fact.issued.since(fact.start).get());
            let serviced = fact.end.since(fact.issued);
            self.serviced[at].add(serviced.get());
            if fact.task != TaskId::IDLE {
                if fact.task.index() >= self.device_time.len() {
                    self.device_time.resize(fact.task.index() + 1, Nanos::ZERO);
                }
                self.device_time[fact.task.index()] += serviced;
            }
        }
    }
    /// A device flush ended.
    pub fn on_flush_end(&mut self, start: Instant, end: Instant) {
        self.flushes += 1;
        self.flush_ticks += end.since(start);
    }

    /// Requests between the start and the end of their accounting, whatever field 9 means.
    #[inline]
    pub const fn outstanding(&self) -> u64 {
        self.in_flight
    }

    /// Requests in flight by the kernel version's meaning (field 9).
    pub const fn in_flight(&self) -> u64 {
        if self.in_flight_from_allocation { self.in_flight } else { self.started }
    }

    /// What the stat file shows when read now; reading moves io_ticks forward while something is in
    /// flight (5.18 and later).
    pub fn read(&mut self, now: Instant) -> DiskStats {
        self.count_to(now);
        if self.in_flight() > 0 {
            self.tick(now, Moment::Read);
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
    /// Latency from allocation to the driver, by group.
    pub fn queued_to_dispatched(&self, group: StatGroup) -> &LatencyStat {
        &self.queued[group as usize]
    }
    /// Latency from the driver to completion, by group.
    pub fn dispatched_to_completed(&self, group: StatGroup) -> &LatencyStat {
        &self.serviced[group as usize]
    }
    /// Sum of the times that a task's requests were in the driver: its part of what the device was
    /// kept busy with. A request counts for the task that allocated it, whoever else's bios it
    /// carries.
    pub fn device_time(&self, task: TaskId) -> Nanos {
        self.device_time.get(task.index()).copied().unwrap_or(Nanos::ZERO)
    }
}

impl Utilisation {
    /// Busy time by one form, in whole ms.
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
    /// The 17 numbers of `/sys/block/X/stat`.
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
