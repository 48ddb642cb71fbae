//! Stream sockets of the ring that carries out a file's I/O: what clients send, and what they are
//! answered out of the buffers of I/O, without a copy between.
//!
//! A socket has at most one receive and one send in the ring. What these need belongs to the
//! socket until their end, and comes back with the [`SocketEvent`] that tells of it: no memory that
//! the kernel uses can be reached meanwhile, and none is allocated for each request.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};
use std::{io, mem, ptr};

use elevon_core::driver::Piece;
use elevon_core::units::{Sector, TaskId};
use io_uring::{opcode, squeue, types};

use crate::buffers::{Buffers, Span};
use crate::mapping::Mapping;

/// Sets how many bytes may wait in a socket for its peer, as far as the system's limit allows.
///
/// # Errors
/// It is not a socket.
pub fn set_send_buffer(socket: &impl AsRawFd, bytes: i32) -> io::Result<()> {
    set_option(socket, libc::SO_SNDBUF, bytes)
}

/// Lets the system ask the peer of a silent TCP connection whether it is there, as often as the
/// system's settings say (`net.ipv4.tcp_keepalive_time`); one that does not answer is an error of
/// the socket.
///
/// # Errors
/// It is not a socket.
pub fn keep_alive(socket: &impl AsRawFd) -> io::Result<()> {
    set_option(socket, libc::SO_KEEPALIVE, 1)
}

/// Lets the process open as many descriptors as the system allows it: raises the soft limit to the
/// hard one (`RLIMIT_NOFILE`).
///
/// # Errors
/// The system refuses.
pub fn raise_descriptor_limit() -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is valid memory for both calls.
    let result = unsafe {
        match libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) {
            0 => {
                limit.rlim_cur = limit.rlim_max;
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)
            }
            failed => failed,
        }
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_option(socket: &impl AsRawFd, option: libc::c_int, value: i32) -> io::Result<()> {
    let length = mem::size_of_val(&value) as libc::socklen_t;
    // SAFETY: an open descriptor, and a value of the length that is told.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ends both directions of a socket, for all of its handles. An error means that it has ended
/// already.
pub fn shut_socket(socket: &impl AsRawFd) {
    // SAFETY: a valid descriptor.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
}

/// Returns true if the peer of a socket has closed it in both directions, as far as the system
/// knows that: of a TCP connection it does once something was sent and refused.
pub fn has_hung_up(socket: &impl AsRawFd) -> bool {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one entry, which is there; it does not wait.
    let found = unsafe { libc::poll(&raw mut poll, 1, 0) };
    found > 0 && poll.revents & (libc::POLLHUP | libc::POLLERR) != 0
}

/// Returns how many bytes have come to a socket and were not received yet.
pub fn unread(socket: &impl AsRawFd) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: an open descriptor, and memory for the number. An error leaves 0.
    unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    u64::try_from(bytes).unwrap_or(0)
}

/// Returns how many bytes were sent through a TCP connection that the system of its peer does not
/// have yet; 0 for a socket of another kind, which keeps for its peer what was sent.
pub fn unsent(socket: &impl AsRawFd) -> usize {
    let (mut domain, mut length): (libc::c_int, _) =
        (0, mem::size_of::<libc::c_int>() as libc::socklen_t);
    let value = (&raw mut domain).cast();
    // SAFETY: an open descriptor, and memory of the length that is told.
    unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_DOMAIN,
            value,
            &raw mut length,
        )
    };
    let mut bytes: libc::c_int = 0;
    if domain != libc::AF_UNIX {
        // SAFETY: an open descriptor, and memory for the number. An error leaves 0.
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    }
    usize::try_from(bytes).unwrap_or(0)
}

/// Waits until the system of the peer of a TCP connection has all that was sent to it, and drops
/// what comes meanwhile. It has to be done before the connection is closed: if bytes have come that
/// the peer does not read, the system resets it, and drops what is not sent yet. Ends after
/// `patience` in which nothing was taken, or after `most`.
pub fn linger(socket: &impl AsRawFd, patience: Duration, most: Duration) {
    let began = Instant::now();
    let (mut left, mut at, mut dropped) = (usize::MAX, began, [0_u8; 16 << 10]);
    while began.elapsed() < most {
        for _ in 0..DROPS {
            let (memory, length) = (dropped.as_mut_ptr().cast(), dropped.len());
            // SAFETY: an open descriptor, and memory of this length.
            let read =
                unsafe { libc::recv(socket.as_raw_fd(), memory, length, libc::MSG_DONTWAIT) };
            if read <= 0 {
                break;
            }
        }
        match unsent(socket) {
            0 => return,
            now if now < left => (left, at) = (now, Instant::now()),
            _ if at.elapsed() >= patience => return,
            _ => {}
        }
        std::thread::sleep(LOOK);
    }
}

