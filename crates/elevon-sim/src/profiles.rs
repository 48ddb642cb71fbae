//! Named devices: profiles with their parameters and sources, and opening a device from its text.
//!
//! A profile is a model with settings. `ufs-4.0` opens one, `ufs-4.0:read_command_cost=50us`
//! changes one setting, and `slots:slots=8,latency=2ms` is a model without a profile. The
//! performance that follows from a profile's parameters can be compared with that of its model: see
//! [`predictions`] and [`measure`].

mod disk;
mod estimates;
mod limits;
mod predict;
mod presented;
mod references;
mod table;

pub use disk::DiskSettings;
pub use estimates::{Figures, estimates, lacks};
pub use limits::{Class, limits};
pub use predict::{Prediction, Quantity, Workload, measure, predictions, predictions_with};
pub use presented::Presented;
pub use references::Reference;
pub use table::PROFILES;

use elevon_core::kernel::Kernel;
use elevon_core::nearest::did_you_mean;
use elevon_core::units::{Bytes, Nanos};

use crate::device::parameter::{Parameter, ParameterError, apply};
use crate::device::{
    AnyDevice, Description, Flash, FlashConfig, Hdd, HddParameters, Lun, LunConfig, TextError,
};
use crate::device::{Model, flash, lun, parse_model};

/// The profile that is used if none is named.
pub const DEFAULT: &str = "nvme-datacenter";

/// The model and settings of a profile.
#[derive(Clone, Copy, Debug)]
pub enum Base {
    /// A flash device: [`FlashConfig::default`] changed by these settings.
    Flash {
        /// Its limits.
        class: Class,
        /// `key=value,...`
        settings: &'static str,
    },
    /// A rate-limited LUN: [`LunConfig::default`] changed by these settings.
    Lun {
        /// Its limits.
        class: Class,
        /// `key=value,...`
        settings: &'static str,
    },
    /// A hard disk.
    Disk(&'static HddParameters),
    /// Another model with its own text form.
    Model {
        /// Its name.
        model: &'static str,
        /// `key=value,...`
        settings: &'static str,
        /// The driver that decides the limits in place of the model, by kernel version.
        presented: Option<Presented>,
    },
}

/// How a value is derived from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The source states the value.
    Stated,
    /// The value was chosen so that the model gives what the source states.
    Fitted,
    /// The source makes the value plausible.
    Estimated,
}

/// The source of some values.
#[derive(Clone, Copy, Debug)]
pub struct ValueSource {
    /// The parameters, or queue limits by their sysfs names, that are based on it; empty if they
    /// have no name.
    pub parameters: &'static [&'static str],
    /// What the source says.
    pub value: &'static str,
    /// How the values are derived from it.
    pub basis: Basis,
    /// The source.
    pub reference: &'static Reference,
}

/// A published figure: IOPS if `random`, otherwise MB/s (10^6).
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Whether it is for writes; otherwise for reads.
    pub write: bool,
    /// Whether it is for random access; otherwise for sequential.
    pub random: bool,
    /// Bytes of a request.
    pub bytes: u64,
    /// Requests in flight.
    pub depth: u32,
    /// The figure.
    pub value: f64,
    /// Maximum deviation of the model from it in percent; a test checks this.
    pub within: f64,
    /// Notes on the figure; may be empty.
    pub note: &'static str,
    /// The source.
    pub reference: &'static Reference,
}

/// A named device.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// One-line description.
    pub summary: &'static str,
    /// The model and its settings.
    pub base: Base,
    /// The sources of its parameters.
    pub sources: &'static [ValueSource],
    /// Published figures of the real device.
    pub published: &'static [Published],
}

