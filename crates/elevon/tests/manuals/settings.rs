//! Checks that each setting of `--set` is one row: the lists, the report and
//! `docs/reference/settings.md` contain it, and its default is accepted. `UPDATE_DOCS=1 cargo test
//! -p elevon --test manuals settings` writes the document.

use std::fmt::Write;

use crate::common::Bench;
use elevon_cache::page_cache::CacheConfig;
use elevon_cache::settings;
use elevon_core::kernel::Kernel;
use elevon_core::limits::{QueueLimits, SYSFS};
use elevon_core::sched::SchedulerConfig;
use elevon_core::setting::{SettingLine, SettingRow, SettingValue};
use elevon_core::stack::config::{self, StackConfig};
use elevon_core::units::{Bytes, Sectors, TaskId};
use elevon_testkit::hold_document;
use serde_json::Value;

const HEAD: &str = "\
# Settings of a run

`--set KEY=VALUE` sets one of these. If a key is given twice, the last value counts. A report's
`Config` has the values in force. `elevon schedulers` lists the settings too, with the tunables of
each scheduler. `--scheduler NAME:tunable=value` sets a tunable.

Values of `--set` and of tunables are plain numbers in the kernel's units. A number of bytes may end
in `k`, `m` or `g`, for powers of 1024.

Everywhere else on the command line, in devices and in tenants' files, a size has its unit:

- `4Ki` and `4KiB` are 4096 bytes. `4kB` and `4KB` are 4000.
- `4K` is 4096 in `--memory` and `--cache`, and 4000 in tenants' files. A device refuses it, because
  devices are sold in both units.
- A plain number is a number of bytes in tenants' files only.
- A rate may end in `/s`. A time ends in `ns`, `us`, `ms` or `s`.
- All take decimals, as in `1.5us`. A rest of less than a byte or a nanosecond is dropped.

<!-- From here on made from the tables of settings:
UPDATE_DOCS=1 cargo test -p elevon --test manuals settings -->
";

fn all() -> Vec<SettingLine> {
    config::lines().into_iter().chain(settings::lines()).collect()
}

fn bench() -> Bench {
    let bench = Bench::new();
    bench.file("reads.fio", "[a]\nrw=randread\nbs=4k\nioengine=psync\nsize=1m\n");
    bench
}

#[test]
fn the_document_is_made_of_the_tables() {
    let cell = |text: &str| text.replace('|', "\\|");
    let table = |title: &str, lines: &[SettingLine]| {
        let mut text =
            format!("\n## {title}\n\n| key | takes | default | meaning |\n|---|---|---|---|\n");
        for SettingLine { key, takes, default, help } in lines {
            let _ = writeln!(
                text,
                "| `{key}` | {} | {} | {} |",
                cell(takes),
                cell(default),
                cell(help)
            );
        }
        text
    };
    let mut expected = HEAD.to_owned();
    expected += &table("The queue", &config::lines());
    expected += &table("The page cache (with `--memory` or `--cache`)", &settings::lines());
    expected += "\n## Queue limits (defaults are the device's)\n\n| key | unit | meaning |\n|---|---|---|\n";
    for limit in SYSFS {
        let note =
            limit.why_fixed().map_or_else(String::new, |why| format!(" (cannot be set: {why})"));
        let _ = writeln!(
            expected,
            "| `{}` | {} | {}{note} |",
            limit.name,
            limit.unit,
            cell(limit.help)
        );
    }
    hold_document("docs/reference/settings.md", |_| expected);
}

#[test]
fn lists_have_every_setting() {
    let listed = bench().stdout(&["schedulers"]);
    let keys = all().into_iter().map(|line| line.key).chain(SYSFS.iter().map(|limit| limit.name));
    for key in keys {
        assert!(listed.lines().any(|line| line.split_whitespace().next() == Some(key)), "{key}");
    }
}

/// A run in which every setting can be set.
const EVERYTHING: [&str; 6] =
    ["--memory", "64MiB,others=16MiB,idle=8MiB,zram=4MiB", "--kernel", "7.3", "--scheduler", "bfq"];

/// Returns the settings in force from the report of this run.
fn in_force(bench: &Bench, options: &[&str], set: &[String]) -> Value {
    let set: Vec<&str> = set.iter().flat_map(|pair| ["--set", pair]).collect();
    bench.json("reads.fio", &[options, &set].concat())["elevon"]["config"].clone()
}

