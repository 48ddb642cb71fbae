//! Figures of the page cache that every report shows: what is derived from the counts, in one
//! place.

use elevon_cache::page_cache::Reading;
use elevon_cache::stats::{CLASSES, CacheUse, CallStats, Window};
use elevon_core::histogram::SparseHistogram;
use elevon_core::units::{Instant, Nanos};

use crate::number::percent;
use crate::result::{CacheSeries, CacheSource, RunResult};
use crate::summary::ratio;

/// The words for [`CLASSES`].
pub(crate) const CLASS_NAMES: [&str; CLASSES.len()] = ["rt", "be", "idle"];

/// Page cache statistics of all jobs together.
pub(crate) fn cache_total(run: &RunResult) -> CacheUse {
    let mut all = CacheUse::default();
    run.jobs.iter().filter_map(|job| job.cache_use.as_ref()).for_each(|used| all.merge(used));
    all
}

/// The kinds of call that more than one job made: where one did, its own row says all.
pub(crate) fn shared_kinds<'a>(
    run: &RunResult,
    all: &'a CacheUse,
) -> impl Iterator<Item = (&'static str, &'a CallStats)> {
    let callers = |n: usize| {
        let users = run.jobs.iter().filter_map(|job| job.cache_use.as_ref());
        users.filter(|used| used.kinds()[n].1.calls > 0).count()
    };
    all.kinds().into_iter().enumerate().filter(move |&(n, _)| callers(n) > 1).map(|(_, kind)| kind)
}

/// Milliseconds slept for I/O in a second of `elapsed`, summed over tasks: also the mean number of
/// tasks that slept, in thousandths.
pub(crate) fn ms_per_second(ns: u128, elapsed: u64) -> f64 {
    1e3 * ratio(ns as f64, elapsed as f64)
}

/// Microseconds slept for I/O in a window, summed over tasks: the mean over the run. A run shorter
/// than a window is one window.
///
/// The same in milliseconds is a thousandth. Neither is how long one call slept, which is
/// [`CallStats::iowait`]'s mean: a figure that was published as "736 us" is likely milliseconds a
/// window of six seconds.
pub(crate) fn iowait_us_per_window(ns: u128, elapsed: u64, window: Nanos) -> f64 {
    let windows = ratio(elapsed as f64, window.get() as f64).max(1.0);
    ns as f64 / 1e3 / windows
}

/// Of pages that were read, the share that was in memory and readable; `None` where none was read.
pub(crate) fn hit_ratio(hits: u64, misses: u64) -> Option<f64> {
    (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
}

/// Of accesses to mapped memory, the share that needed no fault, or only a minor one.
pub(crate) fn mapped_ratio(used: &CacheUse) -> Option<f64> {
    hit_ratio(used.touches + used.fault.minor(), used.fault.major)
}

/// A percentile of what calls slept in a window, in nanoseconds, never past the longest.
pub(crate) fn window_percentile(window: &Window, millionths: u32) -> u64 {
    let of = |histogram: &SparseHistogram| histogram.percentile(millionths.into());
    window.histogram.as_deref().map_or(0, of).min(window.iowait_ns_max)
}

/// Windows that anything happened in: (start, window), in order.
pub(crate) fn windows(stats: &CallStats) -> impl Iterator<Item = (Nanos, &Window)> {
    let length = stats.windows.length().get();
    let all = stats.windows.list().iter().enumerate();
    all.map(move |(n, window)| (Nanos::new(n as u64 * length), window)).filter(|(_, window)| window.calls > 0)
}

/// What happened in each interval: (its start, its end, counters as differences and levels as at
/// its end).
pub(crate) fn intervals(series: &CacheSeries) -> impl Iterator<Item = (Instant, Instant, Reading)> {
    let mut last = (Instant::ZERO, Reading::default());
    series.readings.iter().map(move |&(at, reading)| {
        let (start, before) = std::mem::replace(&mut last, (at, reading));
        (start, at, reading.since(&before))
    })
}

/// Of the bytes of a purpose's bios, the active share in percent, as text.
pub(crate) fn active_percent(source: &CacheSource) -> String {
    source
        .active_bytes
        .map_or_else(|| "-".to_owned(), |active| percent(ratio(active as f64, source.bytes as f64), 1) + " %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_confusion_of_units_cannot_recur() {
        // Ten windows of 6.1 s with 736,176 us in each: the raw data behind "736 us".
        let window = Nanos::from_millis(6_100);
        let (ns, elapsed) = (7_361_760_000, 61_000_000_000);
        assert!((iowait_us_per_window(ns, elapsed, window) - 736_176.0).abs() < 1e-6);
        assert!((ms_per_second(ns, elapsed) - 120.684).abs() < 1e-3);
        // A run of half a window is one.
        assert!((iowait_us_per_window(5_000, 1_000, Nanos::new(2_000)) - 5.0).abs() < 1e-9);
    }
}
