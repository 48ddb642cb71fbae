//! Tests `elevon calibrate` on devices whose figures are known in closed form.

use crate::common::Bench;
use serde_json::Value;

const SLOTS: &str = "slots:slots=4,latency=1ms,bandwidth=400MB/s,size=1GiB";

fn json(args: &[&str]) -> Value {
    let all = [&["calibrate", "--output-format", "json"], args].concat();
    serde_json::from_str(&Bench::new().stdout(&all)).expect("JSON")
}

#[test]
fn slots_as_its_parameters_say() {
    let found = json(&["--device", SLOTS, "--seconds", "0.25"]);
    // A server takes 1 ms and 10.24 us for 4 KiB, and 1 ms and 2621.44 us for 1 MiB; there are four
    // servers.
    let iops = 4_000_000_000_u64 / 1_010_240;
    let bps = ((4_u64 << 20) * 1_000_000_000 + 3_621_440 / 2) / 3_621_440;
    let model = |key: &str| found["io.cost.model"][key].as_u64().expect("a coefficient");
    assert_eq!((model("rseqiops"), model("rrandiops"), model("rbps")), (iops, iops, bps));
    // Writes are measured in a window that starts among other writes, so each server may count one
    // I/O more or less.
    let near = |key: &str, value: u64, of: u64| {
        assert!(model(key).abs_diff(value) * of <= value * 4, "{key}: {found}");
    };
    near("wseqiops", iops, 990);
    near("wrandiops", iops, 990);
    near("wbps", bps, 275);
    let line = format!(
        "MAJ:MIN ctrl=user model=linear rbps={bps} rseqiops={iops} rrandiops={iops} wbps={} wseqiops={} \
         wrandiops={}",
        model("wbps"),
        model("wseqiops"),
        model("wrandiops")
    );
    assert_eq!(found["line"], line);
    assert_eq!(found["runs"].as_array().expect("runs").len(), 6);
}

#[test]
fn null_as_its_latency_and_depth_say() {
    // 64 commands, or 16 of large blocks, of 1 ms each.
    let found = json(&["--device", "null:latency=1ms", "--seconds", "0.1"]);
    for (key, value) in [
        ("rrandiops", 64_000_u64),
        ("wseqiops", 64_000),
        ("rbps", 16_000_u64 << 20),
        ("wbps", 16_000 << 20),
    ] {
        let own = found["io.cost.model"][key].as_u64().expect("a coefficient");
        // A window that starts among writes may contain one round more or less, of 100.
        assert!(own.abs_diff(value) * 100 <= value, "{key}: {own}, not {value}");
    }
}

#[test]
fn text_for_people() {
    let bench = Bench::new();
    insta::assert_snapshot!(bench.stdout(&["calibrate", "--device", SLOTS, "--seconds", "0.25"]));
}

