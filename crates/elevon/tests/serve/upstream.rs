//! Tests disks of other NBD servers as devices: nbdkit, and our own server behind itself.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::Bench;
use crate::common::nbd::{Client, FUA};
use crate::common::nbdkit::{Killed, nbdkit, until};
use crate::common::served::{DISK, Served, ok, pattern};

const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

/// Serves the disk at the socket `up`.
fn before(bench: Bench, export: &str) -> Served {
    before_with(bench, export, &[])
}

/// The same with further options.
fn before_with(bench: Bench, export: &str, options: &[&str]) -> Served {
    let address = format!("nbd+unix:///{export}?socket={}", bench.path("up").display());
    Served::run(
        bench,
        &[&[&*address, "--name", "disk.img", "--listen", "unix:s"], options].concat(),
    )
}

/// Of the servers of a machine one writes a disk of another server. A second one that may serves
/// it as well: each reads what the other one has written.
#[test]
fn a_second_server_of_a_disk_is_refused_unless_it_is_shared() {
    if !elevon_testkit::tools(&["nbdkit", "qemu-io"]) {
        return;
    }
    let bench = Bench::new();
    let Some(_nbdkit) = nbdkit(&bench, &["memory", "8M"]) else { return };
    let address = format!("nbd+unix:///?socket={}", bench.path("up").display());
    let first = before(bench, "");
    let config =
        |key| format!("listen = 'unix:s'\n[device.d]\ndevice = '{address}'\n{key}\n[export.e]\n");
    let bench = Bench::new();
    bench.file("alone.toml", config(""));
    bench.file("shared.toml", config("shared = true"));
    let output = bench.elevon(&["serve", "alone.toml"]).output().expect("it ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let words =
        format!("another server of this machine writes it: pid {} of uid", first.child.id());
    assert!(output.status.code() == Some(2) && stderr.contains(&words), "{stderr}");
    let second = Served::run(bench, &["shared.toml"]);
    let io = |served: &Served, commands: &[&str]| {
        ok(&served.qemu_io(&served.uri, commands).expect("installed"))
    };
    io(&first, &["write -P 1 0 64k", "flush"]);
    io(&second, &["read -P 1 0 64k", "write -P 2 64k 64k", "flush"]);
    io(&first, &["read -P 1 0 64k", "read -P 2 64k 64k"]);
    second.end();
    first.end();
}

/// A server that refuses what is not in blocks of 64 KiB, and, for these policies, what else nbdkit
/// is told of sizes.
const LARGE: [&str; 6] = [
    "--filter=blocksize-policy",
    "memory",
    "8M",
    "blocksize-minimum=64K",
    "blocksize-preferred=64K",
    "blocksize-error-policy=error",
];

/// Its clients are told the blocks, and held to them if they asked. Of others what is in parts of
/// blocks is read and written whole.
#[test]
fn blocks_larger_than_a_page_are_those_of_clients() {
    let bench = Bench::new();
    bench.file("pattern", pattern(DISK));
    let Some(_nbdkit) = nbdkit(&bench, &LARGE) else { return };
    let served = before(bench, "");
    if elevon_testkit::tools(&["nbdinfo", "nbdcopy"]) {
        let info = served.client("nbdinfo", &["--json", &served.uri]).expect("installed");
        let info: serde_json::Value = serde_json::from_str(&ok(&info)).expect("JSON");
        let of = |key: &str| info["exports"][0][key].as_u64();
        assert_eq!(
            (of("block_size_minimum"), of("block_size_preferred")),
            (Some(65536), Some(65536))
        );
        ok(&served.client("nbdcopy", &["--flush", "pattern", &served.uri]).expect("installed"));
        ok(&served.client("nbdcopy", &[&served.uri, "back"]).expect("installed"));
        assert!(fs::read(served.bench.path("back")).expect("the copy") == pattern(DISK));
    }
    let mut held =
        Client::open_with_blocks(&served.bench.path("s"), "disk.img").expect("it listens");
    assert_eq!(held.write(0, 65536, &[1; 65536]).expect("an answer"), 0);
    assert_eq!(held.write(0, 4096, &[2; 4096]).expect("an answer"), EINVAL);
    assert_eq!(held.read(65536, 4096).expect("an answer"), Err(EINVAL));
    let mut free = Client::open(&served.bench.path("s"), "disk.img").expect("it listens");
    assert_eq!(free.write(FUA, 65536 + 1000, &[3; 70_000]).expect("an answer"), 0);
    let expected = [vec![1; 1000], vec![3; 70_000]].concat();
    assert_eq!(free.read(65536, 71_000).expect("an answer"), Ok(expected));
    served.end();
}

#[test]
fn sizes_that_cannot_be_kept_are_refused_by_name() {
    let refused = |server: &[&str], args: &[&str], words: &str| {
        let bench = Bench::new();
        bench.file("a.fio", "[a]\nrw=read\ndirect=1\nbs=64k\nsize=1M\n");
        let Some(_nbdkit) = nbdkit(&bench, server) else { return };
        let address = format!("nbd+unix:///?socket={}", bench.path("up").display());
        let args: Vec<&str> =
            args.iter().map(|arg| if *arg == "UP" { &*address } else { arg }).collect();
        let output = bench.elevon(&args).output().expect("it ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.lines().count() == 1, "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    };
    let serve = ["serve", "UP", "--listen", "unix:s"];
    let with = |more: [&'static str; 2]| [&serve[..], &more].concat();
    refused(&LARGE, &with(["--cache", "1MiB"]), "its blocks of 65536 bytes are larger than a page");
    refused(
        &LARGE,
        &with(["--set", "max_sectors_kb=32"]),
        "at least 64 KiB, a block of nbd+unix:///",
    );
    let run = ["run", "a.fio", "--device", "UP"];
    refused(&LARGE, &run, "the server's blocks have 65536 bytes; up to 4096 are supported");
    let small = [
        "--filter=blocksize-policy",
        "memory",
        "8M",
        "blocksize-preferred=512",
        "blocksize-maximum=1K",
    ];
    refused(
        &small,
        &serve,
        "the server takes up to 1024 bytes at a time; at least 4096 are needed",
    );
}

#[test]
fn bytes_go_to_nbdkit_and_come_back() {
    let cache = ["--cache", "1MiB"];
    for (plugin, options) in [
        (&["memory", "8M"][..], &[][..]),
        (&["file", "disk.img"], &[]),
        (&["file", "disk.img"], &cache),
    ] {
        let bench = Bench::new();
        bench.file("disk.img", vec![0; DISK]);
        bench.file("pattern", pattern(DISK));
        let Some(_nbdkit) = nbdkit(&bench, plugin) else { return };
        let served = before_with(bench, "", options);
        let Some(copied) = served.client("nbdcopy", &["--flush", "pattern", &served.uri]) else {
            return;
        };
        ok(&copied);
        if plugin[0] == "file" {
            assert!(
                fs::read(served.bench.path("disk.img")).expect("the disk") == pattern(DISK),
                "what was flushed"
            );
        }
        ok(&served.client("nbdcopy", &[&served.uri, "back"]).expect("installed"));
        assert!(fs::read(served.bench.path("back")).expect("the copy") == pattern(DISK));
        let commands = [
            "write -z -u 64k 64k",
            "write -z 256k 64k",
            "discard 512k 64k",
            "flush",
            "read -P 0 64k 64k",
            "read -P 0 256k 64k",
            "write -f -P 7 1M 3M",
            "read -P 7 1M 3M",
        ];
        if let Some(output) = served.qemu_io(&served.uri, &commands) {
            ok(&output);
        }
        served.end();
    }
}

#[test]
fn fio_verifies_through_a_server_before_a_server() {
    let bench = Bench::new();
    let Some(_nbdkit) =
        nbdkit(&bench, &["--filter=delay", "memory", "8M", "rdelay=1ms", "wdelay=1ms"])
    else {
        return;
    };
    let served = before(bench, "");
    let uri = format!("--uri={}", served.uri);
    let args = ["--name=a", "--ioengine=nbd", &uri, "--rw=randrw", "--bs=4k", "--size=4m"];
    let args = [&args[..], &["--iodepth=32", "--verify=crc32c", "--fsync=32"]].concat();
    let Some(output) = served.client("fio", &args) else { return };
    ok(&output);
    served.end();
}

#[test]
fn errors_of_the_server_are_told() {
    let bench = Bench::new();
    let (error, file) =
        ("error-pwrite=ENOSPC", format!("error-file={}", bench.path("broken").display()));
    let args =
        ["--filter=error", "memory", "8M", error, "error-rate=100%", "error-pread=EIO", &file];
    let Some(_nbdkit) = nbdkit(&bench, &args) else { return };
    let served = before(bench, "");
    let mut client = Client::open(&served.bench.path("s"), "disk.img").expect("it listens");
    assert_eq!(client.write(0, 0, &[1; 4096]).expect("an answer"), 0);
    served.bench.file("broken", "");
    assert_eq!(client.write(FUA, 0, &[2; 4096]).expect("an answer"), ENOSPC);
    assert_eq!(client.read(0, 4096).expect("an answer"), Err(EIO));
    fs::remove_file(served.bench.path("broken")).expect("it is there");
    assert_eq!(client.read(0, 4096).expect("an answer"), Ok(vec![1; 4096]));
    // A FUA write that failed was a promise, so no later flush gives one.
    assert_eq!(client.flush().expect("an answer"), ENOSPC);
    served.end();
}

/// Serves `disk.img` at the socket `up`.
fn own_server(bench: &Path) -> Killed {
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    command.current_dir(bench).args(["serve", "disk.img", "--listen", "unix:up"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the command started");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("UTF-8");
    assert!(line.starts_with("nbd+unix:"), "{line}");
    Killed(child)
}

#[test]
fn a_lost_connection_fails_what_is_in_flight_and_is_made_again() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    let first = own_server(&bench.path(""));
    let served = before_with(bench, "disk.img", &["--on-loss", "error"]);
    let mut client = Client::open(&served.bench.path("s"), "disk.img").expect("it listens");
    assert_eq!(client.write(0, 0, &[1; 4096]).expect("an answer"), 0);
    assert_eq!(client.flush().expect("an answer"), 0);
    assert_eq!(client.write(FUA, 4096, &[1; 4096]).expect("an answer"), 0);
    drop(first);
    assert_eq!(client.write(0, 8192, &[2; 4096]).expect("an answer"), EIO, "nobody is there");
    let second = own_server(&served.bench.path(""));
    until("it connects again", || client.write(0, 8192, &[3; 4096]).expect("an answer") == 0);
    assert_eq!(client.read(0, 4096).expect("an answer"), Ok(vec![1; 4096]));
    // Nothing that was answered before the loss was without a flush, so a flush can promise.
    assert_eq!(client.flush().expect("an answer"), 0);
    let disk = fs::read(served.bench.path("disk.img")).expect("the disk");
    assert!(disk[8192..12288].iter().all(|&byte| byte == 3));
    // Now a write is answered, not flushed, and the connection is lost: it is sent again.
    assert_eq!(client.write(0, 0, &[4; 4096]).expect("an answer"), 0);
    drop(second);
    assert_eq!(client.read(0, 4096).expect("an answer"), Err(EIO));
    let _third = own_server(&served.bench.path(""));
    until("it connects again", || client.read(0, 4096).expect("an answer").is_ok());
    assert_eq!(client.read(0, 4096).expect("an answer"), Ok(vec![4; 4096]));
    assert_eq!(client.flush().expect("an answer"), 0);
    served.end();
}

#[test]
fn many_requests_fail_together_once_each() {
    let bench = Bench::new();
    let Some(nbdkit) = nbdkit(&bench, &["--filter=delay", "memory", "8M", "rdelay=600"]) else {
        return;
    };
    let served = before_with(bench, "", &["--on-loss", "error"]);
    let mut client = Client::open(&served.bench.path("s"), "disk.img").expect("it listens");
    // Reads wait at the server for ten minutes, in its threads; a write beside them does not.
    let reads: Vec<u64> =
        (0..12).map(|at| client.send(0, 0, at * 8192, 4096, &[]).expect("sent")).collect();
    assert_eq!(client.write(0, 0, &[1; 4096]).expect("an answer"), 0);
    drop(nbdkit);
    let mut answered: Vec<u64> = Vec::new();
    for _ in &reads {
        let (cookie, errno) = client.answer().expect("an answer");
        assert_eq!(errno, EIO);
        answered.push(cookie);
    }
    answered.sort_unstable();
    assert_eq!(answered, reads);
    served.end();
}

#[test]
fn a_server_that_does_not_answer_in_time_is_taken_for_lost() {
    let bench = Bench::new();
    let Some(_nbdkit) = nbdkit(&bench, &["--filter=delay", "memory", "8M", "rdelay=600"]) else {
        return;
    };
    let address = format!("nbd+unix:///?socket={}", bench.path("up").display());
    let args = [&address, "--name", "disk.img", "--listen", "unix:s", "--set", "io_timeout=2000"];
    let served = Served::run(bench, &args);
    let mut client = Client::open(&served.bench.path("s"), "disk.img").expect("it listens");
    assert_eq!(client.read(0, 4096).expect("an answer"), Err(EIO));
    until("it connects again", || client.write(0, 0, &[1; 4096]).expect("an answer") == 0);
    assert_eq!(client.flush().expect("an answer"), 0);
    served.end();
}

#[test]
fn a_configuration_puts_tenants_before_a_server() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    let _own = own_server(&bench.path(""));
    let config = "\
listen = 'unix:s'
[device.far]
device = 'nbd+unix:///disk.img?socket=up'
[export.a]
size = '2MiB'
[export.b]
start = '2MiB'
[tenant.a]
limit = { iops = 1000 }
";
    bench.file("c.toml", config);
    let said = ok(&bench.elevon(&["serve", "c.toml", "--check"]).output().expect("it ran"));
    assert!(said.contains("export b: 6291456 bytes of device far from 2097152 on"), "{said}");
    for (to, words) in [
        (
            "nbd+unix:///disk.img?socket=none",
            "c.toml:3:10: device.far.device: nbd+unix:///disk.img?socket=none: No such file",
        ),
        (
            "nbd+unix:///other?socket=up",
            "c.toml:3:10: device.far.device: nbd+unix:///other?socket=up: the server refuses: no export",
        ),
        (
            "nbds+unix:///disk.img?socket=up",
            "c.toml:3:10: device.far.device: nbds+unix:///disk.img?socket=up: whose certificates are trusted?",
        ),
        (
            "nbd+unix:///disk.img",
            "c.toml:3:10: device.far.device: nbd+unix:///disk.img: is no address",
        ),
    ] {
        bench.file("c.toml", config.replace("nbd+unix:///disk.img?socket=up", to));
        let output = bench.elevon(&["serve", "c.toml", "--check"]).output().expect("it ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{to}: {stderr}");
        assert!(
            stderr.lines().count() == 1 && stderr.starts_with(&format!("elevon: {words}")),
            "{to}: {stderr}"
        );
    }
    bench.file("c.toml", config);
    let served = Served::run(bench, &["c.toml"]);
    let mut b = Client::open(&served.bench.path("s"), "b").expect("it listens");
    assert_eq!(b.write(FUA, 4096, &[7; 4096]).expect("an answer"), 0);
    let disk = fs::read(served.bench.path("disk.img")).expect("the disk");
    let at = (2 << 20) + 4096;
    assert!(
        disk[at..at + 4096].iter().all(|&byte| byte == 7)
            && disk[..at].iter().all(|&byte| byte == 0)
    );
    served.end();
}

/// Returns what nbdinfo says of an export: offset, length and kind of each extent.
fn map(served: &Served) -> Vec<(u64, u64, u64)> {
    let info = ok(&served.client("nbdinfo", &["--map", "--json", &served.uri]).expect("installed"));
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    let number = |extent: &serde_json::Value, key: &str| extent[key].as_u64().expect("a number");
    let extents = info.as_array().expect("extents");
    extents
        .iter()
        .map(|extent| (number(extent, "offset"), number(extent, "length"), number(extent, "type")))
        .collect()
}

#[test]
fn holes_of_the_server_are_told_and_skipped() {
    let bench = Bench::new();
    let disk = fs::File::create(bench.path("disk.img")).expect("a file");
    disk.set_len(DISK as u64).expect("room");
    disk.write_all_at(&[7; 1 << 20], 1 << 20).expect("written");
    if !elevon_testkit::tools(&["nbdkit", "nbdinfo", "nbdcopy"]) {
        return;
    }
    let _nbdkit = nbdkit(&bench, &["file", "disk.img"]).expect("installed");
    let served = before(bench, "");
    let (mb, rest) = (1 << 20, (DISK - (2 << 20)) as u64);
    assert_eq!(map(&served), [(0, mb, 3), (mb, mb, 0), (2 * mb, rest, 3)]);
    ok(&served.client("nbdcopy", &[&served.uri, "copy"]).expect("installed"));
    let copy = fs::metadata(served.bench.path("copy")).expect("the copy");
    assert!(copy.len() == DISK as u64 && copy.blocks() * 512 < 2 << 20, "{} blocks", copy.blocks());
    // What is trimmed here is a hole there, and the other way round.
    if let Some(output) =
        served.qemu_io(&served.uri, &["discard 1M 512k", "write -P 1 4M 1M", "flush"])
    {
        ok(&output);
        assert_eq!(
            map(&served),
            [
                (0, 3 * mb / 2, 3),
                (3 * mb / 2, mb / 2, 0),
                (2 * mb, 2 * mb, 3),
                (4 * mb, mb, 0),
                (5 * mb, 3 * mb, 3)
            ]
        );
    }
    served.end();
}

#[test]
fn extents_of_the_server_are_told_in_whole_blocks() {
    let bench = Bench::new();
    bench.file(
        "extents",
        "0 1000 hole,zero\n1000 3096 \n4096 100000 hole,zero\n104096 1000000 zero\n",
    );
    let Some(_nbdkit) =
        nbdkit(&bench, &["--filter=extentlist", "memory", "8M", "extentlist=extents"])
    else {
        return;
    };
    if elevon_testkit::tool("nbdinfo").is_none() {
        return;
    }
    let served = before(bench, "");
    let end = 1_104_384;
    assert_eq!(
        map(&served),
        [
            (0, 512, 3),
            (512, 3584, 0),
            (4096, 99_840, 3),
            (103_936, end - 103_936, 2),
            (end, DISK as u64 - end, 3)
        ]
    );
    served.end();
}

#[test]
fn a_question_about_holes_fails_as_any_request() {
    let bench = Bench::new();
    let file = format!("error-file={}", bench.path("broken").display());
    let args = ["--filter=error", "memory", "8M", "error-extents=EIO", "error-rate=100%", &file];
    let Some(_nbdkit) = nbdkit(&bench, &args) else { return };
    if elevon_testkit::tool("nbdinfo").is_none() {
        return;
    }
    let served = before(bench, "");
    assert_eq!(map(&served), [(0, DISK as u64, 3)]);
    served.bench.file("broken", "");
    let info = served.client("nbdinfo", &["--map", &served.uri]).expect("installed");
    let stderr = String::from_utf8_lossy(&info.stderr);
    assert!(!info.status.success() && stderr.contains("Input/output error"), "{stderr}");
    served.end();
    // And while it waits for a server that is lost.
    let bench = Bench::new();
    let Some(nbdkit) = nbdkit(
        &bench,
        &["--filter=log", "--filter=delay", "memory", "8M", "delay-extents=600", "logfile=log"],
    ) else {
        return;
    };
    let served = before_with(bench, "", &["--on-loss", "error"]);
    let mut info = elevon_testkit::tool("nbdinfo").expect("looked for above");
    let info = info.args(["--map", &served.uri]).stderr(Stdio::piped()).spawn().expect("it ran");
    until("it asks", || {
        fs::read_to_string(served.bench.path("log")).is_ok_and(|log| log.contains("Extents"))
    });
    drop(nbdkit);
    let output = info.wait_with_output().expect("it ended");
    assert!(String::from_utf8_lossy(&output.stderr).contains("Input/output error"), "{output:?}");
    served.end();
}

/// Serves a disk of nbdkit, and returns how many connections it has, and what the server says.
fn connections(nbdkit_args: &[&str], keys: &str) -> Option<(usize, String)> {
    let bench = Bench::new();
    let args = [&["--filter=log"][..], nbdkit_args, &["logfile=log"]].concat();
    let _nbdkit = nbdkit(&bench, &args)?;
    let config =
        "listen = 'unix:s'\n[device.far]\ndevice = 'nbd+unix:///?socket=up'\nKEYS\n[export.a]\n";
    bench.file("c.toml", config.replace("KEYS", keys));
    let said = bench.elevon(&["serve", "c.toml", "--check"]).output().expect("it ran");
    ok(&said);
    let log = fs::read_to_string(bench.path("log")).expect("the log");
    // nbdkit was looked for by the test, which connected once and said nothing.
    Some((log.matches(" Connect ").count(), String::from_utf8_lossy(&said.stderr).into_owned()))
}

#[test]
fn there_are_several_connections_if_the_server_promises_that_they_see_one_disk() {
    for (args, keys, wanted) in [
        (&["memory", "8M"][..], "", 4),
        (&["memory", "8M"], "connections = 2", 2),
        (&["memory", "8M"], "connections = 1", 1),
        (&["--filter=multi-conn", "memory", "8M", "multi-conn-mode=disable"], "", 1),
    ] {
        let Some((count, said)) = connections(args, keys) else { return };
        assert_eq!((count, said.as_str()), (wanted, ""), "{args:?} {keys}");
    }
    let (count, said) =
        connections(&["--filter=limit", "memory", "8M", "limit=2"], "").expect("installed");
    assert_eq!(count, 2);
    assert!(said.contains("2 connections in place of 4: nbd+unix:///?socket=up: "), "{said}");
}

#[test]
fn jobs_run_on_a_disk_of_a_server() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    let _own = own_server(&bench.path(""));
    bench.file(
        "job.fio",
        "[a]\nrw=randrw\nbs=4k\nsize=4m\niodepth=16\nioengine=io_uring\ndirect=1\nverify=crc32c\nfsync=32\n",
    );
    let address = "nbd+unix:///disk.img?socket=up";
    let text = bench.stdout(&["run", "job.fio", "--device", address]);
    assert!(
        text.contains("real device nbd+unix:///disk.img?socket=up (8388608B")
            || text.contains(address),
        "{text}"
    );
    assert!(text.contains("err= 0"), "{text}");
    for (args, words) in [
        (&["--memory", "1GiB"][..], "--memory 1GiB: only a simulated machine has it"),
        (&["--cache", "64MiB"], "--cache 64MiB: stands before a file or block device"),
        (
            &["--fault", "dead:after=5s"],
            "--fault dead:after=5s: only a simulated device, or one that is served, has",
        ),
    ] {
        let output = bench
            .elevon(&[&["run", "job.fio", "--device", address], args].concat())
            .output()
            .expect("it ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(words) && stderr.lines().count() == 1, "{stderr}");
    }
}
