//! Worked examples of `mm/readahead.c`: `ondemand_readahead`, `try_context_readahead`,
//! `get_init_ra_size`, `get_next_ra_size`; a record of Linux 6.18 in
//! `tests/data/kernel-truth/traces`; and windows that were measured in an emulated machine.

use super::*;
use alloc::{vec, vec::Vec};
use elevon_core::kernel::Kernel;

const OLD: Rules = Kernel::V6_1.rules();
const NEW: Rules = Kernel::V6_12.rules();
const MARKED: Rules = Kernel::V6_16.rules();
const FOLIO: Rules = Kernel::V6_18.rules();

/// A reader over a cache that evicts nothing. It is driven as in the page cache, with pages and
/// markers only.
struct Reader {
    ra: Readahead,
    cached: Vec<bool>,
    markers: Vec<bool>,
    windows: Vec<(u64, u32, Option<u64>)>,
}

impl Reader {
    fn new(ra_pages: u32, io_pages: u32, file: usize) -> Self {
        let ra = Readahead::new(ra_pages, io_pages);
        Self { ra, cached: vec_of(file), markers: vec_of(file), windows: Vec::new() }
    }

    fn ask(&mut self, index: u64, req: u64, marker: bool, rules: &Rules) {
        let cached = &self.cached;
        let is_cached = |page: PageIndex| {
            cached.get(page.get() as usize).copied().unwrap_or(false).then_some(0)
        };
        let Some(window) = self.ra.decide(
            Ask { index: PageIndex::new(index), req: PageCount::new(req), marker },
            rules,
            is_cached,
        ) else {
            return;
        };
        self.windows.push((window.start.get(), window.size, window.marker().map(PageIndex::get)));
        for page in window.start.get()..window.end().get().min(self.cached.len() as u64) {
            self.cached[page as usize] = true;
        }
        if let Some(marker) =
            window.marker().map(PageIndex::get).filter(|&m| m < self.markers.len() as u64)
        {
            self.markers[marker as usize] = true;
        }
    }

    fn read(&mut self, first: u64, pages: u64, rules: &Rules) {
        for page in first..first + pages {
            let left = first + pages - page;
            if !self.cached[page as usize] {
                self.ask(page, left, false, rules);
            }
            if core::mem::take(&mut self.markers[page as usize]) {
                self.ask(page, left, true, rules);
            }
        }
        self.ra.read_ended(PageIndex::new(first + pages).start());
    }
}

fn vec_of(n: usize) -> Vec<bool> {
    alloc::vec![false; n]
}

fn sequential(
    ra: u32,
    io: u32,
    pages: u64,
    reads: u64,
    rules: &Rules,
) -> Vec<(u64, u32, Option<u64>)> {
    let mut reader = Reader::new(ra, io, 4096);
    for n in 0..reads {
        reader.read(n * pages, pages, rules);
    }
    reader.windows
}

#[test]
fn sizes_of_windows() {
    for (max, initial, next) in [
        (32, [4, 4, 8, 16, 32, 32], [4, 4, 8, 16, 32, 32, 32]),
        (64, [4, 8, 8, 16, 32, 64], [4, 8, 8, 16, 32, 64, 64]),
        (128, [4, 8, 16, 16, 32, 64], [4, 8, 16, 16, 32, 64, 128]),
        (256, [4, 8, 16, 32, 32, 64], [4, 8, 16, 32, 32, 64, 128]),
    ] {
        assert_eq!(
            [1, 2, 3, 5, 9, 17].map(|req| initial_size(PageCount::new(req), max)),
            initial,
            "max {max}"
        );
        assert_eq!(
            [1, 2, 4, 8, 16, 32].map(|req| initial_size(PageCount::new(req), max)),
            initial,
            "max {max}"
        );
        assert_eq!([1, 2, 4, 8, 16, 32, 64].map(|size| next_size(size, max)), next, "max {max}");
    }
}

#[test]
fn sequential_readers_get_growing_windows() {
    let m = Some;
    let four_kib = [
        (0, 4, m(1)),
        (4, 8, m(4)),
        (12, 16, m(12)),
        (28, 32, m(28)),
        (60, 32, m(60)),
        (92, 32, m(92)),
    ];
    assert_eq!(sequential(32, 128, 1, 92, &OLD), four_kib);
    assert_eq!(
        sequential(32, 128, 4, 14, &OLD),
        [(0, 8, m(4)), (8, 16, m(8)), (24, 32, m(24)), (56, 32, m(56))]
    );
    assert_eq!(
        sequential(32, 128, 32, 3, &OLD)[..3],
        [(0, 32, m(16)), (32, 32, m(32)), (64, 32, m(64))]
    );
    let wide = [
        (0, 4, m(1)),
        (4, 16, m(4)),
        (20, 32, m(20)),
        (52, 64, m(52)),
        (116, 128, m(116)),
        (244, 256, m(244)),
    ];
    assert_eq!(sequential(256, 256, 1, 244, &OLD), wide);
    assert_eq!(sequential(32, 128, 64, 1, &OLD)[0], (0, 64, m(32)));
}

