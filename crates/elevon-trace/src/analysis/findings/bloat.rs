//! Finds bufferbloat: a queue in the device that is so deep that further depth only adds latency,
//! or behind which a process with few requests waits.
//!
//! There are two kinds of evidence. If the depth changes, the table of depths shows from which
//! depth on the device does no more. If one process keeps the queue deep all the time, the table
//! has one depth only. Then the device shows that it queues by completing requests nearly in the
//! order of issue, or by what it took for the few requests that found it empty.

use super::super::depth::{DepthRow, ROWS, row_name, row_of};
use super::super::words;
use super::cuts::remedy;
use super::depth::{MIN_REQUESTS_OF_A_ROW, ROWS_APART, is_known, rows};
use super::order::MIN_DEPTH_OF_AN_ORDER;
use super::{Context, Finding, FindingKind, Watchers};
use crate::analysis::ProcessStats;

/// Throughput at the deeper row up to which there is no gain, as a multiple of that at the
/// shallower one. It is the geometric mean of requests and bytes per second, because a mix that
/// shifts between small and large I/O changes the two in opposite directions.
const NO_GAIN: f64 = 1.1;
/// Minimum part of the busy time, in thousandths, that is spent at depths without a gain.
const BLOATED_PERMILLE: u32 = 200;
/// A row's rate times its latency, as a multiple of its greatest depth, up to which the rate is one
/// of that depth. By Little's law it is at most 1; requests that are issued at a depth may complete
/// at another. Where more complete while the depth happens to be small, as at the end of a burst,
/// they were served at another depth.
const PLAUSIBLE: f64 = 1.5;

/// Minimum mean number of requests that a process has in the device to be called its filler.
const FILLER_DEPTH: f64 = 4.0;
/// A process waits behind others if it has at most this many requests in the device on average, and
/// at most this part of what the filler has.
const WAITER_DEPTH: f64 = 2.0;
const WAITER_PART: f64 = 8.0;
/// Minimum number of requests of a process that waits: the standard error of a mean of 16 is a
/// quarter of their deviation.
const WAITER_REQUESTS: u64 = 16;
/// Number of processes that are named on either side.
const NAMED: usize = 3;
/// A request found the device nearly empty at up to this part of the usual depth.
const SHALLOW_PART: u64 = 4;
/// Minimum numbers of such requests: if the device completes in order besides, and if not.
const MIN_IN_ORDER: u64 = 3;
const MIN_SHALLOW: u64 = 8;
/// Minimum factor of the latency in the deep queue in these two cases.
const MIN_FACTOR_IN_ORDER: u64 = 2;
const MIN_FACTOR: u64 = 4;
/// Largest difference of the parts of reads between compared rows: what the device does for reads
/// and for writes differs.
const SAME_MIX: f64 = 0.25;
/// Depth up to which a request is served at once or nearly so.
const EMPTY_DEPTH: u64 = 3;
/// Latency in nanoseconds that no device has for a request that is served at once. It tells a queue
/// from a far device if nothing was ever issued to an empty one.
const SLOWER_THAN_ANY_DEVICE_NS: u64 = 20_000_000;
/// Latency in nanoseconds below which a wait is not worth a finding if the queue is steady.
const MIN_WAIT_NS: u64 = 1_000_000;

/// A process with its mean number of requests in the device.
struct Part<'a> {
    process: &'a ProcessStats,
    depth: f64,
}

impl Part<'_> {
    /// Returns the mean time that its requests take in the device.
    fn latency(&self) -> u64 {
        self.process.device_time.checked_div(self.process.all_requests()).unwrap_or(0)
    }
}

/// The processes that fill the queue, and those that wait behind it.
struct Sides<'a> {
    fillers: Vec<Part<'a>>,
    waiters: Vec<Part<'a>>,
}

