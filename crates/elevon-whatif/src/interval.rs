//! Predictions on an interval of devices: a device that was fitted to a trace may have ends, other
//! devices that explain the trace as well (`[[end]]` of its file). What a run gives is known where
//! all of them give it.

use std::fmt::Write as _;

use elevon_host::interrupt::Interrupt;
use elevon_plan::execute::execute;
use elevon_plan::failure::{Ending, Failure};
use elevon_plan::plan::Plan;
use elevon_result::number;
use elevon_result::result::RunResult;
use elevon_trace::{DeviceNumber, Recorded};
use elevon_workload::run::NoObserver;

use crate::figures::{Figure, Figures};

/// A figure is known if its largest and smallest value among the devices differ by no more than
/// this factor.
const TOLERANCE: f64 = 1.10;

/// Says at which numbers of requests in a device it is not known how it serves them, from the two
/// bounds of its file.
pub(crate) fn not_known([from, to]: [u64; 2]) -> String {
    match (from, to) {
        (0, 0) => "not known".to_owned(),
        (from, 0) => format!("not known below depth {from}"),
        (0, to) => format!("not known above depth {to}"),
        (from, to) => format!("not known below depth {from} or above depth {to}"),
    }
}

/// Depth to which `nr_requests` can bring a device: the kernel takes no smaller value.
const FEWEST_REQUESTS: u64 = 4;

/// The disk that an experiment is done on.
pub(crate) struct Disk {
    number: DeviceNumber,
    name: Option<String>,
    /// What `nr_requests` was in the trace.
    nr_requests: Option<u64>,
}

impl Disk {
    /// The disk of a trace; `name` is given if the user gave one.
    pub(crate) fn from_number(
        number: DeviceNumber,
        recorded: Option<&Recorded>,
        name: Option<&str>,
    ) -> Self {
        let name = name.or_else(|| recorded?.get("name")).map(str::to_owned);
        let number = recorded.and_then(Recorded::device).unwrap_or(number);
        Self {
            number,
            name,
            nr_requests: recorded.and_then(|recorded| recorded.number("queue/nr_requests")),
        }
    }

    /// Returns an experiment that would show how the device serves other depths: lines of a shell,
    /// with what they are for.
    pub(crate) fn experiment(&self, [from, to]: [u64; 2]) -> Vec<String> {
        let (number, name) = (self.number, self.name.as_deref());
        let [folder, path] = match name {
            Some(name) => [format!("/sys/block/{name}"), format!("/dev/{name}")],
            None => [format!("/sys/dev/block/{number}"), format!("/dev/block/{number}")],
        };
        let mut lines = vec![format!("elevon capture {path} --seconds 20 settle.txt & sleep 10")];
        if from > FEWEST_REQUESTS {
            let setting = format!("{folder}/queue/nr_requests");
            let old = self.nr_requests.map_or_else(|| "$old".to_owned(), |old| old.to_string());
            if self.nr_requests.is_none() {
                lines.insert(0, format!("old=$(cat {setting})"));
            }
            lines.push(format!(
                "echo {FEWEST_REQUESTS} > {setting}; sleep 10; echo {old} > {setting}"
            ));
        } else if from > 1 {
            let group =
                "/sys/fs/cgroup/GROUP/io.max       # GROUP: the cgroup of the busiest process";
            lines.push(format!("echo '{number} riops=50 wiops=50' > {group}"));
            lines.push(format!(
                "sleep 10; echo '{number} riops=max wiops=max' > /sys/fs/cgroup/GROUP/io.max"
            ));
        }
        if to > 0 {
            lines.push(format!(
                "fio --name=deep --filename={path} --readonly --rw=randread --bs=4k --direct=1 --ioengine=libaio \
                 --iodepth={} --time_based --runtime=10",
                to.saturating_mul(4)
            ));
        }
        lines.push("wait; elevon calibrate settle.txt -o disk.toml".to_owned());
        lines
    }

