//! `cargo fuzz run tenants`: any bytes as a file of tenants.
#![no_main]

#[path = "../checks/tenants.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::tenants(data));
