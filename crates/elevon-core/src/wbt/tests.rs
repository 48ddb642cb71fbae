//! Worked examples of the rules, and a random run against them.

extern crate alloc;
use alloc::vec::Vec;

use super::*;
use crate::sched::testing::Rng;

const TARGET: Nanos = Nanos::from_millis(2);

fn wbt(queue_depth: u32, has_cache: bool) -> Wbt {
    Wbt::new(Some(TARGET), queue_depth, has_cache, Hz(250))
}

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Nanos::from_millis(ms)
}

/// Takes places until none is left. Returns how many there were.
fn take_all(wbt: &mut Wbt, now: Instant, throttled: Throttled, flags: Flags) -> u32 {
    let mut taken = 0;
    while wbt.take(now, throttled, flags) {
        taken += 1;
    }
    taken
}

#[test]
fn places_by_step_on_a_queue_of_256() {
    let rows = [(0, 16, 8, 4), (1, 8, 4, 2), (2, 4, 2, 1), (3, 2, 2, 1), (4, 1, 1, 1)];
    let more = [(-1, 31, 16, 8), (-2, 61, 31, 16), (-3, 121, 61, 31), (-4, 192, 96, 48)];
    for (step, most, normal, background) in rows.into_iter().chain(more) {
        assert_eq!(
            Places::from_most(depth_at(step, 256).0),
            Places { most, normal, background },
            "step {step}"
        );
    }
    assert_eq!(
        [depth_at(1, 1), depth_at(0, 1), depth_at(-1, 1)],
        [(1, false), (2, true), (2, true)]
    );
}

/// The kernel whose trace of PostgreSQL is among the test data let in 24, with 128 tags.
#[test]
fn a_kernel_that_has_run_for_a_while_has_grown() {
    let grown =
        |queue_depth, writes| wbt(queue_depth, false).grown_to(writes, false).places.background;
    assert_eq!(
        [0, 4, 5, 8, 9, 24, 1000].map(|writes| grown(128, writes)),
        [4, 4, 8, 8, 16, 24, 24]
    );
    assert_eq!(grown(1, 5), 1);
    let off = Wbt::new(None, 128, false, Hz(250)).grown_to(5, false);
    assert_eq!((off.step, off.places.most), (0, 0));
}

/// The kernel whose trace of a buffered writer is among the test data let in 94 beside reads.
#[test]
fn where_tasks_always_sleep_for_dirty_pages_all_places_are_for_background_writes() {
    let most = |always| {
        let mut wbt = wbt(128, true).grown_to(94, always);
        wbt.on_read(ms(1000));
        take_all(&mut wbt, ms(1000), Throttled::Write, Flags::NONE)
    };
    assert_eq!([most(false), most(true)], [24, 96]);
    assert_eq!([1, 2, 128, 256].map(most_background), [1, 1, 24, 48]);
}

#[test]
fn slow_reads_halve_the_places_and_shorten_the_window() {
    let (mut wbt, mut now) = (wbt(256, false), ms(1000));
    assert!(wbt.take(now, Throttled::Write, Flags::SYNC));
    let (mut depths, mut windows) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        for write in 0..LEAST_WRITES {
            wbt.on_complete(now, RequestId(write), Op::Write, TARGET);
        }
        wbt.on_complete(now, RequestId(9), Op::Read, TARGET + Nanos::new(1));
        now = wbt.next_wakeup();
        assert!(!wbt.end_window(now));
        depths.push(wbt.places.most);
        windows.push(wbt.window.get() / 1000);
    }
    assert_eq!(depths, [8, 4, 2, 1, 1]);
    assert_eq!(windows, [72_727, 59_259, 50_000, 45_714, 45_714]);
}

#[test]
fn writes_alone_double_the_places() {
    let (mut wbt, mut depths) = (wbt(256, false), Vec::new());
    assert!(wbt.take(ms(1000), Throttled::Write, Flags::NONE));
    for _ in 0..5 {
        let now = wbt.next_wakeup();
        wbt.end_window(now);
        depths.push(wbt.places.most);
    }
    assert_eq!(depths, [31, 61, 121, 192, 192]);
}

