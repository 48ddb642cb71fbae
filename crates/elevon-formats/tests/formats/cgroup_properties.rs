//! Settings are written as control files and as a file of tenants and parsed back. Random text is
//! accepted or refused, but never panics.

use elevon_core::control::io_throttle::{self, Policy};
use elevon_core::ioprio::PrioPolicy;
use elevon_core::kernel::Kernel;
use elevon_core::units::Nanos;
use elevon_formats::cgroup::{
    Cap, CostControl, CostModel, CostQos, FILES, IoMax, Limit, LimitKey, Setting, WeightFile, parse,
};
use elevon_formats::fio::Span;
use elevon_formats::tenants::{Change, TenantTable, TenantsFile, parse as parse_file};
use elevon_render::tenants as render;
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;

use crate::checks::{cgroup, tenants};

fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![1..100u64, 1..=u64::MAX]
}

fn cap(largest: u64) -> impl Strategy<Value = Cap> {
    prop_oneof![
        Just(Cap::Unlimited),
        (2..1000u64).prop_map(Cap::At),
        (2..=largest).prop_map(Cap::At)
    ]
}

fn io_max() -> impl Strategy<Value = IoMax> {
    let bytes = || of(cap(u64::MAX));
    let ios = || of(cap(u64::from(u32::MAX) - 1));
    (bytes(), bytes(), ios(), ios())
        .prop_map(|(rbps, wbps, riops, wiops)| IoMax { rbps, wbps, riops, wiops })
        .prop_filter("a line names something", |max| *max != IoMax::default())
}

fn weight(most: u16) -> impl Strategy<Value = WeightFile> {
    prop_oneof![(1..=most).prop_map(WeightFile::Default), of(1..=most).prop_map(WeightFile::Device)]
}

fn micros() -> impl Strategy<Value = Nanos> {
    (1..1_000_000_000u64).prop_map(Nanos::from_micros)
}

fn control() -> impl Strategy<Value = CostControl> {
    prop_oneof![Just(CostControl::Auto), Just(CostControl::User)]
}

fn qos() -> impl Strategy<Value = CostQos> {
    let share = || of(0..=10_000u32);
    let first = (of(any::<bool>()), of(control()), share(), of(micros()), share(), of(micros()));
    (first, of(100..=5_000u32), of(5_000..=1_000_000u32))
        .prop_map(|((enable, ctrl, rpct, rlat, wpct, wlat), min, max)| CostQos {
            enable,
            ctrl,
            rpct,
            rlat,
            wpct,
            wlat,
            min,
            max,
        })
        .prop_filter("a line names something", |qos| *qos != CostQos::default())
}

fn model() -> impl Strategy<Value = CostModel> {
    let n = || of(numbers());
    (of(control()), any::<bool>(), n(), n(), n(), n(), n(), n())
        .prop_map(|(ctrl, linear, rbps, rseqiops, rrandiops, wbps, wseqiops, wrandiops)| {
            CostModel { ctrl, linear, rbps, rseqiops, rrandiops, wbps, wseqiops, wrandiops }
        })
        .prop_filter("a line names something", |model| *model != CostModel::default())
}

fn rule() -> impl Strategy<Value = Option<io_throttle::Limit>> {
    let policy =
        prop_oneof![Just(Policy::Leaky), numbers().prop_map(|bucket| Policy::Token { bucket })];
    of((numbers(), policy).prop_map(|(rate, policy)| io_throttle::Limit { rate, policy }))
}

fn limit() -> impl Strategy<Value = Limit> {
    let rate = || of(cap(u64::MAX));
    (rate(), rate(), rate(), rate(), rate(), rate(), of(any::<u64>()), of(any::<u64>())).prop_map(
        |(rbps, wbps, bps, riops, wiops, iops, burst, burst_ios)| Limit {
            rbps,
            wbps,
            bps,
            riops,
            wiops,
            iops,
            burst,
            burst_ios,
        },
    )
}

fn flat() -> impl Strategy<Value = Setting> {
    (0..4usize, cap(u64::from(u32::MAX) - 1))
        .prop_map(|(key, cap)| Setting::Flat(LimitKey::ALL[key], cap))
}

/// Every setting that a control file can express.
fn written() -> impl Strategy<Value = Setting> {
    prop_oneof![
        io_max().prop_map(Setting::IoMax),
        flat(),
        weight(10_000).prop_map(Setting::IoWeight),
        weight(1_000).prop_map(Setting::BfqWeight),
        (0..5usize).prop_map(|policy| Setting::Class(PrioPolicy::ALL[policy])),
        of(micros()).prop_map(Setting::Latency),
        rule().prop_map(Setting::Bandwidth),
        rule().prop_map(Setting::Iops),
    ]
}

