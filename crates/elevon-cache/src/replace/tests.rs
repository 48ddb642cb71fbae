//! Compares each policy with a naive model: plain vectors of pages, searched from end to end, that
//! apply the tables of rules one by one.

mod programs;
mod textbook;

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::FileId;
use crate::pages::Entry;
use crate::resident::Resident;
use elevon_core::tenant::ROOT;
use elevon_core::units::{Nanos, PageIndex};

type Key = (u32, u64);

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    frame: u32,
    referenced: bool,
    workingset: bool,
    field: u32,
    accessed: bool,
    dirty: bool,
    writeback: bool,
    locked: bool,
    pins: u32,
    maps: u32,
    executable: bool,
    reclaim: bool,
}

impl Page {
    fn busy(&self) -> bool {
        self.dirty || self.writeback || self.locked
    }
}

/// Lists of keys; the first key of each list is the next to be evicted. A page's list is found by
/// search.
#[derive(Default)]
struct Naive {
    name: &'static str,
    pages: BTreeMap<Key, Page>,
    shadows: BTreeMap<Key, (u64, bool)>,
    /// Leaves of 64 that hold shadows only, oldest first.
    leaves: Vec<Key>,
    lists: BTreeMap<u64, Vec<Key>>,
    evicted: Vec<Key>,
    /// Nonresident age, or the number of ghosts.
    clock: u64,
    min_seq: u64,
    max_seq: u64,
    hand: Option<Key>,
    /// By tier: refaulted and total pages, current and averaged.
    refaulted: [u64; 4],
    total: [u64; 4],
    avg_refaulted: [u64; 4],
    avg_total: [u64; 4],
    restored: u64,
    anonymous: Anonymous,
}

const QUEUE: u64 = 0;
const ACTIVE: u64 = 1;

impl Naive {
    fn new(name: &'static str) -> Self {
        Self { name, max_seq: 3, ..Self::default() }
    }
    fn is_mglru(&self) -> bool {
        self.name.starts_with("mglru")
    }
    fn is_new(&self) -> bool {
        self.name == "mglru-6.14"
    }
    fn page(&mut self, key: Key) -> &mut Page {
        self.pages.get_mut(&key).expect("in memory")
    }
    fn len(&self, list: u64) -> u64 {
        self.lists.get(&list).map_or(0, |list| list.len() as u64)
    }
    fn list_of(&self, key: Key) -> u64 {
        *self.lists.iter().find(|(_, list)| list.contains(&key)).expect("listed").0
    }
    fn take(&mut self, key: Key) {
        if self.hand == Some(key) {
            let list = &self.lists[&QUEUE];
            let at = list.iter().position(|&other| other == key).expect("listed");
            self.hand = list.get(at + 1).copied();
        }
        self.lists.values_mut().for_each(|list| list.retain(|&other| other != key));
    }
    fn put(&mut self, key: Key, list: u64) {
        self.lists.entry(list).or_default().push(key);
    }
    fn put_first(&mut self, key: Key, list: u64) {
        self.lists.entry(list).or_default().insert(0, key);
    }
    fn leaf_changed(&mut self, key: Key) {
        let leaf = (key.0, key.1 / 64);
        let is_in = |&(file, index): &Key| (file, index / 64) == leaf;
        let only_shadows = self.shadows.keys().any(is_in) && !self.pages.keys().any(is_in);
        let listed = self.leaves.contains(&leaf);
        if only_shadows && !listed {
            self.leaves.push(leaf);
        } else if !only_shadows {
            self.leaves.retain(|&other| other != leaf);
        }
    }
    fn limit_shadows(&mut self) {
        while self.leaves.len() > self.pages.len() / 8 {
            let leaf = self.leaves.remove(0);
            self.shadows.retain(|&(file, index), _| (file, index / 64) != leaf);
        }
    }

