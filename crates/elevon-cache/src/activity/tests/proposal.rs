//! The two forms of proposal 000: closed forms compared with step-by-step oracles, tables over all
//! patterns, and worked examples.

use super::*;
use elevon_testkit::Rng;

/// Returns the result of ITER, and checks that the proposal's steps and the builder's three numbers
/// agree.
fn iter_of(
    pages: impl Iterator<Item = bool> + Clone,
    vcnt: u32,
    bio: IoPrio,
    submitter: Submitter,
) -> IoPrio {
    let stepwise = walk(bio, submitter, vcnt, pages.clone());
    let mut counted = Walk::default();
    pages.for_each(|active| counted.add(active, false));
    assert_eq!(counted.decide(bio, submitter, vcnt), stepwise);
    stepwise
}

/// Returns the result of ITER for a whole bio of class NONE of a plain task.
fn iter(text: &str) -> PrioClass {
    let pages = pages(text);
    let prio = iter_of(pages.iter().copied(), pages.len() as u32, IoPrio::NONE, plain());
    assert_eq!(prio.level(), 0, "the level of a bio without a priority is 0");
    assert_eq!(decide(Activity::IterBio, &singles(text)), prio);
    prio.class()
}

/// Returns the result of ITER if the bio's vector count differs from the number of vectors walked.
fn iter_rest(text: &str, vcnt: u32) -> PrioClass {
    iter_of(pages(text).into_iter(), vcnt, IoPrio::NONE, plain()).class()
}

fn iter_as(text: &str, bio: IoPrio, submitter: Submitter) -> IoPrio {
    let pages = pages(text);
    iter_of(pages.iter().copied(), pages.len() as u32, bio, submitter)
}

/// Returns the classes under ADD after each page of a bio of class NONE of a plain task.
fn add_history(text: &str) -> Vec<PrioClass> {
    let mut calls = Calls::default();
    let mut step = |active| {
        calls.add(active, false);
        calls.decide(IoPrio::NONE, plain()).class()
    };
    pages(text).into_iter().map(&mut step).collect()
}

fn add(text: &str) -> PrioClass {
    let prio = decide(Activity::AddPage, &singles(text));
    assert_eq!(Some(&prio.class()), add_history(text).last());
    assert_eq!(prio.level(), 0);
    prio.class()
}

/// Applies ADD as the proposal describes it: writes the bio's priority at every call.
fn add_stepwise(pieces: &[Piece], mut bio: IoPrio, submitter: Submitter) -> IoPrio {
    let (mut count, mut vectors) = (0u64, 0u64);
    for (active, _, merged) in pieces {
        count += u64::from(*active);
        vectors += u64::from(!merged);
        if count > vectors / 2 {
            bio = bio.with_class(Rt);
        } else if count > vectors / 4 {
            let number = u8::max(submitter.task.class() as u8, 2);
            bio = bio.with_class(if number == 3 { Idle } else { Be });
        }
    }
    bio
}

fn submitters() -> Vec<Submitter> {
    let mut all: Vec<_> = [Rt, Be, Idle].into_iter().map(|class| set(class, 5)).collect();
    all.push(plain());
    all.push(Submitter { task: IoPrio::NONE, explicit: false, rt_cpu: false });
    all.push(Submitter::of_task(IoPrio::NONE, CpuPolicy::RealTime, 0));
    all.push(Submitter::of_task(IoPrio::new(Be, 1), CpuPolicy::RealTime, 0));
    all
}

#[test]
fn three_numbers_decide_a_walk() {
    // Every pattern of up to 8 remaining vectors, for bios of any count and class, by any task.
    for left in 0..=8 {
        for pattern in 0..1 << left {
            for vcnt in 0..=18 {
                for class in [None, Rt, Be, Idle] {
                    for submitter in submitters() {
                        let bio = IoPrio::new(class, 6).with_hint(9);
                        let prio = iter_of(bits(pattern, left), vcnt, bio, submitter);
                        assert_eq!((prio.level(), prio.hint()), (6, 9));
                    }
                }
            }
        }
    }
}

