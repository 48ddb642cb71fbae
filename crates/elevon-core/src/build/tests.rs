//! Worked examples of bio building, and the invariants of every fill.

extern crate alloc;
use alloc::vec;
use alloc::vec::Vec;
use core::iter::repeat_n;
use proptest::prelude::*;

use super::*;

fn limits(max_sectors: u64) -> QueueLimits {
    QueueLimits {
        max_sectors: Sectors::new(max_sectors),
        max_segments: 256,
        ..QueueLimits::default()
    }
}

/// Returns the sizes in bytes of all bios of a buffer.
fn bios(layout: &Layout, path: IoPath, fill: Fill, limits: &QueueLimits) -> Vec<u64> {
    let (mut at, mut sizes) = (0, Vec::new());
    while at < layout.len() {
        let bytes = next_bio_bytes(layout, at, layout.len() - at, path, fill, limits);
        assert!(bytes > 0 && at + bytes <= layout.len());
        sizes.push(bytes);
        at += bytes;
    }
    sizes
}

fn pages(runs: impl IntoIterator<Item = u64>, path: IoPath) -> Vec<u64> {
    let sizes = bios(&Layout::from_run_pages(runs), path, Fill::Full, &limits(1024));
    sizes.into_iter().map(|bytes| bytes / PAGE_SIZE).collect()
}

/// Returns a list of runs whose full bio has this many sectors: runs of two pages first, then
/// single pages.
fn recipe(sectors: u64) -> impl Iterator<Item = u64> {
    let pairs = ((sectors - 2048) / 8) as usize;
    repeat_n(2, pairs).chain(repeat_n(1, 256 - pairs))
}

#[test]
fn vectors_run_out_at_the_256th_run() {
    use IoPath::{Buffered, Direct};
    assert_eq!(pages(repeat_n(1, 300), Direct), [256, 44]);
    assert_eq!(pages([2].into_iter().chain(repeat_n(1, 255)), Direct), [257]);
    assert_eq!(pages(repeat_n(1, 255).chain([2]), Direct), [256, 1]);
    assert_eq!(pages(repeat_n(1, 255).chain([2]), Buffered), [257]);
    assert_eq!(pages(repeat_n(2, 512), Direct), [511, 510, 3]);
    assert_eq!(pages(repeat_n(2, 512), Buffered), [512, 512]);
    assert_eq!(pages(repeat_n(8, 512), Direct), [2041, 2040, 15]);
    assert_eq!(pages(repeat_n(8, 512), Buffered), [2048, 2048]);
    assert_eq!(pages(repeat_n(4, 256), Direct), [1021, 3]);
}

#[test]
fn the_seeds_bio_sizes_follow_from_its_runs() {
    let sizes = [2136, 2152, 2128, 2160, 2096, 2160, 2144, 2144, 2112, 2096];
    let pages: Vec<u64> = sizes.iter().map(|s| s / 8).collect();
    assert_eq!(self::pages(sizes.into_iter().flat_map(recipe), IoPath::Direct), pages);
}

/// The ends that a trace shows stand in for the memory, and every fill keeps its word on them.
#[test]
fn known_ends_stand_in_for_the_memory() {
    let kib = |sizes: Vec<u64>| sizes.into_iter().map(|bytes| bytes >> 10).collect::<Vec<_>>();
    let layout = Layout::contiguous(3084 << 10, 0).with_bio_ends(vec![1028 << 10, 2056 << 10]);
    let of = |fill, max_kib: u64| kib(bios(&layout, IoPath::Direct, fill, &limits(max_kib * 2)));
    assert_eq!(of(Fill::Full, 512), [1028, 1028, 1028]);
    assert_eq!(of(Fill::MaxSectors, 512), [512, 512, 512, 512, 512, 512, 12]);
    assert_eq!(of(Fill::MaxSectors, 1280), [1028, 1028, 1028]);
    // 256 vectors hold 1028 KiB wherever they begin, and the surplus over 512 KiB goes back.
    assert_eq!(of(Fill::Trim, 512), [1024, 1024, 1024, 12]);
    assert_eq!(
        kib(bios(&layout, IoPath::Buffered, Fill::MaxSectors, &limits(1024))),
        [1028, 1028, 1028]
    );
    // Unequal densities: half of the first bio's vectors, then half of the second's.
    let ends = [1 << 20, 5 << 20];
    assert_eq!(known_end(&ends, 0), Some(1 << 20));
    assert_eq!(known_end(&ends, 1 << 19), Some(3 << 20));
    assert_eq!(known_end(&ends, 3 << 20), Some(7 << 20));
    assert_eq!(known_end(&ends, 5 << 20), None);
}

