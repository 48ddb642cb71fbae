//! Writes every field of every event in Parquet's columns, one row per event.
//!
//! Numbers are INT64; `sector` and similar columns may use all 64 bits. Texts (kind, operation,
//! names) are stored in dictionaries, absent fields are null. Columns are compressed by zstd, and
//! times are stored as differences. The file's metadata contains `elevon.schema`, the version of
//! the meaning of the columns. Cost: one value per column and event; memory for a row group.

use std::io::{self, Write};

use super::EventWriter;
use super::table::{Table, TableWriter};
use crate::columns::{self, COLUMNS, SCHEMA};
use crate::event::TraceEvent;
use crate::names::Names;

/// Writes the row groups.
pub struct ParquetWriter<W: Write + Send> {
    table: TableWriter<W>,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn new(out: W) -> io::Result<Self> {
        let table = Table {
            row_name: "event",
            version_key: "elevon.schema",
            version: SCHEMA.to_string(),
            columns: &COLUMNS,
            ascending: Some("time_ns"),
        };
        Ok(Self { table: TableWriter::new(out, &table)? })
    }

    /// Appends one event.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        let comm = event.comm.map(|id| names.name(id));
        self.table.row(columns::row(
            event,
            comm,
            event.device.and_then(|device| names.device(device)),
        ))
    }

    /// Writes the last row group and the footer, and returns the output.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn finish(self) -> io::Result<W> {
        self.table.finish()
    }
}

impl<W: Write + Send> EventWriter for ParquetWriter<W> {
    fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        Self::event(self, event, names)
    }

    fn end(self: Box<Self>) -> io::Result<()> {
        self.finish().map(drop)
    }
}
