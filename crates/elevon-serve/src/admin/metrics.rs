//! Metrics of a server in the text formats of Prometheus and OpenMetrics.
//!
//! A value is computed when it is asked for, of what the devices count anyway.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use elevon_cache::page_cache::Reading;
use elevon_core::control::Cause;
use elevon_core::op::StatGroup;
use elevon_core::units::{Nanos, PAGE_SIZE, TenantId};
use elevon_result::result::TenantResult;

use crate::admin::view::Observed;
use crate::device::counts::RequestCounts;
use crate::device::view::DeviceView;
use crate::net::connected::ConnectionView;
use crate::web;
use crate::web::metrics::{Families, Labels, Times, Unit};

/// Returns the metrics in the format of OpenMetrics. `started` is when the server started.
pub(crate) fn open_metrics(observed: Observed, started: SystemTime) -> String {
    let scrape = Scrape { observed, started };
    web::metrics::open_metrics(move |to| {
        scrape.server(to)?;
        scrape.connections(to)?;
        scrape.exports(to)?;
        scrape.requests(to)?;
        scrape.tenants(to)?;
        scrape.devices(to)?;
        scrape.caches(to)
    })
}

/// What is told at one time.
#[derive(Debug)]
struct Scrape {
    observed: Observed,
    started: SystemTime,
}

impl Scrape {
    /// The server: its version, its start and its certificate.
    fn server(&self, to: &mut Families<'_, '_>) -> fmt::Result {
        let version = vec![("version", env!("CARGO_PKG_VERSION"))];
        to.gauges(
            "elevon_build_info",
            "The version that runs.",
            None,
            [(version, 1_u64)].into_iter(),
        )?;
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let help = "When the server started, since the epoch.";
        to.gauges(
            "process_start_time",
            help,
            Some(Unit::Seconds),
            [(Vec::new(), started)].into_iter(),
        )?;
        let expires = self.observed.expires.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let help = "When the server's certificate expires, since the epoch.";
        let expiry = expires.into_iter().map(|at| (Vec::new(), at.as_secs_f64()));
        to.gauges("elevon_tls_certificate_expiry_timestamp", help, Some(Unit::Seconds), expiry)
    }

