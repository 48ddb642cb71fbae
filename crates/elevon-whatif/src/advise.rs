//! `elevon advise TRACE`: searches for a configuration that serves the processes of a trace better,
//! by closed-loop replay on a device that is fitted to the trace.
//!
//! The replay as captured is the check: what it misses of the trace is the error of every
//! prediction, and nothing is advised that lies within it (`goal.rs`). The best configurations are
//! replayed again on each half of the trace, and must not lose in either.

mod captured;
mod changes;
mod check;
mod claims;
mod elsewhere;
mod failure;
mod goal;
mod json;
mod knobs;
mod lines;
mod search;
mod setup;
mod summary;
mod text;
mod trial;
mod why_off;

use crate::figures;
use crate::figures::{Figure, Figures};
pub use check::Check;
pub use goal::Goal;

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use elevon_core::kernel::Kernel;
use elevon_core::sched::SCHEDULERS;
use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::{Failure, ValueError};
use elevon_plan::listener::Listener;
use elevon_plan::options::{QueueOptions, StackOptions};
use elevon_plan::target::{Target, target};
use elevon_plan::text_files::STDIN;
use elevon_result::result::NotKept;
use elevon_trace::replay::{Taken, Workload, WorkloadProcess};

use crate::calibrate::FittedDevice;
use crate::replay::lacking::{self, Lacking};
use crate::replay::{ioprio, read_workload, refuse_options_of_jobs, selected};
use crate::select::{self, SelectOptions};
use crate::trace_input::TraceInput;
use captured::{Captured, ReplayDevice};
use elsewhere::Elsewhere;
use failure::AdviseError;
use goal::{Objective, Subject};
use knobs::Knobs;
use lines::{Disk, Lines};
use search::{Scored, Search};
use trial::{Bench, Trial};

/// I/Os of one process that it takes to advise on anything.
const MIN_IOS_OF_A_PROCESS: usize = 100;
/// Values of `--ios`, `--best` and `--max-loss`.
const IOS: std::ops::RangeInclusive<usize> = 1_000..=10_000_000;
const BEST: std::ops::RangeInclusive<usize> = 1..=20;
const LOSS: std::ops::RangeInclusive<f64> = 0.0..=95.0;
/// Processes that are replayed alone for the goal `fair`.
const MAX_ALONE: usize = 64;
/// A configuration must not lose more than this in either half of the trace, as a logarithm: what
/// gains by chance in one loses in the other.
const LOSS_IN_A_HALF: f64 = 0.02;

/// A configuration that is proposed.
struct Proposal {
    scored: Scored,
    /// What it scores in each half of the trace; `None` if the half is too short to tell.
    in_halves: [Option<f64>; 2],
    lines: Lines,
    /// The text of a file of `--tenants` with what it gives processes; empty if that is nothing.
    tenants: String,
    /// What is not known of it, as several devices explain the trace.
    not_known: Vec<String>,
}

/// All that is said.
struct Advice {
    device: elevon_trace::DeviceNumber,
    /// What is selected of the trace; `None` for all.
    selected: Option<String>,
    /// What of the trace no replay keeps.
    not_kept: Vec<NotKept>,
    /// The fit of the device, if it was fitted.
    calibration: Option<FittedDevice>,
    captured: Captured,
    objective: Objective,
    before: Trial,
    proposals: Vec<Proposal>,
    /// If the replay as captured is far off from the trace: that, and what may be the reasons.
    why_off: Option<(String, Vec<String>)>,
    /// If several devices explain the trace: the depths between which they serve alike, and lines
    /// of an experiment that would tell them.
    interval: Option<([u64; 2], elsewhere::Experiment)>,
    /// If nothing is proposed, what came nearest, and whether it failed in a half of the trace.
    runner_up: Option<(Scored, bool)>,
    /// Configurations that were replayed.
    tried: usize,
    /// I/Os that were replayed, those of the trace, and nanoseconds of the stretch.
    ios: (usize, usize),
    span: u64,
}

