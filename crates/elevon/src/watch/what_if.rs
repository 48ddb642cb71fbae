//! What if: the last minutes of a disk are replayed under other settings, beside the screen.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use elevon_trace::DeviceNumber;

use super::source::Source;

/// A search that runs, or the file that it could not have.
pub(super) struct WhatIf {
    child: Child,
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
        let child = Command::new(std::env::current_exe()?)
            .arg("advise")
            .arg(&trace)
            .args(["--dev", &device.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self { child, _folder: folder, disk: disk.to_owned(), seconds })
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
        let mut text = String::new();
        if let Some(mut out) = self.child.stdout.take() {
            let _ = out.read_to_string(&mut text);
        }
        if text.is_empty()
            && let Some(mut err) = self.child.stderr.take()
        {
            let _ = err.read_to_string(&mut text);
        }
        let mut lines = vec![format!("{}: the last {:.0} s", self.disk, self.seconds)];
        lines.extend(text.lines().map(str::to_owned));
        Some(lines)
    }
}

impl Drop for WhatIf {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
