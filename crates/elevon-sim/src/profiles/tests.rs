//! Tests each profile by depth and by request size, and the rules for all profiles.
//!
//! The tables below follow from the parameters of the models, such as a command's cost, service
//! time, dies and link. They were computed independently of this code. Published figures of the
//! devices are in the profiles (`Profile::published`).

use std::collections::VecDeque;

use elevon_core::driver::Accept;
use elevon_core::op::Op;
use elevon_core::units::Instant;

use super::predict::{mean_value_analysis, run};
use super::*;
use crate::chance::draw;
use crate::device::Device;
use crate::device::closed_loop::{Measured, command};

fn named(name: &str) -> &'static Profile {
    profile(name).expect("the name is in the table")
}

fn random(name: &str, settings: &str, depth: u32, ios: u64) -> Measured {
    let workload = Workload { write: false, random: true, bytes: 4096, depth };
    run(named(name), settings, workload, ios, 1).unwrap()
}

fn near(what: &str, got: f64, expected: f64, tolerance: f64) {
    assert!(
        (got / expected - 1.0).abs() <= tolerance,
        "{what}: {got:.2} is not {expected} within {tolerance}"
    );
}

/// One request of a run: when it was submitted and completed, and its bytes.
struct Served {
    submitted: u64,
    completed: u64,
    bytes: u64,
}

/// Keeps `depth` requests of the list in flight. The host needs `host` nanoseconds for each
/// submission, one after another.
fn drive(device: &mut AnyDevice, depth: usize, host: u64, list: &[(Op, u64, u64)]) -> Vec<Served> {
    let mut served: Vec<Served> = Vec::with_capacity(list.len());
    let mut ready: VecDeque<u64> = (1..=depth as u64).map(|i| i * host).collect();
    let mut host_free = depth as u64 * host;
    loop {
        let event = device.next_event().map_or(u64::MAX, Instant::get);
        let submit = if served.len() < list.len() {
            ready.front().copied().unwrap_or(u64::MAX)
        } else {
            u64::MAX
        };
        let now = event.min(submit);
        if now == u64::MAX {
            return served;
        }
        while let Some(completion) = device.poll(Instant::new(now)) {
            served[completion.request.index()].completed = now;
            host_free = host_free.max(now) + host;
            ready.push_back(host_free);
        }
        while served.len() < list.len() && ready.front().is_some_and(|&at| at <= now) {
            ready.pop_front();
            let (op, offset, bytes) = list[served.len()];
            let command = command(served.len() as u32, op, offset / 512, bytes);
            assert_eq!(device.submit(Instant::new(now), &command), Accept::Ok);
            served.push(Served { submitted: now, completed: 0, bytes });
        }
    }
}

fn megabytes_per_second(served: &[Served]) -> f64 {
    let end = served.iter().map(|s| s.completed).max().unwrap();
    served.iter().map(|s| s.bytes).sum::<u64>() as f64 * 1e3 / end as f64
}

