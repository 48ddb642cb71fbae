//! What would be if: traces repeated on other stacks, devices that are fitted to them, and advice.
//!
//! [`trace_input`] reads a trace, and [`replay`] makes a plan that repeats it. [`fit`] fits a
//! device model to the requests of one. [`calibrate`] makes a file of that device, or measures a
//! device. [`advise`] searches for a configuration that serves the processes of a trace better.
//! Where several devices explain a trace, [`interval`] says what is not known. [`slices`] repeats a
//! run in parts, and says why a job has less than its slice.
//!
//! ```
//! use elevon_whatif::fit::{Kind, Served, fit};
//!
//! // A disk that serves one read at a time, in 100 us.
//! let read = |at: u64| Served {
//!     issued: at * 150_000,
//!     completed: at * 150_000 + 100_000,
//!     sector: at * 9_999,
//!     bytes: 4096,
//!     kind: Kind::Read,
//! };
//! let reads: Vec<Served> = (0..500).map(read).collect();
//! let found = fit(&reads).expect("there are reads");
//! assert_eq!(found.model.held(Kind::Read).latency.round(), 100_000.0);
//! ```
#![forbid(unsafe_code)]

pub mod advise;
pub mod calibrate;
mod figures;
pub mod fit;
pub mod interval;
mod options_of_trace;
pub mod replay;
pub mod select;
pub mod slices;
pub mod trace_input;
