//! Sockets that the process was started with, as systemd and libnbd pass them: `LISTEN_FDS` says
//! how many, from file descriptor 3 on, `LISTEN_PID` for whom, `LISTEN_FDNAMES` their names
//! (sd_listen_fds(3)).

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

/// A listening socket that was passed.
#[derive(Debug)]
pub enum Passed {
    /// A stream socket of the file system, or of the abstract name space.
    Unix(UnixListener),
    /// A socket of TCP.
    Tcp(TcpListener),
}

/// Why sockets that were passed cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PassedError {
    /// The variables contradict each other, or a descriptor is not open.
    #[error("LISTEN_FDS: {0}")]
    Variables(#[source] io::Error),
    /// A descriptor is something else.
    #[error("LISTEN_FDS: descriptor {0} is no listening stream socket of TCP or UNIX")]
    NoListener(RawFd),
}

static ARE_TAKEN: AtomicBool = AtomicBool::new(false);

/// Returns the sockets that were passed to this process, with their names; none if there are none,
/// they are for another process, or they were returned before. Call it before the process opens
/// files: a count that is wrong could name one of these.
///
/// # Errors
/// See [`PassedError`].
pub fn take() -> Result<Vec<(String, Passed)>, PassedError> {
    if ARE_TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let found = sd_notify::listen_fds_with_names().map_err(PassedError::Variables)?;
    found.map(|(fd, name)| Ok((name, listener(fd)?))).collect()
}

/// Makes a listener of a descriptor that is open.
fn listener(fd: RawFd) -> Result<Passed, PassedError> {
    // SAFETY: the process that started this one has passed the descriptor to it; it is open, as
    // `listen_fds_with_names` has found, and `take` gives each to one owner.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let is = |name, value| option(&socket, name) == Some(value);
    if !is(libc::SO_TYPE, libc::SOCK_STREAM) || !is(libc::SO_ACCEPTCONN, 1) {
        return Err(PassedError::NoListener(fd));
    }
    let (passed, blocking) = match option(&socket, libc::SO_DOMAIN) {
        Some(libc::AF_UNIX) => {
            let listener = UnixListener::from(socket);
            let blocking = listener.set_nonblocking(false);
            (Passed::Unix(listener), blocking)
        }
        Some(libc::AF_INET | libc::AF_INET6) => {
            let listener = TcpListener::from(socket);
            let blocking = listener.set_nonblocking(false);
            (Passed::Tcp(listener), blocking)
        }
        _ => return Err(PassedError::NoListener(fd)),
    };
    blocking.map_err(PassedError::Variables)?;
    Ok(passed)
}

/// Returns a number that is an option of a socket; `None` if the descriptor is no socket.
fn option(socket: &OwnedFd, name: libc::c_int) -> Option<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the places are as long as said.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd;

    use super::*;

    #[test]
    fn a_listener_is_told_from_other_descriptors() {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = tcp.local_addr().expect("an address");
        assert!(
            matches!(listener(tcp.into_raw_fd()), Ok(Passed::Tcp(same)) if same.local_addr().expect("one") == address)
        );
        let folder = tempfile::tempdir().expect("a folder");
        let unix = UnixListener::bind(folder.path().join("s")).expect("a socket");
        assert!(matches!(listener(unix.into_raw_fd()), Ok(Passed::Unix(_))));
        let stream = std::os::unix::net::UnixStream::pair().expect("a pair").0;
        let file = tempfile::tempfile().expect("a file");
        for fd in [stream.into_raw_fd(), file.into_raw_fd()] {
            assert!(matches!(listener(fd), Err(PassedError::NoListener(bad)) if bad == fd));
        }
    }
}