    fn insert(&mut self, key: Key, frame: u32, context: Context) {
        let shadow = self.shadows.remove(&key).filter(|_| context != Context::Write);
        self.pages.insert(key, Page { frame, ..Page::default() });
        self.leaf_changed(key);
        match self.name {
            "classic" => {
                let anonymous = self.anonymous;
                let swap = if anonymous.swap.free > 0 { anonymous.touched + anonymous.idle } else { 0 };
                let near = shadow.filter(|shadow| self.clock - shadow.0 <= self.len(ACTIVE) + swap);
                if let Some((_, bit)) = near {
                    self.clock += 1;
                    self.page(key).workingset = bit;
                    self.restored += u64::from(bit);
                }
                self.put(key, if near.is_some() { ACTIVE } else { QUEUE });
            }
            "s3-fifo" => {
                let ghost = shadow.is_some_and(|shadow| self.clock - shadow.0 <= self.len(ACTIVE));
                self.page(key).workingset = ghost;
                self.restored += u64::from(ghost);
                self.put(key, if ghost { ACTIVE } else { QUEUE });
            }
            "sieve" => self.put(key, QUEUE),
            _ => {
                if let Some((token, bit)) = shadow {
                    self.refault(key, context, token / 4, (token % 4) as u32, bit);
                }
                let oldest = if self.max_seq - self.min_seq == 2 || self.max_seq - self.min_seq == 1 {
                    self.min_seq
                } else {
                    self.min_seq + 1
                };
                self.put(key, if context == Context::Fault { self.max_seq } else { oldest });
            }
        }
    }

    fn refault(&mut self, key: Key, context: Context, seq: u64, low: u32, bit: bool) {
        let is_recent = if self.is_new() { self.max_seq - seq < 4 } else { seq == self.min_seq };
        if !is_recent {
            return;
        }
        if self.is_new() {
            let tier = if bit { 3 } else { [0, 1, 2, 2][low as usize] };
            self.refaulted[tier] += 1;
            self.page(key).field = low;
            self.page(key).workingset = bit;
            self.restored += u64::from(bit);
            return;
        }
        // Uses before eviction: 2 to 5 with the bit, otherwise 0 or 1.
        let tier = if bit { [1, 2, 2, 3][low as usize] } else { 0 };
        self.refaulted[tier] += 1;
        if context == Context::Fault || bit && low >= 2 {
            (self.page(key).workingset, self.page(key).field) = (true, 3);
            self.restored += 1;
        }
    }

    fn access(&mut self, key: Key, context: Context) {
        let is_active = self.name == "classic" && self.list_of(key) == ACTIVE;
        let name = self.name;
        let page = self.page(key);
        match context {
            Context::Fault => page.accessed = true,
            Context::Write | Context::Readahead => {}
            Context::Read => match name {
                "sieve" => page.referenced = true,
                "s3-fifo" => page.field = 3.min(page.field + 1),
                _ if !page.referenced => page.referenced = true,
                "classic" if !is_active => {
                    page.referenced = false;
                    self.clock += 1;
                    self.take(key);
                    self.put(key, ACTIVE);
                }
                "classic" => {}
                "mglru-6.1" if !page.workingset => page.workingset = true,
                "mglru-6.1" => page.field = 3.min(page.field + 1),
                _ if page.field == 3 => page.workingset = true,
                _ => page.field += 1,
            },
        }
    }

    fn remove(&mut self, key: Key, shadow: Option<(u64, bool)>) {
        self.take(key);
        self.pages.remove(&key);
        shadow.map(|shadow| self.shadows.insert(key, shadow));
        self.leaf_changed(key);
    }

    fn go(&mut self, key: Key, shadow: Option<(u64, bool)>) {
        self.remove(key, shadow);
        self.evicted.push(key);
    }

    fn evict(&mut self, request: Request) -> u64 {
        let before = self.evicted.len() as u64;
        match self.name {
            "classic" => self.evict_classic(request),
            "s3-fifo" => self.evict_s3(request),
            "sieve" => self.evict_sieve(request),
            _ => self.evict_mglru(request),
        }
        self.limit_shadows();
        self.evicted.len() as u64 - before
    }

    fn done(&self, start: usize, request: Request) -> bool {
        (self.evicted.len() - start) as u64 >= request.want
    }

