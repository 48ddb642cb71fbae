//! Tests the files that a command writes: they never replace its inputs, and if one fails, the
//! others are still written.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Output, Stdio};

use crate::common::Bench;

const GOOD: &str =
    "[a]\nrw=randread\nbs=4k\niodepth=4\nioengine=io_uring\ndirect=1\nnumber_ios=50\n";
const WRITES: &str = "[a]\nrw=write\nbs=4k\nsize=64k\ndirect=1\nfilename=x\n";

fn bench() -> Bench {
    let bench = Bench::new();
    bench.file("good.fio", GOOD);
    bench.file("writes.fio", WRITES);
    bench.file("rest.inc", "bs=4k\n");
    bench.file("including.fio", "[a]\nrw=read\ndirect=1\nsize=64k\ninclude rest.inc\n");
    bench.file("t.toml", "[tenant.a]\nweight = 5\n");
    bench.file("disk.img", vec![0; 1 << 20]);
    bench.file("notes.txt", "a shopping list...\n");
    symlink("good.fio", bench.path("soft.html")).expect("a link");
    fs::hard_link(bench.path("disk.img"), bench.path("hard.json")).expect("a link");
    bench.file("good.blktrace.0", GOOD);
    bench.file("t.ftrace", "a-1 [000] 1.000001: block_bio_queue: 8,0 R 8 + 8 [a]\n");
    symlink("t.ftrace", bench.path("soft.csv")).expect("a link");
    bench
}

/// Each command is refused before anything runs, and the line contains these words.
const CLASHES: &[(&[&str], &[&str])] = &[
    (&["run", "good.fio", "--html", "-"], &["--html -: must be a file; /dev/stdout"]),
    (&["run", "good.fio", "--html", "good.fio"], &["--html good.fio", "the same file as good.fio"]),
    (&["run", "good.fio", "--html", "./good.fio"], &["--html ./good.fio", "good.fio"]),
    (
        &["run", "good.fio", "--html", "soft.html"],
        &["--html soft.html", "the same file as good.fio"],
    ),
    (
        &["run", "including.fio", "--html", "rest.inc"],
        &["--html rest.inc", "rest.inc, which it would overwrite"],
    ),
    (&["run", "good.fio", "--tenants", "t.toml", "--html", "t.toml"], &["--html t.toml", "t.toml"]),
    (
        &["run", "good.fio", "--device", "./disk.img", "--html", "disk.img"],
        &["--html", "--device ./disk.img"],
    ),
    (
        &["run", "good.fio", "--device", "./disk.img", "--trace", "hard.json"],
        &["--trace", "--device ./disk.img"],
    ),
    (
        &["run", "good.blktrace.0", "--trace", "good.blktrace"],
        &["--trace good.blktrace", "good.blktrace.0"],
    ),
    (
        &["run", "good.fio", "--html", "x.json", "--trace", "./x.json"],
        &["--trace", "--html x.json", "its own"],
    ),
    (&["run", "writes.fio", "--device", "./writes.fio"], &["--device ./writes.fio", "writes.fio"]),
    (&["run", "including.fio", "--device", "./rest.inc"], &["--device ./rest.inc", "rest.inc"]),
    (
        &["run", "good.fio", "--tenants", "t.toml", "--device", "./t.toml"],
        &["--device ./t.toml", "t.toml"],
    ),
    (
        &["run", "writes.fio", "--device", "notes.txt"],
        &["notes.txt", "19 bytes", "no multiple of 512"],
    ),
    (
        &["compare", "good.fio", "--vs", "--device ./disk.img", "--html", "disk.img"],
        &["--html disk.img", "--device ./disk.img"],
    ),
    (
        &["compare", "good.fio", "--vs", "--kernel 6.1", "--html", "good.fio"],
        &["--html good.fio", "good.fio"],
    ),
    (
        &["tune", "good.fio", "--over", "iodepth=1,2", "--maximise", "iops", "--html", "soft.html"],
        &["--html soft.html", "the same file as good.fio, which it would overwrite"],
    ),
    (
        &[
            "tune",
            "good.fio",
            "--over",
            "tenants=t.toml",
            "--maximise",
            "iops",
            "--html",
            "./t.toml",
        ],
        &["--html ./t.toml", "t.toml, which it would overwrite"],
    ),
    (
        &["inspect", "t.ftrace", "--html", "soft.csv"],
        &["--html soft.csv", "t.ftrace, which it would overwrite"],
    ),
    (
        &["inspect", "t.ftrace", "--requests", "soft.csv"],
        &["--requests soft.csv", "t.ftrace, which it would"],
    ),
    (
        &["inspect", "t.ftrace", "--requests", "x.csv", "--html", "./x.csv"],
        &["--html ./x.csv", "--requests x.csv"],
    ),
];

