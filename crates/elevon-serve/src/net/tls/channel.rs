//! The two directions of a protected connection, which a thread each may use.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use rustls::{ClientConnection, Connection, ServerConnection};

use super::{Identity, Tls, Trust};

/// Bytes that are protected at a time, while the other direction waits.
const PROTECTED: usize = 64 << 10;
/// Bytes that are read from a socket at a time.
const READ: usize = 32 << 10;

/// The state of TLS that both directions share. Neither holds it while it waits for the socket, so
/// that a peer that does not read what it is sent can still be read from.
pub(crate) struct Channel(Mutex<Connection>);

impl Channel {
    /// Does the handshake with a client over a socket, and returns who it is.
    ///
    /// # Errors
    /// The socket failed, or the client does not prove its name.
    pub(crate) fn accept(
        tls: &Tls,
        socket: &mut (impl Read + Write),
    ) -> io::Result<(Self, Identity)> {
        let connection = ServerConnection::new(tls.config()).map_err(io::Error::other)?;
        let connection = shake_hands(connection.into(), socket)?;
        let identity = tls.identify(connection.peer_certificates().unwrap_or_default());
        Ok((Self(Mutex::new(connection)), identity))
    }

    /// Does the handshake with a server over a socket. Its certificate has to have this name.
    ///
    /// # Errors
    /// The socket failed, or the server does not prove its name.
    pub(crate) fn connect(trust: &Trust, socket: &mut (impl Read + Write)) -> io::Result<Self> {
        let (config, name) = (Arc::clone(&trust.config), trust.name.clone());
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Self(Mutex::new(shake_hands(connection.into(), socket)?)))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().expect("no thread panics with the lock")
    }

    /// Sends bytes over a socket, and what TLS itself has to say. One thread at a time sends.
    pub(crate) fn send(&self, socket: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        let mut parts = bytes.chunks(PROTECTED);
        let mut protected = Vec::new();
        loop {
            let part = parts.next();
            let mut connection = self.lock();
            connection.writer().write_all(part.unwrap_or_default())?;
            protected.clear();
            while connection.wants_write() {
                connection.write_tls(&mut protected)?;
            }
            drop(connection);
            socket.write_all(&protected)?;
            if part.is_none() {
                return Ok(());
            }
        }
    }

    /// Tells the peer that nothing follows.
    pub(crate) fn close(&self, socket: &mut impl Write) -> io::Result<()> {
        self.lock().send_close_notify();
        self.send(socket, b"")
    }
}

fn shake_hands(
    mut connection: Connection,
    socket: &mut (impl Read + Write),
) -> io::Result<Connection> {
    // What is protected is taken at once.
    connection.set_buffer_limit(None);
    while connection.is_handshaking() {
        connection.complete_io(socket)?;
    }
    Ok(connection)
}

/// The bytes of a peer, out of what comes from its socket.
pub(crate) struct Unprotected {
    channel: Arc<Channel>,
    /// Bytes that came, with how many of them were taken.
    protected: Vec<u8>,
    taken: usize,
}

impl Unprotected {
    pub(crate) const fn new(channel: Arc<Channel>) -> Self {
        Self { channel, protected: Vec::new(), taken: 0 }
    }

    /// Returns true if TLS itself has something to say, which the next [`Channel::send`] does.
    pub(crate) fn has_to_say(&self) -> bool {
        self.channel.lock().wants_write()
    }

    /// Reads bytes; 0 at the end.
    ///
    /// # Errors
    /// The socket failed, or what came was not protected by the peer.
    pub(crate) fn read(&mut self, socket: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut connection = self.channel.lock();
            match connection.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Many peers close the socket without a word to TLS. A request that is cut off
                // is not carried out.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            if self.taken < self.protected.len() {
                self.taken += connection.read_tls(&mut &self.protected[self.taken..])?;
                let processed = connection.process_new_packets();
                processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                continue;
            }
            drop(connection);
            self.protected.resize(READ, 0);
            self.taken = 0;
            let read = socket.read(&mut self.protected);
            self.protected.truncate(*read.as_ref().unwrap_or(&0));
            if read? == 0 {
                return Ok(0);
            }
        }
    }
}
