//! Tests bad input and refusals of the machine: one clear line, the right exit status, no partial
//! output.

use std::fs;
use std::process::Stdio;

use crate::common::Bench;

const GOOD: &str =
    "[a]\nrw=randread\nbs=4k\niodepth=4\nioengine=io_uring\ndirect=1\nnumber_ios=50\n";

/// Creates a folder with the files that the cases name.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.file("good.fio", GOOD);
    fs::create_dir(bench.path("folder")).expect("a folder");
    bench.file("small.img", vec![0; 1 << 20]);
    bench.file("tiny.img", "abc");
    for (name, text) in [
        ("empty.fio", ""),
        ("no-job.fio", "[global]\nrw=read\n"),
        ("no-section.fio", "rw=read\n"),
        ("unclosed.fio", "[a\nrw=read\n"),
        ("unknown-key.fio", "[a]\nrw=read\ndirect=1\nreadahed=3\n"),
        ("bad-rw.fio", "[a]\nrw=sideways\n"),
        ("bad-bs.fio", "[a]\nrw=read\nbs=4q\n"),
        ("zero-bs.fio", "[a]\nrw=read\nbs=0\n"),
        ("huge-number.fio", "[a]\nrw=read\nsize=99999999999999999999999\n"),
        ("huge-depth.fio", "[a]\nrw=read\ndirect=1\niodepth=4000000000\n"),
        ("huge-numjobs.fio", "[a]\nrw=read\ndirect=1\nnumjobs=4000000000\n"),
        ("huge-block.fio", "[a]\nrw=read\ndirect=1\nbs=1024t\n"),
        ("too-large.fio", "[a]\nrw=read\ndirect=1\nsize=4p\n"),
        ("unaligned.fio", "[a]\nrw=read\ndirect=1\nbs=1000\nsize=1m\n"),
        ("no-include.fio", "[global]\ninclude other.fio\n[a]\nrw=read\n"),
        ("loop.inc", "include loop.inc\n"),
        ("loops.fio", "[global]\ninclude loop.inc\n[a]\nrw=read\n"),
        ("absolute-log.fio", "[a]\nrw=read\ndirect=1\nsize=1m\nwrite_bw_log=/tmp/elevon-no-such\n"),
        (
            "leaving-log.fio",
            "[a]\nrw=read\ndirect=1\nsize=1m\nwrite_lat_log=folder/../../elevon-no-such\n",
        ),
        ("linked-log.fio", "[a]\nrw=read\ndirect=1\nsize=1m\nwrite_hist_log=outside/x\n"),
        ("named-log.fio", "[../../elevon-no-such]\nrw=read\ndirect=1\nsize=1m\nwrite_iops_log\n"),
        ("no-log-folder.fio", "[a]\nrw=read\ndirect=1\nsize=1m\nwrite_bw_log=none/x\n"),
        ("include-passwd.fio", "[a]\ninclude /etc/passwd\nrw=read\n"),
        ("include-up.fio", "[a]\ninclude folder/../../up.fio\nrw=read\n"),
        ("include-link.fio", "[a]\ninclude outside/passwd\nrw=read\n"),
        ("refused.fio", "[a]\nrw=read\ndirect=1\nread_iolog=x\n"),
        ("wait-for-none.fio", "[a]\nrw=read\ndirect=1\nwait_for=b\n"),
        ("split-sum.fio", "[a]\nrw=randread\ndirect=1\nbssplit=4k/60:8k/70\n"),
        ("write-8m.fio", "[a]\nrw=write\nbs=4k\ndirect=1\nsize=8m\nfilename=x\n"),
    ] {
        bench.file(name, text);
    }
    for (name, text) in [
        ("mine.toml", "name = 'mine'\nbase = 'ufs-4.0'\n"),
        ("range.toml", "[tenant.'a/b']\nweight = 20000\n"),
        ("misread.toml", "[tenant.a]\n\"io.max\" = \"8:0 rbps=10M\"\n"),
        ("unknown.toml", "[tenant.a]\nio.mx = 5\n"),
        ("syntax.toml", "[tenant.a\nweight = 5\n"),
        ("stranger.toml", "[[change]]\nat = '1s'\ntenant = 'a'\nweight = 5\n"),
        ("new-word.toml", "[tenant.a]\nclass = 'promote-to-rt'\n"),
    ] {
        bench.file(name, text);
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink("/etc", bench.path("outside")).expect("a link");
    bench.file("binary.toml", [b'[', 255]);
    bench.file("binary.fio", [0, 159, 146, 150, b'\n', 255]);
    bench
}

