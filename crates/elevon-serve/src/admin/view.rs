//! What a server and its devices are doing, as JSON.

use std::collections::BTreeMap;
use std::time::SystemTime;

use elevon_core::control::{Cause, Wait};
use elevon_core::op::StatGroup;
use elevon_core::status::Status;
use elevon_core::units::{Nanos, PAGE_SIZE, TenantId};
use elevon_result::result::TenantResult;
use elevon_result::tenants::explain;
use serde_json::{Value, json};

use crate::control::{Control, ExportView};
use crate::device::counts::RequestCounts;
use crate::device::view::{CacheUse, CacheView, DeviceView, WaitingRequests};
use crate::net::connected::ConnectionView;
use crate::net::gate::Gate;

/// Everything that a server does, at one time.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The names of all devices by their numbers, which exports have.
    pub(crate) names: BTreeMap<usize, String>,
    /// The devices whose threads have not ended.
    pub(crate) devices: Vec<DeviceView>,
    pub(crate) exports: Vec<ExportView>,
    /// Connections that are open, those that have not chosen an export among them.
    pub(crate) connections: usize,
    /// Each of them.
    pub(crate) all: Vec<ConnectionView>,
    /// Connections that were refused, by the name of the reason.
    pub(crate) refused: Vec<(&'static str, u64)>,
    /// Until when the server's certificate is valid, if it has one.
    pub(crate) expires: Option<SystemTime>,
}

impl Observed {
    pub(crate) fn of(control: &Control<'_>) -> Self {
        Self {
            names: control.devices(),
            devices: control.views(),
            exports: control.exports(),
            connections: control.connections(),
            all: control.connection_views(),
            refused: control.0.refused.all(),
            expires: control.0.tls().and_then(|tls| tls.expires()),
        }
    }

    /// Returns the name of an export's device.
    pub(crate) fn device_of(&self, view: &ExportView) -> &str {
        self.names.get(&view.exported.device).map_or("", String::as_str)
    }

    /// Returns the path of the tenant that pays for an export.
    pub(crate) fn tenant_of(&self, view: &ExportView) -> &str {
        let device = self.devices.iter().find(|device| device.name == self.device_of(view));
        let tenant = device.and_then(|device| device.tenants.get(view.exported.tenant.index()));
        tenant.map_or("/", |tenant| &tenant.path)
    }

    /// Returns the exports as JSON.
    pub(crate) fn exports_json(&self) -> Vec<Value> {
        let value = |view: &ExportView| {
            json!({
                "name": view.exported.name,
                "device": self.device_of(view),
                "part": view.exported.part.as_ref().map(|part| part.name.clone()),
                "tenant": self.tenant_of(view),
                "start": view.exported.start,
                "size": view.exported.disk.size,
                "read_only": view.exported.disk.read_only,
                "clients": view.clients,
                "drained": view.is_drained,
            })
        };
        self.exports.iter().map(value).collect()
    }

    /// Returns why a tenant had the rate that it had between an earlier time and this one, on each
    /// device; `None` if there is no such tenant.
    pub(crate) fn explain(&self, before: &Self, tenant: &str) -> Option<Value> {
        if !self.devices.iter().any(|view| view.tenant(tenant).is_some()) {
            return None;
        }
        let old = |now: &DeviceView| before.devices.iter().find(|old| old.name == now.name);
        let devices = self.devices.iter().filter_map(|now| now.explain(old(now)?, tenant));
        Some(json!({ "devices": devices.collect::<Vec<_>>() }))
    }

    /// Returns everything as JSON.
    pub(crate) fn json(&self) -> Value {
        let devices: Vec<Value> = self.devices.iter().map(DeviceView::json).collect();
        json!({ "exports": self.exports_json(), "devices": devices })
    }
}

impl DeviceView {
    /// Returns the device as JSON. Counters count from the server's start.
    pub fn json(&self) -> Value {
        let disk = &self.disk;
        let mut groups = serde_json::Map::new();
        for (name, counters) in StatGroup::NAMES.iter().zip(&disk.groups) {
            let bytes = counters.sectors << 9;
            let value = json!({ "ios": counters.ios, "merges": counters.merges, "bytes": bytes, "ns": counters.ticks.get() });
            groups.insert((*name).to_owned(), value);
        }
        json!({
            "name": self.name,
            "at_ns": self.at.get(),
            "requests": groups,
            "flushes": disk.flushes,
            "busy_ns": disk.utilisation.exact.get(),
            "depth_ns": disk.in_flight_integral as f64,
            "in_flight": self.in_flight,
            "failure": self.failure,
            "faults": self.faults,
            "lost": self.is_lost,
            "cache": self.cache.as_ref().map(cache_json),
            "tenants": self.tenants.iter().filter(|tenant| !tenant.removed).map(|tenant| self.tenant_json(tenant)).collect::<Vec<_>>(),
            "clients": self.clients.iter().map(|client| json!({ "connection": client.connection, "requests": client.requests })).collect::<Vec<_>>(),
        })
    }

