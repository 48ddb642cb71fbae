//! `--trace FILE`: events of a run, written beside the final name as it goes on and renamed when it is over.

use std::io;
use std::path::{Path, PathBuf};

use elevon_core::event::Event;
use elevon_core::kernel::Kernel;
use elevon_formats::trace::{Context, TaskName, TraceFormat, TraceWriter};
use elevon_sim::device::Description;
use elevon_workload::jobs::Jobs;

use crate::failure::Failure;
use crate::output::beside;

/// A trace being written: a folder beside the final place holds it until it is whole.
pub(crate) struct TraceFile {
    path: PathBuf,
    folder: Scratch,
    kernel: Kernel,
    writer: Option<TraceWriter>,
    error: Option<io::Error>,
}

impl TraceFile {
    /// Checks the extension and that something can be written there, before anything runs.
    pub(crate) fn new(path: &Path, kernel: Kernel) -> Result<Self, Failure> {
        TraceFormat::from_path(path).map_err(|error| Failure::input(format!("--trace {error}")))?;
        if path.is_dir() {
            return Err(Failure::input(format!("--trace {}: is a directory; name a file", path.display())));
        }
        let folder = Scratch::beside(path)
            .map_err(|error| Failure::input(format!("--trace {}: cannot write there: {error}", path.display())))?;
        Ok(Self { path: path.to_owned(), folder, kernel, writer: None, error: None })
    }

    /// The run is about to start: the file gets its head.
    pub(crate) fn start(&mut self, device: &Description, cpus: u16, jobs: &Jobs) -> Result<(), Failure> {
        let name =
            |member: &elevon_workload::jobs::Member| TaskName::new(&jobs.specs()[member.spec].name, member.number);
        let context = Context {
            device: number_of(&device.name),
            // Behind the jobs comes the flusher of a page cache.
            tasks: jobs.members().iter().map(name).chain([TaskName::new("kworker/flush", 100)]).collect(),
            cpus,
            ioprio_in_events: self.kernel.rules().ioprio_in_events,
        };
        let part = self.folder.0.join(self.path.file_name().unwrap_or_default());
        self.writer = Some(TraceWriter::create(&part, context).map_err(|error| Failure::Machine(error.to_string()))?);
        Ok(())
    }

    /// Appends events; after an error nothing more.
    pub(crate) fn write(&mut self, events: &[Event]) {
        if let (Some(writer), None) = (&mut self.writer, &self.error) {
            self.error = writer.write(events).err();
        }
    }

    /// Ends the trace and moves it to its place.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let Self { path, folder, writer, error, .. } = self;
        let written = error.map_or(Ok(()), Err).and_then(|()| writer.map_or(Ok(()), TraceWriter::finish));
        written
            .and_then(|()| folder.move_into_place(&path))
            .map_err(|error| Failure::Machine(format!("--trace {}: cannot write: {error}", path.display())))
    }
}

/// Device numbers as Linux gives them: blkext for NVMe, 8:0 for the first disk of the SCSI layer.
pub(crate) fn number_of(device: &str) -> (u32, u32) {
    if device.rsplit('/').next().is_some_and(|name| name.starts_with("nvme")) { (259, 0) } else { (8, 0) }
}

/// A folder that goes away with its content when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn beside(path: &Path) -> io::Result<Self> {
        let folder = beside(path);
        std::fs::create_dir(&folder).map(|()| Self(folder))
    }

    /// Moves its files beside `path`. blktrace's are one a CPU: those of an earlier trace that had more CPUs go away, or
    /// `blkparse` would read them as part of this one.
    fn move_into_place(self, path: &Path) -> io::Result<()> {
        let mut files = 0;
        for entry in std::fs::read_dir(&self.0)? {
            let entry = entry?;
            std::fs::rename(entry.path(), path.with_file_name(entry.file_name()))?;
            files += 1;
        }
        if TraceFormat::from_path(path).is_ok_and(|format| format == TraceFormat::Blktrace) {
            let of_cpu = |cpu: u32| {
                let mut name = path.as_os_str().to_owned();
                name.push(format!(".{cpu}"));
                PathBuf::from(name)
            };
            for stale in (files..).map(of_cpu).take_while(|file| file.is_file()) {
                std::fs::remove_file(stale)?;
            }
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nobody can be told any more; what is left is named after this process and says what it is.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
