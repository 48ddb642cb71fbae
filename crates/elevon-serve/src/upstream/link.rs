//! The connections to another server: one thread sends requests and connects again, one for each
//! connection receives answers.
//!
//! Connections are made together and end together. So every one that a request is sent on was made
//! before the first request, by the same run of the server: a flush that one of them answers covers
//! what the others answered, as far as the server promises that.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use elevon_core::status::Status;
use elevon_core::units::PAGE_SIZE;
use elevon_host::Alarm;
use elevon_nbd::{Client, ClientError, ClientStep, Command, Extent, Remote};
use elevon_report::number::counted;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::UpstreamAddress;
use crate::listen::{Address, Socket, Timed};
use crate::tls::{Channel, Inlet, Outlet, TlsError, Unprotected};

/// How long a server may take to open the export.
const NEGOTIATION: Duration = Duration::from_secs(10);
/// How long it may take for each connection after the first: some servers let those wait that
/// they do not serve.
const FURTHER: Duration = Duration::from_secs(2);
/// After a connection was not made, how long until the next is tried. Requests fail meanwhile.
const PAUSE: Duration = Duration::from_millis(200);
/// Bytes that are read from a socket at a time.
const READ: usize = 32 << 10;

/// Why a disk of another server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The server is not there, or ends the connection.
    #[error("{export}: {error}")]
    Socket {
        /// The export, as its address names it.
        export: String,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The server does not open the export.
    #[error("{export}: {error}")]
    Refused {
        /// The export, as its address names it.
        export: String,
        /// Why.
        #[source]
        error: ClientError,
    },
    /// The disk has larger blocks than its user takes.
    #[error("{export}: the server's blocks have {block} bytes; up to {most} are supported")]
    Blocks {
        /// The export, as its address names it.
        export: String,
        /// The bytes of its smallest request.
        block: u32,
        /// The most that are taken.
        most: u32,
    },
    /// The server takes less at a time than a queue submits.
    #[error("{export}: the server takes up to {payload} bytes at a time; at least {PAGE_SIZE} are needed")]
    Payload {
        /// The export, as its address names it.
        export: String,
        /// The most bytes that a request of it moves.
        payload: u32,
    },
    /// The disk is another one than before.
    #[error("{export}: the export has changed: {before:?} before, {now:?} now")]
    Changed {
        /// The export, as its address names it.
        export: String,
        /// The disk that was opened first.
        before: Box<Remote>,
        /// The disk that is there now.
        now: Box<Remote>,
    },
    /// The server has to use TLS, and nothing says whom it is known by.
    #[error("{export}: whose certificates are trusted? Add tls-certificates=DIR, a folder with ca-cert.pem")]
    NoAuthority {
        /// The export, as its address names it.
        export: String,
    },
    /// The files of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A certificate cannot have this name.
    #[error("{name}: no name that a certificate can have; give tls-hostname=NAME")]
    Hostname {
        /// The name.
        name: String,
    },
    /// This machine has no descriptor or no thread left.
    #[error("cannot be used: {0}")]
    Machine(#[source] io::Error),
}

/// A request to be sent.
pub(super) struct Ask {
    pub(super) cookie: u64,
    pub(super) request: Command,
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) fua: bool,
    /// The bytes of a WRITE.
    pub(super) payload: Vec<u8>,
}

/// What came.
pub(super) enum Answer {
    /// A request has finished.
    Of {
        cookie: u64,
        status: Status,
        /// The bytes of a READ; if it failed, those before the first that did.
        data: Vec<u8>,
        /// What is allocated, of a BLOCK_STATUS.
        extents: Vec<Extent>,
    },
    /// The connections were lost. What they had not answered was failed before; answers of new ones
    /// come after this.
    Lost,
    /// They could not be made again, for this reason.
    Away(String),
    /// They were made again.
    Back,
}

/// Tells the device's thread.
#[derive(Clone)]
struct Answers {
    queue: Sender<Answer>,
    alarm: Alarm,
}

impl Answers {
    fn tell(&self, answer: Answer) {
        // A device that is gone needs no answer.
        let _ = self.queue.send(answer);
        self.alarm.ring();
    }
    fn fail(&self, cookie: u64) {
        self.tell(Answer::Of { cookie, status: Status::IoError, data: Vec::new(), extents: Vec::new() });
    }
}

/// The sockets of the connections. Every thread may end them.
#[derive(Clone, Default)]
struct Sockets(Arc<Mutex<Vec<Arc<Socket>>>>);

