//! `--trace FILE`: events of a run, written beside the final name as it goes on and renamed when it
//! is over.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use elevon_core::event::Event;
use elevon_core::kernel::Kernel;
use elevon_sim::device::Description;
use elevon_trace::run::{self, RunContext, RunTraceWriter, TaskName};
use elevon_trace::write::WriteFormat;
use elevon_workload::jobs::Roster;
use tempfile::TempDir;

use crate::failure::Failure;
use crate::files::Files;
use crate::output::{folder_of, hidden, inherit, target_of};

/// Parts of a blktrace that are looked for among the other files of the command, before the number
/// of CPUs is known.
const PARTS_CHECKED: u32 = 256;

/// A trace being written: a hidden folder beside the final place holds it until it is whole.
pub(crate) struct TraceFile {
    /// As it was named.
    name: String,
    path: PathBuf,
    /// Where it will be: the path, or where its symbolic link points to.
    target: PathBuf,
    folder: TempDir,
    kernel: Kernel,
    writer: Option<RunTraceWriter>,
    error: Option<io::Error>,
}

impl TraceFile {
    /// Checks the extension and that something can be written there, before anything runs.
    pub(crate) fn new(path: &Path, kernel: Kernel, files: &mut Files) -> Result<Self, Failure> {
        let format = run::format_of(path).map_err(|error| Failure::input(format!("--trace {error}")))?;
        let name = format!("--trace {}", path.display());
        if path.is_dir() {
            return Err(Failure::input(format!("{name}: is a directory; name a file")));
        }
        let fail = |error| Failure::input(format!("{name}: cannot write there: {error}"));
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
        let folder = tempfile::Builder::new().prefix(&hidden(&target)).suffix(".part").tempdir_in(folder_of(&target));
        Ok(Self { folder: folder.map_err(fail)?, name, path, target, kernel, writer: None, error: None })
    }

    /// The run is about to start: the file gets its head.
    pub(crate) fn start(&mut self, device: &Description, cpus: u16, jobs: &Roster<'_>) -> Result<(), Failure> {
        if self.is_in_parts() {
            (0..u32::from(cpus)).try_for_each(|cpu| check_replaceable(&self.name, &part(&self.path, cpu)))?;
        }
        let name = |member: &elevon_workload::jobs::Member| TaskName::new(&jobs.specs[member.spec].name, member.number);
        let context = RunContext {
            device: number_of(&device.name),
            // Behind the jobs comes the flusher of a page cache.
            tasks: jobs.members.iter().map(name).chain([TaskName::new("kworker/flush", 100)]).collect(),
            cpus,
            ioprio_in_events: self.kernel.rules().ioprio_in_events,
        };
        let part = self.folder.path().join(self.path.file_name().unwrap_or_default());
        self.writer =
            Some(RunTraceWriter::create(&part, &context).map_err(|error| Failure::Machine(error.to_string()))?);
        Ok(())
    }

    /// Appends events; after an error nothing more.
    pub(crate) fn write(&mut self, events: &[Event]) {
        if let (Some(writer), None) = (&mut self.writer, &self.error) {
            self.error = writer.write(events).err();
        }
    }

    /// Ends the trace and moves it to its place.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let written = self.error.take().map_or(Ok(()), Err);
        let written = written.and_then(|()| self.writer.take().map_or(Ok(()), RunTraceWriter::finish));
        written
            .and_then(|()| self.move_into_place())
            .map_err(|error| Failure::Machine(format!("{}: cannot write: {error}", self.name)))
    }

    /// Whether it is one file a CPU.
    fn is_in_parts(&self) -> bool {
        run::format_of(&self.path).is_ok_and(|format| format == WriteFormat::Blktrace)
    }

    /// Moves its files beside the path. blktrace's are one a CPU: those of an earlier trace that
    /// had more CPUs go away, or `blkparse` would read them as part of this one.
    fn move_into_place(&self) -> io::Result<()> {
        if !self.is_in_parts() {
            return replace(&self.folder.path().join(self.path.file_name().unwrap_or_default()), &self.target);
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

/// Gives a finished file its place, with the mode of what it replaces.
fn replace(from: &Path, target: &Path) -> io::Result<()> {
    if let Ok(old) = fs::metadata(target) {
        inherit(from, &old)?;
    }
    fs::rename(from, target)
}

/// A CPU's file of a blktrace.
fn part(path: &Path, cpu: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{cpu}"));
    PathBuf::from(name)
}

/// Refuses a place where no finished trace could be moved to: only a regular file is replaced.
fn check_replaceable(name: &str, path: &Path) -> Result<(), Failure> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(()) };
    let kind = metadata.file_type();
    let what = match kind {
        _ if kind.is_file() => {
            let opened = fs::File::options().write(true).open(path);
            return opened.map(drop).map_err(|error| cannot(name, path, &error.to_string()));
        }
        _ if kind.is_dir() => "is a directory",
        _ if kind.is_block_device() => "is a block device",
        _ => "is no regular file",
    };
    Err(cannot(name, path, what))
}

fn cannot(name: &str, path: &Path, why: &str) -> Failure {
    Failure::input(format!("{name}: cannot write {}: {why}", path.display()))
}

/// Device numbers as Linux gives them: blkext for NVMe, 8:0 for the first disk of the SCSI layer.
pub(crate) fn number_of(device: &str) -> (u32, u32) {
    if device.rsplit('/').next().is_some_and(|name| name.starts_with("nvme")) { (259, 0) } else { (8, 0) }
}