#[test]
fn a_vector_ends_with_its_folio() {
    let full = |folio: u64, skip: u64| {
        let bytes = 32768 * PAGE_SIZE;
        let layout = Layout::contiguous(bytes, 0).with_folios(folio).skip(skip);
        next_bio_bytes(&layout, 0, bytes - skip, IoPath::Direct, Fill::Folio, &limits(1024))
    };
    for (folio, pages) in [(1, 256), (4, 986), (16, 3431), (512, 24975)] {
        assert_eq!(full(folio, 0) / PAGE_SIZE, pages, "folios of {folio} pages");
    }
    assert_eq!(full(1, 512), 256 * PAGE_SIZE - 512);
    // However contiguous, ordinary pages make bios of 256.
    let layout = Layout::from_run_pages([2].into_iter().chain(repeat_n(1, 255)));
    let sizes = |fill| {
        bios(&layout, IoPath::Direct, fill, &limits(1024))
            .iter()
            .map(|b| b / PAGE_SIZE)
            .collect::<Vec<_>>()
    };
    assert_eq!((sizes(Fill::Full), sizes(Fill::Folio)), (vec![257], vec![256, 1]));
    // The page cache keeps the old rule.
    assert_eq!(bios(&layout, IoPath::Buffered, Fill::Folio, &limits(1024)), vec![257 * PAGE_SIZE]);
}

#[test]
fn huge_pages_make_one_bio() {
    let layout = Layout::from_run_pages(repeat_n(512, 32));
    assert_eq!(bios(&layout, IoPath::Direct, Fill::Full, &limits(1024)), [131072 * 512]);
}

#[test]
fn a_buffer_that_starts_inside_a_page_loses_that_much() {
    let layout = Layout::from_run_pages(repeat_n(1, 600)).skip(1024);
    let sizes = bios(&layout, IoPath::Direct, Fill::Full, &limits(1024));
    assert_eq!(sizes, [256 * 4096 - 1024, 256 * 4096, 88 * 4096]);
    // The address is less aligned than the logical block: the end is rounded down, and the next bio
    // starts inside a page too.
    let layout = Layout::from_run_pages(repeat_n(1, 600)).skip(4);
    assert_eq!(
        next_bio_bytes(&layout, 0, 600 * 4096 - 512, IoPath::Direct, Fill::Full, &limits(1024)),
        256 * 4096 - 512
    );
}

#[test]
fn a_bio_is_shorter_than_4_gib() {
    let layout = Layout::contiguous(9 << 30, 0);
    let mut limits = limits(1024);
    assert_eq!(bios(&layout, IoPath::Direct, Fill::Full, &limits)[..2], [(4 << 30) - 512; 2]);
    limits.logical_block_size = 4096;
    assert_eq!(bios(&layout, IoPath::Buffered, Fill::Full, &limits)[0], (4 << 30) - 4096);
}

