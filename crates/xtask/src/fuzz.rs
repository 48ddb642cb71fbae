//! `cargo xtask fuzz`: mutates the inputs of the corpora and checks what comes of them, on stable
//! Rust.
//!
//! Each target has a process of its own, so that an input that overflows the stack, takes all
//! memory or never ends is found as one that panics is. Before a check the process writes its input
//! to a file; if it dies, the file has the input. Inputs follow from the seed alone, but how many
//! of them fit into the time does not.

mod mutation;
mod worker;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use clap::Args;

use crate::targets::{TARGETS, Target, of_name};
pub use worker::{WorkerArgs, work};

/// Memory of the process of a target, in KiB; an input that needs more is a finding.
const MEMORY_KIB: u64 = 4 << 20;
/// Exit status of a process whose input takes too long.
const EXIT_TOO_LONG: i32 = 124;

/// Mutate the inputs in fuzz/corpus, and check what comes of them
///
/// An input for which a property does not hold, that takes too long or that ends the process is
/// written to the corpus of its target, and the exit status is 1. An input that does something new
/// is added to its corpus, a few in each run.
#[derive(Args, Clone, Debug)]
pub struct FuzzArgs {
    /// Time for all targets together, in seconds; with 0 the corpora are checked as they are
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u64,
    /// Seed of the mutations
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Leave the corpora as they are, but for findings
    #[arg(long)]
    no_grow: bool,
    /// Targets; all of them if none is named
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the fuzzer.
///
/// # Errors
/// A target is unknown, an input was found, or a process cannot be started.
pub fn fuzz(args: &FuzzArgs) -> Result<(), String> {
    let find = |name: &String| {
        let all = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
        of_name(name).ok_or_else(|| format!("{name}: no such target; there are {}", all()))
    };
    let targets: Vec<&Target> = match args.targets.as_slice() {
        [] => TARGETS.iter().collect(),
        names => names.iter().map(find).collect::<Result<_, _>>()?,
    };
    let folder = tempfile::tempdir().map_err(|error| format!("cannot create a folder: {error}"))?;
    let workers = thread::available_parallelism().map_or(1, |count| count.get()).min(targets.len());
    let millis = args.seconds.saturating_mul(1000) / targets.len() as u64 * workers as u64;
    let (queue, findings) = (Mutex::new(targets.into_iter()), Mutex::new(0));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no thread panics with the lock").next();
                    let Some(target) = next else { return };
                    match run(target, args, millis, folder.path()) {
                        Ok(line) => println!("{line}"),
                        Err(error) => {
                            eprintln!("{error}");
                            *findings.lock().expect("no thread panics with the lock") += 1;
                        }
                    }
                }
            });
        }
    });
    match findings.into_inner().expect("no thread panics with the lock") {
        0 => Ok(()),
        count => Err(format!("{count} targets have a finding")),
    }
}

/// Runs a target in a process of its own. Returns a line on what it did.
fn run(target: &Target, args: &FuzzArgs, millis: u64, folder: &Path) -> Result<String, String> {
    let fail = |error: std::io::Error| format!("{}: cannot be run: {error}", target.name);
    let input = folder.join(target.name);
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -v {MEMORY_KIB} && exec \"$0\" \"$@\""));
    command.arg(std::env::current_exe().map_err(fail)?).args(["fuzz-worker", target.name]);
    command
        .args(["--millis", &millis.to_string(), "--seed", &args.seed.to_string()])
        .arg("--input")
        .arg(&input);
    command.args(args.no_grow.then_some("--no-grow"));
    let output = command.stdin(Stdio::null()).output().map_err(fail)?;
    if output.status.success() {
        return Ok(format!(
            "{:10} {}",
            target.name,
            String::from_utf8_lossy(&output.stdout).trim_end()
        ));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = match output.status.code() {
        Some(EXIT_TOO_LONG) => "an input takes too long".to_owned(),
        Some(101) => "a property does not hold".to_owned(),
        _ => format!("the process ended with {}", output.status),
    };
    let Some(bytes) = fs::read(&input).ok().and_then(|file| worker::input_of(&file)) else {
        return Err(format!("{}: {why}, without an input:\n{said}", target.name));
    };
    let (found, is_new) = keep(target, &bytes).map_err(fail)?;
    let stays = if is_new {
        "it is in the corpus now, so that a test fails until it is mended"
    } else {
        "as it is there"
    };
    let found = found.strip_prefix(root()).unwrap_or(&found);
    let rerun = format!("cargo xtask fuzz --seconds 0 {}", target.name);
    Err(format!(
        "{}: {why}: {} ({} bytes; {stays}; `{rerun}`):\n{said}",
        target.name,
        found.display(),
        bytes.len()
    ))
}

/// Puts an input into the corpus, unless it is there. Returns its path, and whether it is new.
fn keep(target: &Target, bytes: &[u8]) -> std::io::Result<(PathBuf, bool)> {
    for (path, known) in corpus(target)? {
        if known == bytes {
            return Ok((path, false));
        }
    }
    let path = target.corpus().join(format!("found-{:016x}", hash(bytes)));
    fs::write(&path, bytes)?;
    Ok((path, true))
}

/// Returns the inputs of a corpus, in the order of their names.
fn corpus(target: &Target) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(target.corpus())? {
        paths.push(entry?.path());
    }
    paths.sort();
    paths
        .into_iter()
        .filter(|path| path.is_file())
        .map(|path| Ok((path.clone(), fs::read(path)?)))
        .collect()
}

/// Returns the FNV-1a hash of an input, by which its file is named.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
