//! `cargo fuzz run page`: any bytes as a web page of systrace.
#![no_main]

#[path = "../checks/trace.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::page(data));
