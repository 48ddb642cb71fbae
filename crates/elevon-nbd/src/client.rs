//! The client's side of the protocol as a state machine without I/O.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::request::Command;
use crate::wire::{
    Fields, IHAVEOPT, NBDMAGIC, NbdError, OPTION_REPLY, Put, REQUEST, SIMPLE_REPLY, answer, command, flag, handshake,
    info, option,
};

/// The longest payload of an answer to an option.
const ANSWER_MAX: u32 = 64 << 10;
/// Answers to an option, after which a server is left.
const ANSWERS_MAX: u32 = 1024;

/// A disk that a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Bytes.
    pub size: u64,
    /// Nothing can be written.
    pub read_only: bool,
    /// The device has a seek time.
    pub rotational: bool,
    /// It takes FLUSH; otherwise everything is durable when it is answered.
    pub flush: bool,
    /// It takes FUA.
    pub fua: bool,
    /// It takes TRIM.
    pub trim: bool,
    /// It takes WRITE_ZEROES.
    pub write_zeroes: bool,
    /// Offsets and lengths are multiples of it: a power of two up to 64 KiB; 1 if the server did
    /// not say.
    pub block: u32,
    /// The size in bytes at which requests are served best.
    pub preferred: u32,
    /// The most bytes that a READ or WRITE moves.
    pub payload: u32,
}

/// What follows from the bytes that were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientStep {
    /// More bytes are needed.
    More,
    /// Go on with the bytes behind those that were used.
    Continue,
    /// The export is open; requests can be sent.
    Opened(Remote),
    /// The answer to a request.
    Reply {
        /// The request.
        cookie: u64,
        /// Why it failed.
        error: Option<NbdError>,
    },
    /// The answer to a READ that succeeded. Its bytes follow: take them, and tell
    /// [`Client::on_payload`].
    Data {
        /// The request.
        cookie: u64,
        /// Bytes.
        length: u32,
    },
}

/// Why a server is left.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// It is not a server, or one of an older form of the protocol.
    #[error("not a server of NBD's fixed newstyle")]
    NotNewstyle,
    /// It does not open the export.
    #[error("the server refuses: {0}")]
    Refused(String),
    /// What it said contradicts the protocol.
    #[error("the server breaks the protocol: {0}")]
    Broken(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Greeting,
    Go,
    Transmission,
    /// The caller takes the bytes of a READ.
    Payload {
        left: u32,
    },
}

/// One connection to a server, to open one export. Replies are simple ones: structured replies are
/// not asked for.
#[derive(Clone, Debug)]
pub struct Client {
    phase: Phase,
    export: String,
    answers: u32,
    /// Size and flags, once they were told.
    told: Option<(u64, u16)>,
    sizes: Option<(u32, u32, u32)>,
    /// Bytes that follow the reply of each request in flight.
    in_flight: BTreeMap<u64, u32>,
    output: Vec<u8>,
}

impl Client {
    /// Starts a connection, to open the export of this name.
    ///
    /// # Panics
    /// If the name is longer than 4096 bytes.
    pub fn new(export: &str) -> Self {
        assert!(export.len() <= 4096, "a name of the protocol");
        Self {
            phase: Phase::Greeting,
            export: export.to_owned(),
            answers: 0,
            told: None,
            sizes: None,
            in_flight: BTreeMap::new(),
            output: Vec::new(),
        }
    }

    /// Takes the bytes that are to be sent.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Returns the header of a request, behind which a WRITE's bytes are to be sent. `cookie` is
    /// that of no request in flight.
    ///
    /// # Panics
    /// If no export is open, the cookie is in use, or the command is BLOCK_STATUS.
    pub fn request(&mut self, cookie: u64, command: Command, offset: u64, length: u32, fua: bool) -> [u8; 28] {
        assert!(matches!(self.phase, Phase::Transmission | Phase::Payload { .. }), "no export is open");
        let (number, flags) = match command {
            Command::Read => (command::READ, 0),
            Command::Write => (command::WRITE, 0),
            Command::Flush => (command::FLUSH, 0),
            Command::Trim => (command::TRIM, 0),
            Command::Cache => (command::CACHE, 0),
            Command::WriteZeroes { no_hole, fast } => {
                let no_hole = if no_hole { flag::NO_HOLE } else { 0 };
                (command::WRITE_ZEROES, no_hole | if fast { flag::FAST_ZERO } else { 0 })
            }
            Command::BlockStatus { .. } => panic!("its answer is a structured reply"),
        };
        let follows = if command == Command::Read { length } else { 0 };
        assert!(self.in_flight.insert(cookie, follows).is_none(), "a cookie in use");
        header(flags | if fua { flag::FUA } else { 0 }, number, cookie, offset, length)
    }

