//! Worked examples of the multi-generational LRU: `lru_gen_refault` of `mm/workingset.c`;
//! `should_run_aging` and `get_type_to_scan` of `mm/vmscan.c`; `lru_gen_add_folio` and
//! `folio_lru_refs` of `include/linux/mm_inline.h`.

use alloc::vec::Vec;

use super::*;
use crate::FileId;
use crate::pages::Entry;
use crate::replace::Swap;
use elevon_core::tenant::ROOT;
use elevon_core::units::PageIndex;

struct Bed {
    mglru: Mglru,
    pages: Pages,
    out: Vec<Evicted>,
    next: u64,
}

impl Bed {
    fn new(version: Version, min_seq: u64, max_seq: u64) -> Self {
        let mut mglru = Mglru::new(version, Nanos::ZERO);
        (mglru.min_seq, mglru.max_seq) = (min_seq, max_seq);
        mglru.on_anonymous(Anonymous::default());
        Self { mglru, pages: Pages::new(2000), out: Vec::new(), next: 0 }
    }
    fn insert_at(&mut self, index: u64, context: Context) -> FrameId {
        let (frame, shadow) = self.pages.insert(FileId(0), PageIndex::new(index)).expect("a frame");
        self.mglru.insert(&mut self.pages, frame, context, shadow);
        frame
    }
    fn insert(&mut self, context: Context) -> FrameId {
        self.next += 1;
        self.insert_at(self.next, context)
    }
    fn access(&mut self, frame: FrameId, times: u32) {
        (0..times).for_each(|_| self.mglru.access(&mut self.pages, frame, Context::Read));
    }
    fn state(&self, frame: FrameId) -> (bool, bool, u32) {
        let flags = self.pages.flags(frame);
        (flags.has(Flags::REFERENCED), flags.has(Flags::WORKINGSET), self.pages.field(frame))
    }
    fn seq(&self, frame: FrameId) -> u64 {
        self.mglru.seq(&self.pages, frame)
    }
    fn evict(&mut self, want: u64) -> ScanOutcome {
        let request = Request { want, priority: 0, by: Reclaimer::Kswapd };
        let outcome = self.mglru.evict(Instant::ZERO, &mut self.pages, request, &mut self.out);
        self.mglru.self_check(&self.pages);
        self.pages.self_check();
        outcome
    }
    fn fill(&mut self, seq: u64, count: u64) {
        for _ in 0..count {
            let frame = self.insert(Context::Read);
            self.mglru.take(&mut self.pages, frame);
            self.mglru.add(&mut self.pages, frame, seq);
        }
    }
    fn new_generation(&mut self) {
        self.mglru.new_generation(Instant::ZERO, &mut self.pages);
        self.mglru.self_check(&self.pages);
    }
}

/// Evicts a page with this many uses at `min_seq` 7, and inserts it again at `min_seq`.
fn refault(version: Version, uses: u32, context: Context, min_seq: u64) -> (Bed, FrameId, Shadow) {
    let mut bed = Bed::new(version, 7, 9);
    let frame = bed.insert_at(0, Context::Read);
    bed.access(frame, uses);
    assert_eq!(bed.evict(1).evicted, 1);
    let Entry::Shadow(shadow) = bed.pages.entry(FileId(0), PageIndex::ZERO) else {
        panic!("no shadow")
    };
    (bed.mglru.min_seq, bed.mglru.max_seq) = (min_seq, min_seq + 2);
    bed.mglru.on_anonymous(Anonymous::default());
    let frame = bed.insert_at(0, context);
    (bed, frame, shadow)
}

#[test]
fn uses_by_descriptor() {
    let table = [
        (0, (false, false, 0), 0, 0),
        (1, (true, false, 0), 0, 0),
        (2, (true, true, 0), 1, 1),
        (3, (true, true, 1), 2, 2),
        (4, (true, true, 2), 3, 2),
        (5, (true, true, 3), 4, 3),
        (9, (true, true, 3), 4, 3),
    ];
    for (uses, state, refs, tier) in table {
        let mut bed = Bed::new(Version::V6_1, 0, 3);
        let frame = bed.insert(Context::Read);
        bed.access(frame, uses);
        assert_eq!(
            (bed.state(frame), bed.mglru.refs(&bed.pages, frame)),
            (state, refs),
            "{uses} uses"
        );
        assert_eq!(bed.mglru.tier(&bed.pages, frame), tier, "{uses} uses");
    }
    let reworked = [
        (1, (true, false, 0), 0),
        (2, (true, false, 1), 1),
        (4, (true, false, 3), 2),
        (5, (true, true, 3), 3),
    ];
    for (uses, state, tier) in reworked {
        let mut bed = Bed::new(Version::V6_14, 0, 3);
        let frame = bed.insert(Context::Read);
        bed.access(frame, uses);
        assert_eq!(
            (bed.state(frame), bed.mglru.tier(&bed.pages, frame)),
            (state, tier),
            "{uses} uses"
        );
    }
}

