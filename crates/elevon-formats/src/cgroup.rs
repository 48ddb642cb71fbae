//! The control files of cgroups: parses the kernel's names and syntax to typed settings, and writes
//! them back.
//!
//! A line is taken as a whole or refused. What the kernel refuses is refused with the kernel's
//! errno. What it would silently misread (it reads `rbps=10M` as 10 bytes/s) is refused, with what
//! to write instead. A run has one device, so naming it is optional: `8:0 rbps=1048576` and
//! `rbps=1048576` are the same; a partition is refused, as in the kernel. Sources: the
//! documentation of cgroup v1 and v2, and the behaviour of 6.1; for `blockio.*` the io-throttle
//! patches, version 8 and later.

use std::fmt;
use std::ops::Range;

use elevon_core::control::io_throttle;
use elevon_core::ioprio::PrioPolicy;
use elevon_core::kernel::Rules;
use elevon_core::nearest::did_you_mean;
use elevon_core::sched::Reserve;
use elevon_core::units::Nanos;

mod cost;
mod device;
mod latency;
mod max;
mod number;
mod throttle;
mod tokens;
mod weight;

pub use cost::{CostControl, CostModel, CostQos};
pub use max::{Cap, IoMax, LimitKey};
pub(crate) use weight::parse_class;
pub use weight::{BFQ_WEIGHT_MAX, CostWeight, DEFAULT_WEIGHT, WeightFile, Weights};

/// The kind of an error; it decides which errno the kernel would return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// EINVAL.
    Invalid,
    /// ERANGE.
    Range,
    /// ENODEV: not a whole device.
    NoDevice,
    /// The kernel takes the line, but reads something other than what it says.
    Misread,
}

impl Refusal {
    /// Returns the errno that the kernel would return; `None` if it would report no error.
    pub const fn errno_name(self) -> Option<&'static str> {
        match self {
            Self::Invalid => Some("EINVAL"),
            Self::Range => Some("ERANGE"),
            Self::NoDevice => Some("ENODEV"),
            Self::Misread => None,
        }
    }
}

/// A refused line, with what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct FileError {
    /// The kind.
    pub refusal: Refusal,
    /// The bytes of the line that are wrong.
    pub span: Range<usize>,
    /// What is wrong, ending in what would be right; one line.
    pub message: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.refusal.errno_name() {
            Some(errno) => write!(f, "{} ({errno})", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// One change of a tenant's limits, weights or class, or of the model of its device. Values that a
/// setting does not name keep their old values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `io.max`: limits with slices, at every level.
    IoMax(IoMax),
    /// `blkio.throttle.*_device` of v1: a limit that ignores the limits of ancestors.
    Flat(LimitKey, Cap),
    /// `io.weight`: share by io.cost, 1 to 10000.
    IoWeight(WeightFile),
    /// `io.bfq.weight`, `blkio.bfq.weight`, `blkio.bfq.weight_device`: share by BFQ, 1 to 1000.
    BfqWeight(WeightFile),
    /// `io.prio.class`, `blkio.prio.class`, and our `class`.
    Class(PrioPolicy),
    /// `io.latency`, and our `latency`: the target; `None` for none.
    Latency(Option<Nanos>),
    /// `io.cost.qos`, of the device.
    CostQos(CostQos),
    /// `io.cost.model`, of the device.
    CostModel(CostModel),
    /// `blockio.bandwidth-max`: io-throttle's rule in bytes a second; `None` deletes it.
    Bandwidth(Option<io_throttle::Limit>),
    /// `blockio.iops-max`: io-throttle's rule in I/Os a second; `None` deletes it.
    Iops(Option<io_throttle::Limit>),
    /// Elevon's `weight`, 1 to 10000: used by io.cost as it is, by BFQ and `aileron` at most 1000.
    Weight(u16),
    /// Elevon's `limit`: exact limits without slices, with a burst.
    Limit(Limit),
    /// Elevon's `reserve`: rates that are served whatever the weights are.
    Reserve(Floor),
}

/// Elevon's `reserve`: the rates that a tenant gets before others. Values that are `None` keep
/// their old values; 0 is no floor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// I/Os a second.
    pub iops: Option<u64>,
    /// Bytes a second.
    pub bps: Option<u64>,
}