/// Arguments, and words that the line must contain.
type Case = (&'static [&'static str], &'static [&'static str]);

/// Each ends with exit status 2 and a single line.
const CASES: &[Case] = &[
    // Job files.
    (&["run", "missing.fio"], &["missing.fio", "No such file"]),
    (&["run", "folder"], &["folder", "directory"]),
    (&["run", "empty.fio"], &["empty.fio", "job"]),
    (&["run", "no-job.fio"], &["no-job.fio", "job"]),
    (&["run", "no-section.fio"], &["no-section.fio:1:", "section"]),
    (&["run", "unclosed.fio"], &["unclosed.fio:1:", "]"]),
    (&["run", "unknown-key.fio"], &["unknown-key.fio:4:", "readahed"]),
    (&["run", "bad-rw.fio"], &["bad-rw.fio:2:", "sideways", "randread"]),
    (&["run", "bad-bs.fio"], &["bad-bs.fio:3:", "4q"]),
    (&["run", "zero-bs.fio"], &["zero-bs.fio:3:", "bs"]),
    (&["run", "huge-number.fio"], &["huge-number.fio:3:", "size"]),
    (&["run", "huge-depth.fio"], &["huge-depth.fio:4:", "iodepth"]),
    (&["run", "huge-numjobs.fio"], &["huge-numjobs.fio:4:", "numjobs"]),
    (&["run", "huge-block.fio"], &["huge-block.fio", "bs"]),
    (&["run", "too-large.fio"], &["too-large.fio:4:6: size: ", "does not fit"]),
    (&["run", "unaligned.fio"], &["unaligned.fio", "1000", "512"]),
    (&["run", "no-include.fio"], &["no-include.fio:2:", "other.fio"]),
    (&["run", "loops.fio"], &["loop.inc:1:", "may not include itself"]),
    // Paths that a job file names.
    (
        &["run", "absolute-log.fio"],
        &["absolute-log.fio:5:14: write_bw_log", "/tmp/elevon-no-such", "--log-dir"],
    ),
    (
        &["run", "leaving-log.fio"],
        &["leaving-log.fio:5:15: write_lat_log", "leads out", "--log-dir"],
    ),
    (
        &["run", "linked-log.fio"],
        &["linked-log.fio:5:16: write_hist_log", "leads out", "--log-dir"],
    ),
    (&["run", "named-log.fio"], &["named-log.fio:5:1: write_iops_log", "leads out", "--log-dir"]),
    (
        &["run", "no-log-folder.fio"],
        &["no-log-folder.fio:5:14: write_bw_log", "none", "No such file"],
    ),
    (
        &["run", "absolute-log.fio", "--log-dir", "folder"],
        &["absolute-log.fio:5:14: write_bw_log", "leads out"],
    ),
    (
        &["run", "no-log-folder.fio", "--log-dir", "absent"],
        &["--log-dir absent: no such folder; make it first"],
    ),
    (
        &["run", "good.fio", "--log-dir", "absent"],
        &["--log-dir absent: no such folder; make it first"],
    ),
    (
        &["run", "no-log-folder.fio", "--log-dir", "good.fio"],
        &["--log-dir good.fio", "not a directory"],
    ),
    (
        &["run", "include-passwd.fio"],
        &["include-passwd.fio:2:1: include", "/etc/passwd", "--include-dir"],
    ),
    (&["run", "include-up.fio"], &["include-up.fio:2:1: include", "not below .", "--include-dir"]),
    (
        &["run", "include-link.fio"],
        &["include-link.fio:2:1: include", "not below .", "--include-dir"],
    ),
    (&["run", "refused.fio"], &["refused.fio:4:", "read_iolog", "not supported"]),
    (&["run", "wait-for-none.fio"], &["wait-for-none.fio", "wait_for", "b"]),
    (&["run", "split-sum.fio"], &["split-sum.fio:4:", "bssplit"]),
    (&["run", "binary.fio"], &["binary.fio"]),
    (&["run", "good.fio", "missing.fio"], &["missing.fio"]),
    // Devices.
    (&["run", "good.fio", "--device", "folder"], &["--device", "directory"]),
    (
        &["run", "good.fio", "--device", "./none.img"],
        &[
            "./none.img: cannot open it: No such file or directory; name a file that exists",
            "job that writes size=",
        ],
    ),
    (&["run", "good.fio", "--device", "hdd-7201"], &["hdd-7201", "hdd-7200", "./hdd-7201"]),
    (&["run", "good.fio", "--device", ""], &["--device", "elevon devices"]),
    (&["run", "good.fio", "--device", "slots:slots=0"], &["slots=0", "from 1 to"]),
    (&["run", "good.fio", "--device", "slots:slot=1"], &["slot", "slots, latency"]),
    (&["run", "good.fio", "--device", "slots:latency=2"], &["latency=2", "ms"]),
    (&["run", "good.fio", "--device", "ufs-4.0:dies=x"], &["dies=x"]),
    (&["run", "good.fio", "--device", "null:size=1"], &["size=1"]),
    (
        &["run", "good.fio", "--device", "mine.toml"],
        &["--device mine.toml", "@mine.toml", "./mine.toml"],
    ),
    (&["run", "good.fio", "--device", "tiny.img"], &["tiny.img", "has 3 bytes"]),
    (&["run", "good.fio", "--device", "/dev/null"], &["/dev/null", "regular file"]),
    (&["run", "good.fio", "--device", "small.img", "--fault", "dead"], &["--fault", "simulated"]),
    // Schedulers, settings, kernels.
    (&["run", "good.fio", "--scheduler", "cfq"], &["cfq", "mq-deadline"]),
    (&["run", "good.fio", "--scheduler", "mq-deadline:fifo=1"], &["fifo", "fifo_batch"]),
    (&["run", "good.fio", "--scheduler", "mq-deadline:fifo_batch=x"], &["fifo_batch=x", "integer"]),
    (&["run", "good.fio", "--scheduler", "none:fifo_batch=1"], &["none", "no tunable"]),
    (&["run", "good.fio", "--set", "max_sector_kb=4"], &["max_sector_kb", "max_sectors_kb"]),
    (&["run", "good.fio", "--set", "max_sectors_kb=x"], &["max_sectors_kb=x", "KiB"]),
    (&["run", "good.fio", "--set", "max_sectors_kb=1"], &["max_sectors_kb", "at least 4"]),
    (&["run", "good.fio", "--set", "logical_block_size=3"], &["logical_block_size"]),
    (&["run", "good.fio", "--set", "hz=10"], &["hz=10", "from 100"]),
    (&["run", "good.fio", "--set", "fill"], &["fill", "KEY=VALUE"]),
    // The page cache.
    (
        &["run", "good.fio", "--memory", "6"],
        &["--memory 6: expected a size, a multiple of", "unit", "GiB"],
    ),
    (
        &["run", "good.fio", "--memory", "1GiB,others=1GiB"],
        &["--memory 1GiB,others=1GiB", "0 bytes are left"],
    ),
    (&["run", "good.fio", "--memory", "1GiB,other=1MiB"], &["other", "others"]),
    (
        &["run", "good.fio", "--memory", "1GiB", "--device", "small.img"],
        &["--memory 1GiB", "small.img is real"],
    ),
    (
        &["run", "good.fio", "--buffers", "contiguous", "--device", "small.img"],
        &["--buffers contiguous", "small.img is real"],
    ),
    (
        &["run", "good.fio", "--cpu-cost", "submit=0", "--device", "small.img"],
        &["--cpu-cost submit=0", "small.img is real"],
    ),
    (
        &["run", "good.fio", "--fault", "stall", "--device", "small.img"],
        &["--fault stall", "small.img is real"],
    ),
    (
        &["run", "good.fio", "--scheduler", "kyber", "--cpu-cost", "lock=3us"],
        &["lock=3us", "longer than", "2.25us"],
    ),
    (
        &["run", "good.fio", "--cache", "1GiB"],
        &["--cache 1GiB", "nvme-datacenter is simulated", "--memory SIZE"],
    ),
    (
        &["run", "good.fio", "--cache", "60KiB", "--device", "small.img"],
        &["--cache 60KiB", "64KiB or more"],
    ),
    (
        &["run", "good.fio", "--cache", "much", "--device", "small.img"],
        &["--cache much: expected a size", "GiB"],
    ),
    (
        &["run", "good.fio", "--cache", "1GiB,lazy", "--device", "small.img"],
        &["lazy", "write-back or write-through"],
    ),
    (
        &["run", "good.fio", "--cache", "4TiB", "--device", "small.img"],
        &["--cache 4TiB", "this machine has", "of memory"],
    ),
    (
        &[
            "run",
            "good.fio",
            "--cache",
            "1MiB",
            "--set",
            "activity=oracle",
            "--device",
            "small.img",
        ],
        &["activity=oracle", "simulated", "page-exact"],
    ),
    (
        &[
            "run",
            "good.fio",
            "--cache",
            "1MiB",
            "--set",
            "activity=random:500",
            "--device",
            "small.img",
        ],
        &["activity=random:500", "simulated"],
    ),
    (
        &["run", "good.fio", "--cache", "1GiB", "--set", "cache_mode=on", "--device", "small.img"],
        &["cache_mode=on", "write-through"],
    ),
    (&["run", "good.fio", "--set", "dirty_ratio=40"], &["dirty_ratio=40", "--memory"]),
    (&["run", "good.fio", "--set", "activity=page-exact"], &["activity=page-exact", "--memory"]),
    (
        &["run", "good.fio", "--memory", "1GiB", "--set", "activity=on"],
        &["activity=on", "iter-bio"],
    ),
    (&["run", "good.fio", "--memory", "1GiB", "--set", "cache=lru"], &["cache=lru", "mglru-6.1"]),
    (
        &["run", "good.fio", "--memory", "1GiB", "--set", "dirty_ratoi=4"],
        &["dirty_ratoi", "did you mean dirty_ratio"],
    ),
    (&["run", "good.fio", "--cpu-cost", "hits=5us"], &["hits=5us", "scheduler=", "fault="]),
    (&["run", "good.fio", "--set", "fill=half"], &["fill=half", "max-sectors"]),
    (&["run", "good.fio", "--set", "hz=1e9"], &["hz=1e9", "1000"]),
    (&["run", "good.fio", "--kernel", "2.6"], &["2.6", "6.18"]),
    (&["run", "good.fio", "--buffers", "huge"], &["--buffers huge: expected contiguous, or runs"]),
    (
        &["run", "good.fio", "--buffers", "runs:0x5"],
        &["--buffers runs:0x5: `0x5`: expected run lengths"],
    ),
    (&["run", "good.fio", "--cpu-cost", "5us"], &["--cpu-cost", "submit=TIME"]),
    (
        &["run", "good.fio", "--cpu-cost", "submit=5"],
        &["submit=5: expected a time with its unit (ns, us, ms, s)"],
    ),
    (
        &["run", "good.fio", "--cpu-cost", "wake=30us..20us"],
        &["wake=30us..20us: the first time must not be later"],
    ),
    (
        &["run", "good.fio", "--cpu-cost", "wake=30us..2"],
        &["wake=30us..2: expected a time with its unit"],
    ),
    (
        &["run", "good.fio", "--cpu-cost", "preempt=101%"],
        &["preempt=101%: expected a share from 0% to 100%"],
    ),
    (
        &["run", "good.fio", "--cpu-cost", "submit=0,submit=0"],
        &["submit=0,submit=0: key `submit` is given twice"],
    ),
    (
        &["run", "good.fio", "--include-dir", "absent"],
        &["--include-dir absent: no such folder; name one"],
    ),
    (
        &["run", "good.fio", "--include-dir", "good.fio"],
        &["--include-dir good.fio", "not a directory"],
    ),
    (
        &["run", "good.fio", "--device", "@absent.toml"],
        &["--device @absent.toml: no such file; name a description"],
    ),
    (
        &["run", "good.fio", "--device", "./no/x.img"],
        &["./no/x.img: cannot open it", "its folder does not exist"],
    ),
    (&["run", "good.fio", "--device", "nbd://no.invalid/x"], &["--device nbd://no.invalid/x: "]),
    (
        &["sweep", "merge", "absent"],
        &["absent: no such folder; name the folders of `elevon sweep --shard`"],
    ),
    (&["sweep", "good.fio", "--seeds", "2", "--cache", "1GiB"], &["unexpected argument '--cache'"]),
    (
        &["tune", "good.fio", "--over", "bs=4k,8k", "--cache", "1GiB"],
        &["unexpected argument '--cache'"],
    ),
    (
        &["compare", "good.fio", "--vs", "other.fio"],
        &[
            "unexpected argument 'other.fio' found; --vs takes options, such as '--scheduler bfq'; the job file is the",
        ],
    ),
    (
        &["run", "good.fio", "--fault", "error"],
        &["--fault error: needs sectors=FIRST-LAST, ppm=1..1000000, or both"],
    ),
    (
        &["run", "good.fio", "--fault", "gremlin"],
        &["--fault gremlin: no such kind; `elevon faults` lists them (error"],
    ),
    (&["run", "good.fio", "--fault", "error:sectors=9-1"], &["sectors=9-1", "FIRST-LAST"]),
    (&["run", "good.fio", "--seed", "-1"], &["--seed", "-1"]),
    (&["run", "good.fio", "--seed", "99999999999999999999"], &["--seed"]),
    (&["run", "good.fio", "--iostat", "0"], &["--iostat", "0.001"]),
    (&["run", "good.fio", "--iostat", "-1"], &["--iostat", "0.001"]),
    (&["run", "good.fio", "--iostat", "nan"], &["--iostat", "0.001"]),
    // Tenants.
    (&["run", "good.fio", "--tenants", "none.toml"], &["--tenants", "none.toml", "No such file"]),
    (&["run", "good.fio", "--tenants", "folder"], &["--tenants", "folder", "directory"]),
    (&["run", "good.fio", "--tenants", "binary.toml"], &["binary.toml", "UTF-8"]),
    (
        &["run", "good.fio", "--tenants", "range.toml"],
        &["range.toml:2:10:", "tenant.\"a/b\".weight: 20000 is out of range 1 to 10000"],
    ),
    (
        &["run", "good.fio", "--tenants", "misread.toml"],
        &["misread.toml:2:17:", "reads 10 bytes/s", "rbps=10000000"],
    ),
    (&["run", "good.fio", "--tenants", "unknown.toml"], &["unknown.toml:2:4:", "io.mx", "io.max"]),
    (&["run", "good.fio", "--tenants", "syntax.toml"], &["syntax.toml:1:", "`]`"]),
    (
        &["run", "good.fio", "--tenants", "stranger.toml"],
        &["stranger.toml:3:10:", "no such tenant"],
    ),
    (
        &["run", "good.fio", "--kernel", "6.1", "--tenants", "new-word.toml"],
        &["new-word.toml:2:9:", "6.5"],
    ),
    (&["compare", "good.fio", "--vs", "--tenants range.toml"], &["--vs", "range.toml:2:10:"]),
    // Outputs.
    (&["run", "good.fio", "--output-format", "xml"], &["xml", "normal, json"]),
    (&["run", "good.fio", "--trace", "run.pcap"], &["--trace", "run.pcap", ".ftrace"]),
    (&["run", "good.fio", "--trace", "run"], &["--trace", ".ftrace"]),
    (
        &["run", "good.fio", "--trace", "none/run.ftrace"],
        &["--trace", "none/run.ftrace", "No such file"],
    ),
    (&["run", "good.fio", "--blktrace", "8"], &["--blktrace 8: expected a --trace", ".blktrace"]),
    (
        &["run", "good.fio", "--trace", "a.ftrace", "--blktrace", "btt"],
        &["--blktrace btt: expected a --trace"],
    ),
    (
        &["run", "good.fio", "--trace", "a.blktrace", "--blktrace", "9"],
        &["--blktrace", "'9'", "7, 8, btt"],
    ),
    (
        &["run", "good.fio", "--kernel", "6.18", "--trace", "a.blktrace", "--blktrace", "8"],
        &["--blktrace 8: expected --kernel 6.19 or later"],
    ),
    (&["run", "good.fio", "--seed", "x"], &["--seed x: expected a whole number"]),
    (&["run", "good.fio", "--iostat", "1s"], &["--iostat 1s: expected a number, such as"]),
    (&["sweep", "good.fio", "--threads", "0"], &["--threads", "0 is not in 1..=1024"]),
    (&["run", "good.fio", "--trace", "none/x.ftrace"], &["--trace none/x.ftrace", "No such file"]),
    (
        &["run", "good.fio", "--html", "none/page.html"],
        &["--html", "none/page.html", "No such file"],
    ),
    (&["run", "good.fio", "--html", "folder"], &["--html", "folder", "directory"]),
    // Compare, and unknown commands and options.
    (&["compare", "good.fio"], &["--vs"]),
    (&["compare", "good.fio", "--vs", ""], &["--vs ''", "options"]),
    (&["compare", "good.fio", "--vs", "--sheduler none"], &["--vs", "--sheduler"]),
    (&["compare", "good.fio", "--vs", "mq-deadline"], &["--vs", "mq-deadline"]),
    (&["compare", "good.fio", "--vs", "--set 'a"], &["--vs", "not closed"]),
    (
        &[
            "compare",
            "good.fio",
            "--scheduler",
            "mq-deadline:async_depth=4",
            "--kernel",
            "6.12",
            "--vs",
            "--kernel 7.3",
        ],
        &[
            "--vs '--kernel 7.3'",
            "--scheduler mq-deadline:async_depth=4",
            "use --set async_depth=VALUE",
        ],
    ),
    (&["compare", "good.fio", "--vs", "--kernel 2.6"], &["--vs", "2.6", "6.18"]),
    (
        &["compare", "good.fio", "--vs", "--kernel 6.1", "--html", "none/x.html"],
        &["--html", "none/x.html"],
    ),
    (&["compare", "missing.fio", "--vs", "--kernel 6.1"], &["missing.fio"]),
    (&["devices", "floppy"], &["floppy", "hdd-7200"]),
    (&["schedulers", "cfq"], &["cfq", "mq-deadline"]),
    (&["frobnicate"], &["frobnicate"]),
    (&["run"], &["JOB.fio"]),
    (&["run", "good.fio", "--frob"], &["--frob"]),
];

