//! The page cache before a device, in virtual time: what reads see, what a failed write-back leads
//! to, which clients a tenant's limit holds back. Durability is in `power`.

use elevon_cache::page_cache::WriteMode;
use elevon_core::units::{Instant, Nanos, TaskId, TenantId};
use elevon_nbd::{Command, Request};
use elevon_testkit::Rng;
use elevon_testkit::habits::{Command as Kind, Habit};

use super::lab::{Lab, Wire, cache};

const DISK: &str = "slots:slots=8,latency=100us,bandwidth=2GB/s,size=64MiB,queue_depth=64";

const ZEROES: Command = Command::WriteZeroes { no_hole: false, fast: false };

const FLUSH: Request =
    Request { command: Command::Flush, fua: false, df: false, cookie: 0, offset: 0, length: 0 };

const fn write(offset: u64, length: u64) -> Request {
    Request { command: Command::Write, fua: false, df: false, cookie: 0, offset, length }
}

const fn read(offset: u64, length: u64) -> Request {
    Request { command: Command::Read, ..write(offset, length) }
}

/// Reads return what the model has, whatever lies in the cache, on the device or in both; and at
/// the end the device has all of it.
#[test]
fn a_disk_reads_as_what_was_written_last() {
    const AREA: u64 = 1 << 20;
    const SECTOR: u64 = 512;
    for seed in 0..40 {
        let mode = if seed % 4 == 3 { WriteMode::Through } else { WriteMode::Back };
        let mut lab = Lab::cached(DISK, &[], "none", "", cache(128 << 10, mode));
        // The last page of the second export is a part of one of the device's.
        let (base, size) = (3 * SECTOR, AREA - 5 * SECTOR);
        let mut wires = [lab.open_range(0, "", base, size), lab.open_range(1, "", base, size)];
        let (mut rng, mut model) = (Rng(seed + 1), vec![0; size as usize]);
        for number in 0..400_u64 {
            let offset = rng.below(size / SECTOR) * SECTOR;
            let most = if rng.below(4) == 0 { 600 } else { 12 };
            let length = (1 + rng.below(most)) * SECTOR;
            let request = write(offset, length.min(size - offset));
            let range = offset as usize..(offset + request.length) as usize;
            let wire = &mut wires[rng.below(2) as usize];
            let (command, byte) = match rng.below(8) {
                0..3 => (Command::Write, number as u8),
                3 => (Command::WriteZeroes { no_hole: false, fast: false }, 0),
                4 => (Command::Trim, 0),
                5 if rng.below(4) == 0 => {
                    assert!(lab.ask(wire, &FLUSH, &[]));
                    continue;
                }
                _ => {
                    assert!(lab.ask(wire, &Request { command: Command::Read, ..request }, &[]));
                    assert!(wire.read == model[range], "seed {seed}, request {number}");
                    continue;
                }
            };
            let request = Request { command, fua: rng.below(8) == 0, ..request };
            let payload =
                if command == Command::Write { vec![byte; range.len()] } else { Vec::new() };
            assert!(lab.ask(wire, &request, &payload));
            model[range].fill(byte);
        }
        let (disk, is_whole) = lab.end();
        assert!(is_whole);
        assert!(disk.peek(base, size as usize) == model, "seed {seed}: the device at the end");
    }
}

/// A write-back that fails is told by every flush from then on, and by every write with FUA, on
/// every connection: none of them can know what was lost.
#[test]
fn a_failed_write_back_is_told_and_never_healed() {
    let faults = ["error:sectors=2048-2055,op=write,status=medium"];
    let mut lab = Lab::cached(DISK, &faults, "none", "", cache(1 << 20, WriteMode::Back));
    let (mut one, mut other) = (lab.open(0, ""), lab.open(1, ""));
    assert!(lab.ask(&mut one, &write(1 << 20, 4096), &[1; 4096]), "it is in memory");
    // The flusher finds it old.
    lab.wait_for(Nanos::from_secs(40));
    for wire in [&mut one, &mut other] {
        for _ in 0..2 {
            assert!(!lab.ask(wire, &FLUSH, &[]));
        }
        assert!(lab.ask(wire, &write(0, 4096), &[2; 4096]), "writes without a promise go on");
        assert!(!lab.ask(wire, &Request { fua: true, ..write(8192, 4096) }, &[3; 4096]));
        assert!(lab.ask(wire, &read(1 << 20, 4096), &[]));
        assert_eq!(wire.read, [1; 4096], "it is still in memory");
    }
    assert!(!lab.end().1);
}

