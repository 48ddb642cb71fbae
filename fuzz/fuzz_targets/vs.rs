//! `cargo fuzz run vs`: any bytes as `--vs` of `elevon compare`.
#![no_main]
#![allow(dead_code, unused_imports, reason = "files of the command, of which this uses a part")]

#[path = "../checks/vs.rs"]
mod check;
#[path = "../../crates/elevon/src/args.rs"]
mod args;
#[path = "../../crates/elevon/src/failure.rs"]
mod failure;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::vs(data));
