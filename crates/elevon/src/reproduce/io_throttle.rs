//! Proposal 004: the cost of io-throttle's hooks for tasks without a rule, a counter that avoids
//! this cost, and priority under a limit.
//!
//! The host's time per chunk of each file is fitted to the plain kernel's figures, and the cost of
//! a lookup to one figure of the kernel with hooks, which is no baseline. A run spends that cost
//! for each lookup that its stack makes, in every kernel mode.

mod levels;
mod summary;

use elevon_core::control::Stage;
use elevon_core::control::io_throttle::{Config, Limit, LimitKind, Policy, Work};
use elevon_core::stack::Stack;
use elevon_core::tenant::ROOT;
use elevon_core::units::{Instant, TenantId};
use elevon_report::document::{Document, Table};
use elevon_report::result::RunResult;
use elevon_report::summary::total;
use elevon_report::text::Figure;
use elevon_workload::run::Observer;

use crate::execute::Watch;
use crate::failure::{Failure, MachineError};
use crate::reproduce::conclusions::conclude;
use crate::reproduce::lab::{Job, Lab, job};
use crate::reproduce::parameters::Parameters;
use levels::Levels;
use summary::{Ends, Summary};

const PARAMETERS: &str = include_str!("../../../../experiments/io-throttle/parameters.toml");
const TWO: Job = job!("io-throttle/two-readers.fio");
const LIMITED: Job = job!("io-throttle/limited.fio");
/// Chunks that each of the two readers reads.
const CHUNKS: u64 = 245_366_784 / (128 << 10);
/// Bytes that each of the limited readers reads.
const LIMITED_BYTES: f64 = 234_179_072.0;
/// The limit: 8 MiB/s.
const LIMIT: Limit = Limit { rate: 8 << 20, policy: Policy::Leaky };

/// A kernel of the published mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Plain,
    Hooks,
    Counter,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Plain, Self::Hooks, Self::Counter];

    const fn title(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Hooks => "io-throttle",
            Self::Counter => "io-throttle and counter",
        }
    }

    const fn key(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Hooks => "hooks",
            Self::Counter => "counter",
        }
    }
}

/// Sets up io-throttle before a run, and reads its counters afterwards.
#[derive(Default)]
struct Throttle {
    config: Option<Config>,
    limit: Option<Limit>,
    work: Work,
}

impl Observer for Throttle {}

impl Watch for Throttle {
    fn prepare(&mut self, stack: &mut Stack) {
        let control = stack.control_mut();
        if let Some(config) = self.config {
            control.configure_io_throttle(config);
        }
        if self.limit.is_some() {
            // The only cgroup of the job file.
            let tenant = TenantId(1);
            if !control.tenants().is_alive(tenant) {
                control.add_tenant(ROOT).expect("room for a tenant");
            }
            control.set_io_throttle(Instant::ZERO, tenant, LimitKind::Bandwidth, self.limit).expect("a valid rule");
        }
    }

    fn on_end(&mut self, stack: &Stack) {
        let throttle = stack.control().io_throttle();
        assert_eq!(throttle.held(), 0, "the run left bios behind");
        self.work = throttle.work();
    }
}

fn ends(run: &RunResult) -> Ends {
    [0, 1].map(|job: usize| run.jobs[job].end.get() as f64 / 1e9)
}

fn mean(runs: &[Ends]) -> Ends {
    [0, 1].map(|who| runs.iter().map(|ends| ends[who]).sum::<f64>() / runs.len() as f64)
}

struct Arm {
    mode: Mode,
    /// One entry per random seed.
    runs: Vec<Ends>,
    /// Lookups of rules that the stack made in one run.
    lookups: u64,
    command: String,
}

struct Measured {
    arms: Vec<Arm>,
    /// A disk of 20.5 MB/s, without and with the hook's cost.
    medium: [Ends; 2],
    /// The plain kernel with BFQ's default since 5.2.
    injecting: Ends,
    /// Under a limit: one FIFO, then queues by class.
    limited: [Ends; 2],
    levels: Levels,
}

/// Parameters of the host: which kernel, the time of a chunk, and the time of a lookup, in
/// microseconds.
#[derive(Clone, Copy)]
struct Host<'a> {
    mode: Mode,
    chunk: [&'a str; 2],
    lookup: f64,
    /// Other parts of `--cpu-cost`.
    cpu: &'a str,
}

