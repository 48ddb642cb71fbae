//! The configuration of a stack, and the names by which each setting is set from text.

extern crate alloc;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::build::Fill;
use crate::control::io_throttle;
use crate::inject::{self, ErrorInjection};
use crate::jiffies::{Hz, TickPhase};
use crate::kernel::{IoTicksForm, Kernel, Rules};
use crate::limits::{QueueLimits, SYSFS};
use crate::sched::SchedulerConfig;
use crate::setting::{self, Reported, SettingError, SettingLine, SettingRow, SettingValue};
use crate::setting_names;
use crate::tags::MAX_DEPTH;
use crate::units::{Nanos, Sectors};
use crate::wbt;

/// The direct-I/O path that builds bios from calls. The paths differ in plugging and in the SYNC
/// flag of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectPath {
    /// The block device itself: uses a plug only if a call needs more than 256 pages.
    #[default]
    Blkdev,
    /// A file system (iomap): uses a plug for every call.
    Iomap,
}

impl DirectPath {
    /// All paths.
    pub const ALL: [Self; 2] = [Self::Blkdev, Self::Iomap];

    /// Returns the path of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|path| path.name() == name)
    }

    /// The name of the path in `direct_path=`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blkdev => "blkdev",
            Self::Iomap => "iomap",
        }
    }
}

/// The configuration of a stack. The device gives limits, size, queues and depth; everything else
/// has a default.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// The kernel version whose rules are followed.
    pub kernel: Kernel,
    /// Rules in place of those of `kernel`, for a run in which single rules are of another
    /// version; `None` for those of `kernel`.
    pub other_rules: Option<Rules>,
    /// Limits of the device as its driver reports them; validated when the stack is built.
    pub limits: QueueLimits,
    /// Size of the device.
    pub size: Sectors,
    /// Hardware queues, at least 1.
    pub hw_queues: u16,
    /// Commands that each hardware queue holds, 1 to 10240.
    pub queue_depth: u32,
    /// CPUs that tasks run on. A task runs on CPU task modulo `cpus`; a CPU uses hardware queue
    /// CPU modulo `hw_queues`.
    pub cpus: u16,
    /// The scheduler with its tunables.
    pub scheduler: SchedulerConfig,
    /// `nr_requests`; `None` for the kernel's default (queue depth without a scheduler, else
    /// 2·min(depth, 128)), which is 1024 with `aileron`.
    pub nr_requests: Option<u32>,
    /// `async_depth` (7.0 and later): scheduler tags that may be taken by what is not a
    /// synchronous read; `None` for the scheduler's default.
    pub async_depth: Option<u32>,
    /// The scheduler's tag where each CPU looks for its first one, from which on tags are spread as
    /// in Linux, which draws it; `None` if the lowest free tag is taken.
    pub tag_hint: Option<u32>,
    /// `nomerges`: 0 allows all merges; 1 allows only merges with the plug, the software queues
    /// and the scheduler's one-hit cache; 2 allows none.
    pub nomerges: u8,
    /// `io_timeout`.
    pub io_timeout: Nanos,
    /// `iostats`: whether requests are accounted.
    pub iostats: bool,
    /// How bios are filled against the queue limit.
    pub fill: Fill,
    /// Form of io_ticks that field 10 of the statistics shows; `None` for the kernel version's.
    pub io_ticks: Option<IoTicksForm>,
    /// Ticks a second.
    pub hz: Hz,
    /// How the ticks that io_ticks counts lie against the run.
    pub tick_phase: TickPhase,
    /// Path of direct I/O.
    pub direct_path: DirectPath,
    /// Path of the page cache's writes: on the block device itself, a bio for each block, as its
    /// buffers are written; through a file system, a bio for each range of pages.
    pub buffered_path: DirectPath,
    /// How often a driver that retries ([`crate::driver::Driver::retries`]) retries a retryable
    /// error; NVMe does 5 times. Failfast and read-ahead requests are never retried.
    pub max_retries: u8,
    /// Variant of io-throttle.
    pub io_throttle: io_throttle::Config,
    /// Whether `io.max` is enforced to the nanosecond instead of in slices.
    pub exact_io_max: bool,
    /// `wbt_lat_usec`: the read latency that writeback throttling keeps; zero turns it off. `None`
    /// for the kernel's default: 75 ms on rotational devices and 2 ms on others, off under BFQ,
    /// `aileron` and io.cost, which do the same in their own way.
    pub wbt_lat: Option<Nanos>,
    /// Background writes that writeback throttling lets in at the start, if that is more than a
    /// kernel that has just started lets in, as far as the depth of the queue allows: what it had
    /// grown to where a trace begins.
    pub wbt_writes: u32,
    /// Tasks sleep for the limit of dirty pages all the time, outside of this stack, for which
    /// writeback throttling lets in more background writes.
    pub wbt_dirty_sleeps: bool,
    /// `error_injection` of the disk (7.2 and later): which bios end with an error before they are
    /// queued.
    pub error_injection: ErrorInjection,
}

