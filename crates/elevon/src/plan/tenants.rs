//! The tenants of a plan, and what of their settings has no effect or is set twice.

use std::path::Path;

use elevon_core::kernel::Kernel;
use elevon_formats::cgroup::{BFQ_WEIGHT_MAX, Cap, Setting};
use elevon_formats::fio::spec::JobSpec;
use elevon_workload::in_force::InForce;
use elevon_workload::tenants::{Tenant, TenantPlan, in_vain};

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
            let text = sources.text(name).map_err(|error| Failure::named(format!("--tenants {name}"), error))?;
            elevon_formats::tenants::parse(name, &text, &kernel.rules()).map_err(Failure::text)
        })
        .transpose()?;
    TenantPlan::new(jobs, file.as_ref()).map_err(Failure::text)
}

/// Returns warnings about weights and reserves that have no effect in this plan.
pub(crate) fn weights_in_vain(plan: &Plan) -> Vec<String> {
    let scheduler = plan.scheduler.info();
    let changes = || plan.tenants.changes.iter().map(|change| &change.setting);
    let has_cost = plan.tenants.device.iter().chain(changes()).any(|setting| match setting {
        Setting::CostQos(qos) => qos.enable == Some(true),
        _ => false,
    });
    let all = || plan.tenants.tenants.iter().flat_map(|tenant| &tenant.settings).chain(changes());
    let in_vain = in_vain(scheduler, has_cost || shares_a_limit(&plan.tenants.tenants), all());
    let mut lines: Vec<String> = in_vain.into_iter().map(|line| format!("--tenants: {line}")).collect();
    let limits =
        plan.tenants.tenants.iter().filter_map(|tenant| Some((&tenant.path, reserve_over_limit(&tenant.settings)?)));
    lines.extend(
        limits.map(|(path, key)| format!("--tenants: {path}: its reserve.{key} is above its limit.{key}, which holds")),
    );
    let is_too_large = |setting: &Setting| matches!(setting, Setting::Weight(weight) if *weight > BFQ_WEIGHT_MAX);
    if let Some(name) = scheduler.divides_as.filter(|_| all().any(is_too_large)) {
        lines.push(format!("--tenants: {name} counts a weight above {BFQ_WEIGHT_MAX} as {BFQ_WEIGHT_MAX}"));
    }
    lines
}

/// Returns true if tenants below another share its limit, which they do by weight.
fn shares_a_limit(tenants: &[Tenant]) -> bool {
    let limited = tenants.iter().filter(|tenant| tenant.settings.iter().any(|one| matches!(one, Setting::Limit(_))));
    let is_above = |above: &str, path: &str| path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'));
    let mut limited = limited.map(|tenant| tenant.path.as_str());
    limited.any(|above| tenants.iter().any(|tenant| is_above(above, &tenant.path)))
}

/// Returns the key of a tenant's reserve that its own limit does not let it have.
fn reserve_over_limit(settings: &[Setting]) -> Option<&'static str> {
    let all = InForce::of(settings);
    let (limit, reserve) = (all.limit(), all.reserve());
    let is_over = |reserve: u64, cap: Option<Cap>| cap.and_then(Cap::value).is_some_and(|most| reserve > most);
    let keys = [("iops", reserve.iops, limit.iops), ("bps", reserve.bps, limit.bps)];
    keys.into_iter().find(|&(_, reserve, cap)| is_over(reserve, cap)).map(|(key, ..)| key)
}

/// Refuses a rate of a tenant that both `io.max` and `limit` set if `io.max` is exact, because both
/// then set the same limit and the second would replace the first.
pub(crate) fn limited_once(plan: &Plan) -> Result<(), Failure> {
    let is_exact =
        plan.settings.iter().rev().find(|(key, _)| key == "io_max").is_some_and(|(_, value)| value == "exact");
    let of_tenants = plan.tenants.tenants.iter().enumerate();
    for (at, tenant) in of_tenants.filter(|_| is_exact) {
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