impl Floor {
    /// Returns what is in force after this was written where `old` was.
    pub fn over(&self, old: Reserve) -> Reserve {
        Reserve { iops: self.iops.unwrap_or(old.iops), bps: self.bps.unwrap_or(old.bps) }
    }

    fn text(&self) -> String {
        let iops = self.iops.map(|iops| format!("iops = {}", number(iops)));
        let bps = self.bps.map(|bps| format!("bps = {}", bytes(bps)));
        let parts: Vec<String> = iops.into_iter().chain(bps).collect();
        format!("{{ {} }}", parts.join(", "))
    }
}

impl From<Reserve> for Floor {
    fn from(all: Reserve) -> Self {
        Self { iops: Some(all.iops), bps: Some(all.bps) }
    }
}

/// Elevon's `limit`: rates that hold over every span of time, except for the burst. Values that are
/// `None` keep their old values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Bytes a second of reads.
    pub rbps: Option<Cap>,
    /// Bytes a second of writes.
    pub wbps: Option<Cap>,
    /// Bytes a second of both together.
    pub bps: Option<Cap>,
    /// Reads a second.
    pub riops: Option<Cap>,
    /// Writes a second.
    pub wiops: Option<Cap>,
    /// I/Os a second of both together.
    pub iops: Option<Cap>,
    /// Bytes by which the limits in bytes may be overdrawn after idling.
    pub burst: Option<u64>,
    /// I/Os by which the limits in I/Os may be overdrawn after idling.
    pub burst_ios: Option<u64>,
}

impl Limit {
    /// Returns what is in force after this was written where `old` was.
    pub fn over(&self, old: Self) -> Self {
        Self {
            rbps: self.rbps.or(old.rbps),
            wbps: self.wbps.or(old.wbps),
            bps: self.bps.or(old.bps),
            riops: self.riops.or(old.riops),
            wiops: self.wiops.or(old.wiops),
            iops: self.iops.or(old.iops),
            burst: self.burst.or(old.burst),
            burst_ios: self.burst_ios.or(old.burst_ios),
        }
    }
}

/// A line that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The device as the line names it.
    pub device: Option<&'a str>,
    /// The setting of the line.
    pub setting: Setting,
}

/// The owner of a control file or setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOwner {
    /// A tenant; not the root.
    Tenant,
    /// The root, and so the device.
    Device,
}

/// One control file.
#[derive(Clone, Copy, Debug)]
pub struct ControlFile {
    /// The file's name.
    pub name: &'static str,
    /// The owner of the file.
    pub place: FileOwner,
    /// The syntax of a line.
    pub syntax: &'static str,
    /// Units and ranges.
    pub range: &'static str,
    /// The value in force if nothing was written.
    pub default: &'static str,
    /// One line of help.
    pub help: &'static str,
    parse: for<'a> fn(&'a str, &Rules) -> Result<Line<'a>, FileError>,
}

const fn tenant(
    name: &'static str,
    parse: for<'a> fn(&'a str, &Rules) -> Result<Line<'a>, FileError>,
) -> ControlFile {
    ControlFile {
        name,
        place: FileOwner::Tenant,
        syntax: "",
        range: "",
        default: "",
        help: "",
        parse,
    }
}

const BPS: &str = "bytes/s, 1..=18446744073709551615; 0 removes it";
const IOPS: &str = "I/Os a second, 1..=4294967294; 0 removes it, more is no limit";
const RULE: &str = "limit as K, M, G, T or Ki, Mi, Gi, Ti too; bucket in the limit's unit, the limit where it is left out";

