//! Tests what an operator is told and refused: commands over several devices, their lines in the
//! log, what waits, and configurations that a start would refuse.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::common::Bench;
use crate::common::nbd::Client;
use crate::common::nbdkit::{nbdkit, until};
use crate::common::served::{DISK, Served, ok};
use serde_json::Value;

const CONFIG: &str = "\
listen = 'unix:s'
control = 'ctl'
[device.one]
device = 'disk.img'
[export.a]
";

/// Starts a server that logs to the file `log`.
fn start(config: &str) -> Served {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    bench.file("c.toml", config);
    let log = File::create(bench.path("log")).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    command.args(["serve", "c.toml"]).stderr(log);
    Served::of_command(bench, command)
}

/// Runs `elevon ctl` and returns its exit status, stdout and stderr.
fn ctl(served: &Served, args: &[&str]) -> (Option<i32>, String, String) {
    let output = served.bench.elevon(&[&["ctl", "ctl"], args].concat()).output().expect("it ran");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_setting_that_one_device_refuses_is_set_on_none() {
    let config = "\
listen = 'unix:s'
control = 'ctl'
[device.one]
device = './disk.img'
[device.two]
device = 'slots:size=1MiB'
set = 'io_max=exact'
[export.a]
device = 'one'
tenant = 't'
[export.b]
device = 'two'
tenant = 't'
[tenant.t]
'io.max' = 'rbps=1048576'
";
    let served = start(config);
    let (status, _, stderr) = ctl(&served, &["set", "t", "limit = { rbps = '4M' }"]);
    assert!(
        status == Some(2)
            && stderr.contains("device two: tenant t has rbps in io.max and in limit"),
        "{stderr}"
    );
    let (_, stats, _) = ctl(&served, &["stats", "--output-format", "json"]);
    let stats: Value = serde_json::from_str(&stats).expect("JSON");
    for device in stats["devices"].as_array().expect("devices") {
        assert_eq!(
            device["tenants"][1]["settings"].as_object().map(|all| all.contains_key("limit")),
            Some(false)
        );
    }
    served.end();
}

#[test]
fn commands_that_change_something_have_a_line_in_the_log() {
    let served = start(CONFIG);
    for args in [&["set", "a", "weight = 300"][..], &["drain", "a"], &["resume"], &["exports"]] {
        assert_eq!(ctl(&served, args).0, Some(0));
    }
    assert_eq!(ctl(&served, &["set", "none", "weight = 300"]).0, Some(2));
    let bench = served.ended();
    let log = fs::read_to_string(bench.path("log")).expect("UTF-8");
    let commands: Vec<&str> = log.lines().filter(|line| line.contains("command ")).collect();
    let expected = [
        "elevon: command set a weight = 300: done",
        "elevon: command drain a: done",
        "elevon: command resume: done",
        "elevon: command set none weight = 300: refused: none: no such tenant; there are /, a",
    ];
    assert_eq!(commands, expected, "{log}");
}

/// Nothing of the tenant ends for as long as the test takes.
#[test]
fn what_waits_is_told_before_any_of_it_has_ended() {
    let served = start(&format!("{CONFIG}[tenant.a]\nlimit = {{ bps = 1000 }}\n"));
    let mut client = Client::open(&served.bench.path("s"), "a").expect("it listens");
    client.send_reads(&[(0, 65536), (1 << 20, 65536), (2 << 20, 65536)]).expect("sent");
    let explain = |served: &Served| ctl(served, &["explain", "a", "--seconds", "0.01"]).1;
    until("requests wait", || explain(&served).contains("2 requests wait, the oldest for "));
    let text = explain(&served);
    assert!(
        text.contains(", held by own limit bps=1000") && !text.contains("nothing of it waited"),
        "{text}"
    );
    // Its end would wait for them.
    drop(served);
}

#[test]
fn a_check_says_what_a_start_would_refuse_and_what_has_no_effect() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    let check = |config: &str| {
        bench.file("c.toml", config);
        bench.elevon(&["serve", "c.toml", "--check"]).output().expect("it ran")
    };
    for (old, new, words) in [
        ("'ctl'", "'none/ctl'", "c.toml:2:11: control: none/ctl: none is no folder"),
        ("unix:s", "unix:none/s", "c.toml:1:10: listen: unix:none/s: none is no folder"),
    ] {
        let output = check(&CONFIG.replace(old, new));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(words), "{stderr}");
    }
    let vain =
        CONFIG.replace("[export.a]", "seed = 5\n[export.a]\n[tenant.a]\nlimit = { burst = '1M' }");
    let output = check(&vain);
    ok(&output);
    let stderr = String::from_utf8_lossy(&output.stderr);
    for words in
        ["device.one: seed has no effect: only", "tenant.a: limit has no effect: it has no rate"]
    {
        assert!(stderr.contains(words), "{stderr}");
    }
}