#[test]
fn adds_are_as_the_seed_words_them() {
    let mut random = Rng(5);
    for _ in 0..20_000 {
        let density = random.below(5);
        let pieces: Vec<Piece> = (0..1 + random.below(40))
            .map(|at| (random.below(5) < density, PAGE, at > 0 && random.one_in(3)))
            .collect();
        let submitter = random.pick(&submitters());
        let bio = IoPrio::new(random.pick(&[None, Rt, Be, Idle]), 3).with_hint(1);
        let mut form = promoter(Activity::AddPage, Options::default());
        let prio = decide_with(&mut form, &pieces, bio, submitter, Origin::Read);
        assert_eq!(prio, add_stepwise(&pieces, bio, submitter), "{pieces:?} {submitter:?}");
    }
}

/// Counts the results over all patterns: [NONE, RT, BE] for each number of active pages.
fn tally(decide: impl Fn(u32) -> PrioClass) -> [[u32; 3]; 17] {
    let mut table = [[0; 3]; 17];
    for pattern in 0..1u32 << 16 {
        table[pattern.count_ones() as usize][decide(pattern) as usize] += 1;
    }
    table
}

#[test]
fn all_65536_patterns_of_iter_bio() {
    let table = tally(|pattern| iter_of(bits(pattern, 16), 16, IoPrio::NONE, plain()).class());
    assert_eq!(table[..5], [[1, 0, 0], [16, 0, 0], [120, 0, 0], [560, 0, 0], [1820, 0, 0]]);
    assert_eq!(table[5..9], [[0, 1, 4367], [0, 11, 7997], [0, 55, 11385], [0, 165, 12705]]);
    assert_eq!(table[9..], [11440, 8008, 4368, 1820, 560, 120, 16, 1].map(|all| [0, all, 0]));
}

#[test]
fn all_65536_patterns_of_add_page() {
    let table = tally(|pattern| {
        let mut calls = Calls::default();
        bits(pattern, 16).for_each(|active| calls.add(active, false));
        let class = calls.decide(IoPrio::NONE, plain()).class();
        let active_of = |prefix: u32| (pattern & ((1 << prefix) - 1)).count_ones();
        let closed = if active_of(16) > 8 {
            Rt
        } else if (1..=16).any(|prefix| active_of(prefix) > prefix / 4) {
            Be
        } else {
            None
        };
        assert_eq!(class, closed);
        class
    });
    assert_eq!(table[..5], [[1, 0, 0], [13, 0, 3], [72, 0, 48], [200, 0, 360], [140, 0, 1680]]);
    assert_eq!(table[5..9], [[0, 0, 4368], [0, 0, 8008], [0, 0, 11440], [0, 0, 12870]]);
    assert_eq!(table[9..], [11440, 8008, 4368, 1820, 560, 120, 16, 1].map(|all| [0, all, 0]));
}

#[test]
fn k_active_pages_first_or_last() {
    use alloc::format;
    for k in 0..=16 {
        let (first, last) = (format!("{k}A{}i", 16 - k), format!("{}i{k}A", 16 - k));
        // "0A" would be parsed as one page.
        let (first, last) = if k == 0 {
            ("16i".into(), "16i".into())
        } else if k == 16 {
            ("16A".into(), "16A".into())
        } else {
            (first, last)
        };
        let iter_first = if k < 5 { None } else { Rt };
        let iter_last = [None, Be, Rt][usize::from(k >= 5) + usize::from(k >= 9)];
        let add_first = [None, Be, Rt][usize::from(k >= 1) + usize::from(k >= 9)];
        assert_eq!((iter(&first), iter(&last)), (iter_first, iter_last), "{k}");
        assert_eq!((add(&first), add(&last)), (add_first, iter_last), "{k}");
    }
}

