//! Reports of runs as pages.

use elevon_report::document::{Document, Table};
use elevon_report::plot::{Axis, Mark, Plot, Scale, Series, Unit};
use elevon_result::number::{bytes_binary, grouped, length, percent};
use elevon_twin::figures::{Ended, Figures, KINDS, Row};
use elevon_twin::files::{self, FileRow};
use elevon_twin::lab::Outcome;
use elevon_twin::{Event, Settings};

use crate::args::TwinMachineArgs;

/// What a page says of where its figures are from.
pub(super) const NOTE: &str = "a real kernel in virtual time on a simulated device";

/// Spans of time that a plot over time has.
const SPANS: u64 = 100;
/// Least ratio of the odds of a point of a curve to those of the point before.
const ODDS_STEP: f64 = 1.02;

/// Returns the steps of the disk while the program ran.
pub(super) fn steps(outcome: &Outcome) -> &[Event] {
    &outcome.history.events()[outcome.phase.first..outcome.phase.last]
}

/// Returns the share of the program's time in which the disk had a command, from 0 to 1.
pub(super) fn share_busy(figures: &Figures, outcome: &Outcome) -> f64 {
    figures.busy().get() as f64 / outcome.duration().get().max(1) as f64
}

/// Returns the page of a run.
pub(super) fn of_run(args: &TwinMachineArgs, settings: &Settings, outcome: &Outcome) -> Document {
    let mut document = Document::new(&settings.program.join(" "));
    let figures = Figures::of(steps(outcome));
    let mut facts = Table { words: vec![1], ..Table::new(["what", ""]) };
    facts.row(["virtual time", &length(outcome.duration())]);
    facts.row(["exit status", &outcome.status.to_string()]);
    facts.row(["disk busy, %", &percent(share_busy(&figures, outcome), 1)]);
    for (name, value) in machine(args) {
        facts.row([name, &value]);
    }
    document.table(facts);
    document.heading("The disk");
    document.table(kinds(&figures));
    document.plot(latencies(KINDS.iter().enumerate().map(|(colour, &(name, is_of))| {
        (name.to_owned(), colour, figures.ended().iter().filter(|of| is_of(of.op)).collect())
    })));
    document.plot(over_time(&figures, outcome));
    if !outcome.files.is_empty() {
        document.heading("Files");
        document.table(files(outcome));
    }
    if !outcome.faults.is_empty() {
        document.heading("Faults");
        let mut table = Table::new(["fault", "times"]);
        for (fault, count) in &outcome.faults {
            table.row([fault, &grouped(*count)]);
        }
        document.table(table);
    }
    document
}

/// Returns the kernel and the disk of a run, in words.
fn machine(args: &TwinMachineArgs) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("kernel", args.kernel.clone()),
        ("device", args.device.clone()),
        ("file system", args.fs.clone()),
        ("seed", args.seed.to_string()),
        ("memory", args.memory.clone()),
    ];
    let lists = [("settings", &args.set), ("faults", &args.fault)];
    let given = lists.into_iter().filter(|(_, list)| !list.is_empty());
    facts.extend(given.map(|(name, list)| (name, list.join(", "))));
    facts
}

/// Returns the figures of each kind of command.
pub(super) fn kinds(figures: &Figures) -> Table {
    let mut table = Table::new(["kind", "commands", "bytes", "mean", "median", "99 %", "longest"]);
    for row in figures.rows().iter().chain(figures.all()) {
        let &Row { name, count, bytes, mean, p50, p99, max } = row;
        let [mean, p50, p99, max] = [mean, p50, p99, max].map(length);
        table.row([name, &grouped(count), &grouped(bytes), &mean, &p50, &p99, &max]);
    }
    table
}

fn files(outcome: &Outcome) -> Table {
    let mut table = Table::new(["file", "read", "written"]);
    for row in files::rows(steps(outcome), &outcome.files) {
        let (path, [reads, writes]) = file_cells(&row);
        table.row([&path, &reads, &writes]);
    }
    table
}

/// Returns the name of a file, what was read of it and what was written, in words.
pub(super) fn file_cells(row: &FileRow) -> (String, [String; 2]) {
    let none = "metadata, the journal and files that are gone";
    let cell = |(commands, bytes): (u64, u64)| match commands {
        0 => "nothing".to_owned(),
        _ => format!("{} in {}", bytes_binary(bytes as f64), grouped(commands)),
    };
    (row.path.clone().unwrap_or_else(|| none.to_owned()), [row.reads, row.writes].map(cell))
}

/// Returns a plot of latencies by percentile. Each curve has a name, a colour and its commands.
pub(super) fn latencies<'a>(curves: impl Iterator<Item = (String, usize, Vec<&'a Ended>)>) -> Plot {
    let axis = |title: &str, unit| Axis { title: title.into(), scale: Scale::Log, unit };
    let series = curves.filter(|(.., ended)| !ended.is_empty()).map(|(name, colour, ended)| {
        let mut times: Vec<u64> = ended.iter().map(|ended| ended.time.get()).collect();
        times.sort_unstable();
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (place, &time) in times.iter().enumerate() {
            let odds = times.len() as f64 / (times.len() - place) as f64;
            if points.last().is_none_or(|last| odds > last.0 * ODDS_STEP) {
                points.push((odds, time as f64));
            }
        }
        Series { name, colour: colour % 8, points, ..Series::default() }
    });
    Plot {
        title: "Latency".into(),
        description: "Time in the device, by percentile.".into(),
        mark: Mark::Step,
        x: axis("percentile", Unit::Odds),
        y: axis("latency", Unit::Nanos),
        series: series.collect(),
    }
}

/// Returns a plot of how many commands ended in each span of the program's time.
fn over_time(figures: &Figures, outcome: &Outcome) -> Plot {
    let span = outcome.duration().get().div_ceil(SPANS).max(1);
    let axis = |title: &str, unit| Axis { title: title.into(), scale: Scale::Linear, unit };
    let series = KINDS.iter().enumerate().map(|(colour, &(name, is_of))| {
        let mut counts = vec![0_u64; SPANS as usize + 1];
        for ended in figures.ended().iter().filter(|ended| is_of(ended.op)) {
            counts[(ended.at.since(outcome.phase.begin).get() / span) as usize] += 1;
        }
        let rate = |count: u64| count as f64 * 1e9 / span as f64;
        let at = |index: usize| index as f64 * span as f64;
        let points = counts.iter().enumerate().map(|(index, &count)| (at(index), rate(count)));
        let points =
            if counts.iter().any(|&count| count > 0) { points.collect() } else { Vec::new() };
        Series { name: name.into(), colour, points, ..Series::default() }
    });
    Plot {
        title: "Over time".into(),
        description: "Commands that ended, a second of virtual time.".into(),
        mark: Mark::Step,
        x: axis("since the start of the program", Unit::Nanos),
        y: axis("commands a second", Unit::Count),
        series: series.filter(|series| !series.points.is_empty()).collect(),
    }
}
