//! The usable depth: how many requests the device can use at a time, found while running.
//!
//! By Little's law throughput is `in flight / time in the device`; here it counts the requests that
//! are really served at a time: `X = in flight · (time that they would take alone) / time that they
//! took`. Two depths are compared by what the device delivers: the same with the time that requests
//! occupy in place of the time alone. Otherwise small reads, of which a drive does thirty at a
//! time, count for as much as large ones, and a depth at which they have to share a link with those
//! seems to cost half of the throughput. The *elasticity* between two depths is the logarithm of
//! the ratio of throughputs over that of the ratio of depths: 1 while every request in flight has a
//! server of its own, 0 once more of them only wait inside the device. The usable depth is the
//! smallest from which on elasticity is low. (With relative gains in place of logarithms a step
//! from 32 to 5 that costs a third of the throughput would count as one of low elasticity.)
//!
//! A *probe* runs at another depth until the comparison is significant. Up: while requests are held
//! back by the limit; it costs nothing but latency. Down: only while somebody gets less than its
//! share and requests wait inside the device; a first guess is X, the number of busy servers. Steps
//! begin at an eighth and double while probes succeed, or show too little going up; refused probes
//! are repeated later and later, and at once when the device or its load has changed. What was
//! refused is kept then: bursts of programs pass for a change on a fast drive, and without it the
//! first guess would be tried again and again.
//!
//! What requests take alone is seen of a few that go one at a time (*solo*): where it is not known,
//! before a smaller depth is tried, and now and then while requests wait inside the device.
//!
//! A slow device that serves in disorder (see [`order`]) is measured by the rate at which requests
//! end, of whatever epoch, and each counts as one that took the mean of their times.
//!
//! If shares come before throughput, a smaller depth may cost a fifth of it (see [`reference`]).
//!
//! Two bounds hold beside: the limit is never above what the driver takes at a time, by its tags or
//! when it refused one, and all steps down together leave at least [`KEPT`] of the throughput.
//!
//! Cost: O(1) for each completion.

mod compare;
mod order;
mod pace;
mod probes;
mod reference;
mod sums;

#[cfg(test)]
mod tests;

use super::ids::Mark;
use order::Order;
use pace::Pace;
use reference::Reference;
use sums::Sums;

use super::cost::{MAX_TIME, Quiet};
use super::occupancy::Occupied;
use super::queue::Mean;
use crate::units::{Instant, Nanos};

/// The limit of a device of which nothing is known.
const FIRST_LIMIT: u32 = 32;
/// The largest limit.
pub(super) const MAX_DEPTH: u32 = 1 << 14;
/// Unit of mean numbers in flight.
const FRACTION: u64 = 64;
/// Samples that the baseline remembers, at least, and the time that they span at least.
const BASELINE: u64 = 256;
const MEMORY: Nanos = Nanos::from_millis(40);
/// Samples after which the depth that the load reaches is looked at again, and whether the device
/// has changed.
const WINDOW: u32 = 64;
/// Samples that a comparison needs at least.
const MIN_SAMPLES: u64 = 16;
/// Samples after which a probe is decided whatever its error.
const MAX_SAMPLES: u64 = 1024;
/// Time that a probe lasts at least: a write buffer hides for a while what comes of a change.
const MIN_PROBE: Nanos = Nanos::from_millis(20);
/// Time after which one that clearly costs more than a quarter of the throughput ends.
const COSTLY: Nanos = Nanos::from_millis(5);
/// Time after which a probe is decided whatever its error, if it has 64 samples.
const MAX_PROBE: Nanos = Nanos::from_millis(60);
/// Time after which a probe ends without result.
const TOO_LONG: Nanos = Nanos::from_millis(500);
/// Requests that are looked at one at a time: at least, and at most; the time after which the first
/// number is enough; and the shortest and the longest time until they are looked at again.
const SOLO: (u64, u64) = (6, 8);
const SOLO_LONG: Nanos = Nanos::from_millis(50);
const SOLO_PAUSE: (Nanos, Nanos) = (Nanos::from_secs(8), Nanos::from_secs(32));
/// Time until such a look is considered again that is of no use now.
const SOLO_LATER: Nanos = Nanos::from_millis(500);
/// Nanoseconds from which on the first request is so long that those after it go one at a time as
/// well: what requests take is known from the start then. On a fast device it soon is.
const SLOW_REQUEST: u64 = Nanos::from_micros(480).get();
/// Time for which the driver is not offered more than it took when it refused a command.
const FULL: Nanos = Nanos::from_secs(1);
/// Elasticity in percent above which a larger depth is taken.
const GAINS: i64 = 20;
/// Elasticity in percent below which a smaller depth is taken.
const LOSES: i64 = 10;
/// The part of the throughput that all steps to smaller depths together leave, at least.
const KEPT: (u64, u64) = (15, 16);
/// Waiting times between refused probes.
const UP_PAUSE: (Nanos, Nanos) = (Nanos::from_millis(50), Nanos::from_millis(500));
const DOWN_PAUSE: (Nanos, Nanos) = (Nanos::from_millis(50), Nanos::from_secs(4));

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// What it was marked with at its dispatch.
    pub(super) mark: Mark,
    /// Nanoseconds that it was in the device.
    pub(super) time: u64,
    /// Nanoseconds that it takes alone, by the cost model.
    pub(super) alone: u64,
    /// For how long it keeps others from the device.
    pub(super) occupied: Occupied,
    /// Number in flight integrated over its time.
    area: u64,
}

