//! Tests a process that is killed (SIGKILL) while it writes through a cache: what it was told is
//! durable is in the file and, with write-through, everything that it was told is written. What
//! remains after a crash of the machine is tested in `power_cut.rs`; that the kernel is asked for
//! every flush is checked here with strace, if it is installed.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crc32c::crc32c;
use elevon_cache::page_cache::WriteMode;
use elevon_core::account::DiskStats;
use elevon_core::units::{Instant, Nanos};
use elevon_host::Method;
use elevon_workload::run::{NoObserver, Observer, Progress};
use elevon_workload::verify::HEADER_BYTES;

use crate::common::{METHODS, SMALL, config, host, quick_directory, run_job};

/// Writes every block once in random order, repeatedly. Each sector contains the number of its
/// write (counted from 1). Blocks of three sectors share their pages.
const JOB: &str = "[job]\nioengine=psync\nrw=randwrite\nbs=1536\nsize=384k\nloops=100000\nverify=crc32c\nverify_interval=512\n\
                   do_verify=0\nfsync=16\n";
const BLOCKS: u64 = 256;
const FSYNC_EVERY: u64 = 16;

/// Prints how many writes the job was promised: those before the last fsync (it continues with the
/// next write only after the fsync has finished), or all of them with write-through.
struct Tell {
    mode: WriteMode,
    told: u64,
}
impl Observer for Tell {
    fn interval(&self) -> Option<Nanos> {
        Some(Nanos::new(1))
    }
    fn on_interval(&mut self, _: Instant, _: &mut dyn FnMut() -> DiskStats, jobs: &[Progress]) {
        let writes = jobs[0].ios[1];
        let promised = match self.mode {
            WriteMode::Back => writes.saturating_sub(1) / FSYNC_EVERY * FSYNC_EVERY,
            WriteMode::Through => writes,
        };
        if promised > std::mem::replace(&mut self.told, promised) {
            // The reader may have closed the pipe.
            let _ = writeln!(std::io::stdout(), "promised {promised}");
            let _ = std::io::stdout().flush();
        }
    }
}

/// The process that is killed; not a test itself.
#[test]
#[ignore = "run by a_killed_process_loses_nothing_that_it_was_promised"]
fn the_process_that_is_killed() {
    let Ok(arguments) = std::env::var("ELEVON_CRASH") else { return };
    let [method, mode, seed, path] = arguments.splitn(4, ' ').collect::<Vec<_>>()[..] else {
        panic!("{arguments}")
    };
    let method = if method == "IoUring" { Method::IoUring } else { Method::Threads };
    let mode = WriteMode::from_name(mode).expect("a mode");
    let Some(mut host) = host(Path::new(path), method, SMALL) else { return };
    let (limits, size) = (host.file().limits.clone(), host.file().size);
    let job = format!("{JOB}randseed={seed}\n");
    run_job(&job, &limits, size, config(SMALL, mode, true), &mut host, &mut Tell { mode, told: 0 });
}

/// Runs one of the ignored tests of this test program in another process.
fn child(mut command: Command, test: &str) -> Command {
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    command
}

#[test]
fn a_killed_process_loses_nothing_that_it_was_promised() {
    let directory = quick_directory();
    let path = directory.path().join("file");
    let modes = [WriteMode::Back, WriteMode::Through];
    let rounds = METHODS.into_iter().flat_map(|method| modes.map(|mode| (method, mode)));
    for (round, (method, mode)) in rounds.enumerate() {
        // The moments are spread over the first loops, and differ between rounds.
        for seed in 0..4_u64 {
            if host(&path, method, SMALL).is_none() {
                continue;
            }
            let lines = 1
                + (round as u64 * 4 + seed) * 7919 % if mode == WriteMode::Back { 40 } else { 500 };
            let about = format!("{method:?} {} {seed}", mode.name());
            let promised = kill_after(lines, &format!("{about} {}", path.display()));
            check(&std::fs::read(&path).expect("the file"), promised, &about);
            std::fs::remove_file(&path).expect("ours");
        }
    }
}

/// Kills the process after it has printed `lines` lines. Returns the number of writes that it had
/// been promised.
fn kill_after(lines: u64, arguments: &str) -> u64 {
    let mut child = child(
        Command::new(std::env::current_exe().expect("this test")),
        "killed::the_process_that_is_killed",
    )
    .env("ELEVON_CRASH", arguments)
    .stdout(Stdio::piped())
    .spawn()
    .expect("this test runs");
    let told = BufReader::new(child.stdout.take().expect("a pipe"));
    let (mut promised, mut seen) = (0, 0);
    // Lines that it prints before it is dead also count.
    for line in told.lines() {
        // The test harness writes into the first line.
        let Some((_, number)) = line.as_deref().ok().and_then(|line| line.split_once("promised "))
        else {
            continue;
        };
        // The last line may be incomplete.
        promised = number.parse().unwrap_or(promised).max(promised);
        seen += 1;
        if seen == lines {
            child.kill().expect("it runs");
        }
    }
    child.wait().expect("it is over");
    assert!(seen >= lines, "{arguments}: it ended by itself after {seen} lines");
    promised
}

