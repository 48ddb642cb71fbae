//! The connection to another server: one thread sends requests and connects again, one for each
//! connection receives answers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use elevon_core::status::Status;
use elevon_host::Alarm;
use elevon_nbd::{Client, ClientError, ClientStep, Command, Remote};

use super::UpstreamAddress;
use crate::listen::{Address, Socket, Timed};

/// How long a server may take to open the export.
const NEGOTIATION: Duration = Duration::from_secs(10);
/// After a connection was not made, how long until the next is tried. Requests fail meanwhile.
const PAUSE: Duration = Duration::from_millis(200);
/// Bytes that are read from a socket at a time.
const READ: usize = 32 << 10;

/// Why a disk of another server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The server is not there, or ends the connection.
    #[error("{server}: {error}")]
    Socket {
        /// The server.
        server: Address,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The server does not open the export.
    #[error("{server}: {error}")]
    Refused {
        /// The server.
        server: Address,
        /// Why.
        #[source]
        error: ClientError,
    },
    /// The disk is another one than before.
    #[error("{server}: the export has changed: {before:?} before, {now:?} now")]
    Changed {
        /// The server.
        server: Address,
        /// The disk that was opened first.
        before: Box<Remote>,
        /// The disk that is there now.
        now: Box<Remote>,
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
    /// The answer to a request: the bytes of a READ, or why it failed.
    Of { cookie: u64, result: Result<Vec<u8>, Status> },
    /// The connection was lost. What it had not answered was failed before; answers of a new one
    /// come after this.
    Lost,
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
        self.tell(Answer::Of { cookie, result: Err(Status::IoError) });
    }
}

/// The way to a server.
pub(super) struct Link {
    /// `None` once it ends.
    asks: Option<Sender<Ask>>,
    sender: Option<JoinHandle<()>>,
    failure: Arc<Mutex<Option<String>>>,
    /// The socket of the last connection.
    socket: Arc<Mutex<Socket>>,
}

const LOCK: &str = "no thread panics with the lock";

impl Link {
    /// Connects, and returns what the server says of the disk, and the queue of answers.
    pub(super) fn open(
        address: UpstreamAddress,
        alarm: Alarm,
    ) -> Result<(Self, Remote, Receiver<Answer>), UpstreamError> {
        let (queue, answers) = channel();
        let (asks, asked) = channel();
        let to_device = Answers { queue, alarm };
        let (connection, remote) = Connection::open(&address, to_device.clone())?;
        let failure = Arc::new(Mutex::new(None));
        let socket = Arc::new(Mutex::new(connection.socket.try_clone().map_err(UpstreamError::Machine)?));
        let mut side = Side {
            address,
            remote,
            answers: to_device,
            connection: Some(connection),
            paused_until: Instant::now(),
            failure: Arc::clone(&failure),
            socket: Arc::clone(&socket),
        };
        let work = move || side.run(&asked);
        let sender = std::thread::Builder::new().name("upstream".into()).spawn(work).map_err(UpstreamError::Machine)?;
        Ok((Self { asks: Some(asks), sender: Some(sender), failure, socket }, remote, answers))
    }

    pub(super) fn send(&self, ask: Ask) {
        let asks = self.asks.as_ref().expect("it has not ended");
        asks.send(ask).expect("the thread ends after this");
    }

