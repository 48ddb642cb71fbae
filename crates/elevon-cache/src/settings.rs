//! The text names that reach every part of a cache's configuration.

use alloc::string::ToString;

use super::page_cache::{CacheConfig, WriteMode};
use super::replace::{ReplacementConfig, Version};
use crate::activity::Activity;
use elevon_core::kernel::Kernel;
use elevon_core::stack::config::{Setting, SettingError};
use elevon_core::units::Nanos;

/// What `--set` takes for the page cache.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "activity",
        unit: "off|iter-bio|add-page|page-exact",
        default: "off",
        help: "content-activity priority of the cache's bios: proposal 000 in its two forms; ours",
    },
    Setting {
        key: "cache",
        unit: "classic|mglru-6.1|mglru-6.14|s3-fifo|sieve",
        default: "by --kernel: mglru-6.1; 6.18: mglru-6.14",
        help: "which page goes next",
    },
    Setting {
        key: "cache_mode",
        unit: "write-back|write-through",
        default: "write-back",
        help: "when a write is over: its pages are dirty, or the device has them; ours",
    },
    Setting {
        key: "min_ttl_ms",
        unit: "ms",
        default: "0",
        help: "mglru: a generation younger than this is not evicted",
    },
    Setting {
        key: "swappiness",
        unit: "0..200",
        default: "60",
        help: "programs' idle memory against files', where --memory has idle= and zram=; s3-fifo, sieve: no effect",
    },
    Setting { key: "read_ahead_kb", unit: "KiB", default: "128", help: "readahead window of an open file" },
    Setting { key: "dirty_ratio", unit: "%", default: "20", help: "dirty share of memory where writers stop" },
    Setting { key: "dirty_background_ratio", unit: "%", default: "10", help: "dirty share where the flusher begins" },
    Setting {
        key: "dirty_expire_centisecs",
        unit: "1/100 s",
        default: "3000",
        help: "age of a dirty file that is written",
    },
    Setting {
        key: "dirty_writeback_centisecs",
        unit: "1/100 s",
        default: "500",
        help: "time between the flusher's looks for old files; 0: never",
    },
    Setting {
        key: "extra_free_kbytes",
        unit: "KiB",
        default: "0",
        help: "memory kept free beyond the kernel's (Android)",
    },
    Setting {
        key: "wait_window_ms",
        unit: "ms",
        default: "1000",
        help: "length of the windows that waits are counted in, doubled where a run has more than 256",
    },
];

/// Whether `--set` of this key is about the page cache.
pub fn is_setting(key: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.key == key)
}

impl CacheConfig {
    /// Follows a kernel: its rules, and the generations that it has.
    pub fn set_kernel(&mut self, kernel: Kernel) {
        let version = match kernel {
            Kernel::V6_1 | Kernel::V6_6 | Kernel::V6_12 => Version::V6_1,
            Kernel::V6_18 => Version::V6_14,
        };
        self.rules = kernel.rules();
        self.policy = ReplacementConfig::Mglru { version, min_ttl: Nanos::ZERO };
    }

