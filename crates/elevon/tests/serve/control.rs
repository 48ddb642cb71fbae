//! Tests commands to a server that runs: `elevon ctl`, SIGHUP, and that no request is lost by them.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::Bench;
use crate::common::nbd::Client;
use crate::common::served::{DISK, Served, ok};
use serde_json::Value;

const CONFIG: &str = "\
listen = 'unix:s'
control = 'ctl'
[device.fast]
device = './disk.img'
[export.a]
size = '2MiB'
[export.b]
start = '2MiB'
tenant = 'shop/b'
[tenant.a]
weight = 300
";

/// Runs `elevon ctl` and returns its exit status, stdout and stderr.
pub(crate) fn ctl(served: &Served, args: &[&str]) -> (Option<i32>, String, String) {
    let output = served.bench.elevon(&[&["ctl", "ctl"], args].concat()).output().expect("it ran");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

pub(crate) fn json(served: &Served, args: &[&str]) -> Value {
    let (status, stdout, stderr) = ctl(served, &[args, &["--output-format", "json"]].concat());
    assert_eq!(status, Some(0), "{args:?}: {stderr}");
    serde_json::from_str(&stdout).expect("JSON")
}

pub(crate) fn client(served: &Served, export: &str) -> Client {
    Client::open(&served.bench.path("s"), export).expect("it listens")
}

#[test]
fn a_server_tells_who_does_what_and_why() {
    let served = Served::config(CONFIG);
    let mut a = client(&served, "a");
    for block in 0..10 {
        assert_eq!(a.write(0, block * 4096, &[1; 4096]).expect("an answer"), 0);
    }
    let exports = json(&served, &["exports"]);
    let of = |index: usize, key: &str| exports["exports"][index][key].clone();
    assert_eq!(
        (of(0, "name"), of(0, "tenant"), of(1, "tenant")),
        ("a".into(), "a".into(), "shop/b".into())
    );
    assert_eq!(
        (of(0, "clients").as_array().map(Vec::len), of(1, "clients").as_array().map(Vec::len)),
        (Some(1), Some(0))
    );
    let stats = json(&served, &["stats"]);
    let tenants = stats["devices"][0]["tenants"].as_array().expect("tenants").clone();
    let paths: Vec<&str> = tenants.iter().filter_map(|tenant| tenant["path"].as_str()).collect();
    assert_eq!(paths, ["/", "a", "shop", "shop/b"]);
    assert_eq!(
        (tenants[1]["ios"]["write"].as_u64(), tenants[1]["bytes"]["write"].as_u64()),
        (Some(10), Some(40960))
    );
    assert_eq!(tenants[1]["settings"]["io.weight"], "default 300");
    let (status, text, _) = ctl(&served, &["stats"]);
    assert!(status == Some(0) && text.starts_with("device fast: "), "{text}");
    // A limit that is in the way is named.
    assert_eq!(ctl(&served, &["set", "a", "limit = { iops = 20 }"]).0, Some(0));
    let stop = Arc::new(AtomicBool::new(false));
    let writing = served.load("a", &stop);
    let explained = json(&served, &["explain", "a", "--seconds", "0.5"]);
    stop.store(true, Ordering::Relaxed);
    writing.join().expect("every write was answered");
    let causes = explained["devices"][0]["causes"].as_array().expect("causes").clone();
    let limited =
        causes.iter().find(|cause| cause["words"] == "own limit iops=20").expect("it is named");
    assert!(limited["share"].as_f64() > Some(50.0), "{explained}");
    let (_, text, _) = ctl(&served, &["explain", "shop/b", "--seconds", "0.01"]);
    assert!(
        text.starts_with("shop/b on device fast, over ") && text.contains("nothing of it waited"),
        "{text}"
    );
    served.end();
}

#[test]
fn what_cannot_be_done_is_said_in_a_line() {
    let served = Served::config(CONFIG);
    for (args, status, words) in [
        (&["set", "none", "weight = 5"][..], 2, "none: no such tenant"),
        (&["set", "a", "weight = 0"], 2, "weight: 0 is out of range"),
        (&["set", "a", "wieght = 5"], 2, "wieght: no such setting (did you mean `weight`?)"),
        (&["set", "a", ""], 2, "expected settings of a tenant"),
        (&["set", "a", "[device]"], 2, "expected settings of a tenant"),
        (&["set", "..", "weight = 5"], 2, "is no name of a tenant"),
        (&["explain", "none"], 2, "none: no such tenant"),
        (&["explain", "shop/bb"], 2, "shop/bb: no such tenant (did you mean `shop/b`?)"),
        (
            &["explain", "a", "--seconds", "100"],
            2,
            "--seconds 100: expected a time from 0.001 to 60",
        ),
        (
            &["foo"],
            2,
            "`foo`: expected a command: exports, connections, disconnect, stats, explain, set, fault, drain, ",
        ),
        (&["drai", "a"], 2, "(did you mean `drain`?)"),
        (&["drain", "none"], 2, "none: no such export"),
        (&["resume", "none"], 2, "none: no such export"),
    ] {
        let (code, stdout, stderr) = ctl(&served, args);
        assert_eq!((code, stdout.as_str()), (Some(status), ""), "{args:?}: {stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains(words), "{args:?}: {stderr}");
    }
    let elsewhere = served.bench.elevon(&["ctl", "none", "stats"]).output().expect("it ran");
    assert_eq!(elsewhere.status.code(), Some(1));
    let disks = served.bench.elevon(&["ctl", "s", "stats"]).output().expect("it ran");
    let stderr = String::from_utf8_lossy(&disks.stderr);
    assert!(
        disks.status.code() == Some(1) && stderr.contains("s: no answer to a command; is it "),
        "{stderr}"
    );
    served.end();
}

#[test]
fn connections_have_a_limit_in_all_and_for_an_export() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    let config = CONFIG
        .replace("listen", "max_connections = 3\nlisten")
        .replace("[export.b]", "max_connections = 1\n[export.b]");
    bench.file("c.toml", &config);
    let log = fs::File::create(bench.path("log")).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    command.args(["serve", "c.toml"]).stderr(log);
    let served = Served::of_command(bench, command);
    let open = |export| Client::open(&served.bench.path("s"), export);
    let mut a = open("a").expect("the first");
    assert!(open("a").is_err(), "an export of one client");
    let b = [open("b").expect("the second"), open("b").expect("the third")];
    assert!(open("b").is_err(), "three in all");
    assert_eq!(a.write(0, 0, &[1; 512]).expect("an answer"), 0, "who has one open keeps it");
    // The limits are others after a reload, and what is open stays open.
    served.bench.file(
        "c.toml",
        config.replace("max_connections = 3", "max_connections = 4").replace("= 1\n", "= 2\n"),
    );
    assert_eq!(ctl(&served, &["reload"]).0, Some(0));
    let more = open("a").expect("the second of the export, the fourth in all");
    assert!(open("b").is_err(), "four in all");
    drop((b, more));
    // The server learns of their end in its own time.
    crate::common::nbdkit::until("there is room again", || open("b").is_ok());
    assert_eq!(a.write(0, 0, &[1; 512]).expect("an answer"), 0);
    let bench = served.ended();
    let log = fs::read_to_string(bench.path("log")).expect("UTF-8");
    let one = ": export a is refused: max_connections of the export allows 1 connection\n";
    let all = ": export b is refused: max_connections allows 3 connections\n";
    assert!(log.contains(one) && log.contains(all), "{log}");
}

#[test]
fn a_drained_export_answers_what_came_and_is_closed() {
    let served = Served::config(CONFIG);
    let mut a = client(&served, "a");
    let sent: Vec<u64> =
        (0..50).map(|block| a.send(0, 1, block * 4096, 4096, &[3; 4096]).expect("sent")).collect();
    let mut b = client(&served, "b");
    // The first answer shows that the requests have come; the others may be in flight.
    let mut answered = vec![a.answer().expect("an answer")];
    assert_eq!(ctl(&served, &["drain", "a"]).0, Some(0));
    while let Ok(answer) = a.answer() {
        answered.push(answer);
    }
    assert!(
        answered.len() <= sent.len()
            && answered.iter().all(|(cookie, errno)| sent.contains(cookie) && *errno == 0)
    );
    let bytes = fs::read(served.bench.path("disk.img")).expect("the disk");
    let written = bytes[..50 * 4096].chunks(4096).filter(|block| block[0] == 3).count();
    assert_eq!(answered.len(), written, "every write that was done is answered");
    assert!(Client::open(&served.bench.path("s"), "a").is_err(), "nobody may open it");
    assert_eq!(b.write(0, 0, &[4; 512]).expect("an answer"), 0, "others go on");
    assert_eq!(ctl(&served, &["resume", "a"]).0, Some(0));
    let mut again = client(&served, "a");
    assert_eq!(again.read(0, 512).expect("an answer").map(|data| data[0]), Ok(3));
    assert_eq!(ctl(&served, &["stop"]).0, Some(0));
    let mut served = served;
    assert_eq!(served.child.wait().expect("it ended").code(), Some(0), "stopped by command");
}

/// Under a limit the answers come late. What a client sends meanwhile does not fail in its hands: a
/// client whose send fails drops the answers to come.
#[test]
fn a_client_that_sends_on_while_its_export_is_drained_gets_its_answers() {
    let served = Served::config(CONFIG);
    let mut a = client(&served, "a");
    assert_eq!(ctl(&served, &["set", "a", "limit = { iops = 40 }"]).0, Some(0));
    let mut send = || a.send(0, 3, 0, 0, &[]);
    let sent: Vec<u64> = (0..12).map(|_| send().expect("sent")).collect();
    let drain = std::thread::scope(|scope| {
        let drain = scope.spawn(|| ctl(&served, &["drain", "a"]).0);
        // It ends once the client has its answers.
        while !drain.is_finished() && send().is_ok() {
            std::thread::yield_now();
        }
        drain.join().expect("it ended")
    });
    assert_eq!(drain, Some(0));
    let mut answered = Vec::new();
    while let Ok((cookie, errno)) = a.answer() {
        assert_eq!(errno, 0);
        answered.push(cookie);
    }
    assert!(sent.iter().all(|cookie| answered.contains(cookie)), "{sent:?}: {answered:?}");
}

#[test]
fn a_reload_changes_what_can_change_and_refuses_the_rest_by_name() {
    let served = Served::config(CONFIG);
    let mut a = client(&served, "a");
    let new = CONFIG
        .replace("weight = 300", "limit = { wbps = '1GB' }")
        .replace("[export.a]\nsize = '2MiB'", "scheduler = 'bfq'\n[export.a]\nsize = '1MiB'")
        .replace(
            "tenant = 'shop/b'",
            "tenant = 'shop/c'\n[export.new]\nsize = '4096B'\nstart = '1MiB'",
        );
    served.bench.file("c.toml", &new);
    let (status, _, stderr) = ctl(&served, &["reload"]);
    assert_eq!(status, Some(1), "{stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].contains("c.toml: device.fast.scheduler: takes a restart"),
        "{stderr}"
    );
    assert!(
        lines[1].contains("c.toml:6: export.a: 1 connection has it open as it was; drain it first"),
        "{stderr}"
    );
    let exports = json(&served, &["exports"])["exports"].as_array().expect("a list").clone();
    let told: Vec<(&str, u64, &str)> = exports
        .iter()
        .map(|e| {
            (
                e["name"].as_str().expect("a name"),
                e["size"].as_u64().expect("bytes"),
                e["tenant"].as_str().expect("a path"),
            )
        })
        .collect();
    assert_eq!(told, [("a", 2 << 20, "a"), ("b", 6 << 20, "shop/c"), ("new", 4096, "new")]);
    let stats = json(&served, &["stats"]);
    let tenant = |path: &str| {
        stats["devices"][0]["tenants"]
            .as_array()
            .expect("tenants")
            .iter()
            .find(|t| t["path"] == path)
            .cloned()
    };
    let settings = tenant("a").expect("a")["settings"].clone();
    assert!(
        settings.get("io.weight").is_none()
            && settings["limit"].as_str().is_some_and(|text| text.contains("wbps = \"1GB\"")),
        "{settings}"
    );
    assert_eq!(a.write(0, 0, &[5; 512]).expect("an answer"), 0, "its connection goes on");
    // A configuration that is wrong changes nothing.
    served.bench.file("c.toml", new.replace("wbps", "wbsp"));
    let (status, _, stderr) = ctl(&served, &["reload"]);
    assert!(
        status == Some(2) && stderr.contains("c.toml:") && stderr.contains("no such limit"),
        "{stderr}"
    );
    // SIGHUP does the same, and an export that is gone is drained.
    drop(a);
    served
        .bench
        .file("c.toml", CONFIG.replace("[export.b]\nstart = '2MiB'\ntenant = 'shop/b'\n", ""));
    let mut b = client(&served, "b");
    elevon_testkit::signal(&served.child, "HUP");
    assert!(b.answer().is_err(), "it is sent away");
    assert!(Client::open(&served.bench.path("s"), "b").is_err(), "it is no longer there");
    served.end();
}

/// A device of which no export could be written was opened for reading only, and without the lock
/// of a page cache that is written.
#[test]
fn an_export_of_a_device_opened_for_reading_stays_read_only() {
    for cache in ["", "cache = '1MiB'\n"] {
        let config = format!(
            "listen = 'unix:s'\ncontrol = 'ctl'\n[device.fast]\ndevice = './disk.img'\n{cache}[export.a]\nread_only = true\n"
        );
        let served = Served::config(&config);
        served.bench.file("c.toml", config.replace("read_only = true\n", ""));
        // What is refused is refused as long as it is asked for.
        for _ in 0..2 {
            let (status, _, stderr) = ctl(&served, &["reload"]);
            let words =
                "export.a: takes a restart to be written: its device was opened for reading only";
            assert!(
                status == Some(1) && stderr.contains(words) && stderr.lines().count() == 1,
                "{stderr}"
            );
        }
        assert_eq!(json(&served, &["exports"])["exports"][0]["read_only"], true);
        assert_eq!(client(&served, "a").write(0, 0, &[1; 4096]).expect("an answer"), 1, "EPERM");
        let bench = served.ended();
        assert!(
            fs::read(bench.path("disk.img")).expect("the disk") == vec![0; DISK],
            "nothing was written"
        );
    }
}

/// A tenant that no file has any more is told as long as a client is charged to it, and has what
/// was counted of it when it comes back.
#[test]
fn a_tenant_that_leaves_the_file_is_no_longer_told() {
    let served = Served::config(CONFIG);
    let mut b = client(&served, "b");
    assert_eq!(b.write(0, 0, &[1; 4096]).expect("an answer"), 0);
    let told = || -> Vec<(String, Value)> {
        let stats = json(&served, &["stats"]);
        let tenants = stats["devices"][0]["tenants"].as_array().expect("tenants").iter();
        tenants
            .map(|tenant| {
                (
                    tenant["path"].as_str().expect("a path").to_owned(),
                    tenant["ios"]["write"].clone(),
                )
            })
            .collect()
    };
    let paths = || told().into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    served.bench.file("c.toml", CONFIG.replace("shop/b", "b"));
    assert_eq!(ctl(&served, &["reload"]).0, Some(1), "b is open as it was");
    assert_eq!(paths(), ["/", "a", "shop", "shop/b", "b"]);
    drop(b);
    crate::common::nbdkit::until("it is no longer told", || paths() == ["/", "a", "b"]);
    assert_eq!(ctl(&served, &["set", "shop/b", "weight = 5"]).0, Some(2), "it is not there");
    served.bench.file("c.toml", CONFIG);
    assert_eq!(ctl(&served, &["reload"]).0, Some(0));
    let told = told();
    assert_eq!(told[3], ("shop/b".to_owned(), 1.into()));
    assert_eq!(told.len(), 4, "{told:?}");
    served.end();
}

/// What is set by command follows the kernel's rules, and what has no effect is said.
#[test]
fn a_command_sets_by_the_rules_of_the_configuration() {
    let served = Served::config(&format!(
        "kernel = '6.1'\n{}",
        CONFIG.replace("[export.a]", "scheduler = 'none'\n[export.a]")
    ));
    let (status, _, stderr) = ctl(&served, &["set", "a", "class = 'promote-to-rt'"]);
    assert!(status == Some(2) && stderr.contains("promote-to-rt"), "{stderr}");
    for (setting, words) in [
        (
            "weight = 300",
            "device fast: nothing here divides the device by weights; what does is --scheduler aileron or bfq",
        ),
        (
            "reserve = { iops = 5 }",
            "device fast: nothing here keeps a reserve; --scheduler aileron does",
        ),
    ] {
        let (status, _, stderr) = ctl(&served, &["set", "a", setting]);
        assert!(
            status == Some(0) && stderr.contains(words) && stderr.lines().count() == 1,
            "{setting}: {stderr}"
        );
    }
    let (status, _, stderr) = ctl(&served, &["set", "a", "limit = { iops = 5 }"]);
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    served.end();
}

/// With io_max=exact a rate is in `io.max` or in `limit`, in what a command sets as in a file.
#[test]
fn a_command_does_not_replace_an_exact_io_max() {
    let exact = CONFIG.replace("'./disk.img'", "'./disk.img'\nset = ['io_max=exact']");
    let served = Served::config(&exact.replace("weight = 300", "'io.max' = 'rbps=1048576'"));
    for setting in
        ["limit = { rbps = '4M' }", "limit = 'max'", "weight = 5\nlimit = { rbps = '4M' }"]
    {
        let (status, _, stderr) = ctl(&served, &["set", "a", setting]);
        assert_eq!(status, Some(2), "{setting}: {stderr}");
    }
    let (_, _, stderr) = ctl(&served, &["set", "a", "limit = 'max'"]);
    assert!(
        stderr.contains("tenant a has rbps in io.max and in limit, which then set the same limit"),
        "{stderr}"
    );
    let settings =
        |served: &Served| json(served, &["stats"])["devices"][0]["tenants"][1]["settings"].clone();
    assert_eq!(
        settings(&served),
        serde_json::json!({ "io.max": "rbps=1048576 wbps=max riops=max wiops=max" })
    );
    assert_eq!(ctl(&served, &["set", "a", "limit = { wbps = '4M' }"]).0, Some(0));
    // A file may move the rate.
    served.bench.file("c.toml", exact.replace("weight = 300", "limit = { rbps = '2M' }"));
    assert_eq!(ctl(&served, &["reload"]).0, Some(0));
    assert_eq!(settings(&served), serde_json::json!({ "limit": "{ rbps = \"2MB\" }" }));
    assert_eq!(ctl(&served, &["set", "a", "limit = { rbps = '4M' }"]).0, Some(0));
    served.end();
}

/// A device under another name is another device, and no two devices are on one file.
#[test]
fn a_device_that_is_served_cannot_be_renamed_in_one_step() {
    let served = Served::config(CONFIG);
    let mut a = client(&served, "a");
    let new = CONFIG.replace("device.fast", "device.quick").replace("weight = 300", "weight = 400");
    served.bench.file("c.toml", new);
    let (status, _, stderr) = ctl(&served, &["reload"]);
    assert_eq!((status, stderr.lines().count()), (Some(2), 1), "{stderr}");
    assert!(
        stderr.contains("c.toml:4:10: device.quick.device: is device.fast, which is served"),
        "{stderr}"
    );
    assert_eq!(a.write(0, 0, &[1; 512]).expect("an answer"), 0, "its connection goes on");
    drop(client(&served, "b"));
    let stats = json(&served, &["stats"]);
    assert_eq!(stats["devices"][0]["tenants"][1]["settings"]["io.weight"], "default 300");
    served.end();
}

/// A range that the device does not have makes the whole configuration wrong.
#[test]
fn a_reload_with_a_wrong_range_changes_nothing() {
    let served = Served::config(CONFIG);
    let wrong =
        CONFIG.replace("weight = 300", "weight = 400").replace("start = '2MiB'", "start = '1GiB'");
    served.bench.file("c.toml", format!("{wrong}[export.new]\nsize = '4096B'\n"));
    let (status, _, stderr) = ctl(&served, &["reload"]);
    assert!(status == Some(2) && stderr.lines().count() == 1, "{stderr}");
    assert!(
        stderr.contains("export.b: begins at byte 1073741824; the device has 8388608 bytes"),
        "{stderr}"
    );
    served.bench.file("c.toml", wrong.replace("size = '2MiB'", "start = '2GiB'"));
    let (_, _, stderr) = ctl(&served, &["reload"]);
    let has_head = |line: &str| line.starts_with("elevon: c.toml:");
    assert!(stderr.lines().count() == 2 && stderr.lines().all(has_head), "{stderr}");
    assert_eq!(json(&served, &["exports"])["exports"].as_array().map(Vec::len), Some(2));
    let stats = json(&served, &["stats"]);
    assert_eq!(stats["devices"][0]["tenants"][1]["settings"]["io.weight"], "default 300");
    served.end();
}

/// The default export is the first of the file, after a reload as after a restart.
#[test]
fn exports_are_in_the_order_of_the_file_that_was_read_last() {
    let served = Served::config(CONFIG);
    let (a, b) = ("[export.a]\nsize = '2MiB'\n", "[export.b]\nstart = '2MiB'\ntenant = 'shop/b'\n");
    let new = CONFIG.replace(a, "").replace(b, &format!("[export.c]\n{b}{a}"));
    served.bench.file("c.toml", new);
    assert_eq!(ctl(&served, &["reload"]).0, Some(0));
    let exports = json(&served, &["exports"]);
    let names: Vec<&str> = exports["exports"]
        .as_array()
        .expect("a list")
        .iter()
        .flat_map(|e| e["name"].as_str())
        .collect();
    assert_eq!(names, ["c", "b", "a"]);
    served.end();
}

/// fio writes and verifies while limits and weights change under it.
#[test]
fn changes_under_load_lose_no_request() {
    let served = Served::config(CONFIG);
    let Some(mut fio) = elevon_testkit::tool("fio") else { return };
    let uri = format!("--uri={}", served.of_export("a"));
    let args = [
        "--name=a",
        "--ioengine=nbd",
        &uri,
        "--rw=randwrite",
        "--bs=4k",
        "--size=2m",
        "--loops=20",
        "--iodepth=16",
        "--verify=crc32c",
    ];
    let fio = fio
        .current_dir(served.bench.path(""))
        .args(args)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it started");
    let settings = [
        "weight = 10",
        "limit = { iops = 3000 }",
        "'io.max' = 'wbps=40000000'",
        "class = 'idle'",
        "limit = 'max'",
        "weight = 900",
    ];
    for setting in settings.iter().cycle().take(18) {
        assert_eq!(ctl(&served, &["set", "a", setting]).0, Some(0), "{setting}");
    }
    ctl(&served, &["set", "a", "limit = 'max'"]);
    ctl(&served, &["set", "a", "'io.max' = 'wbps=max'"]);
    ok(&fio.wait_with_output().expect("it ended"));
    served.end();
}

/// What a program writes to the socket is not taken for something else.
#[test]
fn a_command_that_is_not_understood_does_nothing() {
    let served = Served::config(CONFIG);
    let ask = |command: &[u8]| -> String {
        let mut socket = UnixStream::connect(served.bench.path("ctl")).expect("it listens");
        socket.write_all(&[command, b"\n"].concat()).expect("it is read");
        socket.shutdown(std::net::Shutdown::Write).expect("a socket");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("UTF-8");
        assert_eq!(answer.lines().count(), 1, "{answer}");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        answer["error"].as_str().expect("a refusal").to_owned()
    };
    let span = "expected a whole number of milliseconds from 1 to 60000";
    for (command, words) in [
        // Not every export.
        (r#"{"command":"drain","export":5}"#, "export: 5: expected a text".to_owned()),
        (r#"{"command":"drain","export":["a"]}"#, "export: [\"a\"]: expected a text".to_owned()),
        (r#"{"command":"explain","tenant":"a","over_ms":-1}"#, format!("over_ms: -1: {span}")),
        (r#"{"command":"explain","tenant":"a","over_ms":"5"}"#, format!("over_ms: \"5\": {span}")),
        (
            r#"{"command":"explain","tenant":"a","over_ms":60001}"#,
            format!("over_ms: 60001: {span}"),
        ),
        (
            r#"{"command":"set","setting":"weight = 1"}"#,
            "`tenant` is missing: expected a text".to_owned(),
        ),
    ] {
        assert_eq!(ask(command.as_bytes()), words, "{command}");
    }
    // The rest of a long line is no command.
    assert_eq!(ask(&[b' '; 70_000]), "a command of more than 65536 bytes");
    for (setting, words) in [
        ("", "elevon: ``: expected settings of a tenant, such as weight = 200\n"),
        ("weight", "elevon: weight: key with no value, expected `=`\n"),
        ("wait = 1", "elevon: wait: no such setting"),
    ] {
        let (status, _, stderr) = ctl(&served, &["set", "a", setting]);
        assert!(status == Some(2) && stderr.starts_with(words), "{setting}: {stderr}");
    }
    let exports = json(&served, &["exports"]);
    assert!(
        exports["exports"]
            .as_array()
            .is_some_and(|all| all.iter().all(|one| one["drained"] == false))
    );
    served.end();
}
