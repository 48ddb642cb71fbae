//! External programs and facilities that let more tests run: fio, blkparse, strace, loop devices.
//!
//! On a developer's machine a test that lacks one of them prints that it is skipped, and passes.
//! `.ci/run` installs all of them and sets [`REQUIRE_TOOLS`], so that the same test fails there: CI
//! cannot pass with skipped tests.

use std::env;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

/// The environment variable that turns a skipped test into a failed one, if its value is `1`.
pub const REQUIRE_TOOLS: &str = "ELEVON_REQUIRE_TOOLS";

/// Returns a command that runs the program `name`, or `None` if it is not installed.
///
/// # Panics
///
/// If the program is not installed and [`REQUIRE_TOOLS`] is `1`.
pub fn tool(name: &str) -> Option<Command> {
    // The program counts as installed even if it rejects these arguments.
    let mut probe = Command::new(name);
    probe.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match probe.status() {
        Ok(_) => Some(Command::new(name)),
        Err(error) => {
            skip(&format!("{name} cannot be run: {error}"));
            None
        }
    }
}

/// Prints on stdout that the rest of a test is skipped, and why. The caller then returns.
///
/// # Panics
///
/// If [`REQUIRE_TOOLS`] is `1`.
#[track_caller]
pub fn skip(reason: &str) {
    let required = env::var_os(REQUIRE_TOOLS).is_some_and(|value| value == "1");
    assert!(!required, "{REQUIRE_TOOLS}=1 and the test would be skipped: {reason}");
    println!("skipped: {reason}");
}

/// Prints on stdout that the rest of a test is skipped because this machine denies a facility of
/// the kernel (io_uring, loop devices, FUSE, tracing of processes), which cannot be installed. The
/// caller then returns.
///
/// # Panics
///
/// If [`REQUIRE_TOOLS`] is `1` and the test runs as root: a CI machine that gives root must also
/// give these facilities.
#[track_caller]
pub fn denied(reason: &str) {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if is_root {
        skip(reason);
    } else {
        println!("skipped: {reason}");
    }
}
