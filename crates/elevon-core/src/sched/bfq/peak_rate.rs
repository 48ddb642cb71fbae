//! The device's peak rate, measured from dispatched requests; it determines the largest budget and
//! the duration of raising.
//!
//! Requests are collected into intervals of up to a second. An interval has more influence if it is
//! longer and if more of its requests are sequential and back to back. An interval that is slower
//! than the known rate and not mostly sequential is ignored.

use crate::units::{Instant, Nanos};

/// Fractional bits of a rate in sectors per microsecond.
pub(super) const RATE_SHIFT: u32 = 16;
/// Minimum number of requests in an interval that is used.
const SAMPLES_MIN: u64 = 32;
const INTERVAL_MIN: Nanos = Nanos::from_millis(300);
const INTERVAL_FULL: Nanos = Nanos::from_secs(1);
/// A pause of an idle device that ends an interval.
const PAUSE: Nanos = Nanos::from_millis(100);
/// A request within this time after a completion counts as back to back.
pub(super) const BACK_TO_BACK: Nanos = Nanos::from_millis(2);
/// Rates above 10 GB/s are not plausible and are ignored.
const RATE_MAX: u64 = 20 << RATE_SHIFT;

/// Initial rate of an unknown device, and the duration of its reference work, for raising.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    pub(super) rate: u64,
    pub(super) raise_ms: u64,
}

impl Reference {
    pub(super) const fn from_rotational(rotational: bool) -> Self {
        if rotational {
            Self { rate: 14000, raise_ms: 7000 }
        } else {
            Self { rate: 33000, raise_ms: 2500 }
        }
    }
}

/// The estimate and the current interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeakRate {
    /// Sectors per microsecond, 16 fractional bits.
    pub(super) rate: u64,
    samples: u64,
    sequential: u64,
    sectors: u64,
    first: Instant,
    last: Instant,
    /// Largest of the last 32 requests.
    largest: u64,
}

impl PeakRate {
    pub(super) const fn new(reference: Reference) -> Self {
        let rate = reference.rate * 2 / 3;
        let (first, last) = (Instant::ZERO, Instant::ZERO);
        Self { rate, samples: 0, sequential: 0, sectors: 0, first, last, largest: 0 }
    }

    fn restart(&mut self, now: Instant, sectors: u64) {
        (self.samples, self.sequential, self.sectors, self.largest, self.first) =
            (1, 0, sectors, sectors, now);
    }

    /// Adds a dispatched request, with `in_flight` others in the device. `last_completion` is
    /// `None` if no request has completed yet. Returns true if the rate changed.
    pub(super) fn on_dispatch(
        &mut self,
        now: Instant,
        sectors: u64,
        seeky: bool,
        in_flight: u32,
        last_completion: Option<Instant>,
    ) -> bool {
        let mut changed = false;
        if self.samples == 0 {
            self.restart(now, sectors);
        } else if in_flight == 0 && now.since(self.last) > PAUSE {
            changed = self.close(last_completion);
            self.restart(now, sectors);
        } else {
            self.samples += 1;
            let follows = last_completion.is_some_and(|last| now.since(last) < BACK_TO_BACK);
            if (in_flight > 0 || follows) && !seeky {
                self.sequential += 1;
            }
            self.sectors += sectors;
            self.largest =
                if self.samples.is_multiple_of(32) { sectors } else { self.largest.max(sectors) };
            if now.since(self.first) >= INTERVAL_FULL {
                self.last = now;
                changed = self.close(last_completion);
                self.restart(now, sectors);
            }
        }
        self.last = now;
        changed
    }

    /// Handles a completion. A gap since the one before so long that even the largest recent
    /// request would be very slow ends the interval. The kernel counts the first completion from
    /// the boot, which is such a gap. Returns true if the rate changed.
    pub(super) fn on_completion(&mut self, now: Instant, last_completion: Option<Instant>) -> bool {
        let slow = last_completion.is_none_or(|last| {
            let gap = now.since(last);
            gap > BACK_TO_BACK && (self.largest << RATE_SHIFT) / gap.as_micros().max(1) < 64
        });
        if !slow {
            return false;
        }
        let changed = self.close(last_completion);
        self.samples = 0;
        changed
    }

    /// Ends the interval and updates the rate according to its influence.
    #[inline(never)]
    fn close(&mut self, last_completion: Option<Instant>) -> bool {
        let length = self.last.since(self.first);
        if self.samples < SAMPLES_MIN || length < INTERVAL_MIN {
            return false;
        }
        let completed = last_completion.map_or(0, |last| last.since(self.first).get());
        let length = length.get().max(completed);
        self.learn(self.samples, self.sequential, self.sectors, length)
    }

