//! The tenants of a plan, and what of their settings has no effect or is set twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use elevon_core::ioprio::PrioPolicy;
use elevon_core::kernel::{Kernel, Rules};
use elevon_core::sched::{Reads, SchedulerInfo};
use elevon_core::tenant::ROOT;
use elevon_core::units::{Nanos, TenantId};
use elevon_formats::cgroup::{BFQ_WEIGHT_MAX, Cap, Setting};
use elevon_formats::fio::spec::JobSpec;
use elevon_workload::in_force::InForce;
use elevon_workload::tenants::{Tenant, TenantPlan, TenantsByPath, in_vain};

use super::{Plan, text_of};
use crate::failure::{ConflictError, Failure};
use crate::text_files::TextFiles;

/// Reads the tenants file, if there is one, and joins it with the cgroups of the jobs.
pub(super) fn tenants(
    jobs: &[JobSpec],
    path: Option<&Path>,
    kernel: Kernel,
    sources: &mut TextFiles,
) -> Result<TenantPlan, Failure> {
    let file = path
        .map(|path| {
            let name = text_of("--tenants", path)?;
            let text = sources
                .text(name)
                .map_err(|error| Failure::named(format!("--tenants {name}"), error))?;
            elevon_formats::tenants::parse(name, &text, &kernel.rules()).map_err(Failure::text)
        })
        .transpose()?;
    TenantPlan::new(jobs, file.as_ref()).map_err(Failure::text)
}

/// Returns true if io.cost is on from the start or from some time on.
pub fn enables_cost(plan: &TenantPlan) -> bool {
    let changes = plan.changes.iter().map(|change| &change.setting);
    let is_on = |setting: &Setting| match setting {
        Setting::CostQos(qos) => qos.enable == Some(true),
        _ => false,
    };
    plan.device.iter().chain(changes).any(is_on)
}

/// Lets shares come before the last fifth of the throughput if tenants of one parent have different
/// weights, and neither the scheduler's tunable nor a key says what comes first.
pub fn prefer_shares_by_weights(plan: &mut Plan) {
    let mut weights = BTreeMap::new();
    let mut differs =
        |tenant: &Tenant| *weights.entry(tenant.parent).or_insert(tenant.weight) != tenant.weight;
    if plan.tenants.tenants.iter().any(&mut differs) {
        plan.scheduler.set_if_not_given("prefer", "shares");
    }
}

/// Returns warnings about settings of tenants that have no effect in this plan, or not the one that
/// they seem to have.
pub fn weights_in_vain(plan: &Plan) -> Vec<String> {
    let scheduler = plan.scheduler.info();
    let changes = || plan.tenants.changes.iter().map(|change| &change.setting);
    let has_cost = enables_cost(&plan.tenants);
    let all = || plan.tenants.tenants.iter().flat_map(|tenant| &tenant.settings).chain(changes());
    let in_vain = in_vain(scheduler, has_cost || shares_a_limit(plan), all());
    let mut lines: Vec<String> = in_vain.into_iter().map(str::to_owned).collect();
    lines.extend(classes_in_vain(plan));
    lines.extend(reserves_over_limits(&plan.tenants));
    if scheduler.keeps_reserves {
        lines.extend(reserves_below_limits(plan));
    }
    lines.extend(below_a_job(plan).filter(|_| has_cost));
    let is_too_large =
        |setting: &Setting| matches!(setting, Setting::Weight(weight) if *weight > BFQ_WEIGHT_MAX);
    if let Some(name) = scheduler.divides_as.filter(|_| all().any(is_too_large)) {
        lines.push(format!("{name} counts a weight above {BFQ_WEIGHT_MAX} as {BFQ_WEIGHT_MAX}"));
    }
    lines.into_iter().map(|line| format!("--tenants: {line}")).collect()
}

/// Returns true if a scheduler looks at priorities under these rules.
pub fn reads_priorities(scheduler: &SchedulerInfo, rules: &Rules) -> bool {
    scheduler.reads.iter().any(|reads| match reads {
        Reads::Priority => true,
        Reads::PriorityClass => rules.deadline_classes,
        Reads::Process | Reads::Sync => false,
    })
}

