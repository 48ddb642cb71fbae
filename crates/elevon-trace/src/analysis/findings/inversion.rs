//! Finds priority inversion: requests of a better class wait while requests of a worse class that
//! arrived later are issued, or they are served late because the device is full of requests of a
//! worse class.

use super::super::life::Request;
use super::super::{ABSENT, words};
use super::{ByProcess, Context, Finding, FindingKind, When};

/// Minimum wait. Software queues and plugs reorder requests by tens of microseconds; a wait of a
/// millisecond happens in a scheduler.
const MIN_WAIT_NS: u64 = 1_000_000;
/// Minimum number of such requests.
const MIN_INVERSIONS: u64 = 10;
/// Minimum number of such requests, in thousandths of the requests of better classes.
const MIN_INVERSIONS_PERMILLE: u32 = 10;
/// Number of requests of worse classes from which the device counts as full of them.
const MIN_WORSE_IN_DEVICE: u32 = 8;
/// Minimum factor by which the device takes longer with many of them in it. As for reads among
/// writes, a fair share explains a factor of two.
const MIN_FACTOR: u64 = 3;
/// Minimum number of requests on either side of the comparison.
const FEWEST_SERVED: u64 = 32;

/// Effective classes: real time, best effort, idle.
const RANKS: usize = 3;

/// Times of requests in the device.
#[derive(Clone, Copy, Default)]
struct Served {
    count: u64,
    sum: u128,
}

impl Served {
    /// Returns the sum over several classes.
    fn sum(rows: &[Self]) -> Self {
        Self {
            count: rows.iter().map(|row| row.count).sum(),
            sum: rows.iter().map(|row| row.sum).sum(),
        }
    }

    fn mean(self) -> u64 {
        self.sum.checked_div(u128::from(self.count)).unwrap_or(0) as u64
    }
}

/// Counters.
#[derive(Default)]
pub(in crate::analysis) struct Inversions {
    /// By class, the latest arrival (insertion or allocation) of any request that was issued.
    latest: [Option<u64>; RANKS],
    /// By class, requests in the device.
    in_device: [u32; RANKS],
    /// Requests by class.
    issued: [u64; RANKS],
    overtaken: u64,
    waited: u128,
    worst: u64,
    when: When,
    victims: ByProcess,
    overtakers: ByProcess,
    /// By class, the process whose request arrived latest.
    latest_process: [u32; RANKS],
    /// Times of requests by class, with few (at most one) or many requests of a worse class in the
    /// device.
    few: [Served; RANKS],
    many: [Served; RANKS],
}

fn rank(request: &Request) -> Option<usize> {
    request.prio.map(|prio| prio.class().rank())
}

impl Inversions {
    #[inline]
    pub(super) fn on_issued(&mut self, request: &Request, now: u64) {
        let Some(rank) = rank(request) else { return };
        self.in_device[rank] += 1;
        self.issued[rank] += 1;
        let since = if request.inserted == ABSENT { request.allocated } else { request.inserted };
        if since == ABSENT {
            return;
        }
        let overtaker =
            (rank + 1..RANKS).find(|&worse| self.latest[worse].is_some_and(|at| at > since));
        if let Some(worse) = overtaker
            && now.saturating_sub(since) >= MIN_WAIT_NS
        {
            self.overtaken += 1;
            self.waited += u128::from(now - since);
            self.worst = self.worst.max(now - since);
            self.when.seen(now);
            self.victims.add(request.process, 1);
            self.overtakers.add(self.latest_process[worse], 1);
        }
        if self.latest[rank].is_none_or(|at| since > at) {
            self.latest[rank] = Some(since);
            self.latest_process[rank] = request.process;
        }
    }

    /// Returns the number of requests of a worse class in the device.
    #[inline]
    pub(in crate::analysis) fn worse_in_device(&self, request: &Request) -> u32 {
        rank(request).map_or(0, |rank| self.in_device[rank + 1..].iter().sum())
    }

    #[inline]
    pub(super) fn on_left(&mut self, request: &Request) {
        if let Some(rank) = rank(request) {
            self.in_device[rank] = self.in_device[rank].saturating_sub(1);
        }
    }

    #[inline]
    pub(super) fn on_completed(&mut self, request: &Request, serviced: Option<u64>, _now: u64) {
        let (Some(rank), Some(serviced)) = (rank(request), serviced) else { return };
        let served = match request.note.worse {
            0 | 1 => &mut self.few[rank],
            MIN_WORSE_IN_DEVICE.. => &mut self.many[rank],
            _ => return,
        };
        served.count += 1;
        served.sum += u128::from(serviced);
    }

    pub(super) fn forget(&mut self) {
        self.in_device = [0; RANKS];
        self.latest = [None; RANKS];
    }

    pub(super) fn finding(&self, context: &Context<'_>) -> Option<Finding> {
        // Only a request of a class above the worst can be overtaken.
        let worst_class = (0..RANKS).rev().find(|&rank| self.issued[rank] > 0)?;
        let better: u64 = self.issued[..worst_class].iter().sum();
        let waits = self.overtaken >= MIN_INVERSIONS
            && words::permille(self.overtaken, better) >= MIN_INVERSIONS_PERMILLE;
        let (few, many) =
            (Served::sum(&self.few[..worst_class]), Served::sum(&self.many[..worst_class]));
        let is_served_late = few.count >= FEWEST_SERVED
            && many.count >= FEWEST_SERVED
            && many.mean() >= few.mean().saturating_mul(MIN_FACTOR);
        if !waits && !is_served_late {
            return None;
        }
        let mut evidence = Vec::new();
        let mut title = String::new();
        let mean = self.waited.checked_div(u128::from(self.overtaken)).unwrap_or(0) as u64;
        if waits {
            title = format!(
                "Priority inversion: {} of {better} requests of a better class waited {} on average while later ones of a \
                 worse class were issued",
                self.overtaken,
                words::span(mean)
            );
            evidence.push(format!(
                "the longest such wait was {}; most went ahead by {}",
                words::span(self.worst),
                self.overtakers.top(context).join(", ")
            ));
        }
        if is_served_late {
            if title.is_empty() {
                title = format!(
                    "Priority inversion in the device: a better class is served {} times as slowly while the device holds \
                     many requests of a worse one",
                    words::ratio(many.mean(), few.mean())
                );
            }
            evidence.push(format!(
                "requests of a better class spent {} in the device with at most one of a worse class beside them ({} \
                 requests), {} with {MIN_WORSE_IN_DEVICE} or more ({} requests)",
                words::span(few.mean()),
                few.count,
                words::span(many.mean()),
                many.count
            ));
        }
        let count = if waits { self.overtaken } else { many.count };
        Some(Finding {
            kind: FindingKind::PriorityInversion,
            title,
            when: self.when.span().or(context.span),
            who: self.victims.top(context),
            figures: vec![
                ("better_class_requests", better),
                ("overtaken", self.overtaken),
                ("overtaken_wait_mean_ns", mean),
                ("overtaken_wait_max_ns", self.worst),
                ("served_among_few_mean_ns", few.mean()),
                ("served_among_many", many.count),
                ("served_among_many_mean_ns", many.mean()),
            ],
            evidence,
            advice: vec![
                "a scheduler that honours classes: mq-deadline (prio_aging_expire decides how long a worse class may be \
                 held back) or bfq; none and kyber ignore them"
                    .to_owned(),
                "a smaller nr_requests, or a limit (io.max) for the worse class, so that the device holds fewer of its \
                 requests"
                    .to_owned(),
            ],
            weight: words::permille(count, better),
        })
    }
}
