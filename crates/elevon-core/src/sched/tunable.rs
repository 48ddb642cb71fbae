//! Schedulers by name, their tunables, and `NAME[:tunable=value,...]`.

extern crate alloc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;

use super::SCHEDULERS;
use crate::kernel::Rules;
use crate::nearest::nearest;
use crate::stack::config::{is_setting, why_not_modelled};

/// Name, description, tunables and properties of a scheduler.
#[derive(Clone, Copy, Debug)]
pub struct SchedulerInfo {
    /// Name, as in `queue/scheduler`.
    pub name: &'static str,
    /// One-line description.
    pub summary: &'static str,
    /// What it decides by, beside operation, place and size; a trace need not have it.
    pub reads: &'static [Reads],
    /// Its tunables, ordered by name as in sysfs.
    pub tunables: &'static [TunableInfo],
    /// True if Linux has it.
    pub in_linux: bool,
    /// Its name in messages about weights, if it divides the device by tenants' weights.
    pub divides_as: Option<&'static str>,
    /// True if it keeps tenants' reserves.
    pub keeps_reserves: bool,
    /// True if writeback throttling is off under it by default.
    pub turns_wbt_off: bool,
    /// Returns the `nr_requests` that the queue of a device of this depth has by default.
    pub first_requests: fn(u32) -> u32,
    /// Quarters of `nr_requests` that asynchronous requests may take by default, 1 to 4 (the
    /// queue's `async_depth` of 7.0 and later).
    pub async_quarters: u32,
    /// Returns the values that may be written to a tunable; those outside of its range are clamped
    /// ([`TunableInfo::in_force`]).
    pub taken: fn(&TunableInfo) -> RangeInclusive<i64>,
}

/// The `nr_requests` that Linux gives a queue with a scheduler: twice the device's depth, of which
/// 128 count at most.
pub(super) const fn requests_of_linux(depth: u32) -> u32 {
    2 * if depth < 128 { depth } else { 128 }
}

/// What a scheduler decides by that a trace need not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The process that submitted an I/O.
    Process,
    /// Class and level of the I/O priority.
    Priority,
    /// The class of the I/O priority alone, from Linux 5.15 on.
    PriorityClass,
    /// True if a task waits for the write (SYNC).
    Sync,
}

/// A tunable of a scheduler (`/sys/block/X/queue/iosched/NAME`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunableInfo {
    /// Name, as in sysfs.
    pub name: &'static str,
    /// Unit, as in sysfs.
    pub unit: &'static str,
    /// Default, as text.
    pub default: &'static str,
    /// Range, as text.
    pub range: &'static str,
    /// Smallest value accepted.
    pub min: i64,
    /// Largest value accepted.
    pub max: i64,
    /// One-line description.
    pub help: &'static str,
    /// Names of the values from `min` on, if the tunable is a choice and not a number.
    pub choices: &'static [&'static str],
}

const INT_MAX: i64 = i32::MAX as i64;
/// Range of a C `int` from 0 on: the text, and the ends.
pub(super) const NATURAL: (&str, i64, i64) = ("0..2147483647", 0, INT_MAX);
/// Range of a C `int` from 1 on: the text, and the ends.
pub(super) const POSITIVE: (&str, i64, i64) = ("1..2147483647", 1, INT_MAX);

