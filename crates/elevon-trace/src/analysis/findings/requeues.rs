//! Finds a driver that gives requests back: the device, or what it shares with others, has no room
//! for them.

use super::super::life::Request;
use super::super::words;
use super::{ByProcess, Context, Finding, FindingKind, When};

/// Minimum part of the requests that were given back, in thousandths. A device whose queue is full
/// gives back a few when others share its host adapter.
const FEWEST_PERMILLE: u32 = 100;
/// Minimum number of requests that were given back.
const FEWEST: u64 = 20;

/// Counters.
#[derive(Default)]
pub(in crate::analysis) struct Requeues {
    /// How often requests were given back, and how many requests were.
    times: u64,
    requests: u64,
    by_process: ByProcess,
    when: When,
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

    pub(super) fn finding(&self, context: &Context<'_>) -> Option<Finding> {
        let (issued, weight) = (context.issued(), words::permille(self.requests, context.issued()));
        if self.requests < FEWEST || weight < FEWEST_PERMILLE {
            return None;
        }
        Some(Finding {
            kind: FindingKind::RequestsGivenBack,
            title: format!(
                "The driver gives requests back: {} of them, at least once",
                words::percent(self.requests, issued)
            ),
            when: self.when.span(),
            who: self.by_process.top(context),
            figures: vec![("requeues", self.times), ("requests_given_back", self.requests)],
            evidence: vec![format!(
                "{} times the driver gave a request back (requeue), {} of {issued} requests",
                self.times, self.requests
            )],
            advice: vec![format!(
                "a driver gives requests back while the device, or the host adapter that it shares with others, is busy or \
                 out of memory: see the kernel's log, and lower the depth of the device (queue_depth of SCSI, nr_requests{})",
                context.it_was("nr_requests")
            )],
            weight,
        })
    }
}
