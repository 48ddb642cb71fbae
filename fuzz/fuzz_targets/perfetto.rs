//! `cargo fuzz run perfetto`: any bytes as a Perfetto trace.
#![no_main]

#[path = "../checks/trace.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::perfetto(data));
