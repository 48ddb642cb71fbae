//! Proposal 000: I/O priority by the activity of the pages in a bio, in the four published cases.
//!
//! In each case one figure of the mainline column is fitted, if the case has such a figure. The
//! effects of the forms of activity and of the two controls are predicted.

mod cases;
mod findings;
mod sweep;

use elevon_report::document::{Document, Table};
use elevon_report::plot::{self, Axis, Mark, Plot, Series, Unit};
use elevon_report::text::Figure;

use crate::failure::Failure;
use crate::reproduce::conclusions::{conclude, percent_off, range};
use crate::reproduce::lab::Lab;
use crate::reproduce::parameters::Parameters;
use cases::{Scale, dd_seconds};
use findings::{Benchmarks, Faults, Launches, Reads};
use sweep::{SweepRow, deviation, mean, table};

const PARAMETERS: &str = include_str!("../../../../experiments/content-ioprio/parameters.toml");

pub(super) fn report(lab: &Lab) -> Result<Document, Failure> {
    let parameters = Parameters::parse(PARAMETERS);
    let scale = Scale { parameters: &parameters, full: lab.is_full(), seeds: usize::MAX, places: usize::MAX };
    measure(lab, &scale).map(|measured| document(&scale, measured))
}

/// Rows of every case.
#[derive(Clone, Debug)]
struct Measured {
    faults: Faults,
    reads: Reads,
    launches: Launches,
    benchmarks: Benchmarks,
    /// Cases 3 and 4 (SQLite) with the page cache of a kernel without LRU_GEN.
    classic: [Vec<SweepRow>; 2],
}

fn measure(lab: &Lab, scale: &Scale<'_>) -> Result<Measured, Failure> {
    let number = |key: &str| scale.parameters.number(&format!("published.{key}"));
    let ttls = scale.parameters.numbers("published.launch_ttl");
    let mut sweeps = vec![
        cases::case1(scale, "read"),
        cases::case1(scale, "randread"),
        cases::case2(scale, false),
        cases::case2(scale, true),
        cases::storage(scale),
        cases::sqlite(scale),
        cases::case3(scale, ttls[0]).without_lru_gen(),
        cases::sqlite(scale).without_lru_gen(),
    ];
    sweeps.extend(ttls.iter().map(|&ttl| cases::case3(scale, ttl)));
    // Rows are in the order of the sweeps.
    let mut rows = sweep::run(lab, &sweeps)?.into_iter();
    let mut next = || rows.next().expect("rows of each sweep");
    let device = scale.fitted_ufs();
    let slot_ms = f64::from(512 << 10) * 1e3 / device.write_rate as f64;
    let faults = Faults { in_order: next(), at_random: next(), slots: device.queue_depth, slot_ms };
    let reads = Reads { fits: next(), tight: next(), published: [number("read_off"), number("read_seed")] };
    let benchmarks = Benchmarks { storage: next(), sqlite: next(), published: number("sqlite") };
    let classic = [next(), next()];
    Ok(Measured { faults, reads, benchmarks, classic, launches: Launches { ttls, rows: rows.collect() } })
}

fn document(scale: &Scale<'_>, measured: Measured) -> Document {
    let mut document = Document::new("content-ioprio: priority by the activity of pages (proposal 000)");
    document.paragraph(format!(
        "\"block: introduce content activity based ioprio\", version 8, Zhaoyang Huang, February 2024: a bio becomes RT if enough \
         of its pages were in use, evicted and read again soon. Off is mainline; iter-bio and add-page are the proposal's two \
         forms, page-exact ours. Controls: the oracle makes RT what somebody waits for at submission, whatever it holds; faults, all \
         that faults read, with the readahead that somebody may wait for later; random, as many bios as iter-bio did, by lot. \
         \"Of off\" is the 95 % interval of the mean of the ratios by random seed, on a scale of logarithms; one number if both \
         ends round to it, or if there is one seed. Sizes and memory are the proposal's over {}.",
        scale.factor(),
    ));
    faults(&mut document, scale, &measured.faults);
    reads(&mut document, scale, &measured.reads);
    launches(&mut document, scale, &measured.launches);
    benchmarks(&mut document, &measured.benchmarks);
    dependencies(&mut document, &measured.classic);
    document
}

