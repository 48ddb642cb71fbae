//! `page-exact`: its definition, its options, and its budget compared with a naive one.

use super::*;
use crate::activity::page_exact::BudgetLimit;
use elevon_testkit::Rng;

fn unbounded() -> Options {
    Options { budget: Option::None, ..Options::default() }
}

fn exact_as(
    options: Options,
    text: &str,
    bio: IoPrio,
    submitter: Submitter,
    origin: Origin,
) -> IoPrio {
    decide_with(&mut promoter(Activity::PageExact, options), &singles(text), bio, submitter, origin)
}

#[test]
fn all_65536_patterns_by_their_count_alone() {
    let mut form = promoter(Activity::PageExact, unbounded());
    let idle = Submitter::of_task(IoPrio::NONE, CpuPolicy::Idle, 0);
    for pattern in 0..1u32 << 16 {
        let pieces: Vec<Piece> = bits(pattern, 16).map(|active| (active, PAGE, false)).collect();
        let k = pattern.count_ones();
        let plain = decide_with(&mut form, &pieces, IoPrio::NONE, plain(), Origin::Fault);
        assert_eq!(plain, if k > 8 { IoPrio::new(Rt, 4) } else { IoPrio::NONE });
        let idle = decide_with(&mut form, &pieces, IoPrio::NONE, idle, Origin::Fault).class();
        assert_eq!(idle, [None, Be, Rt][usize::from(k > 4) + usize::from(k > 8)]);
    }
    let counts = form.counts(Origin::Fault);
    // The numbers of patterns with more than 8 of 16, and with 5 to 8.
    assert_eq!((counts.promoted, counts.raised, counts.demoted), (2 * 26_333, 36_686, 0));
    assert_eq!((counts.bios, counts.bytes), (1 << 17, 1 << 33));
    assert_eq!(counts.active_bytes, 1 << 32, "half of all");
}

/// `page-exact` raises a priority and never lowers one.
#[test]
fn upwards_only() {
    let loose = Options { honour_idle: false, ..unbounded() };
    assert_eq!(
        exact_as(loose, "16A", IoPrio::NONE, set(Idle, 0), Origin::Read),
        IoPrio::new(Rt, 0)
    );
    assert_eq!(
        exact_as(loose, "5A11i", IoPrio::NONE, set(Idle, 0), Origin::Read),
        IoPrio::new(Be, 0)
    );
    for k in ["16i", "5A11i", "16A"] {
        assert_eq!(
            exact_as(unbounded(), k, IoPrio::new(Rt, 2), plain(), Origin::Read),
            IoPrio::new(Rt, 2)
        );
        assert_eq!(
            exact_as(unbounded(), k, IoPrio::NONE, set(Rt, 2), Origin::Read),
            IoPrio::NONE,
            "the task's RT/2"
        );
    }
    for pattern in 0..1 << 8 {
        for class in [None, Rt, Be, Idle] {
            for submitter in [plain(), set(Rt, 1), set(Be, 1), set(Idle, 1)] {
                for origin in Origin::ALL {
                    let pieces: Vec<Piece> =
                        bits(pattern, 8).map(|active| (active, PAGE, false)).collect();
                    let bio = IoPrio::new(class, 6).with_hint(3);
                    let mut form = promoter(Activity::PageExact, loose);
                    let after =
                        decide_with(&mut form, &pieces, bio, submitter, origin).or(submitter.task);
                    let before = bio.or(submitter.task);
                    assert!(after.class().effective() <= before.class().effective());
                    assert_eq!((after.level(), after.hint()), (before.level(), before.hint()));
                }
            }
        }
    }
}

#[test]
fn idle_on_purpose_is_a_ceiling() {
    let derived = Submitter::of_task(IoPrio::NONE, CpuPolicy::Idle, 0);
    let exact = |bio, submitter| exact_as(unbounded(), "16A", bio, submitter, Origin::Read);
    assert_eq!(exact(IoPrio::NONE, set(Idle, 0)), IoPrio::NONE);
    assert_eq!(exact(IoPrio::new(Idle, 0), plain()), IoPrio::new(Idle, 0));
    assert_eq!(
        exact(IoPrio::NONE, derived),
        IoPrio::new(Rt, 4),
        "SCHED_IDLE says nothing about the I/O"
    );
    assert_eq!(
        exact(IoPrio::new(Be, 2), set(Idle, 0)),
        IoPrio::new(Rt, 2),
        "the bio's own class counts"
    );
}

