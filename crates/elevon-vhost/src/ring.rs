//! A split ring in memory that the guest shares, as a device walks it.
//!
//! The memory belongs to the guest, which may change any byte of it at any time. So each word is
//! read once into a copy, and what was read is checked. A ring of a guest that breaks the rules
//! ends with an error; it never makes the device read or write outside the guest's memory.

use std::sync::atomic::{Ordering, fence};

use vm_memory::{Bytes, GuestAddress, GuestMemory, Permissions};

#[cfg(test)]
mod tests;

/// Maximum number of descriptors of a ring.
pub const MAX_DESCRIPTORS: u16 = 32768;

const DESCRIPTOR_BYTES: u64 = 16;
/// Flag of a descriptor: another one follows.
const NEXT: u16 = 1;
/// Flag of a descriptor: the device writes to it.
const WRITE: u16 = 2;
/// Flag of a descriptor: it has a table of descriptors.
const INDIRECT: u16 = 4;
/// Flag of the used ring: the guest need not kick.
const NO_NOTIFY: u16 = 1;
/// Flag of the available ring: the device need not call.
const NO_INTERRUPT: u16 = 1;

/// What is wrong with a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// A part of the ring or a descriptor is not in the guest's memory.
    #[error("address {0:#x} is not in the memory that the guest shares")]
    Address(u64),
    /// More descriptors are available than the ring has.
    #[error("{available} requests are available in a ring of {size}")]
    TooManyAvailable {
        /// How many are available.
        available: u16,
        /// How many descriptors the ring has.
        size: u16,
    },
    /// The number of a descriptor is beyond its table.
    #[error("descriptor {index} is beyond its table of {size}")]
    Index {
        /// The number.
        index: u32,
        /// How many the table has.
        size: u32,
    },
    /// A chain has more descriptors than its table, so it has a loop.
    #[error("a chain of descriptors has a loop")]
    Loop,
    /// A table of descriptors has a table, or has no whole number of descriptors.
    #[error("a table of indirect descriptors is not valid")]
    Indirect,
    /// A descriptor that the device reads follows one that it writes.
    #[error("a descriptor to be read follows one to be written")]
    Order,
    /// The lengths of a chain add up to more than 2^32 bytes.
    #[error("the descriptors of a chain have more than 2^32 bytes")]
    TooLong,
    /// A descriptor was made available again before its request ended.
    #[error("descriptor {0} is available again before its request has ended")]
    InFlight(u16),
    /// A request has no head or no room for its status.
    #[error("a request has no head, or no byte for its status")]
    NoRequest,
}

/// A part of the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The guest's physical address of its first byte.
    pub at: u64,
    /// Length in bytes.
    pub bytes: u32,
}

/// The descriptors of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Those that the device reads, in order.
    pub readable: Vec<Segment>,
    /// Those that the device writes, in order.
    pub writable: Vec<Segment>,
}

/// Where a ring lies, by the guest's physical addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingPlace {
    /// The table of descriptors.
    pub descriptors: u64,
    /// The ring of available descriptors.
    pub available: u64,
    /// The ring of used descriptors.
    pub used: u64,
}

/// A ring with its state.
#[derive(Clone, Debug)]
pub struct Ring {
    place: RingPlace,
    size: u16,
    has_event_index: bool,
    next_available: u16,
    next_used: u16,
    /// [`Self::next_used`] when the guest was last asked if it wants a call.
    called_at: u16,
}

impl Ring {
    /// Returns a ring of `size` descriptors, of which the next available one is `base`.
    /// `has_event_index`: both sides say by a number when they want to be told.
    ///
    /// # Errors
    /// A part of it is not in the guest's memory.
    pub fn new<M: GuestMemory + ?Sized>(
        memory: &M,
        place: RingPlace,
        size: u16,
        base: u16,
        has_event_index: bool,
    ) -> Result<Self, RingError> {
        let descriptors = u64::from(size);
        // The number of an event follows each ring.
        for (at, bytes, align, access) in [
            (place.descriptors, DESCRIPTOR_BYTES * descriptors, 16, Permissions::Read),
            (place.available, 6 + 2 * descriptors, 2, Permissions::Read),
            (place.used, 6 + 8 * descriptors, 4, Permissions::Write),
        ] {
            let is_there = memory.check_range(GuestAddress(at), bytes as usize, access);
            if !is_there || !at.is_multiple_of(align) {
                return Err(RingError::Address(at));
            }
        }
        let mut ring = Self {
            place,
            size,
            has_event_index,
            next_available: base,
            next_used: base,
            called_at: base,
        };
        ring.next_used = ring.used_index(memory)?;
        ring.called_at = ring.next_used;
        Ok(ring)
    }

