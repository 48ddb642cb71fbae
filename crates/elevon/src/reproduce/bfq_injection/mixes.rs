//! The same processes, some of them sequential.

use elevon_report::document::{Document, Table};
use elevon_report::result::RunResult;

use super::findings::{self, Mixed};
use super::{FAIR, LIMIT, NONE, OFF, SEED, Setting, jain, megabytes};
use crate::failure::Failure;
use crate::reproduce::conclusions::conclude;
use crate::reproduce::lab::{Job, Lab, job};
use crate::reproduce::parameters::Parameters;

const MIX: Job = job!("bfq-injection/mix.fio");

pub(super) const SETTINGS: [Setting; 5] = [NONE, OFF, SEED, LIMIT, FAIR];

/// Weights as they occur in the names of jobs and variables.
const WEIGHTS: [&str; 5] = ["80", "60", "40", "20", "10"];

const HEAVIEST: &str = "4 KiB, the heaviest";

/// The mixes: name, weights of the processes that read sequentially, and their block size. The
/// others read 4 KiB at random.
const MIXES: [(&str, &[&str], &str); 4] = [
    ("4 KiB, the lightest", &["10"], "4k"),
    ("4 KiB, the two lightest", &["20", "10"], "4k"),
    ("128 KiB, the lightest", &["10"], "128k"),
    (HEAVIEST, &["80"], "4k"),
];

pub(super) struct Mix {
    /// Name of the processes that read sequentially.
    pub(super) name: &'static str,
    /// Runs by setting.
    pub(super) runs: Vec<RunResult>,
}

pub(super) fn measure(lab: &Lab, parameters: &Parameters) -> Result<Vec<Mix>, Failure> {
    let mix = |(name, sequential, size): (&'static str, &[&str], &str)| {
        let mut variables: Vec<(String, &str)> = Vec::new();
        for weight in WEIGHTS {
            let (rw, bs) = if sequential.contains(&weight) { ("read", size) } else { ("randread", "4k") };
            variables.extend([(format!("RW{weight}"), rw), (format!("BS{weight}"), bs)]);
        }
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let runs = SETTINGS.into_iter().map(|setting| {
            // On a running machine, BFQ knows from earlier I/O that the device queues commands.
            let hw_tag = if setting == NONE { "" } else { ",hw_tag=yes" };
            let options = format!("{} --scheduler {}{hw_tag}", parameters.text("stack.stack"), setting.scheduler);
            lab.run(MIX, &variables, &options)
        });
        Ok(Mix { name, runs: runs.collect::<Result<_, Failure>>()? })
    };
    MIXES.into_iter().map(mix).collect()
}

pub(super) fn report(document: &mut Document, mixes: &[Mix]) {
    document.heading("4. Mixes with less random I/O");
    document.paragraph(
        "\"As some less random I/O is added to the mix, the throughput becomes equal to or higher than that with none\", the \
         mail says, without the mix. Here some of the five read one block after another (hw_tag=yes); of none, and Jain's index:",
    );
    let mut table = Table { header: vec!["sequential reader".into(), "none MB/s".into()], ..Table::default() };
    table.header.extend(SETTINGS[1..].iter().map(|setting| setting.name.to_owned()));
    for mix in mixes {
        let none = megabytes(&mix.runs[0]);
        let mut row = vec![mix.name.to_owned(), format!("{none:.1} ({:.3})", jain(&mix.runs[0]))];
        row.extend(mix.runs[1..].iter().map(|run| format!("{:.1}% ({:.3})", 100.0 * megabytes(run) / none, jain(run))));
        table.rows.push(row);
    }
    document.table(table);
    conclude(document, &mixes.iter().map(Mix::mixed).collect(), &findings::MIXES);
}

impl Mix {
    /// Returns the figures for conclusions.
    pub(super) fn mixed(&self) -> Mixed {
        let none = megabytes(&self.runs[0]);
        let of_none = std::array::from_fn(|at| megabytes(&self.runs[at + 1]) / none);
        Mixed { name: self.name, of_none, heaviest: self.name == HEAVIEST }
    }
}
