//! Finds a flush storm: so many flushes of the device write cache that they take a part of its
//! time.

use super::super::life::Bio;
use super::super::words;
use super::{ByProcess, Context, Finding, FindingKind, When};
use crate::analysis::Group;
use crate::recorded::Recorded;

/// Minimum number of flushes.
const MIN_FLUSHES: u64 = 50;
/// Number of data writes per flush from which there is no storm, because one flush makes several
/// writes durable.
const WRITES_PER_FLUSH: u64 = 4;
/// Minimum part of the trace's time, in thousandths, with a flush in the device or awaited: a tenth
/// is the least that a change can be expected to save.
const MIN_FLUSHING_PERMILLE: u32 = 100;

/// Counters.
#[derive(Default)]
pub(in crate::analysis) struct Flushes {
    issued: u64,
    /// Number of flushes in the device, and since when there has been one.
    in_device: u64,
    since: u64,
    /// Nanoseconds with a flush in the device.
    time: u64,
    /// Bios that requested a flush, and how long they took.
    asked: u64,
    waited: u128,
    worst: u64,
    /// End of the last wait counted in `union`, and nanoseconds in which a bio waited for a flush.
    union_end: u64,
    union: u64,
    by_process: ByProcess,
    when: When,
}

impl Flushes {
    #[inline]
    pub(super) fn on_issued(&mut self, now: u64) {
        self.issued += 1;
        if self.in_device == 0 {
            self.since = now;
        }
        self.in_device += 1;
        self.when.seen(now);
    }

    #[inline]
    pub(super) fn on_left(&mut self, now: u64) {
        self.in_device = self.in_device.saturating_sub(1);
        if self.in_device == 0 {
            self.time += now.saturating_sub(self.since);
        }
    }

    /// Counts a completed bio that only flushes.
    pub(in crate::analysis) fn on_bio_completed(&mut self, bio: &Bio, total: u64, now: u64) {
        self.asked += 1;
        self.waited += u128::from(total);
        self.worst = self.worst.max(total);
        let from = bio.queued.max(self.union_end);
        self.union += now.saturating_sub(from);
        self.union_end = self.union_end.max(now);
        self.by_process.add(bio.process, 1);
    }

    pub(super) fn forget(&mut self) {
        self.in_device = 0;
    }

    pub(super) fn finding(&self, context: &Context<'_>) -> Option<Finding> {
        let flushes = self.issued.max(self.asked);
        let at = Group::Write as usize;
        let writes = match context.counts.completed[at] {
            // A device that has no requests.
            0 => context.counts.bios_completed[at],
            requests => requests,
        };
        let time = self.time.max(self.union);
        let weight = words::permille(time, context.observed);
        if flushes < MIN_FLUSHES
            || writes > flushes.saturating_mul(WRITES_PER_FLUSH)
            || weight < MIN_FLUSHING_PERMILLE
        {
            return None;
        }
        let mean = self.waited.checked_div(u128::from(self.asked)).unwrap_or(0) as u64;
        let seconds = context.observed as f64 / 1e9;
        let rate = if seconds > 0.0 { flushes as f64 / seconds } else { 0.0 };
        let mut evidence = vec![
            format!(
                "{flushes} flushes beside {writes} writes, {rate:.0} a second; in {} of the time a flush was under way",
                words::percent(time, context.observed)
            ),
            format!("the device itself was flushing for {}", words::span(self.time)),
        ];
        if self.asked > 0 {
            evidence.push(format!(
                "who asked for one waited {} on average, at most {}",
                words::span(mean),
                words::span(self.worst)
            ));
        }
        Some(Finding {
            kind: FindingKind::FlushStorm,
            title: format!(
                "Flush storm: a flush for every {} writes, and {} of the time is spent on them",
                words::ratio(writes, flushes),
                words::percent(time, context.observed)
            ),
            when: self.when.span(),
            who: self.by_process.top(context),
            figures: vec![
                ("flushes", flushes),
                ("writes", writes),
                ("flush_bios", self.asked),
                ("flush_wait_mean_ns", mean),
                ("flush_wait_max_ns", self.worst),
                ("flush_under_way_ns", time),
                ("flush_in_device_ns", self.time),
            ],
            evidence,
            advice: advice(context),
            weight,
        })
    }
}

/// Returns what to try; another scheduler only if it is kyber that flushes mislead.
fn advice(context: &Context<'_>) -> Vec<String> {
    let of_kyber = (context.recorded.and_then(Recorded::scheduler) == Some("kyber")).then_some(
        "kyber takes a flush for a write that took forever, and lets in fewer and fewer writes at a time, down to one: \
         none or mq-deadline do not",
    );
    let commits = "fewer and larger commits: group commit (commit_delay, binlog_group_commit_sync_delay), fdatasync of \
                   several writes at once, a longer journal interval (commit=)";
    let cache = "if the device's cache survives a power cut, it should say so: echo 'write through' > queue/write_cache \
                 stops the kernel from flushing it";
    of_kyber.into_iter().chain([commits, cache]).map(str::to_owned).collect()
}
