//! What the thread of a guest's messages and the thread of its device share: the rings, and the
//! bell that a kick rings.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard};

use elevon_vhost::config_change_message;
use rustix::event::{EventfdFlags, epoll, eventfd};

use super::rings::Rings;

const LOCK: &str = "no thread panics with the lock";

/// Events that are taken from the bell at a time.
const EVENTS: usize = 16;

/// The rings of a guest.
pub(super) struct SharedRings {
    rings: Mutex<Rings>,
    /// No request of a ring that stops is in flight any more.
    stopped: Condvar,
    /// Is readable after a kick of any ring. Each rings once for each kick.
    kicks: OwnedFd,
    /// Rings the bell for the end of the connection.
    end: OwnedFd,
    /// For messages of the back end's own.
    channel: Mutex<Option<UnixStream>>,
}

impl SharedRings {
    pub(super) fn new(rings: Rings) -> io::Result<Self> {
        let kicks = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Self {
            rings: Mutex::new(rings),
            stopped: Condvar::new(),
            kicks,
            end,
            channel: Mutex::default(),
        };
        shared.listen(&shared.end)?;
        Ok(shared)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().expect(LOCK)
    }

    /// Takes the channel for messages of the back end's own. A front end that does not read them
    /// is not waited for.
    pub(super) fn set_channel(&self, channel: UnixStream) -> io::Result<()> {
        channel.set_nonblocking(true)?;
        *self.channel.lock().expect(LOCK) = Some(channel);
        Ok(())
    }

    /// Takes the size of the disk, which has grown, and tells the guest.
    pub(super) fn grow(&self, size: u64) {
        let was = std::mem::replace(&mut self.lock().disk.size, size);
        if let (true, Some(channel)) = (was != size, &*self.channel.lock().expect(LOCK)) {
            // One that does not read its messages learns of it when it connects again.
            let _ = rustix::io::write(channel, &config_change_message());
        }
    }

    /// Lets a descriptor ring the bell.
    pub(super) fn listen(&self, kick: &OwnedFd) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.kicks, kick, epoll::EventData::new_u64(0), flags)?)
    }

    /// Lets it ring the bell no more.
    pub(super) fn forget(&self, kick: &OwnedFd) {
        // One that is not there rings no bell.
        let _ = epoll::delete(&self.kicks, kick);
    }

    /// Rings the bell.
    pub(super) fn ring(&self) {
        // A counter that is full rings as well.
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
    }

    /// Returns a descriptor that is readable when the bell has rung.
    pub(super) fn bell(&self) -> io::Result<OwnedFd> {
        self.kicks.as_fd().try_clone_to_owned()
    }

    /// Makes the bell silent, and first waits for it if `waits`.
    pub(super) fn silence(&self, waits: bool) {
        let mut events = [const { std::mem::MaybeUninit::uninit() }; EVENTS];
        let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let limit = (!waits).then_some(&none);
        while let Ok((events, _)) = epoll::wait(&self.kicks, &mut events, limit) {
            if waits || events.len() < EVENTS {
                break;
            }
        }
    }

    /// Requests have ended, or none will any more: a thread may wait for that. Without one there is
    /// no system call.
    pub(super) fn on_ended(&self, rings: MutexGuard<'_, Rings>) {
        let is_awaited = rings.waiters > 0;
        drop(rings);
        if is_awaited {
            self.stopped.notify_all();
        }
    }

    /// Waits until a ring that was asked to stop has no request in flight, or the device's thread
    /// serves the guest no more.
    pub(super) fn wait_for_stop(&self, ring: u16) -> MutexGuard<'_, Rings> {
        let mut rings = self.lock();
        rings.waiters += 1;
        let mut rings =
            self.stopped.wait_while(rings, |rings| !rings.has_stopped(ring)).expect(LOCK);
        rings.waiters -= 1;
        rings
    }
}
