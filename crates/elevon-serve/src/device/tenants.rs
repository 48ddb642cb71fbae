//! The tenants of a device: their names, what is in force for each, and changes while I/O is in
//! flight.

use std::collections::{BTreeMap, BTreeSet};

use elevon_core::stack::Stack;
use elevon_core::units::{Instant, TenantId};
use elevon_formats::cgroup::Setting;
use elevon_formats::tenants::is_at_or_above;
use elevon_result::collect::{self, Named, TenantFigures};
use elevon_result::result::TenantResult;
use elevon_workload::in_force::InForce;
use elevon_workload::settings::Settings;
use elevon_workload::tenants::{Tenant, TenantPlan};

/// The tenants of a device; the one at index n is [`TenantId`] n + 1.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    known: Vec<KnownTenant>,
    by_path: BTreeMap<String, TenantId>,
}

/// A tenant. One that the last list does not have keeps its number and what was counted of it.
#[derive(Clone, Debug)]
struct KnownTenant {
    path: String,
    in_force: InForce,
    is_listed: bool,
}

impl KnownTenant {
    /// Returns without an error if a setting can be applied. A rate that `io.max` and `limit` would
    /// both set is refused if `io.max` is exact, as in a configuration: both then set the same
    /// limit.
    fn check(&self, stack: &Stack, setting: &Setting) -> Result<(), String> {
        let conflict =
            self.in_force.limited_by_other(setting).filter(|_| stack.config().exact_io_max);
        conflict.map_or(Ok(()), |rate| {
            let (path, rate) = (&self.path, rate.name());
            Err(format!(
                "tenant {path} has {rate} in io.max and in limit, which then set the same limit; lift it first"
            ))
        })
    }
}

impl Tenants {
    /// The tenants that settings were made of.
    pub(super) fn of(plan: &TenantPlan) -> Self {
        let known = |tenant: &Tenant| KnownTenant {
            path: tenant.path.clone(),
            in_force: InForce::of(&tenant.settings),
            is_listed: true,
        };
        let by_path = plan
            .tenants
            .iter()
            .zip(1..)
            .map(|(tenant, id)| (tenant.path.clone(), TenantId(id)))
            .collect();
        Self { known: plan.tenants.iter().map(known).collect(), by_path }
    }

    pub(super) fn find(&self, path: &str) -> Option<TenantId> {
        self.by_path.get(path).copied()
    }

    fn get(&self, tenant: TenantId) -> Option<&KnownTenant> {
        self.known.get(tenant.index().checked_sub(1)?)
    }

    /// Returns the path of a tenant.
    pub(super) fn path(&self, tenant: TenantId) -> &str {
        self.get(tenant).map_or("/", |known| &known.path)
    }

    /// Returns without an error if [`Self::take`] can apply settings of a tenant.
    pub(super) fn check(
        &self,
        stack: &Stack,
        tenant: TenantId,
        new: &[Setting],
        is_part: bool,
    ) -> Result<(), String> {
        let Some(mut known) = self.get(tenant).cloned() else { return Ok(()) };
        for setting in new {
            known.check(stack, setting)?;
            let whole = if is_part { vec![*setting] } else { known.in_force.replace(setting) };
            whole.iter().for_each(|setting| known.in_force.take(setting));
        }
        Ok(())
    }

    /// Applies settings of a tenant as its file would have them: a table replaces the one in force
    /// ([`InForce::replace`]), unless they are parts of tables. If [`Self::check`] has an error,
    /// none is applied.
    pub(super) fn take(
        &mut self,
        stack: &mut Stack,
        settings: &mut Settings,
        now: Instant,
        tenant: TenantId,
        (new, is_part): (&[Setting], bool),
    ) -> Result<(), String> {
        self.check(stack, tenant, new, is_part)?;
        for setting in new {
            let known = self.get(tenant).filter(|_| !is_part);
            let whole =
                known.map_or_else(|| vec![*setting], |known| known.in_force.replace(setting));
            self.set(stack, settings, now, tenant, &whole)?;
        }
        Ok(())
    }

    /// Applies settings of a tenant, over those in force; what a table does not name stays. The
    /// first that is refused ends it.
    pub(super) fn set(
        &mut self,
        stack: &mut Stack,
        settings: &mut Settings,
        now: Instant,
        tenant: TenantId,
        new: &[Setting],
    ) -> Result<(), String> {
        for setting in new {
            self.get(tenant).map_or(Ok(()), |known| known.check(stack, setting))?;
            settings.apply(stack, now, tenant, setting).map_err(|error| error.to_string())?;
            if let Some(known) = tenant.index().checked_sub(1).and_then(|at| self.known.get_mut(at))
            {
                known.in_force.take(setting);
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
                    let parent =
                        tenant.path.rsplit_once('/').and_then(|(parent, _)| self.find(parent));
                    let parent = parent.unwrap_or(TenantId(0));
                    let id = settings
                        .add_tenant(stack, now, parent)
                        .map_err(|error| error.to_string())?;
                    let (path, in_force) = (tenant.path.clone(), InForce::default());
                    self.known.push(KnownTenant { path: path.clone(), in_force, is_listed: true });
                    self.by_path.insert(path, TenantId(self.known.len() as u32));
                    id
                }
            };
            let old = self.known[id.index() - 1].in_force;
            let changes = old.changes(&InForce::of(&tenant.settings));
            self.set(stack, settings, now, id, &changes)
                .map_err(|error| format!("tenant {}: {error}", tenant.path))?;
            ids.push(id);
        }
        // What the list no longer has loses its settings.
        let listed: BTreeSet<&str> = tenants.iter().map(|tenant| &*tenant.path).collect();
        for index in 0..self.known.len() {
            let known = &mut self.known[index];
            known.is_listed = listed.contains(&*known.path);
            if !known.is_listed {
                let changes = known.in_force.changes(&InForce::default());
                self.set(stack, settings, now, TenantId(index as u32 + 1), &changes)?;
            }
        }
        Ok(ids)
    }

    /// Returns every tenant with its figures until now. One that is not listed is told as removed
    /// once it has nothing in flight, and neither it nor one below it is among those `in_use`.
    pub(super) fn view(
        &self,
        stack: &mut Stack,
        now: Instant,
        in_use: &[TenantId],
    ) -> Vec<TenantResult> {
        stack.settle_waits(now);
        let control = stack.control();
        let sources = TenantFigures {
            tree: control.tenants(),
            statistics: control.statistics(),
            pressure: None,
            cost: None,
            scheduler: stack.scheduler(),
            breakdown: control.breakdown(),
            now,
        };
        let mut all = collect::all_tenants(&sources, |id| match self.get(id) {
            None => Named::default(),
            Some(known) => Named {
                path: known.path.clone(),
                settings: known.in_force.texts(),
                limits: collect::limits_of(control, id),
                missed_below_limits: control.reserve_missed(now, id),
                time: now.since(Instant::ZERO),
            },
        });
        let mut used: Vec<&str> = in_use.iter().map(|&id| self.path(id)).collect();
        used.sort_unstable();
        used.dedup();
        for (known, result) in self.known.iter().zip(&mut all[1..]) {
            let is_in_use = || used.iter().any(|path| is_at_or_above(&known.path, path));
            result.removed |= !known.is_listed && result.in_flight == 0 && !is_in_use();
        }
        all
    }
}
