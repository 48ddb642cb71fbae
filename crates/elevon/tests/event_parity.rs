//! Compares the block events of small jobs on four disks under four real kernels with those that
//! `elevon run` or `elevon replay` writes for the same job, event for event, and holds the table of
//! `docs/parity.md` to the result. `UPDATE_DOCS=1 cargo test -p elevon --test event_parity` writes
//! it anew.
//!
//! Compared are kind, flags, sector, length and order. Completions are left out, because their
//! times are the device's; so are processes and CPUs. From the trace come: where direct bios of a
//! read end, which is how memory lay; and the places and times of random reads, because fio's
//! generator is another one. Everything else is simulated.

mod common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::thread;

use common::{Bench, kernel_truth};

const KERNELS: [&str; 4] = ["6.1", "6.12", "6.18", "7.3"];

/// The disks of the traces, and the profiles that present them.
const DISKS: [(&str, &str); 4] =
    [("nullb0", "null-blk"), ("vdb", "virtio-blk"), ("nvme0n1", "qemu-nvme"), ("sda", "scsi-disk")];

/// What a job is, beside what its trace says of it.
struct Job {
    name: &'static str,
    /// The job; empty if the trace itself is replayed.
    text: &'static str,
    options: &'static [&'static str],
    /// Sectors of one call, if its bios show how memory lay.
    call: u64,
    /// The write that the disk did before, of which mq-deadline keeps the place: a job of one
    /// request, whose events are not compared. Empty if it does not matter.
    before: &'static str,
}

const DIRECT: &[&str] = &["--buffers", "runs:1x256"];
const BUFFERED: &[&str] = &["--memory", "1GiB", "--set", "buffered_path=blkdev"];

