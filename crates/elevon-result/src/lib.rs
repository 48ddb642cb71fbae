//! What a run gave, and what a server did, as plain values that reports and servers share.
//!
//! [`result::RunResult`] has everything that a report of a run says. [`collect`] makes the values
//! of tenants out of a stack, and [`tenants`] explains them. [`mod@slice`] says what jobs got of
//! their slices. [`summary`] computes figures from counts, [`interval`] their statistics, and
//! [`number`] writes numbers as text. Nothing here reads a clock, a file or a global variable.
//!
//! ```
//! use elevon_result::interval::Interval;
//! use elevon_result::number::counted;
//!
//! let latency = Interval::from_samples(&[9.0, 10.0, 11.0]).expect("there are samples");
//! assert_eq!(latency.mean, 10.0);
//! assert_eq!(counted(latency.samples as u64, "sample"), "3 samples");
//! ```
#![forbid(unsafe_code)]

pub mod collect;
pub mod interval;
pub mod number;
pub mod result;
pub mod slice;
pub mod summary;
pub mod tenants;
