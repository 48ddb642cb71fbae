//! Tests `elevon reproduce` from the command line.

use assert_cmd::Command;

fn elevon(args: &[&str]) -> (i32, String, String) {
    let output =
        Command::cargo_bin("elevon").expect("the binary").args(args).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// Runs `elevon reproduce`, which must succeed and write nothing to stderr but its progress.
fn reproduce(args: &[&str]) -> String {
    let (code, out, err) = elevon(&[&["reproduce"], args].concat());
    let is_progress = |line: &str| {
        line.starts_with(&format!("elevon: {}: ", args[0])) && line.contains(" runs done after ")
    };
    assert!(code == 0 && err.lines().all(is_progress), "{code}: {err}");
    out
}

#[test]
fn without_a_name_it_lists_what_there_is() {
    let (code, out, err) = elevon(&["reproduce"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        ["aligned-bio", "bfq-injection", "content-ioprio", "io-throttle", "io-ticks"]
            .iter()
            .all(|name| out.contains(&format!("\n  {name} "))),
        "{out}"
    );
    assert!(out.lines().all(|line| line.len() <= 120));
}

#[test]
fn bad_input_is_one_line() {
    for args in [&["reproduce", "aligned-bios"][..], &["reproduce", "--html", "page.html"]] {
        let (code, out, err) = elevon(args);
        assert_eq!((code, out.as_str(), err.lines().count()), (2, "", 1), "{err}");
    }
    assert!(
        elevon(&["reproduce", "x"])
            .2
            .contains("aligned-bio, bfq-injection, content-ioprio, io-throttle, io-ticks")
    );
}

/// Every byte of these reports is reviewed when it changes.
fn as_reviewed(name: &str, report: &str) {
    insta::assert_snapshot!(name, report);
}

/// Returns the block of a language in the document of experiments.
fn block(language: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/reference/reproduce.md")).expect("the page");
    let from = page.split_once(&format!("```{language}\n")).expect("a block").1;
    from.split_once("```\n").expect("the block ends").0.to_owned()
}

/// Runs a file as an experiment, in a folder with the document's job file.
fn own(file: &str) -> (i32, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("depth.fio"), block("ini")).expect("the job");
    std::fs::write(folder.path().join("my-ssd.toml"), file).expect("the file");
    let mut command = Command::cargo_bin("elevon").expect("the binary");
    let output = command
        .current_dir(folder.path())
        .args(["reproduce", "my-ssd.toml"])
        .output()
        .expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

#[test]
fn the_example_of_the_document_prints_what_it_shows() {
    assert_eq!(own(&block("toml")), (0, block("text"), String::new()));
}

#[test]
fn a_figure_outside_of_its_tolerance_and_a_bad_file_have_their_exit_status() {
    let example = block("toml");
    let (code, out, err) = own(&example.replace("tolerance = 5", "tolerance = 1"));
    assert_eq!((code, out), (1, block("text")));
    let missed: Vec<&str> = err.lines().collect();
    assert!(
        missed.len() == 2
            && missed[0] == "elevon: my-ssd: depth 4: +4.3 % from 46000, and 1 % are allowed",
        "{err}"
    );
    let (code, out, err) = own(&example.replace("note = ", "nte = "));
    assert_eq!((code, out.as_str(), err.lines().count()), (2, "", 1), "{err}");
    assert!(
        err.contains(
            "my-ssd.toml:52:1: nte: no such key (did you mean `note`?); there are each, name,"
        ),
        "{err}"
    );
    let (code, _, err) = own(&example.replace("depth.fio", "dept.fio"));
    assert!(code == 2 && err.starts_with("elevon: my-ssd.toml:17:8: job: dept.fio: "), "{err}");
}

#[test]
fn aligned_bio_prints_the_same_bytes_twice_and_a_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let first = reproduce(&["aligned-bio", "--html", page.to_str().expect("UTF-8")]);
    assert_eq!(elevon(&["reproduce", "aligned-bio"]).1, first);
    assert!(first.contains("23 of 23 lines are the same") && !first.contains(" NO\n"));
    assert!(
        first.lines().all(|line| line.chars().count() <= 100),
        "a line is too long for 100 columns"
    );
    let html = std::fs::read_to_string(page).expect("the page");
    assert_eq!(html.matches("<figure").count(), 3);
    as_on_the_page("aligned-bio", &first);
    as_reviewed("aligned-bio", &first);
    assert!(html.contains("max-sectors") && !html.contains("NaN"));
    a_printed_command_runs_again(&first);
}

/// Checks that every line of a report that the page of evidence shows is in the report.
fn as_on_the_page(name: &str, report: &str) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/evidence/proposals.md")).expect("the page");
    let shown =
        page.split_once(&format!("$ elevon reproduce {name}\n")).expect("it is on the page").1;
    let shown = shown.split_once("```").expect("the block ends").0;
    let lines: Vec<&str> = shown.lines().filter(|line| *line != "...").collect();
    assert!(lines.len() > 3);
    for line in lines {
        assert!(
            report.lines().any(|printed| printed.trim_end() == line),
            "not printed any more: {line}\n{report}"
        );
    }
}

