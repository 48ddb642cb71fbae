//! `docs/reference/upgrading.md` is made of the rules of the kernel versions, and `elevon kernels`
//! shows them. `UPDATE_DOCS=1 cargo test -p elevon --test manuals upgrading` writes the document.

use std::fmt::Write;

use crate::common::Bench;
use elevon_core::kernel::{Evidence, Kernel, RULES, UNMODELLED};
use elevon_testkit::hold_document;
use serde_json::{Value, json};

const HEAD: &str = "\
# Upgrading: what a newer kernel does with the same I/O

Each table has the rules that differ between a long-term kernel and the next. For each rule it says
which work notices the change, and how to get the other behaviour. `elevon kernels A B` prints the
same for any two versions. `elevon compare JOB --kernel A --vs '--kernel B'` shows what the change
does to a job.

The last column says how a rule is known:

- *Measured*: a kernel on each side of the change was measured.
- *Read*: descriptions of the kernel's behaviour have the change.
- *Remembered*: neither was possible.

Stable releases differ. The rules of a version are those of the release that stands beside it.

<!-- From here on made of the rules:
UPDATE_DOCS=1 cargo test -p elevon --test manuals upgrading -->
";

/// The long-term kernels, and the newest.
const STEPS: [Kernel; 7] = [
    Kernel::V5_10,
    Kernel::V5_15,
    Kernel::V6_1,
    Kernel::V6_6,
    Kernel::V6_12,
    Kernel::V6_18,
    Kernel::V7_3,
];

#[test]
fn the_document_is_made_of_the_rules() {
    let mut expected = HEAD.to_owned();
    for step in STEPS.windows(2) {
        let (old, new) = (step[0].rules(), step[1].rules());
        let _ = writeln!(expected, "\n## {} to {}\n", step[0].release(), step[1].release());
        expected += "| part | before | after | who notices | the other way | known |\n|---|---|---|---|---|---|\n";
        for row in RULES.iter().filter(|row| !row.is_same(&old, &new)) {
            let (before, after) = ((row.says)(&old), (row.says)(&new));
            let is_measured = row.evidence == Evidence::Measured;
            let known = format!(
                "{}{}",
                if is_measured { "measured: " } else { "not measured; " },
                row.source
            );
            let _ = writeln!(
                expected,
                "| {} | {before} | {after} | {} | {} | {known} |",
                row.area, row.who, row.keep
            );
        }
    }
    expected += "\n## What is not followed\n\nChanges of these versions that are no rules here, and why.\n\n";
    expected += "| change | since | the kernel | here |\n|---|---|---|---|\n";
    for row in UNMODELLED {
        let _ = writeln!(expected, "| {} | {} | {} | {} |", row.name, row.since, row.says, row.why);
    }
    hold_document("docs/reference/upgrading.md", |_| expected);
}

/// A setting that a rule or a reason advises is one that `elevon schedulers` lists.
#[test]
fn every_setting_that_is_advised_exists() {
    let listed = Bench::new().stdout(&["schedulers"]);
    let texts = RULES.iter().map(|row| row.keep).chain(UNMODELLED.iter().map(|row| row.why));
    let mut advised = 0;
    for text in texts {
        for words in text.split("--set ").skip(1) {
            let key = words.split_once('=').expect("KEY=VALUE").0;
            let is_listed = listed.lines().any(|line| line.split_whitespace().next() == Some(key));
            assert!(is_listed, "--set {key} does not exist: {text}");
            advised += 1;
        }
    }
    assert!(advised > 3, "{advised} settings are advised");
}

