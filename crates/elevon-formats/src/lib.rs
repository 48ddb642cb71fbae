//! Bytes to types and back: control files of cgroups, descriptions of devices, fio job files.
#![forbid(unsafe_code)]

pub mod cgroup;
pub mod device;
mod diagnostic;
pub mod fio;
pub mod quantity;
pub mod tenants;
