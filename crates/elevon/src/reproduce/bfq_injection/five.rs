//! Five processes of different weights, each with one random read of 4 KiB at a time.

use elevon_report::document::{Document, Table};
use elevon_report::plot::{Axis, Mark, Plot, Scale, Series, Unit};
use elevon_report::result::RunResult;
use elevon_report::text::Figure;

use super::findings::{self, Readers, UnderScheduler};
use super::{FAIR, LIMIT, NONE, OFF, SEED, Setting, jain, megabytes, setting, shares};
use crate::failure::Failure;
use crate::reproduce::conclusions::{conclude, percent_off};
use crate::reproduce::lab::{Job, Lab, job};
use crate::reproduce::parameters::Parameters;

const FIVE: Job = job!("bfq-injection/five-readers.fio");
const FOUR: Job = job!("bfq-injection/four-readers.fio");
const DEPTH: Job = job!("bfq-injection/depth.fio");

/// The schedulers that are compared; the first is `none`.
const SETTINGS: [Setting; 7] = [
    NONE,
    setting("mq-deadline", "mq-deadline"),
    setting("strict_guarantees", "bfq:low_latency=0,strict_guarantees=1"),
    OFF,
    SEED,
    LIMIT,
    FAIR,
];

/// Values of `inject_coeff` that the proposal's comment names, each with the share of injected
/// service in percent that it gives.
const COEFFICIENTS: [(u32, u32); 7] = [(1, 90), (5, 66), (10, 50), (15, 40), (20, 33), (99, 9), (100, 9)];

/// Conditions that affect the proposal's rule and that the mail does not state.
const CONDITIONS: [(&str, &str); 4] = [
    ("a fresh scheduler", "bfq:low_latency=0,inject=seed"),
    ("low_latency=1", "bfq:low_latency=1,inject=seed"),
    ("low_latency=1, hw_tag known", "bfq:low_latency=1,inject=seed,hw_tag=yes"),
    ("low_latency=1, limit (a 6.18 as it comes)", "bfq"),
];

pub(super) struct Five {
    /// Runs by setting.
    pub(super) runs: Vec<(Setting, RunResult)>,
    /// The device without a scheduler and with 1 to 5 processes: (mean requests in the device,
    /// MB/s).
    pub(super) curve: Vec<(f64, f64)>,
    /// `inject=limit` with other random seeds: (mean requests in the device, MB/s).
    pub(super) limit_seeds: Vec<(f64, f64)>,
    /// `none` with exponential service times.
    pub(super) exponential: RunResult,
    /// The proposal's rule by `inject_coeff`, with the published share of injected service.
    pub(super) coefficients: Vec<(u32, u32, RunResult)>,
    /// Runs by condition, then four processes on a fresh scheduler.
    pub(super) conditions: Vec<(&'static str, RunResult)>,
}

pub(super) fn measure(lab: &Lab, parameters: &Parameters) -> Result<Five, Failure> {
    let stack = parameters.text("stack.stack");
    let run = |job, scheduler: &str| lab.run(job, &[], &format!("{stack} --scheduler {scheduler}"));
    let runs = SETTINGS.into_iter().map(|setting| Ok((setting, run(FIVE, setting.scheduler)?)));
    let curve = (1..=5).map(|depth: u32| {
        let run = lab.run(DEPTH, &[("DEPTH", &depth.to_string())], stack)?;
        Ok((run.disk.mean_in_device(), megabytes(&run)))
    });
    let seeds = parameters.numbers("stack.seeds").into_iter();
    let limit_seeds = seeds.map(|seed| {
        let run = run(FIVE, &format!("{} --seed {seed}", LIMIT.scheduler))?;
        Ok((run.disk.mean_in_device(), megabytes(&run)))
    });
    let conditions = CONDITIONS.into_iter().map(|(name, scheduler)| Ok((name, run(FIVE, scheduler)?)));
    let coefficients = COEFFICIENTS.into_iter().map(|(coefficient, share)| {
        Ok((coefficient, share, run(FIVE, &format!("{},inject_coeff={coefficient}", SEED.scheduler))?))
    });
    let four = std::iter::once_with(|| Ok(("four processes", run(FOUR, SEED.scheduler)?)));
    Ok(Five {
        runs: runs.collect::<Result<_, Failure>>()?,
        curve: curve.collect::<Result<_, Failure>>()?,
        limit_seeds: limit_seeds.collect::<Result<_, Failure>>()?,
        coefficients: coefficients.collect::<Result<_, Failure>>()?,
        exponential: lab.run(FIVE, &[], &format!("{} --scheduler none", parameters.text("stack.exponential")))?,
        conditions: conditions.chain(four).collect::<Result<_, Failure>>()?,
    })
}

impl Five {
    pub(super) fn of(&self, setting: Setting) -> &RunResult {
        &self.runs.iter().find(|(s, _)| *s == setting).expect("a setting that was run").1
    }

