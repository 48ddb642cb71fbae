//! What if: the last minutes of a disk are replayed under other settings, beside the screen.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

use elevon_trace::DeviceNumber;

use super::source::Source;

/// The title of what it says.
pub(super) const TITLE: &str = "what if";

/// A search that runs, or the file that it could not have.
pub(super) struct WhatIf {
    child: Child,
    /// What it prints, read as it comes: a pipe holds little.
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
    // The trace, which goes with its folder.
    _folder: tempfile::TempDir,
    trace: PathBuf,
    disk: String,
    seconds: f64,
    begun: Instant,
}

impl WhatIf {
    /// Begins to search for settings that would have served a disk better: `elevon advise` on a
    /// trace of its last minutes.
    ///
    /// # Errors
    /// Words for the user: there is nothing to replay, a file cannot be written, or a process not
    /// be started.
    pub(super) fn begin(source: &Source, disk: &str, device: DeviceNumber) -> Result<Self, String> {
        if !source.has_events(device) {
            return Err(format!("{disk} had no I/O in the last minutes: nothing can be replayed"));
        }
        let cannot = |error: std::io::Error| format!("cannot search: {error}");
        let folder = tempfile::tempdir().map_err(cannot)?;
        let trace = folder.path().join("last.ftrace");
        let seconds = source.save(device, &trace).map_err(cannot)?;
        let mut child = Command::new(std::env::current_exe().map_err(cannot)?)
            .arg("advise")
            .arg(&trace)
            .args(["--dev", &device.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        let out = child.stdout.take().map(read);
        let err = child.stderr.take().map(read);
        let disk = disk.to_owned();
        Ok(Self { child, out, err, _folder: folder, trace, disk, seconds, begun: Instant::now() })
    }

    /// Returns true if it is of this disk.
    pub(super) fn is_of(&self, disk: &str) -> bool {
        self.disk == disk
    }

    /// Returns what it says until now.
    pub(super) fn words(&self) -> Vec<String> {
        vec![
            format!(
                "{}: a device is fitted to the last {:.0} s, which are replayed under other settings.",
                self.disk, self.seconds
            ),
            format!(
                "{} s so far; it may take a minute. The answer comes by itself, also if you close this.",
                self.begun.elapsed().as_secs()
            ),
        ]
    }

    /// Returns the answer in lines, if the search has ended.
    pub(super) fn answer(&mut self) -> Option<Vec<String>> {
        self.child.try_wait().ok().flatten()?;
        let text_of = |thread: &mut Option<JoinHandle<String>>| {
            thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
        };
        let (out, err) = (text_of(&mut self.out), text_of(&mut self.err));
        Some(answer(&out, &err, &self.trace.to_string_lossy(), &self.disk, self.seconds))
    }
}

/// Returns the answer in lines: what `elevon advise` printed of a trace, and what it warned of.
fn answer(out: &str, err: &str, trace: &str, disk: &str, seconds: f64) -> Vec<String> {
    // The user knows nothing of the file.
    let known = |line: &str| line.replace(trace, &format!("the last {seconds:.0} s"));
    let said = |line: &str| {
        let line = line.strip_prefix("elevon: ").unwrap_or(line);
        known(line.strip_prefix("warning: ").unwrap_or(line))
    };
    let mut lines: Vec<String> = out.lines().map(known).collect();
    if let Some(first) = lines.first_mut() {
        *first = first.replacen("elevon advise: device", disk, 1);
    }
    lines.extend(err.lines().map(said));
    if out.contains("now, as root") {
        lines.push(format!(
            "To try a setting and have it put back: elevon watch /dev/{disk} --try FILE=VALUE --for 60"
        ));
    }
    lines
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_no_file_that_is_gone() {
        let out = "elevon advise: device 8:0 of /tmp/x/last.ftrace: 9 I/Os\nnow, as root:\n";
        let err = "elevon: warning: /tmp/x/last.ftrace: events were lost in 2 gap(s)\n";
        let lines = answer(out, err, "/tmp/x/last.ftrace", "sda", 12.3);
        assert_eq!(lines[0], "sda 8:0 of the last 12 s: 9 I/Os");
        assert_eq!(lines[2], "the last 12 s: events were lost in 2 gap(s)");
        assert!(lines[3].contains("elevon watch /dev/sda --try"), "{lines:?}");
        let refused =
            answer("", "elevon: /tmp/x/last.ftrace: too short\n", "/tmp/x/last.ftrace", "sda", 1.0);
        assert_eq!(refused, ["the last 1 s: too short"]);
    }
}
