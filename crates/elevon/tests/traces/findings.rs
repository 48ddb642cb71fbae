//! Tests the findings of `elevon inspect` on simulated runs: healthy ones have none, and others
//! have what is wrong with them.

use crate::common::Bench;
use serde_json::Value;

/// Runs a job and returns the findings of its trace.
fn findings(job: &str, args: &[&str]) -> Vec<Value> {
    let bench = Bench::new();
    bench.file("job.fio", format!("[global]\ndirect=1\n{job}"));
    let run = [&["run", "job.fio", "--trace", "t.ftrace"], args].concat();
    bench.elevon(&run).output().expect("it ran");
    let text = bench.stdout(&["inspect", "t.ftrace", "--output-format", "json"]);
    let found: Value = serde_json::from_str(&text).expect("JSON");
    assert!(
        found["requests"].as_object().is_some_and(|groups| !groups.is_empty()),
        "{job}: a trace"
    );
    found["findings"].as_array().expect("findings").clone()
}

/// One job on a device, perhaps with settings.
type Case<'a> = (&'a str, &'a [&'a str]);

const ALONE: [Case<'_>; 14] = [
    ("[a]\nrw=read\nbs=1m\nnumber_ios=500\n", &["--device", "nvme-datacenter"]),
    ("[a]\nrw=randread\nbs=4k\nnumber_ios=3000\n", &["--device", "nvme-consumer"]),
    (
        "[a]\nrw=randread\nbs=4k\niodepth=32\nioengine=libaio\nnumber_ios=9000\n",
        &["--device", "nvme-datacenter"],
    ),
    (
        "[a]\nrw=randwrite\nbs=4k\niodepth=8\nioengine=libaio\nnumber_ios=5000\n",
        &["--device", "nvme-datacenter"],
    ),
    (
        "[a]\nrw=randrw\nbs=4k\niodepth=4\nioengine=libaio\nnumber_ios=5000\n",
        &["--device", "nvme-consumer"],
    ),
    (
        "[a]\nrw=write\nbs=128k\niodepth=8\nioengine=libaio\nnumber_ios=2000\n",
        &["--device", "sata-ssd-860evo", "--scheduler", "mq-deadline"],
    ),
    (
        "[a]\nrw=read\nbs=512k\nnumber_ios=300\n",
        &["--device", "hdd-7200", "--scheduler", "mq-deadline"],
    ),
    ("[a]\nrw=randread\nbs=4k\nnumber_ios=300\n", &["--device", "hdd-7200", "--scheduler", "bfq"]),
    (
        "[a]\nrw=randread\nbs=4k\niodepth=16\nioengine=libaio\nnumber_ios=1000\n",
        &["--device", "hdd-7200", "--scheduler", "mq-deadline"],
    ),
    ("[a]\nrw=write\nbs=16k\nfsync=16\nnumber_ios=1000\n", &["--device", "nvme-consumer"]),
    ("[a]\nrw=randread\nbs=4k\nrate_iops=500\nnumber_ios=500\n", &["--device", "sata-ssd-860evo"]),
    (
        "[a]\nrw=read\nbs=512k\niodepth=2\nioengine=libaio\nnumber_ios=500\n",
        &["--device", "ufs-3.1", "--scheduler", "mq-deadline"],
    ),
    (
        "[a]\nrw=randrw\nbs=16k\nnumber_ios=600\n",
        &["--device", "emmc-5.1", "--scheduler", "mq-deadline"],
    ),
    (
        "[a]\nrw=randread\nbs=4k\niodepth=16\nioengine=libaio\nnumber_ios=5000\n",
        &["--device", "optane"],
    ),
];

