//! Bytes to types and back: fio job files, trace files of block events.
#![forbid(unsafe_code)]

pub mod fio;
pub mod trace;
