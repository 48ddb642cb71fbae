//! A second implementation of mq-deadline with plain vectors and full scans, for comparison step by
//! step.

use super::ClassCounters;
use crate::bio::Bio;
use crate::kernel::Rules;
use crate::merge::requests_are_compatible;
use crate::merge::{MergeKind, is_compatible, position, request_is_mergeable};
use crate::op::Op;
use crate::request::Requests;
use crate::units::RequestId;
use alloc::vec;
use alloc::vec::Vec;

#[derive(Clone, Copy)]
struct Entry {
    id: u32,
    class: usize,
    write: bool,
    sector: u64,
    /// Orders equal sectors.
    placed: u64,
    deadline: i64,
}

pub(super) struct Oracle {
    rules: Rules,
    sequence: u64,
    /// In order of arrival.
    queued: Vec<Entry>,
    /// Newest first: (class, id, direction, tick).
    at_head: Vec<(usize, u32, bool, i64)>,
    /// (end, order of filing, id).
    ends: Vec<(u64, u64, u32)>,
    last_merge: Option<u32>,
    /// 6.1's pointers, by class and direction.
    next: [[Option<u32>; 2]; 3],
    position: [[u64; 2]; 3],
    /// Class of every request between insert and finish.
    known: Vec<Option<usize>>,
    pub counters: [ClassCounters; 3],
    last_write: bool,
    batching: u32,
    starved: u32,
    pub expire: [i64; 2],
    pub aging: i64,
    pub fifo_batch: u32,
    pub writes_starved: i32,
    pub front_merges: bool,
}

impl Oracle {
    pub(super) fn new(rules: Rules, requests: usize, hz: i64) -> Self {
        Self {
            rules,
            sequence: 0,
            queued: vec![],
            at_head: vec![],
            ends: vec![],
            last_merge: None,
            next: [[None; 2]; 3],
            position: [[0; 2]; 3],
            known: vec![None; requests],
            counters: Default::default(),
            last_write: true,
            batching: 0,
            starved: 0,
            expire: [hz / 2, hz * 5],
            aging: hz * 10,
            fifo_batch: 16,
            writes_starved: 2,
            front_merges: true,
        }
    }

    fn class(requests: &Requests, id: u32) -> usize {
        [1, 0, 1, 2][requests[RequestId(id)].ioprio.class() as usize]
    }

    fn sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn admit(&mut self, requests: &Requests, id: u32) -> usize {
        let class = Self::class(requests, id);
        match self.known[id as usize].replace(class) {
            None => self.counters[class].inserted += 1,
            Some(_) => self.counters[class].requeued += 1,
        }
        class
    }

    pub(super) fn insert(&mut self, tick: i64, requests: &Requests, id: u32, at_head: bool) {
        let class = self.admit(requests, id);
        let r = &requests[RequestId(id)];
        let write = r.op != Op::Read;
        if at_head {
            self.at_head.insert(0, (class, id, write, tick));
            return;
        }
        let placed = self.sequence();
        let deadline = tick + self.expire[usize::from(write)];
        self.queued.push(Entry { id, class, write, sector: r.sector.get(), placed, deadline });
        if request_is_mergeable(r) {
            self.ends.push((r.end().get(), placed, id));
            self.last_merge = self.last_merge.or(Some(id));
        }
    }

    fn entry(&self, id: u32) -> Option<&Entry> {
        self.queued.iter().find(|e| e.id == id)
    }

    /// Returns the request after (or before) this one in sorted order.
    pub(super) fn neighbour(&self, id: u32, after: bool) -> Option<u32> {
        let own = *self.entry(id)?;
        let key = |e: &&Entry| (e.sector, e.placed);
        let others = self.queued.iter().filter(|e| e.class == own.class && e.write == own.write);
        match after {
            true => others.filter(|e| key(e) > key(&&own)).min_by_key(key),
            false => others.filter(|e| key(e) < key(&&own)).max_by_key(key),
        }
        .map(|e| e.id)
    }