impl<'a> Sides<'a> {
    /// `latency` is what a request takes in the deep queue.
    fn from_context(context: &Context<'a>, latency: u64) -> Self {
        let busy = context.depths.busy().max(1) as f64;
        let part =
            |process: &'a ProcessStats| Part { process, depth: process.device_time as f64 / busy };
        let mut parts: Vec<Part<'a>> =
            context.processes.iter().map(part).filter(|part| part.depth > 0.0).collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.process.device_time));
        let least = FILLER_DEPTH.max(context.depths.mean_busy_depth() / 4.0);
        let (mut fillers, rest): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|part| part.depth >= least);
        let most =
            fillers.first().map_or(0.0, |filler| WAITER_DEPTH.min(filler.depth / WAITER_PART));
        let waits = |part: &Part<'_>| {
            part.depth <= most
                && part.process.all_requests() >= WAITER_REQUESTS
                && part.latency() >= latency / 2
        };
        let mut waiters: Vec<Part<'a>> = rest.into_iter().filter(waits).collect();
        fillers.truncate(NAMED);
        waiters.truncate(NAMED);
        Self { fillers, waiters }
    }

    fn who(&self) -> Vec<String> {
        self.fillers.iter().chain(&self.waiters).map(|part| part.process.label()).collect()
    }

    fn evidence(&self) -> impl Iterator<Item = String> {
        let fillers = self.fillers.iter().map(|part| {
            format!("{} keeps {:.1} requests in the device", part.process.label(), part.depth)
        });
        let waiters = self.waiters.iter().map(|part| {
            format!(
                "{} has {:.1} there, and each of its {} requests takes {} on average",
                part.process.label(),
                part.depth,
                part.process.all_requests(),
                words::span(part.latency())
            )
        });
        fillers.chain(waiters)
    }

    fn figures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let filler = self
            .fillers
            .first()
            .map(|part| ("filler_depth_permille", (part.depth * 1000.0) as u64));
        let waiter = self.waiters.first();
        let waiter = waiter.map(|part| {
            [("waiter_requests", part.process.all_requests()), ("waiter_mean_ns", part.latency())]
        });
        filler.into_iter().chain(waiter.into_iter().flatten())
    }

    /// Returns what to try: a smaller queue of about `enough` requests, and limits for the
    /// processes that fill it.
    fn advice(&self, context: &Context<'_>, watch: &Watchers, enough: Option<u64>) -> Vec<String> {
        let mut advice = Vec::new();
        let limit = watch.limit();
        let is_cut = watch.cuts.are_many(context, limit);
        if is_cut {
            let cut = watch.cuts.sentence(context, limit);
            advice.push(format!(
                "{}. The depth is made of the pieces: {cut}",
                remedy(context, limit)
            ));
        }
        let filler = self.fillers.first().map(|part| part.process.label());
        let iodepth = match &filler {
            _ if is_cut => String::new(),
            Some(name) => format!(", or a smaller iodepth of {name},"),
            None => " or iodepth".to_owned(),
        };
        let target = enough.map_or("fewer".to_owned(), |enough| format!("about {enough}"));
        advice.push(format!(
            "a smaller queue: a scheduler and a smaller nr_requests{}{iodepth} so that {target} are in the device; what \
             waits in the scheduler can still be reordered",
            context.it_was("nr_requests"),
        ));
        advice.push(match (filler, self.waiters.first()) {
            (Some(filler), Some(waiter)) => format!(
                "a cgroup for {filler} with a limit (io.max) or a smaller io.weight (io.cost), or io.latency for that of {}; \
                 kyber (read_lat_nsec) lowers the depth when reads are late",
                waiter.process.label()
            ),
            _ => "kyber (read_lat_nsec) or io.latency, which lower the depth when latency rises".to_owned(),
        });
        advice
    }
}

/// The rows of a depth on, added up.
struct Deep {
    /// Nanoseconds at such depths, and their part of the busy time in thousandths.
    time: u64,
    permille: u32,
    /// Mean time from issue to completion, and mean depth at issue.
    latency: u64,
    depth: u64,
    /// Requests that the device serves a second at such depths.
    rate: f64,
    /// Part of reads.
    reads: f64,
}

/// Requests that were issued at a small depth.
#[derive(Clone, Copy)]
struct Shallow {
    count: u64,
    /// Mean time from issue to completion.
    latency: u64,
    /// Part of reads.
    reads: f64,
}

impl Shallow {
    /// Returns the requests that were issued at a depth of at most `most`.
    fn from_context(context: &Context<'_>, most: u64) -> Option<Self> {
        let rows = || {
            context
                .depths
                .rows
                .iter()
                .enumerate()
                .skip(1)
                .filter(|(at, _)| (1u64 << at) - 1 <= most)
        };
        let count: u64 = rows().map(|(_, row)| row.latency.count).sum();
        let sum: u128 = rows().map(|(_, row)| row.latency.sum).sum();
        let reads: u64 = rows().map(|(_, row)| row.reads).sum();
        let latency = sum.checked_div(u128::from(count))? as u64;
        Some(Self { count, latency, reads: reads as f64 / count as f64 })
    }
}

