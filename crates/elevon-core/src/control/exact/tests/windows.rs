//! Random limits: no window of time has more than the rate and its burst.

use super::*;

fn random_limits(below: &mut dyn FnMut(u64) -> u64) -> Limits {
    let mut any = |unit: u64| if below(2) == 0 { UNLIMITED } else { (1 + below(50)) * unit };
    Limits {
        bps: [any(100 * KIB), any(100 * KIB)],
        iops: [any(5), any(5)],
        total_bps: any(150 * KIB),
        total_iops: any(8),
        burst_bytes: any(10 * KIB).min(MIB),
        burst_ios: any(1).min(30),
    }
}

fn random_bio(below: &mut dyn FnMut(u64) -> u64, alive: &[TenantId]) -> BioCost {
    let op = if below(2) == 0 { Op::Read } else { Op::Write };
    let tenant = alive[below(alive.len() as u64) as usize];
    let first = below(5) > 0;
    let class = [PrioClass::Rt, PrioClass::Be, PrioClass::Idle][below(3) as usize];
    let (ioprio, must_issue) = (IoPrio::new(class, 0), below(20) == 0);
    let bytes = (1 + below(64)) * 4 * KIB;
    BioCost { first, ioprio, must_issue, ..BioCost::plain(tenant, op, bytes) }
}

/// Random trees, limits and I/O: in every window a tenant at any level gets at most rate · window +
/// burst + one I/O, the breakdown contains every nanosecond, no bio is lost, and while a bio is
/// held, a limit holds it. In every other run the clock calls up to some hundred milliseconds late;
/// a window may then in addition contain what is made up for.
#[test]
fn no_window_exceeds_a_limit_and_its_burst() {
    for seed in 0..80u64 {
        let is_timely = seed % 2 == 0;
        let mut rng = elevon_testkit::Rng(seed);
        let mut below = move |n: u64| rng.below(n);
        let changes = seed % 3 == 0;
        let mut rig = Rig::new();
        let mut alive = vec![ROOT];
        for _ in 0..6 {
            let parent = alive[below(alive.len() as u64) as usize];
            let of = random_limits(&mut below);
            alive.push(rig.tenant(parent, of));
        }
        for step in 0..300 {
            let until = rig.now + Nanos::new(below(30_000_000));
            if is_timely {
                rig.advance_timely(until);
            }
            rig.now = until;
            match below(10) {
                0 if changes => {
                    let one = alive[1 + below(alive.len() as u64 - 1) as usize];
                    rig.stage.set(rig.now, &rig.tenants, one, random_limits(&mut below));
                    rig.change_turns(one, 1 + below(1000) as u16, below(20));
                }
                1 if changes && alive.len() > 2 => {
                    let at = 1 + below(alive.len() as u64 - 1) as usize;
                    if rig.tenants.remove(alive[at]).is_ok() {
                        rig.stage.on_tenant_removed(rig.now, &rig.tenants, alive[at]);
                        alive.remove(at);
                    }
                }
                2 if changes && below(4) == 0 => rig.withdraw(below(5)),
                2 | 3 => rig.release(),
                _ => {
                    let bio = random_bio(&mut below, &alive);
                    rig.submit(bio);
                }
            }
            if step % 8 == 0 && !changes {
                rig.release();
                check_nothing_is_held_for_nothing(&rig, &alive);
            }
        }
        rig.drain();
        check_order(&rig, &alive);
        let waits = rig
            .charges
            .iter()
            .zip(&rig.went)
            .map(|((came, _), went)| went.unwrap().since(*came).get());
        assert_eq!(
            rig.breakdown.iter().map(|(.., time)| time.get()).sum::<u64>(),
            waits.sum::<u64>(),
            "seed {seed}"
        );
        let late = rig.breakdown.iter().any(|(_, cause, _)| cause == Cause::LateTimer);
        assert!(!(is_timely && late), "seed {seed}: nothing was late");
        if !changes {
            check_windows(&rig, &alive, if is_timely { Nanos::ZERO } else { CATCH_UP });
        }
    }
}

/// Checks that bios of the same tenant, kind and class are released in order.
fn check_order(rig: &Rig, tenants: &[TenantId]) {
    for &tenant in tenants {
        for (kind, class) in
            Kind::all().flat_map(|kind| (0..CLASSES).map(move |class| (kind, class)))
        {
            let mine = rig.order.iter().filter(|&&bio| {
                let charge = &rig.charges[bio as usize].1;
                (charge.tenant, Kind::from_charge(charge), charge.ioprio.class().rank())
                    == (tenant, kind, class)
                    && !charge.must_issue
            });
            assert!(mine.is_sorted(), "{tenant:?} {kind:?} class {class}");
        }
    }
}