/// 4 KiB random reads by depth, kIOPS.
#[test]
fn random_reads_by_depth() {
    type Row = (&'static str, &'static [(u32, f64)], f64);
    let table: &[Row] = &[
        (
            "sata-ssd-plextor-m5s",
            &[(1, 6.1), (4, 22.3), (5, 27.0), (8, 38.9), (16, 58.8), (32, 73.9)],
            0.03,
        ),
        ("sata-ssd-860evo", &[(1, 9.6), (4, 37.1), (8, 69.9), (16, 98.0), (32, 98.0)], 0.03),
        ("emmc-5.1", &[(1, 8.3), (8, 8.3)], 0.02),
        ("emmc-5.1-cq", &[(1, 8.3), (4, 11.1), (8, 11.1), (31, 11.1)], 0.02),
        // The table's depth 32 is one more than the 31 commands that UFS holds; the difference is
        // far below the tolerance.
        ("ufs-2.1", &[(1, 7.9), (4, 24.3), (8, 33.1), (16, 37.8), (32, 40.0)], 0.03),
        ("ufs-3.1", &[(1, 10.2), (4, 36.7), (8, 61.5), (16, 85.8), (32, 100.6)], 0.03),
        ("ufs-4.0", &[(1, 13.4), (4, 48.6), (8, 82.7), (16, 117.9), (32, 139.3)], 0.03),
        (
            "nvme-consumer",
            &[(1, 15.5), (4, 59.7), (8, 113.5), (16, 203.9), (32, 325.6), (128, 508.0)],
            0.03,
        ),
        (
            "nvme-datacenter",
            &[
                (1, 13.1),
                (4, 50.4),
                (8, 95.7),
                (16, 171.3),
                (32, 272.6),
                (128, 424.0),
                (256, 454.0),
            ],
            0.03,
        ),
        (
            "optane",
            &[(1, 112.0), (4, 444.0), (8, 585.0), (16, 585.0), (32, 585.0), (128, 585.0)],
            0.02,
        ),
        // "null 10 us": the closed form is depth / 10 us.
        (
            "null:latency=10us",
            &[(1, 100.0), (4, 400.0), (8, 800.0), (16, 1600.0), (32, 3200.0)],
            0.001,
        ),
    ];
    for &(name, row, tolerance) in table {
        let (name, settings) = name.split_once(':').unwrap_or((name, ""));
        for &(depth, expected) in row {
            let got = random(name, settings, depth, 50_000).iops() / 1e3;
            near(&format!("{name} at depth {depth}"), got, expected, tolerance);
        }
    }
}

/// Latencies at depth 1, in microseconds.
#[test]
fn latency_at_depth_one() {
    for (name, expected) in [
        ("sata-ssd-plextor-m5s", 164.0),
        ("sata-ssd-860evo", 104.0),
        ("emmc-5.1", 121.0),
        ("ufs-2.1", 127.0),
        ("ufs-3.1", 98.0),
        ("ufs-4.0", 75.0),
        ("nvme-consumer", 65.0),
        ("nvme-datacenter", 77.0),
        ("optane", 8.9),
    ] {
        near(name, random(name, "", 1, 20_000).mean_latency().get() as f64 / 1e3, expected, 0.015);
    }
}

/// Exponential service has an exact solution; the expected values are those of M = 12, t_R = 133.1
/// us, Z = 30.7 us.
#[test]
fn mean_value_analysis_is_met_by_exponential_service() {
    for (depth, oracle, fixed) in [
        (1, 6.1, 6.1),
        (2, 11.6, 11.9),
        (5, 24.9, 27.0),
        (8, 34.7, 38.9),
        (16, 51.1, 58.8),
        (32, 65.9, 73.9),
    ] {
        let closed = mean_value_analysis(depth, 12.0, 133_100.0, 30_700.0) * 1e6;
        near(&format!("the oracle's own value at {depth}"), closed, oracle, 0.005);
        let exponential =
            random("sata-ssd-plextor-m5s", "distribution=exp,stall_share=0", depth, 400_000);
        near(&format!("exponential at {depth}"), exponential.iops() / 1e3, closed, 0.015);
        let settings = "distribution=fixed,stall_share=0";
        near(
            &format!("fixed at {depth}"),
            random("sata-ssd-plextor-m5s", settings, depth, 50_000).iops() / 1e3,
            fixed,
            0.015,
        );
    }
}

