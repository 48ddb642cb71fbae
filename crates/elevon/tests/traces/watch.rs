//! `elevon watch`: what it refuses and, where this machine lets us (root, tracefs, losetup), the
//! figures of a real loop device beside what was done.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use elevon_testkit::signal;
use serde_json::Value;

use crate::capture::{Machine, alone};
use crate::common::Bench;

/// The single line that a command which must end with status 2 prints.
fn refusal(bench: &Bench, args: &[&str]) -> String {
    let output = bench.elevon(&[&["watch"], args].concat()).output().expect("the command ran");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert_eq!((stderr.lines().count(), output.stdout.len()), (1, 0), "{args:?}: {stderr}");
    stderr
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let bench = Bench::new();
    bench.file("a", "");
    for (args, words) in [
        (&["a"][..], "a: is no block device; name one, such as /dev/sda (lsblk lists them)"),
        (&["no/such"], "no/such: No such file or directory"),
        (&["--seconds", "0"], "--seconds"),
        (&["--buffer", "4"], "--buffer 4: expected a size from 64K to 4G"),
        (&["--try", "scheduler=bfq"], "DEVICE"),
        (&["--tracefs", "a"], "a: is no tracefs"),
    ] {
        let line = refusal(&bench, args);
        assert!(line.contains(words), "{line}");
    }
}

/// A watch that prints JSON, and its lines.
struct Watching {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Watching {
    /// Of the machine's device.
    fn new(machine: &Machine, args: &[&str]) -> Self {
        Self::of_disks(machine, &[&[machine.device()], args].concat())
    }

    /// Of the disks that are named, or of all.
    fn of_disks(machine: &Machine, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_elevon"))
            .args(["watch", "--output-format", "json", "--tracefs", machine.tracefs()])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command started");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines }
    }

    fn next_line(&mut self) -> Value {
        let line = self.lines.next().expect("a line").expect("UTF-8");
        let now: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(now["lost_events"], 0, "{now}");
        now
    }

    /// Returns the first disk in the next line.
    fn next(&mut self) -> Value {
        self.next_line()["disks"][0].clone()
    }

    /// Returns the disk of a node in the next line, if it has it.
    fn next_of(&mut self, node: &str) -> Option<Value> {
        let name = node.trim_start_matches("/dev/");
        let now = self.next_line();
        let mut disks = now["disks"].as_array().expect("disks").iter();
        disks.find(|disk| disk["name"] == name).cloned()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // A test that failed leaves none behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_real_device_has_the_figures_of_what_was_read() {
    let _alone = alone();
    let Some(machine) = Machine::new() else { return };
    let mut watching = Watching::new(&machine, &[]);
    // A line says that it watches.
    watching.next();
    machine.read(64);
    let (mut requests, mut bytes) = (0.0, 0.0);
    while requests < 64.0 {
        let disk = watching.next();
        requests += disk["read"]["requests"].as_f64().expect("a number");
        bytes += disk["read"]["bytes"].as_f64().expect("a number");
        if requests > 0.0 {
            let row = &disk["rows"][0];
            assert!(row["name"].as_str().is_some_and(|name| name.starts_with("dd (")), "{row}");
            assert!(row["in_device_ns"]["p99"].as_u64().is_some_and(|ns| ns > 0), "{row}");
        }
    }
    assert_eq!((requests, bytes), (64.0, 64.0 * 65536.0));
    signal(&watching.child, "INT");
    assert!(watching.child.wait().expect("it ended").success());
    assert_eq!(machine.instances(), [""; 0]);
}

#[test]
fn a_killed_watch_leaves_nothing_in_tracefs() {
    let _alone = alone();
    let Some(machine) = Machine::new() else { return };
    let mut watching = Watching::new(&machine, &[]);
    watching.next();
    assert_eq!(machine.instances().len(), 1);
    signal(&watching.child, "KILL");
    watching.child.wait().expect("it ended");
    // What it left behind goes by itself.
    while !machine.instances().is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn a_tried_setting_is_put_back() {
    let _alone = alone();
    let Some(machine) = Machine::new() else { return };
    let file = machine.queue_file("nr_requests");
    let setting = || std::fs::read_to_string(&file).expect("a setting");
    let before = setting();
    let bench = Bench::new();
    let line = refusal(&bench, &[machine.device(), "--try", "no_such_file=1"]);
    assert!(line.contains("expected a file of /sys/block/"), "{line}");
    let output = Command::new(env!("CARGO_BIN_EXE_elevon"))
        .args(["watch", machine.device(), "--try", "nr_requests=32", "--for", "5"])
        .args(["--tracefs", machine.tracefs()])
        .output()
        .expect("the command ran");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("nr_requests=32 is put back"), "{stdout}");
    assert_eq!(setting(), before);
}

#[test]
fn a_disk_that_comes_is_followed_until_it_goes() {
    let _alone = alone();
    // Where a machine has no other disk, the first one is watched from the start.
    let Some(first) = Machine::new() else { return };
    let mut watching = Watching::of_disks(&first, &[]);
    assert!(watching.next_of(first.device()).is_some());
    let Some(machine) = Machine::new() else { return };
    let device = machine.device().to_owned();
    while watching.next_of(&device).is_none() {}
    machine.read(32);
    let mut requests = 0.0;
    while requests < 32.0 {
        let disk = watching.next_of(&device).expect("it is there");
        requests += disk["read"]["requests"].as_f64().expect("a number");
    }
    assert_eq!(requests, 32.0);
    drop(machine);
    while watching.next_of(&device).is_some() {}
    signal(&watching.child, "INT");
    assert!(watching.child.wait().expect("it ended").success());
    assert_eq!(first.instances(), [""; 0]);
}

#[test]
fn inspect_says_what_watch_did_not_follow() {
    let bench = Bench::new();
    let mut text = "# tracer: nop\n# elevon capture 1\n# device: 8:0\n".to_owned();
    for second in [1, 2] {
        for at in 0..20 {
            let line = |us: u64, event: &str| {
                format!("db-11 [001] ..... {second}.{:09}: block_{event}\n", us * 1000)
            };
            let at = at * 1000;
            text += &line(at, "rq_issue: 8,0 R 4096 () 8 + 8 be,0,4 [db]");
            text += &line(at + 500, "rq_complete: 8,0 R () 8 + 8 be,0,4 [0]");
        }
        text += &format!("# not followed: {second}.025000000 to {second}.975000000\n");
    }
    bench.file("sampled.ftrace", &text);
    let said = bench.stdout(&["inspect", "sampled.ftrace"]);
    assert!(said.contains("gaps: 2 with an unknown number of events lost"), "{said}");
    let found: Value = serde_json::from_str(&bench.stdout(&[
        "inspect",
        "sampled.ftrace",
        "--output-format",
        "json",
    ]))
    .expect("JSON");
    assert_eq!(found["trace"]["gaps"], 2, "{found}");
    assert_eq!(found["trace"]["lost_events"], Value::Null);
    assert_eq!(found["trace"]["recorded"]["device"], "8:0");
    let notes = found["trace"]["notes"].to_string();
    assert!(notes.contains("a part of the time was followed"), "{notes}");
}
