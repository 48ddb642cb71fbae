//! Page cache figures that every report shows, computed from the counts in one place.

use elevon_cache::page_cache::Reading;
use elevon_cache::stats::{CLASSES, CacheUse, CallStats, ClassWaits, Window};
use elevon_core::histogram::Histogram;
use elevon_core::units::{Instant, Nanos};

use elevon_result::number::{grouped, percent, span};
use elevon_result::result::{CacheSeries, CacheSource, RunResult};
use elevon_result::summary::ratio;

/// Names of [`CLASSES`], in their order.
pub(crate) const CLASS_NAMES: [&str; CLASSES.len()] = ["rt", "be", "idle"];

/// Returns the page cache statistics of all jobs together.
pub(crate) fn cache_total(run: &RunResult) -> CacheUse {
    let mut all = CacheUse::default();
    run.jobs.iter().filter_map(|job| job.cache_use.as_ref()).for_each(|used| all.merge(used));
    all
}

/// Returns the kinds of call that more than one job made. A kind that one job made is not repeated
/// here: the job's own row shows it.
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

/// Returns a row for each kind of call and class of the bios that ended its sleeps. It has the
/// name, the calls, their sum and the mean of one sleep. It also has how much of that the bio
/// waited in a queue and in the device, and the former in percent.
pub(crate) fn ended_sleeps(all: &CacheUse) -> Vec<[String; 7]> {
    let mut rows = Vec::new();
    for (kind, stats) in all.kinds() {
        for (class, served) in
            CLASS_NAMES.iter().zip(&stats.served).filter(|(_, served)| served.calls > 0)
        {
            let &ClassWaits { calls, iowait_ns, device_ns } = served;
            let a_call = |ns: u64| span(ratio(ns as f64, calls as f64));
            let queued = iowait_ns.saturating_sub(device_ns);
            rows.push([
                format!("{kind}: {class}"),
                grouped(calls),
                span(iowait_ns as f64),
                a_call(iowait_ns),
                a_call(queued),
                a_call(device_ns),
                format!("{:.0} %", 100.0 * ratio(queued as f64, iowait_ns as f64)),
            ]);
        }
    }
    rows
}

/// Returns milliseconds slept for I/O per second of `elapsed`, summed over tasks. The same figure
/// is the mean number of sleeping tasks, in thousandths.
pub(crate) fn ms_per_second(ns: u128, elapsed: u64) -> f64 {
    1e3 * ratio(ns as f64, elapsed as f64)
}

/// Returns microseconds slept for I/O per window, summed over tasks, as the mean over the run. A
/// run shorter than a window counts as one window.
///
/// In milliseconds the figure is a thousandth of this. Neither is the time that one call slept,
/// which is the mean of [`CallStats::iowait`]: a figure that was published as "736 us" is likely
/// milliseconds per window of six seconds.
pub(crate) fn iowait_us_per_window(ns: u128, elapsed: u64, window: Nanos) -> f64 {
    let windows = ratio(elapsed as f64, window.get() as f64).max(1.0);
    ns as f64 / 1e3 / windows
}

/// Returns the share of pages read that were in memory and readable, 0 to 1; `None` if no page was
/// read.
pub(crate) fn hit_ratio(hits: u64, misses: u64) -> Option<f64> {
    (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
}

/// Returns the share of accesses to mapped memory that caused no fault or a minor fault, 0 to 1;
/// `None` if there was no access.
pub(crate) fn mapped_ratio(used: &CacheUse) -> Option<f64> {
    hit_ratio(used.touches + used.fault.minor(), used.fault.major)
}

/// Returns a percentile of the times that calls slept in a window, in nanoseconds, at most the
/// longest time. `millionths` is the percentile in millionths.
pub(crate) fn window_percentile(window: &Window, millionths: u32) -> u64 {
    let of = |histogram: &Histogram| histogram.percentile(millionths.into());
    window.histogram.as_deref().map_or(0, of).min(window.iowait_ns_max)
}

/// Yields the windows that have calls, in order, as (start, window).
pub(crate) fn windows(stats: &CallStats) -> impl Iterator<Item = (Nanos, &Window)> {
    let length = stats.windows.length().get();
    let all = stats.windows.list().iter().enumerate();
    all.map(move |(n, window)| (Nanos::new(n as u64 * length), window))
        .filter(|(_, window)| window.calls > 0)
}

/// Yields the readings of each interval as (start, end, reading): counters as differences over the
/// interval, levels as of its end.
pub(crate) fn intervals(series: &CacheSeries) -> impl Iterator<Item = (Instant, Instant, Reading)> {
    let mut last = (Instant::ZERO, Reading::default());
    series.readings.iter().map(move |&(at, reading)| {
        let (start, before) = std::mem::replace(&mut last, (at, reading));
        (start, at, reading.since(&before))
    })
}

/// Formats the active share of the bytes of a purpose's bios in percent.
pub(crate) fn active_percent(source: &CacheSource) -> String {
    source.active_bytes.map_or_else(
        || "-".to_owned(),
        |active| percent(ratio(active as f64, source.bytes as f64), 1) + " %",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_confusion_of_units_cannot_recur() {
        // Ten windows of 6.1 s with 736,176 us in each: the raw data of the published "736 us".
        let window = Nanos::from_millis(6_100);
        let (ns, elapsed) = (7_361_760_000, 61_000_000_000);
        assert!((iowait_us_per_window(ns, elapsed, window) - 736_176.0).abs() < 1e-6);
        assert!((ms_per_second(ns, elapsed) - 120.684).abs() < 1e-3);
        // A run of half a window counts as one window.
        assert!((iowait_us_per_window(5_000, 1_000, Nanos::new(2_000)) - 5.0).abs() < 1e-9);
    }
}
