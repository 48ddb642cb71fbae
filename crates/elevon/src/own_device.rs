//! A device of one's own: the file of `--device @FILE`, held against the profiles and models that
//! there are.

use elevon_core::kernel::Rules;
use elevon_core::limits::QueueLimits;
use elevon_core::nearest::did_you_mean;
use elevon_formats::device::{self, DeviceFile, DeviceSource, Given};
use elevon_formats::fio::{Diagnostic, Problem};
use elevon_sim::profiles::{self, DeviceError, Profile};

use crate::failure::{Failure, InputError};

/// A device file that can be opened.
#[derive(Clone, Debug)]
pub(crate) struct OwnDevice {
    /// What the file says.
    pub(crate) file: DeviceFile,
    /// The same as a device's text, without the limits: `BASE:key=value,...`.
    pub(crate) spec: String,
}

impl OwnDevice {
    /// Reads and checks the file that `--device @FILE` or `elevon devices @FILE` names.
    pub(crate) fn load(option: &str, path: &str, rules: &Rules) -> Result<Self, Failure> {
        let text = std::fs::read(path).map_err(|error| Failure::input(format!("{option} @{path}: {error}")))?;
        let not_text = || Failure::input(format!("{option} @{path}: not a text in UTF-8"));
        let text = String::from_utf8(text).map_err(|_| not_text())?;
        let file = device::parse(path, &text).map_err(Failure::text)?;
        let own = Self { spec: spec(&file), file };
        let mut errors = own.wrong_parameters();
        if errors.is_empty() {
            errors.extend(own.wrong_limits(rules));
            errors.extend(own.file.sources.iter().filter_map(|source| own.wrong_source(source)).map(InputError::Text));
        }
        if errors.is_empty() { Ok(own) } else { Err(Failure::Input(errors)) }
    }

    /// The profile that it starts from, if that is one.
    pub(crate) fn profile(&self) -> Option<&'static Profile> {
        profiles::profile(&self.file.base.value)
    }

    /// Its parameters as a profile's settings.
    pub(crate) fn settings(&self) -> &str {
        self.spec.split_once(':').map_or("", |(_, settings)| settings)
    }

    /// Puts its limits over those of the base, as a driver that reports them.
    pub(crate) fn limit(&self, limits: &mut QueueLimits, rules: &Rules) -> Result<(), Failure> {
        self.limited(limits, rules).map_err(Failure::input)
    }

    fn limited(&self, limits: &mut QueueLimits, rules: &Rules) -> Result<(), Diagnostic> {
        for given in &self.file.limits {
            let at = |complaint| given.place.diagnostic("limits", complaint);
            let value = given.value.parse::<u64>().map_err(|_| {
                at(Problem::NotANumber.because(format!("{}={}: expected a whole number", given.key, given.value)))
            })?;
            let set = limits.set_sysfs(&given.key, value, rules);
            set.map_err(|error| at(Problem::OutOfRange.because(error.to_string())))?;
        }
        Ok(())
    }

    fn wrong_limits(&self, rules: &Rules) -> Option<InputError> {
        let device = profiles::open(&self.spec, 0).ok()?;
        let mut limits = elevon_sim::device::Device::description(&device).limits.clone();
        match limits.validate(rules) {
            Err(error) => Some(error.into()),
            Ok(()) => self.limited(&mut limits, rules).err().map(InputError::Text),
        }
    }

    /// What the base does not take, each with its place.
    fn wrong_parameters(&self) -> Vec<InputError> {
        let base = &self.file.base;
        if !profiles::names().any(|name| name == base.value) {
            let (meant, all) = (did_you_mean(&base.value, profiles::names()), profiles::names().collect::<Vec<_>>());
            let message = format!("no profile or model `{}`{meant}; there are {}", base.value, all.join(", "));
            return vec![base.place.diagnostic("base", Problem::Unknown.because(message)).into()];
        }
        let alone = |given: &Given| profiles::open(&format!("{}:{}={}", base.value, given.key, given.value), 0).err();
        let wrong = self.file.parameters.iter().filter_map(|given| match alone(given)? {
            // It may fit together with the others.
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

    /// A source must be of something that the file sets.
    fn wrong_source(&self, source: &DeviceSource) -> Option<Diagnostic> {
        let set = || self.file.parameters.iter().chain(&self.file.limits).map(|given| given.key.as_str());
        let name = source.parameters.iter().find(|name| set().all(|key| key != *name))?;
        let meant = did_you_mean(name, set());
        let message = format!("`{name}` is not set in [parameters] or [limits]{meant}");
        Some(source.place.diagnostic("source", Problem::Unknown.because(message)))
    }
}

fn spec(file: &DeviceFile) -> String {
    let settings: Vec<String> = file.parameters.iter().map(|given| format!("{}={}", given.key, given.value)).collect();
    match settings.is_empty() {
        true => file.base.value.clone(),
        false => format!("{}:{}", file.base.value, settings.join(",")),
    }
}
