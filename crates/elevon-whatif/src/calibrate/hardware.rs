//! What a trace with the settings of its device says of the hardware, for the file of a fitted
//! device.

use elevon_core::kernel::Kernel;
use elevon_sim::device::Device as _;
use elevon_sim::profiles;
use elevon_trace::Recorded;

/// Limits that belong to the hardware, and not to what an administrator sets.
const LIMITS: [&str; 8] = [
    "logical_block_size",
    "physical_block_size",
    "max_hw_sectors_kb",
    "max_segments",
    "max_segment_size",
    "virt_boundary_mask",
    "chunk_sectors",
    "rotational",
];

/// Hardware queues with the commands that each holds, and the size in bytes; `None` for what was
/// not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hardware {
    pub(super) queues: Option<u64>,
    pub(super) tags: Option<u64>,
    pub(super) bytes: Option<u64>,
}

impl Hardware {
    pub(super) fn from_recorded(recorded: Option<&Recorded>) -> Self {
        let Some(recorded) = recorded else { return Self::default() };
        let queues = recorded.hardware_queues();
        Self {
            queues: Some(queues).filter(|queues| (1..=1024).contains(queues)),
            tags: recorded
                .driver_tags()
                .map(|tags| tags.div_ceil(queues.max(1)))
                .filter(|tags| (1..=65536).contains(tags)),
            bytes: recorded
                .number("sectors")
                .and_then(|sectors| sectors.checked_mul(512))
                .filter(|&bytes| bytes > 0),
        }
    }
}

/// Returns the recorded limits of the hardware that a simulated device can have, as keys of
/// `[limits]` with values.
pub(super) fn limits(recorded: &Recorded) -> Vec<(&'static str, u64)> {
    let rules = Kernel::V6_18.rules();
    let Ok(device) = profiles::open("slots", 0) else { return Vec::new() };
    let mut limits = device.description().limits.clone();
    if limits.validate(&rules).is_err() {
        return Vec::new();
    }
    let mut kept = Vec::new();
    for key in LIMITS {
        if let Some(value) = recorded.number(&format!("queue/{key}"))
            && limits.set_sysfs(key, value, &rules).is_ok()
        {
            kept.push((key, value));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_and_can_be_simulated_is_kept() {
        let mut recorded = Recorded::default();
        for (key, value) in [
            ("sectors", "2048"),
            ("queue/logical_block_size", "4096"),
            ("queue/physical_block_size", "x"),
            ("queue/max_hw_sectors_kb", "1280"),
            ("queue/max_sectors_kb", "512"),
            ("queue/max_segments", "0"),
            ("mq/0/nr_tags", "32"),
            ("mq/1/nr_tags", "31"),
        ] {
            recorded.note(key, value);
        }
        assert_eq!(limits(&recorded), [("logical_block_size", 4096), ("max_hw_sectors_kb", 1280)]);
        let hardware = Hardware { queues: Some(2), tags: Some(32), bytes: Some(1 << 20) };
        assert_eq!(Hardware::from_recorded(Some(&recorded)), hardware);
        assert_eq!(Hardware::from_recorded(Some(&Recorded::default())), Hardware::default());
        assert_eq!(Hardware::from_recorded(None), Hardware::default());
    }
}
