//! Tests jobs through the page cache: over a simulated device, and with real bytes over a file by
//! io_uring and by threads. The same job gives the same I/Os on each; on the files every byte is
//! checked.

use elevon_cache::page_cache::WriteMode;
use elevon_core::limits::QueueLimits;
use elevon_core::status::Status;
use elevon_core::units::Bytes;
use elevon_host::interrupt::Interrupt;
use elevon_host::{Host, HostFile, Method, OpenOptions};
use elevon_sim::device::{Device, parse_model};
use elevon_sim::simulation::Simulation;
use elevon_workload::buffered::BufferedIo;
use elevon_workload::run::{NoObserver, RunOutcome};

use crate::common::{LARGE, METHODS, MIB, SIZE, SMALL, config, host, quick_directory, run_job};

/// Runs a job through a cache of each size and mode by each method. `check` gets the outcome, the
/// cache and the content of the file.
fn really(text: &str, check: impl Fn(&RunOutcome, &BufferedIo, &[u8])) {
    let disk = tempfile::tempdir().expect("a directory");
    // A file system in memory has a block size of one page for the direct I/O of jobs.
    let quick = if text.contains("direct=1") {
        tempfile::tempdir().expect("a directory")
    } else {
        quick_directory()
    };
    for method in METHODS {
        for (directory, memory, mode) in [
            (&disk, LARGE, WriteMode::Back),
            (&quick, SMALL, WriteMode::Back),
            (&quick, SMALL, WriteMode::Through),
        ] {
            let path = directory.path().join("file");
            let old: Vec<u8> = (0..SIZE).map(|at| (at / 512 % 251) as u8).collect();
            std::fs::write(&path, &old).expect("a file");
            let Some(mut host) = host(&path, method, memory) else { continue };
            let (limits, size) = (host.file().limits.clone(), host.file().size);
            let config = config(memory, mode, true);
            let (outcome, cached) =
                run_job(text, &limits, size, config, &mut host, &mut NoObserver);
            for job in &outcome.jobs {
                let about = format!("{method:?} {memory} {mode:?} {}", job.name);
                assert_eq!((job.stats.error, job.stats.verify_errors), (0, 0), "{about}");
            }
            assert_eq!(
                (cached.last_status(), cached.cache().resident().pages().dirty()),
                (Status::Ok, 0)
            );
            check(&outcome, &cached, &std::fs::read(&path).expect("the file is there"));
        }
    }
}

fn verified(outcome: &RunOutcome) -> u64 {
    outcome.jobs.iter().map(|job| job.stats.verified_bytes).sum()
}

#[test]
fn mixed_sizes_in_sectors_are_written_and_read_back() {
    let text = "[job]\nioengine=psync\nrw=randwrite\nbsrange=512-96k\nbs_unaligned\nblockalign=512\nsize=8m\nio_size=12m\n\
                norandommap\nverify=crc32c\ndo_verify=1\nfsync=40\n";
    really(text, |outcome, _, _| assert!(verified(outcome) > MIB, "{}", verified(outcome)));
}

#[test]
fn what_is_not_written_keeps_what_the_file_held() {
    // Sectors 1, 5, 9, ... are written; the other sectors of their pages keep their content.
    let text =
        "[job]\nioengine=psync\nrw=write:1536\nbs=512\noffset=512\nsize=4m\nbuffer_pattern=0xfe\n";
    really(text, |_, cached, bytes| {
        for (sector, bytes) in bytes.chunks(512).enumerate() {
            let is_written = sector % 4 == 1 && sector < 8192;
            let expected = if is_written { 0xfe } else { (sector % 251) as u8 };
            assert!(bytes.iter().all(|&byte| byte == expected), "sector {sector}");
        }
        assert!(
            cached.io_stats().read_pages >= 1024,
            "a page is read before a part of it is written"
        );
    });
}

