//! Totals of a watch as metrics of Prometheus.

use std::fmt;

use elevon_serve::web::metrics::{BUCKETS, Families, Labels, Times, Unit, open_metrics};
use elevon_trace::analysis::Group;
use elevon_watch::{DiskTotal, TimesTotal, Totals, UnitTotal};

/// Kinds of requests as the label `op` names them.
const OPS: [(&str, Group); 5] = [
    ("read", Group::Read),
    ("write", Group::Write),
    ("discard", Group::Discard),
    ("flush", Group::Flush),
    ("other", Group::Other),
];

/// Returns totals that have the buckets of the metrics.
pub(super) fn totals() -> Totals {
    Totals::new(&BUCKETS)
}

/// Returns the metrics in the format of OpenMetrics.
pub(super) fn text(totals: Totals) -> String {
    open_metrics(move |to| {
        units(&totals, to)?;
        disks(&totals, to)?;
        watch(&totals, to)
    })
}

/// Returns every service and container of every disk with its labels.
fn all(totals: &Totals) -> impl Iterator<Item = (Labels<'_>, &UnitTotal)> {
    totals.disks.values().flat_map(|disk| {
        disk.units.iter().map(move |((kind, name), total)| {
            let of: Labels<'_> =
                vec![("device", &disk.name), ("unit", name), ("kind", kind.name())];
            (of, total)
        })
    })
}

fn with<'a>(labels: &Labels<'a>, name: &'static str, value: &'a str) -> Labels<'a> {
    [&labels[..], &[(name, value)]].concat()
}

fn units(totals: &Totals, to: &mut Families<'_, '_>) -> fmt::Result {
    let by_op = |values: fn(&UnitTotal) -> &[f64; Group::COUNT]| {
        all(totals).flat_map(move |(labels, total)| {
            OPS.map(|(op, group)| (with(&labels, "op", op), values(total)[group as usize]))
        })
    };
    let help =
        "Requests that the device completed, by service or container; unit=\"other\" is the rest.";
    to.counters("elevon_watch_requests", help, None, by_op(|total| &total.requests))?;
    let help = "Bytes of requests that the device completed.";
    to.counters("elevon_watch_io", help, Some(Unit::Bytes), by_op(|total| &total.bytes))?;
    let help = "Requests that failed.";
    let errors = all(totals).map(|(labels, total)| (labels, total.errors));
    to.counters("elevon_watch_errors", help, None, errors)?;
    let stages = all(totals).flat_map(|(labels, total)| {
        [("waiting", &total.waiting), ("device", &total.in_device)]
            .map(|(stage, times)| (with(&labels, "stage", stage), whole(times)))
    });
    let help = "Time of requests by stage: waiting is from queue to issue, device from issue to completion.";
    to.histograms("elevon_watch_latency", help, stages)
}

/// Returns a distribution in whole numbers.
fn whole(times: &TimesTotal) -> Times {
    let mut buckets = [0; BUCKETS.len() + 1];
    // Rounding sums and not parts keeps the count that of the last bucket.
    let (mut sum, mut before) = (0.0, 0);
    for (bucket, count) in buckets.iter_mut().zip(&times.buckets) {
        sum += count;
        let rounded = libm::round(sum) as u64;
        *bucket = rounded - before;
        before = rounded;
    }
    Times { count: before, seconds: times.seconds, buckets }
}

/// A counter of a disk: its name, what it counts, its unit, and its value.
type Counter = (&'static str, &'static str, Option<fn() -> Unit>, fn(&DiskTotal) -> f64);

fn disks(totals: &Totals, to: &mut Families<'_, '_>) -> fmt::Result {
    let counters: [Counter; 5] = [
        (
            "elevon_watch_busy",
            "Time with a request in the device; its rate is the utilisation, from 0 to 1.",
            Some(|| Unit::Seconds),
            |disk| disk.busy,
        ),
        (
            "elevon_watch_queue",
            "Requests in the device, integrated over time; its rate is the mean depth.",
            Some(|| Unit::Seconds),
            |disk| disk.depth,
        ),
        ("elevon_watch_merges", "Bios that joined a request.", None, |disk| disk.merges),
        ("elevon_watch_splits", "Bios that a limit cut.", None, |disk| disk.splits),
        ("elevon_watch_requeues", "Requests that the driver gave back.", None, |disk| {
            disk.requeues
        }),
    ];
    for (name, help, unit, value) in counters {
        let samples =
            totals.disks.values().map(|disk| (vec![("device", disk.name.as_str())], value(disk)));
        to.counters(name, help, unit.map(|unit| unit()), samples)?;
    }
    let findings = totals.disks.values().flat_map(|disk| {
        disk.findings.iter().map(|(kind, stands)| {
            let labels = vec![("device", disk.name.as_str()), ("finding", kind.name())];
            (labels, u64::from(*stands))
        })
    });
    let help = "1 while a problem stands, 0 after it; problems that never stood have no series.";
    to.gauges("elevon_watch_finding", help, None, findings)
}

fn watch(totals: &Totals, to: &mut Families<'_, '_>) -> fmt::Result {
    let none = Vec::new;
    let help = "Events of the kernel that were lost: all figures are too small then.";
    to.counters("elevon_watch_lost_events", help, None, [(none(), totals.lost)].into_iter())?;
    let help =
        "Share of the last second whose events were followed; counters are scaled to all of it.";
    let followed = [(none(), totals.followed)].into_iter();
    to.gauges("elevon_watch_followed_ratio", help, None, followed)?;
    let version = vec![("version", env!("CARGO_PKG_VERSION"))];
    let help = "The version that watches.";
    to.gauges("elevon_watch_build_info", help, None, [(version, 1_u64)].into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_counts_become_whole_and_their_sum_is_the_count() {
        let times = TimesTotal { count: 4.0, seconds: 1.0, buckets: vec![1.4, 1.4, 1.2] };
        let whole = whole(&times);
        assert_eq!((whole.count, whole.buckets.iter().sum::<u64>()), (4, 4));
        assert_eq!(whole.buckets[..3], [1, 2, 1]);
    }
}