    /// Connections: those that are open, those with an export, and those that were refused.
    fn connections(&self, to: &mut Families<'_, '_>) -> fmt::Result {
        let connections = self.observed.connections as u64;
        let help = "Connections of NBD that are open.";
        to.gauges("elevon_connections", help, None, [(Vec::new(), connections)].into_iter())?;
        let number = |of: &ConnectionView| of.number.to_string();
        let all: Vec<_> = self.observed.all.iter().filter(|of| of.export.is_some()).collect();
        let texts: Vec<_> = all.iter().map(|of| [number(of), of.names.join(", ")]).collect();
        let samples = all.iter().zip(&texts).map(|(of, [number, names])| {
            let export = of.export.as_deref().unwrap_or_default();
            let labels: Labels<'_> = vec![
                ("connection", number),
                ("export", export),
                ("tenant", of.tenant.as_str()),
                ("peer", of.who.as_str()),
                ("names", names),
            ];
            (labels, 1_u64)
        });
        to.gauges(
            "elevon_connection_info",
            "A connection that has an export open.",
            None,
            samples,
        )?;
        let refused =
            self.observed.refused.iter().map(|(why, count)| (vec![("reason", *why)], *count));
        let help =
            "Connections that opened no export because they were refused, by the last reason.";
        to.counters("elevon_connections_refused", help, None, refused)
    }

    /// Exports: their connections, their size, and whether they are drained.
    fn exports(&self, to: &mut Families<'_, '_>) -> fmt::Result {
        let exports = || {
            self.observed.exports.iter().map(|view| {
                let labels = [
                    ("export", view.exported.name.as_str()),
                    ("device", self.observed.device_of(view)),
                    ("tenant", self.observed.tenant_of(view)),
                ];
                (labels.to_vec(), view)
            })
        };
        let help = "Connections that have the export open.";
        to.gauges(
            "elevon_export_connections",
            help,
            None,
            exports().map(|(labels, view)| (labels, view.clients.len() as u64)),
        )?;
        let help = "Size of the export.";
        to.gauges(
            "elevon_export_size",
            help,
            Some(Unit::Bytes),
            exports().map(|(labels, view)| (labels, view.exported.disk.size)),
        )?;
        let help = "1 if nobody may open the export.";
        to.gauges(
            "elevon_export_drained",
            help,
            None,
            exports().map(|(labels, view)| (labels, u64::from(view.is_drained))),
        )
    }

    /// Requests of clients, by the tenant that pays.
    fn requests(&self, to: &mut Families<'_, '_>) -> fmt::Result {
        let all = || self.observed.devices.iter().flat_map(of_requests);
        let help = "Requests that clients were answered, without those of tenants below it.";
        to.counters(
            "elevon_requests",
            help,
            None,
            all().map(|(labels, counts)| (labels, counts.count)),
        )?;
        let help = "Bytes of requests that were answered without an error.";
        to.counters(
            "elevon",
            help,
            Some(Unit::Bytes),
            all().map(|(labels, counts)| (labels, counts.bytes)),
        )?;
        let errors = all().flat_map(|(labels, counts)| {
            counts
                .errors
                .iter()
                .map(move |(errno, count)| ([&labels[..], &[("errno", *errno)]].concat(), *count))
        });
        to.counters(
            "elevon_request_errors",
            "Requests that were answered with an error.",
            None,
            errors,
        )?;
        let refused = self.observed.devices.iter().flat_map(|view| {
            tenants_of(view).flat_map(move |(view, tenant)| {
                view.requests.refused_of(tenant.id).map(move |(op, reason, count)| {
                    (
                        [&labels_of(view, tenant)[..], &[("op", op), ("reason", reason.name())]]
                            .concat(),
                        count,
                    )
                })
            })
        });
        let help = "Requests that were refused before the device saw them, which are not among the others.";
        to.counters("elevon_requests_refused", help, None, refused)?;
        let help = "Time from the arrival of a request to its reply, throttling included.";
        let times = all().map(|(labels, counts)| {
            let seconds = seconds(counts.time);
            (labels, Times { count: counts.count, seconds, buckets: counts.buckets })
        });
        to.histograms("elevon_request_duration", help, times)
    }

    /// I/O of tenants behind their limits, each with all below it.
    fn tenants(&self, to: &mut Families<'_, '_>) -> fmt::Result {
        let all = || self.observed.devices.iter().flat_map(tenants_of);
        let by_group = |values: fn(&TenantResult) -> [u64; 3]| {
            all().flat_map(move |(view, tenant)| {
                let labels = labels_of(view, tenant);
                StatGroup::NAMES
                    .iter()
                    .zip(values(tenant))
                    .map(move |(op, value)| ([&labels[..], &[("op", *op)]].concat(), value))
            })
        };
        let help = "I/Os that the tenant's limits released, with those of tenants below it; / has what no tenant pays for.";
        to.counters("elevon_tenant_ios", help, None, by_group(|tenant| tenant.io.ios))?;
        let help =
            "Bytes of I/Os that the tenant's limits released, with those of tenants below it.";
        to.counters(
            "elevon_tenant_io",
            help,
            Some(Unit::Bytes),
            by_group(|tenant| tenant.io.bytes),
        )?;
        let help =
            "I/Os of the tenant and of those below it that were released and have not completed.";
        to.gauges(
            "elevon_tenant_in_flight",
            help,
            None,
            all().map(|(view, tenant)| (labels_of(view, tenant), tenant.in_flight)),
        )?;
        let waiting = || {
            all().map(|(view, tenant)| {
                (labels_of(view, tenant), view.waiting.get(&tenant.id).copied().unwrap_or_default())
            })
        };
        let help = "Requests that are not answered, without those of tenants below it.";
        to.gauges(
            "elevon_tenant_requests_waiting",
            help,
            None,
            waiting().map(|(labels, of)| (labels, of.requests)),
        )?;
        let help = "How long the oldest of them has waited.";
        let oldest = waiting().map(|(labels, of)| (labels, seconds(of.oldest)));
        to.gauges("elevon_tenant_oldest_request", help, Some(Unit::Seconds), oldest)?;
        let waits = all().flat_map(|(view, tenant)| waits_of(view, tenant));
        let help = "Time that I/Os took until now, summed over them, by what they waited for; rule and level name a limit.";
        to.counters("elevon_tenant_wait", help, Some(Unit::Seconds), waits)?;
        let missed = all().filter_map(|(view, tenant)| {
            Some((labels_of(view, tenant), seconds(tenant.reserve_missed?)))
        });
        let help = "Time by which the tenant's reserve came short while its I/O was waiting.";
        to.counters("elevon_tenant_reserve_missed", help, Some(Unit::Seconds), missed)?;
        let missed = all().filter_map(|(view, tenant)| {
            Some((labels_of(view, tenant), seconds(tenant.shares_missed?)))
        });
        let help = "Device time that the tenant's weight was due and that it did not get.";
        to.counters("elevon_tenant_shares_missed", help, Some(Unit::Seconds), missed)
    }

    /// Devices behind their schedulers.
    fn devices(&self, to: &mut Families<'_, '_>) -> fmt::Result {
        let all = || {
            self.observed.devices.iter().map(|view| (vec![("device", view.name.as_str())], view))
        };
        let groups = || {
            all().flat_map(|(labels, view)| {
                let of = StatGroup::NAMES.iter().zip(&view.disk.groups);
                of.map(move |(op, group)| ([&labels[..], &[("op", *op)]].concat(), group))
            })
        };
        let help = "Requests that the device completed, after merges and splits.";
        to.counters(
            "elevon_device_ios",
            help,
            None,
            groups().map(|(labels, group)| (labels, group.ios)),
        )?;
        let help = "Bytes of requests that the device completed.";
        to.counters(
            "elevon_device_io",
            help,
            Some(Unit::Bytes),
            groups().map(|(labels, group)| (labels, group.sectors << 9)),
        )?;
        let help = "Cache flushes of the device.";
        to.counters(
            "elevon_device_flushes",
            help,
            None,
            all().map(|(labels, view)| (labels, view.disk.flushes)),
        )?;
        let help = "Time with I/O in flight; its rate is the utilisation, from 0 to 1.";
        let busy = all().map(|(labels, view)| (labels, seconds(view.disk.utilisation.exact)));
        to.counters("elevon_device_busy", help, Some(Unit::Seconds), busy)?;
        let help = "Requests in flight, integrated over time; its rate is the mean queue depth.";
        let depth = all().map(|(labels, view)| (labels, view.disk.in_flight_integral as f64 / 1e9));
        to.counters("elevon_device_queue", help, Some(Unit::Seconds), depth)?;
        let help = "I/Os in the device's stack, those that wait included.";
        to.gauges(
            "elevon_device_in_flight",
            help,
            None,
            all().map(|(labels, view)| (labels, view.in_flight as u64)),
        )?;
        let help = "Requests of clients that are not answered.";
        let waiting = all().map(|(labels, view)| {
            (labels, view.clients.iter().map(|client| client.requests as u64).sum::<u64>())
        });
        to.gauges("elevon_device_requests_waiting", help, None, waiting)?;
        let help = "1 if I/O no longer reaches the device, or its thread has ended by a fault of the server.";
        let failed = self.observed.names.values().map(|name| {
            let view = self.observed.devices.iter().find(|view| view.name == *name);
            (
                vec![("device", name.as_str())],
                u64::from(view.is_none_or(|view| view.failure.is_some())),
            )
        });
        to.gauges("elevon_device_failed", help, None, failed)?;
        let faults = self.observed.devices.iter().flat_map(|view| {
            let labels = |name| vec![("device", view.name.as_str()), ("fault", name)];
            view.faults.iter().map(move |(name, count)| (labels(*name), *count))
        });
        let help = "Faults of the device that have happened.";
        to.counters("elevon_device_faults", help, None, faults)?;
        let help = "1 if no flush succeeds until the server is started again: one failed, or a connection was lost.";
        let lost = all().map(|(labels, view)| (labels, u64::from(view.is_lost)));
        to.gauges("elevon_device_lost", help, None, lost)
    }

    /// Page caches before devices.
    fn caches(&self, to: &mut Families<'_, '_>) -> fmt::Result {
        let all = || {
            let devices = self.observed.devices.iter();
            devices.filter_map(|view| {
                Some((vec![("device", view.name.as_str())], view.cache.as_ref()?))
            })
        };
        let bytes = |pages: fn(&Reading) -> u64| {
            all().map(move |(labels, cache)| (labels, pages(&cache.reading) * PAGE_SIZE))
        };
        let unit = || Some(Unit::Bytes);
        let help = "Bytes of pages that reads found in the page cache of the server.";
        to.counters("elevon_cache_hit", help, unit(), bytes(|reading| reading.hits))?;
        let help = "Bytes of pages that reads did not find there.";
        to.counters("elevon_cache_missed", help, unit(), bytes(|reading| reading.misses))?;
        let help = "Bytes of dirty pages that were written to the device.";
        to.counters("elevon_cache_written", help, unit(), bytes(|reading| reading.written))?;
        let help = "Bytes of pages in the page cache.";
        to.gauges("elevon_cache_cached", help, unit(), bytes(|reading| reading.cached))?;
        let help = "Bytes of pages that have to be written.";
        to.gauges("elevon_cache_dirty", help, unit(), bytes(|reading| reading.dirty))?;
        let help = "Bytes of pages that are being written.";
        to.gauges("elevon_cache_writeback", help, unit(), bytes(|reading| reading.writeback))?;
        let help = "1 if a write-back or a flush failed: no flush succeeds until the server is started again.";
        let lost = all().map(|(labels, cache)| (labels, u64::from(cache.lost.is_some())));
        to.gauges("elevon_cache_lost", help, None, lost)?;
        let uses = || {
            self.observed.devices.iter().flat_map(|view| {
                let uses = view.cache.iter().flat_map(|cache| &cache.tenants);
                uses.filter_map(move |(id, of)| {
                    let tenant = view.tenants.get(id.index()).filter(|tenant| !tenant.removed)?;
                    Some((labels_of(view, tenant), of))
                })
            })
        };
        let help = "Parts of READs, of up to 256 KiB, through the page cache, without those of tenants below it.";
        to.counters(
            "elevon_tenant_cache_reads",
            help,
            None,
            uses().map(|(labels, of)| (labels, of.reads)),
        )?;
        let help = "Those of them that found everything in memory.";
        to.counters(
            "elevon_tenant_cache_hits",
            help,
            None,
            uses().map(|(labels, of)| (labels, of.hits)),
        )?;
        let help = "Time that writes were held because of the tenant's dirty pages.";
        let paused = uses().map(|(labels, of)| (labels, seconds(of.paused)));
        to.counters("elevon_tenant_dirty_pause", help, Some(Unit::Seconds), paused)?;
        let help = "Time that reads and writes were held until memory of the page cache was free for the tenant.";
        let starved = uses().map(|(labels, of)| (labels, seconds(of.starved)));
        to.counters("elevon_tenant_cache_starved", help, Some(Unit::Seconds), starved)
    }
}

