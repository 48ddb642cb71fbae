//! `cargo fuzz run job`: any bytes as a job file.
#![no_main]

#[path = "../checks/job.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::job(data));