    /// Ends the connection, as if the server had: what is in flight fails.
    pub(super) fn cut(&self) {
        self.socket.lock().expect(LOCK).shutdown(Shutdown::Both);
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().expect(LOCK).clone()
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

/// The thread that sends.
struct Side {
    address: UpstreamAddress,
    remote: Remote,
    answers: Answers,
    connection: Option<Connection>,
    paused_until: Instant,
    failure: Arc<Mutex<Option<String>>>,
    socket: Arc<Mutex<Socket>>,
}

impl Side {
    fn run(&mut self, asked: &Receiver<Ask>) {
        while let Ok(ask) = asked.recv() {
            if self.connection.as_ref().is_some_and(Connection::is_lost) {
                self.connection = None;
                *self.failure.lock().expect(LOCK) = Some(format!("{}: the connection was lost", self.address));
            }
            if self.connection.is_none() && Instant::now() >= self.paused_until {
                self.connect();
            }
            let is_sent = self.connection.as_mut().is_some_and(|connection| connection.send(&ask));
            if !is_sent {
                self.answers.fail(ask.cookie);
            }
        }
        if let Some(connection) = &mut self.connection {
            connection.leave();
        }
    }

    /// Connects again.
    fn connect(&mut self) {
        let opened = Connection::open(&self.address, self.answers.clone());
        let opened = opened.and_then(|(connection, now)| {
            if now == self.remote {
                *self.socket.lock().expect(LOCK) = connection.socket.try_clone().map_err(UpstreamError::Machine)?;
                return Ok(connection);
            }
            let (server, before) = (self.address.server.clone(), Box::new(self.remote));
            Err(UpstreamError::Changed { server, before, now: Box::new(now) })
        });
        let mut failure = self.failure.lock().expect(LOCK);
        match opened {
            Ok(connection) => (self.connection, *failure) = (Some(connection), None),
            Err(error) => {
                *failure = Some(error.to_string());
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
    socket: Socket,
    shared: Arc<Mutex<Shared>>,
    receiver: Option<JoinHandle<()>>,
}

impl Connection {
    fn open(address: &UpstreamAddress, answers: Answers) -> Result<(Self, Remote), UpstreamError> {
        let until = Instant::now() + NEGOTIATION;
        let failed = |error| UpstreamError::Socket { server: address.server.clone(), error };
        let socket = connect(&address.server).map_err(failed)?;
        let mut client = Client::new(&address.export);
        let (remote, input) = negotiate(&mut client, &socket, until).map_err(|error| match error {
            Left::Socket(error) => failed(error),
            Left::Refused(error) => UpstreamError::Refused { server: address.server.clone(), error },
        })?;
        socket.set_timeouts(None).map_err(UpstreamError::Machine)?;
        let shared = Arc::new(Mutex::new(Shared { client, is_lost: false }));
        let receiver = {
            let (shared, mut socket) = (Arc::clone(&shared), socket.try_clone().map_err(UpstreamError::Machine)?);
            let work = move || {
                receive(&mut socket, &shared, input, &answers);
                socket.shutdown(Shutdown::Both);
                let mut shared = shared.lock().expect(LOCK);
                shared.is_lost = true;
                shared.client.take_in_flight().into_iter().for_each(|cookie| answers.fail(cookie));
                answers.tell(Answer::Lost);
            };
            std::thread::Builder::new().name("upstream".into()).spawn(work).map_err(UpstreamError::Machine)?
        };
        Ok((Self { socket, shared, receiver: Some(receiver) }, remote))
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect(LOCK)
    }

    fn is_lost(&self) -> bool {
        self.lock().is_lost
    }

    /// Sends a request. If the connection is lost meanwhile, the thread that receives fails it.
    /// Returns false if it was lost before, and the request is not sent.
    fn send(&mut self, ask: &Ask) -> bool {
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
        let sent = self.socket.write_all(&header).and_then(|()| self.socket.write_all(payload));
        if sent.is_err() {
            self.socket.shutdown(Shutdown::Both);
        }
        true
    }

    /// Takes leave of the server.
    fn leave(&mut self) {
        let bytes = self.lock().client.disconnect();
        // A server that is gone needs no farewell.
        let _ = self.socket.write_all(&bytes);
        self.socket.shutdown(Shutdown::Write);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.socket.shutdown(Shutdown::Both);
        if let Some(receiver) = self.receiver.take() {
            let _ = receiver.join();
        }
    }
}

fn connect(server: &Address) -> io::Result<Socket> {
    match server {
        Address::Unix(path) => Ok(Socket::Unix(UnixStream::connect(path)?)),
        Address::Tcp(place) => {
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            for address in place.to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, NEGOTIATION) {
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

/// Why a server was left before the export was open.
enum Left {
    Socket(io::Error),
    Refused(ClientError),
}

/// Opens the export. Returns the disk, and bytes that came behind.
fn negotiate(client: &mut Client, socket: &Socket, until: Instant) -> Result<(Remote, Vec<u8>), Left> {
    let (mut timed, mut input) = (Timed::new(socket, until), Vec::new());
    loop {
        let (used, step) = client.step(&input).map_err(Left::Refused)?;
        input.drain(..used);
        timed.write_all(&client.take_output()).map_err(Left::Socket)?;
        match step {
            ClientStep::Opened(remote) => return Ok((remote, input)),
            ClientStep::More => {
                if read_more(&mut timed, &mut input).map_err(Left::Socket)? == 0 {
                    return Err(Left::Socket(io::ErrorKind::UnexpectedEof.into()));
                }
            }
            ClientStep::Continue => {}
            ClientStep::Reply { .. } | ClientStep::Data { .. } => unreachable!("nothing was asked for"),
        }
    }
}

fn read_more(socket: &mut impl Read, input: &mut Vec<u8>) -> io::Result<usize> {
    let had = input.len();
    input.resize(had + READ, 0);
    let read = loop {
        match socket.read(&mut input[had..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    input.truncate(had + *read.as_ref().unwrap_or(&0));
    read
}

/// Receives answers until the connection ends.
fn receive(socket: &mut Socket, shared: &Mutex<Shared>, mut input: Vec<u8>, answers: &Answers) {
    loop {
        let step = shared.lock().expect(LOCK).client.step(&input);
        let Ok((used, step)) = step else { return };
        input.drain(..used);
        match step {
            ClientStep::More => {
                if !read_more(socket, &mut input).is_ok_and(|read| read > 0) {
                    return;
                }
            }
            ClientStep::Continue => {}
            ClientStep::Reply { cookie, error } => {
                let result = match error {
                    None => Ok(Vec::new()),
                    Some(error) => Err(Status::from_errno(error.code() as i32)),
                };
                answers.tell(Answer::Of { cookie, result });
            }
            ClientStep::Data { cookie, length } => {
                let buffered = input.len().min(length as usize);
                let mut data = Vec::with_capacity(length as usize);
                data.extend(input.drain(..buffered));
                data.resize(length as usize, 0);
                if socket.read_exact(&mut data[buffered..]).is_err() {
                    // Its answer had begun, so it is no longer in flight.
                    return answers.fail(cookie);
                }
                shared.lock().expect(LOCK).client.on_payload(length);
                answers.tell(Answer::Of { cookie, result: Ok(data) });
            }
            ClientStep::Opened(_) => unreachable!("the export is open"),
        }
    }
}
