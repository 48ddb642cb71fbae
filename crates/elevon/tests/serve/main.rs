//! Tests `elevon serve`: clients, control, what it promises, guests, and disks of other servers.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;

mod access;
mod activation;
mod ceph;
mod clients;
mod clients_of_others;
mod control;
mod devices;
mod durable;
mod environment;
mod guest;
mod guest_live;
mod guest_systemd;
mod log;
mod metrics;
mod neighbours;
mod operations;
mod page;
mod soak;
mod systemd_unit;
mod tls;
mod top;
mod upstream;
mod upstream_chunks;
mod upstream_faults;
mod upstream_tls;
mod vhost;
mod weights;
