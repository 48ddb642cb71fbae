//! I/Os that a process sleeps for, whatever its queue is: trims, and syncs of one file.

use super::*;
use elevon_formats::fio::spec::FileService;

/// Returns a random trim job with a queue of 32, and an engine of this name.
fn trims(engine: &str, edit: impl FnOnce(&mut JobSpec)) -> Bench {
    Bench::new(&job(|s| {
        deep(s, 32);
        s.rw = Rw { read: false, trim: true, random: true, ..s.rw };
        s.engine.name = engine.to_owned();
        s.engine.submission_blocks = engine == "libaio";
        edit(s);
    }))
    .run()
}

/// As measured with fio 3.33: `iodepth_level` of 1 is 100 %, clat is the time of a discard, and
/// there is no slat.
#[test]
fn trims_run_one_at_a_time_whatever_the_depth_is() {
    for engine in ["libaio", "io_uring", "posixaio", "psync"] {
        for batch in [1, 8] {
            let bench = trims(engine, |s| s.queue.batch_submit = batch);
            assert_eq!((bench.deepest, bench.ops()), (1, "t".repeat(256)), "{engine}");
            let trim = &bench.stats().directions[2];
            assert_eq!(
                (trim.ios, trim.slat.count, trim.clat.min, trim.clat.max),
                (256, 0, 100 * US, 100 * US)
            );
            assert_eq!(
                (bench.stats().depth_levels[0], bench.ended()),
                (256, 256 * 100 * US),
                "{engine}"
            );
        }
    }
    assert_eq!(trims("io_uring_cmd", |_| {}).deepest, 32, "passthrough has trims in its queue");
    assert_eq!(
        trims("libaio", |s| s.queue.offload = true).deepest,
        32,
        "each worker sleeps for its own"
    );
}

/// As measured with fio 3.33: a trim counts at the depth of the writes in flight and its own; with
/// POSIX AIO these complete first.
#[test]
fn a_trim_before_each_write_goes_alone_and_writes_overlap() {
    let write_after = |s: &mut JobSpec| s.rw.trim_then_write = true;
    for (engine, deepest) in [("libaio", 2), ("io_uring", 2), ("posixaio", 1)] {
        let bench = trims(engine, write_after);
        assert_eq!((bench.ops(), bench.deepest), ("tw".repeat(256), deepest), "{engine}");
        let of = &bench.stats().directions;
        assert_eq!((of[1].slat.count, of[2].slat.count), (256, 0), "{engine}");
        assert!(
            bench
                .seen
                .windows(2)
                .all(|pair| pair[0].op == Op::Write || pair[1].at >= pair[0].at + 100 * US)
        );
    }
}

/// Returns the operations of a job of four files of four blocks, each with its file: `w0 f1`.
fn of_files(edit: impl FnOnce(&mut JobSpec)) -> String {
    let bench = Bench::new(&job(|s| {
        writes(s);
        (s.files.count, s.space.size) = (4, Some(Amount::Bytes(16 * BLOCK)));
        edit(s);
    }))
    .run();
    let file = |seen: &Seen| {
        format!(
            "{}{}",
            if seen.op == Op::Flush { 'f' } else { 'w' },
            (seen.offset - START) / BLOCK / 4
        )
    };
    bench.seen.iter().map(file).collect::<Vec<_>>().join(" ")
}

/// As fio 3.33 calls fsync and fdatasync, seen with strace.
#[test]
fn a_sync_is_of_one_file_and_takes_its_turn() {
    assert_eq!(
        of_files(|s| (s.durability.fdatasync, s.timing.number_ios) = (1, Some(4))),
        "w0 f1 w2 f3 w0 f1 w2"
    );
    assert_eq!(
        of_files(|s| s.durability.fdatasync = 1),
        "w0 f1 w2 f3 w0 f1 w2 f3 w0 f1 w2 f3 w0 f1 w2 f3 w1 f2 w3 f1 w3 f1 w3 f1 w3 f1 w1 f1 w1 f1 w1",
        "that a file has no block left is seen when one is due"
    );
    assert_eq!(
        of_files(|s| (s.durability.fsync, s.timing.number_ios) = (3, Some(7))),
        "w0 w1 w2 f3 w0 w1 w2 f3 w0"
    );
    assert_eq!(
        of_files(
            |s| (s.durability.fsync, s.durability.fdatasync, s.timing.number_ios) = (2, 3, Some(8))
        ),
        "w0 w1 f2 w3 f0 w1 f2 w3 w0 f1 w2 w3",
        "two that are due are one"
    );
    let by = |service, edit: fn(&mut JobSpec)| {
        of_files(|s| {
            (s.files.service, s.durability.fsync) = (service, 2);
            edit(s);
        })
    };
    assert_eq!(
        by(FileService::RoundRobin(3), |s| s.timing.number_ios = Some(6)),
        "w0 w0 f0 w1 w1 f1 w2 w2"
    );
    assert_eq!(
        by(FileService::Sequential, |s| s.timing.number_ios = Some(6)),
        "w0 w0 f0 w0 w0 f0 w1 w1"
    );
    assert_eq!(
        of_files(|s| (s.durability.end_fsync, s.timing.number_ios) = (true, Some(2))),
        "w0 w1 f0 f1 f2 f3",
        "each file at the end"
    );
    assert_eq!(
        of_files(|s| (s.durability.fsync_on_close, s.timing.loops, s.timing.number_ios) =
            (true, 2, Some(2))),
        "w0 w1 f0 f1 f2 f3 w0 w1 f0 f1 f2 f3"
    );
    let service = by(FileService::Random, |_| {});
    assert_eq!(service.matches('f').count(), 7, "{service}");
}
