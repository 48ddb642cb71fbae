//! What a stack is built from, and the text names that reach every part of it.

extern crate alloc;
use alloc::string::{String, ToString};
use core::fmt;

use crate::build::Fill;
use crate::control::io_throttle;
use crate::kernel::{IoTicksForm, Kernel};
use crate::limits::{LimitsError, QueueLimits};
use crate::nearest::nearest;
use crate::sched::SchedulerConfig;
use crate::tags::MAX_DEPTH;
use crate::units::{Nanos, Sectors};

/// Which direct-I/O path cuts calls into bios: they differ in plugging and in the SYNC flag of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectPath {
    /// The block device itself: a plug only where a call needs more than 256 pages.
    #[default]
    Blkdev,
    /// A file system (iomap): every call under one plug.
    Iomap,
}

/// What a stack is built from. The device gives limits, size, queues and depth; everything else has a default.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// The version whose rules are followed.
    pub kernel: Kernel,
    /// Limits of the device as its driver reports them; validated when the stack is built.
    pub limits: QueueLimits,
    /// Size of the device.
    pub size: Sectors,
    /// Hardware queues, at least 1.
    pub hw_queues: u16,
    /// Commands that each hardware queue holds, 1 to 10240.
    pub queue_depth: u32,
    /// CPUs that tasks run on: task modulo this is the CPU, CPU modulo `hw_queues` the queue.
    pub cpus: u16,
    /// The scheduler with its tunables.
    pub scheduler: SchedulerConfig,
    /// `nr_requests`; `None` for the kernel's default (queue depth without a scheduler, else 2·min(depth, 128)).
    pub nr_requests: Option<u32>,
    /// `nomerges`: 0 all merging, 1 only the scheduler's one-hit cache beside plug and software queues, 2 none.
    pub nomerges: u8,
    /// `io_timeout`.
    pub io_timeout: Nanos,
    /// `iostats`: whether requests are accounted.
    pub iostats: bool,
    /// How bios are filled against the queue limit.
    pub fill: Fill,
    /// Form of io_ticks behind field 10 of the statistics; `None` for the kernel version's.
    pub io_ticks: Option<IoTicksForm>,
    /// Ticks a second.
    pub hz: u32,
    /// Path of direct I/O.
    pub direct_path: DirectPath,
    /// Times that a driver which retries ([`crate::driver::Driver::retries`]) tries again after a retryable error (NVMe: 5);
    /// failfast and read-ahead are never retried.
    pub max_retries: u8,
    /// How io-throttle works.
    pub io_throttle: io_throttle::Config,
    /// `io.max` is met to the nanosecond rather than in slices.
    pub exact_io_max: bool,
}

impl StackConfig {
    /// Defaults for a device: kernel 6.18, HZ 250, no scheduler, kernel's `nr_requests`. A deeper queue than a tag set can name is
    /// used as far as tags go, as in Linux.
    pub fn new(limits: QueueLimits, size: Sectors, hw_queues: u16, queue_depth: u32) -> Self {
        Self {
            kernel: Kernel::default(),
            limits,
            size,
            hw_queues,
            queue_depth: queue_depth.min(MAX_DEPTH),
            cpus: hw_queues.max(4),
            scheduler: SchedulerConfig::default(),
            nr_requests: None,
            nomerges: 0,
            io_timeout: Nanos::from_secs(30),
            iostats: true,
            fill: Fill::Full,
            io_ticks: None,
            hz: 250,
            direct_path: DirectPath::Blkdev,
            max_retries: 5,
            io_throttle: io_throttle::Config::default(),
            exact_io_max: false,
        }
    }

    /// `nr_requests` in force.
    pub fn nr_requests(&self) -> u32 {
        match self.nr_requests {
            Some(n) if self.scheduler.is_none() => n.min(self.queue_depth),
            Some(n) => n,
            None if self.scheduler.is_none() => self.queue_depth,
            None => 2 * self.queue_depth.min(128),
        }
    }

