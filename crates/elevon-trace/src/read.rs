//! Readers, one a format. [`crate::open`] picks one.

pub mod blktrace;
mod cursor;
pub mod ftrace;
