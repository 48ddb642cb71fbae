//! Finds a queue that is too shallow for the device, or so deep that further depth only adds
//! latency.
//!
//! Both use one table: for each depth (in powers of two) the time spent, the I/O that completed,
//! and the latency of requests issued at that depth.

use super::super::depth::{DepthRow, ROWS, row_name};
use super::super::words;
use super::{Context, Finding, FindingKind};

/// Minimum number of requests for the figures of a row: the standard error of a mean of 64 is an
/// eighth of their deviation.
const FEWEST: u64 = 64;
/// Of two compared rows the deeper one has at least four times the depth.
const ROWS_APART: usize = 2;
/// The device serves more requests at a time without effort if the latency at four times the depth
/// or more is at most a third longer. (If the depth exceeds what a device can use, latency is
/// proportional to depth.)
const FLAT_PERCENT: u128 = 133;
/// Minimum part of the time, in thousandths, in which the device is in use; otherwise its depth
/// does not limit throughput.
const BUSY_PERMILLE: u32 = 500;
/// Throughput at the deeper row up to which there is no gain, in percent of that at the shallower
/// one. It is the geometric mean of requests and bytes per second, because a mix that shifts
/// between small and large I/O changes the two in opposite directions.
const NO_GAIN_PERCENT: u128 = 110;
/// Minimum part of the busy time, in thousandths, that is spent at depths without a gain.
const BLOATED_PERMILLE: u32 = 200;

/// Part of requests without completion, in thousandths, from which the depth is unknown: each
/// deepens the queue by one until it is noticed.
const LOST_PERMILLE: u32 = 5;

/// A row's rate times its latency, in percent of its greatest depth, up to which the rate is one of
/// that depth. By Little's law it is at most 100; requests that are issued at a depth may complete
/// at another. Where more complete while the depth happens to be small, as at the end of a burst,
/// they were served at another depth.
const PLAUSIBLE_PERCENT: u128 = 150;

/// Returns true if a row's rate can be one of its depth.
fn is_plausible(at: usize, row: &DepthRow) -> bool {
    let depth = (1u128 << at) - 1;
    let served = u128::from(row.completed) * u128::from(row.mean_latency().unwrap_or(0));
    served * 100 <= depth * PLAUSIBLE_PERCENT * u128::from(row.time)
}

/// Returns the rows with enough requests.
fn rows<'a>(context: &Context<'a>) -> Vec<(usize, &'a DepthRow)> {
    let rows = context.depths.rows.iter().enumerate().skip(1);
    rows.filter(|(_, row)| row.count >= FEWEST).collect()
}

/// Returns true if the depth is known well enough, that is if few completions are missing.
fn is_known(context: &Context<'_>) -> bool {
    words::permille(context.counts.overdue, context.issued()) < LOST_PERMILLE
}

/// Finds that the device could serve more requests at a time than it gets.
pub(super) fn shallow(context: &Context<'_>) -> Option<Finding> {
    if !is_known(context) {
        return None;
    }
    let rows = rows(context);
    let (low, few) = *rows.first()?;
    let (high, many) = rows.iter().rev().find(|&&(at, row)| {
        let (few, many) = (u128::from(few.mean_latency().unwrap_or(0)), u128::from(row.mean_latency().unwrap_or(0)));
        at >= low + ROWS_APART && many * 100 <= few * FLAT_PERCENT
    })?;
    let busy = context.depths.busy();
    let mean = context.depths.mean_busy_depth();
    // Smallest depth of the deeper row.
    let usable = 1u64 << (high - 1);
    if words::permille(busy, context.observed) < BUSY_PERMILLE || mean * 4.0 > usable as f64 {
        return None;
    }
    let below: u64 = context.depths.rows[1..*high].iter().map(|row| row.time).sum();
    Some(Finding {
        kind: FindingKind::ShallowQueue,
        title: format!(
            "The queue is shallower than the device can use: {mean:.1} requests in it on average, and {usable} take hardly \
             longer each"
        ),
        when: context.span,
        who: Vec::new(),
        figures: vec![
            ("usable_depth", usable),
            ("mean_busy_depth_permille", (mean * 1000.0) as u64),
            ("latency_shallow_mean_ns", few.mean_latency().unwrap_or(0)),
            ("latency_deep_mean_ns", many.mean_latency().unwrap_or(0)),
            ("time_below_usable_ns", below),
        ],
        evidence: vec![format!(
            "a request takes {} on average at depth {} and {} at depth {} ({} requests); {} of the busy time the depth was \
             below {usable}",
            words::span(few.mean_latency().unwrap_or(0)),
            row_name(low),
            words::span(many.mean_latency().unwrap_or(0)),
            row_name(*high),
            many.count,
            words::percent(below, busy)
        )],
        advice: vec![
            "more I/O at a time: iodepth with an asynchronous engine (io_uring, libaio), more threads, larger readahead \
             (read_ahead_kb)"
                .to_owned(),
            "a scheduler that does not wait (none, or mq-deadline instead of bfq with slice_idle)".to_owned(),
        ],
        weight: words::permille(below, context.observed),
    })
}

