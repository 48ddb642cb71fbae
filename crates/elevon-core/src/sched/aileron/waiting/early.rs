//! The members that are not eligible yet, by start: a radix heap.
//!
//! Virtual time only advances, and all of these start after it. So they need no order, only to be
//! found once their start has come. A *list* holds those whose start first differs from virtual
//! time in the same digit, and has the same value there. When virtual time reaches that value, some
//! of them become eligible, and the others go to lists of lower digits, nearer to it.
//!
//! Cost, with d digits by which a member is ahead when it is filed: O(d) for all that is done with
//! it until it becomes eligible, however many there are. (A heap by start takes O(log m) for each
//! of m members, and twice the time where they are 1,000.) Looking for the smallest start, which is
//! needed only if nobody is eligible, takes O(n) for the n members of the list where it is.

extern crate alloc;
use alloc::vec::Vec;

use super::eligible::{Entry, is_before, key_of};
use crate::sched::finish_tree::later;

/// Bits of a digit of a virtual time, its values, and the number of digits.
const BITS: u32 = 6;
const VALUES: usize = 1 << BITS;
const DIGITS: usize = u64::BITS.div_ceil(BITS) as usize;
/// No member.
const NIL: u32 = u32::MAX;

/// A member in a list, between two others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    start: u64,
    /// What it is once it is eligible.
    entry: Entry,
    prev: u32,
    next: u32,
}

impl Link {
    /// A member that is in no list.
    pub(super) const NONE: Self = Self { start: 0, entry: [0; 2], prev: NIL, next: NIL };
}

/// A list: the digit in which its members differ from virtual time, and its value. Of two lists the
/// members of the lower one start first.
type List = (usize, usize);

/// The members that are not eligible yet. `links` has a place for each, by key.
#[derive(Clone, Debug)]
pub(super) struct Early {
    /// The first member of each list, by digit and value. Classes without members have none.
    lists: Vec<[u32; VALUES]>,
    /// The values that have members, by digit, and the digits that have some: a bit each.
    values: [u64; DIGITS],
    digits: u32,
    /// The virtual time that the lists are by: as it was when somebody was last taken.
    time: u64,
    /// Nobody starts before this.
    soonest: u64,
}

impl Early {
    pub(super) const EMPTY: Self =
        Self { lists: Vec::new(), values: [0; DIGITS], digits: 0, time: 0, soonest: 0 };

    /// Makes room for members.
    pub(super) fn reserve(&mut self) {
        self.lists.resize(DIGITS, [NIL; VALUES]);
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.digits == 0
    }

    /// Returns the list of those that start at a time.
    #[inline(always)]
    const fn list(&self, start: u64) -> List {
        let digit = ((start ^ self.time) | 1).ilog2() / BITS;
        // Virtual time wraps: which value of the highest digit is later, it does not say.
        let value = if digit as usize == DIGITS - 1 { 0 } else { start >> (digit * BITS) };
        (digit as usize, value as usize % VALUES)
    }

    /// Returns the first list; there must be one.
    #[inline(always)]
    const fn first_list(&self) -> List {
        let digit = self.digits.trailing_zeros() as usize % DIGITS;
        (digit, self.values[digit].trailing_zeros() as usize % VALUES)
    }

    /// Files a member, whose start has not come.
    #[inline(always)]
    pub(super) fn push(&mut self, links: &mut [Link], start: u64, entry: Entry) {
        let key = key_of(&entry);
        let link = &mut links[key as usize];
        (link.start, link.entry) = (start, entry);
        if self.is_empty() || later(self.soonest, start) {
            self.soonest = start;
        }
        self.link(links, key, start);
    }

    /// Puts a member into its list.
    #[inline(always)]
    fn link(&mut self, links: &mut [Link], key: u32, start: u64) {
        let (digit, value) = self.list(start);
        let next = core::mem::replace(&mut self.lists[digit][value], key);
        self.values[digit] |= 1 << value;
        self.digits |= 1 << digit;
        let link = &mut links[key as usize];
        (link.prev, link.next) = (NIL, next);
        if next != NIL {
            links[next as usize].prev = key;
        }
    }