const JOBS: [Job; 9] = [
    Job { name: "read2m", text: "rw=read\nbs=2m\nsize=6m\ndirect=1\n", options: &[], call: 4096, before: "" },
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
    Job { name: "trim", text: "rw=trim\nbs=8m\nnumber_ios=3\nsize=32m\ndirect=1\n", options: &[], call: 0, before: "" },
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

/// Events whose time is the device's, or which this stack does not have.
const LEFT_OUT: [&str; 2] = ["rq_complete", "io_done"];

/// Returns an event without process, CPU and device, and of a line that is not compared `None`.
fn event(line: &str, with_priority: bool) -> Option<(&str, String)> {
    let (kind, fields) = line.split_once(": block_")?.1.split_once(':')?;
    let is_priority = |word: &str| with_priority && word.starts_with(char::is_alphabetic);
    let is_kept = |word: &&str| !word.starts_with('[') && (!word.contains(',') || is_priority(word));
    let words = fields.split_whitespace().filter(is_kept);
    Some((kind, [kind].into_iter().chain(words).collect::<Vec<_>>().join(" ")))
}

/// Returns the events whose time is not the device's, without priorities.
fn events(trace: &str) -> Vec<String> {
    let of_stack = trace.lines().filter_map(|line| event(line, false));
    of_stack.filter(|(kind, _)| !LEFT_OUT.contains(kind)).map(|(_, text)| text).collect()
}

/// Returns every event, with priorities.
fn every_event(trace: &str) -> Vec<String> {
    trace.lines().filter_map(|line| event(line, true)).map(|(_, text)| text).collect()
}

/// Returns the traces of a kernel, by `DISK-SCHEDULER-JOB`.
fn traces(kernel: &str) -> BTreeMap<String, String> {
    let packed = fs::read(kernel_truth("matrix").join(format!("events-{kernel}.txt.zst"))).expect("the traces");
    let text = String::from_utf8(zstd::decode_all(&packed[..]).expect("zstd")).expect("text");
    let sections = text.split("== ").skip(1).map(|section| section.split_once('\n').expect("a name and its trace"));
    sections.map(|(name, trace)| (name.to_owned(), trace.to_owned())).collect()
}

/// Returns memory in which the first call of the trace has its bios: 256 runs of pages in each but
/// the last, whose end is that of the buffer. A full bio has one page in its last run. A call that
/// is one bio has memory in one piece.
fn memory(trace: &[String], call: u64) -> String {
    let (mut runs, mut built) = (Vec::new(), 0);
    for bio in trace.iter().filter(|event| event.starts_with("bio_queue ")) {
        let sectors: u64 = bio.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a length");
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
    job: &'static str,
    verdict: Verdict,
    /// Where the first difference is; empty if there is none.
    first: String,
}

fn compare(kernel: &'static str, job: &Job, disk: (&str, &str), scheduler: &str, trace: &str) -> Compared {
    let (bench, theirs) = (Bench::new(), events(trace));
    let verb = match job.text {
        "" => ["replay", bench.file("real.ftrace", trace)],
        text => {
            let before = match job.before {
                "" => "[a]\n".to_owned(),
                before => format!("[before]\n{before}[a]\nstonewall\n"),
            };
            ["run", bench.file("job.fio", format!("[global]\nioengine=psync\nfadvise_hint=0\n{before}{text}"))]
        }
    };
    let memory = memory(&theirs, job.call);
    let stack = ["--device", disk.1, "--kernel", kernel, "--scheduler", scheduler, "--trace", "ours.ftrace"];
    let buffers = ["--buffers", &memory];
    let options = [&verb[..], &stack, job.options, if job.call > 0 { &buffers[..] } else { &[] }].concat();
    bench.stdout(&options);
    let mut ours = events(&fs::read_to_string(bench.path("ours.ftrace")).expect("the trace of the run"));
    if !job.before.is_empty() {
        let issued = ours.iter().position(|event| event.starts_with("rq_issue ")).expect("one request before");
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
    let of = |events: &[String], at: usize| events.get(at).map_or("the end".to_owned(), |event| format!("`{event}`"));
    let first = at.map_or_else(String::new, |at| {
        let (kernel, here) = (of(&theirs, at), of(&ours, at));
        format!("{}, {scheduler}: event {at} of {} is {kernel} in the kernel and {here} here", disk.0, theirs.len())
    });
    Compared { kernel, job: job.name, verdict, first }
}

fn compare_all(kernel: &'static str) -> Vec<Compared> {
    let traces = traces(kernel);
    let mut compared = Vec::new();
    for job in &JOBS {
        for disk in DISKS {
            for scheduler in ["none", "mq-deadline"] {
                if let Some(trace) = traces.get(&format!("{}-{scheduler}-{}", disk.0, job.name)) {
                    compared.push(compare(kernel, job, disk, scheduler, trace));
                }
            }
        }
    }
    assert_eq!(compared.len(), traces.len(), "every trace of {kernel} is compared");
    compared
}

fn table(all: &[Compared]) -> String {
    let count = |of: &dyn Fn(&&Compared) -> bool, verdict: Verdict| {
        all.iter().filter(of).filter(|compared| compared.verdict == verdict).count()
    };
    let cell = |of: &dyn Fn(&&Compared) -> bool| {
        let (order, other) = (count(of, Verdict::Order), count(of, Verdict::Different));
        let mut text = format!("{} of {}", count(of, Verdict::Exact), all.iter().filter(of).count());
        if order > 0 {
            let _ = write!(text, ", {order} in another order");
        }
        if other > 0 {
            let _ = write!(text, ", {other} different");
        }
        text
    };
    let mut out = format!("\n| job | {} |\n| --- | --- | --- | --- | --- |\n", KERNELS.join(" | "));
    for job in &JOBS {
        let cells =
            KERNELS.map(|kernel| cell(&|compared: &&Compared| compared.kernel == kernel && compared.job == job.name));
        let _ = writeln!(out, "| `{}` | {} |", job.name, cells.join(" | "));
    }
    let cells = KERNELS.map(|kernel| cell(&|compared: &&Compared| compared.kernel == kernel));
    let _ = writeln!(out, "| all | {} |\n\nNot exact:\n", cells.join(" | "));
    for compared in all.iter().filter(|compared| compared.verdict != Verdict::Exact) {
        let _ = writeln!(out, "- {}, `{}`, {}.", compared.kernel, compared.job, compared.first);
    }
    out.push('\n');
    out
}

#[test]
fn events_are_those_of_four_kernels() {
    let all: Vec<Compared> = thread::scope(|scope| {
        let threads = KERNELS.map(|kernel| scope.spawn(move || compare_all(kernel)));
        threads.into_iter().flat_map(|thread| thread.join().expect("compared")).collect()
    });
    let exact = all.iter().filter(|compared| compared.verdict == Verdict::Exact).count();
    let table = table(&all);
    eprintln!("{exact} of {} traces are exact\n{table}", all.len());
    assert!(exact * 100 >= all.len() * 95, "only {exact} of {} traces are exact", all.len());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/parity.md");
    let text = fs::read_to_string(path).expect("docs/parity.md");
    let (begin, end) = ("<!-- events: made by event_parity -->\n", "<!-- events: end -->\n");
    let (head, rest) = text.split_once(begin).expect("docs/parity.md has the mark of the events");
    let (old, tail) = rest.split_once(end).expect("docs/parity.md has the end of the events");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, [head, begin, &table, end, tail].concat()).expect("docs/parity.md is writable");
    } else {
        assert_eq!(old, table, "docs/parity.md is stale, run with UPDATE_DOCS=1");
    }
}

/// Where one request is in flight at a time, completions have their place in the order, too: those
/// of the steps of flush sequences, with the accounting events and the priority of each.
#[test]
fn every_event_of_flush_sequences_is_the_kernels() {
    let is_compared = |job: &&Job| ["write-dsync", "write-fsync"].contains(&job.name);
    let mut compared = 0;
    for kernel in KERNELS {
        let traces = traces(kernel);
        for job in JOBS.iter().filter(is_compared) {
            for disk in DISKS {
                let bench = Bench::new();
                let text = format!("[global]\nioengine=psync\nfadvise_hint=0\n[a]\n{}", job.text);
                let file = bench.file("job.fio", text);
                let stack = ["run", file, "--device", disk.1, "--kernel", kernel, "--trace", "ours.ftrace"];
                bench.stdout(&[&stack[..], job.options].concat());
                let ours = every_event(&fs::read_to_string(bench.path("ours.ftrace")).expect("the trace of the run"));
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
