//! Runs jobs through a page cache, for the tests of this folder.

use std::path::Path;

use elevon_cache::page_cache::{CacheConfig, WriteMode};
use elevon_core::limits::QueueLimits;
use elevon_core::stack::{Stack, StackConfig};
use elevon_core::units::{Bytes, Sectors, TaskId};
use elevon_engine::{Backend, Engine};
use elevon_formats::fio::{MemorySource, parse};
use elevon_host::interrupt::Interrupt;
use elevon_host::{Host, HostFile, Method, OpenOptions};
use elevon_workload::buffered::{BufferedIo, CacheCost};
use elevon_workload::jobs::{Jobs, JobsOptions};
use elevon_workload::process::CpuCost;
use elevon_workload::run::{Observer, RunOutcome, run_cached};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const SIZE: u64 = 8 * MIB;
pub(crate) const METHODS: [Method; 2] = [Method::IoUring, Method::Threads];

/// Sizes of a cache that holds the whole file, and of one that holds a part of it and must evict
/// pages.
pub(crate) const LARGE: u64 = 32 * MIB;
pub(crate) const SMALL: u64 = 3 * MIB;

pub(crate) fn config(memory: u64, write_mode: WriteMode, copies: bool) -> CacheConfig {
    CacheConfig { write_mode, copies, ..CacheConfig::new(Bytes::new(memory), TaskId(0)) }
}

/// Runs a job through a cache before a back end.
pub(crate) fn run_job<B: Backend>(
    text: &str,
    limits: &QueueLimits,
    size: Sectors,
    config: CacheConfig,
    backend: &mut B,
    observer: &mut dyn Observer,
) -> (RunOutcome, BufferedIo) {
    let mut parsed =
        parse(&mut MemorySource::one("job.fio", text), "job.fio").expect("a job of this file");
    assert!(parsed.with_cache().expect("no trims"), "a job is buffered");
    let mut stack =
        Stack::new(StackConfig::new(limits.clone(), size, 1, 64)).expect("valid limits");
    let options = JobsOptions { logical_block: 512, ..JobsOptions::new(stack.config()) };
    let mut jobs = Jobs::new(&parsed.jobs, &options, &mut |_, _, bytes| {
        stack.register_layout(elevon_core::layout::Layout::contiguous(bytes.max(4096), 1 << 40))
    })
    .expect("the job fits");
    let mut cached =
        BufferedIo::new(config, CacheCost::default(), CpuCost::default(), &mut jobs, &stack);
    let mut engine = Engine::new(stack, backend);
    let outcome = run_cached(&mut engine, &mut jobs, &mut cached, observer);
    let stack = engine.stack();
    assert_eq!(outcome.ended_early, None);
    stack.self_check();
    cached.cache().self_check();
    assert!(
        cached.cache().is_idle() && stack.ios_in_flight() == 0,
        "everything is over when a run is"
    );
    (outcome, cached)
}

/// Creates a directory in memory if possible, for tests that make thousands of small writes one
/// after the other.
pub(crate) fn quick_directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

/// Returns the method's host over the file; `None` if this machine does not allow io_uring.
pub(crate) fn host(path: &Path, method: Method, frames: u64) -> Option<Host> {
    let options = OpenOptions { write: true, direct: true, grow_to: SIZE, fill: false };
    let file = HostFile::open(path, options).expect("a file in a directory of ours");
    match Host::new(file, 64, Some(method), Interrupt::new()) {
        Ok(mut host) => {
            host.reserve_frames(Bytes::new(frames)).expect("memory for the cache");
            Some(host)
        }
        Err(error) if method == Method::IoUring => {
            elevon_testkit::denied(&format!("io_uring is denied here: {error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}
