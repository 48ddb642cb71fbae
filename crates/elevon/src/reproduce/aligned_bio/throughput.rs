//! Sequential throughput: the cost of a command is calibrated on the baseline, and the improved
//! figures are predicted from it.

use elevon_core::build::Fill;
use elevon_report::compare::Variant;
use elevon_report::document::{Document, Table};
use elevon_report::html;
use elevon_report::plot::{Axis, Mark, Plot, Scale, Series, Unit};
use elevon_report::result::RunResult;
use elevon_report::summary::{DiskDelta, bandwidth, total};
use elevon_report::text::Figure;

use super::PARAMETERS;
use super::summary::{OF_DIRECTION, Summaries, Summary, WHY};
use crate::failure::{Failure, MachineError};
use crate::reproduce::conclusions::{conclude, percent_off, range};
use crate::reproduce::lab::{Job, Lab, job};
use crate::reproduce::parameters::Parameters;

const SEQUENTIAL: Job = job!("aligned-bio/sequential.fio");

/// Bytes of the queue's limit, and of most requests.
const REQUEST: f64 = 524_288.0;

/// A link rate in bytes per second, and the cost of a command in nanoseconds that fits it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    pub(super) link: f64,
    pub(super) cost: u64,
}

/// One direction: published figures, fit, and runs.
pub(super) struct DirectionResult {
    pub(super) name: &'static str,
    pub(super) published: [f64; 3],
    pub(super) fit: Fit,
    /// The calibrated run.
    pub(super) full: RunResult,
    /// The predicted runs.
    pub(super) max_sectors: RunResult,
    pub(super) trim: RunResult,
    /// Runs on the memory that was chosen for the third measurement: with the baseline's fill, and
    /// trimmed to 256 KiB.
    pub(super) paired_full: RunResult,
    pub(super) aligned: RunResult,
    /// The baseline on Linux 6.18, and on 7.0, which fills bios by folio.
    later_kernel: RunResult,
    folio_kernel: RunResult,
    pub(super) sensitivity: Vec<Sensitivity>,
}

/// The predictions under another assumption.
pub(super) struct Sensitivity {
    what: String,
    pub(super) fit: Fit,
    /// Elevon's figure divided by the published one: 512 KiB only, then aligned to 256 KiB.
    pub(super) predicted: [f64; 2],
    /// Gain of alignment to 256 KiB over the baseline's fill on the same memory.
    pub(super) aligned_gain: f64,
    unit: f64,
}

pub(super) struct Throughput {
    pub(super) directions: [DirectionResult; 2],
    /// Cost of a command, in microseconds, for a model in which only the order of requests matters.
    order_only_us: f64,
}

/// Returns MB/s of a run.
pub(super) fn rate(run: &RunResult) -> f64 {
    bandwidth(&total(run)) / 1e6
}

/// Runs of one direction.
struct Bench<'a> {
    lab: &'a Lab,
    parameters: &'a Parameters,
    name: &'static str,
}