/// All control files.
pub const FILES: &[ControlFile] = &[
    ControlFile {
        syntax: "[DEV] rbps=N wbps=N riops=N wiops=N, each a number or max",
        range: "bytes/s and I/Os a second, 2..=18446744073709551615; I/Os from 4294967295 on are no limit",
        default: "max",
        help: "limits of reads and writes with the kernel's slices; all levels up to the root hold",
        ..tenant("io.max", |line, _| max::parse(line))
    },
    ControlFile {
        syntax: "[default] N, or DEV N, or DEV default",
        range: "1..=10000",
        default: "100",
        help: "share of the device among its siblings, by io.cost",
        ..tenant("io.weight", |line, _| weight::parse(line, 10_000, Setting::IoWeight))
    },
    ControlFile {
        syntax: "[default] N, or DEV N, or DEV default",
        range: "1..=1000",
        default: "100",
        help: "share of the device among its siblings, by BFQ",
        ..tenant("io.bfq.weight", |line, _| weight::parse(line, BFQ_WEIGHT_MAX, Setting::BfqWeight))
    },
    ControlFile {
        syntax: "no-change|none-to-rt|promote-to-rt|restrict-to-be|idle",
        range: "promote-to-rt from 6.5 on",
        default: "no-change",
        help: "priority class of the tenant's own I/O",
        ..tenant("io.prio.class", weight::class)
    },
    ControlFile {
        syntax: "[DEV] target=N, or target=max",
        range: "us; 0 and max for none",
        default: "max",
        help: "latency that is defended against siblings with a larger target or none",
        ..tenant("io.latency", |line, _| latency::parse(line))
    },
    ControlFile {
        place: FileOwner::Device,
        syntax: "[DEV] enable=0|1 ctrl=auto|user rpct=P rlat=N wpct=P wlat=N min=P max=P",
        range: "rpct, wpct 0.00..=100.00 (0: not looked at); rlat, wlat us; min, max %, clamped to 1.00..=10000.00",
        default: "enable=0 ctrl=auto, and by the device",
        help: "io.cost: when the device counts as saturated, and how far its rate is corrected",
        ..tenant("io.cost.qos", |line, _| cost::qos(line))
    },
    ControlFile {
        place: FileOwner::Device,
        syntax: "[DEV] ctrl=auto|user model=linear rbps=N rseqiops=N rrandiops=N wbps=N wseqiops=N wrandiops=N",
        range: "bytes/s and I/Os a second, 0..=18446744073709551615 (0: costs nothing)",
        default: "ctrl=auto, and by the device",
        help: "io.cost: what an I/O costs",
        ..tenant("io.cost.model", |line, _| cost::model(line))
    },
    ControlFile {
        syntax: "[DEV:]LIMIT:0 (leaky), [DEV:]LIMIT:1[:BUCKET] (token), [DEV:]0 (delete)",
        range: RULE,
        default: "none",
        help: "io-throttle: bytes a second, reads and writes together; the submitter sleeps",
        ..tenant("blockio.bandwidth-max", |line, _| throttle::parse(line, Setting::Bandwidth))
    },
    ControlFile {
        syntax: "[DEV:]LIMIT:0 (leaky), [DEV:]LIMIT:1[:BUCKET] (token), [DEV:]0 (delete)",
        range: RULE,
        default: "none",
        help: "io-throttle: I/Os a second, reads and writes together; the submitter sleeps",
        ..tenant("blockio.iops-max", |line, _| throttle::parse(line, Setting::Iops))
    },
    ControlFile {
        syntax: "[DEV] N",
        range: BPS,
        default: "none",
        help: "v1: bytes of reads a second; ancestors' limits are not looked at",
        ..tenant("blkio.throttle.read_bps_device", |line, _| max::parse_flat(line, LimitKey::Rbps))
    },
    ControlFile {
        syntax: "[DEV] N",
        range: BPS,
        default: "none",
        help: "v1: bytes of writes a second",
        ..tenant("blkio.throttle.write_bps_device", |line, _| max::parse_flat(line, LimitKey::Wbps))
    },
    ControlFile {
        syntax: "[DEV] N",
        range: IOPS,
        default: "none",
        help: "v1: reads a second",
        ..tenant("blkio.throttle.read_iops_device", |line, _| {
            max::parse_flat(line, LimitKey::Riops)
        })
    },
    ControlFile {
        syntax: "[DEV] N",
        range: IOPS,
        default: "none",
        help: "v1: writes a second",
        ..tenant("blkio.throttle.write_iops_device", |line, _| {
            max::parse_flat(line, LimitKey::Wiops)
        })
    },
    ControlFile {
        syntax: "N",
        range: "1..=1000",
        default: "100",
        help: "v1's io.bfq.weight",
        ..tenant("blkio.bfq.weight", |line, _| weight::parse_number(line))
    },
    ControlFile {
        syntax: "DEV N",
        range: "1..=1000",
        default: "blkio.bfq.weight",
        help: "v1's io.bfq.weight for one device",
        ..tenant("blkio.bfq.weight_device", |line, _| {
            weight::parse(line, BFQ_WEIGHT_MAX, Setting::BfqWeight)
        })
    },
    ControlFile {
        syntax: "as io.prio.class",
        range: "promote-to-rt from 6.5 on",
        default: "no-change",
        help: "v1's io.prio.class",
        ..tenant("blkio.prio.class", weight::class)
    },
];

