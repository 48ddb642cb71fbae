//! Twelve clients on a real file, each beside twelve hostile neighbours of the same weight: what is
//! left of a client's share, and how long its requests wait. `cargo test -p elevon --test serve
//! all_pairs_on_a_file -- --ignored --nocapture` prints the table.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use elevon_testkit::Rng;
use elevon_testkit::habits::{Command, Habit, Manner, NEIGHBOURS, VICTIMS};

use crate::common::Bench;
use crate::common::nbd::{Client, READ, WRITE};
use crate::common::served::{Served, pattern};

/// Bytes of the part of each client.
const PART: usize = 256 << 20;
const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_secs(2);
/// The longest that a request may wait while its client's share is not served.
const BOUND: Duration = Duration::from_millis(250);

/// Requests of a connection that a server takes before it has answered one.
const IN_FLIGHT: usize = 128;

const CONFIG: &str = "\
listen = 'unix:s'
[device.d]
device = './disk.img'
direct = true
CACHE
[export.victim]
size = '256MiB'
[export.neighbour]
start = '256MiB'
[tenant.victim]
[tenant.neighbour]
";

/// What a client got in the time that is measured.
#[derive(Default)]
struct Got {
    rate: f64,
    p99: Duration,
    longest: Duration,
}

/// A connection that follows a habit.
struct Life<'a> {
    socket: &'a Path,
    export: &'a str,
    habit: Habit,
    client: Client,
    /// When each request was sent, and how much data its answer has.
    sent: BTreeMap<u64, (Instant, u32)>,
    number: u64,
    rng: Rng,
    /// How long each request took that was answered in the time that is measured.
    took: Vec<Duration>,
}

impl<'a> Life<'a> {
    fn new(socket: &'a Path, export: &'a str, habit: Habit) -> Self {
        let client = Self::open(socket, export, habit);
        Self {
            socket,
            export,
            habit,
            client,
            sent: BTreeMap::new(),
            number: 0,
            rng: Rng(1),
            took: Vec::new(),
        }
    }

    fn open(socket: &Path, export: &str, habit: Habit) -> Client {
        match Self::asks(habit) {
            true => Client::open_asking(socket, export),
            false => Client::open(socket, export),
        }
        .expect("it listens")
    }

    fn asks(habit: Habit) -> bool {
        habit.name == "block status"
    }

    fn ask(&mut self) {
        let (command, offset, bytes) = self.habit.ask(self.number, &mut self.rng, PART as u64);
        let (flags, code) = match command {
            Command::Read => (0, READ),
            Command::Write => (0, WRITE),
            Command::Flush => (0, 3),
            Command::Trim => (0, 4),
            Command::Cache => (0, 5),
            Command::Zeroes => (2, 6),
            Command::BlockStatus => (0, 7),
        };
        let payload = if command == Command::Write {
            vec![self.number as u8; bytes as usize]
        } else {
            Vec::new()
        };
        self.number += 1;
        let sent = Instant::now();
        let cookie = self.client.send(flags, code, offset, bytes as u32, &payload).expect("sent");
        self.sent.insert(cookie, (sent, if command == Command::Read { bytes as u32 } else { 0 }));
    }

    fn answer(&mut self, from: Instant) {
        let cookie = if Self::asks(self.habit) {
            loop {
                if let Some(cookie) = self.client.chunk().expect("an answer") {
                    break cookie;
                }
            }
        } else {
            let (cookie, errno) = self.client.answer().expect("an answer");
            assert_eq!(errno, 0, "a request of {}", self.habit.name);
            cookie
        };
        let (sent, data) = self.sent.remove(&cookie).expect("an answer to a question");
        self.client.data(data).expect("the data");
        if Instant::now() >= from {
            self.took.push(sent.elapsed());
        }
    }

