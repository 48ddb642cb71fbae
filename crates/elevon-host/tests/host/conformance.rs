//! Runs one body of tests on three back ends: a simulated device, a file by io_uring, a file by
//! threads. The same job gives the same I/Os on each; on the files the bytes are checked as well.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use elevon_core::account::DiskStats;
use elevon_core::limits::QueueLimits;
use elevon_core::stack::{Stack, StackConfig};
use elevon_core::units::{Nanos, Sectors};
use elevon_engine::{Backend, Engine};
use elevon_formats::fio::{MemorySource, parse};
use elevon_host::interrupt::Interrupt;
use elevon_host::{Host, HostFile, Method, OpenError, OpenOptions};
use elevon_sim::device::{Device, parse_model};
use elevon_sim::memory::{Memory, MemoryModel};
use elevon_sim::simulation::Simulation;
use elevon_workload::jobs::{Jobs, JobsOptions};
use elevon_workload::run::{EndedEarly, NoObserver, Observer, Progress, RunOutcome, run};

const SIZE: u64 = 8 << 20;

/// Results that must be the same on every back end.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    /// By job: I/Os and bytes by direction, and flushes.
    jobs: Vec<([(u64, u64); 3], u64)>,
    errors: Vec<i32>,
    verified: u64,
}

fn facts(outcome: &RunOutcome) -> Facts {
    let stats = || outcome.jobs.iter().map(|job| &job.stats);
    Facts {
        jobs: stats()
            .map(|s| {
                ([0, 1, 2].map(|d| (s.directions[d].ios, s.directions[d].bytes)), s.sync.count)
            })
            .collect(),
        errors: stats().map(|s| s.error).collect(),
        verified: stats().map(|s| s.verified_bytes).sum(),
    }
}

/// Runs a job on a back end with these limits and this size. Buffers are scattered in memory, so
/// that merges matter.
fn run_job<B: Backend>(
    text: &str,
    limits: &QueueLimits,
    size: Sectors,
    backend: &mut B,
    observer: &mut dyn Observer,
) -> (RunOutcome, Stack) {
    let parsed =
        parse(&mut MemorySource::one("job.fio", text), "job.fio").expect("a job of this file");
    let mut config = StackConfig::new(limits.clone(), size, 1, 64);
    config.scheduler =
        elevon_core::sched::SchedulerConfig::parse("mq-deadline").expect("a scheduler");
    let mut stack = Stack::new(config).expect("valid limits");
    let options = JobsOptions::new(stack.config());
    let mut memory = Memory::new(&MemoryModel::default(), 1);
    let mut jobs =
        Jobs::new(&parsed.jobs, &options, &mut memory.buffers(&mut stack)).expect("the job fits");
    let mut engine = Engine::new(stack, backend);
    let outcome = run(&mut engine, &mut jobs, observer);
    let (stack, _) = engine.into_parts();
    stack.self_check();
    assert_eq!(stack.ios_in_flight(), 0, "everything is over when a run is");
    (outcome, stack)
}

fn open(path: &Path, direct: bool) -> HostFile {
    HostFile::open(path, OpenOptions { write: true, direct, grow_to: SIZE, fill: false })
        .expect("a file in a directory of ours")
}