/// Returns the row of a tunable that is a number.
pub(super) const fn row(
    name: &'static str,
    unit: &'static str,
    default: &'static str,
    (range, min, max): (&'static str, i64, i64),
    help: &'static str,
) -> TunableInfo {
    TunableInfo { name, unit, default, range, min, max, help, choices: &[] }
}

impl TunableInfo {
    /// Parses a value: an integer, or one of the names if the tunable has names.
    pub fn parse(&self, text: &str) -> Option<i64> {
        let named =
            self.choices.iter().position(|&name| name == text).map(|at| self.min + at as i64);
        if self.choices.is_empty() { text.parse().ok() } else { named }
    }

    /// Returns the range.
    pub fn values(&self) -> RangeInclusive<i64> {
        self.min..=self.max
    }

    /// Returns the value that is in force after a value was set: the nearest in the range.
    pub fn in_force(&self, value: i64) -> i64 {
        value.clamp(self.min, self.max)
    }

    /// Returns a value as text.
    pub fn show(&self, value: i64) -> String {
        let name = usize::try_from(value - self.min).ok().and_then(|at| self.choices.get(at));
        name.map_or_else(|| value.to_string(), |name| (*name).to_string())
    }
}

/// A scheduler, and the tunables that differ from their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Name, one of [`SCHEDULERS`].
    pub name: &'static str,
    /// Checked tunables in the order given; if a name occurs twice, the later value is used. A
    /// value may lie outside the range; see [`TunableInfo::in_force`].
    pub tunables: Vec<(&'static str, i64)>,
}

/// Former name of `aileron`. A scheduler outside the tree of Linux has it.
const FORMER_NAME: &str = "flow";

/// Why a scheduler or a tunable was refused. The message is one line that says what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedulerError {
    /// There is no scheduler of that name.
    UnknownScheduler {
        /// The name that was given.
        name: String,
    },
    /// The scheduler has no tunable of that name.
    UnknownTunable {
        /// The scheduler.
        scheduler: &'static str,
        /// The name that was given.
        name: String,
    },
    /// The text is not of the form `tunable=value`.
    NoValue {
        /// The part that was not understood.
        part: String,
    },
    /// The tunable is given more than once.
    Twice {
        /// The tunable.
        tunable: &'static str,
    },
    /// The kernel version has it as a setting of the queue.
    NowOfQueue {
        /// The tunable, and the setting.
        tunable: &'static str,
    },
    /// The value is not an integer in the tunable's range.
    BadValue {
        /// The tunable.
        tunable: &'static TunableInfo,
        /// The value as given.
        value: String,
    },
}

/// Returns the description of the scheduler with a name, one of [`SCHEDULERS`].
pub fn scheduler(name: &str) -> Option<&'static SchedulerInfo> {
    SCHEDULERS.iter().find(|s| s.name == name)
}

/// Returns true if the kernel version has this tunable as such: `async_depth` is a setting of the
/// queue from Linux 7.0 on.
pub(super) fn is_tunable(name: &str, rules: &Rules) -> bool {
    !(rules.queue_async_depth && name == "async_depth")
}

/// Finds a tunable of a scheduler and checks that `value` may be written to it.
pub(super) fn check(
    scheduler: &'static SchedulerInfo,
    name: &str,
    value: i64,
) -> Result<&'static TunableInfo, SchedulerError> {
    let tunable = find(scheduler, name)?;
    if (scheduler.taken)(tunable).contains(&value) {
        Ok(tunable)
    } else {
        Err(SchedulerError::BadValue { tunable, value: value.to_string() })
    }
}

fn find(
    scheduler: &'static SchedulerInfo,
    name: &str,
) -> Result<&'static TunableInfo, SchedulerError> {
    let unknown =
        || SchedulerError::UnknownTunable { scheduler: scheduler.name, name: name.to_string() };
    scheduler.tunables.iter().find(|t| t.name == name).ok_or_else(unknown)
}

impl Default for SchedulerConfig {
    /// Returns `none`.
    fn default() -> Self {
        Self { name: super::none::INFO.name, tunables: Vec::new() }
    }
}

