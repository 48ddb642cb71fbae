//! Finds whether CPU time, rather than the device, limited a run.

use elevon_result::number::grouped;
use elevon_result::result::{JobResult, RunResult};
use elevon_result::summary::ratio;

/// A process is limited by its CPU if it is busy for at least this share of the time.
const LIMITING: f64 = 0.95;

/// Returns the share of their CPUs' time that the processes of a job spent on I/O, from 0 to 1. It
/// exceeds 1 only if a real run had several threads.
pub fn utilisation(job: &JobResult) -> f64 {
    ratio(job.stats.cpu_ns as f64, job.stats.run_ns as f64)
}

/// Returns the largest [`utilisation`] of a run's jobs; 0 without jobs.
pub fn busiest(run: &RunResult) -> f64 {
    run.jobs.iter().map(utilisation).fold(0.0, f64::max)
}

/// Returns the share of the run in which the scheduler's lock for the whole device was held, from 0
/// to 1; `None` if no such lock is modelled.
pub(crate) fn lock_utilisation(run: &RunResult) -> Option<f64> {
    let held = run.cpu.as_ref()?.scheduler_lock;
    (!held.is_zero()).then(|| ratio(held.get() as f64, run.elapsed.get() as f64))
}

/// Returns true if the CPU time of its processes, and not the device, limited a simulated job.
pub fn is_limited(run: &RunResult, job: &JobResult) -> bool {
    run.cpu.is_some() && utilisation(job) >= LIMITING
}

/// Returns one sentence for each part of the CPU time that limited the run: the scheduler's lock,
/// or the CPUs of jobs; then what the device does alone, if that is known. The list is empty if CPU
/// time did not limit the run, and for a real device.
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
            let (name, each) =
                (&job.name, if job.members > 1 { "each of its CPUs" } else { "its CPU" });
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
        lines.push(format!(
            "the device alone does about {} such I/Os a second at this depth",
            grouped(iops)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use elevon_core::units::Nanos;
    use elevon_result::result::CpuResult;

    use super::*;
    use crate::sample;

    /// A run of 2 s whose two jobs were busy for `busy_ms` milliseconds each. The second job is two
    /// processes of 1.5 s.
    fn run(busy_ms: [u64; 2], lock_ms: u64) -> RunResult {
        let mut run = sample::mixed_run();
        for (job, ms) in run.jobs.iter_mut().zip(busy_ms) {
            job.stats.cpu_ns = ms * 1_000_000;
        }
        run.cpu = Some(CpuResult {
            scheduler_lock: Nanos::from_millis(lock_ms),
            device_alone: Some(450_000),
        });
        run
    }

    #[test]
    fn the_cpu_limits_from_95_per_cent_of_a_process_on() {
        assert!(
            limits(&run([1_880, 2_800], 1_880)).is_empty(),
            "the lock does not limit whom it does not keep busy"
        );
        let one = limits(&run([1_960, 2_800], 1_000));
        assert_eq!(
            one[0],
            "the CPU limits: mail spends 98.0 % of its CPU in submission and completion"
        );
        assert_eq!(one[1], "the device alone does about 450,000 such I/Os a second at this depth");
        let other = limits(&run([0, 3_000], 0));
        assert_eq!(
            other[0],
            "the CPU limits: log spends 100.0 % of each of its CPUs in submission and completion"
        );
        let locked = limits(&run([2_000, 3_000], 1_960));
        assert!(
            locked[0].starts_with(
                "the lock of mq-deadline limits: it is held 98.0 % of the time; mail spends"
            ),
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
