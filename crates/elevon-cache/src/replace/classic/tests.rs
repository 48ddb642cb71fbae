//! Worked examples of `workingset_refault` of `mm/workingset.c`.

use alloc::vec::Vec;

use super::balance::{Shares, weigh};
use super::*;
use crate::FileId;
use crate::replace::{Reclaimer, Swap};
use elevon_core::tenant::ROOT;
use elevon_core::units::{Nanos, PageIndex};

/// Returns a policy with `active` active pages that has counted `nonresident`, and one more page,
/// inserted with `shadow`.
fn refault(
    active: u64,
    anonymous: Anonymous,
    shadow: Shadow,
    nonresident: u64,
) -> (Classic, Pages, FrameId) {
    let (mut classic, mut pages) = (Classic::default(), Pages::new(1000));
    for index in 0..active {
        let (frame, _) = pages.insert(FileId(0), PageIndex::new(index)).expect("a frame");
        classic.insert(&mut pages, frame, Context::Read, None);
        (0..2).for_each(|_| classic.access(&mut pages, frame, Context::Read));
    }
    classic.on_anonymous(anonymous);
    classic.nonresident = nonresident;
    let (frame, _) = pages.insert(FileId(1), PageIndex::ZERO).expect("a frame");
    classic.insert(&mut pages, frame, Context::Read, Some(shadow));
    classic.self_check(&pages);
    (classic, pages, frame)
}

#[test]
fn distance_against_the_active_list() {
    for (active, bit, is_active) in
        [(400, true, false), (499, true, false), (500, false, true), (500, true, true)]
    {
        let (classic, pages, frame) =
            refault(active, Anonymous::default(), Shadow::new(1000, bit), 1500);
        assert_eq!(pages.has(frame, Flags::ACTIVE), is_active);
        assert_eq!(pages.has(frame, Flags::WORKINGSET), is_active && bit);
        assert_eq!(classic.nonresident, 1500 + u64::from(is_active));
        assert_eq!(classic.stats.restored, u64::from(is_active && bit));
    }
}

#[test]
fn anonymous_pages_count_where_swap_is_free() {
    let swap = Swap { free: 1, used: 0 };
    let anonymous = Anonymous { touched: 60, idle: 50, swap, ..Anonymous::default() };
    let (_, pages, frame) = refault(400, anonymous, Shadow::new(1000, false), 1500);
    assert!(pages.has(frame, Flags::ACTIVE));
    let (_, pages, frame) = refault(
        400,
        Anonymous { swap: Swap::default(), ..anonymous },
        Shadow::new(1000, false),
        1500,
    );
    assert!(!pages.has(frame, Flags::ACTIVE));
}

#[test]
fn ratio_of_the_lists() {
    let gib = |count: u64| count << 18;
    let ratios = [gib(1) - 1, gib(1), gib(2), gib(4), gib(10), gib(100)].map(inactive_ratio);
    assert_eq!(ratios, [1, 3, 4, 6, 10, 31]);
}

#[derive(Clone)]
struct Small {
    classic: Classic,
    pages: Pages,
    out: Vec<Evicted>,
}

impl Small {
    fn new() -> Self {
        Self { classic: Classic::default(), pages: Pages::new(64), out: Vec::new() }
    }
    fn read(&mut self, index: u64) -> FrameId {
        let frame = self.pages.find(FileId(0), PageIndex::new(index)).unwrap_or_else(|| {
            let (frame, shadow) =
                self.pages.insert(FileId(0), PageIndex::new(index)).expect("a frame");
            self.classic.insert(&mut self.pages, frame, Context::Read, shadow);
            frame
        });
        self.classic.access(&mut self.pages, frame, Context::Read);
        frame
    }
    fn evict(&mut self, want: u64) -> ScanOutcome {
        let request = Request { want, priority: 0, by: Reclaimer::Direct };
        let outcome = self.classic.evict(
            Instant::ZERO + Nanos::ZERO,
            &mut self.pages,
            request,
            &mut self.out,
        );
        self.classic.self_check(&self.pages);
        outcome
    }
}

