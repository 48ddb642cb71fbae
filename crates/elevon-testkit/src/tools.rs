//! External programs and facilities that let more tests run: fio, blkparse, strace, loop devices.
//!
//! On a developer's machine a test that lacks one of them prints that it is skipped, and passes.
//! `.ci/run` installs all of them and sets [`REQUIRE_TOOLS`], so that the same test fails there: CI
//! cannot pass with skipped tests.

use std::env;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The environment variable that turns a skipped test into a failed one, if its value is `1`.
pub const REQUIRE_TOOLS: &str = "ELEVON_REQUIRE_TOOLS";

/// The environment variable that names a file to which [`tool`] adds a line for each program that
/// it is asked for: the program, the test binary, its working directory and the test, with tabs
/// between them. `cargo xtask hide-tools` reads it.
pub const TOOLS_LOG: &str = "ELEVON_TOOLS_LOG";

/// Returns true if all of these programs are installed. A test that starts one program names those
/// that this one starts, too.
///
/// # Panics
///
/// If one is not installed and [`REQUIRE_TOOLS`] is `1`.
pub fn tools(names: &[&str]) -> bool {
    // Each of them is looked for, so that all that are missing are told.
    names.iter().filter(|name| tool(name).is_none()).count() == 0
}

/// Returns a command that runs the program `name`, or `None` if it is not installed.
///
/// # Panics
///
/// If the program is not installed and [`REQUIRE_TOOLS`] is `1`.
pub fn tool(name: &str) -> Option<Command> {
    log(name);
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

/// Notes that a test uses a program, if there is a log.
fn log(name: &str) {
    let Some(path) = env::var_os(TOOLS_LOG) else { return };
    let [binary, folder] =
        [env::current_exe(), env::current_dir()].map(|path| path.expect("this process has one"));
    // The harness gives the thread of a test its name.
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    let line = format!("{name}\t{}\t{}\t{test}\n", binary.display(), folder.display());
    let file = File::options().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the log can be written");
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

/// Returns the folder of the kernels that `cargo xtask twin build` has built, as a value of the
/// variable `ELEVON_TWIN`. Without the kernel of that command's default, says that a test is
/// skipped.
pub fn twin_kernels() -> Option<PathBuf> {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/twin");
    let folder = env::var_os("ELEVON_TWIN").map_or_else(built, PathBuf::from);
    let folder = folder.join("7.3/linux").is_file().then(|| folder.canonicalize().ok()).flatten();
    if folder.is_none() {
        println!("skipped: no kernel is built (cargo xtask twin build)");
    }
    folder
}

/// Sends a process a signal, such as `TERM`. Every shell has `kill`; the program of this name may
/// be missing.
///
/// # Panics
///
/// If the signal cannot be sent.
#[track_caller]
pub fn signal(process: &Child, name: &str) {
    let status =
        Command::new("sh").args(["-c", &format!("kill -{name} {}", process.id())]).status();
    assert!(status.expect("there is a shell").success());
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