/// What advice is wanted.
#[derive(Clone, Debug)]
pub struct AdviseRequest {
    /// The trace, a file.
    pub input: PathBuf,
    /// The device of the trace; `None` for the one that has nearly all events.
    pub dev: Option<String>,
    /// What is to get better.
    pub goal: Goal,
    /// Only what these processes get counts; `None` for all.
    pub for_process: Option<String>,
    /// Percent of its throughput that a process may lose, from 0 to 95.
    pub max_loss: f64,
    /// The part of the trace that is taken.
    pub select: SelectOptions,
    /// What the trace was captured under, as far as it is given: scheduler, settings, priorities,
    /// kernel. Options of jobs are refused.
    pub given: StackOptions,
    /// The device that everything is replayed on; `None` for one that is fitted to the trace.
    pub device: Option<String>,
    /// Name of the disk in the lines that are printed.
    pub name: Option<String>,
    /// Each process ends when its I/Os are done.
    pub once: bool,
    /// Also what no kernel has.
    pub experimental: bool,
    /// I/Os that are replayed, from 1,000 to 10,000,000.
    pub ios: usize,
    /// Proposals at most, from 1 to 20.
    pub best: usize,
}

/// Advice, with what it was asked for.
pub struct Answer {
    request: AdviseRequest,
    advice: Advice,
    /// What a user should know of the trace.
    warnings: Vec<String>,
}

impl Answer {
    /// Shows it to people.
    pub fn text(&self) -> String {
        text::text(&self.request, &self.advice)
    }

    /// Shows it to programs.
    pub fn json(&self) -> String {
        json::json(&self.request, &self.advice, &self.warnings)
    }
}

/// Advises on a trace; `None` if the user interrupted it.
///
/// # Errors
/// An option or the trace is wrong, or the trace has too few I/Os.
pub fn advise(
    request: AdviseRequest,
    interrupt: &Interrupt,
    listener: &dyn Listener,
) -> Result<Option<Answer>, Failure> {
    check(&request)?;
    let name = request.input.display().to_string();
    let selection = select::selection(&request.select)?;
    let whole = read_workload(&request.input, request.dev.as_deref(), listener)?;
    let in_trace = whole.len();
    let whole = selected(&request.input, whole, &selection)?;
    let selected = (!selection.is_all())
        .then(|| format!("{}: {} of {in_trace} I/Os", selection.words(), whole.len()));
    let warnings = trouble(&whole);
    for line in &warnings {
        listener.tell(&format!("warning: {name}: {line}"));
    }
    let Some(advice) = advice_on(whole, &request, interrupt, listener)? else { return Ok(None) };
    let advice = Advice { selected, ..advice };
    Ok(Some(Answer { request, advice, warnings }))
}

/// Checks what can be checked before the trace is read.
fn check(request: &AdviseRequest) -> Result<(), Failure> {
    if request.input == Path::new(STDIN) {
        return Err(Failure::named(
            STDIN,
            ValueError::expected("a file: the trace is read several times"),
        ));
    }
    refuse_options_of_jobs(&request.given)?;
    let wrong = |option: String, expected: String| {
        Err(Failure::named(option, ValueError::expected(expected)))
    };
    if !IOS.contains(&request.ios) {
        return wrong(
            format!("--ios {}", request.ios),
            format!("a number from {} to {}", IOS.start(), IOS.end()),
        );
    }
    if !BEST.contains(&request.best) {
        return wrong(
            format!("--best {}", request.best),
            format!("a number from {} to {}", BEST.start(), BEST.end()),
        );
    }
    if !LOSS.contains(&request.max_loss) {
        return wrong(
            format!("--max-loss {}", request.max_loss),
            format!("percent from {} to {}", LOSS.start(), LOSS.end()),
        );
    }
    Ok(())
}

