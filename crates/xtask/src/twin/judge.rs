//! `cargo xtask twin judge`: runs random jobs in both, compares, and writes a table.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use clap::Args;

use super::both::{Judged, judge_cases, worst_error};
use super::case::{Area, Case};
use super::figures::{Figure, HOLDS, Kind};
use super::kernels::DEFAULT_VERSION;
use super::{generate, guest, shrink};

/// Run random jobs in a real Linux and in Elevon, and compare
///
/// Prints a table of the telling figures that agree within 10 %: those that Elevon misses without
/// the scheduler and the tenants. `cargo xtask twin build` builds the kernels.
#[derive(Args, Clone, Debug)]
pub struct JudgeArgs {
    /// Seeds of the jobs, FIRST..END
    #[arg(long, value_name = "A..B", default_value = "0..50", value_parser = seeds)]
    seeds: (u64, u64),
    /// Kernels by version [default: 7.3]
    #[arg(long, value_name = "VERSION")]
    kernel: Vec<String>,
    /// One area only: mq-deadline-and-kyber, bfq, limits or cost
    #[arg(long, value_parser = area)]
    area: Option<Area>,
    /// So many of the worst jobs are listed
    #[arg(long, default_value_t = 10, value_name = "N")]
    worst: usize,
    /// Make the worst jobs as small as they can be and still differ
    #[arg(long)]
    shrink: bool,
    /// Write the table to a file, with this date
    #[arg(long, value_name = "FILE", requires = "date")]
    table: Option<PathBuf>,
    /// The date of the table
    #[arg(long)]
    date: Option<String>,
    /// Write every job with its figures to a file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run the jobs of a file instead, one JSON object a line
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,
}

fn seeds(text: &str) -> Result<(u64, u64), String> {
    let expected = || String::from("expected two numbers, such as 0..50");
    let (first, end) = text.split_once("..").ok_or_else(expected)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| expected());
    let (first, end) = (number(first)?, number(end)?);
    if first < end { Ok((first, end)) } else { Err(expected()) }
}

fn area(text: &str) -> Result<Area, String> {
    serde_json::from_value(serde_json::Value::from(text))
        .map_err(|_| String::from("expected deadline-and-kyber, bfq, limits or cost"))
}

/// Judges, prints, and writes what was asked for.
///
/// # Errors
/// A kernel is not built or does not run, or a file cannot be written.
pub fn judge(args: &JudgeArgs) -> Result<(), String> {
    let default = vec![DEFAULT_VERSION.to_owned()];
    let kernels = if args.kernel.is_empty() { &default } else { &args.kernel };
    let cases = match &args.cases {
        Some(path) => read_cases(path)?,
        None => (args.seeds.0..args.seeds.1).map(|seed| generate::case(seed, args.area)).collect(),
    };
    let mut tables = String::new();
    let mut lines = String::new();
    for kernel in kernels {
        let judged = judge_cases(&cases, kernel)?;
        let release = guest::release(kernel)?;
        let table = table(&judged, &release);
        println!("{table}");
        tables.push_str(&table);
        print_worst(&judged, args.worst);
        for (case, figures) in &judged {
            lines.push_str(&json_line(case, &release, figures));
        }
        if args.shrink {
            for (case, _) in worst(&judged).into_iter().take(args.worst) {
                shrink::shrink(case, kernel)?;
            }
        }
    }
    if let Some(path) = &args.json {
        fs::write(path, lines).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let (Some(path), Some(date)) = (&args.table, &args.date) {
        let (first, end) = args.seeds;
        let text = format!(
            "Made on {date} by `cargo xtask twin judge --seeds {first}..{end}`.\n\n{tables}"
        );
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn read_cases(path: &PathBuf) -> Result<Vec<Case>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let parsed = text.lines().filter(|line| !line.is_empty()).enumerate().map(|(index, line)| {
        let value: serde_json::Value = serde_json::from_str(line)
            .map_err(|error| format!("{}:{}: {error}", path.display(), index + 1))?;
        let case = value.get("case").cloned().unwrap_or(value);
        serde_json::from_value(case)
            .map_err(|error| format!("{}:{}: {error}", path.display(), index + 1))
    });
    parsed.collect()
}

/// Returns the table of a kernel.
fn table(judged: &[Judged], release: &str) -> String {
    let mut text = format!(
        "| Linux {release} | goal | telling figures held | rates | latencies | counters of the disk \
         | all figures held | jobs |\n|---|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for area in Area::ALL {
        let cases: Vec<&Judged> = judged.iter().filter(|(case, _)| case.area == area).collect();
        if cases.is_empty() {
            continue;
        }
        let figures: Vec<&Figure> =
            cases.iter().flat_map(|(_, figures)| figures.iter().flatten()).collect();
        let share = |which: &dyn Fn(&Figure) -> bool| {
            let of: Vec<_> = figures.iter().filter(|figure| which(figure)).collect();
            let held = of.iter().filter(|figure| figure.holds()).count();
            if of.is_empty() {
                return String::from("-");
            }
            format!("{held} of {} ({:.1} %)", of.len(), 100.0 * held as f64 / of.len() as f64)
        };
        let kinds = Kind::ALL.map(|kind| share(&|figure| figure.telling && figure.kind == kind));
        let _ = writeln!(
            text,
            "| {} | {} % | {} | {} | {} | {} |",
            area.name(),
            area.goal(),
            share(&|figure| figure.telling),
            kinds.join(" | "),
            share(&|_| true),
            cases.len()
        );
    }
    text
}

/// Returns the cases that differ, the worst first.
fn worst(judged: &[Judged]) -> Vec<(&Case, &[Figure])> {
    let mut all: Vec<(&Case, &[Figure])> = judged
        .iter()
        .filter_map(|(case, figures)| Some((case, figures.as_deref().ok()?)))
        .filter(|(_, figures)| worst_error(figures) > HOLDS)
        .collect();
    all.sort_by(|a, b| worst_error(b.1).total_cmp(&worst_error(a.1)));
    all
}

fn print_worst(judged: &[Judged], most: usize) {
    for (_, figures) in judged {
        if let Err(error) = figures {
            println!("not judged: {error}");
        }
    }
    for (case, figures) in worst(judged).into_iter().take(most) {
        println!("seed {}: {}", case.seed, case.describe());
        for figure in figures.iter().filter(|figure| figure.telling && !figure.holds()) {
            println!(
                "    {}: kernel {}, Elevon {} ({:.0} %)",
                figure.name,
                figure.kernel,
                figure.elevon,
                100.0 * figure.error
            );
        }
    }
}

fn json_line(case: &Case, release: &str, figures: &Result<Vec<Figure>, String>) -> String {
    let figures = match figures {
        Ok(figures) => figures
            .iter()
            .map(|figure| {
                serde_json::json!({
                    "name": figure.name,
                    "kernel": figure.kernel,
                    "elevon": figure.elevon,
                    "telling": figure.telling,
                })
            })
            .collect(),
        Err(error) => serde_json::json!({ "error": error }),
    };
    format!("{}\n", serde_json::json!({ "kernel": release, "case": case, "figures": figures }))
}
