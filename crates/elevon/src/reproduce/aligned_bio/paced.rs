//! The times of the proposal's own trace of dd, and the device of section 4 beside them.

use elevon_core::event::EventKind;
use elevon_report::document::{Document, Table};

use super::PARAMETERS;
use super::throughput::Fit;
use crate::failure::Failure;
use crate::reproduce::conclusions::{Conclusion, conclude, range};
use crate::reproduce::lab::{Job, Lab, job};
use crate::reproduce::parameters::Parameters;

const TRACE_DD: Job = job!("aligned-bio/trace-dd.fio");
const TRACE: &str = include_str!("../../../../../experiments/aligned-bio/trace-dd.txt");

/// A bio of the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bio {
    /// Microseconds from the first bio of the trace, as published.
    pub(super) at_us: f64,
    pub(super) sectors: u32,
    /// The same in Elevon's run.
    pub(super) ours_us: f64,
    /// Microseconds until the device has done all of it.
    pub(super) done_us: f64,
}

/// The bios of the trace.
#[derive(Clone, Debug)]
pub(super) struct Paced {
    pub(super) bios: Vec<Bio>,
    /// Published MB/s of Antutu's sequential read.
    pub(super) antutu: f64,
    command: String,
}

/// Converts a line of the trace to its time in microseconds, its sector and its length.
fn published(line: &str) -> (f64, u64, u32) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words[at].parse::<u64>().expect("a number of the trace");
    let seconds: f64 = words[2].trim_end_matches(':').parse().expect("a time of the trace");
    (seconds * 1e6, number(6), number(8) as u32)
}

/// Runs the bios at their times on the device that the read baseline was fitted to.
pub(super) fn measure(lab: &Lab, fit: Fit) -> Result<Paced, Failure> {
    let parameters = Parameters::parse(PARAMETERS);
    let (profile, stack) = (parameters.text("device.profile"), parameters.text("stack.options"));
    let (link, cost) = (fit.link.round(), fit.cost);
    let options = format!(
        "--device {profile}:read_link={link}B/s,read_command_cost={cost}ns {stack} --buffers contiguous --cpu-cost submit=0"
    );
    let (run, events) = lab.trace(TRACE_DD, &options)?;
    let us = |event: &elevon_core::event::Event| event.time.get() as f64 / 1e3;
    let lines: Vec<(f64, u64, u32)> = TRACE.lines().map(published).collect();
    let queued = |sector: u64| events.iter().find(|at| at.kind == EventKind::BioQueue && at.sector.get() == sector);
    let start = queued(lines[0].1).map_or(0.0, us);
    let bios = lines.iter().map(|&(time, sector, sectors)| {
        let own = sector..sector + u64::from(sectors);
        let ends =
            events.iter().filter(|at| matches!(at.kind, EventKind::Complete { .. }) && own.contains(&at.sector.get()));
        let ours = queued(sector).map_or(f64::NAN, us);
        let end = ends.map(us).fold(f64::NAN, f64::max);
        Bio { at_us: time - lines[0].0, sectors, ours_us: ours - start, done_us: end - ours }
    });
    Ok(Paced { bios: bios.collect(), antutu: parameters.number("published.read_full"), command: run.command })
}

impl Paced {
    /// Returns the times from one bio to the next, in microseconds.
    pub(super) fn gaps(&self) -> Vec<f64> {
        self.bios.windows(2).map(|pair| pair[1].at_us - pair[0].at_us).collect()
    }

    /// Returns MB/s of the trace: bytes of all bios but the last, in the time to the last.
    pub(super) fn rate(&self) -> f64 {
        let [all @ .., last] = &self.bios[..] else { return 0.0 };
        all.iter().map(|bio| f64::from(bio.sectors) * 512.0).sum::<f64>() / last.at_us
    }

    /// Returns the share of the time to the last bio in which the device has one, in percent.
    pub(super) fn busy(&self) -> f64 {
        let [all @ .., last] = &self.bios[..] else { return 0.0 };
        100.0 * all.iter().map(|bio| bio.done_us).sum::<f64>() / last.at_us
    }
}

pub(super) const CONCLUSIONS: [Conclusion<Paced>; 3] = [
    |case| {
        let (least, most) = range(case.gaps());
        Some(format!(
            "In the trace a bio of about 1 MiB is queued each {:.2} to {:.2} ms, {:.0} MB/s.",
            least / 1e3,
            most / 1e3,
            case.rate(),
        ))
    },
    |case| {
        let most = range(case.bios.iter().map(|bio| bio.done_us)).1;
        let least_gap = range(case.gaps()).0;
        (most < least_gap).then(|| {
            format!(
                "The device of section 4 has done each bio after {:.2} ms at most, before the next is queued, and is busy for {:.0} % of the \
                 time. So in this run the device does not set the pace of dd, and without tails it would have the same pace.",
                most / 1e3,
                case.busy(),
            )
        })
    },
    |case| {
        let times = case.antutu / case.rate();
        (times > 1.5).then(|| {
            format!(
                "Antutu's published {} MB/s is {times:.1} times that rate. Its bios came faster than dd's, and the mail has no times of \
                 them: section 4 lets them come as fast as the device takes them, which is an assumption.",
                case.antutu,
            )
        })
    },
];

pub(super) fn report(document: &mut Document, case: &Paced) {
    document.heading("6. The times of dd's trace");
    document.paragraph(
        "The proposal's second trace is of dd (bs=64m, iflag=direct) and has times. Here its bios are queued at these times, on the \
         device with the cost that section 4 fitted to the published baseline.",
    );
    let mut table = Table::new(["sectors", "trace, ms", "since the last", "ours, ms", "done by the device after"]);
    let mut last = None;
    for bio in &case.bios {
        let gap = last.map_or("-".to_owned(), |at| format!("{:.3} ms", (bio.at_us - at) / 1e3));
        last = Some(bio.at_us);
        let [at, ours] = [bio.at_us, bio.ours_us].map(|us| format!("{:.3}", us / 1e3));
        table.row([&bio.sectors.to_string(), &at, &gap, &ours, &format!("{:.3} ms", bio.done_us / 1e3)]);
    }
    document.table(table);
    document.command(&case.command);
    conclude(document, case, &CONCLUSIONS);
}
