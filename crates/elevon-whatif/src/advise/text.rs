//! Advice as text for people.

use std::fmt::Write as _;

use elevon_core::units::Nanos;
use elevon_report::wrap;
use elevon_result::number;
use elevon_result::result::NotKept;

use super::changes::{LOSS_WORTH_A_WORD, change, cpu, losses};
use super::goal::{Goal, NOISE, Objective, Subject, percent};
use super::setup::{Setup, Step, prio_words, shown};
use super::summary::summary;
use super::trial::Trial;
use super::{Advice, AdviseRequest, Proposal};
use crate::figures::{Figure, Figures};
use crate::interval;

/// Processes that a table has at most.
const MAX_ROWS: usize = 16;
/// Columns of a terminal that are filled.
const COLUMNS: usize = 79;

pub(super) fn text(request: &AdviseRequest, advice: &Advice) -> String {
    let mut out = String::new();
    head(&mut out, request, advice);
    check(&mut out, advice);
    if advice.proposals.is_empty() {
        nothing(&mut out, request, advice);
    } else {
        let _ =
            writeln!(out, "\nBest of {} configurations for {}:", advice.tried, goal_words(request));
    }
    for (number, proposal) in advice.proposals.iter().enumerate() {
        let _ = writeln!(out, "\n{}. {}", number + 1, changes(proposal, advice));
        wrapped(&mut out, "   ", &summary(advice, proposal));
        gains(&mut out, &advice.objective, &advice.before, &proposal.scored.trial);
        for line in risks(advice, proposal) {
            wrapped(&mut out, "   ", &line);
        }
        out.push_str(&proposal.lines.text(3));
    }
    if let Some((_, experiment)) = &advice.interval {
        out.push_str(&experiment.text);
    }
    out
}

/// What the goal is, for people.
pub(super) fn goal_words(request: &AdviseRequest) -> String {
    let what = match request.goal {
        Goal::Balanced => "throughput, p50 and p99",
        Goal::P99 => "the 99th percentile of latency",
        Goal::P50 => "the median latency",
        Goal::Throughput => "throughput",
        Goal::Fair => "the process that is slowed down most",
    };
    match &request.for_process {
        Some(process) => format!("{what} of {process}"),
        None => what.to_owned(),
    }
}

/// The trace, the device and the configuration.
fn head(out: &mut String, request: &AdviseRequest, advice: &Advice) {
    let (ios, in_trace) = advice.ios;
    let stretch = match in_trace > ios {
        true => {
            let which = match &request.for_process {
                Some(process) => format!("the stretch where {process} meets others most"),
                None => "the busiest stretch".to_owned(),
            };
            format!(", {which} of the {} in the trace", number::grouped(in_trace as u64))
        }
        false => String::new(),
    };
    let _ = writeln!(
        out,
        "elevon advise: device {} of {}: {} I/Os of {} processes in {}{stretch}",
        advice.device,
        request.input.display(),
        number::grouped(ios as u64),
        advice.objective.processes.len(),
        Nanos::new(advice.span),
    );
    let said = advice.captured.known_by.words();
    let prios = advice.captured.setup.prios.iter();
    let prios = prios.map(|(&at, &prio)| {
        format!(", {} at {}", advice.objective.processes[at].label, prio_words(prio))
    });
    let prios = prios.collect::<String>();
    wrapped(out, "", &format!("captured under {}{prios} ({said})", advice.captured.setup));
    if let Some(selected) = &advice.selected {
        wrapped(out, "", &format!("selected: {selected}"));
    }
    for NotKept { property, why } in &advice.not_kept {
        wrapped(out, "", &format!("not kept of the trace: {property}: {why}"));
    }
    let line = match &advice.calibration {
        Some(found) => format!(
            "device fitted to the trace: {}, the distribution of the latency of the {} requests that it was fitted to within {:.1} % (elevon calibrate shows it)",
            found.model.words(),
            number::grouped(found.model.requests()),
            found.model.error_percent()
        ),
        None => format!("device: {}", request.device.as_deref().unwrap_or_default()),
    };
    wrapped(out, "", &line);
    if let Some((known, _)) = advice.interval {
        let words = interval::not_known(known);
        wrapped(
            out,
            "",
            &format!(
                "{words}: other devices explain the trace as well, and would serve another load otherwise"
            ),
        );
    }
}

/// A line in pieces that fit into a terminal.
fn wrapped(out: &mut String, indent: &str, line: &str) {
    let mut length = 0;
    for word in line.split(' ') {
        if length > 0 && length + 1 + word.len() > COLUMNS {
            let _ = write!(out, "\n{indent}  ");
            length = indent.len() + 2;
        } else if length > 0 {
            out.push(' ');
            length += 1;
        } else {
            out.push_str(indent);
            length = indent.len();
        }
        out.push_str(word);
        length += word.len();
    }
    out.push('\n');
}

/// A figure in a table.
fn shown_figure(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Throughput => number::grouped(value.round() as u64),
        Figure::P50 | Figure::P99 => format!("{:.0}", value / 1e3),
    }
}

