//! The rings of a virtio-blk device in the guest's memory.

use std::cell::OnceCell;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use elevon_vhost::blk::{HEAD_BYTES, Head, Status};
use elevon_vhost::{Region, RingAddresses};
use virtio_queue::{DescriptorChain, Error, Queue, QueueT};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};

/// Maximum number of descriptors of a ring.
const MAX_DESCRIPTORS: u16 = 1024;

/// Length of a page in bytes.
const PAGE: u64 = 4096;

/// The guest's memory.
pub(crate) struct Memory {
    map: Arc<GuestMemoryMmap>,
    regions: Vec<Region>,
    /// The number of the page of zeroes in the kernel's image, once it was used.
    zeroes: OnceCell<u64>,
}

impl Memory {
    /// Maps regions of files.
    pub(crate) fn map(regions: Vec<Region>, files: Vec<OwnedFd>) -> io::Result<Self> {
        let ranges = regions.iter().zip(files).map(|(region, file)| {
            let offset = FileOffset::new(File::from(file), region.offset);
            (GuestAddress(region.guest), region.bytes as usize, Some(offset))
        });
        let map = GuestMemoryMmap::from_ranges_with_files(ranges).map_err(io::Error::other)?;
        Ok(Self { map: Arc::new(map), regions, zeroes: OnceCell::new() })
    }

    /// Reads the bytes at a guest's address. A user-mode kernel does not share its own image, and
    /// its page of zeroes, which it writes where zeroes are due, lies there.
    fn read(&self, at: GuestAddress, into: &mut [u8]) -> io::Result<()> {
        let start = self.regions.iter().map(|region| region.guest).min().unwrap_or(0);
        if at.0.checked_add(into.len() as u64).is_some_and(|end| end <= start) {
            let page = at.0 / PAGE;
            let known = self.zeroes.get_or_init(|| page);
            if *known != page || at.0 % PAGE + into.len() as u64 > PAGE {
                return Err(io::Error::other("a request of the guest is of memory not shared"));
            }
            into.fill(0);
            return Ok(());
        }
        self.map.read_slice(into, at).map_err(io::Error::other)
    }

    /// Returns the guest's physical address of the front end's virtual address.
    fn guest(&self, user: u64) -> io::Result<GuestAddress> {
        let region = self.regions.iter().find(|region| {
            user.checked_sub(region.user).is_some_and(|within| within < region.bytes)
        });
        let region = region.ok_or_else(|| io::Error::other("a ring is outside the memory"))?;
        Ok(GuestAddress(region.guest + (user - region.user)))
    }
}

/// A request of the guest.
pub(crate) struct Request {
    chain: DescriptorChain<Arc<GuestMemoryMmap>>,
    /// Its head.
    pub(crate) head: Head,
    /// What follows the head: the data of a write, the ranges of a discard.
    pub(crate) data: Vec<u8>,
    /// Length of the guest's memory that the answer goes to, in bytes, without the status.
    pub(crate) room: usize,
}

impl Request {
    /// Returns the number of its first descriptor, which no other request in flight has.
    pub(crate) fn index(&self) -> u16 {
        self.chain.head_index()
    }
}

/// A ring with its state.
pub(crate) struct Ring {
    queue: Queue,
}

impl Ring {
    /// Returns a ring that is not set up.
    pub(crate) fn new() -> Self {
        let queue = Queue::new(MAX_DESCRIPTORS).expect("a power of two");
        Self { queue }
    }

    /// Sets the number of descriptors.
    pub(crate) fn set_size(&mut self, size: u16) -> Result<(), Error> {
        self.queue.try_set_size(size)
    }

    /// Sets where the ring lies.
    pub(crate) fn place(&mut self, memory: &Memory, at: RingAddresses) -> io::Result<()> {
        let set = |result: Result<(), Error>| result.map_err(io::Error::other);
        set(self.queue.try_set_desc_table_address(memory.guest(at.descriptors)?))?;
        set(self.queue.try_set_used_ring_address(memory.guest(at.used)?))?;
        set(self.queue.try_set_avail_ring_address(memory.guest(at.available)?))
    }

    /// Sets the next available descriptor, which is the next used one, too: nothing is in flight.
    pub(crate) fn set_base(&mut self, base: u16) {
        self.queue.set_next_avail(base);
        self.queue.set_next_used(base);
    }

    /// Starts or stops the ring.
    pub(crate) fn set_ready(&mut self, is_ready: bool) {
        self.queue.set_ready(is_ready);
    }

    /// Returns the next available descriptor.
    pub(crate) fn next_available(&self) -> u16 {
        self.queue.next_avail()
    }

    /// Takes the next request; `None` if there is none.
    pub(crate) fn take(&mut self, memory: &Memory) -> io::Result<Option<Request>> {
        if !self.queue.ready() {
            return Ok(None);
        }
        let Some(chain) = self.queue.pop_descriptor_chain(Arc::clone(&memory.map)) else {
            return Ok(None);
        };
        let mut data = Vec::new();
        for part in chain.clone().readable() {
            let start = data.len();
            data.resize(start + part.len() as usize, 0);
            memory.read(part.addr(), &mut data[start..])?;
        }
        let Some((head, data)) = data.split_first_chunk::<HEAD_BYTES>() else {
            return Err(io::Error::other("a request of the guest has no head"));
        };
        let room: usize = chain.clone().writable().map(|part| part.len() as usize).sum();
        let room = room
            .checked_sub(1)
            .ok_or_else(|| io::Error::other("a request of the guest has no room for its status"))?;
        Ok(Some(Request { head: Head::parse(head), data: data.to_vec(), room, chain }))
    }

    /// Ends a request with its status and the bytes of its answer. Returns true if the guest wants
    /// to be told.
    pub(crate) fn finish(
        &mut self,
        memory: &Memory,
        request: Request,
        status: Status,
        answer: &[u8],
    ) -> io::Result<bool> {
        let Request { chain, room, .. } = request;
        let head = chain.head_index();
        let mut writer = chain.writer(&memory.map).map_err(io::Error::other)?;
        let mut last = writer.split_at(room).map_err(io::Error::other)?;
        writer.write_all(&answer[..answer.len().min(room)])?;
        last.write_all(&[status as u8])?;
        let written = (answer.len().min(room) + 1) as u32;
        self.queue.add_used(&*memory.map, head, written).map_err(io::Error::other)?;
        self.queue.needs_notification(&*memory.map).map_err(io::Error::other)
    }
}
