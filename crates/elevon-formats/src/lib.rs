//! Parsers and writers of input texts: control files of cgroups, files of tenants, devices and
//! servers, and fio job files.
#![forbid(unsafe_code)]

pub mod cgroup;
pub mod device;
mod diagnostic;
pub mod fio;
pub mod quantity;
pub mod serve;
pub mod sweep;
pub mod tenants;
mod toml_reader;
pub mod toml_text;
pub mod toml_tree;
