//! `cargo fuzz run scheduler`: any bytes as a scheduler with tunables.
#![no_main]

#[path = "../checks/scheduler.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::scheduler(data));
