//! The speed of servers, with one guest each.

use std::time::Instant;

use elevon_testkit::Rng;

use crate::driver::{DATA, Guest, INFLIGHT, Options, READ, Request, WRITE};
use crate::process::{Server, median};
use crate::{Effort, FILE, Place};

/// How many times as fast as qemu-storage-daemon a cell is to be.
const GOAL: f64 = 1.2;

/// What the guest does.
struct Cell {
    name: &'static str,
    kind: u32,
    block: u32,
    depth: u64,
}

const CELLS: [Cell; 8] = [
    Cell { name: "4 KiB read, depth 1", kind: READ, block: 4096, depth: 1 },
    Cell { name: "4 KiB read, depth 32", kind: READ, block: 4096, depth: 32 },
    Cell { name: "4 KiB read, depth 128", kind: READ, block: 4096, depth: 128 },
    Cell { name: "256 KiB read, depth 8", kind: READ, block: 256 << 10, depth: 8 },
    Cell { name: "4 KiB write, depth 1", kind: WRITE, block: 4096, depth: 1 },
    Cell { name: "4 KiB write, depth 32", kind: WRITE, block: 4096, depth: 32 },
    Cell { name: "4 KiB write, depth 128", kind: WRITE, block: 4096, depth: 128 },
    Cell { name: "256 KiB write, depth 8", kind: WRITE, block: 256 << 10, depth: 8 },
];

/// A server with its guest, and what the rounds of a cell measured: requests a second, and
/// microseconds of CPU time of the server for each.
struct Measured {
    server: Server,
    guest: Guest,
    rounds: Vec<(f64, f64)>,
}

impl Measured {
    fn new(server: Server, place: &Place, socket: &str, protocols: u64) -> Self {
        let options = Options { protocols, ..Options::default() };
        let guest = Guest::connect(&place.path(socket), options);
        Self { server, guest, rounds: Vec::new() }
    }

    fn round(&mut self, cell: &Cell, seconds: f64) {
        let (began, cpu) = (Instant::now(), self.server.cpu_seconds());
        let count = keep_in_flight(&mut self.guest, cell, seconds) as f64;
        let (elapsed, cpu) = (began.elapsed().as_secs_f64(), self.server.cpu_seconds() - cpu);
        self.rounds.push((count / elapsed, cpu * 1e6 / count));
    }

    fn iops(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.0).collect())
    }

    fn cpu_us(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.1).collect())
    }
}

/// Keeps requests at random places in flight for some seconds. Returns how many have ended.
fn keep_in_flight(guest: &mut Guest, cell: &Cell, seconds: f64) -> u64 {
    let mut rng = Rng(1);
    let mut submit = |guest: &mut Guest, slot: u64| {
        let sector = rng.below(FILE / u64::from(cell.block)) * u64::from(cell.block) / 512;
        let at = DATA + slot * u64::from(cell.block);
        let request = Request { kind: cell.kind, ioprio: 0, sector, at, bytes: cell.block };
        guest.submit(0, &request).expect("a descriptor")
    };
    // The slot of the data of each request, by its first descriptor.
    let mut slots = [0; 128];
    for slot in 0..cell.depth {
        slots[usize::from(submit(guest, slot))] = slot;
    }
    guest.kick(0);
    let (began, mut ended, mut left) = (Instant::now(), 0, cell.depth);
    while left > 0 {
        let mut next = Some(guest.wait(0));
        while let Some(one) = next {
            assert_eq!(one.status, 0);
            ended += 1;
            if began.elapsed().as_secs_f64() < seconds {
                let slot = slots[usize::from(one.head)];
                slots[usize::from(submit(guest, slot))] = slot;
            } else {
                left -= 1;
            }
            next = guest.poll(0);
        }
        guest.kick(0);
    }
    ended
}

/// Starts Elevon with a scheduler.
fn elevon(name: &'static str, scheduler: &str, place: &Place) -> Measured {
    let socket = format!("elevon-{scheduler}");
    let server = Server::elevon_alone(name, scheduler, place, &socket);
    Measured::new(server, place, &socket, Options::default().protocols)
}

/// Starts qemu-storage-daemon with a way to do I/O.
fn qemu(name: &'static str, aio: &str, place: &Place) -> Option<Measured> {
    let socket = format!("qemu-{aio}");
    let server = Server::qemu(name, aio, place, &socket)?;
    Some(Measured::new(server, place, &socket, Options::default().protocols & !INFLIGHT))
}

/// Compares servers, and prints a table.
pub(crate) fn compare(place: &Place, effort: &Effort) {
    let mut servers = vec![
        elevon("Elevon, `none`", "none", place),
        elevon("Elevon, `aileron`", "aileron", place),
    ];
    servers.extend(qemu("QEMU, threads", "threads", place));
    servers.extend(qemu("QEMU, io_uring", "io_uring", place));
    println!("| requests a second (CPU us of the server for each) | times QEMU, goal {GOAL} |");
    for cell in CELLS.iter().filter(|cell| cell.name.contains(&effort.only)) {
        servers.iter_mut().for_each(|server| server.rounds.clear());
        for _ in 0..effort.rounds {
            servers.iter_mut().for_each(|server| server.round(cell, effort.seconds));
        }
        let of = |server: &Measured| {
            format!("{} {:.0} ({:.2})", server.server.name, server.iops(), server.cpu_us())
        };
        let figures: Vec<String> = servers.iter().map(of).collect();
        let best = servers[2..].iter().map(Measured::iops).fold(0.0, f64::max);
        let times = |server: &Measured| format!("{:.2}", server.iops() / best);
        let times: Vec<String> = servers[..2].iter().map(times).collect();
        println!("| {} | {} | {} |", cell.name, figures.join(" | "), times.join(", "));
    }
}
