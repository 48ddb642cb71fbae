//! Dirty limits and throttling: how many pages may be dirty, and how long a writer sleeps so that
//! the limit holds.
//!
//! Writers are throttled so that the number of dirty pages settles at a *setpoint*. It lies between
//! *freerun*, below which no writer is throttled, and the limit, at which all writers stop. Each
//! writer may dirty pages at `rate = base rate * position ratio`; the base rate is corrected every
//! 200 ms until all writers together dirty as much as the device writes. All arithmetic is fixed
//! point as in Linux 6.1, in jiffies of [`Hz`], because rounding to jiffies determines short
//! pauses. There is one device, which has the whole limits.
//!
//! Cost: O(1), a few divisions, each time a writer has dirtied its allowance (8 to some hundred
//! pages).

pub use elevon_core::jiffies::Hz;
use elevon_core::units::{Instant, Nanos};

/// The limits, as shares of dirtyable memory in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyRatios {
    /// `dirty_ratio`: writers stop.
    pub dirty: u8,
    /// `dirty_background_ratio`: the flusher begins.
    pub background: u8,
}

impl Default for DirtyRatios {
    fn default() -> Self {
        Self { dirty: 20, background: 10 }
    }
}

/// The limits in pages, derived from dirtyable memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threshold at which writers stop.
    pub thresh: u64,
    /// Threshold at which the flusher begins.
    pub background: u64,
}

impl Limits {
    /// Returns the limits for `dirtyable` pages: free pages without reserves, and file pages.
    /// Percentages are rounded to 4096ths.
    pub const fn new(dirtyable: u64, ratios: DirtyRatios) -> Self {
        let thresh = dirtyable * (ratios.dirty as u64 * 4096 / 100) / 4096;
        let background = dirtyable * (ratios.background as u64 * 4096 / 100) / 4096;
        Self { thresh, background: if background >= thresh { thresh / 2 } else { background } }
    }

    /// Returns the higher limits of a task with a real-time CPU policy. `limit` is the
    /// [`Domain`]'s.
    pub(crate) const fn for_real_time(self, limit: u64) -> Self {
        let more = limit / 32;
        Self {
            thresh: self.thresh + self.thresh / 4 + more,
            background: self.background + self.background / 4 + more,
        }
    }

    /// Returns the number of dirty pages up to which no writer is throttled.
    pub(crate) const fn freerun(self) -> u64 {
        (self.thresh + self.background) / 2
    }

    /// Returns the pages that a task may dirty before it checks the limits again, below freerun.
    pub const fn poll_interval(self, dirty: u64) -> u64 {
        match self.thresh.saturating_sub(dirty) {
            0 => 1,
            room => 1 << (room.ilog2() / 2),
        }
    }
}

/// One in the fixed point of position ratios.
pub(crate) const RATIO_ONE: u64 = 1024;

/// Returns the number of dirty pages that throttling aims at.
pub(crate) const fn setpoint(freerun: u64, limit: u64) -> u64 {
    (freerun + limit) / 2
}

/// Returns the position ratio of all dirty pages, in 1024ths: 2 at freerun, 1 at the setpoint, 0 at
/// the limit, on a cubic curve that is flat near the setpoint.
pub(crate) const fn global_ratio(freerun: u64, limit: u64, dirty: u64) -> u64 {
    if dirty >= limit {
        return 0;
    }
    let set = setpoint(freerun, limit) as i64;
    let x = ((set - dirty as i64) << 10) / ((limit as i64 - set) | 1);
    let ratio = ((((x * x) >> 10) * x) >> 10) + RATIO_ONE as i64;
    if ratio < 0 {
        0
    } else if ratio > 2 * RATIO_ONE as i64 {
        2 * RATIO_ONE
    } else {
        ratio as u64
    }
}

