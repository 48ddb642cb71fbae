//! Finds an idle device while processes wait: requests exist, but none is in the device.

use super::super::life::Request;
use super::super::{ABSENT, words};
use super::{ByProcess, Context, Finding, FindingKind, When};
use crate::recorded::Recorded;

/// Minimum length of an idle period. Submission takes some ten microseconds of CPU time and waking
/// a kernel thread some tens, so requests that wait longer were held back.
const MIN_IDLE_NS: u64 = 200_000;
/// Number of idle periods that are kept until the requests that waited in them are issued.
const MAX_PERIODS_REMEMBERED: usize = 64;
/// Minimum part of the trace's time, in thousandths.
const MIN_IDLE_PERMILLE: u32 = 50;
/// Minimum number of idle periods; a single one has no significance.
const MIN_IDLE_PERIODS: u64 = 5;

/// Minimum part of the requests that a driver gave back, in thousandths, to be named as a cause: a
/// device whose queue is full gives back a few as well.
const FEWEST_GIVEN_BACK_PERMILLE: u32 = 10;

/// A period in which the device was idle.
#[derive(Clone, Copy, Default)]
struct Spell {
    start: u64,
    end: u64,
    /// Since when a request is known to have waited; `end` if none did.
    waited_from: u64,
}

/// Counters.
#[derive(Default)]
pub(in crate::analysis) struct IdleWaits {
    idle_since: Option<u64>,
    ring: Vec<Spell>,
    next: usize,
    /// Nanoseconds in which the device was idle and a request waited, and the number of these
    /// periods.
    time: u64,
    count: u64,
    worst: u64,
    worst_at: u64,
    waiters: ByProcess,
    when: When,
}

impl IdleWaits {
    #[inline]
    pub(super) fn on_issued(&mut self, request: &Request, in_device: u64, now: u64) {
        if in_device == 1
            && let Some(since) = self.idle_since.take()
            && now.saturating_sub(since) >= MIN_IDLE_NS
        {
            self.remember(Spell { start: since, end: now, waited_from: now });
        }
        let since = request.earliest();
        if since != ABSENT && !self.ring.is_empty() {
            self.charge(since, request.process);
        }
    }

    #[inline]
    pub(super) fn on_left(&mut self, in_device: u64, now: u64) {
        if in_device == 0 {
            self.idle_since = Some(now);
        }
    }

    fn remember(&mut self, spell: Spell) {
        if self.ring.len() < MAX_PERIODS_REMEMBERED {
            self.ring.push(spell);
            self.next = self.ring.len() % MAX_PERIODS_REMEMBERED;
            return;
        }
        let gone = std::mem::replace(&mut self.ring[self.next], spell);
        self.next = (self.next + 1) % MAX_PERIODS_REMEMBERED;
        self.settle(gone);
    }

    /// Adds the waiting time of a request that was just issued, which has waited since `since`, to
    /// the latest idle periods.
    fn charge(&mut self, since: u64, process: u32) {
        let count = self.ring.len();
        for back in 1..=count {
            let spell = &mut self.ring[(self.next + count - back) % count];
            if spell.end <= since {
                return;
            }
            let from = since.max(spell.start);
            if from < spell.waited_from {
                if spell.end - from >= MIN_IDLE_NS {
                    self.waiters.add(process, spell.waited_from - from);
                }
                spell.waited_from = from;
            }
        }
    }

    /// Counts an idle period that does not change any more.
    fn settle(&mut self, spell: Spell) {
        let waited = spell.end - spell.waited_from;
        if waited < MIN_IDLE_NS {
            return;
        }
        self.time += waited;
        self.count += 1;
        self.when.seen(spell.end);
        if waited > self.worst {
            self.worst = waited;
            self.worst_at = spell.waited_from;
        }
    }

    pub(super) fn forget(&mut self) {
        self.idle_since = None;
    }

    pub(super) fn finding(&self, context: &Context<'_>) -> Option<Finding> {
        let mut all = Self {
            idle_since: None,
            ring: Vec::new(),
            next: 0,
            time: self.time,
            count: self.count,
            worst: self.worst,
            worst_at: self.worst_at,
            waiters: self.waiters.clone(),
            when: self.when,
        };
        for &spell in &self.ring {
            all.settle(spell);
        }
        let weight = words::permille(all.time, context.observed);
        if weight < MIN_IDLE_PERMILLE || all.count < MIN_IDLE_PERIODS {
            return None;
        }
        let mean = all.time / all.count;
        let since = context.span.map_or(0, |(first, _)| all.worst_at.saturating_sub(first));
        Some(Finding {
            kind: FindingKind::IdleWhileWaiting,
            title: format!(
                "The device is idle while requests wait: in {} of the time",
                words::percent(all.time, context.observed)
            ),
            when: all.when.span(),
            who: all.waiters.top(context),
            figures: vec![
                ("idle_while_waiting_ns", all.time),
                ("spells", all.count),
                ("spell_mean_ns", mean),
                ("spell_max_ns", all.worst),
            ],
            evidence: std::iter::once(format!(
                "{} times the device had nothing to do for more than {} although a request was there, {} on average; the \
                 longest such time was {}, {} into {}",
                all.count,
                words::span(MIN_IDLE_NS),
                words::span(mean),
                words::span(all.worst),
                words::span(since),
                context.whole
            ))
            .chain(gave_back(context))
            .collect(),
            advice: advice(context),
            weight,
        })
    }
}

/// Returns how often the driver gave requests back, if often enough to hold requests back.
fn gave_back(context: &Context<'_>) -> Option<String> {
    let (times, issued) = (context.counts.requeues, context.issued());
    (words::permille(times, issued) >= FEWEST_GIVEN_BACK_PERMILLE).then(|| {
        format!("{times} times the driver gave a request back (requeue), for {issued} requests")
    })
}

/// Returns what to try; bfq's idling first if bfq was in use, and not if another scheduler was.
fn advice(context: &Context<'_>) -> Vec<String> {
    let scheduler = context.recorded.and_then(Recorded::scheduler);
    let mut advice = Vec::new();
    if gave_back(context).is_some() {
        advice.push(
            "a driver gives requests back while the device, or the host adapter that it shares with others, is busy or \
             out of memory: see the kernel's log, and lower the depth of the device (queue_depth of SCSI)"
                .to_owned(),
        );
    }
    let of_bfq = format!(
        "bfq idles on purpose for the next request of the process it serves: slice_idle=0{} or low_latency=0{} if \
         throughput matters more than that process",
        context.it_was("iosched/slice_idle"),
        context.it_was("iosched/low_latency")
    );
    if scheduler == Some("bfq") {
        advice.push(of_bfq.clone());
    }
    let wbt = context.it_was("wbt_lat_usec");
    advice
        .push(format!("limits that hold I/O back show like this: io.max, io.cost, wbt_lat_usec{wbt}, a token bucket"));
    advice
        .push("a process that batches submissions holds them in a plug: submit earlier".to_owned());
    if scheduler.is_none() {
        advice.push(of_bfq);
    }
    advice.push(
        "a busy CPU delays whoever issues the requests, the kernel's own worker (kworker) among them: see that CPU's load"
            .to_owned(),
    );
    advice
}
