//! Writes every field of every event as comma-separated values, with a line of titles;
//! [`crate::open`] reads the file back.
//!
//! An absent field is empty; a text with a comma, a quotation mark or a line end is quoted, and the
//! line end becomes a blank. Cost: one line per event, no state.

use std::io::{self, Write};

use super::EventWriter;
use crate::columns::{self, COLUMNS, Cell, Type};
use crate::event::TraceEvent;
use crate::names::Names;

/// Writes the line of titles of a table.
pub(crate) fn header(out: &mut impl Write, columns: &[(&str, Type)]) -> io::Result<()> {
    let names: Vec<&str> = columns.iter().map(|&(name, _)| name).collect();
    writeln!(out, "{}", names.join(","))
}

/// Writes a row of a table, which has a cell for each column, in order.
pub(crate) fn line(
    out: &mut impl Write,
    columns: &[(&str, Type)],
    row: &[Option<Cell>],
) -> io::Result<()> {
    for (at, (&(column, _), cell)) in columns.iter().zip(row).enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        match cell {
            None => {}
            // Errors are the only negative numbers; the others are unsigned 64-bit numbers.
            Some(Cell::Number(number)) if column == "error" => write!(out, "{number}")?,
            Some(Cell::Number(number)) => write!(out, "{}", *number as u64)?,
            Some(Cell::Text(text)) if text.contains([',', '"', '\n', '\r']) => {
                write!(out, "\"{}\"", text.replace('"', "\"\"").replace(['\n', '\r'], " "))?;
            }
            Some(Cell::Text(text)) => out.write_all(text.as_bytes())?,
        }
    }
    out.write_all(b"\n")
}

/// Writes the lines.
pub struct CsvWriter<W: Write> {
    out: W,
}

impl<W: Write> CsvWriter<W> {
    /// Writes the line of titles.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn new(mut out: W) -> io::Result<Self> {
        header(&mut out, &COLUMNS)?;
        Ok(Self { out })
    }

    /// Appends one event.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        let comm = event.comm.map(|id| names.name(id));
        let row = columns::row(event, comm, event.device.and_then(|device| names.device(device)));
        line(&mut self.out, &COLUMNS, &row)
    }

    /// Writes what is buffered, and returns the output.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

impl<W: Write> EventWriter for CsvWriter<W> {
    fn event(&mut self, event: &TraceEvent, names: &Names) -> io::Result<()> {
        Self::event(self, event, names)
    }

    fn end(self: Box<Self>) -> io::Result<()> {
        self.finish().map(drop)
    }
}