#[test]
fn writes_and_readahead_are_no_uses() {
    let mut bed = Bed::new(Version::V6_1, 0, 3);
    let frame = bed.insert(Context::Write);
    bed.mglru.access(&mut bed.pages, frame, Context::Write);
    bed.mglru.access(&mut bed.pages, frame, Context::Readahead);
    assert_eq!(bed.state(frame), (false, false, 0));
}

#[test]
fn where_new_pages_go() {
    let mut bed = Bed::new(Version::V6_1, 0, 3);
    let (read, fault) = (bed.insert(Context::Read), bed.insert(Context::Fault));
    assert_eq!((bed.seq(read), bed.seq(fault)), (1, 3));
    let mut bed = Bed::new(Version::V6_1, 1, 3);
    let (read, fault) = (bed.insert(Context::Read), bed.insert(Context::Fault));
    assert_eq!((bed.seq(read), bed.seq(fault)), (1, 3));
}

#[test]
fn recent_refault_in_a_fault() {
    let (bed, frame, shadow) = refault(Version::V6_1, 1, Context::Fault, 7);
    assert_eq!((shadow.stamp(), shadow.is_workingset()), (28, false));
    assert_eq!((bed.state(frame), bed.mglru.stats.restored), ((false, true, 3), 1));
    assert_eq!(bed.mglru.control.refaulted, [1, 0, 0, 0]);
}

#[test]
fn refault_one_generation_later() {
    let (bed, frame, _) = refault(Version::V6_1, 1, Context::Fault, 8);
    assert_eq!((bed.state(frame), bed.mglru.stats.refaulted), ((false, false, 0), 0));
    assert_eq!(bed.mglru.control.refaulted, [0; 4]);
}

#[test]
fn recent_refaults_by_descriptor() {
    let (bed, frame, _) = refault(Version::V6_1, 1, Context::Read, 7);
    assert_eq!((bed.state(frame), bed.mglru.control.refaulted), ((false, false, 0), [1, 0, 0, 0]));
    let (bed, frame, shadow) = refault(Version::V6_1, 4, Context::Read, 7);
    assert_eq!((shadow.stamp(), shadow.is_workingset()), (30, true));
    assert_eq!((bed.state(frame), bed.mglru.control.refaulted), ((false, true, 3), [0, 0, 1, 0]));
    let (bed, frame, shadow) = refault(Version::V6_1, 3, Context::Read, 7);
    assert_eq!((shadow.stamp(), shadow.is_workingset()), (29, true));
    assert_eq!((bed.state(frame), bed.mglru.control.refaulted), ((false, false, 0), [0, 0, 1, 0]));
    let (_, _, shadow) = refault(Version::V6_1, 2, Context::Read, 7);
    assert_eq!((shadow.stamp(), shadow.is_workingset()), (28, true));
}

#[test]
fn pages_used_most_are_always_protected() {
    let mut bed = Bed::new(Version::V6_1, 7, 9);
    let frame = bed.insert(Context::Read);
    bed.access(frame, 5);
    assert_eq!(bed.evict(1).evicted, 0);
    assert_eq!((bed.seq(frame), bed.state(frame)), (8, (false, false, 0)));
    assert_eq!(
        bed.mglru.control.protected,
        [0, 0, 0, 0],
        "the generation is over, so it carried over"
    );
    assert_eq!(bed.mglru.stats.protected_by_tier, [0, 0, 0, 1]);
}