#[test]
fn read_twice_deactivated_evicted_and_back_too_late() {
    let mut small = Small::new();
    let frame = small.read(0);
    assert!(small.pages.has(frame, Flags::REFERENCED) && !small.pages.has(frame, Flags::ACTIVE));
    small.read(0);
    assert!(!small.pages.has(frame, Flags::REFERENCED) && small.pages.has(frame, Flags::ACTIVE));
    assert_eq!(small.classic.shrink_active(&mut small.pages, 1), 1);
    assert!(small.pages.has(frame, Flags::WORKINGSET), "deactivation sets it");
    assert_eq!(small.evict(1).evicted, 1);
    [1, 2, 3].into_iter().for_each(|index| {
        small.read(index);
        small.read(index);
    });
    let frame = small.read(0);
    // Three activations and one eviction have been counted since, with three active pages: too far.
    assert!(!small.pages.has(frame, Flags::ACTIVE));
    assert_eq!(small.classic.stats.restored, 0);
}

#[test]
fn near_refaults_with_and_without_the_bit() {
    for uses in [1, 2] {
        let mut small = Small::new();
        (0..2).for_each(|_| (10..20).for_each(|index| _ = small.read(index)));
        (0..uses).for_each(|_| _ = small.read(0));
        if uses == 2 {
            let frame = small.pages.find(FileId(0), PageIndex::ZERO).expect("in memory");
            small.classic.take(&mut small.pages, frame);
            small.classic.active.push_tail(&mut small.pages, frame);
            small.pages.set_list_tag(frame, ACTIVE);
            small.classic.shrink_active(&mut small.pages, 1);
        }
        let mut outcome = ScanOutcome::default();
        small.classic.shrink_inactive(
            &mut small.pages,
            Reclaimer::Direct,
            &mut outcome,
            &mut small.out,
        );
        assert_eq!((outcome.evicted, small.out[0].index), (1, PageIndex::ZERO));
        let frame = small.read(0);
        // The page was active when it was read again, but it is not active content.
        assert!(small.pages.has(frame, Flags::ACTIVE));
        assert_eq!(small.pages.has(frame, Flags::WORKINGSET), uses == 2);
        assert_eq!(small.classic.stats.restored, u64::from(uses == 2));
    }
}

#[test]
fn mapped_pages_at_reclaim() {
    let mut small = Small::new();
    let frames: Vec<_> = (0..4).map(|index| small.read(index)).collect();
    for &frame in &frames {
        small.pages.clear(frame, Flags::REFERENCED);
        small.pages.map(frame);
        small.pages.set_accessed(frame);
    }
    small.pages.set(frames[1], Flags::EXECUTABLE);
    small.pages.map(frames[2]);
    small.pages.set(frames[3], Flags::REFERENCED);
    assert_eq!(small.evict(4).evicted, 0);
    let active = [0, 1, 2, 3].map(|at: usize| small.pages.has(frames[at], Flags::ACTIVE));
    assert_eq!(active, [false, true, true, true]);
    assert!(small.pages.has(frames[0], Flags::REFERENCED), "one sighting is remembered");
    // A page that is only marked referenced is not kept if it is clean.
    assert_eq!(small.evict(1).evicted, 1);
    assert_eq!((small.out[0].frame, small.out[0].maps), (frames[0], 1));
}

#[test]
fn dirty_pages_pass_and_come_back_first() {
    let mut small = Small::new();
    let dirty = small.read(0);
    (1..4).for_each(|index| _ = small.read(index));
    small.pages.set_dirty(dirty, ROOT);
    let outcome = small.evict(1);
    assert_eq!((outcome.evicted, outcome.dirty), (1, 1));
    assert!(small.pages.has(dirty, Flags::RECLAIM) && small.pages.has(dirty, Flags::ACTIVE));
    small.pages.begin_writeback(dirty);
    small.pages.end_writeback(dirty);
    small.classic.rotate(&mut small.pages, dirty);
    small.pages.clear(dirty, Flags::RECLAIM);
    small.evict(1);
    assert_eq!(small.out[1].frame, dirty);
}

/// Returns a policy with these programs' pages, zram for all of them, and file pages that were read
/// once.
fn with_programs(touched: u64, idle: u64, swappiness: u8, files: u64) -> Small {
    let mut small = Small::new();
    (0..files).for_each(|index| _ = small.read(index));
    let swap = Swap { free: idle, used: 0 };
    small.classic.on_anonymous(Anonymous { touched, idle, swap, swappiness, high: 4 });
    small
}

fn shares(small: &Small, priority: u8) -> Shares {
    let request = Request { want: 1, priority, by: Reclaimer::Kswapd };
    small.classic.shares(&request, small.pages.capacity())
}

