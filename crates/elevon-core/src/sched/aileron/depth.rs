//! The usable depth: how many requests the device can use at a time, found while running.
//!
//! By Little's law the number of requests that are served at a time is `X = in flight · (time that
//! they take alone) / (time that they took)`. The rest of those in flight wait inside the device,
//! where no scheduler orders them. The usable depth is the smallest one that keeps nearly all of X.
//!
//! A *probe* runs at another depth for a while, and then compares X with that before:
//!
//! - Down, while a member gets less than its share and requests wait inside the device. The first
//!   guess is X. It is kept if X stays: all steps down together leave [`KEPT`] of it. With
//!   `prefer=shares` they leave [`KEPT_FOR_SHARES`].
//! - Up, while requests are held back by the limit. It is kept if X grows by a part [`GAINS`] of
//!   what the depth grows by.
//! - Solo: a few requests go one at a time, to see what each takes alone. It comes first on a new
//!   device, and later where that is not known or before a step down.
//!
//! A probe in vain is not repeated for some time, which doubles. The limit is never above what the
//! driver takes at a time, by its tags or when it refused one.
//!
//! Cost: O(1) for each completion.

use crate::units::{Instant, Nanos};

/// The limit of a device of which nothing is known: as many as a SATA disk takes.
const FIRST_LIMIT: u32 = 32;
/// The largest limit: as many tags as Linux allows.
pub(super) const MAX_DEPTH: u32 = 1 << 14;
/// Unit of mean numbers in flight.
const FRACTION: u64 = 64;
/// Requests that the baseline remembers: their mean is off by a few percent.
const BASELINE: u64 = 256;
/// Requests after which the depth that the load reaches is looked at again.
const WINDOW: u32 = 64;
/// Requests that a comparison needs at least.
const MIN_SAMPLES: u64 = 16;
/// Time that a probe lasts. A write buffer hides the effect of a change for some milliseconds.
const PROBE: Nanos = Nanos::from_millis(20);
/// Time after which one that clearly costs more than a quarter ends.
const COSTLY: Nanos = Nanos::from_millis(5);
/// Times after which one that has too few requests ends: of fast requests, and of slow ones, which
/// may take twice as long as all that it needs take one after the other.
const TOO_LONG: (Nanos, Nanos) = (Nanos::from_millis(500), OLD);
/// Requests that go one at a time, and the time after which fewer are enough.
const SOLO: u64 = 6;
const SOLO_LONG: Nanos = Nanos::from_millis(50);
/// Time for which the driver is not offered more than it took when it refused a command.
const FULL: Nanos = Nanos::from_secs(1);
/// The part of a larger depth, in percent, that X must grow by: more of it would only wait.
const GAINS: u64 = 20;
/// The part of X that all steps down together leave, at least: little enough not to be noticed,
/// and more than a comparison errs by. If shares come first it is the part that users give up.
const KEPT: (u64, u64) = (15, 16);
const KEPT_FOR_SHARES: (u64, u64) = (43, 50);
/// Age from which on a measurement is old. The time that requests take alone is measured again
/// then. If shares come first, a larger depth is tried where no member was below its share. No
/// probe takes longer, so that its result is used for longer than it took.
const OLD: Nanos = Nanos::from_secs(8);
/// Times that a probe in vain took which pass until the next one: probes take an eighth at most.
const RESTS: u64 = 7;
/// The shortest and the longest time until a probe in vain is repeated.
const UP_PAUSE: (Nanos, Nanos) = (Nanos::from_millis(50), Nanos::from_millis(500));
const DOWN_PAUSE: (Nanos, Nanos) = (Nanos::from_millis(50), Nanos::from_secs(4));

/// What a request in flight remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The number in flight, integrated over time, when it was dispatched.
    area: u64,
    /// The run at one depth that it belongs to.
    epoch: u32,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    epoch: u32,
    /// Nanoseconds that it was in the device.
    time: u64,
    /// Nanoseconds that it takes alone, by the cost model.
    alone: u64,
    /// The number in flight, integrated over its time.
    area: u64,
}

impl Sample {
    /// Returns true if the request had the device for itself.
    pub(super) const fn was_alone(&self) -> bool {
        self.area * 16 <= self.time * 17
    }
}

