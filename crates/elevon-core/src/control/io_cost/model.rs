//! The cost of an I/O: the linear model of `io.cost.model`, its presets, and their quality of
//! service.

use crate::units::{Nanos, PAGE_SIZE, Sector};

/// An I/O is random if it starts further than this from the end of its tenant's last one: 16 MiB,
/// as in Linux.
pub const RANDOM_DISTANCE: u64 = 16 << 20;

/// The coefficients of `io.cost.model`: the rates of a device that does only one thing. 0 omits
/// that part of the cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coefficients {
    /// Sequential reads, bytes per second.
    pub rbps: u64,
    /// Sequential 4 KiB reads per second.
    pub rseqiops: u64,
    /// Random 4 KiB reads per second.
    pub rrandiops: u64,
    /// Sequential writes, bytes per second.
    pub wbps: u64,
    /// Sequential 4 KiB writes per second.
    pub wseqiops: u64,
    /// Random 4 KiB writes per second.
    pub wrandiops: u64,
}

/// `io.cost.qos`: when the device counts as overloaded, and how far its speed may be corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qos {
    /// Whether io.cost controls the device.
    pub enable: bool,
    /// Share of reads that have to meet `rlat`, in hundredths of a percent, 0..=10000; 0 ignores
    /// reads.
    pub rpct: u32,
    /// Latency that reads have to meet, from allocation to completion, minus the cost of their
    /// size.
    pub rlat: Nanos,
    /// As `rpct`, for writes.
    pub wpct: u32,
    /// As `rlat`, for writes.
    pub wlat: Nanos,
    /// Lowest speed of the device's clock, in hundredths of a percent; clamped to 1.00 % ..
    /// 10000.00 %.
    pub min: u32,
    /// Highest speed, in the same unit and range.
    pub max: u32,
}

/// Why a quality of service was refused; nothing is changed in this case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosError {
    /// A share of I/Os is above 100 %.
    Percentile,
    /// `min` is above `max`.
    MinAboveMax,
}

impl core::fmt::Display for QosError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Percentile => "rpct and wpct are percentages: 0.00 to 100.00",
            Self::MinAboveMax => {
                "min is above max: give min=1.00 to 10000.00, and max at least that"
            }
        })
    }
}
impl core::error::Error for QosError {}

/// Bounds of `min` and `max`, in hundredths of a percent.
const RATE_BOUNDS: (u32, u32) = (100, 1_000_000);

impl Qos {
    pub(super) fn checked(mut self) -> Result<Self, QosError> {
        if self.rpct > 10_000 || self.wpct > 10_000 {
            return Err(QosError::Percentile);
        }
        self.min = self.min.clamp(RATE_BOUNDS.0, RATE_BOUNDS.1);
        self.max = self.max.clamp(RATE_BOUNDS.0, RATE_BOUNDS.1);
        if self.min > self.max { Err(QosError::MinAboveMax) } else { Ok(self) }
    }

    /// Returns the length of a control period, 1 ms to 1 s: long enough for several I/Os at the
    /// target latency, so that its percentile is meaningful.
    pub fn period(&self) -> Nanos {
        let (percent, latency) =
            if self.rlat >= self.wlat { (self.rpct, self.rlat) } else { (self.wpct, self.wlat) };
        let times = if percent == 0 { 2 } else { u64::from((10_000 - percent) / 500).max(2) };
        Nanos::new(latency.get().saturating_mul(times).clamp(1_000_000, 1_000_000_000))
    }
}

/// What Linux assumes of a device that was not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Rotational.
    Hdd,
    /// Not rotational, one command at a time.
    SsdQd1,
    /// Not rotational.
    SsdDefault,
    /// Not rotational and much faster than the default: selected automatically after 10 s at 500 %
    /// of the default's speed.
    SsdFast,
}

