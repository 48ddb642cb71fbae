//! Seed 000: I/O priority by the activity of the pages that a bio carries, in the four cases it was measured in.
//!
//! One figure of the mainline column is fitted in each case that has one; what the forms of activity and the two controls
//! make of it is predicted.

mod cases;
mod sweep;

use elevon_report::document::{Document, Table};
use elevon_report::plot::{self, Axis, Mark, Plot, Series, Unit};
use elevon_report::text::Figure;

use crate::failure::Failure;
use crate::reproduce::lab::Lab;
use crate::reproduce::parameters::Parameters;
use cases::{Scale, dd_seconds};
use sweep::{Row, deviation, interval, table};

const PARAMETERS: &str = include_str!("../../../../experiments/content-ioprio/parameters.toml");

pub(super) fn report(lab: &Lab) -> Result<Document, Failure> {
    let parameters = Parameters::parse(PARAMETERS);
    let scale = Scale { parameters: &parameters, full: lab.is_full(), seeds: usize::MAX, places: usize::MAX };
    let mut document = Document::new("content-ioprio: priority by the activity of pages (seed 000)");
    document.paragraph(format!(
        "\"block: introduce content activity based ioprio\", version 8, Zhaoyang Huang, February 2024: a bio becomes RT if enough \
         of its pages were in use, evicted and read again soon. Off is mainline; iter-bio and add-page are the seed's two \
         forms, page-exact ours. Controls: the oracle makes RT what somebody waits for at submission, whatever it holds; faults, all \
         that faults read, with the readahead that somebody may wait for later; random, as many bios as iter-bio did, by lot. \
         \"Of off\" is the mean of ratios seed by seed with its 95% interval. Sizes and memory are the seed's over {}.",
        scale.factor(),
    ));
    let ttls = parameters.numbers("published.launch_ttl");
    // In this order below.
    let mut sweeps = vec![
        cases::case1(&scale, "read"),
        cases::case1(&scale, "randread"),
        cases::case2(&scale, false),
        cases::case2(&scale, true),
        cases::storage(&scale),
        cases::sqlite(&scale),
    ];
    sweeps.extend(ttls.iter().map(|&ttl| cases::case3(&scale, ttl)));
    let rows = sweep::run(lab, &sweeps)?;
    let [in_order, at_random, fits, tight, storage, sqlite, all @ ..] = &rows[..] else { unreachable!("a row each") };
    faults(&mut document, &scale, in_order, at_random);
    reads(&mut document, &scale, fits, tight);
    launches(&mut document, &scale, &ttls, all);
    benchmarks(&mut document, storage, sqlite);
    Ok(document)
}

fn figure(name: &str, unit: &str, published: f64, ours: f64, note: &str) -> Figure {
    Figure { name: name.into(), unit: unit.into(), expected: Some(published), ours, note: note.into() }
}

