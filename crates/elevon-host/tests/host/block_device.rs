//! Tests jobs through the cache on a block device: a loop device over a file, if this machine
//! allows it (root, and losetup).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use elevon_cache::page_cache::WriteMode;
use elevon_core::status::Status;
use elevon_host::{HostFile, Method, OpenError, OpenOptions};
use elevon_workload::run::NoObserver;

use crate::common::{LARGE, METHODS, SIZE, SMALL, config, host, quick_directory, run_job};

/// A loop device; dropped, it is detached.
struct Loop {
    device: PathBuf,
    file: PathBuf,
    _directory: tempfile::TempDir,
}

impl Loop {
    /// Returns `None` and prints a line if there can be no loop device.
    fn new(block: u32) -> Option<Self> {
        let directory = quick_directory();
        let file = directory.path().join("disk");
        std::fs::write(&file, vec![0xa5; SIZE as usize]).expect("a file");
        let made = elevon_testkit::tool("losetup")?
            .args(["--find", "--show", "--sector-size", &block.to_string()])
            .arg(&file)
            .output()
            .expect("losetup starts");
        if !made.status.success() {
            let why = String::from_utf8_lossy(&made.stderr).trim().to_owned();
            elevon_testkit::denied(&format!("no loop device here: {why}"));
            return None;
        }
        let device = PathBuf::from(String::from_utf8_lossy(&made.stdout).trim());
        Some(Self { device, file, _directory: directory })
    }

    /// Returns the discards that the device completed, and their sectors: two fields of its `stat`
    /// in sysfs.
    fn discards(&self) -> (u64, u64) {
        let folder =
            Path::new("/sys/block").join(self.device.file_name().expect("a device has a name"));
        // A loop device does not count by default.
        std::fs::write(folder.join("queue/iostats"), "1")
            .expect("whoever makes a loop device may set it up");
        let stat = std::fs::read_to_string(folder.join("stat")).expect("the device's statistics");
        let fields: Vec<u64> =
            stat.split_whitespace().map(|field| field.parse().expect("a number")).collect();
        (fields[11], fields[13])
    }

