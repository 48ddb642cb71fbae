use super::*;
use elevon_core::control::io_cost::{Preset, Qos};
use elevon_core::control::io_throttle::Policy;
use elevon_core::kernel::Kernel;

fn set(file: &str, line: &str) -> Setting {
    match parse(file, line, &Kernel::V6_18.rules()) {
        Ok(line) => line.setting,
        Err(error) => panic!("{file}: {line:?}: {error}"),
    }
}

fn refusal(file: &str, line: &str) -> (Refusal, String) {
    match parse(file, line, &Kernel::V6_18.rules()) {
        Ok(taken) => panic!("{file}: {line:?} was taken: {taken:?}"),
        Err(error) => (error.refusal, error.to_string()),
    }
}

/// Lines of `io.max` that are refused, how, and what the error says.
const REFUSED_IO_MAX: &[(&str, Refusal, &str)] = &[
    (
        "8:0 rbps=0",
        Refusal::Range,
        "rbps=0: 0 is no limit that can be set; write rbps=max to lift it (ERANGE)",
    ),
    ("8:0 rbps=1", Refusal::Invalid, "rbps=1: the smallest limit is 2 (EINVAL)"),
    (
        "8:0 rbps=4096 foo=5",
        Refusal::Invalid,
        "foo=5: unknown key; there are rbps, wbps, riops, wiops (EINVAL)",
    ),
    ("8:0 rbsp=5", Refusal::Invalid, "rbsp=5: unknown key"),
    ("8:0 rbp=5", Refusal::Invalid, "rbp=5: unknown key (did you mean `rbps`?)"),
    ("8:0 rbps", Refusal::Invalid, "rbps: expected KEY=VALUE, where KEY is one of"),
    ("rbps", Refusal::Invalid, "rbps: expected KEY=VALUE"),
    ("8:0", Refusal::Invalid, "expected KEY=VALUE"),
    ("", Refusal::Invalid, "expected KEY=VALUE"),
    (
        "8:1 rbps=4096",
        Refusal::NoDevice,
        "8:1: a partition has no limits of its own; write 8:0 for the whole device (ENODEV)",
    ),
    ("8:17 rbps=4096", Refusal::NoDevice, "write 8:16"),
    ("/dev/sda1 rbps=4096", Refusal::NoDevice, "write /dev/sda for"),
    ("nvme0n1p2 rbps=4096", Refusal::NoDevice, "write nvme0n1 for"),
    ("mmcblk0p1 rbps=4096", Refusal::NoDevice, "write mmcblk0 for"),
    ("8: rbps=4096", Refusal::Invalid, "8:: expected a device as MAJ:MIN"),
    ("8:0:0 rbps=4096", Refusal::Invalid, "as MAJ:MIN"),
    ("/ rbps=4096", Refusal::Invalid, "expected a device"),
    (
        "8:0 rbps=10M",
        Refusal::Misread,
        "rbps=10M: the kernel reads 10 bytes/s and drops `M`; write rbps=10000000 for 10M, or rbps=10485760 for 10Mi",
    ),
    (
        "riops=1k",
        Refusal::Misread,
        "riops=1k: the kernel reads 1 I/Os a second and drops `k`; write riops=1000 for 1K",
    ),
    ("rbps=", Refusal::Invalid, "expected a whole number of bytes/s in decimal digits, or max"),
    ("rbps=-1", Refusal::Invalid, "expected a whole number"),
    ("rbps=MAX", Refusal::Invalid, "or max"),
    ("rbps=18446744073709551616", Refusal::Range, "more than 18446744073709551615"),
    ("rbps=2\nwbps=2", Refusal::Invalid, "one line is one setting"),
];

#[test]
fn io_max_as_the_kernel_takes_it() {
    for &(line, kind, words) in REFUSED_IO_MAX {
        let (refused, message) = refusal("io.max", line);
        assert_eq!(refused, kind, "{line}: {message}");
        assert!(message.contains(words) && !message.contains('\n'), "{line}: {message}");
    }
    let at = |n| Some(Cap::At(n));
    let none = IoMax::default();
    for (line, max) in [
        ("8:0 rbps=1048576 wiops=120", IoMax { rbps: at(1048576), wiops: at(120), ..none }),
        ("rbps=2", IoMax { rbps: at(2), ..none }),
        ("8:0 wiops=max", IoMax { wiops: Some(Cap::Unlimited), ..none }),
        ("  8:16\trbps=2  rbps=3\n", IoMax { rbps: at(3), ..none }),
        ("/dev/disk/by-id/x riops=4294967294", IoMax { riops: at(4294967294), ..none }),
        ("nvme0n1 riops=4294967295", IoMax { riops: Some(Cap::Unlimited), ..none }),
        ("dm-1 wbps=18446744073709551615", IoMax { wbps: at(u64::MAX), ..none }),
    ] {
        assert_eq!(set("io.max", line), Setting::IoMax(max), "{line}");
    }
    let whole = IoMax {
        rbps: at(1048576),
        wbps: Some(Cap::Unlimited),
        riops: Some(Cap::Unlimited),
        wiops: at(120),
    };
    assert_eq!(
        Setting::IoMax(whole).text(Some("8:0")),
        "8:0 rbps=1048576 wbps=max riops=max wiops=120"
    );
}

