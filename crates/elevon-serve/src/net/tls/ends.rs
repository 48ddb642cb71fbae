//! The two directions of a connection, protected or not, for a thread each.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Channel, Unprotected};
use crate::net::listen::Socket;

/// Where bytes are sent.
pub(crate) struct Outlet {
    pub(crate) socket: Arc<Socket>,
    pub(crate) channel: Option<Arc<Channel>>,
}

impl Outlet {
    /// Sends bytes, and what TLS itself has to say.
    ///
    /// # Errors
    /// The socket failed.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match &self.channel {
            Some(channel) => channel.send(&mut &*self.socket, bytes),
            None => (&*self.socket).write_all(bytes),
        }
    }

    /// Says that nothing follows, where TLS has a word for it.
    pub(crate) fn close(&self) {
        if let Some(channel) = &self.channel {
            // A peer that is gone needs no farewell.
            let _ = channel.close(&mut &*self.socket);
        }
    }
}

/// Bytes that are taken at a time where none of them counts.
const WASTE: usize = 64 << 10;

/// Takes bytes until none can come any more.
pub(crate) fn waste(socket: &mut impl Read) {
    let mut waste = vec![0; WASTE];
    loop {
        match socket.read(&mut waste) {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
        }
    }
}

/// Where bytes come from.
pub(crate) struct Inlet {
    pub(crate) socket: Arc<Socket>,
    pub(crate) protected: Option<Unprotected>,
    pub(crate) last: Arc<LastBytes>,
}

/// How many bytes of a socket are still taken. Its end comes after them, and what follows is left
/// alone: the socket stays open, so that a peer that sends more still reads its answers.
pub(crate) struct LastBytes(AtomicU64);

impl LastBytes {
    const ALL: u64 = u64::MAX;

    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(Self::ALL))
    }

    /// Takes no more than so many from now on.
    pub(crate) fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != Self::ALL
    }

    /// Takes bytes that have come, and returns how many of them count.
    fn take(&self, bytes: usize) -> usize {
        let less = |left: u64| (left != Self::ALL).then(|| left.saturating_sub(bytes as u64));
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(left) => bytes.min(usize::try_from(left).unwrap_or(usize::MAX)),
            Err(_) => bytes,
        }
    }
}

/// A socket of which no more than the last bytes are read.
struct Bounded<'a>(&'a Socket, &'a LastBytes);

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.1.0.load(Ordering::Relaxed) == 0 {
            return Ok(0);
        }
        let read = (&mut &*self.0).read(buffer)?;
        Ok(self.1.take(read))
    }
}

impl Inlet {
    /// Takes what comes of a client that was asked to end, until its connection is closed: one that
    /// sends before it reads its answers would wait for ever.
    pub(crate) fn drain(&self) {
        if self.last.is_set() {
            waste(&mut &*self.socket);
        }
    }

    /// Returns true if TLS itself has something to say, which the next [`Outlet::send`] does.
    pub(crate) fn has_to_say(&self) -> bool {
        self.protected.as_ref().is_some_and(Unprotected::has_to_say)
    }
}

impl Read for Inlet {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut socket = Bounded(&self.socket, &self.last);
            let read = match &mut self.protected {
                Some(protected) => protected.read(&mut socket, buffer),
                None => socket.read(buffer),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}