/// A parameter of a profile, as `elevon devices NAME` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterLine {
    /// Its name in a device's text.
    pub key: &'static str,
    /// The profile's value with its unit, as text that can be parsed.
    pub value: String,
    /// What it means.
    pub meaning: &'static str,
    /// The source of the profile's value, by its index in [`Profile::sources`]; `None` for an
    /// estimate without one.
    pub source: Option<usize>,
    /// Whether the user set the value.
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
        /// The name that was given.
        name: String,
    },
    /// A parameter of a profile is wrong.
    #[error("device {profile}: {error}")]
    Parameter {
        /// The profile.
        profile: String,
        /// Why it is wrong.
        #[source]
        error: ParameterError,
    },
    /// The parameters do not fit together.
    #[error("device {profile}: {rule}")]
    Inconsistent {
        /// The profile.
        profile: String,
        /// The rule that they violate.
        rule: &'static str,
    },
    /// A model's own text is wrong.
    #[error("{0}")]
    Model(#[source] TextError),
}

/// Models that can be opened by their own name, with all their parameters.
const MODELS: &[&str] = &["slots"];

/// Keys of models that are limits of the queue, which a driver decides where there is one.
const LIMITS_OF_MODELS: [&str; 3] = ["rotational", "write_cache", "fua"];

/// Iterates over every name that [`open`] accepts.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|profile| profile.name).chain(MODELS.iter().copied())
}