impl SchedulerConfig {
    /// Returns the scheduler's description.
    ///
    /// # Panics
    /// If there is none of its name, which no configuration that was parsed has.
    pub fn info(&self) -> &'static SchedulerInfo {
        scheduler(self.name).expect("a scheduler of this name")
    }

    /// Returns true if requests go to the driver without a scheduler.
    pub fn is_none(&self) -> bool {
        self.name == super::none::INFO.name
    }

    /// Gives a tunable a value if the scheduler has the tunable and none was given. Returns whether
    /// it does. The value must be one that the tunable takes.
    pub fn set_if_not_given(&mut self, tunable: &str, value: &str) -> bool {
        let Ok(tunable) = find(self.info(), tunable) else { return false };
        let is_given = self.tunables.iter().any(|(name, _)| *name == tunable.name);
        let value = tunable.parse(value).filter(|_| !is_given);
        self.tunables.extend(value.map(|value| (tunable.name, value)));
        value.is_some()
    }

    /// Checks that the kernel version has the tunables as such.
    ///
    /// # Errors
    /// Names the first that is a setting of the queue there.
    pub fn check(&self, rules: &Rules) -> Result<(), SchedulerError> {
        match self.tunables.iter().find(|(name, _)| !is_tunable(name, rules)) {
            Some(&(tunable, _)) => Err(SchedulerError::NowOfQueue { tunable }),
            None => Ok(()),
        }
    }

    /// Returns a scheduler with default tunables.
    ///
    /// # Errors
    /// There is no such scheduler.
    pub fn new(name: &str) -> Result<Self, SchedulerError> {
        Self::parse(name)
    }

    /// Parses `NAME[:tunable=value,...]`: names and units of sysfs, values as integers.
    ///
    /// # Errors
    /// There is no such scheduler or tunable, or a value is missing or not valid.
    pub fn parse(text: &str) -> Result<Self, SchedulerError> {
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name.trim(), Some(rest)),
            None => (text.trim(), None),
        };
        let info = scheduler(name)
            .ok_or_else(|| SchedulerError::UnknownScheduler { name: name.to_string() })?;
        let mut tunables = Vec::new();
        for part in rest.into_iter().flat_map(|rest| rest.split(',')) {
            let Some((name, value)) = part.split_once('=') else {
                return Err(SchedulerError::NoValue { part: part.to_string() });
            };
            let tunable = find(info, name.trim())?;
            let bad = || SchedulerError::BadValue { tunable, value: value.trim().to_string() };
            let value = tunable.parse(value.trim()).ok_or_else(bad)?;
            if tunables.iter().any(|(name, _)| *name == tunable.name) {
                return Err(SchedulerError::Twice { tunable: tunable.name });
            }
            tunables.push((check(info, tunable.name, value)?.name, value));
        }
        Ok(Self { name: info.name, tunables })
    }
}

/// Writes ` (did you mean X?); there are A, B`; the suggestion only if a known name is similar.
fn suggest(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    known: impl Iterator<Item = &'static str> + Clone,
) -> fmt::Result {
    if let Some(near) = nearest(name, known.clone()) {
        write!(f, " (did you mean {near:?}?)")?;
    }
    let mut separator = "; there are ";
    for k in known {
        write!(f, "{separator}{k}")?;
        separator = ", ";
    }
    Ok(())
}

impl fmt::Display for SchedulerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownScheduler { name } if name == FORMER_NAME => {
                write!(f, "{name} is called {} now: use that name", super::aileron::INFO.name)
            }
            Self::UnknownScheduler { name } => {
                write!(f, "unknown scheduler {name:?}")?;
                suggest(f, name, SCHEDULERS.iter().map(|s| s.name))
            }
            Self::UnknownTunable { scheduler, name } if is_setting(name) => {
                write!(
                    f,
                    "{name:?} is a setting of the queue, not a tunable of {scheduler}: use --set {name}=VALUE"
                )
            }
            Self::Twice { tunable } => write!(f, "{tunable} is given twice; give it once"),
            Self::UnknownTunable { scheduler: name, name: tunable } => {
                if let Some(reason) = why_not_modelled(tunable) {
                    let what = "is a setting of the queue, not a tunable of";
                    return write!(f, "{tunable:?} {what} {name}, and is not modelled: {reason}");
                }
                write!(f, "scheduler {name} has no tunable {tunable:?}")?;
                match scheduler(name) {
                    Some(info) if !info.tunables.is_empty() => {
                        suggest(f, tunable, info.tunables.iter().map(|t| t.name))
                    }
                    _ => write!(f, "; it has none at all"),
                }
            }
            Self::NowOfQueue { tunable } => {
                write!(
                    f,
                    "{tunable} is a setting of the queue in this kernel (7.0 and later): use --set {tunable}=VALUE"
                )
            }
            Self::NoValue { part } => {
                write!(f, "{part:?} after the scheduler's name is not of the form tunable=value")
            }
            Self::BadValue {
                tunable: TunableInfo { name, range, choices: [_, ..], .. },
                value,
            } => {
                write!(f, "{name}={value}: must be one of {range}")
            }
            Self::BadValue { tunable: TunableInfo { name, unit, range, .. }, value } => {
                write!(f, "{name}={value}: must be an integer in {range} ({unit})")
            }
        }
    }
}

