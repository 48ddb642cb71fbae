//! `--memory`: the memory of the simulated machine, and so its page cache. `--cache`: a page cache
//! before a real device.

use elevon_cache::Watermarks;
use elevon_cache::page_cache::{CacheConfig, WriteMode};
use elevon_cache::settings;
use elevon_core::kernel::Kernel;
use elevon_core::stack::StackConfig;
use elevon_core::units::{Bytes, PAGE_SIZE, TaskId};
use elevon_formats::quantity::memory_text;
use elevon_sim::device::text::{Fields, TextError};
use elevon_workload::buffered::{ActivityControl, CacheCost};

use crate::failure::{ConflictError, Failure, ValueError};
use crate::setting;

/// Minimum memory that is left to a simulated page cache; with less, the kernel's reserves would
/// take most of it.
const MIN_SIMULATED_CACHE: u64 = 4 << 20;
/// Minimum size of a real page cache, without the memory that is kept free for reclaim.
const MIN_REAL_CACHE: u64 = 64 << 10;
/// Maximum memory of a machine.
const MAX_MEMORY: u64 = 1 << 42;

/// Page cache of a run.
#[derive(Clone, Debug)]
pub struct CachePlan {
    /// The flusher's task and the values of the device are set later, when jobs and device are
    /// known.
    config: CacheConfig,
    /// CPU time of calls on it.
    pub cost: CacheCost,
    /// Control of an experiment that replaces `activity=`, with its name.
    control: Option<(ActivityControl, String)>,
    /// `read_ahead_kb` was set; otherwise it follows from the device.
    is_read_ahead_set: bool,
}

/// Memory as given on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory<'a> {
    /// Neither `--memory` nor `--cache`.
    None,
    /// No `--cache` before a device that is served.
    NoneServed,
    /// Value of `--memory`.
    Simulated(&'a str),
    /// Value of `--cache`.
    Real(&'a str),
}

impl CachePlan {
    /// Creates the plan from `--memory` or `--cache`, the kernel version, and the `--set` settings
    /// of the page cache.
    pub(crate) fn new(
        memory: Memory<'_>,
        kernel: Kernel,
        settings: &[(String, String)],
        cost: CacheCost,
    ) -> Result<Option<Self>, Failure> {
        let mut of_cache = settings.iter().filter(|(key, _)| settings::is_setting(key));
        let mut config = match memory {
            Memory::Simulated(text) => {
                let Sizes { memory, others, idle, zram } = sizes(text)?;
                CacheConfig { reserved: others, idle, zram, ..CacheConfig::new(memory, TaskId(0)) }
            }
            Memory::Real(text) => real(text)?,
            Memory::None | Memory::NoneServed => {
                let missing = if memory == Memory::None {
                    ConflictError::NeedsPageCache
                } else {
                    ConflictError::NeedsServedCache
                };
                return match of_cache.find(|(key, value)| key != "activity" || value != "off") {
                    Some((key, value)) => {
                        Err(Failure::named(format!("--set {key}={value}"), missing))
                    }
                    None => Ok(None),
                };
            }
        };
        config.set_kernel(kernel);
        let mut control = None;
        let of_cache: Vec<(&str, &str)> =
            of_cache.map(|(key, value)| (key.as_str(), value.as_str())).collect();
        is_given_once(memory, &of_cache)?;
        let is_read_ahead_set = of_cache.iter().any(|(key, _)| *key == "read_ahead_kb");
        // The replacement policy decides which other settings exist.
        let (policy, others): (Vec<_>, Vec<_>) =
            of_cache.into_iter().partition(|(key, _)| *key == "cache");
        for (key, value) in policy.into_iter().chain(others) {
            if key == "activity" {
                control = ActivityControl::parse(value).map(|control| (control, value.to_owned()));
                if control.is_some() && config.copies {
                    return Err(Failure::named(
                        format!("--set activity={value}"),
                        ConflictError::SimulatedControl,
                    ));
                }
                if control.is_some() {
                    continue;
                }
            }
            config.set(key, value).map_err(setting::refused)?;
        }
        // On a real clock, the CPU time really passes.
        let cost = if config.copies { CacheCost::default() } else { cost };
        Ok(Some(Self { config, cost, control, is_read_ahead_set }))
    }

    /// Gives all folios one page, as on a kernel without huge pages.
    pub const fn use_single_pages(&mut self) {
        self.config.single_pages = true;
    }

    /// Returns the configuration of the cache for the given stack.
    pub fn config(&self, stack: &StackConfig) -> CacheConfig {
        let mut config = self.config.clone();
        config.hz = stack.hz;
        let rules = stack.rules();
        if !self.is_read_ahead_set {
            config.ra_pages = (stack.limits.read_ahead(&rules).get() / PAGE_SIZE) as u32;
        }
        if stack.other_rules.is_some() {
            config.take_rules(rules);
        }
        config.io_pages = (stack.limits.max_sectors.bytes().get() / PAGE_SIZE).max(1) as u32;
        config
    }

    /// Returns the memory for the frames of a real cache.
    pub const fn frames(&self) -> Bytes {
        self.config.memory
    }

    /// Refuses a real cache that is larger than the machine's memory: if the kernel ended the
    /// process for lack of memory, dirty data would be lost.
    pub(crate) fn fits(&self, text: &str, machine: Bytes) -> Result<(), Failure> {
        if !self.config.copies || self.config.memory <= machine {
            return Ok(());
        }
        let memory = memory_text(Bytes::new(machine.get() >> 20 << 20));
        Err(Failure::named(format!("--cache {text}"), ValueError::LargerThanMachine { memory }))
    }

    /// Returns the control that decides in place of content which bios are RT.
    pub fn control(&self, seed: u64) -> Option<ActivityControl> {
        self.control.as_ref().map(|&(control, _)| match control {
            ActivityControl::Random { permille, .. } => ActivityControl::Random { permille, seed },
            ActivityControl::Oracle | ActivityControl::Faults => control,
        })
    }

    /// Returns the machine's memory, and the part of it that others use.
    pub const fn sizes(&self) -> (Bytes, Bytes) {
        (self.config.memory, self.config.reserved)
    }

    /// Returns the names of policy and activity.
    pub fn names(&self) -> (&'static str, &str) {
        let activity = self.control.as_ref().map_or(self.config.activity.name(), |(_, name)| name);
        (self.config.policy.name(), activity)
    }

    /// Returns the settings of the page cache, for the configuration in a report.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let CacheConfig { memory, reserved, idle, zram, .. } = &self.config;
        let mut rows = vec![("memory", memory_text(*memory)), ("others", memory_text(*reserved))];
        for (key, value) in self.config.reported() {
            match key {
                "activity" => rows.push((key, self.names().1.to_owned())),
                // Swappiness decides between pages of files and the memory of `idle` and `zram`.
                "swappiness" => rows.extend([
                    ("idle", memory_text(*idle)),
                    ("zram", memory_text(*zram)),
                    (key, value),
                ]),
                _ => rows.push((key, value)),
            }
        }
        rows
    }
}

