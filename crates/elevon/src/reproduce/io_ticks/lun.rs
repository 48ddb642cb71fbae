//! The proposal's disk: it shows 69 % although it is always busy; these runs find the conditions
//! for that.

use elevon_core::kernel::IoTicksForm;
use elevon_report::compare::Variant;
use elevon_report::document::{Document, Table};
use elevon_report::html;
use elevon_report::plot::{Axis, Mark, Plot, Scale, Series, Unit};
use elevon_report::result::RunResult;
use elevon_report::summary::{iops, latency_deviation, latency_mean, total};
use elevon_report::text::Figure;
use elevon_sim::profiles;

use super::findings::{self, Disk};
use super::{PARAMETERS, delta, utilisation};
use crate::failure::Failure;
use crate::reproduce::conclusions::conclude;
use crate::reproduce::lab::{Job, Lab, job};
use crate::reproduce::parameters::Parameters;

const ONE: Job = job!("io-ticks/one-submitter.fio");
const TWO: Job = job!("io-ticks/two-submitters.fio");
const INDEPENDENT: Job = job!("io-ticks/independent.fio");

/// Rhythm of the limiter, in seconds: the length of a slice, and how long the disk stalls in each
/// slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rhythm {
    pub(super) period: f64,
    pub(super) stall: f64,
}

pub(super) struct Lun {
    pub(super) rhythm: Rhythm,
    /// Starts per second of the slow job by the closed form, not rounded.
    pub(super) fitted: f64,
    pub(super) starts: u64,
    pub(super) alone: RunResult,
    /// Both submitters, accounted by each form.
    pub(super) both: [RunResult; 4],
    /// Both submitters at other tick rates, as (HZ, run).
    pub(super) tick_rates: Vec<(u32, RunResult)>,
    /// Percent busy of the sampled form with other random seeds.
    pub(super) seeds: Vec<f64>,
    /// (Starts per second, sampled percent), ascending.
    pub(super) sweep: Vec<(u64, f64)>,
    /// (Starts per second, run) with starts that are independent of completions.
    pub(super) independent: Vec<(u64, RunResult)>,
    parameters: Parameters,
}

impl Rhythm {
    /// Returns the percentage that the sampled form shows if other jobs start `rate` requests per
    /// second: in each stall, the time up to the last start is lost except for a jiffy.
    pub(super) fn sampled(self, rate: f64) -> f64 {
        let lost = self.stall - (1.0 - libm::exp(-rate * self.stall)) / rate;
        100.0 * (1.0 - lost / self.period)
    }

    /// Returns the rate at which the sampled form shows `percent`, which falls with the rate.
    pub(super) fn rate_for(self, percent: f64) -> f64 {
        let (mut low, mut high) = (1e-6, 1e3);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if self.sampled(middle) > percent { low = middle } else { high = middle }
        }
        low
    }
}

/// Returns the percentage that the sampled form shows if starts and completions are independent
/// Poisson processes: half of the time precedes a completion and is counted; the other half
/// precedes a start and counts one jiffy.
pub(super) fn sampled_independent(rate: f64, hz: f64) -> f64 {
    50.0 + 50.0 * (1.0 - libm::exp(-2.0 * rate / hz))
}

