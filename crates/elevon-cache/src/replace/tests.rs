//! Compares each policy with a naive model: plain vectors of pages, searched from end to end, that
//! apply the tables of rules one by one.

mod naive;
mod programs;
mod textbook;

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use naive::{Naive, Page};

use super::*;
use crate::FileId;
use crate::pages::Entry;
use crate::resident::Resident;
use elevon_core::tenant::ROOT;
use elevon_core::units::{Nanos, PageIndex};

type Key = (u32, u64);

#[derive(Clone, Debug)]
enum Step {
    Use(Key, u8),
    Dirty(usize),
    Begin(usize),
    End(usize),
    Lock(usize),
    Pin(usize),
    Map(usize, bool),
    Drop(usize),
    Evict(u64, u8, bool),
    Age,
    Swap(u64, bool),
}

fn step() -> impl Strategy<Value = Step> {
    // Few enough pages that they refault, but more than one leaf.
    let key = || (0..2u32, prop_oneof![0..40u64, 100..130u64]);
    prop_oneof![
        16 => (key(), 0..8u8).prop_map(|(key, how)| Step::Use(key, how)),
        1 => any::<usize>().prop_map(Step::Dirty),
        2 => any::<usize>().prop_map(Step::Begin),
        2 => any::<usize>().prop_map(Step::End),
        1 => any::<usize>().prop_map(Step::Lock),
        1 => any::<usize>().prop_map(Step::Pin),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(pick, code)| Step::Map(pick, code)),
        1 => any::<usize>().prop_map(Step::Drop),
        3 => (1..20u64, 0..4u8, any::<bool>()).prop_map(|(want, priority, direct)| Step::Evict(want, priority, direct)),
        1 => Just(Step::Age),
        1 => (0..20u64, any::<bool>()).prop_map(|(pages, swap)| Step::Swap(pages, swap)),
    ]
}

struct Pair {
    memory: Resident,
    naive: Naive,
    out: Vec<Evicted>,
}

impl Pair {
    fn evict(&mut self, want: u64, priority: u8, by: Reclaimer) {
        let request = Request { want, priority, by };
        let outcome = self.memory.evict(Instant::ZERO, request, &mut self.out);
        assert_eq!(outcome.evicted, self.naive.evict(request));
    }

    fn use_page(&mut self, key: Key, how: u8) {
        let context = match how {
            0 | 1 => Context::Fault,
            2 => Context::Write,
            3 => Context::Readahead,
            _ => Context::Read,
        };
        let frame = match self.memory.find(FileId(key.0), PageIndex::new(key.1)) {
            Some(frame) => frame,
            None => {
                for priority in (0..4).rev() {
                    if self.memory.free() == 0 {
                        self.evict(3, priority, Reclaimer::Direct);
                    }
                }
                let Some(frame) = self.memory.insert(FileId(key.0), PageIndex::new(key.1), context)
                else {
                    return;
                };
                self.naive.insert(key, frame.0, context);
                frame
            }
        };
        self.memory.access(frame, context);
        self.naive.access(key, context);
    }

    fn apply(&mut self, step: Step) {
        let pick = |naive: &Naive, pick: usize| {
            naive.pages.iter().nth(pick % naive.pages.len().max(1)).map(|(&key, &page)| (key, page))
        };
        match step {
            Step::Use(key, how) => self.use_page(key, how),
            Step::Evict(want, priority, direct) => {
                self.evict(
                    want,
                    priority,
                    if direct { Reclaimer::Direct } else { Reclaimer::Kswapd },
                );
            }
            Step::Age => {
                self.memory.age(Instant::ZERO + Nanos::ZERO);
                self.naive.age();
            }
            Step::Swap(pages, has_swap) => {
                // With swappiness 0, programs' pages only affect the judgement of refaults.
                let swap = Swap { free: u64::from(has_swap), used: 0 };
                let anonymous =
                    Anonymous { touched: pages, idle: pages / 2, swap, swappiness: 0, high: 0 };
                self.naive.anonymous = anonymous;
                self.memory.set_programs(anonymous);
            }
            Step::Dirty(at)
            | Step::Begin(at)
            | Step::End(at)
            | Step::Lock(at)
            | Step::Pin(at)
            | Step::Map(at, _)
            | Step::Drop(at) => {
                if let Some((key, page)) = pick(&self.naive, at) {
                    self.change(&step, key, page);
                }
            }
        }
    }