/// A class counts where I/O of several classes meets.
#[test]
fn a_class_that_meets_no_other_is_told() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    let (idle, limit) = ("class = 'idle'\n", "limit = { iops = 100 }\n");
    let of_t = &format!("[tenant.t]\n{idle}");
    let with_limit = &format!("{of_t}{limit}");
    let below_limit = &format!("[tenant.v]\n{limit}[tenant.'v/t']\n{idle}");
    let within = "aileron serves by class within a tenant, and none below it pays for an export";
    for (scheduler, payer, other, tables, words) in [
        ("none", "t", "u", of_t, Some("none does not serve by class; mq-deadline does")),
        ("kyber", "t", "t/u", of_t, Some("kyber does not serve by class")),
        ("aileron", "t", "u", of_t, Some(within)),
        ("bfq", "t", "t/u", of_t, None),
        ("mq-deadline", "t", "u", of_t, None),
        (
            "mq-deadline",
            "t/v",
            "u",
            of_t,
            Some("a class is that of a tenant's own I/O, and it pays for no export"),
        ),
        ("none", "t", "u", with_limit, Some("none does not serve by class")),
        ("none", "t", "t/u", with_limit, None),
        ("aileron", "v/t", "v/u", below_limit, None),
    ] {
        let config = format!(
            "listen = 'unix:s'\n[device.one]\ndevice = './disk.img'\nscheduler = '{scheduler}'\n\
             [export.a]\ntenant = '{payer}'\nsize = '1MiB'\n[export.b]\ntenant = '{other}'\nstart = '1MiB'\n{tables}"
        );
        bench.file("c.toml", &config);
        let output = bench.elevon(&["serve", "c.toml", "--check"]).output().expect("it ran");
        ok(&output);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let says = |words: &str| stderr.contains(&format!("class has no effect: {words}"));
        assert!(words.map_or(!says(""), says), "{config}{stderr}");
    }
}

/// The device is open, whatever became of its name. Only a reload serves what a file has grown by.
#[test]
fn a_reload_knows_a_device_whose_file_is_gone_or_has_grown() {
    let served = start(CONFIG);
    let grown = File::options().write(true).open(served.bench.path("disk.img")).expect("the disk");
    grown.set_len(2 * DISK as u64).expect("room");
    served.bench.file(
        "c.toml",
        CONFIG.replace("[export.a]", &format!("[export.a]\nsize = '{}B'", 2 * DISK)),
    );
    let (status, _, stderr) = ctl(&served, &["reload"]);
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "what it has grown by is there");
    served.bench.file("c.toml", CONFIG);
    let size = 2 * DISK as u64;
    let log = || fs::read_to_string(served.bench.path("log")).expect("UTF-8");
    let is_logged = |words: &str| log().contains(&format!("elevon: device one: {words}\n"));
    grown.set_len(2 * size).expect("room");
    let words =
        format!("disk.img has grown from {size} bytes to {}: a reload serves it all", 2 * size);
    until("it is logged without a reload", || is_logged(&words));
    assert_eq!(ctl(&served, &["reload"]), (Some(0), String::new(), String::new()));
    let size = 2 * size;
    let words = format!("disk.img was cut from {size} bytes to 4096: reads beyond fail");
    grown.set_len(4096).expect("room");
    let (status, _, stderr) = ctl(&served, &["reload"]);
    assert_eq!(
        (status, stderr),
        (Some(1), format!("elevon: c.toml: device.one.device: {words}\n"))
    );
    until("it is logged without a reload, too", || is_logged(&words));
    grown.set_len(size).expect("room");
    assert_eq!(ctl(&served, &["reload"]), (Some(0), String::new(), String::new()));
    fs::remove_file(served.bench.path("disk.img")).expect("the disk");
    let (status, _, stderr) = ctl(&served, &["reload"]);
    let words = "disk.img was deleted: what is in it and what is written to it is lost at the end";
    assert_eq!(
        (status, stderr),
        (Some(1), format!("elevon: c.toml: device.one.device: {words}\n"))
    );
    let bench = served.ended();
    let log = fs::read_to_string(bench.path("log")).expect("UTF-8");
    assert!(
        log.contains(&format!("elevon: c.toml: device.one.device: {words}\n")),
        "a reload is logged: {log}"
    );
    assert!(log.contains("elevon: reloaded, except for the lines above\n"), "{log}");
}

