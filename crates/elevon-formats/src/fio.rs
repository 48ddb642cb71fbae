//! fio's job file format and the options of a job.

mod arithmetic;
mod draft;
mod engine;
mod grammar;
mod lines;
mod number;
pub mod options;
mod over;
mod parse;
mod source;
pub mod spec;

pub use crate::diagnostic::{Complaint, Diagnostic, Problem, Span};
pub use engine::{Behaviour, ENGINES, EngineRow, find_engine};
pub use grammar::WRITE_HINTS;
pub use lines::MAX_ERRORS;
pub use over::JobOption;
pub use parse::{MAX_JOBS, ParsedJobs, parse, parse_all, parse_all_with};
pub use source::{
    Environment, HostSource, JobSource, Machine, MemorySource, SourceError, read_text,
    read_text_file,
};
pub use spec::JobSpec;
