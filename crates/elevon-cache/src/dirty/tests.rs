//! Worked examples of `mm/page-writeback.c`: `domain_dirty_limits`, `balance_dirty_pages`,
//! `wb_update_dirty_ratelimit`, `wb_over_bg_thresh`.

use super::*;

const D: u64 = 1_000_000;
const HZ: Hz = Hz(250);

fn limits(dirtyable: u64) -> Limits {
    Limits::new(dirtyable, DirtyRatios::default())
}

#[test]
fn thresholds_and_their_midpoints() {
    for (dirtyable, thresh, background, freerun, set, poll) in [
        (100_000, 19_995, 9_985, 14_990, 17_492, 128),
        (262_144, 52_416, 26_176, 39_296, 45_856, 128),
        (1_000_000, 199_951, 99_853, 149_902, 174_926, 256),
        (1_310_720, 262_080, 130_880, 196_480, 229_280, 256),
    ] {
        let l = limits(dirtyable);
        assert_eq!((l.thresh, l.background, l.freerun()), (thresh, background, freerun));
        assert_eq!(setpoint(l.freerun(), l.thresh), set);
        assert_eq!(l.poll_interval(0), poll);
    }
    assert_eq!(limits(D).poll_interval(149_902), 128);
    assert_eq!(limits(D).poll_interval(199_951), 1);
    let odd = Limits::new(D, DirtyRatios { dirty: 5, background: 10 });
    assert_eq!(odd.background, odd.thresh / 2);

    let mut domain = Domain::new(HZ, DirtyRatios::default());
    let mut writer = DirtyThrottle { dirtied: 1000, ..DirtyThrottle::default() };
    let counts = DirtyCounts { dirty: 149_902, writeback: 0, dirtyable: D };
    assert_eq!(domain.balance(Instant::new(5), &mut writer, &counts, false), DirtyVerdict::Go);
    assert_eq!((writer.dirtied, writer.allowance), (0, 128));
}

#[test]
fn real_time_tasks_may_go_further() {
    let l = limits(D).for_real_time(199_951);
    assert_eq!((l.thresh, l.background), (199_951 + 49_987 + 6_248, 99_853 + 24_963 + 6_248));
}

#[test]
fn position_ratio_is_a_cubic_in_fixed_point() {
    let l = limits(D);
    for (dirty, ratio) in [
        (149_902, 2045),
        (162_414, 1151),
        (174_926, 1024),
        (181_182, 1008),
        (187_438, 896),
        (193_694, 594),
        (199_951, 0),
        (300_000, 0),
    ] {
        assert_eq!(global_ratio(l.freerun(), l.thresh, dirty), ratio, "dirty {dirty}");
    }
    let mut last = u64::MAX;
    for dirty in (0..210_000).step_by(97) {
        let ratio = global_ratio(l.freerun(), l.thresh, dirty);
        assert!(ratio <= last && ratio <= 2048);
        last = ratio;
    }
}

#[test]
fn rates_and_pauses() {
    let l = limits(D);
    let rate = |dirty| (6_400 * global_ratio(l.freerun(), l.thresh, dirty)) >> 10;
    assert_eq!(rate(174_926), 6_400);
    assert_eq!(rate(187_438), 5_600);
    assert_eq!(rate(199_951), 0);

    // 150 pages at 6,400 a second: 23.4 ms are 5 whole jiffies.
    let mut domain = Domain { base_rate: 6_400, ..Domain::new(HZ, DirtyRatios::default()) };
    let now = Instant::new(1);
    let mut writer = DirtyThrottle { dirtied: 150, allowance: 150, paused_until: Some(0) };
    let at = |dirty| DirtyCounts { dirty, writeback: 0, dirtyable: D };
    let verdict = domain.balance(now, &mut writer, &at(174_926), false);
    // It ends with a tick, and the jiffy in which it begins does not count.
    let until = |ms| Nanos::from_millis(ms) - Nanos::new(1);
    assert_eq!(verdict, DirtyVerdict::Pause { span: until(24), again: false });
    assert_eq!((writer.dirtied, writer.allowance), (0, 150));
    assert_eq!(writer.paused_until, Some(5));

    let mut writer = DirtyThrottle { dirtied: 150, allowance: 150, paused_until: Some(0) };
    let verdict = domain.balance(now, &mut writer, &at(199_951), false);
    assert_eq!(verdict, DirtyVerdict::Pause { span: until(204), again: true });
    assert_eq!((writer.dirtied, writer.allowance), (150, 0));

    // A pause of 75 jiffies is one of 50, and 25 are owed.
    let mut writer = DirtyThrottle { dirtied: 1_800, allowance: 150, paused_until: Some(0) };
    let verdict = domain.balance(now, &mut writer, &at(175_000), false);
    assert_eq!(verdict, DirtyVerdict::Pause { span: until(204), again: false });
    assert_eq!(writer.paused_until, Some(70));
}