impl Bench<'_> {
    fn run_on(&self, fit: Fit, fill: Fill, memory: &str, stack: &str) -> Result<RunResult, Failure> {
        let (name, link, cost) = (self.name, fit.link.round(), fit.cost);
        let profile = self.parameters.text("device.profile");
        let memory = self.parameters.text(memory);
        let options = format!(
            "--device {profile}:{name}_link={link}B/s,{name}_command_cost={cost}ns {stack} --set fill={} --buffers {memory}",
            fill.name()
        );
        self.lab.run(SEQUENTIAL, &[("RW", name)], &options)
    }

    fn run(&self, fit: Fit, fill: Fill, memory: &str) -> Result<RunResult, Failure> {
        self.run_on(fit, fill, memory, self.parameters.text("stack.options"))
    }

    /// Returns the fit of a family whose baseline gives `target` MB/s. The time of a run grows
    /// almost linearly with the family's parameter, so the bracket is narrowed by linear
    /// interpolation.
    fn calibrate(&self, target: f64, bracket: (u64, u64), family: impl Fn(u64) -> Fit) -> Result<Fit, Failure> {
        let time =
            |x: u64| -> Result<f64, Failure> { Ok(1.0 / rate(&self.run(family(x), Fill::Full, "memory.usual")?)) };
        let (mut low, mut high) = ((bracket.0, time(bracket.0)?), (bracket.1, time(bracket.1)?));
        let wanted = 1.0 / target;
        if !(low.1..=high.1).contains(&wanted) {
            return Err(MachineError::NoParameter { experiment: self.name.to_owned(), target }.into());
        }
        while high.0 - low.0 > 1 {
            let share = (wanted - low.1) / (high.1 - low.1);
            let guess = low.0 + (share * (high.0 - low.0) as f64).round() as u64;
            let guess = guess.clamp(low.0 + 1, high.0 - 1);
            let at = (guess, time(guess)?);
            if (at.1 / wanted - 1.0).abs() < 2e-5 {
                return Ok(family(guess));
            }
            if at.1 < wanted { low = at } else { high = at }
        }
        Ok(family(if wanted - low.1 < high.1 - wanted { low.0 } else { high.0 }))
    }

    fn sensitivity(&self, published: [f64; 3]) -> Result<Vec<Sensitivity>, Failure> {
        let number = |key: &str| self.parameters.number(&format!("device.{key}"));
        let links: &[(&str, &str)] = match self.name {
            "read" => &[("Micron's read spec", "micron_read"), ("Samsung's read spec", "samsung_read")],
            _ => &[
                ("Micron's read spec", "micron_read"),
                ("Samsung's read spec", "samsung_read"),
                ("Micron's write spec", "micron_write"),
                ("Samsung's write spec", "samsung_write"),
            ],
        };
        let mut rows = Vec::new();
        let mut add = |what: String, fit: Fit, unit: f64| -> Result<(), Failure> {
            let only = rate(&self.run(fit, Fill::MaxSectors, "memory.usual")?);
            let aligned = rate(&self.run(fit, Fill::Trim256K, "memory.paired")?);
            let paired_full = rate(&self.run(fit, Fill::Full, "memory.paired")?);
            let predicted = [only / unit / published[1], aligned / unit / published[2]];
            rows.push(Sensitivity { what, fit, predicted, aligned_gain: aligned / paired_full, unit });
            Ok(())
        };
        for (what, key) in links {
            let link = number(key) * 1e6;
            let fit = self.calibrate(published[0], (0, 400_000), |cost| Fit { link, cost })?;
            add(what.to_string(), fit, 1.0)?;
        }
        let share = number("cost_per_transfer");
        let ratio = |x: u64| Fit { link: REQUEST * 1e9 / x as f64, cost: (x as f64 * share) as u64 };
        add("cost 2/3 of transfer time".into(), self.calibrate(published[0], (20_000, 400_000), ratio)?, 1.0)?;
        let (link, mebi) = (number("link") * 1e6, 1.048_576);
        let fit = self.calibrate(published[0] * mebi, (0, 400_000), |cost| Fit { link, cost })?;
        add("line rate, MB of 2^20 bytes".into(), fit, mebi)?;
        Ok(rows)
    }

    fn measure(&self) -> Result<DirectionResult, Failure> {
        let name = self.name;
        let number = |key: &str| self.parameters.number(key);
        let published = ["full", "max_sectors", "trim_256k"].map(|fill| number(&format!("published.{name}_{fill}")));
        let link = number("device.link") * 1e6;
        let fit = self.calibrate(published[0], (0, 400_000), |cost| Fit { link, cost })?;
        Ok(DirectionResult {
            name,
            published,
            fit,
            full: self.run(fit, Fill::Full, "memory.usual")?,
            max_sectors: self.run(fit, Fill::MaxSectors, "memory.usual")?,
            trim: self.run(fit, Fill::Trim, "memory.usual")?,
            paired_full: self.run(fit, Fill::Full, "memory.paired")?,
            aligned: self.run(fit, Fill::Trim256K, "memory.paired")?,
            later_kernel: self.run_on(fit, Fill::Full, "memory.usual", "--kernel 6.18 --set direct_path=iomap")?,
            folio_kernel: self.run_on(fit, Fill::Full, "memory.usual", "--kernel 7.0 --set direct_path=iomap")?,
            sensitivity: self.sensitivity(published)?,
        })
    }
}

pub(super) fn measure(lab: &Lab) -> Result<Throughput, Failure> {
    let parameters = Parameters::parse(PARAMETERS);
    let bench = |name| Bench { lab, parameters: &parameters, name };
    let order_only_us = parameters.number("device.order_only_us");
    Ok(Throughput { directions: [bench("read").measure()?, bench("write").measure()?], order_only_us })
}

fn us(nanoseconds: u64) -> String {
    format!("{:.1} us", nanoseconds as f64 / 1e3)
}

