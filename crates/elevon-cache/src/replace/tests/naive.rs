//! The policies as plain lists, without the structures that make them fast.

use super::*;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Page {
    pub(super) frame: u32,
    pub(super) referenced: bool,
    pub(super) workingset: bool,
    pub(super) field: u32,
    pub(super) accessed: bool,
    pub(super) dirty: bool,
    pub(super) writeback: bool,
    pub(super) locked: bool,
    pub(super) pins: u32,
    pub(super) maps: u32,
    pub(super) executable: bool,
    pub(super) reclaim: bool,
}

impl Page {
    pub(super) fn busy(&self) -> bool {
        self.dirty || self.writeback || self.locked
    }
}

/// Lists of keys; the first key of each list is the next to be evicted. A page's list is found by
/// search.
#[derive(Default)]
pub(super) struct Naive {
    pub(super) name: &'static str,
    pub(super) pages: BTreeMap<Key, Page>,
    pub(super) shadows: BTreeMap<Key, (u64, bool)>,
    /// Leaves of 64 that hold shadows only, oldest first.
    pub(super) leaves: Vec<Key>,
    pub(super) lists: BTreeMap<u64, Vec<Key>>,
    pub(super) evicted: Vec<Key>,
    /// Nonresident age, or the number of ghosts.
    pub(super) clock: u64,
    pub(super) min_seq: u64,
    pub(super) max_seq: u64,
    pub(super) hand: Option<Key>,
    /// By tier: refaulted and total pages, current and averaged.
    pub(super) refaulted: [u64; 4],
    pub(super) total: [u64; 4],
    pub(super) avg_refaulted: [u64; 4],
    pub(super) avg_total: [u64; 4],
    pub(super) restored: u64,
    pub(super) anonymous: Anonymous,
}

pub(super) const QUEUE: u64 = 0;
pub(super) const ACTIVE: u64 = 1;

