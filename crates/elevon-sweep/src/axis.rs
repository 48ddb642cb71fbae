//! What a sweep varies: `KEY=VALUES`.

use std::collections::BTreeMap;

use elevon_formats::fio::options;
use elevon_plan::options::StackOptions;
use elevon_plan::setting;

use crate::error::SweepError;

/// Maximum number of values of an axis.
const MAX_VALUES: usize = 100_000;

/// Options of the stack that may vary, by their names on the command line.
const OPTIONS: [&str; 8] =
    ["device", "scheduler", "kernel", "buffers", "cpu-cost", "memory", "fault", "tenants"];

/// Where the value of an axis goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// An option of the stack: `--KEY VALUE`.
    Stack,
    /// A queue setting: `--set KEY=VALUE`.
    Setting,
    /// An option of jobs: `--job-option KEY=VALUE`.
    Job,
}

/// One thing that varies, with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The key as it was given: `iodepth`, `reader:bs`, `scheduler`, `nr_requests`.
    pub(crate) key: String,
    target: Target,
    pub(crate) values: Values,
}

/// The values of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Values {
    /// Each of these.
    List(Vec<String>),
    /// Every whole number of a range, of which a sample takes some.
    Range {
        /// Smallest and largest number.
        ends: (u64, u64),
        /// Factor of the unit in which they were given.
        unit: u64,
    },
}

impl Axis {
    /// Parses `KEY=VALUES`.
    pub(crate) fn parse(text: &str) -> Result<Self, SweepError> {
        let bad = |why: String| SweepError::Axis { text: text.to_owned(), why };
        let (key, values) = text
            .split_once('=')
            .filter(|(key, values)| !key.is_empty() && !values.is_empty())
            .ok_or_else(|| {
                bad("must be KEY=VALUES, such as iodepth=1..256:*2 or scheduler=none,bfq"
                    .to_owned())
            })?;
        Self::new(key.trim(), values_of(values.trim()).map_err(bad)?).map_err(bad)
    }

    /// Returns an axis with these values, each as it stands.
    pub(crate) fn of_list(key: &str, values: Vec<String>) -> Result<Self, SweepError> {
        let bad = |why: String| SweepError::Axis { text: key.to_owned(), why };
        if values.is_empty() {
            return Err(bad("has no values; must have one or more".to_owned()));
        }
        Self::new(key, Values::List(values)).map_err(bad)
    }

    /// Returns an axis whose values are only names, such as those of variants.
    pub fn of_names(key: &str, names: Vec<String>) -> Self {
        Self { key: key.to_owned(), target: Target::Stack, values: Values::List(names) }
    }

    fn new(key: &str, values: Values) -> Result<Self, String> {
        let target = target_of(key)?;
        // 4k is 4096 where a value is a number; 6.1 and 6.10 are two kernels.
        let number = |value: &String| numeric(value).filter(|_| target != Target::Stack);
        if let Values::List(list) = &values {
            let mut seen = BTreeMap::new();
            for value in list {
                let form = number(value).map_or_else(|| value.clone(), |number| number.to_string());
                if let Some(first) = seen.insert(form, value) {
                    let same = if first == value {
                        String::new()
                    } else {
                        format!(", as {first} and {value}")
                    };
                    return Err(format!("has the value {first} twice{same}; must have it once"));
                }
            }
        }
        Ok(Self { key: key.to_owned(), target, values })
    }

