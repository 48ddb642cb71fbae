//! Tests `elevon serve` with clients of other projects, and what it refuses.
#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use common::Bench;

const DISK: usize = 8 << 20;

/// A server of `disk.img` in a folder.
struct Served {
    bench: Bench,
    child: Child,
    _stdout: BufReader<ChildStdout>,
    uri: String,
}

impl Served {
    fn start(args: &[&str]) -> Self {
        let bench = Bench::new();
        bench.file("disk.img", vec![0; DISK]);
        bench.file("tenants.toml", "[tenant.gold]\nweight = 400\n");
        Self::of(bench, args)
    }

    fn of(bench: Bench, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
        command.current_dir(bench.path("")).args(["serve", "disk.img", "--listen", "unix:s"]).args(args);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the command started");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("UTF-8");
        let uri = line.trim().replace("socket=s", &format!("socket={}", bench.path("s").display()));
        assert!(uri.starts_with("nbd+unix:///disk.img?socket="), "{line}");
        Self { bench, child, _stdout: stdout, uri }
    }

    /// Runs a client on the disk; `None` if it is not installed.
    fn client(&self, name: &str, args: &[&str]) -> Option<Output> {
        let mut command = elevon_testkit::tool(name)?;
        Some(command.current_dir(self.bench.path("")).args(args).output().expect("the tool ran"))
    }

    /// Asks the server to end, and waits for it. A server whose test failed is killed.
    fn end(mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").arg(&id).status().expect("kill ran").success());
        let status = self.child.wait().expect("it ended");
        assert_eq!(status.code(), Some(0));
        assert!(!self.bench.path("s").exists(), "the socket is gone");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // After `end` there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn ok(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn libnbd_sees_the_disk_as_it_is() {
    let served = Served::start(&[]);
    let Some(info) = served.client("nbdinfo", &["--json", &served.uri]) else { return };
    let info: serde_json::Value = serde_json::from_str(&ok(&info)).expect("JSON");
    let export = &info["exports"][0];
    assert_eq!((info["protocol"].as_str(), info["TLS"].as_bool()), (Some("newstyle-fixed"), Some(false)));
    assert_eq!((export["export-size"].as_u64(), export["is_read_only"].as_bool()), (Some(DISK as u64), Some(false)));
    for can in ["can_fua", "can_flush", "can_multi_conn", "can_trim", "can_zero", "can_cache", "can_df"] {
        assert_eq!(export[can].as_bool(), Some(true), "{can}");
    }
    assert_eq!(export["block_size_minimum"].as_u64(), Some(512));
    served.end();
}

#[test]
fn bytes_come_back_as_they_were_written() {
    let served = Served::start(&["--scheduler", "bfq"]);
    let pattern: Vec<u8> = (0..DISK as u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    served.bench.file("pattern", &pattern);
    let Some(copied) = served.client("nbdcopy", &["--flush", "pattern", &served.uri]) else { return };
    ok(&copied);
    assert!(fs::read(served.bench.path("disk.img")).expect("the disk") == pattern, "what was flushed is in the file");
    ok(&served.client("nbdcopy", &[&served.uri, "back"]).expect("as above"));
    assert!(fs::read(served.bench.path("back")).expect("the copy") == pattern);
    served.end();
}

#[test]
fn qemu_writes_zeroes_trims_and_verifies() {
    let served = Served::start(&["--scheduler", "mq-deadline"]);
    let io = |commands: &[&str]| {
        let words: Vec<&str> = commands.iter().flat_map(|command| ["-c", command]).collect();
        served.client("qemu-io", &[&["-f", "raw", &served.uri][..], &words].concat())
    };
    let Some(output) =
        io(&["write -P 0x5a 0 1M", "write -z 64k 64k", "discard 128k 64k", "flush", "read -P 0x5a 0 64k"])
    else {
        return;
    };
    ok(&output);
    ok(&io(&["read -P 0 64k 64k", "write -f -P 7 512k 4k", "read -P 7 512k 4k", "write -P 1 0 7M", "read -P 1 0 7M"])
        .expect("as above"));
    let map =
        ok(&served.client("qemu-img", &["map", "--output", "json", "-f", "raw", &served.uri]).expect("installed"));
    let map: serde_json::Value = serde_json::from_str(&map).expect("JSON");
    let bytes: u64 = map.as_array().expect("extents").iter().filter_map(|extent| extent["length"].as_u64()).sum();
    assert_eq!(bytes, DISK as u64);
    served.end();
}

#[test]
fn fio_verifies_through_the_server() {
    let served = Served::start(&["--tenants", "tenants.toml", "--tenant", "gold", "--scheduler", "bfq"]);
    let uri = format!("--uri={}", served.uri);
    let args = [
        "--name=a",
        "--ioengine=nbd",
        &uri,
        "--rw=randwrite",
        "--bs=4k",
        "--size=4m",
        "--iodepth=32",
        "--verify=crc32c",
    ];
    let Some(output) = served.client("fio", &args) else { return };
    ok(&output);
    served.end();
}

#[test]
fn a_client_that_dies_hurts_nobody() {
    let served = Served::start(&[]);
    for bytes in
        [&b""[..], b"\0\0\0\x03", b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0", b"GET / HTTP/1.1\r\n\r\n"]
    {
        let mut socket = UnixStream::connect(served.bench.path("s")).expect("it listens");
        // It may have hung up already.
        let _ = socket.write_all(bytes);
    }
    let mut socket = UnixStream::connect(served.bench.path("s")).expect("it still listens");
    let mut greeting = [0; 18];
    socket.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    drop(socket);
    served.end();
}

#[test]
fn what_cannot_be_served_is_refused_in_a_line() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; 4096]);
    bench.file("tenants.toml", "[tenant.gold]\nweight = 400\n");
    for (args, words) in [
        (&["disk.img", "--listen", "s.sock"][..], "--listen s.sock: is no address; write unix:PATH or tcp:HOST:PORT"),
        (&["disk.img", "--listen", "tcp:localhost"], "has no port; NBD's is 10809"),
        (&["none.img", "--listen", "unix:s"], "none.img"),
        (&["disk.img", "--listen", "unix:none/s"], "unix:none/s"),
        (&["disk.img", "--listen", "unix:s", "--tenants", "tenants.toml", "--tenant", "gols"], "gold"),
        (&["disk.img", "--listen", "unix:s", "--scheduler", "bqf"], "bfq"),
    ] {
        let output = bench.elevon(&[&["serve"], args].concat()).output().expect("it ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(words) && stderr.lines().count() == 1, "{args:?}: {stderr}");
    }
}
