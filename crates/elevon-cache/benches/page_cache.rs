//! Cost of calls to the page cache: 4 KiB reads that hit, touches of mapped memory, and reads that
//! miss, including bio, completion and reclaim. Also the instructions that content activity adds to
//! a cold read.
//!
//! For these (see `instructions`), each turn is a read call as long as the readahead window, of a
//! file that is not in memory, through the whole cache: one bio per turn, its pages allocated,
//! indexed, added, completed and copied. The difference between windows of 16 and of 128 pages is
//! the cost per page, the rest the cost per bio. The cost of activity when it is off is the
//! difference to the same count with the feature `without-activity`, which removes its hooks from
//! the build: 563 instructions per page with them and 560 without, 844 and 830 per bio.
//!
//! Times are CPU times if the system provides them. The goal for hits is 100 ns.
//!
//! Under `cargo test` it only checks that it runs.

#[path = "../../elevon-core/benches/instructions/mod.rs"]
mod instructions;
#[path = "../../elevon-core/benches/processor/mod.rs"]
mod processor;

use std::time::Duration;

use elevon_cache::Advice;
use elevon_cache::activity::Activity;
use elevon_cache::page_cache::{CacheConfig, Call, CallKind, Called, OpenId, PageCache};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, FileOffset, Instant, Nanos, Sector, TaskId};
use instructions::Case;

const PAGE: u64 = 4096;
const CACHED: u64 = 1 << 16;

fn cache(memory: u64, pages: u64, activity: Activity) -> (PageCache, OpenId) {
    let memory = Bytes::new(memory);
    let mut cache = PageCache::new(CacheConfig { activity, ..CacheConfig::new(memory, TaskId(1)) });
    let file = cache.add_file(Sector::ZERO, Bytes::new(pages * PAGE), Bytes::new(pages * PAGE));
    let open = cache.open(file);
    (cache, open)
}

/// Does a call and all I/O that it needs.
fn carry_out(cache: &mut PageCache, call: Call) {
    let called = cache.call(Instant::ZERO, call);
    while let Some(io) = cache.poll_io(Instant::ZERO) {
        cache.complete(Instant::ZERO, io.token, Status::Ok, Nanos::ZERO);
    }
    if called == Called::Wait {
        assert!(cache.poll_done().is_some(), "its I/O is over");
    }
}

fn measure(name: &str, span: Duration, cache: &mut PageCache, mut call: impl FnMut(u64) -> Call) {
    let mut turn = 0;
    let ns = processor::measure(span, || {
        carry_out(cache, call(turn));
        turn += 1;
    });
    println!("{name:<44} {ns:>8.1} ns/call");
}

/// Pages of the two readahead windows.
const WINDOWS: [u64; 2] = [16, 128];

/// Reads a cold file window by window until it is completely in memory; the longest counted run is
/// shorter.
fn read_cold(activity: Activity, window: u64, turns: u64) {
    let memory = Bytes::new(1 << 30);
    let config =
        CacheConfig { activity, ra_pages: window as u32, ..CacheConfig::new(memory, TaskId(1)) };
    let mut cache = PageCache::new(config);
    let pages = 1 << 18;
    let file = cache.add_file(Sector::ZERO, Bytes::new(pages * PAGE), Bytes::new(pages * PAGE));
    let open = cache.open(file);
    for turn in 0..turns {
        let (offset, bytes) = (turn * window * PAGE, window * PAGE);
        carry_out(
            &mut cache,
            Call::new(
                TaskId(0),
                0,
                open,
                CallKind::Read,
                FileOffset::new(offset),
                Bytes::new(bytes),
            ),
        );
    }
}

fn cases() -> Vec<Case> {
    let case = |activity: Activity, window| Case {
        name: format!("{} {window}", activity.name()),
        run: Box::new(move |turns| read_cold(activity, window, turns)),
    };
    Activity::ALL
        .into_iter()
        .flat_map(|activity| WINDOWS.map(|window| case(activity, window)))
        .collect()
}

