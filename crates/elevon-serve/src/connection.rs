//! A connection: one thread reads and understands requests, one writes replies.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use elevon_nbd::{Close, Command, Export, Exports, Refusal, Request, Session, SessionConfig, Step};

use crate::client::Reply;
use crate::device::{DeviceHandle, Message};
use crate::gate::Gate;
use crate::listen::Socket;
use crate::pieces::Pieces;
use crate::shared::{Known, Shared, find};

/// Bytes that are read from a socket at a time.
const READ: usize = 32 << 10;
/// Replies up to this size are written together.
const TOGETHER: usize = 64 << 10;

/// The exports as every client sees them.
struct Seen(Arc<Vec<Known>>);

impl Exports for Seen {
    fn names(&self) -> Vec<String> {
        self.0.iter().map(|export| export.name.clone()).collect()
    }
    fn export(&self, name: &str) -> Result<Export, Refusal> {
        match find(&self.0, name) {
            Some(known) if known.is_drained => Err(Refusal::Shutdown),
            Some(known) => Ok(known.told.clone()),
            None => Err(Refusal::Unknown),
        }
    }
}

/// Serves a connection until either side ends it.
///
/// # Errors
/// The socket failed.
pub(crate) fn serve(name: u32, mut socket: Socket, shared: &Shared) -> io::Result<()> {
    let (replies, queue) = channel();
    let gate = Arc::new(Gate::default());
    let writer = {
        let (mut socket, gate) = (socket.try_clone()?, Arc::clone(&gate));
        std::thread::Builder::new().spawn(move || {
            let written = write(&mut socket, &queue, &gate);
            if written.is_err() {
                // The reader must not wait for replies that cannot be sent.
                gate.open();
                socket.shutdown(Shutdown::Both);
            }
            // Whatever is still in flight is taken, so that the gate's counts come out.
            for reply in queue {
                reply.weight.into_iter().for_each(|weight| gate.leave(weight));
            }
        })?
    };
    let mut reader =
        Reader { name, session: Session::new(SessionConfig::default()), input: Vec::new(), replies, device: None };
    let read = reader.run(&mut socket, shared, &gate);
    if let Some(device) = &reader.device {
        device.send(Message::Close { client: name });
    }
    drop(reader);
    let _ = writer.join();
    socket.shutdown(Shutdown::Both);
    read
}

struct Reader {
    name: u32,
    session: Session,
    /// Bytes that came and were not understood yet.
    input: Vec<u8>,
    replies: Sender<Reply>,
    /// The device of the export that is open.
    device: Option<DeviceHandle>,
}

impl Reader {
    fn run(&mut self, socket: &mut Socket, shared: &Shared, gate: &Gate) -> io::Result<()> {
        loop {
            let (used, step) = self.session.step(&self.input, &Seen(shared.exports()));
            self.input.drain(..used);
            self.send_output();
            match step {
                Step::Continue => {}
                Step::More => {
                    let had = self.input.len();
                    self.input.resize(had + READ, 0);
                    let read = socket.read(&mut self.input[had..]);
                    self.input.truncate(had + *read.as_ref().unwrap_or(&0));
                    match read {
                        Ok(0) => return Ok(()),
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Step::Opened(export) => {
                    let Some(export) = shared.opened(self.name, &export) else { return Ok(()) };
                    let device = shared.devices[export.device].clone();
                    device.send(Message::Open {
                        client: self.name,
                        charged: export.charged,
                        replies: self.replies.clone(),
                    });
                    self.device = Some(device);
                }
                Step::Request(request) => self.request(socket, request, gate)?,
                Step::StartTls => unreachable!("TLS is off"),
                Step::Close(Close::Left) => return Ok(()),
                Step::Close(why) => return Err(io::Error::new(io::ErrorKind::InvalidData, why)),
            }
        }
    }

    fn send_output(&mut self) {
        if self.session.has_output() {
            // A client that is gone needs no answer.
            let _ = self.replies.send(Reply { bytes: self.session.take_output(), weight: None });
        }
    }

    fn request(&mut self, socket: &mut Socket, request: Request, gate: &Gate) -> io::Result<()> {
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
            socket.read_exact(&mut payload[buffered..])?;
            self.session.on_payload(request.length);
        }
        if request.command == Command::Cache {
            // There is no page cache that it could be read into.
            let mut bytes = Vec::new();
            format.done(&mut bytes, &request);
            let _ = self.replies.send(Reply { bytes, weight: Some(weight) });
            return Ok(());
        }
        let device = self.device.as_ref().expect("requests come after an export was opened");
        if device.send(Message::Request { client: self.name, request, format, payload }) {
            Ok(())
        } else {
            Err(io::Error::other("the device's thread has ended"))
        }
    }
}

/// Writes replies until no more can come.
fn write(socket: &mut Socket, queue: &Receiver<Reply>, gate: &Gate) -> io::Result<()> {
    let mut together = Vec::new();
    let mut weights = Vec::new();
    while let Ok(reply) = queue.recv() {
        weights.extend(reply.weight);
        let written = if reply.bytes.len() >= TOGETHER {
            socket.write_all(&reply.bytes)
        } else {
            together.extend_from_slice(&reply.bytes);
            while together.len() < TOGETHER
                && let Ok(reply) = queue.try_recv()
            {
                weights.extend(reply.weight);
                together.extend_from_slice(&reply.bytes);
            }
            socket.write_all(&together)
        };
        together.clear();
        weights.drain(..).for_each(|weight| gate.leave(weight));
        written?;
    }
    Ok(())
}
