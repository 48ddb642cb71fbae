//! fio's job file format and the options of a job.

pub mod spec;

pub use spec::JobSpec;
