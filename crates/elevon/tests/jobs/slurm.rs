//! A sweep on a real Slurm of one node: what its shards give is what one machine gives.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::Bench;

const JOB: &str =
    "[reads]\nrw=randread\nbs=4k\ndirect=1\nioengine=libaio\nruntime=1\ntime_based\nsize=1g\n";
const OVER: [&str; 6] =
    ["--over", "iodepth=1..16:*4", "--over", "scheduler=none,bfq", "--seeds", "3"];

#[test]
fn a_sweep_on_slurm_is_that_of_one_machine() {
    if !elevon_testkit::tools(&["unshare", "ip", "munged", "slurmctld", "slurmd", "sbatch"]) {
        return;
    }
    let may = Command::new("unshare").args(["--net", "--mount", "true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        return elevon_testkit::denied("namespaces for networks and mounts need root");
    }
    let bench = Bench::new();
    bench.file("job.fio", JOB);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jobs/slurm.sh");
    let mut slurm = Command::new("unshare");
    slurm.args(["--net", "--mount", "bash"]).arg(script).arg(env!("CARGO_BIN_EXE_elevon"));
    let output = slurm.current_dir(bench.path("")).output().expect("unshare ran");
    let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    assert!(output.status.success(), "{said}");
    bench.stdout(&[&["sweep", "job.fio", "-o", "one"], &OVER[..]].concat());
    let files = ["results.csv", "results.jsonl", "summary.txt", "index.html"];
    for name in files {
        let read = |folder: &str| fs::read(bench.path(folder).join(name)).expect(name);
        assert!(read("whole") == read("one"), "{name}");
    }
    // Each of six jobs of the array ran a part: 6 points with 3 seeds are 18 runs.
    let runs = |shard: u32| {
        let folder = bench.path("shards").join(shard.to_string());
        let journals = fs::read_dir(folder).expect("a shard").flatten().map(|entry| entry.path());
        let journals = journals.filter(|path| path.to_string_lossy().contains("runs"));
        let lines = journals.map(|path| fs::read_to_string(path).expect("a journal"));
        lines.map(|text| text.lines().count() - 1).sum::<usize>()
    };
    assert_eq!((1..=6).map(runs).collect::<Vec<_>>(), [3; 6]);
}
