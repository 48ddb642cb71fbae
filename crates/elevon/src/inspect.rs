//! `elevon inspect`: what a trace says of a device.

use std::io::Read;
use std::path::Path;

use elevon_report::inspect;
use elevon_trace::analysis::{InspectError, RequestSink};
use elevon_trace::{Device, OpenError, Reader};

use crate::args::{InspectArgs, InspectFormat};
use crate::bar::Bar;
use crate::failure::{Failure, Outcome, emit, emit_text, tell};

/// The name of the standard input.
const STDIN: &str = "-";

pub(crate) fn inspect(args: &InspectArgs) -> Result<Outcome, Failure> {
    let name = args.trace.display().to_string();
    let device = args.dev.as_deref().map(str::parse::<Device>).transpose();
    let device = device.map_err(|error| Failure::input(format!("--dev: {error}")))?;
    let bar = Bar::new(&name);
    let mut opened = 0;
    let (found, _sink) = elevon_trace::analysis::inspect(
        &mut || {
            opened += 1;
            open(&args.trace, opened)
        },
        device,
        &mut || None::<Box<dyn RequestSink>>,
        &mut |events| bar.set(events),
    )
    .map_err(|error| failure(&name, error))?;
    drop(bar);
    if device.is_none() && found.report.devices.len() > 1 {
        let all: u64 = found.report.devices.iter().map(|&(_, events)| events).sum();
        let others = all - found.events.iter().sum::<u64>();
        tell(&format!(
            "{name}: device {} is taken, which has all but {others} of {all} events; --dev chooses another",
            found.device
        ));
    }
    warn(&name, &found.report);
    match args.output_format {
        InspectFormat::Normal => emit_text(&inspect::text(&found))?,
        InspectFormat::Json => emit(&inspect::json(&found))?,
    }
    Ok(Outcome::Done)
}

/// Opens the trace; the standard input once only.
fn open(path: &Path, time: u32) -> Result<Reader, OpenError> {
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

fn failure(name: &str, error: InspectError) -> Failure {
    match error {
        // These name the file themselves.
        InspectError::Open(error) => Failure::input(error.to_string()),
        InspectError::Read(error) => Failure::Machine(format!("{name}: cannot be read to its end: {error}")),
        error @ (InspectError::Choose(_) | InspectError::NoSuchDevice { .. }) => {
            Failure::input(format!("{name}: {error}"))
        }
    }
}

/// Says on stderr what of the trace was not understood.
fn warn(name: &str, report: &elevon_trace::ReadReport) {
    for skipped in &report.skipped {
        let file = report.files.get(skipped.first.file as usize).map_or(name, String::as_str);
        tell(&format!(
            "{file}: {}: expected {}; {} such lines or records were skipped",
            skipped.first.at, skipped.reason, skipped.count
        ));
    }
}
