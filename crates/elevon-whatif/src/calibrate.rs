//! `elevon calibrate`: measures a device, as coefficients of io.cost's linear model, or fits one to
//! a trace.

use std::fmt::Write;
use std::path::Path;

use elevon_core::control::io_cost::{Coefficients, Model};
use elevon_formats::fio::{MemorySource, parse};
use elevon_host::interrupt::Interrupt;
use elevon_plan::execute::execute;
use elevon_plan::failure::{Ending, Failure, ValueError};
use elevon_plan::options::{JobOptions, StackOptions};
use elevon_plan::own_device::OwnDevice;
use elevon_plan::plan::Plan;
use elevon_plan::target::Target;
use elevon_result::result::RunResult;
use elevon_trace::DeviceNumber;
use elevon_workload::run::NoObserver;

mod hardware;
mod like;
mod nearest;
mod trace;

pub(crate) use nearest::FittedModel;
pub use nearest::{FittedDevice, Kinds};

/// One of the six runs.
struct Probe {
    name: &'static str,
    /// Value of fio's `rw`.
    rw: &'static str,
    block: u64,
    depth: u32,
    /// Name of the coefficient that it measures.
    key: &'static str,
}

const SMALL_BLOCK: u64 = 4096;
const LARGE_BLOCK: u64 = 1 << 20;

/// Deep enough for any device. Large I/Os are several requests each, and a queue of them must not
/// run out of tags: workers of io_uring that wait for one lose the order.
const fn probe(name: &'static str, rw: &'static str, block: u64, key: &'static str) -> Probe {
    Probe { name, rw, block, depth: if block == SMALL_BLOCK { 128 } else { 16 }, key }
}

/// Runs in the order of the model's line. Reads come first, because they do not change data.
const PROBES: [Probe; 6] = [
    probe("sequential read", "read", LARGE_BLOCK, "rbps"),
    probe("sequential read", "read", SMALL_BLOCK, "rseqiops"),
    probe("random read", "randread", SMALL_BLOCK, "rrandiops"),
    probe("sequential write", "write", LARGE_BLOCK, "wbps"),
    probe("sequential write", "write", SMALL_BLOCK, "wseqiops"),
    probe("random write", "randwrite", SMALL_BLOCK, "wrandiops"),
];

impl Probe {
    const fn writes(&self) -> bool {
        self.key.as_bytes()[0] == b'w'
    }

    const fn block_name(&self) -> &'static str {
        if self.block == SMALL_BLOCK { "4 KiB" } else { "1 MiB" }
    }

    /// Returns the job of the run.
    fn job(&self, seconds: f64) -> String {
        let (rw, block, depth, micros) = (self.rw, self.block, self.depth, (seconds * 1e6) as u64);
        // Writes that only fill the device write cache are not measured.
        let ramp = if self.writes() { micros } else { 0 };
        // Small I/Os may run out of tags. The order of sequential ones is kept by a process that
        // waits for them itself; it takes completions late, which of so many I/Os is little.
        let engine = if self.block == SMALL_BLOCK && !rw.starts_with("rand") {
            "libaio"
        } else {
            "io_uring"
        };
        format!(
            "[{}]\nioengine={engine}\ndirect=1\nrw={rw}\nbs={block}\niodepth={depth}\nnorandommap=1\ntime_based=1\n\
             runtime={micros}us\nramp_time={ramp}us\n",
            self.key
        )
    }
}

/// Result of a run.
struct Measured {
    probe: &'static Probe,
    ios: u64,
    bytes: u64,
    runtime_ns: u64,
    mean_ns: u64,
}

impl Measured {
    fn from_probe(probe: &'static Probe, result: &RunResult) -> Self {
        let stats = &result.jobs[0].stats.directions[usize::from(probe.writes())];
        let mean_ns = stats.clat.sum.checked_div(stats.clat.count.into()).unwrap_or(0) as u64;
        Self { probe, ios: stats.ios, bytes: stats.bytes, runtime_ns: stats.runtime_ns, mean_ns }
    }

    fn per_second(&self, amount: u64) -> u64 {
        let scaled = u128::from(amount) * 1_000_000_000 + u128::from(self.runtime_ns) / 2;
        scaled.checked_div(self.runtime_ns.into()).unwrap_or(0) as u64
    }

    fn iops(&self) -> u64 {
        self.per_second(self.ios)
    }

    /// Returns the coefficient: bytes per second of large blocks, I/Os per second of small ones.
    fn coefficient(&self) -> u64 {
        if self.probe.block == LARGE_BLOCK { self.per_second(self.bytes) } else { self.iops() }
    }
}

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct MeasureRequest {
    /// The device, as `--device` takes it.
    pub device: String,
    /// How long each run lasts, from 0.01 to 3600.
    pub seconds: f64,
    /// A real device is written to, too, which destroys what it stores.
    pub overwrite_data: bool,
    /// Seed of every random choice.
    pub seed: u64,
}

