//! Tests a server that is started with its sockets, and what it tells the service manager.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::Bench;
use crate::common::exposition::Exposition;
use crate::common::http::get;
use crate::common::nbd::Client;
use crate::common::served::{DISK, ok};

/// A configuration that names no address.
const CONFIG: &str = "[device.d]\ndevice = './disk.img'\n[export.a]\n";

fn bench() -> Bench {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    bench.file("c.toml", CONFIG);
    bench
}

/// A server that ends with this value.
struct Server(Child);

impl Server {
    fn signal(&self, signal: &str) {
        elevon_testkit::signal(&self.0, signal);
    }

    fn end(mut self) {
        self.signal("TERM");
        assert_eq!(self.0.wait().expect("it ended").code(), Some(0));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After `end` there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns `elevon serve` with a descriptor as number 3; the shell has the process id that the
/// server then has.
fn with_descriptor(bench: &Bench, descriptor: OwnedFd, names: &str, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let script =
        format!("LISTEN_PID=$$ LISTEN_FDS=1 {names} exec \"$0\" serve \"$@\" 3<&0 0</dev/null");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_elevon")]).args(args);
    command
        .current_dir(bench.path(""))
        .stdin(Stdio::from(descriptor))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// libnbd starts the server with a socket, and is its only client.
#[test]
fn libnbd_starts_the_server_of_a_file() {
    let bench = bench();
    bench.file("pattern", vec![0x5a; DISK]);
    if !elevon_testkit::tools(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    let (mut nbdinfo, mut nbdcopy) = (Command::new("nbdinfo"), Command::new("nbdcopy"));
    let server = ["[", env!("CARGO_BIN_EXE_elevon"), "serve", "disk.img", "]"];
    let output = nbdinfo
        .current_dir(bench.path(""))
        .args(["--size", "--"])
        .args(server)
        .output()
        .expect("it ran");
    assert_eq!(ok(&output), format!("{DISK}\n"), "nothing else is printed");
    let output = nbdcopy
        .current_dir(bench.path(""))
        .args(["--flush", "--", "pattern"])
        .args(server)
        .output()
        .expect("it ran");
    ok(&output);
    assert!(std::fs::read(bench.path("disk.img")).expect("the disk") == vec![0x5a; DISK]);
}

#[test]
fn systemd_passes_sockets_with_their_names() {
    let Some(mut command) = elevon_testkit::tool("systemd-socket-activate") else { return };
    let bench = bench();
    let path = |name: &str| bench.path(name).display().to_string();
    command.current_dir(bench.path("")).args([
        "-l",
        &path("s"),
        "-l",
        &path("m"),
        "--fdname=disks:metrics",
    ]);
    let child = command
        .args([env!("CARGO_BIN_EXE_elevon"), "serve", "c.toml"])
        .stderr(Stdio::null())
        .spawn();
    let server = Server(child.expect("it started"));
    let began = Instant::now();
    let mut client = loop {
        std::thread::sleep(Duration::from_millis(5));
        // The tool listens a moment after it started, and starts the server with the first client.
        match Client::open(&bench.path("s"), "a") {
            Ok(client) => break client,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{error}"),
        }
    };
    assert_eq!(client.write(0, 0, &[1; 4096]).expect("an answer"), 0);
    let metrics = Exposition::read(&get(&bench.path("m"), "/metrics", "").body, false);
    assert_eq!(metrics.sum("elevon_requests_total"), 1.0);
    server.end();
    assert!(bench.path("s").exists(), "the socket is not the server's");
}

#[test]
fn a_passed_socket_is_served_beside_an_address() {
    let bench = bench();
    let listener = UnixListener::bind(bench.path("passed")).expect("a socket");
    let mut command =
        with_descriptor(&bench, listener.into(), "", &["disk.img", "--listen", "unix:s"]);
    let server = Server(command.spawn().expect("a shell"));
    let mut passed = Client::open(&bench.path("passed"), "").expect("it is listened at already");
    assert_eq!(passed.write(0, 0, &[7; 512]).expect("an answer"), 0);
    let mut other = Client::open(&bench.path("s"), "disk.img").expect("it listens there, too");
    assert_eq!(other.read(0, 512).expect("an answer"), Ok(vec![7; 512]));
    server.end();
    assert!(bench.path("passed").exists() && !bench.path("s").exists());
}

#[test]
fn a_socket_that_is_missing_or_none_is_said_in_a_line() {
    let bench = bench();
    let file = || OwnedFd::from(File::open(bench.path("disk.img")).expect("a file"));
    let socket =
        |name: &str| OwnedFd::from(UnixListener::bind(bench.path(name)).expect("a socket"));
    for (mut command, status, expected) in [
        (
            with_descriptor(&bench, file(), "", &["disk.img"]),
            1,
            "LISTEN_FDS: descriptor 3 is no listening stream socket of TCP or UNIX",
        ),
        (
            with_descriptor(&bench, socket("1"), "LISTEN_FDNAMES=a:b", &["disk.img"]),
            1,
            "LISTEN_FDS: invalid LISTEN_FDNAMES",
        ),
        // Only disks would have no way in.
        (
            with_descriptor(&bench, socket("2"), "LISTEN_FDNAMES=metrics", &["disk.img"]),
            2,
            "disk.img: --listen is not",
        ),
        (
            with_descriptor(&bench, socket("3"), "LISTEN_FDNAMES=control", &["c.toml"]),
            2,
            "c.toml: listen: nothing to",
        ),
    ] {
        let output = command.output().expect("a shell");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains(expected), "{stderr}");
    }
    // Sockets for another process are not this one's.
    let output =
        bench.elevon(&["serve", "c.toml"]).env("LISTEN_PID", "1").env("LISTEN_FDS", "1").output();
    assert_eq!(output.expect("it ran").status.code(), Some(2));
    let check = bench.elevon(&["serve", "c.toml", "--check"]).output().expect("it ran");
    let stderr = String::from_utf8_lossy(&check.stderr);
    assert!(
        check.status.success() && stderr.contains("c.toml: no key listen: only sockets that the"),
        "{stderr}"
    );
}

/// Reads messages to the service manager up to one that has a line.
#[track_caller]
fn until(manager: &UnixDatagram, wanted: &str) -> Vec<String> {
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last: &String| !last.lines().any(|line| line == wanted)) {
        let mut message = [0; 1024];
        let length = match manager.recv(&mut message) {
            // A wait with a time ends early if the process was stopped for a moment.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read.unwrap_or_else(|error| panic!("{error}: no {wanted} behind {seen:?}")),
        };
        seen.push(String::from_utf8_lossy(&message[..length]).into_owned());
        // A watchdog speaks all the time.
        assert!(seen.len() < 3_000, "no {wanted} in a minute");
    }
    seen
}

#[test]
fn the_service_manager_is_told_what_goes_on() {
    let bench = bench();
    bench.file("c.toml", format!("listen = 'unix:s'\ncontrol = 'ctl'\n{CONFIG}"));
    let manager = UnixDatagram::bind(bench.path("notify")).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    command
        .args(["serve", "c.toml"])
        .current_dir(bench.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command.env("NOTIFY_SOCKET", bench.path("notify")).env("WATCHDOG_USEC", "40000");
    let server = Server(command.spawn().expect("it started"));
    assert_eq!(until(&manager, "READY=1").len(), 1, "nothing comes before it");
    let mut client = Client::open(&bench.path("s"), "a").expect("it listens from then on");
    until(&manager, "STATUS=1 export, 1 connection");
    until(&manager, "WATCHDOG=1");
    server.signal("HUP");
    let reloading = until(&manager, "RELOADING=1").pop().expect("a message");
    let time =
        reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).expect("its time");
    assert!(time.parse::<u64>().is_ok_and(|micros| micros > 0), "{reloading}");
    until(&manager, "READY=1");
    // A reload by command is one, too, even if nothing is changed.
    bench.file("c.toml", "nonsense");
    let output = bench.elevon(&["ctl", "ctl", "reload"]).output().expect("it ran");
    assert_eq!(output.status.code(), Some(2));
    until(&manager, "RELOADING=1");
    until(&manager, "READY=1");
    assert_eq!(client.write(0, 0, &[1; 512]).expect("an answer"), 0);
    drop(client);
    server.end();
    until(&manager, "STOPPING=1");
}
