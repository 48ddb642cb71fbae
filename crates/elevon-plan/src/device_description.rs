//! The properties of a device, the same whether it is simulated or of this machine.

use std::path::Path;

use elevon_core::units::Bytes;
use elevon_host::Host;
use elevon_serve::{Upstream, UpstreamAddress};
use elevon_sim::device::{Description, Device};

use crate::plan::Plan;
use crate::target::Target;

/// Returns the properties of a file or block device that was opened by this path.
pub fn of_host(path: &Path, host: &Host) -> Description {
    Description {
        name: path.display().to_string(),
        size: host.file().size,
        limits: host.file().limits.clone(),
        hw_queues: 1,
        queue_depth: host.queue_depth(),
    }
}

/// Returns the properties of a disk of a server.
pub fn of_upstream(address: &UpstreamAddress, disk: &Upstream) -> Description {
    let size = Bytes::new(disk.remote().size).sectors_floor();
    let (name, limits) = (address.to_string(), disk.limits());
    Description { name, size, limits, hw_queues: 1, queue_depth: disk.queue_depth() }
}

/// Returns the properties of a plan's simulated device. Its name includes the parameters, so that a
/// report identifies it.
pub fn of_simulated(plan: &Plan, device: &impl Device) -> Description {
    let mut description = device.description().clone();
    if let Target::Simulated(spec) = &plan.target {
        description.name =
            plan.own.as_ref().map_or_else(|| spec.clone(), |own| own.file.name.clone());
    }
    description
}

/// Returns device numbers as Linux assigns them: blkext for NVMe, 8:0 for the first disk of the
/// SCSI layer.
pub fn number_of(device: &str) -> (u32, u32) {
    if device.rsplit('/').next().is_some_and(|name| name.starts_with("nvme")) {
        (259, 0)
    } else {
        (8, 0)
    }
}
