use super::*;
use elevon_formats::fio::spec::Rw;
use std::collections::BTreeMap;

mod orders;

const BLOCK: u64 = 4096;

fn job(blocks: u64, random: bool) -> (JobSpec, Extent) {
    let mut spec = JobSpec::default_job("p");
    spec.rw.random = random;
    let len = Bytes::new(blocks * BLOCK);
    (
        spec,
        Extent {
            regions: vec![Region { start: DeviceOffset::new(BLOCK), len }],
            files: Vec::new(),
            bytes: len,
        },
    )
}
fn pattern(spec: &JobSpec, extent: &Extent, clone: u32) -> Pattern {
    Pattern::new(spec, extent, &Seeds::new(spec, 1, 0, clone, clone + 1))
}
fn take(pattern: &mut Pattern, count: usize) -> Vec<Access> {
    (0..count).map(|_| pattern.next_access(Bytes::MAX)).collect()
}
fn offsets(accesses: &[Access]) -> Vec<u64> {
    accesses.iter().map(|a| a.offset.get() / BLOCK - 1).collect()
}
fn is_permutation(mut blocks: Vec<u64>, len: u64) -> bool {
    blocks.sort_unstable();
    blocks.into_iter().eq(0..len)
}

#[test]
fn sequential_wraps() {
    let (spec, extent) = job(5, false);
    assert_eq!(offsets(&take(&mut pattern(&spec, &extent, 0), 7)), [0, 1, 2, 3, 4, 0, 1]);
}

#[test]
fn sequential_with_holes_and_backwards() {
    let (mut spec, extent) = job(8, false);
    spec.rw.sequential_skip = BLOCK as i64;
    assert_eq!(offsets(&take(&mut pattern(&spec, &extent, 0), 6)), [0, 2, 4, 6, 0, 2]);
    spec.rw.sequential_skip = -2 * BLOCK as i64;
    assert_eq!(offsets(&take(&mut pattern(&spec, &extent, 0), 10)), [7, 6, 5, 4, 3, 2, 1, 0, 7, 6]);
}

#[test]
fn random_map_covers_each_pass_once_and_differently() {
    let (spec, extent) = job(1000, true);
    let mut pattern = pattern(&spec, &extent, 0);
    let first = offsets(&take(&mut pattern, 1000));
    let second = offsets(&take(&mut pattern, 1000));
    assert_ne!(first, second);
    assert!(is_permutation(first, 1000));
    assert!(is_permutation(second, 1000));
}

#[test]
fn mixed_directions_share_the_map() {
    let (mut spec, extent) = job(1000, true);
    spec.rw = Rw { write: true, mix_read: 70, ..spec.rw };
    let all = take(&mut pattern(&spec, &extent, 0), 1000);
    let reads = all.iter().filter(|a| a.direction == Direction::Read).count();
    assert!((650..750).contains(&reads), "{reads}");
    assert!(is_permutation(offsets(&all), 1000));
}

#[test]
fn norandommap_repeats() {
    let (mut spec, extent) = job(1000, true);
    spec.random.norandommap = true;
    let mut seen = offsets(&take(&mut pattern(&spec, &extent, 0), 1000));
    seen.sort_unstable();
    seen.dedup();
    // 1 - 1/e of the blocks.
    assert!((590..675).contains(&seen.len()), "{}", seen.len());
}

#[test]
fn several_ios_per_offset() {
    let (mut spec, extent) = job(803, true);
    spec.rw.ios_per_offset = 8;
    let mut one = pattern(&spec, &extent, 0);
    let all = offsets(&take(&mut one, 803));
    let seeks = all.windows(2).filter(|w| w[1] != w[0] + 1).count();
    assert!((98..=101).contains(&seeks), "{seeks}");
    assert!(is_permutation(all, 803));
    spec.rw.sequencer_identical = true;
    let all = offsets(&take(&mut pattern(&spec, &extent, 0), 80));
    assert!(all.chunks(8).all(|c| c.iter().all(|b| *b == c[0])));
}

#[test]
fn percentage_random() {
    let (mut spec, extent) = job(100_000, true);
    spec.random.percentage = [25; 3];
    let all = offsets(&take(&mut pattern(&spec, &extent, 0), 10_000));
    let jumps = all.windows(2).filter(|w| w[1] != w[0] + 1).count();
    assert!((2300..2700).contains(&jumps), "{jumps}");
}