#[test]
fn the_place_of_an_error_is_the_word_at_fault() {
    let span = |file, line| parse(file, line, &Kernel::V6_18.rules()).unwrap_err().span;
    assert_eq!(span("io.max", "8:0 rbps=2 wbps=0"), 11..17);
    assert_eq!(span("io.max", "8:1 rbps=2"), 0..3);
    assert_eq!(span("blockio.bandwidth-max", "/dev/sda:10:2"), 12..13);
    assert_eq!(span("io.weight", "default 0"), 8..9);
}

#[test]
fn limits_of_v1() {
    use LimitKey::{Rbps, Riops, Wbps, Wiops};
    for (file, key) in
        [("read_bps", Rbps), ("write_bps", Wbps), ("read_iops", Riops), ("write_iops", Wiops)]
    {
        let file = format!("blkio.throttle.{file}_device");
        assert_eq!(set(&file, "8:0 1048576"), Setting::Flat(key, Cap::At(1048576)));
        assert_eq!(set(&file, "1"), Setting::Flat(key, Cap::At(1)));
        assert_eq!(set(&file, "8:0 0"), Setting::Flat(key, Cap::Unlimited));
        assert_eq!(set(&file, "8:0 7").text(Some("8:0")), "8:0 7");
        assert_eq!(refusal(&file, "8:3 7").0, Refusal::NoDevice);
        assert!(refusal(&file, "8:0 max").1.contains("0 lifts the limit"));
        assert_eq!(refusal(&file, "8:0 10M").0, Refusal::Misread);
        assert_eq!(refusal(&file, "8:0 1 2").0, Refusal::Invalid);
    }
}

#[test]
fn weights() {
    use WeightFile::{Default, Device};
    for (line, weight) in [
        ("200", Default(200)),
        ("default 200", Default(200)),
        ("8:0 200", Device(Some(200))),
        ("8:0 default", Device(None)),
        ("1", Default(1)),
    ] {
        assert_eq!(set("io.weight", line), Setting::IoWeight(weight), "{line}");
        assert_eq!(set("io.bfq.weight", line), Setting::BfqWeight(weight), "{line}");
        assert_eq!(set("blkio.bfq.weight_device", line), Setting::BfqWeight(weight), "{line}");
    }
    assert_eq!(set("io.weight", "10000"), Setting::IoWeight(Default(10000)));
    assert_eq!(set("io.bfq.weight", "1000"), Setting::BfqWeight(Default(1000)));
    assert_eq!(set("blkio.bfq.weight", "7"), Setting::BfqWeight(Default(7)));
    for (file, line, words) in [
        ("io.weight", "0", "0: out of range 1 to 10000 (EINVAL)"),
        ("io.weight", "10001", "10001: out of range 1 to 10000 (EINVAL)"),
        ("io.weight", "99999999999999999999999", "expected a weight from 1 to 10000"),
        ("blkio.bfq.weight", "8:0 100", "expected a weight alone"),
        ("blkio.bfq.weight", "default 100", "blkio.bfq.weight_device takes"),
        ("io.bfq.weight", "1001", "1001: out of range 1 to 1000 (EINVAL)"),
        ("io.weight", "8:1 100", "ENODEV"),
        ("io.weight", "default", "default: expected a weight from 1 to 10000"),
        ("io.weight", "default default", "expected a weight"),
        ("io.weight", "100%", "the kernel reads 100 as weight and drops `%`"),
        ("io.weight", "", "expected a weight"),
        ("io.weight", "8:0 1 2", "expected a weight"),
    ] {
        assert!(refusal(file, line).1.contains(words), "{file} {line}: {}", refusal(file, line).1);
    }
}

