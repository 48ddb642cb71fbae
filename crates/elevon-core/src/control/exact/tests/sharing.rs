//! How those that wait for a parent's limit share it.

use super::*;

/// Lets tenants with so much waiting, each its I/O size, share a parent's limit; returns the bytes
/// that each got of the first `seconds`.
fn shared(rig: &mut Rig, tenants: &[(TenantId, u64)], seconds: u64) -> Vec<u64> {
    let start = rig.now;
    for _ in 0..2000 {
        for &(tenant, bytes) in tenants {
            rig.submit_unchecked(BioCost::plain(tenant, Op::Read, bytes));
        }
    }
    rig.advance_timely(start + Nanos::from_secs(seconds));
    let of = |tenant| {
        rig.charges
            .iter()
            .zip(&rig.went)
            .filter(move |((_, c), went)| c.tenant == tenant && went.is_some())
    };
    tenants
        .iter()
        .map(|&(tenant, _)| of(tenant).map(|((_, charge), _)| charge.bytes).sum())
        .collect()
}

/// Ten seconds of 100 I/Os or of 1 MiB a second, by weights 200 (900 and 100 below it), 300 and
/// 500. No tenant is behind by more than an I/O of its own and two of the largest.
#[test]
fn who_waits_for_a_parents_limit_shares_it_by_weight() {
    let ios = Limits { iops: [100, UNLIMITED], ..Limits::default() };
    let mixed = [4 * KIB, 64 * KIB, 32 * KIB, 16 * KIB];
    for (limits, total, sizes) in [(ios, 1001 * KIB, [KIB; 4]), (bps(MIB), 10 * MIB, mixed)] {
        let mut rig = Rig::new();
        let parent = rig.tenant(ROOT, limits);
        let [group, c, d] = [0; 3].map(|_| rig.tenant(parent, Limits::default()));
        let [a, b] = [0; 2].map(|_| rig.tenant(group, Limits::default()));
        for (tenant, weight) in [(group, 200), (c, 300), (d, 500), (a, 900), (b, 100)] {
            rig.stage.set_weight(tenant, weight);
        }
        let all = [(a, sizes[0]), (b, sizes[1]), (c, sizes[2]), (d, sizes[3])];
        let got = shared(&mut rig, &all, 10);
        for ((&got, share), size) in got.iter().zip([180, 20, 300, 500]).zip(sizes) {
            let (due, slack) = (total * share / 1000, size + 2 * sizes[1]);
            assert!(got.abs_diff(due) <= slack, "{got} of {due} bytes, I/Os of {size}");
        }
    }
}

/// Ten seconds of 100 I/Os or of 1 MiB a second, of reads and writes together: a tenant's share is
/// by its weight, whichever direction it uses, and its own directions take turns.
#[test]
fn reads_and_writes_under_one_limit_share_it_by_weight() {
    let ios = Limits { total_iops: 100, ..Limits::default() };
    let bytes = Limits { total_bps: MIB, ..Limits::default() };
    for (limits, total, sizes) in
        [(ios, 1001 * KIB, [KIB; 3]), (bytes, 10 * MIB, [4 * KIB, 64 * KIB, 16 * KIB])]
    {
        let mut rig = Rig::new();
        let parent = rig.tenant(ROOT, limits);
        let [a, b, c] = [300, 100, 200].map(|weight| {
            let tenant = rig.tenant(parent, Limits::default());
            rig.stage.set_weight(tenant, weight);
            tenant
        });
        let all = [
            (a, Op::Read, sizes[0]),
            (b, Op::Write, sizes[1]),
            (c, Op::Read, sizes[2]),
            (c, Op::Write, sizes[2]),
        ];
        let start = rig.now;
        for _ in 0..2000 {
            for (tenant, op, bytes) in all {
                rig.submit_unchecked(BioCost::plain(tenant, op, bytes));
            }
        }
        rig.advance_timely(start + Nanos::from_secs(10));
        let got = all.map(|(tenant, op, _)| {
            let went = rig.charges.iter().zip(&rig.went).filter(|(_, went)| went.is_some());
            let of = went.filter(|((_, charge), _)| (charge.tenant, charge.op) == (tenant, op));
            of.map(|((_, charge), _)| charge.bytes).sum::<u64>()
        });
        for ((got, sixths), (.., size)) in got.into_iter().zip([3, 1, 1, 1]).zip(all) {
            let (due, slack) = (total * sixths / 6, size + 2 * sizes[1]);
            assert!(got.abs_diff(due) <= slack, "{got} of {due} bytes, I/Os of {size}");
        }
    }
}

