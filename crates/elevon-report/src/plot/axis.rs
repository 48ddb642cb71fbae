//! Axes of plots: positions and labels of ticks.

use elevon_result::number::significant;

/// How values map to positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Positions are proportional to values. A y axis starts at zero.
    Linear,
    /// Each factor of ten takes the same length. Values must be above zero; others are drawn at the
    /// edge.
    Log,
}

/// Unit of an axis's values, which decides how ticks are formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count.
    Count,
    /// Percent.
    Percent,
    /// A time span in nanoseconds.
    Nanos,
    /// Bytes per second.
    BytesPerSecond,
    /// Bytes, shown in KiB.
    KiB,
    /// Bytes, shown in the binary unit that fits.
    Bytes,
    /// A percentile p as the odds 1/(1 − p): 10 is the 90th percentile and 100 the 99th. Use it
    /// with [`Scale::Log`].
    Odds,
}

/// An axis of a plot.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The quantity, without its unit.
    pub title: String,
    /// How values map to positions.
    pub scale: Scale,
    /// Unit of the values.
    pub unit: Unit,
}

impl Unit {
    /// Returns the divisor and the unit name for an axis up to `max`.
    pub(super) fn step_for(self, max: f64) -> (f64, &'static str) {
        let pick = |steps: &[(f64, &'static str)]| {
            steps
                .iter()
                .rev()
                .copied()
                .find(|&(size, _)| max >= size)
                .unwrap_or((steps[0].0, steps[0].1))
        };
        match self {
            Self::Count if max >= 1e7 => (1e6, "millions"),
            Self::Count if max >= 1e4 => (1e3, "thousands"),
            Self::Count => (1.0, ""),
            Self::Percent => (1.0, "%"),
            Self::Nanos => pick(&[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")]),
            Self::BytesPerSecond => {
                pick(&[(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s")])
            }
            Self::KiB => (1024.0, "KiB"),
            Self::Bytes => {
                let mib = 1024.0 * 1024.0;
                pick(&[
                    (1.0, "bytes"),
                    (1024.0, "KiB"),
                    (mib, "MiB"),
                    (1024.0 * mib, "GiB"),
                    (mib * mib, "TiB"),
                ])
            }
            Self::Odds => (1.0, ""),
        }
    }

    /// Formats one value with its own unit, for ticks of a logarithmic axis and for tables.
    pub(super) fn exact(self, value: f64) -> String {
        match self {
            Self::Odds => {
                // The text has as many digits as the percentile has nines: 99.99, and never 100 for
                // less than all.
                let nines = libm::log10(value.max(1.0)).ceil().max(1.0) as usize;
                let text =
                    format!("{:.*}", nines.saturating_sub(1), 100.0 * (1.0 - 1.0 / value.max(1.0)));
                format!(
                    "{}%",
                    if text.contains('.') {
                        text.trim_end_matches('0').trim_end_matches('.')
                    } else {
                        &text
                    }
                )
            }
            _ => {
                let (size, name) =
                    if self == Self::Count { (1.0, "") } else { self.step_for(value) };
                let number = plain(value / size);
                if name.is_empty() || name == "%" {
                    number + name
                } else {
                    format!("{number} {name}")
                }
            }
        }
    }
}

/// Formats a number with four digits, without trailing zeros.
pub(super) fn plain(value: f64) -> String {
    let text = significant(value, 4);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A logarithmic axis covers at least this factor.
const NARROWEST: f64 = 1.02;

/// An axis with its range: ticks with labels, and positions of values.
pub(super) struct Ticks {
    title: String,
    scale: Scale,
    low: f64,
    high: f64,
    /// (fraction of the length, label), ascending.
    ticks: Vec<(f64, String)>,
}

impl Ticks {
    /// Chooses the ticks for values on an axis of the given `length`. `character` is the space of a
    /// label along the axis: per character on a horizontal axis, per label on a vertical one.
    pub(super) fn new(
        axis: &Axis,
        values: impl Iterator<Item = f64>,
        length: f64,
        character: f64,
        vertical: bool,
    ) -> Self {
        let usable = values.filter(|v| v.is_finite() && (axis.scale == Scale::Linear || *v > 0.0));
        let (low, high) =
            usable.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        let (low, high) = if low > high { (1.0, 10.0) } else { (low, high) };
        let room = |label: &str| {
            if vertical { character } else { (label.chars().count() + 1) as f64 * character }
        };
        match axis.scale {
            Scale::Linear => Self::linear(axis, low, high, length, vertical, room),
            Scale::Log => Self::log(axis, low, high, length, room),
        }
    }

    /// Chooses ticks at equal steps of 1, 2 or 5 times a power of ten, as many as fit.
    fn linear(
        axis: &Axis,
        low: f64,
        high: f64,
        length: f64,
        vertical: bool,
        room: impl Fn(&str) -> f64,
    ) -> Self {
        let low = low.min(0.0);
        let high = if high > low { high } else { low + 1.0 };
        let (size, unit) = axis.unit.step_for(high);
        let title =
            if unit.is_empty() { axis.title.clone() } else { format!("{}, {unit}", axis.title) };
        let wanted = if vertical { 5.0 } else { 8.0 };
        let mut step = round_up((high - low) / size / wanted);
        loop {
            let first = (low / size / step).floor() as i64;
            // A vertical axis ends at a tick, so that the highest value is below a tick; a time
            // axis ends at the last value.
            let end = (high / size / step - 1e-9).ceil().max(first as f64 + 1.0);
            let top = if vertical { end * step * size } else { high };
            let start = first as f64 * step * size;
            let last =
                if vertical { end as i64 } else { (high / size / step + 1e-9).floor() as i64 };
            let decimals = usize::try_from(-(libm::log10(step) + 1e-9).floor() as i64).unwrap_or(0);
            let ticks: Vec<(f64, String)> = (first..=last)
                .map(|k| (k as f64 * step, format!("{:.decimals$}", k as f64 * step)))
                .map(|(value, label)| ((value * size - start) / (top - start), label))
                .collect();
            let widest = ticks.iter().map(|(_, label)| room(label)).fold(0.0, f64::max);
            let gap = step * size / (top - start) * length;
            if gap >= widest || ticks.len() <= 2 {
                return Self { title, scale: Scale::Linear, low: start, high: top, ticks };
            }
            let wider = round_up(step * 1.5);
            if wider > (high - low) / size {
                // A wider step would leave a single tick, which does not show the scale, so these
                // ticks are kept although their labels are close.
                return Self { title, scale: Scale::Linear, low: start, high: top, ticks };
            }
            step = wider;
        }
    }

    /// Chooses ticks at the values, all or every second of them, if they have space; otherwise as
    /// [`Self::new`] does on a horizontal axis.
    pub(super) fn at_values(axis: &Axis, values: &[f64], length: f64, character: f64) -> Self {
        let round = Self::new(axis, values.iter().copied(), length, character, false);
        let (size, _) = axis.unit.step_for(round.high);
        let label = |value: f64| match axis.scale {
            Scale::Linear => plain(value / size),
            Scale::Log => axis.unit.exact(value),
        };
        let room = |label: &str| (label.chars().count() + 1) as f64 * character;
        let every = |n: usize| -> Vec<(f64, String)> {
            values.iter().step_by(n).map(|&value| (round.fraction(value), label(value))).collect()
        };
        let own = (1..=2).map(every).find(|ticks| ticks.len() > 1 && fit(ticks, length, &room));
        Self { ticks: own.unwrap_or_else(|| round.ticks.clone()), ..round }
    }

    /// Chooses ticks at powers of ten (of sizes in bytes: of two), then at 2 and 5 between them if
    /// there is space. If that leaves fewer than two ticks, chooses equal steps.
    fn log(axis: &Axis, low: f64, high: f64, length: f64, room: impl Fn(&str) -> f64) -> Self {
        let (low, high) = match high / low {
            ratio if ratio <= 1.0 => (low, low * 10.0),
            // Labels have four digits, so values that are closer together are drawn near the middle
            // of a wider range.
            ratio if ratio < NARROWEST => {
                (low * (ratio / NARROWEST).sqrt(), high * (NARROWEST / ratio).sqrt())
            }
            _ => (low, high),
        };
        let range = (libm::log10(low), libm::log10(high));
        let (first, last) = (range.0.floor() as i32, range.1.ceil() as i32);
        let fraction = |value: f64| (libm::log10(value) - range.0) / (range.1 - range.0);
        let in_range = |value: &f64| (-1e-9..=1.0 + 1e-9).contains(&fraction(*value));
        let candidates = |multiple: f64| -> Vec<f64> {
            if matches!(axis.unit, Unit::KiB | Unit::Bytes) {
                let powers = libm::log2(low).floor() as i32..=libm::log2(high).ceil() as i32;
                let sizes = powers
                    .filter(|_| multiple == 1.0)
                    .map(|power| libm::pow(2.0, f64::from(power)));
                return sizes.filter(in_range).collect();
            }
            let values = (first..=last)
                .map(|power| multiple * libm::pow(10.0, f64::from(power)))
                .filter(in_range);
            match axis.unit {
                // Shown are the percentiles at odds of powers of ten, and the median at 2. The 80th
                // and the 98th, at 5 and 50, are rarely wanted. Odds of 1 are the percentile below
                // all values.
                Unit::Odds => values.filter(|&v| v > 1.5 && (multiple == 1.0 || v < 5.0)).collect(),
                _ => values.collect(),
            }
        };
        let tick = |value: f64| (fraction(value), axis.unit.exact(value));
        let mut ticks = spaced(&candidates(1.0), length, tick, &room);
        for multiple in [2.0, 5.0] {
            let mut more = ticks.clone();
            more.extend(candidates(multiple).into_iter().map(tick));
            more.sort_by(|a, b| a.0.total_cmp(&b.0));
            // Either all ticks of a kind are shown or none: with ticks at 1, 2, 10 and 100 a tick
            // would seem to be missing.
            if fit(&more, length, &room) {
                ticks = more;
            }
        }
        if ticks.len() < 2 {
            let even = even(low, high, length, tick, &room);
            if even.len() > 1 {
                ticks = even;
            }
        }
        Self { title: axis.title.clone(), scale: Scale::Log, low, high, ticks }
    }

    /// Chooses one tick for each category, in the middle of its slot. Labels that would touch are
    /// omitted.
    pub(super) fn categories(axis: &Axis, categories: &[f64], length: f64) -> Self {
        let (size, unit) = axis.unit.step_for(categories.last().copied().unwrap_or(1.0));
        let title =
            if unit.is_empty() { axis.title.clone() } else { format!("{}, {unit}", axis.title) };
        let mut ticks = Vec::new();
        let mut free_from = f64::NEG_INFINITY;
        for (at, &value) in categories.iter().enumerate() {
            let fraction = (at as f64 + 0.5) / categories.len() as f64;
            let label = plain(value / size);
            let half = label.chars().count() as f64 * super::CHARACTER / 2.0;
            if fraction * length - half >= free_from {
                free_from = fraction * length + half + 5.0;
                ticks.push((fraction, label));
            }
        }
        Self { title, scale: Scale::Linear, low: 0.0, high: 1.0, ticks }
    }

    /// Returns the axis title with its unit.
    pub(super) fn title(&self) -> &str {
        &self.title
    }

    pub(super) fn labels(&self) -> impl Iterator<Item = &str> {
        self.ticks.iter().map(|(_, label)| label.as_str())
    }

    /// Yields (fraction of the length, label), ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (f64, &str)> {
        self.ticks.iter().map(|(at, label)| (*at, label.as_str()))
    }

    /// Returns the position of a value as a fraction of the length, 0 to 1.
    pub(super) fn fraction(&self, value: f64) -> f64 {
        let at = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => libm::log(value / self.low) / libm::log(self.high / self.low),
        };
        if at.is_finite() { at.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// Returns as many equal steps of 1, 2 or 5 times a power of ten within a range as have space; at
/// least two, if two have space.
fn even(
    low: f64,
    high: f64,
    length: f64,
    tick: impl Fn(f64) -> (f64, String),
    room: &impl Fn(&str) -> f64,
) -> Vec<(f64, String)> {
    let mut step = round_up((high - low) / 6.0);
    let mut outermost = Vec::new();
    loop {
        let (first, last) =
            ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
        let mut ticks: Vec<(f64, String)> = (first..=last).map(|k| tick(k as f64 * step)).collect();
        if ticks.len() < 2 {
            return outermost;
        }
        if fit(&ticks, length, room) {
            return ticks;
        }
        ticks.drain(1..ticks.len() - 1);
        if fit(&ticks, length, room) {
            outermost = ticks;
        }
        step = round_up(step * 1.5);
    }
}

/// Returns every n-th value, for the smallest n whose labels do not touch.
fn spaced(
    values: &[f64],
    length: f64,
    tick: impl Fn(f64) -> (f64, String),
    room: &impl Fn(&str) -> f64,
) -> Vec<(f64, String)> {
    let every = |n: usize| -> Vec<(f64, String)> {
        values.iter().step_by(n).map(|&value| tick(value)).collect()
    };
    (1..=values.len().max(1)).map(every).find(|ticks| fit(ticks, length, room)).unwrap_or_default()
}

/// Returns true if no two adjacent ticks touch.
fn fit(ticks: &[(f64, String)], length: f64, room: &impl Fn(&str) -> f64) -> bool {
    ticks
        .windows(2)
        .all(|pair| (pair[1].0 - pair[0].0) * length >= (room(&pair[0].1) + room(&pair[1].1)) / 2.0)
}

/// Returns the next number that is 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = libm::pow(10.0, libm::log10(value).floor());
    [1.0, 2.0, 5.0, 10.0]
        .iter()
        .map(|m| m * power)
        .find(|&round| round >= value * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}
