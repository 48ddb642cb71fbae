//! The parameters of a drive, and three named drives.

use elevon_core::limits::QueueLimits;
use elevon_core::units::{Bytes, Nanos, Sectors};

use super::geometry::SeekCurve;
use crate::device::Description;

/// A hard disk's mechanics, cache and interface. Estimates are named in the constants below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HddParameters {
    /// The profile's name.
    pub name: &'static str,
    /// Size.
    pub size: Bytes,
    /// Turns per minute, 1000..=20000.
    pub rpm: u32,
    /// Media rate at the outer edge, bytes per second.
    pub outer_rate: Bytes,
    /// Media rate at the inner edge, in thousandths of `outer_rate`, 1..=1000.
    pub inner_permille: u64,
    /// Seek time by distance.
    pub seek: SeekCurve,
    /// Time that the drive adds after a seek so that it does not miss the sector.
    pub margin: Nanos,
    /// Overhead of a command that needs the medium.
    pub overhead_miss: Nanos,
    /// Overhead of a command that the cache serves.
    pub overhead_hit: Nanos,
    /// Bytes per second of the interface, both directions together.
    pub link: Bytes,
    /// Maximum amount of dirty data in the cache.
    pub cache: Bytes,
    /// Maximum number of dirty runs in the cache; limits how long a flush takes.
    pub write_extents: u32,
    /// Number of dirty runs from which the next one is chosen.
    pub drain_window: u32,
    /// Read-ahead segments.
    pub segments: u32,
    /// How far a segment reads ahead.
    pub read_ahead: Bytes,
    /// Whether the volatile write cache is on (`hdparm -W`).
    pub write_cache: bool,
    /// Whether the command with the shortest positioning time is chosen; otherwise the oldest
    /// command.
    pub sptf: bool,
    /// Age from which the oldest command goes first in any case.
    pub starvation: Nanos,
    /// Commands the drive holds (NCQ).
    pub queue_depth: u32,
    /// Physical block size, bytes.
    pub physical_block_size: u32,
    /// Maximum size of one request.
    pub max_hw_sectors: Sectors,
    /// Maximum segments of one request.
    pub max_segments: u16,
}

impl HddParameters {
    /// A 7200 rpm SATA drive of 2009, as in the benchmarks of the io-throttle controller's time.
    ///
    /// Outer rate: 58 to 100 MB/s in reviews of the time (techreport.com 15079), 87 to 90 in list
    /// mails. Hit overhead and read segments from DiskSim's validated drives. Estimates: inner
    /// rate, seek curve, miss overhead, link (SATA 3G less framing), cache, read-ahead, dirty
    /// runs. Limits: the 1024 sectors and 128 segments of 2.6 kernels; depth is libata's 32 less
    /// one.
    pub(crate) const HDD_2009: Self = Self {
        name: "hdd-2009",
        size: Bytes::new(500_107_862_016),
        rpm: 7200,
        outer_rate: Bytes::new(90_000_000),
        inner_permille: 500,
        seek: SeekCurve {
            base: Nanos::new(1_800_000),
            root: Nanos::new(12_500_000),
            split_permille: 200,
            far_base: Nanos::new(5_000_000),
            far_slope: Nanos::new(12_500_000),
        },
        margin: Nanos::ZERO,
        overhead_miss: Nanos::from_micros(500),
        overhead_hit: Nanos::from_micros(180),
        link: Bytes::new(250_000_000),
        cache: Bytes::new(16 << 20),
        write_extents: 256,
        drain_window: 31,
        segments: 16,
        read_ahead: Bytes::new(512 << 10),
        write_cache: true,
        sptf: true,
        starvation: Nanos::from_millis(1500),
        queue_depth: 31,
        physical_block_size: 512,
        max_hw_sectors: Sectors::new(1024),
        max_segments: 128,
    };

    /// A 7200 rpm 1 TB drive of the 2010s (Seagate Constellation ES.3 ST1000NM0033).
    ///
    /// Turn and rates: its manual, p. 14 (4.16 ms latency, 83 to 175 MB/s). Seek curve: least
    /// squares to the 1792 points of DiskSim's WD 4 TB table (rms 0.077 ms). Hit overhead,
    /// segments and read-ahead: the same model. Estimates: margin, miss overhead, link (SATA 6G
    /// less framing), dirty runs. Limits: a command with 48-bit addresses takes 65536 sectors, of
    /// which libata uses one less.
    pub const HDD_7200: Self = Self {
        name: "hdd-7200",
        size: Bytes::new(1_000_204_886_016),
        outer_rate: Bytes::new(175_000_000),
        inner_permille: 474,
        seek: SeekCurve {
            base: Nanos::new(1_495_000),
            root: Nanos::new(11_413_000),
            split_permille: 200,
            far_base: Nanos::new(4_510_000),
            far_slope: Nanos::new(11_090_000),
        },
        margin: Nanos::from_micros(500),
        overhead_miss: Nanos::from_micros(300),
        overhead_hit: Nanos::from_micros(160),
        link: Bytes::new(550_000_000),
        cache: Bytes::new(64 << 20),
        write_extents: 512,
        segments: 32,
        read_ahead: Bytes::new(1536 << 10),
        queue_depth: 32,
        physical_block_size: 4096,
        max_hw_sectors: Sectors::new(65535),
        max_segments: 168,
        ..Self::HDD_2009
    };

    /// A 16 TB nearline drive (one actuator of Seagate's Exos 2X14 / X16 class).
    ///
    /// Turn, rate (524 MB/s over two actuators), cache and write IOPS, 384 over two: the 2X14's
    /// data sheet. Margin: fitted so that depth 16 gives the data sheet's 304/2 reads a second.
    /// Drain window: fitted to its write IOPS. Estimates: inner rate, seek curve (scaled so that
    /// the one published figure fits), read-ahead, dirty runs.
    pub(crate) const HDD_NEARLINE_16T: Self = Self {
        name: "hdd-nearline-16t",
        size: Bytes::new(16_000_900_661_248),
        outer_rate: Bytes::new(262_000_000),
        inner_permille: 470,
        seek: SeekCurve {
            base: Nanos::new(1_200_000),
            root: Nanos::new(11_000_000),
            split_permille: 200,
            far_base: Nanos::new(4_200_000),
            far_slope: Nanos::new(10_500_000),
        },
        overhead_miss: Nanos::from_micros(200),
        cache: Bytes::new(256 << 20),
        write_extents: 1024,
        drain_window: 45,
        read_ahead: Bytes::new(2 << 20),
        ..Self::HDD_7200
    };

    /// Returns the description of a drive with these parameters.
    pub fn description(&self) -> Description {
        Description {
            name: self.name.into(),
            size: self.size.sectors_floor(),
            limits: QueueLimits {
                physical_block_size: self.physical_block_size,
                io_min: self.physical_block_size,
                max_hw_sectors: self.max_hw_sectors,
                max_segments: self.max_segments,
                write_cache: self.write_cache,
                // libata disables FUA by default; the model honours the flag if it is set.
                fua: false,
                rotational: true,
                ..QueueLimits::default()
            },
            hw_queues: 1,
            queue_depth: self.queue_depth,
        }
    }
}
