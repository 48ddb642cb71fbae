//! Worked examples of splitting, measurements of a real kernel, and a page-by-page oracle.

extern crate alloc;
extern crate std;
use alloc::vec;
use alloc::vec::Vec;
use core::iter::repeat_n;
use proptest::prelude::*;

use super::*;
use crate::bio::DataRange;
use crate::build::{Fill, IoPath, next_bio_bytes};
use crate::ioprio::IoPrio;
use crate::kernel::Kernel;
use crate::units::{Bytes, Instant, LayoutId, TaskId, TenantId};

pub(crate) fn bio(op: Op, sector: u64, sectors: u64) -> Bio {
    Bio {
        op,
        flags: Flags::NONE,
        ioprio: IoPrio::NONE,
        write_hint: 0,
        segments: 0,
        sector: Sector::new(sector),
        bytes: Bytes::new(sectors * 512),
        data: DataRange { layout: LayoutId(0), offset: 0 },
        task: TaskId(0),
        tenant: TenantId(0),
        io: 0,
        token: 0,
        next: None,
        queued: Instant::ZERO,
        since: Instant::ZERO,
        gated: false,
        has_place: false,
        in_scheduler: false,
    }
}

fn limits(max_sectors: u64) -> QueueLimits {
    let (max_sectors, max_hw_sectors) = (Sectors::new(max_sectors), Sectors::new(65536));
    let mut limits = QueueLimits {
        max_user_sectors: max_sectors,
        max_hw_sectors,
        max_segments: 256,
        ..QueueLimits::default()
    };
    if max_sectors >= Sectors::new(8) {
        limits.validate(&rules()).unwrap();
    }
    limits.max_sectors = max_sectors;
    limits
}

fn rules() -> Rules {
    Kernel::V6_18.rules()
}

/// Returns every part of a bio, as (sector, sectors, segments).
fn parts(
    mut bio: Bio,
    layout: Option<&Layout>,
    limits: &QueueLimits,
    rules: &Rules,
) -> Vec<(u64, u64, u16)> {
    let mut all = Vec::new();
    loop {
        match split(&bio, layout, limits, rules) {
            Split::Whole { segments } => {
                all.push((bio.sector.get(), bio.sectors().get(), segments));
                return all;
            }
            Split::Cut { sectors, segments } => {
                assert!(!sectors.is_zero() && sectors < bio.sectors());
                all.push((bio.sector.get(), sectors.get(), segments));
                bio.sector = bio.sector + sectors;
                bio.bytes -= sectors.bytes();
                bio.data.offset += sectors.bytes().get();
            }
            Split::Fail(status) => panic!("{status:?} at {bio:?} with {limits:?}"),
        }
    }
}

fn cuts(
    op: Op,
    sector: u64,
    sectors: u64,
    layout: Option<&Layout>,
    limits: &QueueLimits,
) -> Vec<(u64, u64)> {
    let all = parts(bio(op, sector, sectors), layout, limits, &rules());
    all.into_iter().map(|(sector, sectors, _)| (sector, sectors)).collect()
}

#[test]
fn the_table_of_worked_splits() {
    let plain = limits(1024);
    let physical = QueueLimits { physical_block_size: 4096, ..limits(1024) };
    assert_eq!(cuts(Op::Read, 0, 2056, None, &plain), [(0, 1024), (1024, 1024), (2048, 8)]);
    assert_eq!(
        cuts(Op::Read, 86925864, 2144, None, &physical),
        [(86925864, 1024), (86926888, 1024), (86927912, 96)]
    );
    assert_eq!(cuts(Op::Read, 3, 3000, None, &physical), [(3, 1021), (1024, 1024), (2048, 955)]);
    assert_eq!(cut_limit(Sector::new(5), 4, 0, &physical), 3);
    assert_eq!(cut_limit(Sector::new(5), 2, 0, &physical), 2);
    let chunked = QueueLimits { chunk_sectors: Sectors::new(2048), ..limits(1024) };
    assert_eq!(
        cuts(Op::Read, 1500, 3000, None, &chunked),
        [(1500, 548), (2048, 1024), (3072, 1024), (4096, 404)]
    );
    let odd = QueueLimits { chunk_sectors: Sectors::new(768), ..limits(1024) };
    assert_eq!(cuts(Op::Read, 700, 1000, None, &odd), [(700, 68), (768, 768), (1536, 164)]);
    let layout = Layout::from_run_pages(repeat_n(2, 11).chain(repeat_n(1, 245)));
    let few = QueueLimits { max_segments: 128, ..limits(2560) };
    let bytes = next_bio_bytes(&layout, 0, layout.len(), IoPath::Direct, Fill::Full, &few);
    let all = parts(bio(Op::Read, 0, bytes / 512), Some(&layout), &few, &rules());
    assert_eq!(all, [(0, 1112, 128), (1112, 1024, 128)]);
}

