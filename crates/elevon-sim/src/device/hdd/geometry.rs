//! The position of a sector: its radius and angle, and how long the arm takes to get there.
//! Integers only.
//!
//! The *track time* of a sector is the time to read from sector 0 up to it at media rate. It grows
//! with the sector, so ranges can be compared by it. Its remainder by a turn is the sector's angle
//! (tracks are skewed so that reading from one to the next loses no time), and the difference of
//! two track times is the time to read from one to the other.

use elevon_core::units::{Bytes, Nanos, SECTOR_SIZE, Sector, Sectors};

/// log2 of the number of zones of a disk; each has its own track capacity.
const ZONES_SHIFT: u32 = 10;
const ZONES: u64 = 1 << ZONES_SHIFT;
/// log2 of the entries of the seek table.
const SEEK_SHIFT: u32 = 11;
/// Fraction bits of nanoseconds per sector.
const RATE_SHIFT: u32 = 20;

/// Seek time over distance `d`, a fraction of the full stroke: `base + root * sqrt(d)` up to
/// `split`, `far_base + far_slope * d` beyond (the form of Ruemmler and Wilkes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeekCurve {
    /// Constant of short seeks.
    pub base: Nanos,
    /// Factor of the root of short seeks.
    pub root: Nanos,
    /// Thousandths of the stroke where long seeks begin.
    pub split_permille: u64,
    /// Constant of long seeks.
    pub far_base: Nanos,
    /// Slope of long seeks.
    pub far_slope: Nanos,
}

impl SeekCurve {
    /// Returns the seek time for a distance in 2^-32 of the stroke; 0 for no distance.
    pub fn time(&self, distance: u64) -> Nanos {
        let scale = |span: Nanos, by: u64| ((u128::from(span.get()) * u128::from(by)) >> 32) as u64;
        if distance == 0 {
            Nanos::ZERO
        } else if distance * 1000 <= self.split_permille << 32 {
            self.base + Nanos::new(scale(self.root, (distance << 32).isqrt()))
        } else {
            self.far_base + Nanos::new(scale(self.far_slope, distance))
        }
    }
}

/// The position of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SectorPosition {
    /// Track time, ns.
    pub(super) track_time: u64,
    /// Distance from the outer edge, in 2^-32 of the stroke.
    pub(super) x: u32,
    /// Track time modulo a turn, ns.
    pub(super) angle: u32,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    track_time: u64,
    /// Nanoseconds per sector, with `RATE_SHIFT` fraction bits.
    pace: u64,
    x: u32,
    /// Stroke per sector, with 32 fraction bits more.
    x_pace: u64,
}

/// The time of a seek and the margin after it, and the same modulo a turn.
#[derive(Clone, Copy, Debug)]
struct Reach {
    time: u32,
    turned: u32,
}

/// The tables of one drive.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    zones: Vec<Zone>,
    zone_sectors: u64,
    reaches: Vec<Reach>,
    on_track: Reach,
    /// Distances up to this are within a track: no seek is needed.
    track_x: u32,
    turn: u32,
    total: u64,
}

impl Geometry {
    /// `inner_permille`: media rate at the inner edge, in thousandths of `outer_rate` (bytes per
    /// second).
    pub(super) fn new(
        size: Sectors,
        rpm: u32,
        outer_rate: Bytes,
        inner_permille: u64,
        seek: &SeekCurve,
        margin: Nanos,
    ) -> Self {
        let turn = (60_000_000_000 / u64::from(rpm)) as u32;
        let zone_sectors = size.get().div_ceil(ZONES).max(1);
        let mut track_time = 0;
        let zones = (0..ZONES)
            .map(|i| {
                let (x, next_x) =
                    (stroke(2 * i, inner_permille), stroke(2 * i + 2, inner_permille));
                let rate = (u128::from(outer_rate.get())
                    * u128::from(pace_left(2 * i + 1, inner_permille)))
                    >> 32;
                let pace = ((u128::from(SECTOR_SIZE) * 1_000_000_000) << RATE_SHIFT) / rate.max(1);
                let zone = Zone {
                    track_time,
                    pace: pace as u64,
                    x: x as u32,
                    x_pace: ((next_x - x) << 32) / zone_sectors,
                };
                track_time += (zone_sectors * zone.pace) >> RATE_SHIFT;
                zone
            })
            .collect();
        let reach = |time: Nanos| {
            let time = (time + margin).get() as u32;
            Reach { time, turned: time % turn }
        };
        let entry = |i: u64| reach(seek.time((2 * i + 1) << (31 - SEEK_SHIFT)));
        Self {
            zones,
            zone_sectors,
            reaches: (0..1 << SEEK_SHIFT).map(entry).collect(),
            on_track: reach(Nanos::ZERO),
            track_x: ((u128::from(turn) << 32) / u128::from(track_time.max(1)))
                .min(u128::from(u32::MAX)) as u32,
            turn,
            total: track_time,
        }
    }

    /// Returns the position of `sector`. Costs one division.
    pub(super) fn locate(&self, sector: Sector) -> SectorPosition {
        let index = (sector.get() / self.zone_sectors).min(ZONES - 1);
        let (zone, offset) =
            (&self.zones[index as usize], sector.get() - index * self.zone_sectors);
        let track_time = zone.track_time + ((offset * zone.pace) >> RATE_SHIFT);
        let x = u64::from(zone.x) + ((offset * zone.x_pace) >> 32);
        SectorPosition {
            track_time,
            x: x.min(u64::from(u32::MAX)) as u32,
            angle: (track_time % u64::from(self.turn)) as u32,
        }
    }

