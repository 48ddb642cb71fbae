//! `elevon twin compare`: a program under several kernels, schedulers or devices.

use std::io::Write as _;

use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::{Ending, Failure, InputError, VsError};
use elevon_plan::options::split_words;
use elevon_plan::output::NewFile;
use elevon_plan::parallel::on_all_cores;
use elevon_report::document::{Document, Table};
use elevon_result::number::{grouped, length, percent};
use elevon_twin::figures::Figures;
use elevon_twin::lab::{self, Outcome};
use elevon_twin::{Settings, TwinError};

use super::{failure, make_absolute, page, run, settings};
use crate::args::{TwinCompareArgs, TwinMachineArgs, one_line};
use crate::terminal::{all, emit_text, warn};

/// Name of the first variant.
const BASELINE: &str = "baseline";

/// A variant: its name and how it is run.
struct Variant {
    name: String,
    settings: Settings,
}

/// What a variant gave.
struct Ran {
    outcome: Outcome,
    output: Vec<u8>,
}

pub(super) fn compare(args: &TwinCompareArgs) -> Result<Ending, Failure> {
    let mut program = args.program.clone();
    make_absolute(&mut program[0])?;
    // Every variant is checked before the first runs.
    let variants = variants(args, &program)?;
    let page = args.html.as_deref().map(|path| NewFile::create("--html", path)).transpose()?;
    let mut ran: Vec<Option<Ran>> = variants.iter().map(|_| None).collect();
    let numbers: Vec<usize> = (0..variants.len()).collect();
    let work = |number: usize| {
        let mut output = Vec::new();
        let mut sink = |_, bytes: &[u8]| output.extend_from_slice(bytes);
        let outcome = lab::run(&variants[number].settings, &mut sink);
        let outcome = outcome.map_err(|error| failed(&variants[number].name, error, &output))?;
        Ok(Some(Ran { outcome, output }))
    };
    on_all_cores(&numbers, None, &Interrupt::new(), work, |number, result| {
        ran[number] = Some(result);
        Ok(())
    })?;
    let ran: Vec<Ran> = ran.into_iter().flatten().collect();
    let letters = || ('A'..='Z').cycle();
    for (letter, ran) in letters().zip(&ran) {
        pass_on(letter, &ran.output);
        let lines = run::warnings(&ran.outcome);
        warn(&lines.iter().map(|line| format!("{letter}: {line}")).collect::<Vec<_>>());
    }
    let names: Vec<String> =
        letters().zip(&variants).map(|(letter, of)| format!("{letter}: {}", of.name)).collect();
    let document = report(&program, &names, &ran);
    let page = page.map_or(Ok(()), |file| file.commit(document.html(page::NOTE).as_bytes()));
    all([emit_text(&document.text()), page])?;
    let is_bad = ran.iter().any(|ran| ran.outcome.status != 0);
    Ok(if is_bad { Ending::Failed } else { Ending::Done })
}

/// Returns the variants, the baseline first.
fn variants(args: &TwinCompareArgs, program: &[String]) -> Result<Vec<Variant>, Failure> {
    let variant = |name: &str, machine: &TwinMachineArgs| {
        let settings = settings(machine, program.to_vec(), machine.seed)?;
        lab::check(&settings).map_err(failure)?;
        Ok(Variant { name: name.to_owned(), settings })
    };
    let mut variants = vec![variant(BASELINE, &args.machine)?];
    for vs in &args.vs {
        let in_vs = |failure: Failure| {
            failure.within(|error| InputError::InVariant { vs: vs.clone(), error })
        };
        let words = split_words(vs).map_err(Failure::input)?;
        if words.is_empty() {
            return Err(Failure::input(VsError::Empty(vs.clone())));
        }
        let machine = args
            .machine
            .with(words)
            .map_err(|error| in_vs(Failure::input(InputError::Other(one_line(&error).into()))))?;
        variants.push(variant(vs, &machine).map_err(in_vs)?);
    }
    Ok(variants)
}

/// Returns the failure of a variant, of which it shows what it has said.
fn failed(name: &str, error: TwinError, output: &[u8]) -> Failure {
    let _ = std::io::stderr().write_all(output);
    failure(error).within(|error| InputError::InVariant { vs: name.to_owned(), error })
}

/// Writes what a program has written to the standard error, each line with the letter of its
/// variant.
fn pass_on(letter: char, output: &[u8]) {
    let mut err = std::io::stderr().lock();
    for line in output.split_inclusive(|&byte| byte == b'\n') {
        let end: &[u8] = if line.ends_with(b"\n") { b"" } else { b"\n" };
        // As with any output of the program, a reader that is gone ends nothing.
        let _ = err.write_all(&[format!("{letter}: ").as_bytes(), line, end].concat());
    }
}

/// Returns the comparison.
fn report(program: &[String], names: &[String], ran: &[Ran]) -> Document {
    let mut document = Document::new(&format!("{}, compared", program.join(" ")));
    let header =
        ["variant", "status", "time", "ratio", "commands", "median", "99 %", "longest", "busy %"];
    let mut table = Table::new(header);
    let figures: Vec<Figures> =
        ran.iter().map(|ran| Figures::of(page::steps(&ran.outcome))).collect();
    let first = ran.first().map_or(1, |ran| ran.outcome.duration().get()).max(1) as f64;
    for ((name, ran), figures) in names.iter().zip(ran).zip(&figures) {
        let time = ran.outcome.duration();
        let ratio = format!("{:.2}", time.get() as f64 / first);
        let row = figures.all();
        let latency = |of: fn(&elevon_twin::figures::Row) -> elevon_core::units::Nanos| {
            row.map_or_else(|| "-".to_owned(), |row| length(of(row)))
        };
        table.row([
            name,
            &ran.outcome.status.to_string(),
            &length(time),
            &ratio,
            &grouped(row.map_or(0, |row| row.count)),
            &latency(|row| row.p50),
            &latency(|row| row.p99),
            &latency(|row| row.max),
            &percent(page::share_busy(figures, &ran.outcome), 1),
        ]);
    }
    document.table(table);
    document.plot(page::latencies(names.iter().zip(&figures).enumerate().map(
        |(colour, (name, figures))| (name.clone(), colour, figures.ended().iter().collect()),
    )));
    document
}
