//! The rings of a guest: how they start and stop, and how requests are taken and end.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use elevon_core::status::Status;
use elevon_host::SharedMemory;
use elevon_vhost::blk::{self, Kind, Request};
use elevon_vhost::ring::{Chain, Ring, RingError, RingPlace};
use elevon_vhost::{
    FEATURE_EVENT_INDEX, FEATURE_PROTOCOL_FEATURES, Inflight, InflightPlace, RingAddresses,
};

use super::guest_disk::{Asked, GuestDisk, MAX_QUEUES};
use crate::net::protocol::Step;
use crate::request::DiskRequest;

/// Bytes of ranges that are read of a discard: more than one range is refused.
const RANGES: u64 = 64;

/// A request that was taken.
pub(super) struct Flight {
    pub(super) request: Request,
    /// The memory that it is in, which stays mapped.
    pub(super) memory: Arc<SharedMemory>,
}

/// A ring with what the front end said of it.
#[derive(Default)]
struct GuestRing {
    size: u16,
    place: Option<RingAddresses>,
    base: u16,
    kick: Option<OwnedFd>,
    call: Option<OwnedFd>,
    is_enabled: bool,
    /// The ring, from its start to its stop.
    ring: Option<Ring>,
    is_stopping: bool,
    record: Option<Inflight>,
    /// Requests that a back end before this one has taken and not ended.
    resubmit: VecDeque<u16>,
    /// Requests in flight, by the number of their first descriptor.
    flights: Vec<Option<Box<Flight>>>,
    in_flight: usize,
    /// The guest was asked to kick.
    wants_kicks: bool,
    /// Requests have ended of which the guest was not told.
    has_used: bool,
}

/// The rings of a guest, and its memory.
pub(super) struct Rings {
    pub(super) disk: GuestDisk,
    memory: Option<Arc<SharedMemory>>,
    /// Memory in which requests in flight are recorded.
    inflight: Option<(Arc<SharedMemory>, InflightPlace)>,
    features: u64,
    /// The guest has turned the write cache off.
    pub(super) is_write_through: bool,
    rings: Vec<GuestRing>,
    /// The first rings, among which are all that have ever started.
    count: usize,
    /// The ring that is looked at next.
    next: usize,
    /// The connection has ended.
    is_gone: bool,
    /// The thread of the device serves it no more.
    pub(super) is_dropped: bool,
    /// Threads that wait for the end of requests.
    pub(super) waiters: u32,
    broken: Option<(usize, RingError)>,
    /// To be used again.
    chain: Chain,
}

impl Rings {
    pub(super) fn new(disk: GuestDisk) -> Self {
        Self {
            disk,
            memory: None,
            inflight: None,
            features: 0,
            is_write_through: false,
            rings: (0..MAX_QUEUES).map(|_| GuestRing::default()).collect(),
            count: 0,
            next: 0,
            is_gone: false,
            is_dropped: false,
            waiters: 0,
            broken: None,
            chain: Chain::default(),
        }
    }

    /// Returns the configuration space as it is now.
    pub(super) fn config(&self) -> Vec<u8> {
        let mut config = self.disk.config();
        config[blk::WRITE_CACHE_BYTE] = u8::from(!self.is_write_through);
        config
    }

    /// Takes the features that were negotiated.
    pub(super) fn set_features(&mut self, features: u64) {
        self.features = features;
        // Without a flush nothing but a write can make it durable.
        self.is_write_through = features & blk::FEATURE_FLUSH == 0;
    }

    /// Makes this the guest's memory. Requests in flight keep theirs.
    pub(super) fn set_memory(&mut self, memory: Arc<SharedMemory>) {
        self.memory = Some(memory);
    }

    /// Makes this the memory in which requests in flight are recorded, of rings that start.
    pub(super) fn set_inflight(&mut self, memory: Arc<SharedMemory>, place: InflightPlace) {
        self.inflight = Some((memory, place));
    }

    pub(super) fn set_size(&mut self, ring: u16, size: u16) {
        self.rings[usize::from(ring)].size = size;
    }

    pub(super) fn set_place(&mut self, ring: u16, place: RingAddresses) {
        self.rings[usize::from(ring)].place = Some(place);
    }

    pub(super) fn set_base(&mut self, ring: u16, base: u16) {
        self.rings[usize::from(ring)].base = base;
    }

    /// Takes the descriptor that tells of kicks. Returns the one before.
    pub(super) fn set_kick(&mut self, ring: u16, kick: Option<OwnedFd>) -> Option<OwnedFd> {
        std::mem::replace(&mut self.rings[usize::from(ring)].kick, kick)
    }

    pub(super) fn set_call(&mut self, ring: u16, call: Option<OwnedFd>) {
        let ring = &mut self.rings[usize::from(ring)];
        ring.call = call;
        // What ended before may not have been told to the new one.
        ring.has_used = ring.ring.is_some();
    }

    pub(super) fn enable(&mut self, ring: u16, is_enabled: bool) {
        self.rings[usize::from(ring)].is_enabled = is_enabled;
    }