#[test]
fn every_mistake_is_one_clear_line() {
    let bench = bench();
    let before = bench.names();
    let mut wrong = String::new();
    for (args, words) in CASES {
        let output = bench.elevon(args).output().expect("the command ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let line = stderr.trim_end();
        let good = output.status.code() == Some(2)
            && output.stdout.is_empty()
            && line.starts_with("elevon: ")
            && !line.contains('\n')
            && words.iter().all(|word| line.contains(word));
        if !good {
            wrong += &format!(
                "\n{}: {:?}: {stderr} (wanted {words:?})",
                args.join(" "),
                output.status.code()
            );
        }
        assert_eq!(bench.names(), before, "{}: something was left", args.join(" "));
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Paths that a job file names are only opened below the folders that the command line allows.
#[test]
fn logs_and_includes_are_where_the_command_line_says() {
    let bench = Bench::new();
    for folder in ["jobs", "shared", "logs"] {
        fs::create_dir(bench.path(folder)).expect("a folder");
    }
    let job = bench.file(
        "jobs/a.fio",
        "[a]\nrw=read\ndirect=1\ninclude ../shared/size.fio\nwrite_bw_log=sub/x\n",
    );
    bench.file("shared/size.fio", "size=1m\n");
    let refused = bench.elevon(&["run", job]).output().expect("the command ran");
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("jobs/a.fio:4:1: include: cannot read `jobs/../shared/size.fio`"),
        "{stderr}"
    );
    fs::create_dir(bench.path("logs/sub")).expect("a folder");
    bench.stdout(&["run", job, "--include-dir", "shared", "--log-dir", "logs"]);
    assert!(bench.path("logs/sub/x_bw.1.log").exists());
    assert_eq!(bench.names(), ["jobs", "logs", "shared"]);
}

#[test]
#[cfg(unix)]
fn a_log_that_is_a_link_out_of_its_folder_is_not_written() {
    let bench = Bench::new();
    fs::create_dir(bench.path("logs")).expect("a folder");
    let job = bench.file("a.fio", "[a]\nrw=read\ndirect=1\nsize=1m\nwrite_bw_log=x\n");
    bench.file("precious", "kept");
    std::os::unix::fs::symlink("../precious", bench.path("logs/x_bw.1.log")).expect("a link");
    let output =
        bench.elevon(&["run", job, "--log-dir", "logs"]).output().expect("the command ran");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("x_bw.1.log: a symbolic link that leads out"), "{stderr}");
    assert_eq!(fs::read(bench.path("precious")).expect("the file"), b"kept");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("IOPS="),
        "the report is there all the same"
    );
}

