//! Sizes, and orders of I/Os that follow each other, as fio 3.33 logs them (`write_lat_log=`).

use super::*;

/// What an I/O is: its direction, its bytes in KiB, and its offset in KiB.
fn shown(accesses: &[Access]) -> String {
    let one = |access: &Access| {
        let kib = |bytes: u64| bytes as f64 / 1024.0;
        let direction = ["r", "w", "t"][access.direction as usize];
        format!("{direction}{}@{}", kib(access.len.get()), kib(access.offset.get() - BLOCK))
    };
    accesses.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// As [`shown`], with a bar for a random offset: one where no I/O of the direction ended (or began,
/// for `rw_sequencer=identical`). The first I/O of a direction goes on at the start of the file.
fn shown_runs(accesses: &[Access], identical: bool) -> String {
    let mut next = [BLOCK; 3];
    let one = |access: &Access| {
        let (d, at) = (access.direction as usize, access.offset.get());
        let jumps = if at == next[d] { "" } else { "|" };
        next[d] = if identical { at } else { at + access.len.get() };
        format!("{jumps}{}{}", ["r", "w", "t"][d], access.len.get() / 1024)
    };
    accesses.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn of_sizes(sizes: BlockSizes, blocks: u64, edit: impl FnOnce(&mut JobSpec)) -> (JobSpec, Extent) {
    let (mut spec, extent) = job(blocks, false);
    spec.blocks.sizes = [sizes.clone(), sizes.clone(), sizes];
    edit(&mut spec);
    (spec, extent)
}

fn range(blocks: u64) -> BlockSizes {
    BlockSizes::Range(BLOCK, blocks * BLOCK)
}

fn writes(spec: &mut JobSpec) {
    spec.rw = Rw { read: false, write: true, ..spec.rw };
}

fn mixes(spec: &mut JobSpec) {
    spec.rw = Rw { read: true, write: true, ..spec.rw };
}

fn first(job: &(JobSpec, Extent), count: usize) -> String {
    shown(&take(&mut pattern(&job.0, &job.1, 0), count))
}

#[test]
fn a_largest_size_that_is_no_multiple_of_the_least_occurs() {
    let ten = of_sizes(BlockSizes::Range(BLOCK, 10 << 10), 1000, |_| {});
    let expected = "r4@0 r8@4 r10@12 r4@22 r10@26 r4@36 r10@40 r4@50 r4@54 r4@58 r4@62 r4@66 r4@70 r4@74 r4@78 r8@82 \
                    r8@90 r10@98 r10@108 r10@118 r8@128";
    assert_eq!(first(&ten, 21), expected);
}

#[test]
fn the_last_sizes_of_a_file_are_drawn_until_one_fits() {
    let parts = vec![(BLOCK, 20), (16 * BLOCK, 80)];
    let split = of_sizes(BlockSizes::Split(parts), 128, writes);
    let end = "w4@460 w4@464 w4@468 w4@472 w4@476 w4@480 w4@484 w4@488 w4@492 w4@496 w4@500 w4@504 w4@508";
    let all = first(&split, 23);
    assert!(all.starts_with("w4@0 w4@4 w64@8 w64@72") && all.ends_with(end), "{all}");
    let wide = of_sizes(range(16), 100, writes);
    let all = first(&wide, 14);
    assert!(all.ends_with("w60@248 w52@308 w24@360 w12@384 w4@396"), "{all}");
}

#[test]
fn passes_begin_with_the_first_directions_and_sizes_unless_a_job_runs_by_time() {
    let pass = "r4@0 r12@4 r16@16 r8@32 r16@40 r4@56 r4@60";
    let mut reads = of_sizes(range(4), 16, |_| {});
    assert_eq!(first(&reads, 14), format!("{pass} {pass}"));
    (reads.0.timing.time_based, reads.0.timing.runtime) =
        (true, elevon_core::units::Nanos::from_millis(1));
    assert_eq!(first(&reads, 11), format!("{pass} r4@0 r4@4 r4@8 r8@12"));
    let mix = of_sizes(range(4), 16, mixes);
    let pass = "r4@0 r12@4 r16@16 w4@0 r8@32 r16@40 w4@4 w8@8 w12@16 r4@56 w12@28 r4@60 w8@40";
    assert_eq!(first(&mix, 26), format!("{pass} {pass}"));
    // Without the map a job has no passes.
    let any = of_sizes(range(4), 16, |spec| {
        writes(spec);
        (spec.rw.random, spec.random.norandommap) = (true, true);
    });
    let sizes: Vec<u64> =
        take(&mut pattern(&any.0, &any.1, 0), 12).iter().map(|one| one.len.get() >> 10).collect();
    assert_eq!(sizes[..8], [4, 4, 8, 12, 12, 8, 16, 4]);
    assert_ne!(sizes[7..11], sizes[..4]);
}

#[test]
fn a_job_that_verifies_draws_sizes_of_writes_as_of_reads() {
    let checked = of_sizes(range(4), 16, |spec| {
        writes(spec);
        spec.verify.method = Some(elevon_formats::fio::spec::VerifyMethod::Crc32c);
        spec.verify.after_write = false;
    });
    assert_eq!(first(&checked, 7), "w4@0 w12@4 w16@16 w8@32 w16@40 w4@56 w4@60");
}

#[test]
fn ios_of_a_run_follow_each_other() {
    let runs = |sizes: BlockSizes, edit: fn(&mut JobSpec), count| {
        let (spec, extent) = of_sizes(sizes, 1024, |spec| {
            (spec.rw.random, spec.random.norandommap, spec.rw.ios_per_offset) = (true, true, 4);
            edit(spec);
        });
        shown_runs(&take(&mut pattern(&spec, &extent, 0), count), spec.rw.sequencer_identical)
    };
    let sizes = "|r4 r12 r16 r8 |r16 r4 r16 r4 |r4 r4 r4 r8 |r4 r4 r4 r12";
    assert_eq!(runs(range(4), |_| {}, 16), sizes);
    assert_eq!(
        runs(
            range(4),
            |spec| spec.random.distribution = [const { Distribution::Zipf(1.2, None) }; 3],
            16
        ),
        sizes
    );
    assert_eq!(runs(range(4), |spec| spec.rw.sequencer_identical = true, 16), sizes);
    let four = "|r4 r4 r4 r4 |r4 r4 r4 r4";
    assert_eq!(runs(range(1), |spec| spec.blocks.align = [4 * BLOCK; 3], 8), four);
    let sixteen = BlockSizes::Range(4 * BLOCK, 4 * BLOCK);
    assert_eq!(runs(sixteen, |spec| spec.blocks.align = [BLOCK; 3], 8), four.replace('4', "16"));
    // Directions take turns in a run, and each goes on where its own last I/O ended.
    let mixed = "|r4 r4 r4 w4 |r4 r4 w4 w4 |w4 r4 w4 r4 |w4 r4 r4 r4 |w4 w4 r4 r4 |w4 w4 w4 w4";
    assert_eq!(runs(range(1), mixes, 24), mixed);
    fn identical(spec: &mut JobSpec) {
        mixes(spec);
        spec.rw.sequencer_identical = true;
    }
    assert_eq!(runs(range(1), identical, 24), mixed);
}

#[test]
fn whole_runs_are_random_or_go_on_by_percentage_random() {
    let (mut spec, extent) = job(100_000, true);
    (spec.random.norandommap, spec.rw.ios_per_offset, spec.random.percentage) = (true, 4, [50; 3]);
    let all = offsets(&take(&mut pattern(&spec, &extent, 0), 8000));
    let jumps: Vec<usize> = (1..all.len()).filter(|&at| all[at] != all[at - 1] + 1).collect();
    assert!(
        (900..1100).contains(&jumps.len()) && jumps.iter().all(|at| at % 4 == 0),
        "{}",
        jumps.len()
    );
}

#[test]
fn a_pass_of_runs_in_two_directions_or_files_visits_every_block_once() {
    for mixed in [true, false] {
        let (mut spec, mut extent) = job(512, true);
        spec.rw.ios_per_offset = 4;
        if mixed {
            mixes(&mut spec);
        } else {
            spec.files.names = vec!["a".into(), "b".into()];
            extent.regions = [0, 256]
                .map(|block| Region {
                    start: DeviceOffset::new(BLOCK + block * BLOCK),
                    len: Bytes::new(256 * BLOCK),
                })
                .to_vec();
        }
        let all = take(&mut pattern(&spec, &extent, 0), 512);
        assert!(is_permutation(offsets(&all), 512), "mixed: {mixed}");
        let last_of = |at: usize| {
            all[..at]
                .iter()
                .rev()
                .find(|one| (one.direction, one.file) == (all[at].direction, all[at].file))
        };
        let follows =
            |at: usize| last_of(at).is_some_and(|last| last.offset + last.len == all[at].offset);
        let following = (0..512).filter(|&at| follows(at)).count();
        assert!(following > 300, "mixed: {mixed}, {following}");
    }
}

/// A direction with large blocks does not leave the file when it shares starts with small ones.
#[test]
fn a_shared_start_has_space_for_the_blocks_of_both_directions() {
    let (mut spec, extent) = job(16, true);
    mixes(&mut spec);
    spec.blocks.sizes[1] = BlockSizes::Range(4 * BLOCK, 4 * BLOCK);
    (spec.random.norandommap, spec.blocks.align) = (true, [BLOCK; 3]);
    for access in take(&mut pattern(&spec, &extent, 0), 1000) {
        assert!(access.offset.get() + access.len.get() <= 17 * BLOCK, "{access:?}");
    }
}