fn figure(name: &str, unit: &str, published: f64, ours: f64, note: &str) -> Figure {
    Figure { name: name.into(), unit: unit.into(), expected: Some(published), ours, note: note.into() }
}

/// Writes the section of case 1.
fn faults(document: &mut Document, scale: &Scale<'_>, case: &Faults) {
    let number = |key: &str| scale.parameters.number(&format!("published.{key}"));
    let window = number("window");
    document.heading("1. Four mapped readers beside four dd");
    for (touches, rows, calibrated) in
        [("in order", &case.in_order, "calibrated: write rate"), ("at random", &case.at_random, "predicted")]
    {
        let of = |arm: &str, figure| rows[0].of(arm).mean(figure);
        let milliseconds = |arm| of(arm, 0) * of(arm, 1) * window / 1e3;
        let gain = number("iowait_seed") / number("iowait_off");
        document.figures(
            &format!("ufs-2.1, mq-deadline, touches {touches}"),
            "published",
            vec![
                figure("dd, mainline", "s", number("dd_off"), dd_seconds(of("off", 2)), calibrated),
                figure("dd, iter-bio", "s", number("dd_seed"), dd_seconds(of("iter-bio", 2)), "fixed by the fit"),
                figure("iowait of a wait, mainline", "us", number("iowait_off"), of("off", 0), "if 736 is that"),
                figure("iowait of a wait, iter-bio", "us", number("iowait_seed"), of("iter-bio", 0), "predicted"),
                figure("its ratio", "", gain, rows[0].ratio("iter-bio", 0).mean, "predicted"),
                figure("iowait a window, mainline", "ms", number("iowait_off"), milliseconds("off"), "if 736 is that"),
                figure("iowait a window, iter-bio", "ms", number("iowait_seed"), milliseconds("iter-bio"), "predicted"),
                figure("its ratio", "", gain, milliseconds("iter-bio") / milliseconds("off"), "predicted"),
            ],
        );
        document.command(&rows[0].of("iter-bio").command);
        document.table(table(rows, &["wait, us", "waits/s", "dd MB/s"]));
    }
    document.plot(against(&case.at_random));
    document.paragraph(format!(
        "736 us and 523 us have the digits of milliseconds of iowait in a window of {window} s, all faults together, in the raw data \
         of the first version; both readings stand above. dd's 55 s on mainline is met by the device's write rate, which was put at \
         {:.0} MB/s where the data sheet has {:.0}: dd is bound by the device then, so the published 40 s cannot come out, whoever \
         goes first. That row tests nothing.",
        scale.fitted_ufs().write_rate as f64 / 1e6,
        scale.data_sheet_rate() as f64 / 1e6,
    ));
    conclude(document, case, &findings::FAULTS);
    document.paragraph("Missing are swap and zram, what else ran on the phone, and the state of its flash.");
}

/// Plots the gain of faults against the loss of dd.
fn against(rows: &[SweepRow]) -> Plot {
    let axis = |title: &str, scale, unit| Axis { title: title.into(), scale, unit };
    let series = rows.iter().enumerate().map(|(colour, row)| Series {
        name: row.place.name(),
        colour,
        points: row.cells.iter().map(|cell| (cell.mean(0) * 1e3, cell.mean(2) * 1e6)).collect(),
        labels: row.cells.iter().map(|cell| cell.arm.to_owned()).collect(),
        ..Series::default()
    });
    Plot {
        title: "dd against faults, touches at random".into(),
        description: "Left is less iowait for a fault that waits, up is more for dd.".into(),
        mark: Mark::Points,
        x: axis("iowait of a fault that waited", plot::Scale::Log, Unit::Nanos),
        y: axis("dd", plot::Scale::Linear, Unit::BytesPerSecond),
        series: series.filter(|series| series.name.starts_with("ufs")).collect(),
    }
}

