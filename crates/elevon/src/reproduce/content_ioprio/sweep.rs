//! One job with every form of `activity=` and the controls, on several stacks and with several
//! random seeds.

use elevon_report::document::Table;
use elevon_report::interval::{Interval, RatioInterval};
use elevon_report::result::{CacheSource, RunResult};

use crate::failure::Failure;
use crate::reproduce::lab::{Job, Lab};

/// What decides which bios are RT: first mainline, then the proposal's main form. The last arm
/// promotes at random the share of bios that `iter-bio` made RT on the same stack with the same
/// seed.
pub(super) const ARMS: [&str; 7] = ["off", "iter-bio", "add-page", "page-exact", "oracle", "faults", "random"];

/// A device with a scheduler.
#[derive(Clone, Debug)]
pub(super) struct Rig {
    pub(super) device: String,
    pub(super) scheduler: &'static str,
}

impl Rig {
    /// The profile's name.
    pub(super) fn profile(&self) -> &str {
        self.device.split(':').next().unwrap_or_default()
    }

    /// Returns the name without fitted parameters.
    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.profile(), self.scheduler)
    }
}

/// Counts of a run's bios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bios {
    pub(super) all: u64,
    pub(super) promoted: u64,
    pub(super) raised: u64,
    pub(super) demoted: u64,
    pub(super) denied: u64,
    /// Of all bios, those of faults.
    pub(super) of_faults: u64,
    /// Bios of faults that became RT.
    pub(super) faults_promoted: u64,
}

/// Results of one arm.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    pub(super) arm: &'static str,
    /// Figures by seed.
    pub(super) figures: Vec<Vec<f64>>,
    /// Bios of all seeds.
    pub(super) bios: Bios,
    pub(super) command: String,
}

#[derive(Clone, Debug)]
pub(super) struct SweepRow {
    pub(super) place: Rig,
    pub(super) cells: Vec<Cell>,
}

/// The runs of a sweep.
pub(super) struct Sweep<'a> {
    pub(super) job: Job,
    pub(super) variables: Vec<(&'static str, &'a str)>,
    /// Options other than device, scheduler, seed and activity.
    pub(super) options: String,
    /// Places, with the random seeds of each.
    pub(super) places: Vec<(Rig, Vec<u64>)>,
    pub(super) figures: fn(&RunResult) -> Vec<f64>,
}

/// One run's figures, its bios, and the command that repeats it.
type RunFigures = (Vec<f64>, Bios, String);

/// Runs all sweeps and returns, by sweep, a row for each place.
pub(super) fn run(lab: &Lab, sweeps: &[Sweep<'_>]) -> Result<Vec<Vec<SweepRow>>, Failure> {
    let mut work = Vec::new();
    for sweep in sweeps {
        for (place, seeds) in &sweep.places {
            work.extend(seeds.iter().map(|&seed| (sweep, place, seed)));
        }
    }
    lab.expect(work.len() * ARMS.len());
    let mut outcomes = lab.map(&work, |(sweep, place, seed)| sweep.arms(lab, place, *seed))?.into_iter();
    let mut row = |place: &Rig, seeds: &[u64]| {
        let mut cells = ARMS.map(|arm| Cell { arm, ..Cell::default() }).to_vec();
        for outcome in outcomes.by_ref().take(seeds.len()) {
            cells.iter_mut().zip(outcome).for_each(|(cell, outcome)| cell.add(outcome));
        }
        SweepRow { place: place.clone(), cells }
    };
    Ok(sweeps.iter().map(|sweep| sweep.places.iter().map(|(place, seeds)| row(place, seeds)).collect()).collect())
}

impl Sweep<'_> {
    /// Returns the same sweep on a kernel without LRU_GEN, on the first device alone.
    pub(super) fn without_lru_gen(mut self) -> Self {
        self.options = self.options.replace(" --set min_ttl_ms=0", "") + " --set cache=classic";
        let first = self.places.first().map(|(place, _)| place.profile().to_owned());
        self.places.retain(|(place, _)| Some(place.profile()) == first.as_deref());
        self
    }

    /// Runs every arm at one place with one random seed.
    fn arms(&self, lab: &Lab, place: &Rig, seed: u64) -> Result<Vec<RunFigures>, Failure> {
        let mut done: Vec<RunFigures> = Vec::with_capacity(ARMS.len());
        for arm in ARMS {
            let outcome = if arm == "random" {
                let of_proposal = done[1].1;
                let permille = (of_proposal.promoted * 1000).div_ceil(of_proposal.all.max(1));
                // With a share of 0 the random arm is the same as `off`, which has already run.
                if permille == 0 {
                    lab.skip();
                    done[0].clone()
                } else {
                    self.one(lab, place, seed, &format!("random:{permille}"))?
                }
            } else {
                self.one(lab, place, seed, arm)?
            };
            done.push(outcome);
        }
        Ok(done)
    }

    /// Makes one run.
    pub(super) fn one(&self, lab: &Lab, place: &Rig, seed: u64, activity: &str) -> Result<RunFigures, Failure> {
        let Rig { device, scheduler } = place;
        let stack = format!("--device {device} --scheduler {scheduler} --seed {seed} {}", self.options);
        let run = lab.run(self.job, &self.variables, &format!("{stack} --set activity={activity}"))?;
        Ok(((self.figures)(&run), bios(&run), run.command))
    }
}