    /// Returns the time to read `sectors` at the rate around `sector`, in ns.
    pub(super) fn read_time(&self, sector: Sector, sectors: Sectors) -> u64 {
        let index = (sector.get() / self.zone_sectors).min(ZONES - 1);
        (sectors.get() * self.zones[index as usize].pace) >> RATE_SHIFT
    }

    /// Returns the time of one turn, ns.
    pub(super) fn turn(&self) -> u32 {
        self.turn
    }

    /// Returns the track time of the disk's end.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the nanoseconds until the head is at the target, from a moment when the platter is
    /// at `angle` and the arm at `x`: seek, margin, and the wait for the angle.
    #[inline]
    pub(super) fn positioning(&self, x: u32, angle: u32, target_x: u32, target_angle: u32) -> u32 {
        let distance = x.abs_diff(target_x);
        let reach = if distance <= self.track_x {
            self.on_track
        } else {
            self.reaches[(distance >> (32 - SEEK_SHIFT)) as usize]
        };
        let mut wait = target_angle + 2 * self.turn - angle - reach.turned;
        wait -= if wait >= 2 * self.turn { 2 * self.turn } else { 0 };
        wait -= if wait >= self.turn { self.turn } else { 0 };
        reach.time + wait
    }
}

/// The share of the outer rate that is left at LBA fraction `i / 2048`, in 2^-32: `sqrt(1 - f * (2k
/// - k^2))` with `k` = 1 - inner/outer.
fn pace_left(i: u64, inner_permille: u64) -> u64 {
    let k = 1000 - u128::from(inner_permille);
    let whole = 2 * u128::from(ZONES) * 1_000_000;
    let left = whole - u128::from(i) * (2000 * k - k * k);
    ((left << 64) / whole).isqrt() as u64
}

/// Stroke position of LBA fraction `i / 2048`, in 2^-32 and up to 2^32: `(1 - pace_left) / k`, the
/// fraction itself where k is 0.
fn stroke(i: u64, inner_permille: u64) -> u64 {
    match 1000 - inner_permille {
        0 => (i << 32) / (2 * ZONES),
        k => ((1 << 32) - pace_left(i, inner_permille)) * 1000 / k,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::{below, draw};

    const CURVE: SeekCurve = SeekCurve {
        base: Nanos::new(1_495_000),
        root: Nanos::new(11_413_000),
        split_permille: 200,
        far_base: Nanos::new(4_510_000),
        far_slope: Nanos::new(11_090_000),
    };

    fn drive() -> Geometry {
        let size = Sectors::new(1_953_525_168);
        Geometry::new(size, 7200, Bytes::new(175_000_000), 474, &CURVE, Nanos::from_micros(500))
    }

    #[test]
    fn seek_curve_by_hand() {
        let at = |d: f64| CURVE.time((d * 4294967296.0) as u64).get() as f64 / 1e6;
        assert_eq!(CURVE.time(0), Nanos::ZERO);
        for (d, ms) in [
            (0.0025, 1.495 + 11.413 * 0.05),
            (0.16, 1.495 + 11.413 * 0.4),
            (0.5, 4.51 + 5.545),
            (1.0, 15.6),
        ] {
            assert!((at(d) - ms).abs() < 1e-5, "{d}: {}", at(d));
        }
    }

    #[test]
    fn mean_seek_of_the_fitted_curve_is_7_9_ms() {
        let drive = drive();
        let seek = |i: u64| {
            let x =
                |purpose| drive.locate(Sector::new(below(draw(1, purpose, i), 1_953_525_168))).x;
            CURVE.time(x(0).abs_diff(x(1)).into()).get()
        };
        let mean = (0..100_000).map(seek).sum::<u64>() as f64 / 1e11;
        assert!((mean - 7.9).abs() < 0.15, "{mean}");
    }

    #[test]
    fn outer_and_inner_rates_are_the_parameters() {
        let drive = drive();
        let rate =
            |sector| 1e9 * 512e3 / drive.read_time(Sector::new(sector), Sectors::new(1000)) as f64;
        assert!((rate(0) / 175e6 - 1.0).abs() < 0.001, "{}", rate(0));
        assert!(
            (rate(1_953_525_000) / (0.474 * 175e6) - 1.0).abs() < 0.002,
            "{}",
            rate(1_953_525_000)
        );
        let middle = drive.locate(Sector::new(1_953_525_168 / 2));
        assert!((f64::from(middle.x) / 4294967296.0 - 0.4138).abs() < 0.001, "{}", middle.x);
    }

    #[test]
    fn places_are_monotone_and_angles_turn() {
        let drive = drive();
        let mut last = drive.locate(Sector::ZERO);
        for sector in (1..1_953_525_168).step_by(9_973_117) {
            let place = drive.locate(Sector::new(sector));
            assert!(
                place.x >= last.x
                    && place.track_time > last.track_time
                    && place.angle < drive.turn()
            );
            last = place;
        }
        assert!(last.track_time < drive.total());
    }

    /// Compares with the formula: seek, margin, then the wait for the angle.
    #[test]
    fn positioning_agrees_with_the_formula() {
        let drive = drive();
        let turn = u64::from(drive.turn());
        for i in 0..20_000 {
            let place =
                |purpose| drive.locate(Sector::new(below(draw(3, purpose, i), 1_953_525_168)));
            let (from, to) = (place(0), place(1));
            let angle = below(draw(3, 2, i), turn);
            let got = u64::from(drive.positioning(from.x, angle as u32, to.x, to.angle));
            let quantised = (u64::from(from.x.abs_diff(to.x)) >> 21 << 21) + (1 << 20);
            let reach = CURVE.time(quantised).get() + 500_000;
            let wait = (u64::from(to.angle) + 10 * turn - angle - reach) % turn;
            assert!(got == reach + wait || from.x.abs_diff(to.x) < 10_000, "{i}");
        }
    }
}