pub(super) fn measure(lab: &Lab) -> Result<Lun, Failure> {
    let parameters = Parameters::parse(PARAMETERS);
    let number = |key: &str| parameters.number(key);
    let config = profiles::profile("raid-lun-1q").and_then(|profile| profile.lun_config("").ok().flatten());
    let config = config.expect("the profile is a LUN");
    let period = config.slice as f64 / 1e9;
    let burst = config.slice_requests as f64 * number("lun.host_us") / 1e6;
    let rhythm = Rhythm { period, stall: period - burst };
    let fitted = rhythm.rate_for(number("published.util_without"));
    let starts = fitted.round() as u64;

    let (stack, hz) = (parameters.text("lun.stack"), number("lun.hz"));
    let two = |starts: u64, more: &str| lab.run(TWO, &[("STARTS", &starts.to_string())], &format!("{stack} {more}"));
    let form = |form: IoTicksForm| two(starts, &format!("--set hz={hz} --set io_ticks={}", form.name()));
    let [a, b, c, d] = IoTicksForm::ALL.map(form);
    let both = [a?, b?, c?, d?];
    let sampled = |run: Result<RunResult, Failure>| run.map(|run| utilisation(&run)[0]);
    let mut sweep = vec![(starts, utilisation(&both[0])[0])];
    for rate in parameters.numbers("lun.sweep") {
        sweep.push((rate, sampled(two(rate, &format!("--set hz={hz}")))?));
    }
    sweep.sort_by_key(|&(rate, _)| rate);
    let seeds = parameters.numbers("lun.seeds").into_iter();
    let seeds = seeds.map(|seed| sampled(two(starts, &format!("--set hz={hz} --seed {seed}"))));
    let tick_rates = [100, 250].into_iter().map(|hz| Ok((hz, two(starts, &format!("--set hz={hz}"))?)));
    let independent = parameters.numbers("independent.rates").into_iter().map(|rate| {
        let run = lab.run(INDEPENDENT, &[("RATE", &rate.to_string())], parameters.text("independent.stack"))?;
        Ok((rate, run))
    });
    Ok(Lun {
        rhythm,
        fitted,
        starts,
        alone: lab.run(ONE, &[], &format!("{stack} --set hz={hz}"))?,
        tick_rates: tick_rates.collect::<Result<_, Failure>>()?,
        seeds: seeds.collect::<Result<_, Failure>>()?,
        independent: independent.collect::<Result<_, Failure>>()?,
        both,
        sweep,
        parameters,
    })
}

impl Lun {
    /// Returns the figures for conclusions.
    pub(super) fn disk(&self) -> Disk {
        let published = |key: &str| self.parameters.number(&format!("published.{key}"));
        let run = &self.both[0];
        let delta = delta(run);
        let job = &run.jobs[0].stats.directions[0];
        let other = self.independent.iter().find(|(rate, _)| *rate as f64 == published("v1_rate"));
        let alike = self.both.iter().all(|other| other.jobs.iter().zip(&run.jobs).all(|(a, b)| a.stats == b.stats));
        Disk {
            depth: self.parameters.number("lun.depth"),
            alone: utilisation(&self.alone),
            both: utilisation(run),
            published_util: published("util_without"),
            seeds: self.seeds.iter().copied().chain([utilisation(run)[0]]).collect(),
            rate: [published("iops_without"), delta.fields[0] as f64 / delta.seconds],
            mean_ms: [published("lat_mean_us") / 1e3, latency_mean(&job.lat) / 1e6],
            await_ms: delta.fields[3] as f64 / delta.fields[0] as f64,
            most_ms: [published("lat_max_us") / 1e3, job.lat.max as f64 / 1e6],
            forms_alike: alike,
            other: [
                published("v1_util"),
                sampled_independent(published("v1_rate"), 1000.0),
                other.map_or(f64::NAN, |(_, run)| utilisation(run)[0]),
            ],
        }
    }
}

