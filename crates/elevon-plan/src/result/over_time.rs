//! Tenants and jobs over time, changes of settings, and a warning about io.cost's preset.

use std::collections::BTreeMap;

use elevon_core::control::io_cost::Preset;
use elevon_core::stack::Stack;
use elevon_core::units::{Instant, Nanos, TenantId};
use elevon_formats::cgroup::Setting;
use elevon_result::result::{Change, OwnerPoint, OwnerResult, Owners};
use elevon_sim::device::Description;
use elevon_workload::readings::Progressed;
use elevon_workload::run::RunOutcome;
use elevon_workload::tenants::{TenantsByPath, is_weight};

use super::Facts;
use crate::plan::Plan;

/// The preset is far off for a device whose throughput is at least this many times what io.cost's
/// preset expects.
const FAR_OFF: u64 = 2;

/// Returns the I/O of tenants and jobs in each interval, without those that did none.
pub(super) fn owners(facts: &Facts<'_>, outcome: &RunOutcome) -> Owners {
    let series = &outcome.owners;
    if series.rows() == 0 {
        return Owners::default();
    }
    let jobs = outcome.jobs.len();
    let tree = facts.stack.control().tenants();
    let mut owners = Owners::default();
    // The rows of a job are those of its processes.
    let mut processes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (row, job) in outcome.jobs.iter().enumerate() {
        processes.entry(job.spec).or_default().push(row);
    }
    for rows in processes.values() {
        let first = &outcome.jobs[rows[0]];
        let has_name = |other: &&Vec<usize>| outcome.jobs[other[0]].name == first.name;
        let is_unique = processes.values().filter(has_name).count() == 1;
        let name = if is_unique {
            first.name.clone()
        } else {
            format!("{} (pid {})", first.name, first.number)
        };
        owners.jobs.extend(owner(name, series.readings().map(|(at, all)| (at, sum(all, rows)))));
    }
    if series.rows() == jobs {
        return owners;
    }
    // The rows of each tenant and of those below it; the root has its own only.
    let mut parts = vec![Vec::new(); series.rows() - jobs];
    for of in 0..parts.len() {
        for above in tree.path(TenantId(of as u32)) {
            parts[above.index()].push(jobs + of);
        }
    }
    parts[0] = vec![jobs];
    for (tenant, parts) in parts.iter().enumerate() {
        let path = match tenant.checked_sub(1) {
            None => "/".to_owned(),
            Some(at) => facts.plan.tenants.tenants[at].path.clone(),
        };
        let readings = series.readings().map(|(at, all)| (at, sum(all, parts)));
        owners.tenants.extend(owner(path, readings));
    }
    owners
}

/// Returns the sum of some rows of a reading.
fn sum(all: &[Progressed], rows: &[usize]) -> Progressed {
    rows.iter().fold(Progressed::default(), |sum, &row| Progressed {
        ios: std::array::from_fn(|d| sum.ios[d] + all[row].ios[d]),
        bytes: std::array::from_fn(|d| sum.bytes[d] + all[row].bytes[d]),
    })
}

/// Converts readings of counters to the I/O in each interval.
fn owner(name: String, readings: impl Iterator<Item = (Nanos, Progressed)>) -> Option<OwnerResult> {
    let mut before = Progressed::default();
    let points: Vec<OwnerPoint> = readings
        .map(|(at, now)| {
            let point = OwnerPoint {
                at,
                ios: std::array::from_fn(|d| now.ios[d] - before.ios[d]),
                bytes: std::array::from_fn(|d| now.bytes[d] - before.bytes[d]),
            };
            before = now;
            point
        })
        .collect();
    (before != Progressed::default()).then_some(OwnerResult { name, points })
}

/// Returns the settings that were changed during the run.
pub(super) fn changes(facts: &Facts<'_>) -> Vec<Change> {
    let change = |change: &elevon_workload::tenants::TenantChange| Change {
        at: change.at,
        tenant: match change.tenant.index().checked_sub(1) {
            None => "device".to_owned(),
            Some(at) => facts.plan.tenants.tenants[at].path.clone(),
        },
        file: change.setting.name().to_owned(),
        text: change.setting.text(None),
    };
    facts.settings.map_or(&[][..], |settings| settings.made()).iter().map(change).collect()
}

