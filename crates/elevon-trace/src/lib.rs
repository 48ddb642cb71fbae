//! Traces of block events: one schema, and streaming readers and writers of every format.
//!
//! [`open`] finds a trace's format by its content, takes compression off, merges per-CPU files, and
//! delivers [`TraceEvent`]s in order of time in bounded memory. Fields that a format lacks are
//! absent in the event. Damaged records are skipped and counted in [`ReadReport`]. A gap of lost
//! events is an event, [`TraceKind::Lost`].
//!
//! [`write::create`] writes events of any trace in any format; [`run`] writes the traces of
//! Elevon's own runs.
//!
//! ```no_run
//! let mut trace = elevon_trace::open("sda.blktrace.0".as_ref())?;
//! while let Some(events) = trace.next_batch()? {
//!     for event in events {
//!         println!("{:?} {} {:?}", event.time, event.kind.name(), event.sector);
//!     }
//! }
//! println!("{} lines were damaged", trace.report().skipped_count());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod analysis;
mod archives;
pub mod capture;
mod columns;
mod detect;
mod event;
mod format;
mod input;
mod mail;
pub mod names;
mod op;
mod open;
mod page;
pub mod read;
mod reader;
mod recorded;
pub mod replay;
mod report;
pub mod run;
mod select;
pub mod served;
mod sink;
pub mod steps;
#[cfg(test)]
mod testing;
pub mod write;

pub use event::{DeviceError, DeviceNumber, Gaps, SECTOR_SIZE, TraceEvent, TraceKind};
pub use format::TraceFormat;
pub use op::{TraceOp, TraceRwbs, parse_rwbs};
pub use open::{OpenError, from_bytes, from_read, open};
pub use reader::{Reader, Traced};
pub use recorded::Recorded;
pub use report::{Gap, Place, Position, ReadReport, Skipped, UnusableError};
pub use select::{SelectError, Selection, is_process, meant_and_known};
