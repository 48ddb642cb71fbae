//! Applies the settings of tenants to a stack: before the run, and at the planned times during it.

use std::collections::VecDeque;
use std::fmt;

use elevon_core::control::TenantControl;
use elevon_core::control::io_cost::{QosError, WeightError};
use elevon_core::control::io_throttle::{LimitKind, RuleError};
use elevon_core::control::limits::{Limits, UNLIMITED};
use elevon_core::sched::Reserve;
use elevon_core::stack::Stack;
use elevon_core::tenant::TenantError;
use elevon_core::units::{Instant, Nanos, TenantId};
use elevon_formats::cgroup::{
    Cap, CostControl, CostModel, CostQos, IoMax, Limit, LimitKey, Setting, Weights,
};

use crate::tenants::{TenantChange, TenantPlan};

/// The reason why a setting was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingRefusal {
    /// The tenant was removed earlier.
    #[error("the tenant was removed")]
    Removed,
    /// The tree of tenants has no space for it.
    #[error(transparent)]
    Tenant(#[from] TenantError),
    /// io-throttle refuses the rule.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// io.cost refuses the quality of service.
    #[error(transparent)]
    Qos(#[from] QosError),
    /// io.cost refuses the weight.
    #[error(transparent)]
    Weight(#[from] WeightError),
}

/// A refused setting, with its tenant and the reason; one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TenantSettingError {
    /// The path of the tenant; `None` for the device's settings, and for changes during a run.
    pub tenant: Option<String>,
    /// The file or key of the setting; `None` for the tenant itself, and for a weight that results
    /// from several settings.
    pub setting: Option<&'static str>,
    /// The reason.
    #[source]
    pub refusal: SettingRefusal,
}

impl fmt::Display for TenantSettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.tenant {
            write!(f, "tenant {path}: ")?;
        }
        if let Some(name) = self.setting {
            write!(f, "{name}: ")?;
        }
        write!(f, "{}", self.refusal)
    }
}

impl<E: Into<SettingRefusal>> From<E> for TenantSettingError {
    fn from(refusal: E) -> Self {
        Self { tenant: None, setting: None, refusal: refusal.into() }
    }
}

/// A change that was refused during a run; prints as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the change at {} s was refused: {error}", seconds(*.at))]
pub struct RefusedChange {
    /// The time at which it was due, from the start of the run.
    pub at: Nanos,
    /// The refused setting and the reason.
    #[source]
    pub error: TenantSettingError,
}

/// The settings of a run's tenants: those in force, and the changes to come.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    changes: VecDeque<TenantChange>,
    started: Instant,
    /// Weights, by tenant.
    weights: Vec<Weights>,
    /// Floors, by tenant; those after the last one that was set are none.
    reserves: Vec<Reserve>,
    /// Changes that were refused.
    refused: Vec<RefusedChange>,
    /// Changes that were made.
    made: Vec<TenantChange>,
}

impl Settings {
    /// Adds the tenants of a plan to a stack, and applies the settings before the run. If there is
    /// any tenant or device setting, tenants are watched.
    ///
    /// # Errors
    /// The refused setting and the reason.
    pub fn new(
        stack: &mut Stack,
        plan: &TenantPlan,
        now: Instant,
    ) -> Result<Self, TenantSettingError> {
        let changes = plan.changes.iter().cloned().collect();
        let mut settings = Self { changes, started: now, ..Self::default() };
        if plan.tenants.is_empty() && plan.device.is_empty() && plan.changes.is_empty() {
            return Ok(settings);
        }
        stack.control_mut().watch();
        for setting in &plan.device {
            settings.apply(stack, now, TenantId(0), setting)?;
        }
        for tenant in &plan.tenants {
            let named = |error: TenantSettingError| TenantSettingError {
                tenant: Some(tenant.path.clone()),
                ..error
            };
            let added = stack.control_mut().add_tenant(tenant.parent);
            let id = added.map_err(|error| named(error.into()))?;
            stack.set_group(id, settings.weights(id).bfq);
            for setting in &tenant.settings {
                settings.apply(stack, now, id, setting).map_err(named)?;
            }
        }
        Ok(settings)
    }

    /// Returns the instant of the next change.
    #[inline]
    pub fn next_change(&self) -> Option<Instant> {
        self.changes.front().map(|change| self.started.saturating_add(change.at))
    }

    /// Takes the next change if it is due, for a caller that makes it.
    pub fn take_due(&mut self, now: Instant) -> Option<TenantChange> {
        self.next_change().filter(|at| *at <= now)?;
        self.changes.pop_front()
    }

    /// Makes every change that is due. A refused change is recorded and has no effect.
    pub fn run_changes(&mut self, stack: &mut Stack, now: Instant) {
        while let Some(TenantChange { at, tenant, setting }) = self.take_due(now) {
            match self.apply(stack, now, tenant, &setting) {
                Ok(()) => self.made.push(TenantChange { at, tenant, setting }),
                Err(error) => self.refused.push(RefusedChange { at, error }),
            }
        }
    }

    /// Returns the changes that were refused during the run.
    pub fn refused(&self) -> &[RefusedChange] {
        &self.refused
    }

    /// Returns the changes that were made, in order.
    pub fn made(&self) -> &[TenantChange] {
        &self.made
    }

    /// Returns a line about the changes that were not made because the run had ended, if there are
    /// any.
    pub fn too_late(&self, ended: Nanos) -> Option<String> {
        let first = self.changes.front()?;
        let more = match self.changes.iter().filter(|change| change.at != first.at).count() {
            0 => String::new(),
            more => format!(", nor {more} later ones"),
        };
        Some(format!(
            "the change at {} s was not made{more}: the run ended at {} s",
            seconds(first.at),
            seconds(ended)
        ))
    }