/// Advises on a workload; `None` if the user interrupted it.
fn advice_on(
    whole: Workload,
    request: &AdviseRequest,
    interrupt: &Interrupt,
    listener: &dyn Listener,
) -> Result<Option<Advice>, Failure> {
    let in_trace = whole.len();
    // Each is looked for in all that is selected, and the stretch may lack some.
    let prios = ioprio::prios(&whole, &request.given.ioprio)?;
    let labels: Vec<String> = whole.processes.iter().map(WorkloadProcess::label).collect();
    let workload = replayed(whole, request)?;
    let wanted = wanted(&workload, request.for_process.as_deref())?;
    let base = base(request)?;
    let device = ReplayDevice::new(request, &base, listener)?;
    let bar = listener.begin(&request.input.display().to_string());
    let mut bench =
        Bench::new(workload, request.once, &base, device.own.as_ref(), interrupt, &*bar)?;
    let index = |at: usize| {
        bench.workload.processes.iter().position(|process| process.label() == labels[at])
    };
    let prios = prios.iter().filter_map(|(&at, &prio)| Some((index(at)?, prio))).collect();
    let found = captured::find(
        (&request.input, request.dev.as_deref(), listener),
        &request.given.queue,
        prios,
        &mut bench,
    )?;
    let Some((captured, before)) = found else { return Ok(None) };
    let Some(objective) = objective(request, &wanted, &bench, &before)? else { return Ok(None) };
    let knobs = knobs(request, &wanted, &captured, &before, &objective, &mut bench)?;
    let mut search = Search::new(&bench, &objective, &before);
    let found = search.run(&knobs).then(|| search.best(request.best)).flatten();
    let Some(best) = found else { return Ok(None) };
    let Some(in_halves) = in_halves(&best, &bench, &objective, &before)? else { return Ok(None) };
    let elsewhere = Elsewhere::new(device.own.as_ref(), &bench);
    let of_best = best.into_iter().zip(in_halves);
    let (proposals, failed) =
        proposals(of_best, request, &captured, &objective, &bench, &elsewhere)?;
    let runner_up = || {
        failed.map(|one| (one, true)).or_else(|| Some((search.most_promising()?.clone(), false)))
    };
    let not_kept = Lacking { scheduler: None, buffers: false, tenants: false, is_real: false };
    Ok(Some(Advice {
        device: bench.workload.device,
        selected: None,
        not_kept: not_kept.of(&bench.workload),
        why_off: why_off(request, &objective.processes, device.calibration.as_ref(), listener)?,
        interval: elsewhere.experiment(request.name.as_deref()),
        calibration: device.calibration,
        runner_up: if proposals.is_empty() { runner_up() } else { None },
        proposals,
        tried: search.count(),
        ios: (bench.workload.len(), in_trace),
        span: bench.workload.duration,
        captured,
        before: before.clone(),
        objective: objective.clone(),
    }))
}

/// Returns what may be changed. Measures the device for io.cost if that may be.
fn knobs(
    request: &AdviseRequest,
    wanted: &[usize],
    captured: &Captured,
    before: &Trial,
    objective: &Objective,
    bench: &mut Bench<'_>,
) -> Result<Knobs, Failure> {
    let claimants = if request.for_process.is_some() { wanted } else { &[] };
    let stack = bench.stack(&captured.setup)?;
    let max_loss = objective.max_loss;
    let mut knobs = Knobs::new(
        &bench.workload,
        &stack,
        &before.processes,
        claimants,
        max_loss,
        request.experimental,
    );
    knobs.has_cost_model = knobs.has_claims() && bench.measure_cost()?;
    Ok(knobs)
}

/// Returns a proposal for each of the best that loses in no half of the trace, and the first of
/// those that lose. `best` comes with what each scores in each half.
fn proposals(
    best: impl Iterator<Item = (Scored, [Option<f64>; 2])>,
    request: &AdviseRequest,
    captured: &Captured,
    objective: &Objective,
    bench: &Bench<'_>,
    elsewhere: &Elsewhere<'_>,
) -> Result<(Vec<Proposal>, Option<Scored>), Failure> {
    let disk = disk(request, &bench.workload);
    let (mut proposals, mut failed) = (Vec::new(), None);
    for (scored, in_halves) in best {
        if in_halves.iter().flatten().any(|score| *score < -LOSS_IN_A_HALF) {
            failed.get_or_insert(scored);
            continue;
        }
        let setup = &scored.trial.setup;
        let steps = captured.steps_to(setup);
        let lines = Lines::new(setup, &steps, &disk, &objective.processes, &bench.cost_model);
        let tenants = bench.tenants_text(setup);
        let not_known = elsewhere.not_known(&scored.trial, objective)?;
        proposals.push(Proposal { scored, in_halves, lines, tenants, not_known });
    }
    Ok((proposals, failed))
}

/// Returns what is replayed of a workload: all of a short one, and of a long one a stretch.
fn replayed(whole: Workload, request: &AdviseRequest) -> Result<Workload, Failure> {
    let workload = match stretch(&whole, request.ios, request.for_process.as_deref())? {
        Some((from, until)) => whole.between(from, until),
        None => whole,
    };
    if workload.processes.iter().all(|process| process.ios.len() < MIN_IOS_OF_A_PROCESS) {
        let name = request.input.display().to_string();
        return Err(Failure::named(name, AdviseError::TooFew { fewest: MIN_IOS_OF_A_PROCESS }));
    }
    Ok(workload)
}

