//! The schedulers that are compared, each with its tunables.

use elevon_core::sched::SCHEDULERS;

/// A scheduler as it is set up for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// What tables call it.
    pub name: &'static str,
    /// The scheduler with its tunables, as `--scheduler` takes it.
    pub scheduler: &'static str,
    /// The line of `io.cost.qos`, if io.cost shares the device by a calibrated model.
    pub cost_qos: Option<&'static str>,
}

const fn scheduler(name: &'static str, scheduler: &'static str) -> Setup {
    Setup { name, scheduler, cost_qos: None }
}

impl Setup {
    /// No scheduler: what everything is measured against.
    pub const NONE: Self = scheduler("none", "none");
    /// Elevon's own, with no tunable set.
    pub const AILERON: Self = scheduler("aileron", "aileron");
    /// BFQ as it comes, with `low_latency`.
    pub const BFQ: Self = scheduler("bfq", "bfq");

    /// What `aileron` is compared with. `low_latency` of BFQ is off where shares matter: it raises
    /// weights of processes that look interactive, whatever they were given.
    pub const OTHERS: [Self; 9] = [
        Self::NONE,
        scheduler("mq-deadline", "mq-deadline"),
        scheduler("kyber", "kyber"),
        scheduler("bfq off", "bfq:low_latency=0,inject=off"),
        scheduler("bfq seed", "bfq:low_latency=0,inject=seed"),
        scheduler("bfq limit", "bfq:low_latency=0,inject=limit"),
        scheduler("bfq fair", "bfq:low_latency=0,inject=fair"),
        // The model is exact where the device does one thing; the clock is not corrected.
        Self {
            name: "io.cost",
            scheduler: "none",
            cost_qos: Some("enable=1 ctrl=user min=100.00 max=100.00"),
        },
        // What a kernel does if nobody sets a quality of service.
        Self { name: "io.cost auto", scheduler: "none", cost_qos: Some("enable=1") },
    ];

    /// Returns true if weights are those of cgroups, by io.cost.
    pub const fn is_io_cost(&self) -> bool {
        self.cost_qos.is_some()
    }

    /// Returns true if this build has the scheduler.
    pub fn is_there(&self) -> bool {
        let name = self.scheduler.split(':').next().unwrap_or_default();
        SCHEDULERS.iter().any(|info| info.name == name)
    }

    /// Returns [`Self::OTHERS`] and then, if this build has it, `aileron`.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::OTHERS.into_iter().chain(Some(Self::AILERON).filter(Self::is_there))
    }
}
