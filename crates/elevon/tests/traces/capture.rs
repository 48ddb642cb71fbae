//! `elevon capture`: what it refuses, and, where this machine lets us (root, tracefs, losetup), a
//! real recording of a loop device.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::common::Bench;
use elevon_testkit::signal;
use serde_json::Value;

/// The single line that a command which must end with status 2 prints.
fn refusal(bench: &Bench, args: &[&str]) -> String {
    let output = bench.elevon(&[&["capture"], args].concat()).output().expect("the command ran");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert_eq!((stderr.lines().count(), output.stdout.len()), (1, 0), "{args:?}: {stderr}");
    stderr
}

#[test]
fn what_is_no_block_device_is_refused() {
    let bench = Bench::new();
    bench.file("a", "");
    for (args, words) in [
        (&["a", "out"][..], "a: is no block device; name one, such as /dev/sda (lsblk lists them)"),
        (&["/dev/null", "out"], "/dev/null: is no block device"),
        (&["no/such", "out"], "no/such: No such file or directory"),
        (&["a", "out", "--seconds", "0"], "--seconds 0: expected seconds from 0.001 to 604800"),
        (&["a", "out", "--seconds", "-1"], "--seconds -1: expected seconds"),
        (&["a", "out", "--seconds", "nan"], "--seconds NaN: expected seconds"),
        (
            &["a", "out", "--buffer", "4"],
            "--buffer 4: expected a size from 64K to 4G, or the same in KiB, MiB or GiB",
        ),
        (
            &["a", "out", "--buffer", "1KiB"],
            "--buffer 1KiB: expected a size from 64K to 4G, or the same in KiB, MiB or GiB",
        ),
        (
            &["a", "out", "--buffer", "1TiB"],
            "--buffer 1TiB: expected a size from 64K to 4G, or the same in KiB, MiB or GiB",
        ),
    ] {
        let line = refusal(&bench, args);
        assert!(line.contains(words), "{line}");
    }
    assert_eq!(bench.names(), ["a"]);
}

/// A block device of this machine, to name.
fn some_device() -> Option<String> {
    let entries = fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    let nodes = entries.map(|entry| format!("/dev/{}", entry.file_name().to_string_lossy()));
    let found = nodes.into_iter().find(|node| Path::new(node).exists());
    if found.is_none() {
        elevon_testkit::denied("no block device here");
    }
    found
}

#[test]
fn a_place_that_is_no_tracefs_is_refused_and_so_is_an_old_file() {
    let Some(device) = some_device() else { return };
    let bench = Bench::new();
    bench.file("old", "kept");
    let line = refusal(&bench, &[&device, "old"]);
    assert!(line.contains("old: exists; name a new file, or remove it first"), "{line}");
    fs::create_dir_all(bench.path("empty")).expect("a folder");
    fs::create_dir_all(bench.path("bare/events")).expect("a folder");
    for (place, words) in [
        (
            "empty",
            "empty: is no tracefs (it has no `events`); as root: mount -t tracefs nodev /sys/kernel/tracing",
        ),
        ("bare", "bare/events/block: not there: this kernel has no block events"),
    ] {
        let output = bench
            .elevon(&["capture", &device, "new", "--tracefs", place])
            .output()
            .expect("the command ran");
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        // A line more where the folder of the output lies on that device.
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.lines().last().is_some_and(|line| line.contains(words)), "{stderr}");
    }
    assert_eq!(bench.names(), ["bare", "empty", "old"]);
    assert_eq!(fs::read(bench.path("old")).expect("the old file"), b"kept");
}

