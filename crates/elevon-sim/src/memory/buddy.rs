//! A buddy allocator: free blocks of 2^k pages on a list for each order, last freed first.
//!
//! An allocation takes the head of the smallest order that has a block and splits it, pushing the
//! upper halves back, so that the pages of a split block are returned in ascending order. A freed
//! block is merged with its buddy while that is free. O(orders) each.

use super::MAX_ORDER;

/// End of a list.
const NIL: u32 = u32::MAX;
/// Order of a page that starts no free block.
const TAKEN: u8 = u8::MAX;

#[derive(Clone, Copy, Debug)]
struct Page {
    next: u32,
    previous: u32,
    /// Order of the free block that starts here.
    order: u8,
}

/// The allocator; pages are numbered from 0.
#[derive(Clone, Debug)]
pub(super) struct Buddy {
    pages: Vec<Page>,
    heads: [u32; MAX_ORDER + 1],
    free: u64,
}

impl Buddy {
    /// Returns an allocator of `pages` pages, all of them allocated.
    pub(super) fn new(pages: u32) -> Self {
        let taken = Page { next: NIL, previous: NIL, order: TAKEN };
        Self { pages: vec![taken; pages as usize], heads: [NIL; MAX_ORDER + 1], free: 0 }
    }

    /// Returns the number of free pages.
    pub(super) fn free_pages(&self) -> u64 {
        self.free
    }

    /// Allocates a block of 2^order pages and returns its first page.
    pub(super) fn allocate(&mut self, order: usize) -> Option<u32> {
        let found = (order..=MAX_ORDER).find(|&k| self.heads[k] != NIL)?;
        let first = self.heads[found];
        self.unlink(first, found);
        for half in (order..found).rev() {
            self.push(first + (1 << half), half);
        }
        self.free -= 1 << order;
        Some(first)
    }

    /// Frees a block of 2^order pages.
    pub(super) fn free(&mut self, mut first: u32, mut order: usize) {
        debug_assert!(self.pages[first as usize].order == TAKEN, "page {first} is freed twice");
        self.free += 1 << order;
        while order < MAX_ORDER {
            let buddy = first ^ (1 << order);
            if self.pages.get(buddy as usize).is_none_or(|page| page.order != order as u8) {
                break;
            }
            self.unlink(buddy, order);
            first = first.min(buddy);
            order += 1;
        }
        self.push(first, order);
    }

    fn push(&mut self, first: u32, order: usize) {
        let next = std::mem::replace(&mut self.heads[order], first);
        self.pages[first as usize] = Page { next, previous: NIL, order: order as u8 };
        if next != NIL {
            self.pages[next as usize].previous = first;
        }
    }

    fn unlink(&mut self, first: u32, order: usize) {
        let Page { next, previous, .. } = self.pages[first as usize];
        match previous {
            NIL => self.heads[order] = next,
            _ => self.pages[previous as usize].next = next,
        }
        if next != NIL {
            self.pages[next as usize].previous = previous;
        }
        self.pages[first as usize].order = TAKEN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::{below, draw};

    /// Returns the free blocks by order, as in the lists.
    fn lists(buddy: &Buddy) -> Vec<Vec<u32>> {
        let list = |&head: &u32| -> Vec<u32> {
            std::iter::successors((head != NIL).then_some(head), |&at| {
                let next = buddy.pages[at as usize].next;
                (next != NIL).then_some(next)
            })
            .collect()
        };
        buddy.heads.iter().map(list).collect()
    }

    /// Checks that blocks are aligned, do not overlap, match the oracle's free pages, and that no
    /// two buddies are both free.
    fn check(buddy: &Buddy, taken: &[bool]) {
        let mut free = vec![false; taken.len()];
        for (order, list) in lists(buddy).iter().enumerate() {
            for &first in list {
                assert_eq!(first % (1 << order), 0);
                assert!(
                    order == MAX_ORDER || !list.contains(&(first ^ (1 << order))),
                    "{first} and its buddy"
                );
                for page in first..first + (1 << order) {
                    assert!(
                        !std::mem::replace(&mut free[page as usize], true),
                        "page {page} twice"
                    );
                }
            }
        }
        assert!(free.iter().zip(taken).all(|(free, taken)| free != taken));
        assert_eq!(buddy.free_pages(), free.iter().filter(|&&f| f).count() as u64);
    }

    #[test]
    fn a_broken_block_comes_out_in_order_and_joins_again() {
        let mut buddy = Buddy::new(2048);
        buddy.free(0, MAX_ORDER);
        buddy.free(1024, MAX_ORDER);
        // The block freed last is split first.
        assert!((1024..2048).chain(0..1024).all(|page| buddy.allocate(0) == Some(page)));
        assert_eq!(buddy.allocate(0), None);
        (0..2048).rev().for_each(|page| buddy.free(page, 0));
        assert_eq!(lists(&buddy)[MAX_ORDER], [0, 1024]);
    }

    #[test]
    fn the_smallest_block_that_serves_is_taken() {
        let mut buddy = Buddy::new(1024);
        [7, 100, 513].into_iter().for_each(|page| buddy.free(page, 0));
        buddy.free(64, 3);
        let taken: Vec<_> = (0..5).map(|_| buddy.allocate(0)).collect();
        assert_eq!(taken, [Some(513), Some(100), Some(7), Some(64), Some(65)]);
        assert_eq!(buddy.allocate(2), Some(68));
        assert_eq!(buddy.allocate(2), None);
    }

    #[test]
    fn random_steps_keep_the_invariants() {
        let mut buddy = Buddy::new(4096);
        let mut taken = vec![true; 4096];
        let mut held: Vec<(u32, usize)> =
            (0..4).map(|block| (block << MAX_ORDER, MAX_ORDER)).collect();
        for step in 0..3000 {
            let chance = |purpose, bound| below(draw(11, purpose, step), bound) as usize;
            if !held.is_empty() && chance(0, 100) < 48 {
                let (first, order) = held.swap_remove(chance(1, held.len() as u64));
                buddy.free(first, order);
                taken[first as usize..][..1 << order].fill(false);
            } else {
                let order = chance(2, 5);
                match buddy.allocate(order) {
                    Some(first) => {
                        assert!(taken[first as usize..][..1 << order].iter().all(|t| !t));
                        taken[first as usize..][..1 << order].fill(true);
                        held.push((first, order));
                    }
                    None => {
                        let aligned =
                            taken.chunks(1 << order).any(|block| block.iter().all(|t| !t));
                        assert!(!aligned, "a block of order {order} is free and was not found");
                    }
                }
            }
            check(&buddy, &taken);
        }
        held.drain(..).for_each(|(first, order)| buddy.free(first, order));
        assert!(lists(&buddy)[..MAX_ORDER].iter().all(Vec::is_empty));
    }
}
