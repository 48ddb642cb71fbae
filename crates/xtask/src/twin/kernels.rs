//! Where the kernels of the twin are.

use std::fs;

/// The kernel that is built and judged if none is named.
pub const DEFAULT_VERSION: &str = "7.3";
/// The folder of what belongs to the guest in the repository.
pub const SOURCES: &str = "tests/twin";
/// The folder of what is built, with a folder for each version.
pub const BUILT: &str = "target/twin";

/// Returns the kernels that are built, by version.
pub fn built() -> Vec<String> {
    let entries = fs::read_dir(BUILT).into_iter().flatten().flatten();
    let mut versions: Vec<String> = entries
        .filter(|entry| entry.path().join("linux").exists())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    versions.sort();
    versions
}