/// Without a configuration: the tenants of the file, and none at all.
#[test]
fn a_single_export_tells_its_planned_changes_and_its_tenants() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    let limit = "limit = { bps = '64KiB', burst = '1GB', burst_ios = 7 }";
    bench.file(
        "t.toml",
        format!("[tenant.a]\n{limit}\n[[change]]\nat = '500ms'\ntenant = 'a'\nlimit = {{ iops = 400 }}\n"),
    );
    let args = [
        "serve",
        "disk.img",
        "--listen",
        "unix:s",
        "--control",
        "ctl",
        "--tenants",
        "t.toml",
        "--tenant",
        "a",
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    command.args(args).stderr(File::create(bench.path("log")).expect("a file"));
    let served = Served::of_command(bench, command);
    let explain = || ctl(&served, &["explain", "a", "--seconds", "0.01"]).1;
    let told = |limit: &str| explain().contains(&format!("  in force: limit = {limit}\n"));
    until("it is told", || told(r#"{ bps = "64KiB", iops = 400, burst = "1GB", burst_ios = 7 }"#));
    let (status, _, stderr) =
        ctl(&served, &["set", "a", "limit = { bps = '200MB', burst_ios = 7 }"]);
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert!(
        told(r#"{ bps = "200MB", burst_ios = 7 }"#),
        "a table replaces the other: {}",
        explain()
    );
    let (status, _, stderr) = ctl(&served, &["explain", "elsewhere"]);
    assert_eq!(
        (status, stderr.as_str()),
        (Some(2), "elevon: elsewhere: no such tenant; there are /, a\n")
    );
    let bench = served.ended();
    let log = fs::read_to_string(bench.path("log")).expect("UTF-8");
    assert!(
        log.contains(
            "elevon: device disk.img: the change at 0.5 s: tenant a: limit = { iops = 400 }\n"
        ),
        "{log}"
    );
}

#[test]
fn page_caches_of_all_devices_have_to_fit_the_machine() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    bench.file("other.img", vec![0; DISK]);
    let cache = format!("cache = '{}MiB'\n", (elevon_host::memory::total().get() >> 20) * 6 / 10);
    let config = CONFIG.replace(
        "[export.a]",
        &format!("{cache}[device.two]\ndevice = 'other.img'\n{cache}[export.a]\ndevice = 'one'"),
    );
    bench.file("c.toml", config);
    let output = bench.elevon(&["serve", "c.toml", "--check"]).output().expect("it ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2)
            && stderr.contains("elevon: c.toml:8:9: device.two.cache: "),
        "{stderr}"
    );
    assert!(
        stderr.contains(": with those of the devices before it ") && stderr.lines().count() == 1,
        "{stderr}"
    );
}

#[test]
fn a_tenant_that_left_the_file_is_in_no_metric() {
    let config = format!("metrics = 'unix:m'\n{CONFIG}");
    let served = start(&config);
    let mut client = Client::open(&served.bench.path("s"), "a").expect("it listens");
    assert_eq!(client.write(0, 0, &[1; 4096]).expect("an answer"), 0);
    let metrics = || {
        let mut socket = UnixStream::connect(served.bench.path("m")).expect("it listens");
        socket.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("sent");
        let mut text = String::new();
        socket.read_to_string(&mut text).expect("UTF-8");
        text
    };
    assert!(
        metrics().contains("elevon_requests_total{device=\"one\",tenant=\"a\",op=\"write\"} 1")
    );
    drop(client);
    served.bench.file("c.toml", config.replace("[export.a]", "[export.a]\ntenant = 'b'"));
    until("the client has left", || ctl(&served, &["reload"]).0 == Some(0));
    until("it is not told", || !metrics().contains("tenant=\"a\""));
    served.end();
}

#[test]
fn the_loss_of_the_server_of_a_disk_is_told() {
    let bench = Bench::new();
    let Some(nbdkit_of) = nbdkit(&bench, &["memory", "8M"]) else { return };
    bench.file("c.toml", CONFIG.replace("disk.img", "nbd+unix:///?socket=up"));
    let log = File::create(bench.path("log")).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    command.args(["serve", "c.toml"]).stderr(log);
    let served = Served::of_command(bench, command);
    let log = || fs::read_to_string(served.bench.path("log")).expect("UTF-8");
    let mut client = Client::open(&served.bench.path("s"), "a").expect("it listens");
    assert_eq!(client.write(0, 0, &[1; 4096]).expect("an answer"), 0);
    drop(nbdkit_of);
    fs::remove_file(served.bench.path("up")).expect("its socket");
    until("it is lost", || client.read(0, 4096).expect("an answer").is_err());
    until("no other is made", || {
        let _ = client.read(0, 4096).expect("an answer");
        log().contains("not connected again: nbd+unix:///?socket=up: ")
    });
    let _again = nbdkit(&served.bench, &["memory", "8M"]).expect("installed");
    until("it is there again", || client.read(0, 4096).expect("an answer").is_ok());
    // The answer may come before the line.
    until("it is told", || log().contains("connected again; "));
    let log = log();
    for words in [
        "the connection was lost; of its requests ",
        "connected again; sent again, since no flush covers it: 1 change",
    ] {
        assert_eq!(log.matches(words).count(), 1, "{words}: {log}");
    }
    let (_, stats, _) = ctl(&served, &["stats", "--output-format", "json"]);
    let stats: Value = serde_json::from_str(&stats).expect("JSON");
    assert_eq!(
        (&stats["devices"][0]["lost"], &stats["devices"][0]["failure"]),
        (&false.into(), &Value::Null)
    );
    drop(served);
}