#[test]
fn discards_are_cut_at_granules() {
    let discard = |max, granule: u32, alignment: u32| QueueLimits {
        max_hw_discard_sectors: Sectors::new(max),
        discard_granularity: granule * 512,
        discard_alignment: alignment * 512,
        ..limits(1024)
    };
    assert_eq!(
        cuts(Op::Discard, 5, 3000, None, &discard(1000, 8, 0)),
        [(5, 995), (1000, 1000), (2000, 1000), (3000, 5)]
    );
    let long = discard(4096, 2048, 0);
    assert_eq!(
        cuts(Op::Discard, 100, 10000, None, &long),
        [(100, 3996), (4096, 4096), (8192, 1908)]
    );
    assert_eq!(cuts(Op::Discard, 2048, 8052, None, &long), [(2048, 4096), (6144, 3956)]);
    assert_eq!(
        cuts(Op::Discard, 0, 5000, None, &discard(4096, 2048, 100)),
        [(0, 2148), (2148, 2852)]
    );
    // Chunks are ignored, and a granule larger than the limit leaves the bio whole.
    let chunked = QueueLimits { chunk_sectors: Sectors::new(64), ..discard(1000, 8, 0) };
    assert_eq!(cuts(Op::Discard, 0, 1000, None, &chunked), [(0, 1000)]);
    assert_eq!(cuts(Op::Discard, 0, 9000, None, &discard(1000, 2048, 0)), [(0, 9000)]);
}

#[test]
fn a_users_discard_limit_counts_and_secure_erase_has_its_own() {
    let limits = QueueLimits {
        max_hw_discard_sectors: Sectors::new(1000),
        max_user_discard_sectors: Sectors::new(400),
        max_secure_erase_sectors: Sectors::new(600),
        ..limits(1024)
    };
    assert_eq!(cuts(Op::Discard, 0, 1000, None, &limits), [(0, 400), (400, 400), (800, 200)]);
    assert_eq!(cuts(Op::SecureErase, 0, 1000, None, &limits), [(0, 600), (600, 400)]);
    let old = parts(bio(Op::SecureErase, 0, 1000), None, &limits, &Kernel::V6_1.rules());
    assert_eq!(old, [(0, 400, 1), (400, 400, 1), (800, 200, 1)]);
}

#[test]
fn write_zeroes_by_version() {
    let limits = QueueLimits {
        max_write_zeroes_sectors: Sectors::new(1000),
        chunk_sectors: Sectors::new(2048),
        physical_block_size: 4096,
        ..limits(1024)
    };
    let zeroes = bio(Op::WriteZeroes, 1500, 1700);
    assert_eq!(
        parts(zeroes, None, &limits, &rules()),
        [(1500, 548, 0), (2048, 1000, 0), (3048, 152, 0)]
    );
    assert_eq!(
        parts(zeroes, None, &limits, &Kernel::V6_6.rules()),
        [(1500, 1000, 0), (2500, 700, 0)]
    );
}

#[test]
fn what_must_not_be_cut_fails() {
    let mut limits = limits(1024);
    let fail = |bio: Bio, limits: &QueueLimits| split(&bio, None, limits, &rules());
    let nowait = |sectors| Bio { flags: Flags::NOWAIT, ..bio(Op::Read, 0, sectors) };
    assert_eq!(fail(nowait(2056), &limits), Split::Fail(Status::Again));
    assert_eq!(fail(nowait(1024), &limits), Split::Whole { segments: 8 });

    limits.atomic_write_max = 64 * 1024;
    let atomic = |sector, sectors| Bio { flags: Flags::ATOMIC, ..bio(Op::Write, sector, sectors) };
    assert_eq!(fail(atomic(0, 128), &limits), Split::Whole { segments: 1 });
    assert_eq!(fail(atomic(0, 136), &limits), Split::Fail(Status::Invalid));
    limits.atomic_write_boundary = 64 * 1024;
    assert_eq!(fail(atomic(64, 128), &limits), Split::Fail(Status::Invalid));
    limits.atomic_write_boundary = 0;
    limits.chunk_sectors = Sectors::new(48);
    assert_eq!(
        fail(atomic(32, 32), &limits),
        Split::Fail(Status::Invalid),
        "the chunk is its boundary"
    );

    assert_eq!(fail(bio(Op::ZoneAppend, 0, 8), &limits), Split::Fail(Status::NotSupported));
    limits.max_zone_append_sectors = Sectors::new(512);
    assert_eq!(fail(bio(Op::ZoneAppend, 0, 512), &limits), Split::Whole { segments: 4 });
    assert_eq!(fail(bio(Op::ZoneAppend, 0, 520), &limits), Split::Fail(Status::IoError));
    limits.max_segments = 3;
    assert_eq!(fail(bio(Op::ZoneAppend, 0, 512), &limits), Split::Fail(Status::Invalid));
}