/// How often [`linger`] looks.
const LOOK: Duration = Duration::from_millis(5);
/// Reads of what comes each time.
const DROPS: usize = 64;

/// A socket of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketId(pub(crate) u32);

impl SocketId {
    /// Returns its number: those of open sockets are small.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What has happened to a socket.
#[derive(Debug)]
pub enum SocketEvent {
    /// A receive has ended: how many bytes came, 0 at the end of the stream.
    Received(SocketId, Incoming, io::Result<usize>),
    /// A receive to which nothing had come was cancelled.
    Cancelled(SocketId, Incoming),
    /// A send has ended: everything was sent, or an error says that the socket is of no use.
    Sent(SocketId, Outgoing, io::Result<()>),
}

/// A part of the buffer of a task's I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotBytes {
    /// The task.
    pub task: TaskId,
    /// The token of its I/O.
    pub token: u64,
    /// The first byte.
    pub start: u64,
    /// How many.
    pub length: u64,
}

impl SlotBytes {
    fn piece(&self) -> Piece {
        Piece {
            task: self.task,
            token: self.token,
            offset: self.start,
            len: self.length,
            sector: Sector::ZERO,
        }
    }
}

/// Memory for bytes that come, and how much of it is filled with bytes that were not taken.
#[derive(Debug)]
pub struct Incoming {
    memory: Mapping,
    start: usize,
    end: usize,
}

impl Incoming {
    /// Maps memory for so many bytes; pages that never held a byte take none.
    ///
    /// # Errors
    /// The machine has not enough memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        Ok(Self { memory: Mapping::new(bytes)?, start: 0, end: 0 })
    }

    /// Returns the bytes that came and were not taken.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: inside the mapping, which is initialised; while the kernel writes to it, it
        // belongs to the socket.
        unsafe {
            std::slice::from_raw_parts(self.memory.start().add(self.start), self.end - self.start)
        }
    }

    /// Takes the first bytes.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn take(&mut self, bytes: usize) {
        assert!(bytes <= self.end - self.start, "no more is taken than came");
        self.start += bytes;
    }

    /// Returns the room for bytes to come, behind those that were not taken.
    pub fn room(&mut self) -> &mut [u8] {
        self.move_to_front();
        // SAFETY: as in `bytes`, and the slice borrows the memory.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.memory.start().add(self.end),
                self.memory.len() - self.end,
            )
        }
    }

    /// Counts bytes that were put into the room.
    ///
    /// # Panics
    /// If there is less room.
    pub fn add(&mut self, bytes: usize) {
        assert!(bytes <= self.memory.len() - self.end, "no more came than there is room for");
        self.end += bytes;
    }

    /// Gives back the memory behind the bytes that were not taken.
    pub fn give_back(&mut self) {
        self.move_to_front();
        self.memory.give_back(self.end..self.memory.len());
    }

    fn move_to_front(&mut self) {
        if self.start > 0 {
            // SAFETY: both ranges are inside the mapping, and `copy` allows them to overlap.
            unsafe {
                ptr::copy(
                    self.memory.start().add(self.start),
                    self.memory.start(),
                    self.end - self.start,
                );
            }
            (self.start, self.end) = (0, self.end - self.start);
        }
    }
}

/// Bytes to be sent, in order: heads of replies, and between them data.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Everything that is not data.
    pub heads: Vec<u8>,
    /// Data in the buffers of I/O, which must not be used before it was sent; each with the number
    /// of bytes of `heads` that come before it.
    data: Vec<(usize, SlotBytes)>,
}

impl Outgoing {
    /// Appends data behind the heads so far.
    pub fn push(&mut self, data: SlotBytes) {
        self.data.push((self.heads.len(), data));
    }

    /// Returns true if there is nothing to be sent.
    pub const fn is_empty(&self) -> bool {
        self.heads.is_empty() && self.data.is_empty()
    }

