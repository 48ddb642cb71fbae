//! Advice as JSON for programs.

use elevon_plan::text_files::quoted;
use elevon_report::json::not_kept;
use serde_json::{Map, Value, json};

use super::captured::Captured;
use super::changes::{cpu, losses};
use super::claims::COST_QOS;
use super::goal::{Subject, percent};
use super::setup::{Setup, Step, prio_words, shown};
use super::summary::summary;
use super::trial::Trial;
use super::{Advice, AdviseRequest, Proposal};
use crate::calibrate::FittedModel;
use crate::figures::{Figure, Figures};
use crate::replay::ioprio;

pub(super) fn json(request: &AdviseRequest, advice: &Advice, warnings: &[String]) -> String {
    let proposals: Vec<Value> = advice.proposals.iter().map(|one| proposal(one, advice)).collect();
    let nearest = advice.runner_up.as_ref().map(|(scored, has_failed)| {
        let mut found = configuration(&scored.trial.setup, advice);
        found["score"] = rounded(scored.score).into();
        found["loses_in_a_half"] = (*has_failed).into();
        found["processes"] = processes(advice, &scored.trial);
        found
    });
    let calibration = advice.calibration.as_ref().map(|found| {
        let (servers, like) = match &found.model {
            FittedModel::Servers(found) => (Some(found.fit.model.servers), None),
            FittedModel::Flash(found) => (None, Some(found.name())),
        };
        let (requests, error) = (found.model.requests(), rounded(found.model.error_percent()));
        json!({ "servers": servers, "like": like, "requests": requests, "error_percent": error })
    });
    let check: Vec<Value> = advice.objective.processes.iter().map(checked).collect();
    let mut captured = captured(&advice.captured);
    captured["ioprio"] = ioprio(&advice.captured.setup, advice);
    let all = json!({
        "trace": request.input.display().to_string(),
        "device": advice.device.to_string(),
        "goal": request.goal.name(),
        "for": request.for_process,
        "warnings": warnings,
        "selected": advice.selected,
        "not_kept": not_kept(&advice.not_kept),
        "ios": advice.ios.0,
        "ios_in_trace": advice.ios.1,
        "span_ns": advice.span,
        "captured": captured,
        "calibration": calibration,
        "interval": advice.interval.as_ref().map(|([from, to], experiment)| {
            let depth = |depth: u64| (depth > 0).then_some(depth);
            json!({ "known_from": depth(*from), "known_to": depth(*to), "experiment": experiment.lines })
        }),
        "check": check,
        "why_off": advice.why_off.as_ref().map(|(_, reasons)| reasons),
        "tried": advice.tried,
        "is_worth_it": !advice.proposals.is_empty(),
        "proposals": proposals,
        "nearest": nearest,
    });
    format!("{all:#}\n")
}

/// Returns the priorities that a configuration gives processes, by process.
fn ioprio(setup: &Setup, advice: &Advice) -> Value {
    let label = |at: usize| advice.objective.processes[at].label.clone();
    setup
        .prios
        .iter()
        .map(|(&at, &prio)| (label(at), ioprio::text(prio).into()))
        .collect::<Map<_, _>>()
        .into()
}

/// To a hundredth.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

pub(super) fn captured(captured: &Captured) -> Value {
    let Captured { setup, known_by } = captured;
    json!({ "scheduler": setup.scheduler_text(), "settings": setup.settings, "source": known_by.name() })
}

/// Keys of a figure.
const fn key(figure: Figure) -> &'static str {
    match figure {
        Figure::Throughput => "iops",
        Figure::P50 => "p50_ns",
        Figure::P99 => "p99_ns",
    }
}

/// A change in percent, as signs are read: more I/Os or a longer latency is positive.
fn change(from: &Figures, to: &Figures, figure: Figure) -> Option<f64> {
    let gain = from.gain(to, figure)?;
    Some(rounded(percent(if figure == Figure::Throughput { gain } else { -gain })))
}

pub(super) fn checked(subject: &Subject) -> Value {
    let mut row = json!({ "process": subject.label, "ios": subject.measured.ios, "is_wanted": subject.is_wanted });
    for figure in Figure::ALL {
        row[key(figure)] = json!({
            "measured": subject.measured.get(figure).map(rounded),
            "predicted": subject.checked.get(figure).map(rounded),
            "error_percent": change(&subject.measured, &subject.checked, figure),
        });
    }
    row
}

