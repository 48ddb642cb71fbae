//! Cost of calls to the page cache: 4 KiB reads that hit, touches of mapped memory, and reads that miss, bio and completion and
//! reclaim included.
//!
//! Run by `cargo test` it only proves that it runs.

use std::time::{Duration, Instant as Clock};

use elevon_core::activity::Activity;
use elevon_core::cache::page_cache::{CacheConfig, Call, CallKind, Called, OpenId, PageCache};
use elevon_core::cache::readahead::Advice;
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, Nanos, Sector, TaskId};

const PAGE: u64 = 4096;
const CACHED: u64 = 1 << 16;

fn cache(pages: u64, activity: Activity) -> (PageCache, OpenId) {
    let memory = Bytes::new(512 << 20);
    let mut cache = PageCache::new(CacheConfig { activity, ..CacheConfig::new(memory, TaskId(1)) });
    let file = cache.add_file(Sector::ZERO, pages * PAGE, pages * PAGE);
    let open = cache.open(file);
    (cache, open)
}

/// A call and all I/O that it needs.
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
    let (start, mut turns) = (Clock::now(), 0u64);
    while turns == 0 || start.elapsed() < span {
        for _ in 0..4096 {
            carry_out(cache, call(turns));
            turns += 1;
        }
    }
    println!("{name:<44} {:>8.1} ns/call", start.elapsed().as_secs_f64() * 1e9 / turns as f64);
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let span = if full { Duration::from_millis(500) } else { Duration::ZERO };
    let random = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % CACHED * PAGE;
    let call = |open, kind, offset| Call::new(TaskId(0), 0, open, kind, offset, PAGE);

    let (mut warm, open) = cache(CACHED, Activity::Off);
    carry_out(&mut warm, Call::new(TaskId(0), 0, open, CallKind::Fadvise(Advice::WillNeed), 0, 0));
    measure("read, hit, sequential", span, &mut warm, |n| call(open, CallKind::Read, n % CACHED * PAGE));
    measure("read, hit, random", span, &mut warm, |n| call(open, CallKind::Read, random(n)));
    measure("touch of mapped memory, random", span, &mut warm, |n| {
        call(open, CallKind::Fault { write: false }, random(n))
    });
    for activity in Activity::ALL {
        let (mut cold, open) = cache(1 << 20, activity);
        let name = format!("read, sequential, cold, activity={}", activity.name());
        measure(&name, span, &mut cold, |n| call(open, CallKind::Read, n % (1 << 20) * PAGE));
    }
    let (mut cold, open) = cache(1 << 20, Activity::Off);
    carry_out(&mut cold, Call::new(TaskId(0), 0, open, CallKind::Fadvise(Advice::Random), 0, 0));
    measure("read, random, 1 page of 8 cached", span, &mut cold, |n| {
        call(open, CallKind::Read, (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % (1 << 20) * PAGE)
    });
}
