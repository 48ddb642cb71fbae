//! `elevon watch --listen`: what an outside client gets of a real loop device, and that the
//! dashboard and the alert rules name what is there.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use elevon_testkit::{signal, tool};
use serde_json::Value;

use crate::capture::{Machine, alone};
use crate::common::Bench;

/// A watch of the machine's device that listens.
struct Listening {
    child: Child,
    place: String,
}

impl Listening {
    fn new(machine: &Machine) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_elevon"))
            .args(["watch", machine.device(), "--listen=127.0.0.1:0"])
            .args(["--tracefs", machine.tracefs()])
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command started");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let line = lines.next().expect("a line").expect("UTF-8");
        let place = line.split(' ').find(|word| word.starts_with("http://"));
        Self { child, place: place.unwrap_or_else(|| panic!("{line}")).to_owned() }
    }

    /// What a client gets of a path.
    fn get(&self, path: &str) -> String {
        let mut curl = tool("curl").expect("it was asked for");
        let output = curl.args(["-sS", &format!("{}{path}", self.place)]).output();
        String::from_utf8(output.expect("curl ran").stdout).expect("UTF-8")
    }

    fn end(mut self) {
        signal(&self.child, "INT");
        assert!(self.child.wait().expect("it ended").success());
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // A test that failed leaves none behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the sum of the samples that begin so.
fn sum(metrics: &str, name: &str, labels: &[&str]) -> f64 {
    let is_asked = |line: &&str| {
        line.starts_with(&format!("{name}{{")) && labels.iter().all(|label| line.contains(label))
    };
    let value = |line: &str| line.rsplit(' ').next().expect("a value").parse::<f64>();
    metrics.lines().filter(is_asked).map(|line| value(line).expect("a number")).sum()
}

fn packaged(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/monitoring").join(name)
}

/// Returns the names of our metrics in a text.
fn named(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    words.filter(|word| word.starts_with("elevon_watch_")).collect()
}

#[test]
fn a_client_gets_the_figures_of_what_was_read() {
    let _alone = alone();
    if !elevon_testkit::tools(&["curl"]) {
        return;
    }
    let Some(machine) = Machine::new() else { return };
    let listening = Listening::new(&machine);
    while listening.get("api/now") == "null\n" {
        std::thread::yield_now();
    }
    machine.read(64);
    let mut metrics = listening.get("metrics");
    while sum(&metrics, "elevon_watch_requests_total", &["op=\"read\""]) < 64.0 {
        metrics = listening.get("metrics");
    }
    let value = |name: &str, labels: &[&str]| sum(&metrics, name, labels);
    assert_eq!(value("elevon_watch_requests_total", &["op=\"read\""]), 64.0, "{metrics}");
    assert_eq!(value("elevon_watch_io_bytes_total", &["op=\"read\""]), 64.0 * 65536.0);
    for stage in ["stage=\"waiting\"", "stage=\"device\""] {
        assert_eq!(value("elevon_watch_latency_seconds_count", &[stage]), 64.0, "{metrics}");
        let all = value("elevon_watch_latency_seconds_bucket", &[stage, "le=\"+Inf\""]);
        assert_eq!(all, 64.0, "{metrics}");
    }
    assert!(metrics.contains("elevon_watch_lost_events_total 0"), "{metrics}");
    let now: Value = serde_json::from_str(&listening.get("api/now?by=unit")).expect("JSON");
    assert_eq!(now["disks"].as_array().map(Vec::len), Some(1), "{now}");
    assert!(listening.get("").contains("<h1>Elevon watch</h1>"));
    assert!(listening.get("api/now?by=disk").contains("expected process or unit"));
    assert!(listening.get("other").contains("there are /, /metrics"));
    let known = named(&metrics);
    for name in ["elevon-watch.rules.yml", "elevon-watch.dashboard.json"] {
        let text = std::fs::read_to_string(packaged(name)).expect("a file");
        let asked = named(&text);
        assert!(asked.len() >= 4, "{name}: {asked:?}");
        let missing: Vec<&&str> = asked.difference(&known).collect();
        assert!(missing.is_empty(), "{name} names {missing:?}; there are {known:?}");
    }
    if let Some(mut promtool) = tool("promtool") {
        let mut check = promtool
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("promtool started");
        check.stdin.take().expect("a pipe").write_all(metrics.as_bytes()).expect("sent");
        assert!(check.wait().expect("it ended").success(), "{metrics}");
    }
    listening.end();
    assert_eq!(machine.instances(), [""; 0]);
}

#[test]
fn the_alert_rules_are_rules() {
    let Some(mut promtool) = tool("promtool") else { return };
    let output = promtool.args(["check", "rules"]).arg(packaged("elevon-watch.rules.yml")).output();
    let output = output.expect("promtool ran");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let dashboard = std::fs::read_to_string(packaged("elevon-watch.dashboard.json"));
    let dashboard: Value = serde_json::from_str(&dashboard.expect("a file")).expect("JSON");
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() >= 8));
}

#[test]
fn an_address_that_is_none_is_refused() {
    let bench = Bench::new();
    for (args, words) in [
        (&["--listen=a:b"][..], "--listen=a:b: expected ADDR:PORT, such as 127.0.0.1:9465"),
        (&["--listen=192.0.2.1:80"], "--listen=192.0.2.1:80: expected an address to listen at"),
        (&["--listen", "--once"], "--once"),
    ] {
        let output = bench.elevon(&[&["watch"], args].concat()).output().expect("it ran");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    }
}
