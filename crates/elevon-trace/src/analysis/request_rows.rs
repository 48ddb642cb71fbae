//! Writes every request of a trace as a row of CSV or Parquet.

use std::io::{self, Write};

use super::{ProcessStats, RequestRecord, RequestSink};
use crate::columns::{Cell, Type};
use crate::op::TraceRwbs;
use crate::write::csv;
#[cfg(feature = "parquet")]
use crate::write::table::{Table, TableWriter};

/// Version of the meaning of the columns, in the metadata of a Parquet file as `elevon.requests`.
#[cfg(feature = "parquet")]
const SCHEMA: u32 = 1;

/// Names and types of the columns, in order. Times are nanoseconds of the trace's clock. Values
/// that the trace lacks are empty in CSV and null in Parquet.
const COLUMNS: [(&str, Type); 15] = [
    ("queued_ns", Type::Number),
    ("allocated_ns", Type::Number),
    ("inserted_ns", Type::Number),
    ("issued_ns", Type::Number),
    ("completed_ns", Type::Number),
    ("operation", Type::Text),
    ("rwbs", Type::Text),
    ("sector", Type::Number),
    ("bytes", Type::Number),
    ("bios", Type::Number),
    ("process_id", Type::Number),
    ("process", Type::Text),
    ("class", Type::Text),
    ("level", Type::Number),
    ("error", Type::Number),
];

/// Converts a request to a row.
fn row(request: &RequestRecord, process: &ProcessStats) -> [Option<Cell>; COLUMNS.len()] {
    let number = |value: Option<u64>| value.map(|value| Cell::Number(value as i64));
    let small = |value: Option<u32>| number(value.map(u64::from));
    let text = |value: Option<&str>| value.map(|value| Cell::Text(value.to_owned()));
    [
        number(request.queued),
        number(request.allocated),
        number(request.inserted),
        number(request.issued),
        number(request.completed),
        text(request.op.map(|op| op.name())),
        request.op.map(|_| Cell::Text(TraceRwbs(request.op, Some(request.flags)).to_string())),
        number(Some(request.sector)),
        number(Some(request.bytes)),
        small((request.bios > 0).then_some(request.bios)),
        small(process.id),
        text(process.name.as_deref()),
        text(request.prio.map(|prio| prio.class().name())),
        small(request.prio.map(|prio| u32::from(prio.level()))),
        request.error.map(|error| Cell::Number(i64::from(error))),
    ]
}

/// Writes requests in order of completion.
pub struct RequestWriter<W: Write + Send> {
    rows: Rows<W>,
    error: Option<io::Error>,
}

enum Rows<W: Write + Send> {
    Csv(W),
    /// Memory: a row group.
    #[cfg(feature = "parquet")]
    Parquet(Box<TableWriter<W>>),
}

impl<W: Write + Send> RequestWriter<W> {
    /// Begins a table in CSV with its header.
    ///
    /// # Errors
    /// Returns an error of the output.
    pub fn csv(mut out: W) -> io::Result<Self> {
        csv::header(&mut out, &COLUMNS)?;
        Ok(Self { rows: Rows::Csv(out), error: None })
    }

    /// Begins a table in Parquet.
    ///
    /// # Errors
    /// Returns an error of the output.
    #[cfg(feature = "parquet")]
    pub fn parquet(out: W) -> io::Result<Self> {
        let table = Table {
            row_name: "request",
            version_key: "elevon.requests",
            version: SCHEMA.to_string(),
            columns: &COLUMNS,
            ascending: None,
        };
        Ok(Self { rows: Rows::Parquet(Box::new(TableWriter::new(out, &table)?)), error: None })
    }

    /// Finishes the table, and returns the output.
    ///
    /// # Errors
    /// Returns the first error of the output.
    pub fn finish(self) -> io::Result<W> {
        match (self.error, self.rows) {
            (Some(error), _) => Err(error),
            (None, Rows::Csv(out)) => Ok(out),
            #[cfg(feature = "parquet")]
            (None, Rows::Parquet(table)) => table.finish(),
        }
    }
}

impl<W: Write + Send> RequestSink for RequestWriter<W> {
    fn requests(&mut self, requests: &[RequestRecord], processes: &[ProcessStats]) {
        for request in requests {
            if self.error.is_some() {
                return;
            }
            let row = row(request, &processes[request.process as usize]);
            self.error = match &mut self.rows {
                Rows::Csv(out) => csv::line(out, &COLUMNS, &row).err(),
                #[cfg(feature = "parquet")]
                Rows::Parquet(table) => table.row(row).err(),
            };
        }
    }

    /// Rows that were already written are of another device and cannot be removed.
    fn restart(&mut self) {
        self.error = Some(io::Error::other(
            "the rows of another device were written already; choose one with --dev",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::inspect;
    use crate::testing::data;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    /// The written file is read back: it has a row for each request, and nulls for values that the
    /// trace lacks.
    #[test]
    fn rows_are_read_back() {
        let path = data("kernel-truth/traces/dd-1028k-direct.ftrace");
        let mut out = RequestWriter::parquet(Vec::new()).expect("a head");
        let found = inspect(&mut || crate::open(&path), None, Some(&mut out), &mut |_| {})
            .expect("a trace");
        let bytes = out.finish().expect("a foot");
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a file");
        let rows: Vec<_> =
            file.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
        assert_eq!(rows.len() as u64, found.counts.completed[0]);
        let sum: i64 = rows.iter().map(|row| row.get_long(8).expect("bytes")).sum();
        assert_eq!(sum as u64, found.counts.completed_bytes[0]);
        let texts: Vec<&str> = [5, 6, 11, 12]
            .iter()
            .map(|&at| rows[0].get_string(at).expect("a text").as_str())
            .collect();
        assert_eq!(texts, ["read", "R", "dd", "be"]);
        let device: i64 = rows
            .iter()
            .map(|row| row.get_long(4).expect("an end") - row.get_long(3).expect("an issue"))
            .sum();
        assert_eq!(u128::from(device as u64), found.stages[0].issued_to_completed.sum);
    }
}
