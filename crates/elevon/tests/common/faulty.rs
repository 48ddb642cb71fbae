//! A server of NBD that errs as it is told.

use std::io::{Read, Result, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::nbd::{FLUSH, READ, WRITE};

pub(crate) const BLOCK_STATUS: u16 = 7;
/// Flags of an export: it has flags, FLUSH, FUA, TRIM and WRITE_ZEROES.
pub(crate) const FLAGS: u16 = 1 | 4 | 8 | 32 | 64;

/// A request that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) flags: u16,
    pub(crate) command: u16,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) data: Vec<u8>,
}

/// What a server does with a request.
pub(crate) enum Act {
    /// As it should.
    Right,
    /// Sends these bytes in place of an answer.
    Send(Vec<u8>),
    Leave,
}

type Behaviour = dyn Fn(&Request) -> Act + Send + Sync;

/// What all connections share.
struct State {
    flags: u16,
    /// Bytes of the disk, and what of it is durable.
    disk: Mutex<(Vec<u8>, Vec<u8>)>,
    behave: Box<Behaviour>,
    connections: AtomicUsize,
    open: Mutex<Vec<UnixStream>>,
    requests: Mutex<Vec<Request>>,
}

/// A server of a disk at a socket. Its threads end with the process of the test.
#[derive(Clone)]
pub(crate) struct Faulty(Arc<State>);

impl Faulty {
    pub(crate) fn start(
        socket: &Path,
        size: usize,
        flags: u16,
        behave: impl Fn(&Request) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = UnixListener::bind(socket).expect("a socket");
        let state = Arc::new(State {
            flags,
            disk: Mutex::new((vec![0; size], vec![0; size])),
            behave: Box::new(behave),
            connections: AtomicUsize::new(0),
            open: Mutex::default(),
            requests: Mutex::default(),
        });
        let of_thread = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&of_thread);
                std::thread::spawn(move || drop(state.serve(stream)));
            }
        });
        Self(state)
    }

    /// Returns how many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.0.connections.load(Ordering::SeqCst)
    }

    /// Returns the requests that came.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.0.requests.lock().expect("no panic").clone()
    }

    /// Loses what was not flushed, and all connections, as a machine does whose power fails.
    pub(crate) fn crash(&self) {
        let mut disk = self.0.disk.lock().expect("no panic");
        disk.0 = disk.1.clone();
        self.hang_up();
    }

    /// Ends all connections.
    pub(crate) fn hang_up(&self) {
        for stream in self.0.open.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl State {
    fn serve(&self, mut stream: UnixStream) -> Result<()> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        self.open.lock().expect("no panic").push(stream.try_clone()?);
        self.negotiate(&mut stream)?;
        loop {
            let request = receive(&mut stream)?;
            if request.command == 2 {
                return Ok(());
            }
            self.requests.lock().expect("no panic").push(request.clone());
            match (self.behave)(&request) {
                Act::Right => stream.write_all(&self.answer(&request))?,
                Act::Send(bytes) => stream.write_all(&bytes)?,
                Act::Leave => return stream.shutdown(std::net::Shutdown::Both),
            }
        }
    }

    fn negotiate(&self, stream: &mut UnixStream) -> Result<()> {
        stream.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
        stream.read_exact(&mut [0; 4])?;
        loop {
            let mut option = [0; 16];
            stream.read_exact(&mut option)?;
            let number =
                |at: usize| u32::from_be_bytes(option[at..at + 4].try_into().expect("4 bytes"));
            let (option, length) = (number(8), number(12));
            stream.read_exact(&mut vec![0; length as usize])?;
            let mut reply = |kind: u32, payload: &[u8]| {
                let head = [option, kind, payload.len() as u32].map(u32::to_be_bytes).concat();
                stream.write_all(
                    &[&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], &head, payload].concat(),
                )
            };
            match option {
                7 => {
                    let size = self.disk.lock().expect("no panic").0.len() as u64;
                    reply(
                        3,
                        &[&[0, 0][..], &size.to_be_bytes(), &self.flags.to_be_bytes()].concat(),
                    )?;
                    return reply(1, b"");
                }
                8 => reply(1, b"")?,
                10 => {
                    reply(4, b"\0\0\0\x07base:allocation")?;
                    reply(1, b"")?;
                }
                _ => reply(0x8000_0001, b"")?,
            }
        }
    }

    fn answer(&self, request: &Request) -> Vec<u8> {
        let mut disk = self.disk.lock().expect("no panic");
        let (now, durable) = &mut *disk;
        let range = request.offset as usize..request.offset as usize + request.length as usize;
        match request.command {
            READ => return data(request, true, request.offset, &now[range]),
            WRITE => now[range].copy_from_slice(&request.data),
            FLUSH => durable.copy_from_slice(now),
            4 | 6 => now[range].fill(0),
            BLOCK_STATUS => {
                let words = [7, request.length, 0].map(u32::to_be_bytes).concat();
                return chunk(request, true, 5, &words);
            }
            _ => {}
        }
        if request.flags & 1 != 0 {
            durable.copy_from_slice(now);
        }
        simple(request, 0)
    }
}

fn receive(stream: &mut UnixStream) -> Result<Request> {
    let mut head = [0; 28];
    stream.read_exact(&mut head)?;
    let short = |at: usize| u16::from_be_bytes(head[at..at + 2].try_into().expect("2 bytes"));
    let long = |at: usize| u64::from_be_bytes(head[at..at + 8].try_into().expect("8 bytes"));
    let length = u32::from_be_bytes(head[24..].try_into().expect("4 bytes"));
    let mut data = vec![0; if short(6) == WRITE { length as usize } else { 0 }];
    stream.read_exact(&mut data)?;
    Ok(Request {
        flags: short(4),
        command: short(6),
        cookie: long(8),
        offset: long(16),
        length,
        data,
    })
}

/// Returns a chunk of an answer.
pub(crate) fn chunk(request: &Request, is_last: bool, kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = 0x668e_33ef_u32.to_be_bytes().to_vec();
    bytes.extend([0, u8::from(is_last)]);
    bytes.extend(kind.to_be_bytes());
    bytes.extend(request.cookie.to_be_bytes());
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Returns a chunk with data of the disk.
pub(crate) fn data(request: &Request, is_last: bool, offset: u64, bytes: &[u8]) -> Vec<u8> {
    chunk(request, is_last, 1, &[&offset.to_be_bytes()[..], bytes].concat())
}

/// Returns an answer without data.
pub(crate) fn simple(request: &Request, error: u32) -> Vec<u8> {
    [&0x6744_6698_u32.to_be_bytes()[..], &error.to_be_bytes(), &request.cookie.to_be_bytes()]
        .concat()
}
