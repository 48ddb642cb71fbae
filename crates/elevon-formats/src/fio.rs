//! fio's job file format and the options of a job.

mod arithmetic;
mod diagnostic;
mod draft;
mod engine;
mod grammar;
mod lines;
mod number;
pub mod options;
mod parse;
mod render;
mod source;
pub mod spec;

pub use diagnostic::{Diagnostic, Span};
pub use engine::{Behaviour, ENGINES, EngineRow, WITHOUT_CACHE, find_engine};
pub use parse::{MOST_ERRORS, MOST_JOBS, ParsedJobs, parse, parse_all};
pub use render::render;
pub use source::{HostSource, JobSource, Machine, MemorySource, read_text, read_text_file};
pub use spec::JobSpec;