    fn change(&mut self, step: &Step, key: Key, page: Page) {
        let frame = FrameId(page.frame);
        match *step {
            Step::Dirty(_) => {
                self.memory.pages_mut().set_dirty(frame, ROOT);
                self.naive.page(key).dirty = true;
            }
            Step::Begin(_) if page.dirty && !page.writeback => {
                self.memory.pages_mut().begin_writeback(frame);
                (self.naive.page(key).dirty, self.naive.page(key).writeback) = (false, true);
            }
            Step::End(_) if page.writeback => {
                self.memory.end_writeback(frame);
                self.naive.end_writeback(key);
            }
            Step::Lock(_) => {
                let pages = self.memory.pages_mut();
                if page.locked {
                    pages.clear(frame, Flags::LOCKED);
                } else {
                    pages.set(frame, Flags::LOCKED);
                }
                self.naive.page(key).locked ^= true;
            }
            Step::Pin(_) => {
                let pages = self.memory.pages_mut();
                if page.pins == 1 {
                    pages.unpin(frame);
                } else {
                    pages.pin(frame);
                }
                self.naive.page(key).pins ^= 1;
            }
            Step::Map(_, executable) => {
                self.memory.pages_mut().map(frame);
                self.naive.page(key).maps += 1;
                if executable {
                    self.memory.pages_mut().set(frame, Flags::EXECUTABLE);
                    self.naive.page(key).executable = true;
                }
            }
            Step::Drop(_) => {
                let stays = page.locked || page.writeback || page.pins > 0;
                assert_eq!(self.memory.drop_page(frame).is_none(), stays);
                if !stays {
                    self.naive.remove(key, None);
                }
            }
            Step::Use(..)
            | Step::Begin(_)
            | Step::End(_)
            | Step::Evict(..)
            | Step::Age
            | Step::Swap(..) => {}
        }
    }

    fn compare(&self) {
        let evicted: Vec<Key> =
            self.out.iter().map(|evicted| (evicted.file.0, evicted.index.get())).collect();
        assert_eq!(evicted, self.naive.evicted);
        let pages = self.memory.pages();
        for (&(file, index), page) in &self.naive.pages {
            let frame = FrameId(page.frame);
            assert_eq!(pages.entry(FileId(file), PageIndex::new(index)), Entry::Page(frame));
            let flags = [Flags::REFERENCED, Flags::WORKINGSET, Flags::RECLAIM]
                .map(|flag| pages.has(frame, flag));
            assert_eq!(
                flags,
                [page.referenced, page.workingset, page.reclaim],
                "({file}, {index})"
            );
            assert_eq!(
                (pages.field(frame), self.memory.is_active(frame)),
                (page.field, page.workingset)
            );
        }
        for (&(file, index), &(stamp, bit)) in &self.naive.shadows {
            assert_eq!(
                pages.entry(FileId(file), PageIndex::new(index)),
                Entry::Shadow(Shadow::new(stamp, bit))
            );
        }
        assert_eq!(
            (pages.used(), pages.shadows()),
            (self.naive.pages.len() as u64, self.naive.shadows.len() as u64)
        );
        assert_eq!(self.memory.stats().restored, self.naive.restored);
        if let AnyReplacement::Mglru(mglru) = self.memory.policy() {
            assert_eq!(
                (mglru.min_seq(), mglru.max_seq()),
                (self.naive.min_seq, self.naive.max_seq)
            );
            for (&key, page) in &self.naive.pages {
                assert_eq!(mglru.seq(pages, FrameId(page.frame)), self.naive.list_of(key));
            }
        }
        self.memory.self_check();
    }
}

/// Long runs, in which the controller counts enough refaults and few pages are dirty, locked or
/// pinned.
#[test]
fn each_policy_does_as_its_naive_model_for_long() {
    for (name, scale) in POLICIES.into_iter().flat_map(|name| [(name, 1), (name, 16)]) {
        let config = ReplacementConfig::parse(name).expect("a policy");
        let mut pair = Pair {
            memory: Resident::new(24 * scale, &config),
            naive: Naive::new(name),
            out: Vec::new(),
        };
        let mut rng = elevon_testkit::Rng(1);
        let mut draw = |below: u64| rng.below(below);
        for count in 0..12_000 {
            let index = if draw(2) == 0 { draw(12 * scale) } else { draw(60 * scale) };
            let step = match draw(200) {
                0 => Step::Age,
                1 => Step::Evict(draw(6), draw(4) as u8, false),
                2 => Step::Dirty(draw(24 * scale) as usize),
                3..7 => Step::Begin(draw(24 * scale) as usize),
                7..11 => Step::End(draw(24 * scale) as usize),
                11..20 => Step::Use((0, index), 0),
                _ => Step::Use((0, index), 5),
            };
            pair.apply(step);
            if count % (8 * scale * scale) == 0 || count < 50 {
                pair.compare();
            }
        }
        let stats = pair.memory.stats();
        assert!(stats.evicted > 1000, "{name}: {stats:?}");
        assert!(
            name == "sieve" || stats.refaulted > 100 && stats.restored > 0,
            "{name}: {stats:?}"
        );
        let has_tiers = name == "mglru-6.1" && scale > 1;
        assert!(
            !has_tiers || stats.protected_by_tier[1..3].iter().sum::<u64>() > 0,
            "{name}: {stats:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn each_policy_does_as_its_naive_model(steps in prop::collection::vec(step(), 1..250), frames in 1..60u64) {
        for name in POLICIES {
            let config = ReplacementConfig::parse(name).expect("a policy");
            let mut pair = Pair { memory: Resident::new(frames, &config), naive: Naive::new(name), out: Vec::new() };
            for step in &steps {
                pair.apply(step.clone());
                pair.compare();
            }
        }
    }
}