    /// Returns the device's MB/s at this mean number of requests, interpolated between runs.
    #[cfg(test)]
    pub(super) fn at_depth(&self, depth: f64) -> Option<f64> {
        let step = self.curve.windows(2).find(|step| (step[0].0..=step[1].0).contains(&depth))?;
        let [(low, from), (high, to)] = [step[0], step[1]];
        Some(from + (to - from) * (depth - low) / (high - low))
    }

    /// Returns the figures for conclusions.
    pub(super) fn readers(&self, parameters: &Parameters) -> Readers {
        let of = |setting| {
            let run = self.of(setting);
            UnderScheduler {
                megabytes: megabytes(run),
                depth: run.disk.mean_in_device(),
                jain: jain(run),
                shares: shares(run).shares.iter().map(|share| share.bandwidth.got).collect(),
            }
        };
        let limit = self.limit_seeds.iter().map(|(_, mb)| *mb).chain([megabytes(self.of(LIMIT))]);
        let published = parameters.number("published.with");
        Readers {
            published,
            published_depth: self.depth_for(published),
            curve: self.curve.clone(),
            none: of(NONE),
            off: of(OFF),
            proposal: of(SEED),
            fair: of(FAIR),
            limit: limit.collect(),
            exponential: megabytes(&self.exponential),
            published_none: parameters.number("published.none"),
            coefficients: self.coefficients.iter().map(|(at, _, run)| (*at, megabytes(run), jain(run))).collect(),
            conditions: self.conditions.iter().map(|(_, run)| (megabytes(run), hw_tag(run))).collect(),
        }
    }