impl Deep {
    fn from_context(context: &Context<'_>, first: usize) -> Option<Self> {
        let rows = &context.depths.rows[first..ROWS];
        let time = rows.iter().map(|row| row.time).sum();
        let count: u64 = rows.iter().map(|row| row.latency.count).sum();
        let latency: u128 = rows.iter().map(|row| row.latency.sum).sum();
        let depth: u64 = rows.iter().map(|row| row.depth_sum).sum();
        let reads: u64 = rows.iter().map(|row| row.reads).sum();
        let completed: f64 = rows.iter().map(|row| row.completed).sum();
        let permille = words::permille(time, context.depths.busy());
        let latency = latency.checked_div(u128::from(count))? as u64;
        let (depth, reads) = (depth / count, reads as f64 / count as f64);
        let rate = completed * 1e9 / time.max(1) as f64;
        Some(Self { time, permille, latency, depth, rate, reads })
            .filter(|deep| deep.permille >= BLOATED_PERMILLE)
    }
}

/// Finds that the device queue is deeper than the device can use.
pub(super) fn bufferbloat(context: &Context<'_>, watch: &Watchers) -> Option<Finding> {
    if !is_known(context) {
        return None;
    }
    beyond_gain(context, watch).or_else(|| steady(context, watch))
}

/// Returns true if a row's rate can be one of its depth.
fn is_plausible(at: usize, row: &DepthRow) -> bool {
    let depth = ((1u64 << at) - 1) as f64;
    row.completed * row.mean_latency().unwrap_or(0) as f64 <= depth * PLAUSIBLE * row.time as f64
}

fn gains_nothing(few: &DepthRow, many: &DepthRow) -> bool {
    let ratio = |more: f64, few: f64| more / few.max(1e-3);
    let requests = ratio(many.requests_per_second(), few.requests_per_second());
    requests * ratio(many.bytes_per_second(), few.bytes_per_second()) <= NO_GAIN * NO_GAIN
}

/// Finds a depth from which on the device does no more, if it was often at that depth and deeper.
fn beyond_gain(context: &Context<'_>, watch: &Watchers) -> Option<Finding> {
    let rows = rows(context);
    let rows: Vec<_> = rows
        .into_iter()
        .filter(|(_, row)| row.completed >= MIN_REQUESTS_OF_A_ROW as f64 && row.time > 0)
        .collect();
    // The shallowest row that has at least the throughput of every row of four times its depth.
    let (knee, few) =
        *rows.iter().filter(|(at, row)| is_plausible(*at, row)).find(|&&(at, few)| {
            let mut deeper = rows.iter().filter(|&&(other, _)| other >= at + ROWS_APART).peekable();
            deeper.peek().is_some() && deeper.all(|&(_, many)| gains_nothing(few, many))
        })?;
    let first = knee + ROWS_APART;
    let deep = Deep::from_context(context, first)?;
    let few_mean = few.mean_latency()?;
    let is_same_mix = (few.reads as f64 / few.latency.count as f64 - deep.reads).abs() <= SAME_MIX;
    // Latency must grow with depth.
    if deep.latency / 2 < few_mean || !is_same_mix {
        return None;
    }
    let enough = (1u64 << knee) - 1;
    let added = deep.latency - few_mean;
    let sides = Sides::from_context(context, deep.latency);
    let mut figures = vec![
        ("enough_depth", enough),
        ("latency_at_enough_mean_ns", few_mean),
        ("latency_deeper_mean_ns", deep.latency),
        ("added_latency_ns", added),
        ("iops_at_enough", few.requests_per_second() as u64),
        ("bytes_per_second_at_enough", few.bytes_per_second() as u64),
        ("time_deeper_ns", deep.time),
    ];
    figures.extend(sides.figures());
    let mut evidence = vec![
        format!(
            "at depth {} the device completes {:.0} requests and {} a second, and no deeper queue does a tenth better",
            row_name(knee),
            few.requests_per_second(),
            words::bytes(few.bytes_per_second() as u64)
        ),
        format!(
            "{} of the busy time the depth was {} or more, where a request takes {} instead of {}",
            words::percent(deep.time, context.depths.busy()),
            1u64 << (first - 1),
            words::span(deep.latency),
            words::span(few_mean)
        ),
    ];
    evidence.extend(sides.evidence());
    Some(Finding {
        kind: FindingKind::DeviceBufferbloat,
        title: format!(
            "Bufferbloat in the device: a queue deeper than {enough} adds {} of latency and no throughput",
            words::span(added)
        ),
        when: context.span,
        who: sides.who(),
        figures,
        evidence,
        advice: sides.advice(context, watch, Some(enough)),
        weight: deep.permille,
    })
}