/// Sequential reads (and two rows of writes) by request size, MB/s.
#[test]
fn sequential_by_request_size() {
    const SIZES: [u64; 6] = [4, 16, 64, 128, 512, 1024];
    let table: &[(&str, &str, bool, u32, [f64; 6])] = &[
        ("sata-ssd-plextor-m5s", "", false, 1, [25.0, 88.0, 234.0, 325.0, 458.0, 491.0]),
        ("sata-ssd-860evo", "", false, 1, [40.0, 130.0, 302.0, 387.0, 491.0, 515.0]),
        // At 128 KiB the limit is 250; it counts from the fetch of a command, which costs 2 %.
        ("emmc-5.1", "", false, 1, [33.0, 103.0, 212.0, 250.0, 250.0, 250.0]),
        ("ufs-2.1", "", false, 16, [333.0, 379.0, 551.0, 697.0, 871.0, 909.0]),
        ("ufs-3.1", "", false, 16, [527.0, 584.0, 946.0, 1344.0, 1964.0, 2127.0]),
        ("ufs-4.0", "", false, 16, [591.0, 662.0, 1180.0, 1882.0, 3396.0, 3922.0]),
        ("ufs-4.0", "", true, 8, [331.0, 353.0, 662.0, 1159.0, 2651.0, 3374.0]),
        ("ufs-3.1", "", true, 8, [0.0, 0.0, 0.0, 795.0, 1122.0, 1204.0]),
        ("nvme-consumer", "", false, 1, [63.0, 240.0, 792.0, 1284.0, 2408.0, 2819.0]),
        ("nvme-consumer", "", false, 8, [0.0, 0.0, 0.0, 0.0, 3400.0, 3400.0]),
        ("nvme-datacenter", "", false, 1, [53.0, 202.0, 654.0, 1045.0, 1895.0, 2192.0]),
        ("nvme-datacenter", "", false, 8, [0.0, 0.0, 0.0, 0.0, 2600.0, 2600.0]),
        // A variant of the profile: the simulation that computed this row had a read time of 5 us,
        // while the published latency at depth 1 needs the profile's 3.5 us. It compares the model
        // with the computation, not with the real device.
        ("optane", "read_time=5us", false, 1, [393.0, 1055.0, 1820.0, 2070.0, 2308.0, 2353.0]),
    ];
    for &(name, settings, write, depth, row) in table {
        for (kib, expected) in SIZES.into_iter().zip(row).filter(|(_, expected)| *expected > 0.0) {
            let workload = Workload { write, random: false, bytes: kib << 10, depth };
            let ios = (1 << 30 >> 10) / kib;
            let got = run(named(name), settings, workload, ios.clamp(4_000, 20_000), 1).unwrap();
            let what = format!("{name} {kib} KiB at depth {depth}, write {write}");
            near(&what, got.bytes_per_second() / 1e6, expected, 0.03);
        }
    }
}

/// Throughput of the Plextor at mean depths 1 to 5, and the sensitivity of the prediction to the
/// service's spread.
#[test]
fn seed_002_throughput_by_depth() {
    for (depth, expected) in [(1, 25.0), (2, 48.7), (3, 70.8), (4, 91.4), (5, 110.5)] {
        let got = random("sata-ssd-plextor-m5s", "", depth, 100_000).bytes_per_second() / 1e6;
        near(&format!("depth {depth}"), got, expected, 0.01);
    }
    let exponential =
        random("sata-ssd-plextor-m5s", "distribution=exp", 5, 100_000).bytes_per_second() / 1e6;
    near("exponential service at depth 5", exponential, 101.5, 0.015);
}

