//! `cargo fuzz run memory`: any bytes as `--memory` or `--cache`, with settings of the page cache.
#![no_main]
#![allow(dead_code, unused_imports, reason = "files of the command, of which this uses a part")]

#[path = "../checks/memory.rs"]
mod check;
#[path = "../../crates/elevon/src/failure.rs"]
mod failure;
#[path = "../../crates/elevon/src/memory.rs"]
mod memory;
#[path = "../../crates/elevon/src/output.rs"]
mod output;
#[path = "../../crates/elevon/src/setting.rs"]
mod setting;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::memory(data));
