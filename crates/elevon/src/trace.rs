//! `--trace FILE`: writes the events of a run as a trace.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use elevon_core::event::Event;
use elevon_core::kernel::Kernel;
use elevon_core::stack::Stack;
use elevon_plan::device_description::number_of;
use elevon_plan::failure::{
    Failure, FileError, InputError, Irreplaceable, MachineError, ValueError,
};
use elevon_plan::files::Files;
use elevon_plan::output::{folder_of, hidden, replace, target_of, without_path};
use elevon_sim::device::Description;
use elevon_trace::Recorded;
use elevon_trace::run::{RunContext, RunTraceWriter, TaskName};
use elevon_trace::write::WriteFormat;
use elevon_trace::write::blktrace::BlktraceForm;
use elevon_workload::jobs::Roster;
use tempfile::TempDir;

use crate::args::{Blktrace, ReportArgs};

/// Parts of a blktrace that are checked against the command's other files before the number of CPUs
/// is known.
const PARTS_CHECKED: u32 = 256;

/// The place of a trace that is being written: a hidden folder beside its final place, so that a
/// trace appears whole or not at all.
pub(crate) struct TracePlace {
    /// Name for messages: the option with its path, or the path.
    name: String,
    path: PathBuf,
    /// Final place: the path, or the target of its symbolic link.
    target: PathBuf,
    folder: TempDir,
    format: WriteFormat,
}

impl TracePlace {
    /// Checks that the file can be written, and creates the hidden folder.
    pub(crate) fn new(
        name: String,
        path: &Path,
        format: WriteFormat,
        files: &mut Files,
    ) -> Result<Self, Failure> {
        if path.is_dir() {
            return Err(Failure::named(name, FileError::Directory));
        }
        let fail = |error| Failure::named(&name, FileError::CannotWrite(error));
        let path = path.to_owned();
        let mut target = path.clone();
        if format == WriteFormat::Blktrace {
            for cpu in 0..PARTS_CHECKED {
                files.add_output(&name, &part(&path, cpu))?;
            }
        } else {
            files.add_output(&name, &path)?;
            check_replaceable(&name, &path)?;
            target = target_of(&path).map_err(fail)?;
        }
        let folder = tempfile::Builder::new()
            .prefix(&hidden(&target))
            .suffix(".part")
            .tempdir_in(folder_of(&target));
        Ok(Self { folder: folder.map_err(without_path).map_err(fail)?, name, path, target, format })
    }

    /// Checks that the parts of a blktrace of so many CPUs can be written.
    pub(crate) fn check_parts(&self, cpus: u32) -> Result<(), Failure> {
        if self.format != WriteFormat::Blktrace {
            return Ok(());
        }
        (0..cpus).try_for_each(|cpu| check_replaceable(&self.name, &part(&self.path, cpu)))
    }

    /// Returns the path at which the trace is written.
    pub(crate) fn hidden(&self) -> PathBuf {
        self.folder.path().join(self.path.file_name().unwrap_or_default())
    }

    /// Returns the failure for an error while writing.
    pub(crate) fn failure(&self, error: io::Error) -> Failure {
        MachineError::Write { output: self.name.clone(), error }.into()
    }

    /// Moves the finished trace to its final place.
    pub(crate) fn commit(self) -> Result<(), Failure> {
        self.move_into_place().map_err(|error| self.failure(error))
    }

    /// Moves the files to their final place. blktrace has one file per CPU; files of an earlier
    /// trace with more CPUs are removed, because `blkparse` would read them as part of this trace.
    fn move_into_place(&self) -> io::Result<()> {
        if self.format != WriteFormat::Blktrace {
            return replace(&self.hidden(), &self.target);
        }
        let mut files = 0;
        for entry in fs::read_dir(self.folder.path())? {
            let entry = entry?;
            replace(&entry.path(), &target_of(&self.path.with_file_name(entry.file_name()))?)?;
            files += 1;
        }
        for stale in (files..).map(|cpu| part(&self.path, cpu)).take_while(|file| file.is_file()) {
            fs::remove_file(stale)?;
        }
        Ok(())
    }
}

/// The trace of a run that is being written.
pub(crate) struct TraceFile {
    place: TracePlace,
    /// Form of the records of a blktrace.
    form: BlktraceForm,
    /// The command line that repeats the run.
    command: String,
    writer: Option<RunTraceWriter>,
    error: Option<io::Error>,
}

impl TraceFile {
    /// Checks before the run that the extension is known and that the file can be written.
    pub(crate) fn new(
        path: &Path,
        form: BlktraceForm,
        command: &str,
        files: &mut Files,
    ) -> Result<Self, Failure> {
        let format = WriteFormat::from_path(path)
            .map_err(|error| Failure::input(InputError::TraceFile(error)))?;
        let place = TracePlace::new(format!("--trace {}", path.display()), path, format, files)?;
        Ok(Self { place, form, command: command.to_owned(), writer: None, error: None })
    }

