//! The connections to another server: one thread sends requests and connects again, one for each
//! connection receives answers ([`super::connection`]).
//!
//! Connections are made together and end together. So every one that a request is sent on was made
//! before the first request, by the same run of the server: a flush that one of them answers covers
//! what the others answered, as far as the server promises that.

use std::io;
use std::net::Shutdown;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use elevon_core::status::Status;
use elevon_core::units::PAGE_SIZE;
use elevon_host::Alarm;
use elevon_nbd::{ClientError, Command, Remote};
use elevon_result::number::counted;

use super::UpstreamAddress;
use super::backoff::Backoff;
use super::connection::Connection;
use crate::net::listen::Socket;
use crate::net::peer::Peer;
use crate::net::tls::TlsError;
use crate::request::Extent;

/// How long a server may take to open the export.
const NEGOTIATION: Duration = Duration::from_secs(10);
/// How long it may take for each connection after the first: some servers let those wait that
/// they do not serve.
const FURTHER: Duration = Duration::from_secs(2);

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
    /// The disk has no whole block.
    #[error("{export}: has {bytes} bytes, less than a block of {block}; name a larger disk")]
    Small {
        /// The export, as its address names it.
        export: String,
        /// Its size.
        bytes: u64,
        /// The bytes of a block.
        block: u32,
    },
    /// The server takes less at a time than a queue submits.
    #[error(
        "{export}: the server takes up to {payload} bytes at a time; at least {PAGE_SIZE} are needed"
    )]
    Payload {
        /// The export, as its address names it.
        export: String,
        /// The most bytes that a request of it moves.
        payload: u32,
    },
    /// Another server of this machine writes the disk.
    #[error(
        "{export}: another server of this machine writes it: {holder}; end that one, or allow it with \
         shared = true of the device"
    )]
    Claimed {
        /// The export, as its address names it.
        export: String,
        /// The process of that server.
        holder: Peer,
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
    #[error(
        "{export}: whose certificates are trusted? Add tls-certificates=DIR, a folder with ca-cert.pem"
    )]
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
    /// The run of connections for which it is meant; it is not sent on later ones.
    pub(super) epoch: u64,
    pub(super) cookie: u64,
    pub(super) request: Command,
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) fua: bool,
    /// The bytes of a WRITE.
    pub(super) payload: Arc<Vec<u8>>,
}

/// A message to the thread that sends.
pub(super) enum ToSender {
    Ask(Ask),
    /// A connection has ended.
    Check,
    /// Connections are to be made anew, at once.
    Reopen,
    /// The device is closed.
    End,
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
    /// The connections were lost. What they had not answered they never will; answers of new ones
    /// come after this.
    Lost,
    /// They could not be made again, for this reason.
    Away(String),
    /// They were made again, for the so-manieth time, to a disk of so many bytes.
    Back { epoch: u64, size: u64 },
}

/// The way of answers to the device's thread.
#[derive(Clone)]
pub(super) struct Answers {
    queue: Sender<Answer>,
    alarm: Alarm,
}

impl Answers {
    pub(super) fn send(&self, answer: Answer) {
        // A device that is gone needs no answer.
        let _ = self.queue.send(answer);
        self.alarm.ring();
    }
}

/// The sockets of the connections. Every thread may end them.
#[derive(Clone, Default)]
pub(super) struct Sockets(pub(super) Arc<Mutex<Vec<Arc<Socket>>>>);

impl Sockets {
    pub(super) fn shutdown(&self) {
        self.0.lock().expect(LOCK).iter().for_each(|socket| socket.shutdown(Shutdown::Both));
    }
}

/// The connections to a server, as the thread of the device has them.
pub(super) struct Link {
    messages: Sender<ToSender>,
    sender: Option<JoinHandle<()>>,
    sockets: Sockets,
}

pub(super) const LOCK: &str = "no thread panics with the lock";