/// Returns the control file of a name.
pub fn find(name: &str) -> Option<&'static ControlFile> {
    FILES.iter().find(|file| file.name == name)
}

/// Parses a line as if it were written to a control file under a kernel's rules.
///
/// # Errors
/// There is no such file, or it does not take the line: what the kernel would return, and what
/// would be right.
pub fn parse<'a>(file: &str, line: &'a str, rules: &Rules) -> Result<Line<'a>, FileError> {
    let Some(known) = find(file) else {
        let meant = did_you_mean(file, FILES.iter().map(|file| file.name));
        return Err(FileError {
            refusal: Refusal::Invalid,
            span: 0..0,
            message: format!("{file}: no such file{meant}"),
        });
    };
    known.parse(line, rules)
}

impl ControlFile {
    /// Parses a line as if it were written to this file under a kernel's rules.
    ///
    /// # Errors
    /// The file does not take the line: what the kernel would return, and what would be right.
    pub fn parse<'a>(&self, line: &'a str, rules: &Rules) -> Result<Line<'a>, FileError> {
        let body = line.trim_end_matches('\n');
        if let Some(at) = body.find(|c: char| c.is_control() && c != '\t') {
            let message =
                "one line is one setting; write the others as lines of their own".to_owned();
            return Err(FileError { refusal: Refusal::Invalid, span: at..at, message });
        }
        (self.parse)(body, rules)
    }
}