#[test]
fn thresholds() {
    for (v, quarter, half) in [
        (1, 1, 1),
        (2, 1, 2),
        (3, 1, 2),
        (4, 2, 3),
        (5, 2, 3),
        (8, 3, 5),
        (16, 5, 9),
        (32, 9, 17),
        (64, 17, 33),
        (256, 65, 129),
    ] {
        // The active pages come last, so neither the leading run nor an early share decides.
        let last = |k: u32| {
            let pages = (0..v).map(move |at| at + k >= v);
            let mut calls = Calls::default();
            pages.clone().for_each(|active| calls.add(active, false));
            let all_lead = k == v;
            let iter = iter_of(pages, v, IoPrio::NONE, plain()).class();
            let add = calls.decide(IoPrio::NONE, plain()).class();
            assert!(iter == add || all_lead, "{v} {k}");
            iter
        };
        for k in 0..=v {
            let class = if k >= half {
                Rt
            } else if k >= quarter {
                Be
            } else {
                None
            };
            assert_eq!(last(k), class, "{k} of {v}");
            assert_eq!(
                (k > v / 2, k > v / 4),
                (2 * k > v, 4 * k > v),
                "cut thresholds are thresholds of fractions"
            );
        }
    }
}

#[test]
fn small_bios() {
    for (text, class) in [
        ("A", Rt),
        ("i", None),
        ("Ai", Rt),
        ("iA", Be),
        ("AA", Rt),
        ("Aii", Rt),
        ("iAi", Be),
        ("iiA", Be),
    ] {
        assert_eq!(iter(text), class, "{text}");
    }
    for (text, class) in [
        ("AAi", Rt),
        ("AiA", Rt),
        ("iAA", Rt),
        ("Aiii", None),
        ("iiiA", None),
        ("AAii", Rt),
        ("AiAi", Be),
    ] {
        assert_eq!(iter(text), class, "{text}");
    }
    for (text, class) in [("iAAi", Be), ("iiAA", Be), ("iAAA", Rt), ("AAiA", Rt)] {
        assert_eq!(iter(text), class, "{text}");
    }
    for (text, class) in [
        ("A", Rt),
        ("Ai", Be),
        ("iA", Be),
        ("AA", Rt),
        ("Aii", Be),
        ("iAi", Be),
        ("iiA", Be),
        ("iAA", Rt),
    ] {
        assert_eq!(add(text), class, "{text}");
    }
    for (text, class) in [
        ("Aiii", Be),
        ("iAii", Be),
        ("iiAi", Be),
        ("iiiA", None),
        ("iiAA", Be),
        ("iAAA", Rt),
        ("AAiA", Rt),
    ] {
        assert_eq!(add(text), class, "{text}");
    }
}

/// The rules of `docs/explanation/activity.md` for `iter-bio` and the bio of an ordinary task.
#[test]
fn golden_iter_of_a_plain_task() {
    let mut four = 0;
    for pattern in (0..1u32 << 16).filter(|pattern| pattern.count_ones() == 4) {
        four += 1;
        assert_eq!(iter_of(bits(pattern, 16), 16, IoPrio::NONE, plain()), IoPrio::NONE);
    }
    assert_eq!(four, 1820);
    assert_eq!(iter("5A11i"), Rt);
    let mut looked = 0;
    walk(IoPrio::NONE, plain(), 16, pages("5A11i").into_iter().inspect(|_| looked += 1));
    assert_eq!(looked, 5, "left after five vectors");
    assert_eq!(iter("i5A10i"), Be);
    let mut looked = 0;
    assert_eq!(iter("7i9A"), Rt);
    walk(IoPrio::NONE, plain(), 16, pages("7i9A").into_iter().inspect(|_| looked += 1));
    assert_eq!(looked, 16);
    assert_eq!(["A", "iA", "Ai", "AA"].map(iter), [Rt, Be, Rt, Rt]);
    assert_eq!(["AAii", "iAAi", "Aiii"].map(iter), [Rt, Be, None]);
    let unknown = Submitter { task: IoPrio::NONE, explicit: false, rt_cpu: false };
    assert_eq!(iter_as("i5A10i", IoPrio::NONE, unknown), IoPrio::new(Be, 0));
    assert_eq!(["64A192i", "65A191i", "191i65A", "127i129A"].map(iter), [None, Rt, Be, Rt]);
}