    /// Removes a member.
    pub(super) fn remove(&mut self, links: &mut [Link], key: u32) {
        let Link { start, prev, next, .. } = links[key as usize];
        let list @ (digit, value) = self.list(start);
        if next != NIL {
            links[next as usize].prev = prev;
        }
        match (prev, next) {
            (NIL, NIL) => _ = self.take(list),
            (NIL, _) => self.lists[digit][value] = next,
            _ => links[prev as usize].next = next,
        }
    }

    /// Empties a list and returns its first member.
    #[inline(always)]
    fn take(&mut self, (digit, value): List) -> u32 {
        self.values[digit] &= !(1 << value);
        if self.values[digit] == 0 {
            self.digits &= !(1 << digit);
        }
        core::mem::replace(&mut self.lists[digit][value], NIL)
    }

    /// Returns true if the start of somebody may have come.
    #[inline(always)]
    pub(super) const fn may_be_due(&self, time: u64) -> bool {
        !self.is_empty() && !later(self.soonest, time)
    }

    /// Takes out those whose start has come.
    #[inline(always)]
    pub(super) fn take_due(
        &mut self,
        links: &mut [Link],
        time: u64,
        mut is_due: impl FnMut(Entry),
    ) {
        let last = self.list(time);
        self.time = time;
        while !self.is_empty() && self.first_list() <= last {
            // All in the lists before the last are due. Those in it that are not go to lists below.
            let list = self.first_list();
            let mut key = self.take(list);
            while key != NIL {
                let Link { start, entry, next, .. } = links[key as usize];
                if later(start, time) {
                    self.link(links, key, start);
                } else {
                    is_due(entry);
                }
                key = next;
            }
            if list == last {
                break;
            }
        }
        self.soonest = self.begin(self.first_list());
    }

    /// Returns a time before which nobody in a list starts.
    #[inline]
    const fn begin(&self, (digit, value): List) -> u64 {
        if digit == DIGITS - 1 {
            return self.time;
        }
        let shift = digit as u32 * BITS;
        let above = self.time >> shift & !(VALUES as u64 - 1);
        (above | value as u64) << shift
    }

    /// Returns the smallest start, and of those with that the first by finish.
    pub(super) fn first(&self, links: &[Link]) -> Option<(u64, Entry)> {
        if self.is_empty() {
            return None;
        }
        let before = |a: &Link, b: &Link| match a.start == b.start {
            true => is_before(&a.entry, &b.entry),
            false => later(b.start, a.start),
        };
        let first =
            self.iter(links, self.first_list()).reduce(|a, b| if before(b, a) { b } else { a });
        first.map(|link| (link.start, link.entry))
    }

    /// Yields the members of a list.
    fn iter<'a>(&self, links: &'a [Link], (digit, value): List) -> impl Iterator<Item = &'a Link> {
        let link = |key: u32| (key != NIL).then(|| &links[key as usize]);
        core::iter::successors(link(self.lists[digit][value]), move |last| link(last.next))
    }

    /// Checks the lists, and yields the keys of their members. For tests: O(n).
    pub(super) fn self_check<'a>(
        &'a self,
        links: &'a [Link],
        time: u64,
    ) -> impl Iterator<Item = u32> + 'a {
        let values = move |digit: usize| {
            (0..VALUES).filter(move |value| self.values[digit] >> value & 1 == 1)
        };
        let lists =
            (0..DIGITS).flat_map(move |digit| values(digit).map(move |value| (digit, value)));
        (0..DIGITS)
            .for_each(|digit| assert_eq!(self.digits >> digit & 1 == 1, self.values[digit] != 0));
        lists.flat_map(move |list| {
            assert!(self.iter(links, list).next().is_some(), "list {list:?} is empty");
            self.iter(links, list).map(move |link| {
                assert!(
                    later(link.start, time) && !later(self.soonest, link.start),
                    "{link:?} may be due"
                );
                assert_eq!(self.list(link.start), list, "the list of {link:?}");
                key_of(&link.entry)
            })
        })
    }
}
