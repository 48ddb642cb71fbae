//! Slices, rows and findings of traces that are written here.

use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_trace::{DeviceNumber, Recorded, TraceEvent, from_bytes};

use crate::{GroupBy, Now, Owner, Owners, UnitKind, Watch, json, text};

const DISK: DeviceNumber = DeviceNumber::new(8, 0);
const SECOND: u64 = 1_000_000_000;

/// Two processes in two services; a thread of the second is known by another name.
struct Services;

impl Owners for Services {
    fn owner(&mut self, process: u32) -> Option<Owner> {
        let (name, unit) = match process {
            11 => ("db", "db.service"),
            12 => ("backup", "backup.service"),
            _ => return None,
        };
        Some(Owner { name: name.to_owned(), cgroup: format!("/system.slice/{unit}") })
    }

    fn prio(&mut self, process: u32) -> Option<IoPrio> {
        (process == 12).then(|| IoPrio::new(PrioClass::Idle, 0))
    }
}

/// Returns the events of one request as text.
fn request(at_us: u64, process: (&str, u32), op: &str, sector: u64, times_us: [u64; 2]) -> String {
    let (comm, pid) = process;
    let time = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let (issued, completed) = (at_us + times_us[0], at_us + times_us[0] + times_us[1]);
    format!(
        "{comm}-{pid} [000] {}: block_bio_queue: 8,0 {op} {sector} + 8 [{comm}]\n\
         {comm}-{pid} [000] {}: block_getrq: 8,0 {op} {sector} + 8 [{comm}]\n\
         {comm}-{pid} [000] {}: block_rq_insert: 8,0 {op} 4096 () {sector} + 8 [{comm}]\n\
         {comm}-{pid} [000] {}: block_rq_issue: 8,0 {op} 4096 () {sector} + 8 [{comm}]\n\
         {comm}-{pid} [000] {}: block_rq_complete: 8,0 {op} () {sector} + 8 [0]\n",
        time(at_us),
        time(at_us),
        time(at_us),
        time(issued),
        time(completed)
    )
}

/// Watches a trace from second 1 on, and returns each second's result.
fn watched(trace: &str, seconds: usize, by: GroupBy) -> Vec<Now> {
    let mut reader = from_bytes(trace.as_bytes().to_vec()).expect("a trace");
    let events = reader.read_all().expect("memory");
    let mut watch = Watch::new(SECOND);
    watch.add_disk("sda".to_owned(), DISK, Recorded::default());
    let mut results = Vec::new();
    let last = events.iter().filter_map(|event| event.time).max().expect("events");
    let mut rest: &[TraceEvent] = &events;
    // As it comes: every tenth of a second.
    for until in (SECOND..=last + SECOND).step_by(SECOND as usize / 10) {
        let count = rest.partition_point(|event| event.time.is_some_and(|time| time <= until));
        let (now, later) = rest.split_at(count);
        if watch.add(until, now, &reader) {
            watch.look_at_processes(&mut Services);
            results.push(watch.now(seconds, by, &mut Services));
        }
        rest = later;
    }
    results
}

/// 100 reads a second of a database with 0.1 ms of waiting and 2 ms in the device, for 5 seconds.
fn steady() -> String {
    (0..500).map(|n| request(1_000_000 + n * 10_000, ("db", 11), "R", 8 * n, [100, 2000])).collect()
}

#[test]
fn a_second_has_the_rates_and_the_latency_by_stage() {
    let all = watched(&steady(), 1, GroupBy::Process);
    assert!(all.len() >= 5);
    for now in &all[..5] {
        let disk = &now.disks[0];
        assert_eq!((disk.seconds, disk.read.requests, disk.read.bytes), (1.0, 100.0, 409_600.0));
        assert!((disk.busy - 0.2).abs() < 1e-3, "{}", disk.busy);
        assert!((disk.depth - 0.2).abs() < 1e-3, "{}", disk.depth);
        let row = &disk.rows[0];
        assert_eq!((row.name.as_str(), row.process), ("db (11)", Some(11)));
        assert_eq!(row.unit, Some((UnitKind::Unit, "db.service".to_owned())));
        assert_eq!((row.waiting, row.in_device), ([Some(100_000); 2], [Some(2_000_000); 2]));
        assert!((row.depth - 0.21).abs() < 1e-3, "{}", row.depth);
        assert!(disk.findings.is_empty(), "{:?}", disk.findings);
        assert_eq!(disk.heat.last().expect("a slice").iter().sum::<u64>(), 100);
    }
}

#[test]
fn a_longer_time_is_the_sum_of_its_seconds() {
    let all = watched(&steady(), 10, GroupBy::Process);
    let disk = &all[4].disks[0];
    assert_eq!((disk.seconds, disk.read.requests), (5.0, 100.0));
    assert_eq!(disk.heat.len(), 5);
}