#[test]
fn reworked_refaults() {
    let (bed, frame, _) = refault(Version::V6_14, 1, Context::Fault, 7);
    assert!(!bed.state(frame).1, "the shadow's bit is not set");
    assert_eq!(bed.mglru.stats.refaulted, 1);
    // The refault is still recent one generation later, and the three uses are restored.
    let (mut bed, frame, shadow) = refault(Version::V6_14, 4, Context::Read, 8);
    assert_eq!(
        (shadow.stamp(), shadow.is_workingset(), bed.state(frame)),
        (31, false, (false, false, 3))
    );
    bed.access(frame, 1);
    assert_eq!(bed.mglru.refs(&bed.pages, frame), 4);
    let (bed, _, _) = refault(Version::V6_14, 1, Context::Read, 9);
    assert_eq!(
        (bed.mglru.max_seq, bed.mglru.stats.refaulted),
        (11, 0),
        "11 - 7 is not less than 4"
    );
    // With the working-set bit: used five times, protected once, evicted from the next generation.
    let mut bed = Bed::new(Version::V6_14, 6, 9);
    let frame = bed.insert_at(0, Context::Read);
    bed.mglru.take(&mut bed.pages, frame);
    bed.mglru.add(&mut bed.pages, frame, 6);
    bed.access(frame, 5);
    (0..2).for_each(|_| _ = bed.evict(1));
    let Entry::Shadow(shadow) = bed.pages.entry(FileId(0), PageIndex::ZERO) else {
        panic!("still there")
    };
    assert!(shadow.is_workingset() && bed.mglru.stats.protected_by_tier[3] == 1);
    let frame = bed.insert_at(0, Context::Read);
    assert_eq!((bed.state(frame).1, bed.mglru.stats.restored), (true, 1));
}

#[test]
fn when_ageing_is_due() {
    for (sizes, is_due) in
        [([100, 500, 400], true), ([300, 400, 300], false), ([300, 199, 501], true)]
    {
        let mut bed = Bed::new(Version::V6_1, 1, 3);
        (1..).zip(sizes).for_each(|(seq, count)| bed.fill(seq, count));
        assert_eq!(bed.mglru.needs_ageing(), is_due, "{sizes:?}");
    }
    assert!(!Bed::new(Version::V6_1, 0, 3).mglru.needs_ageing());
    assert!(Bed::new(Version::V6_1, 2, 3).mglru.needs_ageing());
    assert!(!Bed::new(Version::V6_14, 0, 3).mglru.needs_ageing());
    assert!(Bed::new(Version::V6_14, 1, 3).mglru.needs_ageing());
}

#[test]
fn a_fifth_generation_folds_the_oldest_into_the_next() {
    let mut bed = Bed::new(Version::V6_1, 0, 3);
    bed.fill(0, 3);
    bed.fill(1, 2);
    let oldest = bed.mglru.lists[0].tail().expect("three pages");
    bed.access(oldest, 3);
    bed.new_generation();
    assert_eq!((bed.mglru.min_seq, bed.mglru.max_seq, bed.mglru.size(1)), (1, 4, 5));
    assert_eq!(bed.state(oldest), (false, false, 0));
    assert_eq!(bed.mglru.lists[1].tail(), Some(oldest), "the oldest is still the first to go");
}

#[test]
fn the_walk_promotes_what_was_touched() {
    let mut bed = Bed::new(Version::V6_1, 0, 3);
    let (touched, other) = (bed.insert(Context::Read), bed.insert(Context::Read));
    bed.access(touched, 3);
    bed.mglru.access(&mut bed.pages, touched, Context::Fault);
    bed.new_generation();
    assert_eq!((bed.seq(touched), bed.seq(other)), (3, 1));
    assert_eq!(bed.state(touched), (false, false, 0));
    // 6.14 promotes a page only when the accessed bit is seen for the second time.
    let mut bed = Bed::new(Version::V6_14, 0, 3);
    let frame = bed.insert(Context::Read);
    bed.mglru.access(&mut bed.pages, frame, Context::Fault);
    bed.new_generation();
    assert_eq!((bed.seq(frame), bed.state(frame)), (1, (true, false, 0)));
    bed.mglru.access(&mut bed.pages, frame, Context::Fault);
    bed.new_generation();
    assert_eq!((bed.seq(frame), bed.state(frame)), (4, (false, true, 0)));
}

