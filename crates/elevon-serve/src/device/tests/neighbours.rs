//! Twelve clients, each beside twelve hostile neighbours of the same weight, in virtual time: what
//! is left of a client's share, and how long its requests wait. `cargo test --profile
//! optimised-tests -p elevon-serve all_pairs -- --ignored --nocapture` prints the tables of
//! `docs/evidence/neighbours.md`; with `ELEVON_SCHEDULER=bfq` those of another scheduler.

mod actor;

use elevon_cache::page_cache::WriteMode;
use elevon_core::units::{Instant, Nanos};
use elevon_nbd::Command;
use elevon_testkit::Rng;

use super::lab::{Lab, cache};
use actor::{Actor, Ask, Habit, Manner};

/// What a server has by default, unless another is asked for.
fn scheduler() -> String {
    std::env::var("ELEVON_SCHEDULER").unwrap_or_else(|_| "flow".to_owned())
}

const TENANTS: &str = "[tenant.victim]\n[tenant.neighbour]\n";
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A device on which pairs meet.
struct Place {
    name: &'static str,
    device: &'static str,
    /// Bytes of the part of each client.
    part: u64,
    /// How long it takes until a scheduler knows the device, and how long is measured.
    warm_up: Nanos,
    measured: Nanos,
    /// The longest that a request may wait while its client's share is not served.
    bound: Nanos,
    /// Commands that it does at a time.
    is_serial: bool,
}

const PLACES: [Place; 2] = [
    Place {
        name: "a simulated disk",
        device: "hdd-7200",
        part: 64 << 30,
        warm_up: Nanos::from_secs(2),
        measured: Nanos::from_secs(5),
        bound: Nanos::from_millis(250),
        is_serial: true,
    },
    Place {
        name: "simulated flash",
        device: "nvme-consumer",
        part: 256 << 20,
        warm_up: Nanos::from_millis(100),
        measured: Nanos::from_millis(400),
        bound: Nanos::from_millis(20),
        is_serial: false,
    },
];

const fn habit(name: &'static str, depth: usize, ask: fn(u64, &mut Rng, u64) -> Ask) -> Habit {
    Habit { name, depth, think: Nanos::ZERO, manner: Manner::Steady, ask }
}

fn random(rng: &mut Rng, bytes: u64, size: u64) -> u64 {
    rng.below(size / bytes) * bytes
}

fn next(number: u64, bytes: u64, size: u64) -> u64 {
    number % (size / bytes) * bytes
}

const NO_HOLE: Command = Command::WriteZeroes { no_hole: true, fast: false };

const NEIGHBOURS: [Habit; 12] = [
    habit("TRIM", 256, |_, _, _| (Command::Trim, 0, 4 * KIB)),
    habit("zeroes", 256, |_, _, _| (NO_HOLE, 0, 4 * KIB)),
    habit("CACHE", 256, |_, rng, size| (Command::Cache, random(rng, 64 * KIB, size), 64 * KIB)),
    habit("flush", 256, |_, _, _| (Command::Flush, 0, 0)),
    habit("block status", 256, |_, _, size| (Command::BlockStatus { one: false }, 0, size.min(1 << 30))),
    habit("unaligned writes", 64, |_, rng, size| (Command::Write, random(rng, 4 * KIB, size) + 300, 3 * KIB + 1)),
    Habit {
        think: Nanos::from_millis(50),
        manner: Manner::Bursts,
        ..habit("bursts of 1,000", 1000, |_, rng, size| (Command::Read, random(rng, 4 * KIB, size), 4 * KIB))
    },
    Habit {
        think: Nanos::from_micros(100),
        manner: Manner::Reconnects,
        ..habit("connections", 8, |_, rng, size| (Command::Read, random(rng, 4 * KIB, size), 4 * KIB))
    },
    Habit {
        manner: Manner::TakesNothing,
        ..habit("reads not taken", 64, |number, _, size| (Command::Read, next(number, 32 * MIB, size), 32 * MIB))
    },
    habit("cache thrash", 64, |_, rng, size| (Command::Read, random(rng, 64 * KIB, size), 64 * KIB)),
    habit("tiny writes", 128, |_, rng, size| (Command::Write, random(rng, 512, size), 512)),
    habit("sequential", 32, |number, _, size| (Command::Read, next(number, MIB, size), MIB)),
];

const VICTIMS: [Habit; 12] = [
    habit("reader", 1, |_, rng, size| (Command::Read, random(rng, 4 * KIB, size), 4 * KIB)),
    Habit {
        think: Nanos::from_millis(2),
        ..habit("thinking reader", 1, |_, rng, size| (Command::Read, random(rng, 4 * KIB, size), 4 * KIB))
    },
    Habit {
        think: Nanos::from_millis(2),
        ..habit("thinking stream", 1, |number, _, size| (Command::Read, next(number, 4 * KIB, size), 4 * KIB))
    },
    habit("stream", 4, |number, _, size| (Command::Read, next(number, 64 * KIB, size), 64 * KIB)),
    habit("log with fsync", 1, |number, _, size| match number % 2 {
        0 => (Command::Write, next(number / 2, 4 * KIB, size), 4 * KIB),
        _ => (Command::Flush, 0, 0),
    }),
    habit("writer", 1, |_, rng, size| (Command::Write, random(rng, 4 * KIB, size), 4 * KIB)),
    habit("database", 8, |number, rng, size| match number % 4 {
        0 => (Command::Write, random(rng, 8 * KIB, size), 8 * KIB),
        _ => (Command::Read, random(rng, 8 * KIB, size), 8 * KIB),
    }),
    habit("busy reader", 32, |_, rng, size| (Command::Read, random(rng, 4 * KIB, size), 4 * KIB)),
    habit("backup", 2, |number, _, size| (Command::Read, next(number, MIB, size), MIB)),
    Habit {
        think: Nanos::from_millis(50),
        manner: Manner::Bursts,
        ..habit("page loads", 16, |_, rng, size| (Command::Read, random(rng, 16 * KIB, size), 16 * KIB))
    },
    habit("copy", 4, |number, _, size| (Command::Write, next(number, 64 * KIB, size), 64 * KIB)),
    habit("odd reader", 1, |_, rng, size| (Command::Read, random(rng, 4 * KIB, size) + 1000, 500)),
];