/// Returns true if requests wait in a deep queue: the device serves it nearly in order, or more
/// slowly than `known`, the requests that found the device nearly empty.
fn is_bloat(deep: &Deep, known: Option<Shallow>, overtakes_little: bool) -> bool {
    let is_slower = |few: Shallow, times: u64| deep.latency >= few.latency.saturating_mul(times);
    let is_in_order = overtakes_little
        && known.map_or(deep.latency >= SLOWER_THAN_ANY_DEVICE_NS, |few| {
            is_slower(few, MIN_FACTOR_IN_ORDER)
        });
    let is_slow = known.is_some_and(|few| {
        few.count >= MIN_SHALLOW
            && is_slower(few, MIN_FACTOR)
            && (few.reads - deep.reads).abs() <= SAME_MIX
    });
    deep.latency >= MIN_WAIT_NS && (is_in_order || is_slow)
}

/// Finds a process that waits behind another one's deep queue, which the device serves nearly in
/// order or more slowly than what found it empty.
fn steady(context: &Context<'_>, watch: &Watchers) -> Option<Finding> {
    let first = row_of(MIN_DEPTH_OF_AN_ORDER);
    let deep = Deep::from_context(context, first)?;
    let shallow = Shallow::from_context(context, deep.depth / SHALLOW_PART);
    let known = shallow.filter(|few| few.count >= MIN_IN_ORDER);
    let overtaken = watch.order.overtakes();
    if !is_bloat(&deep, known, overtaken.is_some()) {
        return None;
    }
    let sides = Sides::from_context(context, deep.latency);
    let (filler, waiter) = (sides.fillers.first()?, sides.waiters.first()?);
    let title = format!(
        "Bufferbloat in the device: {} keeps {:.0} requests in it, behind which {} waits {} for each of its own",
        filler.process.label(),
        filler.depth,
        waiter.process.label(),
        words::span(waiter.latency())
    );
    let mut figures = vec![
        ("depth", deep.depth),
        ("latency_deeper_mean_ns", deep.latency),
        ("time_deeper_ns", deep.time),
    ];
    let mut evidence = vec![format!(
        "{} of the busy time the depth was {MIN_DEPTH_OF_AN_ORDER} or more, and {} on average; a request then takes {}",
        words::percent(deep.time, context.depths.busy()),
        deep.depth,
        words::span(deep.latency)
    )];
    if let Some(few) = known {
        figures.extend([("shallow_requests", few.count), ("latency_shallow_mean_ns", few.latency)]);
        evidence.push(format!(
            "{} requests found at most {} others there, and took {}",
            few.count,
            (deep.depth / SHALLOW_PART).saturating_sub(1),
            words::span(few.latency)
        ));
    }
    if let Some(overtaken) = overtaken {
        figures.push(("overtaken", overtaken));
        evidence.push(format!(
            "the device serves its queue nearly in order: a completion overtakes {overtaken} earlier requests at most"
        ));
    }
    let enough = enough(context, &deep, overtaken);
    match enough {
        Some(enough) => figures.push(("enough_depth", enough)),
        None => evidence
            .push("how many requests suffice, the trace does not show: none found the device nearly empty".to_owned()),
    }
    figures.extend(sides.figures());
    evidence.extend(sides.evidence());
    Some(Finding {
        kind: FindingKind::DeviceBufferbloat,
        title,
        when: context.span,
        who: sides.who(),
        figures,
        evidence,
        advice: sides.advice(context, watch, enough),
        weight: deep.permille,
    })
}

/// Returns how many requests the device serves at a time: by Little's law as many as it completes
/// in the time that one takes which finds it nearly empty, and no fewer than overtake each other.
fn enough(context: &Context<'_>, deep: &Deep, overtaken: Option<u64>) -> Option<u64> {
    let empty = Shallow::from_context(context, EMPTY_DEPTH)?;
    let served = (deep.rate * empty.latency as f64 / 1e9).round() as u64;
    Some(served.max(overtaken.map_or(1, |overtaken| overtaken + 1)))
}
