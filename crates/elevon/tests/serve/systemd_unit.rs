//! Tests the units for systemd: their form, what they expose, and that the sandbox has all that a
//! server needs; and that a server goes without io_uring, as containers have it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::Bench;
use crate::common::nbd::Client;
use crate::common::served::DISK;
use elevon_testkit::{denied, tool};

/// Writes the units, with the command under test, to a folder, and returns their paths.
fn units(bench: &Bench) -> [PathBuf; 2] {
    ["service", "socket"].map(|kind| {
        let name = format!("elevon-serve@.{kind}");
        let text = fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(&name),
        );
        let text = text.expect("a unit").replace("/usr/bin/elevon", env!("CARGO_BIN_EXE_elevon"));
        bench.file(&name, text);
        bench.path(&name)
    })
}

#[test]
fn systemd_reads_the_units_without_a_complaint() {
    let Some(mut analyze) = tool("systemd-analyze") else { return };
    let bench = Bench::new();
    let output = analyze.args(["verify", "--man=no"]).args(units(&bench)).output().expect("it ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    // Before 253 there is one type less; the line before it is kept.
    let complaints: Vec<&str> =
        stderr.lines().filter(|line| !line.ends_with("ignoring: notify-reload")).collect();
    assert!(output.status.success() && complaints.is_empty(), "{stderr}");
}

#[test]
fn the_unit_exposes_little() {
    let Some(mut analyze) = tool("systemd-analyze") else { return };
    let bench = Bench::new();
    let [service, _] = units(&bench);
    // Ten times the figure that is printed: 1.6 for a service with the network and block devices.
    let output = analyze
        .args(["security", "--offline=true", "--no-pager", "--threshold=20"])
        .arg(service)
        .output();
    let output = output.expect("it ran");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Runs a server under strace with these options, writes and reads through it, and returns what
/// strace has written, and what the server said; `None` if processes cannot be traced here.
fn traced(bench: &Bench, options: &[&str]) -> Option<(String, String)> {
    let mut strace = tool("strace")?;
    bench.file("disk.img", vec![0; DISK]);
    bench.file(
        "c.toml",
        "listen = ['unix:s', 'tcp:127.0.0.1:0']\ncontrol = 'ctl'\nmetrics = 'unix:m'\n\
         [device.d]\ndevice = './disk.img'\n[export.a]\n",
    );
    strace.current_dir(bench.path("")).args(["-f", "-qq", "-o", "trace"]).args(options);
    strace.args([env!("CARGO_BIN_EXE_elevon"), "serve", "c.toml"]);
    let mut child =
        strace.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("strace started");
    let began = Instant::now();
    let mut client = loop {
        if let Ok(client) = Client::open(&bench.path("s"), "a") {
            break client;
        }
        if child.try_wait().expect("a child").is_some() {
            denied("processes cannot be traced here");
            return None;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it listens");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(client.write(1, 0, &[5; 65536]).expect("an answer"), 0);
    assert_eq!(client.read(0, 65536).expect("an answer"), Ok(vec![5; 65536]));
    for command in [4, 6] {
        // TRIM and WRITE_ZEROES.
        client.send(0, command, 0, 65536, &[]).expect("sent");
        assert_eq!(client.answer().expect("an answer").1, 0);
    }
    assert_eq!(client.flush().expect("an answer"), 0);
    assert_eq!(crate::common::http::get(&bench.path("m"), "/metrics", "").status, 200);
    for command in [&["reload"][..], &["set", "a", "weight = 5"], &["stop"]] {
        bench.stdout(&[&["ctl", "ctl"], command].concat());
    }
    let output = child.wait_with_output().expect("it ended");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    Some((fs::read_to_string(bench.path("trace")).expect("the trace"), said))
}

/// Returns the system calls of sets and calls as a unit names them.
fn calls_of(names: &[&str]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for name in names {
        if !name.starts_with('@') {
            all.insert((*name).to_owned());
            continue;
        }
        let output =
            Command::new("systemd-analyze").args(["syscall-filter", "--no-pager", name]).output();
        let text = String::from_utf8(output.expect("it ran").stdout).expect("UTF-8");
        let inner = text
            .lines()
            .skip(1)
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        all.extend(calls_of(&inner.collect::<Vec<_>>()));
    }
    all
}

#[test]
fn the_sandbox_allows_what_a_server_does() {
    let (Some(_), bench) = (tool("systemd-analyze"), Bench::new()) else { return };
    let Some((trace, _)) = traced(&bench, &[]) else { return };
    let unit = fs::read_to_string(&units(&bench)[0]).expect("the unit");
    let mut allowed = BTreeSet::new();
    for line in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        match line.strip_prefix('~') {
            Some(refused) => {
                let refused = calls_of(&refused.split(' ').collect::<Vec<_>>());
                allowed.retain(|call| !refused.contains(call));
            }
            None => allowed.extend(calls_of(&line.split(' ').collect::<Vec<_>>())),
        }
    }
    // Beyond the unit's lists, systemd allows what starting a process takes.
    allowed.extend(calls_of(&["@default"]));
    let calls: Vec<(&str, &str)> = trace
        .lines()
        .filter_map(|line| line.split_once(' ')?.1.trim_start().split_once('('))
        .collect();
    let made: BTreeSet<&str> = calls
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_'))
        .collect();
    assert!(made.contains("io_uring_enter") || made.contains("pwritev"), "{made:?}");
    let refused: Vec<&&str> = made.iter().filter(|name| !allowed.contains(**name)).collect();
    assert!(refused.is_empty(), "the unit refuses {refused:?}");
    for (name, rest) in calls {
        let is_writable_code = rest.contains("PROT_WRITE") && rest.contains("PROT_EXEC");
        assert!(!is_writable_code, "MemoryDenyWriteExecute= refuses {name}({rest}");
        let is_family =
            ["AF_UNIX", "AF_INET,", "AF_INET6"].iter().any(|family| rest.starts_with(family));
        assert!(name != "socket" || is_family, "RestrictAddressFamilies= refuses {name}({rest}");
    }
}

/// Profiles of containers refuse io_uring with EPERM.
#[test]
fn without_io_uring_a_server_uses_threads() {
    let bench = Bench::new();
    let Some((trace, said)) = traced(&bench, &["-e", "inject=io_uring_setup:error=EPERM"]) else {
        return;
    };
    assert!(
        trace.contains("io_uring_setup") && !trace.contains("io_uring_enter"),
        "it was refused"
    );
    assert!(
        said.contains("io_uring is not available (Operation not permitted): using a pool of"),
        "{said}"
    );
}
