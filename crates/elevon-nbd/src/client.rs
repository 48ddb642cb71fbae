//! The client's side of the protocol as a state machine without I/O.

mod answers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::option::BASE_ALLOCATION;
use crate::reply::Extent;
use crate::request::Command;
use crate::wire::{
    Fields, IHAVEOPT, NBDMAGIC, NbdError, OPTION_REPLY, Put, REQUEST, answer, command, flag,
    handshake, info, option,
};
use answers::Awaited;

/// The longest payload of an answer to an option.
const ANSWER_MAX: u32 = 64 << 10;
/// Answers to an option, after which a server is left.
const ANSWERS_MAX: u32 = 1024;

/// A disk that a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Bytes, below 2^63.
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
    /// A flush on one connection covers what was answered on every other.
    pub multi_conn: bool,
    /// It takes BLOCK_STATUS: it tells what is allocated.
    pub allocation: bool,
    /// Offsets and lengths are multiples of it: a power of two up to 64 KiB; 1 if the server did
    /// not say.
    pub block: u32,
    /// The size in bytes at which requests are served best.
    pub preferred: u32,
    /// The most bytes that a READ or WRITE moves.
    pub payload: u32,
}

/// What follows from the bytes that were given. The answer to a request has any number of
/// [`Self::Data`], [`Self::Zeroes`] and [`Self::Extents`], and one [`Self::Reply`], which is the
/// last. An answer that contradicts the protocol, or lacks something, fails its request alone, as
/// long as it is known where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientStep {
    /// More bytes are needed.
    More,
    /// Go on with the bytes behind those that were used.
    Continue,
    /// Do the TLS handshake, then call [`Client::on_tls`].
    StartTls,
    /// The export is open; requests can be sent.
    Opened(Remote),
    /// A request has finished. All bytes of a READ that succeeded came before, each once.
    Reply {
        /// The request.
        cookie: u64,
        /// Why it failed.
        error: Option<NbdError>,
        /// Of a READ that failed: bytes from its first on that came nevertheless, and are good.
        good: u32,
    },
    /// Bytes of a READ. They follow: take them, and tell [`Client::on_payload`].
    Data {
        /// The request.
        cookie: u64,
        /// The first byte within the request.
        at: u32,
        /// Bytes.
        length: u32,
    },
    /// Bytes of a READ that are zero, and do not follow.
    Zeroes {
        /// The request.
        cookie: u64,
        /// The first byte within the request.
        at: u32,
        /// Bytes.
        length: u32,
    },
    /// What is allocated from the offset of a BLOCK_STATUS on, one after the other; at least one.
    /// They may end before the request does, or after.
    Extents {
        /// The request.
        cookie: u64,
        /// The extents.
        extents: Vec<Extent>,
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
    /// The answer to an option comes.
    Option(u32),
    StartTls,
    Transmission,
    /// The caller takes bytes of a READ.
    Payload {
        left: u32,
        /// The request that has finished after that.
        ends: Option<u64>,
    },
    /// Bytes of a chunk that is of no use.
    Skipped {
        left: u32,
        /// The request that has finished after that.
        ends: Option<u64>,
    },
    /// A request has finished.
    End(u64),
}

/// One connection to a server, to open one export. Asks for structured replies and for what is
/// allocated, and goes on without them.
#[derive(Clone, Debug)]
pub struct Client {
    phase: Phase,
    export: String,
    is_tls: bool,
    answers: u32,
    structured: bool,
    /// The server's number of the context `base:allocation`.
    context: Option<u32>,
    /// Size and flags, once they were told.
    told: Option<(u64, u16)>,
    sizes: Option<(u32, u32, u32)>,
    in_flight: BTreeMap<u64, Awaited>,
    output: Vec<u8>,
}