#[test]
fn which_type_a_round_is_about() {
    let parts = |shares: Shares| (shares.programs > 0, shares.files > 0);
    assert_eq!(
        parts(shares(&with_programs(8, 0, 60, 32), 4)),
        (false, true),
        "nothing can be swapped"
    );
    assert_eq!(parts(shares(&with_programs(8, 8, 0, 32), 0)), (false, true), "swappiness 0");
    assert_eq!(
        parts(shares(&with_programs(8, 8, 60, 32), 5)),
        (false, true),
        "plenty of pages read once"
    );
    assert_eq!(parts(shares(&with_programs(8, 8, 60, 32), 6)), (true, true), "32 >> 6 is nothing");
    assert_eq!(parts(shares(&with_programs(8, 8, 60, 32), 0)), (true, true), "the last round");
    assert_eq!(
        parts(shares(&with_programs(30, 30, 60, 4), 4)),
        (true, false),
        "files have next to nothing"
    );
    // A page that refaulted into the active list shows that file pages are in use: reclaim of files
    // counts as easy again only after the next round.
    let mut small = with_programs(8, 8, 60, 32);
    small.classic.refaults = 1;
    assert_eq!(parts(shares(&small, 5)), (true, true));
    small.evict(1);
    small.classic.programs.anonymous.swap.free = 1;
    assert_eq!(parts(shares(&small, 4)), (false, true));
    // If the active list is too long, inactive pages are not plenty.
    (0..32).for_each(|index| _ = small.read(index));
    assert_eq!(parts(shares(&small, 1)), (true, true));
}

#[test]
fn weights_by_swappiness_and_cost() {
    let part = |swappiness, cost, file_cost| {
        let Shares { programs, of, .. } = weigh(swappiness, cost, file_cost);
        programs * 1000 / of
    };
    assert_eq!([0, 60, 100, 200].map(|swappiness| part(swappiness, 0, 0)), [0, 300, 500, 1000]);
    // Costs alone move the share between one and two thirds.
    assert_eq!((part(100, 500, 500), part(100, 1000, 0), part(100, 0, 1000)), (500, 332, 667));
    assert!(part(60, 0, 1000) > part(60, 0, 0) && part(60, 1000, 0) < part(60, 0, 0));
    assert_eq!(weigh(60, 0, 0).amount(1000, 60, 1), 150);
}

#[test]
fn idle_memory_of_programs_goes_to_zram_and_what_is_used_stays() {
    let mut small = with_programs(10, 20, 60, 32);
    small.classic.programs.anonymous.swap.free = 15;
    // The last round takes both types: a batch of programs' idle pages, and as many file pages as
    // wanted.
    let outcome = small.evict(4);
    assert_eq!((outcome.evicted, outcome.swapped, small.classic.stats.swapped), (4, 15, 15));
    let left = small.classic.anonymous();
    assert_eq!((left.touched, left.idle, left.swap), (10, 5, Swap { free: 0, used: 15 }));
    // zram is full: only file pages can be taken.
    assert_eq!(shares(&small, 0).programs, 0);
    assert_eq!(small.evict(100).evicted, 28);
    assert_eq!(small.classic.anonymous(), left);
}

#[test]
fn kswapd_writes_what_it_meets_again_among_dirty_pages_only() {
    let mut small = Small::new();
    let frames: Vec<_> = (0..8).map(|index| small.read(index)).collect();
    let kswapd = |small: &mut Small, by| {
        let request = Request { want: 8, priority: 0, by };
        small.classic.evict(Instant::ZERO, &mut small.pages, request, &mut small.out);
        core::iter::from_fn(|| small.classic.take_write()).collect::<Vec<_>>()
    };
    frames.iter().for_each(|&frame| _ = small.pages.set_dirty(frame, ROOT));
    assert!(kswapd(&mut small, Reclaimer::Kswapd).is_empty(), "met for the first time");
    assert!(
        small.classic.meets_dirty
            && frames.iter().all(|&frame| small.pages.has(frame, Flags::RECLAIM))
    );
    // All pages are on the active list, and return to the inactive one.
    assert!(kswapd(&mut small, Reclaimer::Kswapd).is_empty());
    assert_eq!((small.classic.inactive.len(), small.classic.active.len()), (8, 0));
    let met = small.classic.inactive.tail();
    assert!(
        kswapd(&mut small.clone(), Reclaimer::Direct).is_empty(),
        "an allocating task writes nothing"
    );
    let written = kswapd(&mut small.clone(), Reclaimer::Kswapd);
    assert_eq!((written.first().copied(), written.len()), (met, 8));
    // kswapd has reached the high mark since.
    small.classic.on_balanced();
    assert!(kswapd(&mut small, Reclaimer::Kswapd).is_empty());
}
