//! The search for the usable depth.

use super::*;

const ALONE: u64 = 1_000_000;

const fn wants(is_binding: bool, is_unfair: bool) -> Wants {
    Wants { is_unfair, is_binding, is_unknown: false, prefers_shares: false }
}

/// A device that is full at every limit: `time` is what a request takes at a depth.
struct Full<T> {
    depth: Depth,
    now: Instant,
    time: T,
}

impl<T: Fn(u64) -> u64> Full<T> {
    fn new(time: T) -> Self {
        Self { depth: Depth::new(), now: Instant::ZERO, time }
    }

    /// Ends one request.
    fn step(&mut self, wants: Wants) {
        let count = u64::from(self.depth.limit());
        let time = (self.time)(count);
        self.now = self.now + Nanos::new(time / count);
        let sample = Sample { epoch: self.depth.epoch, time, alone: ALONE, area: count * time };
        self.depth.learn(self.now, &sample, wants);
    }
}

/// Eight servers: more requests only wait, and fewer leave one idle.
#[test]
fn a_number_of_servers_has_the_depth_of_its_servers() {
    let mut device = Full::new(|count| ALONE * count.max(8) / 8);
    (0..4_000).for_each(|_| device.step(wants(true, true)));
    assert_eq!(device.depth.usable(), 8);
}

/// A device that gains 4 % of throughput for each doubling of depth: each step down costs little,
/// but not all of them together.
#[test]
fn many_small_steps_keep_most_of_the_throughput() {
    let served = |depth: u64| 1000 + 40 * u64::from(depth.ilog2());
    let mut device = Full::new(|count| ALONE * count * 1000 / served(count));
    let mut lowest = FIRST_LIMIT;
    for _ in 0..60_000 {
        device.step(wants(true, true));
        lowest = lowest.min(device.depth.usable());
    }
    assert!(lowest < FIRST_LIMIT, "no smaller depth was taken");
    assert!(served(lowest.into()) * KEPT.1 >= served(FIRST_LIMIT.into()) * KEPT.0, "{lowest}");
}

#[test]
fn shares_may_cost_more_of_the_throughput() {
    let served = |depth: u64| 1000 + 40 * u64::from(depth.ilog2());
    let mut device = Full::new(|count| ALONE * count * 1000 / served(count));
    let wants = Wants { prefers_shares: true, ..wants(true, true) };
    (0..60_000).for_each(|_| device.step(wants));
    assert!(served(device.depth.usable().into()) * KEPT.1 < served(FIRST_LIMIT.into()) * KEPT.0);
}

#[test]
fn a_smaller_depth_that_costs_much_is_soon_given_up() {
    // Returns the milliseconds that the first probe lasts if a request takes `time` at a depth.
    let lasts = |time: fn(u64) -> u64| {
        let mut device = Full::new(time);
        while device.depth.probe.is_some() {
            device.step(wants(false, false));
        }
        device.depth.solo_at = Instant::MAX;
        let mut began = None;
        while began.is_none() || device.depth.probe.is_some() {
            device.step(wants(false, true));
            began = began.or(device.depth.probe.map(|probe| probe.since));
        }
        device.now.since(began.expect("a probe began")).as_millis()
    };
    assert_eq!((lasts(|_| 1_600_000), lasts(|count| 50_000 * count)), (5, 20));
}

#[test]
fn the_limit_is_never_above_what_the_driver_takes() {
    // As many servers as requests: a larger depth always gains.
    let mut device = Full::new(|_| ALONE);
    device.depth.bound(40);
    for _ in 0..20_000 {
        device.step(wants(true, false));
        assert!(device.depth.limit() <= 40, "{}", device.depth.limit());
    }
    assert_eq!(device.depth.usable(), 40);
    device.depth.bound(1);
    assert_eq!(device.depth.limit(), 1);
}

/// Probes that are in vain take an eighth of the time.
#[test]
fn long_probes_in_vain_are_seldom() {
    let millis = Nanos::from_millis;
    for (took, apart) in [(1, 50), (40, 280), (400, 2_800)] {
        let mut pace = Pace::new((millis(50), millis(500)));
        let now = Instant::ZERO + millis(1_000);
        pace.refuse(now, millis(took));
        assert_eq!(pace.next, now + millis(apart), "{took} ms");
    }
}

/// Requests go one at a time where it is not known what one takes alone, and before a step down.
#[test]
fn what_is_not_known_is_looked_at() {
    let looked_at = |wants: Wants| {
        let mut device = Full::new(|count| ALONE * count.max(2) / 2);
        let mut alone = 0;
        while device.now < Instant::ZERO + Nanos::from_secs(9) {
            let is_solo = device.depth.probe.is_some_and(|probe| probe.way == Way::Solo);
            alone += u64::from(is_solo);
            device.step(wants);
        }
        alone
    };
    assert_eq!(looked_at(wants(true, false)), SOLO, "the first ones");
    let unknown = Wants { is_unknown: true, ..wants(true, false) };
    assert_eq!(looked_at(unknown), 3 * SOLO, "at once and 8 s later");
}