/// Refuses a setting with two names if both are given with different values, because it is unclear
/// which one should apply.
fn is_given_once(memory: Memory<'_>, settings: &[(&str, &str)]) -> Result<(), Failure> {
    let last = |wanted: &str| {
        settings.iter().rev().find(|(key, _)| *key == wanted).map(|(_, value)| *value)
    };
    let twice = |key: &str, value: &str, other: String| {
        Err(Failure::named(format!("--set {key}={value}"), ConflictError::SaysOtherwise { other }))
    };
    if let (Memory::Real(text), Some(value)) = (memory, last("cache_mode"))
        && let Some((_, mode)) = text.split_once(',')
        && mode != value
    {
        return twice("cache_mode", value, format!("--cache {text}"));
    }
    if let (Some(policy), Some(value)) = (last("cache"), last("min_ttl_ms"))
        && let Some((_, of_policy)) = policy.split_once(":min_ttl_ms=")
        && of_policy != value
    {
        return twice("min_ttl_ms", value, format!("--set cache={policy}"));
    }
    Ok(())
}

/// Parses `SIZE[,write-back|write-through]`. SIZE is the data that the cache holds; memory that is
/// kept free for reclaim is added.
fn real(text: &str) -> Result<CacheConfig, Failure> {
    let name = || format!("--cache {text}");
    let bad = |error: TextError| wrong("--cache", text, error);
    let (size, mode) = text.split_once(',').map_or((text, None), |(size, mode)| (size, Some(mode)));
    let mode = mode.map(|mode| {
        let expected = || ValueError::expected("write-back or write-through");
        WriteMode::from_name(mode)
            .ok_or_else(|| Failure::named(format!("{}: {mode}", name()), expected()))
    });
    let pair = format!("size={size}");
    let fields = Fields::parse("cache", &pair, &["size"]).map_err(bad)?;
    let size = fields.memory("size", Bytes::ZERO).map_err(bad)?;
    if size.get() < MIN_REAL_CACHE || size.get() > MAX_MEMORY {
        return Err(Failure::named(name(), ValueError::expected("64KiB or more, up to 4TiB")));
    }
    let free = Bytes::new(Watermarks::of_memory(size, 0).high * PAGE_SIZE);
    let write_mode = mode.transpose()?.unwrap_or_default();
    Ok(CacheConfig { write_mode, copies: true, ..CacheConfig::new(size + free, TaskId(0)) })
}