/// Proposal 001's request streams on the event model: the baseline with its small tails, each
/// issued after the first part of the next bio; 512 KiB only; bios of 1792 KiB; 1 MiB.
#[test]
fn seed_001_streams_on_ufs_4() {
    const KIB: u64 = 1024;
    let tails = [48 * KIB, 48 * KIB, 32 * KIB, 24 * KIB];
    let baseline = |op| {
        let (mut list, mut offset, mut pending) = (Vec::new(), 0, None);
        for bio in 0..2000 {
            let tail = tails[bio % tails.len()];
            list.push((op, offset, 512 * KIB));
            list.extend(pending.replace((op, offset + 1024 * KIB, tail)));
            list.push((op, offset + 512 * KIB, 512 * KIB));
            offset += 1024 * KIB + tail;
        }
        list
    };
    let even = |op, sizes: &[u64]| {
        let mut offset = 0;
        let step = |size: &u64| {
            offset += size;
            (op, offset - size, *size)
        };
        sizes.iter().cycle().take(4000).map(step).collect::<Vec<_>>()
    };
    let kib512 = 512 * KIB;
    for (op, what, list, expected) in [
        (Op::Read, "baseline read", baseline(Op::Read), 3054.0),
        (Op::Read, "512 KiB reads", even(Op::Read, &[kib512]), 3395.0),
        (Op::Read, "1792 KiB bios", even(Op::Read, &[kib512, kib512, kib512, kib512 / 2]), 3270.0),
        (Op::Read, "1 MiB reads", even(Op::Read, &[1024 * KIB]), 3921.0),
        (Op::Write, "baseline write", baseline(Op::Write), 2249.0),
        (Op::Write, "512 KiB writes", even(Op::Write, &[kib512]), 2651.0),
        (
            Op::Write,
            "1792 KiB bios written",
            even(Op::Write, &[kib512, kib512, kib512, kib512 / 2]),
            2498.0,
        ),
    ] {
        for depth in [4, 8, 16] {
            let got =
                megabytes_per_second(&drive(&mut open("ufs-4.0", 1).unwrap(), depth, 0, &list));
            near(&format!("{what} at depth {depth}, {op:?}"), got, expected, 0.03);
        }
    }
}

/// Proposal 003's volume with 120 requests in flight and a host that submits one request every 60
/// us.
#[test]
fn seed_003_bursts_and_stalls() {
    let list: Vec<_> = (0..60_000)
        .map(|i| (Op::Read, draw(5, 0, i) % (1 << 20) * 65536 % (1 << 39), 65536))
        .collect();
    let served = drive(&mut open("raid-lun-1q", 1).unwrap(), 120, 60_000, &list);
    // The first five seconds and the last one are ignored.
    let steady: Vec<_> = served.iter().skip(20_000).take(36_000).collect();
    let latencies: Vec<f64> =
        steady.iter().map(|s| (s.completed - s.submitted) as f64 / 1e6).collect();
    let count = latencies.len() as f64;
    let mean = latencies.iter().sum::<f64>() / count;
    let deviation = (latencies.iter().map(|l| (l - mean) * (l - mean)).sum::<f64>() / count).sqrt();
    let span = (steady.last().unwrap().submitted - steady[0].submitted) as f64 / 1e9;
    let iops = (count - 1.0) / span;
    let (least, most) =
        latencies.iter().fold((f64::MAX, 0.0f64), |(a, b), &l| (a.min(l), b.max(l)));
    near("IOPS", iops, 4000.0, 0.01);
    near("mean", mean, 26.5, 0.03);
    near("deviation", deviation, 62.8, 0.03);
    near("in flight", iops * mean / 1e3, 105.9, 0.03);
    near("least", least, 1.5, 0.02);
    near("most", most, 213.0, 0.05);
}

/// Little's law holds, throughput does not fall with depth, the same random seed gives the same
/// result, and no latency is below t_fix.
#[test]
fn invariants_of_every_profile() {
    for profile in PROFILES {
        let device = profile.open("", 1).unwrap();
        let holds = u32::from(device.description().hw_queues) * device.description().queue_depth;
        let slow = matches!(profile.base, Base::Disk(_));
        let mut last = 0.0;
        for depth in [1, 2, 4, 8, 16, 31, 64, 256].into_iter().filter(|depth| *depth <= holds) {
            let settings = if profile.name == "null" { "latency=10us" } else { "" };
            let measure =
                || random(profile.name, settings, depth, if slow { 3_000 } else { 20_000 });
            let measured = measure();
            let what = format!("{} at depth {depth}", profile.name);
            assert_eq!(measured.errors, 0, "{what}");
            let little = measured.iops() * measured.latency_sum as f64 / measured.ios as f64 / 1e9;
            near(&what, measured.mean_in_flight(), little, 0.005);
            assert!(measured.iops() >= last * 0.99, "{what}: {} after {last}", measured.iops());
            last = measured.iops();
            assert_eq!(measured, measure(), "{what}: the same again");
            if let Some(config) = profile.flash_config("").unwrap() {
                assert!(measured.latency_min.get() >= config.fixed_latency, "{what}");
            }
        }
    }
}

