//! `cargo fuzz run cpu_cost`: any bytes as a scheduler, a line end, and `--cpu-cost`.
#![no_main]
#![allow(dead_code, unused_imports, reason = "files of the command, of which this uses a part")]

#[path = "../checks/cpu_cost.rs"]
mod check;
#[path = "../../crates/elevon/src/cpu_cost.rs"]
mod cpu_cost;
#[path = "../../crates/elevon/src/failure.rs"]
mod failure;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::cpu_cost(data));
