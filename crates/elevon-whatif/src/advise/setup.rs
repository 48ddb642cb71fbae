//! A configuration of the queue and of the processes that use it, and what differs from another.

use std::collections::BTreeMap;
use std::fmt;

use elevon_core::ioprio::{IoPrio, PrioClass};
use elevon_core::sched::{self, SchedulerConfig};
use elevon_plan::options::{QueueOptions, StackOptions};
use elevon_plan::setting;

use super::claims::{Claims, Limit};

/// The schedulers that a Linux kernel has, in the order in which a guess prefers them: the default
/// of devices with one hardware queue first.
pub(super) const IN_KERNEL: [&str; 4] = ["mq-deadline", "none", "bfq", "kyber"];

/// A configuration. Two with the same values are equal, in whatever order those were given.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Setup {
    pub(super) scheduler: &'static str,
    /// Tunables that are not at their default.
    pub(super) tunables: BTreeMap<&'static str, i64>,
    /// Queue settings that were given, such as `nr_requests`.
    pub(super) settings: BTreeMap<String, String>,
    /// Priorities of processes in place of those in the trace.
    pub(super) prios: BTreeMap<usize, IoPrio>,
    /// What processes are given by their cgroups.
    pub(super) claims: Claims,
}

/// One difference between two configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Scheduler(&'static str),
    Tunable(&'static str, i64),
    Setting(String, String),
    Prio(usize, IoPrio),
    /// io.cost divides the device by weights.
    Cost,
    Weight(usize, u32),
    Limit(usize, Limit),
    /// A target of `io.latency` in microseconds.
    Target(usize, u64),
}

/// Settings of the queue that a change of the scheduler sets to its default.
const RESET: &str = "nr_requests";

impl Setup {
    /// The configuration of these options.
    pub(super) fn of_args(args: &StackOptions) -> Self {
        let config = SchedulerConfig::parse(args.scheduler()).unwrap_or_default();
        let pairs = args.queue.set.iter().filter_map(|text| setting::pair(text).ok());
        let mut setup = Self::of_scheduler(config.name);
        for (name, value) in config.tunables {
            setup.set_tunable(name, value);
        }
        Self { settings: pairs.collect(), ..setup }
    }

    /// A scheduler with its defaults.
    pub(super) fn of_scheduler(name: &'static str) -> Self {
        Self { scheduler: name, ..Self::default() }
    }

    /// Returns this setup under another scheduler, whose tunables are at their defaults.
    pub(super) fn with_scheduler(&self, name: &'static str) -> Self {
        let mut new = Self { scheduler: name, tunables: BTreeMap::new(), ..self.clone() };
        if name != self.scheduler {
            new.settings.remove(RESET);
        }
        // BFQ has weights of its own, which io.cost would divide by a second time.
        new.claims.cost &= name != "bfq";
        if name != "bfq" && !new.claims.cost {
            new.claims.weights.clear();
        }
        new
    }

    fn set_tunable(&mut self, name: &'static str, value: i64) {
        if default_of(self.scheduler, name) == Some(value) {
            self.tunables.remove(name);
        } else {
            self.tunables.insert(name, value);
        }
    }

    /// Returns this setup with one difference.
    pub(super) fn with(&self, step: &Step) -> Self {
        let mut new = self.clone();
        match step {
            Step::Scheduler(name) => return self.with_scheduler(name),
            Step::Tunable(name, value) => new.set_tunable(name, *value),
            Step::Setting(key, value) => {
                new.settings.insert(key.clone(), value.clone());
            }
            Step::Prio(process, prio) => {
                new.prios.insert(*process, *prio);
            }
            Step::Cost => new.claims.cost = true,
            Step::Weight(process, weight) => {
                new.claims.weights.insert(*process, *weight);
            }
            Step::Limit(process, limit) => {
                new.claims.limits.insert(*process, *limit);
            }
            Step::Target(process, target) => {
                new.claims.targets.insert(*process, *target);
            }
        }
        new
    }

