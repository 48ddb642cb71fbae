//! The Linux block layer as a state machine.
//!
//! This crate holds policy only: no clock, no chance, no floats, no threads, no I/O. The current
//! time is an argument, and so is the device, a [`driver::Driver`]. To follow the path of a bio,
//! read [`build`], [`split`], [`merge`], [`sched`], [`tags`], [`flush`], [`driver`] and
//! [`account`]; [`stack`] connects them: it is the request path.
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::float_arithmetic, clippy::print_stdout, clippy::print_stderr)]

extern crate alloc;

// Basic types, used by all other modules.
pub mod ioprio;
pub mod jiffies;
pub mod kernel;
pub mod monotonic;
pub mod nearest;
pub mod op;
pub mod setting;
pub mod status;
pub mod units;

// The path of a bio: build, split, plug and merge, schedule, tag, dispatch, complete.
pub mod bio;
pub mod build;
pub mod control;
pub mod driver;
pub mod flush;
pub mod inject;
pub mod layout;
pub mod limits;
pub mod merge;
pub mod pool;
pub mod request;
pub mod sched;
pub mod split;
pub mod stack;
pub mod tags;
pub mod tenant;
mod treap;
pub mod tree;
mod wbt;

// Accounting, events and statistics.
pub mod account;
pub mod event;
pub mod histogram;
pub mod stats;