/// The three designs for the same 64 MiB read.
#[test]
fn the_three_fills_of_the_seed() {
    let sizes = [2136, 2152, 2128, 2160, 2096, 2160];
    let runs: Vec<u64> = sizes.into_iter().cycle().take(62).flat_map(recipe).collect();
    let layout = Layout::from_run_pages(runs);
    let in_sectors = |fill| -> Vec<u64> {
        let (mut at, mut all) = (0, Vec::new());
        while at < 64 << 20 {
            let bytes =
                next_bio_bytes(&layout, at, (64 << 20) - at, IoPath::Direct, fill, &limits(1024));
            all.push(bytes / 512);
            at += bytes;
        }
        all
    };
    let full = in_sectors(Fill::Full);
    assert_eq!((full.len(), full[61], full[0], full[1]), (62, 616, 2136, 2152));
    assert_eq!(full.iter().map(|s| s.div_ceil(1024)).sum::<u64>(), 184);
    assert_eq!(in_sectors(Fill::MaxSectors), vec![1024; 128]);
    assert_eq!(in_sectors(Fill::Trim), vec![2048; 64]);
}

#[test]
fn a_tail_of_the_call_itself_stays_whatever_the_fill() {
    let layout = Layout::from_run_pages([2].into_iter().chain(repeat_n(1, 255)));
    assert_eq!(
        bios(&layout, IoPath::Direct, Fill::MaxSectors, &limits(1024)),
        [1024 * 512, 1024 * 512, 8 * 512]
    );
    assert_eq!(bios(&layout, IoPath::Direct, Fill::Trim, &limits(1024)), [2056 * 512]);
}

/// The draft that was measured: bios of 1792 KiB, which a queue of 512 KiB splits into 512, 512,
/// 512 and 256.
#[test]
fn the_draft_trims_to_256_kib_whatever_the_limit() {
    let layout =
        Layout::from_run_pages((0..16384 / 13 * 7).map(|i| if i % 7 == 0 { 1 } else { 2 }));
    let sizes = bios(&layout, IoPath::Direct, Fill::Trim256K, &limits(1024));
    let (last, full) = sizes.split_last().expect("a buffer of many bios");
    assert!(full.len() > 30 && full.iter().all(|&bytes| bytes == 1792 << 10), "{sizes:?}");
    assert!(*last <= 2048 << 10);
    // Full bios of slightly more than 1 MiB are cut to 1 MiB, as with the other trim.
    let layout = Layout::from_run_pages(recipe(2136).chain(recipe(2152)));
    assert_eq!(bios(&layout, IoPath::Direct, Fill::Trim256K, &limits(1024))[0], 1 << 20);
}

#[test]
fn trim_takes_a_mask_for_a_remainder() {
    let layout = Layout::from_run_pages(repeat_n(2, 512));
    let kept = |max| {
        next_bio_bytes(&layout, 0, layout.len(), IoPath::Direct, Fill::Trim, &limits(max)) >> 10
    };
    // 511 pages fill the bio. The mask of 1280 KiB minus one removes 1276 KiB of 2044; a remainder
    // would be 764 KiB.
    assert_eq!((kept(1024), kept(2048), kept(2560)), (1536, 1024, 768));
    // The size is completely inside the mask: nothing is removed.
    let layout = Layout::from_run_pages(recipe(2136).chain(repeat_n(1, 256)));
    let whole = next_bio_bytes(&layout, 0, layout.len(), IoPath::Direct, Fill::Trim, &limits(2560));
    assert_eq!(whole, 2136 * 512);
}

#[test]
fn max_sectors_still_moves_on_at_its_narrowest() {
    let layout = Layout::from_run_pages(repeat_n(1, 4)).skip(512);
    let limits = QueueLimits { logical_block_size: 4096, ..limits(8) };
    assert_eq!(
        next_bio_bytes(&layout, 0, 3 * 4096, IoPath::Direct, Fill::MaxSectors, &limits),
        4096
    );
}

#[test]
fn discards_line_up_with_their_granule() {
    let limits = QueueLimits { discard_granularity: 2048 * 512, ..limits(1024) };
    let next =
        |sector, left| next_discard_sectors(Sector::new(sector), Sectors::new(left), &limits).get();
    assert_eq!((next(100, 10000), next(2048, 8052)), (1948, 8052));
    assert_eq!(next(0, u64::MAX >> 9), (u32::MAX as u64 >> 9) / 2048 * 2048);
    assert_eq!(next(100, 7), 7);
}

