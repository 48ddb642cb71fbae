//! `cargo fuzz run ftrace`: any bytes as a trace text.
#![no_main]

#[path = "../checks/ftrace.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::ftrace(data));