/// Nor does a flush succeed, or a write with FUA, after a flush that failed.
#[test]
fn a_failed_flush_is_never_healed() {
    let mut lab = Lab::cached(
        "ufs-3.1",
        &["flush_error:ppm=100000,status=medium"],
        "none",
        "",
        cache(1 << 20, WriteMode::Back),
    );
    let (mut wire, mut succeeded, mut failed) = (lab.open(0, ""), 0, 0);
    for number in 0..200_u64 {
        let request = Request { fua: number % 2 == 0, ..write(number * 4096, 4096) };
        let is_promise = lab.ask(&mut wire, &request, &[1; 4096]);
        let is_flushed = lab.ask(&mut wire, &FLUSH, &[]);
        assert!(!(request.fua && !is_promise && is_flushed), "request {number} healed it");
        assert!(
            failed == 0 || !is_flushed && is_promise != request.fua,
            "request {number} after {failed} failures"
        );
        *if is_flushed { &mut succeeded } else { &mut failed } += 1;
    }
    assert!(succeeded > 0 && failed > 0, "{succeeded} succeeded, {failed} failed");
}

/// A client whose limit holds back its write-back does not hold back another's flush, on a range of
/// its own.
#[test]
fn a_flush_waits_for_the_pages_of_its_export_only() {
    let tenants = "[tenant.slow]\nlimit = { wbps = 10000 }\n[tenant.fast]\n";
    let mut lab = Lab::cached(DISK, &[], "aileron", tenants, cache(4 << 20, WriteMode::Back));
    let half = 32 << 20;
    let mut slow = lab.open_range(0, "slow", 0, half);
    let mut fast = lab.open_range(1, "fast", half, half);
    for at in [0, 1 << 20] {
        assert!(
            lab.ask(&mut slow, &write(at, 64 << 10), &[1; 64 << 10]),
            "a limit holds back bios, not copies"
        );
    }
    slow.ask(&FLUSH, &[]);
    let began = lab.now();
    assert!(lab.ask(&mut fast, &write(0, 4096), &[2; 4096]));
    assert!(lab.ask(&mut fast, &FLUSH, &[]));
    assert!(lab.now().since(began) < Nanos::from_millis(10), "the fast one waited");
    assert_eq!(slow.answer(), None, "the second 64 KiB wait for what the first took of 10 kB/s");
    while slow.answer().is_none() {
        assert!(lab.step());
    }
    assert!(lab.now().since(began) > Nanos::from_secs(5), "the limit holds for its write-back");
}

/// Hits cost no I/O and pass no limit; what is told of the tenant says how many there were.
#[test]
fn hits_are_counted_for_their_tenant_and_pass_no_limit() {
    let tenants = "[tenant.a]\nlimit = { riops = 10 }\n";
    let mut lab = Lab::cached(DISK, &[], "none", tenants, cache(1 << 20, WriteMode::Back));
    let mut wire = lab.open(0, "a");
    assert!(lab.ask(&mut wire, &write(0, 4096), &[1; 4096]));
    let began = lab.now();
    for _ in 0..1000 {
        assert!(lab.ask(&mut wire, &read(0, 4096), &[]));
    }
    assert_eq!(lab.now(), began, "memory takes no time here");
    assert!(lab.ask(&mut wire, &read(1 << 20, 4096), &[]));
    let view = lab.device.view();
    let cache = view.cache.as_ref().expect("a cache");
    let of = cache.tenants[&TenantId(1)];
    assert_eq!((of.reads, of.hits, of.writes), (1001, 1000, 1));
    assert_eq!((cache.reading.dirty, cache.reading.hits), (1, 1000));
    assert_eq!(view.json()["tenants"][1]["cache"]["hits"], 1000);
    let explained = view.explain(&lab.device.view(), "a").expect("a tenant");
    assert_eq!(explained["cache"]["reads"], 0);
}