    fn evict_classic(&mut self, request: Request) {
        let start = self.evicted.len();
        // Lists here are shorter than a batch of 32 at each priority above 0; at 0 they may be
        // longer.
        let (mut inactive, mut active) = (self.len(QUEUE) >> request.priority, self.len(ACTIVE) >> request.priority);
        while inactive + active > 0 && !self.done(start, request) {
            for _ in 0..inactive.min(32) {
                inactive -= 1;
                self.classic_tail();
                if self.done(start, request) {
                    break;
                }
            }
            let batch = active.min(32);
            active -= batch;
            if self.len(QUEUE) < self.len(ACTIVE) {
                for _ in 0..batch.min(self.len(ACTIVE)) {
                    let key = self.lists[&ACTIVE][0];
                    self.take(key);
                    let page = self.page(key);
                    if core::mem::take(&mut page.accessed) && page.executable {
                        self.clock += 1;
                        self.put(key, ACTIVE);
                    } else {
                        page.workingset = true;
                        self.put(key, QUEUE);
                    }
                }
            }
        }
    }

    fn classic_tail(&mut self) {
        let Some(&key) = self.lists.get(&QUEUE).and_then(|list| list.first()) else { return };
        self.take(key);
        let page = self.page(key);
        page.reclaim |= page.dirty || page.writeback;
        let (mut activate, mut keep) = (page.writeback && !page.locked, page.locked);
        if !activate && !keep {
            let referenced = core::mem::take(&mut page.referenced);
            if core::mem::take(&mut page.accessed) {
                page.referenced = true;
                activate = referenced || page.maps > 1 || page.executable;
                keep = !activate;
            } else {
                activate = page.dirty;
                keep = page.pins > 0;
            }
        }
        if activate {
            self.clock += 1;
            return self.put(key, ACTIVE);
        }
        if keep {
            return self.put(key, QUEUE);
        }
        let bit = page.workingset;
        let shadow = (self.clock, bit);
        self.clock += 1;
        self.go(key, Some(shadow));
    }

    fn evict_s3(&mut self, request: Request) {
        let start = self.evicted.len();
        let budget = ((4 * self.pages.len() as u64) >> request.priority).max(32);
        let mut round = self.len(QUEUE);
        for _ in 0..budget {
            if self.done(start, request) || self.pages.is_empty() {
                return;
            }
            let large = self.len(QUEUE) * 10 >= self.pages.len() as u64;
            let small = large && round > 0 || self.len(ACTIVE) == 0;
            round = round.saturating_sub(u64::from(small));
            let list = if small { QUEUE } else { ACTIVE };
            let key = self.lists[&list][0];
            self.take(key);
            let page = self.page(key);
            if page.busy() || page.pins > 0 {
                page.reclaim |= page.busy();
                self.put(key, list);
                continue;
            }
            let uses = page.field + u32::from(core::mem::take(&mut page.accessed));
            if small && uses > 1 {
                page.field = 0;
                self.put(key, ACTIVE);
            } else if !small && uses > 0 {
                page.field = uses - 1;
                self.put(key, ACTIVE);
            } else {
                let ghost = small.then_some((self.clock, false));
                self.clock += u64::from(small);
                self.go(key, ghost);
            }
        }
    }

    fn evict_sieve(&mut self, request: Request) {
        let start = self.evicted.len();
        let budget = ((2 * self.pages.len() as u64) >> request.priority).max(32);
        for _ in 0..budget {
            if self.done(start, request) || self.pages.is_empty() {
                return;
            }
            let list = &self.lists[&QUEUE];
            let at = self.hand.map_or(0, |hand| list.iter().position(|&key| key == hand).expect("listed"));
            let (key, next) = (list[at], list.get(at + 1).copied());
            let page = self.page(key);
            let visited = core::mem::take(&mut page.referenced) | core::mem::take(&mut page.accessed);
            if visited || page.busy() || page.pins > 0 {
                page.reclaim |= page.busy();
            } else {
                self.go(key, None);
            }
            self.hand = next;
        }
    }

    fn advance(&mut self) {
        self.min_seq += 1;
        for tier in 0..4 {
            self.avg_refaulted[tier] = (self.avg_refaulted[tier] + self.refaulted[tier]) / 2;
            self.avg_total[tier] = (self.avg_total[tier] + self.total[tier]) / 2;
        }
        (self.refaulted, self.total) = Default::default();
    }

    fn drop_empty(&mut self) {
        while self.max_seq - self.min_seq >= 2 && self.len(self.min_seq) == 0 {
            self.advance();
        }
    }

