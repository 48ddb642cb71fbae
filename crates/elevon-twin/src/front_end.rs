//! The connection to a kernel's virtio-blk driver: messages, memory, and the ring of requests.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use elevon_core::ioprio::IoPrio;
use elevon_core::op::Op;
use elevon_core::units::Sector;
use elevon_vhost::blk::{self, Config, Kind, NAME_BYTES, Range, Status};
use elevon_vhost::socket::{Received, receive};
use elevon_vhost::{Action, BackEnd, HEADER_BYTES, Offer, call_message};

use crate::disk::{Disk, DiskEnd, DiskIo};
use crate::error::TwinError;
use crate::ring::{Memory, Request, Ring};

/// The name that the disk gives to the kernel; `/sys/block/vda/serial` shows it.
const NAME: &[u8; NAME_BYTES] = b"elevon\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// What a message asked of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing.
    Done,
    /// The kernel asked for the name of the disk. The laboratory's script does so at the borders of
    /// its phases.
    Mark,
}

/// The connection of a kernel's driver.
pub(crate) struct FrontEnd {
    stream: UnixStream,
    channel: Option<UnixStream>,
    back_end: BackEnd,
    memory: Option<Memory>,
    ring: Ring,
    /// Requests in flight, by the number of their first descriptor.
    requests: BTreeMap<u64, Request>,
    /// Requests have ended of which the kernel was not told.
    is_due: bool,
    /// The answer to the last message.
    answer: Vec<u8>,
}

impl FrontEnd {
    /// Returns the back end of a connection, for a disk.
    pub(crate) fn new(stream: UnixStream, disk: &Disk) -> Self {
        Self {
            stream,
            channel: None,
            back_end: BackEnd::new(offer(disk)),
            memory: None,
            ring: Ring::new(),
            requests: BTreeMap::new(),
            is_due: false,
            answer: Vec::new(),
        }
    }

    /// Returns the socket, to wait for messages.
    pub(crate) const fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Returns the socket of the back end's own messages.
    pub(crate) const fn channel(&self) -> Option<&UnixStream> {
        self.channel.as_ref()
    }

    /// Takes a message. Requests that it announces are given to the disk. The caller then calls
    /// [`Self::acknowledge`].
    pub(crate) fn handle(&mut self, disk: &mut Disk) -> Result<Step, TwinError> {
        let Received { header, payload, mut fds } = receive(&self.stream)?;
        let (mut answer, action) = self
            .back_end
            .handle(&header, &payload, fds.len())
            .map_err(|error| TwinError::Protocol(error.to_string()))?;
        let mut step = Step::Done;
        match action {
            Action::Map(regions) => self.memory = Some(Memory::map(regions, fds)?),
            Action::Size(_, size) => {
                self.ring.set_size(size).map_err(io::Error::other)?;
            }
            Action::Place(_, at) => {
                let memory = self.memory.as_ref().ok_or_else(no_memory)?;
                self.ring.place(memory, at)?;
            }
            Action::Base(_, base) => self.ring.set_base(base),
            Action::Start(_) => self.ring.set_ready(true),
            Action::Enable(_, is_enabled) => self.ring.set_ready(is_enabled),
            Action::Stop(ring) => {
                self.ring.set_ready(false);
                answer = self.back_end.base_answer(ring, self.ring.next_available());
            }
            Action::Channel => self.channel = fds.pop().map(UnixStream::from),
            Action::Kick(_) => step = self.take_requests(disk)?,
            Action::Reset => self.ring = Ring::new(),
            Action::Call(_) | Action::WriteConfig(..) | Action::Features(_) | Action::None => {}
            // They are not offered.
            Action::AddRegion(_)
            | Action::RemoveRegion(_)
            | Action::MakeInflight(_)
            | Action::TakeInflight(_) => {}
        }
        self.answer = answer;
        Ok(step)
    }

    /// Answers the last message, if it wants an answer. The kernel goes on.
    pub(crate) fn acknowledge(&mut self) -> Result<(), TwinError> {
        Ok(self.stream.write_all(&std::mem::take(&mut self.answer))?)
    }

    /// Returns true if requests have ended of which the kernel was not told.
    pub(crate) const fn is_due(&self) -> bool {
        self.is_due
    }

    /// Gives all available requests to the disk.
    fn take_requests(&mut self, disk: &mut Disk) -> Result<Step, TwinError> {
        let memory = self.memory.as_ref().ok_or_else(no_memory)?;
        let mut step = Step::Done;
        while let Some(mut request) = self.ring.take(memory)? {
            match io_of(&mut request, disk) {
                Ok(io) => {
                    self.requests.insert(io.token, request);
                    disk.submit(io);
                }
                Err((status, answer)) => {
                    if request.head.kind == Kind::Name {
                        step = Step::Mark;
                    }
                    self.is_due |= self.ring.finish(memory, request, status, answer)?;
                }
            }
        }
        Ok(step)
    }

