//! Addresses of a server, and the sockets behind them.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::net::peer::Peer;
use elevon_host::passed::Passed;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};

/// An address: `unix:PATH` or `tcp:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
}

/// Why a text is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It has another form.
    #[error("is no address; write unix:PATH or tcp:HOST:PORT")]
    Form,
    /// There is no port.
    #[error("has no port; NBD's is 10809: tcp:HOST:10809")]
    NoPort,
    /// What follows the last colon is no port.
    #[error("its port is no number from 0 to 65535")]
    Port,
    /// There is no port, and the address is one for metrics.
    #[error("has no port; 9464 is usual for metrics: tcp:127.0.0.1:9464")]
    NoMetricsPort,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", place)) => match place.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                    Ok(Self::Tcp(place.to_owned()))
                }
                Some((host, port))
                    if !host.is_empty() && !port.is_empty() && !port.ends_with(']') =>
                {
                    Err(AddressError::Port)
                }
                _ => Err(AddressError::NoPort),
            },
            _ => Err(AddressError::Form),
        }
    }
}

impl Address {
    /// Reads an address at which metrics are served.
    ///
    /// # Errors
    /// As [`Self::from_str`], with the advice for metrics.
    pub fn of_metrics(text: &str) -> Result<Self, AddressError> {
        text.parse().map_err(|error| {
            if error == AddressError::NoPort { AddressError::NoMetricsPort } else { error }
        })
    }
}

/// What stands for itself in an NBD URI, in the name of an export and in the path of a socket.
const PLAIN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

impl Address {
    /// Returns the URI of an export here, as clients of NBD take it. `scheme` is `nbd` or `nbds`.
    pub fn uri(&self, scheme: &str, export: &str) -> String {
        let export = utf8_percent_encode(export, PLAIN);
        match self {
            Self::Tcp(place) => format!("{scheme}://{place}/{export}"),
            Self::Unix(path) => {
                let path = percent_encode(path.as_os_str().as_bytes(), PLAIN);
                format!("{scheme}+unix:///{export}?socket={path}")
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(place) => write!(f, "tcp:{place}"),
        }
    }
}

/// Bytes that may wait in a Unix socket for the client to read them: a few large replies, so that
/// neither side sleeps within one.
const SEND_BUFFER: i32 = 1 << 20;

/// How long the server of a socket that is in the way has to accept a connection, which shows that
/// it is there.
const PROBE: Duration = Duration::from_secs(1);

/// After this time it is tried again to accept connections, if that has failed: no descriptors are
/// left, most likely.
pub(crate) const ACCEPT_RETRY: Duration = Duration::from_millis(20);

/// A socket that accepts connections. A socket in the file system is removed when who made it is
/// dropped.
pub(crate) enum Listener {
    Unix(UnixListener, PathBuf, Option<Inode>),
    Tcp(TcpListener),
}

/// Which users may connect to a socket in the file system, besides what the process's mask allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketAccess {
    /// Its mode, up to 0o777.
    pub mode: Option<u32>,
    /// Its group.
    pub group: Option<u32>,
}

impl SocketAccess {
    /// Gives a socket its group and its mode, which only its owner can open until then.
    fn apply(self, path: &Path) -> io::Result<()> {
        std::os::unix::fs::chown(path, None, self.group)?;
        // With a group alone, its members can connect.
        let mode = self.mode.unwrap_or(0o660);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
    }
}

/// Device and inode of a socket in the file system: what tells it from another at the same path.
type Inode = (u64, u64);

