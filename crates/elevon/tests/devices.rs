//! Devices, their settings and their faults, as a user names them and as reports show them.

mod common;

use common::Bench;

const READS: &str = "[a]\nrw=randread\nbs=4k\niodepth=4\nioengine=io_uring\ndirect=1\nsize=16m\nnumber_ios=200\n";

fn bench() -> Bench {
    let bench = Bench::new();
    bench.file("reads.fio", READS);
    bench
}

/// Exit status and both streams.
fn output(bench: &Bench, args: &[&str]) -> (Option<i32>, String, String) {
    let output = bench.elevon(args).output().expect("the command ran");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_report_counts_each_fault_and_warns_of_one_that_never_fired() {
    let bench = bench();
    let faults = ["--fault", "stall:every=100,for=1ms", "--fault", "error:sectors=1000000-1000007"];
    let json = bench.json("reads.fio", &faults);
    let expected = serde_json::json!([
        { "rule": "stall:every=100,for=1ms", "fired": 2 },
        { "rule": "error:sectors=1000000-1000007", "fired": 0 },
    ]);
    assert_eq!(json["elevon"]["faults"], expected);
    let warnings = json["elevon"]["warnings"].to_string();
    assert!(warnings.contains("error:sectors=1000000-1000007: never fired"), "{warnings}");
    assert!(!warnings.contains("stall"), "{warnings}");
    let (code, text, stderr) = output(&bench, &[&["run", "reads.fio"][..], &faults].concat());
    assert_eq!(code, Some(0), "{stderr}");
    let line = text.lines().find(|line| line.starts_with("Faults: ")).expect("a line of faults");
    assert!(line.contains("stall:every=100,for=1ms fired 2 times"), "{line}");
    assert!(stderr.contains("never fired"), "{stderr}");
    assert!(bench.json("reads.fio", &[])["elevon"].get("faults").is_none());
}

#[test]
fn a_fault_beyond_the_device_is_bad_input() {
    let args = ["run", "reads.fio", "--device", "slots:size=1MiB", "--fault", "error:sectors=2000-2048"];
    let (code, text, stderr) = output(&bench(), &args);
    assert_eq!((code, text.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("sectors=2000-2048") && stderr.contains("0 to 2047"), "{stderr}");
}

#[test]
fn faults_are_listed_with_keys_and_defaults() {
    let bench = bench();
    let list = bench.stdout(&["faults"]);
    for kind in elevon_sim::device::fault::kinds::KINDS {
        assert!(list.contains(kind.name), "{}", kind.name);
        let page = bench.stdout(&["faults", kind.name]);
        assert!(page.contains(kind.example), "{page}");
        let rows: Vec<&str> = page.lines().collect();
        for key in kind.keys {
            let row = rows.iter().find(|row| row.trim_start().starts_with(key.name)).expect("a row");
            assert!(row.contains(key.default.unwrap_or("none")) && row.contains(key.meaning), "{row}");
        }
    }
    let (code, _, stderr) = output(&bench, &["faults", "stal"]);
    assert!(code == Some(2) && stderr.contains("did you mean `stall`"), "{stderr}");
    assert!(bench.stdout(&["devices"]).contains("elevon faults"));
}
