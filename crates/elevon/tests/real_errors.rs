//! Tests `elevon run` on a file system of this test, mounted by FUSE: errors of the file system
//! reach the report unchanged, and no flush is retried after it failed.

mod common;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use common::Bench;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyWrite, Request, WriteFlags,
};
use serde_json::Value;

const SIZE: usize = 4 << 20;
const FILE: INodeNo = INodeNo(2);

/// Errors that the file system makes, and counts of what it was asked.
#[derive(Clone, Copy, Default)]
struct Record {
    /// Number of the only fsync that fails, counted from 1.
    failing_fsync: Option<u32>,
    fsyncs: u32,
    /// The byte whose writes fail, and their errno.
    failing_byte: Option<(u64, i32)>,
}

/// A file system with one file, `file`, of [`SIZE`] bytes.
struct OneFile {
    record: Arc<Mutex<Record>>,
    content: Mutex<Vec<u8>>,
}

fn attributes(ino: INodeNo) -> FileAttr {
    let is_file = ino == FILE;
    FileAttr {
        ino,
        size: if is_file { SIZE as u64 } else { 0 },
        blocks: if is_file { SIZE as u64 / 512 } else { 0 },
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: if is_file { FileType::RegularFile } else { FileType::Directory },
        perm: 0o777,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

const LASTING: Duration = Duration::from_secs(3600);

impl Filesystem for OneFile {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "file" {
            reply.entry(&LASTING, &attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&LASTING, &attributes(ino));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let content = self.content.lock().expect("no thread panics with it");
        let first = SIZE.min(offset as usize);
        reply.data(&content[first..SIZE.min(first + size as usize)]);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let failing = self.record.lock().expect("no thread panics with it").failing_byte;
        let end = offset + data.len() as u64;
        match failing {
            Some((byte, errno)) if (offset..end).contains(&byte) => reply.error(Errno::from_i32(errno)),
            _ => {
                self.content.lock().expect("no thread panics with it")[offset as usize..end as usize]
                    .copy_from_slice(data);
                reply.written(data.len() as u32);
            }
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let mut record = self.record.lock().expect("no thread panics with it");
        record.fsyncs += 1;
        if record.failing_fsync == Some(record.fsyncs) { reply.error(Errno::EIO) } else { reply.ok() }
    }
}

/// A mounted file system; dropped, it is unmounted.
struct Mounted {
    record: Arc<Mutex<Record>>,
    file: PathBuf,
    // Dropped before the directory that it is mounted on.
    _session: BackgroundSession,
    _directory: tempfile::TempDir,
}

/// Mounts a file system that fails as `record` says. Returns `None` and prints a line if this
/// machine does not allow it.
fn mount(record: Record) -> Option<Mounted> {
    let directory = tempfile::tempdir().expect("a folder to mount on");
    let record = Arc::new(Mutex::new(record));
    let files = OneFile { record: Arc::clone(&record), content: Mutex::new(vec![0; SIZE]) };
    match fuser::spawn_mount(files, directory.path(), &Config::default()) {
        Ok(session) => {
            let file = directory.path().join("file");
            Some(Mounted { record, file, _session: session, _directory: directory })
        }
        Err(error) => {
            elevon_testkit::denied(&format!("no file system can be mounted by FUSE here: {error}"));
            None
        }
    }
}

/// The three ways to a real file: without page cache, through the kernel's page cache, and through
/// Elevon's.
const MODES: [(&str, &[&str]); 3] = [("direct=1", &[]), ("direct=0", &[]), ("direct=0", &["--cache", "1MiB"])];

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
        let Some(mounted) = mount(Record { failing_fsync: Some(3), ..Record::default() }) else { return };
        let job = format!("[a]\nioengine=psync\nrw=write\nbs=4k\nsize=1m\nfsync=16\n{direct}\n");
        let (status, report) = run(&mounted, &job, more);
        assert_eq!((status, errors(&report)), (Some(1), vec![5]), "{direct} {more:?}: {report}");
        assert_eq!(report["jobs"][0]["sync"]["total_ios"], 2, "{direct} {more:?}: two were told that all is durable");
        assert_eq!(report["elevon"]["counters"]["retries"], 0);
        let fsyncs = mounted.record.lock().expect("no thread panics with it").fsyncs;
        if more.is_empty() {
            assert_eq!(fsyncs, 3, "{direct}");
        } else {
            // There is one more fsync at the end of the run, for data that is then dirty. It
            // succeeds, but the data of the third fsync is lost all the same.
            assert_eq!(fsyncs, 4);
            assert!(warnings(&report).contains("the flush at the end failed"), "{}", warnings(&report));
        }
    }
}

#[test]
fn what_a_failed_flush_covered_is_not_told_durable_to_another_job() {
    for (direct, more) in MODES {
        let Some(mounted) = mount(Record { failing_fsync: Some(3), ..Record::default() }) else { return };
        let job =
            format!("[global]\nioengine=psync\nrw=write\nbs=4k\nsize=1m\nfsync=16\n{direct}\n[a]\n[b]\noffset=1m\n");
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
            let Some(mounted) = mount(Record { failing_byte: Some((100_000, errno)), ..Record::default() }) else {
                return;
            };
            let (status, report) = run(&mounted, &job(direct, ""), more);
            assert_eq!((status, errors(&report)), (Some(1), vec![i64::from(errno)]), "{direct} {more:?}");
        }
    }
    let Some(mounted) = mount(Record { failing_byte: Some((100_000, libc::EDQUOT)), ..Record::default() }) else {
        return;
    };
    for direct in ["direct=1", "direct=0"] {
        let (status, report) = run(&mounted, &job(direct, "ignore_error=,EDQUOT"), &[]);
        assert_eq!((status, errors(&report)), (Some(0), vec![0]), "{direct}");
        assert_eq!(report["jobs"][0]["write"]["total_ios"], 63, "{direct}: all but the one that failed");
    }
}
