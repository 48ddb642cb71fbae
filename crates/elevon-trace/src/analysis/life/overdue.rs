//! Requests in the device whose completion seems to be missing.

use super::{Life, MAX_IN_PROGRESS};
use crate::analysis::ABSENT;
use crate::analysis::chosen::Collector;
use crate::analysis::findings::MAX_OVERTAKEN;

/// A request is overdue if this many requests issued after it have completed, and it has been in
/// the device for this many times the longest time of any completed request. Recorders lose events
/// without notice, and a request with a lost completion must not count as in the device forever. If
/// it completes after all, its latency counts like any other.
const OVERDUE_COMPLETIONS: u64 = 256;
const OVERDUE_TIMES: u64 = 4;

impl Life {
    /// Appends a request to those in the device. Of requests that were issued again or have
    /// completed, which stay behind an incomplete one, there are few, except in a hostile trace:
    /// they are removed if they are more than those that can be in progress.
    pub(super) fn enter_device(&mut self, id: u32, now: u64) {
        if self.in_device.len() >= 4 * MAX_IN_PROGRESS {
            let requests = &self.requests;
            let mut is_kept = vec![false; requests.len()];
            // The last entry of a request is kept, the first to be met from the back.
            for entry in self.in_device.iter_mut().rev() {
                let (id, issued, _) = *entry;
                let is_current =
                    requests.get(id as usize).is_some_and(|request| request.issued == issued);
                if !is_current || std::mem::replace(&mut is_kept[id as usize], true) {
                    entry.1 = ABSENT;
                }
            }
            self.in_device.retain(|&(_, issued, _)| issued != ABSENT);
        }
        self.in_device.push_back((id, now, self.completions));
    }

    /// Marks requests as no longer in the device if their completion seems to be missing. Cost:
    /// O(1) amortised.
    #[inline]
    pub(super) fn check_overdue(&mut self, now: u64, collect: &mut Collector) {
        while let Some(&(id, issued, completions)) = self.in_device.front() {
            let is_there =
                self.requests.get(id as usize).is_some_and(|request| request.issued == issued);
            if is_there {
                let is_overdue = self.completions - completions >= OVERDUE_COMPLETIONS
                    && now - issued > self.longest.saturating_mul(OVERDUE_TIMES);
                if !is_overdue {
                    return;
                }
                let request = &mut self.requests[id as usize];
                request.is_overdue = true;
                let request = *request;
                collect.on_overdue(&request, now);
            }
            self.in_device.pop_front();
        }
    }

    /// Returns how many requests in the device were issued before this one; `None` if they are too
    /// many to count.
    pub(super) fn overtaken(&self, id: u32) -> Option<usize> {
        let is_there = |&&(id, issued, _): &&(u32, u64, u64)| {
            self.requests.get(id as usize).is_some_and(|request| request.issued == issued)
        };
        // Of entries whose request has completed there are few, if requests complete in order.
        let entries = self.in_device.iter().take(2 * MAX_OVERTAKEN).filter(is_there);
        entries.take(MAX_OVERTAKEN).position(|&(other, ..)| other == id)
    }
}
