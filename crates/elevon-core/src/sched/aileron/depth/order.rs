//! Whether a device serves requests in about the order in which it gets them.
//!
//! One that does not leaves some waiting for many times the mean, as a queue of Linux with fewer
//! tags than callers does. Of those that began in a probe and ended in it the long ones are missing
//! then, and any other depth seems to be better.

use crate::units::Nanos;

/// Requests of a window, and windows in a row that must say the same: in one in which the device
/// becomes slower times vary as well.
const WINDOW: u32 = 128;
const WINDOWS: u32 = 2;
/// Mean time below which it does not matter: a probe is much longer.
const MIN_SLOW_MEAN: u64 = Nanos::from_millis(5).get();
/// Squares of the coefficient of variation of their times, in eighths: above the one order is lost,
/// below the other it is kept. If a server takes any of those that wait, it is four eighths.
const VARIATION: (u64, u64) = (6, 3);

/// How much the times of requests vary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// The device serves in disorder.
    pub(super) is_lost: bool,
    /// Windows in a row that said the other.
    windows: u32,
    n: u32,
    /// Sums of times and of their squares, in 1024 ns.
    t: u64,
    tt: u64,
}

impl Order {
    /// Returns what is known of a device that was not seen yet.
    pub(super) const fn new() -> Self {
        Self { is_lost: false, windows: 0, n: 0, t: 0, tt: 0 }
    }

    /// Notes that a request took so many nanoseconds. A window begins with one that took long: on
    /// a fast device none does, and nothing is summed. Returns true if enough were noted.
    #[inline]
    pub(super) fn note(&mut self, time: u64) -> bool {
        if self.n == 0 && time < MIN_SLOW_MEAN {
            return false;
        }
        let t = time >> 10;
        self.n += 1;
        self.t += t;
        self.tt += t * t;
        self.n >= WINDOW
    }

    /// Decides from what was noted. Returns true if the answer is another one.
    pub(super) fn decide(&mut self) -> bool {
        let Self { is_lost, windows, n, t, tt } = *self;
        let n = u64::from(n);
        let limit = if is_lost { VARIATION.1 } else { VARIATION.0 };
        let varies = t >= n * (MIN_SLOW_MEAN >> 10)
            && u128::from(n * 8) * u128::from(tt)
                > u128::from(t) * u128::from(t) * u128::from(8 + limit);
        let windows = if varies == is_lost { 0 } else { windows + 1 };
        let changes = windows == WINDOWS;
        *self = Self { is_lost: is_lost != changes, windows: windows % WINDOWS, ..Self::new() };
        changes
    }
}
