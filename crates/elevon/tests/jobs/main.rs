//! Tests runs of jobs: devices, tenants, errors, signals, outputs and sweeps.

#[path = "../common/mod.rs"]
mod common;

mod atomic;
mod bad_input;
mod devices;
mod long_gaps;
mod outputs;
mod real_errors;
mod signals;
mod slices;
mod slurm;
mod snapshots;
mod sweep;
mod tenant_shares;
mod tenants;
mod tenants_write_back;
mod trim_ranges;
