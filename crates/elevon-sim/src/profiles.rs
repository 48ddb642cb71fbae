//! Named devices: profiles with their parameters and sources, and how a device is opened by its
//! text.
//!
//! A profile is a model with settings. `ufs-4.0` opens one, `ufs-4.0:read_command_cost=50us`
//! changes one thing of it, and `slots:slots=8,latency=2ms` is a model without a profile. What each
//! profile should do by arithmetic stands beside what it does: see [`predictions`] and [`measure`].

mod disk;
mod limits;
mod predict;
mod references;
mod table;

pub use disk::DiskSettings;
pub use limits::{Class, limits};
pub use predict::{Prediction, Quantity, Workload, measure, predictions, predictions_with};
pub use references::Reference;
pub use table::PROFILES;

use elevon_core::nearest::did_you_mean;
use elevon_core::units::{Bytes, Nanos};

use crate::device::parameter::{Parameter, ParameterError, apply};
use crate::device::{AnyDevice, Description, Flash, FlashConfig, Hdd, HddParameters, Lun, LunConfig, TextError};
use crate::device::{flash, lun, parse_model};

/// The profile that is used when none is named.
pub const DEFAULT: &str = "nvme-datacenter";

/// What a profile is built from.
#[derive(Clone, Copy, Debug)]
pub enum Base {
    /// A flash device with these settings over [`FlashConfig::default`].
    Flash {
        /// Its limits.
        class: Class,
        /// `key=value,...`
        settings: &'static str,
    },
    /// A rate-limited LUN with these settings over [`LunConfig::default`].
    Lun {
        /// Its limits.
        class: Class,
        /// `key=value,...`
        settings: &'static str,
    },
    /// A hard disk.
    Disk(&'static HddParameters),
    /// Another model in its own text form.
    Model {
        /// Its name.
        model: &'static str,
        /// `key=value,...`
        settings: &'static str,
    },
}

/// How a value follows from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The source states the value.
    Stated,
    /// The value was chosen so that the model gives what the source states.
    Fitted,
    /// The source makes the value plausible.
    Estimated,
}

/// Where values come from.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The parameters, or queue limits by their sysfs names, that rest on it; none for what has no
    /// name.
    pub parameters: &'static [&'static str],
    /// What the source says.
    pub value: &'static str,
    /// How the values follow from it.
    pub basis: Basis,
    /// The source.
    pub reference: &'static Reference,
}

/// A published figure: IOPS where `random`, MB/s (10^6) otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Writes rather than reads.
    pub write: bool,
    /// At random rather than in sequence.
    pub random: bool,
    /// Bytes of a request.
    pub bytes: u64,
    /// Requests in flight.
    pub depth: u32,
    /// The figure.
    pub value: f64,
    /// Within how many percent of it the model comes; a test holds it.
    pub within: f64,
    /// What else is to be known of the figure; may be empty.
    pub note: &'static str,
    /// The source.
    pub reference: &'static Reference,
}

/// A named device.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// One line of what it is.
    pub summary: &'static str,
    /// What it is built from.
    pub base: Base,
    /// Where its parameters come from.
    pub sources: &'static [Source],
    /// What was measured or promised of the real device.
    pub published: &'static [Published],
}

/// A parameter of a profile, as `elevon devices NAME` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterLine {
    /// Its name in a device's text.
    pub key: &'static str,
    /// The profile's value with its unit, as it would be written.
    pub value: String,
    /// What it means.
    pub meaning: &'static str,
    /// The source of the profile's value, by its place in [`Profile::sources`]; `None` for an
    /// estimate without one.
    pub source: Option<usize>,
    /// Whether the value is the user's rather than the profile's.
    pub changed: bool,
}

/// Why a device cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// There is no such profile or model.
    #[error(
        "unknown device `{name}`{}; there are {}",
        did_you_mean(.name, names()),
        names().collect::<Vec<_>>().join(", ")
    )]
    UnknownName {
        /// What was asked for.
        name: String,
    },
    /// A parameter of a profile is wrong.
    #[error("device {profile}: {error}")]
    Parameter {
        /// The profile.
        profile: String,
        /// What is wrong.
        #[source]
        error: ParameterError,
    },
    /// The parameters do not fit together.
    #[error("device {profile}: {rule}")]
    Inconsistent {
        /// The profile.
        profile: String,
        /// The rule that they break.
        rule: &'static str,
    },
    /// A model's own text is wrong.
    #[error("{0}")]
    Model(#[source] TextError),
}

/// Models that can be opened by their own name, with all parameters of theirs.
const MODELS: &[&str] = &["slots"];

/// Every name that [`open`] knows.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|profile| profile.name).chain(MODELS.iter().copied())
}