#[test]
fn block_sizes() {
    let (mut spec, extent) = job(1_000_000, false);
    spec.blocks.sizes[0] = BlockSizes::Split(vec![(4096, 10), (65536, 50), (32768, 40)]);
    let mut counts = BTreeMap::new();
    for access in take(&mut pattern(&spec, &extent, 0), 10_000) {
        *counts.entry(access.len.get()).or_insert(0u32) += 1;
    }
    assert_eq!(counts.len(), 3);
    for (size, percent) in [(4096, 10), (65536, 50), (32768, 40)] {
        assert!(counts[&size].abs_diff(percent * 100) < 200, "{size}: {}", counts[&size]);
    }
    spec.blocks.sizes[0] = BlockSizes::Range(4096, 16384);
    let all = take(&mut pattern(&spec, &extent, 0), 1000);
    assert!(all.iter().all(|a| a.len.get() % 4096 == 0 && (4096..=16384).contains(&a.len.get())));
    assert!((1..=4).all(|k| all.iter().any(|a| a.len.get() == k * 4096)));
    spec.blocks.unaligned = true;
    let all = take(&mut pattern(&spec, &extent, 0), 1000);
    assert!(
        all.iter().any(|a| a.len.get() % 4096 != 0) && all.iter().all(|a| a.len.get() % 512 == 0)
    );
}

/// What fio 3.33 prints (`write_iolog=`) for `rw=randread bssplit=4k/50:8k/50 size=4g norandommap`:
/// which of the first reads have 8 KiB. Of parts that have other shares the rarest comes first.
#[test]
fn sizes_are_those_that_fio_draws() {
    let (mut spec, extent) = job(1 << 20, true);
    spec.random.norandommap = true;
    let large = |spec: &JobSpec, size| -> String {
        let all = take(&mut pattern(spec, &extent, 0), 40);
        all.iter().map(|access| if access.len.get() == size { '1' } else { '0' }).collect()
    };
    spec.blocks.sizes[0] = BlockSizes::Split(vec![(4096, 50), (8192, 50)]);
    assert_eq!(large(&spec, 8192), "0110101000000001111111010000111010111000");
    let mut large_of = |parts: &[(u64, u32)]| {
        spec.blocks.sizes[0] = BlockSizes::Split(parts.to_vec());
        large(&spec, 65536)
    };
    assert_eq!(large_of(&[(4096, 70), (65536, 30)]), large_of(&[(65536, 30), (4096, 70)]));
}

#[test]
fn block_align() {
    let (mut spec, mut extent) = job(1000, true);
    spec.blocks.align = [65536; 3];
    extent.regions[0].start = DeviceOffset::ZERO;
    let all = take(&mut pattern(&spec, &extent, 0), 1000);
    assert!(all.iter().all(|a| a.offset.get() % 65536 == 0 && a.len.get() == 4096));
}

#[test]
fn same_seed_same_sequence() {
    let (mut spec, extent) = job(1000, true);
    spec.rw = Rw { write: true, ..spec.rw };
    let run = |spec: &JobSpec, seed, clone| {
        take(&mut Pattern::new(spec, &extent, &Seeds::new(spec, seed, 0, clone, clone + 1)), 200)
    };
    assert_eq!(run(&spec, 1, 0), run(&spec, 1, 0));
    assert_ne!(run(&spec, 1, 0), run(&spec, 1, 1), "clones differ");
    // Seeds differ in the offsets and in the mix, whatever repeats; only randseed fixes both.
    let repeated = run(&spec, 1, 0);
    for (randrepeat, allrandrepeat) in [(true, false), (false, false), (true, true)] {
        (spec.random.repeat, spec.random.repeat_all) = (randrepeat, allrandrepeat);
        assert_eq!(run(&spec, 2, 0), run(&spec, 2, 0));
        assert_ne!(offsets(&run(&spec, 1, 0)), offsets(&run(&spec, 2, 0)));
        assert_ne!(run(&spec, 1, 0), run(&spec, 2, 0));
    }
    spec.random.seed = Some(42);
    assert_eq!(run(&spec, 1, 0), run(&spec, 2, 0));
    assert_ne!(run(&spec, 1, 0), repeated);
}

#[test]
fn files_are_served_as_told() {
    let mut spec = JobSpec::default_job("p");
    let region = |i: u64, blocks: u64| Region {
        start: DeviceOffset::new(i * 100 * BLOCK),
        len: Bytes::new(blocks * BLOCK),
    };
    let extent = Extent {
        regions: vec![region(0, 4), region(1, 4), region(2, 2)],
        files: Vec::new(),
        bytes: Bytes::new(10 * BLOCK),
    };
    let files = |spec: &JobSpec, n| -> Vec<u32> {
        take(&mut pattern(spec, &extent, 0), n).iter().map(|a| a.file).collect()
    };
    assert_eq!(files(&spec, 12), [0, 1, 2, 0, 1, 2, 0, 1, 0, 1, 0, 1]);
    spec.files.service = FileService::RoundRobin(2);
    assert_eq!(files(&spec, 10), [0, 0, 1, 1, 2, 2, 0, 0, 1, 1]);
    spec.files.service = FileService::Sequential;
    assert_eq!(files(&spec, 11), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 0]);
    spec.files.service = FileService::Random;
    spec.rw.random = true;
    let mut all = take(&mut pattern(&spec, &extent, 0), 10);
    all.sort_by_key(|a| a.offset.get());
    all.dedup();
    assert_eq!(all.len(), 10, "every block of every file once");
}

