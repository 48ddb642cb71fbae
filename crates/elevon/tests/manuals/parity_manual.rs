//! Checks that the tables of `docs/evidence/parity.md` are the results of `elevon run` for the
//! records of real kernels. `UPDATE_DOCS=1 cargo test -p elevon --test manuals parity_manual`
//! updates them.
//!
//! A figure that any scheduler would reproduce proves nothing. So each record is also run with
//! `none` and without tenants: a figure that this run misses is a *telling* one.

use std::fmt::Write;

use elevon_testkit::{hold_document, replace_between};

use crate::common::records::{
    TOLERANCE, compare_rates, records, simulate, simulate_plain, text, tunables,
};

/// Files of records: name, content, and how many of the telling figures must hold.
const FILES: [(&str, &str, usize); 8] = [
    ("schedulers.jsonl", "Linux 6.18, schedulers", 33),
    ("telling.jsonl", "Linux 6.18, chosen so that a wrong scheduler misses them", 23),
    ("in-order.jsonl", "Linux 6.18, over a store that keeps the order", 76),
    (
        "undisturbed.jsonl",
        "Linux 6.18 at real-time priority on a busy machine, jobs chosen before the comparison",
        284,
    ),
    ("cached.jsonl", "Linux 6.18, through the page cache, and POSIX AIO", 11),
    ("groups.jsonl", "Linux 6.18, BFQ with cgroup weights", 4),
    ("cost.jsonl", "Linux 6.12, io.cost and io.max", 12),
    ("cost-short-period.jsonl", "Linux 6.12, io.cost with a period shorter than a tick", 5),
];

/// One figure of a record.
struct Figure {
    record: String,
    setting: String,
    scheduler: String,
    runs: usize,
    job: String,
    seen: Vec<f64>,
    ours: f64,
    off: f64,
    /// True if `none` without tenants misses the figure.
    is_telling: bool,
}

impl Figure {
    fn holds(&self) -> bool {
        self.off <= TOLERANCE
    }
}

fn figures(file: &str) -> Vec<Figure> {
    let mut figures = Vec::new();
    for runs in records(file) {
        let first = &runs[0];
        let plain = compare_rates(&runs, &simulate_plain(first));
        let turns = match first["tunables"]["rot"] == 1 {
            true => ", turning",
            false if first["set"][0] == "rotational=1" => ", a disk",
            false => "",
        };
        let order = if first["worker_first"] == false { ", fio first" } else { "" };
        for (rate, plain) in compare_rates(&runs, &simulate(first)).into_iter().zip(plain) {
            figures.push(Figure {
                record: [text(&first["name"]), turns, order].concat(),
                setting: tunables(first).join(", "),
                scheduler: text(&first["scheduler"]).to_owned(),
                runs: runs.len(),
                job: rate.name.replace('.', " "),
                seen: rate.seen,
                ours: rate.ours,
                off: rate.off,
                is_telling: plain.off > TOLERANCE,
            });
        }
    }
    figures
}