impl Client {
    /// Starts a connection, to open the export of this name; `is_tls`: through TLS, without which
    /// the server is left.
    ///
    /// # Panics
    /// If the name is longer than 4096 bytes.
    pub fn new(export: &str, is_tls: bool) -> Self {
        assert!(export.len() <= 4096, "a name of the protocol");
        Self {
            phase: Phase::Greeting,
            export: export.to_owned(),
            is_tls,
            answers: 0,
            structured: false,
            context: None,
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

    /// The TLS handshake is done.
    ///
    /// # Panics
    /// If [`ClientStep::StartTls`] was not returned before.
    pub fn on_tls(&mut self) {
        assert_eq!(self.phase, Phase::StartTls, "no handshake was asked for");
        self.ask(option::STRUCTURED_REPLY, b"");
    }

    /// Returns the header of a request, behind which a WRITE's bytes are to be sent. `cookie` is
    /// that of no request in flight.
    ///
    /// # Panics
    /// If no export is open, the cookie is in use, or the command is BLOCK_STATUS and
    /// [`Remote::allocation`] false.
    pub fn request(
        &mut self,
        cookie: u64,
        command: Command,
        offset: u64,
        length: u32,
        fua: bool,
    ) -> [u8; 28] {
        use Phase::{End, Payload, Skipped, Transmission};
        let is_open = matches!(self.phase, Transmission | Payload { .. } | Skipped { .. } | End(_));
        assert!(is_open, "no export is open");
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
            Command::BlockStatus { one } => {
                assert!(self.context.is_some(), "the server tells what is allocated");
                (command::BLOCK_STATUS, if one { flag::REQ_ONE } else { 0 })
            }
        };
        let awaited = Awaited::new(command, offset, length);
        assert!(self.in_flight.insert(cookie, awaited).is_none(), "a cookie in use");
        header(flags | if fua { flag::FUA } else { 0 }, number, cookie, offset, length)
    }

    /// Returns the request by which a client takes leave. It has no answer.
    pub fn disconnect(&self) -> [u8; 28] {
        header(0, command::DISC, 0, 0, 0)
    }

    /// Returns how many requests were not answered.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
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
        let Phase::Payload { left, ends } = &mut self.phase else {
            panic!("no payload is being taken")
        };
        *left = left.checked_sub(bytes).expect("no more than the payload was taken");
        if *left == 0 {
            self.phase = ends.map_or(Phase::Transmission, Phase::End);
        }
    }

    /// Takes the next step with the bytes that came, and returns how many of them it used.
    ///
    /// # Errors
    /// The server cannot be used; the connection is to be closed.
    ///
    /// # Panics
    /// If a payload, or the TLS handshake, is the caller's turn.
    pub fn step(&mut self, input: &[u8]) -> Result<(usize, ClientStep), ClientError> {
        match self.phase {
            Phase::Greeting => self.greeting(input),
            Phase::Option(asked) => self.answer(asked, input),
            Phase::Transmission => self.reply(input),
            Phase::Skipped { left, ends } => Ok(self.skipped(left, ends, input)),
            Phase::End(cookie) => Ok((0, self.end(cookie))),
            Phase::StartTls => panic!("the TLS handshake comes first"),
            Phase::Payload { .. } => panic!("the payload comes first"),
        }
    }

    fn greeting(&mut self, input: &[u8]) -> Result<(usize, ClientStep), ClientError> {
        let mut fields = Fields(input);
        let (Some(magic), Some(style), Some(flags)) = (fields.u64(), fields.u64(), fields.u16())
        else {
            return Ok((0, ClientStep::More));
        };
        if magic != NBDMAGIC
            || style != IHAVEOPT
            || u32::from(flags) & handshake::FIXED_NEWSTYLE == 0
        {
            return Err(ClientError::NotNewstyle);
        }
        let known = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;
        self.output.u32(u32::from(flags) & known);
        self.ask(if self.is_tls { option::STARTTLS } else { option::STRUCTURED_REPLY }, b"");
        Ok((18, ClientStep::Continue))
    }

    fn ask(&mut self, option: u32, payload: &[u8]) {
        self.output.u64(IHAVEOPT);
        self.output.u32(option);
        self.output.u32(payload.len() as u32);
        self.output.extend_from_slice(payload);
        self.phase = Phase::Option(option);
    }

    fn ask_for_allocation(&mut self) {
        let mut payload = Vec::new();
        payload.string(&self.export);
        payload.u32(1);
        payload.string(BASE_ALLOCATION);
        self.ask(option::SET_META_CONTEXT, &payload);
    }

    fn go(&mut self) {
        let mut payload = Vec::new();
        payload.string(&self.export);
        payload.u16(1);
        payload.u16(info::BLOCK_SIZE);
        self.ask(option::GO, &payload);
    }