#[test]
fn later_kernels_ramp_from_the_marker_only() {
    let m = Some;
    // Small reads have the same windows.
    assert_eq!(sequential(32, 128, 1, 92, &NEW), sequential(32, 128, 1, 92, &OLD));
    // A request that fills its window has half of it after the marker, and no window covers the
    // next one.
    assert_eq!(
        sequential(32, 128, 32, 2, &NEW)[..3],
        [(0, 32, m(16)), (32, 32, m(32)), (64, 32, m(64))]
    );
    // The end of a window no longer means a ramp: the reader is sequential and starts again.
    for (rules, window) in [(&OLD, (4, 24, m(12))), (&NEW, (4, 4, m(5)))] {
        let mut reader = Reader::new(32, 128, 4096);
        reader.read(0, 1, rules);
        reader.markers[1] = false;
        for page in 1..=4 {
            reader.read(page, 1, rules);
        }
        assert_eq!(reader.windows[1], window);
    }
}

/// The windows of the measured `buffered-seqread-ext4.ftrace` (reads of 128 KiB, windows of at most
/// 2560 KiB), in pages; the bios themselves are compared in
/// `crates/elevon/tests/parity/kernel_parity.rs`.
#[test]
fn windows_of_6_18_end_where_folios_do() {
    let m = Some;
    let mut expected = vec![
        (0, 64, m(32)),
        (64, 128, m(64)),
        (192, 256, m(192)),
        (448, 512, m(448)),
        (960, 576, m(960)),
    ];
    expected.extend((0..3).map(|n| (1536 + n * 640, 640, m(1536 + n * 640))));
    assert_eq!(sequential(640, 128, 32, 88, &FOLIO), expected);
    // In older kernels the fifth window is a whole one.
    assert_eq!(sequential(640, 128, 32, 44, &NEW)[4], (960, 640, m(960)));
    // Windows of 128 KiB are aligned to 128 KiB too, after some smaller ones.
    let small = [
        (0, 4, m(1)),
        (4, 8, m(4)),
        (12, 4, m(12)),
        (16, 8, m(16)),
        (24, 8, m(24)),
        (32, 16, m(32)),
        (48, 16, m(48)),
    ];
    let windows = sequential(32, 128, 1, 128, &FOLIO);
    assert_eq!(windows[..7], small);
    assert_eq!(windows[7..], [(64, 32, m(64)), (96, 32, m(96)), (128, 32, m(128))]);
}

/// What Linux 6.1.187, 6.16.12 and 7.3.4 read of a virtio disk and of an NVMe disk with
/// `read_ahead_kb=128`, in an emulated machine: `dd` with one open file and several block sizes. A
/// read is its first page, its pages and how often it is repeated; a window is its first page and
/// its pages.
#[test]
fn windows_of_reads_of_several_sizes_are_the_kernels() {
    type Reads = &'static [(u64, u64, u64)];
    type Windows = Vec<(u64, u32)>;
    let same = |first: u64, size: u32, count: u64| -> Windows {
        (0..count).map(|n| (first + n * u64::from(size), size)).collect()
    };
    let small = vec![(0, 4), (4, 8), (12, 16), (28, 32), (60, 32), (101, 1)];
    let late = vec![(100, 1), (101, 8), (109, 16), (125, 32), (157, 32)];
    let odd = [same(0, 75, 7), vec![(525, 51)]].concat();
    // Reads, and the windows of 6.1, of 6.16 and of 7.3.
    let measured: [(Reads, [Windows; 3]); 8] = [
        (&[(0, 64, 3), (192, 1, 150)], [(); 3].map(|()| same(0, 64, 7))),
        (&[(0, 256, 2), (512, 16, 60)], [(); 3].map(|()| same(0, 256, 7))),
        (&[(0, 16, 1), (32, 4, 1), (52, 4, 2)], [(); 3].map(|()| same(0, 32, 2))),
        (
            &[(0, 64, 3), (192, 32, 4), (320, 16, 10), (480, 1, 30)],
            [(); 3].map(|()| same(0, 64, 9)),
        ),
        (&[(0, 75, 6), (450, 1, 40)], [same(0, 75, 8), same(0, 75, 8), odd]),
        (
            &[(0, 1, 20), (60, 1, 1), (101, 1, 1)],
            [
                small.clone(),
                small,
                vec![(0, 4), (4, 8), (12, 4), (16, 8), (24, 8), (60, 1), (101, 1)],
            ],
        ),
        (
            &[(100, 1, 1), (101, 4, 11)],
            [
                late.clone(),
                late,
                vec![(100, 1), (101, 8), (109, 15), (124, 20), (144, 16), (160, 32)],
            ],
        ),
        (
            &[(0, 1, 1), (16, 1, 1)],
            [vec![(0, 4), (16, 1)], vec![(0, 4), (4, 8), (16, 1)], vec![(0, 4), (16, 1)]],
        ),
    ];
    for (reads, windows) in measured {
        for (rules, windows) in [&OLD, &MARKED, &Kernel::V7_3.rules()].into_iter().zip(windows) {
            let mut reader = Reader::new(32, 320, 4096);
            for &(first, pages, count) in reads {
                (0..count).for_each(|n| reader.read(first + n * pages, pages, rules));
            }
            let ours: Windows =
                reader.windows.iter().map(|&(first, size, _)| (first, size)).collect();
            assert_eq!(ours, windows, "{reads:?}");
        }
    }
}