    /// Sets one queue setting by its name and text, as `--set` takes them. See [`SETTINGS`].
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let bad = |want: &'static str| SettingError::Value { key: key.to_string(), value: value.to_string(), want };
        let number = |min: u64, max: u64, want| {
            value.parse::<u64>().ok().filter(|n| (min..=max).contains(n)).ok_or_else(|| bad(want))
        };
        match key {
            "fill" => self.fill = Fill::from_name(value).ok_or_else(|| bad("full, max-sectors, trim or trim-256k"))?,
            "io_ticks" => {
                let form = IoTicksForm::ALL.into_iter().find(|form| form.name() == value);
                self.io_ticks = Some(form.ok_or_else(|| bad("sampled, inflight, precise or exact"))?);
            }
            "hz" => self.hz = number(100, 1000, "a tick rate from 100 to 1000")? as u32,
            "direct_path" => {
                self.direct_path = match value {
                    "blkdev" => DirectPath::Blkdev,
                    "iomap" => DirectPath::Iomap,
                    _ => return Err(bad("blkdev or iomap")),
                }
            }
            "nr_requests" => {
                self.nr_requests = Some(number(4, u64::from(MAX_DEPTH), "requests from 4 to 10240")? as u32);
            }
            "queue_depth" => self.queue_depth = number(1, u64::from(MAX_DEPTH), "commands from 1 to 10240")? as u32,
            "hw_queues" => self.hw_queues = number(1, 1024, "queues from 1 to 1024")? as u16,
            "cpus" => self.cpus = number(1, 4096, "CPUs from 1 to 4096")? as u16,
            "nomerges" => self.nomerges = number(0, 2, "0, 1 or 2")? as u8,
            "iostats" => self.iostats = number(0, 1, "0 or 1")? == 1,
            "io_timeout" => {
                self.io_timeout = Nanos::from_millis(number(1, 86_400_000, "milliseconds from 1 to 86400000")?);
            }
            "max_retries" => self.max_retries = number(0, 100, "retries from 0 to 100")? as u8,
            "io_max" => {
                self.exact_io_max = match value {
                    "slices" => false,
                    "exact" => true,
                    _ => return Err(bad("slices or exact")),
                }
            }
            "throttle_counter" => self.io_throttle.counter = number(0, 1, "0 or 1")? == 1,
            "throttle_class_aware" => self.io_throttle.class_aware = number(0, 1, "0 or 1")? == 1,
            "throttle_quirks" => self.io_throttle.quirks = number(0, 1, "0 or 1")? == 1,
            "max_sectors_kb" => {
                let kb = number(0, u64::MAX, "a whole number of KiB")?;
                self.limits.set_user_max_sectors_kb(kb, &self.kernel.rules()).map_err(SettingError::Limit)?;
            }
            _ if self.limits.read(key).is_some() => {
                let value = number(0, u64::MAX, "a whole number")?;
                self.limits.set_sysfs(key, value, &self.kernel.rules()).map_err(SettingError::Limit)?;
            }
            _ => {
                let key = key.to_string();
                return Err(match why_not_modelled(&key) {
                    Some(reason) => SettingError::NotModelled { key, reason },
                    None => SettingError::unknown(&key, known()),
                });
            }
        }
        Ok(())
    }
}

/// One row of what `--set` takes besides the queue limits (see [`crate::limits::SYSFS`]).
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Key.
    pub key: &'static str,
    /// Unit or choices.
    pub unit: &'static str,
    /// Default.
    pub default: &'static str,
    /// A line of meaning.
    pub help: &'static str,
}

