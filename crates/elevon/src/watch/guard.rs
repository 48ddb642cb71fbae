//! Removes the trace instance if this process is killed.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the end of its standard input, which the kernel closes with this process. Then it
/// removes the folder, as soon as its files are closed.
const SCRIPT: &str = "read -r end; for try in 1 2 3 4 5 6 7 8 9 10; do \
    [ -d \"$0\" ] || exit 0; echo 0 > \"$0/tracing_on\"; rmdir \"$0\" && exit 0; sleep 0.1; done";

/// A process that outlives this one for a moment.
pub(super) struct Guard {
    child: Option<Child>,
}

impl Guard {
    /// Guards the folder of a trace instance. Without a shell there is no guard; the next
    /// `elevon watch` removes the instance then.
    pub(super) fn new(folder: &Path) -> Self {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(SCRIPT).arg(folder).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: command.spawn().ok() }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}
