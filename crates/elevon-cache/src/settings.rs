//! The settings of the page cache, as text.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::page_cache::{CacheConfig, WriteMode};
use super::replace::{POLICIES, ReplacementConfig, Version};
use crate::activity::Activity;
use elevon_core::kernel::{Kernel, Rules};
use elevon_core::setting::{self, Reported, SettingError, SettingLine, SettingRow, SettingValue};
use elevon_core::setting_names;
use elevon_core::units::{Bytes, Nanos, TaskId};

type CacheSetting = SettingRow<CacheConfig>;

const fn row(
    key: &'static str,
    help: &'static str,
    value: SettingValue<CacheConfig>,
) -> CacheSetting {
    CacheSetting { key, help, follows: None, reported: Reported::Always, value }
}

const fn number(
    unit: &'static str,
    range: (u64, u64),
    get: fn(&CacheConfig) -> u64,
    set: fn(&mut CacheConfig, u64) -> Result<(), &'static str>,
) -> SettingValue<CacheConfig> {
    SettingValue::Number { unit, range, takes_more: false, get, set }
}

/// Returns the setting of a number that every configuration takes. `$get` reads its value, and the
/// statement `$set` writes it.
macro_rules! number {
    ($unit:literal, $range:expr, |$c:ident| $get:expr, |$n:ident| $set:expr) => {
        number(
            $unit,
            $range,
            |$c| $get,
            |$c, $n| {
                $set;
                Ok(())
            },
        )
    };
}

/// The range of times in hundredths of a second.
const CENTISECS: (u64, u64) = (0, 100_000_000);

const fn of_centisecs(n: u64) -> Nanos {
    Nanos::from_millis(n * 10)
}

const fn is_mglru(config: &CacheConfig) -> bool {
    matches!(config.policy, ReplacementConfig::Mglru { .. })
}

/// The settings of the page cache that `--set` takes.
pub const SETTINGS: &[SettingRow<CacheConfig>] = &[
    CacheSetting {
        follows: Some("by --kernel: mglru-6.1; from 6.16 on mglru-6.14"),
        ..row(
            "cache",
            "which page goes next; mglru also with :min_ttl_ms=N",
            SettingValue::Choice {
                names: &POLICIES,
                get: |c| c.policy.name(),
                set: |c, text| {
                    ReplacementConfig::parse(text).ok().map(|policy| c.set_policy(policy))
                },
            },
        )
    },
    row(
        "cache_mode",
        "when a write has finished: its pages are dirty, or the device has them; ours",
        SettingValue::Choice {
            names: setting_names!(WriteMode),
            get: |c| c.write_mode.name(),
            set: |c, text| WriteMode::from_name(text).map(|mode| c.write_mode = mode),
        },
    ),
    row(
        "activity",
        "content-activity priority of the cache's bios: proposal 000 in its two forms; ours",
        SettingValue::Choice {
            names: setting_names!(Activity),
            get: |c| c.activity.name(),
            set: |c, text| Activity::from_name(text).map(|form| c.activity = form),
        },
    ),
    CacheSetting {
        key: "read_ahead_kb",
        help: "readahead window of an open file, rounded down to whole pages",
        follows: Some("128; by device: 2 io_opt; from 6.17, rotational: 2 max_sectors_kb"),
        reported: Reported::Always,
        value: SettingValue::Number {
            unit: "KiB",
            range: (0, u32::MAX as u64),
            takes_more: false,
            get: |c| u64::from(c.ra_pages) * 4,
            set: |c, kb| {
                c.ra_pages = (kb / 4) as u32;
                Ok(())
            },
        },
    },
    row(
        "dirty_ratio",
        "dirty share of memory where writers stop",
        number!("%", (0, 100), |c| c.dirty.dirty.into(), |n| c.dirty.dirty = n as u8),
    ),
    row(
        "dirty_background_ratio",
        "dirty share where the flusher begins",
        number!("%", (0, 100), |c| c.dirty.background.into(), |n| c.dirty.background = n as u8),
    ),
    row(
        "dirty_expire_centisecs",
        "age of a dirty file that is written",
        number!("1/100 s", CENTISECS, |c| c.flusher_times.expire.as_millis() / 10, |n| {
            c.flusher_times.expire = of_centisecs(n);
        }),
    ),
    row(
        "dirty_writeback_centisecs",
        "time between the flusher's looks for old files; 0: never",
        number!("1/100 s", CENTISECS, |c| c.flusher_times.period.as_millis() / 10, |n| {
            c.flusher_times.period = of_centisecs(n);
        }),
    ),
    row(
        "extra_free_kbytes",
        "memory kept free beyond the kernel's (Android), in whole pages of 4 KiB",
        number!("KiB", (0, 1 << 32), |c| c.extra_free * 4, |kb| c.extra_free = kb / 4),
    ),
    CacheSetting {
        reported: Reported::If(|c| !c.idle.is_zero()),
        ..row(
            "swappiness",
            "programs' idle memory against files', where --memory has idle= and zram=; s3-fifo, sieve: no effect",
            number!("", (0, 200), |c| c.swappiness.into(), |n| c.swappiness = n as u8),
        )
    },
    CacheSetting {
        reported: Reported::If(is_mglru),
        ..row(
            "min_ttl_ms",
            "mglru: a generation younger than this is not evicted",
            number(
                "ms",
                (0, u32::MAX as u64),
                CacheConfig::min_ttl_ms,
                CacheConfig::set_min_ttl_ms,
            ),
        )
    },
    CacheSetting {
        reported: Reported::IfChanged,
        ..row(
            "wait_window_ms",
            "length of the windows that waits are counted in, doubled where a run has more than 256",
            number!("ms", (1, 1_000_000_000), |c| c.wait_window.as_millis(), |ms| {
                c.wait_window = Nanos::from_millis(ms);
            }),
        )
    },
];

