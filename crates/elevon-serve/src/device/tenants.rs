//! The tenants of a device: their names, what is in force for each, and changes while I/O is in
//! flight.

use elevon_core::stack::Stack;
use elevon_core::units::{Instant, TenantId};
use elevon_formats::cgroup::Setting;
use elevon_report::collect::{self, Named, Sources};
use elevon_report::result::TenantResult;
use elevon_workload::in_force::InForce;
use elevon_workload::settings::Settings;
use elevon_workload::tenants::{Tenant, TenantPlan};

/// The tenants of a device; the one at index n is [`TenantId`] n + 1.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    known: Vec<(String, InForce)>,
}

impl Tenants {
    /// The tenants that settings were made of.
    pub(super) fn of(plan: &TenantPlan) -> Self {
        let known = plan.tenants.iter().map(|tenant| (tenant.path.clone(), InForce::of(&tenant.settings)));
        Self { known: known.collect() }
    }

    pub(super) fn find(&self, path: &str) -> Option<TenantId> {
        let index = self.known.iter().position(|(known, _)| known == path)?;
        Some(TenantId(index as u32 + 1))
    }

    /// Returns the path of a tenant.
    pub(super) fn path(&self, tenant: TenantId) -> &str {
        let known = tenant.index().checked_sub(1).and_then(|at| self.known.get(at));
        known.map_or("/", |(path, _)| path)
    }

    /// Applies settings of a tenant, over those in force. The first that is refused ends it. A rate
    /// that `io.max` and `limit` would both set is refused if `io.max` is exact, as in a
    /// configuration: both then set the same limit.
    pub(super) fn set(
        &mut self,
        stack: &mut Stack,
        settings: &mut Settings,
        now: Instant,
        tenant: TenantId,
        new: &[Setting],
    ) -> Result<(), String> {
        let known = tenant.index().checked_sub(1).and_then(|at| self.known.get(at));
        if let Some((path, mut in_force)) = known.cloned().filter(|_| stack.config().exact_io_max) {
            for setting in new {
                if let Some(rate) = in_force.limited_by_other(setting) {
                    let rate = rate.name();
                    return Err(format!(
                        "tenant {path} has {rate} in io.max and in limit, which then set the same limit; lift it first"
                    ));
                }
                in_force.take(setting);
            }
        }
        for setting in new {
            settings.apply(stack, now, tenant, setting).map_err(|error| error.to_string())?;
            if let Some((_, in_force)) = tenant.index().checked_sub(1).and_then(|at| self.known.get_mut(at)) {
                in_force.take(setting);
            }
        }
        Ok(())
    }

    /// Makes the settings of these tenants those in force, in place of what was, and adds the
    /// tenants that are new; a parent comes before its children. Returns their numbers.
    pub(super) fn replace(
        &mut self,
        stack: &mut Stack,
        settings: &mut Settings,
        now: Instant,
        tenants: &[Tenant],
    ) -> Result<Vec<TenantId>, String> {
        let mut ids = Vec::new();
        for tenant in tenants {
            let id = match self.find(&tenant.path) {
                Some(id) => id,
                None => {
                    let parent = tenant.path.rsplit_once('/').and_then(|(parent, _)| self.find(parent));
                    let parent = parent.unwrap_or(TenantId(0));
                    let id = settings.add_tenant(stack, now, parent).map_err(|error| error.to_string())?;
                    self.known.push((tenant.path.clone(), InForce::default()));
                    id
                }
            };
            let old = self.known[id.index() - 1].1;
            let changes = old.changes(&InForce::of(&tenant.settings));
            self.set(stack, settings, now, id, &changes).map_err(|error| format!("tenant {}: {error}", tenant.path))?;
            ids.push(id);
        }
        // What the list no longer has keeps its number, and loses its settings.
        for (index, (path, old)) in self.known.clone().into_iter().enumerate() {
            if !tenants.iter().any(|tenant| tenant.path == path) {
                let changes = old.changes(&InForce::default());
                self.set(stack, settings, now, TenantId(index as u32 + 1), &changes)?;
            }
        }
        Ok(ids)
    }

    /// Returns every tenant with its figures until now.
    pub(super) fn view(&self, stack: &mut Stack, now: Instant) -> Vec<TenantResult> {
        stack.control_mut().settle(now);
        let control = stack.control();
        let sources = Sources {
            tree: control.tenants(),
            statistics: control.statistics(),
            pressure: None,
            cost: None,
            scheduler: stack.scheduler(),
            breakdown: control.breakdown(),
            now,
        };
        collect::all_tenants(&sources, |id| match id.index().checked_sub(1).and_then(|at| self.known.get(at)) {
            None => Named::default(),
            Some((path, in_force)) => Named {
                path: path.clone(),
                settings: in_force.texts(),
                limits: collect::limits_of(control, id),
                time: now.since(Instant::ZERO),
            },
        })
    }
}
