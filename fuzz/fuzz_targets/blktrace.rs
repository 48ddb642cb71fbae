//! `cargo fuzz run blktrace`: any bytes as a blktrace file.
#![no_main]

#[path = "../checks/trace.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::blktrace(data));