/// Returns each row of [`SETTINGS`] as text.
pub fn lines() -> Vec<SettingLine> {
    SETTINGS.iter().map(|row| row.line(&unset())).collect()
}

/// Returns a configuration in which nothing was set.
fn unset() -> CacheConfig {
    CacheConfig::new(Bytes::new(1 << 30), TaskId(0))
}

/// Returns true if `key` is a setting of the page cache.
pub fn is_setting(key: &str) -> bool {
    setting::find(SETTINGS, key).is_some()
}

impl CacheConfig {
    /// Takes the rules and the policy of a kernel version.
    pub fn set_kernel(&mut self, kernel: Kernel) {
        self.rules = kernel.rules();
        let version =
            if self.rules.lru_gen_counts_first_use { Version::V6_14 } else { Version::V6_1 };
        self.policy = ReplacementConfig::Mglru { version, min_ttl: Nanos::ZERO };
    }

    /// Takes other rules for those of the kernel version, and with them the generations of the
    /// policy if they differ in that.
    pub fn take_rules(&mut self, rules: Rules) {
        let is_other = rules.lru_gen_counts_first_use != self.rules.lru_gen_counts_first_use;
        if let ReplacementConfig::Mglru { version, .. } = &mut self.policy
            && is_other
        {
            *version = if rules.lru_gen_counts_first_use { Version::V6_14 } else { Version::V6_1 };
        }
        self.rules = rules;
    }

    /// Sets one setting of [`SETTINGS`] by its name and text.
    ///
    /// # Errors
    /// Returns what would be right. The configuration has not changed then.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let unknown = || SettingError::Key { key: key.to_string() };
        setting::find(SETTINGS, key).ok_or_else(unknown)?.set(self, value)
    }

    /// Returns the settings that a report lists, with the values in force: those that are always
    /// listed or that this configuration uses, then those whose values are not the default.
    pub fn reported(&self) -> impl Iterator<Item = (&'static str, String)> {
        setting::reported(SETTINGS, self).chain(setting::changed(SETTINGS, self, &unset()))
    }

    /// Sets the policy. A `min_ttl` that was set before stays if both policies have generations and
    /// the new one sets none.
    fn set_policy(&mut self, mut policy: ReplacementConfig) {
        if let (
            ReplacementConfig::Mglru { min_ttl, .. },
            ReplacementConfig::Mglru { min_ttl: old, .. },
        ) = (&mut policy, self.policy)
            && min_ttl.is_zero()
        {
            *min_ttl = old;
        }
        self.policy = policy;
    }

    fn min_ttl_ms(&self) -> u64 {
        match self.policy {
            ReplacementConfig::Mglru { min_ttl, .. } => min_ttl.as_millis(),
            ReplacementConfig::Classic | ReplacementConfig::S3Fifo | ReplacementConfig::Sieve => 0,
        }
    }

    fn set_min_ttl_ms(&mut self, ms: u64) -> Result<(), &'static str> {
        match &mut self.policy {
            ReplacementConfig::Mglru { min_ttl, .. } => *min_ttl = Nanos::from_millis(ms),
            ReplacementConfig::Classic | ReplacementConfig::S3Fifo | ReplacementConfig::Sieve => {
                return Err("cache=mglru-6.1 or mglru-6.14: other policies have no generations");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> CacheConfig {
        CacheConfig::new(Bytes::new(1 << 30), TaskId(0))
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(matches!(config().set("dirty", "1"), Err(SettingError::Key { .. })));
        assert!(matches!(config().set("wait_window_ms", "0"), Err(SettingError::Value { .. })));
        let mut set = config();
        for (key, value) in
            [("read_ahead_kb", "512"), ("dirty_ratio", "40"), ("dirty_expire_centisecs", "200")]
        {
            set.set(key, value).expect("good");
        }
        assert_eq!(
            (set.ra_pages, set.dirty.dirty, set.flusher_times.expire),
            (128, 40, Nanos::from_secs(2))
        );
        set.set("read_ahead_kb", "5").expect("a page, and a part of one");
        assert_eq!(set.ra_pages, 1);
        let error = config().set("read_ahead_kb", "4294967296").expect_err("more than 32 bits");
        assert_eq!(
            error.to_string(),
            "read_ahead_kb=4294967296: expected a whole number from 0 to 4294967295 (KiB)"
        );
    }

    #[test]
    fn policies_follow_the_kernel_and_keep_what_was_set() {
        let of = |kernel| {
            let mut config = config();
            config.set_kernel(kernel);
            config.policy.name()
        };
        let kernels = [Kernel::V6_1, Kernel::V6_6, Kernel::V6_12, Kernel::V6_16, Kernel::V7_3];
        assert_eq!(
            kernels.map(of),
            ["mglru-6.1", "mglru-6.1", "mglru-6.1", "mglru-6.14", "mglru-6.14"]
        );
        for name in POLICIES {
            assert_eq!(
                ReplacementConfig::parse(name).map(|policy| String::from(policy.name())),
                Ok(name.into())
            );
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
