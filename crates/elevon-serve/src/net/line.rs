//! The way between a device's thread and a client: its socket in the ring that carries out the
//! device's I/O, or, with TLS and on devices without a ring, two threads that do nothing but move
//! its bytes.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use elevon_host::{Host, Incoming, Outgoing, SocketId};

use crate::net::listen::Socket;
use crate::net::queues::BellWaiter;
use crate::net::tls::{Channel, Inlet, LastBytes, Outlet, Unprotected};

/// Bytes that are taken from a socket of the ring at a time, besides those that go to the buffers
/// of I/O. What a client sends ahead is taken in one call, so that a client that sleeps until its
/// socket has room is woken less often.
const IN_RING: usize = 256 << 10;
/// Bytes that a thread takes from a socket at a time.
const IN_THREAD: usize = 256 << 10;

/// A protected connection.
pub(crate) struct Secure {
    pub(crate) channel: Arc<Channel>,
    pub(crate) incoming: Unprotected,
}

/// Notifies the server, when it is dropped, that a connection has ended.
#[derive(Default)]
pub(crate) struct EndNotice {
    notify: Option<Box<dyn FnOnce(Option<io::Error>) + Send>>,
    /// Why, if not as it should.
    pub(crate) error: Option<io::Error>,
}

impl EndNotice {
    pub(crate) fn new(notify: impl FnOnce(Option<io::Error>) + Send + 'static) -> Self {
        Self { notify: Some(Box::new(notify)), error: None }
    }
}

impl Drop for EndNotice {
    fn drop(&mut self) {
        if let Some(notify) = self.notify.take() {
            notify(self.error.take());
        }
    }
}

/// What a thread of a connection has done.
pub(crate) enum LineEvent {
    /// It has received bytes of a client, 0 at the end.
    Received { client: u32, input: Incoming, result: io::Result<usize> },
    /// It has sent replies to a client.
    Sent { client: u32, outgoing: Outgoing, result: io::Result<()> },
    /// The bell of a client's queues has rung.
    Rang { client: u32 },
}

/// Takes what the threads of a connection have done to the thread of the device.
pub(crate) type Report = Arc<dyn Fn(LineEvent) + Send + Sync>;

/// What a thread that writes is told.
pub(crate) enum ToWriter {
    /// Send this; it has no data in buffers of I/O.
    Send(Outgoing),
    /// TLS itself has something to say.
    Speak,
    /// Nothing follows.
    End(EndNotice),
}

/// The way to a client.
pub(crate) enum Line {
    Ring(SocketId),
    Threads {
        reader: Sender<Incoming>,
        writer: Sender<ToWriter>,
        /// `None` in tests.
        socket: Option<Arc<Socket>>,
        /// What the thread that reads still takes.
        last: Arc<LastBytes>,
    },
}

impl Line {
    /// Makes the way to a client with an open export, and memory for what it sends. `input` are
    /// bytes that came already.
    ///
    /// # Errors
    /// There is no memory, no descriptor or no thread left.
    pub(crate) fn open(
        number: u32,
        socket: Socket,
        secure: Option<Secure>,
        input: &[u8],
        host: Option<&mut Host>,
        report: Report,
    ) -> io::Result<(Self, Incoming)> {
        if secure.is_none()
            && let Some(host) = host.filter(|host| host.takes_sockets())
        {
            let incoming = with(input, IN_RING)?;
            return Ok((Self::Ring(host.add_socket(socket.into())), incoming));
        }
        let socket = Arc::new(socket);
        let (protected, incoming) = secure.map(|secure| (secure.channel, secure.incoming)).unzip();
        let (reader, to_read) = channel();
        let (writer, to_write) = channel();
        let outlet = Outlet { socket: Arc::clone(&socket), channel: protected };
        let writes = Writes { number, outlet, report: Arc::clone(&report) };
        let speaks = writer.clone();
        std::thread::Builder::new().name("write".into()).spawn(move || writes.run(&to_write))?;
        let last = Arc::new(LastBytes::new());
        let inlet =
            Inlet { socket: Arc::clone(&socket), protected: incoming, last: Arc::clone(&last) };
        let reads = Reads { number, inlet, report, speaks };
        let line = Self::Threads { reader, writer, socket: Some(socket), last };
        std::thread::Builder::new().name("read".into()).spawn(move || reads.run(&to_read))?;
        Ok((line, with(input, IN_THREAD)?))
    }
}

