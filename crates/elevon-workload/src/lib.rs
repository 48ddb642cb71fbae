//! Sources of I/O as state machines, and the one loop that drives them against a stack and a back end.
#![forbid(unsafe_code)]

pub mod backend;
