//! The two directions of a connection, protected or not, for a thread each.

use std::io::{self, Read, Write};
use std::sync::Arc;

use super::{Channel, Unprotected};
use crate::listen::Socket;

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

/// Where bytes come from.
pub(crate) struct Inlet {
    pub(crate) socket: Arc<Socket>,
    pub(crate) protected: Option<Unprotected>,
}

impl Inlet {
    /// Returns true if TLS itself has something to say, which the next [`Outlet::send`] does.
    pub(crate) fn has_to_say(&self) -> bool {
        self.protected.as_ref().is_some_and(Unprotected::has_to_say)
    }
}

impl Read for Inlet {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match &mut self.protected {
                Some(protected) => protected.read(&mut &*self.socket, buffer),
                None => (&*self.socket).read(buffer),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}
