//! Dirty limits and throttling: how many dirty pages there may be, and how long a writer sleeps so
//! that there are no more.
//!
//! Writers are slowed so that the number of dirty pages settles at a *setpoint* between *freerun*
//! (nobody is slowed) and the limit (nobody gets on). Each writer may dirty pages at `rate = base
//! rate * position ratio`; the base rate is corrected every 200 ms until all writers together dirty
//! as much as the device writes. Fixed point throughout, as in Linux 6.1, in jiffies of
//! [`Hz`] because rounding to them decides short pauses. One device: its share of the limits is the
//! whole.
//!
//! Cost: O(1), a few divisions, each time a writer has dirtied its allowance (8 to some hundred
//! pages).

pub use elevon_core::jiffies::Hz;
use elevon_core::units::{Instant, Nanos};

/// Where limits lie, as shares of dirtyable memory in percent.
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

/// Limits that follow from dirtyable memory, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threshold where writers stop.
    pub thresh: u64,
    /// Threshold where the flusher begins.
    pub background: u64,
}

impl Limits {
    /// The limits for `dirtyable` pages: free without reserves, and file pages. Percentages are
    /// kept in 4096ths.
    pub const fn new(dirtyable: u64, ratios: DirtyRatios) -> Self {
        let thresh = dirtyable * (ratios.dirty as u64 * 4096 / 100) / 4096;
        let background = dirtyable * (ratios.background as u64 * 4096 / 100) / 4096;
        Self { thresh, background: if background >= thresh { thresh / 2 } else { background } }
    }

    /// The same for a task of a real-time CPU policy, which may go further. `limit` is the
    /// [`Domain`]'s.
    pub const fn for_real_time(self, limit: u64) -> Self {
        let more = limit / 32;
        Self { thresh: self.thresh + self.thresh / 4 + more, background: self.background + self.background / 4 + more }
    }

    /// Dirty pages up to which nobody is slowed.
    pub const fn freerun(self) -> u64 {
        (self.thresh + self.background) / 2
    }

    /// Pages a task may dirty before it looks at the limits again, while nobody is slowed.
    pub const fn poll_interval(self, dirty: u64) -> u64 {
        match self.thresh.saturating_sub(dirty) {
            0 => 1,
            room => 1 << (room.ilog2() / 2),
        }
    }
}

/// One in the fixed point of position ratios.
pub const RATIO_ONE: u64 = 1024;

/// The point that throttling steers to.
pub const fn setpoint(freerun: u64, limit: u64) -> u64 {
    (freerun + limit) / 2
}

/// Position ratio of all dirty pages, in 1024ths: 2 at freerun, 1 at the setpoint, 0 at the limit,
/// on a cubic so that it is flat where it should stay.
pub const fn global_ratio(freerun: u64, limit: u64, dirty: u64) -> u64 {
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

/// What the device's own dirty pages make of the global ratio: a line that is 1 at the setpoint and
/// 0 where eight seconds' worth of writes more are dirty, but never below a quarter; and more for a
/// device that has far less than its share, which would run idle. `wb_thresh` is the device's share
/// of the limit, `bandwidth` its writes in pages a second.
pub const fn device_ratio(global: u64, set: u64, wb_thresh: u64, wb_dirty: u64, bandwidth: u64) -> u64 {
    let span = 8 * bandwidth;
    let zero = set + span;
    let ratio =
        if wb_dirty < zero.saturating_sub(span / 4) { global * (zero - wb_dirty) / (span | 1) } else { global / 4 };
    let half = wb_thresh / 2;
    if wb_dirty >= half {
        ratio
    } else if wb_dirty > half / 8 {
        ratio * half / wb_dirty
    } else {
        ratio * 8
    }
}

/// Pages that a writer dirties between looks where it cannot be fewer.
const POLL_PAGES_MIN: u64 = 32;
/// Longest pause.
pub const PAUSE_MAX: Nanos = Nanos::from_millis(200);

/// Longest pause, in jiffies, that does not let a device with `wb_dirty` dirty pages run idle.
pub fn max_pause(hz: Hz, wb_dirty: u64, bandwidth: u64) -> u64 {
    let jiffies = wb_dirty / (1 + bandwidth / (1 + hz.0 / 8).next_power_of_two()) + 1;
    jiffies.min(hz.jiffies(PAUSE_MAX))
}

/// What a pause should be, and how many pages it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseTarget {
    /// The pause aimed at, in jiffies.
    pub jiffies: u64,
    /// Shorter pauses are not slept, in jiffies.
    pub shortest: u64,
    /// Pages a task dirties between two pauses.
    pub pages: u64,
}

/// The pause to aim at: 10 ms, and 10 ms more each time the number of writers doubles (which shows
/// in the base rate), so that many writers do not wake all the time.
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

