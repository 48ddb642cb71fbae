//! Tests that what surrounds a server ends it for no client: limits, closed descriptors, full and
//! read-only file systems, refused system calls, and readers that do not read. `UPDATE_DOCS=1 cargo
//! test -p elevon --test serve environment` writes the table of `docs/evidence/environment.md`.

use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::Bench;
use crate::common::nbd::Client;
use crate::common::nbdkit::until;
use crate::common::served::{DISK, Served};

const ENOSPC: u32 = 28;

/// Two devices, of which the first meets what a test is about.
const CONFIG: &str = "\
listen = 'unix:s'
[device.a]
device = './a.img'
[device.b]
device = './b.img'
[export.a]
device = 'a'
[export.b]
device = 'b'
";

fn bench() -> Bench {
    let bench = Bench::new();
    bench.file("a.img", vec![0; DISK]);
    bench.file("b.img", vec![0; DISK]);
    bench.file("c.toml", CONFIG);
    bench
}

/// Runs a command of the shell that ends with `exec "$0" serve c.toml`, or the like.
fn shell(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", script, env!("CARGO_BIN_EXE_elevon")]).stdin(Stdio::null());
    command
}

/// What came of a server in an environment.
fn outcome(script: &str) -> String {
    let bench = bench();
    let child = shell(script)
        .current_dir(bench.path(""))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("a shell");
    let began = Instant::now();
    // The socket is there before it is listened at.
    while UnixStream::connect(bench.path("s")).is_err()
        && child.try_wait().expect("its state").is_none()
    {
        assert!(began.elapsed() < Duration::from_secs(60), "{script}: neither serves nor ends");
        std::thread::sleep(Duration::from_millis(5));
    }
    if let Some(status) = child.try_wait().expect("its state") {
        return format!("refuses to start, exit code {}", status.code().expect("no signal"));
    }
    let words = used(&bench);
    elevon_testkit::signal(&child, "TERM");
    let output = child.wait_with_output().expect("it ended");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    words
}

/// Returns what clients of both devices get.
fn used(bench: &Bench) -> String {
    let errno = |errno: u32| if errno == 0 { "ok".to_owned() } else { format!("errno {errno}") };
    let open = |name: &str| Client::open(&bench.path("s"), name).expect("it listens");
    let (mut a, mut b) = (open("a"), open("b"));
    let far = a.write(0, (DISK - 4096) as u64, &[1; 4096]).expect("an answer");
    let flush = a.flush().expect("an answer");
    let read = a.read(0, 1 << 20).expect("an answer").err().unwrap_or(0);
    // The other device, and a new connection, are as they were.
    assert!(b.read(0, 4096).expect("an answer").is_ok());
    assert!(open("b").read(0, 4096).expect("an answer").is_ok());
    format!("serves: write {}, flush {}, read {}", errno(far), errno(flush), errno(read))
}