    /// Returns how many descriptors it has.
    pub const fn size(&self) -> u16 {
        self.size
    }

    /// Returns the next available descriptor.
    pub const fn next_available(&self) -> u16 {
        self.next_available
    }

    /// Returns the next used descriptor.
    pub const fn next_used(&self) -> u16 {
        self.next_used
    }

    /// Goes on behind so many requests that were taken and are not in the used ring.
    pub const fn resume(&mut self, taken: u16) {
        self.next_available = self.next_used.wrapping_add(taken);
    }

    /// Takes the next available request and returns the number of its first descriptor; `None` if
    /// there is none.
    ///
    /// # Errors
    /// The guest breaks the rules.
    pub fn take<M: GuestMemory + ?Sized>(&mut self, memory: &M) -> Result<Option<u16>, RingError> {
        let available = self.available(memory)?;
        if available == 0 {
            return Ok(None);
        }
        let place = self.place.available + 4 + 2 * u64::from(self.next_available % self.size);
        let head = self.load(memory, place, Ordering::Relaxed)?;
        if head >= self.size {
            return Err(RingError::Index { index: head.into(), size: self.size.into() });
        }
        self.next_available = self.next_available.wrapping_add(1);
        Ok(Some(head))
    }

    /// Returns how many requests are available.
    fn available<M: GuestMemory + ?Sized>(&self, memory: &M) -> Result<u16, RingError> {
        let index = self.load(memory, self.place.available + 2, Ordering::Acquire)?;
        let available = index.wrapping_sub(self.next_available);
        if available > self.size {
            return Err(RingError::TooManyAvailable { available, size: self.size });
        }
        Ok(available)
    }

