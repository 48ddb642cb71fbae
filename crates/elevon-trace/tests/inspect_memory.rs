//! Checks that analysing a trace allocates nothing per event, and that its memory does not grow
//! with the length of the trace, nor without bound with a hostile one.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use elevon_trace::analysis::Analysis;
use elevon_trace::{DeviceNumber, TraceEvent, TraceKind, TraceOp};

/// An allocator that counts calls and the bytes in use.
struct Counting;

static ASKED: AtomicU64 = AtomicU64::new(0);
static IN_USE: AtomicI64 = AtomicI64::new(0);

// SAFETY: passes every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        IN_USE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(memory, layout) }
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        IN_USE.fetch_add(size as i64 - layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Held by the test whose allocations are counted.
static COUNTED: Mutex<()> = Mutex::new(());

/// Adds I/Os of ten processes with 32 in flight, some of them merged or split.
fn feed(analysis: &mut Analysis, from: u64, count: u64) {
    let device = DeviceNumber::new(8, 0);
    let mut put = |kind, n: u64, time: u64, first: u64, sectors: u64| {
        let mut event = TraceEvent::new(kind);
        event.device = Some(device);
        event.time = Some(time);
        event.sector = Some(n % 4096 * 4096 + first);
        event.bytes = Some(sectors * 512);
        event.op = Some(if n.is_multiple_of(3) { TraceOp::Write } else { TraceOp::Read });
        event.tid = Some((n % 10) as u32);
        analysis.add(&[event]);
    };
    for n in from..from + count {
        let time = n * 10_000;
        let is_split = n % 5 == 0;
        let sectors = if is_split { 1032 } else { 8 };
        put(TraceKind::Queue, n, time, 0, sectors);
        let pieces: &[(u64, u64)] = if is_split { &[(0, 1024), (1024, 8)] } else { &[(0, 8)] };
        if is_split {
            put(TraceKind::Split { new_sector: n % 4096 * 4096 + 1024 }, n, time, 0, 1024);
        }
        for &(first, sectors) in pieces {
            put(TraceKind::GetRequest, n, time + 1, first, sectors);
            put(TraceKind::Issue, n, time + 2, first, sectors);
        }
        if let Some(n) = n.checked_sub(32) {
            let pieces: &[(u64, u64)] =
                if n % 5 == 0 { &[(0, 1024), (1024, 8)] } else { &[(0, 8)] };
            for &(first, sectors) in pieces {
                put(TraceKind::Complete, n, time + 3, first, sectors);
            }
        }
    }
}

#[test]
fn a_longer_trace_takes_no_more_memory() {
    let _alone = COUNTED.lock().expect("the other test passed");
    let mut analysis = Analysis::new(DeviceNumber::new(8, 0));
    feed(&mut analysis, 0, 10_000);
    let (asked, in_use) = (ASKED.load(Ordering::Relaxed), IN_USE.load(Ordering::Relaxed));
    feed(&mut analysis, 10_000, 100_000);
    let more = IN_USE.load(Ordering::Relaxed) - in_use;
    let asked = ASKED.load(Ordering::Relaxed) - asked;
    // Some groups of histogram bins are used for the first time, and the test harness allocates.
    assert!(more < 64 << 10, "{more} bytes more after ten times as many events");
    assert!(asked < 100, "{asked} allocations for 650,000 events");
}

/// Events of which each makes one part of the state grow: requests that are issued again and again,
/// one bio that is cut into any number of pieces of one request, and ever new processes.
#[test]
fn a_hostile_trace_takes_bounded_memory() {
    let _alone = COUNTED.lock().expect("the other test passed");
    let put = |analysis: &mut Analysis, kind, sector: u64, bytes: u64, tid: u32| {
        let mut event = TraceEvent::new(kind);
        (event.device, event.time) = (Some(DeviceNumber::new(8, 0)), Some(5));
        (event.sector, event.bytes, event.op) = (Some(sector), Some(bytes), Some(TraceOp::Read));
        event.tid = Some(tid);
        analysis.add(&[event]);
    };
    type Feed<'a> = &'a mut dyn FnMut(&mut Analysis, u32);
    let feeds: [(&str, u32, i64, Feed<'_>); 3] = [
        ("issued again", 3_000_000, 96, &mut |analysis, n| {
            put(analysis, TraceKind::Issue, u64::from(n % 4), 512, 1);
        }),
        ("pieces", 3_000_000, 96, &mut |analysis, n| match n {
            0 => put(analysis, TraceKind::Queue, 0, 1 << 50, 1),
            1 => put(analysis, TraceKind::GetRequest, 0, 512, 1),
            _ => put(analysis, TraceKind::BackMerge, u64::from(n) - 1, 512, 1),
        }),
        ("processes", 500_000, 320, &mut |analysis, n| put(analysis, TraceKind::Queue, 0, 0, n)),
    ];
    for (what, events, mebibytes, feed) in feeds {
        let before = IN_USE.load(Ordering::Relaxed);
        let mut analysis = Analysis::new(DeviceNumber::new(8, 0));
        for n in 0..events {
            feed(&mut analysis, n);
        }
        let used = IN_USE.load(Ordering::Relaxed) - before;
        assert!(used < mebibytes << 20, "{what}: {used} bytes after {events} events");
    }
}