/// Pages dirty and what they do at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtyCounts {
    /// Pages dirty and not being written.
    pub dirty: u64,
    /// Pages being written.
    pub writeback: u64,
    /// Pages that may become dirty at all: free without reserves, and file pages.
    pub dirtyable: u64,
}

/// A writer's account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writer {
    /// Pages dirtied since it last looked or slept.
    pub dirtied: u64,
    /// Pages after which it looks again; 0 before the first look.
    pub allowance: u64,
    /// When its last pause ended, or should have.
    paused_until: Option<Instant>,
}

/// What a look at the limits comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirtyVerdict {
    /// Go on.
    Go,
    /// Sleep; then go on, or look again where `again` is set (it was stopped altogether).
    Pause {
        /// How long.
        span: Nanos,
        /// Whether it looks again before it dirties more.
        again: bool,
    },
}

/// How often rates are corrected.
const RATE_INTERVAL: Nanos = Nanos::from_millis(200);
/// Over how long the write bandwidth is averaged.
const BANDWIDTH_PERIOD: Nanos = Nanos::from_secs(3);
/// Write bandwidth and base rate before anything was measured, in pages a second: 100 MiB/s.
pub const INITIAL_BANDWIDTH: u64 = 25_600;

/// The state of throttling: limit, base rate, bandwidth.
#[derive(Clone, Copy, Debug)]
pub struct Domain {
    hz: Hz,
    ratios: DirtyRatios,
    /// The falling limit.
    limit: u64,
    /// Pages a second that one writer may dirty at the setpoint.
    base_rate: u64,
    /// Pages a second that the device writes, averaged.
    bandwidth: u64,
    /// Pages dirtied and written since the start.
    dirtied: u64,
    written: u64,
    /// What those were at the last correction, and when that was.
    stamp: (u64, u64, Instant),
    /// Whether the last look found more than the limit.
    exceeded: bool,
}

impl Domain {
    /// Nothing dirty, nothing measured.
    pub const fn new(hz: Hz, ratios: DirtyRatios) -> Self {
        Self {
            hz,
            ratios,
            limit: 0,
            base_rate: INITIAL_BANDWIDTH,
            bandwidth: INITIAL_BANDWIDTH,
            dirtied: 0,
            written: 0,
            stamp: (0, 0, Instant::ZERO),
            exceeded: false,
        }
    }

    /// Pages a second that the device is held to write.
    pub const fn bandwidth(&self) -> u64 {
        self.bandwidth
    }
    /// Pages a second that each writer may dirty at the setpoint.
    pub const fn base_rate(&self) -> u64 {
        self.base_rate
    }
    /// The limit as it stands, in pages.
    pub const fn limit(&self) -> u64 {
        self.limit
    }
    /// The thresholds for a number of dirtyable pages.
    pub const fn limits(&self, dirtyable: u64) -> Limits {
        Limits::new(dirtyable, self.ratios)
    }
    /// Whether the flusher has work in the background.
    pub const fn wants_flusher(&self, counts: &DirtyCounts) -> bool {
        counts.dirty > self.limits(counts.dirtyable).background
    }
    /// Pages became dirty.
    pub const fn on_dirtied(&mut self, pages: u64) {
        self.dirtied += pages;
    }
    /// Pages were written to the device.
    pub const fn on_written(&mut self, pages: u64) {
        self.written += pages;
    }

    /// Whether a writer is to look at the limits now.
    #[inline]
    pub const fn is_due(&self, writer: &Writer) -> bool {
        let allowance = if self.exceeded && writer.allowance > 8 { 8 } else { writer.allowance };
        writer.dirtied >= allowance
    }

    /// A writer looks at the limits.
    pub fn balance(
        &mut self,
        now: Instant,
        writer: &mut Writer,
        counts: &DirtyCounts,
        real_time: bool,
    ) -> DirtyVerdict {
        let limits = self.limits(counts.dirtyable);
        let limits = if real_time { limits.for_real_time(self.limit.max(limits.thresh)) } else { limits };
        let dirty = counts.dirty + counts.writeback;
        if dirty <= limits.freerun() {
            writer.dirtied = 0;
            writer.allowance = limits.poll_interval(dirty);
            writer.paused_until = Some(now);
            self.exceeded = false;
            return DirtyVerdict::Go;
        }
        self.exceeded = dirty > limits.thresh;
        let limit = limits.thresh.max(self.limit);
        let ratio = self.ratio(&limits, limit, dirty);
        self.correct(now, &limits, dirty, ratio);
        self.pause(now, writer, dirty, (self.base_rate * ratio) >> 10)
    }

