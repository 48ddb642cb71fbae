//! Compares the block events of small jobs on four disks under ten real kernels with those that
//! `elevon run` or `elevon replay` writes for the same job, event for event, and holds the tables
//! of `docs/evidence/parity.md` to the result. `UPDATE_DOCS=1 cargo test -p elevon --test parity
//! event_parity` writes them anew.
//!
//! Compared are kind, flags, sector, length and order. Completions are left out, because their
//! times are the device's; so are processes and CPUs. From the trace come: where direct bios of a
//! read end, which is how memory lay; and the places and times of random reads, because fio's
//! generator is another one. Everything else is simulated.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::thread;

use crate::common::{Bench, kernel_truth};
use elevon_testkit::{hold_document, replace_between};

/// The kernels of the first traces, `events-V.txt.zst`, each with all of [`JOBS`].
const KERNELS: [&str; 4] = ["6.1", "6.12", "6.18", "7.3"];
/// Those of later traces, `jobs-V.txt.zst`: of [`MORE`] on one or two disks, on 6.18 also under BFQ
/// and Kyber, and on 6.16 and 7.2 of [`JOBS`] on all four.
const LATER_KERNELS: [&str; 4] = ["6.16", "6.18", "7.2", "7.3"];
/// Those of the last traces, `last-V.txt.zst`: of [`NEW`], and of kernels that no trace was taken
/// of before, of all jobs on one disk. There are no rules of 6.17: it has those of 6.18.
const LAST_KERNELS: [&str; 6] = ["6.17", "6.18", "6.19", "7.0", "7.1", "7.3"];

/// Those of traces that say themselves what their job is, `described-V.txt.zst`.
const DESCRIBED_KERNELS: [&str; 3] = ["6.1", "6.18", "7.3"];

/// The disks of the traces, and the profiles that present them.
const DISKS: [(&str, &str); 4] =
    [("nullb0", "null-blk"), ("vdb", "virtio-blk"), ("nvme0n1", "qemu-nvme"), ("sda", "scsi-disk")];

const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "bfq", "kyber"];

/// What a job is, beside what its trace says of it.
struct Job<'a> {
    name: &'a str,
    /// The job; empty if the trace itself is replayed.
    text: &'a str,
    /// Options of the command; its own `--device` or `--scheduler` is in place of the trace's.
    options: &'a [&'a str],
    /// Sectors of one call, if its bios show how memory lay.
    call: u64,
    /// The write that the disk did before, of which mq-deadline keeps the place: a job of one
    /// request, whose events are not compared. Empty if it does not matter.
    before: &'a str,
}

const DIRECT: &[&str] = &["--buffers", "runs:1x256"];
const BUFFERED: &[&str] = &["--memory", "1GiB", "--set", "buffered_path=blkdev"];

const JOBS: [Job<'static>; 9] = [
    Job {
        name: "read2m",
        text: "rw=read\nbs=2m\nsize=6m\ndirect=1\n",
        options: &[],
        call: 4096,
        before: "",
    },
    Job {
        name: "read1028k-512",
        text: "rw=read\nbs=1028k\nsize=3084k\ndirect=1\n",
        options: &["--set", "max_sectors_kb=512"],
        call: 2056,
        before: "",
    },
    Job {
        name: "write-dsync",
        text: "rw=write\nbs=256k\nsync=dsync\nnumber_ios=3\nsize=32m\ndirect=1\n",
        options: DIRECT,
        call: 0,
        before: "",
    },
    Job {
        name: "write-fsync",
        text: "rw=write\nbs=256k\nfsync=1\nnumber_ios=3\nsize=32m\ndirect=1\n",
        options: DIRECT,
        call: 0,
        before: "",
    },
    Job {
        name: "seqwrite-batch",
        text: "rw=write\nbs=4k\niodepth=16\niodepth_batch=16\nnumber_ios=64\nsize=32m\nioengine=libaio\ndirect=1\n",
        options: DIRECT,
        call: 0,
        before: "",
    },
    Job {
        name: "trim",
        text: "rw=trim\nbs=8m\nnumber_ios=3\nsize=32m\ndirect=1\n",
        options: &[],
        call: 0,
        before: "",
    },
    Job { name: "randread", text: "", options: &[], call: 0, before: "" },
    Job {
        name: "bufread",
        text: "rw=read\nbs=128k\nsize=64m\nnumber_ios=24\nfilename=f\n",
        options: BUFFERED,
        call: 0,
        before: "",
    },
    Job {
        name: "bufwrite-fsync",
        text: "rw=write\nbs=1m\nsize=2m\nend_fsync=1\nfilename=f\n",
        options: BUFFERED,
        call: 0,
        before: "rw=write\nbs=4k\noffset=764k\nsize=4k\ndirect=1\nfilename=f\n",
    },
];