/// Returns the global ratio, scaled by the device's own dirty pages. The scale is a line that is 1
/// at the setpoint and 0 at eight seconds of writes above it, but never below a quarter; it is
/// larger if the device has much less than its share and could run idle. `wb_thresh` is the
/// device's share of the limit, `bandwidth` its writes in pages per second.
pub(crate) const fn device_ratio(
    global: u64,
    set: u64,
    wb_thresh: u64,
    wb_dirty: u64,
    bandwidth: u64,
) -> u64 {
    let span = 8 * bandwidth;
    let zero = set + span;
    let ratio = if wb_dirty < zero.saturating_sub(span / 4) {
        global * (zero - wb_dirty) / (span | 1)
    } else {
        global / 4
    };
    let half = wb_thresh / 2;
    if wb_dirty >= half {
        ratio
    } else if wb_dirty > half / 8 {
        ratio * half / wb_dirty
    } else {
        ratio * 8
    }
}

/// The minimum number of pages that a writer dirties between two pauses, if the maximum pause
/// allows it.
const POLL_PAGES_MIN: u64 = 32;
/// Some writer checks the limits after this part of the limit, whatever its allowance.
const UNCHECKED_PART: u64 = 32;
/// It does so after no fewer pages than this. Nothing measured it.
const LEAST_UNCHECKED: u64 = 16;
/// Longest pause.
pub(crate) const PAUSE_MAX: Nanos = Nanos::from_millis(200);

/// Returns the longest pause, in jiffies, during which a device with `wb_dirty` dirty pages does
/// not run idle.
pub fn max_pause(hz: Hz, wb_dirty: u64, bandwidth: u64) -> u64 {
    let jiffies = wb_dirty / (1 + bandwidth / (1 + hz.0 / 8).next_power_of_two()) + 1;
    jiffies.min(hz.jiffies(PAUSE_MAX))
}

/// The length of pauses to aim at, and the pages between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseTarget {
    /// The target pause, in jiffies.
    pub jiffies: u64,
    /// Shorter pauses are not slept, in jiffies.
    pub shortest: u64,
    /// Pages a task dirties between two pauses.
    pub pages: u64,
}

/// Returns the target pause: 10 ms, and 10 ms more for each doubling of the number of writers
/// (which is derived from the base rate), so that many writers do not wake too often.
pub fn pause_target(hz: Hz, bandwidth: u64, base_rate: u64, max_pause: u64) -> PauseTarget {
    let base_rate = base_rate.max(1);
    let doublings = u64::from(bandwidth.max(1).ilog2().saturating_sub(base_rate.ilog2()));
    let jiffies = ((hz.0 / 100).max(1) + doublings * (10 * hz.0) / 1024).min(1 + max_pause / 2);
    let pages = |jiffies| base_rate * jiffies / hz.0.next_power_of_two();
    match pages(jiffies) {
        few if few < POLL_PAGES_MIN => {
            let most = pages(max_pause);
            if most > POLL_PAGES_MIN {
                let jiffies = hz.0 * POLL_PAGES_MIN / base_rate;
                PauseTarget { jiffies, shortest: 1 + jiffies / 2, pages: POLL_PAGES_MIN }
            } else {
                PauseTarget { jiffies: max_pause, shortest: max_pause, pages: most.max(1) }
            }
        }
        pages => PauseTarget { jiffies, shortest: 1 + jiffies / 2, pages },
    }
}

impl PauseTarget {
    /// Returns the target of a writer: no more pages than its rate gives in the longest pause.
    fn at_rate(self, hz: Hz, rate: u64, longest: u64) -> Self {
        if hz.0 * self.pages / (rate + 1) <= longest {
            return self;
        }
        let pages = rate * longest / hz.0.next_power_of_two();
        let shortest = if pages < POLL_PAGES_MIN { longest } else { 1 + longest / 2 };
        Self { jiffies: longest, shortest, pages }
    }
}

/// Dirty pages at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirtyCounts {
    /// Dirty pages that are not under writeback.
    pub dirty: u64,
    /// Pages under writeback.
    pub writeback: u64,
    /// Pages that can become dirty: free pages without reserves, and file pages.
    pub dirtyable: u64,
}

