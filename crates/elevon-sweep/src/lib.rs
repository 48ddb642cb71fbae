//! One job file under many options, settings and seeds: sweeps, searches, and runs for programs.
//!
//! A sweep is a list of points, each a value for every axis, and a list of seeds; its runs are
//! numbered point by point. A run is what `elevon run` does with the options of its point, so its
//! row in the results has the command that repeats it. Runs are simulated and deterministic: the
//! results do not depend on the number of threads, on interrupts, or on shards.
//!
//! [`folder`] is `elevon sweep`, [`tune`] is `elevon tune`, and [`lab`] is what programs in other
//! languages call.
//!
//! ```
//! use elevon_sweep::lab::{Interrupt, Over, Sweep, SweepSpec, Texts};
//!
//! let job = "[reader]\nrw=randread\nbs=4k\nnumber_ios=100\n";
//! let sweep = Sweep::new(SweepSpec {
//!     job: "reader.fio".to_owned(),
//!     options: vec!["--device".to_owned(), "hdd-7200".to_owned()],
//!     over: vec![("iodepth".to_owned(), Over::Text("1..4:*2".to_owned()))],
//!     texts: Texts::from([("reader.fio".to_owned(), job.to_owned())]),
//!     ..SweepSpec::default()
//! })?;
//! let mut outcomes = Vec::new();
//! sweep.run_all(&[0, 1, 2], None, &Interrupt::new(), |_, outcome| outcomes.push(outcome))?;
//! let results = sweep.results(outcomes.iter().map(String::as_str))?;
//! assert!(results.summary.starts_with("Sweep of reader.fio"));
//! # Ok::<(), elevon_sweep::lab::LabError>(())
//! ```
#![forbid(unsafe_code)]

mod amount;
pub mod axis;
mod definition;
mod drawing;
pub mod error;
pub mod folder;
mod goal;
mod journal;
pub mod lab;
mod points;
pub mod request;
pub mod results;
mod runs;
pub mod said;
pub mod summary;
mod table;
pub mod tune;
