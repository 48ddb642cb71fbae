//! Tests the log of a server in its forms.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::common::Bench;
use crate::common::nbd::Client;
use crate::common::served::Served;
use serde_json::{Value, json};

const CONFIG: &str = "\
listen = 'unix:s'
control = 'ctl'
[device.bad]
device = 'slots:slots=1,latency=100us,bandwidth=1GB/s,size=1GiB'
fault = 'error:sectors=2048-2055,status=medium'
[export.a]
tenant = 'shop/a'
[tenant.other]
weight = 5
";

/// Starts a server that logs to the file `log`; systemd says that this is its journal, if asked.
fn start(args: &[&str], is_journal: bool) -> Served {
    let bench = Bench::new();
    bench.file("c.toml", CONFIG);
    let log = File::create(bench.path("log")).expect("a file");
    let place = log.metadata().expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    let inode = place.ino() + u64::from(!is_journal);
    command.env("JOURNAL_STREAM", format!("{}:{inode}", place.dev()));
    command.args(["serve", "c.toml"]).args(args).stderr(log);
    Served::of_command(bench, command)
}

/// Lets a request fail, a reload be refused in part, and the server end; returns its log.
fn log_of(served: Served) -> String {
    let mut client = Client::open(&served.bench.path("s"), "a").expect("it listens");
    assert_eq!(client.read(2048 * 512, 4096).expect("an answer"), Err(5));
    drop(client);
    served.bench.file("c.toml", CONFIG.replace("unix:s", "unix:t"));
    elevon_testkit::signal(&served.child, "HUP");
    let is_reloaded =
        || fs::read_to_string(served.bench.path("log")).expect("UTF-8").contains("the lines above");
    while !is_reloaded() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    end(served)
}

/// Ends a server and returns its log, in which PEER stands for this process.
fn end(served: Served) -> String {
    let log = fs::read_to_string(served.ended().path("log")).expect("UTF-8");
    let uid = fs::metadata("/proc/self").expect("this process").uid();
    log.replace(&format!("pid {} of uid {uid}", std::process::id()), "PEER")
}

const IDLE: &str =
    "c.toml:8: tenant.other: pays for no export; an export's tenant is its name, or its key tenant";
const FAILED: &str = "device bad: READ of 4096 bytes at byte 1048576 failed: critical medium (errno 61), for PEER, which has export a of tenant shop/a; check the disk behind the device";
const REFUSED: &str = "c.toml: listen: takes a restart; it stays as it was";
const RELOADED: &str = "reloaded, except for the lines above";
const STOPPING: &str = "stopping once all I/O in flight has finished; a second signal, 1 s from now or later, stops at once";

#[test]
fn lines_of_text_are_the_default() {
    let expected = format!(
        "elevon: warning: {IDLE}\nelevon: {FAILED}\nelevon: {REFUSED}\nelevon: {RELOADED}\nelevon: SIGTERM: {STOPPING}\n"
    );
    assert_eq!(log_of(start(&[], false)), expected);
}

#[test]
fn the_journal_is_given_levels() {
    let expected = format!("<4>{IDLE}\n<3>{FAILED}\n<4>{REFUSED}\n<4>{RELOADED}\n<6>{STOPPING}\n");
    assert_eq!(log_of(start(&[], true)), expected);
    let grave = format!("<3>{FAILED}\n");
    let served = start(&["--log-format", "journal", "--log-level", "error"], false);
    let mut client = Client::open(&served.bench.path("s"), "a").expect("it listens");
    assert_eq!(client.read(2048 * 512, 4096).expect("an answer"), Err(5));
    drop(client);
    assert_eq!(end(served), grave);
}