    fn forget(&mut self, id: u32) -> Entry {
        let own = *self.entry(id).expect("it is queued");
        let successor = self.neighbour(id, true);
        let next = &mut self.next[own.class][usize::from(own.write)];
        if *next == Some(id) {
            *next = successor;
        }
        self.queued.retain(|e| e.id != id);
        self.ends.retain(|e| e.2 != id);
        self.last_merge = self.last_merge.filter(|&m| m != id);
        own
    }

    pub(super) fn finish(&mut self, id: u32) {
        if let Some(class) = self.known[id as usize].take() {
            self.counters[class].completed += 1;
        }
    }

    fn ending_at(&mut self, requests: &Requests, sector: u64) -> Option<u32> {
        self.ends.retain(|&(end, _, id)| {
            end != sector || request_is_mergeable(&requests[RequestId(id)])
        });
        self.ends.iter().filter(|e| e.0 == sector).max_by_key(|e| e.1).map(|e| e.2)
    }

    pub(super) fn find_merge(
        &mut self,
        requests: &Requests,
        bio: &Bio,
        one_hit: bool,
    ) -> Option<(u32, MergeKind)> {
        let rules = self.rules;
        let fits = |id: &u32| is_compatible(&rules, &requests[RequestId(*id)], bio);
        if let Some(id) = self.last_merge.filter(fits)
            && let Some(kind) = position(&requests[RequestId(id)], bio, 1)
        {
            return Some((id, kind));
        }
        if one_hit {
            return None;
        }
        if let Some(id) = self.ending_at(requests, bio.sector.get()).filter(fits) {
            return Some((id, MergeKind::Back));
        }
        let class = [1, 0, 1, 2][bio.ioprio.class() as usize];
        let mut starts: Vec<&Entry> = self.queued.iter().collect();
        starts.retain(|e| {
            e.class == class && e.write == (bio.op != Op::Read) && e.sector == bio.end().get()
        });
        let first = starts.iter().min_by_key(|e| e.placed).map(|e| e.id);
        first.filter(|_| self.front_merges).filter(fits).map(|id| (id, MergeKind::Front))
    }

    pub(super) fn find_insert_merge(
        &mut self,
        requests: &Requests,
        id: u32,
        one_hit: bool,
    ) -> Option<u32> {
        let (rules, request) = (self.rules, &requests[RequestId(id)]);
        let fits = |&other: &u32| {
            let candidate = &requests[RequestId(other)];
            other != id
                && candidate.end() == request.sector
                && requests_are_compatible(&rules, candidate, request)
        };
        match self.last_merge.filter(fits) {
            None if !one_hit => self.ending_at(requests, request.sector.get()).filter(fits),
            cached => cached,
        }
    }

    /// Called after a bio was merged; `requests` is the state after that.
    pub(super) fn joined(&mut self, requests: &Requests, id: u32, kind: MergeKind) {
        let r = &requests[RequestId(id)];
        let placed = self.sequence();
        if kind == MergeKind::Front {
            let entry = self.queued.iter_mut().find(|e| e.id == id).expect("it is queued");
            (entry.sector, entry.placed) = (r.sector.get(), placed);
        }
        self.refile(id, r.end().get());
    }

    fn refile(&mut self, id: u32, end: u64) {
        let placed = self.sequence();
        for e in self.ends.iter_mut().filter(|e| e.2 == id && e.0 != end) {
            *e = (end, placed, id);
        }
        self.last_merge = Some(id);
    }