    /// Returns the request by which a client takes leave. It has no answer.
    pub fn disconnect(&self) -> [u8; 28] {
        header(0, command::DISC, 0, 0, 0)
    }

    /// Takes the requests that were not answered; none will be.
    pub fn take_in_flight(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.in_flight).into_keys().collect()
    }

    /// The caller took bytes of a READ's answer.
    ///
    /// # Panics
    /// If fewer are left.
    pub fn on_payload(&mut self, bytes: u32) {
        let Phase::Payload { left } = &mut self.phase else { panic!("no payload is being taken") };
        *left = left.checked_sub(bytes).expect("no more than the payload was taken");
        if *left == 0 {
            self.phase = Phase::Transmission;
        }
    }

    /// Takes the next step with the bytes that came, and returns how many of them it used.
    ///
    /// # Errors
    /// The server cannot be used; the connection is to be closed.
    ///
    /// # Panics
    /// If a payload is the caller's turn.
    pub fn step(&mut self, input: &[u8]) -> Result<(usize, ClientStep), ClientError> {
        match self.phase {
            Phase::Greeting => self.greeting(input),
            Phase::Go => self.answer(input),
            Phase::Transmission => self.reply(input),
            Phase::Payload { .. } => panic!("the payload comes first"),
        }
    }

    fn greeting(&mut self, input: &[u8]) -> Result<(usize, ClientStep), ClientError> {
        let mut fields = Fields(input);
        let (Some(magic), Some(style), Some(flags)) = (fields.u64(), fields.u64(), fields.u16()) else {
            return Ok((0, ClientStep::More));
        };
        if magic != NBDMAGIC || style != IHAVEOPT || u32::from(flags) & handshake::FIXED_NEWSTYLE == 0 {
            return Err(ClientError::NotNewstyle);
        }
        let known = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;
        self.output.u32(u32::from(flags) & known);
        let mut payload = Vec::new();
        payload.u32(self.export.len() as u32);
        payload.extend_from_slice(self.export.as_bytes());
        payload.u16(1);
        payload.u16(info::BLOCK_SIZE);
        self.output.u64(IHAVEOPT);
        self.output.u32(option::GO);
        self.output.u32(payload.len() as u32);
        self.output.extend_from_slice(&payload);
        self.phase = Phase::Go;
        Ok((18, ClientStep::Continue))
    }

    /// Takes an answer to GO.
    fn answer(&mut self, input: &[u8]) -> Result<(usize, ClientStep), ClientError> {
        let mut fields = Fields(input);
        let (Some(magic), Some(of), Some(kind), Some(length)) =
            (fields.u64(), fields.u32(), fields.u32(), fields.u32())
        else {
            return Ok((0, ClientStep::More));
        };
        if magic != OPTION_REPLY || of != option::GO || length > ANSWER_MAX {
            return Err(ClientError::Broken("what came is no answer to GO"));
        }
        let Some(payload) = fields.bytes(length as usize) else { return Ok((0, ClientStep::More)) };
        self.answers += 1;
        if self.answers > ANSWERS_MAX {
            return Err(ClientError::Broken("GO has too many answers"));
        }
        let used = 20 + payload.len();
        match kind {
            answer::INFO => {
                self.information(payload)?;
                Ok((used, ClientStep::Continue))
            }
            answer::ACK => {
                let (size, flags) = self.told.ok_or(ClientError::Broken("it does not tell the export's size"))?;
                self.phase = Phase::Transmission;
                Ok((used, ClientStep::Opened(remote(size, flags, self.sizes)?)))
            }
            _ => Err(ClientError::Refused(refusal(kind, payload))),
        }
    }

    fn information(&mut self, payload: &[u8]) -> Result<(), ClientError> {
        let mut fields = Fields(payload);
        let broken = ClientError::Broken("an item of information has a wrong length");
        match fields.u16() {
            None => return Err(broken),
            Some(info::EXPORT) => {
                let told = fields.u64().zip(fields.u16()).filter(|_| fields.0.is_empty());
                self.told = Some(told.ok_or(broken)?);
            }
            Some(info::BLOCK_SIZE) => {
                let (Some(block), Some(preferred), Some(payload)) = (fields.u32(), fields.u32(), fields.u32()) else {
                    return Err(broken);
                };
                self.sizes = Some((block, preferred, payload));
            }
            // A server may tell more than it was asked for.
            Some(_) => {}
        }
        Ok(())
    }

    fn reply(&mut self, input: &[u8]) -> Result<(usize, ClientStep), ClientError> {
        let mut fields = Fields(input);
        let (Some(magic), Some(error), Some(cookie)) = (fields.u32(), fields.u32(), fields.u64()) else {
            return Ok((0, ClientStep::More));
        };
        if magic != SIMPLE_REPLY {
            return Err(ClientError::Broken("what came is no simple reply"));
        }
        let length = self.in_flight.remove(&cookie).ok_or(ClientError::Broken("a reply to no request"))?;
        if error != 0 {
            return Ok((16, ClientStep::Reply { cookie, error: Some(NbdError::from_code(error)) }));
        }
        if length == 0 {
            return Ok((16, ClientStep::Reply { cookie, error: None }));
        }
        self.phase = Phase::Payload { left: length };
        Ok((16, ClientStep::Data { cookie, length }))
    }
}

