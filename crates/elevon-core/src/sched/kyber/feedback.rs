//! Feedback: computes new depths from latencies and targets. It knows neither requests nor queues.
//!
//! Each domain with a target keeps two histograms in quarters of the target. *I/O* is of the time
//! in the driver, *total* of the time since allocation. The device is congested if the 90th
//! percentile of any domain's I/O time is late. Then a domain whose own total time (99th
//! percentile) is early gets less depth; a domain that is late gets more, congested or not.
//!
//! A quirk of Linux is reproduced: both histograms of a domain share one timeout. If fewer than 500
//! samples arrive per second, the I/O percentile consumes the timeout, and the total percentile
//! starts it again without a result. So a slow domain is adjusted by the last percentile from a
//! time without congestion, or after 500 requests.
//!
//! Another: a flush without data counts as a write whose I/O time is endless, because it was never
//! issued; its total time is its own. If fewer than nine writes precede each flush, the device
//! counts as congested whatever it does. The depth of writes, which are early, then falls to 1. On
//! Linux 6.18.44 one process that writes 4 KiB and flushes, on slots of 600 us, came from 128 to 1
//! in six steps and two seconds. A write in a flush sequence is an ordinary sample when its data is
//! written. Other versions were not measured.
//!
//! Cost: a sample O(1); an evaluation, ten times a second, O(domains · buckets).

use crate::jiffies::Hz;
use crate::units::Nanos;

/// Domains with a target.
pub(super) const DOMAINS: usize = 3;
/// One bucket for each quarter of the target up to twice the target; the last one contains all
/// above.
const BUCKETS: u64 = 8;
/// A latency in this bucket or above is late.
const FIRST_LATE_BUCKET: u32 = 4;
/// Samples needed for a percentile, unless it has waited for a second.
const MIN_SAMPLES: u32 = 500;

/// Number of latencies by bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Histogram([u32; BUCKETS as usize]);

impl Histogram {
    #[inline]
    fn add(&mut self, latency: Nanos, target: Nanos) {
        self.0[bucket(latency, target)] += 1;
    }

    /// Returns the bucket of a percentile, of at least one sample.
    fn percentile(&self, percent: u32) -> u32 {
        let samples: u64 = self.0.iter().copied().map(u64::from).sum();
        let rank = (samples * u64::from(percent)).div_ceil(100);
        let running = self.0.iter().scan(0, |sum, count| {
            *sum += u64::from(*count);
            Some(*sum)
        });
        running.take(BUCKETS as usize - 1).take_while(|sum| *sum < rank).count() as u32
    }
}

/// Returns the bucket of a latency: the quarter of the target in which it ends.
#[inline]
const fn bucket(latency: Nanos, target: Nanos) -> usize {
    let width = if target.get() < 4 { 1 } else { target.get() / 4 };
    let bucket = latency.get().saturating_sub(1) / width;
    if bucket < BUCKETS { bucket as usize } else { BUCKETS as usize - 1 }
}

/// State of a domain.
#[derive(Clone, Copy, Debug)]
struct Domain {
    target: Nanos,
    io: Histogram,
    total: Histogram,
    /// Tick from which fewer samples are enough for a percentile.
    timeout: Option<u64>,
    /// Last percentile of the total time while the device was not congested.
    remembered: Option<u32>,
}

/// The latencies of every domain with a target.
#[derive(Clone, Debug)]
pub(super) struct Feedback {
    domains: [Domain; DOMAINS],
}

/// Returns the percentile of a histogram and empties it, if it has enough samples or has waited
/// long enough for them.
fn percentile(
    histogram: &mut Histogram,
    timeout: &mut Option<u64>,
    percent: u32,
    tick: u64,
    hz: Hz,
) -> Option<u32> {
    let samples: u32 = histogram.0.iter().sum();
    if samples == 0 {
        return None;
    }
    let due = *timeout.get_or_insert(tick + hz.0);
    if samples < MIN_SAMPLES && tick < due {
        return None;
    }
    *timeout = None;
    Some(core::mem::take(histogram).percentile(percent))
}