    /// Ends a request of the kernel.
    pub(crate) fn finish(&mut self, end: &DiskEnd) -> Result<(), TwinError> {
        let memory = self.memory.as_ref().ok_or_else(no_memory)?;
        if let Some(request) = self.requests.remove(&end.token) {
            let status = match end.status {
                elevon_core::Status::Ok => Status::Ok,
                elevon_core::Status::NotSupported => Status::Unsupported,
                _ => Status::IoError,
            };
            self.is_due |= self.ring.finish(memory, request, status, &end.data)?;
        }
        Ok(())
    }

    /// Sends an interrupt if requests have ended since the last one. Returns true if the kernel
    /// will acknowledge it on [`Self::channel`].
    pub(crate) fn interrupt(&mut self) -> Result<bool, TwinError> {
        if !std::mem::take(&mut self.is_due) {
            return Ok(false);
        }
        let channel = self.channel.as_mut().ok_or_else(|| {
            TwinError::Protocol("it did not give the disk a channel for interrupts".into())
        })?;
        channel.write_all(&call_message(0))?;
        Ok(true)
    }

    /// Takes the acknowledgement of an interrupt.
    pub(crate) fn take_acknowledgement(&mut self) -> Result<(), TwinError> {
        let mut message = [0; HEADER_BYTES + 8];
        if let Some(channel) = self.channel.as_mut() {
            channel.read_exact(&mut message)?;
        }
        Ok(())
    }
}

fn no_memory() -> TwinError {
    TwinError::Protocol("it used a ring before it gave its memory".into())
}

/// Returns the I/O that a request asks for; otherwise the status and the answer.
fn io_of(request: &mut Request, disk: &Disk) -> Result<DiskIo, (Status, &'static [u8])> {
    let head = request.head;
    let token = u64::from(request.index());
    let data = std::mem::take(&mut request.data);
    let (op, sector, bytes, data) = match head.kind {
        Kind::Read => (Op::Read, head.sector, request.room as u64, Vec::new()),
        Kind::Write => (Op::Write, head.sector, data.len() as u64, data),
        Kind::Flush => (Op::Flush, 0, 0, Vec::new()),
        Kind::Discard | Kind::WriteZeroes => {
            let ranges = Range::parse_all(&data).unwrap_or_default();
            let [range] = ranges[..] else { return Err((Status::IoError, &[])) };
            let is_discard = head.kind == Kind::Discard;
            let op = if is_discard { Op::Discard } else { Op::WriteZeroes };
            (op, range.sector, u64::from(range.sectors) * 512, Vec::new())
        }
        Kind::Name => return Err((Status::Ok, NAME)),
        Kind::Unknown => return Err((Status::Unsupported, &[])),
    };
    let block = u64::from(disk.description().limits.logical_block_size);
    let start = sector.checked_mul(512);
    let end = start.and_then(|start| start.checked_add(bytes));
    let is_inside = end.is_some_and(|end| end <= disk.bytes());
    let is_whole = (start.unwrap_or(1) | bytes).is_multiple_of(block);
    if !is_inside || !is_whole || (bytes == 0 && op != Op::Flush) {
        return Err((Status::IoError, &[]));
    }
    let ioprio = IoPrio::from_bits(head.ioprio).unwrap_or(IoPrio::NONE);
    Ok(DiskIo { token, op, sector: Sector::new(sector), bytes, ioprio, data })
}

/// Returns what the back end of a disk offers.
fn offer(disk: &Disk) -> Offer {
    let limits = &disk.description().limits;
    let block = limits.logical_block_size;
    let sectors = |sectors: u64| u32::try_from(sectors).unwrap_or(u32::MAX);
    let mut features = Offer::default().features
        | blk::FEATURE_SIZE_MAX
        | blk::FEATURE_SEG_MAX
        | blk::FEATURE_BLK_SIZE
        | blk::FEATURE_TOPOLOGY;
    for (has, feature) in [
        (limits.write_cache, blk::FEATURE_FLUSH),
        (limits.max_hw_discard_sectors.get() > 0, blk::FEATURE_DISCARD),
        (limits.max_write_zeroes_sectors.get() > 0, blk::FEATURE_WRITE_ZEROES),
    ] {
        features |= if has { feature } else { 0 };
    }
    let config = Config {
        capacity: disk.bytes() / 512,
        size_max: limits.max_segment_size.max(65536),
        seg_max: u32::from(limits.max_segments).clamp(1, 254),
        block_size: block,
        physical_exponent: (limits.physical_block_size / block).max(1).ilog2() as u8,
        min_io: u16::try_from(limits.io_min / block).unwrap_or(1),
        opt_io: limits.io_opt / block,
        queues: 1,
        max_discard_sectors: sectors(limits.max_hw_discard_sectors.get()),
        max_discard_ranges: 1,
        discard_alignment: limits.discard_granularity / 512,
        max_write_zeroes_sectors: sectors(limits.max_write_zeroes_sectors.get()),
    };
    Offer { features, config: config.to_bytes(), ..Offer::default() }
}
