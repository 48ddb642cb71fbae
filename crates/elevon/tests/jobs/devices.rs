//! Tests devices, their settings and their faults, as given by a user and as shown in reports.

use std::collections::BTreeMap;

use crate::common::{Bench, kernel_truth};

const READS: &str =
    "[a]\nrw=randread\nbs=4k\niodepth=4\nioengine=io_uring\ndirect=1\nsize=16m\nnumber_ios=200\n";

fn bench() -> Bench {
    let bench = Bench::new();
    bench.file("reads.fio", READS);
    bench
}

/// Returns the exit status and both streams.
fn output(bench: &Bench, args: &[&str]) -> (Option<i32>, String, String) {
    let output = bench.elevon(args).output().expect("the command ran");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_report_counts_each_fault_and_warns_of_one_that_never_fired() {
    let bench = bench();
    let faults = ["--fault", "stall:every=100,for=1ms", "--fault", "error:sectors=1000000-1000007"];
    let json = bench.json("reads.fio", &faults);
    let expected = serde_json::json!([
        { "rule": "stall:every=100,for=1ms", "fired": 2 },
        { "rule": "error:sectors=1000000-1000007", "fired": 0 },
    ]);
    assert_eq!(json["elevon"]["faults"], expected);
    let warnings = json["elevon"]["warnings"].to_string();
    assert!(warnings.contains("error:sectors=1000000-1000007: never fired"), "{warnings}");
    assert!(!warnings.contains("stall"), "{warnings}");
    let (code, text, stderr) = output(&bench, &[&["run", "reads.fio"][..], &faults].concat());
    assert_eq!(code, Some(0), "{stderr}");
    let line = text.lines().find(|line| line.starts_with("Faults: ")).expect("a line of faults");
    assert!(line.contains("stall:every=100,for=1ms fired 2 times"), "{line}");
    assert!(stderr.contains("never fired"), "{stderr}");
    assert!(bench.json("reads.fio", &[])["elevon"].get("faults").is_none());
}

#[test]
fn a_fault_beyond_the_device_is_bad_input() {
    let args =
        ["run", "reads.fio", "--device", "slots:size=1MiB", "--fault", "error:sectors=2000-2048"];
    let (code, text, stderr) = output(&bench(), &args);
    assert_eq!((code, text.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("sectors=2000-2048") && stderr.contains("0 to 2047"), "{stderr}");
}

#[test]
fn faults_are_listed_with_keys_and_defaults() {
    let bench = bench();
    let list = bench.stdout(&["faults"]);
    for kind in elevon_sim::device::fault::kinds::KINDS {
        assert!(list.contains(kind.name), "{}", kind.name);
        let page = bench.stdout(&["faults", kind.name]);
        assert!(page.contains(kind.example), "{page}");
        let rows: Vec<&str> = page.lines().collect();
        for key in kind.keys {
            let row =
                rows.iter().find(|row| row.trim_start().starts_with(key.name)).expect("a row");
            assert!(
                row.contains(key.default.unwrap_or("none")) && row.contains(key.meaning),
                "{row}"
            );
        }
    }
    let (code, _, stderr) = output(&bench, &["faults", "stal"]);
    assert!(code == Some(2) && stderr.contains("did you mean `stall`"), "{stderr}");
    assert!(bench.stdout(&["devices"]).contains("elevon faults"));
}

const LARGE: &str = "[a]\nrw=read\nbs=2m\niodepth=4\nioengine=io_uring\ndirect=1\nsize=64m\n";

/// A queue limit that the hardware reduces is reported on stderr, in JSON and in a comparison.
#[test]
fn a_limit_that_is_clamped_is_told_with_what_lifts_it() {
    let bench = bench();
    bench.file("large.fio", LARGE);
    let clamped =
        "--set max_sectors_kb=1280: in force is 512 KiB, since the hardware takes no more";
    let args = ["run", "large.fio", "--device", "ufs-4.0", "--set", "max_sectors_kb=1280"];
    let (code, text, stderr) = output(&bench, &args);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stderr.contains(clamped) && stderr.contains("--set max_hw_sectors_kb=1280 lifts it"),
        "{stderr}"
    );
    let limits = text.lines().find(|line| line.starts_with("Limits: ")).expect("a line of limits");
    for limit in [
        "hw_queues=1",
        "queue_depth=31",
        "max_sectors_kb=512",
        "max_hw_sectors_kb=512",
        "write_cache=1",
    ] {
        assert!(limits.contains(limit), "{limit}: {limits}");
    }
    let json = bench.json("large.fio", &args[2..]);
    assert!(json["elevon"]["warnings"].to_string().contains(clamped));
    assert_eq!(json["elevon"]["device"]["limits"]["max_sectors_kb"], 512);
    assert_eq!(json["elevon"]["device"]["limits"]["dma_alignment"], 3);

    let vs = [
        "--vs",
        "--set max_sectors_kb=1280",
        "--vs",
        "--set max_sectors_kb=1280 --set max_hw_sectors_kb=1280",
    ];
    let base = [
        "compare",
        "large.fio",
        "--device",
        "ufs-4.0",
        "--set",
        "max_sectors_kb=512",
        "--html",
        "page.html",
    ];
    let (code, text, stderr) = output(&bench, &[&base[..], &vs].concat());
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains(clamped), "{stderr}");
    let unchanged = "its options change no setting that is in force; it is the same stack as A";
    assert!(
        text.contains(&format!("B: {unchanged}")) && !text.contains(&format!("C: {unchanged}")),
        "{text}"
    );
    let row = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name}: {text}"));
        line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("max_sectors_kb"), ["512", "512", "1280"]);
    assert_eq!(row("max_hw_sectors_kb"), ["512", "512", "1280"]);
    assert!(!text.contains("queue_depth"), "what is equal is not compared: {text}");
    let page = std::fs::read_to_string(bench.path("page.html")).expect("the page");
    assert_eq!(page.matches(unchanged).count(), 1);
    assert_eq!(
        page.matches("<th scope=\"row\">max_hw_sectors_kb</th>").count(),
        4,
        "differing, and in each run's settings"
    );
}

