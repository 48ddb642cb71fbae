//! Names of policies, and their settings as text.

use alloc::string::{String, ToString};
use core::fmt;

use super::Version;
use elevon_core::setting_names;
use elevon_core::units::Nanos;

/// The names that [`ReplacementConfig::parse`] accepts.
pub const POLICIES: [&str; ReplacementConfig::ALL.len()] = *setting_names!(ReplacementConfig);

/// A policy with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplacementConfig {
    /// Active and inactive lists.
    Classic,
    /// Generations.
    Mglru {
        /// The kernel version whose rules apply.
        version: Version,
        /// The age below which the oldest generation is not evicted; `min_ttl_ms` of the kernel.
        /// Zero: no such rule.
        min_ttl: Nanos,
    },
    /// Small and main queue with ghosts.
    S3Fifo,
    /// One queue and a hand.
    Sieve,
}

impl Default for ReplacementConfig {
    fn default() -> Self {
        Self::Mglru { version: Version::V6_1, min_ttl: Nanos::ZERO }
    }
}

/// The reason why a text names no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// There is no policy of this name.
    Name(String),
    /// The policy has no such setting.
    Setting(String),
    /// The value of this setting is not a number of milliseconds.
    Value(String),
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => {
                write!(f, "no cache policy `{name}`; must be one of {}", POLICIES.join(", "))
            }
            Self::Setting(setting) => {
                write!(f, "no setting `{setting}`; the mglru policies have min_ttl_ms, others none")
            }
            Self::Value(value) => {
                write!(
                    f,
                    "min_ttl_ms is `{value}`; must be a number of milliseconds up to 4294967295"
                )
            }
        }
    }
}

impl core::error::Error for PolicyError {}

impl ReplacementConfig {
    /// All policies with default settings.
    pub const ALL: [Self; 5] = [
        Self::Classic,
        Self::Mglru { version: Version::V6_1, min_ttl: Nanos::ZERO },
        Self::Mglru { version: Version::V6_14, min_ttl: Nanos::ZERO },
        Self::S3Fifo,
        Self::Sieve,
    ];

    /// Returns the policy's name in `cache=`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Mglru { version: Version::V6_1, .. } => "mglru-6.1",
            Self::Mglru { version: Version::V6_14, .. } => "mglru-6.14",
            Self::S3Fifo => "s3-fifo",
            Self::Sieve => "sieve",
        }
    }

    /// Parses a name of [`POLICIES`]; a name of MGLRU may be followed by `:min_ttl_ms=N`.
    ///
    /// # Errors
    /// Names the part that is unknown or invalid.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let policy = Self::ALL.into_iter().find(|policy| policy.name() == name);
        let mut config = policy.ok_or_else(|| PolicyError::Name(name.to_string()))?;
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            match (setting.split_once('='), &mut config) {
                (Some(("min_ttl_ms", value)), Self::Mglru { min_ttl, .. }) => {
                    let millis: u32 =
                        value.parse().map_err(|_| PolicyError::Value(value.to_string()))?;
                    *min_ttl = Nanos::from_millis(u64::from(millis));
                }
                _ => return Err(PolicyError::Setting(setting.to_string())),
            }
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_settings() {
        POLICIES.iter().for_each(|name| assert!(ReplacementConfig::parse(name).is_ok(), "{name}"));
        let config = ReplacementConfig::parse("mglru-6.14:min_ttl_ms=100");
        assert_eq!(
            config,
            Ok(ReplacementConfig::Mglru {
                version: Version::V6_14,
                min_ttl: Nanos::from_millis(100)
            })
        );
        assert_eq!(
            ReplacementConfig::parse("lru").expect_err("no such").to_string(),
            "no cache policy `lru`; must be one of classic, mglru-6.1, mglru-6.14, s3-fifo, sieve"
        );
        assert_eq!(
            ReplacementConfig::parse("sieve:min_ttl_ms=1"),
            Err(PolicyError::Setting("min_ttl_ms=1".into()))
        );
        assert_eq!(
            ReplacementConfig::parse("mglru-6.1:min_ttl_ms=x"),
            Err(PolicyError::Value("x".into()))
        );
    }
}