    /// Returns the content of the file under the device.
    fn content(&self) -> Vec<u8> {
        std::fs::read(&self.file).expect("the file under the device")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

fn open(path: &Path, write: bool) -> Result<HostFile, OpenError> {
    HostFile::open(path, OpenOptions { write, direct: true, grow_to: 0, fill: false })
}

#[test]
fn every_byte_arrives_on_a_block_device() {
    let text = "[job]\nioengine=psync\nrw=randwrite\nbsrange=512-96k\nbs_unaligned\nblockalign=512\nsize=6m\nio_size=6m\n\
                norandommap\nverify=crc32c\nverify_interval=512\nfsync=40\n[map]\nstonewall\nioengine=mmap\nrw=write\n\
                bs=1536\noffset=7m\nsize=1000k\nverify=crc32c\n";
    for block in [512, 4096] {
        let Some(disk) = Loop::new(block) else { return };
        for method in METHODS {
            for (memory, mode) in
                [(LARGE, WriteMode::Back), (SMALL, WriteMode::Back), (SMALL, WriteMode::Through)]
            {
                let Some(mut host) = host(&disk.device, method, memory) else { continue };
                let (limits, size) = (host.file().limits.clone(), host.file().size);
                assert_eq!((limits.logical_block_size, size.bytes().get()), (block, SIZE));
                assert!(host.file().is_block_device && host.file().is_direct);
                let config = config(memory, mode, true);
                let (outcome, cached) =
                    run_job(text, &limits, size, config, &mut host, &mut NoObserver);
                for job in &outcome.jobs {
                    let about = format!("{block} {method:?} {memory} {mode:?} {}", job.name);
                    assert_eq!((job.stats.error, job.stats.verify_errors), (0, 0), "{about}");
                    assert!(
                        job.stats.verified_bytes > 500_000,
                        "{about}: {}",
                        job.stats.verified_bytes
                    );
                }
                assert_eq!((cached.last_status(), cached.unwritten()), (Status::Ok, (0, 0)));
                drop(host);
                let content = disk.content();
                assert!(
                    content[6 << 20..7 << 20].iter().all(|&byte| byte == 0xa5),
                    "between the jobs"
                );
                assert!(
                    content[(7 << 20) + 1000 * 1024..].iter().all(|&byte| byte == 0xa5),
                    "behind them"
                );
            }
        }
    }
}

/// A trim is a discard, and not zeroing with unmap, which the kernel counts as writes.
#[test]
fn a_trim_of_a_block_device_is_a_discard() {
    let text = "[job]\nioengine=libaio\niodepth=4\ndirect=1\nrw=trim\nbs=64k\nsize=1m\noffset=2m\n\
                [cached]\nioengine=psync\nrw=read\nbs=4k\nsize=64k\n";
    let Some(disk) = Loop::new(512) else { return };
    for (round, method) in METHODS.into_iter().enumerate() {
        std::fs::write(&disk.file, vec![0xa5; SIZE as usize]).expect("a file");
        let Some(mut host) = host(&disk.device, method, SMALL) else { continue };
        let (limits, size) = (host.file().limits.clone(), host.file().size);
        assert!(limits.max_hw_discard_sectors.get() > 0, "a loop device over a file discards");
        let (discards, sectors) = disk.discards();
        let config = config(SMALL, WriteMode::Back, true);
        let (outcome, _) = run_job(text, &limits, size, config, &mut host, &mut NoObserver);
        let trims = outcome.jobs[0].stats.directions[2].ios;
        assert_eq!((outcome.jobs[0].stats.error, trims), (0, 16), "{method:?}");
        let after = disk.discards();
        assert!(after.0 > discards, "{method:?}, round {round}: no discard reached the device");
        assert_eq!(after.1 - sectors, 2048, "{method:?}");
        drop(host);
        let hole = 2 << 20..3 << 20;
        let content = disk.content();
        assert!(
            content
                .iter()
                .enumerate()
                .all(|(at, byte)| *byte == if hole.contains(&at) { 0 } else { 0xa5 })
        );
    }
}

#[test]
fn a_device_that_is_held_is_not_written_to() {
    let Some(disk) = Loop::new(512) else { return };
    let first = open(&disk.device, true).expect("nobody holds it");
    let error = open(&disk.device, true).expect_err("it is held");
    assert!(
        matches!(error, OpenError::Busy { .. }) && error.to_string().contains("mounted"),
        "{error}"
    );
    open(&disk.device, false).expect("reading is harmless");
    drop(first);
    // While another test starts a program, that process has a copy of each descriptor until it
    // executes the program, on a busy machine for long.
    let began = Instant::now();
    while let Err(error) = open(&disk.device, true) {
        assert!(matches!(error, OpenError::Busy { .. }), "{error}");
        assert!(began.elapsed() < Duration::from_secs(10), "nobody holds it any more");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_file_whose_end_fills_no_block_keeps_its_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("odd");
    let old: Vec<u8> = (0..10_000_u32).map(|at| (at % 249) as u8).collect();
    std::fs::write(&path, &old).expect("a file");
    let file = open(&path, true).expect("a file");
    let block = file.limits.logical_block_size as usize;
    let end = old.len() / block * block;
    assert!(
        file.notes.iter().any(|note| note.contains(&format!("last {} bytes", old.len() - end))),
        "{:?}",
        file.notes
    );
    let mut host = elevon_host::Host::new(file, 8, Some(Method::Threads), Default::default())
        .expect("threads");
    host.reserve_frames(elevon_core::units::Bytes::new(SMALL)).expect("memory");
    let (limits, size) = (host.file().limits.clone(), host.file().size);
    let text = "[a]\nioengine=psync\nrw=write\nbs=512\nbuffer_pattern=0x11\n";
    let (outcome, cached) = run_job(
        text,
        &limits,
        size,
        config(SMALL, WriteMode::Back, true),
        &mut host,
        &mut NoObserver,
    );
    assert_eq!((outcome.jobs[0].stats.error, cached.last_status()), (0, Status::Ok));
    let new = std::fs::read(&path).expect("the file");
    assert_eq!(new.len(), old.len());
    assert!(new[..end].iter().all(|&byte| byte == 0x11) && new[end..] == old[end..]);
}
