//! What a group may still dispatch in a slice of time, by direction. All times in ticks.

use super::super::limits::UNLIMITED;
use crate::jiffies::Hz;

/// What was dispatched since a slice began. Negative if a change of limits carried over budget that
/// was earned and not used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slice {
    start: u64,
    end: u64,
    bytes: i64,
    ios: i64,
}

/// Length of a slice, ticks per second, and the rules in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) hz: Hz,
    pub(super) slice: u64,
    pub(super) in_series: bool,
}

/// Why a bio has to wait, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Bytes(u64),
    Ios(u64),
}

impl Wait {
    pub(super) const fn ticks(self) -> u64 {
        match self {
            Self::Bytes(ticks) | Self::Ios(ticks) => ticks,
        }
    }
}

impl Clock {
    /// Returns the budget that a rate earns in that many ticks.
    fn earned(&self, rate: u64, ticks: u64) -> i64 {
        let units = u128::from(rate) * u128::from(ticks) / u128::from(self.hz.0);
        i64::try_from(units).unwrap_or(i64::MAX)
    }
}

impl Slice {
    pub(super) const fn start(&self) -> u64 {
        self.start
    }

    pub(super) const fn has_ended(&self, now: u64) -> bool {
        now < self.start || now > self.end
    }

    pub(super) fn begin(&mut self, clock: &Clock, now: u64) {
        *self = Self { start: now, end: now + clock.slice, bytes: 0, ios: 0 };
    }

    /// Begins a slice for a group that gets its first bio from a child. It begins no later than the
    /// child's, so that the time spent waiting there is not lost here.
    pub(super) fn begin_with_credit(&mut self, clock: &Clock, now: u64, child: u64) {
        *self = Self { start: self.start.max(child), end: now + clock.slice, bytes: 0, ios: 0 };
    }

    /// Extends the end to the end of the slice that contains a tick, if it is earlier.
    pub(super) fn extend(&mut self, clock: &Clock, until: u64) {
        if self.end < until {
            self.end = until.next_multiple_of(clock.slice);
        }
    }

    /// Prepares the test of a bio: an idle group begins a new slice, a busy one continues.
    pub(super) fn prepare(&mut self, clock: &Clock, now: u64, is_waited_on: bool) {
        if self.has_ended(now) && !is_waited_on {
            self.begin(clock, now);
        } else {
            self.extend(clock, now + clock.slice);
        }
    }

    /// Returns how long a bio of `bytes` has to wait for bytes; `None` if it does not.
    pub(super) fn wait_for_bytes(
        &self,
        clock: &Clock,
        now: u64,
        rate: u64,
        bytes: u64,
    ) -> Option<Wait> {
        if rate == UNLIMITED || bytes == 0 {
            return None;
        }
        let elapsed = now - self.start;
        let rounded =
            if elapsed == 0 { clock.slice } else { elapsed.next_multiple_of(clock.slice) };
        let over = (self.bytes + bytes as i64).saturating_sub(clock.earned(rate, rounded));
        if over <= 0 {
            return None;
        }
        let wait =
            (u128::from(over.unsigned_abs()) * u128::from(clock.hz.0) / u128::from(rate)).max(1);
        Some(Wait::Bytes(u64::try_from(wait).unwrap_or(u64::MAX >> 1) + (rounded - elapsed)))
    }

    /// Returns how long one more I/O has to wait; `None` if it does not.
    pub(super) fn wait_for_io(&self, clock: &Clock, now: u64, rate: u64) -> Option<Wait> {
        if rate == UNLIMITED {
            return None;
        }
        let elapsed = now - self.start;
        let rounded = (elapsed + 1).next_multiple_of(clock.slice);
        if self.ios < clock.earned(rate, rounded) {
            return None;
        }
        let to_end = rounded - elapsed;
        Some(Wait::Ios(if clock.in_series { to_end.max(clock.hz.0 / rate + 1) } else { to_end }))
    }

    pub(super) fn charge_bytes(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add_unsigned(bytes);
    }

    pub(super) fn charge_io(&mut self) {
        self.ios += 1;
    }

    /// Trims after a dispatch: finished slices are removed together with what they earned.
    pub(super) fn trim(&mut self, clock: &Clock, now: u64, bps: u64, iops: u64) {
        if self.has_ended(now) {
            return;
        }
        self.end = (now + clock.slice).next_multiple_of(clock.slice);
        let over = (now - self.start) / clock.slice;
        let kept = u64::from(clock.in_series);
        if over <= kept {
            return;
        }
        let ticks = (over - kept) * clock.slice;
        let earned = |rate| if rate == UNLIMITED { 0 } else { clock.earned(rate, ticks) };
        let (bytes, ios) = (earned(bps), earned(iops));
        if clock.in_series {
            // A budget of zero clears what was dispatched, as measured with limits below one I/O
            // per slice.
            let trimmed =
                |used: i64, by: i64| if by <= 0 || used < by { used.min(0) } else { used - by };
            self.bytes = trimmed(self.bytes, bytes);
            self.ios = trimmed(self.ios, ios);
        } else if bytes > 0 || ios > 0 {
            self.bytes = (self.bytes - bytes).max(self.bytes.min(0));
            self.ios = (self.ios - ios).max(self.ios.min(0));
        } else {
            return;
        }
        self.start += ticks;
    }

    /// Begins a new slice after a change of limits, and carries the unused budget of the old ones
    /// over.
    pub(super) fn carry(
        &mut self,
        clock: &Clock,
        now: u64,
        bps: u64,
        iops: u64,
        is_waited_on: bool,
    ) {
        let elapsed = now.saturating_sub(self.start);
        let carried = |used: i64, rate| {
            if rate == UNLIMITED { 0 } else { used - clock.earned(rate, elapsed) }
        };
        let (bytes, ios) =
            if is_waited_on { (carried(self.bytes, bps), carried(self.ios, iops)) } else { (0, 0) };
        *self = Self { start: now, end: now + clock.slice, bytes, ios };
    }
}