#[test]
fn threads_are_folded_into_their_service() {
    let mut lines = steady();
    for n in 0..100 {
        lines +=
            &request(1_002_500 + n * 20_000, ("worker", 12), "W", 1_000_000 + 8 * n, [100, 300]);
    }
    let mut sorted: Vec<&str> = lines.lines().collect();
    let time = |line: &&str| line.split("] ").nth(1).map(|rest| rest[..8].to_owned());
    sorted.sort_by_key(time);
    let all = watched(&(sorted.join("\n") + "\n"), 1, GroupBy::Unit);
    let names: Vec<&str> = all[1].disks[0].rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["db.service", "backup.service"]);
    let shown = text::now(&all[1]);
    assert!(shown.contains("backup.service"), "{shown}");
    assert!(shown.starts_with("sda 8:0 -: busy"), "{shown}");
    let value = json::now(&all[1]);
    assert_eq!(value["disks"][0]["rows"][0]["read"]["requests"], 100.0);
}

/// Linux before 6.11 has no priorities in its events: those of the processes count.
#[test]
fn the_idle_class_is_known_by_the_process() {
    let late = (0..9).map(|n| {
        request(1_002_500 + n * 400_000, ("backup", 12), "R", 900_000 + 8 * n, [300_000, 2000])
    });
    let lines = steady() + &late.collect::<String>();
    let mut sorted: Vec<&str> = lines.lines().collect();
    let time = |line: &&str| line.split("] ").nth(1).map(|rest| rest[..8].to_owned());
    sorted.sort_by_key(time);
    let all = watched(&(sorted.join("\n") + "\n"), 1, GroupBy::Process);
    let disk = &all[3].disks[0];
    let titles: Vec<&str> = disk.findings.iter().map(|one| one.finding.title.as_str()).collect();
    assert!(titles.iter().any(|title| title.starts_with("Idle class: backup (12)")), "{titles:?}");
    let prios: Vec<&str> = disk.rows.iter().map(|row| row.prio.as_str()).collect();
    assert_eq!(prios, ["none", "idle"]);
}

/// A finding comes with the time since which it holds, and goes when the problem has gone.
#[test]
fn a_problem_stands_while_it_lasts() {
    // From second 3 to 9 every request fails.
    let lines: String = (0..1400)
        .map(|n| {
            let at = 1_000_000 + n * 10_000;
            let ok = request(at, ("db", 11), "R", 8 * n, [100, 2000]);
            if (3_000_000..9_000_000).contains(&at) { ok.replace("[0]\n", "[-5]\n") } else { ok }
        })
        .collect();
    let all = watched(&lines, 1, GroupBy::Process);
    let standing = |second: usize| {
        all[second - 1].disks[0].findings.iter().map(|standing| standing.since).next()
    };
    assert_eq!(standing(2), None);
    assert!(standing(5).is_some_and(|since| (3 * SECOND..4 * SECOND).contains(&since)));
    assert_eq!(standing(8), standing(5), "it is the same problem");
    assert_eq!(standing(14), None, "it has gone");
}

#[test]
fn a_disk_without_io_is_a_line() {
    let mut reader = from_bytes(steady().into_bytes()).expect("a trace");
    let _ = reader.read_all().expect("memory");
    let mut watch = Watch::new(0);
    watch.add_disk("sdb".to_owned(), DeviceNumber::new(8, 16), Recorded::default());
    assert!(watch.add(3 * SECOND, &[], &reader));
    let now = watch.now(10, GroupBy::Process, &mut Services);
    assert_eq!(text::now(&now), "no I/O on sdb\n");
    assert_eq!(now.disks[0].seconds, 3.0);
}

#[test]
fn a_disk_that_comes_has_rows_and_one_that_goes_has_none() {
    let mut reader = from_bytes(steady().into_bytes()).expect("a trace");
    let events = reader.read_all().expect("memory");
    let other = DeviceNumber::new(8, 16);
    let mut watch = Watch::new(SECOND);
    watch.add_disk("sdb".to_owned(), other, Recorded::default());
    let until = |seconds: u64| {
        events.partition_point(|event| event.time.is_some_and(|time| time <= seconds * SECOND))
    };
    assert!(watch.add(2 * SECOND, &events[..until(2)], &reader));
    watch.add_disk("sda".to_owned(), DISK, Recorded::default());
    watch.remove_disk(other);
    assert!(watch.add(4 * SECOND, &events[until(2)..until(4)], &reader));
    let now = watch.now(1, GroupBy::Process, &mut Services);
    assert_eq!(now.disks.len(), 1);
    let disk = &now.disks[0];
    assert_eq!((disk.name.as_str(), disk.read.requests, disk.heat.len()), ("sda", 100.0, 2));
    // It has no second of before it came.
    let earlier = watch.second(5, GroupBy::Process, &mut Services);
    assert_eq!((earlier.disks[0].seconds, earlier.disks[0].rows.len()), (0.0, 0));
}
