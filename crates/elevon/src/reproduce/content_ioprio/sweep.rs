//! One job under every form of `activity=` and the controls, on several stacks, with several seeds.

use elevon_report::document::Table;
use elevon_report::result::RunResult;

use crate::failure::Failure;
use crate::reproduce::lab::{Job, Lab};

/// What decides who is RT. The last is the share of the bios that `iter-bio` made RT on the same stack with the same seed.
pub(super) const ARMS: [&str; 6] = ["off", "iter-bio", "add-page", "page-exact", "oracle", "random"];

/// Two-sided 95 % points of Student's t for 1 to 9 degrees of freedom.
const STUDENT: [f64; 9] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];

/// A device with a scheduler.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) device: String,
    pub(super) scheduler: &'static str,
}

/// Bios of a run, and what was made of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bios {
    pub(super) all: u64,
    pub(super) promoted: u64,
    pub(super) raised: u64,
    pub(super) demoted: u64,
    pub(super) denied: u64,
}

/// What one arm did.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) arm: &'static str,
    /// By seed, then by figure.
    pub(super) figures: Vec<Vec<f64>>,
    /// Of all seeds.
    pub(super) bios: Bios,
    pub(super) command: String,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) place: Place,
    pub(super) cells: Vec<Cell>,
}

/// What is run.
#[derive(Clone, Copy)]
pub(super) struct Sweep<'a> {
    pub(super) job: Job,
    pub(super) variables: &'a [(&'a str, &'a str)],
    /// Options beside device, scheduler, seed and activity.
    pub(super) options: &'a str,
    pub(super) seeds: &'a [u64],
    pub(super) figures: fn(&RunResult) -> Vec<f64>,
}

impl Sweep<'_> {
    pub(super) fn on(&self, lab: &Lab, places: &[Place]) -> Result<Vec<Row>, Failure> {
        places.iter().map(|place| self.row(lab, place)).collect()
    }

    fn row(&self, lab: &Lab, place: &Place) -> Result<Row, Failure> {
        let new = |arm| Cell { arm, figures: Vec::new(), bios: Bios::default(), command: String::new() };
        let mut cells = ARMS.map(new).to_vec();
        for &seed in self.seeds {
            let mut of_seed = Bios::default();
            for cell in &mut cells {
                let activity = match cell.arm {
                    "random" => format!("random:{}", (of_seed.promoted * 1000).div_ceil(of_seed.all.max(1))),
                    arm => arm.to_owned(),
                };
                let Place { device, scheduler } = place;
                let options = format!(
                    "--device {device} --scheduler {scheduler} --seed {seed} {} --set activity={activity}",
                    self.options
                );
                let run = lab.run(self.job, self.variables, &options)?;
                let bios = bios(&run);
                if cell.arm == "iter-bio" {
                    of_seed = bios;
                }
                cell.bios.add(bios);
                cell.figures.push((self.figures)(&run));
                cell.command = run.command;
            }
        }
        Ok(Row { place: place.clone(), cells })
    }
}

impl Bios {
    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.promoted += other.promoted;
        self.raised += other.raised;
        self.demoted += other.demoted;
        self.denied += other.denied;
    }
}

/// What a run's page cache counted of its bios.
fn bios(run: &RunResult) -> Bios {
    let mut bios = Bios::default();
    for (group, counts) in run.cache.iter().flat_map(|cache| &cache.groups) {
        let of = |key: &str| counts.iter().find(|(name, _)| name == key).map_or(0, |(_, count)| *count);
        if group == "device" {
            bios.all = of("bios");
        } else if group.starts_with("activity of") || group == "control" {
            bios.promoted += of("promoted");
            bios.raised += of("raised");
            bios.demoted += of("demoted");
            bios.denied += of("promotion_denied");
        }
    }
    bios
}

impl Row {
    pub(super) fn of(&self, arm: &str) -> &Cell {
        self.cells.iter().find(|cell| cell.arm == arm).expect("every arm was run")
    }

    /// An arm's figure over that without activity, seed by seed: mean and half the width of its 95 % interval.
    pub(super) fn ratio(&self, arm: &str, figure: usize) -> (f64, f64) {
        let off = &self.of("off").figures;
        let ratios = self.of(arm).figures.iter().zip(off).map(|(ours, off)| ours[figure] / off[figure]);
        interval(&ratios.collect::<Vec<_>>())
    }
}

impl Cell {
    pub(super) fn of(&self, figure: usize) -> Vec<f64> {
        self.figures.iter().map(|figures| figures[figure]).collect()
    }

    pub(super) fn mean(&self, figure: usize) -> f64 {
        interval(&self.of(figure)).0
    }
}

/// Sample standard deviation.
pub(super) fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if values.len() < 2 { 0.0 } else { (squares / (values.len() - 1) as f64).sqrt() }
}

/// Mean, and half the width of its 95 % interval by Student's t; of a single value 0.
pub(super) fn interval(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    if values.len() < 2 {
        return (mean, 0.0);
    }
    let t = STUDENT.get(values.len() - 2).copied().unwrap_or(1.96);
    (mean, t * deviation(values) / (values.len() as f64).sqrt())
}

/// A row of text for each place and arm: means, then each figure over `off` with its interval, then bios.
pub(super) fn table(rows: &[Row], figures: &[&str]) -> Table {
    let mut header: Vec<String> = ["device, scheduler", "activity"].map(str::to_owned).to_vec();
    for figure in figures {
        header.extend([(*figure).to_owned(), "of off".to_owned()]);
    }
    header.extend(["RT %", "demoted"].map(str::to_owned));
    let mut table = Table { header, ..Table::default() }.with_words(&[1]);
    for row in rows {
        for cell in &row.cells {
            let device = row.place.device.split(':').next().unwrap_or_default();
            let place = if cell.arm == "off" { format!("{device}, {}", row.place.scheduler) } else { String::new() };
            let mut line = vec![place, cell.arm.to_owned()];
            for figure in 0..figures.len() {
                let (ratio, half) = row.ratio(cell.arm, figure);
                line.extend([digits(cell.mean(figure)), format!("{ratio:.2} \u{b1}{half:.2}")]);
            }
            let share = 100.0 * cell.bios.promoted as f64 / cell.bios.all.max(1) as f64;
            line.extend([format!("{share:.1}"), cell.bios.demoted.to_string()]);
            table.rows.push(line);
        }
    }
    table
}

/// A number with three digits or more.
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
