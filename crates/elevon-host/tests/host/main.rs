//! Tests real files and devices: against the simulation, and after a power cut.

mod block_device;
mod cached;
mod common;
mod conformance;
mod killed;
mod power_cut;
mod sockets;
