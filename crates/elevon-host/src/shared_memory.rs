//! Memory that a guest shares by file descriptors.
//!
//! The guest keeps the files. It may write to every byte at any time, so no slice is lent: bytes
//! are copied by [`vm_memory`], or go between the device and the memory by the kernel. It may also
//! cut a file, and then an access ends in SIGBUS. A handler of this signal puts zeroes in place of
//! the region, and marks it as vanished.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use elevon_core::units::TaskId;
use vm_memory::{
    FileOffset, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap, GuestMemoryRegion as _,
    GuestRegionMmap,
};

use crate::Host;

/// A region of the memory of a guest, mapped.
#[derive(Debug)]
pub struct SharedRegion {
    map: Arc<GuestRegionMmap>,
    watch: Watch,
    /// The front end's virtual address of its first byte.
    user: u64,
}

impl SharedRegion {
    /// Maps `bytes` of a file from `offset` on, which are at `guest` of the guest's physical memory
    /// and at `user` of the front end's virtual memory.
    ///
    /// # Errors
    /// The file is shorter or cannot be mapped.
    pub fn map(
        file: OwnedFd,
        offset: u64,
        bytes: u64,
        guest: u64,
        user: u64,
    ) -> io::Result<Arc<Self>> {
        let length = usize::try_from(bytes).map_err(io::Error::other)?;
        let file = File::from(file);
        let about = file.metadata()?;
        if about.is_file() && offset.checked_add(bytes).is_none_or(|end| end > about.len()) {
            return Err(io::Error::other("the file of a region of memory is shorter than it"));
        }
        let file = FileOffset::new(file, offset);
        let map = GuestRegionMmap::from_range(GuestAddress(guest), length, Some(file));
        let map = Arc::new(map.map_err(io::Error::other)?);
        let watch = Watch::new(map.as_ptr() as usize, length)?;
        Ok(Arc::new(Self { map, watch, user }))
    }

    /// Returns the guest's physical address of its first byte.
    pub fn guest(&self) -> u64 {
        self.map.start_addr().0
    }

    /// Returns its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.map.len()
    }

    /// Returns the front end's virtual address of its first byte.
    pub const fn user(&self) -> u64 {
        self.user
    }
}

/// All of the memory of a guest.
#[derive(Debug)]
pub struct SharedMemory {
    map: GuestMemoryMmap,
    regions: Vec<Arc<SharedRegion>>,
}

impl SharedMemory {
    /// Puts regions together.
    ///
    /// # Errors
    /// They overlap, or there is none.
    pub fn new(mut regions: Vec<Arc<SharedRegion>>) -> io::Result<Self> {
        regions.sort_by_key(|region| region.guest());
        let maps = regions.iter().map(|region| Arc::clone(&region.map)).collect();
        let map = GuestMemoryMmap::from_arc_regions(maps).map_err(io::Error::other)?;
        Ok(Self { map, regions })
    }

    /// Returns the mapped memory, by the guest's physical addresses.
    pub const fn map(&self) -> &GuestMemoryMmap {
        &self.map
    }

    /// Returns its regions, by their physical addresses.
    pub fn regions(&self) -> &[Arc<SharedRegion>] {
        &self.regions
    }

    /// Returns the guest's physical address of a virtual address of the front end.
    pub fn guest_of(&self, user: u64) -> Option<u64> {
        self.regions.iter().find_map(|region| {
            let within = user.checked_sub(region.user).filter(|within| *within < region.bytes())?;
            Some(region.guest() + within)
        })
    }

    /// Returns true if a file was cut and a part of its region was accessed. What is in that
    /// region is not the guest's any more.
    pub fn has_vanished(&self) -> bool {
        self.regions.iter().any(|region| region.watch.has_vanished())
    }

    /// Returns the memory at these physical addresses and of these lengths, for the buffer of an
    /// I/O. `None` if a part of it is not there.
    pub fn lend(
        self: &Arc<Self>,
        segments: impl Iterator<Item = (u64, usize)>,
    ) -> Option<LentMemory> {
        let part = |(at, bytes)| {
            let slice = self.map.get_slice(GuestAddress(at), bytes).ok()?;
            Some((slice.ptr_guard_mut().as_ptr(), bytes))
        };
        let parts = segments.map(part).collect::<Option<Vec<_>>>()?;
        Some(LentMemory { _memory: Arc::clone(self), parts })
    }
}

/// Memory of a guest that takes the place of a buffer of I/O. It stays mapped as long as this is
/// there.
#[derive(Debug)]
pub struct LentMemory {
    _memory: Arc<SharedMemory>,
    parts: Vec<(*mut u8, usize)>,
}

// SAFETY: the addresses are of a mapping that is kept; only the kernel is given them.
unsafe impl Send for LentMemory {}

impl LentMemory {
    /// Yields the parts of `bytes` of it, from byte `from` on. They are fewer if it ends before.
    pub(crate) fn range(
        &self,
        from: usize,
        bytes: usize,
    ) -> impl Iterator<Item = (*mut u8, usize)> + '_ {
        let (mut skip, mut left) = (from, bytes);
        self.parts.iter().filter_map(move |&(start, length)| {
            let skipped = skip.min(length);
            skip -= skipped;
            let taken = left.min(length - skipped);
            left -= taken;
            (taken > 0).then(|| (start.wrapping_add(skipped), taken))
        })
    }

    /// Returns its length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(|(_, bytes)| bytes).sum()
    }
}

