//! Measures schedulers on processes that compete for a simulated device: what each process gets
//! against its weighted max-min share, the total throughput, and the latency of I/Os.
//!
//! A [`Mix`] lists the processes, a [`Setup`] the scheduler and its tunables, and [`Lab::run`] runs
//! them in virtual time. [`division`] compares what processes got with the shares that the oracle
//! in `elevon-testkit` computes. Two things use this: comparisons of schedulers on random mixes
//! ([`random_mix`], [`dominance`]), and a table of scenarios with goals.
//!
//! The same seed gives the same figures. For tests and benches only.
#![forbid(unsafe_code)]

// What runs, and under which scheduler.
pub mod job_mix;
pub mod mix;
mod random_mix;
pub mod setup;
pub mod tenant_setup;

// One run, and what the device could do.
pub mod lab;
pub mod measured;
pub mod parallel;
mod watched;

// What is made of it.
pub mod division;
pub mod dominance;
pub mod goal;
pub mod progress;
mod scenario;

pub use division::{Claims, Division};
pub use lab::Lab;
pub use measured::Measured;
pub use mix::{Group, Mix, MixProcess};
pub use random_mix::random_mix;
pub use scenario::{Scenario, scenarios};
pub use setup::Setup;
