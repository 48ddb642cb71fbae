//! Page faults of file mappings: which pages are mapped without I/O, and which pages a miss reads.
//!
//! A read fault maps the cached pages around its page (*fault-around*): an aligned window of 64
//! KiB, without I/O. A fault on a page that is not cached is a major fault, and reads *around* the
//! page rather than ahead of it, because a program is expected to touch nearby memory next. If a
//! mapping misses too often, its faults read single pages. Each miss counts one, and each cached
//! page that fault-around finds takes one off, whether it was mapped already or not. A fault that
//! has read its page looks around again, so that a miss on a load usually takes off all that it
//! counted. A store has no fault-around. As in Linux 6.1, with [`Rules`]. Cost: O(1).

use super::readahead::{Advice, Ask, Readahead, ReadaheadWindow};
use elevon_core::kernel::Rules;
use elevon_core::units::{PageCount, PageIndex};

/// Pages that one fault may map: 64 KiB (`fault_around_bytes`).
pub(crate) const FAULT_AROUND_PAGES: u64 = 16;
/// Misses, less the pages found, above which a miss reads one page.
pub(crate) const MMAP_MISS_LIMIT: u32 = 100;
/// The miss counter stops at this value.
const MMAP_MISS_MAX: u32 = 1000;

/// Returns the pages `[first, end)` that a fault at `index` may map, in a file that ends before
/// `file_end`: its aligned 64 KiB up to the end. Of these, the pages are mapped that are cached, up
/// to date, not locked and without a readahead marker.
pub(crate) fn fault_around(index: PageIndex, file_end: PageIndex) -> (PageIndex, PageIndex) {
    let first = PageIndex::new(index.get() - index.get() % FAULT_AROUND_PAGES);
    (first, file_end.min(first + PageCount::new(FAULT_AROUND_PAGES)))
}

/// Counts cached pages that a fault found: each offsets one miss.
pub(crate) const fn on_found(ra: &mut Readahead, pages: u32) {
    ra.mmap_miss = ra.mmap_miss.saturating_sub(pages);
}

/// Counts a fault that did not find its page, and returns the pages to read.
pub(crate) fn on_miss(
    ra: &mut Readahead,
    index: PageIndex,
    rules: &Rules,
    cached: impl Fn(PageIndex) -> Option<u32>,
) -> ReadaheadWindow {
    let single = ReadaheadWindow::plain(index, 1);
    match ra.mapping_advice() {
        Advice::Random => return single,
        Advice::Sequential => {
            let req = PageCount::new(ra.ra_pages().max(1).into());
            return ra.decide(Ask { index, req, marker: false }, rules, cached).unwrap_or(single);
        }
        Advice::Normal | Advice::WillNeed | Advice::DontNeed => {}
    }
    if ra.ra_pages() == 0 {
        return single;
    }
    if ra.mmap_miss < MMAP_MISS_MAX {
        ra.mmap_miss += 1;
    }
    if ra.mmap_miss > MMAP_MISS_LIMIT { single } else { ra.around(index) }
}

/// Returns true if a page inserted by a fault counts as used by that fault (the in-fault rule of
/// MGLRU). It does not in a mapping with advice for sequential or random access.
pub(crate) const fn hints_active(advice: Advice) -> bool {
    matches!(advice, Advice::Normal | Advice::WillNeed | Advice::DontNeed)
}

/// Returns true if a touch through a mapping with this advice counts as a use of the page, for
/// reclaim and at the end of the mapping.
pub(crate) const fn counts_as_use(advice: Advice, rules: &Rules) -> bool {
    match advice {
        Advice::Normal | Advice::WillNeed | Advice::DontNeed => true,
        Advice::Random => !rules.random_mapping_is_no_use,
        Advice::Sequential => false,
    }
}

#[cfg(test)]
mod tests {
    //! Worked examples of `mm/filemap.c`: `do_sync_mmap_readahead`, `filemap_map_pages`.

    use super::*;
    use elevon_core::kernel::Kernel;

    const RULES: Rules = Kernel::V6_1.rules();

    #[test]
    fn a_miss_reads_around_the_page() {
        let mut ra = Readahead::new(32, 128);
        let parts =
            |window: ReadaheadWindow| [Some(window.start), Some(window.end()), window.marker()];
        let window = on_miss(&mut ra, PageIndex::new(100), &RULES, |_| None);
        assert_eq!(parts(window), [84, 116, 108].map(|index| Some(PageIndex::new(index))));
        let window = on_miss(&mut ra, PageIndex::new(5), &RULES, |_| None);
        assert_eq!(parts(window), [0, 32, 24].map(|index| Some(PageIndex::new(index))));
    }

    #[test]
    fn the_101st_miss_reads_one_page() {
        let mut ra = Readahead::new(32, 128);
        for n in 1..=100 {
            assert_eq!(
                on_miss(&mut ra, PageIndex::new(n * 1000), &RULES, |_| None).size,
                32,
                "miss {n}"
            );
        }
        assert_eq!(
            on_miss(&mut ra, PageIndex::new(7), &RULES, |_| None),
            ReadaheadWindow::plain(PageIndex::new(7), 1)
        );
        on_found(&mut ra, 2);
        assert_eq!(on_miss(&mut ra, PageIndex::new(7000), &RULES, |_| None).size, 32);
        // The count stops at 1000, so 901 hits reduce it enough for read-around to start again.
        for _ in 0..5000 {
            on_miss(&mut ra, PageIndex::new(7), &RULES, |_| None);
        }
        on_found(&mut ra, 901);
        assert_eq!(on_miss(&mut ra, PageIndex::new(7), &RULES, |_| None).size, 32);
    }

    #[test]
    fn fault_around_is_aligned() {
        let around = |index, end| {
            let (first, end) = fault_around(PageIndex::new(index), PageIndex::new(end));
            (first.get(), end.get())
        };
        assert_eq!(around(37, 1000), (32, 48));
        assert_eq!(around(37, 40), (32, 40));
    }

    #[test]
    fn advice_decides_what_a_miss_reads() {
        let mut ra = Readahead::new(32, 128);
        ra.advise_mapping(Advice::Random);
        assert_eq!(on_miss(&mut ra, PageIndex::new(9), &RULES, |_| None).size, 1);
        ra.advise_mapping(Advice::Sequential);
        let windows = [(Advice::Normal, 32), (Advice::Sequential, 64), (Advice::Random, 32)];
        for (of_file, pages) in windows {
            ra.advise(of_file, 32);
            let window = on_miss(&mut ra, PageIndex::ZERO, &RULES, |_| None);
            assert_eq!((window.start.get(), window.size), (0, pages), "{of_file:?}");
        }
        assert!(!hints_active(ra.mapping_advice()) && hints_active(Advice::Normal));
    }
}