#[test]
fn mapped_stores_arrive_and_loads_see_them() {
    let text = "[job]\nioengine=mmap\nrw=randwrite\nbs=6k\nblockalign=512\nsize=6m\nverify=crc32c\ndo_verify=1\nfsync=100\n";
    really(text, |outcome, _, _| assert!(verified(outcome) > 2 * MIB, "{}", verified(outcome)));
}

#[test]
fn a_queue_of_buffered_io_is_verified_as_well() {
    for engine in ["libaio", "io_uring"] {
        let text = format!(
            "[job]\nioengine={engine}\niodepth=16\nrw=randrw\nrwmixread=30\nbsrange=4k-20k\nsize=8m\nverify=crc32c\n"
        );
        really(&text, |outcome, _, _| assert!(verified(outcome) > MIB, "{}", verified(outcome)));
    }
}

#[test]
fn direct_and_buffered_jobs_see_what_the_other_wrote() {
    let common = "[global]\nioengine=psync\nfilename=same\nsize=4m\nverify=meta\ninvalidate=0\n";
    let job = |name: &str, direct: u8, how: &str| {
        format!("[{name}]\nstonewall\ndirect={direct}\n{how}\n")
    };
    let (write, read) = ("rw=randwrite\nbs=3k\ndo_verify=0", "rw=read\nbs=3k");
    let text = [
        common.to_owned(),
        job("buffered-writes", 0, write),
        job("direct-reads", 1, read),
        job("direct-writes", 1, "rw=randwrite\nbs=5k\ndo_verify=0\nsize=4000k"),
        job("buffered-reads", 0, "rw=read\nbs=5k\nsize=4000k"),
        job("maps", 0, "ioengine=mmap\nrw=read\nbs=5k\nsize=4000k"),
        job("direct-over-maps", 1, "rw=write\nbs=7k\ndo_verify=0\nsize=3997k"),
        job("reads-again", 0, "ioengine=mmap\nrw=read\nbs=7k\nsize=3997k"),
    ];
    really(&text.concat(), |outcome, _, _| {
        let verified: Vec<u64> =
            outcome.jobs.iter().map(|job| job.stats.verified_bytes / MIB).collect();
        assert_eq!(verified, [0, 3, 0, 3, 3, 0, 3]);
    });
}

#[test]
fn writes_through_leave_nothing_dirty_and_durable_ones_flush() {
    let job = "ioengine=psync\nrw=randwrite\nbs=4k\nsize=4m\nio_size=400k\n";
    let count = |text: &str, mode| {
        let directory = tempfile::tempdir().expect("a directory");
        let mut host = host(&directory.path().join("file"), Method::Threads, LARGE)
            .expect("threads are always there");
        let (limits, size) = (host.file().limits.clone(), host.file().size);
        let (outcome, cached) =
            run_job(text, &limits, size, config(LARGE, mode, true), &mut host, &mut NoObserver);
        (cached.io_stats().sync_pages, outcome.disk_end.flushes, outcome.jobs[0].stats.error)
    };
    // The last write-back after the jobs is one more flush, and writes what they left dirty.
    assert_eq!(count(&format!("[a]\n{job}"), WriteMode::Through), (100, 1, 0));
    assert_eq!(count(&format!("[a]\n{job}sync=dsync\n"), WriteMode::Back), (100, 101, 0));
    assert_eq!(count(&format!("[a]\n{job}fsync=10\n"), WriteMode::Back), (100, 10, 0));
}

