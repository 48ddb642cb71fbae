//! Finds too few requests: bios wait until the queue has a request for them, while the device could
//! serve more at a time.

use super::super::depth::DepthRow;
use super::super::words;
use super::{ByProcess, Context, Finding, FindingKind, When};

/// Minimum wait. Allocation takes some microseconds, and longer if the process is not on a CPU.
const MIN_WAIT_NS: u64 = 100_000;
/// Minimum number of waits, and minimum part of the requests whose bio waited, in thousandths. Of
/// several bios that a process submits at once, the first waits, and those after it in the process.
const MIN_WAITS: u64 = 64;
const MIN_WAITS_PERMILLE: u32 = 100;
/// Minimum part of the waits, in percent, that begin with as many requests in progress as ever.
const AT_LIMIT_PERCENT: u64 = 90;
/// Largest number of requests that counts as few. Linux allows 62 to 256 by itself.
const MAX_REQUESTS_OF_FEW_TAGS: u64 = 32;
/// Minimum part of the requests, in percent, that are of the process that waits. Otherwise the
/// limit protects the others.
const OWN_PERCENT: u64 = 90;
/// The device has no use for more requests if one takes this many times as long at the usual depth
/// as at the least.
const FULL_TIMES: u64 = 2;

/// Counters.
#[derive(Debug, Default)]
pub(in crate::analysis) struct Tags {
    allocated: u64,
    /// Most requests in progress at the start of a wait, and how many waits began so.
    limit: u64,
    at_limit: u64,
    waits: u64,
    waited: u128,
    longest: u64,
    waiters: ByProcess,
    when: When,
}

impl Tags {
    /// Counts a request that was allocated for a bio after a wait, with the number of requests that
    /// were in progress when the bio was queued.
    #[inline]
    pub(in crate::analysis) fn on_allocated(
        &mut self,
        process: u32,
        wait: u64,
        in_progress: u64,
        now: u64,
    ) {
        self.allocated += 1;
        if wait < MIN_WAIT_NS {
            return;
        }
        if in_progress > self.limit {
            self.limit = in_progress;
            self.at_limit = 0;
        }
        self.at_limit += u64::from(in_progress == self.limit);
        self.waits += 1;
        self.waited += u128::from(wait);
        self.longest = self.longest.max(wait);
        self.waiters.add(process, 1);
        self.when.seen(now);
    }

    pub(super) fn finding(&self, context: &Context<'_>) -> Option<Finding> {
        let weight = words::permille(self.waits, self.allocated);
        let is_often = self.waits >= MIN_WAITS && weight >= MIN_WAITS_PERMILLE;
        let is_limit = (1..=MAX_REQUESTS_OF_FEW_TAGS).contains(&self.limit)
            && self.at_limit * 100 >= self.waits * AT_LIMIT_PERCENT;
        if !is_often
            || !is_limit
            || !self.are_long(context)
            || self.protects_others(context)
            || Self::is_full(context)
        {
            return None;
        }
        let mean = self.waited.checked_div(u128::from(self.waits))? as u64;
        let limit = self.limit;
        let nr_requests =
            context.setting("nr_requests").and_then(|value| value.parse::<u64>().ok());
        let cause = match nr_requests {
            Some(value) if value == limit => format!("nr_requests={limit}"),
            Some(_) => {
                format!(
                    "a limit of {limit} requests that is not nr_requests (throttled writeback: wbt_lat_usec)"
                )
            }
            None => format!("a limit of {limit} requests, such as nr_requests"),
        };
        Some(Finding {
            kind: FindingKind::FewTags,
            title: format!(
                "Too few requests: bios wait {} on average for {cause}",
                words::span(mean)
            ),
            when: self.when.span(),
            who: self.waiters.top(context),
            figures: vec![
                ("limit", limit),
                ("waits", self.waits),
                ("wait_mean_ns", mean),
                ("wait_max_ns", self.longest),
                ("requests", self.allocated),
            ],
            evidence: vec![
                format!(
                    "for {} of {} requests a bio waited until one was free (Q2G), {} on average and {} at most",
                    self.waits,
                    self.allocated,
                    words::span(mean),
                    words::span(self.longest)
                ),
                format!(
                    "{} of these waits began with {limit} requests in progress, and none with more",
                    self.at_limit
                ),
            ],
            advice: vec![format!(
                "a larger nr_requests{}, if throughput matters more than the latency of what comes later",
                context.it_was("nr_requests")
            )],
            weight,
        })
    }

    /// Returns true if other processes than the one that waits most have many requests, for which
    /// the limit may be meant.
    fn protects_others(&self, context: &Context<'_>) -> bool {
        let all: u64 = context.processes.iter().map(|row| row.all_requests()).sum();
        let own = self
            .waiters
            .first()
            .and_then(|at| context.processes.get(at))
            .map_or(0, |row| row.all_requests());
        own * 100 < all * OWN_PERCENT
    }

    /// Returns true if the device takes longer for each request the more there are: it is full.
    fn is_full(context: &Context<'_>) -> bool {
        let rows = || context.depths.rows.iter().skip(1).filter(|row| row.latency.count > 0);
        let least = rows().next().and_then(DepthRow::mean_latency).unwrap_or(0);
        let usual = rows()
            .max_by_key(|row| row.latency.count)
            .and_then(DepthRow::mean_latency)
            .unwrap_or(0);
        usual >= least.saturating_mul(FULL_TIMES)
    }

    /// Returns true if the waits are long beside what the device takes.
    fn are_long(&self, context: &Context<'_>) -> bool {
        let rows = &context.depths.rows;
        let (count, sum) = rows
            .iter()
            .fold((0, 0), |(count, sum), row| (count + row.latency.count, sum + row.latency.sum));
        let served = sum.checked_div(u128::from(count)).unwrap_or(0);
        self.waited.checked_div(u128::from(self.waits)).is_some_and(|mean| mean * 2 >= served)
    }
}
