//! `cargo fuzz run oracle`: any bytes as oracleGeneral of libCacheSim.
#![no_main]

#[path = "../checks/trace.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::oracle(data));