#[test]
fn versions_are_listed_shown_and_compared() {
    let bench = Bench::new();
    let list = bench.stdout(&["kernels"]);
    assert!(Kernel::ALL.iter().all(|kernel| list.contains(kernel.release())), "{list}");
    let one = bench.stdout(&["kernels", "6.1"]);
    assert!(one.contains("issued newest request first"), "{one}");
    let two = bench.stdout(&["kernels", "6.18", "7.0.13-amd64"]);
    for words in [
        "rules differ between Linux 6.18.44 and 7.0.13",
        "one vector per folio",
        "queue/async_depth",
        "measured",
    ] {
        assert!(two.contains(words), "{words}: {two}");
    }
    assert!(!two.contains("newest request first"), "{two}");
    let one = bench.stdout(&["kernels", "7.0", "7.1"]);
    assert!(one.starts_with("1 rule differs between Linux 7.0.13 and 7.1.13:"), "{one}");
    let same = bench.stdout(&["kernels", "7.3", "v7.3"]);
    assert!(same.contains("have the same rules"), "{same}");
    assert!(two.lines().all(|line| line.chars().count() <= 100), "{two}");
}

/// Reads of 16 MiB through fragmented memory on ufs-4.0: the fill of bios is what differs, and of
/// the rules of mq-deadline none.
#[test]
fn a_comparison_of_two_kernels_names_the_rules_that_make_the_difference() {
    let bench = Bench::new();
    let job = bench.file(
        "large.fio",
        "[a]\nrw=read\nbs=16m\nsize=256m\ndirect=1\nioengine=libaio\niodepth=2\n",
    );
    let args = [
        "compare",
        job,
        "--device",
        "ufs-4.0",
        "--set",
        "direct_path=iomap",
        "--kernel",
        "6.18",
        "--vs",
    ];
    let text = bench.stdout(&[&args[..], &["--kernel 7.3"]].concat());
    let (_, rules) = text
        .split_once("Rules between A (6.18) and B (7.3), each switched alone in A:")
        .expect("rules");
    let (_, fill) = rules
        .split_once("direct_fill_per_folio (building bios)")
        .expect("the rule that fills bios");
    assert!(
        fill.contains("7.3: direct I/O fills one vector per folio") && fill.contains("requests "),
        "{rules}"
    );
    assert!(!rules.contains("kyber") && rules.contains("others change no figure alone"), "{rules}");
    let same = bench.stdout(&[&args[..], &["--scheduler mq-deadline"]].concat());
    assert!(!same.contains("Rules between"), "{same}");
    // The same as data, and on a page.
    let more = [
        "--kernel 7.3",
        "--vs",
        "--scheduler mq-deadline",
        "--output-format",
        "json",
        "--html",
        "rules.html",
    ];
    let json = bench.stdout(&[&args[..], &more].concat());
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let [between] = json["rules"].as_array().expect("rules").as_slice() else {
        panic!("{}", json["rules"])
    };
    assert_eq!(
        (&between["variants"], &between["kernels"]),
        (&json!(["A", "B"]), &json!(["6.18", "7.3"]))
    );
    let changing = between["changing"].as_array().expect("rules that change a figure");
    let fill = changing
        .iter()
        .find(|rule| rule["name"] == "direct_fill_per_folio")
        .expect("the rule that fills bios");
    let requests =
        fill["figures"].as_array().expect("figures").iter().find(|f| f["figure"] == "requests");
    let requests = requests.expect("the number of requests");
    assert_eq!(requests["before"], json["device"]["requests"]["values"][0]);
    assert_ne!(requests["before"], requests["after"]);
    assert!(between["differ"].as_u64().expect("a number") > changing.len() as u64);
    let page = std::fs::read_to_string(bench.path("rules.html")).expect("the page");
    assert!(
        page.contains("<h2>Rules between A (6.18) and B (7.3)</h2>")
            && page.contains("direct_fill_per_folio")
    );
}

#[test]
fn a_version_that_is_not_there_has_its_neighbours_named() {
    let bench = Bench::new();
    let output = bench.elevon(&["kernels", "6.8"]).output().expect("the command ran");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
    assert!(
        error.contains("kernels 6.8: not modelled") && error.contains("6.12 the one after it"),
        "{error}"
    );
}