impl Sockets {
    fn shutdown(&self) {
        self.0.lock().expect(LOCK).iter().for_each(|socket| socket.shutdown(Shutdown::Both));
    }
}

/// The connections to a server, as the thread of the device has them.
pub(super) struct Link {
    /// `None` once it ends.
    asks: Option<Sender<Ask>>,
    sender: Option<JoinHandle<()>>,
    sockets: Sockets,
}

const LOCK: &str = "no thread panics with the lock";

impl Link {
    /// Connects, and returns what the server says of the disk, the queue of answers, and what
    /// people should know.
    pub(super) fn open(
        address: UpstreamAddress,
        alarm: Alarm,
    ) -> Result<(Self, Remote, Receiver<Answer>, Vec<String>), UpstreamError> {
        let (queue, answers) = channel();
        let (asks, asked) = channel();
        let sockets = Sockets::default();
        let connector = Connector { address, answers: Answers { queue, alarm }, sockets: sockets.clone() };
        let (connections, remote, note) = connector.open(None)?;
        let mut thread = SenderThread { connector, remote, connections, paused_until: Instant::now() };
        // Those that the server does not serve are not waited for a second time.
        thread.connector.address.connections = thread.connections.len() as u32;
        let work = move || thread.run(&asked);
        let sender = std::thread::Builder::new().name("upstream".into()).spawn(work).map_err(UpstreamError::Machine)?;
        let link = Self { asks: Some(asks), sender: Some(sender), sockets };
        Ok((link, remote, answers, note.into_iter().collect()))
    }

    pub(super) fn send(&self, ask: Ask) {
        let asks = self.asks.as_ref().expect("it has not ended");
        asks.send(ask).expect("the thread ends after this");
    }

    /// Ends the connections, as if the server had: what is in flight fails.
    pub(super) fn cut(&self) {
        self.sockets.shutdown();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.asks = None;
        if let Some(sender) = self.sender.take() {
            let _ = sender.join();
        }
    }
}

/// Makes the connections to a server.
struct Connector {
    address: UpstreamAddress,
    answers: Answers,
    sockets: Sockets,
}

impl Connector {
    /// Opens all connections, to the disk that it was `before`. If not as many can be as are
    /// wanted, says why.
    fn open(&self, before: Option<&Remote>) -> Result<(Vec<Connection>, Remote, Option<String>), UpstreamError> {
        self.sockets.0.lock().expect(LOCK).clear();
        let (first, remote) = Connection::open(self, NEGOTIATION, before)?;
        let (mut connections, mut note) = (vec![first], None);
        let wanted = if remote.multi_conn { self.address.connections as usize } else { 1 };
        while connections.len() < wanted && note.is_none() {
            match Connection::open(self, FURTHER, Some(&remote)) {
                Ok((connection, _)) => connections.push(connection),
                Err(error) => {
                    let made = counted(connections.len() as u64, "connection");
                    note = Some(format!("{made} in place of {wanted}: {error}"));
                }
            }
        }
        Ok((connections, remote, note))
    }
}

/// The thread that sends.
struct SenderThread {
    connector: Connector,
    remote: Remote,
    /// None if they are lost.
    connections: Vec<Connection>,
    paused_until: Instant,
}

impl SenderThread {
    fn run(&mut self, asked: &Receiver<Ask>) {
        while let Ok(ask) = asked.recv() {
            if self.connections.iter().any(Connection::is_lost) {
                // Ends the others, and waits until they have failed what they had not answered.
                self.connections.clear();
                self.connector.answers.tell(Answer::Lost);
            }
            if self.connections.is_empty() && Instant::now() >= self.paused_until {
                self.connect();
            }
            let least = self.connections.iter().min_by_key(|connection| connection.lock().client.in_flight());
            if !least.is_some_and(|connection| connection.send(&ask)) {
                self.connector.answers.fail(ask.cookie);
            }
        }
        self.connections.iter().for_each(Connection::leave);
    }

    /// Connects again.
    fn connect(&mut self) {
        match self.connector.open(Some(&self.remote)) {
            Ok((connections, ..)) => {
                self.connections = connections;
                self.connector.answers.tell(Answer::Back);
            }
            Err(error) => {
                self.connector.answers.tell(Answer::Away(error.to_string()));
                self.paused_until = Instant::now() + PAUSE;
            }
        }
    }
}