/// Sums over the requests that ended at a depth. Times are in 64 ns.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: u64,
    time: u64,
    alone: u64,
    area: u64,
}

impl Sums {
    const fn add(&mut self, sample: &Sample) {
        self.count += 1;
        self.time += sample.time >> 6;
        self.alone += sample.alone >> 6;
        self.area += sample.area >> 6;
    }

    /// Returns the mean number in flight, in 1/64.
    const fn depth(&self) -> u64 {
        self.area * FRACTION / if self.time == 0 { 1 } else { self.time }
    }

    /// Returns the mean time that a request takes alone.
    const fn mean_alone(&self) -> Nanos {
        Nanos::new((self.alone << 6) / if self.count == 0 { 1 } else { self.count })
    }

    /// Returns how many requests are served at a time (X), in 1/1024.
    fn served(&self) -> u64 {
        let time = u128::from(self.time.max(1));
        (u128::from(self.area) * u128::from(self.alone) * 1024 / (time * time)) as u64
    }
}

/// The purpose of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
    Solo,
}

/// A run at another depth.
#[derive(Clone, Copy, Debug)]
struct Probe {
    way: Way,
    depth: u32,
    since: Instant,
    sums: Sums,
}

/// When a depth is tried again that was refused.
#[derive(Clone, Copy, Debug)]
struct Pace {
    next: Instant,
    pause: Nanos,
    range: (Nanos, Nanos),
}

impl Pace {
    const fn new(range: (Nanos, Nanos)) -> Self {
        Self { next: Instant::ZERO, pause: range.0, range }
    }

    /// A probe that took so long was in vain.
    fn refuse(&mut self, now: Instant, took: Nanos) {
        self.next = now + self.pause.max(Nanos::new(took.get() * RESTS));
        self.pause = Nanos::new(self.pause.get() * 2).min(self.range.1);
    }

    /// A probe was of use.
    const fn accept(&mut self, now: Instant) {
        (self.next, self.pause) = (now, self.range.0);
    }
}

/// What another depth is wanted for when a request ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wants {
    /// A member gets less than its share.
    pub(super) is_unfair: bool,
    /// Requests are held back by the limit.
    pub(super) is_binding: bool,
    /// It is not known what requests like the one that has ended take alone.
    pub(super) is_unknown: bool,
    /// Shares come before the last part of the throughput.
    pub(super) prefers_shares: bool,
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
    probe: Option<Probe>,
    /// The requests at the depth in force, and since when they were taken.
    baseline: Sums,
    began: Instant,
    /// The depth that the load reaches, in 1/64, and the largest of this window.
    top: u64,
    peak: u64,
    window: u32,
    /// X before the first step down, in 1/1024; 0 if there was none.
    before: u64,
    /// The smaller depth that was last tried in vain; 0 if none was.
    refused: u32,
    /// The next step up is the depth divided by this.
    step: u32,
    solo_at: Instant,
    up: Pace,
    down: Pace,
    /// When a member last got less than its share.
    unfair_at: Option<Instant>,
}

impl Depth {
    pub(super) const fn new() -> Self {
        let zero = Sums { count: 0, time: 0, alone: 0, area: 0 };
        Self {
            usable: FIRST_LIMIT,
            limit: 1,
            most: MAX_DEPTH,
            tags: MAX_DEPTH,
            full_until: Instant::ZERO,
            epoch: 0,
            area: 0,
            seen: Instant::ZERO,
            probe: Some(Probe { way: Way::Solo, depth: 1, since: Instant::ZERO, sums: zero }),
            baseline: zero,
            began: Instant::ZERO,
            top: 0,
            peak: 0,
            window: 0,
            before: 0,
            refused: 0,
            step: 8,
            solo_at: Instant::ZERO,
            up: Pace::new(UP_PAUSE),
            down: Pace::new(DOWN_PAUSE),
            unfair_at: None,
        }
    }

    /// Bounds the limit by the number of commands that the driver takes at a time. What is
    /// dispatched beyond it waits in the order of dispatch.
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

