//! What schedulers make of processes that compete for a simulated device: who gets how much against
//! its weighted max-min share, what the device does in all, and how long I/Os take.
//!
//! A [`Mix`] says what runs, a [`Setup`] under which scheduler, and [`Lab::run`] runs it in virtual
//! time. [`division`] compares what processes got with the shares of the oracle in
//! `elevon-testkit`. On this stand two things: random mixes ([`random_mix`]) on which schedulers
//! are compared with each other ([`dominance`]), and a table of scenarios with goals.
//!
//! The same seed gives the same figures. For tests and benches only.
#![forbid(unsafe_code)]

// What runs, and under which scheduler.
pub mod mix;
mod random_mix;
pub mod setup;

// One run, and what the device could do.
pub mod lab;
pub mod measured;
pub mod parallel;
mod watched;

// What is made of it.
pub mod division;
pub mod dominance;
pub mod goal;
mod scenario;

pub use division::{Claims, Division};
pub use lab::Lab;
pub use measured::Measured;
pub use mix::{Group, Mix, MixProcess};
pub use random_mix::random_mix;
pub use scenario::{Scenario, scenarios};
pub use setup::Setup;