#[test]
fn thinking_is_paid_and_small_debts_wait() {
    let mut domain = Domain { base_rate: 6_400, ..Domain::new(HZ, DirtyRatios::default()) };
    let counts = DirtyCounts { dirty: 174_926, writeback: 0, dirtyable: D };
    let start = Instant::new(0);
    // The writer took 12 ms of the 20: the rest is 2 jiffies, less than it sleeps for.
    let mut writer = DirtyThrottle { dirtied: 150, allowance: 150, paused_until: Some(0) };
    assert_eq!(
        domain.balance(start + Nanos::from_millis(12), &mut writer, &counts, false),
        DirtyVerdict::Go
    );
    assert_eq!(writer.paused_until, Some(5));
    // The next time it owes that rest too.
    writer.dirtied = 150;
    let verdict = domain.balance(start + Nanos::from_millis(12), &mut writer, &counts, false);
    assert_eq!(verdict, DirtyVerdict::Pause { span: Nanos::from_millis(32), again: false });
    assert_eq!(writer.paused_until, Some(10));
    // A credit older than a second expires.
    let mut writer = DirtyThrottle { dirtied: 150, allowance: 150, paused_until: Some(0) };
    let later = start + Nanos::from_secs(3);
    assert_eq!(domain.balance(later, &mut writer, &counts, false), DirtyVerdict::Go);
    assert_eq!(writer.paused_until, Some(750));
}

#[test]
fn longest_pause_and_target() {
    for (wb_dirty, ms) in [(150_000, 200), (1_000, 8), (100, 4)] {
        assert_eq!(HZ.span(max_pause(HZ, wb_dirty, 25_600)), Nanos::from_millis(ms));
    }
    for (writers, pages, jiffies) in [(1, 200, 2), (2, 200, 4), (4, 150, 6), (8, 112, 9)] {
        let target = pause_target(HZ, 25_600, 25_600 / writers, 50);
        assert_eq!((target.pages, target.jiffies), (pages, jiffies), "{writers} writers");
    }
    // The rate is so low that 32 pages take longer than the longest pause.
    let target = pause_target(HZ, 25_600, 100, 50);
    assert_eq!((target.pages, target.jiffies), (19, 50));
    // 32 pages fit below the longest pause.
    let target = pause_target(HZ, 1_600, 400, 50);
    assert_eq!((target.pages, target.jiffies), (32, 20));
}

#[test]
fn above_the_limit_every_writer_looks_each_eight_pages() {
    let mut domain = Domain { base_rate: 6_400, ..Domain::new(HZ, DirtyRatios::default()) };
    let at = |dirty| DirtyCounts { dirty, writeback: 0, dirtyable: D };
    let other = DirtyThrottle { dirtied: 8, allowance: 150, paused_until: None };
    assert!(!domain.is_due(&other));
    let mut writer = DirtyThrottle { dirtied: 150, allowance: 150, paused_until: Some(0) };
    domain.balance(Instant::new(1), &mut writer, &at(199_952), false);
    assert!(domain.is_due(&other) && !domain.is_due(&DirtyThrottle { dirtied: 7, ..other }));
    domain.balance(Instant::new(2), &mut writer, &at(100_000), false);
    assert!(!domain.is_due(&other));
}

#[test]
fn the_limit_rises_at_once_and_falls_slowly() {
    let mut domain = Domain::new(HZ, DirtyRatios::default());
    let mut look = |ms: u64, dirtyable: u64, dirty| {
        let mut writer = DirtyThrottle { dirtied: 1, allowance: 1, paused_until: None };
        domain.balance(
            Instant::new(ms * 1_000_000),
            &mut writer,
            &DirtyCounts { dirty, writeback: 0, dirtyable },
            false,
        );
        domain.limit()
    };
    assert_eq!(look(204, 500_000, 90_000), 99_975);
    assert_eq!(look(212, D, 180_000), 199_951, "not only every 200 ms");
    // With less memory, the limit falls by a 32nd of the gap every 200 ms, and not below the dirty
    // pages.
    let first = 199_951 - (199_951 - 99_975) / 32;
    assert_eq!(look(408, 500_000, 90_000), first);
    assert_eq!(look(608, 500_000, 90_000), first, "not after 200 ms, but after more");
    assert_eq!(look(612, 500_000, 90_000), first - (first - 99_975) / 32);
    assert_eq!(look(816, 500_000, 250_000), first - (first - 99_975) / 32);
}