/// Ten seconds of 1000 I/Os or of 4 MiB a second under a parent's limit, with reserves: each gets
/// its share by weight, but at least its reserve. Reserves that are too high shrink in proportion,
/// and a tenant without one is served every 250 ms.
#[test]
fn reserves_hold_among_those_that_wait_for_a_parents_limit() {
    let ios = |iops| Reserve { iops, bps: 0 };
    let reads = Limits { iops: [1000, UNLIMITED], ..Limits::default() };
    let both = Limits { total_iops: 1000, ..Limits::default() };
    let bytes = Limits { total_bps: 1000 * KIB, ..Limits::default() };
    let of_bytes = |kib| Reserve { iops: 0, bps: kib * KIB };
    let none = Reserve::default();
    for (limits, of, expected, is_missed) in [
        (reads, [(1, ios(600)), (600, none), (300, none)], [600, 267, 133], false),
        (both, [(1, ios(600)), (600, none), (300, none)], [600, 267, 133], false),
        (bytes, [(1, of_bytes(600)), (600, none), (300, none)], [600, 267, 133], false),
        (both, [(300, ios(500)), (100, none), (100, none)], [600, 200, 200], false),
        (both, [(100, ios(400)), (100, none), (100, none)], [400, 300, 300], false),
        (both, [(1, ios(3000)), (1, ios(1000)), (100, none)], [747, 249, 4], true),
    ] {
        let mut rig = Rig::new();
        let parent = rig.tenant(ROOT, limits);
        let tenants = of.map(|(weight, reserve)| {
            let tenant = rig.tenant(parent, Limits::default());
            rig.stage.set_weight(tenant, weight);
            rig.stage.set_reserve(rig.now, &rig.tenants, tenant, reserve);
            tenant
        });
        let mut got = [0; 3];
        // Enough that each still waits at the end.
        for _ in 0..6 {
            shared(&mut rig, &tenants.map(|tenant| (tenant, KIB)), 0);
        }
        let start = rig.now;
        rig.advance_timely(start + Nanos::from_secs(10));
        for (charge, went) in rig.charges.iter().map(|(_, charge)| charge).zip(&rig.went) {
            let at =
                tenants.iter().position(|&tenant| tenant == charge.tenant).expect("one of them");
            got[at] += u64::from(went.is_some());
        }
        for (got, expected) in got.into_iter().zip(expected) {
            let due = 10 * expected;
            assert!(
                got.abs_diff(due) <= 20 + due / 100,
                "{got} I/Os, {due} expected: {limits:?} {of:?}"
            );
        }
        let missed = rig.stage.reserve_missed(rig.now, tenants[0]);
        assert_eq!(missed > Nanos::from_millis(7000), is_missed, "{missed:?}");
        assert!(is_missed || missed.is_zero(), "{missed:?}");
    }
}

/// A reserve of an inner tenant is one of all below it; one below it holds beside that. Nobody is
/// owed anything for a time in which it had nothing waiting.
#[test]
fn a_reserve_of_an_inner_tenant_is_shared_below_it() {
    let mut rig = Rig::new();
    let parent = rig.tenant(ROOT, Limits { total_iops: 1000, ..Limits::default() });
    let [group, other] = [0; 2].map(|_| rig.tenant(parent, Limits::default()));
    let [a, b] = [0; 2].map(|_| rig.tenant(group, Limits::default()));
    for (tenant, weight, iops) in [(group, 1, 600), (other, 1000, 0), (a, 1, 200), (b, 1000, 0)] {
        rig.stage.set_weight(tenant, weight);
        rig.stage.set_reserve(rig.now, &rig.tenants, tenant, Reserve { iops, bps: 0 });
    }
    shared(&mut rig, &[(other, KIB)], 1);
    let got = shared(&mut rig, &[(a, KIB), (b, KIB), (other, KIB)], 2);
    for (got, due) in got.into_iter().zip([400, 800, 1001 + 800]) {
        assert!((got / KIB).abs_diff(due) <= 10, "{} of {due}", got / KIB);
    }
}