    /// Starts a ring.
    pub(super) fn start(&mut self, index: u16) -> io::Result<()> {
        let memory = self.memory.as_ref().ok_or_else(|| wrong("a ring starts without memory"))?;
        if self.broken.is_some() {
            return Err(wrong("a ring starts after another one broke the rules"));
        }
        let guest = &mut self.rings[usize::from(index)];
        if guest.ring.is_some() {
            return Ok(());
        }
        if guest.size == 0 {
            return Err(wrong("a ring starts without a size"));
        }
        let place = guest.place.ok_or_else(|| wrong("a ring starts without a place"))?;
        let physical =
            |user| memory.guest_of(user).ok_or_else(|| wrong("a ring is outside the memory"));
        let place = RingPlace {
            descriptors: physical(place.descriptors)?,
            available: physical(place.available)?,
            used: physical(place.used)?,
        };
        let has_event_index = self.features & FEATURE_EVENT_INDEX != 0;
        let mut ring = Ring::new(memory.map(), place, guest.size, guest.base, has_event_index)
            .map_err(io::Error::other)?;
        (guest.record, guest.resubmit) = (None, VecDeque::new());
        if let Some((records, place)) =
            self.inflight.as_ref().filter(|(_, place)| index < place.queues)
        {
            let (record, heads) = Inflight::open(records.map(), index, place.size, &ring)
                .map_err(io::Error::other)?;
            ring.resume(heads.len() as u16);
            (guest.record, guest.resubmit) = (Some(record), heads.into());
        }
        guest.flights.clear();
        guest.flights.resize_with(guest.size.into(), || None);
        guest.in_flight = 0;
        guest.is_stopping = false;
        guest.is_enabled |= self.features & FEATURE_PROTOCOL_FEATURES == 0;
        guest.wants_kicks = true;
        guest.ring = Some(ring);
        self.count = self.count.max(usize::from(index) + 1);
        Ok(())
    }

    /// Lets a ring take no more requests.
    pub(super) fn begin_stop(&mut self, ring: u16) {
        self.rings[usize::from(ring)].is_stopping = true;
    }

    /// Returns true if a ring that was asked to stop has no request in flight.
    pub(super) fn has_stopped(&self, ring: u16) -> bool {
        let ring = &self.rings[usize::from(ring)];
        let is_idle = ring.in_flight == 0 && (ring.resubmit.is_empty() || !ring.is_enabled);
        ring.ring.is_none() || is_idle || self.is_dropped || self.broken.is_some()
    }

    /// Ends a ring that has stopped. Returns the next available descriptor.
    pub(super) fn end_stop(&mut self, ring: u16) -> u16 {
        let guest = &mut self.rings[usize::from(ring)];
        guest.is_stopping = false;
        guest.is_enabled = false;
        guest.ring.take().map_or(guest.base, |ring| ring.next_available())
    }

    /// Yields the numbers of the rings that have started.
    pub(super) fn started(&self) -> Vec<u16> {
        let started = self.rings.iter().enumerate().filter(|(_, ring)| ring.ring.is_some());
        started.map(|(index, _)| index as u16).collect()
    }

    /// The connection has ended.
    pub(super) fn leave(&mut self) {
        self.is_gone = true;
    }

    /// Takes the next request.
    pub(super) fn take(&mut self) -> Step {
        if self.is_gone {
            return Step::Leave;
        }
        let Some(memory) = self.memory.clone() else { return Step::More };
        if memory.has_vanished() {
            return Step::Fail(wrong("the guest has cut the file of its memory"));
        }
        if self.broken.is_none() {
            match self.take_next(&memory) {
                Ok(Some(step)) => return step,
                Ok(None) => {}
                Err(error) => self.broken = Some((self.next, error)),
            }
        }
        match self.broken {
            Some((queue, error)) => Step::Fail(wrong(&format!("queue {queue}: {error}"))),
            None => Step::More,
        }
    }

    /// Takes the next request of any ring; after that of the rings behind it.
    fn take_next(&mut self, memory: &Arc<SharedMemory>) -> Result<Option<Step>, RingError> {
        for _ in 0..self.count {
            if let Some(head) = self.take_head(memory)? {
                let step = self.begin(memory, head)?;
                self.next = (self.next + 1) % self.count;
                return Ok(Some(step));
            }
            self.next = (self.next + 1) % self.count;
        }
        for index in 0..self.count {
            self.next = index;
            let guest = &mut self.rings[index];
            let can_take = guest.is_enabled && !guest.is_stopping;
            let Some(ring) = guest.ring.as_mut().filter(|_| can_take) else { continue };
            guest.wants_kicks = true;
            if ring.want_kicks(memory.map())? {
                return Ok(Some(Step::Continue));
            }
        }
        Ok(None)
    }