impl StackConfig {
    /// Returns the defaults for a device: the newest kernel, HZ 250, no scheduler, the kernel's
    /// `nr_requests`. As in Linux, the queue depth is reduced to the largest depth of a tag set if
    /// it is higher.
    pub fn new(limits: QueueLimits, size: Sectors, hw_queues: u16, queue_depth: u32) -> Self {
        Self {
            kernel: Kernel::default(),
            other_rules: None,
            limits,
            size,
            hw_queues,
            queue_depth: queue_depth.min(MAX_DEPTH),
            cpus: hw_queues.max(4),
            scheduler: SchedulerConfig::default(),
            nr_requests: None,
            async_depth: None,
            tag_hint: None,
            nomerges: 0,
            io_timeout: Nanos::from_secs(30),
            iostats: true,
            fill: Fill::Full,
            io_ticks: None,
            hz: Hz(250),
            tick_phase: TickPhase::default(),
            direct_path: DirectPath::Blkdev,
            buffered_path: DirectPath::Iomap,
            max_retries: 5,
            io_throttle: io_throttle::Config::default(),
            exact_io_max: false,
            wbt_lat: None,
            wbt_writes: 0,
            wbt_dirty_sleeps: false,
            error_injection: ErrorInjection::default(),
        }
    }

    /// Returns the rules in force.
    pub fn rules(&self) -> Rules {
        self.other_rules.unwrap_or_else(|| self.kernel.rules())
    }

    /// Returns the `nr_requests` in force.
    pub fn nr_requests(&self) -> u32 {
        match self.nr_requests {
            Some(n) if self.scheduler.is_none() => n.min(self.queue_depth),
            Some(n) => n,
            None => self.first_nr_requests(),
        }
    }

    /// Returns the `nr_requests` that the queue has until another is written.
    fn first_nr_requests(&self) -> u32 {
        (self.scheduler.info().first_requests)(self.queue_depth)
    }

    /// Returns the number of tags that the set of each hardware queue was made with, that of the
    /// scheduler if there is one: if `nr_requests` is less, only so many are used, and if it is
    /// more, the kernel made another set.
    pub(crate) fn tags_made(&self) -> u32 {
        self.nr_requests().max(self.first_nr_requests())
    }

    /// Returns log2 of the number of bits in a word of these tags (measured: Linux 6.18 shows
    /// `bits_per_word=64` in debugfs whether 256, 64 or 16 of 256 are used).
    pub(crate) fn word_shift(&self) -> u32 {
        crate::tags::word_shift(self.tags_made())
    }

