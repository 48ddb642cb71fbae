//! A connection: one thread reads and understands requests, one writes replies. Until an export is
//! open there is the first alone.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use elevon_nbd::{Close, Command, Export, Exports, Refusal, Request, Session, SessionConfig, Step, Tls as Mode};

use crate::client::Reply;
use crate::device::{DeviceHandle, Message};
use crate::gate::Gate;
use crate::listen::{Socket, Timed};
use crate::log::{Field, Level, Record};
use crate::pieces::Pieces;
use crate::shared::{Known, Shared, find};
use crate::tls::{Channel, Identity, Incoming, Tls};

/// Bytes that are read from a socket at a time.
const READ: usize = 32 << 10;
/// Replies up to this size are written together.
const TOGETHER: usize = 64 << 10;
/// How long a client may take to open an export.
const NEGOTIATION: Duration = Duration::from_secs(60);
/// How long a client may take for the handshake of TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The exports as a client sees them.
struct Seen<'a> {
    exports: Arc<Vec<Known>>,
    client: &'a Identity,
    /// An export that it asked for and may not have.
    denied: RefCell<Option<String>>,
}

impl<'a> Seen<'a> {
    const fn new(exports: Arc<Vec<Known>>, client: &'a Identity) -> Self {
        Self { exports, client, denied: RefCell::new(None) }
    }
}

impl Exports for Seen<'_> {
    fn names(&self) -> Vec<String> {
        let seen = self.exports.iter().filter(|export| self.client.is_one_of(&export.clients));
        seen.map(|export| export.name.clone()).collect()
    }
    fn export(&self, name: &str) -> Result<Export, Refusal> {
        match find(&self.exports, name, self.client) {
            Some(known) if known.is_drained => Err(Refusal::Shutdown),
            Some(known) => Ok(known.told.clone()),
            None => {
                if self.exports.iter().any(|export| export.name == name) {
                    *self.denied.borrow_mut() = Some(name.to_owned());
                }
                Err(Refusal::Unknown)
            }
        }
    }
}

/// Serves a connection until either side ends it.
///
/// # Errors
/// The socket failed, or the client did what it may not.
pub(crate) fn serve(name: u32, socket: Socket, shared: &Shared) -> io::Result<()> {
    let tls = shared.tls();
    let mode = match tls.as_deref() {
        None => Mode::Off,
        Some(tls) if tls.is_required() => Mode::Required,
        Some(_) => Mode::Offered,
    };
    let session = Session::new(SessionConfig { tls: mode, ..SessionConfig::default() });
    let until = Instant::now() + NEGOTIATION;
    let client = Arc::new(Identity::default());
    let mut reader = Reader { name, session, input: Vec::new(), client, secure: None, was_denied: false, until };
    let opened = reader.negotiate(&socket, shared, tls.as_deref());
    let served = match opened {
        Ok(Some(device)) => reader.serve(socket.try_clone()?, device),
        Ok(None) => reader.close(&socket),
        Err(error) => Err(error),
    };
    socket.shutdown(Shutdown::Both);
    served
}

struct Reader {
    name: u32,
    session: Session,
    /// Bytes that came and were not understood yet.
    input: Vec<u8>,
    /// Who the client is.
    client: Arc<Identity>,
    secure: Option<Secure>,
    /// It asked for an export that it may not have.
    was_denied: bool,
    /// When an export has to be open.
    until: Instant,
}

/// The protected connection, once there is one.
struct Secure {
    channel: Arc<Channel>,
    incoming: Incoming,
}

/// The device of the export that is open, and the way to its client.
struct Opened {
    device: DeviceHandle,
    replies: Sender<Reply>,
    queue: Receiver<Reply>,
}

impl Reader {
    /// Speaks with a client until it has opened an export. `None` if it left.
    fn negotiate(&mut self, socket: &Socket, shared: &Shared, tls: Option<&Tls>) -> io::Result<Option<Opened>> {
        loop {
            let seen = Seen::new(shared.exports(), &self.client);
            let (used, step) = self.session.step(&self.input, &seen);
            if let Some(export) = seen.denied.into_inner() {
                self.deny(shared, &export);
            }
            self.input.drain(..used);
            let output = self.session.take_output();
            let mut timed = Timed::new(socket, self.until);
            let sent = match &self.secure {
                Some(secure) => secure.channel.send(&mut timed, &output),
                None => timed.write_all(&output),
            };
            match sent {
                Err(error) if has_left(&error) => return Ok(None),
                sent => sent?,
            }
            match step {
                Step::Continue => {}
                Step::More => {
                    if self.read_more(&mut timed)? == 0 {
                        return Ok(None);
                    }
                }
                Step::Opened(export) => return self.open(socket, shared, &export),
                Step::StartTls => self.start_tls(socket, tls.expect("it was offered"))?,
                Step::Close(Close::Left) => return Ok(None),
                Step::Close(why) => return Err(io::Error::new(io::ErrorKind::InvalidData, why)),
                Step::Request(_) => unreachable!("no export is open"),
            }
        }
    }

