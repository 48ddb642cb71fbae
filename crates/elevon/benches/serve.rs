//! `elevon serve` beside nbdkit's file plugin and qemu-nbd: the same file on tmpfs over Unix
//! sockets, read and written by fio's nbd engine. The servers are asked in turns, so that a machine
//! that gets slower or faster meanwhile changes all alike; a figure is the median of its rounds.
//!
//! `cargo bench -p elevon --bench serve` prints the tables of `docs/evidence/serve.md` in about
//! seven minutes; `-- --rounds N` and `-- --only TEXT` (cells whose name has it) change that. Run
//! by `cargo test` it only proves that it runs. Goals: ahead of nbdkit in every cell, 1.3 times as
//! fast with 32 requests in flight, less than 10 % for BFQ with weights, less than 64 KiB of memory
//! for an idle connection. A server that does no I/O shows what fio's one thread and the socket
//! allow.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
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
    Cell {
        name: "4 KiB random write, depth 32",
        rw: "randwrite",
        block: 4096,
        depth: 32,
        goal: 1.3,
    },
    Cell {
        name: "256 KiB sequential read, depth 8",
        rw: "read",
        block: 256 << 10,
        depth: 8,
        goal: 1.0,
    },
    Cell {
        name: "256 KiB sequential write, depth 8",
        rw: "write",
        block: 256 << 10,
        depth: 8,
        goal: 1.0,
    },
];

/// A server of the file.
struct Server {
    name: &'static str,
    /// Its process; `None` for a thread of this one.
    child: Option<Child>,
    socket: PathBuf,
    /// What each round of the cell measured.
    rounds: Vec<Round>,
}

/// What a connection whose memory is measured has asked for: so many bytes.
#[derive(Clone, Copy)]
enum Asks {
    Nothing,
    Read(u32),
    Write(u32),
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
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the server started");
        let server =
            Self { name, child: Some(child), socket: socket.to_owned(), rounds: Vec::new() };
        let began = Instant::now();
        while server.connection(Asks::Nothing).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "{name} does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// Seconds of CPU time, of which the kernel tells hundredths; not a number for a thread.
    fn cpu_seconds(&self) -> f64 {
        let Some(child) = &self.child else { return f64::NAN };
        let text = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
        let (_, rest) = text.rsplit_once(')').expect("a name in parentheses");
        let ticks =
            |at: usize| rest.split_whitespace().nth(at).and_then(|field| field.parse::<f64>().ok());
        (ticks(11).expect("user time") + ticks(12).expect("system time")) / 100.0
    }

    /// Resident memory in KiB.
    fn memory_kib(&self) -> f64 {
        let child = self.child.as_ref().expect("a process");
        let text = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
    }

    /// Lets fio do a cell for a time, or, without one, a few I/Os.
    fn round(&self, cell: &Cell, seconds: Option<u32>) -> Round {
        let mut fio = Command::new("fio");
        fio.args([
            "--name=a",
            "--ioengine=nbd",
            "--thread",
            "--norandommap",
            "--output-format=json",
        ]);
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
        assert!(
            output.status.success(),
            "{}: {}",
            self.name,
            String::from_utf8_lossy(&output.stderr)
        );
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

    /// Opens the export and makes a request; the connection stays open.
    fn connection(&self, asks: Asks) -> io::Result<UnixStream> {
        let mut socket = UnixStream::connect(&self.socket)?;
        let mut greeting = [0; 18];
        socket.read_exact(&mut greeting)?;
        // Fixed newstyle without zeroes, and EXPORT_NAME of the export without a name.
        socket.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0")?;
        // Its size and flags.
        socket.read_exact(&mut [0; 10])?;
        let (command, sent, received) = match asks {
            Asks::Nothing => return Ok(socket),
            Asks::Read(bytes) => (0, 0, bytes),
            Asks::Write(bytes) => (1, bytes, 0),
        };
        // A simple request at byte 0.
        let mut request = vec![0x25, 0x60, 0x95, 0x13, 0, 0, 0, command];
        request.extend([0; 16]);
        request.extend((sent + received).to_be_bytes());
        request.resize(request.len() + sent as usize, 1);
        socket.write_all(&request)?;
        socket.read_exact(&mut vec![0; 16 + received as usize])?;
        Ok(socket)
    }

    /// KiB of resident memory for each connection that is open and has been idle for a time.
    fn memory_of_connection(&self, count: usize, asks: Asks, idle: Duration) -> f64 {
        let before = self.memory_kib();
        let open: Vec<UnixStream> =
            (0..count).map(|_| self.connection(asks).expect("an open export")).collect();
        std::thread::sleep(idle);
        (self.memory_kib() - before) / open.len() as f64
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // One that has ended is not there to be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Starts the servers; ours come first, and `nbdkit` is the one that they are compared with.
fn servers(folder: &Path, disk: &Path) -> Vec<Server> {
    fs::write(folder.join("tenants.toml"), "[tenant.a]\nweight = 400\n[tenant.b]\nweight = 100\n")
        .expect("space");
    let mut all = Vec::new();
    let elevon = env!("CARGO_BIN_EXE_elevon");
    for (name, socket, options) in [
        ("none", "none.sock", &["--scheduler", "none"][..]),
        (
            "bfq, weights",
            "bfq.sock",
            &["--scheduler", "bfq", "--tenants", "tenants.toml", "--tenant", "a"],
        ),
        (
            "aileron, weights",
            "aileron.sock",
            &["--scheduler", "aileron", "--tenants", "tenants.toml", "--tenant", "a"],
        ),
    ] {
        let mut command = Command::new(elevon);
        command
            .current_dir(folder)
            .arg("serve")
            .arg(disk)
            .args(["--listen", &format!("unix:{socket}")])
            .args(options);
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
    let socket = folder.join("nothing.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    std::thread::spawn(move || {
        listener.incoming().for_each(|client| drop(answer_all(client.expect("a client"))));
    });
    all.push(Server { name: NO_IO, child: None, socket, rounds: Vec::new() });
    all
}

/// The server that does no I/O.
const NO_IO: &str = "no I/O at all";

/// Answers a client without any I/O, READs by zeroes: a thread, one receive and one send for all
/// requests that have come. What is faster than this server is limited by the client.
fn answer_all(mut socket: UnixStream) -> io::Result<()> {
    const GO: u32 = 7;
    const INFO: u32 = 3;
    const ACK: u32 = 1;
    const UNSUPPORTED: u32 = 1 << 31 | 1;
    // Fixed newstyle without zeroes.
    socket.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
    socket.read_exact(&mut [0; 4])?;
    loop {
        let mut head = [0; 16];
        socket.read_exact(&mut head)?;
        let option = &head[8..12];
        socket.read_exact(&mut vec![0; word(&head[12..]) as usize])?;
        let reply = |kind: u32, data: &[u8]| {
            let (magic, kind, length) =
                (0x0003_e889_0455_65a9_u64, kind.to_be_bytes(), data.len() as u32);
            [&magic.to_be_bytes()[..], option, &kind, &length.to_be_bytes(), data].concat()
        };
        if word(option) != GO {
            socket.write_all(&reply(UNSUPPORTED, &[]))?;
            continue;
        }
        // Its size, and that it has flags.
        socket.write_all(&reply(INFO, &[&[0; 2][..], &FILE.to_be_bytes(), &[0, 1]].concat()))?;
        socket.write_all(&reply(ACK, &[]))?;
        break;
    }
    let (mut input, mut filled, mut output) = (vec![0; 1 << 20], 0, Vec::new());
    loop {
        let came = socket.read(&mut input[filled..])?;
        filled += came;
        let mut taken = 0;
        while let Some(request) = input[taken..filled].first_chunk::<28>() {
            let (command, length) = (request[7], word(&request[24..]) as usize);
            let payload = if command == 1 { length } else { 0 };
            if filled - taken < 28 + payload {
                break;
            }
            output.extend([&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], &request[8..16]].concat());
            output.resize(output.len() + if command == 0 { length } else { 0 }, 0);
            taken += 28 + payload;
            if command == 2 {
                return Ok(());
            }
        }
        if came == 0 {
            return Ok(());
        }
        socket.write_all(&output)?;
        output.clear();
        input.copy_within(taken..filled, 0);
        filled -= taken;
    }
}

/// Returns four bytes as a number.
fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().expect("four bytes"))
}

