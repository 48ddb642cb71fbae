//! A run of a program, or one for each seed.

use std::path::Path;

use elevon_plan::failure::{Ending, Failure, ValueError};
use elevon_plan::files::Files;
use elevon_plan::output::NewFile;
use elevon_result::number::{counted, grouped, length, percent};
use elevon_twin::figures::Figures;
use elevon_twin::files;
use elevon_twin::lab::{self, Outcome};
use elevon_twin::{Settings, Stream};

use super::{cuts, ending, failure, make_absolute, page, pass_on, settings, trace};
use crate::args::TwinRunArgs;
use crate::terminal::{tell, warn};

/// The files that a run writes.
struct Outputs {
    takes: Vec<(String, NewFile)>,
    trace: Option<NewFile>,
    page: Option<NewFile>,
}

pub(super) fn run(args: &TwinRunArgs) -> Result<Ending, Failure> {
    let mut program = args.program.clone();
    make_absolute(&mut program[0])?;
    let outputs = open_outputs(args)?;
    let mut outputs = Some(outputs);
    let seeds = args.seeds.map_or(args.machine.seed..=args.machine.seed, |last| 1..=last);
    let (mut status, mut losses) = (0, 0);
    for seed in seeds {
        let mut settings = settings(&args.machine, program.clone(), seed)?;
        if args.files && !settings.system.tells_places() {
            let expected =
                ValueError::expected("--fs ext4, xfs or f2fs, which say where files lie");
            return Err(Failure::named("--files", expected));
        }
        settings.has_trace = args.trace.is_some();
        settings.has_files = args.files || args.html.is_some() || args.power_cuts.is_some();
        let takes = outputs.iter().flat_map(|outputs| &outputs.takes);
        settings.take = takes.map(|(file, _)| file.clone()).collect();
        let mut output = Vec::new();
        let mut sink = |stream: Stream, bytes: &[u8]| {
            if stream == Stream::Output {
                output.extend_from_slice(bytes);
            }
            pass_on(stream, bytes);
        };
        let outcome = lab::run(&settings, &mut sink).map_err(failure)?;
        report(args, &outcome, args.seeds.map(|_| seed));
        status = outcome.status;
        if let (Some(count), Some(check)) = (args.power_cuts, &args.check) {
            losses += cuts::cut(&settings, &outcome, &output, check, count as usize)?;
        }
        if let Some(outputs) = outputs.take() {
            write(args, &settings, outputs, &outcome)?;
        }
    }
    if losses > 0 {
        return Ok(Ending::Failed);
    }
    ending(status)
}

/// Opens the files that the run writes, each of which is another.
fn open_outputs(args: &TwinRunArgs) -> Result<Outputs, Failure> {
    let mut named = Vec::new();
    for take in &args.take {
        let Some((file, new)) = take.split_once('=').filter(|(file, _)| !file.is_empty()) else {
            let expected = ValueError::expected("FILE=NEW");
            return Err(Failure::named(format!("--take {take}"), expected));
        };
        named.push((file.to_owned(), Path::new(new)));
    }
    let mut files = Files::default();
    for (_, path) in &named {
        files.add_output(format!("--take {}", path.display()), path)?;
    }
    for (option, path) in [("--trace", &args.trace), ("--html", &args.html)] {
        if let Some(path) = path {
            files.add_output(format!("{option} {}", path.display()), path)?;
        }
    }
    let create = |option: &str, path: &Path| NewFile::create(option, path);
    let takes = named.into_iter().map(|(file, path)| Ok((file, create("--take", path)?)));
    let takes = takes.collect::<Result<_, Failure>>()?;
    let trace = args.trace.as_deref().map(|path| create("--trace", path)).transpose()?;
    let page = args.html.as_deref().map(|path| create("--html", path)).transpose()?;
    Ok(Outputs { takes, trace, page })
}

/// Writes the files of a run.
fn write(
    args: &TwinRunArgs,
    settings: &Settings,
    outputs: Outputs,
    outcome: &Outcome,
) -> Result<(), Failure> {
    for ((_, new), bytes) in outputs.takes.into_iter().zip(&outcome.taken) {
        new.commit(bytes)?;
    }
    if let (Some(file), Some(events)) = (outputs.trace, &outcome.trace) {
        file.commit(&trace::text(events, &settings.program))?;
    }
    if let Some(file) = outputs.page {
        file.commit(page::of_run(&args.machine, settings, outcome).html(page::NOTE).as_bytes())?;
    }
    Ok(())
}

/// Tells how long the program took and what its disk did.
fn report(args: &TwinRunArgs, outcome: &Outcome, seed: Option<u64>) {
    let seed = seed.map_or_else(String::new, |seed| format!(" with seed {seed}"));
    tell(&format!(
        "{} of virtual time on {} under kernel {}{seed}, exit status {}",
        length(outcome.duration()),
        args.machine.device,
        args.machine.kernel,
        outcome.status
    ));
    let events = &outcome.history.events()[outcome.phase.first..outcome.phase.last];
    let figures = Figures::of(events);
    for row in figures.rows() {
        tell(&format!(
            "{}: {}, {} bytes; latency mean {}, 99 % up to {}, at most {}",
            row.name,
            grouped(row.count),
            grouped(row.bytes),
            length(row.mean),
            length(row.p99),
            length(row.max)
        ));
    }
    if figures.all().is_some() {
        tell(&format!(
            "the disk was busy for {} % of the time",
            percent(page::share_busy(&figures, outcome), 1)
        ));
    }
    if args.files {
        for row in files::rows(events, &outcome.files) {
            let (path, [reads, writes]) = page::file_cells(&row);
            tell(&format!("{path}: read {reads}, wrote {writes}"));
        }
    }
    for (fault, count) in &outcome.faults {
        tell(&format!("fault {fault}: {}", counted(*count, "time")));
    }
    warn(&warnings(outcome));
}

/// Returns what the user should know of a run.
pub(super) fn warnings(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    if outcome.has_missed_network {
        lines.push(
            "the program looked for a network: there is none here but the loopback, 127.0.0.1"
                .to_owned(),
        );
    }
    if !outcome.is_repeatable {
        lines.push(
            "this machine has no seccomp filters: random numbers differ from run to run".to_owned(),
        );
    }
    lines
}