/// Case 1.
fn faults(document: &mut Document, scale: &Scale<'_>, in_order: &[Row], at_random: &[Row]) {
    let number = |key: &str| scale.parameters.number(&format!("published.{key}"));
    let window = number("window");
    document.heading("1. Four mapped readers beside four dd");
    for (touches, rows, calibrated) in
        [("in order", in_order, "calibrated: write rate"), ("at random", at_random, "predicted")]
    {
        let of = |arm: &str, figure| rows[0].of(arm).mean(figure);
        let milliseconds = |arm| of(arm, 0) * of(arm, 1) * window / 1e3;
        let gain = number("iowait_seed") / number("iowait_off");
        document.figures(
            &format!("ufs-2.1, mq-deadline, touches {touches}"),
            "published",
            vec![
                figure("dd, mainline", "s", number("dd_off"), dd_seconds(of("off", 2)), calibrated),
                figure("dd, iter-bio", "s", number("dd_seed"), dd_seconds(of("iter-bio", 2)), "predicted"),
                figure("iowait of a wait, mainline", "us", number("iowait_off"), of("off", 0), "if 736 is that"),
                figure("iowait of a wait, iter-bio", "us", number("iowait_seed"), of("iter-bio", 0), "predicted"),
                figure("its ratio", "", gain, rows[0].ratio("iter-bio", 0).0, "predicted"),
                figure("iowait a window, mainline", "ms", number("iowait_off"), milliseconds("off"), "if 736 is that"),
                figure("iowait a window, iter-bio", "ms", number("iowait_seed"), milliseconds("iter-bio"), "predicted"),
                figure("its ratio", "", gain, milliseconds("iter-bio") / milliseconds("off"), "predicted"),
            ],
        );
        document.command(&rows[0].of("iter-bio").command);
        document.table(table(rows, &["us a wait", "waits/s", "dd MB/s"]));
    }
    document.plot(against(at_random));
    document.paragraph(format!(
        "736 us and 523 us have the digits of milliseconds of iowait in a window of {window} s, all faults together, in the raw data \
         of the first version; both readings stand above. Four files of 2000 MB do not fit in the memory that dd leaves. Read in \
         order, each page is evicted a whole round before it is wanted again, generations have passed meanwhile, and MGLRU \
         of 6.6 calls nothing active: no promotion, no gain. Touched at random, some come back within the generation (not on eMMC, \
         which does not fill memory before dd begins)."
    ));
    document.paragraph(
        "Under mq-deadline their reads pass the writes in the queue, and a wait is about half as long, which chance does not do. \
         Who waits less comes back sooner, so there are more waits and their sum stays: these readers do nothing else. What remains \
         of an RT wait is a slot: writes of 512 KiB hold all 32 of the device, and one ends every 3.4 ms; in the device such a read takes \
         0.2 ms (the command above prints it: sleeps by class, queued and in the device). dd's 40 s has no mechanism here: the \
         device's write rate is what bounds dd.",
    );
    document.paragraph(
        "BFQ without activity keeps reads before writeback by itself. RT there is strict, mapped readers always have a read \
         waiting, and so what they gain dd loses: half its rate with the seed, all of it with the oracle in some runs, until the faults \
         end. The budget of page-exact (a quarter of the bytes) does not help where RT is that little and that often. Missing are swap \
         and zram, what else ran on the phone, and the state of its flash.",
    );
}