#[test]
fn the_weight_in_force_after_several_writes() {
    for (lines, bfq, cost) in [
        (&["8:0 900", "500"][..], 500, 900),
        (&["500", "8:0 900"], 900, 900),
        (&["8:0 900", "8:0 default"], 900, 100),
        (&["8:0 900", "8:0 default", "300"], 300, 300),
        (&["200", "8:0 900", "8:0 default"], 900, 200),
    ] {
        let of =
            |file: &str| Weights::of(&lines.iter().map(|line| set(file, line)).collect::<Vec<_>>());
        assert_eq!(
            (of("io.bfq.weight").bfq, of("io.weight").cost.effective()),
            (bfq, cost),
            "{lines:?}"
        );
    }
    let ours = Weights::of(&[
        set("io.bfq.weight", "8:0 900"),
        set("io.weight", "8:0 900"),
        Setting::Weight(5000),
    ]);
    assert_eq!((ours.bfq, ours.cost.effective()), (1000, 900), "`weight` is a default of both");
}

#[test]
fn classes_by_kernel() {
    for policy in PrioPolicy::ALL {
        assert_eq!(set("io.prio.class", policy.name()), Setting::Class(policy));
    }
    assert_eq!(set("blkio.prio.class", " idle\n"), Setting::Class(PrioPolicy::Idle));
    assert!(
        refusal("io.prio.class", "restrict_to_be").1.contains("did you mean `restrict-to-be`?")
    );
    let old =
        parse("io.prio.class", "promote-to-rt", &Kernel::V6_1.rules()).unwrap_err().to_string();
    assert!(old.contains("6.5 and later") && old.contains("none-to-rt"), "{old}");
}

#[test]
fn latency_targets() {
    for (line, us) in [
        ("8:0 target=5000", Some(5000)),
        ("target=max", None),
        ("8:0 target=0", None),
        ("target=1", Some(1)),
    ] {
        assert_eq!(set("io.latency", line), Setting::Latency(us.map(Nanos::from_micros)), "{line}");
    }
    for (line, words) in [
        ("target=5ms", "target=5ms: the kernel reads 5 us and drops `ms`"),
        ("5000", "5000: expected a device as MAJ:MIN"),
        ("", "expected KEY=VALUE"),
        ("target=18446744073709552", "more than 18446744073709551 us"),
    ] {
        assert!(
            refusal("io.latency", line).1.contains(words),
            "{line}: {}",
            refusal("io.latency", line).1
        );
    }
}

#[test]
fn cost_of_the_device() {
    let line =
        "8:0 enable=1 ctrl=user rpct=95.00 rlat=5000 wpct=0.50 wlat=10000 min=50.00 max=150.00";
    let qos = CostQos {
        enable: Some(true),
        ctrl: Some(CostControl::User),
        rpct: Some(9500),
        rlat: Some(Nanos::from_millis(5)),
        wpct: Some(50),
        wlat: Some(Nanos::from_millis(10)),
        min: Some(5000),
        max: Some(15000),
    };
    assert_eq!(set("io.cost.qos", line), Setting::CostQos(qos));
    assert_eq!(Setting::CostQos(qos).text(Some("8:0")), line);
    let preset = Preset::Hdd.qos();
    assert_eq!(CostQos::default().over(preset), preset);
    assert_eq!(
        CostQos { rpct: Some(1), ..CostQos::default() }.over(preset),
        Qos { rpct: 1, ..preset }
    );
    let switch =
        CostQos { enable: Some(true), ctrl: Some(CostControl::Auto), ..CostQos::default() };
    assert!(qos.is_of_user() && !switch.is_of_user());
    let clamped = CostQos { min: Some(100), max: Some(1_000_000), ..CostQos::default() };
    assert_eq!(set("io.cost.qos", "min=0.5 max=20000"), Setting::CostQos(clamped));
    for (line, words) in [
        ("min=50 max=40", "min=50.00 is above max=40.00 (EINVAL)"),
        ("rpct=100.01", "out of range 0.00 to 100.00"),
        ("rpct=95.123", "two decimals"),
        ("enable=yes", "expected 0 or 1"),
        ("ctrl=manual", "auto or user"),
        ("rlat=5ms", "the kernel reads 5 us"),
        ("latency=5", "unknown key"),
    ] {
        assert!(
            refusal("io.cost.qos", line).1.contains(words),
            "{line}: {}",
            refusal("io.cost.qos", line).1
        );
    }
    let line = "8:0 ctrl=user model=linear rbps=174019176 rseqiops=41708 rrandiops=370 wbps=178075866 wseqiops=42705 wrandiops=378";
    let model = CostModel {
        ctrl: Some(CostControl::User),
        linear: true,
        rbps: Some(174019176),
        rseqiops: Some(41708),
        rrandiops: Some(370),
        wbps: Some(178075866),
        wseqiops: Some(42705),
        wrandiops: Some(378),
    };
    assert_eq!(set("io.cost.model", line), Setting::CostModel(model));
    assert_eq!(Setting::CostModel(model).text(Some("8:0")), line);
    for (line, words) in [
        ("model=cubic", "linear"),
        ("rbps=-1", "whole number"),
        ("rbps=1G", "rbps=1000000000 for 1G"),
    ] {
        assert!(
            refusal("io.cost.model", line).1.contains(words),
            "{line}: {}",
            refusal("io.cost.model", line).1
        );
    }
}

