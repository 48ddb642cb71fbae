//! Finds a driver that gives requests back: the device, or what it shares with others, has no room
//! for them.

use super::super::life::Request;
use super::super::words;
use super::{ByProcess, Context, Finding, FindingKind, When};

/// Minimum part of the requests that were given back, in thousandths. A device whose queue is full
/// gives back a few when others share its host adapter.
const MIN_REQUEUED_PERMILLE: u32 = 100;
/// Minimum number of requests that were given back.
const MIN_REQUEUED: u64 = 4;

/// Counters.
#[derive(Default)]
pub(in crate::analysis) struct Requeues {
    /// How often requests were given back, and how many requests were.
    times: u64,
    requests: u64,
    by_process: ByProcess,
    when: When,
    /// Times from the first issue to completion.
    served: u64,
    time: u128,
}

impl Requeues {
    /// Counts a request, as it was before the driver gave it back. Drivers do so after its issue,
    /// or before, so that it has none.
    pub(in crate::analysis) fn on_requeued(&mut self, request: &Request, now: u64) {
        self.times += 1;
        self.requests += u64::from(!request.is_requeued);
        self.by_process.add(request.process, 1);
        self.when.seen(now);
    }

    /// Counts a request that was given back and has completed, with the time since its first issue.
    pub(in crate::analysis) fn on_completed(&mut self, since_first: u64) {
        self.served += 1;
        self.time += u128::from(since_first);
    }

    pub(super) fn finding(&self, context: &Context<'_>) -> Option<Finding> {
        let (issued, weight) = (context.issued(), words::permille(self.requests, context.issued()));
        if self.requests < MIN_REQUEUED || weight < MIN_REQUEUED_PERMILLE {
            return None;
        }
        let mean = self.time.checked_div(u128::from(self.served)).unwrap_or(0) as u64;
        let mut evidence = vec![format!(
            "{} times the driver gave a request back (requeue, or a second issue), {} of {issued} requests",
            self.times, self.requests
        )];
        if self.served > 0 {
            evidence.push(format!(
                "they took {} from the first issue to completion, on average",
                words::span(mean)
            ));
        }
        Some(Finding {
            kind: FindingKind::RequestsGivenBack,
            title: format!(
                "The driver gives requests back: {} of them, at least once",
                words::percent(self.requests, issued)
            ),
            when: self.when.span(),
            who: self.by_process.top(context),
            figures: vec![
                ("requeues", self.times),
                ("requests_given_back", self.requests),
                ("since_first_issue_mean_ns", mean),
            ],
            evidence,
            advice: vec![format!(
                "a driver gives requests back while the device, or the host adapter that it shares with others, is busy or \
                 out of memory: see the kernel's log, and lower the depth of the device (queue_depth of SCSI, nr_requests{})",
                context.it_was("nr_requests")
            )],
            weight,
        })
    }
}