#[test]
fn short_regions_and_limits() {
    let (mut spec, mut extent) = job(1, false);
    extent.regions[0].len = Bytes::new(10 * 1024);
    spec.blocks.sizes[0] = BlockSizes::Range(4096, 8192);
    for access in take(&mut pattern(&spec, &extent, 0), 100) {
        assert!(
            access.offset.get() + access.len.get() <= BLOCK + 10 * 1024 && access.len.get() >= 4096
        );
    }
    assert_eq!(pattern(&spec, &extent, 0).next_access(Bytes::new(5000)).len, Bytes::new(4096));
}

/// Returns the sizes in blocks of one random pass over a file of `blocks` blocks.
fn one_pass(blocks: u64, sizes: BlockSizes) -> Vec<u64> {
    let (mut spec, extent) = job(blocks, true);
    spec.blocks.sizes = [sizes.clone(), sizes.clone(), sizes];
    let mut pattern = pattern(&spec, &extent, 0);
    let (mut visited, mut left, mut out) = (vec![false; blocks as usize], blocks, Vec::new());
    while left > 0 {
        let access = pattern.next_access(Bytes::new(left * BLOCK));
        let (first, count) = (access.offset.get() / BLOCK - 1, access.len.get() / BLOCK);
        for block in &mut visited[first as usize..(first + count) as usize] {
            assert!(!std::mem::replace(block, true), "visited twice");
        }
        left -= count;
        out.push(count);
    }
    out
}

#[test]
fn a_pass_of_several_sizes_visits_every_block_once() {
    // fio 3.33: 666 I/Os for `bsrange=4k-64k size=16m`, and 4685, 2625 of them of one block, 319 of
    // sixteen, for `bssplit=4k/50:64k/30:16k/20 size=64m`.
    let range = one_pass(4096, BlockSizes::Range(BLOCK, 16 * BLOCK));
    assert!((620..710).contains(&range.len()), "{}", range.len());
    let split =
        one_pass(16384, BlockSizes::Split(vec![(BLOCK, 50), (16 * BLOCK, 30), (4 * BLOCK, 20)]));
    let of = |size| split.iter().filter(|&&len| len == size).count();
    assert!((4500..4900).contains(&split.len()), "{}", split.len());
    assert!((2500..2800).contains(&of(1)) && (260..380).contains(&of(16)), "{} {}", of(1), of(16));
}

#[test]
fn passes_of_several_sizes_go_on() {
    let (mut spec, extent) = job(100, true);
    spec.rw.ios_per_offset = 3;
    spec.blocks.sizes[0] = BlockSizes::Range(BLOCK, 7 * BLOCK);
    let all = take(&mut pattern(&spec, &extent, 0), 10_000);
    assert!(all.iter().all(|a| a.len.get() > 0
        && a.len.get() <= 7 * BLOCK
        && a.offset.get() + a.len.get() <= 101 * BLOCK));
}

#[test]
fn sizes_by_order() {
    let (mut spec, extent) = job(16_000, true);
    spec.blocks.by_order = true;
    spec.random.percentage = [50; 3];
    spec.random.norandommap = true;
    spec.blocks.sizes[1] = BlockSizes::Range(16 * BLOCK, 16 * BLOCK);
    let all = take(&mut pattern(&spec, &extent, 0), 1000);
    let (large, small): (Vec<Access>, Vec<Access>) =
        all.iter().partition(|a| a.len.get() == 16 * BLOCK);
    assert!(
        (450..550).contains(&large.len()) && small.iter().all(|a| a.len.get() == BLOCK),
        "{}",
        large.len()
    );
    assert!(large.iter().all(|a| (a.offset.get() - BLOCK).is_multiple_of(16 * BLOCK)));
}

/// The zones of a job, in blocks.
fn zoned(spec: &mut JobSpec, size: u64, range: u64, skip: u64) {
    spec.space.zones =
        Some(StridedZones { size: size * BLOCK, range: range * BLOCK, skip: skip * BLOCK });
}

