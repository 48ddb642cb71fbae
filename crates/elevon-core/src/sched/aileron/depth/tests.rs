//! The search for the usable depth.

extern crate alloc;
use alloc::vec::Vec;

use super::compare::{OCTAVE, log2};
use super::compare::{compare, do_not_wait};
use super::*;

/// What a request was seen to occupy, in nanoseconds.
const fn seen(known: u64) -> Occupied {
    Occupied { known, rest: 0 }
}

/// A load of which what is left occupies `rest`.
const fn load_of(is_binding: bool, is_unfair: bool, rest: u64) -> Load {
    let wants = Wants { is_unfair, is_binding, is_unknown: false };
    Load {
        wants,
        may_probe: true,
        may_shrink: is_unfair,
        prefers_shares: false,
        rest,
        others: None,
    }
}

#[test]
fn logarithms() {
    let cases =
        [(0, 0), (1, 0), (2, OCTAVE), (3, 103_872), (1000, 653_117), (1 << 40, 40 * OCTAVE)];
    for (value, expected) in cases {
        assert!(log2(value).abs_diff(expected) <= 8, "{value}: {}", log2(value));
    }
}

/// A device in which requests wait says nothing about what they take alone, even if a probe
/// with fewer in flight sees longer ones.
#[test]
fn times_of_a_full_device_are_not_times_alone() {
    let sums = |depth: u64, time: u64, alone: u64| {
        let (n, t, e) = (1000, 1000 * time, 1000 * alone);
        Sums {
            count: n,
            time: t,
            alone: e,
            time_squares: t * time,
            time_by_alone: t * alone,
            alone_squares: e * alone,
            area: depth * t,
            occupied: 8 * e,
            alone_of_rest: 0,
        }
    };
    assert!(do_not_wait(&sums(6, 100, 100), &sums(8, 103, 100)), "eight servers, eight requests");
    assert!(!do_not_wait(&sums(6, 100, 100), &sums(8, 120, 100)), "they take longer");
    assert!(
        !do_not_wait(&sums(20, 354, 85), &sums(32, 370, 97)),
        "they take four times as long as alone"
    );
    assert!(do_not_wait(&sums(6, 50, 50), &sums(8, 100, 100)), "the probe saw shorter ones");
    assert!(!do_not_wait(&sums(6, 200, 200), &sums(8, 115, 100)), "the probe saw longer ones");
}

/// A device that gains 6 to 8 percent of throughput for each doubling of depth: each step down
/// is one of low elasticity, but not all of them together.
#[test]
fn many_small_steps_keep_most_of_the_throughput() {
    const ALONE: u64 = 1_000_000;
    let served = |depth: u64| 1000 + (55 * log2(depth) / OCTAVE) as u64;
    let mut depth = Depth::new(false);
    let mut now = Instant::ZERO;
    let load = load_of(true, true, 1 << 16);
    let mut lowest = depth.usable;
    for _ in 0..60_000 {
        let count = u64::from(depth.limit());
        let time = ALONE * count * 1000 / served(count);
        now = now + Nanos::new(time / count);
        let sample = Sample {
            mark: depth.mark(),
            time,
            alone: ALONE,
            occupied: seen(ALONE),
            area: count * time,
        };
        depth.learn(now, sample, load.wants, || load);
        lowest = lowest.min(depth.usable);
    }
    assert!(lowest < FIRST_LIMIT, "no smaller depth was taken");
    assert!(
        served(lowest.into()) * KEPT.1 >= served(FIRST_LIMIT.into()) * KEPT.0,
        "{lowest} is too few"
    );
}

#[test]
fn a_smaller_depth_that_costs_much_is_soon_given_up() {
    // Returns the milliseconds that the first probe lasts if a request takes `time` at a depth.
    let lasts = |time: fn(u64) -> u64| {
        let (mut depth, mut now, mut began) = (Depth::new(false), Instant::ZERO, None);
        let load = load_of(false, true, 1 << 16);
        while began.is_none() || !depth.is_settled() {
            let (mark, count) = (depth.mark(), u64::from(depth.limit()));
            let time = time(count);
            now = now + Nanos::new(time / count);
            let sample = Sample {
                mark,
                time,
                alone: 1_000_000,
                occupied: seen(1_000_000),
                area: count * time,
            };
            depth.learn(now, sample, load.wants, || load);
            began = began.or((!depth.is_settled()).then_some(now));
        }
        now.since(began.expect("a probe began")).as_millis()
    };
    assert_eq!((lasts(|_| 1_600_000), lasts(|count| 50_000 * count)), (5, 20));
}

