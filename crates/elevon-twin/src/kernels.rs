//! Where the kernels are that were built on this machine.

use std::path::{Path, PathBuf};

use crate::error::TwinError;

/// The name of the variable of the environment with the folder of the kernels.
const FOLDER: &str = "ELEVON_TWIN";

/// Returns the path of a user-mode kernel: `name` is its version, or its path if it has a slash.
/// A version is a folder with a file `linux`, in the folder that the variable ELEVON_TWIN names, or
/// else in `target/twin`.
///
/// # Errors
/// There is no such file.
pub fn find_kernel(name: &str) -> Result<PathBuf, TwinError> {
    if name.contains('/') {
        let path = PathBuf::from(name);
        return match path.is_file() {
            true => Ok(path),
            false => Err(TwinError::NoFile(path)),
        };
    }
    let folder = std::env::var_os(FOLDER).map_or_else(|| "target/twin".into(), PathBuf::from);
    let path = folder.join(name).join("linux");
    let path = std::path::absolute(&path).unwrap_or(path);
    if path.is_file() {
        return Ok(path);
    }
    Err(TwinError::NoKernel { name: name.into(), built: built(&folder), folder })
}

/// Returns the versions that were built, as words.
fn built(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let kernels = entries.filter(|entry| entry.path().join("linux").is_file());
    let mut names: Vec<String> =
        kernels.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    if names.is_empty() { "none is built".into() } else { format!("built: {}", names.join(", ")) }
}