    /// Returns this setup without a difference to `from`.
    pub(super) fn without(&self, step: &Step, from: &Self) -> Self {
        let mut new = self.clone();
        match step {
            Step::Scheduler(_) => {
                let settings = self.settings.clone();
                return Self {
                    tunables: from.tunables.clone(),
                    settings,
                    ..self.with_scheduler(from.scheduler)
                };
            }
            Step::Tunable(name, _) => match from.tunables.get(name) {
                Some(&value) if from.scheduler == self.scheduler => new.set_tunable(name, value),
                _ => {
                    new.tunables.remove(name);
                }
            },
            Step::Setting(key, _) => match from.settings.get(key) {
                Some(value) => {
                    new.settings.insert(key.clone(), value.clone());
                }
                None => {
                    new.settings.remove(key);
                }
            },
            Step::Prio(process, _) => match from.prios.get(process) {
                Some(&prio) => {
                    new.prios.insert(*process, prio);
                }
                None => {
                    new.prios.remove(process);
                }
            },
            Step::Cost => {
                new.claims.cost = false;
                new.claims.weights.clear();
            }
            Step::Weight(process, _) => {
                new.claims.weights.remove(process);
            }
            Step::Limit(process, _) => {
                new.claims.limits.remove(process);
            }
            Step::Target(process, _) => {
                new.claims.targets.remove(process);
            }
        }
        new
    }

    /// Returns this setup for processes with other numbers; `index` gives the new number of one.
    pub(super) fn mapped(&self, index: &dyn Fn(usize) -> Option<usize>) -> Self {
        let prios = self.prios.iter().filter_map(|(&at, &prio)| Some((index(at)?, prio))).collect();
        Self { prios, claims: self.claims.mapped(index), ..self.clone() }
    }

    /// What has to be done to get here from another configuration.
    pub(super) fn steps(&self, from: &Self) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.scheduler != from.scheduler {
            steps.push(Step::Scheduler(self.scheduler));
        }
        let before =
            if self.scheduler == from.scheduler { from.tunables.clone() } else { BTreeMap::new() };
        steps.extend(
            self.tunables
                .iter()
                .filter(|(n, v)| before.get(*n) != Some(*v))
                .map(|(n, v)| Step::Tunable(n, *v)),
        );
        let gone = before.keys().filter(|name| !self.tunables.contains_key(*name));
        steps.extend(
            gone.filter_map(|name| Some(Step::Tunable(name, default_of(self.scheduler, name)?))),
        );
        let changed =
            self.settings.iter().filter(|(key, value)| from.settings.get(*key) != Some(*value));
        steps.extend(changed.map(|(key, value)| Step::Setting(key.clone(), value.clone())));
        let ranked =
            self.prios.iter().filter(|(process, prio)| from.prios.get(*process) != Some(*prio));
        steps.extend(ranked.map(|(process, prio)| Step::Prio(*process, *prio)));
        let Claims { weights, cost, limits, targets } = &self.claims;
        steps.extend(cost.then_some(Step::Cost));
        steps.extend(weights.iter().map(|(process, weight)| Step::Weight(*process, *weight)));
        steps.extend(limits.iter().map(|(process, limit)| Step::Limit(*process, *limit)));
        steps.extend(targets.iter().map(|(process, target)| Step::Target(*process, *target)));
        steps
    }

    /// The text for `--scheduler`.
    pub(super) fn scheduler_text(&self) -> String {
        let tunables: Vec<String> = self
            .tunables
            .iter()
            .map(|(name, value)| format!("{name}={}", shown(self.scheduler, name, *value)))
            .collect();
        if tunables.is_empty() {
            self.scheduler.to_owned()
        } else {
            format!("{}:{}", self.scheduler, tunables.join(","))
        }
    }

    /// These options with those of this configuration.
    pub(super) fn args(&self, base: &StackOptions) -> StackOptions {
        let set = self.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let queue =
            QueueOptions { scheduler: Some(self.scheduler_text()), set, ..base.queue.clone() };
        StackOptions { queue, ..base.clone() }
    }

    /// Whether a Linux kernel can be configured so.
    pub(super) fn is_in_kernel(&self) -> bool {
        IN_KERNEL.contains(&self.scheduler)
            && self.settings.get("fill").is_none_or(|fill| fill == "full")
    }
}