/// The throttling state of a writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtyThrottle {
    /// Pages dirtied since its last check or pause.
    pub dirtied: u64,
    /// Pages after which it checks the limits again; 0 before the first check.
    pub allowance: u64,
    /// The jiffy in which its last pause ended, or should have ended.
    paused_until: Option<u64>,
}

/// The result of a check of the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirtyVerdict {
    /// The writer continues.
    Go,
    /// The writer sleeps. Then it continues, or checks the limits again if `again` is set (it was
    /// stopped completely).
    Pause {
        /// The length of the pause.
        span: Nanos,
        /// True if it checks the limits again before it dirties more pages.
        again: bool,
    },
}

/// The interval at which rates are corrected: after more than this.
const RATE_INTERVAL: Nanos = Nanos::from_millis(200);
/// The period over which the write bandwidth is averaged, before it is rounded up to a power of two
/// in jiffies.
const BANDWIDTH_PERIOD: Nanos = Nanos::from_secs(3);
/// Initial write bandwidth and base rate, in pages per second: 100 MiB/s.
pub(crate) const INITIAL_BANDWIDTH: u64 = 25_600;

/// The state of throttling: limit, base rate, bandwidth.
#[derive(Clone, Copy, Debug)]
pub struct Domain {
    hz: Hz,
    ratios: DirtyRatios,
    /// The limit, which follows a lower threshold only gradually.
    limit: u64,
    /// Pages per second that one writer may dirty at the setpoint.
    base_rate: u64,
    /// The base rate that was balanced at the last correction.
    balanced: u64,
    /// Pages per second that the device writes, averaged.
    bandwidth: u64,
    /// That average, which this one follows smoothly.
    smooth_bandwidth: u64,
    /// Pages dirtied and written since the start.
    dirtied: u64,
    written: u64,
    /// Their values at the last correction, and its jiffy.
    stamp: (u64, u64, u64),
    /// Pages dirtied up to the last check of any writer.
    checked: u64,
    /// So many pages later some writer checks, whatever its allowance.
    most_unchecked: u64,
    /// True if the last check found more dirty pages than the limit.
    exceeded: bool,
}

impl Domain {
    /// Returns the initial state: nothing is dirty, nothing was measured.
    pub const fn new(hz: Hz, ratios: DirtyRatios) -> Self {
        Self {
            hz,
            ratios,
            limit: 0,
            base_rate: INITIAL_BANDWIDTH,
            balanced: INITIAL_BANDWIDTH,
            bandwidth: INITIAL_BANDWIDTH,
            smooth_bandwidth: INITIAL_BANDWIDTH,
            dirtied: 0,
            written: 0,
            stamp: (0, 0, 0),
            checked: 0,
            most_unchecked: u64::MAX,
            exceeded: false,
        }
    }

    /// Returns the device's write bandwidth as a smoothed average, in pages per second.
    pub const fn smooth_bandwidth(&self) -> u64 {
        self.smooth_bandwidth
    }
    /// Returns the pages per second that each writer may dirty at the setpoint.
    pub const fn base_rate(&self) -> u64 {
        self.base_rate
    }
    /// Returns the current limit, in pages.
    pub const fn limit(&self) -> u64 {
        self.limit
    }
    /// Returns the thresholds for a number of dirtyable pages.
    pub const fn limits(&self, dirtyable: u64) -> Limits {
        Limits::new(dirtyable, self.ratios)
    }
    /// Returns true if more pages are dirty than the background threshold.
    pub(crate) const fn wants_flusher(&self, counts: &DirtyCounts) -> bool {
        counts.dirty > self.limits(counts.dirtyable).background
    }
    /// Counts pages that became dirty.
    pub(crate) const fn on_dirtied(&mut self, pages: u64) {
        self.dirtied += pages;
    }
    /// Counts pages that were written to the device.
    pub(crate) const fn on_written(&mut self, pages: u64) {
        self.written += pages;
    }

