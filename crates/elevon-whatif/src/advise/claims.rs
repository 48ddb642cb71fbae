//! What a configuration gives processes by the control files of their cgroups: weights, limits and
//! latency targets. Each process is a tenant of its own, as a systemd unit is.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A rate of `io.max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RateKey {
    ReadBytes,
    WriteBytes,
    ReadIos,
    WriteIos,
}

impl RateKey {
    /// The key in `io.max`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ReadBytes => "rbps",
            Self::WriteBytes => "wbps",
            Self::ReadIos => "riops",
            Self::WriteIos => "wiops",
        }
    }

    /// systemd's setting.
    pub(super) const fn of_systemd(self) -> &'static str {
        match self {
            Self::ReadBytes => "IOReadBandwidthMax",
            Self::WriteBytes => "IOWriteBandwidthMax",
            Self::ReadIos => "IOReadIOPSMax",
            Self::WriteIos => "IOWriteIOPSMax",
        }
    }

    /// The control file of the first version of cgroups, which Android has.
    pub(super) const fn of_v1(self) -> &'static str {
        match self {
            Self::ReadBytes => "blkio.throttle.read_bps_device",
            Self::WriteBytes => "blkio.throttle.write_bps_device",
            Self::ReadIos => "blkio.throttle.read_iops_device",
            Self::WriteIos => "blkio.throttle.write_iops_device",
        }
    }
}

/// A limit of `io.max`: a rate and its value, in bytes or I/Os a second.
pub(super) type Limit = (RateKey, u64);

/// What processes are given by their cgroups, by process.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claims {
    /// Weights, 1 to 1000; others have 100. BFQ divides the device by them, or io.cost.
    pub(super) weights: BTreeMap<usize, u32>,
    /// True if io.cost is enabled. Then `weights` are io.weight.
    pub(super) cost: bool,
    /// Limits of `io.max`.
    pub(super) limits: BTreeMap<usize, Limit>,
    /// Targets of `io.latency` in microseconds.
    pub(super) targets: BTreeMap<usize, u64>,
}

/// What io.cost is given when it is enabled, without the device: it divides all of the device's
/// time, as its model describes it, and does not adapt.
pub(super) const COST_QOS: &str = "enable=1 ctrl=user min=100.00 max=100.00";

impl Claims {
    /// Returns true if no process is given anything.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The same for processes that have other numbers; `index` gives the new number of one.
    pub(super) fn mapped(&self, index: &dyn Fn(usize) -> Option<usize>) -> Self {
        fn map<V: Copy>(
            of: &BTreeMap<usize, V>,
            index: &dyn Fn(usize) -> Option<usize>,
        ) -> BTreeMap<usize, V> {
            of.iter().filter_map(|(&at, &value)| Some((index(at)?, value))).collect()
        }
        Self {
            weights: map(&self.weights, index),
            cost: self.cost,
            limits: map(&self.limits, index),
            targets: map(&self.targets, index),
        }
    }

    /// Returns the text of a file of `--tenants`. `tenant` is the name of a process's tenant,
    /// `model` the line of io.cost.model without the device.
    pub(super) fn tenants_text(&self, tenant: &dyn Fn(usize) -> String, model: &str) -> String {
        let mut out = String::new();
        if self.cost {
            let _ = write!(
                out,
                "[device]\n\"io.cost.model\" = \"{model}\"\n\"io.cost.qos\" = \"{COST_QOS}\"\n"
            );
        }
        let processes = self.weights.keys().chain(self.limits.keys()).chain(self.targets.keys());
        let processes: std::collections::BTreeSet<usize> = processes.copied().collect();
        for at in processes {
            let _ = writeln!(out, "[tenant.\"{}\"]", tenant(at));
            if let Some(weight) = self.weights.get(&at) {
                let _ = writeln!(out, "weight = {weight}");
            }
            if let Some((key, rate)) = self.limits.get(&at) {
                let _ = writeln!(out, "\"io.max\" = \"{}={rate}\"", key.name());
            }
            if let Some(target) = self.targets.get(&at) {
                let _ = writeln!(out, "\"io.latency\" = \"target={target}\"");
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_a_file_of_tenants() {
        let claims = Claims {
            weights: [(0, 300)].into(),
            cost: true,
            limits: [(1, (RateKey::WriteIos, 180))].into(),
            targets: [(0, 750)].into(),
        };
        let model = "ctrl=user model=linear rbps=1000000 rseqiops=100 rrandiops=100 wbps=1000000 wseqiops=100 wrandiops=100";
        let text = claims.tenants_text(&|at| format!("p{at}"), model);
        let rules = elevon_core::kernel::Kernel::default().rules();
        let file = elevon_formats::tenants::parse("text", &text, &rules).expect("a good file");
        assert_eq!(file.device.len(), 2);
        assert_eq!(
            file.tenants.iter().map(|table| table.settings.len()).collect::<Vec<_>>(),
            [2, 1],
            "{text}"
        );
        assert!(Claims::default().tenants_text(&|_| String::new(), "").is_empty());
        let swapped = claims.mapped(&|at| (at == 1).then_some(7));
        assert_eq!(
            (swapped.limits.len(), swapped.weights.len(), swapped.limits.get(&7)),
            (1, 0, claims.limits.get(&1))
        );
    }
}