    /// Returns the `async_depth` in force, as sysfs shows it (7.0 and later): without a scheduler
    /// the queue depth.
    pub fn async_depth(&self) -> u32 {
        let all = self.nr_requests();
        match self.async_depth {
            _ if self.scheduler.is_none() => self.queue_depth,
            Some(depth) => depth.min(all),
            // Linux takes the share of the first `nr_requests` in whole tags, and scales that when
            // another is written: 32 of 64 on a device of depth 1 under BFQ (measured on 7.3).
            None => {
                let first = self.first_nr_requests();
                let share = (first * self.scheduler.info().async_quarters / 4).max(1);
                (u64::from(share) * u64::from(all) / u64::from(first.max(1))).max(1) as u32
            }
        }
    }

    /// Returns the target of writeback throttling; `None` if it is off.
    pub fn wbt_target(&self) -> Option<Nanos> {
        let is_off = self.wbt_lat.is_none() && self.scheduler.info().turns_wbt_off;
        (!is_off).then(|| self.wbt_lat()).filter(|target| !target.is_zero())
    }

    /// Returns the most background writes that writeback throttling lets in while there are reads
    /// and no task sleeps for the limit of dirty pages.
    pub const fn most_background_writes(&self) -> u32 {
        wbt::most_background(self.queue_depth)
    }

    /// Returns true if writeback throttling is as it is by default, also off while io.cost is on.
    pub(super) fn wbt_yields_to_io_cost(&self) -> bool {
        self.wbt_lat.is_none() && self.rules().io_cost_turns_wbt_off
    }

    /// Returns `wbt_lat_usec` as sysfs shows it.
    pub(super) fn shown_wbt_target(&self, rules: &Rules) -> Nanos {
        let is_shown = self.wbt_target().is_some() || !rules.wbt_shown_off_under_bfq;
        if is_shown { self.wbt_lat() } else { Nanos::ZERO }
    }

    /// Returns the target that was set, or that of the kind of device.
    fn wbt_lat(&self) -> Nanos {
        self.wbt_lat.unwrap_or(Nanos::from_millis(if self.limits.rotational { 75 } else { 2 }))
    }

    /// Returns true if the queue has the setting `async_depth`.
    fn has_async_depth(&self) -> bool {
        self.rules().queue_async_depth && !self.scheduler.is_none()
    }

    /// Returns the form of io_ticks in force.
    pub fn io_ticks_form(&self) -> IoTicksForm {
        self.io_ticks.unwrap_or(self.rules().io_ticks)
    }

    /// Sets one queue setting by its name and text, as `--set` takes them: a row of [`SETTINGS`] or
    /// of [`crate::limits::SYSFS`].
    ///
    /// # Errors
    /// Says what would be right. Nothing is changed in this case.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        if let Some(row) = setting::find(SETTINGS, key) {
            return row.set(self, value);
        }
        if key.starts_with("atomic_write_") && !self.rules().atomic_writes {
            let want =
                "--kernel 6.12 or a later one: Linux has atomic writes from 6.11 on".to_string();
            return Err(SettingError::Value {
                key: key.to_string(),
                value: value.to_string(),
                want,
            });
        }
        let Some(limit) = SYSFS.iter().find(|limit| limit.name == key) else {
            let key = key.to_string();
            return Err(match why_not_modelled(&key) {
                Some(reason) => SettingError::NotModelled { key, reason },
                None => SettingError::Key { key },
            });
        };
        let written = value;
        // What sysfs shows and takes for it.
        let value = match (key, value) {
            ("write_cache", "write back") => "1",
            ("write_cache", "write through" | "none") => "0",
            _ => value,
        };
        let bad = || {
            let want = match limit.unit {
                _ if key == "write_cache" => {
                    "0 or 1, write through, write back or none".to_string()
                }
                "0 or 1" => limit.unit.to_string(),
                "" => "a whole number".to_string(),
                "bytes" => "a whole number of bytes, with k, m or g for powers of 1024".to_string(),
                unit => format!("a whole number ({unit})"),
            };
            SettingError::Value { key: key.to_string(), value: written.to_string(), want }
        };
        // What cannot be set at all is refused with that reason, whatever the value.
        let number =
            if limit.is_settable() { number(value, limit.unit).ok_or_else(bad)? } else { 0 };
        self.limits.set_sysfs(key, number, &self.rules()).map_err(SettingError::Limit)
    }

    /// Returns a configuration in which nothing was set, for the defaults of rows that do not
    /// depend on the device.
    fn unset() -> Self {
        Self::new(QueueLimits::default(), Sectors::ZERO, 1, 1)
    }

    /// Returns the rows of [`SETTINGS`] that a report always has, with their values in force.
    pub fn reported(&self) -> impl Iterator<Item = (&'static str, String)> {
        setting::reported(SETTINGS, self)
    }

    /// Returns the rows of [`SETTINGS`] that a report has because their values are not the default.
    pub fn changed(&self) -> Vec<(&'static str, String)> {
        setting::changed(SETTINGS, self, &Self::unset())
    }
}

