//! Tests guests, which speak vhost-user-blk, with a driver in user space: what requests do, what is
//! there after the server was killed, and what guests cannot do to it and to each other.

mod driver;
mod hostile;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use elevon_testkit::Rng;
use vm_memory::{Bytes, GuestAddress};

use crate::common::Bench;
use crate::common::served::{DISK, Served};
use driver::{DATA, DISCARD, Guest, NAME, Options, READ, Request, WRITE, WRITE_ZEROES};

const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// A server of two disks of a file, each for a guest, with what is added to the device and to the
/// first export.
fn serve(of_device: &str, of_export: &str) -> Served {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    serve_again(bench, of_device, of_export)
}

fn serve_again(bench: Bench, of_device: &str, of_export: &str) -> Served {
    let half = DISK / 2;
    let config = format!(
        "control = 'ctl'\n[device.d]\n{of_device}\n\
         [export.vm1]\nsize = {half}\nvhost = 'unix:vm1'\n{of_export}\n\
         [export.vm2]\nstart = {half}\nsize = {half}\nvhost = 'unix:vm2'\n"
    );
    bench.file("c.toml", config);
    let served = Served::run(bench, &["c.toml"]);
    assert_eq!(served.uri, "vhost-user: unix:vm1");
    served
}

const FILE: &str = "device = 'disk.img'";

fn vm1(served: &Served) -> std::path::PathBuf {
    served.bench.path("vm1")
}

/// Writes and reads at random places, each part of a request in another page or cut anywhere, and
/// compares with a copy.
fn verify(guest: &mut Guest, seed: u64) {
    let mut rng = Rng(seed);
    let mut copy = vec![0_u8; DISK / 2];
    for round in 0..400_u64 {
        let queue = rng.below(guest.options.queues.into()) as usize;
        let sectors = 1 + rng.below(64);
        let sector = rng.below((DISK / 2 / 512) as u64 - sectors);
        let (bytes, from) = ((sectors * 512) as usize, (sector * 512) as usize);
        // Whole pages often, so that they are lent.
        let align = if rng.one_in(2) { 4096 } else { 512 };
        let at = DATA + rng.below(1024) * align;
        let cut = (rng.below(bytes as u64 / 512) * 512) as u32;
        let parts = [(at, cut), (at + (1 << 23), bytes as u32 - cut)];
        let parts = if cut == 0 { &parts[1..] } else { &parts[..] };
        let is_write = rng.one_in(2);
        let kind = if is_write { WRITE } else { READ };
        if is_write {
            copy[from..from + bytes].fill(round as u8);
        }
        for &(at, bytes) in parts {
            let fill = vec![if is_write { round as u8 } else { 0xee }; bytes as usize];
            guest.memory.write_slice(&fill, GuestAddress(at)).expect("memory");
        }
        let request = Request { kind, ioprio: 0, sector, at, bytes: bytes as u32 };
        guest.submit_parts(queue, &request, parts).expect("a descriptor");
        guest.kick(queue);
        let ended = guest.wait(queue);
        assert_eq!(ended.status, OK, "round {round}");
        assert_eq!(ended.written, if is_write { 1 } else { bytes as u32 + 1 });
        let mut place = from;
        for &(at, bytes) in parts.iter().filter(|_| !is_write) {
            let mut read = vec![0; bytes as usize];
            guest.memory.read_slice(&mut read, GuestAddress(at)).expect("memory");
            assert!(read == copy[place..place + bytes as usize], "round {round}");
            place += bytes as usize;
        }
    }
    let all = guest.read_disk(0, 0, (DISK / 2) as u32);
    assert!(all == copy, "the whole disk");
}

#[test]
fn what_is_written_is_read_by_any_ring_on_any_device() {
    let simulated = "device = 'slots:slots=4,latency=10us,size=8MiB'";
    for (device, options) in [
        (FILE, Options { queues: 4, ..Options::default() }),
        (FILE, Options { indirect: false, ..Options::default() }),
        (FILE, Options { queues: 2, event_index: false, ..Options::default() }),
        ("device = 'disk.img'\nscheduler = 'aileron'\ndirect = true", Options::default()),
        ("device = 'disk.img'\ncache = '1MiB'", Options { queues: 2, ..Options::default() }),
        (simulated, Options { queues: 2, size: 16, ..Options::default() }),
    ] {
        let served = serve(device, "");
        let mut guest = Guest::connect(&vm1(&served), options);
        verify(&mut guest, 1);
        drop(guest);
        served.end();
    }
}

