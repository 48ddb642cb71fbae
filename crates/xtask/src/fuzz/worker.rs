//! The process of a target: checks the corpus as it is, then what mutations make of it.
//!
//! What is new is told without coverage by how a check used memory: another path through a parser
//! makes other allocations. Inputs that are new so are mutated further.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use allocation_counter::AllocationInfo;
use clap::Args;
use elevon_testkit::Rng;

use super::mutation::Mutations;
use super::{EXIT_TOO_LONG, corpus, hash};
use crate::targets::{Target, of_name};

/// Time of one input, after which it takes too long, also on a machine that is busy.
const INPUT_TIMEOUT: Duration = Duration::from_secs(30);
/// Inputs that are mutated; no more are kept in memory.
const POOL: usize = 2048;
/// Files that a corpus may have, for inputs to be added to it.
const MOST_FILES: usize = 40;
/// Inputs that a run adds to a corpus, and the longest of them in bytes: an ordinary test checks
/// each with every byte changed.
const MOST_ADDED: usize = 4;
const LONGEST_ADDED: usize = 256;

/// One target, in a process of its own; `cargo xtask fuzz` starts it
#[derive(Args, Clone, Debug)]
pub struct WorkerArgs {
    target: String,
    #[arg(long)]
    millis: u64,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    no_grow: bool,
    /// Where the input that is checked is found if this process dies.
    #[arg(long)]
    input: PathBuf,
}

/// Runs a target, and prints what it did.
///
/// # Errors
/// The corpus cannot be read, or a file cannot be written.
pub fn work(args: &WorkerArgs) -> Result<(), String> {
    let target = of_name(&args.target).ok_or("no such target")?;
    let fail = |error: io::Error| format!("{}: {error}", args.target);
    let known: Vec<Vec<u8>> =
        corpus(target).map_err(fail)?.into_iter().map(|(_, bytes)| bytes).collect();
    let mut run = Run::start(target, args).map_err(fail)?;
    for bytes in &known {
        run.check(bytes).map_err(fail)?;
    }
    let start = Instant::now();
    let mutations = Mutations::from_corpus(&known, target.words);
    // Targets do not share their numbers.
    let mut random = Rng(args.seed ^ hash(target.name.as_bytes()));
    let (mut pool, mut new) = (known.clone(), Vec::new());
    while start.elapsed() < Duration::from_millis(args.millis) {
        let input = mutations.input(&mut random, &pool);
        if run.check(&input).map_err(fail)? {
            if input.len() <= LONGEST_ADDED {
                new.push(input.clone());
            }
            if pool.len() < POOL {
                pool.push(input);
            }
        }
    }
    let room = MOST_FILES.saturating_sub(known.len()).min(MOST_ADDED);
    let added = if args.no_grow { 0 } else { add(target, new, room, &mut random).map_err(fail)? };
    println!("{:8} inputs, {:3} in its corpus, {added} added", run.count, known.len());
    Ok(())
}

/// Adds some of the inputs to a corpus, and returns how many.
fn add(
    target: &Target,
    mut inputs: Vec<Vec<u8>>,
    room: usize,
    random: &mut Rng,
) -> io::Result<usize> {
    let count = room.min(inputs.len());
    for _ in 0..count {
        let input = inputs.swap_remove(random.below(inputs.len() as u64) as usize);
        fs::write(target.corpus().join(format!("grown-{:016x}", hash(&input))), input)?;
    }
    Ok(count)
}

/// Checks of one target.
struct Run {
    check: fn(&[u8]),
    file: File,
    /// Inputs that were begun, which the watch looks at.
    begun: Arc<AtomicU64>,
    count: u64,
    seen: BTreeSet<(u32, u32)>,
}

impl Run {
    fn start(target: &Target, args: &WorkerArgs) -> io::Result<Self> {
        let begun = Arc::new(AtomicU64::new(0));
        watch(Arc::clone(&begun));
        Ok(Self {
            check: target.check,
            file: File::create(&args.input)?,
            begun,
            count: 0,
            seen: BTreeSet::new(),
        })
    }

    /// Checks an input. Returns true if it did something new.
    fn check(&mut self, input: &[u8]) -> io::Result<bool> {
        let framed = [&(input.len() as u64).to_le_bytes(), input].concat();
        self.file.write_all_at(&framed, 0)?;
        self.count += 1;
        self.begun.store(self.count, Ordering::Relaxed);
        let used = allocation_counter::measure(|| (self.check)(input));
        Ok(self.seen.insert(shape(&used)))
    }
}

/// Returns the input of a file that a process has left.
pub(super) fn input_of(file: &[u8]) -> Option<Vec<u8>> {
    let (length, bytes) = file.split_first_chunk()?;
    bytes.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?).map(<[u8]>::to_vec)
}

/// Returns what a check used of memory, coarsely: a loop that went round once more is not new.
fn shape(used: &AllocationInfo) -> (u32, u32) {
    let coarse = |number: u64| match number {
        0..32 => number as u32,
        _ => 32 + number.ilog2() * 2 + u32::from(number & (1 << (number.ilog2() - 1)) != 0),
    };
    (coarse(used.count_total), used.bytes_max.max(1).ilog2())
}

/// Ends the process if an input takes too long.
fn watch(begun: Arc<AtomicU64>) {
    thread::spawn(move || {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            thread::sleep(Duration::from_millis(500));
            let now = begun.load(Ordering::Relaxed);
            if now != last {
                (last, since) = (now, Instant::now());
            } else if now > 0 && since.elapsed() > INPUT_TIMEOUT {
                eprintln!("more than {} s", INPUT_TIMEOUT.as_secs());
                process::exit(EXIT_TOO_LONG);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_leaves_has_its_input() {
        let framed = |length: u64, bytes: &[u8]| [&length.to_le_bytes(), bytes].concat();
        assert_eq!(
            input_of(&framed(3, b"abcdef")).as_deref(),
            Some(&b"abc"[..]),
            "an earlier one was longer"
        );
        assert_eq!(input_of(&framed(0, b"")).as_deref(), Some(&b""[..]));
        assert_eq!((input_of(&framed(4, b"abc")), input_of(b"short")), (None, None));
    }

    #[test]
    fn new_is_what_allocates_otherwise() {
        let used = |count_total, bytes_max| {
            shape(&AllocationInfo { count_total, bytes_max, ..AllocationInfo::default() })
        };
        assert_ne!(used(1, 0), used(2, 0));
        assert_ne!(used(1, 100), used(1, 200));
        assert_eq!(used(1000, 100), used(1001, 101));
        assert_ne!(used(1000, 100), used(1600, 100));
    }
}
