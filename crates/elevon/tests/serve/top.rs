//! Tests `elevon top` on a server that runs.

use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::served::{CACHED, Served};

const CONFIG: &str = "\
listen = 'unix:s'
control = 'ctl'
[device.fast]
device = './disk.img'
[export.a]
[tenant.a]
limit = { iops = 20 }
";

/// Keeps a server busy while something is done with it.
fn under_load(act: impl FnOnce(&Served)) {
    let served = Served::config(CONFIG);
    let stop = Arc::new(AtomicBool::new(false));
    let writing = served.load("a", &stop);
    act(&served);
    stop.store(true, Ordering::Relaxed);
    writing.join().expect("every write was answered");
    served.end();
}

#[test]
fn without_a_terminal_a_table_is_printed() {
    under_load(|served| {
        for args in [
            &["top", "ctl", "--interval", "0.5"][..],
            &["top", "ctl", "--interval", "0.5", "--once"],
        ] {
            let text = served.bench.stdout(args);
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.len() == 4 && lines[0].starts_with("device fast: "), "{text}");
            assert!(
                lines[1].starts_with("tenant ") && lines[1].ends_with("what held it"),
                "{text}"
            );
            assert!(lines[2].starts_with("/ "), "{text}");
            assert!(
                lines[3].starts_with("a ") && lines[3].contains(" % own limit iops=20"),
                "{text}"
            );
            let iops: f64 = lines[3]
                .split_whitespace()
                .nth(2)
                .and_then(|word| word.parse().ok())
                .expect("a rate");
            assert!(iops > 0.0 && iops < 100.0, "{text}");
        }
    });
}

#[test]
fn a_page_cache_and_who_is_held_by_it_are_told() {
    let served = Served::config(CACHED);
    let stop = Arc::new(AtomicBool::new(false));
    let writing = served.load_of_cache("a", &stop);
    let began = std::time::Instant::now();
    let text = loop {
        let text = served.bench.stdout(&["top", "ctl", "--once", "--interval", "0.5"]);
        if text.contains(" held by its dirty pages") && text.contains(" % of ") {
            break text;
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{text}");
    };
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 6 && lines[0].starts_with("device slow: "), "{text}");
    assert!(
        lines[1].starts_with("page cache, write-back: ") && lines[1].ends_with(" read was there"),
        "{text}"
    );
    assert!(lines[1].contains("B of ") && !lines[1].contains(" 0B dirty"), "{text}");
    assert!(lines[4].starts_with("a ") && lines[4].contains(" held by its dirty pages"), "{text}");
    assert!(lines[5].starts_with("b ") && lines[5].ends_with(" -"), "{text}");
    stop.store(true, Ordering::Relaxed);
    writing.join().expect("every request was answered");
    served.end();
}

/// script(1) gives the command a terminal.
#[test]
fn on_a_terminal_it_draws_until_a_key_ends_it() {
    let Some(mut script) = elevon_testkit::tool("script") else { return };
    under_load(|served| {
        let command = format!(
            "stty rows 24 cols 120; {} top ctl --interval 0.1",
            env!("CARGO_BIN_EXE_elevon")
        );
        script
            .args(["-q", "-e", "-f", "-c", &command, "typescript"])
            .current_dir(served.bench.path(""));
        let mut child =
            script.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("script ran");
        let seen = || {
            std::fs::read(served.bench.path("typescript"))
                .map(|text| String::from_utf8_lossy(&text).into_owned())
        };
        let began = std::time::Instant::now();
        // Only cells that change are drawn, blanks are skipped: words between which there was
        // another cause before are not next to each other. The setting has blanks around its `=`.
        while !seen().is_ok_and(|text| text.contains("iops=20")) {
            assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", seen());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        child.stdin.take().expect("a pipe").write_all(b"q").expect("a key");
        assert_eq!(child.wait().expect("it ended").code(), Some(0));
        let text = seen().expect("a file");
        // The other screen of the terminal is left again.
        assert!(text.contains("\x1b[?1049h") && text.contains("\x1b[?1049l"));
    });
}

#[test]
fn it_ends_when_its_terminal_is_gone() {
    let Some(mut script) = elevon_testkit::tool("script") else { return };
    under_load(|served| {
        let command = format!("echo $$ >pid; exec {} top ctl", env!("CARGO_BIN_EXE_elevon"));
        script.args(["-q", "-f", "-c", &command, "typescript"]).current_dir(served.bench.path(""));
        let mut child =
            script.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("script ran");
        let until = |is_so: &dyn Fn() -> bool| {
            let began = std::time::Instant::now();
            while !is_so() {
                assert!(began.elapsed() < std::time::Duration::from_secs(60));
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        };
        let read = |name: &str| std::fs::read(served.bench.path(name)).unwrap_or_default();
        until(&|| String::from_utf8_lossy(&read("typescript")).contains("\x1b[?1049h"));
        // As a window that is closed: nobody is left behind the terminal.
        child.kill().expect("killed");
        child.wait().expect("it ended");
        let pid = String::from_utf8(read("pid")).expect("a number");
        // It is gone, or only nobody has asked how it ended.
        until(&|| {
            std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
                .map_or(true, |stat| stat.contains(") Z "))
        });
    });
}

#[test]
fn what_cannot_be_watched_is_said_in_a_line() {
    let bench = crate::common::Bench::new();
    for (args, status, words) in [
        (
            &["top", "none"][..],
            1,
            "elevon: none: No such file or directory; no server has its control socket there: name the path of --control, \
             or of the key control\n",
        ),
        (
            &["top", "none", "--interval", "0"],
            2,
            "elevon: --interval 0: expected seconds from 0.1 to 60",
        ),
    ] {
        let output = bench.elevon(args).output().expect("it ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(status) && stderr.starts_with(words), "{stderr}");
        assert_eq!(stderr.lines().count(), 1);
    }
}
