//! Finds a queue that is too shallow for the device.
//!
//! This and bufferbloat use one table: for each depth (in powers of two) the time spent, the I/O
//! that completed, and the latency of requests issued at that depth.

use super::super::depth::{DepthRow, row_name};
use super::super::words;
use super::{Context, Finding, FindingKind};

/// Minimum number of requests for the figures of a row: the standard error of a mean of 64 is an
/// eighth of their deviation.
pub(super) const MIN_REQUESTS_OF_A_ROW: u64 = 64;
/// Of two compared rows the deeper one has at least four times the depth.
pub(super) const ROWS_APART: usize = 2;
/// The device serves more requests at a time without effort if the latency at four times the depth
/// or more is at most a third longer. (If the depth exceeds what a device can use, latency is
/// proportional to depth.)
const FLAT_PERCENT: u128 = 133;
/// Minimum part of the time, in thousandths, in which the device is in use; otherwise its depth
/// does not limit throughput.
const BUSY_PERMILLE: u32 = 500;
/// Part of requests without completion, in thousandths, from which the depth is unknown: each
/// deepens the queue by one until it is noticed.
const LOST_PERMILLE: u32 = 5;

/// Returns the rows with enough requests.
pub(super) fn rows<'a>(context: &Context<'a>) -> Vec<(usize, &'a DepthRow)> {
    let rows = context.depths.rows.iter().enumerate().skip(1);
    rows.filter(|(_, row)| row.latency.count >= MIN_REQUESTS_OF_A_ROW).collect()
}

/// Returns true if the depth is known well enough, that is if few completions are missing.
pub(super) fn is_known(context: &Context<'_>) -> bool {
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
        let (few, many) = (
            u128::from(few.mean_latency().unwrap_or(0)),
            u128::from(row.mean_latency().unwrap_or(0)),
        );
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
            many.latency.count,
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
