//! A folder in place of tracefs.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::super::instance::Folders;
use super::super::{CaptureOptions, Recorder, Session, Tracefs};
use crate::event::DeviceNumber;
use crate::testing::data;

/// CPUs of the machine.
pub(super) const CPUS: u32 = 2;

/// A folder with what tracefs of a real kernel holds.
pub(super) struct Fake {
    pub(super) folder: tempfile::TempDir,
    /// What became of instances.
    log: Arc<Mutex<Vec<String>>>,
}

/// Fills the folder of an instance as a kernel does.
pub(super) struct FakeKernel {
    pub(super) log: Arc<Mutex<Vec<String>>>,
    /// A file that is missing in new instances.
    pub(super) without: Option<&'static str>,
}

impl Folders for FakeKernel {
    fn make(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)?;
        let events =
            path.parent().and_then(Path::parent).expect("below tracefs").join("events/block");
        let mut files = vec![
            ("tracing_on".to_owned(), "1\n"),
            (
                "trace_clock".to_owned(),
                "[local] global counter uptime perf mono mono_raw boot tai\n",
            ),
            ("buffer_size_kb".to_owned(), "7\n"),
            ("options/record-tgid".to_owned(), "0\n"),
        ];
        for cpu in 0..CPUS {
            files.push((format!("per_cpu/cpu{cpu}/trace_pipe_raw"), ""));
            files.push((
                format!("per_cpu/cpu{cpu}/stats"),
                "entries: 0\noverrun: 0\ncommit overrun: 0\nbytes: 0\n",
            ));
        }
        for event in fs::read_dir(events)?.flatten() {
            let name = event.file_name().to_string_lossy().into_owned();
            files.push((format!("events/block/{name}/enable"), "0\n"));
            files.push((format!("events/block/{name}/filter"), "none\n"));
        }
        for (name, text) in
            files.into_iter().filter(|(name, _)| Some(name.as_str()) != self.without)
        {
            let file = path.join(name);
            fs::create_dir_all(file.parent().expect("a folder"))?;
            fs::write(file, text)?;
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let on = fs::read_to_string(path.join("tracing_on")).unwrap_or_default();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        self.log
            .lock()
            .expect("one thread")
            .push(format!("removed {name}, tracing_on={}", on.trim()));
        fs::remove_dir_all(path)
    }
}

impl Fake {
    pub(super) fn new(version: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        copy(&data(&format!("capture/{version}")), folder.path());
        fs::create_dir(folder.path().join("instances")).expect("a folder");
        Self { folder, log: Arc::default() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn tracefs(&self) -> Tracefs {
        Tracefs::at(self.folder.path().to_owned())
    }

    pub(super) fn options(&self) -> CaptureOptions {
        CaptureOptions { devices: vec![DeviceNumber::new(253, 0)], buffer_kb: 1024 }
    }

    pub(super) fn kernel(&self) -> Box<FakeKernel> {
        Box::new(FakeKernel { log: Arc::clone(&self.log), without: None })
    }

    pub(super) fn session(&self) -> Session {
        Session::with(self.tracefs(), &self.options(), self.kernel(), &|_| true).expect("a session")
    }

    pub(super) fn recorder(&self) -> Recorder {
        let recorder = Recorder::new(self.session(), self.folder.path()).expect("a recorder");
        recorder.session().begin().expect("begun");
        recorder
    }

    /// The path of a file of our instance.
    pub(super) fn instance(&self, name: &str) -> PathBuf {
        self.path(&format!("instances/elevon-capture-{}/{name}", std::process::id()))
    }

    pub(super) fn setting(&self, name: &str) -> String {
        fs::read_to_string(self.instance(name)).expect("a setting")
    }

    /// The pages that a CPU of the real kernel handed out.
    pub(super) fn pages(&self, cpu: u32) -> Vec<u8> {
        zstd::decode_all(&fs::read(self.path(&format!("cpu{cpu}.raw.zst"))).expect("pages")[..])
            .expect("zstd")
    }

    /// The CPU records pages.
    pub(super) fn append(&self, cpu: u32, pages: &[u8]) {
        let pipe = self.instance(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        let mut pipe = fs::File::options().append(true).open(pipe).expect("a pipe");
        pipe.write_all(pages).expect("written");
    }

    pub(super) fn log(&self) -> Vec<String> {
        self.log.lock().expect("one thread").clone()
    }

    pub(super) fn left(&self) -> usize {
        fs::read_dir(self.path("instances")).expect("a folder").count()
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir(&to).expect("a folder");
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("copied");
        }
    }
}