/// Counts the instructions per page and per bio for each activity; the first is off.
fn count(cases: &[Case]) {
    let built = if cfg!(feature = "without-activity") { ", built without activity" } else { "" };
    let title = format!("cold read, instructions{built}");
    println!("\n{title:<44} {:>9} {:>9} {:>12} {:>9}", "a page", "a bio", "page beyond", "bio");
    let mut off = None;
    for (activity, pair) in Activity::ALL.into_iter().zip(cases.chunks_exact(WINDOWS.len())) {
        let [Some(small), Some(large)] = [pair[0].per_turn(), pair[1].per_turn()] else {
            println!("no count of {}", activity.name());
            continue;
        };
        let page = (large - small) / (WINDOWS[1] - WINDOWS[0]) as f64;
        let bio = small - page * WINDOWS[0] as f64;
        let (off_page, off_bio) = *off.get_or_insert((page, bio));
        let name = format!("activity={}", activity.name());
        println!(
            "{name:<44} {page:>9.2} {bio:>9.1} {:>12.2} {:>9.1}",
            page - off_page,
            bio - off_bio
        );
    }
    println!("goal: page-exact within 10 instructions a page beyond off");
}

/// Returns a call for a page.
fn call(open: OpenId, kind: CallKind, offset: u64) -> Call {
    Call::new(TaskId(0), 0, open, kind, FileOffset::new(offset), Bytes::new(PAGE))
}

fn advise(cache: &mut PageCache, open: OpenId, advice: Advice) {
    let kind = CallKind::Fadvise(advice);
    carry_out(cache, Call::new(TaskId(0), 0, open, kind, FileOffset::ZERO, Bytes::ZERO));
}

/// Returns the offset of a page of a file of `pages` pages.
const fn random(n: u64, pages: u64) -> u64 {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % pages * PAGE
}

/// Measures calls for a file of `pages` pages that is in memory.
fn measure_hits(pages: u64, span: Duration) {
    let size = pages * PAGE;
    let (mut warm, open) = cache(2 * size, pages, Activity::Off);
    advise(&mut warm, open, Advice::WillNeed);
    let name = |what| format!("{what} of {} MiB", size >> 20);
    measure(&name("read, hit, in order"), span, &mut warm, |n| {
        call(open, CallKind::Read, n % pages * PAGE)
    });
    measure(&name("read, hit, random"), span, &mut warm, |n| {
        call(open, CallKind::Read, random(n, pages))
    });
    for n in 0..pages / 16 {
        carry_out(&mut warm, call(open, CallKind::Fault { write: false }, 16 * n * PAGE));
    }
    measure(&name("touch of mapped memory, random"), span, &mut warm, |n| {
        call(open, CallKind::Fault { write: false }, random(n, pages))
    });
}

/// Measures reads of files that are not in memory.
fn measure_misses(span: Duration) {
    for activity in Activity::ALL {
        let (mut cold, open) = cache(512 << 20, 1 << 20, activity);
        let name = format!("read, sequential, cold, activity={}", activity.name());
        measure(&name, span, &mut cold, |n| call(open, CallKind::Read, n % (1 << 20) * PAGE));
    }
    let (mut cold, open) = cache(512 << 20, 1 << 20, Activity::Off);
    advise(&mut cold, open, Advice::Random);
    measure("read, random, 1 page of 8 cached", span, &mut cold, |n| {
        call(open, CallKind::Read, random(n, 1 << 20))
    });
}

fn main() {
    let cases = cases();
    if instructions::serve(&cases) {
        return;
    }
    let full = std::env::args().any(|argument| argument == "--bench");
    let span = if full { Duration::from_millis(500) } else { Duration::ZERO };
    for pages in if full { &[CACHED, 32 * CACHED][..] } else { &[CACHED] } {
        measure_hits(*pages, span);
    }
    measure_misses(span);
    if full && instructions::available() {
        count(&cases);
    } else if full {
        println!("valgrind is not here: no instruction counts");
    } else {
        cases.iter().for_each(|case| (case.run)(3));
    }
}