/// A trace of a real kernel, as if `elevon capture` had recorded it: device 7:7.
fn with_settings(bench: &Bench, name: &str) {
    let trace = crate::common::kernel_truth("traces/pgbench-ext4-mq-deadline-excerpt.ftrace");
    let device =
        bench.stdout(&["inspect", trace.to_str().expect("UTF-8"), "--output-format", "json"]);
    let device: Value = serde_json::from_str(&device).expect("JSON");
    let head = format!(
        "# elevon capture 1\n# kernel: 6.12.7-lts\n# device: {}\n# sectors: 4194304\n# queue/scheduler: none [mq-deadline]\n\
         # queue/iosched/fifo_batch: 5\n# queue/iosched/read_expire: 500\n# queue/max_sectors_kb: 256\n\
         # queue/max_hw_sectors_kb: 1280\n# queue/nr_requests: 62\n# queue/wbt_lat_usec: 75000\n# mq/0/nr_tags: 31\n",
        device["device"].as_str().expect("a device")
    );
    bench.file(name, head + &fs::read_to_string(trace).expect("a text"));
}

#[test]
fn the_settings_of_a_trace_are_shown_and_used() {
    let bench = Bench::new();
    with_settings(&bench, "t.txt");
    let text = bench.stdout(&["inspect", "t.txt"]);
    assert!(text.contains("scheduler mq-deadline, nr_requests=62, max_sectors_kb=256"), "{text}");
    // A device fitted to it has the hardware's limits, size and tags.
    bench.stdout(&["calibrate", "t.txt", "-o", "disk.toml"]);
    let profile = fs::read_to_string(bench.path("disk.toml")).expect("a profile");
    for line in [
        "size = \"2GiB\"",
        "queue_depth = 31",
        "hw_queues = 1",
        "[limits]\nmax_hw_sectors_kb = 1280",
        "basis = \"stated\"",
    ] {
        assert!(profile.contains(line), "{line}: {profile}");
    }
    let shown = bench.stdout(&["devices", "@disk.toml"]);
    assert!(shown.contains("traced-"), "{shown}");
    // A replay has the scheduler, the kernel and the queue settings; what the command line gives
    // replaces them.
    let replayed = |args: &[&str]| {
        let output =
            bench.elevon(&[&["replay", "t.txt", "--device", "@disk.toml"], args].concat()).output();
        let output = output.expect("the command ran");
        assert!(output.status.success());
        (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let taken = "as the trace was recorded: --scheduler 'mq-deadline:fifo_batch=5' --kernel 6.12 --set 'max_sectors_kb=256' --set 'nr_requests=62';";
    let (report, said) = replayed(&[]);
    assert!(said.contains(taken), "{said}");
    assert!(report.contains("mq-deadline") && report.contains("max_sectors_kb=256"), "{report}");
    let (_, said) =
        replayed(&["--scheduler", "none", "--kernel", "6.18", "--set", "max_sectors_kb=128"]);
    assert!(said.contains("as the trace was recorded: --set 'nr_requests=62';"), "{said}");
}

#[test]
fn a_file_beside_a_trace_has_its_settings() {
    let bench = Bench::new();
    let trace = crate::common::kernel_truth("blktrace-6.1/dd-none.blktrace.0");
    fs::copy(trace, bench.path("d.blktrace.0")).expect("copied");
    bench.file(
        "d.settings",
        "dev:252:0\nqueue/scheduler:[none]\nqueue/nr_requests:64\nkernel:6.1.187\n",
    );
    let json = |path: &str| -> Value {
        serde_json::from_str(&bench.stdout(&["inspect", path, "--output-format", "json"]))
            .expect("JSON")
    };
    for path in ["d", "d.blktrace.0"] {
        assert_eq!(json(path)["trace"]["recorded"]["queue/nr_requests"], "64", "{path}");
    }
    fs::remove_file(bench.path("d.settings")).expect("removed");
    assert_eq!(json("d")["trace"]["recorded"], Value::Null);
}

/// tracefs, a loop device and a folder, where this machine has them.
pub(crate) struct Machine {
    bench: Bench,
    tracefs: PathBuf,
    device: String,
    is_mounted_here: bool,
}

/// Serialises what is real: instances of killed recordings are removed by any other.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Waits until no other test records.
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Machine {
    pub(crate) fn new() -> Option<Self> {
        let bench = Bench::new();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mut tracefs = elevon_trace::capture::tracefs_of(&mounts)
            .filter(|path| path.join("instances").exists());
        let is_mounted_here = tracefs.is_none();
        if is_mounted_here {
            let place = bench.path("tracing");
            fs::create_dir(&place).expect("a folder");
            run("mount", &["-t", "tracefs", "nodev", text(&place)], "tracefs cannot be mounted")?;
            tracefs = Some(place);
        }
        let mut machine = Self { bench, tracefs: tracefs?, device: String::new(), is_mounted_here };
        if !machine.tracefs.join("events/block/block_rq_issue").exists() {
            elevon_testkit::denied("this kernel has no block events");
            return None;
        }
        fs::write(machine.bench.path("disk"), vec![0xa5; 8 << 20]).expect("a file");
        let disk = machine.bench.path("disk");
        let made = run("losetup", &["--find", "--show", text(&disk)], "no loop device here")?;
        machine.device = String::from_utf8_lossy(&made.stdout).trim().to_owned();
        Some(machine)
    }

    /// Returns the node of the device.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// Returns where tracefs is.
    pub(crate) fn tracefs(&self) -> &str {
        text(&self.tracefs)
    }

    /// Returns a file of the device's queue.
    pub(crate) fn queue_file(&self, name: &str) -> PathBuf {
        let disk = self.device.trim_start_matches("/dev/");
        PathBuf::from(format!("/sys/block/{disk}/queue/{name}"))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
        command.current_dir(self.bench.path("")).arg("capture").arg(&self.device).args(args);
        command
            .args(["--tracefs", text(&self.tracefs)])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts a recording; returns when it records.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut child = self.command(args).spawn().expect("the command started");
        let instance = self.tracefs.join(format!("instances/elevon-capture-{}", child.id()));
        let is_on = |file: &str| {
            fs::read_to_string(instance.join(file)).is_ok_and(|text| text.trim() == "1")
        };
        // A new instance is on until it is set up, and no event is enabled before it is off.
        while !(is_on("events/block/block_rq_remap/enable") && is_on("tracing_on")) {
            if let Some(status) = child.try_wait().expect("a child") {
                let output = child.wait_with_output().expect("it ended");
                panic!("{status}: {}", String::from_utf8_lossy(&output.stderr));
            }
            std::thread::yield_now();
        }
        child
    }

    /// The device is read past the page cache: so many requests of 64 KiB.
    pub(crate) fn read(&self, count: u32) {
        let status = Command::new("dd")
            .arg(format!("if={}", self.device))
            .args(["of=/dev/null", "bs=64k", "iflag=direct", "status=none"])
            .arg(format!("count={count}"))
            .status();
        assert!(status.expect("dd ran").success());
    }

    pub(crate) fn instances(&self) -> Vec<String> {
        let entries = fs::read_dir(self.tracefs.join("instances")).expect("a folder").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("elevon-capture-")).collect()
    }

    pub(crate) fn inspected(&self, name: &str) -> Value {
        serde_json::from_str(&self.bench.stdout(&["inspect", name, "--output-format", "json"]))
            .expect("JSON")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if !self.device.is_empty() {
            let _ = Command::new("losetup").args(["--detach", &self.device]).status();
        }
        if self.is_mounted_here {
            let _ = Command::new("umount").arg(&self.tracefs).status();
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Runs a tool that needs root; `None`, and a line, where it may not.
fn run(name: &str, args: &[&str], denied: &str) -> Option<Output> {
    let output = elevon_testkit::tool(name)?.args(args).output().expect("the tool ran");
    if !output.status.success() {
        elevon_testkit::denied(&format!(
            "{denied}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
        return None;
    }
    Some(output)
}

#[test]
fn a_real_device_is_recorded_until_a_signal() {
    let _alone = alone();
    let Some(machine) = Machine::new() else { return };
    for (name, seconds, signalled, code) in [
        ("a.txt", None, "INT", 0),
        ("b.txt.zst", Some("600"), "TERM", 143),
        ("c.gz", Some("600"), "INT", 130),
    ] {
        let mut args = vec![name];
        args.extend(seconds.into_iter().flat_map(|seconds| ["--seconds", seconds]));
        let child = machine.start(&args);
        machine.read(16);
        signal(&child, signalled);
        let output = child.wait_with_output().expect("it ended");
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(
            stdout.contains(", none lost") && stdout.contains(&format!("elevon inspect {name}")),
            "{stdout}"
        );
        assert_eq!(machine.instances(), [""; 0]);
        let found = machine.inspected(name);
        assert_eq!(found["events"]["queue"], 16, "{found}");
        assert_eq!(found["events"]["complete"], 16);
        assert_eq!(found["latency"]["read"]["issued_to_completed"]["count"], 16);
        let recorded = &found["trace"]["recorded"];
        assert_eq!(recorded["device"], found["device"]);
        assert_eq!(recorded["lost"], "0");
        let block = fs::read_to_string(machine.queue_file("logical_block_size"));
        assert_eq!(recorded["queue/logical_block_size"], block.expect("a setting").trim());
    }
}

#[test]
fn what_a_killed_recording_left_is_removed_by_the_next() {
    let _alone = alone();
    let Some(machine) = Machine::new() else { return };
    let mut child = machine.start(&["a.txt"]);
    signal(&child, "KILL");
    child.wait().expect("it ended");
    assert_eq!(machine.instances().len(), 1);
    let output =
        machine.command(&["b.txt", "--seconds", "0.01"]).output().expect("the command ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && stderr.contains("removed the trace instance elevon-capture-"),
        "{stderr}"
    );
    assert_eq!(machine.instances(), [""; 0]);
}

#[test]
fn a_full_disk_ends_a_recording_and_nothing_is_left() {
    let _alone = alone();
    let Some(machine) = Machine::new() else { return };
    let full = machine.bench.path("full");
    fs::create_dir(&full).expect("a folder");
    if run("mount", &["-t", "tmpfs", "-o", "size=32k", "nodev", text(&full)], "no tmpfs here")
        .is_none()
    {
        return;
    }
    let child = machine.start(&["full/out.txt", "--seconds", "600"]);
    // More than 32 KiB of pages: the kernel's own buffer holds them until they are taken.
    (0..16).for_each(|_| machine.read(128));
    let output = child.wait_with_output().expect("it ended");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let left = fs::read_dir(&full).expect("a folder").count();
    let unmounted = Command::new("umount").arg(&full).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    assert_eq!((output.status.code(), left), (Some(2), 0), "{stderr}");
    assert!(
        stderr.contains("No space left on device") && stderr.contains("free some space there"),
        "{stderr}"
    );
    assert_eq!(machine.instances(), [""; 0]);
}

#[test]
fn without_root_it_says_that_it_needs_it() {
    let _alone = alone();
    let Some(machine) = Machine::new() else { return };
    // The folder is private to root, and the command's program may be, too.
    let (folder, program) = (tempfile::tempdir_in("/tmp").expect("a folder"), "elevon");
    let open = |path: &Path| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(path, mode).expect("a mode set");
    };
    open(folder.path());
    fs::copy(env!("CARGO_BIN_EXE_elevon"), folder.path().join(program)).expect("copied");
    open(&folder.path().join(program));
    let output = Command::new(folder.path().join(program))
        .current_dir(folder.path())
        .args(["capture", &machine.device, "out.txt", "--tracefs", text(&machine.tracefs)])
        .uid(65534)
        .gid(65534)
        .output()
        .expect("it ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("Permission denied") && stderr.contains("needs root (sudo)"),
        "{stderr}"
    );
}
