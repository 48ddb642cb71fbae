//! What `elevon serve --check` recommends to divide a device among its tenants.
//!
//! The rule follows ten set-ups of tenants on four devices (docs/evidence/aileron.md). It knows
//! what a configuration says: the kind of the device, weights, limits and reserves. It does not
//! know the load.

use elevon_formats::cgroup::Setting;
use elevon_plan::plan::{Plan, enables_cost};
use elevon_plan::target::Target;
use elevon_workload::tenants::Tenant;

/// Kinds of devices, by how they serve tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Disk,
    /// A drive of one queue.
    Flash,
    /// A drive of several queues.
    FastFlash,
    /// The storage of a telephone.
    Ufs,
}

impl Kind {
    /// Returns the kind of a device with so many hardware queues, as far as its name tells more.
    pub(super) fn of_device(target: &Target, is_rotational: bool, queues: u16) -> Self {
        let name = match target {
            Target::Simulated(spec) => spec.as_str(),
            Target::Real(path) => path.file_name().and_then(|name| name.to_str()).unwrap_or(""),
            Target::Nbd(_) => "",
        };
        match name {
            _ if is_rotational => Self::Disk,
            name if name.starts_with("ufs") => Self::Ufs,
            name if name.starts_with("nvme") || queues > 1 => Self::FastFlash,
            _ => Self::Flash,
        }
    }
}

/// What a configuration says of the tenants of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claims {
    /// Tenants of one parent have different weights.
    pub(super) weights_differ: bool,
    /// A tenant has a reserve, which `aileron` alone keeps.
    pub(super) has_reserve: bool,
    /// Each tenant has a limit.
    pub(super) are_limited: bool,
}

impl Claims {
    /// Returns the claims of a device's tenants; `None` if fewer than two share it.
    pub(super) fn of_plan(plan: &Plan) -> Option<Self> {
        let tenants = &plan.tenants.tenants;
        let first = |tenant: &Tenant| {
            tenants.iter().find(|other| other.parent == tenant.parent).map(|other| other.weight)
        };
        let any = |is: fn(&Setting) -> bool| move |tenant: &Tenant| tenant.settings.iter().any(is);
        let is_reserve = |setting: &Setting| matches!(setting, Setting::Reserve(_));
        let is_limit = |setting: &Setting| matches!(setting, Setting::Limit(_) | Setting::IoMax(_));
        (tenants.len() > 1).then(|| Self {
            weights_differ: tenants.iter().any(|tenant| first(tenant) != Some(tenant.weight)),
            has_reserve: tenants.iter().any(any(is_reserve)),
            are_limited: tenants.iter().all(any(is_limit)),
        })
    }
}

/// Returns what is recommended, and why.
pub(super) const fn recommended(kind: Kind, claims: Claims) -> (&'static str, &'static str) {
    let Claims { weights_differ, has_reserve, are_limited } = claims;
    match kind {
        _ if has_reserve => ("aileron", "no other keeps reserves"),
        _ if are_limited && !weights_differ => {
            ("none", "every tenant has a limit, which needs no scheduler, and weights are equal")
        }
        Kind::Disk => ("aileron", "turns on a disk keep most of the slices"),
        Kind::Ufs => ("aileron", "it keeps the most there, and costs up to a tenth of the writes"),
        Kind::FastFlash => {
            ("io.cost", "on a drive of several queues it keeps more slices, if it has a model")
        }
        Kind::Flash if weights_differ => {
            ("bfq", "on a drive of one queue it keeps more of different weights")
        }
        Kind::Flash => ("aileron", "on a drive of one queue it keeps most of equal slices"),
    }
}

/// Returns a line about a device that several tenants share: what divides it, and what is
/// recommended.
pub(super) fn line(name: &str, plan: &Plan, is_rotational: bool, queues: u16) -> Option<String> {
    let claims = Claims::of_plan(plan)?;
    let (best, why) = recommended(Kind::of_device(&plan.target, is_rotational, queues), claims);
    let own = if enables_cost(&plan.tenants) { "io.cost" } else { plan.scheduler.name };
    let model = match best {
        "io.cost" if best != own => {
            "; elevon calibrate prints the lines of io.cost, and scheduler is none"
        }
        _ => "",
    };
    Some(if best == own {
        format!("device {name}: {own} divides it, as is recommended: {why}")
    } else {
        format!("device {name}: {own} divides it; recommended is {best}: {why}{model}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_for_each_kind_of_device_and_claim() {
        let equal = Claims { weights_differ: false, has_reserve: false, are_limited: false };
        let weights = Claims { weights_differ: true, ..equal };
        let names = |claims| {
            [Kind::Disk, Kind::Flash, Kind::FastFlash, Kind::Ufs]
                .map(|kind| recommended(kind, claims).0)
        };
        assert_eq!(names(equal), ["aileron", "aileron", "io.cost", "aileron"]);
        assert_eq!(names(weights), ["aileron", "bfq", "io.cost", "aileron"]);
        assert_eq!(names(Claims { are_limited: true, ..equal }), ["none"; 4]);
        assert_eq!(names(Claims { has_reserve: true, ..weights }), ["aileron"; 4]);
    }

    #[test]
    fn the_name_of_a_drive_tells_its_kind() {
        let kind = |name: &str, queues| {
            Kind::of_device(&Target::Simulated(name.to_owned()), false, queues)
        };
        assert_eq!(kind("nvme-datacenter", 1), Kind::FastFlash);
        assert_eq!(kind("slots:slots=4", 8), Kind::FastFlash);
        assert_eq!(kind("ufs-3.1", 1), Kind::Ufs);
        assert_eq!(kind("sata-ssd-860evo", 1), Kind::Flash);
        let real = Target::Real("/dev/nvme0n1".into());
        assert_eq!(Kind::of_device(&real, false, 1), Kind::FastFlash);
        assert_eq!(Kind::of_device(&real, true, 1), Kind::Disk);
    }
}