#[test]
fn a_flush_has_nothing_to_split() {
    for op in [Op::Flush, Op::Write] {
        assert_eq!(
            split(&bio(op, 0, 0), None, &limits(1024), &rules()),
            Split::Whole { segments: 0 }
        );
    }
}

#[test]
fn huge_pages_split_without_a_tail() {
    let layout = Layout::from_run_pages(repeat_n(512, 32));
    let cuts = cuts(Op::Read, 0, 131072, Some(&layout), &limits(1024));
    assert_eq!(cuts.len(), 128);
    assert!(cuts.iter().all(|&(_, sectors)| sectors == 1024));
}

#[test]
fn segments_end_at_their_size_and_boundary() {
    let mut limits = limits(1024);
    assert_eq!(parts(bio(Op::Read, 0, 1024), None, &limits, &rules()), [(0, 1024, 8)]);
    (limits.max_segment_size, limits.seg_boundary_mask) = (u32::MAX, 0xffff_ffff);
    let layout = Layout::contiguous(1 << 20, (4 << 30) - 8192);
    assert_eq!(parts(bio(Op::Read, 0, 1024), Some(&layout), &limits, &rules()), [(0, 1024, 2)]);
    // The whole address space has no boundary to cross.
    limits.seg_boundary_mask = u64::MAX;
    assert_eq!(parts(bio(Op::Read, 0, 1024), Some(&layout), &limits, &rules()), [(0, 1024, 1)]);
}

#[test]
fn memory_off_the_dma_alignment_is_refused() {
    let layout = Layout::from_run_pages([4]).skip(4);
    let mut limits = limits(1024);
    assert_eq!(
        split(&bio(Op::Read, 0, 8), Some(&layout), &limits, &rules()),
        Split::Fail(Status::Invalid)
    );
    limits.dma_alignment = 3;
    assert_eq!(
        split(&bio(Op::Read, 0, 8), Some(&layout), &limits, &rules()),
        Split::Whole { segments: 1 }
    );
}

/// null_blk on 6.1 with the default limits of drivers: its 1028 KiB reads were issued as 0, 255,
/// 510 ... 2040.
#[test]
fn a_limit_that_is_no_whole_number_of_pages() {
    let limits = {
        let mut limits = QueueLimits::default();
        limits.validate(&Kernel::V6_1.rules()).unwrap();
        limits
    };
    let expected: Vec<_> = (0..9).map(|i| (i * 255, if i < 8 { 255 } else { 16 })).collect();
    assert_eq!(cuts(Op::Read, 0, 2056, Some(&Layout::from_run_pages([1; 257])), &limits), expected);
}

#[test]
fn gaps_are_cut_where_a_virt_boundary_rules() {
    let limits =
        QueueLimits { virt_boundary_mask: 8191, max_segment_size: u32::MAX, ..limits(1024) };
    // Page 19 starts off the boundary of 8 KiB, so it is cut from the pages before it; it ends on
    // the boundary, and 22 starts on it. Page 26 ends off the boundary.
    let layout = Layout::from_pages([16, 17, 19, 22, 23, 26, 30]);
    let all = parts(bio(Op::Read, 0, 56), Some(&layout), &limits, &rules());
    assert_eq!(all, [(0, 16, 1), (16, 32, 3), (48, 8, 1)]);
    assert!(
        has_gap(&limits, 4096, 8192)
            && has_gap(&limits, 8192, 20480)
            && !has_gap(&limits, 4096, 4096)
    );
    assert!(!has_gap(&limits, 8192, 32768));
}

