//! What is to be made large or small, and within which bounds.

use elevon_report::figures::{ALL_JOBS, FigureRow};
use elevon_report::plot::Unit;

use crate::amount::amount;
use crate::error::SweepError;

/// Short names of figures.
const SHORT_NAMES: [(&str, &str); 8] = [
    ("throughput", "bw_bytes_per_second"),
    ("bw", "bw_bytes_per_second"),
    ("mean", "lat_mean_ns"),
    ("p50", "lat_p50_ns"),
    ("p95", "lat_p95_ns"),
    ("p99", "lat_p99_ns"),
    ("p99.9", "lat_p99_9_ns"),
    ("max", "lat_max_ns"),
];

/// A figure of a job, by its name in the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) job: String,
    pub(crate) figure: String,
}

impl Metric {
    /// Parses `[JOB:]FIGURE`.
    pub(crate) fn parse(text: &str) -> Self {
        let (job, figure) = text.rsplit_once(':').unwrap_or((ALL_JOBS, text));
        let long =
            SHORT_NAMES.iter().find(|(short, _)| *short == figure).map_or(figure, |(_, long)| long);
        Self { job: job.to_owned(), figure: long.to_owned() }
    }

    /// Returns the metric's value in the rows of a run.
    pub(crate) fn value(&self, rows: &[FigureRow]) -> Option<f64> {
        let row = rows.iter().find(|row| row.job == self.job)?;
        row.figures.iter().find(|(name, _)| *name == self.figure).map(|(_, value)| *value)
    }

    /// Returns the name as it is shown.
    pub(crate) fn name(&self) -> String {
        if self.job == ALL_JOBS {
            self.figure.clone()
        } else {
            format!("{}:{}", self.job, self.figure)
        }
    }

    /// Returns the name for people: `reader: 99% latency of writes`.
    pub(crate) fn title(&self) -> String {
        let directions = [("read_", " of reads"), ("write_", " of writes"), ("trim_", " of trims")];
        let directed = directions
            .iter()
            .find_map(|(prefix, of)| Some((self.figure.strip_prefix(prefix)?, *of)));
        let (figure, of) = directed.unwrap_or((&self.figure, ""));
        let words = match figure {
            "ios" => "I/Os".to_owned(),
            "iops" => "I/Os a second".to_owned(),
            "bw_bytes_per_second" => "throughput".to_owned(),
            "lat_mean_ns" => "mean latency".to_owned(),
            "lat_p50_ns" => "median latency".to_owned(),
            "lat_p95_ns" => "95% latency".to_owned(),
            "lat_p99_ns" => "99% latency".to_owned(),
            "lat_p99_9_ns" => "99.9% latency".to_owned(),
            "lat_max_ns" => "longest latency".to_owned(),
            other => other.trim_end_matches("_ns").trim_end_matches("_percent").replace('_', " "),
        };
        let job = if self.job == ALL_JOBS { String::new() } else { format!("{}: ", self.job) };
        format!("{job}{words}{of}")
    }

    pub(crate) fn unit(&self) -> Unit {
        match self.figure.as_str() {
            name if name.ends_with("_ns") => Unit::Nanos,
            name if name.ends_with("bytes_per_second") => Unit::BytesPerSecond,
            name if name.ends_with("_percent") => Unit::Percent,
            _ => Unit::Count,
        }
    }

    /// Formats a value with its unit.
    pub(crate) fn show(&self, value: f64) -> String {
        amount(self.unit(), value)
    }
}

/// A bound of a metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bound {
    pub(crate) metric: Metric,
    /// True if values are to be below, false if above.
    below: bool,
    /// True if values may be equal to it.
    or_equal: bool,
    value: f64,
}

impl Bound {
    /// Parses `METRIC<VALUE` or `METRIC>VALUE`, or with `<=` and `>=`: a number, or one with a unit
    /// of time or size.
    pub(crate) fn parse(text: &str) -> Result<Self, SweepError> {
        let bad = || SweepError::Bound { text: text.to_owned() };
        let at = text.find(['<', '>']).ok_or_else(bad)?;
        let (metric, rest) = text.split_at(at);
        let metric =
            Metric::parse(Some(metric.trim()).filter(|metric| !metric.is_empty()).ok_or_else(bad)?);
        let (or_equal, value) =
            rest[1..].strip_prefix('=').map_or((false, &rest[1..]), |value| (true, value));
        let value = Some(value.trim()).filter(|value| !value.is_empty()).ok_or_else(bad)?;
        let (value, unit) = quantity(value).ok_or_else(|| {
            let units: Vec<&str> =
                UNITS.iter().map(|(name, ..)| *name).filter(|name| !name.is_empty()).collect();
            SweepError::BoundValue {
                text: text.to_owned(),
                value: value.to_owned(),
                units: units.join(", "),
            }
        })?;
        if !unit.fits(metric.unit()) {
            let expected = match metric.unit() {
                Unit::Nanos => "a time with its unit, such as 2ms",
                Unit::BytesPerSecond => "bytes a second, such as 100MB/s",
                Unit::Percent => "a share, such as 90%",
                _ => {
                    "a number, such as 100k, if there is such a figure; latencies are mean, p50, p95, p99, p99.9 and max"
                }
            };
            return Err(SweepError::BoundUnit {
                text: text.to_owned(),
                figure: metric.name(),
                expected,
            });
        }
        Ok(Self { metric, below: rest.starts_with('<'), or_equal, value })
    }