pub(super) fn report(document: &mut Document, lun: &Lun) {
    document.heading("2. The disk that shows 69 %");
    let disk = lun.disk();
    conclude(document, &disk, &findings::ALONE);
    let mut table = Table::new(["%util, HZ 1000", "sampled", "inflight", "precise", "exact"]);
    let mut row = |name: &str, run: &RunResult| {
        let [a, b, c, d] = utilisation(run).map(|percent| format!("{percent:.2}"));
        table.row([name, &a, &b, &c, &d]);
    };
    row("the job alone", &lun.alone);
    row(&format!("and {} slow starts a second", lun.starts), &lun.both[0]);
    document.table(table);
    document.paragraph(format!(
        "Let somebody else on the same disk start requests in the stalls. Of a stall of {:.0} ms in each {:.0} the sampled \
         form then loses what lies before the last such start. By the closed form, 1 - (S - (1 - exp(-bS))/b)/P, {} % \
         is b = {:.2} starts a second, and {} were run: the one number fitted to the published utilisation. The mail's first \
         row is of sda, so a system disk with a few I/Os a second is a plausible cause; the mail does not say.",
        lun.rhythm.stall * 1e3,
        lun.rhythm.period * 1e3,
        disk.published_util,
        lun.fitted,
        lun.starts,
    ));
    document.figures("Proposal 003", "published", figures(lun));
    document.command(&lun.both[0].command);
    conclude(document, &disk, &findings::DISK);
    forms_table(document, lun);
    sweep_tables(document, lun);
    independent_table(document, lun);
}

fn figures(lun: &Lun) -> Vec<Figure> {
    let published = |key: &str| Some(lun.parameters.number(&format!("published.{key}")));
    let row = |name: &str, unit: &str, expected, ours, note: &str| Figure {
        name: name.into(),
        unit: unit.into(),
        expected,
        ours,
        note: note.into(),
    };
    let run = &lun.both[0];
    let (delta, busy) = (delta(run), utilisation(run));
    let reads = delta.fields[0] as f64;
    let (rate, wait) = (reads / delta.seconds, delta.fields[3] as f64 / reads);
    let in_flight = |iops: &str, wait: &str| published(iops).zip(published(wait)).map(|(a, b)| a * b / 1e3);
    let lat = &run.jobs[0].stats.directions[0].lat;
    let disk = &run.disk.stages[0].dispatched_to_completed;
    vec![
        row("%util without the fix", "%", published("util_without"), busy[0], "sampled; calibrated"),
        row("%util with the proposal's fix", "%", published("util_with"), busy[1], "inflight; predicted"),
        row("%util on 6.10 and later", "%", None, busy[2], "precise; predicted"),
        row("%util in nanoseconds", "%", None, busy[3], "exact"),
        row("r/s without", "1/s", published("iops_without"), rate, "the limit; fitted"),
        row("r/s with", "1/s", published("iops_with"), rate, "the same run"),
        row("r_await without", "ms", published("await_without"), wait, "fitted"),
        row("r_await with", "ms", published("await_with"), wait, "the same run"),
        row("rareq-sz", "KiB", published("request_kib"), delta.fields[2] as f64 / 2.0 / reads, ""),
        row("in flight without", "", in_flight("iops_without", "await_without"), delta.mean_in_flight, "r/s x r_await"),
        row("the disk's latency, min", "us", published("lat_min_us"), disk.min as f64 / 1e3, "beside fio's"),
        row("fio's latency, min", "us", published("lat_min_us"), lat.min as f64 / 1e3, ""),
        row("fio's latency with, min", "us", published("lat_min_us_with"), lat.min as f64 / 1e3, "the same run"),
        row("fio's latency, mean", "us", published("lat_mean_us"), latency_mean(lat) / 1e3, ""),
        row("fio's latency with, mean", "us", published("lat_mean_us_with"), latency_mean(lat) / 1e3, "the same run"),
        row("fio's latency, stdev", "us", published("lat_stdev_us"), latency_deviation(lat) / 1e3, ""),
        row(
            "fio's latency with, stdev",
            "us",
            published("lat_stdev_us_with"),
            latency_deviation(lat) / 1e3,
            "the same run",
        ),
        row("fio's latency, max", "us", published("lat_max_us"), lat.max as f64 / 1e3, ""),
        row("fio's latency with, max", "us", published("lat_max_us_with"), lat.max as f64 / 1e3, "the same run"),
    ]
}

