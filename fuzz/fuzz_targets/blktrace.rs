//! `cargo fuzz run blktrace`: any bytes as a blktrace file.
#![no_main]

#[path = "../checks/blktrace.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::blktrace(data));