/// The parameters of a device are part of its name in a report and a comparison.
#[test]
fn a_device_with_parameters_is_named_with_them() {
    let bench = bench();
    let spec = "ufs-4.0:read_command_cost=41us";
    assert_eq!(bench.json("reads.fio", &["--device", spec])["elevon"]["device"]["name"], spec);
    let text = bench.stdout(&[
        "compare",
        "reads.fio",
        "--device",
        "ufs-4.0",
        "--vs",
        &format!("--device {spec}"),
    ]);
    assert!(text.contains(spec) && !text.contains("same stack as A"), "{text}");
}

#[test]
fn a_kernel_is_named_as_people_write_it() {
    let bench = bench();
    for (kernel, name, is_told) in
        [("v6.18", "6.18", false), ("6.1.55", "6.1", true), ("6.12.0-18-amd64", "6.12", true)]
    {
        let json = bench.json("reads.fio", &["--kernel", kernel]);
        assert_eq!(json["elevon"]["kernel"], name);
        let told = json["elevon"]["warnings"]
            .to_string()
            .contains(&format!("the rules of {name} are used, as of {name}."));
        assert_eq!(told, is_told, "{kernel}");
    }
    for (kernel, words) in [("5.4", "5.10 is the nearest"), ("6.8", "6.6 is the one before it")] {
        let (code, _, stderr) = output(&bench, &["run", "reads.fio", "--kernel", kernel]);
        assert!(
            code == Some(2)
                && stderr.contains("not modelled; there are 5.10, 5.15, 6.1, 6.6, 6.12"),
            "{stderr}"
        );
        assert!(stderr.contains(words) && stderr.lines().count() == 1, "{stderr}");
    }
}