/// The runs that measure a device, and what they gave.
pub struct Measurement {
    request: MeasureRequest,
    stack: StackOptions,
    plans: Vec<(&'static Probe, Plan)>,
    measured: Vec<Measured>,
}

impl Measurement {
    /// Checks all plans before the first run. A real device is only written to if the user allows
    /// it.
    ///
    /// # Errors
    /// The seconds are out of range, or the device is wrong.
    pub fn new(request: MeasureRequest) -> Result<Self, Failure> {
        let MeasureRequest { seconds, overwrite_data, .. } = request;
        if !(0.01..=3600.0).contains(&seconds) {
            let expected = ValueError::expected("seconds from 0.01 to 3600");
            return Err(Failure::named(format!("--seconds {seconds}"), expected));
        }
        let stack = stack_options(&request)?;
        let mut plans = Vec::new();
        for probe in &PROBES {
            let plan = plan_of(probe, &probe.job(seconds), &stack, None)?;
            if !probe.writes() || overwrite_data || matches!(plan.target, Target::Simulated(_)) {
                plans.push((probe, plan));
            }
        }
        Ok(Self { request, stack, plans, measured: Vec::new() })
    }

    /// Returns the runs in order: the label and the plan of each.
    pub fn runs(&self) -> Vec<(String, Plan)> {
        let count = self.plans.len();
        let runs = self.plans.iter().enumerate();
        let label = |at: usize, probe: &Probe| {
            format!("{}/{count} {} {}", at + 1, probe.name, probe.block_name())
        };
        runs.map(|(at, (probe, plan))| (label(at, probe), plan.clone())).collect()
    }

    /// Takes the result of the next run.
    pub fn take(&mut self, result: &RunResult) {
        let (probe, _) = self.plans[self.measured.len()];
        self.measured.push(Measured::from_probe(probe, result));
    }

    /// Checks with a thousand I/Os that the device takes time; otherwise the runs would never end.
    ///
    /// # Errors
    /// It takes none.
    pub fn check_that_time_passes(&self, interrupt: &Interrupt) -> Result<(), Failure> {
        let probe = &PROBES[0];
        let job = probe.job(self.request.seconds).replace("time_based=1\n", "number_ios=1000\n");
        let plan = plan_of(probe, &job, &self.stack, None)?;
        if plan.is_real() {
            return Ok(());
        }
        let (result, _) = execute(&plan, &mut NoObserver, interrupt)?;
        if Measured::from_probe(probe, &result).runtime_ns > 0 {
            return Ok(());
        }
        let device = &self.request.device;
        Err(Failure::named(format!("--device {device}"), ValueError::AnswersAtOnce))
    }

    /// Returns the line to write to `io.cost.model`.
    fn line(&self) -> String {
        let mut line = format!("{} ctrl=user model=linear", device_number(&self.request.device));
        for m in &self.measured {
            let _ = write!(line, " {}={}", m.probe.key, m.coefficient());
        }
        line
    }

    /// Shows what was measured.
    pub fn text(&self) -> String {
        let (device, seconds) = (&self.request.device, self.request.seconds);
        let mut out =
            format!("elevon calibrate: {device}, {seconds} s a run, scheduler none, no merges\n\n");
        let _ =
            writeln!(out, "{:<26} depth {:>12} {:>12} {:>12}", "run", "MB/s", "IOPS", "latency us");
        for m in &self.measured {
            let name = format!("{}, {}", m.probe.name, m.probe.block_name());
            let megabytes = m.per_second(m.bytes) as f64 / 1e6;
            let latency = m.mean_ns as f64 / 1e3;
            let _ = writeln!(
                out,
                "{name:<26} {:>5} {megabytes:>12.1} {:>12} {latency:>12.1}",
                m.probe.depth,
                m.iops()
            );
        }
        let model = Model::new(&coefficients(&self.measured));
        out.push_str("\nWhat an I/O then costs, in us of the device:\n");
        let _ = writeln!(out, "{:<26} {:>12} {:>12} {:>12}", "", "sequential", "random", "merged");
        for (name, is_write) in [("read", false), ("write", true)] {
            if !self.measured.iter().any(|m| m.probe.writes() == is_write) {
                continue;
            }
            for (block, bytes) in
                [("4 KiB", SMALL_BLOCK), ("64 KiB", 16 * SMALL_BLOCK), ("1 MiB", LARGE_BLOCK)]
            {
                let us = |time: elevon_core::units::Nanos| time.get() as f64 / 1e3;
                let costs =
                    [model.request(is_write, bytes, false), model.request(is_write, bytes, true)];
                let [sequential, random] = costs.map(us);
                let merged = us(model.size(is_write, bytes));
                let _ = writeln!(
                    out,
                    "{:<26} {sequential:>12.2} {random:>12.2} {merged:>12.2}",
                    format!("{name}, {block}")
                );
            }
        }
        let line = self.line();
        let _ = write!(out, "\nThe line for io.cost.model:\n{line}\n");
        let without_device = line.split_once(' ').map_or("", |(_, rest)| rest);
        let _ = write!(
            out,
            "\nIn a file of --tenants, under [device]:\n\"io.cost.model\" = \"{without_device}\"\n"
        );
        if self.measured.len() < PROBES.len() {
            out.push_str(
                "\nWrites were not measured, since that destroys what is stored there: --overwrite-data does it. A model without \
                 the\nthree write coefficients prices writes at nothing.\n",
            );
        }
        out
    }

