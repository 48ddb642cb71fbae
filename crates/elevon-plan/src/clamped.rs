//! Finds settings and tunables whose value in force differs from the requested one, because the
//! kernel clamps or rounds it silently.

use std::collections::BTreeMap;

use elevon_cache::page_cache::CacheConfig;
use elevon_cache::settings as cache_settings;
use elevon_core::limits::{QueueLimits, SYSFS};
use elevon_core::sched::SchedulerConfig;
use elevon_core::setting::{self, SettingRow, SettingValue};
use elevon_core::stack::StackConfig;
use elevon_core::stack::config::SETTINGS;
use elevon_core::units::Sectors;

/// Returns a line for each `--set KEY=VALUE` and each tunable whose value differs from the one in
/// force. If a key is given more than once, the last one counts. `cache`: the page cache, if there
/// is one.
pub(crate) fn lines(
    settings: &[(String, String)],
    config: &StackConfig,
    cache: Option<&CacheConfig>,
) -> Vec<String> {
    let last: BTreeMap<&str, &str> =
        settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let of_set =
        last.into_iter().filter_map(|(key, value)| line(key, value.parse().ok()?, config, cache));
    of_set.chain(of_tunables(&config.scheduler)).collect()
}

fn of_tunables(scheduler: &SchedulerConfig) -> impl Iterator<Item = String> {
    scheduler.tunables.iter().filter_map(|&(name, asked)| {
        let tunable = scheduler.info().tunables.iter().find(|tunable| tunable.name == name)?;
        let got = tunable.in_force(asked);
        let scheduler = scheduler.name;
        (got != asked).then(|| {
            format!("--scheduler {scheduler}:{name}={asked}: in force is {got}, as in the kernel")
        })
    })
}

fn line(
    key: &str,
    asked: i64,
    config: &StackConfig,
    cache: Option<&CacheConfig>,
) -> Option<String> {
    let (unit, got) = match setting::find(SETTINGS, key) {
        Some(SettingRow { value: SettingValue::Number { unit, get, .. }, .. }) => {
            (*unit, get(config) as i64)
        }
        Some(row) => ("", row.text(config).parse().ok()?),
        None => match SYSFS.iter().find(|row| row.name == key) {
            Some(row) => {
                (if row.unit == "0 or 1" { "" } else { row.unit }, config.limits.read(key)?)
            }
            None => match &setting::find(cache_settings::SETTINGS, key)?.value {
                SettingValue::Number { unit, get, .. } => (*unit, get(cache?) as i64),
                _ => return None,
            },
        },
    };
    // These numbers request the default.
    let is_default = match key {
        "max_sectors_kb" | "max_segment_size" | "discard_granularity" => asked == 0,
        "wbt_lat_usec" => asked == -1,
        _ => false,
    };
    if got == asked || is_default {
        return None;
    }
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    let why = why(key, asked, got, config);
    Some(format!("--set {key}={asked}: in force is {got}{unit}{why}"))
}

/// Explains what limits a setting, and which other setting removes the limit.
fn why(key: &str, asked: i64, got: i64, config: &StackConfig) -> String {
    let limits = &config.limits;
    match key {
        "max_sectors_kb" => {
            let (cap, kb) = hardware_cap(limits);
            let lift = format!("--set {cap}={asked} lifts it");
            format!(", since the hardware takes no more ({cap}={kb}); {lift}")
        }
        "read_ahead_kb" => ", whole pages, as in the kernel".to_owned(),
        "nomerges" | "rotational" | "iostats" | "wbt_lat_usec" => ", as in the kernel".to_owned(),
        "nr_requests" if got > asked => ", the least that the kernel has".to_owned(),
        "nr_requests" => {
            let depth = config.queue_depth;
            format!(
                ", since there is no scheduler and the device queue holds {depth}; --set queue_depth={asked} lifts it"
            )
        }
        "async_depth" => format!(", since nr_requests is {}", config.nr_requests()),
        "fua" => {
            ", since there is no write cache to write through; --set write_cache=1 first".to_owned()
        }
        "discard_max_bytes" => {
            let most = limits.max_hw_discard_sectors.bytes().get();
            format!(
                ", since the hardware takes no more (discard_max_hw_bytes={most}); --set discard_max_hw_bytes={asked} lifts it"
            )
        }
        _ => ", rounded to what the other limits allow, as the kernel does".to_owned(),
    }
}