    /// Returns the mean number of requests at which the device reaches `megabytes` per second,
    /// interpolated between runs.
    pub(super) fn depth_for(&self, megabytes: f64) -> Option<f64> {
        let step = self.curve.windows(2).find(|step| (step[0].1..=step[1].1).contains(&megabytes))?;
        let [(low, from), (high, to)] = [step[0], step[1]];
        Some(low + (high - low) * (megabytes - from) / (to - from))
    }
}

pub(super) fn report(document: &mut Document, five: &Five, parameters: &Parameters) {
    document.heading("1. Five random readers");
    document.figures("sync 4 KiB random reads", "published", figures(five, parameters));
    for setting in [SEED, FAIR] {
        document.command(&five.of(setting).command);
    }
    let readers = five.readers(parameters);
    conclude(document, &readers, &findings::THROUGHPUT);
    document.paragraph(
        "The mail calls the growth from 25 to 100 MB/s \"400%\". 100 is 400 % of 25, and 300 % more, which the row of the gain has.",
    );
    document.heading("2. Shares against weights");
    document.table(shares_table(five));
    document.plot(scatter(five));
    document.paragraph("Jain's index of bandwidth got over bandwidth due: 1 is each by its weight.");
    conclude(document, &readers, &findings::SHARES);
    document.heading("3. What the proposal's rule depends on");
    document.table(conditions_table(five));
    document.paragraph(
        "hw_tag is BFQ's finding that the device queues commands: more than four in flight, within the first 33 samples. The mail \
         does not say what was known, nor what low_latency was.",
    );
    conclude(document, &readers, &findings::CONDITIONS);
    document.paragraph(
        "inject_coeff says how much is injected: less than ten sectors of others for so many of its own. The proposal sets it to 1. \
         Its comment gives, for some values, the share of the service that is injected in a slot:",
    );
    document.table(coefficients_table(five));
    conclude(document, &readers, &findings::COEFFICIENTS);
}

/// Returns hw_tag, which says whether BFQ found that the device queues commands.
fn hw_tag(run: &RunResult) -> Option<u64> {
    run.scheduler.counters.iter().find(|(key, _)| key == "hw_tag").map(|(_, on)| *on)
}

fn figures(five: &Five, parameters: &Parameters) -> Vec<Figure> {
    let row = |name: &str, key: Option<&str>, ours, note: &str| Figure {
        name: name.into(),
        unit: "MB/s".into(),
        expected: key.map(|key| parameters.number(key)),
        ours,
        note: note.into(),
    };
    let of = |setting| megabytes(five.of(setting));
    let gain = Figure {
        name: "gain of the proposal".into(),
        unit: "%".into(),
        expected: Some(percent_off(parameters.number("published.with"), parameters.number("published.before"))),
        ours: percent_off(of(SEED), of(OFF)),
        note: "the mail calls it 400 %".into(),
    };
    vec![
        row("one process alone", None, five.curve[0].1, "fitted to the next row"),
        row("bfq before (inject=off)", Some("published.before"), of(OFF), "follows from it; else BFQ of 6.18"),
        row("none", Some("published.none"), of(NONE), "predicted, even service times"),
        row(
            "none, exponential",
            Some("published.none"),
            megabytes(&five.exponential),
            "predicted, other service times",
        ),
        row("bfq with the proposal (inject=seed)", Some("published.with"), of(SEED), "predicted; else BFQ of 6.18"),
        gain,
        // Less than a tenth of a megabyte is chance.
        row(
            "and below none",
            Some("published.below_none"),
            ((of(NONE) - of(SEED)) * 10.0).round() / 10.0 + 0.0,
            "predicted",
        ),
        row("bfq since 5.2 (inject=limit)", None, of(LIMIT), "predicted"),
        row("ours (inject=fair)", None, of(FAIR), "predicted"),
    ]
}

/// Returns the throughput and each reader's share, a row per setting.
pub(super) fn shares_table(five: &Five) -> Table {
    let jobs = &five.of(NONE).jobs;
    let names = ["setting", "MB/s", "in device"].map(str::to_owned).into_iter();
    let header = names.chain(jobs.iter().map(|job| job.name.clone())).chain(["Jain's index".to_owned()]).collect();
    let mut table = Table { header, ..Table::default() };
    let percents = |shares: Vec<f64>| shares.into_iter().map(|share| format!("{:.1}%", 100.0 * share));
    let due = percents(shares(five.of(NONE)).shares.iter().map(|share| share.by_weight).collect());
    let mut first = vec!["share due".to_owned(), String::new(), String::new()];
    first.extend(due);
    first.push("1".to_owned());
    table.rows.push(first);
    for (setting, run) in &five.runs {
        let mut row = vec![
            setting.name.to_owned(),
            format!("{:.1}", megabytes(run)),
            format!("{:.2}", run.disk.mean_in_device()),
        ];
        row.extend(percents(shares(run).shares.iter().map(|share| share.bandwidth.got).collect()));
        row.push(format!("{:.4}", jain(run)));
        table.rows.push(row);
    }
    table
}

/// Returns a scatter plot; points that would cover each other share one label.
fn scatter(five: &Five) -> Plot {
    let at = |run: &RunResult| (100.0 * (1.0 - jain(run)), megabytes(run));
    let axis = |title: &str, unit| Axis { title: title.into(), scale: Scale::Linear, unit };
    let series = five.runs.iter().enumerate().map(|(index, (setting, run))| {
        let ((x, y), name) = (at(run), setting.name.to_owned());
        Series {
            name: name.clone(),
            colour: index,
            points: vec![(x, y * 1e6)],
            labels: vec![name],
            ..Series::default()
        }
    });
    Plot {
        title: "Throughput against unfairness".into(),
        description: "Five readers by weight; unfairness is 1 less Jain's index. Up is faster, left is fairer.".into(),
        mark: Mark::Points,
        x: axis("unfairness", Unit::Percent),
        y: axis("throughput", Unit::BytesPerSecond),
        series: series.collect(),
    }
}

fn coefficients_table(five: &Five) -> Table {
    let mut table = Table::new(["inject_coeff", "injected, by the comment", "MB/s", "in device", "Jain's index"]);
    for (coefficient, share, run) in &five.coefficients {
        table.row([
            &coefficient.to_string(),
            &format!("{share} %"),
            &format!("{:.1}", megabytes(run)),
            &format!("{:.2}", run.disk.mean_in_device()),
            &format!("{:.4}", jain(run)),
        ]);
    }
    table
}

fn conditions_table(five: &Five) -> Table {
    let mut table = Table::new(["inject=seed", "MB/s", "in device", "hw_tag", "Jain's index"]);
    for (name, run) in &five.conditions {
        table.row([
            name,
            &format!("{:.1}", megabytes(run)),
            &format!("{:.2}", run.disk.mean_in_device()),
            &hw_tag(run).map_or_else(|| "-".to_owned(), |on| on.to_string()),
            &format!("{:.4}", jain(run)),
        ]);
    }
    table
}
