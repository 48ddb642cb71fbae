//! Tests who reaches what of `elevon serve`, and what becomes of those who are sent away.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::Bench;
use crate::common::nbd::{Client, WRITE};
use crate::common::served::{DISK, Served};

/// Runs `elevon ctl` and returns its exit status, stdout and stderr.
fn ctl(bench: &Bench, args: &[&str]) -> (Option<i32>, String, String) {
    let output = bench.elevon(&[&["ctl", "ctl"], args].concat()).output().expect("it ran");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn json(bench: &Bench, args: &[&str]) -> Value {
    let (status, stdout, stderr) = ctl(bench, &[args, &["--output-format", "json"]].concat());
    assert_eq!(status, Some(0), "{args:?}: {stderr}");
    serde_json::from_str(&stdout).expect("JSON")
}

/// A simulated device is served by threads, which move the bytes of its clients.
const SLOW: &str = "\
listen = 'unix:s'
control = 'ctl'
[device.slow]
device = 'slots:slots=1,latency=20ms,bandwidth=1GB/s,size=8MiB'
[export.a]
";

/// The same of a file, whose clients are in the ring of its device.
const LIMITED: &str = "\
listen = 'unix:s'
control = 'ctl'
[device.d]
device = './disk.img'
[export.a]
[tenant.a]
limit = { iops = 50 }
";

#[test]
fn a_client_of_threads_gets_what_is_under_way_when_the_server_ends() {
    gets_what_is_under_way(SLOW);
}

#[test]
fn a_client_of_the_ring_gets_what_is_under_way_when_the_server_ends() {
    gets_what_is_under_way(LIMITED);
}

/// The client sends one more request after each answer, as busy ones do.
fn gets_what_is_under_way(config: &str) {
    const SENT: u64 = 100;
    let served = Served::config(config);
    let mut client = Client::open(&served.bench.path("s"), "a").expect("it listens");
    let (begun, has_begun) = channel();
    let thread = std::thread::spawn(move || {
        for block in 0..SENT {
            client.send(0, WRITE, block * 4096, 4096, &[7; 4096]).expect("sent");
        }
        let mut answers = 0;
        while let Ok((cookie, errno)) = client.answer() {
            assert_eq!(errno, 0, "request {cookie}");
            answers += 1;
            if answers == 1 {
                begun.send(()).expect("it is waited for");
            }
            if client.send(0, WRITE, 0, 4096, &[7; 4096]).is_err() && answers < SENT {
                panic!("the socket is shut after {answers} answers");
            }
        }
        answers
    });
    has_begun.recv().expect("the first answer");
    let began = Instant::now();
    let (status, _, stderr) = ctl(&served.bench, &["stop", "--wait"]);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(began.elapsed() < Duration::from_secs(9), "it had what it needed long before that");
    assert!(!served.bench.path("s").exists(), "the server has ended");
    let answers = thread.join().expect("no panic");
    assert!(answers >= SENT, "{answers} answers of {SENT}");
}

const OWNERS: &str = "\
listen = 'unix:s'
socket_mode = '0640'
control = 'ctl'
[device.d]
device = './disk.img'
[export.mine]
size = '1MiB'
clients = ['uid:UID', 'gid:4242']
[export.others]
start = '1MiB'
size = '1MiB'
clients = ['uid:4242']
[export.apart]
start = '2MiB'
listen = ['unix:t', 'unix:u']
[export.group]
start = '3MiB'
listen = 'unix:g'
socket_mode = '0600'
socket_group = 'GID'
";

fn names(bench: &Bench, socket: &str) -> Option<Vec<String>> {
    let uri = format!("nbd+unix:///?socket={}", bench.path(socket).display());
    let output =
        elevon_testkit::tool("nbdinfo")?.args(["--list", "--json", &uri]).output().expect("it ran");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let names = told["exports"].as_array().expect("a list").iter();
    Some(names.map(|export| export["export-name"].as_str().expect("a name").to_owned()).collect())
}

#[test]
fn processes_and_addresses_open_what_is_theirs() {
    let bench = Bench::new();
    let own = std::fs::metadata("/proc/self").expect("a process");
    bench.file("disk.img", vec![0; DISK]);
    bench.file(
        "c.toml",
        OWNERS.replace("UID", &own.uid().to_string()).replace("GID", &own.gid().to_string()),
    );
    let served = Served::run(bench, &["c.toml"]);
    for (socket, expected) in [("s", 0o640), ("t", 0o640), ("u", 0o640), ("g", 0o600)] {
        let metadata = std::fs::metadata(served.bench.path(socket)).expect("a socket");
        assert_eq!(
            (metadata.permissions().mode() & 0o777, metadata.gid()),
            (expected, own.gid()),
            "{socket}"
        );
    }
    for (socket, expected) in
        [("s", &["mine"]), ("t", &["apart"]), ("u", &["apart"]), ("g", &["group"])]
    {
        if let Some(names) = names(&served.bench, socket) {
            assert_eq!(names, expected, "{socket}");
        }
    }
    let opens =
        |socket: &str, export: &str| Client::open(&served.bench.path(socket), export).is_ok();
    assert!(opens("s", "mine") && opens("t", "apart") && opens("u", ""));
    assert!(!opens("s", "others") && !opens("s", "apart") && !opens("t", "mine"));
    served.end();
}

#[test]
fn connections_are_told_and_can_be_ended() {
    let served = Served::config(&SLOW.replace("[device", "metrics = 'unix:m'\n[device"));
    let open = || Client::open(&served.bench.path("s"), "a").expect("it listens");
    let (mut one, mut other) = (open(), open());
    let all = json(&served.bench, &["connections"]);
    let all = all["connections"].as_array().expect("a list").clone();
    assert_eq!(all.len(), 2);
    for of in &all {
        assert_eq!(
            (of["pid"].as_u64(), of["export"].as_str()),
            (Some(std::process::id().into()), Some("a"))
        );
    }
    let (_, text, _) = ctl(&served.bench, &["connections"]);
    assert!(text.contains(&format!("pid {} of uid ", std::process::id())), "{text}");
    let metrics = crate::common::http::get(&served.bench.path("m"), "/metrics", "").body;
    assert!(
        metrics.contains(
            "elevon_connection_info{connection=\"0\",export=\"a\",tenant=\"a\",peer=\"pid "
        ),
        "{metrics}"
    );
    let (status, _, stderr) = ctl(&served.bench, &["disconnect", "127.0.0.1"]);
    assert_eq!(status, Some(2), "none is from there");
    assert!(stderr.contains("no connection has this number, address, name or export"), "{stderr}");
    // What it has asked for is answered.
    one.send(0, WRITE, 0, 4096, &[1; 4096]).expect("sent");
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(ctl(&served.bench, &["disconnect", "0"]).0, Some(0));
    assert_eq!(one.answer().expect("an answer").1, 0);
    assert!(one.answer().is_err(), "it is sent away");
    assert_eq!(other.write(0, 0, &[2; 4096]).expect("it stays"), 0);
    assert_eq!(ctl(&served.bench, &["disconnect", "a"]).0, Some(0), "by its export");
    assert!(other.write(0, 0, &[2; 4096]).is_err());
    assert_eq!(open().write(0, 0, &[3; 4096]).expect("it may come again"), 0);
    served.end();
}

#[test]
fn what_the_start_refuses_the_check_refuses() {
    let long = "x".repeat(150);
    for line in [
        format!("listen = 'unix:{long}'"),
        format!("listen = 'unix:s'\ncontrol = '{long}'"),
        format!("listen = 'unix:s'\nmetrics = 'unix:{long}'"),
        "listen = 'unix:s'\nsocket_group = 'no such group'".to_owned(),
        "listen = 'unix:s'\nsocket_mode = '999'".to_owned(),
        "listen = 'unix:s'\n[export.y]\nlisten = 'unix:y'\n[export.z]\nlisten = 'unix:y'\nsocket_mode = '0600'"
            .to_owned(),
    ] {
        let bench = Bench::new();
        bench.file("disk.img", vec![0; DISK]);
        bench.file("c.toml", format!("{line}\n[device.d]\ndevice = './disk.img'\n[export.a]\n"));
        for args in [&["serve", "c.toml", "--check"][..], &["serve", "c.toml"]] {
            let output = bench.elevon(args).output().expect("it ran");
            assert_eq!(output.status.code(), Some(2), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// A client may have written an image to its disk, so it is served, and said to be one unless
/// `format = "raw"` says that its bytes are meant.
#[test]
fn images_and_configurations_are_served_with_a_warning_unless_raw_is_asked_for() {
    let bench = Bench::new();
    bench.file("disk.img", [&b"QFI\xfb\0\0\0\x03"[..], &vec![0; DISK - 8]].concat());
    bench.file("plain.img", vec![0; DISK]);
    bench.file("shop.conf", format!("# {}\n[device.d]\ndevice = './d'\n", "x".repeat(600)));
    let check = |config: &str| {
        bench.file("c.toml", format!("listen = 'unix:s'\n{config}[export.a]\ndevice = 'd'\n"));
        let output = bench.elevon(&["serve", "c.toml", "--check"]).output().expect("it ran");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let other =
        "[pool.p]\ndevices = ['e', 'd']\n[device.e]\ndevice = './plain.img'\nformat = 'raw'\n";
    let warned = [
        (
            "[device.d]\ndevice = './disk.img'\n".to_owned(),
            "./disk.img: is an image of qcow2, and its own bytes",
        ),
        (format!("{other}[device.d]\ndevice = './disk.img'\n"), "./disk.img: is an image of qcow2"),
        (
            "[device.d]\ndevice = './shop.conf'\n".to_owned(),
            "./shop.conf: is a configuration of a server",
        ),
    ];
    for (config, words) in warned {
        let (code, stderr) = check(&config);
        assert_eq!(code, Some(0), "{config}: {stderr}");
        assert!(
            stderr.lines().filter(|line| line.contains(words)).count() == 1,
            "{config}: {stderr}"
        );
    }
    assert_eq!(
        check("[device.d]\ndevice = './disk.img'\nformat = 'raw'\n"),
        (Some(0), String::new())
    );
    let (code, stderr) = check("[device.d]\ndevice = './c.toml'\nformat = 'raw'\n");
    assert!(code == Some(2) && stderr.contains("./c.toml: is this configuration"), "{stderr}");
    let (code, stderr) = check("[device.d]\ndevice = './d'\nformat = 'qcow2'\n");
    assert!(
        code == Some(2) && stderr.contains("c.toml:4:10: device.d.format: qcow2: expected \"raw\""),
        "{stderr}"
    );

    let served = Served::run(bench, &["disk.img", "--listen", "unix:s", "--format", "raw"]);
    let mut client = Client::open(&served.bench.path("s"), "").expect("it listens");
    assert_eq!(client.read(0, 4).expect("an answer"), Ok(b"QFI\xfb".to_vec()));
    served.end();
}

/// A machine that shares its disk with no other writer, as machines do unless they are told.
#[test]
fn an_image_that_qemu_has_is_not_served_and_one_that_is_served_is_not_qemus() {
    let Some(mut qemu) = elevon_testkit::tool("qemu-system-x86_64") else { return };
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    let drive = format!("file={},format=raw,if=virtio", bench.path("disk.img").display());
    let args = ["-S", "-display", "none", "-nodefaults", "-drive", &drive];
    let mut child = qemu.args(args).stdin(Stdio::null()).spawn().expect("it ran");
    let inode = std::fs::metadata(bench.path("disk.img")).expect("a file").ino();
    let is_locked = || {
        let locks = std::fs::read_to_string("/proc/locks").expect("the kernel tells them");
        locks.lines().any(|line| line.contains(&format!(":{inode} 201 201")))
    };
    while !is_locked() {
        assert!(child.try_wait().expect("a process").is_none(), "it has ended without the lock");
        std::thread::sleep(Duration::from_millis(5));
    }
    let refused =
        bench.elevon(&["serve", "disk.img", "--listen", "unix:s"]).output().expect("it ran");
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("has it and does not share it"),
        "{refused:?}"
    );
    let served = Served::run(bench, &["disk.img", "--listen", "unix:s"]);
    let mut qemu = elevon_testkit::tool("qemu-system-x86_64").expect("it is there");
    // It would run for ever if it had the disk.
    let output = qemu.args(args).stdin(Stdio::null()).output().expect("it ran");
    assert!(!output.status.success(), "QEMU is kept out: {output:?}");
    served.end();
}

#[test]
fn tenants_without_a_tenant_that_pays_are_refused() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    bench.file("t.toml", "[tenant.a]\nlimit = { iops = 10 }\n[tenant.b]\n");
    let args = ["serve", "disk.img", "--listen", "unix:s", "--tenants", "t.toml"];
    let output = bench.elevon(&args).output().expect("it ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("which tenant pays for what is served? Add --tenant with one of a, b"),
        "{stderr}"
    );
}

#[test]
fn faults_are_switched_and_counted_while_the_server_runs() {
    let served = Served::config(&SLOW.replace("[export", "fault = 'error:sectors=0-7'\n[export"));
    let mut client = Client::open(&served.bench.path("s"), "a").expect("it listens");
    assert_eq!(client.read(0, 4096).expect("an answer"), Err(5));
    assert!(client.read(4096, 4096).expect("an answer").is_ok());
    let fault = |rules: &[&str]| ctl(&served.bench, &[&["fault", "slow"], rules].concat());
    assert_eq!(fault(&["off"]).0, Some(0));
    assert!(client.read(0, 4096).expect("an answer").is_ok());
    assert_eq!(fault(&["error:sectors=8-15", "lost_write:ppm=1000000"]).0, Some(0));
    assert_eq!(client.read(4096, 4096).expect("an answer"), Err(5));
    assert_eq!(client.write(0, 0, &[7; 4096]).expect("an answer"), 0);
    assert_eq!(client.read(0, 4096).expect("an answer"), Ok(vec![0; 4096]), "the write was lost");
    let stats = json(&served.bench, &["stats"]);
    let counts = &stats["devices"][0]["faults"];
    // Those before the change count, and so do those that the stack tried again.
    assert!(counts["error"].as_u64() >= Some(2), "{counts}");
    assert_eq!(counts["lost_write"].as_u64(), Some(1), "{counts}");
    let (status, _, stderr) = fault(&["eror"]);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("eror: no such kind"), "{stderr}");
    let (status, _, stderr) = ctl(&served.bench, &["fault", "slo", "off"]);
    assert_eq!(
        (status, stderr.contains("slo: no such device (did you mean `slow`?)")),
        (Some(2), true),
        "{stderr}"
    );
    served.end();
}

/// What the rules let fail is not carried out, and what is in flight on the file ends there first.
#[test]
fn faults_of_a_file_fail_and_delay_commands_and_change_no_data() {
    let keys = "device = './disk.img'\nfault = 'readonly'\nio_timeout = '200ms'\n";
    let served = Served::config(&format!(
        "listen = 'unix:s'\ncontrol = 'ctl'\n[device.d]\n{keys}[export.a]\n"
    ));
    let mut client = Client::open(&served.bench.path("s"), "a").expect("it listens");
    let fault = |rules: &[&str]| ctl(&served.bench, &[&["fault", "d"], rules].concat());
    assert_eq!(client.write(0, 0, &[7; 4096]).expect("an answer"), 5);
    assert_eq!(client.read(0, 4096).expect("an answer"), Ok(vec![0; 4096]), "it was not written");
    assert_eq!(fault(&["off"]).0, Some(0));
    assert_eq!(client.write(0, 0, &[7; 4096]).expect("an answer"), 0);

    assert_eq!(fault(&["late:by=80ms", "error:sectors=8-15,op=read"]).0, Some(0));
    let began = Instant::now();
    assert_eq!(client.read(0, 4096).expect("an answer"), Ok(vec![7; 4096]));
    assert!(began.elapsed() >= Duration::from_millis(80), "{:?}", began.elapsed());
    assert_eq!(client.read(4096, 4096).expect("an answer"), Err(5));
    // The stack gives it up when its time has passed.
    assert_eq!(fault(&["no_completion"]).0, Some(0));
    assert_eq!(client.read(0, 4096).expect("an answer"), Err(5));

    assert_eq!(fault(&["reset:every=7,for=20ms"]).0, Some(0));
    for at in 0..64 {
        client.send(0, WRITE, at * 4096, 4096, &[9; 4096]).expect("sent");
    }
    let answers: Vec<u32> = (0..64).map(|_| client.answer().expect("an answer").1).collect();
    assert!(
        answers.contains(&5) && answers.iter().all(|errno| [0, 5].contains(errno)),
        "{answers:?}"
    );
    assert_eq!(fault(&["off"]).0, Some(0));
    assert_eq!(client.write(0, 0, &[8; 4096]).expect("an answer"), 0);
    assert_eq!(client.read(0, 4096).expect("an answer"), Ok(vec![8; 4096]));

    for (rule, words) in [
        ("bit_rot", "bit_rot: needs a simulated device"),
        ("error:sectors=0-99999", "sectors of the"),
    ] {
        let (status, _, stderr) = fault(&[rule]);
        assert!(status == Some(2) && stderr.contains(words), "{stderr}");
    }
    let counts = json(&served.bench, &["stats"])["devices"][0]["faults"].clone();
    let count = |name: &str| counts[name].as_u64().unwrap_or_default();
    assert!(
        count("readonly") == 1 && count("late") == 2 && count("error") == 1 && count("reset") > 0,
        "{counts}"
    );
    assert_eq!(fault(&["flush_error"]).0, Some(0));
    assert_eq!(client.flush().expect("an answer"), 5);
    assert_eq!(fault(&["off"]).0, Some(0));
    assert_eq!(client.flush().expect("an answer"), 5, "no flush succeeds after one that failed");
    served.end();
}
