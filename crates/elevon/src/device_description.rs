//! The properties of a device, the same whether it is simulated or of this machine.

use std::path::Path;

use elevon_core::units::Bytes;
use elevon_host::Host;
use elevon_serve::{Upstream, UpstreamAddress};
use elevon_sim::device::{Description, Device};

use crate::plan::Plan;
use crate::target::Target;

/// Returns the properties of a file or block device that was opened by this path.
pub(crate) fn of_host(path: &Path, host: &Host) -> Description {
    Description {
        name: path.display().to_string(),
        size: host.file().size,
        limits: host.file().limits.clone(),
        hw_queues: 1,
        queue_depth: host.queue_depth(),
    }
}

/// Returns the properties of a disk of a server.
pub(crate) fn of_upstream(address: &UpstreamAddress, disk: &Upstream) -> Description {
    let size = Bytes::new(disk.remote().size).sectors_floor();
    let (name, limits) = (address.to_string(), disk.limits());
    Description { name, size, limits, hw_queues: 1, queue_depth: disk.queue_depth() }
}

/// Returns the properties of a plan's simulated device. Its name includes the parameters, so that a
/// report identifies it.
pub(crate) fn of_simulated(plan: &Plan, device: &impl Device) -> Description {
    let mut description = device.description().clone();
    if let Target::Simulated(spec) = &plan.target {
        description.name = plan.own.as_ref().map_or_else(|| spec.clone(), |own| own.file.name.clone());
    }
    description
}
