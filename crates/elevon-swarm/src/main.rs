//! Runs the swarm on all CPUs: each random seed of a range is one run with all checkers.
//!
//! What is printed to stdout depends only on the seeds, never on threads or time; progress goes to
//! stderr.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{ArgGroup, Parser};
use elevon_swarm::{Plan, Summary, Violation, check_plan, run_plan};

const AFTER: &str = "\
Each random seed draws a device with faults, limits, a kernel version, a scheduler, tenants, a page
cache and jobs, runs them in virtual time, and holds the run against some thirty checkers. The same
seed gives the same run, which is itself checked by running every seed twice.

Examples:
  elevon-swarm --seconds 600               look for a failure, ten minutes long, on every core
  elevon-swarm --to 20000 --keep-going     seeds 0 to 19999; lists every failure by its kind
  elevon-swarm --seed 335                  one seed with all its choices, and its last events if it fails
  elevon-swarm --count 50 --hashes         what each of the seeds 0 to 49 did, as a hash to compare

Exit code: 0 if nothing was violated, 1 if something was, 2 for bad arguments.";

/// Runs random seeds of the swarm and reports those that break something that must hold.
#[derive(Parser, Debug)]
#[command(name = "elevon-swarm", version, after_help = AFTER)]
#[command(group = ArgGroup::new("end").args(["count", "to"]))]
struct Options {
    /// Runs this random seed alone and prints every choice that it made.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["from", "end", "seconds", "jobs", "keep_going", "hashes"])]
    seed: Option<u64>,
    /// With --seed: how many events before a failure to print.
    #[arg(long, value_name = "N", requires = "seed", default_value_t = 40)]
    events: usize,
    /// First random seed.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// How many random seeds.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The random seed to stop before: `--from 100 --to 200` runs 100 to 199.
    #[arg(long, value_name = "SEED")]
    to: Option<u64>,
    /// Begins no further seed after so many seconds [default: 60 if neither --count nor --to is
    /// given].
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// Threads; a seed runs on one [default: one for each CPU].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// Goes on after a failure, and ends with a list of all by kind.
    #[arg(long)]
    keep_going: bool,
    /// Runs each seed once instead of twice: nearly twice the seeds, without the check that both
    /// runs are the same.
    #[arg(long)]
    once: bool,
    /// Prints the hash of each seed's events and completions, one a line.
    #[arg(long)]
    hashes: bool,
}

/// The range of random seeds has none in it.
#[derive(Debug, thiserror::Error)]
#[error("--to {to}: expected a seed after --from {from}")]
struct EmptyRange {
    from: u64,
    to: u64,
}

impl Options {
    /// Returns the seed to stop before.
    fn end(&self) -> Result<u64, EmptyRange> {
        let end =
            self.to.unwrap_or(self.count.map_or(u64::MAX, |count| self.from.saturating_add(count)));
        if end <= self.from {
            return Err(EmptyRange { from: self.from, to: end });
        }
        Ok(end)
    }

    fn seconds(&self) -> Option<u64> {
        let is_endless = self.to.is_none() && self.count.is_none();
        self.seconds.or(is_endless.then_some(60))
    }

    fn check(&self, seed: u64) -> Result<Summary, Violation> {
        let plan = Plan { events_shown: self.events, ..Plan::new(seed) };
        if self.once { run_plan(&plan) } else { check_plan(&plan) }
    }
}

/// State that all threads share.
struct Swarm<'a> {
    options: &'a Options,
    started: Instant,
    /// The next seed to run.
    next: AtomicU64,
    /// The seed to stop before. A failure lowers it, unless the run goes on after failures.
    end: AtomicU64,
    done: AtomicU64,
    results: Mutex<BTreeMap<u64, Result<Summary, Violation>>>,
}

impl Swarm<'_> {
    fn is_finished(&self) -> bool {
        self.options
            .seconds()
            .is_some_and(|seconds| self.started.elapsed() >= Duration::from_secs(seconds))
    }

    /// Runs seeds until none is left. Seeds are taken in order and each is run to its end. So the
    /// seeds run form a range without gaps, and the first failure does not depend on the threads.
    fn work(&self) {
        while !self.is_finished() {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.end.load(Ordering::Relaxed) {
                return;
            }
            let result = self.options.check(seed);
            if let Err(violation) = &result {
                tell(&format!("seed {seed}: {}\n", violation.checker));
                if !self.options.keep_going {
                    self.end.fetch_min(seed + 1, Ordering::Relaxed);
                }
            }
            self.done.fetch_add(1, Ordering::Relaxed);
            self.results.lock().expect("no thread panics with the lock").insert(seed, result);
        }
    }

    fn rate(&self) -> f64 {
        self.done.load(Ordering::Relaxed) as f64 / self.started.elapsed().as_secs_f64().max(1e-9)
    }

    /// Writes progress to stderr until `is_finished`: every second on a terminal, otherwise every
    /// ten.
    fn show_progress(&self, is_finished: impl Fn() -> bool) {
        let is_terminal = std::io::stderr().is_terminal();
        let every = Duration::from_secs(if is_terminal { 1 } else { 10 });
        let mut last = Instant::now();
        while !is_finished() {
            std::thread::sleep(Duration::from_millis(20));
            if last.elapsed() >= every {
                last = Instant::now();
                let done = self.done.load(Ordering::Relaxed);
                let (start, end) = if is_terminal { ("\r\x1b[K", "") } else { ("", "\n") };
                let (from, rate) = (self.options.from, self.rate());
                tell(&format!("{start}{done} seeds from {from} on, {rate:.1} a second{end}"));
            }
        }
        if is_terminal {
            tell("\r\x1b[K");
        }
    }
}