impl Setting {
    /// Returns the name of the control file, or of Elevon's knob, that [`Self::text`] is for.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::IoMax(_) => "io.max",
            Self::Flat(LimitKey::Rbps, _) => "blkio.throttle.read_bps_device",
            Self::Flat(LimitKey::Wbps, _) => "blkio.throttle.write_bps_device",
            Self::Flat(LimitKey::Riops, _) => "blkio.throttle.read_iops_device",
            Self::Flat(LimitKey::Wiops, _) => "blkio.throttle.write_iops_device",
            Self::IoWeight(_) => "io.weight",
            Self::BfqWeight(_) => "io.bfq.weight",
            Self::Class(_) => "io.prio.class",
            Self::Latency(_) => "io.latency",
            Self::CostQos(_) => "io.cost.qos",
            Self::CostModel(_) => "io.cost.model",
            Self::Bandwidth(_) => "blockio.bandwidth-max",
            Self::Iops(_) => "blockio.iops-max",
            Self::Weight(_) => "weight",
            Self::Limit(_) => "limit",
            Self::Reserve(_) => "reserve",
        }
    }

    /// Returns the owner of the setting.
    pub const fn place(&self) -> FileOwner {
        match self {
            Self::CostQos(_) | Self::CostModel(_) => FileOwner::Device,
            Self::IoMax(_)
            | Self::Flat(..)
            | Self::IoWeight(_)
            | Self::BfqWeight(_)
            | Self::Class(_)
            | Self::Latency(_)
            | Self::Bandwidth(_)
            | Self::Iops(_)
            | Self::Weight(_)
            | Self::Limit(_)
            | Self::Reserve(_) => FileOwner::Tenant,
        }
    }

    /// Returns the line for a device that [`parse`] reads as this setting. A file that shows all
    /// its keys is read back in this form too (`8:0 rbps=1048576 wbps=max riops=max wiops=max`).
    /// Elevon's knobs are written as a TOML value.
    pub fn text(&self, device: Option<&str>) -> String {
        let on = |line: String| match device {
            Some(device) if line.is_empty() => device.to_owned(),
            Some(device) => format!("{device} {line}"),
            None => line,
        };
        match self {
            Self::IoMax(max) => on(max.text()),
            Self::Flat(_, cap) => on(cap.value().unwrap_or(0).to_string()),
            Self::IoWeight(weight) | Self::BfqWeight(weight) => weight.text(device),
            Self::Class(policy) => policy.name().to_owned(),
            Self::Latency(target) => on(latency::text(*target)),
            Self::CostQos(qos) => on(qos.text()),
            Self::CostModel(model) => on(model.text()),
            Self::Bandwidth(rule) | Self::Iops(rule) => throttle::text(*rule, device),
            Self::Weight(weight) => weight.to_string(),
            Self::Limit(limit) => limit.text(),
            Self::Reserve(floor) => floor.text(),
        }
    }
}

/// Returns a number as a TOML value: as a string if it is too large for an integer there.
fn number(n: u64) -> String {
    if n > i64::MAX as u64 { format!("\"{n}\"") } else { n.to_string() }
}

/// Returns a number of bytes as a TOML value with the largest unit of which it is a multiple.
fn bytes(n: u64) -> String {
    let units = ["K", "M", "G", "T"].into_iter().zip(1..);
    let units = units.flat_map(|(unit, power)| {
        [(1000_u64.pow(power), unit, ""), (1024_u64.pow(power), unit, "i")]
    });
    let of = units.filter(|(unit, ..)| n > 0 && n.is_multiple_of(*unit)).max();
    of.map_or_else(
        || number(n),
        |(unit, letter, binary)| format!("\"{}{letter}{binary}B\"", n / unit),
    )
}

impl Limit {
    /// Returns each rate with its key.
    pub fn rates(&self) -> [(&'static str, Option<Cap>); 6] {
        [
            ("rbps", self.rbps),
            ("wbps", self.wbps),
            ("bps", self.bps),
            ("riops", self.riops),
            ("wiops", self.wiops),
            ("iops", self.iops),
        ]
    }

    fn text(&self) -> String {
        let rate = |key: &str, cap| match cap {
            Cap::Unlimited => "\"max\"".to_owned(),
            Cap::At(n) if key.ends_with("bps") => bytes(n),
            Cap::At(n) => number(n),
        };
        let rates = self
            .rates()
            .into_iter()
            .filter_map(|(key, cap)| Some(format!("{key} = {}", rate(key, cap?))));
        let burst = self.burst.map(|burst| format!("burst = {}", bytes(burst)));
        let ios = self.burst_ios.map(|ios| format!("burst_ios = {}", number(ios)));
        let parts: Vec<String> = rates.chain(burst).chain(ios).collect();
        format!("{{ {} }}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests;