/// Returns a warning about classes of tenants that rank them against no others. Where a scheduler
/// divides the device by groups, a class counts within one, and a tenant's class is that of all its
/// own I/O.
fn classes_in_vain(plan: &Plan) -> Option<String> {
    let TenantPlan { tenants, changes, .. } = &plan.tenants;
    let scheduler = plan.scheduler.info();
    let is_read = reads_priorities(scheduler, &plan.kernel.rules());
    let groups = scheduler.divides_as.is_some();
    if is_read && !groups {
        return None;
    }
    let is_class = |setting: &Setting| match setting {
        Setting::Class(PrioPolicy::Idle | PrioPolicy::PromoteToRt) => true,
        // It takes RT from some of the I/O, or nothing from any.
        Setting::Class(PrioPolicy::RestrictToBe) => !is_read,
        _ => false,
    };
    let parents: BTreeSet<TenantId> = tenants.iter().map(|tenant| tenant.parent).collect();
    let ranked = tenants.iter().enumerate().filter(|(at, tenant)| {
        let id = TenantId(*at as u32 + 1);
        let later =
            changes.iter().filter(|change| change.tenant == id).map(|change| &change.setting);
        tenant.settings.iter().chain(later).any(is_class) && !(groups && parents.contains(&id))
    });
    let paths: Vec<&str> = ranked.map(|(_, tenant)| tenant.path.as_str()).collect();
    let (first, name) = (paths.first()?, scheduler.name);
    let others =
        if paths.len() > 1 { format!(" and {} more", paths.len() - 1) } else { String::new() };
    let why = match groups {
        true => {
            format!("under {name} a class counts only within the tenant, whose own I/O all has it")
        }
        false => format!("{name} does not look at priorities under this kernel"),
    };
    // The processes of a trace are jobs of this engine.
    let of_trace = match plan.jobs.jobs.iter().any(|job| job.engine.name == "replay") {
        true => ", and --ioprio PROCESS=idle without --tenants is what ionice -c3 does",
        false => "",
    };
    Some(format!(
        "{first}{others}: its class ranks it against no other: {why}; --scheduler mq-deadline ranks it among all I/O (from Linux \
         5.15 on){}{of_trace}",
        if groups { ", a weight gives the tenant less or more" } else { "" }
    ))
}

/// Returns true if `io.max` is enforced to the nanosecond, as `limit` is.
fn is_io_max_exact(plan: &Plan) -> bool {
    plan.settings
        .iter()
        .rev()
        .find(|(key, _)| key == "io_max")
        .is_some_and(|(_, value)| value == "exact")
}

/// Returns true if tenants below another share its limit, which they do by weight.
fn shares_a_limit(plan: &Plan) -> bool {
    let TenantPlan { tenants, changes, .. } = &plan.tenants;
    let is_exact = is_io_max_exact(plan);
    let limits = |setting: &Setting| match setting {
        Setting::Limit(_) => true,
        Setting::IoMax(_) => is_exact,
        _ => false,
    };
    let changed: BTreeSet<TenantId> = changes
        .iter()
        .filter(|change| limits(&change.setting))
        .map(|change| change.tenant)
        .collect();
    let is_limited =
        |id: TenantId| changed.contains(&id) || tenants[id.index() - 1].settings.iter().any(limits);
    tenants.iter().any(|tenant| tenant.parent != ROOT && is_limited(tenant.parent))
}

/// Returns a warning for each tenant with a reserve that its own limit does not let it have, from
/// the start of the run or from a change on.
fn reserves_over_limits(plan: &TenantPlan) -> Vec<String> {
    let mut states: Vec<InForce> =
        plan.tenants.iter().map(|tenant| InForce::of(&tenant.settings)).collect();
    let mut over: Vec<_> =
        states.iter().map(|state| reserve_over_limit(state).map(|key| (key, None))).collect();
    for (at, change) in plan.changes.iter().enumerate().filter(|(_, change)| change.tenant != ROOT)
    {
        let tenant = change.tenant.index() - 1;
        states[tenant].take(&change.setting);
        // What changes at one time is looked at together.
        let mut same_time = plan.changes[at + 1..].iter().take_while(|next| next.at == change.at);
        if over[tenant].is_none() && !same_time.any(|next| next.tenant == change.tenant) {
            over[tenant] = reserve_over_limit(&states[tenant]).map(|key| (key, Some(change.at)));
        }
    }
    let line = |(tenant, over): (&Tenant, Option<(&str, Option<Nanos>)>)| {
        let (key, from) = over?;
        let from =
            from.map_or_else(String::new, |at| format!(" from {} s on", at.get() as f64 / 1e9));
        Some(format!(
            "{}: its reserve.{key} is above its limit.{key}{from}, which holds",
            tenant.path
        ))
    };
    plan.tenants.iter().zip(over).filter_map(line).collect()
}

