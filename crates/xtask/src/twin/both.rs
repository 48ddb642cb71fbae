//! Cases in both: a guest and Elevon, side by side.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use elevon_host::interrupt::Interrupt;
use elevon_plan::parallel::on_all_cores;

use super::case::{Case, FUNCTIONS};
use super::figures::{Figure, Measured, ProcessFigures, compare};
use super::kernels::built;
use super::{elevon, guest};

/// Cases of one guest, which are lost together if it stops.
const BATCH: usize = 100;
/// The most real time of a guest.
const LIMIT: Duration = Duration::from_secs(600);

/// A case with its figures; an error in their place if one of the two did not run it.
pub type Judged = (Case, Result<Vec<Figure>, String>);

/// Runs cases in a kernel and in Elevon, side by side on all CPUs.
///
/// # Errors
/// The kernel is not built, or a guest does not start.
pub fn judge_cases(cases: &[Case], kernel: &str) -> Result<Vec<Judged>, String> {
    if !built().iter().any(|version| version == kernel) {
        return Err(format!(
            "Linux {kernel} is not built: cargo xtask twin build --kernel {kernel}"
        ));
    }
    let mut judged = Vec::new();
    for batch in cases.chunks(BATCH) {
        let (real, ours) = thread::scope(|scope| {
            let real = scope.spawn(|| in_guest(batch, kernel));
            let ours = in_elevon(batch, kernel);
            (real.join().expect("a guest's thread"), ours)
        });
        for ((case, real), ours) in batch.iter().zip(real?).zip(ours) {
            let figures = real.and_then(|real| {
                let (elevon, plain) = ours?;
                Ok(compare(case, &real, &elevon, &plain))
            });
            judged.push((case.clone(), figures));
        }
    }
    Ok(judged)
}

/// A case in Elevon, as it is and without what decides.
type Ours = Result<(Measured, Measured), String>;

fn in_elevon(cases: &[Case], kernel: &str) -> Vec<Ours> {
    let mut done: BTreeMap<usize, Ours> = BTreeMap::new();
    let indexes: Vec<usize> = (0..cases.len()).collect();
    let work = |index: usize| {
        let case = &cases[index];
        let own = elevon::run(case, kernel);
        Ok(Some(own.and_then(|own| Ok((own, elevon::run_plain(case, kernel)?)))))
    };
    let took = |index, ours| {
        done.insert(index, ours);
        Ok(())
    };
    on_all_cores(&indexes, None, &Interrupt::new(), work, took).expect("an error is a result");
    done.into_values().collect()
}

/// Runs cases in one guest.
fn in_guest(cases: &[Case], kernel: &str) -> Result<Vec<Result<Measured, String>>, String> {
    let (_kept, folder) = guest::folder()?;
    let mut script = String::from(FUNCTIONS);
    for (index, case) in cases.iter().enumerate() {
        let path = folder.join(format!("load.{index}"));
        fs::write(&path, case.load_file())
            .map_err(|error| format!("{}: {error}", path.display()))?;
        script.push_str(&case.script(index));
    }
    let said = guest::run(kernel, &folder, &script, LIMIT)?;
    let mut parts: BTreeMap<usize, &str> = BTreeMap::new();
    for part in said.split("CASE ").skip(1) {
        let (index, rest) = part.split_once('\n').unwrap_or((part, ""));
        parts.extend(index.trim().parse().ok().map(|index: usize| (index, rest)));
    }
    let measured = cases.iter().enumerate().map(|(index, case)| {
        let part = parts.get(&index).copied().unwrap_or_default();
        measured(part, case.processes.len())
            .map_err(|error| format!("case {}: in the guest: {error}", case.seed))
    });
    Ok(measured.collect())
}

/// Reads what the guest printed for a case of so many processes.
fn measured(text: &str, processes: usize) -> Result<Measured, String> {
    let mut all = Measured::default();
    let mut before: Vec<u64> = Vec::new();
    let numbers = |rest: &str| -> Vec<u64> {
        rest.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    for line in text.lines() {
        match line.split_once(' ') {
            Some(("P", rest)) => all.processes.push(process_figures(rest)?),
            Some(("BEFORE", rest)) => before = numbers(rest),
            Some(("AFTER", rest)) => {
                let after = numbers(rest).into_iter();
                all.stat = after.zip(&before).map(|(a, b)| a.saturating_sub(*b)).collect();
            }
            _ => return Err(line.to_owned()),
        }
    }
    if all.processes.len() != processes || all.stat.len() < 11 {
        return Err(String::from("it has not printed all figures"));
    }
    Ok(all)
}

fn process_figures(line: &str) -> Result<ProcessFigures, String> {
    let value = |key: &str| {
        let word = line.split_whitespace().find_map(|word| word.strip_prefix(key));
        let number =
            word.and_then(|word| word.strip_prefix('=')).and_then(|word| word.parse().ok());
        number.ok_or_else(|| format!("no {key} in: {line}"))
    };
    if value("errors")? > 0 {
        return Err(format!("I/O errors: {line}"));
    }
    Ok(ProcessFigures { ios: value("ios")?, p50: value("p50")?, p99: value("p99")? })
}

/// Returns the largest error of the telling figures of a case.
pub fn worst_error(figures: &[Figure]) -> f64 {
    let errors = figures.iter().filter(|figure| figure.telling).map(|figure| figure.error);
    errors.fold(0.0, f64::max)
}