/// The rules for tasks and bios with a class of their own.
#[test]
fn golden_iter_of_other_tasks_and_bios() {
    let real_time = Submitter::of_task(IoPrio::NONE, CpuPolicy::RealTime, 0);
    let bio = IoPrio::new(Be, 5).with_hint(3);
    assert_eq!(iter_as("16i", bio, real_time), IoPrio::new(Rt, 5).with_hint(3));
    let idle = Submitter::of_task(IoPrio::NONE, CpuPolicy::Idle, 0);
    assert_eq!(iter_as("i8A7i", IoPrio::NONE, idle), IoPrio::new(Idle, 0));
    assert_eq!(iter_as("i5A10i", IoPrio::new(Rt, 2), plain()), IoPrio::new(Be, 2));
    assert_eq!(iter_as("i5A10i", IoPrio::new(Idle, 0), plain()), IoPrio::new(Be, 0));
    for class in [Rt, Be, Idle] {
        assert_eq!(iter_as("4A12i", IoPrio::new(class, 1), plain()), IoPrio::new(class, 1));
    }
    assert_eq!(iter_rest("iiAi", 0), Rt, "a clone has no vectors of its own");
    assert_eq!(iter_rest("iiii", 0), None);
    assert_eq!(["iAAA", "iiAA", "iiiA"].map(|text| iter_rest(text, 16)), [Rt, Be, None]);
    for prio in [IoPrio::NONE, IoPrio::new(Idle, 3)] {
        assert_eq!(iter_as("", prio, plain()), prio, "an empty bio");
        assert_eq!(
            decide_with(
                &mut promoter(Activity::IterBio, Options::default()),
                &[],
                prio,
                plain(),
                Origin::Fsync
            ),
            prio
        );
    }
}

/// The rules of `docs/explanation/activity.md` for `add-page`.
#[test]
fn golden_add() {
    let history = add_history("A15i");
    assert_eq!((history[0], &history[1..]), (Rt, &[Be; 15][..]));
    assert_eq!(add("3iA12i"), None);
    assert!(add_history("3iA12i").iter().all(|class| *class == None));
    assert_eq!(add_history("iiA13i")[..4], [None, None, Be, Be]);
    assert_eq!(add("iiA13i"), Be);
    assert_eq!(add_history("9A7i"), [Rt; 16]);
    let history = add_history("8A8i");
    assert_eq!((&history[..15], history[15]), (&[Rt; 15][..], Be));
}

/// Sixteen contiguous pages in one vector, under each form.
#[test]
fn golden_merged_pages() {
    let row = |text: &str| {
        let pieces = contiguous(text);
        [Activity::IterBio, Activity::AddPage, Activity::PageExact]
            .map(|form| decide(form, &pieces).class())
    };
    assert_eq!(row("A15i"), [Rt, Rt, None]);
    assert_eq!(row("15iA"), [None, Rt, None]);
    assert_eq!(row("i15A"), [None, Rt, Rt]);
    assert_eq!(row("16i"), [None, None, None]);
}

#[test]
fn a_bio_done_by_the_block_layer_gets_the_tasks_level_only_without_a_class() {
    let submit = |text| decide(Activity::IterBio, &singles(text)).or(plain().task);
    assert_eq!(submit("16A"), IoPrio::new(Rt, 0));
    assert_eq!(submit("i5A10i"), IoPrio::new(Be, 0));
    assert_eq!(submit("16i"), IoPrio::DEFAULT);
}