/// Returns the method's host; `None` if this machine does not allow io_uring.
fn host(path: &Path, method: Method, interrupt: Interrupt) -> Option<Host> {
    match Host::new(open(path, false), 64, Some(method), interrupt) {
        Ok(host) => Some(host),
        Err(error) if method == Method::IoUring => {
            elevon_testkit::denied(&format!("io_uring is denied here: {error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Runs a job on every back end. Returns the results, and the contents of the files.
fn everywhere(text: &str) -> (Facts, Vec<Vec<u8>>) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut contents = Vec::new();
    let mut expected: Option<Facts> = None;
    for method in [Method::IoUring, Method::Threads] {
        let path = directory.path().join(format!("{method:?}"));
        let Some(mut host) = host(&path, method, Interrupt::new()) else { continue };
        let (limits, size) = (host.file().limits.clone(), host.file().size);
        let (outcome, _) = run_job(text, &limits, size, &mut host, &mut NoObserver);
        assert_eq!(outcome.ended_early, None);
        let got = facts(&outcome);
        assert_eq!(expected.get_or_insert(facts(&outcome)), &got, "{method:?}");
        contents.push(std::fs::read(&path).expect("the file is there"));
    }
    let device = parse_model("slots:slots=8,latency=50us,size=8MiB").expect("a model").build(1);
    let size = device.description().size;
    // The simulated device has the limits of the file, so that the same calls are split alike.
    let limits = open(&directory.path().join("limits"), false).limits;
    let (outcome, _) = run_job(text, &limits, size, &mut Simulation::new(device), &mut NoObserver);
    let simulated = Facts { verified: 0, ..facts(&outcome) };
    let real = expected.expect("threads are always there");
    assert_eq!(
        simulated,
        Facts { verified: 0, jobs: real.jobs.clone(), errors: real.errors.clone() }
    );
    (real, contents)
}

#[test]
fn mixed_sizes_are_written_verified_and_the_same_everywhere() {
    let (facts, files) = everywhere(
        "[job]\nioengine=libaio\niodepth=16\niodepth_batch_submit=8\nrw=randwrite\nbsrange=4k-256k\nsize=8m\n\
         verify=crc32c\ndo_verify=1\nfsync=10\n",
    );
    assert_eq!(facts.errors, [0]);
    assert!(facts.verified > 4 << 20, "{facts:?}");
    for file in &files {
        assert_eq!(file.len() as u64, SIZE);
        assert_eq!(file, &files[0], "the same seed writes the same bytes");
    }
}

#[test]
fn sequential_writes_merge_into_vectors_and_arrive() {
    let directory = tempfile::tempdir().expect("a directory");
    for method in [Method::IoUring, Method::Threads] {
        let path = directory.path().join(format!("{method:?}"));
        let Some(mut host) = host(&path, method, Interrupt::new()) else { continue };
        let (limits, size) = (host.file().limits.clone(), host.file().size);
        let text = "[job]\nioengine=libaio\niodepth=32\niodepth_batch_submit=16\niodepth_batch_complete_min=16\n\
                    rw=write\nbs=4k\nsize=8m\n\
                    buffer_pattern=0xdeadbeef\n";
        let (outcome, stack) = run_job(text, &limits, size, &mut host, &mut NoObserver);
        assert_eq!(facts(&outcome).jobs[0].0[1], (2048, SIZE));
        assert!(
            stack.counters().back_merges > 1000,
            "{:?}: writev is not reached",
            stack.counters().back_merges
        );
        let bytes = std::fs::read(&path).expect("the file is there");
        assert!(bytes.chunks(4).all(|word| word == [0xde, 0xad, 0xbe, 0xef]), "{method:?}");
    }
}

#[test]
fn durable_writes_and_flushes_are_counted_alike() {
    let (facts, _) = everywhere(
        "[a]\nioengine=libaio\niodepth=4\nrw=randwrite\nbs=8k\nsize=4m\nio_size=1m\nsync=dsync\n\
         [b]\nioengine=psync\nrw=write\nbs=16k\nsize=4m\noffset=4m\nfdatasync=4\nend_fsync=1\n",
    );
    assert_eq!(facts.errors, [0, 0]);
    assert!(facts.jobs[1].1 >= 64, "{facts:?}");
}

#[test]
fn a_discard_punches_a_hole_that_reads_as_zeroes() {
    let directory = tempfile::tempdir().expect("a directory");
    for method in [Method::IoUring, Method::Threads] {
        let path = directory.path().join(format!("{method:?}"));
        std::fs::write(&path, vec![0xff; SIZE as usize]).expect("a file");
        let Some(mut host) = host(&path, method, Interrupt::new()) else { continue };
        let (limits, size) = (host.file().limits.clone(), host.file().size);
        let text = "[job]\nioengine=libaio\niodepth=4\nrw=trim\nbs=64k\nsize=1m\noffset=2m\n";
        let (outcome, _) = run_job(text, &limits, size, &mut host, &mut NoObserver);
        if outcome.jobs[0].stats.error == libc::EOPNOTSUPP {
            elevon_testkit::denied("this file system punches no holes");
            continue;
        }
        assert_eq!(outcome.jobs[0].stats.error, 0, "{method:?}");
        let bytes = std::fs::read(&path).expect("the file is there");
        let hole = 2 << 20..3 << 20;
        assert!(
            bytes
                .iter()
                .enumerate()
                .all(|(at, byte)| *byte == if hole.contains(&at) { 0 } else { 0xff })
        );
    }
}

#[test]
fn a_file_that_is_cut_short_fails_the_job_and_nothing_hangs() {
    let directory = tempfile::tempdir().expect("a directory");
    for method in [Method::IoUring, Method::Threads] {
        let path = directory.path().join(format!("{method:?}"));
        let Some(mut host) = host(&path, method, Interrupt::new()) else { continue };
        let (limits, size) = (host.file().limits.clone(), host.file().size);
        let file = std::fs::File::options().write(true).open(&path).expect("ours");
        file.set_len(SIZE / 2 + 1000).expect("shorter");
        let text = "[job]\nioengine=libaio\niodepth=8\nrw=read\nbs=64k\nsize=8m\n";
        let (outcome, _) = run_job(text, &limits, size, &mut host, &mut NoObserver);
        assert_eq!((outcome.ended_early, outcome.jobs[0].stats.error), (None, 5), "{method:?}");
        let read = outcome.jobs[0].stats.directions[0].bytes;
        assert!(read <= SIZE / 2, "{method:?}: {read} bytes of a file of {}", SIZE / 2 + 1000);
    }
}

/// Sets the interrupt at the first interval in which something was done.
struct Stop(Interrupt);
impl Observer for Stop {
    fn interval(&self) -> Option<Nanos> {
        Some(Nanos::from_millis(20))
    }
    fn on_interval(
        &mut self,
        _: elevon_core::units::Instant,
        _: &mut dyn FnMut() -> DiskStats,
        jobs: &[Progress],
    ) {
        if jobs.iter().any(|job| job.ios[0] > 0) {
            self.0.set();
        }
    }
}

#[test]
fn an_interrupt_ends_the_run_and_keeps_its_figures() {
    let directory = tempfile::tempdir().expect("a directory");
    for method in [Method::IoUring, Method::Threads] {
        let path = directory.path().join(format!("{method:?}"));
        let interrupt = Interrupt::new();
        let Some(mut host) = host(&path, method, interrupt.clone()) else { continue };
        let (limits, size) = (host.file().limits.clone(), host.file().size);
        let text = "[job]\nioengine=libaio\niodepth=8\nrw=randread\nbs=4k\nsize=8m\ntime_based\nruntime=3600\n";
        let (outcome, _) = run_job(text, &limits, size, &mut host, &mut Stop(interrupt));
        let job = &outcome.jobs[0];
        assert_eq!(
            (outcome.ended_early, job.stats.error),
            (Some(EndedEarly::Interrupted), 0),
            "{method:?}"
        );
        assert!(job.stats.directions[0].ios > 0 && job.end.is_some(), "{method:?}");
    }
}

#[test]
fn what_cannot_be_opened_is_named_and_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let read = OpenOptions { write: false, direct: false, grow_to: 0, fill: false };
    let write = OpenOptions { write: true, direct: false, grow_to: SIZE, fill: false };
    let check = |path: &Path, options: OpenOptions, words: &str| {
        let error = HostFile::open(path, options).expect_err("it cannot be opened").to_string();
        assert!(
            error.contains(words)
                && error.contains(&path.display().to_string())
                && !error.contains('\n'),
            "{error}"
        );
    };
    check(directory.path(), write, "is a directory");
    let missing = directory.path().join("missing");
    check(&missing, read, "cannot open it");
    check(&directory.path().join("no/such/place"), write, "cannot create it");
    assert!(!missing.exists(), "reading makes no file");
    let empty = directory.path().join("empty");
    std::fs::write(&empty, "").expect("a file");
    check(&empty, read, "size 0");
    let secret = directory.path().join("secret");
    std::fs::write(&secret, vec![1; 4096]).expect("a file");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o0)).expect("ours");
    match std::fs::File::open(&secret) {
        Ok(_) => println!("skipped: root reads files without permission"),
        Err(_) => check(&secret, read, "Permission denied"),
    }
}

/// A disk cannot hold the file, which is larger than any file system here.
#[test]
fn a_full_disk_leaves_nothing_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("large");
    let options = OpenOptions { write: true, direct: false, grow_to: 1 << 62, fill: false };
    let error = HostFile::open(&path, options).expect_err("no disk is that large");
    assert!(matches!(error, OpenError::Io { action: "make room for it", .. }), "{error}");
    assert!(!path.exists(), "a file was left behind");
    // An existing file keeps its length and content.
    std::fs::write(&path, b"before").expect("a file");
    HostFile::open(&path, options).expect_err("no disk is that large");
    assert_eq!(std::fs::read(&path).expect("still there"), b"before");
}