    /// Shows the experiment.
    pub(crate) fn experiment_text(&self, known: [u64; 2]) -> String {
        let depth = match known {
            [_, 0] => "with few requests in the device at once",
            [0, _] => "with more requests in the device at once",
            _ => "with few requests in the device at once, and with many",
        };
        let mut out = format!(
            "\nAn experiment would settle it: ten seconds {depth}, under the same load, captured:\n"
        );
        self.experiment(known).iter().for_each(|line| out.push_str(&format!("  {line}\n")));
        out
    }
}

/// Smallest and largest value of a figure, if they part.
fn range(values: &[Option<f64>]) -> Option<[f64; 2]> {
    let there = || values.iter().flatten().copied();
    let (least, most) = (there().fold(f64::INFINITY, f64::min), there().fold(0.0, f64::max));
    (most > least * TOLERANCE).then_some([least, most])
}

/// Says in which figures of a process the devices part.
pub(crate) fn parted_words(known: [u64; 2], name: &str, ranges: &Ranges) -> String {
    let figures = Figure::ALL.into_iter().zip(ranges).filter_map(|(figure, range)| {
        let [least, most] = (*range)?;
        let whole = |value: f64| number::grouped(value.round() as u64);
        Some(match figure {
            Figure::Throughput => format!("{} to {} I/Os a second", whole(least), whole(most)),
            Figure::P50 | Figure::P99 => {
                format!("{} {} to {} us", figure.name(), whole(least / 1e3), whole(most / 1e3))
            }
        })
    });
    let figures = figures.collect::<Vec<_>>().join(", ");
    format!("{}: {name}: {figures}, on the devices that explain the trace", not_known(known))
}

/// Smallest and largest value of each figure in which devices part.
pub(crate) type Ranges = [Option<[f64; 2]>; 3];

/// Returns where the figures of a process on several devices part; `None` if they do not.
pub(crate) fn ranges(all: &[Figures]) -> Option<Ranges> {
    let ranges =
        Figure::ALL.map(|figure| range(&all.iter().map(|of| of.get(figure)).collect::<Vec<_>>()));
    ranges.iter().any(Option::is_some).then_some(ranges)
}

/// The figures of a run in which the devices part.
pub struct Parting {
    known: [u64; 2],
    rows: Vec<(String, Ranges)>,
}

impl Parting {
    /// Repeats a run on the ends of its device, and compares; `None` if the device is known, if
    /// nothing parts, or if the user interrupted it.
    ///
    /// # Errors
    /// A run on an end fails.
    pub fn from_plan(
        plan: &Plan,
        result: &RunResult,
        interrupt: &Interrupt,
    ) -> Result<Option<Self>, Failure> {
        let Some(own) = plan.own.as_ref().filter(|own| !own.file.ends.is_empty()) else {
            return Ok(None);
        };
        let figures =
            |result: &RunResult| result.jobs.iter().map(Figures::replayed).collect::<Vec<_>>();
        let mut all = vec![figures(result)];
        for end in plan.ends() {
            let (result, ending) = execute(&end, &mut NoObserver, interrupt)?;
            if ending != Ending::Done {
                return Ok(None);
            }
            all.push(figures(&result));
        }
        let row = |(at, job): (usize, &elevon_result::result::JobResult)| {
            let figures: Vec<Figures> = all.iter().map(|of| of[at]).collect();
            Some((job.name.clone(), ranges(&figures)?))
        };
        let rows: Vec<_> = result.jobs.iter().enumerate().filter_map(row).collect();
        Ok((!rows.is_empty()).then_some(Self { known: own.file.known, rows }))
    }

    /// Says it, a line for each process.
    pub fn lines(&self) -> Vec<String> {
        self.rows.iter().map(|(name, ranges)| parted_words(self.known, name, ranges)).collect()
    }

    /// Shows it below a table; `label` says of what.
    pub fn text(&self, label: &str) -> String {
        let mut out = String::new();
        for line in self.lines() {
            let _ = writeln!(out, "{label}: {line}");
        }
        out
    }
}
