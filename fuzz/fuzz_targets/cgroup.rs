//! `cargo fuzz run cgroup`: any bytes as a line written to a control file.
#![no_main]

#[path = "../checks/cgroup.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::cgroup(data));
