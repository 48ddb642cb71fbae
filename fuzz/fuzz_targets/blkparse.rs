//! `cargo fuzz run blkparse`: any bytes as a text of blkparse.
#![no_main]

#[path = "../checks/trace.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::blkparse(data));