#[test]
fn every_fault_of_a_job_file_is_named() {
    let bench = Bench::new();
    let job = bench.file("two.fio", "[a]\nrw=sideways\nbs=4q\n");
    let output = bench.elevon(&["run", job]).output().expect("the command ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("two.fio:2:4: rw") && stderr.contains("two.fio:3:4: bs"), "{stderr}");
}

#[test]
fn a_real_file_that_cannot_hold_the_job() {
    let bench = bench();
    // A file of 1 MiB does not grow for a job that reads, but does for a job that writes.
    let job = bench.file("read-8m.fio", "[a]\nrw=read\nbs=4k\ndirect=1\nsize=8m\nfilename=other\n");
    let output =
        bench.elevon(&["run", job, "--device", "small.img"]).output().expect("the command ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("size") && stderr.contains("does not fit"), "{stderr}");
    assert_eq!(fs::metadata(bench.path("small.img")).expect("the file").len(), 1 << 20);
    bench.stdout(&["run", "write-8m.fio", "--device", "small.img"]);
    assert_eq!(fs::metadata(bench.path("small.img")).expect("the file").len(), 8 << 20);
    assert!(!bench.path("x").exists(), "only the device named on the command line is written");
}

/// A share of a file is one of what there is: the file does not grow for it, but for other jobs.
#[test]
fn a_share_of_a_real_file_that_is_written() {
    let bench = bench();
    let job = |share: &str| format!("[a]\nfilename=other\nrw=write\nbs=4k\ndirect=1\n{share}\n");
    let written = |share: &str| {
        let job = bench.file("share.fio", job(share));
        bench.json(job, &["--device", "small.img"])["jobs"][0]["write"]["io_bytes"].as_u64()
    };
    assert_eq!(written("size=25%"), Some(256 << 10));
    assert_eq!(written("size=64k\noffset=50%"), Some(64 << 10));
    assert_eq!(
        written("size=64k\noffset_increment=5%\nnumjobs=2\ngroup_reporting"),
        Some(128 << 10)
    );
    assert_eq!(fs::metadata(bench.path("small.img")).expect("the file").len(), 1 << 20);
    let beside = format!("{}[b]\nfilename=other\nrw=write\nsize=2m\ndirect=1\n", job("size=25%"));
    bench.stdout(&["run", bench.file("beside.fio", beside), "--device", "small.img"]);
    assert_eq!(fs::metadata(bench.path("small.img")).expect("the file").len(), 2 << 20);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_said_and_leaves_nothing() {
    let bench = bench();
    let full = || fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    for args in [
        &["run", "good.fio"][..],
        &["run", "good.fio", "--output-format", "json"],
        &["run", "good.fio", "--iostat", "0.001"],
        &["compare", "good.fio", "--vs", "--kernel 6.1"],
        &["devices"],
        &["schedulers"],
        &["run", "--help"],
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_elevon"));
        command.current_dir(bench.path("")).args(args).stdout(full()).stderr(Stdio::piped());
        let output = command
            .spawn()
            .and_then(std::process::Child::wait_with_output)
            .expect("the command ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(
            stderr.contains("No space left") && stderr.lines().count() == 1,
            "{args:?}: {stderr}"
        );
    }
    // If the page cannot be written, the report is still printed, and `/dev/full` is still a
    // device.
    let output = bench
        .elevon(&["run", "good.fio", "--html", "/dev/full"])
        .output()
        .expect("the command ran");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--html /dev/full: cannot write"));
    assert!(!output.stdout.is_empty());
    assert!(!fs::metadata("/dev/full").expect("/dev/full").is_file());
}

#[test]
#[cfg(target_os = "linux")]
fn a_reader_that_has_seen_enough_is_no_error() {
    let bench = bench();
    for args in [
        &["run", "good.fio"][..],
        &["run", "good.fio", "--iostat", "0.001"],
        &["devices"],
        &["--help"],
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_elevon"));
        command
            .current_dir(bench.path(""))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command started");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the command ended");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && stderr.is_empty(),
            "{args:?}: {:?} {stderr}",
            output.status
        );
    }
}

#[test]
fn a_failed_run_says_which_job_and_why() {
    let bench = bench();
    let args =
        ["run", "good.fio", "--fault", "error:ppm=1000000,status=medium", "--trace", "run.ftrace"];
    let output = bench.elevon(&args).output().expect("the command ran");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("a (pid 1001): ended by an I/O error: critical medium error (errno 61)"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("err=61 (critical medium error)"));
    assert!(bench.names().contains(&"run.ftrace".to_owned()), "what was traced shows what failed");
    assert!(bench.names().iter().all(|name| !name.contains(".part-")));
}