const fn direct(name: &'static str, text: &'static str) -> Job<'static> {
    Job { name, text, options: DIRECT, call: 0, before: "" }
}

const fn buffered(name: &'static str, text: &'static str) -> Job<'static> {
    Job { name, text, options: BUFFERED, call: 0, before: "" }
}

const fn replayed(name: &'static str) -> Job<'static> {
    Job { name, text: "", options: &[], call: 0, before: "" }
}

/// Jobs with engine psync unless they name another; cached ones use the disk itself.
const MORE: [Job<'static>; 32] = [
    direct("read100k", "rw=read\nbs=100k\nsize=1000k\ndirect=1\n"),
    direct("read-stride", "rw=read:16k\nbs=16k\nnumber_ios=8\nsize=32m\ndirect=1\n"),
    direct("read512", "rw=read\nbs=512\nnumber_ios=8\nsize=32m\ndirect=1\n"),
    direct(
        "read64k-libaio",
        "rw=read\nbs=64k\nnumber_ios=6\nsize=32m\nioengine=libaio\ndirect=1\n",
    ),
    direct(
        "read64k-uring",
        "rw=read\nbs=64k\nnumber_ios=6\nsize=32m\nioengine=io_uring\ndirect=1\n",
    ),
    Job {
        options: &["--set", "max_sectors_kb=64"],
        call: 2048,
        ..direct("read1m-64", "rw=read\nbs=1m\nsize=2m\ndirect=1\n")
    },
    direct(
        "seqread-batch",
        "rw=read\nbs=4k\niodepth=16\niodepth_batch=16\nnumber_ios=64\nsize=32m\nioengine=libaio\ndirect=1\n",
    ),
    direct(
        "seqread-batch-rt",
        "rw=read\nbs=4k\niodepth=16\niodepth_batch=16\nnumber_ios=64\nsize=32m\nioengine=libaio\nprioclass=1\nprio=2\n\
         direct=1\n",
    ),
    direct(
        "seqread-uring",
        "rw=read\nbs=64k\niodepth=8\niodepth_batch=8\nnumber_ios=32\nsize=32m\nioengine=io_uring\ndirect=1\n",
    ),
    direct("write-sync", "rw=write\nbs=128k\nsync=sync\nnumber_ios=3\nsize=32m\ndirect=1\n"),
    direct("write-dsync-4k", "rw=write\nbs=4k\nsync=dsync\nnumber_ios=5\nsize=32m\ndirect=1\n"),
    direct(
        "write-dsync-libaio",
        "rw=write\nbs=64k\nnumber_ios=6\nsize=32m\nioengine=libaio\nsync=dsync\ndirect=1\n",
    ),
    direct("write-fdatasync", "rw=write\nbs=64k\nfdatasync=2\nnumber_ios=5\nsize=32m\ndirect=1\n"),
    Job {
        options: &["--set", "max_sectors_kb=512"],
        call: 2056,
        ..direct("write1028k-512", "rw=write\nbs=1028k\nsize=3084k\ndirect=1\n")
    },
    direct(
        "seqwrite-batch-64",
        "rw=write\nbs=8k\niodepth=64\niodepth_batch=64\nnumber_ios=128\nsize=32m\nioengine=libaio\ndirect=1\n",
    ),
    Job {
        options: &["--buffers", "runs:1x256", "--set", "nomerges=2"],
        ..direct(
            "seqwrite-batch-nomerges",
            "rw=write\nbs=4k\niodepth=16\niodepth_batch=16\nnumber_ios=64\nsize=32m\nioengine=libaio\ndirect=1\n",
        )
    },
    direct(
        "write-stride-batch",
        "rw=write:4k\nbs=4k\niodepth=16\niodepth_batch=16\nnumber_ios=64\nsize=32m\nioengine=libaio\ndirect=1\n",
    ),
    Job { options: &[], ..direct("trim3m", "rw=trim\nbs=3m\nnumber_ios=4\nsize=32m\ndirect=1\n") },
    replayed("randread-16"),
    replayed("randwrite"),
    replayed("randrw"),
    buffered("bufread-4k", "filename=/dev/d\nrw=read\nbs=4k\nsize=32m\nnumber_ios=100\n"),
    buffered("bufread-64k", "filename=/dev/d\nrw=read\nbs=64k\nsize=32m\nnumber_ios=40\n"),
    buffered(
        "bufread-offset",
        "filename=/dev/d\nrw=read\nbs=32k\noffset=100k\nsize=16m\nnumber_ios=40\n",
    ),
    buffered("bufread-stride", "filename=/dev/d\nrw=read:60k\nbs=4k\nsize=32m\nnumber_ios=16\n"),
    Job {
        options: &[
            "--memory",
            "1GiB",
            "--set",
            "buffered_path=blkdev",
            "--set",
            "read_ahead_kb=64",
        ],
        ..buffered("bufread-ra64", "filename=/dev/d\nrw=read\nbs=16k\nsize=32m\nnumber_ios=60\n")
    },
    buffered(
        "bufwrite-512",
        "filename=/dev/d\nrw=write\nbs=512\nsize=32m\nnumber_ios=20\nend_fsync=1\n",
    ),
    buffered(
        "bufwrite-3k",
        "filename=/dev/d\nrw=write\nbs=3k\nsize=32m\nnumber_ios=20\nend_fsync=1\n",
    ),
    buffered("bufwrite-64k", "filename=/dev/d\nrw=write\nbs=64k\nsize=3m\nend_fsync=1\n"),
    buffered(
        "bufwrite-stride",
        "filename=/dev/d\nrw=write:12k\nbs=4k\nsize=32m\nnumber_ios=32\nend_fsync=1\n",
    ),
    buffered(
        "bufwrite-sync",
        "filename=/dev/d\nrw=write\nbs=32k\nsync=sync\nsize=32m\nnumber_ios=8\n",
    ),
    buffered("bufwrite-fsync-new", "filename=/dev/d\nrw=write\nbs=1m\nsize=2m\nend_fsync=1\n"),
];

/// Jobs that no trace was taken of while the model was made, of the kinds that have an option or an
/// attribute which those above do not have.
const NEW: [Job<'static>; 35] = [
    direct(
        "uring-fixed",
        "rw=write\nbs=8k\niodepth=8\niodepth_batch=8\nfixedbufs=1\nregisterfiles=1\n\
         ioengine=io_uring\nnumber_ios=32\nsize=32m\ndirect=1\n",
    ),
    direct(
        "uring-nonvec",
        "rw=read\nbs=16k\niodepth=4\niodepth_batch=2\nnonvectored=1\nioengine=io_uring\n\
         number_ios=16\nsize=32m\ndirect=1\n",
    ),
    direct(
        "uring-fsync",
        "rw=write\nbs=16k\nfsync=4\nioengine=io_uring\nnumber_ios=12\nsize=32m\ndirect=1\n",
    ),
    direct(
        "aio-fdatasync",
        "rw=write\nbs=16k\nfdatasync=3\nioengine=libaio\nnumber_ios=9\nsize=32m\ndirect=1\n",
    ),
    direct(
        "aio-batch-all",
        "rw=read\nbs=4k\niodepth=8\niodepth_batch=8\niodepth_batch_complete_min=8\n\
         iodepth_batch_complete_max=8\nioengine=libaio\nnumber_ios=48\nsize=32m\ndirect=1\n",
    ),
    Job {
        options: &["--buffers", "runs:1x256", "--set", "nr_requests=8"],
        ..direct(
            "nr8-batch",
            "rw=write\nbs=4k\niodepth=32\niodepth_batch=32\nioengine=libaio\nnumber_ios=64\n\
         size=32m\ndirect=1\n",
        )
    },
    Job {
        options: &["--buffers", "runs:1x256", "--set", "max_sectors_kb=32"],
        ..direct("write256k-32", "rw=write\nbs=256k\nnumber_ios=3\nsize=32m\ndirect=1\n")
    },
    Job {
        options: &["--buffers", "runs:1x256", "--set", "nomerges=1"],
        ..direct(
            "read-nomerges1",
            "rw=read\nbs=4k\niodepth=16\niodepth_batch=16\nnumber_ios=64\nsize=32m\nioengine=libaio\n\
         direct=1\n",
        )
    },
    direct(
        "prio-two",
        "filename=/dev/d\nrw=write\nbs=4k\niodepth=8\niodepth_batch=8\nioengine=libaio\n\
         number_ios=24\nsize=32m\ndirect=1\nprioclass=1\nprio=1\n[b]\nfilename=/dev/d\n\
         stonewall\nrw=read\nbs=4k\niodepth=8\niodepth_batch=8\nioengine=libaio\nnumber_ios=24\n\
         size=32m\ndirect=1\nprioclass=3\n",
    ),
    direct("verify", "rw=write\nbs=32k\nsize=256k\nverify=crc32c\ndirect=1\n"),
    direct("loops", "rw=read\nbs=64k\nsize=256k\nloops=3\ndirect=1\n"),
    direct(
        "strided",
        "rw=write\nbs=16k\nzonemode=strided\nzonesize=32k\nzonerange=32k\nzoneskip=224k\n\
         number_ios=12\nsize=32m\ndirect=1\n",
    ),
    direct("read512-off", "rw=read\nbs=3k\noffset=1536\nnumber_ios=12\nsize=32m\ndirect=1\n"),
    Job {
        options: &[],
        ..direct("trim-stride", "rw=trim:64k\nbs=64k\nnumber_ios=6\nsize=32m\ndirect=1\n")
    },
    buffered(
        "trimwrite",
        "filename=/dev/d\nrw=trimwrite\nbs=64k\nnumber_ios=6\nsize=32m\ndirect=1\n",
    ),
    direct("sync-read", "rw=read\nbs=32k\nsync=sync\nnumber_ios=8\nsize=32m\ndirect=1\n"),
    direct("pvsync2", "rw=write\nbs=128k\nioengine=pvsync2\nnumber_ios=6\nsize=32m\ndirect=1\n"),
    direct(
        "vsync",
        "rw=read\nbs=4k\nioengine=vsync\niodepth=8\nnumber_ios=32\nsize=32m\ndirect=1\n",
    ),
    buffered(
        "bufread-seq",
        "filename=/dev/d\nfadvise_hint=sequential\nrw=read\nbs=16k\nsize=32m\nnumber_ios=80\n",
    ),
    buffered(
        "bufread-rand",
        "filename=/dev/d\nfadvise_hint=random\nrw=read\nbs=64k\nsize=32m\nnumber_ios=20\n",
    ),
    Job {
        options: &["--memory", "1GiB", "--set", "buffered_path=blkdev", "--set", "read_ahead_kb=0"],
        ..buffered("bufread-ra0", "filename=/dev/d\nrw=read\nbs=16k\nsize=32m\nnumber_ios=10\n")
    },
    Job {
        options: &["--memory", "1GiB", "--set", "buffered_path=blkdev", "--set", "read_ahead_kb=4"],
        ..buffered("bufread-ra4", "filename=/dev/d\nrw=read\nbs=16k\nsize=32m\nnumber_ios=20\n")
    },
    Job {
        options: &[
            "--memory",
            "1GiB",
            "--set",
            "buffered_path=blkdev",
            "--set",
            "read_ahead_kb=1024",
        ],
        ..buffered("bufread-ra1024", "filename=/dev/d\nrw=read\nbs=64k\nsize=32m\nnumber_ios=80\n")
    },
    buffered("bufread-6k", "filename=/dev/d\nrw=read\nbs=6k\nsize=32m\nnumber_ios=60\n"),
    buffered("bufread-1m", "filename=/dev/d\nrw=read\nbs=1m\nsize=32m\nnumber_ios=4\n"),
    buffered(
        "mmap-read",
        "filename=/dev/d\nioengine=mmap\nrw=read\nbs=4k\nsize=32m\nnumber_ios=100\n",
    ),
    buffered(
        "mmap-read-64k",
        "filename=/dev/d\nioengine=mmap\nrw=read\nbs=64k\nsize=32m\nnumber_ios=16\n",
    ),
    buffered(
        "sfr-write",
        "filename=/dev/d\nrw=write\nbs=16k\nsync_file_range=write:4\nsize=32m\nnumber_ios=16\n\
         end_fsync=1\n",
    ),
    buffered(
        "sfr-wait",
        "filename=/dev/d\nrw=write\nbs=16k\nsync_file_range=wait_before,write,wait_after:4\n\
         size=32m\nnumber_ios=16\nend_fsync=1\n",
    ),
    buffered(
        "bufwrite-fdatasync",
        "filename=/dev/d\nrw=write\nbs=16k\nfdatasync=4\nsize=32m\nnumber_ios=12\nend_fsync=1\n",
    ),
    buffered(
        "bufwrite-dsync",
        "filename=/dev/d\nrw=write\nbs=8k\nsync=dsync\nsize=32m\nnumber_ios=6\n",
    ),
    buffered("bufwrite-1m-dsync", "filename=/dev/d\nrw=write\nbs=1m\nsync=dsync\nsize=3m\n"),
    buffered(
        "bufwrite-5000",
        "filename=/dev/d\nrw=write\nbs=5000\nsize=32m\nnumber_ios=20\nend_fsync=1\n",
    ),
    buffered(
        "bufwrite-verify",
        "filename=/dev/d\nrw=write\nbs=32k\nsize=256k\nverify=crc32c\nend_fsync=1\n",
    ),
    buffered(
        "bufwrite-two",
        "filename=/dev/d\nrw=write\nbs=16k\nsize=128k\nend_fsync=1\n[b]\nstonewall\n\
         filename=/dev/d\nrw=write:8k\nbs=8k\nsize=128k\nend_fsync=1\n",
    ),
];

/// Events whose time is the device's, or which this stack does not have.
const LEFT_OUT: [&str; 2] = ["rq_complete", "io_done"];

/// Returns the jobs of all traces.
fn all_jobs() -> impl Iterator<Item = &'static Job<'static>> {
    JOBS.iter().chain(&MORE).chain(&NEW)
}

/// Returns an event without process, CPU and device, and of a line that is not compared `None`.
fn event(line: &str, with_priority: bool) -> Option<(&str, String)> {
    let (kind, fields) = line.split_once(": block_")?.1.split_once(':')?;
    let is_priority = |word: &str| with_priority && word.starts_with(char::is_alphabetic);
    let is_of_cpu = |word: &str| word.starts_with('[') || word.starts_with("hctx=");
    let is_kept = |word: &&str| !is_of_cpu(word) && (!word.contains(',') || is_priority(word));
    let words = fields.split_whitespace().filter(is_kept);
    Some((kind, [kind].into_iter().chain(words).collect::<Vec<_>>().join(" ")))
}

/// Returns the events whose time is not the device's, without priorities.
pub(crate) fn events(trace: &str) -> Vec<String> {
    let of_stack = trace.lines().filter_map(|line| event(line, false));
    of_stack.filter(|(kind, _)| !LEFT_OUT.contains(kind)).map(|(_, text)| text).collect()
}

/// Returns every event, with priorities.
fn every_event(trace: &str) -> Vec<String> {
    trace.lines().filter_map(|line| event(line, true)).map(|(_, text)| text).collect()
}

/// Returns the traces of a kernel in one of the files, by `DISK-SCHEDULER-JOB`.
fn traces(file: &str, kernel: &str) -> BTreeMap<String, String> {
    let packed = fs::read(kernel_truth("matrix").join(format!("{file}-{kernel}.txt.zst")))
        .expect("the traces");
    sections(&String::from_utf8(zstd::decode_all(&packed[..]).expect("zstd")).expect("text"))
}

/// Splits a file of traces.
fn sections(text: &str) -> BTreeMap<String, String> {
    let sections = text
        .split("== ")
        .skip(1)
        .map(|section| section.split_once('\n').expect("a name and its trace"));
    sections.map(|(name, trace)| (name.to_owned(), trace.to_owned())).collect()
}

/// Returns memory in which the first call of the trace has its bios: 256 runs of pages in each but
/// the last, whose end is that of the buffer. A full bio has one page in its last run. A call that
/// is one bio has memory in one piece.
fn memory(trace: &[String], call: u64) -> String {
    let (mut runs, mut built) = (Vec::new(), 0);
    for bio in trace.iter().filter(|event| event.starts_with("bio_queue ")) {
        let sectors: u64 =
            bio.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a length");
        built += sectors;
        let pages = sectors / 8;
        if sectors == call {
            return "contiguous".to_owned();
        }
        if built >= call {
            runs.push(format!("{pages}x1"));
            break;
        }
        let (short, longer) = ((pages - 1) / 255, (pages - 1) % 255);
        runs.extend((longer > 0).then(|| format!("{}x{longer}", short + 1)));
        runs.push(format!("{short}x{},1x1", 255 - longer));
    }
    format!("runs:{}", runs.join(","))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Exact,
    /// The same events in another order.
    Order,
    Different,
}

/// One trace and how the simulation compares.
struct Compared {
    kernel: &'static str,
    job: String,
    scheduler: &'static str,
    verdict: Verdict,
    /// Where the first difference is; empty if there is none.
    first: String,
}

fn compare(
    kernel: &'static str,
    job: &Job<'_>,
    disk: (&str, &str),
    scheduler: &'static str,
    trace: &str,
) -> Compared {
    let (bench, theirs) = (Bench::new(), events(trace));
    let verb = match job.text {
        "" => ["replay", bench.file("real.ftrace", trace)],
        text => {
            let before = match job.before {
                "" => "[a]\n".to_owned(),
                before => format!("[before]\n{before}[a]\nstonewall\n"),
            };
            [
                "run",
                bench.file(
                    "job.fio",
                    format!("[global]\nioengine=psync\nfadvise_hint=0\n{before}{text}"),
                ),
            ]
        }
    };
    let memory = memory(&theirs, job.call);
    let rules = if kernel == "6.17" { "6.18" } else { kernel };
    let of_trace = [["--device", disk.1], ["--scheduler", scheduler]];
    let of_trace =
        of_trace.iter().filter(|option| !job.options.contains(&option[0])).flatten().copied();
    let stack = [&["--kernel", rules, "--trace", "ours.ftrace"][..], &of_trace.collect::<Vec<_>>()]
        .concat();
    let buffers = ["--buffers", &memory];
    let options =
        [&verb[..], &stack, job.options, if job.call > 0 { &buffers[..] } else { &[] }].concat();
    bench.stdout(&options);
    let mut ours =
        events(&fs::read_to_string(bench.path("ours.ftrace")).expect("the trace of the run"));
    if !job.before.is_empty() {
        let issued = ours
            .iter()
            .position(|event| event.starts_with("rq_issue "))
            .expect("one request before");
        ours.drain(..=issued);
    }
    let sorted = |events: &[String]| {
        let mut events = events.to_vec();
        events.sort();
        events
    };
    let verdict = match () {
        () if ours == theirs => Verdict::Exact,
        () if sorted(&ours) == sorted(&theirs) => Verdict::Order,
        () => Verdict::Different,
    };
    let at = (0..ours.len().max(theirs.len())).find(|&at| ours.get(at) != theirs.get(at));
    let of = |events: &[String], at: usize| {
        events.get(at).map_or("the end".to_owned(), |event| format!("`{event}`"))
    };
    let first = at.map_or_else(String::new, |at| {
        let (kernel, here) = (of(&theirs, at), of(&ours, at));
        format!(
            "{}, {scheduler}: event {at} of {} is {kernel} in the kernel and {here} here",
            disk.0,
            theirs.len()
        )
    });
    Compared { kernel, job: job.name.to_owned(), scheduler, verdict, first }
}

fn compare_all(file: &str, kernel: &'static str) -> Vec<Compared> {
    let traces = traces(file, kernel);
    let mut compared = Vec::new();
    for job in all_jobs() {
        for disk in DISKS {
            for scheduler in SCHEDULERS {
                if let Some(trace) = traces.get(&format!("{}-{scheduler}-{}", disk.0, job.name)) {
                    compared.push(compare(kernel, job, disk, scheduler, trace));
                }
            }
        }
    }
    assert_eq!(compared.len(), traces.len(), "every trace of {kernel} is compared");
    compared
}

/// Compares traces each of which begins with lines that say what its job is: `# OPTION VALUE` of
/// the command, and `| LINE` of the job. Without a line of a job the trace is replayed.
fn compare_described(kernel: &'static str, traces: &BTreeMap<String, String>) -> Vec<Compared> {
    let compare_one = |(name, section): (&String, &String)| {
        let disk = DISKS.into_iter().find(|disk| name.starts_with(disk.0)).expect("a disk");
        let rest = &name[disk.0.len() + 1..];
        let scheduler = SCHEDULERS
            .into_iter()
            .find(|scheduler| rest.starts_with(scheduler))
            .expect("a scheduler");
        let of =
            |mark: &'static str| section.lines().filter_map(move |line| line.strip_prefix(mark));
        let options: Vec<&str> = of("# ").flat_map(str::split_whitespace).collect();
        let text: String = of("| ").flat_map(|line| [line, "\n"]).collect();
        let job = &rest[scheduler.len() + 1..];
        let job = Job { name: job, text: &text, options: &options, call: 0, before: "" };
        compare(kernel, &job, disk, scheduler, section)
    };
    traces.iter().map(compare_one).collect()
}

/// Returns the table of traces, with a line for each of the jobs that is among them.
fn table(kernels: &[&str], jobs: &[&str], all: &[Compared]) -> String {
    let count = |of: &dyn Fn(&&Compared) -> bool, verdict: Verdict| {
        all.iter().filter(of).filter(|compared| compared.verdict == verdict).count()
    };
    let cell = |of: &dyn Fn(&&Compared) -> bool| {
        let (order, other) = (count(of, Verdict::Order), count(of, Verdict::Different));
        let counted = all.iter().filter(of).count();
        let mut text = if counted == 0 {
            "-".to_owned()
        } else {
            format!("{} of {counted}", count(of, Verdict::Exact))
        };
        if order > 0 {
            let _ = write!(text, ", {order} in another order");
        }
        if other > 0 {
            let _ = write!(text, ", {other} different");
        }
        text
    };
    let mut out =
        format!("\n| job | {} |\n| --- |{}\n", kernels.join(" | "), " --- |".repeat(kernels.len()));
    for job in jobs.iter().filter(|job| all.iter().any(|compared| compared.job == **job)) {
        let of = |kernel: &&str| {
            cell(&|compared: &&Compared| compared.kernel == *kernel && compared.job == *job)
        };
        let _ = writeln!(
            out,
            "| `{job}` | {} |",
            kernels.iter().map(of).collect::<Vec<_>>().join(" | ")
        );
    }
    let of = |kernel: &&str| cell(&|compared: &&Compared| compared.kernel == *kernel);
    let cells = kernels.iter().map(of).collect::<Vec<_>>();
    let _ = writeln!(out, "| all | {} |\n\nNot exact:\n", cells.join(" | "));
    for compared in all.iter().filter(|compared| compared.verdict != Verdict::Exact) {
        let _ = writeln!(out, "- {}, `{}`, {}.", compared.kernel, compared.job, compared.first);
    }
    out.push('\n');
    out
}

fn of_kernel(file: &str, kernel: &'static str) -> Vec<Compared> {
    match file {
        "described" => compare_described(kernel, &traces(file, kernel)),
        _ => compare_all(file, kernel),
    }
}

/// Compares all traces of a kind, and returns the result with its table.
fn compare_kernels(
    file: &str,
    kernels: &[&'static str],
    least_percent: usize,
) -> (Vec<Compared>, String) {
    let all: Vec<Compared> = thread::scope(|scope| {
        let threads = kernels
            .iter()
            .map(|kernel| scope.spawn(move || of_kernel(file, kernel)))
            .collect::<Vec<_>>();
        threads.into_iter().flat_map(|thread| thread.join().expect("compared")).collect()
    });
    let exact = all.iter().filter(|compared| compared.verdict == Verdict::Exact).count();
    let mut jobs: Vec<&str> = all_jobs().map(|job| job.name).collect();
    let described: BTreeSet<&str> =
        all.iter().map(|compared| &compared.job[..]).filter(|job| !jobs.contains(job)).collect();
    jobs.extend(described);
    let table = table(kernels, &jobs, &all);
    eprintln!("{exact} of {} traces are exact\n{table}", all.len());
    assert!(
        exact * 100 >= all.len() * least_percent,
        "only {exact} of {} traces are exact",
        all.len()
    );
    (all, table)
}

/// Holds the part of `docs/evidence/parity.md` with this name to the table, or writes it.
fn hold_docs(name: &str, table: &str) {
    let (begin, end) =
        (format!("<!-- {name}: made by event_parity -->\n"), format!("<!-- {name}: end -->\n"));
    hold_document("docs/evidence/parity.md", |text| replace_between(text, &begin, &end, table));
}

/// All kinds of traces, in one test, because both write the document.
#[test]
fn events_are_those_of_ten_kernels() {
    let (_, first) = compare_kernels("events", &KERNELS, 95);
    let (later, table) = compare_kernels("jobs", &LATER_KERNELS, 95);
    let (last, last_table) = compare_kernels("last", &LAST_KERNELS, 95);
    let (_, described_table) = compare_kernels("described", &DESCRIBED_KERNELS, 90);
    hold_docs("described events", &described_table);
    hold_docs("events", &first);
    hold_docs("later events", &table);
    hold_docs("last events", &last_table);
    // Without a scheduler no worker dispatches, so that nothing depends on when one runs.
    let is_other =
        |compared: &&Compared| compared.scheduler == "none" && compared.verdict != Verdict::Exact;
    let all = later.iter().chain(&last);
    assert_eq!(all.filter(is_other).map(|compared| &compared.first).collect::<Vec<_>>(), [""; 0]);
}

/// Compares the traces of a file of one's own, in the form of `described-V.txt`, with those of a
/// kernel: `ELEVON_TRACES=FILE ELEVON_KERNEL=6.18 cargo test -p elevon --test parity own_file --
/// --nocapture`. Without a file there is nothing to do.
#[test]
fn events_of_an_own_file() {
    let Ok(file) = std::env::var("ELEVON_TRACES") else { return };
    let kernel = std::env::var("ELEVON_KERNEL").expect("ELEVON_KERNEL is the version");
    let kernel: &'static str = kernel.leak();
    let all = compare_described(kernel, &sections(&fs::read_to_string(file).expect("the traces")));
    let jobs: BTreeSet<&str> = all.iter().map(|compared| &compared.job[..]).collect();
    println!("{}", table(&[kernel], &jobs.into_iter().collect::<Vec<_>>(), &all));
}

/// Where one request is in flight at a time, completions have their place in the order, too: those
/// of the steps of flush sequences, with the accounting events and the priority of each.
#[test]
fn every_event_of_flush_sequences_is_the_kernels() {
    let is_compared = |job: &&Job<'_>| ["write-dsync", "write-fsync"].contains(&job.name);
    let mut compared = 0;
    for kernel in KERNELS {
        let traces = traces("events", kernel);
        for job in JOBS.iter().filter(is_compared) {
            for disk in DISKS {
                let bench = Bench::new();
                let text = format!("[global]\nioengine=psync\nfadvise_hint=0\n[a]\n{}", job.text);
                let file = bench.file("job.fio", text);
                let stack =
                    ["run", file, "--device", disk.1, "--kernel", kernel, "--trace", "ours.ftrace"];
                bench.stdout(&[&stack[..], job.options].concat());
                let ours = every_event(
                    &fs::read_to_string(bench.path("ours.ftrace")).expect("the trace of the run"),
                );
                let theirs = every_event(&traces[&format!("{}-none-{}", disk.0, job.name)]);
                for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                    assert_eq!(ours, theirs, "{kernel} {} {}: event {at}", disk.0, job.name);
                }
                assert_eq!(ours.len(), theirs.len(), "{kernel} {} {}", disk.0, job.name);
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 32);
}