impl Host {
    /// Puts memory of a guest in place of the buffer of a task's I/O, so that bytes go between it
    /// and the device without a copy. The buffer has no I/O in flight.
    ///
    /// # Panics
    /// If a command is in flight, or there is no such buffer.
    pub fn lend(&mut self, task: TaskId, token: u64, memory: LentMemory) {
        if !self.is_broken() {
            self.buffers.lend(task, token, memory);
        }
    }

    /// Takes the memory of a guest away again. Returns false if there was none.
    ///
    /// # Panics
    /// If a command is in flight.
    pub fn take_back(&mut self, task: TaskId, token: u64) -> bool {
        !self.is_broken() && self.buffers.take_back(task, token)
    }
}

/// Maximum number of regions that are watched at a time.
const MAX_WATCHED: usize = 8192;

/// A region as the handler of SIGBUS finds it: its first byte, 0 if there is none, and the byte
/// behind it.
struct Watched {
    start: AtomicUsize,
    end: AtomicUsize,
    has_vanished: AtomicBool,
}

static WATCHED: [Watched; MAX_WATCHED] = [const {
    Watched {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        has_vanished: AtomicBool::new(false),
    }
}; MAX_WATCHED];

/// Used instead of the first byte of a region while an entry is filled in: no address.
const TAKEN: usize = usize::MAX;

/// Keeps a region known to the handler of SIGBUS.
#[derive(Debug)]
struct Watch(usize);

impl Watch {
    fn new(start: usize, bytes: usize) -> io::Result<Self> {
        install_handler()?;
        let take = |entry: &Watched| {
            entry.start.compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let index = WATCHED
            .iter()
            .position(take)
            .ok_or_else(|| io::Error::other("guests share more than 8192 regions of memory"))?;
        let entry = &WATCHED[index];
        entry.has_vanished.store(false, Ordering::Relaxed);
        entry.end.store(start + bytes, Ordering::Release);
        entry.start.store(start, Ordering::Release);
        Ok(Self(index))
    }

    fn has_vanished(&self) -> bool {
        WATCHED[self.0].has_vanished.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHED[self.0].start.store(0, Ordering::Release);
    }
}

/// Installs the handler of SIGBUS, once.
fn install_handler() -> io::Result<()> {
    static ONCE: Once = Once::new();
    let mut result = Ok(());
    ONCE.call_once(|| {
        // SAFETY: zeroes are a valid structure, and its fields are set below; the handler only
        // uses atomics and system calls.
        let failed = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_bus_error as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut())
        };
        if failed != 0 {
            result = Err(io::Error::last_os_error());
        }
    });
    result
}

/// Puts zeroes in place of the region of the address that cannot be accessed. For any other address
/// the signal ends the process, as it would without a handler.
extern "C" fn on_bus_error(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid structure.
    let address = unsafe { (*info).si_addr() } as usize;
    for entry in &WATCHED {
        let start = entry.start.load(Ordering::Acquire);
        let end = entry.end.load(Ordering::Acquire);
        if start == 0 || start == TAKEN || !(start..end).contains(&address) {
            continue;
        }
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
        );
        // SAFETY: the region is mapped as long as it is watched, and nothing refers to its bytes.
        let mapped =
            unsafe { libc::mmap(start as *mut libc::c_void, end - start, access, kind, -1, 0) };
        if mapped != libc::MAP_FAILED {
            entry.has_vanished.store(true, Ordering::Relaxed);
            return;
        }
    }
    // SAFETY: a plain number. The access is repeated after the return, and ends the process.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use vm_memory::Bytes as _;

    use super::*;

    const PAGE: u64 = 4096;

    fn memory(pages: u64) -> (File, Arc<SharedMemory>) {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(pages * PAGE).expect("its length");
        let fd = file.as_fd().try_clone_to_owned().expect("a descriptor");
        let region = SharedRegion::map(fd, 0, pages * PAGE, 0x1000, 0x7000_0000).expect("a map");
        (file, Arc::new(SharedMemory::new(vec![region]).expect("memory")))
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn a_file_that_is_cut_reads_as_zeroes_and_is_known_to_have_vanished() {
        let (file, memory) = memory(4);
        let last = GuestAddress(0x1000 + 3 * PAGE);
        memory.map().write_slice(b"data", last).expect("it is there");
        assert!(!memory.has_vanished());
        file.set_len(PAGE).expect("cut");
        let mut bytes = *b"????";
        memory.map().read_slice(&mut bytes, last).expect("it is mapped");
        assert_eq!((bytes, memory.has_vanished()), ([0; 4], true));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn a_file_that_is_too_short_is_not_mapped() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(2 * PAGE).expect("its length");
        let map = |offset, bytes| {
            let fd = file.as_fd().try_clone_to_owned().expect("a descriptor");
            SharedRegion::map(fd, offset, bytes, 0, 0)
        };
        assert!(map(PAGE, PAGE).is_ok());
        assert!(map(PAGE, PAGE + 1).is_err() && map(u64::MAX - 4095, PAGE).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn only_memory_that_is_there_is_lent() {
        let (_file, memory) = memory(2);
        assert_eq!(memory.guest_of(0x7000_1234), Some(0x2234));
        assert_eq!(memory.guest_of(0x7000_2000), None);
        let lent = memory.lend([(0x2000, 4096), (0x1000, 100)].into_iter()).expect("it is there");
        let ranges: Vec<usize> = lent.range(4000, 150).map(|(_, bytes)| bytes).collect();
        assert_eq!((ranges, lent.bytes()), (vec![96, 54], 4196));
        assert!(memory.lend([(0x2000, 4097)].into_iter()).is_none());
        assert!(memory.lend([(u64::MAX, 2)].into_iter()).is_none());
    }
}
