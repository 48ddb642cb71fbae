//! Converts the tenants of a stack to plain values with names: of a run at its end, of a server at
//! any time.

use elevon_core::control::io_cost::IoCost;
use elevon_core::control::io_throttle::LimitKind;
use elevon_core::control::limits::{Limits, UNLIMITED};
use elevon_core::control::pressure::Pressure;
use elevon_core::control::stat::Statistics;
use elevon_core::control::{Rule, TenantControl, WaitBreakdown};
use elevon_core::sched::{AnyScheduler, Scheduler};
use elevon_core::tenant::Tenants;
use elevon_core::units::{Instant, Nanos, TenantId};

use crate::result::{CostFigures, TenantResult};

/// Sources of the figures of a run's tenants.
pub struct TenantFigures<'a> {
    /// The tree of tenants.
    pub tree: &'a Tenants,
    /// What limits released, by tenant.
    pub statistics: &'a Statistics,
    /// Stalls of tasks, if they were tracked.
    pub pressure: Option<&'a Pressure>,
    /// io.cost, if its figures are wanted.
    pub cost: Option<&'a IoCost>,
    /// The scheduler, which keeps reserves.
    pub scheduler: &'a AnyScheduler,
    /// Waits, including those for the scheduler up to the end of the run.
    pub breakdown: &'a WaitBreakdown,
    /// End of the run by the stack's clock.
    pub now: Instant,
}

/// Configuration of a tenant.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// Path below the root, without slashes at its ends.
    pub path: String,
    /// File names and their contents.
    pub settings: Vec<(String, String)>,
    /// The limits among the settings.
    pub limits: Vec<(Rule, u64)>,
    /// The time by which its reserve came short behind limits of tenants above it.
    pub missed_below_limits: Nanos,
    /// How long the tenant's jobs ran.
    pub time: Nanos,
}

/// Returns one entry per tenant, each including the tenants below it; empty if nothing was
/// recorded.
pub fn tenants(
    sources: &TenantFigures<'_>,
    named: impl Fn(TenantId) -> Named,
) -> Vec<TenantResult> {
    if sources.breakdown.iter().next().is_none() && sources.statistics.is_empty() {
        return Vec::new();
    }
    all_tenants(sources, named)
}

/// The same, whatever was recorded.
pub fn all_tenants(
    sources: &TenantFigures<'_>,
    named: impl Fn(TenantId) -> Named,
) -> Vec<TenantResult> {
    let TenantFigures { tree, pressure, now, .. } = *sources;
    let (statistics, breakdown) =
        (sources.statistics.rolled_up(tree), sources.breakdown.rolled_up(tree));
    let cost = sources
        .cost
        .filter(|cost| cost.qos().enable)
        .map(|cost| (cost.vrate_ppm(), cost.usage(tree)));
    let entry = |id: TenantId| {
        let Named { path, settings, limits, missed_below_limits, time } = named(id);
        let stat = statistics.of(id);
        TenantResult {
            id,
            path: if id == TenantId(0) { "/".to_owned() } else { path },
            depth: tree.depth(id),
            removed: !tree.is_alive(id),
            settings,
            limits,
            time,
            io: stat.counters,
            done: stat.done(),
            in_flight: stat.in_flight,
            latency: stat.latency().cloned().unwrap_or_default(),
            cost: cost.as_ref().map(|(vrate_ppm, usage)| CostFigures {
                usage: usage[id.index()],
                vrate_ppm: (id == TenantId(0)).then_some(*vrate_ppm),
            }),
            shares_missed: sources.scheduler.shares_missed(id),
            reserve_missed: sources
                .scheduler
                .reserve_missed(now, id)
                .map(|missed| missed + missed_below_limits),
            pressure: pressure.map(|pressure| pressure.read(now, id)),
            explain: breakdown.of(id).to_vec(),
        }
    };
    (0..tree.ids() as u32).map(TenantId).map(entry).collect()
}

/// Returns the rates in force now, by the rules that hold I/O: the smallest one if several limits
/// hold under one rule.
pub fn limits_of(control: &TenantControl, tenant: TenantId) -> Vec<(Rule, u64)> {
    let of = |limits: &Limits| {
        let [rbps, wbps] = limits.bps;
        let [riops, wiops] = limits.iops;
        [
            (Rule::ReadBps, rbps),
            (Rule::WriteBps, wbps),
            (Rule::ReadIops, riops),
            (Rule::WriteIops, wiops),
            (Rule::Bps, limits.total_bps),
            (Rule::Iops, limits.total_iops),
        ]
    };
    let flat = control.flat_limits(tenant);
    let mut all: Vec<(Rule, u64)> =
        control.limits(tenant).iter().chain([&flat]).flat_map(of).collect();
    all.retain(|&(_, rate)| rate != UNLIMITED);
    all.sort_unstable();
    all.dedup_by_key(|&mut (rule, _)| rule);
    let throttle =
        |rule, kind| control.io_throttle().limit(tenant, kind).map(|limit| (rule, limit.rate));
    all.extend(throttle(Rule::Bandwidth, LimitKind::Bandwidth));
    all.extend(throttle(Rule::IopsMax, LimitKind::Iops));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevon_core::control::Cause;
    use elevon_core::control::pressure::ContextState;
    use elevon_core::op::StatGroup;
    use elevon_core::sched::NoneScheduler;
    use elevon_core::tenant::ROOT;
    use elevon_core::units::{Bytes, Nanos};

    #[test]
    fn a_tenant_carries_what_lies_below_it() {
        let mut tree = Tenants::new();
        let top = tree.add(ROOT).unwrap();
        let leaf = tree.add(top).unwrap();
        let (mut statistics, mut breakdown, mut pressure) =
            (Statistics::default(), WaitBreakdown::default(), Pressure::new(1));
        let scheduler = AnyScheduler::None(NoneScheduler::new(1, 1, 0));
        let nothing = |breakdown: &WaitBreakdown, statistics: &Statistics| {
            let now = Instant::ZERO;
            let (pressure, cost) = (None, None);
            let sources = TenantFigures {
                tree: &tree,
                statistics,
                pressure,
                cost,
                scheduler: &scheduler,
                breakdown,
                now,
            };
            tenants(&sources, |_| Named::default()).is_empty()
        };
        assert!(nothing(&breakdown, &statistics));
        statistics.on_issue(leaf, StatGroup::Write, Bytes::new(4096), true);
        statistics.on_finish(leaf, Nanos::new(70));
        breakdown.add(leaf, Cause::Device, Nanos::new(70));
        breakdown.add(top, Cause::Plug, Nanos::new(30));
        assert!(!nothing(&breakdown, &statistics));
        pressure.on_change(Instant::ZERO, &tree, leaf, ContextState::Idle, ContextState::Blocked);
        tree.remove(leaf).unwrap();
        let sources = TenantFigures {
            tree: &tree,
            statistics: &statistics,
            pressure: Some(&pressure),
            cost: None,
            scheduler: &scheduler,
            breakdown: &breakdown,
            now: Instant::new(2_000_000_000),
        };
        let all = tenants(&sources, |id| Named { path: format!("t{}", id.0), ..Named::default() });
        let shown: Vec<_> =
            all.iter().map(|at| (at.path.as_str(), at.depth, at.removed, at.io.bytes[1])).collect();
        assert_eq!(shown, [("/", 0, false, 0), ("t1", 1, false, 4096), ("t2", 2, true, 4096)]);
        assert_eq!((all[1].explain.len(), all[2].explain.len(), all[1].latency.total()), (2, 1, 1));
        assert_eq!(all[1].pressure.unwrap().full.average(0), 1811);
    }
}