    /// Lives until an instant, and measures from another one on.
    fn run(mut self, from: Instant, until: Instant) -> Got {
        while Instant::now() < until {
            match self.habit.manner {
                Manner::TakesNothing => {
                    (0..self.habit.depth).for_each(|_| self.ask());
                    std::thread::sleep(until.saturating_duration_since(Instant::now()));
                    return Got::default();
                }
                Manner::Bursts => {
                    for _ in 0..self.habit.depth {
                        // Both sides would wait if more were sent than the server takes.
                        if self.sent.len() >= IN_FLIGHT {
                            self.answer(from);
                        }
                        self.ask();
                    }
                    (0..self.sent.len()).for_each(|_| self.answer(from));
                }
                Manner::Steady | Manner::Late => {
                    while self.sent.len() < self.habit.depth {
                        self.ask();
                    }
                    self.answer(from);
                }
                Manner::Reconnects => {
                    self.client = Self::open(self.socket, self.export, self.habit);
                    self.ask();
                    self.answer(from);
                }
            }
            std::thread::sleep(self.habit.think);
        }
        self.took.sort_unstable();
        let seconds = until.duration_since(from).as_secs_f64();
        let longest = self.took.last().copied().unwrap_or(until.duration_since(from));
        let p99 = self.took.get(self.took.len() * 99 / 100).copied().unwrap_or(longest);
        Got { rate: self.took.len() as f64 / seconds, p99, longest }
    }
}

/// Runs a client, beside a neighbour or alone, on a server of their own.
fn run(bench: Bench, victim: Habit, neighbour: Option<Habit>) -> (Bench, Got) {
    // These two are hostile to a page cache.
    let is_cached = neighbour.is_some_and(|habit| ["CACHE", "cache thrash"].contains(&habit.name));
    bench.file("c.toml", CONFIG.replace("CACHE", if is_cached { "cache = '64MiB'" } else { "" }));
    let served = Served::run(bench, &["c.toml"]);
    let socket = &*served.bench.path("s");
    let from = Instant::now() + WARM_UP;
    let until = from + MEASURED;
    let got = std::thread::scope(|scope| {
        if let Some(habit) = neighbour {
            let copies = if habit.manner == Manner::Reconnects { habit.depth } else { 1 };
            for _ in 0..copies {
                scope.spawn(move || Life::new(socket, "neighbour", habit).run(from, until));
            }
        }
        Life::new(socket, "victim", victim).run(from, until)
    });
    (served.ended(), got)
}

/// What a client can expect of a device that it shares with one other of its weight: half of what
/// the same requests get if many are in flight, or all that it uses alone.
struct Share {
    rate: f64,
    p99_alone: Duration,
}

impl Share {
    fn of(bench: Bench, victim: Habit) -> (Bench, Self) {
        let (bench, alone) = run(bench, victim, None);
        let many = Habit { depth: 64, think: Duration::ZERO, manner: Manner::Steady, ..victim };
        let (bench, many) = run(bench, many, None);
        let used = alone.rate / many.rate;
        (bench, Self { rate: alone.rate * (0.5 / used).min(1.0), p99_alone: alone.p99 })
    }
}

/// All 144 pairs, as a table.
#[test]
#[ignore = "it takes seven minutes on the real clock, and prints a table"]
fn all_pairs_on_a_file() {
    let mut bench = Bench::new();
    bench.file("disk.img", pattern(2 * PART));
    let mut shares = Vec::new();
    for victim in VICTIMS {
        let (back, share) = Share::of(bench, victim);
        shares.push(share);
        bench = back;
    }
    println!("| |{} longest wait |", VICTIMS.map(|victim| format!(" {} |", victim.name)).concat());
    println!("|---|{}---|", "---|".repeat(VICTIMS.len()));
    let (mut met, mut in_bound) = (0, 0);
    for neighbour in NEIGHBOURS {
        print!("| {} |", neighbour.name);
        let mut longest = Duration::ZERO;
        for (victim, share) in VICTIMS.iter().zip(&shares) {
            let (back, got) = run(bench, *victim, Some(neighbour));
            bench = back;
            let (kept, p99) =
                (got.rate / share.rate, got.p99.as_secs_f64() / share.p99_alone.as_secs_f64());
            let is_met = kept >= 0.9 && p99 <= 3.0;
            print!(" {kept:.2}, {p99:.1}{} |", if is_met { "" } else { " ✗" });
            met += u32::from(is_met);
            in_bound += u32::from(got.longest <= BOUND);
            longest = longest.max(got.longest);
        }
        println!(" {} ms |", longest.as_millis());
    }
    let bound = BOUND.as_millis();
    println!(
        "\n{met} of 144 pairs keep both goals. In {in_bound} no request waited for more than {bound} ms."
    );
}