    /// Takes an answer to an option.
    fn answer(&mut self, asked: u32, input: &[u8]) -> Result<(usize, ClientStep), ClientError> {
        let mut fields = Fields(input);
        let (Some(magic), Some(of), Some(kind), Some(length)) =
            (fields.u64(), fields.u32(), fields.u32(), fields.u32())
        else {
            return Ok((0, ClientStep::More));
        };
        if magic != OPTION_REPLY || of != asked || length > ANSWER_MAX {
            return Err(ClientError::Broken("what came is no answer to the option"));
        }
        let Some(payload) = fields.bytes(length as usize) else { return Ok((0, ClientStep::More)) };
        self.answers += 1;
        if self.answers > ANSWERS_MAX {
            return Err(ClientError::Broken("an option has too many answers"));
        }
        let used = 20 + payload.len();
        let is_error = kind & answer::ERROR != 0;
        match (asked, kind) {
            (option::GO, answer::INFO) => self.information(payload)?,
            (option::GO, answer::ACK) => {
                let (size, flags) =
                    self.told.ok_or(ClientError::Broken("it does not tell the export's size"))?;
                let mut remote = remote(size, flags, self.sizes)?;
                remote.allocation = self.context.is_some();
                self.phase = Phase::Transmission;
                return Ok((used, ClientStep::Opened(remote)));
            }
            (option::STARTTLS, answer::ACK) if used < input.len() => {
                return Err(ClientError::Broken("plain bytes behind STARTTLS"));
            }
            (option::STARTTLS, answer::ACK) => {
                self.phase = Phase::StartTls;
                return Ok((used, ClientStep::StartTls));
            }
            (option::STRUCTURED_REPLY, answer::ACK) => {
                self.structured = true;
                self.ask_for_allocation();
            }
            (option::SET_META_CONTEXT, answer::META_CONTEXT) => self.chosen(payload)?,
            (option::SET_META_CONTEXT, answer::ACK) => self.go(),
            // The protocol goes on without what these ask for.
            (option::STRUCTURED_REPLY | option::SET_META_CONTEXT, _)
                if is_error && kind != answer::TLS_REQUIRED && kind != answer::SHUTDOWN =>
            {
                self.context = None;
                self.go();
            }
            _ if is_error => return Err(ClientError::Refused(refusal(asked, kind, payload))),
            _ => return Err(ClientError::Broken("the option has no such answer")),
        }
        Ok((used, ClientStep::Continue))
    }

    /// Takes the number of the context.
    fn chosen(&mut self, payload: &[u8]) -> Result<(), ClientError> {
        let mut fields = Fields(payload);
        match fields.u32() {
            Some(number) if fields.0 == BASE_ALLOCATION.as_bytes() => self.context = Some(number),
            _ => return Err(ClientError::Broken("it chooses a context that was not asked for")),
        }
        Ok(())
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
                let (Some(block), Some(preferred), Some(payload)) =
                    (fields.u32(), fields.u32(), fields.u32())
                else {
                    return Err(broken);
                };
                self.sizes = Some((block, preferred, payload));
            }
            // A server may tell more than it was asked for.
            Some(_) => {}
        }
        Ok(())
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
    // As the kernel's offsets.
    if size > i64::MAX as u64 {
        return Err(ClientError::Broken("its export has 2^63 bytes or more"));
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
        multi_conn: has(Bits::CAN_MULTI_CONN),
        allocation: false,
        block,
        preferred,
        payload,
    })
}

/// Returns why an option was refused, in words of the protocol and of the server.
fn refusal(asked: u32, kind: u32, payload: &[u8]) -> String {
    let words = match kind {
        answer::UNSUPPORTED | answer::POLICY if asked == option::STARTTLS => "it has no TLS",
        answer::UNSUPPORTED => "it does not know the option GO",
        answer::POLICY => "not for this client",
        answer::TLS_REQUIRED => "it requires TLS",
        answer::UNKNOWN => "no export of this name",
        answer::SHUTDOWN => "it is shutting down",
        answer::BLOCK_SIZE_REQUIRED => "it demands block sizes",
        _ if asked == option::STARTTLS => "TLS is refused",
        _ => "the option GO is refused",
    };
    let text: String = String::from_utf8_lossy(payload)
        .chars()
        .filter(|letter| !letter.is_control())
        .take(200)
        .collect();
    if text.is_empty() || text == words { words.to_owned() } else { format!("{words} ({text})") }
}
