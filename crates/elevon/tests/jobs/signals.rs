//! Tests signals during a run: it stops, writes back and reports, or reports the progress so far.
//! No test waits for a time; each waits for output of the run.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::common::Bench;

/// A running command.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

/// How a command ended.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Running {
    fn start(bench: &Bench, args: &[&str]) -> Self {
        // Tests run under nohup inherit an ignored SIGHUP, which a run leaves ignored.
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_elevon")]).args(args);
        command.current_dir(bench.path("")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command started");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, stdout }
    }

    /// Reads stdout up to a line that contains these words.
    fn read_to(&mut self, words: &str) {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            let bytes = self.stdout.read_line(&mut line).expect("UTF-8");
            if bytes == 0 {
                let mut stderr = String::new();
                let all =
                    self.child.stderr.take().map(|mut stream| stream.read_to_string(&mut stderr));
                panic!("it ended before it printed {words}: {stderr} {all:?}");
            }
        }
    }

    /// Sends signals, one immediately after the other.
    fn send(&self, signals: &[&str]) {
        let id = self.child.id();
        let script: String = signals.iter().map(|signal| format!("kill -{signal} {id};")).collect();
        let status = Command::new("sh").args(["-c", &script]).status();
        assert!(status.expect("sh ran").success());
    }

    /// Reads the output to its end.
    fn end(mut self) -> Ended {
        let mut stdout = String::new();
        self.stdout.read_to_string(&mut stdout).expect("UTF-8");
        let output = self.child.wait_with_output().expect("it ended");
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        Ended { code: output.status.code(), stdout, stderr }
    }
}

/// The first line that `--iostat` prints.
const UNDER_WAY: &str = "Device";
/// A line of every report.
const REPORT: &str = "Disk stats";

/// Creates a job for a simulated device that only a signal ends.
fn endless(bench: &Bench) -> &'static str {
    bench
        .file("endless.fio", "[a]\nrw=read\nbs=4k\ndirect=1\nsize=1m\nruntime=100000\ntime_based\n")
}

#[test]
fn each_signal_that_asks_to_stop_has_its_exit_status_and_a_report() {
    let bench = Bench::new();
    let job = endless(&bench);
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let mut run = Running::start(&bench, &["run", job, "--iostat", "1"]);
        run.read_to(UNDER_WAY);
        run.send(&[signal]);
        let Ended { code: ended, stdout, stderr } = run.end();
        assert_eq!(ended, Some(code), "{signal}: {stderr}");
        assert!(stdout.contains("IOPS=") && stdout.contains(REPORT), "{signal}: {stdout}");
        assert!(stderr.contains(&format!("elevon: SIG{signal}: stopping once")), "{stderr}");
        assert!(stderr.contains("interrupted: the figures cover what ran until then"), "{stderr}");
    }
}

#[test]
fn two_signals_at_once_are_one() {
    let bench = Bench::new();
    // Draining the queue takes a while, and the second signal arrives in the meantime.
    let job = bench.file(
        "deep.fio",
        "[a]\nrw=randread\nbs=4k\nioengine=io_uring\niodepth=100000\ndirect=1\nruntime=100000\ntime_based\n",
    );
    let mut run = Running::start(&bench, &["run", job, "--iostat", "0.01"]);
    run.read_to(UNDER_WAY);
    run.send(&["TERM", "TERM", "INT", "HUP"]);
    let Ended { code, stdout, stderr } = run.end();
    // A process that gets no CPU between two signals sees the one with the lower number first,
    // whichever was sent first.
    let codes = [("TERM", 143), ("INT", 130), ("HUP", 129)];
    let named =
        codes.map(|(signal, _)| stderr.matches(&format!("SIG{signal}: stopping once")).count());
    assert_eq!(named.iter().sum::<usize>(), 1, "one signal is acted on: {stderr}");
    let acted_on = named.iter().position(|times| *times == 1).map(|index| codes[index].1);
    assert_eq!(code, acted_on, "{stderr}");
    assert!(stdout.contains(REPORT), "{stdout}");
}

#[test]
fn signals_while_the_report_is_written_do_not_cut_it() {
    let bench = Bench::new();
    let job = bench.file("many.fio", "[a]\nrw=read\nbs=4k\ndirect=1\nnumber_ios=10\nnumjobs=100\n");
    // The report is larger than a pipe: once its first byte was read, the rest waits to be read.
    let mut run = Running::start(&bench, &["run", job, "--output-format", "json"]);
    let mut first = [0];
    run.stdout.read_exact(&mut first).expect("the report has begun");
    run.send(&["TERM", "TERM", "USR1"]);
    let Ended { code, stdout, stderr } = run.end();
    assert_eq!(code, Some(0), "the run itself was over: {stderr}");
    let json: serde_json::Value =
        serde_json::from_str(&format!("{}{stdout}", first[0] as char)).expect("whole JSON");
    assert_eq!(json["jobs"].as_array().map(Vec::len), Some(100));
}

#[test]
fn a_run_that_finds_everything_in_the_cache_is_interrupted() {
    let bench = Bench::new();
    for engine in ["psync", "mmap"] {
        let name = format!("{engine}.fio");
        let text = format!(
            "[a]\nrw=randread\nbs=64k\nsize=4m\nioengine={engine}\nruntime=30\ntime_based\n"
        );
        bench.file(&name, text);
        bench.file("disk.img", vec![0; 4 << 20]);
        let mut run = Running::start(
            &bench,
            &["run", &name, "--device", "./disk.img", "--cache", "64MiB", "--iostat", "0.05"],
        );
        run.read_to(UNDER_WAY);
        run.send(&["INT"]);
        let Ended { code, stdout, stderr } = run.end();
        assert_eq!(code, Some(130), "{engine}: {stderr}");
        assert!(stdout.contains(REPORT), "{stdout}");
    }
}

