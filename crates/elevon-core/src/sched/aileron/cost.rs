//! What a request costs: how long it takes in the device by itself, as the device has shown it.
//!
//! For each direction the time is a line over the size, `base + slope · sectors`. It is fitted by
//! least squares to requests that had the device for themselves. Until such are known, all requests
//! count. On a disk, which does one request at a time, the time is that from the end of the request
//! before, and requests that follow the one before have lines of their own.
//! Requests that merge may all have one size while they go alone, and smaller ones go later: their
//! slope is that from small requests of the other direction.
//!
//! Cost: a few additions for each completion, a fit for every [`BATCH`] of them.

use crate::op::Op;

/// Requests between two fits, once the model is warm.
const BATCH: u64 = 32;
/// Weight of requests from which on older ones count less: some hundred requests alone.
const MEMORY: u64 = 1024;
/// Weight of a request that was alone.
pub(super) const ALONE: u64 = 8;
/// log2 of the fixed point of the slope.
const SLOPE_SHIFT: u32 = 10;
/// The cost of a request before any has ended: 200 us and 1 GB/s.
const BASE_PRIOR: u64 = 200_000;
const SLOPE_PRIOR: u64 = 512 << SLOPE_SHIFT;
/// Weight of the slope before, as a variance of sizes in square sectors: sizes that differ by a
/// page say nothing about a slope.
const RIDGE: i128 = 64;
/// Requests of one size that are more than so many times as large as those of the other direction
/// have the slope from the others to them.
const MUCH_LARGER: u64 = 8;
/// The longest time in the device that counts as it is, in nanoseconds: two seconds.
const MAX_TIME: u64 = 1 << 31;

/// Lines: of reads, writes and what moves no data, and of reads and writes that follow the request
/// before, in this order.
const LINES: usize = 5;

/// What moves between memory and the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Direction {
    /// Data to memory.
    #[default]
    Read,
    /// Data to the device.
    Write,
    /// Nothing.
    NoData,
}

impl Direction {
    /// Returns the direction of an operation.
    pub(super) const fn from_op(op: Op) -> Self {
        match op {
            Op::Read => Self::Read,
            Op::Write | Op::ZoneAppend => Self::Write,
            Op::Discard | Op::Flush | Op::SecureErase | Op::WriteZeroes => Self::NoData,
        }
    }

    /// Returns the line of a request, and the one that stands for it until it is known itself;
    /// `is_next`: it follows the one before.
    #[inline]
    const fn lines(self, is_next: bool) -> (usize, usize) {
        match (self, is_next) {
            (Self::Read, false) => (0, 1),
            (Self::Write, false) => (1, 0),
            (Self::NoData, _) => (2, 2),
            (Self::Read, true) => (3, 0),
            (Self::Write, true) => (4, 1),
        }
    }
}

/// Sums over requests of (sectors x, time y), newer ones counting more.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    n: u64,
    x: u64,
    y: u64,
    xx: u64,
    xy: i128,
}

impl Sums {
    fn add(&mut self, x: u64, y: u64, weight: u64) {
        if self.n >= MEMORY {
            let Self { n, x, y, xx, xy } = *self;
            *self = Self { n: n / 2, x: x / 2, y: y / 2, xx: xx / 2, xy: xy / 2 };
        }
        self.n += weight;
        self.x += weight * x;
        self.y += weight * y;
        self.xx += weight * x * x;
        self.xy += i128::from(weight * x) * i128::from(y);
    }

    /// Returns the slope from the mean of much smaller requests to the mean of these.
    fn slope_from(&self, other: &Self) -> Option<u64> {
        let mean = |sums: &Self| (sums.x / sums.n, sums.y / sums.n);
        let ((x, y), (sectors, time)) = (mean(self), mean(other));
        (x > MUCH_LARGER * sectors && y > time).then(|| ((y - time) << SLOPE_SHIFT) / (x - sectors))
    }

