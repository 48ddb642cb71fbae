use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, u64),
    Remove(usize, bool),
    Dirty(usize),
    Begin(usize),
    End(usize),
    Tag(u32, u64, u64),
    Forget(u32, u64, u64),
    Limit,
}

/// Returns indexes near 0, close together far away, and at the very end.
fn index() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..200u64,
        (0..40u64).prop_map(|at| at * 37),
        (1 << 40..(1u64 << 40) + 100),
        (u64::MAX - 70..=u64::MAX)
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3u32, index()).prop_map(|(file, index)| Step::Insert(file, index)),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(pick, shadow)| Step::Remove(pick, shadow)),
        2 => any::<usize>().prop_map(Step::Dirty),
        2 => any::<usize>().prop_map(Step::Begin),
        2 => any::<usize>().prop_map(Step::End),
        1 => (0..3u32, index(), index()).prop_map(|(file, a, b)| Step::Tag(file, a.min(b), a.max(b))),
        1 => (0..3u32, index(), index()).prop_map(|(file, a, b)| Step::Forget(file, a, b)),
        1 => (0..3u32, index()).prop_map(|(file, a)| Step::Forget(file, a, a.saturating_add(3))),
        1 => Just(Step::Limit),
    ]
}

#[derive(Default)]
struct Naive {
    pages: BTreeMap<(u32, u64), FrameId>,
    shadows: BTreeMap<(u32, u64), Shadow>,
    tags: [BTreeSet<(u32, u64)>; 3],
}

impl Naive {
    fn pick(&self, pick: usize) -> Option<((u32, u64), FrameId)> {
        self.pages.iter().nth(pick % self.pages.len().max(1)).map(|(&key, &frame)| (key, frame))
    }

    fn apply(&mut self, pages: &mut Pages, step: Step, count: u64) {
        match step {
            Step::Insert(file, index) => {
                if self.pages.contains_key(&(file, index)) {
                    return;
                }
                let full = self.pages.len() as u64 == pages.capacity();
                let Some((frame, shadow)) = pages.insert(FileId(file), PageIndex::new(index))
                else {
                    return assert!(full);
                };
                assert!(!full);
                assert_eq!(shadow, self.shadows.remove(&(file, index)));
                self.pages.insert((file, index), frame);
            }
            Step::Remove(pick, leaves) => {
                let Some((key, frame)) =
                    self.pick(pick).filter(|&(_, frame)| pages.is_evictable(frame))
                else {
                    return;
                };
                let shadow = leaves.then(|| Shadow::new(count, count.is_multiple_of(3)));
                let evicted = pages.remove(frame, shadow);
                assert_eq!((evicted.file.0, evicted.index.get()), key);
                self.pages.remove(&key);
                shadow.map(|shadow| self.shadows.insert(key, shadow));
                self.tags[Tag::ToWrite as usize].remove(&key);
            }
            Step::Dirty(pick) => {
                let Some((key, frame)) = self.pick(pick) else { return };
                assert_eq!(pages.set_dirty(frame, ROOT), self.tags[0].insert(key));
            }
            Step::Begin(pick) => {
                let Some((key, frame)) = self.pick(pick) else { return };
                if self.tags[0].contains(&key) && !self.tags[1].contains(&key) {
                    pages.begin_writeback(frame);
                    self.tags[0].remove(&key);
                    self.tags[2].remove(&key);
                    self.tags[1].insert(key);
                }
            }
            Step::End(pick) => {
                let Some((key, frame)) = self.pick(pick) else { return };
                if self.tags[1].remove(&key) {
                    pages.end_writeback(frame);
                }
            }
            Step::Tag(file, first, last) => {
                let dirty: Vec<_> =
                    self.tags[0].range((file, first)..=(file, last)).copied().collect();
                assert_eq!(
                    pages.tag_to_write(FileId(file), PageIndex::new(first), PageIndex::new(last)),
                    dirty.len() as u64
                );
                self.tags[2].extend(dirty);
            }
            Step::Forget(file, first, end) => {
                pages.forget(FileId(file), PageIndex::new(first), PageIndex::new(end));
                self.shadows.retain(|&(of, index), _| of != file || !(first..end).contains(&index));
            }
            Step::Limit => {
                pages.limit_shadows();
                self.shadows.retain(|&(file, index), &mut shadow| {
                    pages.entry(FileId(file), PageIndex::new(index)) == Entry::Shadow(shadow)
                });
                assert_eq!(self.shadows.len() as u64, pages.shadows());
            }
        }
    }

