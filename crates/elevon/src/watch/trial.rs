//! `--try`: a setting is tried on the real disk, and put back.

use std::fs;
use std::path::PathBuf;

use elevon_host::interrupt::Interrupt;
use elevon_plan::failure::{Ending, Failure, ValueError};
use elevon_result::number;
use elevon_trace::capture::Disk;
use elevon_watch::{DiskNow, GroupBy};

use super::source::Source;
use crate::args::WatchArgs;
use crate::terminal::{emit_text, tell};

/// Seconds after a change that are left out: what was queued before it is served.
const SETTLE: u16 = 2;
/// Standard errors on either side of a mean that hold it 95 times in 100.
const SIGMAS: f64 = 1.96;

/// What is tried.
pub(super) struct Trial {
    path: PathBuf,
    setting: String,
    value: String,
    before: String,
}

/// Checks what is to be tried on a disk.
///
/// # Errors
/// No or several disks, or no such file.
pub(super) fn plan(setting: &str, disks: &[Disk]) -> Result<Trial, Failure> {
    let bad = |expected: String| {
        Failure::named(format!("--try {setting}"), ValueError::expected(expected))
    };
    let (key, value) = setting
        .split_once('=')
        .filter(|(key, value)| !key.is_empty() && !value.is_empty())
        .ok_or_else(|| bad("FILE=VALUE, such as scheduler=bfq or nr_requests=128".to_owned()))?;
    let [disk] = disks else {
        return Err(bad(format!("one disk, not {}", disks.len())));
    };
    if key.contains("..") || key.starts_with('/') {
        return Err(bad("the name of a file in the queue folder of the disk".to_owned()));
    }
    let queue = PathBuf::from(format!("/sys/block/{}/queue", disk.name));
    let found = [queue.join(key), queue.join("iosched").join(key)];
    let path = found
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| bad(format!("a file of {0}, or of {0}/iosched", queue.display())))?;
    let text =
        fs::read_to_string(&path).map_err(|error| bad(format!("a file to read: {error}")))?;
    Ok(Trial {
        path,
        setting: setting.to_owned(),
        value: value.to_owned(),
        before: chosen(text.trim()).to_owned(),
    })
}

/// Returns the value in force: of a list the one in brackets.
fn chosen(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text, |(value, _)| value)
}

/// Puts the setting back when it is dropped.
struct PutBack<'a> {
    trial: &'a Trial,
    is_kept: bool,
}

impl Drop for PutBack<'_> {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        if let Err(error) = fs::write(&self.trial.path, &self.trial.before) {
            tell(&format!(
                "{}: cannot put {} back: {error}; write it there",
                self.trial.path.display(),
                self.trial.before
            ));
        }
    }
}

/// Watches before and after the change, and prints the comparison.
///
/// # Errors
/// A setting that the kernel refuses, and those of tracefs.
pub(super) fn run(
    trial: &Trial,
    source: &mut Source,
    interrupt: &Interrupt,
    args: &WatchArgs,
) -> Result<Ending, Failure> {
    tell(&format!("watching {} s with {}", args.time, trial.before));
    let Some(before) = seconds(source, interrupt, args.time)? else {
        return interrupted(interrupt);
    };
    fs::write(&trial.path, &trial.value).map_err(|error| {
        Failure::named(
            format!("--try {}", trial.setting),
            ValueError::expected(format!("a value that the kernel takes: {error}")),
        )
    })?;
    let mut put_back = PutBack { trial, is_kept: false };
    tell(&format!("watching {} s with {}", args.time, trial.setting));
    if seconds(source, interrupt, SETTLE)?.is_none() {
        return interrupted(interrupt);
    }
    let Some(after) = seconds(source, interrupt, args.time)? else { return interrupted(interrupt) };
    put_back.is_kept = args.keep;
    drop(put_back);
    let what = if args.keep { "kept" } else { "put back" };
    emit_text(&format!("{}{} is {what}\n", table(&before, &after), trial.setting))?;
    Ok(Ending::Done)
}

fn interrupted(interrupt: &Interrupt) -> Result<Ending, Failure> {
    Ok(interrupt.signal().map_or(Ending::Done, Ending::Interrupted))
}

/// Returns each of the next seconds; `None` if a signal came.
fn seconds(
    source: &mut Source,
    interrupt: &Interrupt,
    count: u16,
) -> Result<Option<Vec<DiskNow>>, Failure> {
    let mut all = Vec::new();
    while all.len() < usize::from(count) {
        if !source.wait_for_slice(interrupt)? {
            return Ok(None);
        }
        let now = source.now(1, GroupBy::Process);
        all.extend(now.disks.into_iter().next());
    }
    Ok(Some(all))
}

/// A figure of a second: its name, its value unless the second had nothing to tell, and its text.
type Figure = (&'static str, fn(&DiskNow) -> Option<f64>, fn(f64) -> String);

/// Returns the figures before and after, with the interval that holds the difference of the means
/// 95 times in 100, if seconds were independent of each other.
fn table(before: &[DiskNow], after: &[DiskNow]) -> String {
    let figures: [Figure; 8] = [
        ("reads/s", |now| Some(now.read.requests), number::count),
        ("writes/s", |now| Some(now.write.requests), number::count),
        ("read/s", |now| Some(now.read.bytes), number::bytes_decimal),
        ("written/s", |now| Some(now.write.bytes), number::bytes_decimal),
        ("waiting p50", |now| now.waiting[0].map(|ns| ns as f64), number::span),
        ("waiting p99", |now| now.waiting[1].map(|ns| ns as f64), number::span),
        ("in the device p50", |now| now.in_device[0].map(|ns| ns as f64), number::span),
        ("in the device p99", |now| now.in_device[1].map(|ns| ns as f64), number::span),
    ];
    let mut text = format!("{:<18} {:>10} {:>10}  {}\n", "", "before", "after", "change, 95 %");
    for (name, of, show) in figures {
        let values = |of_all: &[DiskNow]| of_all.iter().filter_map(of).collect::<Vec<f64>>();
        let (old, new) = (mean(&values(before)), mean(&values(after)));
        let (Some(old), Some(new)) = (old, new) else { continue };
        if old.mean == 0.0 && new.mean == 0.0 {
            continue;
        }
        let change = if old.mean > 0.0 {
            let difference = 100.0 * (new.mean / old.mean - 1.0);
            let error = SIGMAS * libm::hypot(old.error, new.error);
            format!("{difference:+.1} % (+-{:.1})", 100.0 * error / old.mean)
        } else {
            "-".to_owned()
        };
        text.push_str(&format!(
            "{name:<18} {:>10} {:>10}  {change}\n",
            show(old.mean),
            show(new.mean)
        ));
    }
    text
}

/// A mean with its standard error.
struct Mean {
    mean: f64,
    error: f64,
}

fn mean(values: &[f64]) -> Option<Mean> {
    let count = values.len() as f64;
    if values.is_empty() {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let variance = if values.len() > 1 { squares / (count - 1.0) } else { 0.0 };
    Some(Mean { mean, error: libm::sqrt(variance / count) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_in_force_is_the_one_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] bfq"), "mq-deadline");
        assert_eq!(chosen("128"), "128");
    }

    #[test]
    fn a_mean_has_the_error_of_its_seconds() {
        let found = mean(&[9.0, 11.0, 10.0, 10.0]).expect("values");
        assert!((found.mean - 10.0).abs() < 1e-9);
        assert!((found.error - 0.408_248).abs() < 1e-5, "{}", found.error);
        assert!(mean(&[]).is_none());
    }
}
