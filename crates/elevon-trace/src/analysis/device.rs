//! Chooses the device of a trace that is analysed.

use crate::detect::TraceFormat;
use crate::event::Device;
use crate::report::ReadReport;

/// A device is chosen if it has at least this percentage of all events. The remaining events may be
/// a single flush or a log file of the machine that recorded the trace.
pub const MOSTLY_PERCENT: u64 = 95;

/// The chosen device of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The device.
    pub device: Device,
    /// Number of its events.
    pub events: u64,
    /// Number of events of all devices.
    pub all: u64,
}

/// Why no device could be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// The trace has no block event.
    #[error("it has no event of a block device")]
    NoDevice,
    /// No device has nearly all events.
    #[error("it has events of several devices; choose one with --dev: {}", list(.0))]
    Several(Vec<(Device, u64)>),
}

/// Maximum number of devices in a message.
const LISTED: usize = 20;

fn list(devices: &[(Device, u64)]) -> String {
    let shown = devices.iter().take(LISTED).map(|(device, events)| format!("{device} ({events} events)"));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if devices.len() > LISTED {
        text.push_str(&format!(" and {} more", devices.len() - LISTED));
    }
    text
}

/// Returns the devices among which one is chosen, with the number of their events. A trace of
/// tracepoints may show a disk twice: as the block layer sees it, and as the driver of its host
/// controller does, whose devices have no numbers. Those are candidates if there are no others.
pub(super) fn candidates(report: &ReadReport) -> Vec<(Device, u64)> {
    let is_numbered = |&(device, _): &(Device, u64)| device.major != 0;
    let has_drivers_view = matches!(report.format, TraceFormat::Ftrace | TraceFormat::Perfetto);
    if has_drivers_view && report.devices.iter().any(is_numbered) {
        return report.devices.iter().copied().filter(is_numbered).collect();
    }
    report.devices.clone()
}

impl Choice {
    /// Chooses the device that has nearly all events.
    ///
    /// # Errors
    /// Returns an error if there is no such device.
    pub fn of(report: &ReadReport) -> Result<Self, ChooseError> {
        let mut devices = candidates(report);
        devices.sort_by_key(|&(device, events)| (std::cmp::Reverse(events), device));
        let all: u64 = devices.iter().map(|&(_, events)| events).sum();
        let &(device, events) = devices.first().ok_or(ChooseError::NoDevice)?;
        if u128::from(events) * 100 >= u128::from(all) * u128::from(MOSTLY_PERCENT) {
            Ok(Self { device, events, all })
        } else {
            Err(ChooseError::Several(devices))
        }
    }
}
