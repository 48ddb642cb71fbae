//! The page of `elevon inspect --html` in a headless Chromium: the time of a frame while the wheel
//! zooms from the whole trace to a single request and back, and while the pointer drags.
//!
//! `cargo bench -p elevon --bench page` measures two pages with a million requests each, one of a
//! trace in which all are alike, and one of a trace in which none is; run by `cargo test` it only
//! proves that it runs. Goal: less than 33 ms a frame. The page itself measures: how
//! long its drawing takes, and the time from one frame to the next, which includes all that the
//! browser does; without a graphics card, it paints in software.

#[path = "../tests/common/browser.rs"]
mod browser;

use std::fs;
use std::process::Command;
use std::time::Instant;

use browser::{Browser, regular_trace};
use serde_json::Value;

/// Measures the time between frames until `frames` is read.
const WATCH: &str = "window.frames = []; (() => { let last = 0; const next = now => {
    if (last) frames.push(now - last); last = now; requestAnimationFrame(next); };
    requestAnimationFrame(next); })()";

/// Prints median, 95th percentile and maximum of times in milliseconds.
fn show(what: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    let at =
        |share: usize| times.get((times.len() * share / 100).min(times.len().saturating_sub(1)));
    let [p50, p95, max] = [50, 95, 100].map(|share| at(share).copied().unwrap_or(0.0));
    println!("{what:<28} {:>6} {p50:>8.1} {p95:>8.1} {max:>8.1}", times.len());
}

/// Does something so many times, each once the one before is drawn; prints what the drawing took,
/// and the frames meanwhile.
fn measure(browser: &mut Browser, what: &str, times: u32, mut act: impl FnMut(&mut Browser, u32)) {
    browser.value("frames.length = 0");
    let mut drawing = Vec::new();
    for n in 0..times {
        act(browser, n);
        let took = browser.drawn()["drawMs"].as_str().and_then(|text| text.parse::<f64>().ok());
        drawing.push(took.expect("a time"));
    }
    let frames = browser.value("frames");
    let frames = frames.as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    show(&format!("{what}: drawing"), drawing);
    show(&format!("{what}: frames"), frames);
}

/// Returns a trace of requests at random places and times, of several sizes and of latencies over
/// two decades: about 11 bytes each on a page, as of a real disk.
fn random_trace(requests: u64) -> String {
    let (mut time, mut random) = (128_166_375_000_000_000_u64, 5_u64);
    let mut below = |n: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % n
    };
    let mut line = |_| {
        time += 1 + below(2000);
        let kind = if below(5) < 3 { "Read" } else { "Write" };
        let (offset, size) = (below(1 << 26) * 4096, 4096 << below(6));
        let response = (100 << below(7)) + below(100);
        format!("{time},srv0,1,{kind},{offset},{size},{response}\n")
    };
    (0..requests).map(&mut line).collect()
}

/// Makes a page of a trace, opens it, and measures it.
fn measure_page(chromium: &Command, name: &str, trace: &str, times: u32) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("trace.csv"), trace).expect("space");
    let mut elevon = Command::new(env!("CARGO_BIN_EXE_elevon"));
    elevon.args(["inspect", "trace.csv", "--html", "page.html"]).current_dir(folder.path());
    let begun = Instant::now();
    assert!(elevon.output().expect("the command ran").status.success());
    let made = begun.elapsed().as_secs_f64();
    let length = fs::metadata(at("page.html")).map_or(0, |file| file.len());
    let begun = Instant::now();
    let mut browser = Browser::open(chromium, folder.path(), &at("page.html"));
    let ready = browser.ready();
    let opened = begun.elapsed().as_secs_f64();
    let requests = trace.lines().count();
    assert_eq!(ready["requests"], requests.to_string(), "{ready}");
    println!("{name}: {requests} requests, {:.1} MB, made in {made:.1} s", length as f64 / 1e6);
    println!("the browser started and drew it in {opened:.1} s");
    browser.value(WATCH);
    println!("{:<28} {:>6} {:>8} {:>8} {:>8}", "ms", "count", "p50", "p95", "max");
    let [left, top, width] = browser.place("timeline");
    let (x, y) = (left + (width / 2.0).round(), top + 20.0);
    measure(&mut browser, "wheel in", times, |browser, _| browser.wheel(x, y, -100.0));
    measure(&mut browser, "wheel out", times, |browser, _| browser.wheel(x, y, 100.0));
    // A third of the trace is seen while it is dragged.
    for _ in 0..4 {
        browser.wheel(x, y, -100.0);
    }
    measure(&mut browser, "drag", times, |browser, n| {
        let by = if n % 2 == 0 { 40.0 } else { -40.0 };
        browser.drag((x, y), &[(x + by / 2.0, y), (x + by, y)]);
    });
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let (requests, times) = if full { (1_000_000, 60) } else { (2_000, 3) };
    let Some(chromium) = elevon_testkit::tool("chromium") else { return };
    for (name, trace) in [("regular", regular_trace(requests)), ("random", random_trace(requests))]
    {
        measure_page(&chromium, name, &trace, times);
    }
}
