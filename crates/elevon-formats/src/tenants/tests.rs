use super::*;
use crate::cgroup::{Cap, CostQos, IoMax, Limit, LimitKey, WeightFile};
use elevon_core::control::io_throttle::{self, Policy};
use elevon_core::ioprio::PrioPolicy;
use elevon_core::kernel::Kernel;

fn good(text: &str) -> TenantsFile {
    parse("t.toml", text, &Kernel::V6_18.rules())
        .unwrap_or_else(|errors| panic!("{text}\n{errors:?}"))
}

fn bad(text: &str) -> Vec<String> {
    let errors = parse("t.toml", text, &Kernel::V6_18.rules())
        .err()
        .unwrap_or_else(|| panic!("taken: {text}"));
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn every_key_of_a_tenant() {
    let file = good(
        r#"
[tenant."batch/nightly"]
"io.max" = ["8:0 rbps=1048576", "8:0 wiops=100"]
weight = 200
class = "restrict-to-be"
latency = "5ms"
limit = { rbps = "10M", wbps = 4096, bps = "1MiB/s", riops = 500, wiops = "10K", iops = "max", burst = "1MiB", burst_ios = 5 }
io.weight = "8:0 300"
"io.bfq.weight" = 50
"blockio.bandwidth-max" = "10M:1:4Mi"
blockio.iops-max = '100:0'
blkio.throttle.read_bps_device = "8:0 7"

[tenant.web]
limit = "max"
target = "max"

[device]
"io.cost.qos" = "8:0 enable=1"
"#,
    );
    assert_eq!(
        file.tenants.iter().map(|t| (t.path.as_str(), t.place.line)).collect::<Vec<_>>(),
        [("batch/nightly", 2), ("web", 14)]
    );
    let at = |n| Some(Cap::At(n));
    let limit = Limit {
        rbps: at(10_000_000),
        wbps: at(4096),
        bps: at(1 << 20),
        riops: at(500),
        wiops: at(10_000),
        iops: Some(Cap::Unlimited),
        burst: Some(1 << 20),
        burst_ios: Some(5),
    };
    assert_eq!(
        file.tenants[0].settings,
        [
            Setting::IoMax(IoMax { rbps: at(1 << 20), ..IoMax::default() }),
            Setting::IoMax(IoMax { wiops: at(100), ..IoMax::default() }),
            Setting::Weight(200),
            Setting::Class(PrioPolicy::RestrictToBe),
            Setting::Latency(Some(Nanos::from_millis(5))),
            Setting::Limit(limit),
            Setting::IoWeight(WeightFile::Device(Some(300))),
            Setting::BfqWeight(WeightFile::Default(50)),
            Setting::Bandwidth(Some(io_throttle::Limit {
                rate: 10_000_000,
                policy: Policy::Token { bucket: 4 << 20 }
            })),
            Setting::Iops(Some(io_throttle::Limit { rate: 100, policy: Policy::Leaky })),
            Setting::Flat(LimitKey::Rbps, Cap::At(7)),
        ]
    );
    let none = Some(Cap::Unlimited);
    let (rates, burst_ios) =
        (Limit { rbps: none, wbps: none, bps: none, ..Limit::default() }, Some(0));
    let lifted = Limit { riops: none, wiops: none, iops: none, burst: Some(0), burst_ios, ..rates };
    assert_eq!(file.tenants[1].settings, [Setting::Limit(lifted), Setting::Latency(None)]);
    assert_eq!(
        file.device,
        [Setting::CostQos(CostQos { enable: Some(true), ..CostQos::default() })]
    );
    assert!(good("").tenants.is_empty() && good("# nothing\n").device.is_empty());
}

#[test]
fn changes_keep_their_order() {
    let file = good(
        "[[change]]\nat = '5s'\ntenant = '/a/b/'\n'io.max' = 'rbps=max'\n[[change]]\nat = '500ms'\n'io.cost.qos' = 'enable=0'\n",
    );
    let lifted = Setting::IoMax(IoMax { rbps: Some(Cap::Unlimited), ..IoMax::default() });
    assert_eq!(
        (file.changes[0].at, file.changes[0].tenant.as_deref()),
        (Nanos::from_secs(5), Some("a/b"))
    );
    assert_eq!(
        (file.changes[0].place.line, file.changes[0].settings.as_slice()),
        (3, [lifted].as_slice())
    );
    assert_eq!(
        (file.changes[1].at, file.changes[1].tenant.as_deref()),
        (Nanos::from_millis(500), None)
    );
    assert_eq!(
        file.changes[1].settings,
        [Setting::CostQos(CostQos { enable: Some(false), ..CostQos::default() })]
    );
}

#[test]
fn a_mistake_is_a_line_with_its_place() {
    for (text, expected) in [
        (
            "[tenant.'a/b']\nweight = 20000",
            "t.toml:2:10: tenant.\"a/b\".weight: 20000 is out of range 1 to 10000",
        ),
        (
            "[tenant.a]\nweight = '200'",
            "t.toml:2:10: tenant.a.weight: 200: expected a whole number from 1 to 10000, without quotes",
        ),
        (
            "[tenant.a]\nweght = 200",
            "t.toml:2:1: tenant.a.weght: no such setting (did you mean `weight`?); docs/reference/tenants.md lists them",
        ),
        (
            "[tenant.a]\n'io.mx' = ''",
            "t.toml:2:1: tenant.a.\"io.mx\": no such setting (did you mean `io.max`?); docs/reference/tenants.md lists them",
        ),
        (
            "[tenant.a]\n\"io.max\" = \"8:0 rbps=10M\"",
            "t.toml:2:17: tenant.a.\"io.max\": rbps=10M: the kernel reads 10 bytes/s and drops `M`; write rbps=10000000 for 10M, or rbps=10485760 for 10Mi",
        ),
        (
            "[tenant.a]\nio.max = [\"rbps=2\", \"wbps=1\"]",
            "t.toml:2:22: tenant.a.\"io.max\": wbps=1: the smallest limit is 2 (EINVAL)",
        ),
        (
            "[tenant.a]\n'io.max' = 5",
            "t.toml:2:12: tenant.a.\"io.max\": 5: expected a device as MAJ:MIN, a path or a name",
        ),
        (
            "[tenant.a]\n'io.max' = true",
            "t.toml:2:12: tenant.a.\"io.max\": expected a line as the kernel takes it",
        ),
        ("[tenant.a]\n'io.max' = \"\\u0038:0 rbps=1\"", "t.toml:2:12: tenant.a.\"io.max\": rbps=1"),
        (
            "[tenant.a]\nclass = 'rt'",
            "t.toml:2:9: tenant.a.class: rt: no such policy; there are no-change",
        ),
        (
            "[tenant.a]\nlatency = 5",
            "t.toml:2:11: tenant.a.latency: 5: expected a time in whole microseconds with its unit",
        ),
        (
            "[tenant.a]\nlatency = '1.5us'",
            "t.toml:2:11: tenant.a.latency: 1.5us: expected a time in whole",
        ),
        (
            "[tenant.a]\nlimit = { rbps = '10m' }",
            "t.toml:2:18: tenant.a.limit.rbps: 10m: expected a rate",
        ),
        (
            "[tenant.a]\nlimit = { riops = '10Ki' }",
            "t.toml:2:19: tenant.a.limit.riops: 10Ki: expected a rate",
        ),
        (
            "[tenant.a]\nlimit = { rbps = 0 }",
            "t.toml:2:18: tenant.a.limit.rbps: 0 lets nothing pass; write \"max\" to lift the limit",
        ),
        (
            "[tenant.a]\nlimit = { rbp = 1 }",
            "t.toml:2:11: tenant.a.limit.rbp: no such limit (did you mean `rbps`?); there are rbps",
        ),
        (
            "[tenant.a]\nlimit = { burst = -1 }",
            "t.toml:2:19: tenant.a.limit.burst: -1: expected bytes, such as",
        ),
        ("[tenant.a]\nlimit = 5", "t.toml:2:9: tenant.a.limit: expected a table, such as"),
        (
            "[tenant.a]\nreserve = 5",
            "t.toml:2:11: tenant.a.reserve: expected a table, such as { iops = 500, bps",
        ),
        (
            "[tenant.a]\nreserve = { riops = 5 }",
            "t.toml:2:13: tenant.a.reserve.riops: no such floor (did you mean `iops`?); there are iops, bps",
        ),
        (
            "[tenant.a]\nreserve = { iops = '5m' }",
            "t.toml:2:20: tenant.a.reserve.iops: 5m: expected I/Os a second, such as 500",
        ),
        (
            "[tenant.a]\nreserve = { bps = -1 }",
            "t.toml:2:19: tenant.a.reserve.bps: -1: expected bytes a second",
        ),
        (
            "[device]\nreserve = { bps = 1 }",
            "t.toml:2:1: device.reserve: the root has no limits or weight",
        ),
        (
            "[tenant.a]\n'io.cost.qos' = 'enable=1'",
            "t.toml:2:1: tenant.a.\"io.cost.qos\": holds for the device",
        ),
        (
            "[device]\n'io.max' = 'rbps=2'",
            "t.toml:2:1: device.\"io.max\": the root has no such file",
        ),
        ("[device]\nweight = 5", "t.toml:2:1: device.weight: the root has no limits or weight"),
        (
            "[device]\nlimit = { rbps = 5 }",
            "t.toml:2:1: device.limit: the root has no limits or weight",
        ),
        (
            "[tenant.a.b]\nweight = 5",
            "t.toml:1:11: tenant.a.b: no such setting; a tenant below another has a table with its whole path, as in [tenant.\"a/b\"]",
        ),
        ("[tenant]\nweight = 5", "t.toml:2:1: tenant.weight: expected a table: [tenant.\"NAME\"]"),
        (
            "[tenant.'/']\nweight = 5",
            "t.toml:1:9: tenant.\"/\": the root has no limits or weight; name a tenant below it, or write [device]",
        ),
        ("[tenant.'a/../b']", "t.toml:1:9: tenant.\"a/../b\": \"..\" is no name of a tenant"),
        (
            "[tenant.a]\n[tenant.'/a']",
            "t.toml:2:9: tenant.\"/a\": a has a table already, in line 1",
        ),
        ("[tennant.a]\nweight = 5", "t.toml:1:2: tennant: no such table (did you mean `tenant`?)"),
        ("tenant = 5", "t.toml:1:10: tenant: expected tables: [tenant.\"NAME\"]"),
        ("[change]\nat = '1s'", "t.toml:1:1: change: expected [[change]], with two brackets"),
        ("[[change]]\ntenant = 'a'\nweight = 5", "t.toml:1:1: change: at is missing"),
        (
            "[[change]]\nat = 5\ntenant = 'a'\nweight = 5",
            "t.toml:2:6: change.at: expected a time with its unit",
        ),
        (
            "[[change]]\nat = '5'\ntenant = 'a'\nweight = 5",
            "t.toml:2:6: change.at: 5: expected a time with its unit",
        ),
        ("[[change]]\nat = '5s'\ntenant = 'a'", "t.toml:1:1: change: nothing changes"),
        (
            "[[change]]\nat = '5s'\nweight = 5",
            "t.toml:3:1: change.weight: the root has no limits or weight",
        ),
        ("[tenant.a]\nweight = 5\nweight = 6", "t.toml:3:1: duplicate key"),
        ("[tenant.a", "t.toml:1:10: unclosed table, expected `]`"),
        (
            "[tenant.a]\n'io.max' = '8:0 rbps=5'\n[tenant.b]\n'io.max' = '8:16 rbps=5'",
            "t.toml:4:12: 8:16: there is one device, and line 2 calls it 8:0; leave devices out, or name one",
        ),
        (
            "[tenant.a]\n# ä\n\"io.max\" = \"ä=5\"",
            "t.toml:3:13: tenant.a.\"io.max\": ä=5: unknown key",
        ),
    ] {
        let errors = bad(text);
        assert_eq!(errors.len(), 1, "{text}: {errors:?}");
        assert!(errors[0].starts_with(expected), "{text}:\n  {}\n  {expected}", errors[0]);
        assert!(!errors[0].contains('\n'), "{text}");
    }
}

#[test]
fn every_mistake_is_told_in_order() {
    let errors = bad("[[change]]\nat = 1\n[tenant.b]\nweight = 0\nclass = 5\n[tenant.a]\nx = 1\n");
    let places: Vec<&str> =
        errors.iter().map(|error| error.split(": ").next().unwrap_or_default()).collect();
    assert_eq!(places, ["t.toml:1:1", "t.toml:2:6", "t.toml:4:10", "t.toml:5:9", "t.toml:7:1"]);
}

#[test]
fn a_word_of_a_newer_kernel_is_refused_by_an_old_one() {
    let text = "[tenant.a]\nclass = 'promote-to-rt'\n";
    assert!(parse("t", text, &Kernel::V6_6.rules()).is_ok());
    let error = parse("t", text, &Kernel::V6_1.rules()).unwrap_err();
    assert!(error[0].message.contains("6.5 and later"), "{error:?}");
}

#[test]
fn paths() {
    assert_eq!(normal_path("//a///b c/"), Ok("a/b c".to_owned()));
    assert_eq!(normal_path("a//b/./c/"), Ok("a/b/c".to_owned()));
    let deep = |n: usize| vec!["x"; n].join("/");
    assert!(normal_path(&deep(64)).is_ok() && normal_path(&deep(65)).is_err());
    for text in ["", "/", "./", "a/../b", "a\nb", &"x".repeat(256)] {
        assert!(normal_path(text).is_err(), "{text}");
    }
}

#[test]
fn no_target_of_latency_is_written_in_three_ways() {
    for none in ["0", "\"0\"", "\"max\""] {
        let file = good(&format!("[tenant.a]\nlatency = {none}\n"));
        assert_eq!(file.tenants[0].settings, [Setting::Latency(None)], "{none}");
    }
    assert!(
        parse("t.toml", "[tenant.a]\nlatency = 5\n", &Kernel::V6_18.rules()).is_err(),
        "of what unit?"
    );
}

#[test]
fn the_letters_of_calibrate_stand_for_the_device_at_hand() {
    let text = "[device]\n'io.cost.model' = 'MAJ:MIN rbps=5'\n'io.cost.qos' = '8:0 enable=1'\n";
    assert!(parse("t.toml", text, &Kernel::V6_18.rules()).is_ok(), "no second device");
}