impl Feedback {
    pub(super) fn new(targets: [Nanos; DOMAINS]) -> Self {
        let domain = |target| Domain {
            target,
            io: Histogram::default(),
            total: Histogram::default(),
            timeout: None,
            remembered: None,
        };
        Self { domains: targets.map(domain) }
    }

    pub(super) fn target(&self, domain: usize) -> Nanos {
        self.domains[domain].target
    }

    /// Sets a target. Samples so far stay in their buckets.
    pub(super) fn set_target(&mut self, domain: usize, target: Nanos) {
        self.domains[domain].target = target;
    }

    /// Adds the latencies of a completed request.
    #[inline]
    pub(super) fn sample(&mut self, domain: usize, io: Nanos, total: Nanos) {
        let domain = &mut self.domains[domain];
        domain.io.add(io, domain.target);
        domain.total.add(total, domain.target);
    }

    /// Returns how many quarters of its depth each domain gets; `None` for no change. `hz` ticks
    /// are a second.
    pub(super) fn evaluate(&mut self, tick: u64, hz: Hz) -> [Option<u32>; DOMAINS] {
        let mut congested = false;
        for domain in &mut self.domains {
            let io = percentile(&mut domain.io, &mut domain.timeout, 90, tick, hz);
            congested |= io.is_some_and(|bucket| bucket >= FIRST_LATE_BUCKET);
        }
        self.domains.each_mut().map(|domain| {
            let mut total = percentile(&mut domain.total, &mut domain.timeout, 99, tick, hz);
            if congested {
                total = total.or(domain.remembered);
                domain.remembered = None;
            } else if total.is_some() {
                domain.remembered = total;
            }
            total
                .filter(|bucket| congested || *bucket >= FIRST_LATE_BUCKET)
                .map(|bucket| bucket + 1)
        })
    }
}

#[cfg(test)]
mod tests {
    //! Worked examples of `block/kyber-iosched.c`: `add_latency_sample`, `calculate_percentile`,
    //! `kyber_resize_domain`, `kyber_timer_fn`.

    use super::super::tokens::Tokens;
    use super::*;

    const HZ: Hz = Hz(1000);
    const READ: usize = 0;
    const WRITE: usize = 1;
    const TARGETS: [Nanos; DOMAINS] =
        [Nanos::from_millis(2), Nanos::from_millis(10), Nanos::from_secs(5)];

    /// Returns a latency in the middle of a bucket.
    fn within(bucket: u64, target: Nanos) -> Nanos {
        Nanos::new(target.get() / 8 * (2 * bucket + 1))
    }

    impl Feedback {
        fn samples(&mut self, domain: usize, count: u32, io: u64, total: u64) {
            let target = self.target(domain);
            (0..count).for_each(|_| self.sample(domain, within(io, target), within(total, target)));
        }
    }

    #[test]
    fn buckets_of_read_latencies() {
        for (latency, expected) in
            [(0, 0), (1, 0), (500000, 0), (500001, 1), (2000000, 3), (2000001, 4), (10000000, 7)]
        {
            assert_eq!(bucket(Nanos::new(latency), TARGETS[READ]), expected, "{latency} ns");
        }
    }

    #[test]
    fn buckets_of_tiny_and_huge_targets() {
        for target in 0..8 {
            assert_eq!(
                bucket(Nanos::new(3), Nanos::new(target)),
                2,
                "a bucket is at least a nanosecond wide"
            );
        }
        assert_eq!(bucket(Nanos::new(u64::MAX), Nanos::new(u64::MAX)), 4);
        assert_eq!(bucket(Nanos::new(u64::MAX), Nanos::ZERO), 7);
    }

    #[test]
    fn percentile_of_500() {
        for (early, expected) in [(450, 0), (449, 7)] {
            let mut histogram = Histogram([early, 0, 0, 0, 0, 0, 0, 500 - early]);
            let mut timeout = None;
            assert_eq!(percentile(&mut histogram, &mut timeout, 90, 0, HZ), Some(expected));
            assert_eq!((histogram, timeout), (Histogram::default(), None), "emptied");
        }
    }