#[test]
fn nothing_is_written_over_what_is_read() {
    let bench = bench();
    let contents = |bench: &Bench| {
        bench
            .names()
            .into_iter()
            .map(|name| (fs::read(bench.path(&name)).expect("a file"), name))
            .collect::<Vec<_>>()
    };
    let before = contents(&bench);
    for (args, words) in CLASHES {
        let output = bench.elevon(args).output().expect("the command ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
        assert!(words.iter().all(|word| stderr.contains(word)), "{args:?}: {stderr}");
        assert!(contents(&bench) == before, "{args:?}: something was written");
    }
}

#[test]
fn an_output_where_stdout_goes_is_refused() {
    let bench = bench();
    for name in ["report.txt", "/dev/stdout"] {
        let file = fs::File::create(bench.path("report.txt")).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
        command.current_dir(bench.path("")).args(["run", "good.fio", "--html", name]).stdout(file);
        let output = command.stderr(Stdio::piped()).output().expect("the command ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {stderr}");
        assert!(stderr.contains("is the same file as stdout"), "{stderr}");
    }
}

#[test]
fn an_output_goes_through_its_link_and_keeps_its_mode() {
    let bench = bench();
    fs::create_dir(bench.path("far")).expect("a folder");
    for (option, link, target) in
        [("--html", "page.html", "far/page"), ("--trace", "run.ftrace", "far/trace")]
    {
        bench.file("far/page", "");
        fs::write(bench.path(target), "old").expect("written");
        fs::set_permissions(bench.path(target), fs::Permissions::from_mode(0o600))
            .expect("its owner");
        symlink(target, bench.path(link)).expect("a link");
        // The name of the trace's link determines the format; its target may have any name.
        bench.stdout(&["run", "good.fio", option, link]);
        assert!(bench.path(link).is_symlink(), "{option}");
        let metadata = fs::metadata(bench.path(target)).expect("the target");
        assert!(
            metadata.len() > 1_000 && metadata.permissions().mode() & 0o777 == 0o600,
            "{option}: {metadata:?}"
        );
    }
    let left: Vec<String> =
        bench.names().into_iter().filter(|name| name.contains(".part")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Runs the command with a file size limit of 4 KiB, which fails like a full disk but needs no
/// root.
fn on_a_full_disk(bench: &Bench, args: &str) -> Output {
    let mut command = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f 8; exec {} {args}", env!("CARGO_BIN_EXE_elevon"));
    command.current_dir(bench.path("")).args(["-c", &script]).output().expect("sh ran")
}

#[test]
fn a_trace_that_cannot_be_finished_leaves_the_report() {
    let bench = bench();
    let job = bench.file("more.fio", GOOD.replace("=50", "=5000"));
    let before = bench.names();
    for name in ["x.ftrace", "x.blktrace", "x.perfetto", "x.json"] {
        let output = on_a_full_disk(&bench, &format!("run {job} --trace {name}"));
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{name}: {stderr}");
        assert!(stdout.contains("IOPS=") && stdout.contains("Disk stats"), "{name}: {stdout}");
        assert!(
            stderr.contains(&format!("--trace {name}: cannot write: File too large")),
            "{stderr}"
        );
        assert_eq!(bench.names(), before, "{name}: something was left");
    }
    for args in [format!("run {job} --html x.html"), "man .".to_owned()] {
        let output = on_a_full_disk(&bench, &args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), stderr.lines().count()),
            (Some(1), 1),
            "{args}: {stderr}"
        );
        assert!(
            stderr.contains("cannot write: File too large") && !stderr.contains(".part"),
            "{args}: {stderr}"
        );
        let pages = bench.names().into_iter().filter(|name| name.ends_with(".1"));
        let is_whole = |name: &String| {
            fs::read_to_string(bench.path(name)).expect("a page").contains(".SH NAME")
        };
        assert!(pages.clone().all(|name| is_whole(&name)), "{args}");
        pages.for_each(|name| fs::remove_file(bench.path(&name)).expect("a page"));
        assert_eq!(bench.names(), before, "{args}: something was left");
    }
    // A page is either complete or not there.
    let output = on_a_full_disk(&bench, &format!("run {job} --trace x.ftrace --html x.html"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 2), "{stderr}");
    assert!(!output.stdout.is_empty() && bench.names() == before);
}

#[test]
fn a_trace_of_which_a_part_cannot_be_written_is_refused() {
    let bench = bench();
    fs::create_dir(bench.path("run.blktrace.0")).expect("a folder");
    symlink("/dev/null", bench.path("null.ftrace")).expect("a link");
    for (name, words) in
        [("run.blktrace", "run.blktrace.0: is a directory"), ("null.ftrace", "is no regular file")]
    {
        let output =
            bench.elevon(&["run", "good.fio", "--trace", name]).output().expect("the command ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(words) && output.stdout.is_empty(), "{stderr}");
    }
}

#[test]
fn a_page_is_written_though_nobody_reads_the_report() {
    let bench = bench();
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    command
        .current_dir(bench.path(""))
        .args(["run", "good.fio", "--html", "page.html"])
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("the command started");
    drop(child.stdout.take());
    assert!(child.wait().expect("it ended").success());
    let page = fs::read_to_string(bench.path("page.html")).expect("the page");
    assert!(page.ends_with("</html>\n"));
}

#[test]
fn a_log_that_cannot_be_written_leaves_the_report() {
    let bench = bench();
    let job = bench.file("logs.fio", format!("{GOOD}write_lat_log=log\n"));
    fs::create_dir(bench.path("log_clat.1.log")).expect("a folder");
    let output = bench.elevon(&["run", job]).output().expect("the command ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("log_clat.1.log")
            && String::from_utf8_lossy(&output.stdout).contains("Disk stats"),
        "{stderr}"
    );
}

#[test]
fn a_job_file_on_stdin_runs_and_says_how_to_repeat_it() {
    let bench = bench();
    let output = bench.elevon(&["run", "-"]).write_stdin(GOOD).output().expect("the command ran");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let again = stdout.lines().find(|line| line.contains("elevon run -")).expect("the line");
    assert!(
        again.contains("elevon run - --device nvme-datacenter")
            && again.contains("# and the same text on stdin")
    );
    let tenants = bench
        .elevon(&["run", "good.fio", "--tenants", "-"])
        .write_stdin("[tenant.a]\nweight = 5\n")
        .output();
    assert_eq!(tenants.expect("the command ran").status.code(), Some(0));
    let bad = bench
        .elevon(&["run", "-"])
        .write_stdin("[a]\nrw=sideways\n")
        .output()
        .expect("the command ran");
    let stderr = String::from_utf8_lossy(&bad.stderr);
    assert!(bad.status.code() == Some(2) && stderr.starts_with("elevon: -:2:4: rw"), "{stderr}");
    let twice =
        bench.elevon(&["run", "-", "-"]).write_stdin(GOOD).output().expect("the command ran");
    assert!(String::from_utf8_lossy(&twice.stderr).contains("stdin can be read once only"));
}

#[test]
fn the_line_to_repeat_a_run_is_quoted_for_a_shell() {
    let bench = bench();
    bench.file("a job's.fio", GOOD);
    let report = bench.stdout(&["run", "a job's.fio", "--fault", "error:sectors=1-2"]);
    let again = report.lines().find_map(|line| line.split_once("elevon run ")).expect("the line").1;
    let words = shlex::split(again).expect("words of a shell");
    assert_eq!(words[..3], ["a job's.fio", "--device", "nvme-datacenter"]);
}

#[test]
fn endless_and_huge_inputs_are_refused() {
    use std::os::unix::ffi::OsStringExt;

    let bench = bench();
    bench.file(
        "jobs.fio",
        (0..131_080).map(|i| format!("[j{i}]\nrw=read\ndirect=1\n")).collect::<String>(),
    );
    bench.file("clones.fio", "[a]\nrw=read\nnumjobs=131000\n[b]\nrw=read\nnumjobs=73\n");
    bench.file("long.fio", format!("[a]\nrw=read\nbs={}\n", "4".repeat(10_000_000)));
    bench.file("keys.fio", format!("[a]\n{}", "no-such-key=1\n".repeat(100_000)));
    for (args, words, lines) in [
        (&["run", "/dev/zero"][..], &["/dev/zero:1:1", "larger than 16 MiB"][..], 1),
        (
            &["run", "good.fio", "--tenants", "/dev/zero"],
            &["--tenants /dev/zero", "larger than 16 MiB"],
            1,
        ),
        (&["run", "jobs.fio"], &["jobs.fio:393217", "[j131072]", "131072 or fewer"], 1),
        (&["run", "clones.fio"], &["clones.fio:4", "131073 jobs", "numjobs="], 1),
        (&["run", "long.fio"], &["long.fio:3:4: bs", "characters]"], 1),
        (&["run", "keys.fio"], &["keys.fio:2:1", "and 980 or more others"], 21),
    ] {
        let output = bench.elevon(args).output().expect("the command ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), stderr.lines().count()),
            (Some(2), lines),
            "{args:?}: {stderr}"
        );
        assert!(
            stderr.len() < 5_000 && words.iter().all(|word| stderr.contains(word)),
            "{args:?}: {stderr}"
        );
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    let name = std::ffi::OsString::from_vec(b"caf\xe9.fio".to_vec());
    fs::write(bench.path("").join(&name), GOOD).expect("written");
    let output =
        command.current_dir(bench.path("")).arg("run").arg(name).output().expect("the command ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && stderr.contains("no UTF-8"), "{stderr}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
    let device = std::ffi::OsString::from_vec(b"./caf\xe9.img".to_vec());
    command.current_dir(bench.path("")).args(["run", "good.fio", "--device"]).arg(device);
    let stderr = command.output().expect("the command ran").stderr;
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(
        stderr.contains("--device") && stderr.contains("no UTF-8") && stderr.lines().count() == 1,
        "{stderr}"
    );
}

#[test]
fn nothing_panics_where_stderr_is_full() {
    let bench = bench();
    let full = || fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    bench.file("buffered.fio", GOOD.replace("direct=1\n", ""));
    for (args, code) in
        [(&["run", "nosuch.fio"][..], 2), (&["run", "buffered.fio"], 0), (&["run"], 2), (&[], 2)]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_elevon"));
        command.current_dir(bench.path("")).args(args).stdout(Stdio::null()).stderr(full());
        assert_eq!(command.status().expect("the command ran").code(), Some(code), "{args:?}");
    }
}

#[test]
fn a_job_name_cannot_command_the_terminal() {
    let bench = bench();
    let job =
        bench.file("esc.fio", GOOD.replace("[a]", "[\x1b[31mred\x07]").replace("direct=1\n", ""));
    let output = bench.elevon(&["run", job]).output().expect("the command ran");
    let all = [output.stdout, output.stderr].concat();
    assert!(
        !all.iter().any(|&byte| byte.is_ascii_control() && byte != b'\n'),
        "{}",
        String::from_utf8_lossy(&all)
    );
    assert!(String::from_utf8_lossy(&all).contains("\\x1b[31mred\\x07: (g=0)"));
}

#[test]
fn a_variable_that_is_not_set_is_named() {
    let bench = bench();
    let job =
        bench.file("env.fio", "[a]\nrw=read\ndirect=1\nsize=64k\niodepth=${ELEVON_NO_SUCH}\n");
    let output = bench.elevon(&["run", job]).output().expect("the command ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr.contains("iodepth") && stderr.contains("${ELEVON_NO_SUCH} is not set"),
        "{stderr}"
    );
    let job =
        bench.file("warn.fio", "[a]\nrw=read\ndirect=1\nsize=64k\nfilename=f${ELEVON_NO_SUCH}\n");
    let output = bench.elevon(&["run", job]).output().expect("the command ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success()
            && stderr.contains("warning")
            && stderr.contains("${ELEVON_NO_SUCH}"),
        "{stderr}"
    );
}

#[test]
fn a_job_file_may_begin_with_the_mark_of_utf_8() {
    let bench = bench();
    let job = bench.file("bom.fio", format!("\u{feff}{GOOD}"));
    bench.stdout(&["run", job]);
}

#[test]
fn a_failed_run_is_marked_in_a_comparison() {
    let bench = bench();
    let fault = "--fault error:ppm=1000000,status=medium";
    let output =
        bench.elevon(&["compare", "good.fio", "--vs", fault]).output().expect("the command ran");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    let marked: Vec<&str> =
        stdout.lines().skip_while(|line| !line.starts_with("B: ")).take(2).collect();
    assert!(
        marked.len() == 2 && marked[1].contains("FAILED: a: critical medium error"),
        "{stdout}"
    );
    assert_eq!(stdout.matches("FAILED").count(), 1, "{stdout}");
}

/// The device file and tenants file of a run that depends on all kinds of files.
const DISK: &str = "name = \"disk\"\nbase = \"slots\"\n\n[parameters]\nslots = 2\n";

#[test]
fn a_json_report_is_enough_to_repeat_the_run() {
    let bench = bench();
    bench.file("disk.toml", DISK);
    let args = ["including.fio", "--device", "@disk.toml", "--tenants", "t.toml", "--seed", "7"];
    let command = [&["run", "--output-format", "json"], &args[..]].concat();
    let first = bench.stdout(&command);
    let report: serde_json::Value = serde_json::from_str(&first).expect("JSON");
    let inputs = report["elevon"]["inputs"].as_array().expect("the files that were read");
    let names: Vec<&str> = inputs.iter().filter_map(|input| input["name"].as_str()).collect();
    assert_eq!(names, ["including.fio", "rest.inc", "t.toml", "--device @disk.toml"]);

    let elsewhere = Bench::new();
    for input in inputs {
        let name = input["name"].as_str().expect("a name").trim_start_matches("--device @");
        elsewhere.file(name, input["text"].as_str().expect("a text"));
    }
    let words =
        shlex::split(report["elevon"]["command"].as_str().expect("a command")).expect("words");
    let words: Vec<&str> = words.iter().map(String::as_str).skip(1).collect();
    assert_eq!(elsewhere.stdout(&[&words[..], &["--output-format", "json"]].concat()), first);
}

#[test]
fn a_report_has_what_its_job_reads_of_the_environment() {
    let bench = bench();
    bench.file("env.fio", format!("{GOOD}description=${{ELEVON_WORDS}}\nsize=$ncpusm\n"));
    let args = ["run", "env.fio", "--output-format", "json"];
    let output =
        bench.elevon(&args).env("ELEVON_WORDS", "two words").output().expect("the command ran");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        report["elevon"]["command"],
        "ELEVON_WORDS='two words' elevon run env.fio --device nvme-datacenter --seed 1",
        "{report}"
    );
    let inputs = report["elevon"]["inputs"].as_array().expect("what was read");
    let names: Vec<&str> = inputs.iter().filter_map(|input| input["name"].as_str()).collect();
    assert_eq!(names, ["env.fio", "$ncpus", "${ELEVON_WORDS}"]);
    assert_eq!(inputs[2]["text"], "two words");
}

#[test]
fn a_trace_says_which_run_it_is_of() {
    let bench = bench();
    for name in ["a.ftrace", "a.blktrace", "a.perfetto", "a.json"] {
        bench.stdout(&[
            "run",
            "good.fio",
            "--trace",
            name,
            "--scheduler",
            "bfq:low_latency=0",
            "--seed",
            "5",
        ]);
        let file = if name == "a.blktrace" { "a.blktrace.0" } else { name };
        let trace = fs::read(bench.path(file)).expect("the trace");
        let trace = String::from_utf8_lossy(&trace);
        let words = [
            "elevon run good.fio",
            "--seed 5",
            "bfq:low_latency=0",
            env!("CARGO_PKG_VERSION"),
            "[bfq]",
        ];
        for words in words {
            assert!(trace.contains(words), "{name}: {words}");
        }
    }
    // The same as for a real device: options that a replay is not given are as recorded.
    for name in ["a.ftrace", "a.blktrace"] {
        let output = bench.elevon(&["replay", name]).output().expect("it ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("bfq:low_latency=0"), "{name}: {stderr}");
    }
    if let Some(mut blkparse) = elevon_testkit::tool("blkparse") {
        let blkparse = blkparse
            .args(["-q", "-i", "a"])
            .current_dir(bench.path(""))
            .output()
            .expect("the tool ran");
        let text = String::from_utf8_lossy(&blkparse.stdout);
        assert!(text.contains(" m ") && text.contains("command: elevon run good.fio"), "{text}");
    }
}
