//! What a server needs of a device besides a clock and I/O.

use std::io;

use elevon_core::op::Op;
use elevon_host::{Alarm, Host};
use elevon_nbd::Extent;
use elevon_workload::backend::Backend;

/// A device that can be served.
pub trait Disk: Backend {
    /// Returns the alarm by which another thread ends [`Backend::wait`].
    ///
    /// # Errors
    /// No descriptor can be created.
    fn alarm(&mut self) -> io::Result<Alarm>;

    /// Returns which parts of a range are allocated, in bytes, one after the other. They cover the
    /// range.
    fn extents(&self, offset: u64, bytes: u64) -> Vec<Extent>;

    /// Returns the operation that makes a range read as zeroes; `no_hole`: it stays allocated.
    /// `None`: zeroes are to be written as data.
    fn zero(&self, no_hole: bool) -> Option<Op>;

    /// Returns the host that carries out the I/O, if it is one: sockets of clients may be served by
    /// its ring.
    fn host(&mut self) -> Option<&mut Host> {
        None
    }

    /// Returns why I/O no longer reaches the device, if that is so.
    fn failure(&self) -> Option<String> {
        None
    }
}

impl Disk for Host {
    fn alarm(&mut self) -> io::Result<Alarm> {
        Self::alarm(self)
    }

    fn extents(&self, offset: u64, bytes: u64) -> Vec<Extent> {
        let parts = self.file().allocation(offset, bytes);
        parts.map(|part| Extent { length: part.bytes, hole: part.is_hole, zero: part.is_hole }).collect()
    }

    fn zero(&self, no_hole: bool) -> Option<Op> {
        // A hole of a file reads as zeroes; what a block device discards may not.
        Some(if !self.file().is_block_device && !no_hole { Op::Discard } else { Op::WriteZeroes })
    }

    fn host(&mut self) -> Option<&mut Host> {
        Some(self)
    }

    fn failure(&self) -> Option<String> {
        Self::failure(self)
    }
}