    /// Logs that the client asked for an export that it may not have, once for a connection.
    fn deny(&mut self, shared: &Shared, export: &str) {
        if std::mem::replace(&mut self.was_denied, true) {
            return;
        }
        let names = self.client.names.join(", ");
        let who = if names.is_empty() { "a client without a certificate" } else { &names };
        let message = format!("connection {}: export {export} is not for {who}", self.name);
        let client = ("client", Field::Number(self.name.into()));
        let fields = [client, ("export", Field::Text(export)), ("names", Field::Text(&names))];
        shared.log(&Record { level: Level::Warning, target: "connection", message: &message, fields: &fields });
    }

    fn start_tls(&mut self, socket: &Socket, tls: &Tls) -> io::Result<()> {
        let until = self.until.min(Instant::now() + HANDSHAKE);
        let accepted = Channel::accept(tls.config(), &mut Timed::new(socket, until));
        let (channel, client) = accepted.map_err(|error| io::Error::new(error.kind(), format!("TLS: {error}")))?;
        let channel = Arc::new(channel);
        // The session has closed connections of which it had bytes left, so none of these are
        // taken for protected ones.
        assert!(self.input.is_empty(), "nothing that came in the clear is left");
        let incoming = Incoming::new(Arc::clone(&channel));
        self.secure = Some(Secure { channel, incoming });
        self.client = Arc::new(client);
        self.session.on_tls();
        Ok(())
    }

    fn open(&mut self, socket: &Socket, shared: &Shared, export: &str) -> io::Result<Option<Opened>> {
        let Some(export) = shared.opened(self.name, export, &self.client) else { return Ok(None) };
        socket.set_timeouts(None)?;
        let (replies, queue) = channel();
        let device = shared.devices[export.device].clone();
        let names = self.client.names.join(", ");
        let by = if names.is_empty() { String::new() } else { format!(", by {names}") };
        let message = format!("connection {}: opened export {}{by}", self.name, export.name);
        let client = ("client", Field::Number(self.name.into()));
        let fields = [client, ("export", Field::Text(&export.name)), ("names", Field::Text(&names))];
        let fields = if names.is_empty() { &fields[..2] } else { &fields };
        shared.log(&Record { level: Level::Debug, target: "connection", message: &message, fields });
        let (client, charged, replies_of) = (self.name, export.charged, replies.clone());
        device.send(Message::Open { client, export: export.name, charged, replies: replies_of });
        Ok(Some(Opened { device, replies, queue }))
    }

    /// Takes requests until either side ends the connection.
    fn serve(&mut self, mut socket: Socket, opened: Opened) -> io::Result<()> {
        let Opened { device, replies, queue } = opened;
        let gate = Arc::new(Gate::default());
        let channel = self.secure.as_ref().map(|secure| Arc::clone(&secure.channel));
        let read = match writer(socket.try_clone(), channel, queue, Arc::clone(&gate)) {
            Ok(writer) => {
                let read = self.requests(&mut socket, &device, &replies, &gate);
                device.send(Message::Close { client: self.name });
                // The writer ends when the device has dropped its sender, too.
                drop(replies);
                let _ = writer.join();
                read
            }
            Err(error) => {
                device.send(Message::Close { client: self.name });
                Err(error)
            }
        };
        socket.shutdown(Shutdown::Both);
        read
    }

    /// Ends a connection that opened nothing.
    fn close(&self, socket: &Socket) -> io::Result<()> {
        if let Some(secure) = &self.secure {
            // A client that is gone needs no farewell.
            let _ = secure.channel.close(&mut Timed::new(socket, self.until));
        }
        Ok(())
    }

