//! The device's virtual clock, and the control of its speed.
//!
//! Virtual time is nanoseconds of the device. At a speed of 100 % it advances as real time does;
//! for a device that is slower than its model it runs slower, for a faster one faster. Integer
//! arithmetic: speeds are in 2^-20.

use super::Qos;
use super::hweight::mul_div;
use crate::units::{Instant, Nanos};

/// 100 %.
pub(super) const SPEED_ONE: u64 = 1 << 20;
/// Step by which a speed outside its bounds moves back, in percent per period.
const CLAMP_STEP: u64 = 4;

/// The relation of virtual time to real time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    at: Instant,
    value: i64,
    /// Speed now: that of the control loop, corrected for budget that was removed.
    speed: u64,
}

impl Clock {
    pub(super) const fn new() -> Self {
        Self { at: Instant::ZERO, value: 0, speed: SPEED_ONE }
    }

    #[inline]
    pub(super) fn now(&self, now: Instant) -> i64 {
        let passed = u128::from(now.since(self.at).get()) * u128::from(self.speed);
        self.value.saturating_add(i64::try_from(passed >> 20).unwrap_or(i64::MAX))
    }

    /// Returns when virtual time reaches a value.
    pub(super) fn when(&self, value: i64) -> Instant {
        let missing = value.saturating_sub(self.value).max(0).unsigned_abs();
        let span = (u128::from(missing) << 20).div_ceil(u128::from(self.speed));
        self.at.saturating_add(Nanos::new(u64::try_from(span).unwrap_or(u64::MAX)))
    }

    pub(super) fn set_speed(&mut self, now: Instant, speed: u64) {
        *self = Self { at: now, value: self.now(now), speed: speed.max(1) };
    }
}

/// Measurements of the device in a period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// I/Os that completed, by direction.
    pub(super) over: [u64; 2],
    /// I/Os of these that took longer than their target.
    pub(super) missed: [u64; 2],
    /// Time that requests waited to be allocated.
    pub(super) alloc_wait: Nanos,
    /// Number of tenants that wait, or have little budget left.
    pub(super) short: usize,
    /// An I/O is older than a period.
    pub(super) lagging: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Busy,
    Between,
    Clear,
}

impl Seen {
    /// Returns the load of the device: busy if waits for requests exceed 5 % of the period or more
    /// I/Os miss their target than the percentiles allow; clear if both are below three quarters of
    /// that.
    fn load(&self, qos: &Qos, period: Nanos) -> Load {
        let mut load = Load::Clear;
        let mut judge = |value: u128, limit: u128| {
            load = match load {
                Load::Busy => Load::Busy,
                _ if value > limit => Load::Busy,
                _ if value * 4 > limit * 3 => Load::Between,
                load => load,
            };
        };
        judge(u128::from(self.alloc_wait.get()) * 20, u128::from(period.get()));
        for (direction, percent) in [qos.rpct, qos.wpct].into_iter().enumerate() {
            if percent > 0 && self.over[direction] > 0 {
                let allowed = u128::from(10_000 - percent) * u128::from(self.over[direction]);
                judge(u128::from(self.missed[direction]) * 10_000, allowed);
            }
        }
        load
    }
}

/// The control loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct VrateControl {
    /// Speed without corrections.
    pub(super) speed: u64,
    /// Number of periods in a row that the device was busy, if above 0, or could have done more, if
    /// below 0.
    pub(super) level: i32,
    /// Device time that was unused because budgets above their bound were removed.
    pub(super) unused: u64,
    /// Whether a period without a completion leaves the level as it is if I/O is late
    /// ([`Rules::io_cost_keeps_busy_level`](crate::kernel::Rules::io_cost_keeps_busy_level)).
    pub(super) keeps_level: bool,
}

impl VrateControl {
    pub(super) const fn new(keeps_level: bool) -> Self {
        Self { speed: SPEED_ONE, level: 0, unused: 0, keeps_level }
    }

    /// Handles the end of a period: the load determines the level, and the level determines the
    /// step.
    pub(super) fn adjust(&mut self, qos: &Qos, period: Nanos, seen: &Seen) {
        let is_silent = self.keeps_level && seen.lagging && seen.over == [0; 2];
        self.level = match seen.load(qos, period) {
            _ if is_silent => self.level,
            Load::Busy => self.level.max(0) + 1,
            Load::Clear if seen.short > 0 => self.level.min(0) - i32::from(!seen.lagging),
            Load::Clear | Load::Between => 0,
        };
        let bound = |hundredths: u32| u64::from(hundredths) * SPEED_ONE / 10_000;
        let (min, max) = (bound(qos.min), bound(qos.max));
        let by = |percent: u64| (self.speed * percent).div_ceil(100);
        self.speed = if self.speed < min {
            by(100 + CLAMP_STEP).min(min)
        } else if self.speed > max {
            by(100 - CLAMP_STEP).max(max)
        } else {
            let step = step(self.level.unsigned_abs());
            by(if self.level > 0 { 100 - step } else { 100 + step }).clamp(min, max)
        };
    }

    /// Returns the speed of the next period: raised, at most to twice, for the unused time of the
    /// last.
    pub(super) fn corrected(&mut self, period: Nanos) -> u64 {
        let span = period.get().max(1);
        let more = mul_div(self.unused, SPEED_ONE, span).min(self.speed);
        let left = self.unused.saturating_sub(mul_div(more, span, SPEED_ONE));
        self.unused = left.min(mul_div(span, self.speed, SPEED_ONE));
        self.speed + more
    }
}

/// Returns the percentage by which the speed changes at a level.
const fn step(level: u32) -> u64 {
    match level {
        0..4 => 0,
        4..16 => 1,
        16..32 => 2,
        32..40 => 4,
        40..48 => 8,
        _ => 16,
    }
}
