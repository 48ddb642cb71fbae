//! The page of `elevon inspect --html` under wheel and pointer events in a real browser.

use crate::common::Bench;
use crate::common::browser::{Browser, PERIOD, TAKES, regular_trace};
use elevon_testkit::tool;

/// More than the page draws without its prepared levels.
const REQUESTS: u64 = 120_000;

/// Zooms by the wheel from the whole trace down to one request, which a click then names; moves by
/// dragging to another one; and shows all again after a double click.
#[test]
fn the_wheel_and_the_pointer_go_to_a_single_request() {
    let Some(chromium) = tool("chromium") else { return };
    let bench = Bench::new();
    bench.file("regular.csv", regular_trace(REQUESTS));
    bench.stdout(&["inspect", "regular.csv", "--html", "page.html"]);
    let mut browser = Browser::open(&chromium, &bench.path(""), &bench.path("page.html"));
    let said = browser.ready();
    assert_eq!(said["requests"], REQUESTS.to_string(), "{said}");
    let [left, top, width] = browser.place("timeline");
    let duration = ((REQUESTS - 1) * PERIOD) as f64;

    // A place in the middle of a request: the wheel keeps the time under the pointer.
    let time_at = |x: f64| (x - left) / width * duration;
    let within =
        |x: &f64| (time_at(*x) % PERIOD as f64 - TAKES as f64 / 2.0).abs() < TAKES as f64 / 4.0;
    let x = (400..800).map(f64::from).find(within).expect("a place within a request");
    let y = top + 20.0;
    let target = (time_at(x) / PERIOD as f64) as u64;
    let (mut seen, mut steps) = (said, 0);
    while seen["bars"] != "1" {
        assert!(steps < 100, "{seen}");
        browser.wheel(x, y, -100.0);
        seen = browser.drawn();
        steps += 1;
    }
    // A factor of 1.3 a step: from 12 s to less than two periods.
    let range = duration / 1.3f64.powi(steps);
    assert!(range < 2.0 * PERIOD as f64 && range > TAKES as f64 / 2.0, "{steps} steps: {seen}");
    browser.drag((x, y), &[]);
    let named = |seen: &serde_json::Value, n: u64| {
        let expected = format!("request {n}: read of 4 KiB at sector {}, ", n * 8);
        seen["picked"].as_str().is_some_and(|text| text.starts_with(&expected))
    };
    let seen = browser.drawn();
    assert!(named(&seen, target), "request {target}: {seen}");

    // Three periods to the left of it, in steps that stay on the screen.
    let pixels = 3.0 * PERIOD as f64 / range * width;
    let part = pixels / (pixels / 300.0).ceil();
    for _ in 0..(pixels / part).round() as u32 {
        browser.drag((x, y), &[(x + part / 2.0, y), (x + part, y)]);
    }
    browser.drawn();
    browser.drag((x, y), &[]);
    let seen = browser.drawn();
    assert!(named(&seen, target - 3), "request {}: {seen}", target - 3);

    browser.value("document.getElementById('timeline').dispatchEvent(new MouseEvent('dblclick'))");
    let seen = browser.drawn();
    assert!(
        seen["where"].as_str().is_some_and(|text| text.contains("120,000 requests begin")),
        "{seen}"
    );
}

/// On a phone two fingers zoom, buttons zoom and move, and fields set the window. Nothing is wider
/// than the screen.
#[test]
fn a_phone_has_buttons_a_pinch_and_a_time_window() {
    let Some(chromium) = tool("chromium") else { return };
    let bench = Bench::new();
    bench.file("regular.csv", regular_trace(REQUESTS));
    bench.stdout(&["inspect", "regular.csv", "--html", "page.html"]);
    let mut browser = Browser::open(&chromium, &bench.path(""), &bench.path("page.html"));
    browser.ready();
    browser.be_a_phone();
    let page = browser.value("[document.documentElement.scrollWidth, innerWidth]");
    assert_eq!(page, serde_json::json!([390, 390]));
    // The window in seconds, as its fields have it.
    let window = |browser: &mut Browser| {
        browser.drawn();
        ["window-from", "window-to"].map(|id| {
            let value = browser.value(&format!("+document.getElementById('{id}').value"));
            value.as_f64().expect("a number")
        })
    };
    let near = |found: [f64; 2], expected: [f64; 2]| {
        let is_near = |at: usize| (found[at] - expected[at]).abs() < 0.02;
        assert!(is_near(0) && is_near(1), "{found:?} is not {expected:?}");
    };
    near(window(&mut browser), [0.0, 12.0]);
    let press = |browser: &mut Browser, id: &str| {
        browser.value(&format!("document.getElementById('{id}').click()"));
    };
    press(&mut browser, "closer");
    near(window(&mut browser), [3.0, 9.0]);
    press(&mut browser, "later");
    near(window(&mut browser), [4.5, 10.5]);
    press(&mut browser, "earlier");
    press(&mut browser, "farther");
    near(window(&mut browser), [0.0, 12.0]);
    browser.value(
        "(() => { for (const [id, value] of [['window-from', 2], ['window-to', 4]]) by = document.getElementById(id), by.value = value;
           by.dispatchEvent(new Event('change')); })()",
    );
    near(window(&mut browser), [2.0, 4.0]);
    press(&mut browser, "whole");
    // The times below the fingers stay below them: a quarter and three quarters of the width.
    browser.value("document.getElementById('timeline').scrollIntoView({ block: 'center' })");
    let [left, top, width] = browser.place("timeline");
    let at = |part: f64| (part.mul_add(width, left), top + 60.0);
    browser.pinch([at(0.4), at(0.6)], [at(0.25), at(0.75)]);
    near(window(&mut browser), [3.6, 8.4]);
}
