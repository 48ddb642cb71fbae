//! Tests the simulation by what other crates see of it.

mod faults_manual;
mod free_waits;
mod io_throttle;
mod limits_of_devices;
mod text_corpus;
