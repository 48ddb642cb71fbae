//! The same small jobs are given to Elevon and to the installed fio. Both must accept the same jobs
//! and read the same numbers. Differences are listed with their reasons.

use elevon_formats::fio::spec::Amount;

fn file(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("elevon-fio-{name}-{}.fio", std::process::id()))
}

/// Returns true if fio accepts a file with a job for each of these options; `None` if there is no
/// fio.
fn fio_takes(jobs: &[&str], name: &str) -> Option<bool> {
    let path = file(name);
    let text: String =
        jobs.iter().map(|options| format!("[a]\nrw=randrw\nsize=1g\n{options}\n")).collect();
    std::fs::write(&path, text).expect("a writable temporary directory");
    let output = crate::common::fio(&["--parse-only", path.to_str()?]);
    let _ = std::fs::remove_file(&path);
    Some(output?.status.success())
}

fn we_take(options: &str) -> bool {
    crate::common::parsed(&format!("[a]\nrw=randrw\nsize=1g\n{options}\n")).is_ok()
}

const TAKEN: &[&str] = &[
    "bs=64",
    "bs=4k",
    "bs=4kib",
    "bs=4KiB",
    "bs=0x1000",
    "bs=8k,",
    "bs=,8k",
    "bs=8k,4k,16k",
    "bs=8k,,4k",
    "bsrange=1k-4k",
    "bsrange=1k:4k",
    "bsrange=4k-1k",
    "bsrange=1k-4k,8k-32k",
    "bsrange=1k-4k/8k-32k",
    "bsrange=512/25:1k:25:2k:25:4k/25",
    "threads=1",
    "bssplit=4k/10:64k/50:1m/",
    "bssplit=4k/50:64k/50,4k/10:8k/90",
    "bssplit=4k",
    "rw=read:4k",
    "rw=randread:8",
    "rw=read:-4k",
    "rw=randtrimwrite",
    "iodepth=1k",
    "time_based",
    "time_based=0",
    "group_reporting=0",
    "stonewall",
    "size=20%",
    "size=100%",
    "offset=10%",
    "runtime=10us",
    "runtime=1d",
    "runtime=100msec",
    "thinktime=10s",
    "rate=10m,20m,30m",
    "rate=,200m",
    "rate_iops=100,200",
    "startdelay=5:10",
    "number_ios=10k",
    "percentile_list=99.5:99.9",
    "random_distribution=zipf:1.2",
    "random_distribution=zipf:1.2:0.5",
    "random_distribution=pareto:0.9",
    "random_distribution=normal:20",
    "random_distribution=zoned:60/10:30/20:8/30:2/40",
    "random_distribution=zoned_abs:60/20G:30/100G:10/500g",
    "unified_rw_reporting=both",
    "ignore_error=EIO,ENOSPC:122,EILSEQ",
    "continue_on_error=read",
    "sync=dsync",
    "write_hint=short",
    "write_bw_log",
    "kb_base=1000",
    "nice=-5",
    "prio=7",
    "prioclass=3",
    "cgroup_weight=500",
    "verify=crc32c",
    "verify_pattern=0xdeadbeef",
    "buffer_pattern=\"abcd\"",
    "buffer_pattern=-1",
    "file_service_type=random:4",
    "iodepth=$ncpus",
    "bs=4*$pagesize",
    "bs=${NO_SUCH_VARIABLE}4k",
    "filename=a\\:b",
    "ss_dur=10",
    "zonemode=strided\nzonesize=64k",
    "ss=bw_slope:0.3%\nss_dur=10\nss_ramp=2",
    "latency_target=10ms\nlatency_window=5s\nlatency_percentile=99.9\nlatency_run=1",
    "zonemode=strided\nzonesize=16k\nzonerange=64k\nzoneskip=2z",
    "fill_device=1",
    "flow=8\nflow_id=2\nflow_sleep=100",
    "verify=pattern",
    "verify=pattern\nverify_pattern=%o",
    "verify_pattern=0xabc%o",
    "ioengine=libaio\ncmdprio_bssplit=4k/50/1/1:8k/20/2/7,4k:8k/100",
    "mem=shm",
    "iomem_align=4k",
    "ioengine=io_uring\nfixedbufs",
    "fixedbufs=1\nioengine=io_uring",
    "ioengine=libaio\ncmdprio_percentage=10,20",
    "ioengine=libaio\nuserspace_reap",
    "cpus_allowed=0-1",
    "fallocate=none",
    "hugepage-size=2m",
    "log_prio=1",
    "ioengine=libaio\ndirect=1\natomic=1",
];

