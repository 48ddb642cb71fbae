//! The list of defects in `docs/explanation/activity.md`: the result of the proposal, and that of
//! `page-exact`.

use super::*;
use crate::activity::page_exact::BudgetLimit;
use elevon_core::bio::{Bio, DataRange};
use elevon_core::ioprio::PrioPolicy;
use elevon_core::kernel::Kernel;
use elevon_core::merge::is_compatible;
use elevon_core::op::{Flags, Op};
use elevon_core::request::{Requests, State};
use elevon_core::units::{Instant, RequestId, Sector, Sectors, TaskId, TenantId};
use elevon_testkit::Rng;

/// Returns a read of `sectors` sectors from `sector` on.
fn bio(sector: u64, sectors: u64, ioprio: IoPrio) -> Bio {
    Bio {
        op: Op::Read,
        flags: Flags::NONE,
        ioprio,
        write_hint: 0,
        segments: 1,
        sector: Sector::new(sector),
        bytes: Sectors::new(sectors).bytes(),
        data: DataRange::default(),
        task: TaskId(0),
        tenant: TenantId(0),
        io: 0,
        token: 0,
        next: core::option::Option::None,
        queued: Instant::ZERO,
        since: Instant::ZERO,
        gated: false,
        has_place: false,
        in_scheduler: false,
    }
}

const SEED: [Activity; 2] = [Activity::IterBio, Activity::AddPage];

fn with(
    form: Activity,
    options: Options,
    text: &str,
    bio: IoPrio,
    submitter: Submitter,
    origin: Origin,
) -> IoPrio {
    decide_with(&mut promoter(form, options), &singles(text), bio, submitter, origin)
}

/// Returns the class of a bio under each form, as a scheduler would see it.
fn classes(text: &str, bio: IoPrio, submitter: Submitter, origin: Origin) -> [PrioClass; 3] {
    [Activity::IterBio, Activity::AddPage, Activity::PageExact].map(|form| {
        with(form, Options::default(), text, bio, submitter, origin).or(submitter.task).class()
    })
}

#[test]
fn d01_the_larger_number_is_the_less_urgent_class() {
    assert_eq!(classes("i5A10i", IoPrio::NONE, set(Rt, 4), Origin::Read), [Be, Be, Rt]);
    let idle = Submitter::of_task(IoPrio::NONE, CpuPolicy::Idle, 0);
    assert_eq!(classes("i5A10i", IoPrio::NONE, idle, Origin::Read), [Idle, Idle, Be]);
}

#[test]
fn d02_a_class_that_was_set_is_half_respected() {
    assert_eq!(classes("i5A10i", IoPrio::new(Rt, 2), plain(), Origin::Read), [Be, Be, Rt]);
    assert_eq!(
        classes("i5A10i", IoPrio::new(Idle, 0), plain(), Origin::Read),
        [Be, Be, Idle],
        "honour_idle"
    );
}

#[test]
fn d03_order_decides() {
    for (one, other) in [("5A11i", "11i5A"), ("A15i", "15iA")] {
        let outcome =
            |form| [decide(form, &singles(one)), decide(form, &singles(other))].map(IoPrio::class);
        assert!(SEED.iter().any(|form| outcome(*form)[0] != outcome(*form)[1]));
        assert_eq!(outcome(Activity::PageExact), [None, None]);
    }
}

#[test]
fn d04_vectors_are_not_pages() {
    // An active folio of 4 pages, one active page, 11 others: 2 of 13 vectors, 5 of 16 pages.
    let mut pieces = alloc::vec![(true, 4 * PAGE, false), (true, PAGE, false)];
    pieces.extend([(false, PAGE, false); 11]);
    let mut exact = promoter(Activity::PageExact, Options::default());
    let idle = Submitter::of_task(IoPrio::NONE, CpuPolicy::Idle, 0);
    assert_eq!(decide(Activity::IterBio, &pieces).class(), None);
    assert_eq!(decide_with(&mut exact, &pieces, IoPrio::NONE, idle, Origin::Read).class(), Be);
    let Content::PageExact(mut share) = exact.begin() else { panic!("another form") };
    pieces.iter().for_each(|(active, bytes, _)| share.add(*active, Bytes::new(*bytes)));
    assert_eq!(share.target(), Be);
    // One active page in four parts of 1 KiB, with three cold pages: ADD counts it four times.
    let parts = [(true, 1024, false), (true, 1024, true), (true, 1024, true), (true, 1024, true)];
    let pieces = [&parts[..], &[(false, PAGE, false); 3]].concat();
    assert_eq!(decide(Activity::AddPage, &pieces).class(), Rt);
    assert_eq!(decide(Activity::PageExact, &pieces).class(), None);
}

