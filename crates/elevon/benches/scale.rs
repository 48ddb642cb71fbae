//! What a process, a tenant, a hardware queue and a cached page cost when there are many of them:
//! instructions of an I/O, and memory of the command, from 1 to 100,000. And whether memory grows
//! with the number of I/Os or with virtual time.
//!
//! `cargo bench -p elevon --bench scale` prints the tables of `docs/evidence/scale.md` in about ten
//! minutes. valgrind counts the instructions; without it they are left out. `-- billion` adds a run
//! of 10^9 I/Os. Run by `cargo test` it only proves that it runs.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

mod used;

use used::used;

/// A dimension, along which there are more and more of one thing.
struct Dimension {
    name: &'static str,
    /// What there is at each size.
    counts: &'static [u64],
    /// Writes the files of a run with so many things, and I/Os in all; returns its arguments.
    run: fn(&Path, u64, u64) -> Vec<String>,
}

const TO_100K: &[u64] = &[1, 10, 100, 1_000, 10_000, 100_000];

const DIMENSIONS: [Dimension; 5] = [
    Dimension {
        name: "process",
        counts: TO_100K,
        run: |folder, count, ios| processes(folder, count, ios, "none"),
    },
    Dimension {
        name: "process, bfq",
        counts: TO_100K,
        run: |folder, count, ios| processes(folder, count, ios, "bfq"),
    },
    Dimension { name: "tenant with a weight, aileron", counts: TO_100K, run: tenants },
    Dimension { name: "hardware queue", counts: &[1, 10, 100, 1_000], run: queues },
    Dimension { name: "cached page", counts: TO_100K, run: pages },
];

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).expect("space");
}

const READS: &str =
    "ioengine=psync\ndirect=1\nrw=randread\nnorandommap=1\nsize=100g\ngroup_reporting=1\n";

fn processes(folder: &Path, count: u64, ios: u64, scheduler: &str) -> Vec<String> {
    write(folder, "job.fio", &format!("[a]\n{READS}numjobs={count}\nnumber_ios={}\n", ios / count));
    words(&format!("job.fio --device null: --scheduler {scheduler}"))
}

fn tenants(folder: &Path, count: u64, ios: u64) -> Vec<String> {
    let mut jobs = format!("[global]\n{READS}number_ios={}\n", ios / count);
    let mut tenants = String::new();
    for at in 0..count {
        write!(jobs, "[j{at}]\ncgroup=t{at}\n").expect("memory");
        write!(tenants, "[tenant.t{at}]\nweight = {}\n", 100 + at % 7).expect("memory");
    }
    write(folder, "job.fio", &jobs);
    write(folder, "tenants.toml", &tenants);
    words("job.fio --device null: --tenants tenants.toml")
}

fn queues(folder: &Path, count: u64, ios: u64) -> Vec<String> {
    write(folder, "job.fio", &format!("[a]\n{READS}numjobs=16\nnumber_ios={}\n", ios / 16));
    words(&format!("job.fio --device null:hw_queues={count} --set cpus={}", count.min(1024)))
}

/// A file of so many pages is read into the cache, and then again and again.
fn pages(folder: &Path, count: u64, ios: u64) -> Vec<String> {
    let bytes = count * 4096;
    let text = format!(
        "[a]\nioengine=psync\nrw=read\nbs=4k\ninvalidate=0\nfilesize={bytes}\nio_size={}\n",
        ios * 4096
    );
    write(folder, "job.fio", &text);
    words("job.fio --device null: --memory 4GiB")
}

fn elevon(arguments: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    command.arg("run").args(arguments).stderr(Stdio::null());
    command
}

/// Returns the instructions of a run; `None` without valgrind.
fn instructions(folder: &Path, arguments: &[String]) -> Option<u64> {
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            env!("CARGO_BIN_EXE_elevon"),
            "run",
        ])
        .args(arguments)
        .current_dir(folder)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    // The line is "==42== Collected : 123456".
    let (_, count) = text.lines().find_map(|line| line.split_once("Collected :"))?;
    count.trim().parse().ok()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let (full, folder) = (has("--bench"), tempfile::tempdir().expect("a folder"));
    let folder = folder.path();
    for dimension in &DIMENSIONS {
        println!("| {} | instructions per I/O | memory, MB | bytes each |", dimension.name);
        println!("|---|---|---|---|");
        let counts = if full { dimension.counts } else { &dimension.counts[..2] };
        let mut alone = 0.0;
        for &count in counts {
            // Long enough for the peak to be seen.
            let ios = count.max(if full { 200_000 } else { 16 });
            let memory = used(&mut elevon(&(dimension.run)(folder, count, ios)), folder).0.memory;
            if count == counts[0] {
                alone = memory;
            }
            // So many more I/Os, whatever the start of the run costs.
            let ios = (2 * count).max(if full { 20_000 } else { 32 });
            let count_of = |ios| instructions(folder, &(dimension.run)(folder, count, ios));
            let per_io = count_of(2 * ios)
                .zip(count_of(ios))
                .map(|(long, short)| long.saturating_sub(short) / ios);
            let per_io =
                per_io.map_or_else(|| "valgrind is missing".to_owned(), |count| count.to_string());
            // Less than the difference between two equal runs tells nothing.
            let each = if memory - alone < 1.0 {
                "-".to_owned()
            } else {
                format!("{:.0}", (memory - alone) * 1e6 / (count - 1) as f64)
            };
            println!("| {count} | {per_io} | {memory:.1} | {each} |");
        }
        println!();
    }
    lengths(folder, full, has("billion"));
}

/// Memory of longer and longer runs.
fn lengths(folder: &Path, full: bool, billion: bool) {
    println!("| run | CPU time, s | memory, MB |");
    println!("|---|---|---|");
    let show = |what: &str, text: &str, options: &str| {
        write(folder, "job.fio", text);
        let used = used(&mut elevon(&words(&format!("job.fio {options}"))), folder).0;
        println!("| {what} | {:.1} | {:.1} |", used.seconds, used.memory);
    };
    let deep = |ios: u64| {
        format!(
            "[a]\nioengine=io_uring\ndirect=1\nrw=randread\nnorandommap=1\niodepth=32\nsize=100g\nio_size={}\n",
            ios * 4096
        )
    };
    let least = if full { 1_000_000 } else { 1_000 };
    for factor in [1, 10, 100] {
        let ios = least * factor;
        show(&format!("{ios} I/Os"), &deep(ios), "--device null: --cpu-cost submit=0,complete=0");
    }
    if billion {
        show(
            "1000000000 I/Os",
            &deep(1_000_000_000),
            "--device null: --cpu-cost submit=0,complete=0",
        );
    }
    let long = |hours: u64| {
        let read =
            "[a]\nioengine=io_uring\ndirect=1\nrw=randrw\niodepth=4\nrate_iops=20\ntime_based\n";
        format!("{read}runtime={hours}h\n")
    };
    for hours in if full { [1, 24] } else { [1, 2] } {
        show(
            &format!("{hours} h of virtual time, 40 I/Os a second"),
            &long(hours),
            "--device hdd-7200",
        );
    }
}