/// Returns the key of a tenant's reserve that its own limit does not let it have.
fn reserve_over_limit(all: &InForce) -> Option<&'static str> {
    let (limit, reserve) = (all.limit(), all.reserve());
    let keys = [("iops", reserve.iops, limit.iops), ("bps", reserve.bps, limit.bps)];
    keys.into_iter().find(|&(_, reserve, cap)| is_over(reserve, cap)).map(|(key, ..)| key)
}

fn is_over(reserve: u64, cap: Option<Cap>) -> bool {
    cap.and_then(Cap::value).is_some_and(|most| reserve > most)
}

/// Returns warnings about reserves that a tenant above does not let those below it have: its limit
/// is below their sum, or its `io.max` lets them take turns.
fn reserves_below_limits(plan: &Plan) -> Vec<String> {
    let tenants = &plan.tenants.tenants;
    let states: Vec<InForce> = tenants.iter().map(|tenant| InForce::of(&tenant.settings)).collect();
    let mut lines = Vec::new();
    // What those below a tenant are to get together; children come after their parents.
    let mut below = vec![(0u64, 0u64); tenants.len() + 1];
    for (at, (tenant, state)) in tenants.iter().zip(&states).enumerate().rev() {
        let (ios, bytes) = below[at + 1];
        for (key, sum, cap) in
            [("iops", ios, state.limit().iops), ("bps", bytes, state.limit().bps)]
        {
            if is_over(sum, cap) {
                let most = cap.and_then(Cap::value).unwrap_or_default();
                let path = &tenant.path;
                lines.push(format!(
                    "{path}: the reserves below it are {sum} {key} together and its limit.{key} is {most}: they \
                     shrink in proportion"
                ));
            }
        }
        let has_turns = !is_io_max_exact(plan) && state.has_io_max();
        if has_turns && (ios, bytes) != (0, 0) {
            let path = &tenant.path;
            lines.push(format!(
                "{path}: its io.max lets those below it take turns, whatever their reserves are; `limit` and --set \
                 io_max=exact keep these"
            ));
        }
        let (own, parent) = (state.reserve(), &mut below[tenant.parent.index()]);
        parent.0 = parent.0.saturating_add(ios.max(own.iops));
        parent.1 = parent.1.saturating_add(bytes.max(own.bps));
    }
    lines.reverse();
    lines
}

/// Returns a warning if a job lies in a tenant with tenants below it: the kernel's io.cost, which
/// is followed here, does not expect this.
fn below_a_job(plan: &Plan) -> Option<String> {
    let tenants = &plan.tenants.tenants;
    let parents: BTreeSet<TenantId> = tenants.iter().map(|tenant| tenant.parent).collect();
    let by_path = TenantsByPath::new(tenants);
    let mut of_jobs = plan.jobs.jobs.iter().map(|job| by_path.of(job));
    let inner = of_jobs.find(|id| *id != ROOT && parents.contains(id))?;
    Some(format!(
        "{}: a job lies in it and tenants lie below it, which cgroup v2 does not allow: io.cost neither limits nor \
         charges those below while it does I/O itself",
        tenants[inner.index() - 1].path
    ))
}

/// Refuses a rate of a tenant that both `io.max` and `limit` set if `io.max` is exact, because both
/// then set the same limit and the second would replace the first.
///
/// # Errors
/// A tenant has a rate twice.
pub fn limited_once(plan: &Plan) -> Result<(), Failure> {
    if !is_io_max_exact(plan) {
        return Ok(());
    }
    for (at, tenant) in plan.tenants.tenants.iter().enumerate() {
        let changes = plan.tenants.changes.iter().filter(|change| change.tenant.index() == at + 1);
        let all = || tenant.settings.iter().chain(changes.clone().map(|change| &change.setting));
        let (mut max, mut limit) = ([false; 4], [false; 4]);
        for setting in all() {
            let (rates, given) = match setting {
                Setting::IoMax(io) => ([io.rbps, io.wbps, io.riops, io.wiops], &mut max),
                Setting::Limit(own) => ([own.rbps, own.wbps, own.riops, own.wiops], &mut limit),
                _ => continue,
            };
            given.iter_mut().zip(rates).for_each(|(given, rate)| *given |= rate.is_some());
        }
        let both = ["rbps", "wbps", "riops", "wiops"].into_iter().zip(max.into_iter().zip(limit));
        if let Some((rate, _)) = both.into_iter().find(|(_, (max, limit))| *max && *limit) {
            let twice = ConflictError::LimitedTwice { tenant: tenant.path.clone(), rate };
            return Err(Failure::named("--set io_max=exact", twice));
        }
    }
    Ok(())
}
