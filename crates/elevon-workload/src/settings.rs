//! What is set for tenants, done to a stack: before the run, and at the times of a plan during it.

use std::collections::VecDeque;

use elevon_core::control::Control;
use elevon_core::control::io_cost::QosError;
use elevon_core::control::io_throttle::Kind;
use elevon_core::control::limits::{Limits, UNLIMITED};
use elevon_core::stack::Stack;
use elevon_core::units::{Instant, Nanos, TenantId};
use elevon_formats::cgroup::{
    Cap, CostControl, CostModel, CostQos, IoMax, Limit, LimitKey, Setting, WeightFile, Weights,
};

use crate::tenants::{BFQ_WEIGHT_MAX, TenantChange, TenantPlan};

/// The settings of a run's tenants: what is in force, and what is still to come.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    changes: VecDeque<TenantChange>,
    started: Instant,
    /// Weights under BFQ and under io.cost, by tenant.
    weights: Vec<[Weights; 2]>,
    /// What a change was refused for.
    refused: Vec<String>,
    /// Changes that were made.
    made: Vec<TenantChange>,
}

const BFQ: usize = 0;
const COST: usize = 1;

impl Settings {
    /// Makes the tenants of a plan known to a stack and sets what is set before the run. With any tenant, or anything set for the
    /// device, tenants are watched. Fails with a line that says what was refused and why.
    pub fn new(stack: &mut Stack, plan: &TenantPlan, now: Instant) -> Result<Self, String> {
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
            let added = stack.control_mut().add_tenant(tenant.parent);
            let id = added.map_err(|error| format!("tenant {}: {error}", tenant.path))?;
            stack.set_group(id, settings.weights(id)[BFQ].effective());
            for setting in &tenant.settings {
                let named = |error| format!("tenant {}: {error}", tenant.path);
                settings.apply(stack, now, id, setting).map_err(named)?;
            }
        }
        Ok(settings)
    }

    /// When the next change is due.
    pub fn next_change(&self) -> Option<Instant> {
        self.changes.front().map(|change| self.started.saturating_add(change.at))
    }

    /// Makes every change that is due. One that is refused is noted and changes nothing.
    pub fn run_changes(&mut self, stack: &mut Stack, now: Instant) {
        while self.next_change().is_some_and(|at| at <= now) {
            let Some(TenantChange { at, tenant, setting }) = self.changes.pop_front() else { return };
            match self.apply(stack, now, tenant, &setting) {
                Ok(()) => self.made.push(TenantChange { at, tenant, setting }),
                Err(error) => self.refused.push(format!("the change at {} s was refused: {error}", seconds(at))),
            }
        }
    }

    /// Changes that were refused during the run, a line each.
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// Changes that were made, in order.
    pub fn made(&self) -> &[TenantChange] {
        &self.made
    }

    /// A line about the changes that were never made because the run had ended, if there are any.
    pub fn too_late(&self, ended: Nanos) -> Option<String> {
        let first = self.changes.front()?;
        let more = match self.changes.iter().filter(|change| change.at != first.at).count() {
            0 => String::new(),
            more => format!(", nor {more} later ones"),
        };
        Some(format!("the change at {} s was not made{more}: the run ended at {} s", seconds(first.at), seconds(ended)))
    }

    fn weights(&mut self, tenant: TenantId) -> &mut [Weights; 2] {
        if tenant.index() >= self.weights.len() {
            self.weights.resize(tenant.index() + 1, [Weights::default(); 2]);
        }
        &mut self.weights[tenant.index()]
    }

    fn apply(&mut self, stack: &mut Stack, now: Instant, tenant: TenantId, setting: &Setting) -> Result<(), String> {
        let refused = |error: &dyn std::fmt::Display| format!("{}: {error}", setting.name());
        if !stack.tenants().is_alive(tenant) {
            return Err(refused(&"the tenant was removed"));
        }
        let control = stack.control_mut();
        match setting {
            Setting::IoMax(max) => control.set_io_max(now, tenant, |limits| max_into(max, limits)),
            Setting::Flat(key, cap) => control.set_flat(now, tenant, |limits| set_cap(limits, *key, Some(*cap))),
            Setting::Limit(limit) => control.set_limit(now, tenant, |limits| limit_into(limit, limits)),
            Setting::Bandwidth(rule) => {
                control.set_io_throttle(now, tenant, Kind::Bandwidth, *rule).map_err(|error| refused(&error))?;
            }
            Setting::Iops(rule) => {
                control.set_io_throttle(now, tenant, Kind::Iops, *rule).map_err(|error| refused(&error))?;
            }
            Setting::Class(policy) => control.set_prio_policy(tenant, *policy),
            Setting::Latency(target) => control.set_latency(now, tenant, *target),
            Setting::CostQos(qos) => set_qos(control, now, qos).map_err(|error| refused(&error))?,
            Setting::CostModel(model) => set_model(control, now, model),
            Setting::IoWeight(file) => {
                self.weights(tenant)[COST].set(*file);
                self.weigh(stack, now, tenant)?;
            }
            Setting::BfqWeight(file) => {
                self.weights(tenant)[BFQ].set(*file);
                self.weigh(stack, now, tenant)?;
            }
            Setting::Weight(weight) => {
                let weights = self.weights(tenant);
                weights[COST].set(WeightFile::Default(*weight));
                weights[BFQ].set(WeightFile::Default((*weight).min(BFQ_WEIGHT_MAX)));
                self.weigh(stack, now, tenant)?;
            }
        }
        Ok(())
    }

    fn weigh(&mut self, stack: &mut Stack, now: Instant, tenant: TenantId) -> Result<(), String> {
        let [bfq, cost] = self.weights(tenant).map(Weights::effective);
        stack.set_group(tenant, bfq);
        stack.control_mut().set_weight(now, tenant, cost).map_err(|error| error.to_string())
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

fn set_qos(control: &mut Control, now: Instant, qos: &CostQos) -> Result<(), QosError> {
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

fn set_model(control: &mut Control, now: Instant, model: &CostModel) {
    control.change_cost(|cost| match model.ctrl {
        Some(CostControl::Auto) => {
            let enable = cost.qos().enable;
            cost.set_auto(now, enable);
        }
        Some(CostControl::User) | None => cost.set_model(now, model.over(*cost.coefficients())),
    });
}
