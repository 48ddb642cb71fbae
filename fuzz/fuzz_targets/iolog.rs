//! `cargo fuzz run iolog`: any bytes as a fio iolog.
#![no_main]

#[path = "../checks/trace.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::iolog(data));