#[test]
fn windows_of_8_mib_grow_fourfold_first() {
    for rules in [&OLD, &NEW] {
        let sizes: Vec<u32> =
            sequential(2048, 128, 1, 1900, rules).iter().map(|&(_, size, _)| size).collect();
        assert_eq!(sizes[..7], [4, 16, 64, 256, 512, 1024, 2048]);
    }
}

#[test]
fn a_lone_read_then_its_neighbour() {
    for rules in [&OLD, &NEW, &FOLIO] {
        let mut reader = Reader::new(32, 128, 4096);
        reader.read(1000, 1, rules);
        assert_eq!(reader.windows, [(1000, 1, None)]);
        reader.read(1001, 1, rules);
        assert_eq!(reader.windows[1], (1001, 4, Some(1002)));
    }
}

#[test]
fn a_cached_run_stands_for_the_lost_state() {
    for rules in [&OLD, &NEW] {
        let mut reader = Reader::new(32, 128, 4096);
        reader.cached[490..500].fill(true);
        reader.ra.read_ended(PageIndex::new(4000).start());
        reader.read(500, 1, rules);
        assert_eq!(reader.windows, [(500, 11, Some(510))]);

        let mut reader = Reader::new(32, 128, 4096);
        reader.cached[..10].fill(true);
        reader.ra.read_ended(PageIndex::new(4000).start());
        reader.read(10, 1, rules);
        assert_eq!(reader.windows, [(10, 21, Some(30))]);
    }
}

#[test]
fn a_marker_of_another_stream() {
    for rules in [&OLD, &NEW] {
        let mut reader = Reader::new(32, 128, 4096);
        reader.cached[40..48].fill(true);
        reader.ask(40, 1, true, rules);
        assert_eq!(reader.windows, [(48, 18, Some(48))]);
        // There is no hole within the limit: no readahead.
        reader.cached[40..200].fill(true);
        reader.ask(60, 1, true, rules);
        assert_eq!(reader.windows.len(), 1);
    }
}

/// As measured on Linux 6.18.44, 6.19, 7.0 and 7.1, with either advice and without.
#[test]
fn without_readahead_pages_are_read_one_by_one() {
    for advice in [Advice::Normal, Advice::Random, Advice::Sequential] {
        for rules in [&OLD, &NEW] {
            let mut reader = Reader::new(0, 128, 4096);
            reader.ra.advise(advice, 0);
            reader.read(0, 3, rules);
            assert_eq!(reader.windows, [(0, 1, None), (1, 1, None), (2, 1, None)]);
        }
    }
}

#[test]
fn advice_changes_the_window() {
    let mut reader = Reader::new(32, 128, 4096);
    reader.ra.advise(Advice::Random, 32);
    reader.read(0, 1, &OLD);
    reader.read(1, 3, &OLD);
    assert_eq!(reader.windows, [(0, 1, None), (1, 3, None)]);
    reader.ra.advise(Advice::Sequential, 32);
    assert_eq!(reader.ra.ra_pages(), 64);
    reader.ra.advise(Advice::WillNeed, 32);
    assert_eq!((reader.ra.ra_pages(), reader.ra.advice()), (64, Advice::Sequential));
    reader.ra.advise(Advice::Normal, 32);
    assert_eq!(reader.ra.ra_pages(), 32);
    reader.ra.read_failed();
    assert_eq!(reader.ra.ra_pages(), 8);
}

#[test]
fn a_reader_in_order_never_waits_for_a_page_behind_a_window() {
    // For any request size and rules, windows follow one another without a hole, and never exceed
    // the limit.
    for rules in [&OLD, &NEW, &FOLIO] {
        for pages in 1..=40 {
            let windows = sequential(32, 32, pages, 3000 / pages, rules);
            let mut end = 0;
            for &(start, size, _) in &windows {
                assert!(start <= end, "a hole before {start} with reads of {pages}");
                assert!(size <= 40);
                end = end.max(start + u64::from(size));
            }
            assert!(end >= 3000 / pages * pages);
        }
    }
}

/// The windows of Linux 7.3 without huge pages, of a reader of 4 KiB that begins at page 16384.
#[test]
fn windows_of_single_pages_end_at_multiples_of_four() {
    let mut ra = Readahead::new(32, 32);
    let asks = [(0, false), (1, false), (2, true), (5, true), (12, true), (24, true)].map(
        |(page, marker)| Ask {
            index: PageIndex::new(16_384 + page),
            req: PageCount::new(1),
            marker,
        },
    );
    let sizes = asks.map(|ask| {
        let window = ra.decide(ask, &FOLIO, |_| None).expect("a window");
        ra.use_single_pages();
        ra.read_ended(ask.index.next().start());
        window.size
    });
    assert_eq!(sizes, [1, 4, 7, 12, 24, 32]);
}