fn forms_table(document: &mut Document, lun: &Lun) {
    conclude(document, &lun.disk(), &findings::FORMS);
    let mut table = Table::new(["io_ticks=", "%util", "I/Os", "IOPS of the job", "mean latency ms"]);
    for (form, run) in IoTicksForm::ALL.into_iter().zip(&lun.both) {
        let job = &run.jobs[0].stats.directions[0];
        table.row([
            form.name(),
            &format!("{:.2}", delta(run).io_ticks_percent()),
            &total(run).ios.to_string(),
            &format!("{:.2}", iops(job)),
            &format!("{:.4}", latency_mean(&job.lat) / 1e6),
        ]);
    }
    document.table(table);
}

fn sweep_tables(document: &mut Document, lun: &Lun) {
    document.paragraph(
        "Other tick rates, and other rates of slow starts with the closed form beside them (no jiffy in it):",
    );
    let mut table = Table::new(["%util at", "sampled", "inflight", "precise", "exact"]);
    let main = (lun.parameters.number("lun.hz") as u32, &lun.both[0]);
    for (hz, run) in lun.tick_rates.iter().map(|(hz, run)| (*hz, run)).chain([main]) {
        let [a, b, c, d] = utilisation(run).map(|percent| format!("{percent:.2}"));
        table.row([&format!("HZ {hz}"), &a, &b, &c, &d]);
    }
    document.table(table);
    let rows = lun.sweep.iter().map(|&(rate, ours)| Figure {
        name: format!("{rate} starts a second"),
        unit: "%".into(),
        expected: Some(lun.rhythm.sampled(rate as f64)),
        ours,
        note: String::new(),
    });
    document.figures("Sampled, HZ 1000", "closed form", rows.collect());
    plots(document, lun);
}

fn independent_table(document: &mut Document, lun: &Lun) {
    document.heading("3. Starts that know nothing of ends");
    let number = |key: &str| lun.parameters.number(key);
    let disk = lun.disk();
    let [_, closed, ours] = disk.other;
    document.paragraph(format!(
        "V1 of the patch shows another disk: one of 12 LUNs under 12 jobs, {} requests a second, 11 in flight, {} %util. With \
         random starts that are independent of its ends nothing needs to be fitted: half of the gaps end with a start and \
         count for one jiffy. It should have shown {closed:.1} % by the closed form, 50 + 50 (1 - exp(-2 rate/HZ)), and {ours:.1} % \
         by the run below.",
        number("published.v1_rate"),
        number("published.v1_util"),
    ));
    conclude(document, &disk, &findings::OTHER);
    let rows = lun.independent.iter().map(|(rate, run)| Figure {
        name: format!("{rate} starts a second"),
        unit: "%".into(),
        expected: Some(sampled_independent(*rate as f64, 1000.0)),
        ours: utilisation(run)[0],
        note: format!("exact {:.1} %, in flight {:.1}", utilisation(run)[3], delta(run).mean_in_flight),
    });
    document.figures("Sampled, HZ 1000", "closed form", rows.collect());
    let (_, run) = &lun.independent[0];
    document.command(&run.command);
}

fn plots(document: &mut Document, lun: &Lun) {
    let axis = |title: &str, unit| Axis { title: title.into(), scale: Scale::Linear, unit };
    let curve = (1..=75).map(|fifth| f64::from(fifth) / 5.0).map(|rate| (rate, lun.rhythm.sampled(rate)));
    let ours = lun.sweep.iter().map(|&(rate, percent)| (rate as f64, percent));
    let line = |name: &str, colour, points| Series { name: name.into(), colour, points, ..Series::default() };
    document.plot(Plot {
        title: "%util of a disk that is always busy".into(),
        description: "What the sampled form shows when somebody else starts a few I/Os a second on the same disk."
            .into(),
        mark: Mark::Line,
        x: axis("slow starts a second", Unit::Count),
        y: axis("utilisation, sampled", Unit::Percent),
        series: vec![line("closed form", 0, curve.collect()), line("ours", 1, ours.collect())],
    });
    document.plot(html::latency_plot(&[
        Variant { label: "the job alone", result: &lun.alone },
        Variant { label: "with slow starts", result: &lun.both[0] },
    ]));
}