/// Returns the failure for a text that begins with a size, whose key the user did not write.
fn wrong(option: &str, text: &str, error: TextError) -> Failure {
    match error {
        TextError::BadValue { key, value, expected, .. } if key == "size" => {
            let name = if value == text {
                format!("{option} {text}")
            } else {
                format!("{option} {text}: {value}")
            };
            Failure::named(name, ValueError::expected(expected))
        }
        error => Failure::named(format!("{option} {text}"), error),
    }
}

/// The values of `--memory`.
#[derive(Debug)]
struct Sizes {
    memory: Bytes,
    others: Bytes,
    idle: Bytes,
    zram: Bytes,
}

/// Parses `SIZE[,others=SIZE[,idle=SIZE[,zram=SIZE]]]`.
fn sizes(text: &str) -> Result<Sizes, Failure> {
    let bad = |error: ValueError| Failure::named(format!("--memory {text}"), error);
    let pairs = format!("size={text}");
    let fields = Fields::parse("memory", &pairs, &["size", "others", "idle", "zram"])
        .map_err(|error| wrong("--memory", text, error))?;
    let size =
        |key| fields.memory(key, Bytes::ZERO).map_err(|error| wrong("--memory", text, error));
    let (memory, others, idle, zram) =
        (size("size")?, size("others")?, size("idle")?, size("zram")?);
    let left = memory.get().saturating_sub(others.get());
    if left < MIN_SIMULATED_CACHE || memory.get() > MAX_MEMORY {
        return Err(bad(ValueError::MemoryLeft { left }));
    }
    if idle > others {
        return Err(bad(ValueError::IdleAboveOthers { idle: idle.get(), others: others.get() }));
    }
    if idle.is_zero() && !zram.is_zero() {
        return Err(bad(ValueError::ZramWithoutIdle));
    }
    Ok(Sizes { memory, others, idle, zram })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_cache_holds_its_size_and_knows_when_a_write_is_over() {
        for (text, mode) in [
            ("64MiB", WriteMode::Back),
            ("64MiB,write-back", WriteMode::Back),
            ("64MiB,write-through", WriteMode::Through),
        ] {
            let Ok(config) = real(text) else { panic!("{text} is refused") };
            let pages = config.memory.get() / PAGE_SIZE;
            let marks = Watermarks::of_memory(config.memory, 0);
            assert!(
                config.copies && config.write_mode == mode && pages - marks.low >= 64 << 8,
                "{text}"
            );
            assert!(pages < 66 << 8, "{text}: {pages} pages");
        }
        for text in ["", "64", "60KiB", "5TiB", "64MiB,through", "64MiB,", "huge", "size=1GiB"] {
            let Err(Failure::Input(lines)) = real(text) else { panic!("{text} passed") };
            assert!(
                lines.len() == 1 && lines[0].to_string().starts_with(&format!("--cache {text}: ")),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn memory_is_a_size_and_what_others_have_of_it() {
        let parts = |text| {
            let Ok(Sizes { memory, others, idle, zram }) = sizes(text) else { return None };
            Some([memory, others, idle, zram].map(Bytes::get))
        };
        assert_eq!(parts("6GiB"), Some([6 << 30, 0, 0, 0]));
        assert_eq!(parts("4G,others=24M"), Some([4 << 30, 24 << 20, 0, 0]));
        assert_eq!(parts("1GB,others=24MiB"), None, "no whole pages");
        assert_eq!(parts("1GiB,others=24MiB"), Some([1 << 30, 24 << 20, 0, 0]));
        assert_eq!(parts("1GiB,others=24MiB,idle=8MiB"), Some([1 << 30, 24 << 20, 8 << 20, 0]));
        let all = "1GiB,zram=9MiB,others=24MiB,idle=8MiB";
        assert_eq!(parts(all), Some([1 << 30, 24 << 20, 8 << 20, 9 << 20]));
        assert_eq!(parts("1Gi,others=24Mi"), Some([1 << 30, 24 << 20, 0, 0]));
        for text in [
            "",
            "6",
            "6GiB,other=1GiB",
            "1MiB",
            "1GiB,others=1GiB",
            "5TiB",
            "6GiB,others=",
            "1GiB,idle=1MiB",
            "1GiB,zram=1MiB",
        ] {
            let Err(Failure::Input(lines)) = sizes(text) else { panic!("{text} passed") };
            assert!(
                lines.len() == 1 && lines[0].to_string().starts_with(&format!("--memory {text}: ")),
                "{lines:?}"
            );
        }
    }
}
