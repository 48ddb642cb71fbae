//! What developers run: `cargo xtask fuzz` and `cargo xtask hide-tools`.
#![forbid(unsafe_code)]

pub mod fuzz;
pub mod hide_tools;
pub mod targets;