/// A limit of its own that is due at the same times as the parent's puts no tenant before others.
#[test]
fn who_has_a_limit_of_its_own_goes_before_nobody() {
    let ios = |rate| Limits { total_iops: rate, ..Limits::default() };
    for own in [100, 200, 50] {
        let mut rig = Rig::new();
        let parent = rig.tenant(ROOT, ios(100));
        let (a, b) = (rig.tenant(parent, ios(own)), rig.tenant(parent, Limits::default()));
        let got = shared(&mut rig, &[(a, KIB), (b, KIB)], 10);
        assert!(
            got[0].abs_diff(500 * KIB) <= 2 * KIB && got[1].abs_diff(500 * KIB) <= 2 * KIB,
            "{own}: {got:?}"
        );
    }
}

/// Limits that change while others wait: a limit of one direction becomes one of both, and back.
#[test]
fn those_that_wait_share_by_the_limits_of_the_time() {
    let mut rig = Rig::new();
    let reads = Limits { iops: [100, UNLIMITED], ..Limits::default() };
    let both = Limits { total_iops: 100, ..Limits::default() };
    let parent = rig.tenant(ROOT, reads);
    let [a, b] = [0; 2].map(|_| rig.tenant(parent, Limits::default()));
    for _ in 0..1000 {
        rig.submit_unchecked(BioCost::plain(a, Op::Read, KIB));
    }
    rig.advance_timely(rig.now + Nanos::from_secs(5));
    rig.stage.set(rig.now, &rig.tenants, parent, both);
    for _ in 0..1000 {
        rig.submit_unchecked(BioCost::plain(b, Op::Write, KIB));
    }
    rig.stage.self_check(&rig.tenants);
    let writes = |rig: &Rig| {
        rig.order.iter().filter(|&&bio| rig.charges[bio as usize].1.op == Op::Write).count()
    };
    rig.advance_timely(rig.now + Nanos::from_secs(4));
    assert!(writes(&rig).abs_diff(200) <= 1, "half of 400: {}", writes(&rig));
    rig.stage.set(rig.now, &rig.tenants, parent, reads);
    rig.release();
    assert_eq!(writes(&rig), 1000, "nothing limits writes any longer");
    rig.drain();
}

/// A tenant that has not waited is owed nothing for that, and an inner tenant's own bios are as a
/// child of weight 100.
#[test]
fn turns_begin_where_others_are() {
    let mut rig = Rig::new();
    let parent = rig.tenant(ROOT, Limits { iops: [100, UNLIMITED], ..Limits::default() });
    let [a, b] = [0; 2].map(|_| rig.tenant(parent, Limits::default()));
    rig.stage.set_weight(b, 200);
    assert_eq!(shared(&mut rig, &[(a, KIB)], 5), [501 * KIB]);
    let before = |rig: &Rig, of: TenantId| {
        rig.charges
            .iter()
            .zip(&rig.went)
            .filter(|((_, c), went)| c.tenant == of && went.is_some())
            .count() as u64
    };
    let mark = before(&rig, a);
    let later = shared(&mut rig, &[(parent, KIB), (b, KIB)], 4);
    let of_a = before(&rig, a) - mark;
    // 400 I/Os by 100 : 100 : 200.
    for (got, due) in [(of_a, 100), (later[0] / KIB, 100), (later[1] / KIB, 200)] {
        assert!(got.abs_diff(due) <= 2, "{got} of {due}");
    }
}