#[test]
fn merges_see_the_room_in_the_chunk() {
    let limits = QueueLimits {
        chunk_sectors: Sectors::new(32),
        max_hw_discard_sectors: Sectors::new(5000),
        max_write_zeroes_sectors: Sectors::new(10),
        ..limits(1024)
    };
    let at = |op, sector| max_sectors_at(op, Flags::NONE, Sector::new(sector), &limits).get();
    assert_eq!(
        (at(Op::Read, 24), at(Op::Write, 32), at(Op::Discard, 24), at(Op::WriteZeroes, 0)),
        (8, 32, 5000, 10)
    );
}

/// Sector and sectors of each part.
type Parts = Vec<(u64, u64)>;

/// The fragments that `block_getrq` shows for each bio of a trace, in sector order.
fn traced(text: &str) -> Vec<(u64, u64, Parts)> {
    let mut bios: Vec<(u64, u64, Parts)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(event) = words.iter().position(|w| w.starts_with("block_")) else { continue };
        let number = |i: usize| words[event + i].parse::<u64>().unwrap();
        match words[event] {
            "block_bio_queue:" => bios.push((number(3), number(5), Vec::new())),
            "block_getrq:" => {
                let request = (number(3), number(5));
                let bio = bios.iter_mut().find(|(sector, len, parts)| {
                    (*sector..sector + len).contains(&request.0)
                        && parts.iter().map(|p| p.1).sum::<u64>() < *len
                });
                bio.expect("a request of some bio").2.push(request);
            }
            _ => {}
        }
    }
    bios
}

/// Returns a buffer in which the next full direct bio has this many pages, and more follow.
fn buffer_of(pages: u64) -> Layout {
    let long = pages.saturating_sub(256);
    let runs = (0..pages.min(256))
        .map(|i| if i == 255 { 1 } else { 1 + long / 255 + u64::from(i < long % 255) });
    Layout::from_run_pages(runs.chain([1; 300]))
}

#[test]
fn bios_split_as_a_real_kernel_split_them() {
    let mut seen = 0;
    for file in [
        include_str!(
            "../../../../tests/data/kernel-truth/traces/dd-64m-direct-ext4-none-512.ftrace"
        ),
        include_str!(
            "../../../../tests/data/kernel-truth/traces/dd-64m-direct-ext4-mq-deadline-512.ftrace"
        ),
        include_str!("../../../../tests/data/kernel-truth/traces/dd-1028k-direct.ftrace"),
    ] {
        let limits = QueueLimits { max_segments: 128, ..limits(1024) };
        for (sector, sectors, expected) in traced(file) {
            let layout = buffer_of(sectors / 8);
            // A bio is as large as possible, or ends with an extent or the call.
            let remaining = if sectors < 2048 { sectors * 512 } else { layout.len() };
            let built = next_bio_bytes(&layout, 0, remaining, IoPath::Direct, Fill::Full, &limits);
            assert_eq!(built, sectors * 512);
            assert_eq!(cuts(Op::Read, sector, sectors, Some(&layout), &limits), expected);
            seen += expected.len();
        }
    }
    assert!(seen > 500, "only {seen} requests in the traces");
}

/// Returns the longest front part, found sector by sector from the definition of each limit.
fn oracle(bio: &Bio, layout: &Layout, limits: &QueueLimits) -> u64 {
    let sector = bio.sector.get();
    let (physical, logical) =
        (u64::from(limits.physical_block_size) / 512, u64::from(limits.logical_block_size) / 512);
    let mut most = limits.max_sectors.get();
    if !limits.chunk_sectors.is_zero() {
        most = (1..=most)
            .take_while(|n| {
                (sector + n - 1) / limits.chunk_sectors.get() == sector / limits.chunk_sectors.get()
            })
            .last()
            .unwrap();
    }
    most = (1..=most)
        .rev()
        .find(|n| (sector + n).is_multiple_of(physical))
        .unwrap_or_else(|| (1..=most).rev().find(|n| n.is_multiple_of(logical)).unwrap());
    let fits = |n: u64| {
        n <= most && segments_of(bio, layout, limits, n).is_some_and(|s| s <= limits.max_segments)
    };
    let all = bio.sectors().get();
    if fits(all) {
        return all;
    }
    // Every part up to the first that does not fit must fit.
    let first_bad = (1..=all).find(|&n| !fits(n)).unwrap();
    (first_bad - 1) / logical * logical
}

