//! `cargo fuzz run mail`: any bytes as a trace in a mail.
#![no_main]

#[path = "../checks/trace.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::mail(data));
