//! Tests trims of several ranges (`num_range`), in simulation and on a real file. fio 3.33 has no
//! such option, so what is held here is its manual: an I/O trims N ranges of `bs` bytes.

use crate::common::Bench;
use serde_json::Value;

const JOB: &str = "[a]\nioengine=io_uring_cmd\niodepth=4\nrw=randtrim\nbs=4k\nsize=1m\nnum_range=16\ndirect=1\nwrite_lat_log=a\n";

/// Discards completed, among the numbers of `/sys/block/X/stat`.
const DISCARDS: usize = 11;

fn figure(report: &Value, key: &str) -> u64 {
    report["jobs"][0]["trim"][key].as_u64().expect("a figure")
}

/// Returns the trims that the job counts, their bytes, and the requests of the device.
fn counts(report: &Value) -> (u64, u64, u64) {
    let requests = report["elevon"]["diskstats"]["end"][DISCARDS].as_u64().expect("a count");
    (figure(report, "total_ios"), figure(report, "io_bytes"), requests)
}

#[test]
fn ranges_of_a_trim_are_one_request_where_the_device_takes_so_many() {
    let bench = Bench::new();
    bench.file("job.fio", JOB);
    for (set, requests) in [("256", 16), ("16", 16), ("5", 64), ("1", 256)] {
        let set = format!("max_discard_segments={set}");
        // Writeback throttling would hold discards back one by one.
        let args = ["--device", "qemu-nvme", "--set", &set, "--set", "wbt_lat_usec=0"];
        let report = bench.json("job.fio", &args);
        let (trims, bytes, seen) = counts(&report);
        assert_eq!((trims, bytes), (16, 1 << 20), "{set}");
        // Two ranges that happen to follow each other are one.
        assert!((requests - requests / 8..=requests).contains(&seen), "{set}: {seen}");
        let log = std::fs::read_to_string(bench.path("a_lat.1.log")).expect("the log");
        assert!(
            log.lines().count() == 16 && log.lines().all(|line| line.contains(", 2, 65536, ")),
            "{log}"
        );
    }
    // Sequential ranges are one range.
    bench.file("job.fio", JOB.replace("randtrim", "trim"));
    assert_eq!(counts(&bench.json("job.fio", &["--device", "sata-ssd-860evo"])), (16, 1 << 20, 16));
}

#[test]
fn every_end_of_a_job_is_a_whole_trim() {
    let bench = Bench::new();
    for (more, ios, bytes) in [
        ("number_ios=3", 3, 3 << 16),
        ("size=100k", 2, 100 << 10),
        ("loops=2", 32, 2 << 20),
        ("bsrange=4k-16k\nnorandommap", 7, 1 << 20),
        ("rate_iops=,,100\nnumber_ios=5", 5, 5 << 16),
    ] {
        bench.file("job.fio", format!("{JOB}{more}\n"));
        let (trims, moved, _) = counts(&bench.json("job.fio", &["--device", "qemu-nvme"]));
        if more.starts_with("bsrange") {
            // The range that reaches the size is whole.
            let most = bytes + (16 << 10);
            assert!(
                (5..=16).contains(&trims) && (bytes..most).contains(&moved),
                "{more}: {trims}, {moved}"
            );
        } else {
            assert_eq!((trims, moved), (ios, bytes), "{more}");
        }
    }
}

#[test]
fn a_real_file_has_holes_where_ranges_were() {
    let bench = Bench::new();
    bench.file("job.fio", JOB);
    for job in [JOB.to_owned(), JOB.replace("randtrim", "trim"), format!("{JOB}number_ios=8\n")] {
        bench.file("job.fio", &job);
        bench.file("disk.img", vec![0xff; 1 << 20]);
        let report = bench.json("job.fio", &["--device", "./disk.img"]);
        let all = if job.contains("number_ios") { 8 } else { 16 };
        assert_eq!((figure(&report, "total_ios"), figure(&report, "io_bytes")), (all, all << 16));
        let content = std::fs::read(bench.path("disk.img")).expect("the file");
        let holes =
            content.chunks(4096).filter(|block| block.iter().all(|&byte| byte == 0)).count();
        assert_eq!(holes as u64, all * 16);
    }
}

#[test]
fn an_error_of_a_range_is_one_of_the_trim() {
    let bench = Bench::new();
    let args = [
        "--device",
        "qemu-nvme",
        "--set",
        "max_discard_segments=1",
        "--fault",
        "error:sectors=0-15,status=io",
    ];
    bench.file("job.fio", format!("{JOB}continue_on_error=all\n"));
    let trims = figure(&bench.json("job.fio", &args), "total_ios");
    // The two ranges may be of one trim or of two.
    assert!(trims == 14 || trims == 15, "{trims}");
    bench.file("job.fio", JOB);
    let output = bench.elevon(&["run", "job.fio", "--memory", "1GiB"]).output().expect("it ran");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("num_range: trims of several ranges go past no page cache"), "{said}");
}