impl Preset {
    /// Returns the initial preset of a device, by whether it is rotational and how many commands it
    /// takes.
    pub const fn from_rotational(rotational: bool, queue_depth: u32) -> Self {
        match (rotational, queue_depth) {
            (true, _) => Self::Hdd,
            (false, 1) => Self::SsdQd1,
            (false, _) => Self::SsdDefault,
        }
    }

    /// Returns its coefficients (Linux's measured presets).
    pub const fn coefficients(self) -> Coefficients {
        let [rbps, rseqiops, rrandiops, wbps, wseqiops, wrandiops] = match self {
            Self::Hdd => [174_019_176, 41_708, 370, 178_075_866, 42_705, 378],
            Self::SsdQd1 => [245_855_193, 61_575, 6_946, 141_365_009, 33_716, 26_796],
            Self::SsdDefault => [488_636_629, 8_932, 8_518, 427_891_549, 28_755, 21_940],
            Self::SsdFast => [3_102_524_156, 724_816, 778_122, 1_742_780_862, 425_702, 443_193],
        };
        Coefficients { rbps, rseqiops, rrandiops, wbps, wseqiops, wrandiops }
    }

    /// Returns its quality of service: no percentile, so that only waits for requests slow the
    /// clock. Not enabled.
    pub const fn qos(self) -> Qos {
        let latency = match self {
            Self::Hdd => Nanos::from_millis(250),
            Self::SsdQd1 | Self::SsdDefault => Nanos::from_millis(25),
            Self::SsdFast => Nanos::from_millis(5),
        };
        Qos {
            enable: false,
            rpct: 0,
            rlat: latency,
            wpct: 0,
            wlat: latency,
            min: RATE_BOUNDS.0,
            max: RATE_BOUNDS.1,
        }
    }
}

const PICOS_PER_SEC: u64 = 1_000_000_000_000;

/// Cost of one direction, in picoseconds of the device.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    page: u64,
    sequential: u64,
    random: u64,
}

impl Line {
    fn new(bps: u64, seqiops: u64, randiops: u64) -> Self {
        let once =
            |per_second: u64| if per_second == 0 { 0 } else { PICOS_PER_SEC.div_ceil(per_second) };
        let page = once(bps.div_ceil(PAGE_SIZE));
        Self {
            page,
            sequential: once(seqiops).saturating_sub(page),
            random: once(randiops).saturating_sub(page),
        }
    }
}

/// The coefficients converted for computing costs: picoseconds internally, so that rounding does
/// not affect fast devices; a cost is in nanoseconds of the device, rounded up.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    lines: [Line; 2],
}

impl Model {
    /// Converts the coefficients with six divisions.
    pub fn new(c: &Coefficients) -> Self {
        Self {
            lines: [
                Line::new(c.rbps, c.rseqiops, c.rrandiops),
                Line::new(c.wbps, c.wseqiops, c.wrandiops),
            ],
        }
    }

    /// Returns the cost of an I/O that is a request of its own.
    #[inline]
    pub fn request(&self, is_write: bool, bytes: u64, is_random: bool) -> Nanos {
        let line = &self.lines[usize::from(is_write)];
        Self::total(line, if is_random { line.random } else { line.sequential }, bytes)
    }

    /// Returns the cost of an I/O that is merged into a request, or the part of a cost that depends
    /// on size.
    #[inline]
    pub fn size(&self, is_write: bool, bytes: u64) -> Nanos {
        Self::total(&self.lines[usize::from(is_write)], 0, bytes)
    }

    #[inline]
    fn total(line: &Line, base: u64, bytes: u64) -> Nanos {
        let pages = (bytes / PAGE_SIZE).max(1);
        Nanos::new(base.saturating_add(pages.saturating_mul(line.page)).div_ceil(1000))
    }
}

/// Returns true if an I/O is random after one that ended at `cursor`; the first I/O of a tenant is
/// not.
#[inline]
pub(super) fn is_random(cursor: Option<Sector>, sector: Sector) -> bool {
    cursor.is_some_and(|end| end.get().abs_diff(sector.get()) > RANDOM_DISTANCE / 512)
}
