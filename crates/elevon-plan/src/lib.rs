//! A run as a value: [`options`] as they were given, the checked [`plan`], its execution and its
//! result. What can be checked is checked before anything is opened or run.
//!
//! Nothing is printed, no signal handler is installed, and no command line is parsed.
//!
//! ```
//! use elevon_formats::fio::{MemorySource, parse};
//! use elevon_host::interrupt::Interrupt;
//! use elevon_plan::execute::execute;
//! use elevon_plan::failure::{Ending, Failure};
//! use elevon_plan::options::StackOptions;
//! use elevon_plan::plan::Plan;
//! use elevon_workload::run::NoObserver;
//!
//! let text = "[reader]\nrw=randread\nbs=4k\nnumber_ios=100\n";
//! let mut source = MemorySource::one("reader.fio", text);
//! let jobs = parse(&mut source, "reader.fio").map_err(Failure::text)?;
//! let options = StackOptions::of_text("--device hdd-7200").map_err(Failure::input)?;
//! let plan = Plan::of_jobs(jobs, "reader.fio", &options, None)?;
//! let (result, ending) = execute(&plan, &mut NoObserver, &Interrupt::new())?;
//! assert_eq!(ending, Ending::Done);
//! assert_eq!(result.jobs[0].stats.directions[0].ios, 100);
//! # Ok::<(), Failure>(())
//! ```
#![forbid(unsafe_code)]

mod clamped;
mod cpu_cost;
pub mod device_description;
pub mod execute;
pub mod failure;
pub mod files;
#[doc(hidden)]
pub mod fuzzing;
pub mod listener;
mod logs;
mod memory;
pub mod options;
pub mod output;
pub mod own_device;
pub mod parallel;
pub mod plan;
pub mod replay;
pub mod result;
pub mod setting;
pub mod target;
pub mod text_files;