/// Returns a rate of [`rate`] per second.
fn per_second(rate: u128) -> u64 {
    u64::try_from(rate / 1000).unwrap_or(u64::MAX)
}

/// Returns bytes or requests per second at a row, times a thousand, so that small rates differ.
fn rate(amount: u64, time: u64) -> u128 {
    u128::from(amount) * 1_000_000_000_000 / u128::from(time.max(1))
}

/// Finds that the device queue is deeper than the device can use.
pub(super) fn bufferbloat(context: &Context<'_>) -> Option<Finding> {
    if !is_known(context) {
        return None;
    }
    let rows = rows(context);
    let rows: Vec<_> = rows.into_iter().filter(|(_, row)| row.completed >= FEWEST && row.time > 0).collect();
    let gains_nothing = |few: &DepthRow, many: &DepthRow| {
        let (bytes, more_bytes) = (rate(few.bytes, few.time), rate(many.bytes, many.time));
        let (ios, more_ios) = (rate(few.completed, few.time), rate(many.completed, many.time));
        let percent = |more: u128, few: u128| more.saturating_mul(100) / few.max(1);
        percent(more_bytes, bytes).saturating_mul(percent(more_ios, ios)) <= NO_GAIN_PERCENT * NO_GAIN_PERCENT
    };
    // The shallowest row that has at least the throughput of every row of four times its depth.
    let (knee, few) = *rows.iter().filter(|(at, row)| is_plausible(*at, row)).find(|&&(at, few)| {
        let mut deeper = rows.iter().filter(|&&(other, _)| other >= at + ROWS_APART).peekable();
        deeper.peek().is_some() && deeper.all(|&(_, many)| gains_nothing(few, many))
    })?;
    let deep = knee + ROWS_APART;
    let time: u64 = context.depths.rows[deep..ROWS].iter().map(|row| row.time).sum();
    let count: u64 = context.depths.rows[deep..ROWS].iter().map(|row| row.count).sum();
    let sum: u128 = context.depths.rows[deep..ROWS].iter().map(|row| row.latency_sum).sum();
    let busy = context.depths.busy();
    let weight = words::permille(time, busy);
    let deep_mean = sum.checked_div(u128::from(count))? as u64;
    let few_mean = few.mean_latency()?;
    // The second condition is latency that grows with depth.
    if weight < BLOATED_PERMILLE || deep_mean / 2 < few_mean {
        return None;
    }
    let enough = (1u64 << knee) - 1;
    let added = deep_mean - few_mean;
    Some(Finding {
        kind: FindingKind::DeviceBufferbloat,
        title: format!(
            "Bufferbloat in the device: a queue deeper than {enough} adds {} of latency and no throughput",
            words::span(added)
        ),
        when: context.span,
        who: Vec::new(),
        figures: vec![
            ("enough_depth", enough),
            ("latency_at_enough_mean_ns", few_mean),
            ("latency_deeper_mean_ns", deep_mean),
            ("added_latency_ns", added),
            ("iops_at_enough", per_second(rate(few.completed, few.time))),
            ("bytes_per_second_at_enough", per_second(rate(few.bytes, few.time))),
            ("time_deeper_ns", time),
        ],
        evidence: vec![
            format!(
                "at depth {} the device completes {} requests and {} a second, and no deeper queue does a tenth better",
                row_name(knee),
                rate(few.completed, few.time) / 1000,
                words::bytes(per_second(rate(few.bytes, few.time)))
            ),
            format!(
                "{} of the busy time the depth was {} or more, where a request takes {} instead of {}",
                words::percent(time, busy),
                1u64 << (deep - 1),
                words::span(deep_mean),
                words::span(few_mean)
            ),
        ],
        advice: vec![
            format!(
                "a smaller queue: nr_requests{} (with a scheduler) or iodepth so that about {enough} are in the device; \
                 what waits in the scheduler can still be reordered",
                context.it_was("nr_requests")
            ),
            "kyber (read_lat_nsec) or io.latency, which lower the depth when latency rises".to_owned(),
        ],
        weight,
    })
}
