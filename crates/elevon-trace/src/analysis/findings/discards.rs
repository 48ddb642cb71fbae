//! Finds discards that stall reads and writes beside them.

use elevon_core::stats::LatencyStat;

use super::super::life::Request;
use super::super::words;
use super::{ByProcess, Context, Finding, FindingKind, When};
use crate::analysis::Group;

/// Minimum factor. A fair share of the device beside one other stream explains a factor of two.
const MIN_FACTOR: u64 = 3;
/// Minimum number of reads and writes on either side of the comparison, and minimum part of them,
/// in thousandths, that is beside a discard.
const MIN_REQUESTS: u64 = 32;
const MIN_BESIDE_PERMILLE: u32 = 10;
/// Minimum number of discards.
const DISCARDS: u64 = 4;

/// Counters.
#[derive(Debug, Default)]
pub(in crate::analysis) struct Discards {
    in_device: u32,
    count: u64,
    beside: LatencyStat,
    alone: LatencyStat,
    by_process: ByProcess,
    waiters: ByProcess,
    when: When,
}

impl Discards {
    /// Returns true if a discard is in the device.
    pub(super) const fn are_in_device(&self) -> bool {
        self.in_device > 0
    }

    #[inline]
    pub(super) fn on_issued(&mut self, request: &Request, now: u64) {
        if request.group == Group::Discard {
            self.in_device = self.in_device.saturating_add(1);
            self.count += 1;
            self.by_process.add(request.process, 1);
            self.when.seen(now);
        }
    }

    #[inline]
    pub(super) fn on_left(&mut self, request: &Request) {
        if request.group == Group::Discard {
            self.in_device = self.in_device.saturating_sub(1);
        }
    }

    #[inline]
    pub(super) fn on_completed(&mut self, request: &Request, serviced: Option<u64>) {
        let Some(serviced) =
            serviced.filter(|_| matches!(request.group, Group::Read | Group::Write))
        else {
            return;
        };
        if request.note.is_beside_discard {
            self.beside.add(serviced);
            self.waiters.add(request.process, serviced);
        } else {
            self.alone.add(serviced);
        }
    }

    pub(super) fn forget(&mut self) {
        self.in_device = 0;
    }

    pub(super) fn finding(&self, context: &Context<'_>) -> Option<Finding> {
        let mean =
            |stat: &LatencyStat| stat.sum.checked_div(u128::from(stat.count)).unwrap_or(0) as u64;
        let (beside, alone) = (mean(&self.beside), mean(&self.alone));
        let weight = words::permille(self.beside.count, self.beside.count + self.alone.count);
        if self.count < DISCARDS
            || self.beside.count < MIN_REQUESTS
            || self.alone.count < MIN_REQUESTS
            || weight < MIN_BESIDE_PERMILLE
            || beside < alone.saturating_mul(MIN_FACTOR)
        {
            return None;
        }
        let p99 = |stat: &LatencyStat| stat.percentile(990_000).unwrap_or(0);
        let mut who = self.by_process.top(context);
        who.extend(self.waiters.top(context));
        who.dedup();
        Some(Finding {
            kind: FindingKind::DiscardStall,
            title: format!(
                "Discards stall the device: reads and writes take {} times as long beside one",
                words::ratio(beside, alone)
            ),
            when: self.when.span(),
            who,
            figures: vec![
                ("discards", self.count),
                ("beside_discards", self.beside.count),
                ("beside_discards_mean_ns", beside),
                ("beside_discards_p99_ns", p99(&self.beside)),
                ("others", self.alone.count),
                ("others_mean_ns", alone),
                ("others_p99_ns", p99(&self.alone)),
            ],
            evidence: vec![
                format!(
                    "{} reads and writes were issued while a discard was in the device and took {} on average (p99 {}); {} \
                     others took {} (p99 {})",
                    self.beside.count,
                    words::span(beside),
                    words::span(p99(&self.beside)),
                    self.alone.count,
                    words::span(alone),
                    words::span(p99(&self.alone))
                ),
                format!(
                    "the {} discards are by {}",
                    self.count,
                    self.by_process.top(context).join(", ")
                ),
            ],
            advice: vec![
                "fstrim at a quiet time (fstrim.timer) instead of the mount option discard"
                    .to_owned(),
                format!(
                    "smaller discards: a lower discard_max_bytes{}",
                    context.it_was("discard_max_bytes")
                ),
            ],
            weight,
        })
    }
}
