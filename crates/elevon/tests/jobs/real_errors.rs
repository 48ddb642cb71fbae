//! Tests `elevon run` on a file system of this test, mounted by FUSE: errors of the file system
//! reach the report unchanged, and no flush is retried after it failed.

use crate::common::Bench;
use crate::common::one_file::{Mounted, Record, mount};
use serde_json::Value;

/// The three ways to a real file: without page cache, through the kernel's page cache, and through
/// Elevon's.
const MODES: [(&str, &[&str]); 3] =
    [("direct=1", &[]), ("direct=0", &[]), ("direct=0", &["--cache", "1MiB"])];

/// Runs a job on the mounted file. Returns the exit status and the JSON report.
fn run(mounted: &Mounted, job: &str, more: &[&str]) -> (Option<i32>, Value) {
    let bench = Bench::new();
    bench.file("job.fio", job);
    let device = mounted.file.display().to_string();
    let args = [&["run", "job.fio", "--device", &device, "--output-format", "json"], more].concat();
    let output = bench.elevon(&args).output().expect("the command ran");
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), report)
}

fn errors(report: &Value) -> Vec<i64> {
    let jobs = report["jobs"].as_array().expect("jobs");
    jobs.iter().map(|job| job["error"].as_i64().expect("a number")).collect()
}

fn warnings(report: &Value) -> String {
    report["elevon"]["warnings"].to_string()
}

#[test]
fn a_flush_that_failed_once_fails_the_job_and_is_not_asked_for_again() {
    for (direct, more) in MODES {
        let Some(mounted) = mount(Record { failing_fsync: Some(3), ..Record::default() }) else {
            return;
        };
        let job = format!("[a]\nioengine=psync\nrw=write\nbs=4k\nsize=1m\nfsync=16\n{direct}\n");
        let (status, report) = run(&mounted, &job, more);
        assert_eq!((status, errors(&report)), (Some(1), vec![5]), "{direct} {more:?}: {report}");
        assert_eq!(
            report["jobs"][0]["sync"]["total_ios"], 2,
            "{direct} {more:?}: two were told that all is durable"
        );
        assert_eq!(report["elevon"]["counters"]["retries"], 0);
        let fsyncs = mounted.record.lock().expect("no thread panics with it").fsyncs;
        if more.is_empty() {
            assert_eq!(fsyncs, 3, "{direct}");
        } else {
            // There is one more fsync at the end of the run, for data that is then dirty. It
            // succeeds, but the data of the third fsync is lost all the same.
            assert_eq!(fsyncs, 4);
            assert!(
                warnings(&report).contains("the flush at the end failed"),
                "{}",
                warnings(&report)
            );
        }
    }
}

#[test]
fn what_a_failed_flush_covered_is_not_told_durable_to_another_job() {
    for (direct, more) in MODES {
        let Some(mounted) = mount(Record { failing_fsync: Some(3), ..Record::default() }) else {
            return;
        };
        let job = format!(
            "[global]\nioengine=psync\nrw=write\nbs=4k\nsize=1m\nfsync=16\n{direct}\n[a]\n[b]\noffset=1m\n"
        );
        let (status, report) = run(&mounted, &job, more);
        assert_eq!((status, errors(&report)), (Some(1), vec![5, 5]), "{direct} {more:?}: {report}");
    }
}

#[test]
fn the_errno_of_a_write_reaches_the_report_and_ignore_error() {
    let job = |direct: &str, more: &str| {
        format!("[a]\nioengine=psync\nrw=write\nbs=4k\nsize=256k\nfsync=16\n{direct}\n{more}\n")
    };
    for errno in [libc::EDQUOT, libc::ENOSPC, libc::EFBIG, libc::EROFS, libc::EPERM] {
        for (direct, more) in MODES {
            let Some(mounted) =
                mount(Record { failing_byte: Some((100_000, errno)), ..Record::default() })
            else {
                return;
            };
            let (status, report) = run(&mounted, &job(direct, ""), more);
            assert_eq!(
                (status, errors(&report)),
                (Some(1), vec![i64::from(errno)]),
                "{direct} {more:?}"
            );
        }
    }
    let Some(mounted) =
        mount(Record { failing_byte: Some((100_000, libc::EDQUOT)), ..Record::default() })
    else {
        return;
    };
    for direct in ["direct=1", "direct=0"] {
        let (status, report) = run(&mounted, &job(direct, "ignore_error=,EDQUOT"), &[]);
        assert_eq!((status, errors(&report)), (Some(0), vec![0]), "{direct}");
        let job = &report["jobs"][0];
        assert_eq!(job["write"]["total_ios"], 63, "{direct}: all but the one that failed");
        assert_eq!(
            (&job["total_err"], &job["first_error"]),
            (&1.into(), &libc::EDQUOT.into()),
            "{direct}"
        );
    }
}
