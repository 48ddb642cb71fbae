//! Virtual time: device models, memory model, faults, seeded swarm.
#![forbid(unsafe_code)]

pub mod chance;
pub mod device;
pub mod memory;
pub mod profiles;
pub mod simulation;
pub mod swarm;
