//! A connection until an export is open: a thread speaks with the client, and then gives the
//! connection to the thread of the export's device.

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

use elevon_nbd::{
    Close, Export, Exports, Refusal, Session, SessionConfig, Step, Tls as Mode, TransmissionFlags,
};
use elevon_result::number::counted;

use super::transmission::Transmission;
use crate::log::{Field, Level, Record};
use crate::net::export::{ExportedDisk, NotOpened, ServedExport, find};
use crate::net::gate::Gate;
use crate::net::line::{EndNotice, Secure};
use crate::net::listen::{Socket, Timed};
use crate::net::opened::{Front, Opened};
use crate::net::refused::ConnectionRefusal;
use crate::net::tls::{Channel, Identity, Tls, Unprotected};

/// Bytes that are read from a socket at a time.
const READ: usize = 32 << 10;
/// How long a client may take for an option, or to take its answer.
const NEGOTIATION: Duration = Duration::from_secs(60);
/// How long it may take to open an export, however many options it asks for.
const LONGEST_NEGOTIATION: Duration = Duration::from_secs(600);
/// How long a client may take for the handshake of TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The exports as a client sees them.
struct Seen<'a> {
    server: &'a dyn Gate,
    exports: Arc<Vec<ServedExport>>,
    /// The number of its connection.
    number: u32,
    client: &'a Arc<Identity>,
    /// Why it did not get an export.
    refused: Cell<Option<ConnectionRefusal>>,
    /// Why it did not get an export, in words, with the name of the export, if that exists.
    denied: RefCell<Option<(String, String)>>,
    /// What it has open.
    opened: RefCell<Option<ServedExport>>,
}

impl<'a> Seen<'a> {
    fn new(server: &'a dyn Gate, number: u32, client: &'a Arc<Identity>) -> Self {
        let (refused, denied, opened) = (Cell::new(None), RefCell::new(None), RefCell::new(None));
        Self { server, exports: server.exports(), number, client, refused, denied, opened }
    }

    fn refuse(&self, why: ConnectionRefusal, told: Refusal) -> Refusal {
        self.refused.set(Some(why));
        told
    }

    fn deny(&self, export: &str, why: String) {
        *self.denied.borrow_mut() = Some((export.to_owned(), why));
    }
}

impl Exports for Seen<'_> {
    fn names(&self) -> Vec<String> {
        let seen = self.exports.iter().filter(|export| export.is_for(self.client));
        seen.map(|export| export.name.clone()).collect()
    }
    fn listed(&self, from: usize) -> Option<(usize, String)> {
        let mut seen = self.exports.iter().enumerate().skip(from);
        let (place, export) = seen.find(|(_, export)| export.is_for(self.client))?;
        Some((place, export.name.clone()))
    }
    fn export(&self, name: &str) -> Result<Export, Refusal> {
        match find(&self.exports, name, self.client) {
            Some(known) if known.is_drained => {
                Err(self.refuse(ConnectionRefusal::Drained, Refusal::Shutdown))
            }
            Some(known) => Ok(nbd_export(&known.disk)),
            None if self.exports.iter().any(|export| export.name == name) => {
                self.deny(name, format!("is not for {}", self.client.in_words()));
                Err(self.refuse(ConnectionRefusal::NotForClient, Refusal::Unknown))
            }
            None => Err(self.refuse(ConnectionRefusal::UnknownExport, Refusal::Unknown)),
        }
    }
    fn listed_name(&self, name: &str) -> String {
        find(&self.exports, name, self.client).map_or(name, |known| &known.name).to_owned()
    }
    fn description(&self, name: &str) -> String {
        find(&self.exports, name, self.client)
            .map(|known| known.disk.description.clone())
            .unwrap_or_default()
    }
    fn open(&self, name: &str) -> Result<Export, Refusal> {
        // One that it may not have is said to be so by this.
        self.export(name)?;
        match self.server.open(self.number, name, self.client) {
            Ok(known) => {
                let told = nbd_export(&known.disk);
                *self.opened.borrow_mut() = Some(known);
                Ok(told)
            }
            Err(NotOpened::Unknown) => {
                Err(self.refuse(ConnectionRefusal::UnknownExport, Refusal::Unknown))
            }
            Err(NotOpened::Drained) => {
                Err(self.refuse(ConnectionRefusal::Drained, Refusal::Shutdown))
            }
            Err(NotOpened::Full { limit, key, why }) => {
                let most = counted(limit.into(), "connection");
                self.deny(&self.listed_name(name), format!("is refused: {key} allows {most}"));
                Err(self.refuse(why, Refusal::Full))
            }
        }
    }
}

