//! The swarm, for as long as one likes: `elevon-swarm --seconds 60 [--seed N]`.
//!
//! Runs seed after seed from `--from` on (default 0) until the time is over or one fails; `--seed N` runs one and prints all
//! its choices. Exit code 0: no violation; 1: a violation, with the seed and every choice it made; 2: bad arguments.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use elevon_sim::swarm::{Plan, check_seed};

struct Options {
    seconds: u64,
    from: u64,
    seed: Option<u64>,
}

fn options() -> Result<Options, String> {
    let mut options = Options { seconds: 60, from: 0, seed: None };
    let mut args = std::env::args().skip(1);
    while let Some(key) = args.next() {
        let mut number = || {
            let value = args.next().unwrap_or_default();
            value.parse::<u64>().map_err(|_| format!("{key} {value}: expected a whole number"))
        };
        match key.as_str() {
            "--seconds" => options.seconds = number()?,
            "--from" => options.from = number()?,
            "--seed" => options.seed = Some(number()?),
            _ => return Err(format!("{key}: unknown; use [--seconds N] [--from SEED] or --seed N")),
        }
    }
    Ok(options)
}

fn run_one(seed: u64) -> Result<(u64, u64), ExitCode> {
    match check_seed(seed) {
        Ok(summary) => Ok((summary.events, summary.faults)),
        Err(violation) => {
            for event in &violation.events {
                println!("    {event:?}");
            }
            println!("{}\nseed {seed}: {}: {}", Plan::new(seed), violation.checker, violation.message);
            println!("replay it with: cargo run --release -p elevon-sim --bin elevon-swarm -- --seed {seed}");
            Err(ExitCode::from(1))
        }
    }
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    if let Some(seed) = options.seed {
        print!("{}", Plan::new(seed));
        return match run_one(seed) {
            Ok((events, faults)) => {
                println!("no violation; {events} events, {faults} faults");
                ExitCode::SUCCESS
            }
            Err(code) => code,
        };
    }
    let started = Instant::now();
    let (mut seed, mut events, mut faults) = (options.from, 0, 0);
    while started.elapsed() < Duration::from_secs(options.seconds) {
        match run_one(seed) {
            Ok((more_events, more_faults)) => (events, faults) = (events + more_events, faults + more_faults),
            Err(code) => return code,
        }
        seed += 1;
    }
    let seeds = seed - options.from;
    println!("no violation in {seeds} seeds from {} on; {events} events, {faults} faults", options.from);
    ExitCode::SUCCESS
}
