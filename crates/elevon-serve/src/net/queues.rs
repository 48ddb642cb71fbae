//! Queues in memory that a client shares, as the thread of its device sees them: requests are taken
//! from there, and their data is there.

use std::io;
use std::os::fd::OwnedFd;

use elevon_core::status::Status;
use elevon_host::LentMemory;

use super::protocol::Step;
use crate::request::DiskRequest;

/// The queues of a client.
pub(crate) trait Queues: Send {
    /// Takes the next request. [`Step::More`]: none is available, and the bell rings when one is. A
    /// request that is refused has been answered.
    fn take(&mut self) -> Step;

    /// Returns the memory of `bytes` of the data of a request, from byte `from` on, if a device may
    /// read and write it directly: it is made of whole pages.
    fn lend(&self, request: &DiskRequest, from: u64, bytes: u64) -> Option<LentMemory>;

    /// Copies data of a WRITE, from byte `from` on.
    fn copy_from(&self, request: &DiskRequest, from: u64, into: &mut [u8]);

    /// Copies data to a READ, from byte `from` on.
    fn copy_to(&self, request: &DiskRequest, from: u64, bytes: &[u8]);

    /// Ends a request.
    fn finish(&mut self, request: &DiskRequest, status: Status);

    /// Tells the client of requests that have ended, if it wants to know.
    fn tell(&mut self);

    /// Returns a descriptor that is readable when requests may be available.
    ///
    /// # Errors
    /// No descriptor is left.
    fn bell(&self) -> io::Result<OwnedFd>;

    /// Makes the bell silent until it rings again.
    fn silence(&self);

    /// Returns a way to wait for the bell in a thread, for a device without a ring.
    fn waiter(&self) -> Box<dyn BellWaiter>;
}

/// Waits for the bell of queues.
pub(crate) trait BellWaiter: Send {
    /// Waits until the bell rings, and makes it silent. Returns false if the queues are gone.
    fn wait(&self) -> bool;
}
