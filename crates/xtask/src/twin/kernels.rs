//! Where the kernels of the twin are: those of the judge are those of `elevon twin`.

pub use elevon_twin::{built_kernels as built, kernels_folder};

/// The kernel that is built and judged if none is named.
pub const DEFAULT_VERSION: &str = "7.3";
/// The folder of what belongs to the guest in the repository.
pub const SOURCES: &str = "tests/twin";
