//! Anonymous memory of whole pages, which the machine gives when a page is first touched.

use std::ptr::NonNull;

use elevon_core::units::PAGE_SIZE;

/// A mapping, all zero at first.
#[derive(Debug)]
pub(crate) struct Mapping {
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
    pub(crate) fn new(bytes: usize) -> std::io::Result<Self> {
        let out_of_memory = || std::io::Error::from_raw_os_error(libc::ENOMEM);
        let bytes = bytes.max(1).checked_next_multiple_of(PAGE_SIZE as usize).ok_or_else(out_of_memory)?;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh anonymous mapping, of a length above zero, overlaps nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Self { start: NonNull::new(start.cast()).ok_or_else(out_of_memory)?, bytes, is_kept: false })
    }

    /// Returns where it begins. Whoever uses the address keeps to [`Self::len`], and lends no
    /// slice of what the kernel may be changing.
    pub(crate) const fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Returns its length in bytes.
    pub(crate) const fn len(&self) -> usize {
        self.bytes
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
