//! `cargo fuzz run device`: any bytes as a device.
#![no_main]

#[path = "../checks/device.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::device(data));