#[test]
fn a_run_takes_every_setting_with_the_value_that_is_in_force_without_it() {
    let (bench, options) = (bench(), EVERYTHING);
    let before = in_force(&bench, &options, &[]);
    let value = |line: &SettingLine| match &before[line.key] {
        Value::Null => Some(line.default.clone()).filter(|default| !default.starts_with("by ")),
        value => Some(value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)),
    };
    let set: Vec<String> =
        all().iter().filter_map(|line| Some(format!("{}={}", line.key, value(line)?))).collect();
    // The path of buffered I/O is that of the files, unless it is set.
    assert_eq!(
        set.len() + ["queue_depth", "hw_queues", "buffered_path"].len(),
        all().len(),
        "{set:?}"
    );
    assert_eq!(in_force(&bench, &options, &set), before);
}

#[test]
fn a_report_has_every_setting_that_is_not_the_default() {
    let (bench, options) = (bench(), EVERYTHING);
    let usual = in_force(&bench, &options, &[]);
    for line in all().iter().filter(|line| !matches!(line.key, "queue_depth" | "hw_queues")) {
        let other = match line.takes.split_once("..") {
            // The job reads.
            _ if line.key == "error_injection" => {
                vec!["add,op=WRITE,status=IOERR,start=0".to_owned()]
            }
            Some((least, most)) => {
                let number = |text: &str| {
                    text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).expect("a number")
                };
                // The minimum is not used, because an end of the range is often the default.
                [4, 8].map(|n| number(least).max(n).min(number(most)).to_string()).to_vec()
            }
            None => line.takes.split('|').map(str::to_owned).collect(),
        };
        let is_reported = |value: &String| {
            let set = [format!("{}={value}", line.key)];
            let now = in_force(&bench, &options, &set);
            now != usual
                && now[line.key].as_str().map_or_else(|| now[line.key].to_string(), str::to_owned)
                    == *value
        };
        assert!(other.iter().any(is_reported), "{}: none of {other:?} is in the report", line.key);
    }
}

/// Checks every row of a table: it accepts its own value, its listed default, the ends of its range
/// and each of its words, then shows that value, and refuses anything else without a change.
fn rows_hold<C: Clone>(rows: &'static [SettingRow<C>], default: &C) {
    let taken = |row: &SettingRow<C>, text: &str| {
        let mut config = default.clone();
        assert_eq!(row.set(&mut config, text), Ok(()), "{}={text}", row.key);
        row.text(&config)
    };
    for (at, row) in rows.iter().enumerate() {
        let SettingLine { key, takes, default: shown, help } = row.line(default);
        assert!(rows[..at].iter().all(|before| before.key != key), "{key} is there twice");
        assert!(!takes.is_empty() && !help.is_empty() && !shown.is_empty(), "{key}");
        if row.follows.is_none() {
            assert_eq!(taken(row, &shown), shown, "{key}: the default is taken");
            assert_eq!(row.text(default), shown, "{key}: the default is in force");
        }
        let good: Vec<String> = match row.value {
            SettingValue::Number { range: (least, most), .. } => {
                [least, most].map(|n| n.to_string()).into()
            }
            SettingValue::Switch { .. } => ["0", "1"].map(String::from).into(),
            SettingValue::Text { .. } if key == "wbt_lat_usec" => {
                ["0", "9223372036854775"].map(String::from).into()
            }
            SettingValue::Text { .. } if key == "tag_hint" => {
                ["0", "10240"].map(String::from).into()
            }
            SettingValue::Text { .. } if key == "iostats" => ["0", "1"].map(String::from).into(),
            SettingValue::Text { .. } => vec!["removeall".to_owned()],
            SettingValue::Choice { names, .. } => names.iter().map(ToString::to_string).collect(),
        };
        for text in &good {
            assert!(takes.contains(text.as_str()), "{key}: {text} is not among {takes}");
            let in_force = match (key, text.as_str()) {
                // Linux makes it 4.
                ("nr_requests", "0") => "4",
                // Whole pages.
                ("read_ahead_kb", "4294967295") => "4294967292",
                _ => text,
            };
            assert_eq!(taken(row, text), in_force, "{key}");
        }
        for text in ["x", "", "-1", "1.5", "99999999999999999999999"] {
            if text == "-1" && takes.ends_with("or -1") {
                continue;
            }
            let mut config = default.clone();
            let error = row.set(&mut config, text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("{key}={text}: expected ")), "{error}");
            assert_eq!(row.text(&config), row.text(default), "{key}");
        }
    }
}