/// Each environment: what it is, how a shell makes it, and what is right.
const ENVIRONMENTS: [(&str, &str, &str); 19] = [
    (
        "RLIMIT_FSIZE of 1 MiB",
        "ulimit -f 1024; exec \"$0\" serve c.toml",
        "serves: write errno 28, flush ok, read ok",
    ),
    ("RLIMIT_NOFILE of 64", "ulimit -n 64; exec \"$0\" serve c.toml", OK),
    (
        "RLIMIT_NOFILE of 8",
        "ulimit -n 8; exec \"$0\" serve c.toml",
        "refuses to start, exit code 2",
    ),
    ("RLIMIT_MEMLOCK of 0", "ulimit -l 0; exec \"$0\" serve c.toml", OK),
    ("RLIMIT_AS of 1 GiB", "ulimit -v 1048576; exec \"$0\" serve c.toml", OK),
    ("RLIMIT_DATA of 256 MiB", "ulimit -d 262144; exec \"$0\" serve c.toml", OK),
    ("RLIMIT_STACK of 256 KiB", "ulimit -s 256; exec \"$0\" serve c.toml", OK),
    ("RLIMIT_RSS of 1 MiB", "ulimit -m 1024; exec \"$0\" serve c.toml", OK),
    ("RLIMIT_CORE of 0", "ulimit -c 0; exec \"$0\" serve c.toml", OK),
    ("RLIMIT_SIGPENDING of 0", "ulimit -i 0; exec \"$0\" serve c.toml", OK),
    ("RLIMIT_MSGQUEUE of 0", "ulimit -q 0; exec \"$0\" serve c.toml", OK),
    ("RLIMIT_NICE of 0", "ulimit -e 0; exec \"$0\" serve c.toml", OK),
    ("RLIMIT_RTPRIO of 0", "ulimit -r 0; exec \"$0\" serve c.toml", OK),
    ("RLIMIT_LOCKS of 0", "ulimit -x 0; exec \"$0\" serve c.toml", OK),
    ("descriptor 0 closed", "exec \"$0\" serve c.toml <&-", OK),
    ("descriptor 1 closed", "exec \"$0\" serve c.toml >&-", OK),
    ("descriptor 2 closed", "exec \"$0\" serve c.toml 2>&-", OK),
    ("descriptors 0, 1 and 2 closed", "exec \"$0\" serve c.toml <&- >&- 2>&-", OK),
    ("stdout and stderr on /dev/full", "exec \"$0\" serve c.toml >/dev/full 2>/dev/full", OK),
];
const OK: &str = "serves: write ok, flush ok, read ok";
const REFUSED: &str = "refuses to start, exit code 1";

/// The same for what takes root.
const OF_ROOT: [(&str, &str, &str); 5] = [
    (
        "a read-only file system",
        "mount --bind a.img a.img && mount -o remount,bind,ro a.img && exec \"$0\" serve c.toml",
        "refuses to start, exit code 2",
    ),
    (
        "a full file system (tmpfs)",
        "mkdir -p m && mount -t tmpfs -o size=1m tmpfs m && truncate -s 8M m/a.img && dd if=/dev/zero of=m/fill bs=64k status=none 2>/dev/null; \
         mount --bind m/a.img a.img && exec \"$0\" serve c.toml",
        "serves: write errno 28, flush ok, read ok",
    ),
    (
        "a read-only block device (losetup -r)",
        "L=$(losetup -r -f --show a.img) && sed -i \"s|./a.img|$L|\" c.toml && \"$0\" serve c.toml; code=$?; losetup -d $L; exit $code",
        "refuses to start, exit code 2",
    ),
    (
        "a block device set read-only (blockdev --setro)",
        "L=$(losetup -f --show a.img) && blockdev --setro $L && sed -i \"s|./a.img|$L|\" c.toml && \"$0\" serve c.toml; code=$?; \
         blockdev --setrw $L; losetup -d $L; exit $code",
        "refuses to start, exit code 2",
    ),
    (
        "RLIMIT_NPROC of 1, not as root",
        "chmod -R a+rwX . && ulimit -u 1 && exec setpriv --reuid 12345 --clear-groups \"$0\" serve c.toml",
        REFUSED,
    ),
];

/// System calls that a filter (seccomp, `SystemCallFilter=` of a unit) may refuse with EPERM.
const FILTERED: [&str; 8] = [
    "io_uring_setup",
    "io_uring_register",
    "flock",
    "fallocate",
    "prlimit64",
    "statfs",
    "sched_setaffinity",
    "madvise",
];

#[test]
fn no_limit_ends_a_server_for_others() {
    if elevon_testkit::tool("bash").is_none() {
        return;
    }
    for (what, script, right) in ENVIRONMENTS {
        assert_eq!(outcome(script), right, "{what}");
    }
}

