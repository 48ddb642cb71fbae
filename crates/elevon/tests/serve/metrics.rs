//! Tests the metrics of a server: their form, their agreement with `elevon ctl stats`, and that
//! clients of HTTP cannot hurt I/O.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::common::Bench;
use crate::common::exposition::Exposition;
use crate::common::http::{Answer, get, send};
use crate::common::nbd::{Client, FLUSH, WRITE};
use crate::common::served::Served;
use elevon_testkit::{hold_document, replace_after};
use serde_json::Value;

const CONFIG: &str = "\
listen = 'unix:s'
control = 'ctl'
metrics = 'unix:m'
[device.fast]
device = './disk.img'
[device.bad]
device = 'slots:slots=1,latency=100us,bandwidth=1GB/s,size=1GiB'
fault = 'error:sectors=2048-2055,status=medium'
[export.a]
device = 'fast'
size = '2MiB'
[export.'a \"b\\c']
device = 'fast'
start = '2MiB'
tenant = 'shop/b'
[export.broken]
device = 'bad'
[tenant.a]
limit = { iops = 50 }
";

fn stats(served: &Served) -> Value {
    let args = ["ctl", "ctl", "stats", "--output-format", "json"];
    serde_json::from_str(&served.bench.stdout(&args)).expect("JSON")
}

