//! The transmission phase of NBD: requests and replies.

use std::io;

use elevon_core::ioprio::IoPrio;
use elevon_core::status::Status;
use elevon_nbd::{
    Close, Command, Export, Exports, NbdError, Reason, Refusal, ReplyFormat, Request, Session,
};

use crate::net::protocol::{Answer, Protocol, Step};
use crate::request::{DiskRequest, Extent, MAX_PAYLOAD, Operation, RequestRefusal};

const _: () = assert!(Export::PAYLOAD as u64 == MAX_PAYLOAD);

/// A session that has opened an export.
pub(crate) struct Transmission {
    session: Session,
    format: ReplyFormat,
}

impl Transmission {
    pub(crate) fn new(session: Session) -> Self {
        Self { format: session.reply_format(), session }
    }
}

/// The exports of a session that has opened one: it asks for no other.
struct NoOthers;

impl Exports for NoOthers {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
    fn export(&self, _name: &str) -> Result<Export, Refusal> {
        Err(Refusal::Unknown)
    }
}

impl Protocol for Transmission {
    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Step) {
        let (used, step) = self.session.step(input, &NoOthers);
        if self.session.has_output() {
            out.extend(self.session.take_output());
        }
        let step = match step {
            elevon_nbd::Step::Continue => Step::Continue,
            elevon_nbd::Step::More => Step::More,
            elevon_nbd::Step::Request(request) => Step::Request(request_of(&request)),
            elevon_nbd::Step::Refused { command, reason } => {
                Step::Refused { operation: command.map(operation_of), reason: refusal_of(reason) }
            }
            elevon_nbd::Step::Close(Close::Left) => Step::Leave,
            elevon_nbd::Step::Close(why) => {
                Step::Fail(io::Error::new(io::ErrorKind::InvalidData, why))
            }
            elevon_nbd::Step::Opened(_) | elevon_nbd::Step::StartTls => {
                unreachable!("an export is open")
            }
        };
        (used, step)
    }

    fn on_payload(&mut self, bytes: u64) {
        self.session.on_payload(bytes);
    }

    fn answer(&self, out: &mut Vec<u8>, request: &DiskRequest, answer: Answer<'_>) {
        let (format, request) = (self.format, nbd_request(request));
        match answer {
            Answer::Done => format.done(out, &request),
            Answer::DataFollows => format.data_follows(out, &request),
            Answer::Extents(extents) => {
                let extents: Vec<_> = extents.iter().map(nbd_extent).collect();
                format.extents(out, &request, &extents);
            }
            Answer::Failed(status) => {
                format.error(out, &request, NbdError::from_errno(status.errno()), "");
            }
        }
    }

    fn errno_name(&self, status: Status) -> &'static str {
        match NbdError::from_errno(status.errno()) {
            NbdError::Permission => "EPERM",
            NbdError::Io => "EIO",
            NbdError::NoMemory => "ENOMEM",
            NbdError::Invalid => "EINVAL",
            NbdError::NoSpace => "ENOSPC",
            NbdError::Overflow => "EOVERFLOW",
            NbdError::Unsupported => "ENOTSUP",
            NbdError::Shutdown => "ESHUTDOWN",
        }
    }
}

fn request_of(request: &Request) -> DiskRequest {
    let &Request { cookie, command, offset, length, fua, .. } = request;
    let (operation, ioprio) = (operation_of(command), IoPrio::NONE);
    DiskRequest { operation, offset, length, fua, tag: cookie, ioprio }
}

/// Returns a request as its reply needs it. The data of a READ is always sent in one chunk.
const fn nbd_request(request: &DiskRequest) -> Request {
    let &DiskRequest { operation, offset, length, fua, tag, .. } = request;
    let command = match operation {
        Operation::Read => Command::Read,
        Operation::Write => Command::Write,
        Operation::Flush => Command::Flush,
        Operation::Trim => Command::Trim,
        Operation::Cache => Command::Cache,
        Operation::WriteZeroes { no_hole, fast } => Command::WriteZeroes { no_hole, fast },
        Operation::BlockStatus { one } => Command::BlockStatus { one },
    };
    Request { cookie: tag, command, offset, length, fua, df: false }
}

const fn nbd_extent(extent: &Extent) -> elevon_nbd::Extent {
    let &Extent { length, hole, zero } = extent;
    elevon_nbd::Extent { length, hole, zero }
}

const fn operation_of(command: Command) -> Operation {
    match command {
        Command::Read => Operation::Read,
        Command::Write => Operation::Write,
        Command::Flush => Operation::Flush,
        Command::Trim => Operation::Trim,
        Command::Cache => Operation::Cache,
        Command::WriteZeroes { no_hole, fast } => Operation::WriteZeroes { no_hole, fast },
        Command::BlockStatus { one } => Operation::BlockStatus { one },
    }
}

const fn refusal_of(reason: Reason) -> RequestRefusal {
    match reason {
        Reason::Command => RequestRefusal::Command,
        Reason::Malformed => RequestRefusal::Malformed,
        Reason::ReadOnly => RequestRefusal::ReadOnly,
        Reason::Unaligned => RequestRefusal::Unaligned,
        Reason::OutOfRange => RequestRefusal::OutOfRange,
        Reason::TooLong => RequestRefusal::TooLong,
    }
}