/// Returns the segments of the first `n` sectors, counted by sector; `None` if there is a gap
/// inside.
fn segments_of(bio: &Bio, layout: &Layout, limits: &QueueLimits, n: u64) -> Option<u16> {
    let (mut segments, mut size, mut previous) = (0u16, 0, None);
    for i in 0..n {
        let at = layout.physical(bio.data.offset + i * 512);
        let follows = previous == Some(at);
        if let Some(end) = previous
            && !follows
            && (end | at) & limits.virt_boundary_mask != 0
        {
            return None;
        }
        let joins = follows
            && size + 512 <= u64::from(limits.max_segment_size)
            && at & limits.seg_boundary_mask != 0;
        // A full segment that ends off the boundary leaves a gap inside its own run.
        if follows && !joins && at & limits.virt_boundary_mask != 0 {
            return None;
        }
        (segments, size) = if joins { (segments, size + 512) } else { (segments + 1, 512) };
        previous = Some(at + 512);
    }
    Some(segments)
}

fn any_limits() -> impl Strategy<Value = QueueLimits> {
    (
        prop_oneof![Just(8u64), Just(64), Just(248), Just(1024)],
        prop_oneof![2 => Just(0u64), 1 => Just(256), 1 => Just(96)],
        prop_oneof![Just(512u32), Just(4096), Just(16384)],
        prop_oneof![Just(512u32), Just(4096)],
        1u16..40,
        prop_oneof![Just(4096u32), Just(65536), Just(u32::MAX)],
        prop_oneof![Just(0xfffu64), Just(0xffff), Just(0xffff_ffff)],
        prop_oneof![2 => Just(0u64), 1 => Just(4095)],
    )
        .prop_map(|(max, chunk, physical, logical, segments, size, boundary, virt)| {
            let mut limits = QueueLimits {
                max_user_sectors: Sectors::new(max),
                max_hw_sectors: Sectors::new(2048),
                chunk_sectors: Sectors::new(chunk),
                physical_block_size: physical,
                logical_block_size: logical,
                max_segments: segments,
                max_segment_size: size,
                seg_boundary_mask: boundary,
                virt_boundary_mask: virt,
                ..QueueLimits::default()
            };
            limits.validate(&rules()).unwrap();
            limits
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn every_part_is_the_longest_that_fits(
        limits in any_limits(),
        runs in prop::collection::vec(prop_oneof![3 => Just(1u64), 1 => 2u64..20], 1..60),
        skip in 0u64..8,
        sector in 0u64..4000,
        cut in 0u64..64,
    ) {
        let block = u64::from(limits.logical_block_size) / 512;
        // A split cannot avoid a gap in the middle of a logical block, so memory is aligned to the
        // blocks.
        let layout = Layout::from_run_pages(runs).skip(skip / block * block * 512);
        let sectors = (layout.len() / 512).saturating_sub(cut).max(block) / block * block;
        let mut rest = bio(Op::Write, sector / block * block, sectors);
        let mut covered = 0;
        loop {
            // Data inside one page is not checked further, even if a limit as small as a physical
            // block would end it at that block (the kernel's shortcut for single vectors).
            let in_page = layout.page_offset(rest.data.offset);
            let is_short = limits.chunk_sectors.is_zero() && in_page + rest.bytes.get() <= PAGE_SIZE;
            let longest = if is_short { rest.sectors().get() } else { oracle(&rest, &layout, &limits) };
            let (taken, segments) = match split(&rest, Some(&layout), &limits, &rules()) {
                Split::Whole { segments } => (rest.sectors().get(), segments),
                Split::Cut { sectors, segments } => (sectors.get(), segments),
                Split::Fail(status) => panic!("{status:?}"),
            };
            prop_assert_eq!(taken, longest);
            let counted = segments_of(&rest, &layout, &limits, taken);
            prop_assert!(counted.is_some_and(|counted| counted <= segments && segments <= limits.max_segments));
            covered += taken;
            if taken == rest.sectors().get() {
                break;
            }
            rest.sector = rest.sector + Sectors::new(taken);
            rest.bytes -= Bytes::new(taken * 512);
            rest.data.offset += taken * 512;
        }
        prop_assert_eq!(covered, sectors);
    }
}

#[test]
fn the_seeds_trace_splits_as_it_did() {
    let bios = [(86925864, 2144), (86928008, 2144), (86930152, 2112), (86932264, 2096)];
    let all: Vec<_> =
        bios.iter().flat_map(|&(s, n)| cuts(Op::Read, s, n, None, &limits(1024))).collect();
    let expected = vec![
        (86925864, 1024),
        (86926888, 1024),
        (86927912, 96),
        (86928008, 1024),
        (86929032, 1024),
        (86930056, 96),
        (86930152, 1024),
        (86931176, 1024),
        (86932200, 64),
        (86932264, 1024),
        (86933288, 1024),
        (86934312, 48),
    ];
    assert_eq!(all, expected);
}
