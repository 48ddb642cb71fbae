//! A fast device: what the proposal's form shows there, and what an overhead of an I/O would cost.

use elevon_core::kernel::IoTicksForm;
use elevon_report::document::{Document, Table};
use elevon_report::result::RunResult;
use elevon_report::summary::{iops, total};

use super::{PARAMETERS, utilisation};
use crate::failure::Failure;
use crate::reproduce::conclusions::{Conclusion, conclude, percent_off};
use crate::reproduce::lab::{Job, Lab, job};
use crate::reproduce::parameters::Parameters;

const FAST: Job = job!("io-ticks/fast.fio");

/// Runs of a fast device.
#[derive(Clone, Debug)]
pub(super) struct Fast {
    /// Percent busy by form.
    pub(super) busy: [f64; 4],
    /// Nanoseconds that each I/O takes more, and I/Os a second; the first without more.
    pub(super) rates: Vec<(u64, f64)>,
    command: String,
}

pub(super) fn measure(lab: &Lab) -> Result<Fast, Failure> {
    let parameters = Parameters::parse(PARAMETERS);
    let submit = parameters.number("fast.submit_ns") as u64;
    let run = |more: u64| {
        let options = format!("{} --cpu-cost submit={}ns", parameters.text("fast.stack"), submit + more);
        lab.run(FAST, &[], &options)
    };
    let plain = run(0)?;
    let rate = |run: &RunResult| iops(&total(run));
    let mut rates = vec![(0, rate(&plain))];
    for more in parameters.numbers("fast.more_ns") {
        rates.push((more, rate(&run(more)?)));
    }
    Ok(Fast { busy: utilisation(&plain), rates, command: plain.command })
}

const CONCLUSIONS: [Conclusion<Fast>; 2] = [
    |case| {
        let [sampled, inflight, ..] = case.busy;
        ((sampled - inflight).abs() < 1e-9).then(|| {
            format!(
                "This device has several hardware queues. There the proposal's form leaves the sampled one as it is, and both show \
                 {sampled:.1} %."
            )
        })
    },
    |case| {
        let (&(_, plain), &(more, slowest)) = (case.rates.first()?, case.rates.last()?);
        (slowest < plain).then(|| {
            format!(
                "A process that its CPU limits loses {:.1} % of its I/Os to {more} ns more for each.",
                -percent_off(slowest, plain)
            )
        })
    },
];

pub(super) fn report(document: &mut Document, case: &Fast) {
    document.heading("6. A fast device");
    document.paragraph(
        "The mail leaves fast devices out because the look at the tags \"will be an overhead and impact IO performance\". It has no \
         figure of that, and accounting takes no CPU time in Elevon, so no row can be held against one. The table shows what \
         an overhead of so many nanoseconds for each I/O would do; which of them is the proposal's was not measured.",
    );
    let mut table = Table::new(["more CPU time an I/O", "I/Os a second", "change"]);
    let plain = case.rates[0].1;
    for (more, rate) in &case.rates {
        table.row([&format!("{more} ns"), &format!("{rate:.0}"), &format!("{:+.1} %", percent_off(*rate, plain))]);
    }
    document.table(table);
    let mut table = Table::new(["form", "%util"]);
    for (form, percent) in IoTicksForm::ALL.into_iter().zip(case.busy) {
        table.row([form.name(), &format!("{percent:.2}")]);
    }
    document.table(table);
    document.command(&case.command);
    conclude(document, case, &CONCLUSIONS);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::conclusions::text_of;

    #[test]
    fn an_overhead_shows_where_the_cpu_limits() {
        let case = measure(&Lab::quiet()).expect("runs");
        assert!(case.rates.len() == 4 && case.rates.windows(2).all(|pair| pair[1].1 < pair[0].1), "{case:?}");
        let mut document = Document::new("");
        report(&mut document, &case);
        let text = document.text();
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let usual = text_of(&case, &CONCLUSIONS);
        assert!(usual.contains("several hardware queues") && usual.contains("to 1000 ns more for each"), "{usual}");
        let other = Fast { busy: [50.0, 60.0, 1.0, 1.0], rates: vec![(0, 5.0), (9, 5.0)], ..case };
        assert_eq!(text_of(&other, &CONCLUSIONS), "");
    }
}