#[test]
fn every_row_takes_its_default_and_its_range_and_refuses_nonsense() {
    // The queue has the maximum depth, because a smaller one would clamp other values. The
    // schedulers of Linux do not take all of the range.
    let stack = StackConfig {
        kernel: Kernel::V7_3,
        scheduler: SchedulerConfig::parse("aileron").expect("a scheduler"),
        nr_requests: Some(10_240),
        ..StackConfig::new(QueueLimits::default(), Sectors::new(1 << 21), 1, u32::MAX)
    };
    rows_hold(config::SETTINGS, &stack);
    rows_hold(settings::SETTINGS, &CacheConfig::new(Bytes::new(1 << 30), TaskId(0)));
}

/// Returns the exit status and the first line on stderr.
fn refused(bench: &Bench, options: &[&str]) -> (Option<i32>, String) {
    let output =
        bench.elevon(&[&["run", "reads.fio"], options].concat()).output().expect("the command ran");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    (output.status.code(), text.lines().next().unwrap_or_default().to_owned())
}

#[test]
fn a_setting_that_has_two_names_is_given_by_one() {
    let bench = bench();
    bench.file("small.img", "\0".repeat(1 << 20));
    bench.file(
        "twice.toml",
        "[tenant.a]\n'io.max' = 'rbps=1000000 wiops=5'\nlimit = { rbps = '2M' }\n",
    );
    bench.file("once.toml", "[tenant.a]\n'io.max' = 'rbps=1000000'\nlimit = { wbps = '2M' }\n");
    let memory = |set: &[&'static str]| {
        [&["--memory", "64MiB"][..], &set.iter().flat_map(|set| ["--set", set]).collect::<Vec<_>>()]
            .concat()
    };
    let cache = |mode: &'static str, set: &'static str| {
        vec!["--device", "./small.img", "--cache", mode, "--set", set]
    };
    let tenants = |file: &'static str, set: &'static str| vec!["--tenants", file, "--set", set];
    for (options, line) in [
        (
            memory(&["cache=mglru-6.1:min_ttl_ms=7", "min_ttl_ms=5"]),
            "--set min_ttl_ms=5: --set cache=mglru-6.1:min_ttl_ms=7",
        ),
        (
            memory(&["min_ttl_ms=5", "cache=mglru-6.1:min_ttl_ms=7"]),
            "--set min_ttl_ms=5: --set cache=mglru-6.1:min_ttl_ms=7",
        ),
        (
            memory(&["min_ttl_ms=5", "cache=classic"]),
            "--set min_ttl_ms=5: expected cache=mglru-6.1 or mglru-6.14",
        ),
        (
            memory(&["cache=classic", "min_ttl_ms=5"]),
            "--set min_ttl_ms=5: expected cache=mglru-6.1 or mglru-6.14",
        ),
        (
            cache("1MiB,write-through", "cache_mode=write-back"),
            "--set cache_mode=write-back: --cache 1MiB,write-through says",
        ),
        (
            tenants("twice.toml", "io_max=exact"),
            "--set io_max=exact: tenant a has rbps in io.max and in limit",
        ),
        (
            vec!["--device", "ufs-4.0:size=1GiB,size=2GiB"],
            "--device ufs-4.0:size=1GiB,size=2GiB: device ufs-4.0: parameter `size` is given twice",
        ),
    ] {
        let (code, text) = refused(&bench, &options);
        assert!(
            code == Some(2) && text.starts_with(&format!("elevon: {line}")),
            "{options:?}: {text}"
        );
    }
    for options in [
        memory(&["cache=mglru-6.1:min_ttl_ms=7", "min_ttl_ms=7"]),
        memory(&["min_ttl_ms=5", "cache=mglru-6.1"]),
        memory(&["min_ttl_ms=5", "min_ttl_ms=7"]),
        cache("1MiB,write-through", "cache_mode=write-through"),
        cache("1MiB", "cache_mode=write-through"),
        tenants("twice.toml", "io_max=slices"),
        tenants("once.toml", "io_max=exact"),
    ] {
        assert_eq!(
            refused(&bench, &options).0,
            Some(0),
            "{options:?}: {}",
            refused(&bench, &options).1
        );
    }
}

#[test]
fn a_size_is_read_alike_in_memory_a_device_and_a_tenants_file() {
    let bench = bench();
    for size in ["64Mi", "64MiB", "65536kB", "0.0625GiB", "4096MB"] {
        bench.file(
            "size.toml",
            format!("[tenant.a]\nlimit = {{ rbps = '{size}', burst = '{size}' }}\n"),
        );
        let device = format!("slots:size={size}");
        let options = ["--memory", size, "--device", &device, "--tenants", "size.toml"];
        assert_eq!(refused(&bench, &options).0, Some(0), "{size}: {}", refused(&bench, &options).1);
    }
    let (code, text) = refused(&bench, &["--device", "slots:size=4G"]);
    assert!(
        code == Some(2) && text.ends_with("as in 1GiB, from 4KiB to 8388608TiB; write 4GB or 4GiB"),
        "{text}"
    );
}

