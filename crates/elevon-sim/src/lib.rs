//! Virtual time: device models, memory model, faults.
#![forbid(unsafe_code)]

pub mod chance;
pub mod device;
pub mod memory;
pub mod profiles;
pub mod simulation;
