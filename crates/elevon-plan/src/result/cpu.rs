//! CPU time of a simulated run, and the throughput of its device without CPU time.

use elevon_core::units::{Bytes, Nanos};
use elevon_formats::fio::spec::{BlockSizes, JobSpec};
use elevon_result::result::CpuResult;
use elevon_sim::device::Device;
use elevon_sim::device::closed_loop::{ClosedLoop, Order, closed_loop};
use elevon_workload::run::{JobOutcome, RunOutcome};

use crate::plan::Plan;

/// Number of I/Os from which a device's own throughput is known to within about a percent.
const PROBE_IOS: u64 = 20_000;
/// The device's own throughput is only measured if a process was busy for at least this share of
/// its time.
const BUSY_PERCENT: u128 = 95;

pub(super) fn of(plan: &Plan, outcome: &RunOutcome) -> CpuResult {
    let busy = |job: &JobOutcome| {
        let span = job.end.unwrap_or(outcome.ended).since(job.start.unwrap_or(outcome.ended));
        span > Nanos::ZERO
            && u128::from(job.stats.cpu_ns) * 100 >= u128::from(span.get()) * BUSY_PERCENT
    };
    let is_limited = outcome.jobs.iter().any(busy);
    CpuResult {
        scheduler_lock: outcome.scheduler_lock,
        device_alone: is_limited.then(|| device_alone(plan)).flatten(),
    }
}

/// Returns the I/Os per second, in two digits, that the device does of the run's reads at the same
/// depth without stack and CPU time. `None` if the run is not one job of equal reads of one request
/// each, or uses a page cache or faults.
fn device_alone(plan: &Plan) -> Option<u64> {
    let [job] = &plan.jobs.jobs[..] else { return None };
    let bytes = equal_reads(job)?;
    if plan.cache.is_some() || !plan.faults.is_empty() {
        return None;
    }
    let mut device = plan.device().ok()?;
    let description = device.description().clone();
    let config = plan.stack_config(&description).ok()?;
    if bytes.sectors_floor() > config.limits.max_sectors {
        return None;
    }
    let most = u32::from(config.hw_queues) * config.queue_depth.min(config.nr_requests());
    let in_flight = job.depth() as u32;
    let probe = ClosedLoop {
        depth: in_flight.saturating_mul(job.numjobs.max(1)).min(most),
        ios: PROBE_IOS,
        bytes,
        order: if job.rw.random { Order::Random } else { Order::Sequential },
        seed: plan.seed,
        ..ClosedLoop::default()
    };
    let measured = closed_loop(&mut device, &probe);
    (measured.errors == 0 && !measured.elapsed.is_zero())
        .then(|| two_digits(measured.iops() as u64))
}

/// Returns the size of a job's I/Os if all are reads of one size.
fn equal_reads(job: &JobSpec) -> Option<Bytes> {
    let only_reads = job.rw.read && !job.rw.write && !job.rw.trim;
    match job.blocks.sizes[0] {
        BlockSizes::Range(low, high) if only_reads && low == high => Some(Bytes::new(low)),
        BlockSizes::Range(..) | BlockSizes::Split(_) => None,
    }
}

/// Rounds to two significant digits.
fn two_digits(value: u64) -> u64 {
    let step = 10u64.pow(value.checked_ilog10().unwrap_or(0).saturating_sub(1));
    (value + step / 2) / step * step
}

#[cfg(test)]
mod tests {
    use super::two_digits;

    #[test]
    fn two_digits_are_kept() {
        assert_eq!(
            [0, 7, 99, 449_999, 455_000, 996].map(two_digits),
            [0, 7, 99, 450_000, 460_000, 1_000]
        );
    }
}