#[test]
fn one_slow_read_in_flight_is_enough() {
    let mut wbt = wbt(256, false);
    wbt.on_issue(ms(1000), RequestId(7), Op::Read);
    assert!(wbt.take(ms(1010), Throttled::Write, Flags::NONE));
    let end = wbt.next_wakeup();
    wbt.end_window(end);
    assert_eq!(wbt.places.most, 8);
    // It completes, and every write with it: the window knows nothing more than that.
    wbt.on_complete(end, RequestId(7), Op::Read, end.since(ms(1000)));
    assert!(wbt.put(end, Throttled::Write));
    let mut windows = 0;
    while wbt.next_wakeup() < Instant::MAX {
        let now = wbt.next_wakeup();
        wbt.end_window(now);
        windows += 1;
    }
    // The first judges by the read alone, as unknown; after five of them the depth is what it was.
    assert_eq!((wbt.places.most, windows), (16, UNKNOWN_WINDOWS));
}

#[test]
fn limits_by_what_a_write_carries() {
    let fresh = || wbt(256, true);
    assert_eq!(take_all(&mut fresh(), ms(5000), Throttled::Write, Flags::SYNC), 16);
    assert_eq!(take_all(&mut fresh(), ms(5000), Throttled::Write, Flags::NONE), 8);
    assert_eq!(take_all(&mut fresh(), ms(5000), Throttled::Write, Flags::BACKGROUND), 4);
    assert_eq!(take_all(&mut fresh(), ms(5000), Throttled::Discard, Flags::SYNC), 4);
    let mut beside_reads = fresh();
    beside_reads.on_read(ms(4904));
    assert_eq!(take_all(&mut beside_reads, ms(5000), Throttled::Write, Flags::NONE), 4);
    let mut after_a_sleep = fresh();
    after_a_sleep.on_dirty_sleep(ms(4004));
    assert_eq!(take_all(&mut after_a_sleep, ms(5000), Throttled::Write, Flags::BACKGROUND), 16);
    let mut long_after = fresh();
    long_after.on_read(ms(4900));
    long_after.on_dirty_sleep(ms(4000));
    assert_eq!(take_all(&mut long_after, ms(5000), Throttled::Write, Flags::NONE), 8);
}

#[test]
fn a_cache_is_drained_before_anybody_is_woken() {
    let woken = |has_cache, slept: bool| {
        let mut wbt = wbt(256, has_cache);
        if slept {
            wbt.on_dirty_sleep(ms(5000));
        }
        let taken = take_all(&mut wbt, ms(5000), Throttled::Write, Flags::SYNC);
        let wakes = (0..taken).map(|_| wbt.put(ms(5000), Throttled::Write));
        wakes
            .enumerate()
            .filter(|&(_, wakes)| wakes)
            .map(|(at, _)| at as u32 + 1)
            .collect::<Vec<_>>()
    };
    assert_eq!(woken(true, false), [16]);
    // Once at least two of the 8 normal places are free: half of 4.
    assert_eq!(woken(true, true), (10..=16).collect::<Vec<_>>());
    assert_eq!(woken(false, false), (10..=16).collect::<Vec<_>>());
}

#[test]
fn what_is_taken_is_never_more_than_the_limit() {
    let mut rng = Rng(5);
    for round in 0..200 {
        let depth = 1 + rng.below(300) as u32;
        let mut wbt = wbt(depth, round % 2 == 0);
        let (mut now, mut held) = (ms(1000), [0u32; 2]);
        for step in 0..400 {
            now = now + Nanos::from_micros(rng.below(20_000));
            if wbt.next_wakeup() <= now {
                wbt.end_window(now);
            }
            let throttled = rng.pick(&Throttled::ALL);
            let flags = rng.pick(&[Flags::NONE, Flags::SYNC, Flags::BACKGROUND, Flags::META]);
            let at = throttled as usize;
            match rng.below(4) {
                0 if held[at] > 0 => {
                    held[at] -= 1;
                    let wakes = wbt.put(now, throttled);
                    assert!(wakes || held[at] > 0, "the last one wakes whoever waits");
                }
                1 => wbt.on_complete(
                    now,
                    RequestId(step),
                    Op::Read,
                    Nanos::from_micros(rng.below(4000)),
                ),
                2 => wbt.on_complete(now, RequestId(step), Op::Write, TARGET),
                _ if wbt.take(now, throttled, flags) => held[at] += 1,
                _ => assert!(held[at] > 0, "nothing is in flight, and yet there is no place"),
            }
            assert_eq!(wbt.in_flight(), held);
            let Places { most, normal, background } = wbt.places;
            assert!(1 <= background && background <= normal.max(1) && normal <= most);
            assert!(
                most <= DEFAULT_DEPTH.min(depth).max(2).max(depth * 3 / 4),
                "{most} of {depth}"
            );
            assert!(
                wbt.next_wakeup() < Instant::MAX || wbt.in_flight() == [0, 0],
                "no window, and yet writes"
            );
        }
    }
}
