//! `cargo fuzz run nbd`: any bytes as what a client sends.
#![no_main]

#[path = "../checks/nbd.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::nbd(data));
