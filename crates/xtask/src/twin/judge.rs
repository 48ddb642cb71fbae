//! `cargo xtask twin judge`: runs random jobs in both, compares, and writes a table.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use clap::Args;
use elevon_testkit::replace_between;

use super::both::{Compared, Judged, judge_cases, worst_error};
use super::case::{Area, Case};
use super::figures::{Figure, HOLDS, Kind};
use super::kernels::{DEFAULT_VERSION, built};
use super::{TwinFailure, causes, generate, guest, shrink};

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
    /// Areas: deadline-and-kyber, bfq, limits, cost or cache, each with all seeds
    #[arg(long, value_parser = area)]
    area: Vec<Area>,
    /// All areas, each with all seeds
    #[arg(long, conflicts_with = "area")]
    every_area: bool,
    /// So many of the worst jobs are listed
    #[arg(long, default_value_t = 10, value_name = "N")]
    worst: usize,
    /// Show the block events of both around the first that differs, of the worst jobs
    #[arg(long)]
    events: bool,
    /// Make the worst jobs as small as they can be and still differ
    #[arg(long)]
    shrink: bool,
    /// Write the tables to a page, between its marks for each kernel, with this date
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
        .map_err(|_| String::from("expected deadline-and-kyber, bfq, limits, cost or cache"))
}

/// Judges, prints, and writes what was asked for.
///
/// # Errors
/// A kernel is not built or does not run, or a file cannot be written.
pub fn judge(args: &JudgeArgs) -> Result<(), TwinFailure> {
    let default = vec![DEFAULT_VERSION.to_owned()];
    let kernels = if args.kernel.is_empty() { &default } else { &args.kernel };
    for kernel in kernels {
        built(kernel).map_err(TwinFailure::NotBuilt)?;
    }
    let cases = match &args.cases {
        Some(path) => read_cases(path)?,
        None => generated(args),
    };
    let mut lines = String::new();
    for kernel in kernels {
        let judged = judge_cases(&cases, kernel)?;
        let release = guest::release(kernel)?;
        let table = table(&judged, &release);
        let causes = causes::table(&judged);
        println!("{table}\n{causes}");
        if let (Some(path), Some(date)) = (&args.table, &args.date) {
            let made =
                format!("Linux {release}, {date}, seeds {} to {}.", args.seeds.0, args.seeds.1 - 1);
            write_table(path, kernel, &format!("\n{made}\n\n{table}\n{causes}\n"))?;
        }
        print_worst(&judged, args.worst, args.events);
        for (case, compared) in &judged {
            lines.push_str(&json_line(case, &release, compared));
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
    Ok(())
}

/// Returns the jobs of the seeds: each in the areas that were asked for, else in its own.
fn generated(args: &JudgeArgs) -> Vec<Case> {
    let areas = if args.every_area { &Area::ALL } else { &args.area[..] };
    let seeds = || args.seeds.0..args.seeds.1;
    if areas.is_empty() {
        return seeds().map(|seed| generate::case(seed, None)).collect();
    }
    let of_area = |area: &Area| {
        let area = *area;
        seeds().map(move |seed| generate::case(seed, Some(area)))
    };
    areas.iter().flat_map(of_area).collect()
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

/// Replaces the part of a page that is about a kernel.
fn write_table(path: &PathBuf, kernel: &str, part: &str) -> Result<(), String> {
    let io = |error| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(io)?;
    let (mark, end) = (format!("<!-- Linux {kernel}: made by judge -->\n"), "<!-- end -->");
    if !text.contains(&mark) {
        return Err(format!("{}: there is no line {}", path.display(), mark.trim()));
    }
    fs::write(path, replace_between(&text, &mark, end, part)).map_err(io)
}

/// Returns how many of the figures that would be telling are chance.
fn left_out(figures: &[&Figure]) -> String {
    let chance = figures.iter().filter(|figure| figure.chance).count();
    let all = chance + figures.iter().filter(|figure| figure.telling).count();
    format!("{chance} of {all} ({:.1} %)", 100.0 * chance as f64 / all.max(1) as f64)
}

/// Returns the table of a kernel.
fn table(judged: &[Judged], release: &str) -> String {
    let mut text = format!(
        "| Linux {release} | goal | telling figures held | left out as chance | rates | latencies | counters of the disk \
         | counters of cgroups | all figures held | jobs whose events are in the same order |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for area in Area::ALL {
        let cases: Vec<&Judged> = judged.iter().filter(|(case, _)| case.area == area).collect();
        if cases.is_empty() {
            continue;
        }
        let figures: Vec<&Figure> = cases
            .iter()
            .flat_map(|(_, compared)| compared.iter())
            .flat_map(|c| &c.figures)
            .collect();
        let exact = cases
            .iter()
            .filter(|(_, compared)| {
                compared.as_ref().is_ok_and(|compared| compared.first_difference.is_none())
            })
            .count();
        let share = |which: &dyn Fn(&Figure) -> bool| {
            let of: Vec<_> = figures.iter().filter(|figure| which(figure)).collect();
            let held = of.iter().filter(|figure| figure.holds()).count();
            if of.is_empty() {
                return String::from("-");
            }
            format!("{held} of {} ({:.1} %)", of.len(), 100.0 * held as f64 / of.len() as f64)
        };
        let area_is_traced = cases.iter().any(|(case, _)| case.is_traced());
        let kinds = Kind::ALL.map(|kind| share(&|figure| figure.telling && figure.kind == kind));
        let _ = writeln!(
            text,
            "| {} | {} % | {} | {} | {} | {} | {} |",
            area.name(),
            area.goal(),
            share(&|figure| figure.telling),
            left_out(&figures),
            kinds.join(" | "),
            share(&|_| true),
            if area_is_traced {
                format!("{exact} of {}", cases.len())
            } else {
                format!("- of {}", cases.len())
            }
        );
    }
    text
}

/// Returns the cases that differ, the worst first.
fn worst(judged: &[Judged]) -> Vec<(&Case, &Compared)> {
    let mut all: Vec<(&Case, &Compared)> = judged
        .iter()
        .filter_map(|(case, compared)| Some((case, compared.as_ref().ok()?)))
        .filter(|(_, compared)| worst_error(&compared.figures) > HOLDS)
        .collect();
    all.sort_by(|a, b| worst_error(&b.1.figures).total_cmp(&worst_error(&a.1.figures)));
    all
}

fn print_worst(judged: &[Judged], most: usize, with_events: bool) {
    for (_, compared) in judged {
        if let Err(error) = compared {
            println!("not judged: {error}");
        }
    }
    for (case, compared) in worst(judged).into_iter().take(most) {
        println!("seed {}: {}", case.seed, case.describe());
        match &compared.first_difference {
            Some(first) if with_events => println!("    event {}:\n{}", first.at, first.around),
            Some(first) => {
                println!("    event {} is the first that differs: {}", first.at, first.what);
            }
            None if !case.is_traced() => {}
            None => println!("    the events are in the same order"),
        }
        for figure in compared.figures.iter().filter(|figure| figure.telling && !figure.holds()) {
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

fn json_line(case: &Case, release: &str, compared: &Result<Compared, String>) -> String {
    let figures = match compared {
        Ok(compared) => compared
            .figures
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