/// The processes that a table shows: those with most I/Os.
fn rows(processes: &[Subject]) -> Vec<usize> {
    let mut all: Vec<usize> = (0..processes.len()).collect();
    all.sort_by_key(|&at| (std::cmp::Reverse(processes[at].measured.ios), at));
    all.truncate(MAX_ROWS);
    all
}

/// The width of the names in a table.
fn label_width(processes: &[Subject]) -> usize {
    let shown = rows(processes).into_iter().map(|at| processes[at].label.chars().count());
    shown.chain(["process".len()]).max().unwrap_or(0)
}

/// Writes what the columns of a table are, each of a width.
fn figure_heads(out: &mut String, width: usize) -> &mut String {
    for head in ["I/Os a second", "p50, us", "p99, us"] {
        let _ = write!(out, "{head:^width$}");
    }
    out
}

/// The replay as captured beside the trace.
fn check(out: &mut String, advice: &Advice) {
    out.push_str("\nCheck: replayed as captured, beside the trace. What is missed here is missed below, too.\n");
    check_table(out, &advice.objective.processes);
    let Some((what, reasons)) = &advice.why_off else { return };
    wrapped(out, "", &format!("{what} Only what gains more than that is proposed."));
    if reasons.is_empty() {
        wrapped(
            out,
            "",
            "The device or the settings are not what the trace was captured on, or the trace is too short to fit a device to it.",
        );
    } else {
        out.push_str("What may be the reason:\n");
        reasons.iter().for_each(|reason| wrap::wrapped(out, "- ", reason));
    }
}

/// The figures of a replay as captured beside those of the trace.
pub(super) fn check_table(out: &mut String, processes: &[Subject]) {
    let width = label_width(processes);
    let _ = write!(out, "{:<width$}", "");
    trim_end(figure_heads(out, 22));
    let head = format!(" {:>7} {:>7} {:>5}", "trace", "replay", "");
    let _ = write!(out, "{:<width$}{head}{head}{head}", "process");
    trim_end(out);
    for at in rows(processes) {
        let Subject { label, measured, checked, .. } = &processes[at];
        let _ = write!(out, "{label:<width$}");
        for figure in Figure::ALL {
            match (measured.get(figure), checked.get(figure), measured.gain(checked, figure)) {
                (Some(trace), Some(replay), Some(gain)) => {
                    let (trace, replay) =
                        (shown_figure(figure, trace), shown_figure(figure, replay));
                    let _ = write!(out, " {trace:>7} {replay:>7} {:>+4.0}%", change(gain, figure));
                }
                _ => {
                    let _ = write!(out, " {:>7} {:>7} {:>5}", "-", "-", "");
                }
            }
        }
        trim_end(out);
    }
    let more = processes.len().saturating_sub(MAX_ROWS);
    if more > 0 {
        let _ = writeln!(out, "and {more} with fewer I/Os");
    }
}