/// Runs a job whose submitter spends CPU time on each lookup that the stack makes.
///
/// A run with a guess of the CPU time per submission counts lookups and I/Os. The next run spends
/// the cost of that many lookups at each submission. This repeats until the guess agrees with the
/// count, which takes one or two runs.
fn two_readers(lab: &Lab, host: Host<'_>, options: &str) -> Result<(RunResult, Work), Failure> {
    const MAX_ROUNDS: usize = 4;
    let hosts = [("RT_HOST", host.chunk[0]), ("BE_HOST", host.chunk[1])];
    let Host { mode, lookup, cpu, .. } = host;
    let config = (mode != Mode::Plain).then(|| Config { counter: mode == Mode::Counter, ..Config::default() });
    let mut submit = 0;
    for _ in 0..MAX_ROUNDS {
        let options = format!("{options} --cpu-cost submit={submit}ns,complete=0,{cpu}");
        let mut throttle = Throttle { config, ..Throttle::default() };
        let run = lab.watch(TWO, &hosts, &options, &mut throttle)?;
        let ios = total(&run).ios as f64;
        let spent = (lookup * 1e3 * throttle.work.lookups as f64 / ios).round() as u64;
        if spent == submit {
            return Ok((run, throttle.work));
        }
        submit = spent;
    }
    Err(MachineError::Unsettled { mode: mode.title().to_owned() }.into())
}

fn arm(lab: &Lab, parameters: &Parameters, mode: Mode) -> Result<Arm, Failure> {
    let chunk = [parameters.text("stack.rt_host"), parameters.text("stack.be_host")];
    let host = Host { mode, chunk, lookup: parameters.number("stack.lookup_us"), cpu: parameters.text("stack.cpu") };
    let mut arm = Arm { mode, runs: Vec::new(), lookups: 0, command: String::new() };
    for seed in parameters.numbers("stack.seeds") {
        let options = format!("{} --seed {seed}", parameters.text("stack.stack"));
        let (run, work) = two_readers(lab, host, &options)?;
        arm.runs.push(ends(&run));
        arm.lookups = work.lookups;
        arm.command = run.command;
    }
    Ok(arm)
}

fn measure(lab: &Lab, parameters: &Parameters) -> Result<Measured, Failure> {
    let arms = Mode::ALL.into_iter().map(|mode| arm(lab, parameters, mode)).collect::<Result<_, _>>()?;
    let cpu = parameters.text("stack.cpu");
    let limited_stack = format!("{} --cpu-cost {cpu}", parameters.text("stack.stack"));
    let limited = |class_aware| {
        let config = Some(Config { class_aware, ..Config::default() });
        let mut throttle = Throttle { config, limit: Some(LIMIT), ..Throttle::default() };
        lab.watch(LIMITED, &[], &limited_stack, &mut throttle).map(|run| ends(&run))
    };
    let lookup = parameters.number("stack.lookup_us");
    let two = |mode, chunk, stack: &str| {
        two_readers(lab, Host { mode, chunk, lookup, cpu }, parameters.text(stack)).map(|(run, _)| ends(&run))
    };
    let hosts = [parameters.text("stack.rt_host"), parameters.text("stack.be_host")];
    Ok(Measured {
        arms,
        medium: [two(Mode::Plain, ["0", "0"], "stack.medium")?, two(Mode::Hooks, ["0", "0"], "stack.medium")?],
        injecting: two(Mode::Plain, hosts, "stack.injecting")?,
        limited: [limited(false)?, limited(true)?],
        levels: levels::measure(lab, parameters)?,
    })
}

impl Measured {
    fn of(&self, mode: Mode) -> &Arm {
        self.arms.iter().find(|arm| arm.mode == mode).expect("every mode was run")
    }
}

pub(super) fn report(lab: &Lab) -> Result<Document, Failure> {
    let parameters = Parameters::parse(PARAMETERS);
    Ok(document(&measure(lab, &parameters)?, &parameters))
}

fn document(measured: &Measured, parameters: &Parameters) -> Document {
    let mut document = Document::new("io-throttle: hooks without a rule, and priority under a limit (proposal 004)");
    document.paragraph(
        "Andrea Righi, linux-kernel, 7 May 2009: two dd of 245 MB each, one real-time (RT, level 0), one best-effort (BE, level \
         7), on a kernel without io-throttle, with it and no rule, and with a counter of live rules that lets the hooks return \
         at once. CFQ's part is BFQ's here (inject=off, low_latency=0): it too serves RT before all BE.",
    );
    let summary = measured.summary(parameters);
    unruled(&mut document, measured, parameters, &summary);
    document.heading("3. Priority under a limit");
    document.table(limited_table(&summary));
    document.paragraph(
        "Both readers, 234 MB each, in one cgroup with 8 MiB/s. The proposal's throttle has one queue, so RT waits for BE's \
         turn before any scheduler sees either; class_aware (ours) has a queue for each class.",
    );
    conclude(&mut document, &summary, &summary::LIMITED);
    levels::report(&mut document, &measured.levels);
    document
}