    fn learn(&mut self, samples: u64, sequential: u64, sectors: u64, length_ns: u64) -> bool {
        let rate = (sectors << RATE_SHIFT) / (length_ns / 1000).max(1);
        if (sequential < 3 * samples / 4 && rate <= self.rate) || rate > RATE_MAX {
            return false;
        }
        let weight = (9 * sequential / samples).min(8);
        let weight = (weight * length_ns / 1_000_000_000).min(8);
        let divisor = 10 - weight;
        self.rate = (self.rate * (divisor - 1) / divisor + rate / divisor).max(1);
        true
    }

    /// Returns how many sectors can be served in `timeout_ms` at the peak rate.
    pub(super) const fn sectors_in(&self, timeout_ms: u64) -> u64 {
        (self.rate * 1000 * timeout_ms) >> RATE_SHIFT
    }

    /// Returns how long interactive raising lasts: the reference work at this device's rate, 3 to
    /// 25 s.
    pub(super) const fn raise_ms(&self, reference: Reference) -> u64 {
        let ms = reference.rate * reference.raise_ms / self.rate;
        if ms < 3000 {
            3000
        } else if ms > 25_000 {
            25_000
        } else {
            ms
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_believed_by_length_and_order() {
        for (n, q, sectors, ms, rate) in [
            (1000, 999, 1_000_000, 1000, 43768),
            (1000, 0, 1_000_000, 1000, 26353),
            (1000, 0, 100_000, 1000, 22000),
            (1000, 750, 200_000, 1000, 19776),
            (1000, 600, 250_000, 500, 23346),
        ] {
            let mut peak =
                PeakRate { rate: 22000, ..PeakRate::new(Reference::from_rotational(false)) };
            peak.learn(n, q, sectors, ms * 1_000_000);
            assert_eq!(peak.rate, rate, "{q} of {n} sequential, {sectors} sectors in {ms} ms");
        }
    }

    #[test]
    fn too_short_or_too_few_says_nothing() {
        let at = |ms: u64| Instant::ZERO + Nanos::from_millis(ms);
        for (count, step, expected) in [(31, 10, false), (40, 7, false), (40, 8, true)] {
            let mut peak = PeakRate::new(Reference::from_rotational(false));
            for i in 0..count {
                peak.on_dispatch(at(i * step), 4096, false, 1, Some(at(i * step)));
            }
            // The pause closes the interval.
            let last = (count - 1) * step;
            assert_eq!(
                peak.on_dispatch(at(last + 101), 8, false, 0, Some(at(last))),
                expected,
                "{count} every {step} ms"
            );
        }
    }

    /// As measured on Linux 7.3: the largest budget changes a second after the first completion.
    #[test]
    fn the_first_completion_ends_the_first_interval() {
        let at = |ms: u64| Instant::ZERO + Nanos::from_millis(ms);
        let mut peak = PeakRate::new(Reference::from_rotational(false));
        peak.on_dispatch(at(0), 128, false, 0, None);
        peak.on_completion(at(1), None);
        assert_eq!(peak.samples, 0);
        peak.on_dispatch(at(2), 128, false, 0, Some(at(1)));
        peak.on_completion(at(3), Some(at(1)));
        assert_eq!(peak.samples, 1);
    }

    #[test]
    fn a_second_closes_an_interval_and_its_last_request_opens_the_next() {
        let mut peak = PeakRate::new(Reference::from_rotational(false));
        let changed: u32 = (0..=100u64)
            .map(|i| Instant::ZERO + Nanos::from_millis(i * 10))
            .map(|now| u32::from(peak.on_dispatch(now, 1000, false, 1, Some(now))))
            .sum();
        assert_eq!((changed, peak.samples, peak.sectors), (1, 1, 1000));
        // 101000 sectors in 1 s = 6619; nearly all sequential: k = 8, D = 2.
        assert_eq!(peak.rate, 11000 + 6619 / 2);
    }

    #[test]
    fn budgets_and_raising_from_the_rate() {
        let of = |rate| PeakRate { rate, ..PeakRate::new(Reference::from_rotational(false)) };
        for (rate, ms, sectors) in [
            (22000, 125, 41961),
            (9333, 125, 17801),
            (33000, 125, 62942),
            (14000, 125, 26702),
            (22000, 124, 41625),
        ] {
            assert_eq!(of(rate).sectors_in(ms), sectors);
        }
        for (rotational, rate, ms) in [
            (false, 22000, 3750),
            (false, 33000, 3000),
            (false, 11000, 7500),
            (false, 2000, 25000),
            (true, 9333, 10500),
            (true, 14000, 7000),
            (true, 4000, 24500),
        ] {
            assert_eq!(of(rate).raise_ms(Reference::from_rotational(rotational)), ms, "{rate}");
        }
        assert_eq!(
            (
                PeakRate::new(Reference::from_rotational(false)).rate,
                PeakRate::new(Reference::from_rotational(true)).rate
            ),
            (22000, 9333)
        );
    }
}
