//! 64 guests of one server, of which one breaks the rules.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use elevon_testkit::Rng;
use vm_memory::{Bytes, GuestAddress};

use crate::driver::{DATA, Guest, Options, READ, Request, write_descriptor};
use crate::process::{Server, knock, median};
use crate::{Effort, FILE, Place};

const GUESTS: u64 = 64;
/// The guest that breaks the rules.
const HOSTILE: u64 = GUESTS - 1;
/// What a guest thinks between two requests.
const THINK: Duration = Duration::from_micros(500);

/// What the hostile guest does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Connects, writes garbage into its rings, kicks, and comes again.
    Garbage,
    /// Connects and leaves.
    Reconnects,
    /// Never reads its used ring, and asks for more.
    NeverReads,
}

fn serve(place: &Place, name: &str) -> Server {
    let part = FILE / GUESTS;
    let disk = place.disk();
    let mut text = format!("[device.d]\ndevice = '{}'\nformat = 'raw'\n", disk.display());
    for number in 0..GUESTS {
        let (socket, start) = (place.path(&format!("{name}-{number}")), number * part);
        let socket = socket.display();
        let _ = write!(
            text,
            "[export.vm{number}]\nstart = {start}\nsize = {part}\nvhost = 'unix:{socket}'\n"
        );
    }
    let config = place.path(&format!("{name}.toml"));
    std::fs::write(&config, text).expect("written");
    Server::elevon("Elevon", &config, &place.path(&format!("{name}-{HOSTILE}")))
}

fn read(number: u64) -> Request {
    let sector = number * 7919 % (FILE / GUESTS / 4096) * 8;
    Request { kind: READ, ioprio: 0, sector, at: DATA, bytes: 4096 }
}

/// Acts against a server until it is told to stop, a thousand times a second at most.
fn act(place: &Place, name: &str, act: Act, stop: &AtomicBool) {
    let socket = place.path(&format!("{name}-{HOSTILE}"));
    let mut rng = Rng(7);
    let mut silent = (act == Act::NeverReads).then(|| Guest::connect(&socket, Options::default()));
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        match (act, &mut silent) {
            (Act::Garbage, _) => {
                garbage(&mut Guest::connect(&socket, Options::default()), &mut rng);
            }
            (Act::NeverReads, Some(guest)) => {
                if guest.submit(0, &read(count)).is_none() {
                    // All descriptors are in the used ring, which stays as it is.
                    guest.kick_anyway(0);
                }
                guest.kick(0);
            }
            _ => knock(&socket),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Fills the descriptors and the available ring with random words.
fn garbage(guest: &mut Guest, rng: &mut Rng) {
    guest.submit(0, &read(0)).expect("a descriptor");
    let [table, available, _] = guest.queues[0].places();
    for index in 0..128 {
        let word = rng.below(u64::MAX);
        write_descriptor(&guest.memory, table, index, (word, word as u32, word as u16, index));
    }
    let memory = guest.memory.clone();
    memory.write_slice(&rng.below(u64::MAX).to_le_bytes(), GuestAddress(available + 2)).unwrap();
    guest.kick_anyway(0);
}

/// Reads by all other guests in turns for some seconds, one request at a time, and returns the p99
/// in microseconds.
fn p99(guests: &mut [Guest], seconds: f64) -> f64 {
    let (began, mut times) = (Instant::now(), Vec::new());
    let mut number = 0;
    while began.elapsed().as_secs_f64() < seconds {
        for guest in guests.iter_mut() {
            let asked = Instant::now();
            assert_eq!(guest.run(0, &read(number)), 0);
            times.push(asked.elapsed().as_secs_f64() * 1e6);
            number += 1;
            std::thread::sleep(THINK);
        }
    }
    times.sort_by(f64::total_cmp);
    times[times.len() * 99 / 100]
}

/// Prints the p99 of the other guests beside what a hostile guest does: to another server, which
/// costs the machine as much, and to theirs.
pub(crate) fn beside_a_hostile_guest(place: &Place, effort: &Effort) {
    let (server, _other) = (serve(place, "crowd"), serve(place, "other"));
    let connect =
        |number| Guest::connect(&place.path(&format!("crowd-{number}")), Options::default());
    let mut guests: Vec<Guest> = (0..HOSTILE).map(connect).collect();
    p99(&mut guests, effort.seconds);
    let before = (server.memory_kib(), server.descriptors());
    println!("| the hostile guest | p99 us, it is at another server | at theirs | ratio |");
    for (what, how) in [
        ("garbage in its rings, and again", Act::Garbage),
        ("connects and leaves", Act::Reconnects),
        ("never reads its used ring", Act::NeverReads),
    ] {
        let mut beside = |name: &str| {
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| act(place, name, how, &stop));
                let p99 = p99(&mut guests, effort.seconds * 2.0);
                stop.store(true, Ordering::Relaxed);
                p99
            })
        };
        let rounds: Vec<(f64, f64)> =
            (0..effort.rounds).map(|_| (beside("other"), beside("crowd"))).collect();
        let elsewhere = median(rounds.iter().map(|round| round.0).collect());
        let here = median(rounds.iter().map(|round| round.1).collect());
        println!("| {what} | {elsewhere:.0} | {here:.0} | {:.2} |", here / elsewhere);
    }
    let after = (server.memory_kib(), server.descriptors());
    println!("memory in KiB and descriptors of the server: {before:?} before, {after:?} after");
}
