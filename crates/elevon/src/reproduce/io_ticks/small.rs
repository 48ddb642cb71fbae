//! The small cases: five overlapping requests, a disk that is nearly idle, and what a jiffy cannot resolve.

use elevon_core::kernel::IoTicksForm;
use elevon_report::document::{Document, Table};
use elevon_report::plot::{Axis, Mark, Plot, Scale, Series, Unit};
use elevon_report::result::RunResult;
use elevon_report::text::Figure;

use super::{PARAMETERS, busy_ms, origin, utilisation};
use crate::failure::Failure;
use crate::reproduce::lab::{Job, Lab, job};
use crate::reproduce::parameters::Parameters;

const TIMELINE: Job = job!("io-ticks/timeline.fio");
const THINKING: Job = job!("io-ticks/thinking-writer.fio");
const HALF_DUTY: Job = job!("io-ticks/half-duty.fio");

const TICK_RATES: [u32; 3] = [100, 250, 1000];

/// The five requests A to E.
pub(super) struct Timeline {
    /// By hand, in jiffies.
    pub(super) by_hand: [f64; 4],
    /// HZ 250, where they are 10 jiffies apart: one hardware queue, then two.
    pub(super) jiffies: [[f64; 4]; 2],
    /// Busy ms at each tick rate.
    pub(super) at_rate: [[f64; 4]; 3],
    command: String,
}

/// The writer that thinks, and the reads of 5 ms.
pub(super) struct Rest {
    pub(super) thinking: RunResult,
    pub(super) kernel_ms: f64,
    /// Delay in us, and the run.
    pub(super) half_duty: Vec<(u64, RunResult)>,
}

pub(super) fn timeline(lab: &Lab) -> Result<Timeline, Failure> {
    let parameters = Parameters::parse(PARAMETERS);
    let device = parameters.text("timeline.device");
    let run = |hw_queues: u32, hz: u32| {
        let options = format!("--device {device},hw_queues={hw_queues} --cpu-cost submit=0,complete=0 --set hz={hz}");
        lab.run(TIMELINE, &[], &options)
    };
    let one = run(1, 250)?;
    let in_jiffies = |run: &RunResult| busy_ms(run).map(|ms| ms / 4.0);
    Ok(Timeline {
        by_hand: IoTicksForm::ALL.map(|form| parameters.number(&format!("timeline.{}", form.name()))),
        jiffies: [in_jiffies(&one), in_jiffies(&run(2, 250)?)],
        at_rate: [busy_ms(&run(1, TICK_RATES[0])?), busy_ms(&one), busy_ms(&run(1, TICK_RATES[2])?)],
        command: one.command,
    })
}

pub(super) fn rest(lab: &Lab) -> Result<Rest, Failure> {
    let parameters = Parameters::parse(PARAMETERS);
    let half_duty = parameters.numbers("half_duty.delays_us").into_iter().map(|delay| {
        let run = lab.run(HALF_DUTY, &[("DELAY", &delay.to_string())], parameters.text("half_duty.stack"))?;
        Ok((delay, run))
    });
    Ok(Rest {
        thinking: lab.run(THINKING, &[], parameters.text("thinking.stack"))?,
        kernel_ms: parameters.number("half_duty.kernel_ms"),
        half_duty: half_duty.collect::<Result<_, Failure>>()?,
    })
}

pub(super) fn report_timeline(document: &mut Document, timeline: &Timeline) {
    document.heading("1. Five requests, A to E");
    document.paragraph(
        "Starts at jiffies 0, 10, 20, 30, 40, ends at 50, 60, 70, 80, 90: busy for 90. Each start of B to E moves the stamp and, \
         in the sampled form, adds 1 where 10 have passed.",
    );
    let row = |name: String, by_hand: f64, ours: f64, note: &str| Figure {
        name,
        unit: "jiffies".into(),
        expected: Some(by_hand),
        ours,
        note: note.into(),
    };
    let [one, two] = timeline.jiffies;
    let forms = IoTicksForm::ALL.into_iter().zip(timeline.by_hand.into_iter().zip(one));
    let mut rows: Vec<Figure> =
        forms.map(|(form, (hand, ours))| row(form.name().into(), hand, ours, origin(form))).collect();
    rows.push(row("inflight, 2 hardware queues".into(), timeline.by_hand[0], two[1], "falls back to sampled"));
    document.figures("A to E, HZ 250", "by hand", rows);
    document.command(&timeline.command);
    document
        .paragraph("The same five requests at other tick rates, in ms of 360: the finer the tick, the more is lost.");
    let mut table = Table::new(["busy ms", "HZ 100", "HZ 250", "HZ 1000"]);
    for (at, form) in IoTicksForm::ALL.into_iter().enumerate() {
        let [a, b, c] = timeline.at_rate.map(|busy| format!("{:.0}", busy[at]));
        table.row([form.name(), &a, &b, &c]);
    }
    document.table(table);
}

