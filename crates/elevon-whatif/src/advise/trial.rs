//! Replays of a trace under many configurations, on all cores, with the same result on any number
//! of them.

use std::path::Path;

use elevon_core::stack::StackConfig;
use elevon_host::interrupt::Interrupt;
use elevon_plan::execute::execute;
use elevon_plan::failure::{Ending, Failure};
use elevon_plan::listener::Steps;
use elevon_plan::options::StackOptions;
use elevon_plan::own_device::OwnDevice;
use elevon_plan::parallel::on_all_cores;
use elevon_plan::plan::Plan;
use elevon_sim::device::Device;
use elevon_trace::replay::Workload;
use elevon_workload::run::NoObserver;

use super::failure::AdviseError;
use super::setup::Setup;
use crate::figures::Figures;
use crate::replay::{Replay, ReplayOptions, tenant_name};

/// A configuration and what it gave.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) setup: Setup,
    /// By process, in the order of the workload.
    pub(super) processes: Vec<Figures>,
    /// The same as a trace of the replay would show it.
    pub(super) traced: Vec<Figures>,
    pub(super) all: Figures,
}

/// A workload on a device, ready to be replayed.
pub(super) struct Bench<'a> {
    pub(super) workload: Workload,
    replay: Replay,
    /// Options that all configurations share: device, kernel, seed.
    pub(super) base: StackOptions,
    /// A process ends when its I/Os are done, and not when its time has passed.
    is_once: bool,
    /// The line of io.cost.model for the device, without the device; empty if io.cost is not
    /// tried.
    pub(super) cost_model: String,
    own: Option<&'a OwnDevice>,
    pub(super) interrupt: &'a Interrupt,
    pub(super) bar: &'a dyn Steps,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        workload: Workload,
        is_once: bool,
        base: &StackOptions,
        own: Option<&'a OwnDevice>,
        interrupt: &'a Interrupt,
        bar: &'a dyn Steps,
    ) -> Result<Self, Failure> {
        let how = ReplayOptions {
            closed: true,
            time_based: !is_once,
            once: is_once,
            ..ReplayOptions::default()
        };
        let replay = Replay::of_workload(Path::new("trace"), &how, workload.clone()).onto(base)?;
        Ok(Self {
            workload,
            replay,
            base: base.clone(),
            is_once,
            cost_model: String::new(),
            own,
            interrupt,
            bar,
        })
    }

    /// The same device with a part of the workload.
    pub(super) fn of_part(&self, workload: Workload) -> Result<Self, Failure> {
        let cost_model = self.cost_model.clone();
        Ok(Self {
            cost_model,
            ..Self::new(workload, self.is_once, &self.base, self.own, self.interrupt, self.bar)?
        })
    }

    /// The same workload on another device.
    pub(super) fn on<'b>(&'b self, own: &'b OwnDevice) -> Result<Bench<'b>, Failure> {
        let (workload, cost_model) = (self.workload.clone(), self.cost_model.clone());
        let new =
            Bench::new(workload, self.is_once, &self.base, Some(own), self.interrupt, self.bar)?;
        Ok(Bench { cost_model, ..new })
    }

    /// Checks options of a stack for the device.
    pub(super) fn check(&self, args: &StackOptions) -> Result<(), Failure> {
        self.replay.clone().plan_as_given(args, self.own.cloned()).map(drop)
    }

    fn plan(&self, setup: &Setup) -> Result<Plan, Failure> {
        let mut replay = self.replay.clone().with_prios(&setup.prios);
        if !setup.claims.is_empty() {
            replay = replay.with_tenants();
        }
        let mut plan = replay.plan_as_given(&setup.args(&self.base), self.own.cloned())?;
        if !setup.claims.is_empty() {
            plan.set_tenants(&self.tenants_text(setup))?;
        }
        Ok(plan)
    }

    /// Returns the text of a file of `--tenants` with what a configuration gives processes; empty
    /// if that is nothing.
    pub(super) fn tenants_text(&self, setup: &Setup) -> String {
        setup.claims.tenants_text(&|at| tenant_name(&self.workload.processes[at]), &self.cost_model)
    }

    /// Measures the device for io.cost; `false` if the user interrupted it.
    pub(super) fn measure_cost(&mut self) -> Result<bool, Failure> {
        let model = crate::calibrate::cost_model(&self.base, self.own, self.interrupt)?;
        self.cost_model = model.unwrap_or_default();
        Ok(!self.cost_model.is_empty())
    }

    /// The stack of a configuration on this device.
    pub(super) fn stack(&self, setup: &Setup) -> Result<StackConfig, Failure> {
        let plan = self.plan(setup)?;
        plan.stack_config(plan.device()?.description())
    }

    /// Replays under one configuration; `None` if the user interrupted it.
    pub(super) fn run(&self, setup: &Setup) -> Result<Option<Trial>, Failure> {
        let (result, ending) = execute(&self.plan(setup)?, &mut NoObserver, self.interrupt)?;
        self.bar.advance();
        match ending {
            Ending::Interrupted(_) => Ok(None),
            Ending::Failed => Err(Failure::named(setup.to_string(), AdviseError::Fails)),
            Ending::Done => {
                let processes = result.jobs.iter().map(Figures::replayed).collect();
                let traced = result.jobs.iter().map(Figures::traced).collect();
                Ok(Some(Trial {
                    setup: setup.clone(),
                    processes,
                    traced,
                    all: Figures::replayed_all(&result),
                }))
            }
        }
    }

    /// Replays one process alone; `None` if the user interrupted it.
    pub(super) fn run_alone(
        &self,
        process: usize,
        setup: &Setup,
    ) -> Result<Option<Figures>, Failure> {
        let mut alone = self.workload.clone();
        alone.processes = vec![alone.processes.swap_remove(process)];
        let trial = self.of_part(alone)?.run(setup)?;
        Ok(trial.map(|trial| trial.processes[0]))
    }

    /// Replays under each configuration, in their order; `None` if the user interrupted it.
    /// Configurations that the device refuses, or that end with errors, are left out.
    pub(super) fn run_all(&self, setups: &[Setup]) -> Option<Vec<Trial>> {
        let all: Vec<usize> = (0..setups.len()).collect();
        let mut done: Vec<Option<Trial>> = vec![None; setups.len()];
        let work = |at: usize| Ok(self.run(&setups[at]).ok().flatten());
        let took = |at: usize, trial| {
            done[at] = Some(trial);
            Ok(())
        };
        on_all_cores(&all, None, self.interrupt, work, took).ok()?;
        (!self.interrupt.is_set()).then(|| done.into_iter().flatten().collect())
    }
}