    /// Returns how many requests may be in flight now.
    #[inline]
    pub(super) const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the usable depth found so far.
    pub(super) const fn usable(&self) -> u32 {
        self.usable
    }

    /// Counts the time until now in which `in_flight` requests were in flight: to be called before
    /// the number changes.
    #[inline]
    pub(super) fn pass(&mut self, now: Instant, in_flight: u32) {
        assert!(now >= self.seen, "the area of an earlier time is counted");
        self.area = self.area.wrapping_add((now - self.seen).get().wrapping_mul(in_flight.into()));
        self.seen = now;
    }

    /// Marks a request that is dispatched.
    #[inline]
    pub(super) const fn mark(&self) -> Mark {
        Mark { area: self.area, epoch: self.epoch }
    }

    /// Returns the sample of a request that ends.
    pub(super) fn sample(&self, mark: Mark, time: u64, alone: u64) -> Sample {
        let area = self.area.wrapping_sub(mark.area);
        Sample { epoch: mark.epoch, time: time.max(1), alone, area }
    }

    /// A request without data has ended: if no other has for long, requests no longer go one at a
    /// time.
    pub(super) fn on_no_data(&mut self, now: Instant) {
        let is_long = |probe: Probe| probe.way == Way::Solo && now.since(probe.since) >= SOLO_LONG;
        if self.probe.is_some_and(is_long) {
            self.end();
        }
    }

    /// Learns from a request that has ended.
    #[inline]
    pub(super) fn learn(&mut self, now: Instant, sample: &Sample, wants: Wants) {
        if sample.epoch != self.epoch {
            return;
        }
        if let Some(probe) = self.probe {
            return self.learn_in_probe(now, probe, sample, wants);
        }
        if wants.is_unfair {
            self.unfair_at = Some(now);
        }
        if !self.follow_load(sample.area * FRACTION / sample.time) {
            return;
        }
        if self.baseline.count == 0 {
            self.began = now;
        }
        self.baseline.add(sample);
        let span = now - self.began;
        if self.baseline.count < MIN_SAMPLES || span < PROBE {
            return;
        }
        if self.baseline.count >= BASELINE && span >= PROBE + PROBE {
            let Sums { count, time, alone, area } = &mut self.baseline;
            [count, time, alone, area].into_iter().for_each(|sum| *sum /= 2);
            self.began = self.began + Nanos::new(span.get() / 2);
        }
        let is_up_due = wants.is_binding && now >= self.up.next;
        if is_up_due || wants.is_unfair || wants.is_unknown {
            self.consider_probe(now, wants);
        }
    }

    /// Follows the depth that the load reaches. Returns true if a sample of this depth counts.
    fn follow_load(&mut self, depth: u64) -> bool {
        self.peak = self.peak.max(depth);
        self.window += 1;
        if self.window == WINDOW {
            if self.peak * 8 < self.top * 7 {
                self.forget(self.peak);
            }
            (self.window, self.peak) = (0, 0);
        }
        if depth * 8 > self.top * 9 {
            self.forget(depth);
        }
        self.top = self.top.max(depth);
        depth * 8 >= self.top * 7
    }

    /// Forgets the baseline, because the load reaches another depth.
    fn forget(&mut self, top: u64) {
        (self.top, self.before, self.baseline) = (top, 0, Sums::default());
    }

    /// Returns how many requests the load puts in flight, at most the limit.
    fn reached(&self) -> u32 {
        self.usable.min(((self.top + FRACTION / 2) / FRACTION) as u32)
    }

    /// Begins a probe if one is due.
    fn consider_probe(&mut self, now: Instant, wants: Wants) {
        if now >= self.full_until {
            self.most = self.tags;
        }
        let (from, busy) = (self.reached(), self.baseline.served());
        // More than a tenth waits inside.
        let waits_inside = self.baseline.depth() * 16 * 10 > busy * 11;
        let is_too_deep = wants.is_unfair && from > 1 && (wants.prefers_shares || waits_inside);
        let was_fair = self.unfair_at.is_none_or(|at| now.since(at) >= OLD);
        if now >= self.solo_at && (wants.is_unknown || is_too_deep) {
            self.solo_at = now + OLD;
            self.begin(now, Way::Solo, 1);
        } else if is_too_deep && now >= self.down.next {
            let guess = match self.refused {
                // If that is a little too few, the probe says so.
                0 => ((busy / 1024) as u32).min(from - from / 8),
                refused => from.midpoint(refused.min(from)),
            };
            self.begin(now, Way::Down, guess.clamp(1, from - 1));
        } else if wants.is_binding
            && !is_too_deep
            && (was_fair || !wants.prefers_shares)
            && now >= self.up.next
            && self.usable < self.most
        {
            let deeper = self.usable + (self.usable / self.step).max(1);
            self.begin(now, Way::Up, deeper.min(self.most));
        }
    }