#[test]
fn eviction_looks_around_a_touched_page() {
    let mut bed = Bed::new(Version::V6_1, 1, 3);
    let frames: Vec<_> = (0..70).map(|index| bed.insert_at(index, Context::Read)).collect();
    for at in [0, 5, 63, 64] {
        bed.mglru.access(&mut bed.pages, frames[at], Context::Fault);
    }
    assert_eq!(bed.evict(1).scanned, 2);
    assert_eq!([0, 5, 63, 64].map(|at: usize| bed.seq(frames[at])), [3, 3, 3, 1]);
    assert_eq!(bed.out[0].frame, frames[1]);
}

#[test]
fn busy_pages_pass_to_the_next_generation() {
    let mut bed = Bed::new(Version::V6_1, 1, 3);
    let frames: Vec<_> = (0..5).map(|index| bed.insert_at(index, Context::Read)).collect();
    bed.pages.set(frames[0], Flags::LOCKED);
    bed.pages.set_dirty(frames[1], ROOT);
    bed.pages.set_dirty(frames[2], ROOT);
    bed.pages.begin_writeback(frames[2]);
    bed.pages.pin(frames[3]);
    let outcome = bed.evict(1);
    assert_eq!(
        outcome,
        ScanOutcome { scanned: 5, evicted: 1, dirty: 1, writeback: 1, ..ScanOutcome::default() }
    );
    assert_eq!([0, 1, 2, 3].map(|at: usize| bed.seq(frames[at])), [2, 2, 2, 3]);
    assert!([0, 1, 2].iter().all(|&at: &usize| bed.pages.has(frames[at], Flags::RECLAIM)));
    assert_eq!(bed.out[0].frame, frames[4]);
}

#[test]
fn amount_of_a_round() {
    let mut bed = Bed::new(Version::V6_1, 1, 3);
    bed.fill(1, 1000);
    let request = |priority| Request { want: 10_000, priority, by: Reclaimer::Kswapd };
    let Bed { mglru, pages, out, .. } = &mut bed;
    assert_eq!(mglru.evict(Instant::ZERO, pages, request(12), out).scanned, 0);
    assert_eq!(mglru.evict(Instant::ZERO, pages, request(6), out).scanned, 15);
    assert_eq!(1_000_000u64 >> DEFAULT_PRIORITY, 244);
}

#[test]
fn young_generations_are_not_evicted() {
    let mut bed = Bed::new(Version::V6_1, 1, 3);
    bed.mglru.min_ttl = Nanos::from_millis(50);
    bed.fill(1, 10);
    assert!(bed.evict(1).is_too_young);
    let request = Request { want: 1, priority: 0, by: Reclaimer::Kswapd };
    let now = Instant::ZERO + Nanos::from_millis(50);
    assert_eq!(bed.mglru.evict(now, &mut bed.pages, request, &mut bed.out).evicted, 1);
}

#[test]
fn direct_reclaim_ages_under_pressure_only() {
    for (priority, by, generations) in
        [(12, Reclaimer::Direct, 0), (11, Reclaimer::Direct, 1), (11, Reclaimer::Kswapd, 0)]
    {
        let mut bed = Bed::new(Version::V6_1, 2, 3);
        bed.fill(2, 10);
        let request = Request { want: 1, priority, by };
        bed.mglru.evict(Instant::ZERO, &mut bed.pages, request, &mut bed.out);
        assert_eq!(bed.mglru.stats.generations, generations, "{by:?} at {priority}");
    }
}

/// Returns a policy with these programs' pages in use and idle, zram for the idle ones, and a
/// hundred file pages in the oldest generation.
fn with_programs(version: Version, touched: u64, idle: u64, swappiness: u8) -> Bed {
    let mut bed = Bed::new(version, 1, 3);
    bed.fill(1, 100);
    let swap = Swap { free: idle, used: 0 };
    bed.mglru.on_anonymous(Anonymous { touched, idle, swap, swappiness, high: 0 });
    bed
}

#[test]
fn the_type_that_comes_back_less_goes() {
    for (refaulted, total, programs_go) in [(100, 2000, false), (1000, 1000, true)] {
        let mut bed = with_programs(Version::V6_1, 0, 100, 60);
        (bed.mglru.control.refaulted[0], bed.mglru.control.evicted[0]) = (refaulted, total);
        // Of programs' pages, 200 or 100 of 1000 refaulted.
        let set = if programs_go { 100 } else { 200 };
        bed.mglru.programs.set_counts(set, 1000);
        let files = bed.mglru.control.position(0, 140);
        assert_eq!(bed.mglru.programs.go_first(Version::V6_1, 1, files), programs_go);
    }
}

