//! `elevon inspect`: analyses a trace.

use std::io::BufWriter;

use elevon_plan::failure::{Ending, Failure, ValueError};
use elevon_plan::files::Files;
use elevon_plan::output::NewFile;
use elevon_report::inspect::{self, PageRequests};
use elevon_trace::analysis::{
    Inspection, ProcessStats, RequestRecord, RequestSink, RequestWriter, inspect_part,
};
use elevon_whatif::select;
use elevon_whatif::trace_input::TraceInput;

use crate::args::{InspectArgs, TextOrJson};
use crate::bar::Terminal;
use crate::terminal::{all, emit, emit_text, tell};

pub(crate) fn inspect(args: &InspectArgs) -> Result<Ending, Failure> {
    let trace = TraceInput::new(&args.trace, args.dev.as_deref(), &Terminal)?;
    let selection = select::selection(&args.select.options())?;
    check_files(args, &trace)?;
    let mut takers = Takers::new(args)?;
    let sink = takers.is_wanted().then_some(&mut takers as &mut dyn RequestSink);
    let found =
        trace.read(|open, device, progress| inspect_part(open, device, &selection, sink, progress));
    let found = found.map_err(|error| trace.failure(error))?;
    if trace.device.is_none() && found.report.devices.len() > 1 {
        let all: u64 = found.report.devices.iter().map(|&(_, events)| events).sum();
        let own = found
            .report
            .devices
            .iter()
            .find(|(device, _)| *device == found.device)
            .map_or(0, |&(_, events)| events);
        let others = all.saturating_sub(own);
        tell(&format!(
            "{}: device {} is taken, which has all but {others} of {all} events; --dev chooses another",
            trace.name, found.device
        ));
    }
    trace.warn(&found.report);
    let report = match args.output_format {
        TextOrJson::Normal => emit_text(&inspect::text(&found)),
        TextOrJson::Json => emit(&inspect::json(&found)),
    };
    all([takers.commit(&found), report])?;
    Ok(Ending::Done)
}

/// Refuses outputs that are the trace, or each other.
fn check_files(args: &InspectArgs, trace: &TraceInput<'_>) -> Result<(), Failure> {
    let mut files = Files::default();
    trace.add_to(&mut files)?;
    files.add_stdout()?;
    for (option, path) in [("--requests", &args.requests), ("--html", &args.html)] {
        if let Some(path) = path {
            files.add_output(format!("{option} {}", path.display()), path)?;
        }
    }
    Ok(())
}

/// Outputs that receive every request.
struct Takers<'a> {
    args: &'a InspectArgs,
    /// The rows of `--requests`.
    rows: Option<RequestWriter<BufWriter<NewFile>>>,
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
            let (is_known, endings) = match cfg!(feature = "parquet") {
                true => (matches!(ending, Some("csv" | "parquet")), ".csv or .parquet"),
                false => {
                    (ending == Some("csv"), ".csv (.parquet takes a build with `--features full`)")
                }
            };
            if !is_known {
                let expected = ValueError::expected(format!("a name that ends with {endings}"));
                return Err(Failure::named(format!("--requests {}", path.display()), expected));
            }
            let out = BufWriter::new(NewFile::create("--requests", path)?);
            let rows = match ending {
                #[cfg(feature = "parquet")]
                Some("parquet") => RequestWriter::parquet(out),
                _ => RequestWriter::csv(out),
            };
            self.rows = Some(rows.map_err(|error| NewFile::failure("--requests", path, error))?);
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
            let out = rows.finish().map_err(fail)?;
            out.into_inner().map_err(|error| fail(error.into_error()))?.commit(&[])?;
        }
        Ok(())
    }
}

impl RequestSink for Takers<'_> {
    fn requests(&mut self, requests: &[RequestRecord], processes: &[ProcessStats]) {
        if let Some(rows) = &mut self.rows {
            rows.requests(requests, processes);
        }
        if let Some((_, page)) = &mut self.page {
            page.requests(requests, processes);
        }
    }

    fn restart(&mut self) {
        self.failed = self.begin().err();
    }
}
