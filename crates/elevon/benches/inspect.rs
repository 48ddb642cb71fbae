//! `elevon inspect` as a command, beside what `blkparse` and `btt` need for the same latency table
//! of the same trace: CPU time, throughput and peak memory. The programs run in turns, so that a
//! machine that gets slower or faster meanwhile changes all alike; a ratio is the median of those
//! of the rounds.
//!
//! `cargo bench -p elevon --bench inspect` measures 3 million events; run by `cargo test` it only
//! proves that it runs. Goals, on one core: 20 times faster than blkparse and btt, 5 million events
//! of blktrace a second, 200 MB/s of ftrace text, and no more memory for a trace that is ten times
//! as long.

use std::fs;
use std::path::Path;
use std::process::Command;

use elevon_core::op::Flags;
use elevon_testkit::Rng;
use elevon_trace::names::Names;
use elevon_trace::write::{self, WriteOptions};
use elevon_trace::{DeviceNumber, TraceEvent, TraceKind, TraceOp};

mod used;

use used::{Used, used};

const CPUS: u32 = 2;
/// Requests in the device at a time.
const DEPTH: usize = 32;

/// The lives of the I/Os of six processes: random reads, and sequential writes of which some are
/// merged and some split.
struct Workload {
    random: Rng,
    names: Names,
    comms: Vec<Option<elevon_trace::names::NameId>>,
    time: u64,
    cursors: [u64; 6],
    /// Requests in the device: sector, bytes, operation.
    in_device: std::collections::VecDeque<(u64, u64, TraceOp)>,
}

impl Workload {
    fn new() -> Self {
        let mut names = Names::default();
        let comms = ["fio", "postgres", "kworker/u8:1", "dd", "java", "mysqld"]
            .map(|comm| names.intern(comm.as_bytes()));
        Self {
            random: Rng(1),
            names,
            comms: comms.to_vec(),
            time: 1_000_000_000,
            cursors: std::array::from_fn(|process| (process as u64 + 1) << 24),
            in_device: std::collections::VecDeque::new(),
        }
    }

    fn event(&mut self, kind: TraceKind, process: usize, place: (u64, u64, TraceOp)) -> TraceEvent {
        self.time += 200 + self.random.below(2_000);
        let (sector, bytes, op) = place;
        let mut event = TraceEvent::new(kind);
        event.time = Some(self.time);
        event.device = Some(DeviceNumber::new(8, 0));
        event.cpu = Some(process as u32 % CPUS);
        event.tid = Some(1000 + process as u32);
        event.comm = self.comms[process];
        (event.sector, event.bytes, event.op) = (Some(sector), Some(bytes), Some(op));
        event.flags = Some(if op == TraceOp::Write { Flags::SYNC } else { Flags::NONE });
        if kind == TraceKind::Complete {
            (event.tid, event.error) = (Some(0), Some(0));
        }
        event
    }

    /// Appends the events of the next I/O.
    fn step(&mut self, out: &mut Vec<TraceEvent>) {
        let process = self.random.below(6) as usize;
        let op = if process % 2 == 1 { TraceOp::Write } else { TraceOp::Read };
        let mut pieces = vec![];
        if op == TraceOp::Read {
            let place = (self.random.below(1 << 26) * 8, 4096u64 << self.random.below(3), op);
            out.push(self.event(TraceKind::Queue, process, place));
            pieces.push(place);
        } else {
            let at = self.cursors[process];
            let sectors = if self.random.one_in(16) { 2048 } else { 64 };
            self.cursors[process] += sectors;
            out.push(self.event(TraceKind::Queue, process, (at, sectors * 512, op)));
            if sectors > 1024 {
                let mut split = self.event(
                    TraceKind::Split { new_sector: at + 1024 },
                    process,
                    (at, 1024 * 512, op),
                );
                split.sector = Some(at);
                out.push(split);
                pieces.extend([(at, 1024 * 512, op), (at + 1024, (sectors - 1024) * 512, op)]);
            } else {
                pieces.push((at, sectors * 512, op));
            }
        }
        for place in &mut pieces {
            out.push(self.event(TraceKind::GetRequest, process, *place));
            if op == TraceOp::Write && place.1 == 64 * 512 && self.random.one_in(2) {
                // The next bio joins this request.
                let more = (place.0 + 64, 64 * 512, op);
                self.cursors[process] += 64;
                out.push(self.event(TraceKind::Queue, process, more));
                out.push(self.event(TraceKind::BackMerge, process, more));
                place.1 *= 2;
            }
            out.push(self.event(TraceKind::Insert, process, *place));
            out.push(self.event(TraceKind::Issue, process, *place));
            self.in_device.push_back(*place);
        }
        while self.in_device.len() > DEPTH {
            let at = self.random.below(DEPTH as u64) as usize;
            if let Some(done) = self.in_device.remove(at) {
                out.push(self.event(TraceKind::Complete, process, done));
            }
        }
    }
}