/// A writer that is faster than its device is slowed by its dirty pages, and no request is lost.
#[test]
fn a_writer_is_held_by_its_dirty_pages() {
    let disk = "slots:slots=1,latency=1ms,bandwidth=20MB/s,size=64MiB,queue_depth=64";
    let mut lab = Lab::cached(disk, &[], "none", "[tenant.a]\n", cache(8 << 20, WriteMode::Back));
    lab.add("a", Habit::stream(Kind::Write, 64 << 10, 16));
    lab.warm_up(Nanos::from_secs(5));
    lab.run(Nanos::from_secs(5));
    let rate = (lab.clients[0].done << 16) as f64 / 5.0;
    assert!((5e6..21e6).contains(&rate), "{rate} bytes a second on a device of 20 MB/s");
    let view = lab.device.view();
    let cache = view.cache.expect("a cache");
    assert!(cache.tenants[&TenantId(1)].paused > Nanos::ZERO);
    assert!(
        cache.reading.dirty + cache.reading.writeback <= cache.reading.dirty_limit * 11 / 10,
        "{cache:?}"
    );
}

/// A range with dirty pages is data, though the device does not have it yet.
#[test]
fn dirty_pages_are_allocated() {
    let mut lab = Lab::cached(DISK, &[], "none", "", cache(1 << 20, WriteMode::Back));
    let mut wire: Wire = lab.open(0, "");
    assert!(lab.ask(&mut wire, &write(8192, 8192), &[1; 8192]));
    let of = |lab: &Lab, at, bytes| {
        lab.device.cache.as_ref().expect("a cache").clean_then_dirty(at, bytes)
    };
    assert_eq!(of(&lab, 0, 1 << 20), (8192, true));
    assert_eq!(of(&lab, 8192, 1 << 20), (8192, false));
    assert_eq!(of(&lab, 9216, 512), (512, false));
    assert_eq!(of(&lab, 16384, 4096), (4096, true));
    assert!(lab.ask(&mut wire, &FLUSH, &[]));
    assert_eq!(of(&lab, 0, 1 << 20), (1 << 20, true), "the device knows");
}

/// CACHE reads a range ahead, and a client of another tenant that takes the place of one that left
/// pays for its own.
#[test]
fn a_range_is_read_ahead_and_the_next_client_pays_for_itself() {
    let mut lab =
        Lab::cached(DISK, &[], "none", "[tenant.a]\n[tenant.b]\n", cache(1 << 20, WriteMode::Back));
    let mut wire = lab.open(0, "a");
    let ahead = Request { command: Command::Cache, ..read(0, 512 << 10) };
    assert!(lab.ask(&mut wire, &ahead, &[]));
    lab.wait_for(Nanos::from_millis(100));
    assert!(lab.ask(&mut wire, &read(0, 512 << 10), &[]));
    assert_eq!(lab.device.view().cache.expect("a cache").tenants[&TenantId(1)].hits, 2);
    lab.close(wire);
    assert!(lab.device.clients[0].is_none(), "it has left");
    let mut next = lab.open(1, "b");
    assert_eq!(lab.device.tasks[&1], TaskId(0), "the place of the first");
    assert!(lab.ask(&mut next, &read(0, 4096), &[]));
    assert_eq!(lab.device.view().cache.expect("a cache").tenants[&TenantId(2)].hits, 1);
    assert!(lab.now() > Instant::ZERO);
}

/// Returns a disk of so many tenants by text: `held` may read and write 100 kB a second, `free` has
/// no limit.
fn beside_a_limit(bytes: u64) -> Lab {
    let tenants = "[tenant.held]\nlimit = { rbps = 100000, wbps = 100000 }\n[tenant.free]\n";
    Lab::cached(DISK, &[], "aileron", tenants, cache(bytes, WriteMode::Back))
}

const HALF: u64 = 32 << 20;

