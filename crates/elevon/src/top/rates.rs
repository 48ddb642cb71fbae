//! Rates of devices and tenants, of two answers of a server to `stats`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use elevon_core::op::StatGroup;
use elevon_result::number;
use serde_json::Value;

use super::cache::{CacheRates, CacheUse};
use crate::ctl::{columns, list, waiting_line, weight_line};

/// What a device did between two answers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeviceRates {
    pub(super) name: String,
    /// The share of the time with I/O in flight, from 0 to 1.
    pub(super) busy: f64,
    /// The mean number of requests in flight.
    pub(super) depth: f64,
    /// I/Os a second.
    pub(super) iops: f64,
    /// Bytes a second.
    pub(super) bytes: f64,
    /// Why I/O no longer reaches it.
    pub(super) failure: Option<String>,
    /// Its page cache, if there is one.
    pub(super) cache: Option<CacheRates>,
    pub(super) tenants: Vec<TenantRates>,
}

/// What a tenant, with those below it, did between two answers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TenantRates {
    pub(super) path: String,
    /// Requests of its clients that were answered, a second. With a page cache these may need no
    /// I/O.
    pub(super) requests: f64,
    /// I/Os a second.
    pub(super) iops: f64,
    /// Bytes a second.
    pub(super) read: f64,
    /// Bytes a second.
    pub(super) written: f64,
    pub(super) in_flight: u64,
    /// Latency that its clients saw, from a request's arrival to its answer, in nanoseconds:
    /// median and the 99th percentile. The time that limits held requests counts.
    pub(super) client: [Option<u64>; 2],
    /// Latency of the I/O that ended, from its release by limits, likewise.
    pub(super) device: [Option<u64>; 2],
    /// The mean number of its I/Os that were at the device.
    pub(super) at_device: f64,
    /// What its I/O waited for, the longest first, in percent.
    pub(super) causes: Vec<(String, f64)>,
    /// What waits for an answer now, if anything does.
    pub(super) waiting: Option<String>,
    /// Whether its weight was not in force, and why.
    pub(super) weight: Option<String>,
    /// What it found in the page cache, if there is one.
    pub(super) cache: Option<CacheUse>,
    pub(super) settings: Vec<String>,
}

