//! `elevon inspect`: analyses a trace.

use std::io::{BufWriter, Read};
use std::path::Path;

use elevon_report::inspect::{self, CsvRequests, PageRequests};
use elevon_trace::analysis::{InspectError, Inspection, ParquetRequests, ProcessStats, RequestRecord, RequestSink};
use elevon_trace::{Device, OpenError, Position, Reader};

use crate::args::{InspectArgs, TextOrJson};
use crate::bar::Bar;
use crate::failure::{Ending, Failure, MachineError, ValueError, all, emit, emit_text, tell};
use crate::output::NewFile;

/// Name that stands for standard input.
pub(crate) const STDIN: &str = "-";

pub(crate) fn inspect(args: &InspectArgs) -> Result<Ending, Failure> {
    let name = args.trace.display().to_string();
    let device = args.dev.as_deref().map(str::parse::<Device>).transpose();
    let device = device.map_err(|error| Failure::named("--dev", error))?;
    let mut takers = Takers::new(args)?;
    let bar = Bar::new(&name);
    let mut opened = 0;
    let found = elevon_trace::analysis::inspect(
        &mut || {
            opened += 1;
            open(&args.trace, opened)
        },
        device,
        takers.is_wanted().then_some(&mut takers),
        &mut |events| bar.set(events),
    )
    .map_err(|error| failure(&name, error))?;
    drop(bar);
    if device.is_none() && found.report.devices.len() > 1 {
        let all: u64 = found.report.devices.iter().map(|&(_, events)| events).sum();
        let others = all.saturating_sub(found.events.iter().sum::<u64>());
        tell(&format!(
            "{name}: device {} is taken, which has all but {others} of {all} events; --dev chooses another",
            found.device
        ));
    }
    warn(&name, &found.report);
    let report = match args.output_format {
        TextOrJson::Normal => emit_text(&inspect::text(&found)),
        TextOrJson::Json => emit(&inspect::json(&found)),
    };
    all([takers.commit(&found), report])?;
    Ok(Ending::Done)
}

/// Analyses a trace for another command.
pub(crate) fn analysed(path: &Path, dev: Option<&str>) -> Result<Inspection, Failure> {
    let name = path.display().to_string();
    let device = dev.map(str::parse::<Device>).transpose().map_err(|error| Failure::named("--dev", error))?;
    let bar = Bar::new(&name);
    let mut opened = 0;
    let mut open = || {
        opened += 1;
        open(path, opened)
    };
    let found = elevon_trace::analysis::inspect(&mut open, device, None, &mut |events| bar.set(events));
    found.map_err(|error| failure(&name, error))
}

/// Output of the rows of `--requests`.
enum Rows {
    Csv(CsvRequests<BufWriter<NewFile>>),
    Parquet(Box<ParquetRequests<BufWriter<NewFile>>>),
}

/// Outputs that receive every request.
struct Takers<'a> {
    args: &'a InspectArgs,
    rows: Option<Rows>,
    page: Option<(NewFile, PageRequests)>,
    /// Why a file could not be restarted.
    failed: Option<Failure>,
}

impl<'a> Takers<'a> {
    fn new(args: &'a InspectArgs) -> Result<Self, Failure> {
        let mut takers = Self { args, rows: None, page: None, failed: None };
        takers.begin()?;
        Ok(takers)
    }

    fn begin(&mut self) -> Result<(), Failure> {
        // The partial files of the previous pass are removed.
        self.rows = None;
        self.page = None;
        if let Some(path) = &self.args.requests {
            let ending = path.extension().and_then(|ending| ending.to_str());
            if !matches!(ending, Some("csv" | "parquet")) {
                let expected = ValueError::expected("a name that ends with .csv or .parquet");
                return Err(Failure::named(format!("--requests {}", path.display()), expected));
            }
            let out = BufWriter::new(NewFile::create("--requests", path)?);
            self.rows = Some(if ending == Some("csv") {
                Rows::Csv(CsvRequests::new(out))
            } else {
                let fail = |error: std::io::Error| NewFile::failure("--requests", path, error);
                Rows::Parquet(Box::new(ParquetRequests::new(out).map_err(fail)?))
            });
        }
        if let Some(path) = &self.args.html {
            self.page = Some((NewFile::create("--html", path)?, PageRequests::default()));
        }
        Ok(())
    }

    const fn is_wanted(&self) -> bool {
        self.rows.is_some() || self.page.is_some()
    }

    /// Gives the files their final names.
    fn commit(self, found: &Inspection) -> Result<(), Failure> {
        if let Some(failure) = self.failed {
            return Err(failure);
        }
        if let Some((file, requests)) = self.page {
            file.commit(inspect::page(found, requests).as_bytes())?;
        }
        if let (Some(rows), Some(path)) = (self.rows, &self.args.requests) {
            let fail = |error: std::io::Error| NewFile::failure("--requests", path, error);
            let out = match rows {
                Rows::Csv(rows) => rows.finish(),
                Rows::Parquet(rows) => rows.finish(),
            };
            let out = out.map_err(fail)?;
            out.into_inner().map_err(|error| fail(error.into_error()))?.commit(&[])?;
        }
        Ok(())
    }
}

impl RequestSink for Takers<'_> {
    fn requests(&mut self, requests: &[RequestRecord], processes: &[ProcessStats]) {
        match &mut self.rows {
            Some(Rows::Csv(rows)) => rows.requests(requests, processes),
            Some(Rows::Parquet(rows)) => rows.requests(requests, processes),
            None => {}
        }
        if let Some((_, page)) = &mut self.page {
            page.requests(requests, processes);
        }
    }

    fn restart(&mut self) {
        self.failed = self.begin().err();
    }
}

/// Opens the trace. Standard input can only be opened once.
pub(crate) fn open(path: &Path, time: u32) -> Result<Reader, OpenError> {
    if path != Path::new(STDIN) {
        return elevon_trace::open(path);
    }
    if time > 1 {
        let source = std::io::Error::other(
            "most events are of another device than those at the beginning; choose one with --dev",
        );
        return Err(OpenError::Io { path: "stdin".into(), source });
    }
    elevon_trace::from_read("stdin", Box::new(std::io::stdin()) as Box<dyn Read + Send>)
}

pub(crate) fn failure(name: &str, error: InspectError) -> Failure {
    match error {
        // These errors name the file themselves.
        error @ InspectError::Open(_) => Failure::input(error),
        InspectError::Read(error) => MachineError::Read { trace: name.to_owned(), error }.into(),
        error @ (InspectError::Choose(_) | InspectError::NoSuchDevice { .. }) => Failure::named(name, error),
    }
}

/// Prints on stderr what could not be parsed in the trace, and what was assumed.
pub(crate) fn warn(name: &str, report: &elevon_trace::ReadReport) {
    for skipped in &report.skipped {
        let file = report.files.get(skipped.first.file as usize).map_or(name, String::as_str);
        let what = match skipped.first.at {
            Position::Line(_) => "line",
            Position::Byte(_) => "record",
        };
        let were = match skipped.count {
            1 => format!("this {what} was skipped"),
            count => format!("this {what} and {} more were skipped", count - 1),
        };
        tell(&format!("{file}: {}: expected {}; {were}", skipped.first.at, skipped.reason));
    }
    for note in &report.notes {
        tell(&format!("{name}: {note}"));
    }
}
