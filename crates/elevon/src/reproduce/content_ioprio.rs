//! Seed 000: I/O priority by the activity of the pages that a bio carries, in the four cases it was measured in.
//!
//! One figure of the mainline column is fitted in each case that has one; what the forms of activity and the two controls
//! make of it is predicted.

mod cases;
mod sweep;

use elevon_report::document::Document;
use elevon_report::text::Figure;

use crate::failure::Failure;
use crate::reproduce::lab::Lab;
use crate::reproduce::parameters::Parameters;
use cases::{Scale, dd_seconds};
use sweep::{Row, deviation, table};

const PARAMETERS: &str = include_str!("../../../../experiments/content-ioprio/parameters.toml");

pub(super) fn report(lab: &Lab) -> Result<Document, Failure> {
    let parameters = Parameters::parse(PARAMETERS);
    let scale = Scale { parameters: &parameters, full: lab.is_full(), seeds: usize::MAX, places: usize::MAX };
    let mut document = Document::new("content-ioprio: priority by the activity of pages (seed 000)");
    document.paragraph(format!(
        "\"block: introduce content activity based ioprio\", version 8, Zhaoyang Huang, February 2024: a bio becomes RT if enough \
         of its pages were in use, evicted and read again soon. Off is mainline; iter-bio and add-page are the seed's two \
         forms, page-exact ours. Controls: the oracle makes RT what somebody waits for at submission, whatever it holds; random, \
         as many bios as iter-bio did, by lot. \"Of off\" is the mean of ratios seed by seed with its 95% interval. Sizes and \
         memory are the seed's over {}.",
        scale.factor(),
    ));
    faults(lab, &mut document, &scale)?;
    reads(lab, &mut document, &scale)?;
    launches(lab, &mut document, &scale)?;
    benchmarks(lab, &mut document, &scale)?;
    Ok(document)
}

fn figure(name: &str, unit: &str, published: f64, ours: f64, note: &str) -> Figure {
    Figure { name: name.into(), unit: unit.into(), expected: Some(published), ours, note: note.into() }
}

/// Case 1.
fn faults(lab: &Lab, document: &mut Document, scale: &Scale<'_>) -> Result<(), Failure> {
    let number = |key: &str| scale.parameters.number(&format!("published.{key}"));
    let in_order = cases::case1(lab, scale, "read")?;
    let at_random = cases::case1(lab, scale, "randread")?;
    let of = |rows: &[Row], arm: &str, figure| rows[0].of(arm).mean(figure);
    document.heading("1. Four mapped readers beside four dd");
    document.figures(
        "ufs-2.1, mq-deadline, touches in order",
        "published",
        vec![
            figure(
                "dd, mainline",
                "s",
                number("dd_off"),
                dd_seconds(of(&in_order, "off", 2)),
                "calibrated: write rate",
            ),
            figure("dd, iter-bio", "s", number("dd_seed"), dd_seconds(of(&in_order, "iter-bio", 2)), "predicted"),
            figure(
                "iowait, mainline",
                "us",
                number("iowait_off"),
                of(&in_order, "off", 0),
                "predicted; the unit is in doubt",
            ),
            figure("iowait, iter-bio", "us", number("iowait_seed"), of(&in_order, "iter-bio", 0), "predicted"),
            figure(
                "iowait, iter-bio over mainline",
                "",
                number("iowait_seed") / number("iowait_off"),
                in_order[0].ratio("iter-bio", 0).0,
                "predicted",
            ),
            figure(
                "the same, touches at random",
                "",
                number("iowait_seed") / number("iowait_off"),
                at_random[0].ratio("iter-bio", 0).0,
                "predicted",
            ),
        ],
    );
    document.command(&in_order[0].of("iter-bio").command);
    let figures = ["us a wait", "waits/s", "dd MB/s"];
    document.paragraph("Touches in order, one page after another and over again:");
    document.table(table(&in_order, &figures));
    document.paragraph("Touches at random:");
    document.table(table(&at_random, &figures));
    document.paragraph(
        "Four files of 2000 MB do not fit in the memory that dd leaves. Read in order, each page is evicted a whole round \
         before it is wanted again, generations have passed meanwhile, and MGLRU of 6.6 calls nothing active: no promotion, no \
         gain. Touched at random, some come back within the generation, and their reads pass the writes in the queue. What \
         remains is the device: up to 31 writes of 512 KiB lie in it before a read, whatever its class, and that is tens of \
         milliseconds, not 736 us. The seed's earlier raw data suggest that 736 is milliseconds of iowait in a window of six \
         seconds. dd's 40 s has no mechanism here: the device's write rate is what bounds dd, and class does not change it. \
         Missing are swap and zram, what else ran on the phone, and the state of its flash.",
    );
    Ok(())
}

