//! Twelve clients, each beside twelve hostile neighbours of the same weight, in virtual time: what
//! is left of a client's share, and how long its requests wait. `cargo test --profile
//! optimised-tests -p elevon-serve all_pairs -- --ignored --nocapture` prints the tables of
//! `docs/evidence/neighbours.md`; with `ELEVON_SCHEDULER=bfq` those of another scheduler.

use std::time::Duration;

use elevon_cache::page_cache::WriteMode;
use elevon_core::units::Nanos;
use elevon_testkit::Rng;
use elevon_testkit::habits::{Habit, Manner, NEIGHBOURS, VICTIMS};

use super::lab::{Lab, cache};

/// What the device's thread computes for a request. About what a thread of a server takes, whose
/// clients keep many requests in flight.
const COMPUTES: Nanos = Nanos::from_micros(5);

/// What a server has by default, unless another is asked for.
fn scheduler() -> String {
    std::env::var("ELEVON_SCHEDULER").unwrap_or_else(|_| "aileron".to_owned())
}

const TENANTS: &str = "[tenant.victim]\n[tenant.neighbour]\n";
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

/// What a client got.
struct Got {
    rate: f64,
    p99: u64,
    longest: Nanos,
    /// The part of the time in which the device had something of it or of others.
    busy: f64,
}

/// Runs a client, beside a neighbour or alone.
fn run(place: &Place, victim: Habit, neighbour: Option<Habit>) -> Got {
    // These two are hostile to a page cache.
    let is_cached = neighbour.is_some_and(|habit| ["CACHE", "cache thrash"].contains(&habit.name));
    let mut lab = match is_cached {
        true => {
            let frames = cache(64 * MIB, WriteMode::Back);
            Lab::cached(place.device, &[], &scheduler(), TENANTS, frames)
        }
        false => Lab::new(place.device, &[], &scheduler(), TENANTS),
    };
    lab.computes = COMPUTES;
    lab.add_at("victim", (0, place.part), victim);
    if let Some(habit) = neighbour {
        lab.add_at("neighbour", (place.part, place.part), habit);
    }
    lab.warm_up(place.warm_up);
    let (began, busy) = (lab.now(), lab.busy());
    lab.run(place.measured);
    let now = lab.now();
    let seconds = now.since(began).get() as f64 / 1e9;
    Got {
        rate: lab.clients[0].done as f64 / seconds,
        p99: lab.clients[0].latency.percentile(990_000),
        longest: lab.clients[0].longest_wait(now),
        busy: (lab.busy().get() - busy.get()) as f64 / now.since(began).get() as f64,
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
        let alone = run(place, victim, None);
        let used = match place.is_serial {
            true => alone.busy,
            // As a part of what the same requests get if many are in flight.
            false => {
                let many =
                    Habit { depth: 64, think: Duration::ZERO, manner: Manner::Steady, ..victim };
                alone.rate / run(place, many, None).rate
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
    fn of(place: &Place, share: &Share, victim: Habit, neighbour: Habit) -> Self {
        let got = run(place, victim, Some(neighbour));
        let (kept, p99) = (got.rate / share.rate, got.p99 as f64 / share.p99_alone as f64);
        Self { kept, p99, longest: got.longest }
    }

    fn is_met(&self) -> bool {
        self.kept >= 0.9 && self.p99 <= 3.0
    }
}

/// A place on which a pair takes little time.
const SHORT: Place = Place {
    name: "simulated flash",
    device: "nvme-consumer",
    part: 256 << 20,
    warm_up: Nanos::from_millis(10),
    measured: Nanos::from_millis(30),
    bound: Nanos::from_millis(20),
    is_serial: false,
};

/// Returns what becomes of a client of random parameters beside a neighbour of such.
fn random_pair(seed: u64) -> Pair {
    let mut rng = Rng(seed);
    let (victim, neighbour) = (Habit::ordinary(&mut rng), Habit::hostile(&mut rng));
    Pair::of(&SHORT, &Share::of(&SHORT, victim), victim, neighbour)
}

/// Pairs in which the neighbour takes much if nothing holds it: without a scheduler (`none`) the
/// first keeps 0.12 of its share, and the third 0.05.
const SAMPLE: [u64; 6] = [0, 4, 9, 11, 18, 32];

#[test]
fn random_neighbours_leave_a_client_its_part() {
    for seed in SAMPLE {
        let pair = random_pair(seed);
        assert!(pair.kept >= 0.15, "seed {seed}: {:.3} of its share is left", pair.kept);
        assert!(pair.longest <= SHORT.bound, "seed {seed}: a request waited for {}", pair.longest);
    }
}

/// Prints what share of `ELEVON_SEEDS` random pairs keeps both goals.
#[test]
fn so_many_random_pairs_as_are_asked_for() {
    let Ok(seeds) = std::env::var("ELEVON_SEEDS") else { return };
    let seeds: u64 = seeds.parse().expect("ELEVON_SEEDS is a number");
    let pairs: Vec<Pair> = (0..seeds).map(random_pair).collect();
    let count = |is: &dyn Fn(&Pair) -> bool| pairs.iter().filter(|pair| is(pair)).count();
    let (met, in_bound) = (count(&Pair::is_met), count(&|pair| pair.longest <= SHORT.bound));
    println!(
        "{met} of {seeds} pairs keep both goals. In {in_bound} no request waited for more than 20 ms."
    );
    for least in [0.9, 0.5, 0.2, 0.1] {
        println!("{} keep less than {least} of their share.", count(&|pair| pair.kept < least));
    }
    assert!(met as f64 >= 0.5 * seeds as f64, "half of them keep both goals");
}

/// All 144 pairs on every device, as a table.
#[test]
#[ignore = "it takes minutes, and prints the tables of docs/evidence/neighbours.md"]
fn all_pairs() {
    for place in &PLACES {
        println!("\n## On {} (`{}`), under {}\n", place.name, place.device, scheduler());
        println!(
            "| |{} longest wait |",
            VICTIMS.map(|victim| format!(" {} |", victim.name)).concat()
        );
        println!("|---|{}---|", "---|".repeat(VICTIMS.len()));
        let shares = VICTIMS.map(|victim| Share::of(place, victim));
        let (mut met, mut in_bound) = (0, 0);
        for neighbour in NEIGHBOURS {
            print!("| {} |", neighbour.name);
            let mut longest = Nanos::ZERO;
            for (victim, share) in VICTIMS.iter().zip(&shares) {
                let pair = Pair::of(place, share, *victim, neighbour);
                let mark = if pair.is_met() { "" } else { " ✗" };
                print!(" {:.2}, {:.1}{mark} |", pair.kept, pair.p99);
                met += u32::from(pair.is_met());
                in_bound += u32::from(pair.longest <= place.bound);
                longest = longest.max(pair.longest);
            }
            println!(" {} ms |", longest.get() / 1_000_000);
        }
        let bound = place.bound.get() / 1_000_000;
        println!(
            "\n{met} of 144 pairs keep both goals. In {in_bound} no request waited for more than {bound} ms."
        );
    }
}