/// Scrapes, and holds the two formats against each other.
fn scrape(served: &Served) -> Exposition {
    let path = served.bench.path("m");
    let plain = get(&path, "/metrics", "");
    assert_eq!(
        (plain.status, plain.header("content-type")),
        (200, "text/plain; version=0.0.4; charset=utf-8")
    );
    let open = get(
        &path,
        "/metrics",
        "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n",
    );
    assert_eq!(
        open.header("content-type"),
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    let (plain, open) = (Exposition::read(&plain.body, false), Exposition::read(&open.body, true));
    assert_eq!(plain.types.len(), open.types.len());
    plain
}

/// Checks the counters of tenants and devices against the statistics.
fn check_against_statistics(metrics: &Exposition, stats: &Value) {
    for device in stats["devices"].as_array().expect("devices") {
        let name = device["name"].as_str().expect("a name");
        for tenant in device["tenants"].as_array().expect("tenants") {
            let labels = [("device", name), ("tenant", tenant["path"].as_str().expect("a path"))];
            for op in ["read", "write", "discard"] {
                let labels = [labels[0], labels[1], ("op", op)];
                assert_eq!(
                    Some(metrics.value("elevon_tenant_ios_total", &labels)),
                    tenant["ios"][op].as_f64()
                );
                assert_eq!(
                    Some(metrics.value("elevon_tenant_io_bytes_total", &labels)),
                    tenant["bytes"][op].as_f64()
                );
            }
            for (op, counts) in tenant["requests"].as_object().expect("requests") {
                let labels = [labels[0], labels[1], ("op", op.as_str())];
                assert_eq!(
                    Some(metrics.value("elevon_requests_total", &labels)),
                    counts["count"].as_f64()
                );
                assert_eq!(
                    Some(metrics.value("elevon_bytes_total", &labels)),
                    counts["bytes"].as_f64()
                );
                let took = metrics.value("elevon_request_duration_seconds_sum", &labels);
                assert!((took - counts["ns"].as_f64().expect("a time") / 1e9).abs() < 1e-9);
            }
        }
        for op in ["read", "write", "discard"] {
            let labels = [("device", name), ("op", op)];
            assert_eq!(
                Some(metrics.value("elevon_device_ios_total", &labels)),
                device["requests"][op]["ios"].as_f64()
            );
        }
    }
}

#[test]
fn metrics_have_the_form_of_the_format_and_agree_with_the_statistics() {
    let served = Served::config(CONFIG);
    let client = |export: &str| Client::open(&served.bench.path("s"), export).expect("it listens");
    let (mut a, mut b, mut broken) = (client("a"), client("a \"b\\c"), client("broken"));
    // All at once: the limit holds what has come, not a client that is slow.
    let writes: Vec<u64> = (0..10)
        .map(|block| a.send(0, WRITE, block * 4096, 4096, &[1; 4096]).expect("sent"))
        .collect();
    for block in 0..10 {
        assert!(b.read(block * 4096, 8192).expect("an answer").is_ok());
    }
    assert!(writes.iter().all(|_| a.answer().expect("an answer").1 == 0));
    assert_eq!(b.flush().expect("an answer"), 0);
    assert_eq!(broken.read(2048 * 512, 4096).expect("an answer"), Err(5), "EIO");
    let metrics = scrape(&served);
    let stats = stats(&served);
    check_against_statistics(&metrics, &stats);
    let of = |device, tenant, op| vec![("device", device), ("tenant", tenant), ("op", op)];
    assert_eq!(metrics.value("elevon_requests_total", &of("fast", "a", "write")), 10.0);
    assert_eq!(metrics.value("elevon_bytes_total", &of("fast", "shop/b", "read")), 81920.0);
    assert_eq!(metrics.value("elevon_requests_total", &of("fast", "shop/b", "flush")), 1.0);
    assert_eq!(metrics.sum("elevon_requests_total"), 22.0, "a request is counted once");
    let error = [of("bad", "broken", "read"), vec![("errno", "EIO")]].concat();
    assert_eq!(metrics.value("elevon_request_errors_total", &error), 1.0);
    // Ten writes of 50 a second wait, together 0.9 s, and the limit is named.
    let limit =
        [("device", "fast"), ("tenant", "a"), ("cause", "limit"), ("rule", "iops"), ("level", "a")];
    let waited = metrics.value("elevon_tenant_wait_seconds_total", &limit);
    assert!(waited > 0.1, "{waited}");
    assert!(
        metrics.value("elevon_request_duration_seconds_sum", &of("fast", "a", "write")) > waited
    );
    let export = [("export", "a \"b\\c"), ("device", "fast"), ("tenant", "shop/b")];
    assert_eq!(metrics.value("elevon_export_connections", &export), 1.0);
    assert_eq!(metrics.value("elevon_export_size_bytes", &export), (6 << 20) as f64);
    assert_eq!(
        (metrics.sum("elevon_connections"), metrics.sum("elevon_device_failed")),
        (3.0, 0.0)
    );
    assert!(metrics.value("elevon_device_busy_seconds_total", &[("device", "bad")]) > 0.0);
    assert_eq!(metrics.value("elevon_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);
    assert!(metrics.value("process_start_time_seconds", &[]) > 1.7e9);
    served.end();
}

/// What a page cache of a device did, for programs and for people.
#[test]
fn a_page_cache_is_counted_where_there_is_one() {
    let config = CONFIG.replace("device = './disk.img'", "device = './disk.img'\ncache = '1MiB'");
    let served = Served::config(&config);
    let mut b = Client::open(&served.bench.path("s"), "a \"b\\c").expect("it listens");
    assert_eq!(b.write(0, 0, &[1; 8192]).expect("an answer"), 0);
    for _ in 0..3 {
        assert_eq!(b.read(0, 8192).expect("an answer"), Ok(vec![1; 8192]));
    }
    let metrics = scrape(&served);
    let device = [("device", "fast")];
    assert_eq!(metrics.value("elevon_cache_hit_bytes_total", &device), 24576.0);
    assert_eq!(metrics.value("elevon_cache_missed_bytes_total", &device), 0.0);
    assert_eq!(
        (metrics.sum("elevon_cache_dirty_bytes"), metrics.sum("elevon_cache_lost")),
        (8192.0, 0.0)
    );
    let tenant = [("device", "fast"), ("tenant", "shop/b")];
    assert_eq!(metrics.value("elevon_tenant_cache_hits_total", &tenant), 3.0);
    assert_eq!(b.flush().expect("an answer"), 0);
    let stats = stats(&served);
    let cache = &stats["devices"][0]["cache"];
    assert_eq!(
        (cache["mode"].as_str(), cache["written_bytes"].as_u64()),
        (Some("write-back"), Some(8192))
    );
    assert!(stats["devices"][1]["cache"].is_null(), "the other has none");
    let text = served.bench.stdout(&["ctl", "ctl", "stats"]);
    assert!(
        text.contains("page cache, write-back: 100.0 % of what was read was there; "),
        "{text}"
    );
    served.end();
}

/// `UPDATE_DOCS=1 cargo test -p elevon --test serve the_reference` writes the table.
#[test]
fn the_reference_has_every_metric() {
    let config = CONFIG
        .replace("device = './disk.img'", "device = './disk.img'\ncache = '1MiB'")
        .replace("limit = { iops = 50 }", "limit = { iops = 50 }\nreserve = { iops = 10 }");
    let served = Served::config(&config);
    let open = |export| Client::open(&served.bench.path("s"), export).expect("it listens");
    let (mut broken, mut cached) = (open("broken"), open("a"));
    assert!(broken.read(1 << 20, 4096).expect("an answer").is_err());
    assert!(broken.read(1 << 40, 4096).expect("an answer").is_err());
    assert!(cached.read(0, 4096).expect("an answer").is_ok());
    let text = get(&served.bench.path("m"), "/metrics", "").body;
    served.end();
    let labels = |name: &str| {
        let samples = text.lines().filter_map(|line| line.strip_prefix(name));
        let mut labels: Vec<&str> = Vec::new();
        for list in samples.filter_map(|rest| rest.strip_prefix('{')) {
            let names = list.split("=\"").filter_map(|part| part.rsplit([',', '{', '"']).next());
            let is_name = |name: &&str| {
                !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            };
            labels.extend(names.filter(is_name));
        }
        labels.retain(|label| *label != "le");
        labels.sort_unstable();
        labels.dedup();
        labels.join(", ")
    };
    let mut table = "\n| metric | type | labels | meaning |\n|---|---|---|---|\n".to_owned();
    for line in text.lines() {
        let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        let kind = text.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} ")));
        let kind = kind.expect("a type");
        let sample = if kind == "histogram" { format!("{name}_bucket") } else { name.to_owned() };
        table += &format!("| `{name}` | {kind} | {} | {help} |\n", labels(&sample));
    }
    const MARK: &str = "<!-- From here on made of a scrape -->\n";
    hold_document("docs/reference/metrics.md", |page| replace_after(page, MARK, &table));
}

#[test]
fn requests_that_never_reach_the_device_are_counted_by_their_reason() {
    let served =
        Served::config(&CONFIG.replace("[export.broken]\n", "[export.broken]\nread_only = true\n"));
    let client = |export: &str| Client::open(&served.bench.path("s"), export).expect("it listens");
    let (mut a, mut broken) = (client("a"), client("broken"));
    let end = 2 << 20;
    for (offset, length) in [(end, 512), (end - 512, 1024)] {
        assert_eq!(a.read(offset, length).expect("an answer"), Err(22), "{offset} {length}");
    }
    assert_eq!(a.write(0, end, &[1; 512]).expect("an answer"), 28, "ENOSPC");
    assert_eq!(broken.read(0, 64 << 20).expect("an answer"), Err(75), "EOVERFLOW");
    assert_eq!(broken.write(0, 0, &[1; 512]).expect("an answer"), 1, "EPERM");
    a.send(1 << 15, FLUSH, 0, 0, &[]).expect("sent");
    a.send(0, 99, 0, 0, &[]).expect("sent");
    a.answer().and_then(|_| a.answer()).expect("two answers");
    let metrics = scrape(&served);
    let refused = |device, tenant, op, reason| {
        let labels = [("device", device), ("tenant", tenant), ("op", op), ("reason", reason)];
        metrics.value("elevon_requests_refused_total", &labels)
    };
    assert_eq!(refused("fast", "a", "read", "out_of_range"), 2.0);
    assert_eq!(refused("fast", "a", "write", "out_of_range"), 1.0);
    assert_eq!(refused("fast", "a", "flush", "malformed"), 1.0);
    assert_eq!(refused("fast", "a", "other", "command"), 1.0);
    assert_eq!(refused("bad", "broken", "read", "too_long"), 1.0);
    assert_eq!(refused("bad", "broken", "write", "read_only"), 1.0);
    assert_eq!(metrics.sum("elevon_requests_refused_total"), 7.0);
    assert_eq!(metrics.sum("elevon_requests_total"), 0.0, "they are not among the others");
    served.end();
}

#[test]
fn requests_of_parts_of_blocks_are_refused_to_who_was_told_the_blocks() {
    let served = Served::config(
        "listen = 'unix:s'\nmetrics = 'unix:m'\n[device.d]\ndevice = 'ufs-3.1'\n[export.a]\n",
    );
    let mut told = Client::open_with_blocks(&served.bench.path("s"), "a").expect("it listens");
    for (offset, length) in [(512, 4096), (0, 100)] {
        assert_eq!(told.read(offset, length).expect("an answer"), Err(22), "{offset} {length}");
    }
    let labels = [("device", "d"), ("tenant", "a"), ("op", "read"), ("reason", "unaligned")];
    assert_eq!(scrape(&served).value("elevon_requests_refused_total", &labels), 2.0);
    served.end();
}

#[test]
fn connections_that_are_refused_are_counted_by_the_reason() {
    let config = CONFIG
        .replace("control", "max_connections = 2\ncontrol")
        .replace("size = '2MiB'", "size = '2MiB'\nmax_connections = 1");
    let served = Served::config(&config);
    let open = |export: &str| Client::open(&served.bench.path("s"), export);
    let of = |reason: &'static str| ("elevon_connections_refused_total", [("reason", reason)]);
    let value = |(name, labels): (&str, [(&str, &str); 1])| scrape(&served).value(name, &labels);
    for reason in ["max_connections", "unknown_export", "tls_required", "too_many_unopened"] {
        assert_eq!(value(of(reason)), 0.0, "{reason} is there from the start");
    }
    let a = open("a").expect("room");
    let refused = ["a", "none", "none"].map(|export| open(export).is_err());
    let b = open("broken").expect("room");
    assert_eq!((refused, open("broken").is_err()), ([true; 3], true));
    drop((a, b));
    served.bench.stdout(&["ctl", "ctl", "drain", "broken"]);
    assert!(open("broken").is_err());
    // A client that looks whether there is a server, and one that asks for nothing else than the
    // list, are not refused.
    drop(UnixStream::connect(served.bench.path("s")).expect("it listens"));
    let mut lists = UnixStream::connect(served.bench.path("s")).expect("it listens");
    lists
        .write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x03\0\0\0\0IHAVEOPT\0\0\0\x02\0\0\0\0")
        .expect("LIST and ABORT");
    let mut list = Vec::new();
    lists.read_to_end(&mut list).expect("a list");
    assert!(list.windows(6).any(|bytes| bytes == b"broken"), "one that is drained is listed");
    let expected = [
        ("max_connections_of_export", 1.0),
        ("unknown_export", 2.0),
        ("max_connections", 1.0),
        ("drained", 1.0),
    ];
    // A connection is counted when its thread ends.
    let began = Instant::now();
    while expected.iter().any(|(reason, count)| value(of(reason)) != *count) {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{:?}",
            expected.map(|(reason, _)| value(of(reason)))
        );
    }
    assert_eq!(scrape(&served).sum("elevon_connections_refused_total"), 5.0);
    served.end();
}

#[test]
fn a_request_that_is_none_is_refused() {
    let served = Served::config(CONFIG);
    let path = served.bench.path("m");
    assert_eq!(get(&path, "/none", "").status, 404);
    let head = send(&path, "HEAD /metrics?x=1 HTTP/1.0\r\n\r\n").expect("an answer");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert!(head.header("content-length").parse::<u64>().is_ok_and(|bytes| bytes > 1000));
    let head = send(&path, "HEAD /none HTTP/1.1\r\nHost: h\r\n\r\n").expect("an answer");
    assert_eq!(
        (head.status, head.body.as_str()),
        (404, ""),
        "a refusal of HEAD has no body either"
    );
    assert!(head.header("date").ends_with(" GMT"));
    let far =
        send(&path, "GET http://localhost/metrics HTTP/1.1\r\nHost: h\r\n\r\n").expect("an answer");
    assert_eq!((far.status, far.header("vary")), (200, "Accept"));
    let post = "POST /metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody";
    let post = send(&path, post).expect("an answer");
    assert_eq!((post.status, post.header("allow")), (405, "GET, HEAD"));
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    for bad in ["nonsense\r\n\r\n", "GET\r\n\r\n", "GET /metrics HTTP/1.1\r\n\r\n", "\0\r\n\r\n"] {
        assert_eq!(send(&path, bad).map(|answer| answer.status), Some(400), "{bad:?}");
    }
    // The rest of it may not be taken any more, which can lose the answer.
    assert!(send(&path, &long).is_none_or(|answer| answer.status == 431));
    served.end();
}

#[test]
fn clients_that_are_silent_or_do_not_read_hurt_no_one_for_long() {
    let served = Served::config(CONFIG);
    let path = served.bench.path("m");
    let mut silent: Vec<UnixStream> =
        (0..100).filter_map(|_| UnixStream::connect(&path).ok()).collect();
    for stream in &mut silent {
        // One too many is closed, and cannot be written to.
        let _ = stream.write_all(b"GET /metrics HT");
    }
    let mut b = Client::open(&served.bench.path("s"), "a \"b\\c").expect("it listens");
    for block in 0..200 {
        assert_eq!(b.write(0, block * 4096, &[1; 4096]).expect("an answer"), 0);
    }
    // They are sent away when their time is over, though they are still there.
    let began = Instant::now();
    let request = "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n";
    while send(&path, request).is_none_or(|answer| answer.status != 200) {
        assert!(began.elapsed() < Duration::from_secs(60), "there is room again");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(
        scrape(&served).value(
            "elevon_requests_total",
            &[("device", "fast"), ("tenant", "shop/b"), ("op", "write")]
        ),
        200.0
    );
    drop(silent);
    served.end();
}

#[test]
fn a_single_disk_has_metrics_at_a_port() {
    let mut served = Served::start(&["--metrics", "tcp:127.0.0.1:0"]);
    let line = served.line();
    let place = line
        .strip_prefix("metrics: http://")
        .and_then(|rest| rest.strip_suffix("/metrics"))
        .expect("a place");
    let mut stream = TcpStream::connect(place).expect("it listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").expect("sent");
    let metrics = Exposition::read(&Answer::read(&mut stream).expect("an answer").body, false);
    let export = [("export", "disk.img"), ("device", "disk.img"), ("tenant", "/")];
    assert_eq!(metrics.value("elevon_export_connections", &export), 0.0);
    served.end();
}

#[test]
fn an_address_that_is_none_is_an_error_of_one_line() {
    let bench = Bench::new();
    bench.file("disk.img", [0; 4096]);
    bench.file("c.toml", CONFIG.replace("'unix:m'", "'tcp:localhost'"));
    for (args, expected) in [
        (
            &["disk.img", "--listen", "unix:s", "--metrics", "9464"][..],
            "elevon: --metrics 9464: is no address; write unix:PATH or tcp:HOST:PORT\n",
        ),
        (
            &["disk.img", "--listen", "unix:s", "--metrics", "tcp:x"],
            "elevon: --metrics tcp:x: has no port; 9464 is usual for metrics: tcp:127.0.0.1:9464\n",
        ),
        (
            &["c.toml", "--check"],
            "elevon: c.toml:3:11: metrics: tcp:localhost: has no port; 9464 is usual for metrics: tcp:127.0.0.1:9464\n",
        ),
    ] {
        let output = bench.elevon(&[&["serve"], args].concat()).output().expect("it ran");
        assert_eq!(
            (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
            (Some(2), expected)
        );
    }
}
