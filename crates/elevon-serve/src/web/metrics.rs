//! Metrics in the text formats of Prometheus and OpenMetrics.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
pub use prometheus_client::registry::Unit;

/// Returns the metrics that a function writes, in the format of OpenMetrics.
pub fn open_metrics<F>(write: F) -> String
where
    F: Fn(&mut Families<'_, '_>) -> fmt::Result + Send + Sync + 'static,
{
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Told(write)));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a text takes everything");
    text
}

/// What a function writes.
struct Told<F>(F);

impl<F> fmt::Debug for Told<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Told")
    }
}

impl<F> Collector for Told<F>
where
    F: Fn(&mut Families<'_, '_>) -> fmt::Result + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.0)(&mut Families(&mut encoder))
    }
}

/// Returns metrics of the format of OpenMetrics in the one before it, in which the family of a
/// counter has the name of its samples, and neither units nor the end are marked.
pub(crate) fn plain(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len());
    // The line with the text comes before the one with the type.
    let mut help = "";
    for line in open_metrics.split_inclusive('\n') {
        if line.starts_with("# HELP ") {
            help = line;
        } else if let Some(family) = line.strip_prefix("# TYPE ") {
            let suffix = if family.ends_with(" counter\n") { "_total" } else { "" };
            for (word, line) in [("# HELP ", help), ("# TYPE ", line)] {
                let (name, rest) = line[word.len()..].split_once(' ').unwrap_or_default();
                out.extend([word, name, suffix, " ", rest]);
            }
        } else if !line.starts_with('#') {
            out.push_str(line);
        }
    }
    out
}

/// Labels of a series: names and values.
pub type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Writes families of metrics.
pub struct Families<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Families<'_, '_> {
    fn family(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        kind: MetricType,
        write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        write(&mut self.0.encode_descriptor(name, help, unit.as_ref(), kind)?)
    }

    /// Writes a family of counters, with each series.
    ///
    /// # Errors
    /// Of the text.
    pub fn counters<'l, V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        samples: impl Iterator<Item = (Labels<'l>, V)>,
    ) -> fmt::Result {
        self.family(name, help, unit, MetricType::Counter, |metric| {
            for (labels, value) in samples {
                if labels.is_empty() {
                    metric.encode_counter::<NoLabelSet, _, f64>(&value, None)?;
                } else {
                    metric
                        .encode_family(&labels)?
                        .encode_counter::<NoLabelSet, _, f64>(&value, None)?;
                }
            }
            Ok(())
        })
    }

    /// Writes a family of gauges, with each series.
    ///
    /// # Errors
    /// Of the text.
    pub fn gauges<'l, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        samples: impl Iterator<Item = (Labels<'l>, V)>,
    ) -> fmt::Result {
        self.family(name, help, unit, MetricType::Gauge, |metric| {
            for (labels, value) in samples {
                if labels.is_empty() {
                    metric.encode_gauge(&value)?;
                } else {
                    metric.encode_family(&labels)?.encode_gauge(&value)?;
                }
            }
            Ok(())
        })
    }

    /// Writes a family of histograms of times in seconds, with each series.
    ///
    /// # Errors
    /// Of the text.
    pub fn histograms<'l>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl Iterator<Item = (Labels<'l>, Times)>,
    ) -> fmt::Result {
        self.family(name, help, Some(Unit::Seconds), MetricType::Histogram, |metric| {
            for (labels, times) in samples {
                let bounds = BUCKETS.iter().map(|&bound| bound as f64 / 1e9);
                let bounds = bounds.chain([f64::INFINITY]);
                let buckets: Vec<(f64, u64)> = bounds.zip(times.buckets).collect();
                metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                    times.seconds,
                    times.count,
                    &buckets,
                    None,
                )?;
            }
            Ok(())
        })
    }
}

/// The upper bounds of the buckets of times, in nanoseconds: 10 us to 10 s. A further bucket has
/// what took longer.
pub const BUCKETS: [u64; 19] = {
    let mut bounds = [0; 19];
    let (mut index, mut decade) = (0, 10_000);
    while index < bounds.len() {
        bounds[index] = decade * [1, 2, 5][index % 3];
        if index % 3 == 2 {
            decade *= 10;
        }
        index += 1;
    }
    bounds
};

/// A histogram of times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Their sum in seconds.
    pub seconds: f64,
    /// How many are in each bucket of [`BUCKETS`] and, last, above these.
    pub buckets: [u64; BUCKETS.len() + 1],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_format_names_counters_as_their_samples() {
        let open = "# HELP a_bytes All.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total{x=\"1\"} 5\n\
                    # HELP b Now.\n# TYPE b gauge\nb 1\n# EOF\n";
        let expected = "# HELP a_bytes_total All.\n# TYPE a_bytes_total counter\na_bytes_total{x=\"1\"} 5\n\
                        # HELP b Now.\n# TYPE b gauge\nb 1\n";
        assert_eq!(plain(open), expected);
    }
}