    /// Adds bytes of the client to the input, and returns how many; 0 at the end.
    fn read_more(&mut self, socket: &mut impl Read) -> io::Result<usize> {
        let had = self.input.len();
        self.input.resize(had + READ, 0);
        let read = loop {
            match receive(self.secure.as_mut(), socket, &mut self.input[had..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.input.truncate(had + *read.as_ref().unwrap_or(&0));
        read
    }

    fn requests(
        &mut self,
        socket: &mut Socket,
        device: &DeviceHandle,
        replies: &Sender<Reply>,
        gate: &Gate,
    ) -> io::Result<()> {
        loop {
            let nothing = Seen::new(Arc::default(), &self.client);
            let (used, step) = self.session.step(&self.input, &nothing);
            self.input.drain(..used);
            if self.session.has_output() {
                // A client that is gone needs no answer.
                let _ = replies.send(Reply { bytes: self.session.take_output(), weight: None });
            }
            match step {
                Step::Continue => {}
                Step::More => {
                    let read = self.read_more(socket);
                    if let Some(secure) = &self.secure
                        && secure.channel.has_to_say()
                    {
                        let _ = replies.send(Reply { bytes: Vec::new(), weight: None });
                    }
                    if read? == 0 {
                        return Ok(());
                    }
                }
                Step::Request(request) => self.request(socket, request, device, replies, gate)?,
                Step::Opened(_) | Step::StartTls => unreachable!("an export is open"),
                Step::Close(Close::Left) => return Ok(()),
                Step::Close(why) => return Err(io::Error::new(io::ErrorKind::InvalidData, why)),
            }
        }
    }

    fn request(
        &mut self,
        socket: &mut Socket,
        request: Request,
        device: &DeviceHandle,
        replies: &Sender<Reply>,
        gate: &Gate,
    ) -> io::Result<()> {
        let format = self.session.reply_format();
        let weight = Pieces::weight(&request);
        gate.enter(weight);
        let mut payload = Vec::new();
        if request.command == Command::Write {
            let length = request.length as usize;
            payload.reserve_exact(length);
            let buffered = length.min(self.input.len());
            payload.extend(self.input.drain(..buffered));
            payload.resize(length, 0);
            let mut rest = &mut payload[buffered..];
            while !rest.is_empty() {
                match receive(self.secure.as_mut(), socket, rest) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(read) => rest = &mut rest[read..],
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            self.session.on_payload(request.length);
        }
        if request.command == Command::Cache {
            // There is no page cache that it could be read into.
            let mut bytes = Vec::new();
            format.done(&mut bytes, &request);
            let _ = replies.send(Reply { bytes, weight: Some(weight) });
            return Ok(());
        }
        if device.send(Message::Request { client: self.name, request, format, payload }) {
            Ok(())
        } else {
            Err(io::Error::other("the device's thread has ended"))
        }
    }
}

/// Returns true if a client did not wait for its answer, which is no error: after ABORT none does.
fn has_left(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Reads bytes of the client; 0 at the end.
fn receive(secure: Option<&mut Secure>, socket: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    match secure {
        Some(secure) => secure.incoming.read(socket, buffer),
        None => socket.read(buffer),
    }
}

/// Starts the thread that writes replies.
fn writer(
    socket: io::Result<Socket>,
    secure: Option<Arc<Channel>>,
    queue: Receiver<Reply>,
    gate: Arc<Gate>,
) -> io::Result<JoinHandle<()>> {
    let mut socket = socket?;
    std::thread::Builder::new().spawn(move || {
        let written = write(&mut socket, secure.as_deref(), &queue, &gate);
        if written.is_err() {
            // The reader must not wait for replies that cannot be sent.
            gate.open();
            socket.shutdown(Shutdown::Both);
        }
        // Whatever is still in flight is taken, so that the gate's counts come out.
        for reply in queue {
            reply.weight.into_iter().for_each(|weight| gate.leave(weight));
        }
    })
}

/// Writes replies until no more can come.
fn write(socket: &mut Socket, secure: Option<&Channel>, queue: &Receiver<Reply>, gate: &Gate) -> io::Result<()> {
    let mut send = |bytes: &[u8]| match secure {
        Some(channel) => channel.send(socket, bytes),
        None => socket.write_all(bytes),
    };
    let mut together = Vec::new();
    let mut weights = Vec::new();
    while let Ok(reply) = queue.recv() {
        weights.extend(reply.weight);
        let written = if reply.bytes.len() >= TOGETHER {
            send(&reply.bytes)
        } else {
            together.extend_from_slice(&reply.bytes);
            while together.len() < TOGETHER
                && let Ok(reply) = queue.try_recv()
            {
                weights.extend(reply.weight);
                together.extend_from_slice(&reply.bytes);
            }
            send(&together)
        };
        together.clear();
        weights.drain(..).for_each(|weight| gate.leave(weight));
        written?;
    }
    secure.map_or(Ok(()), |channel| channel.close(socket))
}