/// Writes the section of case 2.
fn reads(document: &mut Document, scale: &Scale<'_>, case: &Reads) {
    let Reads { fits, tight, .. } = case;
    let number = |key: &str| scale.parameters.number(&format!("published.{key}"));
    let row = |name: &str, key: &str, rows: &[SweepRow], arm, note: &str| {
        figure(name, "MiB/s", number(key), rows[0].of(arm).mean(0), note)
    };
    document.heading("2. Eight buffered random readers of one range");
    document.figures(
        "ufs-2.1, mq-deadline",
        "published",
        vec![
            row("mainline, all fits", "read_off", fits, "off", "calibrated: die read time"),
            row("iter-bio, all fits", "read_seed", fits, "iter-bio", "predicted"),
            row("mainline, memory is short", "read_off", tight, "off", "calibrated: memory"),
            row("iter-bio, memory is short", "read_seed", tight, "iter-bio", "predicted"),
        ],
    );
    let published =
        |key: &str| scale.parameters.numbers(&format!("published.{key}")).iter().map(|&x| x as f64).collect();
    let runs: [(&str, Vec<f64>); 4] = [
        ("published, mainline", published("read_off_runs")),
        ("published, iter-bio", published("read_seed_runs")),
        ("ours, mainline", fits[0].of("off").of(0)),
        ("ours, iter-bio", fits[0].of("iter-bio").of(0)),
    ];
    let mut spread = Table::new(["MiB/s, all fits", "runs", "mean", "deviation", "least", "most"]);
    for (name, runs) in &runs {
        let (least, most) = range(runs.iter().copied());
        let [mean, deviation, least, most] =
            [mean(runs), deviation(runs), least, most].map(|value| format!("{value:.1}"));
        spread.row([name, &runs.len().to_string(), &mean, &deviation, &least, &most]);
    }
    document.table(spread);
    document.plot(distribution(&runs));
    document.paragraph("Ours differ by the random seed alone, on an otherwise idle machine.");
    document.command(&fits[0].of("iter-bio").command);
    document.table(table(fits, &["MiB/s"]));
    document.paragraph("The same with memory for less than the range, on the device as its data sheet has it:");
    document.table(table(tight, &["MiB/s"]));
    conclude(document, case, &findings::READS);
}

/// Plots the number of runs by their speed, cumulatively.
fn distribution(runs: &[(&str, Vec<f64>)]) -> Plot {
    let series = runs.iter().enumerate().map(|(colour, (name, runs))| {
        let mut runs: Vec<f64> = runs.iter().map(|rate| rate * f64::from(1 << 20)).collect();
        runs.sort_by(f64::total_cmp);
        let points = runs.iter().enumerate().map(|(at, &rate)| (rate, 100.0 * (at + 1) as f64 / runs.len() as f64));
        Series { name: (*name).to_owned(), colour, points: points.collect(), ..Series::default() }
    });
    let axis = |title: &str, unit| Axis { title: title.into(), scale: plot::Scale::Linear, unit };
    Plot {
        title: "Distribution of runs".into(),
        description: "The share of runs that were at most that fast.".into(),
        mark: Mark::Step,
        x: axis("all readers", Unit::BytesPerSecond),
        y: axis("runs", Unit::Percent),
        series: series.collect(),
    }
}

