//! Finds readers starved behind writes: reads take much longer while many writes are in progress
//! than while few are.

use elevon_core::stats::LatencyStat;

use super::super::depth::{ROWS, row_name, row_of};
use super::super::life::Request;
use super::super::{Group, words};
use super::{ByProcess, Context, Finding, FindingKind, When};

/// Minimum factor. With a fair share of the device beside one other stream, reads wait twice as
/// long; a factor of three is more than that explains.
const MIN_FACTOR: u64 = 3;
/// Minimum number of reads on either side of the comparison: the standard error of a mean of 32 is
/// less than a fifth of their deviation.
const MIN_READS: u64 = 32;
/// Minimum number of reads among many writes, in thousandths of all reads.
const MIN_READS_PERMILLE: u32 = 50;

fn mean(stat: &LatencyStat) -> u64 {
    stat.sum.checked_div(u128::from(stat.count)).unwrap_or(0) as u64
}

/// Latencies of reads by the number of writes in progress when they started.
#[derive(Default)]
pub(in crate::analysis) struct Starvation {
    writes: u32,
    rows: [LatencyStat; ROWS],
    /// Readers by row.
    readers: [ByProcess; ROWS],
    when: [When; ROWS],
    /// Longest read: its latency, end, process and number of writes.
    worst: Option<(u64, u64, u32, u32)>,
    /// Number of write requests by process, which identifies the writers; bytes are not needed.
    writers: ByProcess,
}

impl Starvation {
    #[inline]
    pub(super) const fn writes(&self) -> u32 {
        self.writes
    }

    #[inline]
    pub(super) fn on_started(&mut self, group: Group) {
        if group == Group::Write {
            self.writes = self.writes.saturating_add(1);
        }
    }

    #[inline]
    pub(super) fn on_ended(&mut self, group: Group) {
        if group == Group::Write {
            self.writes = self.writes.saturating_sub(1);
        }
    }

    #[inline]
    pub(super) fn on_completed(&mut self, request: &Request, total: u64, now: u64) {
        match request.group {
            Group::Read => {}
            Group::Write => return self.writers.add(request.process, 1),
            _ => return,
        }
        let at = row_of(u64::from(request.note.writes));
        self.rows[at].add(total);
        self.readers[at].add(request.process, 1);
        self.when[at].seen(now);
        if self.worst.is_none_or(|(worst, ..)| total > worst) {
            self.worst = Some((total, now, request.process, request.note.writes));
        }
    }

    pub(super) fn forget(&mut self) {
        self.writes = 0;
    }

    pub(super) fn finding(&self, context: &Context<'_>) -> Option<Finding> {
        let low = self.rows.iter().position(|row| row.count >= MIN_READS)?;
        // A row with at least four times as many writes.
        let high = low.max(1) + 2;
        let (mut many, mut when, mut readers) = (LatencyStat::default(), When::default(), None);
        for at in (high..ROWS).filter(|&at| self.rows[at].count > 0) {
            many.merge(&self.rows[at]);
            if let Some((first, last)) = self.when[at].span() {
                when.seen(first);
                when.seen(last);
            }
            readers.get_or_insert(at);
        }
        let few = &self.rows[low];
        let all: u64 = self.rows.iter().map(|row| row.count).sum();
        let weight = words::permille(many.count, all);
        if many.count < MIN_READS
            || weight < MIN_READS_PERMILLE
            || mean(&many) < mean(few).saturating_mul(MIN_FACTOR)
        {
            return None;
        }
        let busiest = (high..ROWS).max_by_key(|&at| self.rows[at].count).unwrap_or(high);
        let (few_mean, many_mean) = (mean(few), mean(&many));
        let p99 = |stat: &LatencyStat| stat.percentile(990_000).unwrap_or(0);
        let mut evidence = vec![format!(
            "{} reads began with {} writes under way and took {} on average (p99 {}); {} began with {} or more and took \
             {} (p99 {})",
            few.count,
            row_name(low),
            words::span(few_mean),
            words::span(p99(few)),
            many.count,
            1u64 << (high - 1),
            words::span(many_mean),
            words::span(p99(&many)),
        )];
        if let Some((worst, end, process, writes)) = self.worst {
            let since = context.span.map_or(0, |(first, _)| end.saturating_sub(first));
            evidence.push(format!(
                "the longest read took {} and ended {} into {}: by {}, behind {writes} writes",
                words::span(worst),
                words::span(since),
                context.whole,
                context.label(process)
            ));
        }
        evidence.push(format!("most writes are by {}", self.writers.top(context).join(", ")));
        Some(Finding {
            kind: FindingKind::ReaderStarved,
            title: format!(
                "Reads starve behind writes: they take {} times as long while many writes are under way",
                words::ratio(many_mean, few_mean)
            ),
            when: when.span(),
            who: self.readers[busiest].top(context),
            figures: vec![
                ("reads_among_few_writes", few.count),
                ("reads_among_few_writes_mean_ns", few_mean),
                ("reads_among_few_writes_p99_ns", p99(few)),
                ("reads_among_many_writes", many.count),
                ("reads_among_many_writes_mean_ns", many_mean),
                ("reads_among_many_writes_p99_ns", p99(&many)),
            ],
            evidence,
            advice: vec![
                "a scheduler that keeps writes back (mq-deadline, kyber or bfq instead of none) and a smaller \
                 nr_requests: what is in the device already, no scheduler can hold back"
                    .to_owned(),
                "a lower share or a limit for the writers: io.weight, io.max (wbps), ionice -c 3; for write-back a \
                 smaller wbt_lat_usec or vm.dirty_bytes"
                    .to_owned(),
            ],
            weight,
        })
    }
}