/// FUA needs a write cache. The order in which the two are given does not matter.
#[test]
fn fua_is_set_after_the_write_cache() {
    let bench = Bench::new();
    let job = bench.file(
        "dsync.fio",
        "[a]\nrw=write\nbs=4k\nsize=64k\ndirect=1\nsync=dsync\nioengine=psync\n",
    );
    let base = ["run", job, "--device", "null:size=1GiB,latency=100us", "--output-format", "json"];
    let cache_first = ["--set", "write_cache=1", "--set", "fua=1"];
    let fua_first = ["--set", "fua=1", "--set", "write_cache=1"];
    let runs = [&cache_first[..], &fua_first, &cache_first[..2]].map(|set| {
        let json: Value =
            serde_json::from_str(&bench.stdout(&[&base[..], set].concat())).expect("JSON");
        let limits = &json["elevon"]["device"]["limits"];
        (limits["fua"].clone(), json["jobs"][0]["write"]["iops"].clone())
    });
    assert_eq!(runs[0], runs[1]);
    assert_eq!((&runs[0].0, &runs[2].0), (&Value::from(true), &Value::from(false)), "{runs:?}");
}

/// Error injection as of Linux 7.2: the newest rule goes first, and what it ends reaches no device.
#[test]
fn bios_end_by_error_injection() {
    let bench = Bench::new();
    let job = bench.file("w.fio", "[a]\nrw=write\nbs=4k\nsize=64k\ndirect=1\nioengine=psync\n");
    let run = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let args: Vec<&str> =
            ["run", job, "--output-format", "json"].into_iter().chain(sets).collect();
        let output = bench.elevon(&args).output().expect("the command ran");
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (
            json["jobs"][0]["error"].as_i64().expect("a number"),
            json["jobs"][0]["write"]["total_ios"].clone(),
            json,
        )
    };
    let medium = "error_injection=add,op=WRITE,status=MEDIUM,start=100,nr_sectors=8";
    let timeout = "error_injection=add,op=WRITE,status=TIMEOUT,start=100";
    let (error, written, json) = run(&[medium]);
    // The thirteenth write reaches sector 100.
    assert_eq!((error, written), (61, Value::from(12)));
    assert_eq!(json["elevon"]["diskstats"]["end"][4], 12, "writes that the device saw");
    let rule = "add,op=WRITE,status=MEDIUM,start=100,nr_sectors=8";
    assert_eq!(json["elevon"]["config"]["error_injection"], rule);
    assert_eq!(run(&[medium, timeout]).0, 110);
    assert_eq!(run(&[timeout, medium]).0, 61);
    assert_eq!(run(&[timeout, "error_injection=removeall"]).0, 0);
    let resource = "error_injection=add,op=WRITE,status=RESOURCE";
    let output = bench.elevon(&["run", job, "--set", resource]).output().expect("the command ran");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("Cannot allocate memory (errno 12)"),
        "an error that no device has: {said}"
    );
    for (args, words) in [
        (["--kernel", "7.1", "--set", medium], "--kernel 7.2 or later, which have error injection"),
        (
            ["--kernel", "7.3", "--set", "error_injection=add,op=TRIM,status=IOERR"],
            "expected op=READ, WRITE",
        ),
    ] {
        let output =
            bench.elevon(&[&["run", job][..], &args].concat()).output().expect("the command ran");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(words), "{said}");
    }
}

/// Every file in queue/ of seven kernels, and the newest one's error injection, is a setting or is
/// refused with a reason; none is unknown.
#[test]
fn every_attribute_of_a_kernel_is_a_setting_or_has_a_reason() {
    let table = std::fs::read_to_string(crate::common::kernel_truth("matrix/queue.tsv"))
        .expect("the attributes");
    let names = table.lines().filter_map(|line| line.split('\t').nth(1)?.strip_prefix("queue/"));
    let names: std::collections::BTreeSet<&str> =
        names.chain(["error_injection", "zoned_qd1_writes"]).collect();
    assert!(names.len() > 50, "{names:?}");
    let is_setting = |name: &str| {
        let is_limit = SYSFS.iter().any(|limit| limit.name == name);
        is_limit || all().iter().any(|line| line.key == name)
    };
    let bench = bench();
    for name in names.into_iter().filter(|name| !is_setting(name)) {
        let output = bench
            .elevon(&["run", "reads.fio", "--set", &format!("{name}=1")])
            .output()
            .expect("the command ran");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
        assert!(error.contains(&format!("--set {name}: not modelled: ")), "{error}");
    }
}