/// Returns the flags (open(2)) with which a process has a file of this name open.
fn flags_of_open(process: u32, name: &str) -> BTreeSet<String> {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let files = std::fs::read_dir(folder.join("fd"))
        .expect("open files")
        .map(|entry| entry.expect("an entry"));
    let own = files
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|path| path.ends_with(name)));
    let info = own.map(|entry| {
        std::fs::read_to_string(folder.join("fdinfo").join(entry.file_name())).expect("text")
    });
    info.filter_map(|text| {
        Some(text.lines().find_map(|line| line.strip_prefix("flags:"))?.trim().to_owned())
    })
    .collect()
}

#[test]
fn a_buffered_job_opens_a_real_file_as_a_direct_one_does() {
    let bench = Bench::new();
    bench.file("disk.img", vec![0; 1 << 20]);
    let flags = |direct: &str| {
        let text =
            format!("[a]\nrw=randread\nbs=4k\nsize=1m\nruntime=30\ntime_based\ndirect={direct}\n");
        let job = bench.file("job.fio", text);
        let mut run =
            Running::start(&bench, &["run", job, "--device", "./disk.img", "--iostat", "0.05"]);
        run.read_to(UNDER_WAY);
        let flags = flags_of_open(run.child.id(), "disk.img");
        run.send(&["INT"]);
        (flags, run.end().stderr.contains("runs as direct=1"))
    };
    let (buffered, direct) = (flags("0"), flags("1"));
    assert!(!direct.0.is_empty() && buffered.0 == direct.0, "{buffered:?} {direct:?}");
    assert!(buffered.1 && !direct.1, "a warning says so");
}

#[test]
fn what_is_dirty_is_written_back_whatever_the_signal() {
    let bench = Bench::new();
    for signal in ["INT", "TERM", "HUP"] {
        let text = "[a]\nrw=write\nbs=64k\nsize=4m\nioengine=psync\nruntime=30\ntime_based\nbuffer_pattern=0xab\n";
        let job = bench.file("write.fio", text);
        bench.file("disk.img", vec![0; 4 << 20]);
        let mut run = Running::start(
            &bench,
            &[
                "run",
                job,
                "--device",
                "./disk.img",
                "--cache",
                "64MiB",
                "--set",
                "dirty_ratio=90",
                "--set",
                "dirty_background_ratio=80",
                "--iostat",
                "0.05",
            ],
        );
        // The whole file has been written several times by then.
        run.read_to(UNDER_WAY);
        run.read_to("disk.img");
        run.read_to("disk.img");
        run.send(&[signal, signal]);
        let Ended { code, stderr, .. } = run.end();
        assert!(code.is_some_and(|code| code > 128), "{signal}: {code:?} {stderr}");
        let bytes = std::fs::read(bench.path("disk.img")).expect("the device");
        let written = bytes.iter().filter(|&&byte| byte == 0xab).count();
        assert!(written >= 1 << 20, "{signal}: {written} bytes reached the device");
    }
}

#[test]
fn the_status_so_far_is_shown_and_the_run_goes_on() {
    let bench = Bench::new();
    let job = endless(&bench);
    let mut run = Running::start(&bench, &["run", job, "--iostat", "1"]);
    run.read_to(UNDER_WAY);
    for _ in 0..2 {
        run.send(&["USR1"]);
        run.read_to("IOPS=");
        run.read_to(REPORT);
        // The run continues: the next line of iostat appears.
        run.read_to(UNDER_WAY);
    }
    run.send(&["INT"]);
    let Ended { code, stdout, .. } = run.end();
    assert_eq!((code, stdout.contains(REPORT)), (Some(130), true));
}

#[test]
fn the_status_goes_to_stderr_where_stdout_is_json() {
    let bench = Bench::new();
    let job = endless(&bench);
    let mut run = Running::start(&bench, &["run", job, "--output-format", "json", "--iostat", "1"]);
    let mut stderr = BufReader::new(run.child.stderr.take().expect("a pipe"));
    let mut read_to = |words: &str| {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert!(stderr.read_line(&mut line).expect("UTF-8") > 0, "no {words}");
        }
    };
    read_to(UNDER_WAY);
    run.send(&["USR1"]);
    read_to("IOPS=");
    read_to(REPORT);
    run.send(&["INT"]);
    let mut rest = String::new();
    run.stdout.read_to_string(&mut rest).expect("UTF-8");
    let json: serde_json::Value = serde_json::from_str(&rest).expect("JSON alone");
    assert!(json["jobs"][0]["read"]["iops"].as_f64().is_some_and(|iops| iops > 0.0));
    // The rest on stderr is small, so the command ends even if it is not read.
    assert_eq!(run.child.wait().expect("it ended").code(), Some(130));
}

#[test]
fn what_is_compared_and_was_not_run_is_named() {
    let bench = Bench::new();
    // The warning appears after the signal handlers were installed.
    let job =
        bench.file("endless.fio", "[a]\nrw=read\nbs=4k\nsize=1m\nruntime=100000\ntime_based\n");
    let mut run = Running::start(&bench, &["compare", job, "--vs", "--kernel 6.1"]);
    let mut stderr = BufReader::new(run.child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("UTF-8");
    assert!(line.contains("buffered I/O"), "{line}");
    run.send(&["INT"]);
    let mut stdout = String::new();
    run.stdout.read_to_string(&mut stdout).expect("UTF-8");
    assert!(stdout.contains("Not run, because of the interrupt: --kernel 6.1"), "{stdout}");
    assert_eq!(run.child.wait().expect("it ended").code(), Some(130));
}
