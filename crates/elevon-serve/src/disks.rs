//! The disks that a device may have, and what a server needs of one besides a clock and I/O.

pub(crate) mod faulty;
mod memory;
pub mod simulated;
mod slots;
pub(crate) mod upstream;

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::Sender;

use elevon_core::op::Op;
use elevon_core::status::Status;
use elevon_core::units::{Bytes, Sectors, TaskId};
use elevon_engine::Backend;
use elevon_host::{Alarm, Host};

use crate::log::Level;
use crate::request::Extent;

/// Extents of a file that are told at once: each takes up to two system calls in the thread of the
/// device. A client asks for those that follow.
const EXTENTS: usize = 32;

/// Which parts of a range are allocated.
pub enum Allocation {
    /// Extents in bytes, one after the other from the range's first byte on; at least one. They may
    /// end before the range does.
    Known(Vec<Extent>),
    /// [`Disk::poll_allocation`] will tell it under this number.
    Asked(u64),
}

/// A device that can be served.
pub trait Disk: Backend {
    /// Returns the alarm by which another thread ends [`Backend::wait`].
    ///
    /// # Errors
    /// No descriptor can be created.
    fn alarm(&mut self) -> io::Result<Alarm>;

    /// Returns which parts of a range are allocated, or asks for it.
    fn allocation(&mut self, offset: u64, bytes: u64) -> Allocation;

    /// Returns what was asked for by [`Self::allocation`] and is known now, with its number.
    fn poll_allocation(&mut self) -> Option<(u64, Result<Vec<Extent>, Status>)> {
        None
    }

    /// Returns the operation that makes a range read as zeroes; `no_hole`: it stays allocated.
    /// `None`: zeroes are to be written as data.
    fn zero(&self, no_hole: bool) -> Option<Op>;

    /// Returns true if [`Self::zero`] is faster than data of that length, or fails at once.
    fn zeroes_fast(&self) -> bool;

    /// Makes `slots` buffers of `bytes` each for a client's task, in place of those that it has,
    /// with tokens `0..slots`. None of them is in use.
    ///
    /// # Errors
    /// The machine has not enough memory. The task has no buffers then.
    fn make_buffers(&mut self, task: TaskId, slots: u32, bytes: u64) -> io::Result<()>;

    /// Gives back the memory of a buffer that is not in use. The buffer stays.
    fn empty_buffer(&mut self, task: TaskId, token: u64);

    /// Makes the frames of a page cache, before the first I/O.
    ///
    /// # Errors
    /// The machine has not enough memory.
    fn reserve_frames(&mut self, memory: Bytes) -> io::Result<()>;

    /// Returns the host that carries out the I/O, if it is one: sockets of clients may be served by
    /// its ring.
    fn host(&mut self) -> Option<&mut Host> {
        None
    }

    /// Returns the size of the disk as it is now, if it can grow while it is served. I/O may reach
    /// all of it from then on.
    fn grown(&mut self) -> Option<Sectors> {
        None
    }

    /// Returns why I/O no longer reaches the device, if that is so.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Returns true if no flush succeeds any more until the disk is opened again.
    fn is_lost(&self) -> bool {
        false
    }

    /// Opens the disk again, and forgets that a flush has failed. Tells how that ended. Returns
    /// false if it cannot be opened again.
    fn reopen(&mut self, answer: Sender<Result<(), String>>) -> bool {
        let words = "only a disk of another server can be opened again; start the server again";
        // The asking thread may be gone by now.
        drop(answer.send(Err(words.to_owned())));
        false
    }

    /// The server ends: what waits for a disk that is gone has not much time left.
    fn stop(&mut self) {}

    /// Returns how often each fault of the device has happened, by its name; nothing of a device
    /// that has none.
    fn faults(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }

    /// Makes these the rules of the device's faults.
    ///
    /// # Errors
    /// A rule is none, or the device cannot have its fault.
    fn set_faults(&mut self, _rules: &[String]) -> Result<(), String> {
        Err("this device has no faults".to_owned())
    }

    /// Returns the next line about what became of the disk, and how grave it is.
    fn poll_news(&mut self) -> Option<(Level, String)> {
        None
    }
}

impl Disk for Host {
    fn alarm(&mut self) -> io::Result<Alarm> {
        Self::alarm(self)
    }

    fn allocation(&mut self, offset: u64, bytes: u64) -> Allocation {
        let parts = self.file().allocation(offset, bytes).take(EXTENTS);
        Allocation::Known(
            parts
                .map(|part| Extent { length: part.bytes, hole: part.is_hole, zero: part.is_hole })
                .collect(),
        )
    }

    fn zero(&self, no_hole: bool) -> Option<Op> {
        // A hole of a file reads as zeroes; what a block device discards may not.
        let is_file = self.file().parts().all(|part| !part.is_block_device);
        Some(if is_file && !no_hole { Op::Discard } else { Op::WriteZeroes })
    }

    fn zeroes_fast(&self) -> bool {
        // The kernel writes zeroes as data to a block device that cannot make them.
        !self.file().parts().any(|part| part.is_block_device)
    }

    fn make_buffers(&mut self, task: TaskId, slots: u32, bytes: u64) -> io::Result<()> {
        Self::make_buffers(self, task, slots, bytes)
    }

    fn empty_buffer(&mut self, task: TaskId, token: u64) {
        Self::empty_buffer(self, task, token);
    }

    fn reserve_frames(&mut self, memory: Bytes) -> io::Result<()> {
        Self::reserve_frames(self, memory)
    }

    fn host(&mut self) -> Option<&mut Host> {
        Some(self)
    }

    fn grown(&mut self) -> Option<Sectors> {
        Self::grown(self)
    }

    fn failure(&self) -> Option<String> {
        Self::failure(self)
    }

    fn is_lost(&self) -> bool {
        Self::is_lost(self)
    }
}
