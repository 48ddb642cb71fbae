//! Reads the requests of a device from a trace, each with the times of its issue and completion.
//!
//! `elevon_whatif::fit` fits a device model to them. The requests are kept in memory, 40 bytes
//! each.

use crate::analysis::{Group, InspectError, ProcessStats, RequestRecord, RequestSink, analyse};
use crate::event::DeviceNumber;
use crate::op::TraceOp;
use crate::open::OpenError;
use crate::reader::Reader;
use crate::recorded::Recorded;

/// Minimum number of reads and writes for a fit.
pub(crate) const MIN_REQUESTS_OF_A_FIT: usize = 20;

/// What a request asks of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedKind {
    /// A read.
    Read,
    /// A write or a zone append.
    Write,
    /// A discard, a secure erase or a write of zeroes.
    Discard,
    /// A flush.
    Flush,
}

impl ServedKind {
    /// Returns the kind of a request; `None` if no device model has its operation.
    fn from_request(request: &RequestRecord) -> Option<Self> {
        match request.group {
            _ if request.op == Some(TraceOp::WriteZeroes) => Some(Self::Discard),
            Group::Read => Some(Self::Read),
            Group::Write => Some(Self::Write),
            Group::Discard => Some(Self::Discard),
            Group::Flush => Some(Self::Flush),
            Group::Other => None,
        }
    }
}

/// A request that succeeded. Times are nanoseconds of the trace's clock.
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
    /// What it asks of the device.
    pub kind: ServedKind,
}

/// Numbers of requests that completed and to which no device is fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Whose issue the trace does not show.
    pub unissued: u64,
    /// That failed.
    pub failed: u64,
    /// Passthrough commands, zone management, and those without an operation or a size.
    pub other: u64,
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
    /// What is not among them.
    pub left_out: LeftOut,
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
         device to; it takes {MIN_REQUESTS_OF_A_FIT}"
    )]
    TooFew {
        /// The device.
        device: DeviceNumber,
        /// Number of requests in the trace.
        found: usize,
    },
    /// The format, or the events that were traced, do not tell of the driver.
    #[error(
        "device {device}: {requests} requests completed, but the trace does not tell when they were issued to the \
         driver; a device is fitted to the time from issue to completion, which blktrace and the block events of \
         ftrace, perf and Perfetto have"
    )]
    Unissued {
        /// The device.
        device: DeviceNumber,
        /// Number of requests whose issue is not known.
        requests: u64,
    },
    /// The events of the device have no times.
    #[error("device {0}: the events have no times, so nothing says how long a request took")]
    Untimed(DeviceNumber),
}

/// Collects requests as they complete.
#[derive(Default)]
struct Requests {
    served: Vec<ServedRequest>,
    left_out: LeftOut,
    moved_data: usize,
    end_sector: u64,
    largest: u64,
}

