//! The messages of a front end: what it says of its memory and its rings.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use elevon_host::{SharedMemory, SharedRegion};
use elevon_vhost::blk::WRITE_CACHE_BYTE;
use elevon_vhost::socket::{Received, receive, send};
use elevon_vhost::{Action, BackEnd, InflightPlace, MAX_MEMORY_SLOTS, Region, inflight_bytes};
use rustix::fs::{MemfdFlags, OFlags};

use super::guest_disk::MAX_QUEUE_SIZE;
use super::shared_rings::SharedRings;

/// The messages of a front end.
pub(super) struct Session {
    socket: UnixStream,
    back_end: BackEnd,
    rings: Arc<SharedRings>,
    regions: Vec<Arc<SharedRegion>>,
}

impl Session {
    pub(super) fn new(socket: UnixStream, rings: Arc<SharedRings>) -> Self {
        let back_end = BackEnd::new(rings.lock().disk.offer());
        Self { socket, back_end, rings, regions: Vec::new() }
    }

    /// Takes messages until the front end leaves.
    ///
    /// # Errors
    /// A message cannot be followed.
    pub(super) fn run(&mut self) -> io::Result<()> {
        loop {
            let received = match receive(&self.socket) {
                Err(error) if has_left(&error) => return Ok(()),
                received => received?,
            };
            match self.handle(received) {
                Err(error) if has_left(&error) => return Ok(()),
                handled => handled?,
            }
        }
    }

    fn handle(&mut self, received: Received) -> io::Result<()> {
        let Received { header, payload, fds } = received;
        let config = self.rings.lock().config();
        self.back_end.set_config(config);
        let (mut answer, action) =
            self.back_end.handle(&header, &payload, fds.len()).map_err(io::Error::other)?;
        let mut fds = fds.into_iter();
        match action {
            Action::Map(regions) => {
                let map = |(region, file)| map(&region, file);
                self.regions = regions.into_iter().zip(fds).map(map).collect::<io::Result<_>>()?;
                self.set_memory()?;
            }
            Action::AddRegion(region) => {
                // QEMU adds the memory again when a device is plugged again.
                self.forget(&region);
                if self.regions.len() >= MAX_MEMORY_SLOTS {
                    return Err(io::Error::other("there are more regions than slots"));
                }
                let file = fds.next().expect("the message was checked");
                self.regions.push(map(&region, file)?);
                self.set_memory()?;
            }
            Action::RemoveRegion(region) => {
                self.forget(&region);
                self.set_memory()?;
            }
            Action::MakeInflight(place) => {
                let file = self.make_inflight(&place)?;
                let bytes = inflight_bytes(place.size) * u64::from(place.queues);
                let place = InflightPlace { bytes, offset: 0, ..place };
                let answer = self.back_end.inflight_answer(&place);
                return send(&self.socket, &answer, &[file.as_fd()]);
            }
            Action::TakeInflight(place) => {
                let file = fds.next().expect("the message was checked");
                let needed = inflight_bytes(place.size) * u64::from(place.queues);
                if place.bytes < needed {
                    return Err(io::Error::other("the memory of requests in flight is too small"));
                }
                let region = SharedRegion::map(file, place.offset, place.bytes, 0, 0)?;
                let memory = Arc::new(SharedMemory::new(vec![region])?);
                self.rings.lock().set_inflight(memory, place);
            }
            Action::Channel => {
                let channel = fds.next().expect("the message was checked");
                self.rings.set_channel(UnixStream::from(channel))?;
            }
            Action::Features(features) => self.rings.lock().set_features(features),
            Action::WriteConfig(at, bytes) => self.write_config(at, &bytes),
            Action::Reset => {
                let started = self.rings.lock().started();
                for ring in started {
                    self.stop(ring);
                }
            }
            Action::Stop(ring) => {
                let next = self.stop(ring);
                answer = self.back_end.base_answer(ring, next);
            }
            action => self.handle_ring(action, fds.next())?,
        }
        self.socket.write_all(&answer)
    }

    /// Takes a message about a ring.
    fn handle_ring(&self, action: Action, fd: Option<OwnedFd>) -> io::Result<()> {
        match action {
            Action::Size(ring, size) => {
                if size > MAX_QUEUE_SIZE {
                    let words = format!("a queue has at most {MAX_QUEUE_SIZE} descriptors here");
                    return Err(io::Error::other(words));
                }
                self.rings.lock().set_size(ring, size);
            }
            Action::Place(ring, place) => self.rings.lock().set_place(ring, place),
            Action::Base(ring, base) => self.rings.lock().set_base(ring, base),
            Action::Start(ring) => {
                let Some(kick) = fd else {
                    return Err(io::Error::other("a queue without kicks is not supported"));
                };
                self.rings.listen(&kick)?;
                let mut rings = self.rings.lock();
                if let Some(before) = rings.set_kick(ring, Some(kick)) {
                    self.rings.forget(&before);
                }
                rings.start(ring)?;
                drop(rings);
                self.rings.ring();
            }
            Action::Call(ring) => {
                if let Some(call) = &fd {
                    // The thread of the device writes to it, and must not wait for the guest.
                    let flags = rustix::fs::fcntl_getfl(call)?;
                    rustix::fs::fcntl_setfl(call, flags | OFlags::NONBLOCK)?;
                }
                self.rings.lock().set_call(ring, fd);
                self.rings.ring();
            }
            Action::Enable(ring, is_enabled) => {
                self.rings.lock().enable(ring, is_enabled);
                self.rings.ring();
            }
            Action::Kick(_) => self.rings.ring(),
            _ => {}
        }
        Ok(())
    }

    /// Stops a ring, and waits for its requests in flight. Returns its next available descriptor.
    fn stop(&self, ring: u16) -> u16 {
        self.rings.lock().begin_stop(ring);
        self.rings.ring();
        let mut rings = self.rings.wait_for_stop(ring);
        if let Some(kick) = rings.set_kick(ring, None) {
            self.rings.forget(&kick);
        }
        rings.end_stop(ring)
    }

    /// Lets a region be none of the guest's memory.
    fn forget(&mut self, region: &Region) {
        self.regions.retain(|known| {
            (known.guest(), known.bytes(), known.user())
                != (region.guest, region.bytes, region.user)
        });
    }

    fn set_memory(&self) -> io::Result<()> {
        let memory = SharedMemory::new(self.regions.clone())?;
        self.rings.lock().set_memory(Arc::new(memory));
        self.rings.ring();
        Ok(())
    }

    fn make_inflight(&self, place: &InflightPlace) -> io::Result<OwnedFd> {
        let bytes = inflight_bytes(place.size) * u64::from(place.queues);
        let file = rustix::fs::memfd_create("elevon-inflight", MemfdFlags::CLOEXEC)?;
        let file = File::from(file);
        file.set_len(bytes)?;
        Ok(file.into())
    }

    /// Takes the byte of the configuration space that turns the write cache on and off.
    fn write_config(&self, at: u32, bytes: &[u8]) {
        let byte = WRITE_CACHE_BYTE.checked_sub(at as usize).and_then(|at| bytes.get(at));
        let Some(byte) = byte else { return };
        self.rings.lock().is_write_through = *byte == 0;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.rings.lock().leave();
        self.rings.ring();
    }
}

fn map(region: &Region, file: OwnedFd) -> io::Result<Arc<SharedRegion>> {
    SharedRegion::map(file, region.offset, region.bytes, region.guest, region.user)
}

/// Returns true if a front end is gone, which is no error.
fn has_left(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}
