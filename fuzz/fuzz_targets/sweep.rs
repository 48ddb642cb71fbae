//! `cargo fuzz run sweep`: any bytes as the plan of a sweep.
#![no_main]

#[path = "../checks/sweep.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::sweep(data));
