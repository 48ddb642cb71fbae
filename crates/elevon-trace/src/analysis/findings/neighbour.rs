//! Finds one process that determines the 99th percentile of all others: the others' slowest
//! requests occur while it is active.

use elevon_core::stats::LatencyStat;

use super::super::life::Request;
use super::super::sum::add;
use super::super::words;
use super::{Context, Finding, FindingKind};

/// Number of processes that are compared with all others: those with most bytes.
const MAX_PROCESSES_COMPARED: usize = 8;
/// Minimum factor between the others' 99th percentile with the process and without it.
const MIN_FACTOR: u64 = 2;
/// Minimum number of requests of the others, with the process active and without: with fewer, the
/// 99th percentile is a single request.
const MIN_REQUESTS_OF_OTHERS: u64 = 200;

/// One of the busiest processes.
#[derive(Default)]
struct Slot {
    process: u32,
    bytes: u64,
    /// Sectors of its requests in progress, as they were when they started.
    live: u64,
    /// Latencies of the others' requests that started while this process had most of what was in
    /// progress, and while it had not.
    with: LatencyStat,
    without: LatencyStat,
}

/// Counters.
#[derive(Default)]
pub(in crate::analysis) struct Neighbours {
    slots: Vec<Slot>,
    /// Sectors of all requests in progress.
    live: u64,
    /// Bytes by process.
    bytes: Vec<u64>,
}

impl Neighbours {
    /// Counts bytes that a process queued.
    #[inline]
    pub(super) fn on_bytes(&mut self, process: u32, bytes: u64, _now: u64) {
        let at = process as usize;
        if at >= self.bytes.len() {
            self.bytes.resize(at + 1, 0);
        }
        add(&mut self.bytes[at], bytes);
        let total = self.bytes[at];
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.process == process) {
            slot.bytes = total;
            return;
        }
        if self.slots.len() < MAX_PROCESSES_COMPARED {
            self.slots.push(Slot { process, bytes: total, ..Slot::default() });
            return;
        }
        // A process replaces the smallest one only if it has twice its bytes, so that replacements
        // are rare.
        let Some(least) = self.slots.iter_mut().min_by_key(|slot| slot.bytes) else { return };
        if total / 2 > least.bytes {
            *least = Slot { process, bytes: total, ..Slot::default() };
        }
    }

    fn slot(&mut self, process: u32) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.process == process)
    }

    #[inline]
    pub(super) fn on_started(&mut self, request: &Request) {
        add(&mut self.live, request.note.sectors);
        if let Some(slot) = self.slot(request.process) {
            add(&mut slot.live, request.note.sectors);
        }
    }

    #[inline]
    pub(super) fn on_ended(&mut self, request: &Request) {
        self.live = self.live.saturating_sub(request.note.sectors);
        if let Some(slot) = self.slot(request.process) {
            slot.live = slot.live.saturating_sub(request.note.sectors);
        }
    }

    /// Returns a bit mask of the slots whose process has most of the sectors in progress: a process
    /// that has little there delays none, though its own requests are slow at the same times as
    /// others.
    #[inline]
    pub(super) fn active(&self, process: u32) -> u8 {
        let mut mask = 0;
        for (at, slot) in self.slots.iter().enumerate() {
            if slot.live > self.live / 2 && slot.process != process {
                mask |= 1 << at;
            }
        }
        mask
    }

    #[inline]
    pub(super) fn on_completed(&mut self, request: &Request, total: u64) {
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if slot.process == request.process {
                continue;
            }
            if request.note.neighbours & 1 << at == 0 {
                slot.without.add(total);
            } else {
                slot.with.add(total);
            }
        }
    }

    pub(super) fn forget(&mut self) {
        self.live = 0;
        for slot in &mut self.slots {
            slot.live = 0;
        }
    }

    pub(super) fn finding(&self, context: &Context<'_>) -> Option<Finding> {
        let percentile = |stat: &LatencyStat, millionths| stat.percentile(millionths).unwrap_or(0);
        let p99 = |stat: &LatencyStat| percentile(stat, 990_000);
        let judged = self.slots.iter().filter_map(|slot| {
            let (with, without) = (slot.with.count, slot.without.count);
            if with < MIN_REQUESTS_OF_OTHERS || without < MIN_REQUESTS_OF_OTHERS {
                return None;
            }
            let mut all = slot.with.clone();
            all.merge(&slot.without);
            let (all, alone) = (p99(&all), p99(&slot.without));
            (all >= alone.saturating_mul(MIN_FACTOR)).then_some((slot, all, alone))
        });
        // The process that raises it most.
        let (slot, all, alone) = judged.max_by_key(|&(slot, all, alone)| {
            (u128::from(all) * 1000 / u128::from(alone.max(1)), std::cmp::Reverse(slot.process))
        })?;
        let (with, without) = (slot.with.count, slot.without.count);
        let name = context.label(slot.process);
        let others: u64 = self
            .bytes
            .iter()
            .fold(0u64, |sum, &of| sum.saturating_add(of))
            .saturating_sub(slot.bytes);
        Some(Finding {
            kind: FindingKind::NoisyNeighbour,
            title: format!(
                "{name} sets everybody's p99: {} for the others, {} while it has little under way",
                words::span(all),
                words::span(alone)
            ),
            when: context.span,
            who: vec![name.clone()],
            figures: vec![
                ("others_p99_ns", all),
                ("others_p99_with_ns", p99(&slot.with)),
                ("others_p99_without_ns", alone),
                ("others_requests_with", with),
                ("others_requests_without", without),
                ("bytes", slot.bytes),
                ("bytes_of_others", others),
            ],
            evidence: vec![format!(
                "{with} requests of other processes began while {name} had most of the bytes under way: p50 {}, p99 {}; \
                 {without} began while it had not: p50 {}, p99 {}",
                words::span(percentile(&slot.with, 500_000)),
                words::span(p99(&slot.with)),
                words::span(percentile(&slot.without, 500_000)),
                words::span(alone)
            )],
            advice: vec![
                format!(
                    "a cgroup of its own for {name}, with a smaller io.weight, or a limit (io.max)"
                ),
                "ionice -c 3 for it, with a scheduler that honours classes (mq-deadline, bfq)"
                    .to_owned(),
            ],
            weight: words::permille(with, with + without),
        })
    }
}