#[test]
fn requests_do_what_they_say_or_say_what_is_wrong() {
    let served = serve(FILE, "");
    let mut guest = Guest::connect(&vm1(&served), Options { queues: 2, ..Options::default() });
    let last = (DISK / 2 / 512) as u64;
    let config = guest.config();
    assert_eq!(config[..8], last.to_le_bytes());
    let request = |kind, sector, bytes| Request { kind, ioprio: 0, sector, at: DATA, bytes };
    assert_eq!(guest.run(1, &request(NAME, 0, 20)), OK);
    let mut name = [0; 20];
    guest.memory.read_slice(&mut name, GuestAddress(DATA)).expect("memory");
    assert_eq!(name[..4], *b"vm1\0");
    assert_eq!(guest.write_disk(0, 0, &[7; 64 << 10]), OK);
    assert_eq!(guest.flush(1), OK);
    assert_eq!(guest.change_range(0, DISCARD, (8, 8, 0)), OK);
    assert_eq!(guest.change_range(0, WRITE_ZEROES, (32, 16, 1)), OK);
    assert_eq!(guest.change_range(0, WRITE_ZEROES, (64, 16, 0)), OK);
    let read = guest.read_disk(0, 0, 64 << 10);
    for (sectors, byte) in [(0..8, 7), (16..32, 7), (32..48, 0), (48..64, 7), (64..80, 0)] {
        let bytes = &read[sectors.start * 512..sectors.end * 512];
        assert!(bytes.iter().all(|&it| it == byte), "sectors {sectors:?}");
    }
    for (what, wrong, status) in [
        ("an unknown kind", request(99, 0, 512), UNSUPPORTED),
        ("behind the end", request(READ, last, 512), IO_ERROR),
        ("across the end", request(WRITE, last - 1, 1024), IO_ERROR),
        ("an overflow", request(READ, u64::MAX / 512, 4096), IO_ERROR),
        ("a part of a sector", request(READ, 0, 100), IO_ERROR),
        ("nothing", request(READ, 0, 0), IO_ERROR),
        ("too much", request(READ, 0, 40 << 20), IO_ERROR),
    ] {
        assert_eq!(guest.run(0, &wrong), status, "{what}");
    }
    assert_eq!(guest.change_range(0, DISCARD, (0, 8, 1)), UNSUPPORTED, "a flag");
    assert_eq!(guest.change_range(0, WRITE_ZEROES, (0, u32::MAX, 0)), IO_ERROR, "a long range");
    assert_eq!(guest.run(0, &request(DISCARD, 0, 15)), IO_ERROR, "half a range");
    let stats = served.bench.stdout(&["ctl", "ctl", "stats"]);
    assert!(stats.contains("vm1"), "{stats}");
    drop(guest);
    served.end();
}

/// As QEMU does for a device that is plugged again.
#[test]
fn memory_that_is_added_again_takes_the_place_of_itself() {
    let served = serve(FILE, "");
    let mut guest = Guest::connect(&vm1(&served), Options::default());
    for byte in 0..3 {
        assert_eq!(guest.write_disk(0, 0, &[byte; 4096]), OK);
        guest.add_memory_again();
        assert_eq!(guest.read_disk(0, 0, 4096), [byte; 4096]);
    }
    drop(guest);
    served.end();
}

#[test]
fn a_disk_that_is_read_only_is_not_written() {
    let served = serve(FILE, "read_only = true");
    let mut guest = Guest::connect(&vm1(&served), Options::default());
    assert_ne!(guest.features & 1 << 5, 0, "the guest is told");
    assert_eq!(guest.write_disk(0, 0, &[1; 512]), IO_ERROR);
    assert_eq!(guest.change_range(0, DISCARD, (0, 8, 0)), IO_ERROR);
    assert_eq!(guest.read_disk(0, 0, 512), [0; 512]);
    drop(guest);
    served.end();
}