    /// Returns base and slope of the line through these requests. Where sizes do not differ, the
    /// slope is `before`.
    fn fit(&self, before: u64) -> (u64, u64) {
        let [n, x, y, xx] = [self.n, self.x, self.y, self.xx].map(i128::from);
        let ridge = RIDGE * n * n;
        // Sums that were halved are rounded, which can leave a variance below zero.
        let (variance, covariance) = ((n * xx - x * x).max(0) + ridge, n * self.xy - x * y);
        let slope = ((covariance << SLOPE_SHIFT) + ridge * i128::from(before)) / variance;
        // Of the mean time a base is left. At most MEMORY + 8 times of MAX_TIME are below 2^42.
        let steepest = ((self.y * 31 / 32) << SLOPE_SHIFT).checked_div(self.x);
        let slope = (slope.max(0) as u64).min(steepest.unwrap_or(u64::MAX));
        let base = (self.y - ((slope * self.x) >> SLOPE_SHIFT)) / self.n;
        (base.max(1), slope)
    }
}

/// A line.
#[derive(Clone, Copy, Debug)]
struct Line {
    base: u64,
    slope: u64,
    /// Requests that were alone, or all while too few of those are known.
    sums: Sums,
    is_known: bool,
    /// Requests since the last fit.
    fresh: u64,
}

/// The cost model of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct CostModel {
    lines: [Line; LINES],
}

impl CostModel {
    pub(super) fn new() -> Self {
        let line = Line {
            base: BASE_PRIOR,
            slope: SLOPE_PRIOR,
            sums: Sums::default(),
            is_known: false,
            fresh: 0,
        };
        Self { lines: [line; LINES] }
    }

    /// Returns the time in nanoseconds that a request takes in the device by itself, at least 1.
    /// `is_next`: it begins where the one before it ends, on a disk.
    #[inline]
    pub(super) fn of(&self, direction: Direction, sectors: u64, is_next: bool) -> u64 {
        let (own, other) = direction.lines(is_next);
        let (own, other) = (&self.lines[own], &self.lines[other]);
        // What is known of the other direction is better than what includes waiting.
        let line = if !own.is_known && other.is_known { other } else { own };
        let of_data = if direction == Direction::NoData { 0 } else { line.slope * sectors };
        line.base + (of_data >> SLOPE_SHIFT)
    }

    /// Returns true if requests of a direction were seen alone.
    pub(super) const fn is_known(&self, direction: Direction) -> bool {
        self.lines[direction.lines(false).0].is_known
    }