/// Returns the stretch of a long trace that is replayed, as the times of its first and last I/O:
/// the busiest, or the one where the processes that the goal is for meet others most. `None` is all
/// of a short one.
fn stretch(
    whole: &Workload,
    ios: usize,
    for_process: Option<&str>,
) -> Result<Option<(u64, u64)>, Failure> {
    if whole.len() <= ios {
        return Ok(None);
    }
    // Ascending.
    let wanted = wanted(whole, for_process)?;
    let processes = whole.processes.iter().enumerate();
    let times = processes.flat_map(|(at, process)| {
        let is_wanted = wanted.binary_search(&at).is_ok();
        process.ios.iter().map(move |io| (io.at, is_wanted))
    });
    let mut times: Vec<(u64, bool)> = times.collect();
    times.sort_unstable();
    Ok(densest(&times, ios))
}

/// Returns the first and last of `count` successive times of which most are wanted and as many
/// others are there: alone, no process can be served better. Of equal ones those within the
/// shortest time, and of these the first. If all are wanted, that is the busiest stretch.
fn densest(times: &[(u64, bool)], count: usize) -> Option<(u64, u64)> {
    let mut wanted = 0usize;
    let mut best = None;
    for (at, &(until, is_wanted)) in times.iter().enumerate() {
        wanted += usize::from(is_wanted);
        if at + 1 < count {
            continue;
        }
        let (from, leaves) = times[at + 1 - count];
        let rank = (wanted.min(count - wanted), wanted, Reverse(until - from));
        if best.is_none_or(|(known, _)| rank > known) {
            best = Some((rank, (from, until)));
        }
        wanted -= usize::from(leaves);
    }
    best.map(|(_, ends)| ends)
}

/// Returns the options that all replays share.
fn base(request: &AdviseRequest) -> Result<StackOptions, Failure> {
    let defaults = StackOptions::default();
    let device = request.device.clone().unwrap_or_else(|| defaults.device.clone());
    if !device.starts_with('@')
        && let Target::Real(_) | Target::Nbd(_) = target(&device)?
    {
        return Err(Failure::named(format!("--device {device}"), AdviseError::RealDevice));
    }
    let queue =
        QueueOptions { kernel: request.given.queue.kernel.clone(), ..QueueOptions::default() };
    Ok(StackOptions { device, queue, seed: request.given.seed, ..defaults })
}

/// Returns the processes that the goal is for: all, or those with a name, an id, or both.
fn wanted(workload: &Workload, text: Option<&str>) -> Result<Vec<usize>, Failure> {
    match text {
        Some(text) => select::processes(workload, "--for", text),
        None => Ok((0..workload.processes.len()).collect()),
    }
}

/// Returns the processes with their figures in the trace and in the replay as captured.
fn subjects(bench: &Bench<'_>, before: &Trial, is_wanted: &dyn Fn(usize) -> bool) -> Vec<Subject> {
    let processes = bench.workload.processes.iter().zip(&before.traced).enumerate();
    processes
        .map(|(at, (process, checked))| Subject {
            label: process.label(),
            name: process.name.clone(),
            id: process.id,
            measured: Figures::measured(process),
            checked: *checked,
            is_waited_for: figures::is_waited_for(process),
            is_wanted: is_wanted(at),
            alone: None,
        })
        .collect()
}

/// Says whether the replay as captured is far off, and what may be the reasons.
fn why_off(
    request: &AdviseRequest,
    processes: &[Subject],
    fitted: Option<&FittedDevice>,
    listener: &dyn Listener,
) -> Result<Option<(String, Vec<String>)>, Failure> {
    let Some(what) = why_off::far_off(processes) else { return Ok(None) };
    let trace = TraceInput::new(&request.input, request.dev.as_deref(), listener)?.analysed()?;
    let of_device = fitted.map_or_else(Vec::new, FittedDevice::doubts);
    Ok(Some((what, why_off::reasons(processes, &trace, of_device))))
}