/// What a client got.
struct Got {
    rate: f64,
    p99: u64,
    longest: Nanos,
    /// The part of the time in which the device had something of it or of others.
    busy: f64,
}

/// Runs a client, beside a neighbour or alone.
fn run(place: &Place, victim: Habit, neighbour: Option<Habit>, seed: u64) -> Got {
    // These two are hostile to a page cache.
    let is_cached = neighbour.is_some_and(|habit| ["CACHE", "cache thrash"].contains(&habit.name));
    let mut lab = match is_cached {
        true => {
            let frames = cache(64 * MIB, WriteMode::Back);
            Lab::cached(place.device, &[], &scheduler(), TENANTS, frames)
        }
        false => Lab::new(place.device, &[], &scheduler(), TENANTS),
    };
    let seed = seed as u32 * 1000;
    let mut actors = vec![Actor::new(&mut lab, seed, "victim", (0, place.part), victim)];
    if let Some(habit) = neighbour {
        actors.push(Actor::new(&mut lab, 1 << 24 | seed, "neighbour", (place.part, place.part), habit));
    }
    pass(&mut lab, &mut actors, place.warm_up);
    actors.iter_mut().for_each(Actor::forget);
    let began = lab.now();
    let busy = lab.busy();
    pass(&mut lab, &mut actors, place.measured);
    let now = lab.now();
    let seconds = now.since(began).get() as f64 / 1e9;
    Got {
        rate: actors[0].done as f64 / seconds,
        p99: actors[0].latency.percentile(990_000),
        longest: actors[0].longest_wait(now),
        busy: (lab.busy().get() - busy.get()) as f64 / now.since(began).get() as f64,
    }
}

/// Lets time pass.
fn pass(lab: &mut Lab, actors: &mut [Actor], span: Nanos) {
    let end = lab.now().saturating_add(span);
    while lab.now() < end {
        let mut moved = lab.turn();
        let (now, mut next) = (lab.now(), Instant::MAX);
        for actor in actors.iter_mut() {
            let (has_asked, again) = actor.act(lab, now);
            moved |= has_asked;
            next = next.min(again);
        }
        assert!(moved || lab.wait_until(next.min(end)), "something happens until the end");
    }
}

/// What a client can expect of a device that it shares with one other of its weight.
struct Share {
    rate: f64,
    p99_alone: u64,
}

impl Share {
    /// Half of the device's time, or all that it uses of it alone.
    fn of(place: &Place, victim: Habit) -> Self {
        let alone = run(place, victim, None, 0);
        let used = match place.is_serial {
            true => alone.busy,
            // As a part of what the same requests get if many are in flight.
            false => {
                let many = Habit { depth: 64, think: Nanos::ZERO, manner: Manner::Steady, ..victim };
                alone.rate / run(place, many, None, 0).rate
            }
        };
        Self { rate: alone.rate * (0.5 / used).min(1.0), p99_alone: alone.p99 }
    }
}

/// One pair: the part of the share that the client kept, and its p99 as a multiple of that alone.
struct Pair {
    kept: f64,
    p99: f64,
    longest: Nanos,
}

impl Pair {
    fn of(place: &Place, share: &Share, victim: Habit, neighbour: Habit, seed: u64) -> Self {
        let got = run(place, victim, Some(neighbour), seed);
        let (kept, p99) = (got.rate / share.rate, got.p99 as f64 / share.p99_alone as f64);
        Self { kept, p99, longest: got.longest }
    }

    fn is_met(&self) -> bool {
        self.kept >= 0.9 && self.p99 <= 3.0
    }
}

/// All 144 pairs on every device, as a table.
#[test]
#[ignore = "it takes minutes, and prints the tables of docs/evidence/neighbours.md"]
fn all_pairs() {
    for place in &PLACES {
        println!("\n## On {} (`{}`), under {}\n", place.name, place.device, scheduler());
        println!("| |{} longest wait |", VICTIMS.map(|victim| format!(" {} |", victim.name)).concat());
        println!("|---|{}---|", "---|".repeat(VICTIMS.len()));
        let shares = VICTIMS.map(|victim| Share::of(place, victim));
        let (mut met, mut in_bound) = (0, 0);
        for neighbour in NEIGHBOURS {
            print!("| {} |", neighbour.name);
            let mut longest = Nanos::ZERO;
            for (victim, share) in VICTIMS.iter().zip(&shares) {
                let pair = Pair::of(place, share, *victim, neighbour, 1);
                let mark = if pair.is_met() { "" } else { " ✗" };
                print!(" {:.2}, {:.1}{mark} |", pair.kept, pair.p99);
                met += u32::from(pair.is_met());
                in_bound += u32::from(pair.longest <= place.bound);
                longest = longest.max(pair.longest);
            }
            println!(" {} ms |", longest.get() / 1_000_000);
        }
        let bound = place.bound.get() / 1_000_000;
        println!("\n{met} of 144 pairs keep both goals. In {in_bound} no request waited for more than {bound} ms.");
    }
}
