//! Tests the page of a server in a real browser, and the JSON that it draws.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::browser::Browser;
use crate::common::http::get;
use crate::common::served::{CACHED, Served};
use elevon_testkit::tool;
use serde_json::Value;

const CONFIG: &str = "\
listen = 'unix:s'
control = 'ctl'
metrics = 'METRICS'
[device.fast]
device = './disk.img'
[device.'<b>other']
device = 'slots:slots=1,latency=100us,bandwidth=1GB/s,size=1GiB'
[export.a]
device = 'fast'
tenant = 'shop/<i>a'
[export.b]
device = '<b>other'
[tenant.'shop/<i>a']
limit = { iops = 20 }
";

#[test]
fn the_api_tells_what_ctl_tells() {
    let served = Served::config(&CONFIG.replace("METRICS", "unix:m"));
    let stop = Arc::new(AtomicBool::new(false));
    let writing = served.load("a", &stop);
    let path = served.bench.path("m");
    let json = |path_of: &str| -> (u16, Value) {
        let answer = get(&path, path_of, "");
        assert_eq!(answer.header("content-type"), "application/json");
        (answer.status, serde_json::from_str(&answer.body).expect("JSON"))
    };
    let (status, explained) = json("/api/explain?tenant=shop%2F%3Ci%3Ea&over_ms=500");
    assert_eq!(status, 200, "{explained}");
    let device = &explained["devices"][0];
    assert_eq!(
        (device["device"].as_str(), device["tenant"].as_str()),
        (Some("fast"), Some("shop/<i>a"))
    );
    let limited = device["causes"].as_array().expect("causes")[0].clone();
    assert_eq!(limited["words"], "own limit iops=20");
    assert!(limited["share"].as_f64() > Some(50.0), "{explained}");
    for (path, status, words) in [
        ("/api/explain?tenant=none", 404, "none: no such tenant; there are /, b, shop, shop/<i>a"),
        ("/api/explain", 400, "tenant is missing: expected its path"),
        (
            "/api/explain?tenant=shop&over_ms=1",
            400,
            "over_ms: expected a whole number from 200 to 5000",
        ),
    ] {
        let (found, answer) = json(path);
        assert_eq!((found, answer["error"].as_str()), (status, Some(words)));
    }
    stop.store(true, Ordering::Relaxed);
    let writes = writing.join().expect("every write was answered");
    // What was seen a moment ago is told again, clients that have gone meanwhile among it.
    let began = std::time::Instant::now();
    let of = |stats: &Value| stats["devices"][0]["tenants"][2]["ios"]["write"].as_u64();
    let mut page = json("/api/stats").1;
    while of(&page) != Some(writes) || page["exports"][0]["clients"] != Value::Array(Vec::new()) {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{page}");
        page = json("/api/stats").1;
    }
    let ctl = ["ctl", "ctl", "stats", "--output-format", "json"];
    let ctl: Value = serde_json::from_str(&served.bench.stdout(&ctl)).expect("JSON");
    assert_eq!((of(&ctl), &page["exports"]), (Some(writes), &ctl["exports"]));
    let html = get(&path, "/", "");
    assert_eq!((html.status, html.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(html.header("content-security-policy").contains("default-src 'none'"));
    served.end();
}

/// Waits until a condition of the page holds.
fn until(browser: &mut Browser, condition: &str) {
    let script = format!(
        "new Promise((done, fail) => {{ const began = Date.now(), look = () => {{
           if ({condition}) done(true);
           else if (Date.now() - began > 60000) fail(new Error(document.body.innerText + JSON.stringify(document.body.dataset)));
           else setTimeout(look, 20); }}; look(); }})"
    );
    assert_eq!(browser.value(&script), true);
}