/// Waits for the bell of a client's queues in a thread, until they are gone: for a device without a
/// ring.
///
/// # Errors
/// There is no thread left.
pub(crate) fn wait_for_bell(
    client: u32,
    bell: Box<dyn BellWaiter>,
    report: Report,
) -> io::Result<()> {
    let work = move || {
        while bell.wait() {
            report(LineEvent::Rang { client });
        }
    };
    std::thread::Builder::new().name("bell".into()).spawn(work).map(drop)
}

/// For this time nothing may go to a client that is to be left before the connection is closed all
/// the same, and for that time in all.
const MAX_LINGER_SILENCE: Duration = Duration::from_secs(1);
const MAX_LINGER: Duration = Duration::from_secs(10);

/// Closes a connection of the ring once the client has what it was sent, for which a thread waits
/// if it does not have it yet.
pub(crate) fn close(socket: OwnedFd, left: EndNotice) {
    let end = move |socket: OwnedFd| {
        elevon_host::shut_socket(&socket);
        drop((socket, left));
    };
    if elevon_host::unsent(&socket) == 0 {
        return end(socket);
    }
    let wait = move || {
        elevon_host::linger(&socket, MAX_LINGER_SILENCE, MAX_LINGER);
        end(socket);
    };
    // Without a thread it is closed now.
    let _ = std::thread::Builder::new().name("close".into()).spawn(wait);
}

/// Takes what comes of a client of the ring that was asked to end, until its connection is closed,
/// in a thread: a client that sends before it reads its answers would wait for ever.
pub(crate) fn drain(socket: OwnedFd) {
    let work = move || crate::net::tls::waste(&mut &UnixStream::from(socket));
    // Without a thread it waits until the connection is closed.
    let _ = std::thread::Builder::new().name("drain".into()).spawn(work);
}

/// Returns memory for what comes, with the bytes that came already.
fn with(input: &[u8], size: usize) -> io::Result<Incoming> {
    let mut incoming = Incoming::new(size.max(2 * input.len()))?;
    incoming.room()[..input.len()].copy_from_slice(input);
    incoming.add(input.len());
    Ok(incoming)
}

/// The thread that reads.
struct Reads {
    number: u32,
    inlet: Inlet,
    report: Report,
    speaks: Sender<ToWriter>,
}

impl Reads {
    /// Fills memory as often as the device hands it out, until the client sends no more.
    fn run(mut self, memory: &Receiver<Incoming>) {
        while let Ok(mut input) = memory.recv() {
            let read = self.inlet.read(input.room());
            input.add(*read.as_ref().unwrap_or(&0));
            if self.inlet.has_to_say() {
                // A writer that has ended says nothing.
                let _ = self.speaks.send(ToWriter::Speak);
            }
            let has_ended = !matches!(read, Ok(1..));
            (self.report)(LineEvent::Received { client: self.number, input, result: read });
            if has_ended {
                return self.inlet.drain();
            }
        }
    }
}

/// The thread that writes.
struct Writes {
    number: u32,
    outlet: Outlet,
    report: Report,
}

impl Writes {
    /// Writes until nothing follows, and ends the connection.
    fn run(self, queue: &Receiver<ToWriter>) {
        while let Ok(told) = queue.recv() {
            match told {
                ToWriter::Send(outgoing) => {
                    let result = self.write(&outgoing);
                    (self.report)(LineEvent::Sent { client: self.number, outgoing, result });
                }
                // If it fails, so does the next reply.
                ToWriter::Speak => drop(self.outlet.send(b"")),
                ToWriter::End(left) => {
                    self.outlet.close();
                    elevon_host::linger(&*self.outlet.socket, MAX_LINGER_SILENCE, MAX_LINGER);
                    self.outlet.socket.shutdown(Shutdown::Both);
                    return drop(left);
                }
            }
        }
        self.outlet.socket.shutdown(Shutdown::Both);
    }

    fn write(&self, outgoing: &Outgoing) -> io::Result<()> {
        debug_assert!(outgoing.slots().next().is_none(), "what is in buffers was gathered");
        if outgoing.heads.is_empty() { Ok(()) } else { self.outlet.send(&outgoing.heads) }
    }
}
