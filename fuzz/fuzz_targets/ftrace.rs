//! `cargo fuzz run ftrace`: any bytes as a text of tracepoints.
#![no_main]

#[path = "../checks/trace.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::ftrace(data));