/// Returns a disk as a client of NBD is told it. All connections see the same bytes. A client that
/// wants fast zeroes is told at once if they are no faster than data.
fn nbd_export(disk: &ExportedDisk) -> Export {
    let ExportedDisk { size, block, preferred, read_only, rotational, trim, ref description } =
        *disk;
    let flags =
        TransmissionFlags { read_only, rotational, trim, multi_conn: true, fast_zero: true };
    Export { flags, block, preferred, description: description.clone(), ..Export::new(size) }
}

/// Speaks with a client until it has opened an export, and gives the connection to the device's
/// thread, or until either side ends it.
pub(crate) fn negotiate(
    number: u32,
    socket: Socket,
    client: Arc<Identity>,
    server: &Arc<dyn Gate>,
) {
    let of_left = Arc::clone(server);
    let mut left = EndNotice::new(move |error| of_left.left(number, error));
    let tls = server.tls();
    let mode = match tls.as_deref() {
        None => Mode::Off,
        Some(tls) if tls.is_required() => Mode::Required,
        Some(_) => Mode::Offered,
    };
    let session = Session::new(SessionConfig { tls: mode, ..SessionConfig::default() });
    let began = Instant::now();
    let until = began + NEGOTIATION;
    let (input, secure, refused, was_denied) = (Vec::new(), None, None, false);
    let mut reader =
        Reader { number, session, input, client, secure, refused, was_denied, began, until };
    let opened = reader.negotiate(&socket, &**server, tls.as_deref());
    if !matches!(opened, Ok(Some(_)))
        && let Some(why) = reader.refusal()
    {
        server.count_refused(why);
    }
    match opened {
        Ok(Some(export)) => match socket.set_timeouts(None) {
            Ok(()) => return reader.give(socket, left, &**server, &export),
            Err(error) => left.error = Some(error),
        },
        Ok(None) => reader.close(&socket),
        Err(error) => left.error = Some(error),
    }
    socket.shutdown(Shutdown::Both);
}

struct Reader {
    number: u32,
    session: Session,
    /// Bytes that came and were not understood yet.
    input: Vec<u8>,
    /// The identity of the client.
    client: Arc<Identity>,
    secure: Option<Secure>,
    /// Why it did not get the last export that it asked for, or no TLS.
    refused: Option<ConnectionRefusal>,
    /// It asked for an export that it may not have.
    was_denied: bool,
    began: Instant,
    /// When it has to have come on.
    until: Instant,
}

