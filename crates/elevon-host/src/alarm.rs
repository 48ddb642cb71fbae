//! An eventfd by which one thread ends the wait of another.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// Ends the wait of a [`crate::Host`] from any thread. Clones are the same alarm.
#[derive(Clone, Debug)]
pub struct Alarm(Arc<OwnedFd>);

impl Alarm {
    /// Creates an alarm that has not rung.
    ///
    /// # Errors
    /// No descriptor can be created.
    pub fn new() -> std::io::Result<Self> {
        // SAFETY: plain numbers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was made above and is not used elsewhere.
        Ok(Self(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// Ends the wait that is under way, or else the next one.
    pub fn ring(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: a valid descriptor and eight bytes. It fails only if the counter is full, and
        // then the eventfd is readable.
        unsafe { libc::write(self.fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Returns the descriptor, which is readable after [`Self::ring`].
    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Waits until it rings, or for this time, and resets it.
    pub fn wait(&self, limit: Duration) {
        wait(self.fd(), Some(limit));
    }
}

/// Waits until the alarm of a descriptor rings, or for this time if there is one, and resets it.
pub(crate) fn wait(fd: RawFd, limit: Option<Duration>) {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: one valid structure, a limit or none, and no signal mask.
    unsafe { libc::ppoll(&mut poll, 1, limit, std::ptr::null()) };
    reset(fd);
}

/// Forgets that the alarm of a descriptor rang.
pub(crate) fn reset(fd: RawFd) {
    let mut count = [0_u8; 8];
    // SAFETY: the owner of the descriptor keeps it open, and memory for eight bytes. It fails if
    // the alarm did not ring.
    unsafe { libc::read(fd, count.as_mut_ptr().cast(), count.len()) };
}
