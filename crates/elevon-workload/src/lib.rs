//! Sources of I/O as state machines, and the one loop that drives them against a stack and a back
//! end.
//!
//! This crate never reads a clock or accesses a device: time comes in as an argument, and I/O goes
//! out as values. The modules are listed in reading order.
#![forbid(unsafe_code)]

// The next I/O of a process.
pub mod chance;
mod distribution;
mod free_map;
mod math;
mod pace;
pub mod pattern;
pub mod region;
mod taus;

// One process, and the statistics and logs of its I/O.
pub mod cpu;
pub mod dependencies;
pub mod fio_flow;
pub mod followers;
mod latency_target;
pub mod logs;
mod measure;
pub mod process;
pub mod replay;
pub mod section_lock;
pub mod source;
pub mod verify;

// All processes, and the loop.
pub mod buffered;
pub mod in_force;
pub mod jobs;
pub mod readings;
pub mod run;
pub mod series;
pub mod settings;
pub mod steady;
pub mod tenants;
mod wakeups;

mod error;
pub use error::WorkloadError;