/// The server is killed while requests are in flight, which a limit holds. The guest goes on with
/// the next server, and each of its requests ends once.
#[test]
fn requests_in_flight_outlive_a_server_that_is_killed() {
    let limit = "\n[tenant.vm1]\nlimit = { wiops = 200 }\n";
    let mut served = serve(FILE, limit);
    let options = Options { queues: 2, ..Options::default() };
    let mut guest = Guest::connect(&vm1(&served), options);
    let (mut pending, mut ended) = (0_u64, 0_u64);
    for round in 0..4_u64 {
        for number in 0..40_u64 {
            let queue = (number % 2) as usize;
            let place = round * 40 + number;
            let at = DATA + place * 4096;
            let fill = [place as u8 + 1; 4096];
            guest.memory.write_slice(&fill, GuestAddress(at)).expect("memory");
            let request = Request { kind: WRITE, ioprio: 0, sector: place * 8, at, bytes: 4096 };
            guest.submit(queue, &request).expect("a descriptor");
            guest.kick(queue);
            pending += 1;
        }
        // Some have ended, and most are held.
        for queue in 0..2 {
            assert_eq!(guest.wait(queue).status, OK);
            ended += 1;
        }
        served.child.kill().expect("it runs");
        served.child.wait().expect("it ended");
        let bench = std::mem::replace(&mut served.bench, Bench::new());
        served = serve_again(bench, FILE, if round == 3 { "" } else { limit });
        guest.reconnect(&vm1(&served));
    }
    while ended < pending {
        for queue in 0..2 {
            while let Some(one) = guest.try_wait(queue, Duration::from_millis(1)) {
                assert_eq!(one.status, OK);
                ended += 1;
            }
        }
    }
    for place in 0..160_u64 {
        let read = guest.read_disk(0, place * 8, 4096);
        assert!(read.iter().all(|&byte| byte == place as u8 + 1), "block {place}");
    }
    assert_eq!(guest.stop_queue(0), 80 + 160, "none was taken twice");
    drop(guest);
    served.end();
}

/// Without a write cache, as the guest wishes, what was answered is in the file.
#[test]
fn a_guest_turns_the_write_cache_off() {
    let mut served = serve("device = 'disk.img'\ncache = '1MiB'", "");
    let mut guest = Guest::connect(&vm1(&served), Options::default());
    guest.set_write_cache(false);
    assert_eq!(guest.config()[32], 0);
    assert_eq!(guest.write_disk(0, 8, &[5; 4096]), OK);
    served.child.kill().expect("it runs");
    served.child.wait().expect("it ended");
    let bytes = std::fs::read(served.bench.path("disk.img")).expect("the disk");
    assert!(bytes[4096..8192].iter().all(|&byte| byte == 5));
}

#[test]
fn a_queue_stops_when_its_requests_have_ended_and_starts_again() {
    let served = serve(FILE, "");
    let mut guest = Guest::connect(&vm1(&served), Options::default());
    for _ in 0..3 {
        assert_eq!(guest.write_disk(0, 0, &[1; 4096]), OK);
    }
    for number in 0..32_u64 {
        let at = DATA + number * 4096;
        let request = Request { kind: READ, ioprio: 0, sector: 8 * number, at, bytes: 4096 };
        guest.submit(0, &request).expect("a descriptor");
    }
    guest.kick(0);
    let next = guest.stop_queue(0);
    let mut ended = 0;
    while guest.poll(0).is_some() {
        ended += 1;
    }
    assert_eq!(next, 3 + ended, "what was taken has ended");
    guest.start_queue(0);
    guest.kick_anyway(0);
    for _ in ended..32 {
        assert_eq!(guest.wait(0).status, OK);
    }
    drop(guest);
    served.end();
}

/// Keeps so many reads in flight on the first queue, until `goes_on` says no after one has ended.
fn load(guest: &mut Guest, in_flight: u64, mut goes_on: impl FnMut() -> bool) {
    let submit = |guest: &mut Guest, number: u64| {
        let at = DATA + number % 1024 * 4096;
        let sector = number * 7919 % 1000 * 8;
        let request = Request { kind: READ, ioprio: 0, sector, at, bytes: 4096 };
        guest.submit(0, &request).expect("a descriptor");
        guest.kick(0);
    };
    (0..in_flight).for_each(|number| submit(guest, number));
    let (mut number, mut left) = (in_flight, in_flight);
    while left > 0 {
        assert_eq!(guest.wait(0).status, OK);
        if goes_on() {
            submit(guest, number);
            number += 1;
        } else {
            left -= 1;
        }
    }
}

/// Counted, not timed: how many requests of the second guest end while 3000 of the first do.
#[test]
fn guests_share_a_device_by_their_weights() {
    const COUNTED: u64 = 3000;
    let weights = "\n[tenant.vm1]\nweight = 300\n[tenant.vm2]\nweight = 100\n";
    let served = serve("device = 'slots:slots=2,latency=500us,size=8MiB'", weights);
    let (count, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut of_two = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut guest = Guest::connect(&served.bench.path("vm2"), Options::default());
            load(&mut guest, 64, || {
                count.fetch_add(1, Ordering::Relaxed);
                !ends.load(Ordering::Relaxed)
            });
        });
        let mut guest = Guest::connect(&vm1(&served), Options::default());
        let (mut done, mut before) = (0_u64, 0);
        load(&mut guest, 64, || {
            done += 1;
            match done {
                500 => before = count.load(Ordering::Relaxed),
                3500 => of_two = count.load(Ordering::Relaxed) - before,
                _ => {}
            }
            done < 500 + COUNTED
        });
        ends.store(true, Ordering::Relaxed);
    });
    let share = COUNTED as f64 / (COUNTED + of_two) as f64;
    assert!((share - 0.75).abs() <= 0.05 * 0.75, "{share:.3} of {}", COUNTED + of_two);
    served.end();
}