    #[test]
    fn percentiles_against_sorted_latencies() {
        let mut rng = elevon_testkit::Rng(1);
        for _ in 0..500 {
            let mut below = |bound: u64| rng.below(bound);
            let count = 1 + below(40);
            let spread = 1 + below(8_000_000);
            let mut latencies: alloc::vec::Vec<u64> = (0..count).map(|_| below(spread)).collect();
            let mut histogram = Histogram::default();
            latencies.iter().for_each(|ns| histogram.add(Nanos::new(*ns), TARGETS[READ]));
            latencies.sort_unstable();
            for percent in [1, 50, 90, 99, 100] {
                let nth = latencies[(count * percent).div_ceil(100) as usize - 1];
                let quarters = (1..8).filter(|quarter| nth > quarter * 500_000).count() as u32;
                assert_eq!(
                    histogram.percentile(percent as u32),
                    quarters,
                    "{percent} % of {latencies:?}"
                );
            }
        }
    }

    /// Returns the depth of a domain after an evaluation with 500 samples in these buckets.
    fn depth_after(domain: usize, depth: u32, io: u64, total: u64) -> u32 {
        let mut feedback = Feedback::new(TARGETS);
        feedback.samples(domain, 500, io, total);
        let mut tokens = Tokens::new([256, 128, 64][domain]);
        tokens.set_depth(depth);
        if let Some(quarters) = feedback.evaluate(0, HZ)[domain] {
            tokens.scale(quarters);
        }
        tokens.depth()
    }

    #[test]
    fn depth_of_a_congested_domain() {
        for (total, depth) in [(2, 192), (0, 64), (5, 256)] {
            assert_eq!(depth_after(READ, 256, 4, total), depth);
        }
    }

    #[test]
    fn depth_where_nothing_is_congested() {
        for (total, depth) in [(4, 80), (2, 64), (7, 128)] {
            assert_eq!(depth_after(WRITE, 64, 3, total), depth);
        }
    }

    #[test]
    fn the_remembered_percentile_serves_once() {
        let mut feedback = Feedback::new(TARGETS);
        feedback.samples(WRITE, 500, 0, 1);
        assert_eq!(feedback.evaluate(0, HZ), [None; 3], "early and not congested");
        for expected in [Some(2), None] {
            feedback.samples(READ, 500, 7, 3);
            assert_eq!(feedback.evaluate(100, HZ), [Some(4), expected, None]);
        }
    }

    #[test]
    fn a_depth_is_never_below_one() {
        for total in 0..4 {
            assert_eq!(depth_after(READ, 1, 7, total), 1);
        }
        assert_eq!(depth_after(READ, 1, 7, 7), 2);
    }

    #[test]
    fn few_samples_wait_for_a_second() {
        let mut feedback = Feedback::new(TARGETS);
        let mut left = 499;
        for tick in (100..=1000).step_by(100) {
            let count = left.min(56);
            left -= count;
            feedback.samples(READ, count, 7, 7);
            assert_eq!(feedback.evaluate(tick, HZ), [None; 3], "at {tick} ms");
            assert_eq!(feedback.domains[READ].timeout, Some(1100), "at {tick} ms");
        }
        assert_eq!(left, 0);
        // The I/O percentile is available and ends the timeout; the total percentile begins another
        // and has to wait.
        assert_eq!(feedback.evaluate(1100, HZ), [None; 3]);
        assert_eq!(feedback.domains[READ].io, Histogram::default());
        assert_eq!(feedback.domains[READ].total.0, [0, 0, 0, 0, 0, 0, 0, 499]);
        assert_eq!(feedback.domains[READ].timeout, Some(2100));
        // With one more sample the totals are enough by themselves; they are late, so congestion
        // does not matter.
        feedback.samples(READ, 1, 0, 0);
        assert_eq!(feedback.evaluate(1200, HZ), [Some(8), None, None]);
    }
}
