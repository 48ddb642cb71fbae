//! Tests the memory models: text forms, their runs, and the resulting bios.

use super::*;
use elevon_core::build::{Fill, IoPath, next_bio_bytes};
use elevon_core::limits::QueueLimits;

fn model(text: &str) -> MemoryModel {
    MemoryModel::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn mib(n: u64) -> Bytes {
    Bytes::new(n << 20)
}

fn buffer(text: &str, seed: u64, bytes: Bytes) -> Layout {
    Memory::new(&model(text), seed).allocate(bytes).unwrap()
}

fn run_pages(layout: &Layout) -> Vec<u64> {
    layout.runs().iter().map(|run| run.len / PAGE_SIZE).collect()
}

fn bio_sectors(layout: &Layout) -> Vec<u64> {
    let (mut at, mut all) = (0, Vec::new());
    while at < layout.len() {
        let limits = QueueLimits::default();
        let bytes =
            next_bio_bytes(layout, at, layout.len() - at, IoPath::Direct, Fill::Full, &limits);
        all.push(bytes / 512);
        at += bytes;
    }
    all
}

#[test]
fn text_forms_read_and_print() {
    for text in [
        "contiguous",
        "runs:2x11,1x245",
        "fragmented:p1=44000",
        "fragmented:p1=1000,p3=500,p10=7",
        "buddy:size=1024MiB,used=50%,fragmentation=60%,thp=1",
    ] {
        assert_eq!(model(text).to_string(), text);
    }
    assert_eq!(model("fragmented"), MemoryModel::default());
    assert_eq!(model("buddy"), MemoryModel::Buddy(BuddyParameters::default()));
    assert_eq!(model("runs:3"), MemoryModel::Runs(vec![3]));
    let MemoryModel::Buddy(b) = model("buddy:fragmentation=60%,thp=1,size=1GiB") else { panic!() };
    assert_eq!((b.size.get(), b.fragmentation, b.thp), (1 << 30, 60, true));
    for (form, _) in MemoryModel::FORMS {
        // Brackets mark optional parts; with their content the form is valid.
        let full: String = form.chars().filter(|c| !"[]".contains(*c)).collect();
        assert!(MemoryModel::parse(&full.replace("...,", "")).is_ok(), "{form}");
    }
}

#[test]
fn errors_say_what_would_be_right() {
    for (text, expected) in [
        ("holes", "expected contiguous, or runs:2x11,1x245, or fragmented"),
        ("contiguous:p1=1", "contiguous: unknown key `p1`"),
        ("runs:", "expected run lengths in pages"),
        ("runs:0x3", "`0x3`: expected"),
        ("runs:1x1048576,1", "`1`: expected"),
        ("fragmented:p1=1000001", "fragmented: `p1=1000001`: expected a number from 0 to 1000000"),
        (
            "fragmented:p1=600000,p2=600000",
            "fragmented: `p2=600000`: expected a number from 0 to 400000",
        ),
        ("fragmented:p0=1", "fragmented: unknown key `p0`; its keys are p1, p2"),
        ("buddy:fragmentation=60", "buddy: `fragmentation=60`: expected 0% to 100%"),
        ("buddy:used=100%", "buddy: `used=100%`: expected 0% to 99%"),
        ("buddy:size=1MiB", "buddy: `size=1MiB`: expected a multiple of 4MiB up to 64GiB"),
        ("buddy:size=65GiB", "expected a multiple of 4MiB up to 64GiB"),
        ("buddy:thp=2", "buddy: `thp=2`: expected a number from 0 to 1"),
    ] {
        let error = MemoryModel::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn exact_runs_come_in_order_and_go_round() {
    let mut memory = Memory::new(&model("runs:2x2,1,5"), 1);
    assert_eq!(run_pages(&memory.allocate(Bytes::new(12 * 4096)).unwrap()), [2, 2, 1, 5, 2]);
    assert_eq!(run_pages(&memory.allocate(Bytes::new(3 * 4096 - 1)).unwrap()), [2, 1]);
    // The layout of the proposal's first bio.
    assert_eq!(bio_sectors(&buffer("runs:2x11,1x245", 1, mib(8)))[0], 2136);
}

#[test]
fn one_run_a_buffer() {
    let mut memory = Memory::new(&MemoryModel::Contiguous, 1);
    let (a, b) = (memory.allocate(mib(64)).unwrap(), memory.allocate(Bytes::new(1)).unwrap());
    assert_eq!((a.runs().len(), b.len()), (1, 4096));
    assert!(a.physical(0) + a.len() < b.physical(0));
}

/// The proposal's trace: bios of 2136, 2152, 2128, 2160, 2096, 2160 sectors, mean 2138.7.
#[test]
fn the_default_gives_bios_as_in_the_seeds_trace() {
    let layout = buffer("fragmented", 1, mib(1024));
    let mean = layout.len() / PAGE_SIZE * 1000 / layout.runs().len() as u64;
    assert!((1043..=1045).contains(&mean), "mean run {mean}/1000 pages");
    let mut bios = bio_sectors(&layout);
    bios.pop();
    let mean = bios.iter().sum::<u64>() / bios.len() as u64;
    let variance = bios.iter().map(|&b| b.abs_diff(mean).pow(2)).sum::<u64>() / bios.len() as u64;
    assert!((2136..=2140).contains(&mean), "mean {mean}");
    assert!((23 * 23..=29 * 29).contains(&variance), "variance {variance}");
    assert!(bios.iter().all(|b| (2048..2300).contains(b)));
    assert_eq!(bio_sectors(&buffer("fragmented", 1, mib(64))).len(), 62);
}

#[test]
fn same_seed_same_memory() {
    for text in ["fragmented", "buddy"] {
        assert_eq!(buffer(text, 5, mib(16)), buffer(text, 5, mib(16)));
        assert_ne!(buffer(text, 5, mib(16)), buffer(text, 6, mib(16)));
    }
}

#[test]
fn fragmentation_makes_runs_short() {
    let runs = |percent: u32| {
        let layout = buffer(&format!("buddy:size=256MiB,fragmentation={percent}%"), 3, mib(64));
        assert_eq!(layout.len(), 64 << 20);
        layout.runs().len()
    };
    let (none, some, all) = (runs(0), runs(30), runs(100));
    assert!(none <= 16, "{none} runs of 4 MiB blocks");
    assert!(some > 100 * none && all > some, "{none} {some} {all}");
    assert!(all > 15000, "nearly all of 16384 pages alone, not {all} runs");
}

#[test]
fn huge_pages_are_taken_while_there_are_any() {
    let layout =
        buffer("buddy:size=256MiB,fragmentation=0%,thp=1", 3, Bytes::new((64 << 20) + 4096));
    assert!(
        layout.runs()[..layout.runs().len() - 1].iter().all(|run| run.len.is_multiple_of(2 << 20))
    );
    assert_eq!(bio_sectors(&layout), [(64 << 11) + 8]);
    // If all free memory is single pages, there are no huge pages, and faults fall back to single
    // pages.
    let layout = buffer("buddy:size=256MiB,fragmentation=100%,thp=1", 3, mib(16));
    assert!(layout.runs().len() > 4000);
}

#[test]
fn freed_memory_is_used_again_and_joins() {
    let mut memory = Memory::new(&model("buddy:size=64MiB,used=0%,fragmentation=0%"), 1);
    let all = memory.allocate(mib(64)).unwrap();
    let error = memory.allocate(Bytes::new(4096)).unwrap_err().to_string();
    assert_eq!(
        error,
        "memory buddy: no room for a buffer of 4 KiB, 0 KiB are free; a larger size= would have it"
    );
    memory.free(&all);
    assert!(memory.allocate(mib(65)).is_err());
    let again = memory.allocate(mib(64)).unwrap();
    assert!(again.runs().len() <= 16);
    assert_eq!(again.runs().iter().map(|run| run.len).sum::<u64>(), 64 << 20);
}
