//! Cost of a process per I/O, without stack and device: poll, take, complete, reap and statistics.
//!
//! Prints nanoseconds per I/O. Run it with `cargo bench -p elevon-workload`; as a test it does only
//! a few I/Os.
use std::time;

use elevon_core::status::Status;
use elevon_core::units::{Bytes, DeviceOffset, Instant, LayoutId, Nanos, TaskId, TenantId};
use elevon_formats::fio::spec::{Amount, JobSpec};
use elevon_workload::process::{CpuCost, Identity, Process};
use elevon_workload::region::{Extent, Region};
use elevon_workload::source::Poll;

fn nanoseconds(name: &str, ios: u64, edit: impl FnOnce(&mut JobSpec)) {
    let mut spec = JobSpec::default_job(name);
    (spec.engine.asynchronous, spec.queue.depth, spec.queue.low) = (true, 32, 32);
    spec.rw.random = true;
    spec.space.io_size = Some(Amount::Bytes(ios * 4096));
    edit(&mut spec);
    let extent = Extent {
        regions: vec![Region { start: DeviceOffset::ZERO, len: Bytes::new(100 << 30) }],
        files: Vec::new(),
        bytes: Bytes::new(ios * 4096),
    };
    let identity = Identity { task: TaskId(0), tenant: TenantId(0), job: 0, clone: 0, seed: 1 };
    let cpu = CpuCost::new(Nanos::new(100), Nanos::new(100));
    let mut process = Process::new(&spec, &extent, identity, cpu, &[LayoutId(0); 32]);
    let mut now = Instant::ZERO;
    let mut pending = std::collections::VecDeque::new();
    process.start(now);
    let clock = time::Instant::now();
    loop {
        match process.poll(now) {
            Poll::Submit(_) => {
                while let Some(io) = process.take() {
                    process.on_submitted(now, false);
                    pending.push_back(io.token);
                }
            }
            Poll::Wait => match process.next_wakeup() {
                Some(at) => now = at,
                None => {
                    now = now.saturating_add(Nanos::new(1000));
                    if let Some(token) = pending.pop_front() {
                        process.complete(token, Status::Ok);
                    }
                }
            },
            Poll::Done => break,
        }
    }
    let done: u64 = process.stats().directions.iter().map(|d| d.ios).sum();
    assert_eq!(done, ios);
    println!("{name:24} {:6.1} ns an I/O", clock.elapsed().as_nanos() as f64 / ios as f64);
}

fn main() {
    let ios = if std::env::args().any(|arg| arg == "--bench") { 5_000_000 } else { 1_000 };
    nanoseconds("randread", ios, |_| {});
    nanoseconds("read", ios, |s| s.rw.random = false);
    nanoseconds("randrw norandommap", ios, |s| {
        s.rw.write = true;
        s.random.norandommap = true;
    });
    nanoseconds("randread rate", ios, |s| s.rates.iops[0] = Some(1_000_000));
}