    /// Returns true if a key is that of this axis: the same, or another name of the same option of
    /// the same jobs.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.key == key || self.target == Target::Job && canonical(&self.key) == canonical(key)
    }

    /// Returns the words of a command line for a value.
    pub(crate) fn words(&self, value: &str) -> [String; 2] {
        match self.target {
            Target::Stack => [format!("--{}", self.key), value.to_owned()],
            Target::Setting => ["--set".to_owned(), format!("{}={value}", self.key)],
            Target::Job => ["--job-option".to_owned(), format!("{}={value}", self.key)],
        }
    }

    /// Returns the words that begin what is said of an option of a job that has this value; `None`
    /// for others.
    pub(crate) fn place(&self, value: &str) -> Option<String> {
        (self.target == Target::Job).then(|| format!("{}: ", self.words(value).join(" ")))
    }

    /// Returns a text in which the value of an option or a setting stands for all: `nr_requests=36`
    /// is `nr_requests=...`.
    pub(crate) fn without(&self, value: &str, text: &str) -> String {
        if self.target == Target::Stack {
            return text.to_owned();
        }
        let is_part = |rest: &str| {
            rest.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        };
        let given = format!("={value}");
        let mut parts = text.split(&given).peekable();
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            // 36 is no part of 360, nor of 3.6.
            out += if is_part(part) { &given } else { "=..." };
            out += part;
        }
        out
    }

    /// Returns what `base` gives for this axis, and its values would replace.
    pub(crate) fn given_in(&self, base: &StackOptions) -> Option<String> {
        let is_own = |text: &&String| {
            self.has_key(text.split_once('=').map_or(text.as_str(), |(key, _)| key).trim())
        };
        match self.target {
            Target::Setting => {
                base.queue.set.iter().find(is_own).map(|text| format!("--set {text}"))
            }
            Target::Job => base
                .of_jobs
                .job_option
                .iter()
                .find(is_own)
                .map(|text| format!("--job-option {text}")),
            Target::Stack => {
                let value = base.value_of(&self.key)?;
                let is_given = StackOptions::default()
                    .value_of(&self.key)
                    .is_none_or(|default| default != value);
                is_given.then(|| format!("--{} {value}", self.key))
            }
        }
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        match &self.values {
            Values::List(values) => values.len(),
            Values::Range { ends, .. } => {
                usize::try_from(ends.1 - ends.0).unwrap_or(usize::MAX).saturating_add(1)
            }
        }
    }

    /// Returns a value by its index.
    pub(crate) fn value(&self, at: usize) -> String {
        match &self.values {
            Values::List(values) => values[at].clone(),
            Values::Range { ends, unit } => number(ends.0 + at as u64, *unit),
        }
    }

    /// Returns the index of a value.
    pub(crate) fn index_of(&self, value: &str) -> Option<usize> {
        match &self.values {
            Values::List(values) => values.iter().position(|own| own == value),
            Values::Range { ends, .. } => {
                let (number, _) =
                    scaled(value).filter(|(number, _)| (ends.0..=ends.1).contains(number))?;
                usize::try_from(number - ends.0).ok().filter(|&at| self.value(at) == value)
            }
        }
    }

    /// Returns true if its values are numbers, of which some have a unit of sizes: 4k.
    pub(crate) fn is_of_sizes(&self) -> bool {
        match &self.values {
            Values::Range { unit, .. } => *unit > 1,
            Values::List(values) => {
                self.is_numeric() && values.iter().any(|value| value.parse::<f64>().is_err())
            }
        }
    }

    /// Returns the values, or some of many, as a message has them.
    pub(crate) fn in_words(&self) -> String {
        const MAX_VALUES_SHOWN: usize = 20;
        if let Values::Range { .. } = self.values {
            return format!("{} to {}", self.value(0), self.value(self.len() - 1));
        }
        let some: Vec<String> =
            (0..self.len().min(MAX_VALUES_SHOWN)).map(|at| self.value(at)).collect();
        let more = if self.len() > MAX_VALUES_SHOWN {
            format!(" and {} more", self.len() - MAX_VALUES_SHOWN)
        } else {
            String::new()
        };
        some.join(", ") + &more
    }

    /// Returns true if all values are numbers: 7.3 is the name of a kernel.
    pub(crate) fn is_numeric(&self) -> bool {
        match &self.values {
            _ if self.target == Target::Stack && self.key != "memory" => false,
            Values::List(values) => values.iter().all(|value| numeric(value).is_some()),
            Values::Range { .. } => true,
        }
    }
}

/// Returns a value as a number: `16`, `4k`, `0.5`.
pub(crate) fn numeric(value: &str) -> Option<f64> {
    value.parse::<f64>().ok().filter(|number| number.is_finite()).or_else(|| {
        let (number, unit) = scaled(value)?;
        Some(number as f64 * unit as f64)
    })
}

/// Returns the name of the job, if the key has one, and the main name of its option.
fn canonical(key: &str) -> (Option<&str>, &str) {
    let (job, option) =
        key.rsplit_once(':').map_or((None, key), |(job, option)| (Some(job.trim()), option.trim()));
    (job, options::find(option).map_or(option, |row| row.name))
}