/// Writes a trace of about so many events; returns how many.
fn write_trace(path: &Path, events: u64) -> u64 {
    let mut workload = Workload::new();
    let options = WriteOptions { cpus: CPUS, ..WriteOptions::default() };
    let mut writer = write::create(path, options).expect("a file");
    let (mut written, mut step) = (0, Vec::new());
    while written < events {
        workload.step(&mut step);
        for event in step.drain(..) {
            writer.event(&event, &workload.names).expect("space");
            written += 1;
        }
    }
    writer.end().expect("space");
    written
}

fn elevon(trace: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    command.args(["inspect", trace]);
    command
}

fn size_of(folder: &Path, prefix: &str) -> u64 {
    let files = fs::read_dir(folder).expect("a folder").flatten();
    let own = files.filter(|file| file.file_name().to_string_lossy().starts_with(prefix));
    own.map(|file| file.metadata().map_or(0, |file| file.len())).sum()
}

fn show(what: &str, used: Used, events: u64, bytes: u64) {
    let seconds = used.seconds.max(0.01);
    println!(
        "{what:<44} {:>8.2} {:>10.2} {:>8.0} {:>8.1}",
        used.seconds,
        events as f64 / seconds / 1e6,
        bytes as f64 / seconds / 1e6,
        used.memory
    );
}

/// The run of least CPU time.
fn best(all: &[Used]) -> Used {
    all.iter().copied().min_by(|a, b| a.seconds.total_cmp(&b.seconds)).unwrap_or_default()
}

/// Runs commands in turns, and returns what each used in each round.
fn in_turns<const N: usize>(
    rounds: usize,
    folder: &Path,
    commands: [&dyn Fn() -> Command; N],
) -> [Vec<Used>; N] {
    let mut all = [const { Vec::new() }; N];
    for _ in 0..rounds {
        for (used_of, command) in all.iter_mut().zip(commands) {
            used_of.push(used(&mut command(), folder).0);
        }
    }
    all
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let (events, rounds) = if full { (3_000_000, 5) } else { (3_000, 1) };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    println!("{:<44} {:>8} {:>10} {:>8} {:>8}", "", "CPU s", "Mevents/s", "MB/s", "peak MB");

    let count = write_trace(&folder.join("t.blktrace"), events);
    let bytes = size_of(folder, "t.blktrace.");
    let length = write_trace(&folder.join("short.blktrace"), events / 10);
    let lines = write_trace(&folder.join("t.ftrace"), events);
    let (long, short, text) = (|| elevon("t"), || elevon("short"), || elevon("t.ftrace"));
    let [ours, short, text] =
        in_turns(rounds, folder, [&long, &short, &text]).map(|all| best(&all));
    show("elevon inspect, blktrace", ours, count, bytes);
    show(
        "elevon inspect, a tenth of the blktrace",
        short,
        length,
        size_of(folder, "short.blktrace."),
    );
    show("elevon inspect, ftrace text", text, lines, size_of(folder, "t.ftrace"));
    if full {
        println!(
            "memory for the trace that is ten times as long: {:+.1} MB",
            ours.memory - short.memory
        );
    }
    compare(folder, count, bytes, rounds);
}

/// blkparse and btt on the same trace, and how many times as long they take.
fn compare(folder: &Path, events: u64, bytes: u64, rounds: usize) {
    let Some(_) = elevon_testkit::tool("blkparse") else { return };
    let Some(_) = elevon_testkit::tool("btt") else { return };
    let blkparse = |more: &[&str]| {
        let mut command = Command::new("blkparse");
        command.args(["-i", "t", "-d", "t.bin"]).args(more);
        command
    };
    let (text, binary) = (|| blkparse(&[]), || blkparse(&["-q", "-O"]));
    let btt = || {
        let mut command = Command::new("btt");
        command.args(["-i", "t.bin"]);
        command
    };
    let [ours, text, binary, btt] =
        in_turns(rounds, folder, [&|| elevon("t"), &text, &binary, &btt]);
    show("blkparse -d, with its text", best(&text), events, bytes);
    show("blkparse -d -O, without text", best(&binary), events, bytes);
    show("btt", best(&btt), events, bytes);
    for (what, parsed) in [("blkparse -d and btt", &text), ("blkparse -d -O and btt", &binary)] {
        let rounds = ours.iter().zip(parsed).zip(&btt);
        let mut times: Vec<f64> = rounds
            .map(|((ours, parsed), btt)| (parsed.seconds + btt.seconds) / ours.seconds.max(0.01))
            .collect();
        times.sort_by(f64::total_cmp);
        let (least, most) = (times[0], times[times.len() - 1]);
        let median = times[times.len() / 2];
        println!(
            "{what}: {median:.1} times the CPU time of elevon inspect ({least:.1} to {most:.1})"
        );
    }
}
