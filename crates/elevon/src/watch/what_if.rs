//! What if: the last minutes of a disk are replayed under other settings, beside the screen.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use elevon_trace::DeviceNumber;

use super::source::Source;

/// A search that runs, or the file that it could not have.
pub(super) struct WhatIf {
    child: Child,
    /// What it prints, read as it comes: a pipe holds little.
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
    // The trace, which goes with its folder.
    _folder: tempfile::TempDir,
    disk: String,
    seconds: f64,
}

impl WhatIf {
    /// Begins to search for settings that would have served a disk better: `elevon advise` on a
    /// trace of its last minutes.
    ///
    /// # Errors
    /// A file that cannot be written, or a process that cannot be started.
    pub(super) fn begin(
        source: &Source,
        disk: &str,
        device: DeviceNumber,
    ) -> std::io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let trace = folder.path().join("last.ftrace");
        let seconds = source.save(device, &trace)?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg("advise")
            .arg(&trace)
            .args(["--dev", &device.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().map(read);
        let err = child.stderr.take().map(read);
        Ok(Self { child, out, err, _folder: folder, disk: disk.to_owned(), seconds })
    }

    /// Returns what it says until now.
    pub(super) fn words(&self) -> String {
        format!(
            "{}: the last {:.0} s are fitted and replayed under other settings ...",
            self.disk, self.seconds
        )
    }

    /// Returns the answer in lines, if the search has ended.
    pub(super) fn answer(&mut self) -> Option<Vec<String>> {
        self.child.try_wait().ok().flatten()?;
        let text_of = |thread: &mut Option<JoinHandle<String>>| {
            thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
        };
        let mut text = text_of(&mut self.out);
        let failed = text_of(&mut self.err);
        if text.is_empty() {
            text = failed;
        }
        let mut lines = vec![format!("{}: the last {:.0} s", self.disk, self.seconds)];
        lines.extend(text.lines().map(str::to_owned));
        Some(lines)
    }
}

/// Reads everything that comes from a pipe, beside the screen.
fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Drop for WhatIf {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
