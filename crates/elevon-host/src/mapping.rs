//! Anonymous memory of whole pages, which the machine gives when a page is first touched.

use std::ptr::NonNull;

use elevon_core::units::PAGE_SIZE;

/// A mapping, all zero at first.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    /// It is not unmapped at the end.
    is_kept: bool,
}

// SAFETY: the mapping owns its memory; nothing about it is bound to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps at least so many bytes, in whole pages.
    ///
    /// # Errors
    /// The machine has not enough memory.
    pub fn new(bytes: usize) -> std::io::Result<Self> {
        let out_of_memory = || std::io::Error::from_raw_os_error(libc::ENOMEM);
        let bytes =
            bytes.max(1).checked_next_multiple_of(PAGE_SIZE as usize).ok_or_else(out_of_memory)?;
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh anonymous mapping, of a length above zero, overlaps nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Self {
            start: NonNull::new(start.cast()).ok_or_else(out_of_memory)?,
            bytes,
            is_kept: false,
        })
    }

    /// Returns its bytes: as many as were asked for, and those up to the end of the page.
    pub const fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping's own memory, which is initialised, borrowed as the mapping is. A
        // caller that has the kernel write to it keeps the mapping to itself.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// Returns where it begins. A caller that uses the address keeps to [`Self::len`], and lends no
    /// slice of what the kernel may be changing.
    pub(crate) const fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Returns its length in bytes.
    pub(crate) const fn len(&self) -> usize {
        self.bytes
    }

    /// Gives back the memory of the whole pages of a range, whose bytes are zero then. Nothing but
    /// the caller may be using them.
    pub fn give_back(&mut self, range: std::ops::Range<usize>) {
        let page = PAGE_SIZE as usize;
        let (from, to) =
            (range.start.next_multiple_of(page), range.end.min(self.bytes) / page * page);
        if from < to {
            // SAFETY: whole pages inside the mapping, which is borrowed. An error means that they
            // stay.
            unsafe {
                let start = self.start().add(from);
                if cfg!(miri) {
                    // Miri has no madvise.
                    start.write_bytes(0, to - from);
                } else {
                    libc::madvise(start.cast(), to - from, libc::MADV_DONTNEED);
                }
            }
        }
    }

    /// Lets the memory stay mapped for good, since the kernel may still be using it.
    pub(crate) const fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if !self.is_kept {
            // SAFETY: mapped in `Mapping::new` with this length, unmapped once.
            unsafe { libc::munmap(self.start().cast(), self.bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = PAGE_SIZE as usize;

    /// Returns how many pages of it the machine holds.
    fn resident(mapping: &Mapping) -> usize {
        let mut pages = vec![0_u8; mapping.len() / PAGE];
        // SAFETY: the mapping's own pages, and a byte for each.
        let result =
            unsafe { libc::mincore(mapping.start().cast(), mapping.len(), pages.as_mut_ptr()) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        pages.iter().filter(|&&page| page & 1 == 1).count()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no mincore")]
    fn what_is_given_back_takes_no_memory_and_what_lies_before_it_stays() {
        let mut mapping = Mapping::new(8 * PAGE).expect("memory");
        assert_eq!(resident(&mapping), 0);
        // SAFETY: inside the mapping.
        unsafe { mapping.start().write_bytes(7, 8 * PAGE) };
        assert_eq!(resident(&mapping), 8);
        mapping.give_back(8 * PAGE..9 * PAGE);
        mapping.give_back(PAGE + 1..3 * PAGE - 1);
        assert_eq!(resident(&mapping), 8);
        mapping.give_back(5 * PAGE..6 * PAGE);
        assert_eq!(resident(&mapping), 7);
        mapping.give_back(PAGE + 1..8 * PAGE);
        assert_eq!(resident(&mapping), 2);
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(mapping.start(), 8 * PAGE) };
        assert!(
            bytes[..2 * PAGE].iter().all(|&byte| byte == 7)
                && bytes[2 * PAGE..].iter().all(|&byte| byte == 0)
        );
    }
}