/// The state that both directions of a connection share.
struct Shared {
    client: Client,
    is_lost: bool,
}

/// A connection with the export open.
struct Connection {
    outlet: Outlet,
    shared: Arc<Mutex<Shared>>,
    receiver: Option<JoinHandle<()>>,
}

impl Connection {
    /// Connects within a time, to the disk that it was `before`.
    fn open(connector: &Connector, time: Duration, before: Option<&Remote>) -> Result<(Self, Remote), UpstreamError> {
        let server = &connector.address.server;
        let until = Instant::now() + time;
        let export = || connector.address.to_string();
        let failed = |error| UpstreamError::Socket { export: export(), error };
        let protection = Protection::of(&connector.address)?;
        let socket = Arc::new(connect(server, time).map_err(failed)?);
        let mut client = Client::new(&connector.address.export, protection.is_some());
        let Negotiated { remote, channel, protected, input } =
            negotiate(&mut client, &connector.address, protection.as_ref(), &socket, until)?;
        if let Some(before) = before.filter(|before| **before != remote) {
            let (before, now) = (Box::new(*before), Box::new(remote));
            return Err(UpstreamError::Changed { export: export(), before, now });
        }
        socket.set_timeouts(None).map_err(UpstreamError::Machine)?;
        connector.sockets.0.lock().expect(LOCK).push(Arc::clone(&socket));
        let outlet = Outlet { socket: Arc::clone(&socket), channel };
        let shared = Arc::new(Mutex::new(Shared { client, is_lost: false }));
        let receiver = {
            let (shared, answers, sockets) =
                (Arc::clone(&shared), connector.answers.clone(), connector.sockets.clone());
            let mut inlet = Inlet { socket, protected };
            let work = move || {
                receive(&mut inlet, &shared, input, &answers);
                inlet.socket.shutdown(Shutdown::Both);
                let mut shared = shared.lock().expect(LOCK);
                shared.is_lost = true;
                shared.client.take_in_flight().into_iter().for_each(|cookie| answers.fail(cookie));
                sockets.shutdown();
            };
            std::thread::Builder::new().name("upstream".into()).spawn(work).map_err(UpstreamError::Machine)?
        };
        Ok((Self { outlet, shared, receiver: Some(receiver) }, remote))
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect(LOCK)
    }

    fn is_lost(&self) -> bool {
        self.lock().is_lost
    }

    /// Sends a request. If the connection is lost meanwhile, the thread that receives fails it.
    /// Returns false if it was lost before, and the request is not sent.
    fn send(&self, ask: &Ask) -> bool {
        let Ask { cookie, request, offset, length, fua, ref payload } = *ask;
        let header = {
            let mut shared = self.lock();
            // The thread that receives takes the lock to fail what is in flight, so a request
            // that finds no loss here is among that.
            if shared.is_lost {
                return false;
            }
            shared.client.request(cookie, request, offset, length, fua)
        };
        let sent = self.outlet.send(&header).and_then(|()| self.outlet.send(payload));
        if sent.is_err() {
            self.outlet.socket.shutdown(Shutdown::Both);
        }
        true
    }

    /// Takes leave of the server.
    fn leave(&self) {
        let bytes = self.lock().client.disconnect();
        // A server that is gone needs no farewell.
        let _ = self.outlet.send(&bytes);
        self.outlet.close();
        self.outlet.socket.shutdown(Shutdown::Write);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.outlet.socket.shutdown(Shutdown::Both);
        if let Some(receiver) = self.receiver.take() {
            let _ = receiver.join();
        }
    }
}