fn header(flags: u16, number: u16, cookie: u64, offset: u64, length: u32) -> [u8; 28] {
    let mut header = Vec::with_capacity(28);
    header.u32(REQUEST);
    header.u16(flags);
    header.u16(number);
    header.u64(cookie);
    header.u64(offset);
    header.u32(length);
    header.try_into().expect("28 bytes")
}

fn remote(size: u64, flags: u16, sizes: Option<(u32, u32, u32)>) -> Result<Remote, ClientError> {
    use crate::option::TransmissionFlags as Bits;
    let (block, preferred, payload) = sizes.unwrap_or((1, 4096, crate::option::Export::PAYLOAD));
    let is_valid = block.is_power_of_two()
        && block <= 64 << 10
        && preferred.is_power_of_two()
        && preferred >= block.max(512)
        && (payload == u32::MAX || (payload >= block && payload.is_multiple_of(block)));
    if !is_valid {
        return Err(ClientError::Broken("its block sizes are not valid"));
    }
    let has = |bit| flags & bit != 0;
    Ok(Remote {
        size,
        read_only: has(Bits::READ_ONLY),
        rotational: has(Bits::ROTATIONAL),
        flush: has(Bits::SEND_FLUSH),
        fua: has(Bits::SEND_FUA),
        trim: has(Bits::SEND_TRIM),
        write_zeroes: has(Bits::SEND_WRITE_ZEROES),
        block,
        preferred,
        payload,
    })
}

/// Returns why GO was refused, in words of the protocol and of the server.
fn refusal(kind: u32, payload: &[u8]) -> String {
    let words = match kind {
        answer::UNSUPPORTED => "it does not know the option GO",
        answer::POLICY => "not for this client",
        answer::TLS_REQUIRED => "it requires TLS",
        answer::UNKNOWN => "no export of this name",
        answer::SHUTDOWN => "it is shutting down",
        answer::BLOCK_SIZE_REQUIRED => "it demands block sizes",
        _ => "the option GO is refused",
    };
    let text: String =
        String::from_utf8_lossy(payload).chars().filter(|letter| !letter.is_control()).take(200).collect();
    if text.is_empty() || text == words { words.to_owned() } else { format!("{words} ({text})") }
}