/// Returns what every device did between two answers. A device that counts anew is left out.
pub(super) fn rates(before: &Value, now: &Value) -> Vec<DeviceRates> {
    let old = |name: &Value| list(&before["devices"]).find(|device| device["name"] == *name);
    list(&now["devices"]).filter_map(|device| device_rates(old(&device["name"])?, device)).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the difference of a counter, at the end of a path of keys.
pub(super) fn since(before: &Value, now: &Value, path: &str) -> f64 {
    let number = |value: &Value| value.pointer(path).and_then(Value::as_f64).unwrap_or_default();
    (number(now) - number(before)).max(0.0)
}

fn device_rates(before: &Value, now: &Value) -> Option<DeviceRates> {
    let nanos = now["at_ns"].as_f64()? - before["at_ns"].as_f64()?;
    if nanos <= 0.0 {
        return None;
    }
    let seconds = nanos / 1e9;
    let of = |key: &str| -> f64 {
        StatGroup::NAMES
            .iter()
            .map(|group| since(before, now, &format!("/requests/{group}/{key}")))
            .sum()
    };
    let tenants: Vec<&Value> = list(&now["tenants"]).collect();
    let is_alone = tenants.len() == 1;
    let rates = tenants.into_iter().map(|tenant| {
        let old = list(&before["tenants"]).find(|old| old["path"] == tenant["path"]);
        tenant_rates(old.unwrap_or(&Value::Null), tenant, seconds)
    });
    Some(DeviceRates {
        name: text(&now["name"]),
        busy: (since(before, now, "/busy_ns") / nanos).min(1.0),
        depth: since(before, now, "/depth_ns") / nanos,
        iops: of("ios") / seconds,
        bytes: of("bytes") / seconds,
        failure: now["failure"].as_str().map(str::to_owned),
        cache: CacheRates::between(&before["cache"], &now["cache"], seconds),
        // The root has only what no tenant pays for, which is nothing, most often.
        tenants: rates
            .filter(|tenant| {
                is_alone || tenant.path != "/" || tenant.iops > 0.0 || tenant.requests > 0.0
            })
            .collect(),
    })
}

fn tenant_rates(before: &Value, now: &Value, seconds: f64) -> TenantRates {
    let of = |path: &str| since(before, now, path) / seconds;
    let (bins, of_clients) = (new_bins(before, now), new_bins(&before["client"], &now["client"]));
    let percentiles = |bins: &[(u64, u64)]| [0.5, 0.99].map(|share| percentile(bins, share));
    let waits = waits(before, now);
    let all: f64 = waits.iter().map(|(_, nanos)| nanos).sum();
    let settings = now["settings"].as_object().into_iter().flatten();
    TenantRates {
        path: text(&now["path"]),
        requests: of("/client/latency_ns/total"),
        iops: of("/ios/read") + of("/ios/write") + of("/ios/discard"),
        read: of("/bytes/read"),
        written: of("/bytes/write"),
        in_flight: now["in_flight"].as_u64().unwrap_or_default(),
        client: percentiles(&of_clients),
        device: percentiles(&bins),
        at_device: waits
            .iter()
            .find(|(words, _)| words == "device")
            .map_or(0.0, |(_, nanos)| nanos / seconds / 1e9),
        causes: waits.into_iter().map(|(words, nanos)| (words, nanos * 100.0 / all)).collect(),
        waiting: waiting_line(&now["waiting"]),
        weight: weight_line(since(before, now, "/shares_missed_ns") as u64, (seconds * 1e9) as u64),
        cache: CacheUse::between(&before["cache"], &now["cache"], seconds),
        settings: settings.map(|(name, value)| format!("{name} = {}", text(value))).collect(),
    }
}

/// Returns latencies that came between two answers, with how many of each, in order.
fn new_bins(before: &Value, now: &Value) -> Vec<(u64, u64)> {
    let bin = |bin: &Value| Some((bin[0].as_u64()?, bin[1].as_u64()?));
    let old: BTreeMap<u64, u64> = list(&before["latency_bins"]).filter_map(bin).collect();
    let new = list(&now["latency_bins"]).filter_map(bin);
    let new =
        new.map(|(value, count)| (value, count.saturating_sub(*old.get(&value).unwrap_or(&0))));
    new.filter(|&(_, count)| count > 0).collect()
}

fn percentile(bins: &[(u64, u64)], share: f64) -> Option<u64> {
    let total: u64 = bins.iter().map(|(_, count)| count).sum();
    let mut seen = 0;
    let reaches = |(_, count): &&(u64, u64)| {
        seen += count;
        seen as f64 >= total as f64 * share
    };
    bins.iter().find(reaches).map(|(value, _)| *value)
}

/// Returns what I/O waited for between two answers, in nanoseconds, the longest first.
fn waits(before: &Value, now: &Value) -> Vec<(String, f64)> {
    let old = |words: &Value| list(&before["explain"]).find(|cause| cause["words"] == *words);
    let wait = |cause: &Value| {
        let nanos = since(old(&cause["words"]).unwrap_or(&Value::Null), cause, "/ns");
        (nanos > 0.0).then(|| (text(&cause["words"]), nanos))
    };
    let mut waits: Vec<_> = list(&now["explain"]).filter_map(wait).collect();
    waits.sort_by(|a, b| b.1.total_cmp(&a.1));
    waits
}

/// The heads of the table of tenants.
pub(super) const HEADS: [&str; 12] = [
    "tenant",
    "requests/s",
    "IOPS",
    "read/s",
    "written/s",
    "in flight",
    "at device",
    "client p50",
    "client p99",
    "device p50",
    "device p99",
    "what held it",
];

impl DeviceRates {
    /// Returns what a device does as a line.
    pub(super) fn line(&self) -> String {
        let mut line = format!(
            "device {}: {:.1} % busy, {} in flight, {} IOPS, {}/s",
            self.name,
            self.busy * 100.0,
            number::significant(self.depth, 3),
            number::significant(self.iops, 4),
            number::bytes_decimal(self.bytes)
        );
        if let Some(failure) = &self.failure {
            let _ = write!(line, "; {failure}");
        }
        line
    }

    /// Returns the lines above its tenants.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let of_weights = self.tenants.iter().filter_map(TenantRates::weight_line);
        [self.line()].into_iter().chain(self.cache.as_ref().map(CacheRates::line)).chain(of_weights)
    }
}

impl TenantRates {
    /// Returns a line if its weight was not in force.
    fn weight_line(&self) -> Option<String> {
        self.weight.as_ref().map(|line| format!("{}: {line}", self.path))
    }

    /// Returns the row of a tenant, as [`HEADS`] has the columns.
    pub(super) fn row(&self) -> Vec<String> {
        let time = |nanos: Option<u64>| {
            nanos.map_or_else(|| "-".to_owned(), |nanos| number::span(nanos as f64))
        };
        let mut held = self.cache.as_ref().map_or_else(Vec::new, CacheUse::held);
        let longest = self.causes.first().map(|(words, share)| format!("{share:.1} % {words}"));
        // Without an I/O that has ended, what waits tells why.
        held.extend(longest.or_else(|| self.waiting.clone()));
        vec![
            self.path.clone(),
            number::significant(self.requests, 4),
            number::significant(self.iops, 4),
            number::bytes_decimal(self.read),
            number::bytes_decimal(self.written),
            self.in_flight.to_string(),
            number::significant(self.at_device, 3),
            time(self.client[0]),
            time(self.client[1]),
            time(self.device[0]),
            time(self.device[1]),
            if held.is_empty() { "-".to_owned() } else { held.join("; ") },
        ]
    }
}

