//! `elevon serve` beside nbdkit's file plugin and qemu-nbd: the same file on tmpfs over Unix
//! sockets, read and written by fio's nbd engine. The servers are asked in turns, so that a machine
//! that gets slower or faster meanwhile changes all alike; a figure is the median of its rounds.
//!
//! `cargo bench -p elevon --bench serve` prints the tables of `docs/serve.md` in about seven
//! minutes; `-- --rounds N` and `-- --only TEXT` (cells whose name has it) change that. Run by
//! `cargo test` it only proves that it runs. Goals: ahead of nbdkit in every cell, 1.3 times as
//! fast with 32 requests in flight, less than 10 % for BFQ with weights, less than 64 KiB of memory
//! for an idle connection.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes of the file.
const FILE: u64 = 256 << 20;
/// Where a file system in memory is, on every Linux.
const TMPFS: &str = "/dev/shm";
/// Connections of which the memory is measured.
const IDLE: usize = 200;

/// What fio does.
struct Cell {
    name: &'static str,
    rw: &'static str,
    block: u64,
    depth: u32,
    /// How many times as fast as nbdkit it is to be with the scheduler `none`.
    goal: f64,
}

const CELLS: [Cell; 6] = [
    Cell { name: "4 KiB random read, depth 1", rw: "randread", block: 4096, depth: 1, goal: 1.0 },
    Cell { name: "4 KiB random read, depth 32", rw: "randread", block: 4096, depth: 32, goal: 1.3 },
    Cell { name: "4 KiB random write, depth 1", rw: "randwrite", block: 4096, depth: 1, goal: 1.0 },
    Cell { name: "4 KiB random write, depth 32", rw: "randwrite", block: 4096, depth: 32, goal: 1.3 },
    Cell { name: "256 KiB sequential read, depth 8", rw: "read", block: 256 << 10, depth: 8, goal: 1.0 },
    Cell { name: "256 KiB sequential write, depth 8", rw: "write", block: 256 << 10, depth: 8, goal: 1.0 },
];

/// A server of the file.
struct Server {
    name: &'static str,
    child: Child,
    socket: PathBuf,
    /// What each round of the cell measured.
    rounds: Vec<Round>,
}

#[derive(Clone, Copy)]
struct Round {
    /// Requests a second.
    iops: f64,
    /// CPU time of the server for a request, in microseconds.
    cpu_us: f64,
}

impl Server {
    /// Starts a server, and waits until it takes connections.
    fn start(name: &'static str, command: &mut Command, socket: &Path) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the server started");
        let server = Self { name, child, socket: socket.to_owned(), rounds: Vec::new() };
        let began = Instant::now();
        while server.connection(false).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "{name} does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// Seconds of CPU time, of which the kernel tells hundredths.
    fn cpu_seconds(&self) -> f64 {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it runs");
        let (_, rest) = text.rsplit_once(')').expect("a name in parentheses");
        let ticks = |at: usize| rest.split_whitespace().nth(at).and_then(|field| field.parse::<f64>().ok());
        (ticks(11).expect("user time") + ticks(12).expect("system time")) / 100.0
    }

    /// Resident memory in KiB.
    fn memory_kib(&self) -> f64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
    }

