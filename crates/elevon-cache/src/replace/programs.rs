//! Programs' own memory, as far as reclaim must know it: the numbers of pages in use and idle.
//!
//! Pages *in use* have been touched whenever reclaim scans them; *idle* pages are never touched
//! again. Pages of one kind are all alike, so a list of them is two counts ([`Population`]), and a
//! part of the list has both kinds in the list's proportion. If there is room in compressed memory
//! (zram), a policy may choose idle pages instead of file pages; if not, programs' memory stays and
//! only file pages are scanned. Nothing is read back, and compression takes no time: the model has
//! no CPU time of the kernel.
//!
//! Cost: every operation O(1), independent of the number of pages.

/// This number of pages in zram takes one page of memory.
pub(crate) const ZRAM_RATIO: u64 = 3;

/// Programs' memory, in pages, and the room to swap it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anonymous {
    /// Pages in use.
    pub touched: u64,
    /// Pages that are not in use and still in memory.
    pub idle: u64,
    /// Room in zram, and the pages in it.
    pub swap: Swap,
    /// Preference for programs' pages over file pages, as the kernel's sysctl. 0 takes only file
    /// pages, 100 both alike, 200 only programs' pages.
    pub swappiness: u8,
    /// The high mark of free memory, in pages. If file pages and free pages together are no more,
    /// only programs' pages are scanned.
    pub high: u64,
}

/// Room for swapped pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swap {
    /// Number of pages that still fit.
    pub free: u64,
    /// Number of pages in zram.
    pub used: u64,
}

impl Swap {
    /// Returns the memory that the swapped pages take, in pages.
    pub const fn memory(&self) -> u64 {
        self.used.div_ceil(ZRAM_RATIO)
    }

    /// Takes up to `idle` pages. Returns their number.
    pub(super) fn take(&mut self, idle: u64) -> u64 {
        let taken = idle.min(self.free);
        self.free -= taken;
        self.used += taken;
        taken
    }
}

impl Anonymous {
    /// Returns true if any of it may be reclaimed.
    pub(super) const fn is_reclaimable(&self) -> bool {
        self.swap.free > 0 && self.swappiness > 0
    }

    /// Returns true if nearly all of `capacity` pages are programs': file pages and free pages are
    /// together no more than the high mark.
    pub(super) const fn leaves_little(&self, capacity: u64) -> bool {
        capacity.saturating_sub(self.touched + self.idle + self.swap.memory()) <= self.high
    }
}

/// A list of programs' pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Population {
    pub(super) touched: u64,
    pub(super) idle: u64,
}

impl Population {
    pub(super) const fn len(self) -> u64 {
        self.touched + self.idle
    }

    /// Takes up to `count` pages off the list, of both kinds in the list's proportion. The number
    /// of idle pages is rounded down.
    pub(super) fn take(&mut self, count: u64) -> Self {
        let count = count.min(self.len());
        if count == 0 {
            return Self::default();
        }
        let idle = (u128::from(count) * u128::from(self.idle) / u128::from(self.len())) as u64;
        let part = Self { touched: count - idle, idle };
        self.touched -= part.touched;
        self.idle -= part.idle;
        part
    }

    pub(super) fn add(&mut self, other: Self) {
        self.touched += other.touched;
        self.idle += other.idle;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_both_kinds_by_their_shares() {
        let mut list = Population { touched: 70, idle: 30 };
        assert_eq!(list.take(10), Population { touched: 7, idle: 3 });
        assert_eq!(list.take(1), Population { touched: 1, idle: 0 });
        assert_eq!((list.take(1000), list.len()), (Population { touched: 62, idle: 27 }, 0));
        assert_eq!(list.take(5), Population::default());
        for (touched, idle) in [(0, 9), (9, 0), (1, 1), (5, 17)] {
            for count in 0..30 {
                let mut list = Population { touched, idle };
                let part = list.take(count);
                assert_eq!(part.len(), count.min(touched + idle));
                list.add(part);
                assert_eq!(list, Population { touched, idle });
            }
        }
    }

    #[test]
    fn zram_fills_and_takes_a_third() {
        let mut swap = Swap { free: 10, used: 0 };
        assert_eq!(
            (swap.take(7), swap.memory(), swap.take(7), swap.free, swap.memory()),
            (7, 3, 3, 0, 4)
        );
        let programs =
            |swap, swappiness| Anonymous { touched: 50, idle: 40, swap, swappiness, high: 8 };
        assert!(
            !programs(swap, 60).is_reclaimable()
                && !programs(Swap { free: 1, used: 0 }, 0).is_reclaimable()
        );
        assert!(programs(Swap { free: 1, used: 0 }, 1).is_reclaimable());
        assert!(programs(swap, 60).leaves_little(102) && !programs(swap, 60).leaves_little(103));
    }
}