fn seconds(time: Nanos) -> f64 {
    time.get() as f64 / 1e9
}

fn labels_of<'a>(view: &'a DeviceView, tenant: &'a TenantResult) -> Labels<'a> {
    vec![("device", &view.name), ("tenant", &tenant.path)]
}

fn tenants_of(view: &DeviceView) -> impl Iterator<Item = (&DeviceView, &TenantResult)> {
    view.tenants.iter().filter(|tenant| !tenant.removed).map(move |tenant| (view, tenant))
}

fn of_requests(view: &DeviceView) -> impl Iterator<Item = (Labels<'_>, &RequestCounts)> {
    tenants_of(view).flat_map(move |(view, tenant)| {
        let with_op = move |op| [&labels_of(view, tenant)[..], &[("op", op)]].concat();
        view.requests.of(tenant.id).map(move |(op, counts)| (with_op(op), counts))
    })
}

/// Returns what a tenant's I/O waited for. The name of a cause never changes, unlike its words,
/// which have the settings in force.
fn waits_of<'a>(view: &'a DeviceView, tenant: &'a TenantResult) -> Vec<(Labels<'a>, f64)> {
    let path = |id: TenantId| {
        view.tenants.iter().find(|tenant| tenant.id == id).map_or("", |tenant| tenant.path.as_str())
    };
    let mut sums: Vec<(Labels<'a>, Nanos)> = Vec::new();
    for (cause, wait) in &tenant.explain {
        let rule = if let Cause::Limit { rule, .. } = *cause { rule.name() } else { "" };
        let more =
            [("cause", cause.key()), ("rule", rule), ("level", cause.level().map_or("", path))];
        let labels = [&labels_of(view, tenant)[..], &more].concat();
        match sums.iter_mut().find(|(known, _)| *known == labels) {
            Some((_, sum)) => *sum += wait.time,
            None => sums.push((labels, wait.time)),
        }
    }
    sums.into_iter().map(|(labels, time)| (labels, seconds(time))).collect()
}