    /// Lets fio do a cell for a time, or, without one, a few I/Os.
    fn round(&self, cell: &Cell, seconds: Option<u32>) -> Round {
        let mut fio = Command::new("fio");
        fio.args(["--name=a", "--ioengine=nbd", "--thread", "--norandommap", "--output-format=json"]);
        fio.arg(format!("--uri=nbd+unix:///?socket={}", self.socket.display()));
        fio.args([format!("--rw={}", cell.rw), format!("--bs={}", cell.block)]);
        fio.args([format!("--iodepth={}", cell.depth), format!("--size={FILE}")]);
        match seconds {
            Some(seconds) => fio.args(["--time_based".to_owned(), format!("--runtime={seconds}")]),
            None => fio.arg(format!("--io_size={}", 64 * cell.block)),
        };
        let before = self.cpu_seconds();
        let output = fio.output().expect("fio ran");
        let cpu = self.cpu_seconds() - before;
        assert!(output.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        // Some versions print notes first.
        let json = text.find('{').map_or("", |at| &text[at..]);
        let result: serde_json::Value = serde_json::from_str(json).expect("JSON");
        let job = &result["jobs"][0];
        let way = if cell.rw.ends_with("read") { &job["read"] } else { &job["write"] };
        let of = |key: &str| way[key].as_f64().expect("a number");
        Round { iops: of("iops"), cpu_us: cpu * 1e6 / of("total_ios").max(1.0) }
    }

    fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(figure))
    }

    /// Opens the export, and reads a block of it if `reads`; the connection stays open.
    fn connection(&self, reads: bool) -> io::Result<UnixStream> {
        let mut socket = UnixStream::connect(&self.socket)?;
        let mut greeting = [0; 18];
        socket.read_exact(&mut greeting)?;
        // Fixed newstyle without zeroes, and EXPORT_NAME of the export without a name.
        socket.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0")?;
        // Its size and flags.
        socket.read_exact(&mut [0; 10])?;
        if reads {
            // A simple READ of 4 KiB at byte 0.
            let mut request = vec![0x25, 0x60, 0x95, 0x13];
            request.extend([0; 20]);
            request.extend(4096_u32.to_be_bytes());
            socket.write_all(&request)?;
            socket.read_exact(&mut [0; 16 + 4096])?;
        }
        Ok(socket)
    }

    /// KiB of resident memory for each connection that is open and idle.
    fn memory_of_connection(&self, count: usize, reads: bool) -> f64 {
        let before = self.memory_kib();
        let open: Vec<UnixStream> = (0..count).map(|_| self.connection(reads).expect("an open export")).collect();
        (self.memory_kib() - before) / open.len() as f64
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended is not there to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Starts the servers; ours come first, and `nbdkit` is the one that they are compared with.
fn servers(folder: &Path, disk: &Path) -> Vec<Server> {
    let mut all = Vec::new();
    let elevon = env!("CARGO_BIN_EXE_elevon");
    for (name, socket, options) in [
        ("none", "none.sock", &["--scheduler", "none"][..]),
        ("bfq, weights", "bfq.sock", &["--scheduler", "bfq", "--tenants", "tenants.toml", "--tenant", "a"]),
        ("flow, weights", "flow.sock", &["--scheduler", "flow", "--tenants", "tenants.toml", "--tenant", "a"]),
    ] {
        let mut command = Command::new(elevon);
        command.current_dir(folder).arg("serve").arg(disk).args(["--listen", &format!("unix:{socket}")]).args(options);
        all.push(Server::start(name, &mut command, &folder.join(socket)));
    }
    if let Some(mut nbdkit) = elevon_testkit::tool("nbdkit") {
        let socket = folder.join("nbdkit.sock");
        nbdkit.arg("-f").arg("-U").arg(&socket).arg("file").arg(disk);
        all.push(Server::start("nbdkit", &mut nbdkit, &socket));
    }
    if let Some(mut qemu) = elevon_testkit::tool("qemu-nbd") {
        let socket = folder.join("qemu.sock");
        qemu.args(["-f", "raw", "-t", "-e", "1024", "-k"]).arg(&socket).arg(disk);
        all.push(Server::start("qemu-nbd", &mut qemu, &socket));
    }
    all
}

/// Prints what the rounds of a cell measured.
fn show(cell: &Cell, servers: &[Server]) {
    let nbdkit = servers.iter().find(|server| server.name == "nbdkit").map(|server| server.median(|round| round.iops));
    let none = servers[0].median(|round| round.iops);
    println!("| {} | IOPS | MB/s | times nbdkit | of none | CPU us a request |", cell.name);
    println!("|---|---|---|---|---|---|");
    for server in servers {
        let iops = server.median(|round| round.iops);
        let times = nbdkit.map_or_else(|| "-".to_owned(), |nbdkit| format!("{:.2}", iops / nbdkit));
        println!(
            "| {} | {iops:.0} | {:.0} | {times} | {:.2} | {:.2} |",
            server.name,
            iops * cell.block as f64 / 1e6,
            iops / none,
            server.median(|round| round.cpu_us)
        );
    }
    let reached = nbdkit.map(|nbdkit| none / nbdkit >= cell.goal);
    let with_bfq = servers[1].median(|round| round.iops) / none;
    println!(
        "goal for none: {:.1} times nbdkit, {}; for bfq: 0.90 of none, {}\n",
        cell.goal,
        reached.map_or("not compared", told),
        told(with_bfq > 0.9)
    );
}

const fn told(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "missed" }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after =
        |word: &str| arguments.iter().position(|argument| argument == word).and_then(|at| arguments.get(at + 1));
    let full = arguments.iter().any(|argument| argument == "--bench");
    if elevon_testkit::tool("fio").is_none() {
        return;
    }
    let rounds = after("--rounds").and_then(|rounds| rounds.parse().ok()).unwrap_or(if full { 7 } else { 1 });
    let only = after("--only").map_or("", String::as_str);
    let (folder, memory) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir_in(TMPFS).expect("tmpfs"));
    let (folder, disk) = (folder.path(), memory.path().join("disk.img"));
    fs::write(&disk, vec![1; FILE as usize]).expect("space");
    fs::write(folder.join("tenants.toml"), "[tenant.a]\nweight = 400\n[tenant.b]\nweight = 100\n").expect("space");
    let mut servers = servers(folder, &disk);
    for cell in CELLS.iter().filter(|cell| cell.name.contains(only)) {
        servers.iter_mut().for_each(|server| server.rounds.clear());
        for _ in 0..rounds {
            for server in &mut servers {
                let round = server.round(cell, full.then_some(2));
                server.rounds.push(round);
            }
        }
        show(cell, &servers);
    }
    let count = if full { IDLE } else { 2 };
    println!("| memory of an idle connection | KiB, export open | KiB, after a read of 4 KiB |");
    println!("|---|---|---|");
    for server in &servers {
        let [open, read] = [false, true].map(|reads| server.memory_of_connection(count, reads));
        println!("| {} | {open:.1} | {read:.1} |", server.name);
    }
}