/// Checks that a command that a report prints, run from the root of a clone, gives the same
/// figures.
fn a_printed_command_runs_again(out: &str) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let joined = out.replace(" \\\n     ", "");
    let command = joined
        .lines()
        .find_map(|line| line.strip_prefix("  $ RW=read elevon run "))
        .expect("a command");
    let words: Vec<&str> = command.split_whitespace().map(|word| word.trim_matches('\'')).collect();
    let run = Command::cargo_bin("elevon")
        .expect("the binary")
        .current_dir(root)
        .env("RW", "read")
        .arg("run")
        .args(&words)
        .args(["--output-format", "json"])
        .output()
        .expect("it runs");
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let rate = json["jobs"][0]["read"]["bw_bytes"].as_f64().expect("a rate") / 1e6;
    let row = out
        .lines()
        .find(|line| line.starts_with("read, fill=max-sectors") && line.contains("MB/s"))
        .expect("a row");
    let ours: f64 =
        row.split_whitespace().nth(4).and_then(|number| number.parse().ok()).expect("our figure");
    assert!((rate - ours).abs() < 0.1, "{rate} again, {ours} printed");
}

#[test]
fn bfq_injection_prints_the_published_case_and_a_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let text = reproduce(&["bfq-injection", "--html", page.to_str().expect("UTF-8")]);
    let row =
        |name: &str| text.lines().find(|line| line.starts_with(name)).expect("a row").to_owned();
    for (name, published) in
        [("bfq before ", "25.000"), ("bfq with the proposal", "100.00"), ("none ", "110.00")]
    {
        assert!(row(name).contains(published), "{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 110), "a line is too long");
    as_on_the_page("bfq-injection", &text);
    as_reviewed("bfq-injection", &text);
    let html = std::fs::read_to_string(page).expect("the page");
    assert_eq!(
        html.matches("<circle class=\"fill").count(),
        14,
        "a dot for each of seven settings, and its place in the legend"
    );
    assert!(!html.contains("NaN"));
    // The printed command for the proposal's form gives the printed figure.
    let joined = text.replace(" \\\n     ", "");
    let command =
        joined.lines().find_map(|line| line.strip_prefix("  $ elevon run ")).expect("a command");
    let words: Vec<&str> = command.split_whitespace().map(|word| word.trim_matches('\'')).collect();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut again = Command::cargo_bin("elevon").expect("the binary");
    let again =
        again.current_dir(root).arg("run").args(&words).args(["--output-format", "json"]).output();
    let json: serde_json::Value =
        serde_json::from_slice(&again.expect("it runs").stdout).expect("JSON");
    let rates = json["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| job["read"]["bw_bytes"].as_f64().expect("a rate"));
    let rate = rates.sum::<f64>() / 1e6;
    let printed = row("bfq with the proposal");
    let ours: f64 = printed
        .split_whitespace()
        .nth(7)
        .and_then(|number| number.parse().ok())
        .expect("our figure");
    assert!((rate - ours).abs() < 0.1, "{rate} again, {ours} printed");
}

#[test]
fn io_ticks_and_io_throttle_print_what_they_say() {
    let text = reproduce(&["io-ticks"]);
    as_on_the_page("io-ticks", &text);
    as_reviewed("io-ticks", &text);
    assert!(
        ["2000, 2004 and 3012 ms", "right in the mean", "job alone does not do it here"]
            .iter()
            .all(|part| text.contains(part)),
        "{text}"
    );
    let text = reproduce(&["io-throttle"]);
    as_reviewed("io-throttle", &text);
    assert!(text.contains("follows from the lookups") && !text.contains("NaN"), "{text}");
}