pub(super) fn report_rest(document: &mut Document, rest: &Rest) {
    report_thinking(document, &rest.thinking);
    report_half_duty(document, rest);
}

fn report_thinking(document: &mut Document, run: &RunResult) {
    document.heading("4. A writer that thinks: busy where it is idle");
    let busy = utilisation(run);
    document.paragraph(format!(
        "The argument that brought the precise form: a writer that waits 4 ms after each 4 KiB, on a disk that answers within \
         microseconds. Each write falls into a jiffy of its own and is counted for a whole one, by the seed's form too: {:.0} % \
         on a disk that is busy for {:.2} %.",
        busy[0], busy[3]
    ));
    let mut table = Table::new(["form", "%util, HZ 250", "busy ms of 10 s"]);
    for ((form, percent), ms) in IoTicksForm::ALL.into_iter().zip(busy).zip(busy_ms(run)) {
        table.row([form.name(), &format!("{percent:.2}"), &format!("{ms:.1}")]);
    }
    document.table(table);
    document.command(&run.command);
}

fn report_half_duty(document: &mut Document, rest: &Rest) {
    document.heading("5. What a jiffy cannot resolve");
    let (_, first) = &rest.half_duty[0];
    let busy = busy_ms(first);
    document.paragraph(
        "100 reads a second of 5.05 ms each keep the device busy for half of the time. A real kernel 6.18 at HZ 250 counted 2000 \
         of 5000 ms: in the precise form a request counts the jiffies that begin while it is in flight, one or two of 4 ms, \
         and requests that come each 10 ms (2.5 jiffies) meet the tick in the same two phases for ever.",
    );
    let row = |form: IoTicksForm, expected: Option<f64>, note: &str| Figure {
        name: form.name().into(),
        unit: "ms".into(),
        expected,
        ours: busy[form as usize],
        note: note.into(),
    };
    document.figures(
        "Busy in 5000 ms, HZ 250",
        "kernel 6.18",
        vec![
            row(IoTicksForm::Sampled, None, "5.7 to 6.9"),
            row(IoTicksForm::Inflight, None, "the seed"),
            row(IoTicksForm::Precise, Some(rest.kernel_ms), "what that kernel does"),
            row(IoTicksForm::Exact, None, "500 requests of 5.05 ms"),
        ],
    );
    document.command(&first.command);
    document.paragraph(
        "Moved against the tick, the same requests give another figure. Over all phases the precise form is right in the mean; \
         for one machine it is right by luck.",
    );
    let mut table = Table::new(["start after", "sampled ms", "inflight ms", "precise ms", "exact ms"]);
    for (delay, run) in &rest.half_duty {
        let [a, b, c, d] = busy_ms(run).map(|ms| format!("{ms:.0}"));
        table.row([&format!("{:.1} ms", *delay as f64 / 1e3), &a, &b, &c, &d]);
    }
    document.table(table);
    let series = |colour: usize, form: IoTicksForm| Series {
        name: form.name().into(),
        colour,
        points: rest.half_duty.iter().map(|(d, run)| (*d as f64 * 1e3, busy_ms(run)[form as usize] * 1e6)).collect(),
        labels: Vec::new(),
    };
    let axis = |title: &str| Axis { title: title.into(), scale: Scale::Linear, unit: Unit::Nanos };
    document.plot(Plot {
        title: "100 reads a second of 5.05 ms: busy time by phase".into(),
        description: "The same requests, started later and later against the tick: only exact does not care.".into(),
        mark: Mark::Line,
        x: axis("start after a tick"),
        y: axis("busy in 5 s"),
        series: [IoTicksForm::Sampled, IoTicksForm::Precise, IoTicksForm::Exact]
            .into_iter()
            .enumerate()
            .map(|(colour, form)| series(colour, form))
            .collect(),
    });
}