#[test]
fn rules_of_io_throttle() {
    let rule = |rate, policy| Some(io_throttle::Limit { rate, policy });
    for (line, expected) in [
        ("/dev/sda:0", None),
        ("/dev/sda:0:0", None),
        ("/dev/sda:0:1:5", None),
        ("0", None),
        ("0:0", None),
        ("/dev/sda:1048576:0", rule(1 << 20, Policy::Leaky)),
        ("1048576:0", rule(1 << 20, Policy::Leaky)),
        ("/dev/sda:1048576:1:4194304", rule(1 << 20, Policy::Token { bucket: 4 << 20 })),
        ("/dev/sda:1048576:1", rule(1 << 20, Policy::Token { bucket: 1 << 20 })),
        ("/dev/sda:10M:1:4Mi", rule(10_000_000, Policy::Token { bucket: 4 << 20 })),
    ] {
        assert_eq!(set("blockio.bandwidth-max", line), Setting::Bandwidth(expected), "{line}");
        assert_eq!(set("blockio.iops-max", line), Setting::Iops(expected), "{line}");
    }
    for (line, words) in [
        ("", "expected DEV:LIMIT, where DEV is a path such as /dev/sda, or a limit"),
        (":", "expected DEV:LIMIT"),
        (":100:0", "expected DEV:LIMIT"),
        ("-5:0", "-5: expected DEV:LIMIT, where DEV is a path such as /dev/sda, or a limit"),
        (".5M:0", "expected DEV:LIMIT"),
        ("abc:0", "expected DEV:LIMIT"),
        ("sda:4096:0", "expected DEV:LIMIT"),
        ("0:foo:bar", "expected strategy 0"),
        ("/dev/sda:0:2", "expected strategy 0"),
        ("8:0:0", "or write DEV:LIMIT:0, where DEV is a path"),
        ("8:0:1048576:0", "where DEV is a path such as /dev/sda"),
        ("/dev/sda", "expected a limit after the device"),
        ("/dev/sda:", "expected a limit"),
        ("/dev/sda:x:0", "expected a limit"),
        ("/dev/sda:-1:0", "expected a limit"),
        ("/dev/sda:100", "/dev/sda:100:0 leaky bucket, /dev/sda:100:1 token bucket"),
        ("/dev/sda:100:2", "expected strategy 0"),
        ("/dev/sda:100:", "expected strategy 0"),
        ("/dev/sda:100:0:5", "has no size"),
        ("/dev/sda:100:1:0", "a bucket of 0"),
        ("/dev/sda:100:1:x", "expected a bucket"),
        ("/dev/sda:100:1:5:6", "expected [DEV:]LIMIT"),
        ("/dev/sda:100m:0", "expected a limit"),
        ("/dev/sda:16777216Ti:0", "expected a limit"),
        ("/dev/sda1:100:0", "ENODEV"),
        ("8:0:100:1:5", "expected [DEV:]LIMIT"),
    ] {
        let (kind, message) = refusal("blockio.bandwidth-max", line);
        assert!(message.contains(words), "{line}: {message}");
        assert!(matches!(kind, Refusal::Invalid | Refusal::NoDevice), "{line}");
    }
}

#[test]
fn the_table_agrees_with_the_parsers() {
    for file in FILES {
        assert!(
            !file.syntax.is_empty()
                && !file.range.is_empty()
                && !file.default.is_empty()
                && !file.help.is_empty()
        );
        assert_eq!(
            FILES.iter().filter(|other| other.name == file.name).count(),
            1,
            "{}",
            file.name
        );
        let good =
            ["8:0 rbps=2", "8:0 5", "5", "idle", "target=5", "enable=1", "ctrl=auto", "/dev/sda:0"];
        let mut taken =
            good.iter().filter_map(|line| file.parse(line, &Kernel::V6_18.rules()).ok());
        let line = taken.next().unwrap_or_else(|| panic!("{}: none of the lines", file.name));
        assert_eq!(line.setting.place(), file.place, "{}", file.name);
        assert!(
            find(line.setting.name()).is_some_and(|named| named
                .parse(
                    &line.setting.text(Some("8:0").filter(|_| !file.name.starts_with("blockio"))),
                    &Kernel::V6_18.rules()
                )
                .is_ok_and(|again| again.setting == line.setting)),
            "{}",
            file.name
        );
    }
    let (_, message) = refusal("io.maxx", "rbps=2");
    assert_eq!(message, "io.maxx: no such file (did you mean `io.max`?) (EINVAL)");
}
