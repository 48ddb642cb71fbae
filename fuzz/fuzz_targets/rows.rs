//! `cargo fuzz run rows`: any bytes as rows of biosnoop, LTTng, FIU, Windows and caches.
#![no_main]

#[path = "../checks/trace.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::rows(data));