#[test]
fn swappiness_at_its_ends() {
    for (swappiness, evicted, swapped) in [(0, 10, 0), (1, 10, 0), (200, 0, 10)] {
        for version in [Version::V6_1, Version::V6_14] {
            let mut bed = with_programs(version, 0, 100, swappiness);
            bed.mglru.programs.move_all(3, 1);
            // All file pages refault.
            (bed.mglru.control.refaulted[0], bed.mglru.control.evicted[0]) = (1000, 1000);
            let outcome = bed.evict(10);
            assert_eq!(
                (outcome.evicted, outcome.swapped),
                (evicted, swapped),
                "{version:?} {swappiness}"
            );
        }
    }
    // In 6.1 older programs' pages are scanned first, unless swappiness is 0; 6.14 compares only
    // the counts.
    for (version, swappiness, is_first) in
        [(Version::V6_1, 1, true), (Version::V6_1, 0, false), (Version::V6_14, 1, false)]
    {
        let bed = with_programs(version, 0, 100, swappiness);
        assert_eq!(
            bed.mglru.programs.go_first(version, 2, bed.mglru.control.position(0, 1)),
            is_first
        );
    }
}

#[test]
fn both_types_end_their_oldest_generation_together_or_not() {
    for (version, min_seq) in [(Version::V6_1, 0), (Version::V6_14, 1)] {
        let mut bed = Bed::new(version, 0, 3);
        bed.fill(1, 10);
        let swap = Swap { free: 10, used: 0 };
        bed.mglru.on_anonymous(Anonymous { touched: 0, idle: 10, swap, swappiness: 1, high: 0 });
        bed.mglru.programs.move_all(3, 0);
        bed.mglru.drop_empty();
        assert_eq!((bed.mglru.min_seq, bed.mglru.programs.min_seq), (min_seq, 0), "{version:?}");
        bed.mglru.self_check(&bed.pages);
        // The oldest generation has no file pages. In 6.1 programs' pages are swapped although
        // swappiness is 1.
        let outcome = bed.evict(4);
        let expected = if version == Version::V6_1 { (0, 4) } else { (4, 0) };
        assert_eq!((outcome.evicted, outcome.swapped), expected, "{version:?}");
        // zram is full: only file generations advance, and programs' oldest one stays.
        bed.mglru.programs.anonymous.swap.free = 0;
        bed.evict(100);
        assert!(
            bed.mglru.min_seq >= 1 && bed.mglru.programs.min_seq == 0 && bed.mglru.size(1) == 0
        );
    }
}

#[test]
fn eviction_and_the_walk_find_programs_that_run() {
    let mut bed = with_programs(Version::V6_1, 60, 40, 200);
    assert_eq!((bed.mglru.programs.size(2), bed.mglru.programs.size(3)), (100, 0));
    bed.mglru.programs.move_all(3, 1);
    let outcome = bed.evict(20);
    assert_eq!(outcome.swapped, 20);
    let left = bed.mglru.anonymous();
    assert_eq!((left.touched, left.idle, left.swap.used), (60, 20, 20));
    assert_eq!(
        bed.mglru.programs.size(3),
        outcome.scanned - 20,
        "those in use are the youngest now"
    );
    bed.new_generation();
    assert_eq!((bed.mglru.programs.size(4), bed.mglru.programs.size(3)), (0, 60));
}

#[test]
fn ageing_counts_programs_where_they_can_go() {
    for (free, is_due) in [(0, false), (1, true)] {
        let mut bed = Bed::new(Version::V6_1, 1, 3);
        (1..).zip([300, 400, 300]).for_each(|(seq, count)| bed.fill(seq, count));
        assert!(!bed.mglru.needs_ageing());
        let swap = Swap { free, used: 0 };
        bed.mglru.on_anonymous(Anonymous { touched: 250, idle: 0, swap, swappiness: 60, high: 0 });
        // The condition is 4 · 300 < 1250.
        assert_eq!(bed.mglru.needs_ageing(), is_due);
    }
}
