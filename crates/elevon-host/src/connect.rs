//! Connections that are made within a time, whatever the other side does.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};

/// Connects to a socket of the file system. A server whose queue of connections is full has this
/// time to accept one.
///
/// # Errors
/// Those of connect(2), and `TimedOut`.
pub fn connect_unix(path: &Path, time: Duration) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let address = SockAddr::unix(path)?;
    let until = Instant::now() + time;
    loop {
        // The kernel holds connect(2) to the time for sending. 0 would be without an end.
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        socket.set_write_timeout(Some(left))?;
        match socket.connect(&address) {
            // By a signal, after which it is not continued if it has a limit.
            Err(error) if error.kind() == io::ErrorKind::Interrupted && Instant::now() < until => {}
            Err(error)
                if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted]
                    .contains(&error.kind()) =>
            {
                let words =
                    format!("its server has not accepted a connection in {} s", time.as_secs_f64());
                return Err(io::Error::new(io::ErrorKind::TimedOut, words));
            }
            Err(error) => return Err(error),
            Ok(()) => break,
        }
    }
    socket.set_write_timeout(None)?;
    Ok(std::os::fd::OwnedFd::from(socket).into())
}

/// Connects to `HOST:PORT`. The name server and all addresses of the host have this time together.
///
/// # Errors
/// Those of name resolution and connect(2), and `TimedOut`.
pub fn connect_tcp(place: &str, time: Duration) -> io::Result<TcpStream> {
    let until = Instant::now() + time;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in resolve(place, time)? {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns the addresses of a host. The system's resolver has no limit of time, so that a thread
/// asks it, which outlives the call if it gets no answer.
fn resolve(place: &str, time: Duration) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = place.parse() {
        return Ok(vec![address]);
    }
    let (tell, told) = channel();
    let place = place.to_owned();
    let ask = move || drop(tell.send(place.to_socket_addrs().map(Vec::from_iter)));
    std::thread::Builder::new().name("resolve".into()).spawn(ask)?;
    told.recv_timeout(time).unwrap_or_else(|_| {
        let words = format!("no answer of a name server in {} s", time.as_secs_f64());
        Err(io::Error::new(io::ErrorKind::TimedOut, words))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_accepts_nothing_is_waited_for_no_longer_than_the_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let server = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        server.bind(&SockAddr::unix(&path).expect("a path")).expect("it is free");
        server.listen(0).expect("it listens");
        let time = Duration::from_millis(50);
        let first = connect_unix(&path, time).expect("the queue has one place");
        assert_eq!(first.write_timeout().expect("an option"), None);
        let began = Instant::now();
        let error = connect_unix(&path, time).expect_err("the queue is full");
        assert_eq!(
            (error.kind(), began.elapsed() >= time),
            (io::ErrorKind::TimedOut, true),
            "{error}"
        );
        server.accept().expect("the first");
        connect_unix(&path, time).expect("there is room again");
        drop(server);
        let error = connect_unix(&path, time).expect_err("nothing listens");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let error = connect_unix(&folder.path().join("x"), time).expect_err("no file");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn addresses_need_no_name_server() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = listener.local_addr().expect("bound").to_string();
        connect_tcp(&place, Duration::from_secs(5)).expect("it listens");
        assert!(connect_tcp("127.0.0.1:x", Duration::from_secs(5)).is_err());
    }
}
