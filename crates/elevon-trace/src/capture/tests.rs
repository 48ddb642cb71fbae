use std::cell::Cell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod fake;

use proptest::prelude::*;

use fake::{CPUS, Fake, FakeKernel};

use super::layout::{EVENTS, EventLayout, parse_page};
use super::page::{Missed, PageLayout};
use super::*;
use crate::event::{DeviceNumber, TraceEvent, TraceKind};
use crate::names::Names;
use crate::recorded::Recorded;
use crate::testing::{data, read_bytes};

const PAGE: usize = 4096;

fn text_of(recording: Recording) -> (String, Written) {
    let (text, written) = recording.write(Vec::new(), &Recorded::default()).expect("memory");
    (String::from_utf8(text).expect("UTF-8"), written)
}

/// Events of a CPU with their threads' names, and times in microseconds as the kernel rounds them.
fn rounded(events: &[TraceEvent], names: &Names, cpu: u32) -> Vec<(TraceEvent, Option<String>)> {
    let own = events.iter().filter(|event| event.cpu == Some(cpu));
    own.map(|event| {
        let time = event.time.map(|time| (time + 500) / 1000);
        let name = event.comm.map(|id| names.name(id).to_owned());
        (TraceEvent { comm: None, time, ..*event }, name)
    })
    .collect()
}

#[test]
fn pages_of_real_kernels_say_what_the_kernels_own_text_says() {
    for (version, has_priority) in [("6.1", false), ("6.12", true)] {
        let fake = Fake::new(version);
        let mut recorder = fake.recorder();
        for cpu in 0..CPUS {
            let pages = fake.pages(cpu);
            fake.append(cpu, &pages[..PAGE]);
            recorder.drain().expect("read");
            fake.append(cpu, &pages[PAGE..]);
        }
        let (text, written) = text_of(recorder.end().expect("ended"));
        let kernels = zstd::decode_all(&fs::read(fake.path("trace.txt.zst")).expect("a text")[..])
            .expect("zstd");
        let ((ours, our_reader), (theirs, their_reader)) = (read_bytes(text), read_bytes(kernels));
        assert_eq!(
            written,
            Written { events: theirs.len() as u64, unknown: 0, plugs_of_others: 0 },
            "{version}"
        );
        for report in [our_reader.report(), their_reader.report()] {
            assert_eq!((report.skipped_count(), report.gap_count), (0, 0), "{version}");
        }
        assert_eq!(our_reader.report().resolution_ns, Some(1));
        assert!(ours.windows(2).all(|pair| pair[0].time <= pair[1].time), "{version}");
        for cpu in 0..CPUS {
            let theirs = rounded(&theirs, their_reader.names(), cpu);
            assert!(theirs.len() > 200);
            for (ours, theirs) in rounded(&ours, our_reader.names(), cpu).iter().zip(&theirs) {
                assert_eq!(ours, theirs, "{version}");
            }
        }
        assert!(ours.iter().all(|event| event.process.is_some()), "{version}");
        let with_priority = ours.iter().filter(|event| event.ioprio.is_some()).count();
        assert_eq!(with_priority > 0, has_priority, "{version}");
        for kind in ["queue", "split", "getrq", "insert", "issue", "complete", "plug", "unplug"] {
            assert!(ours.iter().any(|event| event.kind.name() == kind), "{version}: {kind}");
        }
    }
}

#[test]
fn the_instance_is_set_up_for_one_device_and_removed() {
    let fake = Fake::new("6.12");
    let session = fake.session();
    assert_eq!((session.clock(), session.cpus()), ("mono", 2));
    let on = fake.setting("tracing_on");
    session.begin().expect("begun");
    assert_eq!((on.as_str(), fake.setting("tracing_on").as_str()), ("0", "1"));
    for (file, value) in [
        ("trace_clock", "mono"),
        ("buffer_size_kb", "1024"),
        ("options/record-tgid", "1"),
        ("events/block/block_rq_issue/enable", "1"),
        ("events/block/block_rq_issue/filter", "dev == 265289728"),
        ("events/block/block_bio_remap/filter", "dev == 265289728"),
        // It names no device.
        ("events/block/block_plug/enable", "1"),
        ("events/block/block_plug/filter", "none\n"),
    ] {
        assert_eq!(fake.setting(file), value, "{file}");
    }
    Recorder::new(session, fake.folder.path()).and_then(Recorder::end).expect("ended");
    assert_eq!(
        fake.log(),
        [format!("removed elevon-capture-{}, tracing_on=0", std::process::id())]
    );
    // A drop of it on an error or a panic leaves nothing behind either.
    let session = fake.session();
    session.begin().expect("begun");
    drop(session);
    assert_eq!((fake.left(), fake.log().len()), (0, 2));
    assert!(fake.log()[1].ends_with("tracing_on=0"));
}