    /// Returns true if a writer must check the limits now.
    #[inline]
    pub const fn is_due(&self, writer: &DirtyThrottle) -> bool {
        let allowance = if self.exceeded && writer.allowance > 8 { 8 } else { writer.allowance };
        writer.dirtied >= allowance || self.dirtied - self.checked >= self.most_unchecked
    }

    /// Checks the limits for a writer, and returns whether it must pause.
    pub(crate) fn balance(
        &mut self,
        now: Instant,
        writer: &mut DirtyThrottle,
        counts: &DirtyCounts,
        real_time: bool,
    ) -> DirtyVerdict {
        let jiffy = self.jiffy(now);
        let limits = self.limits(counts.dirtyable);
        (self.checked, self.most_unchecked) =
            (self.dirtied, (limits.thresh / UNCHECKED_PART).max(LEAST_UNCHECKED));
        let limits =
            if real_time { limits.for_real_time(self.limit.max(limits.thresh)) } else { limits };
        let dirty = counts.dirty + counts.writeback;
        if dirty <= limits.freerun() {
            writer.dirtied = 0;
            writer.allowance = limits.poll_interval(dirty);
            writer.paused_until = Some(jiffy);
            self.exceeded = false;
            return DirtyVerdict::Go;
        }
        self.exceeded = dirty > limits.thresh;
        let limit = limits.thresh.max(self.limit);
        let ratio = self.ratio(&limits, limit, dirty);
        self.correct(jiffy, &limits, dirty, Some(ratio));
        self.pause(now, writer, dirty, (self.base_rate * ratio) >> 10)
    }

    const fn jiffy(&self, now: Instant) -> u64 {
        self.hz.jiffies(Nanos::new(now.get()))
    }

    fn ratio(&self, limits: &Limits, limit: u64, dirty: u64) -> u64 {
        let freerun = limits.freerun();
        let global = global_ratio(freerun, limit, dirty);
        device_ratio(global, setpoint(freerun, limit), limits.thresh, dirty, self.smooth_bandwidth)
    }

    /// Turns a rate (pages a second) into a pause.
    fn pause(
        &self,
        now: Instant,
        writer: &mut DirtyThrottle,
        dirty: u64,
        rate: u64,
    ) -> DirtyVerdict {
        let longest = max_pause(self.hz, dirty, self.smooth_bandwidth);
        if rate == 0 {
            return self.sleep(now, writer, longest, 0, true);
        }
        let target = pause_target(self.hz, self.smooth_bandwidth, self.base_rate, longest)
            .at_rate(self.hz, rate, longest);
        let period = self.hz.0 * writer.dirtied / rate;
        // The time since the last pause is subtracted from this pause, and what was owed is added.
        let jiffy = self.jiffy(now) as i64;
        let paid = writer.paused_until.map_or(0, |end| jiffy - end as i64);
        let pause = period as i64 - paid;
        if pause < target.shortest as i64 {
            self.owe(now, writer, period, pause < -(self.hz.0 as i64));
            return DirtyVerdict::Go;
        }
        let pause = pause as u64;
        let verdict = self.sleep(now, writer, pause.min(longest), target.pages, false);
        let owed = pause.saturating_sub(longest).min(longest);
        writer.paused_until = writer.paused_until.map(|end| end + owed);
        verdict
    }

    /// Adds a pause that is too short to sleep to the next one. `forget`: the credit exceeds a
    /// second, and is dropped.
    fn owe(&self, now: Instant, writer: &mut DirtyThrottle, period: u64, forget: bool) {
        if forget || writer.paused_until.is_none() {
            writer.paused_until = Some(self.jiffy(now));
            writer.dirtied = 0;
        } else if period > 0 {
            writer.paused_until = writer.paused_until.map(|end| end + period);
            writer.dirtied = 0;
        } else if writer.allowance <= writer.dirtied {
            writer.allowance += writer.dirtied;
        }
    }

