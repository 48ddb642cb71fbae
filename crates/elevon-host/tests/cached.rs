//! Jobs through the page cache: over a simulated device, and with real bytes over a file by io_uring and by threads. The same job
//! gives the same I/Os on each; on the files every byte is checked.

use std::path::Path;

use elevon_core::account::DiskStats;
use elevon_core::cache::page_cache::{CacheConfig, WriteMode};
use elevon_core::limits::QueueLimits;
use elevon_core::stack::{Stack, StackConfig};
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Instant, Nanos, Sectors, TaskId};
use elevon_formats::fio::{MemorySource, parse};
use elevon_host::interrupt::Interrupt;
use elevon_host::{Host, HostFile, Method, OpenOptions};
use elevon_sim::device::{Device, parse_model};
use elevon_sim::simulation::Simulation;
use elevon_workload::backend::Backend;
use elevon_workload::cached::{CacheCost, Cached};
use elevon_workload::jobs::{Jobs, JobsOptions};
use elevon_workload::process::CpuCost;
use elevon_workload::run::{NoObserver, Observer, Outcome, Progress, run_cached};
use elevon_workload::verify::{HEADER_BYTES, crc32c};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 8 * MIB;
const METHODS: [Method; 2] = [Method::IoUring, Method::Threads];

/// A cache that holds the file, or one that holds a part of it and has to let pages go.
const LARGE: u64 = 32 * MIB;
const SMALL: u64 = 3 * MIB;

fn config(memory: u64, write_mode: WriteMode, copies: bool) -> CacheConfig {
    CacheConfig { write_mode, copies, ..CacheConfig::new(Bytes::new(memory), TaskId(0)) }
}

/// The body: runs a job through a cache before a back end.
fn run_job<B: Backend>(
    text: &str,
    limits: &QueueLimits,
    size: Sectors,
    config: CacheConfig,
    backend: &mut B,
    observer: &mut dyn Observer,
) -> (Outcome, Cached) {
    let mut parsed = parse(&mut MemorySource::one("job.fio", text), "job.fio").expect("a job of this file");
    assert!(parsed.with_cache(), "a job is buffered");
    let mut stack = Stack::new(StackConfig::new(limits.clone(), size, 1, 64)).expect("valid limits");
    let options = JobsOptions { logical_block: 512, ..JobsOptions::new(stack.config()) };
    let mut jobs = Jobs::new(&parsed.jobs, &options, &mut |_, _, bytes| {
        stack.register_layout(elevon_core::layout::Layout::contiguous(bytes.max(4096), 1 << 40))
    })
    .expect("the job fits");
    let mut cached = Cached::new(config, CacheCost::default(), CpuCost::default(), &mut jobs, &stack);
    let outcome = run_cached(&mut stack, &mut jobs, &mut cached, backend, observer);
    assert_eq!(outcome.cut, None);
    stack.self_check();
    cached.cache().self_check();
    assert!(cached.cache().is_idle() && stack.ios_in_flight() == 0, "everything is over when a run is");
    (outcome, cached)
}

