//! Looks over cached pages before and behind a page, which tell how long a run of them is.
//!
//! The kernel's index has nodes of 64 pages, and a folio is in the slot of its first page. A look
//! that begins within a folio begins in that slot, but counts from its own page. From there on it
//! sees each page as if it were some pages away: that is its *shift*. So a run behind a folio seems
//! to end later than it does, and one before it to begin later. As measured on Linux 6.18, with the
//! sequences of `tests/data/kernel-truth/readahead`. Where all folios have one page, a look sees
//! what there is.
//!
//! Cost: O(1) per page looked at.

use elevon_core::units::PageIndex;

/// Pages in a node of the index.
const NODE: u64 = 64;

/// A run of cached pages before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    /// Its length as the look counts it.
    pub pages: u64,
    /// It seems to begin with the file.
    pub from_start: bool,
}

/// Returns the run of cached pages that ends before `index`, which is not the first page, of at
/// most `max` pages, at least 1. `order` returns the order of the folio of a cached page.
pub(super) fn before(
    index: PageIndex,
    max: u64,
    order: impl Fn(PageIndex) -> Option<u32>,
) -> Before {
    let mut page = index.get() - 1;
    let mut slot = first_slot(page, &order);
    for pages in 0..max {
        if order(PageIndex::new(slot)).is_none() {
            return Before { pages, from_start: false };
        }
        let Some(previous) = page.checked_sub(1) else {
            return Before { pages: pages + 1, from_start: true };
        };
        page = previous;
        slot = match (slot % NODE, page % NODE) {
            // The slot is looked at again, and the shift is gone.
            (0, 0) => slot,
            (0, _) if slot == 0 => return Before { pages: pages + 1, from_start: false },
            (0, within) => slot - NODE + within,
            _ => slot - 1,
        };
    }
    // A look that sees no gap does not count the last page.
    Before { pages: max - 1, from_start: false }
}

/// Returns the first page from `index` on that seems not to be cached, within `max` pages.
pub(super) fn first_gap(
    index: PageIndex,
    max: u64,
    order: impl Fn(PageIndex) -> Option<u32>,
) -> Option<PageIndex> {
    let mut page = index.get();
    let mut slot = first_slot(page, &order);
    for _ in 0..max {
        if order(PageIndex::new(slot)).is_none() {
            return Some(PageIndex::new(page));
        }
        page += 1;
        slot = match (slot % NODE, page % NODE) {
            (last, within) if last == NODE - 1 && within == last => slot,
            (last, within) if last == NODE - 1 => slot + 1 + within,
            _ => slot + 1,
        };
    }
    None
}

/// Returns the slot in which a look at a page begins. Folios that fill nodes shift it by nodes.
fn first_slot(page: u64, order: impl Fn(PageIndex) -> Option<u32>) -> u64 {
    let order = order(PageIndex::new(page)).unwrap_or(0);
    let first = page >> order << order;
    if 1 << order < NODE { first } else { first + page % NODE }
}
