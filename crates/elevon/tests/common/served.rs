//! A server that runs during a test, and clients of other projects.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::Bench;
use super::nbd::{Client, WRITE};

pub(crate) const DISK: usize = 8 << 20;

/// Returns bytes that differ from place to place.
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect()
}

/// A configuration of a slow device with a small page cache, which holds writers back.
pub(crate) const CACHED: &str = "\
listen = 'unix:s'
control = 'ctl'
metrics = 'tcp:127.0.0.1:0'
[device.slow]
device = 'slots:slots=1,latency=1ms,bandwidth=4MB/s,size=8MiB'
cache = '1MiB'
[export.a]
size = '4MiB'
[export.b]
start = '4MiB'
";

/// A server of `disk.img` in a folder.
pub(crate) struct Served {
    pub(crate) bench: Bench,
    pub(crate) child: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) uri: String,
}

impl Served {
    pub(crate) fn start(args: &[&str]) -> Self {
        let bench = Bench::new();
        bench.file("disk.img", vec![0; DISK]);
        bench.file("tenants.toml", "[tenant.gold]\nweight = 400\n");
        Self::of(bench, args)
    }

    fn of(bench: Bench, args: &[&str]) -> Self {
        let served = Self::run(bench, &[&["disk.img", "--listen", "unix:s"], args].concat());
        assert!(served.uri.starts_with("nbd+unix:///disk.img?socket="), "{}", served.uri);
        served
    }

    /// Starts a server that listens at `unix:s`, and waits until it does.
    pub(crate) fn run(bench: Bench, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
        command.arg("serve").args(args);
        Self::of_command(bench, command)
    }

    /// The same, of a command that the caller has made.
    pub(crate) fn of_command(bench: Bench, mut command: Command) -> Self {
        command.current_dir(bench.path(""));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the command started");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("UTF-8");
        let uri = line.trim().replace("socket=s", &format!("socket={}", bench.path("s").display()));
        Self { bench, child, stdout, uri }
    }

    /// Serves a configuration.
    pub(crate) fn config(text: &str) -> Self {
        let bench = Bench::new();
        bench.file("disk.img", vec![0; DISK]);
        bench.file("c.toml", text);
        Self::run(bench, &["c.toml"])
    }

    /// Returns the next line that the server prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("UTF-8");
        line.trim_end().to_owned()
    }

    /// Returns how many requests of a tenant have been answered, by the server's count.
    pub(crate) fn answered(&self, tenant: &str) -> u64 {
        let stats = self.bench.stdout(&["ctl", "ctl", "stats", "--output-format", "json"]);
        let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
        let devices = stats["devices"].as_array().expect("devices").iter();
        let tenants = devices.flat_map(|device| device["tenants"].as_array().expect("tenants"));
        let own = tenants.filter(|of| of["path"] == tenant);
        let requests = own.flat_map(|of| of["requests"].as_object().expect("requests").values());
        requests.map(|of| of["count"].as_u64().expect("a count")).sum()
    }

    /// Returns the address of an export.
    pub(crate) fn of_export(&self, name: &str) -> String {
        format!("nbd+unix:///{name}?socket={}", self.bench.path("s").display())
    }

    /// Runs commands of qemu-io on an export; `None` if it is not installed.
    pub(crate) fn qemu_io(&self, uri: &str, commands: &[&str]) -> Option<Output> {
        let words: Vec<&str> = commands.iter().flat_map(|command| ["-c", command]).collect();
        self.client("qemu-io", &[&["-f", "raw", uri][..], &words].concat())
    }

    /// Runs a client on the disk; `None` if it is not installed.
    pub(crate) fn client(&self, name: &str, args: &[&str]) -> Option<Output> {
        let mut command = elevon_testkit::tool(name)?;
        Some(command.current_dir(self.bench.path("")).args(args).output().expect("the tool ran"))
    }

    /// Writes to an export until it is told to stop, and returns the number of writes. Several wait
    /// at a time, so that a limit holds some however slowly this client gets on.
    pub(crate) fn load(&self, export: &str, stop: &Arc<AtomicBool>) -> JoinHandle<u64> {
        const WAITING: u64 = 4;
        let mut client = Client::open(&self.bench.path("s"), export).expect("it listens");
        let stop = Arc::clone(stop);
        std::thread::spawn(move || {
            let (mut sent, mut answered) = (0, 0);
            while answered < sent || !stop.load(Ordering::Relaxed) {
                while sent < answered + WAITING && !stop.load(Ordering::Relaxed) {
                    client.send(0, WRITE, 0, 4096, &[1; 4096]).expect("sent");
                    sent += 1;
                }
                if answered < sent {
                    assert_eq!(client.answer().expect("an answer").1, 0);
                    answered += 1;
                }
            }
            answered
        })
    }

    /// Writes more to an export than a small page cache may hold dirty, and reads what it has
    /// written, until it is told to stop.
    pub(crate) fn load_of_cache(&self, export: &str, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
        const PART: usize = 64 << 10;
        let mut client = Client::open(&self.bench.path("s"), export).expect("it listens");
        let stop = Arc::clone(stop);
        std::thread::spawn(move || {
            let places = (0..4 << 20).step_by(PART).cycle();
            for place in places.take_while(|_| !stop.load(Ordering::Relaxed)) {
                assert_eq!(client.write(0, place, &[1; PART]).expect("an answer"), 0);
                assert_eq!(client.read(place, 4096).expect("an answer"), Ok(vec![1; 4096]));
            }
        })
    }

    /// Asks the server to end, and waits for it. A server whose test failed is killed.
    pub(crate) fn end(self) {
        self.ended();
    }

    /// The same, and returns its folder.
    pub(crate) fn ended(mut self) -> Bench {
        elevon_testkit::signal(&self.child, "TERM");
        let status = self.child.wait().expect("it ended");
        assert_eq!(status.code(), Some(0));
        assert!(!self.bench.path("s").exists(), "the socket is gone");
        std::mem::replace(&mut self.bench, Bench::new())
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
pub(crate) fn ok(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