    /// Returns the highest tier that is not protected.
    fn limit(&self) -> usize {
        let refaulted = |tier: usize| self.avg_refaulted[tier] + self.refaulted[tier];
        let total = |tier: usize| self.avg_total[tier] + self.total[tier];
        let bad = |&tier: &usize| {
            refaulted(tier) >= 64 && refaulted(tier) * (total(0) + 64) > (refaulted(0) + 1) * total(tier) * 2
        };
        (1..4).find(bad).unwrap_or(4) - 1
    }

    fn due(&self) -> bool {
        let generations = self.max_seq - self.min_seq + 1;
        if self.is_new() || generations != 3 {
            return generations < if self.is_new() { 4 } else { 3 };
        }
        let total = self.pages.len() as u64;
        2 * self.len(self.max_seq) > total || 4 * self.len(self.min_seq) < total
    }

    fn reset(&mut self, key: Key) {
        let is_new = self.is_new();
        let page = self.page(key);
        (page.referenced, page.field) = (false, 0);
        page.workingset &= is_new;
    }

    fn promote(&mut self, key: Key) -> bool {
        let is_new = self.is_new();
        let page = self.page(key);
        if is_new && !page.referenced && !page.workingset {
            page.referenced = true;
            return false;
        }
        page.workingset = is_new;
        self.reset(key);
        self.take(key);
        self.put(key, self.max_seq);
        true
    }

    fn generation(&mut self) {
        let mut touched: Vec<_> = self.pages.iter().filter(|(_, page)| page.accessed).collect();
        touched.sort_by_key(|(_, page)| page.frame);
        let touched: Vec<Key> = touched.into_iter().map(|(&key, _)| key).collect();
        for key in touched {
            self.page(key).accessed = false;
            self.promote(key);
        }
        if self.max_seq - self.min_seq == 3 {
            let mut oldest = self.lists.remove(&self.min_seq).unwrap_or_default();
            oldest.iter().for_each(|&key| self.reset(key));
            oldest.extend(self.lists.remove(&(self.min_seq + 1)).unwrap_or_default());
            self.lists.insert(self.min_seq + 1, oldest);
            self.advance();
        }
        self.max_seq += 1;
    }

    fn age(&mut self) {
        if self.is_mglru() {
            self.drop_empty();
            if self.due() {
                self.generation();
            }
        }
    }

    fn evict_mglru(&mut self, request: Request) {
        let start = self.evicted.len();
        self.drop_empty();
        if self.due() && request.by == Reclaimer::Direct && request.priority < 12 {
            self.generation();
        }
        let (mut scanned, budget) = (0, self.pages.len() as u64 >> request.priority);
        // The protected tiers are decided again for each generation, and for every 64 pages.
        let (mut limit, mut left) = (self.limit(), 64);
        while scanned < budget && !self.done(start, request) && self.max_seq - self.min_seq >= 2 {
            match self.lists.get(&self.min_seq).and_then(|list| list.first()) {
                Some(&key) if left > 0 => {
                    (scanned, left) = (scanned + 1, left - 1);
                    self.mglru_tail(key, limit);
                }
                Some(_) => (limit, left) = (self.limit(), 64),
                None => {
                    self.advance();
                    (limit, left) = (self.limit(), 64);
                }
            }
        }
        self.drop_empty();
    }

    /// Returns the number of uses that count, and the tier.
    fn uses(&self, key: Key) -> (u32, usize) {
        let page = &self.pages[&key];
        if self.is_new() {
            let refs = if page.referenced { page.field + 1 } else { 0 };
            (refs, if page.workingset { 3 } else { [0, 0, 1, 2, 2][refs as usize] })
        } else {
            let refs = page.field + u32::from(page.workingset);
            (refs, [0, 1, 2, 2, 3][refs as usize])
        }
    }