#[test]
fn no_device_or_file_system_ends_a_server_for_others() {
    if !elevon_testkit::tools(&["bash", "id", "unshare", "losetup", "blockdev"]) {
        return;
    }
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let mounts =
        Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if !is_root || !mounts {
        return elevon_testkit::skip(
            "no_device_or_file_system_ends_a_server_for_others: takes root and mounts",
        );
    }
    for (what, script, right) in OF_ROOT {
        if script.contains("losetup") && !std::path::Path::new("/dev/loop-control").exists() {
            elevon_testkit::skip(&format!("{what}: there are no loop devices"));
            continue;
        }
        assert_eq!(
            outcome(&format!("exec unshare -m bash -c '{}' \"$0\"", script.replace('\'', "'\\''"))),
            right,
            "{what}"
        );
    }
}

#[test]
fn no_filter_of_system_calls_ends_a_server_for_others() {
    if !elevon_testkit::tools(&["bash", "strace"]) {
        return;
    }
    for call in FILTERED {
        let script = format!(
            "exec strace -D -f -qq -o trace -e inject={call}:error=EPERM \"$0\" serve c.toml"
        );
        assert_eq!(outcome(&script), OK, "{call}");
    }
}

/// A service manager that reads nothing more once it was told that the server is ready.
#[test]
fn a_notify_socket_that_is_not_read_stops_nothing() {
    let bench = bench();
    let socket = UnixDatagram::bind(bench.path("n")).expect("a socket");
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    command
        .args(["serve", "c.toml"])
        .env("NOTIFY_SOCKET", bench.path("n"))
        .env("WATCHDOG_USEC", "40000");
    let served = Served::of_command(bench, command);
    let told = || {
        let mut bytes = [0; 4096];
        let length = socket.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    assert_eq!(told(), "READY=1\n");
    // Every 20 ms a sign of life, until the queue of some ten is full.
    std::thread::sleep(Duration::from_secs(1));
    let mut client = Client::open(&served.bench.path("s"), "a").expect("it listens");
    assert!(client.read(0, 4096).expect("an answer").is_ok());
    drop(client);
    served.end();
    // Its end found no room, and those before it did.
    assert!(told().starts_with("STATUS=") || told().starts_with("WATCHDOG=1"));
}

/// The addresses of the exports are more than a pipe takes.
#[test]
fn a_stdout_that_is_not_read_stops_nothing() {
    let bench = bench();
    let exports: String =
        (0..2000).map(|number| format!("[export.\"{}{number}\"]\n", "n".repeat(60))).collect();
    bench.file("c.toml", format!("listen = 'unix:s'\n[device.a]\ndevice = './a.img'\n{exports}"));
    let served = Served::run(bench, &["c.toml"]);
    let mut client = Client::open(&served.bench.path("s"), "").expect("it listens");
    assert!(client.read(0, 4096).expect("an answer").is_ok());
    served.end();
}

#[test]
fn a_write_beyond_the_limit_of_file_sizes_fails_for_its_client() {
    let bench = bench();
    let mut command = shell("ulimit -f 1024; exec \"$0\" serve c.toml");
    command.stderr(Stdio::piped());
    let served = Served::of_command(bench, command);
    let mut client = Client::open(&served.bench.path("s"), "a").expect("it listens");
    until("it is told", || client.write(0, 2 << 20, &[1; 4096]).expect("an answer") == ENOSPC);
    assert_eq!(client.write(0, 0, &[1; 4096]).expect("an answer"), 0);
    assert_eq!(client.flush().expect("an answer"), 0);
    served.end();
}

#[test]
fn the_document_says_what_was_tried() {
    let row = |(what, _, right): (&str, &str, &str)| format!("| {what} | {right} |\n");
    let filtered = FILTERED.map(|call| {
        format!("| {call} refused with EPERM (strace's injection, as seccomp does) | {OK} |\n")
    });
    let rows: String = ENVIRONMENTS.into_iter().chain(OF_ROOT).map(row).chain(filtered).collect();
    elevon_testkit::hold_document("docs/evidence/environment.md", |text| {
        elevon_testkit::replace_after(text, "|---|---|\n", &rows)
    });
}
