//! Tests jobs with atomic writes (`atomic=1`): in simulation, on files and on disks of servers.

use crate::common::Bench;
use crate::common::served::Served;
use serde_json::Value;

const JOB: &str = "[a]\nioengine=libaio\niodepth=8\niodepth_batch=8\ndirect=1\natomic=1\nrw=write\nbs=4k\nsize=1m\n\
                   iodepth_batch_complete_min=8\n";
/// Lets the queue issue atomic writes, whatever the device says.
const ALLOWED: [&str; 2] = ["--set", "atomic_write_max_bytes=16384"];

fn refused(bench: &Bench, args: &[&str], words: &str) {
    let output =
        bench.elevon(&[&["run", "job.fio"], args].concat()).output().expect("the command ran");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{args:?}: {said}");
    assert!(said.contains(words), "{args:?}: {said}");
}

fn figure(report: &Value, key: &str) -> u64 {
    report["jobs"][0]["write"][key].as_u64().expect("a figure")
}

#[test]
fn a_simulated_device_with_limits_writes_atomically() {
    let bench = Bench::new();
    bench.file("job.fio", JOB);
    for kernel in ["6.12", "7.3"] {
        let args = [&["--kernel", kernel, "--trace", "t.ftrace"], &ALLOWED[..]].concat();
        let report = bench.json("job.fio", &args);
        assert_eq!((figure(&report, "total_ios"), figure(&report, "io_bytes")), (256, 1 << 20));
        let text = std::fs::read_to_string(bench.path("t.ftrace")).expect("the trace");
        let issued: Vec<&str> =
            text.lines().filter(|line| line.contains("block_rq_issue")).collect();
        // Merged up to the largest atomic write, in one plug of eight.
        assert_eq!(issued.len(), 64, "{kernel}");
        // Events have the letter since 6.16.
        let letters = if kernel == "6.12" { " WS 16384 " } else { " WSU 16384 " };
        assert!(issued.iter().all(|line| line.contains(letters)), "{kernel}: {}", issued[0]);
    }
    // The disk of QEMU writes one block of 512 bytes atomically.
    bench.file("job.fio", JOB.replace("4k", "512"));
    assert_eq!(figure(&bench.json("job.fio", &["--device", "qemu-nvme"]), "total_ios"), 2048);
}

/// What only chance or the offset decides is refused when it is written, as by the kernel.
#[test]
fn a_write_off_its_alignment_fails_with_einval() {
    let bench = Bench::new();
    bench.file("job.fio", JOB.replace("size=1m", "size=1m\noffset=2k"));
    let args = [&["run", "job.fio", "--output-format", "json"], &ALLOWED[..]].concat();
    let output = bench.elevon(&args).output().expect("the command ran");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (output.status.code(), report["jobs"][0]["error"].as_i64()),
        (Some(1), Some(libc::EINVAL.into()))
    );
}

#[test]
fn what_has_no_atomic_writes_refuses_them() {
    let bench = Bench::new();
    bench.file("job.fio", JOB);
    bench.file("disk.img", vec![0; 2 << 20]);
    let none = "job.fio:6:8: atomic: the device has no atomic writes: its atomic_write_max_bytes is 0; \
                a simulated one has them with --set atomic_write_max_bytes=4096";
    refused(&bench, &[], none);
    refused(&bench, &["--device", "null"], none);
    refused(
        &bench,
        &["--device", "qemu-nvme"],
        "job.fio:8:4: bs: 4096 bytes are no atomic write of the device",
    );
    refused(
        &bench,
        &[&["--kernel", "6.1"], &ALLOWED[..]].concat(),
        "Linux has atomic writes from 6.11 on",
    );
    refused(
        &bench,
        &[&["--kernel", "6.6", "--device", "./disk.img"], &ALLOWED[..]].concat(),
        "from 6.11 on",
    );
    let served = Served::start(&[]);
    refused(&bench, &["--device", &served.uri], none);
    // The request does not reach the server.
    let args =
        [&["run", "job.fio", "--output-format", "json", "--device", &served.uri], &ALLOWED[..]]
            .concat();
    let output = bench.elevon(&args).output().expect("the command ran");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["jobs"][0]["error"], libc::EOPNOTSUPP, "{report}");
    served.end();
}

/// The kernel's answer reaches the report, for writes alone and merged, by the ring and by threads.
/// Where the file system writes atomically, all of it is written.
#[test]
fn a_real_file_is_written_atomically_or_not_at_all() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; 2 << 20]);
    for (job, set) in [(JOB, "0"), (JOB, "2"), (&JOB.replace("libaio", "pvsync2"), "0")] {
        bench.file("job.fio", job);
        let nomerges = format!("nomerges={set}");
        let args = [
            "run",
            "job.fio",
            "--output-format",
            "json",
            "--device",
            "./disk.img",
            "--set",
            &nomerges,
        ];
        let output =
            bench.elevon(&[&args, &ALLOWED[..]].concat()).output().expect("the command ran");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        match report["jobs"][0]["error"].as_i64() {
            Some(0) => assert_eq!(figure(&report, "total_ios"), 256),
            error => {
                assert_eq!(error, Some(libc::EOPNOTSUPP.into()), "{report}");
                assert!(
                    std::fs::read(bench.path("disk.img"))
                        .expect("the file")
                        .iter()
                        .all(|&byte| byte == 0)
                );
            }
        }
    }
}

/// fio 3.33 takes the option and lets the file system decide, which tears nothing in a run without
/// a crash: the same job moves the same.
#[test]
fn the_same_job_moves_what_it_moves_by_fio() {
    let Some(mut fio) = elevon_testkit::tool("fio") else { return };
    let bench = Bench::new();
    let job = JOB.replace(
        "rw=write",
        "rw=randrw\nfilename=disk.img\nrwmixread=30\nnorandommap\nnumber_ios=200",
    );
    bench.file("disk.img", vec![0; 2 << 20]);
    bench.file("job.fio", job);
    let output = fio
        .current_dir(bench.path(""))
        .args(["--output-format=json", "job.fio"])
        .output()
        .expect("fio ran");
    let text = String::from_utf8_lossy(&output.stdout);
    let theirs: Value = serde_json::from_str(&text[text.find('{').expect("JSON")..]).expect("JSON");
    if theirs["jobs"][0]["error"] == libc::EOPNOTSUPP {
        // A later fio, on a file system without atomic writes.
        return;
    }
    let ours = bench.json("job.fio", &ALLOWED);
    let ios = |report: &Value| {
        figure(report, "total_ios") + report["jobs"][0]["read"]["total_ios"].as_u64().expect("one")
    };
    assert_eq!((ios(&ours), ios(&theirs)), (200, 200));
}