/// Returns the profile with a name.
pub fn profile(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

/// Opens the device that `spec` describes: the name of a profile or model, with `:key=value,...`
/// after it for changed settings. `seed` is its random seed.
///
/// # Errors
/// There is no such profile or model, or a setting is unknown, not valid, or contradicts another.
pub fn open(spec: &str, seed: u64) -> Result<AnyDevice, DeviceError> {
    let (name, settings) = spec.split_once(':').unwrap_or((spec, ""));
    if let Some(profile) = profile(name) {
        return profile.open(settings, seed);
    }
    if MODELS.contains(&name) {
        return parse_model(spec).map(|model| model.build(seed)).map_err(DeviceError::Model);
    }
    Err(DeviceError::UnknownName { name: name.into() })
}

impl Profile {
    /// Opens the device of this profile; `settings` override its own.
    ///
    /// # Errors
    /// A setting is unknown, not valid, or contradicts another.
    pub fn open(&self, settings: &str, seed: u64) -> Result<AnyDevice, DeviceError> {
        match self.base {
            Base::Flash { class, .. } => {
                let config = self.flash_config(settings)?.expect("the base is flash");
                let description =
                    self.describe(class, config.size, config.hw_queues, config.queue_depth);
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
            Base::Model { presented, .. } => {
                let model = self.model(settings)?.expect("the base is a model");
                let limits = presented.map(|driver| driver.limits(&Kernel::DEFAULT.rules()));
                Ok(match limits {
                    Some(limits) => model.build_as(self.name, limits, seed),
                    None => model.build(seed),
                })
            }
        }
    }

    /// As [`Self::flash_config`], for a profile of a model with its own text form.
    ///
    /// # Errors
    /// A setting is unknown or not valid, or is one of the driver's.
    pub fn model(&self, settings: &str) -> Result<Option<Model>, DeviceError> {
        let Base::Model { model, settings: own, presented } = self.base else { return Ok(None) };
        let key = |setting: &str| setting.split('=').next().unwrap_or("").trim().to_string();
        if presented.is_some()
            && settings.split(',').any(|given| LIMITS_OF_MODELS.contains(&&*key(given)))
        {
            let rule = "`rotational`, `write_cache` and `fua` are its driver's; --set rotational=0 and the like change them";
            return Err(DeviceError::Inconsistent { profile: self.name.into(), rule });
        }
        // A key in the user's settings replaces the profile's.
        let own = own.split(',').filter(|o| settings.split(',').all(|s| key(s) != key(o)));
        let text = own.chain([settings]).collect::<Vec<_>>().join(",");
        parse_model(&format!("{model}:{text}")).map(Some).map_err(DeviceError::Model)
    }

    /// Returns the driver that decides the limits by kernel version, if this is such a profile.
    pub const fn presented(&self) -> Option<Presented> {
        match self.base {
            Base::Model { presented, .. } => presented,
            Base::Flash { .. } | Base::Lun { .. } | Base::Disk(_) => None,
        }
    }

    /// Returns the flash parameters of this profile, overridden by `settings`; `None` if it is not
    /// a flash device.
    ///
    /// # Errors
    /// A setting is unknown, not valid, or contradicts another.
    pub fn flash_config(&self, settings: &str) -> Result<Option<FlashConfig>, DeviceError> {
        let Base::Flash { settings: own, .. } = self.base else { return Ok(None) };
        let config = self.configured(flash::PARAMETERS, FlashConfig::default(), own, settings)?;
        let rule = |holds: bool, rule| {
            if holds {
                Ok(())
            } else {
                Err(DeviceError::Inconsistent { profile: self.name.into(), rule })
            }
        };
        rule(config.unit.is_power_of_two(), "`unit` must be a power of two")?;
        rule(config.slc_size == 0 || config.slc_rate > 0, "`slc_size` needs an `slc_rate`")?;
        rule(config.size.is_multiple_of(4096), "`size` must be a multiple of 4096 bytes")?;
        Ok(Some(config))
    }

    /// As [`Self::flash_config`], for a LUN.
    ///
    /// # Errors
    /// A setting is unknown or not valid.
    pub fn lun_config(&self, settings: &str) -> Result<Option<LunConfig>, DeviceError> {
        let Base::Lun { settings: own, .. } = self.base else { return Ok(None) };
        self.configured(lun::PARAMETERS, LunConfig::default(), own, settings).map(Some)
    }

    /// As [`Self::flash_config`], for a hard disk.
    ///
    /// # Errors
    /// A setting is unknown or not valid.
    pub(crate) fn disk_parameters(
        &self,
        settings: &str,
    ) -> Result<Option<HddParameters>, DeviceError> {
        let Base::Disk(base) = self.base else { return Ok(None) };
        let changed =
            self.configured(disk::PARAMETERS, DiskSettings::from_parameters(base), "", settings)?;
        Ok(Some(HddParameters { name: self.name, ..changed.applied_to(base) }))
    }

    fn configured<C>(
        &self,
        rows: &[Parameter<C>],
        mut config: C,
        own: &str,
        settings: &str,
    ) -> Result<C, DeviceError> {
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

    /// Returns its parameters with their values and meanings; empty for a model that documents its
    /// own keys.
    pub fn parameters(&self) -> Vec<ParameterLine> {
        self.parameters_with("").unwrap_or_default()
    }

    /// As [`Self::parameters`]; `settings` override the profile's own.
    ///
    /// # Errors
    /// Settings are not valid for the profile.
    pub fn parameters_with(&self, settings: &str) -> Result<Vec<ParameterLine>, DeviceError> {
        let given: Vec<&str> =
            settings.split(',').filter_map(|s| s.split('=').next()).map(str::trim).collect();
        let (sources, given) = (self.sources, given.as_slice());
        Ok(match self.base {
            Base::Flash { .. } => self
                .flash_config(settings)?
                .map(|config| lines(flash::PARAMETERS, config, sources, given)),
            Base::Lun { .. } => self
                .lun_config(settings)?
                .map(|config| lines(lun::PARAMETERS, config, sources, given)),
            Base::Disk(base) => {
                let config = self.configured(
                    disk::PARAMETERS,
                    DiskSettings::from_parameters(base),
                    "",
                    settings,
                )?;
                Some(lines(disk::PARAMETERS, config, sources, given))
            }
            Base::Model { .. } => None,
        }
        .unwrap_or_default())
    }

    /// Returns how long a kernel waits for a command before it times out.
    pub fn io_timeout(&self) -> Nanos {
        match self.base {
            Base::Flash { class: Class::Emmc, .. } => Nanos::from_secs(60),
            Base::Model { presented: Some(driver), .. } => {
                Nanos::from_millis(driver.timeout_ms().unwrap_or(30_000))
            }
            Base::Flash { .. } | Base::Lun { .. } | Base::Disk(_) | Base::Model { .. } => {
                Nanos::from_secs(30)
            }
        }
    }
}

/// Returns a configuration as lines: the parameters in `given` are marked as the user's.
fn lines<C>(
    rows: &[Parameter<C>],
    config: C,
    sources: &[ValueSource],
    given: &[&str],
) -> Vec<ParameterLine> {
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