/// Case 2.
fn reads(lab: &Lab, document: &mut Document, scale: &Scale<'_>) -> Result<(), Failure> {
    let number = |key: &str| scale.parameters.number(&format!("published.{key}"));
    let fits = cases::case2(lab, scale, false)?;
    let tight = cases::case2(lab, scale, true)?;
    let row = |name: &str, key: &str, rows: &[Row], arm, note: &str| {
        figure(name, "MiB/s", number(key), rows[0].of(arm).mean(0), note)
    };
    document.heading("2. Eight buffered random readers of one range");
    document.figures(
        "ufs-2.1, mq-deadline",
        "published",
        vec![
            row("mainline, all fits", "read_off", &fits, "off", "calibrated: die read time"),
            row("iter-bio, all fits", "read_seed", &fits, "iter-bio", "predicted"),
            row("mainline, memory is short", "read_off", &tight, "off", "calibrated: memory"),
            row("iter-bio, memory is short", "read_seed", &tight, "iter-bio", "predicted"),
        ],
    );
    document.paragraph(format!(
        "Standard deviation: of ten runs published {} and {} MiB/s; of our {} {:.1} and {:.1}, by chance of order alone, on an \
         otherwise idle machine.",
        number("read_off_deviation"),
        number("read_seed_deviation"),
        fits[0].of("off").of(0).len(),
        deviation(&fits[0].of("off").of(0)),
        deviation(&fits[0].of("iter-bio").of(0)),
    ));
    document.command(&fits[0].of("iter-bio").command);
    document.table(table(&fits, &["MiB/s"]));
    document.paragraph("The same with memory for less than the range, on the device as its data sheet has it:");
    document.table(table(&tight, &["MiB/s"]));
    document.paragraph(
        "Where the range fits, each page is read once; nothing was evicted, so nothing is active, no bio is promoted, and the \
         ratio is 1 exactly. Where it does not fit, some are promoted, and order among equals cannot raise throughput. It can \
         lower it: mq-deadline sends nothing of a lower class while a higher one has requests in flight, so a mix of classes \
         leaves the device's queue emptier than one class does; random promotion does the same, and the oracle, for whom all \
         are RT, changes nothing. The published +23% is no effect of this mechanism; what differed between the two kernels \
         (memory left, clocks, temperature, layout) is not in the mail. eMMC cannot reach 513 MiB/s and is not fitted.",
    );
    Ok(())
}

/// Case 3.
fn launches(lab: &Lab, document: &mut Document, scale: &Scale<'_>) -> Result<(), Failure> {
    let ttls = scale.parameters.numbers("published.launch_ttl");
    let published = |key: &str| scale.parameters.numbers(&format!("published.{key}"));
    let (off, seed) = (published("launch_off"), published("launch_seed"));
    let all = ttls.iter().map(|&ttl| cases::case3(lab, scale, ttl)).collect::<Result<Vec<_>, _>>()?;
    document.heading("3. Launch of an application");
    let rows = ttls.iter().zip(&all).enumerate().flat_map(|(at, (ttl, rows))| {
        let ours = |arm| rows[0].of(arm).mean(0) * scale.factor();
        let note = if at == 0 { "calibrated: CPU time" } else { "predicted" };
        [
            figure(&format!("ttl {ttl}, mainline"), "ms", off[at] as f64, ours("off"), note),
            figure(&format!("ttl {ttl}, iter-bio"), "ms", seed[at] as f64, ours("iter-bio"), "predicted"),
        ]
    });
    document.figures("ufs-2.1, mq-deadline", "published", rows.collect());
    document.command(&all[0][0].of("iter-bio").command);
    for (ttl, rows) in ttls.iter().zip(&all) {
        document.paragraph(format!("min_ttl_ms={ttl}:"));
        document.table(table(rows, &["launch ms", "iowait ms"]));
    }
    document.paragraph(
        "A model of our own: the application's pages were in use, others took the memory, and it is launched beside a writer and \
         a reader. Half of the bios that faults wait for come back within the generation and are promoted, so the signal works as \
         it is meant to. There is little to gain for it here: nearly all the time that these faults sleep, their requests \
         are in the device, behind what it has already taken, and the oracle gains as little. ttl changes nothing where no \
         generation is as young as that when pages are evicted. Milliseconds are the fit's. A phone's launch has more: processes that \
         start, zram, other files' metadata, a device that cleans up.",
    );
    Ok(())
}

/// Case 4.
fn benchmarks(lab: &Lab, document: &mut Document, scale: &Scale<'_>) -> Result<(), Failure> {
    let storage = cases::storage(lab, scale)?;
    let sqlite = cases::sqlite(lab, scale)?;
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
    document.table(table(&storage, &["seq. read", "seq. write", "rnd read", "rnd write"]));
    document.paragraph("SQLite-like transactions beside a writer:");
    document.command(&sqlite[0].of("iter-bio").command);
    document.table(table(&sqlite, &["transactions/s"]));
    document.paragraph(
        "Every page of the four parts is read or written once: none is active, none promoted, times are equal to the nanosecond. \
         Pages of the database are read again and again through a descriptor, so their writes at a sync are RT under the seed, \
         and those of the same sync that are not hot are BE: under mq-deadline the second waits until the first is done, and then \
         for the queue's next run (3 ms). So there the seed loses. page-exact leaves writes alone. The published +3% may \
         be noise, or a load beside it that the mail does not name.",
    );
    Ok(())
}

#[cfg(test)]
mod tests;