/// Every process before and after.
fn processes(advice: &Advice, after: &Trial) -> Value {
    let pairs =
        advice.before.processes.iter().zip(&after.processes).zip(&advice.objective.processes);
    let rows = pairs.map(|((from, to), subject)| {
        let mut row = json!({ "process": subject.label });
        for figure in Figure::ALL {
            let gain = from.gain(to, figure);
            let error = subject.error(figure);
            row[key(figure)] = json!({
                "before": from.get(figure).map(rounded),
                "after": to.get(figure).map(rounded),
                "change_percent": change(from, to, figure),
                "is_beyond_error": gain.zip(error).map(|(gain, error)| gain.abs() > error + super::goal::NOISE),
            });
        }
        row
    });
    rows.collect()
}

/// What a configuration is, and what has to be changed.
fn configuration(setup: &Setup, advice: &Advice) -> Value {
    let label = |at: &usize| advice.objective.processes[*at].label.clone();
    let steps: Vec<Value> = setup
        .steps(&advice.captured.setup)
        .iter()
        .map(|step| self::step(step, setup, &label))
        .collect();
    let set = setup
        .settings
        .iter()
        .map(|(key, value)| format!(" --set {key}={value}"))
        .collect::<String>();
    let prios = setup.prios.iter();
    let prios = prios
        .map(|(at, &prio)| quoted(["--ioprio", &format!("{}={}", label(at), ioprio::text(prio))]));
    let prios = prios.map(|words| format!(" {words}")).collect::<String>();
    json!({
        "options": format!("--scheduler {}{set}{prios}", setup.scheduler_text()),
        "is_in_kernel": setup.is_in_kernel(),
        "changes": steps,
    })
}

fn step(step: &Step, setup: &Setup, label: &dyn Fn(&usize) -> String) -> Value {
    match step {
        Step::Scheduler(name) => json!({ "what": "scheduler", "value": name }),
        Step::Tunable(name, value) => {
            json!({ "what": "tunable", "name": name, "value": shown(setup.scheduler, name, *value) })
        }
        Step::Setting(key, value) => json!({ "what": "setting", "name": key, "value": value }),
        Step::Prio(at, prio) => {
            json!({ "what": "priority", "process": label(at), "value": prio_words(*prio) })
        }
        Step::Cost => json!({ "what": "io.cost", "value": COST_QOS }),
        Step::Weight(at, weight) => {
            json!({ "what": "weight", "process": label(at), "value": weight })
        }
        Step::Limit(at, (key, rate)) => {
            json!({ "what": "io.max", "process": label(at), "value": format!("{}={rate}", key.name()) })
        }
        Step::Target(at, target) => {
            json!({ "what": "io.latency", "process": label(at), "value": format!("target={target}") })
        }
    }
}

fn proposal(proposal: &Proposal, advice: &Advice) -> Value {
    let trial = &proposal.scored.trial;
    let mut all = configuration(&trial.setup, advice);
    all["summary"] = summary(advice, proposal).into();
    all["score"] = rounded(proposal.scored.score).into();
    all["score_in_halves"] = json!(proposal.in_halves.map(|score| score.map(rounded)));
    all["processes"] = processes(advice, trial);
    let loser = |(at, figure, change): (usize, Figure, f64)| json!({ "process": advice.objective.processes[at].label, "figure": key(figure), "change_percent": rounded(change) });
    all["losers"] = losses(advice, trial).into_iter().map(loser).collect();
    all["not_known"] = proposal.not_known.clone().into();
    if !proposal.tenants.is_empty() {
        all["tenants"] = proposal.tenants.clone().into();
    }
    all["cpu_percent"] = cpu(advice, trial).map(|(_, percent)| rounded(percent)).into();
    let lines = &proposal.lines;
    let systemd: serde_json::Map<String, Value> =
        lines.systemd.iter().map(|(path, lines)| (path.clone(), lines.clone().into())).collect();
    all["set"] = json!({ "shell": lines.shell, "udev": lines.udev, "systemd": systemd, "android": lines.android });
    all
}
