//! A device file of the user, `--device @FILE`, checked against the available profiles and models.

use std::path::Path;

use elevon_core::kernel::Rules;
use elevon_core::limits::QueueLimits;
use elevon_core::nearest::did_you_mean;
use elevon_formats::device::{self, DeviceFile, DeviceSource, Given};
use elevon_formats::fio::{Diagnostic, Problem, SourceError, read_text_file};
use elevon_sim::device::{Description, Device};
use elevon_sim::profiles::{self, DeviceError, Profile};

use crate::failure::{Failure, FileError, InputError};

/// What `@FILE` has to be.
const RIGHT: &str = "name a description of a device in TOML (docs/reference/devices.md), such as `elevon calibrate TRACE -o` saves";

/// A device file that can be opened.
#[derive(Clone, Debug)]
pub struct OwnDevice {
    /// The text of the file.
    pub text: String,
    /// What the text says.
    pub file: DeviceFile,
    /// The device as a text for `--device`, without the limits: `BASE:key=value,...`.
    pub spec: String,
}

impl OwnDevice {
    /// Reads and checks the file that `--device @FILE` or `elevon devices @FILE` names.
    ///
    /// # Errors
    /// As of [`Self::of_text`], or the file cannot be read.
    pub fn load(option: &str, path: &str, rules: &Rules) -> Result<Self, Failure> {
        let text = read_text_file(Path::new(path)).map_err(|error| {
            let error = match error {
                SourceError::NotFound => InputError::from(FileError::NoFile(RIGHT)),
                SourceError::NotText => FileError::NotText.into(),
                other => InputError::from(other),
            };
            Failure::named(format!("{option} @{path}"), error)
        })?;
        Self::of_text(path, &text, rules)
    }

    /// Checks the text of such a file.
    ///
    /// # Errors
    /// The text is no description of a device, or the device does not exist.
    pub fn of_text(name: &str, text: &str, rules: &Rules) -> Result<Self, Failure> {
        let file = device::parse(name, text).map_err(Failure::text)?;
        let own = Self { text: text.to_owned(), spec: spec(&file), file };
        let mut errors = own.wrong_parameters();
        errors.extend(own.ends().iter().flat_map(Self::wrong_parameters));
        if errors.is_empty() {
            errors.extend(own.wrong_limits(rules));
            errors.extend(
                own.file
                    .sources
                    .iter()
                    .filter_map(|source| own.wrong_source(source))
                    .map(InputError::Text),
            );
        }
        if errors.is_empty() { Ok(own) } else { Err(Failure::Input(errors)) }
    }

    /// Returns the other devices that explain what the file was fitted to: the ends of an interval.
    pub fn ends(&self) -> Vec<Self> {
        let end = |end: &device::DeviceEnd| {
            let (base, parameters) = (end.base.clone(), end.parameters.clone());
            let file = DeviceFile { base, parameters, ends: Vec::new(), ..self.file.clone() };
            Self { text: self.text.clone(), spec: spec(&file), file }
        };
        self.file.ends.iter().map(end).collect()
    }

    /// Returns the profile that the file is based on; `None` if it is based on a model.
    pub fn profile(&self) -> Option<&'static Profile> {
        profiles::profile(&self.file.base.value)
    }

    /// Returns the parameters as settings of a profile.
    pub fn settings(&self) -> &str {
        self.spec.split_once(':').map_or("", |(_, settings)| settings)
    }

    /// Sets the file's limits in place of those of the base, as a driver reports limits.
    ///
    /// # Errors
    /// A limit is not one of a queue, or its value is out of range.
    pub fn limit(&self, limits: &mut QueueLimits, rules: &Rules) -> Result<(), Failure> {
        self.limited(limits, rules).map_err(Failure::input)
    }

    fn limited(&self, limits: &mut QueueLimits, rules: &Rules) -> Result<(), Diagnostic> {
        for given in &self.file.limits {
            let at = |complaint| given.place.diagnostic("limits", complaint);
            let value = given.value.parse::<u64>().map_err(|_| {
                at(Problem::NotANumber
                    .because(format!("{}={}: expected a whole number", given.key, given.value)))
            })?;
            let set = limits.set_sysfs(&given.key, value, rules);
            set.map_err(|error| at(Problem::OutOfRange.because(error.to_string())))?;
        }
        Ok(())
    }

    /// Returns the limits of the base as its driver reports them to a kernel with these rules.
    pub fn base_limits(&self, device: &Description, rules: &Rules) -> QueueLimits {
        let driver = self.profile().and_then(Profile::presented);
        driver.map_or_else(|| device.limits.clone(), |driver| driver.limits(rules))
    }

    fn wrong_limits(&self, rules: &Rules) -> Option<InputError> {
        let device = profiles::open(&self.spec, 0).ok()?;
        let mut limits = self.base_limits(Device::description(&device), rules);
        match limits.validate(rules) {
            Err(error) => Some(error.into()),
            Ok(()) => self.limited(&mut limits, rules).err().map(InputError::Text),
        }
    }

    /// Returns the parameters that the base does not accept, each with its place.
    fn wrong_parameters(&self) -> Vec<InputError> {
        let base = &self.file.base;
        if !profiles::names().any(|name| name == base.value) {
            let (meant, all) = (
                did_you_mean(&base.value, profiles::names()),
                profiles::names().collect::<Vec<_>>(),
            );
            let message = format!(
                "no profile or model `{}`{meant}; there are {}",
                base.value,
                all.join(", ")
            );
            return vec![base.place.diagnostic("base", Problem::Unknown.because(message)).into()];
        }
        let alone = |given: &Given| {
            profiles::open(&format!("{}:{}={}", base.value, given.key, given.value), 0).err()
        };
        let wrong = self.file.parameters.iter().filter_map(|given| match alone(given)? {
            // The parameter may be valid together with the others.
            DeviceError::Inconsistent { .. } => None,
            error => {
                let complaint = Problem::Malformed.because(error.to_string());
                Some(given.place.diagnostic("parameters", complaint).into())
            }
        });
        let wrong: Vec<InputError> = wrong.collect();
        if !wrong.is_empty() {
            return wrong;
        }
        let whole = profiles::open(&self.spec, 0).err();
        let conflict = |error: DeviceError| Problem::Conflict.because(error.to_string());
        whole.map(|error| base.place.diagnostic("", conflict(error)).into()).into_iter().collect()
    }

    /// Returns an error if a source is for a parameter that the file does not set.
    fn wrong_source(&self, source: &DeviceSource) -> Option<Diagnostic> {
        let set =
            || self.file.parameters.iter().chain(&self.file.limits).map(|given| given.key.as_str());
        let name = source.parameters.iter().find(|name| set().all(|key| key != *name))?;
        let meant = did_you_mean(name, set());
        let message = format!("`{name}` is not set in [parameters] or [limits]{meant}");
        Some(source.place.diagnostic("source", Problem::Unknown.because(message)))
    }
}

fn spec(file: &DeviceFile) -> String {
    let settings: Vec<String> =
        file.parameters.iter().map(|given| format!("{}={}", given.key, given.value)).collect();
    match settings.is_empty() {
        true => file.base.value.clone(),
        false => format!("{}:{}", file.base.value, settings.join(",")),
    }
}
