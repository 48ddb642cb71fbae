//! The state machine of a connection.

#[cfg(test)]
mod tests;

use crate::option::{
    Asked, BASE_ALLOCATION, Export, Exports, Information, Queries, Refusal, answer_option, string,
};
use crate::reply::{ALLOCATION, ReplyFormat};
use crate::request::{Agreed, Command, Header, Reason, Request};
use crate::wire::{Fields, IHAVEOPT, NBDMAGIC, NbdError, Put, answer, command, handshake, option};

/// The namespace whose contexts a client may list.
const BASE: &str = "base:";
/// Bytes of an option's head.
const OPTION_HEAD: usize = 16;
/// The longest payload of an option that is read. A longer one is read past and refused.
const OPTION_MAX: u32 = 64 << 10;
/// Bytes of options before the transmission, after which a client is sent away. A client that asks
/// for all that is known of each of 65,536 exports needs less.
const OPTION_BYTES_MAX: u64 = 256 << 20;
/// Bytes of a list that are put out at a time. The rest waits until these have been sent.
const LISTED: usize = 64 << 10;
/// The answer to a payload of names that cannot be read.
const MALFORMED: &[u8] =
    b"a length does not fit the payload, or a name is not UTF-8 or too long or has a NUL";

/// What a server demands of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// There is none.
    #[default]
    Off,
    /// A client may ask for it.
    Offered,
    /// Without it a client can only ask for it, or leave.
    Required,
}

/// Settings of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// TLS.
    pub tls: Tls,
    /// Bytes of a WRITE that is refused but still read past, so that the connection goes on; a
    /// longer one ends it. At least [`Export::PAYLOAD`] is not taken for an attack.
    pub drain: u64,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self { tls: Tls::Off, drain: 2 * u64::from(Export::PAYLOAD) }
    }
}

/// What follows from the bytes that were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    More,
    /// Go on with the bytes behind those that were used.
    Continue,
    /// Send the output, do the TLS handshake, then call [`Session::on_tls`].
    StartTls,
    /// The client opened the export of this name; requests follow.
    Opened(String),
    /// A request. Of a WRITE, `length` bytes follow: take them, and tell [`Session::on_payload`].
    Request(Request),
    /// A request was refused; the answer is in the output.
    Refused {
        /// What it asked for, if that is known.
        command: Option<Command>,
        /// Why.
        reason: Reason,
    },
    /// Send the output and answer what is in flight, then close the connection.
    Close(Close),
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Close {
    /// The client is done.
    #[error("the client left")]
    Left,
    /// The client has flags that are not known.
    #[error("not a client of NBD's newstyle: flags {0:#x}")]
    NotNewstyle(u32),
    /// A client of the older, plain newstyle can be answered nothing but EXPORT_NAME.
    #[error("option {0} of a client without fixed newstyle")]
    PlainOption(u32),
    /// What came is no option, or no request.
    #[error("not a message of NBD")]
    BadMagic,
    /// EXPORT_NAME cannot be answered with an error.
    #[error("EXPORT_NAME: {0}")]
    ExportName(Refusal),
    /// Bytes came behind STARTTLS that are not protected.
    #[error("plain bytes behind STARTTLS")]
    PlainBehindTls,
    /// It asked for too much without opening anything.
    #[error("more than {} MiB of options", OPTION_BYTES_MAX >> 20)]
    ManyOptions,
    /// The payload is longer than [`SessionConfig::drain`], or of unknown length.
    #[error("a payload of a length that no request has")]
    Payload,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    ClientFlags,
    Options,
    /// The payload of an option is read past, then it is refused.
    SkipOption {
        left: u64,
        option: u32,
    },
    /// Exports from this place on are still to be listed.
    List {
        from: usize,
    },
    StartTls,
    Transmission,
    /// The caller takes the payload of a WRITE.
    Payload {
        left: u64,
    },
    /// The payload of a request is read past, then it is refused.
    SkipPayload {
        left: u64,
        header: Header,
        why: (Reason, NbdError),
    },
    Closed(Close),
}

/// One connection.
#[derive(Clone, Debug)]
pub struct Session {
    config: SessionConfig,
    phase: Phase,
    /// The client knows answers to options.
    is_fixed: bool,
    no_zeroes: bool,
    is_tls: bool,
    was_refused_without_tls: bool,
    /// Bytes of options that came.
    option_bytes: u64,
    structured: bool,
    extended: bool,
    /// The export whose context was chosen.
    context: Option<String>,
    export: Option<Export>,
    agreed: Agreed,
    output: Vec<u8>,
}