/// Formats a rate as a whole number from 100 on, and with one decimal below.
fn rate(value: f64) -> String {
    if value >= 99.95 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn median(figures: &[&Figure]) -> String {
    let mut off: Vec<f64> = figures.iter().map(|figure| figure.off).collect();
    off.sort_by(f64::total_cmp);
    if off.is_empty() { "-".to_owned() } else { format!("{:.1} %", off[off.len() / 2] * 100.0) }
}

fn held(figures: &[&Figure]) -> String {
    format!("{} of {}", figures.iter().filter(|figure| figure.holds()).count(), figures.len())
}

fn share(figures: &[&Figure]) -> String {
    let held = figures.iter().filter(|figure| figure.holds()).count();
    if figures.is_empty() { "-".to_owned() } else { format!("{} %", held * 100 / figures.len()) }
}

fn headline(files: &[(&str, &str, Vec<Figure>)]) -> String {
    let mut out = String::from(
        "\n| records | scheduler | telling figures held | share (goal: 95 %) | median error of these, 0 inside the range of the kernel | all figures held | of these, `none` meets as well |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for (file, what, figures) in files {
        let mut schedulers: Vec<&str> =
            figures.iter().map(|figure| figure.scheduler.as_str()).collect();
        schedulers.sort_unstable();
        schedulers.dedup();
        for (index, scheduler) in schedulers.into_iter().enumerate() {
            let all: Vec<&Figure> =
                figures.iter().filter(|figure| figure.scheduler == scheduler).collect();
            let telling: Vec<&Figure> =
                all.iter().copied().filter(|figure| figure.is_telling).collect();
            let name = if index == 0 { format!("`{file}`: {what}") } else { String::new() };
            let _ = writeln!(
                out,
                "| {name} | {scheduler} | {} | {} | {} | {} | {} |",
                held(&telling),
                share(&telling),
                median(&telling),
                held(&all),
                all.len() - telling.len(),
            );
        }
    }
    out
}

/// The figures of one record, with the kernel's runs in the same order for each.
fn varied(figures: &[Figure]) -> Vec<Vec<&Figure>> {
    let mut records: Vec<Vec<&Figure>> = Vec::new();
    for figure in figures.iter().filter(|figure| figure.runs > 1) {
        let key = |of: &Figure| (of.record.clone(), of.scheduler.clone(), of.setting.clone());
        match records.last_mut().filter(|of| key(of[0]) == key(figure)) {
            Some(of) => of.push(figure),
            None => records.push(vec![figure]),
        }
    }
    records
}

/// Counts the pairs of jobs that every run of the kernel has in the same order, more than the
/// tolerance apart, and how many of them are in that order here.
fn pairs_in_order(jobs: &[&Figure]) -> (usize, usize) {
    let (mut right, mut all) = (0, 0);
    for (index, a) in jobs.iter().enumerate() {
        for b in &jobs[index + 1..] {
            let above = |a: &Figure, b: &Figure| {
                a.seen.iter().zip(&b.seen).all(|(a, b)| *a > *b * (1.0 + TOLERANCE))
            };
            let (a, b) = if above(b, a) { (b, a) } else { (a, b) };
            if above(a, b) {
                all += 1;
                right += usize::from(a.ours > b.ours);
            }
        }
    }
    (right, all)
}

/// Returns the largest rate divided by the smallest: in each run of the kernel, and here.
fn spreads(jobs: &[&Figure]) -> (Vec<f64>, f64) {
    let spread = |rates: Vec<f64>| {
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        rates.iter().copied().fold(0.0, f64::max) / least
    };
    let runs = (0..jobs[0].runs)
        .map(|run| spread(jobs.iter().map(|job| job.seen[run]).collect()))
        .collect();
    (runs, spread(jobs.iter().map(|job| job.ours).collect()))
}

/// Records that the kernel ran several times: not the range of each job alone, but the order of the
/// jobs and how far apart they are.
fn varied_records(files: &[(&str, &str, Vec<Figure>)]) -> String {
    let mut out = String::from(
        "\n| record | scheduler | kernel runs | jobs inside the range of the runs | kernel runs that every job is within 10 % of | pairs of jobs in order | largest rate by smallest, kernel | here |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for (_, _, figures) in files {
        for jobs in varied(figures) {
            let inside = jobs.iter().filter(|job| job.off == 0.0).count();
            let near = |run: &usize| {
                jobs.iter().all(|job| (job.ours / job.seen[*run] - 1.0).abs() <= TOLERANCE)
            };
            let runs = (0..jobs[0].runs).filter(near).count();
            let (right, pairs) = pairs_in_order(&jobs);
            let (theirs, ours) = spreads(&jobs);
            let least = theirs.iter().copied().fold(f64::INFINITY, f64::min);
            let most = theirs.iter().copied().fold(0.0, f64::max);
            let first = jobs[0];
            let _ = writeln!(
                out,
                "| {} | {} | {} | {inside} of {} | {runs} of {} | {right} of {pairs} | {} to {} | {} |",
                first.record,
                format!("{} {}", first.scheduler, first.setting).trim_end(),
                first.runs,
                jobs.len(),
                first.runs,
                ratio(least),
                ratio(most),
                ratio(ours),
            );
        }
    }
    out
}

/// Formats a ratio of rates; a job that got nothing makes it endless.
fn ratio(value: f64) -> String {
    match value {
        v if v >= 99.95 && v.is_finite() => format!("{v:.0}"),
        v if v.is_finite() => format!("{v:.1}"),
        _ => "endless".to_owned(),
    }
}

fn every_record(files: &[(&str, &str, Vec<Figure>)]) -> String {
    let mut out = String::new();
    for (file, what, figures) in files {
        let _ = write!(
            out,
            "\n### `{file}`: {what}\n\n| record | scheduler | kernel runs | job | kernel | here | off | telling |\n\
             | --- | --- | ---: | --- | ---: | ---: | ---: | --- |\n"
        );
        let mut last = String::new();
        for figure in figures {
            let key = [figure.record.as_str(), &figure.scheduler, &figure.setting].join(" ");
            let head = match key == last {
                true => "|  |  |  ".to_owned(),
                false => format!(
                    "| {} | {} | {} ",
                    figure.record,
                    format!("{} {}", figure.scheduler, figure.setting).trim_end(),
                    figure.runs
                ),
            };
            last = key;
            let low = figure.seen.iter().copied().fold(f64::INFINITY, f64::min);
            let high = figure.seen.iter().copied().fold(0.0, f64::max);
            let kernel = if rate(low) == rate(high) {
                rate(low)
            } else {
                format!("{} to {}", rate(low), rate(high))
            };
            let off = format!("{:.1} %", figure.off * 100.0);
            let off = if figure.holds() { off } else { format!("**{off}**") };
            let telling = if figure.is_telling { "yes" } else { "" };
            let _ = writeln!(
                out,
                "{head}| {} | {kernel} | {} | {off} | {telling} |",
                figure.job,
                rate(figure.ours)
            );
        }
    }
    out
}

/// Returns the document with the text between the marks of `part` replaced.
fn replace(document: &str, part: &str, content: &str) -> String {
    let (begin, end) =
        (format!("<!-- {part}: made by parity_manual -->\n"), format!("\n<!-- {part}: end -->\n"));
    replace_between(document, &begin, &end, content)
}

#[test]
fn the_manual_says_what_the_command_does() {
    let files = FILES.map(|(file, what, _)| (file, what, figures(file)));
    for ((file, _, floor), (_, _, figures)) in FILES.iter().zip(&files) {
        let held = figures.iter().filter(|figure| figure.is_telling && figure.holds()).count();
        assert!(held >= *floor, "{file}: only {held} telling figures hold, there were {floor}");
    }
    hold_document("docs/evidence/parity.md", |text| {
        let text = replace(text, "headline", &headline(&files));
        let text = replace(&text, "varied", &varied_records(&files));
        replace(&text, "every record", &every_record(&files))
    });
}