fn inode(path: &Path) -> io::Result<Inode> {
    std::fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

impl Listener {
    /// Listens at an address. A socket in the file system that nothing listens at is replaced.
    pub(crate) fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(place) => TcpListener::bind(place.as_str()).map(Self::Tcp),
            Address::Unix(path) => {
                let is_socket =
                    std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
                // Any other error may be that of a server that is there.
                let is_refused =
                    |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
                if is_socket && elevon_host::connect_unix(path, PROBE).is_err_and(is_refused) {
                    std::fs::remove_file(path)?;
                }
                let listener = UnixListener::bind(path)?;
                Ok(Self::Unix(listener, path.clone(), inode(path).ok()))
            }
        }
    }

    /// Listens at an address to which those may connect that are given.
    pub(crate) fn bind_for(address: &Address, access: SocketAccess) -> io::Result<Self> {
        match address {
            Address::Unix(path) if access != SocketAccess::default() => {
                // Not taken away afterwards: a client that connects before stays connected.
                let listener = elevon_host::file::of_owner(|| Self::bind(address))?;
                access.apply(path)?;
                Ok(listener)
            }
            address => Self::bind(address),
        }
    }

    /// A socket that was passed to the process. Its file stays when the server ends: it belongs to
    /// the process that passed it.
    pub(crate) fn of_passed(passed: Passed) -> Self {
        match passed {
            Passed::Unix(listener) => Self::Unix(listener, PathBuf::new(), None),
            Passed::Tcp(listener) => Self::Tcp(listener),
        }
    }

    /// Returns where it listens, with the port that the system chose for port 0.
    pub(crate) fn address(&self) -> io::Result<Address> {
        Ok(match self {
            Self::Unix(_, path, _) => Address::Unix(path.clone()),
            Self::Tcp(listener) => Address::Tcp(listener.local_addr()?.to_string()),
        })
    }

    /// Waits for a connection.
    pub(crate) fn accept(&self) -> io::Result<Socket> {
        Ok(match self {
            Self::Unix(listener, ..) => {
                let stream = listener.accept()?.0;
                // TCP's grows by itself. A system that grants less gives what it grants.
                let _ = elevon_host::set_send_buffer(&stream, SEND_BUFFER);
                Socket::Unix(stream)
            }
            Self::Tcp(listener) => {
                let stream = listener.accept()?.0;
                stream.set_nodelay(true)?;
                // A client whose machine has gone says nothing.
                elevon_host::keep_alive(&stream)?;
                Socket::Tcp(stream)
            }
        })
    }

    /// Returns a second handle of the same socket, which removes nothing.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(listener, path, _) => Self::Unix(listener.try_clone()?, path.clone(), None),
            Self::Tcp(listener) => Self::Tcp(listener.try_clone()?),
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Another server may listen at the path by now, at a socket of its own.
        if let Self::Unix(_, path, made @ Some(_)) = self
            && inode(path).ok() == *made
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A connection.
pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
        })
    }

    /// Returns who is at the other end.
    pub(crate) fn peer(&self) -> Peer {
        match self {
            Self::Unix(stream) => {
                elevon_host::peer_credentials(stream).map_or(Peer::Unknown, Peer::Process)
            }
            Self::Tcp(stream) => stream.peer_addr().map_or(Peer::Unknown, Peer::Address),
        }
    }

    /// Sets how long a read or a write may wait from now on.
    fn set_deadline(&self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.set_timeouts(Some(left))
    }

    /// Reads until a deadline.
    ///
    /// # Errors
    /// The deadline has passed, or the socket failed.
    pub(crate) fn read_until(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        loop {
            self.set_deadline(deadline)?;
            match self.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Writes everything until a deadline.
    ///
    /// # Errors
    /// The deadline has passed, or the socket failed.
    pub(crate) fn write_until(&mut self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            self.set_deadline(deadline)?;
            match self.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Lets a call wait for so long, in either direction.
    pub(crate) fn set_timeouts(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(time).and(stream.set_write_timeout(time)),
            Self::Tcp(stream) => stream.set_read_timeout(time).and(stream.set_write_timeout(time)),
        }
    }

    /// Ends a direction for every handle of the socket. An error means that it has ended already.
    pub(crate) fn shutdown(&self, how: Shutdown) {
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
        };
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Unix(stream) => stream.as_raw_fd(),
            Self::Tcp(stream) => stream.as_raw_fd(),
        }
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> Self {
        match socket {
            Socket::Unix(stream) => stream.into(),
            Socket::Tcp(stream) => stream.into(),
        }
    }
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => (&mut &*stream).read(buffer),
            Socket::Tcp(stream) => (&mut &*stream).read(buffer),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => (&mut &*stream).write(buffer),
            Socket::Tcp(stream) => (&mut &*stream).write(buffer),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for Socket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection on which nothing is waited for past an instant.
pub(crate) struct Timed<'a> {
    socket: &'a Socket,
    until: Instant,
}