    /// Empties it, and keeps its memory.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.data.clear();
    }

    /// Moves everything to the heads of another, which is empty, and has the bytes of each buffer
    /// appended there by `take`. No more memory is taken than that needs.
    pub fn gather_into(&mut self, to: &mut Self, mut take: impl FnMut(&SlotBytes, &mut Vec<u8>)) {
        let of_slots: u64 = self.slots().map(|slot| slot.length).sum();
        to.heads.reserve_exact(self.heads.len() + of_slots as usize);
        let mut start = 0;
        for (end, slot) in self.data.drain(..) {
            to.heads.extend_from_slice(&self.heads[start..end]);
            start = end;
            take(&slot, &mut to.heads);
        }
        to.heads.extend_from_slice(&self.heads[start..]);
        self.heads.clear();
    }

    /// Yields the parts in the buffers of I/O.
    pub fn slots(&self) -> impl Iterator<Item = &SlotBytes> {
        self.data.iter().map(|(_, slot)| slot)
    }

    /// Yields what is to be sent, in order: some heads, then some data.
    pub fn parts(&self) -> impl Iterator<Item = (&[u8], Option<&SlotBytes>)> {
        let ends = self.data.iter().map(|(end, data)| (*end, Some(data)));
        let mut start = 0;
        ends.chain([(self.heads.len(), None)]).map(move |(end, data)| {
            let heads = &self.heads[start..end];
            start = end;
            (heads, data)
        })
    }
}

/// A receive in the ring.
struct Receiving {
    incoming: Incoming,
    spans: Vec<Span>,
}

/// A send in the ring.
struct Sending {
    outgoing: Outgoing,
    spans: Vec<Span>,
    total: usize,
    sent: usize,
}

/// Addresses that the kernel reads while an entry is in the ring. They do not move: the socket is
/// in a box.
struct Message {
    header: libc::msghdr,
    vectors: Vec<libc::iovec>,
}

impl Message {
    const fn new() -> Self {
        // SAFETY: zeroes are a valid header: no name, no vectors, no control data.
        Self { header: unsafe { mem::zeroed() }, vectors: Vec::new() }
    }

    /// Leaves the first bytes out.
    fn skip(&mut self, mut bytes: usize) {
        for vector in &mut self.vectors {
            let cut = bytes.min(vector.iov_len);
            vector.iov_base = vector.iov_base.wrapping_byte_add(cut);
            vector.iov_len -= cut;
            bytes -= cut;
        }
        self.vectors.retain(|vector| vector.iov_len > 0);
    }

    fn header(&mut self) -> *mut libc::msghdr {
        self.header.msg_iov = self.vectors.as_mut_ptr();
        self.header.msg_iovlen = self.vectors.len();
        &raw mut self.header
    }
}

/// A socket.
pub(crate) struct Socket {
    fd: OwnedFd,
    receive: Option<Receiving>,
    send: Option<Sending>,
    received: Message,
    sent: Message,
    /// Lists to be used again.
    spare: Vec<Vec<Span>>,
}

// SAFETY: the addresses are of memory that the socket owns, or that counts as in flight.
unsafe impl Send for Socket {}

/// What follows from a result of the ring.
pub(crate) enum Next {
    /// The rest is to be submitted.
    Again(squeue::Entry),
    Event(SocketEvent),
}

impl Socket {
    pub(crate) fn new(fd: OwnedFd) -> Box<Self> {
        let (received, sent) = (Message::new(), Message::new());
        Box::new(Self { fd, receive: None, send: None, received, sent, spare: Vec::new() })
    }

    /// Returns how many entries of it are in the ring.
    pub(crate) fn in_flight(&self) -> usize {
        usize::from(self.receive.is_some()) + usize::from(self.send.is_some())
    }

    /// Starts a receive of bytes for these buffers and then for the memory.
    pub(crate) fn receive(
        &mut self,
        mut incoming: Incoming,
        slots: &[SlotBytes],
        buffers: &mut Buffers,
    ) -> squeue::Entry {
        assert!(self.receive.is_none(), "one receive at a time");
        let mut spans = self.spare.pop().unwrap_or_default();
        spans.clear();
        slots.iter().for_each(|slot| buffers.start(&slot.piece(), true, &mut spans));
        incoming.move_to_front();
        let rest = (
            incoming.memory.start().wrapping_add(incoming.end),
            incoming.memory.len() - incoming.end,
        );
        assert!(rest.1 > 0, "there is room for what comes");
        let message = &mut self.received;
        message.vectors.clear();
        message.vectors.extend(spans.iter().map(|span| vector(span.address, span.len)));
        message.vectors.push(vector(rest.0, rest.1));
        self.receive = Some(Receiving { incoming, spans });
        self.receive_entry()
    }

    fn receive_entry(&mut self) -> squeue::Entry {
        let fd = types::Fd(self.fd.as_raw_fd());
        match self.received.vectors[..] {
            [one] => opcode::Recv::new(fd, one.iov_base.cast(), one.iov_len as u32).build(),
            _ => opcode::RecvMsg::new(fd, self.received.header()).build(),
        }
    }

