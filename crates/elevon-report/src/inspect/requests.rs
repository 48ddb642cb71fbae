//! Writes every request of a trace as a row of CSV.

use std::io::{self, Write};

use elevon_trace::TraceRwbs;
use elevon_trace::analysis::{ProcessStats, RequestRecord, RequestSink};

/// Header line. Times are nanoseconds of the trace's clock. A cell is empty if the trace lacks its
/// value.
pub const CSV_HEADER: &str = "queued_ns,allocated_ns,inserted_ns,issued_ns,completed_ns,operation,rwbs,sector,bytes,bios,\
                              process_id,process,class,level,error\n";

/// Writes requests in order of completion. Nothing is allocated per row.
#[derive(Debug)]
pub struct CsvRequests<W> {
    out: W,
    line: Vec<u8>,
    error: Option<io::Error>,
}

impl<W: Write> CsvRequests<W> {
    /// Writes the header.
    pub fn new(mut out: W) -> Self {
        let error = out.write_all(CSV_HEADER.as_bytes()).err();
        Self { out, line: Vec::new(), error }
    }

    /// Finishes the output.
    ///
    /// # Errors
    /// Returns the first error of the output.
    pub fn finish(self) -> io::Result<W> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.out),
        }
    }

    fn row(&mut self, request: &RequestRecord, process: &ProcessStats) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        let times = [request.queued, request.allocated, request.inserted, request.issued, request.completed];
        for time in times {
            number(line, time)?;
        }
        write!(line, "{},", request.op.map_or("", |op| op.name()))?;
        if request.op.is_some() {
            write!(line, "{}", TraceRwbs(request.op, Some(request.flags)))?;
        }
        write!(line, ",{},{},", request.sector, request.bytes)?;
        number(line, (request.bios > 0).then_some(request.bios))?;
        number(line, process.id)?;
        quoted(line, process.name.as_deref().unwrap_or_default());
        match request.prio {
            Some(prio) => write!(line, ",{},{},", prio.class().name(), prio.level())?,
            None => line.extend_from_slice(b",,,"),
        }
        if let Some(error) = request.error {
            write!(line, "{error}")?;
        }
        line.push(b'\n');
        self.out.write_all(line)
    }
}

/// Writes a number, if there is one, and a comma.
fn number(line: &mut Vec<u8>, value: Option<impl std::fmt::Display>) -> io::Result<()> {
    match value {
        Some(value) => write!(line, "{value},"),
        None => {
            line.push(b',');
            Ok(())
        }
    }
}

/// Writes a name, in quotes if CSV requires them.
fn quoted(line: &mut Vec<u8>, name: &str) {
    if !name.contains(['"', ',', '\n', '\r']) {
        return line.extend_from_slice(name.as_bytes());
    }
    line.push(b'"');
    for byte in name.bytes() {
        if byte == b'"' {
            line.push(b'"');
        }
        line.push(byte);
    }
    line.push(b'"');
}

impl<W: Write> RequestSink for CsvRequests<W> {
    fn requests(&mut self, requests: &[RequestRecord], processes: &[ProcessStats]) {
        for request in requests {
            if self.error.is_some() {
                return;
            }
            self.error = self.row(request, &processes[request.process as usize]).err();
        }
    }

    /// Rows that were already written are of another device and cannot be removed.
    fn restart(&mut self) {
        self.error = Some(io::Error::other("the rows of another device were written already; choose one with --dev"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_csv_asks_for_it() {
        let text = |name: &str| {
            let mut line = Vec::new();
            quoted(&mut line, name);
            String::from_utf8(line).expect("UTF-8")
        };
        assert_eq!([text("fio"), text("a,b"), text("say \"x\"")], ["fio", "\"a,b\"", "\"say \"\"x\"\"\""]);
    }
}