#[test]
fn d05_clones_and_partly_done_bios_are_judged_by_a_wrong_count() {
    let iter = |text, vcnt| walk(IoPrio::NONE, plain(), vcnt, pages(text)).class();
    assert_eq!((iter("iiAi", 4), iter("iiAi", 0)), (None, Rt), "a clone");
    assert_eq!((iter("iAii", 4), iter("AAii", 16)), (None, Be), "12 of 16 done");
    // Exact decides when the bio is complete; its splits inherit the class.
    let prio = decide(Activity::PageExact, &singles("12A4i"));
    let whole = bio(0, 128, prio);
    let rest = Bio { bytes: Bytes::new(4 * PAGE), ..whole };
    assert_eq!((rest.ioprio, rest.ioprio.class()), (prio, Rt));
}

#[test]
fn d06_a_recycled_bio_starts_with_a_stale_count() {
    let run = |mut calls: Calls| {
        pages("16i").into_iter().for_each(|active| calls.add(active, false));
        calls.decide(IoPrio::NONE, plain()).class()
    };
    assert_eq!(run(Calls::recycled(9)), Rt, "the field as the proposal leaves it");
    assert_eq!(run(Calls::default()), None, "ours starts at zero, in ADD too");
    assert_eq!(
        promoter(Activity::PageExact, Options::default()).begin(),
        Content::PageExact(Default::default())
    );
}

#[test]
fn d07_a_bio_does_not_grow() {
    // The count is kept by the builder, one for the bio that is being built. The bio itself is as
    // large as without activity.
    assert!(size_of::<Content>() <= 24);
}

#[test]
fn d08_level_zero_by_accident() {
    for form in SEED {
        assert_eq!(decide(form, &singles("16A")).or(plain().task), IoPrio::new(Rt, 0));
        assert_eq!(
            decide(form, &singles("i5A10i")).or(plain().task),
            IoPrio::new(Be, 0),
            "above every plain BE/4"
        );
    }
    assert_eq!(decide(Activity::PageExact, &singles("16A")), IoPrio::new(Rt, 4));
    assert_eq!(
        decide(Activity::PageExact, &singles("i5A10i")).or(plain().task),
        IoPrio::new(Be, 4)
    );
    // A real-time task gets RT/0 instead of its RT/4, and RT although best effort was set.
    let real_time = Submitter::of_task(IoPrio::NONE, CpuPolicy::RealTime, 0);
    let modest = Submitter::of_task(IoPrio::new(Be, 6), CpuPolicy::RealTime, 0);
    for (submitter, seed, exact) in [
        (real_time, IoPrio::new(Rt, 0), IoPrio::new(Rt, 4)),
        (modest, IoPrio::new(Rt, 0), IoPrio::new(Be, 6)),
    ] {
        let of = |form| {
            with(form, Options::default(), "16i", IoPrio::NONE, submitter, Origin::Read)
                .or(submitter.task)
        };
        assert_eq!((of(Activity::IterBio), of(Activity::PageExact)), (seed, exact));
    }
}

#[test]
fn d09_d10_pages_that_are_not_the_caches() {
    for origin in [Origin::Direct, Origin::Metadata] {
        assert_eq!(classes("16A", IoPrio::NONE, plain(), origin), [Rt, Rt, Be]);
    }
}

#[test]
fn d11_the_builder_says_what_is_active() {
    // In an encrypted file the bio holds bounce pages, whose flags mean nothing; the folios that
    // they replace are hot.
    let (bounce, folios) = (singles("16i"), singles("16A"));
    assert_eq!(decide(Activity::IterBio, &bounce).class(), None);
    assert_eq!(decide(Activity::PageExact, &folios).class(), Rt);
}

#[test]
fn d12_writes() {
    for origin in [Origin::Writeback, Origin::Fsync] {
        assert_eq!(classes("16A", IoPrio::NONE, plain(), origin), [Rt, Rt, Be]);
        let writes = Options { raise_writes: true, ..Options::default() };
        assert_eq!(
            with(Activity::PageExact, writes, "16A", IoPrio::NONE, plain(), origin).class(),
            Rt
        );
    }
}

#[test]
fn d13_readahead_that_nobody_waits_for() {
    assert_eq!(classes("16A", IoPrio::NONE, plain(), Origin::Readahead), [Rt, Rt, Be]);
}

#[test]
fn d14_first_reads_are_never_promoted() {
    // In every form, a page that was never in the cache has no flag. This is a property of the
    // signal.
    for origin in Origin::ALL {
        assert_eq!(classes("16i", IoPrio::NONE, plain(), origin), [Be; 3]);
    }
}