    /// Called before a request merge; `requests` is the state before that.
    pub(super) fn swallowed(&mut self, requests: &Requests, survivor: u32, swallowed: u32) {
        let class = Self::class(requests, swallowed);
        let grown = requests[RequestId(survivor)].end() + requests[RequestId(swallowed)].sectors;
        if self.entry(swallowed).is_some() {
            let place = self.queued.iter().position(|e| e.id == swallowed).expect("it is queued");
            let mut winner = *self.entry(survivor).expect("it is queued");
            if self.queued[place].deadline < winner.deadline {
                winner.deadline = self.queued[place].deadline;
                let own = self.queued.iter().position(|e| e.id == survivor).expect("it is queued");
                // The survivor takes the other's place, and the other is removed from the
                // survivor's old place.
                self.queued.swap(place, own);
                self.queued[place] = winner;
            }
            self.forget(swallowed);
        } else {
            self.admit(requests, swallowed);
        }
        self.counters[class].merged += 1;
        self.refile(survivor, grown.get());
    }

    fn outstanding(&self, class: usize) -> u32 {
        self.counters[class].inserted - self.counters[class].completed
    }

    fn give(&mut self, class: usize, id: u32) -> Option<u32> {
        self.counters[class].dispatched += 1;
        Some(id)
    }

    pub(super) fn dispatch(&mut self, tick: i64) -> Option<u32> {
        if self.rules.deadline_head_list_per_device && !self.at_head.is_empty() {
            let (class, id, ..) = self.at_head.remove(0);
            return self.give(class, id);
        }
        if (0..3).filter(|&c| self.outstanding(c) > 0).count() >= 2 {
            for class in [1, 2] {
                if let Some(id) = self.attempt(class, tick, tick - self.aging) {
                    return Some(id);
                }
            }
        }
        for class in 0..3 {
            let id = self.attempt(class, tick, tick);
            if id.is_some() || self.outstanding(class) > 0 {
                return id;
            }
        }
        None
    }

    fn next(&self, class: usize, write: bool) -> Option<u32> {
        if !self.rules.deadline_position {
            return self.next[class][usize::from(write)];
        }
        let from = self.position[class][usize::from(write)];
        let ahead =
            self.queued.iter().filter(|e| e.class == class && e.write == write && e.sector >= from);
        ahead.min_by_key(|e| (e.sector, e.placed)).map(|e| e.id)
    }

    fn oldest(&self, class: usize, write: bool) -> Option<&Entry> {
        self.queued.iter().find(|e| e.class == class && e.write == write)
    }

    fn attempt(&mut self, class: usize, tick: i64, latest: i64) -> Option<u32> {
        if let Some(at) = self.at_head.iter().position(|h| h.0 == class) {
            let (_, id, write, since) = self.at_head[at];
            if since - self.expire[usize::from(write)] > latest {
                return None;
            }
            self.at_head.remove(at);
            return self.give(class, id);
        }
        let chosen = match self.next(class, self.last_write) {
            Some(id) if self.batching < self.fifo_batch => id,
            _ => {
                let (read, write) =
                    (self.oldest(class, false).is_some(), self.oldest(class, true).is_some());
                let mut to_write = write && !read;
                if read && write {
                    to_write = self.starved >= self.writes_starved as u32;
                    self.starved = self.starved.wrapping_add(1);
                }
                if to_write {
                    self.starved = 0;
                }
                let head = *self.oldest(class, to_write)?;
                (self.last_write, self.batching) = (to_write, 0);
                if tick >= head.deadline {
                    head.id
                } else {
                    self.next(class, to_write).unwrap_or(head.id)
                }
            }
        };
        let entry = *self.entry(chosen).expect("it is queued");
        if entry.deadline - self.expire[usize::from(entry.write)] > latest {
            return None;
        }
        self.batching += 1;
        self.position[class][usize::from(entry.write)] = entry.sector;
        self.next[class][usize::from(entry.write)] = self.neighbour(chosen, true);
        self.forget(chosen);
        self.give(class, chosen)
    }

    /// Returns how many requests of a class are queued or at the head.
    pub(super) fn queued_in(&self, class: usize) -> usize {
        self.queued.iter().filter(|e| e.class == class).count()
            + self.at_head.iter().filter(|h| h.0 == class).count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.at_head.is_empty()
    }
}