fn connect(server: &Address, time: Duration) -> io::Result<Socket> {
    match server {
        Address::Unix(path) => Ok(Socket::Unix(UnixStream::connect(path)?)),
        Address::Tcp(place) => {
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            for address in place.to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, time) {
                    Ok(stream) => {
                        stream.set_nodelay(true)?;
                        return Ok(Socket::Tcp(stream));
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

/// A connection with the export open, and bytes that came behind.
struct Negotiated {
    remote: Remote,
    channel: Option<Arc<Channel>>,
    protected: Option<Unprotected>,
    input: Vec<u8>,
}

/// Opens the export.
fn negotiate(
    client: &mut Client,
    address: &UpstreamAddress,
    protection: Option<&Protection>,
    socket: &Socket,
    until: Instant,
) -> Result<Negotiated, UpstreamError> {
    let failed = |error| UpstreamError::Socket { export: address.to_string(), error };
    let (mut timed, mut input) = (Timed::new(socket, until), Vec::new());
    let (mut channel, mut protected): (Option<Arc<Channel>>, Option<Unprotected>) = (None, None);
    loop {
        let step = client.step(&input);
        let (used, step) = step.map_err(|error| UpstreamError::Refused { export: address.to_string(), error })?;
        input.drain(..used);
        let output = client.take_output();
        match &channel {
            Some(channel) => channel.send(&mut timed, &output).map_err(failed)?,
            None => timed.write_all(&output).map_err(failed)?,
        }
        match step {
            ClientStep::Opened(remote) => return Ok(Negotiated { remote, channel, protected, input }),
            ClientStep::More => {
                let read = read_more(&mut input, |room| match &mut protected {
                    Some(protected) => protected.read(&mut timed, room),
                    None => timed.read(room),
                });
                if read.map_err(failed)? == 0 {
                    return Err(failed(io::ErrorKind::UnexpectedEof.into()));
                }
            }
            ClientStep::StartTls => {
                let Protection { config, name } = protection.expect("it was asked for");
                let shaken = Channel::connect(Arc::clone(config), name.clone(), &mut timed);
                let through = Arc::new(shaken.map_err(failed)?);
                protected = Some(Unprotected::new(Arc::clone(&through)));
                channel = Some(through);
                client.on_tls();
            }
            ClientStep::Continue => {}
            _ => unreachable!("nothing was asked for"),
        }
    }
}

/// What TLS towards a server needs.
struct Protection {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Protection {
    /// Reads the files, which may have been renewed.
    fn of(address: &UpstreamAddress) -> Result<Option<Self>, UpstreamError> {
        let Some(tls) = &address.tls else { return Ok(None) };
        let files = tls.files.as_ref().ok_or_else(|| UpstreamError::NoAuthority { export: address.to_string() })?;
        let name = address.hostname().to_owned();
        let name = ServerName::try_from(name.clone()).map_err(|_| UpstreamError::Hostname { name })?;
        Ok(Some(Self { config: files.load()?, name }))
    }
}

fn read_more(input: &mut Vec<u8>, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
    let had = input.len();
    input.resize(had + READ, 0);
    let read = read(&mut input[had..]);
    input.truncate(had + *read.as_ref().unwrap_or(&0));
    read
}

/// Receives answers until the connection ends.
fn receive(inlet: &mut Inlet, shared: &Mutex<Shared>, mut input: Vec<u8>, answers: &Answers) {
    // What came of requests that have not finished.
    let mut parts: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut found: BTreeMap<u64, Vec<Extent>> = BTreeMap::new();
    loop {
        let step = shared.lock().expect(LOCK).client.step(&input);
        let Ok((used, step)) = step else { return };
        input.drain(..used);
        match step {
            ClientStep::More => {
                if !read_more(&mut input, |room| inlet.read(room)).is_ok_and(|read| read > 0) {
                    return;
                }
            }
            ClientStep::Data { cookie, at, length } => {
                let room = room(parts.entry(cookie).or_default(), at, length);
                let buffered = input.len().min(room.len());
                room[..buffered].copy_from_slice(&input[..buffered]);
                input.drain(..buffered);
                if inlet.read_exact(&mut room[buffered..]).is_err() {
                    return;
                }
                shared.lock().expect(LOCK).client.on_payload(length);
            }
            ClientStep::Zeroes { cookie, at, length } => room(parts.entry(cookie).or_default(), at, length).fill(0),
            ClientStep::Extents { cookie, extents } => drop(found.insert(cookie, extents)),
            ClientStep::Reply { cookie, error, good } => {
                let (mut data, extents) =
                    (parts.remove(&cookie).unwrap_or_default(), found.remove(&cookie).unwrap_or_default());
                let status = error.map_or(Status::Ok, |error| Status::from_errno(error.code() as i32));
                if error.is_some() {
                    data.truncate(good as usize);
                }
                answers.tell(Answer::Of { cookie, status, data, extents });
            }
            ClientStep::Continue => {}
            ClientStep::Opened(_) | ClientStep::StartTls => unreachable!("the export is open"),
        }
    }
}

/// Returns the place of bytes in what came of a READ, as far as it came.
fn room(data: &mut Vec<u8>, at: u32, length: u32) -> &mut [u8] {
    let (at, end) = (at as usize, at as usize + length as usize);
    data.resize(data.len().max(end), 0);
    &mut data[at..end]
}
