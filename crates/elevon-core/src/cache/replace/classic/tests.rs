use alloc::vec::Vec;

use super::*;
use crate::cache::FileId;
use crate::cache::replace::Reclaimer;
use crate::units::Nanos;

/// A policy with so many active pages, that has counted `nonresident`, and one more page to be judged by a shadow.
fn refault(active: u64, anonymous: Anonymous, shadow: Shadow, nonresident: u64) -> (Classic, Pages, Slot) {
    let (mut classic, mut pages) = (Classic::default(), Pages::new(1000));
    for index in 0..active {
        let (slot, _) = pages.insert(FileId(0), index).expect("a frame");
        classic.insert(&mut pages, slot, Context::Read, None);
        (0..2).for_each(|_| classic.access(&mut pages, slot, Context::Read));
    }
    classic.on_anonymous(anonymous);
    classic.nonresident = nonresident;
    let (slot, _) = pages.insert(FileId(1), 0).expect("a frame");
    classic.insert(&mut pages, slot, Context::Read, Some(shadow));
    classic.self_check(&pages);
    (classic, pages, slot)
}

#[test]
fn distance_against_the_active_list() {
    for (active, bit, is_active) in [(400, true, false), (499, true, false), (500, false, true), (500, true, true)] {
        let (classic, pages, slot) = refault(active, Anonymous::default(), Shadow::new(1000, bit), 1500);
        assert_eq!(pages.has(slot, Flags::ACTIVE), is_active);
        assert_eq!(pages.has(slot, Flags::WORKINGSET), is_active && bit);
        assert_eq!(classic.nonresident, 1500 + u64::from(is_active));
        assert_eq!(classic.stats.restored, u64::from(is_active && bit));
    }
}

#[test]
fn anonymous_pages_count_where_swap_is_free() {
    let anonymous = Anonymous { active: 60, inactive: 50, has_swap: true };
    let (_, pages, slot) = refault(400, anonymous, Shadow::new(1000, false), 1500);
    assert!(pages.has(slot, Flags::ACTIVE));
    let (_, pages, slot) = refault(400, Anonymous { has_swap: false, ..anonymous }, Shadow::new(1000, false), 1500);
    assert!(!pages.has(slot, Flags::ACTIVE));
}

#[test]
fn ratio_of_the_lists() {
    let gib = |count: u64| count << 18;
    let ratios = [gib(1) - 1, gib(1), gib(2), gib(4), gib(10), gib(100)].map(inactive_ratio);
    assert_eq!(ratios, [1, 3, 4, 6, 10, 31]);
}

struct Small {
    classic: Classic,
    pages: Pages,
    out: Vec<Evicted>,
}

impl Small {
    fn new() -> Self {
        Self { classic: Classic::default(), pages: Pages::new(64), out: Vec::new() }
    }
    fn read(&mut self, index: u64) -> Slot {
        let slot = self.pages.find(FileId(0), index).unwrap_or_else(|| {
            let (slot, shadow) = self.pages.insert(FileId(0), index).expect("a frame");
            self.classic.insert(&mut self.pages, slot, Context::Read, shadow);
            slot
        });
        self.classic.access(&mut self.pages, slot, Context::Read);
        slot
    }
    fn evict(&mut self, want: u64) -> Outcome {
        let request = Request { want, priority: 0, by: Reclaimer::Direct };
        let outcome = self.classic.evict(Instant::ZERO + Nanos::ZERO, &mut self.pages, request, &mut self.out);
        self.classic.self_check(&self.pages);
        outcome
    }
}

#[test]
fn read_twice_deactivated_evicted_and_back_too_late() {
    let mut small = Small::new();
    let slot = small.read(0);
    assert!(small.pages.has(slot, Flags::REFERENCED) && !small.pages.has(slot, Flags::ACTIVE));
    small.read(0);
    assert!(!small.pages.has(slot, Flags::REFERENCED) && small.pages.has(slot, Flags::ACTIVE));
    assert_eq!(small.classic.shrink_active(&mut small.pages, 1), 1);
    assert!(small.pages.has(slot, Flags::WORKINGSET), "deactivation sets it");
    assert_eq!(small.evict(1).evicted, 1);
    [1, 2, 3].into_iter().for_each(|index| {
        small.read(index);
        small.read(index);
    });
    let slot = small.read(0);
    // Three activations and one eviction since, and three active pages: too far.
    assert!(!small.pages.has(slot, Flags::ACTIVE));
    assert_eq!(small.classic.stats.restored, 0);
}

#[test]
fn near_refaults_with_and_without_the_bit() {
    for uses in [1, 2] {
        let mut small = Small::new();
        (0..2).for_each(|_| (10..20).for_each(|index| _ = small.read(index)));
        (0..uses).for_each(|_| _ = small.read(0));
        if uses == 2 {
            let slot = small.pages.find(FileId(0), 0).expect("in memory");
            small.classic.take(&mut small.pages, slot);
            small.classic.active.push_tail(&mut small.pages, slot);
            small.pages.set_list_tag(slot, ACTIVE);
            small.classic.shrink_active(&mut small.pages, 1);
        }
        let mut outcome = Outcome::default();
        small.classic.shrink_inactive(&mut small.pages, &mut outcome, &mut small.out);
        assert_eq!((outcome.evicted, small.out[0].index), (1, 0));
        let slot = small.read(0);
        assert!(small.pages.has(slot, Flags::ACTIVE));
        assert_eq!(small.pages.has(slot, Flags::WORKINGSET), uses == 2);
        assert_eq!(small.classic.stats.restored, u64::from(uses == 2));
    }
}

#[test]
fn mapped_pages_at_reclaim() {
    let mut small = Small::new();
    let slots: Vec<_> = (0..4).map(|index| small.read(index)).collect();
    for &slot in &slots {
        small.pages.clear(slot, Flags::REFERENCED);
        small.pages.map(slot);
        small.pages.set_accessed(slot);
    }
    small.pages.set(slots[1], Flags::EXECUTABLE);
    small.pages.map(slots[2]);
    small.pages.set(slots[3], Flags::REFERENCED);
    assert_eq!(small.evict(4).evicted, 0);
    let active = [0, 1, 2, 3].map(|at: usize| small.pages.has(slots[at], Flags::ACTIVE));
    assert_eq!(active, [false, true, true, true]);
    assert!(small.pages.has(slots[0], Flags::REFERENCED), "one sighting is remembered");
    // Referenced alone does not keep a clean page.
    assert_eq!(small.evict(1).evicted, 1);
    assert_eq!((small.out[0].slot, small.out[0].maps), (slots[0], 1));
}

#[test]
fn dirty_pages_pass_and_come_back_first() {
    let mut small = Small::new();
    let dirty = small.read(0);
    (1..4).for_each(|index| _ = small.read(index));
    small.pages.set_dirty(dirty);
    let outcome = small.evict(1);
    assert_eq!((outcome.evicted, outcome.dirty), (1, 1));
    assert!(small.pages.has(dirty, Flags::RECLAIM) && small.pages.has(dirty, Flags::ACTIVE));
    small.pages.begin_writeback(dirty);
    small.pages.end_writeback(dirty);
    small.classic.rotate(&mut small.pages, dirty);
    small.pages.clear(dirty, Flags::RECLAIM);
    small.evict(1);
    assert_eq!(small.out[1].slot, dirty);
}
