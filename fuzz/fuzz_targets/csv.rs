//! `cargo fuzz run csv`: any bytes as a CSV trace of each kind.
#![no_main]

#[path = "../checks/trace.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::csv(data));
