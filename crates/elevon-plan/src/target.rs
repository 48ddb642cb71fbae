//! What `--device` means: a simulated device, a path, or a disk of a server.

use std::path::{Path, PathBuf};

use elevon_serve::{UpstreamAddress, UpstreamAddressError};
use elevon_sim::profiles;

use crate::failure::{Failure, InputError, ValueError};

/// The device: a simulated one, a path that is really read and written, or a disk of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A simulated device by its name or its parameters.
    Simulated(String),
    /// The path of a file or block device.
    Real(PathBuf),
    /// A disk of an NBD server.
    Nbd(UpstreamAddress),
}

/// Returns true if `--device` names a simulated device, or a file that describes one.
pub fn is_simulated(device: &str) -> bool {
    device.starts_with('@') || matches!(target(device), Ok(Target::Simulated(_)))
}

/// Decides what `--device` means: a known device name is simulated; a name with a slash, or of an
/// existing file, is a path.
///
/// # Errors
/// There is no such device.
pub fn target(device: &str) -> Result<Target, Failure> {
    let name = device.split(':').next().unwrap_or_default();
    if profiles::names().any(|known| known == name) {
        return Ok(Target::Simulated(device.to_owned()));
    }
    if UpstreamAddress::is_one(device) {
        let address = device.parse().map_err(|error: UpstreamAddressError| {
            Failure::named(format!("--device {device}"), error)
        })?;
        return Ok(Target::Nbd(address));
    }
    let path = Path::new(device);
    let is_description =
        !device.contains('/') && path.extension().is_some_and(|extension| extension == "toml");
    if is_description && path.exists() {
        let both =
            format!("@{device} for the device that it describes, or ./{device} for its own bytes");
        return Err(Failure::named(format!("--device {device}"), ValueError::expected(both)));
    }
    if device.contains('/') || path.exists() {
        return Ok(Target::Real(path.to_owned()));
    }
    match profiles::open(device, 0) {
        Ok(_) => Ok(Target::Simulated(device.to_owned())),
        Err(_) if device.is_empty() => Err(Failure::named(
            "--device",
            ValueError::expected("a name or a path; `elevon devices` lists names"),
        )),
        Err(error) => {
            Err(Failure::input(InputError::NoDevice { device: device.to_owned(), error }))
        }
    }
}