/// Prints what the rounds of a cell measured.
fn show(cell: &Cell, servers: &[Server]) {
    let nbdkit = servers
        .iter()
        .find(|server| server.name == "nbdkit")
        .map(|server| server.median(|round| round.iops));
    let none = servers[0].median(|round| round.iops);
    println!("| {} | IOPS | MB/s | times nbdkit | of none | CPU us a request |", cell.name);
    println!("|---|---|---|---|---|---|");
    for server in servers {
        let iops = server.median(|round| round.iops);
        let times = nbdkit.map_or_else(|| "-".to_owned(), |nbdkit| format!("{:.2}", iops / nbdkit));
        let cpu_us =
            server.child.as_ref().map(|_| format!("{:.2}", server.median(|round| round.cpu_us)));
        println!(
            "| {} | {iops:.0} | {:.0} | {times} | {:.2} | {} |",
            server.name,
            iops * cell.block as f64 / 1e6,
            iops / none,
            cpu_us.as_deref().unwrap_or("-")
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
    let after = |word: &str| {
        arguments.iter().position(|argument| argument == word).and_then(|at| arguments.get(at + 1))
    };
    let full = arguments.iter().any(|argument| argument == "--bench");
    if elevon_testkit::tool("fio").is_none() {
        return;
    }
    let rounds = after("--rounds").and_then(|rounds| rounds.parse().ok()).unwrap_or(if full {
        7
    } else {
        1
    });
    let only = after("--only").map_or("", String::as_str);
    let (folder, memory) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir_in(TMPFS).expect("tmpfs"));
    let (folder, disk) = (folder.path(), memory.path().join("disk.img"));
    fs::write(&disk, vec![1; FILE as usize]).expect("space");
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
    println!(
        "| memory of an idle connection, KiB | export open | after a read of 4 KiB | 11 s after a write of 256 KiB |"
    );
    println!("|---|---|---|---|");
    // Each from new servers: what a closed connection leaves behind would count for the next.
    let names: Vec<&str> =
        servers.iter().filter(|server| server.child.is_some()).map(|server| server.name).collect();
    drop(servers);
    let written_idle = if full { 11 } else { 0 };
    let columns =
        [(Asks::Nothing, 0), (Asks::Read(4096), 0), (Asks::Write(256 << 10), written_idle)].map(
            |(asks, idle)| {
                let folder = tempfile::tempdir().expect("a folder");
                let servers = self::servers(folder.path(), &disk);
                let ours = servers.iter().filter(|server| server.child.is_some());
                let of = |server: &Server| {
                    server.memory_of_connection(count, asks, Duration::from_secs(idle))
                };
                ours.map(of).collect::<Vec<f64>>()
            },
        );
    for (at, name) in names.iter().enumerate() {
        let [open, read, written] = columns.each_ref().map(|column| column[at]);
        println!("| {name} | {open:.1} | {read:.1} | {written:.1} |");
    }
}
