//! Reads the requests of a device from a trace, each with the times of its issue and completion.
//!
//! `elevon_sim::fit` fits a device model to them. The requests are kept in memory, 40 bytes each.

use crate::analysis::{Group, InspectError, ProcessStats, RequestRecord, RequestSink, analyse};
use crate::event::DeviceNumber;
use crate::open::OpenError;
use crate::reader::Reader;
use crate::recorded::Recorded;

/// Minimum number of reads and writes for a fit.
pub const FEWEST: usize = 20;

/// A read, write or flush that succeeded. Times are nanoseconds of the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedRequest {
    /// When it was issued to the driver.
    pub issued: u64,
    /// When it completed, not before.
    pub completed: u64,
    /// First sector.
    pub sector: u64,
    /// Length; 0 only for a flush.
    pub bytes: u64,
    /// True for a write, false for a read or a flush.
    pub is_write: bool,
}

/// The requests of one device.
#[derive(Clone, Debug)]
pub struct ServedRequests {
    /// The device; the whole disk if a partition was chosen.
    pub device: DeviceNumber,
    /// The partition that was chosen.
    pub partition: Option<DeviceNumber>,
    /// Requests in order of issue.
    pub requests: Vec<ServedRequest>,
    /// Sector after the last one used.
    pub end_sector: u64,
    /// Largest request in bytes if bios were split, which shows a queue limit.
    pub split_at: Option<u64>,
    /// How the trace was recorded, if it tells.
    pub recorded: Option<Recorded>,
}

/// Why no model can be fitted to a trace.
#[derive(Debug, thiserror::Error)]
pub enum ServedError {
    /// The trace cannot be read, or no device can be chosen.
    #[error(transparent)]
    Trace(#[from] InspectError),
    /// There are too few requests for a fit.
    #[error(
        "device {device}: {found} reads and writes with issue and completion are too few to fit a \
         device to; it takes {FEWEST}"
    )]
    TooFew {
        /// The device.
        device: DeviceNumber,
        /// Number of requests in the trace.
        found: usize,
    },
}

/// Collects requests as they complete.
#[derive(Default)]
struct Requests {
    served: Vec<ServedRequest>,
    moved_data: usize,
    end_sector: u64,
    largest: u64,
}

impl RequestSink for Requests {
    fn requests(&mut self, requests: &[RequestRecord], _processes: &[ProcessStats]) {
        for request in requests {
            let (Some(issued), Some(completed)) = (request.issued, request.completed) else { continue };
            if completed < issued || request.error.is_some_and(|error| error != 0) {
                continue;
            }
            let is_write = request.group == Group::Write;
            match request.group {
                Group::Read | Group::Write if request.bytes > 0 => {
                    self.end_sector = self.end_sector.max(request.sector.saturating_add(request.bytes.div_ceil(512)));
                    self.largest = self.largest.max(request.bytes);
                    self.moved_data += 1;
                    self.served.push(ServedRequest {
                        issued,
                        completed,
                        sector: request.sector,
                        bytes: request.bytes,
                        is_write,
                    });
                }
                Group::Flush => self.served.push(ServedRequest { issued, completed, sector: 0, bytes: 0, is_write }),
                _ => {}
            }
        }
    }

    fn restart(&mut self) {
        *self = Self::default();
    }
}

/// Reads the requests of a device of a trace; if `device` is `None`, of the device that has nearly
/// all events. If it is a partition, the trace is read again for its disk, because a request waits
/// in the device for those of the other partitions as well.
///
/// `open` and `progress` are as in [`crate::analysis::inspect`].
///
/// # Errors
/// Returns an error for a trace that cannot be read, for several devices of which none was chosen,
/// and for too few requests.
pub fn read(
    open: &mut dyn FnMut() -> Result<Reader, OpenError>,
    device: Option<DeviceNumber>,
    progress: &mut dyn FnMut(u64),
) -> Result<ServedRequests, ServedError> {
    let mut requests = Requests::default();
    let (mut analysis, mut reader) = analyse(open, device, false, Some(&mut requests), progress)?;
    let disk = analysis.disk();
    if disk.is_some() {
        requests.restart();
        (analysis, reader) = analyse(open, disk, false, Some(&mut requests), progress)?;
    }
    let found = analysis.finish(&reader);
    let Requests { mut served, moved_data, end_sector, largest } = requests;
    if moved_data < FEWEST {
        return Err(ServedError::TooFew { device: found.device, found: moved_data });
    }
    served.sort_by_key(|one| (one.issued, one.completed));
    let split_at = (found.counts.splits > 0).then_some(largest);
    Ok(ServedRequests {
        device: found.device,
        partition: disk.and(device),
        requests: served,
        end_sector,
        split_at,
        recorded: found.recorded,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::data;

    #[test]
    fn requests_of_a_real_trace() {
        let path = data("kernel-truth/whatif/mq-deadline.ftrace.zst");
        let found = read(&mut || crate::open(&path), None, &mut |_| {}).expect("requests");
        let count = |bytes: u64| found.requests.iter().filter(|one| one.bytes == bytes).count();
        assert_eq!([0, 8192, 32768, 65536, 524_288].map(count), [290, 3233, 10_819, 1162, 1510]);
        assert_eq!((found.split_at, found.device), (Some(524_288), DeviceNumber::new(7, 1)));
        assert!(found.requests.is_sorted_by_key(|one| one.issued));
    }

    /// A request of one partition waits for one of another, so the whole disk is read.
    #[test]
    fn a_partition_gives_the_requests_of_its_disk() {
        let mut text = String::new();
        for n in 0..FEWEST as u64 {
            for (at, start, partition) in [(0, 2048, 1), (200, 900_000, 2)] {
                let (us, from) = (n * 1000 + at, n * 16);
                let sector = start + from;
                text.push_str(&format!(
                    "a-11 [000] ..... 1.{us:06}: block_bio_remap: 8,0 R {sector} + 16 <- (8,{partition}) {from}\n\
                     a-11 [000] ..... 1.{us:06}: block_rq_issue: 8,0 R 8192 () {sector} + 16 [a]\n\
                     a-11 [000] ..... 1.{:06}: block_rq_complete: 8,0 R () {sector} + 16 [0]\n",
                    us + 100
                ));
            }
        }
        let mut open = || crate::from_bytes(text.clone().into_bytes());
        let chosen = DeviceNumber::new(8, 1);
        let found = read(&mut open, Some(chosen), &mut |_| {}).expect("requests");
        assert_eq!((found.device, found.partition), (DeviceNumber::new(8, 0), Some(chosen)));
        assert_eq!(found.requests.len(), 2 * FEWEST);
        let whole = read(&mut open, None, &mut |_| {}).expect("requests");
        assert_eq!((whole.partition, whole.requests == found.requests), (None, true));
    }

    #[test]
    fn too_few_requests_are_refused() {
        let text = "\
  a-11 [000] ..... 1.000005: block_rq_issue: 8,0 R 8192 () 5000 + 16 [a]
  a-11 [000] ..... 1.000500: block_rq_complete: 8,0 R () 5000 + 16 [0]
";
        let mut open = || crate::from_bytes(text.as_bytes().to_vec());
        let error = read(&mut open, None, &mut |_| {}).expect_err("one request").to_string();
        assert!(error.contains("1 reads and writes") && error.contains("too few"), "{error}");
    }
}