    fn compare(&self, pages: &mut Pages, file: u32, at: u64) {
        let key = (file, at);
        assert_eq!(pages.find(FileId(file), PageIndex::new(at)), self.pages.get(&key).copied());
        let entry = match (self.pages.get(&key), self.shadows.get(&key)) {
            (Some(&frame), _) => Entry::Page(frame),
            (None, Some(&shadow)) => Entry::Shadow(shadow),
            (None, None) => Entry::Empty,
        };
        assert_eq!(pages.entry(FileId(file), PageIndex::new(at)), entry);
        let next = self
            .pages
            .range(key..=(file, u64::MAX))
            .next()
            .map(|(&(_, index), &frame)| (PageIndex::new(index), frame));
        assert_eq!(pages.next(FileId(file), PageIndex::new(at)), next);
        for (tag, marked) in [Tag::Dirty, Tag::Writeback, Tag::ToWrite].into_iter().zip(&self.tags)
        {
            let next = marked
                .range(key..=(file, u64::MAX))
                .next()
                .map(|key| (PageIndex::new(key.1), self.pages[key]));
            assert_eq!(pages.next_tagged(FileId(file), PageIndex::new(at), tag), next, "{tag:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn the_index_is_a_map(steps in prop::collection::vec((step(), 0..3u32, index()), 1..150), frames in 1..60u64) {
        let (mut pages, mut naive) = (Pages::new(frames), Naive::default());
        for (count, (step, file, at)) in steps.into_iter().enumerate() {
            naive.apply(&mut pages, step, count as u64);
            naive.compare(&mut pages, file, at);
            pages.self_check();
        }
        assert_eq!(pages.file_pages(FileId(0)), naive.pages.keys().filter(|key| key.0 == 0).count() as u64);
    }
}

#[test]
fn shadow_leaves_go_oldest_first() {
    let mut pages = Pages::new(64);
    for index in 0..4 {
        let (frame, _) = pages.insert(FileId(0), PageIndex::new(index * 64)).expect("a frame");
        pages.remove(frame, Some(Shadow::new(index, false)));
    }
    // Sixteen pages allow two leaves that hold shadows only.
    (0..16).for_each(|index| assert!(pages.insert(FileId(1), PageIndex::new(index)).is_some()));
    pages.limit_shadows();
    let left = [0, 64, 128, 192]
        .map(|index| pages.entry(FileId(0), PageIndex::new(index)) != Entry::Empty);
    assert_eq!(left, [false, false, true, true]);
    pages.self_check();
}

#[test]
fn frames_are_neighbours_when_fresh_and_when_freed_in_order() {
    let mut pages = Pages::new(8);
    let first: Vec<_> = (0..8)
        .map(|index| pages.insert(FileId(0), PageIndex::new(index)).expect("a frame").0)
        .collect();
    assert_eq!(first, (0..8).map(FrameId).collect::<Vec<_>>());
    assert!(pages.insert(FileId(0), PageIndex::new(9)).is_none());
    for at in [2, 3, 4] {
        pages.remove(FrameId(at), None);
    }
    let again: Vec<_> = (10..13)
        .map(|index| pages.insert(FileId(0), PageIndex::new(index)).expect("a frame").0.0)
        .collect();
    assert_eq!(again, [2, 3, 4]);
}

#[test]
fn the_marker_bit_is_shared() {
    let mut pages = Pages::new(1);
    let (frame, _) = pages.insert(FileId(0), PageIndex::ZERO).expect("a frame");
    pages.set(frame, Flags::READAHEAD | Flags::UPTODATE);
    assert!(pages.has(frame, Flags::RECLAIM));
    pages.set_dirty(frame, ROOT);
    assert!(pages.has(frame, Flags::READAHEAD), "dirtying keeps it");
    assert!(pages.flags(frame).has(Flags::UPTODATE));
}

#[test]
fn pages_in_use_stay() {
    let mut pages = Pages::new(1);
    let (frame, _) = pages.insert(FileId(0), PageIndex::ZERO).expect("a frame");
    pages.set(frame, Flags::LOCKED);
    assert!(!pages.is_evictable(frame));
    pages.clear(frame, Flags::LOCKED);
    (0..300).for_each(|_| pages.pin(frame));
    (0..299).for_each(|_| pages.unpin(frame));
    assert!(!pages.is_evictable(frame));
    pages.unpin(frame);
    pages.set_dirty(frame, ROOT);
    assert!(!pages.is_evictable(frame));
    pages.begin_writeback(frame);
    assert!(!pages.is_evictable(frame));
    pages.end_writeback(frame);
    assert!(pages.is_evictable(frame));
}
