//! `--set`: parses its text and formats the error of a refused setting.

use elevon_cache::settings;
use elevon_core::limits::SYSFS;
use elevon_core::nearest::nearest;
use elevon_core::sched::{SCHEDULERS, SchedulerInfo};
use elevon_core::setting::SettingError;
use elevon_core::stack::config;

use crate::failure::{Failure, InputError, ValueError};

/// Parses `KEY=VALUE`.
///
/// # Errors
/// The text has not this form.
pub fn pair(text: &str) -> Result<(String, String), Failure> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(Failure::named(
            format!("--set {text}"),
            ValueError::expected("KEY=VALUE, such as max_sectors_kb=512"),
        )),
    }
}

/// Yields every key that `--set` accepts.
pub fn keys() -> impl Iterator<Item = &'static str> {
    let limits = SYSFS.iter().filter(|limit| limit.is_settable()).map(|limit| limit.name);
    let of_stack = config::SETTINGS.iter().map(|row| row.key);
    of_stack.chain(settings::SETTINGS.iter().map(|row| row.key)).chain(limits)
}

/// Returns how to set a key that is a tunable of schedulers, also if it has its folder of sysfs.
fn tunable_hint(key: &str) -> Option<String> {
    let name = key.rsplit('/').next()?;
    let has_it = |info: &&SchedulerInfo| info.tunables.iter().any(|tunable| tunable.name == name);
    let owners: Vec<&str> = SCHEDULERS.iter().filter(has_it).map(|info| info.name).collect();
    let first = owners.first()?;
    Some(format!("; it is a tunable of {}: --scheduler {first}:{name}=VALUE", owners.join(", ")))
}

/// Returns the failure for a refused setting.
pub fn refused(error: SettingError) -> Failure {
    let hint = match &error {
        SettingError::Key { key } => tunable_hint(key).unwrap_or_else(|| {
            let meant = nearest(key, keys())
                .map_or_else(String::new, |near| format!("did you mean {near}? "));
            format!("; {meant}`elevon schedulers` lists them")
        }),
        SettingError::Value { .. } | SettingError::NotModelled { .. } | SettingError::Limit(_) => {
            String::new()
        }
    };
    Failure::input(InputError::Setting { error, hint })
}
