//! Which requests of a ring are in flight, in memory that outlives the back end.
//!
//! The front end keeps this memory. If the back end is killed, the next one finds in it the
//! requests that were taken and not put into the used ring, in the order in which they were taken.
//! The layout is that of the split ring in QEMU's document `vhost-user`.

use vm_memory::{Bytes, GuestAddress, GuestMemory};

use crate::ring::{Ring, RingError};

/// Bytes before the descriptors: features, version, number of descriptors, head of the last batch,
/// and the index of the used ring.
const HEAD_BYTES: u64 = 16;
const DESCRIPTOR_BYTES: u64 = 16;
const VERSION_AT: u64 = 8;
const SIZE_AT: u64 = 10;
const LAST_AT: u64 = 12;
const USED_AT: u64 = 14;
/// Within a descriptor: the next of its batch, and the count of requests when it was taken.
const NEXT_AT: u64 = 6;
const COUNT_AT: u64 = 8;
const VERSION: u16 = 1;
/// The memory of a ring begins at a multiple of it.
const ALIGN: u64 = 64;

/// Returns how many bytes a ring of so many descriptors needs.
pub const fn inflight_bytes(size: u16) -> u64 {
    (HEAD_BYTES + DESCRIPTOR_BYTES * size as u64).next_multiple_of(ALIGN)
}

/// The record of the requests of a ring.
#[derive(Clone, Copy, Debug)]
pub struct Inflight {
    at: u64,
    count: u64,
}

impl Inflight {
    /// Finds the record of ring `index` in memory for rings of `size` descriptors, for a ring that
    /// starts. Returns the record, and the requests that are in flight, in the order in which they
    /// were taken.
    ///
    /// # Errors
    /// The memory is too small, or what it holds does not fit the ring.
    pub fn open<M: GuestMemory + ?Sized>(
        memory: &M,
        index: u16,
        size: u16,
        ring: &Ring,
    ) -> Result<(Self, Vec<u16>), RingError> {
        let at = inflight_bytes(size) * u64::from(index);
        let mut record = Self { at, count: 0 };
        let version = record.load(memory, VERSION_AT)?;
        if version != VERSION {
            for (place, word) in
                [(VERSION_AT, VERSION), (SIZE_AT, size), (LAST_AT, 0), (USED_AT, ring.next_used())]
            {
                record.store(memory, place, word)?;
            }
        }
        record.finish_batch(memory, ring)?;
        let mut heads = Vec::new();
        for head in 0..ring.size().min(size) {
            if record.is_in_flight(memory, head)? {
                let count = record.read(memory, record.descriptor(head) + COUNT_AT)?;
                record.count = record.count.max(count);
                heads.push((count, head));
            }
        }
        heads.sort_unstable();
        Ok((record, heads.into_iter().map(|(_, head)| head).collect()))
    }

    /// Ends the requests of a batch that was put into the used ring when the back end was killed.
    fn finish_batch<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        ring: &Ring,
    ) -> Result<(), RingError> {
        let known = self.load(memory, USED_AT)?;
        let missing = ring.next_used().wrapping_sub(known);
        let mut head = self.load(memory, LAST_AT)?;
        for _ in 0..missing.min(ring.size()) {
            if head >= ring.size() {
                break;
            }
            self.set_in_flight(memory, head, false)?;
            head = self.load(memory, self.descriptor(head) + NEXT_AT - self.at)?;
        }
        self.store(memory, USED_AT, ring.next_used())
    }

    /// Records that a request was taken.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn take<M: GuestMemory + ?Sized>(
        &mut self,
        memory: &M,
        head: u16,
    ) -> Result<(), RingError> {
        self.count = self.count.wrapping_add(1);
        let at = self.descriptor(head) + COUNT_AT;
        memory
            .write_slice(&self.count.to_ne_bytes(), GuestAddress(at))
            .map_err(|_| RingError::Address(at))?;
        self.set_in_flight(memory, head, true)
    }

    /// Records that a request is about to be put into the used ring.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn begin_used<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        head: u16,
    ) -> Result<(), RingError> {
        let last = self.load(memory, LAST_AT)?;
        self.store(memory, self.descriptor(head) + NEXT_AT - self.at, last)?;
        self.store(memory, LAST_AT, head)
    }

    /// Records that the used ring has the request, and ends at `used`.
    ///
    /// # Errors
    /// The memory is gone.
    pub fn end_used<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        head: u16,
        used: u16,
    ) -> Result<(), RingError> {
        self.set_in_flight(memory, head, false)?;
        self.store(memory, USED_AT, used)
    }

    const fn descriptor(&self, head: u16) -> u64 {
        self.at + HEAD_BYTES + DESCRIPTOR_BYTES * head as u64
    }

    fn is_in_flight<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        head: u16,
    ) -> Result<bool, RingError> {
        let at = self.descriptor(head);
        let mut byte = [0];
        memory.read_slice(&mut byte, GuestAddress(at)).map_err(|_| RingError::Address(at))?;
        Ok(byte[0] == 1)
    }

    fn set_in_flight<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        head: u16,
        is_in_flight: bool,
    ) -> Result<(), RingError> {
        let at = self.descriptor(head);
        // Ordered against the used ring: a back end that is killed leaves what it has done so far.
        memory
            .store(u8::from(is_in_flight), GuestAddress(at), std::sync::atomic::Ordering::Release)
            .map_err(|_| RingError::Address(at))
    }

    fn load<M: GuestMemory + ?Sized>(&self, memory: &M, at: u64) -> Result<u16, RingError> {
        let mut bytes = [0; 2];
        let at = self.at + at;
        memory.read_slice(&mut bytes, GuestAddress(at)).map_err(|_| RingError::Address(at))?;
        Ok(u16::from_ne_bytes(bytes))
    }

    fn read<M: GuestMemory + ?Sized>(&self, memory: &M, at: u64) -> Result<u64, RingError> {
        let mut bytes = [0; 8];
        memory.read_slice(&mut bytes, GuestAddress(at)).map_err(|_| RingError::Address(at))?;
        Ok(u64::from_ne_bytes(bytes))
    }

    fn store<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        at: u64,
        word: u16,
    ) -> Result<(), RingError> {
        let at = self.at + at;
        memory
            .store(word, GuestAddress(at), std::sync::atomic::Ordering::Release)
            .map_err(|_| RingError::Address(at))
    }
}