    const fn sleep(
        &self,
        now: Instant,
        writer: &mut DirtyThrottle,
        jiffies: u64,
        pages: u64,
        again: bool,
    ) -> DirtyVerdict {
        let end = self.hz.timer(now, jiffies);
        writer.paused_until = Some(self.jiffy(now) + jiffies);
        writer.allowance = pages;
        if !again {
            writer.dirtied = 0;
        }
        DirtyVerdict::Pause { span: end.since(now), again }
    }

    /// Corrects limit and bandwidth when the flusher has ended a file's turn.
    pub(crate) fn on_turn_ended(&mut self, now: Instant, counts: &DirtyCounts) {
        let limits = self.limits(counts.dirtyable);
        self.correct(self.jiffy(now), &limits, counts.dirty + counts.writeback, None);
    }

    /// Corrects limit, base rate and bandwidth, once in 200 ms. The base rate is corrected by a
    /// position ratio, so at a writer's check.
    fn correct(&mut self, jiffy: u64, limits: &Limits, dirty: u64, ratio: Option<u64>) {
        let (dirtied, written, then) = self.stamp;
        let elapsed = jiffy - then;
        self.limit = self.limit.max(limits.thresh);
        if elapsed <= self.hz.jiffies(RATE_INTERVAL) {
            return;
        }
        self.limit -= (self.limit - limits.thresh.max(dirty).min(self.limit)) >> 5;
        // After a time without writers, the average has no meaning.
        if elapsed <= self.hz.0 {
            if let Some(ratio) = ratio {
                let dirty_rate = (self.dirtied - dirtied) * self.hz.0 / elapsed;
                self.correct_base_rate(dirty_rate, limits, dirty, ratio);
            }
            self.average_bandwidth((self.written - written) * self.hz.0, elapsed);
        }
        self.stamp = (self.dirtied, self.written, jiffy);
    }

    /// Averages the bandwidth. `written`: pages written in `elapsed` jiffies, times jiffies a
    /// second.
    fn average_bandwidth(&mut self, written: u64, elapsed: u64) {
        let period = self.hz.jiffies(BANDWIDTH_PERIOD).next_power_of_two();
        let old = self.bandwidth;
        let kept = old * period.saturating_sub(elapsed);
        let new = (written + kept) / period.max(elapsed);
        self.bandwidth = new;
        // The smooth one goes only where the average goes.
        let smooth = self.smooth_bandwidth;
        if smooth > old && old >= new {
            self.smooth_bandwidth -= (smooth - old) >> 3;
        } else if smooth < old && old <= new {
            self.smooth_bandwidth += (old - smooth) >> 3;
        }
        self.smooth_bandwidth = self.smooth_bandwidth.max(1);
    }

    /// Moves the base rate towards the balanced rate, by an eighth of the difference, and by less
    /// the closer it is.
    fn correct_base_rate(&mut self, dirty_rate: u64, limits: &Limits, dirty: u64, ratio: u64) {
        let task_rate = ((self.base_rate * ratio) >> 10) + 1;
        let bandwidth = self.smooth_bandwidth;
        let balanced = (task_rate * bandwidth / (dirty_rate | 1)).min(bandwidth);
        let last = core::mem::replace(&mut self.balanced, balanced);
        let set = setpoint(limits.freerun(), self.limit);
        // The rate changes only if the rate, the last one and the position require it; one alone is
        // noise.
        let (goal, step) = if dirty < set {
            let goal = balanced.min(task_rate).min(last);
            (goal, goal.saturating_sub(self.base_rate))
        } else {
            let goal = balanced.max(task_rate).max(last);
            (goal, self.base_rate.saturating_sub(goal))
        };
        let damping = self.base_rate / (2 * step + 1);
        let step = if damping < 64 { (step >> damping).div_ceil(8) } else { 0 };
        self.base_rate =
            if goal > self.base_rate { self.base_rate + step } else { self.base_rate - step };
        self.base_rate = self.base_rate.max(1);
    }
}

/// Returns the square root, rounded down.
pub(crate) const fn sqrt(n: u64) -> u64 {
    n.isqrt()
}

#[cfg(test)]
mod tests;