pub(super) fn report(document: &mut Document, throughput: &Throughput) {
    document.heading("4. Sequential throughput: 72 calls of 64 MiB by aio");
    let [read, write] = &throughput.directions;
    document.paragraph(format!(
        "The device serves a command in its transfer time at the link's line rate ({:.0} MB/s, from the standard) and a cost of \
         its own. That cost is calibrated on the published baseline, {} for a read and {} for a write. The rows of fill=max-sectors \
         and fill=trim follow from it and were given no published figure. Of the third measurement (trim-256k) the published \
         size of bios was given: memory as scattered as in the proposal's traces cannot make bios of 1792 KiB, so its rows run on \
         memory that is mostly pairs of pages (\"paired\"), chosen with that measurement at hand.",
        read.fit.link / 1e6,
        us(read.fit.cost),
        us(write.fit.cost),
    ));
    let rows = throughput.directions.iter().flat_map(figures).collect();
    document.figures("Sequential throughput", "published", rows);
    let summary = throughput.summary();
    summary.directions.iter().for_each(|direction| conclude(document, direction, &OF_DIRECTION));
    device_table(document, throughput);
    [&read.max_sectors, &write.max_sectors, &read.paired_full, &read.aligned]
        .into_iter()
        .for_each(|run| document.command(&run.command));
    plots(document, throughput);
    conclude(document, &summary, &WHY);
    document.paragraph(
        "Nothing published says how the loss divides into commands, order and the host: mapping for DMA and inline encryption \
         cost time per request in the host too. The thread adds that some bios of the third measurement were still misaligned; \
         ours are all aligned but the last of each call.",
    );
    sensitivity_table(document, throughput);
}

fn figures(direction: &DirectionResult) -> Vec<Figure> {
    let row = |name: &str, expected, run: &RunResult, note: &str| Figure {
        name: format!("{}, {name}", direction.name),
        unit: "MB/s".into(),
        expected,
        ours: rate(run),
        note: note.into(),
    };
    let [full, max_sectors, aligned] = direction.published;
    let gain = |name: &str, expected: f64, ours: f64, note: &str| Figure {
        name: format!("{}, gain of {name}", direction.name),
        unit: "%".into(),
        expected: Some(percent_off(expected, full)),
        ours,
        note: note.into(),
    };
    let ours = direction.summary();
    vec![
        row("fill=full", Some(full), &direction.full, "calibrated"),
        row("fill=max-sectors", Some(max_sectors), &direction.max_sectors, "predicted"),
        row("fill=trim", None, &direction.trim, "predicted"),
        row("fill=full, kernel 6.18", None, &direction.later_kernel, "predicted"),
        row("fill=full, kernel 7.0", None, &direction.folio_kernel, "predicted"),
        gain("max-sectors", max_sectors, ours.gain(), "predicted"),
        row("fill=full, paired", None, &direction.paired_full, "predicted"),
        row("fill=trim-256k, paired", Some(aligned), &direction.aligned, "memory chosen for it"),
        gain("trim-256k, paired", aligned, ours.aligned_gain(), "both on that memory"),
    ]
}

impl DirectionResult {
    pub(super) fn summary(&self) -> Summary {
        let shares = |at: usize| {
            let main = [rate(&self.max_sectors) / self.published[1], rate(&self.aligned) / self.published[2]][at];
            range(self.sensitivity.iter().map(|row| row.predicted[at]).chain([main]))
        };
        let main_gain = rate(&self.aligned) / rate(&self.paired_full);
        let gains = range(self.sensitivity.iter().map(|row| row.aligned_gain).chain([main_gain]));
        let commands = |run: &RunResult| run.disk.all_request_sizes().total();
        Summary {
            name: self.name,
            published: self.published,
            full: rate(&self.full),
            max_sectors: rate(&self.max_sectors),
            paired_full: rate(&self.paired_full),
            aligned: rate(&self.aligned),
            shares: [shares(0), shares(1)],
            aligned_gains: (100.0 * (gains.0 - 1.0), 100.0 * (gains.1 - 1.0)),
            paired_commands: [commands(&self.paired_full), commands(&self.aligned)],
        }
    }
}

impl Throughput {
    pub(super) fn summary(&self) -> Summaries {
        let directions = self.directions.each_ref().map(DirectionResult::summary);
        let order_only = REQUEST / (self.order_only_us + REQUEST / (self.directions[0].fit.link / 1e6));
        Summaries { directions, order_only_us: self.order_only_us, order_only }
    }
}