/// Writes sections 1 and 2.
fn unruled(document: &mut Document, measured: &Measured, parameters: &Parameters, summary: &Summary) {
    document.heading("1. No rule anywhere");
    document.figures("two readers, mean of the runs", "published", figures(measured, parameters));
    document.command(&measured.of(Mode::Hooks).command);
    document.paragraph(format!(
        "Calibrated on the plain kernel: the host's time for a chunk of 128 KiB, {} us of RT's file and {} us of BE's. The cost of \
         a lookup, {} us, is the published difference of RT over its {CHUNKS} chunks, so the row of RT with hooks is by \
         construction. How many lookups there are is counted in the stack under each kernel, and a run spends that cost for each \
         of them at its submission: BE with hooks and both rows of the counter follow from it. {} us a chunk are {:.1} us for \
         every page, and the thread does not say for what.",
        parameters.text("stack.rt_host"),
        parameters.text("stack.be_host"),
        summary.lookup_us,
        summary.lookup_us,
        summary.lookup_us / 32.0,
    ));
    conclude(document, summary, &summary::UNRULED);
    document.paragraph("The thread's four runs of the plain BE took 21.3 to 23.4 s.");
    document.heading("2. Where the time goes, and the classes");
    document.table(ways_table(measured));
    conclude(document, summary, &summary::WAYS);
    document.paragraph(
        "The thread is about another report, of Vivek Goyal: four runs with the patch and no limits, in two of which RT ended \
         about when BE did. No cause was found in the thread. Section 4 has its figures.",
    );
    conclude(document, summary, &summary::CLASSES);
}

/// Returns a table of the times at which the readers end, by what limits them.
fn ways_table(measured: &Measured) -> Table {
    let mut table = Table::new(["no rule", "RT ends, s", "BE ends, s"]);
    let of = |mode| mean(&measured.of(mode).runs);
    for (name, [rt, be]) in [
        ("the host limits", of(Mode::Plain)),
        ("the host limits, hooks", of(Mode::Hooks)),
        ("the medium limits", measured.medium[0]),
        ("the medium limits, hooks", measured.medium[1]),
        ("the host limits, inject=limit", measured.injecting),
    ] {
        table.row([name, &format!("{rt:.2}"), &format!("{be:.2}")]);
    }
    table
}

fn figures(measured: &Measured, parameters: &Parameters) -> Vec<Figure> {
    let rows = measured.arms.iter().flat_map(|arm| {
        let ours = mean(&arm.runs);
        [("RT", "rt", 0), ("BE", "be", 1)].map(|(name, key, who)| Figure {
            name: format!("{}, {name}", arm.mode.title()),
            unit: "s".into(),
            expected: Some(parameters.number(&format!("published.{}_{key}", arm.mode.key()))),
            ours: ours[who],
            note: match (arm.mode, who) {
                (Mode::Plain, _) => "calibrated",
                (Mode::Hooks, 0) => "by construction: a lookup's cost",
                (Mode::Hooks | Mode::Counter, _) => "follows from the lookups",
            }
            .into(),
        })
    });
    rows.collect()
}

fn limited_table(summary: &Summary) -> Table {
    let mut table = Table::new(["throttle", "RT ends, s", "BE ends, s", "by arithmetic"]);
    let names = ["one FIFO (the proposal's)", "queues by class (ours)"];
    for ((name, [rt, be]), ideal) in names.into_iter().zip(summary.limited).zip(summary.arithmetic()) {
        table.row([name, &format!("{rt:.2}"), &format!("{be:.2}"), &format!("{:.2} and {:.2}", ideal[0], ideal[1])]);
    }
    table
}

impl Measured {
    fn summary(&self, parameters: &Parameters) -> Summary {
        let of = |mode| mean(&self.of(mode).runs);
        let published = |mode: Mode, who: &str| parameters.number(&format!("published.{}_{who}", mode.key()));
        Summary {
            lookup_us: parameters.number("stack.lookup_us"),
            chunks: 2 * CHUNKS,
            lookups: Mode::ALL.map(|mode| self.of(mode).lookups),
            runs: Mode::ALL.map(|mode| self.of(mode).runs.clone()),
            ends: Mode::ALL.map(of),
            published: Mode::ALL.map(|mode| [published(mode, "rt"), published(mode, "be")]),
            medium: self.medium,
            injecting: self.injecting,
            limited: self.limited,
            limited_alone: LIMITED_BYTES / LIMIT.rate as f64,
        }
    }
}

#[cfg(test)]
mod tests;
