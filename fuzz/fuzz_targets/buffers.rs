//! `cargo fuzz run buffers`: any bytes as a model of physical memory.
#![no_main]

#[path = "../checks/buffers.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::buffers(data));
