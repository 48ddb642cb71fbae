//! Whether it was CPU time that limited a run, and not the device.

use crate::number::grouped;
use crate::result::{JobResult, RunResult};
use crate::summary::ratio;

/// From this share of its time on a CPU limits.
const LIMITING: f64 = 0.95;

/// Share of their CPUs' time that the processes of a job spent on I/O, from 0 to 1 (more only where
/// a real run had several threads).
pub fn utilisation(job: &JobResult) -> f64 {
    let span = job.end.since(job.start).get() as f64 * f64::from(job.members);
    ratio(job.stats.cpu_ns as f64, span)
}

/// The largest of [`utilisation`] among a run's jobs; 0 without jobs.
pub fn busiest(run: &RunResult) -> f64 {
    run.jobs.iter().map(utilisation).fold(0.0, f64::max)
}

/// Share of the run in which the scheduler's lock for the whole device was held, from 0 to 1;
/// `None` where none is modelled.
pub fn lock_utilisation(run: &RunResult) -> Option<f64> {
    let held = run.cpu.as_ref()?.scheduler_lock;
    (!held.is_zero()).then(|| ratio(held.get() as f64, run.elapsed.get() as f64))
}

/// True if the CPU time of a process, and not the device, limited a simulated job.
pub fn is_limited(run: &RunResult, job: &JobResult) -> bool {
    run.cpu.is_some() && utilisation(job) >= LIMITING
}

/// What limited the run if it was CPU time, a sentence each: the scheduler's lock, or the CPUs of
/// jobs; then what the device does alone, where that is known. Empty if the CPU did not limit, and
/// for a real device.
pub fn limits(run: &RunResult) -> Vec<String> {
    let Some(cpu) = &run.cpu else { return Vec::new() };
    let limited: Vec<&JobResult> = run.jobs.iter().filter(|job| is_limited(run, job)).collect();
    if limited.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = limited
        .iter()
        .map(|job| {
            let percent = 100.0 * utilisation(job);
            let (name, each) = (&job.name, if job.members > 1 { "each of its CPUs" } else { "its CPU" });
            format!("{name} spends {percent:.1} % of {each} in submission and completion")
        })
        .collect();
    let mut lines = vec![match lock_utilisation(run).filter(|&share| share >= LIMITING) {
        Some(share) => format!(
            "the lock of {} limits: it is held {:.1} % of the time; {}",
            run.scheduler.name,
            100.0 * share,
            names.join("; ")
        ),
        None => format!("the CPU limits: {}", names.join("; ")),
    }];
    if let Some(iops) = cpu.device_alone {
        lines.push(format!("the device alone does about {} such I/Os a second at this depth", grouped(iops)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::CpuResult;
    use crate::sample;
    use elevon_core::units::Nanos;

    /// A run of 2 s in which its two jobs were busy for so many milliseconds (the second is two
    /// processes of 1.5 s).
    fn run(busy_ms: [u64; 2], lock_ms: u64) -> RunResult {
        let mut run = sample::mixed_run();
        for (job, ms) in run.jobs.iter_mut().zip(busy_ms) {
            job.stats.cpu_ns = ms * 1_000_000;
        }
        run.cpu = Some(CpuResult { scheduler_lock: Nanos::from_millis(lock_ms), device_alone: Some(450_000) });
        run
    }

    #[test]
    fn the_cpu_limits_from_95_per_cent_of_a_process_on() {
        assert!(limits(&run([1_880, 2_800], 1_880)).is_empty(), "the lock does not limit whom it does not keep busy");
        let one = limits(&run([1_960, 2_800], 1_000));
        assert_eq!(one[0], "the CPU limits: mail spends 98.0 % of its CPU in submission and completion");
        assert_eq!(one[1], "the device alone does about 450,000 such I/Os a second at this depth");
        let other = limits(&run([0, 3_000], 0));
        assert_eq!(other[0], "the CPU limits: log spends 100.0 % of each of its CPUs in submission and completion");
        let locked = limits(&run([2_000, 3_000], 1_960));
        assert!(
            locked[0].starts_with("the lock of mq-deadline limits: it is held 98.0 % of the time; mail spends"),
            "{locked:?}"
        );
    }

    #[test]
    fn nothing_is_said_of_a_real_device() {
        let real = RunResult { cpu: None, ..run([2_000, 3_000], 2_000) };
        assert!(limits(&real).is_empty());
        assert_eq!(lock_utilisation(&real), None);
    }
}