impl Sample {
    /// Returns the number in flight, integrated over the time of the request in nanoseconds.
    pub(super) const fn area(&self) -> u64 {
        self.area
    }

    /// Returns the sample of a request that ends so many nanoseconds after another, as if each took
    /// the mean of their times, by Little's law.
    fn by_rate(self, since_last: u64, in_flight: u32) -> Self {
        let time = (since_last * u64::from(in_flight)).clamp(1, MAX_TIME);
        Self { time, area: time * u64::from(in_flight), ..self }
    }
}

/// What came of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// More samples are needed.
    Unclear,
    /// Elasticity is below the threshold.
    Low,
    /// It is above.
    High,
    /// The difference is within the error.
    Even { is_low: bool },
}

/// The purpose of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
    /// A larger depth, to see what the one in force costs.
    Check,
    /// One request at a time, to see what each takes alone.
    Solo,
}

/// A run at another depth.
#[derive(Clone, Copy, Debug)]
struct Probe {
    way: Way,
    depth: u32,
    /// How far that is from the depth in force, in the unit of mean depths.
    step: u64,
    since: Instant,
    /// Samples that are not counted yet: the device still has requests of the depth before.
    skip: u32,
    /// The mean of [`Load::others`] before it.
    others: Option<u64>,
    sums: Sums,
}

impl Probe {
    /// The look at the first requests of a device.
    const FIRST: Self = Self {
        way: Way::Solo,
        depth: 1,
        step: 0,
        since: Instant::ZERO,
        skip: 0,
        others: None,
        sums: Sums::NONE,
    };
}

/// For what another depth may be tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wants {
    /// Somebody gets less than its share.
    pub(super) is_unfair: bool,
    /// Requests are held back by the limit.
    pub(super) is_binding: bool,
    /// It is not known what requests like the one that has ended take alone.
    pub(super) is_unknown: bool,
}

/// What is going on when a request ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// For what another depth may be tried.
    pub(super) wants: Wants,
    /// Nothing else is tried now.
    pub(super) may_probe: bool,
    /// A smaller depth may be tried.
    pub(super) may_shrink: bool,
    /// Shares come before the last fifth of the throughput.
    pub(super) prefers_shares: bool,
    /// The part of their time alone that requests occupy of which it is not known, in 1/65536.
    pub(super) rest: u64,
    /// Times of the requests that a smaller depth is to help, as ratios to what they take alone,
    /// since the last probe began or ended; `None` if that is not looked at.
    pub(super) others: Option<Mean>,
}

impl Load {
    /// Returns the mean of [`Self::others`]: 0 if there were too few.
    fn mean_of_others(&self) -> Option<u64> {
        self.others.map(Mean::mean)
    }
}

/// What a sample led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Nothing.
    None,
    /// A probe begins or ends.
    Probe,
    /// It was seen anew what requests take alone.
    Costs,
}

