//! Where the kernels are that were built on this machine.

use std::path::PathBuf;

use crate::error::TwinError;

/// The name of the variable of the environment with the folder of the kernels.
const FOLDER: &str = "ELEVON_TWIN";

/// Returns the folder of the kernels, with a folder for each version that has the kernel `linux`:
/// the one that the variable ELEVON_TWIN names, or else `target/twin`.
pub fn kernels_folder() -> PathBuf {
    std::env::var_os(FOLDER).map_or_else(|| "target/twin".into(), PathBuf::from)
}

/// Returns the path of a user-mode kernel: `name` is its version in [`kernels_folder`], or its path
/// if it has a slash.
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
    let folder = kernels_folder();
    let path = folder.join(name).join("linux");
    let path = std::path::absolute(&path).unwrap_or(path);
    if path.is_file() {
        return Ok(path);
    }
    let names = built_kernels();
    let built = if names.is_empty() {
        "none is built".into()
    } else {
        format!("built: {}", names.join(", "))
    };
    Err(TwinError::NoKernel { name: name.into(), built, folder })
}

/// Returns the versions of the kernels in [`kernels_folder`].
pub fn built_kernels() -> Vec<String> {
    let entries = std::fs::read_dir(kernels_folder()).into_iter().flatten().flatten();
    let kernels = entries.filter(|entry| entry.path().join("linux").is_file());
    let mut names: Vec<String> =
        kernels.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
