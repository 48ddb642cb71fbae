//! Reads a trace and analyses its device.

use std::io;

use super::device::{DeviceEvents, candidates, described, list, named};
use super::{Analysis, Choice, ChooseError, Inspection, RequestSink};
use crate::event::{DeviceNumber, TraceEvent};
use crate::open::OpenError;
use crate::reader::Reader;
use crate::report::UnusableError;
use crate::select::{SelectError, Selection};

/// Number of events that are read before a device is chosen: about 3 MB, which stay in a cache of
/// the processor. A wrong choice costs a second pass.
const LOOK_AT: usize = 1 << 14;

/// Why a trace could not be inspected.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The trace could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The trace could not be read to its end.
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    /// The trace was read and is of no use.
    #[error(transparent)]
    Unusable(#[from] UnusableError),
    /// No device was chosen, and none has nearly all events.
    #[error(transparent)]
    Choose(#[from] ChooseError),
    /// What is selected of the device is not there.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// The chosen device has no events.
    #[error("it has no event of device {chosen}; there are {}", list(.devices))]
    NoSuchDevice {
        /// The chosen device.
        chosen: DeviceNumber,
        /// Devices that have events.
        devices: Vec<DeviceEvents>,
    },
    /// No device has the name.
    #[error("it names no device {name}; there are {}", list(.devices))]
    NoSuchName {
        /// The name.
        name: String,
        /// Devices that have events.
        devices: Vec<DeviceEvents>,
    },
}

/// Returns the device that a trace names so: `loop2` or `/dev/loop2`, the name of a volume, or that
/// of the files of blktrace's CPUs. Reads the trace until the name is found.
///
/// # Errors
/// Returns an error for a trace that cannot be read, and for a name that no device has.
pub fn device_named(mut reader: Reader, name: &str) -> Result<DeviceNumber, InspectError> {
    loop {
        if let Some(device) = named(&reader, name) {
            return Ok(device);
        }
        if reader.next_batch()?.is_none() {
            break;
        }
    }
    let found = described(reader.report().devices.clone(), &reader);
    if reader.report().is_of_files_named(name)
        && let Ok(choice) = Choice::from_reader(&reader)
    {
        return Ok(choice.device);
    }
    if found.is_empty() {
        return Err(ChooseError::no_device(reader.report()).into());
    }
    Err(InspectError::NoSuchName { name: name.to_owned(), devices: found })
}

/// Analyses a device of a trace; if `device` is `None`, the device that has nearly all events.
///
/// `open` opens the trace. It is called a second time if the trace turns out to be about another
/// device than its start. `sink` receives the requests. `progress` receives the number of events
/// read so far.
///
/// # Errors
/// Returns an error for a trace that cannot be opened or read or is of no use, for a device without
/// events, and for several devices of which none was chosen.
pub fn inspect(
    open: &mut dyn FnMut() -> Result<Reader, OpenError>,
    device: Option<DeviceNumber>,
    sink: Option<&mut dyn RequestSink>,
    progress: &mut dyn FnMut(u64),
) -> Result<Inspection, InspectError> {
    inspect_part(open, device, &Selection::default(), sink, progress)
}

/// Analyses what is selected of a device like [`inspect`]. What the device does is told by all its
/// I/O, so depths, utilisation and findings are of all processes, in the window of the selection.
///
/// # Errors
/// Returns the errors of [`inspect`], and an error if nothing is selected.
pub fn inspect_part(
    open: &mut dyn FnMut() -> Result<Reader, OpenError>,
    device: Option<DeviceNumber>,
    selection: &Selection,
    sink: Option<&mut dyn RequestSink>,
    progress: &mut dyn FnMut(u64),
) -> Result<Inspection, InspectError> {
    let what = What { selection, keeps_bios: false };
    let (analysis, reader) = analyse_part(open, device, what, sink, progress)?;
    analysis.check_selection(&reader)?;
    Ok(analysis.finish(&reader))
}

/// What of a device is analysed, and whether every bio is kept.
#[derive(Clone, Copy)]
struct What<'a> {
    selection: &'a Selection,
    keeps_bios: bool,
}

/// Analyses a device like [`inspect`], and returns the analysis at the end of the trace, for
/// callers that need more than an [`Inspection`]. If `keeps_bios` is true, every bio is kept.
pub(crate) fn analyse(
    open: &mut dyn FnMut() -> Result<Reader, OpenError>,
    device: Option<DeviceNumber>,
    keeps_bios: bool,
    sink: Option<&mut dyn RequestSink>,
    progress: &mut dyn FnMut(u64),
) -> Result<(Analysis, Reader), InspectError> {
    let what = What { selection: &Selection::default(), keeps_bios };
    analyse_part(open, device, what, sink, progress)
}