#[test]
fn fills_have_names() {
    for fill in Fill::ALL {
        assert_eq!(Fill::from_name(fill.name()), Some(fill));
    }
    assert_eq!(Fill::from_name("half"), None);
}

/// Returns how many vectors a range of a layout needs, counted page by page.
fn vectors(layout: &Layout, mut at: u64, bytes: u64) -> usize {
    let (end, mut count, mut after) = (at + bytes, 0, None);
    while at < end {
        let physical = layout.physical(at);
        count += usize::from(after != Some(physical));
        let step = (PAGE_SIZE - physical % PAGE_SIZE).min(end - at);
        after = Some(physical + step);
        at += step;
    }
    count
}

/// Direct fill as the kernel does it: pin as many pages as there are free vectors, add them, again
/// until none is free.
fn batches(layout: &Layout, start: u64, remaining: u64) -> u64 {
    let (mut at, end, mut used, mut after) = (start, start + remaining, 0, None);
    while at < end && used < BIO_MAX_VECS {
        for _ in 0..BIO_MAX_VECS - used {
            if at == end {
                break;
            }
            let physical = layout.physical(at);
            used += usize::from(after != Some(physical));
            let step = (PAGE_SIZE - physical % PAGE_SIZE).min(end - at);
            after = Some(physical + step);
            at += step;
        }
    }
    at - start
}

/// The same for a fill by folio: the first page of a batch begins a vector, and so does every page
/// that is not of the folio of the page before it.
fn folio_batches(layout: &Layout, start: u64, remaining: u64) -> u64 {
    let (mut at, end, mut used) = (start, start + remaining, 0);
    while at < end && used < BIO_MAX_VECS {
        let mut folio = None;
        for _ in 0..BIO_MAX_VECS - used {
            if at == end {
                break;
            }
            used += usize::from(folio != Some(layout.folio_end(at)));
            folio = Some(layout.folio_end(at));
            at += (PAGE_SIZE - layout.physical(at) % PAGE_SIZE).min(end - at);
        }
    }
    at - start
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_fill_covers_exactly_and_keeps_its_word(
        runs in prop::collection::vec(prop_oneof![9 => Just(1u64), 1 => 2u64..9], 1..1200),
        skip in 0u64..8,
        max in prop_oneof![Just(1024u64), Just(256), Just(8), Just(2560), Just(248), Just(8192)],
        folio in prop_oneof![Just(1u64), Just(2), Just(4)],
    ) {
        let layout = Layout::from_run_pages(runs).with_folios(folio).skip(skip * 512);
        let limits = limits(max);
        for path in [IoPath::Direct, IoPath::Buffered] {
            for fill in Fill::ALL {
                let (mut at, mut total) = (0, 0);
                for bytes in bios(&layout, path, fill, &limits) {
                    prop_assert!(vectors(&layout, at, bytes) <= BIO_MAX_VECS);
                    if path == IoPath::Direct {
                        let full = batches(&layout, at, layout.len() - at);
                        match fill {
                            Fill::Full => prop_assert_eq!(bytes, full),
                            Fill::Folio => prop_assert_eq!(bytes, folio_batches(&layout, at, layout.len() - at)),
                            Fill::MaxSectors => prop_assert!(bytes <= max * 512 && bytes <= full),
                            Fill::Trim => prop_assert!(bytes <= full && (max & (max - 1) != 0 || bytes == full || bytes % (max * 512) == 0)),
                            Fill::Trim256K => prop_assert!(bytes == full || bytes < full && bytes % (256 << 10) == 0),
                        }
                    }
                    at += bytes;
                    total += bytes;
                }
                prop_assert_eq!(total, layout.len());
            }
        }
    }
}