    /// Returns what was measured, for programs.
    pub fn json(&self) -> String {
        let runs: Vec<_> = self
            .measured
            .iter()
            .map(|m| {
                serde_json::json!({
                    "coefficient": m.probe.key,
                    "rw": m.probe.rw,
                    "bs": m.probe.block,
                    "iodepth": m.probe.depth,
                    "total_ios": m.ios,
                    "io_bytes": m.bytes,
                    "runtime_ns": m.runtime_ns,
                    "iops": m.iops(),
                    "bw_bytes": m.per_second(m.bytes),
                    "clat_ns_mean": m.mean_ns,
                })
            })
            .collect();
        let model: serde_json::Map<_, _> = self
            .measured
            .iter()
            .map(|m| (m.probe.key.to_owned(), m.coefficient().into()))
            .collect();
        let all = serde_json::json!({
            "device": self.request.device,
            "seconds": self.request.seconds,
            "seed": self.request.seed,
            "runs": runs,
            "io.cost.model": model,
            "line": self.line(),
        });
        format!("{all:#}\n")
    }
}

/// Seconds of a run of [`cost_model`].
const QUICK_SECONDS: f64 = 0.2;

/// Measures a simulated device for io.cost, that of `base` or `own` in its place. Returns the line
/// of `io.cost.model` without the device; `None` if the user interrupted it, or if the device takes
/// no time, so that it has no model.
pub(crate) fn cost_model(
    base: &StackOptions,
    own: Option<&OwnDevice>,
    interrupt: &Interrupt,
) -> Result<Option<String>, Failure> {
    let stack = StackOptions::of_text(PLAIN_STACK).map_err(Failure::input)?;
    let stack = StackOptions { device: base.device.clone(), seed: base.seed, ..stack };
    let mut line = "ctrl=user model=linear".to_owned();
    for (at, probe) in PROBES.iter().enumerate() {
        if at == 0 {
            let job = probe.job(QUICK_SECONDS).replace("time_based=1\n", "number_ios=100\n");
            let (result, _) =
                execute(&plan_of(probe, &job, &stack, own)?, &mut NoObserver, interrupt)?;
            if Measured::from_probe(probe, &result).runtime_ns == 0 {
                return Ok(None);
            }
        }
        let plan = plan_of(probe, &probe.job(QUICK_SECONDS), &stack, own)?;
        let (result, outcome) = execute(&plan, &mut NoObserver, interrupt)?;
        if outcome != Ending::Done {
            return Ok(None);
        }
        let _ = write!(
            line,
            " {}={}",
            probe.key,
            Measured::from_probe(probe, &result).coefficient().max(1)
        );
    }
    Ok(Some(line))
}

/// Options of the stack for a measurement in simulation.
const PLAIN_STACK: &str = "--set nomerges=2 --buffers contiguous --cpu-cost submit=0,complete=0";

/// Returns the stack for the measurement, which adds as little as possible. Merging would make a
/// few large I/Os of many small ones, and a process with CPU time per I/O would be the limit
/// instead of a fast device.
fn stack_options(request: &MeasureRequest) -> Result<StackOptions, Failure> {
    let stack = StackOptions::of_text(PLAIN_STACK);
    let stack = StackOptions {
        device: request.device.clone(),
        seed: request.seed,
        ..stack.map_err(Failure::input)?
    };
    Ok(match elevon_plan::target::target(&request.device)? {
        Target::Simulated(_) => stack,
        // A real run has real memory and CPU time.
        Target::Real(_) | Target::Nbd(_) => {
            StackOptions { buffers: None, of_jobs: JobOptions::default(), ..stack }
        }
    })
}

fn plan_of(
    probe: &Probe,
    job: &str,
    stack: &StackOptions,
    own: Option<&OwnDevice>,
) -> Result<Plan, Failure> {
    let mut source = MemorySource::one(probe.key, job);
    let jobs = parse(&mut source, probe.key).map_err(Failure::text)?;
    let mut plan = Plan::of_jobs(jobs, probe.key, stack, own.cloned())?;
    // The warnings would be about jobs that the user did not write.
    plan.warnings.clear();
    Ok(plan)
}

/// Returns `MAJ:MIN` of a block device given by its path; for anything else the letters `MAJ:MIN`.
fn device_number(device: &str) -> String {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    match std::fs::metadata(Path::new(device)) {
        Ok(metadata) if metadata.file_type().is_block_device() => {
            DeviceNumber::from_user(metadata.rdev()).to_string()
        }
        Ok(_) | Err(_) => "MAJ:MIN".to_owned(),
    }
}

fn coefficients(measured: &[Measured]) -> Coefficients {
    let of = |key| measured.iter().find(|m| m.probe.key == key).map_or(0, Measured::coefficient);
    Coefficients {
        rbps: of("rbps"),
        rseqiops: of("rseqiops"),
        rrandiops: of("rrandiops"),
        wbps: of("wbps"),
        wseqiops: of("wseqiops"),
        wrandiops: of("wrandiops"),
    }
}