#[test]
fn other_devices_can_be_recorded_from_now_on() {
    let fake = Fake::new("6.12");
    let live = Live::new(fake.session(), fake.path("proc"));
    let filter = || fake.setting("events/block/block_rq_issue/filter");
    let device = |minor| DeviceNumber::new(8, minor);
    live.set_devices(&[device(0), device(16)]).expect("set");
    assert_eq!(filter(), "dev == 8388608 || dev == 8388624");
    assert_eq!(fake.setting("events/block/block_plug/filter"), "none\n");
    // The kernel takes no filter of more than a page.
    live.set_devices(&(0..400).map(device).collect::<Vec<_>>()).expect("set");
    assert_eq!(filter(), "0");
}

/// Events as they come are those of the recording, in order, whenever pages are taken.
#[test]
fn live_events_are_those_of_a_recording() {
    let fake = Fake::new("6.12");
    let recorder = fake.recorder();
    (0..CPUS).for_each(|cpu| fake.append(cpu, &fake.pages(cpu)));
    let (text, _) = text_of(recorder.end().expect("ended"));
    let (whole, reader) = read_bytes(text);
    let mut live = Live::new(fake.session(), fake.path("proc"));
    let mut came = Vec::new();
    let times: Vec<u64> = whole.iter().filter_map(|event| event.time).collect();
    let (first, last) = (times[0], times[times.len() - 1]);
    // A CPU's pages come after those of the other one, and so do their events.
    for (step, now) in [(0, first), (1, (first + last) / 2), (2, last), (3, last + 1)] {
        if step < CPUS {
            fake.append(step, &fake.pages(step));
        }
        let until = live.take(now).expect("taken");
        assert!(live.events().iter().all(|event| event.time <= Some(until)));
        came.extend(live.events().iter().map(|event| (event.time, event.kind, event.sector)));
    }
    let of_recording = whole.iter().map(|event| (event.time, event.kind, event.sector));
    // The records have no time before the trace's first: all of them came, and in order.
    assert_eq!(came.len(), whole.len());
    assert!(came.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    let mut sorted: Vec<_> = of_recording.collect();
    let key = |event: &(Option<u64>, TraceKind, Option<u64>)| (event.0, event.1.index(), event.2);
    sorted.sort_by_key(key);
    came.sort_by_key(key);
    assert_eq!(came, sorted);
    assert!(reader.report().gaps.is_empty());
    live.end().expect("ended");
    assert_eq!(fake.left(), 0);
}

#[test]
fn only_the_threads_processes_can_be_done_without() {
    let fake = Fake::new("6.12");
    let instance = FakeKernel { log: Arc::default(), without: Some("trace_clock") };
    let error = Session::with(fake.tracefs(), &fake.options(), Box::new(instance), &|_| true).err();
    let error = error.expect("the file is missing").to_string();
    assert!(error.contains("/trace_clock: cannot write to it: "), "{error}");
    let instance = FakeKernel { log: Arc::default(), without: Some("options/record-tgid") };
    Session::with(fake.tracefs(), &fake.options(), Box::new(instance), &|_| true)
        .expect("not needed");
}

#[test]
fn plugs_of_other_devices_are_left_out() {
    let fake = Fake::new("6.12");
    let mut recorder = fake.recorder();
    let id = |name: &str| {
        let text =
            fs::read_to_string(fake.path(&format!("events/block/{name}/format"))).expect("a file");
        u32::from(EventLayout::parse(name, TraceKind::Plug, &text).expect("a layout").id)
    };
    let (plug, unplug, queue) = (id("block_plug"), id("block_unplug"), id("block_bio_queue"));
    let comm = [u32::from_le_bytes(*b"dd\0\0"), 0, 0, 0];
    let mut data = Vec::new();
    for (id, thread) in [
        (plug, 1),
        (unplug, 1),
        (queue, 2),
        (plug, 2),
        (plug, 1),
        (unplug, 2),
        (plug, 2),
        (unplug, 2),
    ] {
        let words = match id {
            id if id == queue => {
                let mut words = vec![id, thread, 253 << 20, 0, 8, 0, 8];
                // The letters at byte 28, and the name at byte 38.
                words.extend([u32::from(b'R'), 0, u32::from(b'd') << 16, u32::from(b'd'), 0, 0, 0]);
                words
            }
            id if id == plug => [&[id, thread][..], &comm].concat(),
            _ => [&[id, thread, 1][..], &comm].concat(),
        };
        data.push(head(words.len() as u32, 1000));
        data.extend(words);
    }
    let mut bytes = page(1_000_000, &data);
    bytes.resize(PAGE, 0);
    fake.append(0, &bytes);
    recorder.drain().expect("read");
    let (text, written) = text_of(recorder.end().expect("ended"));
    assert_eq!(written, Written { events: 3, unknown: 0, plugs_of_others: 5 }, "{text}");
    let kinds: Vec<&str> = read_bytes(text).0.iter().map(|event| event.kind.name()).collect();
    assert_eq!(kinds, ["queue", "plug", "unplug"]);
}

#[test]
fn lost_events_are_counted_and_located() {
    let fake = Fake::new("6.12");
    for stored in [true, false] {
        let recorder = fake.recorder();
        let mut pages = fake.pages(0);
        // As the kernel marks a page before which events were overwritten.
        let commit = u32::from_ne_bytes(pages[PAGE + 8..PAGE + 12].try_into().expect("4 bytes"));
        let marks = 1 << 31 | u32::from(stored) << 30;
        pages[PAGE + 8..PAGE + 12].copy_from_slice(&(commit | marks).to_ne_bytes());
        let behind = PAGE + 16 + commit as usize;
        pages[behind..behind + 8].copy_from_slice(&4711u64.to_ne_bytes());
        fake.append(0, &pages);
        let stats = "entries: 0\noverrun: 4711\ncommit overrun: 1\nbytes: 0\ndropped events: 2\nread events: 360\n";
        fs::write(fake.instance("per_cpu/cpu0/stats"), stats).expect("written");
        let recording = recorder.end().expect("ended");
        assert_eq!(recording.lost(), [Lost { cpu: 0, overwritten: 4711, dropped: 3 }]);
        let (text, _) = text_of(recording);
        let line = if stored { "CPU:0 [LOST 4711 EVENTS]" } else { "CPU:0 [LOST EVENTS]" };
        assert_eq!(text.lines().filter(|text| *text == line).count(), 1);
        let (events, reader) = read_bytes(text);
        let report = reader.report();
        assert_eq!((report.gap_count, report.lost), (1, if stored { 4711 } else { 0 }));
        let gap = events
            .iter()
            .position(|event| matches!(event.kind, TraceKind::Lost { .. }))
            .expect("a gap");
        assert!(gap > 50 && gap < events.len() - 50, "it lies between the pages, not at {gap}");
    }
}

#[test]
fn what_cannot_be_recorded_is_said_in_a_line() {
    let refusal = |fake: &Fake| {
        let session = Session::with(fake.tracefs(), &fake.options(), fake.kernel(), &|_| true);
        session.err().expect("a refusal").to_string()
    };
    let fake = Fake::new("6.12");
    fs::remove_dir(fake.path("instances")).expect("removed");
    assert!(refusal(&fake).contains("has no `instances`"));
    let fake = Fake::new("6.12");
    fs::remove_dir_all(fake.path("events/block")).expect("removed");
    assert!(refusal(&fake).contains("this kernel has no block events"));
    fs::create_dir(fake.path("events/block")).expect("made");
    assert!(refusal(&fake).contains("this kernel has no block events"));
    fs::remove_dir_all(fake.path("events")).expect("removed");
    assert!(refusal(&fake).contains("is no tracefs"));
    for (file, missing) in
        [("events/header_page", "commit"), ("events/block/block_getrq/format", "ID")]
    {
        let fake = Fake::new("6.12");
        fs::write(fake.path(file), "field:int x; offset:0; size:4;\n").expect("written");
        let line = refusal(&fake);
        assert!(
            line.contains(&format!("no `{missing}` in {file}"))
                && line.contains("docs/reference/capture.md"),
            "{line}"
        );
        assert_eq!(fake.left(), 0, "nothing is made before it is understood");
    }
    let fake = Fake::new("6.12");
    let folder = fake.path("no/such/folder");
    let error = Recorder::new(fake.session(), &folder).err().expect("no folder");
    assert!(matches!(error, CaptureError::Spool { .. }), "{error}");
    assert_eq!(fake.left(), 0, "the instance is gone again");
}

#[test]
fn instances_of_killed_processes_are_removed_and_no_others() {
    let fake = Fake::new("6.12");
    for name in ["elevon-capture-77", "elevon-capture-78", "elevon-capture-x", "somebody"] {
        fs::create_dir(fake.path(&format!("instances/{name}"))).expect("made");
    }
    let asked = Cell::new(0);
    let is_alive = |process: u32| {
        asked.set(asked.get() + 1);
        process == 78
    };
    let session = Session::with(fake.tracefs(), &fake.options(), fake.kernel(), &is_alive)
        .expect("a session");
    assert_eq!((session.leftovers(), asked.get()), (&["elevon-capture-77".to_owned()][..], 2));
    drop(session);
    assert_eq!(fake.left(), 3);
}

#[test]
fn tracefs_is_found_where_it_is_mounted() {
    for (mounts, place) in [
        ("", None),
        ("proc /proc proc rw 0 0\n", None),
        ("none /sys/kernel/tracing tracefs rw 0 0\n", Some("/sys/kernel/tracing")),
        ("d /sys/kernel/debug debugfs rw 0 0\n", Some("/sys/kernel/debug/tracing")),
        ("d /d debugfs rw 0 0\nt /a\\040b\\134c tracefs rw 0 0\n", Some("/a b\\c")),
        ("t /t\\999 tracefs\n", Some("/t\\999")),
        ("tracefs\n\n", None),
    ] {
        assert_eq!(tracefs_of(mounts), place.map(PathBuf::from), "{mounts}");
    }
}

/// The layout of a page on a machine of 64 bits.
const LAYOUT: PageLayout = PageLayout { commit: 8, commit_size: 8, data: 16, len: PAGE };

fn page(time: u64, data: &[u32]) -> Vec<u8> {
    let mut page = time.to_ne_bytes().to_vec();
    page.extend((data.len() as u64 * 4).to_ne_bytes());
    data.iter().for_each(|word| page.extend(word.to_ne_bytes()));
    page
}

/// An entry's first word: its type and the nanoseconds since the one before.
const fn head(kind: u32, delta: u32) -> u32 {
    if cfg!(target_endian = "little") { kind | delta << 5 } else { kind << 27 | delta }
}

#[test]
fn every_kind_of_entry() {
    let data = [
        head(2, 5),
        1,
        2, // a record of 8 bytes
        head(0, 7),
        4 + 6,
        3,
        4, // a record of 6 bytes, padded to 8
        head(30, 1),
        2, // 2 * 2^27 + 1 nanoseconds pass
        head(29, 3),
        8,
        9, // an entry of 8 bytes that is not in use
        head(1, 0),
        5,
        head(31, 6),
        1, // the time is 2^27 + 6
        head(1, 1),
        6,
        head(29, 0), // the rest of the page
        head(1, 1),
        7,
    ];
    let page = page(100, &data);
    let records: Vec<(u64, usize, usize)> = LAYOUT
        .entries(&page)
        .map(|(time, place)| (time, (place.start - 16) / 4, place.len()))
        .collect();
    let extended = 112 + (2 << 27) + 1 + 3;
    assert_eq!(records, [(105, 1, 8), (112, 5, 6), (extended, 13, 4), ((1 << 27) + 6 + 1, 17, 4)]);
    assert_eq!(LAYOUT.missed(&page), None);
    assert_eq!(LAYOUT.entries(&page[..page.len() / 2]).count(), 2, "a page that was cut");
    assert_eq!(LAYOUT.entries(&[]).count(), 0);
}

#[test]
fn missed_events_are_counted_where_the_page_says_so() {
    let marked = |marks: u32, behind: &[u8]| {
        let mut page = page(0, &[head(1, 0), 1]);
        page[8..12].copy_from_slice(&(8 | marks).to_ne_bytes());
        page.extend(behind);
        page
    };
    let count = 12u64.to_ne_bytes();
    let (missed, stored) = (1 << 31, 1 << 30);
    for (page, expected) in [
        (marked(0, &[]), None),
        (marked(stored, &count), None),
        (marked(missed, &count), Some(Missed { events: None })),
        (marked(missed | stored, &count), Some(Missed { events: Some(12) })),
        (marked(missed | stored, &[]), Some(Missed { events: None })),
    ] {
        assert_eq!((LAYOUT.missed(&page), LAYOUT.entries(&page).count()), (expected, 1));
    }
}

#[test]
fn descriptions_of_the_kernel_are_read() {
    let text = fs::read_to_string(data("capture/6.12/events/header_page")).expect("a file");
    assert_eq!(parse_page(&text), Ok(LAYOUT));
    let mut known = 0;
    for (name, kind) in EVENTS {
        let path = data(&format!("capture/6.12/events/block/{name}/format"));
        let Ok(text) = fs::read_to_string(path) else { continue };
        let layout = EventLayout::parse(name, kind, &text).expect("a layout");
        assert_eq!(
            layout.device.is_none(),
            matches!(name, "block_plug" | "block_unplug"),
            "{name}"
        );
        known += 1;
    }
    assert_eq!(known, 17);
}

proptest! {
    #[test]
    fn no_page_and_no_description_does_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        text in "(field:[ a-z_]{0,20}(\\[[0-9]\\])?;\t?(offset|size):[0-9]{0,20};){0,4}",
    ) {
        let _ = LAYOUT.missed(&bytes);
        prop_assert!(LAYOUT.entries(&bytes).count() <= bytes.len() / 4);
        let _ = parse_page(&text);
        let described = format!("ID: 5\nfield:int common_pid; offset:4; size:4;\n{text}");
        if let Ok(layout) = EventLayout::parse("x", TraceKind::Issue, &described) {
            let mut record = 5u16.to_ne_bytes().to_vec();
            record.extend(&bytes);
            let _ = super::decode::Decoder::new([layout]).decode(&record);
        }
    }
}