impl Session {
    /// Starts a session; the greeting is in the output.
    pub fn new(config: SessionConfig) -> Self {
        let mut output = Vec::with_capacity(18);
        output.u64(NBDMAGIC);
        output.u64(IHAVEOPT);
        output.u16((handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES) as u16);
        Self {
            config,
            phase: Phase::ClientFlags,
            is_fixed: false,
            no_zeroes: false,
            is_tls: false,
            was_refused_without_tls: false,
            option_bytes: 0,
            structured: false,
            extended: false,
            context: None,
            export: None,
            agreed: Agreed::default(),
            output,
        }
    }

    /// Takes the bytes that are to be sent.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Returns true if bytes are to be sent.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Returns how replies to requests are encoded. It is final once an export was opened.
    pub fn reply_format(&self) -> ReplyFormat {
        ReplyFormat::new(self.agreed)
    }

    /// Returns the export that was opened.
    pub fn export(&self) -> Option<&Export> {
        self.export.as_ref()
    }

    /// Returns true if the connection is protected by TLS.
    pub const fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Returns true if the client was refused something because it has to ask for TLS first.
    pub const fn was_refused_without_tls(&self) -> bool {
        self.was_refused_without_tls
    }

    /// The TLS handshake is done. What was agreed on before is forgotten.
    ///
    /// # Panics
    /// If [`Step::StartTls`] was not returned before.
    pub fn on_tls(&mut self) {
        assert_eq!(self.phase, Phase::StartTls, "no handshake was asked for");
        (self.phase, self.is_tls) = (Phase::Options, true);
        (self.structured, self.extended, self.context) = (false, false, None);
    }

    /// The caller took bytes of a WRITE's payload.
    ///
    /// # Panics
    /// If fewer are left.
    pub fn on_payload(&mut self, bytes: u64) {
        let Phase::Payload { left } = &mut self.phase else { panic!("no payload is being taken") };
        *left = left.checked_sub(bytes).expect("no more than the payload was taken");
        if *left == 0 {
            self.phase = Phase::Transmission;
        }
    }

    /// Takes the next step with the bytes that came, and returns how many of them it used.
    ///
    /// # Panics
    /// If a payload, or the TLS handshake, is the caller's turn.
    pub fn step(&mut self, input: &[u8], exports: &dyn Exports) -> (usize, Step) {
        match self.phase {
            Phase::ClientFlags => self.client_flags(input),
            Phase::Options => self.option(input, exports),
            Phase::SkipOption { left, option } => {
                let (used, left) = skip(input, left);
                self.phase = Phase::SkipOption { left, option };
                if left > 0 {
                    return (used, Step::More);
                }
                self.phase = Phase::Options;
                answer_option(
                    &mut self.output,
                    option,
                    answer::TOO_BIG,
                    b"this option is too long",
                );
                (used, Step::Continue)
            }
            Phase::List { from } => (0, self.list_from(from, exports)),
            Phase::Transmission => self.request(input),
            Phase::SkipPayload { left, header, why } => {
                let (used, left) = skip(input, left);
                self.phase = Phase::SkipPayload { left, header, why };
                if left > 0 {
                    return (used, Step::More);
                }
                self.phase = Phase::Transmission;
                (used, self.refuse(&header, why))
            }
            Phase::Closed(why) => (0, Step::Close(why)),
            Phase::StartTls => panic!("the TLS handshake comes first"),
            Phase::Payload { .. } => panic!("the payload comes first"),
        }
    }

    fn close(&mut self, used: usize, why: Close) -> (usize, Step) {
        self.phase = Phase::Closed(why);
        (used, Step::Close(why))
    }

    fn client_flags(&mut self, input: &[u8]) -> (usize, Step) {
        let Some(flags) = Fields(input).u32() else { return (0, Step::More) };
        let known = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;
        if flags & !known != 0 {
            return self.close(4, Close::NotNewstyle(flags));
        }
        self.is_fixed = flags & handshake::FIXED_NEWSTYLE != 0;
        self.no_zeroes = flags & handshake::NO_ZEROES != 0;
        self.phase = Phase::Options;
        (4, Step::Continue)
    }

