//! `cargo fuzz run fault`: any bytes as a fault.
#![no_main]

#[path = "../checks/fault.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::fault(data));