#[test]
fn bandwidth_is_averaged_over_some_seconds_and_not_over_a_pause() {
    let mut domain = Domain::new(HZ, DirtyRatios::default());
    let counts = DirtyCounts { dirty: 174_926, writeback: 0, dirtyable: D };
    let mut look = |ms: u64, written| {
        let mut writer = DirtyThrottle { dirtied: 1, allowance: 1, paused_until: None };
        domain.on_written(written);
        domain.balance(Instant::new(ms * 1_000_000), &mut writer, &counts, false);
        (domain.bandwidth, domain.smooth_bandwidth())
    };
    // 51,200 pages a second for 256 ms, and 25,600 for the rest of 1024 jiffies.
    let first = (13_107 * 250 + 25_600 * 960) / 1_024;
    assert_eq!(look(256, 13_107), (first, 25_600));
    assert_eq!(look(300, 99_999), (first, 25_600), "too soon");
    // After more than a second, the pages written are not counted.
    assert_eq!(look(1_400, 1), (first, 25_600));
    // The smooth one goes an eighth of the way, where the average goes.
    assert_eq!(look(1_604, 5_569), (27_203, 25_799));
    assert_eq!(look(1_808, 0), (27_203 * 973 / 1_024, 25_799));
}

#[test]
fn write_back_in_the_background_has_a_threshold_of_its_own() {
    let domain = Domain::new(HZ, DirtyRatios::default());
    let at = |dirty| DirtyCounts { dirty, writeback: 500_000, dirtyable: D };
    assert!(!domain.wants_flusher(&at(99_853)));
    assert!(domain.wants_flusher(&at(99_854)));
}

#[test]
fn the_device_line() {
    // The ratio is 1 at the setpoint. At most a quarter is taken away permanently; more is added
    // for a device that would become idle.
    let of = |wb_dirty| device_ratio(1024, 174_926, 199_951, wb_dirty, 25_600);
    assert_eq!(of(174_926), 1023);
    assert_eq!(of(379_726 - 51_200), 256);
    assert_eq!(of(1_000_000), 256);
    assert!(of(50_000) > 2 * of(100_000));
    assert!(of(100) >= 8 * 1024);
}

/// N writers dirty pages as fast as they can, on a device of a fixed speed. The base rate settles
/// near its share, and the dirty pages stay below the limit.
#[test]
fn writers_settle_at_their_share() {
    for writers in [1usize, 4, 8] {
        let mut domain = Domain::new(HZ, DirtyRatios::default());
        let mut accounts = [DirtyThrottle::default(); 8];
        let mut wake = [Instant::ZERO; 8];
        let (mut dirty, speed, tick) = (0u64, 12_800u64, Nanos::from_millis(2));
        let mut peak = 0;
        let mut half = 0;
        let mut now = Instant::ZERO;
        while now < Instant::new(120_000_000_000) {
            let gone = (speed * tick.get() / 1_000_000_000).min(dirty);
            dirty -= gone;
            domain.on_written(gone);
            for n in 0..writers {
                while wake[n] <= now {
                    let counts = DirtyCounts { dirty, writeback: 0, dirtyable: D };
                    dirty += 32;
                    domain.on_dirtied(32);
                    accounts[n].dirtied += 32;
                    if !domain.is_due(&accounts[n]) {
                        wake[n] = now + Nanos::from_micros(100);
                        continue;
                    }
                    wake[n] = match domain.balance(now, &mut accounts[n], &counts, false) {
                        DirtyVerdict::Go => now + Nanos::from_micros(100),
                        DirtyVerdict::Pause { span, .. } => now + span,
                    };
                }
            }
            peak = peak.max(dirty);
            now = now + tick;
            if now.get() == 60_000_000_000 {
                half = domain.dirtied;
            }
        }
        assert!(peak <= 199_951 + 64 * writers as u64, "{writers} writers: {peak} dirty");
        assert!(
            domain.smooth_bandwidth().abs_diff(speed) < speed / 10,
            "bandwidth {}",
            domain.smooth_bandwidth()
        );
        let rate = (domain.dirtied - half) / 60;
        assert!(rate.abs_diff(speed) < speed / 10, "{writers} writers dirty {rate} a second");
        let share = speed / writers as u64;
        assert!(
            domain.base_rate() > share / 2 && domain.base_rate() < share * 2,
            "base rate {}",
            domain.base_rate()
        );
    }
}
