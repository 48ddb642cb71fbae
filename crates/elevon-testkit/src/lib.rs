//! Helpers that the tests of several crates share. No production crate may depend on this one.
#![forbid(unsafe_code)]

mod authority;
pub mod habits;
mod manual;
mod random;
mod tools;
pub mod water_filling;
pub use authority::Authority;
pub use manual::{hold_document, replace_after, replace_between};
pub use random::Rng;
pub use tools::{REQUIRE_TOOLS, TOOLS_LOG, denied, signal, skip, tool, tools, twin_kernels};
