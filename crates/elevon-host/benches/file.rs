//! Real I/O on a page-cached file: Elevon with io_uring beside fio's io_uring engine on the same
//! file and job in the same run.
//!
//! Prints I/Os per second of both (best of several alternating rounds) and the ratio. `cargo bench
//! -p elevon-host --bench file`; `-- --test` for a short run. The file is in /dev/shm if that
//! exists, otherwise in the temporary directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use elevon_core::stack::{Stack, StackConfig};
use elevon_core::units::LayoutId;
use elevon_engine::Engine;
use elevon_formats::fio::{MemorySource, parse};
use elevon_host::interrupt::Interrupt;
use elevon_host::{Host, HostFile, OpenOptions};
use elevon_workload::jobs::{Jobs, JobsOptions};
use elevon_workload::run::{NoObserver, run};

const SIZE: u64 = 256 << 20;

fn job(ios: u64, batch: u32, path: Option<&Path>) -> String {
    let file = path.map(|path| format!("filename={}\n", path.display())).unwrap_or_default();
    format!(
        "[read]\nioengine=io_uring\nrw=randread\nbs=4k\niodepth=32\niodepth_batch_submit={batch}\n\
         iodepth_batch_complete_min={batch}\nsize=256m\nio_size={}k\nnorandommap=1\n{file}",
        ios * 4
    )
}

fn ours(path: &Path, text: &str) -> f64 {
    let parsed =
        parse(&mut MemorySource::one("bench.fio", text), "bench.fio").expect("a job of this file");
    let options = OpenOptions { write: false, direct: false, grow_to: 0, fill: false };
    let file = HostFile::open(path, options).expect("the file was just written");
    let (limits, size) = (file.limits.clone(), file.size);
    let host = Host::new(file, 1024, None, Interrupt::new()).expect("the machine does I/O");
    let stack = Stack::new(StackConfig::new(limits, size, 1, 1024)).expect("valid limits");
    let options = JobsOptions::new(stack.config());
    let mut jobs =
        Jobs::new(&parsed.jobs, &options, &mut |_, _, _| LayoutId(0)).expect("the job fits");
    let outcome = run(&mut Engine::new(stack, host), &mut jobs, &mut NoObserver);
    let job = &outcome.jobs[0].stats;
    assert_eq!((job.error, outcome.ended_early), (0, None));
    job.directions[0].ios as f64 * 1e9 / job.directions[0].runtime_ns.max(1) as f64
}

fn fio(text: &str) -> Option<f64> {
    let name = std::env::temp_dir().join(format!("elevon-file-{}.fio", std::process::id()));
    std::fs::write(&name, text).ok()?;
    let output = Command::new("fio").arg("--minimal").arg(&name).output();
    let _ = std::fs::remove_file(&name);
    String::from_utf8(output.ok()?.stdout).ok()?.split(';').nth(7)?.parse().ok()
}

fn main() {
    let short = std::env::args().any(|arg| arg == "--test");
    let (ios, rounds) = if short { (2_000, 1) } else { (400_000, 5) };
    let folder = ["/dev/shm"]
        .iter()
        .map(PathBuf::from)
        .find(|path| path.is_dir())
        .unwrap_or_else(std::env::temp_dir);
    let path = folder.join(format!("elevon-bench-{}", std::process::id()));
    std::fs::write(&path, vec![1u8; SIZE as usize]).expect("room for 256 MiB");
    for batch in [1, 16] {
        let (mut best, mut theirs) = (0f64, 0f64);
        for _ in 0..rounds {
            best = best.max(ours(&path, &job(ios, batch, None)));
            if !short {
                theirs = theirs.max(fio(&job(ios, batch, Some(&path))).unwrap_or(0.0));
            }
        }
        print!("4 KiB random reads, depth 32, batches of {batch:>2}: {:>8.0} IOPS", best);
        if theirs > 0.0 {
            print!("; fio's io_uring {theirs:>8.0} IOPS; ratio {:.2}", best / theirs);
        }
        println!();
    }
    let _ = std::fs::remove_file(&path);
}
