//! Compares what the page cache of a block device does when it is dropped, with the block events of
//! real kernels: the last close, fio's `invalidate`, a discard over dirty pages, the advice of a
//! mapping, a write to the page with the readahead marker. Compared is as in `event_parity`, but
//! for the insertion of discards into a queue without a scheduler.

use std::fs;

use crate::common::{Bench, kernel_truth};
use crate::event_parity::events;

/// The devices of the records: a loop device of 6.18 and a disk of scsi_debug of 6.1 and 6.12.
fn device(kernel: &str) -> [&'static str; 7] {
    match kernel {
        "6.18" => [
            "slots:slots=64,latency=500us,bandwidth=2GB/s,size=256MiB,hw_queues=1,queue_depth=128",
            "max_hw_sectors_kb=1280",
            "max_segments=128",
            "max_segment_size=65536",
            "discard_granularity=4096",
            "max_sectors_kb=1280",
            "read_ahead_kb=128",
        ],
        _ => [
            "slots:slots=64,latency=2ms,bandwidth=2GB/s,size=256MiB,hw_queues=1,queue_depth=128",
            "max_hw_sectors_kb=2147483647",
            "max_segments=2048",
            "max_segment_size=4294967295",
            "discard_granularity=4096",
            if kernel == "6.1" { "max_sectors_kb=512" } else { "max_sectors_kb=1280" },
            "read_ahead_kb=1024",
        ],
    }
}

#[test]
fn a_block_device_loses_its_cache_as_in_the_kernel() {
    let text = fs::read_to_string(kernel_truth("closed.txt")).expect("the records");
    let is_compared = |event: &&str| !event.starts_with("rq_insert D");
    let mut differ = Vec::new();
    let mut compared = 0;
    for record in text.split("== ").skip(1) {
        let (name, rest) = record.split_once('\n').expect("a name");
        let (job, theirs) = rest.split_once("-- events\n").expect("a job and its events");
        let kernel = name.split(' ').next().expect("a kernel");
        let theirs: Vec<&str> = theirs.lines().filter(is_compared).collect();
        let [disk, settings @ ..] = device(kernel);
        let bench = Bench::new();
        let file = bench.file("job.fio", job);
        let mut args = vec!["run", file, "--device", disk, "--kernel", kernel, "--memory", "1GiB"];
        args.extend([
            "--buffers",
            "runs:1x256",
            "--trace",
            "ours.ftrace",
            "--set",
            "discard_max_hw_bytes=4294966784",
        ]);
        args.extend([
            "--set",
            "write_cache=1",
            "--set",
            if kernel == "6.18" { "fua=0" } else { "fua=1" },
        ]);
        args.extend(settings.iter().flat_map(|set| ["--set", set]));
        bench.stdout(&args);
        let ours =
            events(&fs::read_to_string(bench.path("ours.ftrace")).expect("the trace of the run"));
        let ours: Vec<&str> = ours.iter().map(String::as_str).filter(is_compared).collect();
        if let Some(at) =
            (0..ours.len().max(theirs.len())).find(|&at| ours.get(at) != theirs.get(at))
        {
            let (of, len) = (theirs.get(at), theirs.len());
            differ.push(format!(
                "{name}: event {at} of {len} is {of:?} in the kernel and {:?} here",
                ours.get(at)
            ));
        }
        compared += 1;
    }
    assert_eq!(differ, [""; 0]);
    assert_eq!(compared, 13);
}