const REFUSED: &[&str] = &[
    "bs=0",
    "bs=",
    "bs",
    "bs=k",
    "bs=abc",
    "bs=4z",
    "bsrange=1k",
    "bsrange=1k-",
    "bsrange=512/25",
    "rw=foo",
    "rw=READ",
    "rwmixread=101",
    "iodepth=0",
    "iodepth=4294967296",
    "iodepth=99999999999999999999",
    "iodepth=abc",
    "direct=2",
    "direct",
    "direct=",
    "direct=yes",
    "time_based=x",
    "io_size=200%",
    "foo=1",
    "Bs=4k",
    "BS=4k",
    "=4k",
    "prio=8",
    "prioclass=4",
    "prioclass=rt",
    "cgroup_weight=50",
    "ioengine=external:/tmp/none.so",
    "ioengine=psync\nfixedbufs=1",
    "hipri",
    "cmdprio_percentage=10",
    "ioengine=libaio\ncmdprio_percentage=110",
    "verify=foo",
    "verify_pattern=zzz",
    "buffer_pattern=",
    "percentile_list=a",
    "percentile_list=",
    "random_distribution=zipf:1",
    "random_distribution=zipf:1.2:1.5",
    "random_distribution=pareto:1",
    "random_distribution=normal:200",
    "random_distribution=zoned",
    "random_distribution=uniform",
    "percentage_random=101",
    "randrepeat=2",
    "randseed=abc",
    "unified_rw_reporting=3",
    "continue_on_error=foo",
    "file_service_type=foo",
    "sync=foo",
    "write_hint=3",
    "kb_base=512",
    "unit_base=2",
    "nice=20",
    "nice=-21",
    "lockfile=foo",
    "number_ios=x",
    "steadystate=foo",
    "bs=${NO_SUCH_VARIABLE}",
    "description=",
    "filename=",
    "filesize=x",
    "verify_interval=10",
    "significant_figures=11",
    "latency_percentile=101",
    "flow=1001",
    "ss=iops",
    "ss=iops:x",
    "verify_pattern=%x",
    "rate_process=foo",
];

/// Options that fio accepts and Elevon refuses, each with the reason.
const STRICTER: &[(&str, &str)] = &[
    ("bs=4x", "fio drops the unit and has 4 bytes"),
    ("bs=4.5k", "likewise"),
    ("bs=-4", "fio drops the sign"),
    ("runtime=10min", "fio has 10 microseconds"),
    ("rate_cycle=1s", "fio has 1 ms"),
    ("size=101%", "there is no more than the whole"),
    ("ioengine=foo", "fio fails when it loads the engine"),
    ("bssplit=4k/60:8k/60", "fio runs with other shares"),
    ("percentile_list=99.99999", "fio takes any number of digits"),
    ("wait_for=nojob", "fio fails when it starts the job"),
    ("numjobs=0", "fio fails when it starts"),
    ("percentile_list=99.5:101", "fio drops the value with a message"),
    ("ignore_error=EFOO", "fio drops the name"),
    ("rate=1m\nrate_iops=100", "fio fails when it starts the job"),
    (
        "atomic=1",
        "3.33 opens with a flag that no kernel knows; later versions refuse it of this engine",
    ),
    (
        "ioengine=libaio\natomic=1",
        "later versions leave it to the kernel, which refuses each write",
    ),
    ("zonemode=strided", "fio fails when it starts the job"),
    ("zonesize=1m", "fio fails when it starts the job"),
    ("ioengine=libaio\ncmdprio_bssplit=4k/50/1", "fio fails when it starts the job"),
    (
        "ioengine=libaio\ncmdprio_bssplit=4k/50/1/9",
        "fio runs it at the highest number that there is",
    ),
];

