//! Lists of requests in order of arrival, linked by index: any number of lists over one table, no
//! allocation per operation.
//!
//! Every operation is O(1). A request is in one list at a time.

extern crate alloc;
use alloc::vec::Vec;

use crate::units::RequestId;

const NIL: u32 = u32::MAX;

/// A list, by its two ends. Empty at first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
}

impl Fifo {
    /// A list without requests.
    pub(crate) const EMPTY: Self = Self { head: NIL, tail: NIL };

    /// Returns true if the list has no request.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.head == NIL
    }
    /// Returns the oldest request.
    #[inline]
    pub(crate) const fn first(&self) -> Option<RequestId> {
        if self.head == NIL { None } else { Some(RequestId(self.head)) }
    }
    /// Returns the newest request.
    #[inline]
    pub(crate) const fn last(&self) -> Option<RequestId> {
        if self.tail == NIL { None } else { Some(RequestId(self.tail)) }
    }
}

impl Default for Fifo {
    fn default() -> Self {
        Self::EMPTY
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
}

/// The links of every list over one request table.
#[derive(Clone, Debug, Default)]
pub(crate) struct FifoLinks {
    links: Vec<Link>,
}

impl FifoLinks {
    /// Returns links for the keys below `count`.
    pub(crate) fn new(count: usize) -> Self {
        let mut links = Self::default();
        links.grow(count);
        links
    }

    /// Makes room for the keys below `count`; never shrinks.
    pub(crate) fn grow(&mut self, count: usize) {
        if count > self.links.len() {
            self.links.resize(count, Link { prev: NIL, next: NIL });
        }
    }

    /// Links two neighbours, each of which may be the list's end.
    #[inline]
    fn join(&mut self, list: &mut Fifo, left: u32, right: u32) {
        if left == NIL {
            list.head = right;
        } else {
            self.links[left as usize].next = right;
        }
        if right == NIL {
            list.tail = left;
        } else {
            self.links[right as usize].prev = left;
        }
    }

    /// Appends a request as the newest.
    #[inline]
    pub(crate) fn push_back(&mut self, list: &mut Fifo, id: RequestId) {
        let tail = list.tail;
        self.join(list, tail, id.0);
        self.join(list, id.0, NIL);
    }

    /// Puts a request before the oldest.
    #[inline]
    pub(crate) fn push_front(&mut self, list: &mut Fifo, id: RequestId) {
        let head = list.head;
        self.join(list, id.0, head);
        self.join(list, NIL, id.0);
    }

    /// Removes a request from its list.
    #[inline]
    pub(crate) fn remove(&mut self, list: &mut Fifo, id: RequestId) {
        let Link { prev, next } = self.links[id.index()];
        self.join(list, prev, next);
    }

    /// Removes the oldest request and returns it.
    #[inline]
    pub(crate) fn pop_front(&mut self, list: &mut Fifo) -> Option<RequestId> {
        let id = list.first()?;
        self.remove(list, id);
        Some(id)
    }

    /// Replaces `old` by `new`, which must be in no list.
    pub(crate) fn replace(&mut self, list: &mut Fifo, old: RequestId, new: RequestId) {
        let Link { prev, next } = self.links[old.index()];
        self.join(list, prev, new.0);
        self.join(list, new.0, next);
    }

    /// Moves all requests of `from` behind the newest request of `list`.
    pub(crate) fn append(&mut self, list: &mut Fifo, from: &mut Fifo) {
        let taken = core::mem::take(from);
        if list.is_empty() {
            *list = taken;
        } else if !taken.is_empty() {
            let tail = list.tail;
            self.join(list, tail, taken.head);
            list.tail = taken.tail;
        }
    }

    /// Returns the request that arrived before this one.
    #[inline]
    pub(crate) fn prev(&self, id: RequestId) -> Option<RequestId> {
        match self.links[id.index()].prev {
            NIL => None,
            n => Some(RequestId(n)),
        }
    }

    /// Iterates over a list, oldest first.
    pub(crate) fn iter(&self, list: Fifo) -> impl Iterator<Item = RequestId> {
        core::iter::successors(list.first(), |id| match self.links[id.index()].next {
            NIL => None,
            n => Some(RequestId(n)),
        })
    }

    /// Checks the back links and returns the number of requests. For tests: O(n), panics if a link
    /// is wrong.
    pub(crate) fn self_check(&self, list: Fifo) -> usize {
        let (mut count, mut before) = (0, None);
        for id in self.iter(list) {
            assert_eq!(self.prev(id), before, "back link of {} is wrong", id.0);
            before = Some(id);
            count += 1;
        }
        assert_eq!(list.last(), before, "the tail is not the last");
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;

    #[test]
    fn agrees_with_deques_at_every_step() {
        let mut rng = elevon_testkit::Rng(7);
        let mut below = move |n: u64| rng.below(n);
        let mut links = FifoLinks::new(16);
        let mut lists = [Fifo::EMPTY; 2];
        let mut oracle: [VecDeque<u32>; 2] = Default::default();
        for _ in 0..5000 {
            let (which, id) = (below(2) as usize, below(16) as u32);
            let at = oracle.iter().position(|l| l.contains(&id));
            match (at, below(5)) {
                (None, 0) => {
                    links.push_front(&mut lists[which], RequestId(id));
                    oracle[which].push_front(id);
                }
                (None, 1) if !oracle[which].is_empty() => {
                    let place = below(oracle[which].len() as u64) as usize;
                    links.replace(
                        &mut lists[which],
                        RequestId(oracle[which][place]),
                        RequestId(id),
                    );
                    oracle[which][place] = id;
                }
                (None, _) => {
                    links.push_back(&mut lists[which], RequestId(id));
                    oracle[which].push_back(id);
                }
                (Some(list), 0) => {
                    assert_eq!(
                        links.pop_front(&mut lists[list]),
                        oracle[list].pop_front().map(RequestId)
                    );
                }
                (Some(_), 1) => {
                    let [a, b] = &mut lists;
                    links.append(a, b);
                    let [a, b] = &mut oracle;
                    a.append(b);
                }
                (Some(list), _) => {
                    links.remove(&mut lists[list], RequestId(id));
                    oracle[list].retain(|&x| x != id);
                }
            }
            for (list, oracle) in lists.iter().zip(&oracle) {
                assert_eq!(links.self_check(*list), oracle.len());
                assert!(links.iter(*list).map(|id| id.0).eq(oracle.iter().copied()));
            }
        }
    }
}
