//! Debt, and the quality of service that moves the clock.

use super::*;

#[test]
fn debt_is_paid_before_anything_else() {
    let mut bed = Bed::fixed();
    let (a, b) = (bed.tenant(ROOT, 100), bed.tenant(ROOT, 300));
    bed.activate(&[a, b]);
    while bed.read(b).1 == StageVerdict::Pass {}
    // Without debt the seventh could be released from 3 ms on. A timer may be 1 ms late.
    assert!((0..6).all(|_| bed.read(a).1 == StageVerdict::Pass));
    let urgent = BioCost { must_issue: true, ..bed.charge(a) };
    assert_eq!(bed.submit(&urgent).1, StageVerdict::Pass);
    assert_eq!((bed.cost.debt_of(a), share(&mut bed, a)), (Nanos::from_millis(1), 0));
    let (bio, verdict) = bed.read(a);
    assert_eq!(verdict, StageVerdict::Sleep);
    let mut released = Vec::new();
    while !released.contains(&bio) {
        released = bed.step(at(1_000 * MS));
    }
    assert_eq!(bed.now.get(), 8 * MS);
    assert_eq!(bed.cost.debt_of(a), Nanos::ZERO);
    let waits: Vec<_> = bed.breakdown.iter().filter(|&(tenant, ..)| tenant == a).collect();
    assert_eq!(
        waits,
        [(a, Cause::Cost, Nanos::from_millis(4)), (a, Cause::Debt, Nanos::from_millis(4)),]
    );
    let group = &bed.cost.groups[bed.cost.known(a).unwrap() as usize];
    assert_eq!((group.used, group.indebt), (Nanos::from_millis(8), Nanos::from_millis(4)));
}

#[test]
fn merges_over_budget_are_debt() {
    let mut bed = Bed::fixed();
    let (a, b) = (bed.tenant(ROOT, 100), bed.tenant(ROOT, 300));
    bed.activate(&[a, b]);
    let charge = bed.charge(a);
    for _ in 0..62 {
        bed.cost.on_merge(bed.now, &bed.tenants, &charge);
    }
    assert_eq!(bed.cost.debt_of(a), Nanos::ZERO, "62 pages at 400 us are 24.8 ms");
    bed.cost.on_merge(bed.now, &bed.tenants, &charge);
    assert_eq!(bed.cost.debt_of(a), Nanos::from_micros(100));
    bed.cost.self_check(&bed.tenants);
}

#[test]
fn deep_debt_delays_tasks() {
    let mut bed = Bed::fixed();
    let (a, b) = (bed.tenant(ROOT, 100), bed.tenant(ROOT, 300));
    let below = bed.tenant(a, 100);
    bed.activate(&[below, b]);
    let urgent = BioCost { must_issue: true, ..bed.charge(below) };
    let urgent_now = |bed: &mut Bed, times: u64| {
        for n in 0..times {
            let charge = BioCost { sector: Sector::new((n + 1) * (1 << 30)), ..urgent };
            assert_eq!(bed.submit(&charge).1, StageVerdict::Pass);
        }
    };
    // Six are paid for. A debt of 62 is 248 ms of the tenant's time, 4.96 periods; 63 are more than
    // 5.
    urgent_now(&mut bed, 6 + 62);
    assert_eq!(bed.cost.delay_of(bed.now, &bed.tenants, below), Nanos::ZERO);
    urgent_now(&mut bed, 1);
    let delay = bed.cost.delay_of(bed.now, &bed.tenants, below).get();
    // A debt of 251 ms, over 250: 1/12250 of the way from 250 us to 250 ms, beyond 250 us.
    assert!((250_000..280_000).contains(&delay), "{delay}");
    urgent_now(&mut bed, 10_000);
    assert_eq!(bed.cost.delay_of(bed.now, &bed.tenants, below), Nanos::from_millis(250));
    assert_eq!(bed.cost.delay_of(at(2_000 * MS), &bed.tenants, below).get(), 250 * MS / 4);
    assert_eq!(
        bed.cost.delay_of(bed.now, &bed.tenants, a),
        Nanos::ZERO,
        "what is below does not delay what is above"
    );
}

#[test]
fn debts_are_forgiven_on_a_device_with_time_to_spare() {
    let mut bed = Bed::fixed();
    let (a, b) = (bed.tenant(ROOT, 1), bed.tenant(ROOT, 9_999));
    bed.activate(&[a, b]);
    let urgent = BioCost { must_issue: true, ..bed.charge(a) };
    for _ in 0..10 {
        bed.submit(&urgent);
    }
    let owed = bed.cost.debt_of(a).get();
    assert!(owed > 1_500_000);
    // B only stays active; 10 ms of 100 were used.
    let _ = bed.back_to_back(&[b], &[40 * MS], at(103 * MS));
    let left = bed.cost.debt_of(a).get();
    assert!(left <= owed / 2 && left > owed / 2 - 50_000, "{left} of {owed}");
}