/// A setting without effect or without meaning is refused with the reason.
#[test]
fn settings_without_effect_are_refused() {
    let bench = bench();
    for (set, words) in [
        ("io_poll=1", "io_poll: cannot be set: completions are events here"),
        ("nowait=0", "nowait: cannot be set: every device here takes them"),
        ("zoned=1", "zoned: cannot be set: no device here has zones"),
        ("max_open_zones=4", "no device here has zones"),
        ("alignment_offset=512", "no device is stacked on another here"),
        ("max_segments=0", "max_segments=0: out of range; must be 1 to 65535"),
        ("seg_boundary_mask=0", "seg_boundary_mask=0: must be a power of two minus one"),
        ("zoned=host-managed", "zoned: cannot be set: no device here has zones"),
        (
            "fifo_batch=4",
            "it is a tunable of mq-deadline: --scheduler mq-deadline:fifo_batch=VALUE",
        ),
        ("iosched/low_latency=0", "it is a tunable of bfq: --scheduler bfq:low_latency=VALUE"),
        ("queue/nr_requests=4", "did you mean nr_requests?"),
        (
            "rq_affinity=2",
            "rq_affinity: not modelled: a completion costs the same on every CPU here",
        ),
        (
            "wbt_lat_usec=2ms",
            "wbt_lat_usec=2ms: expected a whole number from 0 to 9223372036854775 (us), or -1 for the default",
        ),
    ] {
        let (code, _, stderr) = output(&bench, &["run", "reads.fio", "--set", set]);
        assert!(
            code == Some(2) && stderr.contains(words) && stderr.lines().count() == 1,
            "{set}: {stderr}"
        );
    }
    for (scheduler, words) in [
        ("bfq:slice_idle=0,slice_idle=8", "slice_idle is given twice"),
        ("bfq:rq_affinity=2", "not a tunable of bfq, and is not modelled"),
    ] {
        let (code, _, stderr) = output(&bench, &["run", "reads.fio", "--scheduler", scheduler]);
        assert!(
            code == Some(2) && stderr.contains(words) && !stderr.contains("--set"),
            "{scheduler}: {stderr}"
        );
    }
    let (code, _, stderr) = output(&bench, &["schedulers", "mq-dedline"]);
    assert!(code == Some(2) && stderr.contains("did you mean `mq-deadline`"), "{stderr}");
    assert!(bench.stdout(&["schedulers"]).contains("(cannot be set: no device here has zones)"));
}

const PHONE: &str = "\
name = \"my-phone\"
base = \"ufs-4.0\"
summary = \"the phone on my desk\"

[parameters]
read_command_cost = \"20us\"
dies = 16

[limits]
max_hw_sectors_kb = 1024

