//! The small cases: five overlapping requests, a disk that is nearly idle, and times below the
//! resolution of a jiffy.

use elevon_core::kernel::IoTicksForm;
use elevon_report::document::{Document, Table};
use elevon_report::plot::{Axis, Mark, Plot, Scale, Series, Unit};
use elevon_report::result::RunResult;
use elevon_report::text::Figure;

use super::findings::{self, HalfDuty};
use super::{PARAMETERS, busy_ms, origin, utilisation};
use crate::failure::Failure;
use crate::reproduce::conclusions::{conclude, text_of};
use crate::reproduce::lab::{Job, Lab, job};
use crate::reproduce::parameters::Parameters;

const TIMELINE: Job = job!("io-ticks/timeline.fio");
const THINKING: Job = job!("io-ticks/thinking-writer.fio");
const HALF_DUTY: Job = job!("io-ticks/half-duty.fio");

const TICK_RATES: [u32; 3] = [100, 250, 1000];

/// The five requests A to E.
pub(super) struct Timeline {
    /// Busy time computed by hand, in jiffies.
    pub(super) by_hand: [f64; 4],
    /// Busy jiffies at HZ 250, where the requests are 10 jiffies apart, with one and with two
    /// hardware queues.
    pub(super) jiffies: [[f64; 4]; 2],
    /// Busy ms at each tick rate.
    pub(super) at_rate: [[f64; 4]; 3],
    command: String,
}

/// The writer with think time, and the reads of 5 ms.
pub(super) struct Rest {
    pub(super) thinking: RunResult,
    pub(super) half_duty: HalfDuty,
    /// Command of the run that starts on a tick.
    command: String,
}

/// The reads of 5 ms, started at a delay after a tick.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub(super) delay_us: u64,
    /// Busy ms by form.
    pub(super) busy: [f64; 4],
}

pub(super) fn timeline(lab: &Lab) -> Result<Timeline, Failure> {
    let parameters = Parameters::parse(PARAMETERS);
    let device = parameters.text("timeline.device");
    let run = |hw_queues: u32, hz: u32| {
        let options = format!(
            "--device {device},hw_queues={hw_queues} --cpu-cost submit=0,complete=0 --set hz={hz} --set tick_phase=fixed"
        );
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
    let step = parameters.number("half_duty.step_us") as u64;
    // A jiffy is 4 ms.
    let runs = (0..4000 / step).map(|at| {
        let delay = at * step;
        let run = lab.run(HALF_DUTY, &[("DELAY", &delay.to_string())], parameters.text("half_duty.stack"))?;
        Ok((Phase { delay_us: delay, busy: busy_ms(&run) }, run.command))
    });
    let (phases, commands): (Vec<_>, Vec<_>) = runs.collect::<Result<Vec<_>, Failure>>()?.into_iter().unzip();
    let kernel_ms = parameters.numbers("half_duty.kernel_ms").into_iter().map(|ms| ms as f64).collect();
    Ok(Rest {
        thinking: lab.run(THINKING, &[], parameters.text("thinking.stack"))?,
        half_duty: HalfDuty { kernel_ms, phases },
        command: commands.into_iter().next().expect("a run at each phase"),
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
    document.paragraph(format!(
        "The same five requests at other tick rates, in ms of 360. {}",
        text_of(&timeline.at_rate, &findings::TICKS)
    ));
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
         microseconds. {}",
        text_of(&busy, &findings::THINKING)
    ));
    let mut table = Table::new(["form", "%util, HZ 250", "busy ms of 10 s"]);
    for ((form, percent), ms) in IoTicksForm::ALL.into_iter().zip(busy).zip(busy_ms(run)) {
        table.row([form.name(), &format!("{percent:.2}"), &format!("{ms:.1}")]);
    }
    document.table(table);
    document.command(&run.command);
}

fn report_half_duty(document: &mut Document, rest: &Rest) {
    let case = &rest.half_duty;
    document.heading("5. What a jiffy cannot resolve");
    document.paragraph(
        "100 reads a second of 5.05 ms each keep the device busy for half of the time. In the precise form a request counts the \
         jiffies that begin while it is in flight, one or two of 4 ms, and requests that come each 10 ms (2.5 jiffies) meet the \
         tick in the same two phases for ever.",
    );
    let row = |&expected: &f64| {
        let phase = case.nearest(expected);
        Figure {
            name: "precise".into(),
            unit: "ms".into(),
            expected: Some(expected),
            ours: phase.busy[IoTicksForm::Precise as usize],
            note: format!("started {:.1} ms after a tick", phase.delay_us as f64 / 1e3),
        }
    };
    document.figures("Busy in 5000 ms, HZ 250", "kernel 6.18", case.kernel_ms.iter().map(row).collect());
    document.command(&rest.command);
    conclude(document, case, &findings::HALF_DUTY);
    document.table(phases_table(&case.phases));
    let series = |(colour, form): (usize, IoTicksForm)| Series {
        name: form.name().into(),
        colour,
        points: case.phases.iter().map(|p| (p.delay_us as f64 * 1e3, p.busy[form as usize] * 1e6)).collect(),
        ..Series::default()
    };
    let axis = |title: &str| Axis { title: title.into(), scale: Scale::Linear, unit: Unit::Nanos };
    document.plot(Plot {
        title: "100 reads a second of 5.05 ms: busy time by phase".into(),
        description: "The same requests, started later and later against the tick.".into(),
        mark: Mark::Line,
        x: axis("start after a tick"),
        y: axis("busy in 5 s"),
        series: [IoTicksForm::Sampled, IoTicksForm::Precise, IoTicksForm::Exact]
            .into_iter()
            .enumerate()
            .map(series)
            .collect(),
    });
}

/// Returns a table in which adjacent phases with equal counts share one row.
fn phases_table(phases: &[Phase]) -> Table {
    let mut table = Table::new(["start after a tick", "sampled ms", "inflight ms", "precise ms", "exact ms"]);
    for alike in phases.chunk_by(|a, b| a.busy.map(f64::round) == b.busy.map(f64::round)) {
        let (first, last) = (&alike[0], &alike[alike.len() - 1]);
        let [from, to] = [first, last].map(|phase| format!("{:.1}", phase.delay_us as f64 / 1e3));
        let [a, b, c, d] = first.busy.map(|ms| format!("{ms:.0}"));
        let name = if from == to { format!("{from} ms") } else { format!("{from} to {to} ms") };
        table.row([&name, &a, &b, &c, &d]);
    }
    table
}