/// Returns the number that a text is; one of bytes may be so many KiB (`k`), MiB or GiB.
fn number(text: &str, unit: &str) -> Option<u64> {
    let of_bytes = |(suffix, shift)| Some((text.strip_suffix(suffix)?, shift));
    let (digits, shift) = match unit {
        "bytes" => {
            [('k', 10u32), ('m', 20), ('g', 30)].into_iter().find_map(of_bytes).unwrap_or((text, 0))
        }
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Returns every row of [`SETTINGS`] as text.
pub fn lines() -> Vec<SettingLine> {
    SETTINGS.iter().map(|row| row.line(&StackConfig::unset())).collect()
}

type StackSetting = SettingRow<StackConfig>;

/// The largest `nr_requests` that Linux takes while a scheduler is in use.
const MAX_SCHEDULER_REQUESTS: u64 = 2048;
/// The largest `wbt_lat_usec`: Linux keeps it in nanoseconds.
const MOST_MICROS: i64 = i64::MAX / 1000;
/// What a smaller `nr_requests` becomes (measured: Linux 6.18 shows 4 after 0 to 3 was written,
/// with a scheduler and without).
const LEAST_REQUESTS: u32 = 4;

/// A number that is stored in the field of the same name.
macro_rules! number {
    ($key:ident: $type:ty, $range:expr, $unit:literal) => {
        SettingValue::Number {
            unit: $unit,
            range: $range,
            takes_more: false,
            get: |c: &StackConfig| c.$key.into(),
            set: |c: &mut StackConfig, n| {
                c.$key = n as $type;
                Ok(())
            },
        }
    };
}

/// A switch (0 or 1) that is stored in a field.
macro_rules! switch {
    ($($field:ident).+) => {
        SettingValue::Switch { get: |c: &StackConfig| c.$($field).+, set: |c, is_on| c.$($field).+ = is_on }
    };
}

/// What `--set` takes besides the queue limits.
pub const SETTINGS: &[SettingRow<StackConfig>] = &[
    StackSetting {
        key: "fill",
        help: "where a direct-I/O bio ends: vectors used up (from 7.0 on as folio); vectors of one folio each used up; at \
               max_sectors (proposal 001); trimmed to a multiple of max_sectors; of 256 KiB",
        follows: None,
        reported: Reported::Always,
        value: SettingValue::Choice {
            names: setting_names!(Fill),
            get: |c| c.fill.name(),
            set: |c, text| Fill::from_name(text).map(|fill| c.fill = fill),
        },
    },
    StackSetting {
        key: "io_ticks",
        help: "form of utilisation behind %util: 5.7-6.9; proposal 003; 6.10 and later; nanoseconds",
        follows: Some("by --kernel"),
        reported: Reported::Always,
        value: SettingValue::Choice {
            names: setting_names!(IoTicksForm),
            get: |c| c.io_ticks_form().name(),
            set: |c, text| {
                let form = IoTicksForm::ALL.into_iter().find(|form| form.name() == text);
                form.map(|form| c.io_ticks = Some(form))
            },
        },
    },
    StackSetting {
        key: "hz",
        help: "tick rate of jiffy-based clocks (io_ticks, scheduler deadlines)",
        follows: None,
        reported: Reported::Always,
        value: SettingValue::Number {
            unit: "ticks/s",
            range: (100, 1000),
            takes_more: false,
            get: |c: &StackConfig| c.hz.0,
            set: |c: &mut StackConfig, n| {
                c.hz = Hz(n);
                Ok(())
            },
        },
    },
    StackSetting {
        key: "tick_phase",
        help: "ticks of io_ticks against the run: their phase moves, as no process is in step with them; or a tick \
               begins with the run",
        follows: None,
        reported: Reported::IfChanged,
        value: SettingValue::Choice {
            names: setting_names!(TickPhase),
            get: |c| c.tick_phase.name(),
            set: |c, text| {
                let phase = TickPhase::ALL.into_iter().find(|phase| phase.name() == text);
                phase.map(|phase| c.tick_phase = phase)
            },
        },
    },
    StackSetting {
        key: "nr_requests",
        help: "requests that may be allocated on each hardware queue; less than 4 is 4; at most 2048 with a \
               scheduler of Linux",
        follows: Some("depth; 2*min(depth,128) with a scheduler, 1024 with aileron"),
        reported: Reported::Always,
        value: SettingValue::Number {
            unit: "requests",
            range: (0, MAX_DEPTH as u64),
            takes_more: false,
            get: |c| c.nr_requests().into(),
            set: |c, n| {
                if n > MAX_SCHEDULER_REQUESTS
                    && c.scheduler.info().in_linux
                    && !c.scheduler.is_none()
                {
                    return Err("at most 2048: Linux refuses more with a scheduler");
                }
                c.nr_requests = Some((n as u32).max(LEAST_REQUESTS));
                Ok(())
            },
        },
    },
    StackSetting {
        key: "async_depth",
        help: "scheduler tags that may be taken by what is not a synchronous read (Linux 7.0 and later)",
        follows: Some("nr_requests; 3/4 of it with kyber, bfq"),
        reported: Reported::If(StackConfig::has_async_depth),
        value: SettingValue::Number {
            unit: "requests",
            range: (1, MAX_DEPTH as u64),
            // Linux holds it to nr_requests (measured on 7.3).
            takes_more: true,
            get: |c| c.async_depth().into(),
            set: |c, n| {
                if !c.rules().queue_async_depth {
                    return Err(
                        "a kernel from 7.0 on; before, mq-deadline has a tunable of that name",
                    );
                }
                if c.scheduler.is_none() {
                    return Err("a scheduler: without one there is no such limit");
                }
                let Ok(depth) = u32::try_from(n) else { return Err("a number of 32 bits") };
                c.async_depth = Some(depth);
                Ok(())
            },
        },
    },
    StackSetting {
        key: "tag_hint",
        help: "scheduler tag where each CPU looks for its first one, which Linux draws; tags are then spread as \
               there; -1: the lowest free tag",
        follows: None,
        reported: Reported::IfChanged,
        value: SettingValue::Text {
            takes: "0..10240 or -1",
            get: |c| c.tag_hint.map_or_else(|| "-1".into(), |hint| hint.to_string()),
            set: |c, text| {
                c.tag_hint = match text.parse::<i64>() {
                    Ok(-1) => None,
                    Ok(hint) if (0..=i64::from(MAX_DEPTH)).contains(&hint) => Some(hint as u32),
                    _ => return Err("a tag from 0 to 10240, or -1 for the lowest free tag"),
                };
                Ok(())
            },
        },
    },
    StackSetting {
        key: "nomerges",
        help: "1, and every number above 2: only cheap merges in the scheduler; 2: no merging",
        follows: None,
        reported: Reported::Always,
        value: SettingValue::Number {
            unit: "",
            range: (0, 2),
            takes_more: true,
            get: |c| c.nomerges.into(),
            set: |c, n| {
                c.nomerges = if n > 2 { 1 } else { n as u8 };
                Ok(())
            },
        },
    },
    StackSetting {
        key: "cpus",
        help: "CPUs that processes are spread over",
        follows: Some("max(4, hw_queues)"),
        reported: Reported::Always,
        value: number!(cpus: u16, (1, 4096), "CPUs"),
    },
    StackSetting {
        key: "io_timeout",
        help: "time a command may take before the driver's timeout handler runs",
        follows: Some("30000; eMMC: 60000"),
        reported: Reported::Always,
        value: SettingValue::Number {
            unit: "ms",
            range: (1, 86_400_000),
            takes_more: false,
            get: |c| c.io_timeout.as_millis(),
            set: |c, ms| {
                c.io_timeout = Nanos::from_millis(ms);
                Ok(())
            },
        },
    },
    StackSetting {
        key: "max_retries",
        help: "tries after a retryable error (path-type errors; never failfast or read-ahead); simulated devices only",
        follows: None,
        reported: Reported::Always,
        value: number!(max_retries: u8, (0, 100), "times"),
    },
    StackSetting {
        key: "direct_path",
        help: "direct I/O on the device itself or through a file system: differs in plugging and in the SYNC flag of reads",
        follows: None,
        reported: Reported::Always,
        value: SettingValue::Choice {
            names: setting_names!(DirectPath),
            get: |c| c.direct_path.name(),
            set: |c, text| DirectPath::from_name(text).map(|path| c.direct_path = path),
        },
    },
    StackSetting {
        key: "buffered_path",
        help: "buffered writes of the device itself or of a file system: a bio for each block, or for each range of pages",
        follows: Some("by the files: blkdev if all cached ones are block devices, otherwise iomap"),
        reported: Reported::IfChanged,
        value: SettingValue::Choice {
            names: setting_names!(DirectPath),
            get: |c| c.buffered_path.name(),
            set: |c, text| DirectPath::from_name(text).map(|path| c.buffered_path = path),
        },
    },
    StackSetting {
        key: "wbt_lat_usec",
        help: "writeback throttling: read latency below which buffered writes and discards are not held back; 0 turns \
               it off, -1 is the default",
        follows: Some("2000; rotational: 75000; 0 under bfq, aileron"),
        reported: Reported::IfChanged,
        value: SettingValue::Text {
            takes: "0..9223372036854775 us, or -1",
            get: |c| c.wbt_target().map_or(0, Nanos::as_micros).to_string(),
            set: |c, text| {
                c.wbt_lat = match text.parse::<i64>() {
                    Ok(-1) => None,
                    Ok(us @ 0..=MOST_MICROS) => Some(Nanos::from_micros(us as u64)),
                    _ => {
                        return Err(
                            "a whole number from 0 to 9223372036854775 (us), or -1 for the default",
                        );
                    }
                };
                Ok(())
            },
        },
    },
    StackSetting {
        key: "queue_depth",
        help: "driver tags of each hardware queue",
        follows: Some("by device"),
        reported: Reported::WithDevice,
        value: number!(queue_depth: u32, (1, MAX_DEPTH as u64), "commands"),
    },
    StackSetting {
        key: "hw_queues",
        help: "hardware queues",
        follows: Some("by device"),
        reported: Reported::WithDevice,
        value: number!(hw_queues: u16, (1, 1024), "queues"),
    },
    StackSetting {
        key: "iostats",
        help: "account requests; a number above 1 is 1",
        follows: None,
        reported: Reported::IfChanged,
        value: SettingValue::Text {
            takes: "0|1",
            get: |c| u8::from(c.iostats).to_string(),
            set: |c, text| {
                c.iostats = text.parse::<u64>().map_err(|_| "0 or 1")? != 0;
                Ok(())
            },
        },
    },
    StackSetting {
        key: "throttle_counter",
        help: "io-throttle: no lookup and no accounting while no tenant has a rule (proposal 004)",
        follows: None,
        reported: Reported::IfChanged,
        value: switch!(io_throttle.counter),
    },
    StackSetting {
        key: "throttle_class_aware",
        help: "io-throttle: a queue for each priority class, so that RT does not wait behind BE",
        follows: None,
        reported: Reported::IfChanged,
        value: switch!(io_throttle.class_aware),
    },
    StackSetting {
        key: "throttle_quirks",
        help: "io-throttle: the arithmetic of 2009, errors and all",
        follows: None,
        reported: Reported::IfChanged,
        value: switch!(io_throttle.quirks),
    },
    StackSetting {
        key: "io_max",
        help: "how a tenant's io.max is met: in slices of time as Linux does, or to the nanosecond",
        follows: None,
        reported: Reported::IfChanged,
        value: SettingValue::Choice {
            names: &["slices", "exact"],
            get: |c| if c.exact_io_max { "exact" } else { "slices" },
            set: |c, text| {
                c.exact_io_max = match text {
                    "slices" => false,
                    "exact" => true,
                    _ => return None,
                };
                Some(())
            },
        },
    },
    StackSetting {
        key: "error_injection",
        help: "bios that end with an error before they are queued, as in debugfs of 7.2 and later; may be given again, \
               the newest rule goes first",
        follows: None,
        reported: Reported::IfChanged,
        value: SettingValue::Text {
            takes: inject::TAKES,
            get: |c| c.error_injection.to_string(),
            set: |c, text| match c.rules().error_injection {
                true => c.error_injection.write(text),
                false => Err("--kernel 7.2 or later, which have error injection"),
            },
        },
    },
];

/// Returns true if `--set` takes the name: a row of [`SETTINGS`], or a queue limit that can be set.
pub(crate) fn is_setting(key: &str) -> bool {
    let is_limit = || SYSFS.iter().any(|limit| limit.name == key && limit.is_settable());
    setting::find(SETTINGS, key).is_some() || is_limit()
}

/// Settings of a kernel's queue that the stack does not model, with the reason.
const NOT_MODELLED: &[(&str, &str)] = &[
    ("rq_affinity", "a completion costs the same on every CPU here"),
    ("add_random", "there is no entropy pool here"),
    ("io_poll_delay", "completions are events here, nothing polls for them"),
    ("scheduler", "use --scheduler NAME"),
    ("max_write_streams", NO_STREAMS),
    ("write_stream_granularity", NO_STREAMS),
    ("iostats_passthrough", "nothing here issues passthrough requests"),
    ("write_zeroes_unmap_max_bytes", NO_WRITE_ZEROES),
    ("write_zeroes_unmap_max_hw_bytes", NO_WRITE_ZEROES),
    ("write_same_max_bytes", "nothing here issues write-same"),
    ("zoned_qd1_writes", "no device here has zones"),
    ("nr_zones", "no device here has zones"),
    ("stable_writes", "no device here needs pages that stay the same while they are written"),
    ("discard_zeroes_data", "the kernel ignores it, too"),
    ("dax", "no device here is memory"),
];
const NO_STREAMS: &str = "no job gives its writes a stream";
const NO_WRITE_ZEROES: &str =
    "whether zeroes unmap is asked for by each command, not by a limit of the queue";

/// Returns the reason why the stack does not model this setting of a kernel's queue; `None` if no
/// such setting is known.
pub(crate) fn why_not_modelled(key: &str) -> Option<&'static str> {
    NOT_MODELLED.iter().find(|(name, _)| *name == key).map(|&(_, reason)| reason)
}

#[cfg(test)]
mod tests;
