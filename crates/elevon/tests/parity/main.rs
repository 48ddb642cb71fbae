//! Compares runs with those of real kernels and of fio.

#[path = "../common/mod.rs"]
mod common;

mod attribute_parity;
mod close_parity;
mod event_parity;
mod fio_examples;
mod fio_language;
mod fio_parity;
mod kernel_parity;
mod limits_parity;
mod readahead_parity;
mod scheduler_cpu;
