//! Cases in both: a guest and Elevon, side by side.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::thread;
use std::time::Duration;

use elevon_host::interrupt::Interrupt;
use elevon_plan::parallel::on_all_cores;

use super::case::{Case, FUNCTIONS};
use super::events::{FirstDifference, TRACEPOINTS, first_difference, of_tracefs};
use super::figures::{Figure, GROUP_COUNTERS, Measured, ProcessFigures, compare};
use super::kernels::built;
use super::{elevon, guest};

/// Cases of one guest, which are lost together if it stops.
const BATCH: usize = 25;
/// How much of a run the order of its events is compared, in percent. The guest's system calls take
/// some time of its clock, so a process ends a few I/Os before Elevon's.
const ORDER_PERCENT: u64 = 98;
/// The most real time of a guest.
const LIMIT: Duration = Duration::from_secs(600);

/// How much later a job begins in the second guest: a figure that this changes is chance.
const LATER_NS: u64 = 1_000;

/// What the two did with a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The figures of both.
    pub figures: Vec<Figure>,
    /// The first block event that differs; `None` if no event does.
    pub first_difference: Option<FirstDifference>,
}

/// A case with what the two did; an error in its place if one of them did not run it.
pub type Judged = (Case, Result<Compared, String>);

/// Runs cases in a kernel and in Elevon, side by side on all CPUs.
///
/// # Errors
/// The kernel is not built, or a guest does not start.
pub fn judge_cases(cases: &[Case], kernel: &str) -> Result<Vec<Judged>, String> {
    built(kernel)?;
    let mut batches = cases.chunks(BATCH);
    let mut judged = Vec::new();
    thread::scope(|scope| {
        let start = |batch: &[Case]| {
            let batch = batch.to_vec();
            scope.spawn(move || {
                let real = in_guest(&batch, kernel, 0)?;
                let later = in_guest(&batch, kernel, LATER_NS)?;
                Ok::<_, String>((batch, real, later))
            })
        };
        let mut next = batches.next().map(start);
        while let Some(guest) = next {
            let (mut batch, real, later) = guest.join().expect("a guest's thread")?;
            // The next guest runs while Elevon does what this one did.
            next = batches.next().map(start);
            for (case, real) in batch.iter_mut().zip(&real) {
                case.tag_hint = real.as_ref().ok().and_then(|real| real.tag_hint);
            }
            let ours = in_elevon(&batch, kernel);
            for (((case, real), later), ours) in batch.into_iter().zip(real).zip(later).zip(ours) {
                let compared =
                    real.and_then(|real| Ok(compare_both(&case, &real, &later?, &ours?)));
                judged.push((case, compared));
            }
        }
        Ok(judged)
    })
}

fn compare_both(
    case: &Case,
    real: &Measured,
    later: &Measured,
    (elevon, plain): &(Measured, Measured),
) -> Compared {
    let compared = case.runtime_ms * 1_000_000 / 100 * ORDER_PERCENT;
    let first_difference = first_difference(&real.events, &elevon.events, compared);
    Compared { figures: compare(case, [real, later, elevon, plain]), first_difference }
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

/// Runs cases in one guest, in which they begin `later_ns` later than usual.
fn in_guest(
    cases: &[Case],
    kernel: &str,
    later_ns: u64,
) -> Result<Vec<Result<Measured, String>>, String> {
    let (_kept, folder) = guest::folder()?;
    let mut script = String::from(FUNCTIONS);
    for name in TRACEPOINTS {
        let _ = writeln!(script, "put 1 $T/events/block/{name}/enable");
    }
    // After the others, so that an issue is traced before its time passes.
    script.push_str("make_issues_slow\n");
    for (index, case) in cases.iter().enumerate() {
        let path = folder.join(format!("load.{index}"));
        fs::write(&path, case.load_file())
            .map_err(|error| format!("{}: {error}", path.display()))?;
        script.push_str(&case.script(index, later_ns));
    }
    let said = guest::run(kernel, &folder, &script, LIMIT)?;
    let mut parts: BTreeMap<usize, &str> = BTreeMap::new();
    for part in said.split("CASE ").skip(1) {
        let (index, rest) = part.split_once('\n').unwrap_or((part, ""));
        parts.extend(index.trim().parse().ok().map(|index: usize| (index, rest)));
    }
    let measured = cases.iter().enumerate().map(|(index, case)| {
        let part = parts.get(&index).copied().unwrap_or_default();
        let mut measured = measured(part, case.processes.len())
            .map_err(|error| format!("case {}: in the guest: {error}", case.seed))?;
        let events = fs::read_to_string(folder.join(format!("events.{index}")));
        measured.events = of_tracefs(&events.unwrap_or_default());
        Ok(measured)
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
            Some(("HINT", rest)) => all.tag_hint = rest.trim().parse().ok(),
            Some(("GROUP", rest)) => all.groups.push(group_counters(rest)),
            _ => return Err(line.to_owned()),
        }
    }
    if all.processes.len() != processes || all.stat.len() < 11 {
        return Err(String::from("it has not printed all figures"));
    }
    Ok(all)
}

/// Reads the counters of a cgroup's `io.stat`, in the order of [`GROUP_COUNTERS`]. A group without
/// I/O has no line.
fn group_counters(line: &str) -> [u64; GROUP_COUNTERS.len()] {
    GROUP_COUNTERS.map(|name| {
        let word = line.split_whitespace().find_map(|word| word.strip_prefix(name));
        word.and_then(|word| word.strip_prefix('=')?.parse().ok()).unwrap_or(0)
    })
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