/// The disk of a guest grows while it runs, and the guest is told.
#[test]
fn a_guest_is_told_that_its_disk_has_grown() {
    let served = serve(FILE, "");
    let mut guest = Guest::connect(&vm1(&served), Options::default());
    let half = (DISK / 2 / 512) as u64;
    assert_eq!(guest.config()[..8], half.to_le_bytes());
    let config = std::fs::read_to_string(served.bench.path("c.toml")).expect("it is there");
    let vm1 = format!("[export.vm1]\nsize = {}", DISK / 2);
    let grown = config.replace(&vm1, &format!("[export.vm1]\nsize = {DISK}"));
    served.bench.file("c.toml", grown);
    served.bench.stdout(&["ctl", "ctl", "reload"]);
    let told = elevon_vhost::socket::receive(&guest.channel).expect("a message");
    assert_eq!(told.header[..4], 2_u32.to_ne_bytes(), "the configuration has changed");
    assert_eq!(guest.config()[..8], (2 * half).to_le_bytes());
    assert_eq!(guest.write_disk(0, 2 * half - 8, &[1; 4096]), OK);
    drop(guest);
    served.end();
}

#[test]
fn a_configuration_says_what_is_wrong_with_a_guest() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; DISK]);
    for (keys, words) in [
        ("vhost = 'unix:a'\nlisten = ['unix:b']", "an export is reached by one protocol"),
        ("vhost = 'tcp:127.0.0.1:1'", "is no Unix socket; write unix:PATH"),
        ("vhost = 'unix:a'\nmax_connections = 2", "a guest has one connection"),
        ("vhost = 'unix:a'\nioprio = 'fast'", "fast: expected rt, be or idle"),
        ("vhost = 'unix:a'\n[export.f]\nvhost = 'unix:a'", "each guest's disk has its own"),
    ] {
        bench.file("c.toml", format!("[device.d]\ndevice = 'disk.img'\n[export.e]\n{keys}\n"));
        let output = bench.elevon(&["serve", "--check", "c.toml"]).output().expect("it ran");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{keys}: {said}");
        assert!(said.contains(words) && said.lines().count() == 1, "{keys}: {said}");
    }
}

/// A request of class IDLE waits for others; a guest that asks for RT has no more than its export.
#[test]
fn the_priority_of_a_request_is_honoured_up_to_that_of_the_export() {
    let device = "device = 'slots:slots=1,latency=2ms,size=8MiB'\nscheduler = 'mq-deadline'";
    let served = serve(device, "");
    let mut guest = Guest::connect(&vm1(&served), Options::default());
    let (rt, be, idle) = (1_u32 << 13, 2 << 13 | 4, 3 << 13);
    let mut order = Vec::new();
    let submit = |guest: &mut Guest, ioprio: u32, number: u64| {
        let at = DATA + number * 4096;
        let request = Request { kind: READ, ioprio, sector: number * 64, at, bytes: 4096 };
        guest.submit(0, &request).map(|head| (head, ioprio)).expect("a descriptor")
    };
    let mut asked = vec![submit(&mut guest, be, 0)];
    asked.extend((1..9).map(|number| submit(&mut guest, idle, number)));
    asked.extend((9..17).map(|number| submit(&mut guest, be, number)));
    asked.push(submit(&mut guest, rt, 17));
    guest.kick(0);
    for _ in 0..asked.len() {
        let ended = guest.wait(0);
        let ioprio = asked.iter().find(|(head, _)| *head == ended.head).expect("it was asked").1;
        order.push(ioprio);
    }
    let first_idle = order.iter().position(|&ioprio| ioprio == idle).expect("there are some");
    assert!(first_idle >= 8, "others are first: {order:?}");
    let of_rt = order.iter().position(|&ioprio| ioprio == rt).expect("there is one");
    assert!(of_rt > 5, "it is one of class BE like others: {order:?}");
    drop(guest);
    served.end();
}

/// Returns the number of a process's open descriptors and its resident memory in kB.
fn resources(served: &Served) -> (usize, u64) {
    let folder = Path::new("/proc").join(served.child.id().to_string());
    let descriptors = std::fs::read_dir(folder.join("fd")).expect("it runs").count();
    let status = std::fs::read_to_string(folder.join("status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    (descriptors, line.split_whitespace().nth(1).expect("a number").parse().expect("a number"))
}