    /// Starts the trace before the run and writes its header.
    pub(crate) fn start(
        &mut self,
        device: &Description,
        stack: &Stack,
        jobs: &Roster<'_>,
    ) -> Result<(), Failure> {
        let cpus = stack.config().cpus;
        self.place.check_parts(u32::from(cpus))?;
        // The flushers of a page cache are the tasks after the jobs, and the task that submits what
        // limits held follows them.
        let flushers = (0..=jobs.tenants.len()).map(|_| TaskName::new("kworker/flush", 100));
        let name = |member: &elevon_workload::jobs::Member| {
            TaskName::new(&jobs.specs[member.spec].name, member.number)
        };
        let context = RunContext {
            device: number_of(&device.name),
            tasks: jobs
                .members
                .iter()
                .map(name)
                .chain(flushers)
                .chain([TaskName::new("kworker/throtl", 101)])
                .collect(),
            cpus,
            rules: stack.config().kernel.rules(),
            recorded: recorded(&self.command, device, stack),
            blktrace: self.form,
        };
        self.writer = Some(
            RunTraceWriter::create(&self.place.hidden(), &context).map_err(MachineError::from)?,
        );
        Ok(())
    }

    /// Appends events. After an error nothing more is written.
    pub(crate) fn write(&mut self, events: &[Event]) {
        if let (Some(writer), None) = (&mut self.writer, &self.error) {
            self.error = writer.write(events).err();
        }
    }

    /// Finishes the trace and moves it to its place.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let written = self.error.take().map_or(Ok(()), Err);
        let written =
            written.and_then(|()| self.writer.take().map_or(Ok(()), RunTraceWriter::finish));
        written.map_err(|error| self.place.failure(error))?;
        self.place.commit()
    }
}

/// Returns the form of a blktrace's records: version 7, unless another one is asked for.
pub(crate) fn blktrace_form(args: &ReportArgs, kernel: Kernel) -> Result<BlktraceForm, Failure> {
    let Some(form) = args.blktrace else { return Ok(BlktraceForm::default()) };
    let refused = |expected: &'static str| {
        let name =
            form.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        Failure::named(format!("--blktrace {name}"), ValueError::expected(expected))
    };
    if !args
        .trace
        .as_deref()
        .is_some_and(|path| WriteFormat::from_path(path).is_ok_and(|f| f == WriteFormat::Blktrace))
    {
        return Err(refused("a --trace whose name ends in .blktrace"));
    }
    match form {
        Blktrace::Version7 => Ok(BlktraceForm::Version7),
        Blktrace::Version8 if kernel.rules().blktrace_version_8 => Ok(BlktraceForm::Version8),
        Blktrace::Version8 => Err(refused("--kernel 6.19 or later, the first to record version 8")),
        Blktrace::Btt => Ok(BlktraceForm::Btt),
    }
}

/// Returns the name of a CPU's file of a blktrace.
fn part(path: &Path, cpu: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{cpu}"));
    PathBuf::from(name)
}

/// Refuses a place to which no finished trace can be moved: only a regular file is replaced.
fn check_replaceable(name: &str, path: &Path) -> Result<(), Failure> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(()) };
    let cannot =
        |why| Failure::named(name, FileError::CannotReplace { path: path.to_owned(), why });
    let kind = metadata.file_type();
    let why = match kind {
        _ if kind.is_file() => {
            let opened = fs::File::options().write(true).open(path);
            return opened.map(drop).map_err(|error| cannot(Irreplaceable::Io(error)));
        }
        _ if kind.is_dir() => Irreplaceable::Directory,
        _ if kind.is_block_device() => Irreplaceable::BlockDevice,
        _ => Irreplaceable::Irregular,
    };
    Err(cannot(why))
}

/// Returns how a run is recorded: with the names that `elevon capture` gives to the same settings
/// of a real device.
fn recorded(command: &str, device: &Description, stack: &Stack) -> Recorded {
    let config = stack.config();
    let (major, minor) = number_of(&device.name);
    let mut notes = Recorded::of_run();
    notes.note("version", env!("CARGO_PKG_VERSION"));
    notes.note("command", command);
    notes.note("kernel", config.kernel.name());
    notes.note("device", &format!("{major}:{minor}"));
    notes.note("sectors", &device.size.get().to_string());
    notes.note("queue/scheduler", &format!("[{}]", config.scheduler.name));
    for (key, value) in stack.scheduler().tunables_shown(&config.rules()) {
        notes.note(&format!("queue/iosched/{key}"), &value);
    }
    for (key, value) in config.attributes().into_iter().filter(|(key, _)| *key != "scheduler") {
        notes.note(&format!("queue/{key}"), &value);
    }
    for queue in 0..device.hw_queues {
        notes.note(&format!("mq/{queue}/nr_tags"), &config.queue_depth.to_string());
    }
    notes
}