/// A sysfs with a disk of one partition.
fn sysfs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("devices/pci/block/sdx");
    for (file, text) in [
        ("dev", "8:16\n"),
        ("size", "2048\n"),
        ("device/model", "Fast SSD  \n"),
        ("queue/scheduler", "none [bfq]\n"),
        ("queue/nr_requests", "64\n"),
        ("queue/iosched/slice_idle", "8\n"),
        ("mq/10/nr_tags", "32\n"),
        ("mq/9/nr_tags", "31\n"),
        ("mq/9/cpu_list", "0, 1\n"),
        ("sdx1/dev", "8:17\n"),
        ("sdx1/partition", "1\n"),
    ] {
        let file = disk.join(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("written");
    }
    let links = folder.path().join("dev/block");
    fs::create_dir_all(&links).expect("a folder");
    symlink(&disk, links.join("8:16")).expect("a link");
    symlink(disk.join("sdx1"), links.join("8:17")).expect("a link");
    folder
}

#[test]
fn a_disk_tells_its_settings() {
    let sysfs = sysfs();
    let disk = Disk::of_device(DeviceNumber::new(8, 16), sysfs.path()).expect("a disk");
    assert_eq!(
        (disk.name.as_str(), disk.device, disk.partition),
        ("sdx", DeviceNumber::new(8, 16), None)
    );
    let part = Disk::of_device(DeviceNumber::new(8, 17), sysfs.path()).expect("a partition");
    assert_eq!(
        (&part.name, part.device, part.partition),
        (&disk.name, disk.device, Some(DeviceNumber::new(8, 17)))
    );
    assert_eq!(Disk::of_device(DeviceNumber::new(9, 9), sysfs.path()), None);
    let mut recorded = Recorded::default();
    disk.note_settings(&mut recorded);
    let all: Vec<(&str, &str)> = recorded.iter().collect();
    let expected = [
        ("device", "8:16"),
        ("name", "sdx"),
        ("model", "Fast SSD"),
        ("sectors", "2048"),
        ("queue/nr_requests", "64"),
        ("queue/scheduler", "none [bfq]"),
        ("queue/iosched/slice_idle", "8"),
        ("mq/9/cpu_list", "0, 1"),
        ("mq/9/nr_tags", "31"),
        ("mq/10/nr_tags", "32"),
    ];
    assert_eq!(all, expected);
    assert_eq!((recorded.driver_tags(), recorded.scheduler()), (Some(63), Some("bfq")));
}

#[test]
fn what_is_no_disk_is_refused() {
    let sysfs = sysfs();
    let refusal =
        |path: &str| Disk::of_node(Path::new(path), sysfs.path()).expect_err(path).to_string();
    assert!(refusal("/no/such").contains("name a block device"));
    assert!(refusal("/dev/null").contains("is no block device"));
    assert!(refusal("/").contains("is no block device"));
}