/// The usable depth of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Depth {
    usable: u32,
    /// The limit now: of the probe, if one is under way.
    limit: u32,
    /// The largest limit: what the driver takes at a time, and what it takes by its tags, which
    /// counts again from `full_until` on.
    most: u32,
    tags: u32,
    full_until: Instant,
    epoch: u32,
    /// Requests in flight, integrated over time in nanoseconds, up to `seen`; it wraps.
    area: u64,
    seen: Instant,
    /// How many were in flight until `seen`, and when a request last ended, in which epoch.
    in_flight: u32,
    ended: (Instant, u32),
    order: Order,
    probe: Option<Probe>,
    /// Samples at the depth in force, and since when they were taken.
    baseline: Sums,
    began: Instant,
    /// The depth that the baseline is of, and the largest of this window of samples.
    top: u64,
    peak: u64,
    window: u32,
    /// Samples that the baseline does not count: of requests that saw the load before.
    skip: u32,
    /// Times of this window of samples: taken, and as the baseline had them.
    recent: (u64, u64),
    /// Windows in a row in which times differed from the baseline's.
    strange: u32,
    /// The smaller depth that was last tried in vain; 0 if none was.
    refused: u32,
    /// What the device delivered before the limit was first made smaller, or later at a larger
    /// one, since its load or what is known of requests has changed; `None` if it was not made
    /// smaller. It is a part of the time of the device, which stays the same if that becomes
    /// slower.
    delivered_before: Option<u64>,
    /// A smaller depth was tried and throughput fell with it: requests do not wait in the device.
    is_verified: bool,
    /// Whether requests are looked at one at a time, and when that is due again.
    has_solo: bool,
    solo_at: Instant,
    solo_pause: Nanos,
    up: Pace,
    down: Pace,
    /// What smaller depths cost if shares come before throughput.
    reference: Reference,
    /// When a process or a tenant last got less than its share.
    unfair_at: Option<Instant>,
}

impl Depth {
    pub(super) const fn new(has_solo: bool) -> Self {
        Self {
            usable: FIRST_LIMIT,
            limit: if has_solo { 1 } else { FIRST_LIMIT },
            most: MAX_DEPTH,
            tags: MAX_DEPTH,
            full_until: Instant::ZERO,
            epoch: 0,
            area: 0,
            seen: Instant::ZERO,
            in_flight: 0,
            ended: (Instant::ZERO, 0),
            order: Order::new(),
            probe: if has_solo { Some(Probe::FIRST) } else { None },
            baseline: Sums::NONE,
            began: Instant::ZERO,
            top: 0,
            peak: 0,
            window: 0,
            skip: 0,
            recent: (0, 0),
            strange: 0,
            refused: 0,
            delivered_before: None,
            is_verified: false,
            has_solo,
            solo_at: Instant::ZERO,
            solo_pause: SOLO_PAUSE.0,
            up: Pace::new(UP_PAUSE),
            down: Pace::new(DOWN_PAUSE),
            reference: Reference::NONE,
            unfair_at: None,
        }
    }

    /// Bounds the limit by the number of commands that the driver takes at a time. What is
    /// dispatched beyond it waits in the order of dispatch, and a request that is owed service
    /// comes too late.
    pub(super) fn bound(&mut self, tags: u32) {
        self.tags = tags.clamp(1, MAX_DEPTH);
        self.bound_by(self.tags);
    }

    fn bound_by(&mut self, most: u32) {
        self.most = most;
        self.usable = self.usable.min(most);
        self.limit = self.probe.map_or(self.usable, |probe| probe.depth);
        assert!(self.usable > 0 && self.limit > 0, "a limit of the depth that lets nothing go");
    }

    /// The driver has refused a command: it takes `held` at a time, whatever the number of its
    /// tags. What others have in the device may be the reason, so that it is not for ever.
    pub(super) fn on_full(&mut self, now: Instant, held: u32) {
        if self.probe.is_some_and(|probe| probe.depth > held) {
            self.end();
        }
        self.bound_by(held.clamp(1, self.tags));
        self.full_until = now + FULL;
    }

    /// Returns how many requests the driver takes at a time.
    pub(super) const fn most(&self) -> u32 {
        self.most
    }

    /// Returns how many requests may be in flight now.
    #[inline]
    pub(super) const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the usable depth found so far.
    pub(super) const fn usable(&self) -> u32 {
        self.usable
    }

    /// Returns true while nothing unusual is tried.
    pub(super) const fn is_settled(&self) -> bool {
        self.probe.is_none()
    }

    /// Returns true while requests are looked at one at a time.
    pub(super) fn is_solo(&self) -> bool {
        self.probe.is_some_and(|probe| probe.way == Way::Solo)
    }