    /// Takes the next request of the next ring. Returns its first descriptor.
    fn take_head(&mut self, memory: &SharedMemory) -> Result<Option<u16>, RingError> {
        let guest = &mut self.rings[self.next];
        let Some(ring) = guest.ring.as_mut().filter(|_| guest.is_enabled) else { return Ok(None) };
        if let Some(head) = guest.resubmit.pop_front() {
            return Ok(Some(head));
        }
        if guest.is_stopping {
            return Ok(None);
        }
        let Some(head) = ring.take(memory.map())? else { return Ok(None) };
        if guest.flights[usize::from(head)].is_some() {
            return Err(RingError::InFlight(head));
        }
        if std::mem::replace(&mut guest.wants_kicks, false) {
            ring.want_no_kicks(memory.map())?;
        }
        if let (Some(record), Some((records, _))) = (&mut guest.record, &self.inflight) {
            record.take(records.map(), head)?;
        }
        Ok(Some(head))
    }

    /// Begins a request of the next ring.
    fn begin(&mut self, memory: &Arc<SharedMemory>, head: u16) -> Result<Step, RingError> {
        let index = self.next;
        let guest = &mut self.rings[index];
        let ring = guest.ring.as_ref().expect("a request was taken from it");
        ring.read_chain(memory.map(), head, &mut self.chain)?;
        let request = Request::read(memory.map(), &self.chain, Vec::new())?;
        let mut ranges = Vec::new();
        if matches!(request.head.kind, Kind::Discard | Kind::WriteZeroes) {
            ranges.resize(request.bytes.min(RANGES) as usize, 0);
            request.copy_from(memory.map(), 0, &mut ranges)?;
        }
        let tag = (index as u64) << 16 | u64::from(head);
        let asked = self.disk.asked(&request, &ranges, self.is_write_through, tag);
        let flight = Box::new(Flight { request, memory: Arc::clone(memory) });
        guest.in_flight += 1;
        match asked {
            Asked::Disk(request) => {
                guest.flights[usize::from(head)] = Some(flight);
                Ok(Step::Request(request))
            }
            Asked::Name => {
                let name = self.disk.name();
                let room = flight.request.bytes.min(name.len() as u64) as usize;
                flight.request.copy_to(memory.map(), 0, &name[..room])?;
                self.end(index, head, &flight, blk::Status::Ok)?;
                Ok(Step::Continue)
            }
            Asked::Refused(operation, reason) => {
                let status = match operation {
                    None => blk::Status::Unsupported,
                    Some(_) => blk::Status::IoError,
                };
                self.end(index, head, &flight, status)?;
                Ok(Step::Refused { operation, reason })
            }
        }
    }

    /// Ends a request.
    fn end(
        &mut self,
        index: usize,
        head: u16,
        flight: &Flight,
        status: blk::Status,
    ) -> Result<(), RingError> {
        let guest = &mut self.rings[index];
        guest.in_flight -= 1;
        guest.has_used = true;
        let (Some(ring), Some(memory)) = (guest.ring.as_mut(), &self.memory) else {
            return Ok(());
        };
        let request = &flight.request;
        request.write_status(flight.memory.map(), status)?;
        let is_read = matches!(request.head.kind, Kind::Read | Kind::Name);
        let written = if is_read { request.room } else { 1 };
        let records = self.inflight.as_ref().map(|(records, _)| records.map());
        let record = guest.record.as_ref().zip(records);
        if let Some((record, records)) = record {
            record.begin_used(records, head)?;
        }
        ring.push_used(memory.map(), head, written)?;
        if let Some((record, records)) = record {
            record.end_used(records, head, ring.next_used())?;
        }
        Ok(())
    }

    /// Returns a request that has not ended.
    pub(super) fn flight(&self, request: &DiskRequest) -> &Flight {
        let (ring, head) = place_of(request);
        self.rings[ring].flights[head].as_ref().expect("a request that has not ended")
    }

    /// Ends a request.
    pub(super) fn finish(&mut self, request: &DiskRequest, status: Status) {
        let (ring, head) = place_of(request);
        let flight = self.rings[ring].flights[head].take().expect("a request that has not ended");
        let status = match status {
            Status::NotSupported => blk::Status::Unsupported,
            status if status.errno() == 0 => blk::Status::Ok,
            _ => blk::Status::IoError,
        };
        if let Err(error) = self.end(ring, head as u16, &flight, status) {
            self.broken.get_or_insert((ring, error));
        }
    }

    /// Tells the guest of requests that have ended.
    pub(super) fn tell(&mut self) {
        let Some(memory) = &self.memory else { return };
        for guest in self.rings[..self.count].iter_mut().filter(|guest| guest.has_used) {
            guest.has_used = false;
            let Some(ring) = &mut guest.ring else { continue };
            // A ring whose memory is gone is told of when it is looked at.
            if let (Ok(true), Some(call)) = (ring.wants_call(memory.map()), &guest.call) {
                // A counter that is full is as good as a call.
                let _ = rustix::io::write(call, &1_u64.to_ne_bytes());
            }
        }
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Returns the ring and the first descriptor of a request.
const fn place_of(request: &DiskRequest) -> (usize, usize) {
    ((request.tag >> 16) as usize, (request.tag & 0xffff) as usize)
}