/// The profile of that name.
pub fn profile(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

/// Opens the device that `spec` describes: a profile's or model's name, with `:key=value,...` after
/// it where something is different. `seed` decides every chance in it.
pub fn open(spec: &str, seed: u64) -> Result<AnyDevice, DeviceError> {
    let (name, settings) = spec.split_once(':').unwrap_or((spec, ""));
    if let Some(profile) = profile(name) {
        return profile.open(settings, seed);
    }
    if MODELS.contains(&name) {
        return parse_model(spec).map(|model| model.build()).map_err(DeviceError::Model);
    }
    Err(DeviceError::UnknownName { name: name.into() })
}

impl Profile {
    /// The device of this profile, with `settings` over its own.
    pub fn open(&self, settings: &str, seed: u64) -> Result<AnyDevice, DeviceError> {
        match self.base {
            Base::Flash { class, .. } => {
                let config = self.flash_config(settings)?.expect("the base is flash");
                let description = self.describe(class, config.size, config.hw_queues, config.queue_depth);
                Ok(AnyDevice::Flash(Box::new(Flash::new(config, description, seed))))
            }
            Base::Lun { class, .. } => {
                let config = self.lun_config(settings)?.expect("the base is a LUN");
                let description = self.describe(class, config.size, 1, config.queue_depth);
                Ok(AnyDevice::Lun(Box::new(Lun::new(config, description, seed))))
            }
            Base::Disk(_) => {
                let parameters = self.disk_parameters(settings)?.expect("the base is a disk");
                Ok(AnyDevice::Hdd(Box::new(Hdd::new(&parameters))))
            }
            Base::Model { model, settings: own } => {
                // A key of the profile's own gives way to the user's.
                let key = |setting: &str| setting.split('=').next().unwrap_or("").trim().to_string();
                let own = own.split(',').filter(|o| settings.split(',').all(|s| key(s) != key(o)));
                let text = own.chain([settings]).collect::<Vec<_>>().join(",");
                parse_model(&format!("{model}:{text}")).map(|model| model.build()).map_err(DeviceError::Model)
            }
        }
    }

    /// The flash parameters of this profile with `settings` over them; `None` where it is not a
    /// flash device.
    pub fn flash_config(&self, settings: &str) -> Result<Option<FlashConfig>, DeviceError> {
        let Base::Flash { settings: own, .. } = self.base else { return Ok(None) };
        let config = self.configured(flash::PARAMETERS, FlashConfig::default(), own, settings)?;
        let rule = |holds: bool, rule| {
            if holds { Ok(()) } else { Err(DeviceError::Inconsistent { profile: self.name.into(), rule }) }
        };
        rule(config.unit.is_power_of_two(), "`unit` must be a power of two")?;
        rule(config.slc_size == 0 || config.slc_rate > 0, "`slc_size` needs an `slc_rate`")?;
        rule(config.size.is_multiple_of(4096), "`size` must be a multiple of 4096 bytes")?;
        Ok(Some(config))
    }

    /// The same for a LUN.
    pub fn lun_config(&self, settings: &str) -> Result<Option<LunConfig>, DeviceError> {
        let Base::Lun { settings: own, .. } = self.base else { return Ok(None) };
        self.configured(lun::PARAMETERS, LunConfig::default(), own, settings).map(Some)
    }

    /// The same for a hard disk.
    pub fn disk_parameters(&self, settings: &str) -> Result<Option<HddParameters>, DeviceError> {
        let Base::Disk(base) = self.base else { return Ok(None) };
        let changed = self.configured(disk::PARAMETERS, DiskSettings::of(base), "", settings)?;
        Ok(Some(HddParameters { name: self.name, ..changed.applied_to(base) }))
    }

    fn configured<C>(&self, rows: &[Parameter<C>], mut config: C, own: &str, settings: &str) -> Result<C, DeviceError> {
        let error = |error| DeviceError::Parameter { profile: self.name.into(), error };
        apply(rows, &mut config, own).map_err(error)?;
        apply(rows, &mut config, settings).map_err(error)?;
        Ok(config)
    }

    fn describe(&self, class: Class, size: u64, hw_queues: u64, queue_depth: u64) -> Description {
        Description {
            name: self.name.into(),
            size: Bytes::new(size).sectors_floor(),
            limits: limits(class),
            hw_queues: hw_queues as u16,
            queue_depth: queue_depth as u32,
        }
    }

    /// Its parameters with their values and meanings; empty for a model that documents its own
    /// keys.
    pub fn parameters(&self) -> Vec<ParameterLine> {
        self.parameters_with("").unwrap_or_default()
    }

    /// The same with `settings` over the profile's own.
    ///
    /// # Errors
    /// Settings that the profile does not take.
    pub fn parameters_with(&self, settings: &str) -> Result<Vec<ParameterLine>, DeviceError> {
        let given: Vec<&str> = settings.split(',').filter_map(|s| s.split('=').next()).map(str::trim).collect();
        let (sources, given) = (self.sources, given.as_slice());
        Ok(match self.base {
            Base::Flash { .. } => {
                self.flash_config(settings)?.map(|config| lines(flash::PARAMETERS, config, sources, given))
            }
            Base::Lun { .. } => self.lun_config(settings)?.map(|config| lines(lun::PARAMETERS, config, sources, given)),
            Base::Disk(base) => {
                let config = self.configured(disk::PARAMETERS, DiskSettings::of(base), "", settings)?;
                Some(lines(disk::PARAMETERS, config, sources, given))
            }
            Base::Model { .. } => None,
        }
        .unwrap_or_default())
    }

    /// How long a kernel waits for an answer before it gives a command up.
    pub fn io_timeout(&self) -> Nanos {
        match self.base {
            Base::Flash { class: Class::Emmc, .. } => Nanos::from_secs(60),
            Base::Flash { .. } | Base::Lun { .. } | Base::Disk(_) | Base::Model { .. } => Nanos::from_secs(30),
        }
    }
}

/// A configuration as lines: the parameters that are in `given` are the user's.
fn lines<C>(rows: &[Parameter<C>], config: C, sources: &[Source], given: &[&str]) -> Vec<ParameterLine> {
    let line = |row: &Parameter<C>| ParameterLine {
        key: row.key,
        value: row.unit.text((row.get)(&config)),
        meaning: row.meaning,
        source: sources.iter().position(|source| source.parameters.contains(&row.key)),
        changed: given.contains(&row.key),
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests;
