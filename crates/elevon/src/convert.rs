//! `elevon convert`: the events of a trace, taken in another format.

use std::io;

use elevon_plan::failure::{Ending, Failure, InputError, MachineError};
use elevon_plan::files::Files;
use elevon_plan::listener::Steps;
use elevon_result::number::counted;
use elevon_trace::write::{self, WriteFormat, WriteOptions};
use elevon_trace::{Reader, TraceEvent};
use elevon_whatif::trace_input::TraceInput;

use crate::args::ConvertArgs;
use crate::bar::{Bar, Terminal};
use crate::terminal::{emit_text, tell};
use crate::trace::TracePlace;

/// Resolution in nanoseconds from which on ftrace's text needs no more than the kernel's
/// microseconds.
const MICROSECOND: u64 = 1000;

pub(crate) fn convert(args: &ConvertArgs) -> Result<Ending, Failure> {
    let trace = TraceInput::new(&args.trace, args.dev.as_deref(), &Terminal)?;
    let TraceInput { name, device, .. } = &trace;
    let format = WriteFormat::from_path(&args.out)
        .map_err(|error| Failure::input(InputError::ConvertTo(error)))?;
    let mut files = Files::default();
    trace.add_to(&mut files)?;
    let mut reader = trace.open()?;
    reader.set_device(*device);
    let place = TracePlace::new(args.out.display().to_string(), &args.out, format, &mut files)?;
    place.check_parts(1)?;
    let taken = write_all(&mut reader, name, &place)?;
    reader.report().check().map_err(|error| trace.failure(error.into()))?;
    trace.warn(reader.report());
    let devices = &reader.report().devices;
    if let Some(device) = device.filter(|device| devices.iter().all(|(found, _)| found != device)) {
        let found: Vec<String> = devices.iter().map(|(found, _)| found.to_string()).collect();
        return Err(Failure::named(
            name,
            InputError::NoEventOf { device, found: found.join(", ") },
        ));
    }
    place.commit()?;
    if reader.report().gap_count > 0 && !format.has_gaps() {
        tell(&format!("{name}: events were lost in it, which {} cannot say", args.out.display()));
    }
    emit_text(&format!("{}: made of {} of {name}\n", args.out.display(), counted(taken, "event")))?;
    Ok(Ending::Done)
}

/// Writes the events of a trace, and returns how many there are. A format that has no place for
/// some kinds of events has fewer.
fn write_all(reader: &mut Reader, name: &str, place: &TracePlace) -> Result<u64, Failure> {
    let bar = Bar::new(name);
    let unread = |error| MachineError::Read { trace: name.to_owned(), error };
    let first =
        reader.next_batch().map_err(unread)?.map(<[TraceEvent]>::to_vec).unwrap_or_default();
    // A trace of many CPUs is as many files of blktrace. If there are no more descriptors, creating
    // one of the files says so.
    let _ = elevon_host::raise_descriptor_limit();
    let mut writer = write::create(&place.hidden(), options(reader)).map_err(MachineError::from)?;
    let fail = |error: io::Error| place.failure(error);
    if let (Some(recorded), Some(event)) = (reader.report().recorded.clone(), first.first()) {
        writer.recorded(&recorded, event).map_err(fail)?;
    }
    let (mut batch, mut taken) = (first, 0);
    while !batch.is_empty() {
        batch.iter().try_for_each(|event| writer.event(event, reader.names())).map_err(fail)?;
        taken += batch.len() as u64;
        bar.set(taken);
        batch.clear();
        if let Some(events) = reader.next_batch().map_err(unread)? {
            batch.extend_from_slice(events);
        }
    }
    writer.end().map_err(fail)?;
    Ok(taken)
}

/// Returns what a writer needs to know of the trace. Later events may have what the first have not,
/// so ftrace's text has the column of processes if the format has processes.
fn options(reader: &Reader) -> WriteOptions {
    WriteOptions {
        has_processes: reader.format().has_processes(),
        is_in_nanoseconds: reader.report().resolution_ns.is_none_or(|ns| ns < MICROSECOND),
        ..WriteOptions::default()
    }
}
