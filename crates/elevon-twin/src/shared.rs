//! The memory that a clock shares with its kernel, in place of most messages.
//!
//! Source of its form: the header `linux/um_timetravel.h`, an interface of the kernel.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use elevon_core::units::Instant;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

/// The number of the clock itself among those that can run.
pub(crate) const CONTROLLER: u16 = 0;
/// The number of the kernel.
pub(crate) const CLIENT: u16 = 1;

const VERSION: u32 = 2;
/// Length of the head, after which each client has its part.
const HEAD: usize = 4096;
const CLIENT_BYTES: usize = 128;
const CLIENTS: u16 = 2;
const BYTES: usize = HEAD + CLIENT_BYTES * CLIENTS as usize;

/// Offsets in the head.
const LENGTH: usize = 4;
const LIMIT: usize = 8;
const NOW: usize = 16;
const RUNNING: usize = 24;
const MAX_CLIENTS: usize = 26;
/// Offsets in a client's part.
const CAPABILITIES: usize = 0;
const FLAGS: usize = 4;
const WANTED: usize = 8;

/// Capability of a client: it uses the memory in place of messages.
const TIME_SHARE: u32 = 1;
/// Flag of a client: it wants to run at the time that it has set.
const WANTS_RUN: u32 = 1;

/// The memory, with the descriptors that the kernel is given.
#[derive(Debug)]
pub(crate) struct SharedClock {
    memory: MmapRegion,
    file: OwnedFd,
    log: File,
}

/// Returns the offset of a value in a client's part.
const fn of_client(client: u16, value: usize) -> usize {
    HEAD + CLIENT_BYTES * client as usize + value
}

impl SharedClock {
    /// Makes the memory of a clock at zero. What the kernel logs is dropped.
    ///
    /// # Errors
    /// No memory can be shared.
    pub(crate) fn new() -> io::Result<Self> {
        let file = memfd_create("elevon-clock", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, BYTES as u64)?;
        let offset = FileOffset::new(File::from(file.try_clone()?), 0);
        let memory = MmapRegion::from_file(offset, BYTES).map_err(io::Error::other)?;
        let log = File::options().write(true).open("/dev/null")?;
        let clock = Self { memory, file, log };
        clock.set(0, VERSION);
        clock.set(LENGTH, BYTES as u32);
        clock.set(MAX_CLIENTS, CLIENTS);
        clock.set(of_client(CONTROLLER, CAPABILITIES), TIME_SHARE);
        clock.set_running(CLIENT);
        Ok(clock)
    }

    /// Returns the descriptors that the kernel is given: the memory and a file for its log.
    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.file.as_fd(), self.log.as_fd()]
    }

    fn set<T: vm_memory::AtomicAccess>(&self, at: usize, value: T) {
        let memory = self.memory.as_volatile_slice();
        memory.store(value, at, Ordering::SeqCst).expect("a value inside the memory");
    }

    fn get<T: vm_memory::AtomicAccess>(&self, at: usize) -> T {
        let memory = self.memory.as_volatile_slice();
        memory.load(at, Ordering::SeqCst).expect("a value inside the memory")
    }

    /// Returns true if the kernel uses the memory.
    pub(crate) fn is_used(&self) -> bool {
        self.get::<u32>(of_client(CLIENT, CAPABILITIES)) & TIME_SHARE != 0
    }

    /// Returns the time.
    pub(crate) fn now(&self) -> Instant {
        Instant::new(self.get(NOW))
    }

    pub(crate) fn set_now(&self, now: Instant) {
        self.set(NOW, now.get());
    }

    /// Sets the time up to which the kernel may set its clock.
    pub(crate) fn set_limit(&self, until: Instant) {
        self.set(LIMIT, until.get());
    }

    pub(crate) fn set_running(&self, client: u16) {
        self.set(RUNNING, client);
    }

    /// Returns when the kernel wants to run, if it does.
    pub(crate) fn wanted(&self) -> Option<Instant> {
        let wants = self.get::<u32>(of_client(CLIENT, FLAGS)) & WANTS_RUN != 0;
        wants.then(|| Instant::new(self.get(of_client(CLIENT, WANTED))))
    }
}

#[cfg(test)]
impl SharedClock {
    /// Does what a kernel does that uses the memory: it has set the time, and wants to run.
    pub(crate) fn pretend_client(&self, now: u64, wanted: Option<u64>) {
        self.set(of_client(CLIENT, CAPABILITIES), TIME_SHARE);
        self.set(of_client(CLIENT, FLAGS), u32::from(wanted.is_some()));
        self.set(of_client(CLIENT, WANTED), wanted.unwrap_or(0));
        self.set(NOW, now);
    }
}