    /// Sets one setting of [`SETTINGS`] by its name and text.
    ///
    /// # Errors
    /// What would be right.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let bad = |want: &'static str| SettingError::Value { key: key.to_string(), value: value.to_string(), want };
        let number = |max: u64, want| value.parse::<u64>().ok().filter(|n| *n <= max).ok_or_else(|| bad(want));
        let centisecs = || Ok(Nanos::from_millis(number(100_000_000, "hundredths of a second up to 100000000")? * 10));
        match key {
            "activity" => {
                let form = Activity::from_name(value);
                self.activity = form.ok_or_else(|| bad("off, iter-bio, add-page or page-exact"))?;
            }
            "cache" => {
                let mut policy = ReplacementConfig::parse(value)
                    .map_err(|_| bad("classic, mglru-6.1, mglru-6.14, s3-fifo or sieve"))?;
                // What was set of generations stays with generations.
                if let (ReplacementConfig::Mglru { min_ttl, .. }, ReplacementConfig::Mglru { min_ttl: old, .. }) =
                    (&mut policy, self.policy)
                    && min_ttl.is_zero()
                {
                    *min_ttl = old;
                }
                self.policy = policy;
            }
            "cache_mode" => {
                self.write_mode = WriteMode::from_name(value).ok_or_else(|| bad("write-back or write-through"))?;
            }
            "min_ttl_ms" => {
                let span = Nanos::from_millis(number(u32::MAX.into(), "milliseconds up to 4294967295")?);
                match &mut self.policy {
                    ReplacementConfig::Mglru { min_ttl, .. } => *min_ttl = span,
                    ReplacementConfig::Classic | ReplacementConfig::S3Fifo | ReplacementConfig::Sieve => {
                        return Err(bad("cache=mglru-6.1 or mglru-6.14: other policies have no generations"));
                    }
                }
            }
            "swappiness" => self.swappiness = number(200, "a number up to 200")? as u8,
            "read_ahead_kb" => {
                let kb = number(1 << 20, "KiB up to 1048576, a multiple of 4")?;
                if !kb.is_multiple_of(4) {
                    return Err(bad("KiB up to 1048576, a multiple of 4"));
                }
                self.ra_pages = (kb / 4) as u32;
            }
            "dirty_ratio" => self.dirty.dirty = number(100, "percent up to 100")? as u8,
            "dirty_background_ratio" => self.dirty.background = number(100, "percent up to 100")? as u8,
            "dirty_expire_centisecs" => self.flusher_times.expire = centisecs()?,
            "dirty_writeback_centisecs" => self.flusher_times.period = centisecs()?,
            "wait_window_ms" => {
                let want = "milliseconds from 1 to 1000000000";
                self.wait_window = Nanos::from_millis(match number(1_000_000_000, want)? {
                    0 => return Err(bad(want)),
                    ms => ms,
                });
            }
            "extra_free_kbytes" => self.extra_free = number(1 << 32, "KiB up to 4294967296")? / 4,
            _ => return Err(SettingError::unknown(key, SETTINGS.iter().map(|setting| setting.key))),
        }
        Ok(())
    }
}

impl ReplacementConfig {
    /// The name that `cache=` takes.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Mglru { version: Version::V6_1, .. } => "mglru-6.1",
            Self::Mglru { version: Version::V6_14, .. } => "mglru-6.14",
            Self::S3Fifo => "s3-fifo",
            Self::Sieve => "sieve",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replace::POLICIES;
    use alloc::string::String;
    use elevon_core::units::{Bytes, TaskId};

    fn config() -> CacheConfig {
        CacheConfig::new(Bytes::new(1 << 30), TaskId(0))
    }

    #[test]
    fn every_setting_is_taken_and_none_takes_nonsense() {
        for setting in SETTINGS {
            let value = match setting.key {
                "activity" => "page-exact",
                "cache" => "sieve",
                "cache_mode" => "write-through",
                _ => "40",
            };
            assert_eq!(config().set(setting.key, value), Ok(()), "{}", setting.key);
            assert!(matches!(config().set(setting.key, "x"), Err(SettingError::Value { .. })), "{}", setting.key);
        }
        assert!(matches!(config().set("dirty", "1"), Err(SettingError::Key { .. })));
        assert!(matches!(config().set("wait_window_ms", "0"), Err(SettingError::Value { .. })));
        let mut set = config();
        for (key, value) in [("read_ahead_kb", "512"), ("dirty_ratio", "40"), ("dirty_expire_centisecs", "200")] {
            set.set(key, value).expect("good");
        }
        assert_eq!((set.ra_pages, set.dirty.dirty, set.flusher_times.expire), (128, 40, Nanos::from_secs(2)));
        let error = config().set("read_ahead_kb", "5").expect_err("no whole page");
        assert_eq!(error.to_string(), "read_ahead_kb=5: expected KiB up to 1048576, a multiple of 4");
    }

    #[test]
    fn policies_follow_the_kernel_and_keep_what_was_set() {
        let of = |kernel| {
            let mut config = config();
            config.set_kernel(kernel);
            config.policy.name()
        };
        assert_eq!(Kernel::ALL.map(of), ["mglru-6.1", "mglru-6.1", "mglru-6.1", "mglru-6.14"]);
        for name in POLICIES {
            assert_eq!(ReplacementConfig::parse(name).map(|policy| String::from(policy.name())), Ok(name.into()));
        }
        let mut config = config();
        config.set("min_ttl_ms", "100").expect("generations");
        config.set("cache", "mglru-6.14").expect("a policy");
        let min_ttl = Nanos::from_millis(100);
        assert_eq!(config.policy, ReplacementConfig::Mglru { version: Version::V6_14, min_ttl });
        config.set("cache", "classic").expect("a policy");
        assert!(config.set("min_ttl_ms", "1").is_err());
    }
}
