//! A trace that a command reads, and what is said of how it was read.

use std::io::Read;
use std::path::Path;

use elevon_plan::failure::{Failure, InputError, MachineError};
use elevon_plan::files::Files;
use elevon_plan::listener::Listener;
use elevon_plan::text_files::STDIN;
use elevon_trace::analysis::{InspectError, Inspection};
use elevon_trace::{DeviceNumber, OpenError, Position, Reader};

/// Where a trace is, and which device of it is wanted.
pub struct TraceInput<'a> {
    /// The trace as the user named it.
    pub name: String,
    /// What `--dev` says; without it the device with most events is taken.
    pub device: Option<DeviceNumber>,
    path: &'a Path,
    listener: &'a dyn Listener,
}

impl<'a> TraceInput<'a> {
    /// `dev` is the text of `--dev`: the numbers of a device, or a name that the trace has. For a
    /// name the trace is read until it is found.
    ///
    /// # Errors
    /// There is no device of that name, or the trace cannot be read to look for it.
    pub fn new(
        path: &'a Path,
        dev: Option<&str>,
        listener: &'a dyn Listener,
    ) -> Result<Self, Failure> {
        let mut trace = Self { name: path.display().to_string(), device: None, path, listener };
        trace.device = match dev.map(|dev| (dev, dev.parse::<DeviceNumber>())) {
            None => None,
            Some((_, Ok(device))) => Some(device),
            Some((name, Err(error))) if name.trim().is_empty() => {
                return Err(Failure::named("--dev", error));
            }
            Some((name, Err(_))) if path == Path::new(STDIN) => {
                return Err(Failure::named(format!("--dev {name}"), InputError::NameInStream));
            }
            Some((name, Err(_))) => {
                let reader = trace.open()?;
                Some(
                    elevon_trace::analysis::device_named(reader, name)
                        .map_err(|error| trace.failure(error))?,
                )
            }
        };
        Ok(trace)
    }

    /// Adds the trace to the files of the command, so that no output may be the same file.
    ///
    /// # Errors
    /// Another use of the same file excludes this one.
    pub fn add_to(&self, files: &mut Files) -> Result<(), Failure> {
        let path = if self.path == Path::new(STDIN) { Path::new("/dev/stdin") } else { self.path };
        files.add_input(&self.name, path)
    }

    /// Opens the trace to read it once.
    ///
    /// # Errors
    /// The trace cannot be opened.
    pub fn open(&self) -> Result<Reader, Failure> {
        open(self.path, 1).map_err(|error| self.failure(InspectError::Open(error)))
    }

    /// Reads the trace with a progress bar. `read` is given what opens the trace, the device, and
    /// what is told the number of events that were read.
    pub fn read<T>(
        &self,
        read: impl FnOnce(
            &mut dyn FnMut() -> Result<Reader, OpenError>,
            Option<DeviceNumber>,
            &mut dyn FnMut(u64),
        ) -> T,
    ) -> T {
        let bar = self.listener.begin(&self.name);
        let mut opened = 0;
        let mut open = || {
            opened += 1;
            open(self.path, opened)
        };
        read(&mut open, self.device, &mut |events| bar.set(events))
    }

    /// Analyses the trace.
    pub(crate) fn analysed(&self) -> Result<Inspection, Failure> {
        self.read(|open, device, progress| {
            elevon_trace::analysis::inspect(open, device, None, progress)
        })
        .map_err(|error| self.failure(error))
    }

    /// Returns an error about the trace with its name.
    pub fn failure(&self, error: InspectError) -> Failure {
        match error {
            // These errors name the file themselves.
            error @ InspectError::Open(_) => Failure::input(error),
            InspectError::Read(error) => {
                MachineError::Read { trace: self.name.clone(), error }.into()
            }
            InspectError::Select(error) => Failure::named(&self.name, error),
            error @ (InspectError::Unusable(_)
            | InspectError::Choose(_)
            | InspectError::NoSuchDevice { .. }
            | InspectError::NoSuchName { .. }) => Failure::named(&self.name, error),
        }
    }

    /// Tells what could not be parsed in the trace, and what was assumed.
    pub fn warn(&self, report: &elevon_trace::ReadReport) {
        for skipped in &report.skipped {
            let file = report.files.get(skipped.first.file as usize).unwrap_or(&self.name);
            let what = match skipped.first.at {
                Position::Line(_) => "line",
                Position::Byte(_) => "record",
            };
            let were = match skipped.count {
                1 => format!("this {what} was skipped"),
                count => format!("this {what} and {} more were skipped", count - 1),
            };
            self.listener.tell(&format!(
                "{file}: {}: expected {}; {were}",
                skipped.first.at, skipped.reason
            ));
        }
        for note in &report.notes {
            self.listener.tell(&format!("{}: {note}", self.name));
        }
    }
}

/// Opens the trace. Standard input can only be opened once.
fn open(path: &Path, time: u32) -> Result<Reader, OpenError> {
    if path != Path::new(STDIN) {
        return elevon_trace::open(path);
    }
    if time > 1 {
        let source = std::io::Error::other(
            "the trace must be read again, for the device that has most events or for the whole disk of a partition; \
             choose that device with --dev",
        );
        return Err(OpenError::Io { path: "stdin".into(), source });
    }
    elevon_trace::from_read("stdin", Box::new(std::io::stdin()) as Box<dyn Read + Send>)
}