    /// Returns by how much a value misses the bound, as a share of the bound; 0 if it holds.
    pub(crate) fn missed(&self, value: f64) -> f64 {
        let by = if self.below { value - self.value } else { self.value - value };
        let holds = if self.or_equal { by <= 0.0 } else { by < 0.0 };
        // A value equal to a bound that excludes it misses it by as little as there is.
        if holds { 0.0 } else { (by / self.value.abs().max(1e-9)).max(f64::MIN_POSITIVE) }
    }

    pub(crate) fn in_words(&self) -> String {
        let sign = if self.below { "<" } else { ">" };
        let equal = if self.or_equal { "=" } else { "" };
        format!("{} {sign}{equal} {}", self.metric.name(), self.metric.show(self.value))
    }
}

/// What the unit of a bound says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Time,
    Bandwidth,
    Share,
    /// None, or a factor.
    Number,
}

impl Written {
    /// Returns true if a figure in `unit` can be held against it. A number without a unit is no
    /// time: 2 for 2 ms would be 2 ns.
    const fn fits(self, unit: Unit) -> bool {
        match unit {
            Unit::Nanos => matches!(self, Self::Time),
            Unit::BytesPerSecond => matches!(self, Self::Bandwidth | Self::Number),
            Unit::Percent => matches!(self, Self::Share | Self::Number),
            _ => matches!(self, Self::Number),
        }
    }
}

/// The units of a bound.
const UNITS: [(&str, f64, Written); 12] = [
    ("ns", 1.0, Written::Time),
    ("us", 1e3, Written::Time),
    ("ms", 1e6, Written::Time),
    ("s", 1e9, Written::Time),
    ("kB/s", 1e3, Written::Bandwidth),
    ("MB/s", 1e6, Written::Bandwidth),
    ("GB/s", 1e9, Written::Bandwidth),
    ("k", 1e3, Written::Number),
    ("M", 1e6, Written::Number),
    ("G", 1e9, Written::Number),
    ("%", 1.0, Written::Share),
    ("", 1.0, Written::Number),
];

/// Parses `2ms`, `1.5`, `100k`, `1GB/s`; times in nanoseconds.
fn quantity(text: &str) -> Option<(f64, Written)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let &(_, unit, written) = UNITS.iter().find(|(name, ..)| *name == text[end..].trim())?;
    let value = text[..end].parse::<f64>().ok().filter(|value| value.is_finite())?;
    Some((value * unit, written))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_and_bounds() {
        assert_eq!(Metric::parse("p99").name(), "lat_p99_ns");
        assert_eq!(Metric::parse("reader:iops").name(), "reader:iops");
        let bound = Bound::parse("reader:p99 < 2ms").expect("a bound");
        assert_eq!((bound.missed(1.9e6), bound.missed(3e6)), (0.0, 0.5));
        assert_eq!(bound.in_words(), "reader:lat_p99_ns < 2.00ms");
        assert!(bound.missed(2e6) > 0.0);
        let bound = Bound::parse("reader:p99<=2ms").expect("a bound");
        assert_eq!(
            (bound.missed(2e6), bound.in_words().as_str()),
            (0.0, "reader:lat_p99_ns <= 2.00ms")
        );
        assert_eq!(Bound::parse("throughput>=1GB/s").expect("a bound").missed(5e8), 0.5);
        assert_eq!(quantity("100k"), Some((1e5, Written::Number)));
        for text in ["p99<2", "iops>2ms", "throughput>50%", "util_percent<1GB/s"] {
            let error = Bound::parse(text).expect_err(text).to_string();
            assert!(error.contains(", such as "), "{error}");
        }
        assert!(Bound::parse("max<1s").is_ok() && Bound::parse("reader:p95<1ms").is_ok());
        for (text, part) in [
            (
                "p100<1s",
                "p100 takes a number, such as 100k, if there is such a figure; latencies are ",
            ),
            ("bw>1MB", "`1MB` is no value; must be a number, alone or with ns, us, ms, s, kB/s, "),
            ("p99<2msec", "`2msec` is no value"),
            ("p99<", "must be FIGURE<VALUE"),
        ] {
            let error = Bound::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        for text in ["p99", "p99<", "p99<2 furlongs", "<3", "p99<1..2"] {
            assert!(Bound::parse(text).is_err(), "{text}");
        }
    }
}