fn target_of(key: &str) -> Result<Target, String> {
    let option = key.rsplit(':').next().unwrap_or(key);
    if OPTIONS.contains(&key) {
        return Ok(Target::Stack);
    }
    if setting::keys().any(|known| known == key) {
        return Ok(Target::Setting);
    }
    if options::find(option).is_some() {
        return Ok(Target::Job);
    }
    if matches!(key, "seed" | "seeds") {
        return Err("must be --seeds N, which runs each combination under N seeds".to_owned());
    }
    let near = elevon_core::nearest::nearest(key, OPTIONS.into_iter().chain(setting::keys()))
        .or_else(|| options::nearest(option));
    let meant = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
    Err(format!(
        "{meant}must be an option of a job, a key of --set, or one of {}",
        OPTIONS.join(", ")
    ))
}

/// Parses `1..256:*2`, `1..10:+3`, `1..10`, or a list: separated by semicolons if there are any, of
/// which one may end it, else by commas.
fn values_of(text: &str) -> Result<Values, String> {
    if let Some(range) = range(text)? {
        return Ok(range);
    }
    let separator = if text.contains(';') { ';' } else { ',' };
    let text = text.strip_suffix(';').unwrap_or(text);
    let list: Vec<String> = text.split(separator).map(|value| value.trim().to_owned()).collect();
    if list.iter().any(String::is_empty) {
        return Err(format!("has an empty value between two `{separator}`; must have none"));
    }
    Ok(Values::List(list))
}

fn range(text: &str) -> Result<Option<Values>, String> {
    let Some((first, rest)) = text.split_once("..") else { return Ok(None) };
    let Some((low, unit)) = scaled(first) else { return Ok(None) };
    let (last, step) = rest.split_once(':').map_or((rest, None), |(last, step)| (last, Some(step)));
    let (high, unit_of_last) =
        scaled(last).ok_or_else(|| format!("`{last}` is no number; must be as in 1..256:*2"))?;
    let overflow = || "is out of range; must be below 2^63".to_owned();
    let low = low.checked_mul(unit).ok_or_else(overflow)?;
    let high =
        high.checked_mul(unit_of_last).filter(|&high| high < 1 << 63).ok_or_else(overflow)?;
    if low > high {
        return Err(format!("goes from {first} down to {last}; must go up"));
    }
    let unit = unit.min(unit_of_last);
    let Some(step) = step else {
        return Ok(Some(Values::Range { ends: (low / unit, high / unit), unit }));
    };
    let steps = "must be :+STEP or :*FACTOR, such as 1..256:*2";
    let next: Box<dyn Fn(u64) -> Option<u64>> = match (step.split_at_checked(1), step) {
        (Some(("*", by)), _) => {
            let by = by.parse().ok().filter(|&by: &u64| by > 1).ok_or(steps)?;
            Box::new(move |value: u64| value.checked_mul(by).filter(|_| value > 0))
        }
        (Some(("+", by)), _) => {
            let (by, unit) = scaled(by).filter(|&(by, _)| by > 0).ok_or(steps)?;
            let by = by.checked_mul(unit).ok_or_else(overflow)?;
            Box::new(move |value: u64| value.checked_add(by))
        }
        _ => return Err(steps.to_owned()),
    };
    let numbers =
        std::iter::successors(Some(low), |&value| next(value)).take_while(|&value| value <= high);
    let values: Vec<String> =
        numbers.take(MAX_VALUES + 1).map(|value| number(value / unit, unit)).collect();
    if values.len() > MAX_VALUES {
        return Err(format!("has more than {MAX_VALUES} values; must have fewer"));
    }
    Ok(Some(Values::List(values)))
}

