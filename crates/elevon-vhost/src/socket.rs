//! Messages with file descriptors over a Unix socket: the only I/O of this crate.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::message::{HEADER_BYTES, MAX_PAYLOAD, MAX_REGIONS, u32_at};

/// A message as it came.
#[derive(Debug)]
pub struct Received {
    /// Its header.
    pub header: [u8; HEADER_BYTES],
    /// Its payload. It is cut to the longest payload that is taken.
    pub payload: Vec<u8>,
    /// Its file descriptors.
    pub fds: Vec<OwnedFd>,
}

/// Waits for a message.
///
/// # Errors
/// - [`io::ErrorKind::UnexpectedEof`]: the socket has ended.
/// - [`io::ErrorKind::InvalidData`]: it has ended within a message.
/// - Those of the socket.
pub fn receive(stream: &UnixStream) -> io::Result<Received> {
    let mut header = [0; HEADER_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_REGIONS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut header)];
    let got = loop {
        match recvmsg(stream, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            got => break got?.bytes,
        }
    };
    if got == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let cut = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::new(io::ErrorKind::InvalidData, "what came is a part of a message")
        }
        _ => error,
    };
    let mut stream = stream;
    stream.read_exact(&mut header[got..]).map_err(cut)?;
    let fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds = fds.flatten().collect();
    let mut payload = vec![0; u32_at(&header, 8).min(MAX_PAYLOAD) as usize];
    stream.read_exact(&mut payload).map_err(cut)?;
    Ok(Received { header, payload, fds })
}

/// Sends the bytes of a message with file descriptors, at most as many as a memory table has
/// regions.
///
/// # Errors
/// The socket failed.
pub fn send(mut stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_REGIONS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("a message has too many file descriptors"));
    }
    let sent = loop {
        match sendmsg(stream, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            sent => break sent?,
        }
    };
    stream.write_all(&bytes[sent..])
}