/// A request of size s compared with two of s/2 submitted together: it is never slower, and if the
/// command's cost is on the link and complete at s/2, it is faster by one whole command cost.
#[test]
fn one_request_is_not_slower_than_its_halves() {
    for profile in PROFILES {
        let Some(config) = profile.flash_config("distribution=fixed,stall_share=0").unwrap() else {
            continue;
        };
        // A cap on the rate hides the cost of a command.
        if config.queue_depth < 2 || config.read_rate > 0 {
            continue;
        }
        for kib in [8, 32, 128, 512] {
            let time = |list: &[(Op, u64, u64)]| {
                let mut device = profile.open("distribution=fixed,stall_share=0", 1).unwrap();
                drive(&mut device, list.len(), 0, list).iter().map(|s| s.completed).max().unwrap()
            };
            let half = kib << 9;
            let one = time(&[(Op::Read, 0, 2 * half)]);
            let two = time(&[(Op::Read, 0, half), (Op::Read, half, half)]);
            let what = format!("{} {kib} KiB: {one} against {two} ns", profile.name);
            // The two halves are rounded to whole nanoseconds twice, the whole once.
            assert!(one <= two + 2, "{what}");
            if config.command_on_link == 1 && half >= config.command_size.max(config.unit) {
                assert!(one + config.read_command_cost <= two + 2, "{what}");
            }
        }
    }
}

/// No link transfers more than its rate in any millisecond (and one request that began before it).
#[test]
fn links_never_exceed_their_rate() {
    for profile in PROFILES {
        let Some(config) = profile.flash_config("").unwrap() else { continue };
        let depth = config.most_at_once().min(32) as usize;
        for (op, rate) in [(Op::Read, config.read_link), (Op::Write, config.write_link)] {
            let list: Vec<_> = (0..2_000).map(|i| (op, i * 131072, 131072)).collect();
            let mut served = drive(&mut profile.open("", 1).unwrap(), depth, 0, &list);
            served.sort_by_key(|s| s.completed);
            let (mut first, mut inside) = (0, 0);
            for last in 0..served.len() {
                inside += served[last].bytes;
                while served[last].completed - served[first].completed > 1_000_000 {
                    inside -= served[first].bytes;
                    first += 1;
                }
                assert!(inside <= rate / 1000 + 131072, "{}: {inside} bytes in 1 ms", profile.name);
            }
        }
    }
}

#[test]
fn names_and_settings_are_checked() {
    for name in names() {
        let device = open(name, 1).unwrap();
        assert!(device.description().size.get() > 0, "{name}");
        if !MODELS.contains(&name) {
            assert_eq!(device.description().name, name);
        }
    }
    assert!(profile(DEFAULT).is_some());
    for (spec, error) in [
        (
            "optan",
            "unknown device `optan` (did you mean `optane`?); there are null, null-blk, virtio-blk, ",
        ),
        (
            "ufs-4.0:read_comand_cost=41us",
            "unknown parameter `read_comand_cost` (did you mean `read_command_cost`?)",
        ),
        (
            "ufs-4.0:read_command_cost=41",
            "expected a time with its unit (ns, us, ms, s), as in 66us, from 0 to 60s",
        ),
        ("ufs-4.0:unit=48KiB", "device ufs-4.0: `unit` must be a power of two"),
        (
            "raid-lun-1q:servers=0",
            "device raid-lun-1q: `servers=0`: expected a whole number, from 1 to 4096",
        ),
        ("hdd-7200:rpm=99999999999", "expected a whole number, from 1000 to 20000"),
        ("slots:slots=0", "device slots: `slots=0`"),
        ("null:sise=1GiB", "unknown parameter `sise` (did you mean `size`?)"),
        ("emmc-5.1:queue_depth", "`queue_depth=`: expected a whole number"),
    ] {
        let got = open(spec, 1).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(got.contains(error), "{spec}: {got}");
    }
    for spec in [
        "ufs-4.0:read_command_cost=41us",
        "raid-lun-1q:slice=300ms",
        "hdd-7200:margin=0,write_cache=0",
        "null:latency=10us",
    ] {
        assert!(open(spec, 1).is_ok(), "{spec}");
    }
}

