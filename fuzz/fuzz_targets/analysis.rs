//! `cargo fuzz run analysis`: any bytes as a trace that is inspected, replayed and fitted.
#![no_main]

#[path = "../checks/analysis.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::analysis(data));