/// A limited tenant floods the cache with each command, from several connections. Its neighbour
/// does as many reads and writes in a second as without it, less a tenth.
#[test]
fn a_tenants_limit_takes_no_memory_from_its_neighbour() {
    let work = |flood: Option<Command>| {
        let mut lab = beside_a_limit(1 << 20);
        let mut floods: Vec<Wire> =
            (1..9).map(|client| lab.open_range(client, "held", 0, HALF)).collect();
        for (index, wire) in floods.iter_mut().enumerate() {
            let Some(command) = flood else { break };
            for cookie in 0..64 {
                let offset = ((index as u64 * 64 + cookie) * 97 % 200) << 17;
                let length = if command == Command::Cache { HALF - offset } else { 128 << 10 };
                let request = Request { command, cookie, ..read(offset, length) };
                wire.ask(&request, if command == Command::Write { &[1; 128 << 10] } else { &[] });
            }
        }
        lab.wait_for(Nanos::from_millis(100));
        let mut free = lab.open_range(0, "free", HALF, HALF);
        let (began, mut done) = (lab.now(), 0_u64);
        while lab.now().since(began) < Nanos::from_secs(2) {
            let offset = (done * 7919 % (HALF >> 12)) << 12;
            let is_write = done % 4 == 0;
            let request = if is_write { write(offset, 4096) } else { read(offset, 4096) };
            assert!(
                lab.ask(&mut free, &request, if is_write { &[2; 4096] } else { &[] }),
                "{flood:?}"
            );
            floods.iter_mut().for_each(|wire| {
                while wire.answer().is_some_and(|(_, is_ok)| {
                    assert!(is_ok, "{flood:?} by the held tenant");
                    true
                }) {}
            });
            done += 1;
        }
        done
    };
    let alone = work(None);
    for flood in [Command::Read, Command::Write, Command::Cache, ZEROES, Command::Trim] {
        let beside = work(Some(flood));
        assert!(beside * 10 >= alone * 9, "{flood:?}: {beside} requests of {alone}");
    }
}

/// A device that stands still for a minute makes requests of every kind wait, and none fails.
#[test]
fn requests_wait_for_a_device_that_stands_still() {
    // Writers that were stopped go on page by page, so many commands carry a page only.
    let faults = ["stall:every=300,for=60s"];
    for mode in WriteMode::ALL {
        let mut lab = Lab::cached(DISK, &faults, "none", "", cache(1 << 20, mode));
        let mut wires: Vec<Wire> = (0..8).map(|client| lab.open(client, "")).collect();
        for (index, wire) in wires.iter_mut().enumerate() {
            for cookie in 0..32 {
                let offset = (index as u64 * 32 + cookie) << 17;
                let (is_write, is_cache) = (cookie % 4 == 1, cookie % 4 == 2);
                let command = if is_write {
                    Command::Write
                } else if is_cache {
                    Command::Cache
                } else {
                    Command::Read
                };
                let payload = if is_write { vec![3; 128 << 10] } else { Vec::new() };
                wire.ask(&Request { command, cookie, ..read(offset, 128 << 10) }, &payload);
            }
        }
        lab.wait_for(Nanos::from_secs(30));
        let mut answered = 0;
        let mut take = |wires: &mut Vec<Wire>| {
            for wire in wires {
                while let Some((_, is_ok)) = wire.answer() {
                    assert!(is_ok, "{mode:?}: a request failed");
                    answered += 1;
                }
            }
            answered
        };
        assert!(take(&mut wires) < 8 * 32, "some wait for the device");
        for _ in 0..1000 {
            lab.wait_for(Nanos::from_secs(1));
            take(&mut wires);
        }
        assert_eq!(take(&mut wires), 8 * 32);
    }
}

/// Zeroes that the device refuses lose nothing of what was answered before.
#[test]
fn zeroes_that_are_refused_leave_what_was_written() {
    let mut lab = Lab::cached(DISK, &[], "none", "", cache(1 << 20, WriteMode::Back));
    let mut wire = lab.open(0, "");
    assert!(lab.ask(&mut wire, &write(0, 4096), &[7; 4096]));
    let fast = Command::WriteZeroes { no_hole: false, fast: true };
    assert!(
        !lab.ask(&mut wire, &Request { command: fast, ..read(0, 4096) }, &[]),
        "this disk writes zeroes as data"
    );
    assert!(lab.ask(&mut wire, &read(0, 4096), &[]));
    assert_eq!(wire.read, [7; 4096]);
}