/// Checks that every tenant with waiting bios is held by a limit on its path. The limits are
/// computed again from everything that was released, in parts of a nanosecond.
fn check_nothing_is_held_for_nothing(rig: &Rig, tenants: &[TenantId]) {
    let mut gone: Vec<(u128, &BioCost)> = vec![];
    for &id in &rig.order {
        gone.push((u128::from(rig.went[id as usize].unwrap().get()), &rig.charges[id as usize].1));
    }
    let now = u128::from(rig.now.get());
    let holds =
        |level: TenantId, directions: &[ReadOrWrite], rate: u64, burst: u64, counts_bytes: bool| {
            let mut tat = 0;
            let of_level = |charge: &BioCost| {
                rig.tenants.is_below(charge.tenant, level)
                    && directions.contains(&charge.direction())
            };
            for (at, charge) in gone.iter().filter(|(_, charge)| of_level(charge)) {
                let bytes = if charge.first { charge.bytes } else { 0 };
                let units = if counts_bytes { bytes } else { 1 };
                tat = tat.max(at * u128::from(rate)) + u128::from(units) * 1_000_000_000;
            }
            rate != UNLIMITED && tat > now * u128::from(rate) + u128::from(burst) * 1_000_000_000
        };
    for &tenant in &tenants[1..] {
        for kind in Kind::all() {
            let waits = (0..rig.went.len()).any(|bio| {
                let charge = &rig.charges[bio].1;
                rig.went[bio].is_none()
                    && charge.tenant == tenant
                    && Kind::from_charge(charge) == kind
            });
            let (one, d) = (&[kind.direction][..], kind.direction as usize);
            let held = |level: TenantId| {
                let limits = rig.stage.limits(level);
                holds(level, one, limits.iops[d], limits.burst_ios, false)
                    || holds(level, &DIRECTIONS, limits.total_iops, limits.burst_ios, false)
                    || !kind.is_remainder
                        && (holds(level, one, limits.bps[d], limits.burst_bytes, true)
                            || holds(
                                level,
                                &DIRECTIONS,
                                limits.total_bps,
                                limits.burst_bytes,
                                true,
                            ))
            };
            assert!(!waits || rig.tenants.path(tenant).any(held), "{tenant:?} is held for nothing");
        }
    }
}

pub(super) fn check_windows(rig: &Rig, tenants: &[TenantId], catch_up: Nanos) {
    for &level in &tenants[1..] {
        let limits = rig.stage.limits(level);
        for (directions, bps, iops) in [
            (&[ReadOrWrite::Read][..], limits.bps[0], limits.iops[0]),
            (&[ReadOrWrite::Write], limits.bps[1], limits.iops[1]),
            (&DIRECTIONS, limits.total_bps, limits.total_iops),
        ] {
            let counts = |id: &&u32| {
                let charge = &rig.charges[**id as usize].1;
                rig.tenants.is_below(charge.tenant, level)
                    && directions.contains(&charge.direction())
            };
            let of =
                |&id: &u32| (rig.went[id as usize].unwrap().get(), &rig.charges[id as usize].1);
            let gone: Vec<(u64, &BioCost)> = rig.order.iter().filter(counts).map(of).collect();
            for from in 0..gone.len() {
                let (mut bytes, mut ios) = (0u64, 0u64);
                for &(at, charge) in &gone[from..] {
                    // What was released before the last bio of the window, which is the "one I/O".
                    // Journal I/O is never checked, and remainders not for bytes.
                    let window = u128::from(at - gone[from].0 + catch_up.get());
                    let within = |used: u64, rate: u64, burst: u64| {
                        rate == UNLIMITED
                            || charge.must_issue
                            || u128::from(used)
                                <= (u128::from(rate) * window).div_ceil(1_000_000_000)
                                    + u128::from(burst)
                                    + 1
                    };
                    assert!(
                        within(ios, iops, limits.burst_ios),
                        "{level:?}: {ios} I/Os in {window} ns"
                    );
                    ios += 1;
                    if charge.first {
                        assert!(
                            within(bytes, bps, limits.burst_bytes),
                            "{level:?}: {bytes} bytes in {window} ns"
                        );
                        bytes += charge.bytes;
                    }
                }
            }
        }
    }
}
