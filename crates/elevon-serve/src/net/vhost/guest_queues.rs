//! The rings of a guest, as the thread of its device uses them.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use elevon_core::status::Status;
use elevon_core::units::PAGE_SIZE;
use elevon_host::LentMemory;

use super::rings::Flight;
use super::shared_rings::SharedRings;
use crate::net::protocol::Step;
use crate::net::queues::{BellWaiter, Queues};
use crate::request::DiskRequest;

/// The rings of a guest, for the thread of its device.
pub(super) struct GuestQueues {
    shared: Arc<SharedRings>,
    /// The connection, which ends with this.
    socket: UnixStream,
}

impl GuestQueues {
    pub(super) const fn new(shared: Arc<SharedRings>, socket: UnixStream) -> Self {
        Self { shared, socket }
    }
}

impl Queues for GuestQueues {
    fn take(&mut self) -> Step {
        let mut rings = self.shared.lock();
        let step = rings.take();
        // A request that was refused has ended.
        if matches!(step, Step::Refused { .. } | Step::Continue | Step::Fail(_)) {
            self.shared.on_ended(rings);
        }
        step
    }

    fn lend(&self, request: &DiskRequest, from: u64, bytes: u64) -> Option<LentMemory> {
        let rings = self.shared.lock();
        let Flight { request, memory } = rings.flight(request);
        let is_whole = |at: u64| at.is_multiple_of(PAGE_SIZE);
        let has_pages = request
            .segments(from, bytes)
            .all(|segment| is_whole(segment.at) && is_whole(segment.bytes.into()));
        let segments = request.segments(from, bytes);
        let lend = || memory.lend(segments.map(|segment| (segment.at, segment.bytes as usize)));
        has_pages.then(lend).flatten()
    }

    fn copy_from(&self, request: &DiskRequest, from: u64, into: &mut [u8]) {
        let rings = self.shared.lock();
        let Flight { request, memory } = rings.flight(request);
        // Its descriptors were in the memory when it was taken.
        let _ = request.copy_from(memory.map(), from, into);
    }

    fn copy_to(&self, request: &DiskRequest, from: u64, bytes: &[u8]) {
        let rings = self.shared.lock();
        let Flight { request, memory } = rings.flight(request);
        let _ = request.copy_to(memory.map(), from, bytes);
    }

    fn finish(&mut self, request: &DiskRequest, status: Status) {
        let mut rings = self.shared.lock();
        rings.finish(request, status);
        self.shared.on_ended(rings);
    }

    fn tell(&mut self) {
        self.shared.lock().tell();
    }

    fn bell(&self) -> io::Result<OwnedFd> {
        self.shared.bell()
    }

    fn silence(&self) {
        self.shared.silence(false);
    }

    fn waiter(&self) -> Box<dyn BellWaiter> {
        Box::new(Waiter(Arc::clone(&self.shared)))
    }
}

impl Drop for GuestQueues {
    fn drop(&mut self) {
        let mut rings = self.shared.lock();
        rings.is_dropped = true;
        self.shared.on_ended(rings);
        self.shared.ring();
        // An error means that it has ended already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

struct Waiter(Arc<SharedRings>);

impl BellWaiter for Waiter {
    fn wait(&self) -> bool {
        self.0.silence(true);
        !self.0.lock().is_dropped
    }
}