    fn ratio(&self, limits: &Limits, limit: u64, dirty: u64) -> u64 {
        let freerun = limits.freerun();
        let global = global_ratio(freerun, limit, dirty);
        device_ratio(global, setpoint(freerun, limit), limits.thresh, dirty, self.bandwidth)
    }

    /// Turns a rate (pages a second) into a pause.
    fn pause(&self, now: Instant, writer: &mut Writer, dirty: u64, rate: u64) -> DirtyVerdict {
        let longest = max_pause(self.hz, dirty, self.bandwidth);
        let target = pause_target(self.hz, self.bandwidth, self.base_rate, longest);
        if rate == 0 {
            return self.sleep(now, writer, longest, target.pages, true);
        }
        let period = self.hz.0 * writer.dirtied / rate;
        // Time spent thinking since the last pause is paid already.
        let paid = self.hz.jiffies(writer.paused_until.map_or(Nanos::ZERO, |end| now.since(end)));
        match period.checked_sub(paid) {
            Some(pause) if pause >= target.shortest => self.sleep(now, writer, pause.min(longest), target.pages, false),
            owed => {
                self.owe(now, writer, period, owed.is_none() && paid - period > self.hz.0);
                DirtyVerdict::Go
            }
        }
    }

    /// Too little to sleep for: it counts towards the next pause. `forget`: the credit is older
    /// than a second, and lapses.
    fn owe(&self, now: Instant, writer: &mut Writer, period: u64, forget: bool) {
        if forget || writer.paused_until.is_none() {
            writer.paused_until = Some(now);
            writer.dirtied = 0;
        } else if period > 0 {
            writer.paused_until = writer.paused_until.map(|end| end + self.hz.span(period));
            writer.dirtied = 0;
        } else {
            writer.allowance = writer.dirtied * 2;
        }
    }

    const fn sleep(&self, now: Instant, writer: &mut Writer, jiffies: u64, pages: u64, again: bool) -> DirtyVerdict {
        let span = self.hz.span(jiffies);
        writer.paused_until = Some(now.saturating_add(span));
        writer.allowance = pages;
        if !again {
            writer.dirtied = 0;
        }
        DirtyVerdict::Pause { span, again }
    }

    /// Corrects limit, bandwidth and base rate, once in 200 ms.
    fn correct(&mut self, now: Instant, limits: &Limits, dirty: u64, ratio: u64) {
        let (dirtied, written, then) = self.stamp;
        let elapsed = now.since(then);
        if elapsed < RATE_INTERVAL {
            self.limit = self.limit.max(limits.thresh);
            return;
        }
        self.limit = self.limit.max(limits.thresh);
        self.limit -= (self.limit - limits.thresh.max(dirty).min(self.limit)) >> 5;
        // After a quiet time there is nothing to be learned from the average.
        if elapsed <= Nanos::from_secs(1) {
            let per_second = |pages: u64| pages.saturating_mul(1_000_000_000) / elapsed.get();
            self.average_bandwidth(per_second(self.written - written), elapsed);
            self.correct_base_rate(per_second(self.dirtied - dirtied), limits, dirty, ratio);
        }
        self.stamp = (self.dirtied, self.written, now);
    }

    fn average_bandwidth(&mut self, measured: u64, elapsed: Nanos) {
        let (new, period) = (elapsed.get().min(BANDWIDTH_PERIOD.get()), BANDWIDTH_PERIOD.get());
        let sum = u128::from(measured) * u128::from(new) + u128::from(self.bandwidth) * u128::from(period - new);
        self.bandwidth = ((sum / u128::from(period)) as u64).max(1);
    }

    /// Moves the base rate towards the balanced one, an eighth of the way and less the nearer it
    /// is.
    fn correct_base_rate(&mut self, dirty_rate: u64, limits: &Limits, dirty: u64, ratio: u64) {
        let task_rate = ((self.base_rate * ratio) >> 10) + 1;
        let balanced = (task_rate * self.bandwidth / (dirty_rate | 1)).min(self.bandwidth);
        let set = setpoint(limits.freerun(), self.limit);
        // Only where both the rate and the position call for it; either alone is noise.
        let (goal, step) = if dirty < set {
            let goal = balanced.min(task_rate);
            (goal, goal.saturating_sub(self.base_rate))
        } else {
            let goal = balanced.max(task_rate);
            (goal, self.base_rate.saturating_sub(goal))
        };
        let damping = self.base_rate / (2 * step + 1);
        let step = if damping < 64 { (step >> damping).div_ceil(8) } else { 0 };
        self.base_rate = if goal > self.base_rate { self.base_rate + step } else { self.base_rate - step };
        self.base_rate = self.base_rate.max(1);
    }
}

/// The square root, rounded down.
pub(crate) const fn sqrt(n: u64) -> u64 {
    n.isqrt()
}

#[cfg(test)]
mod tests;