/// Returns how long the jobs of each tenant and of those below it ran, by tenant: from the first
/// start to the last end of a job's measured time. On a real device with a page cache the
/// write-back after the jobs is included. Tenants without jobs are missing.
pub(super) fn times(facts: &Facts<'_>, outcome: &RunOutcome) -> BTreeMap<TenantId, Nanos> {
    let tree = facts.stack.control().tenants();
    let by_path = TenantsByPath::new(&facts.plan.tenants.tenants);
    let of_specs: Vec<TenantId> =
        facts.plan.jobs.jobs.iter().map(|spec| by_path.of(spec)).collect();
    let mut spans: BTreeMap<TenantId, (Instant, Instant)> = BTreeMap::new();
    for job in &outcome.jobs {
        let Some(start) = job.start else { continue };
        let ran =
            job.stats.directions.iter().map(|direction| direction.runtime_ns).max().unwrap_or(0);
        let end = start.saturating_add(Nanos::new(ran));
        let tenant = of_specs[job.spec];
        let root = Some(TenantId(0)).filter(|root| *root == tenant);
        for tenant in tree.path(tenant).chain(root) {
            let span = spans.entry(tenant).or_insert((start, end));
            *span = (span.0.min(start), span.1.max(end));
        }
    }
    let last = Some(outcome.disk_end.at).filter(|_| facts.real && facts.cached.is_some());
    let time =
        |(start, end): (Instant, Instant)| last.map_or(end, |last| end.max(last)).since(start);
    spans.into_iter().map(|(tenant, span)| (tenant, time(span))).collect()
}

/// Returns a warning if io.cost divides by weights with Linux's preset for the kind of device, and
/// the device turned out to be far faster. The preset's speed then limits the device until io.cost
/// has adapted, which takes seconds.
pub(crate) fn preset_is_off(
    plan: &Plan,
    device: &Description,
    stack: &Stack,
    outcome: &RunOutcome,
) -> Option<String> {
    let changes = plan.tenants.changes.iter().map(|change| &change.setting);
    let settings: Vec<&Setting> = plan.tenants.device.iter().chain(changes.clone()).collect();
    let is_enabled = settings
        .iter()
        .any(|setting| matches!(setting, Setting::CostQos(qos) if qos.enable == Some(true)));
    let has_model = settings.iter().any(|setting| matches!(setting, Setting::CostModel(_)));
    let tenants = plan.tenants.tenants.iter().flat_map(|tenant| &tenant.settings);
    if !is_enabled || has_model || !tenants.chain(changes).any(is_weight) {
        return None;
    }
    let config = stack.config();
    let preset =
        Preset::from_rotational(config.limits.rotational, config.queue_depth).coefficients();
    let jobs = outcome.jobs.len();
    let (mut before, mut best) = ((Nanos::ZERO, [0; 2], [0; 2]), [0_u64; 4]);
    for (at, rows) in outcome.owners.readings() {
        let sum = |of: fn(&Progressed) -> [u64; 3], d: usize| {
            rows[jobs..].iter().map(|row| of(row)[d]).sum::<u64>()
        };
        let now =
            (at, [0, 1].map(|d| sum(|row| row.ios, d)), [0, 1].map(|d| sum(|row| row.bytes, d)));
        let span = at.saturating_sub(before.0).get().max(1);
        let rate = |now: u64, before: u64| {
            (u128::from(now - before) * 1_000_000_000 / u128::from(span)) as u64
        };
        for d in [0, 1] {
            best[d] = best[d].max(rate(now.1[d], before.1[d]));
            best[2 + d] = best[2 + d].max(rate(now.2[d], before.2[d]));
        }
        before = now;
    }
    let expected = [
        preset.rseqiops.max(preset.rrandiops),
        preset.wseqiops.max(preset.wrandiops),
        preset.rbps,
        preset.wbps,
    ];
    let names =
        ["reads a second", "writes a second", "bytes read a second", "bytes written a second"];
    let (found, (expected, name)) = best
        .into_iter()
        .zip(expected.into_iter().zip(names))
        .find(|(found, (expected, _))| *found > FAR_OFF * expected)?;
    Some(format!(
        "--tenants: io.cost has no model of this device: Linux's preset expects {expected} {name}, it did {found}; until io.cost \
         finds out, weights starve it. Run elevon calibrate --device {}, and write the line that it prints as \
         \"io.cost.model\" under [device]",
        device.name
    ))
}
