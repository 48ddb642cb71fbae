//! `cargo fuzz run setting`: any bytes as settings of the stack and the page cache.
#![no_main]

#[path = "../checks/setting.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::setting(data));