    fn tenant_json(&self, tenant: &TenantResult) -> Value {
        let latency = |millionths| {
            (tenant.latency.total() > 0).then(|| tenant.latency.percentile(millionths))
        };
        let settings: serde_json::Map<_, _> =
            tenant.settings.iter().map(|(name, text)| (name.clone(), json!(text))).collect();
        json!({
            "path": tenant.path,
            "depth": tenant.depth,
            "settings": settings,
            "ios": groups(&tenant.io.ios),
            "bytes": groups(&tenant.io.bytes),
            "in_flight": tenant.in_flight,
            "waiting": self.waiting_json(tenant),
            "reserve_missed_ns": tenant.reserve_missed.map(Nanos::get),
            "shares_missed_ns": tenant.shares_missed.map(Nanos::get),
            "cache": self.cache.as_ref().map(|_| use_json(&self.cache_use(tenant))),
            "requests": self.requests.of(tenant.id).map(|(op, counts)| (op.to_owned(), requests(counts))).collect::<serde_json::Map<_, _>>(),
            "client": self.client_json(tenant),
            "latency_ns": { "total": tenant.latency.total(), "p50": latency(500_000), "p99": latency(990_000), "p99_9": latency(999_000) },
            "latency_bins": tenant.latency.iter().map(|(value, count)| json!([value, count])).collect::<Vec<_>>(),
            "explain": self.explain_json(tenant),
        })
    }

    /// Returns the latency that clients of a tenant and of those below it see, with how many
    /// requests were answered.
    fn client_json(&self, tenant: &TenantResult) -> Value {
        let latency = self.requests.latency_of(|id| self.is_in(tenant, id));
        let of = |millionths| (latency.total() > 0).then(|| latency.percentile(millionths));
        json!({
            "latency_ns": { "total": latency.total(), "p50": of(500_000), "p99": of(990_000), "p99_9": of(999_000) },
            "latency_bins": latency.iter().map(|(value, count)| json!([value, count])).collect::<Vec<_>>(),
        })
    }

    /// Returns how many requests clients of a tenant and of those below it were answered.
    fn answered(&self, tenant: &TenantResult) -> u64 {
        self.requests.latency_of(|id| self.is_in(tenant, id)).total()
    }

    fn explain_json(&self, tenant: &TenantResult) -> Vec<Value> {
        let causes = explain(&self.tenants, tenant).into_iter();
        causes
            .map(|at| json!({ "words": at.words, "ns": at.wait.time.get(), "share": at.share as f64 / 10.0 }))
            .collect()
    }

    /// Returns true if a tenant is this one or below it.
    fn is_in(&self, tenant: &TenantResult, id: TenantId) -> bool {
        let is_below =
            |path: &str| path.strip_prefix(&*tenant.path).is_some_and(|rest| rest.starts_with('/'));
        let path = self.tenants.get(id.index()).map_or("/", |of| &of.path);
        tenant.id == TenantId(0) || tenant.id == id || is_below(path)
    }

    /// Returns the requests of a tenant and of those below it that are not answered, and in words
    /// the limit that holds the oldest of them.
    fn waiting_json(&self, tenant: &TenantResult) -> Value {
        let mut sum = WaitingRequests::default();
        self.waiting
            .iter()
            .filter(|(id, _)| self.is_in(tenant, **id))
            .for_each(|(_, of)| sum.add(of));
        let words = sum.held_by.and_then(|cause| {
            let held = vec![(cause, Wait { count: 1, time: Nanos::new(1) })];
            explain(&self.tenants, &TenantResult { explain: held, ..tenant.clone() }).pop()
        });
        json!({ "requests": sum.requests, "oldest_ns": sum.oldest.get(), "held_by": words.map(|at| at.words) })
    }