#[test]
fn a_real_file_is_only_read() {
    let bench = Bench::new();
    let content: Vec<u8> =
        (0..4_u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    bench.file("disk.img", &content);
    let text = bench.stdout(&["calibrate", "--device", "./disk.img", "--seconds", "0.02"]);
    assert!(text.contains("rrandiops=") && !text.contains("wbps="), "{text}");
    assert!(text.contains("--overwrite-data"), "{text}");
    assert!(
        std::fs::read(bench.path("disk.img")).expect("the file") == content,
        "it was written to"
    );
    bench.stdout(&["calibrate", "--device", "./disk.img", "--seconds", "0.02", "--overwrite-data"]);
    assert!(
        std::fs::read(bench.path("disk.img")).expect("the file") != content,
        "it was not written to"
    );
}

#[test]
fn bad_input_is_one_line() {
    let bench = Bench::new();
    for (args, words) in [
        (&["--seconds", "0"][..], "from 0.01 to 3600"),
        (&["--seconds", "-1"], "from 0.01 to 3600"),
        (&["--device", "null:latency=0"], "give it a latency"),
        (&["--device", "nvme-datacentre"], "nvme-datacenter"),
        (&["--device", "./missing.img"], "missing.img"),
        (&["--secs", "1"], "--secs"),
        (&["ufs-3.1"], "ufs-3.1: is a device, and not the name of a trace; write --device ufs-3.1"),
        (
            &[&trace_of_six_slots(), "--like", "hdd-7200"],
            "--like hdd-7200: expected a profile of flash (sata-ssd-plextor-m5s, ",
        ),
    ] {
        let output =
            bench.elevon(&[&["calibrate"], args].concat()).output().expect("the command ran");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

fn trace_of_six_slots() -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("tests/data/kernel-truth/whatif/mq-deadline.ftrace.zst")
        .to_str()
        .expect("UTF-8")
        .to_owned()
}

#[test]
fn a_device_fitted_to_a_trace_is_one_for_device() {
    let bench = Bench::new();
    let trace = trace_of_six_slots();
    let text = bench.stdout(&["calibrate", &trace, "-o", "disk.toml"]);
    assert!(
        text.contains("\nservers: 6\n") && text.contains("Saved for --device @disk.toml"),
        "{text}"
    );
    let found: Value =
        serde_json::from_str(&bench.stdout(&["calibrate", &trace, "--output-format", "json"]))
            .expect("JSON");
    assert_eq!(found["servers"], 6);
    assert_eq!(
        std::fs::read_to_string(bench.path("disk.toml")).expect("saved"),
        found["profile"].as_str().expect("text")
    );
    let shown = bench.stdout(&["devices", "@disk.toml"]);
    assert!(shown.contains("fitted"), "{shown}");
    bench.file("job.fio", "[a]\nrw=randread\nbs=8k\nnumber_ios=100\n");
    let run =
        bench.json("job.fio", &["--device", "@disk.toml", "--cpu-cost", "submit=0,complete=0"]);
    let mean = run["jobs"][0]["read"]["clat_ns"]["mean"].as_f64().expect("a latency");
    let part = |of: &Value| of.as_f64().expect("a latency");
    let own = part(&found["read"]["latency_ns"]) + part(&found["base_ns"]);
    assert!(mean > own && mean < own * 1.05, "{mean}, {own}");
}

/// Reads beside discards, which occupy the servers, too: without them there would seem to be two.
/// The closed replay at the end tells the error of a prediction.
#[test]
fn discards_keep_the_device_busy() {
    let bench = Bench::new();
    bench.file(
        "job.fio",
        "[global]\nioengine=libaio\ndirect=1\nruntime=1\ntime_based\n\
         [rd]\nrw=randread\nbs=4k\niodepth=3\nsize=100m\nthinktime=500\n\
         [tr]\nrw=randtrim\nbs=64k\nnumjobs=4\noffset=300m\nsize=200m\n",
    );
    bench.stdout(&["run", "job.fio", "--device", SLOTS, "--trace", "job.ftrace"]);
    let found = bench.stdout(&["calibrate", "job.ftrace", "--output-format", "json"]);
    let found: Value = serde_json::from_str(&found).expect("JSON");
    assert_eq!(
        (&found["servers"], &found["servers_is_lower_bound"]),
        (&4.into(), &false.into()),
        "{found:#}"
    );
    let discard = found["discard_ns"].as_f64().expect("a time of discards");
    assert!((discard / 1e6 - 1.0).abs() < 0.02 && found["write"].is_null(), "{found:#}");
    let profile = found["profile"].as_str().expect("a file");
    assert!(
        profile.contains("discard_latency") && !profile.contains("\nwrite_latency"),
        "{profile}"
    );
    let processes = found["check"]["processes"].as_array().expect("the replay as captured");
    assert_eq!(processes.len(), 5);
    for process in processes {
        let error = process["iops"]["error_percent"].as_f64().expect("an error");
        assert!(error.abs() < 3.0, "{process:#}");
    }
    let text = bench.stdout(&["calibrate", "job.ftrace"]);
    assert!(text.contains("no writes in the trace") && !text.contains("\nalone"), "{text}");
    assert!(text.contains("Replayed as captured (elevon replay --closed, under none"), "{text}");
}

/// Of 64 servers a trace with at most 8 requests in the device shows 8. A run that goes deeper gets
/// a warning.
#[test]
fn a_run_that_goes_deeper_than_the_trace_is_warned_of() {
    let bench = Bench::new();
    let job = |depth: u32| {
        format!("[a]\nioengine=libaio\nrw=randread\nbs=4k\niodepth={depth}\nnumber_ios=2000\n")
    };
    bench.file("8.fio", job(8));
    bench.file("32.fio", job(32));
    let device = "slots:slots=64,latency=4ms,bandwidth=400MB/s,size=1GiB";
    bench.stdout(&["run", "8.fio", "--device", device, "--trace", "8.ftrace"]);
    let text = bench.stdout(&["calibrate", "8.ftrace", "-o", "disk.toml"]);
    assert!(text.contains(", or more: at most 8 requests were in the device at once"), "{text}");
    let warnings =
        |job: &str| bench.json(job, &["--device", "@disk.toml"])["elevon"]["warnings"].to_string();
    assert!(!warnings("8.fio").contains("at once"), "{}", warnings("8.fio"));
    let said = warnings("32.fio");
    assert!(
        said.contains("at most 8 requests in the device at once, and this run had 32"),
        "{said}"
    );
}

#[test]
fn a_trace_that_says_nothing_of_its_device_is_refused() {
    let bench = Bench::new();
    let trace = trace_of_six_slots();
    bench.file(
        "one.txt",
        "  a-11 [000] ..... 1.000005: block_rq_issue: 8,0 R 8192 () 5000 + 16 [a]\n  \
           a-11 [000] ..... 1.000500: block_rq_complete: 8,0 R () 5000 + 16 [0]\n",
    );
    for (args, said) in [
        (vec!["calibrate", "one.txt"], "too few"),
        (vec!["calibrate", "one.txt", "-o", "new.toml"], "too few"),
        (vec!["calibrate", "missing.txt"], "missing.txt"),
        (vec!["calibrate", &trace, "--dev", "9:9"], "no event of device 9:9"),
        (vec!["calibrate", &trace, "--seconds", "1"], "--seconds"),
        (vec!["calibrate", "-o", "new.toml"], "TRACE"),
        (vec!["calibrate", "one.txt", "-o", "one.txt"], "one.txt"),
    ] {
        let output = bench.elevon(&args).output().expect("the command ran");
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(said) && stderr.lines().count() == 1, "{args:?}: {stderr}");
    }
    assert_eq!(bench.names(), ["one.txt"], "nothing half-written");
}