impl Bios {
    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.promoted += other.promoted;
        self.raised += other.raised;
        self.demoted += other.demoted;
        self.denied += other.denied;
        self.of_faults += other.of_faults;
        self.faults_promoted += other.faults_promoted;
    }
}

/// Returns the page cache's counts of a run's bios.
fn bios(run: &RunResult) -> Bios {
    let mut bios = Bios::default();
    for source in run.cache.iter().flat_map(|cache| &cache.sources) {
        let &CacheSource { bios: all, promoted, raised, demoted, denied, .. } = source;
        let [of_faults, faults_promoted] = if source.name == "fault" { [all, promoted] } else { [0, 0] };
        bios.add(Bios { all, promoted, raised, demoted, denied, of_faults, faults_promoted });
    }
    bios
}

impl SweepRow {
    pub(super) fn of(&self, arm: &str) -> &Cell {
        self.cells.iter().find(|cell| cell.arm == arm).expect("every arm was run")
    }

    /// Returns an arm's figure divided by the figure without activity, by random seed.
    pub(super) fn ratios(&self, arm: &str, figure: usize) -> Vec<f64> {
        let off = &self.of("off").figures;
        self.of(arm).figures.iter().zip(off).map(|(ours, off)| ours[figure] / off[figure]).collect()
    }

    /// Returns the mean of these ratios with its interval.
    pub(super) fn ratio(&self, arm: &str, figure: usize) -> Ratio {
        Ratio::of(&self.ratios(arm, figure))
    }
}

impl Cell {
    /// Returns the percentage of all bios, including write-back, that became RT by the arm's rule.
    pub(super) fn promoted(&self) -> f64 {
        100.0 * self.bios.promoted as f64 / self.bios.all.max(1) as f64
    }

    fn add(&mut self, (figures, bios, command): RunFigures) {
        self.figures.push(figures);
        self.bios.add(bios);
        self.command = command;
    }

    pub(super) fn of(&self, figure: usize) -> Vec<f64> {
        self.figures.iter().map(|figures| figures[figure]).collect()
    }

    pub(super) fn mean(&self, figure: usize) -> f64 {
        mean(&self.of(figure))
    }
}

/// Returns the sample standard deviation.
pub(super) fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    if values.len() < 2 { 0.0 } else { (squares / (values.len() - 1) as f64).sqrt() }
}

/// Returns the mean; 0 if there are no values.
pub(super) fn mean(values: &[f64]) -> f64 {
    Interval::of(values).unwrap_or_default().mean
}

/// The geometric mean of ratios with the ends of its 95 % interval, which is that of their
/// logarithms. Without an interval, as of one value, the ends are 0 and infinity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Ratio {
    pub(super) fn of(ratios: &[f64]) -> Self {
        let pairs: Vec<(f64, f64)> = ratios.iter().map(|&ratio| (1.0, ratio)).collect();
        let (mean, bounds) = RatioInterval::of(&pairs).map_or((f64::NAN, None), |found| (found.ratio, found.bounds));
        let (low, high) = bounds.unwrap_or((0.0, f64::INFINITY));
        Self { mean, low, high }
    }

    /// Returns how far from 1 the ratio may lie, in percent: the farther end of the interval.
    pub(super) fn most_percent(&self) -> f64 {
        100.0 * (self.high - 1.0).max(1.0 - self.low)
    }

    /// Formats the interval for a table; the mean alone if there is no interval or both ends round
    /// to it.
    fn in_table(&self) -> String {
        let [mean, low, high] = [self.mean, self.low, self.high].map(|value| format!("{value:.2}"));
        if self.high.is_finite() && low != high { format!("{low}-{high}") } else { mean }
    }
}

/// Formats a ratio with its interval, if it has one.
pub(super) fn shown(ratio: Ratio) -> String {
    let Ratio { mean, low, high } = ratio;
    if high.is_finite() { format!("{mean:.2} ({low:.2} to {high:.2})") } else { format!("{mean:.2}") }
}

/// Returns a row of text for each place and arm: means, each with the interval of its ratio to
/// `off`, then bios.
pub(super) fn table(rows: &[SweepRow], figures: &[&str]) -> Table {
    let mut header: Vec<String> = ["device, scheduler", "activity"].map(str::to_owned).to_vec();
    // If there are many figures, their ratios and the columns that are usually 0 do not fit.
    let with_ratios = figures.len() <= 3;
    let with_demoted = figures.len() != 3;
    for figure in figures {
        header.push((*figure).to_owned());
        header.extend(with_ratios.then(|| "of off".to_owned()));
    }
    header.push("RT %".to_owned());
    header.extend(with_demoted.then(|| "demoted".to_owned()));
    let mut table = Table { header, ..Table::default() }.with_words(&[1]);
    for row in rows {
        for cell in &row.cells {
            let place = if cell.arm == "off" { row.place.name() } else { String::new() };
            let mut line = vec![place, cell.arm.to_owned()];
            for figure in 0..figures.len() {
                line.push(digits(cell.mean(figure)));
                line.extend(with_ratios.then(|| row.ratio(cell.arm, figure).in_table()));
            }
            line.push(format!("{:.1}", cell.promoted()));
            line.extend(with_demoted.then(|| cell.bios.demoted.to_string()));
            table.rows.push(line);
        }
    }
    table
}

/// Formats a number with three digits or more.
fn digits(value: f64) -> String {
    let places = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.places$}")
}
