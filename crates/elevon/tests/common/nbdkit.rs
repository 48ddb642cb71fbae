//! nbdkit as the store under a disk.

use std::os::unix::net::UnixStream;
use std::process::Child;
use std::time::{Duration, Instant};

use super::Bench;

/// A process that is killed after the test.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something is true.
#[track_caller]
pub(crate) fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts nbdkit at the socket `up`; `None` if it is not installed.
pub(crate) fn nbdkit(bench: &Bench, args: &[&str]) -> Option<Killed> {
    let mut command = elevon_testkit::tool("nbdkit")?;
    let socket = bench.path("up");
    command.current_dir(bench.path("")).args(["-f", "-U"]).arg(&socket).args(args);
    let child = Killed(command.spawn().expect("nbdkit started"));
    until("nbdkit listens", || UnixStream::connect(&socket).is_ok());
    Some(child)
}