#[test]
fn a_record_of_json_says_what_it_is_about() {
    let log = log_of(start(&["--log-format", "json", "--log-level", "debug"], true));
    let mut records: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for record in &mut records {
        let object = record.as_object_mut().expect("an object");
        let time = object.remove("time").expect("a time");
        let digits = time.as_str().expect("a text").replace(|c: char| c.is_ascii_digit(), "0");
        assert_eq!(digits, "0000-00-00T00:00:00.000000Z");
    }
    // A connection ends when it is noticed.
    records.sort_by_key(|record| record["message"] == "connection 0: ended");
    assert_eq!(
        records,
        [
            json!({ "level": "warning", "target": "configuration", "message": IDLE }),
            json!({ "level": "debug", "target": "connection", "message": "connection 0: opened export a, by PEER", "client": 0, "export": "a", "peer": "PEER" }),
            json!({ "level": "error", "target": "device", "message": FAILED, "device": "bad", "export": "a", "tenant": "shop/a",
                "client": 0, "peer": "PEER", "op": "read", "offset": 1_048_576, "bytes": 4096, "errno": 61 }),
            json!({ "level": "warning", "target": "reload", "message": REFUSED }),
            json!({ "level": "warning", "target": "reload", "message": RELOADED }),
            json!({ "level": "info", "target": "server", "message": STOPPING, "signal": 15 }),
            json!({ "level": "debug", "target": "connection", "message": "connection 0: ended", "client": 0, "export": "a", "tenant": "shop/a", "peer": "PEER" }),
        ]
    );
}

#[test]
fn a_server_that_cannot_start_says_so_in_its_form() {
    let bench = Bench::new();
    bench.file("c.toml", "listen = 5\n[export.x]\n");
    let output =
        bench.elevon(&["serve", "c.toml", "--log-format", "json"]).output().expect("it ran");
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let records: Vec<Value> =
        stderr.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(
        records.len() == 2 && records.iter().all(|record| record["level"] == "error"),
        "{stderr}"
    );
    assert_eq!(records[1]["message"], "c.toml:1:10: listen: expected a text in quotes");
    let bad = bench.elevon(&["serve", "c.toml", "--log-format", "xml"]).output().expect("it ran");
    assert_eq!(
        (bad.status.code(), String::from_utf8_lossy(&bad.stderr).lines().count()),
        (Some(2), 1)
    );
}

/// Such as one that only looks whether a server is there.
#[test]
fn a_client_that_leaves_before_it_has_an_export_is_no_warning() {
    let served = start(&["--log-level", "debug"], false);
    // A socket that is closed with a greeting in it is reset.
    let mut stream = UnixStream::connect(served.bench.path("s")).expect("it listens");
    stream.read_exact(&mut [0]).expect("a greeting");
    drop(stream);
    let log = || fs::read_to_string(served.bench.path("log")).expect("UTF-8");
    while !log().contains("connection 0: ") {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // It is told of at the level debug.
    assert!(log().contains("connection 0: ended\n"), "{}", log());
    served.end();
}

/// A pipe or a terminal that is not read takes no line, and the server goes on.
#[test]
fn a_log_that_nobody_reads_keeps_no_client_waiting() {
    let bench = Bench::new();
    bench.file("c.toml", CONFIG);
    let (stderr, mut reader) = UnixStream::pair().expect("two sockets");
    // There is no room from the start.
    stderr.set_nonblocking(true).expect("a socket");
    while (&stderr).write_all(&[b'-'; 64]).is_ok() {}
    stderr.set_nonblocking(false).expect("a socket");
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    command.args(["serve", "c.toml", "--log-level", "debug"]).stderr(OwnedFd::from(stderr));
    let served = Served::of_command(bench, command);
    // The command holds the other end of the socket, too, and is gone.
    let open = || Client::open(&served.bench.path("s"), "a").expect("it listens");
    let mut client = open();
    for _ in 0..1000 {
        drop(open());
    }
    for _ in 0..5 {
        assert_eq!(client.read(2048 * 512, 4096).expect("an answer"), Err(5), "it is logged");
        assert!(client.read(0, 4096).expect("an answer").is_ok());
    }
    drop(client);
    let text = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).map(|_| text)
    });
    served.end();
    let text = text.join().expect("no panic").expect("UTF-8");
    assert!(text.contains("connection 0: opened export a, by pid "), "the first are there");
    assert!(
        text.contains(" records of the log: its reader was too slow\n"),
        "{}",
        &text[text.len() - 2000..]
    );
}
