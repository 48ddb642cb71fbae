//! The device's loop in virtual time: clients that keep a number of requests in flight, on
//! simulated devices with bytes.

mod actor;
mod cached;
mod cut;
mod guarantees;
mod lab;
mod memory;
mod neighbours;
mod power;
mod settings;
mod unaligned;
