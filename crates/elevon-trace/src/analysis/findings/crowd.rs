//! Finds a process that waits in the scheduler behind another one's many requests all the time.

use super::super::words;
use super::{Context, Finding, FindingKind};
use crate::analysis::ProcessStats;
use crate::recorded::Recorded;

/// Minimum mean wait of a request before the device, in nanoseconds, and as a multiple of what the
/// device takes for it. What a few others take before it is no long queue.
const MIN_WAIT_NS: u64 = 5_000_000;
const MIN_WAIT_FACTOR: u64 = 3;
/// Minimum number of requests of the process that waits.
const MIN_REQUESTS: u64 = 16;
/// Largest mean number of its requests in progress: more would wait for each other.
const MAX_OWN_IN_PROGRESS: f64 = 2.0;
/// Minimum mean number of requests of the other process that wait.
const MIN_OTHERS_WAITING: f64 = 8.0;

/// Mean numbers of requests of a process that wait, and that are in the device.
fn depths(process: &ProcessStats, observed: f64) -> (f64, f64) {
    (process.waited as f64 / observed, process.device_time as f64 / observed)
}

pub(super) fn finding(context: &Context<'_>) -> Option<Finding> {
    let observed = context.observed.max(1) as f64;
    let filler = context.processes.iter().max_by_key(|process| process.waited)?;
    let (many, _) = depths(filler, observed);
    if many < MIN_OTHERS_WAITING {
        return None;
    }
    let mean =
        |time: u64, process: &ProcessStats| time.checked_div(process.all_requests()).unwrap_or(0);
    let waits = |process: &&ProcessStats| {
        let (waiting, in_device) = depths(process, observed);
        let (wait, served) = (mean(process.waited, process), mean(process.device_time, process));
        // A process of the idle class asked to wait.
        !process.is_idle_class
            && process.all_requests() >= MIN_REQUESTS
            && waiting + in_device <= MAX_OWN_IN_PROGRESS
            && wait >= MIN_WAIT_NS
            && wait >= served.saturating_mul(MIN_WAIT_FACTOR)
    };
    let waiter = context.processes.iter().filter(waits).max_by_key(|process| process.waited)?;
    let (wait, served) = (mean(waiter.waited, waiter), mean(waiter.device_time, waiter));
    let scheduler = context.recorded.and_then(Recorded::scheduler);
    let was = scheduler.map_or_else(String::new, |name| format!(" (it was {name})"));
    Some(Finding {
        kind: FindingKind::CrowdedOut,
        title: format!(
            "Crowded out: {} waits {} before the device has a request of it, behind {:.0} of {}",
            waiter.label(),
            words::span(wait),
            many,
            filler.label()
        ),
        when: context.span,
        who: vec![filler.label(), waiter.label()],
        figures: vec![
            ("waiter_requests", waiter.all_requests()),
            ("waiter_wait_mean_ns", wait),
            ("waiter_served_mean_ns", served),
            ("filler_waiting_permille", (many * 1000.0) as u64),
        ],
        evidence: vec![
            format!(
                "each of the {} requests of {} waited {} from its allocation to its issue, and was in the device for {}",
                waiter.all_requests(),
                waiter.label(),
                words::span(wait),
                words::span(served)
            ),
            format!("{} has {many:.1} requests that wait, all the time on average", filler.label()),
        ],
        advice: vec![
            format!(
                "a scheduler that serves processes in turn or reads first: bfq, kyber or mq-deadline instead of none{was}"
            ),
            format!(
                "a smaller iodepth of {}, a cgroup for it with a limit (io.max) or a smaller io.weight, or a smaller \
                 nr_requests{}",
                filler.label(),
                context.it_was("nr_requests")
            ),
        ],
        weight: words::permille(waiter.waited, context.observed).max(1),
    })
}
