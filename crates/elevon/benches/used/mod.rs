//! What a command uses: CPU time and memory.

use std::fs;
use std::io::{BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Seconds of CPU time of the programs that have ended, of which the kernel tells hundredths.
fn children_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").expect("the process's statistics");
    let (_, rest) = text.rsplit_once(')').expect("a name in parentheses");
    let field = |at: usize| {
        rest.split_whitespace().nth(at).and_then(|ticks| ticks.parse::<f64>().ok()).expect("ticks")
    };
    (field(13) + field(14)) / 100.0
}

/// What a command used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// CPU time.
    pub(crate) seconds: f64,
    /// Largest resident memory in MB, as it was seen while the command ran.
    pub(crate) memory: f64,
}

/// Runs a command in a folder; what it prints is read and counted.
pub(crate) fn used(command: &mut Command, folder: &Path) -> (Used, u64) {
    let before = children_seconds();
    let mut child =
        command.current_dir(folder).stdout(Stdio::piped()).spawn().expect("the command started");
    let stdout = child.stdout.take().expect("a pipe");
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        let (mut stdout, mut bytes) = (BufReader::with_capacity(1 << 16, stdout), 0);
        while let Ok(read @ 1..) = stdout.read(&mut buffer) {
            bytes += read as u64;
        }
        bytes
    });
    let status = format!("/proc/{}/status", child.id());
    let mut memory = 0.0f64;
    let code = loop {
        if let Some(code) = child.try_wait().expect("a child") {
            break code;
        }
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| {
            line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<f64>().ok()
        });
        memory = peak.map_or(memory, |kb| memory.max(kb / 1e3));
        std::thread::sleep(Duration::from_millis(2));
    };
    assert!(code.success(), "{command:?}");
    let printed = reader.join().expect("the reader of its output");
    (Used { seconds: children_seconds() - before, memory }, printed)
}
