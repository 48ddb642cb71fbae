//! Where the kernels of the twin are: those of the judge are those of `elevon twin`.

use std::path::PathBuf;

pub use elevon_twin::kernels_folder;

/// The kernel that is built and judged if none is named.
pub const DEFAULT_VERSION: &str = "7.3";
/// The folder of what belongs to the guest in the repository.
pub const SOURCES: &str = "tests/twin";

/// Returns the program of a kernel, and the guest's file system.
///
/// # Errors
/// One of them is not built; the line says which command builds it.
pub fn built(version: &str) -> Result<[PathBuf; 2], String> {
    let folder = kernels_folder();
    let files = [folder.join(version).join("linux"), folder.join("initramfs.cpio")];
    match files.iter().find(|file| !file.is_file()) {
        Some(missing) => Err(format!(
            "{} is not built: cargo xtask twin build --kernel {version}",
            missing.display()
        )),
        None => Ok(files),
    }
}