/// The orders are those of fio 3.33 on a file of 256 blocks.
#[test]
fn sequential_io_goes_from_zone_to_zone() {
    let (mut spec, extent) = job(256, false);
    let mut first = |size, range, skip, count| {
        zoned(&mut spec, size, range, skip);
        offsets(&take(&mut pattern(&spec, &extent, 0), count))
    };
    assert_eq!(first(4, 16, 0, 10), [0, 1, 2, 3, 16, 17, 18, 19, 32, 33]);
    assert_eq!(first(4, 16, 0, 66)[60..], [240, 241, 242, 243, 0, 1]);
    assert_eq!(
        first(4, 16, 8, 46)[40..],
        [240, 241, 242, 243, 0, 1],
        "the next zone would start at 264"
    );
    assert_eq!(first(4, 4, 8, 6), [0, 1, 2, 3, 12, 13]);
    assert_eq!(
        first(32, 16, 16, 34)[14..],
        [14, 15, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 32, 33]
    );
    assert_eq!(
        first(4, 16, 9, 46)[40..],
        [250, 251, 252, 253, 0, 1],
        "a zone cut short has room enough"
    );
    assert_eq!(
        first(16, 16, 9, 168)[160..],
        [250, 251, 252, 253, 254, 255, 250, 251],
        "and goes round if it has not"
    );
    assert_eq!(first(128, 512, 0, 129)[127..], [127, 0], "a zone larger than the file");
    assert_eq!(first(4, 16, 512, 6), [0, 1, 2, 3, 0, 1], "a single zone");
    spec.rw.sequential_skip = BLOCK as i64;
    zoned(&mut spec, 4, 16, 0);
    assert_eq!(offsets(&take(&mut pattern(&spec, &extent, 0), 6)), [0, 2, 4, 6, 16, 18]);
}

#[test]
fn random_io_stays_in_its_zone_and_starts_each_with_a_new_map() {
    let (mut spec, extent) = job(256, true);
    zoned(&mut spec, 16, 16, 9);
    let mut once = pattern(&spec, &extent, 0);
    // As fio, it leaves out the zone that the end of the file cuts short.
    for zone in (0..10).chain(0..3) {
        let blocks = offsets(&take(&mut once, 16));
        assert!(
            is_permutation(blocks.iter().map(|block| block - zone * 25).collect(), 16),
            "{blocks:?}"
        );
    }
    zoned(&mut spec, 32, 16, 0);
    let mut twice = pattern(&spec, &extent, 0);
    for _ in 0..2 {
        assert!(
            is_permutation(offsets(&take(&mut twice, 16)), 16),
            "each block of the first zone, twice"
        );
    }
    assert!(offsets(&take(&mut twice, 32)).iter().all(|block| (16..32).contains(block)));
    spec.blocks.sizes[0] = BlockSizes::Range(BLOCK, 4 * BLOCK);
    let mut sizes = pattern(&spec, &extent, 0);
    let (mut zone, mut asked) = (0, 0);
    for access in take(&mut sizes, 400) {
        if asked >= 32 * BLOCK {
            (zone, asked) = ((zone + 1) % 16, 0);
        }
        let at = access.offset.get() - BLOCK - zone * 16 * BLOCK;
        assert!(at + access.len.get() <= 16 * BLOCK, "zone {zone}: {access:?}");
        asked += access.len.get();
    }
}

/// Whether each I/O is drawn by the rules of all jobs, or by those of a job whose I/Os are alike.
#[test]
fn alike_ios_are_drawn_as_any_others() {
    let mut alike = 0;
    for seed in 0..400u64 {
        let mut rng = Rng::new(seed);
        let mut one_of = |count: u64| rng.below(count);
        let (mut spec, extent) = job(1 + one_of(300), true);
        spec.rw = Rw { read: one_of(4) > 0, write: one_of(2) == 0, mix_read: 60, ..spec.rw };
        spec.rw.write |= !spec.rw.read;
        spec.random.norandommap = one_of(2) == 0;
        spec.rw.ios_per_offset = [1, 1, 1, 3][one_of(4) as usize];
        spec.rw.sequencer_identical = one_of(6) == 0;
        spec.random.percentage = [100, [100, 100, 40][one_of(3) as usize], 100];
        for d in 0..3 {
            let low = BLOCK * (1 + one_of(2));
            spec.blocks.sizes[d] = BlockSizes::Range(low, low + BLOCK * (one_of(8) / 7));
            spec.blocks.align[d] = [0, 0, BLOCK, 512][one_of(4) as usize];
        }
        spec.blocks.by_order = one_of(8) == 0;
        let mut general = pattern(&spec, &extent, 0);
        let mut short = general.clone();
        general.uniform = [None; 3];
        for step in 0..1000 {
            let limit = Bytes::new(2 * BLOCK * (1 + u64::from(step % 50 > 0)));
            let direction = general.only.unwrap_or_else(|| general.clone().draw_direction());
            alike += usize::from(short.uniform[direction as usize].is_some());
            assert_eq!(
                short.next_access(limit),
                general.next_access(limit),
                "seed {seed}, step {step}"
            );
            if step % 333 == 0 {
                short.rewind();
                general.rewind();
            }
        }
    }
    assert!((100_000..300_000).contains(&alike), "{alike} of 400,000 are alike");
}
