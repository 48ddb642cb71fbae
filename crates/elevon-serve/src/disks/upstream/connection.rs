//! One connection to another server: it opens the export, sends requests, and a thread of its own
//! receives their answers.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use elevon_core::status::Status;
use elevon_nbd::{Client, ClientStep, NbdError, Remote};

use super::UpstreamAddress;
use super::link::{Answer, Answers, Ask, Connector, LOCK, ToSender, UpstreamError};
use crate::net::listen::{Address, Socket, Timed};
use crate::net::tls::{Channel, Inlet, LastBytes, Outlet, Trust, Unprotected};
use crate::request::Extent;

/// Bytes that are read from a socket at a time.
const READ: usize = 32 << 10;

/// The state that both directions of a connection share.
struct Shared {
    client: Client,
    is_lost: bool,
}

/// A connection with the export open.
pub(super) struct Connection {
    outlet: Outlet,
    shared: Arc<Mutex<Shared>>,
    receiver: Option<JoinHandle<()>>,
}

impl Connection {
    /// Connects within a time, to the disk that it was `before`, which may have grown.
    pub(super) fn open(
        connector: &Connector,
        time: Duration,
        before: Option<&Remote>,
    ) -> Result<(Self, Remote), UpstreamError> {
        let server = &connector.address.server;
        let until = Instant::now() + time;
        let export = || connector.address.to_string();
        let failed = |error| UpstreamError::Socket { export: export(), error };
        let protection = trust(&connector.address)?;
        let socket = Arc::new(connect(server, time).map_err(failed)?);
        // From here on it can be cut.
        connector.sockets.0.lock().expect(LOCK).push(Arc::clone(&socket));
        let mut client = Client::new(&connector.address.export, protection.is_some());
        let Negotiated { remote, channel, protected, input } =
            negotiate(&mut client, &connector.address, protection.as_ref(), &socket, until)?;
        let is_that = |before: &Remote| {
            Remote { size: remote.size, ..*before } == remote && remote.size >= before.size
        };
        if let Some(before) = before.filter(|before| !is_that(before)) {
            let (before, now) = (Box::new(*before), Box::new(remote));
            return Err(UpstreamError::Changed { export: export(), before, now });
        }
        socket.set_timeouts(None).map_err(UpstreamError::Machine)?;
        let outlet = Outlet { socket: Arc::clone(&socket), channel };
        let shared = Arc::new(Mutex::new(Shared { client, is_lost: false }));
        let receiver = {
            let (shared, answers, sockets) =
                (Arc::clone(&shared), connector.answers.clone(), connector.sockets.clone());
            let check: Sender<ToSender> = connector.messages.clone();
            let mut inlet = Inlet { socket, protected, last: Arc::new(LastBytes::new()) };
            let work = move || {
                receive(&mut inlet, &shared, input, &answers);
                inlet.socket.shutdown(Shutdown::Both);
                shared.lock().expect(LOCK).is_lost = true;
                sockets.shutdown();
                // The thread that sends may have ended.
                let _ = check.send(ToSender::Check);
            };
            std::thread::Builder::new()
                .name("upstream".into())
                .spawn(work)
                .map_err(UpstreamError::Machine)?
        };
        Ok((Self { outlet, shared, receiver: Some(receiver) }, remote))
    }

    /// Returns how many requests it has not answered.
    pub(super) fn in_flight(&self) -> usize {
        self.lock().client.in_flight()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect(LOCK)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lock().is_lost
    }

    /// Sends a request. If the connection is lost before or meanwhile, there is no answer.
    pub(super) fn send(&self, ask: &Ask) {
        let Ask { cookie, request, offset, length, fua, ref payload, .. } = *ask;
        let header = self.lock().client.request(cookie, request, offset, length, fua);
        let sent = self.outlet.send(&header).and_then(|()| self.outlet.send(payload));
        if sent.is_err() {
            self.outlet.socket.shutdown(Shutdown::Both);
        }
    }

    /// Takes leave of the server.
    pub(super) fn leave(&self) {
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
        Address::Unix(path) => Ok(Socket::Unix(elevon_host::connect_unix(path, time)?)),
        Address::Tcp(place) => {
            let stream = elevon_host::connect_tcp(place, time)?;
            stream.set_nodelay(true)?;
            Ok(Socket::Tcp(stream))
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
    protection: Option<&Trust>,
    socket: &Socket,
    until: Instant,
) -> Result<Negotiated, UpstreamError> {
    let failed = |error| UpstreamError::Socket { export: address.to_string(), error };
    let (mut timed, mut input) = (Timed::new(socket, until), Vec::new());
    let (mut channel, mut protected): (Option<Arc<Channel>>, Option<Unprotected>) = (None, None);
    loop {
        let step = client.step(&input);
        let (used, step) =
            step.map_err(|error| UpstreamError::Refused { export: address.to_string(), error })?;
        input.drain(..used);
        let output = client.take_output();
        match &channel {
            Some(channel) => channel.send(&mut timed, &output).map_err(failed)?,
            None => timed.write_all(&output).map_err(failed)?,
        }
        match step {
            ClientStep::Opened(remote) => {
                return Ok(Negotiated { remote, channel, protected, input });
            }
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
                let trust = protection.expect("it was asked for");
                let shaken = Channel::connect(trust, &mut timed);
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

/// Reads the files of TLS towards a server, which may have been renewed.
fn trust(address: &UpstreamAddress) -> Result<Option<Trust>, UpstreamError> {
    let Some(tls) = &address.tls else { return Ok(None) };
    let files = tls
        .files
        .as_ref()
        .ok_or_else(|| UpstreamError::NoAuthority { export: address.to_string() })?;
    let name = address.hostname();
    let trust = Trust::load(files, name)?;
    trust.map_or_else(|| Err(UpstreamError::Hostname { name: name.to_owned() }), |it| Ok(Some(it)))
}

fn read_more(
    input: &mut Vec<u8>,
    read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
) -> io::Result<usize> {
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
            ClientStep::Zeroes { cookie, at, length } => {
                room(parts.entry(cookie).or_default(), at, length).fill(0);
            }
            ClientStep::Extents { cookie, extents } => {
                found.insert(cookie, extents.iter().map(extent_of).collect());
            }
            // It says nothing of the request, and answers no other.
            ClientStep::Reply { error: Some(NbdError::Shutdown), .. } => return,
            ClientStep::Reply { cookie, error, good } => {
                let (mut data, extents) = (
                    parts.remove(&cookie).unwrap_or_default(),
                    found.remove(&cookie).unwrap_or_default(),
                );
                let status =
                    error.map_or(Status::Ok, |error| Status::from_errno(error.code() as i32));
                if error.is_some() {
                    data.truncate(good as usize);
                }
                answers.send(Answer::Of { cookie, status, data, extents });
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

const fn extent_of(extent: &elevon_nbd::Extent) -> Extent {
    let &elevon_nbd::Extent { length, hole, zero } = extent;
    Extent { length, hole, zero }
}