/// Returns a device with its tenants as text.
pub(super) fn table(device: &DeviceRates) -> String {
    let mut rows = vec![HEADS.map(str::to_owned).to_vec()];
    rows.extend(device.tenants.iter().map(TenantRates::row));
    let is_number: [bool; HEADS.len()] = std::array::from_fn(|at| at > 0 && at + 1 < HEADS.len());
    let lines: String = device.lines().map(|line| line + "\n").collect();
    lines + &columns(&rows, &is_number)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    fn tenant(path: &str, ios: u64, explain: &Value, bins: &Value) -> Value {
        json!({ "path": path, "ios": { "read": ios, "write": 0, "discard": 0 },
            "bytes": { "read": ios * 4096, "write": 0 }, "in_flight": 3, "settings": { "io.weight": "default 300" },
            "client": { "latency_ns": { "total": ios * 3 }, "latency_bins": [[9000, ios * 3]] },
            "explain": explain, "latency_bins": bins })
    }

    fn answer(at: u64, ios: u64, tenants: &[Value]) -> Value {
        let group = json!({ "ios": ios, "bytes": ios * 4096 });
        let none = json!({ "ios": 0, "bytes": 0 });
        json!({ "devices": [{ "name": "fast", "at_ns": at, "busy_ns": at / 4, "depth_ns": at as f64 * 1.5,
            "failure": null, "requests": { "read": group, "write": none, "discard": none }, "tenants": tenants }] })
    }

    /// Two answers, two seconds apart.
    pub(in crate::top) fn answers() -> [Value; 2] {
        let none = json!([]);
        [
            answer(
                1_000_000_000,
                100,
                &[
                    tenant("/", 0, &none, &none),
                    tenant(
                        "db",
                        100,
                        &json!([{ "words": "device", "ns": 500 }]),
                        &json!([[1000, 100]]),
                    ),
                    tenant("batch", 0, &none, &none),
                ],
            ),
            answer(
                3_000_000_000,
                2100,
                &[
                    tenant("/", 0, &none, &none),
                    tenant(
                        "db",
                        2100,
                        &json!([{ "words": "device", "ns": 1_000_000_500_u64 }, { "words": "own limit iops=1000", "ns": 3_000_000_000_u64 }]),
                        &json!([[1000, 100], [5000, 1980], [200_000, 20]]),
                    ),
                    tenant("batch", 0, &none, &none),
                ],
            ),
        ]
    }

    /// The same answers of a device with a page cache, in which a tenant is held.
    pub(in crate::top) fn cached_answers() -> [Value; 2] {
        let mut all = answers();
        for (answer, times) in all.iter_mut().zip([1_u64, 2]) {
            let device = &mut answer["devices"][0];
            device["cache"] = json!({ "mode": "write-back", "bytes": 64 << 20, "hit_bytes": times << 20,
                "missed_bytes": 1 << 20, "cached_bytes": 4 << 20, "dirty_bytes": 1 << 20, "writeback_bytes": 0,
                "written_bytes": times << 21, "lost": null });
            for tenant in device["tenants"].as_array_mut().expect("tenants") {
                let is_db = tenant["path"] == "db";
                let paused = if is_db { times * 3_000_000_000 } else { 0 };
                let read = if is_db { times * 100 } else { 0 };
                tenant["cache"] = json!({ "reads": read, "hits": read / 2, "paused_ns": paused, "starved_ns": 0 });
            }
        }
        all
    }

    #[test]
    fn a_page_cache_has_a_line_and_names_who_is_held() {
        let [before, now] = cached_answers();
        insta::assert_snapshot!(rates(&before, &now).iter().map(table).collect::<String>(), @r"
        device fast: 25.0 % busy, 1.50 in flight, 1000 IOPS, 4096kB/s
        page cache, write-back: 4194kB of 67.1MB, 1049kB dirty, 1049kB/s written back, 100.0 % of 524kB/s read was there
        tenant  requests/s  IOPS  read/s  written/s  in flight  at device  client p50  client p99  device p50  device p99  what held it
        db            3000  1000  4096kB         0B          3      0.500      9.00us      9.00us      5.00us      5.00us  1.50 held by its dirty pages; 75.0 % own limit iops=1000
        batch            0     0      0B         0B          3          0           -           -           -           -  -
        ");
    }

    #[test]
    fn a_table_has_the_rates_between_two_answers() {
        let [before, now] = answers();
        let all = rates(&before, &now);
        insta::assert_snapshot!(all.iter().map(table).collect::<String>(), @r"
        device fast: 25.0 % busy, 1.50 in flight, 1000 IOPS, 4096kB/s
        tenant  requests/s  IOPS  read/s  written/s  in flight  at device  client p50  client p99  device p50  device p99  what held it
        db            3000  1000  4096kB         0B          3      0.500      9.00us      9.00us      5.00us      5.00us  75.0 % own limit iops=1000
        batch            0     0      0B         0B          3          0           -           -           -           -  -
        ");
        let [before, mut now] = answers();
        now["devices"][0]["tenants"][1]["shares_missed_ns"] = json!(100_000_000);
        let table: String = rates(&before, &now).iter().map(table).collect();
        assert!(table.contains("\ndb: weight not in force: 5.0 % of the device's time"), "{table}");
        assert_eq!((all[0].busy, all[0].tenants[0].device[1]), (0.25, Some(5000)));
        assert!(rates(&now, &before).is_empty(), "a server that was started again");
        assert!(rates(&json!({}), &now).is_empty());
    }
}