const TOGETHER: [Case<'_>; 9] = [
    (
        "[a]\nrw=randread\nbs=4k\nnumjobs=2\nnumber_ios=500\n",
        &["--device", "slots:slots=8,latency=1ms"],
    ),
    (
        "[a]\nrw=randread\nbs=4k\nnumjobs=8\nnumber_ios=300\n",
        &["--device", "slots:slots=8,latency=1ms", "--scheduler", "mq-deadline"],
    ),
    (
        "[a]\nrw=randread\nbs=16k\nthinktime=2000\nnumber_ios=400\n\
         [b]\nrw=write\nbs=64k\nthinktime=5000\nnumber_ios=150\n",
        &["--device", "hdd-7200", "--scheduler", "bfq"],
    ),
    (
        "[w]\nrw=randwrite\nbs=4k\niodepth=16\nioengine=libaio\nnumber_ios=4000\n[r]\nrw=randread\nbs=4k\nnumber_ios=250\n",
        &["--device", "slots:slots=32,latency=2ms"],
    ),
    // Far, and as far for one request as for 65.
    (
        "[w]\nrw=randwrite\nbs=4k\niodepth=64\nioengine=libaio\nnumber_ios=9000\n[r]\nrw=randread\nbs=4k\nnumber_ios=140\n",
        &["--device", "slots:slots=256,latency=15ms,queue_depth=512"],
    ),
    (
        "[a]\nrw=randread\nbs=4k\niodepth=8\nioengine=libaio\nnumjobs=2\nnumber_ios=2000\n",
        &["--device", "slots:slots=16,latency=1ms"],
    ),
    (
        "[r]\nrw=randread\nbs=8k\niodepth=2\nioengine=libaio\nnumber_ios=2000\n\
         [t]\nrw=randtrim\nbs=64k\nthinktime=10000\nnumber_ios=40\n",
        &["--device", "slots:slots=8,latency=500us,discard_latency=500us"],
    ),
    // Writes that the device caches are quick, and so are those at the end, when no read is there.
    (
        "[a]\nrw=randwrite\nbs=4k\niodepth=32\nioengine=libaio\nnumber_ios=6000\n\
         [b]\nrw=randread\nbs=4k\niodepth=32\nioengine=libaio\nnumber_ios=6000\n",
        &["--device", "nvme-datacenter", "--scheduler", "kyber"],
    ),
    (
        "[log]\nrw=write\nbs=8k\nsync=1\nnumber_ios=500\n\
         [db]\nrw=randread\nbs=8k\niodepth=4\nioengine=libaio\nnumber_ios=3000\n",
        &["--device", "nvme-datacenter"],
    ),
];

#[test]
fn healthy_workloads_have_no_finding() {
    for (job, args) in ALONE.into_iter().chain(TOGETHER) {
        assert_eq!(findings(job, args), Vec::<Value>::new(), "{job} {args:?}");
    }
}

const DEEP: &str = "[w]\nrw=randwrite\nbs=4k\niodepth=128\nioengine=libaio\nruntime=4\ntime_based\n\
    [r]\nrw=randread\nbs=4k\nruntime=4\ntime_based\n";
const SCAN: &str = "[scan]\nrw=read\nbs=1m\niodepth=2\nioengine=libaio\nruntime=3\ntime_based\n\
    [r]\nrw=randread\nbs=4k\nruntime=3\ntime_based\n";
const READS: &str = "[a]\nrw=randread\nbs=4k\niodepth=32\nioengine=libaio\nnumber_ios=2000\n";
const TRIMS: &str = "[r]\nrw=randread\nbs=8k\niodepth=2\nioengine=libaio\nnumber_ios=4000\n\
    [t]\nrw=randtrim\nbs=1m\nthinktime=20000\nnumber_ios=50\n";

/// Jobs with arguments of the run, and the finding: its kind and what it says.
const STEADY: &[(&str, &[&str], &str, &str)] = &[
    (
        DEEP,
        &["--device", "slots:slots=8,latency=6667us,queue_depth=256"],
        "device_bufferbloat",
        "w (1001) keeps 126 requests in it, behind which r (1002) waits 10",
    ),
    (
        SCAN,
        &["--device", "slots:slots=6,latency=2ms,bandwidth=300MB/s", "--set", "max_sectors_kb=64"],
        "device_bufferbloat",
        "a larger max_sectors_kb: it was 64",
    ),
    (
        "[scan]\nrw=read\nbs=1m\nnumber_ios=24\n",
        &["--device", "slots:slots=8,latency=2ms", "--set", "max_sectors_kb=4"],
        "small_requests",
        "A queue limit of 4 KiB cuts 24 bios into 6144 requests",
    ),
    (
        READS,
        &["--device", "nvme-consumer", "--fault", "error:ppm=20000"],
        "io_errors",
        "read with ENODATA (-61)",
    ),
    (
        READS,
        &[
            "--device",
            "slots:slots=16,latency=2ms",
            "--scheduler",
            "mq-deadline",
            "--set",
            "nr_requests=4",
        ],
        "few_tags",
        "for nr_requests=4",
    ),
    (
        TRIMS,
        &["--device", "slots:slots=1,latency=300us,discard_latency=5ms"],
        "discard_stall",
        "Discards stall the device",
    ),
    (
        READS,
        &["--device", "slots:slots=8,latency=1ms", "--fault", "busy:ppm=300000"],
        "requests_given_back",
        "The driver gives requests back",
    ),
];

#[test]
fn steady_problems_are_found() {
    for &(job, args, kind, words) in STEADY {
        let found = findings(job, args);
        let finding = found.iter().find(|finding| finding["kind"] == kind);
        let text = finding.unwrap_or_else(|| panic!("{kind} of {job}, not {found:?}")).to_string();
        assert!(text.contains(words), "{words}, not {text}");
        if kind == "device_bufferbloat" && job == SCAN {
            assert!(!text.contains("iodepth"), "{text}");
        }
    }
}