#[test]
fn the_page_shows_what_the_server_does() {
    let Some(chromium) = tool("chromium") else { return };
    let mut served = Served::config(&CONFIG.replace("METRICS", "tcp:127.0.0.1:0"));
    // An address for each export comes first.
    assert!(served.line().starts_with("nbd+unix:///b"));
    let line = served.line();
    let address = line
        .strip_prefix("metrics: ")
        .and_then(|it| it.strip_suffix("metrics"))
        .expect("an address")
        .to_owned();
    let stop = Arc::new(AtomicBool::new(false));
    let writing = [served.load("a", &stop), served.load("b", &stop)];
    let mut browser = Browser::open_address(&chromium, &served.bench.path(""), &address);
    until(&mut browser, "document.body.dataset.samples >= 2");
    assert_eq!(browser.value("document.body.dataset.error || null"), Value::Null);
    // A device without a page cache has no part for one.
    assert_eq!(browser.value("document.getElementById('page-cache').offsetHeight"), 0);
    // What a tenant is called is text, never a part of the page.
    let paths =
        browser.value("[...document.querySelectorAll('#tenants tr')].map(row => row.dataset.path)");
    assert_eq!(paths, serde_json::json!(["shop", "shop/<i>a"]));
    until(
        &mut browser,
        "document.querySelector('#tenants tr:last-child td:last-child').textContent.includes('own limit iops=20')",
    );
    // The latency is that of all, until a click chooses a tenant.
    until(
        &mut browser,
        "document.getElementById('heat-of').textContent === 'of all tenants' && document.body.dataset.cells > 0",
    );
    browser.value("document.querySelector('#tenants tr:last-child').click()");
    until(&mut browser, "document.getElementById('heat-of').textContent === 'of shop/<i>a'");
    until(&mut browser, "document.body.dataset.cells > 0");
    // Each plot has something drawn.
    for id in ["throughput", "busy", "heat"] {
        let drawn = format!(
            "(() => {{ const c = document.getElementById('{id}'); return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v > 0); }})()"
        );
        assert_eq!(browser.value(&drawn), true, "{id}");
    }
    // The other device does I/O all the time.
    browser.value(
        "(() => { const s = document.getElementById('device'); s.value = '<b>other'; s.dispatchEvent(new Event('change')); })()",
    );
    until(&mut browser, "parseFloat(document.getElementById('utilisation').textContent) > 1");
    let exports = browser.value("document.getElementById('exports').innerText");
    assert_eq!(
        exports.as_str().map(|text| text.split_whitespace().collect::<Vec<_>>()),
        Some(vec!["b", "b", "1,073,741,824", "1", "open"])
    );
    assert_eq!(browser.value("document.querySelectorAll('main b, main i').length"), 0);
    stop.store(true, Ordering::Relaxed);
    for writing in writing {
        assert!(writing.join().expect("every write was answered") > 0);
    }
    served.end();
    until(
        &mut browser,
        "document.getElementById('state').textContent.startsWith('The server does not answer')",
    );
}

#[test]
fn the_page_shows_a_page_cache_and_who_is_held_by_it() {
    let Some(chromium) = tool("chromium") else { return };
    let mut served = Served::config(CACHED);
    // An address for each export comes first.
    served.line();
    let line = served.line();
    let address = line
        .strip_prefix("metrics: ")
        .and_then(|it| it.strip_suffix("metrics"))
        .expect("an address");
    let stop = Arc::new(AtomicBool::new(false));
    let writing = served.load_of_cache("a", &stop);
    let mut browser = Browser::open_address(&chromium, &served.bench.path(""), address);
    until(&mut browser, "document.getElementById('page-cache').offsetHeight > 0");
    until(&mut browser, "document.getElementById('cached').textContent.includes('kB of ')");
    until(&mut browser, "parseFloat(document.getElementById('dirty').textContent) > 0");
    until(&mut browser, "/^[1-9].*B.s$/.test(document.getElementById('written').textContent)");
    until(&mut browser, "document.getElementById('hits').textContent === '100.0 %'");
    let held = "document.querySelector('#tenants tr:first-child td:last-child').textContent";
    until(&mut browser, &format!("{held}.includes('held by its dirty pages')"));
    let found = "document.querySelector('#tenants tr:first-child td:nth-last-child(2)')";
    until(&mut browser, &format!("{found}.textContent === '100.0 %' && {found}.offsetWidth > 0"));
    assert_eq!(browser.value("document.getElementById('cache-mode').textContent"), "write-back");
    assert_eq!(browser.value("document.getElementById('cache-lost').hidden"), true);
    let drawn = "(() => { const c = document.getElementById('cache'); return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v > 0); })()";
    assert_eq!(browser.value(drawn), true);
    // The other tenant does nothing.
    let other =
        "document.querySelector('#tenants tr:last-child').innerText.split(/\\s+/).slice(-2)";
    assert_eq!(browser.value(other), serde_json::json!(["-", "-"]));
    stop.store(true, Ordering::Relaxed);
    writing.join().expect("every request was answered");
    served.end();
}