impl<'a> Timed<'a> {
    pub(crate) const fn new(socket: &'a Socket, until: Instant) -> Self {
        Self { socket, until }
    }

    /// Lets the next call wait until the instant.
    fn wait(&self) -> io::Result<()> {
        self.socket.set_deadline(self.until).map_err(waited)
    }
}

/// Returns the error of a call that waited.
fn waited(error: io::Error) -> io::Error {
    let has_timed_out = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    if has_timed_out {
        io::Error::new(io::ErrorKind::TimedOut, "the other side took too long")
    } else {
        error
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait()?;
        (&mut &*self.socket).read(buffer).map_err(waited)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.wait()?;
        (&mut &*self.socket).write(buffer).map_err(waited)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_shown() {
        for text in ["unix:/run/a.sock", "tcp:localhost:10809", "tcp:[::1]:10809"] {
            assert_eq!(text.parse::<Address>().expect(text).to_string(), text);
        }
        for text in ["", "unix:", "disk.img", "http:x"] {
            assert_eq!(text.parse::<Address>(), Err(AddressError::Form), "{text}");
        }
        for text in ["tcp:", "tcp:host", "tcp::10809", "tcp:host:", "tcp:[::1]"] {
            assert_eq!(text.parse::<Address>(), Err(AddressError::NoPort), "{text}");
        }
        for text in ["tcp:host:99999", "tcp:host:nbd"] {
            assert_eq!(text.parse::<Address>(), Err(AddressError::Port), "{text}");
        }
    }

    #[test]
    fn what_means_something_in_a_uri_is_encoded_there() {
        let unix: Address = "unix:/run/a b/s?c&d%.sock".parse().expect("an address");
        assert_eq!(
            unix.uri("nbd", "x/y_1.img"),
            "nbd+unix:///x/y_1.img?socket=/run/a%20b/s%3Fc%26d%25.sock"
        );
        let tcp: Address = "tcp:[::1]:10809".parse().expect("an address");
        assert_eq!(tcp.uri("nbds", "my disk?#50%"), "nbds://[::1]:10809/my%20disk%3F%2350%25");
    }

    #[test]
    fn a_socket_that_nothing_listens_at_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        // A listener of the standard library leaves its socket behind, as a killed process does.
        drop(UnixListener::bind(&path).expect("a socket"));
        let address = Address::Unix(path.clone());
        let listener = Listener::bind(&address).expect("nothing listens there");
        assert!(Listener::bind(&address).is_err(), "it is in use");
        drop(listener.try_clone().expect("a second handle"));
        assert!(path.exists());
        drop(listener);
        assert!(!path.exists());
    }

    /// Connecting to a live socket may fail, too.
    #[test]
    fn a_socket_that_cannot_be_looked_at_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        // A stream cannot be connected to one of datagrams.
        let _live = std::os::unix::net::UnixDatagram::bind(&path).expect("a socket");
        let bound = Listener::bind(&Address::Unix(path.clone()));
        assert!(
            bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse) && path.exists()
        );
    }

    #[test]
    fn a_socket_of_another_server_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let address = Address::Unix(path.clone());
        let first = Listener::bind(&address).expect("the path is free");
        // Renamed and not removed, so that the second cannot have the same inode.
        std::fs::rename(&path, folder.path().join("old")).expect("a rename");
        let second = Listener::bind(&address).expect("the path is free again");
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }
}