    /// Returns what the requests of a tenant and of those below it found in the page cache.
    fn cache_use(&self, tenant: &TenantResult) -> CacheUse {
        let mut sum = CacheUse::default();
        let uses = self
            .cache
            .iter()
            .flat_map(|cache| &cache.tenants)
            .filter(|(id, _)| self.is_in(tenant, **id));
        uses.for_each(|(_, of)| sum.add(of));
        sum
    }

    /// Returns what happened since an earlier view of the same device: of each tenant I/Os, bytes
    /// and waits; latencies are those since the start.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut new = self.clone();
        for tenant in &mut new.tenants {
            let Some(old) = before.tenants.iter().find(|old| old.id == tenant.id) else { continue };
            for group in 0..3 {
                for (new, old) in [(&mut tenant.io, old.io), (&mut tenant.done, old.done)] {
                    new.ios[group] -= old.ios[group];
                    new.bytes[group] -= old.bytes[group];
                }
            }
            // A reserve that was set anew counts anew.
            tenant.reserve_missed = tenant
                .reserve_missed
                .map(|new| new.saturating_sub(old.reserve_missed.unwrap_or_default()));
            tenant.shares_missed = tenant
                .shares_missed
                .map(|new| new.saturating_sub(old.shares_missed.unwrap_or_default()));
            for (cause, wait) in &mut tenant.explain {
                subtract(wait, &old.explain, *cause);
            }
        }
        if let (Some(cache), Some(old)) = (&mut new.cache, &before.cache) {
            for (tenant, of) in &mut cache.tenants {
                of.subtract(old.tenants.get(tenant).unwrap_or(&CacheUse::default()));
            }
        }
        new
    }

    /// Returns why a tenant had the rate that it had between an earlier view and this one.
    pub fn explain(&self, before: &Self, path: &str) -> Option<Value> {
        let new = self.since(before);
        let tenant = new.tenant(path)?;
        let span = self.at.since(before.at);
        let rate = |count: u64| {
            if span == Nanos::ZERO { 0.0 } else { count as f64 * 1e9 / span.get() as f64 }
        };
        Some(json!({
            "device": self.name,
            "tenant": path,
            "ns": span.get(),
            "iops": rate(tenant.done.all_ios()),
            "bytes_per_second": rate(tenant.done.all_bytes()),
            "requests_per_second": rate(self.answered(tenant) - before.answered(tenant)),
            "in_flight": tenant.in_flight,
            "waiting": new.waiting_json(tenant),
            "settings": tenant.settings.iter().map(|(name, text)| format!("{name} = {text}")).collect::<Vec<_>>(),
            "causes": new.explain_json(tenant),
            "reserve_missed_ns": tenant.reserve_missed.map(Nanos::get),
            "shares_missed_ns": tenant.shares_missed.map(Nanos::get),
            "cache": new.cache.as_ref().map(|_| use_json(&new.cache_use(tenant))),
        }))
    }
}

fn cache_json(cache: &CacheView) -> Value {
    let reading = &cache.reading;
    let bytes = |pages: u64| pages * PAGE_SIZE;
    json!({
        "bytes": cache.memory.get(),
        "mode": cache.mode.name(),
        "hit_bytes": bytes(reading.hits),
        "missed_bytes": bytes(reading.misses),
        "cached_bytes": bytes(reading.cached),
        "dirty_bytes": bytes(reading.dirty),
        "writeback_bytes": bytes(reading.writeback),
        "written_bytes": bytes(reading.written),
        "lost": cache.lost.map(Status::log_words),
    })
}

fn use_json(of: &CacheUse) -> Value {
    json!({
        "reads": of.reads,
        "hits": of.hits,
        "writes": of.writes,
        "paused_ns": of.paused.get(),
        "starved_ns": of.starved.get(),
    })
}

/// Returns requests of one kind as JSON.
fn requests(counts: &RequestCounts) -> Value {
    json!({ "count": counts.count, "bytes": counts.bytes, "ns": counts.time.get(), "errors": counts.errors })
}

fn subtract(wait: &mut Wait, old: &[(Cause, Wait)], cause: Cause) {
    if let Some((_, old)) = old.iter().find(|(other, _)| *other == cause) {
        *wait = Wait {
            count: wait.count - old.count,
            time: Nanos::new(wait.time.get() - old.time.get()),
        };
    }
}

fn groups(values: &[u64; 3]) -> Value {
    StatGroup::NAMES
        .iter()
        .zip(values)
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect()
}