#[test]
fn the_limit_is_never_above_what_the_driver_takes() {
    let mut depth = Depth::new(false);
    depth.bound(40);
    let mut now = Instant::ZERO;
    let load = load_of(true, false, 1 << 16);
    for _ in 0..20_000 {
        // As many servers as requests: a larger depth always gains.
        now = now + Nanos::new(1_000_000 / u64::from(depth.limit()));
        let area = u64::from(depth.limit()) * 1_000_000;
        let sample = Sample {
            mark: depth.mark(),
            time: 1_000_000,
            alone: 1_000_000,
            occupied: seen(1_000_000),
            area,
        };
        depth.learn(now, sample, load.wants, || load);
        assert!(depth.limit() <= 40, "{}", depth.limit());
    }
    assert_eq!(depth.usable(), 40);
    depth.bound(1);
    assert_eq!(depth.limit(), 1);
}

#[test]
fn a_large_step_that_costs_throughput_is_no_small_one() {
    // Depth 32 with 5.17 requests served at a time, and 5 with 3.48.
    let sums = |depth: u64, served: u64| {
        let (n, t) = (1000, 1_000_000);
        let area = depth * t;
        let e = served * t / depth / 1024;
        Sums {
            count: n,
            time: t,
            alone: e,
            time_squares: t / n * t,
            time_by_alone: t / n * e,
            alone_squares: e * e / n,
            area,
            occupied: 8 * e,
            alone_of_rest: 0,
        }
    };
    let (shallow, deep) = (sums(5, 3564), sums(32, 5294));
    assert_eq!((shallow.served() / 100, deep.served() / 100), (35, 52));
    assert_eq!(compare(&shallow, &deep, 1 << 16, LOSES, true), Verdict::High);
    assert_eq!(compare(&sums(18, 5200), &deep, 1 << 16, LOSES, true), Verdict::Low);
}

/// A link that large reads fill: among fewer requests small ones have more of it, and as much is
/// delivered, though fewer are served at a time.
#[test]
fn what_counts_is_what_requests_occupy() {
    // So many small and large requests at a depth, in so many microseconds each. A small one takes
    // 100 us alone and occupies 10, a large one 600 and 500.
    let sums = |depth: u64, (small, large): (u64, u64), time: u64| {
        let mut sums = Sums::NONE;
        let mut add = |count, alone, occupied| {
            let [time, alone, occupied] = [time, alone, occupied].map(|micros: u64| micros * 1000);
            let sample = Sample {
                mark: Mark::default(),
                time,
                alone,
                occupied: seen(occupied),
                area: depth * time,
            };
            (0..count).for_each(|_| sums.add(sample));
        };
        add(small, 100, 10);
        add(large, 600, 500);
        sums
    };
    // Of each the link passes 100 ms.
    let (shallow, deep) = (sums(6, (100, 198), 2013), sums(20, (5_000, 100), 392));
    assert!(
        shallow.delivered(1 << 16).abs_diff(65_536) < 700
            && deep.delivered(1 << 16).abs_diff(65_536) < 700
    );
    assert!(shallow.served() * 2 < deep.served(), "{} and {}", shallow.served(), deep.served());
    assert_eq!(compare(&shallow, &deep, 1 << 16, LOSES, true), Verdict::Low);
}

/// Bursts of programs pass for a change of the device: what was refused need not be tried again,
/// and what was delivered before is still what is to be kept.
#[test]
fn what_was_refused_and_delivered_outlasts_a_change() {
    let mut depth = Depth::new(false);
    (depth.refused, depth.delivered_before) = (7, Some(60_000));
    depth.restart(Instant::ZERO);
    assert_eq!((depth.refused, depth.delivered_before), (7, Some(60_000)));
    depth.on_look();
    assert_eq!(
        (depth.refused, depth.delivered_before),
        (7, None),
        "it was counted by something else"
    );
}