    fn weights(&mut self, tenant: TenantId) -> &mut Weights {
        if tenant.index() >= self.weights.len() {
            self.weights.resize(tenant.index() + 1, Weights::default());
        }
        &mut self.weights[tenant.index()]
    }

    /// Adds a tenant below another, without settings.
    ///
    /// # Errors
    /// The tree has no space for it.
    pub fn add_tenant(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        parent: TenantId,
    ) -> Result<TenantId, TenantSettingError> {
        let tenant = stack.control_mut().add_tenant(parent)?;
        self.weigh(stack, now, tenant)?;
        Ok(tenant)
    }

    /// Applies a setting of a tenant, or with the root one of the device.
    ///
    /// # Errors
    /// The refused setting and the reason.
    pub fn apply(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        tenant: TenantId,
        setting: &Setting,
    ) -> Result<(), TenantSettingError> {
        let refused =
            |refusal| TenantSettingError { tenant: None, setting: Some(setting.name()), refusal };
        if !stack.tenants().is_alive(tenant) {
            return Err(refused(SettingRefusal::Removed));
        }
        let control = stack.control_mut();
        match setting {
            Setting::IoMax(max) => control.set_io_max(now, tenant, |limits| max_into(max, limits)),
            Setting::Flat(key, cap) => {
                control.set_flat(now, tenant, |limits| set_cap(limits, *key, Some(*cap)));
            }
            Setting::Limit(limit) => {
                control.set_limit(now, tenant, |limits| limit_into(limit, limits));
            }
            Setting::Reserve(floor) => {
                if tenant.index() >= self.reserves.len() {
                    self.reserves.resize(tenant.index() + 1, Reserve::default());
                }
                let reserve = &mut self.reserves[tenant.index()];
                *reserve = floor.over(*reserve);
                stack.set_reserve(now, tenant, *reserve);
            }
            Setting::Bandwidth(rule) => {
                control
                    .set_io_throttle(now, tenant, LimitKind::Bandwidth, *rule)
                    .map_err(|error| refused(error.into()))?;
            }
            Setting::Iops(rule) => {
                control
                    .set_io_throttle(now, tenant, LimitKind::Iops, *rule)
                    .map_err(|error| refused(error.into()))?;
            }
            Setting::Class(policy) => control.set_prio_policy(tenant, *policy),
            Setting::Latency(target) => control.set_latency(now, tenant, *target),
            Setting::CostQos(qos) => {
                set_qos(control, now, qos).map_err(|error| refused(error.into()))?;
            }
            Setting::CostModel(model) => set_model(control, now, model),
            Setting::IoWeight(_) | Setting::BfqWeight(_) | Setting::Weight(_) => {
                self.weights(tenant).take(setting);
                self.weigh(stack, now, tenant)?;
            }
        }
        Ok(())
    }

    fn weigh(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        tenant: TenantId,
    ) -> Result<(), WeightError> {
        let weights = *self.weights(tenant);
        stack.set_group(tenant, weights.bfq);
        stack.control_mut().set_weight(now, tenant, weights.cost.effective())
    }
}

fn seconds(span: Nanos) -> f64 {
    span.get() as f64 / Nanos::from_secs(1).get() as f64
}

fn rate(cap: Cap) -> u64 {
    cap.value().unwrap_or(UNLIMITED)
}

fn set_cap(limits: &mut Limits, key: LimitKey, cap: Option<Cap>) {
    let slot = match key {
        LimitKey::Rbps => &mut limits.bps[0],
        LimitKey::Wbps => &mut limits.bps[1],
        LimitKey::Riops => &mut limits.iops[0],
        LimitKey::Wiops => &mut limits.iops[1],
    };
    *slot = cap.map_or(*slot, rate);
}

fn max_into(max: &IoMax, limits: &mut Limits) {
    for key in [LimitKey::Rbps, LimitKey::Wbps, LimitKey::Riops, LimitKey::Wiops] {
        set_cap(limits, key, max.cap(key));
    }
}

fn limit_into(limit: &Limit, limits: &mut Limits) {
    set_cap(limits, LimitKey::Rbps, limit.rbps);
    set_cap(limits, LimitKey::Wbps, limit.wbps);
    set_cap(limits, LimitKey::Riops, limit.riops);
    set_cap(limits, LimitKey::Wiops, limit.wiops);
    limits.total_bps = limit.bps.map_or(limits.total_bps, rate);
    limits.total_iops = limit.iops.map_or(limits.total_iops, rate);
    limits.burst_bytes = limit.burst.unwrap_or(limits.burst_bytes);
    limits.burst_ios = limit.burst_ios.unwrap_or(limits.burst_ios);
}

fn set_qos(control: &mut TenantControl, now: Instant, qos: &CostQos) -> Result<(), QosError> {
    control.change_cost(|cost| {
        if qos.ctrl == Some(CostControl::Auto) {
            let enable = qos.enable.unwrap_or(cost.qos().enable);
            cost.set_auto(now, enable);
        }
        if qos.is_of_user() {
            cost.set_qos(now, qos.over(*cost.qos()))?;
        } else if let Some(enable) = qos.enable {
            cost.set_enabled(now, enable);
        }
        Ok(())
    })
}

fn set_model(control: &mut TenantControl, now: Instant, model: &CostModel) {
    control.change_cost(|cost| match model.ctrl {
        Some(CostControl::Auto) => {
            let enable = cost.qos().enable;
            cost.set_auto(now, enable);
        }
        Some(CostControl::User) | None => cost.set_model(now, model.over(*cost.coefficients())),
    });
}