/// What `--set` takes besides the queue limits.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "fill",
        unit: "full|max-sectors|trim|trim-256k",
        default: "full",
        help: "where a direct-I/O bio ends: vectors used up; at max_sectors (proposal 001); trimmed to a multiple of max_sectors; of 256 KiB",
    },
    Setting {
        key: "io_ticks",
        unit: "sampled|inflight|precise|exact",
        default: "by --kernel",
        help: "form of utilisation behind %util: 5.7-6.9; proposal 003; 6.10 and later; nanoseconds",
    },
    Setting {
        key: "hz",
        unit: "ticks/s",
        default: "250",
        help: "tick rate of jiffy-based clocks (io_ticks, scheduler deadlines)",
    },
    Setting {
        key: "direct_path",
        unit: "blkdev|iomap",
        default: "blkdev",
        help: "direct I/O on the device itself or through a file system: differs in plugging and in the SYNC flag of reads",
    },
    Setting {
        key: "nr_requests",
        unit: "requests",
        default: "depth; 2*min(depth,128) with a scheduler",
        help: "requests that may be allocated on each hardware queue",
    },
    Setting { key: "queue_depth", unit: "commands", default: "by device", help: "driver tags of each hardware queue" },
    Setting { key: "hw_queues", unit: "queues", default: "by device", help: "hardware queues" },
    Setting { key: "cpus", unit: "CPUs", default: "max(4, hw_queues)", help: "CPUs that processes are spread over" },
    Setting {
        key: "nomerges",
        unit: "0|1|2",
        default: "0",
        help: "1: only cheap merges in the scheduler; 2: no merging",
    },
    Setting { key: "iostats", unit: "0|1", default: "1", help: "account requests" },
    Setting {
        key: "io_timeout",
        unit: "ms",
        default: "30000",
        help: "time a command may take before the driver's timeout handler runs",
    },
    Setting {
        key: "max_retries",
        unit: "times",
        default: "5",
        help: "tries after a retryable error (path-type errors; never failfast or read-ahead); simulated devices only",
    },
    Setting {
        key: "io_max",
        unit: "slices|exact",
        default: "slices",
        help: "how a tenant's io.max is met: in slices of time as Linux does, or to the nanosecond",
    },
    Setting {
        key: "throttle_counter",
        unit: "0|1",
        default: "1",
        help: "io-throttle: no lookup and no accounting while no tenant has a rule (proposal 004)",
    },
    Setting {
        key: "throttle_class_aware",
        unit: "0|1",
        default: "0",
        help: "io-throttle: a queue for each priority class, so that RT does not wait behind BE",
    },
    Setting {
        key: "throttle_quirks",
        unit: "0|1",
        default: "0",
        help: "io-throttle: the arithmetic of 2009, errors and all",
    },
];

/// Settings of a kernel's queue that the stack does not have, and why.
const NOT_MODELLED: &[(&str, &str)] = &[
    ("rq_affinity", "a completion costs the same on every CPU here"),
    ("add_random", "there is no entropy pool here"),
    ("wbt_lat_usec", "writeback throttling is not there yet"),
    ("io_poll_delay", "completions are events here, nothing polls for them"),
    ("scheduler", "use --scheduler NAME"),
];

/// Why the stack does not have this setting of a kernel's queue; `None` if no such setting is known.
pub(crate) fn why_not_modelled(key: &str) -> Option<&'static str> {
    NOT_MODELLED.iter().find(|(name, _)| *name == key).map(|&(_, reason)| reason)
}

/// Why a setting was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// No such key.
    Key {
        /// The key as given.
        key: String,
        /// The key that was probably meant.
        near: Option<&'static str>,
    },
    /// The value does not fit the key.
    Value {
        /// The key.
        key: String,
        /// The value as given.
        value: String,
        /// What would be right.
        want: &'static str,
    },
    /// The queue of a kernel has the setting, and the stack does not.
    NotModelled {
        /// The key.
        key: String,
        /// Why it is not there.
        reason: &'static str,
    },
    /// The queue limits would not be valid.
    Limit(LimitsError),
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { key, near } => match near {
                Some(near) => write!(f, "{key}: no such setting; did you mean {near}? `elevon schedulers` lists them"),
                None => write!(f, "{key}: no such setting; `elevon schedulers` lists them"),
            },
            Self::Value { key, value, want } => write!(f, "{key}={value}: expected {want}"),
            Self::NotModelled { key, reason } => write!(f, "{key}: not modelled: {reason}"),
            Self::Limit(error) => error.fmt(f),
        }
    }
}
impl core::error::Error for SettingError {}

impl SettingError {
    /// The error for a key that is none of `keys`.
    pub fn unknown(key: &str, keys: impl IntoIterator<Item = &'static str>) -> Self {
        Self::Key { key: key.to_string(), near: nearest(key, keys) }
    }

    /// The same error where the user may also have meant one of `others`, keys of another table.
    #[must_use]
    pub fn or_one_of(self, others: impl IntoIterator<Item = &'static str>) -> Self {
        match self {
            Self::Key { key, .. } => Self::unknown(&key, known().chain(others)),
            other => other,
        }
    }
}

/// Every key that the stack takes.
fn known() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.key).chain(crate::limits::SYSFS.iter().map(|limit| limit.name))
}