/// The method's host before the file; `None` where this machine denies io_uring.
fn host(path: &Path, method: Method, frames: u64) -> Option<Host> {
    let options = OpenOptions { write: true, direct: true, grow_to: SIZE };
    let file = HostFile::open(path, options).expect("a file in a directory of ours");
    match Host::new(file, 64, Some(method), Interrupt::new()) {
        Ok(mut host) => {
            host.reserve_frames(Bytes::new(frames)).expect("memory for the cache");
            Some(host)
        }
        Err(error) if method == Method::IoUring => {
            println!("skipped: io_uring is denied here ({error})");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Runs a job through a cache of each size and mode by each method. `check`: outcome, cache and what the file holds then.
fn really(text: &str, check: impl Fn(&Outcome, &Cached, &[u8])) {
    let directory = tempfile::tempdir().expect("a directory");
    for method in METHODS {
        for (memory, mode) in [(LARGE, WriteMode::Back), (SMALL, WriteMode::Back), (SMALL, WriteMode::Through)] {
            let path = directory.path().join("file");
            let old: Vec<u8> = (0..SIZE).map(|at| (at / 512 % 251) as u8).collect();
            std::fs::write(&path, &old).expect("a file");
            let Some(mut host) = host(&path, method, memory) else { continue };
            let (limits, size) = (host.file().limits.clone(), host.file().size);
            let config = config(memory, mode, true);
            let (outcome, cached) = run_job(text, &limits, size, config, &mut host, &mut NoObserver);
            for job in &outcome.jobs {
                let about = format!("{method:?} {memory} {mode:?} {}", job.name);
                assert_eq!((job.stats.error, job.stats.verify_errors), (0, 0), "{about}");
            }
            assert_eq!((cached.last_status(), cached.cache().resident().pages().dirty()), (Status::Ok, 0));
            check(&outcome, &cached, &std::fs::read(&path).expect("the file is there"));
        }
    }
}

fn verified(outcome: &Outcome) -> u64 {
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
    // Sectors 1, 5, 9, ... are written; the others share their pages and stay.
    let text = "[job]\nioengine=psync\nrw=write:1536\nbs=512\noffset=512\nsize=4m\nbuffer_pattern=0xfe\n";
    really(text, |_, cached, bytes| {
        for (sector, bytes) in bytes.chunks(512).enumerate() {
            let is_written = sector % 4 == 1 && sector < 8192;
            let expected = if is_written { 0xfe } else { (sector % 251) as u8 };
            assert!(bytes.iter().all(|&byte| byte == expected), "sector {sector}");
        }
        assert!(cached.traffic().read_pages >= 1024, "a page is read before a part of it is written");
    });
}

#[test]
fn mapped_stores_arrive_and_loads_see_them() {
    let text =
        "[job]\nioengine=mmap\nrw=randwrite\nbs=6k\nblockalign=512\nsize=6m\nverify=crc32c\ndo_verify=1\nfsync=100\n";
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
    let job = |name: &str, direct: u8, how: &str| format!("[{name}]\nstonewall\ndirect={direct}\n{how}\n");
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
        let verified: Vec<u64> = outcome.jobs.iter().map(|job| job.stats.verified_bytes / MIB).collect();
        assert_eq!(verified, [0, 3, 0, 3, 3, 0, 3]);
    });
}

#[test]
fn writes_through_leave_nothing_dirty_and_durable_ones_flush() {
    let job = "ioengine=psync\nrw=randwrite\nbs=4k\nsize=4m\nio_size=400k\n";
    let count = |text: &str, mode| {
        let directory = tempfile::tempdir().expect("a directory");
        let mut host = host(&directory.path().join("file"), Method::Threads, LARGE).expect("threads are always there");
        let (limits, size) = (host.file().limits.clone(), host.file().size);
        let (outcome, cached) = run_job(text, &limits, size, config(LARGE, mode, true), &mut host, &mut NoObserver);
        (cached.traffic().sync_pages, outcome.disk_end.flushes, outcome.jobs[0].stats.error)
    };
    // The last write-back after the jobs is one flush more, and writes what they left.
    assert_eq!(count(&format!("[a]\n{job}"), WriteMode::Through), (100, 1, 0));
    assert_eq!(count(&format!("[a]\n{job}sync=dsync\n"), WriteMode::Back), (100, 101, 0));
    assert_eq!(count(&format!("[a]\n{job}fsync=10\n"), WriteMode::Back), (100, 10, 0));
}

#[test]
fn a_simulated_run_makes_the_same_ios() {
    let text = "[a]\nioengine=psync\nrw=randrw\nbsrange=1k-64k\nsize=8m\nio_size=4m\nfsync=16\n\
                [b]\nioengine=libaio\niodepth=8\nrw=randread\nbs=4k\nsize=4m\nstonewall\n";
    let facts = |outcome: &Outcome| -> Vec<_> {
        let stats = outcome.jobs.iter().map(|job| &job.stats);
        stats.map(|s| ([0, 1].map(|d| (s.directions[d].ios, s.directions[d].bytes)), s.sync.count, s.error)).collect()
    };
    let device = parse_model("slots:slots=8,latency=50us,size=8MiB").expect("a model").build();
    let (limits, size) = (QueueLimits { write_cache: true, ..QueueLimits::default() }, device.description().size);
    let config = config(LARGE, WriteMode::Back, false);
    let simulated = run_job(text, &limits, size, config, &mut Simulation::new(device), &mut NoObserver);
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
    // Opened for reading only: every write fails.
    for (sync, told) in [("fsync=8\n", true), ("", false)] {
        let file = HostFile::open(&path, OpenOptions { write: false, direct: true, grow_to: 0 }).expect("a file");
        let (limits, size) = (file.limits.clone(), file.size);
        let mut host = Host::new(file, 64, Some(Method::Threads), Interrupt::new()).expect("threads");
        host.reserve_frames(Bytes::new(LARGE)).expect("memory");
        let text = format!("[a]\nioengine=psync\nrw=write\nbs=4k\nsize=64k\n{sync}");
        let config = config(LARGE, WriteMode::Back, true);
        let (outcome, cached) = run_job(&text, &limits, size, config, &mut host, &mut NoObserver);
        assert_eq!(outcome.jobs[0].stats.error != 0, told, "{sync}");
        assert_ne!(cached.last_status(), Status::Ok);
    }
}

/// The job of the crash test: block after block from the start, again and again; each sector says which write it is of (a write's
/// number counts from 1). Blocks of three sectors share their pages.
const CRASH: &str = "[job]\nioengine=psync\nrw=write\nbs=1536\nsize=384k\nloops=100000\nverify=crc32c\nverify_interval=512\n\
                     do_verify=0\nfsync=16\n";
const CRASH_BLOCKS: u64 = 256;
const FSYNC_EVERY: u64 = 16;

/// Tells of every fsync that the job has back: it goes on to the next write only then.
struct Tell(u64);
impl Observer for Tell {
    fn interval(&self) -> Option<Nanos> {
        Some(Nanos::new(1))
    }
    fn on_interval(&mut self, _: Instant, _: &mut dyn FnMut() -> DiskStats, jobs: &[Progress]) {
        let durable = jobs[0].ios[1].saturating_sub(1) / FSYNC_EVERY * FSYNC_EVERY;
        if durable > std::mem::replace(&mut self.0, durable) {
            use std::io::Write;
            // The reader may be gone.
            let _ = writeln!(std::io::stdout(), "durable {durable}");
            let _ = std::io::stdout().flush();
        }
    }
}

/// The process that is killed; not a test of its own.
#[test]
#[ignore = "run by a_killed_process_loses_nothing_that_it_was_told_is_durable"]
fn the_process_that_is_killed() {
    let Ok(arguments) = std::env::var("ELEVON_CRASH") else { return };
    let (method, rest) = arguments.split_once(' ').expect("method, mode, path");
    let (mode, path) = rest.split_once(' ').expect("mode, path");
    let method = if method == "IoUring" { Method::IoUring } else { Method::Threads };
    let mode = WriteMode::from_name(mode).expect("a mode");
    let Some(mut host) = host(Path::new(path), method, SMALL) else { return };
    let (limits, size) = (host.file().limits.clone(), host.file().size);
    run_job(CRASH, &limits, size, config(SMALL, mode, true), &mut host, &mut Tell(0));
}

#[test]
fn a_killed_process_loses_nothing_that_it_was_told_is_durable() {
    let directory = tempfile::tempdir().expect("a directory");
    let moments = [(WriteMode::Back, 1), (WriteMode::Back, 7), (WriteMode::Back, 53), (WriteMode::Through, 20)];
    for method in METHODS {
        for (mode, lines) in moments {
            let path = directory.path().join("file");
            if host(&path, method, SMALL).is_none() {
                continue;
            }
            let mut child = std::process::Command::new(std::env::current_exe().expect("this test"))
                .args(["--exact", "the_process_that_is_killed", "--ignored", "--nocapture", "--test-threads=1"])
                .env("ELEVON_CRASH", format!("{method:?} {} {}", mode.name(), path.display()))
                .stdout(std::process::Stdio::piped())
                .spawn()
                .expect("this test runs");
            let told = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
            let mut durable = 0;
            let mut seen = 0;
            // What it says before it is dead counts, too.
            for line in std::io::BufRead::lines(told) {
                // The test harness writes into the first line.
                let Some((_, number)) = line.as_deref().ok().and_then(|line| line.split_once("durable ")) else {
                    continue;
                };
                durable = number.parse().expect("a number");
                seen += 1;
                if seen == lines {
                    child.kill().expect("it runs");
                }
            }
            child.wait().expect("it is over");
            assert!(seen >= lines, "{method:?} {mode:?}: it ended by itself after {seen} lines");
            check_durable(&std::fs::read(&path).expect("the file"), durable, &format!("{method:?} {mode:?}"));
            std::fs::remove_file(&path).expect("ours");
        }
    }
}

/// Every sector is of the last durable write to its block, or of a later one, and whole.
fn check_durable(bytes: &[u8], durable: u64, about: &str) {
    for (sector, bytes) in bytes.chunks(512).take(CRASH_BLOCKS as usize * 3).enumerate() {
        let block = sector as u64 / 3;
        // Write number n is of block (n - 1) % CRASH_BLOCKS.
        let least = match durable.checked_sub(block + 1) {
            Some(past) => past / CRASH_BLOCKS * CRASH_BLOCKS + block + 1,
            None => continue,
        };
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let generation = u64::from(word(16));
        assert_eq!(word(8), sector as u32 * 512, "{about}: sector {sector} says where it belongs");
        assert!(generation >= least, "{about}: sector {sector} is of write {generation}; write {least} was durable");
        assert_eq!((generation - 1) % CRASH_BLOCKS, block, "{about}: sector {sector}");
        assert_eq!(word(20), crc32c(&bytes[HEADER_BYTES..]), "{about}: sector {sector} is whole");
    }
}