    fn mglru_tail(&mut self, key: Key, limit: usize) {
        let is_new = self.is_new();
        let (refs, tier) = self.uses(key);
        let protect = tier > limit || refs == 4 && (!is_new || self.page(key).workingset);
        if protect || self.page(key).busy() {
            self.total[tier] += u64::from(protect);
            self.page(key).reclaim |= !protect;
            self.reset(key);
            self.take(key);
            return self.put(key, self.min_seq + 1);
        }
        let page = self.page(key);
        if !page.referenced {
            page.field = 0;
            page.workingset &= is_new;
        }
        if core::mem::take(&mut page.accessed) {
            if !self.promote(key) {
                self.take(key);
                self.put(key, self.min_seq + 1);
            }
            let near = (key.0, key.1 / 64 * 64)..=(key.0, key.1 / 64 * 64 + 63);
            let near: Vec<Key> =
                self.pages.range(near).filter(|(_, page)| page.accessed).map(|(&key, _)| key).collect();
            for key in near {
                self.page(key).accessed = false;
                self.promote(key);
            }
            return;
        }
        if page.pins > 0 {
            self.reset(key);
            self.take(key);
            return self.put(key, self.max_seq);
        }
        let bit = page.workingset;
        let (refs, tier) = self.uses(key);
        self.total[tier] += 1;
        self.go(key, Some((self.min_seq * 4 + u64::from(refs.max(1) - 1), bit)));
    }

    fn end_writeback(&mut self, key: Key) {
        let page = self.page(key);
        page.writeback = false;
        if core::mem::take(&mut page.reclaim) && !page.dirty && !page.locked {
            match self.name {
                "sieve" => {}
                "s3-fifo" => {
                    let list = self.list_of(key);
                    self.take(key);
                    self.put_first(key, list);
                }
                "classic" => {
                    self.take(key);
                    self.put_first(key, QUEUE);
                }
                _ => {
                    self.take(key);
                    self.put_first(key, self.min_seq);
                }
            }
        }
    }
}

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
                let Some(frame) = self.memory.insert(FileId(key.0), PageIndex::new(key.1), context) else { return };
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
                self.evict(want, priority, if direct { Reclaimer::Direct } else { Reclaimer::Kswapd });
            }
            Step::Age => {
                self.memory.age(Instant::ZERO + Nanos::ZERO);
                self.naive.age();
            }
            Step::Swap(pages, has_swap) => {
                // With swappiness 0, programs' pages only affect the judgement of refaults.
                let swap = Swap { free: u64::from(has_swap), used: 0 };
                let anonymous = Anonymous { touched: pages, idle: pages / 2, swap, swappiness: 0, high: 0 };
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
            Step::Use(..) | Step::Begin(_) | Step::End(_) | Step::Evict(..) | Step::Age | Step::Swap(..) => {}
        }
    }

    fn compare(&self) {
        let evicted: Vec<Key> = self.out.iter().map(|evicted| (evicted.file.0, evicted.index.get())).collect();
        assert_eq!(evicted, self.naive.evicted);
        let pages = self.memory.pages();
        for (&(file, index), page) in &self.naive.pages {
            let frame = FrameId(page.frame);
            assert_eq!(pages.entry(FileId(file), PageIndex::new(index)), Entry::Page(frame));
            let flags = [Flags::REFERENCED, Flags::WORKINGSET, Flags::RECLAIM].map(|flag| pages.has(frame, flag));
            assert_eq!(flags, [page.referenced, page.workingset, page.reclaim], "({file}, {index})");
            assert_eq!((pages.field(frame), self.memory.is_active(frame)), (page.field, page.workingset));
        }
        for (&(file, index), &(stamp, bit)) in &self.naive.shadows {
            assert_eq!(pages.entry(FileId(file), PageIndex::new(index)), Entry::Shadow(Shadow::new(stamp, bit)));
        }
        assert_eq!((pages.used(), pages.shadows()), (self.naive.pages.len() as u64, self.naive.shadows.len() as u64));
        assert_eq!(self.memory.stats().restored, self.naive.restored);
        if let AnyReplacement::Mglru(mglru) = self.memory.policy() {
            assert_eq!((mglru.min_seq(), mglru.max_seq()), (self.naive.min_seq, self.naive.max_seq));
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
        let mut pair = Pair { memory: Resident::new(24 * scale, &config), naive: Naive::new(name), out: Vec::new() };
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
        assert!(name == "sieve" || stats.refaulted > 100 && stats.restored > 0, "{name}: {stats:?}");
        let has_tiers = name == "mglru-6.1" && scale > 1;
        assert!(!has_tiers || stats.protected_by_tier[1..3].iter().sum::<u64>() > 0, "{name}: {stats:?}");
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
