//! Buffers that are registered with the ring. The kernel has looked their pages up and keeps them,
//! so that direct I/O does not have to do that each time.
//!
//! The ring's table is sparse: a buffer gets an entry with its first direct I/O, for as many bytes
//! as that needs, so that no memory is kept that was not used. It loses the entry before its memory
//! is given back: the kernel would go on to use the old pages.

use io_uring::Submitter;

/// Entries of the table: as many as the kernel allows.
const MAX_ENTRIES: u16 = 1 << 14;

/// Most bytes that the kernel takes for one entry.
const MAX_ENTRY_BYTES: usize = 1 << 30;

/// The entry of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    pub(crate) index: u16,
    /// The first bytes of the buffer, for which it holds.
    pub(crate) bytes: usize,
}

/// The table of registered buffers of a ring.
#[derive(Debug, Default)]
pub(crate) struct RegisteredTable {
    /// Entries without a buffer; `None` before the kernel has the table.
    free: Option<Vec<u16>>,
    /// The kernel has refused an entry (the limit of locked memory, `RLIMIT_MEMLOCK`). It is not
    /// asked again until an entry was released.
    is_refused: bool,
}

impl RegisteredTable {
    /// Makes sure that the first bytes of the buffer at `start` are registered, and returns the
    /// index of its entry. `None`: plain addresses have to be used. `known` is the entry of the
    /// buffer.
    ///
    /// # Safety
    /// The bytes are there until the entry was released.
    pub(crate) unsafe fn cover(
        &mut self,
        ring: &Submitter<'_>,
        known: &mut Option<Registered>,
        start: *mut u8,
        bytes: usize,
    ) -> Option<u16> {
        if let Some(known) = known
            && known.bytes >= bytes
        {
            return Some(known.index);
        }
        if self.is_refused || bytes > MAX_ENTRY_BYTES {
            return None;
        }
        let index = match known {
            Some(known) => known.index,
            None => self.take_entry(ring)?,
        };
        if update(ring, index, start, bytes) {
            *known = Some(Registered { index, bytes });
            return Some(index);
        }
        *known = None;
        self.release(ring, index);
        self.is_refused = true;
        None
    }

    fn take_entry(&mut self, ring: &Submitter<'_>) -> Option<u16> {
        let make = || match ring.register_buffers_sparse(MAX_ENTRIES.into()) {
            Ok(()) => (0..MAX_ENTRIES).rev().collect(),
            // Linux before 5.19 has no sparse tables.
            Err(_) => Vec::new(),
        };
        self.free.get_or_insert_with(make).pop()
    }

    /// Empties an entry.
    pub(crate) fn release(&mut self, ring: &Submitter<'_>, index: u16) {
        // An entry that cannot be emptied is not used again.
        if update(ring, index, std::ptr::null_mut(), 0) {
            self.free.get_or_insert_default().push(index);
            self.is_refused = false;
        }
    }
}

/// Sets an entry, which what is in flight does not notice. Returns false if the kernel refuses.
fn update(ring: &Submitter<'_>, index: u16, start: *mut u8, bytes: usize) -> bool {
    let buffer = libc::iovec { iov_base: start.cast(), iov_len: bytes };
    // SAFETY: the bytes are there until the entry is released, by the contract of `cover`, or there
    // are none.
    unsafe { ring.register_buffers_update(index.into(), &[buffer], None) }.is_ok()
}

#[cfg(test)]
mod tests {
    use io_uring::IoUring;

    use super::*;
    use crate::mapping::Mapping;

    /// Covers the first bytes of a mapping.
    fn cover(
        table: &mut RegisteredTable,
        ring: &IoUring,
        known: &mut Option<Registered>,
        memory: &Mapping,
        bytes: usize,
    ) -> Option<u16> {
        // SAFETY: the callers keep their mappings until the ring is dropped.
        unsafe { table.cover(&ring.submitter(), known, memory.start(), bytes) }
    }

    #[test]
    fn an_entry_grows_and_is_used_again_and_a_refusal_holds_until_one_is_released() {
        let ring = match IoUring::new(8) {
            Ok(ring) => ring,
            Err(error) => {
                return elevon_testkit::denied(&format!("io_uring is denied here: {error}"));
            }
        };
        let memory = Mapping::new(1 << 20).expect("memory");
        let mut table = RegisteredTable::default();
        let (mut one, mut other, mut third) = (None, None, None);
        assert_eq!(cover(&mut table, &ring, &mut one, &memory, 4096), Some(0));
        assert_eq!(cover(&mut table, &ring, &mut other, &memory, 4096), Some(1));
        assert_eq!(cover(&mut table, &ring, &mut one, &memory, 8192), Some(0));
        assert_eq!(cover(&mut table, &ring, &mut one, &memory, 4096), Some(0));
        assert_eq!(one, Some(Registered { index: 0, bytes: 8192 }));
        assert_eq!(cover(&mut table, &ring, &mut one, &memory, MAX_ENTRY_BYTES + 1), None);
        assert_eq!(one.map(|entry| entry.bytes), Some(8192), "what is too long changes nothing");

        let nowhere = std::ptr::without_provenance_mut(4096);
        // SAFETY: the kernel refuses an address at which there is no memory.
        assert_eq!(unsafe { table.cover(&ring.submitter(), &mut other, nowhere, 8192) }, None);
        assert_eq!(other, None, "its entry may not hold any more");
        assert_eq!(
            cover(&mut table, &ring, &mut third, &memory, 4096),
            None,
            "the kernel is not asked again"
        );
        assert_eq!(
            cover(&mut table, &ring, &mut one, &memory, 8192),
            Some(0),
            "what is known stays"
        );
        table.release(&ring.submitter(), 0);
        assert_eq!(cover(&mut table, &ring, &mut third, &memory, 4096), Some(0));
        drop(ring);
    }
}