    fn option(&mut self, input: &[u8], exports: &dyn Exports) -> (usize, Step) {
        let mut fields = Fields(input);
        let (Some(magic), Some(kind), Some(length)) = (fields.u64(), fields.u32(), fields.u32())
        else {
            return (0, Step::More);
        };
        if magic != IHAVEOPT {
            return self.close(0, Close::BadMagic);
        }
        if self.option_bytes + u64::from(length) > OPTION_BYTES_MAX {
            return self.close(0, Close::ManyOptions);
        }
        if !self.is_fixed && kind != option::EXPORT_NAME {
            let why = if kind == option::ABORT { Close::Left } else { Close::PlainOption(kind) };
            return self.close(0, why);
        }
        if length > OPTION_MAX {
            if kind == option::EXPORT_NAME {
                return self.close(0, Close::ExportName(Refusal::Unknown));
            }
            self.option_bytes += u64::from(length) + OPTION_HEAD as u64;
            self.phase = Phase::SkipOption { left: length.into(), option: kind };
            return (OPTION_HEAD, Step::Continue);
        }
        let Some(payload) = fields.bytes(length as usize) else { return (0, Step::More) };
        let used = OPTION_HEAD + payload.len();
        self.option_bytes += used as u64;
        let step = self.answer(kind, payload, exports);
        if step == Step::StartTls && used < input.len() {
            return self.close(used, Close::PlainBehindTls);
        }
        (used, step)
    }

    /// Answers an option.
    fn answer(&mut self, kind: u32, payload: &[u8], exports: &dyn Exports) -> Step {
        let needs_tls = self.config.tls == Tls::Required && !self.is_tls;
        self.was_refused_without_tls |=
            needs_tls && !matches!(kind, option::ABORT | option::STARTTLS);
        match kind {
            option::ABORT => {
                self.reply(kind, answer::ACK, b"");
                self.close(0, Close::Left).1
            }
            option::STARTTLS => self.start_tls(payload),
            option::EXPORT_NAME if needs_tls => {
                self.close(0, Close::ExportName(Refusal::NeedsTls)).1
            }
            _ if needs_tls => self.reply(kind, answer::TLS_REQUIRED, b"ask for STARTTLS first"),
            option::EXPORT_NAME => self.export_name(payload, exports),
            option::LIST => self.list(payload, exports),
            option::INFO | option::GO => self.info(kind, payload, exports),
            option::STRUCTURED_REPLY | option::EXTENDED_HEADERS if !payload.is_empty() => {
                self.reply(kind, answer::INVALID, b"this option has no payload")
            }
            option::STRUCTURED_REPLY => {
                self.structured = true;
                self.reply(kind, answer::ACK, b"")
            }
            option::EXTENDED_HEADERS => {
                (self.structured, self.extended) = (true, true);
                self.reply(kind, answer::ACK, b"")
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(kind, payload, exports)
            }
            _ => self.reply(kind, answer::UNSUPPORTED, b"this option is not known"),
        }
    }

    fn reply(&mut self, option: u32, kind: u32, payload: &[u8]) -> Step {
        answer_option(&mut self.output, option, kind, payload);
        Step::Continue
    }

    fn start_tls(&mut self, payload: &[u8]) -> Step {
        let kind = option::STARTTLS;
        if self.config.tls == Tls::Off {
            return self.reply(kind, answer::UNSUPPORTED, b"this server has no TLS");
        }
        if self.is_tls || !payload.is_empty() {
            return self.reply(kind, answer::INVALID, b"STARTTLS comes once, without a payload");
        }
        self.reply(kind, answer::ACK, b"");
        self.phase = Phase::StartTls;
        Step::StartTls
    }

    fn list(&mut self, payload: &[u8], exports: &dyn Exports) -> Step {
        if !payload.is_empty() {
            return self.reply(option::LIST, answer::INVALID, b"LIST has no payload");
        }
        self.list_from(0, exports)
    }

    /// Lists exports from a place on, so many that what is put out stays bounded.
    fn list_from(&mut self, mut from: usize, exports: &dyn Exports) -> Step {
        while let Some((place, name)) = exports.listed(from) {
            let mut server = Vec::new();
            server.string(&name);
            server.extend_from_slice(exports.description(&name).as_bytes());
            self.reply(option::LIST, answer::SERVER, &server);
            from = place + 1;
            if self.output.len() >= LISTED {
                self.phase = Phase::List { from };
                return Step::Continue;
            }
        }
        self.phase = Phase::Options;
        self.reply(option::LIST, answer::ACK, b"")
    }

    fn export_name(&mut self, payload: &[u8], exports: &dyn Exports) -> Step {
        let Some(name) = string(payload) else {
            return self.close(0, Close::ExportName(Refusal::Unknown)).1;
        };
        match exports.open(name) {
            Ok(export) => {
                self.output.u64(export.size);
                self.output.u16(export.flags.word(self.structured));
                if !self.no_zeroes {
                    self.output.extend_from_slice(&[0; 124]);
                }
                self.open(name, export)
            }
            Err(refusal) => self.close(0, Close::ExportName(refusal)).1,
        }
    }