    /// Learns from a request that was in the device for `time` nanoseconds. Its weight is
    /// [`ALONE`], 1 if nothing was in its way, as far as is known, or 0 if it may have waited.
    pub(super) fn learn(
        &mut self,
        direction: Direction,
        sectors: u64,
        is_next: bool,
        time: u64,
        weight: u64,
    ) {
        let has_data = direction != Direction::NoData;
        let sectors = if has_data { sectors } else { 0 };
        let (own, other) = direction.lines(is_next);
        let other = self.lines[other];
        let line = &mut self.lines[own];
        if line.is_known && weight == 0 {
            return;
        }
        if !line.is_known && weight > 0 {
            // The slope of requests that wait says nothing about those that do not.
            (line.sums, line.slope, line.is_known) = (Sums::default(), SLOPE_PRIOR, true);
        }
        line.sums.add(sectors, time.clamp(1, MAX_TIME), weight.max(1));
        line.fresh += 1;
        if weight == ALONE || line.fresh >= BATCH.min(line.sums.n / 4) {
            line.fresh = 0;
            let is_other = line.is_known && other.is_known && has_data;
            let slope = if is_other { line.sums.slope_from(&other.sums) } else { None };
            (line.base, line.slope) = line.sums.fit(slope.unwrap_or(line.slope));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevon_testkit::Rng;

    fn near(got: u64, due: u64, percent: u64) -> bool {
        got.abs_diff(due) * 100 <= due * percent
    }

    /// Requests of one size have no variance of sizes, whatever halving the sums leaves of it.
    #[test]
    fn requests_of_one_size_are_fitted_at_any_number() {
        for sectors in [1, 8, 33, 256, 2561, 65535] {
            let mut sums = Sums::default();
            for n in 0..20_000_u64 {
                sums.add(sectors, 80_000 + sectors * 100, 1 + n % 9);
                let (base, slope) = sums.fit(SLOPE_PRIOR);
                let time = base + ((slope * sectors) >> SLOPE_SHIFT);
                assert!(
                    time.abs_diff(80_000 + sectors * 100) < 10_000 + sectors * 20,
                    "{n} of {sectors}: {time}"
                );
            }
        }
    }

    #[test]
    fn a_line_is_found_in_noise_and_behind_waiting() {
        for waiting in [0, 3_000_000] {
            let mut rng = Rng(3);
            let mut model = CostModel::new();
            for n in 0..3000 {
                let sectors = 8 << rng.below(8);
                let exact = 150_000 + 900 * sectors;
                let alone = n % 50 == 0;
                let wait = if alone { 0 } else { waiting };
                let weight = if alone { ALONE } else { 0 };
                model.learn(
                    Direction::Read,
                    sectors,
                    false,
                    wait + exact * (90 + rng.below(21)) / 100,
                    weight,
                );
            }
            for sectors in [8, 64, 1024] {
                let (got, due) =
                    (model.of(Direction::Read, sectors, false), 150_000 + 900 * sectors);
                assert!(
                    near(got, due, 12),
                    "{sectors} sectors behind {waiting}: {got} instead of {due}"
                );
            }
            assert_eq!(
                model.of(Direction::NoData, 0, false),
                BASE_PRIOR,
                "what moves no data has a line of its own"
            );
        }
    }

    /// Large requests that have waited behind others say nothing about how much longer they take.
    #[test]
    fn what_waits_leaves_no_trace_once_others_are_known() {
        let mut model = CostModel::new();
        for _ in 0..32 {
            model.learn(Direction::Read, 8, false, 20_000_000, 0);
            model.learn(Direction::Read, 128, false, 40_000_000, 0);
        }
        assert!(!model.is_known(Direction::Read));
        (0..4).for_each(|_| model.learn(Direction::Read, 8, false, 2_000_000, ALONE));
        assert!(model.is_known(Direction::Read));
        let large = model.of(Direction::Read, 128, false);
        assert!(large < 3_000_000, "{large}");
    }

    /// Requests that merge become as large as they may, and go one at a time at that size. What
    /// smaller ones of them take is seen of small requests of the other direction.
    #[test]
    fn one_large_size_and_a_small_one_of_the_other_direction_make_a_line() {
        let mut model = CostModel::new();
        let exact = |sectors: u64| 2_000_000 + 1_000 * sectors;
        for _ in 0..8 {
            model.learn(Direction::Read, 8, false, exact(8), ALONE);
            model.learn(Direction::Write, 1024, false, exact(1024), ALONE);
        }
        for sectors in [128, 512, 2560] {
            let write = model.of(Direction::Write, sectors, false);
            assert!(near(write, exact(sectors), 1), "{sectors}: {write}");
        }
    }

    /// What moves no data has no size: a longer one says nothing about a slope.
    #[test]
    fn requests_without_data_have_no_slope() {
        let mut model = CostModel::new();
        for time in [1_000, 50_000, 90_000, 200_000] {
            model.learn(Direction::NoData, 64, false, time, ALONE);
        }
        let of = |sectors| model.of(Direction::NoData, sectors, false);
        assert_eq!(of(8), of(8_000));
    }

    #[test]
    fn one_size_alone_is_met_after_two_requests_and_followed() {
        let mut model = CostModel::new();
        (0..2).for_each(|_| {
            model.learn(Direction::Write, 512, false, 2_500_000, ALONE);
        });
        assert!(
            near(model.of(Direction::Write, 512, false), 2_500_000, 1),
            "{}",
            model.of(Direction::Write, 512, false)
        );
        for _ in 0..40 {
            model.learn(Direction::Write, 512, false, 25_000_000, ALONE);
        }
        assert!(
            near(model.of(Direction::Write, 512, false), 25_000_000, 5),
            "{}",
            model.of(Direction::Write, 512, false)
        );
        // Shorter than the prior slope allows for.
        let mut fast = CostModel::new();
        (0..200).for_each(|_| fast.learn(Direction::Read, 2048, false, 30_000, ALONE));
        assert!(
            near(fast.of(Direction::Read, 2048, false), 30_000, 5),
            "{}",
            fast.of(Direction::Read, 2048, false)
        );
    }
}