#[test]
fn a_busy_device_is_given_less_time() {
    let mut bed = Bed::new(100, 1_000_000);
    let a = bed.tenant(ROOT, 100);
    bed.activate(&[a]);
    let mut levels = Vec::new();
    for period in 1..=10 {
        bed.read(a);
        bed.cost.on_alloc_wait(Nanos::new(51 * MS / 20 + 1));
        bed.now = bed.cost.period_end.unwrap();
        bed.release();
        levels.push(bed.cost.control.level);
        assert_eq!(bed.cost.vrate_ppm() < 1_000_000, period >= 4);
    }
    assert_eq!(levels, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    assert!(bed.cost.vrate_ppm().abs_diff(932_065) < 10, "{}", bed.cost.vrate_ppm());
    // A speed outside its bounds returns by 4 % per period, and no further than the bound.
    bed.cost.set_qos(bed.now, Qos { min: 10_000, ..*bed.cost.qos() }).unwrap();
    for expected in [969_348, 1_000_000] {
        bed.read(a);
        bed.now = bed.cost.period_end.unwrap();
        bed.release();
        assert!(bed.cost.vrate_ppm().abs_diff(expected) < 10, "{}", bed.cost.vrate_ppm());
    }
}

#[test]
fn misses_slow_the_clock_and_shortage_speeds_it_up() {
    let period = Nanos::from_millis(50);
    let qos = Qos { rpct: 9_000, wpct: 0, ..Preset::SsdDefault.qos() };
    let level = |level: i32, over, missed, short, lagging| {
        let mut control = VrateControl { level, ..VrateControl::new(false) };
        let seen = Seen { over, missed, short, lagging, ..Seen::default() };
        control.adjust(&qos, period, &seen);
        (control.level, control.speed * 100 / SPEED_ONE)
    };
    // 10 % of the I/Os may miss their target.
    assert_eq!(level(0, [100, 0], [11, 0], 0, false), (1, 100));
    assert_eq!(level(5, [100, 0], [10, 0], 3, false), (0, 100), "between 7.5 and 10: hold");
    assert_eq!(level(-5, [100, 0], [7, 0], 3, false).0, -6);
    assert_eq!(level(-15, [100, 0], [0, 0], 3, false), (-16, 102));
    assert_eq!(level(-5, [100, 0], [7, 0], 3, true).0, -5, "old I/O: not faster still");
    assert_eq!(level(-5, [100, 0], [7, 0], 0, false).0, 0);
    assert_eq!(level(9, [0, 100], [0, 100], 1, false).0, -1, "writes are not looked at");
    // Every I/O lasts longer than a period: nothing completes, so nothing misses.
    let silent = |keeps, level| {
        let mut control = VrateControl { level, ..VrateControl::new(keeps) };
        control.adjust(&qos, period, &Seen { short: 1, lagging: true, ..Seen::default() });
        control.level
    };
    assert_eq!((silent(false, 3), silent(true, 3)), (0, 3));
    for (from, percent) in [(3, 99), (15, 98), (31, 96), (39, 92), (47, 84), (400, 84)] {
        assert_eq!(level(from, [1, 0], [1, 0], 0, false), (from + 1, percent));
    }
}

#[test]
fn slow_reads_are_misses_less_their_size() {
    let mut bed = Bed::fixed();
    let a = bed.tenant(ROOT, 100);
    bed.read(a);
    // 25 ms are allowed, plus 100 us for the page.
    for (took, missed) in [(25_100_000, 0), (25_100_001, 1)] {
        bed.now = at(took);
        bed.finish(a, Instant::ZERO);
        assert_eq!(bed.cost.seen.missed[0], missed);
    }
}

#[test]
fn the_fast_preset_is_taken_after_ten_seconds_beyond_the_default() {
    let mut auto = AutoPreset::new(Preset::SsdDefault);
    let mut speed_at = |seconds: u64, percent: u64| {
        auto.step(Instant::ZERO + Nanos::from_secs(seconds), (SPEED_ONE * percent).div_ceil(100))
    };
    assert_eq!(speed_at(0, 500), None);
    assert_eq!(speed_at(5, 499), None);
    assert_eq!(speed_at(6, 500), None);
    assert_eq!(speed_at(15, 600), None);
    assert_eq!(speed_at(16, 600), Some(Preset::SsdFast));
    assert_eq!(speed_at(17, 600), None);
    assert_eq!(speed_at(20, 9), None);
    assert_eq!(speed_at(30, 9), Some(Preset::SsdDefault));
}
