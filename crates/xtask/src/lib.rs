//! What developers run: `cargo xtask quick`, `cargo xtask fuzz`, `cargo xtask hide-tools` and
//! `cargo xtask twin`.
#![forbid(unsafe_code)]

pub mod fuzz;
pub mod hide_tools;
pub mod quick;
pub mod targets;
pub mod twin;