/// Returns the smaller of the two hardware limits: its name and its value in KiB.
fn hardware_cap(limits: &QueueLimits) -> (&'static str, u64) {
    let kb = |sectors: Sectors| sectors.get() / 2;
    if !limits.max_dev_sectors.is_zero() && limits.max_dev_sectors < limits.max_hw_sectors {
        ("max_dev_sectors_kb", kb(limits.max_dev_sectors))
    } else {
        ("max_hw_sectors_kb", kb(limits.max_hw_sectors))
    }
}

#[cfg(test)]
mod tests {
    use elevon_core::kernel::Kernel;
    use elevon_core::sched::SchedulerConfig;
    use elevon_sim::device::Device;

    fn lines(device: &str, set: &[(&str, &str)]) -> Vec<String> {
        let device = elevon_sim::profiles::open(device, 1).expect("a device");
        let mut config = device.description().stack_config();
        config.limits.validate(&Kernel::V6_18.rules()).expect("valid limits");
        let settings: Vec<_> =
            set.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        for (key, value) in &settings {
            config.set(key, value).expect("a good setting");
        }
        super::lines(&settings, &config, None)
    }

    #[test]
    fn what_is_clamped_names_what_lifts_it() {
        let clamped = "--set max_sectors_kb=1280: in force is 512 KiB, since the hardware takes no more \
                       (max_hw_sectors_kb=512); --set max_hw_sectors_kb=1280 lifts it";
        assert_eq!(lines("ufs-4.0", &[("max_sectors_kb", "1280")]), [clamped]);
        let both = [("max_sectors_kb", "1280"), ("max_hw_sectors_kb", "1280")];
        assert_eq!(lines("ufs-4.0", &both), Vec::<String>::new());
        assert_eq!(
            lines("ufs-4.0", &[("max_sectors_kb", "1280"), ("max_sectors_kb", "64")]),
            Vec::<String>::new()
        );
        assert_eq!(lines("ufs-4.0", &[("max_sectors_kb", "0")]), Vec::<String>::new());
        let dev = lines("ufs-4.0", &[("max_dev_sectors_kb", "256"), ("max_sectors_kb", "512")]);
        assert!(
            dev.len() == 1 && dev[0].contains("--set max_dev_sectors_kb=512 lifts it"),
            "{dev:?}"
        );
        let requests = lines("ufs-4.0", &[("nr_requests", "64")]);
        assert!(
            requests.len() == 1 && requests[0].contains("in force is 31 requests"),
            "{requests:?}"
        );
        let fua = lines("hdd-7200", &[("write_cache", "0"), ("fua", "1")]);
        assert!(fua.len() == 1 && fua[0].contains("--set write_cache=1 first"), "{fua:?}");
        let flags = lines(
            "ufs-4.0",
            &[("nomerges", "3"), ("rotational", "5"), ("iostats", "2"), ("wbt_lat_usec", "-1")],
        );
        let in_force = ["iostats=2", "nomerges=3", "rotational=5"]
            .map(|set| format!("--set {set}: in force is 1, as in the kernel"));
        assert_eq!(flags, in_force);
        let tunables = "mq-deadline:front_merges=2,read_expire=-1,fifo_batch=8";
        let scheduler = SchedulerConfig::parse(tunables).expect("a scheduler");
        let tunables = super::of_tunables(&scheduler);
        let told = ["front_merges=2: in force is 1", "read_expire=-1: in force is 0"];
        assert_eq!(
            tunables.collect::<Vec<_>>(),
            told.map(|one| format!("--scheduler mq-deadline:{one}, as in the kernel"))
        );
        let rounded = lines("ufs-4.0", &[("max_hw_sectors_kb", "510")]);
        assert!(rounded.len() == 1 && rounded[0].contains("in force is 508 KiB"), "{rounded:?}");
    }
}