/// Returns what is wanted, with the error of the prediction; `None` if the user interrupted it.
fn objective(
    request: &AdviseRequest,
    wanted: &[usize],
    bench: &Bench<'_>,
    before: &Trial,
) -> Result<Option<Objective>, Failure> {
    let mut processes = subjects(bench, before, &|at| wanted.contains(&at));
    if request.goal == Goal::Fair {
        let is_counted = |at: &usize| processes[*at].checked.get(Figure::Throughput).is_some();
        let counted: Vec<usize> = (0..processes.len()).filter(is_counted).take(MAX_ALONE).collect();
        for at in counted {
            let Some(alone) = bench.run_alone(at, &before.setup)? else { return Ok(None) };
            processes[at].alone = alone.get(Figure::Throughput);
        }
    }
    let all = (Figures::measured_all(&bench.workload), before.all);
    Ok(Some(Objective { goal: request.goal, processes, all, max_loss: request.max_loss / 100.0 }))
}

/// Replays the best once more on each half of the trace. Returns for each what it is worth in each
/// half that tells; `None` if the user interrupted it.
fn in_halves(
    best: &[Scored],
    bench: &Bench<'_>,
    objective: &Objective,
    before: &Trial,
) -> Result<Option<Vec<[Option<f64>; 2]>>, Failure> {
    let workload = &bench.workload;
    let times = workload.times();
    let middle = times[times.len() / 2];
    let halves = [workload.between(0, middle), workload.between(middle + 1, u64::MAX)];
    let mut scores: Vec<[Option<f64>; 2]> = vec![[None; 2]; best.len()];
    for (at, half) in
        halves.into_iter().enumerate().filter(|(_, half)| !half.is_empty() && !best.is_empty())
    {
        let labels: Vec<String> = half.processes.iter().map(WorkloadProcess::label).collect();
        let index =
            |at: usize| labels.iter().position(|label| *label == objective.processes[at].label);
        let of_half: Vec<usize> =
            (0..workload.processes.len()).filter(|&at| index(at).is_some()).collect();
        let objective = objective.of(&of_half);
        let part = bench.of_part(half)?;
        let mut setups = vec![before.setup.mapped(&index)];
        setups.extend(best.iter().map(|one| one.trial.setup.mapped(&index)));
        let mut trials = Vec::new();
        for setup in &setups {
            let Some(trial) = part.run(setup)? else { return Ok(None) };
            trials.push(trial);
        }
        for (scores, trial) in scores.iter_mut().zip(&trials[1..]) {
            scores[at] =
                objective.can_score(&trials[0], trial).then(|| objective.score(&trials[0], trial));
        }
    }
    Ok(Some(scores))
}

/// Returns what a user should know of the trace.
fn trouble(workload: &Workload) -> Vec<String> {
    let mut lines = Vec::new();
    if workload.report.gap_count > 0 {
        let gaps = workload.report.gap_count;
        lines.push(format!(
            "events were lost in {gaps} gap(s); what happened there is not replayed"
        ));
    }
    if workload.taken == Taken::Issued {
        lines
            .push("has no queue events: requests stand in for the I/Os that were split or merged into them".to_owned());
    }
    let tried: Vec<_> =
        SCHEDULERS.iter().filter(|info| setup::IN_KERNEL.contains(&info.name)).collect();
    lines.extend(lacking::line(workload, &tried, &Kernel::default().rules()));
    lines
}

/// Returns the disk that the lines of a proposal set.
fn disk(request: &AdviseRequest, workload: &Workload) -> Disk {
    let recorded = workload.recorded.as_ref();
    let device = recorded.and_then(elevon_trace::Recorded::device).unwrap_or(workload.device);
    let name = request.name.clone().or_else(|| recorded?.get("name").map(str::to_owned));
    Disk { device, name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stretch_is_that_of_the_wanted() {
        // Others are busiest at 100 and 101, the wanted at 10 to 30, and they meet at 30 to 40.
        let times = [
            (10, true),
            (20, true),
            (30, true),
            (32, false),
            (36, false),
            (40, true),
            (100, false),
            (101, false),
        ];
        assert_eq!(densest(&times, 4), Some((30, 40)));
        assert_eq!(
            densest(&times.map(|(at, _)| (at, true)), 2),
            Some((100, 101)),
            "of everybody the busiest"
        );
        assert_eq!(densest(&times[..3], 2), Some((10, 20)), "of equal ones the first");
        assert_eq!(
            densest(&[(0, true), (9, true), (10, true)], 2),
            Some((9, 10)),
            "of equal ones the shortest"
        );
        assert_eq!(densest(&times, 8), Some((10, 101)));
        assert_eq!(
            densest(&[(0, true), (50, false), (51, false)], 1),
            Some((0, 0)),
            "never without the wanted"
        );
        assert_eq!(densest(&times[..1], 2), None);
    }
}