/// What faults gain against what dd loses.
fn against(rows: &[Row]) -> Plot {
    let axis = |title: &str, scale, unit| Axis { title: title.into(), scale, unit };
    let series = rows.iter().enumerate().map(|(colour, row)| Series {
        name: row.place.name(),
        colour,
        points: row.cells.iter().map(|cell| (cell.mean(0) * 1e3, cell.mean(2) * 1e6)).collect(),
        labels: row.cells.iter().map(|cell| cell.arm.to_owned()).collect(),
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

/// Case 2.
fn reads(document: &mut Document, scale: &Scale<'_>, fits: &[Row], tight: &[Row]) {
    let number = |key: &str| scale.parameters.number(&format!("published.{key}"));
    let row = |name: &str, key: &str, rows: &[Row], arm, note: &str| {
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
        let (least, most) = runs.iter().fold((f64::MAX, 0f64), |(least, most), &x| (least.min(x), most.max(x)));
        let [mean, deviation, least, most] =
            [interval(runs).0, deviation(runs), least, most].map(|value| format!("{value:.1}"));
        spread.row([name, &runs.len().to_string(), &mean, &deviation, &least, &most]);
    }
    document.table(spread);
    document.plot(distribution(&runs));
    document.paragraph("Ours differ by chance of order alone, on an otherwise idle machine.");
    document.command(&fits[0].of("iter-bio").command);
    document.table(table(fits, &["MiB/s"]));
    document.paragraph("The same with memory for less than the range, on the device as its data sheet has it:");
    document.table(table(tight, &["MiB/s"]));
    document.paragraph(
        "Where the range fits, each page is read once; nothing was evicted, so nothing is active, no bio is promoted, and the \
         ratio is 1 exactly. Where it does not fit, some are promoted, and order among equals cannot raise throughput. It can \
         lower it: mq-deadline sends nothing of a lower class while a higher one has requests in flight, so a mix of classes \
         leaves the device's queue emptier than one class does; random promotion does the same, and the oracle, for whom all \
         are RT, changes nothing. The published +23% is no effect of this mechanism; what differed between the two kernels \
         (memory left, clocks, temperature, layout) is not in the mail. eMMC cannot reach 513 MiB/s and is not fitted.",
    );
}

/// How many of the runs were that fast at most.
fn distribution(runs: &[(&str, Vec<f64>)]) -> Plot {
    let series = runs.iter().enumerate().map(|(colour, (name, runs))| {
        let mut runs: Vec<f64> = runs.iter().map(|rate| rate * f64::from(1 << 20)).collect();
        runs.sort_by(f64::total_cmp);
        let points = runs.iter().enumerate().map(|(at, &rate)| (rate, 100.0 * (at + 1) as f64 / runs.len() as f64));
        Series { name: (*name).to_owned(), colour, points: points.collect(), labels: Vec::new() }
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

/// Case 3.
fn launches(document: &mut Document, scale: &Scale<'_>, ttls: &[u64], all: &[Vec<Row>]) {
    let published = |key: &str| scale.parameters.numbers(&format!("published.{key}"));
    let (off, seed) = (published("launch_off"), published("launch_seed"));
    document.heading("3. Launch of an application");
    let rows = ttls.iter().zip(all).enumerate().flat_map(|(at, (ttl, rows))| {
        let ours = |arm| rows[0].of(arm).mean(0) * scale.factor();
        let note = if at == 0 { "calibrated: CPU time" } else { "predicted" };
        [
            figure(&format!("ttl {ttl}, mainline"), "ms", off[at] as f64, ours("off"), note),
            figure(&format!("ttl {ttl}, iter-bio"), "ms", seed[at] as f64, ours("iter-bio"), "predicted"),
        ]
    });
    document.figures("ufs-2.1, mq-deadline", "published", rows.collect());
    document.command(&all[0][0].of("iter-bio").command);
    for (ttl, rows) in ttls.iter().zip(all) {
        document.paragraph(format!("min_ttl_ms={ttl}:"));
        document.table(table(rows, &["launch ms", "iowait ms"]));
    }
    document.paragraph(
        "A model of our own: the application's pages were in use, others took the memory, and it is launched beside a writer and \
         a reader. Half of the bios that faults wait for come back within the generation and are promoted, so the signal works as \
         it is meant to. Under mq-deadline there is little to gain for it: nearly all the time that these faults sleep, their requests \
         are in the device, behind what it has already taken, and the oracle gains as little. Under BFQ on UFS there is: reader and \
         launch are both new and raised by low_latency, the reader comes back every 6 ms, within slice_idle, and so keeps its \
         turn for hundreds of milliseconds while the launch waits. RT takes the turn away. Chance takes it only sometimes. \
         Without activity low_latency=0 makes the launch as fast as it is under mq-deadline. ttl changes nothing where no generation is as young as \
         that when pages are evicted. Milliseconds are the fit's. A phone's launch has more: processes that start, zram, other files' \
         metadata, a device that cleans up.",
    );
}

/// Case 4.
fn benchmarks(document: &mut Document, storage: &[Row], sqlite: &[Row]) {
    document.heading("4. A storage benchmark");
    let parts = ["sequential read", "sequential write", "random read", "random write"];
    let mut rows: Vec<Figure> = parts
        .iter()
        .enumerate()
        .map(|(at, part)| {
            let ratio = storage[0].ratio("iter-bio", at).0;
            figure(&format!("{part}, iter-bio over mainline"), "", 1.0, ratio, "predicted")
        })
        .collect();
    let ratio = sqlite[0].ratio("iter-bio", 0).0;
    rows.push(figure("SQLite, iter-bio over mainline", "", 1.03, ratio, "predicted"));
    document.figures("ufs-2.1, mq-deadline", "published", rows);
    document.table(table(storage, &["seq. read", "seq. write", "rnd read", "rnd write"]));
    document.paragraph("SQLite-like transactions beside a writer:");
    document.command(&sqlite[0].of("iter-bio").command);
    document.table(table(sqlite, &["transactions/s"]));
    document.paragraph(
        "Every page of the four parts is read or written once: none is active, none promoted, times are equal to the nanosecond. \
         Pages of the database are read again and again through a descriptor, so their writes at a sync are RT under the seed, \
         and those of the same sync that are not hot are BE: under mq-deadline the second waits until the first is done, and then \
         for the queue's next run (3 ms). So there the seed loses. page-exact leaves writes alone. The published +3% may \
         be noise, or a load beside it that the mail does not name.",
    );
}

#[cfg(test)]
mod tests;