    /// A request has ended that neither reads nor writes. Ends the look at the first requests of a
    /// device, and another one that such requests alone would make last.
    pub(super) fn end_solo_without_data(&mut self, now: Instant) {
        let is_long = self
            .probe
            .is_some_and(|probe| probe.way == Way::Solo && now.since(probe.since) >= SOLO_LONG);
        if self.is_first_solo() || is_long {
            self.end();
        }
    }

    /// Returns true while nothing but the first requests was looked at.
    const fn is_first_solo(&self) -> bool {
        self.epoch == 0 && self.probe.is_some()
    }

    /// Returns the mean number in flight, in 1/64.
    pub(super) const fn mean_depth(&self) -> u64 {
        self.baseline.depth()
    }

    /// Returns true if requests are to be looked at one at a time.
    pub(super) fn needs_solo(&self, now: Instant) -> bool {
        self.has_solo && now >= self.solo_at
    }

    /// Returns true if a smaller depth may be due to be tried. If it is not due,
    /// [`Load::may_shrink`] does not matter.
    #[inline]
    pub(super) fn may_be_down_due(&self, now: Instant) -> bool {
        self.probe.is_none() && now >= self.down.next
    }

    /// Returns true if a smaller depth is not due to be tried.
    pub(super) fn is_at_bottom(&self, now: Instant) -> bool {
        self.probe.is_none()
            && (self.reached() <= 1 || now < self.down.next || !self.queues_inside())
    }

    /// Counts the time until now in which `in_flight` requests were in flight: to be called before
    /// the number changes.
    #[inline]
    pub(super) fn pass(&mut self, now: Instant, in_flight: u32) {
        assert!(now >= self.seen, "the area of an earlier time is counted");
        self.area = self.area.wrapping_add((now - self.seen).get().wrapping_mul(in_flight.into()));
        self.seen = now;
        self.in_flight = in_flight;
    }

    /// Marks a request that is dispatched.
    #[inline]
    pub(super) const fn mark(&self) -> Mark {
        Mark { area: self.area, epoch: self.epoch }
    }

    /// Returns true if a request was dispatched since the depth was last changed.
    pub(super) const fn is_current(&self, mark: Mark) -> bool {
        mark.epoch == self.epoch
    }

    /// Returns the sample of a request that ends.
    pub(super) fn sample(&self, mark: Mark, time: u64, alone: u64, occupied: Occupied) -> Sample {
        Sample {
            mark,
            time: time.clamp(1, MAX_TIME),
            alone,
            occupied,
            area: self.area.wrapping_sub(mark.area),
        }
    }

    /// Returns what a request says about the time that one takes alone. `is_known`: that was seen
    /// before of requests that did not wait.
    pub(super) fn quiet(&self, sample: &Sample, is_known: bool) -> Quiet {
        match () {
            () if sample.area * 16 <= sample.time * 17 => Quiet::Yes,
            // A whole baseline cannot have been shorter than it takes alone.
            () if is_known
                && self.baseline.count >= MIN_SAMPLES
                && self.baseline.time < self.baseline.alone =>
            {
                Quiet::Probably
            }
            () if self.is_verified && self.probe.is_none() && sample.mark.epoch == self.epoch => {
                Quiet::Probably
            }
            () => Quiet::No,
        }
    }

    /// Another limit is tried, or no longer: requests dispatched before and after differ.
    /// `are_costs_new`: what requests take alone is known better now.
    pub(super) fn on_other(&mut self, are_costs_new: bool) {
        self.epoch = self.epoch.wrapping_add(1);
        self.restart_window();
        if are_costs_new {
            self.renew_baseline();
        }
    }

    /// A look has ended: what requests occupy may be known anew, and what was delivered before was
    /// counted by something else.
    pub(super) fn on_look(&mut self) {
        self.on_other(true);
        self.delivered_before = None;
    }

    fn restart_window(&mut self) {
        (self.window, self.peak, self.recent) = (0, 0, (0, 0));
    }

    /// Learns from a request that has ended. What else there is in [`Load`] is seldom asked for.
    #[inline]
    pub(super) fn learn(
        &mut self,
        now: Instant,
        sample: Sample,
        wants: Wants,
        load: impl FnOnce() -> Load,
    ) -> Event {
        if self.order.note(sample.time) && self.probe.is_none() && self.order.decide() {
            self.renew_baseline();
        }
        let before = core::mem::replace(&mut self.ended, (now, self.epoch));
        if self.order.is_lost && !self.is_solo() {
            self.learn_by_rate(now, before, sample, wants, load)
        } else if sample.mark.epoch == self.epoch {
            self.learn_of(now, sample, wants, load)
        } else {
            Event::None
        }
    }