fn of_tenant() -> impl Strategy<Value = Setting> {
    prop_oneof![4 => written(), 1 => (1..=10_000u16).prop_map(Setting::Weight), 1 => limit().prop_map(Setting::Limit)]
}

fn of_device() -> impl Strategy<Value = Setting> {
    prop_oneof![qos().prop_map(Setting::CostQos), model().prop_map(Setting::CostModel)]
}

/// Keeps one setting per key, so that the order of lines does not matter.
fn unique(settings: Vec<Setting>) -> Vec<Setting> {
    let mut kept: Vec<Setting> = Vec::new();
    for setting in settings {
        if kept.iter().all(|other| other.name() != setting.name()) {
            kept.push(setting);
        }
    }
    kept
}

fn path() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_ .\"\\\\=\u{e4}-]{1,6}(/[a-z]{1,3}){0,3}"
        .prop_filter("a name", |path| !matches!(path.split('/').next(), Some("." | "..")))
}

fn file() -> impl Strategy<Value = TenantsFile> {
    let tenants = btree_map(path(), vec(of_tenant(), 0..5).prop_map(unique), 0..5);
    let change = prop_oneof![
        (path().prop_map(Some), vec(of_tenant(), 1..3).prop_map(unique)),
        (Just(None), vec(of_device(), 1..3).prop_map(unique)),
    ];
    (vec(of_device(), 0..3).prop_map(unique), tenants, vec((any::<u64>(), change), 0..4)).prop_map(
        |(device, tenants, changes)| TenantsFile {
            device,
            tenants: tenants
                .into_iter()
                .map(|(path, settings)| TenantTable { path, place: Span::default(), settings })
                .collect(),
            changes: changes
                .into_iter()
                .map(|(at, (tenant, settings))| Change {
                    at: Nanos::new(at),
                    tenant,
                    place: Span::default(),
                    settings,
                })
                .collect(),
            named: None,
        },
    )
}

/// Removes places and the name of the device, which rendering does not keep.
fn plain(mut file: TenantsFile) -> TenantsFile {
    file.named = None;
    file.tenants.iter_mut().for_each(|tenant| tenant.place = Span::default());
    file.changes.iter_mut().for_each(|change| change.place = Span::default());
    file
}

proptest! {
    #[test]
    fn a_setting_is_read_as_it_is_written(setting in prop_oneof![written(), of_device()], device in 0..4usize) {
        let device = [None, Some("8:0"), Some("/dev/sdb"), Some("nvme0n1")][device];
        let numbered = device.filter(|d| d.starts_with('/') || !setting.name().starts_with("blockio"));
        let rules = Kernel::V6_18.rules();
        let line = setting.text(numbered);
        let read = parse(setting.name(), &line, &rules);
        prop_assert_eq!(read.map(|line| line.setting), Ok(setting), "{}", line);
    }

    #[test]
    fn a_file_is_read_as_it_is_written(file in file()) {
        let text = render(&file);
        let read = parse_file("t.toml", &text, &Kernel::V6_18.rules());
        prop_assert_eq!(read.map(plain), Ok(file), "{}", text);
    }

    #[test]
    fn random_lines_are_taken_or_refused(file in 0..FILES.len(), line in "[ -~\t\u{e4}]{0,40}") {
        cgroup::cgroup(format!("{} {line}", FILES[file].name).as_bytes());
    }

    #[test]
    fn lines_of_known_words_are_taken_or_refused(
        file in 0..FILES.len(),
        words in vec(prop_oneof![
            "[0-9]{1,20}", "8:[0-9]{1,2}", "/dev/sd[a-c][1-3]?", "default", "max", "target=[0-9a-z]{1,5}",
            "(enable|ctrl|rpct|rlat|min|max|model)=[0-9a-z.]{0,7}", "[rw](bps|iops)=[0-9]{0,11}(max|M|Ki)?",
            "/dev/sda:[0-9]{0,4}:[0-2](:[0-9]{0,3})?",
        ], 0..4),
    ) {
        cgroup::cgroup(format!("{} {}", FILES[file].name, words.join(" ")).as_bytes());
    }

    #[test]
    fn random_files_are_taken_or_refused(text in "[ -~\n\u{e4}]{0,200}") {
        tenants::tenants(text.as_bytes());
    }

    #[test]
    fn a_good_file_with_a_byte_changed_is_taken_or_refused(file in file(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut text = render(&file).into_bytes();
        if !text.is_empty() {
            let at = at.index(text.len());
            text[at] = byte;
        }
        tenants::tenants(&text);
    }
}