[[source]]
parameters = [\"read_command_cost\"]
basis = \"fitted\"
value = \"4000 MB/s\"
origin = \"fio 3.33 on the phone\"
";

/// The page of a profile states the source of each value, and can be shown for other values.
#[test]
fn a_page_marks_sources_and_estimates_and_predicts_with_other_parameters() {
    let bench = bench();
    let page = bench.stdout(&["devices", "ufs-4.0"]);
    let row = |page: &str, key: &str| {
        let line = page
            .lines()
            .find(|line| line.trim_start().starts_with(key))
            .unwrap_or_else(|| panic!("{key}: {page}"));
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        row(&page, "read_command_cost")[..4],
        ["read_command_cost", "41.4us", "fitted", "[1]"]
    );
    assert_eq!(row(&page, "dies")[..3], ["dies", "8", "estimate"]);
    assert_eq!(row(&page, "write_rate")[..3], ["write_rate", "4GB/s", "[4]"]);
    assert!(page.contains("2023-06-24, https://www.notebookcheck.net/Micron-UFS-4-0"), "{page}");
    let read = |page: &str| -> f64 {
        let published = &page[page.find("Against the real device").expect("published figures")..];
        let line = published
            .lines()
            .find(|line| line.starts_with("sequential read 512 KiB"))
            .expect("a row");
        line.split_whitespace().nth(8).and_then(|number| number.parse().ok()).expect("our figure")
    };
    let faster = bench.stdout(&["devices", "ufs-4.0:read_command_cost=20us"]);
    assert_eq!(row(&faster, "read_command_cost")[..3], ["read_command_cost", "20us", "yours"]);
    assert!(read(&faster) > read(&page) * 1.1, "{} and {}", read(&faster), read(&page));
    let (code, _, stderr) = output(&bench, &["devices", "ufs-4.0:read_comand_cost=41us"]);
    assert!(code == Some(2) && stderr.contains("did you mean `read_command_cost`"), "{stderr}");
    let plextor = bench.stdout(&["devices", "sata-ssd-plextor-m5s"]);
    assert_eq!(row(&plextor, "write_rate")[..3], ["write_rate", "390MB/s", "estimate"]);
    let published = &plextor[plextor.find("Against the real device").expect("published figures")..];
    assert!(
        !published.contains("sequential write"),
        "what is only remembered is no published figure: {published}"
    );
    assert!(
        bench
            .stdout(&["devices", "slots:slots=2,size=4GiB"])
            .contains("4 GB, 1 hardware queue(s) of 128")
    );
    let null = bench.stdout(&["devices", "null:latency=3us"]);
    for row in [
        "  latency           3us  from",
        "  queue_depth        64  commands",
        "  fua                 0  1: it can",
    ] {
        assert!(null.contains(row), "{row} in {null}");
    }
}

/// A device described in a file runs like the profile with its parameters and limits.
#[test]
fn a_device_file_is_run_and_shown() {
    let bench = bench();
    bench.file("large.fio", LARGE);
    bench.file("phone.toml", PHONE);
    let own = bench.json("large.fio", &["--device", "@phone.toml"]);
    let same =
        ["--device", "ufs-4.0:read_command_cost=20us,dies=16", "--set", "max_hw_sectors_kb=1024"];
    let same = bench.json("large.fio", &same);
    assert_eq!(own["elevon"]["device"]["name"], "my-phone");
    assert_eq!(own["elevon"]["device"]["limits"], same["elevon"]["device"]["limits"]);
    assert_eq!(own["elevon"]["device"]["limits"]["max_sectors_kb"], 1024);
    assert_eq!(own["jobs"][0]["read"]["bw_bytes"], same["jobs"][0]["read"]["bw_bytes"]);
    assert!(own["elevon"]["command"].as_str().expect("a command").contains("@phone.toml"));
    let page = bench.stdout(&["devices", "@phone.toml"]);
    for line in [
        "my-phone: the phone on my desk, from ufs-4.0",
        "20us  yours [a]",
        "16  yours, no source",
        "; yours [a]: set by the file",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
    assert!(
        page.contains("[a] read_command_cost: fitted by 4000 MB/s (fio 3.33 on the phone)"),
        "{page}"
    );
    assert!(page.contains("max_hw_sectors_kb 1024") && page.contains("By arithmetic"), "{page}");
}

#[test]
fn mistakes_in_a_device_file_have_their_place() {
    let bench = bench();
    for (from, to, expected) in [
        (
            "base = \"ufs-4.0\"",
            "base = \"ufs-4.1\"",
            "bad.toml:2:8: base: no profile or model `ufs-4.1` (did you mean",
        ),
        (
            "dies = 16",
            "dice = 16",
            "bad.toml:7:8: parameters: device ufs-4.0: unknown parameter `dice`",
        ),
        (
            "\"20us\"",
            "\"20\"",
            "bad.toml:6:21: parameters: device ufs-4.0: `read_command_cost=20`: expected a time",
        ),
        (
            "max_hw_sectors_kb = 1024",
            "max_hw_sectors_kb = 1",
            "bad.toml:10:21: limits: max_hw_sectors_kb=1: out of range",
        ),
        (
            "max_hw_sectors_kb = 1024",
            "zoned = true",
            "bad.toml:10:9: limits: zoned: cannot be set: no device here has",
        ),
        (
            "[\"read_command_cost\"]",
            "[\"unit\"]",
            "bad.toml:12:1: source: `unit` is not set in [parameters] or [limits]",
        ),
        ("name = \"my-phone\"\n", "", "bad.toml:1:1: name: is not given"),
        ("dies = 16", "dies = ", "bad.toml:7:"),
    ] {
        bench.file("bad.toml", PHONE.replace(from, to));
        for args in [&["run", "reads.fio", "--device", "@bad.toml"][..], &["devices", "@bad.toml"]]
        {
            let (code, out, stderr) = output(&bench, args);
            assert_eq!((code, out.as_str()), (Some(2), ""), "{stderr}");
            assert!(
                stderr.contains(expected) && stderr.lines().count() == 1,
                "{expected}: {stderr}"
            );
        }
    }
    let (code, _, stderr) = output(&bench, &["run", "reads.fio", "--device", "@none.toml"]);
    assert!(code == Some(2) && stderr.contains("--device @none.toml: no such file"), "{stderr}");
}

/// The names of the disks in the table of measured attributes, and the profiles that present them.
const PRESENTED: [(&str, &str); 4] =
    [("nullb0", "null-blk"), ("vdb", "virtio-blk"), ("nvme0n1", "qemu-nvme"), ("sda", "scsi-disk")];

/// Every attribute of every disk under seven kernels, as the kernels showed them.
#[test]
fn queue_attributes_are_those_of_measured_kernels() {
    let table = std::fs::read_to_string(kernel_truth("matrix/queue.tsv")).expect("the table");
    let mut rows = table.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let head = rows.next().expect("a head");
    let rows: Vec<Vec<&str>> = rows.collect();
    let (bench, mut compared) = (Bench::new(), 0);
    for (column, kernel) in head.iter().enumerate().skip(2) {
        for (disk, profile) in PRESENTED {
            let measured: BTreeMap<&str, &str> = rows
                .iter()
                .filter(|row| row[0] == disk && row[column] != "-")
                .map(|row| (row[1], row[column]))
                .collect();
            let page = bench.stdout(&["devices", profile, "--kernel", kernel]);
            let shown: BTreeMap<&str, &str> = page
                .lines()
                .filter(|line| line.starts_with("queue/"))
                .filter_map(|line| line.split_once(' '))
                .collect();
            assert_eq!(shown, measured, "{profile} on {kernel}");
            compared += measured.len();
        }
    }
    assert_eq!(compared, rows.iter().map(|row| present(row)).sum::<usize>());
}

/// The number of kernels that show an attribute.
fn present(row: &[&str]) -> usize {
    row[2..].iter().filter(|value| **value != "-").count()
}

#[test]
fn a_kernel_decides_the_limits_of_a_disk_that_it_presents() {
    let bench = bench();
    let limit = |kernel: &str| {
        let json = bench.json("reads.fio", &["--device", "virtio-blk", "--kernel", kernel]);
        json["elevon"]["device"]["limits"]["max_sectors_kb"].as_u64()
    };
    assert_eq!((limit("6.1"), limit("6.18")), (Some(1280), Some(4096)));
    for (args, expected) in [
        (vec!["devices", "--kernel", "7.3"], "<NAME>"),
        (vec!["devices", "virtio-blk", "--kernel", "7.9"], "7.3 is the nearest"),
        (vec!["devices", "virtio-blk:rotational=0", "--kernel", "7.3"], "--set rotational=0"),
    ] {
        let (code, _, stderr) = output(&bench, &args);
        assert!(code == Some(2) && stderr.contains(expected), "{args:?}: {stderr}");
    }
    let set = ["--device", "virtio-blk", "--set", "write_cache=write through"];
    assert_eq!(bench.json("reads.fio", &set)["elevon"]["device"]["limits"]["write_cache"], false);
    let (code, _, stderr) = output(&bench, &["run", "reads.fio", "--set", "write_cache=on"]);
    assert!(code == Some(2) && stderr.contains("write through, write back or none"), "{stderr}");
}

#[test]
fn a_disk_takes_requests_as_large_as_the_kernel_makes_them() {
    let bench = bench();
    for (kernel, max_sectors_kb, read_ahead_kb) in [("6.1", 1280, 128), ("7.3", 4096, 8192)] {
        let page = bench.stdout(&["devices", "hdd-7200", "--kernel", kernel]);
        for (attribute, value) in [
            ("max_hw_sectors_kb", 32767),
            ("max_sectors_kb", max_sectors_kb),
            ("read_ahead_kb", read_ahead_kb),
        ] {
            let line = format!("queue/{attribute} {value}");
            assert!(page.lines().any(|shown| shown == line), "{kernel}: {line} is not in\n{page}");
        }
    }
}

/// A card without command queueing does one command at a time, but its driver has tags for more:
/// requests wait in the scheduler, which serves the classes of its processes.
#[test]
fn a_card_of_one_command_at_a_time_leaves_the_choice_to_the_scheduler() {
    let bench = bench();
    let page = bench.stdout(&["devices", "emmc-5.1", "--kernel", "7.3"]);
    assert!(page.lines().any(|line| line == "queue/nr_requests 128"), "{page}");
    bench.file(
        "classes.fio",
        "[global]\nrw=randread\nbs=4k\nioengine=libaio\ndirect=1\nruntime=1\ntime_based\n\
         [urgent]\nprioclass=1\niodepth=2\n[other]\niodepth=16\n",
    );
    for (scheduler, shares) in [("none", 0.05..0.6), ("mq-deadline", 0.9..1.0), ("bfq", 0.9..1.0)] {
        let json = bench.json("classes.fio", &["--device", "emmc-5.1", "--scheduler", scheduler]);
        let rates = [0, 1].map(|job| json["jobs"][job]["read"]["iops"].as_f64().expect("a number"));
        let share = rates[0] / (rates[0] + rates[1]);
        assert!(
            shares.contains(&share),
            "{scheduler}: the urgent reads are {share:.2} of {rates:?}"
        );
    }
}