#[test]
fn a_simulated_run_makes_the_same_ios() {
    let text = "[a]\nioengine=psync\nrw=randrw\nbsrange=1k-64k\nsize=8m\nio_size=4m\nfsync=16\n\
                [b]\nioengine=libaio\niodepth=8\nrw=randread\nbs=4k\nsize=4m\nstonewall\n";
    let facts = |outcome: &RunOutcome| -> Vec<_> {
        let stats = outcome.jobs.iter().map(|job| &job.stats);
        stats
            .map(|s| {
                (
                    [0, 1].map(|d| (s.directions[d].ios, s.directions[d].bytes)),
                    s.sync.count,
                    s.error,
                )
            })
            .collect()
    };
    let device = parse_model("slots:slots=8,latency=50us,size=8MiB").expect("a model").build(1);
    let (limits, size) =
        (QueueLimits { write_cache: true, ..QueueLimits::default() }, device.description().size);
    let config = config(LARGE, WriteMode::Back, false);
    let simulated =
        run_job(text, &limits, size, config, &mut Simulation::new(device), &mut NoObserver);
    let (expected, read) = (facts(&simulated.0), simulated.1.cache().stats().hits);
    really(text, |outcome, cached, _| {
        assert_eq!(facts(outcome), expected);
        if cached.cache().resident().stats().evicted == 0 {
            let hits = cached.cache().stats().hits;
            assert!(hits.abs_diff(read) < 200, "{hits} hits, simulated {read}");
        }
    });
}

#[test]
fn a_write_that_fails_is_told_to_the_fsync_and_to_the_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    drop(host(&path, Method::Threads, LARGE).expect("a file"));
    // The file is opened for reading only, so every write fails.
    for (sync, told) in [("fsync=8\n", true), ("", false)] {
        let file = HostFile::open(
            &path,
            OpenOptions { write: false, direct: true, grow_to: 0, fill: false },
        )
        .expect("a file");
        let (limits, size) = (file.limits.clone(), file.size);
        let mut host =
            Host::new(file, 64, Some(Method::Threads), Interrupt::new()).expect("threads");
        host.reserve_frames(Bytes::new(LARGE)).expect("memory");
        let text = format!("[a]\nioengine=psync\nrw=write\nbs=4k\nsize=64k\n{sync}");
        let config = config(LARGE, WriteMode::Back, true);
        let (outcome, cached) = run_job(&text, &limits, size, config, &mut host, &mut NoObserver);
        assert_eq!(outcome.jobs[0].stats.error != 0, told, "{sync}");
        assert_ne!(cached.last_status(), Status::Ok);
    }
}

#[test]
fn stores_go_through_a_mapping_as_well() {
    let text = "[a]\nioengine=mmap\nrw=randwrite\nbs=2k\nsize=1m\nnumber_ios=200\n";
    let directory = quick_directory();
    let pages = |mode| {
        let mut host = host(&directory.path().join("file"), Method::Threads, LARGE)
            .expect("threads are always there");
        let (limits, size) = (host.file().limits.clone(), host.file().size);
        let (_, cached) =
            run_job(text, &limits, size, config(LARGE, mode, true), &mut host, &mut NoObserver);
        cached.io_stats().sync_pages
    };
    assert_eq!(pages(WriteMode::Through), 200, "each store is written before its I/O is over");
    assert!(pages(WriteMode::Back) <= 200, "and at the end otherwise, a page once");
}

#[test]
fn what_is_verified_is_what_the_device_has() {
    let text = "[a]\nioengine=psync\nrw=randwrite\nbs=4k\nsize=1m\nverify=crc32c\n";
    let directory = quick_directory();
    let read = |more: &str| {
        let mut host = host(&directory.path().join("file"), Method::Threads, LARGE)
            .expect("threads are always there");
        let (limits, size) = (host.file().limits.clone(), host.file().size);
        let config = config(LARGE, WriteMode::Back, true);
        let (outcome, cached) =
            run_job(&format!("{text}{more}"), &limits, size, config, &mut host, &mut NoObserver);
        assert_eq!((verified(&outcome), outcome.jobs[0].stats.verify_errors), (MIB, 0));
        cached.io_stats().readahead_pages + cached.io_stats().read_pages
    };
    assert_eq!(read(""), 256, "nothing that is checked comes from memory");
    assert_eq!(read("invalidate=0\n"), 0);
    assert_eq!(read("ioengine=io_uring\niodepth=8\n"), 256);
    assert_eq!(read("ioengine=mmap\n"), 2 * 256, "a store reads its page first");
}