    fn begin(&mut self, now: Instant, way: Way, depth: u32) {
        assert!(depth > 0, "a probe of a depth that lets nothing go");
        self.epoch = self.epoch.wrapping_add(1);
        self.limit = depth;
        self.probe = Some(Probe { way, depth, since: now, sums: Sums::default() });
    }

    fn end(&mut self) {
        (self.probe, self.limit) = (None, self.usable);
        (self.window, self.peak) = (0, 0);
        self.epoch = self.epoch.wrapping_add(1);
    }

    fn learn_in_probe(&mut self, now: Instant, mut probe: Probe, sample: &Sample, wants: Wants) {
        probe.sums.add(sample);
        self.probe = Some(probe);
        let (took, count) = (now.since(probe.since), probe.sums.count);
        if probe.way == Way::Solo {
            if count >= SOLO || took >= SOLO_LONG {
                self.end();
                // What requests take alone is known better from here on.
                self.baseline = Sums::default();
            }
            return;
        }
        let enough = MIN_SAMPLES.max(u64::from(probe.depth) * 2);
        let has_enough = count >= enough;
        let needed = Nanos::new(probe.sums.mean_alone().get().saturating_mul(enough * 2));
        let is_too_long = took >= needed.clamp(TOO_LONG.0, TOO_LONG.1);
        let is_costly = || probe.sums.served() * 4 < self.baseline.served() * 3;
        let ends_early = has_enough && took >= COSTLY && probe.way == Way::Down && is_costly();
        if (has_enough && took >= PROBE) || is_too_long || ends_early {
            self.decide(now, &probe, has_enough, wants.prefers_shares);
        }
    }

    /// Ends a probe, and keeps its depth if that is better.
    fn decide(&mut self, now: Instant, probe: &Probe, has_enough: bool, prefers_shares: bool) {
        self.end();
        let (depth, depth_before) = (probe.sums.depth(), self.baseline.depth());
        let (busy, busy_before) = (probe.sums.served(), self.baseline.served());
        // The load may have changed meanwhile, and the depth with it.
        let wanted = u64::from(probe.depth.abs_diff(self.reached())) * FRACTION;
        let is_changed = depth.abs_diff(depth_before) * 2 < wanted;
        let is_taken = has_enough
            && !is_changed
            && match probe.way {
                Way::Up => {
                    let deeper = depth.saturating_sub(depth_before) * GAINS;
                    busy * depth_before * 100 > busy_before * (depth_before * 100 + deeper)
                }
                Way::Down | Way::Solo => {
                    let kept = if prefers_shares { KEPT_FOR_SHARES } else { KEPT };
                    busy * kept.1 >= self.before.max(busy_before) * kept.0
                }
            };
        let is_up = probe.way == Way::Up;
        let pace = if is_up { &mut self.up } else { &mut self.down };
        // A larger step shows more.
        self.step = if is_up { (self.step / 2).max(2) } else { 8 };
        if !is_taken {
            pace.refuse(now, now.since(probe.since));
            self.refused = if is_up { self.refused } else { probe.depth };
            return;
        }
        pace.accept(now);
        let other = if is_up { &mut self.down } else { &mut self.up };
        other.next = other.next.max(now + other.pause);
        self.before = match is_up {
            true => 0,
            false => self.before.max(busy_before),
        };
        (self.usable, self.limit, self.refused) = (probe.depth, probe.depth, 0);
        (self.baseline, self.began, self.top) = (probe.sums, probe.since, depth);
    }
}

#[cfg(test)]
mod tests;