fn device_table(document: &mut Document, throughput: &Throughput) {
    let mut table =
        Table::new(["what the device saw", "requests", "mean KiB", "splits", "tails", "merges", "in flight"]);
    for d in &throughput.directions {
        for (name, run) in [
            ("fill=full", &d.full),
            ("fill=max-sectors", &d.max_sectors),
            ("fill=trim", &d.trim),
            ("fill=full, paired", &d.paired_full),
            ("fill=trim-256k, paired", &d.aligned),
        ] {
            let (sizes, c) = (run.disk.all_request_sizes(), run.disk.counters);
            let in_flight = DiskDelta::between(&run.disk.start, &run.disk.end).mean_in_flight;
            table.row([
                &format!("{}, {name}", d.name),
                &sizes.total().to_string(),
                &format!("{:.1}", mean_kib(run)),
                &c.splits.to_string(),
                &c.tails.to_string(),
                &c.merges.to_string(),
                &format!("{in_flight:.1}"),
            ]);
        }
    }
    document.table(table);
}

fn mean_kib(run: &RunResult) -> f64 {
    let sizes = run.disk.all_request_sizes();
    sizes.bytes() as f64 / sizes.total() as f64 / 1024.0
}

fn sensitivity_table(document: &mut Document, throughput: &Throughput) {
    document.heading("5. How much hangs on the link rate");
    document.paragraph(
        "The same calibration under other assumptions, each fitted to the same baseline; then max-sectors and trim-256k (paired \
         memory), in brackets their difference from what was published, and what trim-256k gains on that memory.",
    );
    let mut table = Table::new(["assumption", "link MB/s", "cost", "max-sectors", "trim-256k", "its gain"]);
    for d in &throughput.directions {
        let main = Sensitivity {
            what: "line rate, as above".into(),
            fit: d.fit,
            predicted: [rate(&d.max_sectors) / d.published[1], rate(&d.aligned) / d.published[2]],
            aligned_gain: rate(&d.aligned) / rate(&d.paired_full),
            unit: 1.0,
        };
        for row in std::iter::once(&main).chain(&d.sensitivity) {
            let shown = |at: usize| {
                let (share, published) = (row.predicted[at], d.published[at + 1]);
                format!("{:.0} ({:+.1} %)", share * published * row.unit, 100.0 * (share - 1.0))
            };
            table.row([
                &format!("{}: {}", d.name, row.what),
                &format!("{:.0}", row.fit.link / 1e6),
                &us(row.fit.cost),
                &shown(0),
                &shown(1),
                &format!("{:+.1} %", 100.0 * (row.aligned_gain - 1.0)),
            ]);
        }
    }
    document.table(table);
}

fn plots(document: &mut Document, throughput: &Throughput) {
    let axis = |title: &str, unit| Axis { title: title.into(), scale: Scale::Linear, unit };
    for d in &throughput.directions {
        let runs = [&d.full, &d.aligned, &d.max_sectors];
        let labels = ["full", "trim-256k", "max-sectors"].map(str::to_owned).to_vec();
        let points = |rates: [f64; 3]| runs.iter().zip(rates).map(|(r, mb)| (mean_kib(r) * 1024.0, mb * 1e6)).collect();
        let [full, only, aligned] = d.published;
        document.plot(Plot {
            title: format!("Sequential {}: throughput by mean request size", d.name),
            description:
                "The baseline is calibrated and lies on the published point; trim-256k runs on memory that was \
                          chosen for it. Sizes are those of our runs for both."
                    .into(),
            mark: Mark::Points,
            x: axis("mean request size", Unit::KiB),
            y: axis("throughput", Unit::BytesPerSecond),
            series: vec![
                Series {
                    name: "published".into(),
                    colour: 0,
                    points: points([full, aligned, only]),
                    labels: labels.clone(),
                    ..Series::default()
                },
                Series { name: "ours".into(), colour: 1, points: points(runs.map(rate)), labels, ..Series::default() },
            ],
        });
    }
    let read = &throughput.directions[0];
    document.plot(html::request_sizes_plot(&[
        Variant { label: "fill=full", result: &read.full },
        Variant { label: "fill=max-sectors", result: &read.max_sectors },
        Variant { label: "fill=trim-256k", result: &read.aligned },
    ]));
}