#[test]
fn what_is_covered() {
    let raised = |options| {
        Origin::ALL
            .map(|origin| exact_as(options, "16A", IoPrio::NONE, plain(), origin).class() == Rt)
    };
    assert_eq!(raised(unbounded()), [true, true, false, false, false, false, false]);
    let readahead = Options { raise_readahead: true, ..unbounded() };
    assert_eq!(raised(readahead), [true, true, true, false, false, false, false]);
    let writes = Options { raise_writes: true, ..unbounded() };
    assert_eq!(raised(writes), [true, true, false, true, true, false, false]);
    let mut form = promoter(Activity::PageExact, unbounded());
    decide_with(&mut form, &singles("3Ai"), IoPrio::NONE, plain(), Origin::Readahead);
    let counts = form.counts(Origin::Readahead);
    assert_eq!(
        (counts.bios, counts.active_bytes, counts.bytes),
        (1, 3 * PAGE, 4 * PAGE),
        "counted, not raised"
    );
}

#[test]
fn a_level_of_ones_own() {
    let seventh = Options { level: Some(7), ..unbounded() };
    assert_eq!(exact_as(seventh, "16A", IoPrio::NONE, plain(), Origin::Read), IoPrio::new(Rt, 7));
    assert_eq!(
        exact_as(seventh, "16A", IoPrio::new(Rt, 1), plain(), Origin::Read),
        IoPrio::new(Rt, 1)
    );
    let nice = Submitter::of_task(IoPrio::NONE, CpuPolicy::Normal, 19);
    assert_eq!(exact_as(unbounded(), "16A", IoPrio::NONE, nice, Origin::Read), IoPrio::new(Rt, 7));
    let unknown = Submitter { task: IoPrio::NONE, explicit: false, rt_cpu: false };
    assert_eq!(
        exact_as(unbounded(), "16A", IoPrio::NONE, unknown, Origin::Read),
        IoPrio::new(Rt, 4)
    );
}

/// Checks the budget afterwards: no sequence of bios may have more promoted bytes than its share
/// plus a burst.
#[test]
fn a_budget_bounds_every_stretch() {
    for seed in 0..8 {
        let mut random = Rng(seed);
        let limit = BudgetLimit {
            percent: random.pick(&[0, 10, 25, 60, 100]),
            burst: Bytes::new(random.pick(&[0, PAGE, 64 * PAGE, 1000 * PAGE])),
        };
        let mut form =
            promoter(Activity::PageExact, Options { budget: Some(limit), ..Options::default() });
        let mut log: Vec<(u64, u64)> = Vec::new();
        for _ in 0..300 {
            let (hot, count) = (random.one_in(2), 1 + random.below(256));
            if random.one_in(8) {
                form.pass(Bytes::new(count * PAGE));
                log.push((count * PAGE, 0));
                continue;
            }
            let pieces: Vec<Piece> = (0..count).map(|_| (hot, PAGE, false)).collect();
            let prio = decide_with(&mut form, &pieces, IoPrio::NONE, plain(), Origin::Fault);
            assert!(prio == IoPrio::NONE || hot && prio == IoPrio::new(Rt, 4));
            log.push((count * PAGE, if prio.class() == Rt { count * PAGE } else { 0 }));
            // With 100 % and a burst of at least one bio, promotion is never denied.
            if limit.percent == 100 && limit.burst.get() >= 256 * PAGE {
                assert_eq!(prio.class() == Rt, hot);
            }
        }
        for from in 0..log.len() {
            let (mut all, mut promoted) = (0, 0);
            for (bytes, of_them) in &log[from..] {
                (all, promoted) = (all + bytes, promoted + of_them);
                assert!(100 * promoted <= u64::from(limit.percent) * all + 100 * limit.burst.get());
            }
        }
        let counts = form.counts(Origin::Fault);
        assert!(counts.promotion_denied > 0 || counts.promoted > 0);
        let all: u64 = log.iter().map(|(_, promoted)| promoted).sum();
        assert_eq!(counts.promoted > 0, all > 0);
    }
}

#[test]
fn a_budget_comes_back_with_traffic() {
    let limit = BudgetLimit { percent: 25, burst: Bytes::new(16 * PAGE) };
    let mut form =
        promoter(Activity::PageExact, Options { budget: Some(limit), ..Options::default() });
    let mut run = |text: &str, bio| {
        decide_with(&mut form, &singles(text), bio, plain(), Origin::Read).class()
    };
    assert_eq!(run("16A", IoPrio::NONE), Rt);
    assert_eq!(run("16A", IoPrio::NONE), None, "4 pages of credit");
    assert_eq!(run("16A", IoPrio::new(Rt, 0)), Rt, "RT by its issuer costs nothing; 12 pages");
    assert_eq!(run("16i", IoPrio::NONE), None);
    assert_eq!(run("12A", IoPrio::NONE), Rt);
    let counts = *form.counts(Origin::Read);
    assert_eq!((counts.bios, counts.promoted, counts.promotion_denied), (5, 2, 1));
}