impl Naive {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, max_seq: 3, ..Self::default() }
    }
    pub(super) fn is_mglru(&self) -> bool {
        self.name.starts_with("mglru")
    }
    pub(super) fn is_new(&self) -> bool {
        self.name == "mglru-6.14"
    }
    pub(super) fn page(&mut self, key: Key) -> &mut Page {
        self.pages.get_mut(&key).expect("in memory")
    }
    pub(super) fn len(&self, list: u64) -> u64 {
        self.lists.get(&list).map_or(0, |list| list.len() as u64)
    }
    pub(super) fn list_of(&self, key: Key) -> u64 {
        *self.lists.iter().find(|(_, list)| list.contains(&key)).expect("listed").0
    }
    pub(super) fn take(&mut self, key: Key) {
        if self.hand == Some(key) {
            let list = &self.lists[&QUEUE];
            let at = list.iter().position(|&other| other == key).expect("listed");
            self.hand = list.get(at + 1).copied();
        }
        self.lists.values_mut().for_each(|list| list.retain(|&other| other != key));
    }
    pub(super) fn put(&mut self, key: Key, list: u64) {
        self.lists.entry(list).or_default().push(key);
    }
    pub(super) fn put_first(&mut self, key: Key, list: u64) {
        self.lists.entry(list).or_default().insert(0, key);
    }
    pub(super) fn leaf_changed(&mut self, key: Key) {
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
    pub(super) fn limit_shadows(&mut self) {
        while self.leaves.len() > self.pages.len() / 8 {
            let leaf = self.leaves.remove(0);
            self.shadows.retain(|&(file, index), _| (file, index / 64) != leaf);
        }
    }

    pub(super) fn insert(&mut self, key: Key, frame: u32, context: Context) {
        let shadow = self.shadows.remove(&key).filter(|_| context != Context::Write);
        self.pages.insert(key, Page { frame, ..Page::default() });
        self.leaf_changed(key);
        match self.name {
            "classic" => {
                let anonymous = self.anonymous;
                let swap =
                    if anonymous.swap.free > 0 { anonymous.touched + anonymous.idle } else { 0 };
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
                let oldest = if self.max_seq - self.min_seq == 2 || self.max_seq - self.min_seq == 1
                {
                    self.min_seq
                } else {
                    self.min_seq + 1
                };
                self.put(key, if context == Context::Fault { self.max_seq } else { oldest });
            }
        }
    }

    pub(super) fn refault(&mut self, key: Key, context: Context, seq: u64, low: u32, bit: bool) {
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

    pub(super) fn access(&mut self, key: Key, context: Context) {
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

    pub(super) fn remove(&mut self, key: Key, shadow: Option<(u64, bool)>) {
        self.take(key);
        self.pages.remove(&key);
        shadow.map(|shadow| self.shadows.insert(key, shadow));
        self.leaf_changed(key);
    }

    pub(super) fn go(&mut self, key: Key, shadow: Option<(u64, bool)>) {
        self.remove(key, shadow);
        self.evicted.push(key);
    }

    pub(super) fn evict(&mut self, request: Request) -> u64 {
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

    pub(super) fn done(&self, start: usize, request: Request) -> bool {
        (self.evicted.len() - start) as u64 >= request.want
    }

    pub(super) fn evict_classic(&mut self, request: Request) {
        let start = self.evicted.len();
        // Lists here are shorter than a batch of 32 at each priority above 0; at 0 they may be
        // longer.
        let (mut inactive, mut active) =
            (self.len(QUEUE) >> request.priority, self.len(ACTIVE) >> request.priority);
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

    pub(super) fn classic_tail(&mut self) {
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

    pub(super) fn evict_s3(&mut self, request: Request) {
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

    pub(super) fn evict_sieve(&mut self, request: Request) {
        let start = self.evicted.len();
        let budget = ((2 * self.pages.len() as u64) >> request.priority).max(32);
        for _ in 0..budget {
            if self.done(start, request) || self.pages.is_empty() {
                return;
            }
            let list = &self.lists[&QUEUE];
            let at = self
                .hand
                .map_or(0, |hand| list.iter().position(|&key| key == hand).expect("listed"));
            let (key, next) = (list[at], list.get(at + 1).copied());
            let page = self.page(key);
            let visited =
                core::mem::take(&mut page.referenced) | core::mem::take(&mut page.accessed);
            if visited || page.busy() || page.pins > 0 {
                page.reclaim |= page.busy();
            } else {
                self.go(key, None);
            }
            self.hand = next;
        }
    }

    pub(super) fn advance(&mut self) {
        self.min_seq += 1;
        for tier in 0..4 {
            self.avg_refaulted[tier] = (self.avg_refaulted[tier] + self.refaulted[tier]) / 2;
            self.avg_total[tier] = (self.avg_total[tier] + self.total[tier]) / 2;
        }
        (self.refaulted, self.total) = Default::default();
    }

    pub(super) fn drop_empty(&mut self) {
        while self.max_seq - self.min_seq >= 2 && self.len(self.min_seq) == 0 {
            self.advance();
        }
    }

    /// Returns the highest tier that is not protected.
    pub(super) fn limit(&self) -> usize {
        let refaulted = |tier: usize| self.avg_refaulted[tier] + self.refaulted[tier];
        let total = |tier: usize| self.avg_total[tier] + self.total[tier];
        let bad = |&tier: &usize| {
            refaulted(tier) >= 64
                && refaulted(tier) * (total(0) + 64) > (refaulted(0) + 1) * total(tier) * 2
        };
        (1..4).find(bad).unwrap_or(4) - 1
    }

    pub(super) fn due(&self) -> bool {
        let generations = self.max_seq - self.min_seq + 1;
        if self.is_new() || generations != 3 {
            return generations < if self.is_new() { 4 } else { 3 };
        }
        let total = self.pages.len() as u64;
        2 * self.len(self.max_seq) > total || 4 * self.len(self.min_seq) < total
    }

    pub(super) fn reset(&mut self, key: Key) {
        let is_new = self.is_new();
        let page = self.page(key);
        (page.referenced, page.field) = (false, 0);
        page.workingset &= is_new;
    }

    pub(super) fn promote(&mut self, key: Key) -> bool {
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

    pub(super) fn generation(&mut self) {
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

    pub(super) fn age(&mut self) {
        if self.is_mglru() {
            self.drop_empty();
            if self.due() {
                self.generation();
            }
        }
    }

    pub(super) fn evict_mglru(&mut self, request: Request) {
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
    pub(super) fn uses(&self, key: Key) -> (u32, usize) {
        let page = &self.pages[&key];
        if self.is_new() {
            let refs = if page.referenced { page.field + 1 } else { 0 };
            (refs, if page.workingset { 3 } else { [0, 0, 1, 2, 2][refs as usize] })
        } else {
            let refs = page.field + u32::from(page.workingset);
            (refs, [0, 1, 2, 2, 3][refs as usize])
        }
    }

    pub(super) fn mglru_tail(&mut self, key: Key, limit: usize) {
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
            let near: Vec<Key> = self
                .pages
                .range(near)
                .filter(|(_, page)| page.accessed)
                .map(|(&key, _)| key)
                .collect();
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

    pub(super) fn end_writeback(&mut self, key: Key) {
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