#[test]
fn we_take_what_fio_takes_and_refuse_what_it_refuses() {
    let wrong: Vec<&str> = TAKEN.iter().filter(|options| !we_take(options)).copied().collect();
    assert_eq!(wrong, [""; 0], "taken by fio");
    let wrong: Vec<&str> = REFUSED.iter().filter(|options| we_take(options)).copied().collect();
    assert_eq!(wrong, [""; 0], "refused by fio");
    let wrong: Vec<&str> =
        STRICTER.iter().map(|row| row.0).filter(|options| we_take(options)).collect();
    assert_eq!(wrong, [""; 0], "refused here for a reason");
}

#[test]
fn the_installed_fio_takes_the_lists_so() {
    let taken: Vec<&str> = TAKEN.iter().copied().chain(STRICTER.iter().map(|row| row.0)).collect();
    // One run for all options; separate runs only to find the one that differs.
    match fio_takes(&taken, "taken") {
        None => return,
        Some(true) => {}
        Some(false) => {
            let wrong: Vec<_> = taken
                .iter()
                .filter(|options| fio_takes(&[options], "taken") != Some(true))
                .collect();
            panic!("fio refuses {wrong:?}");
        }
    }
    // fio stops at its first error, so each refusal takes a run; two threads share them.
    let halves = REFUSED.split_at(REFUSED.len() / 2);
    let refuses_all = |jobs: &[&'static str], name: &str| {
        jobs.iter()
            .copied()
            .filter(|options| fio_takes(&[options], name) != Some(false))
            .collect::<Vec<_>>()
    };
    let wrong = std::thread::scope(|scope| {
        let other = scope.spawn(|| refuses_all(halves.0, "first"));
        let mut wrong = refuses_all(halves.1, "second");
        wrong.extend(other.join().expect("no panic"));
        wrong
    });
    assert_eq!(wrong, [""; 0], "fio takes these");
}

#[test]
fn fio_agrees_on_numbers() {
    let numbers = [
        "1", "4096b", "4k", "4kb", "4ki", "4kib", "3M", "3mib", "2g", "2gib", "0x20", "010", "7t",
        "1p", "20kB",
    ];
    let cases: Vec<String> = ["1024", "1000"]
        .iter()
        .flat_map(|base| {
            numbers.iter().map(move |number| format!("kb_base={base}\nio_size={number}"))
        })
        .chain(
            [
                "runtime=10",
                "runtime=5us",
                "runtime=7msec",
                "runtime=3s",
                "runtime=2m",
                "runtime=4h",
                "runtime=1d",
            ]
            .map(Into::into),
        )
        .chain(["thinktime=9", "thinktime=9s", "thinktime_iotime=2", "ramp_time=1"].map(Into::into))
        .collect();
    let path = file("numbers");
    let text: String = cases.iter().map(|options| format!("[a]\n{options}\n")).collect();
    std::fs::write(&path, text).expect("a writable temporary directory");
    let output = crate::common::fio(&[
        "--debug=parse",
        "--parse-only",
        path.to_str().expect("a plain path"),
    ]);
    let _ = std::fs::remove_file(&path);
    let Some(output) = output else { return };
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let theirs: Vec<u64> = text
        .split("out=")
        .skip(1)
        .map(|tail| tail.lines().next().unwrap().trim().parse().unwrap())
        .collect();
    let ours: Vec<u64> = cases
        .iter()
        .map(|options| {
            let job = crate::common::job(options);
            match job.space.io_size {
                Some(Amount::Bytes(bytes)) => bytes,
                _ => [job.timing.runtime, job.think.time, job.think.io_time, job.timing.ramp_time]
                    .map(|t| t.as_micros())
                    .iter()
                    .sum(),
            }
        })
        .collect();
    assert_eq!(ours, theirs, "{cases:?}");
}
