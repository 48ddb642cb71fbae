//! `cargo fuzz run serve`: any bytes as a server's configuration.
#![no_main]

#[path = "../checks/serve.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::serve(data));