/// Writes to stderr. A text that cannot be written is lost: there is no other place for it.
fn tell(text: &str) {
    let _ = write!(io::stderr(), "{text}");
}

fn print_violation(out: &mut impl Write, seed: u64, violation: &Violation) -> io::Result<()> {
    for event in &violation.events {
        writeln!(out, "    {event:?}")?;
    }
    writeln!(
        out,
        "{}\nseed {seed}: {}: {}",
        Plan::new(seed),
        violation.checker,
        violation.message
    )?;
    writeln!(out, "replay it with: cargo run --release -p elevon-swarm -- --seed {seed}")
}

/// Returns the first line of a message, cut to 160 characters.
fn short(message: &str) -> String {
    let line = message.lines().next().unwrap_or("");
    if line.chars().count() <= 160 {
        line.to_owned()
    } else {
        line.chars().take(157).chain("...".chars()).collect()
    }
}

/// Runs one seed and prints its choices and what it did. Returns whether nothing was violated, and
/// whether all could be printed.
fn run_one(options: &Options, seed: u64) -> (bool, io::Result<()>) {
    let mut out = io::stdout().lock();
    let head = write!(out, "{}", Plan::new(seed));
    let result = options.check(seed);
    let printed = head.and_then(|()| match &result {
        Ok(Summary { hash, events, faults, .. }) => {
            writeln!(out, "no violation; {events} events, {faults} faults, hash {hash:016x}")
        }
        Err(violation) => print_violation(&mut out, seed, violation),
    });
    (result.is_ok(), printed)
}

/// Prints the results of the seeds before `end`, in their order.
fn report(
    out: &mut impl Write,
    options: &Options,
    results: &BTreeMap<u64, Result<Summary, Violation>>,
) -> io::Result<()> {
    if options.hashes {
        for (seed, result) in results {
            match result {
                Ok(summary) => writeln!(out, "{seed} {:016x}", summary.hash)?,
                Err(violation) => writeln!(out, "{seed} {}", violation.checker)?,
            }
        }
    }
    let failed: Vec<_> =
        results.iter().filter_map(|(seed, result)| Some((*seed, result.as_ref().err()?))).collect();
    let fine = results.values().flatten();
    let (events, faults) =
        fine.fold((0, 0), |(events, faults), s| (events + s.events, faults + s.faults));
    let from = options.from;
    let seeds = format!("{} seeds from {from} on; {events} events, {faults} faults", results.len());
    let Some(&(first, violation)) = failed.first() else {
        return writeln!(out, "no violation in {seeds}");
    };
    if !options.keep_going {
        return print_violation(out, first, violation);
    }
    let mut kinds: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for &(seed, violation) in &failed {
        writeln!(out, "seed {seed}: {}: {}", violation.checker, short(&violation.message))?;
        kinds.entry(violation.checker).or_default().push(seed);
    }
    for (kind, seeds) in kinds {
        let list: Vec<String> = seeds.iter().map(u64::to_string).collect();
        writeln!(out, "{kind}: {} ({})", seeds.len(), list.join(", "))?;
    }
    writeln!(out, "{} of {seeds}: failed", failed.len())
}

/// Returns the exit code of a run. A reader that closes stdout early changes nothing about it.
fn exit_code(is_fine: bool, printed: io::Result<()>) -> ExitCode {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            tell(&format!("error: cannot write to stdout: {error}\n"));
            ExitCode::FAILURE
        }
        Ok(()) | Err(_) if is_fine => ExitCode::SUCCESS,
        Ok(()) | Err(_) => ExitCode::FAILURE,
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(seed) = options.seed {
        let (is_fine, printed) = run_one(&options, seed);
        return exit_code(is_fine, printed);
    }
    let end = match options.end() {
        Ok(end) => end,
        Err(error) => {
            tell(&format!("error: {error}\n"));
            return ExitCode::from(2);
        }
    };
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
    let jobs = options.jobs.unwrap_or(cpus);
    let swarm = Swarm {
        options: &options,
        started: Instant::now(),
        next: AtomicU64::new(options.from),
        end: AtomicU64::new(end),
        done: AtomicU64::new(0),
        results: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(|| swarm.work())).collect();
        swarm.show_progress(|| threads.iter().all(std::thread::ScopedJoinHandle::is_finished));
    });
    tell(&format!("{:.1} seeds a second with --jobs {jobs}\n", swarm.rate()));
    let mut results = swarm.results.into_inner().expect("no thread panics with the lock");
    // Whether seeds after the first failure were run depends on the threads.
    results.retain(|seed, _| *seed < swarm.end.load(Ordering::Relaxed));
    let mut out = io::BufWriter::new(io::stdout().lock());
    let printed = report(&mut out, &options, &results).and_then(|()| out.flush());
    exit_code(results.values().all(Result::is_ok), printed)
}