    /// Learns from a request that counts.
    #[inline(always)]
    fn learn_of(
        &mut self,
        now: Instant,
        sample: Sample,
        wants: Wants,
        load: impl FnOnce() -> Load,
    ) -> Event {
        if let Some(probe) = self.probe {
            return self.learn_in_probe(now, probe, sample, load());
        }
        if wants.is_unfair {
            self.unfair_at = Some(now);
        }
        let depth = sample.area * FRACTION / sample.time;
        if !self.follow_load(now, depth) {
            return Event::None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return Event::None;
        }
        if self.baseline.count >= MIN_SAMPLES {
            self.recent.0 += sample.time >> 6;
            self.recent.1 +=
                (sample.alone >> 6) * (self.baseline.time >> 8) / (self.baseline.alone >> 8).max(1);
        }
        if self.baseline.count == 0 {
            self.began = now;
        }
        self.baseline.add(sample);
        let span = now - self.began;
        if self.baseline.count >= BASELINE && span >= MEMORY {
            self.baseline.halve();
            self.began = self.began + Nanos::new(span.get() / 2);
        }
        if self.may_probe(now, wants) { self.consider_probe(now, load()) } else { Event::None }
    }

    /// Learns from a request of a device that serves in disorder, by the rate at which requests
    /// end, if it counts. `before`: when the one before it ended, and in which epoch.
    #[inline(never)]
    fn learn_by_rate(
        &mut self,
        now: Instant,
        before: (Instant, u32),
        sample: Sample,
        wants: Wants,
        load: impl FnOnce() -> Load,
    ) -> Event {
        let (last, epoch) = before;
        if epoch != self.epoch || self.in_flight > self.limit() {
            return Event::None;
        }
        self.learn_of(now, sample.by_rate(now.since(last).get(), self.in_flight), wants, load)
    }

    /// Follows the depth that the load reaches, and notices when times change at the same depth.
    /// Returns true if a sample of this depth counts.
    fn follow_load(&mut self, now: Instant, depth: u64) -> bool {
        self.peak = self.peak.max(depth);
        self.window += 1;
        if self.window == WINDOW {
            if self.peak * 8 < self.top * 7 {
                self.forget(self.peak);
            }
            let (taken, before) = self.recent;
            self.strange = if taken.abs_diff(before) * 6 > before { self.strange + 1 } else { 0 };
            // A baseline must be long enough for a probe, or there is never one.
            if self.strange >= 2 && now.since(self.began) >= MIN_PROBE {
                self.restart(now);
            }
            (self.window, self.peak, self.recent) = (0, 0, (0, 0));
        }
        if depth * 8 > self.top * 9 {
            self.forget(depth);
        }
        self.top = self.top.max(depth);
        depth * 8 >= self.top * 7
    }

    /// The load reaches another depth.
    fn forget(&mut self, top: u64) {
        self.top = top;
        self.delivered_before = None;
        self.renew_baseline();
        self.is_verified = false;
    }

    fn renew_baseline(&mut self) {
        self.baseline = Sums::default();
        self.skip = ((self.top + FRACTION / 2) / FRACTION) as u32;
        self.recent = (0, 0);
        self.strange = 0;
    }

    /// The device has changed: everything is looked at again.
    fn restart(&mut self, now: Instant) {
        self.renew_baseline();
        self.up.reset(now, true);
        // In a device that seems to change all the time it is the smaller depth that costs.
        self.down.reset(now, false);
        self.solo_pause = SOLO_PAUSE.0;
        self.solo_at = self.solo_at.min(now + self.solo_pause);
        self.is_verified = false;
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Returns how many requests the load puts in flight, at most the limit.
    fn reached(&self) -> u32 {
        self.usable.min(((self.top + FRACTION / 2) / FRACTION) as u32)
    }

    /// Returns true if noticeably more requests are in the device than are served at a time.
    pub(super) fn queues_inside(&self) -> bool {
        self.baseline.depth() * 16 * 10 > self.baseline.served() * 11
    }
}