/// The units of sizes, as fio has them.
const UNITS: [(&str, u64); 4] = [("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30), ("t", 1 << 40)];

/// Parses a whole number with a unit of sizes; returns both.
fn scaled(text: &str) -> Option<(u64, u64)> {
    let text = text.trim().to_ascii_lowercase();
    let (digits, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))
        .unwrap_or((text.as_str(), 1));
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((digits.parse().ok().filter(|_| is_number)?, unit))
}

/// Returns a number of units as text: 4 and 1024 are `4k`.
fn number(count: u64, unit: u64) -> String {
    let name = UNITS.iter().find(|(_, own)| *own == unit).map_or("", |(name, _)| name);
    format!("{count}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        let axis = Axis::parse(text).unwrap_or_else(|error| panic!("{error}"));
        (0..axis.len()).map(|at| axis.value(at)).collect()
    }

    #[test]
    fn ranges_and_lists() {
        assert_eq!(values("iodepth=1..256:*2").len(), 9);
        assert_eq!(values("iodepth=1..9:+4"), ["1", "5", "9"]);
        assert_eq!(values("iodepth=3..5"), ["3", "4", "5"]);
        assert_eq!(values("bs=4k..64k:*4"), ["4k", "16k", "64k"]);
        assert_eq!(values("bs=512k..2m:+512k"), ["512k", "1024k", "1536k", "2048k"]);
        assert_eq!(values("scheduler=none,bfq"), ["none", "bfq"]);
        assert_eq!(values("kernel=6.1,6.10"), ["6.1", "6.10"], "names, not numbers");
        assert!(!Axis::parse("kernel=6.1,6.10").expect("an axis").is_numeric());
        // The values of a range are counted, not made.
        let range = Axis::parse("randseed=1..9000000000000000000").expect("an axis");
        assert!(range.is_numeric());
        assert_eq!(
            ["1", "8999999999999999999", "0", "01"]
                .map(|value| range.index_of(value))
                .map(|at| at.map(|at| at as u64)),
            [Some(0), Some(8_999_999_999_999_999_998), None, None]
        );
        assert_eq!(
            values("scheduler=bfq:slice_idle=0,low_latency=0;"),
            ["bfq:slice_idle=0,low_latency=0"]
        );
        assert_eq!(
            values("scheduler=none;bfq:slice_idle=0,low_latency=0"),
            ["none", "bfq:slice_idle=0,low_latency=0"]
        );
    }

    #[test]
    fn a_key_decides_where_a_value_goes() {
        let words =
            |text: &str, value: &str| Axis::parse(text).expect("an axis").words(value).join(" ");
        assert_eq!(words("reader:bs=4k,8k", "8k"), "--job-option reader:bs=8k");
        assert_eq!(words("nr_requests=32,64", "32"), "--set nr_requests=32");
        assert_eq!(words("kernel=6.1,7.3", "6.1"), "--kernel 6.1");
    }

    #[test]
    fn an_option_is_one_by_all_its_names() {
        let axis = |text: &str| Axis::parse(text).expect("an axis");
        assert!(
            axis("bs=4k,8k").has_key("blocksize")
                && axis("reader:bs=4k,8k").has_key("reader:blocksize")
        );
        assert!(!axis("bs=4k,8k").has_key("reader:bs") && !axis("iodepth=1,2").has_key("bs"));
    }

    /// A key means one thing: no setting has the name of an option of jobs or of the stack.
    #[test]
    fn keys_are_unambiguous() {
        for key in setting::keys() {
            assert!(options::find(key).is_none() && !OPTIONS.contains(&key), "{key}");
        }
    }

    #[test]
    fn a_bad_axis_says_what_would_be_right() {
        for (text, part) in [
            ("iodepht=1,2", "did you mean iodepth?"),
            ("seed=1,2", "must be --seeds N"),
            ("iodepth", "must be KEY=VALUES"),
            ("iodepth=1,,2", "empty value"),
            ("iodepth=8..1", "must go up"),
            ("iodepth=1..8:2", "must be :+STEP or :*FACTOR"),
            ("iodepth=1..8:*1", "must be :+STEP or :*FACTOR"),
            ("iodepth=1..x", "is no number"),
            ("iodepth=1,1", "has the value 1 twice; must"),
            ("bs=4k,8k,4096", "has the value 4k twice, as 4k and 4096; must"),
            ("size=0..9000000000000000000:+1", "more than 100000 values"),
            ("size=1..99999999999t", "out of range"),
        ] {
            let error = Axis::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert_eq!(values("iodepth=0..4:*2"), ["0"], "a factor leads nowhere from 0");
    }
}