fn analyse_part(
    open: &mut dyn FnMut() -> Result<Reader, OpenError>,
    device: Option<DeviceNumber>,
    what: What<'_>,
    mut sink: Option<&mut dyn RequestSink>,
    progress: &mut dyn FnMut(u64),
) -> Result<(Analysis, Reader), InspectError> {
    let (analysis, reader) = pass(open()?, device, what, &mut sink, progress)?;
    if let Some(chosen) = device {
        if analysis.is_without_events() {
            let devices = described(reader.report().devices.clone(), &reader);
            if devices.is_empty() {
                return Err(ChooseError::no_device(reader.report()).into());
            }
            return Err(InspectError::NoSuchDevice { chosen, devices });
        }
        return Ok((analysis, reader));
    }
    let choice = Choice::from_reader(&reader)?;
    if choice.device == analysis.device {
        return Ok((analysis, reader));
    }
    if let Some(sink) = &mut sink {
        sink.restart();
    }
    drop((analysis, reader));
    pass(open()?, Some(choice.device), what, &mut sink, progress)
}

/// Reads a trace once, for a device or for the one with most events at its start.
fn pass(
    mut reader: Reader,
    device: Option<DeviceNumber>,
    what: What<'_>,
    sink: &mut Option<&mut dyn RequestSink>,
    progress: &mut dyn FnMut(u64),
) -> Result<(Analysis, Reader), InspectError> {
    let mut first: Vec<TraceEvent> = Vec::new();
    let device = match device {
        Some(device) => {
            // Volumes have no partitions, and those of others may be at any time.
            if reader.format().has_volumes() {
                reader.set_device(Some(device));
            }
            device
        }
        None => {
            while first.len() < LOOK_AT {
                let Some(batch) = reader.next_batch()? else { break };
                first.extend_from_slice(batch);
            }
            let devices = candidates(reader.report());
            let most =
                devices.iter().max_by_key(|&&(device, count)| (count, std::cmp::Reverse(device)));
            most.map(|&(device, _)| device)
                .ok_or_else(|| ChooseError::no_device(reader.report()))?
        }
    };
    let mut analysis = Analysis::of_part(device, what.selection);
    if sink.is_some() {
        analysis.keep_requests();
    }
    if what.keeps_bios {
        analysis.keep_bios();
    }
    analysis.learn(reader.names());
    analysis.add(&first);
    let mut events = first.len() as u64;
    drop(first);
    loop {
        if let Some(sink) = sink {
            analysis.hand_out(&reader, &mut **sink);
        }
        let Some((batch, names)) = reader.next_batch_and_names()? else { break };
        analysis.learn(names);
        analysis.add(batch);
        events += batch.len() as u64;
        progress(events);
    }
    reader.report().check()?;
    analysis.end();
    if let Some(sink) = sink {
        analysis.hand_out(&reader, &mut **sink);
    }
    Ok((analysis, reader))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::data;

    fn name(text: &str, name: &str) -> Result<DeviceNumber, String> {
        let reader = crate::from_bytes(text.as_bytes().to_vec()).expect("a trace");
        device_named(reader, name).map_err(|error| error.to_string())
    }

    #[test]
    fn a_device_is_found_by_its_name() {
        let event = "dd-1 [000] ..... 1.000100: block_rq_issue: 7,2 R 4096 () 2048 + 8 [dd]\n";
        let recorded = format!("# elevon capture 1\n# device: 7:2\n# name: loop2\n{event}");
        let loop2 = DeviceNumber::new(7, 2);
        assert_eq!(
            (name(&recorded, "loop2"), name(&recorded, "/dev/loop2")),
            (Ok(loop2), Ok(loop2))
        );
        let unknown = "it names no device sda; there are 7:2 loop2 (1 events)";
        assert_eq!(name(&recorded, "sda"), Err(unknown.to_owned()));
        assert_eq!(
            name(event, "loop2"),
            Err("it names no device loop2; there are 7:2 (1 events)".to_owned())
        );
        let volumes = "128166375000000000,srv0,1,Read,1048576,8192,52000\n128166375000000001,srv0,0,Write,512,4096,1\n";
        assert_eq!(name(volumes, "srv0.0"), Ok(DeviceNumber::new(0, 1)));
        let none = name("# tracer: nop\n", "sda").expect_err("no event");
        assert!(none.contains("no event of a block device"), "{none}");
    }

    #[test]
    fn files_of_cpus_have_the_name_of_their_device() {
        let path = data("kernel-truth/blktrace-6.1/dd-none.blktrace.0");
        let found = |name: &str| device_named(crate::open(&path).expect("a trace"), name);
        assert_eq!(found("dd-none").expect("the device"), DeviceNumber::new(253, 0));
        assert!(matches!(found("none"), Err(InspectError::NoSuchName { .. })));
    }

    /// Rows of biosnoop name their disks, also one that comes late.
    #[test]
    fn rows_name_their_disks() {
        let mut text = String::from("TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n");
        for n in 0..200_000u32 {
            text += &format!(
                "{}.{:06} a 1 sda R {} 4096 0.05\n",
                1 + n / 10_000,
                n % 10_000 * 100,
                8 * n
            );
        }
        text += "22.000000 a 1 nvme0n1 R 8 4096 0.05\n";
        assert_eq!(name(&text, "nvme0n1"), Ok(DeviceNumber::new(0, 1)));
    }
}
