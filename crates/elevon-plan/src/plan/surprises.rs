//! Warnings about a simulated run that the user may not expect.

use std::path::Path;

use elevon_core::units::Bytes;
use elevon_formats::fio::spec::JobSpec;
use elevon_workload::logs::LogEntry;
use elevon_workload::region::{self, Placement};

/// From this number of I/Os (about half a minute of wall-clock time) on, the user is warned of a
/// simulated job that has no limit of its own.
const MANY_IOS: u64 = 50_000_000;

/// Returns warnings about a simulated run that the user may not expect.
pub(super) fn surprises(jobs: &[JobSpec], device: &str, device_bytes: Bytes) -> Vec<String> {
    let mut lines = Vec::new();
    if Path::new(device).exists() {
        lines.push(format!(
            "--device {device} is the simulated device, not the file of that name; write ./{device} for the file"
        ));
    }
    let mut placement = Placement::new(device_bytes, None, 512);
    for job in jobs {
        let name = &job.name;
        let bytes = placement.place(job, 0, 0).map_or(0, |extent| extent.bytes.get());
        let ios = bytes.saturating_mul(job.timing.loops) / region::largest_block(job).max(1);
        let ios = ios.saturating_mul(u64::from(job.numjobs));
        if job.timing.runtime.is_zero() && job.timing.number_ios.is_none() && ios >= MANY_IOS {
            let (million, gb) =
                (ios / 1_000_000, bytes.saturating_mul(job.timing.loops) / 1_000_000_000);
            let what = if job.space.size.is_some() {
                "size= asks for"
            } else {
                "without size= the job goes over the whole device:"
            };
            lines.push(format!(
                "{name}: {what} {gb} GB, {million} million I/Os, which takes {}; runtime= ends it sooner",
                wall_time(ios)
            ));
        }
        let logged = job
            .timing
            .number_ios
            .map_or(ios, |most| ios.min(most.saturating_mul(u64::from(job.numjobs))));
        lines.extend(log_memory(job, logged));
        if job.verify.method.is_some() {
            lines.push(format!(
                "{name}: a simulated device keeps no data: verify= costs its reads, but nothing is compared"
            ));
        }
    }
    lines
}

/// Simulated I/Os per second of wall-clock time, by order of magnitude.
const IOS_A_SECOND: u64 = 1_000_000;

/// Returns the approximate wall-clock time of `ios` simulated I/Os.
fn wall_time(ios: u64) -> String {
    match ios / IOS_A_SECOND {
        0..=5_399 => "minutes".to_owned(),
        seconds @ 5_400..=129_599 => format!("about {} hours", seconds.div_ceil(3_600)),
        seconds => format!("about {} days", seconds.div_ceil(86_400)),
    }
}

/// Bytes that a log keeps in memory per I/O until the end of the run.
const LOG_ENTRY: u64 = size_of::<LogEntry>() as u64;
/// From this size of logs on, the user is warned.
const MUCH_LOG: u64 = 1 << 30;

/// Returns a warning about logs with a line per I/O, which are kept in memory until the end of the
/// run.
fn log_memory(job: &JobSpec, ios: u64) -> Option<String> {
    let logs = &job.logs;
    let kept = [logs.bandwidth.is_some(), logs.iops.is_some()].iter().filter(|is| **is).count()
        as u64
        + if logs.latency.is_some() { 2 + u64::from(job.engine.asynchronous) } else { 0 };
    let bytes = ios.saturating_mul(kept).saturating_mul(LOG_ENTRY);
    (logs.average_ms == 0 && bytes >= MUCH_LOG).then(|| {
        format!(
            "{}: its logs have a line for each of up to {} million I/Os, and stay in memory until the run is over: up to {} GiB; \
             log_avg_msec= keeps a line a window",
            job.name,
            ios / 1_000_000,
            bytes >> 30
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_days_is_not_said_to_take_minutes() {
        let texts = [60, 7_200, 256_000].map(|seconds| wall_time(seconds * IOS_A_SECOND));
        assert_eq!(texts, ["minutes", "about 2 hours", "about 3 days"]);
    }

    #[test]
    fn logs_that_want_much_memory_are_told_of() {
        let mut job = JobSpec::default_job("a");
        assert_eq!(log_memory(&job, 100_000_000), None, "no log");
        job.logs.latency = Some("l".into());
        assert_eq!(log_memory(&job, 1_000_000), None, "a few megabytes");
        let line = log_memory(&job, 100_000_000).expect("gigabytes");
        assert!(line.contains("100 million") && line.contains("GiB"), "{line}");
        job.logs.average_ms = 1000;
        assert_eq!(log_memory(&job, 100_000_000), None, "a line a second");
    }
}