/// A tunable's value as sysfs takes it.
pub(super) fn shown(scheduler: &str, name: &str, value: i64) -> String {
    let info = sched::scheduler(scheduler);
    let tunable = info.and_then(|info| info.tunables.iter().find(|tunable| tunable.name == name));
    tunable.map_or_else(|| value.to_string(), |tunable| tunable.show(value))
}

/// The default of a tunable, if it is a number.
fn default_of(scheduler: &str, name: &str) -> Option<i64> {
    let info = sched::scheduler(scheduler)?;
    let tunable = info.tunables.iter().find(|tunable| tunable.name == name)?;
    tunable.parse(tunable.default)
}

impl fmt::Display for Setup {
    /// Scheduler, tunables and settings in a few words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scheduler_text())?;
        self.settings.iter().try_for_each(|(key, value)| write!(f, ", {key}={value}"))
    }
}

/// A priority as `ionice` and people name it.
pub(super) fn prio_words(prio: IoPrio) -> String {
    match prio.class() {
        PrioClass::None => "no priority".to_owned(),
        PrioClass::Rt => format!("real time {}", prio.level()),
        PrioClass::Be => format!("best effort {}", prio.level()),
        PrioClass::Idle => "idle".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::claims::RateKey;
    use super::*;

    #[test]
    fn steps_lead_from_one_setup_to_the_other() {
        let from = StackOptions::of_text(
            "--scheduler mq-deadline:fifo_batch=1 --set nr_requests=64 --set max_sectors_kb=512",
        );
        let from = Setup::of_args(&from.expect("good options"));
        assert_eq!(
            from.to_string(),
            "mq-deadline:fifo_batch=1, max_sectors_kb=512, nr_requests=64"
        );
        let steps = [
            Step::Scheduler("bfq"),
            Step::Tunable("slice_idle", 0),
            Step::Setting("max_sectors_kb".into(), "128".into()),
            Step::Prio(3, IoPrio::new(PrioClass::Idle, 0)),
            Step::Weight(1, 300),
            Step::Limit(2, (RateKey::WriteIos, 700)),
            Step::Target(1, 5_000),
        ];
        let to = steps.iter().fold(from.clone(), |setup, step| setup.with(step));
        assert_eq!(to.steps(&from), steps);
        assert_eq!(
            to.to_string(),
            "bfq:slice_idle=0, max_sectors_kb=128",
            "another scheduler has its own nr_requests"
        );
        for step in &steps[1..] {
            assert!(!to.without(step, &from).steps(&from).contains(step), "{step:?}");
        }
        let same_scheduler = to.without(&steps[0], &from);
        assert_eq!(
            (same_scheduler.scheduler_text(), &same_scheduler.settings),
            (from.scheduler_text(), &to.settings)
        );
        // A priority that was there before is no step, and comes back.
        let idle = from.with(&Step::Prio(3, IoPrio::new(PrioClass::Idle, 0)));
        let best = idle.with(&Step::Prio(3, IoPrio::new(PrioClass::Be, 0)));
        assert_eq!((idle.steps(&idle), best.steps(&idle).len()), (vec![], 1));
        assert_eq!(best.without(&best.steps(&idle)[0], &idle), idle);
        // io.cost has its own weights, which BFQ does not see.
        let cost = from.with(&Step::Cost).with(&Step::Weight(1, 300));
        assert_eq!(cost.steps(&from), [Step::Cost, Step::Weight(1, 300)]);
        assert_eq!(cost.with_scheduler("kyber").claims, cost.claims);
        assert!(
            !cost.with_scheduler("bfq").claims.cost && cost.without(&Step::Cost, &from) == from
        );
        // A tunable at its default is none, and going back to it is a step.
        let back = from.with(&Step::Tunable("fifo_batch", 16));
        assert_eq!(
            (back.tunables.len(), back.steps(&from)),
            (0, vec![Step::Tunable("fifo_batch", 16)])
        );
        assert!(
            to.is_in_kernel()
                && !to.with(&Step::Setting("fill".into(), "trim".into())).is_in_kernel()
        );
    }
}