impl Reader {
    /// Speaks with a client until it has opened an export. `None` if it left.
    fn negotiate(
        &mut self,
        socket: &Socket,
        server: &dyn Gate,
        tls: Option<&Tls>,
    ) -> io::Result<Option<ServedExport>> {
        loop {
            let client = Arc::clone(&self.client);
            let seen = Seen::new(server, self.number, &client);
            let (used, step) = self.session.step(&self.input, &seen);
            self.refused = seen.refused.get().or(self.refused);
            if let Some((export, why)) = seen.denied.into_inner() {
                self.deny(server, &format!("export {export} {why}"), Some(&export));
            } else if self.secure.is_none() && self.session.was_refused_without_tls() {
                self.deny(
                    server,
                    "is refused: it asks for an export without TLS, which is required",
                    None,
                );
            }
            let opened = seen.opened.into_inner();
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
                // It comes on: a list of many exports, and what is asked of each, takes its time.
                Step::Continue => {
                    self.until =
                        (Instant::now() + NEGOTIATION).min(self.began + LONGEST_NEGOTIATION);
                }
                Step::More => match self.read_more(&mut timed) {
                    Ok(0) => return Ok(None),
                    Err(error) if has_left(&error) => return Ok(None),
                    read => drop(read?),
                },
                Step::Opened(_) => {
                    let export = opened.expect("a session opens what it was given");
                    self.log_opened(server, &export);
                    return Ok(Some(export));
                }
                Step::StartTls => {
                    self.refused = Some(ConnectionRefusal::TlsHandshake);
                    self.start_tls(socket, tls.expect("it was offered"))?;
                    self.refused = None;
                }
                Step::Close(Close::Left) => return Ok(None),
                Step::Close(why) => return Err(io::Error::new(io::ErrorKind::InvalidData, why)),
                Step::Request(_) | Step::Refused { .. } => unreachable!("no export is open"),
            }
        }
    }

    /// Returns why the connection has opened nothing, if the server refused something.
    fn refusal(&self) -> Option<ConnectionRefusal> {
        let needs_tls = self.session.was_refused_without_tls() && self.secure.is_none();
        self.refused.or(needs_tls.then_some(ConnectionRefusal::TlsRequired))
    }

    /// Logs that the client does not get an export, once for a connection.
    fn deny(&mut self, server: &dyn Gate, why: &str, export: Option<&str>) {
        if std::mem::replace(&mut self.was_denied, true) {
            return;
        }
        let names = self.client.names.join(", ");
        let peer = self.client.who();
        let message = format!("connection {}, of {peer}: {why}", self.number);
        let client = ("client", Field::Number(self.number.into()));
        let export = ("export", Field::Text(export.unwrap_or_default()));
        let fields = [client, export, ("peer", Field::Text(&peer)), ("names", Field::Text(&names))];
        server.warn(&Record {
            level: Level::Warning,
            target: "connection",
            message: &message,
            fields: &fields,
        });
    }

    fn start_tls(&mut self, socket: &Socket, tls: &Tls) -> io::Result<()> {
        let until = self.until.min(Instant::now() + HANDSHAKE);
        let accepted = Channel::accept(tls, &mut Timed::new(socket, until));
        let (channel, client) =
            accepted.map_err(|error| io::Error::new(error.kind(), format!("TLS: {error}")))?;
        let channel = Arc::new(channel);
        // The session has closed connections of which it had bytes left, so none of these are
        // taken for protected ones.
        assert!(self.input.is_empty(), "nothing that came in the clear is left");
        let incoming = Unprotected::new(Arc::clone(&channel));
        self.secure = Some(Secure { channel, incoming });
        let (peer, place) = (self.client.peer.clone(), self.client.place.clone());
        self.client = Arc::new(Identity { peer, place, ..client });
        self.session.on_tls();
        Ok(())
    }

    /// Logs that an export is open.
    fn log_opened(&self, server: &dyn Gate, export: &ServedExport) {
        let names = self.client.names.join(", ");
        let peer = self.client.who();
        let message =
            format!("connection {}: opened export {}, by {peer}", self.number, export.name);
        let client = ("client", Field::Number(self.number.into()));
        let export = ("export", Field::Text(&export.name));
        let fields = [client, export, ("peer", Field::Text(&peer)), ("names", Field::Text(&names))];
        let fields = if names.is_empty() { &fields[..3] } else { &fields };
        server.log(&Record {
            level: Level::Debug,
            target: "connection",
            message: &message,
            fields,
        });
    }

    /// Gives the connection to the thread of the export's device.
    fn give(self, socket: Socket, left: EndNotice, server: &dyn Gate, export: &ServedExport) {
        let Self { number, session, input, secure, client: identity, .. } = self;
        let (name, charged) = (export.name.clone(), export.charged);
        let protocol = Box::new(Transmission::new(session));
        let front = Front::Stream { protocol, socket, secure, input };
        let opened = Opened { number, identity, export: name, charged, front, left };
        server.give(export, opened);
    }

    /// Ends a connection that opened nothing.
    fn close(&self, socket: &Socket) {
        if let Some(secure) = &self.secure {
            // A client that is gone needs no farewell.
            let _ = secure.channel.close(&mut Timed::new(socket, self.until));
        }
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
}

/// Returns true if a client did not wait for its answer, which is no error: after ABORT none does,
/// and a client that only looks whether a server is there does not read its greeting.
fn has_left(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Reads bytes of the client; 0 at the end.
fn receive(
    secure: Option<&mut Secure>,
    socket: &mut impl Read,
    buffer: &mut [u8],
) -> io::Result<usize> {
    match secure {
        Some(secure) => secure.incoming.read(socket, buffer),
        None => socket.read(buffer),
    }
}