    /// Starts a send.
    pub(crate) fn send(&mut self, outgoing: Outgoing, buffers: &mut Buffers) -> squeue::Entry {
        assert!(self.send.is_none() && !outgoing.is_empty(), "one send at a time");
        let mut spans = self.spare.pop().unwrap_or_default();
        spans.clear();
        let message = &mut self.sent;
        message.vectors.clear();
        for (heads, data) in outgoing.parts() {
            message.vectors.push(vector(heads.as_ptr().cast_mut(), heads.len()));
            if let Some(slot) = data {
                buffers.start(&slot.piece(), false, &mut spans);
                let span = spans.last().expect("appended above");
                message.vectors.push(vector(span.address, span.len));
            }
        }
        let total = message.vectors.iter().map(|vector| vector.iov_len).sum();
        message.skip(0);
        assert!(message.vectors.len() <= MAX_VECTORS, "the caller bounds what is unanswered");
        self.send = Some(Sending { outgoing, spans, total, sent: 0 });
        self.send_entry()
    }

    fn send_entry(&mut self) -> squeue::Entry {
        let flags = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32;
        opcode::SendMsg::new(types::Fd(self.fd.as_raw_fd()), self.sent.header())
            .flags(flags)
            .build()
    }

    /// Takes the result of a receive.
    pub(crate) fn on_received(&mut self, id: SocketId, result: i32, buffers: &mut Buffers) -> Next {
        if is_to_be_repeated(result) {
            return Next::Again(self.receive_entry());
        }
        let Receiving { mut incoming, spans } = self.receive.take().expect("a receive in the ring");
        spans.iter().for_each(|span| buffers.finish(span, true));
        if result == -libc::ECANCELED {
            self.spare.push(spans);
            return Next::Event(SocketEvent::Cancelled(id, incoming));
        }
        let result = count(result);
        let in_slots: usize = spans.iter().map(|span| span.len).sum();
        incoming.add(result.as_ref().map_or(0, |bytes| bytes.saturating_sub(in_slots)));
        self.spare.push(spans);
        Next::Event(SocketEvent::Received(id, incoming, result))
    }

    /// Takes the result of a send.
    pub(crate) fn on_sent(&mut self, id: SocketId, result: i32, buffers: &mut Buffers) -> Next {
        if is_to_be_repeated(result) {
            return Next::Again(self.send_entry());
        }
        let send = self.send.as_mut().expect("a send in the ring");
        let result = count(result);
        if let Ok(bytes) = result {
            send.sent += bytes;
            if bytes > 0 && send.sent < send.total {
                self.sent.skip(bytes);
                return Next::Again(self.send_entry());
            }
        }
        let Sending { outgoing, spans, total, sent } = self.send.take().expect("found above");
        spans.iter().for_each(|span| buffers.finish(span, false));
        self.spare.push(spans);
        let is_whole =
            |_| if sent == total { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) };
        Next::Event(SocketEvent::Sent(id, outgoing, result.and_then(is_whole)))
    }

    /// Ends what is in a ring that has failed: the kernel may still use its memory, which therefore
    /// stays, and buffers of I/O stay in flight. Returns an event for each.
    pub(crate) fn give_up(&mut self, id: SocketId) -> Option<SocketEvent> {
        let error = || io::Error::from_raw_os_error(libc::EIO);
        if let Some(mut receive) = self.receive.take() {
            receive.incoming.memory.keep();
            mem::forget(mem::replace(&mut self.received, Message::new()));
            // The caller closes the socket, and needs no memory for it.
            let none = Incoming::new(1).ok()?;
            return Some(SocketEvent::Received(id, none, Err(error())));
        }
        let send = self.send.take()?;
        mem::forget(send.outgoing);
        mem::forget(mem::replace(&mut self.sent, Message::new()));
        Some(SocketEvent::Sent(id, Outgoing::default(), Err(error())))
    }

    /// Ends both directions, so that what is in the ring comes to its end.
    pub(crate) fn shut(&self) {
        shut_socket(&self.fd);
    }

    /// Returns true if its peer has closed it in both directions.
    pub(crate) fn has_hung_up(&self) -> bool {
        has_hung_up(&self.fd)
    }

    /// Returns how many bytes have come and were not received yet.
    pub(crate) fn unread(&self) -> u64 {
        unread(&self.fd)
    }

    /// Returns a second descriptor of it.
    pub(crate) fn clone_fd(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// Returns its descriptor.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

/// Vectors of a message that the kernel accepts (UIO_MAXIOV of linux/uio.h).
const MAX_VECTORS: usize = 1024;

const fn vector(address: *mut u8, length: usize) -> libc::iovec {
    libc::iovec { iov_base: address.cast(), iov_len: length }
}

const fn is_to_be_repeated(result: i32) -> bool {
    result == -libc::EINTR || result == -libc::EAGAIN
}

fn count(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}