impl core::error::Error for SchedulerError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn names_and_tunables_are_read() {
        assert_eq!(
            SchedulerConfig::parse("none"),
            Ok(SchedulerConfig { name: "none", tunables: vec![] })
        );
        assert_eq!(
            SchedulerConfig::parse("mq-deadline:fifo_batch=1, writes_starved=-1"),
            Ok(SchedulerConfig {
                name: "mq-deadline",
                tunables: vec![("fifo_batch", 1), ("writes_starved", -1)]
            })
        );
    }

    #[test]
    fn errors_say_what_would_be_right() {
        for (text, error) in [
            (
                "mq-dedline",
                r#"unknown scheduler "mq-dedline" (did you mean "mq-deadline"?); there are none, mq-deadline"#,
            ),
            (
                "deadline",
                r#"unknown scheduler "deadline" (did you mean "mq-deadline"?); there are none, mq-deadline"#,
            ),
            ("flow:prefer=shares", "flow is called aileron now: use that name"),
            ("x", r#"unknown scheduler "x"; there are none, mq-deadline"#),
            ("", r#"unknown scheduler ""; there are none, mq-deadline"#),
            (
                "none:fifo_batch=1",
                r#"scheduler none has no tunable "fifo_batch"; it has none at all"#,
            ),
            (
                "mq-deadline:fifobatch=1",
                r#"scheduler mq-deadline has no tunable "fifobatch" (did you mean "fifo_batch"?); there are async_depth, fifo_batch, front_merges, prio_aging_expire, read_expire, write_expire, writes_starved"#,
            ),
            (
                "mq-deadline:rotational=0",
                r#""rotational" is a setting of the queue, not a tunable of mq-deadline: use --set rotational=VALUE"#,
            ),
            (
                "bfq:rq_affinity=2",
                r#""rq_affinity" is a setting of the queue, not a tunable of bfq, and is not modelled: a completion "#,
            ),
            ("mq-deadline:fifo_batch=8,fifo_batch=8", "fifo_batch is given twice; give it once"),
            ("mq-deadline:", r#""" after the scheduler's name is not of the form tunable=value"#),
            (
                "mq-deadline:fifo_batch",
                r#""fifo_batch" after the scheduler's name is not of the form tunable=value"#,
            ),
            (
                "mq-deadline:fifo_batch=16k",
                "fifo_batch=16k: must be an integer in 0..2147483647 (requests)",
            ),
            (
                "mq-deadline:read_expire=2147483648",
                "read_expire=2147483648: must be an integer in 0..2147483647 (ms)",
            ),
            ("bfq:slice_idle=-1", "slice_idle=-1: must be an integer in 0..2147483647 (ms)"),
            (
                "kyber:read_lat_nsec=-1",
                "read_lat_nsec=-1: must be an integer in 0..9223372036854775807 (ns)",
            ),
            (
                "mq-deadline:front_merges=99999999999999999999",
                "front_merges=99999999999999999999: must be an integer in 0..1 (boolean)",
            ),
        ] {
            // The list of schedulers grows; the test compares the beginning of the line.
            let shown = SchedulerConfig::parse(text).unwrap_err().to_string();
            assert!(shown.starts_with(error), "{text}: {shown}");
        }
    }

    #[test]
    fn the_table_agrees_with_itself() {
        for scheduler in SCHEDULERS {
            let config = SchedulerConfig::parse(scheduler.name).unwrap();
            assert_eq!(config.name, scheduler.name);
            for t in scheduler.tunables {
                let named = t.choices.join("|");
                let range = if t.choices.is_empty() {
                    alloc::format!("{}..{}", t.min, t.max)
                } else {
                    named
                };
                assert_eq!(t.range, range, "{}", t.name);
                let default = t.parse(t.default);
                assert!(
                    default.is_some_and(|d| t.values().contains(&d)) || t.default == "nr_requests"
                );
                assert!(default.is_none_or(|d| t.show(d) == t.default));
            }
            assert!(scheduler.tunables.is_sorted_by_key(|t| t.name));
        }
    }
}