fn trim_end(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

/// What a step does, in a few words.
pub(super) fn step_words(step: &Step, setup: &Setup, processes: &[Subject]) -> String {
    match step {
        Step::Scheduler(name) => format!("scheduler {name}"),
        Step::Tunable(name, value) => format!("{name}={}", shown(setup.scheduler, name, *value)),
        Step::Setting(key, value) => format!("{key}={value}"),
        Step::Prio(at, prio) => format!("{} at {}", processes[*at].label, prio_words(*prio)),
        Step::Cost => "io.cost enabled".to_owned(),
        Step::Weight(at, weight) => format!("{} with weight {weight}", processes[*at].label),
        Step::Limit(at, (key, rate)) => {
            format!("{} with io.max {}={rate}", processes[*at].label, key.name())
        }
        Step::Target(at, target) => format!("{} with io.latency {target} us", processes[*at].label),
    }
}

/// The steps of a configuration.
fn changes_of(setup: &Setup, advice: &Advice) -> String {
    let steps = setup.steps(&advice.captured.setup);
    let words = steps.iter().map(|step| step_words(step, setup, &advice.objective.processes));
    words.collect::<Vec<_>>().join(", ")
}

fn changes(proposal: &Proposal, advice: &Advice) -> String {
    let setup = &proposal.scored.trial.setup;
    let note = if setup.is_in_kernel() { "" } else { "   (not in the kernel)" };
    format!("{}{note}", changes_of(setup, advice))
}

/// The figures of each process before and after.
fn gains(out: &mut String, objective: &Objective, before: &Trial, after: &Trial) {
    let width = label_width(&objective.processes);
    let head = format!("{:>7} {:>7} {:>6}", "before", "after", "");
    let _ = write!(out, "   {:<width$} ", "");
    trim_end(figure_heads(out, 22));
    let _ = write!(out, "   {:<width$} {head}{head}{head}", "process");
    trim_end(out);
    let mut is_uncertain = false;
    for at in rows(&objective.processes) {
        let subject = &objective.processes[at];
        let _ = write!(out, "   {:<width$} ", subject.label);
        for figure in Figure::ALL {
            let (from, to): (&Figures, &Figures) = (&before.processes[at], &after.processes[at]);
            let (Some(a), Some(b), Some(gain)) =
                (from.get(figure), to.get(figure), from.gain(to, figure))
            else {
                let _ = write!(out, "{:>7} {:>7} {:>6}", "-", "-", "");
                continue;
            };
            let within = subject.error(figure).is_none_or(|error| gain.abs() <= error + NOISE);
            is_uncertain |= within;
            let mark = if within { '~' } else { ' ' };
            let (a, b) = (shown_figure(figure, a), shown_figure(figure, b));
            let _ = write!(out, "{a:>7} {b:>7} {:>+4.0}%{mark}", change(gain, figure));
        }
        trim_end(out);
    }
    if is_uncertain {
        out.push_str("   ~ within the error of the check: it may be nothing\n");
    }
}

/// Which processes lose, how sure it is, and what it costs.
pub(super) fn risks(advice: &Advice, proposal: &Proposal) -> Vec<String> {
    let mut lines = proposal.not_known.clone();
    let losers = losses(advice, &proposal.scored.trial);
    lines.push(if losers.is_empty() {
        "who loses: nobody".to_owned()
    } else {
        let words = losers.iter().map(|(at, figure, percent)| {
            format!("{} {} {percent:+.0} %", advice.objective.processes[*at].label, figure.name())
        });
        format!("who loses: {}", words.collect::<Vec<_>>().join(", "))
    });
    lines.extend(unfelt(advice, &proposal.scored.trial));
    for (from, (to, subject)) in advice
        .before
        .processes
        .iter()
        .zip(proposal.scored.trial.processes.iter().zip(&advice.objective.processes))
    {
        if from.stalls_in(to) {
            let [longest, before] = [to.longest, from.longest].map(number::span);
            lines.push(format!(
                "{} waits up to {longest} for an I/O ({before} before)",
                subject.label
            ));
        }
    }
    lines.push(format!(
        "how sure: beyond the error of the check{}",
        halves_words(proposal.in_halves)
    ));
    lines.extend(cpu(advice, &proposal.scored.trial).map(|(more, percent)| {
        format!("CPU: the scheduler takes {more} more of each request, {percent:.1} % of a CPU at this rate; no replay has that")
    }));
    lines
}

/// Names the processes whose latency becomes longer though no user waits for their I/Os, if any.
fn unfelt(advice: &Advice, after: &Trial) -> Option<String> {
    let figures =
        advice.before.processes.iter().zip(&after.processes).zip(&advice.objective.processes);
    let slower = figures.filter(|((from, to), subject)| {
        let of =
            |figure| from.gain(to, figure).is_some_and(|gain| percent(gain) <= LOSS_WORTH_A_WORD);
        !subject.is_waited_for && (of(Figure::P50) || of(Figure::P99))
    });
    let labels: Vec<&str> = slower.map(|(_, subject)| subject.label.as_str()).collect();
    (!labels.is_empty()).then(|| {
        format!(
            "nobody waits for the writes of {}: their latency counts for nothing",
            labels.join(", ")
        )
    })
}

/// Says which halves of the trace show that nothing is lost.
const fn halves_words(in_halves: [Option<f64>; 2]) -> &'static str {
    match in_halves {
        [Some(_), Some(_)] => ", and no loss in either half of the trace",
        [Some(_), None] => {
            ", and no loss in the first half of the trace; the second is too short to tell"
        }
        [None, Some(_)] => {
            ", and no loss in the second half of the trace; the first is too short to tell"
        }
        [None, None] => "; the halves of the trace are too short to tell",
    }
}

/// Why nothing is proposed.
fn nothing(out: &mut String, request: &AdviseRequest, advice: &Advice) {
    let _ = writeln!(
        out,
        "\nNo change is worth it, of {} configurations for {}.",
        advice.tried,
        goal_words(request)
    );
    if let Some((known, _)) = advice.interval {
        let words = interval::not_known(known);
        wrapped(
            out,
            "",
            &format!(
                "What a change gains that leads elsewhere is {words}; the experiment below would tell."
            ),
        );
    }
    let Some((scored, has_failed)) = &advice.runner_up else {
        out.push_str("None of them promises anything.\n");
        return;
    };
    let what = changes_of(&scored.trial.setup, advice);
    let why = if *has_failed {
        "but it loses in one half of the trace"
    } else {
        "but no more than the error of the check, or less than what it takes"
    };
    wrapped(out, "", &format!("What promises most, {why}: {what}"));
    gains(out, &advice.objective, &advice.before, &scored.trial);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_that_cannot_tell_is_named() {
        assert!(halves_words([Some(0.1), Some(0.0)]).contains("either half"));
        assert!(
            halves_words([Some(0.1), None])
                .contains("in the first half of the trace; the second is too short")
        );
        assert!(
            halves_words([None, Some(0.1)])
                .contains("in the second half of the trace; the first is too short")
        );
        assert!(!halves_words([None, None]).contains("no loss"));
    }
}