    /// Reads the descriptors of the request that begins at `head`.
    ///
    /// # Errors
    /// The guest breaks the rules.
    pub fn read_chain<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        head: u16,
        chain: &mut Chain,
    ) -> Result<(), RingError> {
        chain.readable.clear();
        chain.writable.clear();
        let mut table = Table { at: self.place.descriptors, size: self.size.into() };
        let (mut index, mut left, mut is_indirect) = (u32::from(head), table.size, false);
        let mut all_bytes = 0_u32;
        loop {
            if left == 0 {
                return Err(RingError::Loop);
            }
            left -= 1;
            let descriptor = table.read(memory, index)?;
            if descriptor.flags & INDIRECT != 0 {
                if is_indirect || descriptor.flags & NEXT != 0 {
                    return Err(RingError::Indirect);
                }
                table = Table::of(memory, &descriptor)?;
                (index, left, is_indirect) = (0, table.size, true);
                continue;
            }
            let Descriptor { at, bytes, flags, next } = descriptor;
            all_bytes = all_bytes.checked_add(bytes).ok_or(RingError::TooLong)?;
            let access = if flags & WRITE == 0 { Permissions::Read } else { Permissions::Write };
            if !memory.check_range(GuestAddress(at), bytes as usize, access) {
                return Err(RingError::Address(at));
            }
            match flags & WRITE {
                0 if !chain.writable.is_empty() => return Err(RingError::Order),
                0 => chain.readable.push(Segment { at, bytes }),
                _ => chain.writable.push(Segment { at, bytes }),
            }
            if flags & NEXT == 0 {
                return Ok(());
            }
            index = next.into();
        }
    }

    /// Puts a request among the used ones. `written` is the number of bytes that the device wrote.
    ///
    /// # Errors
    /// The memory of the ring is gone.
    pub fn push_used<M: GuestMemory + ?Sized>(
        &mut self,
        memory: &M,
        head: u16,
        written: u32,
    ) -> Result<(), RingError> {
        let at = self.place.used + 4 + 8 * u64::from(self.next_used % self.size);
        let element = u64::from(head) | u64::from(written) << 32;
        memory
            .write_slice(&element.to_le_bytes(), GuestAddress(at))
            .map_err(|_| RingError::Address(at))?;
        self.next_used = self.next_used.wrapping_add(1);
        self.store(memory, self.place.used + 2, self.next_used, Ordering::Release)
    }

    /// Returns true if the guest wants to be told of what was used since the last call.
    ///
    /// # Errors
    /// The memory of the ring is gone.
    pub fn wants_call<M: GuestMemory + ?Sized>(&mut self, memory: &M) -> Result<bool, RingError> {
        let before = std::mem::replace(&mut self.called_at, self.next_used);
        if before == self.next_used {
            return Ok(false);
        }
        // The guest must see what is used before its wish is read.
        fence(Ordering::SeqCst);
        if !self.has_event_index {
            let flags = self.load(memory, self.place.available, Ordering::Relaxed)?;
            return Ok(flags & NO_INTERRUPT == 0);
        }
        let place = self.place.available + 4 + 2 * u64::from(self.size);
        let wanted_after = self.load(memory, place, Ordering::Relaxed)?;
        let since = self.next_used.wrapping_sub(wanted_after).wrapping_sub(1);
        Ok(since < self.next_used.wrapping_sub(before))
    }

    /// Asks the guest to kick when it makes something available. Returns true if something is
    /// available already, for which no kick comes.
    ///
    /// # Errors
    /// The guest breaks the rules.
    pub fn want_kicks<M: GuestMemory + ?Sized>(&mut self, memory: &M) -> Result<bool, RingError> {
        if self.has_event_index {
            let place = self.place.used + 4 + 8 * u64::from(self.size);
            self.store(memory, place, self.next_available, Ordering::Relaxed)?;
        } else {
            self.store(memory, self.place.used, 0, Ordering::Relaxed)?;
        }
        // The guest must see the wish before its ring is looked at again.
        fence(Ordering::SeqCst);
        Ok(self.available(memory)? > 0)
    }

    /// Lets the guest know that it need not kick until [`Self::want_kicks`].
    ///
    /// # Errors
    /// The memory of the ring is gone.
    pub fn want_no_kicks<M: GuestMemory + ?Sized>(&mut self, memory: &M) -> Result<(), RingError> {
        // With numbers of events the last one is behind what is available.
        if self.has_event_index {
            return Ok(());
        }
        self.store(memory, self.place.used, NO_NOTIFY, Ordering::Relaxed)
    }

    fn used_index<M: GuestMemory + ?Sized>(&self, memory: &M) -> Result<u16, RingError> {
        self.load(memory, self.place.used + 2, Ordering::Acquire)
    }

    fn load<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        at: u64,
        order: Ordering,
    ) -> Result<u16, RingError> {
        let word: Result<u16, _> = memory.load(GuestAddress(at), order);
        word.map(u16::from_le).map_err(|_| RingError::Address(at))
    }

    fn store<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        at: u64,
        word: u16,
        order: Ordering,
    ) -> Result<(), RingError> {
        memory.store(word.to_le(), GuestAddress(at), order).map_err(|_| RingError::Address(at))
    }
}

/// A descriptor, copied out of the guest's memory.
#[derive(Clone, Copy, Debug)]
struct Descriptor {
    at: u64,
    bytes: u32,
    flags: u16,
    next: u16,
}

/// A table of descriptors.
#[derive(Clone, Copy, Debug)]
struct Table {
    at: u64,
    size: u32,
}

impl Table {
    /// Returns the table that a descriptor has.
    fn of<M: GuestMemory + ?Sized>(memory: &M, of: &Descriptor) -> Result<Self, RingError> {
        let size = of.bytes / DESCRIPTOR_BYTES as u32;
        let is_whole = of.bytes.is_multiple_of(DESCRIPTOR_BYTES as u32);
        if !is_whole || !(1..=u32::from(MAX_DESCRIPTORS)).contains(&size) {
            return Err(RingError::Indirect);
        }
        if !memory.check_range(GuestAddress(of.at), of.bytes as usize, Permissions::Read) {
            return Err(RingError::Address(of.at));
        }
        Ok(Self { at: of.at, size })
    }

    fn read<M: GuestMemory + ?Sized>(
        &self,
        memory: &M,
        index: u32,
    ) -> Result<Descriptor, RingError> {
        if index >= self.size {
            return Err(RingError::Index { index, size: self.size });
        }
        let at = self.at + DESCRIPTOR_BYTES * u64::from(index);
        let mut bytes = [0; DESCRIPTOR_BYTES as usize];
        memory.read_slice(&mut bytes, GuestAddress(at)).map_err(|_| RingError::Address(at))?;
        let word = u128::from_le_bytes(bytes);
        Ok(Descriptor {
            at: word as u64,
            bytes: (word >> 64) as u32,
            flags: (word >> 96) as u16,
            next: (word >> 112) as u16,
        })
    }
}