/// Each loop writes every block once, so each promised write is in the file, or has been replaced
/// by a block of a later loop. No block is older than the last loop that was promised completely,
/// and no sector is torn.
fn check(bytes: &[u8], promised: u64, about: &str) {
    let whole_loops = promised / BLOCKS;
    let mut found = [const { BTreeSet::new() }; 3];
    let mut later = [0; 3];
    for (sector, bytes) in bytes.chunks(512).take(BLOCKS as usize * 3).enumerate() {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let number = u64::from(word(16));
        if number == 0 && whole_loops == 0 {
            continue;
        }
        assert_eq!(word(8), sector as u32 * 512, "{about}: sector {sector} says where it belongs");
        assert_eq!(word(20), crc32c(&bytes[HEADER_BYTES..]), "{about}: sector {sector} is whole");
        let least = (whole_loops * BLOCKS).saturating_sub(BLOCKS);
        assert!(
            number > least,
            "{about}: sector {sector} is of write {number}, {promised} were promised"
        );
        later[sector % 3] += u64::from(number > (whole_loops + 1) * BLOCKS);
        assert!(found[sector % 3].insert(number), "{about}: write {number} is in two places");
    }
    for (found, later) in found.iter().zip(later) {
        let missing = (whole_loops * BLOCKS + 1..=promised)
            .filter(|number| !found.contains(number))
            .count() as u64;
        assert!(
            missing <= later,
            "{about}: {missing} of {promised} writes that were promised are not there"
        );
    }
}

/// The process that strace observes; not a test itself.
#[test]
#[ignore = "run by the_kernel_is_asked_for_every_flush"]
fn the_process_that_is_traced() {
    let Ok(arguments) = std::env::var("ELEVON_TRACED") else { return };
    let (job, path) = arguments.split_once(' ').expect("a job, and a path");
    let mut host = host(Path::new(path), Method::Threads, SMALL).expect("threads are always there");
    let (limits, size) = (host.file().limits.clone(), host.file().size);
    let job =
        format!("[a]\nrw=randwrite\nbs=4k\nsize=4m\nio_size=400k\n{}\n", job.replace(',', "\n"));
    let mode = WriteMode::Back;
    let (outcome, _) =
        run_job(&job, &limits, size, config(SMALL, mode, true), &mut host, &mut NoObserver);
    println!("flushes {}", outcome.disk_end.flushes);
}

/// Returns strace if it is installed and may trace. This is checked separately from the job,
/// because strace ends with the exit status of its child.
fn strace() -> Option<Command> {
    let probe = elevon_testkit::tool("strace")?
        .args(["-qq", "-o", "/dev/null", "true"])
        .output()
        .expect("strace starts");
    if !probe.status.success() {
        elevon_testkit::denied(&format!(
            "strace may not trace here: {}",
            String::from_utf8_lossy(&probe.stderr).trim()
        ));
        return None;
    }
    elevon_testkit::tool("strace")
}

#[test]
fn the_kernel_is_asked_for_every_flush() {
    let directory = quick_directory();
    let (path, log) = (directory.path().join("file"), directory.path().join("log"));
    // There are 100 writes. The last flush is at the end of the run.
    for (job, flushes) in [
        ("ioengine=psync,fsync=10", 10),
        ("ioengine=psync,sync=dsync", 101),
        ("ioengine=mmap,fsync=25,end_fsync=1", 5),
    ] {
        let Some(mut strace) = strace() else { return };
        strace.args(["-f", "-qq", "-e", "trace=fdatasync,fsync,pwritev2", "-o"]).arg(&log);
        strace.arg(std::env::current_exe().expect("this test"));
        let output = child(strace, "killed::the_process_that_is_traced")
            .env("ELEVON_TRACED", format!("{job} {}", path.display()))
            .output()
            .expect("strace starts");
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{job}: the traced job ended with {}: {complaints}",
            output.status
        );
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(told.contains(&format!("flushes {flushes}\n")), "{job}: {told}");
        let log = std::fs::read_to_string(&log).expect("strace's log");
        let is_call = |line: &&str| line.contains("fdatasync(") || line.contains("fsync(");
        assert_eq!(log.lines().filter(is_call).count(), flushes, "{job}");
        // All pages had been passed to the kernel before the last flush.
        let last = log.lines().collect::<Vec<_>>().iter().rposition(is_call).expect("one");
        let writes = log.lines().enumerate().filter(|(_, line)| line.contains("pwritev2("));
        assert!(writes.map(|(at, _)| at).max().is_some_and(|at| at < last), "{job}");
    }
}
