//! Readers, one for each format. [`crate::open`] chooses one.

pub(crate) mod blkparse;
pub mod blktrace;
pub(crate) mod csv;
mod cursor;
pub(crate) mod event_csv;
pub(crate) mod fio_log;
pub mod ftrace;
mod hardware;
pub(crate) mod lines;
pub mod perfetto;