impl Link {
    /// Connects, and returns what the server says of the disk, the queue of answers, and what
    /// people should know.
    pub(super) fn open(
        address: UpstreamAddress,
        alarm: Alarm,
    ) -> Result<(Self, Remote, Receiver<Answer>, Vec<String>), UpstreamError> {
        let (queue, answers) = channel();
        let (messages, received) = channel();
        let sockets = Sockets::default();
        let answering = Answers { queue, alarm };
        let connector = Connector {
            address,
            answers: answering,
            messages: messages.clone(),
            sockets: sockets.clone(),
        };
        let (connections, remote, note) = connector.open(None)?;
        let mut thread = SenderThread {
            connector,
            remote,
            connections,
            epoch: 0,
            backoff: Backoff::new(Instant::now()),
        };
        // Those that the server does not serve are not waited for a second time.
        thread.connector.address.connections = thread.connections.len() as u32;
        let work = move || thread.run(&received);
        let sender = std::thread::Builder::new()
            .name("upstream".into())
            .spawn(work)
            .map_err(UpstreamError::Machine)?;
        let link = Self { messages, sender: Some(sender), sockets };
        Ok((link, remote, answers, note.into_iter().collect()))
    }

    pub(super) fn send(&self, ask: Ask) {
        self.messages.send(ToSender::Ask(ask)).expect("the thread ends after this");
    }

    /// Lets the connections be made anew.
    pub(super) fn reopen(&self) {
        // The thread may be sending to a server that does not read.
        self.disconnect();
        self.messages.send(ToSender::Reopen).expect("the thread ends after this");
    }

    /// Ends the connections, as if the server had.
    pub(super) fn disconnect(&self) {
        self.sockets.shutdown();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // A thread that has ended by a panic is joined all the same.
        let _ = self.messages.send(ToSender::End);
        if let Some(sender) = self.sender.take() {
            let _ = sender.join();
        }
    }
}

/// Makes the connections to a server.
pub(super) struct Connector {
    pub(super) address: UpstreamAddress,
    pub(super) answers: Answers,
    /// The way to the thread that sends.
    pub(super) messages: Sender<ToSender>,
    pub(super) sockets: Sockets,
}

impl Connector {
    /// Opens all connections, to the disk that it was `before`. If not as many can be as are
    /// wanted, says why.
    fn open(
        &self,
        before: Option<&Remote>,
    ) -> Result<(Vec<Connection>, Remote, Option<String>), UpstreamError> {
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
    /// How often they were made again.
    epoch: u64,
    backoff: Backoff,
}

impl SenderThread {
    fn run(&mut self, messages: &Receiver<ToSender>) {
        loop {
            let message = if self.connections.is_empty() {
                messages.recv_timeout(self.backoff.next().saturating_duration_since(Instant::now()))
            } else {
                messages.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match message {
                Ok(ToSender::Ask(ask)) => self.send(&ask),
                Ok(ToSender::Check) => self.check_connections(),
                Ok(ToSender::Reopen) => {
                    self.lose();
                    self.backoff = Backoff::new(Instant::now());
                }
                Ok(ToSender::End) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.connections.is_empty() && self.backoff.next() <= Instant::now() {
                self.connect();
            }
        }
        self.connections.iter().for_each(Connection::leave);
    }

    /// Sends a request, unless the connections are lost for which it was meant.
    fn send(&mut self, ask: &Ask) {
        assert!(ask.epoch <= self.epoch, "a request is meant for connections that were made");
        self.check_connections();
        let least = self.connections.iter().min_by_key(|connection| connection.in_flight());
        if let Some(connection) = least.filter(|_| ask.epoch == self.epoch) {
            connection.send(ask);
        }
    }

    /// Finds that a connection was lost.
    fn check_connections(&mut self) {
        if self.connections.iter().any(Connection::is_lost) {
            self.lose();
            self.backoff.on_lost(Instant::now());
        }
    }

    /// Ends the connections, and waits until nothing comes of them any more.
    fn lose(&mut self) {
        if !self.connections.is_empty() {
            self.connections.clear();
            self.connector.answers.send(Answer::Lost);
        }
    }

    /// Connects again.
    fn connect(&mut self) {
        assert!(self.connections.is_empty(), "connections are made together");
        match self.connector.open(Some(&self.remote)) {
            Ok((connections, remote, _)) => {
                (self.connections, self.remote) = (connections, remote);
                self.epoch += 1;
                self.backoff.on_made(Instant::now());
                self.connector.answers.send(Answer::Back { epoch: self.epoch, size: remote.size });
            }
            Err(error) => {
                self.connector.answers.send(Answer::Away(error.to_string()));
                self.backoff.on_failed(Instant::now());
            }
        }
    }
}