impl RequestSink for Requests {
    fn requests(&mut self, requests: &[RequestRecord], _processes: &[ProcessStats]) {
        for request in requests {
            let Some(completed) = request.completed else { continue };
            let Some(issued) = request.issued.filter(|&issued| issued <= completed) else {
                self.left_out.unissued += 1;
                continue;
            };
            if request.error.is_some_and(|error| error != 0) {
                self.left_out.failed += 1;
                continue;
            }
            let kind = ServedKind::from_request(request)
                .filter(|&kind| request.bytes > 0 || kind == ServedKind::Flush);
            let Some(kind) = kind else {
                self.left_out.other += 1;
                continue;
            };
            let is_flush = kind == ServedKind::Flush;
            let (sector, bytes) = if is_flush { (0, 0) } else { (request.sector, request.bytes) };
            self.end_sector = self.end_sector.max(sector.saturating_add(bytes.div_ceil(512)));
            if matches!(kind, ServedKind::Read | ServedKind::Write) {
                self.largest = self.largest.max(bytes);
                self.moved_data += 1;
            }
            self.served.push(ServedRequest { issued, completed, sector, bytes, kind });
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
    let Requests { mut served, left_out, moved_data, end_sector, largest } = requests;
    if moved_data < MIN_REQUESTS_OF_A_FIT {
        let device = found.device;
        return Err(match left_out.unissued {
            _ if found.untimed > 0 && moved_data == 0 => ServedError::Untimed(device),
            requests if requests >= MIN_REQUESTS_OF_A_FIT as u64 => {
                ServedError::Unissued { device, requests }
            }
            _ => ServedError::TooFew { device, found: moved_data },
        });
    }
    served.sort_by_key(|one| (one.issued, one.completed));
    let split_at = (found.counts.splits > 0).then_some(largest);
    Ok(ServedRequests {
        device: found.device,
        partition: disk.and(device),
        requests: served,
        left_out,
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
        for n in 0..MIN_REQUESTS_OF_A_FIT as u64 {
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
        assert_eq!(found.requests.len(), 2 * MIN_REQUESTS_OF_A_FIT);
        let whole = read(&mut open, None, &mut |_| {}).expect("requests");
        assert_eq!((whole.partition, whole.requests == found.requests), (None, true));
    }

    /// Discards and writes of zeroes are requests of the device; what no model has, and what failed
    /// is counted.
    #[test]
    fn what_is_left_out_is_counted() {
        let mut text = String::new();
        let rows = [("R", 8, 0), ("D", 4096, 0), ("WZ", 512, 0), ("W", 8, -5), ("ZR", 8, 0)];
        for (n, (rwbs, sectors, error)) in
            rows.into_iter().cycle().take(5 * MIN_REQUESTS_OF_A_FIT).enumerate()
        {
            let (at, sector, bytes) = (n * 1000 + 10, n * 8192, sectors * 512);
            text.push_str(&format!(
                "a-11 [000] ..... 1.{at:06}: block_rq_issue: 8,0 {rwbs} {bytes} () {sector} + {sectors} [a]\n\
                 a-11 [000] ..... 1.{:06}: block_rq_complete: 8,0 {rwbs} () {sector} + {sectors} [{error}]\n",
                at + 100
            ));
        }
        let mut open = || crate::from_bytes(text.clone().into_bytes());
        let found = read(&mut open, None, &mut |_| {}).expect("requests");
        let few = MIN_REQUESTS_OF_A_FIT as u64;
        assert_eq!(found.left_out, LeftOut { unissued: 0, failed: few, other: few });
        let discards = found.requests.iter().filter(|one| one.kind == ServedKind::Discard).count();
        assert_eq!(
            (found.requests.len(), discards),
            (3 * MIN_REQUESTS_OF_A_FIT, 2 * MIN_REQUESTS_OF_A_FIT)
        );
        let last_discard = 5 * (MIN_REQUESTS_OF_A_FIT - 1) + 1;
        assert_eq!(
            found.end_sector as usize,
            (last_discard + 1) * 8192 + 512,
            "the zeroes behind it"
        );
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

    /// A trace of response times, one without times: what is missing is named.
    #[test]
    fn what_a_trace_lacks_is_named() {
        let rows: String = (0..MIN_REQUESTS_OF_A_FIT)
            .map(|n| {
                format!("{},host,0,Read,{},4096,5000\n", 128_166_372_003_061_629 + n, n * 4096)
            })
            .collect();
        let mut open = || crate::from_bytes(rows.clone().into_bytes());
        let error = read(&mut open, None, &mut |_| {}).expect_err("no issue").to_string();
        assert!(
            error.contains("20 requests completed") && error.contains("issued to the driver"),
            "{error}"
        );
        let untimed = |n: usize| {
            format!(
                "block_rq_issue: 8,0 R 8192 () {n} + 16 [a]\nblock_rq_complete: 8,0 R () {n} + 16 [0]\n"
            )
        };
        let text: String = (0..MIN_REQUESTS_OF_A_FIT).map(|n| untimed(n * 16)).collect();
        let mut open = || crate::from_bytes(text.clone().into_bytes());
        let error = read(&mut open, None, &mut |_| {}).expect_err("no times").to_string();
        assert!(error.contains("no times"), "{error}");
    }
}