/// What requests occupy is estimated anew every 100 ms, the first time to a fraction of what it
/// was: two depths that deliver the same still do.
#[test]
fn a_new_estimate_of_what_requests_occupy_changes_no_comparison() {
    const ALONE: u64 = 2_000_000;
    let found = |first_estimate: u64| {
        let (mut depth, mut now) = (Depth::new(false), Instant::ZERO);
        for ended in 0..400 {
            let count = u64::from(depth.limit());
            // Eight servers.
            let time = ALONE * count.max(8) / 8;
            now = now + Nanos::new(time / count);
            let rest = if ended < 80 { 1 << 16 } else { first_estimate };
            let load = load_of(true, true, rest);
            let occupied = Occupied { known: 0, rest: ALONE };
            let sample =
                Sample { mark: depth.mark(), time, alone: ALONE, occupied, area: count * time };
            depth.learn(now, sample, load.wants, || load);
        }
        depth.usable()
    };
    assert_eq!((found(1 << 16), found(1 << 13)), (8, 8));
}

/// Eight servers of 2 ms that take the newest request first, and now and then the oldest: what
/// has begun in a probe and ended in it waited less than the mean.
#[test]
fn a_device_that_serves_the_newest_first_has_the_depth_of_its_servers() {
    let mut depth = Depth::new(false);
    let (mut now, mut turn) = (Instant::ZERO, 0);
    let (mut waiting, mut served) = (Vec::new(), Vec::new());
    let mut limits = Vec::new();
    for ended in 0..12_000_u64 {
        while waiting.len() + served.len() < depth.limit() as usize {
            depth.pass(now, (waiting.len() + served.len()) as u32);
            waiting.push((now, depth.mark()));
        }
        while served.len() < 8 && !waiting.is_empty() {
            turn += 1;
            let (since, mark) =
                if turn % 8 == 0 { waiting.remove(0) } else { waiting.pop().expect("one waits") };
            // A little more or less each time, so that the servers are not in step.
            served.push((now + Nanos::from_micros(1_900 + 37 * ended % 200), since, mark));
        }
        let next = (0..served.len()).min_by_key(|at| served[*at].0).expect("one is served");
        depth.pass(served[next].0, (waiting.len() + served.len()) as u32);
        let (at, since, mark) = served.remove(next);
        now = at;
        let sample = depth.sample(mark, now.since(since).get(), 2_000_000, seen(250_000));
        let load = load_of(true, true, 1 << 16);
        depth.learn(now, sample, load.wants, || load);
        limits.push(depth.usable());
    }
    // From the first second on.
    let deepest = limits[4_000..].iter().max();
    assert!(deepest.is_some_and(|depth| (8..=12).contains(depth)), "{deepest:?}");
}

/// Requests go one at a time where it is not known what one takes alone, although nobody seems to
/// get less than its share; and no second time where somebody does but none of them waits.
#[test]
fn what_is_not_known_is_looked_at() {
    const ALONE: u64 = 100_000;
    let looked_at = |is_unknown: bool, is_unfair: bool, waits: u64| {
        let (mut depth, mut now, mut alone) = (Depth::new(true), Instant::ZERO, 0);
        depth.end_solo_without_data(Instant::ZERO);
        let wants = Wants { is_unfair, is_binding: true, is_unknown };
        let load = Load { wants, may_shrink: false, ..load_of(true, false, 1 << 16) };
        while now < Instant::ZERO + SOLO_PAUSE.0 + SOLO_PAUSE.0 {
            let count = if depth.is_solo() { 1 } else { 2 };
            let time = if depth.is_solo() { ALONE } else { ALONE * waits };
            now = now + Nanos::new(time / count);
            let sample = Sample {
                mark: depth.mark(),
                time,
                alone: ALONE,
                occupied: seen(ALONE),
                area: time * count,
            };
            alone += u64::from(depth.is_solo());
            depth.learn(now, sample, load.wants, || load);
        }
        alone
    };
    assert_eq!(looked_at(false, false, 2), 0);
    assert_eq!(
        [looked_at(true, false, 2), looked_at(false, true, 2)],
        [16, 16],
        "at once and 8 s later"
    );
    assert_eq!(looked_at(false, true, 1), 8, "at once");
}