#[test]
fn d15_mixed_promotion_cuts_streams() {
    // In a stream of 256 bios one page in eight is active, which is well below a quarter: none of
    // the content is hot.
    let mut random = Rng(15);
    let mut bios: Vec<Vec<Piece>> = Vec::new();
    while bios.len() < 256 {
        let bio: Vec<Piece> = (0..16).map(|_| (random.one_in(8), PAGE, false)).collect();
        if bio.iter().filter(|piece| piece.0).count() <= 4 {
            bios.push(bio);
        }
    }
    let runs = |form| {
        let prios: Vec<_> = bios.iter().map(|bio| decide(form, bio).or(plain().task)).collect();
        1 + prios.windows(2).filter(|pair| pair[0] != pair[1]).count()
    };
    assert_eq!(runs(Activity::PageExact), 1);
    assert!(runs(Activity::AddPage) > 64, "{}", runs(Activity::AddPage));
}

/// Two contiguous bios, RT/0 and BE/4, become two requests.
#[test]
fn d15_bios_of_two_priorities_are_two_requests() {
    let mut requests = Requests::new(1);
    let id = RequestId(0);
    requests[id].state = State::Queued;
    requests[id].sectors = Sectors::new(8);
    requests[id].ioprio = decide(Activity::IterBio, &singles("A"));
    let joins = |ioprio| {
        let bio = bio(8, 8, ioprio);
        Kernel::ALL.map(|kernel| is_compatible(&kernel.rules(), &requests[id], &bio))
    };
    assert_eq!(joins(IoPrio::DEFAULT), [false; Kernel::ALL.len()]);
    assert_eq!(joins(IoPrio::new(Rt, 0)), [true; Kernel::ALL.len()]);
}

#[test]
fn d16_starvation() {
    // 1000 hot bios of one page each, among as many cold ones: the proposal promotes all hot bios,
    // exact promotes a quarter of the bytes.
    let promoted = |form| {
        let limit = BudgetLimit { percent: 25, burst: Bytes::new(16 * PAGE) };
        let mut form = promoter(form, Options { budget: Some(limit), ..Options::default() });
        for _ in 0..1000 {
            decide_with(&mut form, &singles("A"), IoPrio::NONE, plain(), Origin::Fault);
            decide_with(&mut form, &singles("i"), IoPrio::NONE, plain(), Origin::Fault);
        }
        let counts = *form.counts(Origin::Fault);
        assert_eq!(counts.bios, 2000);
        (counts.promoted, counts.promotion_denied)
    };
    assert_eq!(SEED.map(promoted), [(1000, 0); 2]);
    let (rt, denied) = promoted(Activity::PageExact);
    assert_eq!(rt + denied, 1000);
    assert!((500..=516).contains(&rt), "{rt}: a quarter of 2000 and the burst");
}

/// The policy of a group is applied afterwards and overrides every form.
#[test]
fn d17_the_groups_policy_comes_after() {
    let rules = Kernel::V6_18.rules();
    let group = |policy: PrioPolicy, prio: IoPrio, submitter: Submitter| {
        policy.apply(prio.or(submitter.task), &rules)
    };
    let task = Submitter::of_task(IoPrio::NONE, CpuPolicy::RealTime, 0);
    assert_eq!(task.task, IoPrio::new(Rt, 4));
    assert_eq!(group(PrioPolicy::RestrictToBe, IoPrio::NONE, task).class(), Be);
    for form in [Activity::IterBio, Activity::AddPage, Activity::PageExact] {
        let (hot, cold) = (decide(form, &singles("16A")), decide(form, &singles("16i")));
        assert_eq!(group(PrioPolicy::Idle, hot, plain()), IoPrio::new(Idle, 0));
        assert_eq!(group(PrioPolicy::RestrictToBe, hot, plain()), IoPrio::new(Be, 0));
        let both = [hot, cold].map(|prio| group(PrioPolicy::PromoteToRt, prio, plain()).class());
        assert_eq!(both, [Rt; 2], "the signal is lost");
    }
    // Exact keeps the level, so under promote-to-rt hot and cold bios have the same priority and
    // merge.
    let both = ["16A", "16i"].map(|text| {
        group(PrioPolicy::PromoteToRt, decide(Activity::PageExact, &singles(text)), plain())
    });
    assert_eq!(both, [IoPrio::new(Rt, 4); 2]);
}

#[test]
fn d18_metadata_that_promoted_data_waits_for() {
    // Content does not show it. The builder knows it, and submits the metadata with the priority of
    // the data, which is kept.
    let data = decide(Activity::PageExact, &singles("16A"));
    for form in [Activity::Off, Activity::PageExact] {
        assert_eq!(with(form, Options::default(), "i", data, plain(), Origin::Metadata), data);
    }
    assert_eq!(
        with(Activity::PageExact, Options::default(), "A", IoPrio::NONE, plain(), Origin::Metadata),
        IoPrio::NONE
    );
}
