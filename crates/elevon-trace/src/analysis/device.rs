//! Chooses the device of a trace that is analysed.

use std::fmt;

use crate::event::DeviceNumber;
use crate::format::TraceFormat;
use crate::reader::Reader;
use crate::report::{ReadReport, Skipped};

/// A device is chosen if it has at least this percentage of all events. The remaining events may be
/// a single flush or a log file of the machine that recorded the trace.
pub const MOSTLY_PERCENT: u64 = 95;

/// The chosen device of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The device.
    pub device: DeviceNumber,
    /// Number of its events.
    pub events: u64,
    /// Number of events of all devices.
    pub all: u64,
}

/// A device of a trace with the number of its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceEvents {
    /// The device.
    pub device: DeviceNumber,
    /// Number of its events.
    pub events: u64,
    /// The name that the trace gives it, if it gives one.
    pub name: Option<String>,
    /// The devices on which it lies, as far as the trace has remaps of bios.
    pub below: Vec<DeviceNumber>,
}

impl fmt::Display for DeviceEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.device)?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        for (at, below) in self.below.iter().enumerate() {
            write!(f, "{}{below}", if at == 0 { " on " } else { " and " })?;
        }
        write!(f, " ({} events)", self.events)
    }
}

/// Adds to devices what a trace says of them, and puts those with most events first.
pub(super) fn described(
    mut devices: Vec<(DeviceNumber, u64)>,
    reader: &Reader,
) -> Vec<DeviceEvents> {
    devices.sort_by_key(|&(device, events)| (std::cmp::Reverse(events), device));
    let describe = |(device, events)| DeviceEvents {
        device,
        events,
        name: reader
            .names()
            .device(device)
            .or_else(|| recorded_name(reader, device))
            .map(str::to_owned),
        below: reader.report().below(device).collect(),
    };
    devices.into_iter().map(describe).collect()
}

/// The name of a device in what the trace tells of how it was recorded.
fn recorded_name(reader: &Reader, device: DeviceNumber) -> Option<&str> {
    reader
        .report()
        .recorded
        .as_deref()
        .filter(|recorded| recorded.device() == Some(device))?
        .get("name")
}

/// Returns the device that a trace names so, as far as it was read.
pub(super) fn named(reader: &Reader, name: &str) -> Option<DeviceNumber> {
    let recorded = || {
        let recorded = reader.report().recorded.as_deref()?;
        let known = recorded
            .get("name")
            .filter(|known| *known == name.strip_prefix("/dev/").unwrap_or(name));
        known.and(recorded.device())
    };
    reader.names().device_named(name).or_else(recorded)
}

/// Why no device could be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// The trace has no block event; and what was skipped, if anything was.
    #[error("it has no event of a block device{0}")]
    NoDevice(String),
    /// No device has nearly all events.
    #[error("it has events of several devices; choose one with --dev: {}", list(.0))]
    Several(Vec<DeviceEvents>),
}

impl ChooseError {
    /// Returns the error for a trace without block events, which may all have been skipped.
    pub(super) fn no_device(report: &ReadReport) -> Self {
        let most = report.skipped.iter().max_by_key(|skipped| skipped.count);
        Self::NoDevice(most.map_or_else(String::new, |skipped| {
            let count = report.skipped_count();
            let Skipped { first, reason, .. } = skipped;
            format!(
                "; {count} lines or records of it cannot be read, such as {}: expected {reason}",
                first.at
            )
        }))
    }
}

/// Maximum number of devices in a message.
const LISTED: usize = 20;

/// Lists devices for a message.
pub(super) fn list(devices: &[DeviceEvents]) -> String {
    let shown = devices.iter().take(LISTED).map(DeviceEvents::to_string);
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if devices.len() > LISTED {
        text.push_str(&format!(" and {} more", devices.len() - LISTED));
    }
    text
}

/// Returns the devices among which one is chosen, with the number of their events. A trace of
/// tracepoints may show a disk twice: as the block layer sees it, and as the driver of its host
/// controller does, whose devices have no numbers. Those are candidates if there are no others.
pub(super) fn candidates(report: &ReadReport) -> Vec<(DeviceNumber, u64)> {
    let is_numbered = |&(device, _): &(DeviceNumber, u64)| device.major != 0;
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
    pub fn from_reader(reader: &Reader) -> Result<Self, ChooseError> {
        let devices = described(candidates(reader.report()), reader);
        let all: u64 = devices.iter().map(|found| found.events).sum();
        let &DeviceEvents { device, events, .. } =
            devices.first().ok_or_else(|| ChooseError::no_device(reader.report()))?;
        if u128::from(events) * 100 >= u128::from(all) * u128::from(MOSTLY_PERCENT) {
            Ok(Self { device, events, all })
        } else {
            Err(ChooseError::Several(devices))
        }
    }
}