/// Writes the section of case 3.
fn launches(document: &mut Document, scale: &Scale<'_>, case: &Launches) {
    let Launches { ttls, rows: all } = case;
    let published = |key: &str| scale.parameters.numbers(&format!("published.{key}"));
    let (off, seed) = (published("launch_off"), published("launch_seed"));
    document.heading("3. Launch of an application");
    let rows = ttls.iter().zip(all).enumerate().flat_map(|(at, (ttl, rows))| {
        let ours = |arm| rows[0].of(arm).mean(0) * scale.factor();
        let times = if scale.factor() == 1.0 { String::new() } else { format!(", times {}", scale.factor()) };
        let note = if at == 0 { "calibrated: CPU time" } else { "predicted" };
        let row = |name, published: u64, arm, note| {
            figure(&format!("ttl {ttl}, {name}"), "ms", published as f64, ours(arm), &format!("{note}{times}"))
        };
        let shorter = |off: f64, seed: f64| -percent_off(seed, off);
        let gain = figure(
            &format!("ttl {ttl}, shorter by"),
            "%",
            shorter(off[at] as f64, seed[at] as f64),
            100.0 * (1.0 - rows[0].ratio("iter-bio", 0).mean),
            "predicted",
        );
        [row("mainline", off[at], "off", note), row("iter-bio", seed[at], "iter-bio", "predicted"), gain]
    });
    document.figures("ufs-2.1, mq-deadline", "published", rows.collect());
    document.paragraph(
        "The mail says \"12%-24% improvement\". Its own times are shorter by 12.1, 25.4 and 13.7 %, and these are the published figures \
         above.",
    );
    document.command(&all[0][0].of("iter-bio").command);
    for (ttl, rows) in ttls.iter().zip(all) {
        document.paragraph(format!("min_ttl_ms={ttl}:"));
        document.table(table(rows, &["launch ms", "iowait ms"]));
    }
    document.paragraph(
        "A model of our own: the application's pages were in use, others took the memory, and it is launched beside a writer and \
         a reader. Milliseconds are the fit's. A phone's launch has more: processes that start, zram, other files' metadata, a \
         device that cleans up.",
    );
    conclude(document, case, &findings::LAUNCHES);
}

/// Writes the section of case 4.
fn benchmarks(document: &mut Document, case: &Benchmarks) {
    let Benchmarks { storage, sqlite, published } = case;
    document.heading("4. A storage benchmark");
    let parts = ["sequential read", "sequential write", "random read", "random write"];
    let mut rows: Vec<Figure> = parts
        .iter()
        .enumerate()
        .map(|(at, part)| {
            let ratio = storage[0].ratio("iter-bio", at).mean;
            figure(&format!("{part}, iter-bio over mainline"), "", 1.0, ratio, "predicted")
        })
        .collect();
    let ratio = sqlite[0].ratio("iter-bio", 0).mean;
    rows.push(figure("SQLite, iter-bio over mainline", "", *published, ratio, "predicted"));
    document.figures("ufs-2.1, mq-deadline", "published", rows);
    document.table(table(storage, &["seq. read", "seq. write", "rnd read", "rnd write"]));
    document.paragraph("SQLite-like transactions beside a writer:");
    document.command(&sqlite[0].of("iter-bio").command);
    document.table(table(sqlite, &["transactions/s"]));
    conclude(document, case, &findings::BENCHMARKS);
}

/// Writes what the proposal depends on and who calls it.
fn dependencies(document: &mut Document, classic: &[Vec<SweepRow>; 2]) {
    document.heading("5. What the proposal depends on, and who calls it");
    document.paragraph(
        "The option depends on LRU_GEN, and the mail gives no figure without it. Cases 3 and 4 (SQLite) with the page cache of a kernel \
         without LRU_GEN (cache=classic):",
    );
    document.table(table(&classic[0], &["launch ms", "iowait ms"]));
    document.table(table(&classic[1], &["transactions/s"]));
    conclude(document, classic, &findings::CLASSIC);
    document.paragraph(
        "The patch was verified with calls in erofs, ext4, f2fs and for a raw partition; the mail has no figure by file system. The page \
         cache here has no file systems: every bio that it builds is judged, whoever would have called. So there is no row by \
         caller.",
    );
}

#[cfg(test)]
mod tests;