    fn info(&mut self, kind: u32, payload: &[u8], exports: &dyn Exports) -> Step {
        let Some(asked) = Asked::parse(payload) else {
            return self.reply(kind, answer::INVALID, MALFORMED);
        };
        let refuse = |session: &mut Self, why: Refusal| {
            session.reply(kind, why.answer(), why.to_string().as_bytes())
        };
        let export = match exports.export(asked.name) {
            Ok(export) => export,
            Err(why) => return refuse(self, why),
        };
        let export = if kind == option::GO { exports.open(asked.name) } else { Ok(export) };
        let export = match export {
            Ok(export) => export,
            Err(why) => return refuse(self, why),
        };
        asked.answer(
            &mut self.output,
            kind,
            (&exports.listed_name(asked.name), &export),
            self.structured,
        );
        self.reply(kind, answer::ACK, b"");
        if kind == option::INFO {
            return Step::Continue;
        }
        self.agreed.blocks = asked.items.contains(&Information::BlockSize);
        self.open(asked.name, export)
    }

    fn open(&mut self, name: &str, export: Export) -> Step {
        debug_assert!(export.is_valid(), "{export:?}");
        self.agreed = Agreed {
            structured: self.structured,
            extended: self.extended,
            allocation: self.context.as_deref() == Some(name),
            ..self.agreed
        };
        self.export = Some(export);
        self.phase = Phase::Transmission;
        Step::Opened(name.to_owned())
    }

    fn contexts(&mut self, kind: u32, payload: &[u8], exports: &dyn Exports) -> Step {
        let is_set = kind == option::SET_META_CONTEXT;
        if is_set {
            self.context = None;
        }
        if !self.structured {
            return self.reply(kind, answer::INVALID, b"ask for structured replies first");
        }
        let Some(Queries { name, queries }) = Queries::parse(payload) else {
            return self.reply(kind, answer::INVALID, MALFORMED);
        };
        if let Err(refusal) = exports.export(name) {
            return self.reply(kind, refusal.answer(), refusal.to_string().as_bytes());
        }
        let is_listed = |query: &&str| *query == BASE_ALLOCATION || (!is_set && *query == BASE);
        if queries.iter().any(is_listed) || (!is_set && queries.is_empty()) {
            let mut context = Vec::new();
            // The number means something in an answer to SET only.
            context.u32(if is_set { ALLOCATION } else { 0 });
            context.extend_from_slice(BASE_ALLOCATION.as_bytes());
            self.reply(kind, answer::META_CONTEXT, &context);
            if is_set {
                self.context = Some(name.to_owned());
            }
        }
        self.reply(kind, answer::ACK, b"")
    }

    fn request(&mut self, input: &[u8]) -> (usize, Step) {
        let extended = self.agreed.extended;
        let header = match Header::parse(input, extended) {
            None => return (0, Step::More),
            Some(Err(_)) => return self.close(0, Close::BadMagic),
            Some(Ok(header)) => header,
        };
        let used = Header::size(extended);
        if header.command == command::DISC {
            return self.close(used, Close::Left);
        }
        let Some(payload) = header.payload(extended) else {
            return self.close(used, Close::Payload);
        };
        let export = self.export.as_ref().expect("an export is open");
        let request = match header.check(export, self.agreed) {
            Ok(request) => request,
            Err(_) if payload > self.config.drain => return self.close(used, Close::Payload),
            Err(why) if payload > 0 => {
                self.phase = Phase::SkipPayload { left: payload, header, why };
                return (used, Step::Continue);
            }
            Err(why) => return (used, self.refuse(&header, why)),
        };
        if header.command != command::FLUSH && request.length == 0 {
            // Nothing is to be done.
            self.reply_format().done(&mut self.output, &request);
            return (used, Step::Continue);
        }
        if payload > 0 {
            self.phase = Phase::Payload { left: payload };
        }
        (used, Step::Request(request))
    }

    /// Answers a request that is not valid.
    fn refuse(&mut self, header: &Header, (reason, error): (Reason, NbdError)) -> Step {
        let in_chunks = matches!(header.command, command::READ | command::BLOCK_STATUS);
        let of = (header.cookie, header.offset, header.length);
        self.reply_format().error_of(&mut self.output, of, in_chunks, error, "");
        Step::Refused { command: header.asked(), reason }
    }
}

/// Returns how many bytes are read past, and how many are left after that.
fn skip(input: &[u8], left: u64) -> (usize, u64) {
    let used = (input.len() as u64).min(left);
    (used as usize, left - used)
}