/// The parameters that a profile lists are valid as its settings.
#[test]
fn every_parameter_line_is_a_setting() {
    for profile in PROFILES {
        for line in profile.parameters() {
            let setting = format!("{}={}", line.key, line.value);
            assert!(profile.open(&setting, 1).is_ok(), "{}:{setting}", profile.name);
            assert!(!line.meaning.is_empty());
        }
    }
}

/// Compares formulas with the model, within the accuracy of the form. Nearly constant service is up
/// to 16 % faster than the exponential form.
#[test]
fn predictions_stand_beside_what_the_model_does() {
    for profile in PROFILES {
        let all = predictions(profile).unwrap();
        assert_eq!(all.is_empty(), matches!(profile.base, Base::Model { .. }), "{}", profile.name);
        let mut compared = 0;
        for prediction in all {
            let ours = measure(profile, "", &prediction, 1).unwrap();
            let ratio = ours / prediction.closed_form;
            let what =
                format!("{}, {}: model / closed form = {ratio:.3}", profile.name, prediction.what);
            // The disk's power law was fitted to another drive than hdd-2009, whose own table is 5
            // % below it at depth 31. The analysis treats the command stage as a delay only:
            // optane's is 90 % busy at depth 5, and 4 % are lost there.
            assert!((0.94..=1.17).contains(&ratio), "{what}");
            if let Some(published) = prediction.published {
                let error = 100.0 * (ours / published.value - 1.0).abs();
                let what = format!(
                    "{}, {}: {error:.2} % off the published figure",
                    profile.name, prediction.what
                );
                assert!(error <= published.within, "{what}, stated: within {} %", published.within);
                assert!(
                    published.within <= error + 1.5,
                    "{what}, which is better than the {} % stated",
                    published.within
                );
                compared += 1;
            }
        }
        assert_eq!(
            compared,
            profile.published.len(),
            "{}: every published figure is compared",
            profile.name
        );
    }
}

/// Sources name existing parameters, and each can be cited.
#[test]
fn sources_name_parameters_and_can_be_cited() {
    for profile in PROFILES {
        let parameters = profile.parameters();
        for source in profile.sources {
            for name in source.parameters {
                let is_limit = elevon_core::limits::SYSFS.iter().any(|limit| limit.name == *name);
                let is_parameter = parameters.iter().any(|line| line.key == *name);
                assert!(is_limit || is_parameter, "{}: `{name}` is neither", profile.name);
                let others =
                    profile.sources.iter().filter(|other| other.parameters.contains(name)).count();
                assert_eq!(others, 1, "{}: `{name}` has {others} sources", profile.name);
            }
        }
        let references = profile
            .sources
            .iter()
            .map(|s| s.reference)
            .chain(profile.published.iter().map(|p| p.reference));
        for reference in references {
            assert!(!reference.title.is_empty() && !reference.author.is_empty());
            let text = reference.to_string();
            assert_eq!(
                text.contains("no public address known"),
                reference.address.is_none(),
                "{text}"
            );
            assert!(reference.address.is_none_or(|address| address.starts_with("http")), "{text}");
            assert!(!text.contains("memory"), "what is only remembered is no source: {text}");
        }
    }
    let line = |key: &str| {
        named("ufs-4.0").parameters().into_iter().find(|line| line.key == key).expect("a parameter")
    };
    assert_eq!(line("read_command_cost").source, Some(0));
    assert_eq!(line("dies").source, None, "an estimate");
}
